"""The charge of a plan of several parts: one promise, one charge, and the exact decimals of the parts that keep it.

A publication of several questions, or a release in several steps of fixed cost, is charged once, for all of it. Its
record is of a kind of its own:

    {"inid_parts": 1, "promise": {...}, "neighbours": "add_remove", "delta": "0", "parts": [...]}

with one entry per part: {"plan": {...}} where its noise is known, {"promise": {...}} where it will follow from earlier
answers, and {"composition": {...}} for steps on samples; "count" says how often a part is repeated. The charge of a
stream, whose one part is released in rows, says in "rows" how many there are to be leased; its version is 2.

*What it costs.* In each currency the sum over its parts: in epsilon the sum of decimals (none with Gaussian noise), in
mu^2 the sum of the squares of decimals, in Renyi divergences the sum of the parts'. Parts are fixed in advance, and
their costs add up, whatever later parts do with earlier answers (docs/explanations/ledger-proofs.md).

*That it keeps its promise* is proved when it is made, in rationals: the sum in some currency is at most what the
promise allows in it. So a ledger whose total is that promise may take it as its only charge, by rule (d).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from typing import Any, get_args

from inid.accounting.amounts import Amounts, Currency, added, read
from inid.accounting.composition import Composition
from inid.accounting.composition_records import composition_from_dict, composition_to_dict, covers, in_words
from inid.accounting.costs import costs, loss_costs, promise_costs, sampled
from inid.arguments import choice, integer, real, shown
from inid.errors import ArgumentError, GuaranteeError, RecordError
from inid.mechanisms.gaussian import mu_of
from inid.numbers.decimals import decimal_down, decimal_fraction
from inid.planning import NoisePlan
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP, RenyiDP, budget_from_dict
from inid.sets import Neighbours

__all__ = ["JointCharge", "JointProof", "joint_proof_of"]

_VERSION = 1
_VERSION_OF_ROWS = 2
_MOST_PARTS = 10**6


@dataclass(frozen=True)
class JointCharge:
    """What a plan of several parts is charged: the promise of the whole, and the parts that keep it.

    A plan of several parts has a property `charge` that returns one. `ledger.charge(plan)` then charges all of it, at
    once, and nothing else of the plan.

    Attributes:
        promise: What all parts together keep; None for a composition, which states none.
        parts: Each part, fixed in advance: the certified plan of its noise; or, where its noise will follow from
            answers of earlier parts, the promise that it will keep; or steps on samples.
        neighbours: The relation for which all of it holds.
        delta: The probability that the parts take beside their noise, as part of the promise.
        rows: How many rows of a stream it pays for, which are leased one by one (`Ledger.lease_steps`); None for what
            is released at once.

    Raises:
        ArgumentError: There is no part, or one is no plan and no promise, or relations differ.
        GuaranteeError: A part breaks its own promise, or the parts together do not keep the whole one.

    >>> import inid
    >>> from inid.accounting import JointCharge
    >>> s = inid.Sensitivity.box([1.0])
    >>> thirds = [inid.plan(s, inid.PureDP(epsilon=0.1)) for _ in range(3)]
    >>> charge = JointCharge(inid.PureDP(epsilon=0.3), tuple(thirds), "add_remove")
    >>> ledger = inid.Ledger(total=inid.PureDP(epsilon=0.3))
    >>> ledger.charge(charge, label="three questions").id
    1
    >>> print(ledger.remaining())
    epsilon 0
    """

    promise: Budget | None
    parts: tuple[NoisePlan | Composition | Budget, ...]
    neighbours: Neighbours
    delta: float = 0.0
    rows: int | None = None

    def __post_init__(self) -> None:
        if not self.parts:
            raise ArgumentError("a charge needs at least one part: pass the plans that will be released.")
        choice("neighbours", self.neighbours, get_args(Neighbours))
        real("delta", self.delta, least=0, cure="pass the probability that is taken beside the noise")
        if self.rows is not None:
            integer("rows", self.rows, least=1, cure="pass how many rows the stream has")
        for part in self.parts:
            relation = _relation(part, self.neighbours)
            if relation != self.neighbours:
                raise ArgumentError(
                    f'all parts must be for neighbours="{self.neighbours}", got one for "{relation}": plan it anew.'
                )
        self._prove()

    def price(self, currencies: Iterable[Currency], order: Fraction | None = None) -> Amounts:
        """What it costs in each of the currencies: the sum over its parts; None where no amount bounds one of them."""
        wanted = tuple(currencies)
        whole: Amounts = dict.fromkeys(wanted, Fraction(0))
        for part, count in self.runs():
            one = _part_costs(part, wanted, order)
            whole = added(whole, {c: None if cost is None else count * cost for c, cost in one.items()})
        return {**whole, "delta": decimal_fraction(self.delta)} if "delta" in whole else whole

    @property
    def has_sampled_steps(self) -> bool:
        """Whether some part is steps on samples, whose Renyi divergence has a proved bound at whole orders only."""
        return any(isinstance(part, Composition) and sampled(part.loss) for part in self.parts)

    def runs(self) -> list[tuple[NoisePlan | Composition | Budget, int]]:
        """The parts, each with how often it is repeated."""
        return [(run[0], len(run)) for run in (list(found) for _, found in groupby(self.parts, key=id))]

    def proof(self, currencies: Iterable[Currency], order: Fraction | None) -> "JointProof":
        """The certificates of the parts, and the exact cost of the whole."""
        proofs = tuple((_part_proof(part), count) for part, count in self.runs())
        found = tuple(self.price(currencies, order).items())
        return JointProof(self.name, self.neighbours, len(self.parts), order, found, proofs)

    @property
    def name(self) -> str:
        """What it is, in words."""
        what = f"{len(self.parts)} parts" if self.rows is None else f"a stream of {self.rows} rows"
        return what + (f" under {self.promise}" if self.promise is not None else "")

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, from which `from_dict` makes the same charge."""
        return {
            "inid_parts": _VERSION if self.rows is None else _VERSION_OF_ROWS,
            "promise": None if self.promise is None else self.promise.to_dict(),
            "neighbours": self.neighbours,
            "delta": str(decimal_fraction(self.delta)),
            "parts": [_part_to_dict(part) | ({"count": n} if n > 1 else {}) for part, n in self.runs()],
            **({} if self.rows is None else {"rows": self.rows}),
        }

    @classmethod
    def from_dict(cls, record: object) -> "JointCharge":
        """The charge that `to_dict` described; its guarantee is proved again.

        Raises:
            RecordError: The record does not parse.
            GuaranteeError: Its parts do not keep its promise.
        """
        keys = {"inid_parts", "promise", "neighbours", "delta", "parts"}
        in_rows = isinstance(record, Mapping) and record.get("inid_parts") == _VERSION_OF_ROWS
        keys |= {"rows"} if in_rows else set()
        if not (isinstance(record, Mapping) and set(record) == keys and isinstance(record["parts"], list)):
            raise RecordError(f"the record of a charge of several parts must hold exactly {', '.join(sorted(keys))}.")
        if record["inid_parts"] not in (_VERSION, _VERSION_OF_ROWS):
            raise RecordError(
                f"the record of parts has version {shown(record['inid_parts'])}, this library reads {_VERSION} and "
                f"{_VERSION_OF_ROWS}."
            )
        try:
            promise = None if record["promise"] is None else budget_from_dict(record["promise"])
            parts = tuple(part for entry in record["parts"] for part in _parts_from_dict(entry))
            rows = integer("rows", record["rows"], least=1, cure="store charges by a ledger") if in_rows else None
            return cls(promise, parts, record["neighbours"], decimal_down(read(record["delta"])), rows)
        except (ValueError, KeyError, TypeError, AttributeError) as error:  # ArgumentError is a ValueError
            raise RecordError(f"the record of a charge of several parts does not parse: {error}") from None

    def _prove(self) -> None:
        """Refuse parts that do not keep the promise together."""
        if self.promise is None:
            return
        for currency, limit in _limits(self.promise, decimal_fraction(self.delta), self._is_laplace()):
            order = Fraction(self.promise.order) if isinstance(self.promise, RenyiDP) else None
            spent = self.price((currency,), order)[currency]
            if spent is not None and spent <= limit:
                return
        raise GuaranteeError(
            f"the {len(self.parts)} parts do not keep {self.promise} together: divide it into smaller parts, all for "
            "Gaussian noise or all for Laplace noise, whose sum of mu^2, or of epsilon, is at most what it allows."
        )

    def _is_laplace(self) -> bool:
        return all(isinstance(part, NoisePlan) and part.mechanism == "laplace" for part in self.parts)


