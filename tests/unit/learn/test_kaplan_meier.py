"""Kaplan-Meier curves: the estimate by hand, how far a person moves the release, coverage, and the size of log-rank."""

import itertools

import numpy as np
import pandas as pd
import pytest

import inid
from inid import learn
from inid.tables import Table
from inid.testing import unsafe_no_noise, unsafe_seed
from needs import needs

BUDGET = inid.ApproxDP(1.0, 1e-6)
NAN = float("nan")


def by_hand(times, events, at):
    """The product of 1 - d / n over the times of events, as textbooks have it: nothing of the library is used."""
    left, survival = sorted({t for t, e in zip(times, events, strict=True) if e == 1}), 1.0
    steps = {}
    for one in left:
        at_risk = sum(t >= one for t in times)
        steps[one] = survival = survival * (
            1 - sum(t == one and e == 1 for t, e in zip(times, events, strict=True)) / at_risk
        )
    return [steps[max(s for s in steps if s <= t)] if min(steps) <= t else 1.0 for t in at]


def test_without_noise_it_is_the_textbooks_curve():
    rng = np.random.default_rng(0)
    times, events = rng.integers(1, 13, size=300), rng.integers(0, 2, size=300)
    with unsafe_no_noise():
        model = learn.PrivateKaplanMeier(BUDGET, edges=range(13)).fit(times, events)
    last = int(np.isfinite(model.survival_[0]).sum())
    assert last >= 10  # too few are at risk beyond
    np.testing.assert_allclose(model.survival_[0, :last], by_hand(times, events, range(1, last + 1)), atol=1e-9)
    np.testing.assert_allclose(model.at_risk_[0], [(times > t).sum() for t in range(12)], atol=1e-9)
    np.testing.assert_allclose(model.predict([0.5, 1.0, 4.7]), by_hand(times, events, [0.5, 1, 4]), atol=1e-9)
    assert model.median_[0] == next(t for t in range(1, 13) if by_hand(times, events, [t])[0] <= 0.5)
    low, high = model.interval()
    assert (low <= np.nan_to_num(model.survival_)).all()
    assert (np.diff(high) <= 0).all()


def test_times_beyond_the_last_edge_are_censored_and_odd_rows_count_nowhere():
    times = np.array([1.0, 2.0, 9.0, NAN, 1.0, -3.0, 2.0])
    events = [1, True, 1, 1, 2, 0, None]
    with unsafe_no_noise():
        model = learn.PrivateKaplanMeier(BUDGET, edges=(0, 1, 2)).fit(times, events)
    np.testing.assert_allclose(model.events_[0], [1, 1], atol=1e-9)
    np.testing.assert_allclose(model.at_risk_[0], [4, 2], atol=1e-9)  # 1, 2, 9 and, in the first period, -3


# Every kind of person: each period, beyond, no time; with and without an event, neither; in a group, in no group.
PEOPLE = [*itertools.product((1.0, 2.0, 3.0, 7.0, NAN), (0.0, 1.0, 5.0), ("a", "b", "c"))]
OTHERS = [(1.0, 1.0, "a"), (2.0, 0.0, "b"), (7.0, 0.0, "a"), (3.0, 1.0, "b")]


def released(people, relation, mechanism):
    """The exact numbers of a table of people, and the plan."""
    model = learn.PrivateKaplanMeier(
        BUDGET, edges=(0, 1, 2, 3), groups=("a", "b"), neighbours=relation, mechanism=mechanism
    )
    times, events, groups = zip(*people, strict=True)
    with unsafe_no_noise():
        model.fit(np.array(times), np.array(events), list(groups))
    return model.release_.values, model.plan_


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("relation", ["zero_out", "add_remove", "replace"])
def test_nobody_moves_the_release_further_than_the_plan_says_and_somebody_as_far(relation, mechanism):
    base, plan = released(OTHERS, relation, mechanism)
    norm = 2 if mechanism == "gaussian" else 1
    limit = float(plan.sensitivity.limits[0])
    each = [released([*OTHERS, one], relation, mechanism)[0] for one in PEOPLE]
    pairs = itertools.combinations(each, 2) if relation == "replace" else ((one, base) for one in each)
    moves = [np.linalg.norm(one - other, ord=norm) for one, other in pairs]
    assert max(moves) <= limit * (1 + 1e-12)
    assert max(moves) >= limit * (1 - 1e-9)
    # A twin that counts who leaves by an event among all exits as well, as one table of exits and one of events would.
    exits = [one.reshape(2, 2, -1) for one in each]
    twin = [np.concatenate([one.sum(axis=1), one[:, 1]]) - np.concatenate([zero.sum(axis=1), zero[:, 1]])
            for one in exits for zero in [base.reshape(2, 2, -1)]]  # fmt: skip
    if relation != "replace":
        assert max(np.linalg.norm(one.ravel(), ord=norm) for one in twin) > limit * 1.4


