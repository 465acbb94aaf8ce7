"""Synthetic rows of levels that are found after the charge, without a table: for estimators, which have arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from inid.arguments import real, shown
from inid.errors import ArgumentError
from inid.promises import Budget
from inid.releasing import charge_together
from inid.sets import Neighbours
from inid.tables.facts import Bins
from inid.tables.query import drawn_steps
from inid.tables.questions.marginals.basis import Whole
from inid.tables.questions.synthetic.blocks import Block
from inid.tables.questions.synthetic.columns import LevelColumn
from inid.tables.questions.synthetic.kind import SyntheticRows
from inid.tables.questions.synthetic.plan import SyntheticPlan
from inid.tables.questions.synthetic.result import SyntheticResult
from inid.tables.questions.synthetic.row_maker import RowMaker
from inid.tables.questions.synthetic.three_steps import LEAST_WEIGHT, MOST_WEIGHT, model_weights
from inid.tables.view import View

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["CodedRelease", "Levels", "release_levels"]

Levels = NDArray[np.int64]  # a row for each person, a column for each column; -1 in a row that counts nowhere
_MOST_ROWS = 2**30  # no residual of two columns with 8,192 levels is then beyond 2^53


@dataclass(frozen=True, eq=False)
class CodedRelease:
    """What was released of levels.

    Attributes:
        plan: The plan, with the noise of every step.
        record: Everything, for `verify_result` and `synthetic_rows`.
        private: False when a test's source drew the noise.
        maker: Makes rows of it.
    """

    plan: SyntheticPlan
    record: dict[str, Any]
    private: bool
    maker: RowMaker


def release_levels(
    levels: Mapping[str, Sequence[str] | Sequence[float]],
    find: Callable[[], Levels],
    *,
    budget: Budget,
    neighbours: Neighbours,
    target: int | None = None,
    target_weight: float = 1.0,
    number: bool = False,
    ledger: "Ledger | None",
    label: str,
) -> CodedRelease:
    """Release the tables of columns and pairs of levels, under one charge.

    Args:
        levels: By column its public keys, as texts, or the edges of its bins.
        find: Finds the levels of all rows; called after the charge.
        budget: The promise.
        neighbours: The relation.
        target: The place of the column that a model will predict, if there is one.
        target_weight: How much more its pairs count than others.
        number: Whether it is a number, whose own table counts as much as its pairs.
        ledger: Where the cost is charged.
        label: A name for the ledger's history.

    Raises:
        ArgumentError: There are too many levels, or the weight is no positive number.
        BudgetError: The promise is for other noise, or the ledger refuses.
    """
    facts: dict[str, Any] = {"person": None, "neighbours": neighbours, "rows": None, "max_rows": _MOST_ROWS}
    columns = tuple(_column(name, stated) for name, stated in levels.items())
    cure = "pass a number from 0.001 to 1000; 1 is that of others"
    weight = real("target_weight", target_weight, least=LEAST_WEIGHT, cure=cure)
    if weight > MOST_WEIGHT:
        raise ArgumentError(f"target_weight must be at most 1000, got {shown(target_weight)}: {cure}.")
    weights = {} if target is None else model_weights(len(columns), target, weight, number=number)
    question = SyntheticRows(columns=columns, weights=weights, view=View(), **facts)
    question.check_limits()
    plan = question.plan(budget)
    paid = iter(charge_together(plan.noises, plan.charge, ledger, label))
    numbers = question.inside(_pairs(find(), question), plan)
    released, _ = drawn_steps(question, plan, question.draws(plan), numbers, paid)
    *earlier, last = released
    made = plan.settled(released)
    result = SyntheticResult(last, 0.95, question, None, made, (), tuple(earlier))  # type: ignore[arg-type]
    maker = RowMaker(columns, question.measured(last, earlier))
    return CodedRelease(made, result.to_dict(), last.private, maker)


def _column(name: str, stated: Sequence[str] | Sequence[float]) -> LevelColumn:
    if isinstance(stated[0], str):
        return LevelColumn(name, tuple(map(str, stated)), other=False)
    return LevelColumn(name, bins=Bins(tuple(map(float, stated))), other=False)


def _pairs(found: Levels, question: SyntheticRows) -> dict[Block, Whole]:
    """The table of every pair. NOT PRIVATE."""
    codes, sizes = found[(found >= 0).all(axis=1)], question.three_steps.sizes
    pairs: dict[Block, Whole] = {}
    for one, two in question.three_steps.pairs:
        cells = codes[:, one] * sizes[two] + codes[:, two]
        counted: Whole = np.bincount(cells, minlength=sizes[one] * sizes[two]).astype(np.int64)
        pairs[one, two] = counted.reshape(sizes[one], sizes[two])
    return pairs
