"""Comparing what was recorded with what is computed now: whole numbers and texts exactly, floats nearly.

NumPy and BLAS choose their kernels by the processor, and kernels round differently: a sum is added up in another order,
`exp` ends in another last bit. What is made of such numbers differs a little more: a search for a scale, or a sum over
a lattice, turned one unit in the last place into 58 on processors without AVX2. So floats are the same within 1024
units in the last place (2^-42 of them, 2e-13): a changed twelfth digit is seen. Curves of subsampled noise are small
differences of sums over a lattice, in which it was 1,551 on another processor: they are compared to `SUMMED`.

A search for the least value ends where values differ by less than they are rounded, which is within the root of that:
what such a search decides is compared to `SEARCHED`, so that a changed seventh digit is seen.

An estimate and the ends of its interval may cancel, so floats that stand in one object, or in one line of a text, are
compared in units of the largest of them.
"""

import math
import re

__all__ = ["NEAR", "SEARCHED", "SUMMED", "differences", "is_near"]

NEAR = 1024 * 2.0**-52
SEARCHED = math.sqrt(NEAR)
SUMMED = 2 * NEAR
_FLOAT = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE][-+]?\d+)(?![\w.])")


def differences(recorded, now, path="", near=NEAR):
    """Where two records differ, each place with both values; empty where they are the same."""
    return list(_different(recorded, now, path, near, 0.0))


def is_near(recorded, now, near=NEAR, largest=0.0):
    """Whether two floats are the same within the units above, or those of a larger float beside them."""
    if not (math.isfinite(recorded) and math.isfinite(now)):
        return recorded == now or (math.isnan(recorded) and math.isnan(now))
    return math.isclose(recorded, now, rel_tol=near, abs_tol=near * largest)


def _different(recorded, now, path, near, largest):
    if type(recorded) is not type(now):
        yield path, recorded, now
    elif isinstance(recorded, dict):
        beside = _largest(value for value in recorded.values() if isinstance(value, float))
        for key in sorted({*recorded, *now}):
            if key in recorded and key in now:
                yield from _different(recorded[key], now[key], f"{path}/{key}", near, beside)
            else:
                yield f"{path}/{key}", recorded.get(key), now.get(key)
    elif isinstance(recorded, list):
        if len(recorded) != len(now):
            yield path, recorded, now
        else:
            for at, pair in enumerate(zip(recorded, now, strict=True)):
                yield from _different(*pair, f"{path}/{at}", near, 0.0)
    elif isinstance(recorded, float):
        if not is_near(recorded, now, near, largest):
            yield path, recorded, now
    elif recorded != now and not (isinstance(recorded, str) and _is_same_text(recorded, now, near)):
        yield path, recorded, now


def _is_same_text(recorded, now, near):
    first, second = recorded.splitlines(), now.splitlines()
    return len(first) == len(second) and all(_is_same_line(*pair, near) for pair in zip(first, second, strict=True))


def _is_same_line(recorded, now, near):
    if recorded == now:
        return True
    before, after = ([float(found) for found in _FLOAT.findall(line)] for line in (recorded, now))
    if _FLOAT.sub("#", recorded) != _FLOAT.sub("#", now):
        return False
    largest = _largest(before)
    return all(is_near(*pair, near, largest) for pair in zip(before, after, strict=True))


def _largest(floats):
    return max((abs(value) for value in floats if math.isfinite(value)), default=0.0)
