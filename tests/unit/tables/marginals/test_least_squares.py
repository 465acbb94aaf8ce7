"""M10: the closed form is least squares, by a solver that knows nothing of blocks; tidy tables are tidy."""

from itertools import product

import numpy as np

from inid.tables.marginals.least_squares import consistent, precisions
from inid.tables.marginals.tidy import onto_simplex, rounded, tidied
from inid.tables.marginals.workload import workload_of

SIZES, TABLES, TAU = [3, 2, 4], [(0, 1), (1, 2), (2,), ()], np.array([1.0, 3.0, 0.5, 2.0])


def indicator(table):
    people = list(product(*(range(n) for n in SIZES)))
    cells = list(product(*(range(SIZES[i]) for i in table)))
    return np.array([[float(tuple(x[i] for i in table) == cell) for x in people] for cell in cells])


def test_the_closed_form_is_least_squares():
    rng = np.random.default_rng(1)
    noisy = {at: rng.normal(50, 20, tuple(SIZES[i] for i in table)) for at, table in enumerate(TABLES)}
    found = consistent(workload_of(SIZES, TABLES), noisy, TAU)
    rows = np.concatenate([indicator(table) / tau for table, tau in zip(TABLES, TAU, strict=True)])
    wanted = np.concatenate([noisy[at].ravel() / TAU[at] for at in range(len(TABLES))])
    people = np.linalg.lstsq(rows, wanted, rcond=None)[0]
    for at, table in enumerate(TABLES):
        assert np.allclose(found[at].ravel(), indicator(table) @ people)
    assert np.allclose(found[0].sum(axis=0), found[1].sum(axis=1))


def test_the_stated_precision_is_that_of_the_estimate():
    work = workload_of(SIZES, TABLES)
    rows = np.concatenate([indicator(table) / tau for table, tau in zip(TABLES, TAU, strict=True)])
    covariance = indicator((0, 1)) @ np.linalg.pinv(rows.T @ rows) @ indicator((0, 1)).T
    stated = work.variances(1 / precisions(work, TAU))[0]
    assert np.allclose(np.diag(covariance), stated)


def test_tidy_tables_are_non_negative_keep_the_total_and_nearly_agree():
    rng = np.random.default_rng(2)
    full = rng.poisson(3, SIZES).astype(float)
    noisy = {}
    for at, table in enumerate(TABLES):
        noisy[at] = full.sum(axis=tuple(i for i in range(3) if i not in table)) + rng.normal(
            0, 6, tuple(SIZES[i] for i in table)
        )
    made = tidied(workload_of(SIZES, TABLES), noisy, TAU, float(full.sum()))
    for at, values in made.items():
        assert (values >= 0).all()
        assert np.isclose(values.sum(), full.sum())
        truth = full.sum(axis=tuple(i for i in range(3) if i not in TABLES[at]))
        assert np.abs(values - truth).sum() <= np.abs(noisy[at] - truth).sum() + 1e-9
    assert np.abs(made[0].sum(axis=0) - made[1].sum(axis=1)).max() < 0.05 * full.sum()


def test_a_table_far_below_zero_still_has_its_total():
    assert np.isclose(onto_simplex(np.array([-5.0, -7.0]), 3.0).sum(), 3.0)
    assert onto_simplex(np.array([-5.0, -7.0]), 0.0).tolist() == [0.0, 0.0]


def test_rounding_keeps_the_total():
    values = onto_simplex(np.random.default_rng(3).normal(2, 3, (4, 5)), 40.0)
    whole = rounded(values, 40)
    assert whole.sum() == 40
    assert np.abs(whole - values).max() < 1
    assert (whole == np.floor(whole)).all()
