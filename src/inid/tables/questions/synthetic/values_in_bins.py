"""Values inside the bins of synthetic rows: released means, and heaps, single values that many rows share.

A column of numbers has *wide* bins where one holds more than a single whole number (the last, which has both its ends,
more than two). Of every wide column two groups of numbers are released, in a step of its own that has a fiftieth of
mu^2:

*Sums*. A row in bin b adds z = (x - middle) / (half of the width), held to [-1, 1], to the sum of bin b.
*Counts*. A row whose value is one of a public list of single values adds 1 to the count of that value. The list is
stated, or searched: both ends of the bins (where values outside are moved to), and the whole multiples of the smallest
1, 10, 100, ... of which at most 1,000 lie between.

*Statement.* One row more or less, or one that becomes nothing, moves the sums of a column by at most 1 in l2 norm, and
its counts by at most 1. A replaced row moves the sums by at most 2, and the counts by at most sqrt(2); m rows by m
times as much. *Why.* A row adds z to one sum and 1 to one count at most. A replaced one takes -z there and adds z': in
different bins the norm is sqrt(z^2 + z'^2) <= sqrt(2), in the same bin |z' - z| <= 2 (M8: a sum inside one cell moves
by 2, where counts, M7, move by sqrt(2) between two cells). Groups of columns are bounded one by one, so that the set is
their product (E3).

What follows looks at released numbers alone. A value is a heap where its count is above what even values would give by
more than the largest noise of so many, or, where it is stated, by one deviation. The others of the bin have the mean
that is left, as far as it is more than noise (James and Stein 1961), and else one of a density that is a line through
the bins beside it. They are drawn evenly below the mean or evenly above it, so often each that the mean holds; evenly
in the whole bin where it is the middle. Whole numbers stay whole.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, inf, log, nextafter, sqrt

import numpy as np
from numpy.typing import NDArray

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError, RecordError
from inid.fixed_point import Grid
from inid.planning import NoisePlan, plan
from inid.promises import GaussianDP
from inid.releasing import Release
from inid.sets import Neighbours, Sensitivity
from inid.tables.aggregation import Totals
from inid.tables.expressions import Numeric, maximum, minimum, when
from inid.tables.facts import Domains, Marginal
from inid.tables.questions.marginals.table_statistics import SummedColumn
from inid.tables.questions.synthetic.columns import InBins, LevelColumn, computed_name
from inid.tables.view import View

VALUES_SHARE = Fraction(2, 100)
_MOST_SEARCHED, _MOST_STATED = 1000, 100
_UNITS, _LEAST_UNITS, _EXACT = 2**20, 2**8, 2**53  # that z has, if sums of them are to be whole numbers in floats
_NARROW = 2.0**-400  # half of a width so small has no quotient
_ROOM = 1e-3  # of a bin's rows: so few are left beside heaps that they have no mean of their own


@dataclass(frozen=True)
class WideColumn:
    """A column of numbers with wide bins; `stated` are its heaps, or None where they are searched."""

    at: int
    column: LevelColumn
    stated: tuple[float, ...] | None = None

    @cached_property
    def singles(self) -> tuple[float, ...]:
        """The public list of single values, ascending."""
        if self.stated is not None:
            return self.stated
        first, *_, last = self.column.edges
        return first, *(at * self._unit for at in self._multiples), last

    @cached_property
    def _unit(self) -> float:
        unit, reach = 1.0, self.column.edges[-1] - self.column.edges[0]
        while reach / unit > _MOST_SEARCHED:
            unit *= 10
        return unit

    @property
    def _multiples(self) -> range:
        """Which multiples of the unit lie between the ends."""
        first, *_, last = self.column.edges
        return range(floor(first / self._unit) + 1, ceil(last / self._unit))

    def place(self) -> Numeric:
        """The place of a row's value in the list; the first place after it for a value that is not in it."""
        first, *_, last = self.column.edges
        value, none = minimum(maximum(self.column.value(), first), last), float(len(self.singles))
        place: Numeric | float = none
        if self.stated is not None:
            for at, single in enumerate(self.stated):
                place = when(value == single, float(at), place)
        else:
            quotient = value / self._unit
            if self._multiples:
                place = when(quotient.floor() == quotient, quotient - float(self._multiples[0] - 1), place)
            place = when(value == first, 0.0, when(value == last, none - 1, place))
        return place  # type: ignore[return-value] # an empty list has no place, and is not asked

    def inside(self) -> Numeric:
        """z, which lies between -1 and 1 up to rounding; 0 where the number is missing."""
        value, middles, halves = self.column.value(), *self.column.middles
        z = self.column.by_bin(
            lambda at: 0.0 if halves[at] < _NARROW else (value - float(middles[at])) / float(halves[at])
        )
        return z if self.column.fill is not None else when(self.column.is_missing(), 0.0, z)

    def values(self, sums: Floats, counts: Floats, noise: tuple[float, float], rows: Floats) -> InBins:
        """What follows from released sums and counts, the deviations of their noise, and the rows of each bin."""
        column, (sum_noise, count_noise) = self.column, noise
        (middles, halves), number = column.middles, column.numbers_in_bins
        rows, singles = np.maximum(rows, 1.0), np.array(self.singles)
        bins = np.searchsorted(column.edges[1:-1], singles, side="right")
        least = count_noise * (sqrt(2 * log(max(singles.size, 2))) if self.stated is None else 1.0)
        heaps = (counts - rows[bins] / number[bins] > least) & (number[bins] > 1)
        singles, bins, shares = singles[heaps], bins[heaps], counts[heaps] / rows[bins[heaps]]

        def of_bins(numbers: Floats) -> Floats:
            return np.bincount(bins, weights=numbers, minlength=rows.size).astype(np.float64)

        shares = shares / np.maximum(of_bins(shares), 1.0)[bins]
        among = of_bins(np.ones(bins.size)) / number  # the part of a bin's values that are heaps
        beside = np.where(among < 1, (1 - of_bins(shares)) / np.maximum(1 - among, 1e-300), 0.0)
        shares = np.maximum(shares - (beside / number)[bins], 0.0)  # what even values give is drawn with the others
        z = (singles - middles[bins]) / np.maximum(halves[bins], _NARROW)
        others = rows * (1 - of_bins(shares))
        known = others > _ROOM * rows
        others = np.maximum(others, _ROOM * rows)
        variance = (sum_noise**2 + count_noise**2 * of_bins(z * z)) / others**2
        mean, usual = (sums - of_bins(shares * rows[bins] * z)) / others, _line(others / (2 * halves), middles, halves)
        # The spread of all bins says little of a sparse one whose mean stands out of its own noise: that one's counts.
        excess = np.square(mean - usual) - variance
        spread = np.maximum(max(float((excess / variance).sum() / (1 / variance).sum()), 0.0), excess)
        mean = np.clip(usual + spread / (spread + variance) * (mean - usual), -1.0, 1.0)
        return InBins(column, middles + halves * np.where(known, mean, 0.0), singles, bins, shares)


