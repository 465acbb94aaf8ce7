"""The parts of a model with their parameters and buffers: walked once, and again where one was exchanged."""

from collections.abc import Collection, Mapping
from itertools import chain
from operator import attrgetter, is_, methodcaller

import torch
from torch import nn

from inid.dpsgd.parallel.sharded_parameters import is_sharded
from inid.dpsgd.rows.wrapped_forward import parts_of, tensors_of
from inid.errors import GuaranteeError

__all__ = ["WalkedModel"]

_INNER = attrgetter("_modules", "_parameters", "_buffers")
_VALUES, _VERSION = methodcaller("values"), attrgetter("_version")
_TRAINS, _KIND = attrgetter("requires_grad"), attrgetter("dtype")


class WalkedModel:
    """What a model is made of, as it was walked.

    Args:
        module: The model.
        trained: Its parameters that are trained.
        sharded: Whether they are spread over processes.

    Attributes:
        parts: All its parts, each once.

    >>> model = nn.Sequential(nn.Linear(1, 1))
    >>> walked = WalkedModel(model, list(model.parameters()))
    >>> before = walked.versions()
    >>> with torch.no_grad():
    ...     _ = model[0].bias.add_(1.0)
    >>> walked.stands(), walked.versions() == before
    (True, False)
    >>> model[0].bias = None
    >>> walked.stands()
    False
    """

    def __init__(self, module: nn.Module, trained: Collection[nn.Parameter], *, sharded: bool = False) -> None:
        self._module, self._sharded = module, sharded
        self.parts = parts_of(module)
        # The dictionaries of all parts, what is in them, and the empty ones.
        self._inner = list(chain.from_iterable(map(_INNER, self.parts)))
        self._empty, self._filled = [each for each in self._inner if not each], [each for each in self._inner if each]
        self._lengths = list(map(len, self._filled))
        self._keys = list(chain.from_iterable(self._filled))
        self._held = list(chain.from_iterable(map(_VALUES, self._filled)))
        self._tensors = tensors_of(self.parts, sharded=sharded)
        self._trained, known = trained, set(map(id, trained))
        parameters = [each for part in self.parts for each in part._parameters.values()]  # noqa: SLF001 - the quickest way
        self._others = [each for each in parameters if each is not None and id(each) not in known]

    def stands(self) -> bool:
        """Whether the model has the same parts, parameters and buffers by the same names as when it was walked."""
        return (
            all(map(is_, chain.from_iterable(map(_INNER, self.parts)), self._inner))
            and not any(self._empty)
            and list(map(len, self._filled)) == self._lengths
            and list(chain.from_iterable(self._filled)) == self._keys
            and all(map(is_, chain.from_iterable(map(_VALUES, self._filled)), self._held))
        )

    def now(self) -> "WalkedModel":
        """Itself where it stands, or the model walked again."""
        return self if self.stands() else WalkedModel(self._module, self._trained, sharded=self._sharded)

    def versions(self) -> list[tuple[int, int]]:
        """Which tensors a forward should leave as they are, and how often each was written to; none has to be read."""
        # The version is the only way to see that a tensor was changed in place.
        return list(zip(map(id, self._tensors), map(_VERSION, self._tensors), strict=True))

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