def test_the_ledger_is_charged_before_anything_is_read():
    events = []

    class Watched:
        dtype, shape, ndim = np.dtype(float), (50,), 1

        def __len__(self):
            return 50

        def __array__(self, dtype=None, copy=None):
            events.append("read")
            return np.ones(50)

    ledger = inid.Ledger(total=inid.PureDP(1e-9))
    with pytest.raises(inid.BudgetError):
        learn.PrivateKaplanMeier(BUDGET, edges=(0, 1, 2)).fit(Watched(), Watched(), ledger=ledger)
    assert not events
    ledger = inid.Ledger(total=inid.ApproxDP(2.0, 1e-5), neighbours="replace")
    model = learn.PrivateKaplanMeier(BUDGET, edges=(0, 1, 2)).fit(Watched(), Watched(), ledger=ledger)
    assert events
    assert len(ledger.history()) == 1
    assert model.plan_.sensitivity.neighbours == "replace"
    model.plan_.verify()


TIMES, EVENTS = [1.0, 2.0], [1, 0]


@pytest.mark.parametrize(
    ("parameters", "arguments", "words"),
    [
        ({"edges": (0, 2, 1)}, (TIMES, EVENTS), "edges must be two or more finite numbers that increase"),
        ({"edges": (0, np.inf)}, (TIMES, EVENTS), "edges must be two or more finite numbers"),
        ({"edges": 5}, (TIMES, EVENTS), "edges must be a list of numbers"),
        ({"edges": range(2000)}, (TIMES, EVENTS), "at most 1,023 are served"),
        ({}, (TIMES, EVENTS), "edges must be a list of numbers"),
        ({"edges": (0, 1), "budget": 1.0}, (TIMES, EVENTS), "budget"),
        ({"edges": (0, 1)}, (TIMES, [1]), "pass one entry of events for each row"),
        ({"edges": (0, 1)}, ([[1.0], [2.0]], EVENTS), "times must have one dimension"),
        ({"edges": (0, 1)}, (TIMES, ["yes", "no"]), "events must hold real numbers"),
        ({"edges": (0, 1)}, (TIMES, EVENTS, ["a", "b"]), "groups and the group of each person belong together"),
        ({"edges": (0, 1), "groups": ("a", "b")}, (TIMES, EVENTS), "groups and the group of each person"),
        ({"edges": (0, 1)}, (Table(pd.DataFrame({"t": [1.0]}), bounds={"t": (0, 1)}), "e"), "takes no Table"),
    ],
)
def test_bad_input_is_refused_before_anything_is_spent(parameters, arguments, words):
    ledger = inid.Ledger(total=BUDGET, neighbours="zero_out")
    with pytest.raises(inid.ArgumentError, match=words):
        learn.PrivateKaplanMeier(**{"budget": BUDGET, **parameters}).fit(*arguments, ledger=ledger)
    assert not ledger.history()


def test_late_entry_and_weights_are_refused_with_a_cure():
    model = learn.PrivateKaplanMeier(BUDGET, edges=(0, 1))
    with pytest.raises(inid.ArgumentError, match=r"entry.*everybody enters at the first edge"):
        model.fit(TIMES, EVENTS, entry=[0.0, 1.0])
    with pytest.raises(inid.ArgumentError, match="log_rank compares groups"):
        model.fit(TIMES, EVENTS).log_rank()


