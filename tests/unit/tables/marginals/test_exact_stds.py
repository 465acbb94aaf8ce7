"""Every printed std is that of the noise, exactly: released numbers are pushed through to the answers one by one.

Answers are linear in the released numbers (means to first order), whose noises are independent, of the plan's scales.
What a unit of each released number adds to an answer thus gives the answer's std and the law of its error without a
single draw, and without anything that the library knows of blocks.
"""

from dataclasses import replace
from functools import cache
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from mpmath import mp, mpf
from scipy.special import ndtr

import inid
from inid.tables import Person, Table
from inid.tables.questions.marginals import Answers, TableAnswers, TableStatistic

ROWS = 300
DOMAINS = {"a": ["x", "y"], "b": range(3), "c": range(2)}
ASKED = {
    "count": [("a", "b"), ("c", "b"), ("c",)],
    "mean": {"pay": [("b", "a")]},
    "sum": {"pay": [("a",), ("b", "c")], "change": [("a", "c")]},
}
WAYS = {  # add_remove; replace with a public total; replace where rows can vanish, and whole people
    "one more": {"neighbours": "add_remove", "other": "drop"},
    "in place": {"neighbours": "replace", "other": "cell"},
    "filled": {"neighbours": "replace", "other": "drop", "missing": {"pay": 10.0, "change": 0.0}},
    "people": {"neighbours": "replace", "other": "cell", "unit": Person("who", 2)},
}
TABLES = {
    None: [("a", "b"), ("b", "a"), ("b", "c"), ("c",), ("a",), ("b",), ()],
    "pay": [("a",), ("c", "b"), ("b",), ()],
    "change": [("a", "c"), ("c",), ()],
}
COMBINATIONS = [
    ({("a", "b"): {("x", 1): 1.0, ("y", 2): -0.5}, ("c", "b"): {(1, 1): 2.0, (0, 2): 0.3}, (): {(): -0.7}}, None),
    ({("b", "a"): {(0, "x"): 1.0}, ("b",): {0: -1.0}, ("a",): {"y": 0.4}}, None),
    ({("b", "c"): {(1, 1): 2.0, (2, 0): -1.0}, ("a",): {"x": 0.4}, (): {(): 3.0}}, "pay"),
    ({("a", "c"): {("x", 1): 2.0, ("y", 0): 0.5}, ("c",): {1: -1.0}}, "change"),
]


@cache
def released(way, mechanism):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "a": rng.choice(["x", "y", "?"], ROWS),
            "b": np.where(rng.random(ROWS) < 0.1, np.nan, rng.integers(0, 3, ROWS)),
            "c": np.tile([0, 1, 1], ROWS // 3),
            "pay": np.where(rng.random(ROWS) < 0.2, np.nan, rng.gamma(3.0, 12.0, ROWS)),
            "change": np.where(rng.random(ROWS) < 0.2, np.nan, rng.normal(0.0, 3.0, ROWS)),
            "who": np.arange(ROWS) // 2,
        }
    )
    bounds = {"pay": (0, 100), "change": (-10, 10)}
    query = Table(frame, domains=DOMAINS, bounds=bounds, rows=ROWS, max_rows=1000, **WAYS[way]).marginals(**ASKED)
    plan = query.plan(inid.ApproxDP(20.0, 1e-6), mechanism=mechanism, tolerance={("a", "b"): 0.3})
    with inid.testing.unsafe_seed(6):
        return query.release(plan)


LINEAR = [("cells", columns, column) for column, tables in TABLES.items() for columns in tables]
LINEAR += [("combination", at) for at in range(len(COMBINATIONS))]


class LinearMap:
    """What a unit of each released number adds to the answers: one line per number, one column per cell."""

    def __init__(self, result):
        self.result, plan = result, result.plan
        units = np.eye(plan.noise.dimension)
        self.units = [TableAnswers(plan.question, replace(result.release, values=unit), 0.95) for unit in units]
        self.variances = np.square(plan.noise.scales) * (1.0 if plan.mechanism == "gaussian" else 2.0)

    def of(self, name):
        kind, *which = name
        if kind == "combination":
            cells, column = COMBINATIONS[which[0]]
            tables = {table: self.of(("cells", table, column)) for table in cells}
            parts = [
                weight * tables[table][:, self.cells(table).index(_texts(keys))]
                for table, own in cells.items()
                for keys, weight in own.items()
            ]
            return np.sum(parts, axis=0)[:, None]
        return self.made(which[0], lambda own, table: self.estimate(own, table, which[1]))

    def made(self, columns, estimate):
        """The map of a table: `estimate` takes its attributes ascending, the cells are in the order of the columns."""
        attributes = self.result.question.numbers(columns)
        ascending = tuple(sorted(attributes))
        order = [ascending.index(i) for i in attributes]
        return np.array([np.transpose(estimate(own, ascending), order).reshape(-1) for own in self.units])

    def estimate(self, own, attributes, column):
        if column is None:
            return own.answers.table(attributes)
        return own.total(own.question.summed[column], attributes).value

    def cells(self, columns):
        return [_texts(keys) for keys in product(*map(self.result.question.domains.levels, columns))]

    def std(self, lines):
        return np.sqrt(self.variances @ np.square(lines))


