"""What the user states about a table: bounds, the privacy unit, public keys, bins and fill values."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import Any, Literal, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from inid.arguments import choice, integer, real, shown
from inid.errors import Argument, ArgumentError, Column, Words

Key = str | int | bool
Bounds = tuple[float, float]
Marginal = tuple[str, ...]

OTHER = "(other)"  # what the cell of unknown keys is called

MOST_BINS = 1024


@dataclass(frozen=True)
class Private:
    """The most that one person adds is not stated: a limit is chosen privately, and paid for (see `Person`).

    Args:
        at_most: A number of rows that nobody has more of, stated generously: it bounds the limits that are tried, and
            a limit twice as large costs next to nothing.

    >>> Private()
    Private(at_most=1048576)
    """

    at_most: int = 2**20

    def __post_init__(self) -> None:
        most = integer("at_most", self.at_most, least=2, cure="pass a number of rows that nobody has more of")
        if most > _MOST_PRIVATE:
            raise ArgumentError(f"at_most must be at most 2^30, got {shown(self.at_most)}: nobody has so many rows.")
        object.__setattr__(self, "at_most", most)


_MOST_PRIVATE = 2**30


@dataclass(frozen=True)
class Person:
    """The privacy unit is a person: whoever shares a value of a column, with at most so many rows.

    Rows beyond the limit are left out by the engine: within each person rows are ordered by `order_by`, then by what
    they would contribute, and the first `max_rows` are kept. The choice depends on that person's rows alone, so the
    guarantee holds, and it is the same on every engine; but it favours small values among rows that `order_by` does
    not tell apart, which is a bias. Rows without a person are left out. A ledger to be charged needs a unit of its own,
    such as `unit="user_id"`: one of rows refuses.

    Args:
        column: The column that identifies the person.
        max_rows: The most rows that one person contributes; every sensitivity grows with it.
        order_by: A column, or several, that say which rows come first, or None.
        contribution: In place of both, `Private()`: nobody knows how many rows a person has. A count or a sum then
            takes all of them, holds each person's total to a limit, and finds the limit for a part of the promise.

    >>> Person("user_id", max_rows=5)
    Person(column='user_id', max_rows=5, order_by=(), contribution=None)
    """

    column: str
    max_rows: int = 0
    order_by: str | Sequence[str] | None = None
    contribution: Private | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.column, str) and self.column):
            raise ArgumentError(f"column must be the name of a column, got {shown(self.column)}: Person('user_id', 5).")
        if self.contribution is not None:
            if not isinstance(self.contribution, Private):
                raise ArgumentError(f"contribution must be tables.Private(), got {shown(self.contribution)}.")
            if self.max_rows or self.order_by is not None:
                raise ArgumentError(
                    "contribution goes without max_rows and order_by, since all rows of a person count: leave them out."
                )
            object.__setattr__(self, "max_rows", self.contribution.at_most)
        limit = integer(
            "max_rows",
            self.max_rows,
            least=1,
            cure="pass the most rows that one person contributes, or contribution=tables.Private()",
        )
        order = (self.order_by,) if isinstance(self.order_by, str) else self.order_by or ()
        object.__setattr__(self, "max_rows", limit)
        object.__setattr__(self, "order_by", read_columns("order_by", order, "a list of columns"))

    @property
    def order(self) -> tuple[str, ...]:
        """The order columns as a tuple."""
        return () if self.order_by is None else tuple(self.order_by)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, of which `from_dict` makes the same."""
        if self.contribution is not None:
            return {"column": self.column, "at_most": self.contribution.at_most}
        return {"column": self.column, "max_rows": self.max_rows, "order_by": list(self.order)}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Person":
        """The person that `to_dict` described."""
        if "at_most" in record:
            return cls(record["column"], contribution=Private(record["at_most"]))
        return cls(record["column"], record["max_rows"], record["order_by"])


@dataclass(frozen=True)
class Categories:
    """Public categories of a histogram; needed where they are numbers, since plain numbers are edges of bins.

    >>> Categories([1, 2, 3])
    Categories(values=(1, 2, 3))
    """

    values: Sequence[Key]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", read_keys("Categories", self.values))

    @property
    def names(self) -> tuple[str, ...]:
        """What each cell is called."""
        return tuple(str(value) for value in self.values)


