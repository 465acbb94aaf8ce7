"""An adversary who chooses the second query after seeing the first answer: the ledger holds, the naive rules do not.

Two branches (E7). The first release is Gaussian (or Laplace). Its privacy loss L says how far the attack has come.
Where a Laplace release would now gain more, the adversary asks for the largest one that is still accepted, elsewhere
for the largest Gaussian one. With P and Q the outputs on two neighbouring datasets, the whole interaction attains

    delta = E over L under P of max over branches of h_branch(epsilon - L),

h(t) the hockey-stick divergence of the branch at e^t: an integral in one dimension, computed here on a fine grid.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

import inid
from example_counts import examples
from inid.accounting import Ledger
from inid.mechanisms import epsilon_of, mu_of

Floats = NDArray[np.float64]
Curve = Callable[[Floats], Floats]

LINE = inid.Sensitivity.box([1.0])


def laplace_curve(ratio: float) -> Curve:
    """The divergence of one Laplace coordinate: 1 - e^((t - ratio)/2), once the loss is inside its range."""

    def at(t: Floats) -> Floats:
        inside = -np.expm1((np.clip(t, -ratio, ratio) - ratio) / 2)
        return np.where(t < -ratio, -np.expm1(t), inside)

    return at


def gaussian_curve(mu: float) -> Curve:
    def at(t: Floats) -> Floats:
        return np.maximum(ndtr(mu / 2 - t / mu) - np.exp(t + log_ndtr(-t / mu - mu / 2)), 0.0)

    return at


def after_gaussian(mu: float, epsilon: float, best: Curve) -> float:
    """The expectation over the loss of a first Gaussian release, N(mu^2/2, mu^2) under P."""
    z, step = np.linspace(-12, 12, 240_001, retstep=True)
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    return float((density * best(epsilon - mu * z - mu * mu / 2)).sum() * step)


def after_laplace(ratio: float, epsilon: float, best: Curve) -> float:
    """The same for a first Laplace release: the loss is ratio - 2x for x in between, and has two atoms."""
    x, step = np.linspace(0, ratio, 200_001, retstep=True)
    values = np.exp(-x) / 2 * best(epsilon - ratio + 2 * x)
    middle = (values.sum() - (values[0] + values[-1]) / 2) * step
    atoms = best(np.array([epsilon - ratio, epsilon + ratio]))
    return float(middle + atoms[0] / 2 + np.exp(-ratio) / 2 * atoms[1])


def either(*curves: Curve) -> Curve:
    return lambda t: np.max([curve(t) for curve in curves], axis=0)


def largest(accepted: Callable[[float], bool], most: float) -> float:
    """The largest number that is accepted, to 9 digits; 0 when none is."""
    low, high = 0.0, most
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if accepted(middle) else (low, middle)
    return low


def branches(ledger: Ledger, epsilon: float) -> list[Curve]:
    """The largest Laplace and the largest Gaussian release that the ledger would still accept."""

    def fits(budget: inid.Budget, mechanism: str) -> bool:
        return ledger.can_afford(inid.plan(LINE, budget, mechanism=mechanism))

    ratio = largest(lambda e: fits(inid.PureDP(epsilon=e), "laplace"), 2 * epsilon)
    mu = largest(lambda m: fits(inid.GaussianDP(mu=m), "gaussian"), 4 * epsilon + 1)
    return ([laplace_curve(ratio)] if ratio else []) + ([gaussian_curve(mu)] if mu else [])


@st.composite
def games(draw: st.DrawFn, most: float = 0.9) -> tuple[float, float, float]:
    """Epsilon, delta, and the share of the budget that the first query takes."""
    epsilon = draw(st.floats(0.3, 4.0))
    delta = 10 ** draw(st.floats(-9.0, -4.0))
    return epsilon, delta, draw(st.floats(0.3, most))


@examples(some=6, many=15)
@given(games())
def test_the_ledger_holds_after_a_gaussian_query(game: tuple[float, float, float]) -> None:
    epsilon, delta, share = game
    ledger = Ledger(total=inid.ApproxDP(epsilon, delta))
    mu = share * mu_of(epsilon, delta / 2)
    ledger.charge(inid.plan(LINE, inid.GaussianDP(mu), mechanism="gaussian"))
    found = branches(ledger, epsilon)
    assert len(found) == 2
    assert after_gaussian(mu, epsilon, either(*found)) <= delta


@settings(max_examples=15)
@given(games())
def test_the_ledger_holds_after_a_laplace_query(game: tuple[float, float, float]) -> None:
    epsilon, delta, share = game
    ledger = Ledger(total=inid.ApproxDP(epsilon, delta))
    ledger.charge(inid.plan(LINE, inid.PureDP(share * epsilon)))
    assert after_laplace(share * epsilon, epsilon, either(*branches(ledger, epsilon))) <= delta


@settings(max_examples=25)
@given(games(most=0.7))
def test_pots_tested_on_the_history_lose(game: tuple[float, float, float]) -> None:
    """Keeping (sum eps, sum mu^2) and testing phi_(eps - E)(M) <= delta accepts both branches, and attains more."""
    epsilon, delta, share = game
    mu = share * mu_of(epsilon, delta)
    ratio = epsilon - epsilon_of(mu, delta)
    rest = np.sqrt(mu_of(epsilon, delta) ** 2 - mu**2)
    assert after_gaussian(mu, epsilon, either(laplace_curve(ratio), gaussian_curve(rest))) > 1.05 * delta


@examples(some=4, many=10)
@given(games(most=0.7))
def test_curves_composed_up_to_the_target_lose(game: tuple[float, float, float]) -> None:
    """Composing the exact curves of the history and stopping at the target: each branch attains delta, both more."""
    epsilon, delta, share = game
    mu = share * mu_of(epsilon, delta)
    ratio = largest(lambda e: after_gaussian(mu, epsilon, laplace_curve(e)) <= delta, epsilon)
    rest = np.sqrt(mu_of(epsilon, delta) ** 2 - mu**2)
    assert after_gaussian(mu, epsilon, laplace_curve(ratio)) == pytest.approx(delta, rel=1e-5)
    assert after_gaussian(mu, epsilon, gaussian_curve(rest)) == pytest.approx(delta, rel=1e-5)
    assert after_gaussian(mu, epsilon, either(laplace_curve(ratio), gaussian_curve(rest))) > 1.01 * delta


def test_the_union_of_rules_loses_unless_delta_is_split() -> None:
    """A total with twice the delta gives each of the rules (b) and (c) the delta itself: together they attain more."""
    epsilon, delta = 1.0, 1e-6
    ledger = Ledger(total=inid.ApproxDP(epsilon, 2 * delta))
    mu = 0.7 * mu_of(epsilon, delta)
    ledger.charge(inid.plan(LINE, inid.GaussianDP(mu), mechanism="gaussian"))
    assert 1.05 * delta < after_gaussian(mu, epsilon, either(*branches(ledger, epsilon))) < 2 * delta


@examples(some=6, many=15)
@given(games(), st.floats(0.01, 0.9))
def test_a_ledger_with_a_reserve_holds(game: tuple[float, float, float], part: float) -> None:
    """On top of the best branch the adversary takes the whole reserve: with that probability all is revealed."""
    epsilon, delta, share = game
    reserve = part * delta
    ledger = Ledger(total=inid.ApproxDP(epsilon, delta), reserve=reserve)
    mu = share * mu_of(epsilon, (delta - reserve) / 2)
    ledger.charge(inid.plan(LINE, inid.GaussianDP(mu), mechanism="gaussian"), delta=reserve)
    best = either(*branches(ledger, epsilon))
    assert reserve + (1 - reserve) * after_gaussian(mu, epsilon, best) <= delta
    with pytest.raises(inid.BudgetError):
        ledger.charge(inid.plan(LINE, inid.PureDP(1e-9)), delta=1e-3 * reserve)


def test_taking_from_delta_as_one_goes_loses() -> None:
    """Limits at (epsilon, delta - taken), whatever was taken so far: accepted either way, and nearly 2 delta attained.

    After a Gaussian answer the adversary takes almost all of delta where the answer was of no use, and a second
    Gaussian release where it was.
    """
    epsilon, delta = 1.0, 1e-6
    mu = 0.7 * mu_of(epsilon, delta)
    rest = np.sqrt(mu_of(epsilon, delta) ** 2 - mu**2)
    taken = delta - float(gaussian_curve(mu)(np.array(epsilon)))
    assert mu <= mu_of(epsilon, delta - taken) * (1 + 1e-9)  # the naive rule accepts it
    revealed: Curve = lambda t: taken + (1 - taken) * np.maximum(-np.expm1(t), 0.0)  # noqa: E731
    assert after_gaussian(mu, epsilon, either(gaussian_curve(rest), revealed)) > 1.5 * delta


def test_the_integrals_are_those_of_known_compositions() -> None:
    """The means of the argument themselves: two Gaussians are one, two equal Laplace ratios are swapped freely."""
    assert after_gaussian(0.3, 1.0, gaussian_curve(0.4)) == pytest.approx(float(gaussian_curve(0.5)(np.array(1.0))))
    mixed = after_gaussian(0.3, 1.0, laplace_curve(0.7))
    assert after_laplace(0.7, 1.0, gaussian_curve(0.3)) == pytest.approx(mixed, rel=1e-6)


@given(st.lists(st.sampled_from(["0.1", "0.07", "0.25", "1e-17", "5e-324", "0.3333333333333333"]), max_size=30))
@settings(max_examples=30)
def test_sums_are_exact_whatever_the_order(prices: list[str]) -> None:
    """The ledger spends the decimals that were written: what fits on paper fits, and nothing rounds to nothing."""
    speck = inid.Sensitivity.box([1e-300])  # small enough for the scale of a subnormal promise to be a float
    ledger = Ledger(total=inid.PureDP(epsilon=100.0))
    for price in prices:
        ledger.charge(inid.plan(speck, inid.PureDP(epsilon=float(price))))
    spent = ledger.spent().epsilon
    assert spent is not None
    assert Fraction(spent) == sum((Fraction(price) for price in prices), Fraction(0))
