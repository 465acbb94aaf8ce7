"""A count or a sum of rows of which one person may have any number: a limit on a person's total is chosen privately.

Asked by `Table.statistics` where the unit is `Person(column, contribution=Private())`. Two steps of fixed cost.

*Totals.* S_pg >= 0 is what the rows of person p add in group g (a sum of values held to their bounds, or of ones), and
T_p = sum_g S_pg. A limit t cuts a person's total over *all* groups: v_pg(t) = min(1, t / T_p) S_pg / t, in units of t.
So the row v_p lies in the simplex: v_pg >= 0 and sum_g v_pg <= 1. (A limit for each group would let a person move every
group, and cost a factor of their number.)

*First step.* The limits t_0 < ... < t_L are the powers of two from a tenth of the largest value of a row to what
`Private.at_most` rows can add. C_j = #{p : T_p > t_j}. The position with the largest noisy score -C_j - w_j is chosen,
where w_j = (3 / epsilon_1) log(t_j / t_0) is public: a limit twice as high has to spare about 2 / epsilon_1 people.
*Its sensitivity.* All C_j that one person moves, they move by 1 and in one direction: one more person with the total T
raises C_j for t_j < T; a total that goes from T to T' moves it for the t_j between them. So the range of the changes is
1 under every relation, and the choice costs what `inid.releasing` proves.

*Second step.* sum_p v_pg(t_j) for the chosen j and every g. Its noise is fixed beforehand, since it is in units of t_j.
*Its sensitivity.* One person more or less moves the vector by a point of the simplex: at most 1 in the l1 norm. Under
"replace" it moves by the difference of two such points: at most 2, and at most 1 where there is one group.

*Whole numbers.* Engines add floor(2^b S_pg / t) for totals up to t (t a power of two of the people's own level, so that
nothing but the floor is rounded) and floor(2^b S_pg / T_p) for those above. Floors of parts add up to at most the floor
of their sum, so the simplex is kept exactly; a quotient that is rounded up to a whole number adds less than one unit to
the sum, which is whole, hence nothing. The sums are exact; as floats they are rounded once, by 2^-53 of at most
`max_rows`, which the limits of the set include.

*What it is not.* The answer is the total after the cut, and intervals hold that one: the total of all rows is larger by
what the cut took. The lower end of an interval is a lower bound of both.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Self, cast

import numpy as np

from inid.arguments import Floats, real
from inid.errors import ArgumentError, BudgetError, RecordError
from inid.fixed_point import Grid, largest_unit
from inid.mechanisms import MechanismName
from inid.numbers.decimals import decimal_down, decimal_fraction
from inid.planning import NoisePlan, plan
from inid.planning.noise_plan import aligned
from inid.promises import ApproxDP, Budget, GaussianDP, PureDP
from inid.releasing import AddNoise, Draw, Largest, Release, plan_selection
from inid.report import ColumnFacts, Estimate, EstimateBlock, PlanLine, PlanSummary
from inid.report.wording import plain_number
from inid.sets import Sensitivity
from inid.tables.aggregation import Aggregation, Grouping, PublicKeys, Rows, Term, Totals, Value
from inid.tables.expressions import Branch, Comparison, Condition, Constant, Member, Missing, Numeric, col, maximum
from inid.tables.facts import Bounds, Key, Person, Private, read_bounds, read_columns, read_keys
from inid.tables.person_features import Feature, PersonFeatures, bits_for
from inid.tables.plan import PlannedNumber, PlanOfSteps
from inid.tables.presentation import (
    KeyLabels,
    column_facts,
    listed_keys,
    named_levels,
    other_keys_in_words,
    protection,
    view_facts,
)
from inid.tables.question import Question
from inid.tables.questions.statistics.kind import Statistics
from inid.tables.result import Answer
from inid.tables.table import Table
from inid.tables.view import View, of_people, parsing

_FIRST = Fraction(2, 5)  # of epsilon: measured over totals with thin and heavy tails
_STEEPNESS = 3.0  # a limit higher by a factor f is f^-3 times as likely, where it spares nobody
_BELOW = 4  # the lowest limit is about a tenth of the largest value of a row: lower ones would cost higher ones
_STEPS = 2.0**10  # of a score: public parts are whole steps, so that scores of floats differ by whole numbers
_HIGHEST = 2.0**41  # above the number of people; so that no sum of a score is rounded
_MOST_GROUPS = 64

LIMIT = "limit_of_a_person"


@dataclass(frozen=True, eq=False)
class ClippedTotalPlan(PlanOfSteps):
    """The noise of both steps; that of the second is in units of the limit that the first will choose."""

    question: "ClippedTotal"

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of an answer, in units of the limit."""
        return float(self.known[-1].scales[0]) * math.sqrt(2)

    def summary(self) -> PlanSummary:
        """A line for the choice of the limit, one for the totals."""
        question, first = self.question, float(self.known[0].scales[0])
        lines = (
            _line("limit on a person's total", float(_FIRST), first),
            _line(f"{question.name} in units of that limit", float(1 - _FIRST), self.deviation, len(question.cells)),
        )
        return PlanSummary(
            self.known[-1],
            lines,
            {"iid": 1.0, "spr": 1.0},
            None,
            opponent=None,
            inside=(question.choice_in_words(self),),
            promise=self.promise,
            steps=self.known,
        )

    def planned_numbers(self) -> list[PlannedNumber]:
        return [PlannedNumber(line.label, line.cells or 1, line.deviation) for line in self.summary().lines]

    def in_words(self) -> str:
        cells = [["", "cells", "std of noise"]]
        cells += [[line.label, str(line.cells or 1), f"{line.deviation:.4g}"] for line in self.summary().lines]
        return "\n".join(
            [
                f"The {self.question.name} of rows without a stated limit on a person, in two steps of Laplace noise",
                f"promise: {self.promise}, neighbours: {self.neighbours}",
                *self.question.fact_lines(),
                "",
                *aligned(cells, left=1),
                "",
                self.question.choice_in_words(self),
            ]
        )


