"""--drawn by command: ranges cover the sampling error, the record does not, and what has none is refused unpaid."""

import json
from pathlib import Path

import pytest

from command_line import folder, run, sqlite_charges

__all__ = ["folder"]

ASKED = "people.csv --bounds income=0:500000 --mean income --by sex=F,M --mu 1 --ledger budget.db"


def test_the_share_that_was_drawn_widens_what_is_printed_and_written(folder):
    made = run(f"release {ASKED} --drawn 0.02 --json --record record.json --report page.html --out out.csv")
    shown = json.loads(made.stdout)
    assert shown["drawn"] == 0.02
    for noise, both in zip(shown["results"], shown["sampled"], strict=True):
        assert (both["lower"], both["upper"]) != (noise["lower"], noise["upper"])
        assert both["lower"] <= noise["lower"] < noise["upper"] <= both["upper"]
    written = [line.split(",") for line in Path("out.csv").read_text().splitlines()]
    assert [float(row[written[0].index("upper")]) for row in written[1:]] == [row["upper"] for row in shown["sampled"]]
    record = json.loads(Path("record.json").read_text())
    assert [row["upper"] for row in record["answers"]] == [row["upper"] for row in shown["results"]]
    assert run("verify record.json").exit_code == 0
    words = "simple random sample of 2 % of the population"
    assert words in Path("page.html").read_text()
    assert words in run(f"release {ASKED.replace('budget', 'other')} --drawn 0.02").stdout


@pytest.mark.parametrize(
    "words", ["--drawn 0", "--drawn 1", "--drawn half", "--drawn 0.02 --person user_id --max-rows 2"]
)
def test_what_has_no_sampling_error_is_refused_before_the_charge(folder, words):
    run("ledger create budget.db --mu 3" + (" --unit user_id" if "person" in words else ""))
    refused = run(f"release {ASKED} {words}")
    assert refused.exit_code == 2
    assert "--drawn" in refused.stderr
    assert sqlite_charges("budget.db") == 0
