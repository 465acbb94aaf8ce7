"""Digests of tensors: 128 bits in the place of what a layer has seen, made where the tensor lies.

On a CPU it is BLAKE2b. Megabytes of every layer cannot leave a GPU in the time of a step, so there it is a tree of
sums: rows of 4096 words of 32 bits are multiplied by fixed random numbers of 64 bits and added up modulo 2^64, twice;
the sums are the words of the next level.

**Why that suffices.** Let two rows of words differ, by d_i at place i, and d_j have the fewest factors 2: at most 31,
since |d_j| < 2^32. Given the other keys, sum k_i d_i = 0 (mod 2^64) leaves at most 2^31 values of k_j, so both sums
agree with a chance of at most (2^-33)^2 = 2^-66; a tensor has at most three levels. Keys are public: a digest tells
equal from different where nobody chooses the words to deceive. Sums of integers do not go by the order of addition.
"""

import hashlib
from itertools import count

import torch
from torch import Tensor
from torch.nn import functional

_WIDTH = 4096  # words that are added up
_AT_ONCE = 1024  # rows of them, so that 64-bit copies take 32 MiB


class Digest(bytes):
    """What tells tensors apart, and the length of the one that it stands for."""

    length: float


def digest_of(part: Tensor) -> Digest:
    """The digest of a contiguous tensor of real numbers: its shape, and every bit.

    >>> digest_of(torch.zeros(3)) == digest_of(torch.zeros(3)), digest_of(torch.zeros(3)) == digest_of(-torch.zeros(3))
    (True, False)
    """
    as_bytes = part.reshape(-1).view(torch.uint8)
    few = folded(as_bytes).view(torch.uint8) if part.is_cuda and len(as_bytes) else as_bytes
    raw = few.cpu().numpy().tobytes()
    made = Digest(hashlib.blake2b(raw, digest_size=16, key=str(tuple(part.shape)).encode()[:64]).digest())
    made.length = float(
        torch.linalg.vector_norm(part if part.is_floating_point() else part.double(), dtype=torch.float64)
    )
    return made


def folded(as_bytes: Tensor) -> Tensor:
    """Two numbers of 64 bits for any number of bytes, on their device."""
    words = functional.pad(as_bytes, (0, -len(as_bytes) % 4)).view(torch.int32)
    for level in count():
        draw = torch.Generator(words.device).manual_seed(level)
        keys = torch.randint(-(2**63), 2**63 - 1, (2, _WIDTH), generator=draw, device=words.device)
        rows = functional.pad(words, (0, -len(words) % _WIDTH)).view(-1, _WIDTH)
        sums = torch.cat(
            [torch.stack([(some.long() * key).sum(1) for key in keys], 1) for some in torch.split(rows, _AT_ONCE)]
        )
        if len(sums) == 1:
            return sums
        words = sums.view(-1).view(torch.int32)
    raise AssertionError  # pragma: no cover
