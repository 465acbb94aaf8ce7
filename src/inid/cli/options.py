"""Every option of the command, written once, and what flags and a TOML file state by them.

A command takes a few of the groups of options, as flags or from a file; flags win over the file.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import typer

from inid.accounting.addresses import read_address
from inid.arguments import shown
from inid.errors import ArgumentError
from inid.jobs import KEYS, Job, read_toml
from inid.jobs.flag_syntax import separator_of, syntax_of
from inid.jobs.result_files import check_apart

__all__ = [
    "COMMON",
    "LEDGER_NAME",
    "NOISE",
    "PART",
    "PROMISE",
    "STATED",
    "TABLE",
    "Option",
    "argument",
    "flag_name",
    "job_from",
    "read_values",
]


@dataclass(frozen=True)
class Option:
    """One option of a command.

    Attributes:
        key: Its name in a file; the flag is the same with dashes.
        metavar: What stands for its value in the help.
        text: What it means.
        kind: One value, a list that may be given several times, a switch without a value, or a positional argument.
        negative: Whether a switch can also be turned off by a flag.
        in_file: Whether a file may hold it.
    """

    key: str
    metavar: str
    text: str
    kind: Literal["value", "list", "switch", "argument"] = "value"
    negative: bool = False
    in_file: bool = True

    @property
    def flag(self) -> str:
        """The flag as it is written."""
        return f"--{self.key.replace('_', '-')}"

    @property
    def annotation(self) -> Any:
        """The type of its value on the command line."""
        return {"list": list[str] | None, "switch": bool | None}.get(self.kind, str | None)

    @property
    def declaration(self) -> Any:
        """The option as the command-line library takes it."""
        if self.kind == "argument":
            return typer.Argument(metavar=self.metavar, help=self.text)
        if self.kind == "switch":
            name = f"{self.flag}/--no-{self.flag[2:]}" if self.negative else self.flag
            return typer.Option(name, help=self.text, show_default=False)
        return typer.Option(self.flag, metavar=self.metavar, help=self.text)


def argument(key: str, metavar: str, text: str) -> Option:
    """A positional argument."""
    return Option(key, metavar, text, "argument")


def _columns(key: str, text: str) -> Option:
    return Option(key, "COL,...", text, "list")


def flag_name(key: str) -> str:
    """How errors name a key: TABLE for the positional argument, the flag for the others.

    >>> flag_name("max_rows"), flag_name("table")
    ('--max-rows', 'TABLE')
    """
    return "TABLE" if key == "table" else f"--{key.replace('_', '-')}"


COMMON = (
    Option("config", "FILE", "Read options from a TOML file; flags win over it.", in_file=False),
    Option("json", "", "Print one JSON document for machines, and nothing else.", "switch"),
    Option("quiet", "", "Print nothing but errors.", "switch"),
)

TABLE = (
    argument("table", "TABLE", "A CSV or Parquet file."),
    Option("bounds", "COL=LO:HI,...", "Public limits of each column; values beyond are clipped.", "list"),
    Option("count", "", "The number of rows.", "switch", negative=True),
    Option("count_distinct", "", "With --person: the number of people.", "switch", negative=True),
    _columns("sum", 'Sums of columns; "income by sex", "income by region,sex" by several tables, like --mean.'),
    _columns("mean", 'Means of columns; "income by sex" by tables over columns with --domains, any number of them.'),
    _columns("variance", "Variances of columns."),
    _columns("std", "Standard deviations of columns."),
    _columns("covariance", "The covariance matrix of columns."),
    Option("histogram", "COL=EDGE,...", "Counts in public bins, or of public categories.", "list"),
    Option("quantile", "COL=P,...", "Quantiles of columns with --bounds (or --domains, in order).", "list"),
    Option("cdf", "COL [by COL,...]", 'The distribution function of a column, or in groups: "age by sex".', "list"),
    Option("cumulative", "COL [by COL,...]", "Running totals in rows, likewise.", "list"),
    Option(
        "by",
        "COL=KEY,...",
        "All of it for each of these public keys; or with columns alone, which have --domains, a grouping of --count, "
        "--mean and --sum: give it once per grouping (* is the whole table).",
        "list",
    ),
    Option("discover", "COL", "The keys of a column that nobody listed, with --count or --count-distinct."),
    Option("max_keys", "N", "With --discover: how many keys of one person count (default: 1)."),
    Option("discover_delta", "X", "With --discover: how likely a key that only one person has may appear, say 1e-8."),
    Option("discover_kind", "WORD", "With --discover: the keys are str (the default), int or bool."),
    Option("choose", "COL=KEY,...", "The largest of these groups, by rows or, with --count-distinct, people.", "list"),
    Option("synthetic", "", "Synthetic rows of all columns with --domains or --bins; see --rows-out.", "switch"),
    _columns("synthetic_columns", "With --synthetic: of these columns only."),
    Option("synthetic_target", "COL", "With --synthetic: the column that models of the rows will predict."),
    Option("bins", "COL=N,...", "With --synthetic: how many bins a column of numbers has, or their edges.", "list"),
    Option("missing", "COL=VALUE,...", "Public fill values; without one a missing value is left out.", "list"),
    Option("where", "CONDITION", "Only rows for which it holds: \"age >= 18 and sex in ['F', 'M']\"."),
    Option(
        "derive",
        "COL=FORMULA;...",
        "Columns computed from others: bmi=weight / height ** 2; give each --bounds, --missing or --domains as needed.",
        "list",
    ),
    Option("rows", "N", "A public guess at the number of rows, for planning and display only."),
    Option(
        "table_max_rows",
        "N",
        "A public upper limit on the rows of the table (default: 2^32). With more rows sums and counts stop at the "
        "limit and the answers are wrong: state it generously.",
    ),
    Option("person", "COL", "The column that identifies people; without it a row is the unit."),
    Option("max_rows", "N", "With --person: how many rows of one person count; the others are left out."),
    _columns("order_by", "With --person: which of their rows come first."),
    Option("neighbours", "RELATION", "add_remove, replace or zero_out (default: the ledger's, else add_remove)."),
    Option("domains", "COL=KEY,...", "Public values of columns of --marginals, or in order; 0:115 is a range.", "list"),
    Option("other", "WORD", "Rows with other keys: cell (one more cell, the default) or drop."),
    Option(
        "marginals",
        "COL,...",
        "A table of counts over columns with --domains; give it once per table, or a number for all tables over so "
        "many columns.",
        "list",
    ),
)

STATED = (
    argument("table", "TABLE", "A CSV or Parquet file; or leave it out and state --sensitivity."),
    *TABLE[1:],
    Option("sensitivity", "X,...", "Without a table: how far one person moves each number.", "list"),
    Option("labels", "NAME,...", "With --sensitivity: a name for each number.", "list"),
    Option("l1", "X", "With --sensitivity: a cap on the sum of all changes."),
    Option("l2", "X", "With --sensitivity: a cap on the root of the sum of squared changes."),
)

PROMISE = (
    Option("epsilon", "X", "Pure DP; with --delta, (epsilon, delta)-DP."),
    Option("delta", "X", "The delta that goes with --epsilon."),
    Option("mu", "X", "Gaussian DP."),
    Option("rho", "X", "Zero-concentrated DP."),
)

NOISE = (
    Option("mechanism", "NAME", "auto (the smaller error, the default), gaussian or laplace."),
    Option("allocation", "NAME", "optimal (the default); iid and spr are the baselines."),
    Option("tolerance", "NAME=X,...", "The error you could live with, by column or label.", "list"),
    Option("weights", "NAME=X,...", "What a unit of error costs, instead of --tolerance.", "list"),
    Option("objective", "NAME", "With --marginals: max (the largest error, the default) or sum."),
    Option("order", "P", "The order of the error that is minimized: 2 (the default), 1, ..."),
)

PART = Option("part", "P", "A part of the ledger, such as 1/3, or rest, instead of a promise in numbers.")

_DATABASES = ("ledger", "stream")
_NAMING_FILES = (*_DATABASES, "config", "table", "out", "rows_out", "report", "record")

LEDGER_NAME = Option("name", "NAME", "A database holds any number of ledgers; this one (default: default).")


def read_values(options: Sequence[Option], flags: Mapping[str, Any], elsewhere: Collection[str] = ()) -> dict[str, Any]:
    """The values of a command: what the flags state, and where they state nothing, the file.

    Args:
        options: The options that the command takes.
        flags: What was written on the command line; None where nothing was.
        elsewhere: The keys that other commands take. One file serves several commands, so these are passed over.

    Raises:
        ArgumentError: The file or a flag does not parse, the file holds a key that no command takes, or two options
            name one file.
    """
    stated: dict[str, Any] = {}
    for option in options:
        given = flags.get(option.key)
        text = separator_of(option.key, given).join(given) if isinstance(given, list) else given
        if text is None or text == "":
            continue
        stated[option.key] = syntax_of(option.key)(option.flag, text) if isinstance(text, str) else text
    path = stated.pop("config", None)
    values = stated if path is None else _from_file(options, Path(path), elsewhere) | stated
    check_apart(_files(options, values if path is None else values | {"config": path}))
    return values


def _files(options: Sequence[Option], values: Mapping[str, Any]) -> dict[str, Path | None]:
    """Every file that a command was given, to read or to write, by the name of its option."""
    files: dict[str, Path | None] = {}
    for option in options:
        named = values.get(option.key)
        if option.key not in _NAMING_FILES or not isinstance(named, str) or "\0" in named:
            continue  # one that names no file is refused where it is used
        name = option.metavar if option.kind == "argument" else option.flag
        path = read_address(named).path if option.key == "ledger" else Path(named)
        files[name] = path
        if option.key in _DATABASES and path is not None:  # the database takes a file of this name for its own
            files[f"the journal of {name}"] = path.with_name(f"{path.name}-journal")
    return files


def _from_file(options: Sequence[Option], path: Path, elsewhere: Collection[str]) -> dict[str, Any]:
    own = {option.key for option in options if option.in_file}
    try:
        content = read_toml(path)
    except ArgumentError as error:
        raise ArgumentError(f"--config: {error}") from None
    unknown = [key for key in content if key not in own and key not in elsewhere]
    if unknown:
        known = ", ".join(sorted(word.replace("_", "-") for word in own))
        raise ArgumentError(
            f"--config: {path} holds {shown(unknown[0])}, which no command takes: known here are {known}."
        )
    return {key: value for key, value in content.items() if key in own}


def job_from(values: Mapping[str, Any], leaving_out: Collection[str] = ()) -> Job:
    """The job that the values of a command state.

    Args:
        values: The values of a command.
        leaving_out: Keys that mean something else to this command than to a job.

    Raises:
        ArgumentError: A value is malformed, or values do not go together.
    """
    own = {key: value for key, value in values.items() if key in KEYS and key not in leaving_out}
    return Job.from_dict(own, named=flag_name)
