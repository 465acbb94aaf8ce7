"""One forward of a private model and the backward that belongs to it."""

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast
from weakref import WeakMethod, ref

from torch import Tensor, nn

from inid.dpsgd.grad_sample.call_plan import CallPlan, Probe
from inid.dpsgd.grad_sample.clipped_sums import GroupGrads
from inid.dpsgd.grad_sample.output_leaves import along_rows
from inid.dpsgd.grad_sample.stacked_layers import Waiting
from inid.dpsgd.grad_sample.units import Unit
from inid.dpsgd.loss.graph import LossGraph
from inid.dpsgd.loss.nodes import Edge, edge_of
from inid.dpsgd.loss.output_tracking import OutputTracking
from inid.dpsgd.loss.outside_hooks import check_hooks
from inid.dpsgd.sampling.batch_state import BatchState, same_values
from inid.errors import GuaranteeError

EARLIER = (
    "backward reached an earlier forward of the private module, which would count examples twice: call the module once "
    "per batch and backward before the next batch."
)

RUN_AGAIN = (
    "a layer was run in the backward and its gradient taken there, or in another way than in the forward: pass "
    "use_reentrant=False to torch.utils.checkpoint."
)


@dataclass(eq=False)
class ForwardPass:
    """What is known about a forward, and what its backward has gathered."""

    rows: int
    views: int
    plan: CallPlan
    calls: int = 0
    flowed: Callable[..., None] | None = None
    waiting: dict[int, int] = field(default_factory=dict)
    gathered: dict[int, GroupGrads] = field(default_factory=dict)
    stacked: Waiting = field(default_factory=Waiting)
    done: set[int] = field(default_factory=set)
    task: int | None = None
    ended: bool = False
    by_rows: dict[Edge, int] = field(default_factory=dict)
    returned: set[Edge] = field(default_factory=set)
    plain: list[tuple[Tensor, int]] = field(default_factory=list)
    judged: bool = False
    look: bool = False
    given: list[tuple[Tensor, Edge, int, Tensor | None]] = field(default_factory=list)
    followed: OutputTracking | None = None
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

    def note_output(self, leaves: Iterable[Any], along: Iterable[int | None], *, whole: bool) -> None:
        """Note what a layer, or the whole model, gives back by rows."""
        for leaf, at in zip(leaves, along, strict=False):
            if whole and isinstance(leaf, Tensor) and not leaf.requires_grad:
                self.plain.append((leaf, leaf._version))  # noqa: SLF001 - the only way to see a change in place
            edge = edge_of(leaf) if at is not None and isinstance(leaf, Tensor) else None
            if edge is not None and at is not None and leaf.shape[at] % self.rows == 0:
                self.by_rows[edge] = at
                if whole:
                    self.returned.add(edge)
                    copy = leaf.detach().clone() if self.look else None
                    self.given.append((leaf, edge, leaf._version, copy))  # noqa: SLF001 - as above

    def follow(self, leaves: Iterable[Any], drawn: BatchState) -> None:
        """Follow what the model gives back, until the backward."""
        self.followed = OutputTracking(LossGraph(self.by_rows, self.rows, lenient=True), drawn)
        self.followed.follow(leaf for leaf in leaves if isinstance(leaf, Tensor) and edge_of(leaf) in self.returned)

    def aside(self) -> AbstractContextManager[None]:
        """Let outputs be tensors like any others for a while."""
        return nullcontext() if self.followed is None else self.followed.put_aside()

    def check_outputs(self, ends: Iterable[Edge] = ()) -> None:
        """Refuse outputs that were written over without gradients, and losses that met what mixes rows."""
        with self.aside():
            for leaf, edge, version, copy in self.given:
                # With gradients, writing in place is a part of the graph.
                written = leaf._version != version or (copy is not None and not same_values(leaf, copy))  # noqa: SLF001 - as above
                if written and edge_of(leaf) == edge:
                    raise GuaranteeError(
                        "an output was written over in place without gradients between the forward and the loss, so "
                        "that its rows may have met: hand over the module's outputs as they came; calculate inside "
                        "loss_fn."
                    )
            if self.followed is not None:
                self.followed.check(ends)

    def judge(
        self, ends: list[Edge], known: Collection[nn.Parameter], kept: Callable[[], list[Tensor]], *, handed: bool
    ) -> bool:
        """Look at the loss of a backward that is about to begin; says whether it is made of this forward."""
        try:
            reached = LossGraph(self.by_rows, self.rows, known).check(ends)
        except GuaranteeError:
            before, leaves = len(self.by_rows), kept()
            self.note_output(leaves, [along_rows(leaf, self.rows) for leaf in leaves], whole=False)
            if len(self.by_rows) == before:
                raise
            reached = LossGraph(self.by_rows, self.rows, known).check(ends)
        if reached and handed:
            raise GuaranteeError(
                "a tensor was handed to backward as its gradient, which may hold a fact about all rows: call "
                "loss.backward() without it and multiply the loss by a Python number before, or pass one loss per row "
                "to private.backward(losses)."
            )
        if reached:
            self.check_outputs(ends)
            check_hooks(ends)
            self._unfollow()
        self.judged = True
        return reached

    def check_backward(self, task: int, *, latest: bool) -> None:
        """Refuse a gradient that does not come in the one backward of the latest forward, whose loss was looked at."""
        if self.ended or self.task not in {None, task}:
            raise GuaranteeError(
                "backward ran twice over one forward, which would count every example twice: add the losses up and "
                "call backward once."
            )
        if not latest:
            raise GuaranteeError(EARLIER)
        if not self.judged:
            raise GuaranteeError(
                "a backward reached the private module whose loss could not be looked at: start it by "
                "loss.backward() or private.backward(...)."
            )

    def gave(self, tensor: Tensor) -> bool:
        """Whether a tensor that needs no gradient is one that the model gave back, as it was then."""
        return any(each is tensor and version == tensor._version for each, version in self.plain)  # noqa: SLF001 - as above

    def returned_as(self, tensor: Tensor, *, look: bool) -> Edge | None:
        """Where the model gave a tensor back, also where it was cast since, as frameworks do; None if it did not."""
        edge = edge_of(tensor)
        if edge is None or edge in self.returned:
            return edge
        node = cast("Any", edge[0])
        if node.name() != "ToCopyBackward0" or tensor._version:  # noqa: SLF001 - as above
            return None
        for output, before, _, _ in self.given:
            if tuple(node.next_functions[0]) == before and output.shape == tensor.shape:
                same = not look or same_values(tensor, output.detach().to(tensor))
                return before if same else None
        return None

    def let_go(self) -> None:
        """Hold on to no graph any more."""
        self.by_rows.clear()
        self.returned.clear()
        self.plain.clear()
        self._unfollow()

    def _unfollow(self) -> None:
        self.given.clear()
        if self.followed is not None:
            self.followed.let_go()
            self.followed = None

    def scale(self, *, mean: bool) -> float:
        """What turns the sum over the rows of one example into the mean over its views, for a mean or summed loss.

        A mean over all rows divides by their number, which is examples times views; a sum divides by nothing.
        """
        return float(self.examples) if mean else 1 / self.views


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
    held, turn_there = WeakMethod(collect), ref(forward_pass)

    def hook(*come: Any) -> None:
        found, at = held(), turn_there()
        if found is None or at is None:
            raise GuaranteeError(EARLIER)
        found(at, *others, *come)

    return hook
