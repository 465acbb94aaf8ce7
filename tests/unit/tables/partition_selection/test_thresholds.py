"""The threshold of keys nobody listed: the worst person by brute force, the promise in rationals, wrong formulas."""

import itertools
import math
from fractions import Fraction
from functools import cache

import pytest
from scipy.special import ndtr

from inid.tables.questions.partition_selection import Contribution, exposure, threshold

KINDS = ["gaussian", "laplace"]


def cdf(mechanism, x):
    if mechanism == "gaussian":
        return float(ndtr(x))
    return 1 - math.exp(-x) / 2 if x >= 0 else math.exp(x) / 2


def persons(person):
    """Everything that a person can have on keys of their own: rows per key."""
    if person.people:
        return [(1,) * t for t in range(1, person.most_keys + 1)]
    counts = range(1, person.rows + 1)
    lists = (shape for t in range(1, person.most_keys + 1) for shape in itertools.product(counts, repeat=t))
    return [shape for shape in lists if sum(shape) <= person.rows]


def exposed(shape, mechanism, scale, tau):
    return -math.expm1(sum(math.log(cdf(mechanism, (tau - rows) / scale)) for rows in shape))


@pytest.mark.parametrize("mechanism", KINDS)
@pytest.mark.parametrize("people", [False, True])
@pytest.mark.parametrize(("keys", "rows"), [(1, 1), (1, 4), (2, 3), (3, 3), (3, 6), (5, 4)])
def test_no_person_is_more_exposed_than_the_stated_one(mechanism, people, keys, rows):
    person = Contribution(keys, rows, people)
    for scale, tau in itertools.product((0.3, 1.0, 4.0), (0.0, 1.5, 5.0, 9.0)):
        found = max(exposed(shape, mechanism, scale, tau) for shape in persons(person))
        bound = float(exposure(person, mechanism, scale, Fraction(tau)))
        assert bound == pytest.approx(found, rel=1e-9, abs=1e-15), (scale, tau)
        assert bound >= found - 1e-12


@pytest.mark.parametrize("mechanism", KINDS)
@pytest.mark.parametrize("delta", [0.05, 1e-8, 1e-30])
@pytest.mark.parametrize(("keys", "rows", "people"), [(1, 1, True), (3, 7, False), (40, 60, True)])
def test_the_threshold_is_the_least_on_the_grid(mechanism, delta, keys, rows, people):
    person, scale = Contribution(keys, rows, people), 2.5
    tau = threshold(person, mechanism, scale, delta)
    step = 2.0**-11  # the grid of scales from 2 to 4
    assert (tau / step).is_integer()
    wanted = Fraction(repr(delta))
    assert exposure(person, mechanism, scale, Fraction(tau) - Fraction(step) / 2, 300) <= wanted
    assert exposure(person, mechanism, scale, Fraction(tau) - 3 * Fraction(step) / 2, 300) > wanted


def test_the_obvious_formulas_are_too_small():
    """Each is what one would write down first; a person that the brute force knows shows it wrong."""
    person, scale, tau = Contribution(keys=5, rows=5, people=False), 4.0, 22.0
    worst = max(exposed(shape, "gaussian", scale, tau) for shape in persons(person))
    one_row_per_key = 5 * (1 - cdf("gaussian", (tau - 1) / scale))
    assert worst > 10 * one_row_per_key
    assert float(exposure(person, "gaussian", scale, Fraction(tau))) == pytest.approx(worst)
    # Neither end of the range of t is the worst everywhere, so neither may be left out.
    low = max(persons(person), key=lambda shape: exposed(shape, "gaussian", 4.0, -4.0))
    high = max(persons(person), key=lambda shape: exposed(shape, "gaussian", 4.0, 22.0))
    assert (len(low), len(high)) == (5, 1)
    # Counting people, k keys are exposed together: one of them alone is not all.
    several = Contribution(keys=5, rows=5, people=True)
    assert exposure(several, "gaussian", scale, Fraction(22)) > 4 * exposure(
        Contribution(1, 5, True), "gaussian", scale, Fraction(22)
    )


# The whole mechanism in rationals, with noise of a law whose probabilities are rational: two-sided geometric.

RATIO = Fraction(1, 2)  # of neighbouring probabilities: e^-1/b
TAU, WIDEST = 4, 8  # beyond the largest count, ratios of probabilities no longer change
UNIT = 3 << 16  # all probabilities are multiples of 1 / UNIT: sums of integers are fast


def mass(distance):
    return (1 - RATIO) / (1 + RATIO) * RATIO ** abs(distance)


