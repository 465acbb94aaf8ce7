"""M10: the closed form is least squares, by a solver that knows nothing of blocks."""

from itertools import product

import numpy as np
import pytest

from inid.tables.questions.marginals import Consistency, LeastSquares, analyse, precisions, workload_of
from internals import module_with

agreement = module_with("inid.tables.questions.marginals", "Consistency")

SIZES, TABLES, TAU = [3, 2, 4], [(0, 1), (1, 2), (2,), ()], np.array([1.0, 3.0, 0.5, 2.0])


def indicator(table):
    people = list(product(*(range(n) for n in SIZES)))
    cells = list(product(*(range(SIZES[i]) for i in table)))
    return np.array([[float(tuple(x[i] for i in table) == cell) for x in people] for cell in cells])


def solved(asked, noisy, tau):
    """The least-squares table of all attributes, by a solver."""
    rows = np.concatenate([indicator(table) / own for table, own in zip(asked, tau, strict=True)])
    wanted = np.concatenate([values.ravel() / own for values, own in zip(noisy, tau, strict=True)])
    return np.linalg.lstsq(rows, wanted, rcond=None)[0].reshape(SIZES)


def margin(full, attributes):
    return full.sum(axis=tuple(at for at in range(len(SIZES)) if at not in attributes))


def noisy_tables(asked, seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(50, 20, tuple(SIZES[i] for i in table)) for table in asked]


def test_the_closed_form_is_least_squares():
    noisy, work = noisy_tables(TABLES, 1), workload_of(SIZES, TABLES)
    people = solved(TABLES, noisy, TAU)
    blocks = LeastSquares(work, TAU).blocks(dict(enumerate(noisy)))
    assert len(blocks) == len(work.blocks)
    for block, found in blocks.items():
        assert np.allclose(found, analyse(margin(people, work.attributes(block))))


@pytest.mark.parametrize(
    "asked", [TABLES, [(0, 1), (0, 2), (1, 2)], [(0, 1, 2), (0, 2), (1,)], [(0, 1), (2,)], [(1,), (0, 1), ()], [()]]
)
def test_tables_that_agree_are_least_squares(asked):
    """Overlaps of several widths, tables inside others, tables that share the total alone, and a table by itself."""
    noisy, tau = noisy_tables(asked, 2), np.array([1.0, 3.0, 0.5, 2.0])[: len(asked)]
    people = solved(asked, noisy, tau)
    Consistency(workload_of(SIZES, asked), tau).settle(noisy)
    for values, table in zip(noisy, asked, strict=True):
        assert np.allclose(values, margin(people, table), rtol=1e-10)


def test_overlaps_that_count_alike_would_not_be_least_squares(monkeypatch):
    """The broken twin: plain means over the tables that contain a block."""
    noisy = noisy_tables(TABLES, 2)
    people = solved(TABLES, noisy, TAU)
    monkeypatch.setattr(agreement, "block_weights", lambda work, tau: 1 / np.bincount(work.block_of)[work.block_of])
    Consistency(workload_of(SIZES, TABLES), TAU).settle(noisy)
    assert not np.allclose(noisy[0], margin(people, TABLES[0]), rtol=1e-3)
    assert np.allclose(noisy[0].sum(axis=0), noisy[1].sum(axis=1))


def test_the_stated_precision_is_that_of_the_estimate():
    work = workload_of(SIZES, TABLES)
    rows = np.concatenate([indicator(table) / tau for table, tau in zip(TABLES, TAU, strict=True)])
    covariance = indicator((0, 1)) @ np.linalg.pinv(rows.T @ rows) @ indicator((0, 1)).T
    stated = work.variances(1 / precisions(work, TAU))[0]
    assert np.allclose(np.diag(covariance), stated)
