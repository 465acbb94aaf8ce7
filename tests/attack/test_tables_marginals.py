"""Many tables at once: what one person can change stays inside the plan's set, whoever it is (through the public door).

For every frame the neighbours are made, the exact released numbers computed by the engine, and the difference held
against the plan's ellipsoid (Gaussian noise) or its limits per table (Laplace noise).
"""

import re
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid.tables import Person, Table

DOMAINS = {"a": ["x", "y"], "b": [0, 1, 2], "c": [False, True]}
VALUES = {"a": ["x", "y", "?", None], "b": [0, 1, 2, 7], "c": [False, True, None]}
ASKED = [("a", "b"), ("c",), ("b", "c")]


def random_frame(rng, rows, people=None):
    data = {name: pd.array(rng.choice(np.array(vs, dtype=object), rows), dtype=object) for name, vs in VALUES.items()}
    frame = pd.DataFrame(data)
    frame.loc[0] = ["x", 1, True]  # known in every column
    if people is not None:
        frame["who"] = np.arange(rows) % people
    return frame


def neighbours_of(frame, relation, who=None):
    """Frames in which one row (or one person) is taken out, or changed into something else."""
    units = [frame.index == at for at in frame.index[:3]] if who is None else [frame["who"] == 0]
    cells = [cell for cell in product(*VALUES.values()) if cell[1] != 2]
    for mine in units:
        if relation != "replace":
            yield frame[~mine]
            continue
        for cell in cells:
            changed = frame.copy()
            for name, value in zip(VALUES, cell, strict=True):
                changed[name] = (
                    changed[name].where(~mine, other=value) if value is not None else changed[name].mask(mine)
                )
            yield changed
            if who is not None:  # a person may also have fewer rows afterwards
                yield changed[~(mine & (changed.index % 2 == 0))]


def exact_values(frame, facts, plan):
    """By Polars, which is three times as quick with frames of a few rows; the integers are those of pandas."""
    return Table(pl.from_pandas(frame), **facts).marginals(ASKED).exact(plan)


def within(plan, difference):
    """Whether a difference lies in the plan's set, in rational numbers."""
    limits, counts = plan.noise.sensitivity.limits, plan.noise.sensitivity.counts
    if plan.mechanism == "laplace":
        sizes = plan.noise.cells.counts.tolist()
        parts = np.split(difference, np.cumsum(sizes)[:-1])
        return all(np.abs(part).sum() <= limit for part, limit in zip(parts, limits, strict=True))
    radii = limits if counts is None else np.repeat(limits, counts)
    total = Fraction(0)
    for change, radius in zip(difference.tolist(), radii.tolist(), strict=True):
        if radius == 0:
            if change != 0:
                return False
        else:
            total += (Fraction(change) / Fraction(radius)) ** 2
    return total <= 1


@pytest.mark.parametrize("relation", ["add_remove", "replace", "zero_out"])
@pytest.mark.parametrize("other", ["cell", "drop"])
@pytest.mark.parametrize("unit", ["row", Person("who", 2)])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_no_neighbour_leaves_the_set(relation, other, unit, mechanism):
    rng = np.random.default_rng(5)
    people = None if unit == "row" else 2
    frame = random_frame(rng, 6, people)
    facts = {"domains": DOMAINS, "other": other, "unit": unit, "neighbours": relation}
    query = Table(frame, **facts).marginals(ASKED)
    plan = query.plan(inid.ApproxDP(1.0, 1e-6), mechanism=mechanism)
    before = query.exact(plan)
    np.testing.assert_array_equal(exact_values(frame, facts, plan), before)
    farthest = 0.0
    for neighbour in neighbours_of(frame, relation, None if unit == "row" else "who"):
        difference = exact_values(neighbour, facts, plan) - before
        assert within(plan, difference)
        farthest = max(farthest, float(np.abs(difference).max()))
    assert farthest > 0


def test_the_check_finds_a_set_that_is_too_small():
    """The same check under a plan for another relation: replacing a row leaves the set of removing one."""
    frame = random_frame(np.random.default_rng(5), 3)
    facts = {"domains": DOMAINS, "other": "drop"}
    plan = Table(frame, **facts).marginals(ASKED).plan(inid.GaussianDP(1.0))
    query = Table(frame, **facts).marginals(ASKED)
    before = query.exact(plan)
    found = [within(plan, exact_values(changed, facts, plan) - before) for changed in neighbours_of(frame, "replace")]
    assert not all(found)


