"""Whether a forward left the model's buffers and parameters as they were.

What a forward writes into them carries facts about examples past the noise. In every forward the tensors, their
versions and their places in memory are compared, which costs nothing on a GPU. A write through `.data` or NumPy changes
none of these. To see it the values must be read, for which a GPU has to be waited for; that is done in the first
forwards, since running statistics and the like are written in all of them, and then now and then.
"""

from typing import TypeGuard

import torch
from torch import Tensor, nn

__all__ = ["Watch"]

# Values are compared in the first forwards, and then in one of so many: a prime, so that what a model does every tenth
# or hundredth time is met sooner or later.
_FIRST, _EVERY = 8, 31

_CHUNK = 2**20  # entries that are weighed at a time: a fingerprint needs little memory however large a tensor is
_KINDS = frozenset({Tensor, nn.Parameter})
_MIX = -7046029254386353131, -4658895280553007687  # odd, with bits all over, as in the generator SplitMix64


class Watch:
    """Compares the state of a model before and after its forward."""

    def __init__(self, module: nn.Module) -> None:
        # The buffers of spectral normalisation follow the weights alone.
        self._keepers = [layer for layer in module.modules() if type(layer).__name__ != "_SpectralNorm"]
        self._before: list[tuple[Tensor, int, Tensor | None]] = []
        self._values: list[Tensor] | None = None
        self._weights: dict[torch.device, Tensor] = {}
        self._forwards = 0

    def tensors(self) -> list[Tensor]:
        """The buffers and parameters that are watched."""
        found: list[Tensor] = []
        for layer in self._keepers:
            found += filter(_present, layer._buffers.values())  # noqa: SLF001 - the quickest way, in every forward
            found += filter(_present, layer._parameters.values())  # noqa: SLF001 - the same
        return found

    def begin(self) -> None:
        """Take note of the state before a forward."""
        self._forwards += 1
        watched = self.tensors()
        # The second name for the memory holds it: its address cannot come back as that of other memory.
        self._before = [
            (each, each._version, each.data if _plain(each) else None)  # noqa: SLF001 - see `per_example_gradients`
            for each in watched
        ]
        looked_at = self._forwards <= _FIRST or self._forwards % _EVERY == 0
        self._values = self._fingerprints(watched) if looked_at else None

    def unchanged(self) -> bool:
        """Whether the state is what it was, as far as it was looked at."""
        watched, before, values = self.tensors(), self._before, self._values
        self._before, self._values = [], None
        return (
            len(watched) == len(before)
            and all(
                new is old and new._version == version and (held is None or self._same_place(new, held))  # noqa: SLF001 - see `per_example_gradients`
                for new, (old, version, held) in zip(watched, before, strict=True)
            )
            and (values is None or all(map(torch.equal, values, self._fingerprints(watched))))
        )

    def _same_place(self, new: Tensor, held: Tensor) -> bool:
        if new.shape != held.shape or new.device != held.device:
            return False
        # Recurrent layers move their weights together on a GPU (`flatten_parameters`), which changes no value.
        return new.data_ptr() == held.data_ptr() or torch.equal(self._fingerprint(new), self._fingerprint(held))

    @torch.no_grad()
    def _fingerprints(self, watched: list[Tensor]) -> list[Tensor]:
        """A number for every tensor, gathered by device, so that each device is waited for once."""
        found: dict[torch.device, list[Tensor]] = {}
        for tensor in filter(_plain, watched):
            found.setdefault(tensor.device, []).append(self._fingerprint(tensor))
        return [torch.stack(numbers) for numbers in found.values()]

    def _fingerprint(self, tensor: Tensor) -> Tensor:
        """The sum of the bits of all entries times weights by position, modulo 2^64.

        Were the weights drawn at random, two different contents would have the same number with a probability of 2^-33
        at most, as no difference of 32 bits is divisible by 2^32. They are fixed, against mistakes and not against
        malice: code that wants to keep examples can put them elsewhere anyway.
        """
        # Bits, not values: what is not a number must equal itself. Torch may owe a conjugation or a sign.
        whole = tensor.detach().resolve_conj().resolve_neg().reshape(-1)
        kind = {1: torch.uint8, 2: torch.int16}.get(tensor.element_size(), torch.int32)
        total = torch.zeros((), dtype=torch.int64, device=tensor.device)
        for part in torch.split(whole.view(kind), _CHUNK):
            total = total * _MIX[0] + (part * self._weights_for(part)).sum()
        return total

    def _weights_for(self, part: Tensor) -> Tensor:
        made = self._weights.get(part.device)
        if made is None or len(made) < len(part):
            mixed = torch.arange(1, len(part) + 1, dtype=torch.int64, device=part.device) * _MIX[0]
            made = self._weights[part.device] = (mixed ^ (mixed >> 31)) * _MIX[1]
        return made[: len(part)]


def _present(tensor: Tensor | None) -> TypeGuard[Tensor]:
    return tensor is not None


def _plain(tensor: Tensor) -> bool:
    """Whether a tensor is just its entries in memory; sparse, quantised and other special ones are not."""
    return type(tensor) in _KINDS and tensor.layout == torch.strided and not tensor.is_quantized
