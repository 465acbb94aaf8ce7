"""One forward of a private model and the backward that belongs to it."""

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, cast

from torch import Tensor, nn

from inid.dpsgd.kernels.stacked_layers import Waiting
from inid.dpsgd.loss.followed_outputs import FollowedOutputs
from inid.dpsgd.loss.graph import LossGraph
from inid.dpsgd.loss.nodes import Edge, edge_of
from inid.dpsgd.loss.outside_hooks import check_hooks
from inid.dpsgd.rows.clipped_sums import GroupRows
from inid.dpsgd.rows.units import Unit
from inid.dpsgd.sampling.drawn_batch import Drawn, same_values
from inid.dpsgd.trial.call_plan import CallPlan
from inid.dpsgd.trial.model_outputs import along_rows
from inid.errors import GuaranteeError

__all__ = ["EARLIER", "RUN_AGAIN", "CallsChanged", "ForwardPass"]

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
    """What is known about a forward, and what its backward has gathered.

    Attributes:
        rows: How many rows the model sees, padding included.
        views: How many rows in a row are views of one example, whose gradients are averaged and clipped once.
        plan: Which layers it calls, and how.
        calls: How many of the plan's calls have been made.
        flowed: What a graph calls with what flows back to a layer that has a rule (see `graph_hooks`).
        waiting: For every group, how many gradients are still to come.
        gathered: For every group, the rows that have come.
        stacked: What flowed to layers that wait for others like them.
        done: The groups that have been clipped and added.
        task: The backward in which gradients have come, by torch's number for it; None before.
        ended: Whether the backward is over.
        by_rows: Where layers and the model gave tensors back, and along which dimension of each the rows lie.
        returned: Those of them that the model gave back.
        plain: The other tensors that the model gave back, and how often each had been written to.
        judged: Whether the loss has been looked at whose backward is to come.
        look: Whether what becomes of the outputs is looked at.
        given: The tensors that the model gave back with a graph, where each comes from in it, how often it had been
            written to, and its values at a look.
        followed: What follows them at a look.
    """

    rows: int
    views: int
    plan: CallPlan
    calls: int = 0
    flowed: Callable[..., None] | None = None
    waiting: dict[int, int] = field(default_factory=dict)
    gathered: dict[int, GroupRows] = field(default_factory=dict)
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
    followed: FollowedOutputs | None = None

    @property
    def examples(self) -> int:
        """How many examples the rows are, padding included."""
        return self.rows // self.views

    def planned_call(self, unit: Unit, leaves: list[Any], *, again: bool) -> int:
        """Which call of the plan a layer is being called for: the next one, or any where a backward runs it again.

        Raises:
            CallsChanged: The plan has another call here.
            GuaranteeError: The backward runs a layer that the forward did not run so.
        """
        calls, at = self.plan.calls, self.calls
        if not again:
            self.calls = at + 1
            if at < len(calls) and calls[at].fits(unit, leaves, self.rows):
                return at
            raise CallsChanged
        for at, call in enumerate(calls):
            if call.fits(unit, leaves, self.rows):
                return at
        raise GuaranteeError(RUN_AGAIN)

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

    def follow(self, leaves: Iterable[Any], drawn: Drawn) -> None:
        """Follow what the model gives back, until the backward."""
        self.followed = FollowedOutputs(LossGraph(self.by_rows, self.rows, lenient=True), drawn)
        self.followed.follow(leaf for leaf in leaves if isinstance(leaf, Tensor) and edge_of(leaf) in self.returned)

    def aside(self) -> AbstractContextManager[None]:
        """Let outputs be tensors like any others for a while."""
        return nullcontext() if self.followed is None else self.followed.put_aside()

    def check_outputs(self, ends: Iterable[Edge] = ()) -> None:
        """Refuse outputs that were written over without gradients, and losses that met what mixes rows.

        Args:
            ends: Where the losses come from.
        """
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
        """Look at the loss of a backward that is about to begin; says whether it is made of this forward.

        Args:
            ends: Where it begins.
            known: The parameters of the model.
            kept: Gives tensors that the model keeps as attributes: asked for where the loss is made of others, too.
            handed: Whether the caller handed gradients to the backward.

        Raises:
            GuaranteeError: The loss may mix rows.
        """
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
        """Refuse a gradient that does not come in the one backward of the latest forward, whose loss was looked at.

        Args:
            task: Torch's number for the backward.
            latest: Whether this is the latest forward.
        """
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
        """Where the model gave a tensor back, also where it was cast since, as frameworks do; None if it did not.

        Args:
            tensor: An output, or a copy of one in another type, which is made of the same rows.
            look: Whether the values of a copy are looked at: they could be written over without gradients.
        """
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
    """The model calls other layers than planned."""
