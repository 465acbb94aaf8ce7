"""What a kind of layer has to say of itself, so that the gradients of single examples are cheap: one value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from inid.dpsgd.rows.gradient_rows import Dense, Rows
from inid.errors import GuaranteeError

__all__ = ["Formula", "LayerRule"]

Formula = Callable[[nn.Module, Tensor, Tensor], Mapping[str, Tensor | Rows]]
Fused = Callable[..., dict[str, Rows] | None]


@dataclass(frozen=True, kw_only=True)
class LayerRule:
    """How the gradients of single examples come about in a kind of layer that takes one tensor and returns one.

    Attributes:
        formula: Takes a layer, its input and the gradient that flows back to its output, examples first; gives by the
            name of each parameter its gradients: the shape of the parameter, examples first. Row i must come from
            example i alone.
        parameters: The names of the parameters that the formula knows. A layer with others has no rule, and neither
            has one without the first.
        positions: Whether any dimensions between the first and the layer's own are positions, at which the layer does
            the same: the input of `Linear` may be (examples, width) or (examples, positions, width).
        narrowed: Whether autocast makes the layer's input narrower, as it does for products of matrices: then it is
            made so, and kept, once.
        settings: The attributes of the layer that the formula depends on. Layers that agree in them are taken together
            on a GPU, so the formula may not depend on anything else, such as a weight. None: layers are taken one by
            one.
        accepts: Whether the formula is right for a layer of the kind; None: for all.
        fused: The same gradients without writing them down, for the layers of torch (see `fused_layers`).

    >>> def scaled(layer, inputs, gradients):
    ...     return {"weight": inputs * gradients}
    >>> LayerRule(formula=scaled, parameters=("weight",)).positions
    False
    """

    formula: Formula
    parameters: tuple[str, ...] = ("weight", "bias")
    positions: bool = False
    narrowed: bool = False
    settings: tuple[str, ...] | None = None
    accepts: Callable[[nn.Module], bool] | None = None
    fused: Fused | None = None

    def is_for(self, layer: nn.Module) -> bool:
        """Whether the formula is right for a layer: it computes what its class does, with parameters of its own."""
        plain = set(layer._parameters) <= set(self.parameters) and next(layer.children(), None) is None  # noqa: SLF001 - no other way
        # A replaced forward may compute something else; hooks run around the forward, where autograd sees them.
        replaced = getattr(layer.forward, "__func__", None) is not type(layer).forward
        # A weight may be made from other parameters.
        own = isinstance(getattr(layer, self.parameters[0], None), nn.Parameter)
        return plain and not replaced and own and (self.accepts is None or self.accepts(layer))

    def apart(self, examples: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Inputs and gradients with the examples by themselves in front, where the layer takes positions behind them.

        >>> rule = LayerRule(formula=lambda layer, inputs, gradients: {}, positions=True)
        >>> import torch
        >>> [tuple(each.shape) for each in rule.apart(3, torch.ones(6, 2), torch.ones(6, 1))]
        [(3, 2, 2), (3, 2, 1)]
        """
        several = tensors[0].shape[0] // examples
        if several == 1 or not self.positions:
            return tensors
        return tuple(each.reshape(examples, several, *each.shape[1:]) for each in tensors)

    def rows(self, layer: nn.Module, inputs: Tensor, gradients: Tensor, examples: int) -> dict[str, Rows]:
        """The rows of a layer whose input has one or several entries per example in its first dimension.

        >>> import torch
        >>> rule = LayerRule(formula=lambda layer, inputs, gradients: {"weight": inputs * gradients})
        >>> rule.rows(nn.Identity(), torch.ones(6, 2), torch.ones(6, 2), 3)["weight"].dense().tolist()
        [[2.0, 2.0], [2.0, 2.0], [2.0, 2.0]]
        """
        given = self.formula(layer, inputs, gradients)
        rows = {name: self._written(name, own, len(inputs)) for name, own in given.items()}
        if len(inputs) == examples:
            return rows
        several = len(inputs) // examples
        return {name: Dense(own.dense().view(examples, several, -1).sum(1)) for name, own in rows.items()}

    def alike(self, layer: nn.Module, inputs: Tensor) -> tuple[object, ...] | None:
        """What the formula depends on besides input and gradient; None for a layer that is always taken alone."""
        if self.settings is None or (inputs.ndim == 2 and self.positions):
            return None
        return type(layer), *(getattr(layer, name) for name in self.settings)

    def _written(self, name: str, rows: Tensor | Rows, examples: int) -> Rows:
        if not isinstance(rows, Tensor):
            return rows
        if rows.ndim == 0 or len(rows) != examples:
            raise GuaranteeError(
                f"the formula of a layer gave {name!r} gradients of shape {tuple(rows.shape)} for {examples} examples: "
                "return one row per example, in the order of the input."
            )
        return Dense(rows.detach().reshape(examples, -1))
