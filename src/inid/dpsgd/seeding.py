"""The random generators of torch, NumPy and Python: begun anew, compared, and left as they were."""

import ctypes
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import torch


@contextmanager
def seeded(seed: int, gpus: Sequence[torch.device] = ()) -> Iterator[list[bool]]:
    """Let torch, NumPy and Python draw the same numbers each time, and spend none of the user's.

    Gives a list to which is added, in the end, whether anything was drawn on the host.
    """
    drawn: list[bool] = []
    with preserve_rng(gpus):
        seed_all(seed)
        start = generator_states()
        yield drawn
        drawn.append(generator_states() != start)


@contextmanager
def preserve_rng(gpus: Sequence[torch.device] = ()) -> Iterator[None]:
    """Leave the generators of torch, NumPy and Python as they are, whatever is drawn."""
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 - what models and collate functions draw from
    try:
        with torch.random.fork_rng(gpus):
            yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002 - as above


def seed_all(seed: int, gpus: Sequence[torch.device] = ()) -> None:
    """Let the three generators of the host begin anew, and those of these devices."""
    torch.default_generator.manual_seed(seed)
    for gpu in gpus:
        with torch.cuda.device(gpu):
            torch.cuda.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - as above


def generator_states() -> tuple[object, ...]:
    """Where the three generators stand, as something that can be compared: not what NumPy's keeps of a draw of two.

    A normal number of `np.random` may be the second of two that were drawn at once, which moves nothing.
    """
    return random.getstate(), _numpy_state(), torch.random.get_rng_state().numpy().tobytes()


def _numpy_state() -> object:
    """Where NumPy's generator stands; of its usual kind by its memory, which `get_state` copies number by number."""
    source = cast("Any", np.random).get_bit_generator()
    if type(source) is np.random.MT19937:  # 624 words and a place among them, which draws move
        return ctypes.string_at(source.ctypes.state_address, 4 * 625)
    return repr(source.state)
