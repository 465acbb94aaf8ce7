"""The first look at a target: where it is cut, its mean, and how far one row moves what is released."""

import itertools

import numpy as np
import pytest

import inid
from inid import learn
from inid.learn import CELLS, posterior_mean, release_target_summary, signed_sum, truncation_limit
from inid.testing import unsafe_seed
from internals import module_with

_GammaLoss = module_with("inid.learn", "PrivatePoissonRegressor")._GammaLoss

TARGETS = [0.0, 1.0, 0.5, 0.25, 0.3, 2.0**-10, 2.0**-11, 1e-300, -3.0, 7.0, np.inf, -np.inf, np.nan]
WEIGHTS = [0.0, 0.3, 1.0]


def released(targets, weights, cells):
    """The exact numbers of a look whose released cells are the given ones: the counts, then the sum."""
    found = []

    def draw(exact, at):
        assert at == len(found)
        found.extend(exact.tolist())
        return np.asarray(cells) if at == 0 else exact

    with np.errstate(all="ignore"):
        release_target_summary(
            np.array(targets), None if weights is None else np.array(weights), draw, np.ones(CELLS + 1), 4.0
        )
    return np.array(found)


@pytest.mark.parametrize("top", [0, 3, CELLS - 1])
def test_one_row_moves_the_cells_by_norm_1_and_the_sum_by_1_wherever_it_is_cut(top):
    cells = np.where(np.arange(CELLS) == top, 1e6, -1e6)
    base, size = [0.2, 0.9], [1.0, 0.5]
    nobody = released(base, size, cells)
    alone = []
    for target, weight in itertools.product(TARGETS, WEIGHTS):
        alone.append(released([*base, target], [*size, weight], cells))
        moved = np.abs(alone[-1] - nobody)
        assert moved[:CELLS].sum() <= 1
        assert moved[CELLS] <= 1
        assert max(moved[:CELLS].sum(), moved[CELLS]) <= weight + 1e-3  # a weight is rounded
    for one, two in itertools.combinations(alone, 2):  # a row that is replaced
        moved = np.abs(one - two)
        assert np.linalg.norm(moved[:CELLS]) <= 2**0.5
        assert moved[:CELLS].sum() <= 2
        assert moved[CELLS] <= 2
    reached = np.array([np.abs(one - nobody)[CELLS] for one in alone])
    assert reached.max() > 0.99  # the bounds are reached


def test_every_row_is_in_one_cell():
    found = released(TARGETS, None, np.zeros(CELLS))
    assert found[:CELLS].sum() == len(TARGETS)
    assert found[[0, 1, 2]].tolist() == [4, 2, 0]  # 1, 7 and inf, and 0.5 in the first; 0.25 and 0.3 in the second


@pytest.mark.parametrize("place", range(CELLS))
def test_a_huge_budget_cuts_nothing_and_a_small_one_what_is_rare(place):
    shares = np.where(np.arange(CELLS) == place, 1e-6, 0.0)
    shares[-1] += 1 - 1e-6
    assert truncation_limit(shares, 1e-12, 1e-12) == 2.0**-place
    assert truncation_limit(shares, 1e-3, 1e-3) == 2.0 ** -(CELLS - 1)


def test_what_is_cut_is_never_most_of_the_sum():
    rng = np.random.default_rng(0)
    ends = np.exp2(-np.arange(CELLS))
    for _ in range(300):
        shares = rng.dirichlet(np.full(CELLS, 0.2))
        limit = truncation_limit(shares, 0.0, float(rng.choice([1e-3, 1.0, 1e3])))
        assert (shares * np.minimum(0.75 * ends, limit)).sum() >= 0.5 * (shares * 0.75 * ends).sum() * (1 - 1e-12)


def test_a_mean_is_never_far_below_its_noise_and_is_kept_where_there_is_none():
    for spread in (1e-9, 0.01, 0.3, 10.0):
        found = [posterior_mean(z * spread, spread) for z in np.linspace(-40, 40, 401)]
        assert (np.diff(found) >= 0).all()
        assert all(1e-3 <= one <= 1 for one in found)
    assert posterior_mean(0.4, 0.0) == 0.4


def drawn(rows, seed, coefficients, law):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(rows + 2000, 5))
    y = law(rng, np.exp(0.5 + X @ coefficients))
    return X[:rows], y[:rows], X[rows:], y[rows:]


def scores(kind, ends, epsilon, rows, coefficients, law, seeds):
    found = []
    for seed in range(seeds):
        X, y, test, truth = drawn(rows, seed, coefficients, law)
        model = kind(budget=inid.ApproxDP(epsilon, 1e-6), bounds=(-1, 1), bounds_y=ends)
        with unsafe_seed(seed):
            found.append(model.fit(X, y).score(test, np.clip(truth, *ends)))
    return np.array(found)


SOME, NONE = np.array([0.8, -0.5, 0.2, 0.0, 0.4]), np.zeros(5)


