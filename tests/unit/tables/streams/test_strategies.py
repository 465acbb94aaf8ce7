"""What a stream's strategy spends, by brute force over participations, corners and lost rows; and what it gives."""

import itertools
import json
import math
import operator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from inid.errors import GuaranteeError
from inid.numbers import binomial_series, square_root_coefficients
from inid.tables.streams import Toeplitz, Tree, choose_strategy, scaled_toeplitz, scaled_tree, strategy_from_dict

BOX, SIGMA = (2, 3), (5, 4)  # a two-coordinate box and its noise, in whole numbers
MU_SQUARED = sum(Fraction(b, s) ** 2 for b, s in zip(BOX, SIGMA, strict=True))
EPSILON = sum(Fraction(b, s) for b, s in zip(BOX, SIGMA, strict=True))


def matrix(strategy, lost=()):
    """S as whole numbers, later rows without the periods before a lost one."""
    found = np.zeros((strategy.periods, strategy.periods), dtype=object)
    start = 0
    for at in range(strategy.periods):
        if at in lost:
            start = at + 1
            continue
        row = strategy.measurement_weights(at)
        assert len(row) == at + 1
        found[at, start : at + 1] = row[start:]
    return found


def spent(strategy, k, exponent, lost=()):
    """The largest cost of one person over all participations in at most k periods and corners of the box, exactly."""
    S, worst = matrix(strategy, lost).tolist(), Fraction(0)
    scale = math.lcm(*SIGMA)  # all in whole numbers
    box = [b * scale // sigma for b, sigma in zip(BOX, SIGMA, strict=True)]
    for columns in itertools.combinations(range(strategy.periods), k):
        rows = [[row[j] for j in columns] for row in S]
        costs = []
        for size in box:  # every coordinate has signs of its own, and costs add up
            signs = itertools.product((size,), *[(-size, size)] * (k - 1))  # all signs may be turned
            costs.append(max(sum(abs(sum(map(operator.mul, row, d))) ** exponent for row in rows) for d in signs))
        worst = max(worst, Fraction(sum(costs), scale**exponent))
    return worst / (2**strategy.bits) ** exponent


def gaussian_strategies(periods, k):
    alone = np.eye(periods)[0]
    yield scaled_toeplitz(alone, k, "gaussian")
    yield scaled_toeplitz(square_root_coefficients(periods), k, "gaussian")
    yield scaled_toeplitz(binomial_series(0.8, 0.6, periods), k, "gaussian")
    yield scaled_toeplitz(np.ones(periods), k, "gaussian")
    if k == 1:
        yield scaled_toeplitz(square_root_coefficients(periods), 1, "gaussian", even=True)
        yield scaled_toeplitz(np.array([1.0, 0.5, -0.4, 0.1, -0.2, 0.3])[:periods], 1, "gaussian", even=True)


@pytest.mark.parametrize(("periods", "k"), [(1, 1), (5, 1), (5, 2), (5, 3), (4, 4)])
def test_gaussian_noise_spends_no_more_than_is_proved(periods, k):
    """T3 by brute force: adjacent periods too, all corners of the period's set, in rationals."""
    for strategy in gaussian_strategies(periods, k):
        proved = strategy.verify(k, "gaussian")
        found = spent(strategy, k, 2)
        assert found <= proved * MU_SQUARED <= MU_SQUARED
        assert found > Fraction(99, 100) * MU_SQUARED  # and nothing is given away


@pytest.mark.parametrize(("periods", "k"), [(1, 1), (5, 1), (5, 2), (4, 3)])
def test_laplace_noise_spends_no_more_than_is_proved(periods, k):
    for strategy in (scaled_toeplitz(np.eye(periods)[0], k, "laplace"), *(scaled_tree(periods, b, k) for b in (2, 3))):
        found = spent(strategy, k, 1)
        assert found <= strategy.verify(k, "laplace") * EPSILON <= EPSILON
        assert found > Fraction(99, 100) * EPSILON * (2 if isinstance(strategy, Toeplitz) else 1) / 2


@pytest.mark.parametrize("k", [1, 2])
def test_lost_rows_never_cost_more(k):
    """Whatever rows are lost, going on without the periods before costs no more (the row itself was never shown)."""
    periods = 4
    for strategy in (*gaussian_strategies(periods, k), *((scaled_tree(periods, 2, k),))):
        exponent = 1 if isinstance(strategy, Tree) else 2
        whole = EPSILON if exponent == 1 else MU_SQUARED
        for size in range(periods):
            for lost in itertools.combinations(range(periods), size):
                assert spent(strategy, k, exponent, lost) <= whole


def test_columns_of_equal_length_do_not_bound_several_periods():
    """The twin that counts k times the longest column understates adjacent periods, by brute force."""
    strategy = scaled_toeplitz(square_root_coefficients(5), 1, "gaussian", even=True)
    assert spent(strategy, 3, 2) > Fraction(3, 2) * 3 * MU_SQUARED
    with pytest.raises(GuaranteeError, match="in 3 periods"):
        strategy.verify(3, "gaussian")


def test_equal_columns_of_a_band_are_bounded_for_two_adjacent_periods():
    """(1, 1, 1) with unit columns, T = 6, k = 2: 3.41 at the last two columns, and 3.63 where lengths change.

    The twin that takes the first two columns, as is right of equal multipliers, claims 3.33.
    """
    strategy = scaled_toeplitz(np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]), 1, "gaussian", even=True)
    dense = matrix(strategy)
    products = dense.T @ dense
    worst = max(
        Fraction(int(products[i, i] + products[j, j] + 2 * products[i, j]), 4**strategy.bits)
        for i, j in itertools.combinations(range(6), 2)
    )
    last = Fraction(int(products[4:, 4:].sum()), 4**strategy.bits)
    assert float(last) == pytest.approx(3.41, abs=0.01)
    assert strategy.length(2, "gaussian") >= worst > last
    twin = Fraction(int(products[:2, :2].sum()), 4**strategy.bits)
    assert float(twin) == pytest.approx(3.33, abs=0.01)
    assert twin < last


