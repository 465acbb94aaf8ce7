"""Private choice: which of many candidates has the largest score. The index alone is released.

**Statement.** Let one person's data move the scores by (d_1, ..., d_K) with max(d, 0) - min(d, 0) <= r, the *range* of
the changes (0 included, so that holding scores to a public limit keeps it). The index of the largest score_i + E_i,
with independent exponential E_i of mean b, is dominated by Laplace noise of scale b on one number that a person moves
by r: no test tells neighbours apart better. So it costs, in every currency, what that plan costs: pure epsilon r / b,
and less in (epsilon, delta), Gaussian or Renyi terms.

*Why.* A constant added to all scores changes no index, so we may take 0 <= d_i <= r. Let S be any set of indices, and
W(t) the probability that the winner is in S when the scores in S, and no others, are raised by t. Raising scores in S
helps S and raising others hurts it, so S has the probability W(0) before the change and at most W(r) after it. With M
the largest noisy score in S and N that outside, W(t) = P(N - M < t). Given N, the density of M at any point is at most
1/b times P(M > that point): true of one exponential, hence of a maximum of them (the density of a maximum sums the
cases in which one variable is there and no other beyond). So W' <= W / b; with M and N exchanged, W' <= (1 - W) / b.
The distribution function L of Laplace noise has L' = min(L, 1 - L) / b exactly. So L^-1(W(t)) grows by at most t: the
point (W(0), 1 - W(r)) lies on or above the trade-off curve of the Laplace mechanism, for every S. That curve is convex,
so mixtures of tests lie above it too.

What matters is the range, not the size, of the changes: counts under "add_remove" move in one direction, and r is the
most that one person adds to one of them; under "replace" it is twice that. The noise is continuous and is compared
exactly (`noise.noisy_argmax`); with rounded noise the statement would need a grid that divides every change.
"""

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from inid.arguments import integer, real, shown
from inid.errors import ArgumentError
from inid.noise.grid_noise import limits
from inid.noise.noisy_argmax import noisy_argmax
from inid.noise.source import RandomSource
from inid.planning import Certificate, NoisePlan, plan
from inid.promises import Budget
from inid.releasing import Drawn, charge, check_plan, read_values
from inid.sets import Neighbours, Sensitivity

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["Largest", "Selection", "plan_selection", "select"]

_LABEL = "range of the scores"


@dataclass(frozen=True)
class Selection:
    """Which candidate was chosen, and what that promises.

    Attributes:
        index: The position of the chosen candidate.
        candidates: How many there were.
        plan: The plan whose noise decided.
        certificate: The proof that the plan keeps its promise.
        private: False when a test's seeded or silent source drew the noise: such a choice promises nothing.
        label: What the caller named it.
        time: When it was made, in UTC.
        charge: The number of its charge in the ledger's history; None without a ledger.
    """

    index: int
    candidates: int
    plan: NoisePlan
    certificate: Certificate
    private: bool
    label: str
    time: dt.datetime
    charge: int | None = None

    def shortfall(self, level: float = 0.95) -> float:
        """How far the chosen score is below the largest one at most, with this probability over the noise.

        It is at most the largest of the K exponential noises, which exceeds b log(K / gamma) with probability gamma at
        most.

        >>> import inid
        >>> chosen = select([3.0, 500.0], plan_selection(1.0, inid.PureDP(epsilon=1.0)))
        >>> round(chosen.shortfall(0.95), 2)
        3.69
        """
        gamma = 1 - real("level", level, above=0, cure="pass a probability such as 0.95")
        if not gamma > 0:
            raise ArgumentError(f"level must be a probability below 1, got {shown(level)}: pass 0.95, say.")
        return float(self.plan.scales[0]) * math.log(self.candidates / gamma)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe record."""
        return {
            "inid_selection": 1,
            "time": self.time.isoformat(),
            "label": self.label,
            "private": self.private,
            **({} if self.charge is None else {"charge": self.charge}),
            "index": self.index,
            "candidates": self.candidates,
            "plan": self.plan.to_dict(),
            "certificate": self.certificate.to_dict(),
        }


@dataclass(frozen=True)
class Largest:
    """Of scores the position of the largest, once noise is added; nothing else is published of them."""

    def draw(self, exact: Any, noise: NoisePlan, source: RandomSource) -> Drawn:
        """The position, as one number."""
        most = float(limits(noise.scales)[0])
        held = np.clip(np.nan_to_num(np.asarray(exact), nan=0.0, posinf=most, neginf=-most), -most, most)
        return Drawn(np.array([float(noisy_argmax(held.tolist(), float(noise.scales[0]), source))]))


def plan_selection(score_range: float, budget: Budget, *, neighbours: Neighbours = "add_remove") -> NoisePlan:
    """The noise of a choice: the plan of Laplace noise on one number that one person moves by `score_range`.

    Args:
        score_range: The range of the changes that one person's data make in the scores: the largest minus the smallest,
            an unchanged score being 0. For scores that each move by at most c it is 2 c; for counts, which all move up
            when a person is added, c.
        budget: The promise.
        neighbours: The relation under which the range holds.

    Raises:
        ArgumentError: The range is not positive.

    >>> import inid
    >>> float(plan_selection(2.0, inid.PureDP(epsilon=0.5)).scales[0])
    4.0
    """
    reach = real("score_range", score_range, above=0, cure="pass the most that one person moves two scores apart")
    return plan(Sensitivity.box([reach], labels=[_LABEL], neighbours=neighbours), budget, mechanism="laplace")


def select(
    scores: ArrayLike | Callable[[], ArrayLike],
    plan: NoisePlan,
    ledger: "Ledger | None" = None,
    *,
    candidates: int | None = None,
    label: str = "",
) -> Selection:
    """Charge the ledger, then say which score is the largest once noise is added: the index, and nothing else.

    Args:
        scores: One number per candidate; or a function of no arguments that computes them, called after the charge. NaN
            and missing entries count as 0, as in `inid.release`.
        plan: From `plan_selection`.
        ledger: Where the cost is charged. Without one nobody keeps count.
        candidates: How many there are, where `scores` is a function: the number is public.
        label: A name for the ledger's history.

    Raises:
        ArgumentError: Wrong shape or type, or a plan of something else; nothing was charged.
        BudgetError: The ledger refuses; nothing was looked at.

    >>> import inid
    >>> p = plan_selection(1.0, inid.PureDP(epsilon=1.0))
    >>> select(lambda: [20.0, 900.0, 35.0], p, candidates=3).index
    1
    """
    check_plan(plan)
    if plan.mechanism != "laplace" or plan.sensitivity.labels != (_LABEL,) or not plan.scales[0] > 0:
        raise ArgumentError("plan must be the plan of a choice: make one with plan_selection(...).")
    stated = np.size(np.asarray(scores, dtype=object)) if candidates is None and not callable(scores) else candidates
    number = integer("candidates", stated, least=1, cure="pass the number of candidates")
    given = None if callable(scores) else read_values(scores, number)
    paid = charge(plan, ledger, label)
    exact = read_values(scores(), number) if callable(scores) else given
    index = int(Largest().draw(exact, plan, paid.source).values[0])
    now = dt.datetime.now(dt.UTC)
    return Selection(index, number, plan, paid.certificate, paid.source.private, label, now, paid.charge)
