"""Many tables at once, from a table's domains to frames, records and the ledger."""

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest

import inid
from inid.noise import add_noise
from inid.tables import Ordered, Person, Table, verify_result
from inid.tables.questions.marginals import Marginals, answers_of
from table_sums import relation_of

DOMAINS = {"sex": ["F", "M"], "age": range(5), "race": ["a", "b", "c"], "own": [False, True]}
ASKED = [("sex", "age"), ("race",), ("race", "own", "sex")]


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    rows = 400
    made = pd.DataFrame(
        {
            "sex": rng.choice(["F", "M", "X"], rows),
            "age": rng.integers(0, 7, rows),
            "race": rng.choice(["a", "b", "c"], rows),
            "own": rng.random(rows) < 0.3,
            "who": rng.integers(0, 150, rows),
        }
    )
    made.loc[::7, "race"] = None
    return made


def crossed(frame, columns, other):
    """The exact table by plain pandas."""
    used = {name: list(keys) for name, keys in DOMAINS.items()}
    kept = frame
    if other == "drop":
        for name, keys in used.items():
            kept = kept[kept[name].isin(keys)]
    levels = [used[name] + ["(other)"] if other == "cell" else used[name] for name in columns]
    coded = [kept[name].where(kept[name].isin(used[name]), "(other)") for name in columns]
    found = np.zeros([len(level) for level in levels])
    for row in zip(*coded, strict=True):
        found[tuple(level.index(key) for level, key in zip(levels, row, strict=True))] += 1
    return found.reshape(-1)


@pytest.mark.parametrize("other", ["cell", "drop"])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_without_noise_every_table_is_the_exact_one(frame, other, mechanism, neighbours):
    query = Table(frame, domains=DOMAINS, other=other, neighbours=neighbours).marginals(ASKED)
    with inid.testing.unsafe_no_noise():
        result = query.release(query.plan(inid.ApproxDP(1.0, 1e-6), mechanism=mechanism))
    for columns in [*ASKED, ("own", "race"), ("age",), ("age", "sex"), ("sex",)]:
        exact = crossed(frame, columns, other)
        assert np.allclose(result.marginal(*columns)["estimate"], exact, atol=1e-6), columns
        assert np.allclose(result.marginal(*columns, tidy=True)["estimate"], exact, atol=1e-3), columns


@pytest.mark.parametrize("other", ["cell", "drop"])
@pytest.mark.parametrize("unit", ["row", Person("who", 2, order_by="age")])
def test_all_engines_count_the_same(frame, other, unit):
    answers = []
    for data in (frame, pl.from_pandas(frame), relation_of(frame)):
        query = Table(data, domains=DOMAINS, other=other, unit=unit).marginals(ASKED)
        answers.append(query.exact(query.plan(inid.GaussianDP(1.0), mechanism="gaussian")))
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])


def test_several_groupings_of_a_count_are_the_same_query(frame):
    table = Table(frame, domains=DOMAINS)
    assert table.marginals(count=ASKED).question.to_dict() == table.marginals(ASKED).question.to_dict()
    assert len(table.marginals(2).question.tables) == 6
    assert table.marginals([2, 1]).question.tables == (
        *table.marginals(2).question.tables,
        *table.marginals(1).question.tables,
    )
    assert len(table.marginals([("age", "sex"), 2]).question.tables) == 6


def test_an_ordered_domain_has_the_same_tables_and_is_recorded(frame):
    ordered = DOMAINS | {"age": Ordered(range(5))}
    query, plain = (Table(frame, domains=domains).marginals(ASKED) for domains in (ordered, DOMAINS))
    plan = query.plan(inid.GaussianDP(1.0))
    assert np.array_equal(query.exact(plan), plain.exact(plan))
    record = query.question.to_dict()
    assert record["ordered"] == ["age"]
    assert Marginals.from_dict(record).to_dict() == record
    with pytest.raises(inid.InidError, match="ascending"):
        Ordered([0, 2, 1])


