"""`inid demo`: the main job on a public medical table, with a report to look at and a file to run it again."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from inid.arguments import Floats
from inid.cli import reading
from inid.cli.configuring import configured
from inid.cli.files import write_whole
from inid.cli.options import Promise, Speech, option
from inid.cli.promising import promised
from inid.cli.releasing import Delivered, ReleaseOptions, run_release
from inid.cli.speaking import Voice
from inid.errors import MissingExtraError

__all__ = ["COLUMNS", "DemoOptions", "demo"]

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


@dataclass(frozen=True, kw_only=True)
class DemoOptions(Speech, Promise):
    """The options of `inid demo`."""

    out: object = option("--out", "FOLDER", "Where the report and its files go (default: out).")


def demo(options: DemoOptions) -> None:
    """Write the table and the options as files, release by them, and say what was gained."""
    voice = Voice(options)
    folder = reading.path("--out", options.out) or Path("out")
    stated = any(getattr(options, name) is not None for name in ("epsilon", "delta", "mu", "rho"))
    promise = promised(options) if stated else promised(Promise(epsilon="1", delta="1e-6"))
    values = _table()
    folder.mkdir(parents=True, exist_ok=True)
    # The ledger of the demo before this one: it counts a public table, and a second run would find it spent.
    (folder / "demo.db").unlink(missing_ok=True)
    write_whole(folder / "demo.csv", _csv(values))
    numbers = {name: value for name, value in promise.to_dict().items() if name != "kind"}
    write_whole(folder / "demo.toml", _toml(folder, numbers))
    silent = configured(ReleaseOptions, {"config": str(folder / "demo.toml"), "quiet": True})
    done = run_release(Voice(silent), silent, title="Thirty means of a medical table")
    if voice.json:
        voice.document({**done.document, "command": "demo"})
    _tell(voice, folder, done, values)


def _tell(voice: Voice, folder: Path, done: Delivered, values: Floats) -> None:
    planned = done.planned
    held = sum(
        row.lower is not None and row.upper is not None and row.lower <= exact <= row.upper
        for row, exact in zip(done.estimates, _means(values), strict=True)
    )
    near = sum(line.tolerance is not None and line.deviation <= line.tolerance for line in planned.lines)
    voice.say(
        f"Thirty means of {len(values)} tumours, released under {planned.noise.budget} "
        f"with {planned.noise.mechanism} noise."
    )
    planned.show_gain(voice)
    voice.say(
        "The fair opponent is the equal split: i.i.d. noise ignores that the columns have different units, so any "
        "method that does not beats it by far."
    )
    voice.say(
        f"{near} of 30 means are expected within their tolerance (one standard deviation of the noise). The table is "
        f"public, so the demo may look: {held} of 30 intervals hold the exact mean."
    )
    voice.say(f"Look at {folder / 'report.html'}; the estimates are in {folder / 'result.csv'}.")
    voice.say(
        f"The same in your own words: edit {folder / 'demo.toml'}, then inid release --config {folder / 'demo.toml'}"
    )


def _table() -> Floats:
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError:
        raise MissingExtraError(
            "the demo's table comes with scikit-learn, which is not installed: run pip install scikit-learn."
        ) from None
    bunch = load_breast_cancer()
    order = [list(bunch.feature_names).index(name) for name in COLUMNS]
    return np.asarray(bunch.data[:, order], dtype=np.float64)


def _means(values: Floats) -> list[float]:
    limits = np.array([bounds[:2] for bounds in COLUMNS.values()])
    means: list[float] = np.clip(values, limits[:, 0], limits[:, 1]).mean(axis=0).tolist()
    return means


def _csv(values: Floats) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(values.tolist())
    return text.getvalue()


def _toml(folder: Path, promise: dict[str, float]) -> str:
    """The demo as an options file; no column has missing values, so fill values save a count per column."""
    paths = {"table": "demo.csv", "out": "result.csv", "report": "report.html", "ledger": "demo.db"}
    lines = [f'{name} = "{(folder / file).as_posix()}"' for name, file in paths.items()]
    lines += [f"{name} = {value!r}" for name, value in promise.items()]
    lines += [f"rows = {_ROWS}", 'label = "demo"', "mean = ["]
    lines += [f'  "{name}",' for name in COLUMNS] + ["]", "", "[bounds]"]
    lines += [f'"{name}" = [{low:g}, {high:g}]' for name, (low, high, _) in COLUMNS.items()]
    lines += ["", "[tolerance]"] + [f'"{name}" = {tolerance:g}' for name, (*_, tolerance) in COLUMNS.items()]
    lines += ["", "[missing]"] + [f'"{name}" = {(low + high) / 2:g}' for name, (low, high, _) in COLUMNS.items()]
    return "\n".join(lines) + "\n"
