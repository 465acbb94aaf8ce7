"""The questions of the record of tables: every kind, relation, unit, promise and kind of noise, on one small table."""

from itertools import product

import duckdb
import pyarrow as pa

import inid
from database_tables import DATABASES, stored
from inid import tables
from spark_session import spark_session

__all__ = ["ENGINES", "KINDS", "cases", "in_engine", "question_of", "refusals"]

ENGINES = ("pandas", "polars", "polars-lazy", "pyarrow", "duckdb", "parquet", "csv", "spark", *DATABASES)
KINDS = ("statistics", "marginals", "prefix_sums", "partition_selection", "largest_group")
PROMISES = {
    "pure": inid.PureDP(0.7),
    "approx": inid.ApproxDP(1.0, 1e-6),
    "gaussian": inid.GaussianDP(0.5),
    "zcdp": inid.ZCDP(0.1),
}
_RELATIONS = ("add_remove", "replace", "zero_out")
_MECHANISMS = ("auto", "gaussian", "laplace")
_BOUNDS = {"age": (0, 100), "income": (-50.0, 3000.0)}
_DOMAINS = {"sex": ["F", "M"], "place": tables.Ordered([1, 2, 3, 4]), "flag": [False, True]}


def _columns(number=300):
    """Rows by arithmetic alone, with missing values, values beyond the bounds and keys that nobody lists."""
    at = range(number)
    return {
        "user": [k * 7 % 90 for k in at],
        "age": [None if k % 19 == 0 else (k * 37 % 211) / 2 for k in at],
        "income": [None if k % 23 == 0 else (k * k % 3571) - 100.25 for k in at],
        "sex": [None if k % 31 == 0 else "FMX"[k * 5 % 7 % 3] for k in at],
        "place": [1 + k * k % 5 for k in at],
        "flag": [k * 3 % 8 < 3 for k in at],
        "shop": [f"shop {k * k % 40 % 6}" if k % 40 else f"rare {k}" for k in at],
        "visit": [k * 11 % 29 for k in at],
    }


COLUMNS = _columns()
_SPARK = "user long, age double, income double, sex string, place long, flag boolean, shop string, visit long"


def in_engine(name, folder):
    """The table in an engine, or as a file in a folder."""
    arrow = pa.table(COLUMNS)
    if name == "spark":
        return spark_session().createDataFrame(list(zip(*COLUMNS.values(), strict=True)), _SPARK).repartition(3)
    if name == "pandas":
        return arrow.to_pandas()
    if name.startswith("polars"):
        import polars as pl

        frame = pl.from_arrow(arrow)
        return frame.lazy() if name == "polars-lazy" else frame
    if name == "pyarrow":
        return arrow
    if name == "duckdb":
        return duckdb.from_arrow(arrow)
    if name in DATABASES:
        return stored(name, arrow)
    path = folder / f"people.{name}"
    if not path.exists():
        relation = duckdb.from_arrow(arrow)
        relation.write_parquet(str(path)) if name == "parquet" else relation.write_csv(str(path), header=True)
    return str(path)


def question_of(kind, data, relation, *, people, variant=False):
    """A query of a kind; the variant has a filter, a computed column, fill values, or keys that are dropped."""
    unit = tables.Person("user", 3, order_by="visit") if people else "row"
    missing = {"age": 40} if variant else "omit"
    facts = {"unit": unit, "neighbours": relation, "missing": missing}
    facts |= {"other": "drop"} if variant else {}
    t = tables.Table(data, bounds=_BOUNDS, domains=_DOMAINS, rows=300, max_rows=2000, **facts)
    if variant:
        t = t.with_columns(half=tables.col("income") / 2, bounds={"half": (0, 1500)})
        t = t.where((tables.col("age") < 95) | tables.col("sex").is_in(["F"]), rows=280)
    money = "half" if variant else "income"
    if kind == "statistics":
        asked = {"count": True, "mean": ["age", money], "sum": [money], "variance": ["age"], "count_distinct": people}
        cells = {"age": [0, 30, 60, 100]} if variant else {"place": tables.Categories([1, 2])}
        return t.statistics(**asked, covariance=["age", money], histogram=cells, by={"sex": ["F", "M"]})
    if kind == "marginals":
        return t.marginals([("sex", "place"), ("flag",)], mean={money: [("sex",)]}, sum={"age": [("flag",)]})
    if kind == "prefix_sums":
        asked = {"cdf": {"place": [(), ("sex",)]}, "cumulative": {"place": [("sex",)]}}
        return t.quantiles({"age": [0.25, 0.5]} | ({money: [0.9]} if variant else {}), **asked)
    if kind == "partition_selection":
        return t.select_partitions("shop", delta=1e-6, count_distinct=people, max_keys_per_person=2 if people else 1)
    by = {"place": [1, 2, 3, 4], "flag": [False, True]} if variant else {"place": [1, 2, 3, 4]}
    return t.largest_group(by, count_distinct=people)


