"""Record a release and replay it on a neighbour: does one person move it as far as was claimed, and no farther?

A recording notes every number right before noise is added, the noisy number, and what was charged. A replay runs the
same code on a neighbouring table and hands out the *recorded* noisy numbers, so that both runs go the same way. Then

    1. both draw noise for as many numbers, of the same scales, in the same order   else: domain inferred from data
    2. no number before noise is NaN or infinite                                     else: NaN
    3. no more numbers are drawn than were charged                                   else: double spending
    4. the change, in units of the noise, costs at most what was charged:
       sum |d_i| / beta_i of Laplace noise, sum d_i^2 / sigma_i^2 of Gaussian noise,
       epsilon of each block that a change moves by a step, of staircase noise        else: sensitivity
    5. what comes out is the same, since every noisy number is                       else: noise (something had none)

Differences are compared as fractions: without a tolerance where noise is exact. The names of the five are those of the
audit of privacy libraries by record and replay (PETS 2026).

Sources of randomness that repeat stand here too: what is released with them is not private.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from cryptography.hazmat.primitives.ciphers import CipherContext

from inid import arguments
from inid.errors import ArgumentError
from inid.noise.source import RandomSource, keyed_stream, source_in_use
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.releasing import EXPONENTIAL_SCALE


class SeededSource(RandomSource):
    """The words of `RandomSource` under keys derived from a seed. Not secret, and never to be used for a release."""

    private = False

    def __init__(self, seed: int, *, silent: bool = False) -> None:
        super().__init__()
        self.silent = silent
        self._seed = arguments.integer("seed", seed, least=0, cure="pass a whole number, for example 7")
        self._keys = 0

    def _new_stream(self) -> CipherContext:
        name = f"inid.testing seed {self._seed} key {self._keys}"
        self._keys += 1
        return keyed_stream(name)


@contextlib.contextmanager
def unsafe_seed(seed: int) -> Iterator[RandomSource]:
    """Make noise repeatable inside a block. Everything drawn inside is public knowledge.

    Holds for this thread and this asynchronous task only: a thread started inside draws secret noise, as always.

    >>> from inid.noise import add_noise
    >>> with unsafe_seed(7):
    ...     first = add_noise([0.0], [1.0], "laplace")
    >>> with unsafe_seed(7):
    ...     bool(first == add_noise([0.0], [1.0], "laplace"))
    True
    """
    with source_in_use(SeededSource(seed)) as source:
        yield source


@contextlib.contextmanager
def unsafe_no_noise() -> Iterator[RandomSource]:
    """Leave noise out inside a block: values are rounded to their grid and nothing else.

    >>> from inid.noise import add_noise
    >>> with unsafe_no_noise():
    ...     add_noise([0.1, 5.0], [4096.0, 1.0], "gaussian").tolist()
    [0.0, 5.0]
    """
    with source_in_use(SeededSource(0, silent=True)) as source:
        yield source


Kind = Literal["domain", "double spending", "NaN", "noise", "sensitivity"]

_FLOATING = Fraction(1, 200)  # of a step: what sums of many gradients in float32 may be off by
_PASSING = frozenset({"time", "digest", "charge"})  # of a record: they differ from run to run


@dataclass(frozen=True)
class Violation:
    """One way in which a run is not as private as it claims."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


