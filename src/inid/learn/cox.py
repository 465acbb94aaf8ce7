"""PrivateCox: proportional hazards by private coordinate descent on the likelihood of grouped times.

A person of risk r = x.w leaves period j by the event with probability 1 - exp(-h_j exp(r)), if they are there at its
beginning: Cox's model, seen at public edges, with the same w. A part of the promise goes to each of three steps.

1. *Hazards of everybody*: running totals of events and exits, as `kaplan_meier` releases them, give h_j at r = 0.
2. *Coefficients*: descent with these h_j fixed. The loss of a person is a sum over their periods, and so is its slope
   in r: the sum of h_j exp(r) over the periods that they survived, less u / (exp(u) - 1) with u = h_j exp(r) in that of
   the event. It is at least -1, and clipped above. The h_j are released numbers, and a slope depends on its own row and
   on released numbers, so each step keeps its share of the promise (E7).
3. *Calibration*: as people of high risk leave first, hazards of everybody fall below those of a person with r = 0, and
   coefficients come out too small, nearly all by one factor 1 / c. So running totals are released again, by bands of
   the risk that was found and blocks of periods: a person is in one cell of exit, event and band. The likelihood of
   these counts, with risks c r, gives c and the h_j of the baseline. The logarithm of c is drawn towards 0 as far as
   its noise exceeds what is known of it beforehand.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import ndtr
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats
from inid.learn.base import NoisyEstimator, check_room
from inid.learn.bounds import Bounds, clip_to_bounds, read_budget
from inid.learn.budget_splitting import ASSUMED_ROWS, divisible, split_budget
from inid.learn.descent.coordinate_descent import Descent
from inid.learn.descent.objective import Objective, exponentials
from inid.learn.inputs import read_target
from inid.learn.kaplan_meier import SurvivalCounts, SurvivalTimes, exact_totals, read_edges, survival_question
from inid.learn.parameters import estimator
from inid.learn.public_units import row_products
from inid.learn.significance import warn_of_noise
from inid.planning import NoisePlan
from inid.promises import Budget, PureDP
from inid.releasing import Release, release
from inid.sets import Neighbours
from inid.tables.questions.prefix_sums.kind import PrefixSums

_HAZARDS, _CALIBRATION = 0.05, 0.15  # of the promise
_SLOPE, _FACTOR = 2.0, 0.6  # the largest slope is 0.6 s^(1/4), s the rows over the noise, but not below 2
_PENALTY = 1.0  # of coefficients in public units, beside the sum of the losses
_FARTHEST = 4.0  # of a risk: beyond, bands are open
_WIDTHS = ((2000.0, 0.25), (500.0, 0.5), (0.0, 1.0))  # of bands, by the rows over the noise
_BLOCKS = 8  # of periods, with about as many events each
_MIDDLE = 1.5  # deviations of the risks: bands further from their mean have no part in c
_DOUBT = 0.3  # the standard deviation of the logarithm of c that is assumed beforehand
_DRAWS = 40
_FURTHEST = 1.0  # of the logarithm of c
_ROUNDS = 6  # of Newton's method, from a start that is right to second order
_TINY = 1e-12
_LARGEST = 300.0  # of a risk in the descent: no slope is infinite, so none times a feature of 0 is NaN


class _GroupedLoss:
    """H exp(r) - e log(1 - exp(-h exp(r))): H of the periods that a person survived, h of that of the event."""

    curvature, link = 1.0, None

    def __init__(self, survived: Floats, hazard: Floats, event: NDArray[np.bool_]) -> None:
        self._survived, self._hazard, self._event = survived, hazard, event

    def start(self) -> Floats:
        """Risks of 0."""
        return np.zeros_like(self._survived)

    def slopes(self, state: Floats, rows: slice) -> Floats:
        """The derivative by the risk, from each row by itself."""
        ratio = exponentials(np.minimum(state, _LARGEST))
        u = self._hazard[rows] * ratio
        near = np.minimum(u, 1.0)
        # Below 0.01 the series is exact to 1e-10, where the quotient would lose digits.
        share = np.where(u < 0.01, 1 - near / 2 + near**2 / 12, u / (exponentials(np.maximum(u, 0.01)) - 1))
        return np.asarray(self._survived[rows] * ratio - np.where(self._event[rows], share, 0.0))


@dataclass(frozen=True)
class _Totals:
    """Running totals of events and exits by groups, planned before anything is charged."""

    question: PrefixSums
    noise: NoisePlan

    @classmethod
    def planned(
        cls, budget: Budget, periods: int, groups: int, relation: Neighbours, rows: int | None, mechanism: Any
    ) -> Self:
        question = survival_question(periods, groups, relation, rows)
        return cls(question, question.plan(budget, mechanism=mechanism).noise)


@estimator
class PrivateCox(NoisyEstimator):
    """Cox's proportional hazards under differential privacy, for times that are grouped by public edges.

    Coefficients are for columns within their bounds, and come without intervals.

    Args:
        edges: The public edges of the periods, the first where people enter. A time counts in the period that ends at
            the next edge; one beyond the last edge is censored there.

    Attributes:
        coef_: The logarithm of the hazard ratio for one more unit of each column.
        intercept_: What is added to the risks, so that they are about 0.
        times_: The ends of the periods.
        baseline_survival_: The share without the event by then, of people whose risk is 0.
        calibration_: What calibration multiplied the coefficients of the descent by.
        noise_chance_: The chance, about, that noise alone moves the coefficients as far as they came.

    >>> import inid
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(20_000, 2))
    >>> times = rng.exponential(10 * np.exp(-X @ [1.0, -0.5]))
    >>> model = PrivateCox(inid.ApproxDP(1.0, 1e-6), edges=range(0, 13), bounds=(-1, 1)).fit(X, times, times < 12)
    >>> bool(abs(model.coef_ - [1.0, -0.5]).max() < 0.2)
    True
    """

    budget: Budget | None = None
    _: KW_ONLY
    edges: Sequence[float] | None = None
    bounds: Bounds | None = None
    passes: int | None = None

    # What a descent reads of an estimator, and is not a parameter here.
    fit_intercept: ClassVar[bool] = True
    weights: ClassVar[str] = "curvature"
    smoothness: ClassVar[float] = 0.1
    units: ClassVar[str] = "bounds"
    clip: ClassVar[None] = None
    step: ClassVar[float] = 1.0

    def fit(self, X: Any, times: Any, events: Any, *, ledger: Ledger | None = None) -> Self:
        """Fit the model.

        Args:
            times: One time per person, from entry to the event or to the end of observation. A row without a time
                counts nowhere.
            events: 1 (or True) for each person who left by the event, 0 for one who was censored. A row with anything
                else counts nowhere.
        """
        self._start_fit()
        edges = read_edges(self.edges)
        relation, data = self._read_rows(X, ledger)
        bounds_read = self._read_bounds(data.shape[1])
        left = SurvivalTimes(
            read_target(self, data, times, several=False, name="times"),
            read_target(self, data, events, several=False, name="events"),
        )
        promise = divisible(read_budget(self.budget))
        check_room(ledger, promise, relation)
        first, rest = split_budget(promise, _HAZARDS)
        last, rest = split_budget(rest, _CALIBRATION / (1 - _HAZARDS))
        descent = replace(Descent.of(self, *bounds_read, relation), budget=rest)
        rows, periods = None if relation == "add_remove" else data.shape[0], len(edges) - 1
        before = _Totals.planned(first, periods, 1, relation, rows, self.mechanism)
        bands = risk_edges(last, ASSUMED_ROWS if rows is None else rows)
        blocks = min(periods, _BLOCKS)
        after = _Totals.planned(last, blocks, len(bands) + 1, relation, rows, self.mechanism)

        def everybody() -> Floats:
            period, event = left.cells(edges)
            return exact_totals(before.question, before.noise, period, event, np.zeros(len(period), np.intp))

        marginal = release(everybody, before.noise, ledger, label="PrivateCox: hazards")
        with np.errstate(all="ignore"):  # whatever the caller has set, what was paid for must not be lost
            hazards, share, block = marginal_hazards(SurvivalCounts.of(before.question, marginal), blocks)

        def loss() -> _GroupedLoss:
            period, event = left.cells(edges)
            known, reached = period >= 0, np.maximum(period, 0)
            before_it = np.concatenate([[0.0], np.cumsum(hazards)])  # of the periods before each, and of all
            died = known & (event == 1)
            # Who is censored in a period was there in all of it, as for Kaplan and Meier.
            survived = before_it[np.minimum(reached + np.where(died, 0, 1), periods)]
            hazard = np.append(hazards, 0.0)[reached]
            return _GroupedLoss(np.where(known, survived, 0.0), np.where(died, hazard, 1.0), died)

        objective = Objective(
            lambda _: [loss()],
            lambda _: share,
            l2=lambda _: _PENALTY,
            public=True,
            slope=lambda signal: max(_SLOPE, _FACTOR * signal**0.25),
        )
        solution = descent.run(data, objective, ledger)
        self._clip_bounds = bounds_read
        coefficients, constant = solution.coefficients[0], float(solution.intercepts[0])

        def exact() -> Floats:
            with np.errstate(all="ignore"):
                period, event = left.cells(edges)
                risks = row_products(clip_to_bounds(data.floats(), *bounds_read), coefficients) + constant
                exits = np.where(period >= 0, np.append(block, blocks)[period], -1)
                return exact_totals(after.question, after.noise, exits, event, np.searchsorted(bands, risks))

        banded = release(exact, after.noise, ledger, label="PrivateCox: calibration")
        with np.errstate(all="ignore"):
            factor, of_blocks = calibrated(bands, after.question, banded)
            held_hazards = np.maximum(hazards, _TINY)
            sums = np.maximum(np.bincount(block, weights=held_hazards, minlength=blocks), _TINY)
            baseline = (of_blocks / sums)[block] * held_hazards
            self.baseline_survival_ = np.exp(-np.cumsum(baseline))
        self.calibration_, self.coef_, self.intercept_ = factor, factor * coefficients, factor * constant
        self.times_ = edges[1:]
        self.plan_, self.private_ = solution.plan, solution.private and marginal.private and banded.private
        self.noise_chance_ = solution.chance
        self._end_fit(ledger)
        warn_of_noise(self)
        return self

    def predict(self, X: Any) -> Floats:
        """The risk of each row: the logarithm of its hazard over that of the baseline."""
        return np.asarray(row_products(self._clipped_rows(X), self.coef_) + self.intercept_)

    def predict_survival(self, X: Any) -> Floats:
        """The share without the event by each of `times_`, a row for each row of X."""
        with np.errstate(all="ignore"):
            return np.asarray(np.exp(np.outer(np.exp(self.predict(X)), np.log(self.baseline_survival_))))

    def report(self, X: Any = None, y: Any = None) -> str:
        """The promise and how it was spent; `print(model)` shows it too."""
        check_is_fitted(self)
        head, *lines = super().report(X, y).splitlines()
        parts = (("hazards of everybody", _HAZARDS), ("descent", 1 - _HAZARDS - _CALIBRATION))
        spent = [f"    {name:<28} {share:6.1%}" for name, share in (*parts, ("calibration", _CALIBRATION))]
        at = lines.index("  spent on:")
        head = head.replace("fitted under ", f"fitted under {self.budget}; the descent under ")
        return "\n".join([head, *lines[: at + 1], *spent, *lines[at + 2 :]])

    def __str__(self) -> str:
        return self.report() if hasattr(self, "baseline_survival_") else repr(self)


def risk_edges(budget: Budget, rows: int) -> Floats:
    """The inner edges of the bands of risk: narrower the more rows there are over the noise, which is public."""
    signal = rows * (budget.gaussian_mu if not isinstance(budget, PureDP) else budget.laplace_epsilon)
    width = next(width for least, width in _WIDTHS if signal >= least)
    return np.linspace(-_FARTHEST, _FARTHEST, round(2 * _FARTHEST / width) + 1)


def marginal_hazards(counts: SurvivalCounts, blocks: int) -> tuple[Floats, float, NDArray[np.intp]]:
    """The hazard of everybody in each period, the share of people who have the event, and the block of each period.

    Where too few are at risk, the hazard is that of all periods together.
    """
    events, risk, reliable = counts.events[0], counts.at_risk[0], counts.reliable[0]
    events = np.minimum(events, risk / 2)
    mean = max(float(events.sum()), 1.0) / max(float(risk.sum()), 1.0)
    share = min(max(float(events.sum()) / max(float(risk[0]), 1.0), 0.01), 1.0)
    hazards = np.where(reliable, -np.log1p(-events / np.where(reliable, risk, 1.0)), mean)
    # Equal parts of the events, of periods enough to give each block one.
    reached = (np.cumsum(events) - events / 2) / max(float(events.sum()), 1.0)
    at, periods = np.floor(reached * blocks).astype(np.intp), len(hazards)
    for step in range(1, periods):
        at[step] = min(max(at[step], at[step - 1]), at[step - 1] + 1)
    return hazards, share, np.clip(at - at[0], 0, blocks - 1)


@dataclass(frozen=True, eq=False)
class _Bands:
    """Events, and people who stayed, by bands of the risk that was found and blocks of periods.

    They are unbiased, and the likelihood is linear in them. Who was censored in a block counts as half a person in it.
    Within a band the law of risks is taken for a normal one, of the mean and the variance of all, cut to the band.
    """

    edges: Floats
    events: Floats
    stayed: Floats
    mean: float
    deviation: float

    @classmethod
    def of(cls, edges: Floats, counts: SurvivalCounts) -> Self:
        events, risk = counts.events, counts.at_risk
        censored = np.diff(counts.totals[:, 0], axis=1, prepend=0.0)[:, :-1]
        stayed = np.where(counts.reliable, risk - events - censored / 2, 0.0)
        events, people = np.where(counts.reliable, events, 0.0), np.where(counts.reliable, risk, 0.0)[:, 0]
        width = float(edges[1] - edges[0])
        middles = np.append(edges - width / 2, edges[-1] + width / 2)
        total = max(float(people.sum()), 1.0)
        mean = float(people @ middles) / total
        variance = float(people @ np.square(middles - mean)) / total - width**2 / 12  # Sheppard's correction
        deviation = float(np.sqrt(max(variance, width**2 / 12)))
        # Few are left of high risks, and noise in them counts exp(c r) times: the likelihood is that of the others.
        middle = (np.abs(middles - mean) <= _MIDDLE * deviation + width / 2)[:, None]
        return cls(edges, events * middle, stayed * middle, mean, deviation)

    def ratios(self, factor: float) -> Floats:
        """The mean of exp(c r) in each band."""
        ends = np.concatenate([[-np.inf], (self.edges - self.mean) / self.deviation, [np.inf]])
        # Beyond eight deviations there is nobody, and differences of distribution functions lose their digits.
        ends, shift = np.clip(ends, -8.0, 8.0), factor * self.deviation
        inside = np.diff(ndtr(ends))
        moved = np.diff(ndtr(ends - shift)) * np.exp(factor * self.mean + shift**2 / 2)
        near = np.exp(factor * (self.mean + self.deviation * (ends[:-1] + ends[1:]) / 2))
        return np.asarray(np.where(inside > 1e-12, moved / np.maximum(inside, 1e-12), near)[:, None])

    def baseline(self, factor: float) -> Floats:
        """The hazards of most likelihood for risks times a factor, block by block, by Newton's method."""
        ratio, stayed = self.ratios(factor), self.stayed
        died = np.maximum(self.events.sum(axis=0), 0.0)
        hazards = died / np.maximum(((stayed + self.events / 2) * ratio).sum(axis=0), 1.0)  # to second order
        for _ in range(_ROUNDS):
            each = np.clip(ratio * hazards, _TINY, 50.0)
            gone = np.expm1(each)
            slope = (stayed * each - self.events * each / gone).sum(axis=0)
            curvature = (stayed * each + self.events * each * ((each - 1) * gone + each) / gone**2).sum(axis=0)
            hazards = hazards * np.exp(np.clip(-slope / np.maximum(curvature, _TINY), -1.0, 1.0))
        return np.where(died > 0, hazards, 0.0)

    def log_factor(self) -> float:
        """The logarithm of c of most profile likelihood; 0 where fewer than two bands can be told from the noise."""
        if np.count_nonzero(self.stayed.any(axis=1)) < 2:
            return 0.0

        def loss(logarithm: float) -> float:
            factor = float(np.exp(logarithm))
            each = np.clip(self.ratios(factor) * self.baseline(factor), _TINY, 50.0)
            lost = self.stayed * each - self.events * np.log(-np.expm1(-each))
            return float(lost.sum())

        return float(minimize_scalar(loss, bounds=(-_FURTHEST, _FURTHEST), method="bounded").x)


def calibrated(edges: Floats, question: PrefixSums, banded: Release) -> tuple[float, Floats]:
    """C, and the hazards of the baseline, from running totals of events and exits by bands of risk."""

    def bands(answer: Release) -> _Bands:
        return _Bands.of(edges, SurvivalCounts.of(question, answer, linear=True))

    rng, estimates = np.random.default_rng(20_263), []
    draw = rng.normal if banded.plan.mechanism == "gaussian" else rng.laplace
    for _ in range(_DRAWS):
        again = replace(banded, values=banded.values + banded.plan.scales * draw(size=banded.values.size))
        estimates.append(bands(again).log_factor())
    here = bands(banded)
    log_factor = here.log_factor()
    spread = float(np.subtract(*np.quantile(estimates, [0.84, 0.16]))) / 2  # wide tails do not drown it
    factor = float(np.exp(log_factor * _DOUBT**2 / (_DOUBT**2 + spread**2)))
    return factor, here.baseline(factor)