def test_somebody_who_changes_the_period_costs_more():
    """Why "replace" is refused: who leaves one period and is in another moves a plain count by two columns."""
    strategy = choose_strategy(12, 1, "gaussian").strategy
    columns = matrix(strategy).T
    moved = max(sum((one - other) ** 2) for one, other in itertools.combinations(columns, 2))
    assert Fraction(int(moved), 4**strategy.bits) > Fraction(3, 2)


def test_a_strategy_that_grows_is_not_for_several_periods():
    growing = Toeplitz(3, 4, (1, 2, 1), (1, 1, 1))
    with pytest.raises(GuaranteeError, match="must not grow"):
        growing.length(2, "gaussian")
    negative = Toeplitz(3, 4, (2, 1, -1), (1, 1, 1))
    with pytest.raises(GuaranteeError, match="must not grow"):
        negative.length(2, "gaussian")


def test_a_larger_strategy_is_refused():
    strategy = scaled_toeplitz(square_root_coefficients(12), 1, "gaussian", even=True)
    enlarged = replace(strategy, multipliers=tuple(m + 1 for m in strategy.multipliers))
    with pytest.raises(GuaranteeError, match="plan the stream anew"):
        enlarged.verify(1, "gaussian")
    tree = scaled_tree(12, 3, 2)
    with pytest.raises(GuaranteeError, match="plan the stream anew"):
        replace(tree, multiplier=tree.multiplier + 1).verify(2, "laplace")


