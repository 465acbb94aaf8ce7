"""What scales spend on a set is never below the truth, found by enumeration, and equal to it where that is claimed."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import inid
import referees
from drawing import MECHANISMS, boxes, numbers, sets
from inid.errors import GuaranteeError
from inid.mechanisms import Mechanism
from internals import module_with

suprema = module_with("inid.sets", "supremum")


def found(sensitivity, mechanism, scales):
    scales = np.asarray(scales, dtype=float)
    return sensitivity.supremum(Mechanism.named(mechanism).exponent, scales, sensitivity.cells(scales.size))


@settings(max_examples=300)
@given(st.data(), sets(), MECHANISMS)
def test_never_below_the_truth_and_equal_to_it_but_for_two_caps(data, sensitivity, mechanism):
    size = sensitivity.dimension
    scales = data.draw(st.lists(numbers(), min_size=size, max_size=size))
    true = referees.supremum(sensitivity, mechanism, scales)
    got = referees.mpf(found(sensitivity, mechanism, scales))
    assert got >= true
    if not (mechanism == "gaussian" and sensitivity.l1 is not None and sensitivity.l2 is not None):
        assert got <= true * (1 + mpmath.mpf(10) ** -11)


@settings(max_examples=60)
@given(st.data(), boxes(4, ("both",), zeros=False))
def test_gaussian_noise_with_both_caps_is_bounded_by_either_cap_alone(data, sensitivity):
    scales = data.draw(st.lists(numbers(), min_size=sensitivity.dimension, max_size=sensitivity.dimension))
    both = found(sensitivity, "gaussian", scales)
    for name in ("l1", "l2"):
        alone = inid.Sensitivity.box(sensitivity.limits, **{name: getattr(sensitivity, name)})
        assert referees.mpf(both) <= referees.supremum(alone, "gaussian", scales) * (1 + mpmath.mpf(10) ** -11)


@settings(max_examples=80)
@given(st.lists(st.tuples(numbers(), numbers()), min_size=1, max_size=6), st.sampled_from([1, 2]))
def test_a_plain_box_is_summed_exactly(pairs, power):
    limits, scales = zip(*pairs, strict=True)
    mechanism = "laplace" if power == 1 else "gaussian"
    exact = sum((Fraction(a) / Fraction(b)) ** power for a, b in pairs)
    assert found(inid.Sensitivity.box(limits), mechanism, scales) == exact


@settings(max_examples=80)
@given(st.lists(st.tuples(numbers(), numbers()), min_size=1, max_size=6))
def test_squares_under_an_l2_cap_and_lengths_under_an_l1_cap_are_exact(pairs):
    limits, scales = zip(*pairs, strict=True)
    for mechanism, norm, power in (("gaussian", "l2", 2), ("laplace", "l1", 1)):
        cap = 0.7 * max(limits)
        left, exact = Fraction(cap) ** power, Fraction(0)
        for scale, limit in sorted(zip(scales, limits, strict=True)):
            used = min(Fraction(limit) ** power, Fraction(cap) ** power, left)
            exact += used / Fraction(scale) ** power
            left -= used
        assert found(inid.Sensitivity.box(limits, **{norm: cap}), mechanism, scales) == exact


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_any_multipliers_give_a_bound(monkeypatch, mechanism):
    """Weak duality: whatever the search returns, the value is not below the supremum. Near ties are tried too."""

    @settings(max_examples=150)
    @given(st.data(), boxes(4, ("l1", "l2", "both"), zeros=False))
    def claim(data, sensitivity):
        size = sensitivity.dimension
        scales = np.array(data.draw(st.lists(numbers(0.1, 10), min_size=size, max_size=size)))
        limits = sensitivity.reach
        near = float(scales[data.draw(st.integers(0, size - 1))])
        ulps = data.draw(st.integers(0, 4))
        reference = data.draw(
            st.sampled_from([near * (1 + ulps * 2.0**-52), near * (1 - ulps * 2.0**-52), 2 * near, np.inf])
        )
        exact = Fraction(1) / Fraction(near) if data.draw(st.booleans()) else Fraction(data.draw(numbers()))
        if mechanism == "gaussian":
            nu_1 = Fraction(0) if sensitivity.l1 is None else exact
            pairs = [(nu_1, reference)]
            monkeypatch.setattr(suprema, "square_multipliers", lambda *_: pairs)
            monkeypatch.setattr(suprema, "ENUMERATED", 0)
        else:
            slope = 1 / Fraction(near) - (1 / Fraction(reference) if reference < np.inf else 0)
            at = Fraction(float(limits[data.draw(st.integers(0, size - 1))]))
            tie = abs(slope) / at * (1 + Fraction(data.draw(st.integers(-3, 3)), 2**4))
            tau = Fraction(0) if sensitivity.l2 is None else (tie if tie and data.draw(st.booleans()) else exact)
            assume(sensitivity.l1 is not None or reference == np.inf)
            pairs = [(reference, tau)]
            monkeypatch.setattr(suprema, "modulus_multipliers", lambda *_: pairs)
        assume(not (mechanism == "laplace" and pairs == [(np.inf, Fraction(0))]))
        capped = suprema._capped_squares if mechanism == "gaussian" else suprema._capped_moduli
        got = capped(limits, scales, None, sensitivity.l1, sensitivity.l2)
        assert referees.mpf(got) >= referees.supremum(sensitivity, mechanism, scales)

    claim()


@settings(max_examples=20)
@given(st.data(), st.sampled_from(["box", "l1", "l2", "groups1", "groups2", "ellipsoid"]), MECHANISMS)
def test_beyond_the_rational_terms_the_sum_is_above_by_at_most_a_little(data, kind, mechanism):
    seed = data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    size = 600
    limits, scales = rng.lognormal(size=(2, size))
    if kind == "ellipsoid":
        sensitivity = inid.Sensitivity.ellipsoid(limits)
    elif kind.startswith("groups"):
        sensitivity = inid.Sensitivity.groups([200, 400], **{f"l{kind[-1]}": [1.0, 2.0]})
    else:
        cap = {} if kind == "box" else {kind: 0.5 * float(np.linalg.norm(limits, int(kind[-1])))}
        sensitivity = inid.Sensitivity.box(limits, **cap)
    got = referees.mpf(found(sensitivity, mechanism, scales))
    if kind in ("l1", "l2"):
        # Any feasible point bounds from below; the greedy one is the best where the problem is a fractional knapsack.
        power = 2 if mechanism == "gaussian" and kind == "l2" else 1
        order = np.argsort(scales) if (mechanism, kind) != ("gaussian", "l1") else np.argsort(scales**2 / limits)
        left, value = Fraction(cap[kind]) ** (2 if kind == "l2" else 1), Fraction(0)
        for i in order:
            limit = Fraction(float(limits[i]))
            used = min(limit ** (2 if kind == "l2" else 1), left)
            if kind == "l2" and mechanism == "laplace":
                break
            left -= used
            d = used if (kind == "l1" and mechanism == "laplace") or power == 2 else used**2
            value += d / Fraction(float(scales[i])) ** (2 if mechanism == "gaussian" else 1)
        assert got >= referees.mpf(value)
        if (mechanism, kind) in (("gaussian", "l2"), ("laplace", "l1")):
            assert got <= referees.mpf(value) * (1 + mpmath.mpf(2) ** -45)
        return
    true = referees.supremum(sensitivity, mechanism, scales)
    assert true <= got <= true * (1 + mpmath.mpf(2) ** -40)


@settings(max_examples=60)
@given(st.data(), MECHANISMS, st.sampled_from(["none", "l1", "l2"]))
def test_run_length_form_spends_what_the_long_form_spends(data, mechanism, cap):
    size = data.draw(st.integers(1, 3))
    limits = data.draw(st.lists(numbers(), min_size=size, max_size=size))
    scales = data.draw(st.lists(numbers(), min_size=size, max_size=size))
    counts = data.draw(st.lists(st.integers(1, 3), min_size=size, max_size=size))
    long = np.repeat(limits, counts)
    extra = {} if cap == "none" else {cap: 0.6 * float(np.linalg.norm(long, int(cap[1])))}
    short = found(inid.Sensitivity.box(limits, counts=counts, **extra), mechanism, scales)
    full = found(inid.Sensitivity.box(long, **extra), mechanism, np.repeat(scales, counts))
    assert abs(referees.mpf(short) / referees.mpf(full) - 1) < 1e-11


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0, 0.0])
def test_scales_that_are_no_noise_spend_no_privacy_on_paper(bad):
    for sensitivity in (
        inid.Sensitivity.box([1.0, 2.0], labels=["age", "pay"]),
        inid.Sensitivity.ball(2, l2=1.0),
        inid.Sensitivity.ellipsoid([1.0, 2.0]),
    ):
        with pytest.raises(GuaranteeError):
            sensitivity.supremum(1, np.array([1.0, bad]), sensitivity.cells(2))


def test_what_nobody_moves_spends_nothing_even_without_noise():
    assert found(inid.Sensitivity.box([0.0, 2.0]), "laplace", [0.0, 4.0]) == Fraction(1, 2)
    assert found(inid.Sensitivity.box([0.0, 0.0]), "gaussian", [0.0, 0.0]) == 0
    assert found(inid.Sensitivity.box([1.0, 2.0], l1=0.0), "gaussian", [0.0, 0.0]) == 0
    assert found(inid.Sensitivity.groups([1, 1], l1=[0.0, 2.0]), "gaussian", [0.0, 4.0]) == Fraction(1, 4)


def test_the_greatest_square_sum_fills_the_largest_first():
    limits = np.array([1.0, 2.0, 2.0])
    assert suprema.greatest_square_sum(limits, None, 3.5) == Fraction(25, 4)
    assert suprema.greatest_square_sum(limits, None, 100.0) == 9
    assert suprema.greatest_square_sum(np.array([2.0, 1.0]), np.array([2, 1]), 3.5) == Fraction(25, 4)
