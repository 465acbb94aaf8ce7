"""Check the promise of a record of inid: one file that needs Python alone, to be read in an hour.

    python inid_check.py record.json budget.db ...

A record states a promise (epsilon, delta, ...), the sensitivity set (how far one person can move the numbers) and the
noise. This file derives anew, in whole numbers and fractions, that this noise keeps the promise for that set. Each
promise gets one of three answers; the exit code is 0 where all are accepted, 1 where one is rejected, 2 otherwise:

    accepted      the promise is proved from the record's own numbers
    rejected      the record is malformed, or its noise cannot be shown to keep what it states
    not covered   this file has no rule for it: caps, ellipsoids, second moments, streams' strategies, training on
                  samples, Laplace noise that only its whole privacy curve carries

Read are plans, releases, releases of tables, publications, charges with their costs, and ledgers in SQLite with the
chain of their digests. *Not* checked: that the noise was random, that the set is what a person can move in your table,
and the words of a record (labels, statements, its own digest, certificates of several parts and in ledgers).

The rules, with d a difference between neighbouring tables:

    Laplace noise     e = sup of sum |d_i| / beta_i        is e-DP
    Gaussian noise    m = sup of sum d_i^2 / sigma_i^2     is mu-GDP with mu^2 = m, and (eps, delta)-DP exactly where
                      Q(eps/mu - mu/2) - exp(eps) Q(eps/mu + mu/2) <= delta, Q the normal distribution's upper tail
    box               every |d_i| <= limit_i: sum limit_i / beta_i, sum limit_i^2 / sigma_i^2
    staircase noise   blocks of a box: prod of the blocks' ratios >= exp(-e) is e-DP, see `read_blocks`
    partitions        at most `moves` times the numbers of one cell of each: l1 groups of moves * limit
    groups            every group's norm <= its limit C: l1 norm C / min beta and C^2 / min sigma^2; l2 norm
                      C sqrt(sum 1 / beta_i^2) and C^2 / min sigma^2; groups add up. A ball is one group.
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
MOST_COORDINATES, MOST_BITS = 10**7, 40_000  # bits of fixed-point numbers: normal tails beyond this are not covered
MOST_RATIOS, MOST_EXPONENT = 1000, 1000  # of Laplace noise, up to which its own Renyi divergence is computed

PLAN = {"inid", "sensitivity", "budget", "mechanism", "allocation", "order", "weights", "scales"}
SET = {"kind", "limits", "counts", "norm", "l1", "l2", "total", "labels", "neighbours"}
BLOCK = ("numbers", "reaches", "offsets")
PROMISES = {"PureDP": ["epsilon"], "ApproxDP": ["epsilon", "delta"], "GaussianDP": ["mu"], "ZCDP": ["rho"]}
PROMISES["RenyiDP"] = ["order", "divergence"]
CURRENCIES = ("epsilon", "mu_squared", "rho", "renyi", "loose")
OWN = {"PureDP": "epsilon", "GaussianDP": "mu_squared", "ZCDP": "rho", "RenyiDP": "renyi"}  # of a promise
APPROX = {"epsilon", "mu_squared", "renyi"}  # what a ledger counts under (epsilon, delta), by rule
LEDGER = {"total", "rule", "neighbours", "unit", "terms"}
ALLOCATIONS = ("optimal", "iid", "spr", "tolerance")
NEIGHBOURS = ("add_remove", "replace", "zero_out")

Promise = tuple[str, dict[str, Fraction]]


class Rejected(Exception):
    """The record does not keep what it states, or is none."""


class NotCovered(Exception):
    """Nothing is known of it here."""


def _require(kept: object, why: str) -> None:
    if not kept:
        raise Rejected(why)


def _cover(known: object, why: str) -> None:
    if not known:
        raise NotCovered(why)


class Verdict(NamedTuple):
    """What was found of one promise: "accepted", "rejected" or "not covered", of what, and why."""

    answer: str
    what: str
    why: str


# Enclosures. A number x is enclosed by whole numbers (low, high) with low <= x 2^bits <= high.


def _up(a: int, b: int) -> int:
    return -(-a // b)


def _rounded(x: Fraction, bits: int) -> Fraction:
    return Fraction(_up(x.numerator << bits, x.denominator), 1 << bits)


def _power(x: Fraction, count: int, bits: int) -> Fraction:
    """Some x >= 0 to the power of `count`, rounded up."""
    product = Fraction(1)
    for digit in f"{count:b}"[::-1]:
        _cover(x < 1 << MOST_BITS, "a power is too large")
        product = _rounded(product * x, bits) if digit == "1" else product
        x = _rounded(x * x, bits)
    return product


def exp_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Fractions around exp(x), with about `bits` correct bits: Taylor's series of x / 2^s <= 1/2, and s squarings."""
    if x < 0:
        low, high = exp_bounds(-x, bits)
        return 1 / high, 1 / low
    squarings = max(0, math.floor(2 * x).bit_length())
    work = bits + 2 * squarings + 32 + 2 * math.ceil(x)
    _cover(work <= MOST_BITS, "an exponential is too large")
    small = (x / 2**squarings) * (1 << work)
    small_low, small_high = math.floor(small), math.ceil(small)
    one = 1 << work
    low, high, term_low, term_high, n = one, one, one, one, 1
    while term_high > 1:
        term_low, term_high = term_low * small_low // (n * one), _up(term_high * small_high, n * one)
        low, high, n = low + term_low, high + term_high, n + 1
    high += term_high  # the rest of the series is at most its last term
    for _ in range(squarings):
        low, high = low * low >> work, _up(high * high, one)
    return Fraction(low, one), Fraction(high, one)


