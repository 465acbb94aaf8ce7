"""Cox's model: the slope by hand, rows that stay apart, how far a person moves each release, and the exact fit."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import inid
from inid import learn
from inid.learn.cox import _GroupedLoss, risk_edges
from inid.testing import unsafe_no_noise, unsafe_seed
from needs import needs

BUDGET = inid.ApproxDP(1.0, 1e-6)
TRUTH = np.array([1.0, -0.5, 0.8, 0.0])
BOUNDS = ([-4, -4, 0, -1], [4, 4, 1, 1])
EDGES = np.linspace(0, 20, 81)


def people(seed, rows, scale=1.0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(rows, 2)), rng.integers(0, 2, rows), rng.uniform(-1, 1, rows)])
    event, censored = rng.exponential(10 * np.exp(-X @ TRUTH * scale)), rng.uniform(2, 20, rows)
    return X, np.minimum(event, censored), event <= censored


def fitted(rows, epsilon, seed=0, scale=1.0, **more):
    X, times, events = people(seed, rows, scale)
    parameters = {"edges": EDGES, "bounds": BOUNDS} | more
    with unsafe_seed(seed):
        return learn.PrivateCox(inid.ApproxDP(epsilon, 1e-6), **parameters).fit(X, times, events)


def partial_likelihood(X, times, events):
    """Cox's own estimate, by its partial likelihood with Breslow's ties: nothing of the library is used."""
    order = np.argsort(-times, kind="stable")
    X, times, events = X[order], times[order], np.asarray(events, bool)[order]
    last = np.searchsorted(-times, -times, side="right") - 1

    def loss(w):
        ratio = np.exp(X @ w)
        risk = np.cumsum(ratio)[last]
        means = np.cumsum(ratio[:, None] * X, axis=0)[last] / risk[:, None]
        return -(X @ w - np.log(risk))[events].sum(), -(X - means)[events].sum(axis=0)

    return minimize(loss, np.zeros(X.shape[1]), jac=True, method="BFGS").x


def test_the_slope_is_the_derivative_of_the_sum_over_a_persons_periods():
    hazards = np.array([0.05, 0.3, 0.001, 2.0])

    def loss(risk, period, event):
        each = hazards * np.exp(risk)
        survived = each[: period if event else period + 1].sum()
        return survived - event * np.log(1 - np.exp(-each[min(period, 3)]))

    step = 1e-5
    for period, event, risk in itertools.product(range(4), (0, 1), (-3.0, 0.0, 0.7, 2.0)):
        before = hazards[: period + (not event)].sum()
        ours = _GroupedLoss(np.array([before]), np.array([hazards[period] if event else 1.0]), np.array([event == 1]))
        wanted = (loss(risk + step, period, event) - loss(risk - step, period, event)) / (2 * step)
        np.testing.assert_allclose(ours.slopes(np.array([risk]), slice(0, 1))[0], wanted, atol=1e-7)


def test_slopes_are_finite_and_at_least_minus_1_and_no_row_changes_that_of_another():
    rng = np.random.default_rng(0)
    survived, hazard, event = rng.exponential(size=1003), rng.exponential(size=1003), rng.integers(0, 2, 1003) == 1
    state = rng.normal(0, 3, 1003)
    state[:6] = [-1e300, 1e300, -700, 700, 0, 1e-300]
    with np.errstate(all="ignore"):  # as in a descent
        slopes = _GroupedLoss(survived, hazard, event).slopes(state, slice(0, 1003))
    assert np.isfinite(slopes).all()
    assert slopes.min() >= -1.0
    for at in (0, 5, 500, 1002):
        rest = np.delete(np.arange(1003), at)
        with np.errstate(all="ignore"):
            again = _GroupedLoss(survived[rest], hazard[rest], event[rest]).slopes(state[rest], slice(0, 1002))
        assert again.tobytes() == slopes[rest].tobytes()


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_a_person_moves_the_totals_of_bands_as_far_as_was_planned(relation, mechanism):
    question = learn.survival_question(3, 4, relation, 10)
    noise = question.plan(inid.PureDP(1.0) if mechanism == "laplace" else BUDGET, mechanism=mechanism).noise
    norm, limit = 1 if mechanism == "laplace" else 2, float(noise.sensitivity.limits[0])

    def exact(*cell):
        return learn.exact_totals(question, noise, *(np.array([one]) for one in cell))

    nobody = exact(-1, 0, 0)
    each = [exact(*one) for one in itertools.product((-1, 0, 1, 2, 3), (0, 1), range(4))]
    pairs = itertools.combinations(each, 2) if relation == "replace" else ((one, nobody) for one in each)
    moves = [np.linalg.norm(one - other, ord=norm) for one, other in pairs]
    assert limit * (1 - 1e-9) <= max(moves) <= limit * (1 + 1e-12)
    # A twin that counts a person in the bands up to their own, as totals over bands would, goes further.
    ladder = sum(exact(1, 1, band) for band in range(4))
    assert np.linalg.norm(ladder - nobody, ord=norm) > max(moves) * (1 + 1e-9)


def test_with_a_huge_budget_it_is_coxs_own_estimate_and_without_calibration_it_is_not():
    exact = partial_likelihood(*people(0, 20_000))
    model = fitted(20_000, 1000.0)
    assert abs(model.coef_ - exact).max() < 0.06
    assert abs(model.coef_ / model.calibration_ - exact).max() > 0.1
    X = people(0, 20_000)[0]
    low = model.predict_survival(X[:5])
    assert low.shape == (5, 80)
    assert ((low >= 0) & (low <= 1)).all()
    truth = np.exp(-10 / 10 * np.exp(X @ TRUTH))
    assert abs(model.predict_survival(X)[:, 39] - truth).mean() < 0.03


@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
def test_at_epsilon_1_it_is_near_the_truth_under_each_relation(relation):
    model = fitted(20_000, 1.0, neighbours=relation)
    assert abs(model.coef_ - TRUTH).max() < 0.2
    assert model.plan_.sensitivity.neighbours == relation


def test_on_nhanes_it_puts_people_in_the_order_of_the_exact_fit():
    data = pd.read_csv(needs("data") / "nhanes1.csv.gz")
    X = data.drop(columns=["years_followed", "died", "pulse_pressure"])
    bounds = X.quantile(0.005).to_numpy(), X.quantile(0.995).to_numpy()
    X, times, events = X.clip(*bounds, axis=1).to_numpy(), data["years_followed"].to_numpy(), data["died"].to_numpy()
    unit = X.std(axis=0)
    with unsafe_seed(0):
        model = learn.PrivateCox(BUDGET, edges=np.linspace(0, 22.2, 45), bounds=bounds).fit(X, times, events)
    exact = concordance(X / unit @ partial_likelihood(X / unit, times, events), times, events)
    assert exact > 0.82
    assert concordance(model.predict(X), times, events) > exact - 0.01


def concordance(risk, times, events):
    """The share of pairs, the one with an event before the other's time, of which that one has the higher risk."""
    right = pairs = 0.0
    for one in np.flatnonzero(events):
        later = times > times[one]
        right += (risk[later] < risk[one]).sum() + (risk[later] == risk[one]).sum() / 2
        pairs += later.sum()
    return right / pairs


