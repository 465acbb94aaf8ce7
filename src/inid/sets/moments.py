"""How far one replaced row moves second moments (E8): an ellipsoid that is smaller than the box of their entries."""

import math

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.errors import GuaranteeError

_UP = 1 + 2.0**-48  # more than the rounding of the few operations that make a radius
_LEAST = 2.0**-200  # of the largest omega: squares and quotients of what is left stay within the floats
_NORMAL = float(np.finfo(np.float64).tiny)  # below it a product is rounded by more than `_UP` allows for


def replaced_products(
    size: Floats, omega: Floats, i: NDArray[np.intp], j: NDArray[np.intp], unit: NDArray[np.intp] | None = None
) -> Floats:
    """The radii of an ellipsoid that holds the change of all products z_i z_j, i <= j, when one row z is replaced.

    Statement (E8). Let |z_i| <= B_i in both rows, and omega > 0 with sum W. The change d_ij = z_i z_j - z'_i z'_j has
    sum over i <= j of (d_ij / r_ij)^2 <= 1 with r_ij = W B_i B_j / sqrt(omega_i omega_j) off the diagonal and
    r_ii = W B_i^2 sqrt(2 / (omega_i^2 + W omega_i)) on it. Leaving out some of the pairs leaves it true.

    Why: with u = z / B, v = z' / B and omega scaled to W = 1, the sum is (s^2 + t^2)/2 - c^2 +
    sum omega_i (u_i^2 - v_i^2)^2 / 2, s, t and c being the omega-weighted means of u^2, v^2 and u v. By Jensen s^2 <=
    sum omega u^4, so it is at most sum omega (u^4 + v^4 - u^2 v^2), and a^2 + b^2 - a b <= 1 for a, b in [0, 1].

    One-hot groups: let columns of one unit have the same B and omega, and at most one of them be different from 0 in
    each row. Then it holds with W the sum of omega over the units, r_ii = sqrt(2) W B_i^2 / omega_i for columns of a
    unit of several, and without the products of two columns of one unit. Why: in the sum above, without its last term
    for such columns, omega_i u_i^2 is then omega_i times the square of the unit's one entry.
    """
    with np.errstate(all="ignore"):  # what leaves the floats is refused below, whatever the caller has told NumPy
        shares = np.maximum(omega / omega.max(), _LEAST)
        counts = np.ones(shares.size) if unit is None else np.bincount(unit)[unit]
        total, one, two = (shares / counts).sum(), shares[i], shares[j]
        square = np.where(counts[i] > 1, math.sqrt(2) / one, np.sqrt(2 / (one**2 + total * one)))
        shape = np.where(i == j, square, 1 / np.sqrt(one * two))
        largest = size[i] * size[j]
        radii = np.asarray(largest * (total * shape * _UP))
        # A product goes from 0 to `largest`, so no true radius is below it: a condition that needs no formula.
        sound = (radii >= largest) & (largest >= _NORMAL) | (size[i] == 0) | (size[j] == 0)
    if not (np.isfinite(radii) & sound).all():
        at = int(np.argmin(np.isfinite(radii) & sound))
        raise GuaranteeError(
            f"the sensitivity of product {at}, of columns of sizes {size[i][at]:g} and {size[j][at]:g}, is beyond the "
            "range of floats: use other units or weights."
        )
    return radii
