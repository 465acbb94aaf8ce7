"""How far one replaced row moves second moments (E8): an ellipsoid that is smaller than the box of their entries."""

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats

__all__ = ["replaced_products"]

_UP = 1 + 2.0**-48  # more than the rounding of the few operations that make a radius


def replaced_products(size: Floats, omega: Floats, i: NDArray[np.intp], j: NDArray[np.intp]) -> Floats:
    """The radii of an ellipsoid that holds the change of all products z_i z_j, i <= j, when one row z is replaced.

    Statement (E8). Let |z_i| <= B_i in both rows, and omega > 0 with sum W. The change d_ij = z_i z_j - z'_i z'_j has
    sum over i <= j of (d_ij / r_ij)^2 <= 1 with r_ij = W B_i B_j / sqrt(omega_i omega_j) off the diagonal and
    r_ii = W B_i^2 sqrt(2 / (omega_i^2 + W omega_i)) on it. Leaving out some of the pairs leaves it true.

    Why: with u = z / B, v = z' / B and omega scaled to W = 1, the sum is (s^2 + t^2)/2 - c^2 +
    sum omega_i (u_i^2 - v_i^2)^2 / 2, s, t and c being the omega-weighted means of u^2, v^2 and u v. By Jensen s^2 <=
    sum omega u^4, so it is at most sum omega (u^4 + v^4 - u^2 v^2), and a^2 + b^2 - a b <= 1 for a, b in [0, 1].

    Args:
        size: B, one per column; a constant column is one of size 1.
        omega: Any positive numbers; proportional to c_i B_i they are best for Frobenius error with weights c_i c_j.
        i: The first factor of each product.
        j: The second.

    Returns:
        One radius per product, on the safe side.

    >>> replaced_products(np.ones(2), np.ones(2), np.array([0, 0, 1]), np.array([0, 1, 1])).round(3)
    array([1.633, 2.   , 1.633])
    """
    whole = omega.sum()
    across = whole * size[i] * size[j] / np.sqrt(omega[i] * omega[j])
    diagonal = whole * size[i] ** 2 * np.sqrt(2 / (omega[i] ** 2 + whole * omega[i]))
    return np.asarray(np.where(i == j, diagonal, across) * _UP)
