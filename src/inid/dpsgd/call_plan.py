"""Which layers a model calls, and how the examples lie in what they are called with: found out by trying.

Sizes cannot tell examples from positions: a model that transposes a batch to (positions, examples, width) looks right
whenever there are as many positions as examples. So before training, and again whenever the calls change, the model is
run on three made-up examples together and one by one. At every layer the joint input must be the three single inputs
one after another. That refuses transposed batches, positions before examples in one dimension, batch means, flips and
softmax over the batch; it accepts several entries per example, as in (examples * positions, width).

What agrees within rounding on three examples at random is taken to keep examples apart in general. The tolerance is the
square root of the unit of rounding, relative to the usual entry: layers that round differently for one and for three
rows stay far below it, and mixing examples moves entries by a good part of themselves. What flows back is compared too.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from inid.dpsgd.fused_rounding import argument_rounding
from inid.dpsgd.layers import takes_positions
from inid.dpsgd.made_up_examples import EXAMPLES
from inid.dpsgd.model_outputs import as_real
from inid.dpsgd.units import Unit
from inid.errors import GuaranteeError

__all__ = ["Call", "CallPlan", "SameForAllError", "Trace", "found_out"]

_PIECE = 2**24  # numbers that are compared at a time
_SAMPLE = 2**14  # numbers of each piece by which one sees what is usual
_TIMES = 32.0  # how much longer than the lower quartile an entry may usually be
_UNITS = 64.0  # what rounding loses where numbers cancel

_APART = "keep the examples in the first dimension of every layer, and do not mix, repeat or reorder them"


@dataclass(frozen=True, eq=False)
class Call:
    """How one layer is called.

    Attributes:
        unit: The layer.
        entries: For every leaf of the arguments how many entries of its first dimension an example has; 0 for what is
            the same for all examples or is not a tensor.
        joined: For every leaf of the output the dimension along which examples lie; None where it is not a tensor.
    """

    unit: Unit
    entries: tuple[int, ...]
    joined: tuple[int | None, ...]

    def fits(self, unit: Unit, leaves: list[Any], examples: int) -> bool:
        """Whether a call is like this one, for another number of examples."""
        return (
            unit is self.unit
            and len(leaves) == len(self.entries)
            and all(
                not own or (isinstance(leaf, Tensor) and leaf.ndim > 0 and leaf.shape[0] == own * examples)
                for own, leaf in zip(self.entries, leaves, strict=True)
            )
        )


@dataclass(frozen=True, eq=False)
class CallPlan:
    """The calls of one forward, in order.

    Attributes:
        calls: The calls.
        shared: Layers that are called with the same input for all examples (positions): it is repeated for each.
    """

    calls: tuple[Call, ...]
    shared: frozenset[Unit]


@dataclass(eq=False)
class Trace:
    """What happened in one run on made-up examples.

    Attributes:
        examples: How many there were.
        shared: Layers whose input is repeated for each example.
        calls: The layer, the leaves of its arguments, the leaves of its output, and whether the arguments come from
            layers that are trained.
        output: The leaves of the model's output.
        grown: For every call the tensors of its output, to be differentiated by.
        gradients: For every call what flows back to them.
        pushed: How much was sent back, as a norm.
    """

    examples: int
    shared: frozenset[Unit]
    calls: list[tuple[Unit, list[Any], list[Any], bool]] = field(default_factory=list)
    output: list[Any] = field(default_factory=list)
    grown: list[list[Tensor]] = field(default_factory=list)
    gradients: list[list[Tensor | None]] = field(default_factory=list)
    pushed: float = 0.0

    def note(self, unit: Unit, arguments: list[Any], output: object) -> None:
        """Note a call."""
        derived = any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in arguments)
        leaves = pytree.tree_leaves(output)
        self.calls.append((unit, _copies(arguments), _copies(leaves), derived))
        self.grown.append([leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.requires_grad])

    def differentiate(self, output: list[Any], parameters: list[nn.Parameter]) -> list[nn.Parameter]:
        """Note the model's output and what flows back from it; gives the parameters that get a gradient themselves.

        They are used outside their layers, which are frozen while they run. What is sent back goes by the values, so
        that it is the same for an example alone and among others.
        """
        calls, grown = list(self.calls), list(self.grown)  # without what the backward runs again
        ends = [as_real(leaf) for leaf in output if isinstance(leaf, Tensor) and leaf.requires_grad]
        sent = [torch.sin(3 * end.detach() + 1) for end in ends]
        found = _gradients(ends, sent, parameters, keep=True)
        back: list[Tensor | None] = [None] * sum(map(len, grown))
        with suppress(RuntimeError):  # checkpoints that run again by themselves cannot, and are refused in the backward
            back = _gradients(ends, sent, [leaf for leaves in grown for leaf in leaves], keep=False)
        rest = iter(back)
        self.calls, self.output = calls, _copies(output)
        self.gradients = [[next(rest) for _ in leaves] for leaves in grown]
        self.grown, self.pushed = [], math.sqrt(sum(float(each.double().square().sum()) for each in sent))
        return [p for p, gradient in zip(parameters, found, strict=True) if gradient is not None]

    def rounding(self) -> float:
        """The coarsest unit of rounding among all numbers seen, and among the arguments of their products.

        Products round their arguments where the settings say so; convolutions are kept from it (see `trial_runs`).
        """
        seen = [*self.output, *(leaf for _, leaves, output, _ in self.calls for leaf in (*leaves, *output))]
        return max((_unit_of(leaf) for leaf in seen if _is_real(leaf)), default=0.0)


def found_out(run: Callable[..., Trace], batches: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> CallPlan:
    """The plan of a model's calls.

    Args:
        run: Runs the model on arguments, arguments by name, and a set of layers whose input is to be repeated.
        batches: Three examples together, then each alone.

    Raises:
        GuaranteeError: The examples do not stay apart.
    """
    together, *alone = (run(*batch, frozenset()) for batch in batches)
    plan, first = _compare(together, alone), alone[0]
    while plan.shared != together.shared:
        try:
            together, *alone = (run(*batch, plan.shared) for batch in batches)
            plan = _compare(together, alone)
        except Exception as error:
            raise SameForAllError(next(iter(plan.shared))) from error
        _check_same(first, alone[0])
    return plan


def _compare(together: Trace, alone: list[Trace]) -> CallPlan:
    """The plan that the joint run and the single runs agree on.

    Raises:
        GuaranteeError: Somewhere the joint run is not the single runs side by side.
    """
    if any([unit for unit, *_ in one.calls] != [unit for unit, *_ in together.calls] for one in alone):
        raise GuaranteeError(
            "the private module calls other layers for three examples than for one: let the calls depend neither on "
            "the number of examples nor on their values."
        )
    allowed = together.rounding() ** 0.5
    calls: list[Call] = []
    repeated, later = set[Unit](), set[Unit]()
    for at, (unit, leaves, output, derived) in enumerate(together.calls):
        entries = _entries(unit, leaves, [one.calls[at][1] for one in alone], allowed)
        joined: tuple[int | None, ...] = (None,) * len(output)
        if not any(entries):
            # What comes from another such layer will differ by example once that layer's input is repeated.
            (later if derived else repeated).add(unit)
        elif unit.formula is None:
            joined = tuple(_joined(unit, output, [one.calls[at][2] for one in alone], allowed))
        calls.append(Call(unit, entries, joined))
    apart = {call.unit for call in calls if any(call.entries)}
    for unit in repeated | (later if not repeated else set()):
        if unit in apart or unit in later or unit.formula is None or not takes_positions(unit.layer):
            raise SameForAllError(unit)
    _check_output(together.output, [one.output for one in alone], allowed)
    for at, call in enumerate(calls):
        if any(call.entries):
            _check_gradients(call.unit, together, alone, at, allowed)
    return CallPlan(tuple(calls), frozenset(repeated) | together.shared)


def _check_same(one: Trace, other: Trace) -> None:
    """Refuse a model that computes something else when inputs for all examples are repeated for each."""
    allowed = one.rounding() ** 0.5
    if any(
        _is_real(leaf) and not _equal(leaf, again, allowed)
        for leaf, again in zip(one.output, other.output, strict=True)
    ):
        raise SameForAllError(next(iter(other.shared)))


def _gradients(ends: list[Tensor], sent: list[Tensor], wanted: Sequence[Tensor], *, keep: bool) -> list[Tensor | None]:
    if not ends or not wanted:
        return [None] * len(wanted)
    return list(torch.autograd.grad(ends, wanted, sent, allow_unused=True, retain_graph=keep))


class SameForAllError(GuaranteeError):
    """A layer is called with the same input for all examples, which cannot be repeated for each."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(
            f"layer {unit.name!r} is called with an input that is the same for all examples: give it a row per "
            "example, for example torch.arange(length).expand(len(x), length)."
        )
        self.unit = unit


