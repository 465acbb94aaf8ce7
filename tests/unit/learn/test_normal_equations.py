"""Normal equations in stacks: each of a stack is solved as it would be by itself."""

from dataclasses import replace

import numpy as np
import pytest

from inid.learn import Equations, Moments, Normal, least_squares

RNG = np.random.default_rng(0)


def moments(*stack, width=5, mean=True):
    half = RNG.normal(size=(*stack, width, width))
    return Moments(
        half @ half.swapaxes(-1, -2) - 2 * np.eye(width),  # some eigenvalues below 0, to be repaired
        RNG.normal(size=(*stack, width)) if mean else None,
        RNG.uniform(0.1, 0.5, (width, width)),
        RNG.uniform(0.1, 0.5, width),
        1000.0,
        release=None,
    )


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize(("mean", "origin"), [(True, False), (True, True), (False, False)])
def test_a_stack_is_solved_as_each_of_it_by_itself(mean, origin, outputs):
    many = moments(6, mean=mean)
    point = RNG.normal(size=5) if origin else None
    equations = Equations(many, point, RNG.uniform(0.5, 1.0, 5), np.ones(5), outputs)
    line = equations.solve(lambda normal: least_squares(normal, 0.1))
    slow = equations.solve(lambda normal: normal.one_by_one(lambda one: least_squares(one, 0.1)))
    np.testing.assert_allclose(line.weights, slow.weights, rtol=1e-9)
    for at in range(6):
        first = None if many.first is None else many.first[at]
        one = replace(equations, moments=replace(many, second=many.second[at], first=first))
        alone = one.solve(lambda normal: least_squares(normal, 0.1))
        np.testing.assert_allclose(line.weights[at], alone.weights, rtol=1e-9)
        np.testing.assert_allclose(np.broadcast_to(line.constants, (6, outputs))[at], alone.constants, rtol=1e-9)


@pytest.mark.parametrize("rank", [1, 3, 4])
def test_least_squares_is_that_of_a_general_solver_and_the_shortest_of_many(rank):
    half = RNG.normal(size=(4, rank))
    gram, size = half @ half.T, np.array([1.0, 0.5, 0.25, 1.0])
    normal = Normal(gram, gram @ RNG.normal(size=4), np.ones(()), size, np.ones(4), 1.0, 10.0)
    scaled = gram / np.outer(size, size)
    expected = np.linalg.lstsq(scaled, normal.products / size, rcond=None)[0] / size
    np.testing.assert_allclose(least_squares(normal, 0.0), expected, rtol=1e-6, atol=1e-9)


def test_least_squares_of_nothing_is_nothing():
    normal = Normal(np.zeros((2, 2)), np.ones(2), np.ones(()), np.ones(2), np.ones(2), 1.0, 10.0)
    assert least_squares(normal, 0.0).tolist() == [0.0, 0.0]
