"""The plans of several queries under one promise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from inid.accounting import JointCharge
from inid.mechanisms import MechanismName
from inid.planning import Certificate, NoisePlan
from inid.planning.division import whole_of
from inid.promises import Budget, GaussianDP
from inid.report import PlanSummary
from inid.sets import Neighbours
from inid.tables.plan import Plan
from inid.tables.wanted import worse_numbers

__all__ = ["PublicationPlan"]


@dataclass(frozen=True, eq=False)
class PublicationPlan:
    """The plans of several queries under one promise. Made by `Publication.plan`.

    It has no noise of its own: a ledger is charged with `charge`, the promise and all its parts.

    Attributes:
        budget: The promise of all of it.
        mechanism: The family of noise of all of it.
        plans: The plan of each query, with its part as its promise.
        equal: The error of each number under an equal split over queries, with the better of the two families.
        delta_taken: The probability that found keys take beside their noise, as part of the promise.
        notes: What named tolerances count as, in sentences, where that is not what was stated.
        named: The stated tolerance of each number; None where nobody named it.
    """

    budget: Budget
    mechanism: MechanismName
    plans: Mapping[str, Plan]
    equal: Mapping[str, list[float]]
    delta_taken: float = 0.0
    notes: tuple[str, ...] = ()
    named: Mapping[str, Sequence[float | None]] = field(default_factory=dict)

    @property
    def neighbours(self) -> Neighbours:
        """The relation for which the promise holds."""
        return next(iter(self.plans.values())).neighbours

    @property
    def delta(self) -> float:
        """What is taken from a ledger's reserve beside the charge: nothing, since the promise holds it."""
        return 0.0

    @property
    def whole_promise(self) -> Budget:
        """The promise of all of it."""
        return self.budget

    @property
    def charge(self) -> JointCharge:
        """What a ledger is charged with, for the plans as they are: making it proves that they keep the promise."""
        return JointCharge(self.budget, self._noises, self.neighbours, self.delta_taken)

    def summary(self) -> PlanSummary:
        """All plans line by line, as reports and the command show them, beside an equal split of the whole promise."""
        found = {name: plan.summary() for name, plan in self.plans.items()}
        whole, lines, mine, equal = whole_of(self.budget, self.mechanism), [], 0.0, 0.0
        for name, plan in self.plans.items():
            part = float(whole_of(plan.budget, self.mechanism) / whole)
            stated = self.named.get(name) or [None] * len(self.equal[name])
            numbers = zip(found[name].lines, plan.planned_numbers(), self.equal[name], stated, strict=True)
            for line, number, share, wanted in numbers:
                own = share if isfinite(share) else number.std  # what has no stated error stands beside nothing
                if isfinite(share):
                    unit = own if wanted is None else min(wanted, own)
                    mine += number.cells * (number.std / unit) ** 2
                    equal += number.cells * (own / unit) ** 2
                label, baselines = f"{name}: {line.label}", dict.fromkeys(line.baselines, own)
                lines.append(replace(line, label=label, share=part * line.share, tolerance=wanted, baselines=baselines))
        gain = equal / mine if mine > 0 else 1.0
        told = [f"{label}: {std:.4g} instead of {own:.4g}" for label, std, own in self.worse]
        return PlanSummary(
            next(iter(found.values())).noise,
            tuple(lines),
            {"iid": gain, "spr": gain},
            None,
            next((one.rows for one in found.values() if one.rows is not None), None),
            any(one.guessed for one in found.values()),
            (*(f"{name}: {text}" for name, one in found.items() for text in one.advice), *self.notes),
            opponent="an equal split over questions and inside them",
            inside=tuple(f"{name}: {text}" for name, one in found.items() for text in one.inside),
            worse=(f"Worse than under an equal split: {'; '.join(told)}.",) if told else (),
            promise=self.budget,
            steps=tuple(noise for noise in self._noises if isinstance(noise, NoisePlan)),
        )

    @property
    def _noises(self) -> tuple[NoisePlan | GaussianDP, ...]:
        return tuple(noise for plan in self.plans.values() for noise in plan.noises)

    def verify(self) -> dict[str, Certificate]:
        """Prove anew that each part keeps its promise for its question, and that the parts keep the whole.

        Raises:
            GuaranteeError: One does not.
        """
        self.charge  # noqa: B018 - made anew: it refuses parts that do not keep the promise
        return {name: plan.verify() for name, plan in self.plans.items()}

    @property
    def worse(self) -> list[tuple[str, float, float]]:
        """Every number that ends worse than under an equal split: its name, its error and that of an equal split."""
        found = []
        for name, plan in self.plans.items():
            numbers = plan.planned_numbers()
            labels = [f"{name}: {number.label}" for number in numbers]
            found += worse_numbers(labels, [number.std for number in numbers], self.equal[name])
        return found

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary: the charge, and the plan of each query."""
        return {"charge": self.charge.to_dict(), "plans": {name: plan.to_dict() for name, plan in self.plans.items()}}

    def __str__(self) -> str:
        number = "1 query" if len(self.plans) == 1 else f"{len(self.plans)} queries"
        lines = [f"{number} under {self.budget}, one charge, {self.mechanism} noise"]
        for name, plan in self.plans.items():
            lines += [
                "",
                f"{name}: its part is {plan.budget}",
                *(f"  {line}".rstrip() for line in str(plan).split("\n")),
            ]
        lines += ["", *self.notes] if self.notes else []
        if self.worse:
            lines += ["", "worse than under an equal split over queries and inside them:"]
            lines += [f"  {label}: {std:.4g} instead of {own:.4g}" for label, std, own in self.worse]
        return "\n".join(lines)
