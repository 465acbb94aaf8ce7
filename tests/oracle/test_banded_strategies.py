"""Strategies of correlated noise beside those of jax-privacy, whose packages do not go with these: `bench.correlated
--strategies` computes both in one run.

The numbers below are those of jax-privacy 2.0.0 in float64: `toeplitz.optimize_banded_toeplitz(n, bands)` over its
norm, and the root of the mean of `toeplitz.per_query_error`; of the coefficients the first two and the last.
"""

import numpy as np
import pytest

from inid.dpsgd import Banded

JAX_PRIVACY = {
    (2, 100): (5.181516045, 0.795597, 0.605827, 0.605827),
    (4, 200): (5.335867783, 0.648014, 0.492499, 0.384086),
    (16, 500): (4.701735268, 0.522845, 0.327979, 0.155951),
    (32, 500): (3.818615404, 0.538331, 0.301062, 0.094344),
    (16, 2000): (8.534628365, 0.431535, 0.305499, 0.178472),
    (64, 1000): (4.034867842, 0.512429, 0.27497, 0.06388),
}


@pytest.mark.parametrize(("bands", "steps"), JAX_PRIVACY)
def test_strategies_are_those_of_jax_privacy(bands, steps):
    error, *wanted = JAX_PRIVACY[bands, steps]
    own = Banded(bands)
    c = own.coefficients(steps)
    assert own.error(steps) == pytest.approx(error, rel=1e-8)
    assert np.abs(c[[0, 1, -1]] - wanted).max() < 1e-5
