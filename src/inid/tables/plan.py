"""What every plan of a query shares."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from inid.arguments import listed
from inid.errors import ArgumentError, GuaranteeError, Words
from inid.numbers.decimals import decimal_fraction, decimal_up
from inid.planning import Certificate, NoisePlan
from inid.promises import ApproxDP, Budget, GaussianDP, PureDP
from inid.report.wording import belief_after
from inid.sets import Neighbours
from inid.tables.error_targets import worse_numbers, worse_sentence
from inid.tables.presentation import plot_summary
from inid.tables.view import PublicFacts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from inid.accounting import JointCharge
    from inid.releasing import Release
    from inid.report import PlanSummary

_WORTH = 1.05  # advice that makes errors less than 5 % smaller is not worth a line
_NAMED = 4
_PRINTED = 40  # less accurate numbers


def fill_advice(columns: Sequence[str], times: float) -> tuple[str, ...]:
    """The advice to state fill values, where that makes errors so many times smaller; from public facts alone.

    A column whose missing values are left out needs a count of its own, which takes its part of the noise.

    >>> fill_advice(["age"], 1.6)
    ('No missing values in age? State public fill values (missing): errors there would be about 1.6 times smaller.',)
    >>> fill_advice(["age"], 1.01)
    ()
    """
    if not times >= _WORTH:
        return ()
    cure = f"State public fill values (missing): errors there would be about {times:.2g} times smaller."
    return (f"No missing values in {listed(columns, _NAMED)}? {cure}",)


def rows_assumed(rows: int) -> str:
    """What a plan for accuracy says where nobody stated a number of rows, and answers divide by it.

    >>> rows_assumed(1000)
    'This is for 1,000 rows, a nominal guess: of fewer rows the errors are larger. State your own guess as rows.'
    """
    cure = "State your own guess as rows."
    return f"This is for {rows:,} rows, a nominal guess: of fewer rows the errors are larger. {cure}"


def sizes_missing(statistic: str, columns: Iterable[str]) -> ArgumentError:
    """The error of an accuracy that depends on sizes of groups which nobody stated."""
    names = " and ".join(columns)
    return ArgumentError(
        f"what an accuracy of {statistic} costs depends on the sizes of the groups: state those of {names}, as "
        "Table(group_rows=...), or plan with a promise.",
        code="group_rows_missing",
        statistic=Words(statistic),
        columns=Words(names),
    )


def rows_in_words(question: PublicFacts) -> str:
    """The number of rows that a plan assumes, and whether anybody stated it."""
    nominal = ", a nominal guess: pass Table(rows=...) for your own"
    return f"{question.assumed_rows} rows" + ("" if question.rows else nominal)


_LARGE_EPSILON = 10.0


def promise_remarks(promise: Budget, question: PublicFacts) -> list[str]:
    """What is to be said of a promise that keeps little: epsilon above 10, or delta above 1 / rows."""
    remarks = []
    belief = belief_after(promise)
    if belief.sure > 1 / (1 + math.exp(-_LARGE_EPSILON)):
        remarks.append(
            f"{promise} has an epsilon above {_LARGE_EPSILON:g}, which hides next to nothing: somebody who began with "
            "an even chance can become all but certain of one person."
        )
    return remarks + delta_remarks(promise, question)


def delta_remarks(promise: Budget, question: PublicFacts) -> list[str]:
    """What is to be said of a delta above 1 / rows."""
    delta = promise.delta if isinstance(promise, ApproxDP) else 0.0
    if not delta * question.assumed_rows > 1:
        return []
    rows = f"{question.assumed_rows:,}" + ("" if question.rows else ", a nominal guess")
    return [
        (
            f"delta={delta:g} is above 1 / rows (of {rows}): to publish a row as it is, with this probability, would "
            "keep the same promise. Promise a smaller delta."
        )
    ]


def whole_promise(budget: Budget, delta: float) -> ApproxDP | None:
    """The promise of noise and a threshold's delta together; None where the noise's promise has no epsilon."""
    if not isinstance(budget, (ApproxDP, PureDP)):
        return None
    spent = decimal_fraction(budget.delta) if isinstance(budget, ApproxDP) else 0
    return ApproxDP(budget.epsilon, decimal_up(spent + decimal_fraction(delta), "delta"))


class PlannedNumber(NamedTuple):
    """What a plan means for one line of it, to be weighed against other questions."""

    label: str
    cells: int
    std: float
    range: float = math.inf


class Plan(ABC):
    """What all plans of queries share. A plan keeps its question, so it proves both its noise and its sensitivity set.

    Attributes:
        noise: The certified plan of all released numbers.
        question: What is asked.
        equal: Where tolerances were named, the error of each line under an equal split.
    """

    noise: NoisePlan
    question: Any
    equal: tuple[float, ...] = ()

    @property
    def noises(self) -> "tuple[NoisePlan | GaussianDP, ...]":
        """The noise of each step of the release (most questions have one), or its promise if it depends on answers."""
        return (self.noise,)

    @property
    def neighbours(self) -> Neighbours:
        """The relation for which the promise holds."""
        return self.noise.sensitivity.neighbours

    @property
    def budget(self) -> Budget:
        """The promise."""
        return self.noise.budget

    @property
    def delta(self) -> float:
        """The probability that is taken from a ledger's reserve, beside what the noise costs."""
        return 0.0

    @property
    def whole_promise(self) -> Budget | None:
        """The promise of the whole release; None where noise and delta together have none."""
        return self.noise.stated

    @property
    def charge(self) -> "NoisePlan | JointCharge":
        """What a ledger is charged; for several steps, the promise of all of them and their parts."""
        return self.noise

    @property
    def mechanism(self) -> str:
        """The kind of noise."""
        return self.noise.mechanism

    @property
    def certificate(self) -> Certificate:
        """The proof that the noise keeps the promise."""
        return self.noise.certificate

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the expected error of each statistic, beside an equal split and its tolerance.

        Args:
            ax: Axes of matplotlib to draw on; those of a new figure by default.

        Raises:
            MissingExtraError: matplotlib is not installed.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
        >>> [text.get_text() for text in t.statistics(mean=["age"]).plan(inid.PureDP(1.0)).plot().get_yticklabels()]
        ['mean(age)']
        """
        return plot_summary(self.summary(), ax)

    @abstractmethod
    def in_words(self) -> str:
        """The printed plan, without the lines about its promise."""

    def __str__(self) -> str:
        promise = self.budget if self.whole_promise is None else self.whole_promise
        return "\n".join([self.in_words(), *promise_remarks(promise, self.question)])

    @abstractmethod
    def summary(self) -> "PlanSummary":
        """The plan line by line, as reports and the command show it."""

    def noisy_numbers(self) -> list[tuple[str, float, float]]:
        """For each line of the plan its name, the deviation of its noise and its share of the promise."""
        return [(line.label, line.deviation, line.share) for line in self.summary().lines]

    def planned_numbers(self) -> list[PlannedNumber]:
        """The plan line by line, as a publication weighs it."""
        return [PlannedNumber(line.label, line.cells or 1, line.deviation) for line in self.summary().lines]

    @property
    def worse(self) -> list[tuple[str, float, float]]:
        """Every number that is less accurate than under an equal split, with both errors; only with tolerances."""
        if not self.equal:
            return []
        numbers = self.planned_numbers()
        return worse_numbers([one.label for one in numbers], [one.std for one in numbers], self.equal)

    @property
    def worse_lines(self) -> list[str]:
        """The same as a sentence, if there are any, as the page and the report show it."""
        worse = self.worse
        return [worse_sentence(worse)] if worse else []

    @property
    def worse_printed(self) -> list[str]:
        """The same as a printed plan has it: the first forty, and how many more `worse` lists."""
        worse = self.worse
        return [worse_sentence(worse, _PRINTED)] if worse else []

    def is_of(self, question: Any) -> bool:
        """Whether the plan belongs to exactly this question, and its noise covers what one person can change.

        A guess of the number of rows changes no answer, so plans made with another one are taken.
        """
        return _asked(self.question) == _asked(question) and bool(question.is_covered_by_all(self.noises))

    def verify(self) -> Certificate:
        """Re-derive the guarantee: the noise keeps the promise, and the plan's set holds what a person can change.

        Raises:
            GuaranteeError: The scales break the promise, or somebody can leave the plan's set.
        """
        if not self.question.is_covered_by_all(self.noises):
            raise GuaranteeError("the set of the plan does not hold what one person can change in these answers.")
        return self.noise.verify()

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary: the noise plan's own record, and what it means for the answers."""


