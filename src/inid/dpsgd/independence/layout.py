"""Where examples lie in what layers are called with: found out from shapes alone, for two numbers of examples.

A dimension along which a tensor grows with the number of examples is where they lie: (examples, ...), or
(examples * positions, ...). Shapes do not tell whether the entries at an example's place are that example's: that is
checked bit by bit, at equal shapes (see `check`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from inid.dpsgd.grad_sample.call_plan import (
    APART,
    NO_TENSOR,
    Call,
    CallPlan,
    OtherwiseDividedError,
    Returns,
    SameForAllError,
    Unit,
)
from inid.dpsgd.independence.selected_rows import SelectedRows
from inid.errors import GuaranteeError

Shape = tuple[int, ...] | None  # None for what is no tensor
_TOLERANCE = (
    2.0**-6
)  # between two ways to compute an output, relative to its length: a coarse look for another function


@dataclass(eq=False)
class Shapes:
    """The shapes that one forward has met."""

    rows: int
    shared: frozenset[Unit]
    calls: list[tuple[Unit, list[Shape], list[Shape], bool]] = field(default_factory=list)
    output: list[Any] = field(default_factory=list)
    selected: "SelectedRows | None" = None

    def note(self, unit: Unit, arguments: list[Any], output: object) -> None:
        """Note a call."""
        if self.selected is not None and self.selected.follow(arguments, output):
            raise OtherwiseDividedError(unit)
        derived = any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in arguments)
        leaves = [] if unit.rule is not None else pytree.tree_leaves(output)
        self.calls.append((unit, list(map(_shape, arguments)), list(map(_shape, leaves)), derived))

    @property
    def units(self) -> list[Unit]:
        """The layers in the order in which they were called."""
        return [unit for unit, *_ in self.calls]


def infer_call_plan(run: Callable[[int, frozenset[Unit]], Shapes], few: int, more: int) -> CallPlan:
    """The plan of a model's calls, from forwards with few and with more rows."""
    shared, before = frozenset[Unit](), list[Any]()
    while True:
        try:
            one, other = run(few, shared), run(more, shared)
        except GuaranteeError:
            raise
        except Exception as error:
            if not shared:
                raise
            raise SameForAllError(next(iter(shared))) from error
        try:
            plan = _compared(one, other)
        except GuaranteeError as error:
            if not shared:  # without repeated inputs there was nothing wrong
                raise
            raise SameForAllError(next(iter(shared))) from error
        if shared:
            _check_same(before, one.output, next(iter(shared)))
        if plan.shared == shared:
            return plan
        before, shared = before if shared else one.output, plan.shared


def merged(plans: Sequence[CallPlan]) -> CallPlan:
    """One plan with the calls of all, of a model that leaves some out by chance."""
    calls = list(plans[0].calls)
    for plan in plans[1:]:
        matcher = SequenceMatcher(a=[id(c.unit) for c in calls], b=[id(c.unit) for c in plan.calls], autojunk=False)
        joint: list[Call] = []
        for kind, start, end, other_start, other_end in matcher.get_opcodes():
            joint += calls[start:end]
            joint += plan.calls[other_start:other_end] if kind in {"insert", "replace"} else ()
        calls = joint
    shared = frozenset().union(*(plan.shared for plan in plans))
    return replace(plans[0], calls=tuple(calls), shared=shared)


def _compared(one: Shapes, other: Shapes) -> CallPlan:
    if one.units != other.units:
        raise GuaranteeError(
            f"the private module calls other layers for {one.rows} rows than for {other.rows}: let the calls depend "
            "neither on the number of examples nor on their values."
        )
    calls: list[Call] = []
    repeated, later = set[Unit](), set[Unit]()
    for (unit, arguments, output, derived), (_, others, other_output, _) in zip(one.calls, other.calls, strict=True):
        if unit.direct_parameters:
            calls.append(Call(unit, (), (), ()))
            continue
        if unit.rule is not None and sum(leaf is not None for leaf in arguments) > 1:
            raise GuaranteeError(
                f"{unit.title} is called with several tensors, and a rule's formula knows of the first alone: call "
                "it with one, or let its class have no rule; it is then run example by example."
            )
        if len(arguments) != len(others):
            raise OtherwiseDividedError(unit)
        lying = [_lying(*pair, one.rows, other.rows) for pair in zip(arguments, others, strict=True)]
        if any(each is None for each in lying) or (
            unit.rule is not None and any(each[1] > 0 for each in lying if each)
        ):
            raise OtherwiseDividedError(unit)
        entries, along = zip(*[each for each in lying if each], strict=True) if lying else ((), ())
        call = Call(unit, entries, along, (None,) * len(output))
        if unit.rule is None:
            call = _returned(call, output, other_output, one, other)
        if call.returns == "stacked" if unit.rule is None else not any(entries):
            # What comes from another such layer will differ by example once that layer's input is repeated.
            (later if derived and not any(entries) and unit not in one.shared else repeated).add(unit)
        calls.append(call)
    divided = [call for call in calls if call.returns != "stacked" and (call.unit.rule is None or any(call.entries))]
    apart = {call.unit for call in divided}
    for unit in repeated | (later if not repeated else set()):
        if unit in apart or unit in later or (unit.rule is not None and not unit.rule.positions):
            raise SameForAllError(unit)
    return CallPlan(tuple(calls), frozenset(repeated) | one.shared, tuple(_outputs(one, other)))


