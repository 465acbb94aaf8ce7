"""Numbers and promises as people read them."""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scipy.special import ndtr, ndtri

from inid.promises import ApproxDP, Budget, GaussianDP, PureDP

Three = tuple[float | None, float | None, float | None]
_MOST_DIGITS = 4  # of a number with decimals: 38.64, not 38.6421


def plain_number(value: float, digits: int = 5) -> str:
    """A number with a few digits, thousands apart, and no exponent where it can be helped."""
    if value == 0 or not abs(value) < 1e15:
        return f"{value:g}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    if abs(value) < 1e-5:
        return f"{value:.{digits}g}"
    rounded = f"{value:.{digits}g}"
    return rounded if "e" not in rounded else f"{value:f}"


def plain_ratio(ratio: float) -> str:
    """A ratio with three digits.

    >>> plain_ratio(1.0), plain_ratio(185.2), plain_ratio(36_912_345.0), plain_ratio(3.5e12)
    ('1.00', '185', '36,900,000', '3.5e+12')
    """
    if ratio < 100:
        return f"{ratio:.2f}"
    return f"{float(f'{ratio:.3g}'):,.0f}" if ratio < 1e9 else f"{ratio:.2g}"


def rounded_interval(estimate: float | None, lower: float | None, upper: float | None) -> tuple[str, str, str]:
    """An estimate and the ends of its interval, rounded to two digits of the interval's half width.

    Three whole numbers stay whole.
    """
    if estimate is None or lower is None or upper is None:
        return "-" if estimate is None else plain_number(estimate), "-", "-"
    if all(abs(value) < 2**53 and value == int(value) for value in (estimate, lower, upper)):
        return f"{estimate:,.0f}", f"{lower:,.0f}", f"{upper:,.0f}"
    half = (upper - lower) / 2
    if not 0 < half < 1e300:
        return f"{estimate:.6g}", f"{lower:.6g}", f"{upper:.6g}"
    places = min(max(0, 1 - math.floor(math.log10(half))), 12)
    return f"{estimate:,.{places}f}", f"{lower:,.{places}f}", f"{upper:,.{places}f}"


@dataclass(frozen=True)
class Digits:
    """How the numbers of one table are printed: with equally many decimals, or as shares in percent."""

    places: int | None
    percent: bool = False
    integral: bool = False

    def three(self, numbers: Three) -> tuple[str, str, str]:
        """An estimate and the ends of its interval, which are rounded outwards; a dash for what is not there."""
        middle, low, high = numbers
        places = 0 if self.integral else self.places
        return self._one(middle, round, places), self._one(low, math.floor), self._one(high, math.ceil)

    def _one(self, number: float | None, way: Callable[[float], int], places: int | None = -1) -> str:
        if number is None:
            return "-"
        x, places = 100 * number if self.percent else number, self.places if places == -1 else places
        if places is not None:
            unit = 10.0**places
            near = round(x * unit)
            exact = abs(x * unit - near) <= 1e-9 * max(1.0, abs(near))  # 0.1 + 0.2 is no reason to go one up
            x = (near if exact else way(x * unit)) / unit + 0.0
        text = plain_number(x) if places is None else f"{x:,.{places}f}"
        return f"{text} %" if self.percent else text


def digits_for(
    intervals: Sequence[Three], *, integral: bool = False, percent: bool = False, levels: bool = False
) -> Digits:
    """As many decimals as the noise of most of these numbers leaves any meaning to, and four digits at most."""
    known = [interval for interval in intervals if None not in interval]
    finite = [(a or 0.0, b or 0.0, c or 0.0) for a, b, c in known]
    if integral or (finite and all(abs(x) < 2**53 and x == int(x) for interval in finite for x in interval)):
        return Digits(0, percent)
    factor = 100 if percent else 1
    halves = [factor * (high - low) / 2 for _, low, high in finite]
    largest = max((factor * abs(x) for interval in finite for x in interval), default=0.0)
    half = statistics.median(halves) if halves else 0.0
    if not 0 < half < 1e300 or not 0 < largest < 1e300:
        return Digits(None, percent)
    useful, most = 1 - math.floor(math.log10(half)), _MOST_DIGITS - 1 - levels - math.floor(math.log10(largest))
    even = levels and all(middle == int(middle) for middle, _, _ in finite)
    return Digits(min(max(0, useful), max(0, most), 12), percent, even)


_SIGNS = {"epsilon": "ε", "delta": "δ", "mu": "μ", "rho": "ρ"}
_NAMES = {
    "PureDP": "pure differential privacy",
    "ApproxDP": "(ε, δ)-differential privacy",
    "GaussianDP": "Gaussian differential privacy",
    "ZCDP": "zero-concentrated differential privacy",
    "RenyiDP": "Rényi differential privacy",
}
_FALSE_ALARMS = 0.05
_CHANCE = 1e-6  # at which a promise without a delta of its own is put in words
_DELTAS = [10.0**power for power in range(-9, -1)]
_CHANGES = {
    "add_remove": "is in the table or not",
    "replace": "is in the table or was replaced by another",
    "zero_out": "adds to these numbers or adds nothing, 0 to every sum and every count",
}


