"""Tables answer as recorded: every kind of question, on every engine, in Python and by the command."""

import json

import pytest

import recorded_tables as asked
import recording_tables as recording
from command_line import run
from inid import tables
from near import differences
from other_processor import elsewhere, made_records

RECORD = json.loads((recording.RECORDS / "tables.json").read_text())
CASES = asked.cases()


def _as_recorded(value):
    return json.loads(json.dumps(value))


def _recorded_files(kind, source):
    found = (recording.RECORDS / "releases").glob(f"{kind}_{source}.*")
    return {path.suffix[1:]: path.read_text(encoding="utf-8") for path in found}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("recorded")


def test_the_record_has_every_case():
    assert set(RECORD["cases"]) == set(CASES)
    assert {case[0] for case in CASES.values()} == set(asked.KINDS) == set(RECORD["traces"])


@pytest.mark.parametrize("kind", asked.KINDS)
def test_plans_exact_numbers_and_rows_are_those_of_the_record(kind, folder):
    data = asked.in_engine("pandas", folder)
    own = {name: case for name, case in CASES.items() if case[0] == kind}
    now = _as_recorded({name: recording.answers_of_case(case, data) for name, case in own.items()})
    assert differences({name: RECORD["cases"][name] for name in own}, now) == []


@pytest.mark.parametrize("engine", [name for name in asked.ENGINES if name not in ("pandas", "spark")])
def test_every_engine_has_the_exact_numbers_of_the_record(engine, folder):
    """Limited people, filters and computed columns; pandas made the record, and Spark has its files to match."""
    data = asked.in_engine(engine, folder)
    wanted = {name: case for name, case in CASES.items() if case[2] and case[3]}
    assert {case[0] for case in wanted.values()} == set(asked.KINDS)
    for name, (kind, relation, people, variant, promise, options) in wanted.items():
        query = asked.question_of(kind, data, relation, people=people, variant=variant)
        plan = query.plan(asked.PROMISES[promise], **options)
        assert _as_recorded(recording.exact_numbers(query, plan)) == RECORD["cases"][name]["exact"], name


@pytest.mark.parametrize("engine", asked.ENGINES)
def test_every_engine_gives_the_files_of_the_record(engine, folder):
    data = asked.in_engine(engine, folder)
    for kind in asked.KINDS:
        assert differences(_recorded_files(kind, "python"), recording.files_of(kind, data, folder), kind) == []


@pytest.mark.parametrize("kind", asked.KINDS)
def test_the_command_writes_the_files_of_the_record(kind, folder):
    assert differences(_recorded_files(kind, "command"), recording.job_files(kind, folder, run)) == []


def test_refusals_are_those_of_the_record_and_charge_nothing(folder):
    assert recording.refused(asked.in_engine("pandas", folder)) == RECORD["refusals"]


@pytest.mark.parametrize("kind", asked.KINDS)
def test_a_release_checks_charges_reads_and_draws_in_this_order(kind):
    now = recording.trace(kind)
    assert now["order"] == ["unit", "charge", "read", "draw"]
    assert differences(RECORD["traces"][kind], _as_recorded(now)) == []


def test_a_record_made_on_one_processor_verifies_on_another():
    here = made_records()
    there = elsewhere(here)
    assert len(there["verified"]) == len(there["records"]) == len(here) == 2 * len(asked.KINDS)
    for record in there["records"]:
        tables.verify_result(record)
