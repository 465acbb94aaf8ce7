"""Rearranging the library changes no answer: plans, curves and exact sums are those of the record, bit for bit."""

import json

import pytest

import recording

RECORD = json.loads(recording.RECORD.read_text())


@pytest.mark.parametrize("subject", ["plans", "curves", "sums"])
def test_answers_are_those_of_the_record(subject):
    now = json.loads(json.dumps(getattr(recording, subject)()))
    assert recording.different(RECORD[subject], now) == {}


def test_a_changed_last_bit_is_seen():
    name, plan = next((n, p) for n, p in RECORD["plans"].items() if isinstance(p, dict))
    scale = float.fromhex(plan["scales"][0])
    nudged = {**plan, "scales": [(scale * (1 + 2**-52)).hex(), *plan["scales"][1:]]}
    assert recording.different({name: plan}, {name: nudged})
