"""The coupled bootstrap: what a model learned from noisy moments is worth, and intervals, from the same release.

**Two halves of a noisy number.** Let S = s + E be released, E normal with a known variance v. Draw F, normal of
variance v and independent. Then S + F and S - F are independent, since their covariance is v - v = 0. So what is
learned from the first can be judged by the second as if it were another release. An error that is linear in the
moments, as a mean squared error is, is judged without bias: E error(S - F; w(S + F)) = E error(s; w(S + F)) (Oliveira,
Lei and Tibshirani 2021). The model judged has learned from twice the variance, so the estimate is a little pessimistic.
With Laplace noise the halves are uncorrelated, not independent, and the statement is approximate. For the sampling
error of the rows the variance is that of as many normal rows, an approximation too.

The draws come from a fixed stream, so that one release always gives one model. Nothing here needs to be secret: the
noise that was released came from the operating system.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.learn.moments.normal_equations import Equations, Line, Normal, Solver, least_squares
from inid.learn.moments.second_moments import Moments, nearest_psd

_DRAWS = 20
_ROWS_AT_ONCE = 1000
_INTERVAL_DRAWS = 1000


def perturbed(
    moments: Moments, draws: int, *, noise: bool, sampling: bool, lawful: bool = False
) -> Iterator[tuple[Moments, Moments]]:
    """Pairs of moments, one after the other, as `perturbed_stacks` draws them."""
    one, other = perturbed_stacks(moments, draws, noise=noise, sampling=sampling, lawful=lawful)
    return zip(_each(one), _each(other), strict=True)


def perturbed_stacks(
    moments: Moments, draws: int, *, noise: bool, sampling: bool, lawful: bool = False
) -> tuple[Moments, Moments]:
    """Two stacks of moments: with errors of the known size added, with the same errors subtracted.

    Errors of the noise are normal and independent, of its standard deviations; or, with `lawful`, of its own law: then
    numbers whose staircase noise was drawn in one block are uncorrelated, but large together.
    """
    rng = np.random.default_rng(20_260)
    width, mean = len(moments.spread), moments.first is not None
    second, first, factor = np.zeros((draws, width, width)), np.zeros((draws, width)), np.ones((draws, 1))
    for at in range(draws):
        if noise and not lawful:
            second[at] = rng.normal(size=(width, width))
            if mean:
                first[at] = rng.normal(size=width)
        if noise and not lawful and moments.rows_spread > 0:
            factor[at] = _rows_factor(moments, moments.rows_spread * rng.normal())
    triangle = np.triu(second * moments.spread)  # entries of the upper triangle are independent
    second = triangle + np.triu(triangle, 1).swapaxes(-1, -2)
    first = first * (moments.first_spread if mean else 0.0)
    second[:, moments.one_hot, moments.one_hot] = first[:, moments.one_hot]  # their squares are they themselves
    if noise and lawful:
        second, first, factor = _lawful_errors(moments, draws, rng)
    if sampling:
        sampled_second, sampled_first = _sampling(moments, draws, rng)
        second, first = second + sampled_second, first + sampled_first
    return _moved(moments, second, first, factor), _moved(moments, -second, -first, 2 - factor)


def _rows_factor(moments: Moments, error: Floats | float) -> Floats:
    """What an error in the number of rows multiplies all moments by."""
    return np.asarray(moments.rows / np.maximum(moments.rows + error, moments.rows / 2))


def _lawful_errors(moments: Moments, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    """Errors of products and of sums, over the number of rows, and the factor of an error in that number."""
    layout, width = moments.layout, len(moments.spread)
    if layout is None:  # pragma: no cover - what was released has a layout
        raise AssertionError
    drawn = moments.release.plan.sample(draws, rng)[:, : layout.i.size]
    errors = layout.whole(drawn) / moments.rows
    products = width * (width + 1) // 2
    second = np.zeros((draws, width, width))
    i, j = np.triu_indices(width)
    second[:, i, j] = second[:, j, i] = errors[:, :products]
    first = errors[:, products : products + width] if layout.mean else np.zeros((draws, width))
    factor = _rows_factor(moments, drawn[:, -1]) if layout.count else np.ones(draws)
    return second, first, factor[:, None]


def expected_errors(equations: Equations, solvers: Sequence[Callable[[Equations], Line]]) -> tuple[Floats, Floats]:
    """The mean squared error to expect of each solver on new rows, summed over targets, and its standard error."""
    errors = np.zeros((len(solvers), _DRAWS))
    for at, (one, other) in enumerate(perturbed(equations.moments, _DRAWS, noise=True, sampling=True)):
        learned, judge = replace(equations, moments=_spread_up(one)), replace(equations, moments=other)
        for k, solver in enumerate(solvers):
            errors[k, at] = judge.error(solver(learned)).sum()
    return errors.mean(axis=1), errors.std(axis=1) / math.sqrt(_DRAWS)


def shrinkage(equations: Equations, solver: Solver) -> Floats:
    """The factor for each target's weights: 1 where noise is small, 0 where there is nothing else.

    The factor k that makes predictions k w.(x - mean) best is (w.c) / (w.G w), c and G being the true covariances. Both
    are linear in the moments, so each half judges the weights of the other. One standard deviation of what noise adds
    is subtracted from w.c, the root of the sum of (w_i spread_i)^2: where noise dominates, the factor is then mostly 0.
    As noise goes to 0, the factor goes to 1 (above it for penalised weights, and clipped to 1).
    """
    if not equations.moments.spread.max() > 0:
        return np.ones(equations.outputs)
    draws = int(min(max(2000 // len(equations.size), 5), _DRAWS))
    width = equations.width
    spread = equations.covariance(equations.moments).spread[width:, :width]
    one, other = perturbed_stacks(equations.moments, draws, noise=True, sampling=False)
    weights = replace(equations, moments=_spread_up(one)).solve(solver).weights
    if equations.origin is not None:
        truth = other.about(equations.origin).second
    else:
        truth = other.second if one.first is None else other.about(-one.first).second
    agreed = (weights * truth[:, width:, :width]).sum(axis=(0, 2))
    variance = ((weights * spread) ** 2).sum(axis=(0, 2))
    length = ((weights @ truth[:, :width, :width]) * weights).sum(axis=(0, 2))
    agreed -= np.sqrt(variance * draws)  # draws times the root of their mean
    factor = np.where(length > 0, agreed / np.where(length > 0, length, 1.0), np.where(agreed > 0, 1.0, 0.0))
    return np.asarray(np.clip(np.where(agreed > 0, factor, 0.0), 0.0, 1.0))


def _sampling(moments: Moments, draws: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Errors of the moments of as many normal rows of the same means and covariances (Wishart matrices)."""
    width, rows = len(moments.second), max(int(moments.rows), 2)
    first = np.zeros(width) if moments.first is None else moments.first
    centred = moments if moments.first is None else moments.about(-moments.first)
    values, vectors = np.linalg.eigh(nearest_psd(centred.second, np.ones(width), centred.spread))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    if rows > max(width, _ROWS_AT_ONCE):
        lower = np.tril(rng.normal(size=(draws, width, width)), -1)  # Bartlett's decomposition of a Wishart matrix
        chi = rng.chisquare(rows - np.arange(width), size=(draws, width))
        half = root @ (lower + np.sqrt(chi)[:, None] * np.eye(width))
        products = half @ half.swapaxes(-1, -2)
        mean = rng.normal(size=(draws, width)) @ root.T / math.sqrt(rows)
    else:
        products, mean = np.empty((draws, width, width)), np.empty((draws, width))
        for at in range(draws):
            sample = rng.normal(size=(rows, width)) @ root.T
            products[at], mean[at] = sample.T @ sample, sample.mean(axis=0)
    moved = first + mean * (moments.first is not None)
    second = products / rows - root @ root.T + moved[:, :, None] * moved[:, None] - np.outer(first, first)
    return second, moved - first


