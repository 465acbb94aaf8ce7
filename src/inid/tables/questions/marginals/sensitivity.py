"""The ellipsoid in which one person's residuals lie, for given shares of the budget, with its proof (M6, M7, M8).

Block B gets the share pi_B of the budget, in proportion to what it spends, and every residual of it the radius
r_k >= sqrt(q_k / u_B), where the *spending rate* u_B is pi_B over the squared length by which somebody moves the block.
A difference with squared lengths l_B (in units of q_k) has sum_k z_k^2 / r_k^2 <= sum_B l_B max_k (q_k / r_k^2), so the
ellipsoid holds it when that sum is at most 1. What has to be shown is thus a statement about the rates
w_B = max_k q_k / r_k^2 alone, for the squared lengths of each relation, which `spending` states.

Released numbers are whole numbers as floats. Beyond 2^53 floats round, so that two of them can be further apart than
the whole numbers are, by the *slack* e_k at most. A difference then has length at most sqrt(sum z^2 / r^2) + E,
E^2 = sum e_k^2 / r_k^2 (the triangle inequality), and the sum above must be at most (1 - E)^2.

Every sum is taken in floats that are rounded up at each step and added as whole numbers of 2^-80: the result is never
below the truth. The radii are rounded up last of all, so that nothing depends on the rounding before.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from inid.errors import GuaranteeError
from inid.sets import Neighbours, Sensitivity
from inid.tables.questions.marginals.basis import Floats, Whole
from inid.tables.questions.marginals.residual_order import ResidualOrder, order_of
from inid.tables.questions.marginals.spending import alone, spending
from inid.tables.questions.marginals.workload import Places, Workload

__all__ = ["Residuals", "residuals"]

_UP = 1 + 2.0**-48  # more than the rounding of the few operations before it
_SHAVE = 1 - 2.0**-40
_BITS = 80
_MOST_OF_A_ROW = 0.75


@dataclass(frozen=True, eq=False)
class Residuals:
    """The residuals of a workload as coordinates of one plan.

    Attributes:
        workload: What is asked.
        blocks: The blocks that are released, in order; the total is left out where it is public.
        radii: One radius for each run, that is for each block and distinct q, in the order of `order`.
        counts: How many residuals each run has.
        neighbours: The relation for which the ellipsoid holds the differences.
        vanishing: Whether a row can vanish from the query under "replace".
        rows: The most rows of one person. `radii` are for one row: a difference of m rows is a sum of m differences of
            one row, and so lies in the ellipsoid m times as large.
        slack: How much further apart the floats of two whole numbers can be than these are, one entry per radius; None
            where floats hold all of them.
    """

    workload: Workload
    blocks: Places
    radii: Floats
    counts: Whole
    neighbours: Neighbours
    vanishing: bool
    rows: int = 1
    slack: Floats | None = None

    @cached_property
    def order(self) -> ResidualOrder:
        """How the residuals are ordered among the coordinates."""
        return order_of(self.workload, self.blocks)

    def sensitivity(self) -> Sensitivity:
        """The ellipsoid, after its proof; neighbouring runs of one radius are one row of it."""
        radii = self.radii if self.rows == 1 else np.nextafter(self.radii * float(self.rows), np.inf)
        first = np.flatnonzero(np.append(True, radii[1:] != radii[:-1]))
        rows = np.append(np.zeros(self.public_totals), radii[first])
        counts = np.append(np.ones(self.public_totals, int), np.add.reduceat(self.counts, first))
        return Sensitivity.ellipsoid(rows, counts=counts, neighbours=self.neighbours)

    @property
    def public_totals(self) -> int:
        """1 where the total of the counts is public: the first coordinate, which nobody moves; else 0."""
        return len(self.workload.blocks) - len(self.blocks)

    def is_covered_by(self, sensitivity: Sensitivity) -> bool:
        """Whether an ellipsoid in these coordinates, whatever its radii, holds every difference."""
        if sensitivity.kind != "ellipsoid" or sensitivity.neighbours != self.neighbours:
            return False
        rows = self.rows_of(sensitivity)
        if rows is None or sensitivity.limits[: self.public_totals].any():
            return False
        radii = sensitivity.limits[rows]
        # Divided and rounded down: what is proved for these radii holds for those times m.
        radii = np.nextafter(radii / self.rows, 0) if self.rows > 1 else radii
        try:
            replace(self, radii=radii).prove()
        except GuaranteeError:
            return False
        return True

    def rows_of(self, sensitivity: Sensitivity) -> NDArray[np.intp] | None:
        """The row of an ellipsoid in these coordinates that each run belongs to; None where a row ends inside a run."""
        counts = np.ones(sensitivity.limits.size, np.int64) if sensitivity.counts is None else sensitivity.counts
        ends, own = np.cumsum(counts), np.append(np.ones(self.public_totals, np.int64), self.counts)
        runs = np.cumsum(own)
        if ends[-1] != runs[-1] or not (runs[np.searchsorted(runs, ends)] == ends).all():
            return None
        return np.searchsorted(ends, runs - own, side="right")[self.public_totals :]

    def prove(self) -> None:
        """Check that the ellipsoid holds every difference.

        Raises:
            GuaranteeError: It does not.
        """
        found = spending(self.workload, self._rates(), self.neighbours, vanishing=self.vanishing)
        most = max(_sum_up(terms) for terms in found)
        room = 1.0 if self.slack is None else max(1 - self.rounding, 0.0) ** 2 * (2 - _UP)
        if not most <= int(room * 2.0**_BITS):
            raise GuaranteeError(
                f"one person can leave the ellipsoid of the residuals: {most / 2**_BITS!r} of it, at most {room!r} is "
                "allowed."
            )

    @property
    def rounding(self) -> float:
        """E, rounded up: how far the rounding of whole numbers to floats can move a difference inside the ellipsoid."""
        if self.slack is None:
            return 0.0
        return math.sqrt(float((self.counts * np.square(self.slack / (self.radii * self.rows))).sum())) * _UP

    def _rates(self) -> Floats:
        """w_B = max_k q_k / r_k^2 of every block, rounded up; 0 where the block is not released."""
        if not (self.radii > 0).all():
            raise GuaranteeError("every radius of the residuals must be a positive number.")
        rates = np.zeros(len(self.workload.blocks))
        for own in self.order.alike:
            radii = own.of_runs(self.radii)
            rates[own.blocks] = (own.lengths[:, None] / radii / radii).max(axis=0) * _UP
        return rates


def residuals(
    workload: Workload,
    s: Floats,
    *,
    neighbours: Neighbours,
    vanishing: bool = False,
    rows: int = 1,
    slack: Floats | None = None,
) -> Residuals:
    """The residuals of a workload under shares in proportion to rho_B / s_B, as a proved ellipsoid.

    Args:
        workload: What is asked.
        s: s_B up to a factor, from `least_sum` or `least_maximum`.
        neighbours: "add_remove", "zero_out" or "replace".
        vanishing: Whether a row can vanish from the query under "replace": a filter, dropped keys, a person.
        rows: The most rows of one person.
        slack: How much further apart floats of whole numbers in each block can be than these; None for not at all.

    >>> import numpy as np
    >>> from inid.tables.questions.marginals.allocation import least_sum
    >>> from inid.tables.questions.marginals.workload import workload_of
    >>> w = workload_of([2, 3], [(0, 1)])
    >>> residuals(w, least_sum(w, np.ones(1)).s, neighbours="add_remove").sensitivity().dimension
    6
    """
    total = (workload.blocks[:, 0] == 0) & (workload.blocks[:, 1:] < 0).all(axis=1)  # of the counts
    public = total & (neighbours == "replace" and not vanishing)
    blocks = np.flatnonzero(~public)
    # Whoever is replaced leaves the total of the counts as it is, so that it spends nothing there ...
    rates = np.where(total & (neighbours == "replace"), 0.0, 1 / s)
    rates = rates / max(float(terms.sum()) for terms in spending(workload, rates, neighbours, vanishing=vanishing))
    if neighbours == "replace" and vanishing:  # ... and may take what a vanishing row leaves: half of it or more for
        spent = float(alone(workload, rates).sum())  # counts alone, and a quarter is kept for it in any case
        rates = rates * min(1.0, _MOST_OF_A_ROW / spent) if spent > 0 else rates
        rates = np.where(total, 1.0 - min(spent, _MOST_OF_A_ROW), rates)
    rates = _fewer_bits(rates * _SHAVE)
    order = order_of(workload, blocks)
    with np.errstate(divide="ignore"):  # of a total that is not released
        lengths = np.sqrt(order.times_lengths(1 / rates)) * _UP
    made = Residuals(workload, blocks, lengths, order.counts, neighbours, vanishing, rows)
    if slack is not None and slack[blocks].any():
        made = replace(made, slack=order.runs_of(slack))
        made = replace(made, radii=lengths / (1 - made.rounding) * _UP)  # a longer radius leaves less of the slack
    made.prove()
    return made


def _fewer_bits(rates: Floats) -> Floats:
    """Rates rounded down to 36 bits: blocks that are planned alike then have one radius, whatever the last bits."""
    mantissas, exponents = np.frexp(rates)
    return np.asarray(np.ldexp(np.floor(mantissas * 2.0**36), exponents - 36))


def _sum_up(terms: Floats) -> int:
    """At least the sum of the terms, in units of 2^-80; a negative or undefined term never lowers it.

    A float is a whole number of 53 bits times a power of two. Those of one power are added as whole numbers, in halves
    that 64 bits hold the sums of, and only the sum is rounded to the unit, up.
    """
    if not (terms >= 0).all() or not (terms < 2.0**60).all():
        raise GuaranteeError("what one person spends on a block of residuals must be a finite number of at least 0.")
    mantissas, exponents = np.frexp(terms)
    wholes = np.ldexp(mantissas, 53).astype(np.int64)
    total = 0
    for exponent in np.unique(exponents).tolist():
        own = wholes[exponents == exponent]
        whole = (int((own >> 27).sum()) << 27) + int((own & (2**27 - 1)).sum())
        shift = exponent - 53 + _BITS
        total += whole << shift if shift >= 0 else -(-whole >> -shift)
    return total