def _texts(keys):
    return tuple(map(str, keys if isinstance(keys, tuple) else (keys,)))


@cache
def linear_map(way, mechanism):
    return LinearMap(released(way, mechanism))


def printed(result, name):
    """Estimate, std and half the width of the interval of an answer, cell by cell."""
    kind, *which = name
    if kind == "combination":
        cells, column = COMBINATIONS[which[0]]
        found = pd.DataFrame([result.combine(cells, sum=column)])
    else:
        found = result.marginal(*which[0], **{"mean" if kind == "mean" else "sum": which[1]})
    width = (found["upper"] - found["lower"]) / 2
    return found["estimate"].to_numpy(), found["std"].to_numpy(), width.to_numpy()


def farthest_off(linear, names):
    """The largest relative error of a printed std, over some answers."""
    worst = 0.0
    for name in names:
        lines = linear.of(name)
        estimate, stated, _ = printed(linear.result, name)
        assert np.allclose(linear.result.release.values @ lines, estimate, rtol=1e-9, atol=1e-6)
        exact = linear.std(lines)
        worst = max(worst, float((np.abs(stated - exact) / np.maximum(np.maximum(stated, exact), 1e-9)).max()))
    return worst


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("way", WAYS)
def test_counts_sums_and_combinations_have_exactly_the_printed_std(way, mechanism):
    """Asked tables, tables inside, totals and combinations of overlapping tables."""
    assert farthest_off(linear_map(way, mechanism), LINEAR) < 1e-12


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("way", WAYS)
def test_means_have_the_printed_std_to_first_order(way, mechanism):
    """A mean is the sum T over the number N of values: it moves by (dT - mean dN) / N."""
    linear = linear_map(way, mechanism)
    result, columns = linear.result, ("b", "a")
    column, values = result.question.summed["pay"], result.release.values
    sums = linear.of(("cells", columns, "pay"))
    numbers = linear.made(columns, lambda own, table: own.present(column, table).value)
    estimate, stated, _ = printed(result, ("mean", columns, "pay"))
    inner = (values @ numbers > 3) & (estimate > 1) & (estimate < 99)  # elsewhere the divisor or the bounds are held
    assert inner.sum() >= 5
    assert np.allclose(estimate[inner], (values @ sums / (values @ numbers))[inner], rtol=1e-9)
    exact = linear.std((sums - estimate * numbers) / (values @ numbers))
    assert np.allclose(stated[inner], exact[inner], rtol=1e-9)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("way", WAYS)
def test_plan_rows_frames_and_records_print_the_same_std(way, mechanism):
    result = released(way, mechanism)
    plan, frame, records = result.plan, result.to_frame(), result.to_dict()["tables"]
    start = 0
    for entry, record in zip(plan.tables, records, strict=True):
        own = entry.statistic
        stds = printed(result, (own.kind, own.table, own.column or None))[1]
        if own.kind != "mean":  # planned with a public guess
            assert np.allclose(entry.std, stds, rtol=1e-12)
        stop = start + stds.size
        assert np.allclose(frame["std"][start:stop], stds, rtol=1e-12)
        assert np.allclose([row.std for row in result.answers[start:stop]], stds, rtol=1e-12)
        assert np.allclose(record["std"], stds, rtol=1e-12)
        start = stop
    assert start == len(frame) == len(result.answers)
    for column, name in ((None, "count"), ("pay", "sum(pay)"), ("change", "sum(change)"), ("pay", "mean(pay)")):
        asked = [frozenset(entry.columns) for entry in plan.tables if entry.statistic.name == name]
        found = {}
        for table in asked:
            for width, part in ((n, part) for n in range(len(table)) for part in combinations(sorted(table), n)):
                if frozenset(part) not in asked:
                    std = guessed(result, part) if "mean" in name else printed(result, ("cells", part, column))[1][0]
                    found[width] = max(found.get(width, 0.0), float(std))
        assert plan.inside[name] == pytest.approx(found, rel=1e-12)


