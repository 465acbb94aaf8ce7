"""What a loop does with outputs between the forward and the backward, seen at some forwards.

The graph of a loss shows which functions outputs went through, not what they met there: labels that are broadcast along
another dimension of the same length, or statistics of the batch that were taken of detached outputs. At the looks,
outputs are therefore of a class of their own until the backward begins. Torch hands every function of such tensors to
that class; values are as ever.

*Labels set against all rows.* A tensor that meets rows and has none of its own, but as many numbers as there are rows
along another dimension, is everybody's labels, unless it was there before the first batch (class weights). So is one
each of whose rows is a column of the batch.

*What was detached.* A tensor without a gradient that is made of outputs has a *shadow*: what would have been made with
gradients. Where it enters the loss, the graph of its shadow is judged as the graph of the loss is.

*What was written over.* A function that changes a tensor in place without gradients leaves no trace in the graph.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet, ref

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from inid.dpsgd.loss.graph import LossGraph, Rows, refused
from inid.dpsgd.loss.nodes import ELEMENTWISE, Edge, edge_of
from inid.dpsgd.sampling.batch_state import BatchState
from inid.errors import GuaranteeError

_OPERATIONS = frozenset(name.lower() for name in ELEMENTWISE) | {
    *("mseloss", "l1loss", "huberloss", "smoothl1loss", "binarycrossentropy", "binarycrossentropywithlogits"),
    *("softmarginloss", "gather", "tocopy", "square"),
}
_EVERYBODYS = (
    "every row with as many numbers as there are rows (everybody's labels?); bring targets into the shape of the "
    "outputs, and make constants before training"
)
_WRITTEN = "what was written over in place without gradients"


class OutputTracking:
    """The outputs of one forward, and all that is made of them until its backward."""

    def __init__(self, graph: LossGraph, drawn: BatchState) -> None:
        self._graph, self._drawn = graph, drawn
        self._held: dict[int, ref[Tensor]] = {}
        self._shadows: dict[int, tuple[ref[Tensor], Tensor]] = {}
        self._shadow_of: dict[Edge, Tensor] = {}
        self._met: dict[Any, str] = {}  # what nodes of the graph met that mixes rows
        self._over = drawn.interrupted >= _PATIENCE
        _stop_for_compilers()
        _AT_WORK.add(self)

    def follow(self, leaves: Iterable[Any]) -> None:
        """Follow these tensors, too; only torch's own kind."""
        for leaf in leaves:
            if type(leaf) is Tensor and not self._over:
                vars(leaf)[_KEY] = self
                leaf.__class__ = _Followed
                self._held[id(leaf)] = ref(leaf)

    def check(self, ends: Iterable[Edge]) -> None:
        """Refuse a loss that met what mixes rows."""
        for end in ends:
            shadow = self._shadow_of.get(end)
            for edge in (end, None if shadow is None else edge_of(shadow)):
                for node in () if edge is None else self._graph.nodes(edge):
                    if node in self._met:
                        raise refused(self._met[node])
            if shadow is not None:
                self._graph.kind_of((shadow.grad_fn, shadow.output_nr))

    @contextmanager
    def put_aside(self) -> Iterator[None]:
        """Follow nothing for a while."""
        held = [each for kept in self._held.values() if (each := kept()) is not None]
        with _plain(held):
            yield

    def interrupt(self) -> None:
        """Let go, since something is about to be compiled, which knows tensors of torch's own class only."""
        if not self._over:
            self._drawn.interrupted += 1
        self.let_go()

    def let_go(self) -> None:
        """Follow nothing any more; tensors are of torch's own class again."""
        self._over = True
        for kept in self._held.values():
            leaf = kept()
            if leaf is not None:
                leaf.__class__ = Tensor
                vars(leaf).pop(_KEY, None)
        self._held.clear()
        self._shadows.clear()
        self._shadow_of.clear()
        self._met.clear()

    def run(self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], leaves: list[Tensor]) -> Any:
        """Call a function of torch on followed tensors, and see what it does."""
        name = getattr(func, "__name__", "")
        with _plain(leaves):
            if name in {"backward", "grad"}:
                return func(*args, **kwargs)
            with _Operands(self) as operands:
                made = func(*args, **kwargs)
            if name == "take_along_dim":
                operands.look("gather", [leaf for leaf in args if isinstance(leaf, Tensor)])
            out = [leaf for leaf in pytree.tree_leaves(made) if isinstance(leaf, Tensor)]
            if (name.endswith("_") and not name.startswith("__")) or name in _IN_PLACE or "out" in kwargs:
                self._note_writing(args[0] if args else kwargs["out"])
            else:
                self._shade(func, args, kwargs, leaves, out)
            if operands.found:
                self._mark(out)
        self.follow(out)
        return made

    def kind_of(self, tensor: Tensor) -> object:
        """What a tensor of the graph is, as far as that is known."""
        edge = edge_of(tensor)
        try:
            return None if edge is None else self._graph.kind_of(edge)
        except GuaranteeError:
            return None

    def broadcasts_batch(self, other: Tensor, place: int, entries: int) -> bool:
        """Whether what rows meet is the same for all of them, and holds a number of each."""
        rows = self._graph.rows
        at = place + other.ndim
        along = [
            each
            for each, size in enumerate(other.shape)
            if each != at and size in {rows, rows * entries} and other.stride(each)
        ]
        alike = at < 0 or other.shape[at] == 1 or other.stride(at) == 0
        if rows > 1 and alike and self._drawn.is_part(other):
            return True
        if rows == 1 or not along or self._drawn.had(other):
            return False
        if alike:
            return not all(_counts_up(_line(other, each)) for each in along)
        first = other.select(at, 0).unsqueeze(at)
        if other.shape[at] != rows or not torch.equal(first.expand_as(other), other):
            return False
        columns = [each.flatten().to(other.device) for each, _ in self._drawn.tensors if each.numel() == rows]
        lines = [_line(first, each) for each in along]
        return any(
            bool((line != line[0]).any()) and any(_follows_from(line, column) for column in columns)
            for line in lines
            if len(line) == rows
        )

    def _note_writing(self, written: object) -> None:
        if not isinstance(written, Tensor):
            return
        if written.requires_grad:
            if not torch.is_grad_enabled():
                self._met[written.grad_fn] = _WRITTEN
            return
        kept, shadow = self._shadows.get(id(written), (None, written))
        if kept is not None and kept() is written and _memory(shadow) == _memory(written):
            self._met[shadow.grad_fn] = _WRITTEN

    def _shade(
        self, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], leaves: list[Tensor], out: list[Tensor]
    ) -> None:
        """Make the shadows of what a function made."""
        compared = getattr(func, "__name__", "").strip("_") in _COMPARISONS
        out = [leaf for leaf in out if leaf.is_floating_point() or compared]
        shadows = {id(leaf): shadow for leaf in leaves if (shadow := self._shadow(leaf)) is not None}
        lost = all(leaf.grad_fn is None for leaf in out) and any(leaf.requires_grad for leaf in leaves)
        if not out or not (shadows or lost):
            return
        if getattr(func, "__name__", "") == "detach" or getattr(func, "__self__", None) is Tensor.data:
            made = [shadows.get(id(leaves[0]), leaves[0])]
        else:
            given = pytree.tree_map_only(Tensor, lambda leaf: shadows.get(id(leaf), leaf), (args, kwargs))
            try:
                with (
                    torch.inference_mode(False),
                    torch.enable_grad(),
                    torch.random.fork_rng([]),
                    _Operands(self) as operands,
                ):
                    # What decides a comparison is the difference.
                    made = pytree.tree_leaves((torch.sub if compared else func)(*given[0], **given[1]))
            except Exception:  # noqa: BLE001 - what cannot be differentiated has no shadow
                return
            made = [leaf for leaf in made if isinstance(leaf, Tensor) and leaf.is_floating_point()]
            if operands.found:
                self._mark(made)
        for leaf, shadow in zip(out, made, strict=False):
            if shadow.grad_fn is not None:
                self._shadows[id(leaf)] = ref(leaf), shadow
                edge = edge_of(leaf)
                if edge is not None:
                    self._shadow_of[edge] = shadow

    def _shadow(self, leaf: Tensor) -> Tensor | None:
        kept, shadow = self._shadows.get(id(leaf), (None, None))
        return shadow if kept is not None and kept() is leaf else None

    def _mark(self, out: list[Tensor]) -> None:
        for leaf in out:
            if leaf.grad_fn is not None:
                self._met[leaf.grad_fn] = _EVERYBODYS


