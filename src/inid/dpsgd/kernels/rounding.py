"""What rounding can do to a product of matrices: the constants that the fused norms and sums rest on.

**Model.** A sum of n products is off by at most `accumulated(n)` times the sum of their absolute values, besides
underflow. It covers, in float32:

* additions in any order, each rounded to nearest, with or without fused multiplication: n units of 2^-24;
* tensor cores, which take blocks of b products (4 to 16) and the sum so far, cut each of the b + 1 terms to the unit
  2^-23 of the largest one, add them and cut the result: (b + 2) 2^-23 of the absolute sum per block, and at most
  n / b + 1 blocks, so (n + b) (1 + 2 / b) 2^-23 <= 1.5 (n + 16) 2^-23 for every such b.

Both are first-order: what has been accumulated carries its errors along, which x / (1 - x) covers. In float64 (never
cut to blocks of low precision) the unit is 2^-53 and the bound n 2^-52.

**Arguments.** Products of float32 may round their arguments first, if the user's settings let them: to TF32 (10 bits
after the point; some hardware cuts, so 2^-10 rather than 2^-11) or to bfloat16 (cut: 2^-7). Products of bfloat16 and of
float64 take their arguments as they are.
"""

import math
import os
from functools import lru_cache

import torch
from torch import Tensor

# The unit roundoff of a type: the most by which rounding to nearest moves a number, relatively. bfloat16 has 8 bits.
UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24, torch.float64: 2.0**-53}

_ARGUMENTS = {"highest": 0.0, "high": 2.0**-10, "medium": 2.0**-7}

# What oneDNN reads where torch leaves float32 as it is: on ARM processors BF16 is a common setting.
_SETTINGS = ("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")

# Added to the length of a vector of d entries, times sqrt(d). Entries below the smallest normal number (2^-126) may be
# taken for zero, and so may products: a dot product loses at most 3 d 2^-126 + sqrt(d) 2^-126 (|x| + |y|) to that. The
# bounds multiply the lengths of both by at least accumulated(1) > 2^-19, and 2^-19 (sqrt(d) 2^-50)^2 = d 2^-119.
_FLOOR = 2.0**-50


@lru_cache(maxsize=1024)
def accumulated(count: int, kind: torch.dtype = torch.float32) -> float:
    """The relative error of a sum of `count` products in float32 (also of bfloat16 arguments) or in float64."""
    off = count * 2.0**-52 if kind == torch.float64 else 1.5 * (count + 16) * 2.0**-23
    return off / (1 - off) if off < 0.5 else math.inf


@lru_cache(maxsize=1024)
def chunked(count: int, chunk: int, kind: torch.dtype = torch.float32, between: float = 2.0**-52) -> float:
    """The error of a sum of products taken `chunk` at a time, the chunks' sums added with errors of `between` each."""
    steps = -(-count // chunk)
    return (1 + accumulated(min(count, chunk), kind)) * (1 + 2 * steps * between) - 1


def argument_rounding(kind: torch.dtype) -> float:
    """By how much, relatively, torch's products may move their arguments of a type before they multiply them."""
    if kind != torch.float32:
        return 0.0
    if any(os.environ.get(name, "STRICT").upper() != "STRICT" for name in _SETTINGS):
        return _ARGUMENTS["medium"]
    try:
        return _ARGUMENTS[torch.get_float32_matmul_precision()]
    except RuntimeError:  # torch's old and new settings were mixed, and it does not say which holds: the worst
        return _ARGUMENTS["medium"]


def rounded_product(stored: float, arguments: float, accumulation: float) -> float:
    """The relative error of a product whose left argument was rounded once, both on reading, and the sum's own."""
    return (1 + stored) * (1 + arguments) ** 2 * (1 + accumulation) - 1


def floor_of(vectors: Tensor) -> float:
    """What to add to the lengths of vectors (the last dimension) for numbers that underflow."""
    return math.sqrt(vectors.shape[-1]) * _FLOOR
