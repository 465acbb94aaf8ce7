"""The walks of CONTRIBUTING.md are what calls go through: the files exist, are visited, and no other is."""

import ast
import importlib
import re
import sys
import threading
from pathlib import Path
from types import FrameType

import duckdb
import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import inid
from inid.noise.law_tables import law

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = f"{Path(inid.__file__).parent}/"  # of the package that runs: a wheel's lie elsewhere

# What a call passes and no walk names, with the reason.
PASSED_BY = {
    "reads a single value": "arguments errors schema/key schema/values schema/by_column schema/by_tables "
    "numbers/decimals accounting/short_texts "
    "tables/engines/guarded",
    "opens the door": "__init__ cli/__init__ tables/engines/__init__ sets/caps/__init__",
    "asked, with nothing to do": "jobs/combinations tables/domains "
    "tables/view tables/plan "
    "tables/public_facts learn/constant_part learn/column_moments dpsgd/parallel/distributed dpsgd/parallel/sharding "
    "dpsgd/parallel/sharded_parameters dpsgd/kernels/fused_rounding dpsgd/kernels/gpu_clipping "
    "dpsgd/kernels/row_kernels dpsgd/opacus_names",
    "another kind of question, asked whether it is meant": "tables/questions/choice tables/questions/discovery/kind "
    "tables/questions/marginals/kind tables/questions/ordered/kind tables/questions/synthetic/kind",
    "a part of the engine": "tables/engines/csv_files tables/engines/csv_records tables/engines/duckdb_settings "
    "tables/engines/duckdb_columns "
    "tables/engines/duckdb_sums tables/engines/grid_sums tables/engines/pandas_columns tables/engines/pandas_sums",
    "a part of the intervals": "tables/laplace_sums tables/ratio_intervals",
    "a part of the caps": "sets/caps/suprema sets/caps/envelope",
    "bounds from which the tables of a law are made": "noise/density numbers/pi",
    "remembers the charge, or how the process ends": "jobs/charging cli/interrupts",
    "words a result": "tables/result tables/report_inputs report/plan_summary report/number_text "
    "planning/comparison planning/text",
}


def passed_by() -> set[str]:
    return {name for names in PASSED_BY.values() for name in names.split()}


