"""Several releases fixed in advance: their exact privacy curve, whatever kinds they mix.

This is *non-adaptive* composition: which plans there are, and how many, is decided before any answer is seen. A query
that depends on earlier answers is the business of a `Ledger`, whose rules stay valid then; composing curves and
stopping when a target is crossed would not be.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inid import curves, figures
from inid._version import RECORD_FORMAT
from inid.accounting.costs import Amounts, Currency, added, costs, leaves, loss_costs, promise_costs, read
from inid.arguments import Floats, choice, integer, real, shown
from inid.curves import Composed, Loss, PrivacyLoss, Subsampled
from inid.curves.description import flatten
from inid.errors import ArgumentError, GuaranteeError, RecordError, unread_format
from inid.numbers.decimals import decimal_down, decimal_fraction
from inid.planning import NoisePlan
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP, RenyiDP, budget_from_dict
from inid.sets import Neighbours

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    >>> laplace = inid.plan(s, inid.PureDP(epsilon=0.2), mechanism="laplace")
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
    flat = tuple(one for pair in pairs for one in pair.parts or (pair,))
    return Composition(loss, pairs[0].neighbours, flat if any(isinstance(one, NoisePlan) for one in flat) else ())


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
    priced, delta = charge_of(part)
    if delta:
        raise ArgumentError(
            f"{name} takes delta={float(delta):.3g} beside its noise, which no composition counts: charge a ledger."
        )
    if priced is not part:
        return _composition(name, priced)
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
    if isinstance(what, (NoisePlan, Composition, JointCharge)):
        return what, Fraction(0)
    charge = getattr(what, "charge", None)
    if isinstance(charge, NoisePlan):
        return charge, decimal_fraction(getattr(what, "delta", 0.0))
    return (charge if isinstance(charge, (Composition, JointCharge)) else what), Fraction(0)


def _plans_of_parts(what: object) -> "tuple[NoisePlan | Composition, ...] | None":
    """The plans of a charge of several parts, where each has one and nothing is taken beside them."""
    if not isinstance(what, JointCharge) or what.delta:
        return None
    plans = tuple(part for part in what.parts if isinstance(part, (NoisePlan, Composition)))
    return plans if len(plans) == len(what.parts) else None


# The record of a composition, its proof, and its steps.
#
# A composition is recorded as the pairs of distributions that bound it, from which anybody computes its cost again:
#
#     {"kind": "release", "ratios": [0.1, 0.2], "counts": [3, 1], "mu": 0.5}     Laplace ratios and a Gaussian part
#     {"kind": "poisson", "rate": "1/100", "steps": 1000, "release": {...}}      steps, each on a fresh Poisson sample
#     {"kind": "composed", "parts": [...]}                                        one after the other
#
# The rate is the rational of the decimal that the float prints as, mu and the ratios are floats that print as decimals.

_MOST_NAMED = 3


@dataclass(frozen=True)
class CompositionProof:
    """What was proved of a composition: the relation, the order, and its cost in each currency, as exact rationals."""

    promise: str
    neighbours: Neighbours
    steps: int
    order: Fraction | None
    costs: tuple[tuple[Currency, Fraction | None], ...]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary."""
        return {
            "promise": self.promise,
            "neighbours": self.neighbours,
            "steps": self.steps,
            "order": None if self.order is None else str(self.order),
            "costs": {currency: None if cost is None else str(cost) for currency, cost in self.costs},
            "arithmetic": "each cost is the sum of upper bounds on its releases and steps",
        }

    def __str__(self) -> str:
        lines = [f"Proof: {self.promise}, neighbours: {self.neighbours}."]
        return "\n".join([*lines, *_cost_lines(self.costs)])


def composition_to_dict(composition: Composition) -> dict[str, Any]:
    """A JSON-safe dictionary, from which `composition_from_dict` makes the same composition."""
    return {
        "inid_composition": RECORD_FORMAT,
        "neighbours": composition.neighbours,
        "loss": _loss_to_dict(composition.loss),
    }


