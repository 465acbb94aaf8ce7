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

from inid.dpsgd.rows.clipped_sums import Rule, Sums
from inid.dpsgd.rows.forward_pass import ForwardPass
from inid.dpsgd.sampling.drawn_batch import Drawn

__all__ = ["PHASES", "Phase", "StepState"]

Phase = Literal["no batch", "batch", "outputs", "backward", "part", "sums"]
PHASES: tuple[Phase, ...] = get_args(Phase)


@dataclass(eq=False)
class StepState:
    """What is known of the step under way.

    Attributes:
        drawn: What the loader has handed out, and what of it has been used.
        sums: The clipped sums of the batch so far.
        rule: How rows are clipped until the step.
        running: The forward that is under way; None between forwards.
        latest: The latest forward, with what its backward has gathered.
        recording: Whether a forward and backward are being recorded, not run.
        adding_up: Whether a part of a batch was handed to `optimizer.step()`, and it was not the last.
        given: The gradients that the last step handed to the parameters.
    """

    drawn: Drawn
    sums: Sums
    rule: Rule
    running: ForwardPass | None = None
    latest: ForwardPass | None = None
    recording: bool = False
    adding_up: bool = False
    given: dict[nn.Parameter, Tensor] = field(default_factory=dict)

    @property
    def phase(self) -> Phase:
        """How far the step has come.

        "no batch": the last batch was used up; "batch": one is out, and nothing was done with it; "outputs": the model
        was run on it; "backward": gradients flow; "part": a physical batch is in the sums, and others are to come;
        "sums": all of the batch is in the sums.
        """
        drawn, turn = self.drawn, self.latest
        if drawn.stepped == drawn.batch:
            return "no batch"
        if turn is not None and not turn.ended and drawn.seen:
            return "outputs" if turn.task is None else "backward"
        if drawn.fresh:
            return "batch"
        return "sums" if drawn.complete else "part"

    def begin_forward(self, turn: ForwardPass) -> None:
        """The model is run on what was handed out."""
        self.drawn.see(turn.rows)
        if self.latest is not None:
            self.latest.let_go()
        self.running = self.latest = turn

    def end_forward(self) -> None:
        """The model gave its outputs back, or failed."""
        self.running = None

    def begin_backward(self, rows: int) -> None:
        """Gradients of these many rows are about to be added.

        Raises:
            GuaranteeError: The loader did not hand them out for this, or they were used.
        """
        self.sums.begin(self.drawn.admit(rows, begun=self.sums.begun))

    def begin_replay(self, rows: int) -> None:
        """A recorded forward and backward are about to run on what was handed out."""
        self.latest = None
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
        self.adding_up = False
