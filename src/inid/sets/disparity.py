"""How unequal the coordinates of a query are, and what that is worth: Sections IV and V of the paper."""

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from inid import arguments
from inid.arguments import Floats, choice
from inid.errors import ArgumentError
from inid.mechanisms import Mechanism, MechanismName
from inid.numbers.sums import Counts, log2, log2_sum
from inid.sets.base import Sensitivity

_CURE = "pass a Sensitivity, or one number >= 0 per coordinate"
_TOLERANCE = 1e-12  # sums that are equal as numbers seldom are as floats


@np.errstate(under="ignore")
def gini(s: Sensitivity | ArrayLike) -> float:
    """The Gini coefficient of the coordinate-wise sensitivities, sum_ij |x_i - x_j| / (2 K sum x), in K log K.

    0 for equal ones (and for zeros), up to 1 - 1/K when one coordinate is everything.

    Args:
        s: A `Sensitivity`, or a sequence of numbers >= 0.

    >>> import inid
    >>> inid.gini(inid.Sensitivity.box([1.0, 1.0, 1.0])), inid.gini([0.0, 0.0, 0.0, 1.0])
    (0.0, 0.75)
    """
    values, counts = _runs(s, "s")
    order = np.argsort(values, kind="stable")
    top = float(values[order[-1]])
    if top == 0:
        return 0.0
    x = values[order] / top
    times = np.ones(x.size) if counts is None else counts[order].astype(np.float64)
    # sum_ij |x_i - x_j| = 2 sum_i x_i (how many are below - how many are above), runs counted at their middle
    below = np.cumsum(times) - times
    size = float(times.sum())
    return float(((2 * below + times - size) * times) @ x) / (size * float(x @ times))


@np.errstate(under="ignore")
def disparity(s: Sensitivity | ArrayLike) -> float:
    """The paper's nu, mean over maximum of the coordinate-wise sensitivities: 1 for equal ones, 1/K for a single one.

    nu = |lambda|_1 / (K max lambda); a profile of zeros has nu = 1.
    Optimal noise has O(nu^2) of the MSE of i.i.d. noise (Theorem 3).

    Args:
        s: A `Sensitivity`, or a sequence of numbers >= 0.

    >>> import inid
    >>> inid.disparity(inid.Sensitivity.box([1.0, 2.0, 3.0]))
    0.6666666666666666
    """
    values, counts = _runs(s, "s")
    top = float(values.max())
    if top == 0:
        return 1.0
    scaled = values / top
    return float(scaled.mean() if counts is None else scaled @ counts / counts.sum())


def majorizes(a: Sensitivity | ArrayLike, b: Sensitivity | ArrayLike) -> bool:
    """Whether the profile a majorizes b: the same sum, spread more unequally (Definition 4 of the paper).

    That is, the l largest entries of a sum to at least those of b for every l. If so, optimal Laplace noise has the
    smaller MSE for a (Theorem 5); the same for Gaussian noise with squared profiles (Theorem 4). Sums are compared up
    to 1e-12 relative.

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
    top = max(float(first.max()), float(second.max())) or 1.0
    sums = [np.cumsum(-np.sort(-values / top)) for values in (first, second)]
    slack = _TOLERANCE * max(float(sums[0][-1]), float(sums[1][-1]), 1.0)
    return bool((sums[0] >= sums[1] - slack).all() and abs(float(sums[0][-1] - sums[1][-1])) <= slack)


@np.errstate(under="ignore")
def mse_reduction(
    s: Sensitivity | ArrayLike, mechanism: MechanismName, *, baseline: Literal["iid", "spr"] = "iid"
) -> float:
    """By what factor optimal noise has less MSE than a baseline, treating the coordinates as decoupled (Table I).

    With the mechanism's exponent q, in units of its own constant and budget, the MSE of a box is
    (sum lambda^(2q/(2+q)))^((2+q)/q) for optimal noise, K (sum lambda^q)^(2/q) for i.i.d. noise and
    K^(2/q) sum lambda^2 for the equal split ("spr"); for Gaussian noise the two baselines are equal.

    Args:
        s: A `Sensitivity`, or a sequence of numbers >= 0; not all 0.
        mechanism: "gaussian" or "laplace" (under pure DP).
        baseline: "iid" or "spr".

    >>> import inid
    >>> round(inid.mse_reduction(inid.Sensitivity.box([1.0, 3.0]), "laplace"), 3)
    1.095
    >>> round(inid.mse_reduction(range(1, 21), "gaussian"), 4)
    1.3016
    """
    q = Mechanism.named(mechanism).exponent
    choice("baseline", baseline, ("iid", "spr"))
    values, counts = _runs(s, "s")
    if not float(values.max()) > 0:
        raise ArgumentError("s must not be 0 everywhere: without sensitivity there is no noise to compare.")
    logs = log2(values)
    size = math.log2(values.size if counts is None else int(counts.sum()))
    optimal = (2 + q) / q * log2_sum(2 * q / (2 + q) * logs, counts)
    if baseline == "spr":
        return float(2.0 ** (2 / q * size + log2_sum(2 * logs, counts) - optimal))
    return float(2.0 ** (size + 2 / q * log2_sum(q * logs, counts) - optimal))


def _runs(s: object, name: str) -> tuple[Floats, Counts | None]:
    return (s.reach, s.counts) if isinstance(s, Sensitivity) else (arguments.array(name, s, cure=_CURE), None)


def _expanded(s: object, name: str) -> Floats:
    values, counts = _runs(s, name)
    return values if counts is None else np.repeat(values, counts)
