"""Every number of a record is derived again: changed one by one, with a digest made anew, each makes it refused.

Records of every kind of question, by Python and by the command. What nothing else in a record determines is listed.
"""

import json
import re
from functools import cache

import numpy as np
import pytest

import inid
import recorded_tables as asked
import recording_tables as recording
from command_line import run
from inid import tables
from inid.tables import SLACK, record_digest

STEP = 1e-6

# What was asked, or drawn: nothing else in a record determines it. Public facts that no number depends on are of these,
# too, such as the unused keys of a choice.
ASKED = {
    # The reach of a choice is a text of four digits; no key, no interval.
    "level": r"(largest_group|partition_selection)\w* /level",
    "limits of the table": r"\w+ /question/(rows|max_rows|person/max_rows)",
    "whether rows can vanish": r"marginals\w* /question/rows_can_vanish",
    "labels": r"largest_group\w* /question/choose/\w+/\d+|marginals\w* /question/domains/\w+/\d+",
    "fill values": r"\w+ /question/(missing|fill)/\w+",
    "bounds of what others are computed of": r"statistics_people /question/bounds/income/\d",
    "keys of one person, where nobody has two rows": r"partition_selection_(python|command) "
    r"/question/max_keys_per_person",
    "the delta of a threshold, within a step of its grid": r"partition_selection\w* /question/delta",
    "what was asked of the planner": r"\w+ (/release)?/plan/(order|weights/\d+)",
    # A step is a tiny part of a sum's reach; a reach that is a step smaller is refused, as the last test shows.
    "the law of joint noise, by one step of the grid": r"statistics_\w+ /release/plan/blocks/\d+/(reaches|offsets)/\d+",
    "the ledger": r"\w+_command /ledger_created",
}


@cache
def record_of(name, folder):
    """A record of a kind of question, as this version writes it."""
    kind, way = name.rsplit("_", 1)
    if way == "command":
        return recording.command_record(kind, folder, run)
    people = way == "people"
    query = asked.question_of(kind, asked.in_engine("pandas", folder), "add_remove", people=people, variant=people)
    return json.loads(json.dumps(query.release(query.plan(asked.PROMISES["approx"])).to_dict()))


def numbers(value, path=()):
    """The places of all numbers and booleans; of lists, the first and the last."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, (*path, key))
    elif isinstance(value, list):
        for at in sorted({0, len(value) - 1} if value else ()):
            yield from numbers(value[at], (*path, at))
    elif isinstance(value, (int, float)):
        yield path, value


def changes(value, holder, spread):
    """A number changed by a millionth, either way; of what stands beside it, where it is 0.

    An answer is compared to `SLACK` of its interval or standard deviation, the `spread`. A number next to 0 is changed
    by more than that.
    """
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value - 1, value + 1]
    beside = holder.values() if isinstance(holder, dict) else holder
    largest = max([abs(one) for one in beside if isinstance(one, float)], default=0.0)
    by = max(STEP * (abs(value) or largest or 1.0), 1.1 * SLACK * spread)
    return [value - by, value + by]


def spread_of(holder):
    """The interval, or the standard deviation, of an answer, or of the widest of a table's."""
    if not isinstance(holder, dict) or not {"estimate", "std"} <= holder.keys():
        return 0.0
    ends = [holder[end] for end in ("lower", "upper") if isinstance(holder.get(end), list | float)]
    widths = np.subtract(*ends[::-1]) if len(ends) == 2 else 0.0
    return float(max(np.max(widths), np.max(holder["std"])))


def accepted(record):
    """The places whose numbers can be changed without being noticed."""
    for path, value in numbers(record):
        made = json.loads(json.dumps(record))
        holder, spread = made, 0.0
        for key in path[:-1]:
            holder = holder[key]
            spread = spread_of(holder) or (spread if isinstance(holder, list) else 0.0)
        for other in changes(value, holder, spread):
            holder[path[-1]] = other
            made["digest"] = record_digest(made)
            try:
                tables.verify_result(made)
            except inid.InidError:
                continue
            yield "/".join(["", *map(str, path)])
            break


@pytest.mark.parametrize("kind", asked.KINDS)
@pytest.mark.parametrize("way", ["python", pytest.param("people", marks=pytest.mark.slow), "command"])
def test_no_number_of_a_record_can_be_changed(kind, way, tmp_path):
    record = record_of(f"{kind}_{way}", tmp_path)
    tables.verify_result(record)
    found = [f"{kind}_{way} {place}" for place in accepted(record)]
    assert [place for place in found if not any(re.fullmatch(free, place) for free in ASKED.values())] == []


@pytest.mark.parametrize("way", ["python", "people", "command"])
@pytest.mark.parametrize("kind", ["statistics", "marginals", "prefix_sums", "partition_selection", "largest_group"])
def test_a_record_that_lost_its_rules_is_refused(kind, way, tmp_path):
    record = {key: value for key, value in record_of(f"{kind}_{way}", tmp_path).items() if key != "rules"}
    with pytest.raises(inid.RecordError, match="names no rules"):
        tables.verify_result(record | {"digest": record_digest(record)})


@pytest.mark.parametrize("name", ["statistics_python", "statistics_command"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rules", 1),
        ("rules", 2),
        ("rules", 4),
        ("rules", True),
        ("rules", None),
        ("lines", []),
        ("comparison", []),
        ("note", 1),
    ],
)
def test_rules_that_are_unknown_and_keys_that_they_do_not_know_are_refused(name, key, value, tmp_path):
    record = record_of(name, tmp_path) | {key: value}
    with pytest.raises(inid.RecordError, match="rules" if key == "rules" else key):
        tables.verify_result(record | {"digest": record_digest(record)})


@pytest.mark.parametrize("factor", [0.5, 0.99, 1.01, 2])
def test_the_delta_of_a_record_by_the_command_is_that_of_its_threshold(factor, tmp_path):
    record = record_of("partition_selection_command", tmp_path)
    record = record | {"question": record["question"] | {"delta": record["question"]["delta"] * factor}}
    with pytest.raises(inid.RecordError, match="threshold"):
        tables.verify_result(record | {"digest": record_digest(record)})


def test_a_found_key_needs_its_threshold_in_the_record(tmp_path):
    for name in ("partition_selection_python", "partition_selection_command"):
        record = {key: value for key, value in record_of(name, tmp_path).items() if key != "threshold"}
        with pytest.raises(inid.RecordError, match="threshold"):
            tables.verify_result(record | {"digest": record_digest(record)})


@pytest.mark.parametrize("way", ["python", "command"])
def test_no_reach_of_joint_noise_can_be_smaller(way, tmp_path):
    record = record_of(f"statistics_{way}", tmp_path)
    for number, block in enumerate(record["release"]["plan"]["blocks"]):
        for at in range(len(block["reaches"])):
            made = json.loads(json.dumps(record))
            made["release"]["plan"]["blocks"][number]["reaches"][at] -= 1
            made["digest"] = record_digest(made)
            with pytest.raises(inid.InidError):
                tables.verify_result(made)