_TOLERANCES = {
    "statistics": {"age": 2.0, "count": 5},
    "marginals": {("flag",): 2.0, "mean(income)": 40.0},
    "prefix_sums": {"place": 3.0},
}


def cases():
    """By name: kind, relation, whether people are the unit, variant, promise and the options of `plan`.

    All relations and units meet, with two promises each; mechanisms, variants and options take turns.
    """
    found = {}
    for kind in KINDS:
        for at, (relation, people, second) in enumerate(product(_RELATIONS, (False, True), (False, True))):
            promise = list(PROMISES)[(at // 2 + 2 * second + at // 4) % 4]
            options = {} if kind == "largest_group" else {"mechanism": _MECHANISMS[(at + at // 3) % 3]}
            variant = (at // 2 + at) % 2 == 1
            if kind in _TOLERANCES and at % 3 == 0 and not variant:
                options["tolerance"] = _TOLERANCES[kind]
            if kind == "marginals" and at % 4 < 2:
                options["objective"] = "sum"
            if kind == "statistics" and at in (4, 5):
                options |= {"allocation": "spr"} if at == 4 else {"order": 1}
            words = " | ".join([kind, relation, "people" if people else "rows", promise, *map(str, options.items())])
            found[f"{words}{' | variant' if variant else ''}"] = kind, relation, people, variant, promise, options
    return found


def refusals(ledger):
    """Calls that are refused, by name. Each gets a frame and must charge nothing of the ledger."""
    promise = PROMISES["approx"]

    def released(kind, *, other=None, people=False, **arguments):
        def call(data):
            query = question_of(kind, data, "add_remove", people=people)
            planned = query if other is None else question_of(other, data, "add_remove", people=people)
            return query.release(planned.plan(promise), ledger, **arguments)

        return call

    def planned(kind, **options):
        return lambda data: question_of(kind, data, "add_remove", people=False).plan(PROMISES["pure"], **options)

    def asked(method="statistics", **arguments):
        return lambda data: getattr(tables.Table(data, bounds=_BOUNDS, domains=_DOMAINS), method)(**arguments)

    found = {f"{kind}: level": released(kind, level=1.0) for kind in KINDS}
    found |= {f"{kind}: unit of the ledger": released(kind, people=True) for kind in KINDS}
    found |= {f"{kind}: plan of another": released(kind, other=KINDS[at - 1]) for at, kind in enumerate(KINDS)}
    found |= {f"{kind}: no plan": lambda data, k=kind: _without_plan(k, data, ledger) for kind in KINDS}
    found |= {f"{kind}: mechanism": planned(kind, mechanism="gaussian") for kind in KINDS if kind != "largest_group"}
    found |= {
        f"{kind}: tolerance": planned(kind, tolerance={"age": -1})
        for kind in ("statistics", "marginals", "prefix_sums")
    }
    found |= {
        f"{kind}: unknown tolerance": planned(kind, tolerance={"nobody": 1})
        for kind in ("statistics", "marginals", "prefix_sums")
    }
    found["nothing asked"] = asked()
    found["no bounds"] = asked(mean=["place"])
    found["no column"] = asked(mean=["height"])
    found["people without a person"] = asked(count_distinct=True)
    found["no domain"] = asked("marginals", count=[("shop",)])
    found["no order"] = asked("quantiles", quantile={"shop": [0.5]})
    found["probability"] = asked("quantiles", quantile={"age": [1.5]})
    found["edges"] = asked(histogram={"age": [3, 1]})
    found["one group"] = lambda data: tables.Table(data).largest_group({"place": [1]})
    return found


def _without_plan(kind, data, ledger):
    return question_of(kind, data, "add_remove", people=False).release(3.0, ledger)
