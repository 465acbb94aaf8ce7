"""pandas. What a value becomes is decided value by value, in `pandas_columns`.

NumPy adds up plain sums faster than a database does. Everything else, people, several tables at once and views of rows,
is compiled to SQL as for databases: DuckDB reads the typed columns by way of Arrow.
"""

import math
from collections.abc import Mapping, Sequence
from copy import copy
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np

from inid.tables.aggregation import Aggregation, PublicKeys, Totals
from inid.tables.engines.aggregating import aggregated
from inid.tables.engines.base import Build, Engine, schema_of
from inid.tables.engines.duckdb import Ask, Statements
from inid.tables.engines.duckdb_settings import connect
from inid.tables.engines.guarded import guarded, optional
from inid.tables.engines.made_columns import MadeColumn
from inid.tables.engines.pandas_columns import as_arrow, follows_values, ids, typed, whole
from inid.tables.engines.pandas_sums import grouped_sums, product_sums, term_array
from inid.tables.engines.roles import IdKind, Role
from inid.tables.engines.sql.frames import ROWS
from inid.tables.engines.terms import Product, Term
from inid.tables.facts import Key

_MOST_CELLS = 1 << 12  # of groups whose sums stay in the cache
_OTHER = 255  # a byte for what is no public key


class Pandas(Engine):
    """A pandas frame.

    pandas chooses between whole numbers, floats, booleans and objects by the values: one missing value makes floats of
    whole numbers, one text makes objects of anything, and a column that is empty throughout is one of floats. That one
    row must not decide what is refused, nor how others are read: keys of every kind are accepted for such columns, and
    each value is taken for what it is, alike in all of them.
    """

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        super().__init__(schema_of(optional("narwhals").from_native(frame), list(frame.columns)))
        self._objects = frozenset(name for name, kind in frame.dtypes.items() if kind == "object")
        # Types that values may decide: by them nothing is refused, and what does not fit a role is missing.
        self._inferred = frozenset(name for name, kind in frame.dtypes.items() if follows_values(kind))

    def typed_columns(self, selection: Mapping[str, tuple[str, Role]]) -> Any:
        columns = {
            new: typed(self._frame[column], role, self.schema[column]) for new, (column, role) in selection.items()
        }
        return optional("narwhals").from_native(optional("pandas").DataFrame(columns, copy=False))

    def counted_rows(self, selection: Mapping[str, tuple[str, Role]]) -> Any:
        frame = self.columns(selection)
        return _joined(frame, {"one": np.ones(len(frame), dtype=np.int64)})

    def is_untyped(self, column: str) -> bool:
        return column in self._objects

    def _holds_numbers(self, column: str) -> bool:
        return column in self._inferred or super()._holds_numbers(column)

    def _holds_keys(self, column: str, key: type) -> bool:
        return column in self._inferred or super()._holds_keys(column, key)

    def _holds_dates(self, column: str) -> bool:
        return column in self._inferred or super()._holds_dates(column)

    def whole_numbers(self, frame: Any, names: Sequence[str]) -> Any:
        native = frame.to_native()
        integers = {name: whole(native[name].to_numpy(dtype="float64")) for name in names}
        return optional("narwhals").from_native(native.assign(**integers))

    def _holds_single_values(self, column: str) -> bool:
        # pandas makes Python's times and dates of some types of Arrow's, and stops at a value that is finer than those.
        finer = str(self._frame.dtypes[column]) in ("time64[ns][pyarrow]", "date64[ms][pyarrow]")
        sparse = isinstance(self._frame.dtypes[column], optional("pandas").SparseDtype)
        return not (finer or sparse) and (column in self._objects or super()._holds_single_values(column))

    def _tells_people_apart(self, column: str) -> bool:
        return self._holds_single_values(
            column
        )  # one missing id makes floats of all: those that are uncertain are nobody's

    def with_ids(self, column: str, kind: IdKind) -> Engine:
        frame = self._frame.copy(deep=False)
        frame[column] = ids(frame[column], kind, self.schema[column])
        return Pandas(frame)

    def check_query(self, build: Build) -> None:
        # pandas has no plan of a query: it runs on the same columns without rows.
        guarded(lambda: build(self._without_rows()), "prepare the query, so nothing was charged")

    def _without_rows(self) -> "Pandas":
        empty = copy(self)
        empty._frame = self._frame.iloc[:0]  # noqa: SLF001 - of this very class
        return empty

    def check(self, asked: Sequence[Aggregation]) -> None:
        if all(map(_is_direct, asked)):
            super().check(asked)
        else:
            guarded(partial(self._without_rows().bind, asked), "prepare the query, so nothing was charged")

    def run(self, asked: Sequence[Aggregation], what: str = "run the query") -> list[list[Totals]]:
        if all(map(_is_direct, asked)):
            return aggregated(self, asked, what)
        return guarded(lambda: self._totals(asked), what)

    def bind(self, asked: Sequence[Aggregation]) -> None:
        """Let types alone refuse the statements of aggregations: nothing is run."""
        statements = Statements(self, asked, texts_are_bytes=True)
        statements.bind(self._asking(statements.read))

    def _totals(self, asked: Sequence[Aggregation]) -> list[list[Totals]]:
        statements = Statements(self, asked, texts_are_bytes=True)
        return statements.totals(self._asking(statements.read))

    def _asking(self, columns: Mapping[str, tuple[str, Role]]) -> Ask:
        """What asks a DuckDB of our own, which has the columns, typed for their roles, by way of Arrow."""
        made = {
            name: as_arrow(typed(self._frame[column], role, self.row_schema[column]), role)
            for name, (column, role) in columns.items()
        }
        connection = connect()
        rows = connection.from_arrow(optional("pyarrow").table(made))
        # The connection goes along: before DuckDB 1.5 it does not live as long as its relations.
        return lambda text, _=connection: rows.query(ROWS, text)  # type: ignore[misc]

    def prepared(self, frame: Any, terms: Mapping[str, Any]) -> Any:
        arrays, others = _apart(terms)
        with_others = super().prepared(frame, others) if others else frame
        return _joined(with_others, {name: term_array(frame.to_native(), term) for name, term in arrays.items()})

    def totals(self, frame: Any, terms: Mapping[str, Any]) -> Any:
        arrays, others = _apart(terms)
        native = frame.to_native()
        products = {name: term for name, term in arrays.items() if isinstance(term, Product)}
        sums: dict[str, Any] = product_sums(native, products)
        sums |= {name: int(term_array(native, term).sum()) for name, term in arrays.items() if name not in products}
        if others:
            sums |= dict(zip(others, super().totals(frame, others).row(0), strict=True))
        frame_of_sums = optional("pandas").DataFrame([[sums[name] for name in terms]], columns=list(terms))
        return optional("narwhals").from_native(frame_of_sums)

    def with_keys(self, frame: Any, keys: Mapping[str, Sequence[Key]]) -> Any:
        # Beside each key its place among the public ones, by which `group_totals` groups; no copy where all rows stay.
        native = frame.to_native()
        codes = {_code(name): _places_among(native[name], listed) for name, listed in keys.items()}
        if codes:
            known = np.logical_and.reduce([code >= 0 for code in codes.values()])
            if not known.all():
                native, codes = native[known], {name: code[known] for name, code in codes.items()}
        return _joined(optional("narwhals").from_native(native), codes) if codes else frame

    def group_totals(self, frame: Any, groups: Sequence[str], terms: Mapping[str, Any]) -> Any:
        arrays, others = _apart({name: term for name, term in terms.items() if name != "one"})
        native, pandas = frame.to_native(), optional("pandas")
        if others or any(_code(name) not in native.columns for name in groups):
            return super().group_totals(frame, groups, terms)
        code, sizes = np.zeros(len(native), dtype=np.int64), []
        for name in groups:
            codes = native[_code(name)].to_numpy()
            sizes.append(int(codes.max(initial=-1)) + 1)
            code = code * sizes[-1] + codes
        cells = math.prod(sizes)
        if cells > _MOST_CELLS:
            return super().group_totals(frame, groups, terms)
        number = np.bincount(code, minlength=cells)
        here = np.flatnonzero(number)
        first = np.zeros(cells, dtype=np.int64)
        first[code[::-1]] = np.arange(len(code))[::-1]
        sums = dict(zip(arrays, grouped_sums(native, code, cells, arrays), strict=True)) | {"one": number}
        columns = {name: native[name].array[first[here]] for name in groups}
        columns |= {name: sums[name][here].astype(np.int64) for name in terms}
        return optional("narwhals").from_native(pandas.DataFrame(columns, copy=False))

    def truncated(self, expression: Any) -> Any:
        return expression.floor().cast(optional("narwhals").Int64)  # the cast refuses what has a fraction

    def rows(self, query: Any) -> list[tuple[Any, ...]]:
        # At once: row by row pandas would make a series of each of thousands of columns.
        return [tuple(row) for row in query.to_native().to_numpy(dtype=object).tolist()]

    def answer(self, columns: Mapping[str, list[Any]]) -> Any:
        pandas = optional("pandas")
        columns_of_answer: dict[str, Any] = {}
        for name, values in columns.items():
            types = {type(value) for value in values}
            gaps = {frozenset({int, type(None)}): "Int64", frozenset({bool, type(None)}): "boolean"}
            kind = gaps.get(frozenset(types))  # pandas would make floats, and objects, of whole numbers with gaps
            columns_of_answer[name] = values if kind is None else pandas.Series(values, dtype=kind)
        return pandas.DataFrame(columns_of_answer)

    def made_rows(self, columns: Mapping[str, MadeColumn]) -> Any:
        pandas = optional("pandas")
        plain, gaps = {"int": "int64", "bool": "bool"}, {"int": "Int64", "bool": "boolean"}
        series = {}
        for name, column in columns.items():
            kind: Any = (gaps if column.has_gaps else plain).get(column.kind, {"float": "float64"}.get(column.kind))
            if column.categories is not None:
                kind = pandas.CategoricalDtype(list(column.categories))
            series[name] = pandas.Series(column.values, dtype=kind or object)
        return pandas.DataFrame(series)


