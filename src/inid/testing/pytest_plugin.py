"""`pytest --inid-audit`: run your own pipeline on a table and its neighbours, by record and replay.

Put `pytest_plugins = ["inid.testing.pytest_plugin"]` into conftest.py, and write a test:

    def test_the_monthly_table_is_private(inid_audit):
        inid_audit(make_monthly_table, people, neighbours="add_remove", person="id")

It compares with a few neighbours in every run, and with hundreds under `--inid-audit`, which prints what was found.
"""

from collections.abc import Callable
from typing import Any

import pytest

from inid.sets import Neighbours
from inid.testing.neighbours import neighbours_of
from inid.testing.recording import record, replay

_FEW, _MANY = 20, 300
_RESULTS = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The flag."""
    parser.getgroup("inid").addoption(
        "--inid-audit", action="store_true", help=f"audit pipelines on {_MANY} neighbouring tables instead of {_FEW}"
    )


def pytest_configure(config: pytest.Config) -> None:
    """A place for the results."""
    config.stash[_RESULTS] = []


@pytest.fixture
def inid_audit(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Run a function of a table on neighbouring tables, and fail where one person moves more than was charged."""
    number = _MANY if request.config.getoption("--inid-audit") else _FEW

    def audit(
        function: Callable[[Any], Any],
        table: Any,
        *,
        neighbours: Neighbours = "add_remove",
        person: str | None = None,
        most_rows: int = 1,
        finite: bool = False,
        seed: int = 0,
    ) -> None:
        tape = record(function, table, seed=seed)
        worst, wrong = 0.0, []
        others = neighbours_of(
            table, neighbours, number=number, person=person, most_rows=most_rows, finite=finite, seed=seed
        )
        for what, other in others:
            comparison = replay(tape, other, changes=2 if neighbours == "zero_out" else 1)
            worst = max(worst, *comparison.spent, 0.0)
            wrong += [f"{what}: {violation}" for violation in comparison.violations]
        line = f"{number} neighbours, {tape.numbers} numbers with noise, at most {worst:.3g} of the claim spent"
        request.config.stash[_RESULTS].append(f"{request.node.name}: {len(wrong)} violations; {line}")
        if not tape.numbers:
            pytest.fail("no number got noise: the pipeline releases nothing by inid in this thread", pytrace=False)
        if wrong:
            pytest.fail("\n".join(wrong[:20]), pytrace=False)

    return audit


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What was audited, under the flag."""
    lines = config.stash.get(_RESULTS, [])
    if lines and config.getoption("--inid-audit"):
        terminalreporter.section("inid audit")
        for line in lines:
            terminalreporter.write_line(line)
