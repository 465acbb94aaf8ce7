"""NoisePlan: how much noise each coordinate gets, what it is worth, and the proof that it keeps the promise."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, get_args, overload

import numpy as np
from numpy.typing import ArrayLike

from inid import arguments
from inid._version import RECORD_FORMAT
from inid.arguments import Floats, choice, shown
from inid.curves import Loss, each_level
from inid.errors import ArgumentError, RangeError, RecordError, unread_format
from inid.mechanisms import GAUSSIAN, Mechanism, MechanismName, log2_least_error
from inid.noise import grid as public_grid
from inid.numbers.sums import log2, log2_sum
from inid.planning import curve
from inid.planning.certificate import Certificate, certify
from inid.planning.laplace_bounds import most_epsilon
from inid.promises import ApproxDP, Budget, GaussianDP, PureDP, budget_from_dict
from inid.sets import Allocation, Cells, Sensitivity, read_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from inid.planning.comparison import Comparison


_ROWS = 20


def aligned(table: list[list[str]], left: int) -> list[str]:
    """Rows of cells as lines, the first `left` columns flush left and the others flush right."""
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [c.ljust(w) if i < left else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
        lines.append("  ".join(cells).rstrip())
    return lines


def counted(number: int, noun: str) -> str:
    """So many of something."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _error(plan: "NoisePlan") -> str:
    inside = plan.log2_error == -math.inf or -1022 < plan.log2_error < 1024
    return f"{plan.error:.6g}" if inside else f"2^{plan.log2_error:.3f}"


def plan_table(plan: "NoisePlan") -> str:
    """The plan in a few lines: what it promises, what it costs, and the scales of the first runs."""
    sensitivity = plan.sensitivity
    name = "sigma" if plan.mechanism == "gaussian" else "beta"
    measure = (
        "total variance" if plan.order == 2 and plan.weights is None else f"expected error of order {plan.order:g}"
    )
    head = [
        f"{plan.mechanism.capitalize()} noise, {plan.allocation} allocation, {plan.dimension} coordinates",
        f"promise: {plan.budget}, neighbours: {sensitivity.neighbours}",
        f"{measure}: {_error(plan)}",
    ]
    lines = [["coordinate", "count", "sensitivity", f"scale {name}", "share"]]
    counts, index = plan.cells
    for i in range(min(_ROWS, plan.run_scales.size)):
        run = i if index is None else int(index[i])
        label = sensitivity.labels[run] if sensitivity.labels else str(i)
        count = 1 if counts is None else int(counts[i])
        numbers = sensitivity.reach[run], plan.run_scales[i]
        lines.append([label, str(count), *(f"{x:.6g}" for x in numbers), f"{plan.run_shares[i] * count:.4f}"])
    if all(row[1] == "1" for row in lines[1:]):
        lines = [[row[0], *row[2:]] for row in lines]
    body = aligned(lines, left=1)
    if plan.run_scales.size > _ROWS:
        body.append(f"... and {plan.run_scales.size - _ROWS} more rows")
    return "\n".join([*head, "", *body])


_RECORD = ("inid", "sensitivity", "budget", "mechanism", "allocation", "order", "weights", "scales")
_ALLOCATIONS = (*get_args(Allocation), "tolerance")


@dataclass(frozen=True)
class Block:
    """Numbers whose noise is drawn together.

    Attributes:
        numbers: The places of its coordinates in the plan; of partitions, of its entries in the set.
        epsilon: What it spends, to the nearest float.
        share: Its part of what all blocks spend.
        offset: By what part of a step its boxes are widened.
        cells: In how many cells it is drawn, each time anew.
        moves: How many steps, perhaps in as many cells, one person can cross: each costs epsilon / moves.
    """

    numbers: tuple[int, ...]
    epsilon: float
    share: float
    offset: float
    cells: int = 1
    moves: int = 1