def written(walk: int, *, until: str | None = None) -> list[str]:
    """The files that a walk names of its own."""
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    text = text[text.index("### Seven walks") : text.index("### A new kind")]
    found = re.search(rf"^{walk}\. \*\*(.*?)(?=^\d\. \*\*|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    part = found[1] if until is None else found[1].split(until)[0]
    named = re.findall(r"`([a-z_/0-9]+(?:\.js)?)`", part)
    return [name for name in named if "/" in name or name in {"promises", "releasing", "fixed_point"}]


def visited(call) -> set[str]:
    """The files of which a call runs a function; what an import runs does not count."""
    seen: set[str] = set()

    def look(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(SOURCES) or code.co_name.startswith("<"):
            return
        outer: FrameType | None = frame.f_back
        while outer is not None and not (
            outer.f_code.co_name == "<module>" and outer.f_code.co_filename.startswith(SOURCES)
        ):
            outer = outer.f_back
        if outer is None:
            seen.add(code.co_filename[len(SOURCES) : -len(".py")])

    law.cache_clear()  # a table that was made before is not made again
    before = sys.getprofile()
    threading.setprofile(look)
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(before)
        threading.setprofile(before)
    return seen


def check(call, own: list[str], inner: list[str], engine: str = "pandas") -> None:
    """A walk names what a call visits: all of it, and nothing else; a folder stands for any of its files."""
    named = {name.replace("engines/pandas", f"engines/{engine}") for name in (*own, *inner)}
    found = visited(call)
    folders = tuple(name for name in named if name.endswith("/"))
    assert sorted(name for name in named if name not in found and name not in folders) == []
    assert [folder for folder in folders if not any(name.startswith(folder) for name in found)] == []
    assert sorted(name for name in found - named - passed_by() if not name.startswith(folders)) == []


def test_every_file_that_a_walk_names_exists():
    named = [name for walk in range(1, 8) for name in written(walk)]
    assert len(named) > 90
    named += passed_by()
    missing = [n for n in named if not any((PROJECT / "src/inid" / f"{n}{s}").exists() for s in ("", ".py"))]
    assert missing == []


def test_folders_of_unit_tests_are_named_like_packages():
    folders = {path.name for path in (PROJECT / "tests/unit").iterdir() if path.is_dir() and path.name[0] not in "._"}
    packages = {path.parent.name for path in (PROJECT / "src/inid").glob("*/__init__.py")}
    assert folders <= packages


@pytest.mark.parametrize("path", sorted((PROJECT / "src/inid").rglob("__init__.py")), ids=str)
def test_what_a_package_sends_its_readers_to_exists(path):
    """Single lower-case words in code marks, in the text at the top of a package: files, folders or names there."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    package = importlib.import_module(".".join(path.relative_to(PROJECT / "src").parent.parts))
    named = re.findall(r"`([a-z_]+)`", text) + re.findall(r"^ {4}([a-z_]+) {2,}\S", text, re.MULTILINE)
    known = {"inid", *(path.stem for path in (PROJECT / "src/inid").iterdir())}  # the command, and what stands above
    missing = [
        name
        for name in named
        if name not in known
        and not (path.parent / name).is_dir()
        and not (path.parent / f"{name}.py").exists()
        and not hasattr(package, name)
    ]
    assert missing == []


def test_the_walks_are_short():
    plan, table, command = written(1), written(2), written(3, until="with `--report`")
    assert plan.index("planning/certificate") + 1 < 20
    assert len(command) + len(table) + len(plan) < 40


def planned_and_released():
    plan = inid.plan(inid.Sensitivity.box([1.0, 3.0, 40.0]), inid.PureDP(1.0))
    inid.release([1.0, 2.0, 3.0], plan)


def people() -> pd.DataFrame:
    return pd.DataFrame({"age": [30.0, 40.0, 50.0], "visits": [1.0, 2.0, 3.0]})


def test_plan_and_release():
    check(planned_and_released, written(1), [])


def test_a_file_that_is_missing_and_one_that_is_not_visited_are_noticed():
    own = written(1)
    with pytest.raises(AssertionError):
        check(planned_and_released, [name for name in own if name != "planning/plan"], [])
    with pytest.raises(AssertionError):
        check(planned_and_released, [*own, "planning/accuracy"], [])
    with pytest.raises(AssertionError):
        check(planned_and_released, [*own, "tables/questions/ordered/"], [])


@pytest.mark.parametrize("engine", ["pandas", "duckdb"])
def test_a_table(engine):
    frame = people() if engine == "pandas" else duckdb.from_df(people())

    def call():
        query = inid.tables.Table(frame, bounds={"age": (0, 100), "visits": (0, 10)}).query(
            count=True, mean=["age", "visits"]
        )
        assert query.release(query.plan(inid.PureDP(1.0))).rows

    check(call, written(2), written(1), engine)


def test_the_command(tmp_path):
    from inid.cli.app import app

    people().to_csv(tmp_path / "people.csv", index=False)
    arguments = "--bounds age=0:100,visits=0:10 --mean age,visits --count --epsilon 1 --out"
    words = ["release", str(tmp_path / "people.csv"), *arguments.split(), str(tmp_path / "out.csv")]

    def call():
        outcome = CliRunner().invoke(app, words)
        assert outcome.exit_code == 0, outcome.output

    check(call, written(3, until="with `--report`"), written(2) + written(1), "duckdb")


def test_one_training_step():
    torch.manual_seed(0)
    inputs = torch.randn(256, 4)
    data = torch.utils.data.TensorDataset(inputs, (inputs[:, 0] > 0).long())
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

    def call():
        private = inid.dpsgd.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, batch_size=32),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )
        for rows, labels in private.data_loader:
            private.optimizer.zero_grad()
            private.backward(torch.nn.functional.cross_entropy, private.module(rows), labels)
            private.optimizer.step()
            break

    inner = written(1)[: written(1).index("planning/certificate") + 1]
    inner = [name.replace("sets/box", "sets/groups") for name in inner] + ["noise/source"]
    check(call, written(4, until="recorded steps"), inner)


def test_a_fit_of_the_lasso():
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (500, 3))
    model = inid.learn.PrivateLasso(
        alpha=0.01, budget=inid.GaussianDP(1.0), mechanism="gaussian", bounds=(-1, 1), bounds_y=(-1, 1)
    )
    check(lambda: model.fit(rows, rows[:, 0]), written(5), written(1))


def test_composition():
    plan = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(1.0))
    inner = ["planning/noise_plan", "mechanisms/mechanism", "sets/base", "sets/box", "sets/record", "promises"]
    check(lambda: inid.compose(plan, plan).epsilon(1e-6), written(6), inner)
