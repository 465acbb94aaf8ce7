"""A script as a notebook: public facts and question, plan, release, results, each in a cell of its own.

The script is taken apart by its statements, so that a notebook does what the script does, in the same order.
"""

import ast
import json
from textwrap import dedent
from typing import Any

__all__ = ["script_as_notebook"]

_PARTS = {
    "asked": "## What is public, and what is asked\n\nNothing here reads a value of the table.",
    "planned": "## The plan\n\nThe error to expect in every number, before anything is spent. Run it as often as you "
    "like.",
    "released": "## The release\n\n**Every run of this cell is a release of its own and is charged anew.** The ledger "
    "is charged first; then the table is read and noise is added.",
    "results": "## The results\n\nWhat is published may be computed with as you like: it costs nothing.",
}


def script_as_notebook(script: str) -> str:
    r"""A script of `Job.to_python` as the text of a notebook (nbformat 4).

    >>> text = script_as_notebook("import inid\n\nwith f() as ledger:\n    plan = g(ledger)\n    result = h(plan)\n")
    >>> for cell in json.loads(text)["cells"]:
    ...     if cell["cell_type"] == "code":
    ...         print("".join(cell["source"]), end="\n--\n")
    import inid
    --
    ledger = f()
    plan = g(ledger)
    --
    result = h(plan)
    --
    ledger.close()
    --
    """
    cells = [_cell("markdown", "# A private release\n\nMade by inid. Run the cells from top to bottom.")]
    for name, lines in _parts(script).items():
        if lines:
            cells += [_cell("markdown", _PARTS[name]), _cell("code", "\n".join(lines))]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for at, cell in enumerate(cells):
        cell["id"] = f"cell-{at}"
    book = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _parts(script: str) -> dict[str, list[str]]:
    """The lines of each part; what is opened for a block is opened before the plan and closed at the end."""
    found: dict[str, list[str]] = {name: [] for name in _PARTS}
    closing: list[str] = []
    part = "asked"

    def add(node: ast.stmt, text: str) -> None:
        nonlocal part
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        if part == "released":
            part = "results"
        if "promise" in names or "plan" in names:
            part = "planned"
        if "result" in names:
            part = "released"
        found[part].append(text)

    for node in ast.parse(script).body:
        if isinstance(node, ast.With):
            part = "planned"
            for item in node.items:
                opened = f"{_source(script, item.optional_vars)} = {_source(script, item.context_expr)}"
                found[part].append(opened)
                closing.append(f"{_source(script, item.optional_vars)}.close()")
            for inner in node.body:
                add(inner, _source(script, inner))
        else:
            add(node, _source(script, node))
    found["results"] += closing
    return found


def _source(script: str, node: ast.AST | None) -> str:
    text = None if node is None else ast.get_source_segment(script, node, padded=True)
    if text is None:
        raise AssertionError("every part of a script has a text")
    return dedent(text)


def _cell(kind: str, text: str) -> dict[str, Any]:
    made: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
    return made | ({"execution_count": None, "outputs": []} if kind == "code" else {})
