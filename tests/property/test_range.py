"""Sensitivities, weights and budgets anywhere in [1e-300, 1e300]: the plan is right to 12 digits or an InidError."""

import math
from functools import partial

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from mpmath import mpf

import inid
from example_counts import examples

TINY, LARGEST = mpf(2) ** -1022, mpf(2) ** 1024 * (1 - mpf(2) ** -54)
WIDE = st.floats(-300, 300).map(lambda x: min(max(10.0**x, 1e-300), 1e300))
VALUES = st.one_of(WIDE, st.sampled_from([1e-300, 1e300, 1.0]))


def budget(mechanism, number):
    return inid.GaussianDP(mu=number) if mechanism == "gaussian" else inid.PureDP(epsilon=number)


def box_scales(mechanism, profile, weights, order, number):
    """Theorems 1 and 2 with weights, evaluated by mpmath."""
    profile, weights, p = [mpf(x) for x in profile], [mpf(x) for x in weights], mpf(order)
    a = [x * y for x, y in zip(profile, weights, strict=True)]
    if mechanism == "gaussian":
        total = mpmath.sqrt(mpmath.fsum(x ** (2 * p / (p + 2)) for x in a))
        return [x ** (2 / (p + 2)) * total / (y * number) for x, y in zip(a, weights, strict=True)]
    total = mpmath.fsum(x ** (p / (p + 1)) for x in a)
    return [x ** (1 / (p + 1)) * total / (y * number) for x, y in zip(a, weights, strict=True)]


def expected_scales(sensitivity, mechanism, weights, order, number):
    """The closed forms of E3 and E4 for sets without caps."""
    limits, p = sensitivity.limits.tolist(), mpf(order)
    if sensitivity.kind == "ellipsoid":
        if mechanism == "gaussian":
            return [mpf(r) / number for r in limits]
        return box_scales("gaussian", limits, weights, order, number)
    if sensitivity.kind == "box":
        return box_scales(mechanism, limits, weights, order, number)
    profile, start = [], 0
    for limit, count in zip(limits, sensitivity.counts.tolist(), strict=True):
        inside = [mpf(x) for x in weights[start : start + count]]
        start += count
        if mechanism == "laplace" and sensitivity.norm == 2:
            total = mpmath.sqrt(mpmath.fsum(x ** (2 * p / (p + 2)) for x in inside))
            profile += [mpf(limit) * x ** (p / (p + 2)) / total for x in inside]
        else:
            shares = [x**p / mpmath.fsum(y**p for y in inside) for x in inside]
            profile += [mpf(limit) * (mpmath.sqrt(x) if mechanism == "gaussian" else x) for x in shares]
    return box_scales(mechanism, profile, weights, order, number)


