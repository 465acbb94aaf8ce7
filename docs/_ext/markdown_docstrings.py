"""Docstrings are plain text with `code` in single backticks; what reStructuredText would read into it is escaped."""

import re

from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import GoogleDocstring

# Code in backticks stays as it is. Elsewhere a bar, a trailing underscore and a lone star are only characters.
_CODE = re.compile(r"(``.+?``|`[^`]+`)")
_LONE = re.compile(r"\||(?<=\w)_(?=\W|$)|(?<=[\s(\d])\*(?=[\s\d])|\*(?=\*?\w+[,)])|\*(?=\.)")


def _escape(line: str) -> str:
    pieces = _CODE.split(line)
    return "".join(piece if i % 2 else _LONE.sub(r"\\\g<0>", piece) for i, piece in enumerate(pieces))


def _process(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:  # noqa: ARG001 - the signature is Sphinx's
    example = False
    for number, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            lines[number] = _escape(line)


def _whole(docstring: GoogleDocstring) -> list[str]:
    """Attributes have types in their annotations: a colon in their first sentence is a colon."""
    return docstring._consume_to_end()  # noqa: SLF001 - napoleon has no setting for it


def setup(app: Sphinx) -> dict[str, bool]:
    """Run after napoleon, whose sections are already fields then."""
    GoogleDocstring._parse_attribute_docstring = _whole  # noqa: SLF001 - see there
    app.connect("autodoc-process-docstring", _process, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
