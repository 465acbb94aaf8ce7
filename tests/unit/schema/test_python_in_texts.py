"""No text of an error that a job can meet names Python without a code, by which a command and a page word the cure.

The source is read: texts in calls of errors, cures that are passed to readers of arguments, and constants that hold
cures. What names Python without a code stands below, with the reason why no job meets it.
"""

import ast
import re
from pathlib import Path

import pytest

import inid

ROOT = Path(inid.__file__).parent
NO_JOB_REACHES = ("learn", "dpsgd", "testing", "curves", "noise", "numbers", "mechanisms", "figures.py")
PYTHON = re.compile(
    r"""Table\(|tables\.[a-z]|inid\.[A-Za-z]|\b[A-Z]\w+\(|\w\.\w+\(|\w\(\)|\w\(\.\.\.\)|is_in|to_dict
    |(?<!\?schema)(?<=[a-z_>])=(?:\.\.\.|True|False|None|[\[{("'])|(?:Pure|Approx|Gaussian|ZC|Renyi)DP""",
    re.VERBOSE,
)
OF_A_TYPE = re.compile(r'must be (?:a|an|the|keyed|True|\w+DP,?|"\w+" or an?) ')

TYPES = "the type of an argument: the schema reads every value of a job, and jobs pass what they made"
PLANS = "a job makes its own plan, of its own question, and releases that"
STEPS = "a job charges plans and publications: no steps on samples, no compositions, no noise that follows from answers"
LEDGERS = "a job looks whether the ledger is there, and with which settings, before it opens it, and closes it last"
FRAMES = "a job reads a file or one table of a database: no frames, no joins, no public tables beside it"
ASKED = "jobs refuse it by a code, before Python would, or ask for the form that suits"
CALLS = "no job calls this"
UNLIMITED = "a job states the most rows of a person"

NO_JOB_MEETS = {
    ("tables", "for example totals={"): "rake is called by its users alone",
    ("tables", "rake fits counts"): "likewise",
    ("accounting", "the plan holds a number"): PLANS,
    ("accounting", "Poisson subsampling"): STEPS,
    ("accounting", "charge <>"): STEPS,
    ("accounting", "pass what charge() returned"): STEPS,
    ("accounting", "all parts must be"): PLANS,
    ("accounting", "the ledger is closed"): LEDGERS,
    ("accounting", "a ledger cannot be pickled"): CALLS,
    ("accounting", "a lasting ledger takes no charges"): CALLS,
    ("accounting", 'there is no ledger "<>"'): LEDGERS,
    ("accounting", "order is for"): CALLS,
    ("accounting", "the ledger in <> was made with"): LEDGERS,
    ("accounting", "a ledger in memory"): LEDGERS,
    ("jobs", "write for example count"): "the form in which commands, files and the page write it",
    ("promises", "<> does not imply"): CALLS,
    ("promises", "pass a small probability"): TYPES,
    ("tables", "<> has no stated range"): CALLS,
    ("tables", "for example <>="): TYPES,
    ("tables", "the lazy frame"): FRAMES,
    ("tables", ", and stops at one that is not UTF-8"): FRAMES,
    ("tables", "the Spark frame"): FRAMES,
    ("tables", "the number of rows is public"): FRAMES,
    ("tables", "a database is asked through"): FRAMES,
    ("tables", "public lists tables"): FRAMES,
    ("tables", "State who the people are"): FRAMES,
    ("tables", "person lacks the person column"): FRAMES,
    ("tables", "person names columns of people"): FRAMES,
    ("tables", "a public table has two rows"): FRAMES,
    ("tables", "the view holds a missing"): FRAMES,
    ("tables", "the view is a union"): FRAMES,
    ("tables", "dates are compared by whole days"): "texts of expressions hold whole days alone",
    ("tables", "for example labels="): TYPES,
    ("tables", "for example group_rows="): TYPES,
    ("tables", "a publication needs"): "a job without questions asks a single one",
    ("tables", "<> names <>, which is no query"): "each question states its own",
    ("tables", "<> asks another table"): "a job has one table",
    ("tables", "<> is asked with another"): "a job has one table",
    ("tables", "plan was made"): PLANS,
    ("tables", "make one with query.plan"): PLANS,
    ("tables", "integers=True goes with tidy=True"): ASKED,
    ("tables", "tidy=True is for counts"): ASKED,
    ("tables", "for example tolerance="): TYPES,
    ("tables", "a result cannot be pickled"): CALLS,
    ("tables", "cells are combined"): ASKED,
    ("tables", "tidy is for tables"): ASKED,
    ("tables", "pass a list of names"): TYPES,
    ("tables", "a stream cannot be pickled"): CALLS,
    ("tables", "pass the most rows that one person"): UNLIMITED,
    ("tables", "contribution must be"): UNLIMITED,
    ("tables", "<> needs a limit on the rows of a person"): UNLIMITED,
    ("tables", "a limit is chosen, and totals"): UNLIMITED,
    ("tables", "the sum of <> may fall by a row"): UNLIMITED,
    ("tables", "by has <> groups"): UNLIMITED,
    ("tables", "without a limit on the rows of a person"): UNLIMITED,
    ("tables", "weights go with a limit"): UNLIMITED,
    ("tables", "<> names <>, which is no new column"): "a job hands facts of computed columns over by name",
}


