"""The examples of docs/dpsgd.md and docs/guides/from-opacus.md run as they stand."""

from pathlib import Path

import pytest

from markdown_examples import blocks, run

DOCS = Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize("page", ["dpsgd.md", "guides/from-opacus.md"])
def test_every_example_runs(page):
    found = blocks((DOCS / page).read_text(encoding="utf-8"))
    assert found
    namespace = {"__name__": "docs"}
    for block, shown in found:
        run(block, shown, namespace)
