"""A descent on data with released numbers of a test's own: what noise would have been added to is recorded."""

from unittest.mock import patch

import numpy as np

from internals import module_with

coordinate_descent = module_with("inid.learn", "Descent")


class Recorded:
    """Exact numbers as noise would have been added to them, and the scales; released are numbers of the test's own."""

    def __init__(self, seed, size=4.0):
        self.size = size
        self.rng, self.exact, self.scales, self.steps = np.random.default_rng(seed), [], [], []

    def prepared(self, scales, rounds, table, source):
        turn = iter(np.tile(scales, rounds).tolist())

        class Noise:
            def add(_, value):  # noqa: N805 - self is the recorder
                self.exact.append(value)
                self.scales.append(next(turn))
                self.steps.append(True)
                return float(self.rng.normal() * 2)

        return Noise()

    def add_noise(self, exact, scales, mechanism, source):
        self.exact += np.ravel(exact).tolist()
        self.scales += np.ravel(scales).tolist()
        self.steps += [False] * np.size(exact)
        return self.rng.uniform(0, self.size, size=np.shape(exact))


def recorded(model, X, y, seed, *, size=4.0, **more):
    """(exact numbers, their scales, which of them are steps, the plan) of a fit whose look releases up to `size`."""
    one = Recorded(seed, size)
    with patch.multiple(coordinate_descent, PreparedNoise=one.prepared, add_noise=one.add_noise):
        model.fit(X, y, **more)
    return np.array(one.exact), np.array(one.scales), np.array(one.steps), model.plan_


def loss(difference, scales, power):
    """The privacy loss of a difference: the sum of squares for Gaussian noise (power 2), of sizes for Laplace noise."""
    return (np.abs(difference / scales) ** power).sum()