def test_three_charges_keep_to_the_promise_and_a_ledger_without_room_takes_none():
    X, times, events = people(0, 500)
    parameters = {"edges": EDGES, "bounds": BOUNDS}
    ledger = inid.Ledger(total=BUDGET, neighbours="zero_out")
    learn.PrivateCox(BUDGET, **parameters).fit(X, times, events, ledger=ledger)
    assert [line.label for line in ledger.history()] == ["PrivateCox: hazards", "PrivateCox", "PrivateCox: calibration"]
    with pytest.raises(inid.BudgetError):
        learn.PrivateCox(BUDGET, **parameters).fit(X, times, events, ledger=ledger)
    assert len(ledger.history()) == 3
    pure = inid.Ledger(total=inid.PureDP(1.0), neighbours="zero_out")
    learn.PrivateCox(inid.PureDP(1.0), **parameters).fit(X, times, events, ledger=pure)
    assert len(pure.history()) == 3


@pytest.mark.parametrize("rows", [1, 30])
def test_few_and_odd_rows_give_finite_numbers(rows):
    X, times, events = people(0, rows)
    X[0], times[0] = np.nan, np.nan
    odd = np.where(events, 1.0, 7.0)
    model = learn.PrivateCox(inid.ApproxDP(0.1, 1e-6), edges=EDGES, bounds=BOUNDS).fit(X, times, odd)
    assert np.isfinite([*model.coef_, model.intercept_, model.calibration_]).all()
    assert ((model.baseline_survival_ >= 0) & (model.baseline_survival_ <= 1)).all()
    with unsafe_no_noise():
        learn.PrivateCox(BUDGET, edges=(0, 1), bounds=BOUNDS).fit(X, np.zeros(rows), np.zeros(rows))


@pytest.mark.parametrize(
    ("parameters", "arguments", "words"),
    [
        ({"edges": (2, 1)}, {}, "edges must be two or more finite numbers"),
        ({"bounds": None}, {}, "bounds"),
        ({}, {"times": [1.0]}, "pass one entry of times for each row"),
        ({}, {"events": ["yes"] * 30}, "events must hold real numbers"),
        ({"passes": 0}, {}, "passes"),
        ({}, {"entry": [0.0] * 30}, "everybody enters at the first edge"),
    ],
)
def test_bad_input_is_refused_before_anything_is_spent(parameters, arguments, words):
    X, times, events = people(0, 30)
    ledger = inid.Ledger(total=BUDGET, neighbours="zero_out")
    model = learn.PrivateCox(**{"budget": BUDGET, "edges": EDGES, "bounds": BOUNDS, **parameters})
    with pytest.raises(inid.ArgumentError, match=words):
        model.fit(**{"X": X, "times": times, "events": events, **arguments}, ledger=ledger)
    assert not ledger.history()


def test_bands_are_narrower_the_more_rows_there_are_over_the_noise():
    widths = [np.diff(risk_edges(inid.GaussianDP(0.1), rows))[0] for rows in (1000, 10_000, 100_000)]
    assert widths == [1.0, 0.5, 0.25]
