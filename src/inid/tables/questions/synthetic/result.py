"""What a release of synthetic rows returns: measured tables, and rows that are made of them, again and again."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

from inid.errors import ArgumentError
from inid.tables.questions.synthetic.measured import Measured
from inid.tables.questions.synthetic.plan import SyntheticPlan
from inid.tables.questions.synthetic.row_maker import Progress, RowMaker
from inid.tables.result import SURE, PageFacts, Result

if TYPE_CHECKING:
    from inid.report import ReportInputs
    from inid.tables.questions.synthetic.kind import SyntheticRows

__all__ = ["SyntheticResult"]


@dataclass(frozen=True, eq=False)
class SyntheticResult(Result):
    """Released numbers of synthetic rows. Rows are made of them, and of nothing else.

    Attributes:
        plan: The plan by which the noise was drawn, with the noise of all three steps.
        question: What was asked, with the public facts.
    """

    question: "SyntheticRows"
    plan: SyntheticPlan

    @cached_property
    def measured(self) -> Measured:
        """What was released, as noisy tables."""
        return self.question.measured(self.release, self.earlier)

    @property
    def kept(self) -> list[tuple[str, str]]:
        """The pairs of columns that were measured; the others are taken as independent."""
        return self.question.kept_names(self.plan.released)

    def rows(self, n: int | None = None, *, progress: Progress = None) -> Any:  # type: ignore[override]
        """Rows like those of the table, as a frame of its kind.

        The first call fits a model to the released numbers, which takes seconds; an interrupt loses nothing. Rows cost
        no budget, however many are made.

        Args:
            n: How many rows; the noisy number of rows of the table by default.
            progress: Called with the part that is done; True for a line on stderr, which a terminal gets by default.

        Raises:
            ArgumentError: n is no number of rows.

        >>> import inid, pandas
        >>> frame = pandas.DataFrame({"sex": ["F", "M"] * 50, "smokes": [True, False, False, True] * 25})
        >>> t = inid.tables.Table(frame, domains={"sex": ["F", "M"], "smokes": [False, True]}, other="drop")
        >>> q = t.query(synthetic=True)
        >>> q.release(q.plan(inid.ApproxDP(1.0, 1e-6))).rows(3).shape
        (3, 2)
        """
        return self.source.made_rows(self._maker.rows(n, progress, self.source.schema))

    @cached_property
    def _maker(self) -> RowMaker:
        return RowMaker(self.question.columns, self.measured)

    @property
    def effective_rows(self) -> float:
        """How much the rows are worth, as a part of their number: 1 where all count alike. Fits the model."""
        return self._maker.pool(lambda _: None).effective

    def marginal(self, *columns: str) -> Any:
        """The table of no column, one or two, from the measurements: keys, estimate, lower, upper, std.

        A pair that was not kept has an estimate alone, that of independent columns: its interval is not known, and is
        NaN. `kept` says which were.

        Args:
            columns: The columns, in any order.

        Raises:
            ArgumentError: They are not one or two columns of the question.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"a": [1, 2], "b": [1, 1]}), domains={"a": [1, 2], "b": [1, 2]})
        >>> q = t.query(synthetic=True)
        >>> list(q.release(q.plan(inid.ApproxDP(1.0, 1e-6))).marginal("a", "b").columns)
        ['a', 'b', 'estimate', 'lower', 'upper', 'std']
        """
        names = [column.name for column in self.question.columns]
        if len(columns) > 2 or len(set(columns)) != len(columns) or not set(columns) <= set(names):
            raise ArgumentError(
                f"marginal takes at most two of the columns {', '.join(names)}: wider tables were not measured."
            )
        asked = [names.index(column) for column in columns]
        made = self.measured.table(tuple(sorted(asked)), self.level)
        estimate = made.estimate.T if asked != sorted(asked) else made.estimate
        levels = list(product(*(self.question.columns[at].levels for at in asked)))
        values = estimate.reshape(-1)
        found: dict[str, list[Any]] = {name: [level[at] for level in levels] for at, name in enumerate(columns)}
        numbers = {"estimate": values, "lower": values - made.reach, "upper": values + made.reach}
        found |= {name: number.tolist() for name, number in numbers.items()}
        return self.source.answer(found | {"std": [made.std] * len(levels)})

    @property
    def may_be_full(self) -> bool:
        """See `Question.may_be_full`."""
        made = self.measured.table((), SURE)
        return bool(float(made.estimate) + made.reach >= self.question.max_rows)

    def report_inputs(self, page: PageFacts) -> "ReportInputs":
        """What the report shows; once rows were made, their tables beside the measured ones too."""
        made = super().report_inputs(page)
        found = ", ".join(f"{name} {apart:.3f}" for name, apart in self._maker.beside())
        if not found:
            return made
        words = f"{found} (total variation of the tables of rows from those that were measured, noise and all)"
        even = ("rows are worth", f"{self.effective_rows:.0%} of their number")
        return replace(made, question=[*made.question, ("rows beside measured tables", words), even])

    def __str__(self) -> str:
        pairs = len(self.question.three_steps.pairs)
        kept = ", ".join(f"{one}*{two}" for one, two in self.kept)
        return f"{super().__str__()}\n{len(self.kept)} of {pairs} pairs were measured: {kept}"
