"""Which layers a model calls, and how the examples lie in what they are called with: found out by trying.

Sizes cannot tell examples from positions: a model that transposes a batch to (positions, examples, width) looks right
whenever there are as many positions as examples. So before training, and again whenever the calls change, the model is
run on three made-up examples together and one by one. At every layer the joint input must be the three single inputs
one after another. That refuses transposed batches, positions before examples in one dimension, batch means, flips and
softmax over the batch; it accepts several entries per example, as in (examples * positions, width).

What agrees within rounding (see `trial/agreement`) on three examples at random is taken to keep examples apart in
general: layers that round differently for one and for three rows stay far below the tolerance, and mixing examples
moves entries by a good part of themselves. What flows back is compared too.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import cycle
from typing import Any

from torch import Tensor

from inid.dpsgd.parallel.distributed import Processes
from inid.dpsgd.rows.units import Unit
from inid.dpsgd.trial.agreement import Agreement, Beside, Flow
from inid.dpsgd.trial.model_outputs import is_real
from inid.dpsgd.trial.trace import LARGE, Trace
from inid.errors import GuaranteeError

__all__ = ["APART", "Call", "CallPlan", "OtherwiseDividedError", "SameForAllError", "found_out", "negligible_flow"]

APART = "keep the examples in the first dimension of every layer, and do not mix, repeat or reorder them"


@dataclass(frozen=True, eq=False)
class Call:
    """How one layer is called.

    Attributes:
        unit: The layer.
        entries: For every leaf of the arguments how many entries of one dimension an example has; 0 for what is the
            same for all examples or is not a tensor.
        along: Which dimension that is: the first, unless the layer is run example by example.
        joined: For every leaf of the output the dimension along which examples lie; None where it is not a tensor.
    """

    unit: Unit
    entries: tuple[int, ...]
    along: tuple[int, ...]
    joined: tuple[int | None, ...]

    def fits(self, unit: Unit, leaves: list[Any], examples: int) -> bool:
        """Whether a call is like this one, for another number of examples."""
        if unit is not self.unit or len(leaves) != len(self.entries):
            return False
        for own, at, leaf in zip(self.entries, self.along, leaves, strict=True):  # in every call: no generator
            if own and not (isinstance(leaf, Tensor) and leaf.ndim > at and leaf.shape[at] == own * examples):
                return False
        return True

    @property
    def split(self) -> list[int | None]:
        """For every leaf of the arguments the dimension along which examples lie; None for what all of them share."""
        return [at if own else None for own, at in zip(self.entries, self.along, strict=True)]


@dataclass(frozen=True, eq=False)
class CallPlan:
    """The calls of one forward, in order.

    Attributes:
        calls: The calls.
        shared: Layers that are called with the same input for all examples (positions): it is repeated for each.
        output: For every leaf of the model's output the dimension along which examples lie; None for others.
    """

    calls: tuple[Call, ...]
    shared: frozenset[Unit]
    output: tuple[int | None, ...] = ()

    @cached_property
    def once(self) -> frozenset[Unit]:
        """The layers that are called once."""
        return frozenset(unit for unit, calls in Counter(call.unit for call in self.calls).items() if calls == 1)


def found_out(run: Callable[..., Trace], batches: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> CallPlan:
    """The plan of a model's calls.

    Args:
        run: Runs the model on arguments and arguments by name; last comes what makes a trace for a number of examples.
        batches: Three examples together, then each alone.

    Raises:
        GuaranteeError: The examples do not stay apart.
    """
    shared = frozenset[Unit]()
    plan, (before, rounding) = _compared(run, batches, shared)
    while plan.shared != shared:
        shared = plan.shared
        try:
            plan, (after, _) = _compared(run, batches, shared)
        except Exception as error:
            raise SameForAllError(next(iter(shared))) from error
        # Refuse a model that computes something else when inputs for all examples are repeated for each.
        for leaf, again in zip(before, after, strict=True):
            if is_real(leaf) and not Agreement(rounding**0.5).met(leaf, again).holds:
                raise SameForAllError(next(iter(shared)))
    return plan


def _compared(
    run: Callable[..., Trace], batches: list[tuple[tuple[Any, ...], dict[str, Any]]], shared: frozenset[Unit]
) -> tuple[CallPlan, tuple[list[Any], float]]:
    """The plan that the joint run and the single runs agree on; the output of the first of these, and its rounding."""
    begin = partial(Trace, shared=shared)
    together = run(*batches[0], begin)
    if together.in_proportion():
        # What flows back to each of them alone for long gradients would tell nothing new, and takes a backward each.
        together.large, begin = [], partial(begin, far=False)
    comparison = _Comparison(together)
    first = None
    alone_at = list(enumerate(batches[1:]))
    # Every process begins with another: a row that met the same row in another process meets another one now.
    start = Processes().rank % len(alone_at)
    for at, batch in alone_at[start:] + alone_at[:start]:
        alone = run(*batch, begin)
        comparison.meet(at, alone)
        first = first or (alone.output, alone.rounding)
        del alone  # one at a time: of a large model there is no room for more
    assert first is not None  # noqa: S101 - for the type checker: there are three
    return comparison.plan(), first


class _Comparison:
    """The joint run beside the single runs, which come one after another."""

    def __init__(self, together: Trace) -> None:
        self._together, self._allowed, self._alike = together, together.rounding**0.5, True
        # Layers with a formula have the examples in front; others may have them anywhere (the state of an LSTM).
        self._arguments = [self._leaves(leaves, 1 if unit.rule else None) for unit, leaves, _, _ in together.calls]
        self._outputs = [self._leaves(leaves) for _, _, leaves, _ in together.calls]
        self._output = self._leaves(together.output)
        self._flows = [
            (times, [Flow(each) for each in gradients])
            for times, sent in ((1.0, together.gradients), (LARGE, together.large))
            for gradients in sent
        ]

    def _leaves(self, leaves: list[Any], most: int | None = None) -> list[Beside | None]:
        return [Beside(leaf, self._allowed, most) if isinstance(leaf, Tensor) else None for leaf in leaves]

    def meet(self, at: int, alone: Trace) -> None:
        """Note the run of one example."""
        if [unit for unit, *_ in alone.calls] != [unit for unit, *_ in self._together.calls]:
            self._alike = False
        if not self._alike:
            return
        for (_, leaves, output, _), met, made in zip(alone.calls, self._arguments, self._outputs, strict=True):
            _meet_all(met, at, leaves)
            _meet_all(made, at, output)
        _meet_all(self._output, at, alone.output)
        for (_, flows), gradients in zip(self._flows, (*alone.gradients, *alone.large), strict=True):
            _meet_all(flows, at, gradients)

    def plan(self) -> CallPlan:
        """The plan.

        Raises:
            GuaranteeError: Somewhere the joint run is not the single runs side by side.
        """
        if not self._alike:
            raise GuaranteeError(
                "the private module calls other layers for three examples than for one: let the calls depend neither "
                "on the number of examples nor on their values."
            )
        calls: list[Call] = []
        repeated, later = set[Unit](), set[Unit]()
        if self._together.selected:
            raise OtherwiseDividedError(self._together.selected[0], selected=True)
        for at, (unit, _, output, derived) in enumerate(self._together.calls):
            if unit.bare:
                calls.append(Call(unit, (), (), ()))
                continue
            if unit.rule is not None and sum(leaf is not None for leaf in self._arguments[at]) > 1:
                raise GuaranteeError(
                    f"{unit.title} is called with several tensors, and a rule's formula knows of the first alone: call "
                    "it with one, or let its class have no rule; it is then run example by example."
                )
            entries, along = _divided(unit, self._arguments[at])
            joined: tuple[int | None, ...] = (None,) * len(output)
            if not any(entries):
                # What comes from another such layer will differ by example once that layer's input is repeated.
                (later if derived else repeated).add(unit)
            elif unit.rule is None:
                joined = tuple(_joined(unit, output, self._outputs[at]))
            calls.append(Call(unit, entries, along, joined))
        apart = {call.unit for call in calls if any(call.entries)}
        for unit in repeated | (later if not repeated else set()):
            if unit in apart or unit in later or unit.rule is None or not unit.rule.positions:
                raise SameForAllError(unit)
        _check_output(self._together.output, self._output)
        negligible = negligible_flow(self._together)
        for call, (times, flows) in zip(cycle(calls), self._flows, strict=False):  # once more where long ones were sent
            # A hook, or a function with its own backward, may mix gradients.
            met = any(call.entries) or call.unit.bare
            # Nothing is negligible of a row that all examples may have been given: there is another way for its module.
            least = 0.0 if call.unit.bare else times * negligible
            if met and not all(flow.agrees(self._allowed, least) for flow in flows):
                if call.unit.bare:
                    raise OtherwiseDividedError(call.unit)
                raise GuaranteeError(
                    f"the gradients that flow back to {call.unit.title} for "
                    "three examples are not those for each of them side by side (a hook that changes gradients?): "
                    f"{APART}."
                )
        lying = tuple(None if leaf is None or leaf.same else leaf.dimension for leaf in self._output)
        return CallPlan(tuple(calls), frozenset(repeated) | self._together.shared, lying)


def negligible_flow(run: Trace) -> float:
    """How long a gradient may be that is rounding alone, for what a run has sent back."""
    return 2**10 * run.rounding * run.pushed


def _meet_all(known: Sequence[Beside | None] | Sequence[Flow], at: int, leaves: list[Any]) -> None:
    for one, leaf in zip(known, leaves, strict=True):
        if one is not None:
            one.meet(at, leaf)


class SameForAllError(GuaranteeError):
    """A layer is called with the same input for all examples, which cannot be repeated for each."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(
            f"layer {unit.name!r} is called with an input that is the same for all examples: give it a row per "
            "example, for example torch.arange(length).expand(len(x), length)."
        )
        self.unit = unit


