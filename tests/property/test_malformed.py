"""A malformed call gets an InidError that names the argument, never a traceback from NumPy or Python's arithmetic."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import inid
from inid.promises import budget_from_dict
from inid.testing import staircase_error, staircase_gamma

INSTANCE = object()


class Broken:
    """Converts to nothing."""

    def __array__(self, *args, **kwargs):
        raise RuntimeError("no array")

    def __float__(self):
        raise RuntimeError("no float")


def cyclic():
    made = [1.0]
    made.append(made)
    return made


SCALARS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-(2**70), 2**70),
    st.sampled_from(
        [
            None,
            True,
            False,
            math.nan,
            math.inf,
            -math.inf,
            -1.0,
            0,
            -0.0,
            5e-324,
            1e300,
            1e-300,
            1j,
            10**400,
            10**5000,
            Decimal("NaN"),
            Decimal("sNaN"),
            Decimal("Infinity"),
            Decimal(-1),
            Decimal("0.5"),
            Fraction(1, 3),
            np.float64(np.nan),
            np.float32(0.5),
            np.int64(1),
            np.uint8(3),
            np.bool_(True),
            np.datetime64("2020-01-01"),
            np.array(1.0),
            np.array(True),
            "1.0",
            "",
            b"1",
            "NaN",
            pd.NA,
            pd.NaT,
            INSTANCE,
            Broken(),
            object,
            len,
        ]
    ),
)
SEQUENCES = st.one_of(
    st.lists(SCALARS, max_size=4),
    st.lists(st.lists(SCALARS, max_size=3), max_size=3),
    st.lists(SCALARS, max_size=3).map(tuple),
    st.sampled_from(
        [
            np.array([]),
            np.zeros((2, 2)),
            np.array([1.0, np.nan]),
            np.array(["a"]),
            np.array([None]),
            np.array([1 + 1j]),
            np.ma.array([1.0, 2.0], mask=[True, False]),
            np.array([True, False]),
            np.array([1], dtype="datetime64[D]"),
            np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]),
            np.array([1e400, 1.0]),
            np.array([-1.0]),
            {},
            {1.0},
            {"a": 1},
            range(3),
            range(0),
            (x for x in (1.0, 2.0)),
            "abc",
            b"abc",
            bytearray(b"ab"),
            memoryview(b"abc"),
            cyclic(),
            pd.Series([1.0, None]),
            pd.Series(["a"]),
            pd.DataFrame({"a": [1.0]}),
            pd.array([1, None]),
            Broken(),
            [Broken()],
            [1.0, [2.0]],
            [[1.0], [2.0, 3.0]],
            [[]],
            [None],
            ["1.0"],
            [math.nan],
            [math.inf],
            [-1.0],
            [10**400],
            [True],
        ]
    ),
)
ANYTHING = st.one_of(SCALARS, SEQUENCES)


def sound_or_refused(call):
    """The call returns, or raises an error of the library whose message reads as a sentence."""
    try:
        return call()
    except inid.InidError as error:
        text = str(error)
    assert len(text) > 20
    assert text.endswith(".")
    assert "\n" not in text
    return None


BUDGETS = [
    inid.PureDP(epsilon=1.0),
    inid.ApproxDP(epsilon=1.0, delta=1e-6),
    inid.GaussianDP(mu=1.0),
    inid.ZCDP(rho=0.1),
]
SETS = [
    inid.Sensitivity.box([1.0, 3.0], l1=3.5),
    inid.Sensitivity.ball(2, l1=1.0),
    inid.Sensitivity.groups([1, 2], l2=[1.0, 2.0], total=2.0),
    inid.Sensitivity.ellipsoid([1.0, 2.0]),
]


@settings(max_examples=400)
@given(ANYTHING, ANYTHING, ANYTHING, ANYTHING)
def test_sensitivity_sets(a, b, c, d):
    sound_or_refused(lambda: inid.Sensitivity.box(a, l1=b, l2=c, counts=d))
    sound_or_refused(lambda: inid.Sensitivity.box([1.0, 2.0], l1=a, l2=b, counts=c, labels=d))
    sound_or_refused(lambda: inid.Sensitivity.ball(a, l1=b))
    sound_or_refused(lambda: inid.Sensitivity.ball(2, l2=a, neighbours=b))
    sound_or_refused(lambda: inid.Sensitivity.groups(a, l1=b, total=c, labels=d))
    sound_or_refused(lambda: inid.Sensitivity.groups([1, 2], l2=a, total=b))
    sound_or_refused(lambda: inid.Sensitivity.ellipsoid(a, counts=b, labels=c))


@settings(max_examples=200)
@given(ANYTHING, ANYTHING)
@example(np.int64(1), 1e-6)
@example(np.float32(0.5), np.float64(1e-6))
def test_budgets(a, b):
    sound_or_refused(lambda: inid.PureDP(a))
    sound_or_refused(lambda: inid.ApproxDP(a, 1e-6))
    sound_or_refused(lambda: inid.ApproxDP(1.0, b))
    sound_or_refused(lambda: inid.GaussianDP(a))
    sound_or_refused(lambda: inid.ZCDP(a))
    for budget in BUDGETS:
        sound_or_refused(lambda budget=budget: budget.to_approx(a))
    sound_or_refused(lambda: budget_from_dict(a))
    sound_or_refused(lambda: budget_from_dict({"kind": a, "epsilon": b}))
    sound_or_refused(lambda: budget_from_dict({"kind": "PureDP", "epsilon": a}))


@settings(max_examples=300)
@given(st.sampled_from(SETS), st.sampled_from(BUDGETS), ANYTHING, ANYTHING)
def test_plans(sensitivity, budget, a, b):
    sound_or_refused(lambda: inid.plan(a, budget))
    sound_or_refused(lambda: inid.plan(sensitivity, a))
    sound_or_refused(lambda: inid.plan(sensitivity, budget, mechanism=a))
    sound_or_refused(lambda: inid.plan(sensitivity, budget, allocation=a))
    sound_or_refused(lambda: inid.plan(sensitivity, budget, weights=a))
    sound_or_refused(lambda: inid.plan(sensitivity, budget, tolerance=a))
    sound_or_refused(lambda: inid.plan(sensitivity, budget, weights=a, tolerance=b))
    sound_or_refused(lambda: inid.plan(sensitivity, budget, order=a))
    sound_or_refused(lambda: sensitivity.effective_profile(a, weights=b))
    sound_or_refused(lambda: sensitivity.effective_profile("gaussian", weights=a, order=b))


@settings(max_examples=80)  # a few of them search for seconds
@given(st.sampled_from(SETS), ANYTHING, ANYTHING, ANYTHING)
@example(SETS[0], [1e-10, 1.0], 1 - 1e-16, 1e-6)
@example(inid.Sensitivity.box([1e150]), [1e-10], 0.05, 1e-6)
@example(inid.Sensitivity.box([1.0]), [1e300], 1 - 1e-16, 1e-6)
def test_accuracy_plans(sensitivity, tolerance, failure, delta):
    sound_or_refused(lambda: inid.plan_for_accuracy(tolerance, [1.0]))
    sound_or_refused(lambda: inid.plan_for_accuracy(sensitivity, tolerance, failure=failure, delta=delta))
    sound_or_refused(lambda: inid.plan_for_accuracy(sensitivity, [1.0, 2.0], failure=failure, delta=1e-6))
    sound_or_refused(lambda: inid.plan_for_accuracy(sensitivity, [1.0, 2.0], delta=delta))


@settings(max_examples=300)
@given(ANYTHING, ANYTHING)
def test_disparity_and_staircase(a, b):
    sound_or_refused(lambda: inid.gini(a))
    sound_or_refused(lambda: inid.disparity(a))
    sound_or_refused(lambda: inid.majorizes(a, b))
    sound_or_refused(lambda: inid.mse_reduction(a, "laplace", baseline=b))
    sound_or_refused(lambda: inid.mse_reduction([1.0, 2.0], a))
    sound_or_refused(lambda: staircase_error(a, b))
    sound_or_refused(lambda: staircase_error(1.0, 1.0, a))
    sound_or_refused(lambda: staircase_gamma(a, b))


@pytest.mark.parametrize("made", [inid.plan(s, BUDGETS[1]) for s in SETS], ids=[s.kind for s in SETS])
def test_records_with_any_field_replaced(made):
    record = made.to_dict()
    places = [(name,) for name in record]
    places += [(outer, name) for outer in ("sensitivity", "budget") for name in record[outer]]

    @settings(max_examples=150)
    @given(st.sampled_from(places), ANYTHING)
    def claim(place, value):
        edited = record | {place[0]: value if len(place) == 1 else record[place[0]] | {place[1]: value}}
        plan = sound_or_refused(lambda: inid.NoisePlan.from_dict(edited))
        if plan is not None:
            sound_or_refused(plan.verify)

    claim()


@settings(max_examples=50)
@given(ANYTHING)
def test_records_that_are_no_records(value):
    sound_or_refused(lambda: inid.NoisePlan.from_dict(value))
    sound_or_refused(lambda: inid.Sensitivity.from_dict(value))