_AT_WORK: "WeakSet[OutputTracking]" = WeakSet()
_PATIENCE = 2  # how often following may make a compiler start before it is given up
_COMPARISONS = frozenset(("gt", "ge", "lt", "le", "eq", "ne", "greater", "less", "greater_equal", "less_equal"))
_KEY = "_followed_by"  # in the dictionary of a tensor
_IN_PLACE = frozenset(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "div", "pow", "mod", "floordiv")) | {
    "__setitem__"
}


def _line(tensor: Tensor, along: int) -> Tensor:
    """The entries of a tensor along a dimension, at the first place of all others."""
    return tensor.detach().movedim(along, 0).reshape(tensor.shape[along], -1)[:, 0]


def _follows_from(line: Tensor, column: Tensor) -> bool:
    """Whether numbers are equal wherever those of a column of the batch are, as labels made of labels are."""
    same = column[:, None] == column
    return bool((line[:, None] == line)[same].all()) and not _counts_up(line)


def _counts_up(line: Tensor) -> bool:
    """Whether numbers are 0, 1, 2 and so on: those of the classes or places, which many loops make anew."""
    return torch.equal(line, torch.arange(len(line), device=line.device).to(line))


def _stop_for_compilers() -> None:
    """Follow nothing while torch compiles, if its compiler is loaded: it forgets who asked when it is reset."""
    handler = getattr(sys.modules.get("torch._dynamo.callback"), "callback_handler", None)
    if handler is not None and _interrupt not in handler.start_callbacks:
        handler.register_start_callback(_interrupt)


