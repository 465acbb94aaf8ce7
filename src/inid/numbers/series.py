"""Power series by their first coefficients: the square root of running sums, its relatives, and reciprocals."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["binomial_series", "reciprocal", "square_root_coefficients"]

Series = NDArray[np.float64]


def square_root_coefficients(length: int) -> Series:
    """The first coefficients of 1/sqrt(1 - x), whose square is the series of running sums.

    >>> square_root_coefficients(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    return binomial_series(1.0, 0.5, length)


def binomial_series(damping: float, power: float, length: int) -> Series:
    """The first coefficients of (1 - damping x)^(-power).

    They are not negative and do not grow where damping and power are between 0 and 1.

    >>> binomial_series(1.0, 1.0, 3).tolist(), binomial_series(0.5, -1.0, 3).tolist()
    ([1.0, 1.0, 1.0], [1.0, -0.5, -0.0])
    """
    at = np.arange(1, length)
    with np.errstate(under="ignore"):  # far coefficients of a damped series vanish
        return np.concatenate([[1.0], np.cumprod(damping * (power + at - 1) / at)])


def reciprocal(series: Series) -> Series:
    """The first coefficients of 1 / series, as many as it has; the first coefficient must not be 0.

    Each round of Newton's iteration r <- r (2 - series r) doubles the number of right coefficients; products are taken
    by the fast Fourier transform, so that ten thousand coefficients take milliseconds.

    >>> reciprocal(np.array([1.0, 0.5, 0.375])).round(12).tolist()
    [1.0, -0.5, -0.125]
    """
    found = np.array([1.0 / series[0]])
    while found.size < series.size:
        length = min(2 * found.size, series.size)
        size = 1 << (2 * length).bit_length()
        transformed = np.fft.rfft(found, size)
        product = np.fft.irfft(np.fft.rfft(series[:length], size) * transformed, size)[:length]
        product = -product
        product[0] += 2.0
        found = np.fft.irfft(np.fft.rfft(product, size) * transformed, size)[:length]
    return found
