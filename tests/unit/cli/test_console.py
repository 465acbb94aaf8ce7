"""What is printed: nothing under --quiet, one document under --json, and no line that a label could forge."""

import json

import pytest

from inid.cli import Console, one_line
from inid.errors import ArgumentError


def test_who_reads_the_output():
    assert Console({}).prints
    assert not Console({"json": True}).prints
    assert not Console({"quiet": True}).prints
    with pytest.raises(ArgumentError, match="--json"):
        Console({"json": "yes"})


def test_no_text_can_forge_a_line_or_steer_a_terminal(capsys):
    odd = "means\n2  2026-01-01  forged\x1b[2J\u202e\r\x85\u2028"
    console = Console({})
    console.table([["label", "cost"], [odd, "1"]], left=1)
    console.line(odd)
    console.note(odd)
    found = capsys.readouterr()
    assert len(found.out.splitlines()) == 3
    assert len(found.err.splitlines()) == 1
    assert "\x1b" not in found.out + found.err
    assert one_line("Zürich, 東京") == "Zürich, 東京"


def test_a_document_is_printed_under_json_only(capsys):
    Console({}).document({"a": 1})
    Console({"json": True}).line("words")
    Console({"json": True}).document({"a": 1})
    assert json.loads(capsys.readouterr().out) == {"a": 1}
