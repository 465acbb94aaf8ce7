"""Templates: one environment, escaped and strict; no Python file of the package holds HTML; without jinja2, a cure."""

import ast
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import inid
from inid.report import element, environment, picture, rendered

PACKAGE = Path(inid.__file__).parent
TAG = re.compile(r"</?[a-z][a-z0-9]*[ >/]")


def strings(path):
    """Every text of a Python file but docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    described = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in described
    ]


@pytest.mark.parametrize("folder", ["report", "tables", "jobs", "studio"])
def test_no_html_is_written_in_python(folder):
    found = {
        f"{path.relative_to(PACKAGE)}: {text}"
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        for text in strings(path)
        if TAG.search(text)
    }
    assert found == set()


def test_the_search_finds_html(tmp_path):
    path = tmp_path / "twin.py"
    path.write_text('"""<b>no</b>"""\ndef f(x):\n    """<i>no</i>"""\n    return f"<td>{x}</td>"\n', encoding="utf-8")
    assert [text for text in strings(path) if TAG.search(text)] == ["<td>", "</td>"]


def test_a_template_escapes_and_refuses_a_name_that_is_not_there():
    assert rendered("terms.html", terms=[("<", '"')]) == "<dl><dt>&lt;</dt><dd>&#34;</dd></dl>"
    with pytest.raises(UndefinedError):
        rendered("terms.html")


def test_the_page_in_the_browser_shares_the_templates_of_the_report():
    shared = environment("inid.studio")
    assert shared.get_template("report/terms.html").render(terms=[]) == "<dl></dl>"
    assert shared.autoescape is True
    assert {path.name for path in (files("inid.report") / "templates").iterdir()} == {
        name.removeprefix("report/") for name in environment().list_templates()
    }


def test_a_drawing_escapes_what_it_shows():
    assert picture(element("text", "<&>", x='"'), description="<&", height=1) == (
        '<svg width="100%" height="1" role="img" aria-label="&lt;&amp;"><title>&lt;&amp;</title>'
        '<text x="&quot;">&lt;&amp;&gt;</text></svg>'
    )


def test_without_jinja_a_report_names_the_extra_and_the_rest_works():
    """In a process of its own, where importing jinja2 and markupsafe fails as if they were not installed."""
    code = """
import sys
sys.modules["jinja2"] = sys.modules["markupsafe"] = None
import inid, inid.report
from inid import tables
plan = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(1.0))
try:
    inid.report.report_plan(plan, "never.html")
except inid.InidError as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "MissingExtraError reports need jinja2: run pip install '.[tables]' in inid's checkout.\n"
