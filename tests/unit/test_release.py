"""One version in the package, the changelog and the citation, and a date for it."""

import re
from pathlib import Path

from inid import __version__

PROJECT = Path(__file__).resolve().parents[2]


def test_the_version_has_a_dated_heading_in_the_changelog():
    text = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(__version__)} - \d{{4}}-\d\d-\d\d$", text, re.MULTILINE)
    assert text.index("## Unreleased") < text.index(f"## {__version__}")


def test_lines_of_the_changelog_are_short():
    lines = (PROJECT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 120] == []


def test_the_citation_names_the_version():
    assert f"\nversion: {__version__}\n" in (PROJECT / "CITATION.cff").read_text(encoding="utf-8")
