"""Where per-example gradients come from: the forward of the model and of its layers is wrapped.

While a layer runs its parameters are frozen, so that autograd does not spend time on summed gradients that nobody may
use; a hook on its output gets the gradient that flows back and works out the rows, one per example. A group's rows are
clipped as soon as the last of its layers is done, so that per-layer clipping never holds more than one layer's rows.

What the layers are called with is found out on made-up examples (see `call_plan`). One backward may follow each
forward, over one physical batch: a second backward, or two forwards under one, would count a person more than once.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import skip_init
from torch.utils import _pytree as pytree

from inid.dpsgd.layers import rule_of
from inid.dpsgd.loss.backward_calls import listen
from inid.dpsgd.loss.loop_checks import check_reduction, watched
from inid.dpsgd.loss.nodes import Edge
from inid.dpsgd.loss.outside_hooks import inside_model
from inid.dpsgd.parallel.sharded_parameters import is_sharded
from inid.dpsgd.rows.bare_parameters import marks_of, run_with_rows, with_marks
from inid.dpsgd.rows.forward_pass import RUN_AGAIN, CallsChanged, ForwardPass
from inid.dpsgd.rows.gathered_rows import GatheredRows, Places
from inid.dpsgd.rows.gradient_rows import Dense
from inid.dpsgd.rows.graph_hooks import graph_hook
from inid.dpsgd.rows.layers_with_rule import run_with_rule
from inid.dpsgd.rows.layers_without_rule import run_without_rule
from inid.dpsgd.rows.parameters_in_place import in_place
from inid.dpsgd.rows.units import Unit, parent_unit, trained_in, units_of
from inid.dpsgd.rows.walked_model import WalkedModel
from inid.dpsgd.rows.wrapped_forward import (
    WRITTEN,
    FunctionalLinear,
    Kept,
    WrappedForward,
    first_tensor,
    frozen,
    leaves_of,
    repeated,
    rows_in,
    undisturbed,
    unseen,
)
from inid.dpsgd.step_state import StepState
from inid.dpsgd.trial.call_plan import CallPlan, OtherwiseDividedError, SameForAllError
from inid.dpsgd.trial.examples import MadeUp
from inid.dpsgd.trial.model_outputs import output_leaves
from inid.dpsgd.trial.plain_state import kept_tensors
from inid.dpsgd.trial.runs import Trial
from inid.dpsgd.trial.selected_rows import SelectedRows
from inid.dpsgd.trial.trace import Trace
from inid.dpsgd.trial.watched_settings import Settings
from inid.errors import GuaranteeError

__all__ = ["PerExampleGradients"]


class PerExampleGradients:
    """Adds the clipped rows of a model's layers to the step's sums in every backward.

    Attributes:
        state: How far the step under way has come.
        sharded: Whether the model's parameters are spread over processes.
        settings: What else the model computes by, besides its input.
    """

    def __init__(
        self,
        module: nn.Module,
        places: Places,
        state: StepState,
        *,
        mean: bool,
        example: object = None,
    ) -> None:
        self.state = state
        self._gathered = GatheredRows(places, state, mean=mean)
        self._places, self._mean, self._example = places, mean, example
        self._names = {p: name for name, p in module.named_parameters()}
        self.sharded = any(map(is_sharded, places))
        self._kind = next(iter(places)).dtype
        self._module = module
        self._walked = WalkedModel(module, places, sharded=self.sharded)
        self._plans: dict[object, CallPlan] = {}
        self.settings = Settings()
        self._runs: Counter[object] = Counter()  # forwards of each kind with these settings
        self._widened: set[nn.Module] = set()  # parents of layers that are taken as one
        self._tied: dict[nn.Parameter, Unit] | None = None  # weights used by functional.linear, once it was seen
        self._trace: Trace | None = None  # a run on made-up examples is under way
        self._selected: SelectedRows | None = None  # and it is looked for rows that were selected by their values
        self._reduction_known = False  # whether the first loss has been compared with loss_reduction
        self._marks = torch.empty(0)  # the rows' own, in such a run
        self._inside = False  # a layer that is run example by example is under way
        units = units_of(module)
        self._gathered.uses.update(parameter for unit in units for parameter in unit.parameters.values())
        self._gathered.stacking = not self.sharded
        self._wrapped = [WrappedForward(unit.layer, partial(self._run_layer, unit)) for unit in units]
        self._bare = [(unit, own) for unit, own in zip(units, self._wrapped, strict=True) if unit.bare]
        self._wrapped.append(WrappedForward(module, self._run_module))  # around its own layer, where the model is one
        listen(self)

    @property
    def lost(self) -> dict[nn.Parameter, float]:
        """By weight, what allowances for rounding typically cost of a clipped gradient."""
        return self._gathered.lost

    def remove(self) -> None:
        """Take the wrappers off the model again."""
        for wrapped in reversed(self._wrapped):
            wrapped.undo()

    def record(self, work: Callable[[], Any]) -> int:
        """Call what records a forward and backward without running them; admits nothing, and gives their rows."""
        self.state.latest, self.state.recording, self._gathered.stacking = None, True, False
        try:
            work()
        finally:
            self.state.recording, self._gathered.stacking = False, not self.sharded
        if (turn := cast("ForwardPass | None", self.state.latest)) is None or not turn.ended:
            raise GuaranteeError("no backward over the private module was recorded: let loss() call the module.")
        return turn.rows

    def begin_replay(self, rows: int) -> None:
        """Make the checks of a forward and of its backward, before a recorded one runs on what the loader gave."""
        self._walked = self._walked.now()
        self._walked.check_parameters(self._names, self._kind)
        self.state.begin_replay(rows)

    def _run_module(self, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not torch.is_grad_enabled() or self._trace is not None or self.state.running is not None:
            return forward(*args, **kwargs)
        self._walked = self._walked.now()
        self._walked.check_parameters(self._names, self._kind)
        rows = rows_in(args, kwargs)
        made_up = MadeUp(args, kwargs, rows, self._module, self._example)
        if not self.sharded and self.settings.changed(self._walked.parts):
            self._runs = Counter()
        signature = made_up.signature(training=self._module.training)
        counted = None if self.sharded else signature  # processes that share a model look together
        self._runs[counted] += 1
        # A model may do something else later, or by chance: it is tried again at forwards 2, 4, 8, ...
        look = self._runs[counted].bit_count() == 1 and not self.state.recording
        if look:
            self._plans.pop(signature, None)
        for _ in range(2):
            if signature not in self._plans:
                run, alone = partial(self._traced, forward), partial(forward, *args, **kwargs)
                thorough = not look or self._runs[counted] == 1
                device, ways = self.state.sums.flat.device, (self._widen, self._whole)
                trial = Trial(run, made_up, self._module, device, self.sharded, thorough, *ways)
                self._plans[signature] = trial.plan(alone)
                self._walked = self._walked.now()
            try:
                turn = ForwardPass(rows, self.state.drawn.views_of(rows), self._plans[signature], look=look)
                return self._run_pass(forward, args, kwargs, turn)
            except CallsChanged:
                del self._plans[signature]  # to be found out anew
        raise GuaranteeError(
            "the private module calls its layers in an order that changes from one forward to the next: let the calls "
            "depend neither on the examples nor on chance (layer drop)."
        )

    def _run_pass(
        self, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], turn: ForwardPass
    ) -> Any:
        before = self._walked.versions()
        turn.flowed = graph_hook(self._collect_rows, turn)
        self._gathered.expect(turn)
        self.state.begin_forward(turn)
        try:
            with inside_model(), self._functional_calls():
                output = forward(*args, **kwargs)
        finally:
            self.state.end_forward()
        if turn.calls != len(turn.plan.calls):
            raise CallsChanged
        self._walked = self._walked.now()
        if self._walked.versions() != before:
            raise GuaranteeError(WRITTEN)
        turn.note_output(output_leaves(output), turn.plan.output, whole=True)
        if not self.sharded:
            self.settings.note(self._walked.parts)
        output = watched(output, first_tensor(args, kwargs), self.state.drawn, mean=self._mean)
        if turn.look:
            turn.follow(output_leaves(output), self.state.drawn)
        return output

    def _run_layer(self, unit: Unit, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._inside or not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        if self._trace is not None:
            return self._trace_layer(self._trace, unit, forward, args, kwargs)
        again = torch._C._current_graph_task_id() != -1  # noqa: SLF001 - inside a backward: activation checkpointing
        turn = self.state.latest if again else self.state.running
        if turn is None:
            raise GuaranteeError(
                f"layer {unit.name!r} was called outside the forward of the private module: call the whole module, or "
                "wrap what is not training in torch.no_grad()."
            )
        if unit in turn.plan.shared:
            args = repeated(args, turn.rows)
        at = turn.planned_call(unit, [] if unit.bare else leaves_of(args, kwargs), again=again)
        return self._run_planned(turn, at, forward, args, kwargs, again=again)

    def _run_planned(
        self,
        turn: ForwardPass,
        at: int,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        again: bool,
    ) -> Any:
        unit = (call := turn.plan.calls[at]).unit
        if unit.bare:
            return run_with_rows(
                unit, forward, args, kwargs, turn.rows, graph_hook(self._collect_leaf, turn, at, again)
            )
        if unit.rule is None:
            self._inside = True
            try:
                ways = [graph_hook(way, turn, at, again) for way in (self._collect_positions, self._collect_leaf)]
                made = run_without_rule(call, forward, args, kwargs, turn.examples, turn.views, *ways)
            finally:
                self._inside = False
            # Sharding puts hooks on the output, which a change in place would lose if it were a view.
            made = pytree.tree_map_only(Tensor, torch.clone, made) if self.sharded else made
            turn.note_output(pytree.tree_leaves(made), call.joined, whole=False)
            return made
        flowed = graph_hook(self._collect_again, turn) if again else partial(cast("Any", turn.flowed), at)
        output = run_with_rule(unit, forward, args, kwargs, flowed)
        turn.by_rows[output.grad_fn, output.output_nr] = 0
        return output

    def _widen(self, error: SameForAllError | OtherwiseDividedError) -> None:
        """Take the parent of a layer whose input is not divided by example as one layer, run example by example."""
        if error.unit.bare and self._whole():
            return
        parent = parent_unit(self._module, error.unit, self._widened)
        if parent is None:
            raise error
        self._widened.add(parent.layer)
        self._gathered.uses.update(parent.parameters.values())
        self._gathered.forget()
        self._wrapped.append(WrappedForward(parent.layer, partial(self._run_layer, parent)))

    def _whole(self) -> bool:
        """Take modules with bare parameters as one layer each, run example by example; says whether there are any."""
        found, self._bare = self._bare, []
        for unit, wrapped in found:
            whole = Unit(unit.name, unit.layer, None, trained_in(unit.layer))
            self._gathered.uses.update(whole.parameters.values())
            self._gathered.forget()
            wrapped.run = partial(self._run_layer, whole)
        return bool(found)

    def _traced(
        self,
        forward: Callable[..., Any],
        within: AbstractContextManager[object],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        begin: Callable[[int], Trace],
    ) -> Trace:
        for _ in range(2):
            trace = self._trace = begin(rows_in(args, kwargs))
            self._marks = marks_of(cast("Tensor", first_tensor(args, kwargs))) if self._bare else self._marks
            together = type(trace) is Trace and trace.examples > 1
            self._selected = SelectedRows(pytree.tree_leaves((args, kwargs))) if together else None
            try:
                before = kept_tensors(self._module)
                with within, inside_model(), self._functional_calls(), self._selected or nullcontext():
                    # Hooks on the whole model are a part of it; those of sharding have run already.
                    whole = forward if self.sharded else self._module._call_impl  # noqa: SLF001 - not compiled
                    output = output_leaves(whole(*args, **kwargs))
                # Whole numbers too: of outputs they are not compared.
                made = kept_tensors(self._module, map(id, before))
                output += [each if each.is_floating_point() or each.is_complex() else each.double() for each in made]
                if self.sharded:  # parameters are put away by the first backward: there is no second to look at
                    trace.grown = [[] for _ in trace.grown]
                with within:  # what is checkpointed runs again
                    outside = trace.differentiate(output, list(self._places))
            finally:
                self._trace = self._selected = None
            if not outside or self._tied is not None:
                break
            self._tied = {}  # perhaps it is a head that uses the weight of an embedding: look at functional.linear
        if outside:
            raise GuaranteeError(
                f"parameter {self._names[outside[0]]!r} is used outside the forward of its own module, where its "
                "gradient cannot be clipped by example: call the module or functional.linear(x, weight), or freeze it."
            )
        return trace

    def _trace_layer(
        self, trace: Trace, unit: Unit, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if unit.bare:
            tensors = with_marks(unit, self._marks)
            trace.note(unit, [], tuple(tensors.values()))
            with in_place(unit.layer, tensors):
                return forward(*args, **kwargs)
        if unit in trace.shared:
            args = repeated(args, trace.examples)
        leaves = leaves_of(args, kwargs)
        self._inside = True
        try:
            output = frozen(unit, forward, args, kwargs)
        finally:
            self._inside = False
        if self._selected is not None and self._selected.follow(leaves, output):
            trace.selected.append(unit)
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
            self._tied[parameter] = Unit(name, layer, rule_of(layer), {"weight": parameter})
            self._gathered.tied = self._tied
            self._gathered.forget()
        return self._run_layer(self._tied[parameter], lambda x: functional.linear(x, weight, bias), (inputs,), {})

    def _collect_rows(self, turn: ForwardPass, at: int, kept: Kept, gradients: Tensor) -> None:
        if self.state.drawn.quiet:
            return
        self._enter(turn, again=False)
        with undisturbed(gradients):
            self._gathered.take(turn, turn.plan.calls[at].unit, kept.read(), gradients.detach())

    def _collect_again(self, turn: ForwardPass, *_: object) -> None:
        if not self.state.drawn.quiet:
            self._enter(turn, again=True)

    def _collect_leaf(self, turn: ForwardPass, at: int, again: bool, name: str, leaf: Tensor) -> None:
        self._enter(turn, again=again)
        gradients = cast("Tensor", leaf.grad)
        leaf.grad = None
        with undisturbed(gradients):  # products of float32 stay so
            rows = gradients.detach().reshape(len(gradients), -1)
            if len(rows) != turn.examples:  # one for each view
                rows = rows.view(turn.examples, turn.views, -1).sum(1)
            self._gathered.add(turn, turn.plan.calls[at].unit.parameters[name], Dense(rows))

    def _collect_positions(
        self, turn: ForwardPass, at: int, again: bool, name: str, met: Tensor | None, gradients: Tensor
    ) -> None:
        unit = turn.plan.calls[at].unit
        if name in unit.parameters and not self.state.drawn.quiet:
            self._enter(turn, again=again)
            self._gathered.take_positions(turn, unit, name, met, gradients)

    def before_backward(self, ends: list[Edge], *, handed: bool) -> None:
        """Look at the loss of a backward that is about to begin; one that may mix rows is refused."""
        turn = self.state.latest
        if turn is not None and not (turn.ended or self._trace is not None or self.state.drawn.quiet):
            reached = turn.judge(ends, self._places, lambda: kept_tensors(self._module), handed=handed)
            if reached and not self._reduction_known:
                self._reduction_known = True
                check_reduction(ends, mean=self._mean)

    def _enter(self, turn: ForwardPass, *, again: bool) -> None:
        """Check, at the first gradient of a backward, that it is the one backward of the latest forward."""
        if again:
            raise GuaranteeError(RUN_AGAIN)
        task = torch._C._current_graph_task_id()  # noqa: SLF001 - a backward that broke off does not end its forward
        if turn.task == task and turn is self.state.latest and not turn.ended:
            return  # judged when it entered
        turn.check_backward(task, latest=turn is self.state.latest)
        if turn.task is None:
            turn.task = task
            if self.state.recording:
                self.state.sums.mask(turn.examples)
            else:
                self.state.begin_backward(turn.rows)
            torch.autograd.Variable._execution_engine.queue_callback(partial(self._finish, turn))  # noqa: SLF001 - what torch's own data parallel does

    def _finish(self, turn: ForwardPass) -> None:
        turn.ended = True
        turn.let_go()
        with undisturbed(self.state.sums.flat):
            self._gathered.finish(turn)
