"""Error targets: an equal split, a tighter tolerance, and which numbers end less accurate."""

import math

import pandas as pd
import pytest

import inid
from inid import tables
from inid.tables import equal_errors, targets_of, worse_numbers

FRAME = pd.DataFrame({"sex": ["F", "M"], "band": [0, 1], "shop": [0, 1], "v": [1.0, 2.0], "w": [2.0, 3.0]})
SIZES = {"sex": ["F", "M"], "band": range(5), "shop": range(30)}


def table(**facts):
    return tables.Table(FRAME, **{"bounds": {"v": (0, 100), "w": (-1, 1)}, "domains": SIZES, "rows": 1000} | facts)


def test_the_better_family_counts_and_it_is_one_number_for_both():
    alone = {"gaussian": [1.0, 10.0], "laplace": [3.0, 1.0]}.__getitem__
    both = equal_errors(alone, inid.ApproxDP(1.0, 1e-6))
    mu = inid.ApproxDP(1.0, 1e-6).mu
    assert both == pytest.approx([min(math.sqrt(2) / mu, 6.0), 2.0])
    assert equal_errors(alone, inid.PureDP(1.0)) == [6.0, 2.0]


def test_what_no_family_can_pay_counts_as_nothing_and_what_is_public_as_one():
    """ApproxDP(0, delta) affords Laplace parts no epsilon."""
    assert equal_errors({"gaussian": [1.0], "laplace": [1.0]}.__getitem__, inid.ApproxDP(0.0, 1e-3))[0] < math.inf
    assert equal_errors({"gaussian": [0.0], "laplace": [0.0]}.__getitem__, inid.ApproxDP(1.0, 1e-6)) == [1.0]


def test_an_equal_part_of_a_count_and_of_a_mean_by_hand():
    """A count alone moves by 1; a filled mean is a centred sum and a count, best spent by their slopes."""
    query = table(missing={"v": 50.0, "w": 0.0}).statistics(count=True, mean=["v"])
    count, mean = query.question.equal(inid.PureDP(1.0))
    assert count == pytest.approx(math.sqrt(2) * 2, rel=1e-6)
    slopes = [50.0 / 1000, 25.0 / 1000]  # of the sum, in units of its reach, and of the count
    parts = [slope ** (2 / 3) for slope in slopes]
    best = math.sqrt(2 * sum((slope * sum(parts) / part) ** 2 for slope, part in zip(slopes, parts, strict=True)))
    assert mean == pytest.approx(2 * best, rel=1e-3)


def test_the_tables_that_matter_end_better_than_with_an_equal_part():
    """Tolerances for two tables that matter once gave one of them 15 times its error under an equal split."""
    asked = [("sex", "band"), ("sex", "shop"), ("band", "shop"), ("sex",), ("band",)]
    query = table(other="drop").marginals(asked)
    promise = inid.ApproxDP(1.0, 1e-6)
    equal = query.question.equal(promise)
    plan = query.plan(promise, tolerance={("sex", "band"): equal[0] / 2, ("band", "shop"): equal[2] / 2})
    ratios = [one.std / own for one, own in zip(plan.tables, plan.equal, strict=True)]
    assert max(ratios[0], ratios[2]) < 1
    assert max(ratios) < 2


def test_a_loose_tolerance_is_shown_as_stated_and_counts_as_an_equal_part():
    query = table().statistics(mean=["v", "w"])
    promise = inid.ApproxDP(1.0, 1e-6)
    loose = query.plan(promise, tolerance={"v": 1e6, "w": 1e-5})
    tight = query.plan(promise, tolerance={"w": 1e-5})
    assert [one.tolerance for one in loose.statistics] == [1e6, 1e-5]
    assert [one.error for one in loose.statistics] == pytest.approx([one.error for one in tight.statistics])
    assert [label for label, *_ in loose.worse] == ["mean(v)"]
    assert "Less accurate than an equal split: mean(v)" in str(loose)
    assert loose.worse_lines == [*loose.summary().worse]


def test_the_plan_its_summary_and_the_report_list_every_number_that_ends_worse(tmp_path):
    """Of 66 tables one is named: the 65 others pay, and each is listed; a printed plan says how many more there are."""
    names = [f"c{at:02}" for at in range(12)]
    made = tables.Table(
        pd.DataFrame({name: [0, 1] for name in names}), domains=dict.fromkeys(names, range(2)), rows=1000, other="drop"
    )
    query = made.marginals(2)
    plan = query.plan(inid.GaussianDP(1.0), tolerance={("c00", "c01"): 0.1})
    labels = [label for label, *_ in plan.worse]
    assert len(labels) == 65
    (sentence,) = plan.summary().worse
    assert all(f"{label} (" in sentence for label in labels)
    assert "and 25 more." in str(plan)
    query.release(plan).report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(f"{label} (" in page for label in labels)


@pytest.mark.parametrize(
    "asked",
    [
        lambda t: t.statistics(mean=["v", "w"]),
        lambda t: t.marginals([("sex",), ("band",)]),
        lambda t: t.quantiles(cdf={"v": [()], "w": [()]}),
    ],
    ids=["statistics", "tables", "ordered"],
)
def test_with_nothing_named_nobody_pays_for_anybody(asked):
    query = asked(table())
    for nothing in (None, {}):
        plan = query.plan(inid.ApproxDP(1.0, 1e-6), tolerance=nothing)
        assert plan.worse == []
        assert plan.to_dict() == query.plan(inid.ApproxDP(1.0, 1e-6)).to_dict()


def test_weights_state_the_objective_itself():
    query = table().statistics(mean=["v", "w"])
    made = [query.plan(inid.ApproxDP(1.0, 1e-6), weights={"v": v, "w": 1.0}).statistics[0].error for v in (1e-9, 1e9)]
    assert made[0] > 100 * made[1]


def test_the_total_of_the_counts_is_public_where_nobody_can_leave():
    """Its tolerance then changes nothing, and no number divides by its error of 0."""
    query = table(neighbours="replace").marginals([("sex",), ()])
    places = [one.table for one in query.question.statistics]
    assert query.question.equal(inid.GaussianDP(1.0))[places.index(())] == 1.0
    before, after = (
        query.plan(inid.GaussianDP(1.0), tolerance={"sex": 0.1} | more) for more in ({}, {("count", ()): 1e-6})
    )
    assert [one.std for one in after.tables] == pytest.approx([one.std for one in before.tables])


def test_worse_is_what_is_beyond_rounding():
    assert worse_numbers(["a", "b"], [1 + 1e-9, 1.1], [1.0, 1.0]) == [("b", 1.1, 1.0)]
    assert targets_of([2.0], [1.0]).limits == [1.0]
