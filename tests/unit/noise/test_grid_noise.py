"""The grid is public, from the scales alone; `add_noise` at its edges: values, scales, memory, what data may change."""

import math
import sys
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inid.errors import ArgumentError, MissingExtraError, RangeError
from inid.noise import (
    LARGEST_SCALE,
    SMALLEST_SCALE,
    RandomSource,
    add_noise,
    effective_scales,
    grid,
    law,
    limits,
    noisy,
)
from inid.testing import SeededSource, unsafe_no_noise, unsafe_seed
from internals import module_with

compiled_module = module_with("inid.noise", "available")
exact = module_with("inid.noise", "Bits")
vectors = module_with("inid.noise", "Scratch")

both = pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])


@given(st.floats(min_value=SMALLEST_SCALE, max_value=LARGEST_SCALE))
def test_grid_is_a_power_of_two_just_below_a_4096th_of_the_scale(scale):
    step = float(grid([scale])[0])
    assert math.frexp(step)[0] == 0.5
    assert step * 2**12 <= scale < step * 2**13
    assert step >= np.finfo(np.float64).tiny


@given(st.floats(min_value=SMALLEST_SCALE, max_value=LARGEST_SCALE))
def test_limits_leave_room_for_exact_results(scale):
    step, most = float(grid([scale])[0]), float(limits([scale])[0])
    assert math.isfinite(2 * most)
    assert 2 * most / step <= 2**53
    assert most >= 2**21 * scale
    assert math.frexp(most)[0] == 0.5
    if scale < 2.0**980:
        assert most == step * 2**52


@given(st.floats(min_value=SMALLEST_SCALE, max_value=LARGEST_SCALE))
def test_effective_scale_is_the_scale_asked_for(scale):
    assert float(effective_scales([scale])[0]) == scale


def test_scale_zero_has_no_grid():
    assert grid([0.0, 1.0])[0] == 0.0
    assert limits([0.0, 1.0])[0] == np.finfo(np.float64).max


@pytest.mark.parametrize(
    "scale", [5e-324, 1e-310, np.nextafter(SMALLEST_SCALE, 0), np.nextafter(LARGEST_SCALE, np.inf)]
)
@pytest.mark.parametrize("function", [grid, limits, effective_scales])
def test_scales_without_a_grid_are_refused(function, scale):
    with pytest.raises(RangeError, match=r"scales\[1\]"):
        function(np.array([1.0, scale]))


@pytest.mark.parametrize("scales", [[1.0, -1.0], [math.nan], [math.inf], [], [[1.0]], "1", None, ["a"], 1.0])
def test_malformed_scales_are_refused(scales):
    with pytest.raises(ArgumentError, match="scales"):
        grid(scales)


def test_the_result_does_not_alias_the_argument():
    scales = np.array([1.0, 2.0])
    effective_scales(scales)[0] = 9.0
    assert scales[0] == 1.0


@both
def test_results_are_multiples_of_the_grid(mechanism, compiled):
    rng = np.random.default_rng(0)
    scales = np.exp(rng.uniform(-690, 690, 5000))
    values = rng.normal(size=5000) * scales * 10.0 ** rng.integers(-5, 11, 5000)
    out = add_noise(values, scales, mechanism, compiled=compiled)
    for y, step in zip(out.tolist(), grid(scales).tolist(), strict=True):
        assert (Fraction(y) / Fraction(step)).denominator == 1
    # Laplace noise of 60 scales has probability 1e-26.
    with np.errstate(under="ignore"):
        assert (np.abs(out - values) <= 60 * scales + np.abs(values) * 2.0**-52).all()


@both
@pytest.mark.parametrize("scale", [2.0**-1010, 1e-300, 1e-9, 1.0, 3e17, 1e300, 2.0**1000])
def test_any_scale_is_honoured(mechanism, scale, compiled):
    with unsafe_seed(11):
        out = add_noise(np.zeros(4000), np.full(4000, scale), mechanism, compiled=compiled)
    # The median of |T| is ln 2 or 0.6745 scales; its standard error here is 2.5 %.
    middle = np.log(2.0) if mechanism == "laplace" else 0.67448975
    assert np.median(np.abs(out)) / scale == pytest.approx(middle, rel=0.15)