def composition_from_dict(record: object) -> Composition:
    """The composition that `composition_to_dict` described."""
    if not (isinstance(record, Mapping) and set(record) == {"inid_composition", "neighbours", "loss"}):
        raise RecordError("a composition's record must hold exactly inid_composition, neighbours and loss.")
    if record["inid_composition"] != RECORD_FORMAT:
        raise unread_format("the composition's record", record["inid_composition"])
    try:
        relation = choice("neighbours", record["neighbours"], get_args(Neighbours))
        return Composition(_loss_from_dict(record["loss"]), relation)  # type: ignore[arg-type]
    except (ArgumentError, KeyError, TypeError, AttributeError) as error:
        raise RecordError(f"the composition's record does not parse: {error}") from None


def proof_of(composition: Composition, stored: object) -> CompositionProof:
    """Compute the costs of a recorded composition again, in the currencies and at the order of its recorded proof."""
    if not (isinstance(stored, Mapping) and isinstance(stored.get("costs"), Mapping)):
        raise RecordError("a composition's certificate must hold its costs.")
    known = [currency for currency in get_args(Currency) if currency in stored["costs"]]
    order = None if stored.get("order") is None else read(stored["order"])
    _check_whole(order)
    try:
        proof = proved(composition, tuple(known), order)
    except ArgumentError as error:
        raise RecordError(f"the composition's certificate does not parse: {error}") from None
    if len(known) != len(stored["costs"]) or not covers(stored["costs"], proof.costs):
        raise RecordError("the costs in the record are below those that its composition has: one of them was changed.")
    plain, fields = ("promise", "neighbours", "steps", "arithmetic"), proof.to_dict()
    if stored.keys() != fields.keys() or any(stored[name] != fields[name] for name in plain):
        raise RecordError("the certificate in the record is not the one of its composition: one of them was changed.")
    return proof


def covers(stored: Mapping[str, Any], computed: Iterable[tuple[Currency, Fraction | None]]) -> bool:
    """Whether every stored cost is at least the computed one; a later version may find a smaller bound."""
    pairs = [(None if stored[c] is None else read(stored[c]), cost) for c, cost in computed]
    return all(stored_cost is None or (cost is not None and stored_cost >= cost) for stored_cost, cost in pairs)


def proved(composition: Composition, currencies: tuple[Currency, ...], order: Fraction | None) -> CompositionProof:
    """The costs of a composition in some currencies, as a proof."""
    loss = composition.loss
    prices = loss_costs(loss, currencies, order)
    return CompositionProof(in_words(loss), composition.neighbours, steps_of(loss), order, tuple(prices.items()))


def steps_of(loss: PrivacyLoss) -> int:
    """How many releases and steps there are."""
    return sum(part.steps if isinstance(part, Subsampled) else 1 for part in leaves(loss))


def in_words(loss: PrivacyLoss) -> str:
    """What a composition is, for messages."""
    words = [_leaf_in_words(part) for part in leaves(loss)]
    return " and ".join(words) if len(words) <= _MOST_NAMED else f"{words[0]} and {len(words) - 1} more"


def _leaf_in_words(part: Loss | Subsampled) -> str:
    one = part.loss if isinstance(part, Subsampled) else part
    noise = [f"gaussian noise with mu {one.mu!r}"] if one.mu else []
    noise += [f"laplace noise with epsilon {one.total!r}"] if one.ratios.size else []
    words = " and ".join(noise) or "nothing"
    if not isinstance(part, Subsampled):
        return words
    rate = f" on Poisson samples of rate {part.rate!r}" if part.rate < 1 else ""
    return f"{part.steps} {'step' if part.steps == 1 else 'steps'} of {words}{rate}"


def _loss_to_dict(loss: PrivacyLoss) -> dict[str, Any]:
    parts = [_leaf_to_dict(part) for part in leaves(loss)]
    return parts[0] if len(parts) == 1 else {"kind": "composed", "parts": parts}


def _leaf_to_dict(part: Loss | Subsampled) -> dict[str, Any]:
    if isinstance(part, Subsampled):
        rate = str(decimal_fraction(part.rate))
        return {"kind": "poisson", "rate": rate, "steps": part.steps, "release": _leaf_to_dict(part.loss)}
    return {"kind": "release", "ratios": part.ratios.tolist(), "counts": part.counts.tolist(), "mu": part.mu}


