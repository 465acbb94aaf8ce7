"""The record of a stream proves every published number, and nothing that was changed in it passes."""

import copy
import json

import pytest

import inid
from inid import tables
from inid.errors import ArgumentError, GuaranteeError, RecordError
from inid.tables.result import record_digest
from inid.testing import unsafe_seed
from visit_streams import open_events, open_people, visits


@pytest.fixture
def record(tmp_path, events):
    """A stream of three months, the second of which is lost."""
    s = open_events(tmp_path / "s.db", events, query={"count": True, "mean": ["cost"], "by": {"sex": ["F", "M"]}})
    s.release("2027-01", visits(range(50)))
    events.lease_steps(1, 1)
    s.release("2027-03", visits(range(40)))
    return json.loads(json.dumps(s.to_dict()))


def signed(record):
    return record | {"digest": record_digest(record)}


def test_a_stream_is_proved_from_its_record_alone(record):
    assert tables.verify_result(record).promise == "GaussianDP(mu=1.0)"
    assert [one["number"] for one in record["releases"]] == [0, 2]
    assert record["results"][-1]["missing"] == ["2027-02"]


def test_no_exact_number_is_in_a_record(tmp_path, ledger):
    """People and costs of a month that nobody else has: none of the sums stands there."""
    s = open_people(tmp_path / "s.db", ledger, contributes="every")
    s.release("2027-01", visits(["aa", "bb", "cc"], [12.0, 13.0, 14.0]))
    exact = s._file.releases()[0].exact  # as the secret file holds them
    text = json.dumps(s.to_dict())
    assert '"exact"' not in text
    assert all(f"{number!r}," not in text for number in exact)
    assert not any(word in text for word in ('"aa"', '"bb"', '"cc"'))


def _estimate(record):
    record["results"][0]["answers"][0]["estimate"] += 1


def _upper(record):
    record["results"][-1]["answers"][-1]["upper"] += 1


def _steps(record):
    record["releases"][0]["steps"][0] += 2**20


def _of(record):
    record["results"][0]["of"] = "people"


def _level(record):
    record["level"] = 0.5


def _missing(record):
    record["results"][-1]["missing"] = []


def _order(record):
    record["releases"].reverse()


def _release_left_out(record):
    del record["releases"][1]


def _result_left_out(record):
    del record["results"][0]


def _added(record):
    record["note"] = "more"


def _added_to_a_release(record):
    record["releases"][0]["exact"] = [1.0]


def _number_as_text(record):
    record["releases"][0]["steps"][0] = str(record["releases"][0]["steps"][0])


def _number_out_of_range(record):
    record["releases"][1]["number"] = 99


def _true_for_zero(record):
    record["releases"][0]["number"] = False


def _no_time(record):
    record["releases"][0]["time"] = "yesterday"


def _rules(record):
    record["rules"] = 999


def _gain(record):
    record["plan"]["errors"][1] *= 2  # would be printed as "independent periods would have twice the error"


def _window(record):
    record["plan"]["window"] = True


def _periods_as_text(record):
    record["plan"]["contributes"] = "1"


@pytest.mark.parametrize(
    "change",
    [
        _gain, _window, _periods_as_text,
        _estimate, _upper, _steps, _of, _level, _missing, _order, _release_left_out, _result_left_out, _added,
        _added_to_a_release, _number_as_text, _number_out_of_range, _true_for_zero, _no_time, _rules,
    ],
)  # fmt: skip
def test_whatever_is_changed_is_refused(record, change):
    changed = copy.deepcopy(record)
    change(changed)
    with pytest.raises(RecordError, match="digest"):
        tables.verify_result(changed)
    with pytest.raises((RecordError, ArgumentError)):
        tables.verify_result(signed(changed))


def test_a_promise_that_the_noise_does_not_keep_is_refused(record):
    for place in (record["plan"]["promise"], record["plan"]["noise"]["budget"]):
        place["mu"] = 0.5
    with pytest.raises((RecordError, GuaranteeError)):
        tables.verify_result(signed(record))


def test_a_strategy_that_spends_more_is_refused(record):
    record["plan"]["strategy"]["multipliers"][0] *= 4
    with pytest.raises((RecordError, GuaranteeError)):
        tables.verify_result(signed(record))


def test_noise_of_a_test_is_no_noise(tmp_path):
    with unsafe_seed(3):
        s = open_events(tmp_path / "s.db", inid.Ledger(total=inid.GaussianDP(mu=1.0)))
        s.release("2027-01", visits([1]))
    with pytest.raises(GuaranteeError, match="not real"):
        tables.verify_result(s.to_dict())
