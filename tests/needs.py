"""What a test needs beyond Python packages: with it missing, the test skips and says how to get it.

`INID_REQUIRE`, a comma-separated list such as "data,java", names what must be there: a missing one then fails.
"""

import os
import platform
import shutil
import sys
from pathlib import Path

import pytest

__all__ = ["data_folder", "needs"]

_PROJECT = Path(__file__).resolve().parents[1]


def data_folder():
    """The folder of the public datasets: INID_DATA, or shared/data beside the project."""
    return Path(os.environ["INID_DATA"]) if os.environ.get("INID_DATA") else _PROJECT.parent / "shared" / "data"


def needs(name):
    """Return what the name stands for, or skip the running test; fail it when INID_REQUIRE names it.

    "data": the folder of datasets. "java", "postgres", "mariadb", "chromium": the program's path. "gpu": torch.
    "fork": the function of systems that have it. "linux": the name of the system. "glibc": the version of that library.
    """
    if name not in _FINDERS:
        raise ValueError(f"needs() knows {', '.join(_FINDERS)}, got {name!r}.")
    find, missing = _FINDERS[name]
    found = find()
    if found is not None:
        return found
    required = {word.strip() for word in os.environ.get("INID_REQUIRE", "").split(",")}
    if name in required:
        pytest.fail(f"INID_REQUIRE names {name}: {missing}.")
    pytest.skip(missing)


def _data():
    folder = data_folder()
    return folder if folder.is_dir() and any(folder.iterdir()) else None


def _program(*names):
    return next((path for path in map(shutil.which, names) if path), None)


def _postgres():
    found = _program("postgres")
    return found or next((str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))), None)


def _mariadb():
    found = _program("mariadbd")
    return found or next(
        (path for path in ("/usr/sbin/mariadbd", "/usr/libexec/mariadbd") if Path(path).exists()), None
    )


def _gpu():
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def _glibc():
    name, version = platform.libc_ver()
    return version if name == "glibc" and tuple(map(int, version.split(".")[:2])) >= (2, 33) else None


_FINDERS = {
    "data": (
        _data,
        "the datasets are missing: set INID_DATA to a folder that holds them (CONTRIBUTING.md: which, and where from)",
    ),
    "java": (lambda: _program("java"), "Java is missing: install a Java 17 runtime and put java on the PATH"),
    "postgres": (_postgres, "PostgreSQL is missing: install the postgresql server package"),
    "mariadb": (_mariadb, "MariaDB is missing: install the mariadb-server package"),
    "chromium": (
        lambda: _program("chromium", "chromium-browser", "google-chrome"),
        "Chromium is missing: install chromium and put it on the PATH",
    ),
    "fork": (lambda: getattr(os, "fork", None), "this system has no fork: run these tests on Linux or macOS"),
    "linux": (
        lambda: sys.platform if sys.platform == "linux" else None,
        "open-file-description locks are Linux's: run these tests on Linux",
    ),
    "glibc": (
        _glibc,
        "only glibc learns what memory to keep, and from 2.33 on says how much is mapped: run this on such a Linux",
    ),
    "gpu": (
        _gpu,
        "a GPU is missing: install torch (pip install '.[torch]' in inid's checkout) on a machine with a CUDA device",
    ),
}
