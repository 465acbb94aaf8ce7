"""The promise: PureDP, ApproxDP, GaussianDP, ZCDP, RenyiDP, and every valid step from one to another.

A budget's number is the decimal that the user wrote, `Decimal(repr(x))`. Checks compare against that decimal exactly.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, Self

from inid.arguments import decimal_float, integer, shown
from inid.curves.renyi import LARGEST_ORDER, renyi_laplace
from inid.errors import ArgumentError, BudgetError, RangeError, RecordError
from inid.mechanisms import MechanismName, gaussian, laplace
from inid.numbers.decimals import decimal_fraction, decimal_up, sqrt_down
from inid.numbers.rounding import last_float
from inid.numbers.sums import float_down

_WIDE = 500
_EPSILON_CURE = "pass a positive privacy budget, for example epsilon=1.0"
_DELTA_CURE = "pass a small probability such as delta=1e-6, or promise PureDP for delta = 0"


@dataclass(frozen=True)
class Budget(ABC):
    """A promise of differential privacy: what one release, or one ledger, may spend."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def gaussian_mu(self) -> float:
        """The largest Gaussian parameter that keeps this promise, a float on the safe side."""

    @property
    def mu_squared(self) -> Fraction:
        """The largest mu^2 with which Gaussian noise keeps this promise: what plans, charges and ledgers compare with.

        It is at least the square of `gaussian_mu`, which is a float.
        """
        return Fraction(self.gaussian_mu) ** 2

    @property
    @abstractmethod
    def laplace_epsilon(self) -> float:
        """The largest sup sum |d_i|/beta_i with which Laplace noise keeps this promise, a float on the safe side."""

    @property
    def laplace_norm(self) -> float | None:
        """A root of sup sum d_i^2 / beta_i^2 with which Laplace noise keeps this promise, on the safe side; or None."""
        return None

    def admits_squares(self, spent: Fraction) -> bool:
        """Whether Laplace noise with sup sum d_i^2 / beta_i^2 = `spent` keeps this promise; True is a proof."""
        return self.laplace_norm is not None and spent <= Fraction(self.laplace_norm) ** 2

    @abstractmethod
    def admits(self, mechanism: MechanismName, spent: Fraction) -> bool:
        """Whether noise that spends so much keeps this promise; True is a proof.

        Args:
            mechanism: "gaussian" (`spent` is mu squared) or "laplace" (`spent` is epsilon).
            spent: A supremum over the sensitivity set, or a bound above it.
        """

    @abstractmethod
    def to_approx(self, delta: float) -> "ApproxDP":
        """The (epsilon, delta)-DP that this promise implies at a given delta."""

    def to_pure(self) -> "PureDP":
        """The pure DP that this promise implies; only PureDP implies any."""
        raise BudgetError(
            f"{self} does not imply pure differential privacy for any epsilon: "
            "plan with PureDP (Laplace noise), or state the promise as it is."
        )

    def to_gaussian(self) -> "GaussianDP":
        """The Gaussian DP that this promise implies, where it implies one."""
        raise BudgetError(
            f"{self} does not imply Gaussian differential privacy for any mu: "
            "promise GaussianDP or PureDP instead, or convert to (epsilon, delta) with to_approx(delta)."
        )

    def to_zcdp(self) -> "ZCDP":
        """The zero-concentrated DP that this promise implies, where it implies one."""
        raise BudgetError(
            f"{self} does not imply zero-concentrated differential privacy for any rho: "
            "promise ZCDP, GaussianDP or PureDP instead."
        )

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary from which `budget_from_dict` makes the same budget."""
        return {"kind": self.kind} | {f.name: getattr(self, f.name) for f in fields(self)}

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in fields(self))})"


@dataclass(frozen=True)
class PureDP(Budget):
    """Pure epsilon-differential privacy.

    >>> PureDP(epsilon=1.0).to_approx(delta=1e-6).epsilon
    0.9999986321196233
    """

    epsilon: float
    kind: ClassVar[str] = "PureDP"

    def __post_init__(self) -> None:
        _store(self, epsilon=decimal_float("epsilon", self.epsilon, above=0, cure=_EPSILON_CURE))

    @property
    def gaussian_mu(self) -> float:
        raise BudgetError(
            f"Gaussian noise cannot keep {self}: its privacy loss is unbounded. "
            'Use mechanism="laplace", or promise ApproxDP(epsilon=..., delta=...), GaussianDP or ZCDP.',
            code="gaussian_pure",
        )

    @property
    def laplace_epsilon(self) -> float:
        return float_down(decimal_fraction(self.epsilon))

    def admits(self, mechanism: MechanismName, spent: Fraction) -> bool:
        if mechanism == "gaussian":
            return spent == 0
        return spent <= decimal_fraction(self.epsilon)

    def to_approx(self, delta: float) -> "ApproxDP":
        delta = _delta(delta)
        return ApproxDP(laplace.pure_as_approx(self.epsilon, delta), delta)

    def to_pure(self) -> Self:
        return self

    def to_gaussian(self) -> "GaussianDP":
        return GaussianDP(laplace.pure_as_gaussian(self.epsilon))

    def to_zcdp(self) -> "ZCDP":
        return ZCDP(decimal_up(decimal_fraction(self.epsilon) ** 2 / 2, "rho"))


@dataclass(frozen=True)
class ApproxDP(Budget):
    """(epsilon, delta)-differential privacy.

    >>> ApproxDP(epsilon=1.0, delta=1e-6).mu
    0.2367043806634357
    """

    epsilon: float
    delta: float = None  # type: ignore[assignment]  # refused: there is no default
    kind: ClassVar[str] = "ApproxDP"

    def __post_init__(self) -> None:
        cure = "pass a privacy budget of 0 or more, for example epsilon=1.0"
        epsilon = decimal_float("epsilon", self.epsilon, least=0, cure=cure)
        _store(self, epsilon=epsilon, delta=_delta(self.delta))

    @property
    def mu(self) -> float:
        """mu_0, the Gaussian parameter that this promise affords: the largest float that certainly keeps it."""
        return gaussian.mu_of(self.epsilon, self.delta)

    @property
    def gaussian_mu(self) -> float:
        return self.mu

    @property
    def mu_squared(self) -> Fraction:
        return gaussian.mu_squared_of(self.epsilon, self.delta)

    @property
    def laplace_epsilon(self) -> float:
        return laplace.epsilon_in_approx(self.epsilon, self.delta)

    @property
    def laplace_norm(self) -> float:
        return laplace.norm_in_gaussian(Fraction(self.mu))

    def admits(self, mechanism: MechanismName, spent: Fraction) -> bool:
        if mechanism == "gaussian":
            return spent <= self.mu_squared
        return laplace.laplace_within_approx(decimal_fraction(self.epsilon), decimal_fraction(self.delta), spent)

    def to_approx(self, delta: float) -> "ApproxDP":
        if not _delta(delta) >= self.delta:
            raise BudgetError(f"{self} says nothing about delta={delta!r}: ask for a delta of at least {self.delta!r}.")
        return ApproxDP(self.epsilon, delta)


@dataclass(frozen=True)
class GaussianDP(Budget):
    """mu-Gaussian differential privacy (Dong, Roth and Su 2022): as hard to break as telling N(0, 1) from N(mu, 1).

    >>> GaussianDP(mu=1.0).to_approx(delta=1e-6).epsilon
    4.886554117462212
    """

    mu: float
    kind: ClassVar[str] = "GaussianDP"

    def __post_init__(self) -> None:
        _store(self, mu=decimal_float("mu", self.mu, above=0, cure="pass a positive parameter, for example mu=0.3"))

    @property
    def gaussian_mu(self) -> float:
        return float_down(decimal_fraction(self.mu))

    @property
    def mu_squared(self) -> Fraction:
        return decimal_fraction(self.mu) ** 2

    @property
    def laplace_epsilon(self) -> float:
        return laplace.epsilon_in_gaussian(self.mu)

    @property
    def laplace_norm(self) -> float:
        return laplace.norm_in_gaussian(decimal_fraction(self.mu))

    def admits(self, mechanism: MechanismName, spent: Fraction) -> bool:
        if mechanism == "gaussian":
            return spent <= self.mu_squared
        return laplace.laplace_within_gaussian(spent, decimal_fraction(self.mu))

    def to_approx(self, delta: float) -> "ApproxDP":
        delta = _delta(delta)
        return ApproxDP(gaussian.epsilon_of(decimal_fraction(self.mu), delta), delta)

    def to_gaussian(self) -> Self:
        return self

    def to_zcdp(self) -> "ZCDP":
        return ZCDP(decimal_up(decimal_fraction(self.mu) ** 2 / 2, "rho"))


@dataclass(frozen=True)
class ZCDP(Budget):
    """rho-zero-concentrated differential privacy (Bun and Steinke 2016).

    >>> ZCDP(rho=0.1).to_approx(delta=1e-6).epsilon < 2.3
    True
    """

    rho: float
    kind: ClassVar[str] = "ZCDP"

    def __post_init__(self) -> None:
        _store(self, rho=decimal_float("rho", self.rho, above=0, cure="pass a positive parameter, for example rho=0.1"))

    @property
    def gaussian_mu(self) -> float:
        return sqrt_down(self.mu_squared)

    @property
    def mu_squared(self) -> Fraction:
        return 2 * decimal_fraction(self.rho)

    @property
    def laplace_epsilon(self) -> float:
        # An epsilon-DP mechanism has Renyi divergence at most min(epsilon, a epsilon^2 / 2) at every order a > 1 (Bun
        # and Steinke 2016, Proposition 3.3), so it is zCDP with rho = min(epsilon, epsilon^2 / 2).
        return max(self.gaussian_mu, float_down(decimal_fraction(self.rho)))

    @property
    def laplace_norm(self) -> float:
        # Each coordinate alone is |d_i|/beta_i-DP, and divergences of independent coordinates add up: at every order a
        # the divergence is at most a sum d_i^2 / beta_i^2 / 2. So Laplace scales may be what Gaussian ones may.
        return self.gaussian_mu

    def admits_squares(self, spent: Fraction) -> bool:
        return spent <= self.mu_squared

    def admits(self, mechanism: MechanismName, spent: Fraction) -> bool:
        rho = decimal_fraction(self.rho)
        return spent <= self.mu_squared if mechanism == "gaussian" else spent**2 <= 2 * rho or spent <= rho

    def to_approx(self, delta: float) -> "ApproxDP":
        delta = _delta(delta)
        return ApproxDP(_zcdp_epsilon(self.rho, delta), delta)

    def to_zcdp(self) -> Self:
        return self


@dataclass(frozen=True)
class RenyiDP(Budget):
    """Renyi differential privacy of one whole order (Mironov 2017): the divergence of that order is at most a number.

    What a part of a ledger promises when it is counted in Renyi divergences: at one order they add up, whatever the
    noise and however later releases depend on earlier ones.

    >>> RenyiDP(order=9, divergence=0.5).to_approx(delta=1e-6).epsilon < 1.9
    True
    """

    order: int
    divergence: float
    kind: ClassVar[str] = "RenyiDP"

    def __post_init__(self) -> None:
        order = integer("order", self.order, least=2, cure="pass a whole Renyi order, for example order=8")
        object.__setattr__(self, "order", order)
        cure = "pass a positive divergence, for example divergence=0.5"
        _store(self, divergence=decimal_float("divergence", self.divergence, above=0, cure=cure))

    @property
    def gaussian_mu(self) -> float:
        return sqrt_down(self.mu_squared)

    @property
    def mu_squared(self) -> Fraction:
        return 2 * decimal_fraction(self.divergence) / self.order

    @property
    def laplace_epsilon(self) -> float:
        # (k e - log 2) / k <= R_a(e) <= a e^2 / 2 with k = a - 1: the guess is near the root at both ends.
        limit = self.divergence
        guess = max(math.sqrt(2 * limit / self.order), limit)
        return last_float(lambda e: e <= 0 or self.admits("laplace", Fraction(e)), guess)

    def admits(self, mechanism: MechanismName, spent: Fraction) -> bool:
        if mechanism == "gaussian":
            return spent <= self.mu_squared
        limit = decimal_fraction(self.divergence)
        # Among all ratios with one sum a single one has the largest divergence (E5).
        if min(spent, self.order * spent**2 / 2) <= limit:
            return True
        # Divergences above _WIDE are near e itself, and too large to be worth an exponential of theirs.
        return self.order <= LARGEST_ORDER and spent <= 2 * _WIDE and renyi_laplace(self.order, spent) <= limit

    def to_approx(self, delta: float) -> "ApproxDP":
        delta = _delta(delta)
        value, size = _renyi_epsilon(self.divergence, float(self.order - 1), delta)
        return ApproxDP(max(value + 2.0**-48 * size, 0.0), delta)


_KINDS: dict[str, type[Budget]] = {kind.kind: kind for kind in (PureDP, ApproxDP, GaussianDP, ZCDP, RenyiDP)}


def budget_from_dict(record: object) -> Budget:
    """The budget that `Budget.to_dict` described."""
    if not isinstance(record, Mapping):
        raise RecordError(f"a budget's record must be a dictionary, got {shown(record)}.")
    name = record.get("kind")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise RecordError(f"unknown kind of budget {shown(record.get('kind'))}: known are {', '.join(_KINDS)}.")
    names = {f.name for f in fields(kind)}
    if set(record) != names | {"kind"}:
        raise RecordError(f"a record of {kind.kind} must hold exactly {', '.join(sorted(names))} and kind.")
    try:
        return kind(**{name: record[name] for name in names})
    except ArgumentError as error:
        raise RecordError(f"the budget's record does not parse: {error}") from None


def _delta(value: object) -> float:
    if value is None:
        raise ArgumentError(f"delta must be stated, got None: {_DELTA_CURE}.")
    delta = decimal_float("delta", value, above=0, cure=_DELTA_CURE)
    if not delta < 1:
        raise ArgumentError(f"delta must be a probability below 1, got {shown(value)}: {_DELTA_CURE}.")
    return delta


def _store(budget: Budget, **numbers: float) -> None:
    for name, value in numbers.items():
        object.__setattr__(budget, name, value)


def _renyi_epsilon(divergence: float, less: float, delta: float) -> tuple[float, float]:
    """The epsilon that a divergence of order a = 1 + less implies, and the size of its terms.

    R + log(1 - 1/a) - (log delta + log a)/(a - 1): Proposition 12 of Canonne, Kamath and Steinke (2020).
    """
    terms = (divergence, -math.log1p(1 / less), -(math.log(delta) + math.log1p(less)) / less)
    return math.fsum(terms), math.fsum(map(abs, terms))


def _zcdp_epsilon(rho: float, delta: float) -> float:
    """Epsilon = inf over a > 1 of a rho + log(1 - 1/a) - (log delta + log a)/(a - 1), rounded up.

    Proposition 12 of Canonne, Kamath and Steinke (2020). Every order a gives a valid epsilon, so the search need not be
    exact; the value at the order found is raised by more than its rounding error.
    """

    def at(t: float) -> tuple[float, float]:  # t = log(a - 1)
        less = math.exp(t)
        return _renyi_epsilon(rho * (1 + less), less, delta)

    low, high = -30.0, 700.0
    for _ in range(200):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, right) if at(left)[0] <= at(right)[0] else (left, high)
    value, size = at((low + high) / 2)
    if not size < math.inf:
        raise RangeError(f"epsilon for rho={rho!r} and delta={delta!r} is not a float: state a smaller rho.")
    return max(value + 2.0**-48 * size, 0.0)
