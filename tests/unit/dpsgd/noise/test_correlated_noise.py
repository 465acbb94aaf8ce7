"""Rows of correlated noise: what takes part together, what is dropped, and units in which a step has one level."""

import copy
import math
import os
import pickle
from unittest import mock

import numpy as np
import pytest
import torch
from scipy.linalg import toeplitz

from correlated_runs import ONE, fed, noise_map, squared_shift, strategy
from inid.dpsgd.noise import (
    CorrelatedNoise,
    ExactCorrelatedNoise,
    NoiseHistory,
    Recipe,
    add_scaled,
    quanta_of,
    whole_coefficients,
)
from inid.errors import ArgumentError
from inid.testing import unsafe_no_noise, unsafe_seed
from internals import module_with
from needs import needs

correlated_noise = module_with("inid.dpsgd.noise", "RunNoise")

BANDS, STEPS = 4, 12
LEVEL = ONE.plan([1.0])


def matrix(c, steps):
    return toeplitz(np.concatenate([c, np.zeros(steps - len(c))]), np.zeros(steps))


def released(rows, plans=None, kind=CorrelatedNoise):
    """What is released of nothing in these rows."""
    noise = kind(strategy(BANDS, STEPS))
    return [
        float(noise.noisy(torch.zeros(1, dtype=torch.float64), LEVEL if plans is None else plans[at], None, row))
        for at, row in enumerate(rows)
    ]


def shift(rows, took, plans=None, kind=CorrelatedNoise, lengths=None):
    """The squared shift of an example that takes part in these releases."""
    lengths = np.ones(len(rows)) if lengths is None else np.asarray(lengths)
    made = noise_map(lambda: released(rows, plans, kind), len(rows))
    return squared_shift(made, np.where(np.isin(np.arange(len(rows)), took), lengths, 0.0))


@pytest.mark.parametrize("bands", [2, 3, 4, 12])
def test_rows_that_follow_are_the_inverse_of_the_strategy(bands):
    c = strategy(bands, STEPS)
    noise = CorrelatedNoise(c)
    made = noise_map(
        lambda: [float(noise.noisy(torch.zeros(1, dtype=torch.float64), LEVEL, None, (0, t))) for t in range(STEPS)],
        STEPS,
    )
    assert np.abs(made - np.linalg.inv(matrix(c, STEPS))).max() < 1e-12


def test_participations_as_far_apart_as_bands_cost_what_they_are_charged():
    rows = [(0, t) for t in range(STEPS)]
    for group in range(BANDS):
        took = list(range(group, STEPS, BANDS))
        assert shift(rows, took) <= len(took) * (1 + 1e-9)
    assert shift(rows, [0, 1]) > 2.1  # and only those


class NeverForgets(NoiseHistory):
    """The twin: what is held is used whatever row comes next."""

    def before(self, like, row):
        self._last = (row[0], row[1] - 1)
        return super().before(like, row)


def unguarded():
    return mock.patch.object(correlated_noise, "NoiseHistory", NeverForgets)


@pytest.mark.parametrize("skipped", [1, 3, 5])
def test_a_number_that_is_left_out_drops_what_is_held(skipped):
    """Releases of the numbers that are left; groups follow from numbers, so participations come closer in releases."""
    numbers = [t for t in range(STEPS) if t != skipped]
    rows, worst = [(0, t) for t in numbers], []
    for group in range(BANDS):
        took = [at for at, t in enumerate(numbers) if t % BANDS == group]
        assert shift(rows, took) <= len(took) * (1 + 1e-9)
        with unguarded():
            worst.append(shift(rows, took) / len(took))
    assert max(worst) > 1.05


def test_a_new_stage_drops_what_is_held():
    """A checkpoint after six steps, gone back to after nine: steps 6 to 8 are released twice, with other draws."""
    rows = [*[(0, t) for t in range(9)], *[(1, t) for t in range(3)]]
    took = [0, 4, 8, 9]  # group 0 in both stages, whose numbers begin again
    assert shift(rows, took) <= 4 * (1 + 1e-9)
    with unguarded():  # the last two are beside one another in one strategy
        assert shift(rows, took) > 4.1


def test_a_restored_copy_of_what_was_held_would_cost_more():
    """Why noise is not in checkpoints: the rows after a checkpoint are then released twice. 2 - c_0^2 for 1."""
    c = strategy(BANDS, STEPS)
    once = matrix(c, 6)
    twice = np.vstack([once, once[3:]])  # of an example in step 2: its column reaches rows 3 to 5, both times
    assert (twice[:, 2] ** 2).sum() == pytest.approx(2 - c[0] ** 2, abs=0.02)
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(NoiseHistory(c))
    for duplicate in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="secret"):
            duplicate(NoiseHistory(c))


