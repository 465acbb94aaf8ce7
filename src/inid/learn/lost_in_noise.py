"""Whether what a model has learned can be told from noise, judged by what was released: it costs nothing to say so.

Every judgement here compares released numbers with the known size of their noise, so it is as private as they are: no
value of the data enters. Sums of squares of d numbers, each divided by the standard deviation of its noise, would
follow the chi-squared law of d degrees of freedom if there were nothing but noise. A chance of more than 1 in 1000
to see as large a sum by noise alone is called doubt, and told.
"""

import math
import warnings
from typing import Any

import numpy as np
from scipy.special import chdtrc

from inid.arguments import Floats

__all__ = [
    "NoisyFitWarning",
    "believed_part",
    "chance_of_classes",
    "chance_of_coefficients",
    "doubt_of",
    "doubt_of_centres",
    "doubt_of_components",
    "noise_of_steps",
    "warn_of_noise",
]

_CURE = "spend more budget, state tighter bounds, use fewer columns or more rows"
_CHANCE = 0.001
_THOUGHT = 0.1  # the variance of a model's logarithms that is thought of before the fit
_TINY = 1e-9  # so that nothing is divided by 0
_BELIEVED = 0.1  # of a linear model's coefficients: with less of them it is nearly a constant


class NoisyFitWarning(UserWarning):
    """What was released is hardly more than noise, and the model hardly more than a constant.

    Judged by released numbers alone, so the warning tells nothing that they do not.
    """


def chance_of_classes(sums: Floats, counts: Floats, spread: Floats | float) -> float:
    """The chance that noise alone makes the classes as different as released.

    If all classes had the same mean m of a column, the sum S_k of class k, of n_k rows, would be n_k m and noise. With
    m = n.S / n.n, which fits best, S - n m is the projection of the noise to what is orthogonal to n: the sum of the
    squares of (S_k - n_k m) / spread over classes and columns is then chi-squared with (classes - 1) x columns degrees
    of freedom (about, where noise is Laplace's, or n is noisy itself).

    Args:
        sums: The noisy sums of the columns, a row for each class.
        counts: The number of rows of each class.
        spread: The noise's standard deviation in each sum, or in those of each column.

    >>> counts = np.array([50.0, 50.0])
    >>> chance_of_classes(np.array([[3.0], [-3.0]]), counts, 10.0) > 0.5
    True
    >>> chance_of_classes(np.array([[40.0], [-40.0]]), counts, 10.0) < 1e-6
    True
    """
    apart = sums - np.outer(counts, counts @ sums / (counts @ counts))
    return float(chdtrc((len(sums) - 1) * sums.shape[1], ((apart / spread) ** 2).sum()))


def noise_of_steps(steps: Floats, kept: Floats, passes: int, averaged: int) -> Floats:
    """The standard deviation of noise in what a descent finds, column by column.

    A step adds noise of standard deviation `steps` to a coefficient, of which every later pass keeps a part c. The mean
    over the last A of L passes has of the noise of pass l the part (1/A) sum over t of c^(t - l), t >= l being one of
    those passes. (About: c is a guess from mean squares, and columns are taken one by one.)

    Args:
        steps: The noise of one step in each coefficient.
        kept: c, column by column.
        passes: L.
        averaged: A.

    >>> noise_of_steps(np.ones(2), np.array([0.0, 1.0]), 4, 1).tolist()
    [1.0, 2.0]
    """
    at = np.arange(passes)[:, None]
    first = np.maximum(at, passes - averaged)  # the sum over t from here is a geometric series
    rest = np.where(kept < 1, 1 - kept, 1.0)
    series = np.where(kept < 1, (1 - kept ** (passes - first)) / rest, passes - first)
    return np.asarray(steps * np.sqrt(((kept ** (first - at) * series / averaged) ** 2).sum(axis=0)))


def chance_of_coefficients(found: Floats, noise: Floats) -> float:
    """The chance that noise alone moves coefficients as far as released; 0 are the penalty's doing, and say nothing.

    Args:
        found: The coefficients, a row for each output.
        noise: Its standard deviation, column by column.

    >>> chance_of_coefficients(np.array([[1.5, 0.5]]), np.ones(2)) > 0.01
    True
    >>> chance_of_coefficients(np.array([[9.0, 0.5]]), np.ones(2)) < 1e-6
    True
    """
    used = found != 0
    return float(chdtrc(int(used.sum()), ((found / noise)[used] ** 2).sum())) if used.any() else 0.0


def believed_part(found: Floats, noise: Floats, variances: Floats, come: Floats) -> float:
    """What the coefficients of a logarithmic model are multiplied by, between 0 and 1.

    Coefficients w with noise e move predictions by Q = sum of a_i w_i^2 and V = sum of a_i e_i^2 on average, a_i being
    the variances of the columns (which are taken one by one). The factor of the least mean square error is w.w° /
    (Q + V), weighted by a_i, for the best coefficients w°. Q + V is what is seen, the noise is known, and a descent
    that has come a part k_i of its way has w_i = k_i w°_i, about. Where noise is large that estimate is noise itself;
    so the factor is at most q / (q + V), Q being thought to be q = 0.1 beforehand, or what is seen beyond V and three
    standard deviations of it where that is more. It goes to 1 as noise goes to 0.

    Args:
        found: The coefficients.
        noise: Its standard deviation in each.
        variances: a.
        come: k; 0 where there is nothing to find.

    >>> one = np.ones(2)
    >>> believed_part(np.array([0.5, -0.5]), one, one, one)
    0.0
    >>> round(believed_part(np.array([0.5, -0.5]), 0.1 * one, one, one), 3)
    0.955
    """
    seen, alone = found**2 * variances, noise**2 * variances
    noisy = float(alone.sum())
    surely = float(seen.sum()) - noisy - 3 * math.sqrt(2 * float((alone**2).sum()))
    most = max(_THOUGHT, surely) / (max(_THOUGHT, surely) + noisy)
    if not seen.sum() > 0:
        return most
    return min(max(float(((seen - alone) / np.maximum(come, _TINY)).sum() / seen.sum()), 0.0), most)


