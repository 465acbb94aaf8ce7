"""Synthetic rows as a kind of question: its plan, its steps and its result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import inf, prod, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError, RecordError
from inid.mechanisms import MechanismName
from inid.planning import NoisePlan, plan
from inid.planning.noise_plan import aligned
from inid.promises import Budget, GaussianDP
from inid.releasing import Release
from inid.report import Estimate, EstimateBlock, PlanLine, PlanSummary
from inid.tables.aggregation import Aggregation, Totals
from inid.tables.facts import Marginal
from inid.tables.plan import PlannedNumber, PlanOfSteps
from inid.tables.presentation import KeyLabels, listed_keys, named_levels, protection, view_facts
from inid.tables.question import Question, check_alone, check_details
from inid.tables.questions.marginals.basis import Whole, contrasts
from inid.tables.questions.marginals.table_statistics import SummedColumn, tables_aggregation
from inid.tables.questions.synthetic.blocks import Block
from inid.tables.questions.synthetic.columns import LevelColumn, coded_view, read_level_columns
from inid.tables.questions.synthetic.model import Progress, RowMaker, effort
from inid.tables.questions.synthetic.rules import Rules, read_rules
from inid.tables.questions.synthetic.three_steps import (
    LEAST_WEIGHT,
    MOST_WEIGHT,
    FirstStep,
    Measured,
    Steps,
    are_parts,
    parts_of,
    scores_triples,
    target_weights,
)
from inid.tables.questions.synthetic.values_in_bins import (
    VALUES_SHARE,
    ValuesInBins,
    WideColumn,
    read_heaps,
    wide_from_list,
)
from inid.tables.result import SURE, Answer, PageFacts, Result
from inid.tables.table import Table
from inid.tables.view import parsing

if TYPE_CHECKING:
    from inid.report import ReportInputs


@dataclass(frozen=True, eq=False)
class SyntheticPlan(PlanOfSteps):
    """Columns, scores of all pairs, and the pairs that they choose; with triples two more steps. See `three_steps`."""

    question: "SyntheticRows"

    def summary(self) -> PlanSummary:
        """One line for the total, one for the table of each column, one for the scores."""
        question, (first, second, *_) = self.question, self.known
        steps, columns = question.three_steps, question.three_steps.columns
        variances = dict(zip(columns.members, columns.variances(first.scales), strict=True))
        parts = {block: float(columns.most_part(block)) for block in columns.members}  # 0 of a total that is for free
        spent = {block: part / variances[block] if part else 0.0 for block, part in parts.items()}
        total = sum(spent.values()) * steps.rows**2
        shares = {
            block: float(steps.shares[0]) * cost * steps.rows**2 / max(total, 1e-300) for block, cost in spent.items()
        }
        lines = [_line("rows", shares[()], sqrt(variances[()]))]
        for at, column in enumerate(question.columns):
            cell_variance = variances[()] / column.size**2 + variances[at,] * (1 - 1 / column.size)
            lines.append(_line(f"rows by {column.name}", shares[at,], sqrt(cell_variance), column.size))
        lines.append(_line("scores of pairs", float(steps.shares[1]), float(second.scales[0]), len(steps.pairs)))
        if steps.triples:
            fourth = self.steps[3]
            assert isinstance(fourth, NoisePlan)  # noqa: S101 - it has no choice before it
            lines.append(
                _line("scores of triples", float(steps.shares[3]), float(fourth.scales[0]), len(steps.triples))
            )
        if question.values is not None:
            last = self.steps[-1]
            assert isinstance(last, NoisePlan)  # noqa: S101 - as that of triples
            lines.append(_line("values in bins", float(steps.shares[-1]), float(last.scales.max()), last.scales.size))
        return PlanSummary(
            first,
            tuple(lines),
            {"iid": 1.0, "spr": 1.0},
            None,
            opponent=None,
            inside=tuple(self.notes()),
            promise=self.promise,
            steps=self.known,
        )

    def planned_numbers(self) -> list[PlannedNumber]:
        return [PlannedNumber(line.label, line.cells or 1, line.deviation) for line in self.summary().lines]

    def notes(self) -> list[str]:
        """What is known of pairs, values in bins and persons, and what making rows takes."""
        question = self.question
        return [*self.pair_notes(), *question.value_notes(), *question.together_notes(), self.effort_note()]

    def pair_notes(self) -> list[str]:
        """What is known of the noise of pairs: a range for each number of pairs that may be kept."""
        if self.released:
            measured = ", ".join(f"{one}*{two}" for one, two in self.question.kept_names(self.released))
            return [f"pairs that were kept: {measured}", *self.question.triple_notes(self.released)]
        steps, mu = self.question.three_steps, self.question.parts(self.promise)[2].mu
        blocks = steps.blocks(steps.pairs)
        costs, error, sizes = steps.pair_sizes
        pair_costs = np.array([float(blocks.own_part(pair)) for pair in steps.pairs])
        noise, sizes = (costs / error) ** (1 / 3) * np.sqrt(pair_costs) * steps.rows, np.sort(sizes)
        notes = []
        for number in sorted({1, min(10, len(sizes)), len(sizes)}):
            sums = np.array([sizes[:number].sum(), sizes[len(sizes) - number :].sum()])
            least, most = 1 / np.sqrt(steps.level(sums, mu))
            ends = f"{noise.min() * least:.4g} to {noise.max() * most:.4g}"
            notes.append(f"if {number} of {len(sizes)} pairs are kept, the std of a cell's own noise is {ends}")
        return [*notes, *self.question.triple_notes(())]

    def effort_note(self) -> str:
        """What making rows takes, the first time."""
        cost = effort(self.question.three_steps.sizes)
        return (
            f"making rows takes about {max(cost.seconds, 1):.0f} s of one processor and {cost.megabytes:.0f} MB, "
            "once; more rows take little"
        )

    def in_words(self) -> str:
        question = self.question
        rows, steps = [["", "cells", "std of noise"]], _NUMBERS[question.steps]
        rows += [[line.label, str(line.cells or 1), f"{line.deviation:.4g}"] for line in self.summary().lines]
        return "\n".join(
            [
                f"Synthetic rows of {len(question.columns)} columns, in {steps} steps of Gaussian noise",
                f"promise: {self.promise}, neighbours: {self.neighbours}",
                *question.fact_lines(),
                *([] if question.rules is None else [f"every row: {text}" for text in question.rules.texts]),
                "",
                *aligned(rows, left=1),
                "",
                *self.notes(),
                "The rows themselves have no stated error: tables that were measured have intervals.",
            ]
        )


_NUMBERS = {3: "three", 4: "four", 5: "five", 6: "six"}


def _line(label: str, share: float, std: float, cells: int | None = None) -> PlanLine:
    return PlanLine(label, share, std, None, {"iid": std, "spr": std}, cells=cells)


# What a release of synthetic rows returns: measured tables, and rows that are made of them, again and again.


@dataclass(frozen=True, eq=False)
class SyntheticResult(Result):
    """Released numbers of synthetic rows. Rows are made of them, and of nothing else."""

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

    def rows(self, n: int | None = None, *, progress: Progress = None) -> Any:
        """Rows like those of the table, as a frame of its kind.

        The first call fits a model to the released numbers, which takes seconds; an interrupt loses nothing. Rows cost
        no budget, however many are made.

        >>> import inid, pandas
        >>> frame = pandas.DataFrame({"sex": ["F", "M"] * 50, "smokes": [True, False, False, True] * 25})
        >>> t = inid.tables.Table(frame, domains={"sex": ["F", "M"], "smokes": [False, True]}, other="drop")
        >>> q = t.synthesize()
        >>> q.release(q.plan(inid.ApproxDP(1.0, 1e-6))).rows(3).shape
        (3, 2)
        """
        return self.source.made_rows(self._maker.rows(n, progress, self.source.schema))

    @cached_property
    def _maker(self) -> RowMaker:
        maker: RowMaker = self.question.row_maker(self.release, self.earlier)
        return maker

    @property
    def effective_rows(self) -> float:
        """How much the rows are worth, as a part of their number: 1 where all count alike. Fits the model."""
        return self._maker.pool(lambda _: None).effective

    def marginal(self, *columns: str) -> Any:
        """The table of no column, one or two, from the measurements: keys, estimate, lower, upper, std.

        A pair that was not kept has an estimate alone, that of independent columns: its interval is not known, and is
        NaN. `kept` says which were.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"a": [1, 2], "b": [1, 1]}), domains={"a": [1, 2], "b": [1, 2]})
        >>> q = t.synthesize()
        >>> list(q.release(q.plan(inid.ApproxDP(1.0, 1e-6))).marginal("a", "b").columns)
        ['a', 'b', 'estimate', 'lower', 'upper', 'std']
        """
        names = [column.name for column in self.question.columns]
        if len(columns) > 2 or len(set(columns)) != len(columns) or not set(columns) <= set(names):
            raise ArgumentError(
                f"marginal takes at most two of the columns {', '.join(names)}: wider tables were not measured."
            )
        places = [names.index(column) for column in columns]
        table = self.measured.table(tuple(sorted(places)), self.level)
        estimate = table.estimate.T if places != sorted(places) else table.estimate
        levels = list(product(*(self.question.columns[at].levels for at in places)))
        values = estimate.reshape(-1)
        frame: dict[str, list[Any]] = {name: [level[at] for level in levels] for at, name in enumerate(columns)}
        numbers = {"estimate": values, "lower": values - table.reach, "upper": values + table.reach}
        frame |= {name: number.tolist() for name, number in numbers.items()}
        return self.source.answer(frame | {"std": [table.std] * len(levels)})

    @property
    def may_be_full(self) -> bool:
        total = self.measured.table((), SURE)
        return bool(float(total.estimate) + total.reach >= self.question.max_rows)

    def report_inputs(self, page: PageFacts) -> "ReportInputs":
        """What the report shows; once rows were made, their tables beside the measured ones too."""
        inputs = super().report_inputs(page)
        distances = ", ".join(f"{name} {apart:.3f}" for name, apart in self._maker.beside())
        if not distances:
            return inputs
        words = f"{distances} (total variation of the tables of rows from those that were measured, noise and all)"
        even = ("rows are worth", f"{self.effective_rows:.0%} of their number")
        return replace(inputs, question=[*inputs.question, ("rows beside measured tables", words), even])

    def __str__(self) -> str:
        pairs = len(self.question.three_steps.pairs)
        measured = ", ".join(f"{one}*{two}" for one, two in self.kept)
        return f"{super().__str__()}\n{len(self.kept)} of {pairs} pairs were measured: {measured}"


_DETAILS = ("synthetic_columns", "synthetic_target", "synthetic_rules", "synthetic_triples", "synthetic_heaps")
_TARGET_WEIGHT = 4.0
_MOST_LEVELS = 2**13  # of all columns together: rows are made of matrices of so many squared
_EXACT = 2**53


@dataclass(frozen=True)
class ExactPairs:
    """The exact tables of the total, of columns, pairs and triples, and values in bins. NOT PRIVATE.

    Beside them are the promises of the steps.
    """

    tables: Mapping[Block, Whole]
    promises: Sequence[GaussianDP]
    values: Floats | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class SyntheticRows(Question):
    """Rows like those of the table. Asked by `Table.synthesize`.

    >>> import inid, pandas
    >>> frame = pandas.DataFrame({"sex": ["F", "M"] * 50, "age": range(100)})
    >>> t = Table(frame, domains={"sex": ["F", "M"]}, bounds={"age": (0, 100)}, bins={"age": 4}, other="drop")
    >>> print(t.synthesize().plan(inid.ApproxDP(1.0, 1e-6)))
    Synthetic rows of 2 columns, in four steps of Gaussian noise
    promise: ApproxDP(epsilon=1.0, delta=1e-06), neighbours: add_remove
    <BLANKLINE>
                     cells  std of noise
    rows                 1         23.27
    rows by sex          2         15.58
    rows by age          4         12.92
    scores of pairs      1         18.89
    values in bins     105         42.25
    <BLANKLINE>
    if 1 of 1 pairs are kept, the std of a cell's own noise is 2.203 to 2.203
    means inside bins: age
    heaps (single values): searched in age
    making rows takes about 1 s of one processor and 5 MB, once; more rows take little
    The rows themselves have no stated error: tables that were measured have intervals.
    """

    kind: ClassVar[str] = "synthetic"
    method: ClassVar[str] = "synthesize"
    options: ClassVar[tuple[str, ...]] = ()
    refusable: ClassVar[tuple[str, ...]] = ("triples",)
    makes_rows: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("domains", "other", "bins")
    families: ClassVar[tuple[MechanismName, ...]] = ("gaussian",)
    weighed: ClassVar[bool] = False
    heading: ClassVar[str] = "Synthetic rows"
    lead: ClassVar[str] = (
        "From noisy counts synthetic rows are made: rows of nobody, whose tables are near those of the data. The "
        "counts below are what was measured, before rows are made of it."
    )
    plans = SyntheticPlan
    results = SyntheticResult
    asked_as = "synthetic"

    columns: tuple[LevelColumn, ...]
    weights: Mapping[Block, float] = field(default_factory=dict)
    rules: Rules | None = None
    triples: bool = False
    wide: tuple[WideColumn, ...] = ()

    @property
    def steps(self) -> int:  # type: ignore[override]
        """How many steps there are: three, or five where tables of three columns are scored; one more of wide bins."""
        return len(self.three_steps.shares)

    @classmethod
    def claims_options(cls, stated: Mapping[str, Any]) -> bool:
        """Whether rows are asked for, or details of them."""
        return any(name in stated for name in ("synthetic", *_DETAILS))

    @classmethod
    def from_options(cls, stated: Mapping[str, Any]) -> dict[str, Any]:
        check_details("synthetic", stated, _DETAILS)
        check_alone("synthetic", stated, ("synthetic", *_DETAILS))
        asked = {name.removeprefix("synthetic_"): stated.get(name) for name in _DETAILS}
        return {name: value for name, value in asked.items() if value}

    @classmethod
    def read(cls, table: Table, asked: Mapping[str, Any]) -> Self:
        columns = read_level_columns(table, asked.get("columns"))
        weights = _read_weights([column.name for column in columns], asked.get("target"), asked.get("weights", {}))
        rules = read_rules(columns, asked.get("rules"))
        triples = asked.get("triples")
        if triples is None:
            triples = scores_triples([column.size for column in columns])
        elif not isinstance(triples, bool):
            raise ArgumentError(f"triples must be True or False, or None for what pays, got {shown(triples)}.")
        wide = tuple(read_heaps(columns, asked.get("heaps")))
        facts = cls.facts_of(table)
        question = cls(columns=columns, weights=weights, rules=rules, triples=triples, wide=wide, **facts)
        question.check_limits()
        return question

    @property
    def vanishing(self) -> bool:
        """Whether replacing one unit's data can take a row out, so that no total is public."""
        return self.person is not None or self.view.drops_rows or not self.columns[0].other

    @cached_property
    def three_steps(self) -> Steps:
        """What the steps release, and how far one person moves it."""
        sizes, last = tuple(column.size for column in self.columns), VALUES_SHARE if self.wide else Fraction(0)
        return Steps(sizes, self.neighbours, self.vanishing, self._rows, self.weights, self.triples, last)

    @property
    def _rows(self) -> int:
        """How many rows one unit has at most."""
        return 1 if self.person is None else self.person.max_rows

    @cached_property
    def values(self) -> ValuesInBins | None:
        """What the last step releases of wide bins, if there are any."""
        return ValuesInBins(self.wide, self.neighbours, self._rows, self.max_rows) if self.wide else None

    def value_notes(self) -> list[str]:
        """What is released of values in bins."""
        return [] if self.values is None else self.values.notes()

    def together_notes(self) -> list[str]:
        """What rows do not keep where one person or household has several."""
        if self.person is None:
            return []
        name = self.person.column
        return [
            f"rows keep the tables of single rows: which rows have the same {name}, and how many each has, is not kept"
        ]

    def check_limits(self) -> None:
        """Refuse, from public facts, too many levels or numbers that floats cannot hold, for all pairs."""
        sizes = self.three_steps.sizes
        if sum(sizes) > _MOST_LEVELS:
            raise ArgumentError(
                f"these columns have {sum(sizes):,} levels together, at most {_MOST_LEVELS:,} are served: use fewer "
                "columns, wider bins, or fewer keys."
            )
        one, two = sorted((contrasts(size).largest for size in sizes), reverse=True)[:2]
        if not one * two * self.max_rows < _EXACT:
            most = (_EXACT - 1) // (one * two)
            raise ArgumentError(f"max_rows must be at most {most:,} for columns of so many levels: lower it.")
        for triple in self.three_steps.triples:
            largest = prod(contrasts(sizes[at]).largest for at in triple)
            if not largest * self.max_rows < _EXACT:
                most = (_EXACT - 1) // largest
                raise ArgumentError(f"max_rows must be at most {most:,} for tables of three such columns: lower it.")
        if self.values is not None:
            self.values.check_limits()

    def check(self, table: Table) -> None:
        self.check_limits()
        super().check(table)

    def aggregations(self, table: Table) -> tuple[Aggregation, ...]:
        """The table of every pair, of every triple that is scored, and what wide bins need, in one pass."""
        view, domains = coded_view(table.source, self.columns)
        names = list(domains.keys)
        blocks = [*self.three_steps.pairs, *self.three_steps.triples]
        tables: dict[Marginal, tuple[str, ...]] = {tuple(names[at] for at in block): () for block in blocks}
        summed: Sequence[SummedColumn] = ()
        if self.values is not None:
            view, domains, more, summed = self.values.asked(view, domains, table.source.schema)
            tables |= more
        return (tables_aggregation(domains, tables, summed, {}, self.person, view),)

    def exact(self, totals_of_steps: Sequence[Sequence[Totals]], plan: SyntheticPlan) -> ExactPairs:
        """The table of every pair and triple, and the tables inside them. NOT PRIVATE."""
        blocks, totals = [*self.three_steps.pairs, *self.three_steps.triples], totals_of_steps[0]
        exact = self.inside({block: one.sums[0] for block, one in zip(blocks, totals, strict=False)}, plan)
        return exact if self.values is None else replace(exact, values=self.values.numbers(totals[len(blocks) :]))

    def inside(self, pairs: Mapping[Block, Whole], plan: SyntheticPlan) -> ExactPairs:
        """The tables of pairs, of columns and of the total, from those of pairs. NOT PRIVATE."""
        tables = dict(pairs)
        for at in range(len(self.columns)):
            pair = (0, 1) if at < 2 else (0, at)
            tables[at,] = tables[pair].sum(axis=1 - pair.index(at))
        tables[()] = np.asarray(np.minimum(tables[0,].sum(), self.max_rows))
        return ExactPairs(tables, self.parts(plan.promise))

    def step_numbers(self, exact: ExactPairs, released: tuple[Release, ...]) -> Floats:
        """The residuals of columns; scores of pairs; the residuals of those that are chosen; the same of triples.

        At last the sums and counts of wide bins.
        """
        steps = self.three_steps
        if exact.values is not None and len(released) == self.steps - 1:
            return exact.values
        if not released:
            return steps.columns.residuals(exact.tables, self.max_rows)
        if len(released) == 1:
            total, shares = FirstStep.of(steps, released[0], self.max_rows)
            return np.array(
                [
                    steps.score(exact.tables[pair], steps.reference(pair, total, shares), self.max_rows)
                    for pair in steps.pairs
                ]
            )
        if len(released) == 3:
            before = self.measured(released[2], released[:2])
            return np.array(
                [
                    steps.score(exact.tables[triple], before.triple_reference(triple), self.max_rows)
                    for triple in steps.triples
                ]
            )
        chosen = self._chosen_now(released, exact.promises)
        return steps.blocks(list(chosen)).residuals(exact.tables, self.max_rows)

    def _chosen_now(self, released: Sequence[Release], promises: Sequence[Budget]) -> dict[Block, float]:
        """What the next step measures, with variances up to a factor, from what was released and promises of steps."""
        steps, mus = self.three_steps, [part.mu for part in promises if isinstance(part, GaussianDP)]
        if len(released) == 2:
            return steps.chosen(released[1].values, mus[2])
        first = FirstStep.of(steps, released[0], self.max_rows)
        return steps.chosen_last(released[1].values, mus[2], released[3].values, mus[4], first)

    def plan(self, budget: Budget) -> SyntheticPlan:
        steps, parts = self.three_steps, self.parts(budget)
        noises: list[NoisePlan | GaussianDP] = [*parts]
        noises[0] = plan(steps.first_set(), parts[0], mechanism="gaussian")
        noises[1] = plan(steps.second_set(), parts[1], mechanism="gaussian")
        if steps.triples:
            noises[3] = plan(steps.fourth_set(), parts[3], mechanism="gaussian")
        if self.values is not None:
            noises[-1] = self.values.noise(parts[-1])
        return SyntheticPlan(budget, tuple(noises), self)

    def named_targets(self, tolerance: Any) -> list[float | None]:
        """See `Question.named_targets`: no tolerance is taken, since rows have no stated error."""
        (none,) = super().named_targets(tolerance)
        return [none] * self._lines

    def alone(self, mechanism: MechanismName) -> Sequence[float]:
        """See `Question.alone`: what it has in a publication is a stated share, beside which none is worse."""
        return [inf] * self._lines

    @property
    def _lines(self) -> int:
        """How many lines a plan has: the total, each column, scores, and values in bins."""
        return len(self.columns) + 2 + bool(self.three_steps.triples) + bool(self.wide)

    def parts(self, budget: Budget) -> tuple[GaussianDP, ...]:
        """What each step promises under the promise of all of them."""
        return parts_of(budget, self.three_steps.shares)

    def later_noise(self, plan: SyntheticPlan, released: tuple[Release, ...]) -> NoisePlan:
        """The noise of what the noisy scores choose."""
        parts = self.parts(plan.promise)
        return self.three_steps.chosen_noise(self._chosen_now(released, parts), parts[len(released)])

    def is_covered_by(self, noise: NoisePlan) -> bool:
        """Whether it is noise of the first step."""
        return noise.mechanism == "gaussian" and self.three_steps.columns.is_covered_by(noise.sensitivity)

    def is_covered_by_all(self, noises: Sequence[NoisePlan | GaussianDP], released: Sequence[Release] = ()) -> bool:
        """Whether each step's set holds what one person can change; which pairs the last has, the scores say."""
        if len(noises) != self.steps:
            return False
        if any(isinstance(noise, NoisePlan) and noise.mechanism != "gaussian" for noise in noises):
            return False
        first, second, third, *more = noises
        if self.values is not None:
            last_noise = more.pop()
            if not (isinstance(last_noise, NoisePlan) and last_noise.sensitivity == self.values.sensitivity()):
                return False
        if not (isinstance(first, NoisePlan) and isinstance(second, NoisePlan) and self.is_covered_by(first)):
            return False
        steps = self.three_steps
        if second.sensitivity != steps.second_set():
            return False
        if more and not (isinstance(more[0], NoisePlan) and more[0].sensitivity == steps.fourth_set()):
            return False
        promises = [noise if isinstance(noise, GaussianDP) else noise.budget for noise in noises]
        if not are_parts(promises, shares=steps.shares):
            return False
        later = [third, *more[1:]]
        if all(isinstance(noise, GaussianDP) for noise in later):
            return True
        if len(released) != len(noises):  # nobody knows what it is noise of
            return False
        if not (
            isinstance(third, NoisePlan) and steps.is_of_chosen(third.sensitivity, released[1].values, promises[2].mu)
        ):
            return False
        last = later[-1]
        return not more or (
            isinstance(last, NoisePlan)
            and steps.is_of_last(
                last.sensitivity,
                released[1].values,
                promises[2].mu,
                released[3].values,
                promises[4].mu,
                FirstStep.of(steps, released[0], self.max_rows),
            )
        )

    def divides(self, promise: Budget, parts: Sequence[Budget]) -> bool:
        """Whether the steps have their shares of this very promise: none that is larger, or of another kind."""
        return are_parts(parts, promise, self.three_steps.shares)

    def _chosen(self, scores: Release, promise: Budget) -> list[Block]:
        """The columns and pairs that noisy scores choose."""
        if not isinstance(promise, GaussianDP) or scores.values.shape != (len(self.three_steps.pairs),):
            return []
        return list(self.three_steps.chosen(scores.values, promise.mu))

    def kept_names(self, released: Sequence[Release]) -> list[tuple[str, str]]:
        """The pairs that were kept, by name."""
        chosen = self._chosen(released[1], released[2].plan.budget)
        names = [tuple(self.columns[at].name for at in block) for block in chosen]
        return [(pair[0], pair[1]) for pair in names if len(pair) == 2]

    def _chosen_last(self, released: Sequence[Release]) -> tuple[Block, ...]:
        """What the last of five steps measured."""
        promises = [step.plan.budget for step in released]
        known = all(isinstance(promise, GaussianDP) for promise in promises)
        if not known or released[3].values.shape != (len(self.three_steps.triples),):
            return ()
        return tuple(self._chosen_now(released[:4], promises))

    def triple_notes(self, released: Sequence[Release]) -> list[str]:
        """What is known of tables of three columns: how many are scored, and which were measured."""
        steps = self.three_steps
        if not steps.triples:
            return []
        most = max(prod(steps.sizes[at] for at in triple) for triple in steps.triples)
        if not released:
            some = "one table" if len(steps.triples) == 1 else f"{len(steps.triples)} tables"
            verb = "is" if len(steps.triples) == 1 else "are"
            return [f"{some} of three columns, of at most {most} cells, {verb} scored"]
        names = ["*".join(self.columns[at].name for at in one) for one in self._chosen_last(released) if len(one) == 3]
        return [f"tables of three columns that were measured: {', '.join(names) or 'none'}"]

    def measured(self, release: Release, earlier: Sequence[Release]) -> Measured:
        """What was released, as noisy tables; also of five steps the first three alone."""
        first, scores, third, *more = (*earlier, release)
        chosen = tuple(self._chosen(scores, third.plan.budget))
        last = (more[1], self._chosen_last([*earlier, release])) if more and self.three_steps.triples else (None, ())
        return Measured(self.three_steps, first, scores, third, chosen, self.max_rows, *last)

    def row_maker(self, release: Release, earlier: Sequence[Release]) -> RowMaker:
        measured = self.measured(release, earlier)
        if self.values is None:
            return RowMaker(self.columns, measured, self.rules)
        rows = {one.at: measured.table((one.at,), SURE).estimate for one in self.wide}
        return RowMaker(self.columns, measured, self.rules, self.values.estimates(release, rows))

    def answers(
        self,
        release: Release,
        level: float,
        keys: Sequence[Any] = (),
        earlier: Sequence[Release] = (),
    ) -> tuple[Answer, ...]:
        """The number of rows and the table of each column, as they were measured."""
        measured, answers = self.measured(release, earlier), []
        for block in self.three_steps.columns.members:
            table = measured.table(block, level)
            levels: list[dict[str, Any]] = [{}]
            if block:
                column = self.columns[block[0]]
                levels = [{column.name: key} for key in column.levels]
            for keys_of_cell, value in zip(levels, table.estimate.reshape(-1).tolist(), strict=True):
                words = ", ".join(f"{name}={key}" for name, key in keys_of_cell.items())
                answers.append(
                    Answer("count", "", words, value, value - table.reach, value + table.reach, table.std, keys_of_cell)
                )
        return tuple(answers)

    def blocks(self, estimates: Sequence[Estimate], labels: KeyLabels) -> list[EstimateBlock]:
        groups, start = [EstimateBlock("count", "", (), tuple(estimates[:1]))], 1
        for column in self.columns:
            stop = start + column.size
            dimensions = (named_levels(column.name, column.levels, labels),)
            groups.append(EstimateBlock("count", "", dimensions, tuple(estimates[start:stop])))
            start = stop
        return groups

    def may_be_full(self, release: Release) -> bool:
        """Whether the number of rows may be at its limit: `SyntheticResult` knows."""
        return False

    def facts(self, plan: SyntheticPlan, rows: Sequence[Answer], level: float) -> list[tuple[str, str]]:
        measured = self.kept_names(plan.released) if plan.released else []
        names = [(self.columns[one].name, self.columns[two].name) for one, two in self.three_steps.pairs]
        pinned = [pair for pair in names if pair not in measured]
        other = "are a level of their own" if self.columns[0].other else "are left out"
        return [
            ("synthetic rows of", ", ".join(column.name for column in self.columns)),
            ("levels", "; ".join(f"{column.name}: {listed_keys(column.levels)}" for column in self.columns)),
            ("other values", f"unknown and missing values {other}"),
            *([] if self.rules is None else [("rules that every row keeps", "; ".join(self.rules.texts))]),
            ("pairs that were measured", ", ".join("*".join(pair) for pair in measured)),
            ("pairs taken as independent", ", ".join("*".join(pair) for pair in pinned)),
            *(("interactions", note) for note in self.triple_notes(plan.released)),
            *(("values in bins", note) for note in self.value_notes()),
            ("protected", protection(self)),
            *(("not kept", note) for note in self.together_notes()),
            *view_facts(self.view, self.answer_keys()),
        ]

    def answer_keys(self) -> Mapping[str, Sequence[Any]]:
        return {column.name: column.levels for column in self.columns}

    def to_dict(self) -> dict[str, Any]:
        weights = [[*pair, weight] for pair, weight in sorted(self.weights.items())]
        columns = [column.to_dict() for column in self.columns]
        more: dict[str, Any] = {} if self.rules is None else {"rules": self.rules.texts}
        more |= {"triples": True} if self.triples else {}
        more |= {} if self.values is None else {"values": self.values.to_list()}
        return {"synthetic": columns, "weights": weights, **more, **self.facts_to_dict()}

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        with parsing(record):
            columns = tuple(LevelColumn.from_dict(column) for column in record["synthetic"])
            names = [column.name for column in columns]
            alike = len({column.other for column in columns}) == 1 and all(column.size > 1 for column in columns)
            if len(names) < 2 or len(set(names)) != len(names) or not alike:
                raise RecordError("the record does not hold the columns of synthetic rows.")
            stated = {tuple(names[at] for at in block): weight for *block, weight in record["weights"]}
            weights = _read_weights(names, None, stated)
            rules = read_rules(columns, record.get("rules"))
            triples = record.get("triples", False)
            if not isinstance(triples, bool):
                raise RecordError("the record does not say whether tables of three columns were scored.")
            wide = wide_from_list(columns, record.get("values", []))
            facts = cls.facts_from_dict(record)
            question = cls(columns=columns, weights=weights, rules=rules, triples=triples, wide=wide, **facts)
            question.check_limits()
            return question


