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
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from inid.dpsgd.loss.nodes import (
    ALONG,
    CUTTING,
    ELEMENTWISE,
    FIRST,
    LINEAR,
    LOSSES,
    MOVED,
    PRODUCTS,
    RESHAPED,
    SAID,
    Edge,
    dimensions_of,
    is_number,
    shape_of,
    signed,
    smoothed_positions,
)
from inid.errors import GuaranteeError

CURE = (
    "use private.loss(loss_fn, outputs, *targets), which takes the loss row by row, or private.backward(losses) with "
    "one loss per row"
)


@dataclass(frozen=True)
class Rows:
    """By rows: along which dimension they lie, and how many of its entries each has.

    >>> Rows(along=0, entries=1)
    Rows(along=0, entries=1)
    """

    along: int
    entries: int


_OUTSIDE, _SUMMED = "outside", "summed"
_Kind = Rows | str


@dataclass(eq=False)
class LossGraph:
    """The graph of one loss, from its end to the outputs of a model."""

    outputs: Mapping[Edge, int]
    rows: int
    known: Collection[nn.Parameter] = ()
    lenient: bool = False
    _kinds: dict[Any, _Kind] = field(default_factory=dict)
    _means: list[Any] = field(default_factory=list)  # nodes that divide by how many labels count
    _trained: bool = False  # something is trained that is not the model's
    _quotients: list[tuple[Any, int]] = field(default_factory=list)  # the same, with the number of all positions

    def check(self, ends: Iterable[Edge]) -> bool:
        """Refuse a loss that may mix rows; else let its means divide by public numbers."""
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
        return Rows(0, 1)

    def nodes(self, end: Edge) -> set[Any]:
        """What lies between the outputs and a tensor, with what made the outputs."""
        found, waiting = set(), [end]
        while waiting:
            edge = waiting.pop()
            if edge[0] is not None and edge[0] not in found:
                found.add(edge[0])
                waiting += [] if edge in self.outputs else edge[0].next_functions
        return found

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
        return Rows(along, shape_of(edge)[along] // self.rows)

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
            if self.lenient:
                return _OUTSIDE
            raise refused(f"{node.name()!r}, which autograd cannot look into")
        if _SUMMED in kinds:
            return self._after(node, name, kinds)
        inputs = [(shape_of(edge), kind) for edge in inner if isinstance(kind := self._known(edge), Rows)]
        return self._by_rows(node, name, inputs)

    def _after(self, node: Any, name: str, kinds: set[_Kind]) -> _Kind:
        """What follows the sum over rows: it must be linear, and by public numbers."""
        if kinds - {_SUMMED, _OUTSIDE}:
            raise refused(f"{name} of a number for the whole batch with rows")
        if name in LINEAR:
            return _SUMMED
        if name in {"Mul", "Div"}:
            if node.name().endswith(("Backward1", "Backward3")):
                return _SUMMED  # by a number, which torch knows as such
            first, second = ((*node.next_functions, (None, 0)))[:2]
            others = [getattr(node, saved, None) for saved in ("_saved_self", "_saved_other")]
            numbers = [other for other in others if isinstance(other, Tensor)]
            single = (first[0] is None) != (second[0] is None) and not (name == "Div" and first[0] is None)
            if single and numbers and all(map(is_number, numbers)):
                return _SUMMED
            positions = smoothed_positions(node) if name == "Div" else None
            if positions is not None:
                self._quotients.append((node, positions))
                return _SUMMED
            raise refused(
                f"{name} of a number for the whole batch by a tensor (how many labels count, what they weigh?), which "
                "may hold a fact about all rows; a Python number such as len(y) is fine; bfloat16 needs no GradScaler"
            )
        raise refused(f"{name} of a number for the whole batch, which is not linear in its rows")

    def _by_rows(self, node: Any, name: str, inputs: list[tuple[Sequence[int], Rows]]) -> _Kind:
        made = shape_of((node, 0))
        if name in LOSSES:
            return self._loss(node, name, inputs)
        if name in {"Sum", "Mean"}:
            shape, kind = inputs[0]
            dimensions = dimensions_of(node, len(shape))
            if dimensions is None or kind.along in dimensions:
                return _SUMMED
            return self._along(name, made, inputs, dimensions)
        if name in ELEMENTWISE:
            return self._elementwise(name, made, inputs)
        if name in RESHAPED:
            return self._reshaped(name, made, *inputs[0])
        if name in ALONG:
            dimensions = dimensions_of(node, len(inputs[0][0]))
            if dimensions is None:
                raise refused(f"{name} over all rows")
            if name == "Gather":
                self._check_others(name, node._saved_index, inputs[0][1].along)  # noqa: SLF001 - what autograd keeps
            if name == "IndexSelect" and any(made[at] == self.rows > 1 for at in dimensions):
                raise refused(f"{name} by as many numbers as there are rows (everybody's labels?)")
            return self._along(name, made, inputs, dimensions)
        if name in MOVED:
            return self._same(name, made, inputs, MOVED[name](node, len(made))[inputs[0][1].along])
        if name == "Stack":
            at = signed(node._saved_dim) % len(made)  # noqa: SLF001 - what autograd keeps
            return self._same(name, made, inputs, [d for d in range(len(made)) if d != at][inputs[0][1].along])
        return self._otherwise(node, name, made, inputs)

    def _otherwise(self, node: Any, name: str, made: Sequence[int], inputs: list[tuple[Sequence[int], Rows]]) -> _Kind:
        """What is not in the lists: refused or, by a lenient judge, unless it is known to mix, taken for harmless."""
        if name == "NativeLayerNorm" and inputs[0][1].along >= len(made) - len(node._saved_normalized_shape):  # noqa: SLF001 - what autograd keeps
            raise refused(f"{name} over rows")
        if self.lenient and not (name in PRODUCTS and len(inputs) > 1):
            return _OUTSIDE
        raise refused(SAID.get(name, name))

    def _loss(self, node: Any, name: str, inputs: list[tuple[Sequence[int], Rows]]) -> _Kind:
        shape, kind = inputs[0]
        reduced = node._saved_reduction != 0  # noqa: SLF001 - what autograd keeps; 0 is "none"
        if name not in FIRST:  # elementwise
            made = self._elementwise(name, shape, inputs)
            self._check_others(name, node._saved_target.expand(shape), kind.along)  # noqa: SLF001 - as above
            return _SUMMED if reduced else made
        if kind.along != 0:
            raise refused(f"{name} whose first dimension is not that of the rows")
        if not reduced:
            return kind
        if name.startswith("NllLoss") and node._saved_reduction == 1:  # noqa: SLF001 - as above
            if node._saved_weight is not None:  # noqa: SLF001 - as above
                raise refused(
                    "a mean with class weights, which divides by the weights of everybody's labels; private.loss with "
                    "reduction='sum' in loss_fn divides by nothing"
                )
            self._means.append(node)
        return _SUMMED

    def _elementwise(self, name: str, made: Sequence[int], inputs: list[tuple[Sequence[int], Rows]]) -> _Kind:
        places = {(kind.along + len(made) - len(shape), kind.entries) for shape, kind in inputs}
        place, entries = next(iter(places))
        if len(places) > 1 or made[place] != entries * self.rows:
            raise refused(f"{name} of rows with other rows")
        for at, size in enumerate(made):
            held = {shape[at - len(made)] if at - len(made) >= -len(shape) else 1 for shape, _ in inputs}
            if 1 < size == self.rows and held == {1} and at != place:
                raise refused(
                    f"{name} that sets every row against as many numbers as there are rows (shapes (rows, 1) and "
                    "(rows,)?); bring targets into the shape of the outputs"
                )
        return Rows(place, entries)

    def _check_others(self, name: str, other: Tensor, along: int) -> None:
        """Refuse what is the same for all rows and has as many numbers as there are rows along another dimension."""
        varied = [at for at, size in enumerate(other.shape) if size == self.rows and other.stride(at)]
        if self.rows > 1 and other.stride(along) == 0 and varied:
            raise refused(f"{name} that sets every row against as many numbers as there are rows (everybody's labels?)")

    def _reshaped(self, name: str, made: Sequence[int], shape: Sequence[int], kind: Rows) -> _Kind:
        """Rows lie one after another behind what comes before them, in any shape that keeps that."""
        before = math.prod(shape[: kind.along])
        for at, size in enumerate(made):
            if math.prod(made[:at]) == before and size and size % self.rows == 0:
                return Rows(at, size // self.rows)
        if self.lenient:
            return _OUTSIDE
        raise refused(f"{name} that does not keep rows one after another")

    def _along(
        self, name: str, made: Sequence[int], inputs: list[tuple[Sequence[int], Rows]], dimensions: set[int]
    ) -> _Kind:
        """A function along some dimensions, which may vanish."""
        shape, kind = inputs[0]
        if kind.along in dimensions and not (name == "Slice" and tuple(made) == tuple(shape)):
            if self.lenient and name in CUTTING:
                return _OUTSIDE
            raise refused(f"{name} along the rows")
        gone = sum(each < kind.along for each in dimensions) if len(made) < len(shape) else 0
        return self._same(name, made, inputs, kind.along - gone)

    def _same(self, name: str, made: Sequence[int], inputs: list[tuple[Sequence[int], Rows]], along: int) -> _Kind:
        """All inputs must lie alike, and the rows must all be there."""
        kinds = {(kind, len(shape)) for shape, kind in inputs}
        entries = inputs[0][1].entries
        if len(kinds) > 1 or made[along] != entries * self.rows:
            raise refused(f"{name} of rows with other rows")
        return Rows(along, entries)


def refused(what: str) -> GuaranteeError:
    """The refusal of a loss, by what it takes."""
    return GuaranteeError(f"the loss mixes the rows of the batch, or may: it takes {what}. For such a loss {CURE}.")


def _divide_by_all(node: Any) -> None:
    """Let the mean of a loss divide by the number of its labels instead of those that count.

    The divisor is a tensor that torch made for this node alone. Written over, it makes everybody's share the same to
    the last bit, whatever the labels; a factor before the node would round by the secret number.
    """
    divisor = node._saved_total_weight  # noqa: SLF001 - what autograd keeps
    if divisor.data_ptr() != node._saved_total_weight.data_ptr():  # noqa: SLF001 - as above
        raise refused("a mean over labels inside hooks that put saved tensors elsewhere (save_on_cpu)")
    divisor.data.fill_(node._saved_target.numel())  # noqa: SLF001 - as above
