"""The walks of CONTRIBUTING.md name files that exist."""

import re
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def test_every_file_that_a_walk_names_exists():
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    walks = text[text.index("### Seven walks") : text.index("## Rules")]
    named = [
        word for word in re.findall(r"`([a-z_/]+(?:\.js)?)`", walks) if "/" in word or word in {"promises", "releasing"}
    ]
    assert len(named) > 60
    missing = [n for n in named if not any((PROJECT / "src/inid" / f"{n}{s}").exists() for s in ("", ".py"))]
    assert missing == []
