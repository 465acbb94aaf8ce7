"""Which tensors were there at some time: constants are, what is made of a batch is not."""

import gc
from weakref import ref

from torch import Tensor, nn

__all__ = ["EarlierTensors"]


class EarlierTensors:
    """The tensors that are there when this is made, of torch's own kinds, with how often each was written to.

    >>> import torch
    >>> weights = torch.ones(3)
    >>> earlier = EarlierTensors()
    >>> weights in earlier, weights[1:] in earlier, weights + 1 in earlier, weights.zero_() in earlier
    (True, True, False, False)
    """

    def __init__(self) -> None:
        kinds = {Tensor, nn.Parameter, nn.Buffer}
        found = [each for each in gc.get_objects() if type(each) in kinds]
        # Not pairs of both: Python's collector would go through as many, and so would whoever looks for tensors next.
        self._found = {id(each): ref(each) for each in found}
        self._versions = {id(each): _version(each) for each in found}

    def __contains__(self, tensor: Tensor) -> bool:
        whole = tensor if tensor._base is None else tensor._base  # noqa: SLF001 - what a view is of
        kept = self._found.get(id(whole))
        return kept is not None and kept() is whole and self._versions[id(whole)] == _version(whole)


def _version(tensor: Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version  # noqa: SLF001 - the only way to see a change in place
