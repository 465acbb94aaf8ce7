"""A new option is one entry: flags and help, TOML, the page, exports and the reference follow."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def found():
    """What every surface shows after a toy option was registered, in a process of its own."""
    command = [sys.executable, "-W", "error", str(TESTS / "toy_option.py")]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


def test_it_is_in_the_help_of_every_command_that_asks_a_question(found):
    for name, text in found["help"].items():
        assert "--rounding WORD" in text, name
        assert "How answers are rounded." in text


def test_files_and_fields_hold_it_and_make_the_same_job(found):
    assert found["toml"]["rounding"] == found["form"]["rounding"] == "up"
    assert found["again"]


def test_the_page_has_a_field_for_it(found):
    assert 'data-key="rounding"' in found["page"]
    assert "<span>Rounding of answers</span>" in found["page"]
    assert '<option value="up">away from zero</option>' in found["page"]


def test_the_exports_state_it(found):
    assert found["command"] == "inid release a.csv --count --epsilon 1 --rounding up"
    assert "table.statistics(count=True, rounding='up')" in found["script"]


def test_the_reference_explains_it(found):
    assert '| `rounding` | `"up"` or `"down"` | How answers are rounded. |' in found["reference"]


def test_a_value_that_does_not_fit_is_refused_by_the_name_that_each_surface_gives_it(found):
    assert found["refused"] == [
        f"{name} does not fit, got 'x': pass one of up, down." for name in ("rounding", "Rounding of answers")
    ]
    assert "--rounding does not fit, got 'x': pass one of up, down." in found["on the command line"]
