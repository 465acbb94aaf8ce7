"""Public domains: the values of each attribute, stated once for a table, and the tables that are asked over them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Literal, cast

from inid.arguments import choice, integer, shown
from inid.errors import Argument, ArgumentError, Column, Words
from inid.tables.facts import Key, read_keys

__all__ = ["OTHER", "Domains", "Marginal", "Ordered", "read_domains", "read_tables", "tolerances_by_name"]

OTHER = "(other)"  # what the cell of unknown keys is called
Marginal = tuple[str, ...]
_MOST_TABLES = 2**18
_MOST_CELLS = 2**26  # of one table


@dataclass(frozen=True)
class Ordered:
    """The public values of a column in their order, from the first to the last.

    Args:
        values: Whole numbers, ascending, or texts such as ["low", "middle", "high"]. The cell of other keys has no
            place in the order.

    >>> Ordered(range(3))
    Ordered(values=(0, 1, 2))
    """

    values: Sequence[Key]

    def __post_init__(self) -> None:
        values = read_keys("Ordered", self.values)
        if not isinstance(values[0], str) and not all(low < high for low, high in pairwise(values)):  # type: ignore[operator]
            raise ArgumentError("Ordered must list whole numbers in ascending order: sort them.")
        object.__setattr__(self, "values", values)


@dataclass(frozen=True)
class Domains:
    """The public values of attributes, and what becomes of rows with other ones.

    Attributes:
        keys: The stated values of each column.
        other: "cell" (one more value of each attribute, for unknown keys and what is missing) or "drop" (a row unknown
            in any column that the query uses leaves the whole query).
        ordered: The columns whose values are stated in their order.
    """

    keys: Mapping[str, tuple[Key, ...]]
    other: Literal["cell", "drop"] = "cell"
    ordered: frozenset[str] = frozenset()

    def size(self, column: str) -> int:
        """How many values an attribute has, the cell of other keys included."""
        return len(self.keys[column]) + (self.other == "cell")

    def levels(self, column: str) -> list[Key]:
        """What the values are called; texts throughout where one of them is the cell of other keys.

        >>> Domains({"sex": ("F", "M")}).levels("sex"), Domains({"age": (0, 1)}, "drop").levels("age")
        (['F', 'M', '(other)'], [0, 1])
        """
        keys = self.keys[column]
        return [*map(str, keys), OTHER] if self.other == "cell" else list(keys)

    def among(self, columns: Iterable[str]) -> "Domains":
        """The domains of these columns alone."""
        keys = {column: self.keys[column] for column in columns}
        return Domains(keys, self.other, self.ordered & keys.keys())


def read_domains(domains: object, other: object) -> Domains:
    """Public values per column.

    Raises:
        ArgumentError: They are malformed.
    """
    kind = cast("Literal['cell', 'drop']", choice("other", other, ("cell", "drop")))
    if not isinstance(domains, Mapping):
        raise ArgumentError(
            f"domains must be a dictionary of public values per column, got {shown(domains)}: "
            "for example domains={'sex': ['F', 'M']}."
        )
    read: dict[str, tuple[Key, ...]] = {}
    ordered = frozenset(column for column, keys in domains.items() if isinstance(keys, Ordered))
    for column, keys in domains.items():
        if not (isinstance(column, str) and column):
            raise ArgumentError(f"domains must be keyed by column names, got {shown(column)}: name the column.")
        read[column] = read_keys(f"domains[{column!r}]", keys.values if isinstance(keys, Ordered) else keys)
        if kind == "drop" and len(read[column]) == 1:
            raise ArgumentError(
                f"domains[{column!r}] has one value and no cell for others, so that it divides nothing: leave it out, "
                'or state other="cell".',
                code="domain_single",
                column=Column(column),
            )
        if kind == "cell" and OTHER in map(str, read[column]):
            raise ArgumentError(
                f"domains[{column!r}] holds {OTHER!r}, the name of the cell of all other keys: leave it out, or state "
                'other="drop".',
                code="domain_other",
                column=Column(column),
                cell=Words(OTHER),
            )
    return Domains(read, kind, ordered)


def read_tables(name: str, asked: object, domains: Domains, *, total: bool = False) -> tuple[Marginal, ...]:
    """The asked tables: lists of columns, or a number k for all tables over k of the columns with a domain.

    Args:
        name: What the tables are called in errors.
        asked: The tables.
        domains: The public domains.
        total: Whether the table of no columns may stand alone.

    Raises:
        ArgumentError: A column has no domain, a table is asked twice, or there are too many cells.

    >>> read_tables("marginals", 2, Domains({"sex": ("F", "M"), "age": (0, 1), "race": ("A",)}))
    (('sex', 'age'), ('sex', 'race'), ('age', 'race'))
    """
    cure = f"for example {name}=[('sex',), ('sex', 'age')]"
    if isinstance(asked, int) and not isinstance(asked, bool):
        number = integer(name, asked, least=1, cure="pass how many columns each table has, or a list of tables")
        if number > len(domains.keys):
            raise ArgumentError(
                f"{name}={number} asks for tables over {number} columns, but {len(domains.keys)} have a domain: state "
                "Table(domains=...).",
                code="domains_missing",
                argument=Argument(name),
                wanted=Words(number),
                stated=Words(len(domains.keys)),
            )
        _check_number(name, math.comb(len(domains.keys), number))
        tables: list[Marginal] = list(combinations(domains.keys, number))
    else:
        if isinstance(asked, (str, bytes, Mapping)) or not isinstance(asked, Sequence) or not len(asked):
            raise ArgumentError(f"{name} must be a list of tables, got {shown(asked)}: {cure}.")
        _check_number(name, len(asked))
        tables = [_table(f"{name}[{at}]", table, domains, cure) for at, table in enumerate(asked)]
        if len(set(map(frozenset, tables))) != len(tables):
            raise ArgumentError(f"{name} names the same table twice: give each set of columns once.")
    if not any(tables) and not total:
        raise ArgumentError(f"{name} asks for the total alone: pass count=True, without tables.", code="total_alone")
    sizes = {column: domains.size(column) for column in domains.keys}
    widest = max(map(len, tables))
    if math.prod(sorted(sizes.values())[::-1][:widest]) > _MOST_CELLS:  # else none of them has too many
        for table in tables:
            if math.prod(sizes[column] for column in table) > _MOST_CELLS:
                raise ArgumentError(
                    f"{name} asks for {shown(table)}, which has more than 2^26 cells: ask for fewer columns."
                )
    return tuple(tables)


def _check_number(name: str, tables: int) -> None:
    if tables > _MOST_TABLES:
        raise ArgumentError(f"{name} asks for {tables:,} tables, at most 2^18 are planned at once: ask for fewer.")


def _table(name: str, table: object, domains: Domains, cure: str) -> Marginal:
    if isinstance(table, (str, bytes, Mapping)) or not isinstance(table, Sequence):
        raise ArgumentError(f"{name} must be a table, that is a tuple of columns, got {type(table).__name__}: {cure}.")
    for at, column in enumerate(table):
        if not (isinstance(column, str) and column not in table[:at]):
            raise ArgumentError(
                f"{name} must name different columns: {cure}.",
                code="columns_alike",
                argument=Argument(name.partition("[")[0]),
            )
        if column not in domains.keys:
            alike = [known for known in domains.keys if known.casefold() == column.casefold()]
            way = f"did you mean {alike[0]!r}?" if alike else f"state Table(domains={{{column!r}: [...]}})."
            raise ArgumentError(
                f"{name} names {column!r}, which has no public domain: {way}",
                code="domain_alike" if alike else "domain_missing",
                column=Column(column),
                alike=Column(alike[0] if alike else ""),
            )
    return tuple(table)


def tolerances_by_name(
    statistics: Iterable[str], stated: Mapping[str, float]
) -> dict[Marginal | str | tuple[str, Marginal], float]:
    """Tolerances by table, statistic or both from texts: "sex*age", "mean(income)", "mean(income) by sex*age"."""
    names = {"count", *statistics}

    def key(text: str) -> Marginal | str | tuple[str, Marginal]:
        name, by, table = text.partition(" by ")
        if by and name in names:
            return name, tuple(table.split("*"))
        return text if text in names else tuple(text.split("*"))

    return {key(text): value for text, value in stated.items()}