@dataclass(frozen=True)
class Draw:
    """Numbers before noise, and after."""

    law: str
    values: dict[Any, Any]
    scales: tuple[Fraction, ...]
    noisy: Any
    charge: int
    claim: Any = None

    def cost(self, other: "Draw") -> Fraction:
        """What the change from here to another draw spends of a promise: epsilon, or mu squared."""
        change = [other.values.get(key, 0) - self.values.get(key, 0) for key in {**self.values, **other.values}]
        if self.law == "choice":  # the range of the changes, 0 included
            return Fraction(max([0, *change]) - min([0, *change])) / self.scales[0]
        if self.law == "exponential choice":  # the same in Gaussian noise, of this scale over EXPONENTIAL_SCALE
            moved = Fraction(max([0, *change]) - min([0, *change]))
            return (moved * EXPONENTIAL_SCALE / self.scales[0]) ** 2
        if self.law == "staircase":  # a step costs the block's whole epsilon, however far the change goes towards it
            rate, *reaches = self.scales  # every cell has a draw of its own
            lines = [change[at : at + len(reaches)] for at in range(0, len(change), len(reaches))]
            steps = (max(math.ceil(abs(d) / s) for d, s in zip(line, reaches, strict=True)) for line in lines)
            return sum((rate * many for many in steps), Fraction(0))
        scales = self.scales if len(self.scales) == len(change) else self.scales[:1] * len(change)
        power = 2 if self.law == "gaussian" else 1
        parts = ((abs(d), s) for d, s in zip(change, scales, strict=True) if d)
        return sum(((d / s) ** power if s else Fraction(10**9) for d, s in parts), Fraction(0))


@dataclass(eq=False)
class Recording:
    """What a run drew and returned."""

    function: Callable[[Any], Any] = field(repr=False)
    seed: int
    draws: list[Draw] = field(default_factory=list)
    charges: list[tuple[Any, ...]] = field(default_factory=list)
    result: Any = None
    error: str | None = None

    @property
    def numbers(self) -> int:
        """How many numbers got noise."""
        return sum(len(draw.values) for draw in self.draws)


@dataclass(frozen=True)
class Comparison:
    """A recording beside its replay.

    Attributes:
        violations: Every way in which the runs differ that the charges do not cover; empty where all is well.
        spent: For every charge, and every draw that claims a plan of its own, what one person's change costs, as a part
            of what was claimed: at most 1.
        numbers: How many numbers got noise.
    """

    violations: tuple[Violation, ...]
    spent: tuple[float, ...]
    numbers: int

    def __str__(self) -> str:
        if not self.violations:
            return f"no violation in {self.numbers} numbers; the change spends {max(self.spent, default=0.0):.3g} of 1"
        return "\n".join(map(str, self.violations))


class _Recorder:
    """Notes draws, and hands out those of an earlier run."""

    def __init__(self, recording: Recording, seed: int, earlier: Recording | None) -> None:
        self._recording, self._earlier = recording, earlier
        self._own = SeededSource(seed + 1)

    def charged(self, plans: Sequence[Any]) -> None:
        self._recording.charges.append(tuple(plans))

    def drawn(self, law: str, values: Any, scales: Any, draw: Callable[[RandomSource], Any], claim: Any = None) -> Any:
        noted, widths = _exactly(values), tuple(_fraction(scale) for scale in np.asarray(scales, dtype=float).tolist())
        at, charge = len(self._recording.draws), len(self._recording.charges) - 1
        earlier = None
        if self._earlier is not None and at < len(self._earlier.draws):
            earlier = self._earlier.draws[at]
        if earlier is not None and isinstance(values, Mapping):  # a key that is new stays hidden
            noisy: Any = {key: earlier.noisy.get(key, -math.inf) for key in values}
        elif earlier is not None and (earlier.law, earlier.scales) == (law, widths):
            noisy = earlier.noisy
        else:
            with source_in_use(self._own):
                noisy = draw(self._own)
        self._recording.draws.append(Draw(law, noted, widths, _copied(noisy), charge, claim))
        return _copied(noisy)


class _RecordedSource(SeededSource):
    def __init__(self, seed: int, recorder: _Recorder) -> None:
        super().__init__(seed)
        self.recorder = recorder


