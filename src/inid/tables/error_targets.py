"""Error targets per statistic; stating one never increases its error.

For every number let t_0 be its error under an equal split: each question has an equal part of the promise, inside it
each number has an equal part of that, and is planned with it as if nothing else was asked; with the better of the two
families of noise. The target of a number without a tolerance is t_0, and a looser tolerance counts as t_0:

    target = min(tolerance, t_0)

*Statement.* Stating a tolerance never makes that number less accurate. *Why.* The least weighted sum of attainable
variances, h(w) = min over v of w.v, is concave in the weights w = 1 / target^2, and v is its slope: v_j does not rise
with w_j, and no tolerance for j is the smallest w_j. That holds over the union of what both families attain. For the
least maximum M of v / target^2: if v_j rose to v'_j when target_j falls, the old v would be better than the new optimum
wherever j decided it.

Staircase noise is planned in blocks that follow the weights, and each named number is compared with the plan that has
one name less (`inid.tables.questions.statistics.plan`).

It holds as far as a planner finds the least. Laplace noise on many tables is planned before least squares makes them
agree, and the statement is about that noise. What least squares leaves has no such guarantee: with x = 1 / scale, which
the promise bounds in sum, a variance is a sum of 1 / (sum of c x^2), which is not convex in x. Of 365 random questions
with Laplace noise, 29 had a table whose error a tolerance increased, by 17 % at most.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from inid.arguments import listed
from inid.mechanisms import MechanismName
from inid.planning.division import whole_of
from inid.promises import Budget, GaussianDP, PureDP

_WORSE = 1 + 1e-6  # beyond the rounding of what was calibrated

UNITS: dict[MechanismName, Budget] = {"gaussian": GaussianDP(1.0), "laplace": PureDP(1.0)}


def families(promise: Budget, mechanism: str = "auto") -> tuple[MechanismName, ...]:
    """The mechanisms to plan with: the one that was chosen, or those that keep a promise."""
    chosen: dict[str, tuple[MechanismName, ...]] = {"gaussian": ("gaussian",), "laplace": ("laplace",)}
    chosen["staircase"] = ("laplace",)  # its costs add up as those of Laplace noise
    return chosen.get(mechanism, ("laplace",) if isinstance(promise, PureDP) else ("gaussian", "laplace"))


class ErrorTargets(NamedTuple):
    """The target of each number of a question, and the tolerance that was stated (or t_0)."""

    limits: list[float]
    stated: list[float]

    @property
    def loose(self) -> list[int]:
        """The numbers whose tolerance is looser than their error under an equal split, and counts as that."""
        return [at for at, (limit, stated) in enumerate(zip(self.limits, self.stated, strict=True)) if limit < stated]


def equal_errors(
    alone: Callable[[MechanismName], Sequence[float]], promise: Budget, *, questions: int = 1
) -> list[float]:
    """t_0 of each number of a question: its error under the better of the two families' equal splits.

    It is the same number for either family, so that no choice of noise changes a target; 1 for what is public.
    """
    by_family = []
    for family in families(promise):
        errors = alone(family)
        share = float(whole_of(promise, family)) / (questions * len(errors))
        units = math.sqrt(share) if family == "gaussian" else share
        by_family.append([error / units if units > 0 else math.inf for error in errors])
    return [min(errors) or 1.0 for errors in zip(*by_family, strict=True)]


def targets_of(named: Sequence[float | None], equal: Sequence[float]) -> ErrorTargets:
    """The smaller of the stated tolerance and the error under an equal split."""
    stated = [target if limit is None else limit for limit, target in zip(named, equal, strict=True)]
    return ErrorTargets([min(limit, target) for limit, target in zip(stated, equal, strict=True)], stated)


def worse_numbers(
    labels: Sequence[str], errors: Sequence[float], equal: Sequence[float]
) -> list[tuple[str, float, float]]:
    """Every number that is less accurate than under an equal split: its name, its error and that of the split."""
    return [line for line in zip(labels, errors, equal, strict=True) if line[1] > _WORSE * line[2]]


def worse_sentence(worse: Sequence[tuple[str, float, float]], most: int | None = None) -> str:
    """The same as a sentence, of all numbers or the first few.

    >>> worse_sentence([("mean(age)", 3.0, 2.5)])
    'Less accurate than an equal split: mean(age) (3 instead of 2.5).'
    """
    words = [f"{label} ({error:.4g} instead of {alone:.4g})" for label, error, alone in worse]
    return f"Less accurate than an equal split: {listed(words, most or len(words))}."
