"""How unequal the coordinates of a query are: the measures of Sections IV and V of the paper, on sensitivities."""

from typing import get_args

import numpy as np

from inid import arguments
from inid.arguments import Floats, choice
from inid.errors import ArgumentError
from inid.mechanisms import Mechanism
from inid.numbers.rational_sums import Counts
from inid.sets import inequality_measures as theory
from inid.sets.base import Sensitivity

__all__ = ["disparity", "gini", "majorizes", "mse_reduction"]

_CURE = "pass a Sensitivity, or one number >= 0 per coordinate"


def gini(s: object) -> float:
    """The Gini coefficient of the coordinate-wise sensitivities: 0 for equal ones, up to 1 - 1/K for a single one.

    Args:
        s: A `Sensitivity`, or a sequence of numbers >= 0.

    >>> import inid
    >>> inid.gini(inid.Sensitivity.box([1.0, 1.0, 1.0]))
    0.0
    """
    return theory.gini(*_rows(s, "s"))


def disparity(s: object) -> float:
    """The paper's nu, mean over maximum of the coordinate-wise sensitivities: 1 for equal ones, 1/K for a single one.

    Optimal noise has O(nu^2) of the MSE of i.i.d. noise (Theorem 3).

    Args:
        s: A `Sensitivity`, or a sequence of numbers >= 0.

    >>> import inid
    >>> inid.disparity(inid.Sensitivity.box([1.0, 2.0, 3.0]))
    0.6666666666666666
    """
    return theory.mean_to_max(*_rows(s, "s"))


def majorizes(a: object, b: object) -> bool:
    """Whether the profile a majorizes b: the same sum, spread more unequally (Definition 4 of the paper).

    If so, optimal Laplace noise has the smaller MSE for a (Theorem 5); the same for Gaussian noise with squared
    profiles (Theorem 4). Sums are compared up to 1e-12 relative.

    Args:
        a: A `Sensitivity`, or a sequence of numbers >= 0.
        b: Another of the same dimension.

    >>> import inid
    >>> inid.majorizes([3.0, 1.0], [2.0, 2.0])
    True
    """
    first, second = _expanded(a, "a"), _expanded(b, "b")
    if first.size != second.size:
        raise ArgumentError(f"a and b must have the same dimension, got {first.size} and {second.size}.")
    return theory.majorizes(first, second)


def mse_reduction(s: object, mechanism: str, *, baseline: str = "iid") -> float:
    """By what factor optimal noise has less MSE than a baseline, treating the coordinates as decoupled (Table I).

    Args:
        s: A `Sensitivity`, or a sequence of numbers >= 0; not all 0.
        mechanism: "gaussian" or "laplace" (under pure DP).
        baseline: "iid" or "spr".

    >>> import inid
    >>> round(inid.mse_reduction(inid.Sensitivity.box([1.0, 3.0]), "laplace"), 3)
    1.095
    """
    kind: Mechanism = "gaussian" if choice("mechanism", mechanism, get_args(Mechanism)) == "gaussian" else "laplace"
    choice("baseline", baseline, ("iid", "spr"))
    values, counts = _rows(s, "s")
    if not float(values.max()) > 0:
        raise ArgumentError("s must not be 0 everywhere: without sensitivity there is no noise to compare.")
    return theory.mse_reduction(values, kind, baseline=baseline, counts=counts)


def _rows(s: object, name: str) -> tuple[Floats, Counts | None]:
    return (s.reach, s.counts) if isinstance(s, Sensitivity) else (arguments.array(name, s, cure=_CURE), None)


def _expanded(s: object, name: str) -> Floats:
    values, counts = _rows(s, name)
    return values if counts is None else np.repeat(values, counts)
