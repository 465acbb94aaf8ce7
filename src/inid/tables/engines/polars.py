"""Polars, eager or lazy.

A lazy frame whose plan draws at random is refused. A function of the user's own, or a source that is read from outside,
is not looked into: a release reads a frame once, so that what it finds there is one table.

Sums by groups, and how many values there are of each, take one pass over the rows (see `grid_sums`), since a lazy frame
may answer differently when it is read again. What a missing value adds is null, NaN too, which Polars neither adds up
nor counts.

On its grid a value is a float from 0 to 2^30 whose fraction is to be cut off (see `inid.fixed_point`). Between 2^52 and
2^53 the floats are the whole numbers, and the bits of 2^52 + n are those of 2^52, plus n. So what is added up are the
bits of floor(value) + 2^52, as integers: that takes no conversion, which most processors do one by one and which Polars
checks. Integers of 64 bits add up modulo 2^64; the bits of 2^52 come off afterwards, modulo 2^64 too.
"""

import inspect
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from inid.errors import ArgumentError
from inid.tables.aggregation import PublicKeys
from inid.tables.engines.base import Build, Engine, schema_of
from inid.tables.engines.cell_codes import CellTable, blocks_of, coded, placed
from inid.tables.engines.grid_sums import GridSums, are_plain, number_columns, numbers_on_grids, put_together
from inid.tables.engines.guarded import guarded, optional
from inid.tables.engines.made_columns import MadeColumn
from inid.tables.engines.roles import FIRST_DAY, LAST_DAY, Role, is_text
from inid.tables.engines.terms import OnGrid

# The bytes of a text that is UTF-8, in hexadecimal digits.
_NEXT = "[89ab][0-9a-f]"
_UTF8 = (
    f"^(?:[0-7][0-9a-f]|(?:c[2-9a-f]|d[0-9a-f]){_NEXT}|e0[ab][0-9a-f]{_NEXT}|ed[89][0-9a-f]{_NEXT}"
    f"|e[1-9abcef](?:{_NEXT}){{2}}|f0[9ab][0-9a-f](?:{_NEXT}){{2}}|f[1-3](?:{_NEXT}){{3}}|f48[0-9a-f](?:{_NEXT}){{2}})*$"
)
_BLOCKS = 64  # passes over the rows that run together


def _cells(rows: Any, sizes: Mapping[str, int], keys: Sequence[str], sums: Sequence[str]) -> Any:
    """The sums of each cell, beside its keys and its place in the table."""
    pl = optional("polars")
    added = [pl.col(name).sum() for name in sums]
    if not keys:
        return rows.select(*added).with_columns(cell=pl.lit(0, dtype=pl.Int64))
    place = pl.lit(0, dtype=pl.Int64)
    for name in keys:
        place = place * sizes[name] + pl.col(name).cast(pl.Int64)
    return rows.group_by(*keys).agg(*added).with_columns(cell=place)


_START = 2.0**52
_START_BITS = np.float64(_START).view(np.int64)


class PolarsSums(GridSums):
    """The sums of plain terms on Polars; its frame is lazy."""

    @staticmethod
    def possible(terms: Mapping[str, Any]) -> bool:
        """Whether this can add up the terms, and Polars can read the bits of a float."""
        return are_plain(terms) and "dtype" in inspect.signature(optional("polars").Expr.reinterpret).parameters

    def collect_schema(self) -> Any:
        """The types of the query, without a look at the rows."""
        return self._query().collect_schema()

    def rows(self) -> list[tuple[Any, ...]]:
        """One row per group."""
        found = self._query().collect(engine="streaming")  # not streamed, Polars would hold whole columns in memory
        here = {name: _integers(found[_present(name)]) for name in number_columns(self.terms)}
        sums = {
            name: _integers(found[name]) - here[term.name] * _START_BITS
            for name, term in numbers_on_grids(self.terms).items()
        }
        totals = put_together(self.terms, _integers(found["rows"]), here, sums)
        keys = (found[name].to_list() for name in self.groups)
        return list(zip(*keys, *(total.tolist() for total in totals), strict=True))

    def _query(self) -> Any:
        """By group the number of rows, the bits of each term, and how many values each column has."""
        pl, terms = optional("polars"), numbers_on_grids(self.terms)
        added_up = {term.name: name for name, term in terms.items()}
        others = [name for name in number_columns(self.terms) if name not in added_up]
        bits = [_bits(term).alias(name) for name, term in terms.items()]
        truths = [pl.col(name).is_not_nan().alias(_present(name)) for name in others]
        made = self.frame.select(*self.groups, *bits, *truths)
        sums = [pl.len().alias("rows"), *(pl.col(name).sum() for name in terms)]
        sums += [pl.col(name).count().alias(_present(column)) for column, name in added_up.items()]
        sums += [pl.col(_present(name)).sum() for name in others]
        return made.group_by(*self.groups).agg(*sums) if self.groups else made.select(*sums)


