"""The list of mutations fits the library as it is, and each of them is killed by its test."""

import ast
import re

import pytest

from mutants import MUTATIONS, ROOT, Mutation, main

TEST = "tests/unit/planning/test_certificate.py::test_a_broken_promise_of_one_part_in_ten_to_the_hundred_fails"


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.file)
def test_a_mutation_changes_one_line_and_names_a_test_that_exists(mutation):
    text = (ROOT / "src" / "inid" / mutation.file).read_text(encoding="utf-8")
    changed = mutation.applied_to(text)
    assert len({text.count("\n"), changed.count("\n")}) == 1
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    path, name = re.fullmatch(r"([^:]+)::(\w+)(?:\[.+\])?", mutation.test).groups()
    assert f"\ndef {name}(" in (ROOT / path).read_text(encoding="utf-8")


def test_the_list_is_long_and_names_nothing_twice():
    assert len(MUTATIONS) >= 60
    assert len({(one.file, one.old, one.new) for one in MUTATIONS}) == len(MUTATIONS)


@pytest.mark.slow
def test_every_mutation_is_killed():
    lines = []
    assert main(write=lines.append) == 0, "\n".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("if not holds:", "if not holds and spent < 0:", "killed"),
        ("if not holds:", "if holds is False:", "survived"),
        ("def certify(", "def certified(", "broken"),
    ],
)
def test_what_no_test_sees_survives_and_what_cannot_be_imported_is_no_kill(old, new, said):
    lines = []
    code = main(mutations=[Mutation("planning/certificate.py", old, new, TEST)], write=lines.append)
    assert (code, lines[0].split()[0]) == (0 if said == "killed" else 1, said)


def test_a_text_that_stands_twice_is_refused():
    with pytest.raises(ValueError, match="2 times"):
        Mutation("x.py", "a", "b", TEST).applied_to("a = a")
