"""What can be asked of a table: the protocol of a kind of question, and the registry of the kinds that there are.

A kind of question is one class, in one file or folder of `questions`, and one line that registers it. It says how it
is asked, what one person can change in its exact numbers, how noise becomes answers, and how all of it is shown and
kept in a record. Queries, plans, results, records, reports, the command and the page know this protocol and no kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from inid.errors import ArgumentError, RecordError
from inid.mechanisms import MechanismName
from inid.noise import grid
from inid.planning import NoisePlan
from inid.promises import Budget, GaussianDP
from inid.releasing import AddNoise, Draw, Release
from inid.report import ColumnFacts, Estimate, EstimateBlock
from inid.tables.aggregation import Aggregation, Totals
from inid.tables.plan import Plan
from inid.tables.presentation import KeyLabels
from inid.tables.public_facts import PublicFacts
from inid.tables.record import compare_rows
from inid.tables.result import COMBINED, SURE, Result, Row
from inid.tables.table import Table
from inid.tables.totals import Total
from inid.tables.wanted import UNITS, equal_errors

if TYPE_CHECKING:
    from inid.tables.query import Query

__all__ = ["Question", "kind_of", "kind_of_options", "kind_of_record", "kinds", "register"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Question(PublicFacts, ABC):
    """What is asked of a table, and the public facts it is asked with. No data, so it can be kept in a record.

    Attributes:
        kind: Its name in records.
        options: What `plan` takes beside the promise and a ledger.
        combines: Whether its results have linear combinations of cells.
        adds_up: Whether it releases sums that add up over periods: what a stream asks.
        knows_accuracy: Whether the cost of an accuracy is known.
        families: The kinds of noise that can release it.
        weighed: Whether it has a stated error, by which a publication finds its part of the promise. Without one it
            takes a stated share.
        makes_rows: Whether its results make rows.
        reads: The public facts of a table, beside limits and fill values, without which it cannot be asked.
        heading: The heading of its report, where none is given.
        lead: What else is published beside its numbers, in sentences for the report.
        recorded: What its records hold beside answers and noisy numbers.
        steps: How many times noise is drawn, each time at a cost that is fixed in the plan.
        plans: The class of its plans.
        results: The class of its results: one that adds methods, or the usual one.
        queries: The class of its queries, where it adds methods.
    """

    kind: ClassVar[str]
    options: ClassVar[tuple[str, ...]] = ("mechanism",)
    combines: ClassVar[bool] = False
    adds_up: ClassVar[bool] = False
    knows_accuracy: ClassVar[bool] = False
    makes_rows: ClassVar[bool] = False
    reads: ClassVar[tuple[str, ...]] = ()
    families: ClassVar[tuple[MechanismName, ...]] = ("gaussian", "laplace")
    weighed: ClassVar[bool] = True
    heading: ClassVar[str] = "Private statistics of a table"
    lead: ClassVar[str] = ""
    recorded: ClassVar[tuple[str, ...]] = ()
    steps: ClassVar[int] = 1
    plans: ClassVar[type[Plan]]
    results: ClassVar[type[Result]] = Result
    queries: "ClassVar[type[Query[Any, Any]] | None]" = None

    # How it is asked.

    @classmethod
    @abstractmethod
    def claims(cls, asked: Mapping[str, Any]) -> bool:
        """Whether arguments of `Table.query` that were stated ask for this kind."""

    @classmethod
    @abstractmethod
    def read(cls, table: Table, asked: Mapping[str, Any]) -> Self:
        """Check what is asked against names, types and public facts of a table.

        Raises:
            ArgumentError: Something is malformed, or does not go together.
        """

    # How files, commands and pages ask it: by options, which are the arguments of `Table.query` where nothing is said.

    @classmethod
    def claims_options(cls, stated: Mapping[str, Any]) -> bool:
        """Whether options ask for this kind."""
        return cls.claims(stated)

    @classmethod
    def from_options(cls, stated: Mapping[str, Any]) -> dict[str, Any]:
        """What `Table.query` is asked, from options.

        Raises:
            ArgumentError: They do not go together.
        """
        return dict(stated)

    @classmethod
    def ordered_columns(cls, stated: Mapping[str, Any]) -> tuple[str, ...]:  # noqa: ARG003 - most have none
        """The columns whose public values options take in their order."""
        return ()

    @classmethod
    def option_tolerances(cls, stated: Mapping[str, Any], tolerance: Mapping[str, float]) -> Mapping[Any, float]:  # noqa: ARG003
        """Tolerances by name as `plan` takes them, from options alone."""
        return tolerance

    @property
    @abstractmethod
    def asked_as(self) -> str:
        """The argument of `Table.query` by which such a question is asked."""

    # What leaves the engine, and what one person can change in it.

    @abstractmethod
    def aggregations(self, table: Table) -> tuple[Aggregation, ...]:
        """What the engine adds up: of rows that are limited alike, one."""

    def check(self, table: Table) -> None:
        """Refuse, before the charge, what the types of the table or public facts do not allow."""
        table.source.check(self.aggregations(table))

    @abstractmethod
    def exact(self, found: Sequence[Sequence[Totals]], plan: Any) -> Any:
        """The numbers before noise, held to public limits, as the plan's draws take them. NOT PRIVATE.

        Args:
            found: What the engine has added up, for each grouping of each aggregation.
            plan: The plan.
        """

    def step_numbers(self, exact: Any, released: tuple[Release, ...]) -> Any:  # noqa: ARG002 - most release once
        """What one step adds noise to, from the exact numbers and what earlier steps released."""
        return exact

    @abstractmethod
    def is_covered_by(self, noise: NoisePlan) -> bool:
        """Whether the set of a plan holds whatever one person can change in the numbers that are released."""

    def is_covered_by_all(
        self,
        noises: Sequence[NoisePlan | GaussianDP],
        released: Sequence[Release] = (),  # noqa: ARG002 - most release once
    ) -> bool:
        """The same of all steps; whoever takes several says which set is that of which step.

        Args:
            noises: The noise of each step, or its promise where the noise follows from earlier answers.
            released: What the steps released, where that decides the set of a later one.
        """
        one = noises[0]
        return len(noises) == self.steps == 1 and isinstance(one, NoisePlan) and self.is_covered_by(one)

    def divides(self, promise: Budget, parts: Sequence[Budget]) -> bool:  # noqa: ARG002 - most have one part
        """Whether these are the parts that steps have of a promise, which a record states beside them."""
        return True

    def later_noise(self, plan: Any, released: tuple[Release, ...]) -> NoisePlan:
        """The noise of a step that keeps a promise of the plan, from what earlier steps released alone."""
        raise NotImplementedError

    @property
    def delta(self) -> float:
        """The probability that is taken beside the noise."""
        return 0.0

    def draws(self, plan: Any) -> tuple[Draw, ...]:  # noqa: ARG002 - the usual way needs nothing of it
        """How the exact numbers and the noise become what is published, step by step."""
        return (AddNoise(),) * self.steps

    # Planning.

    @abstractmethod
    def plan(self, *budget: Any, **options: Any) -> Any:
        """Plan the noise of a promise, the first argument; the options are those that this kind takes.

        Raises:
            ArgumentError: An option is malformed.
            BudgetError: The mechanism cannot keep this promise.
        """

    def chosen_by(self, plan: Any) -> Self:  # noqa: ARG002 - most plans choose nothing
        """The question with what a plan has chosen for it."""
        return self

    def for_accuracy(self, tolerance: Any, *, failure: float, delta: float | None) -> Any:  # noqa: ARG002
        """The least budget found with which every answer is within its tolerance.

        Raises:
            ArgumentError: It is not known for this kind.
        """
        raise ArgumentError(f"the cost of an accuracy is not known for {self.asked_as}: plan with a promise.")

    def wanted(self, tolerance: Any) -> list[float | None]:
        """The stated tolerance of each line of a plan; None where nobody named it.

        Raises:
            ArgumentError: It is malformed, or such a question takes none.
        """
        if tolerance is not None:
            raise ArgumentError(f"tolerance does not go with {self.asked_as}: leave it out.")
        return [None]

    def alone(self, mechanism: MechanismName) -> Sequence[float]:
        """The error of each line of a plan when it is asked by itself, with one unit of a family's promise."""
        options: dict[str, Any] = {"mechanism": mechanism} if "mechanism" in self.options else {}
        return [number.std for number in self.plan(UNITS[mechanism], **options).planned_numbers()]

    def equal(self, budget: Budget, *, questions: int = 1) -> list[float]:
        """The error of each line under an equal split: see `inid.tables.wanted`.

        Args:
            budget: The promise of all questions together.
            questions: Among how many it is divided.
        """
        return equal_errors(self.alone, budget, questions=questions)

    def plan_within(self, budget: Budget, mechanism: MechanismName, wanted: Sequence[float]) -> Any:  # noqa: ARG002
        """The plan with the least sum of (std / wanted)^2 over all cells; `wanted` has one number for each line."""
        return self.plan(budget, **({"mechanism": mechanism} if "mechanism" in self.options else {}))

    def tolerance_notes(self, tolerance: Any) -> list[str]:  # noqa: ARG002 - most have one unit
        """What stated tolerances count as, in sentences, where their unit is not that of the plan's lines."""
        return []

    def check_combination(self, cells: Any, column: str | None) -> None:  # noqa: ARG002
        """Refuse a combination of cells that is not of the asked tables, or of any where none are asked.

        Raises:
            ArgumentError: It is not.
        """
        raise ArgumentError(COMBINED)

    def combination_record(self, name: str, cells: Any, column: str | None, found: Any) -> dict[str, Any]:  # noqa: ARG002
        """A combination of cells and its answer as JSON-safe values."""
        raise ArgumentError(COMBINED)

    # Answers: post-processing of what was released.

    @abstractmethod
    def answers(
        self, release: Release, level: float, keys: Sequence[Any] = (), earlier: Sequence[Release] = ()
    ) -> tuple[Row, ...]:
        """Every answer that noisy numbers give, with intervals that hold the exact one with this probability.

        Args:
            release: What the last step released.
            level: The probability.
            keys: What its numbers are counts of, where nobody listed it.
            earlier: What the steps before it released.
        """

    @abstractmethod
    def blocks(self, estimates: Sequence[Estimate], labels: KeyLabels) -> list[EstimateBlock]:
        """The answers as pages show them, statistic by statistic."""

    def totals(
        self,
        release: Release,  # noqa: ARG002 - most add nothing up
        level: float,  # noqa: ARG002
        block: EstimateBlock,  # noqa: ARG002
        kept: tuple[int, ...],  # noqa: ARG002
    ) -> Sequence[Total] | None:
        """The totals of a block over all its dimensions but some; None where its answers do not add up.

        Args:
            release: What the last step released.
            level: The probability of the intervals.
            block: One of `blocks`.
            kept: The positions of the dimensions that are kept, ascending.
        """
        return None

    def may_be_full(self, release: Release) -> bool:
        """Whether a released count may be at the limit on the table's rows, within the reach of its noise."""
        _, upper = release.interval(SURE)
        return bool((upper[self._counts] >= self.max_rows).any())

    @property
    def _counts(self) -> Any:
        """Which of the released numbers are counts of rows."""
        return slice(None)

    def answered_facts(self, rows: Sequence[Row | Estimate], level: float) -> list[tuple[str, str]]:  # noqa: ARG002
        """Answers that are no numbers, as term and text."""
        return []

    def facts(self, plan: Any, rows: Sequence[Row], level: float) -> list[tuple[str, str]]:
        """What a report says about the question, as term and text."""
        raise NotImplementedError

    def answer_keys(self) -> Mapping[str, Sequence[Any] | None]:
        """The columns that answers are about, each with the public keys it has in them; None where keys are found."""
        return {}

    def column_facts(self) -> list[ColumnFacts]:
        """The public facts of each column that is asked about."""
        return []

    # Records.

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, of which `from_dict` makes the same question."""

    @classmethod
    @abstractmethod
    def from_dict(cls, record: Any) -> Self:
        """The question that `to_dict` described.

        Raises:
            RecordError: The record does not parse.
        """

    def check_noisy(self, release: Release, record: Mapping[str, Any]) -> None:  # noqa: ARG002 - most need no more
        """Refuse numbers that a release of this question cannot have given.

        Raises:
            RecordError: They are not one for each coordinate, or not on the grid of their noise.
        """
        values, steps = release.values, grid(release.plan.scales)
        if values.shape != steps.shape:
            raise RecordError("the record does not hold one finite noisy sum for each coordinate of its plan.")
        noisy = steps > 0  # what is public has no noise, and no grid
        if not np.array_equal(np.rint(values[noisy] / steps[noisy]) * steps[noisy], values[noisy]):
            raise RecordError("a noisy number of the record is not on the grid of its noise: it was changed.")

    def check_answers(
        self, record: Mapping[str, Any], release: Release, level: float, earlier: Sequence[Release] = ()
    ) -> None:
        """Refuse stored answers that the noisy numbers do not give.

        Raises:
            RecordError: One is another.
        """
        compare_rows(record, self.answers(release, level, record.get("found", ()), earlier))


_KINDS: dict[str, type[Question]] = {}


def register(kind: type[Question]) -> None:
    """Make a kind of question known; of several that claim the same arguments, the last registered is asked."""
    _KINDS[kind.kind] = kind


def kinds() -> tuple[type[Question], ...]:
    """Every kind of question that is known."""
    return tuple(_KINDS.values())


def kind_of(asked: Mapping[str, Any]) -> type[Question]:
    """The kind of question that stated arguments of `Table.query` ask for."""
    return next(kind for kind in reversed(_KINDS.values()) if kind.claims(asked))


def kind_of_options(stated: Mapping[str, Any]) -> type[Question]:
    """The kind of question that options ask for."""
    return next(kind for kind in reversed(_KINDS.values()) if kind.claims_options(stated))


def kind_of_record(record: Mapping[str, Any]) -> type[Question]:
    """The kind of question of a record, which names it; those made before that are told apart by their keys.

    Raises:
        RecordError: There is no such kind.
    """
    name = record["kind"] if "kind" in record else _kind_of_earlier(record["question"])
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise RecordError("the record names a kind of question that this version does not know.")
    return kind


def _kind_of_earlier(question: Mapping[str, Any]) -> str:
    """The kind of a question whose record does not name it: those of 0.2."""
    keys = {"marginals": "marginals", "ordered": "ordered", "discover": "discovery", "choose": "choice"}
    return next((kind for key, kind in keys.items() if key in question), "statistics")