@st.composite
def uncapped(draw):
    kind = draw(st.sampled_from(["box", "ellipsoid", "ball", "groups"]))
    if kind in ("box", "ellipsoid"):
        return getattr(inid.Sensitivity, kind)(draw(st.lists(VALUES, min_size=1, max_size=4)))
    norm = draw(st.sampled_from(["l1", "l2"]))
    if kind == "ball":
        return inid.Sensitivity.ball(draw(st.integers(1, 4)), **{norm: draw(VALUES)})
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    return inid.Sensitivity.groups(sizes, **{norm: draw(st.lists(VALUES, min_size=len(sizes), max_size=len(sizes)))})


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_uncapped_sets_keep_their_digits(mechanism):
    @settings(max_examples=150)
    @given(st.data(), uncapped(), VALUES, st.sampled_from([1, 1.5, 2, 3]))
    def claim(data, sensitivity, number, order):
        size = sensitivity.dimension
        weights = data.draw(st.lists(VALUES, min_size=size, max_size=size))
        wanted = expected_scales(sensitivity, mechanism, weights, order, number)
        promise = budget(mechanism, number)
        call = partial(inid.plan, sensitivity, promise, mechanism=mechanism, weights=weights, order=order)
        if not all(TINY * 1.0001 <= x <= LARGEST * 0.9999 for x in wanted):
            assume(not all(TINY * 0.9999 <= x <= LARGEST * 1.0001 for x in wanted))
            with pytest.raises(inid.InidError):
                call()
            return
        made = call()
        for got, x in zip(made.scales.tolist(), wanted, strict=True):
            assert abs(got - x) <= 2e-12 * x
        p = mpf(order)
        unit = (
            mpmath.gamma(p + 1)
            if mechanism == "laplace"
            else mpf(2) ** (p / 2) * mpmath.gamma((p + 1) / 2) / mpmath.sqrt(mpmath.pi)
        )
        error = unit * mpmath.fsum((mpf(a) * x) ** p for a, x in zip(weights, wanted, strict=True))
        assert abs(made.log2_error - mpmath.log(error, 2)) < 1e-11
        if TINY * 1.0001 <= error <= LARGEST * 0.9999:
            assert abs(made.error - error) <= 1e-11 * error
        else:
            with pytest.raises(inid.RangeError):
                _ = made.error
        assert made.suboptimality == 1.0
        assert np.isfinite(made.shares).all()
        assert abs(math.fsum(made.shares) - 1) < 1e-9

    claim()


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@examples(some=30, many=80)
@given(
    limits=st.lists(VALUES, min_size=1, max_size=4),
    part=st.floats(0.2, 1.1),
    other=st.floats(0.2, 1.1),
    caps=st.sampled_from([(1,), (2,), (1, 2)]),
    number=VALUES,
    order=st.sampled_from([1, 2, 3]),
    weights=st.one_of(st.none(), st.lists(VALUES, min_size=4, max_size=4)),
)
@example(limits=[1e-300, 1e300, 1e300], part=0.75, other=0.6, caps=(1,), number=1e20, order=2, weights=None)
@example(limits=[1e-300, 1e300, 1e300], part=0.8, other=0.6, caps=(1, 2), number=1e20, order=2, weights=None)
def test_capped_boxes_give_a_plan_or_an_inid_error(mechanism, limits, part, other, caps, number, order, weights):
    # Sums relative to the largest limit, so that the caps themselves do not overflow.
    largest = max(limits)
    shares = np.array(limits) / largest
    cap = {1: part * float(shares.sum()) * largest, 2: other * float(np.linalg.norm(shares)) * largest}
    chosen = {f"l{norm}": cap[norm] for norm in caps}
    sensitivity = inid.Sensitivity.box(limits, **chosen)
    weights = None if weights is None else weights[: len(limits)]
    try:
        made = inid.plan(sensitivity, budget(mechanism, number), mechanism=mechanism, weights=weights, order=order)
    except inid.InidError:
        return
    assert np.isfinite(made.scales).all()
    assert (made.scales >= 2.0**-1022).all()
    assert math.isfinite(made.log2_error)
    assert 1.0 <= made.suboptimality < 10
    assert np.isfinite(made.shares).all()
    made.verify()


@examples(some=12, many=40)
@given(st.lists(VALUES, min_size=2, max_size=4), st.floats(0.3, 0.95), VALUES, st.sampled_from([1, 2]))
def test_moderate_caps_at_any_unit_give_a_plan(profile, part, unit, order):
    # Limits within a factor of 10^6 of each other in any unit: nothing here is near the ends of the floats.
    limits = [unit * 1e-150 * 10 ** (3 * math.log10(x) / 300) for x in profile]
    assume(min(limits) > 1e-290 and max(limits) < 1e290)
    for norm in (1, 2):
        largest = max(limits)
        cap = part * float(np.linalg.norm(np.array(limits) / largest, norm)) * largest
        sensitivity = inid.Sensitivity.box(limits, **{f"l{norm}": cap})
        for mechanism in ("gaussian", "laplace"):
            made = inid.plan(sensitivity, budget(mechanism, 1.0), mechanism=mechanism, order=order)
            plain = inid.Sensitivity.box([x / largest for x in limits], **{f"l{norm}": cap / largest})
            other = inid.plan(plain, budget(mechanism, 1.0), mechanism=mechanism, order=order)
            searched = (mechanism, norm) == ("gaussian", 1)
            unit = order * math.log2(largest)
            assert abs(made.log2_error - other.log2_error - unit) < (1e-4 if searched else 1e-9)
            if not searched:
                np.testing.assert_allclose(made.scales / largest, other.scales, rtol=1e-9)


