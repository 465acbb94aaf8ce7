"""One promise among several questions: exact sums, nobody starves, near the least objective, by brute force."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inid import ZCDP, ApproxDP, ArgumentError, BudgetError, GaussianDP, PureDP
from inid.planning import Division, divide, whole_of

PROMISES = [ApproxDP(1.0, 1e-6), GaussianDP(0.3), ZCDP(0.1), ApproxDP(8.0, 1e-9)]
FAMILIES = [(promise, "gaussian") for promise in PROMISES]
FAMILIES += [(promise, "laplace") for promise in [*PROMISES, PureDP(0.3), PureDP(1.0)]]
ERRORS = st.lists(st.floats(1e-200, 1e200), min_size=1, max_size=12)


def amounts(made: Division) -> list[float]:
    return [part.mu**2 if isinstance(part, GaussianDP) else part.epsilon for part in made.parts if part is not None]


@pytest.mark.parametrize(("promise", "family"), FAMILIES)
@given(errors=ERRORS, weight=st.floats(1e-3, 1e3))
def test_parts_never_exceed_the_whole_and_nobody_starves(promise, family, errors, weight):
    made = divide(promise, family, errors, [weight] * len(errors))
    assert made.spent <= made.total == whole_of(promise, family)
    # At least half of an equal part, up to the rounding of decimals: twice the variance in mu^2, four times in epsilon.
    least = float(made.total) / (2 * len(errors)) * (1 - 1e-12)
    assert min(amounts(made)) >= least


@pytest.mark.parametrize(("family", "times"), [("gaussian", 2.0), ("laplace", 4.0)])
@given(errors=st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=8))
def test_the_objective_is_near_the_least(family, times, errors):
    made = divide(GaussianDP(1.0) if family == "gaussian" else PureDP(1.0), family, errors)
    # The least by Hoelder: (sum of roots)^2 for mu^2 = 1, (sum of cube roots)^3 for epsilon = 1.
    power = 2 if family == "gaussian" else 3
    least = math.fsum(e ** (1 / power) for e in errors) ** power
    assert least * (1 - 1e-12) <= made.objective <= times * least * (1 + 1e-12)


@pytest.mark.parametrize("family", ["gaussian", "laplace"])
def test_the_proportions_beat_a_search(family):
    """The half that is not split evenly follows the least objective: no split on a grid does better."""
    errors, power = [3.0, 0.2], 1.0 if family == "gaussian" else 2.0
    made = divide(GaussianDP(1.0) if family == "gaussian" else PureDP(1.0), family, errors)
    best = min(range(1, 2000), key=lambda i: errors[0] / (i / 2000) ** power + errors[1] / (1 - i / 2000) ** power)
    share = 2 * amounts(made)[0] - 0.5
    assert share == pytest.approx(best / 2000, abs=1e-3)
    assert abs(share - 0.5) > 0.1  # an even split would be told apart


def test_three_tenths_fit_and_public_questions_take_nothing():
    made = divide(PureDP(0.3), "laplace", [1.0, 0.0, 1.0, 1.0])
    assert [part and part.epsilon for part in made.parts] == [0.1, None, 0.1, 0.1]
    assert made.spent == Fraction(3, 10)


def test_a_question_without_a_stated_error_takes_its_share_first():
    made = divide(GaussianDP(1.0), "gaussian", [None, 1.0, 1.0], shares=[Fraction(1, 2), None, None])
    assert amounts(made) == pytest.approx([0.5, 0.25, 0.25])
    assert made.spent <= 1


def test_importance_moves_the_promise():
    plain, weighed = (divide(GaussianDP(1.0), "gaussian", [1.0, 1.0], [a, 1.0]) for a in (1.0, 4.0))
    assert amounts(plain) == pytest.approx([0.5, 0.5])
    assert amounts(weighed) == pytest.approx([0.25 + 1 / 3, 0.25 + 1 / 6])


@pytest.mark.parametrize(
    ("errors", "importance", "shares", "words"),
    [
        ([math.nan], None, None, "errors"),
        ([-1.0], None, None, "errors"),
        ([math.inf], None, None, "errors"),
        ([1.0], [0.0], None, "importance"),
        ([1.0], [math.nan], None, "importance"),
        ([1.0], [1.0, 2.0], None, "one length"),
        ([None], None, None, "either an error or a share"),
        ([1.0], None, [Fraction(1, 2)], "either an error or a share"),
        ([None, 1.0], None, [Fraction(1), None], "leaves nothing"),
        ([None], None, [Fraction(3, 2)], "at most 1"),
    ],
)
def test_what_is_malformed_is_refused(errors, importance, shares, words):
    with pytest.raises(ArgumentError, match=words):
        divide(GaussianDP(1.0), "gaussian", errors, importance, shares)


def test_gaussian_noise_cannot_keep_a_pure_promise():
    with pytest.raises(BudgetError, match="Gaussian noise cannot keep"):
        divide(PureDP(1.0), "gaussian", [1.0])


def test_a_part_that_rounds_to_nothing_is_refused():
    with pytest.raises(BudgetError, match="would be nothing"):
        divide(PureDP(5e-324), "laplace", [1.0, 1.0, 1.0])
