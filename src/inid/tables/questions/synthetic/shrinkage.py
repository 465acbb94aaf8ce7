"""Noisy residuals of a pair, freed of noise as far as that is known: singular values are shrunk.

A block of residuals, less what independence would give, is a matrix of low rank and noise that is the same in every
direction. The singular values that minimise the squared error are those of Gavish and Donoho, "Optimal shrinkage of
singular values" (2017), for the Frobenius loss: with y = s / (sigma sqrt(b)) and beta = a / b, a <= b the dimensions,

    sqrt((y^2 - beta - 1)^2 - 4 beta) / y  for y > 1 + sqrt(beta), else 0, times sigma sqrt(b).
"""

import numpy as np

from inid.arguments import Floats

__all__ = ["shrunk"]


def shrunk(noisy: Floats, std: float) -> Floats:
    """The matrix with its singular values shrunk.

    Args:
        noisy: A matrix whose rows and columns add up to 0.
        std: The deviation of its noise, that of independent cells less their means.

    >>> shrunk(np.array([[5.0, -5.0], [-5.0, 5.0]]), 0.1).round(2)
    array([[ 5., -5.],
           [-5.,  5.]])
    >>> shrunk(np.array([[5.0, -5.0], [-5.0, 5.0]]), 10.0)
    array([[0., 0.],
           [0., 0.]])
    """
    short, long = min(noisy.shape) - 1, max(noisy.shape) - 1
    left, values, right = np.linalg.svd(noisy, full_matrices=False)
    unit, beta = std * np.sqrt(long), short / long
    if not unit > 0:
        return noisy
    y = values / unit
    inner = np.maximum((y**2 - beta - 1) ** 2 - 4 * beta, 0)
    kept = np.where(y > 1 + np.sqrt(beta), np.sqrt(inner) / np.maximum(y, 1.0), 0.0)
    return np.asarray((left * (kept * unit)) @ right) + 0.0
