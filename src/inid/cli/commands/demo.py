"""`inid demo`: the main job on a public medical table, with a report to look at and a file to run it again."""

from pathlib import Path

from inid.arguments import Floats
from inid.cli.commands.base import Command, Values
from inid.cli.commands.release import run_job
from inid.cli.console import Console
from inid.cli.options import COMMON, PROMISE, Option, flag_name
from inid.cli.plan_table import print_gain
from inid.jobs import ReleasedJob, read_budget
from inid.jobs import values as check
from inid.jobs.demonstration import (
    COLUMNS,
    demonstration_csv,
    demonstration_job,
    demonstration_table,
    demonstration_truth,
)
from inid.jobs.result_files import write_whole
from inid.promises import ApproxDP

__all__ = ["DEMO"]


def demo(values: Values) -> None:
    """Write the table and the job as files, release by them, and say what was gained."""
    console = Console(values)
    folder = check.path("--out", values.get("out")) or Path("out")
    promise = read_budget(values, flag_name) or ApproxDP(epsilon=1.0, delta=1e-6)
    data = demonstration_table()
    folder.mkdir(parents=True, exist_ok=True)
    # The ledger of the demo before this one: it counts a public table, and a second run would find it spent.
    (folder / "demo.db").unlink(missing_ok=True)
    write_whole(folder / "demo.csv", demonstration_csv(data))
    job = demonstration_job(folder, promise)
    write_whole(folder / "demo.toml", job.to_toml())
    released = run_job(Console({"quiet": True}), job, title="Thirty means of a medical table")
    console.document({**released.record, "command": "demo"})
    _explain(console, folder, released, data)


def _explain(console: Console, folder: Path, released: ReleasedJob, data: Floats) -> None:
    plan = released.planned.summary
    exact_means = [demonstration_truth(data, "mean", name, limits[:2]) for name, limits in COLUMNS.items()]
    held = sum(
        None not in (row.lower, exact, row.upper) and row.lower <= exact <= row.upper  # type: ignore[operator]
        for row, exact in zip(released.estimates, exact_means, strict=True)
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