class OtherwiseDividedError(GuaranteeError):
    """A layer is called with an input in which examples do not lie side by side."""

    def __init__(self, unit: Unit, *, selected: bool = False) -> None:
        super().__init__(
            (
                f"{unit.title} is called with entries that a mask, or nonzero, selects from all examples, so that "
                "nobody knows which are whose: keep them all, and multiply by the mask. Where"
                if selected
                else f"{unit.title} does not see three examples as it sees each of them alone: {APART}. Where"
            )
            + " its input has to be divided otherwise (packed sequences, experts), put the layer, "
            "with the code that divides and joins, into a module of its own: that is run example by example."
        )
        self.unit = unit


def _divided(unit: Unit, leaves: list[Beside | None]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many entries an example has in each leaf of the arguments, and along which dimension."""
    entries, along = [], []
    for leaf in leaves:
        at = None if leaf is None or leaf.same else leaf.dimension
        if leaf is not None and at is None and not leaf.same:
            raise OtherwiseDividedError(unit)
        entries.append(0 if leaf is None or at is None or leaf.shape is None else leaf.shape[at])
        along.append(at or 0)
    return tuple(entries), tuple(along)


def _joined(unit: Unit, output: list[Any], leaves: list[Beside | None]) -> Iterator[int | None]:
    for whole, leaf in zip(output, leaves, strict=True):
        if leaf is None:
            yield None
            continue
        dimension = leaf.dimension
        if dimension is None and not (whole.ndim and whole.shape[0] == 1 and whole.shape == leaf.shape):
            raise GuaranteeError(
                f"the output of {unit.title} for three examples is not that for each of them side by side: {APART}."
            )
        yield dimension or 0


def _check_output(output: list[Any], leaves: list[Beside | None]) -> None:
    for whole, leaf in zip(output, leaves, strict=True):
        if leaf is None or not is_real(whole):
            continue
        if whole.ndim == 0:
            raise GuaranteeError(
                "the private module returns a single number for the whole batch, such as a loss, or keeps one as an "
                "attribute, which mixes the examples: return outputs per example (call a Hugging Face model without "
                "labels=) and take the loss outside, for example dpsgd.per_example_loss(logits, labels).mean()."
            )
        if not leaf.same and leaf.dimension is None:
            raise GuaranteeError(
                "the output of the private module for three examples, or a tensor that it keeps as an attribute, is "
                f"not that for each of them side by side: {APART}."
            )
