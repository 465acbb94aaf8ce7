"""Synthetic rows: asked, planned, released, recorded, and made of what was released."""

import json
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import inid
from inid import tables
from inid.tables import record_digest
from inid.testing import unsafe_no_noise, unsafe_seed
from internals import module_with
from rough_rows import rough_fit

row_maker = module_with("inid.tables.questions.synthetic", "UnevenRowsWarning")

PROMISE = inid.ApproxDP(1.0, 1e-6)


def people(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    job = rng.integers(0, 3, n)
    income = np.where(job == 2, rng.uniform(40, 100, n), rng.uniform(0, 60, n)) * 1000
    return pd.DataFrame(
        {
            "job": np.array(["none", "part", "full"])[job],
            "age": rng.integers(18, 90, n),
            "income": income,
            "smokes": rng.random(n) < 0.3,
        }
    )


FACTS = {
    "domains": {"job": ["none", "part", "full"], "smokes": [False, True]},
    "bounds": {"age": (0, 100), "income": (0, 100_000)},
    "bins": {"age": 5, "income": [0, 10_000, 30_000, 60_000, 100_000]},
}


def table(frame=None, **facts):
    return tables.Table(people() if frame is None else frame, **(FACTS | facts))


@pytest.fixture
def quick(monkeypatch):
    """A fit that is rough and fast."""
    rough_fit(monkeypatch)


def released(query=None, promise=PROMISE, seed=1, **facts):
    query = query or table(**facts).synthesize()
    with unsafe_seed(seed):
        return query.release(query.plan(promise))


def distance(one, two):
    """The total variation of two tables of shares."""
    return 0.5 * float(np.abs(one - two).sum())


def shares(frame, first, second):
    return pd.crosstab(frame[first], frame[second], normalize="all").to_numpy()


def test_rows_have_the_types_of_the_table_and_values_of_its_levels(quick):
    result = released(other="drop")
    rows = result.rows()
    assert list(rows.columns) == ["job", "smokes", "age", "income"]
    assert len(rows) == round(result.measured.summary.total)
    assert set(rows["job"]) <= {"none", "part", "full"}
    assert rows["smokes"].dtype == bool
    assert rows["age"].dtype == np.int64
    assert rows["age"].between(0, 100).all()
    assert rows["income"].dtype == np.int64
    assert rows["income"].between(0, 100_000).all()
    assert len(result.rows(17)) == 17


@pytest.mark.parametrize("engine", [pd.DataFrame, pl.DataFrame, pa.Table.from_pandas])
def test_numbers_come_out_whole_where_the_stated_edges_are_and_one_missing_value_decides_nothing(quick, engine):
    """pandas makes floats of whole numbers for one missing value: by the type, that row decided all others."""
    ages = list(range(18, 90)) * 5
    edges = {"age": [0, 30, 60, 100], "half": [0, 30.5, 100]}
    for first, kind in ((18, np.int64), (None, np.float64)):
        frame = pd.DataFrame({"age": [first, *ages[1:]], "half": [first, *ages[1:]]})
        assert frame["age"].dtype == kind
        t = tables.Table(engine(frame), bins=edges, other="drop")
        assert [(c.name, c.whole) for c in t.synthesize().question.columns] == [("age", True), ("half", False)]
        rows = released(t.synthesize()).rows(200)
        rows = rows.to_pandas() if hasattr(rows, "to_pandas") else rows
        assert [str(rows[name].dtype) for name in ("age", "half")] == ["int64", "float64"]
    wide = tables.Table(engine(frame), bins={"age": [0, 1e300, 1e301], "half": [0, 30.5, 100]}, other="drop")
    assert not wide.synthesize().question.columns[0].whole


@pytest.mark.parametrize("other", ["drop", "cell"])
def test_types_of_rows_are_those_of_the_table_and_categories_the_public_ones(quick, tmp_path, other):
    frame = people(400)
    frame["job"] = pd.Categorical(frame["job"], ["none", "part", "full", "a secret word"])
    if other == "cell":  # half of all rows have gaps
        frame.loc[:199, "job"] = None
        frame["smokes"] = frame["smokes"].astype("boolean")
        frame.loc[:199, "smokes"] = None
        frame["age"] = frame["age"].astype("Int64")
        frame.loc[:199, "age"] = None
    frame.to_parquet(tmp_path / "people.parquet")
    made = {}
    for name, data in {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "arrow": pa.Table.from_pandas(frame),
        "parquet": str(tmp_path / "people.parquet"),
    }.items():
        rows = made[name] = released(table(data, other=other).synthesize()).rows(300)
        assert "a secret word" not in str(rows)
    gaps = other == "cell"
    kinds = {name: str(kind) for name, kind in made["pandas"].dtypes.items()}
    assert kinds == {
        "job": "category",
        "smokes": "boolean" if gaps else "bool",
        "age": "Int64" if gaps else "int64",
        "income": "Int64" if gaps else "int64",
    }
    assert list(made["pandas"]["job"].cat.categories) == ["none", "part", "full"]
    assert made["polars"].schema["job"] == pl.Enum(["none", "part", "full"])
    assert [made["polars"].schema[name] for name in ("smokes", "age", "income")] == [pl.Boolean, pl.Int64, pl.Int64]
    for name in ("arrow", "parquet"):
        types = dict(zip(made[name].column_names, made[name].schema.types, strict=True))
        assert [str(types[column]) for column in ("smokes", "age", "income")] == ["bool", "int64", "int64"]
        # Half of 300 rows, and 6.9 standard deviations.
        assert made[name]["job"].to_pylist().count(None) == pytest.approx(150 if gaps else 0, abs=60)


def test_rows_of_a_loud_promise_are_like_the_table(quick):
    frame = people()
    result = released(table(frame, other="drop").synthesize(), inid.GaussianDP(50.0))
    with unsafe_seed(2):
        rows = result.rows()
    cut = [0, 10_000, 30_000, 60_000, 100_001]
    binned = [own.assign(income=np.digitize(own["income"], cut)) for own in (frame, rows)]
    assert distance(*(shares(own, "job", "income") for own in binned)) < 0.05
    shuffled = binned[1].assign(income=np.random.default_rng(0).permutation(binned[1]["income"]))
    assert distance(shares(binned[0], "job", "income"), shares(shuffled, "job", "income")) > 0.15


def test_rows_repeat_under_a_seed_alone_and_cost_nothing(quick):
    query, ledger = table().synthesize(), inid.Ledger(total=PROMISE)
    result = query.release(query.plan(PROMISE), ledger)
    with unsafe_seed(4):
        first = result.rows(50)
    with unsafe_seed(4):
        assert first.equals(result.rows(50))
    assert not first.equals(result.rows(50))
    assert len(ledger.history()) == 1


def test_an_interrupt_while_rows_are_made_loses_nothing(quick):
    result = released()

    def stop(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        result.rows(progress=stop)
    seen = []
    assert len(result.rows(10, progress=seen.append)) == 10
    assert seen == sorted(seen)
    assert seen[-1] == pytest.approx(1)


def test_uneven_rows_are_warned_of_and_how_even_they_are_is_shown(quick, monkeypatch):
    result = released()
    assert 0 < result.effective_rows <= 1
    monkeypatch.setattr(row_maker, "_FEW", 2.0)
    with pytest.warns(row_maker.UnevenRowsWarning, match="worth"):
        released().rows(10)


def test_unknown_and_missing_values_are_one_level_and_missing_in_rows(quick):
    frame = people()
    frame.loc[:1999, "job"] = None
    frame.loc[2000:2999, "job"] = "Unheard Of"
    frame["age"] = frame["age"].astype(float)
    frame.loc[:999, "age"] = np.nan
    with unsafe_no_noise():
        query = table(frame).synthesize()
        result = query.release(query.plan(inid.GaussianDP(50.0)))
        rows = result.rows(2000)
    counted = result.marginal("job")
    assert counted["job"].tolist() == ["none", "part", "full", "(other)"]
    assert counted["estimate"].iloc[-1] == pytest.approx(3000, abs=3)
    assert rows["job"].isna().mean() == pytest.approx(0.75, abs=0.05)
    assert rows["age"].isna().mean() == pytest.approx(0.25, abs=0.05)
    assert "Unheard Of" not in set(rows["job"])


def test_missing_numbers_with_a_fill_value_are_in_its_bin():
    frame = people()
    frame["age"] = frame["age"].astype(float)
    frame.loc[:999, "age"] = np.nan
    query = table(frame, missing={"age": 40}).synthesize()
    exact = query.exact(query.plan(PROMISE)).tables
    filled = np.histogram(frame["age"].fillna(40), [0, 20, 40, 60, 80, 100])[0]
    assert exact[query.question.three_steps.columns.members[3]].tolist() == [*filled, 0]


def test_numbers_beyond_the_bins_are_moved_to_the_nearer_end():
    frame = pd.DataFrame({"x": [-5.0, 0.0, 1.0, 1.5, 2.0, 99.0, math.inf, -math.inf], "y": [True] * 8})
    t = tables.Table(frame, domains={"y": [False, True]}, bins={"x": [0, 1, 2]}, other="drop")
    query = t.synthesize()
    assert query.exact(query.plan(PROMISE)).tables[1,].tolist() == [3, 5]


def engines(frame, folder):
    frame.to_csv(folder / "people.csv", index=False)
    return {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "lazy": pl.from_pandas(frame).lazy(),
        "arrow": pa.Table.from_pandas(frame),
        "csv": str(folder / "people.csv"),
    }


def test_every_engine_gives_the_same_numbers_and_a_frame_of_its_own(tmp_path, quick):
    frame = people(500)
    frame["who"] = np.arange(500) // 3
    values = {}
    for name, data in engines(frame, tmp_path).items():
        made = table(data, unit=tables.Person("who", 2)).where("age >= 20").synthesize()
        result = released(made)
        values[name] = [step.values.tolist() for step in (*result.earlier, result.release)]
        kind = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "lazy": pl.DataFrame}.get(name, pa.Table)
        assert isinstance(result.marginal("job"), kind)
        if name in ("polars", "csv"):
            assert isinstance(result.rows(20), kind)
    assert all(own == values["pandas"] for own in values.values())


def test_tables_of_columns_and_pairs_have_intervals_where_they_were_measured():
    result = released(seed=2)
    truth = people()
    kept = result.kept
    assert ("job", "income") in kept
    for pair in [("job",), ("job", "income"), ("income", "job")]:
        made = result.marginal(*pair)
        assert (made["lower"] < made["estimate"]).all()
        assert ((made["upper"] - made["lower"]) / made["std"]).round(1).unique().tolist() == [3.9]
    frame = result.marginal("job", "smokes")
    assert (("job", "smokes") in kept) is not frame["lower"].isna().all()
    both, swapped = result.marginal("job", "income"), result.marginal("income", "job")
    assert swapped.set_index(["job", "income"])["estimate"].sort_index().tolist() == pytest.approx(
        both.set_index(["job", "income"])["estimate"].sort_index().tolist()
    )
    total = result.marginal()
    assert abs(float(total["estimate"].iloc[0]) - len(truth)) < 6 * float(total["std"].iloc[0])
    for wrong in (("job", "age", "income"), ("job", "job"), ("nobody",)):
        with pytest.raises(inid.ArgumentError, match="marginal"):
            result.marginal(*wrong)


def test_the_deviation_of_a_cell_is_that_of_the_noise_of_all_numbers_that_it_is_made_of():
    result = released(table(other="drop").synthesize(["job", "income"]), inid.GaussianDP(1.0))
    measured, level = result.measured, result.level
    for block in ((), (0,), (1,), (0, 1)):
        made, variance = measured.table(block, level), 0.0
        still = measured.table(block, level).estimate
        for name in ("first", "third"):  # a table is linear in the released numbers
            release = getattr(measured, name)
            for at, scale in enumerate(release.plan.scales.tolist()):
                moved = release.values.copy()
                moved[at] += 1.0
                other = replace(measured, **{name: replace(release, values=moved)})
                variance = variance + (other.table(block, level).estimate - still) ** 2 * scale**2
        assert np.sqrt(variance) == pytest.approx(np.full(still.shape, made.std), rel=1e-6)
        assert made.reach == pytest.approx(1.96 * made.std, rel=1e-3)
    exact = people().groupby("job").size().loc[["none", "part", "full"]].to_numpy()
    errors = np.abs(measured.table((0,), level).estimate - exact)
    assert errors.max() < 6 * measured.table((0,), level).std


def test_records_are_verified_and_refused_where_a_step_was_changed():
    query = table().synthesize(target="income", weights={("job", "age"): 2}, triples=False)
    result = query.release(query.plan(PROMISE))
    record = json.loads(json.dumps(result.to_dict()))
    assert tables.verify_result(record).promise == "4 parts under ApproxDP(epsilon=1.0, delta=1e-06)"
    result.plan.verify()
    first, scores, pairs = record["earlier"]
    other = json.loads(json.dumps(query.release(query.plan(inid.ApproxDP(2.0, 1e-6))).to_dict()))
    values = scores["values"]
    few = [-abs(value) - 1e6 for value in values[:-1]] + [1e9]  # on another grid, and with other pairs
    for entries in (
        {"promise": inid.ApproxDP(0.5, 1e-6).to_dict()},
        {"earlier": [first]},
        {"earlier": [scores, first, pairs]},
        {"earlier": [first, scores]},
        {"earlier": [first, scores | {"values": few}, pairs]},
        {"earlier": [first, scores | {"values": values[:-1]}, pairs]},
        {"earlier": other["earlier"]},
        {"release": other["release"]},
        {"answers": [record["answers"][0] | {"estimate": 1e6}, *record["answers"][1:]]},
        {"question": record["question"] | {"synthetic": record["question"]["synthetic"][:1]}},
        {"question": record["question"] | {"max_rows": 2**50}},
        {"question": record["question"] | {"values": [[1, [20.0]], [2, None]]}},
        {"question": record["question"] | {"values": [[2, None], [1, None]]}},
        {"question": record["question"] | {"values": []}},
        {"kind": "marginals"},
        # What no step holds, and steps of no known format.
        {"earlier": [first | {"note": "seen"}, scores, pairs]},
        {"earlier": [first, scores | {"note": "seen"}, pairs]},
        {"earlier": [first | {"inid_release": 1}, scores, pairs]},
        {"earlier": [first, {key: value for key, value in scores.items() if key != "inid_release"}, pairs]},
    ):
        changed = record | entries
        with pytest.raises((inid.RecordError, inid.GuaranteeError)):
            tables.verify_result(changed | {"digest": record_digest(changed)})


def test_weights_bring_a_pair_in():
    plain, weighted = (
        table().synthesize(**facts).question.three_steps for facts in ({}, {"weights": {("smokes", "age"): 100.0}})
    )
    scores = np.array([200.0 if pair == (0, 3) else 60.0 for pair in plain.pairs])
    pair = (1, 2)
    assert pair not in plain.chosen(scores, 0.05)
    assert pair in weighted.chosen(scores, 0.05)


@pytest.mark.parametrize(
    ("facts", "asked", "match"),
    [
        ({}, {"columns": ["job"]}, r"two columns .*bins=\.\.\."),
        ({}, {"columns": "job"}, "list of columns"),
        ({}, {"columns": ["job", "nobody"]}, "public keys or bins"),
        ({}, {"columns": ["job", "job"]}, "named once"),
        ({}, {"target": "nobody"}, "target"),
        ({}, {"target": np.array(["age", "job"])}, "target"),
        ({}, {"columns": [["job"], {}]}, "public keys or bins"),
        ({}, {"weights": {("job", "age"): 2, ("age", "job"): 3}}, "both orders"),
        ({}, {"weights": {("job", "nobody"): 1}}, "weights"),
        ({}, {"weights": {("job", "age"): 0}}, "weights"),
        ({}, {"weights": {("job", "age"): 1e9}}, "at most 1000"),
        ({"bins": {"age": 5, "job": 3}}, {}, "bins"),
        ({"bins": {"age": 1}}, {}, "bins"),
        ({"bins": {"age": [0, 5, 5]}}, {}, "increasing"),
        ({"bins": {"age": [0, float("nan"), 5]}}, {}, "finite"),
        ({"bins": {"smokes": 2}}, {}, "bounds"),
        ({"bins": 3}, {}, "dictionary"),
        ({"bins": {"age": 2000}}, {}, "bins"),
        ({"missing": {"age": "old"}}, {}, "missing"),
        ({"max_rows": 2**40, "bins": {"age": 1000, "income": 1000}}, {}, "max_rows"),
    ],
)
def test_bad_questions_are_refused(facts, asked, match):
    with pytest.raises(inid.ArgumentError, match=match):
        table(**facts).synthesize(**asked)


def test_plans_take_no_options_and_rows_no_odd_numbers():
    query = table().synthesize()
    with pytest.raises(inid.ArgumentError, match="mechanism"):
        query.plan(PROMISE, mechanism="gaussian")
    with pytest.raises(inid.BudgetError, match="mu"):
        query.plan(inid.GaussianDP(1e-12))
    for n in (0, -1, 1.5, 10**9):
        with pytest.raises(inid.ArgumentError, match="n must"):
            released().rows(n)


def test_a_report_says_what_was_measured_and_what_was_not(tmp_path):
    result = released()
    result.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "pairs that were measured" in page
    assert "step 3 keeps" in page
    assert "of 6 pairs were measured: " in str(result)


def test_a_report_shows_tables_of_rows_beside_measured_ones_once_rows_were_made(quick, tmp_path):
    result = released(promise=inid.GaussianDP(50.0), other="drop")
    rows = result.rows(50_000)
    result.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "rows beside measured tables" in page
    found = dict(result._maker.beside())
    assert list(found)[:4] == ["job", "smokes", "age", "income"]
    assert {tuple(name.split("*")) for name in list(found)[4:]} == set(result.kept)
    exact = result.marginal("job")["estimate"].to_numpy() / result.measured.summary.total
    own = rows["job"].value_counts(normalize=True).loc[["none", "part", "full"]].to_numpy()
    assert found["job"] == pytest.approx(distance(own, exact), abs=0.005)
    assert f"job*income {found['job*income']:.3f}" in page


def test_computed_columns_and_bins_of_them():
    t = table().with_columns(half=tables.col("age") / 2, bounds={"half": (0, 50)}, bins={"half": 2})
    query = t.synthesize(["job", "half"])
    exact = query.exact(query.plan(PROMISE)).tables[1,]
    assert exact.tolist()[:2] == [(people()["age"] < 50).sum(), (people()["age"] >= 50).sum()]
