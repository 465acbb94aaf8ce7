"""The state of a step, in one value: from the batch that the loader hands out to the step that uses it up.

    no batch -> batch -> outputs -> backward -> sums -> no batch
                  ^                    |
                  +------- part <------+      a batch that comes in parts

Everything that happens to a step is one of the methods here. `docs/dpsgd/step.md` draws the phases and the calls that
lead from one to the next.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast, get_args
from weakref import WeakMethod, ref

from torch import Tensor, nn

from inid.dpsgd.grad_sample.call_plan import CallPlan, Probe, Unit
from inid.dpsgd.grad_sample.clipped_sums import GroupGrads, Rule, Sums
from inid.dpsgd.grad_sample.stacked_layers import Waiting
from inid.dpsgd.sampling.batch_state import BatchState
from inid.errors import GuaranteeError

Phase = Literal["no batch", "batch", "outputs", "backward", "part", "sums"]
PHASES: tuple[Phase, ...] = get_args(Phase)


NOT_PER_SAMPLE = (
    "this loss was not taken row by row, so that one example could change the gradients of others: write "
    "private.backward(loss_fn, outputs, *targets), or loss = private.loss(loss_fn, outputs, *targets) and "
    "loss.backward(), where loss_fn gets the outputs and targets of one row and returns one number."
)

EARLIER = (
    "backward reached an earlier forward of the private module, which would count examples twice: call the module once "
    "per batch and backward before the next batch; a module that runs several forwards for one loss calls them in its "
    "own forward."
)

RUN_AGAIN = (
    "a layer was run in the backward and its gradient taken there, or in another way than in the forward: pass "
    "use_reentrant=False to torch.utils.checkpoint."
)


class Output(NamedTuple):
    """A tensor that the model returned: where its rows lie, and how often it and its hooks were changed before."""

    tensor: Tensor
    along: int | None
    version: int
    hooks: int


@dataclass(eq=False)
class ForwardPass:
    """What is known about a forward, and what its backward has gathered."""

    rows: int
    views: int
    plan: CallPlan
    calls: int = 0
    flowed: Callable[..., None] | None = None
    waiting: dict[int, int] = field(default_factory=dict)
    grads: dict[int, GroupGrads] = field(default_factory=dict)
    stacked: Waiting = field(default_factory=Waiting)
    done: set[int] = field(default_factory=set)
    begun: bool = False  # the backward
    sending: bool = False
    ended: bool = False
    checked: bool = False
    foreign: bool = False  # the model was called with something else than the drawn batch
    outputs: list[Output] = field(default_factory=list)
    probe: Probe | None = None

    @property
    def examples(self) -> int:
        """How many examples the rows are, padding included."""
        return self.rows // self.views

    def planned_call(self, unit: Unit, leaves: list[Any], *, again: bool) -> int:
        """Which call of the plan a layer is being called for: the next one, or any where a backward runs it again."""
        calls, at = self.plan.calls, self.calls
        if not again:
            while at < len(calls):
                if calls[at].fits(unit, leaves, self.rows):
                    self.calls = at + 1
                    return at
                if not self.plan.by_chance:  # layer drop: some of the calls are left out
                    break
                at += 1
            raise CallsChanged(unit)
        for at, call in enumerate(calls):
            if call.fits(unit, leaves, self.rows):
                return at
        raise GuaranteeError(RUN_AGAIN)

    @property
    def complete(self) -> bool:
        """Whether all layers were called; by chance some are not."""
        return self.calls == len(self.plan.calls) or self.plan.by_chance

    def note_outputs(self, leaves: Iterable[Any], along: Iterable[int | None]) -> None:
        """Note what the model returned."""
        self.outputs = [
            Output(leaf, at, leaf._version, _hooks(leaf))  # noqa: SLF001 - the only way to see a change in place
            for leaf, at in zip(leaves, along, strict=False)
            if isinstance(leaf, Tensor)
        ]

    def output_at(self, tensor: Tensor) -> Output | None:
        """What a tensor is of what the model returned, also where it was cast since, as frameworks do."""
        node = cast("Any", tensor.grad_fn)
        cast_of = None
        if node is not None and node.name() == "ToCopyBackward0" and not tensor._version:  # noqa: SLF001 - as above
            cast_of = tuple(node.next_functions[0])
        for output in self.outputs:
            edges = output.tensor
            edge = (edges.grad_fn, edges.output_nr)
            if tensor is edges or (cast_of == edge and tensor.shape == edges.shape):
                if edges._version != output.version:  # noqa: SLF001 - as above
                    raise GuaranteeError(
                        "an output was written over in place between the forward and the loss, so that its rows may "
                        "have met: hand over the module's outputs as they came; calculate inside loss_fn."
                    )
                if _hooks(edges) > output.hooks or (tensor is not edges and _hooks(tensor)):
                    raise GuaranteeError(
                        "a hook was put on an output outside the forward of the private module, where it could carry "
                        "one row's gradient into others: register it inside the forward, where it is checked."
                    )
                return output
        return None

    def check_inputs(self) -> None:
        """Refuse a loss over something else than the drawn batch."""
        if self.foreign:
            raise GuaranteeError(
                "the private module was called with a tensor that is not one of the drawn batch as it came, so that it "
                "may be made of other rows: is this batch from private.data_loader? Pass the loader's tensors, and "
                "make whatever is made of them (scaled inputs, masks, noise) inside the module's forward."
            )

    def begin_backward(self) -> None:
        """Refuse a second backward."""
        if self.begun:
            raise GuaranteeError(
                "backward ran twice over one forward, which would count every example twice: take one loss of all "
                "that the model returned, and call backward once."
            )
        self.begun = self.sending = True

    def let_go(self) -> None:
        """Hold on to no graph any more."""
        self.outputs.clear()

    def scale(self, *, mean: bool) -> float:
        """What turns the sum over the rows of one example into the mean over its views, for a mean or summed loss.

        A mean over all rows divides by their number, which is examples times views; a sum divides by nothing.
        """
        return float(self.examples) if mean else 1 / self.views


def _hooks(tensor: Tensor) -> int:
    """How many hooks of the user's a tensor has; torch's own sharding changes no gradient by its."""
    hooks = (tensor._backward_hooks or {}).values()  # noqa: SLF001 - torch has no public name for it
    theirs = ("inid.", "torch.distributed.")
    return sum(not (getattr(hook, "__module__", None) or "inid.").startswith(theirs) for hook in hooks)


class CallsChanged(BaseException):
    """The model calls other layers than planned, or in another way."""

    def __init__(self, unit: Unit | None = None) -> None:
        super().__init__()
        self.unit = unit


class LayerFailedError(Exception):
    """A layer that is run example by example could not be, on made-up examples."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit.title)
        self.unit = unit


