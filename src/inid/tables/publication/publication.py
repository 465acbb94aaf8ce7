"""Several queries under one promise: planned together, charged once, released together.

*How the promise is divided* (`inid.planning.division`). Each query is drafted at one unit (mu = 1 with Gaussian noise,
epsilon = 1 with Laplace noise); its error there, in units of what is wanted, says which part of the promise it gets:
half evenly, half by the roots of the errors. Both families of noise are drafted, and the one with the smaller error of
the whole is taken.

*What is wanted* (`inid.tables.wanted`). What nobody names is wanted as an equal split gives it, and a tolerance that is
looser counts as that, so that naming a number never makes its noise worse.

*What it costs.* The parts are fixed in advance, and their costs add up: mu^2 with Gaussian noise, epsilon with Laplace
noise. The charge is one record of the promise and of its parts, whose exact sum is proved to be within it.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from inid.accounting.parts import read_part
from inid.arguments import choice, listed, real, shown
from inid.errors import ArgumentError, BudgetError, RangeError, Words
from inid.mechanisms import MechanismChoice, MechanismName
from inid.numbers.decimals import decimal_down, decimal_fraction, decimal_up
from inid.planning.division import Division, divide
from inid.promises import ApproxDP, Budget
from inid.tables.plan import PlannedNumber
from inid.tables.publication.plan import PublicationPlan
from inid.tables.publication.result import PublicationResult
from inid.tables.query import Query, check_promise, release_together
from inid.tables.table import Table
from inid.tables.wanted import UNITS, families, wanted_of

if TYPE_CHECKING:
    from inid.accounting import Ledger
    from inid.planning.accuracy import CheapestPlan

__all__ = [
    "Publication",
    "Share",
    "of_query",
    "queries_of",
    "read_importance",
    "read_shares",
    "served_families",
    "taken_by",
]


Share = str | Fraction | Decimal | float


class Publication:
    """Several queries of one table, which may differ in filters and computed columns, under one promise.

    Args:
        queries: Each query by its name.

    Raises:
        ArgumentError: There is none, one is no query, or they differ in the table, the unit, the relation or the limit
            on rows.

    >>> import inid, pandas
    >>> from inid import tables
    >>> frame = pandas.DataFrame({"age": [31.0, 44.0, 58.0] * 50, "sex": ["F", "M", "F"] * 50})
    >>> t = tables.Table(frame, bounds={"age": (0, 100)}, domains={"sex": ["F", "M"]})
    >>> pub = Publication(people=t.query(marginals=1), pay=t.where("age > 40").query(mean=["age"]))
    >>> plan = pub.plan(inid.ApproxDP(1.0, 1e-6), importance={"people": 2})
    >>> result = pub.release(plan, inid.Ledger(total=inid.ApproxDP(1.0, 1e-6)))
    >>> list(result), result["pay"].rows[0].statistic
    (['people', 'pay'], 'mean')
    """

    def __init__(self, **queries: Query[Any, Any]) -> None:
        if not queries:
            raise ArgumentError("a publication needs at least one query: Publication(people=t.query(count=True)).")
        for name, query in queries.items():
            if not isinstance(query, Query):
                raise ArgumentError(f"{name} must be a query, got {shown(query)}: make it with table.query(...).")
        first = next(iter(queries.values())).table
        for name, query in queries.items():
            table = query.table
            if table.origin is not first.origin:
                raise ArgumentError(
                    f"{name} asks another table: make all queries of one Table(...), by where, with_columns and query."
                )
            for fact in ("person", "neighbours", "max_rows"):
                if getattr(table, fact) != getattr(first, fact):
                    raise ArgumentError(f"{name} is asked with another {fact}: all queries share one Table(...).")
        self.queries: Mapping[str, Query[Any, Any]] = dict(queries)

    def __repr__(self) -> str:
        return f"Publication({', '.join(self.queries)})"

    def plan(
        self,
        budget: Budget,
        *,
        tolerance: Mapping[str, Mapping[Any, float]] | None = None,
        importance: Mapping[str, float] | None = None,
        share: Mapping[str, Share] | None = None,
        mechanism: MechanismChoice = "auto",
        ledger: "Ledger | None" = None,
    ) -> PublicationPlan:
        """Divide the promise and plan each query with its part, before anything is spent; print the plan to see it.

        Args:
            budget: The promise of all of it.
            tolerance: By query, what its own `plan` takes: {"pay": {"income": 500}}. What nobody names is wanted as an
                equal split gives it, and a tolerance that is looser than that counts as that.
            importance: By query, what its error counts; 1 where none is stated.
            share: By query, the part of the promise that it takes whatever its error is, such as "1/10"; the others
                divide the rest. Synthetic rows, which have no stated error, need one.
            mechanism: "gaussian", "laplace", or "auto" for the one with the smaller error of the whole.
            ledger: The ledger to be charged; nothing is charged yet. Where the table states no relation, its own.

        Raises:
            ArgumentError: An argument is malformed, or a query reveals nothing.
            BudgetError: The promise cannot be divided so.
            RangeError: The promise, or what an error is worth beside the others, is too small for floats.
        """
        chosen = choice("mechanism", mechanism, ("auto", "gaussian", "laplace"))
        check_promise(budget)
        queries = {name: query.under(ledger) for name, query in self.queries.items()}
        named = {
            name: query.question.wanted(of_query(tolerance, name, self.queries, "tolerance"))
            for name, query in queries.items()
        }
        weights = [read_importance(importance, name, self.queries) for name in queries]
        shares = read_shares(share, self.queries)
        kinds = served_families(queries, shares, families(budget, chosen))
        promise, taken = _beside(budget, queries)
        equal = {name: query.question.equal(promise, questions=len(queries)) for name, query in queries.items()}
        wanted = {name: wanted_of(named[name], equal[name]).limits for name in queries}
        divisions = {family: _divided(promise, queries, family, wanted, weights, shares) for family in kinds}
        family = min(kinds, key=lambda one: divisions[one].objective)
        plans = {}
        for (name, query), part in zip(queries.items(), divisions[family].parts, strict=True):
            if part is None:
                raise ArgumentError(f"{name} reveals nothing about anybody: release it as it is, without a part.")
            plans[name] = query.question.plan_within(part, family, wanted[name])
        notes = []
        for name, query in queries.items():
            labels = [number.label for number in plans[name].planned_numbers()]
            found = wanted_of(named[name], equal[name])
            notes += [
                f"{name}: {labels[at]}: the tolerance {found.stated[at]:.4g} is looser than what an equal split gives, "
                f"and counts as that, {found.limits[at]:.4g}."
                for at in found.loose
            ]
            stated = of_query(tolerance, name, self.queries, "tolerance")
            notes += [f"{name}: {note}" for note in query.question.tolerance_notes(stated)]
        return PublicationPlan(budget, family, plans, equal, taken, tuple(notes), named)

    def plan_for_accuracy(
        self,
        tolerance: Mapping[str, Mapping[Any, float]] | None = None,
        *,
        failure: float = 0.05,
        delta: float | None = None,
        share: Mapping[str, Share] | None = None,
        ledger: "Ledger | None" = None,
    ) -> "CheapestPlan[PublicationPlan]":
        """The least promise found with which every number is within its tolerance, each with probability 1 - failure.

        Each query is planned by its own `plan_for_accuracy`, and what they need adds up: mu^2 with Gaussian noise,
        epsilon with Laplace noise. Queries that know no such plan (quantiles, choices, found keys) take a stated share.

        Args:
            tolerance: By query, what its own `plan_for_accuracy` takes.
            failure: The probability, per number and cell, of exceeding it.
            delta: The delta at which Gaussian and Laplace noise are compared; without one, Laplace noise under pure DP.
            share: By query, the part of the promise that it takes.
            ledger: As for `plan`.

        Raises:
            ArgumentError: An argument is malformed, or a query knows no accuracy and has no share.

        >>> import pandas
        >>> from inid import tables
        >>> t = tables.Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)}, rows=1000)
        >>> pub = t.publication(people={"count": True}, young=t.where("age < 30").query(count=True))
        >>> print(pub.plan_for_accuracy({"people": {"count": 10}, "young": {"count": 20}}).reason)
        Laplace noise reaches it at epsilon = 0.449378; name a delta to consider Gaussian noise.
        """
        from inid.tables.publication.accuracy import cheapest_publication

        queries = {name: query.under(ledger) for name, query in self.queries.items()}
        wanted = {name: of_query(tolerance, name, self.queries, "tolerance") for name in queries}
        return cheapest_publication(queries, wanted, read_shares(share, self.queries), failure=failure, delta=delta)

    def release(
        self, plan: PublicationPlan, ledger: "Ledger | None" = None, *, label: str = "", level: float = 0.95
    ) -> PublicationResult:
        """Charge the ledger once, run all queries, then draw the noise of all of them.

        If one query fails after the charge, all of it fails, and the charge stands.

        Args:
            plan: A plan of this publication.
            ledger: Where it is charged; an empty one whose total is the promise takes it.
            label: A name for the ledger's history.
            level: The probability, at least, with which each interval holds the exact answer.

        Raises:
            ArgumentError: The plan is of another publication, or an argument is malformed; nothing was charged.
            BudgetError: The ledger refuses; no table was read.
            EngineError: An engine failed; the message says whether that was before the charge.
        """
        if not isinstance(plan, PublicationPlan):
            raise ArgumentError(
                f"plan must be a PublicationPlan, got {shown(plan)}: make one with publication.plan(...)."
            )
        if list(plan.plans) != list(self.queries):
            raise ArgumentError("plan was made for another publication: make one with publication.plan(...).")
        asked = [(query, plan.plans[name]) for name, query in self.queries.items()]
        made = release_together(asked, plan.charge, ledger, label, level)
        return PublicationResult(plan, dict(zip(self.queries, made, strict=True)))


def _beside(budget: Budget, queries: Mapping[str, Query[Any, Any]]) -> tuple[Budget, float]:
    """What is left for the noise once found keys have taken their probabilities, and what they take together.

    Raises:
        BudgetError: The promise has no delta, or too little of it.
    """
    counted = taken_by(queries)
    if not counted:
        return budget, 0.0
    if not isinstance(budget, ApproxDP) or not budget.delta > counted:
        raise BudgetError(
            f"found keys take delta={counted:.3g} of the promise beside their noise: promise ApproxDP(epsilon, "
            "delta) with a larger delta.",
            code="delta_of_keys",
            delta=Words(f"{counted:.3g}"),
        )
    return ApproxDP(budget.epsilon, decimal_down(decimal_fraction(budget.delta) - decimal_fraction(counted))), counted


def _divided(
    promise: Budget,
    queries: Mapping[str, Query[Any, Any]],
    family: MechanismName,
    wanted: Mapping[str, list[float]],
    weights: list[float],
    shares: list[Fraction | None],
) -> Division:
    errors: list[float | None] = [
        _error(query.question.plan_within(UNITS[family], family, wanted[name]).planned_numbers(), wanted[name])
        if share is None
        else None
        for (name, query), share in zip(queries.items(), shares, strict=True)
    ]
    return divide(promise, family, errors, weights, shares)


def _error(numbers: list[PlannedNumber], wanted: list[float]) -> float:
    """The sum over all cells of (error / wanted)^2, no error counted above its range.

    Raises:
        RangeError: It is too small for a float; 0 would say that the query reveals nothing.
    """
    pairs = zip(numbers, wanted, strict=True)
    found = math.fsum(number.cells * (min(number.std, number.range) / limit) ** 2 for number, limit in pairs)
    if not found and any(number.std for number in numbers):
        raise RangeError("what its error is worth beside the others is below the smallest float: promise more.")
    return found


def of_query(stated: Mapping[str, Any] | None, name: str, queries: Mapping[str, object], what: str) -> Any:
    """What is stated for one query; None where nothing is.

    Raises:
        ArgumentError: It is no dictionary by query.
    """
    if stated is None:
        return None
    if not isinstance(stated, Mapping):
        raise ArgumentError(f"{what} must be a dictionary by query, got {shown(stated)}: {what}={{{name!r}: ...}}.")
    for key in stated:
        if key not in queries:
            raise ArgumentError(
                f"{what} names {shown(key)}, which is no query of the publication: it is stated by query, "
                f"{what}={{{name!r}: ...}}, and there are {listed(queries)}."
            )
    return stated.get(name)


def read_importance(stated: Mapping[str, float] | None, name: str, queries: Mapping[str, object]) -> float:
    """What the error of a query counts; 1 where nothing is stated.

    Raises:
        ArgumentError: It is no positive number.
    """
    value = of_query(stated, name, queries, "importance")
    return 1.0 if value is None else real(f"importance[{name!r}]", value, above=0, cure="pass a positive number")


def read_shares(stated: Mapping[str, Share] | None, queries: Mapping[str, object]) -> list[Fraction | None]:
    """The stated share of each query; None where there is none.

    Raises:
        ArgumentError: One is no share, or together they leave nothing.
    """
    found: list[Fraction | None] = []
    for name in queries:
        value = of_query(stated, name, queries, "share")
        found.append(None if value is None else read_part(value))
    taken = sum((share for share in found if share is not None), Fraction(0))
    if taken > 1 or (taken == 1 and None in found):
        raise ArgumentError(f"the stated shares add up to {taken}, which leaves nothing for the other queries.")
    return found


def served_families(
    queries: Mapping[str, Query[Any, Any]], shares: Sequence[Fraction | None], families: tuple[MechanismName, ...]
) -> tuple[MechanismName, ...]:
    """The kinds of noise, of those that are possible, that every query can be released with.

    Raises:
        ArgumentError: A query without a stated error has no share.
        BudgetError: There is no such kind of noise.
    """
    for (name, query), share in zip(queries.items(), shares, strict=True):
        if share is None and not query.question.weighed:
            raise ArgumentError(
                f"{name} ({query.asked_as}) has no stated error, by which its part of the promise could be found: "
                f'state it, share={{{name!r}: "1/2"}}.',
                code="error_unstated",
                question=Words(name),
            )
        families = tuple(family for family in families if family in query.question.families)
        if not families:
            (own,) = query.question.families
            raise BudgetError(
                f"{name} ({query.asked_as}) is released with {own.capitalize()} noise alone: promise ApproxDP(epsilon, "
                "delta), name a delta, and leave the mechanism out.",
                code="noise_of_question",
                question=Words(name),
                noise=Words(own.capitalize()),
            )
    return families


def queries_of(table: Table, asked: Mapping[str, Any]) -> dict[str, Query[Any, Any]]:
    """Queries of a table, from dictionaries of what `Table.query` takes.

    Raises:
        ArgumentError: One is neither a dictionary nor a query of this table.
    """
    found: dict[str, Query[Any, Any]] = {}
    for name, one in asked.items():
        if isinstance(one, Query) and one.table.origin is table.origin:
            found[name] = one
            continue
        if not isinstance(one, Mapping):
            raise ArgumentError(
                f"{name} must be a query of this table or a dictionary of what query takes, got {shown(one)}: "
                f"{name}={{'count': True}}."
            )
        for argument in one:
            if not isinstance(argument, str) or argument == "self":
                raise ArgumentError(f"{name} names {shown(argument)}, which `query` does not take.")
        found[name] = table.query(**one)
    return found


def taken_by(queries: Mapping[str, Query[Any, Any]]) -> float:
    """The probabilities that found keys take beside their noise, together."""
    taken = sum((decimal_fraction(query.question.delta) for query in queries.values()), Fraction(0))
    return decimal_up(taken, "delta") if taken else 0.0
