"""The record of a composition, its proof, and its steps.

A composition is recorded as the pairs of distributions that bound it, from which anybody computes its cost again:

    {"kind": "release", "ratios": [0.1, 0.2], "counts": [3, 1], "mu": 0.5}     Laplace ratios and a Gaussian part
    {"kind": "poisson", "rate": "1/100", "steps": 1000, "release": {...}}      steps, each on a fresh Poisson sample
    {"kind": "composed", "parts": [...]}                                        one after the other

The rate is the rational of the decimal that the float prints as, mu and the ratios are floats that print as decimals.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, get_args

from inid.accounting.amounts import Currency, read
from inid.accounting.composition import Composition
from inid.accounting.costs import leaves, loss_costs, sampled
from inid.arguments import choice, integer, shown
from inid.curves import Composed, Loss, PrivacyLoss, Subsampled
from inid.errors import ArgumentError, RecordError
from inid.numbers.decimals import decimal_fraction
from inid.sets import Neighbours

__all__ = [
    "CompositionProof",
    "composition_from_dict",
    "composition_to_dict",
    "covers",
    "in_words",
    "proof_of",
    "proved",
    "steps_of",
]

_VERSION = 1
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
        lines += [
            f"  {currency} at most {float(cost):.6g}" if cost is not None else f"  {currency} does not bound it"
            for currency, cost in self.costs
        ]
        return "\n".join(lines)


def composition_to_dict(composition: Composition) -> dict[str, Any]:
    """A JSON-safe dictionary, from which `composition_from_dict` makes the same composition.

    >>> import inid
    >>> p = inid.plan(inid.Sensitivity.box([1.0]), inid.GaussianDP(mu=1.0), mechanism="gaussian")
    >>> composition_to_dict(inid.subsample(p, rate=0.01, steps=5))["loss"]["rate"]
    '1/100'
    """
    return {
        "inid_composition": _VERSION,
        "neighbours": composition.neighbours,
        "loss": _loss_to_dict(composition.loss),
    }


def composition_from_dict(record: object) -> Composition:
    """The composition that `composition_to_dict` described.

    Raises:
        RecordError: The record does not parse.
    """
    if not (isinstance(record, Mapping) and set(record) == {"inid_composition", "neighbours", "loss"}):
        raise RecordError("a composition's record must hold exactly inid_composition, neighbours and loss.")
    if record["inid_composition"] != _VERSION:
        raise RecordError(
            f"the composition's record has version {shown(record['inid_composition'])}, this library reads {_VERSION}."
        )
    try:
        relation = choice("neighbours", record["neighbours"], get_args(Neighbours))
        return Composition(_loss_from_dict(record["loss"]), relation)  # type: ignore[arg-type]
    except (ArgumentError, KeyError, TypeError) as error:
        raise RecordError(f"the composition's record does not parse: {error}") from None


def proof_of(composition: Composition, stored: object) -> CompositionProof:
    """Compute the costs of a recorded composition again, in the currencies and at the order of its recorded proof.

    Raises:
        RecordError: The recorded proof does not parse, or states a cost below the one that is computed.
    """
    if not (isinstance(stored, Mapping) and isinstance(stored.get("costs"), Mapping)):
        raise RecordError("a composition's certificate must hold its costs.")
    known = [currency for currency in get_args(Currency) if currency in stored["costs"]]
    order = None if stored.get("order") is None else read(stored["order"])
    if order is not None and order.denominator != 1 and sampled(composition.loss):
        raise RecordError("steps on a sample are charged at whole Renyi orders only: the record was changed.")
    try:
        proof = proved(composition, tuple(known), order)
    except ArgumentError as error:
        raise RecordError(f"the composition's certificate does not parse: {error}") from None
    if len(known) != len(stored["costs"]) or not covers(stored["costs"], proof.costs):
        raise RecordError("the costs in the record are below those that its composition has: one of them was changed.")
    plain = ("promise", "neighbours", "steps")
    if any(stored.get(name) != proof.to_dict()[name] for name in plain):
        raise RecordError("the certificate in the record is not the one of its composition: one of them was changed.")
    return proof


def covers(stored: Mapping[str, Any], computed: Iterable[tuple[Currency, Fraction | None]]) -> bool:
    """Whether every stored cost is at least the computed one; a later version may find a smaller bound."""
    pairs = [(None if stored[c] is None else read(stored[c]), cost) for c, cost in computed]
    return all(said is None or (cost is not None and said >= cost) for said, cost in pairs)


def proved(composition: Composition, currencies: tuple[Currency, ...], order: Fraction | None) -> CompositionProof:
    """The costs of a composition in some currencies, as a proof."""
    loss = composition.loss
    found = loss_costs(loss, currencies, order)
    return CompositionProof(in_words(loss), composition.neighbours, steps_of(loss), order, tuple(found.items()))


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


def _loss_from_dict(record: Mapping[str, Any]) -> PrivacyLoss:
    if record["kind"] == "composed":
        return Composed(tuple(_leaf_from_dict(part) for part in record["parts"]))
    return _leaf_from_dict(record)


def _leaf_from_dict(record: Mapping[str, Any]) -> Loss | Subsampled:
    if choice("kind", record["kind"], ("release", "poisson")) == "release":
        return _release_from_dict(record)
    steps = integer("steps", record["steps"], least=1, cure="store compositions by a ledger")
    return Subsampled(_release_from_dict(record["release"]), float(read(record["rate"])), steps)


def _release_from_dict(record: Mapping[str, Any]) -> Loss:
    return Loss(record["ratios"], record["counts"], record["mu"]) if record["ratios"] else Loss(mu=record["mu"])
