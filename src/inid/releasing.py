"""release(): charge the ledger, draw exact noise, return what may be published."""

import datetime as dt
import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.special import ndtri

from inid._version import RECORD_FORMAT
from inid.arguments import Floats, integer, miss_probability, read_word, real, shown
from inid.errors import ArgumentError, GuaranteeError, RecordError
from inid.noise import RandomSource, add_noise, current_source, effective_scales, grid
from inid.noise.exact_draws import draw_choice, noisy_argmax
from inid.noise.grid_noise import check_scales, limits
from inid.planning import AccuracyPlan, Certificate, NoisePlan, StaircasePlan, half_width, plan
from inid.promises import Budget, GaussianDP
from inid.sets import Neighbours, Sensitivity

if TYPE_CHECKING:
    from inid.accounting import Ledger

_WHOLE = 2**53  # the integers up to here are float64 numbers
# Names of types without their lengths, which would tell something of the values.
_KINDS = {"b": "bool", "c": "complex", "f": "longdouble", "M": "datetime", "m": "timedelta", "S": "bytes", "U": "str"}
_MISSING = ("NAType", "NaTType")  # how data frames write a missing entry


@dataclass(frozen=True, eq=False)
class Release:
    """Noisy values that may be published, and everything that says what they promise.

    Attributes:
        values: One float per coordinate, an exact multiple of that coordinate's public grid step.
        plan: The plan by which the noise was drawn.
        certificate: The proof that the plan keeps its promise.
        private: False when a test's seeded or silent source drew the noise: such values promise nothing.
        label: What the caller named it.
        time: When it was made, in UTC.
        charge: The number of its charge in the ledger's history; None without a ledger.
    """

    values: Floats
    plan: NoisePlan
    certificate: Certificate
    private: bool
    label: str
    time: dt.datetime
    charge: int | None = None

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """Bounds around each value that hold the exact answer with the given probability, coordinate by coordinate.

        They depend on public scales alone: the quantile of the noise and half a step of the grid. They say nothing of
        the sampling error of the data, nor of values that were NaN or beyond the public limit.

        Args:
            level: The probability, above 0 and below 1.
            simultaneous: Whether the bounds hold for all coordinates at once with this probability. Independent noise
                gives each of K coordinates the probability level^(1/K); staircase noise each block, as a whole.

        >>> import inid
        >>> p = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=1.0))
        >>> r = inid.release([100.0], p)
        >>> low, high = r.interval(0.95)
        >>> bool(low[0] < r.values[0] < high[0])
        True
        """
        gamma = miss_probability(level)
        if isinstance(self.plan, StaircasePlan):
            reach = self.plan.joint_half_widths(1 - gamma) if simultaneous else self.plan.half_widths(gamma)
            return self.values - reach, self.values + reach
        scales = effective_scales(self.plan.scales)
        if simultaneous:
            gamma = -math.expm1(math.log1p(-gamma) / max(int(np.count_nonzero(scales)), 1))
        quantile = -float(ndtri(gamma / 2)) if self.plan.mechanism == "gaussian" else -math.log(gamma)
        reach = quantile * scales + grid(scales) / 2
        return self.values - reach, self.values + reach

    def interval_of_sum(self, weights: ArrayLike, level: float = 0.95) -> tuple[float, float]:
        """Bounds around the sum of weights_i values_i that hold the exact sum with the given probability.

        They count how the noise was drawn: numbers of a staircase block are uncorrelated, but large together.

        Args:
            weights: One number per coordinate; ones for a total.
            level: The probability, above 0 and below 1.

        >>> import inid
        >>> p = inid.plan(inid.Sensitivity.box([1.0, 1.0]), inid.PureDP(epsilon=1.0), mechanism="staircase")
        >>> low, high = inid.release([100.0, 50.0], p).interval_of_sum([1.0, 1.0])
        >>> round(high - low, 1)
        12.0
        """
        combination = _read_weights(weights, self.values.size)
        gamma = miss_probability(level)
        middle, reach = float(self.values @ combination), half_width(self.plan, combination, 1 - gamma)
        return middle - reach, middle + reach

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe record: the values, the plan, its certificate, the time; `inid.verify_record` checks it later."""
        return {
            "inid_release": RECORD_FORMAT,
            "time": self.time.isoformat(),
            "label": self.label,
            "private": self.private,
            **({} if self.charge is None else {"charge": self.charge}),
            "values": self.values.tolist(),
            "plan": self.plan.to_dict(),
            "certificate": self.certificate.to_dict(),
        }

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype) if copy or dtype is not None else self.values

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        labels = self.plan.sensitivity.labels
        low, high = self.interval()
        shown_rows = min(20, self.values.size)
        names = labels if labels and len(labels) == self.values.size else [str(i) for i in range(shown_rows)]
        width = max((len(name) for name in names[:shown_rows]), default=0)
        head = f"Release under {self.plan.budget}" + ("" if self.private else " - NOT PRIVATE: made by a test source")
        lines = [
            f"  {names[i]:<{width}}  {self.values[i]:>14.6g}  [{low[i]:.6g}, {high[i]:.6g}]" for i in range(shown_rows)
        ]
        more = [f"  ... and {self.values.size - shown_rows} more"] if self.values.size > shown_rows else []
        return "\n".join([head, *lines, *more])


def _read_weights(weights: ArrayLike, size: int) -> Floats:
    """Weights of either sign."""
    try:
        combination = np.array(weights, dtype=np.float64)
    except (TypeError, ValueError):
        combination = np.array(math.nan)
    if combination.shape != (size,) or not np.isfinite(combination).all():
        raise ArgumentError(f"weights must be {size} finite numbers, one per coordinate: pass ones for a total.")
    return combination


class Drawn(NamedTuple):
    """What is left of exact numbers once noise was drawn: all that may be published."""

    values: Floats
    keys: tuple[Any, ...] = ()


class Draw(Protocol):
    """How exact numbers and the noise of a plan become what is published; nothing else may look at the numbers."""

    def draw(self, exact: Any, noise: NoisePlan, source: RandomSource) -> Drawn:
        """What is published of the exact numbers. No error may depend on them: they are paid for."""
        ...


@dataclass(frozen=True)
class AddNoise:
    """The planned noise is added to each number, of the plan's coordinates from `start` on."""

    start: int = 0

    def draw(self, exact: Any, noise: NoisePlan, source: RandomSource) -> Drawn:
        """The noisy numbers."""
        if isinstance(noise, StaircasePlan):
            return Drawn(noise.draw(exact, source, self.start))
        scales = noise.scales[self.start : self.start + len(exact)]
        return Drawn(add_noise(exact, scales, noise.mechanism, source))