def test_a_new_deal_of_groups_must_begin_a_stage():
    """Group 3 before the deal, group 0 after: one step apart."""
    went_on = [(0, t) for t in range(8)]
    began = [*[(0, t) for t in range(4)], *[(1, t) for t in range(4)]]
    assert shift(went_on, [3, 4]) > 2.1
    assert shift(began, [3, 4]) <= 2 * (1 + 1e-9)


def test_a_change_of_bands_begins_with_nothing_held():
    """Runs of other strategies have other noise: the map of both is block-diagonal."""

    def both():
        first, second = CorrelatedNoise(strategy(4, 6)), CorrelatedNoise(strategy(2, 6))
        zero = torch.zeros(1, dtype=torch.float64)
        return [float(noise.noisy(zero, LEVEL, None, (0, t))) for noise in (first, second) for t in range(6)]

    made = noise_map(both, 12)
    assert not made[6:, :6].any()
    for took in CHANGED:
        assert squared_shift(made, np.isin(np.arange(12), took).astype(float)) <= len(took) * (1 + 1e-9)


# Turns in four bands, and from the seventh release on in two: everybody's, as they come of two deals.
CHANGED = [[*range(one, 6, 4), *range(6 + other, 12, 2)] for one in range(4) for other in range(2)]


def test_noise_that_is_held_over_a_change_of_bands_reveals_more():
    """The twin: the new strategy takes back the old one's last row, as if it were one of its own."""

    def both():
        first, second = CorrelatedNoise(strategy(4, 6)), CorrelatedNoise(strategy(2, 6))
        zero = torch.zeros(1, dtype=torch.float64)
        found = [float(first.noisy(zero, LEVEL, None, (0, t))) for t in range(6)]
        old, new = first._history, second._history
        new.before(zero, (0, 0))
        new.keep(old._vectors[old._oldest - 1], (0, -1))
        return found + [float(second.noisy(zero, LEVEL, None, (0, t))) for t in range(6)]

    made = noise_map(both, 12)
    assert made[6:, :6].any()
    over = [squared_shift(made, np.isin(np.arange(12), took).astype(float)) / len(took) for took in CHANGED]
    assert max(over) > 1.05


class HoldsScaled(CorrelatedNoise):
    """The twin: noise is held as it was added, in the units of the sums."""

    def noisy(self, sums, made, counts, row):
        fresh = add_scaled(correlated_noise.standard_noise(sums, "gaussian"), torch.zeros_like(sums), made, counts)
        rows, weights = self._history.before(fresh, row)
        fresh.addmv_(rows, weights, beta=self._first)
        self._history.keep(fresh, row)
        return sums + fresh


def test_thresholds_that_fall_tenfold_cost_what_they_are_charged():
    """C acts on sums over their scales (T3). In the units of the sums an example that came before is not covered."""
    lengths = [1.0] * 2 + [0.1] * 6
    plans = [ONE.plan([length]) for length in lengths]
    rows = [(0, t) for t in range(8)]
    for took in ([0, 4], [1, 5], [2, 6], [3, 7]):
        assert shift(rows, took, plans, lengths=lengths) <= len(took) * (1 + 1e-9)
    assert shift(rows, [1, 5], plans, HoldsScaled, lengths) > 10


