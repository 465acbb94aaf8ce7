"""Public lists of codes: read from a file that somebody brings, and compared with another public list.

A list comes from outside the table, an office's classification say. A file with the columns of the table itself is no
such list, and is refused by its names alone.
"""

import csv
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from inid.errors import ArgumentError
from inid.studio.folder import is_text

__all__ = ["Comparison", "ListColumn", "compare_lists", "read_code_list"]

_SEPARATORS = ("\t", ";", "|", ",")
_MOST_COLUMNS = 100
_MOST_CODES = 2**16
_MOST_COMPARED = 2_000  # near spellings are looked for one by one
_NEAR = 0.6  # of 1, as `difflib` measures it


@dataclass(frozen=True)
class ListColumn:
    """One column of a file of codes.

    Attributes:
        name: What its first line says.
        values: What stands below it, each once.
    """

    name: str
    values: tuple[str, ...]


def read_code_list(text: str, table: Collection[str] = ()) -> list[ListColumn]:
    r"""The columns of a CSV file of codes.

    Args:
        text: The file.
        table: The names of the columns of the table that is to be published.

    Raises:
        ArgumentError: It is empty, no text, too long, or the table itself.

    >>> read_code_list("code;name\nF;women\nM;men\n")
    [ListColumn(name='code', values=('F', 'M')), ListColumn(name='name', values=('women', 'men'))]
    """
    if not is_text(text):
        raise ArgumentError("the file is not a text: bring a list of codes as a CSV file in UTF-8.")
    first = text.removeprefix("\ufeff").lstrip().partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    try:
        lines = csv.reader(io.StringIO(text.removeprefix("\ufeff")), delimiter=separator)
        rows = [[cell.strip() for cell in row] for row in lines if any(cell.strip() for cell in row)]
    except csv.Error:
        raise ArgumentError("the file does not parse as CSV: bring one code per line.") from None
    if not rows:
        raise ArgumentError("the file holds no codes: bring one code per line.")
    if len(rows) > _MOST_CODES or max(map(len, rows)) > _MOST_COLUMNS:
        raise ArgumentError(
            f"the file is too long for a list of codes: at most {_MOST_CODES:,} lines of {_MOST_COLUMNS} columns."
        )
    names = rows[0]
    if len(names) > 1 and set(names) <= set(table):
        raise ArgumentError(
            "the file has the columns of the table itself. Codes are public knowledge and are never read off the "
            "table: bring a list from elsewhere, a classification say."
        )
    return [
        ListColumn(name, tuple(dict.fromkeys(row[at] for row in rows[1:] if at < len(row) and row[at])))
        for at, name in enumerate(names)
    ]


@dataclass(frozen=True)
class Comparison:
    """Two lists beside each other.

    Attributes:
        agree: How many codes stand in both.
        only_here: Codes of the first list alone.
        only_there: Codes of the second alone.
        near: Codes of the first alone, each with the one of the second alone that is spelt nearly like it.
    """

    agree: int
    only_here: tuple[str, ...]
    only_there: tuple[str, ...]
    near: tuple[tuple[str, str], ...]


def compare_lists(here: Sequence[str], there: Sequence[str]) -> Comparison:
    """Two public lists of codes: what agrees, what does not, and which spellings are near each other.

    >>> compare_lists(["Bachelor", "Masters", "PhD"], ["Bachelors", "Masters"])
    Comparison(agree=1, only_here=('Bachelor', 'PhD'), only_there=('Bachelors',), near=(('Bachelor', 'Bachelors'),))
    """
    own, other = dict.fromkeys(here), dict.fromkeys(there)
    only_here, only_there = [code for code in own if code not in other], [code for code in other if code not in own]
    left = {code.casefold(): code for code in reversed(only_there[:_MOST_COMPARED])}
    near: list[tuple[str, str]] = []
    for code in only_here[:_MOST_COMPARED]:
        near += [(code, left.pop(found)) for found in get_close_matches(code.casefold(), left, 1, _NEAR)]
    return Comparison(len(own) - len(only_here), tuple(only_here), tuple(only_there), tuple(near))
