"""One job in all its forms: flags, file, form and command state the same, for generated jobs of all kinds."""

import json
import tomllib
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

import inid
from command_line import flags
from example_counts import examples
from inid.cli import STREAM_COMMANDS, job_from
from inid.jobs import STREAM_KEYS, Job, job_keys, stream_as_command
from inid.schema import keys
from inid.studio import form_of, job_values

# Names as people give them, and some that no flag can hold.
COLUMNS = st.sampled_from(["age", "sex", "home region", "income_2", "Größe", "a=b", "x,y"])
TEXTS = st.sampled_from(["F", "M", "1", "02", "north west", "it's", "0:3", "é"])
NUMBERS = st.integers(-1000, 1000) | st.decimals(-1000, 1000, places=2).map(float)
ABOVE = st.integers(1, 1000) | st.decimals(Decimal("0.01"), 1000, places=2).map(float)
SHARES = st.sampled_from([0.05, 0.25, 0.5, 0.95])
KEYS = st.lists(TEXTS, min_size=1, max_size=3, unique=True) | st.lists(
    st.integers(-9, 9), min_size=1, max_size=3, unique=True
).map(sorted)
NAMES = st.lists(COLUMNS, min_size=1, max_size=3, unique=True)
TABLES = st.lists(st.lists(st.sampled_from(["sex", "home region"]), min_size=1, max_size=2, unique=True), min_size=1)
GROUPINGS = st.lists(st.lists(st.sampled_from(["sex", "home region"]), max_size=2, unique=True), max_size=2)
DOMAINS = st.fixed_dictionaries({"sex": KEYS, "home region": KEYS})


def by_column(entry, least=0):
    """Something by column."""
    return st.dictionaries(COLUMNS, entry, min_size=least, max_size=2)


LIMITS = by_column(st.tuples(NUMBERS, ABOVE).map(lambda pair: [pair[0], pair[0] + pair[1]]))
FACTS = {
    "bounds": LIMITS,
    "missing": by_column(TEXTS | NUMBERS),
    "where": st.just("age >= 18 and sex in ['F', 'M']"),
    "derive": st.just({"double": "age * 2", "late": "when(age > 3, 'late', 'early')"}),
    "separator": st.sampled_from(["semicolon", "tab"]),
    "decimal": st.just("comma"),
    "thousands": st.sampled_from(["point", "space"]),
    "encoding": st.sampled_from(["utf-16", "windows-1252"]),
    "types": st.just({"age": "number", "sex": "code"}),
    "rows": st.integers(1, 10**6),
    "table_max_rows": st.integers(1, 10**9),
    "neighbours": st.sampled_from(["add_remove", "replace", "zero_out"]),
    "label": st.just("a note"),
    "level": SHARES,
    "ledger": st.sampled_from(["budget.db", "a b.db"]),
    "name": st.just("survey"),
    "out": st.just("result.csv"),
    "mechanism": st.sampled_from(["gaussian", "laplace"]),
    "order": st.integers(1, 4),
    "tolerance": by_column(ABOVE, 1),
    "weights": by_column(ABOVE, 1),
    "allocation": st.sampled_from(["iid", "spr"]),
    "too_noisy": SHARES | st.just("off"),
    "drawn": SHARES,
    "called": st.just({"age": "Age, years", "sex:1": "men = M", "0:3": "a; b"}) | st.just({"sex": "gender"}),
    "rows_are": st.sampled_from(["people", "single homes"]),
}
PEOPLE = st.fixed_dictionaries(
    {"person": COLUMNS, "max_rows": st.integers(1, 9)},
    optional={"order_by": st.just(["day", "hour"]), "unit": st.just("people")},
)
PROMISES = st.one_of(
    st.fixed_dictionaries({"epsilon": ABOVE}),
    st.fixed_dictionaries({"epsilon": ABOVE, "delta": st.just(1e-6)}),
    st.fixed_dictionaries({"mu": ABOVE}),
    st.fixed_dictionaries({"rho": ABOVE}),
    st.fixed_dictionaries({"part": st.sampled_from(["1/3", "rest", "0.25"]), "ledger": st.just("budget.db")}),
)
STATISTICS = st.fixed_dictionaries(
    {"count": st.just(True)},
    optional={
        **dict.fromkeys(["sum", "mean", "variance", "std", "covariance"], NAMES),
        "histogram": by_column(KEYS | st.lists(NUMBERS, min_size=2, max_size=4)),
        "by": by_column(KEYS),
    },
)
BY_TABLES = st.fixed_dictionaries(
    {"domains": DOMAINS, "count": st.just(True), "by": TABLES},
    optional={
        "mean": st.dictionaries(st.sampled_from(["age", "income_2"]), TABLES, min_size=1),
        "sum": st.just(["age"]),
        "marginals": TABLES | st.integers(1, 2),
        "other": st.just("drop"),
        "objective": st.sampled_from(["max", "sum"]),
        "tidy": st.just(True),
        "combine": st.just({"gap": "count(sex='F') - count(sex='M')"}),
    },
)
ORDERED = st.fixed_dictionaries(
    {"quantile": by_column(st.lists(SHARES, min_size=1, max_size=3, unique=True), 1), "domains": DOMAINS},
    optional={"cdf": by_column(GROUPINGS), "cumulative": by_column(GROUPINGS)},
)
FOUND = st.fixed_dictionaries(
    {"discover": COLUMNS, "discover_delta": st.just(1e-8)},
    optional={"max_keys": st.integers(1, 3), "discover_kind": st.sampled_from(["int", "bool"]), "count": st.just(True)},
)
CHOSEN = st.fixed_dictionaries({"choose": by_column(KEYS, 1)})
SYNTHETIC = st.fixed_dictionaries(
    {"synthetic": st.just(True), "domains": DOMAINS},
    optional={
        "synthetic_columns": NAMES,
        "synthetic_target": COLUMNS,
        "synthetic_triples": st.just(True),
        "synthetic_heaps": by_column(st.lists(st.integers(0, 99), min_size=1, max_size=3, unique=True), 1),
        "synthetic_rules": st.just(["age <= 60", "not (sex == 'a, b' and age < 14)"]) | st.just(["sex == ';'"]),
        "bins": by_column(st.integers(1, 99).map(lambda number: [number]) | st.just([0, 17.5, 100])),
        "rows_out": st.just("made.csv"),
    },
)
QUESTIONS = st.one_of(STATISTICS, BY_TABLES, ORDERED, FOUND, CHOSEN, SYNTHETIC)
OF_A_TABLE = st.builds(
    lambda question, facts, people, promise: {"table": "people.csv"} | facts | question | people | promise,
    QUESTIONS,
    st.fixed_dictionaries({}, optional=FACTS),
    st.just({}) | PEOPLE,
    PROMISES,
)
TOP = ("domains", "bins", "other")  # of a question's strategy: facts of the table
OWN = {
    "where": FACTS["where"],
    "derive": st.just({"half": "age / 2"}),
    "tolerance": FACTS["tolerance"],
    "importance": ABOVE,
    "share": st.sampled_from(["1/10", "0.25"]),
}
SHARED = {name: FACTS[name] for name in FACTS if name not in ("tolerance", "weights", "order", "allocation")}
PARTS = st.dictionaries(
    st.sampled_from(["people", "pay", "home region", "it's", "2027"]),
    st.builds(lambda asked, own: asked | own, QUESTIONS, st.fixed_dictionaries({}, optional=OWN)),
    min_size=1,
    max_size=3,
)