@pytest.mark.parametrize(
    "strategy",
    [
        scaled_toeplitz(square_root_coefficients(9), 1, "gaussian", even=True),
        scaled_toeplitz(binomial_series(0.7, 0.4, 9), 2, "gaussian"),
        scaled_toeplitz(np.eye(9)[0], 3, "gaussian"),
        scaled_tree(9, 2, 1),
        scaled_tree(9, 3, 2),
    ],
)
def test_rows_invert_and_spread_is_that_of_the_dense_matrix(strategy):
    T = strategy.periods
    inverse = np.linalg.inv(matrix(strategy).astype(float) / 2.0**strategy.bits)
    for at in range(T):
        np.testing.assert_allclose(strategy.reconstruction_weights(at), inverse[at, : at + 1], rtol=1e-9, atol=1e-12)
    for lost in ((3,), (0, 4), (2, 3)):
        kept = [at for at in range(T) if at not in lost]
        cut = matrix(strategy, lost)[np.ix_(kept, kept)].astype(float) / 2.0**strategy.bits
        found = np.linalg.inv(cut)
        for place, at in enumerate(kept):
            start = max([gap + 1 for gap in lost if gap < at], default=0)
            mine = strategy.reconstruction_weights(at)[start:]
            np.testing.assert_allclose(mine, found[place, place - len(mine) + 1 : place + 1], rtol=1e-9, atol=1e-12)
    for want, length in (("totals", T), ("windows", 3), ("windows", T), ("periods", 1)):
        sums = np.tril(np.ones((T, T))) - np.tril(np.ones((T, T)), -length)
        spread = np.linalg.norm(sums @ inverse, axis=1)
        np.testing.assert_allclose(strategy.spread(want, length), spread, rtol=1e-9)
    assert strategy_from_dict(json.loads(json.dumps(strategy.to_dict()))) == strategy


@pytest.mark.parametrize(("periods", "optimum"), [(12, 1.61), (52, 2.04), (365, 2.63)])
def test_totals_are_near_the_optimum(periods, optimum):
    """Section 13's table: independent periods have sqrt((T + 1) / 2)."""
    made = choose_strategy(periods, 1, "gaussian")
    assert optimum * 0.995 <= made.error <= 1.02 * optimum
    assert made.independent_error == pytest.approx(np.sqrt((periods + 1) / 2), rel=1e-4)
    made.strategy.verify(1, "gaussian")


@pytest.mark.parametrize(("periods", "k", "error"), [(12, 3, 3.93), (52, 12, 16.0)])
def test_several_periods_of_a_person(periods, k, error):
    made = choose_strategy(periods, k, "gaussian")
    assert made.error == pytest.approx(error, rel=0.005)
    assert made.gain > 1.1
    made.strategy.verify(k, "gaussian")


@pytest.mark.parametrize(("periods", "error"), [(12, 3.61), (52, 7.10), (365, 12.0)])
def test_pure_promises_take_the_better_of_periods_and_trees(periods, error):
    made = choose_strategy(periods, 1, "laplace")
    assert np.sqrt(2) * made.error == pytest.approx(error, rel=0.005)
    assert isinstance(made.strategy, Toeplitz) == (periods == 12)
    made.strategy.verify(1, "laplace")


def test_the_error_of_many_periods_is_that_of_all_sums():
    strategy = scaled_toeplitz(square_root_coefficients(3000), 1, "gaussian", even=True)
    for want, window in (("totals", 1), ("windows", 50)):
        whole = np.sqrt(np.mean(np.square(strategy.spread(want, window))))
        assert strategy.error(want, window) == pytest.approx(whole, rel=2e-4)


def test_what_is_wanted_decides():
    assert choose_strategy(24, 1, "gaussian", "periods").strategy.name == "independent periods"
    assert choose_strategy(12, 12, "gaussian").gain == 1.0  # in every period: nothing to gain
    totals, windows = choose_strategy(60, 1, "gaussian"), choose_strategy(60, 1, "gaussian", "windows", 6)
    own = np.sqrt(np.mean(totals.strategy.spread("windows", 6) ** 2))
    assert windows.error < own  # made for windows is better at windows
    assert windows.gain > 1.3
