"""One door for randomness: words never repeat, whatever happens to the process, the thread or the object."""

import asyncio
import concurrent.futures
import copy
import functools
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest

from inid.errors import GuaranteeError
from inid.noise import RandomSource, SharedSource, add_noise, current_source, source_in_use
from inid.testing import unsafe_no_noise, unsafe_seed
from internals import module_with
from needs import needs

source_module = module_with("inid.noise", "Single")


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000, 16384, 16385, 50_001])
def test_fill_reaches_every_word(count):
    words = RandomSource().fill(np.zeros(count, np.uint64))
    # A word is 0 with probability 2**-64.
    assert np.count_nonzero(words) == count


def test_words_are_the_keystream_of_aes_in_counter_mode(monkeypatch):
    """The pieces in which `cryptography` is called must join into one stream, at every length."""
    key, start = bytes(range(32)), bytes(16)
    cipher = source_module.Cipher(source_module.algorithms.AES(key), source_module.modes.CTR(start))
    monkeypatch.setattr(RandomSource, "_new_stream", lambda _: cipher.encryptor())
    source = RandomSource()
    counts = [1, 2, 3, 17, 16384, 16385, 5]
    drawn = np.concatenate([source.words(count) for count in counts])
    expected = cipher.encryptor().update(bytes(8 * sum(counts)))
    assert drawn.tobytes() == expected


def test_fill_refuses_what_it_could_not_fill():
    with pytest.raises(TypeError, match="contiguous"):
        RandomSource().fill(np.zeros(8, np.int64))
    with pytest.raises(TypeError, match="contiguous"):
        RandomSource().fill(np.zeros(8, np.uint64)[::2])


@pytest.mark.parametrize("count", [1, 5, 63, 64, 65, 200])
def test_bits_have_the_length_asked_for(count):
    source = RandomSource()
    drawn = [source.bits(count) for _ in range(200)]
    assert all(0 <= number < 1 << count for number in drawn)
    # Each bit of each position is 0 in all 200 draws with probability 2**-200.
    assert np.bitwise_or.reduce(np.array(drawn, dtype=object)) == (1 << count) - 1


def test_key_is_replaced_after_its_volume(monkeypatch):
    keys = []
    original = RandomSource._new_stream

    def counted(self):
        keys.append(1)
        return original(self)

    monkeypatch.setattr(source_module, "_BYTES_PER_KEY", 1 << 17)
    monkeypatch.setattr(RandomSource, "_new_stream", counted)
    source = RandomSource()
    drawn = source.words(5 * (1 << 14))
    assert len(keys) == 5
    assert np.unique(drawn).size == drawn.size


@pytest.mark.parametrize("attempt", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_a_source_is_not_copied(attempt):
    with pytest.raises(TypeError, match="noise would repeat"):
        attempt(RandomSource())


def test_two_sources_differ():
    assert not np.array_equal(RandomSource().words(4), RandomSource().words(4))


def _noise(_=None):
    return add_noise(np.zeros(8), np.ones(8), "laplace").tobytes(), current_source().words(4).tobytes()


def _all_different(results):
    return len({noise for noise, _ in results}) == len({words for _, words in results}) == len(results)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_do_not_repeat_noise():
    needs("fork")
    _noise()  # the parent's stream exists before the fork
    with multiprocessing.get_context("fork").Pool(4) as pool:
        results = pool.map(_noise, range(16), chunksize=1)
    assert _all_different([*results, _noise()])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("hook", [True, False], ids=["hook", "process-id-only"])
def test_one_source_forks_into_different_streams(hook, monkeypatch):
    """The fork hook and the process check each suffice alone."""
    needs("fork")
    source = RandomSource()
    source.words(1)
    if not hook:
        monkeypatch.setattr(RandomSource, "_after_fork", lambda _: None)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, source.words(4).tobytes())
        os._exit(0)
    mine = source.words(4).tobytes()
    os.waitpid(child, 0)
    assert os.read(reader, 64) != mine


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_lock_held_during_the_fork_does_not_stop_the_child():
    needs("fork")
    source = RandomSource()
    with source._lock:
        child = os.fork()
        if child == 0:
            source.words(1)
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_a_shared_source_repeats_by_its_secret_alone(monkeypatch):
    monkeypatch.setattr(source_module, "_BYTES_PER_KEY", 1 << 17)
    one, two, other = (SharedSource(secret).words(3 << 14) for secret in (7, 7, 8))
    assert np.array_equal(one, two)
    assert np.unique(np.concatenate([one, other])).size == 6 << 14  # nor does any of its keys serve twice
    assert SharedSource(7).private


