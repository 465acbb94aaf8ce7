"""Kinds of questions are plug-ins: nothing outside their files tells them apart, and records say which they are."""

import ast
import copy
import importlib
import inspect
import pickle
import pkgutil
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import tables
from inid.jobs import as_csv
from inid.tables import as_estimates, questions, record_digest
from internals import module_with

question = module_with("inid.tables", "Question")

SOURCES = Path(inid.__file__).parent
KINDS = Path(questions.__file__).parent
FRAME = pd.DataFrame({"age": [31.0, 44.0, 58.0] * 40, "sex": ["F", "M", "F"] * 40})
ASKED = {
    "statistics": {"count": True, "mean": ["age"], "by": {"sex": ["F", "M"]}},
    "marginals": {"count": 1},
    "prefix_sums": {"quantile": {"age": [0.5]}},
    "partition_selection": {"column": "sex", "delta": 1e-6},
    "largest_group": {"by": {"sex": ["F", "M"]}},
}


def query(kind):
    table = tables.Table(FRAME, bounds={"age": (0, 100)}, domains={"sex": ["F", "M"]})
    return tables.ask(table, kind, **ASKED[kind])


LAYOUT = ["estimate", "lower", "upper", "std"]
OWN = {
    "statistics": ["sex"],
    "marginals": ["sex"],
    "prefix_sums": ["p"],
    "partition_selection": ["sex", "near_threshold"],
}
OWN |= {"largest_group": ["sex", "short_by_at_most"]}


@pytest.mark.parametrize("kind", ASKED)
def test_every_kind_has_one_layout_in_python_csv_and_json(kind):
    asked = query(kind)
    with inid.testing.unsafe_seed(5):
        result = asked.release(asked.plan(inid.PureDP(2.0)))
    columns = ["statistic", "column", *OWN[kind], *LAYOUT]
    assert list(result.frame.columns) == columns
    assert as_csv(as_estimates(result.answers)).split("\n")[0].split(",") == columns
    lines = [one.to_dict() for one in as_estimates(result.answers)]
    assert list(lines[0]) == ["statistic", "column", "groups", *LAYOUT, "keys"]
    assert [one["std"] for one in lines] == result.frame["std"].tolist() == [row.std for row in result.answers]
    assert all(line["std"] > 0 for line in lines)


@pytest.mark.parametrize("kind", ASKED)
def test_a_result_is_not_pickled_with_its_table(kind):
    asked = query(kind)
    result = asked.release(asked.plan(inid.PureDP(2.0)))
    with pytest.raises(inid.ArgumentError, match="a result cannot be pickled, since it holds its table"):
        pickle.dumps(result)
    assert copy.deepcopy(result) is copy.copy(result) is result
    whole = tables.Publication(only=asked) if kind in {"statistics", "marginals", "prefix_sums"} else None
    if whole is not None:
        with pytest.raises(inid.ArgumentError, match="cannot be pickled"):
            pickle.dumps(whole.release(whole.plan(inid.PureDP(2.0))))


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_a_key_keeps_its_type_and_is_missing_where_an_answer_has_none(made):
    frame = made({"code": [1, 2, 2], "flag": [True, False, True]})
    table = tables.Table(frame, domains={"code": [1, 2], "flag": [True, False]}, other="drop")
    cells = tables.Table(frame).statistics(count=True, histogram={"code": tables.Categories([1, 2])})
    found = cells.release(cells.plan(inid.PureDP(1.0))).frame
    assert plain(found["cell"]) == [None, 1, 2]
    many = table.marginals([("code",), ("flag",)])
    found = many.release(many.plan(inid.PureDP(1.0))).frame
    assert plain(found["code"]) == [1, 2, None, None]
    assert plain(found["flag"]) == [None, None, True, False]


def plain(column):
    values = column.to_pylist() if isinstance(column, pa.ChunkedArray) else list(column)
    return [None if value is None or value is pd.NA else value for value in values]


@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_probabilities_and_levels_are_numbers_in_every_engine(made):
    table = tables.Table(
        made({"age": [31.0, 44.0], "step": [1, 3]}),
        domains={"step": tables.Ordered([1, 2, 3])},
        bounds={"age": (0, 64)},
    )
    asked = table.quantiles({"age": [0.25, 0.0001234567]}, cumulative={"step": []})
    found = asked.release(asked.plan(inid.PureDP(1.0))).frame
    shares, levels = plain(found["p"]), plain(found["up_to"])
    assert [share for share in shares if isinstance(share, float) and share == share] == [0.25, 0.0001234567]  # noqa: PLR0124 - pandas has NaN
    assert [level for level in levels if level is not None] == [1, 2, 3]


def classes_of_kinds():
    """The classes that stand in the kinds' own files."""
    found = set()
    for module in pkgutil.walk_packages(questions.__path__, f"{questions.__name__}."):
        for name, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if member.__module__.startswith(questions.__name__):
                found.add(name)
    return found


