"""Texts stand out from what they stand on, in the light and in the dark (WCAG: 4.5 to 1)."""

import re
from importlib.resources import files

import pytest

from inid.report import rendered

SHEET = rendered("style.css") + (files("inid.studio") / "static" / "studio.css").read_text(encoding="utf-8")
PAIRS = [("ink", "paper"), ("ink", "panel"), ("ink", "field"), ("soft", "paper"), ("soft", "panel"), ("plan", "paper")]
PAIRS += [("good", "paper"), ("focus", "paper"), ("doubt", "paper"), ("doubt", "panel")]


def colours(scheme):
    """The colours of one scheme; those of the dark one stand in its media query."""
    dark = "".join(re.findall(r"prefers-color-scheme: dark\) \{ :root \{(.*?)\} \}", SHEET, re.DOTALL))
    light = "".join(re.findall(r"^:root \{(.*?)\}", SHEET, re.DOTALL | re.MULTILINE))
    return dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", light if scheme == "light" else light + dark))


def brightness(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("pair", PAIRS, ids="-on-".join)
def test_texts_stand_out(scheme, pair):
    found = colours(scheme)
    high, low = sorted((brightness(found[name]) for name in pair), reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 4.5
