"""The promise in plain words, for readers who do not know its symbols."""

import math
from typing import NamedTuple

from scipy.special import ndtr, ndtri

from inid.promises import ApproxDP, Budget, GaussianDP, PureDP

__all__ = [
    "Belief",
    "belief_after",
    "belief_in_words",
    "detection_in_words",
    "detection_rate",
    "promise_in_words",
    "promise_name",
    "promise_symbols",
]

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
    """The numbers of a promise.

    >>> promise_symbols(ApproxDP(epsilon=1.0, delta=1e-6))
    'ε = 1, δ = 10⁻⁶'
    """
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

    >>> round(detection_rate(PureDP(epsilon=1.0)), 3), round(detection_rate(GaussianDP(mu=0.3)), 3)
    (0.136, 0.089)
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
        """How sure, in percent: whole ones below 99, then tenths.

        >>> Belief(0.7311, 0.0).percent, Belief(0.99331, 0.0).percent, Belief(0.99999, 0.0).percent
        ('73 %', '99.3 %', '100 %')
        """
        return f"{100 * self.sure:.{0 if self.sure < 0.985 else 1}f}".replace("100.0", "100") + " %"


def belief_after(budget: Budget) -> Belief:
    """What a promise leaves of an even chance: at most e^epsilon : 1, but for a chance of delta.

    Where (epsilon, delta) holds, there are two laws that keep pure epsilon-DP between them, and each real one differs
    from its own by less than delta (Dwork and Roth 2014, lemma 3.17): but for that chance the numbers are what a pure
    promise would have given. Promises without a delta are read at one in a million.

    >>> round(belief_after(PureDP(epsilon=1.0)).sure, 4), belief_after(GaussianDP(mu=0.3)).exception
    (0.7311, 1e-06)
    """
    if isinstance(budget, PureDP):
        return Belief(1 / (1 + math.exp(-budget.epsilon)), 0.0)
    pair = budget if isinstance(budget, ApproxDP) else budget.to_approx(_CHANCE)
    return Belief(1 / (1 + math.exp(-pair.epsilon)), pair.delta)


def promise_in_words(budget: Budget, unit: str, neighbours: str) -> str:
    """What a promise means for whoever is protected, for readers who know no symbol of it.

    >>> print(promise_in_words(PureDP(epsilon=1.0), "one row", "add_remove").split(". ")[1])
    After seeing all of these numbers they can be about 73 % sure at most, whatever else they know.
    """
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
    return "all but certain" if belief.percent == "100 %" else f"about {belief.percent} sure at most"


def detection_in_words(budget: Budget) -> str:
    """The same promise as a test: how many presences it finds at 5 % false alarms.

    >>> detection_in_words(PureDP(epsilon=1.0))
    'A test that raises a false alarm in 5 % of cases is right about a presence in at most 13.6 % of cases.'
    """
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
