"""Where per-example gradients come from: hooks on the layers of a model.

While a layer runs forward its parameters are frozen, so that autograd does not spend time on summed gradients that
nobody may use; a hook on its output sees the gradient that flows back and works out the rows. A group's rows are
clipped as soon as the last of its layers has been heard, so that per-layer clipping never holds more than one layer's
rows.

The guards in here are part of the guarantee: a layer that sees another number of rows than there are examples, a second
backward over the same forward, or two forwards under one backward would each let one person count more than once.
"""

import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any, cast
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.utils import _pytree as pytree

from inid.dpsgd.calls import Call
from inid.dpsgd.clipped_sums import GroupRows, Rule, Sums
from inid.dpsgd.fused_layers import fused_rows, stored
from inid.dpsgd.fused_positions import put_together
from inid.dpsgd.gradient_rows import Dense, Rows
from inid.dpsgd.layers import Formula, formula_of, has_batch
from inid.dpsgd.model_state import Watch
from inid.dpsgd.vmap_gradients import run_one_by_one
from inid.errors import GuaranteeError

__all__ = ["Places", "Recorder", "is_private", "units_of"]

Places = dict[nn.Parameter, tuple[int, int]]  # the group of a parameter, and where in the group it stands

_listened_to: "WeakSet[nn.Module]" = WeakSet()


@dataclass(frozen=True, eq=False)
class Unit:
    """A layer whose parameters get their rows at once: by a formula, or example by example."""

    name: str
    layer: nn.Module
    formula: Formula | None
    parameters: dict[str, nn.Parameter]


@dataclass(eq=False)
class _Pass:
    """One forward of the model and the backward that belongs to it."""

    examples: int
    given: list[Tensor] = field(default_factory=list)  # what the model was called with
    done: set[int] = field(default_factory=set)
    waiting: dict[int, int] = field(default_factory=dict)
    rows: dict[int, GroupRows] = field(default_factory=dict)
    begun: bool = False
    ended: bool = False


def units_of(module: nn.Module, prefix: str = "") -> Iterator[Unit]:
    """The smallest layers that own all the trainable parameters they use.

    >>> [(u.name, u.formula is not None) for u in units_of(nn.Sequential(nn.Linear(2, 2), nn.GRU(2, 2)))]
    [('0', True), ('1', False)]
    """
    formula = formula_of(module)
    own = {name: p for name, p in module.named_parameters(recurse=False) if p.requires_grad}
    if formula is not None:
        if own:
            yield Unit(prefix, module, formula, own)
    elif own or parametrize.is_parametrized(module):
        every = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if every:
            yield Unit(prefix, module, None, every)
    else:
        for name, child in module.named_children():
            yield from units_of(child, f"{prefix}.{name}" if prefix else name)


