"""Exact noise has a public range of answers, which an absurdly large budget would make too small."""

from dataclasses import replace

import numpy as np

from inid.arguments import Floats
from inid.noise import limits
from inid.planning import NoisePlan

__all__ = ["cover_answers"]

_LEAST = 2.0**-38  # noise is drawn for answers of up to 2^39 scales at least


def cover_answers(noise: NoisePlan, largest: Floats | float) -> NoisePlan:
    """The plan itself, or one with more noise where a scale is too small for the largest possible answer.

    Answers beyond the range of their noise would be held to it. More noise keeps every promise; here it is less than
    4e-12 of the answer's own range, and only budgets beyond any meaning ask for less.

    >>> import inid
    >>> p = inid.plan(inid.Sensitivity.box([1.0]), inid.GaussianDP(mu=1e9), mechanism="gaussian")
    >>> cover_answers(p, 1.0) is p, float(cover_answers(p, 1e6).scales[0])
    (True, 3.637978807091713e-06)
    """
    scales = noise.row_scales
    if (limits(scales) >= largest)[scales > 0].all():
        return noise
    return replace(noise, row_scales=np.where(scales > 0, np.maximum(scales, _LEAST * largest), scales))
