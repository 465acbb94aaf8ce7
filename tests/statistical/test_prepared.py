"""Noise drawn ahead of its values has the exact law, whatever the values turn out to be."""

import numpy as np
import pytest

from inid.noise import PreparedNoise, law
from inid.testing import SeededSource, chi_square, fit_to_law, grid_pmf
from internals import module_with
from statistical.false_alarms import CORRELATION_SIGMAS, PREPARED_DRAWS, REJECT_BELOW
from statistical.test_short_words import CASES, EIGHT_BITS, FOUR_BITS

exact = module_with("inid.noise", "Bits")
prepared = module_with("inid.noise", "PreparedNoise")

both = pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])


def draws(table, value, scale, seed, count=PREPARED_DRAWS):
    noise = PreparedNoise(np.array([scale]), count, table, SeededSource(seed))
    return np.array([noise.add(value) for _ in range(count)])


@both
@pytest.mark.parametrize(("value", "scale"), [(0.0, 1.0), (-123456.78901, 1.9999)])
def test_the_right_law_is_accepted_and_a_wrong_one_is_not(mechanism, value, scale):
    samples = draws(law(mechanism), value, scale, 601)
    assert fit_to_law(samples, mechanism, value, scale) > REJECT_BELOW
    assert fit_to_law(samples, mechanism, value, 1.03 * scale, step=scale_step(scale)) < REJECT_BELOW
    assert fit_to_law(samples, mechanism, value + 0.03 * scale, scale) < REJECT_BELOW


def scale_step(scale):
    return 2.0 ** (np.frexp(scale)[1] - 13)


@both
@pytest.mark.parametrize(
    "layout", [pytest.param(EIGHT_BITS, id="eight"), pytest.param(FOUR_BITS, id="four", marks=pytest.mark.slow)]
)
def test_short_words_make_every_rare_path_common_and_keep_the_law(mechanism, layout, monkeypatch):
    settled = []
    original = exact.round_sum
    monkeypatch.setattr(prepared, "round_sum", lambda *args: settled.append(1) or original(*args))
    for value, scale in CASES:
        out = draws(law(mechanism, layout), value, scale, 602, PREPARED_DRAWS // 8)
        middle = round(value)
        counts = np.bincount(np.clip(out.astype(np.int64) - middle, -60, 60) + 60, minlength=121)
        steps = middle + np.arange(-60, 61)
        assert chi_square(counts, grid_pmf(mechanism, value, scale, steps, step=1.0)) > REJECT_BELOW
        assert chi_square(counts, grid_pmf(mechanism, value, scale * 1.05, steps, step=1.0)) < REJECT_BELOW
    assert len(settled) > 1000


@both
def test_values_that_depend_on_earlier_answers_leave_the_noise_independent(mechanism):
    """A descent asks next what the last answer suggests; the noise of the next answer must not know."""
    noise = PreparedNoise(np.array([1.0, 3.0]), PREPARED_DRAWS // 2, law(mechanism), SeededSource(603))
    value, errors = 0.0, []
    for _ in range(PREPARED_DRAWS):
        released = noise.add(value)
        errors.append(released - value)
        value = 0.37 * released + 0.1
    errors = np.array(errors).reshape(-1, 2) / [1.0, 3.0]
    for one, two in ((errors[:, 0], errors[:, 1]), (errors[:-1, 1], errors[1:, 0])):
        assert abs(np.corrcoef(one, two)[0, 1]) < CORRELATION_SIGMAS / np.sqrt(one.size)
