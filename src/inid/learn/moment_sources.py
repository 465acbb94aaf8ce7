"""Where exact moments come from: arrays that were read by type and shape, or a table that stays in its engine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from inid.accounting import Ledger
from inid.arguments import Floats
from inid.learn.column_moments import exact_columns
from inid.learn.encoded_bounds import Groups, held_to_groups
from inid.learn.inputs import Matrix
from inid.learn.one_hot_moments import moment_layout
from inid.learn.public_units import Units
from inid.learn.second_moments import MomentPlan, Moments, exact_moments, release_moments
from inid.learn.table_moments import table_columns, table_moments
from inid.learn.table_rows import TableRows
from inid.sets import Neighbours
from inid.tables import Table

__all__ = ["MomentSource"]


@dataclass(frozen=True)
class MomentSource:
    """Columns whose moments can be computed, after a charge.

    Attributes:
        relation: The neighbours.
        rows: The number of rows; None where the relation keeps it secret.
        weighted: Whether rows have weights, whose sum is then secret too.
        answer: Computes the exact moments, of units, with their means and the number of rows or without.
        columns: Computes the sums and the sums of squares of the columns, of units, and the number of rows.
        groups: The one-hot groups of the columns, to which rows are held.
    """

    relation: Neighbours
    rows: int | None
    answer: Callable[..., Floats]
    columns: Callable[[Units], Floats]
    weighted: bool = False
    groups: Groups = ()

    @classmethod
    def of_arrays(
        cls,
        relation: Neighbours,
        *parts: Matrix,
        weights: Callable[[], Floats] | None = None,
        groups: Groups = (),
    ) -> "MomentSource":
        """Some matrices, side by side, how to read each row's weight in [0, 1], and the one-hot groups of the first."""

        @lru_cache(maxsize=1)  # two looks are at the same values
        def read() -> Floats:
            each = [part.floats() for part in parts]
            each[0] = held_to_groups(each[0], groups)
            return each[0] if len(each) == 1 else np.column_stack(each)

        def given() -> dict[str, Floats]:
            return {} if weights is None else {"weights": weights()}

        def answer(units: Units, *, mean: bool, count: bool) -> Floats:
            found = exact_moments(read(), units, mean=mean, count=count, **given())
            return found[moment_layout(units.size.size, groups, mean=mean, count=count).picked] if groups else found

        def columns(units: Units) -> Floats:
            return exact_columns(read(), units, count=True, **given())

        rows = None if relation == "add_remove" else parts[0].shape[0]
        return cls(relation, rows, answer, columns, weights is not None, groups)

    @classmethod
    def of_table(cls, table: Table, names: Sequence[str], neighbours: object, ledger: Ledger | None) -> "MomentSource":
        """Some columns of a table."""
        rows = TableRows.of(table, names, neighbours, ledger)
        return cls(rows.relation, rows.rows, partial(table_moments, rows), partial(table_columns, rows))

    def release(self, planned: MomentPlan, ledger: Ledger | None, label: str) -> Moments:
        """Charge, then compute and release the moments."""
        exact = partial(self.answer, planned.units, mean=planned.mean, count=planned.count)
        return release_moments(exact, planned, ledger, label)