def check_parts(noise: NoisePlan, starts: Sequence[int]) -> None:
    """Refuse, before a charge, a plan that cannot be drawn in parts that begin at these coordinates."""
    if isinstance(noise, StaircasePlan):
        for start in starts:
            noise.drawn_from(0, start)


@dataclass(frozen=True, eq=False)
class Paid:
    """What was charged, and what it gives."""

    plan: NoisePlan
    label: str
    certificate: Certificate
    source: RandomSource
    charge: int | None

    def release(self, values: Floats) -> Release:
        """What may be published, made of noisy values; nobody can change them any more."""
        values.flags.writeable = False
        now = dt.datetime.now(dt.UTC)
        return Release(values, self.plan, self.certificate, self.source.private, self.label, now, self.charge)


@dataclass(frozen=True, eq=False)
class PaidPart:
    """A part that was charged before its noise is known: it follows from what earlier parts released."""

    promise: GaussianDP
    label: str
    source: RandomSource
    charge: int | None

    def planned(self, noise: NoisePlan) -> Paid:
        """The part with its noise."""
        if noise.budget != self.promise:
            raise GuaranteeError(f"noise under {noise.budget} is not what was paid for, {self.promise}.")
        return Paid(noise, self.label, noise.certificate, self.source, self.charge)


def charge(plan: NoisePlan, ledger: "Ledger | None", label: str, *, delta: float = 0.0) -> Paid:
    """Check a plan's own proof and charge the ledger, before anybody looks at the data: the one place that does.

    `release` uses it for one look at the data; a descent, which looks many times under one plan, uses it by itself.
    """
    check_plan(plan)
    (paid,) = charge_together([plan], plan, ledger, label, delta=delta)
    assert isinstance(paid, Paid)  # noqa: S101 - its noise is known
    return paid