@dataclass(frozen=True)
class JointProof:
    """What was proved of a charge of several parts.

    Attributes:
        promise: The charge in words, with its promise.
        neighbours: The relation.
        count: How many parts there are.
        order: The Renyi order of the ledger, if it has one.
        costs: The exact cost of the whole, currency by currency.
        parts: The record of each part's own proof, with how often the part is repeated.
    """

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
            "arithmetic": "integers: each cost is the exact sum of what the parts promise or spend",
        }

    def __str__(self) -> str:
        lines = [f"Proof: {self.promise}, neighbours: {self.neighbours}."]
        lines += [f"  part {at}: {proof['promise']}" for at, (proof, _) in enumerate(self.parts, 1)]
        lines += [
            f"  {currency} at most {float(cost):.6g}" if cost is not None else f"  {currency} does not bound it"
            for currency, cost in self.costs
        ]
        return "\n".join(lines)


def joint_proof_of(charge: JointCharge, stored: object) -> JointProof:
    """Prove a recorded charge again, in the currencies and at the order of its recorded proof.

    Raises:
        RecordError: The recorded proof does not parse, or is not the one of the charge.
    """
    if not (isinstance(stored, Mapping) and isinstance(stored.get("costs"), Mapping)):
        raise RecordError("the certificate of a charge of several parts must hold its costs.")
    known = [currency for currency in get_args(Currency) if currency in stored["costs"]]
    order = None if stored.get("order") is None else read(stored["order"])
    if order is not None and order.denominator != 1 and charge.has_sampled_steps:
        raise RecordError("steps on a sample are charged at whole Renyi orders only: the record was changed.")
    try:
        proof = charge.proof(known, order)
    except ArgumentError as error:
        raise RecordError(f"the certificate of a charge of several parts does not parse: {error}") from None
    if len(known) != len(stored["costs"]) or not covers(stored["costs"], proof.costs):
        raise RecordError("the costs in the record are below those that its parts have: one of them was changed.")
    return proof


