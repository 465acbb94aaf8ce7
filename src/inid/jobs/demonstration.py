"""The demonstration: a public medical table, what is publicly known of it, and jobs on it."""

import csv
import io
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from inid.arguments import Floats
from inid.errors import MissingExtraError
from inid.jobs.job import Job
from inid.promises import Budget

# Cell nuclei in images of breast tissue (Wisconsin, 1993). For each column the bounds and the error of a mean that a
# reader could live with, from what the measures are (lengths in micrometres, ratios below 1): round numbers, public
# knowledge, not computed from this table. "error" columns are standard errors within one image, "worst" ones the mean
# of its three largest values.
COLUMNS: dict[str, tuple[float, float, float]] = {
    "mean radius": (5, 30, 0.5),
    "mean texture": (5, 40, 1),
    "mean perimeter": (40, 200, 3),
    "mean area": (100, 2600, 40),
    "mean smoothness": (0.05, 0.2, 0.01),
    "mean compactness": (0, 0.4, 0.02),
    "mean concavity": (0, 0.5, 0.02),
    "mean concave points": (0, 0.25, 0.01),
    "mean symmetry": (0.1, 0.35, 0.02),
    "mean fractal dimension": (0.04, 0.1, 0.01),
    "radius error": (0, 3, 0.05),
    "texture error": (0, 5, 0.2),
    "perimeter error": (0, 25, 0.5),
    "area error": (0, 600, 5),
    "smoothness error": (0, 0.04, 0.002),
    "compactness error": (0, 0.15, 0.005),
    "concavity error": (0, 0.4, 0.005),
    "concave points error": (0, 0.06, 0.002),
    "symmetry error": (0, 0.08, 0.005),
    "fractal dimension error": (0, 0.03, 0.001),
    "worst radius": (5, 40, 1),
    "worst texture": (10, 50, 1),
    "worst perimeter": (50, 260, 5),
    "worst area": (150, 4500, 60),
    "worst smoothness": (0.05, 0.25, 0.01),
    "worst compactness": (0, 1.2, 0.05),
    "worst concavity": (0, 1.3, 0.05),
    "worst concave points": (0, 0.3, 0.02),
    "worst symmetry": (0.1, 0.7, 0.03),
    "worst fractal dimension": (0.05, 0.25, 0.01),
}
_ROWS = 600  # a public guess, for planning
_CLASSES = {"size": ["small", "medium", "large"], "texture": ["smooth", "coarse"]}


def demonstration_table() -> Floats:
    """The values, one column for each of `COLUMNS`."""
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError:
        raise MissingExtraError(
            "the demo's table comes with scikit-learn, which is not installed: run pip install scikit-learn."
        ) from None
    bunch = load_breast_cancer()
    order = [list(bunch.feature_names).index(name) for name in COLUMNS]
    return np.asarray(bunch.data[:, order], dtype=np.float64)


def demonstration_truth(data: Floats, statistic: str, column: str, bounds: tuple[float, float] | None) -> float | None:
    """The exact answer to one question about the whole table, which is public; None where it is not computed.

    >>> table = np.zeros((4, len(COLUMNS))) + 10.0
    >>> demonstration_truth(table, "mean", "mean radius", (5.0, 8.0)), demonstration_truth(table, "count", "", None)
    (8.0, 4.0)
    """
    if statistic == "count":
        return float(len(data))
    measures: dict[str, Callable[[Floats], Any]] = {"sum": np.sum, "mean": np.mean, "variance": np.var, "std": np.std}
    if statistic not in measures or column not in COLUMNS or bounds is None:
        return None
    values = np.clip(data[:, list(COLUMNS).index(column)], *bounds)
    return float(measures[statistic](values))


def demonstration_counts(data: Floats) -> dict[tuple[str, str], int]:
    """The exact numbers of tumours by size and texture, which are public.

    >>> demonstration_counts(np.zeros((4, len(COLUMNS))) + 17.0)["large", "smooth"]
    4
    """
    radius, texture = (data[:, list(COLUMNS).index(name)] for name in ("mean radius", "mean texture"))
    sizes = np.select([radius < 12, radius < 16], ["small", "medium"], "large")
    textures = np.where(texture < 19, "smooth", "coarse")
    pairs = product(_CLASSES["size"], _CLASSES["texture"])
    return {(one, two): int(((sizes == one) & (textures == two)).sum()) for one, two in pairs}


def demonstration_csv(data: Floats) -> str:
    """The table as a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(data.tolist())
    return text.getvalue()


def demonstration_publication(folder: Path, promise: Budget) -> Job:
    """Thirty means, and counts by size and texture with means by size, under one promise and on one page."""
    files = {"table": "demo.csv", "ledger": "demo.db", "out": "result.csv", "report": "report.html"}
    paths = {key: (folder / file).as_posix() for key, file in (files | {"record": "record.json"}).items()}
    facts = {
        "bounds": {name: [low, high] for name, (low, high, _) in COLUMNS.items()},
        # A fill value saves a count per column; halfway as people write it: 0.225, not 0.22499999999999998.
        "missing": {name: round((low + high) / 2, 9) for name, (low, high, _) in COLUMNS.items()},
        "domains": _CLASSES,
        "other": "drop",
        "rows": _ROWS,
        "label": "means and tables",
        "rows_are": "tumours",
        "called": {"means": "All tumours", "tables": "Tumours by size and texture"}
        | {name: name.removeprefix("mean ") for name in COLUMNS if name.startswith("mean ")},
    }
    means = {"mean": list(COLUMNS), "tolerance": {name: tolerance for name, (*_, tolerance) in COLUMNS.items()}}
    tables = {
        "derive": {
            "size": "when(col('mean radius') < 12, 'small', when(col('mean radius') < 16, 'medium', 'large'))",
            "texture": "when(col('mean texture') < 19, 'smooth', 'coarse')",
        },
        "marginals": [["size"], ["texture"], ["size", "texture"]],
        "mean": {"mean area": [["size"]]},
        "tolerance": {"size": 10, "texture": 10, "size*texture": 10, "mean(mean area)": COLUMNS["mean area"][2]},
        "combine": {"coarse less smooth": "count(texture='coarse') - count(texture='smooth')"},
    }
    numbers = {name: number for name, number in promise.to_dict().items() if name != "kind"}
    return Job.from_dict(paths | facts | numbers | {"question": {"means": means, "tables": tables}})
