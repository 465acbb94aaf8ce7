"""The ellipsoid in which one person's residuals lie, for given shares of the budget, with its proof (M6, M7, M8).

Block B gets the share pi_B of the budget, in proportion to what it spends, and every residual of it the radius
r_k >= sqrt(q_k / u_B), where the *spending rate* u_B is pi_B over the squared length by which somebody moves the block.
A difference with squared lengths l_B (in units of q_k) has sum_k z_k^2 / r_k^2 <= sum_B l_B max_k (q_k / r_k^2), so the
ellipsoid holds it when that sum is at most 1. What has to be shown is thus a statement about the rates
w_B = max_k q_k / r_k^2 alone, for the squared lengths of each relation:

* add_remove and zero_out (M2): l_B = rho_B c_B^2, one vector, whoever the person is;
* replace, where no row can vanish (M7, M8): two people who differ in the attributes D have counts with
  l_B = 2 rho_B (1 - g_BD), g_BD = prod over B and D of -1/(n_i - 1), and sums of a column bounded by c with
  sum_B w_B l_B = 2 c^2 (sum_B rho_B w_B + |sum_B rho_B g_BD w_B|) at most, D empty included (only the number changes);
* replace, where a row can vanish (a filter, dropped keys, a person): both of the above.

Every sum is taken in floats that are rounded up at each step and added as whole numbers of 2^-80: the result is never
below the truth. The radii are rounded up last of all, so that nothing depends on the rounding before.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from inid.errors import GuaranteeError
from inid.sets import Sensitivity
from inid.tables.marginals.basis import Floats, Whole, square_norms
from inid.tables.marginals.workload import Places, Workload

__all__ = ["Residuals", "residuals"]

_UP = 1 + 2.0**-48  # more than the rounding of the few operations before it
_SHAVE = 1 - 2.0**-40
_BITS = 80
_MOST_SUBSETS = 1 << 16  # sets D of attributes that are looked at one by one


@dataclass(frozen=True, eq=False)
class Residuals:
    """The residuals of a workload as coordinates of one plan.

    Attributes:
        workload: What is asked.
        blocks: The blocks that are released, in order; the total is left out where it is public.
        radii: One radius for each block and distinct q.
        counts: How many residuals have it.
        neighbours: The relation for which the ellipsoid holds the differences.
        vanishing: Whether a row can vanish from the query under "replace".
        rows: The most rows of one person. `radii` are for one row: a difference of m rows is a sum of m differences of
            one row, and so lies in the ellipsoid m times as large.
    """

    workload: Workload
    blocks: Places
    radii: Floats
    counts: Whole
    neighbours: str
    vanishing: bool
    rows: int = 1

    @cached_property
    def orders(self) -> list[NDArray[np.intp]]:
        """Of each released block, its residuals in the order of the coordinates: by q."""
        return [np.argsort(_norms(self.workload, block)[2], kind="stable") for block in self.blocks.tolist()]

    @cached_property
    def starts(self) -> Whole:
        """Where each released block starts among the coordinates, and where the last one ends."""
        return np.append(0, np.cumsum([order.size for order in self.orders]))

    def sensitivity(self) -> Sensitivity:
        """The ellipsoid, after its proof.

        Raises:
            GuaranteeError: The radii are too small for somebody.
        """
        self.prove()
        radii = self.radii if self.rows == 1 else np.nextafter(self.radii * float(self.rows), np.inf)
        radii, counts = (
            np.append(np.zeros(self.public_totals), radii),
            np.append(np.ones(self.public_totals, int), self.counts),
        )
        return Sensitivity.ellipsoid(radii, counts=counts, neighbours=self.neighbours)

    @property
    def public_totals(self) -> int:
        """1 where the total of the counts is public: the first coordinate, which nobody moves; else 0."""
        return len(self.workload.blocks) - len(self.blocks)

    def is_covered_by(self, sensitivity: Sensitivity) -> bool:
        """Whether an ellipsoid in these coordinates, whatever its radii, holds every difference."""
        start, own = self.public_totals, self.sensitivity()
        if sensitivity.kind != own.kind or sensitivity.neighbours != own.neighbours:
            return False
        if sensitivity.to_dict()["counts"] != own.to_dict()["counts"] or sensitivity.limits.size != own.limits.size:
            return False
        if sensitivity.limits[:start].any():
            return False
        # Divided and rounded down: what is proved for these radii holds for those times m.
        radii = np.nextafter(sensitivity.limits[start:] / self.rows, 0) if self.rows > 1 else sensitivity.limits[start:]
        try:
            replace(self, radii=radii).prove()
        except GuaranteeError:
            return False
        return True

    def prove(self) -> None:
        """Check that the ellipsoid holds every difference.

        Raises:
            GuaranteeError: It does not.
        """
        spending = _spending(self.workload, self._rates(), self.neighbours, vanishing=self.vanishing)
        most = max(_sum_up(terms) for terms in spending)
        if not most <= 1 << _BITS:
            raise GuaranteeError(
                f"one person can leave the ellipsoid of the residuals: {most / 2**_BITS!r} of it, at most 1 is allowed."
            )

    def _rates(self) -> Floats:
        """w_B = max_k q_k / r_k^2 of every block, rounded up; 0 where the block is not released."""
        rates = np.zeros(len(self.workload.blocks))
        at = 0
        for block in self.blocks.tolist():
            squares = _norms(self.workload, block)[0]
            here = self.radii[at : at + len(squares)]
            if not (here > 0).all():
                raise GuaranteeError("every radius of the residuals must be a positive number.")
            rates[block] = max(_float_up(q) / r / r for q, r in zip(squares, here.tolist(), strict=True)) * _UP
            at += len(squares)
        return rates


def residuals(workload: Workload, s: Floats, *, neighbours: str, vanishing: bool = False, rows: int = 1) -> Residuals:
    """The residuals of a workload under shares in proportion to rho_B / s_B, as a proved ellipsoid.

    Args:
        workload: What is asked.
        s: s_B up to a factor, from `least_sum` or `least_maximum`.
        neighbours: "add_remove", "zero_out" or "replace".
        vanishing: Whether a row can vanish from the query under "replace": a filter, dropped keys, a person.
        rows: The most rows of one person.

    >>> import numpy as np
    >>> from inid.tables.marginals.allocation import least_sum
    >>> from inid.tables.marginals.workload import workload_of
    >>> w = workload_of([2, 3], [(0, 1)])
    >>> residuals(w, least_sum(w, np.ones(1)).s, neighbours="add_remove").sensitivity().dimension
    6
    """
    total = (workload.blocks[:, 0] == 0) & (workload.blocks[:, 1:] < 0).all(axis=1)  # of the counts
    public = total & (neighbours == "replace" and not vanishing)
    blocks = np.flatnonzero(~public)
    # Whoever is replaced leaves the total of the counts as it is, so that it spends nothing there ...
    rates = np.where(total & (neighbours == "replace"), 0.0, 1 / s)
    rates = rates / max(float(terms.sum()) for terms in _spending(workload, rates, neighbours, vanishing=vanishing))
    if neighbours == "replace" and vanishing:  # ... and may take what a vanishing row leaves
        rates = np.where(total, 1.0 - float((workload.norms * rates).sum()), rates)
    rates = rates * _SHAVE
    radii, counts = [], []
    for block in blocks.tolist():
        squares, times, _ = _norms(workload, block)
        radii.append(np.sqrt(np.array([_float_up(q) for q in squares]) / rates[block]) * _UP)
        counts.append(times)
    made = Residuals(workload, blocks, np.concatenate(radii), np.concatenate(counts), neighbours, vanishing, rows)
    made.prove()
    return made


def _spending(work: Workload, rates: Floats, neighbours: str, *, vanishing: bool) -> list[Floats]:
    """Vectors of terms, rounded up: each sums to what a kind of neighbours spends, and the largest sum counts."""
    alone = work.norms * rates * _UP
    if neighbours != "replace":
        return [alone]
    found = [alone] if vanishing else []
    counts = work.blocks[:, 0] == 0
    twice = 2 * work.norms * rates * _UP
    for signs in _signs(work):
        if signs is None:  # 1 - g is at most n / (n - 1) for the smallest n, and |g| at most 1
            found.append(twice * np.where(counts, _largest(work), 2.0) * _UP)
            continue
        terms = np.where(counts, twice * (1 - signs) * _UP, twice)
        for channel in range(1, work.reach.size):
            own = (twice * signs)[work.blocks[:, 0] == channel]
            # A sum of signed numbers: its rounding is relative to their sizes.
            terms = np.append(terms, abs(float(own.sum())) * _UP + 2.0**-48 * float(np.abs(own).sum()))
        found.append(terms)
    return found


def _norms(workload: Workload, block: int) -> tuple[tuple[int, ...], Whole, NDArray[np.intp]]:
    return square_norms(tuple(workload.sizes[i] for i in workload.attributes(block)))


def _signs(workload: Workload) -> list[Floats | None]:
    """g_BD of every block, for each set D of attributes that a pair of people can differ in; [None] where too many."""
    used = sorted({int(i) for i in workload.blocks[:, 1:].ravel() if i >= 0})
    if 1 << len(used) > _MOST_SUBSETS:
        return [None]
    sizes = np.append(np.asarray(workload.sizes, dtype=np.float64), 2.0)
    inside = workload.blocks[:, 1:]
    found: list[Floats | None] = []
    for number in range(len(used) + 1):
        for chosen in combinations(used, number):
            hit = np.isin(inside, chosen)
            found.append(np.where(hit, -1 / (sizes[inside] - 1), 1.0).prod(axis=1))
    return found


def _largest(workload: Workload) -> Floats:
    """The largest 1 - g_BD of each block over all D: n / (n - 1) for its smallest attribute."""
    sizes = np.append(np.asarray(workload.sizes, dtype=np.float64), np.inf)
    least = sizes[workload.blocks[:, 1:]].min(axis=1, initial=np.inf)
    return np.where(np.isfinite(least), 1 + 1 / (np.where(np.isfinite(least), least, 2.0) - 1), 0.0)


def _float_up(value: int) -> float:
    found = float(value)
    return found if int(found) >= value else float(np.nextafter(found, np.inf))


def _sum_up(terms: Floats) -> int:
    """At least the sum of the terms, in units of 2^-80; a negative or undefined term never lowers it."""
    if not (terms >= 0).all() or not (terms < 2.0**60).all():
        raise GuaranteeError("what one person spends on a block of residuals must be a finite number of at least 0.")
    return sum(
        -((-numerator << _BITS) // denominator)
        for numerator, denominator in map(float.as_integer_ratio, terms.tolist())
    )
