"""Every refusal that has a code, provoked: by a job where one can meet it, else by the call that a job makes.

`python tests/refusals.py` prints the table: what Python, the command and the page say of each.
"""

import json
import sqlite3
import tempfile
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import duckdb
import pandas as pd

import inid
from inid import tables
from inid.jobs import Job, accuracy_of_job, make_ledger, plan_job, release_job
from inid.schema import MESSAGES, error_message
from internals import module_with

release_leases = module_with("inid.tables.streams", "ReleaseLeases")

LINE = inid.Sensitivity.box([1.0])
BOUNDS = {"bounds": {"age": [0, 100]}}
APPROX = inid.ApproxDP(1.0, 1e-6)
FRAME = pd.DataFrame({"user_id": ["a", "b"], "age": [30.0, 50.0], "sex": ["F", "M"]})
SEXES = {"domains": {"sex": ["F", "M"]}}
ROWS = {"bins": {"age": 4}, **BOUNDS, **SEXES}
WIDE = {"domains": {"age": list(range(116)), "sex": ["F", "M"]}, "mean": {"income": [["age", "sex"]]}}


def write_people(folder):
    """A table in a folder."""
    lines = [f"u{at},{20 + at % 60},{1000 * (at % 90)},{'FM'[at % 3 == 0]}" for at in range(40)]
    Path(folder, "people.csv").write_text("\n".join(["user_id,age,income,sex", *lines]) + "\n", encoding="utf-8")


def a_file(text, **stated):
    """A plan of a table that is written in another way."""
    Path("other.csv").write_text(text, encoding="utf-8")
    return planned(table="other.csv", count=True, **stated)


def planned(**values):
    """A job on the table, planned."""
    promise = {} if {"mu", "part", "rho"} & values.keys() else {"epsilon": 1}
    return plan_job(Job.from_dict({"table": "people.csv"} | promise | values))


def released(**values):
    """The same, released."""
    return release_job(planned(**values))


def under(total, **settings):
    """A ledger of the folder."""
    make_ledger("b.db", "default", total, **settings).close()
    return {"ledger": "b.db"}


def counting(unit, person="row"):
    """A release that is charged to a ledger of such a unit."""
    query = tables.Table(FRAME, unit=person).statistics(count=True)
    return query.release(query.plan(APPROX), inid.Ledger(total=APPROX, unit=unit))


def looking_for_keys(**settings):
    """A release of found keys, after another on the same ledger."""
    book = under(inid.ApproxDP(3.0, 1e-6), **settings)
    released(count=True, **book)
    return released(discover="sex", discover_delta=1e-8, **book)


def twice(ledger, first, second):
    """Two charges."""
    ledger.charge(first)
    ledger.charge(second)


def stream(unit="row", **settings):
    """A stream of counts."""
    t = tables.Table(FRAME, unit=unit)
    asked = {"query": t.statistics(count=True), "periods": ["a", "b"], "promise": inid.GaussianDP(0.3)}
    return tables.Stream.open("s.db", t, **asked | settings)


def unpaid():
    """A stream whose opening was cut short."""
    ledger, settle = inid.Ledger(total=inid.GaussianDP(1.0)), release_leases.ReleaseLeases.settle
    release_leases.ReleaseLeases.settle = lambda *_, **__: (_ for _ in ()).throw(KeyError)
    try:
        stream(ledger=ledger)
    except KeyError:
        pass
    finally:
        release_leases.ReleaseLeases.settle = settle
    tables.Stream.open("s.db", ledger=ledger)


def held():
    """A charge to a ledger whose database another process holds since it was opened."""
    make_ledger("b.db", "default", APPROX).close()
    with closing(sqlite3.connect("b.db", isolation_level=None)) as other:
        ledger = inid.Ledger.open("b.db", timeout=0.1)
        other.execute("BEGIN EXCLUSIVE")
        ledger.charge(inid.plan(LINE, APPROX))


def alike():
    """A job on one of two tables of a database that have the same name."""
    with duckdb.connect("a.duckdb") as con:
        con.execute("CREATE TABLE people (x double); CREATE SCHEMA health; CREATE TABLE health.people (x double)")
    planned(table="a.duckdb", sql_table="people", count=True)


def rows_of(**methods):
    """Synthetic rows of the record of a publication, or of a query alone."""
    t = tables.Table(FRAME, domains=SEXES["domains"] | {"age": [30, 50]})
    made = {
        name: t.synthesize() if method == "synthesize" else t.statistics(count=True) for name, method in methods.items()
    }
    asked = tables.Publication(**made) if len(made) > 1 else made["one"]
    plan = asked.plan(APPROX, share=dict.fromkeys(made, "1/2")) if len(made) > 1 else asked.plan(APPROX)
    return tables.synthetic_rows(asked.release(plan).to_dict(), 3)


