"""Rearranging the library changes no answer: plans, curves and exact sums are those of the record."""

import json

import pytest

import recording
from near import NEAR, SEARCHED, SUMMED, differences

SEARCHES = ("l1 cap", "both caps", "l1 total")  # plans that search for the multipliers of an l1 cap
RECORD = json.loads(recording.RECORD.read_text())


@pytest.mark.parametrize("subject", ["plans", "curves", "sums"])
def test_answers_are_those_of_the_record(subject):
    now = json.loads(json.dumps(getattr(recording, subject)()))
    for name, recorded in RECORD[subject].items():
        near = SEARCHED if name.startswith(SEARCHES) else SUMMED if name.startswith("subsampled") else NEAR
        assert differences(recorded, now.get(name), name, near=near) == []
    assert now.keys() == RECORD[subject].keys()
