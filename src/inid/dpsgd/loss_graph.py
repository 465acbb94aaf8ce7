"""Which losses keep the rows of a batch apart: seen in the graph from the loss to the outputs, before the backward.

Every tensor between the outputs of the model and the loss is one of three things: *outside* (it does not depend on the
outputs), *by rows* (a dimension holds so many entries of each row, one row after another), or *summed* (sums over rows,
added up and multiplied by Python numbers). Outputs are by rows. Elementwise functions, and functions along other
dimensions, leave rows apart; a mean or a sum over the rows makes a number of them; what follows may only be linear, and
by numbers that are no tensors: a tensor there may hold a fact about the whole batch (how many labels count, what they
weigh). Whatever is not in the lists below is refused by its name.

Torch's means over the labels that count (`ignore_index`, label smoothing) are linear but for their divisor, which is a
secret number. It is replaced by the number of all positions, which is public, before the backward begins.

What the graph does not show: numbers that do not depend on the outputs, such as labels that were permuted, weights by
row that were normalised over the batch, or a Python number that was read from a tensor.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from inid.errors import GuaranteeError

__all__ = ["Edge", "LossGraph", "edge_of"]

Edge = tuple[Any, int]  # a node of autograd, and which of its outputs

CURE = (
    "use private.loss(loss_fn, outputs, *targets), which takes the loss row by row, or private.backward(losses) with "
    "one loss per row"
)


def edge_of(tensor: Tensor) -> Edge | None:
    """Where a tensor comes from in the graph; None if it needs no gradient, or is a leaf.

    >>> edge_of(torch.ones(2)) is None
    True
    """
    return None if tensor.grad_fn is None else (tensor.grad_fn, tensor.output_nr)


@dataclass(frozen=True)
class _Rows:
    """By rows: along which dimension they lie, and how many of its entries each has."""

    along: int
    entries: int


_OUTSIDE, _SUMMED = "outside", "summed"
_Kind = _Rows | str


@dataclass(eq=False)
class LossGraph:
    """The graph of one loss, from its end to the outputs of a model.

    Attributes:
        outputs: Where outputs come from, and along which dimension of each the rows lie.
        rows: How many rows the batch has.
        known: The parameters of the model.
    """

    outputs: Mapping[Edge, int]
    rows: int
    known: Collection[nn.Parameter] = ()
    _kinds: dict[Any, _Kind] = field(default_factory=dict)
    _means: list[Any] = field(default_factory=list)  # nodes that divide by how many labels count
    _trained: bool = False  # something is trained that is not the model's
    _quotients: list[tuple[Any, int]] = field(default_factory=list)  # the same, with the number of all positions

    def check(self, ends: Iterable[Edge]) -> bool:
        """Refuse a loss that may mix rows; else let its means divide by public numbers.

        Returns:
            Whether the loss depends on the outputs.

        Raises:
            GuaranteeError: The loss is refused, by the name of what does it.
        """
        kinds = {self.kind_of(end) for end in ends}
        if self._trained and kinds != {_OUTSIDE}:
            raise GuaranteeError(
                "the loss has parameters of its own, which would be trained on the data without clipping and noise: "
                "put whatever learns into the module before make_private, or freeze it."
            )
        for node in self._means:
            _divide_by_all(node)
        for node, positions in self._quotients:
            node.register_hook(lambda _, sent, every=positions: (sent[0] / every, None))
        return bool(kinds - {_OUTSIDE})

    @property
    def rows_first(self) -> object:
        """What one number per row is."""
        return _Rows(0, 1)

    def names(self, end: Edge) -> frozenset[str]:
        """The names of what lies between the outputs and a tensor."""
        found, waiting = set(), [end]
        while waiting:
            edge = waiting.pop()
            if edge[0] is not None and edge not in self.outputs and edge[0] not in found:
                found.add(edge[0])
                waiting += edge[0].next_functions
        return frozenset(node.name() for node in found)

    def kind_of(self, end: Edge) -> _Kind:
        """What a tensor is."""
        waiting = [end[0]] if self._known(end) is None else []
        while waiting:
            node = waiting[-1]
            inner = [edge for edge in node.next_functions if edge[0] is not None and self._known(edge) is None]
            if inner:
                waiting += [edge[0] for edge in inner]
            else:
                waiting.pop()
                if node not in self._kinds:
                    self._kinds[node] = self._judged(node)
        found = self._known(end)
        assert found is not None  # noqa: S101 - for the type checker: it was worked out above
        return found

    def _known(self, edge: Edge) -> _Kind | None:
        along = self.outputs.get(edge)
        if along is None:
            return self._kinds.get(edge[0])
        return _Rows(along, _shape(edge)[along] // self.rows)

    def _judged(self, node: Any) -> _Kind:
        inner = [edge for edge in node.next_functions if edge[0] is not None]
        kinds = {kind for edge in inner if (kind := self._known(edge)) is not None}
        if not kinds - {_OUTSIDE}:
            variable = getattr(node, "variable", None)  # of a leaf
            if isinstance(variable, nn.Parameter) and all(variable is not each for each in self.known):
                self._trained = True
            return _OUTSIDE
        name = re.sub(r"Backward\d*$", "", node.name())
        if isinstance(node, BackwardCFunction) or name.startswith("Compiled"):
            raise _refused(f"{node.name()!r}, which autograd cannot look into")
        if _SUMMED in kinds:
            return self._after(node, name, kinds)
        inputs = [(_shape(edge), kind) for edge in inner if isinstance(kind := self._known(edge), _Rows)]
        return self._by_rows(node, name, inputs)

    def _after(self, node: Any, name: str, kinds: set[_Kind]) -> _Kind:
        """What follows the sum over rows: it must be linear, and by public numbers."""
        if kinds - {_SUMMED, _OUTSIDE}:
            raise _refused(f"{name} of a number for the whole batch with rows")
        if name in _LINEAR:
            return _SUMMED
        if name in {"Mul", "Div"}:
            if node.name().endswith(("Backward1", "Backward3")):
                return _SUMMED  # by a number, which torch knows as such
            first, second = ((*node.next_functions, (None, 0)))[:2]
            others = [getattr(node, saved, None) for saved in ("_saved_self", "_saved_other")]
            numbers = [other for other in others if isinstance(other, Tensor)]
            single = (first[0] is None) != (second[0] is None) and not (name == "Div" and first[0] is None)
            if single and numbers and all(map(_is_number, numbers)):
                return _SUMMED
            positions = _of_label_smoothing(node) if name == "Div" else None
            if positions is not None:
                self._quotients.append((node, positions))
                return _SUMMED
            raise _refused(
                f"{name} of a number for the whole batch by a tensor (how many labels count, what they weigh?), which "
                "may hold a fact about all rows; a Python number such as len(y) is fine; bfloat16 needs no GradScaler"
            )
        raise _refused(f"{name} of a number for the whole batch, which is not linear in its rows")

    def _by_rows(self, node: Any, name: str, inputs: list[tuple[Sequence[int], _Rows]]) -> _Kind:
        made = _shape((node, 0))
        if name in _LOSSES:
            return self._loss(node, name, inputs)
        if name in {"Sum", "Mean"}:
            shape, kind = inputs[0]
            dimensions = _dimensions(node, len(shape))
            if dimensions is None or kind.along in dimensions:
                return _SUMMED
            return self._along(name, made, inputs, dimensions)
        if name in _ELEMENTWISE:
            return self._elementwise(name, made, inputs)
        if name in _RESHAPED:
            return self._reshaped(name, made, *inputs[0])
        if name in _ALONG:
            dimensions = _dimensions(node, len(inputs[0][0]))
            if dimensions is None:
                raise _refused(f"{name} over all rows")
            if name == "Gather":
                self._check_others(name, node._saved_index, inputs[0][1].along)  # noqa: SLF001 - what autograd keeps
            if name == "IndexSelect" and any(made[at] == self.rows > 1 for at in dimensions):
                raise _refused(f"{name} by as many numbers as there are rows (everybody's labels?)")
            return self._along(name, made, inputs, dimensions)
        if name in _MOVED:
            return self._same(name, made, inputs, _MOVED[name](node, len(made))[inputs[0][1].along])
        if name == "Stack":
            at = _signed(node._saved_dim) % len(made)  # noqa: SLF001 - what autograd keeps
            return self._same(name, made, inputs, [d for d in range(len(made)) if d != at][inputs[0][1].along])
        raise _refused(_SAID.get(name, name))

    def _loss(self, node: Any, name: str, inputs: list[tuple[Sequence[int], _Rows]]) -> _Kind:
        shape, kind = inputs[0]
        reduced = node._saved_reduction != 0  # noqa: SLF001 - what autograd keeps; 0 is "none"
        if name not in _FIRST:  # elementwise
            made = self._elementwise(name, shape, inputs)
            self._check_others(name, node._saved_target.expand(shape), kind.along)  # noqa: SLF001 - as above
            return _SUMMED if reduced else made
        if kind.along != 0:
            raise _refused(f"{name} whose first dimension is not that of the rows")
        if not reduced:
            return kind
        if name.startswith("NllLoss") and node._saved_reduction == 1:  # noqa: SLF001 - as above
            if node._saved_weight is not None:  # noqa: SLF001 - as above
                raise _refused(
                    "a mean with class weights, which divides by the weights of everybody's labels; private.loss with "
                    "reduction='sum' in loss_fn divides by nothing"
                )
            self._means.append(node)
        return _SUMMED

    def _elementwise(self, name: str, made: Sequence[int], inputs: list[tuple[Sequence[int], _Rows]]) -> _Kind:
        places = {(kind.along + len(made) - len(shape), kind.entries) for shape, kind in inputs}
        place, entries = next(iter(places))
        if len(places) > 1 or made[place] != entries * self.rows:
            raise _refused(f"{name} of rows with other rows")
        for at, size in enumerate(made):
            held = {shape[at - len(made)] if at - len(made) >= -len(shape) else 1 for shape, _ in inputs}
            if 1 < size == self.rows and held == {1} and at != place:
                raise _refused(
                    f"{name} that sets every row against as many numbers as there are rows (shapes (rows, 1) and "
                    "(rows,)?); bring targets into the shape of the outputs"
                )
        return _Rows(place, entries)

    def _check_others(self, name: str, other: Tensor, along: int) -> None:
        """Refuse what is the same for all rows and has as many numbers as there are rows along another dimension."""
        varied = [at for at, size in enumerate(other.shape) if size == self.rows and other.stride(at)]
        if self.rows > 1 and other.stride(along) == 0 and varied:
            raise _refused(
                f"{name} that sets every row against as many numbers as there are rows (everybody's labels?)"
            )

    def _reshaped(self, name: str, made: Sequence[int], shape: Sequence[int], kind: _Rows) -> _Kind:
        """Rows lie one after another behind what comes before them, in any shape that keeps that."""
        before = math.prod(shape[: kind.along])
        for at, size in enumerate(made):
            if math.prod(made[:at]) == before and size and size % self.rows == 0:
                return _Rows(at, size // self.rows)
        raise _refused(f"{name} that does not keep rows one after another")

    def _along(
        self, name: str, made: Sequence[int], inputs: list[tuple[Sequence[int], _Rows]], dimensions: set[int]
    ) -> _Kind:
        """A function along some dimensions, which may vanish."""
        shape, kind = inputs[0]
        if kind.along in dimensions and not (name == "Slice" and tuple(made) == tuple(shape)):
            raise _refused(f"{name} along the rows")
        gone = sum(each < kind.along for each in dimensions) if len(made) < len(shape) else 0
        return self._same(name, made, inputs, kind.along - gone)

    def _same(self, name: str, made: Sequence[int], inputs: list[tuple[Sequence[int], _Rows]], along: int) -> _Kind:
        """All inputs must lie alike, and the rows must all be there."""
        kinds = {(kind, len(shape)) for shape, kind in inputs}
        entries = inputs[0][1].entries
        if len(kinds) > 1 or made[along] != entries * self.rows:
            raise _refused(f"{name} of rows with other rows")
        return _Rows(along, entries)


def _refused(what: str) -> GuaranteeError:
    return GuaranteeError(f"the loss mixes the rows of the batch, or may: it takes {what}. For such a loss {CURE}.")


def _shape(edge: Edge) -> Sequence[int]:
    return tuple(edge[0]._input_metadata[edge[1]].shape)  # noqa: SLF001 - the only way to the shape of a tensor


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _dimensions(node: Any, rank: int) -> set[int] | None:
    """Along which dimensions of its input a node works; None for all."""
    found = getattr(node, "_saved_dim", getattr(node, "_saved_dims", None))
    if found is None or found == ():
        return None
    return {_signed(each) % max(rank, 1) for each in (found if isinstance(found, (tuple, list)) else [found])}


def _transposed(node: Any, rank: int) -> list[int]:
    order = list(range(rank))
    one, other = (_signed(node._saved_dim0) % rank, _signed(node._saved_dim1) % rank)  # noqa: SLF001 - what autograd keeps
    order[one], order[other] = order[other], order[one]
    return order


def _permuted(node: Any, rank: int) -> list[int]:
    before = [_signed(each) % rank for each in node._saved_dims]  # noqa: SLF001 - what autograd keeps
    return [before.index(at) for at in range(rank)]


# Where each dimension of the input went.
_MOVED: dict[str, Callable[[Any, int], list[int]]] = {
    "Transpose": _transposed,
    "Permute": _permuted,
    "T": lambda _node, rank: list(range(rank))[::-1],
}


def _is_number(tensor: Tensor) -> bool:
    """Whether a tensor without dimensions stands for a Python number, which gives way to any other type.

    No tensor proper gives way to both types that are tried, but for bools, which cannot be told apart.
    """
    tried = (torch.float16, torch.bfloat16) if tensor.is_floating_point() else (torch.uint8, torch.int8)
    gives_way = all(torch.result_type(tensor, torch.zeros((), dtype=each)) == each for each in tried)
    return tensor.ndim == 0 and tensor.dtype != torch.bool and gives_way


def _of_label_smoothing(node: Any) -> int | None:
    """The number of positions that label smoothing sums over, if this is where it divides by those that count."""
    (total, _), divisor = node.next_functions[0], node._saved_other  # noqa: SLF001 - what autograd keeps
    if (
        total is None
        or total.name() != "SumBackward0"
        or not isinstance(divisor, Tensor)
        or divisor.is_floating_point()
    ):
        return None
    masked = total.next_functions[0][0]
    if divisor.ndim or masked is None or masked.name() != "MaskedFillBackward0":
        return None
    return math.prod(_shape((masked, 0)))


def _divide_by_all(node: Any) -> None:
    """Let the mean of a loss divide by the number of its labels instead of those that count.

    The divisor is a tensor that torch made for this node alone. Written over, it makes everybody's share the same to
    the last bit, whatever the labels; a factor before the node would round by the secret number.
    """
    divisor = node._saved_total_weight  # noqa: SLF001 - what autograd keeps
    if divisor.data_ptr() != node._saved_total_weight.data_ptr():  # noqa: SLF001 - as above
        raise _refused("a mean over labels inside hooks that put saved tensors elsewhere (save_on_cpu)")
    divisor.data.fill_(node._saved_target.numel())  # noqa: SLF001 - as above


def _names(*lines: str) -> frozenset[str]:
    return frozenset(name for line in lines for name in line.split())


_LINEAR = _names(
    "Add Sub Rsub Neg ToCopy Alias Clone View UnsafeView ReshapeAlias Squeeze Unsqueeze Sum Mean Stack Cat Select",
    "Slice Expand Unbind",
)
# Functions of each entry by itself, or of entries at one place of several tensors.
_ELEMENTWISE = _names(
    "Abs Acos Acosh Add Addcdiv Addcmul Alias Asin Asinh Atan Atan2 Atanh Celu Clamp ClampMax ClampMin Clone Copysign",
    "Cos Cosh Digamma Div Elu Erf Erfc Erfinv Exp Exp2 Expm1 Expand Frac Gelu Hardshrink Hardsigmoid Hardswish",
    "Hardtanh Hypot LeakyRelu Lerp Lgamma Log Log10 Log1P Log2 LogSigmoid Logaddexp Logaddexp2 Logit MaskedFill",
    "Maximum Minimum Mish Mul NanToNum NativeDropout Neg Pow Reciprocal Relu Relu6 Rsqrt Rsub Sgn Sigmoid Sign Silu",
    "Sin Sinc Sinh Softplus Softshrink Sqrt Sub Tan Tanh Threshold ToCopy Where Xlog1Py Xlogy",
)
_ALONG = _names(
    "Amax Amin Cat CosineSimilarity Cummax Cummin Cumprod Cumsum Flip Gather Glu IndexSelect Kthvalue LinalgVectorNorm",
    "LogSoftmax Logcumsumexp Logsumexp Max Median Min Narrow Norm Prod Roll Select Slice Softmax Sort Split",
    "SplitWithSizes Std Topk Unbind Var",
)
_RESHAPED = _names("View UnsafeView ReshapeAlias Squeeze Unsqueeze")
# Losses of torch, with a reduction of their own; in some the rows are the first dimension, others are elementwise.
_FIRST = _names("NllLoss NllLoss2D MultiMarginLoss MultilabelMarginLoss")
_LOSSES = _FIRST | _names(
    "BinaryCrossEntropy BinaryCrossEntropyWithLogits HuberLoss MseLoss SmoothL1Loss SoftMarginLoss"
)
_SAID = {
    "Index": "entries by an index, which may be those of other rows; the mean is over all rows (padding counts "
    "nowhere anyway), and gather along another dimension is fine",
    "Mm": "a matrix product, in which every row may meet every other",
    "Bmm": "a matrix product, in which every row may meet every other",
    "CtcLoss": "the CTC loss, whose mean divides by all lengths",
}
