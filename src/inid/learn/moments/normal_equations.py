"""The normal equations of a linear model, from noisy moments of (X, y): how they are solved, and what they predict.

Everything here is computed from what was released, so it costs nothing, however often it is done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from inid.arguments import Floats
from inid.learn.moments.second_moments import Moments, nearest_psd


@dataclass(frozen=True)
class Normal:
    """The normal equations of one target, in public units: minimise w.G w / 2 - w.c, G and c being means over the rows.

    A coefficient of the user's is w times `unit_y` / `unit_x`, column by column. `gram`, `products` and `square` may be
    stacks, with more axes in front; a solver then finds a stack of w.
    """

    gram: Floats
    products: Floats
    square: Floats
    size: Floats
    unit_x: Floats
    unit_y: float
    rows: float

    def only(self, columns: Sequence[int]) -> "Normal":
        """The equations of some of the columns."""
        places = [*columns]
        gram, products = self.gram[..., places, :][..., places], self.products[..., places]
        return replace(self, gram=gram, products=products, size=self.size[places], unit_x=self.unit_x[places])

    def one_by_one(self, solver: "Solver") -> Floats:
        """What a solver that takes no stacks finds for each of a stack."""
        if self.gram.ndim == 2:
            return solver(self)
        parts = zip(self.gram, self.products, self.square, strict=True)
        return np.array([replace(self, gram=G, products=c, square=s).one_by_one(solver) for G, c, s in parts])


Solver = Callable[[Normal], Floats]


@dataclass(frozen=True)
class Line:
    """Predictions in public units: constants + weights z, one row of weights for each target."""

    weights: Floats
    constants: Floats


@dataclass(frozen=True)
class Equations:
    """Noisy moments of some columns and, after them, of some targets."""

    moments: Moments
    origin: Floats | None
    size: Floats
    unit: Floats
    outputs: int

    @property
    def width(self) -> int:
        """The number of columns that are no targets."""
        return len(self.size) - self.outputs

    def normal(self) -> list[Normal]:
        """The equations of each target, repaired."""
        about = self.covariance(self.moments)
        matrix, width = nearest_psd(about.second, self.size, about.spread), self.width
        return [
            Normal(
                matrix[..., :width, :width], matrix[..., :width, at], matrix[..., at, at], self.size[:width],
                self.unit[:width], float(self.unit[at]), self.moments.rows,
            )
            for at in range(width, len(self.size))
        ]  # fmt: skip

    def covariance(self, moments: Moments) -> Moments:
        """The moments that are solved: about the mean where there is an intercept, else about 0."""
        if self.origin is None and moments.first is not None:
            return moments.about(-moments.first)
        return self._about_origin(moments)

    def solve(self, solver: Solver) -> Line:
        """What a solver of one target's equations finds for each."""
        return self.line(np.stack([solver(one) for one in self.normal()], axis=-2))

    def line(self, weights: Floats) -> Line:
        """Weights and the constants that belong to them: the mean of the target less that of the prediction."""
        first = self.moments.first
        if self.origin is not None or first is None:
            return Line(weights, np.zeros(self.outputs))
        return Line(weights, first[..., self.width :] - (weights @ first[..., : self.width, None])[..., 0])

    def error(self, line: Line) -> Floats:
        """The mean squared error of each target's predictions by these moments; linear in the moments."""
        direction = np.hstack([-line.weights, np.eye(self.outputs)])
        moments = self._about_origin(self.moments)
        squares = np.einsum("ki,ij,kj->k", direction, moments.second, direction)
        if self.origin is None and moments.first is not None:
            squares = squares - 2 * line.constants * (direction @ moments.first) + line.constants**2
        return np.asarray(squares)

    def _about_origin(self, moments: Moments) -> Moments:
        return moments if self.origin is None else moments.about(self.origin)


def least_squares(normal: Normal, penalty: Floats | float) -> Floats:
    """The minimiser of w.G w / 2 - w.c + sum of penalty_i w_i^2 / 2, in units in which every column has size 1.

    Eigenvalues that rounding cannot tell from 0 count as 0, so the shortest minimiser is taken.
    """
    units = normal.size
    scaled = (normal.gram + penalty * np.eye(len(units))) / np.outer(units, units)
    values, vectors = np.linalg.eigh(scaled)
    size = np.abs(values)
    resolved = size > len(units) * np.finfo(float).eps * size.max(axis=-1, keepdims=True, initial=0.0)
    along = (normal.products / units)[..., None, :] @ vectors
    solution = vectors @ (
        along.swapaxes(-1, -2) * np.where(resolved, 1 / np.where(resolved, values, 1.0), 0.0)[..., None]
    )
    return np.asarray(solution[..., 0] / units)


def forward_selection(normal: Normal, count: int) -> list[int]:
    """Forward selection: the column that takes most from the squared error, then the best beside it, and so on.

    A column takes (c_j - G_jA G_AA^-1 c_A)^2 / (G_jj - G_jA G_AA^-1 G_Aj), A being those chosen before it.
    """
    gram, products = normal.gram.copy(), normal.products.copy()
    chosen: list[int] = []
    for _ in range(min(count, len(products))):
        left = np.maximum(np.diag(gram), 0.0)
        usable = left > 1e-12 * np.diag(normal.gram)
        usable[chosen] = False
        gains = np.where(usable, products**2 / np.where(usable, left, 1.0), -1.0)
        best = int(gains.argmax())
        if not usable[best]:
            break
        chosen.append(best)
        row = gram[best] / gram[best, best]  # take out of every column what this one explains of it
        products = products - row * products[best]
        gram = gram - np.outer(row, gram[best])
    return chosen
