"""Running the examples of a Markdown page as they stand, in order: python blocks and shell blocks.

What a block prints follows it, as a `text` block or as indented lines; in a `text drawn` block numbers may differ.
Installing is not run: shell lines that begin with pip or make are left out.
"""

import ast
import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import inid

PROJECT = Path(__file__).resolve().parents[1]
# A block, and what it prints: a block of text, or indented lines.
FENCE = re.compile(
    r"^```(python|sh)[^\n]*\n(.*?)^```\n((?:\n*```text[^\n]*\n.*?^```\n)|(?:\n|    [^\n]*\n)*)",
    re.DOTALL | re.MULTILINE,
)

DRAWN = "(numbers differ)"
NUMBER = r"-?[0-9][0-9.,]*[0-9](?:e[+-]?[0-9]+)?"


def blocks(text, language="python"):
    """The blocks of one language, each with what it prints."""
    return [(block, shown) for kind, block, shown in every_block(text) if kind == language]


def every_block(text):
    """Language, source and shown output of each block that runs."""
    return [
        (
            kind,
            block,
            re.sub(r"^```(text)?(?: drawn)?\n", DRAWN if "```text drawn" in shown else "", shown, flags=re.MULTILINE),
        )
        for kind, block, shown in FENCE.findall(text)
    ]


def run(block, shown, namespace):
    """A block with prompts is a doctest; any other is a script, which prints the shown text, if any."""
    if re.search(r"^\s*>>> ", block, re.MULTILINE):
        parsed = doctest.DocTestParser().get_doctest(block, namespace, "example", "example", 0)
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
        report = io.StringIO()
        result = runner.run(parsed, out=report.write, clear_globs=False)
        namespace.update(parsed.globs)
        assert result.attempted > 0
        assert result.failed == 0, report.getvalue()
        return
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.parse(block), "example", "exec"), namespace)  # noqa: S102
    compare(shown, printed.getvalue())


def run_shell(block, shown):
    """Run the lines of a shell block with the `inid` under test; every one must succeed."""
    lines = [line for line in block.splitlines() if not re.match(r"(pip|make) ", line)]
    names = f"inid() {{ '{sys.executable}' -m inid.cli \"$@\"; }}\npython() {{ '{sys.executable}' \"$@\"; }}\n"
    command = "set -euo pipefail\n" + names + "\n".join(lines)
    environment = os.environ | {"PYTHONPATH": str(Path(inid.__file__).parents[1]), "COLUMNS": "120", "NO_COLOR": "1"}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    compare(shown, done.stdout)


def compare(shown, printed):
    """The printed text holds the shown one; three dots stand for anything, white space does not matter."""
    if DRAWN in shown:
        shown, printed = (re.sub(NUMBER, "#", text.replace(DRAWN, "")) for text in (shown, printed))
    pieces = [" ".join(piece.split()) for piece in shown.split("...")]
    rest = " ".join(printed.split())
    for piece in pieces:
        assert piece in rest, f"expected {piece!r} in {rest!r}"
        rest = rest[rest.index(piece) + len(piece) :]


def run_page(path, namespace=None):
    """Run all blocks of a page in the current folder; a failure says which block it was. Return how many ran."""
    namespace = {"__name__": "example"} if namespace is None else namespace
    found = every_block(path.read_text(encoding="utf-8"))
    for number, (kind, block, shown) in enumerate(found, start=1):
        try:
            run(block, shown, namespace) if kind == "python" else run_shell(block, shown)
        except Exception as error:
            raise AssertionError(f"block {number} of {path.name}: {type(error).__name__}: {error}\n{block}") from error
    return len(found)
