"""What one chooses for a private run, as values: how gradients are clipped, examples drawn and noise made."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar, get_args

from numpy.typing import ArrayLike
from torch import Tensor

from inid import arguments
from inid.accounting.training_runs import Mechanism
from inid.dpsgd.accountant import Accountant
from inid.dpsgd.grad_sample.clipped_sums import ClippingKind
from inid.dpsgd.noise.step_noise import Allocation, Source
from inid.dpsgd.sampling.poisson_loader import UnitIndex
from inid.dpsgd.thresholds import Adaptive, stability_threshold, total_threshold
from inid.errors import ArgumentError

_STABILITY = 0.01  # as Bu et al. (2023) have it


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """How the gradients of examples are clipped and added.

    Attributes:
        kind: "global" (one norm for all), "automatic" (every gradient is divided by its norm, so that there is no
            threshold to tune), "per_layer" (by groups) or "elementwise" (the paper's: each entry by itself).
        max_grad_norm: The norm of an example's whole gradient, shared among the groups; or one threshold per group.
        groups: Names of parameters or modules, one list per group; by default one group per module with parameters.
        thresholds: "flat" (C/sqrt(L) each for L groups; C/L in l1), "sqrt_size" (by the root of a group's size), or
            "adaptive" (they follow private quantiles; see `Adaptive`).
        total: A threshold for the whole gradient, applied before the groups' own: the noise then never exceeds that of
            global clipping, and groups that rarely reach their share of the whole get less.
        stability: For automatic clipping the norm below which gradients are not lengthened further.
        loss_reduction: How `private.loss` adds up the losses of rows, and with them the clipped gradients: "mean"
            divides by the expected size of a batch, "sum" does not.

    >>> Clipping(kind="per_layer", max_grad_norm=2.0, thresholds="sqrt_size").kind
    'per_layer'
    """

    kind: ClippingKind = "global"
    max_grad_norm: float | Sequence[float] = 1.0
    groups: Sequence[Sequence[str]] | None = None
    thresholds: Literal["flat", "sqrt_size", "adaptive"] | Adaptive = "flat"
    total: float | None = None
    stability: float = _STABILITY
    loss_reduction: Literal["mean", "sum"] = "mean"

    @classmethod
    def of(cls, clipping: "ClippingKind | Clipping", max_grad_norm: float | Sequence[float]) -> "Clipping":
        """The clipping that the arguments of `make_private` state together."""
        if not isinstance(clipping, Clipping):
            return cls(kind=clipping, max_grad_norm=max_grad_norm)
        if max_grad_norm != cls.max_grad_norm:
            raise ArgumentError("max_grad_norm is a field of clipping=dpsgd.Clipping(...): pass it there alone.")
        return clipping

    def __post_init__(self) -> None:
        check_kind(self.kind)
        arguments.choice("clipping", self.kind, get_args(ClippingKind))
        if not isinstance(self.thresholds, Adaptive):
            arguments.choice("thresholds", self.thresholds, ("flat", "sqrt_size", "adaptive"))
        if self.adaptive is not None and self.kind == "elementwise":
            raise ArgumentError(
                "thresholds must be fixed for element-wise clipping, which has no norms to follow: use per_layer "
                "clipping."
            )
        if self.total is not None:
            if self.kind != "per_layer":
                raise ArgumentError(f"total goes with per_layer clipping, got {self.kind}: leave it out.")
            object.__setattr__(self, "total", total_threshold(self.total))
        if self.groups is not None and self.together:
            raise ArgumentError(f"groups go with per_layer or elementwise clipping, got {self.kind}: leave them out.")
        if self.adaptive is not None and self.kind == "automatic":
            raise ArgumentError(
                "thresholds do not adapt under automatic clipping, where every gradient is as long as its threshold: "
                "leave thresholds out."
            )
        object.__setattr__(self, "stability", stability_threshold(self.stability))
        if self.stability != _STABILITY and self.kind != "automatic":
            raise ArgumentError(f"stability goes with automatic clipping, got {self.kind}: leave it out.")
        arguments.choice("loss_reduction", self.loss_reduction, ("mean", "sum"))

    @property
    def together(self) -> bool:
        """Whether all parameters share one norm."""
        return self.kind in {"global", "automatic"}

    @property
    def adaptive(self) -> Adaptive | None:
        """How thresholds adapt; None where they are fixed."""
        if isinstance(self.thresholds, Adaptive):
            return self.thresholds
        return Adaptive() if self.thresholds == "adaptive" else None

    @property
    def shared_by(self) -> str:
        """How the norm is shared among the groups at the start."""
        return self.thresholds if isinstance(self.thresholds, str) else "flat"


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Which examples a step draws, and how they come as batches.

    Attributes:
        sample_rate: The probability with which an example is in a batch, as a public number, instead of
            batch_size / len(dataset). Sums are divided by batch_size all the same.
        neighbours: "zero_out" (an example becomes nothing; the number of examples is public) or "add_remove" (it is
            secret, up to a tenth above batch_size / sample_rate), which needs `sample_rate` and `steps`. By default the
            ledger's relation, or "zero_out".
        max_physical_batch_size: How many rows the model sees at a time; fewer, where a step takes several physical
            batches and smaller ones do. They hold draws up to one standard deviation above the mean (a larger draw is
            made again), and the rest is padding. By default one holds all.
        augmentations: How many views of each drawn example a step sees, one row after another: the dataset is asked
            that many times for it, and a loop that changes rows at random makes them differ too. Their gradients are
            averaged and clipped once, so that an example counts as it does alone.
        pad_batches: False lets the size of physical batches follow the draw. Only summed losses may be used then, and
            since kernels round by size, one example can move another's gradient: see docs/dpsgd/checks.md.
        unit: Whose each example is, in the dataset's order: whole numbers or texts. The promise is then about a person
            with all their examples: people are drawn, `batch_size` and `sample_rate` count people, and the gradients of
            a person's examples are averaged and clipped once.
        examples_per_unit: How many rows a drawn person has, a public number: of more examples a secret random choice
            is taken each time, of fewer some come again.
        example: Three made-up or public examples, as the model is called with, to see that it keeps examples apart;
            random ones by default.

    >>> Sampling(max_physical_batch_size=64).augmentations
    1
    """

    sample_rate: float | None = None
    neighbours: Literal["zero_out", "add_remove"] | None = None
    max_physical_batch_size: int | None = None
    augmentations: int = 1
    pad_batches: bool = True
    unit: ArrayLike | None = field(default=None, compare=False, repr=False)
    examples_per_unit: int | None = None
    example: Tensor | tuple[Any, ...] | Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.sample_rate is not None:
            cure = "pass a probability such as sample_rate=0.01"
            rate = arguments.real("sample_rate", self.sample_rate, above=0, cure=cure)
            if not rate <= 1:
                raise ArgumentError(f"sample_rate must be at most 1, got {rate!r}: {cure}.")
            object.__setattr__(self, "sample_rate", rate)
        if self.max_physical_batch_size is not None:
            cure = "pass how many rows fit into memory"
            size = arguments.integer("max_physical_batch_size", self.max_physical_batch_size, least=1, cure=cure)
            object.__setattr__(self, "max_physical_batch_size", size)
        views = arguments.integer(
            "augmentations", self.augmentations, least=1, cure="pass how many views of each example to average"
        )
        object.__setattr__(self, "augmentations", views)
        if (self.unit is None) != (self.examples_per_unit is None):
            raise ArgumentError(
                "unit and examples_per_unit go together: pass whose each example is, and how many rows a person has in "
                "a step."
            )
        if self.examples_per_unit is not None:
            cure = "pass how many rows a person has in a step"
            size = arguments.integer("examples_per_unit", self.examples_per_unit, least=1, cure=cure)
            object.__setattr__(self, "examples_per_unit", size)
            if self.augmentations > 1:
                raise ArgumentError("augmentations do not go with unit: make views in the dataset, and leave them out.")

    def units(self, examples: int) -> UnitIndex | None:
        """The people of a dataset of so many examples; None where each example is one."""
        if self.unit is None or self.examples_per_unit is None:
            return None
        return UnitIndex.of(self.unit, self.examples_per_unit, examples)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """What noise a step adds, and where its cost is counted.

    Attributes:
        source: "torch" (fast generators with keys from the operating system, floating point) or "exact" (exact sums and
            noise of the exact law, as in `inid.release`; slower).
        mechanism: "gaussian" clips in the l2 norm, "laplace" in the l1 norm.
        allocation: "optimal", or the baselines "spr" and "iid".
        accountant: One that has counted before, to go on counting in another stage of training; what it has counted
            is part of `target_epsilon`.
        label: The ledger's note.

    >>> Noise(mechanism="laplace", source="exact").allocation
    'optimal'
    """

    source: Source = "torch"
    mechanism: Mechanism = "gaussian"
    allocation: Allocation = "optimal"
    accountant: Accountant | None = field(default=None, compare=False)
    label: str = "private training"

    def __post_init__(self) -> None:
        arguments.choice("noise", self.source, get_args(Source))
        arguments.choice("mechanism", self.mechanism, get_args(Mechanism))
        arguments.choice("allocation", self.allocation, get_args(Allocation))
        counted: object = self.accountant
        if counted is not None and not isinstance(counted, Accountant):
            raise ArgumentError(
                f"accountant must be an Accountant, got {type(counted).__name__}: pass one, or nothing."
            )


_FIELDS = {
    each.name: (argument, kind.__name__)
    for argument, kind in (("clipping", Clipping), ("sampling", Sampling), ("noise", Noise))
    for each in fields(kind)
}
_Made = TypeVar("_Made", bound=Callable[..., Any])

_INSTEAD = {
    "poisson_sampling": "batches are always Poisson samples, which the accounting needs: leave it out",
    "grad_sample_mode": "there is no mode to choose, long layers are never written down: leave it out",
    "criterion": "the loss stays in your loop: call private.backward(criterion, outputs, targets) there",
    "batch_first": "examples come first in every layer: make recurrent layers with batch_first=True, and leave it out",
    "noise_generator": "noise comes from the operating system's randomness: leave it out",
    "secure_mode": 'exact sums and noise are another argument here: pass noise="exact"',
    "total_steps": "the length of a run is another argument here: pass steps=",
    "wrap_model": "the model stays the same object, with a wrapped forward: leave it out",
    "normalize_clipping": 'gradients are normalised by another kind of clipping here: pass clipping="automatic"',
}

_CLIPPING = {
    "flat": 'one norm for all parameters is called global here: pass clipping="global"',
    "adaptive": 'thresholds that adapt are another field here: pass dpsgd.Clipping(thresholds="adaptive")',
}


def check_kind(kind: object) -> None:
    """Refuse Opacus's words for kinds of clipping, with those of this library."""
    if isinstance(kind, str) and kind in _CLIPPING:
        raise ArgumentError(f'clipping="{kind}" is a word of Opacus; {_CLIPPING[kind]}.')


def explained(function: _Made) -> _Made:
    """Let a function by keywords refuse positional arguments, those of Opacus and fields of values, with the cure."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise ArgumentError(
                f"{function.__name__} takes its arguments by name, got {len(args)} without: pass module=, optimizer= "
                "and data_loader=."
            )
        for name in kwargs:
            if name in _INSTEAD:
                raise ArgumentError(f"{name} is an argument of Opacus; here {_INSTEAD[name]}.")
            if name in _FIELDS and name not in known:
                argument, kind = _FIELDS[name]
                raise ArgumentError(f"{name} is a field of dpsgd.{kind}: pass {argument}=dpsgd.{kind}({name}=...).")
        return function(**kwargs)

    return called  # type: ignore[return-value]