def _moved(moments: Moments, second: Floats, first: Floats, factor: Floats) -> Moments:
    """A stack: errors added, and all of it times a factor."""
    moved = None if moments.first is None else (moments.first + first) * factor
    return replace(moments, second=(moments.second + second) * factor[..., None], first=moved)


def _each(stack: Moments) -> Iterator[Moments]:
    firsts = [None] * len(stack.second) if stack.first is None else stack.first
    return (replace(stack, second=second, first=first) for second, first in zip(stack.second, firsts, strict=True))


def _spread_up(moments: Moments) -> Moments:
    """The same with the spread of two noises."""
    return replace(moments, spread=moments.spread * math.sqrt(2), first_spread=moments.first_spread * math.sqrt(2))


def inverse_noise(matrix: Floats, noise: Floats) -> tuple[float, Floats]:
    """Draws of the noise in a matrix that is inverted, relative to it, and the direction in which they are largest.

    In units in which the released matrix G is the identity, noise E has a largest eigenvalue. Its 95 % quantile over
    draws is small where G^-1 is about the inverse of the exact matrix G - E, and 1 where that may be singular. Then
    raised eigenvalues shrink the estimate, and no draw of errors shows how far.
    """
    values, vectors = np.linalg.eigh(matrix)
    if not values[0] > 0:
        return math.inf, np.asarray(vectors[:, 0])
    half = vectors / np.sqrt(values)
    sizes, along = np.linalg.eigh(half.T @ noise @ half)
    return float(np.quantile(sizes[:, -1], 0.95)), half @ along[int(np.argmax(sizes[:, -1])), :, -1]


