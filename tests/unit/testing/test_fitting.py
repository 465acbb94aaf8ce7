"""The chi-square test has the false-alarm rate that it states, and power."""

import numpy as np
import pytest
from scipy import stats

from inid.testing import chi_square, fit_to_law


def test_p_values_agree_with_scipy_when_nothing_is_merged():
    counts, chances = np.array([210, 390, 405]), np.array([0.2, 0.4, 0.4])
    expected = stats.chisquare(counts, chances * counts.sum()).pvalue
    assert chi_square(counts, chances) == pytest.approx(expected, rel=1e-12)


def test_rare_classes_are_merged():
    chances = np.array([0.4995, 0.0005, 0.4995, 0.0005])
    counts = np.array([499, 1, 499, 1])
    assert chi_square(counts, chances) > 0.9
    assert chi_square(counts[::-1].copy(), chances) < 1e-9


def test_p_values_are_uniform_under_the_right_law():
    """4000 seeded trials: a p-value below q must come up about 4000 q times."""
    rng = np.random.default_rng(3)
    chances = rng.dirichlet(np.ones(12) * 5)
    found = np.array([chi_square(rng.multinomial(3000, chances), chances) for _ in range(4000)])
    for q in (0.01, 0.1, 0.5):
        assert abs(np.mean(found < q) - q) < 5 * np.sqrt(q / 4000)


def test_probabilities_must_add_up():
    with pytest.raises(ValueError, match="add up to 1"):
        chi_square([1, 2], [0.5, 0.4])


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
def test_fit_to_law_sees_a_shift_and_a_wrong_law(mechanism):
    rng = np.random.default_rng(5)
    draw = rng.laplace if mechanism == "laplace" else rng.normal
    step = 2.0**-11
    samples = np.rint(draw(1.25, 3.0, 200_000) / step) * step
    other = "gaussian" if mechanism == "laplace" else "laplace"
    assert fit_to_law(samples, mechanism, 1.25, 3.0) > 1e-3
    assert fit_to_law(samples, mechanism, 1.35, 3.0) < 1e-6
    assert fit_to_law(samples, mechanism, 1.25, 3.1) < 1e-6
    assert fit_to_law(samples, other, 1.25, 3.0) < 1e-6
