"""The paper's numbers that need no data, recomputed with the library (Sections V-A to V-D and Table II)."""

import math

import numpy as np
import pytest

import inid
from inid.testing import staircase_error

INDEX = np.arange(1.0, 21.0)
PROFILES = {"linear": INDEX, "quadratic": INDEX**2, "exponential": np.exp(INDEX)}
APPROX = inid.ApproxDP(epsilon=0.5, delta=1e-6)
PURE = inid.PureDP(epsilon=0.5)


def decibel(ratio):
    return 10 * math.log10(ratio)


def mse(profile, budget, mechanism, norm, allocation="optimal"):
    unit = np.asarray(profile) / np.linalg.norm(profile, norm)
    return inid.plan(inid.Sensitivity.box(unit), budget, mechanism=mechanism, allocation=allocation).mse


@pytest.mark.parametrize(
    ("name", "gain", "factor"),
    [("linear", 1.145, 1.3016), ("quadratic", 2.442, 1.7547), ("exponential", 9.658, 9.2423)],
)
def test_section_5a_gaussian_noise_gains_what_the_paper_says(name, gain, factor):
    profile = PROFILES[name]
    for epsilon in (0.1, 0.5, 2.0):
        promise = inid.ApproxDP(epsilon=epsilon, delta=1e-6)
        ratio = mse(profile, promise, "gaussian", 2, "iid") / mse(profile, promise, "gaussian", 2)
        assert round(decibel(ratio), 3) == gain
        assert round(ratio, 4) == factor
        assert inid.mse_reduction(profile, "gaussian") == pytest.approx(ratio, rel=1e-9)


@pytest.mark.parametrize(("name", "gain"), [("linear", 0.5459), ("quadratic", 1.3895), ("exponential", 7.6090)])
def test_section_5b_laplace_noise_gains_what_the_paper_says(name, gain):
    profile = PROFILES[name]
    for epsilon in (0.1, 0.5, 2.0):
        promise = inid.PureDP(epsilon=epsilon)
        ratio = mse(profile, promise, "laplace", 1, "iid") / mse(profile, promise, "laplace", 1)
        assert round(decibel(ratio), 4) == gain
        assert inid.mse_reduction(profile, "laplace") == pytest.approx(ratio, rel=1e-9)


def test_section_5a_the_exponential_profile_saturates_at_21_477_db():
    values = [decibel(mse(np.exp(np.arange(k) - float(k)), APPROX, "gaussian", 2)) for k in (60, 200)]
    assert round(values[1], 4) == 21.4766
    assert abs(values[0] - values[1]) < 1e-6


def test_section_5b_the_exponential_profile_saturates_at_14_432_db():
    # The text prints 14.243 with the last digits swapped; its own "5.4 dB above one-hot" (9.031) says 14.43.
    values = [decibel(mse(np.exp(np.arange(k) - float(k)), PURE, "laplace", 1)) for k in (80, 200)]
    assert round(values[1], 3) == 14.432
    assert abs(values[0] - values[1]) < 1e-6
    one_hot = decibel(mse([1.0, 0.0, 0.0], PURE, "laplace", 1))
    assert round(one_hot, 3) == 9.031
    assert round(values[1] - one_hot, 1) == 5.4


def test_section_5a_a_one_hot_profile_gains_13_01_db():
    one_hot = np.eye(20)[3]
    ratio = mse(np.ones(20), APPROX, "gaussian", 2) / mse(one_hot, APPROX, "gaussian", 2)
    assert round(decibel(ratio), 2) == 13.01


def test_section_5c_equal_sensitivities_prefer_gaussian_noise_from_nine_coordinates_on():
    laplace_wins = [mse(np.ones(k), PURE, "laplace", 2) < mse(np.ones(k), APPROX, "gaussian", 2) for k in range(1, 21)]
    assert laplace_wins == [k < 9 for k in range(1, 21)]


def test_section_5c_an_exponential_profile_never_prefers_gaussian_noise():
    for k in (*range(1, 31), 100, 300):
        profile = np.exp(np.arange(k) - float(k))
        assert mse(profile, PURE, "laplace", 2) < mse(profile, APPROX, "gaussian", 2)


TABLE = {
    "staircase": [3.9962, 1.9862, 1.3050, 0.9546, 0.7366, 0.5856],
    "iid": [4, 2, 1.3333, 1, 0.8, 0.6667],
    "optimal": [3.4283, 1.7141, 1.1428, 0.8571, 0.6857, 0.5714],
}


@pytest.mark.parametrize("row", TABLE)
def test_table_2_all_eighteen_numbers(row):
    sensitivity = inid.Sensitivity.box([0.85, 0.15])
    for epsilon, printed in zip((0.5, 1.0, 1.5, 2.0, 2.5, 3.0), TABLE[row], strict=True):
        if row == "staircase":
            found = staircase_error(epsilon, sensitivity=1.0, dimension=2)
        else:
            found = inid.plan(
                sensitivity, inid.PureDP(epsilon=epsilon), allocation=row, order=1, mechanism="laplace"
            ).error
        assert round(found, 4) == printed


def test_theorem_3_disparity_is_the_gain_over_noise_for_the_largest_sensitivity_everywhere():
    # Gaussian: |lambda|_1^2 = nu^2 (K max)^2. Laplace: at most that.
    for profile in PROFILES.values():
        box, cube = inid.Sensitivity.box(profile), inid.Sensitivity.box(np.full(20, profile.max()))
        nu = inid.disparity(profile)
        gaussian = [inid.plan(s, APPROX, mechanism="gaussian").mse for s in (box, cube)]
        assert gaussian[0] == pytest.approx(nu**2 * gaussian[1], rel=1e-12)
        laplace = [inid.plan(s, PURE, mechanism="laplace").mse for s in (box, cube)]
        assert laplace[0] <= nu**2 * laplace[1] * (1 + 1e-12)


def test_the_example_of_a_known_request_for_budgets_per_column():
    # Sensitivities 1 and 3 at epsilon 0.5: i.i.d. noise 256, an equal split 320, the optimum 233.8.
    made = inid.plan(inid.Sensitivity.box([1.0, 3.0]), PURE, mechanism="laplace")
    assert made.scales.round(2).tolist() == [6.16, 8.88]
    assert round(made.error, 1) == 233.8
    table = made.compare()
    assert round(table.row("laplace", "iid").error, 9) == 256
    assert round(table.row("laplace", "spr").error, 9) == 320


def test_approximate_promises_serve_laplace_noise_by_epsilon_minus_two_log():
    made = inid.plan(inid.Sensitivity.box([1.0]), inid.ApproxDP(epsilon=1.0, delta=0.1), mechanism="laplace")
    assert made.scales[0] == pytest.approx(1 / (1 - 2 * math.log(0.9)), rel=1e-14)
