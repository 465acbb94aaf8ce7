"""`inid demo`: means and tables of a public medical table, with a report to look at and a file to run it again."""

from pathlib import Path

from inid.arguments import Floats
from inid.cli.commands.release import run_job
from inid.cli.console import Console, print_gain
from inid.cli.options import COMMON, PROMISE, Command, Values, flag_name
from inid.jobs import ReleasedJob, read_budget
from inid.jobs.demonstration import (
    COLUMNS,
    demonstration_counts,
    demonstration_csv,
    demonstration_publication,
    demonstration_table,
    demonstration_truth,
)
from inid.jobs.outputs import write_atomically
from inid.promises import ApproxDP
from inid.report.wording import belief_after, rounded_interval
from inid.schema import key

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
    write_atomically(folder / "demo.csv", demonstration_csv(data))
    job = demonstration_publication(folder, promise)
    released = run_job(Console({"quiet": True}), job, title="Tumours in a medical table")
    write_atomically(folder / "demo.toml", job.to_toml())
    console.document({**released.document, "command": "demo"})
    _explain(console, folder, released, data)


def _explain(console: Console, folder: Path, released: ReleasedJob, data: Floats) -> None:
    plan, means, tables = released.planned.summary, *(part.estimates for part in released.parts.values())
    console.line(
        f"A public table of {len(data)} tumours was released as if it were secret: thirty means, and counts by size "
        "and texture with the mean area by size. Random noise was added to every number before it was published."
    )
    parameters = {name: number for name, number in plan.budget.to_dict().items() if name != "kind"}
    console.line(
        "What is promised: somebody who thinks it an even chance whether a tumour is in the table can be about "
        f"{belief_after(plan.budget).percent} sure at most after seeing all of it "
        f"({' '.join(f'{flag_name(name)} {number:g}' for name, number in parameters.items())})."
    )
    print_gain(console, plan)
    exact_means = [demonstration_truth(data, "mean", name, limits[:2]) for name, limits in COLUMNS.items()]
    covered = sum(
        None not in (number.lower, exact, number.upper) and number.lower <= exact <= number.upper  # type: ignore[operator]
        for number, exact in zip(means, exact_means, strict=True)
    )
    within = sum(line.tolerance is not None and line.deviation <= line.tolerance for line in plan.lines[: len(COLUMNS)])
    console.line(
        f"{within} of 30 means are expected within the error that was called tolerable (one standard deviation of the "
        f"noise). The table is public, so the demo may look: {covered} of 30 ranges hold the exact mean."
    )
    console.line()
    exact = demonstration_counts(data)
    lines = [["size", "texture", "tumours", "95% from", "to", "exact"]]
    for number in tables:
        cell = str(number.keys.get("size", "")), str(number.keys.get("texture", ""))
        if number.statistic == "count" and cell in exact:
            lines.append([*cell, *rounded_interval(number.estimate, number.lower, number.upper), str(exact[cell])])
    console.table(lines, left=2)
    console.line("The tables agree: the cells of this one add up to those of the two smaller ones.")
    console.line()
    console.line(
        f"Look at {folder / 'report.html'}, one page for all of it; the estimates are in {folder / 'result.csv'}, and "
        f"inid verify {folder / 'record.json'} proves them again."
    )
    file = folder / "demo.toml"
    console.line(f"To ask something else: edit {file}, its ledger too, and run inid release --config {file}.")
    if released.ledger is not None:
        console.line(
            f"The ledger {folder / 'demo.db'} keeps count: the promise is spent, so a second release is refused."
        )


DEMO = Command(
    "demo",
    demo,
    (*PROMISE, _OUT, *COMMON),
    """Release thirty means and tables of a medical table, under one promise and on one page.

    The table comes with scikit-learn (pip install scikit-learn). A report to look at is left in a folder.
    """,
    """
  inid demo
  inid demo --out somewhere --epsilon 2
""",
)