def _shape(leaf: object) -> Shape:
    return tuple(leaf.shape) if isinstance(leaf, Tensor) else None


def _lying(one: Shape, other: Shape, few: int, more: int) -> tuple[int, int] | None:
    """How many entries a row has and along which dimension; none of what is the same for all, None for all else.

    >>> _lying((2, 7), (3, 7), 2, 3), _lying((5, 4), (5, 4), 2, 3), _lying((4, 8), (4, 9), 2, 3)
    ((1, 0), (0, 0), None)
    """
    if one == other:
        return 0, NO_TENSOR if one is None else 0
    if one is None or other is None or len(one) != len(other):
        return None
    grown = [at for at, (size, larger) in enumerate(zip(one, other, strict=True)) if size != larger]
    if len(grown) != 1 or one[grown[0]] * more != other[grown[0]] * few or one[grown[0]] % few:
        return None
    return one[grown[0]] // few, grown[0]


def _returned(call: Call, output: list[Shape], other_output: list[Shape], one: Shapes, other: Shapes) -> Call:
    """The call of a layer without a formula, with how it returns what each example gets."""
    if call.unit in one.shared:
        return replace(call, joined=tuple(None if shape is None else 0 for shape in output), returns="stacked")
    if len(output) != len(other_output):
        raise OtherwiseDividedError(call.unit)
    given, grown, fixed, joined = any(call.entries), False, False, list[int | None]()
    for shape, larger in zip(output, other_output, strict=True):
        lying = _lying(shape, larger, one.rows, other.rows)
        if lying is None or shape == ():
            raise OtherwiseDividedError(call.unit, returns=True)
        joined.append(None if shape is None else lying[1])
        # What has one entry in front, whatever the number of examples, is made by each of them and put side by side.
        if shape is not None and not (given and shape[0] == 1):
            grown, fixed = grown or lying[0] > 0, fixed or not lying[0]
    if grown and fixed:
        raise OtherwiseDividedError(call.unit, returns=True)
    if not given and not (grown or fixed):
        raise SameForAllError(call.unit)
    returns: Returns = "stacked" if fixed else "beside" if given else "own"
    return replace(call, joined=tuple(joined), returns=returns)


def _outputs(one: Shapes, other: Shapes) -> Iterator[int | None]:
    if len(one.output) != len(other.output):
        raise GuaranteeError(
            f"the private module returns other tensors for {one.rows} rows than for {other.rows}: {APART}."
        )
    for leaf, larger in zip(one.output, other.output, strict=True):
        lying = _lying(_shape(leaf), _shape(larger), one.rows, other.rows)
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            if leaf.ndim == 0:
                raise GuaranteeError(
                    "the private module returns a single number for the whole batch, such as a loss, or keeps one as "
                    "an attribute, which mixes the examples: return outputs per example (call a Hugging Face model "
                    "without labels=) and take the loss outside, for example by dpsgd.per_example_loss."
                )
            if lying is None:
                raise GuaranteeError(
                    "the output of the private module, or a tensor that it keeps as an attribute, does not have the "
                    f"entries of its examples side by side: {APART}."
                )
        yield lying[1] if lying and lying[0] else None


def _check_same(before: list[Any], after: list[Any], unit: Unit) -> None:
    """Refuse a model that computes something else once the inputs that all examples share are repeated for each."""
    for one, other in zip(before, after, strict=True):
        if not isinstance(one, Tensor) or not one.is_floating_point():
            continue
        try:
            apart = torch.linalg.vector_norm(one.double().nan_to_num() - other.double().nan_to_num())
        except RuntimeError as error:  # shapes that do not go together
            raise SameForAllError(unit) from error
        if not apart <= _TOLERANCE * torch.linalg.vector_norm(other.double().nan_to_num()):
            raise SameForAllError(unit)


class NoDropout(TorchFunctionMode):
    """Lets dropout drop nothing, so that what else is drawn at random is the same for any number of rows."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in _DROPOUT:
            return args[0] if args else kwargs["input"]
        if name in _ATTENTION:
            at, args = _ATTENTION[name], list(args)
            if len(args) > at:
                args[at] = 0.0
            elif "dropout_p" in kwargs:
                kwargs["dropout_p"] = 0.0
        return func(*args, **kwargs)


_DROPOUT = {
    f"{kind}{end}"
    for kind in ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")
    for end in ("", "_")
} | {"dropout1d", "dropout2d", "dropout3d"}
_ATTENTION = {"scaled_dot_product_attention": 4, "multi_head_attention_forward": 10}
