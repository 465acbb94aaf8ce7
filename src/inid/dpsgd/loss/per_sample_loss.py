"""A loss taken row by row, so that it cannot mix rows: `private.loss` and `private.backward`.

`vmap` runs the user's function on every row by itself. What enters it from elsewhere could still be made of the whole
batch, so three things are looked at. Outputs must be the very tensors that the forward returned. Targets must be
tensors of the drawn batch. And a tensor that the function reads besides (a constant) must be the same at every look,
must need no gradient, and must not lie in the memory of outputs or targets. Looks are made at calls 1, 2, 4, 8 and so
on of a function. A Python number that was read from the batch before cannot be seen.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge
from torch.func import vmap
from torch.nn import functional
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from inid.dpsgd.forward_pass import ForwardPass
from inid.dpsgd.grad_sample.output_leaves import output_leaves
from inid.dpsgd.loss.graph import LossGraph
from inid.dpsgd.loss.nodes import edge_of
from inid.dpsgd.per_example_gradients import PerExampleGradients
from inid.errors import ArgumentError, GuaranteeError

_Known = dict[int, tuple[Tensor, int]]  # tensors by `id`, and how often each was written to


class PerSampleLoss:
    """Takes losses over what the latest forward of a private model returned."""

    def __init__(self, gradients: PerExampleGradients, *, mean: bool) -> None:
        self._gradients, self._state, self._mean = gradients, gradients.state, mean
        self._drawn = gradients.state.drawn
        self._calls: Counter[object] = Counter()
        self._constants: dict[object, _Known] = {}
        self._first: dict[object, ref[ForwardPass]] = {}  # in which forward each function was first seen

    def of_function(
        self, loss_fn: Callable[..., Tensor], outputs: Any, targets: tuple[Any, ...], per_row: tuple[Any, ...]
    ) -> Tensor:
        """The mean or sum over the rows of what a function gives for each."""
        forward_pass = self._turn() if torch.is_grad_enabled() else None
        if forward_pass is None:
            return self._of_function(None, loss_fn, outputs, targets, per_row)
        self._drawn.check_order()  # else a target of the batch before would be called made up
        forward_pass.check_outputs()
        with forward_pass.aside():
            return self._of_function(forward_pass, loss_fn, outputs, targets, per_row)

    def _of_function(
        self,
        forward_pass: ForwardPass | None,
        loss_fn: Callable[..., Tensor],
        outputs: Any,
        targets: tuple[Any, ...],
        per_row: tuple[Any, ...],
    ) -> Tensor:
        leaves, form = pytree.tree_flatten((outputs, *targets, *per_row))
        stated = {id(leaf) for leaf in pytree.tree_leaves(per_row)}
        if any(not isinstance(leaf, Tensor) and _holds_tensors(leaf) for leaf in leaves):
            raise ArgumentError(
                "outputs and targets must be tensors, in tuples, lists or dictionaries: take them out of other objects."
            )
        key = _code_of(loss_fn)
        fresh = forward_pass is not None and self._first.setdefault(key, ref(forward_pass))() is forward_pass
        look = forward_pass is not None and (self._is_look(key) or fresh)
        along = [
            (0 if forward_pass is None else self._along(forward_pass, leaf, id(leaf) in stated, look=look))
            if isinstance(leaf, Tensor)
            else None
            for leaf in leaves
        ]
        rows = (
            forward_pass.rows
            if forward_pass is not None
            else next(len(leaf) for leaf in leaves if isinstance(leaf, Tensor))
        )
        apart = [
            leaf.unflatten(at, (rows, -1)) if at is not None and leaf.shape[at] != rows else leaf
            for leaf, at in zip(leaves, along, strict=True)
        ]
        watch = _Watch() if look else None

        def one(*own: Any) -> Tensor:
            args = pytree.tree_unflatten(list(own), form)
            if watch is None:
                return loss_fn(*args)
            watch.begin(own)
            with torch.compiler.set_stance("force_eager"), watch:  # what is compiled could not be looked into
                return loss_fn(*args)

        losses = _by_rows(one, apart, along)
        if not isinstance(losses, Tensor) or losses.shape != (rows,):
            raise GuaranteeError(
                "loss_fn must return one number for each row, a tensor without dimensions: take the mean or the sum "
                "over the row's own entries."
            )
        if watch is not None:
            self._check_constants(key, watch, [leaf for leaf in leaves if isinstance(leaf, Tensor)], fresh=fresh)
        return self._reduced(forward_pass, losses)

    def of_losses(self, losses: Tensor) -> Tensor:
        """The mean or sum of one loss per row, as they were computed outside."""
        forward_pass = self._turn()
        edge = edge_of(losses)
        if edge is None or losses.shape != (forward_pass.rows,):
            raise GuaranteeError(
                "private.backward takes one loss per row, made of the outputs of the latest forward: pass a tensor of "
                "as many numbers as the batch has rows, or private.backward(loss_fn, outputs, *targets)."
            )
        forward_pass.check_outputs([edge])
        graph = LossGraph(forward_pass.by_rows, forward_pass.rows)
        try:
            apart = graph.kind_of(edge) == graph.rows_first
        except GuaranteeError:
            apart = False
        names = frozenset(node.name() for node in graph.nodes(edge))
        if not apart and (self._gradients.sharded or self._is_look(names)):
            self._look_at_others(forward_pass, losses)
        return self._reduced(forward_pass, losses)

    def _turn(self) -> ForwardPass:
        forward_pass = self._state.latest
        if forward_pass is None or forward_pass.ended:
            raise GuaranteeError(
                "there is no forward whose loss could be taken: call the private module on a batch of the returned "
                "data_loader first, and the loss once for each forward."
            )
        return forward_pass

    def _is_look(self, key: object) -> bool:
        self._calls[key] += 1
        recorded = torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()
        return self._calls[key].bit_count() == 1 and not recorded

    def _reduced(self, forward_pass: ForwardPass | None, losses: Tensor) -> Tensor:
        edge = edge_of(losses)
        if forward_pass is not None and edge is not None:
            forward_pass.by_rows[edge] = 0  # what becomes of it is looked at as for any other loss
        return losses.mean() if self._mean else losses.sum()

    def _along(self, forward_pass: ForwardPass, leaf: Tensor, stated: bool, *, look: bool) -> int:
        """Along which dimension of an output or target the rows lie; others are refused."""
        if leaf.requires_grad:
            edge = forward_pass.returned_as(leaf, look=look)
            if edge is None:
                raise GuaranteeError(
                    "an output was changed between the forward and the loss, so that its rows may have met: hand over "
                    "the module's outputs as they came; calculate inside loss_fn."
                )
            return forward_pass.by_rows[edge]
        if leaf.ndim == 0 or leaf.shape[0] % forward_pass.rows:
            raise GuaranteeError(
                "a target does not have the rows of the batch in its first dimension: pass tensors of the batch; what "
                "is the same for all rows, loss_fn may read from outside, if it is made once before training."
            )
        if not stated and not forward_pass.gave(leaf) and not self._is_of_batch(leaf, look=look):
            raise GuaranteeError(
                "a target is not a tensor of the drawn batch as it came, so that it may be made of other rows: compute "
                "it inside loss_fn from the row's own columns, or state per_row=(...) for tensors each of whose rows "
                "comes from that row alone (a teacher's outputs)."
            )
        return 0

    def _is_of_batch(self, leaf: Tensor, *, look: bool) -> bool:
        """Whether it is a tensor that was handed out or, elsewhere (on a GPU), equal to one at the looks."""
        if self._drawn.gave(leaf):
            return True
        if leaf.is_cuda and not look:
            return True
        handed = [each for each, _ in self._drawn.tensors if self._drawn.gave(each)]
        alike = [each for each in handed if each.numel() == leaf.numel() and len(each) == len(leaf)]
        return any(torch.equal(each.to(leaf).reshape(leaf.shape), leaf) for each in alike)

    def _check_constants(self, key: object, watch: "_Watch", own: list[Tensor], *, fresh: bool) -> None:
        memory = {each.untyped_storage().data_ptr() for each in (*own, *(each for each, _ in self._drawn.tensors))}
        for tensor, _ in watch.foreign.values():
            if tensor.requires_grad or _memory_of(tensor) in memory:
                raise GuaranteeError(
                    "loss_fn reads outputs or targets of the whole batch, or something that is trained, from outside: "
                    "pass what it needs as outputs and targets, of which it gets the row."
                )
        known = self._constants.setdefault(key, {})
        if fresh:  # several heads, each with constants of its own
            known.update(watch.foreign)
        read = watch.foreign.items()
        if not all(at in known and known[at][1] == version and self._drawn.had(each) for at, (each, version) in read):
            raise GuaranteeError(
                "loss_fn reads a tensor from outside that changes from step to step, or was made after the first batch "
                "was drawn, so that it may be made of a batch: make constants once, before training, and pass what "
                "belongs to the rows as a target."
            )

    def _look_at_others(self, forward_pass: ForwardPass, losses: Tensor) -> None:
        """See that the losses of some examples send no gradient back to the outputs of others."""
        if self._gradients.sharded:
            raise GuaranteeError(
                "the losses of a sharded model must be seen to keep rows apart by their graph: use "
                "private.loss(loss_fn, outputs, *targets)."
            )
        draw = torch.Generator().manual_seed(sum(self._calls.values()))
        chosen = torch.rand(forward_pass.examples, generator=draw, device="cpu") < 0.5
        chosen[0], chosen[-1] = True, forward_pass.examples == 1
        mask = chosen.repeat_interleave(forward_pass.views).to(losses.device)
        edges = [edge for edge in forward_pass.returned if edge in forward_pass.by_rows]
        with self._drawn.looked_at():
            made = torch.autograd.grad(
                (losses * mask).sum(), [GradientEdge(*edge) for edge in edges], retain_graph=True, allow_unused=True
            )
        for edge, gradient in zip(edges, made, strict=True):
            if gradient is not None:
                by_row = gradient.movedim(forward_pass.by_rows[edge], 0).reshape(forward_pass.rows, -1)
                if bool(by_row[~mask].any()):
                    raise GuaranteeError(
                        "the loss of one row depends on the outputs of others: use private.loss(loss_fn, outputs, "
                        "*targets), which takes it row by row."
                    )


def _by_rows(one: Callable[..., Tensor], leaves: Sequence[Any], along: Sequence[int | None]) -> Any:
    try:
        return vmap(one, in_dims=tuple(along), randomness="different")(*leaves)
    except RuntimeError as error:
        if "vmap" not in str(error) and "atching rule" not in str(error):
            raise
        raise GuaranteeError(
            "loss_fn cannot be run row by row by torch.func.vmap (a mask that selects, an `if` on values, .item()?): "
            "multiply by masks instead of selecting and use torch.where; or compute one loss per row yourself and "
            "pass private.backward(losses)."
        ) from error
    except (IndexError, ValueError) as error:
        raise GuaranteeError(
            "loss_fn does not fit the shape of one row: it gets one row of the outputs and of every target, without "
            "the dimension of the batch; write logits[:-1] for logits[:, :-1]."
        ) from error


def _holds_tensors(leaf: object) -> bool:
    return any(isinstance(each, Tensor) for each in output_leaves(leaf))


def _code_of(function: object) -> object:
    """What stays the same of a function that is made anew for every batch: its code, or its kind."""
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__code__", type(function))


def _memory_of(tensor: Tensor) -> int | None:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # what vmap left behind
        return None


class _Watch(TorchFunctionMode):
    """Sees every tensor that a function of one row reads and that is neither its own nor made of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.foreign: _Known = {}
        self._own: dict[int, Tensor] = {}

    def begin(self, own: tuple[Any, ...]) -> None:
        """Note what the function is given."""
        self._own = {id(leaf): leaf for leaf in own if isinstance(leaf, Tensor)}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in {functional.cross_entropy, functional.nll_loss}:
            _check_weights(*args, **kwargs)
        for leaf in pytree.tree_leaves((args, kwargs)):
            if isinstance(leaf, Tensor) and id(leaf) not in self._own:
                self.foreign[id(leaf)] = leaf, leaf._version  # noqa: SLF001 - the only way to see a change in place
        made = func(*args, **kwargs)
        for leaf in pytree.tree_leaves(made):
            if isinstance(leaf, Tensor):
                self._own[id(leaf)] = leaf
        return made


def _check_weights(_input: Tensor, target: Tensor, weight: Tensor | None = None, *_: Any, **settings: Any) -> None:
    if weight is not None and settings.get("reduction", "mean") == "mean" and target.ndim == 0:
        raise GuaranteeError(
            "class weights cancel in the mean over one target, which divides by its weight: pass reduction='sum'."
        )