def _require(record: Mapping[str, Any], *names: str) -> None:
    """Refuse a part of a record that holds more, or less, than its format has."""
    if record.keys() != set(names):
        raise RecordError(f"a part of the record must hold exactly {', '.join(names)}: it was changed.")


def _loss_from_dict(record: Mapping[str, Any]) -> PrivacyLoss:
    if record["kind"] == "composed":
        _require(record, "kind", "parts")
        return Composed(tuple(_leaf_from_dict(part) for part in record["parts"]))
    return _leaf_from_dict(record)


def _leaf_from_dict(record: Mapping[str, Any]) -> Loss | Subsampled:
    if choice("kind", record["kind"], ("release", "poisson")) == "release":
        return _release_from_dict(record)
    _require(record, "kind", "rate", "steps", "release")
    steps = integer("steps", record["steps"], least=1, cure="store compositions by a ledger")
    return Subsampled(_release_from_dict(record["release"]), float(read(record["rate"])), steps)


def _release_from_dict(record: Mapping[str, Any]) -> Loss:
    _require(record, "kind", "ratios", "counts", "mu")
    return Loss(record["ratios"], record["counts"], record["mu"]) if record["ratios"] else Loss(mu=record["mu"])


# The charge of a plan of several parts: one promise, one charge, and the exact decimals of the parts that keep it.
#
# A publication of several questions, or a release in several steps of fixed cost, is charged once, for all of it. Its
# record is of a kind of its own, with one entry per part: {"plan": {...}} where its noise is known, {"promise": {...}}
# where it will follow from earlier answers, and {"composition": {...}} for steps on samples; "count" says how often a
# part is repeated. That of a stream says in "releases" how many are to be leased.
#
# *What it costs.* In each currency the sum over its parts: in epsilon the sum of decimals (none with Gaussian noise),
# in mu^2 the sum of the squares of decimals, in Renyi divergences the sum of the parts'. Parts are fixed in advance,
# and their costs add up, whatever later parts do with earlier answers (docs/explanations/ledger-proofs.md).
#
# *That it keeps its promise* is proved when it is made, in rationals: the sum in some currency is at most what the
# promise allows in it. So a ledger whose total is that promise may take it as its only charge, by rule (d).

_MOST_PARTS = 10**6