def _interrupt(*_: object) -> None:
    for follower in list(_AT_WORK):
        follower.interrupt()


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@contextmanager
def _plain(leaves: list[Tensor]) -> Iterator[None]:
    """Let followed tensors be of torch's own class for a while."""
    for leaf in leaves:
        leaf.__class__ = Tensor
    try:
        yield
    finally:
        for leaf in leaves:
            if _KEY in vars(leaf):
                leaf.__class__ = _Followed


class _Followed(Tensor):
    """An output, or what was made of outputs."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves: list[Tensor] = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if type(leaf) is _Followed]
        follower: OutputTracking = vars(leaves[0])[_KEY]
        return follower.run(func, args, kwargs, leaves)


class _Operands(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees what rows meet in functions of torch, down to those that others are made of."""

    def __init__(self, outputs: OutputTracking) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._outputs, self.found = outputs, False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if len(leaves) > 1:
            self.look(func.overloadpacket.__name__, leaves)
        return made

    def look(self, name: str, leaves: list[Tensor]) -> None:
        """Look at the operands of a function."""
        if name.replace("_", "") not in _OPERATIONS:
            return
        kinds = [(leaf, self._outputs.kind_of(leaf)) for leaf in leaves]
        rows = [(leaf, kind) for leaf, kind in kinds if isinstance(kind, Rows)]
        others = [leaf for leaf in leaves if not leaf.requires_grad]
        if not rows or not others or self.found:
            return
        leaf, kind = rows[0]
        place = kind.along - leaf.ndim  # from the end, where dimensions of other tensors stand beside each other
        self.found = any(self._outputs.broadcasts_batch(other, place, kind.entries) for other in others)
