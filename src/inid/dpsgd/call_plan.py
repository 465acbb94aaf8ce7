"""Which layers a model calls, and how the examples lie in what they are called with: found out by trying.

Sizes cannot tell examples from positions: a model that transposes a batch to (positions, examples, width) looks right
whenever there are as many positions as examples. So before training, and again whenever the calls change, the model is
run on three made-up examples together and one by one. At every layer the joint input must be the three single inputs
one after another. That refuses transposed batches, positions before examples in one dimension, batch means, flips and
softmax over the batch; it accepts several entries per example, as in (examples * positions, width).

What agrees within rounding on three examples at random is taken to keep examples apart in general. The tolerance is the
square root of the unit of rounding, relative to the largest entry: layers that round differently for one and for three
rows stay far below it, and mixing examples moves entries by a good part of themselves.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from inid.dpsgd.fused_rounding import argument_rounding
from inid.dpsgd.layers import takes_positions
from inid.dpsgd.units import Unit
from inid.errors import GuaranteeError

__all__ = ["Call", "CallPlan", "MadeUp", "SameForAllError", "Trace", "found_out", "output_leaves"]

EXAMPLES = 3
_TF32 = 2.0**-10
_PIECE = 2**24  # numbers that are compared at a time

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
    """

    examples: int
    shared: frozenset[Unit]
    calls: list[tuple[Unit, list[Any], list[Any], bool]] = field(default_factory=list)
    output: list[Any] = field(default_factory=list)

    def note(self, unit: Unit, arguments: list[Any], output: object) -> None:
        """Note a call."""
        derived = any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in arguments)
        self.calls.append((unit, _copies(arguments), _copies(pytree.tree_leaves(output)), derived))

    def rounding(self) -> float:
        """The coarsest unit of rounding among all numbers seen, and among the arguments of their products.

        On a GPU convolutions of float32 round their arguments to TF32 by default, products where the settings say so.
        """
        seen = [*self.output, *(leaf for _, leaves, output, _ in self.calls for leaf in (*leaves, *output))]
        return max((_unit_of(leaf) for leaf in seen if _is_real(leaf)), default=0.0)


class MadeUp:
    """Three made-up examples of the form of a batch.

    Args:
        args: What the model was called with.
        kwargs: The same by name.
        rows: How many rows its batch has.
        module: The model, whose smallest embedding says which numbers are valid in all of them.
        given: The user's own three examples, to be used instead; or None.
    """

    def __init__(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int, module: nn.Module, given: object
    ) -> None:
        self._leaves, self._form = pytree.tree_flatten((args, kwargs))
        self._split = [isinstance(leaf, Tensor) and leaf.ndim > 0 and leaf.shape[0] == rows for leaf in self._leaves]
        self._module, self._given = module, given

    def signature(self, *, training: bool) -> object:
        """What calls may depend on besides the values: shapes without the number of rows, types, plain settings."""
        known = tuple(
            (leaf.dtype, tuple(leaf.shape[1:] if own else leaf.shape))
            if isinstance(leaf, Tensor)
            else leaf
            if isinstance(leaf, (bool, int, float, str, type(None)))
            else type(leaf)
            for leaf, own in zip(self._leaves, self._split, strict=True)
        )
        return training, self._form, known

    def batches(self, most: int | None = None) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """The three together, then each alone; whole numbers stay below `most`, or below the smallest embedding."""
        whole = self._whole(most)
        rows = [slice(None), *(slice(at, at + 1) for at in range(EXAMPLES))]
        return [
            pytree.tree_unflatten(
                [leaf[which].clone() if own else leaf for leaf, own in zip(whole, self._split, strict=True)], self._form
            )
            for which in rows
        ]

    def _whole(self, most: int | None) -> list[Any]:
        if self._given is not None:
            tensors = [leaf for leaf in pytree.tree_leaves(self._given) if isinstance(leaf, Tensor)]
            if len(tensors) != sum(self._split) or any(leaf.ndim == 0 or len(leaf) < EXAMPLES for leaf in tensors):
                raise GuaranteeError(
                    f"example must hold {sum(self._split)} tensors of at least {EXAMPLES} rows, as the model is called "
                    "with: pass made-up or public examples in that form."
                )
            given = iter(tensors)
            return [
                next(given)[:EXAMPLES].to(leaf) if own else leaf
                for leaf, own in zip(self._leaves, self._split, strict=True)
            ]
        heights = [layer.num_embeddings for layer in self._module.modules() if isinstance(layer, nn.Embedding)]
        below = most or max(2, min([height for height in heights if height > 1], default=EXAMPLES))
        draw = torch.Generator().manual_seed(5)
        return [
            _made_up(leaf, below, draw) if own else leaf for leaf, own in zip(self._leaves, self._split, strict=True)
        ]