def _limits(promise: Budget, taken: Fraction, laplace: bool) -> list[tuple[Currency, Fraction]]:
    """What a promise allows all parts together in each currency; one of them has to hold.

    The Gaussian limit of (epsilon, delta) is that of the delta which is left beside what the parts take. Laplace noise
    on many numbers is at most as bad as on one with the sum of their epsilons, so under a promise in another currency
    Laplace parts may spend what it affords one number.
    """
    if isinstance(promise, ApproxDP):
        left = decimal_fraction(promise.delta) - taken
        if left < 0:
            return []
        limits: list[tuple[Currency, Fraction]] = [("epsilon", decimal_fraction(promise.epsilon))]
        rest = decimal_down(left) if left else 0.0
        return [*limits, ("mu_squared", Fraction(mu_of(promise.epsilon, rest)) ** 2)] if rest else limits
    if taken:
        return []
    if isinstance(promise, PureDP):
        return [("epsilon", decimal_fraction(promise.epsilon))]
    own: tuple[Currency, Fraction]
    if isinstance(promise, GaussianDP):
        own = ("mu_squared", decimal_fraction(promise.mu) ** 2)
    elif isinstance(promise, ZCDP):
        own = ("rho", decimal_fraction(promise.rho))
    else:
        own = ("renyi", decimal_fraction(promise.divergence))  # type: ignore[attr-defined]
    return [own, ("epsilon", Fraction(promise.laplace_epsilon))] if laplace else [own]


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
    part: NoisePlan | Composition | Budget, wanted: tuple[Currency, ...], order: Fraction | None
) -> Amounts:
    if isinstance(part, NoisePlan):
        return costs(part, wanted, order)
    return loss_costs(part.loss, wanted, order) if isinstance(part, Composition) else promise_costs(part, wanted, order)


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
    count = integer("count", entry.get("count", 1), least=1, cure="store charges by a ledger")
    if count > _MOST_PARTS:
        raise RecordError(f"a part is repeated {count} times, more than any charge: the record was changed.")
    choice("kind", kind, ("plan", "composition", "promise"))
    part: NoisePlan | Composition | Budget
    if kind == "plan":
        part = NoisePlan.from_dict(record)
    else:
        part = composition_from_dict(record) if kind == "composition" else budget_from_dict(record)
    return [part] * count
