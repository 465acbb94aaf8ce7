"""Does a sample follow the law that it should? Pearson's chi-square test against exact probabilities."""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from inid.noise import grid
from inid.testing.laws import interval_mass

__all__ = ["chi_square", "fit_to_law"]

Floats = NDArray[np.float64]

_LEAST_EXPECTED = 20.0


def chi_square(counts: ArrayLike, probabilities: ArrayLike) -> float:
    """The p-value of observed counts under exact probabilities, which must add up to 1.

    Neighbouring classes are merged until each expects at least 20, so that the p-value can be trusted down to about
    1e-9. A law that is right gives p < q with probability q.

    >>> chi_square([498, 502], [0.5, 0.5]) > 0.5, chi_square([400, 600], [0.5, 0.5]) < 1e-9
    (True, True)
    """
    seen = np.asarray(counts, np.float64)
    chances = np.asarray(probabilities, np.float64)
    if not abs(chances.sum() - 1.0) < 1e-9:
        raise ValueError(f"the probabilities must add up to 1, got {chances.sum():.12g}.")
    expected = chances * seen.sum()
    # A class ends where the running expectation has grown by enough; a short last class joins the one before.
    starts, held = [0], 0.0
    for at, more in enumerate(expected[:-1].tolist(), start=1):
        held += more
        if held >= _LEAST_EXPECTED:
            starts.append(at)
            held = 0.0
    if len(starts) > 1 and expected[starts[-1] :].sum() < _LEAST_EXPECTED:
        starts.pop()
    merged, hoped = np.add.reduceat(seen, starts), np.add.reduceat(expected, starts)
    statistic = float(((merged - hoped) ** 2 / hoped).sum())
    return float(special.chdtrc(max(len(starts) - 1, 1), statistic))


def fit_to_law(
    samples: ArrayLike, mechanism: str, value: float, scale: float, *, step: float | None = None, classes: int = 100
) -> float:
    """The p-value of released numbers under the exact law of one coordinate.

    >>> from inid.noise import add_noise
    >>> from inid.testing.sources import unsafe_seed
    >>> with unsafe_seed(1):
    ...     released = add_noise(np.full(100_000, 2.5), np.full(100_000, 3.0), "laplace")
    >>> fit_to_law(released, "laplace", 2.5, 3.0) > 1e-3, fit_to_law(released, "laplace", 2.5, 3.2) < 1e-9
    (True, True)
    """
    width = float(grid([scale])[0]) if step is None else step
    ratio = width / scale
    whole = np.rint(value / width)
    rest = value / width - whole
    away = np.asarray(samples, np.float64) / width - whole
    # Edges half way between grid points, spread evenly over the middle and finely over the tails.
    reach = 14.0 if mechanism == "laplace" else 6.0
    edges = np.unique(np.round(np.linspace(-reach, reach, classes - 1) / ratio)) + 0.5
    counts = np.bincount(np.searchsorted(edges, away), minlength=edges.size + 1)
    bounds = np.concatenate([[-np.inf], (edges - rest) * ratio, [np.inf]])
    return chi_square(counts, interval_mass(mechanism, bounds[:-1], bounds[1:]))
