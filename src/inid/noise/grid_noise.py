"""The public grid, a power of two for each scale and from the scale alone, and the noise that ends on it.

Whatever is released passes `add_noise`; what it calls differs for short and for long arrays.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inid import arguments
from inid.errors import ArgumentError, RangeError
from inid.noise import compiled_draws as _compiled
from inid.noise import vector_draws as vectors
from inid.noise.exact_draws import draw, grid_exponent, nearest_steps
from inid.noise.law_tables import Law, law
from inid.noise.source import RandomSource, current_source

Floats = NDArray[np.float64]

GRID_BITS = 12
# The smallest scale whose grid step is a normal number, and the largest that leaves 2**22 scales below the limit.
SMALLEST_SCALE = 2.0**-1010
LARGEST_SCALE = 2.0**1000
# No value is taken beyond this before noise is added, whatever its scale; twice as much is still a finite float.
FARTHEST = 2.0**1022
# Chunks stay in the second-level cache. Below the second number compiling would take longer than it saves.
_CHUNK = 1 << 14
_WORTH_COMPILING = 1 << 16
# Up to this scale no limit is lowered to `FARTHEST`; beyond, values are held to it before they are scaled.
WIDE = 2.0**980
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
    """The grid step of each coordinate: the power of two in (scale / 2**13, scale / 2**12]; 0 where the scale is 0."""
    exponents = np.frexp(check_scales(scales))[1] - 1
    return np.where(np.asarray(scales) == 0, 0.0, np.ldexp(1.0, exponents - bits))


def effective_scales(scales: ArrayLike) -> Floats:
    """The scales of the noise that `add_noise` really adds: exactly those asked for, every bit of them.

    The fast arithmetic is approximate, but it only ever decides what the exact arithmetic would decide with the 53-bit
    scale, so nothing is rounded.
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


def add_noise(
    values: ArrayLike,
    scales: ArrayLike,
    mechanism: Literal["laplace", "gaussian"],
    source: RandomSource | None = None,
    *,
    compiled: bool | None = None,
) -> Floats:
    """Round values + noise to the public grid, coordinate by coordinate, with noise of the exact continuous law.

    Coordinate i of the result is the multiple of `grid(scales)[i]` nearest to values[i] + T_i, where the T_i are
    independent and continuous: Laplace with scale scales[i], or Gaussian with standard deviation scales[i]. The values
    are not rounded first, so the result is a function of what the textbook mechanism would release, and inherits its
    guarantee.
    """
    name = arguments.choice("mechanism", mechanism, ("laplace", "gaussian"))
    widths = check_scales(scales)
    drawn_from = current_source() if source is None else source
    return noisy(_checked_values(values, widths.size), widths, law(name), drawn_from, compiled=compiled)


def noisy(values: Floats, scales: Floats, table: Law, source: RandomSource, *, compiled: bool | None = None) -> Floats:
    """The same for checked arrays and any layout."""
    if source.recorder is not None:
        again = partial(noisy, values, scales, table, compiled=compiled)
        recorded: Floats = source.recorder.drawn(table.name, values, scales, again)
        return recorded
    exact = None if scales.min() > 0 else scales == 0
    if exact is not None:
        # Coordinates of scale 0 have zero sensitivity. They are drawn like the others, then put back.
        scales = np.where(exact, 1.0, scales)
    with np.errstate(all="ignore"):
        limited = np.clip(values, -FARTHEST, FARTHEST) if scales.max() > WIDE else values
        if source.silent:
            out = _on_grid(limited, scales, table)
        else:
            out = _chunked(limited, scales, table, source, _first_draws(values.size, compiled))
    if exact is not None:
        most = np.finfo(np.float64).max
        out[exact] = np.nan_to_num(values[exact], nan=0.0, posinf=most, neginf=-most) + 0.0
    return out


_Kernel = Callable[..., NDArray[np.intp]]


