"""`inid demo`: the main job on a public medical table, with a report to look at and a file to run it again."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from inid.arguments import Floats
from inid.cli.commands.base import Command, Values
from inid.cli.commands.release import run_job
from inid.cli.console import Console
from inid.cli.files import write_whole
from inid.cli.options import COMMON, PROMISE, Option, flag_name
from inid.cli.plan_table import print_gain
from inid.errors import MissingExtraError
from inid.jobs import Job, ReleasedJob, read_budget
from inid.jobs import values as check
from inid.promises import ApproxDP, Budget

__all__ = ["COLUMNS", "DEMO"]

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


def demo(values: Values) -> None:
    """Write the table and the job as files, release by them, and say what was gained."""
    console = Console(values)
    folder = check.path("--out", values.get("out")) or Path("out")
    promise = read_budget(values, flag_name) or ApproxDP(epsilon=1.0, delta=1e-6)
    data = _data()
    folder.mkdir(parents=True, exist_ok=True)
    # The ledger of the demo before this one: it counts a public table, and a second run would find it spent.
    (folder / "demo.db").unlink(missing_ok=True)
    write_whole(folder / "demo.csv", _csv(data))
    job = _job(folder, promise)
    write_whole(folder / "demo.toml", job.to_toml())
    released = run_job(Console({"quiet": True}), job, title="Thirty means of a medical table")
    console.document({**released.record, "command": "demo"})
    _explain(console, folder, released, data)


def _explain(console: Console, folder: Path, released: ReleasedJob, data: Floats) -> None:
    plan = released.planned.summary
    held = sum(
        row.lower is not None and row.upper is not None and row.lower <= exact <= row.upper
        for row, exact in zip(released.estimates, _means(data), strict=True)
    )
    near = sum(line.tolerance is not None and line.deviation <= line.tolerance for line in plan.lines)
    console.line(
        f"Thirty means of {len(data)} tumours, released under {plan.noise.budget} with {plan.noise.mechanism} noise."
    )
    print_gain(console, plan)
    console.line(
        "The fair opponent is the equal split: i.i.d. noise ignores that the columns have different units, so any "
        "method that does not beats it by far."
    )
    console.line(
        f"{near} of 30 means are expected within their tolerance (one standard deviation of the noise). The table is "
        f"public, so the demo may look: {held} of 30 intervals hold the exact mean."
    )
    console.line(f"Look at {folder / 'report.html'}; the estimates are in {folder / 'result.csv'}.")
    file = folder / "demo.toml"
    console.line(f"The same in your own words: edit {file}, then inid release --config {file}")


def _data() -> Floats:
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError:
        raise MissingExtraError(
            "the demo's table comes with scikit-learn, which is not installed: run pip install scikit-learn."
        ) from None
    bunch = load_breast_cancer()
    order = [list(bunch.feature_names).index(name) for name in COLUMNS]
    return np.asarray(bunch.data[:, order], dtype=np.float64)


def _means(data: Floats) -> list[float]:
    limits = np.array([bounds[:2] for bounds in COLUMNS.values()])
    means: list[float] = np.clip(data, limits[:, 0], limits[:, 1]).mean(axis=0).tolist()
    return means


def _csv(data: Floats) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(data.tolist())
    return text.getvalue()


def _job(folder: Path, promise: Budget) -> Job:
    """The demo as a job; no column has missing values, so fill values save a count per column."""
    files = {"table": "demo.csv", "out": "result.csv", "report": "report.html", "ledger": "demo.db"}
    values: dict[str, Any] = {key: (folder / file).as_posix() for key, file in files.items()}
    values |= {name: number for name, number in promise.to_dict().items() if name != "kind"}
    values |= {
        "rows": _ROWS,
        "label": "demo",
        "mean": list(COLUMNS),
        "bounds": {name: [low, high] for name, (low, high, _) in COLUMNS.items()},
        "tolerance": {name: tolerance for name, (*_, tolerance) in COLUMNS.items()},
        "missing": {name: (low + high) / 2 for name, (low, high, _) in COLUMNS.items()},
    }
    return Job.from_dict(values)


DEMO = Command(
    "demo",
    demo,
    (*PROMISE, Option("out", "FOLDER", "Where the report and its files go (default: out)."), *COMMON),
    """Release thirty means of a medical table.

    The table comes with scikit-learn (pip install scikit-learn). A report to look at is left in a folder.
    """,
    """
  inid demo
  inid demo --out somewhere --epsilon 2
""",
)