def _read_weights(names: Sequence[str], target: object, stated: object) -> dict[Block, float]:
    """The weights of columns and pairs; pairs with the target count four times unless stated otherwise."""
    if target is not None and not (isinstance(target, str) and target in names):
        raise ArgumentError(f"target must be a column of the synthetic rows, got {shown(target)}: name one.")
    if not isinstance(stated, Mapping):
        raise ArgumentError(f"weights must be a dictionary by pairs of columns, got {shown(stated)}.")
    weights_by_block: dict[Block, float] = {}
    for pair, weight in stated.items():
        known = isinstance(pair, tuple) and 1 <= len(pair) <= 2 and all(isinstance(name, str) for name in pair)
        if not (known and len(set(pair)) == len(pair) and set(pair) <= set(names)):
            raise ArgumentError(
                f"weights must be by pairs of columns of the synthetic rows, or by one as ('age',), got {shown(pair)}."
            )
        block = tuple(sorted(names.index(name) for name in pair))
        if block in weights_by_block:
            raise ArgumentError(f"weights names the pair {shown(pair)} twice, in both orders: state one weight for it.")
        cure = "pass a number from 0.001 to 1000; 1 is usual"
        weights_by_block[block] = real(f"weights[{pair!r}]", weight, least=LEAST_WEIGHT, cure=cure)
        if not weights_by_block[block] <= MOST_WEIGHT:
            raise ArgumentError(f"weights[{pair!r}] must be at most 1000, got {shown(weight)}: {cure}.")
    return (
        weights_by_block
        if target is None
        else target_weights(len(names), names.index(target), _TARGET_WEIGHT) | weights_by_block
    )
