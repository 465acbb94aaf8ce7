"""Constants, enclosed between integers to any precision asked for."""

__all__ = ["pi"]


def pi(bits: int) -> tuple[int, int]:
    """Integers around pi * 2**bits, by Machin's formula pi = 16 arctan(1/5) - 4 arctan(1/239).

    >>> low, high = pi(8)
    >>> low, high  # 804.2477...
    (804, 805)
    """
    work = bits + 32
    total, slack = 0, 0
    for factor, inverse in ((16, 5), (-4, 239)):
        power, odd, sign = (1 << work) // inverse, 1, 1
        while power:
            total += factor * sign * (power // odd)
            slack += abs(factor) * 2  # one unit for the power's truncation, one for the quotient's
            power, odd, sign = power // inverse**2, odd + 2, -sign
        slack += abs(factor)  # the rest of the alternating series is below its next term, here less than one unit
    return (total - slack) >> 32, ((total + slack) >> 32) + 1
