"""plan_training: what correlated noise gives at the same promise, and what it refuses."""

from fractions import Fraction

import pytest

from inid import BudgetError, InidError, dpsgd
from inid.dpsgd import Banded, plan_training
from inid.dpsgd.noise import TrainingChoice, best_of
from inid.dpsgd.sampling import CyclicGroups
from inid.errors import ArgumentError


@pytest.mark.parametrize(
    ("epochs", "epsilon", "bands", "ratio"),
    [(5, 1.0, 4, 0.89), (5, 3.0, 16, 0.65), (5, 8.0, 32, 0.49), (20, 8.0, 32, 0.56)],
)
def test_the_noise_in_sums_is_that_of_theory(epochs, epsilon, bands, ratio):
    """T1: 50,000 examples, batches of 500, delta 1e-5."""
    chosen = plan_training(50_000, 500, epochs, epsilon, 1e-5, correlation=Banded(bands)).chosen
    assert ratio - 0.02 < chosen.ratio < ratio


def test_the_multiplier_is_the_accountants_for_the_turns_of_one_group():
    made = plan_training(1000, 100, 3, 2.0, 1e-5, correlation=Banded(4))
    independent, chosen = made.choices
    assert made.steps == 30
    assert (chosen.sampling.rate, chosen.sampling.blocks) == (0.4, 8)
    for each, rate, steps in ((independent, 0.1, 30), (chosen, 0.4, 8)):
        wanted = dpsgd.noise_multiplier_for(target_epsilon=2.0, target_delta=1e-5, sample_rate=rate, steps=steps)
        assert each.noise_multiplier == wanted
    error = chosen.noise_multiplier * Banded(4).error(30)
    assert chosen.ratio == pytest.approx(error / (independent.noise_multiplier * Banded(1).error(30)))


def test_auto_takes_the_least_noise_and_prints_it():
    made = plan_training(2000, 250, 4, 8.0, 1e-5)
    assert [each.correlation.bands for each in made.choices] == [1, 2, 4, 8]
    assert made.chosen.ratio == min(each.ratio for each in made.choices) < 0.95
    marked = [line for line in str(made).splitlines() if line.startswith("* ") and "chosen" not in line]
    assert [int(line.split()[1]) for line in marked] == [made.chosen.correlation.bands]


def test_auto_stays_with_independent_noise_where_it_gives_less_than_5_percent():
    made = plan_training(2000, 250, 60, 0.5, 1e-5)
    assert min(each.ratio for each in made.choices) > 0.95
    assert made.chosen is made.choices[0]
    assert made.chosen.correlation == Banded(1)
    assert made.chosen.ratio == 1


@pytest.mark.parametrize(("ratio", "bands"), [(0.951, 1), (0.95, 4), (0.5, 4)])
def test_auto_wants_5_percent_less_noise(ratio, bands):
    sampling = CyclicGroups(Fraction(1, 20), groups=1, steps=20)
    choices = tuple(TrainingChoice(Banded(b), sampling, 1.0, r, 1.0) for b, r in ((1, 1.0), (2, 0.99), (4, ratio)))
    assert best_of(choices, "auto").correlation == Banded(bands)
    assert best_of(choices, None) is choices[0]


def test_none_is_independent_noise():
    made = plan_training(2000, 500, 2, 8.0, 1e-5, correlation=None)
    assert made.chosen.correlation == Banded(1)


def test_a_run_of_one_step_has_nothing_to_correlate():
    made = plan_training(10, 10, 1, 1.0, 1e-5)
    assert [each.correlation.bands for each in made.choices] == [1]


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"mechanism": "laplace"}, "Gaussian"),
        ({"neighbours": "replace"}, "replace"),
        ({"correlation": Banded(5)}, "at most 4"),
        ({"correlation": "best"}, "correlation"),
        ({"correlation": 16}, "correlation"),
        ({"batch": 3000}, "batch"),
        ({"n": 0}, "n must"),
        ({"epochs": 1.5}, "epochs"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 1.5}, "delta"),
        ({"mechanism": "normal"}, "mechanism"),
        ({"neighbours": "other"}, "neighbours"),
    ],
)
def test_what_is_not_proven_or_malformed_is_refused(changed, names):
    given = {"n": 2000, "batch": 500, "epochs": 2, "epsilon": 8.0, "delta": 1e-5, **changed}
    with pytest.raises(InidError, match=names) as caught:
        plan_training(**given)
    assert isinstance(caught.value, ArgumentError)


def test_a_promise_that_no_noise_keeps_is_a_budget_error():
    with pytest.raises(BudgetError):
        plan_training(2000, 500, 2, 1e-9, 1e-300)