@dataclass(frozen=True)
class JointCharge:
    """What a plan of several parts is charged: the promise of the whole, and the parts that keep it."""

    promise: Budget | None
    parts: tuple[NoisePlan | Composition | Budget, ...]
    neighbours: Neighbours
    delta: float = 0.0
    releases: int | None = None  # of a stream, which a ledger leases one by one

    def __post_init__(self) -> None:
        if not self.parts:
            raise ArgumentError("a charge needs at least one part: pass the plans that will be released.")
        choice("neighbours", self.neighbours, get_args(Neighbours))
        real("delta", self.delta, least=0, cure="pass the probability that is taken beside the noise")
        if self.releases is not None:
            integer("releases", self.releases, least=1, cure="pass how many releases the stream has")
        for part in self.parts:
            relation = _relation(part, self.neighbours)
            if relation != self.neighbours:
                raise ArgumentError(
                    f'all parts must be for neighbours="{self.neighbours}", got one for "{relation}": plan it anew.'
                )
        self._prove()

    def price(self, currencies: Iterable[Currency], order: Fraction | None = None) -> Amounts:
        """What it costs in each of the currencies; None where no amount bounds it.

        The sum over its parts, or what anything that keeps its promise costs if that is less: Laplace noise on several
        numbers is proved by the sum of epsilons, and the costs of its parts in other currencies add up to more.
        """
        sums = self._sums(currencies, order)
        if self.promise is None:
            return sums
        most = promise_costs(self.promise, sums, order)
        return {c: _least(cost, most[c]) if c != "delta" else cost for c, cost in sums.items()}

    def _sums(self, currencies: Iterable[Currency], order: Fraction | None) -> Amounts:
        """The sum of the costs of the parts."""
        counted = tuple(currencies)
        sums: Amounts = dict.fromkeys(counted, Fraction(0))
        for part, count in self.runs():
            one = _part_costs(part, counted, order)
            sums = added(sums, {c: None if cost is None else count * cost for c, cost in one.items()})
        return {**sums, "delta": decimal_fraction(self.delta)} if "delta" in sums else sums

    def runs(self) -> list[tuple[NoisePlan | Composition | Budget, int]]:
        """The parts, each with how often it is repeated."""
        return [(run[0], len(run)) for run in (list(members) for _, members in groupby(self.parts, key=id))]

    def proof(self, currencies: Iterable[Currency], order: Fraction | None) -> "JointProof":
        """The certificates of the parts, and the exact cost of the whole."""
        proofs = tuple((_part_proof(part), count) for part, count in self.runs())
        prices = tuple(self.price(currencies, order).items())
        return JointProof(self.name, self.neighbours, len(self.parts), order, prices, proofs)

    @property
    def name(self) -> str:
        """What it is, in words."""
        what = f"{len(self.parts)} parts" if self.releases is None else f"a stream of {self.releases} releases"
        return what + (f" under {self.promise}" if self.promise is not None else "")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, from which `from_dict` makes the same charge."""
        return {
            "inid_parts": RECORD_FORMAT,
            "promise": None if self.promise is None else self.promise.to_dict(),
            "neighbours": self.neighbours,
            "delta": str(decimal_fraction(self.delta)),
            "parts": [_part_to_dict(part) | ({"count": n} if n > 1 else {}) for part, n in self.runs()],
            **({} if self.releases is None else {"releases": self.releases}),
        }

    @classmethod
    def from_dict(cls, record: object) -> "JointCharge":
        """The charge that `to_dict` described; its guarantee is proved again."""
        keys = {"inid_parts", "promise", "neighbours", "delta", "parts"}
        if isinstance(record, Mapping) and record.get("inid_parts", RECORD_FORMAT) != RECORD_FORMAT:
            raise unread_format("the record of a charge of several parts", record["inid_parts"])
        of_stream = isinstance(record, Mapping) and "releases" in record
        keys |= {"releases"} if of_stream else set()
        if not (isinstance(record, Mapping) and set(record) == keys and isinstance(record["parts"], list)):
            raise RecordError(f"the record of a charge of several parts must hold exactly {', '.join(sorted(keys))}.")
        try:
            promise = None if record["promise"] is None else budget_from_dict(record["promise"])
            parts = tuple(part for entry in record["parts"] for part in _parts_from_dict(entry))
            given = record["releases"] if of_stream else None
            return cls(promise, parts, record["neighbours"], decimal_down(read(record["delta"])), given)
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # ArgumentError is a ValueError
            raise RecordError(f"the record of a charge of several parts does not parse: {error}") from None

    def _prove(self) -> None:
        """Refuse parts that do not keep the promise together."""
        if self.promise is None:
            return
        for currency, limit in _limits(self.promise, decimal_fraction(self.delta), self._is_laplace()):
            order = Fraction(self.promise.order) if isinstance(self.promise, RenyiDP) else None
            spent = self._sums((currency,), order)[currency]
            if spent is not None and spent <= limit:
                return
        raise GuaranteeError(
            f"the {len(self.parts)} parts do not keep {self.promise} together: divide it into smaller parts, all for "
            "Gaussian noise or all for Laplace noise, whose sum of mu^2, or of epsilon, is at most what it allows."
        )

    def _is_laplace(self) -> bool:
        return all(isinstance(part, NoisePlan) and part.mechanism == "laplace" for part in self.parts)


def _cost_lines(costs: Iterable[tuple[Currency, Fraction | None]]) -> list[str]:
    """Costs in words; a delta has a line only where it is taken beside the promise, as keys do."""
    words = {"delta": "probability taken beside the promise's noise"}
    return [
        f"  {currency} does not bound it"
        if cost is None
        else f"  {words.get(currency, currency)} at most {float(cost):.6g}"
        for currency, cost in costs
        if currency != "delta" or cost
    ]


@dataclass(frozen=True)
class JointProof:
    """What was proved of a charge of several parts."""

    promise: str
    neighbours: Neighbours
    count: int
    order: Fraction | None
    costs: tuple[tuple[Currency, Fraction | None], ...]
    parts: tuple[tuple[dict[str, Any], int], ...]

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary."""
        return {
            "promise": self.promise,
            "neighbours": self.neighbours,
            "count": self.count,
            "order": None if self.order is None else str(self.order),
            "costs": {currency: None if cost is None else str(cost) for currency, cost in self.costs},
            "parts": [proof | ({"repeated": count} if count > 1 else {}) for proof, count in self.parts],
            "arithmetic": "integers: each cost is the exact sum over the parts, or of their promise if that is less",
        }

    def __str__(self) -> str:
        lines = [f"Proof: {self.promise}, neighbours: {self.neighbours}."]
        lines += [f"  part {at}: {proof['promise']}" for at, (proof, _) in enumerate(self.parts, 1)]
        return "\n".join([*lines, *_cost_lines(self.costs)])