@both
def test_strange_values_are_mapped_to_public_ones(mechanism, compiled):
    scale = 2.5
    strange = np.array([np.nan, np.inf, -np.inf, 1e300, -1e300, -0.0, 5e-324])
    most = float(limits([scale])[0])
    mapped = np.array([0.0, most, -most, most, -most, 0.0, 0.0])
    with unsafe_seed(3):
        one = add_noise(strange, np.full(7, scale), mechanism, compiled=compiled)
    with unsafe_seed(3):
        two = add_noise(mapped, np.full(7, scale), mechanism, compiled=compiled)
    assert one.tobytes() == two.tobytes()
    assert np.isfinite(one).all()


@pytest.mark.parametrize("scale", [1e300, 2.0**1000])
def test_huge_scales_hold_values_before_they_overflow(scale, compiled):
    values = np.array([np.nan, np.inf, -np.inf, 1.7e308])
    out = add_noise(values, np.full(4, scale), "laplace", compiled=compiled)
    most = float(limits([scale])[0])
    assert np.isfinite(out).all()
    assert np.abs(out - np.array([0.0, most, -most, most])).max() < 60 * scale


def test_scale_zero_passes_values_through():
    values = np.array([1.1, np.nan, np.inf, -np.inf, -0.0, 7.0])
    out = add_noise(values, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0], "laplace")
    most = np.finfo(np.float64).max
    assert out[:5].tolist() == [1.1, 0.0, most, -most, 0.0]
    assert not np.signbit(out[4])
    assert out[5] % grid([1.0])[0] == 0


@both
def test_minus_zero_never_escapes(mechanism, compiled):
    with unsafe_seed(2):
        out = add_noise(np.full(400_000, -1e-9), np.ones(400_000), mechanism, compiled=compiled)
    zeros = out[out == 0]
    assert zeros.size > 10
    assert not np.signbit(zeros).any()


def test_without_noise_halves_go_up():
    with unsafe_no_noise():
        out = add_noise([0.5, -0.5, 1.49, np.nan, -1e-9, np.inf], [4096.0] * 6, "gaussian")
    assert out.tolist() == [1.0, 0.0, 1.0, 0.0, 0.0, 2.0**52]
    assert not np.signbit(out[out == 0]).any()


@pytest.mark.parametrize("size", [1, 2, 3, 16383, 16384, 16385, 40_000, 70_000])
def test_every_length_is_covered(size, compiled):
    out = add_noise(np.full(size, 1e6), np.ones(size), "laplace", compiled=compiled)
    assert out.shape == (size,)
    assert (np.abs(out - 1e6) < 60).all()
    if size > 2:  # two draws agree on the grid with probability 6e-5, three with 4e-9
        assert np.unique(out).size > 1


def test_values_of_other_types_are_taken():
    assert add_noise([1, 2], [1.0, 1.0], "laplace").shape == (2,)
    assert add_noise(np.arange(3, dtype=np.int32), np.ones(3), "gaussian").shape == (3,)
    strided = np.arange(10.0)[::2]
    assert add_noise(strided, np.ones(10)[::2], "gaussian").shape == (5,)


def test_read_only_and_writeable_arrays_are_taken_alike(compiled):
    for frozen in (False, True):
        values, scales = np.zeros(10), np.ones(10)
        values.flags.writeable = scales.flags.writeable = not frozen
        assert add_noise(values, scales, "laplace", compiled=compiled).flags.writeable


def test_arguments_are_left_alone():
    values, scales = np.array([np.nan, 2.0]), np.array([1.0, 0.0])
    add_noise(values, scales, "laplace")
    assert np.isnan(values[0])
    assert scales.tolist() == [1.0, 0.0]


SECRET = 123456.789


@pytest.mark.parametrize(
    "values",
    [[SECRET], [SECRET] * 3, [[SECRET, 1.0]], SECRET, ["x", SECRET], [SECRET, None], [1j * SECRET, 1.0], [True, False]],
)
def test_malformed_values_are_refused_without_showing_them(values):
    with pytest.raises(ArgumentError, match="values") as caught:
        add_noise(values, [1.0, 1.0], "laplace")
    assert "123456" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_masked_array_is_refused():
    with pytest.raises(ArgumentError, match="masked"):
        add_noise(np.ma.array([SECRET, 1.0], mask=[True, False]), [1.0, 1.0], "laplace")


class _Counting(SeededSource):
    drawn = 0

    def fill(self, out):
        self.drawn += out.size
        return super().fill(out)


