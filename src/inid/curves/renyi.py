"""Renyi divergences: of any release in floating point, of subsampled steps at whole orders in integers.

Statement. Let (P, Q) be the pair of one step on the whole data, t = dP/dQ, and q the probability of taking part. At a
whole order a >= 2 the divergence of a Poisson-subsampled step, in both directions, is at most

    R_a = log A / (a - 1),    A = E_Q (1 - q + q t)^a = sum over k of C(a, k) (1-q)^(a-k) q^k E_Q t^k,

with equality for the removal of a person. For Gaussian noise E_Q t^k = exp(mu^2 k (k-1) / 2); for a Laplace ratio e it
is [k e^((k-1) e) + (k-1) e^(-k e)] / (2k - 1); independent coordinates multiply.

Why. Removal has the pair ((1-q) Q + q P, Q) (Zhu, Dong and Wang 2022), and the binomial theorem gives the sum. Addition
has the same two sides exchanged, whose divergence is log B / (a - 1) with B = E_Q (1 - q + q t)^(1-a). B <= A whenever
the pair is symmetric, that is, some reflection exchanges P and Q (x -> mu - x does for Gaussian and Laplace noise, and
for products of them), after Mironov, Talwar and Zhang (2019):

    Reflecting gives E_Q h(t) = E_P h(1/t) = E_Q t h(1/t). With g(x) = x^a - x^(1-a), u = 1 - q + q t and
    w = 1 - q + q/t, therefore 2 (A - B) = E_Q [g(u) + t g(w)]. This is >= 0 at every t: by the symmetry t -> 1/t let
    t > 1, so that w < 1 < u, and note u - 1 = t (1 - w). What has to be shown is H(u) >= H(w) for
    H(x) = g(x) / (x - 1). H(1/x) = H(x) by direct calculation; g'' = a (a-1) (x^(a-2) - x^(-a-1)) >= 0 for x >= 1, so
    the slope H of the chord from (1, 0) increases there; and u w = 1 + q (1-q) (t + 1/t - 2) >= 1, so 1/w <= u and
    H(w) = H(1/w) <= H(u).

The relation "zero_out" (one person's row becomes nothing, and nothing adds 0 to every sum) has the same pairs as
"add_remove": a sampled person who is nothing and a person who is not there leave the same sum.

Guarantee: the rational returned is never below R_a. Divergences of one order add up under adaptive composition.
"""

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from inid import arguments
from inid.curves.contour import Transform
from inid.curves.description import Loss, PrivacyLoss, flatten
from inid.errors import ArgumentError
from inid.numbers.enclosures import enclose, exp, log, log_two
from inid.numbers.rounding import UNIT, above

_BITS = 256  # of a term, relative to itself, and of a logarithm, absolutely
_ANSWER_BITS = 128
LARGEST_ORDER = 1 << 14


@np.errstate(under="ignore")
def renyi(loss: PrivacyLoss, order: float) -> float:
    """An upper bound on the Renyi divergence of a given order between the two sides of the dominating pair.

    Statement: R_a = a mu^2 / 2 + sum of log M_e(a-1) / (a-1) over the Laplace ratios (E7), rounded up by an explicit
    bound on the rounding error; subsampled steps by the sum above, at whole orders only. Assumes order a > 1.
    Guarantee: never below the exact value, under the rounding model of `inid.numbers.rounding`; sums over releases
    bound the divergence of their adaptive composition at the same order. Bad input, and a subsampled step at an order
    that is not a whole number, raise ArgumentError.

    >>> from inid.curves import Loss
    >>> 2.0 < renyi(Loss(mu=1.0), 4.0) < 2.0 + 1e-12
    True
    """
    order = arguments.real("order", order, above=1, cure="pass a Renyi order greater than 1, for example order=8")
    flat = flatten(loss)
    if flat.steps and order != math.floor(order):
        raise ArgumentError(
            f"order must be a whole number for subsampled steps, got {order!r}: pass 2, 3, ..., or read the "
            "(epsilon, delta) curve instead."
        )
    steps = sum((part.steps * _subsampled_loss(int(order), part.loss, part.rate) for part in flat.steps), Fraction(0))
    bound = above(float(steps)) if flat.steps else 0.0
    transform = Transform(np.asarray(flat.ratios), flat.counts, 0.0)
    if flat.variance > 0:
        bound += above(order * flat.variance / 2)
    if flat.ratios.size:
        shifted = order - 1
        # (a-1) is exact down to a rounding of UNIT * a, which moves log M by at most that times the sum of the ratios.
        slack = transform.moment_slack(shifted) + 2 * UNIT * order * transform.distance(0.0)[0]
        part = above(max(transform.log_moment(shifted) + slack, 0.0) / shifted)
        bound += min(part, above(transform.distance(0.0)[0]))
    return above(bound) if flat.steps and (flat.ratios.size or flat.variance) else bound


@lru_cache(maxsize=4096)
def renyi_subsampled_gaussian(order: int, mu: Decimal | Fraction | float, rate: Fraction | float) -> Fraction:
    """An upper bound, in integers, on the Renyi divergence of one Gaussian step on a Poisson sample."""
    square = _exact("mu", mu) ** 2

    def moment(k: int) -> "_Up":
        return _Up.exp(square * k * (k - 1) / 2)

    return _subsampled(_whole(order), moment, _rate(rate))


@lru_cache(maxsize=4096)
def renyi_subsampled_laplace(order: int, ratio: Decimal | Fraction | float, rate: Fraction | float) -> Fraction:
    """The same for one Laplace step of a single ratio e, which covers every step with e as its pure epsilon.

    Among ratio vectors of one sum the single ratio has the largest curve (E5), and Renyi divergences are mixtures of
    hockey-stick divergences.
    """
    e = _exact("ratio", ratio)
    return _subsampled(_whole(order), lambda k: _laplace_moment(k, e), _rate(rate))