def _entries(unit: Unit, leaves: list[Any], alone: list[list[Any]], allowed: float) -> tuple[int, ...]:
    found = []
    for leaf, ones in zip(leaves, zip(*alone, strict=True), strict=True):
        if not isinstance(leaf, Tensor) or all(_equal(leaf, one, allowed) for one in ones):
            found.append(0)
        elif _side_by_side(leaf, ones, 0, allowed):
            found.append(ones[0].shape[0])
        else:
            raise GuaranteeError(
                f"layer {unit.name!r} ({type(unit.layer).__name__}) does not see three examples as it sees each of "
                f"them alone: {_APART}."
            )
    return tuple(found)


def _joined(unit: Unit, output: list[Any], alone: list[list[Any]], allowed: float) -> Iterator[int | None]:
    for leaf, ones in zip(output, zip(*alone, strict=True), strict=True):
        if not isinstance(leaf, Tensor):
            yield None
            continue
        dimension = next((d for d in range(leaf.ndim) if _side_by_side(leaf, ones, d, allowed)), None)
        if dimension is None and not (leaf.ndim and leaf.shape[0] == 1 and leaf.shape == ones[0].shape):
            raise GuaranteeError(
                f"the output of layer {unit.name!r} ({type(unit.layer).__name__}) for three examples is not that for "
                f"each of them side by side: {_APART}."
            )
        yield dimension or 0


