"""Refusals in three tongues: Python's own text, and what a command and a page say by the same code and facts."""

import ast
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import inid
from inid.errors import Argument, Column, Fact, Words
from inid.jobs import UnansweredError, sentence_of
from inid.schema import MESSAGES, error_message
from refusals import PROVOKED, provoked, write_people

SOURCES = sorted(Path(inid.__file__).parent.rglob("*.py"))
PYTHON = ("Table(", "tables.", "inid.", "query(", "Person(", "=True", "=...", "={", "=[", "part(", "None")


def codes_in_the_source():
    """Every code with which an error is raised, read from the syntax of the source."""
    found = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for keyword in node.keywords if isinstance(node, ast.Call) else ():
                if keyword.arg == "code" and isinstance(node.func, ast.Name) and node.func.id.endswith("Error"):
                    found |= {one.value for one in ast.walk(keyword.value) if isinstance(one, ast.Constant)}
    return {code for code in found if isinstance(code, str)}


def test_every_code_is_worded_and_provoked():
    assert codes_in_the_source() == MESSAGES.keys() == PROVOKED.keys()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table."""
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path)
    return tmp_path


@pytest.mark.parametrize("code", MESSAGES)
def test_each_surface_says_the_cure_in_its_own_terms(folder, code):
    error = provoked(code)
    assert error.code == code
    command, page = error_message(error, "command"), error_message(error, "page")
    assert not [word for word in ("Table(", "tables.", "--", "inid.") if word in page], page
    assert not [word for word in PYTHON if word in command], command
    assert not re.search(r"\binid [a-z]", page), page  # a page names no command
    assert "DP(" not in command or code == "parts_uncounted", command  # whose table names kinds of promises
    for text in (str(error), command, page):
        assert text[-1] in ".?" or "\n" in text, text
        assert not re.search(r"[{}]", text.replace(repr(error.facts), "")) or text == str(error), text


@pytest.mark.parametrize("code", MESSAGES)
def test_an_error_survives_pickling_with_its_code_and_facts(folder, code):
    error = provoked(code)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert (type(again), str(again), again.code, again.facts) == (type(error), str(error), error.code, error.facts)
    assert error_message(again, "page") == error_message(error, "page")
    assert all(isinstance(fact, Fact) for fact in again.facts.values())


@pytest.mark.parametrize("value", ["Wilhelmina", 77777123, 3.5, np.str_("x"), np.float64(1), b"x", ["a"]])
def test_no_value_of_a_table_is_a_fact(value):
    """The type decides: plain texts and numbers, as tables hold them, are refused, and not shown."""
    with pytest.raises(TypeError) as raised:
        inid.ArgumentError("wrong", code="bounds_missing", column=value)
    assert str(value) not in str(raised.value)


def test_a_question_among_several_is_named_once_on_every_surface():
    error = inid.ArgumentError("x", code="bounds_missing", statistic=Argument("mean"), column=Column("age"))
    moved = error.within("pay")
    assert str(moved) == "pay: x"
    assert error_message(moved, "command").startswith("pay: --mean needs")
    assert error_message(moved, "page").startswith("pay: mean needs")


def test_a_release_that_failed_after_its_charge_is_said_in_the_terms_of_the_surface():
    error = inid.ArgumentError("x", code="bounds_missing", statistic=Argument("mean"), column=Column("age"))
    failed = pickle.loads(pickle.dumps(UnansweredError("x The charge stands.", 3, error, "The charge stands.")))  # noqa: S301
    assert sentence_of(failed, "page").endswith("looking at the table. The charge stands.")
    assert (failed.charge, "--" in sentence_of(failed, "page")) == (3, False)


def test_a_fact_in_a_text_is_not_read_as_a_template():
    error = inid.BudgetError("x", code="stream_absent", file=Words("{the[bounds]}"))
    assert error_message(error, "page") == "there is no stream in {the[bounds]}: open it first."
