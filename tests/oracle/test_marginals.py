"""M4, M5 and M8 are optimal among all Gaussian mechanisms: a semidefinite program over every strategy finds no better.

A Gaussian mechanism that answers the rows of W with the matrix M = A^T A (A the strategy, noise of variance 1) has the
covariance W M^-1 W^T, and its mu^2 is the largest d^T M d over the differences d that one person can make.
"""

from itertools import combinations, product

import cvxpy as cp
import numpy as np
import pytest

from inid.tables.questions.marginals import least_maximum, least_sum, of_number, residuals, workload_of

WORKLOADS = {
    "two histograms": ([2, 3], [(0,), (1,)]),
    "a table and its margins": ([2, 3], [(), (0,), (1,), (0, 1)]),
    "pairs of three": ([2, 2, 3], [(0, 1), (1, 2), (0, 2)]),
    "a pair beside a single": ([3, 4], [(0, 1), (1,)]),
    "uneven": ([4, 2, 2], [(0,), (1, 2), ()]),
    "one table": ([3, 2, 2], [(0, 1, 2)]),
}


def indicator(sizes, table):
    """One row per cell of the table, one column per kind of person."""
    people = list(product(*(range(n) for n in sizes)))
    cells = list(product(*(range(sizes[i]) for i in table)))
    return np.array([[float(tuple(x[i] for i in table) == cell) for x in people] for cell in cells])


def solved(objective, matrix, people):
    """The least objective over all matrices under which nobody spends more than 1."""
    spent = [d @ matrix @ d for d in people]
    problem = cp.Problem(cp.Minimize(objective), [cp.max(cp.hstack(spent)) <= 1])
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_least_sum_is_that_of_a_semidefinite_program(name):
    sizes, tables = WORKLOADS[name]
    rows = np.concatenate([indicator(sizes, table) for table in tables])
    matrix = cp.Variable((rows.shape[1],) * 2, PSD=True)
    best = solved(cp.matrix_frac(rows.T, matrix), matrix, np.eye(rows.shape[1]))
    assert abs(least_sum(workload_of(sizes, tables), np.ones(len(tables))).value / best - 1) < 1e-5


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_least_maximum_is_that_of_a_semidefinite_program(name):
    sizes, tables = WORKLOADS[name]
    tolerance = 1.0 + np.arange(len(tables)) % 2
    scaled = [indicator(sizes, table) / t for table, t in zip(tables, tolerance, strict=True)]
    matrix = cp.Variable((scaled[0].shape[1],) * 2, PSD=True)
    each = [cp.matrix_frac(row, matrix) for rows in scaled for row in rows]
    best = solved(cp.max(cp.hstack(each)), matrix, np.eye(scaled[0].shape[1]))
    found = least_maximum(workload_of(sizes, tables), tolerance, gap=1e-6)
    assert abs(found.value / best - 1) < 1e-5


@pytest.mark.parametrize(
    ("sizes", "tables", "channels"),
    [([3], [(0,), (0,)], [0, 1]), ([2, 2], [(0,), (0, 1)], [0, 1]), ([2, 3], [(0,), (1,), (0,)], [0, 0, 1])],
)
def test_counts_and_sums_of_a_filled_column_are_those_of_a_semidefinite_program(sizes, tables, channels):
    reach = 2.0
    kinds = int(np.prod(sizes))
    rows = [
        np.hstack([indicator(sizes, table), 0 * indicator(sizes, table)][:: 1 if channel == 0 else -1])
        for table, channel in zip(tables, channels, strict=True)
    ]
    everybody = [np.concatenate([unit, value * unit]) for unit in np.eye(kinds) for value in (-reach, reach)]
    matrix = cp.Variable((2 * kinds,) * 2, PSD=True)
    best = solved(cp.matrix_frac(np.concatenate(rows).T, matrix), matrix, everybody)
    work = workload_of(sizes, tables, channels=channels, contributions=[of_number(1, reach)])
    assert abs(least_sum(work, np.ones(len(tables))).value / best - 1) < 1e-5


@pytest.mark.parametrize("vanishing", [False, True])
@pytest.mark.parametrize("name", WORKLOADS)
def test_replacing_costs_at_most_a_sixth_more_than_a_semidefinite_program(name, vanishing):
    """M7: the shape of M4 is within 17 % of the optimum; where no row can vanish, the total is public."""
    sizes, tables = WORKLOADS[name]
    rows = np.concatenate([indicator(sizes, table) for table in tables])
    kinds = rows.shape[1]
    units = np.eye(kinds)
    people = [one - two for one, two in combinations(units, 2)] + (list(units) if vanishing else [])
    # Without the direction of the total, where nobody moves it.
    basis = np.eye(kinds) if vanishing else np.linalg.svd(np.ones((1, kinds)))[2][1:].T
    matrix = cp.Variable((basis.shape[1],) * 2, PSD=True)
    wanted = rows @ basis
    wanted = wanted[np.abs(wanted).max(axis=1) > 1e-9]  # without the total, where it is public
    best = solved(cp.matrix_frac(wanted.T, matrix), matrix, [basis.T @ d for d in people])
    work = workload_of(sizes, tables)
    made = residuals(work, least_sum(work, np.ones(len(tables))).s, neighbours="replace", vanishing=vanishing)
    s = np.zeros(len(work.blocks))
    for own in made.order.alike:
        s[own.blocks] = (np.square(own.of_runs(made.radii)) / own.lengths[:, None]).max(axis=0)
    found = float(work.costs(np.ones(len(tables))) @ s) / best
    assert 1 - 1e-5 < found < 1.17, found


def test_a_wrong_allocation_is_seen():
    work = workload_of([2, 3], [(0,), (1,)])
    even = np.full(len(work.blocks), float(work.spreads.sum()))
    assert work.costs(np.ones(2)) @ even > least_sum(work, np.ones(2)).value * 1.01
