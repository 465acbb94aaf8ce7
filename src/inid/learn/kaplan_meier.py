"""PrivateKaplanMeier: survival curves from one release of events and exits, with intervals and a log-rank test.

**What is released.** A person is in one group, leaves in one period between public edges, and leaves by an event or
without one: one cell (period, event, group). So the periods are an ordered column that is counted by event and group,
and the noise is that of `tables` for running totals: a prefix strategy, of which a person moves one cell's numbers
alone. Times beyond the last edge are a last level, of people who left without an event.

**What is made of it.** With d_j events in period j and n_j people who had not left before it, S(j) is the product over
all i <= j of 1 - d_i / n_i. Both are linear in what was released, n_j being all less those who left. The estimates are
the nearest running totals that do not fall.

**How far it is off.** To first order log S(j) moves by the sum over i <= j of -1 / (n_i - d_i) for each unit of d_i and
d_i / (n_i (n_i - d_i)) for each of n_i; the variance of the noise follows from the strategy, exactly. Greenwood's
formula, the sum of d_i / (n_i (n_i - d_i)), is the variance of sampling. Where n_j is below ten people and four
standard deviations of its noise, the series stops: S is not estimated from there on, and its interval is from 0 to the
last upper end.

**Log-rank.** In each period the events of a group are compared with its share of those at risk: O - E is the sum over j
of d_gj - d_j n_gj / n_j. Its variance is the hypergeometric one plus that of the noise, by the derivatives of O - E.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import chdtrc, ndtri
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.figures import COLOURS, new_axes
from inid.learn.base import NoisyEstimator, read_independent, read_relation
from inid.learn.bounds import read_budget
from inid.learn.inputs import Labels, Matrix, read_classes, read_column, read_labels, read_target
from inid.learn.parameters import estimator
from inid.learn.public_units import MOST_ROWS
from inid.mechanisms import Mechanism
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.releasing import Release, release
from inid.tables import Table
from inid.tables.questions.prefix_sums.kind import PrefixSums
from inid.tables.questions.prefix_sums.question import Levels, PrefixTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_PERIODS = 1023  # beside the level beyond the last edge
_AT_RISK = 4.0  # standard deviations of its noise, beside ten people: the least number at risk that is divided by
_FEWEST = 10
_LAST = 0.5  # of a person: what is left at least where all have left


class LogRank(NamedTuple):
    """The log-rank test that all groups have one survival curve."""

    statistic: float
    degrees_of_freedom: int
    p_value: float


def read_edges(edges: object) -> Floats:
    """Public edges of periods: two or more finite numbers, each above the one before."""
    cure = "pass increasing numbers from public knowledge, such as range(0, 25), the first where people enter"
    try:
        numbers = np.asarray([*edges], dtype=np.float64)  # type: ignore[misc]
    except (TypeError, ValueError):
        raise ArgumentError(f"edges must be a list of numbers, got {shown(edges)}: {cure}.") from None
    if numbers.ndim != 1 or len(numbers) < 2 or not (np.isfinite(numbers).all() and (np.diff(numbers) > 0).all()):
        raise ArgumentError(f"edges must be two or more finite numbers that increase, got {shown(edges)}: {cure}.")
    if len(numbers) - 1 > _MOST_PERIODS:
        raise ArgumentError(f"edges make {len(numbers) - 1:,} periods, at most {_MOST_PERIODS:,} are served: {cure}.")
    return numbers


@dataclass(frozen=True)
class SurvivalTimes:
    """When people left and why, of which only types and lengths are known."""

    times: Matrix
    events: Matrix

    @classmethod
    def read(cls, model: object, times: Any, events: Any) -> Self:
        """One time and one event per person."""
        if isinstance(times, Table):
            raise ArgumentError(
                f"{type(model).__name__} takes no Table: pass one time and one event per person as arrays (of several "
                "rows of a person the last time, and whether it ended in the event)."
            )
        column = read_column("times", times)
        return cls(column, read_target(model, column, events, several=False, name="events"))

    def cells(self, edges: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The period of each row, and 1 for an event: each row by itself, whatever it holds.

        A time up to the first edge is in the first period, one beyond the last edge in a last level without an event. A
        row whose time is missing, or whose event is neither 0 nor 1, is in no period: -1.
        """
        times, events = self.times.floats().ravel(), self.events.floats().ravel()
        last = len(edges) - 1
        period = np.searchsorted(edges[1:], times, side="left")
        known = ~np.isnan(times) & ((events == 0) | (events == 1))
        event = np.where((events == 1) & (period < last), 1, 0)
        return np.where(known, period, -1), event