def _bits(term: OnGrid) -> Any:
    # Scaling by a power of two commutes with rounding, so it may wait for the floor, which divides in the same step.
    pl, grid = optional("polars"), term.grid
    value = pl.col(term.name).clip(grid.lower, grid.upper) - grid.offset * grid.step
    return (value // grid.step + _START).fill_nan(None).reinterpret(dtype=pl.Int64)


def _integers(column: Any) -> NDArray[np.int64]:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _present(name: str) -> str:
    return f"{name}_present"


class Polars(Engine):
    """A Polars frame, run lazily and streaming: a release reads it once, since a lazy one may answer differently."""

    one_pass = PolarsSums

    def __init__(self, frame: Any) -> None:
        if isinstance(frame, optional("polars").LazyFrame) and guarded(lambda: draws_at_random(frame), "read the plan"):
            raise ArgumentError(
                "the lazy frame draws at random (shuffle, sample, or rank by chance) whenever it is read, so that it "
                "holds no certain rows: pass frame.collect()."
            )
        self._files = isinstance(frame, optional("polars").LazyFrame) and guarded(
            lambda: _reads_files(frame), "read the plan"
        )
        self._frame = frame.lazy()
        lazy = optional("narwhals").from_native(self._frame)
        names = guarded(lambda: list(lazy.collect_schema()), "read the columns")
        schema = schema_of(lazy, names)
        if self._files:  # where a query needs no column it reads the first one
            schema = dict(sorted(schema.items(), key=lambda pair: is_text(pair[1])))
            if is_text(next(iter(schema.values()))):
                raise ArgumentError(f"the lazy frame reads a file in which every column is of texts{_UNREADABLE}")
        super().__init__(schema)
        kinds = guarded(self._frame.collect_schema, "read the columns")
        self.empty = frozenset(name for name, kind in kinds.items() if kind == optional("polars").Null)

    def require(self, name: str, columns: Sequence[str]) -> None:
        super().require(name, columns)
        for column in columns if self._files else ():
            if is_text(self.schema[column]):
                raise ArgumentError(f"{name} names {column!r}, texts of a file that a lazy frame reads{_UNREADABLE}")

    def typed_columns(self, selection: Mapping[str, tuple[str, Role]]) -> Any:
        parts = [self._typed(column, role).alias(new) for new, (column, role) in selection.items()]
        return optional("narwhals").from_native(self._frame.select(*parts))

    def _typed(self, column: str, role: Role) -> Any:
        pl, kind = optional("polars"), self.schema[column]
        value = pl.col(column)
        if column in self.empty:
            value = value.cast(pl.Boolean if role == "bool" else pl.Int64)
        if role == "str" or (role in ("person", "order") and is_text(kind)):
            return value.cast(pl.String)
        if role == "number":
            return value.cast(pl.Float64)
        if role in ("day", "year"):
            return self._date(value, kind, role)
        # A whole number beyond 64 bits equals no key, and must not stop the query.
        return value.cast(pl.Int64, strict=False) if role == "int" else value

    def _date(self, value: Any, kind: Any, role: Role) -> Any:
        """A date as a number: its cast would stop at a moment that is far away."""
        pl, nw = optional("polars"), optional("narwhals")
        days = value.to_physical().cast(pl.Int64)
        if kind == nw.Datetime:
            days = days // (86_400 * {"ms": 10**3, "us": 10**6, "ns": 10**9}[kind.time_unit])
        days = pl.when(days.is_between(FIRST_DAY, LAST_DAY)).then(days)
        number = days if role == "day" else days.cast(pl.Int32).cast(pl.Date).dt.year()
        return number.cast(pl.Float64)

    def rows(self, query: Any) -> list[tuple[Any, ...]]:
        if isinstance(query, PolarsSums):
            return query.rows()
        # Not streamed, Polars would hold whole columns in memory.
        return list(query.collect(engine="streaming").iter_rows())

    def distinct_texts(self, frame: Any, name: str) -> Any:
        # Polars does not look whether a text of Arrow's is UTF-8, and stops where Python is to have it.
        nw = optional("narwhals")
        return frame.with_columns(nw.col(name).cast(nw.Binary)) if is_text(frame.collect_schema()[name]) else frame

    def with_least(self, frame: Any, names: Sequence[str]) -> Any:
        # Polars stops where one of them is no UTF-8, and has no function that says so.
        pl = optional("polars")
        letters = {name: pl.col(name).cast(pl.Binary).bin.encode("hex") for name in names}
        readable = (pl.when(own.str.contains(_UTF8)).then(pl.col(name)).alias(name) for name, own in letters.items())
        return optional("narwhals").from_native(frame.to_native().with_columns(*readable))

    def cell_sums(
        self, build: Build, keys: Mapping[str, PublicKeys], tables: Sequence[CellTable]
    ) -> list[NDArray[np.int64]] | None:
        return guarded(lambda: self._cell_sums(build(self), keys, tables), "run the queries")

    def _cell_sums(
        self, frame: Any, keys: Mapping[str, PublicKeys], tables: Sequence[CellTable]
    ) -> list[NDArray[np.int64]]:
        pl, sizes = optional("polars"), {name: key.size for name, key in keys.items()}
        rows = pl.from_arrow(coded(frame.collect(engine="streaming").to_arrow(), keys)).lazy()
        parts = []
        blocks = blocks_of(tables, sizes)
        for start in range(0, len(blocks), _BLOCKS):
            some = blocks[start : start + _BLOCKS]
            made = pl.collect_all([_cells(rows, sizes, block.keys, block.sums) for block in some])
            for block, cells in zip(some, made, strict=True):
                for number in block.tables:
                    own = cells
                    if len(block.tables) > 1:
                        own = _cells(cells.lazy(), sizes, tables[number].keys, block.sums).collect()
                    which = np.full(len(own), number)
                    parts.append((which, own["cell"].to_numpy(), *(own[name].to_numpy() for name in block.sums)))
        return placed(tables, sizes, parts)

    def kept(self, frame: Any) -> Any:
        return frame.collect(engine="streaming").lazy()

    def answer(self, columns: Mapping[str, list[Any]]) -> Any:
        return optional("polars").DataFrame(dict(columns))

    def made_rows(self, columns: Mapping[str, MadeColumn]) -> Any:
        polars = optional("polars")
        kinds = {"int": polars.Int64, "float": polars.Float64, "bool": polars.Boolean, "str": polars.String}
        return polars.DataFrame(
            [
                polars.Series(
                    name,
                    column.values,
                    dtype=kinds[column.kind] if column.categories is None else polars.Enum(column.categories),
                )
                for name, column in columns.items()
            ]
        )


_SCANS = re.compile(r"^\s*(\w+) SCAN ", re.MULTILINE)
_UNREADABLE = ", and stops at one that is not UTF-8: pass the path of the file itself, or frame.collect()."


def _reads_files(frame: Any) -> bool:
    """Whether a lazy frame reads files; where a value may decide their types, or stop the query, they are refused.

    Steps after the scan may read texts that the frame does not show. Names of folders have inferred types. A source in
    Python is code of the user's.
    """
    printed = frame.explain(optimized=False)
    scans = set(_SCANS.findall(printed))
    others = sorted(scans - {"Parquet", "Ipc", "IPC", "PYTHON"})
    if others:
        raise ArgumentError(
            f"the lazy frame reads a source ({others[0]}) whose types follow from values, or that stops at a value "
            "which does not fit them: pass the path of the file itself, or frame.collect()."
        )
    files, (first, *_) = bool(scans - {"PYTHON"}), printed.splitlines()
    if files and ", " in first:
        raise ArgumentError(
            "the lazy frame reads several files, and a file whose types are not those of the first one stops it (a "
            'missing id makes floats of whole numbers): pass the path of the files ("people-*.parquet"), or '
            "frame.collect()."
        )
    if files and (not _SCANS.match(printed) or "=" in first):
        raise ArgumentError(
            "the lazy frame computes something of a file, or reads names of folders, where one value may stop it or "
            "decide a type: pass the path of the file itself (a filter is t.where), or frame.collect()."
        )
    return files


_SUSPECTS = (".shuffle", ".sample", ".rank")  # as Polars prints them; it does not say how ties are ranked


def draws_at_random(frame: Any) -> bool:
    """Whether a node of the plan is random: shuffle, sample, or a rank by chance.

    The plan as JSON says so exactly, but holds the data of frames in memory: it is made only where the printed plan
    names a suspect. A plan that has no JSON is judged by what is printed.

    >>> import polars
    >>> frame = polars.LazyFrame({"shuffle": [1, 2]})
    >>> draws_at_random(frame), draws_at_random(frame.select(polars.all().shuffle(seed=1)))
    (False, True)
    """
    printed = frame.explain(optimized=False)
    if not any(word in printed for word in _SUSPECTS):
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its JSON may change from version to version
            plan = json.loads(frame.serialize(format="json"))
    except Exception:  # noqa: BLE001 - a plan with somebody's function may hold what cannot be written
        return any(f"{word}(" in printed or f"{word}_" in printed for word in _SUSPECTS[:2])
    return _is_random(plan)


def _is_random(part: Any) -> bool:
    if isinstance(part, list):
        return any(map(_is_random, part))
    if not isinstance(part, dict):
        return False
    function = part.get("function")
    if isinstance(function, dict):
        inside = [value for value in function.values() if isinstance(value, dict)]
        by_chance = any(value.get("options", {}).get("method") == "Random" for value in inside if _has_options(value))
        if "Random" in function or any("Sample" in value for value in inside) or by_chance:
            return True
    return any(map(_is_random, part.values()))


def _has_options(function: dict[str, Any]) -> bool:
    return isinstance(function.get("options"), dict)
