"""Which tensors hold entries that were selected by the examples' values, so that nobody knows how many each has.

`head(h[mask])` gets the selected positions of all examples, one after another. How many an example has depends on its
values: made-up examples may have equally many, and those of a batch not, so that rows would be taken for another
example's. Sizes cannot show that, so it is followed from the model's input to its layers.
"""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

_OF_EXAMPLES, _SELECTED = 1, 2
_SELECTING = frozenset(("nonzero", "argwhere", "masked_select", "_pack_padded_sequence"))
_READING = frozenset(("item", "tolist", "__int__", "__index__"))
_JOINING = frozenset(("cat", "concat", "concatenate", "hstack", "vstack"))
_INDEXING = frozenset(("__getitem__", "index_select", "take", "embedding"))
# What writes selected entries to places of a tensor that has all of them.
_PUTTING = frozenset(
    f"{name}{end}"
    for name in ("index_put", "masked_scatter", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy")
    for end in ("", "_")
)


class SelectedRows(TorchFunctionMode):
    """Follows what is computed from examples.

    >>> x = torch.tensor([[1.0, 0.0], [2.0, 3.0]])
    >>> with SelectedRows([x]) as seen:
    ...     chosen, put = x[x > 0] + 1, torch.zeros(2, 2)
    ...     put = put.masked_scatter(x > 0, chosen)
    >>> seen.among([chosen]), seen.among([put])
    (True, False)
    """

    def __init__(self, examples: list[Any]) -> None:
        super().__init__()
        self._labels = {id(leaf): (_OF_EXAMPLES, leaf) for leaf in examples if isinstance(leaf, Tensor)}
        self._read = False  # whole numbers were read: as lengths, perhaps

    def among(self, leaves: list[Any]) -> bool:
        """Whether one of them holds selected entries."""
        return self._label(leaves) == _SELECTED

    def follow(self, given: list[Any], output: Any) -> bool:
        """Note what a layer made of what it was given, also where torch does not show how; is that selected?"""
        label = self._label(given)
        self._note(label, output)
        return label == _SELECTED

    def _note(self, label: int, output: Any) -> None:
        if not label:
            return
        for leaf in [output] if isinstance(output, Tensor) else pytree.tree_leaves(output):
            if isinstance(leaf, Tensor):
                self._labels[id(leaf)] = label, leaf

    def _label(self, leaves: list[Any]) -> int:
        return max((self._labels[id(leaf)][0] for leaf in leaves if id(leaf) in self._labels), default=0)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        output = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name == "__get__" and not isinstance(output, Tensor):  # a shape, a type
            return output
        leaves = pytree.tree_leaves((args, kwargs))
        label = self._label(leaves)
        if not label:
            return output
        if name in _READING:
            self._read = self._read or not args[0].is_floating_point()
        elif self._selects(name, args, kwargs):
            label = _SELECTED
        elif name in _PUTTING and args and id(args[0]) in self._labels:
            label = self._labels[id(args[0])][0]
        elif name in _PUTTING:
            label = _OF_EXAMPLES
        self._note(label, output)
        return output

    def _selects(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        if name in _SELECTING or "unique" in name:
            return True
        if name in _INDEXING:
            index = [each for each in pytree.tree_leaves((args[1:], kwargs)) if isinstance(each, Tensor)]
            masks = [each for each in index if each.dtype in {torch.bool, torch.uint8}]
            return self._label(masks) > 0 or self.among(index)
        if name == "where":
            return len(args) + len(kwargs) == 1
        if name == "repeat_interleave":
            return self._label([each for each in (*args[1:], *kwargs.values()) if isinstance(each, Tensor)]) > 0
        return self._read and name in _JOINING and kwargs.get("dim", args[1] if len(args) > 1 else 0) == 0
