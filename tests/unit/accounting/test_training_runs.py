"""A training record is proved from its steps alone; whatever was changed in it is refused."""

import json
import math

import pytest

from inid.accounting import TrainingRecord, compose, subsample
from inid.dpsgd import Segment
from inid.errors import ArgumentError, GuaranteeError, RecordError
from inid.planning import plan
from inid.promises import GaussianDP
from inid.sets import Sensitivity

RUNS = [Segment("gaussian", 1.1, 0.02, 300), Segment("gaussian", 0.9, 0.02, 50)]
FACTS = {"model": "Linear", "unit": "person", "units": 50_000, "expected_batch": 1_000.0}


def record(**changed):
    return TrainingRecord.of(**{"runs": RUNS, "delta": 1e-6, "private": True, "facts": FACTS} | changed)


def rewritten(content):
    """A changed record with a digest that fits, as somebody would write it who knows how."""
    from hashlib import sha256

    content.pop("digest")
    return content | {"digest": sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}


def test_the_cost_is_that_of_the_composed_steps_and_verifies_after_a_round_trip():
    step = Sensitivity.box([1.0], neighbours="zero_out")
    parts = [
        subsample(plan(step, GaussianDP(mu=1 / z), mechanism="gaussian"), rate=0.02, steps=n)
        for z, n in ((1.1, 300), (0.9, 50))
    ]
    cost = compose(*parts).epsilon(1e-6)
    made = record()
    assert cost <= made.epsilon <= cost * (1 + 1e-5)
    read = TrainingRecord.from_dict(json.loads(json.dumps(made.to_dict())))
    assert read == made
    assert math.isclose(read.verify(), cost)
    assert (read.steps, read.neighbours) == (350, "zero_out")


def test_a_promise_below_the_cost_is_refused_even_with_a_fitting_digest():
    content = record().to_dict()
    content["promise"]["epsilon"] *= 0.999
    with pytest.raises(RecordError, match="own digest"):
        TrainingRecord.from_dict(content)
    with pytest.raises(GuaranteeError, match="cost epsilon="):
        TrainingRecord.from_dict(rewritten(content)).verify()


@pytest.mark.parametrize("steps", [301, 10_000])
def test_more_steps_than_the_promise_covers_are_refused(steps):
    content = record().to_dict()
    content["runs"][0][3] = steps
    with pytest.raises(GuaranteeError, match="cost epsilon="):
        TrainingRecord.from_dict(rewritten(content)).verify()


def test_a_run_of_a_tests_source_is_no_promise():
    with pytest.raises(GuaranteeError, match="not private"):
        record(private=False).verify()
    assert "not private" in record(private=False).card()


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.pop("facts"),
        lambda c: c.update(more=1),
        lambda c: c.update(inid_training=1),
        lambda c: c.update(private="yes"),
        lambda c: c.update(runs=[]),
        lambda c: c["runs"][0].append(1),
        lambda c: c["runs"][0].__setitem__(2, 1.5),
        lambda c: c["runs"][0].__setitem__(3, "300"),
        lambda c: c["promise"].update(delta=2.0),
        lambda c: c["promise"].update(epsilon=float("nan")),
        lambda c: c["facts"].update(rows=1),
        lambda c: c["facts"].update(model=[1]),
    ],
)
def test_records_of_another_form_are_refused(change):
    content = record().to_dict()
    change(content)
    with pytest.raises(RecordError):
        TrainingRecord.from_dict(rewritten(content))


def test_nothing_was_trained():
    with pytest.raises(ArgumentError, match="train first"):
        record(runs=[])


def test_the_card_says_the_promise_its_unit_and_what_it_does_not_cover():
    card = record().card()
    for words in (
        "for each person",
        f"epsilon = {record().epsilon:g}",
        "300 with gaussian noise",
        "Not covered",
        "50,000",
        "1,000",
    ):
        assert words in card
    assert "one person becomes nothing" in card
    assert card.startswith("# Model card")