def survival_question(periods: int, groups: int, relation: Any, rows: int | None) -> PrefixSums:
    """Running totals of exits, without and with an event, group by group; the last level is beyond the last edge."""
    return PrefixSums(
        tables=(PrefixTable("period", ("exit",), ("cumulative",)),),
        levels={"period": Levels("period", tuple(range(periods + 1)))},
        keys={"exit": tuple(range(2 * groups))},
        probabilities={},
        fill={},
        person=None,
        neighbours=relation,
        rows=rows or None,
        max_rows=MOST_ROWS,
    )


def exact_totals(
    question: PrefixSums, noise: NoisePlan, period: NDArray[np.intp], event: NDArray[np.intp], group: NDArray[np.intp]
) -> Floats:
    """The exact numbers of running totals: each row in one cell of group, event and period, or in none (below 0)."""
    levels, cells = question.levels["period"].size, len(question.keys["exit"])
    here = (period >= 0) & (group >= 0)
    cell = (2 * group + event)[here] * levels + period[here]
    counts = np.bincount(cell, minlength=cells * levels).astype(np.float64)
    return question.values([counts.reshape(cells, levels)], noise.mechanism)


@dataclass(frozen=True, eq=False)
class SurvivalCounts:
    """Events and people at risk by group and period, as estimated from a release; `prefixes` maps its noise to them."""

    prefixes: Floats  # from the released numbers of one cell to its running totals
    deviation: float  # of the noise in each released number
    totals: Floats  # running totals that do not fall: group, without and with an event, level

    @classmethod
    def of(cls, question: PrefixSums, answer: Release, *, linear: bool = False) -> Self:
        """The estimates that a release gives: the nearest that do not fall, or (`linear`) unbiased ones."""
        (prefixes,) = question.prefixes(answer, 0.95)
        deviation = Mechanism.named(prefixes.mechanism).deviation * prefixes.scale
        values = prefixes.counts if linear else prefixes.monotone
        totals = values.reshape(-1, 2, values.shape[1])
        return cls(prefixes.strategy.prefixes, deviation, totals)

    @cached_property
    def events(self) -> Floats:
        """Events by group and period."""
        return np.diff(self.totals[:, 1], axis=1, prepend=0.0)[:, :-1]

    @cached_property
    def at_risk(self) -> Floats:
        """People who have not left before each period, by group."""
        exits = self.totals.sum(axis=1)
        return np.asarray(exits[:, -1:] - np.concatenate([np.zeros((len(exits), 1)), exits[:, :-2]], axis=1))

    @cached_property
    def _parts(self) -> tuple[Floats, Floats]:
        """From the released numbers of one cell to its number in each period, and to those in it or later."""
        before = np.vstack([np.zeros(self.prefixes.shape[1]), self.prefixes[:-2]])
        return self.prefixes[:-1] - before, self.prefixes[-1] - before

    @cached_property
    def reliable(self) -> NDArray[np.bool_]:
        """The periods up to the first one with too few people at risk, by group."""
        noise = self.deviation * np.sqrt(2 * np.square(self._parts[1]).sum(axis=1))
        return np.logical_and.accumulate(self.at_risk > _AT_RISK * noise + _FEWEST, axis=1)

    def log_survival(self, group: int) -> tuple[Floats, Floats]:
        """The logarithm of S by the end of each reliable period, and its variance, of sampling and noise."""
        within, later = self._parts
        count = int(self.reliable[group].sum())
        d, n = self.events[group, :count], self.at_risk[group, :count]
        d = np.minimum(d, n - _LAST)  # the last ones at risk: a logarithm of 0 has no variance
        by_event = -np.cumsum(within[:count] / (n - d)[:, None], axis=0)
        by_risk = np.cumsum(later[:count] * (d / (n * (n - d)))[:, None], axis=0)
        noise = np.square(by_event + by_risk).sum(axis=1) + np.square(by_risk).sum(axis=1)
        return np.cumsum(np.log1p(-d / n)), np.cumsum(d / (n * (n - d))) + self.deviation**2 * noise

    def log_rank(self) -> tuple[Floats, Floats]:
        """O - E of each group, and its covariance, of sampling and noise."""
        groups, count = len(self.totals), int(np.logical_and.accumulate(self.reliable.any(axis=0)).sum())
        within, later = (part[:count] for part in self._parts)
        d, n = self.events[:, :count], self.at_risk[:, :count]
        events, people = d.sum(axis=0), n.sum(axis=0)
        share = n / people
        difference = (d - events * share).sum(axis=1)
        least = np.maximum(people - 1, _LAST)
        spread = events * np.maximum(people - events, 0.0) / least
        covariance = np.diag(share @ spread) - (share * spread) @ share.T
        for one in range(groups):
            to = (np.arange(groups) == one)[:, None] - share
            by_event = to @ within
            by_risk = -(to * events / people) @ later
            both, risk = by_event + by_risk, by_risk
            covariance = covariance + self.deviation**2 * (both @ both.T + risk @ risk.T)
        return difference, covariance


