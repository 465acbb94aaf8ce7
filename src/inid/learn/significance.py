"""Whether a model can be told from noise, judged by released numbers and the known size of their noise: this is free.

Sums of squares of d numbers, each over the standard deviation of its noise, are chi-squared with d degrees of freedom
if there is nothing but noise. A p-value above 0.001 is reported.
"""

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, expit

from inid.arguments import Floats, shown

_CURE = "spend more budget, state tighter bounds, use fewer columns or more rows"
_CHANCE = 0.001
_PRIOR_VARIANCE = 0.1  # the variance of a model's logarithms that is assumed before the fit
_TINY = 1e-9  # so that nothing is divided by 0
_TOLD = 0.05  # of half the bounds: with more noise than that, a mean at a bound says nothing
_LEAST_SHRINKAGE = 0.1  # of a linear model's coefficients: with less of them it is nearly a constant


class NoisyFitWarning(UserWarning):
    """The released numbers are hardly more than noise. The warning depends on released numbers only, so it is free."""


def class_p_value(sums: Floats, counts: Floats, spread: Floats | float) -> float:
    """The chance that noise alone makes the classes as different as released.

    If all classes had the same mean m, the sum S_k of class k, of n_k rows, would be n_k m and noise. With the best m =
    n.S / n.n the sum of squares of (S_k - n_k m) / spread is chi-squared with (classes - 1) x columns degrees of
    freedom (about, where noise is Laplace's, or n is noisy itself).
    """
    apart = sums - np.outer(counts, counts @ sums / (counts @ counts))
    return float(chdtrc((len(sums) - 1) * sums.shape[1], ((apart / spread) ** 2).sum()))


def noise_of_steps(steps: Floats, shares: Floats, passes: int, averaged: int) -> Floats:
    """The standard deviation of noise in what a descent finds, column by column (about: columns are taken one by one).

    A step adds noise of standard deviation `steps` to a coefficient, of which every later pass keeps a part c. The mean
    over the last A of L passes has of the noise of pass l the part (1/A) sum of c^(t - l) over those passes t >= l.
    """
    at = np.arange(passes)[:, None]
    first = np.maximum(at, passes - averaged)  # the sum over t from here is a geometric series
    rest = np.where(shares < 1, 1 - shares, 1.0)
    series = np.where(shares < 1, (1 - shares ** (passes - first)) / rest, passes - first)
    return np.asarray(steps * np.sqrt(((shares ** (first - at) * series / averaged) ** 2).sum(axis=0)))


def coefficient_p_value(coefficients: Floats, noise: Floats) -> float:
    """The chance that noise alone moves coefficients as far as released; 0 are the penalty's doing, and say nothing."""
    used = coefficients != 0
    return float(chdtrc(int(used.sum()), ((coefficients / noise)[used] ** 2).sum())) if used.any() else 0.0


def shrinkage_factor(estimates: Floats, noise: Floats, variances: Floats, come: Floats) -> float:
    """What the coefficients of a logarithmic model are multiplied by, between 0 and 1.

    Coefficients w with noise e move predictions by Q = sum of a_i w_i^2 and V = sum of a_i e_i^2 on average, a_i being
    the variances of the columns. The factor of the least mean squared error is w.w° / (Q + V), weighted by a_i, for the
    best coefficients w°. Q + V is seen, V is known, and a descent that has come a part k_i of its way has w_i = k_i
    w°_i, about. That estimate is noisy itself, so the factor is at most q / (q + V), where q is 0.1 or, if more, what
    is seen beyond V and three standard deviations of it. It goes to 1 as noise goes to 0.
    """
    signal, alone = estimates**2 * variances, noise**2 * variances
    noisy = float(alone.sum())
    surely = float(signal.sum()) - noisy - 3 * math.sqrt(2 * float((alone**2).sum()))
    most = max(_PRIOR_VARIANCE, surely) / (max(_PRIOR_VARIANCE, surely) + noisy)
    if not signal.sum() > 0:
        return most
    return min(max(float(((signal - alone) / np.maximum(come, _TINY)).sum() / signal.sum()), 0.0), most)


def centres_diagnosis(
    centres: Floats, counts: Floats, unit: Floats, sums: Floats | float, numbers: float
) -> str | None:
    """Why the centres of k-means may be worse than one centre for all rows, None if they are not.

    Moving from the mean of all rows to the exact means m_k of clusters gains B = sum of n_k |m_k - m|^2 in squared
    distance. Noise e_k in the centres loses L = sum of n_k |e_k|^2, and what is seen, sum of n_k |m_k + e_k - m|^2, is
    B + L on average. So the gain B - L is what is seen less 2 L.
    """
    mean = counts @ centres / counts.sum()
    between = float((counts[:, None] * (centres - mean) ** 2 * unit**2).sum())
    errors = np.minimum((sums**2 + centres**2 * numbers**2) / counts[:, None] ** 2, 1.0)
    lost = float((counts[:, None] * errors * unit**2).sum())
    if len(centres) == 1 or between > 2 * lost:
        return None
    return "the centres are no further apart than noise alone puts them, and one centre for all rows may do better"


