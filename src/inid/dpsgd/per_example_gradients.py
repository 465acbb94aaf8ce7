"""Where per-example gradients come from: the forward of the model and of its layers is wrapped.

While a layer runs its parameters are frozen, so that autograd does not spend time on summed gradients that nobody may
use; a hook on its output gets what flows back and works out the gradients of single examples. Those of a group are
clipped as soon as the last of its layers is done, so that per-layer clipping never holds more than one layer's.

What the layers are called with is found out on made-up examples (see `call_plan`). One backward may follow each
forward, over one physical batch: a second backward, or two forwards under one, would count a person more than once.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init
from torch.utils import _pytree as pytree

from inid.dpsgd.grad_accumulator import GradAccumulator, Places
from inid.dpsgd.grad_sample.call_plan import (
    CallPlan,
    OtherwiseDividedError,
    Probe,
    SameForAllError,
    Unit,
    UsedOutsideError,
    parent_unit,
    trained_in,
    units_of,
)
from inid.dpsgd.grad_sample.grad_samples import DenseGrads
from inid.dpsgd.grad_sample.layers import grad_sampler_of, in_place
from inid.dpsgd.grad_sample.module_snapshot import ModuleSnapshot, scalar_attributes
from inid.dpsgd.grad_sample.vmap_gradients import run_without_sampler
from inid.dpsgd.grad_sample.wrapped_forward import (
    WRITTEN,
    FunctionalLinear,
    SavedTensor,
    WrappedForward,
    frozen,
    leaves_of,
    output_leaves,
    repeated,
    repeated_tensor,
    rows_in,
    run_with_direct_parameters,
    run_with_sampler,
    signature_of,
    undisturbed,
    unseen,
)
from inid.dpsgd.sharded_parameters import is_sharded
from inid.dpsgd.step_state import (
    EARLIER,
    NOT_PER_SAMPLE,
    RUN_AGAIN,
    CallsChanged,
    ForwardPass,
    LayerFailedError,
    StepState,
    graph_hook,
)
from inid.errors import GuaranteeError

_TRIES = 3  # plans that are made for one forward: a model that leaves layers out by chance may need several
_OFTEN = 16  # changes of an attribute, after which it is said what they cost


class ModelCheck(Protocol):
    """Who checks a model before it is trained on a batch, and finds out the plan of its calls."""

    def plan(
        self, model: "PerExampleGradients", args: tuple[Any, ...], kwargs: dict[str, Any], rows: int, *, full: bool
    ) -> CallPlan:
        """The plan of the calls of a model that keeps examples apart; others are refused."""

    def kept(self, known: Iterable[int] = ()) -> list[Tensor]:
        """Tensors that the model keeps as attributes."""


class Trace(Protocol):
    """Who notes the shapes that layers meet in a forward."""

    rows: int
    shared: frozenset[Unit]

    def note(self, unit: Unit, arguments: list[Any], output: object) -> None:
        """Note a call."""


class PerExampleGradients:
    """Adds the clipped gradients of a model's layers to the step's sums in every backward."""

    def __init__(
        self,
        module: nn.Module,
        places: Places,
        state: StepState,
        *,
        mean: bool,
        check: ModelCheck,
    ) -> None:
        self.state = state
        self._accumulator = GradAccumulator(places, state, mean=mean)
        self._places, self._mean, self._check = places, mean, check
        self._names = {p: name for name, p in module.named_parameters()}
        self.sharded = any(map(is_sharded, places))
        self._kind = next(iter(places)).dtype
        self._module = module
        self._snapshot = ModuleSnapshot(module, places, sharded=self.sharded)
        self._plans: dict[object, CallPlan] = {}
        self._settings: list[Any] | None = None  # as the latest forward has left them
        self._often = 0
        self._runs: Counter[object] = Counter()  # forwards of each kind with these settings
        self._widened: set[nn.Module] = set()  # parents of layers that are taken as one
        self._looped: dict[nn.Module, bool] = {}  # whether layers without a formula run in a loop
        self._undivided: dict[nn.Module, str] = {}  # why each of these parents is one layer
        self._warned: set[Unit] = set()
        self._tied: dict[nn.Parameter, Unit] | None = None  # weights used by functional.linear, once it was seen
        self._trace: Trace | None = None  # a run by which shapes are found out is under way
        self._probing = False  # a run on made-up examples is under way
        self._inside = False  # a layer that is run example by example is under way
        self._units = units = units_of(module)
        self._accumulator.uses.update(parameter for unit in units for parameter in unit.parameters.values())
        self._accumulator.stacking = not self.sharded
        self._wrapped = [WrappedForward(unit.layer, partial(self._run_layer, unit)) for unit in units]
        self._direct_units = [
            (unit, wrapped_unit)
            for unit, wrapped_unit in zip(units, self._wrapped, strict=True)
            if unit.direct_parameters
        ]
        self._wrapped_model = WrappedForward(module, self._run_module)  # around its own layer, where the model is one
        self._wrapped.append(self._wrapped_model)

    @property
    def lost(self) -> dict[nn.Parameter, float]:
        """By weight, what allowances for rounding typically cost of a clipped gradient."""
        return self._accumulator.lost

    def remove(self) -> None:
        """Take the wrappers off the model again."""
        for wrapped in reversed(self._wrapped):
            wrapped.undo()

    def record(self, work: Callable[[], Any]) -> int:
        """Call what records a forward and backward without running them; admits nothing, and gives their rows."""
        self.state.latest, self.state.recording, self._accumulator.stacking = None, True, False
        try:
            work()
        finally:
            self.state.recording, self._accumulator.stacking = False, not self.sharded
        if (forward_pass := cast("ForwardPass | None", self.state.latest)) is None or not forward_pass.ended:
            raise GuaranteeError("no backward over the private module was recorded: let loss() call the module.")
        return forward_pass.rows

    def begin_replay(self, rows: int) -> None:
        """Make the checks of a forward and of its backward, before a recorded one runs on what the loader gave."""
        self._snapshot = self._snapshot.now()
        self._snapshot.check_parameters(self._names, self._kind)
        self.state.begin_replay(rows)

    def settings(self) -> list[Any]:
        """What may change how the model computes, besides its input."""
        return scalar_attributes(self._snapshot.parts)

    def _run_module(self, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not torch.is_grad_enabled() or self._probing or self.state.running is not None:
            return forward(*args, **kwargs)
        self._snapshot = self._snapshot.now()
        self._snapshot.check_parameters(self._names, self._kind)
        rows = rows_in(args, kwargs)
        self._watch_settings()
        signature = signature_of(args, kwargs, rows, training=self._module.training)
        counted = None if self.sharded else signature  # processes that share a model look together
        self._runs[counted] += 1
        # A model may do something else later, or by chance: it is checked again at forwards 2, 4, 8, ...
        check = self._runs[counted].bit_count() == 1 and not self.state.recording
        if check:
            self._plans.pop(signature, None)
        for _ in range(_TRIES):
            if signature not in self._plans:
                full = not check or self._runs[counted] == 1
                self._forward = forward
                self._plans[signature] = self._check.plan(self, args, kwargs, rows, full=full)
                self._snapshot = self._snapshot.now()
            try:
                forward_pass = ForwardPass(rows, self.state.drawn.views_of(rows), self._plans[signature], checked=check)
                return self._run_pass(forward, args, kwargs, forward_pass)
            except CallsChanged:
                del self._plans[signature]  # to be found out anew
        raise GuaranteeError(
            "the private module calls its layers in an order that changes from one forward to the next: let the calls "
            "depend neither on the examples nor on random numbers that seeds do not fix."
        )

    def _watch_settings(self) -> None:
        """Let the model be checked again where somebody has changed a public number of it since the latest forward."""
        if self.sharded or self._settings is None or self.settings() == self._settings:
            return
        self._runs = Counter()
        self._often += 1
        if self._often == _OFTEN:
            warnings.warn(
                f"an attribute of the private module has changed {_OFTEN} times between forwards, and each time the "
                "model is checked again, which takes a few steps' time: pass what changes as a tensor to the forward, "
                "or keep it outside the module.",
                stacklevel=2,
            )

    def _run_pass(
        self, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], forward_pass: ForwardPass
    ) -> Any:
        before = self._snapshot.versions()
        forward_pass.flowed = graph_hook(self._collect_input, forward_pass)
        self._accumulator.expect(forward_pass)
        drawn, leaves = self.state.drawn, pytree.tree_leaves((args, kwargs))
        forward_pass.foreign = not self.state.recording and any(
            isinstance(leaf, Tensor) and not drawn.holds(leaf, checked=forward_pass.checked) for leaf in leaves
        )
        self.state.begin_forward(forward_pass)
        try:
            with self._functional_calls():
                output = forward(*args, **kwargs)
        finally:
            self.state.end_forward()
        if not forward_pass.complete:
            raise CallsChanged
        self._snapshot = self._snapshot.now()
        written = {at for at, _ in set(self._snapshot.versions()) ^ set(before)} if forward_pass.plan.written else None
        if (self._snapshot.versions() != before) if written is None else not written <= forward_pass.plan.written:
            raise GuaranteeError(WRITTEN)
        forward_pass.note_outputs(output_leaves(output), forward_pass.plan.output)
        if not self.sharded:
            self._settings = self.settings()
        return output

    def _run_layer(self, unit: Unit, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._inside or not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        if self._trace is not None:
            return self._trace_layer(self._trace, unit, forward, args, kwargs)
        again = torch._C._current_graph_task_id() != -1  # noqa: SLF001 - inside a backward: activation checkpointing
        forward_pass = self.state.latest if again else self.state.running
        if forward_pass is None:
            raise GuaranteeError(
                f"layer {unit.name!r} was called outside the forward of the private module: call the whole module, or "
                "wrap what is not training in torch.no_grad()."
            )
        if unit in forward_pass.plan.shared and unit.rule is not None:
            args = repeated(args, forward_pass.rows)
        leaves = [] if unit.direct_parameters else leaves_of(args, kwargs)
        at = forward_pass.planned_call(unit, leaves, again=again)
        if forward_pass.probe is not None and not again:  # what a checkpoint runs again is passed over
            with unseen():
                forward_pass.probe.called(at, forward_pass.plan.calls[at], leaves)
        return self._run_planned(forward_pass, at, forward, args, kwargs, again=again)

    def _run_planned(
        self,
        forward_pass: ForwardPass,
        at: int,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        again: bool,
    ) -> Any:
        unit = (call := forward_pass.plan.calls[at]).unit
        if unit.direct_parameters:
            return run_with_direct_parameters(
                unit, forward, args, kwargs, forward_pass.rows, graph_hook(self._collect_leaf, forward_pass, at, again)
            )
        if unit.rule is None:
            self._inside = True
            try:
                positions, leaf = (
                    graph_hook(way, forward_pass, at, again) for way in (self._collect_positions, self._collect_leaf)
                )
                output = run_without_sampler(
                    call,
                    forward,
                    args,
                    kwargs,
                    forward_pass.examples,
                    forward_pass.views,
                    positions,
                    leaf,
                    self._looped,
                )
                if forward_pass.probe is None:
                    self._say_slow(unit)
            except Exception as error:
                if forward_pass.probe is None or again or isinstance(error, GuaranteeError):
                    raise
                raise LayerFailedError(unit) from error
            finally:
                self._inside = False
            # Sharding puts hooks on the output, which a change in place would lose if it were a view.
            return pytree.tree_map_only(Tensor, torch.clone, output) if self.sharded else output
        flowed = (
            graph_hook(self._collect_again, forward_pass) if again else partial(cast("Any", forward_pass.flowed), at)
        )
        return run_with_sampler(unit, forward, args, kwargs, flowed)

    def widen(self, error: SameForAllError | OtherwiseDividedError) -> None:
        """Take the parent of a layer whose input is not divided by example as one layer, run example by example."""
        if error.unit.direct_parameters and self.take_whole():
            return
        parent = parent_unit(self._module, error.unit, self._widened)
        if parent is None:
            raise error
        self._widened.add(parent.layer)
        self._units.append(parent)
        part = f"its part {error.unit.name!r}"
        self._undivided[parent.layer] = (
            f"it uses a parameter of {part} itself"
            if isinstance(error, UsedOutsideError)
            else f"what {part} is called with does not lie side by side by example"
        )
        self._accumulator.uses.update(parent.parameters.values())
        self._accumulator.forget()
        self._wrapped.append(WrappedForward(parent.layer, partial(self._run_layer, parent)))

    def _say_slow(self, unit: Unit) -> None:
        """Name a layer that takes many times as long as in plain training, once, and why it does."""
        why = self._undivided.get(unit.layer, "")
        if self._looped.get(unit.layer):
            why += " and " * bool(why) + "torch.func.vmap cannot run it, so that it takes one example after another"
        if why and unit not in self._warned:
            self._warned.add(unit)
            warnings.warn(
                f"{unit.title} is slow: it is run apart for every example, since {why}. Rewrite "
                "that part (rows in front, no `if` on values, no .item()), freeze the layer, or register a formula for "
                "it (dpsgd.register_layer).",
                stacklevel=2,
            )

    def take_whole(self) -> bool:
        """Take modules with bare parameters as one layer each, run example by example; says whether there are any."""
        units, self._direct_units = self._direct_units, []
        for unit, wrapped in units:
            module_unit = Unit(unit.name, unit.layer, None, trained_in(unit.layer))
            self._accumulator.uses.update(module_unit.parameters.values())
            self._accumulator.forget()
            wrapped.run = partial(self._run_layer, module_unit)
        return bool(units)

    def shapes(self, args: tuple[Any, ...], kwargs: dict[str, Any], trace: Trace) -> list[Any]:
        """Run the model forward with its layers as they are, and tell who notes shapes; gives what it returns."""
        self._trace, self._probing = trace, True
        try:
            return self._returned(args, kwargs)
        finally:
            self._trace, self._probing = None, False

    def probe(self, args: tuple[Any, ...], kwargs: dict[str, Any], plan: CallPlan, views: int, probe: Probe) -> None:
        """Run the model forward and backward as it is trained, and tell what its layers see; nothing is added up."""
        forward_pass = ForwardPass(rows_in(args, kwargs), views, plan, probe=probe)
        forward_pass.flowed = graph_hook(self._collect_input, forward_pass)
        state, before = self.state, self._snapshot.now().versions(trained=True)
        gradients = [(parameter, parameter.grad) for parameter in self._places]
        latest = state.running, state.latest
        self._probing = True
        try:
            for parameter, _ in gradients:
                parameter.grad = None
            state.running = state.latest = forward_pass
            output = self._returned(args, kwargs)
            state.running = None
            if not forward_pass.complete:
                raise CallsChanged
            ends, sent = probe.ends(output)
            if ends:
                torch.autograd.backward(ends, sent)
            outside = [parameter for parameter, _ in gradients if parameter.grad is not None]
        finally:
            self._probing = False
            state.running, state.latest = latest
            for parameter, gradient in gradients:
                parameter.grad = gradient
        if outside and self._tied is None:
            self._tied = {}  # perhaps it is a head that uses the weight of an embedding: look at functional.linear
            raise CallsChanged
        if outside:
            owners = [unit for unit in self._units if any(outside[0] is each for each in unit.parameters.values())]
            raise UsedOutsideError(owners[-1], self._names[outside[0]])
        if self._snapshot.now().versions(trained=True) != before:
            raise GuaranteeError(WRITTEN)

    def _returned(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of what the model returns, and tensors that it has made and keeps."""
        before = self._check.kept()
        # Hooks on the whole model are a part of it; those of sharding have run already.
        forward = self._forward if self.sharded else self._module._call_impl  # noqa: SLF001 - not compiled
        # What others have put around the forward since then is at work already: an autocast of Accelerate's that was
        # entered twice would never end.
        other_forward, self._module.forward = self._module.forward, self._wrapped_model
        try:
            with self._functional_calls():
                output = output_leaves(forward(*args, **kwargs))
        finally:
            self._module.forward = other_forward
        return output + self._check.kept(map(id, before))

    def _trace_layer(
        self, trace: Trace, unit: Unit, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if unit.direct_parameters:
            expanded = {name: p.detach().expand(trace.rows, *p.shape[1:]) for name, p in unit.parameters.items()}
            trace.note(unit, [], ())
            with in_place(unit.layer, expanded):
                return forward(*args, **kwargs)
        if unit in trace.shared and unit.rule is not None:
            args = repeated(args, trace.rows)
        leaves = leaves_of(args, kwargs)
        self._inside = True
        try:
            output = frozen(unit, forward, args, kwargs)
        finally:
            self._inside = False
        if unit in trace.shared and unit.rule is None:
            output = pytree.tree_map_only(Tensor, partial(repeated_tensor, examples=trace.rows), output)
        with unseen():
            trace.note(unit, leaves, output)
        return output

    def _functional_calls(self) -> AbstractContextManager[object]:
        return nullcontext() if self._tied is None else FunctionalLinear(self._run_functional)

    def _run_functional(self, inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
        # Within its own layer a weight is frozen, and inside such a layer all is taken care of.
        if weight not in self._places or not weight.requires_grad or self._inside or self._tied is None:
            return functional.linear(inputs, weight, bias)
        parameter = cast("nn.Parameter", weight)
        if parameter not in self._tied:
            name = f"{self._names[parameter]} in functional.linear"
            layer = skip_init(nn.Linear, 1, 1, bias=False)  # type: ignore[no-untyped-call] # stands for its kind
            self._tied[parameter] = Unit(name, layer, grad_sampler_of(layer), {"weight": parameter})
            self._accumulator.tied = self._tied
            self._accumulator.forget()
        return self._run_layer(self._tied[parameter], lambda x: functional.linear(x, weight, bias), (inputs,), {})

    def _collect_input(self, forward_pass: ForwardPass, at: int, saved: SavedTensor, gradients: Tensor) -> None:
        if forward_pass.probe is not None:
            saved.read()  # it may have been written to meanwhile
            forward_pass.probe.flowed(at, "", gradients)
            return
        self._enter(forward_pass, again=False)
        with undisturbed(gradients):
            self._accumulator.take(forward_pass, forward_pass.plan.calls[at].unit, saved.read(), gradients.detach())

    def _collect_again(self, forward_pass: ForwardPass, *_: object) -> None:
        self._enter(forward_pass, again=True)

    def _collect_leaf(self, forward_pass: ForwardPass, at: int, again: bool, name: str, leaf: Tensor) -> None:
        gradients = cast("Tensor", leaf.grad)
        leaf.grad = None
        if forward_pass.probe is not None and not again:
            forward_pass.probe.flowed(at, name, gradients)
            return
        self._enter(forward_pass, again=again)
        with undisturbed(gradients):  # products of float32 stay so
            grads = gradients.detach().reshape(len(gradients), -1)
            if len(grads) != forward_pass.examples:  # one for each view
                grads = grads.view(forward_pass.examples, forward_pass.views, -1).sum(1)
            self._accumulator.add(forward_pass, forward_pass.plan.calls[at].unit.parameters[name], DenseGrads(grads))

    def _collect_positions(
        self, forward_pass: ForwardPass, at: int, again: bool, name: str, inputs: Tensor | None, gradients: Tensor
    ) -> None:
        unit = forward_pass.plan.calls[at].unit
        if forward_pass.probe is not None and not again:
            forward_pass.probe.flowed(at, name, gradients)
            return
        if name in unit.parameters:
            self._enter(forward_pass, again=again)
            self._accumulator.take_positions(forward_pass, unit, name, inputs, gradients)

    def forward_to_differentiate(self) -> ForwardPass:
        """The forward whose loss may be taken now: the latest, once, over what the loader handed out last."""
        forward_pass = self.state.latest
        if forward_pass is None or forward_pass.ended:
            raise GuaranteeError(
                "there is no forward whose loss could be taken: call the private module on a batch of the returned "
                "data_loader first, and the loss once for each forward; put several losses into one loss_fn."
            )
        self.state.drawn.check_order()  # else a target of the batch before would be called made up
        forward_pass.check_inputs()
        return forward_pass

    def send_back(
        self, forward_pass: ForwardPass, flowing: list[tuple[Tensor, Tensor]], factor: Tensor | None = None
    ) -> None:
        """Run the backward of the latest forward, with gradients of its outputs that were worked out row by row."""
        if forward_pass is not self.state.latest:
            raise GuaranteeError(EARLIER)
        if factor is not None and (forward_pass.checked or not factor.is_cuda) and float(factor) != 1:
            raise GuaranteeError(
                "the loss was multiplied or transformed after private.loss, which may hold a fact about all rows: do "
                "it inside loss_fn. A GradScaler is not needed with bfloat16. Gradients of batches are not added up "
                "(gradient_accumulation_steps=1, accumulate_grad_batches=1); to spare memory pass "
                "Sampling(max_physical_batch_size=...)."
            )
        forward_pass.begin_backward()
        try:
            if self.state.recording:
                self.state.sums.mask(forward_pass.examples)
            else:
                self.state.begin_backward(forward_pass.rows)
            torch.autograd.backward([end for end, _ in flowing], [gradient for _, gradient in flowing])
        finally:
            forward_pass.sending, forward_pass.ended = False, True
            forward_pass.let_go()
        with undisturbed(self.state.sums.flat):
            self._accumulator.finish(forward_pass)

    def _enter(self, forward_pass: ForwardPass, *, again: bool) -> None:
        """Refuse gradients that come in another backward than the one that `send_back` runs."""
        if again:
            raise GuaranteeError(RUN_AGAIN)
        if not forward_pass.sending:
            raise GuaranteeError(NOT_PER_SAMPLE)
