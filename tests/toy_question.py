"""A whole kind of question in one file: which group is the largest, and then how many rows that group has.

Two steps of fixed cost. The first chooses the group, and pays half of the promise; the second counts the rows of the
group that was chosen, and pays the other half. What the second step looks at depends on what the first released, and
on nothing else; its noise is fixed before either.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from inid.errors import ArgumentError, RecordError
from inid.planning import plan
from inid.promises import PureDP
from inid.releasing import AddNoise, Largest, plan_selection
from inid.report import Dimension, EstimateBlock, PlanLine, PlanSummary
from inid.sets import Sensitivity
from inid.tables import Aggregation, Answer, Grouping, PlanOfSteps, PublicKeys, Question, Rows, parsing, read_keys


class LeaderPlan(PlanOfSteps):
    """The noise of both steps."""

    def summary(self):
        """One line: the count."""
        std = float(self.steps[-1].scales[0]) * 2**0.5
        line = PlanLine(f"rows of the largest {self.question.column}", 1.0, std, None, {"iid": std, "spr": std})
        seen = {"opponent": None, "promise": self.promise, "steps": self.steps}
        return PlanSummary(self.steps[-1], (line,), {"iid": 1.0, "spr": 1.0}, None, **seen)

    def in_words(self):
        return f"The largest {self.question.column} and its rows, in two steps under {self.budget}"


@dataclass(frozen=True, eq=False, kw_only=True)
class Leader(Question):
    """The largest group of a column, and its size. Asked by `ask(table, "leader", city=["A", "B"])`."""

    kind = "leader"
    options = ()
    steps = 2
    plans = LeaderPlan
    method = "leader"

    column: str
    keys: tuple[str, ...]

    @classmethod
    def read(cls, table, asked):
        if table.person is not None:
            raise ArgumentError("leader protects rows, not people.")
        ((column, keys),) = asked.items()
        return cls(column=column, keys=read_keys("leader", keys), **cls.facts_of(table))

    def plan(self, budget):
        half = PureDP(budget.epsilon / 2)
        steps = self._choice(half), plan(self._count, half, mechanism="laplace")
        return LeaderPlan(budget, steps, self)

    def _choice(self, budget):
        """One row raises one count, or replaced lowers another too."""
        return plan_selection(2.0 if self.neighbours == "replace" else 1.0, budget, neighbours=self.neighbours)

    @property
    def _count(self):
        return Sensitivity.box([1.0], labels=["rows of the chosen group"], neighbours=self.neighbours)

    def is_covered_by(self, noise):
        return noise.sensitivity == self._count

    def is_covered_by_all(self, noises, released=()):
        if len(noises) != self.steps or any(noise.mechanism != "laplace" for noise in noises):
            return False
        chosen = self._choice(noises[0].budget).sensitivity
        return noises[0].sensitivity == chosen and self.is_covered_by(noises[1])

    def aggregations(self, table):
        keys = {self.column: PublicKeys(self.column, self.keys)}
        return (Aggregation(keys, (Rows(),), (Grouping((self.column,), (0,)),), view=table.view),)

    def exact(self, found, plan):
        ((sizes,),) = found
        return np.minimum(sizes.sums[0], self.max_rows).astype(float)

    def draws(self, plan):
        return Largest(), AddNoise()

    def step_numbers(self, exact, released):
        return exact if not released else exact[[int(released[0].values[0])]]

    def answers(self, release, level, keys=(), earlier=()):
        (low,), (high,) = release.interval(level)
        key = self.keys[int(earlier[0].values[0])]
        std = float(release.plan.scales[0]) * 2**0.5
        return (
            Answer("rows", "", f"{self.column}={key}", float(release.values[0]), low, high, std, {self.column: key}),
        )

    def blocks(self, estimates, labels):
        levels = (str(estimates[0].keys[self.column]),)
        return [EstimateBlock("count", "", (Dimension(self.column, levels),), tuple(estimates))]

    def facts(self, plan, rows, level):
        return [("chosen from", ", ".join(self.keys))]

    def check_noisy(self, release, record):
        if release.plan.sensitivity == self._count:
            super().check_noisy(release, record)
        elif release.values.tolist() not in [[at] for at in range(len(self.keys))]:
            raise RecordError("the record does not hold the position of a group.")

    def to_dict(self):
        return {"leader": {self.column: list(self.keys)}, **self.facts_to_dict()}

    @classmethod
    def from_dict(cls, record):
        with parsing(record):
            ((column, keys),) = Mapping.items(record["leader"])
            return cls(column=column, keys=read_keys("leader", keys), **cls.facts_from_dict(record))
