"""RenyiDP against mpmath: the largest noise parameters that keep it do, and the next larger ones do not."""

from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

import inid
from inid.planning import laplace_divergence

CASES = [(2, 0.5), (9, 0.526), (9, 1e-6), (40, 3.0), (200, 0.02), (3, 50.0)]


def laplace(order: int, ratio: mp.mpf) -> mp.mpf:
    """The integral of p^a q^(1-a) over the line, for Laplace(0, 1) and Laplace(ratio, 1), by mpmath."""

    def density(x: mp.mpf) -> mp.mpf:
        return mp.exp(-order * abs(x) + (order - 1) * abs(x - ratio)) / 2

    return mp.log(mp.quad(density, [-mp.inf, 0, ratio, mp.inf])) / (order - 1)


@pytest.mark.parametrize(("order", "divergence"), CASES)
def test_the_largest_laplace_noise_is_at_the_root(order: int, divergence: float) -> None:
    promise = inid.RenyiDP(order, divergence)
    with mp.workdps(30):
        best = promise.laplace_epsilon
        assert laplace(order, mp.mpf(best)) <= mp.mpf(repr(divergence))
        assert laplace(order, mp.mpf(best) * (1 + mp.mpf("1e-9"))) > mp.mpf(repr(divergence))
    assert promise.admits("laplace", Fraction(best))
    assert not promise.admits("laplace", Fraction(best) * (1 + Fraction(1, 10**9)))


@pytest.mark.parametrize(("order", "divergence"), CASES)
def test_the_largest_gaussian_noise_is_at_the_root(order: int, divergence: float) -> None:
    mu = Fraction(inid.RenyiDP(order, divergence).gaussian_mu)
    assert order * mu**2 / 2 <= Fraction(repr(divergence)) < order * (mu * (1 + Fraction(1, 10**12))) ** 2 / 2


@pytest.mark.parametrize(("order", "divergence"), CASES[:4])
@pytest.mark.parametrize("limits", [[1.0, 3.0, 40.0], [1.0] * 20, [1e-3, 5.0]])
def test_plans_spend_the_divergence_of_their_own_ratios(order: int, divergence: float, limits: list[float]) -> None:
    plan = inid.plan(inid.Sensitivity.box(limits), inid.RenyiDP(order, divergence), mechanism="laplace")
    with mp.workdps(30):
        exact = sum(laplace(order, mp.mpf(d) / mp.mpf(b)) for d, b in zip(limits, plan.scales.tolist(), strict=True))
        assert exact <= mp.mpf(repr(divergence))
        assert exact >= mp.mpf(repr(divergence)) * (1 - mp.mpf("1e-6"))
    bound = laplace_divergence(plan.sensitivity, plan.run_scales, plan.cells, order)
    assert float(exact) <= bound <= float(exact) * (1 + 1e-9)


@pytest.mark.parametrize(("order", "divergence"), CASES)
@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_the_epsilon_is_that_of_the_formula(order: int, divergence: float, delta: float) -> None:
    found = inid.RenyiDP(order, divergence).to_approx(delta).epsilon
    with mp.workdps(30):
        a = mp.mpf(order)
        exact = mp.mpf(repr(divergence)) + mp.log(1 - 1 / a) - (mp.log(mp.mpf(repr(delta))) + mp.log(a)) / (a - 1)
        assert max(exact, 0) <= found <= max(exact, 0) * (1 + mp.mpf("1e-12")) + mp.mpf("1e-12")


def test_the_epsilon_covers_gaussian_noise() -> None:
    """Gaussian noise that spends the whole divergence has an (epsilon, delta) curve below what is implied."""
    promise = inid.RenyiDP(9, 0.526)
    plan = inid.plan(inid.Sensitivity.box([1.0]), promise, mechanism="gaussian")
    for delta in np.logspace(-12, -2, 6):
        assert plan.epsilon(float(delta)) <= promise.to_approx(float(delta)).epsilon


@pytest.mark.parametrize("bad", [{"order": 1}, {"order": 2.5}, {"order": "2"}, {"divergence": 0}, {"divergence": -1}])
def test_malformed_promises_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(inid.ArgumentError):
        inid.RenyiDP(**{"order": 4, "divergence": 0.5, **bad})  # type: ignore[arg-type]


def test_a_changed_plan_does_not_verify() -> None:
    plan = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.RenyiDP(9, 0.5), mechanism="laplace")
    record = plan.to_dict()
    record["scales"] = [scale * (1 - 1e-9) for scale in record["scales"]]
    with pytest.raises(inid.GuaranteeError):
        inid.NoisePlan.from_dict(record).verify()
