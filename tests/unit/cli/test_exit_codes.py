"""Every failure has one sentence and one documented exit code."""

import re
from pathlib import Path

import pytest

import inid
from inid.cli import CommandError, ExitCode, outcome
from inid.jobs import UnansweredError
from inid.tables import EngineError

DOCS = Path(__file__).resolve().parents[3] / "docs" / "reference" / "exit-codes.md"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (inid.ArgumentError("a"), ExitCode.USAGE),
        (inid.BudgetError("a"), ExitCode.USAGE),
        (inid.RangeError("a"), ExitCode.USAGE),
        (inid.MissingExtraError("a"), ExitCode.USAGE),
        (inid.GuaranteeError("a"), ExitCode.UNPROVED),
        (inid.RecordError("a"), ExitCode.UNPROVED),
        (EngineError("a"), ExitCode.FILES),
        (OSError(28, "No space left on device", "f"), ExitCode.FILES),
        (CommandError("a", ExitCode.REFUSED), ExitCode.REFUSED),
        (UnansweredError("a", 3), ExitCode.UNANSWERED),
        (KeyError("secret"), ExitCode.UNEXPECTED),
    ],
)
def test_codes(error, code):
    sentence, found = outcome(error)
    assert found == code
    assert "secret" not in sentence


def test_the_document_lists_exactly_the_codes_there_are():
    listed = re.findall(r"^\| (\d+) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(code) for code in listed] == [code.value for code in ExitCode]
