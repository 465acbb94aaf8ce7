"""The privacy curves of plans, against mpmath, against enumeration of the sets, and against dp_accounting."""

import math

import dp_accounting
import mpmath as mp
import numpy as np
import pytest

import inid
from inid.accounting import from_dp_event, to_dp_event

S = inid.Sensitivity


def gaussian_delta(epsilon, scale):
    with mp.workdps(60):
        e, m = mp.mpf(repr(epsilon)), 1 / mp.mpf(scale)
        tail = lambda x: mp.erfc(x / mp.sqrt(2)) / 2  # noqa: E731
        return tail(e / m - m / 2) - mp.exp(e) * tail(e / m + m / 2)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 5.0])
@pytest.mark.parametrize("mu", [0.01, 0.5, 3.0])
def test_the_gaussian_curve_encloses_the_closed_form(epsilon, mu):
    plan = inid.plan(S.box([1.0]), inid.GaussianDP(mu), mechanism="gaussian")
    low, high = plan.delta_bounds(epsilon)
    truth = gaussian_delta(epsilon, plan.scales[0])
    assert low <= truth <= high
    assert high - low <= 1e-12 * high + 5e-324  # the least float stands for everything below it


def two_laplace_delta(epsilon, ratios):
    """delta of two independent Laplace coordinates by one-dimensional integration in 30 digits."""
    a, b = (mp.mpf(r) for r in ratios)

    def single(level):  # sup of P - e^level Q for one coordinate with ratio b, any sign of level
        if level >= b:
            return mp.mpf(0)
        return 1 - mp.exp((level - b) / 2) if level > -b else 1 - mp.exp(level)

    with mp.workdps(30):
        # The first loss is a with probability 1/2, -a with probability exp(-a)/2, and has a density in between.
        total = single(epsilon - a) / 2 + single(epsilon + a) * mp.exp(-a) / 2
        marks = sorted({-a, a, *(m for m in (epsilon - b, epsilon + b) if -a < m < a)})
        return total + mp.quad(lambda loss: single(epsilon - loss) * mp.exp((loss - a) / 2) / 4, marks)


@pytest.mark.parametrize("epsilon", [0.2, 0.9, 1.3])
def test_the_laplace_curve_of_a_box_encloses_the_exact_one(epsilon):
    plan = inid.plan(S.box([1.0, 3.0]), inid.PureDP(1.5), mechanism="laplace")
    ratios = np.array([1.0, 3.0]) / plan.scales
    truth = two_laplace_delta(mp.mpf(repr(epsilon)), ratios)
    low, high = plan.delta_bounds(epsilon)
    assert low <= truth <= high
    assert high - low <= 1e-3 * high


def test_a_pure_plan_has_no_delta_at_its_epsilon():
    plan = inid.plan(S.box([1.0, 3.0, 7.0]), inid.PureDP(1.0), mechanism="laplace")
    assert plan.delta(1.0) == 0.0
    assert plan.epsilon(1e-9) <= 1.0


def test_laplace_noise_under_approx_dp_follows_its_curve():
    """K = 20, equal sensitivities of unit l2 norm: 35.05 dB under pure DP, about 33.47 dB with delta = 1e-6."""
    s = S.box(np.full(20, 1 / math.sqrt(20)))
    decibel = lambda plan: 10 * math.log10(plan.mse)  # noqa: E731
    assert decibel(inid.plan(s, inid.PureDP(0.5), mechanism="laplace")) == pytest.approx(35.051, abs=1e-3)
    plan = inid.plan(s, inid.ApproxDP(0.5, 1e-6), mechanism="laplace")
    assert decibel(plan) == pytest.approx(33.473, abs=2e-3)
    assert plan.delta(0.5) <= 1e-6
    assert plan.delta_bounds(0.5)[0] > 0.998e-6  # nothing worth mentioning is left on the table
    assert "curve" in plan.verify().statement