def record(function: Callable[[Any], Any], table: Any, *, seed: int = 7) -> Recording:
    """Run a function of a table, and note every number before noise, its noise and what was charged.

    Args:
        function: Anything that releases from one table, or array, or pair of them, in this thread: a query, a fit, a
            training loop. It makes its own ledger, if any, anew at each call.
        table: What it is called with.
        seed: Decides the noise, and every other random choice.

    >>> import inid
    >>> p = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=1.0))
    >>> tape = record(lambda ages: inid.release([len(ages)], p), [30, 41])
    >>> print(replay(tape, [30, 41, 77]))
    no violation in 1 numbers; the change spends 1 of 1
    >>> print(replay(tape, [30, 41, 77, 78]))
    sensitivity: the change spends 2 times what was charged (charge 1, staircase)
    """
    if not callable(function):
        raise ArgumentError(f"function must be callable with the table, got {arguments.shown(function)}: pass one.")
    number = arguments.integer("seed", seed, least=0, cure="pass a whole number, for example 7")
    return _run(function, table, 2 * number, None)


def replay(recording: Recording, neighbour: Any, *, changes: int = 1) -> Comparison:
    """Run a recorded function on a neighbouring table, with the recorded noise, and compare.

    Args:
        recording: What `record` returned.
        neighbour: A table that differs in one person, by the relation that the function promises.
        changes: By how many neighbours in a row the table is reached. Under "zero_out" a person becomes nothing, which
            no row can say; a person with other data is two changes away.
    """
    many = arguments.integer("changes", changes, least=1, cure="pass how many neighbours in a row, for example 1")
    return _compared(recording, _run(recording.function, neighbour, recording.seed, recording), many)


def _run(function: Callable[[Any], Any], table: Any, seed: int, earlier: Recording | None) -> Recording:
    recording = Recording(function, seed)
    with source_in_use(_RecordedSource(seed, _Recorder(recording, seed, earlier))):
        try:
            recording.result = published(function(table))
        except Exception as error:  # whether any error comes must not depend on one person
            recording.error = type(error).__name__
            if earlier is None:
                raise
    return recording


def _compared(one: Recording, two: Recording, changes: int) -> Comparison:
    violations: list[Violation] = []
    if two.error is not None:
        violations.append(Violation("domain", f"only one of two neighbouring tables raises {two.error}"))
    shapes = [[(draw.law, draw.scales, _shape(draw)) for draw in run.draws] for run in (one, two)]
    if shapes[0] != shapes[1] and two.error is None:
        violations.append(Violation("domain", "how many numbers get noise, or how much, depends on one person"))
    if any(value is None for run in (one, two) for draw in run.draws for value in draw.values.values()):
        violations.append(Violation("NaN", "a number before noise is NaN or infinite"))
        return Comparison(tuple(violations), (), one.numbers)
    violations += [
        Violation("double spending", f"{number} numbers get noise where {paid} were charged (charge {at + 1})")
        for at, (number, paid) in enumerate(zip(*_counts(one), strict=True))
        if paid is not None and number > paid
    ]
    spent: list[float] = []
    for what, law, claim, cost in _costs(one, two, changes):
        if claim is None:
            violations.append(Violation("double spending", f"numbers get {law} noise that nothing was charged for"))
        elif cost > claim:
            words = f"the change spends {float(cost / claim):.6g} times" if claim else "the change spends more than"
            violations.append(Violation("sensitivity", f"{words} what was charged ({what}, {law})"))
        if claim:
            spent.append(float(cost / claim))
    keys_differ = any(isinstance(a.noisy, Mapping) and a.values.keys() != b.values.keys() for a, b in _pairs(one, two))
    if not violations and not keys_differ and not _same(one.result, two.result):
        violations.append(
            Violation("noise", "something that is released changes, although all noisy numbers are the same")
        )
    return Comparison(tuple(violations), tuple(spent), one.numbers)


def _pairs(one: Recording, two: Recording) -> list[tuple[Draw, Draw]]:
    return list(zip(one.draws, two.draws, strict=False))


def _shape(draw: Draw) -> object:
    return "keys" if isinstance(draw.noisy, Mapping) else len(draw.values)


def _counts(run: Recording) -> tuple[list[int], list[int | None]]:
    """For every charge, how many numbers got noise and how many were charged; None where the plans do not say."""
    counts = [sum(len(d.values) for d in run.draws if d.charge == at and _counted(d)) for at in range(len(run.charges))]
    paid = [
        sum(plan.dimension for plan in plans) if all(isinstance(plan, NoisePlan) for plan in plans) else None
        for plans in run.charges
    ]
    return counts, paid