def test_a_bad_scale_is_refused_before_anything_is_drawn():
    source = _Counting(1)
    with pytest.raises(RangeError):
        add_noise([1.0, 2.0], [1.0, 1e-308], "laplace", source)
    with pytest.raises(ArgumentError, match="mechanism"):
        add_noise([1.0, 2.0], [1.0, 1.0], "cauchy", source)
    assert source.drawn == 0


@both
def test_words_and_paths_do_not_depend_on_the_values(mechanism, compiled, monkeypatch):
    """What is rejected, and what takes long, is decided by the words. Only a tie of 24 bits may also see a value."""
    rng = np.random.default_rng(4)
    inputs = [np.zeros(20_000), np.full(20_000, np.nan), np.full(20_000, np.inf), rng.normal(size=20_000) * 1e9]
    settled = []
    original = exact.round_sum
    monkeypatch.setattr(vectors, "round_sum", lambda *args: settled.append(1) or original(*args))
    costs = []
    for values in inputs:
        source = _Counting(21)
        settled.clear()
        add_noise(values, np.ones(20_000), mechanism, source, compiled=compiled)
        costs.append((source.drawn, len(settled)))
    assert len(set(costs)) == 1


@both
def test_a_word_per_draw_is_almost_all_it_takes(mechanism):
    source = _Counting(22)
    add_noise(np.zeros(100_000), np.ones(100_000), mechanism, source)
    assert 100_000 <= source.drawn < 107_000


@both
def test_memory_stays_below_two_arrays(mechanism, compiled):
    size = 1_000_000
    values, scales = np.zeros(size), np.full(size, 3.0)
    add_noise(values[:100_000], scales[:100_000], mechanism, compiled=compiled)
    tracemalloc.start()
    out = add_noise(values, scales, mechanism, compiled=compiled)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * out.nbytes


def test_memory_with_zero_scales_stays_below_five_arrays():
    size = 1_000_000
    values, scales = np.zeros(size), np.ones(size)
    scales[::2] = 0.0
    tracemalloc.start()
    out = add_noise(values, scales, "laplace", compiled=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * out.nbytes


def test_the_same_words_give_the_same_release_on_both_paths():
    rng = np.random.default_rng(9)
    values, scales = rng.normal(size=200_000) * 50, rng.uniform(0.1, 9, 200_000)
    one = noisy(values, scales, law("gaussian"), SeededSource(4), compiled=False)
    two = noisy(values, scales, law("gaussian"), SeededSource(4), compiled=True)
    assert one.tobytes() == two.tobytes()


def test_the_environment_can_switch_the_compiled_path_off(monkeypatch):
    monkeypatch.delenv("INID_COMPILED", raising=False)
    assert compiled_module.available()
    monkeypatch.setenv("INID_COMPILED", "0")
    assert not compiled_module.available()


def test_without_numba_the_default_works_and_the_compiled_path_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    compiled_module._kernel.cache_clear()
    assert not compiled_module.available()
    assert add_noise(np.zeros(70_000), np.ones(70_000), "laplace").size == 70_000
    with pytest.raises(MissingExtraError, match=r"\[fast\]"):
        add_noise([0.0], [1.0], "laplace", compiled=True)


def test_the_vector_path_uses_the_exact_path_for_ties(monkeypatch):
    """A value that puts the sum within 2**-24 of a half, for the very words drawn, must be settled exactly."""
    words = SeededSource(31).words(64)
    table = law("laplace")
    inside = np.flatnonzero(table.first[(words & np.uint64(0xFFFF)).astype(int)] >= 0)
    at = int(inside[0])
    fraction = Fraction((int(words[at]) >> 16) & ((1 << 36) - 1), 1 << 36)
    place = (int(table.first[int(words[at]) & 0xFFFF]) + fraction) / 64
    values = np.zeros(64)
    values[at] = float(Fraction(1, 8192) - place + Fraction(1, 2**40))
    settled = []
    original = exact.round_sum

    def watched(*args):
        settled.append(args[0])
        return original(*args)

    monkeypatch.setattr(vectors, "round_sum", watched)
    add_noise(values, np.ones(64), "laplace", SeededSource(31))
    assert float(values[at]) in settled


def test_a_given_source_is_used():
    source = RandomSource()
    assert add_noise([0.0], [1.0], "laplace", source).shape == (1,)
