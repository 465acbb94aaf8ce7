"""What every kind of question has (`Question`), and the registry of kinds."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from inid.arguments import listed, shown
from inid.errors import Argument, ArgumentError, RecordError
from inid.mechanisms import MechanismName
from inid.planning import NoisePlan
from inid.promises import Budget, GaussianDP
from inid.releasing import AddNoise, Draw, Release
from inid.report import ColumnFacts, Estimate, EstimateBlock
from inid.tables.aggregation import Aggregation, Totals
from inid.tables.error_targets import UNITS, equal_errors
from inid.tables.plan import Plan
from inid.tables.presentation import KeyLabels, Total
from inid.tables.result import COMBINED, SURE, Answer, Result, compare_answers
from inid.tables.table import Table
from inid.tables.view import PublicFacts

if TYPE_CHECKING:
    from inid.tables.query import Query


def check_alone(option: str, stated: Mapping[str, Any], allowed: Sequence[str]) -> None:
    """Refuse options beside those of a question that is a release of its own."""
    if any(name not in allowed for name in stated):
        raise ArgumentError(
            f"{option} cannot be combined with other statistics; use a separate release.",
            code="alone",
            own=Argument(option),
        )


def check_details(option: str, stated: Mapping[str, Any], details: Sequence[str]) -> None:
    """Refuse details of a question that is not asked."""
    for detail in details:
        if detail in stated and option not in stated:
            raise ArgumentError(
                f"{detail} goes with {option}: leave it out here.",
                code="goes_with",
                argument=Argument(detail),
                own=Argument(option),
            )


def check_counts(option: str, stated: Mapping[str, Any]) -> None:
    """Refuse counts of rows and of people at once."""
    if stated.get("count") and stated.get("count_distinct"):
        raise ArgumentError(
            f"{option} counts rows or people: pass count or count_distinct.",
            code="rows_or_people",
            own=Argument(option),
        )


# What can be asked of a table: the protocol of a kind of question, and the registry of the kinds that there are.
#
# A kind of question is one class, in one file or folder of `questions`, and one line that registers it. It says how it
# is asked, what one person can change in its exact numbers, how noise becomes answers, and how all of it is shown and
# kept in a record. Queries, plans, results, records, reports, the command and the page know this protocol and no kind.


@dataclass(frozen=True, eq=False, kw_only=True)
class Question(PublicFacts, ABC):
    """What is asked of a table, and the public facts it is asked with. No data, so it can be kept in a record."""

    kind: ClassVar[str]
    method: ClassVar[str]  # of a table, which asks it
    options: ClassVar[tuple[str, ...]] = ("mechanism",)
    refusable: ClassVar[tuple[str, ...]] = ()  # arguments of which False says something else than nothing
    combines: ClassVar[bool] = False
    adds_up: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = False
    knows_accuracy: ClassVar[bool] = False
    makes_rows: ClassVar[bool] = False
    unlimited: ClassVar[str | None] = None  # the kind that is asked where a person's contribution has no stated limit
    reads: ClassVar[tuple[str, ...]] = ()
    families: ClassVar[tuple[MechanismName, ...]] = ("gaussian", "laplace")
    weighed: ClassVar[bool] = True
    draws_jointly: ClassVar[bool] = False  # whether staircase noise is one of its kinds of noise under a pure promise
    heading: ClassVar[str] = "Private statistics of a table"
    lead: ClassVar[str] = ""
    recorded: ClassVar[tuple[str, ...]] = ("answers",)  # what a record holds beside the question and the release
    steps: ClassVar[int] = 1
    plans: ClassVar[type[Plan]]
    results: ClassVar[type[Result]] = Result
    queries: "ClassVar[type[Query[Any, Any]] | None]" = None

    # How it is asked.

    @classmethod
    @abstractmethod
    def read(cls, table: Table, asked: Mapping[str, Any]) -> Self:
        """Check what is asked against names, types and public facts of a table."""

    # How files, commands and pages ask it: by options, which are the arguments of its method where nothing is said.

    @classmethod
    def claims_options(cls, stated: Mapping[str, Any]) -> bool:  # noqa: ARG003 - those without options claim none
        """Whether options ask for this kind."""
        return False

    @classmethod
    def from_options(cls, stated: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the method, from options."""
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
    def asked_as(self) -> str:
        """The option by which files and the command ask such a question."""
        return self.method

    # What leaves the engine, and what one person can change in it.

    @abstractmethod
    def aggregations(self, table: Table) -> tuple[Aggregation, ...]:
        """What the engine adds up: of rows that are limited alike, one."""

    def check(self, table: Table) -> None:
        """Refuse, before the charge, what the types of the table or public facts do not allow."""
        table.source.check(self.aggregations(table))

    @abstractmethod
    def exact(self, totals: Sequence[Sequence[Totals]], plan: Any) -> Any:
        """The numbers before noise, held to public limits, as the plan's draws take them. NOT PRIVATE."""

    def step_numbers(self, exact: Any, released: tuple[Release, ...]) -> Any:  # noqa: ARG002 - most release once
        """What one step adds noise to, from the exact numbers and what earlier steps released."""
        return exact

    @abstractmethod
    def is_covered_by(self, noise: NoisePlan) -> bool:
        """Whether the set of a plan holds whatever one person can change in the numbers that are released."""

    def row_maker(self, release: Release, earlier: Sequence[Release]) -> Any:
        """What makes rows from released numbers; only where `makes_rows`."""
        raise NotImplementedError

    def is_covered_by_all(
        self,
        noises: Sequence[NoisePlan | GaussianDP],
        released: Sequence[Release] = (),  # noqa: ARG002 - most release once
    ) -> bool:
        """The same of all steps; whoever takes several says which set is that of which step."""
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
        """Plan the noise of a promise, the first argument; the options are those that this kind takes."""

    def chosen_by(self, plan: Any) -> Self:  # noqa: ARG002 - most plans choose nothing
        """The question with what a plan has chosen for it."""
        return self

    def for_accuracy(self, tolerance: Any, *, failure: float, delta: float | None) -> Any:  # noqa: ARG002
        """The least budget found with which every answer is within its tolerance."""
        raise ArgumentError(f"the cost of an accuracy is not known for {self.method}: plan with a promise.")

    def named_targets(self, tolerance: Any) -> list[float | None]:
        """The stated tolerance of each line of a plan; None where nobody named it."""
        if tolerance is not None:
            raise ArgumentError(f"tolerance does not go with {self.method}: leave it out.")
        return [None]

    def alone(self, mechanism: MechanismName) -> Sequence[float]:
        """The error of each line of a plan when it is asked by itself, with one unit of a family's promise."""
        options: dict[str, Any] = {"mechanism": mechanism} if "mechanism" in self.options else {}
        return [number.std for number in self.plan(UNITS[mechanism], **options).planned_numbers()]

    def equal(self, budget: Budget, *, questions: int = 1) -> list[float]:
        """The error of each line under an equal split: see `inid.tables.error_targets`."""
        return equal_errors(self.alone, budget, questions=questions)

    def plan_within(self, budget: Budget, mechanism: MechanismName, targets: Sequence[float]) -> Any:  # noqa: ARG002
        """The plan with the least sum of (std / targets)^2 over all cells; `targets` has one number for each line."""
        return self.plan(budget, **({"mechanism": mechanism} if "mechanism" in self.options else {}))

    def tolerance_notes(self, tolerance: Any) -> list[str]:  # noqa: ARG002 - most have one unit
        """What stated tolerances count as, in sentences, where their unit is not that of the plan's lines."""
        return []

    def check_combination(self, cells: Any, column: str | None) -> None:  # noqa: ARG002
        """Refuse a combination of cells that is not of the asked tables, or of any where none are asked."""
        raise ArgumentError(COMBINED)

    def combination_record(self, name: str, cells: Any, column: str | None, combination: Any) -> dict[str, Any]:  # noqa: ARG002
        """A combination of cells and its answer as JSON-safe values."""
        raise ArgumentError(COMBINED)

    # Answers: post-processing of what was released.

    @abstractmethod
    def answers(
        self, release: Release, level: float, keys: Sequence[Any] = (), earlier: Sequence[Release] = ()
    ) -> tuple[Answer, ...]:
        """Every answer that noisy numbers give, with intervals that hold the exact one with this probability."""

    @abstractmethod
    def blocks(self, estimates: Sequence[Estimate], labels: KeyLabels) -> list[EstimateBlock]:
        """The answers as pages show them, statistic by statistic."""

    def totals(
        self,
        release: Release,  # noqa: ARG002 - most add nothing up
        level: float,  # noqa: ARG002
        block: EstimateBlock,  # noqa: ARG002
        axes: tuple[int, ...],  # noqa: ARG002
    ) -> Sequence[Total] | None:
        """The totals of a block over all its dimensions but some; None where its answers do not add up."""
        return None

    def check_sample(self) -> None:
        """Refuse rows of which no sampling error is known."""
        raise ArgumentError(
            f"the sampling error of {self.method} is not known: ask for counts, sums and means by statistics(...).",
            code="sampling_unknown",
        )

    @property
    def sampled_kinds(self) -> tuple[str, ...]:
        """The kinds of numbers whose interval can cover the sampling error of a simple random sample too."""
        return ()

    def sample_answers(self, release: Release, level: float, drawn: float) -> tuple[Answer, ...]:
        """Every answer with an interval that covers the sampling error of a simple random sample too."""
        raise NotImplementedError

    def may_be_full(self, release: Release) -> bool:
        """Whether a released count may be at the limit on the table's rows, within the reach of its noise."""
        _, upper = release.interval(SURE)
        return bool((upper[self._counts] >= self.max_rows).any())

    @property
    def _counts(self) -> Any:
        """Which of the released numbers are counts of rows."""
        return slice(None)

    def answered_facts(self, answers: Sequence[Answer | Estimate], level: float) -> list[tuple[str, str]]:  # noqa: ARG002
        """Answers that are no numbers, as term and text."""
        return []

    def facts(self, plan: Any, answers: Sequence[Answer], level: float) -> list[tuple[str, str]]:
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
        """The question that `to_dict` described."""

    def check_noisy(self, release: Release, record: Mapping[str, Any]) -> None:  # noqa: ARG002 - most need no more
        """Refuse numbers that a release of this question cannot have given."""
        values, steps = release.values, release.plan.grids
        if values.shape != steps.shape:
            raise RecordError("the record does not hold one finite noisy sum for each coordinate of its plan.")
        noisy = steps > 0  # what is public has no noise, and no grid
        if not np.array_equal(np.rint(values[noisy] / steps[noisy]) * steps[noisy], values[noisy]):
            raise RecordError("a noisy number of the record is not on the grid of its noise: it was changed.")

    def check_answers(
        self, record: Mapping[str, Any], release: Release, level: float, earlier: Sequence[Release] = ()
    ) -> None:
        """Refuse stored answers that the noisy numbers do not give."""
        compare_answers(record, self.answers(release, level, record.get("found", ()), earlier))


_KINDS: dict[str, type[Question]] = {}


def register(kind: type[Question]) -> None:
    """Make a kind of question known; of several that claim the same options, the last registered is asked."""
    _KINDS[kind.kind] = kind


def kinds() -> tuple[type[Question], ...]:
    """Every kind of question that is known."""
    return tuple(_KINDS.values())


def kind_by_name(name: str) -> type[Question]:
    """The kind of question of this name.

    Raises:
        ArgumentError: None was registered.
    """
    if name not in _KINDS:
        raise ArgumentError(f"no kind of question is called {shown(name)}: there are {listed(_KINDS)}.")
    return _KINDS[name]


def kind_of_options(stated: Mapping[str, Any]) -> type[Question]:
    """The kind of question that options ask for."""
    return next(kind for kind in reversed(_KINDS.values()) if kind.claims_options(stated))


def kind_of_record(record: Mapping[str, Any]) -> type[Question]:
    """The kind of question that a record names."""
    name = record.get("kind")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise RecordError("the record names a kind of question that this version does not know.")
    return kind
