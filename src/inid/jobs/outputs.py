"""The results of a job: where they go, in which form and as which files, and combinations of cells.

A combination is a text such as `count(sex='F') - count(sex='M')` or `sum(income, sex='F') / 2`. `count` stands for a
cell of a table of counts, by its keys; a list of keys stands for all of them together, and `count()` for the total.
`sum` names a column first. A name that is no plain word is given as a text: `count(**{'home region': 'N'})`. Nothing in
the text is run.

What can be written is checked before the charge, so that what was paid for is not lost.
"""

import ast
import io
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from inid.arguments import listed, shown
from inid.errors import ArgumentError, InidError
from inid.jobs.questions import OptionGroup, StatedQuestion, TableQuestion
from inid.report import Estimate
from inid.schema import Naming
from inid.schema.values import OFF
from inid.tables.presentation import FIXED, NUMBERS
from inid.tables.query import Query

_LONGEST = 10_000
Cells = Mapping[Any, Mapping[Any, float]]
_CURE = "write for example count(sex='F') - count(sex='M'), or sum(income, sex='F') / 12"


@dataclass(frozen=True)
class StatedCombination:
    """What a text combines."""

    column: str | None
    cells: Cells


def read_combination(name: str, text: str) -> StatedCombination:
    """Read the text of a linear combination."""
    try:
        if len(text) > _LONGEST:
            raise _NotLinearError
        terms = _terms(ast.parse(text.strip(), mode="eval").body, 1.0)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, ZeroDivisionError, OverflowError):
        raise ArgumentError(f"{name} is no combination of cells, got {shown(text)}: {_CURE}.") from None
    columns = list(dict.fromkeys(column for _, column, _ in terms))
    if len(columns) > 1:
        raise ArgumentError(
            f"{name} combines counts with sums, or sums of several columns, got {shown(text)}: keep them apart."
        )
    cells: dict[Any, dict[Any, float]] = {}
    for weight, _, keys in terms:
        weights = cells.setdefault(tuple(keys), {})
        for cell in product(*keys.values()):
            weights[cell] = weights.get(cell, 0.0) + weight
    return StatedCombination(columns[0], cells)


def check_combinations(combine: Mapping[str, str], query: Query[Any, Any], name_of: Callable[[str], str]) -> None:
    """Refuse combinations of cells that a query does not ask for, before anything is spent."""
    for name, text in combine.items():
        what = f"{name_of('combine')} of {name}"
        combination = read_combination(what, text)
        try:
            query.question.check_combination(combination.cells, combination.column)
        except ArgumentError as error:
            raise ArgumentError(f"{what} does not fit: {error}") from None


class _NotLinearError(ValueError):
    """The text is something else than a linear combination of cells."""


_Term = tuple[float, str | None, dict[str, list[Any]]]  # weight, column, keys


