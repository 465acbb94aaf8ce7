"""Whether a model keeps what it saw of its examples: looked for on made-up examples, from one state again and again.

**The rule.** Let a model start from one state and meet three made-up examples; and from the same state three others.
What it leaves behind must be the same (a counter that every forward raises is), but for tensors that it made anew: they
are taken for outputs, which must lie side by side by example (`call_plan`) and which the next forward must put away. So
after one more forward, on the same rows in both cases, everything must be the same, and so must what that returns: no
forward finds what an earlier one kept of its examples, in an attribute or anywhere else.

The others come again, negated, so that a sign shows, and a million times as large, so that a maximum shows that
examples have raised before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from inid.dpsgd.rows.units import Unit
from inid.dpsgd.trial.agreement import Agreement
from inid.dpsgd.trial.call_plan import CallPlan
from inid.dpsgd.trial.plain_state import PlainState
from inid.dpsgd.trial.trace import ForwardTrace, Trace
from inid.errors import GuaranteeError

__all__ = ["looked_for_state"]


@dataclass(eq=False)
class _Outcome(ForwardTrace):
    """A run of which only the output is asked for."""

    def note(self, unit: Unit, arguments: list[Any], output: object) -> None:  # noqa: ARG002 - as a trace has it
        """Note how coarse its numbers are."""
        self._round(arguments)


def looked_for_state(
    run: Callable[..., Trace],
    module: nn.Module,
    start: PlainState,
    plan: CallPlan,
    first: Any,
    others: list[Any],
    known: Trace | None = None,
) -> tuple[PlainState, Trace, GuaranteeError | None]:
    """The state that a forward leaves behind, the forward's run and, if the model is to be refused, why.

    All runs are made whatever they show: processes may run a model together.

    Args:
        run: Runs the model on arguments and arguments by name; last comes what makes a trace for a number of examples.
        module: The model.
        start: The state that it is in, and will be in again.
        plan: The plan of its calls.
        first: Made-up examples.
        others: Other such examples, several times. What the model fails at says nothing.
        known: A run on the first from that state, if there has been one that left it as it was: it is not made again.
    """
    begin, whole = partial(_Outcome, shared=plan.shared), partial(ForwardTrace, shared=plan.shared)

    def after(batch: Any, how: Callable[[int], Trace] | None = begin) -> tuple[Any, PlainState, PlainState, Trace]:
        start.put_back()
        once = run(*_copied(batch), how) if how else known
        left = PlainState(module)
        made = run(*_copied(first), begin)
        return once, left, PlainState(module), made

    refused = None
    try:
        once, left, later, made = after(first, whole if known is None else None)
        for batch in others:
            try:
                _, other_left, other_later, other_made = after(batch)
            except GuaranteeError as error:
                refused = refused or error
                continue
            except Exception:  # noqa: BLE001, S112 - the model's own, in a case that it may never meet
                continue
            found = other_left.differs(left, start) or other_later.differs(later)
            if found is not None or not _agree(made, other_made):
                refused = refused or GuaranteeError(_KEPT.format(found or "what the next forward returns"))
    finally:
        start.put_back()
    return left, once, refused


_KEPT = (
    "the forward of the private module leaves something behind that depends on its examples, which would carry facts "
    "about them without noise: {} differs for other made-up examples. Compute it outside, from public data, or drop "
    "it; what every forward changes alike, such as a counter, is fine."
)


def _copied(batch: Any) -> Any:
    return pytree.tree_map_only(Tensor, torch.clone, batch)  # a model may change its input


def _agree(one: Trace, other: Trace) -> bool:
    """Whether two runs gave the same; one that is not a number in the first place says nothing."""
    allowed = max(one.rounding, other.rounding) ** 0.5
    if len(one.output) != len(other.output):
        return False
    return all(
        not isinstance(left, Tensor) or bool(left.isnan().any()) or Agreement(allowed).met(left, right).holds
        for left, right in zip(one.output, other.output, strict=True)
    )
