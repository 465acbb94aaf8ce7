"""The columns that an aggregation reads, by names inside the query, and what each row adds, as columns of integers."""

from typing import TYPE_CHECKING, Any

from inid.fixed_point import Grid
from inid.tables.aggregation import Aggregation, GridKeys, Inside, Pair, Rows, Term, Value, key_kind
from inid.tables.engines.guarded import optional
from inid.tables.engines.roles import Role
from inid.tables.engines.terms import OnGrid, Present, Product
from inid.tables.facts import Bins, Categories

if TYPE_CHECKING:
    from inid.tables.engines.base import Engine
    from inid.tables.engines.sql.frames import FrameColumns


class QueryNames:
    """The names inside the query: new ones throughout, so that no column of the table is mistaken for one of them."""

    def __init__(self, asked: Aggregation, source: "Engine | FrameColumns") -> None:
        self.selection: dict[str, tuple[str, Role]] = {}
        self.keys = {
            name: f"level_{at}" if isinstance(key, GridKeys) else self._add("key", key.column, key.kind)
            for at, (name, key) in enumerate(asked.keys.items())
        }
        binned = {term.column: term.cells for term in asked.terms if isinstance(term, Inside)}
        numbers = [key.column for key in asked.keys.values() if isinstance(key, GridKeys)]
        numbers += [column for term in asked.terms for column in _numbers(term)]
        self.numbers = {column: self._add("number", column, "number") for column in dict.fromkeys(numbers)}
        self.categories = {
            column: self._add("category", column, key_kind(cells.values))
            for column, cells in binned.items()
            if isinstance(cells, Categories)
        }
        self.person: list[str] = []
        self.order: list[str] = []
        self.floats: list[str] = []
        if asked.person is not None:
            self.person = [self._add("person", asked.person.column, "person")]
            for column in asked.person.order:
                if source.text:  # numbers by size, everything else by its letters
                    self.order.append(self._add("size", column, "number"))
                self.order.append(self._add("order", column, "order"))
            for name in (*self.person, *self.order):
                column, role = self.selection[name]
                if role == "number" or source.is_float(column):
                    self.floats.append(name)
        if not self.selection:  # without a column there would be no rows to count
            self._add("any", next(iter(source.schema)), "raw")

    def without_nan(self) -> dict[str, Any]:
        """People and orders with null for NaN, which engines sort differently."""
        nw = optional("narwhals")
        return {name: nw.when(~nw.col(name).is_nan()).then(nw.col(name)) for name in self.floats}

    def _add(self, prefix: str, column: str, role: Role) -> str:
        name = f"{prefix}_{len(self.selection)}"
        self.selection[name] = (column, role)
        return name


def _numbers(term: Term) -> tuple[str, ...]:
    """The columns that a term reads as numbers."""
    if isinstance(term, Rows):
        return term.present
    if isinstance(term, Value):
        return (term.column, *term.present)
    if isinstance(term, Pair):
        return (*term.columns, *term.present)
    if isinstance(term, Inside):
        return (term.column, *term.present) if isinstance(term.cells, Bins) else term.present
    return ()