def test_the_plan_beats_an_equal_split_and_prints_tables_inside(frame):
    table = Table(frame, domains=DOMAINS, other="drop")
    plan = table.marginals(2).plan(inid.GaussianDP(1.0), mechanism="gaussian")
    stds = [entry.std for entry in plan.tables]
    assert max(stds) < plan.tables[0].spr
    assert np.ptp(stds) < 1e-3 * max(stds)
    assert np.isclose(sum(entry.share for entry in plan.tables), 1)
    assert set(plan.inside["count"]) == {0, 1}
    assert "tables inside these" in str(plan)
    wide = table.marginals([("sex", "age"), ("race",)])
    tight = wide.plan(inid.GaussianDP(1.0), mechanism="gaussian", tolerance={("race",): 0.1})
    assert tight.tables[1].std < 0.2 * tight.tables[0].std
    least = table.marginals(2).plan(inid.GaussianDP(1.0), mechanism="gaussian", objective="sum")
    squares = [sum(entry.cells * entry.std**2 for entry in made.tables) for made in (least, plan)]
    assert squares[0] < squares[1]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_stds_and_intervals_are_those_of_the_noise(frame, mechanism):
    """Monte Carlo: standard deviations within 5 %, intervals of 95 % that hold 93 to 97 %."""
    query = Table(frame, domains=DOMAINS, other="drop", neighbours="replace").marginals(ASKED)
    plan = query.plan(inid.ApproxDP(1.0, 1e-6), mechanism=mechanism)
    result = query.release(plan)
    exact, asked = query.exact(plan), [("sex", "age"), ("race",), ("own",), ()]
    weights = {("sex",): {"F": 1.0}, ("race", "sex"): {("a", "M"): -0.5, ("b", "F"): 2.0}}
    coefficients = {(0,): np.array([1.0, 0.0]), (2, 0): np.array([[0.0, -0.5], [2.0, 0.0], [0.0, 0.0]])}
    errors = {}
    numbers = {columns: query.question.numbers(columns) for columns in asked}
    # Estimates are linear in the released numbers: the errors are those of the noise alone.
    with inid.testing.unsafe_seed(3):
        noise = add_noise(np.tile(exact, 2000), np.tile(plan.noise.scales, 2000), mechanism).reshape(2000, -1) - exact
    units = [answers_of(query.question, unit, plan.noise) for unit in np.eye(exact.size)]
    for columns in asked:
        errors[columns] = noise @ np.array([unit.table(numbers[columns]).flat[0] for unit in units])
    errors["both"] = noise @ np.array([unit.combine(coefficients)[0] for unit in units])
    for columns in (*asked, "both"):
        row = result.combine(weights)._asdict() if columns == "both" else result.marginal(*columns).iloc[0]
        reach = (row["upper"] - row["lower"]) / 2
        assert abs(np.std(errors[columns]) / row["std"] - 1) < 0.06, columns
        assert 0.93 < np.mean(np.abs(errors[columns]) <= reach) < 0.97, columns


def test_tables_agree_and_tidy_ones_are_counts(frame, tmp_path):
    query = Table(frame, domains=DOMAINS).marginals(ASKED)
    result = query.release(query.plan(inid.ApproxDP(1.0, 1e-6)))
    by_age = result.marginal("sex", "age").groupby("sex", sort=False)["estimate"].sum()
    assert np.allclose(by_age, result.marginal("sex")["estimate"])
    tidy = result.marginal("race", "own", "sex", tidy=True, integers=True)
    assert list(tidy.columns) == ["race", "own", "sex", "estimate"]
    assert (tidy["estimate"] >= 0).all()
    assert (tidy["estimate"] == tidy["estimate"].round()).all()
    assert len(result.to_frame()) == int(query.question.workload.cells.sum())
    assert "more cells" in str(result)
    assert query.plan(inid.GaussianDP(1.0)).verify().promise == "GaussianDP(mu=1.0)"
    result.report(tmp_path / "report.html")
    assert "(other)" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("budget", [inid.PureDP(1.0), inid.ApproxDP(1.0, 1e-6), inid.ZCDP(0.1)])
def test_a_record_proves_itself_and_changes_are_found(frame, budget):
    query = Table(frame, domains=DOMAINS, unit=Person("who", 2), neighbours="replace").marginals(ASKED)
    with inid.Ledger(total=budget, neighbours="replace", unit="who") as ledger:
        result = query.release(query.plan(budget, ledger=ledger), ledger, label="tables")
        with pytest.raises(inid.BudgetError):
            query.release(query.plan(budget), ledger)
    record = result.to_dict()
    assert verify_result(record).promise == str(result.plan.budget)
    assert result.plan.noise.stated == budget
    from inid.tables import record_digest

    def changed(change):
        other = copy.deepcopy(record)
        change(other)
        return other | {"digest": record_digest(other)}

    def cell(other):
        other["tables"][0]["estimate"][3] += 1

    def domain(other):
        other["question"]["domains"]["age"] = [0, 1]

    def people(other):
        other["question"]["person"]["max_rows"] = 3

    for change in (cell, domain, people):
        with pytest.raises(inid.InidError):
            verify_result(changed(change))
    with pytest.raises(inid.InidError, match="digest"):
        verify_result(record | {"level": 0.9})


