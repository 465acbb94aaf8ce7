"""Whether processes hold the same dataset in the same order: digests of some examples, by which they compare.

Each process trains on the positions that are dealt to it. Where a process has its examples in another order, one of
them can be dealt to two, and counts twice.
"""

import hashlib
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from inid.dpsgd.trial.fixed_randomness import seeded

__all__ = ["example_digests"]

_LOOKED_AT = 16


def example_digests(dataset: Any, key: bytes) -> list[str | None]:
    """Keyed digests of some examples: the first, the last, and some between that follow from their number.

    One that cannot be read here, or is another each time (by chance that no seed fixes), has none.

    >>> example_digests([1, 2], b"") == example_digests([1, 2], b""), example_digests([1, 2], b"")[0] is None
    (True, False)
    >>> example_digests([1, 2], b"") == example_digests([2, 1], b"")
    False
    """
    size = len(dataset)
    between = np.random.default_rng(size).choice(size, min(size, _LOOKED_AT), replace=False)
    return [_digest(dataset, at, key) for at in sorted({0, size - 1, *between.tolist()})]


def _digest(dataset: Any, at: int, key: bytes) -> str | None:
    found = set()
    for _ in range(2):
        hashed = hashlib.blake2b(key=key)
        try:
            with seeded(at):
                example = dataset[at]
        except Exception:  # noqa: BLE001 - the dataset's own: it may be readable in workers alone
            return None
        for leaf in pytree.tree_leaves(example):
            hashed.update(_bytes(leaf))
        found.add(hashed.hexdigest())
    return found.pop() if len(found) == 1 else None


def _bytes(leaf: Any) -> bytes:
    if isinstance(leaf, Tensor) and leaf.layout == torch.strided:
        values = leaf.detach().resolve_conj().resolve_neg().cpu().contiguous()
        return f"{leaf.dtype} {tuple(leaf.shape)} ".encode() + values.reshape(-1).view(torch.uint8).numpy().tobytes()
    if isinstance(leaf, (np.ndarray, np.generic)) and not leaf.dtype.hasobject:
        return f"{leaf.dtype} {leaf.shape} ".encode() + leaf.tobytes()
    if isinstance(leaf, (bool, int, float, complex, str, bytes, type(None))):
        return f"{leaf!r} ".encode()
    if callable(getattr(leaf, "tobytes", None)):  # images
        return bytes(leaf.tobytes())
    return type(leaf).__name__.encode()
