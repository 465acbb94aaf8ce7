"""The parts of a model with their parameters and buffers: walked once, and again where one was exchanged."""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from operator import attrgetter, is_, methodcaller
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from inid.dpsgd.sharded_parameters import is_sharded
from inid.errors import GuaranteeError

_INNER = attrgetter("_modules", "_parameters", "_buffers")

_VALUES, _VERSION = methodcaller("values"), attrgetter("_version")

_TRAINS, _KIND = attrgetter("requires_grad"), attrgetter("dtype")

SINGLE = frozenset((bool, int, float, complex, str, bytes, type(None)))


class ModuleSnapshot:
    """What a model is made of, as it was walked."""

    def __init__(self, module: nn.Module, trained: Collection[nn.Parameter], *, sharded: bool = False) -> None:
        self._module, self._sharded = module, sharded
        self.parts = parts_of(module)
        # The dictionaries of all parts, what is in them, and the empty ones.
        self._inner = list(chain.from_iterable(map(_INNER, self.parts)))
        self._empty, self._filled = [each for each in self._inner if not each], [each for each in self._inner if each]
        self._lengths = list(map(len, self._filled))
        self._keys = list(chain.from_iterable(self._filled))
        self._entries = list(chain.from_iterable(map(_VALUES, self._filled)))
        self._tensors = tensors_of(self.parts, sharded=sharded)
        self._trained, known = trained, set(map(id, trained))
        parameters = [each for part in self.parts for each in part._parameters.values()]  # noqa: SLF001 - the quickest way
        self._others = [each for each in parameters if each is not None and id(each) not in known]

    def is_current(self) -> bool:
        """Whether the model has the same parts, parameters and buffers by the same names as when it was walked."""
        return (
            all(map(is_, chain.from_iterable(map(_INNER, self.parts)), self._inner))
            and not any(self._empty)
            and list(map(len, self._filled)) == self._lengths
            and list(chain.from_iterable(self._filled)) == self._keys
            and all(map(is_, chain.from_iterable(map(_VALUES, self._filled)), self._entries))
        )

    def now(self) -> "ModuleSnapshot":
        """Itself where it stands, or the model walked again."""
        return self if self.is_current() else ModuleSnapshot(self._module, self._trained, sharded=self._sharded)

    def versions(self, *, trained: bool = False) -> list[tuple[int, int]]:
        """Which tensors a forward should leave as they are, and how often each was written to; none has to be read.

        Those that are trained alone, if asked for.
        """
        # The version is the only way to see that a tensor was changed in place.
        tensors = list(self._trained) if trained else self._tensors
        return list(zip(map(id, tensors), map(_VERSION, tensors), strict=True))

    def check_parameters(self, names: Mapping[nn.Parameter, str], kind: torch.dtype) -> None:
        """Refuse parameters that were frozen, cast, unfrozen, added or put in another's place since `make_private`."""
        if any(map(_TRAINS, self._others)) and not is_sharded(next(iter(self._trained))):
            raise GuaranteeError(
                "a parameter of the private module was added, unfrozen, or put in another's place (functional_call) "
                "after make_private, so that its gradient would not be clipped: decide what is trained before, and "
                "call make_private again to train other parameters."
            )
        if all(map(_TRAINS, self._trained)) and set(map(_KIND, self._trained)) == {kind}:
            return
        for parameter in self._trained:
            if not parameter.requires_grad:
                raise GuaranteeError(
                    f"parameter {names[parameter]!r} was frozen after make_private: freeze what is not to be trained "
                    "before, and call make_private again to train other parameters."
                )
            if parameter.dtype != kind:
                raise GuaranteeError(
                    f"parameter {names[parameter]!r} is {parameter.dtype} and was {kind} in make_private, which "
                    "allowed for the rounding of that type: cast the module before."
                )


def parts_of(module: nn.Module) -> list[nn.Module]:
    """All parts of a model, each once: `modules()` in no particular order and in a tenth of the time."""
    parts, waiting = dict[int, nn.Module](), [module]
    while waiting:
        part = waiting.pop()
        if id(part) not in parts:
            parts[id(part)] = part
            waiting += [child for child in part._modules.values() if child is not None]  # noqa: SLF001 - children() is slow
    return list(parts.values())


def scalar_attributes(parts: list[nn.Module]) -> list[Any]:
    """The classes of a model's parts, with the numbers, texts and switches that these hold.

    >>> model = nn.Dropout(0.5)
    >>> before = scalar_attributes([model])
    >>> model.p = 0.1
    >>> scalar_attributes([model]) == before
    False
    """
    values = [value for part in parts for value in vars(part).values() if type(value) in SINGLE]
    return [*map(type, parts), *values]


def follows_weights(layer: nn.Module) -> bool:
    """Whether a forward may change a layer's buffers: those of spectral normalisation take a step with the weights."""
    return type(layer) is parametrizations._SpectralNorm  # noqa: SLF001 - it has no public name


def tensors_of(parts: Iterable[nn.Module], *, sharded: bool = False) -> list[Tensor]:
    """The buffers and parameters of a model's parts that a forward should leave as they are."""
    # Parameters that are sharded are put together anew for every forward, so that nothing written to them stays.
    return [
        tensor
        for layer in parts
        if not follows_weights(layer)
        for tensors in (layer._buffers, layer._parameters)  # noqa: SLF001 - the quickest way, in every forward
        for tensor in tensors.values()
        if tensor is not None and not (sharded and tensors is layer._parameters)  # noqa: SLF001 - as above
    ]