def charge_together(
    plans: Sequence[NoisePlan | GaussianDP], charge: Any, ledger: "Ledger | None", label: str, *, delta: float = 0.0
) -> list[Paid | PaidPart]:
    """The same for several plans that are paid by one charge, and whose noise comes from one source."""
    known = [one for one in plans if not isinstance(one, GaussianDP)]
    for one in known:
        check_plan(one)
    read_word("label", label, empty=True)
    if ledger is not None and (isinstance(ledger, type) or not callable(getattr(ledger, "charge", None))):
        # Not the value: an address may hold a password.
        raise ArgumentError(
            f"ledger must be an inid.Ledger, got a {type(ledger).__name__}: open it with "
            "inid.Ledger.open(path, total=...) and pass what that returns."
        )
    for one in known:
        _ = one.certificate  # raises where a plan breaks its promise
        check_scales(one.run_scales)
    source = current_source()
    receipt = None if ledger is None else ledger.charge(charge, label=label, private=source.private, delta=delta)
    number = getattr(receipt, "id", None)
    if source.recorder is not None:
        source.recorder.charged(plans)
    return [
        PaidPart(plan, label, source, number)
        if isinstance(plan, GaussianDP)
        else Paid(plan, label, plan.certificate, source, number)
        for plan in plans
    ]


def release(
    values: ArrayLike | Callable[[], ArrayLike], plan: NoisePlan, ledger: "Ledger | None" = None, *, label: str = ""
) -> Release:
    """Add the planned noise to the exact answer and return what may be published.

    The order is: check the plan's own proof (and the values, where they are given), charge the ledger, which commits,
    compute the values where a function was given, draw. A crash after the charge loses budget, never privacy.

    Each value is a float64 (integers and exact fractions are held to 2^53 in size first). NaN and missing entries count
    as 0, and values beyond the public limit of their scale (at least 2^39 scales) count as the limit: no error, message
    or branch depends on a value. Mapping NaN to 0 is not Lipschitz, so map missing records before summing; what the
    plan certifies is the sensitivity of the values as they are passed, after this mapping.

    Args:
        values: The exact answer, one number per coordinate of the plan; or a function of no arguments that computes it,
            called after the charge, so that nobody looks at the data before it is paid for.
        plan: A plan from `inid.plan`.
        ledger: Where the cost is charged, before any noise is drawn. Without one nobody keeps count.
        label: A name for the ledger's history.

    Raises:
        ArgumentError: Wrong shape or type; nothing was charged.
        GuaranteeError: The plan does not keep its promise; nothing was charged.
        RangeError: A scale has no grid of normal floats; nothing was charged.
        BudgetError: The ledger refuses; nothing was released.

    >>> import inid
    >>> p = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.5))
    >>> r = inid.release([12.0, 40.0], p)
    >>> r.values.shape, r.private
    ((2,), True)
    >>> inid.release(lambda: [12.0, 40.0], p).values.shape
    (2,)
    """
    check_plan(plan)
    read = partial(_read_for, plan)
    given = values if callable(values) else read(values)
    paid = charge(plan, ledger, label)
    exact = read(given()) if callable(given) else given
    return paid.release(AddNoise().draw(exact, plan, paid.source).values)


def check_plan(plan: object) -> None:
    """Refuse what is not a plan of noise."""
    if isinstance(plan, AccuracyPlan):
        raise ArgumentError("plan must be a NoisePlan, got an AccuracyPlan: pass its .plan, the cheapest of them.")
    if not isinstance(plan, NoisePlan):
        raise ArgumentError(f"plan must be a NoisePlan, got {shown(plan)}: make one with inid.plan(...).")


def _read_for(plan: NoisePlan, values: object) -> Floats:
    plan.sensitivity.check_names("values", values)
    return read_values(values, plan.dimension)


def read_values(values: object, dimension: int) -> Floats:
    """The values as float64, by their type and shape alone: what they hold is never inspected and never shown."""
    cure = f"pass a one-dimensional sequence of {dimension} numbers, one per coordinate of the plan"
    if isinstance(values, np.ma.MaskedArray):
        raise ArgumentError("values must not be a masked array: fill the masked entries with a public value first.")
    declared = getattr(values, "dtype", None)
    try:
        # Only a declared NumPy type is trusted: for lists and nullable columns NumPy would choose one by the values.
        raw = np.asarray(values) if isinstance(declared, np.dtype) else np.array(values, dtype=object)
    except Exception:  # noqa: BLE001 - any converter may raise anything, and its message may hold data
        raise ArgumentError(f"values must be a flat sequence of numbers: {cure}.") from None
    if raw.shape != (dimension,):
        raise ArgumentError(f"values must have shape ({dimension},), got {raw.shape}: {cure}.")
    if raw.dtype.kind == "O":
        raw = np.array([_number(at, entry, cure) for at, entry in enumerate(raw)], dtype=np.float64)
    if raw.dtype.kind not in "iuf" or raw.dtype.itemsize > 8:
        raise ArgumentError(
            f"values must be float64 or integers, got entries of type {_KINDS.get(raw.dtype.kind, 'unknown')}: {cure}."
        )
    if raw.dtype.kind in "iu":
        # Larger integers would be rounded by more than 1, which no sensitivity accounts for; clamping is 1-Lipschitz.
        least, most = max(-_WHOLE, int(np.iinfo(raw.dtype).min)), min(_WHOLE, int(np.iinfo(raw.dtype).max))
        raw = np.clip(raw, least, most)
    return np.ascontiguousarray(raw, dtype=np.float64)