def joint_proof_of(charge: JointCharge, stored: object) -> JointProof:
    """Prove a recorded charge again, in the currencies and at the order of its recorded proof."""
    if not (isinstance(stored, Mapping) and isinstance(stored.get("costs"), Mapping)):
        raise RecordError("the certificate of a charge of several parts must hold its costs.")
    known = [currency for currency in get_args(Currency) if currency in stored["costs"]]
    order = None if stored.get("order") is None else read(stored["order"])
    _check_whole(order)
    try:
        proof = charge.proof(known, order)
    except ArgumentError as error:
        raise RecordError(f"the certificate of a charge of several parts does not parse: {error}") from None
    if len(known) != len(stored["costs"]) or not covers(stored["costs"], proof.costs):
        raise RecordError("the costs in the record are below those that its parts have: one of them was changed.")
    return proof


def _limits(promise: Budget, delta: Fraction, laplace: bool) -> list[tuple[Currency, Fraction]]:
    """What a promise allows all parts together in each currency; one of them has to hold.

    The Gaussian limit of (epsilon, delta) is that of the delta which is left beside what the parts take. Laplace noise
    on many numbers is at most as bad as on one with the sum of their epsilons, so under a promise in another currency
    Laplace parts may spend what it affords one number.
    """
    if isinstance(promise, ApproxDP):
        delta_left = decimal_fraction(promise.delta) - delta
        if delta_left < 0:
            return []
        limits: list[tuple[Currency, Fraction]] = [("epsilon", decimal_fraction(promise.epsilon))]
        rest = decimal_down(delta_left) if delta_left else 0.0
        return [*limits, ("mu_squared", ApproxDP(promise.epsilon, rest).mu_squared)] if rest else limits
    if delta:
        return []
    if isinstance(promise, PureDP):
        return [("epsilon", decimal_fraction(promise.epsilon))]
    limit: tuple[Currency, Fraction]
    if isinstance(promise, GaussianDP):
        limit = ("mu_squared", promise.mu_squared)
    elif isinstance(promise, ZCDP):
        limit = ("rho", decimal_fraction(promise.rho))
    else:
        limit = ("renyi", decimal_fraction(promise.divergence))  # type: ignore[attr-defined]
    return [limit, ("epsilon", Fraction(promise.laplace_epsilon))] if laplace else [limit]


def _check_whole(order: Fraction | None) -> None:
    """Refuse an order between whole ones: ledgers have none, and steps on a sample have no proved cost there."""
    if order is not None and order.denominator != 1:
        raise RecordError("charges are counted at whole Renyi orders only: the record was changed.")


def _least(first: Fraction | None, second: Fraction | None) -> Fraction | None:
    known = [amount for amount in (first, second) if amount is not None]
    return min(known, default=None)


def _relation(part: object, otherwise: Neighbours) -> Neighbours:
    """The relation of a part that keeps its own promise."""
    if isinstance(part, NoisePlan):
        _ = part.certificate  # raises when the plan breaks its own promise
        return part.sensitivity.neighbours
    if isinstance(part, Composition):
        return part.neighbours
    if isinstance(part, (PureDP, GaussianDP, ZCDP, RenyiDP)):
        return otherwise
    raise ArgumentError(
        f"a part must be a plan made by inid.plan(...), or PureDP, GaussianDP, ZCDP or RenyiDP for noise that follows "
        f"from earlier answers, got {shown(part)}: pass one of these."
    )


