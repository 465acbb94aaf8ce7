"""How much of a plan goes to the model that ignores its columns: the mean of a target, the numbers of each class.

Whatever else is lost in noise, predictions are then not far from the best constant. The rule has public facts only.
"""

import math

from inid.promises import Budget

__all__ = ["SECRET_ROWS", "constant_part"]

_CLOSE = 2.5e-4  # the mean square error that is wanted at least, of means over the rows of entries that are at most 1
SECRET_ROWS = 2**16  # the number of rows that is thought of where it is secret


def constant_part(budget: Budget, rows: int | None, count: int, *, laplace: bool, least: float, most: float) -> float:
    """Of mu^2, or of epsilon: a little, and much more where the rows and the budget are few.

    A part p of mu^2 gives each of `count` means, each of which one person moves by 1 / rows, Gaussian noise of variance
    count / (p mu^2 rows^2); a part p of epsilon Laplace noise of variance 2 count^2 / (p epsilon rows)^2.

    >>> from inid.promises import PureDP
    >>> [constant_part(PureDP(1.0), rows, 1, laplace=True, least=0.03, most=0.3) for rows in (100, 10_000)]
    [0.3, 0.03]
    """
    known = SECRET_ROWS if rows is None else rows
    if laplace:
        wanted = math.sqrt(2 / _CLOSE) * count / (budget.laplace_epsilon * known)
    else:
        wanted = count / (_CLOSE * (budget.gaussian_mu * known) ** 2)
    return min(max(least, wanted), most)
