"""Tables of measured figures: what the writer writes, and that every recorded table has its form."""

import re
from pathlib import Path

import pytest
from bench._result_table import FOLDER, ResultTable

PROJECT = Path(__file__).resolve().parents[2]
FACTS = ("date", "machine", "peers", "command")


def made(**facts):
    return ResultTable("toy", "A toy", ("", "seconds"), peers="nobody", command="python -m bench.toy", **facts)


def facts_of(text):
    return dict(re.findall(r"^- (\w+): (.+)$", text.split("\n|")[0], re.MULTILINE))


def cells_of(text):
    return [line.count("|") for line in text.splitlines() if line.startswith("|")]


def test_a_table_is_printed_and_written_with_its_facts(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("INID_BENCH_RESULTS", str(tmp_path))
    with made(date="2026-11-18", machine="a slide rule") as table:
        table.add("ours", "1.0")
        table.note("One run.")
    text = (tmp_path / "toy.md").read_text()
    facts = ["2026-11-18", "a slide rule", "nobody", "`python -m bench.toy`"]
    assert facts_of(text) == dict(zip(FACTS, facts, strict=True))
    assert text.endswith("|  | seconds |\n| --- | --- |\n| ours | 1.0 |\n\nOne run.\n")
    assert "| ours | 1.0 |" in capsys.readouterr().out


def test_this_machine_and_this_day_are_named_unless_stated():
    assert all(made().facts.values())
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", made().facts["date"])


def test_nothing_is_written_after_a_failure_or_without_a_line(tmp_path, monkeypatch):
    monkeypatch.setenv("INID_BENCH_RESULTS", str(tmp_path))
    table = made()
    table.add("ours", "1.0")
    table.__exit__(RuntimeError, RuntimeError(), None)
    with made():
        pass
    with pytest.raises(ValueError, match="2 columns"):
        made().add("ours")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.md")), ids=lambda path: path.stem)
def test_a_recorded_table_has_its_form_and_stands_on_a_page(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert tuple(facts_of(text)) == FACTS
    assert len(set(cells_of(text))) == 1
    assert len(cells_of(text)) > 2
    pages = "".join(page.read_text(encoding="utf-8") for page in (PROJECT / "docs" / "measured").glob("*.md"))
    assert f"../../results/bench/{path.name}\n" in pages
