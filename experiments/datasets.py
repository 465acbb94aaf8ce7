"""California and Electricity, or stand-ins of the same shape.

Looked for in the folder INID_DATA, then in shared/data beside the project, then in scikit-learn's own cache; with
INID_FETCH=1 scikit-learn may download them. Records with their problem as the authors of DP-CD state it are in
`descents`.
"""

import csv
import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["Dataset", "MissingDataError", "load"]

_PROJECT = Path(__file__).resolve().parents[1]
_FILES = {"california": "california_housing.csv.gz", "electricity": "electricity.csv.gz"}
_CURES = """The dataset {name} is missing. Either
  set INID_DATA to a folder that holds {file} (one header row; features first, target last), or
  set INID_FETCH=1 to let scikit-learn download it ({loader}), or
  run with --synthetic to see the experiment work on a stand-in of the same shape."""
_LOADERS = {
    "california": "sklearn.datasets.fetch_california_housing",
    "electricity": "sklearn.datasets.fetch_openml(data_id=151)",
}


class MissingDataError(Exception):
    """A dataset is absent; the message says how to get it."""


@dataclass(frozen=True)
class Dataset:
    """Features and target.

    Attributes:
        X: One row per record.
        y: Prices in 100,000 USD (California), or labels of -1 and 1 (Electricity).
        source: Where it came from.
        real: Whether it is the dataset, not a stand-in.
    """

    X: np.ndarray
    y: np.ndarray
    source: str
    real: bool = True


def load(name: str, *, synthetic: bool = False) -> Dataset:
    """Load "california" or "electricity".

    Raises:
        MissingDataError: It is nowhere to be found.
    """
    if synthetic:
        return _stand_in(name)
    folder = Path(os.environ.get("INID_DATA") or _PROJECT.parent / "shared" / "data")
    path = folder / _FILES[name]
    if path.exists():
        with gzip.open(path, "rt") as file:
            rows = list(csv.reader(file))[1:]
        X = np.array([row[:-1] for row in rows], dtype=float)
        return Dataset(X, _target([row[-1] for row in rows]), _FILES[name])
    return _fetched(name)


def _target(last: list[str]) -> np.ndarray:
    return np.array([{"UP": 1.0, "DOWN": -1.0}[x] if x in ("UP", "DOWN") else float(x) for x in last])


def _fetched(name: str) -> Dataset:
    from sklearn import datasets

    may = os.environ.get("INID_FETCH") == "1"
    try:
        if name == "california":
            found = datasets.fetch_california_housing(download_if_missing=may)
            return Dataset(found.data, found.target, "scikit-learn")
        if may:
            found = datasets.fetch_openml(data_id=151, as_frame=False, parser="liac-arff")
            return Dataset(np.asarray(found.data, dtype=float), _target([str(x) for x in found.target]), "OpenML 151")
    except OSError as error:
        raise MissingDataError(f"{_CURES.format(name=name, file=_FILES[name], loader=_LOADERS[name])}") from error
    raise MissingDataError(_CURES.format(name=name, file=_FILES[name], loader=_LOADERS[name]))


def _stand_in(name: str) -> Dataset:
    """Columns with the sizes of the real ones and a target that depends on them; a tenth of the rows."""
    rng = np.random.default_rng(151)
    if name == "california":
        middle = np.array([3.87, 28.6, 5.43, 1.1, 1425.0, 3.07, 35.6, -119.6])
        spread = np.array([1.9, 12.6, 2.5, 0.47, 1132.0, 1.5, 2.1, 2.0])
        X = middle + spread * rng.normal(size=(2064, 8)).clip(-2, 2)
        y = (2.07 + 0.8 * (X[:, 0] - middle[0]) / spread[0] + 0.5 * rng.normal(size=len(X))).clip(0.15, 5.0)
        return Dataset(X, y, "synthetic stand-in", real=False)
    X = rng.uniform(size=(4531, 8)) * [1, 1, 1, 0.1, 0.8, 0.01, 0.8, 1]
    X[:, 1] = rng.integers(1, 8, size=len(X))
    chance = 1 / (1 + np.exp(-(20 * X[:, 3] - 1.0 * X[:, 4] - 0.1 * X[:, 1])))
    return Dataset(X, np.where(rng.uniform(size=len(X)) < chance, 1.0, -1.0), "synthetic stand-in", real=False)
