"""Means and sums by many tables: what one person can change stays inside the plan's set, through the public API.

For every frame the neighbours are made, the exact released numbers computed by the engine, and the difference held
against the plan's set in rational numbers. The three shortcuts that break the promise (M7 and M8) are caught here too.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid.tables import Person, Table
from internals import module_with

DOMAINS = {"a": ["x", "y"], "b": [0, 1, 2]}
CELLS = list(product(["x", "y", "?"], [0, 2, 7]))
NUMBERS = [-10.0, 90.0, 3.0, 10.0, np.nan]
ASKED = {"count": [("a",)], "mean": {"v": [("a", "b")]}, "sum": {"v": [("b",)]}}


def frames(relation, people):
    """A frame, and frames in which one row (or one person) is taken out, or changed into something else."""
    rows = [("x", 0, -10.0), ("y", 2, np.nan), ("x", 1, -10.0), ("y", 2, 90.0)]
    who = [0, 1, 0, 2] if people else range(len(rows))
    frame = pd.DataFrame(rows, columns=["a", "b", "v"]).assign(who=list(who))
    mine = frame["who"] == 0
    yield frame
    if relation != "replace":
        yield frame[~mine]
        return
    for (a, b), v in product(CELLS, NUMBERS):
        changed = frame.copy()
        changed.loc[mine, ["a", "b", "v"]] = [a, b, v]
        yield changed
        if people:
            yield changed[~(mine & (changed.index == 0))]


def spent(plan, difference):
    """The sum of z^2 / r^2 of a difference (Gaussian noise), or its largest l1 norm over the limit (Laplace noise)."""
    limits, counts = plan.noise.sensitivity.limits, plan.noise.sensitivity.counts
    change = [Fraction(float(value)) for value in difference]
    if plan.mechanism == "laplace":
        parts, start = [], 0
        for size, limit in zip(plan.noise.cells.counts.tolist(), limits.tolist(), strict=True):
            parts.append(sum(map(abs, change[start : start + size])) / Fraction(limit))
            start += size
        return max(parts)
    radii = limits if counts is None else np.repeat(limits, counts)
    fixed = [z for z, r in zip(change, radii.tolist(), strict=True) if r == 0]
    assert not any(fixed)
    return sum((z / Fraction(r)) ** 2 for z, r in zip(change, radii.tolist(), strict=True) if r)


def farthest(facts, plan_of, *, people, relation, asked=ASKED):
    made = list(frames(relation, people))
    query = Table(made[0], **facts).marginals(**asked)
    plan = plan_of(query)
    # Polars is three times as quick with frames of a few rows; the integers are those of pandas.
    first, *others = (Table(pl.from_pandas(frame), **facts).marginals(**asked).exact(plan) for frame in made)
    np.testing.assert_array_equal(first, query.exact(plan))
    return max(spent(plan, other - first) for other in others)


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("other", ["cell", "drop"])
@pytest.mark.parametrize("missing", ["omit", {"v": 40.0}])
@pytest.mark.parametrize("people", [False, True])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_no_neighbour_leaves_the_set(relation, other, missing, people, mechanism):
    facts = {"domains": DOMAINS, "other": other, "bounds": {"v": (-10.0, 90.0)}, "missing": missing}
    facts |= {"unit": Person("who", 2) if people else "row", "neighbours": relation, "rows": 50}
    most = farthest(
        facts,
        lambda query: query.plan(inid.ApproxDP(1.0, 1e-6), mechanism=mechanism),
        people=people,
        relation=relation,
    )
    assert Fraction(1, 5) < most <= 1


SUMS = {"sum": {"v": [("a",)]}}  # around 0, so that no count is released
TWINS = {
    "sums taken for counts": ("_pairs_of_one_state", "cell", {"v": 10.0}, ASKED),
    "D empty left out": ("_without_the_same_cell", "cell", {"v": 10.0}, SUMS),
    "M7 where a row can vanish": ("_never_vanishing", "drop", "omit", ASKED),
}


def _pairs_of_one_state(original, work, rates, neighbours, *, vanishing):
    from dataclasses import replace

    from inid.tables.questions.marginals import Contribution

    one = tuple(Contribution(made.channels, made.states[:1]) for made in work.contributions)
    return original(replace(work, contributions=one), rates, neighbours, vanishing=vanishing)


def _without_the_same_cell(original, work, rates, neighbours, *, vanishing):
    return list(original(work, rates, neighbours, vanishing=vanishing))[1:]


def _never_vanishing(original, work, rates, neighbours, *, vanishing):
    return original(work, rates, neighbours, vanishing=False)


@pytest.mark.parametrize("twin", TWINS)
def test_the_shortcuts_are_caught(monkeypatch, twin):
    """Planned with a shortcut, a neighbour leaves the set, and the right proof refuses the plan."""
    sensitivity = module_with("inid.tables.questions.marginals", "Residuals")
    spending = module_with("inid.tables.questions.marginals", "spending")

    name, other, missing, asked = TWINS[twin]
    facts = {"domains": DOMAINS, "other": other, "bounds": {"v": (-10.0, 10.0)}, "missing": missing}
    facts |= {"neighbours": "replace", "rows": 50}
    made = []

    def plan_of(query):
        with monkeypatch.context() as patched:
            original = spending.spending
            patched.setattr(sensitivity, "spending", lambda *a, **k: globals()[name](original, *a, **k))
            if name == "_never_vanishing":
                patched.setattr(type(query.question), "vanishing", property(lambda self: False))
            made.append(query.plan(inid.GaussianDP(1.0), mechanism="gaussian"))
        return made[0]

    if name == "_never_vanishing":  # the public total moves: it is released exactly, without a radius
        with pytest.raises((AssertionError, ValueError)):
            farthest(facts, plan_of, people=False, relation="replace", asked=asked)
    else:
        assert farthest(facts, plan_of, people=False, relation="replace", asked=asked) > 1
    query = Table(next(frames("replace", False)), **facts).marginals(**asked)
    with pytest.raises(inid.InidError, match="another query"):
        query.release(made[0])
    assert farthest(facts, lambda q: q.plan(inid.GaussianDP(1.0)), people=False, relation="replace", asked=asked) <= 1
