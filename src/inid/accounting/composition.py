"""Several releases fixed in advance: their exact privacy curve, whatever kinds they mix.

This is *non-adaptive* composition: which plans there are, and how many, is decided before any answer is seen. A query
that depends on earlier answers is the business of a `Ledger`, whose rules stay valid then; composing curves and
stopping when a target is crossed would not be.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inid import curves
from inid.arguments import shown
from inid.curves.description import flatten
from inid.errors import ArgumentError
from inid.numbers.decimals import decimal_fraction
from inid.planning import NoisePlan
from inid.promises import ApproxDP
from inid.sets import Neighbours

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from inid.accounting.joint_charges import JointCharge

__all__ = ["Composition", "PlanOfTable", "charge_of", "compose", "subsample"]


class PlanOfTable(Protocol):
    """A plan of a table's query, or of several: it says itself what it is charged.

    Where that is a plan of noise, a `delta` beside it is taken from the reserve, as for keys that nobody listed.
    """

    @property
    def charge(self) -> "NoisePlan | Composition | JointCharge":
        """All that is charged for it: one certified plan of noise, or several parts under one promise."""
        ...


@dataclass(frozen=True, eq=False)
class Composition:
    """What several releases reveal together: a privacy curve with certified bounds.

    Attributes:
        loss: The dominating pair of all of them (`inid.curves`).
        neighbours: The relation for which it holds.
        parts: The plans that were composed, each charged by what it promises; empty where it was made in other ways.
    """

    loss: curves.PrivacyLoss
    neighbours: Neighbours
    parts: "tuple[NoisePlan | Composition, ...]" = ()

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: ArrayLike) -> float | NDArray[np.float64]: ...

    def delta(self, epsilon: ArrayLike) -> float | NDArray[np.float64]:
        """The least delta that is certified at an epsilon, an upper bound; an array of epsilons gives an array."""
        return curves.certified_delta(self.loss, epsilon)

    @overload
    def epsilon(self, delta: float) -> float: ...
    @overload
    def epsilon(self, delta: ArrayLike) -> float | NDArray[np.float64]: ...

    def epsilon(self, delta: ArrayLike) -> float | NDArray[np.float64]:
        """The least epsilon that is certified at a delta, an upper bound; an array of deltas gives an array."""
        return curves.certified_epsilon(self.loss, _below_one(delta))

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) around delta(epsilon); the upper one is the guarantee, and `delta` computes it alone."""
        return curves.delta_bounds(self.loss, epsilon)

    def epsilon_bounds(self, delta: float) -> tuple[float, float]:
        """(lower, upper) around epsilon(delta); the upper one is the guarantee, and `epsilon` computes it alone."""
        return curves.epsilon_bounds(self.loss, ApproxDP(0.0, delta).delta)

    def __repr__(self) -> str:
        flat = flatten(self.loss)
        steps = sum(step.steps for step in flat.steps)
        parts = [
            f"{int(flat.counts.sum())} Laplace ratios" if flat.ratios.size else "",
            f"Gaussian mu {flat.mu_bounds[1]:.6g}" if flat.variance else "",
            f"{steps} subsampled steps" if steps else "",
        ]
        return f"<Composition: {', '.join(filter(None, parts)) or 'nothing'}, neighbours: {self.neighbours}>"

    def plot(self, kind: Literal["curve", "trade_off"] = "curve", ax: "Axes | None" = None) -> "Axes":
        """Draw delta over epsilon, or the trade-off function: the least misses of any test, by its false alarms.

        Args:
            kind: "curve" or "trade_off".
            ax: Axes of matplotlib to draw on; those of a new figure by default.

        Raises:
            ArgumentError: An argument is malformed.
            MissingExtraError: matplotlib is not installed.

        >>> import inid
        >>> p = inid.plan(inid.Sensitivity.box([1.0, 2.0]), inid.GaussianDP(mu=1.0))
        >>> inid.compose(p, p).plot().get_ylabel()
        'delta'
        """
        from inid.accounting.plots import plot_composition

        return plot_composition(self, kind, ax)

    def renyi(self, order: float) -> float:
        """An upper bound on the Renyi divergence of an order above 1."""
        return curves.renyi(self.loss, order)