def _number(at: int, entry: object, cure: str) -> float:
    """One entry by its type: a number, held to 2^53 unless it is a float already, or NaN for a missing one."""
    if isinstance(entry, float):
        return float.__float__(entry)  # not a subclass's own, which could say anything
    if isinstance(entry, np.floating):
        return float(np.float64(entry))
    if isinstance(entry, (numbers.Rational, np.integer)):
        return float(max(-_WHOLE, min(_WHOLE, entry)))
    if isinstance(entry, Decimal):
        return math.nan if entry.is_nan() else float(max(Decimal(-_WHOLE), min(Decimal(_WHOLE), entry)))
    if entry is None or type(entry).__name__ in _MISSING:
        return math.nan
    raise ArgumentError(f"values[{at}] must be a number, got an entry of type {type(entry).__name__}: {cure}.")


# Private choice: which of many candidates has the largest score. The index alone is released.
#
# **Statement.** Let one person's data move the scores by (d_1, ..., d_K) with max(d, 0) - min(d, 0) <= r, the *range*
# of the changes (0 included, so that holding scores to a public limit keeps it). The index of the largest score_i +
# E_i, with independent exponential E_i of mean b, is dominated by Laplace noise of scale b on one number that a person
# moves by r: no test tells neighbours apart better. So it costs, in every currency, what that plan costs: pure epsilon
# r / b, and less in (epsilon, delta), Gaussian or Renyi terms.
#
# *Why.* A constant added to all scores changes no index, so we may take 0 <= d_i <= r. Let S be any set of indices, and
# W(t) the probability that the winner is in S when the scores in S, and no others, are raised by t. Raising scores in S
# helps S and raising others hurts it, so S has the probability W(0) before the change and at most W(r) after it. With M
# the largest noisy score in S and N that outside, W(t) = P(N - M < t). Given N, the density of M at any point is at
# most 1/b times P(M > that point): true of one exponential, hence of a maximum of them (the density of a maximum sums
# the cases in which one variable is there and no other beyond). So W' <= W / b; with M and N exchanged, W' <= (1 - W) /
# b. The distribution function L of Laplace noise has L' = min(L, 1 - L) / b exactly. So L^-1(W(t)) grows by at most t:
# the point (W(0), 1 - W(r)) lies on or above the trade-off curve of the Laplace mechanism, for every S. That curve is
# convex, so mixtures of tests lie above it too.
#
# What matters is the range, not the size, of the changes: counts under "add_remove" move in one direction, and r is the
# most that one person adds to one of them; under "replace" it is twice that. The noise is continuous and is compared
# exactly (`noise.noisy_argmax`); with rounded noise the statement would need a grid that divides every change.
#
# **Among Gaussian noise** the choice is the exponential mechanism of scale c s, c = sqrt(2 pi) / 4: index i with
# probability in proportion to exp(score_i / (c s)). It is dominated by Gaussian noise of standard deviation s on one
# number that a person moves by r. (Exponential noise of that scale would cost twice as much there.)
#
# *Why.* With W(t) as above, W / (1 - W) is a ratio of sums of which one has the factor exp(t / b), b = c s: so W' =
# W (1 - W) / b. Two independent normal numbers both lie within (-z, z) at least as often as their point lies in the
# disk of radius z, which the square holds: (1 - 2 Phi(-z))^2 >= 1 - exp(-z^2 / 2), hence Phi(z) Phi(-z) <=
# exp(-z^2 / 2) / 4 = c phi(z). With W = Phi(z) this says W' <= phi(z) / s: Phi^-1(W(t)) grows by at most t / s, and
# (W(0), 1 - W(r)) lies on or above the trade-off curve of Gaussian noise. Equality holds as r goes to 0, at W = 1/2:
# no smaller c serves.

EXPONENTIAL_SCALE = Fraction(626_657_069, 10**9)  # not below sqrt(2 pi) / 4 = 0.62665706865...