def people(seed, rows):
    """Times with a constant hazard, censored at random, on whole numbers, and a group without an effect."""
    rng = np.random.default_rng([seed, rows])
    event, censored = np.ceil(rng.exponential(25, rows)), np.ceil(rng.uniform(0, 40, rows))
    return np.minimum(event, censored), (event <= censored).astype(int), rng.integers(0, 2, rows)


def coverage(fits, rows, epsilon, cut=1.0):
    """How often the intervals hold the true curve; `cut` shortens them, as a test of the test."""
    truth, inside = np.exp(-np.arange(1, 25) / 25), []
    for seed in range(fits):
        times, events, _ = people(seed, rows)
        with unsafe_seed(seed):
            model = learn.PrivateKaplanMeier(inid.ApproxDP(epsilon, 1e-6), edges=range(25)).fit(times, events)
        low, high = (one[0] for one in model.interval())
        middle = (low + high) / 2
        inside.append((middle - cut * (middle - low) <= truth) & (truth <= middle + cut * (high - middle)))
    return np.mean(inside, axis=0)


def test_intervals_cover_the_true_curve_and_shorter_ones_do_not():
    assert coverage(100, 2000, 0.5).mean() > 0.90
    assert coverage(100, 2000, 0.5, cut=0.5).mean() < 0.85


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("rows", [2000, 5000, 20_000])
def test_intervals_cover_on_the_whole_grid(rows, epsilon):
    """200 fits, whose points of one curve go together: a mean of 0.95 has a standard deviation of about 0.01."""
    found = coverage(200, rows, epsilon)
    print(f"\n{rows} {epsilon}: {found.mean():.3f}, {found.min():.3f} to {found.max():.3f}")  # noqa: T201
    assert 0.92 < found.mean() < 0.98


def p_values(fits, effect):
    """P-values of log-rank, and of the one that leaves out the noise."""
    ours, twins = [], []
    for seed in range(fits):
        times, events, group = people(seed, 400)
        times = np.where(group == 1, np.ceil(times * effect), times)
        with unsafe_seed(seed):
            model = learn.PrivateKaplanMeier(inid.ApproxDP(0.5, 1e-6), edges=range(25), groups=(0, 1))
            model.fit(times, events, group)
        ours.append(model.log_rank().p_value)
        model._counts = learn.SurvivalCounts(model._counts.prefixes, 1e-9, model._counts.totals)
        twins.append(model.log_rank().p_value)
    return np.array(ours), np.array(twins)


def test_log_rank_keeps_its_size_with_the_noise_and_not_without():
    ours, twins = p_values(150, 1.0)
    assert (ours < 0.05).mean() < 0.12  # 18 of 150, where 7.5 are expected
    assert (twins < 0.05).mean() > 0.12
    assert (p_values(20, 0.4)[0] < 0.05).mean() > 0.5


def test_on_nhanes_it_is_near_the_exact_curve():
    data = pd.read_csv(needs("data") / "nhanes1.csv.gz")
    edges = np.linspace(0, 22, 265)
    exact = by_hand_fast(data["years_followed"].to_numpy(), data["died"].to_numpy(), edges[1:])
    with unsafe_seed(0):
        model = learn.PrivateKaplanMeier(BUDGET, edges=edges).fit(data["years_followed"], data["died"])
    error = float(np.sqrt(np.nanmean(np.square(model.survival_[0] - exact))))
    assert error < 0.01
    assert np.isnan(model.survival_).sum() < 15


def by_hand_fast(times, events, at):
    left = np.unique(times[events == 1])
    at_risk = (times[None, :] >= left[:, None]).sum(axis=1)
    died = ((times[None, :] == left[:, None]) & (events == 1)).sum(axis=1)
    return np.concatenate([[1.0], np.cumprod(1 - died / at_risk)])[np.searchsorted(left, at, side="right")]


def test_the_print_out_and_the_picture_show_every_group():
    times, events, group = people(0, 3000)
    model = learn.PrivateKaplanMeier(BUDGET, edges=range(25), groups=(0, 1)).fit(times, events, group)
    assert [line.split(":")[0] for line in str(model).splitlines()[-2:]] == ["  0", "  1"]
    ax = model.plot()
    assert len(ax.get_lines()) == 2
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0", "1"]