def at_most(x):
    """P(noise <= x)."""
    return 1 - RATIO ** (x + 1) / (1 + RATIO) if x >= 0 else RATIO**-x / (1 + RATIO)


def law(count):
    """The law of what is seen of a key: None while it is hidden, else its noisy count; beyond WIDEST as one outcome."""
    if count == 0:
        return {None: Fraction(1)}
    found = {None: at_most(TAU - 1 - count)}
    found |= {value: mass(value - count) for value in range(TAU, WIDEST)}
    return found | {WIDEST: 1 - at_most(WIDEST - 1 - count)}


@cache
def multiples(count):
    """The same law in units of 1 / UNIT."""
    found = {outcome: probability * UNIT for outcome, probability in law(count).items()}
    assert all(number.denominator == 1 for number in found.values())
    return {outcome: int(number) for outcome, number in found.items()}


def divergence(one, two, growth):
    """sup over sets of P(S) - growth Q(S), for counts of several keys."""
    laws = [(multiples(a), multiples(b)) for a, b in zip(one, two, strict=True)]
    shared = [[(p.get(o, 0), q.get(o, 0)) for o in {*p, *q}] for p, q in laws]
    excess = 0
    for outcome in itertools.product(*shared):
        p, q = math.prod(pair[0] for pair in outcome), math.prod(pair[1] for pair in outcome)
        excess += max(p - growth * q, 0)
    return Fraction(excess, UNIT ** len(laws))


def additions(keys, rows, people, names=3):
    """What one person can add to the counts of several keys."""
    found = set()
    for counts in itertools.product(range(rows + 1), repeat=names):
        if sum(counts) <= rows and sum(n > 0 for n in counts) <= keys:
            found.add(tuple(min(n, 1) for n in counts) if people else counts)
    return sorted(found)


def worst_exposure(keys, rows, people):
    """delta_t by the formula, for this noise; a count is hidden when it is at most TAU - 1."""
    most = min(keys, rows)
    if people:
        return 1 - at_most(TAU - 2) ** most
    return max(1 - at_most(TAU - 1 - rows + t - 1) * at_most(TAU - 2) ** (t - 1) for t in range(1, most + 1))


@pytest.mark.parametrize("people", [False, True])
@pytest.mark.parametrize(("keys", "rows"), [(1, 2), (2, 2), (2, 3)])
@pytest.mark.parametrize("replace", [False, True])
def test_noise_and_threshold_together_keep_what_is_charged(keys, rows, people, replace):
    """epsilon of the noise and delta_t, for every pair of neighbours: with others on no key, on one, on two."""
    delta = worst_exposure(keys, rows, people)
    reach = Contribution(keys, rows, people).reach("laplace", "replace" if replace else "add_remove")
    growth = int(1 / RATIO ** int(reach))
    found = []
    for others in ((0, 0, 0), (3, 0, 0), (4, 1, 0)):
        tables = [tuple(a + b for a, b in zip(others, one, strict=True)) for one in additions(keys, rows, people)]
        pairs = itertools.combinations(tables, 2) if replace else [(others, one) for one in tables]
        for one, two in pairs:
            found += [divergence(one, two, growth), divergence(two, one, growth)]
    assert max(found) <= delta
    assert max(found) == delta  # a person with keys of their own attains it


def test_a_threshold_one_lower_is_caught():
    """The same brute force refuses the delta of the next higher threshold, and noise for a smaller reach."""
    person = additions(2, 2, people=False)
    empty = (0, 0, 0)
    worst = max(divergence(one, empty, 4) for one in person)
    higher = max(1 - at_most(TAU - 2 + t - 1) * at_most(TAU - 1) ** (t - 1) for t in (1, 2))
    assert worst > higher
    smaller_reach = max(divergence((7, 0, 0), (5, 0, 0), 2), divergence((5, 0, 0), (7, 0, 0), 2))
    assert smaller_reach > worst_exposure(2, 2, people=False)


@pytest.mark.parametrize(("keys", "rows", "people"), [(3, 3, False), (2, 3, False), (3, 3, True)])
def test_a_person_whose_keys_or_rows_are_not_limited_breaks_the_promise(keys, rows, people):
    """The twin without the guard: limits of two keys and two rows are charged, and more are let in."""
    growth = int(1 / RATIO ** int(Contribution(2, 2, people).reach("laplace", "add_remove")))
    found = max(divergence(one, (0, 0, 0), growth) for one in additions(keys, rows, people))
    assert found > worst_exposure(2, 2, people)
