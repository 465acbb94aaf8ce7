"""release(): charge the ledger, draw exact noise, return what may be published."""

import datetime as dt
import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy.special import ndtri

from inid.accounting.short_texts import read_word
from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError, GuaranteeError
from inid.noise import RandomSource, add_noise, current_source, effective_scales, grid
from inid.noise.grid_noise import check_scales
from inid.planning import AccuracyPlan, Certificate, NoisePlan
from inid.promises import GaussianDP

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["Paid", "PaidPart", "Release", "charge", "check_plan", "read_values", "release"]

_VERSION = 2  # 1 was that of 0.2
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

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Bounds around each value that hold the exact answer with the given probability, coordinate by coordinate.

        They depend on public scales alone: the quantile of the noise and half a step of the grid. They say nothing of
        the sampling error of the data, nor of values that were NaN or beyond the public limit.

        Args:
            level: The probability, above 0 and below 1.

        >>> import inid
        >>> p = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=1.0))
        >>> r = inid.release([100.0], p)
        >>> low, high = r.interval(0.95)
        >>> bool(low[0] < r.values[0] < high[0])
        True
        """
        gamma = 1 - real("level", level, above=0, cure="pass a probability such as 0.95")
        if not gamma > 0:
            raise ArgumentError(f"level must be a probability below 1, got {shown(level)}: pass 0.95, say.")
        scales = effective_scales(self.plan.scales)
        quantile = -float(ndtri(gamma / 2)) if self.plan.mechanism == "gaussian" else -math.log(gamma)
        reach = quantile * scales + grid(scales) / 2
        return self.values - reach, self.values + reach

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe record: the values, the plan, its certificate, the time; `inid.verify_record` checks it later."""
        return {
            "inid_release": _VERSION,
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


class Drawn(NamedTuple):
    """What is left of exact numbers once noise was drawn: all that may be published.

    Attributes:
        values: The noisy numbers.
        keys: What they are counts of, where that was not known before.
    """

    values: Floats
    keys: tuple[Any, ...] = ()


class Draw(Protocol):
    """How exact numbers and the noise of a plan become what is published; nothing else may look at the numbers."""

    def draw(self, exact: Any, noise: NoisePlan, source: RandomSource) -> Drawn:
        """What is published of the exact numbers. No error may depend on them: they are paid for."""
        ...


@dataclass(frozen=True)
class AddNoise:
    """The planned noise is added to each number."""

    def draw(self, exact: Any, noise: NoisePlan, source: RandomSource) -> Drawn:
        """The noisy numbers."""
        return Drawn(add_noise(exact, noise.scales, noise.mechanism, source))


@dataclass(frozen=True, eq=False)
class Paid:
    """What was charged, and what it gives.

    Attributes:
        plan: The plan that was charged.
        label: What the caller named it.
        certificate: The plan's proof.
        source: Where the noise of this charge must be drawn from.
        charge: The number of the charge in the ledger's history; None without a ledger.
    """

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
    """A part that was charged before its noise is known: it follows from what earlier parts released.

    Attributes:
        promise: What was charged.
        label: What the caller named it.
        source: Where the noise of this charge must be drawn from.
        charge: The number of the charge in the ledger's history; None without a ledger.
    """

    promise: GaussianDP
    label: str
    source: RandomSource
    charge: int | None

    def planned(self, noise: NoisePlan) -> Paid:
        """The part with its noise.

        Raises:
            GuaranteeError: The noise keeps another promise than the one that was paid.
        """
        if noise.budget != self.promise:
            raise GuaranteeError(f"noise under {noise.budget} is not what was paid for, {self.promise}.")
        return Paid(noise, self.label, noise.certificate, self.source, self.charge)


def charge(plan: NoisePlan, ledger: "Ledger | None", label: str, *, delta: float = 0.0) -> Paid:
    """Check a plan's own proof and charge the ledger, before anybody looks at the data: the one place that does.

    `release` uses it for one look at the data; a descent, which looks many times under one plan, uses it by itself.

    Args:
        plan: The plan that will be released.
        ledger: Where the cost is charged.
        label: A name for the ledger's history.
        delta: A probability that the release takes from the ledger's reserve beside its noise.

    Returns:
        The proof, the source from which the noise of this charge must be drawn, and the number of the charge.
    """
    check_plan(plan)
    (paid,) = charge_together([plan], plan, ledger, label, delta=delta)
    assert isinstance(paid, Paid)  # noqa: S101 - its noise is known
    return paid


def charge_together(
    plans: Sequence[NoisePlan | GaussianDP], whole: Any, ledger: "Ledger | None", label: str, *, delta: float = 0.0
) -> list[Paid | PaidPart]:
    """The same for several plans that are paid by one charge, and whose noise comes from one source.

    Args:
        plans: The plans that will be released; the promise of a part whose noise follows from earlier parts.
        whole: What the ledger is charged with: the plan, or the charge of all of them.
        ledger: Where the cost is charged.
        label: A name for the ledger's history.
        delta: A probability that is taken from the ledger's reserve beside the noise.
    """
    known = [plan for plan in plans if not isinstance(plan, GaussianDP)]
    for plan in known:
        check_plan(plan)
    read_word("label", label, empty=True)
    if ledger is not None and (isinstance(ledger, type) or not callable(getattr(ledger, "charge", None))):
        # Not the value: an address may hold a password.
        raise ArgumentError(
            f"ledger must be an inid.Ledger, got a {type(ledger).__name__}: open it with "
            "inid.Ledger.open(path, total=...) and pass what that returns."
        )
    for plan in known:
        _ = plan.certificate  # raises where a plan breaks its promise
        check_scales(plan.row_scales)
    source = current_source()
    receipt = None if ledger is None else ledger.charge(whole, label=label, private=source.private, delta=delta)
    number = getattr(receipt, "id", None)
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