def graph_hook(collect: Callable[..., None], forward_pass: ForwardPass, *others: object) -> Callable[..., None]:
    """A method with a forward and other arguments as a hook; what comes in the backward follows them.

    The method's object and the forward are not kept. They are there for the latest forward of a training.
    """
    weak_collect, forward_there = WeakMethod(collect), ref(forward_pass)

    def hook(*come: Any) -> None:
        collector, at = weak_collect(), forward_there()
        if collector is None or at is None:
            raise GuaranteeError(EARLIER)
        collector(at, *others, *come)

    return hook


@dataclass(eq=False)
class StepState:
    """What is known of the step under way."""

    drawn: BatchState
    sums: Sums
    rule: Rule
    running: ForwardPass | None = None
    latest: ForwardPass | None = None
    recording: bool = False
    adding_up: bool = False
    given: dict[nn.Parameter, Tensor] = field(default_factory=dict)
    used: set[nn.Parameter] | None = field(
        default_factory=set
    )  # what layers of this step train; None of a recorded one

    @property
    def phase(self) -> Phase:
        """How far the step has come.

        "no batch": the last batch was used up; "batch": one is out, and nothing was done with it; "outputs": the model
        was run on it; "backward": gradients flow; "part": a physical batch is in the sums, and others are to come;
        "sums": all of the batch is in the sums.
        """
        drawn, forward = self.drawn, self.latest
        if drawn.stepped == drawn.batch:
            return "no batch"
        if forward is not None and not forward.ended and drawn.was_run:
            return "backward" if forward.begun else "outputs"
        if drawn.fresh:
            return "batch"
        return "sums" if drawn.complete else "part"

    def begin_forward(self, forward: ForwardPass) -> None:
        """The model is run on what was handed out."""
        self.drawn.see(forward.rows)
        if self.latest is not None:
            self.latest.let_go()
        self.running = self.latest = forward

    def end_forward(self) -> None:
        """The model gave its outputs back, or failed."""
        self.running = None

    def begin_backward(self, rows: int) -> None:
        """Gradients of these many rows are about to be added."""
        self.sums.begin(self.drawn.admit(rows, begun=self.sums.begun))

    def begin_replay(self, rows: int) -> None:
        """A recorded forward and backward are about to run on what was handed out."""
        self.latest = self.used = None
        self.drawn.see(rows)
        self.begin_backward(rows)

    def keep_part(self) -> bool:
        """Whether the latest physical batch was not the last: then its sums are kept until the others have come."""
        self.adding_up = self.adding_up or not self.drawn.complete
        return not self.drawn.complete

    def throw_away(self) -> None:
        """Forget gradients, so that the batch may be used again; the sums of earlier parts of a batch are kept."""
        if not self.adding_up or self.drawn.used != self.drawn.batch:
            if self.sums.begun:
                self.sums.clear()
                self.drawn.renew()
            self.adding_up = False
        self.given.clear()

    def clear(self) -> None:
        """The sums have been used, or are worth nothing any more."""
        self.sums.clear()
        self.used = set()
        self.adding_up = False