def compose(*parts: NoisePlan | Composition | PlanOfTable) -> Composition:
    """The privacy of several plans, all fixed in advance, released on the same data.

    Dominating pairs multiply (Zhu, Dong and Wang 2022), so Gaussian, Laplace and subsampled parts go together, and the
    result is as tight as the parts' own curves.

    Args:
        parts: Plans (of tables too), or compositions made before; all for one neighbouring relation.

    Raises:
        ArgumentError: Nothing to compose, something else than a plan, or relations that differ.

    >>> import inid
    >>> s = inid.Sensitivity.box([1.0, 2.0])
    >>> laplace = inid.plan(s, inid.PureDP(epsilon=0.2))
    >>> gaussian = inid.plan(s, inid.GaussianDP(mu=0.25), mechanism="gaussian")
    >>> round(inid.compose(laplace, laplace, gaussian).epsilon(delta=1e-6), 2)
    1.31
    """
    if not parts:
        raise ArgumentError("compose needs at least one plan: pass the plans that will be released.")
    if len(parts) == 1 and isinstance(parts[0], (list, tuple)):
        raise ArgumentError("compose takes the plans one by one: unpack the list, compose(*plans).")
    pairs = [_composition(f"parts[{at}]", part) for at, part in enumerate(parts)]
    relations = {pair.neighbours for pair in pairs}
    if len(relations) > 1:
        raise ArgumentError(
            f"the parts must share one neighbouring relation, got {' and '.join(sorted(relations))}: re-plan some."
        )
    loss = pairs[0].loss if len(pairs) == 1 else curves.Composed(tuple(pair.loss for pair in pairs))
    found = tuple(one for pair in pairs for one in pair.parts or (pair,))
    return Composition(loss, pairs[0].neighbours, found if any(isinstance(one, NoisePlan) for one in found) else ())


def subsample(plan: NoisePlan, *, rate: float, steps: int = 1) -> Composition:
    """The privacy of a plan released `steps` times, each time on a fresh Poisson sample of the people.

    Each person takes part in each step with probability `rate`, independently, and nobody learns in which. The pairs
    are ((1-q)Q + qP, Q) and (P, (1-q)P + qQ) with (P, Q) the plan's own pair (Zhu, Dong and Wang 2022), for add_remove
    and for zero_out neighbours alike (`inid.curves.Subsampled` says why): far tighter than amplifying an epsilon.

    Args:
        plan: What is released in one step; its sensitivity must be for neighbours="add_remove" or "zero_out".
        rate: The sampling probability.
        steps: How many steps there are.

    Raises:
        ArgumentError: An argument is malformed, or the plan is for neighbours="replace".

    >>> import inid
    >>> p = inid.plan(inid.Sensitivity.ball(dimension=10, l2=1.0), inid.GaussianDP(mu=1.0), mechanism="gaussian")
    >>> round(inid.subsample(p, rate=0.01, steps=1000).epsilon(delta=1e-5), 2)
    1.83
    """
    pair = _composition("plan", plan)
    if pair.neighbours == "replace":
        raise ArgumentError(
            'Poisson subsampling is accounted for neighbours="add_remove" or "zero_out" only: '
            "state the sensitivity for one of them."
        )
    if not isinstance(pair.loss, curves.Loss):
        raise ArgumentError("plan must be a single plan: subsample each part and compose the results.")
    return Composition(curves.Subsampled(pair.loss, rate, steps), pair.neighbours)


def _below_one(delta: ArrayLike) -> ArrayLike:
    """The deltas as read: 1 promises nothing, and is refused as in every promise."""
    if np.ndim(delta) == 0:
        return ApproxDP(0.0, delta).delta  # type: ignore[arg-type]
    for one in np.asarray(delta).reshape(-1).tolist():
        ApproxDP(0.0, one)
    return delta


def _composition(name: str, part: object) -> Composition:
    if isinstance(part, Composition):
        return part
    if isinstance(part, NoisePlan):
        _ = part.certificate  # a plan that breaks its promise has no place in an account
        return Composition(part.privacy_loss(), part.sensitivity.neighbours, (part,))
    found, taken = charge_of(part)
    if taken:
        raise ArgumentError(
            f"{name} takes delta={float(taken):.3g} beside its noise, which no composition counts: charge a ledger."
        )
    if found is not part:
        return _composition(name, found)
    parts = _plans_of_parts(part)
    if parts is not None:
        return compose(*parts)
    raise ArgumentError(
        f"{name} must be a NoisePlan or a Composition, got {shown(part)}: make one with inid.plan(...)."
    )


def charge_of(what: object) -> tuple[object, Fraction]:
    """What a plan of a table's query says that it is charged, and the probability that it takes beside it.

    Anything else is returned as it is: what an object happens to call its noise is not all of what it releases.
    """
    from inid.accounting.joint_charges import JointCharge

    if isinstance(what, (NoisePlan, Composition, JointCharge)):
        return what, Fraction(0)
    charge = getattr(what, "charge", None)
    if isinstance(charge, NoisePlan):
        return charge, decimal_fraction(getattr(what, "delta", 0.0))
    return (charge if isinstance(charge, (Composition, JointCharge)) else what), Fraction(0)


def _plans_of_parts(what: object) -> "tuple[NoisePlan | Composition, ...] | None":
    """The plans of a charge of several parts, where each has one and nothing is taken beside them."""
    from inid.accounting.joint_charges import JointCharge

    if not isinstance(what, JointCharge) or what.delta:
        return None
    plans = tuple(part for part in what.parts if isinstance(part, (NoisePlan, Composition)))
    return plans if len(plans) == len(what.parts) else None
