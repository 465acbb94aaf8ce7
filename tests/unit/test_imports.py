"""The public door is light, and everything it names exists."""

import json
import subprocess
import sys

import pytest

import inid

HEAVY = ["torch", "pandas", "polars", "sklearn", "pyspark", "matplotlib", "sqlalchemy", "scipy.stats", "numba", "cvxpy"]


@pytest.fixture(scope="module")
def loaded():
    code = "import json, sys, inid; print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(result.stdout))


@pytest.mark.parametrize("name", HEAVY)
def test_importing_inid_loads_nothing_heavy(loaded, name):
    assert "inid" in loaded
    assert name not in loaded


def test_importing_inid_does_not_load_what_is_for_tests(loaded):
    assert not any(name.startswith("inid.testing") for name in loaded)


def test_planning_and_verifying_loads_nothing_heavy():
    code = (
        "import sys, inid; p = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.ApproxDP(1.0, 1e-6)); p.verify(); "
        "str(p); str(p.compare()); inid.NoisePlan.from_dict(p.to_dict()); print(' '.join(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(result.stdout.split())


def test_every_public_name_exists():
    assert len(set(inid.__all__)) == len(inid.__all__)
    for name in inid.__all__:
        assert getattr(inid, name) is not None


def test_the_contract_of_public_names_holds():
    wanted = {
        "Sensitivity", "PureDP", "ApproxDP", "GaussianDP", "ZCDP", "plan", "NoisePlan", "plan_for_accuracy", "gini",
        "disparity", "majorizes", "InidError", "__version__",
    }  # fmt: skip
    assert wanted <= set(inid.__all__)


def test_every_error_is_an_inid_error():
    for name in inid.__all__:
        value = getattr(inid, name)
        if isinstance(value, type) and issubclass(value, Exception):
            assert issubclass(value, inid.InidError)
