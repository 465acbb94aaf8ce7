"""The promise in plain words, for readers who do not know its symbols."""

import math

from scipy.special import ndtr, ndtri

from inid.promises import ApproxDP, Budget, GaussianDP, PureDP

__all__ = ["detection_rate", "promise_in_words", "promise_name", "promise_symbols"]

_SIGNS = {"epsilon": "ε", "delta": "δ", "mu": "μ", "rho": "ρ"}
_NAMES = {
    "PureDP": "pure differential privacy",
    "ApproxDP": "(ε, δ)-differential privacy",
    "GaussianDP": "Gaussian differential privacy",
    "ZCDP": "zero-concentrated differential privacy",
    "RenyiDP": "Rényi differential privacy",
}
_FALSE_ALARMS = 0.05
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


def promise_in_words(budget: Budget, unit: str, neighbours: str) -> str:
    """One or two sentences on what a promise means for whoever is protected.

    >>> print(promise_in_words(PureDP(epsilon=1.0), "one row", "add_remove").split(". ")[1])
    A test that raises a false alarm in 5 % of cases is right about a presence in at most 13.6 % of cases.
    """
    rate = 100 * detection_rate(budget)
    places = 1 if rate < 99.9 else 3
    shown = math.ceil(rate * 10**places - 1e-9) / 10**places
    change = _CHANGES.get(neighbours, "is in the table or not")
    return (
        f"Suppose somebody who knows everything else tries to find out from these numbers whether {unit} {change}. "
        "A test that raises a false alarm in 5 % of cases is right about a presence in at most "
        f"{shown:.{places}f} % of cases."
    )


def _number(value: float) -> str:
    power = round(math.log10(value)) if value > 0 else 0
    if power <= -4 and math.isclose(value, 10.0**power):
        return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{value:g}"