def doubt_of_centres(centres: Floats, counts: Floats, unit: Floats, sums: Floats | float, numbers: float) -> str | None:
    """Why the centres of k-means may be worse than one centre for all rows, None if they are not.

    Moving from the mean of all rows to the exact means m_k of clusters takes B = sum of n_k |m_k - m|^2 off the squared
    distances. Centres with noise e_k give back L = sum of n_k |e_k|^2, and what is seen, sum of n_k |m_k + e_k - m|^2,
    is B + L on average. So the gain B - L is what is seen less 2 L. The noise in a mean is that of its sum, and its own
    size times that of the number, over the number.

    Args:
        centres: As released, in units in which the bounds are -1 and 1.
        counts: The noisy numbers of rows, positive.
        unit: The unit of each column.
        sums: The noise's standard deviation in each sum, or in those of each column.
        numbers: The same in each number.

    >>> counts, unit = np.array([50.0, 50.0]), np.ones(1)
    >>> doubt_of_centres(np.array([[-0.5], [0.5]]), counts, unit, 5.0, 5.0) is None
    True
    >>> doubt_of_centres(np.array([[-0.5], [0.5]]), counts, unit, 40.0, 40.0) is None
    False
    """
    mean = counts @ centres / counts.sum()
    seen = float((counts[:, None] * (centres - mean) ** 2 * unit**2).sum())
    errors = np.minimum((sums**2 + centres**2 * numbers**2) / counts[:, None] ** 2, 1.0)
    lost = float((counts[:, None] * errors * unit**2).sum())
    if len(centres) == 1 or seen > 2 * lost:
        return None
    return "the centres are no further apart than noise alone puts them, and one centre for all rows may do better"


def doubt_of_components(values: Floats, kept: int, noise: float) -> str | None:
    """Why the components of PCA may hold less than half of the variance that as many could, None if they do not.

    A symmetric M x M matrix of independent noise of standard deviation s turns an eigenvalue v of a large matrix into
    v + M s^2 / v, and its eigenvector by an angle of cosine squared 1 - M s^2 / v^2, if v > s sqrt(M); a smaller one
    cannot be told from noise (Benaych-Georges and Nadakuditi 2011). So the eigenvalues seen say what they were, and
    what the eigenvectors hold of them. An eigenvalue that cannot be told is thought of as half of the limit.

    Args:
        values: The eigenvalues of the noisy matrix, in decreasing order.
        kept: How many components are kept.
        noise: s.

    >>> doubt_of_components(np.array([5.0, 0.1, -0.1]), 1, 0.5) is None
    True
    >>> doubt_of_components(np.array([1.5, 0.1, -1.5]), 1, 0.5) is None
    False
    """
    limit = noise * np.sqrt(len(values))
    if kept == len(values) or not limit > 0:
        return None
    top = values[:kept]
    told = top > 2 * limit
    was = np.where(told, (top + np.sqrt(np.where(told, top**2 - 4 * limit**2, 0.0))) / 2, limit / 2)
    held = np.where(told, 1 - (limit / was) ** 2, 0.0)
    if float((was * held).sum()) >= 0.5 * float(was.sum()):
        return None
    return f"less than half of the variance that {kept} of {len(values)} components can hold is expected in these"


def doubt_of(model: Any) -> str | None:
    """What is to be told of a fitted model in one sentence and its cure, None if it stands out of its noise."""
    if getattr(model, "_doubt", None) is not None:
        return f"{model._doubt}: {_CURE}."  # noqa: SLF001 - what k-means and PCA found out about themselves
    believed, chance = getattr(model, "shrinkage_", None), getattr(model, "noise_chance_", 0.0)
    if believed is not None and not float(np.min(believed)) >= _BELIEVED:
        lost = int((believed < _BELIEVED).sum())
        what = "the model is" if lost == len(believed) else f"the models of {lost} of {len(believed)} targets are"
        return f"the coefficients are lost in noise, and {what} (nearly) a constant (shrinkage_ near 0): {_CURE}."
    if chance > _CHANCE:
        return (
            f"noise alone would make as much of the columns with a chance of {chance:.2g}, and the model may do no "
            f"better than a constant: {_CURE}."
        )
    return None


def warn_of_noise(model: Any) -> None:
    """Warn of a fit that is hardly more than noise, once everything that was paid for is kept."""
    doubt = doubt_of(model)
    if doubt is not None and not getattr(model, "_of_search", False):
        warnings.warn(f"{type(model).__name__} is a noisy fit: {doubt}", NoisyFitWarning, stacklevel=3)