def texts(source):
    """Every text of an error without a code, with `<>` where a value stands."""
    tree = ast.parse(source)
    found, told = [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name.endswith("Error") and any(keyword.arg == "code" for keyword in node.keywords):
                told |= {id(inner) for inner in ast.walk(node)}
            elif name.endswith("Error"):
                found.append(node)
            found += [keyword.value for keyword in node.keywords if keyword.arg == "cure"]
        if isinstance(node, ast.Assign) and re.fullmatch(
            r"[A-Z_]+|.*(?:cure|obstacle).*", ast.unparse(node.targets[0])
        ):
            found.append(node.value)
    for root in found:
        inside = {id(part) for one in ast.walk(root) if isinstance(one, ast.JoinedStr) for part in one.values}
        for node in ast.walk(root):
            if id(node) not in told | inside and isinstance(node, ast.JoinedStr | ast.Constant):
                yield "".join(_pieces(node))


def _pieces(node):
    if isinstance(node, ast.JoinedStr):
        for part in node.values:
            yield from ["<>"] if isinstance(part, ast.FormattedValue) else _pieces(part)
    elif isinstance(node.value, str):
        yield node.value


def naming_python(source):
    """The texts that name Python; what asks for another type is set apart."""
    told = [text for text in texts(source) if " " in text and not text.startswith(("SELECT ", "CREATE ", "\n"))]
    return [text for text in told if PYTHON.search(text) and not OF_A_TYPE.search(text)]


def excused(path, text):
    """The entries of the list that hold a text of a package; in which of its files it stands does not matter."""
    package = path.split("/")[0].removesuffix(".py")
    return [(name, start) for name, start in NO_JOB_MEETS if package == name and text.startswith(start)]


def everything():
    """Every text that names Python, with its file."""
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.split("/")[0] not in NO_JOB_REACHES:
            for text in naming_python(path.read_text(encoding="utf-8")):
                yield name, text


def test_texts_that_name_python_have_a_code_or_no_job_meets_them():
    found = list(everything())
    assert [(name, text) for name, text in found if not excused(name, text)] == []
    used = {entry for name, text in found for entry in excused(name, text)}
    assert set(NO_JOB_MEETS) - used == set()  # the list holds nothing that is gone


def test_texts_that_a_page_can_show_name_no_command_without_a_code():
    """What names a command for want of another way stands here."""
    named = re.compile(r"(?<!\w)--[a-z]|\binid (?:ledger|release|plan|verify|stream|rows|accuracy|compare)\b")
    found = [
        text
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).parts[0] not in (*NO_JOB_REACHES, "cli")
        for text in texts(path.read_text(encoding="utf-8"))
        if named.search(text)
    ]
    adopted, written = found
    assert "run inid ledger adopt." in adopted  # a copy of a ledger is made to count by a command alone
    assert written.startswith("write a name and its options")  # of a flag, which no page has


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("raise ArgumentError(f'the expression {x} names no column: tables.col(1).')", 1),
        ("raise ArgumentError(f'the expression {x} names no column: tables.col(1).', code='bare')", 0),
        ("_CURE = 'state Table(bounds=...), say'", 1),
        ("real(name, x, cure=f'pass {y}, then other=\"cell\"')", 1),
        ("raise BudgetError('promise ApproxDP, with a delta')", 1),
        ("raise ArgumentError('the limit is 3: state --bounds age=0:100')", 0),
        ("raise ArgumentError('plan must be a NoisePlan, made by inid.plan(...)')", 0),
    ],
)
def test_the_scan_sees_what_it_should(source, number):
    assert len(naming_python(source)) == number
