"""Check the promise of a record of inid: one file that needs Python alone, to be read in an hour.

    python inid_check.py record.json budget.db ...

A record states a promise (epsilon, delta, ...), the sensitivity set (how far one person can move the numbers) and the
noise. This file derives anew, in whole numbers and fractions, that noise of this size keeps the promise for that set.
It shares no code with the library. Each promise gets one of three answers:

    accepted      the promise is proved from the record's own numbers
    rejected      the record is malformed, or its noise cannot be shown to keep what it states
    not covered   this file has no rule for it: caps, ellipsoids, second moments, streams' strategies, training on
                  samples, Laplace noise that only its whole privacy curve carries

What is read: plans, releases, releases of tables, publications, a ledger's history, and ledgers in SQLite. What is
*not* checked: that the noise was random, that the set is what a person can move in your table, that the numbers are
those of the table, and the words of a record (labels, statements, digests). `inid verify` checks the latter.

The rules, with d a difference between neighbouring tables:

    Laplace noise     e = sup of sum |d_i| / beta_i        is e-DP
    Gaussian noise    m = sup of sum d_i^2 / sigma_i^2     is mu-GDP with mu^2 = m, and (eps, delta)-DP exactly where
                      Q(eps/mu - mu/2) - exp(eps) Q(eps/mu + mu/2) <= delta, Q the normal distribution's upper tail
    box               every |d_i| <= limit_i: sum limit_i / beta_i, sum limit_i^2 / sigma_i^2
    groups            every group's norm <= its limit C: l1 norm C / min beta and C^2 / min sigma^2; l2 norm
                      C sqrt(sum 1 / beta_i^2) and C^2 / min sigma^2; groups add up. A ball is one group.

Exit code: 0 all accepted, 1 something rejected, 2 nothing rejected but something not covered.
"""

import hashlib
import json
import math
import sqlite3
import struct
import sys
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

FORMAT = 3  # of records; of the library that this file was written beside
MOST_COORDINATES = 10**7
MOST_BITS = 40_000  # of fixed-point numbers: normal tails beyond this are not covered

PLAN = {"inid", "sensitivity", "budget", "mechanism", "allocation", "order", "weights", "scales"}
SET = {"kind", "limits", "counts", "norm", "l1", "l2", "total", "labels", "neighbours"}
PROMISES = {
    "PureDP": ("epsilon",),
    "ApproxDP": ("epsilon", "delta"),
    "GaussianDP": ("mu",),
    "ZCDP": ("rho",),
    "RenyiDP": ("order", "divergence"),
}
ALLOCATIONS = ("optimal", "iid", "spr", "tolerance")
NEIGHBOURS = ("add_remove", "replace", "zero_out")


class Rejected(Exception):
    """The record does not keep what it states, or is none."""


class NotCovered(Exception):
    """Nothing is known of it here."""


class Verdict(NamedTuple):
    """What was found of one promise."""

    answer: str  # "accepted", "rejected" or "not covered"
    what: str
    why: str


# ---------------------------------------------------------------------------------------------------------------------
# Enclosures. A number x is enclosed by whole numbers (low, high) with low <= x 2^bits <= high.


def _down(a: int, b: int) -> int:
    return a // b