class Recorder:
    """Listens to a model's layers and adds their clipped rows to `sums`.

    Attributes:
        rule: How rows are clipped; may be replaced between steps.
        sums: The clipped sums since they were last cleared.
    """

    def __init__(
        self,
        module: nn.Module,
        places: Places,
        rule: Rule,
        sums: Sums,
        *,
        mean: bool,
        admit: Callable[[int, int], None],
    ) -> None:
        self.rule, self.sums = rule, sums
        self._places, self._mean, self._admit = places, mean, admit
        self._lengths = [0] * len(rule.thresholds)
        for at, _ in places.values():
            self._lengths[at] += 1
        self._current: _Pass | None = None
        self._call: Call | None = None
        self._quiet = False
        self._frozen: set[nn.Parameter] = set()
        self._kind = next(iter(places)).dtype
        self._watch = Watch(module)
        self._module = module
        _listened_to.add(module)
        self._handles = []
        self._uses: Counter[nn.Parameter] = Counter()
        for unit in units_of(module):
            self._uses.update(unit.parameters.values())
            self._handles += [
                unit.layer.register_forward_pre_hook(partial(self._freeze, unit)),
                unit.layer.register_forward_hook(partial(self._listen, unit), with_kwargs=True, always_call=True),
            ]
        # Around the others, also where the module is itself a layer.
        self._handles += [
            module.register_forward_pre_hook(self._begin, with_kwargs=True, prepend=True),
            module.register_forward_hook(self._end, always_call=True),
        ]

    def remove(self) -> None:
        """Take the hooks off the model again."""
        for handle in self._handles:
            handle.remove()
        _listened_to.discard(self._module)
        self.heal()

    def heal(self) -> None:
        """Undo what a forward that was interrupted, by Ctrl-C or an exit, has left behind."""
        if self._call is not None and self._call.under_way():
            return
        self._call = None
        for parameter in self._frozen:
            parameter.requires_grad_(True)
        self._frozen.clear()

    def _begin(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._quiet:
            return
        self.heal()
        if not torch.is_grad_enabled():
            return
        first = _first_tensor(args, kwargs)
        if first is None or first.ndim == 0:
            raise GuaranteeError(
                "the private module must be called with a tensor whose first dimension counts the examples: "
                "pass the batch as the first tensor."
            )
        given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        self._current = _Pass(first.shape[0], given)
        self._call = Call(cast("FrameType", inspect.currentframe()).f_back)  # what called this calls the forward
        self._watch.begin()

    def _end(self, _module: nn.Module, _args: object, _output: object) -> None:
        if self._quiet or self._call is None:
            return
        self._call = None
        if not self._watch.unchanged():
            raise GuaranteeError(
                "the forward of the private module changed one of its buffers or parameters, which would carry facts "
                "about examples without noise: remove running statistics and the like, or compute them outside."
            )

    def _freeze(self, unit: Unit, _layer: nn.Module, _args: object) -> None:
        if self._quiet or not torch.is_grad_enabled():
            return
        if self._call is None or not self._call.under_way():
            raise GuaranteeError(
                f"layer {unit.name!r} was called outside the forward of the private module: call the whole module, or "
                "wrap what is not training in torch.no_grad()."
            )
        for name, parameter in unit.parameters.items():
            if not parameter.requires_grad:
                raise GuaranteeError(
                    f"parameter {name!r} of layer {unit.name!r} was frozen after make_private: freeze what is not to "
                    "be trained before, and call make_private again to train other parameters."
                )
            if parameter.dtype != self._kind:
                raise GuaranteeError(
                    f"parameter {name!r} of layer {unit.name!r} is {parameter.dtype} and was {self._kind} in "
                    "make_private, which allowed for the rounding of that type: cast the module before."
                )
        self._frozen.update(unit.parameters.values())  # before it is so: an interrupt may come between
        for parameter in unit.parameters.values():
            parameter.requires_grad_(False)

    def _listen(self, unit: Unit, _layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        # What `_freeze` has let pass; in particular, what somebody else froze stays frozen.
        if self._quiet or not self._frozen.issuperset(unit.parameters.values()):
            return output
        for parameter in unit.parameters.values():
            parameter.requires_grad_(True)
        self._frozen.difference_update(unit.parameters.values())
        if output is None or not torch.is_grad_enabled():  # None: the layer raised, and its error is on the way
            return output
        turn = cast("_Pass", self._current)
        if turn.examples == 0:
            return pytree.tree_map_only(Tensor, _started, output)
        for parameter in unit.parameters.values():
            at = self._places[parameter][0]
            turn.waiting[at] = turn.waiting.get(at, 0) + 1
        if unit.formula is None:
            self._check_rows(unit, args, kwargs, turn)
            self._quiet = True
            try:
                heard = partial(self._hear_leaf, unit, turn)
                of_batch = partial(_comes_from, turn.given)
                return run_one_by_one(
                    unit.layer, unit.parameters, args, kwargs, output, turn.examples, self._is_state, of_batch, heard
                )
            finally:
                self._quiet = False
        inputs = stored(self._check_rows(unit, args, kwargs, turn).detach(), output)
        if not output.requires_grad:
            # Nothing before this layer is trained: the chain of gradients starts here.
            output = _started(output)
        version = inputs._version  # noqa: SLF001 - the only way to see that a tensor was changed in place
        output.register_hook(partial(self._hear, unit, turn, inputs, version))
        return output

    def _check_rows(self, unit: Unit, args: tuple[Any, ...], kwargs: dict[str, Any], turn: _Pass) -> Tensor:
        first = args[0] if args and isinstance(args[0], Tensor) else _first_tensor(args, kwargs)
        rows = None if first is None or first.ndim == 0 else first.shape[0]
        # A table looked up by position, not by example, may have as many positions as there are examples.
        positions = (
            first is not None and first.ndim == 1 and isinstance(unit.layer, nn.Embedding) and turn.given[0].ndim > 1
        )
        known = unit.formula is None or (first is not None and has_batch(unit.layer, first))
        if first is None or rows != turn.examples or positions or not known:
            seen = f"{rows} rows" if rows != turn.examples else "an input without a dimension for examples"
            raise GuaranteeError(
                f"layer {unit.name!r} sees {seen} where the batch has {turn.examples} examples: "
                "keep the examples in the first dimension of every layer, and do not repeat or merge them."
            )
        return first

    def _is_state(self, tensor: Tensor) -> bool:
        """Whether a tensor is a buffer or a parameter of the model, or a view of one: the same for all examples."""
        held = {id(each) for each in self._watch.tensors()}
        return id(tensor) in held or id(tensor._base) in held  # noqa: SLF001 - what a view is a view of

    def _hear(self, unit: Unit, turn: _Pass, inputs: Tensor, version: int, gradients: Tensor) -> None:
        if inputs._version != version:  # noqa: SLF001 - see `_listen`
            raise GuaranteeError(
                f"the input of layer {unit.name!r} was changed in place after the layer had used it: do not modify it."
            )
        self._enter(turn)
        kind = gradients.device.type
        if torch.is_autocast_enabled(kind):
            with torch.autocast(kind, enabled=False):
                self._work_out(unit, turn, inputs, gradients)
        else:
            self._work_out(unit, turn, inputs, gradients)

    @torch.no_grad()
    def _work_out(self, unit: Unit, turn: _Pass, inputs: Tensor, gradients: Tensor) -> None:
        # Under autocast a layer may have met its input in another precision than it was given in.
        if inputs.dtype != gradients.dtype and inputs.is_floating_point():
            inputs = inputs.to(gradients.dtype)
        rows = self._fused(unit, inputs, gradients.detach())
        if rows is None:
            rows = cast("Formula", unit.formula)(unit.layer, inputs, gradients.detach())
        for name, parameter in unit.parameters.items():
            self._collect(turn, parameter, rows[name])

    def _fused(self, unit: Unit, inputs: Tensor, gradients: Tensor) -> dict[str, Rows] | None:
        """The layer's gradients without rows, where the rule is served by such sums."""
        rule = self.rule
        if rule.norm != 2 or rule.bounds is not None or rule.quanta is not None:
            return None
        groups = {self._places[parameter][0] for parameter in unit.parameters.values()}
        alone = len(groups) == 1 and self._lengths[next(iter(groups))] == len(unit.parameters)
        tied = any(self._uses[parameter] > 1 for parameter in unit.parameters.values())
        return fused_rows(unit.layer, inputs, gradients, kept=rule.total is not None or not alone, tied=tied)

    def _hear_leaf(self, unit: Unit, turn: _Pass, name: str, leaf: Tensor) -> None:
        self._enter(turn)
        gradients = cast("Tensor", leaf.grad)
        leaf.grad = None
        with torch.no_grad():
            self._collect(turn, unit.parameters[name], Dense(gradients.detach().flatten(1)))

    def _enter(self, turn: _Pass) -> None:
        """Check, at the first gradient of a backward, that it is the one backward of the latest forward."""
        if turn.ended:
            raise GuaranteeError(
                "backward ran twice over one forward, which would count every example twice: add the losses up and "
                "call backward once."
            )
        if turn is not self._current:
            raise GuaranteeError(
                "backward reached an earlier forward of the private module, which would count examples twice: call "
                "the module once per batch and backward before the next batch."
            )
        if not turn.begun:
            turn.begun = True
            self._admit(self.sums.examples, turn.examples)
            self.sums.examples += turn.examples
            torch.autograd.Variable._execution_engine.queue_callback(partial(self._finish, turn))  # noqa: SLF001 - what torch's own data parallel does

    def _collect(self, turn: _Pass, parameter: nn.Parameter, rows: Rows) -> None:
        at, place = self._places[parameter]
        if at in turn.done:
            raise GuaranteeError(
                "a layer was heard after its group had been clipped: do not run layers again in the backward."
            )
        group = turn.rows.setdefault(at, [None] * self._lengths[at])
        before = group[place]
        # A parameter that is used twice has one gradient per example, the sum, and is clipped once.
        group[place] = rows if before is None else put_together(before, rows)
        turn.waiting[at] -= 1
        if turn.waiting[at] == 0 and self.rule.total is None:
            turn.done.add(at)
            self.sums.add_group(at, turn.rows.pop(at), self._scale(turn), self.rule)

    def _finish(self, turn: _Pass) -> None:
        turn.ended = True
        with torch.no_grad():
            if self.rule.total is not None:
                self.sums.add_all(turn.rows, self._scale(turn), self.rule)
            else:
                for at, group in turn.rows.items():  # some of their layers took no part in the loss
                    self.sums.add_group(at, group, self._scale(turn), self.rule)
            self.sums.count(self._scale(turn), self.rule)
        turn.rows.clear()

    def _scale(self, turn: _Pass) -> float:
        return float(turn.examples) if self._mean else 1.0


def is_private(module: nn.Module) -> bool:
    """Whether some recorder listens to a model."""
    return module in _listened_to


def _comes_from(given: list[Tensor], tensor: Tensor) -> bool:
    """Whether a tensor is one of those given, a view of one, or computed by layers that are trained."""
    own = {id(each) for each in given}
    return tensor.requires_grad or id(tensor) in own or id(tensor._base) in own  # noqa: SLF001 - as above


def _first_tensor(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor | None:
    return next((leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)), None)


def _started(tensor: Tensor) -> Tensor:
    """A copy of a tensor that autograd takes for something to differentiate."""
    anchor = torch.zeros((), device=tensor.device, requires_grad=True)
    return cast("Tensor", _Start.apply(tensor, anchor))  # type: ignore[no-untyped-call]


class _Start(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, tensor: Tensor, _anchor: Tensor) -> Tensor:
        return tensor.clone()

    @staticmethod
    def backward(_ctx: Any, *gradients: Any) -> Any:
        return gradients[0], gradients[0].new_zeros(())