def _check_output(output: list[Any], alone: list[list[Any]], allowed: float) -> None:
    for leaf, ones in zip(output, zip(*alone, strict=True), strict=True):
        if not _is_real(leaf):
            continue
        if leaf.ndim == 0:
            raise GuaranteeError(
                "the private module returns a single number for the whole batch, such as a loss, or keeps one as an "
                "attribute, which mixes the examples: return outputs per example (call a Hugging Face model without "
                "labels=) and take the loss outside, for example dpsgd.per_example_loss(logits, labels).mean()."
            )
        same = all(_equal(leaf, one, allowed) for one in ones)
        if not same and not any(_side_by_side(leaf, ones, d, allowed) for d in range(leaf.ndim)):
            raise GuaranteeError(
                "the output of the private module for three examples is not that for each of them side by side: "
                f"{_APART}."
            )


def _check_gradients(unit: Unit, together: Trace, alone: list[Trace], at: int, allowed: float) -> None:
    """Refuse a model in whose backward the gradients of examples meet: in a hook, or a function with its own backward.

    Compared by norms, and roughly: where rounding decides the side of a kink (ReLU) a single gradient jumps.
    """
    for found, ones in zip(
        together.gradients[at], zip(*(one.gradients[at] for one in alone), strict=True), strict=True
    ):
        present = [one for one in ones if one is not None]
        if found is None or len(present) < EXAMPLES:
            if found is not None or present:
                raise GuaranteeError(f"{_meet(unit)}: {_APART}.")
            continue
        negligible = 2**10 * allowed**2 * together.pushed
        if found.shape == present[0].shape or float(_finite(found).norm()) <= negligible:
            continue  # what is the same for all examples; or rounding alone
        whole = [
            torch.cat(present, d)
            for d in range(found.ndim)
            if found.shape[d] == EXAMPLES * present[0].shape[d] and len({one.shape for one in present}) == 1
        ]
        least = min((float((_finite(found) - _finite(each)).norm()) for each in whole), default=math.inf)
        if not least <= math.sqrt(allowed) * float(_finite(found).norm()):
            raise GuaranteeError(f"{_meet(unit)}: {_APART}.")


def _meet(unit: Unit) -> str:
    return (
        f"the gradients that flow back to layer {unit.name!r} ({type(unit.layer).__name__}) for three examples are not "
        "those for each of them side by side (a hook that changes gradients?)"
    )


def _finite(gradient: Tensor) -> Tensor:
    return as_real(gradient).double().nan_to_num(nan=0.0, posinf=0.0, neginf=0.0)


def _unit_of(leaf: Tensor) -> float:
    return max(torch.finfo(leaf.dtype).eps, argument_rounding(leaf.dtype))


def _side_by_side(leaf: Tensor, ones: tuple[Tensor, ...], dimension: int, allowed: float) -> bool:
    sizes = [one.shape for one in ones]
    if len(set(sizes)) > 1 or leaf.ndim <= dimension or leaf.shape[dimension] != EXAMPLES * sizes[0][dimension]:
        return False
    return _equal(leaf, torch.cat(ones, dimension), allowed)


def _equal(one: Tensor, other: Tensor, allowed: float) -> bool:
    """Whether two tensors are equal within rounding; infinities must match, and what is not a number never agrees.

    Rounding is relative to an entry or to what is usual among those that differ (several times their lower quartile):
    one large entry, such as the -1e4 of a mask, must not hide what the others do. Where numbers cancel it is relative
    to the largest, by a few units.
    """
    if one.shape != other.shape or not _is_real(one):
        return bool(torch.equal(one, other))
    largest, sample = 0.0, []
    # Piece by piece: a large output would not fit into a GPU several times over in float64.
    pieces = list(zip(*(torch.split(each.flatten(), _PIECE) for each in (one, other)), strict=True))
    for left, right in pieces:
        finite = left.isfinite() & right.isfinite()
        if not torch.equal(left[~finite], right[~finite]):
            return False
        sizes = _sizes(left, right)[finite & (left != right)]
        if len(sizes):
            largest = max(largest, float(sizes.max()))
            sample.append(sizes[:: max(1, len(sizes) // _SAMPLE)])
    if not sample:
        return True
    seen = torch.cat(sample)
    usual = _TIMES * float(seen.kthvalue(1 + len(seen) // 4).values)
    least = max(allowed * min(usual, largest), _UNITS * allowed**2 * largest)
    return all(
        bool(((left.double() - right.double()).abs() <= (allowed * _sizes(left, right)).clamp(min=least))[same].all())
        for left, right in pieces
        for same in [left.isfinite() & right.isfinite()]
    )


def _sizes(left: Tensor, right: Tensor) -> Tensor:
    return torch.maximum(left.double().abs(), right.double().abs())


def _is_real(leaf: object) -> bool:
    return isinstance(leaf, Tensor) and leaf.is_floating_point()


def _copies(leaves: list[Any]) -> list[Any]:
    return [as_real(leaf.detach()).clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