def _is_direct(asked: Aggregation) -> bool:
    """Whether NumPy adds up faster than statements do: sums of all rows, or by public keys, without people."""
    plain = asked.person is None and not asked.view and len(asked.groupings) == 1
    keys = all(isinstance(key, PublicKeys) and not key.cell for key in asked.keys.values())
    return plain and keys


def _code(name: str) -> str:
    """The column with the place of a key among the public ones."""
    return f"{name}_place"


class _Places(dict[Key, int]):
    """Places of keys, and that of any other: looked up like this they take less time than with a default."""

    def __missing__(self, _: Key) -> int:
        return _OTHER


def _places_among(values: Any, keys: Sequence[Key]) -> Any:
    """The place of each value among public keys, which are of the kind of the column; -1 for any other."""
    known = {key: at for at, key in enumerate(keys)}
    if isinstance(keys[0], str):
        words = np.asarray(values.array, dtype=object).tolist()
        if len(keys) < _OTHER:  # bytes are made of small numbers faster than arrays
            places = np.frombuffer(bytes(map(_Places(known).__getitem__, words)), np.uint8).astype(np.int64)
            places[places == _OTHER] = -1
            return places
        return np.fromiter(map(known.get, words, repeat(-1)), np.int64, len(words))
    missing = values.isna().to_numpy(dtype=bool)
    numbers = values.to_numpy(dtype=np.int64, na_value=0)
    order = np.argsort(np.array(list(keys), dtype=np.int64), kind="stable")
    listed = np.array(list(keys), dtype=np.int64)[order]
    at = np.searchsorted(listed, numbers).clip(max=len(listed) - 1)
    return np.where((listed[at] == numbers) & ~missing, order[at], -1)


def _apart(terms: Mapping[str, Any]) -> tuple[dict[str, Term], dict[str, Any]]:
    """The terms that are computed as arrays, and the others, which are expressions."""
    arrays = {name: term for name, term in terms.items() if isinstance(term, Term)}
    return arrays, {name: term for name, term in terms.items() if name not in arrays}


def _joined(frame: Any, arrays: Mapping[str, Any]) -> Any:
    """A frame and columns beside it, none of them copied."""
    pandas, native = optional("pandas"), frame.to_native()
    columns = {name: _held(native[name]) for name in native.columns} | dict(arrays)
    return optional("narwhals").from_native(pandas.DataFrame(columns, index=native.index, copy=False))


def _held(values: Any) -> Any:
    """The array that a series holds; NumPy's own without its wrapper, which pandas would look through."""
    return values.to_numpy() if isinstance(values.dtype, np.dtype) else values.array