def test_a_dropped_row_moves_the_total_under_replace():
    """Where a row can vanish the total is no public number: it gets noise."""
    frame = pd.DataFrame({"a": ["x", "y"] * 5})
    for other, public in (("cell", True), ("drop", False)):
        query = Table(frame, domains={"a": ["x", "y"]}, other=other, neighbours="replace").marginals(1)
        plan = query.plan(inid.GaussianDP(1.0))
        result = query.release(plan)
        assert (float(result.combine({(): {(): 1}}).std) == 0) is public


def test_a_plan_of_another_question_is_refused_before_the_charge():
    frame = pd.DataFrame({"a": ["x", "y"], "who": [1, 1]})
    row = Table(frame, domains={"a": ["x", "y"]}).marginals(1)
    person = Table(frame, domains={"a": ["x", "y"]}, unit=Person("who", 3)).marginals(1)
    with inid.Ledger(total=inid.GaussianDP(1.0)) as ledger, pytest.raises(inid.InidError, match="another query"):
        person.release(row.plan(inid.GaussianDP(1.0)), ledger)


def test_rows_beyond_the_whole_numbers_are_refused_before_the_charge():
    frame = pd.DataFrame({"a": [0], "b": [0], "c": [0]})
    table = Table(frame, domains=dict.fromkeys("abc", range(115)), other="drop", max_rows=2**40)
    with pytest.raises(inid.InidError, match="max_rows="):
        table.marginals([("a", "b", "c")])


def test_sums_that_leave_fewer_than_20_bits_are_refused_with_a_number_of_rows_that_does_not():
    frame = pd.DataFrame({"a": [0], "b": [0], "x": [0.5]})

    def query(rows):
        table = Table(frame, domains=dict.fromkeys("ab", range(115)), other="drop", bounds={"x": (0, 1)}, max_rows=rows)
        return table.marginals(sum={"x": [("a", "b")]})

    with pytest.raises(inid.InidError, match="fewer than 20 bits") as refused:
        query(2**40)
    enough = int(re.search(r"max_rows=(\d+)", str(refused.value)).group(1))
    grid = query(enough).question.summed["x"].grid
    assert (grid.upper - grid.lower) / grid.step >= 2**20
    with pytest.raises(inid.InidError, match="fewer than 20 bits"):
        query(2 * enough)


def test_a_set_cut_in_one_block_covers_no_question():
    query = Table(pd.DataFrame({"a": ["x"], "b": [1]}), domains={"a": ["x"], "b": [1, 2]}).marginals(2)
    plan = query.plan(inid.GaussianDP(1.0))
    whole = plan.noise.sensitivity
    assert query.question.is_covered_by(plan.noise)
    for at in range(whole.limits.size):
        radii = whole.limits.copy()
        radii[at] *= 0.999
        cut = inid.plan(
            inid.Sensitivity.ellipsoid(radii, counts=whole.counts), inid.GaussianDP(1.0), mechanism="gaussian"
        )
        assert not query.question.is_covered_by(cut)


def test_scales_cut_by_eight_units_in_the_last_place_do_not_verify():
    """M6: the certificate fails when the scale of any run is cut."""
    frame = pd.DataFrame({"a": ["x"], "b": [1], "v": [1.0]})
    table = Table(frame, domains={"a": ["x", "y"], "b": [1, 2, 3]}, bounds={"v": (0, 8)}, other="drop")
    query = table.marginals([("a", "b")], mean={"v": [("a",)]})
    noise = query.plan(inid.GaussianDP(1.0), mechanism="gaussian").noise
    noise.verify()
    for at in range(noise.run_scales.size):
        scales = noise.run_scales.copy()
        for _ in range(8):
            scales[at] = np.nextafter(scales[at], 0)
        cut = inid.NoisePlan(
            noise.sensitivity, noise.budget, noise.mechanism, noise.allocation, noise.order, noise.weights, scales
        )
        with pytest.raises(inid.GuaranteeError):
            cut.verify()
