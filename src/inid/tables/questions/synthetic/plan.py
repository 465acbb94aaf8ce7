"""The plan of synthetic rows: the noise of the total, of columns and of scores, and what pairs will have."""

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from inid.planning.text import aligned
from inid.report import PlanLine, PlanSummary
from inid.tables.plan import PlannedNumber, PlanOfSteps
from inid.tables.questions.synthetic.model import effort
from inid.tables.questions.synthetic.three_steps import SHARES

if TYPE_CHECKING:
    from inid.tables.questions.synthetic.kind import SyntheticRows

__all__ = ["SyntheticPlan"]


@dataclass(frozen=True, eq=False)
class SyntheticPlan(PlanOfSteps):
    """Three steps: columns, scores of all pairs, and the pairs that the scores choose. See `three_steps`."""

    question: "SyntheticRows"

    def summary(self) -> PlanSummary:
        """One line for the total, one for the table of each column, one for the scores."""
        question, (first, second, *_) = self.question, self.known
        steps, columns = question.three_steps, question.three_steps.columns
        variances = dict(zip(columns.members, columns.variances(first.scales), strict=True))
        parts = {block: float(columns.most_part(block)) for block in columns.members}  # 0 of a total that is for free
        spent = {block: part / variances[block] if part else 0.0 for block, part in parts.items()}
        whole = sum(spent.values()) * steps.rows**2
        shares = {block: float(SHARES[0]) * cost * steps.rows**2 / max(whole, 1e-300) for block, cost in spent.items()}
        lines = [_line("rows", shares[()], sqrt(variances[()]))]
        for at, column in enumerate(question.columns):
            own = variances[()] / column.size**2 + variances[at,] * (1 - 1 / column.size)
            lines.append(_line(f"rows by {column.name}", shares[at,], sqrt(own), column.size))
        lines.append(_line("scores of pairs", float(SHARES[1]), float(second.scales[0]), len(steps.pairs)))
        return PlanSummary(
            first,
            tuple(lines),
            {"iid": 1.0, "spr": 1.0},
            None,
            opponent=None,
            inside=(*self.pair_notes(), self.effort_note()),
            promise=self.promise,
            steps=self.known,
        )

    def planned_numbers(self) -> list[PlannedNumber]:
        """See `Plan.planned_numbers`."""
        return [PlannedNumber(line.label, line.cells or 1, line.deviation) for line in self.summary().lines]

    def pair_notes(self) -> list[str]:
        """What is known of the noise of pairs: a range for each number of pairs that may be kept."""
        if self.released:
            kept = ", ".join(f"{one}*{two}" for one, two in self.question.kept_names(self.released))
            return [f"pairs that were kept: {kept}"]
        steps, mu = self.question.three_steps, float(self.question.third_promise(self.promise).mu)
        made = steps.blocks(steps.pairs)
        costs, error, sizes = steps.pair_sizes
        own = np.array([float(made.own_part(pair)) for pair in steps.pairs])
        noise, sizes = (costs / error) ** (1 / 3) * np.sqrt(own) * steps.rows, np.sort(sizes)
        found = []
        for number in sorted({1, min(10, len(sizes)), len(sizes)}):
            sums = np.array([sizes[:number].sum(), sizes[len(sizes) - number :].sum()])
            least, most = 1 / np.sqrt(steps.level(sums, mu))
            ends = f"{noise.min() * least:.4g} to {noise.max() * most:.4g}"
            found.append(f"if {number} of {len(sizes)} pairs are kept, the std of a cell's own noise is {ends}")
        return found

    def effort_note(self) -> str:
        """What making rows takes, the first time."""
        found = effort(self.question.three_steps.sizes)
        return (
            f"making rows takes about {max(found.seconds, 1):.0f} s of one processor and {found.megabytes:.0f} MB, "
            "once; more rows take little"
        )

    def __str__(self) -> str:
        question = self.question
        rows = [["", "cells", "std of noise"]]
        rows += [[line.label, str(line.cells or 1), f"{line.deviation:.4g}"] for line in self.summary().lines]
        return "\n".join(
            [
                f"Synthetic rows of {len(question.columns)} columns, in three steps of Gaussian noise",
                f"promise: {self.promise}, neighbours: {self.neighbours}",
                *question.view.lines(),
                "",
                *aligned(rows, left=1),
                "",
                *self.pair_notes(),
                self.effort_note(),
                "The rows themselves have no stated error: tables that were measured have intervals.",
            ]
        )


def _line(label: str, share: float, std: float, cells: int | None = None) -> PlanLine:
    return PlanLine(label, share, std, None, {"iid": std, "spr": std}, cells=cells)
