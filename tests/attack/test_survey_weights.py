"""Design weights: no neighbour leaves the plan's set, on any engine, and what is weighted is what it says."""

import itertools

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from database_tables import DATABASES, stored
from inid import tables
from inid.errors import ArgumentError
from inid.testing import unsafe_no_noise, unsafe_seed
from spark_session import spark_session

BOUNDS, MOST = {"x": (-3.0, 7.0)}, 5.0
WEIGHTS = [0.0, 1.25, 5.0, 80.0, -2.0, None, float("nan"), float("inf")]
VALUES = [-3.0, 7.0, 2.0, 1e9, -1e9, None, float("nan")]
KEYS = {"g": ["a", "b"]}
ASKED = {"count": True, "sum": ["x"], "mean": ["x"]}


def frame(rows, engine="pandas"):
    columns = dict(zip("pgwx", map(list, zip(*rows, strict=True)), strict=True))
    schema = pa.schema([("p", pa.string()), ("g", pa.string()), ("w", pa.float64()), ("x", pa.float64())])
    arrow = pa.table(columns, schema=schema)
    if engine == "pandas":
        return arrow.to_pandas(types_mapper=pd.ArrowDtype)
    if engine == "arrow":
        return arrow
    if engine in DATABASES:
        return stored(engine, arrow)
    if engine == "spark":
        return spark_session().createDataFrame(arrow.to_pylist(), "p string, g string, w double, x double")
    return pl.from_arrow(arrow) if engine == "polars" else duckdb.from_arrow(arrow)


def query(rows, engine="pandas", *, by=False, person=None, neighbours="add_remove", missing="omit", **asked):
    unit = "row" if person is None else tables.Person("p", max_rows=person)
    facts = {"bounds": BOUNDS, "weight": "w", "max_weight": MOST, "neighbours": neighbours, "missing": missing}
    t = tables.Table(frame(rows, engine), unit=unit, **facts)
    return t.statistics(**(asked or ASKED), by=KEYS if by else None)


def exact(rows, engine="pandas", **facts):
    made = query(rows, engine, **facts)
    return made.exact_sums() * made.units


BASE = [("q", "a", 2.5, 1.0), ("r", "b", 0.5, 6.0), ("s", "a", 5.0, -3.0)]
ONES = [("z", key, w, x) for key in ("a", "b", "c", None) for w in WEIGHTS for x in VALUES]


def largest(question, base, others, sets):
    """The largest part of each set's reach that replacing `base` by one of `others` takes."""
    at = exact(base, **question)
    moves = [np.abs(exact(other, **question) - at) for other in others]
    return [max(_size(move, sensitivity) for move in moves) for sensitivity in sets]


def _size(move, sensitivity):
    """How far a change goes in a set, 1 being its edge: by noise of one scale on each coordinate."""
    if sensitivity.kind == "box":
        return float(np.max(move / np.asarray(sensitivity.limits)))
    if sensitivity.kind == "ellipsoid":
        counts = sensitivity.counts
        radii = np.repeat(sensitivity.limits, counts) if counts is not None else np.asarray(sensitivity.limits)
        return float(np.sqrt(np.sum((move / radii) ** 2)))
    groups = np.split(move, np.cumsum(sensitivity.counts)[:-1])
    norms = [np.linalg.norm(part, 1 if sensitivity.norm == 1 else 2) for part in groups]
    return float(np.max(np.array(norms) / np.asarray(sensitivity.limits)))


@pytest.mark.parametrize("by", [False, True])
@pytest.mark.parametrize("missing", ["omit", {"w": 5.0, "x": 7.0}])
def test_one_row_more_or_less_stays_in_every_set_and_reaches_its_edge(by, missing):
    question = {"by": by, "missing": missing}
    sets = query(BASE, **question).all_sensitivities([1.0] * len(query(BASE, **question).layout.items))
    parts = largest(question, BASE, [[*BASE, one] for one in ONES], sets)
    assert max(parts) <= 1
    assert min(parts) > 1 - 1e-6


@pytest.mark.parametrize("by", [False, True])
@pytest.mark.parametrize("missing", ["omit", {"w": 5.0, "x": 7.0}])
def test_one_row_replaced_stays_in_every_set_and_the_weighted_count_is_secret(by, missing):
    """Under replace the number of rows is public; the sum of weights is not."""
    question = {"by": by, "missing": missing, "neighbours": "replace"}
    sets = query(BASE, **question).all_sensitivities([1.0] * len(query(BASE, **question).layout.items))
    corners = [("z", key, w, x) for key in ("a", "b", "c") for w in (0.0, 80.0, None) for x in (-1e9, 1e9, None)]
    worst = np.zeros(len(sets))
    for old in corners:
        worst = np.maximum(worst, largest(question, [*BASE, old], [[*BASE, one] for one in corners], sets))
    assert worst.max() <= 1
    assert worst[: 2 if by else 1].max() > 0.7
    plan = query(BASE, **question, count=True).plan(inid.GaussianDP(1.0))
    assert (plan.noise.run_scales > 0).all()
    zero = query(BASE, neighbours="zero_out", count=True).plan(inid.GaussianDP(1.0))
    assert (zero.noise.run_scales > 0).all()


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_people_with_several_rows_stay_in_every_set(neighbours):
    question = {"by": True, "person": 2, "neighbours": neighbours}
    sets = query(BASE, **question).sensitivities
    corners = [("z", key, w, x) for key in ("a", "b") for w in (0.0, 80.0) for x in (-1e9, 1e9)]
    pairs = [[*BASE, *two] for two in itertools.product(corners, repeat=2)] + [BASE]
    starts = pairs if neighbours == "replace" else [BASE]
    for start in starts:
        assert max(largest(question, start, pairs, sets)) <= 1


