"""The examples of docs/dpsgd.md run as they stand."""

from pathlib import Path

from markdown_examples import blocks, run

PAGE = Path(__file__).resolve().parents[3] / "docs" / "dpsgd.md"


def test_every_example_runs():
    found = blocks(PAGE.read_text(encoding="utf-8"))
    assert found
    namespace = {"__name__": "docs"}
    for block, shown in found:
        run(block, shown, namespace)
