"""A run of a model on a full batch of made-up examples, in which three must be what they are without the others.

Three examples together and alone do not show what begins with more of them: the capacity of an expert that is shared by
the batch, statistics over groups of rows, a choice by the size of the batch. So the model is also run on as many rows
as it is trained on: copies of one example, and behind them the three, of which it is one. Copies all go the same way,
so that whatever has room for some of them only is full when the three come.

At first looks gradients are sent back, too, and those of the copies are a million times as long: what flows back to the
three must be what flows back to them alone. At other looks nothing is differentiated, and nothing is kept: the run
needs less memory than a training step.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from inid.dpsgd.rows.units import Unit
from inid.dpsgd.trial.agreement import Agreement, squared_norm
from inid.dpsgd.trial.call_plan import APART, Call, CallPlan, negligible_flow
from inid.dpsgd.trial.examples import EXAMPLES
from inid.dpsgd.trial.model_outputs import as_real
from inid.dpsgd.trial.trace import LARGE, Trace, differentiated, sent_back, started_in
from inid.errors import GuaranteeError

__all__ = ["AmongMany"]

_OTHER_LAYERS = "the private module calls other layers for a full batch than for three examples"


@dataclass(eq=False)
class AmongMany(Trace):
    """Compares a run on many examples, the last three of which are known, with the run on these three.

    Attributes:
        plan: The calls of the model.
        three: The run on the three; with what flowed back, if gradients are to be compared.
    """

    plan: CallPlan = field(kw_only=True)
    three: Trace = field(kw_only=True)
    met: int = 0
    differs: str | None = None  # said in the end: processes that share a model run it to its end together

    def note(self, unit: Unit, arguments: list[Any], output: object) -> None:
        """Compare a call."""
        at, self.met = self.met, self.met + 1
        if self.three.gradients:
            self.grown.append(started_in(output))
        if self.differs is not None:
            return
        if at >= len(self.plan.calls) or self.plan.calls[at].unit is not unit:
            self.differs = _OTHER_LAYERS
            return
        call, (_, known, _, _) = self.plan.calls[at], self.three.calls[at]
        for one, leaf, own, along in zip(known, arguments, call.entries, call.along, strict=True):
            if isinstance(one, Tensor) and not self._agree(one, leaf, along if own else None):
                self.differs = f"{unit.title} sees three examples otherwise in a full batch"

    def differentiate(self, output: list[Any], parameters: list[nn.Parameter]) -> list[nn.Parameter]:  # noqa: ARG002
        """Compare the output, and what flows back from it.

        Raises:
            GuaranteeError: Something differs.
        """
        if self.differs is None:
            self.differs = self._compare_outputs(output)
        if self.differs is None and self.three.gradients:
            with suppress(RuntimeError):  # checkpoints that run again by themselves: refused in the backward
                self.differs = self._compare_gradients(output)
        if self.differs is not None:
            raise GuaranteeError(
                f"{self.differs} (experts with room for a part of the batch, statistics of many rows, a choice by "
                f"their number?): {APART}."
            )
        return []

    def _compare_outputs(self, output: list[Any]) -> str | None:
        if self.met != len(self.plan.calls) or len(output) != len(self.three.output):
            return _OTHER_LAYERS
        for one, leaf in zip(self.three.output, output, strict=True):
            ways = (None, *range(one.ndim)) if isinstance(one, Tensor) else ()
            if ways and not any(self._agree(one, leaf, along) for along in ways):
                return "the private module gives three examples another output in a full batch"
        return None

    def _compare_gradients(self, output: list[Any]) -> str | None:
        """Send gradients back, those of the copies long ones; the three get what they got without the others."""
        grown, self.grown = list(self.grown), []  # without what the backward runs again
        ends, sent = sent_back(output)
        along = [at for at, leaf in zip(self.plan.output, output, strict=True) if started_in(leaf)]
        for each, at in zip(sent, along, strict=True):
            if at is not None and each.shape[at] % self.examples == 0:
                copies = each.shape[at] // self.examples * (self.examples - EXAMPLES)
                each.narrow(at, 0, copies).mul_(LARGE)
        back = iter(differentiated(ends, sent, [leaf for leaves in grown for leaf in leaves], keep=False))
        least = negligible_flow(self.three)
        for call, leaves, known in zip(self.plan.calls, grown, self.three.gradients, strict=True):
            flows = [next(back) for _ in leaves]
            if len(flows) != len(known) or not all(
                self._flows_alike(call, one, many, least) for one, many in zip(known, flows, strict=True)
            ):
                return f"gradients of three examples flow back to {call.unit.title} otherwise in a full batch"
        return None

    def _flows_alike(self, call: Call, one: Tensor | None, many: Tensor | None, least: float) -> bool:
        if not any(call.entries) and not call.unit.bare:
            return True
        if one is None or many is None:
            return one is many
        length = math.sqrt(squared_norm(one))
        if one.shape == many.shape or (length <= least and not call.unit.bare):
            return True
        allowed = self.three.rounding**0.25 * length
        return any(math.sqrt(squared_norm(part, one)) <= allowed for part in self._parts(one, many))

    def _parts(self, one: Tensor, many: Tensor) -> Iterator[Tensor]:
        """The last three of many, along every dimension along which sizes allow it."""
        for at in range(one.ndim if many.ndim == one.ndim else 0):
            if many.shape[at] * EXAMPLES == one.shape[at] * self.examples:
                part = many.narrow(at, many.shape[at] - one.shape[at], one.shape[at])
                if part.shape == one.shape:
                    yield part

    def _agree(self, one: Tensor, many: Any, along: int | None) -> bool:
        """Whether the last three of many are the three, along a dimension; or all of it, if it is the same for all."""
        if not isinstance(many, Tensor):
            return False
        many = as_real(many.detach())
        if along is not None:
            if many.ndim != one.ndim or many.shape[along] * EXAMPLES != one.shape[along] * self.examples:
                return False
            many = many.narrow(along, many.shape[along] - one.shape[along], one.shape[along])
        return Agreement(self.three.rounding**0.5).met(one, many).holds