def guessed(result, columns):
    """The std of a mean that a plan states, from those of its sums and numbers of rows and a public guess."""
    question, answers = result.question, result._tables.answers
    parts = question.parts(TableStatistic("mean", "pay", columns))
    attributes = question.numbers(columns)
    return np.sqrt(sum((slope * answers.deviation(attributes, channel)) ** 2 for channel, slope in parts))


def held(result, coefficients, reach):
    """The probability that noise with these coefficients stays within a reach.

    Sums of Laplace noises of different scales b: P(|X| > t) = sum_i A_i exp(-t / b_i), A_i = prod 1 / (1 - b_j^2/b_i^2)
    over j other than i. Equal scales are told apart in the fourteenth digit, and digits enough make up for it.
    """
    scales = np.abs(coefficients) * result.plan.noise.scales
    if result.plan.mechanism == "gaussian":
        return 1 - 2 * ndtr(-reach / np.sqrt(np.square(scales).sum()))
    scales = scales[scales > 1e-9 * scales.max()]
    with mp.workdps(30 + 30 * scales.size):
        apart = [mpf(b) * (1 + mpf(at) / 10**14) for at, b in enumerate(scales.tolist())]
        outside = mpf(0)
        for at, own in enumerate(apart):
            product_of = mpf(1)
            for other in apart[:at] + apart[at + 1 :]:
                product_of *= own**2 - other**2
            outside += own ** (2 * len(apart) - 2) / product_of * mp.exp(-mpf(float(reach)) / own)
        return float(1 - outside)


COUNTS = [("cells", ("a", "b"), None), ("cells", ("a",), None), ("cells", (), None)]
SUMS = [("cells", ("a",), "pay"), ("cells", (), "change"), ("combination", 2)]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("name", [*COUNTS, *SUMS, ("combination", 0), ("combination", 1)], ids=str)
def test_intervals_hold_exactly_what_they_say(name, mechanism):
    """95 %, and no more than the error of the grid on top; sums keep a hundredth of the rest for rounded values."""
    result = released("one more", mechanism)
    coefficients, reach = linear_map("one more", mechanism).of(name)[:, 0], printed(result, name)[2][0]
    level = 0.9505 if name in SUMS else 0.95
    assert level < held(result, coefficients, reach) < level + 0.0002
    assert held(result, coefficients, 0.99 * reach) < level


def test_sums_of_equal_laplace_noises_are_known():
    """Two noises of scale 1: P(|X| > t) = (1 + t / 2) exp(-t)."""
    result = released("one more", "laplace")
    scales = result.plan.noise.scales
    coefficients = np.zeros(scales.size)
    coefficients[:2] = 1 / scales[:2]
    assert np.isclose(held(result, coefficients, 3.0), 1 - 2.5 * np.exp(-3.0), rtol=1e-10)


def _as_if_tables_were_independent(self, coefficients, channel=0):
    squares = [np.square(cells).sum() * self.deviation(table, channel) ** 2 for table, cells in coefficients.items()]
    estimate = sum((cells * self.table(table, channel)).sum() for table, cells in coefficients.items())
    return estimate, float(np.sqrt(sum(squares)))


def _without_the_total(self, attributes, channel=0):
    cells = np.prod([self.residuals.workload.sizes[i] for i in attributes])
    square = TRUE_DEVIATION(self, attributes, channel) ** 2 - self._spread(channel) / cells**2
    return float(np.sqrt(max(square, 0.0)))


TRUE_DEVIATION = Answers.deviation
TWINS = {
    "deviation": (_without_the_total, [("cells", ("a",), None), ("cells", (), "pay")]),
    "combine": (_as_if_tables_were_independent, [("combination", at) for at in range(len(COMBINATIONS))]),
}


@pytest.mark.parametrize(("mechanism", "twin"), list(product(["gaussian", "laplace"], TWINS)))
def test_wrong_stds_are_seen(monkeypatch, mechanism, twin):
    """Broken twins: overlapping tables taken to be independent, and the noise of the total forgotten."""
    wrong, names = TWINS[twin]
    linear = linear_map("one more", mechanism)
    monkeypatch.setattr(Answers, twin, wrong)
    for name in names:
        assert farthest_off(linear, [name]) > 1e-3, name