def _up(a: int, b: int) -> int:
    return -(-a // b)


def _fixed(x: Fraction, bits: int) -> tuple[int, int]:
    scaled = x.numerator << bits
    return _down(scaled, x.denominator), _up(scaled, x.denominator)


def exp_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Fractions around exp(x), with about `bits` correct bits.

    exp(x) = exp(y)^(2^s) with 0 <= y <= 1/2: Taylor's series, whose rest after n terms is at most the last term, and
    s squarings, each rounded outwards.
    """
    if x < 0:
        low, high = exp_bounds(-x, bits)
        return 1 / high, 1 / low
    squarings = max(0, math.floor(2 * x).bit_length())
    work = bits + 2 * squarings + 32 + 2 * math.ceil(x)
    if work > MOST_BITS:
        raise NotCovered("an exponential is too large")
    small_low, small_high = _fixed(x / 2**squarings, work)
    one = 1 << work
    low, high, term_low, term_high, n = one, one, one, one, 1
    while term_high > 1:
        term_low, term_high = _down(term_low * small_low, n * one), _up(term_high * small_high, n * one)
        low, high, n = low + term_low, high + term_high, n + 1
    high += term_high
    for _ in range(squarings):
        low, high = low * low >> work, _up(high * high, one)
    return Fraction(low, one), Fraction(high, one)


def pi_bounds(bits: int) -> tuple[Fraction, Fraction]:
    """Fractions around pi, by Machin's formula 16 arctan(1/5) - 4 arctan(1/239)."""
    work = bits + 32

    def arctan(n: int) -> tuple[int, int]:  # of 1/n; an alternating series lies between two partial sums
        power, total, k = (1 << work) // n, 0, 0
        while power:
            total += (1 if k % 2 == 0 else -1) * (power // (2 * k + 1))
            power, k = power // (n * n), k + 1
        return total - 2 * k - 2, total + 2 * k + 2  # each term and each power was rounded by less than 1

    five, other = arctan(5), arctan(239)
    return Fraction(16 * five[0] - 4 * other[1], 1 << work), Fraction(16 * five[1] - 4 * other[0], 1 << work)


def tail_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Fractions around Q(x), the upper tail of the standard normal distribution, to an absolute error below 2^-bits.

    Q(x) = 1/2 - (x - x^3/6 + ...)/sqrt(2 pi), the terms (-1)^n x^(2n+1) / (2^n n! (2n+1)). They grow up to exp(x^2/2)
    and then fall; from there on the series lies between two of its partial sums.
    """
    if x < 0:
        low, high = tail_bounds(-x, bits)
        return 1 - high, 1 - low
    work = bits + math.ceil(3 * x * x / 2) + 64
    if work > MOST_BITS:
        raise NotCovered("a normal tail is too far out")
    x_low, x_high = _fixed(x, work)
    one = 1 << work
    square_low, square_high = x_low * x_low >> work, _up(x_high * x_high, one)
    low = high = 0
    power_low, power_high, n = x_low, x_high, 0  # of x^(2n+1) / (2^n n!)
    while True:
        term = (power_low // (2 * n + 1), _up(power_high, 2 * n + 1))
        low, high = (low + term[0], high + term[1]) if n % 2 == 0 else (low - term[1], high - term[0])
        n += 1
        power_low = _down(power_low * square_low, 2 * n * one)
        power_high = _up(power_high * square_high, 2 * n * one)
        if n > x * x and power_high <= 1:  # the terms fall, and the next one is below 1
            break
    low, high = low - 1, high + 1
    pi_low, pi_high = pi_bounds(work)
    root_low = Fraction(math.isqrt((2 * pi_low.numerator << 2 * work) // pi_low.denominator), one)
    root_high = Fraction(math.isqrt(_up(2 * pi_high.numerator << 2 * work, pi_high.denominator)) + 1, one)
    return Fraction(1, 2) - Fraction(high, one) / root_low, Fraction(1, 2) - Fraction(low, one) / root_high


def root_above(x: Fraction) -> Fraction:
    """The root of x >= 0 where it is a fraction, else one above it by at most 2^-256 of it."""
    shift = max(0, 300 - (x.numerator.bit_length() - x.denominator.bit_length()) // 2)
    top, bottom = math.isqrt(x.numerator), math.isqrt(x.denominator)
    if top * top == x.numerator and bottom * bottom == x.denominator:
        return Fraction(top, bottom)
    return Fraction(math.isqrt(_up(x.numerator << 2 * shift, x.denominator)) + 1, 1 << shift)


def gaussian_within(squared: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether Gaussian noise with mu^2 = `squared` is (epsilon, delta)-DP. True is a proof."""
    if not squared:
        return True
    mu = root_above(squared)  # the tail's difference grows with mu
    mu = Fraction(_up(mu.numerator << 300, mu.denominator), 1 << 300) if mu.denominator.bit_length() > 300 else mu
    if not mu or delta >= 1:
        return delta >= 1
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    bits = 128 + math.ceil(Fraction(3, 2) * epsilon) + max(0, -_log2(delta))
    if near > 60 and near * near > 4 * max(0, -_log2(delta)):
        return True  # Q(x) < exp(-x^2/2), which is below delta already
    if far * far * 3 > 2 * MOST_BITS:
        raise NotCovered("a normal tail is too far out")
    return tail_bounds(near, bits)[1] - exp_bounds(epsilon, bits)[0] * tail_bounds(far, bits)[0] <= delta


def _log2(x: Fraction) -> int:
    return x.numerator.bit_length() - x.denominator.bit_length() - 1


def laplace_is_gaussian(epsilon: Fraction, squared: Fraction) -> bool:
    """Whether Laplace noise of one ratio epsilon is mu-GDP with mu^2 = `squared`: 2 Q(mu/2) <= exp(-epsilon/2)."""
    if not epsilon:
        return True
    if epsilon > 2000:
        raise NotCovered("a Laplace ratio is too large")
    size = _log2(squared) if squared else -1
    shift = 400 + max(0, -size)
    mu = Fraction(math.isqrt((squared.numerator << 2 * shift) // squared.denominator), 1 << shift)  # below the root
    bits = 256 + math.ceil(epsilon) + 2 * max(0, -_log2(epsilon))
    return 2 * tail_bounds(mu / 2, bits)[1] <= exp_bounds(-epsilon / 2, bits)[0]


def laplace_renyi(ratios: list[tuple[Fraction, int]], order: int) -> Fraction:
    """A Renyi divergence of Laplace noise of these independent ratios, at a whole order; never below the truth.

    One ratio e has E exp(s L) = [(s+1) exp(s e) + s exp(-(s+1) e)] / (2s+1) with s = order - 1; independent ones
    multiply, and the divergence is the logarithm of the product divided by s. Whatever is e-DP has at most e, and at
    most order e^2 / 2 (Bun and Steinke 2016, Proposition 3.3).
    """
    total, s = sum((e * count for e, count in ratios), Fraction(0)), order - 1
    simple = min(total, order * total * total / 2)
    if s * total > 1000 or sum(count for _, count in ratios) > 1000:
        return simple
    product, bits = Fraction(1), 320 + math.ceil(2 * s * total)
    for exact, count in ratios:
        e = Fraction(_up(exact.numerator << 200, exact.denominator), 1 << 200)
        one = ((s + 1) * exp_bounds(s * e, bits)[1] + s * exp_bounds(-(s + 1) * e, bits)[1]) / (2 * s + 1)
        for _ in range(count):
            product = Fraction(_up((product * one).numerator << bits, (product * one).denominator), 1 << bits)
    return min(simple, least(lambda r: exp_bounds(s * r, bits)[0] >= product))


def least(holds: Callable[[Fraction], bool]) -> Fraction:
    """A number at which something holds that holds from some number on, by at most 2^-64 above the first one."""
    low, high = Fraction(0), Fraction(1)
    while not holds(high):
        low, high = high, 2 * high
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


# ---------------------------------------------------------------------------------------------------------------------
# Reading. What a record must be is written down; everything else is rejected.


def _has(record: object, keys: set[str], what: str) -> dict[str, Any]:
    if not isinstance(record, dict) or set(record) != keys:
        raise Rejected(f"{what} must hold exactly {', '.join(sorted(keys))}")
    return record


def _number(value: object, what: str) -> Fraction:
    """A finite number >= 0 of a record, exactly the float that is written there."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= sys.float_info.max:
        raise Rejected(f"{what} must be a finite number of at least 0")
    return Fraction(float(value))


def _decimal(value: object, what: str) -> Fraction:
    """A number of a promise: the decimal that was written, since floats print as the shortest one."""
    if _number(value, what) <= 0 and what != "epsilon":
        raise Rejected(f"{what} must be greater than 0")
    return Fraction(Decimal(repr(float(value))))  # type: ignore[arg-type]


def _exact(text: object, what: str) -> Fraction:
    if not isinstance(text, str) or not all(part.isascii() and part.isdigit() for part in text.split("/")):
        raise Rejected(f"{what} must be a fraction such as 1/10")
    try:
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise Rejected(f"{what} must be a fraction such as 1/10") from None


def read_promise(record: object) -> tuple[str, dict[str, Fraction]]:
    """The kind of a promise and its numbers."""
    kind = record.get("kind") if isinstance(record, dict) else None
    if not isinstance(kind, str) or kind not in PROMISES:
        raise Rejected("a promise must be one of " + ", ".join(PROMISES))
    fields = _has(record, {"kind", *PROMISES[kind]}, "a promise")
    numbers = {name: _decimal(fields[name], name) for name in PROMISES[kind]}
    if kind == "PureDP" and not numbers["epsilon"]:
        raise Rejected("epsilon must be greater than 0")
    if numbers.get("delta", Fraction(0)) >= 1:
        raise Rejected("delta must be below 1")
    if kind == "RenyiDP" and (numbers["order"].denominator != 1 or numbers["order"] < 2):
        raise Rejected("a Renyi order must be a whole number of at least 2")
    return kind, numbers


def _numbers(values: object, what: str, *, positive: bool = False) -> list[Fraction]:
    if not isinstance(values, list) or not values:
        raise Rejected(f"{what} must be a list of numbers")
    numbers = [_number(value, what) for value in values]
    if positive and not all(numbers):
        raise Rejected(f"{what} must be greater than 0")
    return numbers


def _counts(values: object, size: int) -> list[int]:
    if values is None:
        return [1] * size
    counts = _numbers(values, "counts", positive=True)
    if len(counts) != size or any(count.denominator != 1 for count in counts) or sum(counts) >= 2**53:
        raise Rejected("counts must be one whole number for each limit")
    return [int(count) for count in counts]


class Plan(NamedTuple):
    """A plan as it was read: the limits of its set, and runs of equal coordinates (which limit, how many, scale)."""

    kind: str
    norm: int | None
    limits: list[Fraction]
    runs: list[tuple[int, int, Fraction]]
    mechanism: str
    promise: tuple[str, dict[str, Fraction]]
    neighbours: str
    dimension: int


def read_plan(record: object) -> Plan:
    """A plan from its record. Everything that a plan must be stands here."""
    fields = _has(record, PLAN, "a plan")
    if fields["inid"] != FORMAT or isinstance(fields["inid"], bool):
        raise Rejected(f"a plan must have the format {FORMAT}")
    area = _has(fields["sensitivity"], SET, "a sensitivity set")
    if area["kind"] not in ("box", "ball", "groups"):
        raise NotCovered(f"a set of the kind {str(area['kind'])[:40]!r}")
    limits = _numbers(area["limits"], "limits")
    counts = _counts(area["counts"], len(limits))
    labels, dimension = area["labels"], sum(counts)
    if area["neighbours"] not in NEIGHBOURS:
        raise Rejected("neighbours must be one of " + ", ".join(NEIGHBOURS))
    if labels is not None and not (
        isinstance(labels, list)
        and len(labels) == len(limits) == len({str(label) for label in labels})
        and all(isinstance(label, str) and label for label in labels)
    ):
        raise Rejected("labels must be one distinct word for each limit")
    if any(area[cap] is not None for cap in ("l1", "l2", "total")):
        raise NotCovered("a set with caps")
    if area["kind"] == "box" and area["norm"] is not None:
        raise Rejected("a box has no norm")
    if area["kind"] != "box" and (area["norm"] not in (1, 2) or area["counts"] is None):
        raise Rejected("groups and balls have the norm 1 or 2, and sizes")
    if area["kind"] == "ball" and not (len(limits) == 1 and labels is None):
        raise Rejected("a ball has one limit, and no labels")
    order, weights = fields["order"], fields["weights"]
    if not (1 <= _number(order, "the order") <= 10**6 and fields["allocation"] in ALLOCATIONS):
        raise Rejected("a plan must have an order of at least 1, and a known allocation")
    many = len(limits) if weights is None else len(_numbers(weights, "weights", positive=True))
    scales = _numbers(fields["scales"], "scales")
    if len(scales) != many or many not in (len(limits), dimension):
        raise Rejected("scales must be one for each limit, or one for each weight")
    if dimension > MOST_COORDINATES:
        raise NotCovered(f"more than {MOST_COORDINATES} coordinates")
    if many == len(limits):
        runs = list(zip(range(many), counts, scales, strict=True))
    else:
        owners = [at for at, count in enumerate(counts) for _ in range(count)]
        runs = [(at, 1, scale) for at, scale in zip(owners, scales, strict=True)]
    if any(limits[at] > 0 and not scale for at, _, scale in runs):
        raise Rejected("a number that depends on people has no noise")
    if fields["mechanism"] == "staircase":
        raise NotCovered("staircase noise")
    if fields["mechanism"] not in ("laplace", "gaussian"):
        raise Rejected("the mechanism must be laplace or gaussian")
    promise = read_promise(fields["budget"])
    return Plan(area["kind"], area["norm"], limits, runs, fields["mechanism"], promise, area["neighbours"], dimension)


# ---------------------------------------------------------------------------------------------------------------------
# What noise spends, and whether a promise allows it.


def ratios(plan: Plan) -> list[tuple[Fraction, int]]:
    """Ratios |d_i| / scale_i of the worst neighbour, each with how often it occurs (boxes and l1 groups)."""
    if plan.kind == "box":
        return [(plan.limits[at] / scale, count) for at, count, scale in plan.runs if plan.limits[at]]
    if plan.norm == 2:
        raise NotCovered("the ratios of l2 groups")
    least: dict[int, Fraction] = {}
    for at, _, scale in plan.runs:
        if plan.limits[at]:
            least[at] = min(least.get(at, scale), scale)
    return [(plan.limits[at] / scale, 1) for at, scale in least.items()]


def supremum(plan: Plan, power: int) -> Fraction:
    """The supremum of sum |d_i|^power / scale_i^power over the set, never below it; power is 1 or 2."""
    if plan.kind == "box" or (plan.norm == 1 and power == 1):
        return sum((e**power * count for e, count in ratios(plan)), Fraction(0))
    squares: dict[int, Fraction] = {}  # of 1 / scale: the largest in a group (power 2), or their sum (l2 norms)
    for at, count, scale in plan.runs:
        if plan.limits[at]:
            square = 1 / scale**2
            squares[at] = max(squares.get(at, square), square) if power == 2 else squares.get(at, 0) + count * square
    if power == 2:
        return sum((plan.limits[at] ** 2 * square for at, square in squares.items()), Fraction(0))
    return sum((plan.limits[at] * root_above(square) for at, square in squares.items()), Fraction(0))


def spent(plan: Plan) -> Fraction:
    """What the noise spends: epsilon of Laplace noise, mu^2 of Gaussian noise."""
    return supremum(plan, 1 if plan.mechanism == "laplace" else 2)


def check_plan(record: object) -> Plan:
    """The plan of a record, if its noise keeps its promise."""
    plan = read_plan(record)
    kind, numbers = plan.promise
    amount = spent(plan)
    if plan.mechanism == "gaussian":
        _check_gaussian(kind, numbers, amount)
        return plan
    kept = {
        "PureDP": lambda: amount <= numbers["epsilon"],
        "ApproxDP": lambda: _laplace_approx(amount, numbers["epsilon"], numbers["delta"]),
        "GaussianDP": lambda: laplace_is_gaussian(amount, numbers["mu"] ** 2),
        # Every ratio e alone is e^2/2-zCDP, and independent ones add up.
        "ZCDP": lambda: min(amount, supremum(plan, 2) / 2) <= numbers["rho"],
        "RenyiDP": lambda: laplace_renyi(ratios(plan), int(numbers["order"])) <= numbers["divergence"],
    }[kind]()
    if not kept and (kind == "PureDP" or (plan.dimension == 1 and kind in ("ApproxDP", "GaussianDP"))):
        raise Rejected(f"the noise spends epsilon = {_short(amount)}, more than {kind} allows")
    if not kept:
        raise NotCovered("Laplace noise that only its privacy curve carries")
    return plan


def _check_gaussian(kind: str, numbers: dict[str, Fraction], squared: Fraction) -> None:
    kept = {
        "PureDP": lambda: not squared,
        "ApproxDP": lambda: gaussian_within(squared, numbers["epsilon"], numbers["delta"]),
        "GaussianDP": lambda: squared <= numbers["mu"] ** 2,
        "ZCDP": lambda: squared <= 2 * numbers["rho"],
        "RenyiDP": lambda: numbers["order"] * squared / 2 <= numbers["divergence"],
    }[kind]()
    if not kept:
        raise Rejected(f"the noise spends mu^2 = {_short(squared)}, more than {kind} allows")


def _short(x: Fraction) -> str:
    return f"{Decimal(x.numerator) / Decimal(x.denominator):.6g}"  # floats may overflow


def _laplace_approx(epsilon_spent: Fraction, epsilon: Fraction, delta: Fraction) -> bool:
    """Whether e-DP by Laplace noise is (epsilon, delta)-DP; delta = 1 - exp((epsilon - e)/2), exact for one number."""
    if epsilon_spent <= epsilon:
        return True
    more = epsilon_spent - epsilon
    excess = Fraction(_up(more.numerator << 400, more.denominator), 1 << 400)
    bits = 256 + 2 * max(0, -_log2(delta))
    return excess < 1000 and exp_bounds(-excess / 2, bits)[0] >= 1 - delta


# ---------------------------------------------------------------------------------------------------------------------
# Several plans under one promise, and ledgers.


def plan_costs(plan: Plan, order: int | None) -> dict[str, Any]:
    """What a plan costs in each currency, never below the truth; its promise's own decimal where it has one."""
    kind, numbers = plan.promise
    if plan.mechanism == "gaussian":
        squared = {"GaussianDP": lambda: numbers["mu"] ** 2, "ZCDP": lambda: 2 * numbers["rho"]}.get(
            kind, lambda: spent(plan)
        )()
        no_bound = math.inf if squared else Fraction(0)  # Gaussian noise is not pure for any epsilon
        renyi = None if order is None else order * squared / 2
        return {"epsilon": no_bound, "mu_squared": squared, "rho": squared / 2, "renyi": renyi}
    e = numbers["epsilon"] if kind == "PureDP" else spent(plan)
    costs = {"epsilon": e, "rho": min(e, e**2 / 2), "mu_squared": least(lambda m: laplace_is_gaussian(e, m))}
    if order is not None:
        exact = plan.kind == "box" or plan.norm == 1
        costs["renyi"] = laplace_renyi(ratios(plan) if exact else [(e, 1)], order)  # one ratio has the most
    return costs


def charge_costs(record: object, order: int | None) -> dict[str, Any]:
    """What a charge costs in each currency: a plan, several under one promise, or a lease, which is free."""
    nothing = {"epsilon": Fraction(0), "mu_squared": Fraction(0), "rho": Fraction(0), "renyi": Fraction(0)}
    if isinstance(record, dict) and "inid_lease" in record:
        return nothing
    if isinstance(record, dict) and "inid_composition" in record:
        raise NotCovered("a composition, as of training on samples")
    if not (isinstance(record, dict) and "inid_parts" in record):
        return plan_costs(check_plan(record), order)
    return _sums([(plan_costs(plan, order), times) for plan, times in read_parts(record)], order)


def _sums(costs: list[tuple[dict[str, Any], int]], order: int | None) -> dict[str, Any]:
    names = ("epsilon", "mu_squared", "rho", *(() if order is None else ("renyi",)))
    return {name: sum((times * cost[name] for cost, times in costs), Fraction(0)) for name in names}


def read_parts(record: dict[str, Any]) -> list[tuple[Plan, int]]:
    """The plans of a charge of several parts, each proved, and with how often it is repeated."""
    if "releases" in record:
        raise NotCovered("a stream")
    fields = _has(record, {"inid_parts", "promise", "neighbours", "delta", "parts"}, "a charge of several parts")
    if fields["inid_parts"] != FORMAT or fields["neighbours"] not in NEIGHBOURS:
        raise Rejected("a charge of several parts must have this format, and a relation of neighbours")
    if not isinstance(fields["parts"], list) or not fields["parts"]:
        raise Rejected("a charge must have parts")
    parts = []
    for part in fields["parts"]:
        if not isinstance(part, dict) or not set(part) <= {"plan", "promise", "composition", "count"}:
            raise Rejected("a part must hold a plan")
        times = part.get("count", 1)
        if type(times) is not int or times < 1:
            raise Rejected("a part's count must be a whole number above 0")
        if "plan" not in part:
            raise NotCovered("a part without a plan of noise")
        plan = check_plan(part["plan"])
        if plan.neighbours != fields["neighbours"]:
            raise Rejected("the parts are for different neighbours")
        parts.append((plan, times))
    return parts


def check_parts(record: object) -> None:
    """Refuse a charge of several parts that do not keep its promise together."""
    if not isinstance(record, dict):
        raise Rejected("a charge must be a dictionary")
    parts = read_parts(record)
    taken = _exact(record["delta"], "the delta beside the noise")
    if record["promise"] is None:
        raise NotCovered("a charge without a promise of the whole")
    kind, numbers = read_promise(record["promise"])
    order = int(numbers["order"]) if kind == "RenyiDP" else None
    sums, left = _sums([(plan_costs(plan, order), times) for plan, times in parts], order), numbers.get("delta", taken)
    kept = {
        "PureDP": lambda: not taken and sums["epsilon"] <= numbers["epsilon"],
        "ApproxDP": lambda: (
            taken < left
            and (
                sums["epsilon"] <= numbers["epsilon"]
                or gaussian_within(sums["mu_squared"], numbers["epsilon"], left - taken)
            )
        ),
        "GaussianDP": lambda: not taken and sums["mu_squared"] <= numbers["mu"] ** 2,
        "ZCDP": lambda: not taken and sums["rho"] <= numbers["rho"],
        "RenyiDP": lambda: not taken and sums["renyi"] <= numbers["divergence"],
    }[kind]()
    if not kept:
        raise Rejected(f"the parts are not shown to keep {kind} together")


LEDGER = {"total", "rule", "neighbours", "unit", "terms"}


def check_ledger(settings: object, charges: list[tuple[Any, Any]]) -> str:
    """A ledger's whole history against its total: at least one rule must accept it. Charges are (plan, cost).

    Valid although later questions depend on earlier answers: sums of epsilon, sums of mu^2, and sums of Renyi
    divergences at one order fixed beforehand. Under (epsilon, delta) the last two use delta/2 each, unless the ledger
    was declared for Gaussian noise alone; the sum of epsilons uses none.
    """
    if not isinstance(settings, dict) or not LEDGER <= set(settings) <= {*LEDGER, "currency", "reserve"}:
        raise Rejected("a ledger's settings must hold " + ", ".join(sorted(LEDGER)))
    kind, numbers = read_promise(settings["total"])
    terms = _has(settings["terms"], {"limits", "order"}, "a ledger's terms")
    reserve = Fraction(0) if settings.get("reserve") is None else _decimal(settings["reserve"], "the reserve")
    order = None if terms["order"] is None else int(_exact(terms["order"], "the ledger's order"))
    taken, costs = Fraction(0), []
    for plan, cost in charges:
        if not isinstance(cost, dict) or (cost and all(amount is None for amount in cost.values())):
            raise NotCovered("a charge of the whole promise at once")
        taken += _exact(cost["delta"], "the delta that was taken") if cost.get("delta") is not None else 0
        costs.append((charge_costs(plan, order), 1))
    if taken > reserve:
        raise Rejected("more delta was taken than the ledger has in reserve")
    sums = _sums(costs, order)
    rules = _ledger_rules(kind, numbers, reserve, settings["rule"], order)
    for name, within in rules.items():
        if sums[name] < math.inf and within(sums[name]):
            return f"{len(charges)} charges, {name} {_short(sums[name])}"
    raise Rejected("the charges together are not shown to keep the ledger's total")


def _ledger_rules(
    kind: str, numbers: dict[str, Fraction], reserve: Fraction, rule: object, order: int | None
) -> dict[str, Any]:
    if kind == "PureDP":
        return {"epsilon": lambda total: total <= numbers["epsilon"]}
    if kind == "GaussianDP":
        return {"mu_squared": lambda total: total <= numbers["mu"] ** 2}
    if kind == "ZCDP":
        return {"rho": lambda total: total <= numbers["rho"]}
    if kind == "RenyiDP":
        return {"renyi": lambda total: order == numbers["order"] and total <= numbers["divergence"]}
    epsilon, left = numbers["epsilon"], numbers["delta"] - reserve
    if left <= 0:
        raise Rejected("the reserve must be below delta")
    if rule == "gaussian":
        return {"mu_squared": lambda total: gaussian_within(total, epsilon, left)}
    rules = {
        "epsilon": lambda total: total <= epsilon,
        "mu_squared": lambda total: gaussian_within(total, epsilon, left / 2),
    }
    return rules if order is None else rules | {"renyi": lambda total: _renyi_within(total, epsilon, left / 2, order)}


def _renyi_within(divergence: Fraction, epsilon: Fraction, delta: Fraction, order: int) -> bool:
    """Whether a Renyi divergence of this order implies (epsilon, delta)-DP (Canonne, Kamath and Steinke 2020).

    R + log(1 - 1/a) - (log delta + log a)/(a - 1) <= epsilon, taken to the power of a - 1.
    """
    s, power = order - 1, (order - 1) * (divergence - epsilon)
    bits = 256 + 2 * max(0, -_log2(delta))
    shrunk = Fraction(s, order) ** s  # (1 - 1/a)^(a-1)
    return exp_bounds(power, bits)[1] * shrunk <= delta * order


# ---------------------------------------------------------------------------------------------------------------------
# Records and files.


def check(record: object, what: str = "record") -> list[Verdict]:
    """Every promise in a record, with what was found of it."""
    try:
        return _check(record, what)
    except Rejected as problem:
        return [Verdict("rejected", what, str(problem))]
    except NotCovered as problem:
        return [Verdict("not covered", what, str(problem))]
    except RecursionError:
        return [Verdict("rejected", what, "the record is nested too deeply")]


def _check(record: object, what: str) -> list[Verdict]:
    if isinstance(record, list):
        return [verdict for at, one in enumerate(record) for verdict in check(one, f"{what}[{at}]")]
    if not isinstance(record, dict):
        raise Rejected("a record must be a dictionary")
    if record.get("private", True) is not True:
        raise Rejected("the release was made without real noise")
    if "inid_publication" in record:
        return _check_publication(record, what)
    if "inid_release" in record and "private" not in record:
        raise Rejected("the record does not say that its noise was real")
    if "found" in record:  # the plan is of the counts alone, and not of the delta by which keys appear
        raise NotCovered("keys that were found in the table")
    if isinstance(record.get("release"), dict):  # of a table's question
        return _check(record["release"], what)
    if "inid_parts" in record:
        check_parts(record)
        return [Verdict("accepted", what, _in_words(record["promise"]))]
    if "settings" in record and "charges" in record:
        return [_ledger_verdict(record["settings"], record["charges"], what)]
    if "plan" in record and isinstance(record["plan"], dict):
        return _check_stated(record, what)
    if isinstance(record.get("noise"), dict):  # the plan of a table's question
        return _check(record["noise"], what)
    if "inid" in record:
        plan = check_plan(record)
        return [Verdict("accepted", what, _in_words(record["budget"]) + f", {plan.neighbours}")]
    raise NotCovered("a record of this kind")


def _check_stated(record: dict[str, Any], what: str) -> list[Verdict]:
    """A release or a charge: its plan, and that what is stated beside the plan is what the plan proves."""
    inner = record["plan"]
    stated = record.get("certificate")
    if "inid_composition" in inner:
        raise NotCovered("a composition, as of training on samples")
    if "inid_parts" in inner:
        check_parts(inner)
        return [Verdict("accepted", what, _in_words(inner["promise"]))]
    plan = check_plan(inner)
    words = {"statement", "arithmetic", "sensitivity"}  # shown to people, and not checked here
    stated = _has(stated, {"promise", "mechanism", "dimension", "spent", "fingerprint", *words}, "a certificate")
    if not all(isinstance(stated[word], str) and stated[word] for word in words):
        raise Rejected("a certificate must say in words what was checked")
    amount, said = spent(plan), _number(stated["spent"], "what is spent")
    if not amount <= said <= amount * (1 + Fraction(1, 2**44)) or stated["fingerprint"] != _fingerprint(inner):
        raise Rejected("the certificate is not the one that the plan proves")
    if stated.get("promise") != _in_words(inner["budget"]):
        raise Rejected("the certificate names another promise than the plan")
    if stated.get("dimension") != plan.dimension or stated.get("mechanism") != plan.mechanism:
        raise Rejected("the certificate is of other noise than the plan's")
    values = record.get("values")
    numbers = isinstance(values, list) and all(
        type(value) in (int, float) and abs(value) <= sys.float_info.max for value in values
    )
    if "inid_release" in record and not (numbers and len(values) == plan.dimension):  # type: ignore[arg-type]
        raise Rejected("the release has another number of values than its plan")
    return [Verdict("accepted", what, f"{_in_words(inner['budget'])}, {plan.neighbours}")]


def _fingerprint(plan: dict[str, Any]) -> str:
    """What pins down a set, bit for bit: its facts, its limits and counts as they lie in memory."""
    area = plan["sensitivity"]
    names = ("norm", "l1", "l2", "total", "neighbours")
    digest = hashlib.sha256(repr((area["kind"], len(area["limits"]), *(area[name] for name in names))).encode())
    digest.update(struct.pack(f"<{len(area['limits'])}d", *area["limits"]))
    if area["counts"] is not None:
        digest.update(struct.pack(f"<{len(area['counts'])}q", *map(int, area["counts"])))
    return digest.hexdigest()[:16]


def _check_publication(record: dict[str, Any], what: str) -> list[Verdict]:
    charge, names, results = record.get("charge"), record.get("names"), record.get("results")
    if not (isinstance(results, dict) and isinstance(names, list) and set(names) == set(results)):
        raise Rejected("a publication must hold a result for each of its names")
    check_parts(charge)
    paid = [part.get("plan") for part in charge["parts"]]  # type: ignore[index]
    for name, result in results.items():
        release = result.get("release") if isinstance(result, dict) else None
        if not isinstance(release, dict) or release.get("plan") not in paid:
            raise NotCovered(f"the question {name[:40]!r}, whose plan is not one of the parts that were charged")
        paid.remove(release["plan"])
        _check(result, what)
    return [Verdict("accepted", what, f"{_in_words(charge['promise'])}, {len(names)} questions")]  # type: ignore[index]


def _in_words(promise: object) -> str:
    if promise is None:
        return "no promise of the whole"
    kind, _ = read_promise(promise)
    return f"{kind}({', '.join(f'{name}={promise[name]!r}' for name in PROMISES[kind])})"  # type: ignore[index]


def _ledger_verdict(settings: object, charges: Any, what: str) -> Verdict:
    try:
        if not isinstance(charges, list) or not all(isinstance(one, dict) for one in charges):
            raise Rejected("charges must be a list of records")
        found = check_ledger(settings, [(one.get("plan"), one.get("cost")) for one in charges])
        return Verdict("accepted", what, f"{_in_words(settings['total'])}: {found}")  # type: ignore[index]
    except Rejected as problem:
        return Verdict("rejected", what, str(problem))
    except NotCovered as problem:
        return Verdict("not covered", what, str(problem))


def check_file(path: str) -> list[Verdict]:
    """Every promise in a file: JSON, or a ledger in SQLite."""
    try:
        content = Path(path).read_bytes()
    except OSError as problem:
        return [Verdict("rejected", path, f"the file cannot be read: {problem.strerror}")]
    if content.startswith(b"SQLite format 3\0"):
        return _check_database(path)
    try:
        return check(json.loads(content, object_pairs_hook=_named_once), path)
    except (ValueError, RecursionError):
        return [Verdict("rejected", path, "the file holds no JSON, or a name twice in one object")]


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError
    return dict(pairs)


def _check_database(path: str) -> list[Verdict]:
    verdicts = []
    try:
        with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as database:
            for name, settings, number in database.execute("SELECT name, settings, charges FROM inid_ledgers"):
                query = "SELECT plan, cost FROM inid_charges WHERE ledger = ? ORDER BY number"
                rows = [(json.loads(plan), json.loads(cost)) for plan, cost in database.execute(query, (name,))]
                what = f"{path}, ledger {name!r}"
                if len(rows) != number:
                    verdicts.append(Verdict("rejected", what, "charges are missing"))
                    continue
                charges = [{"plan": plan, "cost": cost} for plan, cost in rows]
                verdicts.append(_ledger_verdict(json.loads(settings), charges, what))
    except (sqlite3.Error, ValueError, TypeError, RecursionError):
        return [Verdict("rejected", path, "the file is no ledger")]
    return verdicts or [Verdict("rejected", path, "the file holds no ledger")]


def main(paths: list[str]) -> int:
    """Print what was found of each file, and return the exit code."""
    if not paths or paths[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if paths else 1
    answers = set()
    for path in paths:
        for verdict in check_file(path):
            print(f"{verdict.answer}: {verdict.what}: {verdict.why}")
            answers.add(verdict.answer)
    return 1 if "rejected" in answers else 2 if "not covered" in answers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