def _part_costs(
    part: NoisePlan | Composition | Budget, currencies: tuple[Currency, ...], order: Fraction | None
) -> Amounts:
    if isinstance(part, NoisePlan):
        return costs(part, currencies, order)
    if isinstance(part, Composition):
        return loss_costs(part.loss, currencies, order)
    return promise_costs(part, currencies, order)


def _part_proof(part: NoisePlan | Composition | Budget) -> dict[str, Any]:
    if isinstance(part, NoisePlan):
        return part.certificate.to_dict()
    return {"promise": in_words(part.loss) if isinstance(part, Composition) else str(part)}


def _part_to_dict(part: NoisePlan | Composition | Budget) -> dict[str, Any]:
    if isinstance(part, NoisePlan):
        return {"plan": part.to_dict()}
    return {"composition": composition_to_dict(part)} if isinstance(part, Composition) else {"promise": part.to_dict()}


def _parts_from_dict(entry: Mapping[str, Any]) -> list[NoisePlan | Composition | Budget]:
    ((kind, record),) = [(key, value) for key, value in entry.items() if key != "count"]
    stated = entry.get("count", 1)
    if type(stated) is not int:  # 2.0 and True are no counts, although they are equal to some
        raise RecordError("a part's count must be a whole number: store charges by a ledger.")
    count = integer("count", stated, least=1, cure="store charges by a ledger")
    if count > _MOST_PARTS:
        raise RecordError(f"a part is repeated {count} times, more than any charge: the record was changed.")
    choice("kind", kind, ("plan", "composition", "promise"))
    part: NoisePlan | Composition | Budget
    if kind == "plan":
        part = NoisePlan.from_dict(record)
    else:
        part = composition_from_dict(record) if kind == "composition" else budget_from_dict(record)
    return [part] * count


_SMALLEST = 1e-10
_POINTS = 60


def plot_composition(
    composition: Composition, kind: Literal["curve", "trade_off"] = "curve", ax: "Axes | None" = None
) -> "Axes":
    """Delta over epsilon ("curve"), or the errors of every test for one person ("trade_off")."""
    choice("kind", kind, ("curve", "trade_off"))
    axes = figures.new_axes(ax, width=4.6 if kind == "trade_off" else 6.0, height=3.8)
    epsilon = np.linspace(0.0, max(composition.epsilon(_SMALLEST), 1e-3), _POINTS)
    delta = np.asarray(composition.delta(epsilon), dtype=float)
    if kind == "curve":
        figures.curve(axes, epsilon, np.maximum(delta, 1e-300), xlabel="epsilon", ylabel="delta", yscale="log")
        axes.set_ylim(_SMALLEST, 1.5)
        return axes
    level = np.linspace(0.0, 1.0, 401)
    figures.curve(
        axes, level, trade_off(level, epsilon, delta),
        xlabel="false alarms of a test for one person", ylabel="least share of misses",
    )  # fmt: skip
    axes.plot([0, 1], [1, 0], color="#999999", linestyle="--", linewidth=1, label="nothing can be learned")
    axes.set_aspect("equal")
    axes.legend()
    return axes


def trade_off(level: Floats, epsilon: Floats, delta: Floats) -> Floats:
    """A lower bound on the misses of any test with given false alarms, from points of a privacy curve.

    Statement: (epsilon, delta)-DP means that misses are at least 1 - delta - e^epsilon a and e^-epsilon (1 - delta - a)
    for a share a of false alarms; several points hold together, so the largest of these bounds holds (Dong, Roth and Su
    2022, Proposition 6). With certified deltas the bound is certified up to the rounding of this formula.
    """
    a, power = level[:, None], np.exp(epsilon)[None, :]
    bounds = np.maximum(1 - delta - power * a, (1 - delta - a) / power)
    least: Floats = np.maximum(bounds.max(axis=1), 0.0)
    return least
