"""`{configuration-keys} GROUP ...` lists the keys of some groups of the schema: key, value and meaning."""

import re
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx


def listed(groups: list[str]) -> list[str]:
    """The lines of a table in Markdown; flags in the texts of the help are named as keys here."""
    from inid.schema import keys

    names = {f"--{one.name.replace('_', '-')}": one.name for one in keys()}
    lines = ["| key | value | meaning |", "| --- | --- | --- |"]
    for one in keys(*groups):
        text = re.sub(r"--[a-z][a-z-]*", lambda flag: f"`{names.get(flag[0], flag[0])}`", one.help)
        cells = (f"`{one.name}`", one.type.words, text)
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("*", "\\*") for cell in cells) + " |")
    return lines


class ConfigurationKeys(Directive):
    """One table of keys."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[dict[str, object]] = {}

    def run(self) -> list[nodes.Node]:
        """Write the table as Markdown, and let the page's own parser read it."""
        made = nodes.container()
        self.state.nested_parse(StringList(listed(self.arguments[0].split())), self.content_offset, made)
        return made.children


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("configuration-keys", ConfigurationKeys)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