def told_apart(text, classes):
    """Where a text asks of which class a value is, and names a class of a kind; and where it imports a kind."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            named = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
            named |= {part.attr for part in ast.walk(node.args[1]) if isinstance(part, ast.Attribute)}
            found += sorted(named & classes)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{questions.__name__}."):
            found += [f"{node.module}.{name.name}" for name in node.names]
    return found


def test_nothing_outside_the_kinds_tells_them_apart_or_imports_them():
    classes = classes_of_kinds()
    assert {"Statistics", "MarginalsPlan", "PartitionSelectionResult", "LargestGroup", "KeySelection"} <= classes
    outside = [path for path in SOURCES.rglob("*.py") if KINDS not in path.parents]
    assert len(outside) > 200
    found = {str(path.relative_to(SOURCES)): told_apart(path.read_text(encoding="utf-8"), classes) for path in outside}
    allowed = {
        "learn/on_synthetic_rows.py": [
            f"{questions.__name__}.synthetic.coded.Levels",
            f"{questions.__name__}.synthetic.coded.release_levels",
        ],
        "learn/cox.py": [f"{questions.__name__}.prefix_sums.kind.PrefixSums"],  # for survival curves, as below
        "learn/kaplan_meier.py": [  # running totals of arrays, which are no table
            f"{questions.__name__}.prefix_sums.{name}"
            for name in ("kind.PrefixSums", "question.Levels", "question.PrefixTable")
        ],
    }
    # Cox's model calibrates on the same totals.
    allowed["learn/cox.py"] = [f"{questions.__name__}.prefix_sums.kind.PrefixSums"]
    inner = [f"{questions.__name__}.statistics.kind.Statistics"]  # a stream asks statistics, and nothing else
    allowed |= {f"tables/streams/{name}.py": inner for name in ("plan", "results")}
    said = "largest_group.LargestGroupPlan largest_group.LargestGroupResult marginals.plan.MarginalsPlan "
    said += "marginals.result.MarginalsResult partition_selection.PartitionSelectionQuery "
    said += "prefix_sums.kind.PrefixSumsPlan statistics.kind.StatisticsQuery "
    said += "synthetic.kind.SyntheticPlan synthetic.kind.SyntheticResult"
    # For type checkers alone (`test_asking`).
    allowed["tables/table.py"] = [f"{questions.__name__}.{name}" for name in said.split()]
    assert {path: names for path, names in found.items() if names} == allowed


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(x, MarginalsPlan)",
        "isinstance(x, (int, tables.MarginalsPlan))",
        "issubclass(x, int | Statistics)",
        "from inid.tables.questions.marginals.plan import MarginalsPlan",
    ],
)
def test_telling_kinds_apart_is_noticed(text):
    assert told_apart(text, classes_of_kinds())


def test_every_kind_is_registered_once_and_asked_by_its_name():
    registered = {path.stem if path.suffix else path.name for path in KINDS.iterdir() if path.name[0] not in "_."}
    every = ASKED | {"synthetic": {}, "clipped_total": {"count": True}}  # whose records hold several steps
    assert registered == set(every)
    facts = {"domains": {"sex": ["F", "M"]}, "bins": {"age": [0, 50, 100]}}
    for kind, asked in every.items():
        unit = tables.Person("sex", contribution=tables.Private()) if kind == "clipped_total" else "row"
        table = tables.Table(FRAME, unit=unit, **facts)
        made = (query(kind) if kind in ASKED else tables.ask(table, kind, **asked)).question
        assert (made.kind, question.kind_of_record({"kind": kind})) == (kind, type(made))


@pytest.mark.parametrize("kind", ASKED)
def test_a_record_names_its_kind_and_does_not_verify_without_it(kind):
    asked = query(kind)
    record = asked.release(asked.plan(inid.PureDP(1.0))).to_dict()
    assert record["kind"] == kind
    assert tables.verify_result(record).promise == "PureDP(epsilon=1.0)"
    without = {name: value for name, value in record.items() if name != "kind"}
    with pytest.raises(inid.RecordError, match="kind of question"):
        tables.verify_result(without | {"digest": record_digest(without)})


@pytest.mark.parametrize("kind", ASKED)
def test_a_record_of_another_kind_or_of_none_is_refused(kind):
    asked = query(kind)
    record = asked.release(asked.plan(inid.PureDP(1.0))).to_dict()
    for other in (*(name for name in ASKED if name != kind), "streams", 7, None):
        changed = record | {"kind": other}
        with pytest.raises(inid.RecordError):
            tables.verify_result(changed | {"digest": record_digest(changed)})


@pytest.mark.parametrize("kind", ASKED)
def test_records_hold_nothing_of_other_kinds(kind):
    asked = query(kind)
    record = asked.release(asked.plan(inid.PureDP(1.0))).to_dict()
    others = {"found": ["F"], "threshold": 3.0, "tables": [], "combinations": [], "earlier": [], "promise": {}}
    for name, value in others.items():
        if name not in asked.question.recorded:
            changed = record | {name: value}
            with pytest.raises(inid.RecordError):
                tables.verify_result(changed | {"digest": record_digest(changed)})


def test_a_name_that_never_was_is_none():
    assert not hasattr(tables, "Questions")
    with pytest.raises(inid.ArgumentError, match="takes no 'medians'"):
        tables.Table(FRAME).statistics(medians=["age"])


@pytest.mark.parametrize(
    ("kind", "option"),
    [
        ("largest_group", "mechanism"),
        ("partition_selection", "tolerance"),
        ("prefix_sums", "order"),
        ("statistics", "objective"),
    ],
)
def test_options_of_another_kind_are_refused(kind, option):
    with pytest.raises(inid.ArgumentError, match=f"{option} does not go with"):
        query(kind).plan(inid.PureDP(1.0), **{option: "auto"})
