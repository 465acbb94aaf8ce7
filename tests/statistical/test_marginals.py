"""Many tables at once: the noise has the stated standard deviations, and intervals hold what they say, by Monte Carlo.

Raw cells, tables inside the asked ones, linear combinations, sums and means (Fieller), under either kind of noise. A
hundred thousand releases are drawn at once: the noise is the library's own, drawn for the plan's scales many times
over; estimates are linear in the released numbers; stds and intervals come from the code that publishes tables, which
works cell by cell and is given all releases as further cells. That single releases publish the same is a test as well.
"""

from functools import cache

import numpy as np
import pandas as pd
import pytest

import inid
from inid.noise import add_noise
from inid.tables import Table
from inid.tables.questions.marginals import TableAnswers, TableStatistic, answers_of

CHUNK = 5000
DRAWS = 100_000  # a std is then known to 0.22 %, a share of 95 % to 0.07 %
COMBINATION = {(0,): np.array([1.0, -0.5]), (0, 1): np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0]])}
STATISTICS = [
    TableStatistic("count", "", ("sex", "region")),
    TableStatistic("count", "", ("region",)),
    TableStatistic("count", "", ()),
    TableStatistic("sum", "income", ("sex",)),
    TableStatistic("sum", "income", ()),
    TableStatistic("mean", "income", ("sex", "region")),
    TableStatistic("mean", "income", ("sex",)),
]


@cache
def asked():
    rng = np.random.default_rng(8)
    rows = 4000
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["F", "M"], rows),
            "region": rng.integers(0, 3, rows),
            "income": np.where(rng.random(rows) < 0.2, np.nan, rng.gamma(3.0, 12.0, rows)),
        }
    )
    table = Table(
        frame,
        domains={"sex": ["F", "M"], "region": range(3)},
        other="drop",
        bounds={"income": (0.0, 100.0)},
        rows=rows,
        max_rows=2**20,
    )
    return table.marginals([("sex", "region")], mean={"income": [("region", "sex")]}, sum={"income": [("sex",)]})


@cache
def units_of(plan):
    """What each released number by itself makes of the tables."""
    return [answers_of(plan.question, unit, plan.noise) for unit in np.eye(plan.noise.dimension)]


class ManyAnswers:
    """Tables of many releases: the last axis is the release. Standard deviations do not depend on the release."""

    def __init__(self, plan, values):
        self.plan, self.values = plan, values
        self.one = answers_of(plan.question, values[0], plan.noise)
        self.units = units_of(plan)

    def table(self, attributes, channel=0):
        return np.stack([unit.table(attributes, channel) for unit in self.units], axis=-1) @ self.values.T

    def deviation(self, attributes, channel=0):
        return self.one.deviation(attributes, channel)

    def holds(self, attributes, channel):
        return self.one.holds(attributes, channel)

    def combine(self, coefficients, channel=0):
        estimate = 0.0
        for attributes, counts in coefficients.items():
            estimate = estimate + np.tensordot(counts, self.table(attributes, channel), axes=counts.ndim)
        return estimate, self.one.combine(coefficients, channel)[1]


