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
    before = rng_state(gpus)
    try:
        yield
    finally:
        set_rng_state(before)


def rng_state(devices: Sequence[torch.device] = ()) -> tuple[Any, ...]:
    """Where the three generators of the host stand, and those of these devices, to be put back."""
    gpus = {device: torch.cuda.get_rng_state(device) for device in devices if device.type == "cuda"}
    return random.getstate(), np.random.get_state(), torch.random.get_rng_state(), gpus  # noqa: NPY002 - what models draw from


def set_rng_state(state: tuple[Any, ...]) -> None:
    """Put the generators back to where they stood."""
    random.setstate(state[0])
    np.random.set_state(state[1])  # noqa: NPY002 - as above
    torch.random.set_rng_state(state[2])
    for device, state_of_device in state[3].items():
        torch.cuda.set_rng_state(state_of_device, device)


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
