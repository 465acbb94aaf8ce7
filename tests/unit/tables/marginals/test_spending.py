"""M7 and M8: nobody leaves the ellipsoid, by brute force over all people of random small domains, in rationals.

Everybody is a cell, and for each column the ends of its range or no value. Three plausible shortcuts are broken twins:
they give rates at which the same brute force finds somebody outside.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest

from exact_residuals import exact_residuals
from inid.errors import GuaranteeError
from inid.tables.questions.marginals import (
    Contribution,
    least_maximum,
    least_sum,
    of_missing,
    of_number,
    residuals,
    workload_of,
)
from internals import module_with

spending = module_with("inid.tables.questions.marginals", "spending")

RELATIONS = [("add_remove", False), ("replace", False), ("replace", True)]


def random_case(seed):
    """Tables of counts, and of one column that is filled or may be missing."""
    rng = np.random.default_rng(seed)
    sizes = [int(n) for n in rng.integers(2, 4, size=rng.integers(1, 4))]
    subsets = [c for k in range(len(sizes) + 1) for c in combinations(range(len(sizes)), k)]
    reach, filled = float(rng.integers(1, 9)), bool(rng.random() < 0.5)
    offset = float(rng.choice([0.0, 0.5, 0.625, 0.6875, 0.75]))
    made = of_number(1, reach) if filled else of_missing(1, reach, offset)
    tables, channels = [], []
    for channel in (0, *made.channels):
        chosen = rng.choice(len(subsets), size=min(len(subsets), int(rng.integers(1, 3))), replace=False)
        tables += [subsets[at] for at in chosen]
        channels += [channel] * len(chosen)
    return workload_of(sizes, tables, channels=channels, contributions=[made])


def everybody(work):
    """What everybody adds to the full table of each channel."""
    states = work.contributions[1].states
    for cell in product(*(range(n) for n in work.sizes)):
        for state in states:
            tables = {}
            for channel, value in zip((0, *work.contributions[1].channels), (1.0, *state), strict=True):
                tables[channel] = np.zeros(work.sizes)
                tables[channel][cell] = value
            yield tables


def farthest(made, allowed="relation"):
    """The largest sum of z^2 / r^2 over the differences of a relation."""
    work = made.workload
    places = {block: (int(work.blocks[block, 0]), *work.attributes(block)) for block in made.blocks.tolist()}
    squares = [Fraction(float(r)) ** 2 for r in np.repeat(made.radii, made.counts)]
    people = [exact_residuals(made, tables, places) for tables in everybody(work)]
    pairs = allowed == "replace" or (allowed == "relation" and made.neighbours == "replace")
    alone = allowed == "alone" or (allowed == "relation" and (made.neighbours != "replace" or made.vanishing))
    found = [a - b for a, b in combinations(people, 2)] if pairs else []
    found += people if alone else []
    return max(sum(Fraction(float(z)) ** 2 / r for z, r in zip(d.tolist(), squares, strict=True)) for d in found)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("neighbours", "vanishing"), RELATIONS)
def test_nobody_leaves_the_ellipsoid_of_counts_and_sums(seed, neighbours, vanishing):
    work = random_case(seed)
    s = least_maximum(work, np.ones(len(work.tables))).s
    made = residuals(work, s, neighbours=neighbours, vanishing=vanishing)
    most = farthest(made)
    assert most <= 1
    # Counts' total takes what is left, and a quarter is kept for it; else the worst person is on the boundary.
    assert most >= Fraction(7, 10)
    if neighbours == "add_remove":
        assert most >= 1 - Fraction(1, 10**9)


def m7_for_numbers(work, rates, neighbours, *, vanishing):
    """Broken: sums taken for counts, 2 rho (1 - g) c^2."""
    states = [Contribution(made.channels, (made.states[0],)) for made in work.contributions]
    taken = replace(work, contributions=tuple(states))
    return ORIGINAL(taken, rates, neighbours, vanishing=vanishing)


def without_the_empty_set(work, rates, neighbours, *, vanishing):
    """Broken: only people in different cells are looked at."""
    kept = list(ORIGINAL(work, rates, neighbours, vanishing=False))
    return kept[1:] if neighbours == "replace" and len(kept) > 1 else kept


def pairs_alone(work, rates, neighbours, *, vanishing):
    """Broken: M7 where a row can vanish."""
    return ORIGINAL(work, rates, neighbours, vanishing=False)


ORIGINAL = spending.spending
TWINS = [
    (m7_for_numbers, [2, 3], [((0,), 0), ((0, 1), 1)], of_number(1, 3.0), False),
    (without_the_empty_set, [3], [((0,), 0), ((), 1), ((0,), 1)], of_number(1, 3.0), False),
    (pairs_alone, [2], [((), 0), ((0,), 0)], of_number(1, 3.0), True),
    (m7_for_numbers, [3], [((0,), 1), ((0,), 2)], of_missing(1, 2.0, 0.5), False),
]


@pytest.mark.parametrize(("twin", "sizes", "asked", "made", "vanishing"), TWINS)
def test_the_shortcuts_let_somebody_out(monkeypatch, twin, sizes, asked, made, vanishing):
    tables, channels = zip(*asked, strict=True)
    work = workload_of(sizes, tables, channels=channels, contributions=[made])
    s = least_sum(work, np.ones(len(tables))).s
    right = residuals(work, s, neighbours="replace", vanishing=vanishing)
    assert farthest(right) <= 1
    with monkeypatch.context() as patched:
        patched.setattr(module_with("inid.tables.questions.marginals", "Residuals"), "spending", twin)
        if twin is pairs_alone:  # the total all but exact, which pairs never notice
            patched.setattr(
                module_with("inid.tables.questions.marginals", "Residuals"), "alone", lambda *_: np.array([-(2.0**40)])
            )
            patched.setattr(module_with("inid.tables.questions.marginals", "Residuals"), "_MOST_OF_A_ROW", 1 - 2.0**20)
        wrong = residuals(work, s, neighbours="replace", vanishing=vanishing)
    assert farthest(wrong) > Fraction(101, 100)
    with pytest.raises(GuaranteeError):
        wrong.prove()


@pytest.mark.parametrize(("neighbours", "vanishing"), RELATIONS)
def test_a_block_cut_by_more_than_what_is_left_does_not_pass(neighbours, vanishing):
    """M6: the membership check fails when a block's radii are cut by more than the 2^-40 that is left of all."""
    work = workload_of([3, 2], [(0, 1), (0,), (0,)], channels=[0, 1, 2], contributions=[of_missing(1, 5.0, 0.6875)])
    made = residuals(work, least_sum(work, np.ones(3)).s, neighbours=neighbours, vanishing=vanishing)
    outside = 0
    for block in made.blocks.tolist():
        own = np.zeros(len(work.blocks))
        own[block] = 1e-8
        cut = replace(made, radii=made.radii * (1 - made.order.runs_of(own)))
        if farthest(cut) > 1:
            outside += 1
            with pytest.raises(GuaranteeError):
                cut.prove()
    assert outside == len(made.blocks) or (neighbours == "replace" and outside > 0)


def test_rounding_beyond_the_floats_is_paid_for():
    work = workload_of([3, 2], [(0, 1), (0, 1)], channels=[0, 1], contributions=[of_number(1, 2.0**29)])
    s = least_sum(work, np.ones(2)).s
    slack = np.where(work.blocks[:, 0] == 1, 512.0, 0.0)
    plain = residuals(work, s, neighbours="add_remove")
    made = residuals(work, s, neighbours="add_remove", slack=slack)
    assert 0 < made.rounding < 1e-5
    assert (made.radii >= plain.radii).all()
    with pytest.raises(GuaranteeError):
        replace(plain, slack=made.slack).prove()
