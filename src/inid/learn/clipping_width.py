"""How many standard deviations of a column, or of a target, are kept: the more, the less noise there is."""

import math

__all__ = ["deviations"]

_AFFORDED = 1e-3  # of the variance: the noise that is no reason to clip


def deviations(signal: float, *, least: float, factor: float) -> float:
    """`factor` times signal^(1/4), but not below `least`, nor below sqrt(signal / 1000).

    Beyond k standard deviations lies at most 1/k^2 of the rows (Chebyshev), and what clipping them changes falls like
    1/k^2 where fourth moments are finite. The noise grows like k^2 / signal. The two balance at signal^(1/4). Where
    tails are heavier, they would still be clipped by a huge budget, in vain: so the noise may always be a thousandth of
    the variance.

    Args:
        signal: The number of rows over the noise of one sum of numbers of size 1; what is below 0 counts as 0.
        least: The least that is kept.
        factor: Of signal^(1/4).

    >>> [round(deviations(s, least=2.0, factor=0.6), 2) for s in (1.0, 1e4, 1e8)]
    [2.0, 6.0, 316.23]
    """
    room: float = max(signal, 0.0)
    return max(least, factor * math.sqrt(math.sqrt(room)), math.sqrt(_AFFORDED * room))
