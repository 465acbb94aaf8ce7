"""The README's examples run as they stand, in order, and print what they say."""

import ast
import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
# A block, and the indented lines after it: what it prints.
FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```\n((?:\n|    [^\n]*\n)*)", re.DOTALL | re.MULTILINE)


def blocks(text):
    return [match.groups() for match in FENCE.finditer(text)]


def run(block, shown, namespace):
    """A block with prompts is a doctest; any other is a script, which prints the indented text after it, if any."""
    if re.search(r"^\s*>>> ", block, re.MULTILINE):
        parsed = doctest.DocTestParser().get_doctest(block, namespace, "README.md", str(README), 0)
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
        report = io.StringIO()
        result = runner.run(parsed, out=report.write, clear_globs=False)
        namespace.update(parsed.globs)
        assert result.attempted > 0
        assert result.failed == 0, report.getvalue()
        return
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.parse(block), str(README), "exec"), namespace)  # noqa: S102
    assert " ".join(shown.split()) in " ".join(printed.getvalue().split())


def test_every_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = blocks(README.read_text(encoding="utf-8"))
    assert found, "README.md has no python block"
    namespace = {"__name__": "readme"}
    assert sum(bool(shown.strip()) for _, shown in found) >= 3
    for number, (block, shown) in enumerate(found, start=1):
        try:
            run(block, shown, namespace)
        except Exception as error:  # noqa: BLE001 - any failure is reported with the block that caused it
            pytest.fail(f"block {number} of README.md: {type(error).__name__}: {error}\n{block}")


def test_the_runner_notices_a_wrong_example():
    for wrong, shown in ((">>> 1 + 1\n3\n", ""), ("raise RuntimeError\n", ""), ("print(1)\n", "\n    2\n")):
        with pytest.raises((AssertionError, RuntimeError)):
            run(wrong, shown, {})


def test_blocks_share_one_namespace_and_other_languages_are_left_alone():
    text = "```bash\nfalse\n```\n```python\na = 1\n```\ntext\n```python\n>>> a + 1\n2\n```\n"
    namespace = {}
    for block, shown in blocks(text):
        run(block, shown, namespace)
    assert len(blocks(text)) == 2
    assert namespace["a"] == 1