@pytest.mark.parametrize(
    ("facts", "asked", "words"),
    [
        ({}, {"count": [("sex",)]}, "no public domain"),
        ({"domains": {"sex": ["F"]}, "other": "drop"}, {"count": 1}, "one value"),
        ({"domains": {"sex": ["F", "(other)"]}}, {"count": 1}, "name of the cell"),
        ({"domains": DOMAINS}, {"count": [("sex", "age"), ("age", "sex")]}, "twice"),
        ({"domains": DOMAINS}, {"count": 5}, "4 have a domain"),
        ({"domains": DOMAINS}, {"count": [("Sex",)]}, "did you mean 'sex'"),
        ({"domains": DOMAINS}, {"count": [()]}, "total alone"),
        ({"domains": DOMAINS}, {"count": ["sex"]}, "tuple of columns"),
        ({"domains": DOMAINS}, {"count": True}, "list of tables"),
        ({"domains": DOMAINS}, {"count": 1, "mean": ["age"]}, "dictionary of tables"),
        ({"domains": {"height": [1]}}, {"count": 1}, "lacks"),
        ({"domains": DOMAINS, "other": "keep"}, {"count": 1}, "other"),
    ],
)
def test_what_does_not_fit_is_refused(frame, facts, asked, words):
    with pytest.raises(inid.InidError, match=words.replace("(", r"\(")):
        Table(frame, **facts).marginals(**asked)


def test_frames_take_labels_whole_numbers_and_flags(frame):
    query = Table(frame.rename(columns={"sex": "std"}), domains={"std": ["F", "M"], "age": range(5)}).marginals(
        [("std",), ("std", "age")]
    )
    result = query.release(query.plan(inid.ApproxDP(1.0, 1e-6)))
    plain = result.to_frame()
    made = result.to_frame(too_noisy=0.5, labels={"std": {"F": "women"}, "age": {0: "newborn"}})
    assert list(plain.columns) == [
        "statistic",
        "column",
        "std_key",
        "age",
        "estimate",
        "lower",
        "upper",
        "std",
    ]
    assert list(made.columns) == [*plain.columns, "too_noisy"]
    assert set(made["std_key"]) == {"women", "M", "(other)"}
    assert set(made["age"]) == {None, "newborn", "1", "2", "3", "4", "(other)"}
    whole = result.to_frame(tidy=True, integers=True)
    assert (whole["estimate"] >= 0).all()
    assert (whole["estimate"] == whole["estimate"].round()).all()
    assert made["too_noisy"].tolist() == ((plain["upper"] - plain["lower"]) > 0.5 * plain["estimate"].abs()).tolist()
    with pytest.raises(inid.InidError, match="too_noisy"):
        result.to_frame(too_noisy=0)


def test_tables_outside_and_unknown_cells_are_refused(frame):
    query = Table(frame, domains=DOMAINS).marginals(ASKED)
    result = query.release(query.plan(inid.PureDP(1.0)))
    for call in (
        lambda: result.marginal("age", "race"),
        lambda: result.marginal("who"),
        lambda: result.marginal("sex", integers=True),
        lambda: result.combine({("sex",): {"N": 1}}),
        lambda: result.combine({("sex",): {"F": float("nan")}}),
        lambda: query.plan(inid.PureDP(1.0), tolerance={("age",): 1}),
        lambda: query.plan(inid.PureDP(1.0), objective="mean"),
    ):
        with pytest.raises(inid.InidError):
            call()


@pytest.mark.parametrize(("columns", "published"), [(1, 3.0468), (2, 6.3587)])
def test_adult_has_the_error_of_the_published_optimum(columns, published):
    """ResidualPlanner's root mean squared error for all 1- and 2-way tables of Adult at mu = 1."""
    sizes = (100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2)
    domains = {f"c{at}": range(size) for at, size in enumerate(sizes)}
    table = Table(pd.DataFrame({name: [0] for name in domains}), domains=domains, other="drop")
    plan = table.marginals(columns).plan(inid.GaussianDP(1.0), objective="sum", mechanism="gaussian")
    squares = sum(entry.cells * entry.std**2 for entry in plan.tables) / sum(entry.cells for entry in plan.tables)
    assert abs(np.sqrt(squares) - published) < 1e-4
    plan.verify()
