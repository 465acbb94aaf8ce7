"""The state of a step, in one value: from the batch that the loader hands out to the step that uses it up.

    no batch -> batch -> outputs -> backward -> sums -> no batch
                  ^                    |
                  +------- part <------+      a batch that comes in parts

Everything that happens to a step is one of the methods here. `docs/dpsgd/step.md` draws the phases and the calls that
lead from one to the next.
"""

from dataclasses import dataclass, field
from typing import Literal, get_args

from torch import Tensor, nn

from inid.dpsgd.forward_pass import ForwardPass
from inid.dpsgd.grad_sample.clipped_sums import Rule, Sums
from inid.dpsgd.sampling.batch_state import BatchState

Phase = Literal["no batch", "batch", "outputs", "backward", "part", "sums"]
PHASES: tuple[Phase, ...] = get_args(Phase)


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
        if forward is not None and not forward.ended and drawn.seen:
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
