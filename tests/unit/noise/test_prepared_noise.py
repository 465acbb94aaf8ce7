"""Noise drawn ahead: the bits of `noisy`, used once, and never by two processes."""

import copy
import os
import pickle
from collections import Counter

import numpy as np
import pytest

from inid.errors import GuaranteeError
from inid.noise import Law, Layout, PreparedNoise, RandomSource, grid, law, limits, noisy
from inid.testing import SeededSource
from internals import module_with
from needs import needs

exact = module_with("inid.noise", "Bits")
prepared = module_with("inid.noise", "PreparedNoise")

both = pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
SHORT = Layout(index_bits=8, cell_bits=2, fraction_bits=8, uniform_bits=8, tail_bits=3, extra_bits=4, grid_bits=0)
STRANGE = [np.nan, np.inf, -np.inf, 1e300, -1e300, -0.0, 5e-324, 0.0]


def one_by_one(noise, values):
    return np.array([noise.add(value) for value in np.asarray(values).tolist()])


@both
@pytest.mark.parametrize("layout", [Layout(), SHORT], ids=["default", "short"])
def test_the_same_words_give_the_same_release_as_all_at_once(mechanism, layout):
    """First table, rest and tail alike; a tie is settled by later words, which may be others."""
    rng = np.random.default_rng(1)
    values, scales = rng.normal(size=4000) * 1e3, np.exp(rng.uniform(-30, 30, 4000))
    table = law(mechanism, layout)
    ahead = one_by_one(PreparedNoise(scales, 1, table, SeededSource(6)), values)
    at_once = noisy(values, scales, table, SeededSource(6))
    steps = grid(scales, bits=layout.grid_bits)
    assert (ahead / steps % 1 == 0).all()
    if layout == SHORT:  # ties are common and draw words of their own, which puts off the rest of the law
        inside = table.first[SeededSource(6).words(4000) & np.uint64(255)] != Law.REST
        assert inside.mean() > 0.5
        assert (np.abs(ahead - at_once) <= steps)[inside].all()
    else:
        assert ahead.tobytes() == at_once.tobytes()


@both
def test_rounds_repeat_the_scales_in_their_order_across_batches(mechanism, monkeypatch):
    monkeypatch.setattr(prepared, "_BATCH", 7)
    scales = np.array([2.0**-30, 1.0, 2.0**30])
    noise = PreparedNoise(scales, 20, law(mechanism), SeededSource(2))
    out = one_by_one(noise, np.zeros(60)).reshape(20, 3) / scales
    # The median of |T| is about 0.7 scales; of 20 draws it is within a factor of four but for one case in millions.
    assert ((np.median(np.abs(out), axis=0) > 0.17) & (np.median(np.abs(out), axis=0) < 2.8)).all()
    assert np.unique(out).size == 60


def test_no_more_draws_than_were_asked_for():
    noise = PreparedNoise(np.array([1.0, 2.0]), 3, law("gaussian"), RandomSource())
    one_by_one(noise, np.zeros(6))
    with pytest.raises(GuaranteeError, match="has been used"):
        noise.add(0.0)


@both
@pytest.mark.parametrize("scale", [2.5, 1e-300, 1e300, 0.0])
def test_strange_values_and_scales_count_as_they_do_all_at_once(mechanism, scale):
    table, scales = law(mechanism), np.full(len(STRANGE), scale)
    ahead = one_by_one(PreparedNoise(scales, 1, table, SeededSource(3)), STRANGE)
    assert np.isfinite(ahead).all()
    assert not np.signbit(ahead[ahead == 0]).any()
    most = float(limits([scale])[0])
    mapped = np.nan_to_num(np.array(STRANGE), nan=0.0, posinf=most, neginf=-most).clip(-most, most)
    if 0 < scale < 1e300:
        expected = one_by_one(PreparedNoise(scales, 1, table, SeededSource(3)), mapped)
        assert ahead.tobytes() == expected.tobytes()
    elif scale == 0:
        assert ahead.tolist() == (mapped + 0.0).tolist()
    else:
        assert (np.abs(ahead - mapped) < 60 * scale).all()


def test_a_silent_source_leaves_noise_out():
    noise = PreparedNoise(np.array([4096.0]), 4, law("gaussian"), SeededSource(0, silent=True))
    assert one_by_one(noise, [0.5, -0.5, 1.49, np.nan]).tolist() == [1.0, 0.0, 1.0, 0.0]


def test_a_tie_is_settled_exactly(monkeypatch):
    """A value that puts the sum within the margin of a half, for the very word drawn."""
    table, settled = law("laplace"), Counter()
    original = exact.round_sum
    monkeypatch.setattr(prepared, "round_sum", lambda *args: settled.update([args[0]]) or original(*args))
    seed = next(seed for seed in range(99) if table.first[int(SeededSource(seed).words(1)[0]) & 0xFFFF] >= 0)
    word = int(SeededSource(seed).words(1)[0])
    left = int(table.first[word & 0xFFFF])
    place = (left + ((word >> 16) & (2**36 - 1)) / 2**36) / 64
    tie = 2.0**-13 - place
    PreparedNoise(np.array([1.0]), 1, table, SeededSource(seed)).add(tie)
    PreparedNoise(np.array([1.0]), 1, table, SeededSource(seed)).add(tie + 2.0**-15)
    assert settled == Counter([tie])


def test_preparing_draws_nothing_before_the_first_value_and_about_a_word_per_draw():
    drawn = []

    class Counting(SeededSource):
        def fill(self, out):
            drawn.append(out.size)
            return super().fill(out)

    noise = PreparedNoise(np.ones(10), 100, law("gaussian"), Counting(1))
    assert not drawn
    one_by_one(noise, np.zeros(1000))
    assert 1000 <= sum(drawn) < 1200


@pytest.mark.parametrize("attempt", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_prepared_noise_is_not_copied(attempt):
    with pytest.raises(TypeError, match="used twice"):
        attempt(PreparedNoise(np.ones(1), 5, law("laplace"), RandomSource()))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("hook", [True, False], ids=["hook", "process-id-only"])
def test_a_forked_child_draws_its_own(hook, monkeypatch):
    """The fork hook and the process check each suffice alone; the child goes on with as many draws as were left."""
    needs("fork")
    noise = PreparedNoise(np.ones(4), 10, law("gaussian"), RandomSource())
    one_by_one(noise, np.zeros(3))
    if hook:
        monkeypatch.setattr(prepared.os, "getpid", lambda: noise._process)
    else:
        monkeypatch.setattr(PreparedNoise, "_after_fork", lambda _: None)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, one_by_one(noise, np.zeros(37)).tobytes())
        os._exit(0)
    mine = one_by_one(noise, np.zeros(37))
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reader, 37 * 8))
    # Two draws agree on the grid with probability 7e-5; of 37 pairs, three with 3e-9.
    assert (mine == theirs).sum() < 3
    with pytest.raises(GuaranteeError):
        noise.add(0.0)