@dataclass(frozen=True, eq=False)
class PlanOfSteps(Plan):
    """The plan of a question that takes several steps, each at a cost that is fixed before anything is released.

    It has no noise of its own: a ledger is charged with the promise and all its parts, once.
    """

    promise: Budget
    steps: tuple[NoisePlan | GaussianDP, ...]
    question: Any
    released: "tuple[Release, ...]" = ()

    @property
    def noises(self) -> tuple[NoisePlan | GaussianDP, ...]:
        """The noise of each step, or its promise."""
        return self.steps

    @property
    def known(self) -> tuple[NoisePlan, ...]:
        """The noise of the steps for which it is known."""
        return tuple(step for step in self.steps if not isinstance(step, GaussianDP))

    @property
    def neighbours(self) -> Neighbours:
        """The relation for which the promise holds."""
        return self.known[0].sensitivity.neighbours

    def settled(self, released: "Sequence[Release]") -> Self:
        """The same plan once it was released, with the noise of every step."""
        return replace(self, steps=tuple(step.plan for step in released), released=tuple(released))

    @property
    def budget(self) -> Budget:
        """The promise of all steps together."""
        return self.promise

    @property
    def whole_promise(self) -> Budget:
        """The same: the steps take nothing beside it."""
        return self.promise

    @property
    def charge(self) -> "JointCharge":
        """What a ledger is charged with; making it proves that the steps keep the promise together."""
        from inid.accounting import JointCharge

        return JointCharge(self.promise, self.steps, self.neighbours)

    @property
    def mechanism(self) -> str:
        """The kinds of noise of the steps."""
        return ", ".join(dict.fromkeys(noise.mechanism for noise in self.known))

    @property
    def certificate(self) -> Certificate:
        """The proof of the last step's noise that is known; `verify` proves all of them."""
        return self.known[-1].certificate

    def verify(self) -> Certificate:
        """Prove anew that every step keeps its part for the question, and that the parts keep the promise."""
        if not self.question.is_covered_by_all(self.steps, self.released):
            raise GuaranteeError("the sets of the steps do not hold what one person can change in these answers.")
        self.charge  # noqa: B018 - made anew: it refuses parts that do not keep the promise
        return [noise.verify() for noise in self.known][-1]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary: the charge, with the plan of each step."""
        return {"charge": self.charge.to_dict(), **self.question.view.to_dict()}


def _asked(question: Any) -> str:
    """What is asked as text, in its order: Python would find True in place of 1, and cells follow the order of keys."""
    return json.dumps({name: value for name, value in question.to_dict().items() if name != "rows"})
