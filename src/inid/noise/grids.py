"""The public grid on which values are released: a power of two for each scale, from the scale alone."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inid import arguments
from inid.errors import RangeError

__all__ = [
    "FARTHEST",
    "GRID_BITS",
    "LARGEST_SCALE",
    "SMALLEST_SCALE",
    "check_scales",
    "effective_scales",
    "grid",
    "limits",
]

Floats = NDArray[np.float64]

GRID_BITS = 12
# The smallest scale whose grid step is a normal number, and the largest that leaves 2**22 scales below the limit.
SMALLEST_SCALE = 2.0**-1010
LARGEST_SCALE = 2.0**1000
# No value is taken beyond this before noise is added, whatever its scale; twice as much is still a finite float.
FARTHEST = 2.0**1022
_CURE = "pass one finite scale of at least 0 for each coordinate"


def check_scales(scales: ArrayLike) -> Floats:
    """A clean array of scales, each 0 or inside the range that the grid can serve.

    >>> check_scales([0.0, 1.5])
    array([0. , 1.5])
    >>> check_scales([1.5, 1e-306])
    Traceback (most recent call last):
    inid.errors.RangeError: scales[1] = 1e-306 has no grid of normal floats: rescale the values so that every scale is
    0 or between 9.11e-305 and 1.07e+301.
    """
    # Copying a long array costs a tenth of the noise, so one that is clean already is used as it is.
    plain = isinstance(scales, np.ndarray) and scales.dtype == np.float64 and scales.ndim == 1 and scales.size > 0
    if isinstance(scales, np.ndarray) and plain and scales.flags.c_contiguous and _served(scales):
        return scales
    checked = arguments.array("scales", scales, cure=_CURE)
    if not _served(checked):
        served = (checked == 0) | ((checked >= SMALLEST_SCALE) & (checked <= LARGEST_SCALE))
        if not served.all():
            at = int(np.argmin(served))
            raise RangeError(
                f"scales[{at}] = {checked[at]:g} has no grid of normal floats: rescale the values so that every scale "
                f"is 0 or between {SMALLEST_SCALE:.3g} and {LARGEST_SCALE:.3g}."
            )
    return checked


def _served(scales: Floats) -> bool:
    return bool(scales.min() >= SMALLEST_SCALE and scales.max() <= LARGEST_SCALE)


def grid(scales: ArrayLike, *, bits: int = GRID_BITS) -> Floats:
    """The grid step of each coordinate: the power of two in (scale / 2**13, scale / 2**12]; 0 where the scale is 0.

    >>> (grid([1.0, 1.9, 2.0, 0.0]) * 2**12).tolist()
    [1.0, 1.0, 2.0, 0.0]
    """
    exponents = np.frexp(check_scales(scales))[1] - 1
    return np.where(np.asarray(scales) == 0, 0.0, np.ldexp(1.0, exponents - bits))


def effective_scales(scales: ArrayLike) -> Floats:
    """The scales of the noise that `add_noise` really adds: exactly those asked for, every bit of them.

    The fast arithmetic is approximate, but it only ever decides what the exact arithmetic would decide with the 53-bit
    scale, so nothing is rounded.

    >>> bool(effective_scales([0.1])[0] == 0.1)
    True
    """
    return check_scales(scales).copy()


def limits(scales: ArrayLike, *, bits: int = GRID_BITS) -> Floats:
    """How far from zero a value may lie: 2**52 grid steps (at least 2**39 scales, fewer only for scales above 1e295).

    Values beyond are moved to the limit before noise is added, and results beyond twice the limit to twice the limit.
    Where the scale is 0 the limit is the largest float.

    >>> float(limits([1.0])[0]) == 2.0**40
    True
    """
    checked = check_scales(scales)
    steps = grid(checked, bits=bits)
    with np.errstate(over="ignore"):
        return np.where(checked == 0, np.finfo(np.float64).max, np.minimum(steps * 2.0**52, FARTHEST))
