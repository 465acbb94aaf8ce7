"""What happened in one run of a model on made-up examples: what its layers met, what it gave back, what flowed back."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from inid.dpsgd.kernels.fused_rounding import argument_rounding
from inid.dpsgd.rows.units import Unit
from inid.dpsgd.trial.agreement import squared_norm
from inid.dpsgd.trial.model_outputs import as_real, is_real

__all__ = ["LARGE", "ForwardTrace", "Trace", "differentiated", "sent_back", "started_in"]

LARGE = 2.0**20  # how much longer than usual the gradients are that are sent back, too


@dataclass(eq=False)
class Trace:
    """What happened in one run on made-up examples.

    Attributes:
        examples: How many there were.
        shared: Layers whose input is repeated for each example.
        calls: The layer, the leaves of its arguments, those of its output where it has no formula, and whether the
            arguments come from layers that are trained.
        output: The leaves of the model's output.
        grown: For every call the tensors of its output, to be differentiated by.
        gradients: For every call what flows back to them.
        far: Whether what is a million times as large is sent back too: a hook may act on long gradients alone.
        large: For every call what flows back then; nothing where it is not sent.
        selected: Layers that are called with entries that were selected by their values.
        pushed: How much was sent back, as a norm.
        rounding: The coarsest unit of rounding among all numbers seen, and among the arguments of their products.
            (Products round them where the settings say so; convolutions are kept from it, see `trial/runs`.)
    """

    examples: int
    shared: frozenset[Unit]
    far: bool = True
    calls: list[tuple[Unit, list[Any], list[Any], bool]] = field(default_factory=list)
    output: list[Any] = field(default_factory=list)
    grown: list[list[Tensor]] = field(default_factory=list)
    gradients: list[list[Tensor | None]] = field(default_factory=list)
    large: list[list[Tensor | None]] = field(default_factory=list)
    selected: list[Unit] = field(default_factory=list)
    pushed: float = 0.0
    rounding: float = 0.0
    _known: set[torch.dtype] = field(default_factory=set)  # the types whose rounding is in it

    def note(self, unit: Unit, arguments: list[Any], output: object) -> None:
        """Note a call."""
        derived = any(isinstance(leaf, Tensor) and leaf.requires_grad for leaf in arguments)
        leaves = [output] if isinstance(output, Tensor) else pytree.tree_leaves(output)
        # Of layers with a formula nobody asks for the output, and outputs of all layers are half of what a run makes.
        self.calls.append((unit, _copies(arguments), _copies(leaves) if unit.rule is None else [], derived))
        self._round(arguments + leaves)
        self.grown.append(started_in(leaves))

    def differentiate(self, output: list[Any], parameters: list[nn.Parameter]) -> list[nn.Parameter]:
        """Note the model's output and what flows back from it; gives the parameters that get a gradient themselves.

        They are used outside their layers, which are frozen while they run. What is sent back goes by the values, so
        that it is the same for an example alone and among others.
        """
        calls, grown = list(self.calls), list(self.grown)  # without what the backward runs again
        ends, sent = sent_back(output)
        wanted = [leaf for leaves in grown for leaf in leaves]
        back: list[Tensor | None] = [None] * len(wanted)
        large = back
        try:
            both = differentiated(ends, sent, [*parameters, *wanted], keep=True)
            found, back = both[: len(parameters)], both[len(parameters) :]
        except RuntimeError:  # checkpoints that run again by themselves cannot, and are refused in the backward
            found = differentiated(ends, sent, parameters, keep=True)
        with suppress(RuntimeError):
            if self.far:
                large = differentiated(ends, [LARGE * each for each in sent], wanted, keep=False)
        rest, far = iter(back), iter(large)
        self.pushed = math.sqrt(sum(map(squared_norm, sent)))
        del sent
        self._round(output)
        self.calls, self.output, self.grown = calls, _copies(output), []
        self.gradients = [[next(rest) for _ in leaves] for leaves in grown]
        self.large = [[next(far) for _ in leaves] for leaves in grown] if self.far else []
        return [p for p, gradient in zip(parameters, found, strict=True) if gradient is not None]

    def in_proportion(self) -> bool:
        """Whether what flows back of long gradients is to the bit what flows back of others, a million times as large.

        Then nothing acts on long gradients alone, and they need not be compared with those of each example. (A power of
        two changes no digit, but at the ends of the range.)
        """
        flows = [pair for sides in zip(self.gradients, self.large, strict=True) for pair in zip(*sides, strict=True)]
        return all(_in_proportion(usual, long) for usual, long in flows)

    def forward_alone(self) -> "ForwardTrace":
        """The same without what flowed back."""
        return ForwardTrace(self.examples, self.shared, calls=self.calls, output=self.output, rounding=self.rounding)

    def has_gaps(self) -> bool:
        """Whether something that was noted is not a number."""
        noted = [leaf for _, *sides, _ in self.calls for side in sides for leaf in side]
        return any(isinstance(each, Tensor) and bool(each.isnan().any()) for each in (*noted, *self.output))

    def _round(self, leaves: list[Any]) -> None:
        kinds = {leaf.dtype for leaf in leaves if is_real(leaf)} - self._known
        self._known |= kinds
        self.rounding = max([self.rounding, *map(_unit_of, kinds)])


@dataclass(eq=False)
class ForwardTrace(Trace):
    """A run of which nothing is sent back."""

    def differentiate(self, output: list[Any], parameters: list[nn.Parameter]) -> list[nn.Parameter]:  # noqa: ARG002
        """Note the output."""
        self._round(output)
        self.output = _copies(output)
        return []


def _in_proportion(usual: Tensor | None, long: Tensor | None) -> bool:
    return usual is long if usual is None or long is None else torch.equal(usual * LARGE, long)


def _unit_of(kind: torch.dtype) -> float:
    return max(torch.finfo(kind).eps, argument_rounding(kind))


def started_in(output: object) -> list[Tensor]:
    """The tensors of an output through which gradients flow back."""
    leaves = [output] if isinstance(output, Tensor) else pytree.tree_leaves(output)
    return [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.requires_grad]


def sent_back(output: list[Any]) -> tuple[list[Tensor], list[Tensor]]:
    """Where gradients are sent back from, and which: by the values, the same for an example alone and among others."""
    ends = [as_real(leaf) for leaf in started_in(output)]
    return ends, [(3 * end.detach()).add_(1).sin_() for end in ends]


def differentiated(
    ends: list[Tensor], sent: list[Tensor], wanted: Sequence[Tensor], *, keep: bool
) -> list[Tensor | None]:
    """What flows back to tensors; None where nothing does."""
    if not ends or not wanted:
        return [None] * len(wanted)
    return list(torch.autograd.grad(ends, wanted, sent, allow_unused=True, retain_graph=keep))


def _copies(leaves: list[Any]) -> list[Any]:
    return [as_real(leaf.detach()).clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