def _counted(draw: Draw) -> bool:
    return draw.claim is None and "choice" not in draw.law and not isinstance(draw.noisy, Mapping)


def _costs(one: Recording, two: Recording, changes: int) -> list[tuple[str, str, Fraction | None, Fraction]]:
    """What was claimed and what the change costs, for every charge by the kind of noise, and for every own claim."""
    times = {"gaussian": changes**2, "laplace": changes, "choice": changes, "staircase": changes}
    costs: list[tuple[str, str, Fraction | None, Fraction]] = []
    together: dict[tuple[int, str], Fraction] = {}
    for at, (a, b) in enumerate(_pairs(one, two)):
        if a.claim is not None:
            claim = times[a.law] * _claimed([a.claim], a.law) * (1 + _FLOATING)
            costs.append((f"draw {at + 1}", a.law, claim, a.cost(b)))
        else:
            family = "gaussian" if a.law == "exponential choice" else a.law
            key = (a.charge, family if family in ("gaussian", "staircase") else "laplace")
            together[key] = together.get(key, Fraction(0)) + a.cost(b)
    for (charge, law), cost in together.items():
        charged = None if charge < 0 else times[law] * _claimed(one.charges[charge], law)
        costs.append((f"charge {charge + 1}", law, charged, cost))
    return costs


def _claimed(plans: Sequence[Any], law: str) -> Fraction:
    """What plans, or promises, allow one person to spend: epsilon, or mu squared."""
    total = Fraction(0)
    for plan in plans:
        if isinstance(plan, NoisePlan):
            total += plan.spent if plan.mechanism == law else 0
        elif isinstance(plan, Budget):
            total += plan.mu_squared if law == "gaussian" else Fraction(plan.laplace_epsilon)
    return total


def _exactly(values: Any) -> dict[Any, Any]:
    """Numbers as fractions by position, or by key; None in the place of NaN and infinities."""
    if isinstance(values, Mapping):
        return {key: _fraction(value) for key, value in values.items()}
    listed = values if isinstance(values, (list, tuple)) else np.asarray(values).reshape(-1).tolist()
    return {at: _fraction(value) for at, value in enumerate(listed)}


def _fraction(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return Fraction(value)


def _copied(noisy: Any) -> Any:
    """Arrays and tensors may be written over by whoever gets them."""
    if isinstance(noisy, (list, dict)):
        return noisy.copy()
    return noisy.clone() if hasattr(noisy, "clone") else noisy.copy() if hasattr(noisy, "copy") else noisy


def published(result: Any) -> Any:
    """What a result says to whoever sees it, as plain values that can be compared; times and digests aside."""
    if result is None or isinstance(result, (str, bytes, bool, int, float, Fraction, np.generic)):
        return result
    if isinstance(result, Mapping):
        return {str(key): published(value) for key, value in result.items() if str(key) not in _PASSING}
    if isinstance(result, (list, tuple, set, frozenset)):
        return [published(entry) for entry in result]
    if isinstance(result, np.ndarray):
        return [result.dtype.kind, published(result.tolist())]
    if hasattr(result, "state_dict"):
        return published(dict(result.state_dict()))
    if hasattr(result, "detach"):
        return published(result.detach().cpu().numpy())
    if callable(getattr(result, "get_params", None)):  # an estimator: what it learned
        learned = {name: value for name, value in vars(result).items() if name.endswith("_") and name[0] != "_"}
        return published(learned)
    if callable(getattr(result, "to_dict", None)):
        try:
            return published(result.to_dict())
        except TypeError:
            return type(result).__name__
    return type(result).__name__


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        return one == two or (math.isnan(one) and math.isnan(two))
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == two.keys() and all(_same(one[key], two[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(_same(a, b) for a, b in zip(one, two, strict=True))
    return bool(one == two)