def _made_up(leaf: Tensor, below: int, draw: torch.Generator) -> Tensor:
    """Three rows like those of a tensor; whole numbers stay below a limit."""
    shape = (EXAMPLES, *leaf.shape[1:])
    if leaf.is_floating_point() or leaf.is_complex():
        kind = torch.complex128 if leaf.is_complex() else torch.float64
        return torch.randn(shape, generator=draw, dtype=kind).to(leaf)
    if leaf.ndim == 1:
        return (torch.arange(EXAMPLES) % below).to(leaf)
    # Numbers may be tokens or a mask: every example has some that are 0 and some that are not, and no two agree.
    for _ in range(100):
        made = torch.randint(0, 2 if leaf.dtype == torch.bool else below, shape, generator=draw)
        flat = made.flatten(1).bool()
        apart = len(torch.unique(made.flatten(1), dim=0)) == EXAMPLES
        if apart and bool(flat.any(1).all()) and not bool(flat.all(1).any()):
            break
    return made.to(leaf)


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
    return CallPlan(tuple(calls), frozenset(repeated) | together.shared)


def _check_same(one: Trace, other: Trace) -> None:
    """Refuse a model that computes something else when inputs for all examples are repeated for each."""
    allowed = one.rounding() ** 0.5
    if any(
        _is_real(leaf) and not _equal(leaf, again, allowed)
        for leaf, again in zip(one.output, other.output, strict=True)
    ):
        raise SameForAllError(next(iter(other.shared)))


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
                "the private module returns a single number for the whole batch, such as a loss, which mixes the "
                "examples: return outputs per example (call a Hugging Face model without labels=) and take the loss "
                "outside, for example dpsgd.per_example_loss(logits, labels).mean()."
            )
        same = all(_equal(leaf, one, allowed) for one in ones)
        if not same and not any(_side_by_side(leaf, ones, d, allowed) for d in range(leaf.ndim)):
            raise GuaranteeError(
                "the output of the private module for three examples is not that for each of them side by side: "
                f"{_APART}."
            )


def _unit_of(leaf: Tensor) -> float:
    convolved = _TF32 if leaf.is_cuda and leaf.dtype == torch.float32 else 0.0
    return max(torch.finfo(leaf.dtype).eps, argument_rounding(leaf.dtype), convolved)


def _side_by_side(leaf: Tensor, ones: tuple[Tensor, ...], dimension: int, allowed: float) -> bool:
    sizes = [one.shape for one in ones]
    if len(set(sizes)) > 1 or leaf.ndim <= dimension or leaf.shape[dimension] != EXAMPLES * sizes[0][dimension]:
        return False
    return _equal(leaf, torch.cat(ones, dimension), allowed)


def _equal(one: Tensor, other: Tensor, allowed: float) -> bool:
    """Whether two tensors are equal within rounding; infinities must match, and what is not a number never agrees."""
    if one.shape != other.shape or not _is_real(one):
        return bool(torch.equal(one, other))
    largest = gap = 0.0
    # Piece by piece: a large output would not fit into a GPU several times over in float64.
    for pieces in zip(*(torch.split(each.flatten(), _PIECE) for each in (one, other)), strict=True):
        left, right = (piece.double() for piece in pieces)
        finite = left.isfinite() & right.isfinite()
        if not torch.equal(left[~finite], right[~finite]):
            return False
        if bool(finite.any()):
            left, right = left[finite], right[finite]
            largest = max(largest, float(left.abs().max()), float(right.abs().max()))
            gap = max(gap, float((left - right).abs().max()))
    return gap <= allowed * largest


def output_leaves(output: object) -> list[Any]:
    """The leaves of what a model returns, also inside objects that torch does not look into (dataclasses, laws).

    >>> from types import SimpleNamespace
    >>> output_leaves([1, SimpleNamespace(loss=2)])
    [1, 2]
    """
    found, seen = [], set[int]()
    waiting = pytree.tree_leaves(output)
    while waiting:
        leaf = waiting.pop(0)
        inside = vars(leaf) if hasattr(leaf, "__dict__") and not isinstance(leaf, (Tensor, nn.Module, type)) else None
        if inside is None or callable(leaf):
            found.append(leaf)
        elif id(leaf) not in seen:
            seen.add(id(leaf))
            waiting = pytree.tree_leaves(dict(inside)) + waiting
    return found


def _is_real(leaf: object) -> bool:
    return isinstance(leaf, Tensor) and leaf.is_floating_point()


def _copies(leaves: list[Any]) -> list[Any]:
    return [leaf.detach().clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
