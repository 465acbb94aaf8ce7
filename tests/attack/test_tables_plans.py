"""A plan is released by its own question alone: the filter, the facts and the order of what is asked are part of it."""

import pandas as pd
import pytest

import inid
from inid import tables

FRAME = pd.DataFrame({"age": [20.0, 70.0] * 40, "sex": ["F", "M"] * 40, "flag": [True, False] * 40, "id": range(80)})
DOMAINS = {"sex": ["F", "M"], "flag": [False, True]}
BUDGET = inid.ApproxDP(1.0, 1e-6)
KINDS = {
    "statistics": lambda t: t.statistics(count=True, mean=["age"], by={"sex": ["F", "M"]}),
    "histograms": lambda t: t.statistics(histogram={"sex": ["F", "M"], "flag": [False, True]}),
    "marginals": lambda t: t.marginals([("sex", "flag")], mean={"age": [("sex",)]}),
    "ordered": lambda t: t.quantiles({"age": [0.5]}, by={"sex": ["F", "M"]}),
    "discovery": lambda t: t.select_partitions("sex", delta=1e-6),
    "choice": lambda t: t.largest_group({"sex": ["F", "M"]}),
}
CHANGES = {
    "filter": lambda t: t.where(tables.col("age") >= 60),
    "another filter": lambda t: t.where(tables.col("age") >= 18),
    "computed column": lambda t: t.with_columns(old=tables.col("age") / 2),
    "rows at most": lambda t: table(max_rows=1000),
    "person": lambda t: table(unit=tables.Person("id", 1)),
    "relation": lambda t: table(neighbours="replace"),
}


def table(**facts):
    stated = {"bounds": {"age": (0, 100)}, "domains": DOMAINS, "rows": 80, "neighbours": "add_remove"}
    return tables.Table(FRAME, **stated | facts)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_made_for_other_rows_or_facts_is_refused_before_the_charge(kind, change):
    ask, ledger = KINDS[kind], inid.Ledger(total=inid.ApproxDP(5.0, 1e-5), reserve=1e-6)
    plan = ask(table()).plan(BUDGET)
    with pytest.raises(inid.ArgumentError, match="another query"):
        ask(CHANGES[change](table())).release(plan, ledger)
    assert ledger.history() == ()
    ask(table()).release(plan, ledger)
    assert len(ledger.history()) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_another_guess_of_the_rows_changes_no_answer_and_is_taken(kind):
    plan = KINDS[kind](table()).plan(BUDGET)
    assert KINDS[kind](table(rows=90)).release(plan).plan is plan


def test_cells_follow_the_order_of_what_is_asked_and_so_must_the_plan():
    first = table().statistics(histogram={"sex": ["F", "M"], "flag": [False, True]})
    second = table().statistics(histogram={"flag": [False, True], "sex": ["F", "M"]})
    plan = first.plan(BUDGET, tolerance={"histogram(sex)": 1, "histogram(flag)": 50})
    with pytest.raises(inid.ArgumentError, match="another query"):
        second.release(plan)


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_proves_its_question_and_its_noise(kind):
    plan = KINDS[kind](table()).plan(BUDGET)
    assert plan.verify().promise == str(plan.budget)
    assert plan.noise.stated == BUDGET
