"""What all tests share: the same examples and made-up numbers in every run, settings that are put back, the browser."""

import gc
import itertools
import os
import random
import sys
import zlib

import mpmath
import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("repeatable")

# Workers of Spark would otherwise take whatever python3 is on the PATH. The first test that starts a session decides.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Several workers share the work in our own units where the command line asks for files."""
    if config.getoption("dist") != "loadfile":
        return None
    from work_units import WorkUnits

    return WorkUnits(config, log)


_FOUND = gc.get_objects


def pytest_collection_finish():
    """What was collected stays until the end: a million objects that nobody need look at again.

    Python's collector would, and so would every private training, which looks for the tensors that are there before
    its first batch: half a second each time. So tensors that test files made are kept beside the rest, to be found.
    Torch's compiler, 40,000 objects that the first optimizer loads, is loaded before.
    """
    torch = sys.modules.get("torch")
    if torch is not None:
        import torch._dynamo
    gc.collect()
    tensors = [] if torch is None else [each for each in _FOUND() if issubclass(type(each), torch.Tensor)]
    gc.freeze()

    def found(*generation):
        # Not [*_FOUND(), *tensors]: that list would be there when it is asked, hold itself, and keep all that it found.
        every = _FOUND(*generation)
        every.extend(tensors)
        return every

    gc.get_objects = found


def pytest_unconfigure():
    """Extensions that look for leaks when Python ends see a heap as it always is."""
    gc.get_objects = _FOUND
    gc.unfreeze()


_NUMBERS = itertools.count()


@pytest.fixture(autouse=True)
def state_folder(monkeypatch):
    """Each test starts as a user who has seen no ledger before; the folder is below that of the whole run."""
    monkeypatch.setenv("INID_STATE", f"{os.environ['INID_STATE']}{os.sep}{os.getpid()}-{next(_NUMBERS)}")


@pytest.fixture(autouse=True)
def made_up_numbers(request):
    """Weights and rows that a test makes up are the same in every run, whatever ran before in its process.

    The noise of releases is not: tests that look at it ask for a seed, or allow for what chance does.
    """
    seed = zlib.crc32(request.node.nodeid.encode())
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - what scikit-learn takes where nothing is stated
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)


@pytest.fixture(autouse=True)
def settings_of_libraries():
    """Digits of mpmath and the precision of torch's products are put back after every test."""
    digits = mpmath.mp.dps
    torch = sys.modules.get("torch")
    precision = torch.get_float32_matmul_precision() if torch is not None else None
    yield
    mpmath.mp.dps = digits
    if torch is not None:
        torch.set_float32_matmul_precision(precision)


@pytest.fixture(scope="module")
def browser():
    """Chromium, one for all tests of a file."""
    from studio_browser import launched

    with launched() as made:
        yield made
