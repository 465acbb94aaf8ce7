"""PrivateKMeans: Lloyd's algorithm with noisy sums and counts of each cluster, round after round."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.cluster import KMeans

from inid.accounting import Ledger
from inid.arguments import Floats, integer
from inid.learn.base import NoisyEstimator, read_mechanism
from inid.learn.bounds import (
    Bounds,
    Groups,
    enforce_one_hot,
    group_sizes,
    one_hot_groups,
    outside_groups,
    read_bounds,
    read_budget,
)
from inid.learn.budget_splitting import ASSUMED_ROWS
from inid.learn.parameters import estimator
from inid.learn.public_units import MOST_ROWS, Units, cover_answers, exact_floats, row_sums
from inid.learn.significance import centres_diagnosis, warn_of_noise
from inid.learn.table_sums import TableRows, check_table
from inid.noise import add_noise
from inid.planning import NoisePlan, plan_independent
from inid.releasing import charge
from inid.sets import Neighbours, Sensitivity
from inid.tables import Table

_UP = 1 + 2.0**-48  # more than the rounding of the few operations that make a radius
_ROUNDS = 8
_MOST_CELLS, _CLEAR = 8, 4.0  # cells for each cluster at most; noises that the rows of a cell are, about, at least
_STARTS = 20
_NEAR = 0.1  # of the bounds: how far from the largest cluster an empty one starts again


def cluster_sensitivity(
    blocks: int, width: int, rounds: int, neighbours: Neighbours, *, pure: bool, groups: Groups = ()
) -> Sensitivity:
    """How far one person moves the sums and counts of all clusters: `blocks` of them, in all rounds.

    Statement. In each round a row adds (z, 1) to the block of its cluster, |z_i| <= 1; which one is a function of the
    row and of earlier releases, and the number of blocks does not matter. With radii r = sqrt(M / w) for sums and 1 /
    sqrt(1 - w) for counts a round changes by at most 1 when a row becomes nothing, is added or removed: M / r^2 + (1 -
    w) = 1. A replaced row changes two blocks, squared norm 2, or one block by (z - z', 0), squared norm 4 M / r^2 = 4
    w. T rounds add up to T times that, whatever the clusters (E7). In l1 norm: M + 1 a round, 2 M + 2 when replaced. w
    balances the error that both bring into a mean z of mean square 1/3: w / (1 - w) = sqrt(3 M).

    One-hot groups. A row has at most one 1 among the m columns of a group. With S the number of other columns plus the
    sum of sqrt(m) over the groups, radii r^2 = S / w for other columns and S / (w sqrt(m)) for those of a group make
    the sum of z^2 / r^2 at most w as well, with the least sum of r^2. Two rows of one cluster are 2 apart in other
    columns and at most sqrt(2) in a group: 4 w becomes w (4 S less twice the sum of sqrt(m)) / S. In l1 norm a group
    counts as one column.
    """
    replaced, beside = neighbours == "replace", group_sizes(width, groups)
    if pure:
        entries = float(rounds * (_columns(width, groups) + 1) * (2 if replaced else 1))
        return Sensitivity.ball(dimension=blocks * (width + 1), l1=entries, neighbours=neighbours)
    plain = outside_groups(width, groups)
    hot = sum(math.sqrt(last - first) for first, last in groups)
    whole = int(plain.sum()) + hot
    squares = int(plain.sum()) / 3 + sum(1 / (last - first) for first, last in groups)
    share = 1 - 1 / (1 + whole / math.sqrt(squares))
    block = np.append(np.sqrt(whole / share / np.sqrt(beside)), 1 / math.sqrt(1 - share))
    apart = share * (4 * whole - 2 * hot) / whole
    size = math.sqrt(rounds * (max(2.0, apart) if replaced else 1.0)) * _UP
    return Sensitivity.ellipsoid(np.tile(block * size, blocks), neighbours=neighbours)


def _columns(width: int, groups: Groups) -> int:
    """The number of columns, each group counted as one."""
    return int(outside_groups(width, groups).sum()) + len(groups)


@estimator
class PrivateKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, NoisyEstimator):  # type: ignore[misc]
    """k-means under differential privacy: centres from noisy sums over noisy numbers of rows.

    The first round sums the rows of small cells about public points, from which the first centres are found. The labels
    of the rows fitted are not kept: they are not private. `predict` labels the rows it is given.

    Args:
        n_clusters: How many.
        rounds: How often rows are summed: once for the first centres, and then each time that the centres move. With
            a single round the centres start from public points.

    Attributes:
        cluster_centers_: One centre per row, in the user's units.
        cluster_count_: The released number of rows of each cluster, in the last round.

    >>> import inid
    >>> X = np.repeat([[0.1], [0.9]], 5000, axis=0)
    >>> model = PrivateKMeans(2, budget=inid.ApproxDP(1.0, 1e-6), bounds=(0, 1)).fit(X)
    >>> np.sort(model.cluster_centers_.ravel()).round(1).tolist()
    [0.1, 0.9]
    """

    n_clusters: int = 8
    _: KW_ONLY
    bounds: Bounds | None = None
    rounds: int = _ROUNDS

    def fit(self, X: Any, y: object = None, *, ledger: Ledger | None = None) -> Self:  # noqa: ARG002 - for pipelines
        """Move the centres.

        Args:
            X: One row per person: an array, a data frame, or an `inid.tables.Table`, whose engine then does the sums of
                the columns that the table states bounds for, one query for each round.
            ledger: Where the cost of all rounds is charged, before the data are looked at.
        """
        self._start_fit()
        budget = read_budget(self.budget)
        mechanism = read_mechanism(self.mechanism, budget)
        clusters = integer("n_clusters", self.n_clusters, least=1, cure="pass how many clusters to find")
        rounds = integer("rounds", self.rounds, least=1, cure="pass how often the centres move")
        relation, rows, groups, read = self._read(X, ledger)
        width = self.n_features_in_
        plain = outside_groups(width, groups)
        lower, upper = self._clip_bounds
        units = Units.of(lower, upper, rows, centre=plain, scale=True)

        def planned(blocks: int) -> NoisePlan:
            laplace = mechanism == "laplace"
            sensitivity = cluster_sensitivity(blocks, width, rounds, relation, pure=laplace, groups=groups)
            return plan_independent(sensitivity, budget, mechanism=mechanism, allocation=self.allocation)

        some = ASSUMED_ROWS if rows is None else rows
        first = _cells(clusters, some, float(planned(1).scales[-1])) if rounds > 1 else clusters
        noise = planned(first + (rounds - 1) * clusters)
        noise = cover_answers(noise, float(MOST_ROWS if rows is None else rows))
        source = charge(noise, ledger, type(self).__name__).source
        summed, lowest = read(), np.where(plain, -1.0, 0.0)
        spread, centres = _spread_out(clusters, lowest), _spread_out(first, lowest)
        scales = noise.scales.reshape(-1, width + 1)
        for at in range(rounds):
            here = slice(0, first) if at == 0 else slice(first + (at - 1) * clusters, first + at * clusters)
            drawn = scales[here].ravel()
            noisy = add_noise(_in_units(summed(centres, units), units), drawn, noise.mechanism, source)
            sums = noisy.reshape(-1, width + 1)
            counts, least = sums[:, -1:], max(float(drawn.max()), 1.0)
            found = np.clip(sums[:, :-1] / np.maximum(counts, 1.0), lowest, 1.0)
            if at == 0 and rounds > 1:
                centres = _start(found, counts[:, 0], least, units.unit, spread)
                continue
            # A cluster with fewer rows than noise alone explains goes to the largest one, to take a part of it.
            near = np.clip(found[counts.argmax()] + _NEAR * spread, lowest, 1.0)
            centres = np.where(counts > least, found, near)
        self._end_fit(ledger)
        self.plan_, self.private_ = noise, source.private
        self.cluster_centers_ = units.centre + units.unit * centres
        self.cluster_count_ = counts[:, 0]
        sizes, noisy = np.maximum(counts[:, 0], least), scales[-1] * (math.sqrt(2) if mechanism == "laplace" else 1.0)
        self._noise_diagnosis = centres_diagnosis(centres, sizes, units.unit, noisy[:-1], float(noisy[-1]))
        self._n_features_out = clusters
        total = max(float(counts.sum()), 1.0)
        spread = np.where(plain, np.hypot(noisy[:-1], noisy[-1]) * math.sqrt(clusters) / total, math.nan)
        self._remark_bounds((sums[:, :-1].sum(axis=0) / total, spread))
        warn_of_noise(self)
        return self

    def _read(
        self, X: Any, ledger: Ledger | None
    ) -> tuple[Neighbours, int | None, Groups, Callable[[], Callable[[Floats, Units], NDArray[np.int64]]]]:
        """The relation, the number of rows unless it is secret, the one-hot groups, and what sums rows by centres.

        The last is for after the charge: it reads the rows.
        """
        if isinstance(X, Table):
            stored = TableRows.of(X, [*X.bounds], self.neighbours, ledger)
            self._clip_bounds = read_bounds("bounds", check_table(X, self.bounds, stored.names), len(stored.names))
            self._remember_names(stored.names)
            return stored.relation, stored.rows, (), lambda: stored.by_cluster
        relation, data = self._read_rows(X, ledger)
        groups = one_hot_groups(self.bounds)
        self._clip_bounds = self._read_bounds(data.shape[1])
        rows = None if relation == "add_remove" else data.shape[0]
        return relation, rows, groups, lambda: partial(_whole_clusters, enforce_one_hot(data.floats(), groups))

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The nearest centre of each row."""
        return np.asarray(self.transform(X).argmin(axis=1))

    def fit_predict(self, X: Any, y: object = None, *, ledger: Ledger | None = None) -> NDArray[np.intp]:
        """Fit, and label the same rows. The labels tell each row's cluster: they are not private, the centres are."""
        return self.fit(X, y, ledger=ledger).predict(X)

    def score(self, X: Any, y: object = None) -> float:  # noqa: ARG002 - for pipelines
        """Minus the sum of squared distances to the nearest centres, without noise: for public or paid-for rows."""
        return -float((self.transform(X).min(axis=1) ** 2).sum())

    def transform(self, X: Any) -> Floats:
        """The distance of each row to each centre."""
        data = self._clipped_rows(X)
        return np.sqrt(_distances(data, self.cluster_centers_, np.ones(data.shape[1])))


def _cells(clusters: int, rows: int, noise: float) -> int:
    """How many cells the first round has: public, and so many that a cell of average size is well above its noise."""
    return int(min(max(rows / (_CLEAR * noise), clusters), _MOST_CELLS * clusters))


def _start(means: Floats, counts: Floats, least: float, unit: Floats, spread: Floats) -> Floats:
    """The first centres: ordinary k-means of the cells with more rows than noise explains, else the public points."""
    clusters, seen = len(spread), counts > least
    points = means[seen] * unit  # distances are those of the user's units
    if len(np.unique(points, axis=0)) < clusters:
        return spread
    plain = KMeans(clusters, n_init=_STARTS, random_state=0).fit(points, sample_weight=counts[seen])
    return np.asarray(np.clip(plain.cluster_centers_ / unit, -1.0, 1.0))


def _whole_clusters(values: Floats, centres: Floats, units: Units) -> NDArray[np.int64]:
    """The sums of the rows nearest to each centre, in steps, and their number, cluster by cluster."""
    step, (clusters, width) = units.grid.step, centres.shape
    sums = np.zeros((clusters, width + 1), np.int64)
    for whole in units.chunks(values):
        nearest = _distances(whole * step, centres, units.unit).argmin(axis=1)
        inside = (nearest[:, None] == np.arange(clusters)).astype(np.float64)
        # Whole numbers: exact in whatever order BLAS adds.
        sums += (inside.T @ np.column_stack([whole, np.ones(len(whole))])).astype(np.int64)
    return sums


def _in_units(whole: NDArray[np.int64], units: Units) -> Floats:
    """Sums and counts of whole steps as the floats that get noise."""
    exact: Floats = (exact_floats(whole) * np.append(units.grid.step, 1.0)).ravel()
    return exact


def _distances(rows: Floats, centres: Floats, unit: Floats) -> Floats:
    """Squared distances in the user's units, each from its own row alone, so that no row decides another's cluster."""
    return np.column_stack([row_sums(((rows - centre) * unit) ** 2) for centre in centres])


def _spread_out(clusters: int, lowest: Floats) -> Floats:
    """Points spread evenly between `lowest` and 1 by multiples of irrational numbers (a Kronecker sequence)."""
    golden, width = 2.0, lowest.size
    for _ in range(30):  # the root of x^(M + 1) = x + 1, which suits M dimensions best
        golden = (1 + golden) ** (1 / (width + 1))
    steps = golden ** -np.arange(1.0, width + 1)
    return np.asarray((1 - lowest) * ((0.5 + np.outer(np.arange(1, clusters + 1), steps)) % 1) + lowest)
