"""A record with a number that does not follow from the others, and a digest made anew, is refused."""

import json

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.tables import record_digest

FRAME = pd.DataFrame({"age": np.arange(500.0) % 100, "sex": ["F", "M"] * 250, "zip": ["a"] * 300 + ["b"] * 200})
BUDGETS = [inid.PureDP(1.0), inid.ApproxDP(1.0, 1e-6)]


def table():
    return tables.Table(FRAME, bounds={"age": (0, 100)}, domains={"sex": ["F", "M"], "zip": ["a", "b"]})


KINDS = {
    "statistics": lambda: table().statistics(count=True, mean=["age"], by={"sex": ["F", "M"]}),
    "marginals": lambda: table().marginals([("sex",), ("zip",)], sum={"age": [("sex",)]}),
    "ordered": lambda: table().quantiles({"age": [0.5]}),
    "discovery": lambda: table().select_partitions("zip", delta=1e-7),
}


def changed(record, change):
    """The record after a change, with a digest of its own."""
    made = json.loads(json.dumps(record))
    change(made)
    made.pop("digest")
    return made | {"digest": record_digest(made)}


@pytest.fixture(scope="module", params=[(kind, at) for kind in KINDS for at in (0, 1)], ids=str)
def record(request):
    kind, at = request.param
    query = KINDS[kind]()
    return query.release(query.plan(BUDGETS[at])).to_dict()


def test_a_record_as_it_was_made_is_accepted(record):
    tables.verify_result(changed(record, lambda _: None))


@pytest.mark.parametrize("share", [0.3, 1e-3])
def test_noisy_numbers_lie_on_the_grid_of_their_noise(record, share):
    """Estimates within the slack of the comparison do not hide it."""

    def move(made):
        values = made["release"]["values"]
        at = int(np.argmax(np.abs(values)))
        values[at] = float(np.nextafter(values[at], np.inf)) if share < 0.1 else values[at] + share * 2.0**-30

    with pytest.raises(inid.InidError):
        tables.verify_result(changed(record, move))


@pytest.mark.parametrize(
    ("name", "factor"), [("threshold", 1 + 1e-6), ("threshold", 0.5), ("delta", 0.5), ("delta", 2)]
)
def test_the_threshold_follows_from_delta_and_noise(name, factor):
    query = KINDS["discovery"]()
    record = query.release(query.plan(inid.PureDP(1.0))).to_dict()

    def change(made):
        holder = made if name == "threshold" else made["question"]
        holder[name] *= factor

    with pytest.raises(inid.RecordError, match="threshold"):
        tables.verify_result(changed(record, change))


def test_a_release_that_does_not_say_whether_its_noise_was_real_is_refused(record):
    """One made by a test's source could hide it so."""
    for one in (changed(record, lambda made: made["release"].pop("private")), record["release"]):
        plain = {name: value for name, value in one.items() if name != "private"}
        with pytest.raises(inid.InidError):
            (tables.verify_result if "question" in plain else inid.verify_record)(plain)


def test_a_choice_that_does_not_say_whether_its_noise_was_real_is_refused():
    query = table().largest_group({"zip": ["a", "b"]})
    chosen = query.release(query.plan(inid.PureDP(1.0))).selection.to_dict()
    inid.verify_record(chosen)
    with pytest.raises(inid.GuaranteeError):
        inid.verify_record({name: value for name, value in chosen.items() if name != "private"})


def as_texts(made):
    made["release"]["values"] = [str(value) for value in made["release"]["values"]]


def level_as_text(made):
    made["level"] = str(made["level"])


@pytest.mark.parametrize("change", [as_texts, level_as_text])
def test_texts_are_no_numbers(record, change):
    with pytest.raises(inid.RecordError):
        tables.verify_result(changed(record, change))


def parts(value, place=()):
    """Every place of a record that can be left out."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in entries:
        yield (*place, name)
        if not (isinstance(inner, list) and len(inner) > 20):
            yield from parts(inner, (*place, name))


def test_what_is_left_out_of_a_question_is_refused_in_words(record):
    """No error of Python's own: the command would call it unexpected."""
    for place in parts(record["question"]):

        def leave_out(made, place=place):
            holder = made["question"]
            for name in place[:-1]:
                holder = holder[name]
            del holder[place[-1]]

        with pytest.raises(inid.InidError):
            tables.verify_result(changed(record, leave_out))
