"""Never worse than i.i.d. noise or an equal split, nor than the other mechanism: for any promise, weights and order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import inid
from example_counts import examples

S = inid.Sensitivity
APPROX = inid.ApproxDP(3, 1e-6)


@pytest.mark.parametrize(
    ("sensitivity", "weights", "factor"),
    [
        (S.box([1.0, 5000.0], counts=[500, 1]), None, 2.8),
        (S.box([1.0, 5000.0], counts=[500, 1]), [1.0, 10.0], 4.7),
        (S.box([1.0, 100.0], counts=[1000, 1]), [1.0, 100.0], 2.14),
    ],
)
def test_auto_finds_the_laplace_noise_that_a_guess_overlooked(sensitivity, weights, factor):
    auto = inid.plan(sensitivity, APPROX, weights=weights)
    gaussian = inid.plan(sensitivity, APPROX, weights=weights, mechanism="gaussian")
    assert auto.mechanism == "laplace"
    assert auto.error * factor < gaussian.error
    for allocation in ("iid", "spr"):
        assert auto.error <= inid.plan(sensitivity, APPROX, weights=weights, allocation=allocation).error


def test_laplace_noise_under_approx_dp_is_not_worse_than_its_own_iid():
    sensitivity, weights = S.box([1.0, 100.0], counts=[1000, 1]), [1.0, 100.0]
    made = inid.plan(sensitivity, APPROX, mechanism="laplace", weights=weights)
    iid = inid.plan(sensitivity, APPROX, mechanism="laplace", weights=weights, allocation="iid")
    assert made.error * 1.5 < iid.error
    assert "Nothing to gain" not in str(made.compare())


@examples(some=6, many=15)
@given(
    st.lists(st.tuples(st.floats(0.01, 1e4), st.integers(1, 200), st.floats(0.01, 100)), min_size=1, max_size=4),
    st.sampled_from([inid.ApproxDP(1.0, 1e-6), APPROX, inid.ApproxDP(0.1, 1e-2), inid.ZCDP(0.5), inid.ZCDP(20.0)]),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(["box", "ellipsoid", "l1 groups", "capped"]),
)
def test_no_promise_weights_or_order_makes_the_optimum_worse(rows, promise, order, kind):
    limits, counts, weights = (list(column) for column in zip(*rows, strict=True))
    sensitivity = {
        "box": lambda: S.box(limits, counts=counts),
        "ellipsoid": lambda: S.ellipsoid(limits, counts=counts),
        "l1 groups": lambda: S.groups(counts, l1=limits),
        "capped": lambda: S.box(limits, counts=counts, l1=max(limits) * 1.5),
    }[kind]()
    call = {"weights": weights, "order": order}
    auto = inid.plan(sensitivity, promise, **call)
    for mechanism in ("gaussian", "laplace"):
        for allocation in ("optimal", "iid", "spr"):
            other = inid.plan(sensitivity, promise, mechanism=mechanism, allocation=allocation, **call)
            assert auto.log2_error <= other.log2_error + 1e-12
            if mechanism == auto.mechanism and allocation != "optimal":
                # `within` is about the promise that is proved, which may be pure DP for one allocation alone.
                best = inid.plan(sensitivity, other.budget, mechanism=mechanism, **call)
                assert other.suboptimality is None or other.suboptimality >= 2 ** (
                    other.log2_error - best.log2_error
                ) * (1 - 1e-6) / (best.suboptimality or np.inf)
