"""Adding noise to values: `add_noise` and what it calls for short and for long arrays."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from inid import arguments
from inid.errors import ArgumentError
from inid.noise import compiled_draws as _compiled
from inid.noise import grids as gridding
from inid.noise import vector_draws as vectors
from inid.noise.law_tables import Law, law
from inid.noise.source import RandomSource, current_source

__all__ = ["WIDE", "add_noise", "noisy"]

Floats = NDArray[np.float64]

# Chunks stay in the second-level cache. Below the second number compiling would take longer than it saves.
_CHUNK = 1 << 14
_WORTH_COMPILING = 1 << 16
# Up to this scale no limit is lowered to `FARTHEST`; beyond, values are held to it before they are scaled.
WIDE = 2.0**980


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

    Args:
        values: One number per coordinate, taken as float64. NaN counts as 0; numbers beyond `limits(scales)` count as
            the limit.
        scales: One number per coordinate. Where it is 0 the value is returned as it is, except that NaN becomes 0.
        mechanism: "laplace" or "gaussian".
        source: Where randomness comes from; `current_source()` by default.
        compiled: Use the compiled loop or not; by default, when numba is installed and the arrays are long.

    Raises:
        ArgumentError: The arrays are not one-dimensional, of real numbers and of one length, or a scale is not finite.
        RangeError: A scale has no grid; nothing has been drawn.

    >>> from inid.noise import grid
    >>> released = add_noise([10.0, 20.0], [1.0, 0.5], "laplace")
    >>> (released / grid([1.0, 0.5]) % 1).tolist()
    [0.0, 0.0]
    """
    name = arguments.choice("mechanism", mechanism, ("laplace", "gaussian"))
    widths = gridding.check_scales(scales)
    drawn_from = current_source() if source is None else source
    return noisy(_checked_values(values, widths.size), widths, law(name), drawn_from, compiled=compiled)


def noisy(values: Floats, scales: Floats, table: Law, source: RandomSource, *, compiled: bool | None = None) -> Floats:
    """The same for checked arrays and any layout.

    >>> noisy(np.zeros(4), np.ones(4), law("gaussian"), current_source()).shape
    (4,)
    """
    exact = None if scales.min() > 0 else scales == 0
    if exact is not None:
        # Coordinates of scale 0 have zero sensitivity. They are drawn like the others, then put back.
        scales = np.where(exact, 1.0, scales)
    with np.errstate(all="ignore"):
        held = np.clip(values, -gridding.FARTHEST, gridding.FARTHEST) if scales.max() > WIDE else values
        if source.silent:
            out = _on_grid(held, scales, table)
        else:
            out = _chunked(held, scales, table, source, _first_draws(values.size, compiled))
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
        drawn = source.fill(words[: end - start])
        rest = kernel(values[start:end], scales[start:end], drawn, table, out[start:end], scratch.cut(end - start))
        open_ends.append(rest + start)
        open_words.append(drawn[rest])
    where, held = np.concatenate(open_ends), np.concatenate(open_words)
    if where.size:
        own = scales[where]
        finished = np.empty(where.size)
        most = gridding.limits(own, bits=table.layout.grid_bits)
        vectors.settle(values[where], own, most, held, table, source, finished)
        out[where] = finished
    return out


def _on_grid(values: Floats, scales: Floats, table: Law) -> Floats:
    """The values on their grid without noise, for tests: halves go up."""
    steps = gridding.grid(scales, bits=table.layout.grid_bits)
    most = gridding.limits(scales, bits=table.layout.grid_bits)
    scaled = np.clip(np.where(np.isnan(values), 0.0, values), -most, most) / steps
    whole = np.floor(scaled)
    rounded: Floats = (whole + (scaled - whole >= 0.5)) * steps + 0.0
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