@pytest.mark.parametrize("shrink", [1e-3, 1e-9])
def test_a_plan_on_the_curve_breaks_when_its_scales_shrink(shrink):
    plan = inid.plan(S.box(np.arange(1.0, 31.0)), inid.ApproxDP(0.5, 1e-6), mechanism="laplace")
    record = plan.to_dict()
    room = plan.delta(0.5) / 1e-6  # what is left: the scales must shrink by more than that is worth
    factor = (1 - shrink) * room if shrink > 1e-6 else 1 - 1e-4
    record["scales"] = [scale * factor for scale in record["scales"]]
    with pytest.raises(inid.GuaranteeError, match="curve"):
        inid.NoisePlan.from_dict(record).verify()


def random_differences(s, rng, number):
    """Points on the boundary of a set, concentrated on few or on many coordinates."""
    limits = s.profile
    for _ in range(number):
        d = np.abs(rng.standard_normal(s.dimension)) ** rng.choice([0.1, 1, 3, 8]) * limits
        if s.kind == "box":
            d = np.minimum(d * rng.choice([0.5, 1, 3, 100]), limits)
            for norm, cap in ((1, s.l1), (2, s.l2)):
                d = d if cap is None else d * min(1.0, cap / np.linalg.norm(d, norm))
        elif s.kind == "ellipsoid":
            d /= math.sqrt(np.square(d / limits).sum())
        else:
            groups = np.repeat(np.arange(s.limits.size), s.counts)
            for g, bound in enumerate(s.limits):
                d[groups == g] *= bound / np.linalg.norm(d[groups == g], s.norm)
            d = d if s.total is None else d * min(1.0, s.total / np.linalg.norm(d, s.norm))
        yield d


SETS = {
    "box": S.box([1.0, 2.0, 3.0, 4.0]),
    "box, l1": S.box([1.0, 2.0, 3.0, 4.0], l1=5.0),
    "box, l2": S.box([1.0, 2.0, 3.0, 4.0], l2=4.0),
    "box, both": S.box([1.0, 2.0, 3.0, 4.0], l1=5.0, l2=4.0),
    "box, runs": S.box([1.0, 3.0], counts=[5, 2], l1=6.0),
    "l1 ball": S.ball(6, l1=1.0),
    "l2 ball": S.ball(6, l2=1.0),
    "l1 groups": S.groups([3, 4], l1=[1.0, 2.0]),
    "l1 groups, total": S.groups([3, 4], l1=[1.0, 2.0], total=2.5),
    "l2 groups": S.groups([3, 4], l2=[1.0, 2.0]),
    "l2 groups, total": S.groups([3, 4], l2=[1.0, 2.0], total=2.1),
    "ellipsoid": S.ellipsoid([1.0, 2.0, 3.0]),
}


@pytest.mark.parametrize("s", SETS.values(), ids=SETS)
@pytest.mark.parametrize("weighted", [False, True])
def test_ratio_vectors_majorize_every_difference_of_the_set(s, weighted):
    """E5: the k largest entries sum to at least the k largest ratios of any d in the set, for every k."""
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.5, 2.0, s.dimension) if weighted else None
    plan = inid.plan(s, inid.PureDP(1.0), weights=weights, mechanism="laplace")
    ratios, counts = s.ratios(plan.run_scales, plan.cells)
    bound = np.zeros(s.dimension)
    entries = np.sort(np.repeat(ratios, counts))[::-1]
    bound[: entries.size] = entries
    partial = np.cumsum(bound)
    for d in random_differences(s, rng, 3000):
        assert (np.cumsum(np.sort(d / plan.scales)[::-1]) <= partial * (1 + 1e-12)).all()


def test_the_effective_profile_would_be_the_wrong_ratio_vector():
    """On an l1 ball with K = 100 it would accept noise whose true delta is far above the promise."""
    s = S.ball(100, l1=1.0)
    plan = inid.plan(s, inid.PureDP(1.0), mechanism="laplace")
    wrong = s.effective_profile("laplace") / plan.scales
    (right,), _ = s.ratios(plan.run_scales, plan.cells)
    assert wrong.max() == pytest.approx(right / 100)


