"""The plans of several queries under one promise."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from inid.accounting import JointCharge
from inid.mechanisms import MechanismName
from inid.planning import Certificate
from inid.promises import Budget
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
    """

    budget: Budget
    mechanism: MechanismName
    plans: Mapping[str, Plan]
    equal: Mapping[str, list[float]]
    delta_taken: float = 0.0
    notes: tuple[str, ...] = ()

    @cached_property
    def charge(self) -> JointCharge:
        """What a ledger is charged with; making it proves that the parts keep the promise together."""
        noises = tuple(noise for plan in self.plans.values() for noise in plan.noises)
        relation = next(iter(self.plans.values())).neighbours
        return JointCharge(self.budget, noises, relation, self.delta_taken)

    def verify(self) -> dict[str, Certificate]:
        """Prove anew that each part keeps its promise for its question, and that the parts keep the whole.

        Raises:
            GuaranteeError: One does not.
        """
        replace(self.charge)
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