@dataclass(frozen=True, eq=False)
class NoisePlan:
    """How much independent noise each coordinate gets, and the proof that it keeps the promise.

    Made by `plan()`. Scales are held in run-length form, one per run of the sensitivity (or one per coordinate where
    weights differ within a run); `scales` and `shares` expand them on access.

    `budget` is the promise that is proved, recorded and charged. `stated` is the one that was asked for: the same, or
    a weaker one, which baselines keep. A record does not hold it.
    """

    sensitivity: Sensitivity
    budget: Budget
    mechanism: MechanismName
    allocation: Literal["optimal", "iid", "spr", "tolerance"]
    order: float
    weights: Floats | None
    run_scales: Floats
    stated: Budget = None  # type: ignore[assignment]  # `budget` where it is left out

    def __post_init__(self) -> None:
        if self.stated is None:
            object.__setattr__(self, "stated", self.budget)  # type: ignore[unreachable]
        # The certificate is computed once, so what it proves must not change afterwards.
        object.__setattr__(self, "run_scales", arguments.frozen(self.run_scales))
        if self.weights is not None:
            object.__setattr__(self, "weights", arguments.frozen(self.weights))

    def __reduce__(self) -> tuple[object, ...]:
        # Without what was cached: an unpickled array is writable, and a stored proof would be somebody's word.
        return type(self), tuple(getattr(self, field.name) for field in fields(self))

    @cached_property
    def law(self) -> Mechanism:
        """The mechanism as a value.

        :meta private:
        """
        return Mechanism.named(self.mechanism)

    @cached_property
    def spent(self) -> Fraction:
        """What the scales spend, exactly or rounded up: mu squared of Gaussian noise, epsilon of Laplace noise.

        :meta private:
        """
        return self.sensitivity.supremum(self.law.exponent, self.run_scales, self.cells)

    @cached_property
    def cells(self) -> Cells:
        """How many coordinates each entry of `run_scales` stands for, and the run of the sensitivity it belongs to.

        :meta private:
        """
        return self.sensitivity.cells(self.run_scales.size)

    @property
    def dimension(self) -> int:
        """K, the number of coordinates."""
        return self.sensitivity.dimension

    @property
    def scales(self) -> Floats:
        """The scale of each coordinate (sigma_i, or beta_i), an array of length K."""
        return self._expanded(self.run_scales)

    @property
    def std(self) -> Floats:
        """The standard deviation of each coordinate's noise, an array of length K, whatever the mechanism.

        >>> import inid
        >>> inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=0.5)).std.round(3)
        array([2.814])
        """
        return self._expanded(self.run_scales * math.sqrt(self.law.variance))

    @property
    def mean_sizes(self) -> Floats:
        """E|T| of each coordinate's noise.

        :meta private:
        """
        return self._expanded(self.run_scales * 2.0 ** self.law.log2_moment(1))

    @property
    def deviation(self) -> float:
        """The standard deviation of noise of scale 1.

        :meta private:
        """
        return self.law.deviation

    @property
    def grids(self) -> Floats:
        """The public grid step of each coordinate, an array of length K; 0 where there is no noise.

        :meta private:
        """
        return np.asarray(public_grid(self.scales))

    @property
    def shares(self) -> Floats:
        """The part of the privacy resource each coordinate takes: (lambda_i/sigma_i)^2/mu^2, or (lambda_i/beta_i)/eps.

        For Laplace noise under other promises than PureDP, the part of the sum of lambda_i/beta_i.
        Lambda is the effective profile; for sets other than a box a share is not what the coordinate alone leaks.
        """
        return self._expanded(self.run_shares)

    @property
    def shares_paid(self) -> Floats:
        """The same; of noise that is drawn jointly, for each coordinate the share of its block.

        :meta private:
        """
        return self.shares

    @cached_property
    def run_shares(self) -> Floats:
        """`shares` in run-length form.

        :meta private:
        """
        profile = self.sensitivity.log_profile(self.law.exponent, self._log_weights, self.order, self.cells)
        with np.errstate(invalid="ignore"):
            logs = self.law.exponent * (profile - log2(self.run_scales))
        logs[np.isneginf(profile)] = -math.inf
        if self._follows_rules:
            limit = self.budget.gaussian_mu if self.law is GAUSSIAN else self.budget.laplace_epsilon
            log_limit = self.law.exponent * math.log2(limit)
        else:
            log_limit = log2_sum(logs, self.cells.counts)
        shares = np.exp2(logs - log_limit) if log_limit > -math.inf else np.zeros(logs.size)
        shares.flags.writeable = False
        return shares

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of staircase noise: numbers, epsilon, share and offset of each; none of independent noise.

        >>> import inid
        >>> s = inid.Sensitivity.box([1.0, 3.0, 40.0])
        >>> p = inid.plan(s, inid.PureDP(epsilon=1.0), mechanism="staircase")
        >>> [(block.numbers, round(block.share, 2)) for block in p.blocks]
        [((2,), 0.81), ((0, 1), 0.19)]
        """
        return ()

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Draws of the noise from a public generator, a line each: for intervals of what was released, never for noise.

        :meta private:
        """
        draw = rng.normal if self.mechanism == "gaussian" else rng.laplace
        return np.asarray(draw(size=(count, self.dimension)) * self.scales)

    @property
    def runs(self) -> list[tuple[float, int]]:
        """The scales in run-length form: (scale, how many coordinates in a row have it).

        >>> import inid
        >>> s = inid.Sensitivity.groups(sizes=[3, 2], l2=[1.0, 1.0])
        >>> [(round(scale, 3), count) for scale, count in inid.plan(s, inid.GaussianDP(mu=1.0)).runs]
        [(1.348, 3), (1.492, 2)]
        """
        counts = [1] * self.run_scales.size if self.cells.counts is None else self.cells.counts.tolist()
        return list(zip(self.run_scales.tolist(), counts, strict=True))

    @property
    def error(self) -> float:
        """The expected error, sum of alpha_i^p E|T_i|^p.

        Raises:
            RangeError: The error is not a normal float, although the scales are.
        """
        return from_log2("error", self.log2_error)

    @cached_property
    def log2_error(self) -> float:
        """log2 of the expected error: finite even where the error itself exceeds the floats; -inf without noise."""
        return self.law.log2_error(log2(self.run_scales), self._log_weights, self.order, self.cells.counts)

    @property
    def mse(self) -> float:
        """The sum of the noise variances, the paper's MSE (whatever the weights and the order of the plan)."""
        return from_log2("mse", self.law.log2_error(log2(self.run_scales), 0.0, 2.0, self.cells.counts))

    @cached_property
    def suboptimality(self) -> float | None:
        """The plan's error is at most this factor above the least that independent noise of its kind can have.

        1.0 where the plan is proved to be optimal for its promise: an optimal plan with Gaussian noise, with Laplace
        noise under PureDP, and with Laplace noise under ApproxDP and GaussianDP where differences move one coordinate
        at a time, on every set whose optimum is known in closed form (every set but boxes and l1 groups with caps under
        Gaussian noise, and boxes with both caps). Otherwise the factor comes from a lower bound: weak duality for the
        set, and `inid.planning.laplace_bounds` for Laplace noise under other promises; there it may be far above the
        truth. None where no lower bound is known.
        """
        if not self.sensitivity.corner_size:
            return 1.0
        # Where every extreme difference is a single ratio, these promises bound it exactly by its size.
        single = self.sensitivity.corner_size == 1 and isinstance(self.budget, (ApproxDP, GaussianDP))
        exact = self._follows_rules or single
        if self.allocation == "optimal" and exact and self.sensitivity.is_solved(self.law.exponent):
            return 1.0
        profile = self.sensitivity.log_profile(self.law.exponent, self._log_weights, self.order, self.cells)
        least = log2_least_error(self.law, self.law.exponent, profile, self._log_weights, self.order, self.cells.counts)
        gaussian = self.law is GAUSSIAN
        limit = self.budget.gaussian_mu if gaussian else most_epsilon(self.budget, self.sensitivity.corner_size)
        if math.isinf(limit):
            return None
        return float(max(1.0, 2.0 ** (self.log2_error - least + self.order * math.log2(limit))))

    @cached_property
    def certificate(self) -> Certificate:
        """The proof that the plan keeps its promise, computed once.

        Raises:
            GuaranteeError: The plan does not keep it.
        """
        return self.verify()

    def verify(self) -> Certificate:
        """Re-derive the guarantee from the plan's own floats, in integer arithmetic.

        Returns:
            A certificate that says what was checked, how, against which set and which decimal budget.

        Raises:
            GuaranteeError: The scales break the promise, by however little.
        """
        return certify(self.sensitivity, self.budget, self.law, self.run_scales, self.cells)

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: ArrayLike) -> float | Floats: ...

    def delta(self, epsilon: ArrayLike) -> float | Floats:
        """The least delta that is certified at an epsilon: the plan's privacy curve, an upper bound.

        An array of epsilons gives an array.

        >>> import inid
        >>> p = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.GaussianDP(mu=1.0), mechanism="gaussian")
        >>> round(p.delta(epsilon=1.0), 6)
        0.126937
        >>> p.delta(epsilon=[1.0, 3.0]).round(6)
        array([0.126937, 0.001537])
        """
        return each_level(epsilon, _read_epsilon, lambda level: self._delta(level, lower=False)[1])

    @overload
    def epsilon(self, delta: float) -> float: ...
    @overload
    def epsilon(self, delta: ArrayLike) -> float | Floats: ...

    def epsilon(self, delta: ArrayLike) -> float | Floats:
        """The least epsilon that is certified at a delta: the plan's privacy curve, an upper bound.

        An array of deltas gives an array.

        >>> import inid
        >>> p = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.GaussianDP(mu=1.0), mechanism="gaussian")
        >>> round(p.epsilon(delta=1e-6), 6)
        4.886554
        """
        return each_level(delta, _read_delta, lambda level: self._epsilon(level, lower=False)[1])

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) around delta(epsilon): the upper is a guarantee, both enclose the curve of the bounding pair.

        For boxes, l1 balls and l1 groups (and for Gaussian noise wherever the supremum is exact) that pair is attained,
        so the truth lies between them. For other sets Laplace noise may be more private than either says.
        """
        return self._delta(_read_epsilon(epsilon), lower=True)

    def epsilon_bounds(self, delta: float) -> tuple[float, float]:
        """(lower, upper) around epsilon(delta), in the sense of `delta_bounds`."""
        return self._epsilon(_read_delta(delta), lower=True)

    def _delta(self, epsilon: float, *, lower: bool) -> tuple[float, float]:
        return curve.delta_of(self.sensitivity, self.law, self.run_scales, self.cells, epsilon, lower=lower)

    def _epsilon(self, delta: float, *, lower: bool) -> tuple[float, float]:
        return curve.epsilon_of_delta(self.sensitivity, self.law, self.run_scales, self.cells, delta, lower=lower)

    def privacy_loss(self) -> Loss:
        """The pair of distributions that bounds what one release reveals: composition and subsampling start from it."""
        return curve.privacy_loss(self.sensitivity, self.law, self.run_scales, self.cells)

    def compare(self) -> "Comparison":
        """This plan beside the baselines (i.i.d. noise, equal split) and the other mechanisms.

        >>> import inid
        >>> print(inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.5)).compare())
        mechanism  allocation  error     dB  ratio
        laplace    optimal     233.8  23.69  1.462
        laplace    iid           256  24.08  1.602
        laplace    spr           320  25.05  2.002
        staircase  optimal     159.8  22.04  1.000  *
        staircase  iid         287.7  24.59  1.800
        staircase  spr         319.2  25.04  1.997
        """
        from inid.planning.comparison import compare

        return compare(self)

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the expected error of each coordinate, beside an equal split and i.i.d. noise.

        Args:
            ax: Axes of matplotlib to draw on; those of a new figure by default.

        Raises:
            MissingExtraError: matplotlib is not installed.

        >>> import inid
        >>> p = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.5))
        >>> p.plot().get_xlabel()
        'expected error (standard deviation)'
        """
        from inid.planning.comparison import plot_plan

        return plot_plan(self, ax)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary, versioned; `from_dict` makes the same plan of it, bit for bit.

        >>> import inid, json
        >>> p = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.5))
        >>> q = inid.NoisePlan.from_dict(json.loads(json.dumps(p.to_dict())))
        >>> q == p
        True
        """
        return {
            "inid": RECORD_FORMAT,
            "sensitivity": self.sensitivity.to_dict(),
            "budget": self.budget.to_dict(),
            "mechanism": self.mechanism,
            "allocation": self.allocation,
            "order": self.order,
            "weights": None if self.weights is None else self.weights.tolist(),
            "scales": self.run_scales.tolist(),
        }

    @classmethod
    def from_dict(cls, record: object) -> Self:
        """The plan that `to_dict` described. Nothing in it is trusted: `verify()` checks what the scales promise.

        Raises:
            RecordError: The record does not parse or is of an unknown version.
        """
        if not isinstance(record, Mapping):
            raise RecordError(f"a plan's record must be a dictionary, got {shown(record)}.")
        if record.get("inid") != RECORD_FORMAT:
            raise unread_format("the plan's record", record.get("inid"))
        joint = record.get("mechanism") == "staircase"
        names = (set(_RECORD) - {"scales"}) | {"grid", "blocks"} if joint else set(_RECORD)
        if set(record) != names:
            raise RecordError(f"a plan's record must hold exactly {', '.join(sorted(names))}.")
        sensitivity = Sensitivity.from_dict(record["sensitivity"])
        try:
            weights = sensitivity.read_weights(record["weights"])
            allocation = choice("allocation", record["allocation"], _ALLOCATIONS)
            order = read_order(record["order"])
            if joint:
                from inid.planning.staircase_plan import plan_from_record

                return plan_from_record(record, sensitivity, allocation, order, weights)  # type: ignore[return-value]
            count = sensitivity.limits.size if weights is None else weights.size
            scales = arguments.array("scales", record["scales"], length=count, cure="store plans as they are written")
            mechanism = choice("mechanism", record["mechanism"], get_args(MechanismName))
        except ArgumentError as error:
            raise RecordError(f"the plan's record does not parse: {error}") from None
        budget = budget_from_dict(record["budget"])
        return cls(sensitivity, budget, mechanism, allocation, order, weights, scales)  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoisePlan):
            return NotImplemented
        names = ("sensitivity", "budget", "mechanism", "allocation", "order")
        if any(getattr(self, name) != getattr(other, name) for name in names):
            return False
        arrays = ((self.weights, other.weights), (self.run_scales, other.run_scales))
        return all(np.array_equal(mine, its) for mine, its in arrays)  # type: ignore[arg-type]

    def __hash__(self) -> int:
        return hash((self.sensitivity, self.budget, self.mechanism, self.allocation, self.order))

    def __repr__(self) -> str:
        return f"<NoisePlan: {self.mechanism} noise, {self.allocation}, {self.dimension} coordinates, {self.budget}>"

    def __str__(self) -> str:
        return plan_table(self)

    @property
    def _follows_rules(self) -> bool:
        """Whether the promise is exactly a limit on what the noise spends: then shares are parts of that limit."""
        return self.law is GAUSSIAN or isinstance(self.budget, PureDP)

    @property
    def _log_weights(self) -> Floats | float:
        return 0.0 if self.weights is None else log2(self.weights)

    def _expanded(self, values: Floats) -> Floats:
        return values if self.cells.counts is None else np.repeat(values, self.cells.counts)


def from_log2(name: str, value: float) -> float:
    """A number from its logarithm; one beyond the normal floats is refused."""
    if value == -math.inf:
        return 0.0
    if not -1022 <= value < 1024:
        raise RangeError(f"the plan's {name} is 2^{value:.1f}, beyond the normal floats: rescale the query's units.")
    return float(2.0**value)


def _read_epsilon(value: object) -> float:
    return arguments.real("epsilon", value, least=0, cure="pass the epsilon at which to read the curve")


def _read_delta(value: object) -> float:
    return ApproxDP(0.0, value).delta  # type: ignore[arg-type]  # reads it
