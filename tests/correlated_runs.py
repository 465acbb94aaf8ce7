"""What runs with correlated noise reveal, by linear algebra of what the code does: for tests of their guards.

The noise of all releases is linear in the fresh noise of all steps. Feeding unit vectors in its place gives the matrix
M of that map; an example that shifts the releases by g then has the squared shift mu^2 = g' (M M')^-1 g, whatever the
code believes. Participations that are charged one by one allow as much as their number.
"""

from itertools import product
from unittest import mock

import numpy as np
import torch

from inid.dpsgd.noise import Banded, Recipe
from internals import module_with

correlated_noise = module_with("inid.dpsgd.noise", "RunNoise")

__all__ = ["ONE", "fed", "noise_map", "squared_shift", "strategy"]

ONE = Recipe("global", (1,), "gaussian", "optimal", None, 1.0)  # one number, of level 1


def strategy(bands, steps):
    return Banded(bands).coefficients(steps)


def fed(values):
    """Let steps draw these numbers as their fresh noise, one after another, and zeros after the last."""
    left = iter(values)
    return mock.patch.object(
        correlated_noise, "standard_noise", lambda like, _: torch.full_like(like, float(next(left, 0.0)))
    )


def noise_map(releases, count):
    """The matrix from the fresh noise of `count` steps to what `releases()` returns: one number for each."""
    columns = []
    for at in range(count):
        with fed(np.eye(count)[at]):
            columns.append(releases())
    return np.array(columns, dtype=np.float64).T


def squared_shift(matrix, lengths):
    """The largest squared shift over the signs of what an example adds to each release, up to these lengths."""
    whitened = np.linalg.solve(matrix, np.diag(lengths))
    took = np.flatnonzero(lengths)
    signs = np.zeros((2 ** len(took), len(lengths)))
    signs[:, took] = list(product((-1, 1), repeat=len(took)))
    return float(((signs @ whitened.T) ** 2).sum(1).max())
