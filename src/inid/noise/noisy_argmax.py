"""Which of many scores is the largest once exponential noise is added: the index alone, decided exactly.

Rounding noisy scores to a grid and taking the largest is *not* a function of a private release: when all scores move by
1, rounded ones move by a whole step, and on a grid of 16 with noise of scale 4 the promise is broken three times over.
So nothing is rounded here. Each noise is known by its leading bits, and more are drawn until one candidate certainly
lies above all others. The winner is the one of ideal, continuous noise, which has no ties.
"""

from collections.abc import Sequence

from inid.noise.exact_draws import Draw, draw
from inid.noise.law_tables import law
from inid.noise.source import RandomSource

__all__ = ["noisy_argmax"]


def noisy_argmax(scores: Sequence[float], scale: float, source: RandomSource) -> int:
    """The index of the largest scores[i] + scale * E_i, with independent exponential E_i of mean 1, exactly.

    Args:
        scores: Finite floats.
        scale: The mean of the noise, above 0.
        source: Where randomness comes from; a silent one, for tests, gives the first of the largest scores.

    >>> from inid.noise import current_source
    >>> noisy_argmax([0.0, 1e9, 3.0], 1.0, current_source())
    1
    """
    if source.silent:
        return max(range(len(scores)), key=lambda at: (scores[at], -at))
    table = law("laplace")
    # Whole multiples of 2**-unit: floats are.
    unit = max(number.as_integer_ratio()[1].bit_length() - 1 for number in (scale, *scores))
    width = _whole(scale, unit)
    open_ends = {at: (_whole(score, unit), _magnitude(draw(table, source))) for at, score in enumerate(scores)}
    while True:
        places = max(number.shift + number.fraction.known for _, number in open_ends.values())
        lows = {at: _low(score, width, number, places) for at, (score, number) in open_ends.items()}
        best = max(lows, key=lambda at: lows[at])
        highest = lows[best]
        # A number lies at or above its lower end, and strictly below its upper one.
        open_ends = {
            at: (score, number)
            for at, (score, number) in open_ends.items()
            if at == best or lows[at] + (width << (places - number.shift - number.fraction.known)) > highest
        }
        if len(open_ends) == 1:
            return best
        for _, number in open_ends.values():
            number.fraction.extend()


def _magnitude(number: Draw) -> Draw:
    """|T| of a Laplace draw T, which is exponential: a cell on the negative side has a mirror image on the other."""
    left = number.left if number.left >= 0 else -number.left - 1
    return Draw(1, left, number.fraction, number.shift)


def _low(score: int, width: int, number: Draw, places: int) -> int:
    """The least that score + width * number can be, in units of 2**-(unit + places)."""
    known = number.fraction.known
    left = (number.left << known) + number.fraction.value
    return (score << places) + ((width * left) << (places - number.shift - known))


def _whole(value: float, unit: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    return (numerator << unit) // denominator
