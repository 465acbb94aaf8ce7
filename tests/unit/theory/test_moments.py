"""E8: the change of second moments when one row is replaced lies in the ellipsoid, and reaches it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inid.theory.moments import replaced_products

columns = st.integers(1, 5).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(1e-3, 1e3), min_size=n, max_size=n),
        st.lists(st.floats(1e-3, 1e3), min_size=n, max_size=n),
        st.lists(st.one_of(st.sampled_from([-1.0, 0.0, 1.0]), st.floats(-1, 1)), min_size=2 * n, max_size=2 * n),
    )
)


def reached(size, omega, old, new):
    i, j = np.triu_indices(size.size)
    change = size[i] * size[j] * (old[i] * old[j] - new[i] * new[j])
    return float(np.sum((change / replaced_products(size, omega, i, j)) ** 2))


@given(columns)
def test_every_replacement_lies_in_the_ellipsoid(drawn):
    size, omega, signs = (np.array(part) for part in drawn)
    assert reached(size, omega, signs[: size.size], signs[size.size :]) <= 1


@given(columns)
def test_a_corner_replaced_by_the_middle_reaches_it(drawn):
    size, omega, _ = (np.array(part) for part in drawn)
    assert reached(size, omega, np.ones(size.size), np.zeros(size.size)) == pytest.approx(1, rel=1e-12)
