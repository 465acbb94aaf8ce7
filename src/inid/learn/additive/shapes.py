"""Shape functions: noisy means by bin, smoothed as far as they suggest, with the law of what is left uncertain.

**Smoothing.** With a the means by bin, of independent errors of variances V, and f the shape, a prior of precision
P / t is taken for f: P sums the squares of differences of neighbouring bins over their distance (a random walk), or, of
categories, the squares of differences from their mean. f given a is then normal, of precision V^-1 + P / t. Scales t
are weighted by the likelihood of a, so what is not known of t is part of the intervals. All of this is made of released
numbers, and costs nothing.

**Intervals.** Along a direction in which the means are a, of variance 1, and the shape is f, the smoothed mean k a has
the squared error k^2 + (1 - k)^2 f^2 on average. The law has t / b for f^2, which makes it k (Wahba 1983, Nychka 1988).
That is too little for a shape that has most of its f in few directions, as a line has, the more as every pass smooths
again what the last one left. So a^2 - 1, whose mean is f^2, takes the place of t / b where it is larger.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.isotonic import isotonic_regression

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.figures import BLUE, COLOURS, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SCALES = np.geomspace(1e-5, 10.0, 19)  # of the prior, beside the square of the means
_TINY = 1e-9


@dataclass(frozen=True, eq=False)
class Shape:
    """What a column, or a pair of columns, adds to a prediction, in units of the link (logits, logarithms).

    Attributes:
        columns: The name of the column, or of both.
        edges: For each of them the edges of its bins, or the list of its categories.
        values: One number per bin; of a pair a row per bin of the first column. Of more than two labels, the last axis
            is that of the labels.
        standard_errors: Of each value, of noise and sampling; of a pair too.
        shares: The part of the rows in each bin, as released; of a pair None.
    """

    columns: tuple[str, ...]
    edges: tuple[Any, ...]
    values: Floats
    standard_errors: Floats
    shares: Floats | None = None

    @property
    def importance(self) -> float:
        """The root mean square of the values over the rows; of a pair over its cells."""
        squares = np.square(self.values).reshape(len(self.values), -1)
        return float(np.sqrt(np.average(squares, axis=0, weights=self.shares).mean()))

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """The ends of intervals of the values, of noise, sampling and smoothing, which hold so many of all bins.

        They hold fewer of correlated columns with loss="poisson": the passes end before such shapes are told apart.
        """
        rest = 1 - real("level", level, above=0, cure="pass a probability such as 0.95")
        if not rest > 0:
            raise ArgumentError(f"level must be a probability below 1, got {shown(level)}: pass 0.95, say.")
        reach = -float(ndtri(rest / 2)) * self.standard_errors
        return self.values - reach, self.values + reach

    def plot(self, ax: "Axes | None" = None, level: float = 0.95, label: int = 0) -> "Axes":
        """Draw the shape with its intervals, or the table of a pair; of many labels that at one place."""
        ax = new_axes(ax)
        pick = (..., label) if self.values.ndim > len(self.columns) else ...
        if len(self.columns) == 2:
            extreme = float(np.abs(self.values).max()) or 1.0
            ax.imshow(self.values[pick].T, origin="lower", aspect="auto", cmap="RdBu", vmin=-extreme, vmax=extreme)
            ax.set(xlabel=f"{self.columns[0]} (bin)", ylabel=f"{self.columns[1]} (bin)")
            return ax
        (edges,), (low, high) = self.edges, self.interval(level)
        if isinstance(edges, np.ndarray):
            ax.stairs(self.values[pick], edges, color=BLUE, baseline=None)
            ax.stairs(high[pick], edges, baseline=low[pick], fill=True, color=BLUE, alpha=0.2, linewidth=0)
        else:
            places = np.arange(len(edges))
            ax.vlines(places, low[pick], high[pick], color=COLOURS[0], linewidth=2)
            ax.plot(places, self.values[pick], linestyle="", marker="o", color=COLOURS[0])
            ax.set_xticks(places, [str(one) for one in edges])
        ax.axhline(0.0, color="#888888", linewidth=0.8)
        ax.set(xlabel=self.columns[0], ylabel="effect")
        return ax


def roughness(size: int, places: Floats | None) -> Floats:
    """The matrix P of a prior: of a random walk over places, or of independent categories about their mean."""
    if places is None:
        return np.asarray(np.eye(size) - 1.0 / size)
    steps = np.diff(places)
    walk = np.diff(np.eye(size), axis=0)
    return np.asarray(walk.T @ (walk * (steps.mean() / steps)[:, None])) if size > 1 else np.zeros((1, 1))


def smoothed(means: Floats, variances: Floats, prior: Floats) -> tuple[Floats, Floats]:
    """What the means suggest, and the covariance of its errors: over scales, each as likely as it makes the means.

    In units of the errors' deviations the roughness has eigenvalues b, and along its eigenvectors the means have the
    variance 1 + t / b, or none that is known where b is 0. So no scale needs more than a few products.
    """
    deviations = np.sqrt(variances)
    roots, vectors = np.linalg.eigh(prior * deviations * deviations[:, None])
    rough = roots > _TINY * max(float(roots[-1]), np.finfo(np.float64).tiny)
    along = vectors.T @ (means / deviations)
    if not rough.any() or not np.abs(along[rough]).max() > 0:
        scales = np.zeros(1)
    else:
        scales = _SCALES * float(np.average(np.square(means - means.mean()), weights=1 / variances))
    kept = np.ones((len(scales), len(roots)))
    kept[:, rough] = scales[:, None] / (scales[:, None] + roots[rough])
    likelihoods = 0.5 * (np.log(1 - kept[:, rough]) - (1 - kept[:, rough]) * np.square(along[rough])).sum(axis=1)
    weights = np.exp(np.maximum(likelihoods - likelihoods.max(), -100.0))
    weights /= weights.sum()
    estimates = (kept * along) @ vectors.T * deviations
    mean = weights @ estimates
    basis = vectors * deviations[:, None]
    errors = weights @ np.maximum(kept, np.square(kept) + np.square(1 - kept) * (np.square(along) - 1))
    return mean, (basis * errors) @ basis.T + ((estimates - mean).T * weights) @ (estimates - mean)


def monotone(values: Floats, variances: Floats, direction: int) -> Floats:
    """The nearest values that do not fall (1), or do not rise (-1)."""
    return np.asarray(isotonic_regression(values, sample_weight=1 / variances, increasing=direction > 0))


def merged_bins(counts: Floats, least: float) -> NDArray[np.intp]:
    """Which bin each fine level is in: neighbours are merged until a bin has as many rows as stated, about."""
    bins, at, rows = np.zeros(len(counts), dtype=np.intp), 0, 0.0
    for level, count in enumerate(counts):
        if rows >= least:
            at, rows = at + 1, 0.0
        bins[level] = at
        rows += count
    if at > 0 and rows < least / 2:
        bins[bins == at] = at - 1
    return bins


def equal_groups(counts: Floats, groups: int) -> NDArray[np.intp]:
    """At most so many groups of neighbouring bins with about as many rows each."""
    before = np.cumsum(counts) - counts / 2
    places = np.minimum((before / counts.sum() * groups).astype(np.intp), groups - 1)
    return np.asarray(np.unique(places, return_inverse=True)[1], dtype=np.intp)
