"""How high a noisy count must be for its key to appear, and with which probability one person's keys appear after all.

Every key of the table gets a noisy count; the keys with a noisy count of at least tau are published with it. A person
has up to k keys. Of the t keys that nobody else has, the c_1, ..., c_t >= 1 rows of this person are all there is. With
F the distribution function of the noise, none of these keys appears with probability prod F(tau - c_i), and

    delta_t = max over all such persons of 1 - prod F(tau - c_i)

    counting rows     c_1 + ... + c_t <= m     max over t <= min(k, m) of 1 - F(tau - m + t - 1) F(tau - 1)^(t - 1)
    counting people   c_i = 1                  1 - F(tau - 1)^k

*Why the maximum is there.* log F is concave for Gaussian and for Laplace noise. So for a given t the sum of
log F(tau - c_i) is least at a corner of {c_i >= 1, sum c_i <= m}: one key with m - t + 1 rows, the others with one. As
a function of t it is concave too (log F of a linear function, plus a linear one): least at t = 1 or at the largest t.
(The obvious k Q((tau - 1) / sigma), for persons with one row per key, understates delta_t many times.)

*What is promised.* Let P be the law of what is published from a table, P' that with one person more. On the event that
none of the t new keys appears, P' is (1 - delta_t) G', where G' and P = G are noise on the same keys whose exact counts
differ by this person's rows on keys that others have: what the plan of the noise covers. So

    P'(S) <= delta_t + (1 - delta_t) G'(S)      and      P(S) = G(S) with (1 - delta_t) G' <= P':

but for a part of mass delta_t, each law is to the other as the noise allows: the noise's own promise, and delta_t taken
from a ledger's reserve beside it (docs/explanations/ledger.md). "Hidden with probability 1 - delta_t" is per person.
Under "replace", some keys may vanish and others appear: with delta and delta' of the two, both laws have a part of mass
1 - max(delta, delta') that is noise on the keys they share, so the larger one counts, and each is at most delta_t.

*The noise that is covered.* All counts move together by at most (`reach`)

    counting      l2 (Gaussian)               l1 (Laplace)
    rows          m, replace sqrt(2) m        m, replace 2 m        all rows may lie on one key
    people        sqrt(k), replace sqrt(2k)   k, replace 2 k

whatever the number of keys, which is not public. So the plan is that of one number that moves by so much. For Gaussian
noise only the length of the shift matters. For Laplace noise let W(s) be the probability of any set S of outcomes when
the counts have moved by s, along any path: |dW/ds_i| = |E 1_S sign(x_i - s_i)| / b <= min(W, 1 - W) / b, and the
distribution function of one Laplace noise attains that bound: no shift of the same l1 length is easier to detect.

*Rounding.* Noisy counts are rounded to the nearest multiple of the grid's step g, and tau is a multiple of it. So a key
appears when its count plus continuous noise is at least tau - g/2: that stands for tau above.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from inid.mechanisms import MechanismName
from inid.noise import grid
from inid.numbers.decimals import decimal_fraction
from inid.numbers.enclosures import enclose, exp, tail_bounds
from inid.sets import Neighbours

__all__ = ["Contribution", "exposure", "threshold"]

_BITS = 128
_FAR = 1000  # e^-1000 is below every delta that a float can hold


@dataclass(frozen=True)
class Contribution:
    """What one person can add: rows on several keys, or one for each of several keys.

    Attributes:
        keys: The most keys that one person has.
        rows: The most rows that one person has.
        people: Whether people are counted, each once per key, and not rows.
    """

    keys: int
    rows: int
    people: bool

    @property
    def most_keys(self) -> int:
        """The most keys that one person can have: each takes a row."""
        return min(self.keys, self.rows)

    def reach(self, mechanism: MechanismName, neighbours: Neighbours) -> float:
        """How far one person moves all counts together, in the norm of a kind of noise; never below the truth.

        >>> person = Contribution(keys=3, rows=5, people=True)
        >>> person.reach("laplace", "add_remove"), round(person.reach("gaussian", "replace"), 3)
        (3.0, 2.449)
        """
        twice = 2 if neighbours == "replace" else 1
        if mechanism == "laplace":
            return float(twice * (self.most_keys if self.people else self.rows))
        square = twice * (self.most_keys if self.people else self.rows**2)
        root = math.isqrt(square)
        return float(root) if root * root == square else math.nextafter(math.sqrt(square), math.inf)

    @property
    def worst(self) -> list[list[tuple[int, int]]]:
        """The persons among whom the one with the most exposed keys is: (rows on a key, how many such keys)."""
        most = self.most_keys
        if self.people or most == 1:
            return [[(1, most)] if self.people else [(self.rows, 1)]]
        return [[(self.rows, 1)], [(self.rows - most + 1, 1), (1, most - 1)]]


def exposure(
    person: Contribution, mechanism: MechanismName, scale: float, tau: Fraction, bits: int = _BITS
) -> Fraction:
    """A rational bound from above on delta_t: that some key which only one person has appears.

    Args:
        person: What one person can add.
        mechanism: The kind of noise.
        scale: Its scale.
        tau: What a count with continuous noise must reach for its key to appear.
        bits: The precision of the bound, in binary digits after the point.

    >>> person = Contribution(keys=3, rows=3, people=False)
    >>> f"{float(exposure(person, 'gaussian', 1.0, Fraction(7))):.5g}"  # three rows on one key: Q(4)
    '3.1671e-05'
    """
    kept = [
        _product([(_below((tau - rows) / Fraction(scale), mechanism, bits), keys) for rows, keys in shape], bits)
        for shape in person.worst
    ]
    return 1 - min(kept)


@lru_cache(maxsize=256)
def threshold(person: Contribution, mechanism: MechanismName, scale: float, delta: float) -> float:
    """The least multiple of the grid's step at which keys of one person appear with probability delta at most.

    >>> person = Contribution(keys=1, rows=1, people=True)
    >>> round(threshold(person, "laplace", 1.0, 1e-8), 2), round(threshold(person, "gaussian", 4.0, 1e-8), 2)
    (18.73, 23.45)
    """
    step, wanted = Fraction(float(grid([scale])[0])), decimal_fraction(delta)
    bits = _BITS + max(0, wanted.denominator.bit_length() - wanted.numerator.bit_length())

    def holds(steps: int) -> bool:
        return exposure(person, mechanism, scale, (steps - Fraction(1, 2)) * step, bits) <= wanted

    low, high = 0, 1 << 16
    while not holds(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return float(high * step)


def _below(x: Fraction, mechanism: MechanismName, bits: int) -> Fraction:
    """A rational that is certainly at most F(x), for noise of scale 1."""
    if mechanism == "gaussian":
        return 1 - tail_bounds(x, bits)[1] if x >= 0 else tail_bounds(-x, bits)[0]
    if abs(x) > _FAR:
        return 1 - Fraction(1, 1 << 1440) if x > 0 else Fraction(0)
    low, high = exp(enclose(abs(x), bits), bits)
    return 1 - Fraction(1 << bits, 2 * low) if x >= 0 else Fraction(1 << bits, 2 * high)


def _product(factors: list[tuple[Fraction, int]], bits: int) -> Fraction:
    """The product of powers of numbers in [0, 1], each step rounded down to a multiple of 2^-(2 bits)."""
    fine = 2 * bits
    found = 1 << fine
    for base, power in factors:
        factor = (base.numerator << fine) // base.denominator
        for digit in reversed(f"{power:b}"):
            found = found * factor >> fine if digit == "1" else found
            factor = factor * factor >> fine
    return Fraction(found, 1 << fine)
