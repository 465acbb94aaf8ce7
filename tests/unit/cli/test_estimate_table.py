"""The CSV file keeps every digit, quotes what must be quoted, and holds no formula."""

import csv
import io

import pytest

from inid.cli.estimate_table import as_csv
from inid.report import Estimate


def test_the_csv_keeps_every_digit_and_quotes():
    text = as_csv([Estimate("mean", 'a,"b"', "sex=F, age=[0, 20)", 0.1 + 0.2, -1.0, None, 3.0)])
    assert text == (
        "statistic,column,groups,estimate,lower,upper,scale\n"
        'mean,"a,""b""","sex=F, age=[0, 20)",0.30000000000000004,-1.0,,3.0\n'
    )


@pytest.mark.parametrize("name", ['=HYPERLINK("x")', "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_no_name_becomes_a_formula_and_numbers_stay_numbers(name):
    (row,) = csv.DictReader(
        io.StringIO(as_csv([Estimate("mean", name, f"{name}=F", -1.5, -2.0, -1.0, 0.5)]), newline="")
    )
    assert row["column"] == f"'{name}"
    assert row["groups"] == f"'{name}=F"
    assert float(row["estimate"]) == -1.5
