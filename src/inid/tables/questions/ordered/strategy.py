"""Integer strategies for prefixes: what is released instead of counts, and how far one row moves it (M9).

A strategy is an integer matrix S of full column rank. Released is S x with independent noise of one scale, x the counts
of the levels; every prefix is then estimated by B S x with B = A (S^T S)^-1 S^T and A the lower triangle of ones. Any S
is private with the radius of its columns, computed from its integers; which S is best is a matter of accuracy only.

*Toeplitz*: entries round(2^8 binom(2k, k) / 4^k): the square root of A as a Toeplitz matrix, in whole numbers. It is
the best here under Gaussian noise: 5.6 per prefix at n = 100 and mu = 1, against 50.5 for counts. Rounded entries
change the norm of a column, so the radius is computed from the rounded ones, never from the root.
*Tree*: counts of the levels, of blocks of f levels, of blocks of f blocks and so on: better in the l1 norm.
*Counts*: the levels themselves, for a few of them.

How far one row moves S x. It adds a column of S: the radius is the largest norm of a column. Replacing it subtracts one
column and adds another: in one cell of a group-by at most the largest |S e_x - S e_y|, from the integers of S^T S; in
two cells, which share no number, the root of the sum of two squared norms (l2), or their sum (l1). Entries are not
negative, so that the second is at least the first, and a row that vanishes moves less than either. A person's m rows
move S x at most m times as far.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats
from inid.mechanisms import MechanismName

__all__ = ["Strategy", "best_strategy", "strategy"]

_KINDS: dict[str, tuple[str, ...]] = {
    "gaussian": ("toeplitz", "counts"),
    "laplace": ("counts", "tree4", "tree8", "tree16", "tree32"),
}
_BITS = 8


@dataclass(frozen=True, eq=False)
class Strategy:
    """One strategy for n levels.

    Attributes:
        kind: Its name.
        matrix: S, whole numbers of at least 0, one row per released number.
        prefixes: B, from released numbers to prefixes.
        variances: The variance of each prefix for noise of variance 1.
    """

    kind: str
    matrix: NDArray[np.int64]
    prefixes: Floats
    variances: Floats

    def radius(self, norm: int, *, replace: bool, cells: int) -> float:
        """How far one row moves the released numbers at most, as a float that is not below it.

        Args:
            norm: 1 or 2.
            replace: Whether a row is replaced, rather than added or left out.
            cells: The number of groups, each with numbers of its own.
        """
        if norm == 1:
            most = int(self.matrix.sum(axis=0).max())
            return float(2 * most if replace else most)
        exact = self.matrix.astype(np.float64)  # sums of at most 1024 squares of 8 bits: floats hold them exactly
        squares = np.square(exact).sum(axis=0)
        most = int(squares.max())
        if replace and cells > 1:
            most = 2 * most
        elif replace:
            most = max(most, int((squares[:, None] + squares[None, :] - 2 * (exact.T @ exact)).max()))
        return math.nextafter(math.sqrt(most), math.inf)


@lru_cache(maxsize=32)
def strategy(kind: str, size: int) -> Strategy:
    """A strategy by name.

    >>> strategy("toeplitz", 4).matrix[:, 0].tolist()
    [256, 128, 96, 80]
    >>> strategy("counts", 3).variances.tolist()
    [1.0, 2.0, 3.0]
    """
    matrix = _matrix(kind, size)
    wanted = np.tril(np.ones((size, size)))
    if matrix.shape[0] == size:
        prefixes = np.linalg.solve(matrix.T.astype(np.float64), wanted.T).T
    else:
        exact = matrix.astype(np.float64)
        prefixes = np.linalg.solve(exact.T @ exact, wanted.T).T @ exact.T
    for array in (matrix, prefixes):
        array.flags.writeable = False
    return Strategy(kind, matrix, np.asarray(prefixes, dtype=np.float64), np.square(prefixes).sum(axis=1))


@lru_cache(maxsize=64)
def best_strategy(size: int, mechanism: MechanismName, *, replace: bool, cells: int) -> Strategy:
    """The strategy with the least mean variance of prefixes: a choice from public facts alone.

    >>> [best_strategy(n, "laplace", replace=False, cells=1).kind for n in (3, 100)]
    ['counts', 'tree16']
    >>> best_strategy(100, "gaussian", replace=False, cells=1).kind
    'toeplitz'
    """
    norm = 2 if mechanism == "gaussian" else 1

    def error(kind: str) -> float:
        made = strategy(kind, size)
        return made.radius(norm, replace=replace, cells=cells) ** 2 * float(made.variances.mean())

    fitting = [kind for kind in _KINDS[mechanism] if not kind.startswith("tree") or int(kind[4:]) < size]
    return strategy(min(fitting, key=error), size)


def _matrix(kind: str, size: int) -> NDArray[np.int64]:
    if kind == "toeplitz":
        entries, root = [], 1.0
        for k in range(size):
            entries.append(round(root * 2**_BITS))
            root *= (2 * k + 1) / (2 * k + 2)
        column = np.array([0] * (size - 1) + entries, dtype=np.int64)
        rows = np.arange(size)
        return np.asarray(column[rows[:, None] - rows[None, :] + size - 1])
    blocks = [np.eye(size, dtype=np.int64)]
    width = int(kind[4:]) if kind.startswith("tree") else size + 1
    while width < size:
        blocks.append((np.arange(size)[None, :] // width == np.arange(-(-size // width))[:, None]).astype(np.int64))
        width *= int(kind[4:])
    return np.concatenate(blocks)
