"""M6 to M8: nobody leaves the ellipsoid of the residuals, by brute force over all people in rationals."""

import dataclasses
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from exact_residuals import exact_residuals
from inid.errors import GuaranteeError
from inid.tables.questions.marginals import least_maximum, least_sum, of_number, residuals, workload_of
from internals import module_with

RELATIONS = [("add_remove", False), ("zero_out", False), ("replace", False), ("replace", True)]


def numbers(reach):
    """Columns that are never missing."""
    return [of_number(channel, c) for channel, c in enumerate(reach) if channel]


def coordinates(made, tables):
    """The residuals of full tables, one per channel."""
    work, whole = made.workload, {}
    full = tuple(range(len(work.sizes)))
    for block in made.blocks.tolist():
        whole[block] = (int(work.blocks[block, 0]), *work.attributes(block))
    assert all(table.ndim == len(full) for table in tables.values())
    return exact_residuals(made, tables, whole)


def people(sizes, reach):
    """Everybody: each cell, and each column at either end of its range."""
    for cell in product(*(range(n) for n in sizes)):
        for values in product(*((-c, c) for c in reach[1:])):
            tables = {channel: np.zeros(sizes) for channel in range(len(reach))}
            for channel, value in enumerate((1.0, *values)):
                tables[channel][cell] = value
            yield tables


def worst(made, reach):
    """The largest sum of z^2 / r^2 over all differences that the relation allows, and of which kind it is."""
    radii = [Fraction(float(r)) ** 2 for r in np.repeat(made.radii, made.counts)]
    everybody = [coordinates(made, tables) for tables in people(made.workload.sizes, reach)]
    differences = [a - b for a, b in combinations(everybody, 2)] if made.neighbours == "replace" else []
    if made.neighbours != "replace" or made.vanishing:
        differences += everybody
    return max(sum(Fraction(int(z)) ** 2 / r for z, r in zip(d.tolist(), radii, strict=True)) for d in differences)


WORKLOADS = [
    ([2, 3], [(0,), (1,)], None, (1.0,)),
    ([3, 4, 2], [(0, 1), (2,)], None, (1.0,)),
    ([3, 2, 2], [(0, 1), (1, 2), ()], None, (1.0,)),
    ([2, 2, 2], [(0, 1, 2)], None, (1.0,)),
    ([3, 2], [(0,), (1,), (0, 1), (0,)], [0, 0, 1, 2], (1.0, 5.0, 3.0)),
    ([4], [(0,), (0,)], [0, 1], (1.0, 7.0)),
    ([3], [(0,)], [1], (1.0, 2.0)),
]


@pytest.mark.parametrize(("neighbours", "vanishing"), RELATIONS)
@pytest.mark.parametrize(("sizes", "tables", "channels", "reach"), WORKLOADS)
def test_nobody_leaves_the_ellipsoid_and_somebody_reaches_it(sizes, tables, channels, reach, neighbours, vanishing):
    work = workload_of(sizes, tables, channels=channels, contributions=numbers(reach))
    made = residuals(work, least_maximum(work, np.ones(len(tables))).s, neighbours=neighbours, vanishing=vanishing)
    most = worst(made, reach)
    assert most <= 1
    assert most >= 1 - Fraction(1, 10**9) or len(reach) > 1


@pytest.mark.parametrize(("neighbours", "vanishing"), RELATIONS)
def test_radii_that_are_cut_do_not_pass(neighbours, vanishing):
    work = workload_of([3, 4, 2], [(0, 1), (2,)])
    made = residuals(work, least_sum(work, np.ones(2)).s, neighbours=neighbours, vanishing=vanishing)
    for at in range(made.radii.size):
        radii = made.radii.copy()
        radii[at] *= 1 - 1e-8
        cut = dataclasses.replace(made, radii=radii)
        with pytest.raises(GuaranteeError):
            cut.prove()


def test_the_shortcuts_that_break_the_promise_are_caught():
    """M7 taken for sums, M7 where a row can vanish, and add_remove's radii under replace are all too small."""
    work = workload_of([3, 2], [(0,), (0, 1)], channels=[0, 1], contributions=numbers((1.0, 5.0)))
    s = least_sum(work, np.ones(2)).s
    alone = residuals(work, s, neighbours="add_remove")
    with pytest.raises(GuaranteeError):
        dataclasses.replace(alone, neighbours="replace", vanishing=True).prove()
    counts = workload_of([3, 2], [(0, 1)])
    fixed = residuals(counts, least_sum(counts, np.ones(1)).s, neighbours="replace")
    assert 0 not in fixed.blocks  # the total is public
    everything = residuals(counts, least_sum(counts, np.ones(1)).s, neighbours="replace", vanishing=True)
    assert 0 in everything.blocks
    radii = np.concatenate([[1e-3], fixed.radii])  # the total all but exact
    with pytest.raises(GuaranteeError):
        dataclasses.replace(everything, radii=radii).prove()
    # Sums treated like counts: 2 rho (1 - g) c^2 forgets that the number alone can change.
    sums = workload_of([2], [(0,)], channels=[1], contributions=numbers((1.0, 5.0)))
    made = residuals(sums, least_sum(sums, np.ones(1)).s, neighbours="replace")
    assert worst(made, (1.0, 5.0)) <= 1
    shrunk = dataclasses.replace(made, radii=made.radii / np.sqrt(2))
    with pytest.raises(GuaranteeError):
        shrunk.prove()


def test_a_bound_takes_over_where_subsets_are_too_many(monkeypatch):
    work = workload_of([3, 2, 4], [(0, 1), (1, 2)])
    s = least_sum(work, np.ones(2)).s
    exact = residuals(work, s, neighbours="replace")
    monkeypatch.setattr(module_with("inid.tables.questions.marginals", "spending"), "_MOST_SUBSETS", 1)
    bounded = residuals(work, s, neighbours="replace")
    assert worst(bounded, (1.0,)) <= 1
    assert bounded.radii.max() >= exact.radii.max()
