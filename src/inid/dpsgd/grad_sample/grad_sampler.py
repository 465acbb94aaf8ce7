"""What a kind of layer has to say of itself, so that the gradients of single examples are cheap: one value."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import Tensor, nn

from inid.dpsgd.grad_sample.grad_samples import DenseGrads, GradSamples
from inid.errors import GuaranteeError

Formula = Callable[[nn.Module, Tensor, Tensor], Mapping[str, Tensor | GradSamples]]
Ghost = Callable[..., dict[str, GradSamples] | None]


@dataclass(frozen=True, kw_only=True)
class GradSampler:
    """The per-sample gradients of a kind of layer that takes one tensor and returns one.

    Attributes:
        formula: Takes a layer, its input and the gradient that flows back to its output, examples first; gives by the
            name of each parameter its gradients: the shape of the parameter, examples first. Row i must come from
            example i alone.
        parameters: The names of the parameters that the formula knows. A layer with others has no sampler, and neither
            has one without the first.
        positions: Whether any dimensions between the first and the layer's own are positions, at which the layer does
            the same: the input of `Linear` may be (examples, width) or (examples, positions, width).
        narrowed: Whether autocast makes the layer's input narrower, as it does for products of matrices: then it is
            made so, and kept, once.
        settings: The attributes of the layer that the formula depends on. Layers that agree in them are taken together
            on a GPU, so the formula may not depend on anything else, such as a weight. None: layers are taken one by
            one.
        accepts: Whether the formula is right for a layer of the kind; None: for all.
        ghost: The same gradients without writing them down, for the layers of torch (see `ghost_clipping`).

    >>> def scaled(layer, inputs, gradients):
    ...     return {"weight": inputs * gradients}
    >>> GradSampler(formula=scaled, parameters=("weight",)).positions
    False
    """

    formula: Formula
    parameters: tuple[str, ...] = ("weight", "bias")
    positions: bool = False
    narrowed: bool = False
    settings: tuple[str, ...] | None = None
    accepts: Callable[[nn.Module], bool] | None = None
    ghost: Ghost | None = None

    def is_for(self, layer: nn.Module) -> bool:
        """Whether the formula is right for a layer: it computes what its class does, with parameters of its own."""
        plain = set(layer._parameters) <= set(self.parameters) and next(layer.children(), None) is None  # noqa: SLF001 - no other way
        # A replaced forward may compute something else; hooks run around the forward, where autograd sees them.
        replaced = getattr(layer.forward, "__func__", None) is not type(layer).forward
        # A weight may be made from other parameters.
        has_parameter = isinstance(getattr(layer, self.parameters[0], None), nn.Parameter)
        return plain and not replaced and has_parameter and (self.accepts is None or self.accepts(layer))

    def apart(self, examples: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Inputs and gradients with the examples in the first dimension and positions in the second."""
        several = tensors[0].shape[0] // examples
        if several == 1 or not self.positions:
            return tensors
        return tuple(each.reshape(examples, several, *each.shape[1:]) for each in tensors)

    def grad_samples(
        self, layer: nn.Module, inputs: Tensor, gradients: Tensor, examples: int
    ) -> dict[str, GradSamples]:
        """The gradients of a layer whose input has one or several entries per example in its first dimension."""
        given = self.formula(layer, inputs, gradients)
        grads = {name: self._written(name, grads_of_one, len(inputs)) for name, grads_of_one in given.items()}
        if len(inputs) == examples:
            return grads
        several = len(inputs) // examples
        return {
            name: DenseGrads(grads_of_one.dense().view(examples, several, -1).sum(1))
            for name, grads_of_one in grads.items()
        }

    def alike(self, layer: nn.Module, inputs: Tensor) -> tuple[object, ...] | None:
        """What the formula depends on besides input and gradient; None for a layer that is always taken alone."""
        if self.settings is None or (inputs.ndim == 2 and self.positions):
            return None
        return type(layer), *(getattr(layer, name) for name in self.settings)

    def _written(self, name: str, grads: Tensor | GradSamples, examples: int) -> GradSamples:
        if not isinstance(grads, Tensor):
            return grads
        if grads.ndim == 0 or len(grads) != examples:
            raise GuaranteeError(
                f"the formula of a layer gave {name!r} gradients of shape {tuple(grads.shape)} for {examples} "
                "examples: return one gradient per example, in the order of the input."
            )
        return DenseGrads(grads.detach().reshape(examples, -1))