def test_an_interrupted_step_has_no_next_row():
    noise, zero = CorrelatedNoise(strategy(BANDS, STEPS)), torch.zeros(1, dtype=torch.float64)

    def take(number):
        with fed([1.0]):
            return float(noise.noisy(zero, LEVEL, None, (0, number)))

    first = take(0)
    with mock.patch.object(NoiseHistory, "keep", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        take(1)
    assert take(2) == first  # as if it were the first


def test_a_forked_child_holds_nothing():
    fork, noise, zero = needs("fork"), CorrelatedNoise(strategy(BANDS, STEPS)), torch.zeros(1, dtype=torch.float64)
    with fed([1.0, 1.0]):
        first = float(noise.noisy(zero, LEVEL, None, (0, 0)))
        child = fork()
        if not child:
            same = float(noise.noisy(zero, LEVEL, None, (0, 1))) == first
            os._exit(0 if same else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert float(noise.noisy(zero, LEVEL, None, (0, 1))) != first


def test_nothing_of_it_is_shown():
    noise = CorrelatedNoise(strategy(2, 4))
    noise.noisy(torch.full((1,), 0.1234567), LEVEL, None, (0, 0))
    assert repr(noise) == "<CorrelatedNoise: 2 bands>"
    assert repr(noise._history) == "<NoiseHistory: 1>"


# Noise of the exact law.

TWO = Recipe("per_layer", (3, 2), "gaussian", "optimal", None, 0.7)


def test_whole_coefficients_cost_nothing_to_speak_of():
    """The error of all running sums, over that of the strategy itself: less than one in ten thousand."""
    for bands, steps in [(2, 100), (16, 500), (64, 500)]:
        c = strategy(bands, steps)
        k = np.array(whole_coefficients(c), dtype=float)
        errors = [
            np.linalg.norm(np.tril(np.ones((steps, steps))) @ np.linalg.inv(matrix(each / np.linalg.norm(each), steps)))
            for each in (c, k)
        ]
        assert errors[1] / errors[0] == pytest.approx(1, abs=1e-4)


def test_exact_rows_hold_what_was_added_to_the_last_bit():
    made, noise = TWO.plan([1.0, 0.3]), ExactCorrelatedNoise(strategy(3, 9))
    quanta = torch.tensor(np.repeat(quanta_of(made), (3, 2)))
    draw = np.random.default_rng(3)
    with unsafe_seed(5):
        for number in range(9):
            sums = torch.from_numpy(draw.integers(-(2**22), 2**22, 5).astype(float)) * quanta
            found = noise.noisy(sums, made, None, (0, number))
            held = noise._history._vectors[(noise._history._oldest - 1) % 2]
            assert torch.equal(found / quanta, (found / quanta).round())
            assert torch.equal(found + held, sums)  # both are whole quanta: no rounding
            assert torch.equal(held / quanta, (held / quanta).round())


def test_exact_noise_without_noise_gives_the_sums_back_up_to_its_grid():
    made, noise = TWO.plan([1.0, 0.3]), ExactCorrelatedNoise(strategy(3, 9))
    scales = np.repeat([scale for scale, _ in made.runs], (3, 2))
    quanta = torch.tensor(np.repeat(quanta_of(made), (3, 2)))
    sums = torch.arange(-2.0, 3.0, dtype=torch.float64) * 1e4 * quanta
    with unsafe_no_noise():
        for number in range(9):
            found = noise.noisy(sums, made, None, (0, number))
            assert ((found - sums).abs().numpy() < 2.0**-9 * scales).all()


def test_exact_noise_has_the_scales_of_the_strategy():
    """The first row, before anything is held: scale |k| / k_0 times the plan's, within 1 % at 100,000 draws."""
    size = 100_000
    made = Recipe("global", (size,), "gaussian", "optimal", None, 1.0).plan([1.0])
    for kind, length in ((ExactCorrelatedNoise, None), (CorrelatedNoise, 1.0)):
        c = strategy(4, 8)
        k = np.array(whole_coefficients(c), dtype=float)
        wanted = np.linalg.norm(k) / k[0] if length is None else 1 / c[0]
        with unsafe_seed(9):
            found = kind(c).noisy(torch.zeros(size, dtype=torch.float64), made, None, (0, 0)).numpy().std()
        assert found == pytest.approx(wanted, rel=0.0125)  # 5.6 standard deviations
        assert math.isclose(float(made.scales[0]), 1.0)


class RoundsWhatIsHeld(ExactCorrelatedNoise):
    """The twin: what is held is rounded to the grid of the noise, as it would be in fewer digits."""

    def noisy(self, sums, made, counts, row):
        found = super().noisy(sums, made, counts, row)
        step = self._length * float(made.runs[0][0]) * 2.0**-12
        self._history._oldest = 0  # in place of what was held
        self._history.keep(((sums - found) / step).round() * step, row)
        return found


@pytest.mark.parametrize("kind", [ExactCorrelatedNoise, RoundsWhatIsHeld])
def test_sums_at_half_a_step_of_the_grid_are_held_whole(kind):
    """Half a step of the noise's grid, which rounding would bring to one of its ends."""
    made, noise = LEVEL, kind(strategy(3, 9))
    sums = torch.full((1,), noise._length * 2.0**-13, dtype=torch.float64)
    sums = (sums / quanta_of(made)[0]).round() * quanta_of(made)[0]
    with unsafe_seed(5):
        found = noise.noisy(sums, made, None, (0, 0))
    whole = torch.equal(found + noise._history._vectors[0], sums)
    assert whole == (kind is ExactCorrelatedNoise)


def test_sums_too_long_to_be_held_without_rounding_are_refused():
    noise = ExactCorrelatedNoise(strategy(3, 9))
    noise.check(10**6, 0.5)
    with pytest.raises(ArgumentError, match="too long"):
        noise.check(10**8, 0.1)
