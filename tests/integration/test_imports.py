"""What a fresh process loads: no more than it asked for. Where an extra is missing, the error names it."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "pandas", "polars", "sklearn", "pyspark", "matplotlib", "sqlalchemy", "scipy.stats", "numba", "cvxpy"}


def printed(code, warnings="error"):
    """What a process of its own prints that runs some lines."""
    run = subprocess.run([sys.executable, "-W", warnings, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout


def loaded(code):
    return set(printed(f"import sys; {code}; print(' '.join(sys.modules))").split())


@pytest.mark.parametrize("line", ["import inid", "import inid.tables", "import inid.jobs"])
def test_importing_loads_little_beside_numpy_and_scipy_special(line):
    """`import inid` takes at most 1.3 times what these take (`bench/imports.py` measures it), by loading nothing else.

    The standard library and the cipher of the noise come on top; `inid.jobs` is what the command loads before it runs.
    """
    cipher = {"cryptography", "_cffi_backend", "_openssl"}
    more = loaded(line) - loaded("import numpy, scipy.special")
    outside = {name for name in more if name.partition(".")[0] not in {"inid", *cipher, *sys.stdlib_module_names}}
    assert sorted(outside) == []


def test_importing_inid_loads_nothing_heavy_and_nothing_for_tests():
    modules = loaded("import inid")
    assert "inid" in modules
    assert not modules & (HEAVY | {"inid.dpsgd", "inid.testing"})


def test_planning_and_verifying_loads_nothing_heavy():
    assert not HEAVY & loaded(
        "import inid; p = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.ApproxDP(1.0, 1e-6)); p.verify(); "
        "a = str(p), str(p.compare()), inid.NoisePlan.from_dict(p.to_dict())"
    )


def test_small_releases_load_nothing_heavy():
    modules = loaded("from inid.noise import add_noise; add_noise([1.0], [1.0], 'gaussian')")
    assert not modules & {"numba", "scipy.stats", "mpmath", "inid.testing"}


def test_tables_load_no_engine():
    engines = {"pandas", "polars", "pyspark", "duckdb", "narwhals", "pyarrow"}
    assert not engines & loaded("from inid import tables")


@pytest.mark.parametrize("name", ["tables", "learn", "dpsgd", "testing"])
def test_packages_load_when_they_are_first_named(name):
    lines = f"import sys, inid; before = 'inid.{name}' in sys.modules; names = inid.{name}.__all__"
    code = f"{lines}; print(before, len(names) > 0, '{name}' in dir(inid))"
    assert printed(code, "default").split() == ["False", "True", "True"]


@pytest.mark.parametrize(
    ("missing", "line", "extra"),
    [
        ("torch", "import inid.dpsgd", "torch"),
        ("sklearn", "import inid.learn", "learn"),
        ("narwhals", "inid.tables.Table(__import__('pandas').DataFrame({'a': [1]}), bounds={})", "tables"),
    ],
)
def test_a_missing_extra_is_named(missing, line, extra):
    code = (
        f"import sys; sys.modules['{missing}'] = None; import inid\n"
        f"try:\n    {line}\nexcept inid.MissingExtraError as error:\n    print(error)"
    )
    assert f"[{extra}]" in printed(code)