def published(plan, release, entry, level=0.95, values=None):
    """Estimate, lower, upper, std of the cells of a statistic, attributes ascending; of many releases where given."""
    if values is not None and len(values) > CHUNK:
        parts = [published(plan, release, entry, level, some) for some in np.split(values, len(values) // CHUNK)]
        return [np.concatenate(own, axis=-1) for own in zip(*parts, strict=True)]
    made = TableAnswers(plan.question, release, level)
    if values is not None:
        made.__dict__["answers"] = ManyAnswers(plan, values)
    attributes = tuple(sorted(plan.question.numbers(entry.table)))
    if entry.kind == "count":
        return made._count(attributes)
    return (made._mean if entry.kind == "mean" else made._sum)(plan.question.summed[entry.column], attributes)


@cache
def drawn(mechanism, draws):
    """A plan, one release without noise, and the numbers of many releases."""
    query = asked()
    plan = query.plan(inid.ApproxDP(1.0, 1e-6), mechanism=mechanism)
    exact, scales = query.exact(plan), plan.noise.scales
    with inid.testing.unsafe_no_noise():
        still = query.release(plan).release
    with inid.testing.unsafe_seed(5):
        noisy = add_noise(np.tile(exact, draws), np.tile(scales, draws), mechanism)
    return plan, still, noisy.reshape(draws, -1)


def relative_error(errors, std):
    return abs(np.sqrt(np.mean(np.square(errors), axis=-1)) / std - 1).max()


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_many_releases_at_once_are_what_single_ones_publish(mechanism):
    plan, still, values = drawn(mechanism, 3)
    for entry in STATISTICS:
        many = published(plan, still, entry, values=values)
        for at in range(3):
            release = type(still)(values[at], *(getattr(still, name) for name in list(still.__dataclass_fields__)[1:]))
            single = TableAnswers(plan.question, release, 0.95).published(entry)
            for found, name in zip(many, ("estimate", "lower", "upper", "std"), strict=True):
                assert np.allclose(found[..., at], getattr(single, name), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("entry", STATISTICS, ids=lambda entry: entry.label)
def test_stds_and_intervals_are_those_of_the_noise(mechanism, entry):
    """Standard deviations within 1 % in every cell, 95 % intervals that hold 94 to 96 %, in every cell."""
    plan, still, values = drawn(mechanism, DRAWS)
    truth = published(plan, still, entry)
    estimate, lower, upper, _ = published(plan, still, entry, values=values)
    exact = truth[0][..., None]
    assert relative_error(estimate - exact, truth[3]) < 0.01
    held = ((lower <= exact) & (exact <= upper)).mean(axis=-1)
    assert np.abs(held - 0.95).max() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("column", [None, "income"])
def test_combinations_have_the_stated_std_and_intervals(mechanism, column):
    plan, still, values = drawn(mechanism, DRAWS)
    wanted = dict(COMBINATION) if column is None else {(0,): np.array([1.0, -0.5])}
    of = None if column is None else plan.question.summed[column]
    single, made = (TableAnswers(plan.question, still, 0.95) for _ in range(2))
    truth = single.combined(dict(wanted), of)[0]
    made.__dict__.update(answers=ManyAnswers(plan, values), most_values=single.most_values)  # of values on a grid
    estimate, lower, upper, std = made.combined(dict(wanted), of)
    assert relative_error(estimate - truth, std) < 0.01
    assert abs(((lower <= truth) & (truth <= upper)).mean() - 0.95) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("entry", STATISTICS[:4], ids=lambda entry: entry.label)
def test_the_law_of_least_squares_under_laplace_noise_is_exact(entry):
    """Intervals of every level hold what they say, up to the sliver that sums keep for the rounding of their values."""
    plan, still, values = drawn("laplace", DRAWS)
    exact = published(plan, still, entry)[0][..., None]
    for level in (0.5, 0.8, 0.95, 0.99, 0.999):
        _, lower, upper, _ = published(plan, still, entry, level, values)
        held = ((lower <= exact) & (exact <= upper)).mean(axis=-1)
        chance, sliver = 4.5 * np.sqrt(level * (1 - level) / DRAWS), 0.01 * (1 - level) * (entry.kind == "sum")
        assert (held > level - chance - 1e-4).all()
        assert (held < level + chance + sliver + 1e-4).all()


def test_intervals_and_stds_that_are_wrong_are_seen():
    """The same counts of hits reject intervals of nine tenths of their width, and stds that are 2 % off."""
    plan, still, values = drawn("gaussian", 20_000)
    truth = published(plan, still, STATISTICS[0])
    estimate, _, upper, _ = published(plan, still, STATISTICS[0], values=values)
    errors = estimate - truth[0][..., None]
    assert (np.abs(errors) <= 0.9 * (upper - estimate)).mean(axis=-1).max() < 0.94
    assert relative_error(errors.reshape(1, -1), 0.98 * truth[3].flat[0]) > 0.01
