"""Options: the same names as flags, as keys of a file and in the document."""

from dataclasses import fields
from pathlib import Path

import pytest

from inid.cli import demo, ledgers, planning, releasing, verifying
from inid.cli.configuring import configured
from inid.cli.options import Promise, Stated
from inid.cli.promising import promised
from inid.cli.speaking import Voice
from inid.errors import ArgumentError

KINDS = [
    planning.PlanOptions, planning.QuestionOptions, planning.AccuracyOptions, releasing.ReleaseOptions,
    verifying.VerifyOptions, demo.DemoOptions, ledgers.LedgerOptions, ledgers.CreateOptions,
]  # fmt: skip
DOCS = Path(__file__).resolve().parents[3] / "docs" / "command.md"


@pytest.mark.parametrize("kind", KINDS)
def test_a_flag_is_named_as_its_key(kind):
    for field in fields(kind):
        declared = getattr(field.metadata["flag"], "param_decls", None)
        if declared:
            assert declared[0].split("/")[0] == "--" + field.name.replace("_", "-")


def test_the_document_names_every_option_of_a_question():
    text = DOCS.read_text(encoding="utf-8")
    for field in fields(Stated):
        if field.name != "table":
            assert f"--{field.name.replace('_', '-')}" in text, field.name


def test_flags_win_over_the_file_and_repeated_flags_are_joined(tmp_path):
    path = tmp_path / "q.toml"
    path.write_text('epsilon = 0.1\nmean = ["a"]\nmax-rows = 3\ncount = true\n', encoding="utf-8")
    read = configured(planning.PlanOptions, {"config": str(path), "mean": ["b", "c"], "epsilon": None, "count": False})
    assert (read.mean, str(read.epsilon), read.max_rows, read.count) == ("b,c", "0.1", 3, False)


def test_only_one_promise_can_be_made():
    assert str(promised(Promise(epsilon="1", delta="1e-6"))) == "ApproxDP(epsilon=1.0, delta=1e-06)"
    for wrong in ({}, {"delta": "1e-6"}, {"mu": "1", "rho": "1"}, {"epsilon": "1", "delta": "1e-6", "mu": "1"}):
        with pytest.raises(ArgumentError):
            promised(Promise(**wrong))


def test_voices():
    assert Voice(planning.PlanOptions()).talks
    assert not Voice(planning.PlanOptions(json=True)).talks
    assert not Voice(planning.PlanOptions(quiet=True)).talks
    with pytest.raises(ArgumentError):
        Voice(planning.PlanOptions(json="yes"))