def _line(density: Floats, middles: Floats, halves: Floats) -> Floats:
    """The mean of z in each bin where the density is a line there, as steep as from one neighbour to the other."""
    slope = np.gradient(density, middles) if density.size > 2 else np.diff(density) / np.diff(middles)
    return np.asarray(np.clip(slope * halves / np.maximum(density, 1e-300), -1.0, 1.0) / 3)


@dataclass(frozen=True)
class ValuesInBins:
    """What the step releases of all wide columns, for one relation."""

    wide: tuple[WideColumn, ...]
    neighbours: Neighbours
    rows: int
    max_rows: int

    @property
    def sizes(self) -> list[int]:
        """How many sums and how many counts there are: sums of every column, then counts of those that have some."""
        return [one.column.stated for one in self.wide] + [len(one.singles) for one in self._counted]

    @property
    def _counted(self) -> list[WideColumn]:
        return [one for one in self.wide if one.singles]

    def sensitivity(self) -> Sensitivity:
        """The set of the step."""
        replaced = self.neighbours == "replace"
        of_sums, of_counts = 2.0 if replaced else 1.0, nextafter(sqrt(2.0), inf) if replaced else 1.0
        most = [of_sums] * len(self.wide) + [of_counts] * len(self._counted)
        return Sensitivity.groups(self.sizes, l2=[self.rows * one for one in most], neighbours=self.neighbours)

    def noise(self, promise: GaussianDP) -> NoisePlan:
        """The noise of the step: each group counts as a whole."""
        return plan(self.sensitivity(), promise, mechanism="gaussian", weights=[1 / sqrt(size) for size in self.sizes])

    @cached_property
    def _grid(self) -> Grid:
        return Grid.of("z", (-1.0, 1.0), 2 * min(_UNITS, _EXACT // (2 * self.max_rows)))

    def check_limits(self) -> None:
        """Refuse, from public facts, sums that floats cannot hold."""
        most = _EXACT // (2 * _LEAST_UNITS)
        if self.max_rows > most:
            raise ArgumentError(f"max_rows must be at most {most:,} for means inside bins: lower it.")

    def asked(
        self, view: View, domains: Domains, stored: Iterable[str]
    ) -> tuple[View, Domains, dict[Marginal, tuple[str, ...]], list[SummedColumn]]:
        """A view with columns for z and for places, their domains, the tables that are added up, and what of.

        None has the name of a column that is stored: it would be read in its place, by a person's id or a filter too.
        """
        names, keys, stored = list(domains.keys), dict(domains.keys), list(stored)
        tables: dict[Marginal, tuple[str, ...]] = {}
        summed: list[SummedColumn] = []
        for one in self.wide:
            name = computed_name(f"{one.column.name} inside bins", {*keys, *view.derived, *stored})
            view = view.with_columns({name: one.inside()})
            summed.append(SummedColumn(name, self._grid, filled=True, first=len(summed) + 1))
            tables[names[one.at],] = (name,)
        for one in self._counted:
            name = computed_name(f"{one.column.name} by values", {*keys, *view.derived, *stored})
            view = view.with_columns({name: one.place()})
            keys[name] = tuple(range(len(one.singles) + 1))
            tables[name,] = ()
        return view, Domains(keys, domains.other), tables, summed

    def numbers(self, totals: Sequence[Totals]) -> Floats:
        """The exact sums and counts, held to public limits. NOT PRIVATE."""
        parts = [
            one_totals.sums[-1][: one.column.stated] * self._grid.step
            for one, one_totals in zip(self.wide, totals, strict=False)
        ]
        parts += [
            one_totals.sums[0][: len(one.singles)].astype(np.float64)
            for one, one_totals in zip(self._counted, totals[len(self.wide) :], strict=True)
        ]
        return np.asarray(np.clip(np.concatenate(parts), -self.max_rows, self.max_rows))

    def estimates(self, release: Release, rows: Mapping[int, Floats]) -> dict[int, InBins]:
        """The values in the bins of each wide column, by its place, from the noisy rows of each level."""
        ends, scales = np.cumsum(self.sizes)[:-1], release.plan.scales
        values, noise = np.split(release.values, ends), [float(part[0]) for part in np.split(scales, ends)]
        counted, found = {one.at: len(self.wide) + at for at, one in enumerate(self._counted)}, {}
        for at, one in enumerate(self.wide):
            other = counted.get(one.at)
            counts, count_noise = (np.zeros(0), 0.0) if other is None else (values[other], noise[other])
            of_bins = rows[one.at].reshape(-1)[: one.column.stated]
            found[one.at] = one.values(values[at], counts, (noise[at], count_noise), of_bins)
        return found

    def notes(self) -> list[str]:
        """What is looked for, in sentences."""
        names = ", ".join(one.column.name for one in self.wide)
        searched = [one.column.name for one in self.wide if one.stated is None]
        stated = [f"{one.column.name} {', '.join(f'{x:g}' for x in one.stated)}" for one in self.wide if one.stated]
        heaps = [f"searched in {', '.join(searched)}"] if searched else []
        heaps += [f"stated: {'; '.join(stated)}"] if stated else []
        return [f"means inside bins: {names}", *([f"heaps (single values): {'; '.join(heaps)}"] if heaps else [])]

    def to_list(self) -> list[list[object]]:
        """JSON-safe facts: the place of each column, and its stated heaps."""
        return [[one.at, None if one.stated is None else list(one.stated)] for one in self.wide]


def read_heaps(columns: Sequence[LevelColumn], stated: object) -> list[WideColumn]:
    """The columns with wide bins, and those whose heaps are stated."""
    if stated is not None and not isinstance(stated, Mapping):
        raise ArgumentError(f"heaps must be a dictionary of lists of numbers by column, got {shown(stated)}.")
    heaps: Mapping[object, object] = {} if stated is None else stated
    binned = {column.name: column for column in columns if column.bins is not None}
    for name in heaps:
        if not (isinstance(name, str) and name in binned):
            raise ArgumentError(
                f"heaps names {shown(name)}, which is no column of the synthetic rows with bins: state single values "
                "of such columns, {'hours': [0, 40]}."
            )
    return [
        WideColumn(at, column, _read_singles(column, heaps.get(column.name)))
        for at, column in enumerate(columns)
        if column.bins is not None and (column.name in heaps or _is_wide(column))
    ]


def _is_wide(column: LevelColumn) -> bool:
    """Whether a bin holds more than one number; or the last, which has its upper edge too, more than two."""
    *others, last = column.numbers_in_bins.tolist()
    return bool(max(others) > 1 or last > 2)


def _read_singles(column: LevelColumn, stated: object) -> tuple[float, ...] | None:
    if stated is None:
        return None
    name = f"heaps[{column.name!r}]"
    listed: NDArray[np.object_] | Sequence[object] = stated if isinstance(stated, (list, tuple)) else ()
    if not isinstance(stated, (list, tuple)) or len(listed) > _MOST_STATED:
        raise ArgumentError(f"{name} must be a list of at most {_MOST_STATED} numbers, got {shown(stated)}.")
    first, *_, last = column.edges
    singles = [real(f"{name}[{at}]", one, cure="pass a number inside the bins") for at, one in enumerate(listed)]
    if not all(first <= one <= last for one in singles) or len(set(singles)) < len(singles):
        raise ArgumentError(f"{name} must hold different numbers from {first:g} to {last:g}, where the bins lie.")
    if column.whole and not all(one.is_integer() for one in singles):
        raise ArgumentError(f"{name} must hold whole numbers, since all edges of its bins are whole.")
    return tuple(sorted(singles))


def wide_from_list(columns: Sequence[LevelColumn], record: object) -> tuple[WideColumn, ...]:
    """The wide columns of a record, as `ValuesInBins.to_list` wrote them."""
    if not isinstance(record, list):
        raise RecordError("the record does not hold the columns whose values in bins were released.")
    wide = []
    for at, stated in record:
        if type(at) is not int or not 0 <= at < len(columns) or columns[at].bins is None:
            raise RecordError("the record names a column with values in bins that has none.")
        wide.append(WideColumn(at, columns[at], _read_singles(columns[at], stated)))
    if [one.at for one in wide] != sorted({one.at for one in wide}):
        raise RecordError("the record names a column with values in bins twice, or out of order.")
    return tuple(wide)