@estimator
class PrivateKaplanMeier(NoisyEstimator):
    """Kaplan-Meier curves under differential privacy, of one group or several, from one release.

    Args:
        edges: The public edges of the periods, the first where people enter. A time counts in the period that ends at
            the next edge; one beyond the last edge is censored there.
        groups: The public labels of the groups; None for one curve of all people. A row of another label counts
            nowhere.

    Attributes:
        times_: The ends of the periods.
        survival_: The share of people without the event by then, a row for each group; NaN from where too few are at
            risk to be told from the noise.
        at_risk_: The estimated number of people who have not left before each period, likewise.
        events_: The estimated number of events in each period, likewise.
        median_: The first of `times_` by which half have had the event, for each group; infinite if none.
        release_: The released numbers.

    >>> import inid
    >>> import numpy as np
    >>> times = np.random.default_rng(0).exponential(10, size=5000)
    >>> curve = PrivateKaplanMeier(inid.ApproxDP(1.0, 1e-6), edges=range(0, 21)).fit(np.minimum(times, 18), times < 18)
    >>> bool(abs(curve.predict([5, 10]) - np.exp([-0.5, -1.0])).max() < 0.05), curve.median_.tolist()
    (True, [7.0])
    """

    budget: Budget | None = None
    _: KW_ONLY
    edges: Sequence[float] | None = None
    groups: Sequence[Any] | None = None

    def fit(self, times: Any, events: Any, group: Any = None, *, ledger: Ledger | None = None) -> Self:
        """Release events and exits by period and group.

        Args:
            times: One time per person, from entry to the event or to the end of observation. A row without a time
                counts nowhere.
            events: 1 (or True) for each person who left by the event, 0 for one who was censored. A row with anything
                else counts nowhere.
            group: One label per person, where `groups` are stated.
        """
        self._start_fit()
        budget, edges = read_budget(self.budget), read_edges(self.edges)
        relation = read_relation(self.neighbours, ledger)
        left = SurvivalTimes.read(self, times, events)
        labels = self._labels(left, group)
        names = [None] if labels is None else read_classes(self.groups).tolist()
        count = left.times.shape[0]
        question = survival_question(len(edges) - 1, len(names), relation, None if relation == "add_remove" else count)
        noise = question.plan(budget, mechanism=read_independent(self.mechanism)).noise

        def exact() -> Floats:
            with np.errstate(all="ignore"):
                period, event = left.cells(edges)
                member = np.zeros(count, dtype=np.intp)
                if labels is not None:
                    member -= 1
                    for at, one in enumerate(names):
                        member[(labels.matches(one) > 0) & (member < 0)] = at
                return exact_totals(question, noise, period, event, member)

        answer = release(exact, noise, ledger, label=type(self).__name__)
        self.plan_, self.release_, self.private_ = noise, answer, answer.private
        self.groups_, self.times_ = names, edges[1:]
        with np.errstate(all="ignore"):  # whatever the caller has set, what was paid for must not be lost
            self._counts = SurvivalCounts.of(question, answer)
            self.events_, self.at_risk_ = self._counts.events, self._counts.at_risk
            self._curves = [self._counts.log_survival(at) for at in range(len(names))]
            self.survival_ = self._whole([np.exp(logarithm) for logarithm, _ in self._curves])
        self.median_ = self.quantile(0.5)[0]
        self._end_fit(ledger)
        return self

    def predict(self, times: ArrayLike) -> Floats:
        """The curves at some times: a row for each group, one row alone where there are no groups."""
        check_is_fitted(self)
        asked = np.asarray(times, dtype=np.float64)
        curves = np.column_stack([np.ones(len(self.groups_)), self.survival_])
        at = np.searchsorted(self.times_, asked, side="right")
        return np.asarray(curves[0, at] if self.groups is None else curves[:, at])

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """The ends of pointwise intervals of the curves, of noise and sampling, shaped as `survival_`."""
        check_is_fitted(self)
        z = _normal_quantile(level)
        low, high = [], []
        for logarithm, variance in self._curves:
            reach = z * np.sqrt(variance)
            low.append(np.exp(logarithm - reach))
            high.append(np.exp(np.minimum(logarithm + reach, 0.0)))
        upper = self._whole(high)
        # A curve does not rise: where it is not estimated, the last upper end is one.
        return np.nan_to_num(self._whole(low), nan=0.0), np.fmin.accumulate(np.nan_to_num(upper, nan=1.0), axis=1)

    def quantile(self, probability: float = 0.5, level: float = 0.95) -> tuple[Floats, Floats, Floats]:
        """The first of `times_` by which this share have had the event, and the ends of its interval, for each group.

        The interval holds the times at which the interval of the curve holds 1 - probability (Brookmeyer and Crowley).
        """
        check_is_fitted(self)
        share = 1 - real("probability", probability, above=0, cure="pass a probability between 0 and 1, 0.5 say")
        if not share > 0:
            raise ArgumentError(f"probability must be below 1, got {shown(probability)}: pass 0.5, say.")
        low, high = self.interval(level)
        return tuple(self._first(curve <= share) for curve in (self.survival_, low, high))  # type: ignore[return-value]

    def log_rank(self) -> LogRank:
        """The test that all groups have one curve, with the variance of sampling and of the noise."""
        check_is_fitted(self)
        if len(self.groups_) < 2:
            raise ArgumentError("log_rank compares groups: state groups=, and pass the group of each person to fit.")
        difference, covariance = self._counts.log_rank()
        freedom = len(difference) - 1  # the differences of all groups sum to 0
        statistic = float(difference[:-1] @ np.linalg.pinv(covariance[:-1, :-1]) @ difference[:-1])
        return LogRank(statistic, freedom, float(chdtrc(freedom, statistic)))

    def plot(self, ax: "Axes | None" = None, level: float = 0.95) -> "Axes":
        """Draw the curves with their intervals, and return the axes."""
        check_is_fitted(self)
        ax = new_axes(ax)
        low, high = self.interval(level)
        for at, name in enumerate(self.groups_):
            colour = COLOURS[at % len(COLOURS)]
            times = np.append(float(np.asarray(self.edges, dtype=np.float64)[0]), self.times_)
            curve, under, over = (np.append(1.0, one[at]) for one in (self.survival_, low, high))
            ax.step(times, curve, where="post", color=colour, label=None if name is None else str(name))
            ax.fill_between(times, under, over, step="post", color=colour, alpha=0.2, linewidth=0)
        ax.set(xlabel="time", ylabel="without the event", ylim=(0, 1.02))
        if len(self.groups_) > 1:
            ax.legend()
        return ax

    def report(self, X: Any = None, y: Any = None) -> str:
        """The promise, how it was spent, and the median of each group; `print(model)` shows it too."""
        lines = [super().report(X, y)]
        for name, risk, events, middle, low, high in zip(
            self.groups_, self.at_risk_[:, 0], self.events_.sum(axis=1), *self.quantile(0.5), strict=True
        ):
            who = "everybody" if name is None else str(name)
            lines.append(
                f"  {who}: about {risk:,.0f} people, {events:,.0f} events, median {middle:g} [{low:g}, {high:g}]"
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.report() if hasattr(self, "median_") else repr(self)

    def _labels(self, left: SurvivalTimes, group: Any) -> Labels | None:
        if (self.groups is None) != (group is None):
            raise ArgumentError(
                "groups and the group of each person belong together: pass groups=, their public labels, to the "
                "estimator, and one label per person to fit."
            )
        return None if group is None else read_labels(self, left.times, group)

    def _whole(self, curves: list[Floats]) -> Floats:
        """Curves as rows of one length, NaN where they are not estimated."""
        values = np.full((len(curves), len(self.times_)), np.nan)
        for at, curve in enumerate(curves):
            values[at, : len(curve)] = curve
        return values

    def _first(self, reached: NDArray[np.bool_]) -> Floats:
        """The first time at which something holds, for each group; infinite where it never does."""
        return np.where(reached.any(axis=1), self.times_[reached.argmax(axis=1)], np.inf)


def _normal_quantile(level: float) -> float:
    rest = 1 - real("level", level, above=0, cure="pass a probability such as 0.95")
    if not rest > 0:
        raise ArgumentError(f"level must be a probability below 1, got {shown(level)}: pass 0.95, say.")
    return -float(ndtri(rest / 2))
