"""E8: the change of second moments when one row is replaced lies in the ellipsoid, and reaches it."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inid.errors import GuaranteeError
from inid.sets import replaced_products

columns = st.integers(1, 5).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(1e-3, 1e3), min_size=n, max_size=n),
        st.lists(st.floats(1e-3, 1e3), min_size=n, max_size=n),
        st.lists(st.one_of(st.sampled_from([-1.0, 0.0, 1.0]), st.floats(-1, 1)), min_size=2 * n, max_size=2 * n),
    )
)


def reached(size, omega, old, new):
    i, j = np.triu_indices(size.size)
    radii = replaced_products(size, omega, i, j)
    with np.errstate(under="ignore"):  # changes may be as small as they like
        return float(np.sum((size[i] * size[j] * (old[i] * old[j] - new[i] * new[j]) / radii) ** 2))


@given(columns)
def test_every_replacement_lies_in_the_ellipsoid(drawn):
    size, omega, signs = (np.array(part) for part in drawn)
    assert reached(size, omega, signs[: size.size], signs[size.size :]) <= 1


@given(columns)
def test_a_corner_replaced_by_the_middle_reaches_it(drawn):
    size, omega, _ = (np.array(part) for part in drawn)
    assert reached(size, omega, np.ones(size.size), np.zeros(size.size)) == pytest.approx(1, rel=1e-12)


EXTREMES = [5e-324, 1e-300, 1e-195, 1e-160, 1e-30, 1.0, 1e30, 1e160, 1e195, 1e300, 1.7e308]


@pytest.mark.parametrize("common", EXTREMES)
def test_only_ratios_of_the_weights_matter_and_none_are_too_large_or_too_small(common):
    """Weights far from 1 once overflowed to radii of 0, that is to exact answers."""
    size, (i, j) = np.array([1e-100, 1.0, 1e100]), np.triu_indices(3)
    corner, middle = np.ones(3), np.zeros(3)
    flat = replaced_products(size, np.ones(3), i, j)
    np.testing.assert_allclose(replaced_products(size, np.full(3, common), i, j), flat, rtol=1e-12)
    for other, third in itertools.product(EXTREMES, repeat=2):
        omega = np.array([common, other, third])
        radii = replaced_products(size, omega, i, j)
        assert np.isfinite(radii).all()
        assert (radii >= np.where(i == j, 1, 2) * size[i] * size[j]).all()  # what is attained by one product alone
        assert reached(size, omega, corner, middle) == pytest.approx(1, rel=1e-12)
        assert reached(size, omega, corner, np.array([-1.0, 1.0, -1.0])) <= 1


def test_a_column_of_size_0_moves_nothing():
    i, j = np.triu_indices(2)
    assert (replaced_products(np.array([0.0, 1.0]), np.ones(2), i, j) > 0).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("size", "omega"),
    [
        ([1e-200, 1.0], [1.0, 1.0]),  # a square below the floats
        ([1e-155, 1.0], [1.0, 1.0]),  # one that has lost digits
        ([1e200, 1.0], [1.0, 1.0]),
        ([1e150, 1e150], [1.0, 1e-300]),
        ([np.nan, 1.0], [1.0, 1.0]),
        ([np.inf, 1.0], [1.0, 1.0]),
        ([1.0, 1.0], [np.nan, 1.0]),
        ([1.0, 1.0], [np.inf, 1.0]),
        ([1.0, 1.0], [0.0, 0.0]),
    ],
)
def test_what_cannot_be_stated_is_refused_and_never_0(size, omega):
    with pytest.raises(GuaranteeError, match="beyond the range of floats"):
        replaced_products(np.array(size), np.array(omega), *np.triu_indices(2))