def choose(scores: NDArray[np.int64], unit: int, noise: NoisePlan, start: int, source: RandomSource) -> int:
    """The position of a choice by whole scores, which a person moves by as many units as that coordinate of a plan."""
    among_gaussian = noise.mechanism == "gaussian"
    exact = Fraction(float(noise.scales[start])) * unit * (EXPONENTIAL_SCALE if among_gaussian else 1)
    scale = math.nextafter(float(exact), math.inf)
    return draw_choice(scores, scale, source, again=among_gaussian)


_LABEL = "range of the scores"


@dataclass(frozen=True)
class Selection:
    """Which candidate was chosen, and what that promises."""

    index: int
    candidates: int
    plan: NoisePlan
    certificate: Certificate
    private: bool
    label: str
    time: dt.datetime
    charge: int | None = None

    def shortfall(self, level: float = 0.95) -> float:
        """How far the chosen score is below the largest one at most, with this probability over the noise.

        It is at most the largest of the K exponential noises, which exceeds b log(K / gamma) with probability gamma at
        most.
        """
        gamma = miss_probability(level)
        return float(self.plan.scales[0]) * math.log(self.candidates / gamma)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe record."""
        return {
            "inid_selection": RECORD_FORMAT,
            "time": self.time.isoformat(),
            "label": self.label,
            "private": self.private,
            **({} if self.charge is None else {"charge": self.charge}),
            "index": self.index,
            "candidates": self.candidates,
            "plan": self.plan.to_dict(),
            "certificate": self.certificate.to_dict(),
        }


def check_release(record: Any) -> None:
    """Refuse a record of a release that is of another format, or holds more or less than a release writes."""
    names = {"inid_release", "time", "label", "private", "values", "plan", "certificate"}
    if not (isinstance(record, Mapping) and names <= record.keys() <= names | {"charge"}):
        raise RecordError("the record of a release holds more, or less, than one does: it was changed, or cut.")
    if record["inid_release"] is True or record["inid_release"] != RECORD_FORMAT:
        raise RecordError(
            f"the record of a release is not of format {RECORD_FORMAT}, the one that this version reads: use the "
            "version that made it."
        )
    charge = record.get("charge", 0)
    if not (
        _is_time(record["time"])
        and isinstance(record["label"], str)
        and isinstance(record["values"], list)
        and isinstance(charge, int)
        and not isinstance(charge, bool)
    ):
        raise RecordError("the record of a release does not parse: it was changed.")


def _is_time(stored: object) -> bool:
    """Whether a text is a moment as a release writes it."""
    if not isinstance(stored, str):
        return False
    try:
        return dt.datetime.fromisoformat(stored).isoformat() == stored
    except ValueError:
        return False


@dataclass(frozen=True)
class Largest:
    """Of scores the position of the largest, once noise is added; nothing else is published of them."""

    def draw(self, exact: Any, noise: NoisePlan, source: RandomSource) -> Drawn:
        """The position, as one number."""
        most = float(limits(noise.scales)[0])
        scores = np.clip(np.nan_to_num(np.asarray(exact), nan=0.0, posinf=most, neginf=-most), -most, most)
        return Drawn(np.array([float(noisy_argmax(scores.tolist(), float(noise.scales[0]), source))]))


def plan_selection(score_range: float, budget: Budget, *, neighbours: Neighbours = "add_remove") -> NoisePlan:
    """The noise of a choice: the plan of Laplace noise on one number that one person moves by `score_range`."""
    reach = real("score_range", score_range, above=0, cure="pass the most that one person moves two scores apart")
    return plan(Sensitivity.box([reach], labels=[_LABEL], neighbours=neighbours), budget, mechanism="laplace")


def select(
    scores: ArrayLike | Callable[[], ArrayLike],
    plan: NoisePlan,
    ledger: "Ledger | None" = None,
    *,
    candidates: int | None = None,
    label: str = "",
) -> Selection:
    """Charge the ledger, then say which score is the largest once noise is added: the index, and nothing else."""
    check_plan(plan)
    if plan.mechanism != "laplace" or plan.sensitivity.labels != (_LABEL,) or not plan.scales[0] > 0:
        raise ArgumentError("plan must be the plan of a choice: make one with plan_selection(...).")
    scored = np.size(np.asarray(scores, dtype=object)) if candidates is None and not callable(scores) else candidates
    number = integer("candidates", scored, least=1, cure="pass the number of candidates")
    given = None if callable(scores) else read_values(scores, number)
    paid = charge(plan, ledger, label)
    exact = read_values(scores(), number) if callable(scores) else given
    index = int(Largest().draw(exact, plan, paid.source).values[0])
    now = dt.datetime.now(dt.UTC)
    return Selection(index, number, plan, paid.certificate, paid.source.private, label, now, paid.charge)