@pytest.mark.parametrize("kind", ["box", "l2 groups"])
def test_block_rounding_of_long_runs_stays_above_the_exact_envelope(kind):
    s = S.box([1.0, 2.0], counts=[3000, 2000], l1=50.0) if kind == "box" else S.groups([5000], l2=[1.0])
    plan = inid.plan(s, inid.PureDP(1.0), mechanism="laplace")
    ratios, counts = s.ratios(plan.run_scales, plan.cells)
    assert counts.sum() == 5000
    partial = np.cumsum(np.sort(np.repeat(ratios, counts))[::-1])
    k = np.arange(1, 5001)
    if kind == "box":
        d = np.minimum.outer(np.repeat([2.0, 1.0], [2000, 3000]), [2.0]).ravel()  # greedy fillings of the cap
        fits = np.cumsum(d) <= 50.0
        exact = np.cumsum(np.where(fits, d, 0.0) / np.repeat(plan.run_scales[::-1], [2000, 3000]))
    else:
        exact = np.sqrt(k) / plan.run_scales[0]
    assert (partial >= exact * (1 - 1e-12)).all()
    assert partial[-1] <= 1.01 * exact.max()


def laplace(epsilon):
    return inid.plan(S.box([1.0]), inid.PureDP(epsilon), mechanism="laplace")


def gaussian(mu):
    return inid.plan(S.box([1.0]), inid.GaussianDP(mu), mechanism="gaussian")


def test_composition_of_mixed_plans_agrees_with_the_pld_accountant():
    """The reference case: five Laplace 0.2 and three Gaussian 0.25, 2.61 at delta = 1e-6."""
    composed = inid.compose(*[laplace(0.2)] * 5, *[gaussian(0.25)] * 3)
    low, high = composed.epsilon_bounds(1e-6)
    assert high == pytest.approx(2.61, abs=5e-3)
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(to_dp_event(composed))
    assert low <= accountant.get_epsilon(1e-6)
    assert accountant.get_epsilon(1e-6) == pytest.approx(high, rel=1e-4)


def test_events_make_the_round_trip():
    plan = inid.plan(S.ball(3, l2=1.0), inid.GaussianDP(1.0), mechanism="gaussian")
    composed = inid.compose(laplace(0.3), inid.subsample(plan, rate=0.1, steps=20), gaussian(0.5))
    back = from_dp_event(to_dp_event(composed))
    assert back.epsilon(1e-5) == pytest.approx(composed.epsilon(1e-5), rel=1e-9)
    assert from_dp_event(dp_accounting.NoOpDpEvent()).epsilon(1e-5) == 0.0
    with pytest.raises(inid.ArgumentError, match="NonPrivateDpEvent"):
        from_dp_event(dp_accounting.NonPrivateDpEvent())
    with pytest.raises(inid.ArgumentError, match="noise_multiplier"):
        from_dp_event(dp_accounting.GaussianDpEvent(0.0))


def test_subsampled_laplace_is_far_tighter_than_amplified_pure_dp():
    """Ratio 0.5, q = 0.02, 5000 steps, delta = 1e-5: 2.76 against 3.98."""
    assert inid.subsample(laplace(0.5), rate=0.02, steps=5000).epsilon(1e-5) == pytest.approx(2.76, abs=5e-3)


def test_what_cannot_be_composed_is_refused():
    with pytest.raises(inid.ArgumentError, match="at least one"):
        inid.compose()
    with pytest.raises(inid.ArgumentError, match="unpack"):
        inid.compose([laplace(1.0), laplace(1.0)])
    assert "2 Laplace ratios" in repr(inid.compose(laplace(1.0), laplace(1.0)))
    with pytest.raises(inid.ArgumentError, match=r"parts\[1\]"):
        inid.compose(laplace(1.0), 3)
    replaced = inid.plan(S.box([1.0], neighbours="replace"), inid.PureDP(1.0), mechanism="laplace")
    with pytest.raises(inid.ArgumentError, match="relation"):
        inid.compose(laplace(1.0), replaced)
    with pytest.raises(inid.ArgumentError, match="add_remove"):
        inid.subsample(replaced, rate=0.1)
    with pytest.raises(inid.ArgumentError, match="single"):
        inid.subsample(inid.compose(laplace(1.0), laplace(2.0)), rate=0.1)
    with pytest.raises(inid.ArgumentError, match="rate"):
        inid.subsample(laplace(1.0), rate=1.5)
