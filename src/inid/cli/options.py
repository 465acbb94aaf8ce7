"""Every option of the command, written once: each command takes a few of these groups, as flags or from a TOML file.

A field holds what the user wrote, a flag's text or a TOML value; `reading` turns it into what the library takes. The
fields of a group are the keys of the file, so the two can never differ.
"""

from dataclasses import dataclass, field
from typing import Any

import typer

__all__ = ["Noise", "Promise", "Settings", "Speech", "Stated", "Subject"]


def argument(metavar: str, text: str) -> Any:
    """A positional argument."""
    return field(default=None, metadata={"flag": typer.Argument(metavar=metavar, help=text), "type": str | None})


def option(name: str, metavar: str, text: str, *, in_file: bool = True) -> Any:
    """An option with one value; some are flags only."""
    flag = typer.Option(name, metavar=metavar, help=text)
    return field(default=None, metadata={"flag": flag, "type": str | None, "in_file": in_file})


def listed(name: str, metavar: str, text: str) -> Any:
    """An option that may be given several times; the values are joined by commas."""
    flag = typer.Option(name, metavar=metavar, help=text)
    return field(default=None, metadata={"flag": flag, "type": list[str] | None})


def switched(name: str, text: str) -> Any:
    """An option without a value."""
    flag = typer.Option(name, help=text, show_default=False)
    return field(default=None, metadata={"flag": flag, "type": bool | None})


@dataclass(frozen=True, kw_only=True)
class Speech:
    """How the command is told and how it answers."""

    config: object = option("--config", "FILE", "Read options from a TOML file; flags win over it.")
    json: object = switched("--json", "Print one JSON document for machines, and nothing else.")
    quiet: object = switched("--quiet", "Print nothing but errors.")


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is asked of a table."""

    table: object = argument("TABLE", "A CSV or Parquet file.")
    bounds: object = listed("--bounds", "COL=LO:HI,...", "Public limits of each column; values beyond are clipped.")
    count: object = switched("--count/--no-count", "The number of rows.")
    sum: object = listed("--sum", "COL,...", "Sums of columns.")
    mean: object = listed("--mean", "COL,...", "Means of columns.")
    variance: object = listed("--variance", "COL,...", "Variances of columns.")
    std: object = listed("--std", "COL,...", "Standard deviations of columns.")
    covariance: object = listed("--covariance", "COL,...", "The covariance matrix of columns.")
    histogram: object = listed("--histogram", "COL=EDGE,...", "Counts in public bins, or of public categories.")
    by: object = listed("--by", "COL=KEY,...", "All of it for each of these public keys.")
    missing: object = listed(
        "--missing", "COL=VALUE,...", "Public fill values; without one a missing value is left out."
    )
    rows: object = option("--rows", "N", "A public guess at the number of rows, for planning and display only.")
    table_max_rows: object = option(
        "--table-max-rows",
        "N",
        "A public upper limit on the rows of the table (default: 2^32). With more rows sums and counts stop at the "
        "limit and the answers are wrong: state it generously.",
    )
    person: object = option("--person", "COL", "The column that tells people apart; without it a row is the unit.")
    max_rows: object = option(
        "--max-rows", "N", "With --person: how many rows of one person count; the others are left out."
    )
    order_by: object = listed("--order-by", "COL,...", "With --person: which of their rows come first.")
    neighbours: object = option("--neighbours", "RELATION", "add_remove (the default) or replace.")


@dataclass(frozen=True, kw_only=True)
class Stated(Subject):
    """The same, or without a table numbers whose sensitivities are known."""

    table: object = argument("TABLE", "A CSV or Parquet file; or leave it out and state --sensitivity.")
    sensitivity: object = listed("--sensitivity", "X,...", "Without a table: how far one person moves each number.")
    labels: object = listed("--labels", "NAME,...", "With --sensitivity: a name for each number.")
    l1: object = option("--l1", "X", "With --sensitivity: a cap on the sum of all changes.")
    l2: object = option("--l2", "X", "With --sensitivity: a cap on the root of the sum of squared changes.")


@dataclass(frozen=True, kw_only=True)
class Promise:
    """What is promised: one of epsilon (with or without delta), mu, rho."""

    epsilon: object = option("--epsilon", "X", "Pure DP; with --delta, (epsilon, delta)-DP.")
    delta: object = option("--delta", "X", "The delta that goes with --epsilon.")
    mu: object = option("--mu", "X", "Gaussian DP.")
    rho: object = option("--rho", "X", "Zero-concentrated DP.")


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How the promise is spent."""

    mechanism: object = option("--mechanism", "NAME", "auto (the smaller error, the default), gaussian or laplace.")
    allocation: object = option("--allocation", "NAME", "optimal (the default); iid and spr are the baselines.")
    tolerance: object = listed("--tolerance", "NAME=X,...", "The error you could live with, by column or label.")
    weights: object = listed("--weights", "NAME=X,...", "What a unit of error costs, instead of --tolerance.")
    order: object = option("--order", "P", "The order of the error that is made small: 2 (the default), 1, ...")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Which ledger, and what it counts."""

    name: object = option("--name", "NAME", "A database holds any number of ledgers; this one (default: default).")
