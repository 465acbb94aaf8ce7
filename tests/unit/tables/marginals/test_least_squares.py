"""M10: the closed form is least squares, by a solver that knows nothing of blocks."""

from itertools import product

import numpy as np

from inid.tables.marginals.least_squares import LeastSquares, precisions
from inid.tables.marginals.workload import workload_of

SIZES, TABLES, TAU = [3, 2, 4], [(0, 1), (1, 2), (2,), ()], np.array([1.0, 3.0, 0.5, 2.0])


def indicator(table):
    people = list(product(*(range(n) for n in SIZES)))
    cells = list(product(*(range(SIZES[i]) for i in table)))
    return np.array([[float(tuple(x[i] for i in table) == cell) for x in people] for cell in cells])


def test_the_closed_form_is_least_squares():
    rng = np.random.default_rng(1)
    noisy = {at: rng.normal(50, 20, tuple(SIZES[i] for i in table)) for at, table in enumerate(TABLES)}
    found = LeastSquares(workload_of(SIZES, TABLES), TAU).tables(noisy)
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