def _line(label: str, share: float, std: float, cells: int | None = None) -> PlanLine:
    return PlanLine(label, share, std, None, {"iid": std, "spr": std}, cells=cells)


@dataclass(frozen=True)
class _ExactTotals:
    """By the people's levels how many there are, and what they add. NOT PRIVATE."""

    people: list[int]
    within: list[list[int]]  # of each group, in units of the limit of their level
    beyond: list[list[int]]  # of each group, as parts of a person's total
    heights: Floats  # what each limit loses in score; public


@dataclass(frozen=True, eq=False, kw_only=True)
class ClippedTotal(Question):
    """A count or a sum, by groups or not, of people without a stated limit.

    >>> import inid, pandas
    >>> from inid.tables import Person, Private
    >>> frame = pandas.DataFrame({"customer": [1, 1, 1, 2, 3], "price": [5.0, 2.0, 9.0, 4.0, 1.0]})
    >>> t = Table(frame, unit=Person("customer", contribution=Private(at_most=1000)), bounds={"price": (0, 100)})
    >>> print(t.statistics(sum=["price"]).plan(inid.PureDP(1.0)))
    The sum(price) of rows without a stated limit on a person, in two steps of Laplace noise
    promise: PureDP(epsilon=1.0), neighbours: add_remove
    <BLANKLINE>
                                   cells  std of noise
    limit on a person's total              1           2.5
    sum(price) in units of that limit      1         2.357
    <BLANKLINE>
    The limit is one of the powers of two from 8 to 131,072, and its score within 14.3 people of the best
    one, with probability 95 %.
    """

    kind: ClassVar[str] = "clipped_total"
    method: ClassVar[str] = "statistics"
    options: ClassVar[tuple[str, ...]] = ()
    steps: ClassVar[int] = 2
    families: ClassVar[tuple[MechanismName, ...]] = ("laplace",)
    weighed: ClassVar[bool] = False
    unlimited: ClassVar[str | None] = "clipped_total"
    heading: ClassVar[str] = "Private totals of people without a stated limit"
    lead: ClassVar[str] = (
        "Nobody stated how much one person adds. A limit on a person's total was chosen privately, and totals above it "
        "were cut to it: the answers below are of the totals after that, and the true ones are at least as large."
    )
    plans = ClippedTotalPlan

    column: str | None
    by: Mapping[str, tuple[Key, ...]]
    bounds: Bounds
    fill: float | None = None
    cells: tuple[dict[str, Key], ...] = field(init=False)

    def __post_init__(self) -> None:
        low, high = self.bounds
        if not (low >= 0 and high > 0):
            raise ArgumentError(
                f"the sum of {self.column!r} may fall by a row: without a limit on the rows of a person its values "
                "must be at least 0: state such bounds, or Person(..., max_rows=...).",
            )
        if self.person is None or self.person.contribution is None:
            raise ArgumentError("a person without a stated limit is missing.")
        groups = [dict(zip(self.by, keys, strict=True)) for keys in product(*self.by.values())]
        if len(groups) > _MOST_GROUPS:
            raise ArgumentError(
                f"by has {len(groups):,} groups, and at most {_MOST_GROUPS} are served without a limit on the rows of "
                "a person: state Person(..., max_rows=...), or fewer keys."
            )
        object.__setattr__(self, "cells", tuple(groups))
        self.people  # noqa: B018 - made now: it refuses bounds that are too large

    @classmethod
    def read(cls, table: Table, asked: Mapping[str, Any]) -> Self:
        statistics = Statistics.read(table, asked)
        layout = statistics.layout.statistics
        if len(layout) != 1 or layout[0].kind not in ("count", "sum") or statistics.count_distinct:
            raise ArgumentError(
                "without a limit on the rows of a person one count or one sum is asked at a time, and several by a "
                "Publication: ask for count=True or sum=['price'], state Person(..., max_rows=...), or ask about "
                "per_person(...).",
            )
        if table.weight is not None:
            raise ArgumentError("weights go with a limit on the rows of a person: state Person(..., max_rows=...).")
        column = layout[0].columns[0] if layout[0].kind == "sum" else None
        bounds = (0.0, 1.0) if column is None else table.bounds[column]
        fill = None if column is None else table.missing.get(column)
        number = None if fill is None else float(fill)  # type: ignore[arg-type]
        return cls(column=column, by=statistics.by, bounds=bounds, fill=number, **cls.facts_of(table))

    @property
    def name(self) -> str:
        """What is asked: "count", or "sum(price)"."""
        return "count" if self.column is None else f"sum({self.column})"

    # The limits, and what people add.

    @cached_property
    def _unit(self) -> Person:
        assert self.person is not None  # noqa: S101 - made with one
        return self.person

    @cached_property
    def exponents(self) -> range:
        """Of two, in the limits that are tried."""
        most = cast("Private", self._unit.contribution).at_most
        one = 0 if self.column is None else math.frexp(self.bounds[1])[1]
        return range(one - (0 if self.column is None else _BELOW), one + (most - 1).bit_length() + 1)

    def limit(self, chosen: int) -> float:
        """A limit on a person's total by its position."""
        return math.ldexp(1.0, self.exponents[chosen])

    @cached_property
    def grid(self) -> Grid:
        """The whole numbers that stand for parts of a limit."""
        return Grid.from_zero("a part of a limit", 1.0, largest_unit(self.max_rows))

    def _column(self, words: str) -> str:
        """A name that is not that of the column of people."""
        return f"{words} of {self._unit.column}"

    @cached_property
    def people(self) -> View:
        """One row a person: the level of the total, and what it adds in each group, within the limit and beyond."""
        parts = [self._column(f"total {at}") for at in range(len(self.cells))]
        most = (0.0, self.limit(-1))
        features = {part: Feature("sum", self._added(cell), most) for part, cell in zip(parts, self.cells, strict=True)}
        limits = dict.fromkeys(parts, (0.0, self.bounds[1]))
        view = of_people(PersonFeatures(self._unit.column, features, self.view, limits, {}, bits_for(self.max_rows)))
        total: Numeric = col(parts[0])
        for part in parts[1:]:
            total = total + col(part)
        column_total, level, factor = self._column("total"), self._column("level"), self._column("factor")
        view = view.with_columns({column_total: total})
        view = view.with_columns({level: self._by_level(col(column_total), list(range(len(self.exponents) + 1)))})
        factors = [math.ldexp(1.0, -exponent) for exponent in self.exponents]
        view = view.with_columns({factor: self._by_level(col(column_total), [*factors, 0.0])})
        formulas: dict[str, Numeric] = {}
        for at, part in enumerate(parts):
            formulas[self._within(at)] = self._floored(col(part) * col(factor))
            formulas[self._beyond(at)] = self._floored(col(part) / col(column_total))
        return view.with_columns(formulas)

    def _added(self, cell: Mapping[str, Key]) -> Numeric:
        """What one row adds in a group."""
        value: Numeric = Constant(1.0) if self.column is None else col(self.column)
        if self.fill is not None:
            value = Branch(Missing(col(str(self.column)), "number"), Constant(self.fill), value)
        if self.bounds[0] > 0:  # rows of other groups add 0 all the same
            value = maximum(value, self.bounds[0])
        here: Condition | None = None
        for column, key in cell.items():
            is_member = Member(col(column), (key,))
            here = is_member if here is None else here & is_member
        return value if here is None else Branch(here, value, Constant(0.0))

    def _by_level(self, total: Numeric, values: Sequence[float]) -> Numeric:
        """A number for each level of a total, by halves: level j holds the totals in (t_(j-1), t_j]."""

        def halves(low: int, high: int) -> Numeric:
            if low == high:
                return Constant(float(values[low]))
            middle = (low + high) // 2
            within = Comparison("<=", total, Constant(self.limit(middle)))
            return Branch(within, halves(low, middle), halves(middle + 1, high))

        return halves(0, len(values) - 1)

    def _floored(self, part: Numeric) -> Numeric:
        return (part * self.grid.factor).floor() / self.grid.factor

    def _within(self, at: int) -> str:
        return self._column(f"part of the limit {at}")

    def _beyond(self, at: int) -> str:
        return self._column(f"part of the total {at}")

    def aggregations(self, table: Table) -> tuple[Aggregation, ...]:
        """The number of people of each level, and what they add in each group."""
        level = self._column("level")
        values = [Value(name(at), self.grid) for name in (self._within, self._beyond) for at in range(len(self.cells))]
        keys = {level: PublicKeys(level, tuple(range(len(self.exponents) + 1)))}
        terms: tuple[Term, ...] = (Rows(), *values)
        return (Aggregation(keys, terms, (Grouping((level,), tuple(range(len(terms)))),), view=self.people),)

    def exact(self, totals: Sequence[Sequence[Totals]], plan: ClippedTotalPlan) -> _ExactTotals:
        """The sums by level. NOT PRIVATE."""
        people, *sums = totals[0][0].sums.reshape(1 + 2 * len(self.cells), -1).tolist()
        within, beyond = sums[: len(self.cells)], sums[len(self.cells) :]
        heights = _STEEPNESS * math.log(2) * float(plan.known[0].scales[0]) * np.arange(len(self.exponents))
        heights = np.minimum(np.floor(heights * _STEPS) / _STEPS, _HIGHEST)
        return _ExactTotals(people, within, beyond, heights)

    def step_numbers(self, exact: _ExactTotals, released: tuple[Release, ...]) -> Floats:
        """The scores of the limits; then the totals in units of the one that was chosen."""
        if not released:
            above = np.cumsum(exact.people[::-1])[::-1][1:]  # of each limit, how many people are above it
            return np.asarray(-np.minimum(above, self.max_rows).astype(np.float64) - exact.heights)
        chosen = int(released[0].values[0])
        totals = []
        for within, beyond in zip(exact.within, exact.beyond, strict=True):
            units = sum(added << level for level, added in enumerate(within[: chosen + 1]))
            units += sum(beyond[chosen + 1 :]) << chosen
            totals.append(float(min(Fraction(units, 1 << (self.grid.bits + chosen)), Fraction(self.max_rows))))
        return np.array(totals)

    # What one person can change, and what that costs.

    def _choice(self, promise: PureDP) -> NoisePlan:
        return plan_selection(1.0, promise, neighbours=self.neighbours)

    @cached_property
    def total_set(self) -> Sensitivity:
        """How far one person moves the totals, in units of the limit."""
        groups = len(self.cells)
        farthest = 2.0 if groups > 1 and self.neighbours == "replace" else 1.0
        reach = farthest + groups * self.max_rows * 2.0**-52  # sums are rounded to floats
        if groups == 1:
            return Sensitivity.box([reach], labels=[self.name], neighbours=self.neighbours)
        return Sensitivity.groups([groups], l1=[reach], labels=[self.name], neighbours=self.neighbours)

    def plan(self, budget: Budget) -> ClippedTotalPlan:
        first, second = parts_of(budget)
        totals = plan(self.total_set, second, mechanism="laplace")
        promise = PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget
        return ClippedTotalPlan(promise, (self._choice(first), totals), self)

    def is_covered_by(self, noise: NoisePlan) -> bool:
        """Whether it is noise of the second step."""
        return noise.mechanism == "laplace" and noise.sensitivity == self.total_set

    def is_covered_by_all(self, noises: Sequence[NoisePlan | GaussianDP], released: Sequence[Release] = ()) -> bool:
        """Whether each step's set holds what one person can change."""
        if len(noises) != self.steps:
            return False
        first, second = noises
        if not (isinstance(first, NoisePlan) and isinstance(second, NoisePlan) and self.is_covered_by(second)):
            return False
        if not (isinstance(first.budget, PureDP) and first.mechanism == "laplace"):
            return False
        return first.sensitivity == self._choice(first.budget).sensitivity

    def divides(self, promise: Budget, parts: Sequence[Budget]) -> bool:
        """Whether the steps have their shares of this very promise."""
        return isinstance(promise, PureDP) and tuple(parts) == parts_of(promise)

    def draws(self, plan: ClippedTotalPlan) -> tuple[Draw, ...]:
        return Largest(), AddNoise()

    def named_targets(self, tolerance: Any) -> list[float | None]:
        """See `Question.named_targets`: the error follows from a limit that nobody knows before."""
        (none,) = super().named_targets(tolerance)
        return [none, none]

    def alone(self, mechanism: MechanismName) -> Sequence[float]:
        """See `Question.alone`: what it has in a publication is a stated share, beside which none is worse."""
        return [math.inf, math.inf]

    def choice_in_words(self, plan: ClippedTotalPlan) -> str:
        """Between which limits is chosen, and how well."""
        ends = f"{plain_number(self.limit(0))} to {plain_number(self.limit(-1))}"
        short = float(plan.known[0].scales[0]) * math.log(len(self.exponents) / 0.05)
        return (
            f"The limit is one of the powers of two from {ends}, and its score within {short:.3g} people of the best\n"
            "one, with probability 95 %."
        )

    # Answers.

    def answers(
        self, release: Release, level: float, keys: Sequence[Key] = (), earlier: Sequence[Release] = ()
    ) -> tuple[Answer, ...]:
        """The totals after the cut, and the limit to which a person's total was cut."""
        limit = self.limit(self._chosen(earlier[0]))
        low, high = release.interval(level)
        std = float(release.plan.scales[0]) * math.sqrt(2) * limit
        kind, column = ("count", "") if self.column is None else ("sum", self.column)
        cells = []
        for cell, value, lower, upper in zip(self.cells, release.values, low, high, strict=True):
            place, keys_of_cell = (
                ", ".join(f"{name}={key}" for name, key in cell.items()),
                cell | {LIMIT: plain_number(limit)},
            )
            numbers = float(value) * limit, float(lower) * limit, float(upper) * limit
            cells.append(Answer(kind, column, place, *numbers, std, keys_of_cell))
        return tuple(cells)

    def _chosen(self, first: Release) -> int:
        (index,) = first.values.tolist()
        if not (index.is_integer() and 0 <= index < len(self.exponents)):
            raise RecordError("the record does not hold the position of a limit: it was changed.")
        return int(index)

    def blocks(self, estimates: Sequence[Estimate], labels: KeyLabels) -> list[EstimateBlock]:
        groups = tuple(named_levels(name, keys, labels, drops=True) for name, keys in self.by.items())
        kind, column = ("count", "") if self.column is None else ("sum", self.column)
        return [EstimateBlock(kind, column, groups, tuple(estimates))]

    def answered_facts(self, answers: Sequence[Answer | Estimate], level: float) -> list[tuple[str, str]]:
        """The limit."""
        return [("a person's total was cut to", str(answers[0].keys[LIMIT]))]

    def facts(self, plan: ClippedTotalPlan, answers: Sequence[Answer], level: float) -> list[tuple[str, str]]:
        return [
            *self.answered_facts(answers, level),
            (
                "limits that were tried",
                f"powers of two, {plain_number(self.limit(0))} to {plain_number(self.limit(-1))}",
            ),
            ("groups", "; ".join(f"{name}: {listed_keys(keys)}" for name, keys in self.by.items())),
            ("other keys", other_keys_in_words("drop") if self.by else ""),
            ("protected", protection(self)),
            *view_facts(self.view, self.answer_keys()),
        ]

    def answer_keys(self) -> Mapping[str, Sequence[Key]]:
        return ({} if self.column is None else {self.column: ()}) | dict(self.by)

    def column_facts(self) -> list[ColumnFacts]:
        """The column that is added up."""
        if self.column is None:
            return []
        fill = {} if self.fill is None else {self.column: self.fill}
        return [column_facts(self.column, ["sum"], {self.column: self.bounds}, fill)]

    # Records.

    def check_noisy(self, release: Release, record: Mapping[str, Any]) -> None:
        """The position of a limit, or noisy totals."""
        if release.plan.sensitivity == self.total_set:
            super().check_noisy(release, record)
        elif release.values.shape != (1,):
            raise RecordError("the record does not hold the position of a limit: it was changed.")
        else:
            self._chosen(release)

    def to_dict(self) -> dict[str, Any]:
        total = {"column": self.column, "bounds": list(self.bounds), "fill": self.fill}
        by = {column: list(keys) for column, keys in self.by.items()}
        return {"clipped_total": total, "by": by, **self.facts_to_dict()}

    @classmethod
    def from_dict(cls, record: Any) -> Self:
        with parsing(record):
            total, cure = record["clipped_total"], "the record was changed"
            column, fill = total["column"], total["fill"]
            if column is not None:
                read_columns("clipped_total", [column], "a column")
            return cls(
                column=column,
                by={name: read_keys(f"by of {name}", keys) for name, keys in record["by"].items()},
                bounds=read_bounds({"total": total["bounds"]})["total"],
                fill=None if fill is None else real("fill", fill, cure=cure),
                **cls.facts_from_dict(record),
            )


def parts_of(budget: Budget) -> tuple[PureDP, PureDP]:
    """What each step promises: decimals that add up to at most the epsilon of the promise.

    >>> parts_of(ApproxDP(1.0, 1e-6))
    (PureDP(epsilon=0.4), PureDP(epsilon=0.6))
    """
    if not isinstance(budget, (PureDP, ApproxDP)):
        raise BudgetError(
            f"a limit is chosen, and totals are released, with Laplace noise, which {budget} does not state: promise "
            "PureDP or ApproxDP.",
        )
    total = decimal_fraction(budget.epsilon)
    first = decimal_down(total * _FIRST)
    return PureDP(first), PureDP(decimal_down(total - decimal_fraction(first)))
