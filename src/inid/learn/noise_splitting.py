"""What a model learned from noisy moments is worth, judged by the same moments, at no cost.

**Two halves of a noisy number.** Let S = s + E be released, E normal with a known variance v. Draw F, also normal of
variance v, and independent. Then S + F and S - F are independent: their covariance is v - v = 0. What is learned from
the first can be judged by the second as if it were another release. An error that is linear in the moments, as a mean
squared error is, is then judged without bias: E error(S - F; w(S + F)) = E error(s; w(S + F)). (Oliveira, Lei and
Tibshirani 2021 call this the coupled bootstrap.) The model judged has learned from twice the variance, so the judgement
is a little stern. With Laplace noise the halves are uncorrelated, not independent, and the statement is approximate.

The same holds for the sampling error of the rows, if S is taken for an estimate of a population's moments: its variance
is that of the moments of as many normal rows with these means and covariances, an approximation too.

The draws come from a fixed stream, so that the same release always gives the same model: nothing here needs to be
secret or fresh, and the noise that was released came from the operating system.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from inid.arguments import Floats
from inid.learn.normal_equations import Equations, Line, Solver
from inid.learn.second_moments import Moments, nearest_psd

__all__ = ["disturbed", "disturbed_stacks", "expected_errors", "shrinkage"]

_DRAWS = 20
_ROWS_AT_ONCE = 1000


def disturbed(
    moments: Moments, draws: int, *, noise: bool, sampling: bool, laplace: bool = False
) -> Iterator[tuple[Moments, Moments]]:
    """Pairs of moments, one after the other, as `disturbed_stacks` draws them."""
    one, other = disturbed_stacks(moments, draws, noise=noise, sampling=sampling, laplace=laplace)
    return zip(_each(one), _each(other), strict=True)


def disturbed_stacks(
    moments: Moments, draws: int, *, noise: bool, sampling: bool, laplace: bool = False
) -> tuple[Moments, Moments]:
    """Two stacks of moments: with errors of the known size added, with the same errors subtracted.

    Args:
        moments: As released.
        draws: How many of each.
        noise: Whether the error includes that of the noise.
        sampling: Whether it includes that of the rows as a sample.
        laplace: Whether noise is drawn from Laplace's law, and not from the normal one of the same variance.
    """
    rng = np.random.default_rng(20_260)
    width, mean = len(moments.spread), moments.first is not None
    second, first, factor = np.zeros((draws, width, width)), np.zeros((draws, width)), np.ones((draws, 1))
    sampled_second, sampled_first = np.zeros_like(second), np.zeros_like(first)
    for at in range(draws):
        if noise:
            draw = rng.laplace if laplace else rng.normal
            second[at] = draw(size=(width, width))
            if mean:
                first[at] = draw(size=width)
        if sampling:
            sampled_second[at], sampled_first[at] = _sampling(moments, rng)
        if noise and moments.rows_spread > 0:  # an error in the number of rows changes the size of all moments
            factor[at] = moments.rows / max(moments.rows + moments.rows_spread * rng.normal(), moments.rows / 2)
    deviation = math.sqrt(2) if laplace else 1.0
    triangle = np.triu(second * (moments.spread / deviation))  # entries of the upper triangle are independent
    second = triangle + np.triu(triangle, 1).swapaxes(-1, -2) + sampled_second
    first = first * (moments.first_spread / deviation if mean else 0.0) + sampled_first
    second[:, moments.one_hot, moments.one_hot] = first[:, moments.one_hot]  # their squares are they themselves
    return _moved(moments, second, first, factor), _moved(moments, -second, -first, 2 - factor)


def expected_errors(equations: Equations, solvers: Sequence[Callable[[Equations], Line]]) -> tuple[Floats, Floats]:
    """The mean squared error to expect of each solver, on new rows, and how sure that is (its standard error).

    Both are in public units, summed over the targets. Learned from one half of each pair, judged by the other.
    """
    found = np.zeros((len(solvers), _DRAWS))
    for at, (one, other) in enumerate(disturbed(equations.moments, _DRAWS, noise=True, sampling=True)):
        learned, judge = replace(equations, moments=_spread_up(one)), replace(equations, moments=other)
        for k, solver in enumerate(solvers):
            found[k, at] = judge.error(solver(learned)).sum()
    return found.mean(axis=1), found.std(axis=1) / math.sqrt(_DRAWS)


def shrinkage(equations: Equations, solver: Solver) -> Floats:
    """How much of each target's weights to believe: 1 where noise is small, 0 where there is nothing else.

    The factor k that makes predictions k w.(x - mean) best is (w.c) / (w.G w), c and G being the true covariances. Both
    are linear in the moments, so each half judges the weights that the other half gave, and means over draws are taken.
    From w.c one standard deviation of what noise puts there is taken off, the root of the sum of (w_i spread_i)^2:
    where noise dominates, the factor is then mostly 0, and the model is the constant one, which costs less than to
    believe in vain. As the planned noise goes to 0, the factor goes to 1 (above it for penalised weights, and held to
    1).
    """
    if not equations.moments.spread.max() > 0:
        return np.ones(equations.outputs)
    draws = int(min(max(2000 // len(equations.size), 5), _DRAWS))
    width = equations.width
    spread = equations.covariance(equations.moments).spread[width:, :width]
    one, other = disturbed_stacks(equations.moments, draws, noise=True, sampling=False)
    weights = replace(equations, moments=_spread_up(one)).solve(solver).weights
    if equations.origin is not None:
        truth = other.about(equations.origin).second
    else:
        truth = other.second if one.first is None else other.about(-one.first).second
    agreed = (weights * truth[:, width:, :width]).sum(axis=(0, 2))
    doubt = ((weights * spread) ** 2).sum(axis=(0, 2))
    length = ((weights @ truth[:, :width, :width]) * weights).sum(axis=(0, 2))
    agreed -= np.sqrt(doubt * draws)  # draws times the root of their mean
    factor = np.where(length > 0, agreed / np.where(length > 0, length, 1.0), np.where(agreed > 0, 1.0, 0.0))
    return np.asarray(np.clip(np.where(agreed > 0, factor, 0.0), 0.0, 1.0))


def _sampling(moments: Moments, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """The error of the moments of as many normal rows of the same means and covariances (a Wishart matrix)."""
    width, rows = len(moments.second), max(int(moments.rows), 2)
    first = np.zeros(width) if moments.first is None else moments.first
    centred = moments if moments.first is None else moments.about(-first)
    values, vectors = np.linalg.eigh(nearest_psd(centred.second, np.ones(width), centred.spread))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    covariance = root @ root.T
    if rows > max(width, _ROWS_AT_ONCE):
        lower = np.tril(rng.normal(size=(width, width)), -1)  # Bartlett's decomposition of a Wishart matrix
        np.fill_diagonal(lower, np.sqrt(rng.chisquare(rows - np.arange(width))))
        half = root @ lower
        mean = root @ rng.normal(size=width) / math.sqrt(rows)
    else:
        drawn = rng.normal(size=(rows, width)) @ root.T
        half, mean = drawn.T, drawn.mean(axis=0)
    moved = first + mean * (moments.first is not None)
    second = half @ half.T / rows - covariance + np.outer(moved, moved) - np.outer(first, first)
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
