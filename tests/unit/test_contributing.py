"""The walks of CONTRIBUTING.md: five short ones, whose places exist and whose calls run."""

import ast
import importlib
import re
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import inid

PROJECT = Path(__file__).resolve().parents[2]
WALKS = ("Plan and release", "A table", "The command", "A training step", "A fit")


def places(walk: str, text: str) -> list[str]:
    """The places in src/inid that a walk names, files without their ending and folders with a slash."""
    part = re.search(rf"^\d\. \*\*{walk}\*\*[^:]*:(.*?)(?=^\d\. \*\*|\Z)", text, re.MULTILINE | re.DOTALL)
    assert part is not None
    return re.findall(r"`([a-z_/]+)`", part[1])


def walks() -> str:
    text = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text[text.index("### Five walks") : text.index("### A new kind")]


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_has_few_stations_and_each_exists(walk):
    named = places(walk, walks())
    assert 3 <= len(named) <= 6
    source = PROJECT / "src/inid"
    assert [name for name in named if not ((source / name).is_dir() or (source / f"{name}.py").is_file())] == []


def test_there_are_five_walks():
    assert re.findall(r"^\d\. \*\*(.*?)\*\*", walks(), re.MULTILINE) == list(WALKS)


def test_a_place_that_is_missing_is_noticed():
    text = "1. **A table** (`Table`): `tables/table`, `tables/nowhere/` and so on.\n"
    assert places("A table", text) == ["tables/table", "tables/nowhere/"]
    assert not (PROJECT / "src/inid/tables/nowhere").exists()


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


def imports_of(path: Path) -> set[str]:
    """The modules of the library that a file imports at run time, also where that is inside a function."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n.test)]
    spared = {id(inner) for block in for_types for inner in ast.walk(block)}
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and id(n) not in spared and n.module]
    return {f"{node.module}.{alias.name}" for node in nodes for alias in node.names if node.module.startswith("inid")}


def circles(arrows: dict[str, set[str]]) -> list[str]:
    """The names that reach themselves."""

    def reached(name: str) -> set[str]:
        beyond, more = set(), set(arrows.get(name, ()))
        while more:
            beyond |= more
            more = {far for near in more for far in arrows.get(near, ())} - beyond
        return beyond

    return sorted(name for name in arrows if name in reached(name))


def test_sub_packages_do_not_import_each_other_in_circles():
    source = PROJECT / "src"
    packages = {".".join(path.parent.relative_to(source).parts) for path in source.rglob("inid/**/__init__.py")}
    for outer in sorted(packages):
        inner = {name for name in packages if name.rpartition(".")[0] == outer}
        arrows: dict[str, set[str]] = {}
        for one in inner:
            files = (source / one.replace(".", "/")).rglob("*.py")
            imports = {name for path in files for name in imports_of(path)}
            arrows[one] = {
                other for other in inner - {one} if any(f"{name}.".startswith(f"{other}.") for name in imports)
            }
        assert circles(arrows) == [], outer


def test_a_circle_is_noticed(tmp_path):
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]
    path = tmp_path / "file.py"
    path.write_text("if TYPE_CHECKING:\n    from inid.a import X\ndef f():\n    from inid.b.c import Y\n")
    assert imports_of(path) == {"inid.b.c.Y"}


def people() -> pd.DataFrame:
    return pd.DataFrame({"age": [30.0, 40.0, 50.0], "visits": [1.0, 2.0, 3.0]})


def test_plan_and_release():
    plan = inid.plan(inid.Sensitivity.box([1.0, 3.0, 40.0]), inid.PureDP(1.0))
    assert inid.release([1.0, 2.0, 3.0], plan).private


@pytest.mark.parametrize("engine", ["pandas", "duckdb"])
def test_a_table(engine):
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE people AS SELECT * FROM (VALUES (30.0, 1), (40.0, 2)) AS t(age, visits)")
        frame = people() if engine == "pandas" else connection.table("people")
        table = inid.tables.Table(frame, bounds={"age": (0, 100), "visits": (0, 10)})
        query = table.statistics(count=True, mean=["age", "visits"])
        assert query.release(query.plan(inid.PureDP(1.0))).answers


def test_the_command(tmp_path):
    from inid.cli import app

    people().to_csv(tmp_path / "people.csv", index=False)
    arguments = "--bounds age=0:100,visits=0:10 --mean age,visits --count --epsilon 1 --out"
    words = ["release", str(tmp_path / "people.csv"), *arguments.split(), str(tmp_path / "out.csv")]
    outcome = CliRunner().invoke(app, words)
    assert outcome.exit_code == 0, outcome.output


def test_a_training_step():
    torch.manual_seed(0)
    inputs = torch.randn(256, 4)
    data = torch.utils.data.TensorDataset(inputs, (inputs[:, 0] > 0).long())
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    private = inid.dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=32),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    features, labels = next(iter(private.data_loader))
    private.optimizer.zero_grad()
    private.backward(torch.nn.functional.cross_entropy, private.module(features), labels)
    private.optimizer.step()
    assert private.accountant.steps == 1


def test_a_fit():
    features = np.random.default_rng(0).uniform(-1, 1, (500, 3))
    model = inid.learn.PrivateLasso(
        alpha=0.01, budget=inid.GaussianDP(1.0), mechanism="gaussian", bounds=(-1, 1), bounds_y=(-1, 1)
    )
    assert model.fit(features, features[:, 0]).private_