def _first_draws(size: int, compiled: bool | None) -> _Kernel:
    if compiled is None:
        compiled = size >= _WORTH_COMPILING and _compiled.available()
    return _compiled.first_draws if compiled else vectors.first_draws


def _chunked(values: Floats, scales: Floats, table: Law, source: RandomSource, kernel: _Kernel) -> Floats:
    out = np.empty_like(values)
    size = min(_CHUNK, values.size)
    words, scratch = np.empty(size, np.uint64), vectors.Scratch.of_size(size)
    open_ends, open_words = [], []
    for start in range(0, values.size, size):
        end = min(start + size, values.size)
        words_of_chunk = source.fill(words[: end - start])
        rest = kernel(
            values[start:end], scales[start:end], words_of_chunk, table, out[start:end], scratch.cut(end - start)
        )
        open_ends.append(rest + start)
        open_words.append(words_of_chunk[rest])
    where, last_words = np.concatenate(open_ends), np.concatenate(open_words)
    if where.size:
        scales_left = scales[where]
        finished = np.empty(where.size)
        most = limits(scales_left, bits=table.layout.grid_bits)
        vectors.settle(values[where], scales_left, most, last_words, table, source, finished)
        out[where] = finished
    return out


def _on_grid(values: Floats, scales: Floats, table: Law) -> Floats:
    """The values on their grid without noise, for tests: halves go up."""
    steps = grid(scales, bits=table.layout.grid_bits)
    most = limits(scales, bits=table.layout.grid_bits)
    scaled = np.clip(np.where(np.isnan(values), 0.0, values), -most, most) / steps
    floors = np.floor(scaled)
    rounded: Floats = (floors + (scaled - floors >= 0.5)) * steps + 0.0
    return rounded


def _checked_values(values: object, size: int) -> Floats:
    """Values as a float64 array of the right shape; their contents are never inspected and never shown."""
    cure = f"pass one number for each of the {size} scales"
    if isinstance(values, np.ma.MaskedArray):
        raise ArgumentError("values must not be a masked array: fill the masked entries with a public value first.")
    try:
        raw = np.asarray(values)
    except Exception:  # noqa: BLE001 - any converter may raise anything, and its message may hold data
        raise ArgumentError(f"values must be a flat sequence of numbers: {cure}.") from None
    if raw.dtype.kind not in "iuf":
        raise ArgumentError(f"values must hold real numbers, got entries of type {raw.dtype.name}: {cure}.")
    if raw.shape != (size,):
        raise ArgumentError(f"values must have shape ({size},), got {raw.shape}: {cure}.")
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(raw, dtype=np.float64)


# Noise on numbers of any length, in whole grid steps: for sums over time, which float64 does not hold exactly.


def noisy_steps(
    values: Sequence[Fraction], scales: Floats, mechanism: Literal["laplace", "gaussian"], source: RandomSource
) -> list[int]:
    """What `add_noise` releases, as numbers of steps of `grid(scales)`, for exact numbers that no float need hold.

    Entry i, times its grid step, is the multiple nearest to values[i] + T_i with T_i of the exact continuous law. The
    values are neither rounded nor held to a limit before: the result is a function of what the textbook mechanism
    releases, and inherits its guarantee.
    """
    if source.recorder is not None:
        again = partial(noisy_steps, values, scales, mechanism)
        recorded: list[int] = source.recorder.drawn(mechanism, values, scales, again)
        return recorded
    table = law(mechanism)
    steps = []
    for value, scale in zip(values, check_scales(scales).tolist(), strict=True):
        if source.silent:
            steps.append(_nearest_step(value, grid_exponent(scale, GRID_BITS)))
        else:
            steps.append(nearest_steps(value, scale, draw(table, source), GRID_BITS))
    return steps


def _nearest_step(value: Fraction, exponent: int) -> int:
    """The nearest step without noise, for tests: halves go up."""
    scaled = value / Fraction(2) ** exponent
    return (scaled + Fraction(1, 2)).__floor__()
