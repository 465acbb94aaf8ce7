"""The proof that a plan keeps its promise, re-derived from the plan's own floats."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from inid.arguments import Floats
from inid.errors import GuaranteeError
from inid.mechanisms import LAPLACE, Mechanism, MechanismName, NoiseName
from inid.numbers.decimals import decimal_fraction
from inid.numbers.sums import arithmetic_used, float_up
from inid.planning.curve import laplace_delta
from inid.planning.laplace_bounds import (
    MOST_RATIOS,
    dominated,
    laplace_divergence,
    mu_squared_above,
    mu_squared_estimate,
)
from inid.promises import ApproxDP, Budget, GaussianDP, RenyiDP
from inid.sets import Cells, Sensitivity

_INTEGERS, _ROUNDING_MODEL = "integers", "rounding model"
_BY_CURVE = f"{_ROUNDING_MODEL}: the curve of the plan's own ratios, rounded up, with every error term added"


@dataclass(frozen=True)
class Certificate:
    """What was checked, in which arithmetic, against which sensitivity set and which decimal budget.

    The arithmetic begins with what decided: "integers" (no floating-point library is trusted) or "rounding model" (the
    stated error bounds of floating-point functions, added to the curve).

    >>> import inid
    >>> p = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.5), mechanism="laplace")
    >>> print(p.verify())
    Certificate: the noise keeps PureDP(epsilon=0.5).
      noise        2 independent laplace coordinates
      sensitivity  box of 2 coordinates, limits 1 to 3, neighbours: add_remove (fingerprint c626464a1235139c)
      checked      sup over the set of sum |d_i| / beta_i <= epsilon
      spent        epsilon = 0.49999999999999994 (rounded up)
      arithmetic   integers: exact rational arithmetic on the plan's own floats
    """

    promise: str
    mechanism: NoiseName
    sensitivity: Sensitivity
    statement: str
    spent: float
    arithmetic: str

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary; the set is described in words and pinned down by its fingerprint."""
        plain = {name: getattr(self, name) for name in ("promise", "mechanism", "statement", "spent", "arithmetic")}
        return plain | {
            "dimension": self.sensitivity.dimension,
            "sensitivity": str(self.sensitivity),
            "fingerprint": self.sensitivity.fingerprint,
        }

    @property
    def decided_by(self) -> str:
        """What decided: "integers" or "rounding model"."""
        return self.arithmetic.partition(":")[0]

    @property
    def noise(self) -> str:
        """How many coordinates have which noise, in words."""
        if self.mechanism == "staircase":
            return f"{self.sensitivity.dimension} coordinates of staircase noise, drawn jointly in blocks"
        return f"{self.sensitivity.dimension} independent {self.mechanism} coordinates"

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        unit = "mu^2" if self.mechanism == "gaussian" else "epsilon"
        return (
            f"Certificate: the noise keeps {self.promise}.\n"
            f"  noise        {self.noise}\n"
            f"  sensitivity  {self.sensitivity} (fingerprint {self.sensitivity.fingerprint})\n"
            f"  checked      {self.statement}\n"
            f"  spent        {unit} = {self.spent!r} (rounded up)\n"
            f"  arithmetic   {self.arithmetic}"
        )


def certify(
    sensitivity: Sensitivity, budget: Budget, mechanism: Mechanism, scales: Floats, cells: Cells
) -> Certificate:
    """Prove that noise of these scales keeps the promise."""
    spent = sensitivity.supremum(mechanism.exponent, scales, cells)
    if spent < 0:  # no sum of squares or moduli is: whatever went wrong, nothing may pass because of it
        raise GuaranteeError("what the scales spend could not be bounded; please report the arguments of this plan.")
    statement, arithmetic = _statement(budget, mechanism.name), _arithmetic(budget, mechanism.name, scales.size)
    holds = budget.admits(mechanism.name, spent)
    if not holds and mechanism is LAPLACE:
        # The sum of the ratios alone does not carry this plan; their squares or their privacy curve may.
        holds, statement, arithmetic = _beyond_the_sum(sensitivity, budget, scales, cells, statement, arithmetic)
    if not holds:
        raise GuaranteeError(
            f"the scales do not keep {budget}. They spend {float_up(spent)!r}; it does not hold that {statement}. "
            "Make a new plan instead of changing one."
        )
    return Certificate(
        promise=str(budget),
        mechanism=mechanism.name,
        sensitivity=sensitivity,
        statement=statement,
        spent=float_up(spent),
        arithmetic=arithmetic,
    )


