"""What nodes of autograd are called and keep, by which a loss is judged."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

Edge = tuple[Any, int]  # a node of autograd, and which of its outputs


def edge_of(tensor: Tensor) -> Edge | None:
    """Where a tensor comes from in the graph; None if it needs no gradient, or is a leaf.

    >>> edge_of(torch.ones(2)) is None
    True
    """
    return None if tensor.grad_fn is None else (tensor.grad_fn, tensor.output_nr)


def shape_of(edge: Edge) -> Sequence[int]:
    """The shape of a tensor, by where it comes from."""
    return tuple(edge[0]._input_metadata[edge[1]].shape)  # noqa: SLF001 - the only way to the shape of a tensor


def signed(number: int) -> int:
    """A number that a node keeps, which torch hands over without its sign."""
    return number - 2**64 if number >= 2**63 else number


def dimensions_of(node: Any, rank: int) -> set[int] | None:
    """Along which dimensions of its input a node works; None for all."""
    found = getattr(node, "_saved_dim", getattr(node, "_saved_dims", None))
    if found is None or found == ():
        return None
    return {signed(each) % max(rank, 1) for each in (found if isinstance(found, (tuple, list)) else [found])}


def _transposed(node: Any, rank: int) -> list[int]:
    order = list(range(rank))
    one, other = (signed(node._saved_dim0) % rank, signed(node._saved_dim1) % rank)  # noqa: SLF001 - what autograd keeps
    order[one], order[other] = order[other], order[one]
    return order


def _permuted(node: Any, rank: int) -> list[int]:
    before = [signed(each) % rank for each in node._saved_dims]  # noqa: SLF001 - what autograd keeps
    return [before.index(at) for at in range(rank)]


# Where each dimension of the input went.
MOVED: dict[str, Callable[[Any, int], list[int]]] = {
    "Transpose": _transposed,
    "Permute": _permuted,
    "T": lambda _node, rank: list(range(rank))[::-1],
}


def reduction_of(edge: Edge) -> Literal["mean", "sum"] | None:
    """How a loss adds up over rows, where its last function shows it.

    >>> x = torch.ones(3, requires_grad=True)
    >>> [reduction_of(edge_of(loss)) for loss in (x.exp().mean(), x.exp().sum(), (x / 3).sum(), x.exp().sum() / 3)]
    ['mean', 'sum', None, None]
    """
    node = edge[0]
    name = node.name().removesuffix("Backward0").removesuffix("Backward1")
    known: dict[object, Literal["mean", "sum"]] = {1: "mean", 2: "sum", "Mean": "mean", "Sum": "sum"}
    if name in LOSSES:
        return known.get(node._saved_reduction)  # noqa: SLF001 - what autograd keeps
    before = node.next_functions[0][0] if name in known else None
    # Terms of a loss may be put side by side, and a weight per row may hold the division.
    others = {"StackBackward0", "CatBackward0", "DivBackward0", "MulBackward0"}
    return None if before is None or before.name() in others else known.get(name)


def is_number(tensor: Tensor) -> bool:
    """Whether a tensor without dimensions stands for a Python number, which gives way to any other type.

    No tensor proper gives way to both types that are tried, but for bools, which cannot be told apart.
    """
    tried = (torch.float16, torch.bfloat16) if tensor.is_floating_point() else (torch.uint8, torch.int8)
    others = (torch.zeros((), dtype=each, device=tensor.device) for each in tried)
    gives_way = all(torch.result_type(tensor, other) == other.dtype for other in others)
    return tensor.ndim == 0 and tensor.dtype != torch.bool and gives_way


def smoothed_positions(node: Any) -> int | None:
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
    return math.prod(shape_of((masked, 0)))


def _names(*lines: str) -> frozenset[str]:
    return frozenset(name for line in lines for name in line.split())


LINEAR = _names(
    "Add Sub Rsub Neg ToCopy Alias Clone View UnsafeView ReshapeAlias Squeeze Unsqueeze Sum Mean Stack Cat Select",
    "Slice Expand Unbind",
)
# Functions of each entry by itself, or of entries at one place of several tensors.
ELEMENTWISE = _names(
    "Abs Acos Acosh Add Addcdiv Addcmul Alias Asin Asinh Atan Atan2 Atanh Celu Clamp ClampMax ClampMin Clone Copysign",
    "Cos Cosh Digamma Div Elu Erf Erfc Erfinv Exp Exp2 Expm1 Expand Frac Gelu Hardshrink Hardsigmoid Hardswish",
    "Hardtanh Hypot LeakyRelu Lerp Lgamma Log Log10 Log1P Log2 LogSigmoid Logaddexp Logaddexp2 Logit MaskedFill",
    "Maximum Minimum Mish Mul NanToNum NativeDropout Neg Pow Reciprocal Relu Relu6 Rsqrt Rsub Sgn Sigmoid Sign Silu",
    "Sin Sinc Sinh Softplus Softshrink Sqrt Sub Tan Tanh Threshold ToCopy Where Xlog1Py Xlogy",
)
ALONG = _names(
    "Amax Amin Cat CosineSimilarity Cummax Cummin Cumprod Cumsum Flip Gather Glu IndexSelect Kthvalue LinalgVectorNorm",
    "LogSoftmax Logcumsumexp Logsumexp Max Median Min Narrow Norm Prod Roll Select Slice Softmax Sort Split",
    "SplitWithSizes Std Topk Unbind Var",
)
CUTTING = _names("Narrow Select Slice Split SplitWithSizes Unbind")  # they take a part, and make nothing of it
PRODUCTS = _names("Mm Bmm Addmm Baddbmm Addmv Mv Dot")
RESHAPED = _names("View UnsafeView ReshapeAlias Squeeze Unsqueeze")
# Losses of torch, with a reduction of their own; in some the rows are the first dimension, others are elementwise.
FIRST = _names("NllLoss NllLoss2D MultiMarginLoss MultilabelMarginLoss")
LOSSES = FIRST | _names("BinaryCrossEntropy BinaryCrossEntropyWithLogits HuberLoss MseLoss SmoothL1Loss SoftMarginLoss")
SAID = {
    "Index": "entries by an index, which may be those of other rows; the mean is over all rows (padding counts "
    "nowhere anyway), and gather along another dimension is fine",
    "Mm": "a matrix product, in which every row may meet every other",
    "Bmm": "a matrix product, in which every row may meet every other",
    "CtcLoss": "the CTC loss, whose mean divides by all lengths",
}
