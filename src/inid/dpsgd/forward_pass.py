"""One forward of a private model and the backward that belongs to it."""

from dataclasses import dataclass, field

from inid.dpsgd.call_plan import CallPlan
from inid.dpsgd.clipped_sums import GroupRows
from inid.dpsgd.stacked_layers import Waiting

__all__ = ["CallsChanged", "ForwardPass"]


@dataclass(eq=False)
class ForwardPass:
    """What is known about a forward, and what its backward has gathered.

    Attributes:
        rows: How many rows the model sees, padding included.
        views: How many rows in a row are views of one example, whose gradients are averaged and clipped once.
        plan: Which layers it calls, and how.
        calls: How many of the plan's calls have been made.
        waiting: For every group, how many gradients are still to come.
        gathered: For every group, the rows that have come.
        stacked: What flowed to layers that wait for others like them.
        done: The groups that have been clipped and added.
        task: The backward in which gradients have come, by torch's number for it; None before.
        ended: Whether the backward is over.
    """

    rows: int
    views: int
    plan: CallPlan
    calls: int = 0
    waiting: dict[int, int] = field(default_factory=dict)
    gathered: dict[int, GroupRows] = field(default_factory=dict)
    stacked: Waiting = field(default_factory=Waiting)
    done: set[int] = field(default_factory=set)
    task: int | None = None
    ended: bool = False

    @property
    def examples(self) -> int:
        """How many examples the rows are, padding included."""
        return self.rows // self.views

    def scale(self, *, mean: bool) -> float:
        """What turns the sum over the rows of one example into the mean over its views, for a mean or summed loss.

        A mean over all rows divides by their number, which is examples times views; a sum divides by nothing.
        """
        return float(self.examples) if mean else 1 / self.views


class CallsChanged(BaseException):
    """The model calls other layers than planned."""