def promise_symbols(budget: Budget) -> str:
    """The numbers of a promise."""
    numbers = ((name, value) for name, value in budget.to_dict().items() if name != "kind")
    return ", ".join(f"{_SIGNS.get(name, name)} = {_number(value)}" for name, value in numbers)


def promise_name(budget: Budget) -> str:
    """What kind of promise it is."""
    return _NAMES.get(budget.kind, budget.kind)


def detection_rate(budget: Budget) -> float:
    """How often the best test that is wrong in 5 % of the cases of absence can be right about a presence, at most.

    With false alarms at rate a, (epsilon, delta)-DP bounds the detections by e^epsilon a + delta and by
    1 - e^-epsilon (1 - a - delta) (Wasserman and Zhou 2010; Kairouz, Oh and Viswanath 2015), mu-Gaussian DP by
    Phi(Phi^-1(a) + mu) (Dong, Roth and Su 2022). Other promises imply (epsilon, delta) at every delta: the least of
    several bounds is one.
    """
    if isinstance(budget, GaussianDP):
        return float(ndtr(ndtri(_FALSE_ALARMS) + budget.mu))
    if isinstance(budget, PureDP):
        pairs = [(budget.epsilon, 0.0)]
    elif isinstance(budget, ApproxDP):
        pairs = [(budget.epsilon, budget.delta)]
    else:
        pairs = [(budget.to_approx(delta).epsilon, delta) for delta in _DELTAS]
    rates = [1.0]
    for epsilon, delta in pairs:
        factor = math.exp(min(epsilon, 700.0))
        rates += [factor * _FALSE_ALARMS + delta, 1 - (1 - _FALSE_ALARMS - delta) / factor]
    return max(min(rates), _FALSE_ALARMS)


class Belief(NamedTuple):
    """How sure somebody can become who thought it an even chance, and how likely the statement does not apply."""

    sure: float
    exception: float

    @property
    def percent(self) -> str:
        """How sure, in percent: whole ones below 99, then tenths."""
        return f"{100 * self.sure:.{0 if self.sure < 0.985 else 1}f}".replace("100.0", "100") + " %"

    @property
    def words(self) -> str:
        """The same in words: nobody is 100 % sure."""
        return "all but certain" if self.percent == "100 %" else f"{self.percent} sure"


def belief_after(budget: Budget) -> Belief:
    """What a promise leaves of an even chance: at most e^epsilon : 1, but for a chance of delta.

    Where (epsilon, delta) holds, there are two laws that keep pure epsilon-DP between them, and each real one differs
    from its own by less than delta (Dwork and Roth 2014, lemma 3.17): but for that chance the numbers are what a pure
    promise would have given. Promises without a delta are read at one in a million.
    """
    if isinstance(budget, PureDP):
        return Belief(1 / (1 + math.exp(-budget.epsilon)), 0.0)
    pair = budget if isinstance(budget, ApproxDP) else budget.to_approx(_CHANCE)
    return Belief(1 / (1 + math.exp(-pair.epsilon)), pair.delta)


def promise_in_words(budget: Budget, unit: str, neighbours: str) -> str:
    """What a promise means for whoever is protected, for readers who know no symbol of it."""
    change = _CHANGES.get(neighbours, _CHANGES["add_remove"])
    belief = belief_after(budget)
    exception = f" There is a chance of {_chance(belief.exception)} that this fails." if belief.exception else ""
    return (
        f"Suppose somebody thinks it an even chance whether {unit} {change}. After seeing all of these numbers they "
        f"can be {_limit(belief)}, whatever else they know.{exception}"
    )


def belief_in_words(budget: Budget) -> str:
    """How sure somebody can be under a promise who thought it an even chance.

    >>> belief_in_words(ApproxDP(epsilon=1.0, delta=1e-6))
    'about 73 % sure at most'
    """
    return _limit(belief_after(budget))


def _limit(belief: Belief) -> str:
    return belief.words if belief.percent == "100 %" else f"about {belief.words} at most"


def detection_in_words(budget: Budget) -> str:
    """The same promise as a test: how many presences it finds at 5 % false alarms."""
    rate = 100 * detection_rate(budget)
    places = 1 if rate < 99.9 else 3
    shown = math.ceil(rate * 10**places - 1e-9) / 10**places
    return (
        "A test that raises a false alarm in 5 % of cases is right about a presence in at most "
        f"{shown:.{places}f} % of cases."
    )


def _chance(probability: float) -> str:
    """A small probability as one in many."""
    return f"1 in {math.floor(1 / probability):,}" if probability > 1e-12 else _number(probability)


def _number(value: float) -> str:
    power = round(math.log10(value)) if value > 0 else 0
    if power <= -4 and math.isclose(value, 10.0**power):
        return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value:g}"
