"""What one chooses for a private run, as values: arguments of `make_private` that belong together."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar, get_args

from numpy.typing import ArrayLike

from inid import arguments
from inid.dpsgd.grad_sample.clipped_sums import ClippingKind
from inid.dpsgd.sampling.unit_index import UnitIndex
from inid.dpsgd.thresholds import Adaptive, stability_threshold, total_threshold
from inid.errors import ArgumentError

_STABILITY = 0.01  # as Bu et al. (2023) have it


class _Choice:
    """A value whose fields may be passed to `make_private` one by one instead."""

    @classmethod
    def read(cls, name: str, given: Any, flat: Mapping[str, Any]) -> Any:
        """The value that was passed, or else one made of the arguments that were passed one by one."""
        if given is None:
            return cls(**flat)
        if not isinstance(given, cls):
            raise ArgumentError(
                f"{name} must be a dpsgd.{cls.__name__}, got {type(given).__name__}: make one, or pass its fields "
                "one by one."
            )
        defaults = {each.name: each.default for each in fields(cls)}  # type: ignore[arg-type]
        twice = [key for key, own in flat.items() if type(own) is not type(defaults[key]) or own != defaults[key]]
        if twice:
            raise ArgumentError(f"{twice[0]} is a field of {name}=dpsgd.{cls.__name__}(...): pass it there alone.")
        return given


@dataclass(frozen=True, kw_only=True)
class Clipping(_Choice):
    """How the gradients of examples are clipped.

    Attributes:
        kind: "global" (one norm for all), "automatic" (every gradient divided by its norm), "per_layer" (by groups) or
            "elementwise" (each entry by itself).
        max_grad_norm: The norm of an example's whole gradient, shared among the groups; or one threshold per group.
        groups: Names of parameters or modules, one list per group; by default one group per module with parameters.
        thresholds: How groups share the norm: "flat", "sqrt_size", "adaptive" or an `Adaptive`.
        total: A threshold for the whole gradient, applied before the groups' own.
        stability: For automatic clipping the norm below which gradients are not lengthened further.

    >>> Clipping(kind="per_layer", max_grad_norm=2.0, thresholds="sqrt_size").kind
    'per_layer'
    """

    kind: ClippingKind = "global"
    max_grad_norm: float | Sequence[float] = 1.0
    groups: Sequence[Sequence[str]] | None = None
    thresholds: Literal["flat", "sqrt_size", "adaptive"] | Adaptive = "flat"
    total: float | None = None
    stability: float = _STABILITY

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
class Sampling(_Choice):
    """Which examples a step draws, and how they come as batches; `make_private` explains each field.

    Attributes:
        sample_rate: The probability with which an example is in a batch, instead of batch_size / len(dataset).
        neighbours: "zero_out" or "add_remove"; by default the ledger's relation, or "zero_out".
        max_physical_batch_size: How many rows the model sees at a time.
        augmentations: How many views of each drawn example a step sees.
        pad_batches: Whether physical batches have one public size.
        unit: Whose each example is, in the dataset's order: whole numbers or texts. The promise is then about a person
            with all their examples: people are drawn, `batch_size` and `sample_rate` count people, and the gradients of
            a person's examples are averaged and clipped once.
        examples_per_unit: How many rows a drawn person has, a public number: of more examples a secret random choice
            is taken each time, of fewer some come again.

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

    def __post_init__(self) -> None:
        if self.sample_rate is not None:
            cure = "pass a probability such as sample_rate=0.01"
            rate = arguments.real("sample_rate", self.sample_rate, above=0, cure=cure)
            if not rate <= 1:
                raise ArgumentError(f"sample_rate must be at most 1, got {rate!r}: {cure}.")
            object.__setattr__(self, "sample_rate", rate)
        if self.max_physical_batch_size is not None:
            cure = "pass how many rows fit into memory"
            rows = arguments.integer("max_physical_batch_size", self.max_physical_batch_size, least=1, cure=cure)
            object.__setattr__(self, "max_physical_batch_size", rows)
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
            rows = arguments.integer("examples_per_unit", self.examples_per_unit, least=1, cure=cure)
            object.__setattr__(self, "examples_per_unit", rows)
            if self.augmentations > 1:
                raise ArgumentError("augmentations do not go with unit: make views in the dataset, and leave them out.")

    def units(self, examples: int) -> UnitIndex | None:
        """The people of a dataset of so many examples; None where each example is one."""
        if self.unit is None or self.examples_per_unit is None:
            return None
        return UnitIndex.of(self.unit, self.examples_per_unit, examples)


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
    "adaptive": 'thresholds that adapt are another argument here: pass thresholds="adaptive"',
}


def check_kind(kind: object) -> None:
    """Refuse Opacus's words for kinds of clipping, with those of this library."""
    if isinstance(kind, str) and kind in _CLIPPING:
        raise ArgumentError(f'clipping="{kind}" is a word of Opacus; {_CLIPPING[kind]}.')


def explained(function: _Made) -> _Made:
    """Let a function by keywords refuse positional arguments, and those of Opacus, with the cure."""

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
        return function(**kwargs)

    return called  # type: ignore[return-value]