def _beyond_the_sum(
    sensitivity: Sensitivity, budget: Budget, scales: Floats, cells: Cells, statement: str, arithmetic: str
) -> tuple[bool, str, str]:
    """Whether Laplace noise keeps a promise by more than the supremum of sum |d_i| / beta_i, and how that is proved."""
    if budget.laplace_norm is not None and budget.admits_squares(sensitivity.supremum(2, scales, cells)):
        limit = "2 rho" if budget.kind == "ZCDP" else "(2/pi) mu^2, where mu-GDP implies the promise"
        return True, f"sup over the set of sum d_i^2 / beta_i^2 <= {limit}", arithmetic
    if isinstance(budget, ApproxDP):
        reached = laplace_delta(sensitivity, scales, cells, decimal_fraction(budget.epsilon))
        statement = f"the certified privacy curve, {reached!r} at epsilon, is at most delta"
        return Fraction(reached) <= decimal_fraction(budget.delta), statement, _BY_CURVE
    if isinstance(budget, GaussianDP) and sensitivity.corner_size <= MOST_RATIOS:
        mu, ratios = decimal_fraction(budget.mu), sensitivity.ratios(scales, cells)
        if mu_squared_estimate(ratios, 1.0) <= 1.001 * budget.mu**2 and mu_squared_above(ratios) <= mu**2:
            words = "the worst ratios e have sum of (-2 Phi^-1(exp(-e/2)/2))^2 <= mu^2"
            return True, words, f"{_INTEGERS}: exp and the normal tail enclosed by integers, on the plan's own ratios"
        return dominated(ratios, mu), "the certified privacy curve lies below that of N(0, 1) and N(mu, 1)", _BY_CURVE
    if isinstance(budget, RenyiDP):
        divergence = laplace_divergence(sensitivity, scales, cells, budget.order)
        words = f"the Renyi divergence of the ratios, {divergence!r}, is at most the divergence promised"
        holds = divergence < math.inf and Fraction(divergence) <= decimal_fraction(budget.divergence)
        return holds, words, f"{_ROUNDING_MODEL}: the divergence of the plan's own ratios, with every error term added"
    return False, statement, arithmetic


def _statement(budget: Budget, mechanism: MechanismName) -> str:
    gaussian = {
        "PureDP": "no noise is needed",
        "ApproxDP": "sup over the set of sum d_i^2 / sigma_i^2 <= mu^2, where mu has phi_epsilon(mu) <= delta",
        "GaussianDP": "sup over the set of sum d_i^2 / sigma_i^2 <= mu^2",
        "ZCDP": "sup over the set of sum d_i^2 / sigma_i^2 <= 2 rho",
        "RenyiDP": "order / 2 times sup over the set of sum d_i^2 / sigma_i^2 <= divergence",
    }
    laplace = {
        "PureDP": "sup over the set of sum |d_i| / beta_i <= epsilon",
        "ApproxDP": "sup over the set of sum |d_i| / beta_i <= epsilon - 2 log(1 - delta)",
        "GaussianDP": "e = sup over the set of sum |d_i| / beta_i has 2 Q(mu/2) <= exp(-e/2)",
        "ZCDP": "e = sup over the set of sum |d_i| / beta_i has min(e, e^2 / 2) <= rho",
        "RenyiDP": "one ratio of e = sup over the set of sum |d_i| / beta_i has at most this Renyi divergence",
    }
    return (gaussian if mechanism == "gaussian" else laplace)[budget.kind]


def _arithmetic(budget: Budget, mechanism: MechanismName, terms: int) -> str:
    base = f"{_INTEGERS}: {arithmetic_used(terms)} on the plan's own floats"
    if budget.kind == "ApproxDP" and mechanism == "gaussian":
        return base + "; the normal tails enclosed by integers, to 2^-224 or finer"
    if budget.kind in ("ApproxDP", "GaussianDP") and mechanism == "laplace":
        return base + "; exp and the normal tail enclosed by integers, to 2^-320 or finer"
    return base
