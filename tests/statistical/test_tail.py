"""Beyond sixteen scales, where a draw comes once in ten million (Laplace) or never in practice (Gaussian)."""

import numpy as np
import pytest
from scipy import special

from inid.noise import Uniform, draw_tail, law
from inid.testing import SeededSource, chi_square
from statistical.false_alarms import REJECT_BELOW

START = 16.0
COUNT = 60_000


def tail_draws(mechanism, seed):
    table, source = law(mechanism), SeededSource(seed)
    found = []
    while len(found) < COUNT:
        # A chance of zero opens the tail for certain; what follows is the tail's own law.
        number = draw_tail(table, 1, Uniform(source, 64, 0, 200), source)
        if number is not None:
            number.fraction.extend()
            fraction = number.fraction.value / 2.0**number.fraction.known
            found.append((number.left + fraction) / 2.0**number.shift)
    return np.array(found)


def survival(mechanism, excess, scale=1.0):
    """Chance of lying beyond START + excess, given that the draw lies beyond START."""
    if mechanism == "laplace":
        return np.exp(-excess / scale)
    ends = (START + excess) / scale
    return np.exp(special.log_ndtr(-ends) - special.log_ndtr(-START / scale))


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_the_tail_has_its_own_exact_law(mechanism):
    excess = tail_draws(mechanism, 601) - START
    assert excess.min() >= 0
    edges = np.linspace(0.0, 5.0 if mechanism == "laplace" else 0.3, 31)
    counts = np.bincount(np.searchsorted(edges, excess, side="right") - 1, minlength=31)
    for scale, accepted in ((1.0, True), (0.95, False), (1.05, False)):
        beyond = survival(mechanism, edges, scale)
        chances = np.append(-np.diff(beyond), beyond[-1])
        assert (chi_square(counts, chances) > REJECT_BELOW) is accepted