def together(parts, facts, people, promise):
    """Several questions; what is a fact of the table stands at the top."""
    top = {name: value for part in parts.values() for name, value in part.items() if name in TOP}
    own = {name: {key: value for key, value in part.items() if key not in TOP} for name, part in parts.items()}
    for part in own.values():
        part.pop("objective", None)
    bins = {} if any("synthetic" in part for part in own.values()) else {"bins": None}
    return {"table": "people.csv"} | facts | people | promise | top | bins | {"question": own}


PUBLICATIONS = st.builds(together, PARTS, st.fixed_dictionaries({}, optional=SHARED), st.just({}) | PEOPLE, PROMISES)
STATED = st.builds(
    lambda stated, promise: stated | promise,
    st.fixed_dictionaries(
        {"sensitivity": st.lists(ABOVE, min_size=2, max_size=2)},
        optional={"labels": st.just(["a", "b"]), "l1": ABOVE, "l2": ABOVE, "tolerance": st.just([1, 2.5])},
    ),
    PROMISES.filter(lambda promise: "part" not in promise),
)


STREAMS = st.builds(
    lambda question, people, promise, stream: {"table": "people.csv"} | question | people | promise | stream,
    st.fixed_dictionaries({"count": st.just(True)}, optional={"sum": NAMES, "bounds": LIMITS, "by": by_column(KEYS)}),
    st.just({}) | PEOPLE.map(lambda people: {name: own for name, own in people.items() if name != "unit"}),
    PROMISES,
    st.fixed_dictionaries(
        {"periods": st.sampled_from(["2027-01:2027-12", "2027:2030", "north, south"])},
        optional={
            "contributes": st.integers(1, 9) | st.just("every"),
            "want": st.sampled_from(["totals", "windows", "periods"]),
            "window": st.integers(1, 9),
        },
    ),
)


def on_a_command_line(job):
    """The job that its command states; itself where a name in it cannot be written on a command line."""
    try:
        line = job.to_command()
    except inid.ArgumentError:
        return job
    return job_from(flags(line))


@examples(150, 2000)
@given(OF_A_TABLE | STATED | PUBLICATIONS)
def test_a_job_is_the_same_from_flags_a_file_a_form_and_a_command(values):
    job = Job.from_dict(values)
    stated = on_a_command_line(job)
    assert stated == job
    in_file = Job.from_dict(tomllib.loads(stated.to_toml(), parse_float=Decimal))
    assert in_file == job
    in_form = Job.from_dict(job_values(json.loads(json.dumps(form_of(in_file.to_dict())))))
    assert in_form == job
    assert on_a_command_line(in_form).to_dict() == job.to_dict()
    compile(job.to_python(), "job.py", "exec")


def in_a_stream(values):
    """What opens a stream, checked: the job, and the keys of the stream."""
    own = {one.name: one.of(values) for one in keys("stream")}
    return Job.from_dict({name: value for name, value in values.items() if name in job_keys()}), own


@examples(60, 600)
@given(STREAMS)
def test_what_opens_a_stream_is_the_same_from_flags_a_form_and_a_command(values):
    wanted = in_a_stream(values)
    in_form = job_values(json.loads(json.dumps(form_of(values))), STREAM_KEYS)
    assert in_a_stream(in_form) == wanted
    try:
        line = stream_as_command("s.db", in_form)
    except inid.ArgumentError:
        return
    words = line.removeprefix("inid stream open s.db ")
    assert in_a_stream(flags(f"inid open {words}", STREAM_COMMANDS)) == wanted