def pi_bounds(bits: int) -> tuple[Fraction, Fraction]:
    """Fractions around pi, by Machin's formula 16 arctan(1/5) - 4 arctan(1/239)."""
    work, total = bits + 32, 0
    for factor, n in ((16, 5), (-4, 239)):
        power, k = (factor << work) // n, 0
        while abs(power) > 1:
            total, power, k = total + (-1) ** k * (power // (2 * k + 1)), power // (n * n), k + 1
    # Fewer than work / 3 terms in all, each of whose powers and quotients was rounded by less than 3 together.
    return Fraction(total - work, 1 << work), Fraction(total + work, 1 << work)


def tail_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Fractions around Q(x), the upper tail of the standard normal distribution, to an absolute error below 2^-bits.

    Q(x) = 1/2 - (x - x^3/6 + ...)/sqrt(2 pi), the terms (-1)^n x^(2n+1) / (2^n n! (2n+1)). They grow up to exp(x^2/2)
    and then fall; from there on the series lies between two of its partial sums.
    """
    if x < 0:
        low, high = tail_bounds(-x, bits)
        return 1 - high, 1 - low
    work = bits + math.ceil(3 * x * x / 2) + 64
    _cover(work <= MOST_BITS, "a normal tail is too far out")
    one, x_low, x_high = 1 << work, math.floor(x * (1 << work)), math.ceil(x * (1 << work))
    square_low, square_high = x_low * x_low >> work, _up(x_high * x_high, one)
    low = high = 0
    power_low, power_high, n = x_low, x_high, 0  # of x^(2n+1) / (2^n n!)
    while True:
        term = (power_low // (2 * n + 1), _up(power_high, 2 * n + 1))
        low, high = (low + term[0], high + term[1]) if n % 2 == 0 else (low - term[1], high - term[0])
        n += 1
        power_low = power_low * square_low // (2 * n * one)
        power_high = _up(power_high * square_high, 2 * n * one)
        if n > x * x and power_high <= 1:  # the terms fall, and the next one is below 1
            break
    (pi_low, pi_high), low, high = pi_bounds(work), low - 1, high + 1
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
    mu = root_above(squared)  # the tail's difference grows with mu, which may be rounded up
    mu = _rounded(mu, 300) if mu.denominator.bit_length() > 300 else mu
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    bits = 128 + math.ceil(Fraction(3, 2) * epsilon) + max(0, -_log2(delta))
    if near > 60 and near * near > 4 * max(0, -_log2(delta)):
        return True  # Q(x) < exp(-x^2/2), which is below delta already
    _cover(far * far * 3 <= 2 * MOST_BITS, "a normal tail is too far out")
    return tail_bounds(near, bits)[1] - exp_bounds(epsilon, bits)[0] * tail_bounds(far, bits)[0] <= delta


def _log2(x: Fraction) -> int:
    return x.numerator.bit_length() - x.denominator.bit_length() - 1


def laplace_is_gaussian(epsilon: Fraction, squared: Fraction, *, laplace: bool = True) -> bool:
    """Whether Laplace noise of one ratio epsilon is mu-GDP with mu^2 = `squared`: 2 Q(mu/2) <= exp(-epsilon/2)."""
    # Other noise of this epsilon is mu-GDP where Q(mu/2) <= 1 / (1 + exp(epsilon)).
    if not epsilon:
        return True
    _cover(epsilon <= 2000, "a Laplace ratio is too large")
    shift = 400 + max(0, -_log2(squared) if squared else 1)
    mu = Fraction(math.isqrt((squared.numerator << 2 * shift) // squared.denominator), 1 << shift)  # below the root
    bits = 256 + math.ceil(epsilon) + 2 * max(0, -_log2(epsilon))
    tail = tail_bounds(mu / 2, bits)[1]
    return 2 * tail <= exp_bounds(-epsilon / 2, bits)[0] if laplace else tail * (1 + exp_bounds(epsilon, bits)[1]) <= 1


def laplace_renyi(ratios: list[tuple[Fraction, int]], order: int) -> Fraction:
    """A Renyi divergence of Laplace noise of these independent ratios, at a whole order; never below the truth.

    One ratio e has E exp(s L) = [(s+1) exp(s e) + s exp(-(s+1) e)] / (2s+1), s = order - 1; independent ones multiply,
    and the divergence is log(product) / s. Any e-DP has at most e and order e^2 / 2 (Bun and Steinke 2016, 3.3).
    """
    total, s = sum((e * count for e, count in ratios), Fraction(0)), order - 1
    simple = min(total, order * total * total / 2)
    if s * total > MOST_EXPONENT or len(ratios) > MOST_RATIOS:
        return simple
    product, bits = Fraction(1), 320 + math.ceil(2 * s * total)
    for exact, count in ratios:
        e = _rounded(exact, 200)
        one = ((s + 1) * exp_bounds(s * e, bits)[1] + s * exp_bounds(-(s + 1) * e, bits)[1]) / (2 * s + 1)
        product = _rounded(product * _power(one, count, bits), bits)
    return min(simple, least(lambda r: exp_bounds(s * r, bits)[0] >= product))


def least(holds: Callable[[Fraction], bool]) -> Fraction:
    """A number at which something holds that holds from some number on, by at most 2^-80 above the first one."""
    low, high = Fraction(0), Fraction(1)
    while not holds(high):
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


# Reading. What a record must be is written down; everything else is rejected.


def _has(record: object, keys: set[str], what: str) -> dict[str, Any]:
    _require(isinstance(record, dict) and set(record) == keys, f"{what} must hold exactly {', '.join(sorted(keys))}")
    return record  # type: ignore[return-value]


def _number(value: object, what: str) -> Fraction:
    """A finite number >= 0 of a record, exactly the float that is written there."""
    kept = type(value) in (int, float) and 0 <= value <= sys.float_info.max  # type: ignore[operator]
    _require(kept, f"{what} must be a finite number of at least 0")
    return Fraction(float(value))  # type: ignore[arg-type]


def _decimal(value: object, what: str) -> Fraction:
    """A number of a promise: the decimal that was written, since floats print as the shortest one."""
    _require(_number(value, what) > 0 or what == "epsilon", f"{what} must be greater than 0")
    return Fraction(Decimal(repr(float(value))))  # type: ignore[arg-type]


def _exact(text: object, what: str) -> Fraction:
    kept = isinstance(text, str) and all(part.isascii() and part.isdigit() for part in text.split("/"))
    try:
        return Fraction(text if kept else "")  # type: ignore[arg-type]
    except (ValueError, ZeroDivisionError):
        raise Rejected(f"{what} must be a fraction such as 1/10") from None


def _order(text: object) -> int:
    """A Renyi order, 0 where there is none."""
    order = Fraction(0) if text is None else _exact(text, "the order")
    _require(order.denominator == 1 and (text is None or order > 1), "the order must be a whole number above 1")
    return int(order)


def read_promise(record: object) -> Promise:
    """The kind of a promise and its numbers."""
    kind = record.get("kind") if isinstance(record, dict) else None
    _require(isinstance(kind, str) and kind in PROMISES, "a promise must be one of " + ", ".join(PROMISES))
    fields = _has(record, {"kind", *PROMISES[kind]}, "a promise")
    numbers = {name: _decimal(fields[name], name) for name in PROMISES[kind]}
    _require(kind != "PureDP" or numbers["epsilon"], "epsilon must be greater than 0")
    _require(numbers.get("delta", Fraction(0)) < 1, "delta must be below 1")
    order = numbers.get("order", Fraction(2))
    _require(order.denominator == 1 and order > 1, "a Renyi order must be a whole number above 1")
    return kind, numbers


def _numbers(values: object, what: str, *, positive: bool = False) -> list[Fraction]:
    _require(isinstance(values, list) and values, f"{what} must be a list of numbers")
    numbers = [_number(value, what) for value in values]  # type: ignore[attr-defined]
    _require(not positive or all(numbers), f"{what} must be greater than 0")
    return numbers


def _counts(values: object, size: int) -> list[int]:
    if values is None:
        return [1] * size
    counts = _numbers(values, "counts", positive=True)
    whole = len(counts) == size and {count.denominator for count in counts} == {1} and sum(counts) < 2**53
    _require(whole, "counts must be one whole number for each limit")
    return [int(count) for count in counts]


class Plan(NamedTuple):
    """A plan as it was read: the limits of its set, and runs of equal coordinates (which limit, how many, scale)."""

    kind: str
    norm: int | None
    limits: list[Fraction]
    runs: list[tuple[int, int, Fraction]]
    mechanism: str
    promise: Promise
    neighbours: str
    dimension: int
    rho: Fraction  # of staircase noise: the product of the blocks' ratios


def read_plan(record: object) -> Plan:
    """A plan from its record. Everything that a plan must be stands here."""
    staircase = isinstance(record, dict) and record.get("mechanism") == "staircase"
    fields = _has(record, PLAN - {"scales"} | {"grid", "blocks"} if staircase else PLAN, "a plan")
    _require(fields["inid"] == FORMAT and fields["inid"] is not True, f"a plan must have the format {FORMAT}")
    several = isinstance(fields["sensitivity"], dict) and fields["sensitivity"].get("kind") == "partitions"
    area = _has(fields["sensitivity"], SET | ({"boxes", "moves"} if several else set()), "a sensitivity set")
    kind, norm, labels, weights = area["kind"], area["norm"], area["labels"], fields["weights"]
    _cover(kind in ("box", "ball", "groups", "partitions"), f"a set of the kind {str(kind)[:40]!r}")
    limits = _numbers(area["limits"], "limits")
    counts = _counts(area["counts"], len(limits))
    dimension = sum(counts)
    _require(area["neighbours"] in NEIGHBOURS, "neighbours must be one of " + ", ".join(NEIGHBOURS))
    named = isinstance(labels, list) and all(isinstance(label, str) and label for label in labels)
    _require(labels is None or (named and len(labels) == len(limits) == len(set(labels))), "each limit has one label")
    _cover(all(area[cap] is None for cap in ("l1", "l2", "total")), "a set with caps")
    normed = norm is None if several or kind == "box" else norm in (1, 2) and area["counts"] is not None
    _require(normed, "groups and balls have the norm 1 or 2, and sizes; boxes have no norm")
    _require(kind != "ball" or (len(limits) == 1 and labels is None), "a ball has one limit, and no labels")
    _require(1 <= _number(fields["order"], "the order") <= 10**6, "a plan must have an order of at least 1")
    _require(fields["allocation"] in ALLOCATIONS, "a plan must have a known allocation")
    many = len(limits) if weights is None else len(_numbers(weights, "weights", positive=True))
    scales = [Fraction(1)] * many if staircase else _numbers(fields["scales"], "scales")
    part = read_partitions(area, counts) if several else [(0, 1)] * len(limits)
    sizes = (len(limits), len(limits) if several else dimension)
    _require(len(scales) == many and many in sizes, "scales must be one for each limit or weight")
    _cover(dimension <= MOST_COORDINATES, f"more than {MOST_COORDINATES} coordinates")
    owners = [at for at, count in enumerate(counts) for _ in range(count if many > len(limits) else 1)]
    runs = list(zip(owners, counts if many == len(limits) else [1] * many, scales, strict=True))
    _require(all(scale or not limits[at] for at, _, scale in runs), "a number that depends on people has no noise")
    mechanism, promise = fields["mechanism"], read_promise(fields["budget"])
    _require(mechanism in ("laplace", "gaussian") or staircase, "the mechanism must be laplace, gaussian or staircase")
    each = [1] * len(limits) if several else counts  # numbers of a partition stand once, for all of its cells
    pure = (several or kind == "box") and promise[0] == "PureDP" and promise[1]["epsilon"] <= 1000 and sum(each) <= 4096
    _require(pure or not staircase, "staircase noise is for boxes, and proves a pure promise")
    moved = [(limits[at], *part[at]) for at, count in enumerate(each) for _ in range(count if staircase else 0)]
    rho = read_blocks(moved, fields["grid"], fields["blocks"]) if staircase else Fraction(1)
    if several:
        kind, norm, limits = "groups", 1, [limit * moves for limit, (_, moves) in zip(limits, part, strict=True)]
    return Plan(kind, norm, limits, runs, mechanism, promise, area["neighbours"], dimension, rho)


def read_partitions(area: dict[str, Any], counts: list[int]) -> list[tuple[int, int]]:
    """For each number its partition, and how often that is moved; the cells of a partition are equally many."""
    boxes, moves = area["boxes"], area["moves"]
    whole = all(isinstance(one, list) and one and all(type(n) is int and n >= 1 for n in one) for one in (boxes, moves))
    _require(whole and len(boxes) == len(moves) and sum(boxes) == len(counts), "partitions have sizes and moves")
    of = [at for at, size in enumerate(boxes) for _ in range(size)]
    alike = area["counts"] is not None and len(set(zip(of, counts, strict=True))) == len(boxes)
    _require(alike, "the numbers of one partition have equally many cells")
    _cover(max(moves) <= MOST_RATIOS, "more moves of a person")
    return [(at, moves[at]) for at in of]


def read_blocks(moved: list[tuple[Fraction, int, int]], grid: object, blocks: object) -> Fraction:
    """The product of the ratios of staircase noise in whole steps of a grid, which keeps exp(-epsilon) from above.

    A block has steps a_i, offsets 0 <= c_i < a_i and boxes B_k of radii a_i k + c_i. Its noise takes k with a chance in
    proportion to the points of B_k times rho^k, then a point of B_k. So the chance of a point is in proportion to rho^m
    with B_m the first box around it. A change of at most a_i leads from any box into the next, so m moves by at most 1,
    and the block is log(1/rho)-DP; blocks are independent, and a change may cost each of them its whole epsilon. Every
    cell of a partition has blocks of its own, and each move of a row crosses at most one step of those of one cell.
    """
    steps = _numbers(grid, "a grid")
    _require(len(steps) == len(moved) and isinstance(blocks, list), "staircase noise must have a grid and blocks")
    left, product = {at for at, (limit, *_) in enumerate(moved) if limit}, Fraction(1)
    for block in blocks:  # type: ignore[attr-defined]
        lists = [_has(block, {*BLOCK, "rho"}, "a block")[name] for name in BLOCK]
        whole = all(isinstance(one, list) and one and all(type(n) is int and n >= 0 for n in one) for one in lists)
        _require(whole and len({len(one) for one in lists}) == 1, "a block must hold a step and an offset per number")
        numbers, rho = set(lists[0]), _exact(block["rho"], "a ratio")
        once = numbers <= left and len(numbers) == len(lists[0]) and len({moved[at][1:] for at in numbers}) == 1
        _require(once and 0 < rho < 1, "numbers are in two blocks, or two partitions, or a ratio is not within 0 and 1")
        for at, a, c in zip(*lists, strict=True):
            ends = steps[at].numerator, steps[at].denominator  # of a power of two both are powers of two
            kept = c < a and steps[at] and not any(end & (end - 1) for end in ends) and a * steps[at] >= moved[at][0]
            _require(kept, "a number moves by more than a step of its block, or its grid is no power of two")
        moves = moved[lists[0][0]][2]
        left, product = left - numbers, product * (rho if moves == 1 else 1 / _power(1 / rho, moves, 512))
    _require(not left, "a number that depends on people is in no block")
    return product


def ratios(plan: Plan) -> list[tuple[Fraction, int]]:
    """Ratios |d_i| / scale_i of the worst neighbour, each with how often it occurs (boxes and l1 groups)."""
    if plan.kind == "box":
        return [(plan.limits[at] / scale, count) for at, count, scale in plan.runs if plan.limits[at]]
    _cover(plan.norm != 2, "the ratios of l2 groups")
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
    """What the noise spends: epsilon of Laplace and staircase noise, mu^2 of Gaussian noise."""
    if plan.mechanism == "staircase":
        return least(lambda epsilon: _keeps(plan.rho, epsilon))
    return supremum(plan, 1 if plan.mechanism == "laplace" else 2)


def _keeps(rho: Fraction, epsilon: Fraction) -> bool:
    """Whether rho >= exp(-epsilon)."""
    return rho * exp_bounds(epsilon, 256 + max(0, -_log2(rho)))[0] >= 1


def is_kept(promise: Promise, sums: dict[str, Any], taken: Fraction, *, laplace: bool) -> bool:
    """Whether these costs keep a promise; Laplace noise on many numbers is at most as bad as on one with all of e."""
    kind, numbers = promise
    e, squared, left = sums["epsilon"], sums["mu_squared"], numbers.get("delta", Fraction(0)) - taken
    if left < 0:
        return False
    if kind in ("PureDP", "ApproxDP"):
        by_curve = left and squared < math.inf and gaussian_within(squared, numbers["epsilon"], left)
        return bool(e <= numbers["epsilon"] or by_curve)
    if kind == "GaussianDP":
        return bool(squared <= numbers["mu"] ** 2 or (laplace and laplace_is_gaussian(e, numbers["mu"] ** 2)))
    if kind == "ZCDP":
        return bool(sums["rho"] <= numbers["rho"] or (laplace and min(e, e**2 / 2) <= numbers["rho"]))
    alone = laplace_renyi([(e, 1)], int(numbers["order"])) if laplace else math.inf
    return bool(min(sums["renyi"], alone) <= numbers["divergence"])


def check_plan(record: object) -> Plan:
    """The plan of a record, if its noise keeps its promise."""
    plan = read_plan(record)
    kind, numbers = plan.promise
    if plan.mechanism == "staircase":
        _require(_keeps(plan.rho, numbers["epsilon"]), "the product of the blocks' ratios is below exp(-epsilon)")
        return plan
    order, amount, laplace = int(numbers.get("order", 0)), spent(plan), plan.mechanism == "laplace"
    if laplace:  # every ratio e alone is e^2/2-zCDP, and independent ones add up
        sums = {"epsilon": amount, "mu_squared": math.inf, "rho": supremum(plan, 2) / 2}
        sums["renyi"] = laplace_renyi(ratios(plan), order) if order else math.inf
    else:
        sums = gaussian_costs(amount, order)
    kept = is_kept(plan.promise, sums, Fraction(0), laplace=laplace)
    if kept or (kind == "ApproxDP" and laplace and _laplace_approx(amount - numbers["epsilon"], numbers["delta"])):
        return plan
    single = plan.dimension == 1 and kind in ("ApproxDP", "GaussianDP")
    _cover(not laplace or kind == "PureDP" or single, "Laplace noise that only its privacy curve carries")
    raise Rejected(f"the noise spends {'epsilon' if laplace else 'mu^2'} = {_short(amount)}, more than {kind} allows")


def gaussian_costs(squared: Fraction, order: int) -> dict[str, Any]:
    """What Gaussian noise of this mu^2 costs in each currency; it is not pure for any epsilon."""
    pure = math.inf if squared else Fraction(0)
    return {"epsilon": pure, "mu_squared": squared, "rho": squared / 2, "renyi": order * squared / 2}


def _short(x: Fraction) -> str:
    return f"{Decimal(x.numerator) / Decimal(x.denominator):.6g}"  # floats may overflow


def _laplace_approx(excess: Fraction, delta: Fraction) -> bool:
    """Whether e-DP by Laplace noise is (e - excess, delta)-DP: delta = 1 - exp(-excess/2), exact for one number."""
    bits = 256 + 2 * max(0, -_log2(delta))
    return excess < MOST_EXPONENT and exp_bounds(-_rounded(excess, 400) / 2, bits)[0] >= 1 - delta


def promise_costs(promise: Promise, order: int) -> dict[str, Any]:
    """What anything that keeps a promise costs, in the currencies that bound it."""
    kind, numbers = promise
    if kind == "PureDP":
        return {"epsilon": (e := numbers["epsilon"]), "rho": min(e, e**2 / 2), "renyi": min(e, order * e**2 / 2)}
    if kind in ("GaussianDP", "ZCDP"):
        rho = numbers["mu"] ** 2 / 2 if kind == "GaussianDP" else numbers["rho"]
        return {"rho": rho, "renyi": order * rho} | ({"mu_squared": 2 * rho} if kind == "GaussianDP" else {})
    return {"renyi": numbers["divergence"]} if kind == "RenyiDP" and numbers["order"] == order else {}


def plan_costs(plan: Plan, order: int) -> dict[str, Any]:
    """What a plan costs in each currency, never below the truth; "loose" counts plans of which it may be far above."""
    kind, numbers = plan.promise
    promised = promise_costs(plan.promise, order)
    if plan.mechanism == "staircase":
        mu_squared = least(lambda m: laplace_is_gaussian(numbers["epsilon"], m, laplace=False))
        return promised | {"mu_squared": mu_squared, "loose": Fraction(1)}
    if plan.mechanism == "gaussian":
        squared = 2 * promised["rho"] if kind in ("GaussianDP", "ZCDP") else spent(plan)
        costs = gaussian_costs(squared, order)
    else:
        e = numbers["epsilon"] if kind == "PureDP" else spent(plan)
        costs = {"epsilon": e, "rho": min(e, e**2 / 2), "mu_squared": least(lambda m: laplace_is_gaussian(e, m))}
        several = ratios(plan) if plan.kind == "box" or plan.norm == 1 else []
        costs["renyi"] = laplace_renyi(several or [(e, 1)], order) if order else Fraction(0)  # one ratio has the most
        costs["loose"] = Fraction(not 0 < len(several) <= MOST_RATIOS or (order - 1) * e > MOST_EXPONENT)
    return {"loose": Fraction(0)} | costs | ({own: promised[own]} if (own := OWN.get(kind)) in promised else {})


def charge_costs(record: object, order: int) -> tuple[dict[str, Any], str | None, Fraction]:
    """What a charge costs in each currency, its relation (None for a lease, which is free), and the delta it takes."""
    if isinstance(record, dict) and record.keys() == {"inid_lease", "first", "count"}:
        return dict.fromkeys(CURRENCIES, Fraction(0)), None, Fraction(0)
    _cover(not (isinstance(record, dict) and "inid_composition" in record), "a composition, as of training on samples")
    if isinstance(record, dict) and "inid_parts" in record:
        return check_parts(record, order)
    plan = check_plan(record)
    return plan_costs(plan, order), plan.neighbours, Fraction(0)


def _sums(costs: list[tuple[dict[str, Any], int]]) -> dict[str, Any]:
    return {name: sum((times * cost[name] for cost, times in costs), Fraction(0)) for name in CURRENCIES}


def check_parts(record: dict[str, Any], order: int) -> tuple[dict[str, Any], str, Fraction]:
    """The costs, the relation and the delta of a charge of several parts, if these keep its promise together."""
    _cover("releases" not in record, "a stream")
    fields = _has(record, {"inid_parts", "promise", "neighbours", "delta", "parts"}, "a charge of several parts")
    relation, taken, parts = fields["neighbours"], _exact(fields["delta"], "the delta beside the noise"), []
    _require(fields["inid_parts"] == FORMAT and relation in NEIGHBOURS, "parts of another format or relation")
    _require(isinstance(fields["parts"], list) and fields["parts"], "a charge must have parts")
    for part in fields["parts"]:
        held = part.keys() - {"count"} if isinstance(part, dict) else set()
        times = part.get("count", 1) if held else 0
        repeated = type(times) is int and 1 <= times <= MOST_COORDINATES
        _require(len(held) == 1 and repeated, "a part must hold one plan, and how often it is repeated")
        _cover(not held <= {"promise", "composition"}, "a part without a plan of noise")
        plan = check_plan(part.get("plan"))
        _require(plan.neighbours == relation, "the parts are for different neighbours")
        parts.append((plan, times))
    if fields["promise"] is None:
        return _sums([(plan_costs(plan, order), times) for plan, times in parts]), relation, taken
    promise = read_promise(fields["promise"])
    at = int(promise[1].get("order", order))
    sums = _sums([(plan_costs(plan, at), times) for plan, times in parts])
    kept = is_kept(promise, sums, taken, laplace=all(plan.mechanism == "laplace" for plan, _ in parts))
    joint = promise[0] != "PureDP" and any(plan.mechanism == "staircase" for plan, _ in parts)
    _cover(kept or not joint, "staircase noise that only its whole privacy curve carries")
    _require(kept, f"the parts are not shown to keep {promise[0]} together")
    if at != order:
        sums["renyi"] = _sums([(plan_costs(plan, order), times) for plan, times in parts])["renyi"]
    promised = promise_costs(promise, order)
    return {name: min(cost, promised.get(name, cost)) for name, cost in sums.items()}, relation, taken


def check_ledger(settings: object, charges: list[tuple[Any, Any]]) -> str:
    """A ledger's whole history against its limits, and these against its total. Charges are (plan, stated cost).

    One sum within its limit is enough, though later questions depend on earlier answers: of epsilon, mu^2, rho, or of
    Renyi divergences at one order fixed beforehand. Under (epsilon, delta) mu^2 and Renyi divergences use delta/2 each,
    unless the ledger is for Gaussian noise alone; epsilons use none. A charge for add_remove also covers zero_out.
    """
    whole = isinstance(settings, dict) and LEDGER <= set(settings) <= {*LEDGER, "currency", "reserve"}
    _require(whole, "a ledger's settings must hold " + ", ".join(sorted(LEDGER)))
    (kind, numbers), relation = read_promise(settings["total"]), settings["neighbours"]
    terms = _has(settings["terms"], {"limits", "order"}, "a ledger's terms")
    reserve = Fraction(0) if settings.get("reserve") is None else _decimal(settings["reserve"], "the reserve")
    rules = {"auto": {OWN[kind]}} if kind in OWN else {"auto": APPROX, "gaussian": {"mu_squared"}}
    known = settings["rule"] in rules and relation in NEIGHBOURS and isinstance(settings["unit"], str)
    _require(known and settings["unit"], "the ledger must have a known rule and relation, and name its unit")
    counted = rules[settings["rule"]] | ({"delta"} if reserve else set())
    limits = {name: _exact(limit, "a limit") for name, limit in _has(terms["limits"], counted, "limits").items()}
    order, left = _order(terms["order"]), numbers.get("delta", Fraction(0)) - reserve
    _require(bool(order) == ("renyi" in counted), "a ledger has an order where it counts Renyi divergences")
    _require((left > 0 or not reserve) and limits.get("delta", reserve) == reserve, "the reserve must be below delta")
    used = reserve if settings["rule"] == "gaussian" else reserve + left / 2
    for name in counted - {"delta"}:
        alone = dict.fromkeys(CURRENCIES, math.inf) | {name: limits[name]}
        kept = is_kept((kind, numbers), alone, used, laplace=False) and numbers.get("order", order) == order
        if name == "renyi" and kind == "ApproxDP":
            kept = not limits[name] or _renyi_within(limits[name], numbers["epsilon"], left / 2, order)
        _require(kept, f"the limit on {name} exceeds what the total allows")
    sums: dict[str, Any] = dict.fromkeys((*CURRENCIES, "delta"), Fraction(0))
    for plan, cost in charges:
        _cover(any(amount is not None for amount in _has(cost, counted, "a cost").values()), "a charge of all at once")
        amounts, own, taken = charge_costs(plan, order)
        _require(own in (None, relation) or (own, relation) == ("add_remove", "zero_out"), "a charge's neighbours")
        stated = {name: cost[name] for name in counted if name in ("epsilon", "delta") or not amounts["loose"]}
        _covers(stated, amounts | {"delta": taken})
        amounts["delta"] = _exact(cost["delta"], "the delta that was taken") if reserve else taken
        sums = {name: sums[name] + amounts[name] for name in sums}
    _require(sums["delta"] <= reserve, "more delta was taken than the ledger has in reserve")
    found = [name for name in CURRENCIES if name in limits and sums[name] <= limits[name]]
    _cover(found or not sums["loose"] or counted == {"epsilon"}, "noise whose costs are bounded from above only")
    _require(found, "the charges together are not shown to keep the ledger's total")
    many = "1 charge" if len(charges) == 1 else f"{len(charges)} charges"
    return f"{_in_words(settings['total'])}: {many}, {found[0]} {_short(sums[found[0]])}"


def _covers(stated: dict[str, Any], costs: dict[str, Any]) -> None:
    """Refuse stated costs below the true ones; None says that a currency does not bound the charge."""
    for name, amount in stated.items():
        margin = 1 if name == "delta" else 1 - Fraction(1, 2**30)
        if amount is not None and _exact(amount, "a cost") < costs.get(name, math.inf) * margin:
            raise NotCovered("a cost by a finer bound") if costs["loose"] else Rejected("a cost is below its plan's")


def _renyi_within(divergence: Fraction, epsilon: Fraction, delta: Fraction, order: int) -> bool:
    """Whether a Renyi divergence of this order implies (epsilon, delta)-DP (Canonne, Kamath and Steinke 2020)."""
    # R + log(1 - 1/a) - (log delta + log a)/(a - 1) <= epsilon, taken to the power of a - 1.
    s, bits = order - 1, 256 + 2 * max(0, -_log2(delta)) + 2 * order.bit_length()
    shrunk = _power(Fraction(s, order), s, bits)  # (1 - 1/a)^(a-1), rounded up
    return exp_bounds(s * (divergence - epsilon), bits)[1] * shrunk <= delta * order


def judged(what: str, function: Callable[..., str], *given: Any) -> Verdict:
    """What a function finds of something, as a verdict."""
    try:
        return Verdict("accepted", what, function(*given))
    except (Rejected, RecursionError) as problem:
        return Verdict("rejected", what, str(problem))
    except NotCovered as problem:
        return Verdict("not covered", what, str(problem))


def check(record: object, what: str = "record") -> list[Verdict]:
    """Every promise in a record, with what was found of it."""
    if isinstance(record, dict) and isinstance(record.get("charges"), list):  # a ledger's history, charge by charge
        record = record["charges"]
    if isinstance(record, list):
        return [judged(f"{what}[{at}]", check_record, one) for at, one in enumerate(record)]
    return [judged(what, check_record, record)]


def check_record(record: Any) -> str:
    """What a record promises, if it keeps it."""
    _require(isinstance(record, dict), "a record must be a dictionary")
    published = {"inid_release", "inid_selection", "values"} & record.keys()  # a charge says nothing of its noise
    _require(record.get("private", not published) is True, "the release was made without real noise, or does not say")
    if "inid_publication" in record:
        return _check_publication(record)
    if isinstance(record.get("release"), dict):  # of a table's question
        found = "found" in record and record["release"].get("private") is True  # its plan does not hold their delta
        _cover(not found, "keys that were found in the table")
        return check_record({"private": None} | record["release"])
    if "inid_parts" in record:
        _cover(record.get("promise") is not None, "a charge without a promise of the whole")
        return f"{_in_words(record['promise'])}, {check_parts(record, 0)[1]}"
    if isinstance(record.get("plan"), dict):
        return _check_stated(record)
    if isinstance(record.get("noise"), dict):  # the plan of a table's question
        _cover("delta" not in record, "keys that are to be found in the table")
        return check_record(record["noise"])
    if "inid" in record:
        plan = check_plan(record)
        return f"{_in_words(record['budget'])}, {plan.neighbours}"
    raise NotCovered("a record of this kind")


def _check_stated(record: dict[str, Any]) -> str:
    """A release or a charge: its plan, and that what is stated beside the plan is what the plan proves."""
    inner = record["plan"]
    if "cost" in record:
        _check_cost(record)
        if "inid_parts" in inner and inner["promise"] is None:
            return f"the stated cost of several parts, {inner['neighbours']}"
    if "inid_parts" in inner:
        return check_record(inner)
    _cover("inid_composition" not in inner, "a composition, as of training on samples")
    plan = check_plan(inner)
    words = {"statement", "arithmetic", "sensitivity"}  # shown to people, and not checked here
    facts = {"promise", "mechanism", "dimension", "spent", "fingerprint", *words}
    stated = _has(record.get("certificate"), facts, "a certificate")
    said = all(isinstance(stated[word], str) and stated[word] for word in words)
    said = said and stated["promise"] == _in_words(inner["budget"]) and stated["mechanism"] == plan.mechanism
    _require(said and stated["dimension"] == plan.dimension, "the certificate says something else than the plan")
    amount, number = spent(plan), _number(stated["spent"], "what is spent")
    low, high = 1 - Fraction(plan.mechanism == "staircase", 2**44), 1 + Fraction(1, 2**44)
    proved = amount * low <= number <= amount * high and stated["fingerprint"] == _fingerprint(inner)
    _require(proved, "the certificate is not the one that the plan proves")
    values = record.get("values") if isinstance(record.get("values"), list) else []
    finite = all(type(value) in (int, float) and abs(value) <= sys.float_info.max for value in values)
    whole = "inid_release" not in record or (finite and len(values) == plan.dimension)
    _require(whole, "the release must hold one finite number for each coordinate of its plan")
    return f"{_in_words(inner['budget'])}, {plan.neighbours}"


def _check_cost(record: dict[str, Any]) -> None:
    """Refuse a charge whose stated cost is below what its plan takes, or that names another relation."""
    stated, order, more = record["cost"], _order(record.get("order")), record.get("delta_taken", "0")
    costs, relation, taken = charge_costs(record["plan"], order)
    same = isinstance(stated, dict) and stated and record.get("neighbours", relation) == relation
    _require(same and (order or "renyi" not in stated), "a charge must hold its cost, and the relation of its plan")
    _require(stated.get("delta", more) == more is not None, "a charge states one number for the delta that it takes")
    _covers({**stated, "delta": more}, costs | {"delta": taken})


def _fingerprint(plan: dict[str, Any]) -> str:
    """What pins down a set, bit for bit: its facts, its limits and counts as they lie in memory."""
    area = plan["sensitivity"]
    names = ("norm", "l1", "l2", "total", "neighbours")
    more = tuple(tuple(area[name]) for name in ("boxes", "moves") if name in area)
    digest = hashlib.sha256(repr((area["kind"], len(area["limits"]), *(area[name] for name in names), *more)).encode())
    digest.update(struct.pack(f"<{len(area['limits'])}d", *area["limits"]))
    if area["counts"] is not None:
        digest.update(struct.pack(f"<{len(area['counts'])}q", *map(int, area["counts"])))
    return digest.hexdigest()[:16]


def _check_publication(record: dict[str, Any]) -> str:
    charge, names, results = record.get("charge"), record.get("names"), record.get("results")
    whole = isinstance(results, dict) and isinstance(names, list) and sorted(map(str, names)) == sorted(results)
    _require(whole, "a publication must hold a result for each of its names")
    _require(isinstance(charge, dict) and "inid_parts" in charge, "a publication must hold the charge of its parts")
    found = check_record(charge)
    paid = [part.get("plan") for part in charge["parts"]]
    for name, result in results.items():
        release = result.get("release") if isinstance(result, dict) else None
        known = isinstance(release, dict) and release.get("plan") in paid
        _cover(known, f"the question {name[:40]!r}, whose plan is not one of the parts that were charged")
        paid.remove(release["plan"])
        check_record(result)
    return f"{found}, {len(names)} questions"


def _in_words(promise: Any) -> str:
    kind, _ = read_promise(promise)
    return f"{kind}({', '.join(f'{name}={promise[name]!r}' for name in PROMISES[kind])})"


def check_file(path: str) -> list[Verdict]:
    """Every promise in a file: JSON, or a ledger in SQLite."""
    try:
        content = Path(path).read_bytes()
        return _check_database(path) if content.startswith(b"SQLite format 3\0") else check(_read(content), path)
    except (Rejected, OSError, sqlite3.Error, ValueError, TypeError, RecursionError) as problem:
        return [Verdict("rejected", path, f"the file is no ledger and holds no record in JSON ({problem})")]


def _read(content: str | bytes) -> Any:
    """What JSON says, in which no name stands twice."""

    def named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        _require(len(dict(pairs)) == len(pairs), "a name stands twice in one object")
        return dict(pairs)

    return json.loads(content, object_pairs_hook=named_once)


def _check_database(path: str) -> list[Verdict]:
    verdicts = []
    with closing(sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)) as database:
        ledgers = database.execute("SELECT name, settings, charges, digest FROM inid_ledgers").fetchall()
        for name, settings, number, last in ledgers:
            query = "SELECT number, time, label, plan, certificate, cost, digest FROM inid_charges WHERE ledger = ?"
            digest, charges, whole = _chained("", settings), [], True
            for *content, stored in database.execute(query + " ORDER BY number", (name,)):
                digest = _chained(digest, *content)
                whole = whole and digest == stored
                charges.append((_read(content[3]), _read(content[5])))
            what = f"{path}, ledger {name!r}"
            if whole and digest == last and len(charges) == number:
                verdicts.append(judged(what, check_ledger, _read(settings), charges))
            else:
                verdicts.append(Verdict("rejected", what, "charges are missing, or were changed by hand"))
    return verdicts or [Verdict("rejected", path, "the file holds no ledger")]


def _chained(previous: str, *content: object) -> str:
    """The digest of an entry of a ledger, which the next one holds; lengths keep ("ab", "c") from ("a", "bc")."""
    parts = [str(part).encode() for part in (previous, *content)]
    return hashlib.sha256(b"".join(f"{len(part)}:".encode() + part for part in parts)).hexdigest()


def main(paths: list[str]) -> int:
    """Print what was found of each file, and return the exit code."""
    if not paths or paths[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if paths else 1
    verdicts = [verdict for path in paths for verdict in check_file(path)]
    print("\n".join(": ".join(verdict) for verdict in verdicts))
    answers = {verdict.answer for verdict in verdicts}
    return 1 if "rejected" in answers else 2 if "not covered" in answers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