APPROX = (VALUES, st.one_of(st.just(0.0), VALUES), st.floats(-300, -0.001).map(lambda x: 10.0**x))


def check_approx(limit, epsilon, delta):
    for mechanism in ("gaussian", "laplace", "auto"):
        try:
            made = inid.plan(
                inid.Sensitivity.box([limit, limit]),
                inid.ApproxDP(epsilon, delta),
                mechanism=mechanism,
                weights=[1.0, 2.0],
            )
        except inid.InidError:
            continue
        assert np.isfinite(made.scales).all()
        assert (made.scales >= 2.0**-1022).all()


@settings(max_examples=2)
@given(*APPROX)
@example(1.0, 1e300, 1e-6)
@example(1e300, 1e-300, 1e-300)
def test_approx_budgets_give_a_plan_or_an_inid_error(limit, epsilon, delta):
    check_approx(limit, epsilon, delta)


@pytest.mark.slow
@settings(max_examples=25)
@given(*APPROX)
def test_many_approx_budgets_give_a_plan_or_an_inid_error(limit, epsilon, delta):
    check_approx(limit, epsilon, delta)


@pytest.mark.parametrize("kind", [inid.GaussianDP, inid.ZCDP, inid.PureDP])
@pytest.mark.parametrize("number", [1e-300, 1e-150, 1e-20, 1.0, 1e20, 1e150, 1e300])
def test_every_budget_and_mechanism_at_any_size_gives_a_plan_or_an_inid_error(kind, number):
    for limit in (1e-300, 1.0, 1e300):
        for mechanism in ("gaussian", "laplace", "auto"):
            try:
                made = inid.plan(inid.Sensitivity.box([limit]), kind(number), mechanism=mechanism)
            except inid.InidError:
                continue
            assert np.isfinite(made.scales).all()
            assert (made.scales >= 2.0**-1022).all()


@pytest.mark.parametrize("copies", [1, 200])
def test_many_coordinates_plan_where_a_few_do(copies):
    # Beyond 512 terms sums are rounded, not rational; that must not narrow the range.
    limits, weights = [1e300] * 6 * copies, [1e300] * 3 * copies + [1e-300] * 3 * copies
    made = inid.plan(inid.Sensitivity.box(limits), inid.GaussianDP(1e300), mechanism="gaussian", weights=weights)
    wanted = box_scales("gaussian", limits, weights, 2, 1e300)
    np.testing.assert_allclose(made.scales[[0, -1]], [float(wanted[0]), float(wanted[-1])], rtol=1e-11)


@pytest.mark.parametrize(("mechanism", "least"), [("gaussian", math.sqrt(4 + 9 * 1600)), ("laplace", 2 + 3 * 40)])
@pytest.mark.parametrize("order", [50, 100, 1000, 1e5])
def test_high_orders_tend_to_the_least_largest_weighted_scale(mechanism, least, order):
    # As p grows the largest alpha_i scale_i alone counts. Equal ones spend most at d = (0, 1, 40).
    sensitivity = inid.Sensitivity.box([1.0, 3.0, 40.0], l1=41.0)
    weights = np.array([1.0, 2.0, 3.0])
    made = inid.plan(sensitivity, budget(mechanism, 1.0), mechanism=mechanism, weights=weights, order=order)
    assert (
        least * (1 - 1e-9)
        <= (made.scales * weights).max()
        <= least * (3 * made.suboptimality) ** (1 / order) * (1 + 1e-9)
    )
    assert made.suboptimality < 1.5