def gram_noise(
    equations: Equations, penalty: Callable[[Normal], Floats | float], basis: Floats
) -> tuple[float, Floats]:
    """`inverse_noise` of the matrix of least squares or ridge, along the orthonormal columns of `basis`."""
    width, normal = equations.width, equations.normal()[0]
    released = equations.covariance(equations.moments).second[:width, :width]
    _, likely = perturbed_stacks(equations.moments, _INTERVAL_DRAWS, noise=True, sampling=False, lawful=True)
    noise = released - replace(equations, moments=likely).covariance(likely).second[:, :width, :width]
    hessian = released + penalty(normal) * np.eye(width)
    size, along = inverse_noise(basis.T @ hessian @ basis, basis.T @ noise @ basis)
    return size, basis @ along


def coefficient_errors(
    equations: Equations, penalty: Callable[[Normal], Floats | float], columns: Sequence[int], *, sampling: bool
) -> tuple[Floats, Floats]:
    """Coefficients of least squares or ridge, and draws of how far they may be off: in public units, constants last.

    Only `columns` are used: the others have the coefficient 0, without error.

    The coefficients have a row for each target, the draws one of these for each draw.

    Statement. The coefficients w of exact moments solve (G + P) w = c, P being the penalty; the estimate v solves (G +
    E + P) v = c + e. So v - w = (G + P)^-1 (e - E v), exactly. The law of E and e is public, so errors are drawn from
    it, and from that of a sample's moments with `sampling`. Each draw, subtracted from the released moments, gives
    moments that may have been the exact ones, and says how far v would then be off. The constant is the mean of the
    target less that of v.x, so its error follows from that of v and of the means.

    Sampling. Of N rows whose residuals have one variance s^2 in all rows, the coefficients have the variance s^2 G^-1 /
    N whatever the law of the columns is. A Wishart matrix has that too, and is drawn by released moments alone. Where
    residuals are wider in some rows than in others, N G^-1 (sum of r^2 x x^T) G^-1 would need fourth moments.

    Why not to first order: a G that noise made too large makes intervals too short (92 % instead of 95 on three
    columns, 5,000 rows, epsilon = 1). Why not solve noisier equations for each draw: raised eigenvalues keep these
    solutions together (77 to 92 % on ten columns and 20,000 rows).
    """
    width, used, normals = equations.width, [*columns], [one.only(columns) for one in equations.normal()]
    draws = np.zeros((len(normals), width))
    draws[:, used] = [least_squares(one, penalty(one)) for one in normals]
    released = equations.covariance(equations.moments).second
    _, likely = perturbed_stacks(equations.moments, _INTERVAL_DRAWS, noise=True, sampling=sampling, lawful=True)
    there = replace(equations, moments=likely)
    error = released - there.covariance(likely).second
    moved = (error[:, width:, :width] - draws @ error[:, :width, :width])[..., used]
    errors = np.zeros((_INTERVAL_DRAWS, equations.outputs, width + 1))
    for k, normal in enumerate(one.only(columns) for one in there.normal()):
        hessian = normal.gram + penalty(normal) * np.eye(len(used))
        errors[:, k, used] = (np.linalg.pinv(hessian) @ moved[:, k, :, None])[..., 0]
    line = equations.line(draws)
    errors[..., width] = line.constants - there.line(draws - errors[..., :width]).constants
    return np.column_stack([draws, line.constants]), errors


def quantile_ends(estimates: Floats, errors: Floats, level: float) -> tuple[Floats, Floats]:
    """The ends of intervals: the estimate less quantiles of its errors.

    Of n draws, one more falls between the k-th and the l-th smallest with probability (l - k) / (n + 1).
    """
    inside = real("level", level, above=0, cure="pass a probability such as 0.95")
    if not inside < 1:
        raise ArgumentError(f"level must be a probability below 1, got {shown(level)}: pass 0.95, say.")
    low, high = np.quantile(errors, [(1 - inside) / 2, (1 + inside) / 2], axis=0, method="weibull")
    return estimates - high, estimates - low