@pytest.mark.filterwarnings("ignore::inid.learn.NoisyFitWarning")
@pytest.mark.parametrize(
    ("kind", "ends", "law"),
    [
        (learn.PrivatePoissonRegressor, (0, 50), lambda rng, mean: rng.poisson(mean)),
        (learn.PrivateGammaRegressor, (0.01, 60), lambda rng, mean: rng.gamma(2.0, mean / 2)),
    ],
    ids=["counts", "durations"],
)
def test_few_rows_and_a_small_budget_give_no_less_than_a_constant(kind, ends, law):
    assert scores(kind, ends, 0.5, 500, SOME, law, 20).mean() > 0.05
    assert scores(kind, ends, 0.5, 500, NONE, law, 20).mean() > -0.15  # nothing to learn; the mean has noise too


@pytest.mark.parametrize("top", [0.0, 0.3, 1.0])
def test_one_row_moves_the_sum_that_calibrates_by_1_and_a_replaced_one_by_2(top):
    base, size = np.array([0.2, top]), np.array([1.0, 0.5])
    nobody = signed_sum(base, size)
    entries = itertools.product([0.0, 1e-300, 0.4, 0.5, 1.0, 1.5, 1e300, np.inf, np.nan], WEIGHTS)
    with np.errstate(all="ignore"):
        alone = np.array([signed_sum(np.append(base, p), np.append(size, u)) for p, u in entries])
    assert np.abs(alone - nobody).max() == 1
    assert np.ptp(alone) == 2


def money(rng, mean):
    """A law with a long tail, whose largest values are fifty times the mean."""
    return rng.gamma(0.4, 300 * mean) * np.exp(rng.normal(size=mean.size)) + 0.01


def visits(rng, mean):
    """Counts, four fifths of them 0."""
    return rng.poisson(mean) * (rng.uniform(size=mean.size) < 0.2)


MEANS = {
    "money": (learn.PrivateGammaRegressor, (0.01, 40_000), money),
    "durations": (learn.PrivateGammaRegressor, (0.001, 60), lambda rng, mean: rng.gamma(2.0, mean / 2) + 0.001),
    "counts with many zeros": (learn.PrivatePoissonRegressor, (0, 60), visits),
    "counts": (learn.PrivatePoissonRegressor, (0, 200), lambda rng, mean: rng.poisson(rng.gamma(0.3, mean / 0.3))),
}


def mean_ratios(kind, ends, law, rows=100_000):
    """The mean prediction over the mean target, on the rows of the fit."""
    found = []
    for seed in range(4):
        X, y, _, _ = drawn(rows, seed, SOME, law)
        y = np.clip(y, *ends)
        model = kind(budget=inid.ApproxDP(1.0, 1e-6), bounds=(-1, 1), bounds_y=ends)
        with unsafe_seed(seed):
            found.append(model.fit(X, y).predict(X).mean() / y.mean())
    return np.array(found)


@pytest.mark.parametrize("case", MEANS.values(), ids=MEANS)
def test_the_mean_prediction_is_the_mean_of_the_target(case):
    assert np.abs(mean_ratios(*case) - 1).max() < 0.05


def test_without_calibration_money_is_predicted_too_small(monkeypatch):
    monkeypatch.setattr(learn.PrivateGammaRegressor, "_doubt", 0.0)
    assert mean_ratios(*MEANS["money"]).max() < 0.9


def test_the_mean_probability_of_a_logistic_model_is_the_share_of_its_class():
    """The gradient of its intercept is not clipped, so nothing more needs to be paid for."""
    for seed in range(3):
        X, y, _, _ = drawn(20_000, seed, SOME, lambda rng, mean: rng.uniform(size=mean.size) < 0.05 * mean)
        model = learn.PrivateLogisticRegression(budget=inid.ApproxDP(1.0, 1e-6), bounds=(-1, 1), classes=(False, True))
        with unsafe_seed(seed):
            found = model.fit(X, y).predict_proba(X)[:, 1].mean()
        assert abs(found / y.mean() - 1) < 0.05


def test_a_bound_far_above_all_counts_is_no_reason_to_fail():
    """A long tail below a bound of 1,000: the mean of 2 must not drown in noise for 1,000."""
    long = scores(
        learn.PrivatePoissonRegressor, (0, 1000), 1.0, 20_000, SOME,
        lambda rng, mean: rng.poisson(rng.gamma(0.7, mean / 0.7)), 4,
    )  # fmt: skip
    assert long.min() > 0


@pytest.mark.parametrize("ends", [(1e-300, 1e50), (np.finfo(float).tiny, 100.0)])
def test_durations_whose_logarithms_leave_the_floats_are_refused_before_the_charge(ends):
    ledger = inid.Ledger(total=inid.GaussianDP(1.0))
    model = learn.PrivateGammaRegressor(budget=inid.GaussianDP(1.0), bounds=(0, 1), bounds_y=ends)
    with pytest.raises(inid.InidError, match="must begin at 1e-100 of their upper end"):
        model.fit(np.full((9, 1), 0.5), np.ones(9), ledger=ledger)
    assert len(ledger.history()) == 0


@pytest.mark.parametrize("state", [-1e308, -700.0, 0.0, 1e308])
def test_a_slope_is_finite_so_that_a_weight_of_0_is_nothing(state):
    slopes = _GammaLoss(np.array([1.0, 0.3]), 0.0, -1e9).slopes(np.full(2, state), slice(None))
    assert np.isfinite(slopes).all()
    assert (slopes * 0.0 == 0.0).all()
