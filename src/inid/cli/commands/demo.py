"""`inid demo`: means and tables of a public medical table, with reports to look at and files to run them again."""

from pathlib import Path

from inid.arguments import Floats
from inid.cli.commands.base import Command, Values
from inid.cli.commands.release import run_job
from inid.cli.console import Console, print_gain
from inid.cli.options import COMMON, PROMISE, flag_name
from inid.jobs import ReleasedJob, read_budget
from inid.jobs.demonstration import (
    COLUMNS,
    demonstration_counts,
    demonstration_csv,
    demonstration_job,
    demonstration_table,
    demonstration_tables_job,
    demonstration_truth,
)
from inid.jobs.ledgers import make_ledger
from inid.jobs.result_files import write_whole
from inid.promises import ApproxDP
from inid.report.number_text import rounded_interval
from inid.schema import key

__all__ = ["DEMO"]

_OUT = key("out").saying("Where the report and its files go (default: out).", metavar="FOLDER")


def demo(values: Values) -> None:
    """Write the table and the job as files, release by them, and say what was gained."""
    console = Console(values)
    folder = _OUT.of(values) or Path("out")
    promise = read_budget(values, flag_name) or ApproxDP(epsilon=1.0, delta=1e-6)
    data = demonstration_table()
    folder.mkdir(parents=True, exist_ok=True)
    # The ledger of the demo before this one: it counts a public table, and a second run would find it spent.
    (folder / "demo.db").unlink(missing_ok=True)
    write_whole(folder / "demo.csv", demonstration_csv(data))
    twice = {name: 2 * number for name, number in promise.to_dict().items() if name != "kind"}
    make_ledger(str(folder / "demo.db"), "default", type(promise)(**twice)).close()
    jobs = {"demo.toml": demonstration_job(folder, promise), "tables.toml": demonstration_tables_job(folder, promise)}
    titles = ("Thirty means of a medical table", "Tumours by size and texture")
    quiet = Console({"quiet": True})
    means, tables = (run_job(quiet, job, title=title) for job, title in zip(jobs.values(), titles, strict=True))
    for file, job in jobs.items():
        write_whole(folder / file, job.to_toml())
    console.document({**means.document, "command": "demo", "tables": tables.document})
    _explain(console, folder, means, data)
    _explain_tables(console, folder, tables, data)


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


def _explain_tables(console: Console, folder: Path, released: ReleasedJob, data: Floats) -> None:
    console.line()
    console.line(
        "The same table again, for the same price: counts by size, by texture and by both, and the mean area by size. "
        "All of them share one promise, and they agree: the cells of the last table add up to those of the first two."
    )
    exact = demonstration_counts(data)
    rows = [["size", "texture", "estimate", "95% lower", "upper", "exact"]]
    for row in released.estimates:
        cell = str(row.keys.get("size", "")), str(row.keys.get("texture", ""))
        if row.statistic == "count" and cell in exact:
            rows.append([*cell, *rounded_interval(row.estimate, row.lower, row.upper), str(exact[cell])])
    console.table(rows, left=2)
    print_gain(console, released.planned.summary)
    file = folder / "tables.toml"
    console.line(f"Look at {folder / 'tables.html'}; the job is in {file}.")
    ledger = released.ledger
    if ledger is not None:
        console.line(
            f"The ledger allows {ledger.total}: both releases fit, and {ledger.percent} % of it are spent, "
            f"counted in {ledger.counted}."
        )


DEMO = Command(
    "demo",
    demo,
    (*PROMISE, _OUT, *COMMON),
    """Release thirty means of a medical table, and tables of counts beside them.

    The table comes with scikit-learn (pip install scikit-learn). Reports to look at are left in a folder.
    """,
    """
  inid demo
  inid demo --out somewhere --epsilon 2
""",
)