class QueryTerms:
    """What each row adds to each sum, as expressions."""

    def __init__(self, names: QueryNames, asked: Aggregation, source: "Engine") -> None:
        self.names, self._asked, self._source = names, asked, source
        scopes = dict.fromkeys(term.present for term in asked.terms if isinstance(term, Value | Pair) and term.present)
        self._scopes = {scope: f"scope_{at}" for at, scope in enumerate(scopes)}
        parts = {self.name(at): self._part(term) for at, term in enumerate(asked.terms) if term != Rows()}
        self.sums = {name: part for name, (part, _) in parts.items()}
        self.shifts = {name: shift for name, (_, shift) in parts.items()}
        self.prepared: dict[str, Any] = self._words() | self._values() | self._masks() | self._factors()

    def name(self, at: int) -> str:
        """The column of a term: "one" for the number of rows."""
        return "one" if self._asked.terms[at] == Rows() else f"sum_{at}"

    def _words(self) -> dict[str, Any]:
        """Categories without missing values, and people and orders without NaN."""
        nw, fill = optional("narwhals"), self._asked.fill
        known = {name: fill[column] for column, name in self.names.categories.items() if column in fill}
        roles = {name: {"str": str, "int": int, "bool": bool}[self.names.selection[name][1]] for name in known}
        found = {name: nw.col(name).fill_null(roles[name](usual)) for name, usual in known.items()}
        return found | self.names.without_nan()

    def _values(self) -> dict[str, Any]:
        """The columns of bins without missing values; where none fills them, those rows are in no cell."""
        cells = [term for term in self._asked.terms if isinstance(term, Inside) and isinstance(term.cells, Bins)]
        names = {term.column: self.names.numbers[term.column] for term in cells}
        return {
            f"{name}_value": self._source.present(name, column).fill_null(self.usual(column, 0.0))
            for column, name in names.items()
        }

    def _masks(self) -> dict[str, Any]:
        """For each set of columns that must be present together whether they are: once, for all sums that ask it."""
        asked = {getattr(term, "condition", None) for term in self.sums.values()}
        return {name: self.present(scope) for scope, name in self._scopes.items() if name in asked}

    def present(self, scope: tuple[str, ...]) -> Present:
        """Whether all of these columns have a number."""
        return Present(tuple((self.names.numbers[column], column) for column in scope))

    def _factors(self) -> dict[str, Any]:
        """The columns of products on their grids."""
        pairs = [term for term in self._asked.terms if isinstance(term, Pair)]
        grids = {column: grid for pair in pairs for column, grid in zip(pair.columns, pair.grids, strict=True)}
        return {self._factor(column): self.on_grid(column, grid, shift=grid.below) for column, grid in grids.items()}

    def _factor(self, column: str) -> str:
        return f"{self.names.numbers[column]}_factor"

    def usual(self, column: str, otherwise: float) -> float:
        """What stands for a missing number: the public fill value, or another one that is masked."""
        return float(self._asked.fill.get(column, otherwise))  # type: ignore[arg-type]

    def on_grid(self, column: str, grid: Grid, condition: str | None = None, shift: int = 0) -> OnGrid:
        """A column of numbers on its grid; a missing value is in the middle of the bounds."""
        return OnGrid(self.names.numbers[column], column, grid, self.usual(column, grid.middle), condition, shift)

    def _part(self, term: Term) -> tuple[Any, int]:
        """The engine's term, or expression, and its shift."""
        if isinstance(term, Inside):
            return self._inside(term).cast(optional("narwhals").Int64), 0
        if isinstance(term, Rows):
            return self.present(term.present), 0
        if isinstance(term, Value):
            shift, grids, columns, centred = term.grid.below, [term.grid], [term.column], True
        elif isinstance(term, Pair):
            shift, grids, columns, centred = term.shift, [*term.grids], [*term.columns], term.shift == 0
        else:  # people are counted once per cell after a person's rows are limited
            return optional("narwhals").col("one"), 0
        # A missing value is 0 after the shift of a sum, on all but a few grids of narrow bounds; those, other columns,
        # and the shift of a square need the mask.
        own = set(term.present) <= set(columns) and centred and all(grid.integer(grid.middle) == 0 for grid in grids)
        condition = self._scopes[term.present] if term.present and not own else None
        taken = 0 if condition is None else shift
        made = (
            self.on_grid(columns[0], grids[0], condition, taken)
            if isinstance(term, Value)
            else Product(self._factor(columns[0]), self._factor(columns[-1]), condition, taken)
        )
        return made, shift - taken

    def _inside(self, term: Inside) -> Any:
        """Whether the row lies in a cell of a histogram."""
        nw = optional("narwhals")
        if isinstance(term.cells, Categories):
            word = nw.col(self.names.categories[term.column])
            return word.is_in([term.cells.values[term.at]]).fill_null(False)
        value, last = nw.col(f"{self.names.numbers[term.column]}_value"), term.cells.edges[-1]
        low, high = term.cells.edges[term.at : term.at + 2]
        inside = (value >= low) & ((value <= high) if high == last else (value < high))
        return inside & self.present(term.present).expression(self._source) if term.present else inside