@pytest.mark.parametrize("attempt", [copy.copy, copy.deepcopy, pickle.dumps], ids=["copy", "deepcopy", "pickle"])
def test_a_shared_source_is_not_copied_either(attempt):
    with pytest.raises(TypeError, match="noise would repeat"):
        attempt(SharedSource(7))


def _words_in_children(source):
    """What two forked children read of a source."""
    read = []
    for _ in range(2):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, source.words(4).tobytes())
            except GuaranteeError:
                os.write(writer, b"refused")
            os._exit(0)
        os.waitpid(child, 0)
        read.append(os.read(reader, 64))
    return read


class _GoesOnAfterAFork(SharedSource):
    """The broken twin: a child takes the next key of its parent."""

    def _new_stream(self):
        self._made_in = os.getpid()
        return super()._new_stream()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("hook", [True, False], ids=["hook", "process-id-only"])
def test_a_shared_source_gives_forked_children_nothing(hook, monkeypatch):
    needs("fork")
    if not hook:
        monkeypatch.setattr(RandomSource, "_after_fork", lambda _: None)
    for drawn in (0, 3):
        source, twin = SharedSource(7), _GoesOnAfterAFork(7)
        source.words(drawn), twin.words(drawn)
        assert _words_in_children(source) == [b"refused"] * 2
        repeated = _words_in_children(twin)
        assert repeated[0] == repeated[1] != b"refused"
        assert source.words(4).size == 4


def test_spawned_children_do_not_repeat_noise():
    release = functools.partial(add_noise, [0.0] * 8, [1.0] * 8)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        results = pool.map(release, ["laplace"] * 8, chunksize=1)
    results.append(release("laplace"))
    assert len({result.tobytes() for result in results}) == 9


def test_threads_do_not_repeat_noise():
    gate = threading.Barrier(8)

    def work(_):
        gate.wait()
        return [_noise() for _ in range(20)]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = [result for results in pool.map(work, range(8)) for result in results]
    assert _all_different(results)


def test_threads_sharing_one_source_do_not_repeat_words():
    source = RandomSource()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        drawn = np.concatenate(list(pool.map(lambda _: source.words(3001), range(64))))
    # 192,064 words of 64 bits collide with probability 1e-9.
    assert np.unique(drawn).size == drawn.size


def test_source_in_use_ends_with_its_block_and_nests():
    outside = current_source()
    one, two = RandomSource(), RandomSource()
    with source_in_use(one):
        with source_in_use(two):
            assert current_source() is two
        assert current_source() is one
    assert current_source() is outside


def test_a_thread_started_inside_unsafe_seed_stays_private():
    with unsafe_seed(1), concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert not current_source().private
        assert pool.submit(lambda: current_source().private).result()


def test_asynchronous_tasks_do_not_leak_their_seed():
    async def seeded():
        with unsafe_seed(3):
            await asyncio.sleep(0)
            return current_source().private

    async def plain():
        await asyncio.sleep(0)
        return current_source().private

    async def both():
        return await asyncio.gather(seeded(), plain(), seeded())

    assert asyncio.run(both()) == [False, True, False]


def test_unsafe_modes_say_that_they_are_not_private():
    with unsafe_seed(1) as source:
        assert (source.private, source.silent) == (False, False)
    with unsafe_no_noise() as source:
        assert (source.private, source.silent) == (False, True)
    assert current_source().private