def _terms(node: ast.AST, weight: float) -> list[_Term]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        return _terms(node.operand, -weight if isinstance(node.op, ast.USub) else weight)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, (ast.Add, ast.Sub)):
            sign = 1.0 if isinstance(node.op, ast.Add) else -1.0
            return _terms(node.left, weight) + _terms(node.right, sign * weight)
        if isinstance(node.op, ast.Mult):
            number, rest = (node.left, node.right) if _is_number(node.left) else (node.right, node.left)
            return _terms(rest, weight * _number(number))
        if isinstance(node.op, ast.Div):
            return _terms(node.left, weight / _number(node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return [(weight, *_cell(node, node.func.id))]
    raise _NotLinearError


def _cell(node: ast.Call, function: str) -> tuple[str | None, dict[str, list[Any]]]:
    if function not in ("count", "sum") or len(node.args) != (function == "sum"):
        raise _NotLinearError
    column = None
    if node.args:
        (first,) = node.args
        column = first.id if isinstance(first, ast.Name) else ast.literal_eval(first)
        if not isinstance(column, str):
            raise _NotLinearError
    keys: dict[str, list[Any]] = {}
    for keyword in node.keywords:
        value = ast.literal_eval(keyword.value)
        for name, entry in ({keyword.arg: value} if keyword.arg is not None else dict(value)).items():
            listed = list(entry) if isinstance(entry, (list, tuple)) else [entry]
            if name in keys or not listed or not all(isinstance(key, (str, int)) for key in listed):
                raise _NotLinearError
            keys[name] = listed
    return column, keys


def _is_number(node: ast.AST) -> bool:
    try:
        _number(node)
    except ValueError:
        return False
    return True


def _number(node: ast.AST) -> float:
    value = ast.literal_eval(node)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _NotLinearError
    return float(value)


_MOST = 20


def display_names(called: Mapping[str, str], questions: Sequence[str] = ()) -> dict[str, Any]:
    """The same as `Result.report` takes it."""
    names, keys = _split_names(called, questions)
    labels: dict[str, Any] = {}
    for column in dict.fromkeys([*names, *keys]):
        words = keys.get(column)
        labels[column] = names[column] if words is None else (names[column], words) if column in names else words
    return labels


def check_display_names(name: str, called: Mapping[str, str], queries: Mapping[str, Query[Any, Any]]) -> None:
    """Refuse words for what no answer names, before anything is spent. Only public names are compared."""
    keys: dict[str, set[str] | None] = {question: set() for question in queries if question}
    for query in queries.values():
        for column, public_keys in query.question.answer_keys().items():
            known = keys.get(column, set())
            keys[column] = None if public_keys is None or known is None else known | {str(key) for key in public_keys}
    names, words = _split_names(called, list(queries))
    for column in dict.fromkeys([*names, *words]):
        if column not in keys:
            raise ArgumentError(
                f"{name} names {shown(column)}, which no answer is about: known are {listed(sorted(keys), most=_MOST)}."
            )
        public_keys = keys[column]
        for key in words.get(column, ()):
            if public_keys is not None and key not in public_keys:
                there = f"known are {listed(sorted(public_keys), most=_MOST)}" if public_keys else "it has none here"
                raise ArgumentError(f"{name} names the key {shown(key)} of {shown(column)}: {there}.")


def _split_names(
    called: Mapping[str, str], questions: Sequence[str]
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The words for columns and questions, and by column those for its keys."""
    names: dict[str, str] = {}
    keys: dict[str, dict[str, str]] = {}
    for name, words in called.items():
        column, colon, key = name.partition(":")
        if colon and name not in questions:
            keys.setdefault(column, {})[key] = words
        else:
            names[name] = words
    return names, keys


class Outputs(OptionGroup):
    """Where the results go, and in which form."""

    groups = ("output",)

    def check_form(self, question: TableQuestion | StatedQuestion, name_of: Naming) -> None:
        """Refuse forms that the answers to a question do not have."""
        for name, text in self.combine.items():
            read_combination(f"{name_of('combine')} of {name}", text)
        kind = question.kind if isinstance(question, TableQuestion) else None
        tables = kind is not None and kind.combines
        several = f"{name_of('marginals')} or several {name_of('by')}"
        for key in ("tidy", "combine"):
            if getattr(self, key) and not tables:
                raise ArgumentError(f"{name_of(key)} goes with {several}: leave it out here.")
        if self.rows_out is not None and not (kind is not None and kind.makes_rows):
            raise ArgumentError(f"{name_of('rows_out')} goes with {name_of('synthetic')}: leave it out here.")
        if self.integers and tables and not self.tidy:
            raise ArgumentError(f"with {several}, {name_of('integers')} goes with {name_of('tidy')}: state both.")

    @property
    def form(self) -> dict[str, Any]:
        """How the answers are shown."""
        share = self.too_noisy
        marked = {} if share is None else {"too_noisy": None if share == OFF else float(share)}
        return {"tidy": self.tidy, "integers": self.integers, **marked}


_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
_QUOTED = ('"', "\r", "\n")


@dataclass(frozen=True)
class CsvStyle:
    """How a CSV file is written: for programs, or for spreadsheets, which open it by the habits of a country."""

    separator: str = ","
    decimal: str = "."
    marked: bool = False


FOR_PROGRAMS = CsvStyle()
FOR_SPREADSHEETS = {"point": CsvStyle(marked=True), "comma": CsvStyle(";", ",", marked=True)}


class UnwritableError(InidError, OSError):
    """A file cannot be written; nothing was charged yet."""


def check_writable(option: str, path: Path) -> None:
    """Make sure that a file can be written there, by writing one beside it."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "not a plain file"
        raise ArgumentError(f"{option} must name a file, and {str(path)!r} is {kind}.")
    folder = followed(path).parent
    if not folder.is_dir():
        raise UnwritableError(f"{option}: the folder {str(folder)!r} does not exist: make it first.")
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{path.name}."):
            pass
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied", str(path))
    except OSError as error:
        raise UnwritableError(f"{option}: {str(path)!r} cannot be written: {error.strerror}.") from None


def check_distinct_files(paths: dict[str, Path | None]) -> None:
    """Make sure that no two options name the same file, since the later one would overwrite the earlier."""
    options: dict[Path, str] = {}
    for option, path in paths.items():
        if path is None:
            continue
        other = options.setdefault(followed(path), option)
        if other != option:
            raise ArgumentError(f"{other} and {option} name the same file {str(path)!r}: name two.")


def as_csv(
    estimates: Sequence[Estimate],
    *,
    flagged: bool = False,
    queries: Sequence[str] = (),
    style: CsvStyle = FOR_PROGRAMS,
) -> str:
    """The rows of the CSV file, one column per key; numbers keep every digit, and one that does not exist is empty.

    With `queries`, the name of the question of each number, a first column holds them. With `flagged`, a last column
    says whether a number is too noisy to publish.

    Spreadsheets run a cell that begins with one of = + - @ as a formula, and a column of the table may be named so: an
    apostrophe in front makes it a text.
    """
    first, last = (["query"] if queries else []), (["too_noisy"] if flagged else [])
    names = list(dict.fromkeys(name for number in estimates for name in number.keys))
    heads = [f"{name}_key" if name in (*FIXED, *first) else name for name in names]
    lines = [_line((*first, "statistic", "column", *heads, *NUMBERS, *last), style)]
    for at, number in enumerate(estimates):
        keys = [number.keys.get(name, "") for name in names]
        cells = [
            *queries[at : at + 1],
            number.statistic,
            number.column,
            *keys,
            *(getattr(number, name) for name in NUMBERS),
        ]
        lines.append(_line([*cells, *([str(number.too_noisy).lower()] if flagged else [])], style))
    return ("\ufeff" if style.marked else "") + "\n".join(lines) + "\n"


def frame_as_csv(frame: Any, *, harmless: bool = False) -> str:
    """A PyArrow table as a CSV file, to be read again by programs: values as they are, and missing ones empty."""
    from pyarrow import csv

    content = io.BytesIO()
    csv.write_csv(_harmless(frame) if harmless else frame, content)
    return content.getvalue().decode("utf-8")


def _harmless(frame: Any) -> Any:
    import pyarrow as pa

    columns = []
    for column in frame.columns:
        words = {one: _text(one) for one in column.unique().to_pylist() if isinstance(one, str)}
        runs = any(word != one for one, word in words.items())
        columns.append(pa.array([words.get(one) for one in column.to_pylist()], pa.string()) if runs else column)
    return pa.table(columns, names=[_text(name) for name in frame.column_names])


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that readers, and a crash, see the old one or the new one, never half of it."""
    path = followed(path)  # what a link points to is replaced, not the link
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # mkstemp makes files for the owner alone; a result is as readable as any other file of this user.
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def followed(path: Path) -> Path:
    """Where a path leads; a loop of links is a link that leads to itself, and no error."""
    return Path(os.path.realpath(path))


def _line(cells: Sequence[str | float | None], style: CsvStyle) -> str:
    return style.separator.join(_csv_cell(cell, style) for cell in cells)


def _text(value: str) -> str:
    """A text that no spreadsheet runs."""
    return f"'{value}" if value.startswith(_FORMULA_STARTS) else value


def _csv_cell(value: str | float | None, style: CsvStyle) -> str:
    if not isinstance(value, str):
        return "" if value is None else repr(value).replace(".", style.decimal)
    text = _text(value)
    # The csv module would leave a lone carriage return unquoted, which readers take for the end of a row.
    quoted = any(mark in text for mark in (style.separator, *_QUOTED))
    return '"' + text.replace('"', '""') + '"' if quoted else text