def components_diagnosis(values: Floats, components: int, noise: float) -> str | None:
    """Why the components of PCA may hold less than half of the variance that as many could, None if they do not.

    A symmetric M x M matrix of independent noise of standard deviation s turns an eigenvalue v of a large matrix into v
    + M s^2 / v, and its eigenvector by an angle of cosine squared 1 - M s^2 / v^2, if v > s sqrt(M); a smaller one
    cannot be told from noise (Benaych-Georges and Nadakuditi 2011) and is taken as half of that limit.
    """
    limit = noise * np.sqrt(len(values))
    if components == len(values) or not limit > 0:
        return None
    top = values[:components]
    resolved = top > 2 * limit
    was = np.where(resolved, (top + np.sqrt(np.where(resolved, top**2 - 4 * limit**2, 0.0))) / 2, limit / 2)
    reliability = np.where(resolved, 1 - (limit / was) ** 2, 0.0)
    if float((was * reliability).sum()) >= 0.5 * float(was.sum()):
        return None
    return f"less than half of the variance that {components} of {len(values)} components can hold is expected in these"


def at_a_bound(names: Sequence[str], means: Floats, spread: Floats) -> str | None:
    """What is to be told where the released mean of a column, in units of its bounds, is a bound within the noise."""
    near = (spread < _TOLD) & (1 - np.abs(means) < 3 * spread)
    if not near.any():
        return None
    at = int(np.argmax(near))
    word = "upper" if means[at] > 0 else "lower"
    return (
        f"the released mean of {names[at]} is its {word} bound as far as noise lets one tell: nearly all of its values "
        f"lie at that bound or beyond, or the bounds are far too wide; check its unit, and state bounds that hold most "
        "values"
    )


def without_rows(classes: Sequence[Any], lost: Sequence[bool] | NDArray[np.bool_]) -> str | None:
    """What is to be told where classes cannot be told from such that no row has."""
    listed = [shown(one) for one, gone in zip(classes, lost, strict=True) if gone]
    if not listed:
        return None
    return (
        f"no rows of the class {', '.join(listed)} can be told from noise: compare classes= with the labels in y, "
        "letter by letter, or spend more budget on a class that is rare"
    )


def never_positive(moves: float, bound: float, passes: int, averaged: int) -> float:
    """Where the constant of a logistic descent ends, as `descend` averages it, if no row is of the positive class."""
    at, ends = 0.0, []
    for _ in range(passes):
        at -= moves * min(float(expit(at)), bound)
        ends.append(at)
    return sum(ends[-averaged:]) / averaged


def noise_diagnosis(model: Any) -> str | None:
    """What is to be told of a fitted model in one sentence and its cure, None if it stands out of its noise."""
    if getattr(model, "_remark", None) is not None:
        return f"{model._remark}."  # noqa: SLF001 - of bounds and labels, whose cure is another
    if getattr(model, "_noise_diagnosis", None) is not None:
        return f"{model._noise_diagnosis}: {_CURE}."  # noqa: SLF001 - what k-means and PCA found out about themselves
    factors, chance = getattr(model, "shrinkage_", None), getattr(model, "noise_chance_", 0.0)
    if factors is not None and not float(np.min(factors)) >= _LEAST_SHRINKAGE:
        lost = int((factors < _LEAST_SHRINKAGE).sum())
        what = "the model is" if lost == len(factors) else f"the models of {lost} of {len(factors)} targets are"
        return f"the coefficients are lost in noise, and {what} (nearly) a constant (shrinkage_ near 0): {_CURE}."
    if chance > _CHANCE:
        return (
            f"noise alone would make as much of the columns with a chance of {chance:.2g}, and the model may do no "
            f"better than a constant: {_CURE}."
        )
    return None


def warn_of_noise(model: Any) -> None:
    """Warn of a fit that is hardly more than noise, once everything that was paid for is kept."""
    diagnosis = noise_diagnosis(model)
    if diagnosis is not None and not getattr(model, "_of_search", False):
        warnings.warn(f"{type(model).__name__} is a noisy fit: {diagnosis}", NoisyFitWarning, stacklevel=3)
