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
from inid.tables.questions.synthetic.kind import SyntheticPlan, SyntheticResult, SyntheticRows
from inid.tables.questions.synthetic.model import RowMaker
from inid.tables.questions.synthetic.three_steps import LEAST_WEIGHT, MOST_WEIGHT, model_weights
from inid.tables.view import View

if TYPE_CHECKING:
    from inid.accounting import Ledger

Levels = NDArray[np.int64]  # a row for each person, a column for each column; -1 in a row that counts nowhere
_MOST_ROWS = 2**30  # no residual of two columns with 8,192 levels is then beyond 2^53


@dataclass(frozen=True, eq=False)
class CodedRelease:
    """What was released of levels."""

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
    """Release the tables of columns and pairs of levels, under one charge."""
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
    measured = plan.settled(released)
    result = SyntheticResult(last, 0.95, question, None, measured, (), tuple(earlier))  # type: ignore[arg-type]
    return CodedRelease(measured, result.to_dict(), last.private, question.row_maker(last, earlier))


def _column(name: str, stated: Sequence[str] | Sequence[float]) -> LevelColumn:
    if isinstance(stated[0], str):
        return LevelColumn(name, tuple(map(str, stated)), other=False)
    return LevelColumn(name, bins=Bins(tuple(map(float, stated))), other=False)


def _pairs(levels: Levels, question: SyntheticRows) -> dict[Block, Whole]:
    """The table of every pair. NOT PRIVATE."""
    codes, sizes = levels[(levels >= 0).all(axis=1)], question.three_steps.sizes
    pairs: dict[Block, Whole] = {}
    for one, two in question.three_steps.pairs:
        cells = codes[:, one] * sizes[two] + codes[:, two]
        counted: Whole = np.bincount(cells, minlength=sizes[one] * sizes[two]).astype(np.int64)
        pairs[one, two] = counted.reshape(sizes[one], sizes[two])
    return pairs
