"""Choices of quantiles: what one row moves, by brute force; the law and the cost of a choice; answers."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import chisquare, norm

import inid
from inid import tables
from inid.noise import source_in_use
from inid.noise.exact_draws import draw_choice
from inid.releasing import EXPONENTIAL_SCALE
from inid.tables.questions.prefix_sums.choice import QuantileChoice
from inid.testing import SeededSource, unsafe_no_noise, unsafe_seed

LEVELS = 4
PROBABILITIES = [(0.5,), (0.9,), (0.1, 0.5, 0.95), (0.05, 0.1, 0.5, 0.9, 0.95), (0.3, 0.25)]


def distances(values, p):
    """Minus how many rows each level is away from the p-quantile, by the definition."""
    target = p * len(values)
    upto = [sum(value <= level for value in values) for level in range(LEVELS)]
    below = [sum(value < level for value in values) for level in range(LEVELS)]
    return [-max(Fraction(0), target - most, least - target) for most, least in zip(upto, below, strict=True)]


def cost(before, after, choice, power):
    """What the choices of all probabilities cost between two lists of values, in units of the scores."""
    total = Fraction(0)
    for p, unit in zip(choice.probabilities, choice.ranges, strict=True):
        pairs = zip(distances(before, p), distances(after, p), strict=True)
        changes = [new - old for old, new in pairs] + [Fraction(0)]
        total += ((max(changes) - min(changes)) / unit) ** power
    return total


def multisets(rows):
    return itertools.combinations_with_replacement(range(LEVELS), rows)


@pytest.mark.parametrize("asked", PROBABILITIES)
def test_scores_are_distances_from_the_quantile(asked):
    choice = QuantileChoice.of(asked)
    for values in (some for rows in range(5) for some in multisets(rows)):
        counts = np.bincount(np.array(values, dtype=int), minlength=LEVELS).astype(float)
        for at, p in enumerate(choice.probabilities):
            scores = [Fraction(score, p.denominator) for score in choice.scores(counts, at).tolist()]
            assert scores == distances(values, p)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("asked", PROBABILITIES)
def test_no_row_moves_the_choices_farther_than_the_radius_and_some_row_as_far(asked, power):
    choice = QuantileChoice.of(asked)
    added = [
        (cost(values, [*values, row], choice, power), cost([*values, row], values, choice, power))
        for rows in range(9)
        for values in multisets(rows)
        for row in range(LEVELS)
    ]
    worst = max(max(pair) for pair in added)
    radius = choice.radius(power, replace=False, cells=1)
    assert worst <= Fraction(radius) ** power
    assert float(worst) ** (1 / power) > 0.9 * radius  # rows are few: targets lie between ranks


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("asked", PROBABILITIES)
def test_no_replaced_row_moves_the_choices_farther_than_the_radius(asked, power):
    choice = QuantileChoice.of(asked)
    inside, added, removed = Fraction(0), Fraction(0), Fraction(0)
    for values in (some for rows in range(7) for some in multisets(rows)):
        for old, new in itertools.permutations(range(LEVELS), 2):
            inside = max(inside, cost([*values, old], [*values, new], choice, power))
            added = max(added, cost(values, [*values, new], choice, power))
            removed = max(removed, cost([*values, old], values, choice, power))
    assert max(inside, added, removed) <= Fraction(choice.radius(power, replace=True, cells=1)) ** power
    apart = choice.radius(power, replace=True, cells=2)
    assert max(inside, added + removed) <= Fraction(apart) ** power
    assert added + removed > Fraction(choice.radius(power, replace=False, cells=2)) ** power  # a twin for one group


def test_a_person_with_more_rows_moves_the_choices_as_many_times_as_far():
    people = tables.Person("id", 3)
    frame = pd.DataFrame({"id": [1, 1, 2], "age": [3.0, 5.0, 7.0]})
    one, three = (
        tables.Table(frame, bounds={"age": (0, 100)}, unit=unit).quantiles({"age": [0.5]}).question
        for unit in ("row", people)
    )
    for name in ("gaussian", "laplace"):
        limits = [question.sensitivity(name).limits[0] for question in (one, three)]
        assert 3 * limits[0] <= limits[1] <= 3 * limits[0] * (1 + 1e-12)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def gaussian_delta(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def chosen_law(scores, scale):
    weights = np.exp((scores - scores.max()) / scale)
    return weights / weights.sum()


def exceeds(factor):
    """Whether, for some scores, changes and epsilon, a choice of this scale is told apart better than noise of 1."""
    draw = np.random.default_rng(5)
    scale = float(factor)
    cases = [(np.array([0.0, 0.0]), np.array([0.0, 1.0]), r) for r in (0.05, 0.3, 1.0, 3.0)]
    cases += [(draw.normal(0, 2, 6), draw.uniform(0, 1, 6), r) for r in (0.1, 1.0, 4.0) for _ in range(200)]
    cases += [
        (draw.normal(0, 2, 6), draw.integers(0, 2, 6).astype(float), r) for r in (0.1, 1.0, 4.0) for _ in range(200)
    ]
    worst = -1.0
    for scores, change, r in cases:
        centred = scores - r * change / 2
        p, q = chosen_law(centred + r * change, scale), chosen_law(centred, scale)
        for epsilon in (0.0, 0.1 * r, 0.5 * r, r):
            worst = max(worst, hockey_stick(p, q, epsilon) - gaussian_delta(r, epsilon))
    return worst > 1e-12


def test_a_choice_is_dominated_by_gaussian_noise_and_by_no_less():
    assert Fraction(math.sqrt(2 * math.pi) / 4) < EXPONENTIAL_SCALE < 0.62665707
    assert not exceeds(EXPONENTIAL_SCALE)
    assert exceeds(EXPONENTIAL_SCALE * Fraction(98, 100))


def exponential_noise_law(scores, scale):
    """How often each score is the largest once exponential noise is added, by quadrature."""

    def chance(at):
        def density(x):
            others = (x + (scores[at] - other) / scale for j, other in enumerate(scores) if j != at)
            return math.exp(-x) * math.prod(1 - math.exp(-y) if y > 0 else 0.0 for y in others)

        kinks = sorted({max(0.0, (other - scores[at]) / scale) for other in scores})
        ends = [*kinks, kinks[-1] + 50]
        return sum(quad(density, low, high)[0] for low, high in itertools.pairwise(ends))

    return np.array([chance(at) for at in range(len(scores))])


def test_choices_have_the_laws_that_are_claimed_and_not_each_others():
    scores, scale, number = np.array([3, 0, 5, 4, 4]), 2.5, 20_000
    laws = {True: chosen_law(scores, scale), False: exponential_noise_law(scores.tolist(), scale)}
    source = SeededSource(11)
    for again, law in laws.items():
        drawn = np.bincount([draw_choice(scores, scale, source, again=again) for _ in range(number)], minlength=5)
        assert chisquare(drawn, law / law.sum() * number).pvalue > 1e-6
        assert chisquare(drawn, laws[not again] / laws[not again].sum() * number).pvalue < 1e-12


def test_a_choice_among_many_candidates_is_even_where_scores_are():
    scores = np.full(700, -(10**15))
    scores[100:400] = 0
    source = SeededSource(3)
    for again in (True, False):
        drawn = np.array([draw_choice(scores, 1.0, source, again=again) for _ in range(3000)])
        assert ((drawn >= 100) & (drawn < 400)).all()
        assert chisquare(np.bincount((drawn - 100) // 30, minlength=10)).pvalue > 1e-6


class Watched(SeededSource):
    """A source that notes the scores and the scale of every choice."""

    def __init__(self):
        super().__init__(1)
        self.recorder, self.choices = self, []

    def charged(self, plans):
        pass

    def drawn(self, law, values, scales, draw, claim=None):
        if "choice" not in law:
            return np.asarray(values, dtype=float)
        self.choices.append((np.array(values), float(scales[0])))
        return 0


def drawn_choices(values, budget, by):
    """The scores and the scale of all choices of a release, as they are drawn."""
    frame = pd.DataFrame({"v": [value for value, _ in values], "sex": [sex for _, sex in values]})
    t = tables.Table(frame.astype({"v": float, "sex": str}), bounds={"v": (0, 3)}, domains={"sex": ["f", "m"]})
    query = t.quantiles({"v": [0.4, 0.5]}, by={"sex": ["f", "m"]} if by else {})
    plan, source = query.plan(budget), Watched()
    assert plan.tables[0].strategy == "choice"
    with source_in_use(source):
        query.release(plan)
    assert len(source.choices) == (4 if by else 2)
    return source.choices


@pytest.mark.parametrize("by", [False, True])
def test_all_choices_together_cost_what_is_planned(by):
    """From the rows to the scores and scales that are drawn from: ranges of changes over scales, added up."""
    values = [(1 + at % 7 / 4, "fm"[at % 2]) for at in range(23)]
    worst = 0.0
    for rows in (1, 23):
        before = drawn_choices(values[:rows], inid.PureDP(1.0), by)
        for new in [(0.5, "f"), (2.9, "f"), (1.5, "m")]:
            after = drawn_choices([*values[:rows], new], inid.PureDP(1.0), by)
            costs = []
            for (old_scores, scale), (new_scores, other) in zip(before, after, strict=True):
                assert scale == other
                change = new_scores - old_scores
                costs.append((max(change.max(), 0) - min(change.min(), 0)) / scale)
            worst = max(worst, sum(costs))
    assert 0.4 < worst <= 0.5 * (1 + 1e-9)  # the rest is for intervals


SKEWED = pd.DataFrame(
    {"pay": np.random.default_rng(2).lognormal(10, 1, 3000), "sex": np.random.default_rng(4).choice(["f", "m"], 3000)}
)
BUDGETS = [inid.PureDP(1.0), inid.GaussianDP(0.3)]


def skewed(**facts):
    return tables.Table(SKEWED, bounds={"pay": (0, 200_000)}, domains={"sex": ["f", "m"]}, **facts)


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_few_quantiles_are_chosen_and_many_are_read_from_prefix_sums(budget):
    few, many = (skewed().quantiles({"pay": listed}).plan(budget) for listed in ([0.9], np.arange(1, 20) / 20))
    assert few.tables[0].strategy == "choice"
    assert many.tables[0].strategy != "choice"
    few.verify()
    with_curve = skewed().quantiles({"pay": [0.9]}, cdf={"pay": [()]}).plan(budget)
    assert with_curve.tables[0].strategy != "choice"
    assert few.tables[0].std < 0.75 * with_curve.tables[0].std


@pytest.mark.parametrize("budget", BUDGETS)
def test_chosen_levels_are_as_far_in_rank_as_planned_and_intervals_cover(budget):
    query = skewed().quantiles({"pay": [0.5, 0.9]})
    plan = query.plan(budget)
    ranks, held, runs = [], [], 120
    exact = [np.quantile(SKEWED.pay, p, method="inverted_cdf") for p in (0.5, 0.9)]
    with unsafe_seed(8):
        for _ in range(runs):
            rows = query.release(plan).answers
            ranks.append([(SKEWED.pay <= row.estimate).sum() - row.keys["p"] * 3000 for row in rows])
            held.append([row.lower <= one <= row.upper for row, one in zip(rows, exact, strict=True)])
    assert (np.mean(held, axis=0) >= 0.95 - 5.5 * 0.02).all()
    root = math.sqrt(np.mean(np.square(ranks)))
    assert 0.7 * plan.tables[0].std < root < 1.3 * plan.tables[0].std


def test_chosen_levels_by_groups_without_noise_are_the_quantiles():
    query = skewed().quantiles({"pay": [0.4, 0.5]}, by={"sex": ["f", "m"]})
    for budget in BUDGETS:
        plan = query.plan(budget)
        assert plan.tables[0].strategy == "choice"
        with unsafe_no_noise():
            rows = query.release(plan).answers
        for row in rows:
            own = SKEWED[SKEWED.sex == row.keys["sex"]].pay
            exact = np.quantile(own, row.keys["p"], method="inverted_cdf")
            assert abs(row.estimate - exact) <= 64  # the levels are 64 apart, rounded both ways
            assert row.lower <= exact <= row.upper


def test_records_of_choices_verify_and_changed_positions_are_refused():
    query = skewed().quantiles({"pay": [0.5]})
    record = query.release(query.plan(inid.ApproxDP(1.0, 1e-6)), inid.Ledger(total=inid.ApproxDP(1.0, 1e-6))).to_dict()
    assert tables.verify_result(record).promise == "PureDP(epsilon=1.0)"
    for position in (-1.0, 0.5, 1e6):
        values = [position, *record["release"]["values"][1:]]
        changed = record | {"release": record["release"] | {"values": values}}
        with pytest.raises(inid.RecordError):
            tables.verify_result(changed)