@dataclass(frozen=True)
class Bins:
    """Public bins of a histogram: from each edge up to, not including, the next; the last bin includes its end."""

    edges: tuple[float, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """What each cell is called; no two alike."""
        words = [f"{edge:.12g}" for edge in self.edges]
        if len(set(words)) < len(words):
            words = [f"{edge:.17g}" for edge in self.edges]
        pairs = list(pairwise(words))
        ends = [")"] * (len(pairs) - 1) + ["]"]
        return tuple(f"[{low}, {high}{end}" for (low, high), end in zip(pairs, ends, strict=True))


def as_listed(values: object) -> object:
    """The same list with the numbers and texts of Python where NumPy's stand; anything else as it is.

    >>> as_listed(np.array([1, 2])), as_listed([np.str_("F"), "M"]), as_listed("FM")
    ([1, 2], ['F', 'M'], 'FM')
    """
    if isinstance(values, np.ndarray) and values.ndim == 1:
        values = values.tolist()
    if isinstance(values, (list, tuple)):
        return [value.item() if isinstance(value, np.generic) else value for value in values]
    return values


def as_numbers(values: object) -> object:
    """An array of numbers as a list of them, which stay NumPy's, so that no message shows them; anything else as it is.

    >>> as_numbers(np.array([0.5])), as_numbers((0, 1))
    ([np.float64(0.5)], (0, 1))
    """
    return (
        list(values) if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iuf" else values
    )


def read_columns(name: str, value: object, expected: str) -> tuple[str, ...]:
    """Distinct column names; like keys, they are not shown."""
    if value is None:
        return ()
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise ArgumentError(f"{name} must be {expected}, got {shown(value)}: pass a list, for example ['age'].")
    positions: dict[str, int] = {}
    for at, word in enumerate(value):
        if not (isinstance(word, str) and word):
            raise ArgumentError(f"{name}[{at}] must be a column's name, got {type(word).__name__}.")
        if word in positions:
            raise ArgumentError(f"{name}[{at}] is the column of {name}[{positions[word]}] once more: name each once.")
        positions[word] = at
    return tuple(value)


def read_people(person: object) -> dict[str, str]:
    """The person column of each table of a view."""
    if not isinstance(person, Mapping) or not all(
        isinstance(one, str) and one for pair in person.items() for one in pair
    ):
        raise ArgumentError(
            "person must be a dictionary of the person column of each table, "
            f"got {shown(person)}: person={{'people': 'pid', 'visits': 'patient'}}."
        )
    return dict(person)


def as_tables(public: object) -> list[object]:
    """The public tables of a view, which are not shown: a frame prints its values."""
    if isinstance(public, (str, bytes)) or not isinstance(public, Sequence):
        raise ArgumentError(f"public must be a list of tables, got a {type(public).__name__}: public=[codes].")
    return list(public)


def read_bounds(bounds: object) -> dict[str, Bounds]:
    """One pair of finite numbers (lower, upper), lower < upper, per column."""
    if not isinstance(bounds, Mapping):
        raise ArgumentError(
            f"bounds must be a dictionary of (lower, upper) per column, got {shown(bounds)}: "
            "state them from public knowledge, for example bounds={'age': (0, 100)}."
        )
    read: dict[str, Bounds] = {}
    for column, ends in bounds.items():
        if not (isinstance(column, str) and column):
            raise ArgumentError(f"bounds must be keyed by column names, got {shown(column)}: name the column.")
        pair = as_numbers(ends)
        if isinstance(pair, (str, bytes)) or not isinstance(pair, Sequence) or len(pair) != 2:
            got = f"{len(pair)} entries" if isinstance(pair, (list, tuple)) else shown(ends)
            raise ArgumentError(f"bounds[{column!r}] must be a pair (lower, upper), got {got}.")
        cure = "state finite public bounds"
        low, high = (real(f"bounds[{column!r}][{at}]", pair[at], cure=cure) for at in (0, 1))
        if not low < high:
            raise ArgumentError(f"bounds[{column!r}] must have lower < upper, got {shown(pair)}: swap or widen.")
        if not high - low < math.inf:
            raise ArgumentError(
                f"bounds[{column!r}] must not be further apart than the largest float, 1.8e308, got "
                f"{shown(pair)}: state narrower ones."
            )
        read[column] = (low, high)
    return read


def read_keys(name: str, keys: object) -> tuple[Key, ...]:
    """Distinct public keys of one kind: strings, whole numbers or booleans.

    Messages name places and types, no key: the values of a column may have been passed by mistake.
    """
    cure = "pass a list of strings, of whole numbers or of booleans"
    keys = as_listed(keys)
    if isinstance(keys, (str, bytes, Mapping)) or not isinstance(keys, Sequence) or not len(keys):
        raise ArgumentError(f"{name} must be a list of public keys, got {shown(keys)}: {cure}.")
    kind = next((kind for kind in (str, bool, int) if isinstance(keys[0], kind)), None)
    positions: dict[Key, int] = {}
    for at, key in enumerate(keys):
        if kind is None or type(key) is not kind:
            like = "" if kind is None or not at else ", like the first one"
            got = type(key).__name__
            raise ArgumentError(f"{name}[{at}] must be a str, int or bool of Python{like}, got {got}: {cure}.")
        if key in positions:
            raise ArgumentError(f"{name}[{at}] is the key of {name}[{positions[key]}] once more: list each key once.")
        if isinstance(key, str) and not is_plain(key):
            raise ArgumentError(
                f"{name}[{at}] holds a NUL or half a character, which engines read differently: {cure}."
            )
        # Beyond 64 bits engines would compare keys as floats.
        if isinstance(key, int) and not -(2**63) <= key < 2**63:
            raise ArgumentError(f"{name}[{at}] must be a whole number of 64 bits, got a larger one: use strings.")
        positions[key] = at
    return tuple(keys)


def is_plain(key: str) -> bool:
    """Whether every engine reads a text alike: without a NUL or half a character."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in key


def read_cells(column: str, cells: object) -> Bins | Categories:
    """The public cells of a histogram: edges of bins, or categories."""
    name = f"histogram[{column!r}]"
    if isinstance(cells, Categories):
        return cells
    cells = as_listed(cells)
    if isinstance(cells, (str, bytes, Mapping)) or not isinstance(cells, Sequence) or not len(cells):
        raise ArgumentError(f"{name} must be a list of bin edges or of categories, got {shown(cells)}.")
    if isinstance(cells[0], (str, bool)):
        return Categories(read_keys(name, cells))
    edges = tuple(_edge(f"{name}[{at}]", edge) for at, edge in enumerate(cells))
    if len(edges) < 2:
        raise ArgumentError(f"{name} must be at least two increasing edges, got one.")
    for at, (low, high) in enumerate(pairwise(edges), start=1):
        if not low < high:
            raise ArgumentError(f"{name} must be at least two increasing edges: edge {at} is not above edge {at - 1}.")
    return Bins(edges)


def read_bins(bins: object, bounds: Mapping[str, Bounds]) -> dict[str, Bins]:
    """Public bins of numbers by column: how many of one width between the column's bounds, or their edges.

    >>> read_bins({"age": 4}, {"age": (0.0, 100.0)})["age"].edges
    (0.0, 25.0, 50.0, 75.0, 100.0)
    """
    if not isinstance(bins, Mapping):
        raise ArgumentError(
            f"bins must be a dictionary of public bins per column, got {shown(bins)}: "
            "for example bins={'age': 16, 'income': [0, 10_000, 50_000]}."
        )
    read: dict[str, Bins] = {}
    for column, given in bins.items():
        if not (isinstance(column, str) and column):
            raise ArgumentError(f"bins must be keyed by column names, got {shown(column)}: name the column.")
        name = f"bins[{column!r}]"
        if isinstance(given, (int, np.integer)) and not isinstance(given, bool):
            number = integer(name, given, least=2, cure="pass how many bins there are")
            if column not in bounds:
                raise ArgumentError(f"{name} needs public bounds of {column!r}: state them, or the edges of the bins.")
            edges = tuple(float(edge) for edge in np.linspace(*bounds[column], min(number, MOST_BINS + 1) + 1))
        else:
            edges = _edges(name, as_listed(given))
        if not 3 <= len(edges) <= MOST_BINS + 1 or not all(low < high for low, high in pairwise(edges)):
            raise ArgumentError(f"{name} must be 2 to {MOST_BINS} bins, between increasing edges: state other bins.")
        read[column] = Bins(edges)
    return read


def _edges(name: str, edges: object) -> tuple[float, ...]:
    if isinstance(edges, (str, bytes, Mapping)) or not isinstance(edges, Sequence):
        raise ArgumentError(f"{name} must be a number of bins or a list of edges, got {shown(edges)}.")
    return tuple(_edge(f"{name}[{at}]", edge) for at, edge in enumerate(edges))


def _edge(name: str, edge: object) -> float:
    """A finite number; like a key, it is not shown."""
    cure = "pass finite, increasing edges"
    try:
        return real(name, edge, cure=cure)
    except ArgumentError:
        raise ArgumentError(f"{name} must be a finite number, got {type(edge).__name__}: {cure}.") from None


def read_missing(missing: object) -> dict[str, object]:
    """The public fill value of each column that has one; the others leave out what is missing."""
    if isinstance(missing, str) and missing == "omit":
        return {}
    if not isinstance(missing, Mapping):
        raise ArgumentError(
            f'missing must be "omit" or a dictionary of public fill values, got {shown(missing)}: '
            "for example missing={'age': 40}."
        )
    for column, value in missing.items():
        if not isinstance(value, (str, bool)):
            real(f"missing[{column!r}]", value, cure="pass one public number, or a category of its histogram")
    return dict(missing)


# How the rows are spread over groups: a public guess, for planning and display only.


@dataclass(frozen=True)
class GroupRows:
    """Stated sizes, or shares, of groups: by columns, those of each combination of their keys. Their ratios count."""

    sizes: Mapping[Marginal, Mapping[tuple[Key, ...], float]]

    @property
    def total(self) -> int | None:
        """The rows of the table, where sizes are whole numbers; None for shares."""
        first = next(iter(self.sizes.values())).values()
        rounded = round(math.fsum(first))
        return rounded if rounded >= 1 and all(size == int(size) for size in first) else None

    def shares(self, levels: Mapping[str, Sequence[Key]]) -> NDArray[np.float64] | None:
        """The share of the rows in each combination of keys, in their order; None where nothing is stated of them.

        Those of columns that are stated apart are multiplied, as if they were independent, and a column of which
        nothing is stated is divided evenly.
        """
        if not any(set(columns) <= set(levels) for columns in self.sizes):
            return None
        joint = self._joint(levels)
        if joint is not None:
            return joint
        joint_shares = np.ones(1)
        for column, keys in levels.items():
            of_column = self._joint({column: keys})
            joint_shares = np.outer(
                joint_shares, np.full(len(keys), 1 / len(keys)) if of_column is None else of_column
            ).ravel()
        return joint_shares

    def is_known(self, columns: Iterable[str]) -> bool:
        """Whether the sizes of these groups are stated themselves, and not only those of some of their columns."""
        return any(set(grouping) == set(columns) for grouping in self.sizes)

    def _joint(self, levels: Mapping[str, Sequence[Key]]) -> NDArray[np.float64] | None:
        stated = next((grouping for grouping in self.sizes if set(grouping) == set(levels)), None)
        if stated is None:
            return None
        sizes, places = self.sizes[stated], [list(levels).index(column) for column in stated]
        cells = [tuple(cell[at] for at in places) for cell in product(*levels.values())]
        lost = sum(cell not in sizes and OTHER not in cell for cell in cells)
        if lost:
            raise ArgumentError(
                f"group_rows of {' and '.join(stated)} lacks {lost} of the groups that are asked for: state all.",
                code="group_rows_lack",
                columns=Words(" and ".join(stated)),
                number=Words(lost),
            )
        fractions = np.array([sizes.get(cell, np.nan) for cell in cells]) / math.fsum(sizes.values())
        usual = float(np.nanmean(fractions))  # of the cell of other keys, where nothing is stated of it
        return np.where(np.isnan(fractions), usual, fractions)


def read_group_rows(stated: object) -> GroupRows | None:
    """Sizes or shares of groups by column, or by several columns, ("sex", "region"), as they are stated."""
    cure = "for example group_rows={'sex': {'F': 2100, 'M': 1900}}"
    if not isinstance(stated, Mapping):
        raise ArgumentError(f"group_rows must be a dictionary by column, got {shown(stated)}: {cure}.")
    read: dict[Marginal, dict[tuple[Key, ...], float]] = {}
    for name, sizes in stated.items():
        columns = (name,) if isinstance(name, str) else name
        plain = isinstance(columns, tuple) and all(isinstance(column, str) and column for column in columns)
        if not plain or not columns or len(set(columns)) < len(columns):
            raise ArgumentError(f"group_rows must be keyed by columns, or tuples of them, got {shown(name)}: {cure}.")
        if any(set(columns) == set(other) for other in read):
            raise ArgumentError(f"group_rows names {' and '.join(columns)} twice: state their groups once.")
        if not isinstance(sizes, Mapping) or not sizes:
            raise ArgumentError(f"group_rows of {' and '.join(columns)} must be a dictionary of sizes by key: {cure}.")
        cells = [(key,) if len(columns) == 1 else key for key in sizes]
        if not all(isinstance(cell, tuple) and len(cell) == len(columns) for cell in cells):
            raise ArgumentError(
                f"group_rows of {' and '.join(columns)} must have a key of each column, such as ('F', 'north')."
            )
        for at, column in enumerate(columns):
            read_keys(f"group_rows of {column}", list(dict.fromkeys(cell[at] for cell in cells)))
        numbers = [
            real(f"group_rows of {' and '.join(columns)}, number {at}", size, least=0, cure="pass a size or a share")
            for at, size in enumerate(sizes.values(), start=1)
        ]
        if not math.fsum(numbers) > 0:
            raise ArgumentError(f"group_rows of {' and '.join(columns)} add up to 0: state sizes or shares.")
        read[columns] = dict(zip(cells, numbers, strict=True))
    return GroupRows(read) if read else None


_LARGEST_WEIGHT = 2.0**300


def read_weight(column: object, most: object) -> tuple[str, float] | None:
    """The column of design weights and the public upper bound of one; None where none is stated."""
    if column is None and most is None:
        return None
    cure = "pass both"
    if not (isinstance(column, str) and column) or most is None:
        raise ArgumentError(
            f"weight and max_weight go together, the column and the largest weight: {cure}.", code="weight_half"
        )
    bound = real("max_weight", most, above=0, cure=cure)
    if not 1 / _LARGEST_WEIGHT <= bound <= _LARGEST_WEIGHT:
        raise ArgumentError(f"max_weight must lie between 2^-300 and 2^300, got {shown(most)}: change the unit.")
    return column, bound


# Public domains: the values of each attribute, stated once for a table, and the tables that are asked over them.

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
    """The public values of attributes, and what becomes of rows with other ones."""

    keys: Mapping[str, tuple[Key, ...]]
    other: Literal["cell", "drop"] = "cell"
    ordered: frozenset[str] = frozenset()

    def size(self, column: str) -> int:
        """How many values an attribute has, the cell of other keys included."""
        return len(self.keys[column]) + (self.other == "cell")

    def levels(self, column: str) -> list[Key]:
        """What the values are called; texts throughout where one of them is the cell of other keys."""
        keys = self.keys[column]
        return [*map(str, keys), OTHER] if self.other == "cell" else list(keys)

    def among(self, columns: Iterable[str]) -> "Domains":
        """The domains of these columns alone."""
        keys = {column: self.keys[column] for column in columns}
        return Domains(keys, self.other, self.ordered & keys.keys())


def read_domains(domains: object, other: object) -> Domains:
    """Public values per column."""
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
            raise other_is_a_key(column)
    return Domains(read, kind, ordered)


def other_is_a_key(column: str) -> ArgumentError:
    """That a public key is called like the cell of all others."""
    return ArgumentError(
        f"the public keys of {column!r} hold {OTHER!r}, the name of the cell of all other keys: leave it out, or state "
        'other="drop".',
        code="domain_other",
        column=Column(column),
        cell=Words(OTHER),
    )


def read_tables(name: str, asked: object, domains: Domains, *, total: bool = False) -> tuple[Marginal, ...]:
    """The asked tables: lists of columns; a number k stands for all tables over k of the columns with a domain.

    >>> read_tables("marginals", [1, ("race", "sex")], Domains({"sex": ("F", "M"), "race": ("A",)}))
    (('sex',), ('race',), ('race', 'sex'))
    """
    cure = f"for example {name}=[('sex',), ('sex', 'age')]"
    entries = [asked] if _is_width(asked) else asked
    if isinstance(entries, (str, bytes, Mapping)) or not isinstance(entries, Sequence) or not len(entries):
        raise ArgumentError(f"{name} must be a list of tables, got {shown(asked)}: {cure}.")
    _check_number(name, len(entries))
    tables: list[Marginal] = []
    for at, entry in enumerate(entries):
        tables += _over(name, entry, domains) if _is_width(entry) else [_table(f"{name}[{at}]", entry, domains, cure)]
    different = {frozenset(table): table for table in reversed(tables)}
    if len(different) < len(tables) and not any(map(_is_width, entries)):
        raise ArgumentError(f"{name} names the same table twice: give each set of columns once.")
    tables = list(different.values())[::-1]
    _check_number(name, len(tables))
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


def _is_width(entry: object) -> TypeGuard[int]:
    return isinstance(entry, int) and not isinstance(entry, bool)


def _over(name: str, width: int, domains: Domains) -> list[Marginal]:
    """All tables over so many of the columns with a domain."""
    number = integer(name, width, least=1, cure="pass how many columns each table has, or a list of tables")
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
    return list(combinations(domains.keys, number))


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
