"""Very many tables: alike blocks are planned as one, plans need no cells, and too many cells are refused in time."""

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import inid
from inid.errors import ArgumentError
from inid.sets import Sensitivity
from inid.tables import Table
from inid.tables.questions.marginals import least_maximum, least_sum, order_of, residuals, workload_of

BUDGET = inid.ApproxDP(1.0, 1e-6)


def empty(sizes):
    columns = {f"c{at}": pa.array([], pa.int64()) for at in range(len(sizes))}
    return Table(pa.table(columns), domains={f"c{at}": range(n) for at, n in enumerate(sizes)}, other="drop")


def test_coordinates_go_to_blocks_and_back():
    work = workload_of([3, 5, 3, 2], list(combinations(range(4), 2)))
    order = order_of(work, np.arange(len(work.blocks)))
    values = np.arange(float(order.counts.sum()))
    assert np.array_equal(np.concatenate([own.scattered(own.gathered(values)) for own in order.alike]), values)
    assert sorted(block for own in order.alike for block in own.blocks.tolist()) == list(range(len(work.blocks)))
    assert order.counts.sum() == work.entries.sum()


def test_blocks_that_are_planned_alike_are_one_row_for_each_squared_length():
    tables = list(combinations(range(12), 2))
    work = workload_of([10] * 12, tables)
    made = residuals(work, least_maximum(work, np.ones(len(tables))).s, neighbours="add_remove")
    kinds = sum(len(own.squares) for own in made.order.alike)
    assert made.sensitivity().limits.size == kinds < made.radii.size / 10
    assert made.sensitivity().dimension == work.entries.sum()
    assert made.is_covered_by(made.sensitivity())


def test_an_ellipsoid_whose_rows_end_inside_a_run_or_are_shorter_is_not_accepted():
    work = workload_of([4, 4, 2], [(0, 1), (2,)])
    made = residuals(work, least_sum(work, np.ones(2)).s, neighbours="add_remove")
    own = made.sensitivity()
    assert made.is_covered_by(own)
    counts = own.counts.copy()
    wide = int(np.argmax(counts))
    counts[wide], counts[wide - 1] = counts[wide] - 1, counts[wide - 1] + 1
    assert made.rows_of(Sensitivity.ellipsoid(own.limits, counts=counts)) is None
    assert not made.is_covered_by(Sensitivity.ellipsoid(own.limits, counts=counts))
    for at in range(own.limits.size):
        shorter = own.limits.copy()
        shorter[at] *= 1 - 1e-8
        assert not made.is_covered_by(Sensitivity.ellipsoid(shorter, counts=own.counts))
    assert not made.is_covered_by(Sensitivity.ellipsoid(own.limits[:-1], counts=own.counts[:-1]))


def test_more_cells_than_a_release_holds_are_planned_and_refused_before_the_charge():
    query = empty([40] * 40).marginals(3)
    plan = query.plan(BUDGET, mechanism="gaussian")
    assert plan.numbers.std.size == len(query.question.tables) == 9880
    assert plan.verify().arithmetic.startswith("integers")
    ledger = inid.Ledger(total=inid.ApproxDP(3.0, 1e-5))
    with pytest.raises(ArgumentError, match=r"2\^26 fit into a release"):
        query.release(plan, ledger)
    assert not ledger.history()


def test_a_plan_of_many_tables_is_printed_without_a_line_for_each():
    """The worst come first, and entries of the others, which take seconds for very many, are not made."""
    plan = empty([3, 2, 4, 2, 5, 2, 3]).marginals(3).plan(BUDGET, objective="sum")
    text = str(plan)
    assert "tables" not in vars(plan)
    assert "statistics" not in vars(plan.question)
    worst = sorted(plan.tables, key=lambda table: -table.std / table.tolerance)
    shown = [line.split("  ")[0] for line in text.splitlines()[4:24]]
    assert shown == [table.label for table in worst[:20]]
    assert f"of 35 tables; expected std {worst[-1].std:.4g} to {worst[0].std:.4g}" in text


def test_too_many_tables_and_too_wide_tables_are_refused():
    with pytest.raises(ArgumentError, match=r"at most 2\^18"):
        empty([2] * 60).marginals(5)
    with pytest.raises(ArgumentError, match=r"more than 2\^26 cells"):
        empty([100] * 5).marginals([("c0", "c1"), ("c0", "c1", "c2", "c3", "c4")])


def test_the_census_beside_an_equal_split():
    """With the total 0.665 of the equal split's std; without it no Gaussian mechanism is below 0.671."""
    for least, low, high in ((0, 0.664, 0.666), (1, 0.671, 0.672)):
        tables = [chosen for ways in range(least, 4) for chosen in combinations(range(5), ways)]
        found = least_maximum(workload_of([2, 116, 63, 2, 8], tables), np.ones(len(tables)), gap=1e-6)
        assert low**2 < found.value / found.within / len(tables) <= found.value / len(tables) < high**2
