"""Seeded and silent modes: repeatable inside their block, gone outside, never called private."""

import copy

import numpy as np
import pytest

from inid.errors import ArgumentError
from inid.noise import add_noise, current_source, grid
from inid.testing import SeededSource, unsafe_no_noise, unsafe_seed
from internals import module_with

source = module_with("inid.noise", "Single")


def release(size=100):
    return add_noise(np.zeros(size), np.ones(size), "gaussian")


def test_a_seed_repeats_noise_and_another_does_not():
    with unsafe_seed(7):
        one = release()
    with unsafe_seed(7):
        two = release()
    with unsafe_seed(8):
        other = release()
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)
    assert not np.array_equal(release(), release())


def test_a_seeded_stream_does_not_restart_within_its_block():
    with unsafe_seed(7):
        assert not np.array_equal(release(), release())


def test_a_seeded_stream_goes_on_after_its_key_is_used_up(monkeypatch):
    monkeypatch.setattr(source, "_BYTES_PER_KEY", 1 << 17)
    drawn = SeededSource(1).words(3 << 14)
    assert np.unique(drawn).size == drawn.size
    assert np.array_equal(drawn, SeededSource(1).words(3 << 14))


def test_the_block_ends_even_after_an_error():
    with pytest.raises(RuntimeError), unsafe_seed(1):
        raise RuntimeError
    assert current_source().private


@pytest.mark.parametrize("seed", [-1, 1.5, "7", None, True])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ArgumentError, match="seed"), unsafe_seed(seed):
        pass


def test_a_seeded_source_is_not_copied_either():
    with pytest.raises(TypeError, match="noise would repeat"):
        copy.deepcopy(SeededSource(1))


def test_no_noise_rounds_to_the_grid_only():
    values = np.random.default_rng(0).normal(size=1000) * 1e3
    with unsafe_no_noise():
        out = add_noise(values, np.full(1000, 3.0), "laplace")
    step = grid([3.0])[0]
    assert (np.abs(out - values) <= step / 2).all()
    assert (out % step == 0).all()
