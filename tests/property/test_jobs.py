"""A configuration of anything at all becomes a job that survives every form, or is refused by the library."""

import tomllib
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

import inid
from inid.jobs import Job, job_keys

NOTHING = st.none() | st.booleans() | st.binary(max_size=3)
SCALARS = NOTHING | st.integers() | st.floats() | st.decimals() | st.text(max_size=5)


def nested(inner):
    """Lists and dictionaries of something."""
    return st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3)


ANYTHING = st.recursive(SCALARS, nested)
ORDINARY = {"table": "a.csv", "mean": ["x"], "bounds": {"x": [0, 1]}, "epsilon": 1}
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
NUMBERS = st.floats(-1e6, 1e6) | st.integers(-(10**6), 10**6)
LISTS = st.lists(NAMES, min_size=1, max_size=3, unique=True)
KEYLISTS = st.lists(NAMES, min_size=1, max_size=3) | st.lists(st.integers(-99, 99), min_size=1, max_size=3)
INTERVALS = st.tuples(NUMBERS, NUMBERS).filter(lambda pair: pair[0] < pair[1]).map(list)
GOOD = st.fixed_dictionaries(
    {
        "table": NAMES.filter(lambda name: "\0" not in name),
        "mean": LISTS,
        "bounds": st.dictionaries(NAMES, INTERVALS, min_size=1, max_size=3),
    },
    optional={
        "count": st.booleans(),
        "sum": LISTS,
        "by": st.dictionaries(NAMES, KEYLISTS, max_size=2),
        "histogram": st.dictionaries(NAMES, KEYLISTS, max_size=2),
        "missing": st.dictionaries(NAMES, NAMES | NUMBERS, max_size=2),
        "tolerance": st.dictionaries(NAMES, NUMBERS, min_size=1, max_size=2),
        "rows": st.integers(1, 10**6),
        "epsilon": st.decimals(Decimal("0.01"), Decimal(10), places=2),
        "label": st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=6),  # others are refused
        "ledger": st.sampled_from(["budget.db", "a b.db", "postgresql://ann:pw@db/x"]),
        "level": st.sampled_from([0.5, 0.9, 0.95]),
    },
)


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(st.sampled_from([*job_keys(), "colour"]), ANYTHING, min_size=1, max_size=2))
def test_anything_is_a_job_or_refused_in_a_sentence(values):
    try:
        job = Job.from_dict(ORDINARY | values)
    except inid.InidError:
        return
    assert Job.from_dict(job.to_dict()) == job


@settings(max_examples=200, deadline=None)
@given(GOOD)
def test_a_job_survives_its_file_and_makes_a_script_that_compiles(values):
    job = Job.from_dict(values)
    assert Job.from_dict(job.to_dict()) == job
    assert Job.from_dict(tomllib.loads(job.to_toml())) == job
    compile(job.to_python(), "job.py", "exec")
    try:
        line = job.to_command()
    except inid.ArgumentError:
        return
    assert line.startswith("inid release ")