@lru_cache(maxsize=4096)
def renyi_laplace(order: int, ratio: Decimal | Fraction | float) -> Fraction:
    """An upper bound, in integers, on the Renyi divergence of a whole order of Laplace noise with a single ratio."""
    integer_order = _whole(order)
    return _answer(_laplace_moment(integer_order, _exact("ratio", ratio)), integer_order)


class _Up:
    """A positive number m 2^e as integers, each operation rounded up to `_BITS` bits."""

    def __init__(self, mantissa: int, exponent: int) -> None:
        drop = mantissa.bit_length() - _BITS
        if drop > 0:
            mantissa, exponent = -(-mantissa >> drop), exponent + drop
        self.mantissa, self.exponent = mantissa, exponent

    @staticmethod
    def of(numerator: int, denominator: int = 1) -> "_Up":
        scale = max(_BITS + 8 + denominator.bit_length() - numerator.bit_length(), 0)
        return _Up(-((-numerator << scale) // denominator), -scale)

    @staticmethod
    def exp(x: Fraction) -> "_Up":
        """e^x = 2^n e^(x - n log 2), the rest in [0, 1)."""
        bits = _BITS + max(abs(x.numerator).bit_length() - x.denominator.bit_length(), 0) + 8
        two = log_two(bits)
        n = math.floor(x * (1 << bits) / two[1])
        rest = x - Fraction(n * (two[0] if n > 0 else two[1]), 1 << bits)
        return _Up(exp(enclose(max(rest, Fraction(0)), bits), bits)[1], n - bits)

    def times(self, other: "_Up") -> "_Up":
        return _Up(self.mantissa * other.mantissa, self.exponent + other.exponent)

    def plus(self, other: "_Up") -> "_Up":
        large, small = (self, other) if self.top >= other.top else (other, self)
        # Twice the precision of the larger one is kept; the rest of the smaller one becomes one unit.
        low = max(min(large.exponent, small.exponent), large.top - 2 * _BITS)
        parts = [
            -(-p.mantissa << p.exponent - low if p.exponent >= low else -p.mantissa >> low - p.exponent)
            for p in (large, small)
        ]
        return _Up(sum(parts), low)

    def to_the(self, power: int) -> "_Up":
        product, base = _Up(1, 0), self
        while power:
            if power & 1:
                product = product.times(base)
            base, power = base.times(base), power >> 1
        return product

    @property
    def top(self) -> int:
        return self.mantissa.bit_length() + self.exponent


def _laplace_moment(k: int, e: Fraction) -> _Up:
    """E_Q t^k of one ratio: [k e^((k-1) e) + (k-1) e^(-k e)] / (2k - 1) for k >= 1, and 1 for k = 0."""
    if k < 2 or e == 0:
        return _Up(1, 0)
    grows, falls = _Up.exp((k - 1) * e), _Up.exp(-k * e)
    return grows.times(_Up.of(k, 2 * k - 1)).plus(falls.times(_Up.of(k - 1, 2 * k - 1)))


def _subsampled(order: int, moment: Callable[[int], _Up], rate: Fraction) -> Fraction:
    """The binomial sum of the statement, each factor and each sum rounded up."""
    take, denominator = rate.numerator, rate.denominator
    leave, all_ways = denominator - take, denominator**order
    total = _Up.of(leave**order + order * take * leave ** (order - 1), all_ways)  # k = 0 and 1: moments 1
    for k in range(2, order + 1):
        weight = math.comb(order, k) * take**k * leave ** (order - k)
        total = total.plus(moment(k).times(_Up.of(weight, all_ways)))
    return _answer(total, order)


def _subsampled_loss(order: int, loss: Loss, rate: float) -> Fraction:
    """The bound for a step with several coordinates: their moments multiply."""
    square = _exact("mu", loss.mu) ** 2
    ratios = [(_exact("ratio", float(e)), int(n)) for e, n in zip(loss.ratios, loss.counts, strict=True)]

    def moment(k: int) -> _Up:
        moment_bound = _Up.exp(square * k * (k - 1) / 2)
        for e, n in ratios:
            moment_bound = moment_bound.times(_laplace_moment(k, e).to_the(n))
        return moment_bound

    return _subsampled(_whole(order), moment, _rate(rate))


def _answer(moment: _Up, order: int) -> Fraction:
    """log(moment) / (a - 1), rounded up."""
    value = Fraction(moment.mantissa) * Fraction(2) ** moment.exponent
    if value <= 1:
        return Fraction(0)
    high = log(value, _BITS)[1]
    return Fraction(-(-high // ((order - 1) << (_BITS - _ANSWER_BITS))), 1 << _ANSWER_BITS)


def _exact(name: str, value: Decimal | Fraction | float) -> Fraction:
    arguments.real(name, float(value), least=0, cure=f"pass a finite {name}")
    if isinstance(value, (Decimal, Fraction, int)):
        return Fraction(value)
    return max(Fraction(float(value)), Fraction(repr(float(value))))


def _rate(rate: Fraction | float) -> Fraction:
    exact_rate = min(_exact("rate", rate), Fraction(1)) if float(rate) <= 1 else Fraction(2)
    if not 0 < exact_rate <= 1:
        raise ArgumentError(f"rate must be above 0 and at most 1, got {rate!r}: pass the probability of taking part.")
    return exact_rate


def _whole(order: int) -> int:
    integer = arguments.integer("order", order, least=2, cure="pass a whole Renyi order, for example order=8")
    if not integer <= LARGEST_ORDER:
        raise ArgumentError(
            f"order must be at most {LARGEST_ORDER}, got {integer}: smaller orders are what accounts need."
        )
    return integer