PROVOKED = {
    "bounds_missing": lambda: planned(mean=["income"]),
    "group_rows_missing": lambda: accuracy_of_job(
        Job.from_dict(
            {"table": "people.csv", "mean": ["age"], "by": {"sex": ["F", "M"]}, "tolerance": {"age": 1.0}} | BOUNDS
        ),
        0.05,
        None,
    ),
    "group_rows_lack": lambda: planned(mean=["age"], by={"sex": ["F", "M"]}, group_rows={"sex": "F:30"}, **BOUNDS),
    "texts": lambda: planned(mean=["sex"], domains={"sex": ["F", "M"]}),
    "order_missing": lambda: planned(quantile={"age": [0.5]}),
    "keys_missing": lambda: planned(cdf={"age": [["sex"]]}, **BOUNDS),
    "domain_missing": lambda: planned(marginals=[["sex"]]),
    "domain_alike": lambda: planned(
        marginals=[["sex"]], derive={"SEX": "when(age > 3, 'F', 'M')"}, domains={"SEX": ["F", "M"]}
    ),
    "domains_missing": lambda: planned(marginals=3, domains={"sex": ["F", "M"]}),
    "column_unknown": lambda: planned(mean=["wage"]),
    "people_missing": lambda: planned(count_distinct=True),
    "nothing_asked": planned,
    "total_alone": lambda: planned(marginals=[[]], domains={"sex": ["F", "M"]}),
    "sampling_unknown": lambda: planned(marginals=1, drawn=0.02, **SEXES),
    "sampling_of_rows": lambda: planned(count=True, by={"sex": ["F", "M"]}, person="user_id", max_rows=2, drawn=0.02),
    "parts_unproved": lambda: planned(
        question={"n": {"count": True}, "most": {"choose": {"sex": ["F", "M"]}}}, rho=3, mechanism="gaussian"
    ),
    "alone": lambda: planned(choose={"sex": ["F", "M"]}, mean=["age"]),
    "goes_with": lambda: planned(count=True, max_keys=2),
    "rows_or_people": lambda: planned(choose={"sex": ["F", "M"]}, count=True, count_distinct=True),
    "delta_missing": lambda: planned(discover="sex"),
    "not_by_tables": lambda: planned(marginals=1, std=["age"], domains={"sex": ["F", "M"]}),
    "by_with_keys": lambda: planned(marginals=1, by={"sex": ["F"]}, domains={"sex": ["F", "M"]}),
    "by_alone": lambda: planned(marginals=1, by=[["sex"]], domains={"sex": ["F", "M"]}),
    "by_without_keys": lambda: planned(quantile={"age": [0.5]}, by=[["sex"]], **BOUNDS, **SEXES),
    "rows_missing": lambda: planned(quantile={"age": [0.5]}, tolerance={"quantile(age)": 1}, **BOUNDS),
    "rows_beyond": lambda: planned(table_max_rows=2**40, bounds={"income": [0, 1]}, **WIDE),
    "synthetic_column": lambda: planned(synthetic=True, synthetic_columns=["age", "sex"], domains={"sex": ["F"]}),
    "synthetic_columns": lambda: planned(synthetic=True, domains={"sex": ["F", "M"]}),
    "noise_is_gaussian": lambda: planned(synthetic=True, domains={"sex": ["F"]}, bins={"age": 4}, **BOUNDS),
    "gaussian_pure": lambda: planned(count=True, mechanism="gaussian"),
    "noise_of_question": lambda: planned(
        question={"n": {"count": True}, "r": {"synthetic": True, "share": "1/2"}}, **ROWS
    ),
    "error_unstated": lambda: planned(question={"n": {"count": True}, "r": {"synthetic": True}}, **ROWS),
    "expression_bare": lambda: planned(count=True, where="3 > 2"),
    "number_expected": lambda: planned(count=True, where="age + 'x' > 3"),
    "condition_expected": lambda: planned(count=True, where="age"),
    "formula_expected": lambda: planned(count=True, derive={"x": "'abc'"}),
    "texts_compared": lambda: planned(count=True, where="sex < 'F'"),
    "domain_single": lambda: planned(marginals=1, domains={"sex": ["F"]}, other="drop"),
    "domain_other": lambda: planned(marginals=1, domains={"sex": ["F", "(other)"]}),
    "columns_alike": lambda: planned(marginals=[["sex", "sex"]], **SEXES),
    "tolerance_unknown": lambda: planned(marginals=1, tolerance={"race*region": 3}, **SEXES),
    "tables_alike": alike,
    "rows_of_none": lambda: rows_of(one="statistics"),
    "rows_of_several": lambda: rows_of(one="synthesize", two="synthesize"),
    "record_printed": lambda: tables.verify_result(json.loads(json.dumps(released(count=True).document))),
    "ledger_counts_people": lambda: counting("person"),
    "ledger_counts_rows": lambda: counting("row", person=tables.Person("user_id", 1)),
    "ledger_counts_other": lambda: released(count=True, neighbours="replace", mean=["age"], **BOUNDS, **under(APPROX)),
    "ledger_place": lambda: released(count=True, ledger=":memory:"),
    "charge_unknown": held,
    "total_without_delta": lambda: under(inid.PureDP(1.0), reserve=1e-7),
    "ledger_absent": lambda: planned(count=True, part="1/3", ledger="absent.db"),
    "ledger_exists": lambda: under(APPROX) and under(APPROX),
    "other_neighbours": lambda: inid.Ledger(total=APPROX, neighbours="replace").charge(inid.plan(LINE, APPROX)),
    "reserve_missing": looking_for_keys,
    "reserve_spent": lambda: looking_for_keys(reserve=1e-9),
    "cost_uncounted": lambda: released(count=True, mu=0.1, mechanism="gaussian", **under(inid.PureDP(1.0))),
    "ledger_closed": lambda: twice(
        inid.Ledger(total=APPROX), inid.plan(LINE, APPROX, mechanism="gaussian"), inid.plan(LINE, inid.PureDP(1e-6))
    ),
    "no_room": lambda: released(count=True, **under(inid.PureDP(0.5), currency="epsilon")),
    "part_gone": lambda: (
        released(count=True, part="rest", **under(inid.PureDP(1.0), currency="epsilon"))
        and planned(count=True, part="1/2", ledger="b.db")
    ),
    "parts_uncounted": lambda: planned(count=True, part="1/3", **under(APPROX)),
    "part_nothing": lambda: inid.Ledger(total=inid.PureDP(1.0), currency="epsilon").part(Fraction(1, 10**400)),
    "delta_of_keys": lambda: planned(question={"found": {"discover": "sex", "discover_delta": 1e-8}}),
    "share_missing": lambda: accuracy_of_job(
        Job.from_dict(
            {
                "table": "people.csv",
                "question": {"n": {"count": True, "tolerance": {"count": 5}}, "q": {"quantile": {"age": [0.5]}}},
                **BOUNDS,
            }
        ),
        0.05,
        None,
    ),
    "separator_unclear": lambda: a_file("a;b,c\n1;2,3\n"),
    "separator_absent": lambda: a_file("a;b\n1;2\n", separator="comma"),
    "window_missing": lambda: stream(want="windows"),
    "window_alone": lambda: stream(window=2),
    "periods_of_rows": lambda: stream(contributes=2),
    "weight_half": lambda: tables.Table(FRAME, weight="age"),
    "weight_asked": lambda: tables.Table(FRAME, **BOUNDS, weight="age", max_weight=9).statistics(mean=["age"]),
    "weights_elsewhere": lambda: tables.Table(FRAME, **SEXES, weight="age", max_weight=9).marginals(1),
    "unweighted_statistic": lambda: tables.Table(FRAME, weight="age", max_weight=9).statistics(
        histogram={"sex": ["F", "M"]}
    ),
    "contributes_missing": lambda: stream(unit=tables.Person("user_id", 1)),
    "stream_replaced": lambda: tables.plan_stream(
        tables.Table(FRAME, neighbours="replace"), query={"count": True}, periods=["a"], promise=inid.GaussianDP(0.3)
    ),
    "stream_unpaid": unpaid,
    "stream_absent": lambda: tables.Stream.open("absent.db"),
    "period_before": lambda: stream().release("b", FRAME),
}


def provoked(code):
    """The error of a code."""
    try:
        PROVOKED[code]()
    except inid.InidError as error:
        return error
    raise AssertionError(f"{code} was not provoked")


if __name__ == "__main__":
    import os

    for name in MESSAGES:
        with tempfile.TemporaryDirectory() as place:
            os.chdir(place)
            write_people(place)
            found = provoked(name)
            command, page = error_message(found, "command"), error_message(found, "page")
            print(f"{name}\n  Python:  {found}\n  command: {command}\n  page:    {page}")  # noqa: T201
            os.chdir("/")