@pytest.mark.parametrize("by", [False, True])
@pytest.mark.parametrize("engine", ["arrow", "polars", "duckdb", "csv", "parquet", "spark", *DATABASES])
def test_every_engine_adds_up_the_same(engine, by, tmp_path):
    rows = [*BASE, *ONES]
    wanted = exact(rows, by=by)
    if engine in ("csv", "parquet"):
        made, path = frame(rows, "polars"), tmp_path / f"rows.{engine}"
        made.write_csv(path) if engine == "csv" else made.write_parquet(path)
        t = tables.Table(path, bounds=BOUNDS, weight="w", max_weight=MOST)
        made = t.statistics(**ASKED, by=KEYS if by else None)
        assert (made.exact_sums() * made.units).tolist() == wanted.tolist()
    else:
        assert exact(rows, engine, by=by).tolist() == wanted.tolist()


def people(rows=4_000):
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {"g": rng.choice(["a", "b"], rows), "w": rng.choice([0.5, 2.0, 5.0], rows), "x": rng.normal(2, 2, rows)}
    )


def exact_answers(data):
    held = data.assign(x=data.x.clip(-3, 7))
    groups = [held[held.g == key] for key in ("a", "b")]
    counts = [one.w.sum() for one in groups]
    sums = [(one.w * one.x).sum() for one in groups]
    return np.array([*counts, *sums, *(s / n for s, n in zip(sums, counts, strict=True))])


@pytest.mark.parametrize("promise", [inid.PureDP(1.0), inid.GaussianDP(1.0)])
def test_weighted_counts_sums_and_means_are_those_of_numpy_and_intervals_hold_them(promise):
    data = people()
    t = tables.Table(data, bounds=BOUNDS, weight="w", max_weight=MOST, rows=4_000)
    q = t.statistics(**ASKED, by=KEYS)
    plan, truth = q.plan(promise), exact_answers(data)
    with unsafe_no_noise():
        silent = q.release(plan).answers
    assert [row.estimate for row in silent] == pytest.approx(truth, rel=1e-3)
    held = width = 0
    for seed in range(60):
        with unsafe_seed(seed):
            rows = q.release(plan).answers
        held += sum(row.lower <= exact <= row.upper for row, exact in zip(rows, truth, strict=True))
        width += sum((row.upper - row.lower) / (row.std or 1) for row in rows)
    assert held / 360 > 0.91  # 95 % of 360, dependent in pairs
    assert width / 360 < 6


def test_weights_are_in_plan_report_and_record(tmp_path):
    data = people()
    t = tables.Table(data, bounds=BOUNDS, weight="w", max_weight=MOST, rows=4_000)
    q = t.statistics(**ASKED, by=KEYS)
    plan = q.plan(inid.GaussianDP(1.0))
    assert "The promise holds for design weights only" in str(plan)
    made = q.release(plan)
    made.report(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "void the promise" in text.split("Technical part")[0]
    record = made.to_dict()
    assert record["question"]["weight"] == ["w", 5.0]
    assert tables.verify_result(record).promise == "GaussianDP(mu=1.0)"
    with pytest.raises(ArgumentError, match="need not be whole"):
        made.to_frame(integers=True)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"weight": "w"}, "go together"),
        ({"max_weight": 3}, "go together"),
        ({"weight": "nope", "max_weight": 3}, "nope"),
        ({"weight": "w", "max_weight": 0}, "max_weight"),
        ({"weight": "w", "max_weight": float("nan")}, "max_weight"),
        ({"weight": "w", "max_weight": 1e300}, "between"),
    ],
)
def test_malformed_weights_are_refused(facts, words):
    with pytest.raises(ArgumentError, match=words):
        tables.Table(people(5), bounds=BOUNDS, **facts)


@pytest.mark.parametrize("asked", [{"variance": ["x"]}, {"std": ["x"]}, {"histogram": {"g": ["a"]}}, {"mean": ["w"]}])
def test_what_has_no_weighted_form_is_refused(asked):
    t = tables.Table(
        people(5).astype({"g": "string"}), bounds=BOUNDS | {"w": (0, 5)}, weight="w", max_weight=MOST, domains=KEYS
    )
    with pytest.raises(ArgumentError, match="weights"):
        t.statistics(**asked)
    with pytest.raises(ArgumentError, match="one row a person"):
        t.per_person("g", visits=tables.count(bounds=(0, 9)))
    for other in (lambda: t.marginals(1), lambda: t.quantiles({"x": [0.5]}), lambda: t.synthesize(["g"])):
        with pytest.raises(ArgumentError, match="weights are for statistics"):
            other()


def test_a_stream_of_weighted_rows(tmp_path):
    data = people(300)
    t = tables.Table(data.head(1), bounds=BOUNDS, weight="w", max_weight=MOST)
    ledger = inid.Ledger(total=inid.GaussianDP(1.0))
    with unsafe_no_noise():
        s = tables.Stream.open(
            tmp_path / "s.db", t, query={"count": True}, periods=["a", "b"], promise=inid.GaussianDP(1.0), ledger=ledger
        )
        made = s.release("a", data)
    assert made.period.answers[0].estimate == pytest.approx(data.w.sum(), rel=1e-3)
