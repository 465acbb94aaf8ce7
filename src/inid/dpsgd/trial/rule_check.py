"""Whether the formula of a layer gives what autograd gives for each example alone.

**Why.** Clipping bounds what an example adds to a sum, if its row is made of that example alone. A formula that adds
over the wrong dimension breaks that without any sign. So no rule is taken before its rows were compared, in float64,
with gradients of single examples, for a random gradient at the output; and what else it states (positions, settings)
is tried out in the same way.
"""

import copy

import torch
from torch import Tensor, nn

from inid.dpsgd.rows.layer_rule import LayerRule
from inid.errors import ArgumentError, GuaranteeError

__all__ = ["check_rule"]

_ALLOWED = 1e-9  # relative to the largest gradient: far above float64's rounding, far below a wrong formula


def check_rule(rule: LayerRule, layer: nn.Module, inputs: Tensor) -> None:
    """Refuse a rule whose formula is not right for a layer and an input of some examples.

    Raises:
        ArgumentError: Layer or input is not what a formula can be tried on.
        GuaranteeError: The formula gives other rows than autograd, or depends on more than the rule says.
    """
    if not isinstance(inputs, Tensor) or inputs.ndim == 0 or len(inputs) < 2:
        raise ArgumentError("inputs must be a tensor of two or more examples: pass made-up ones, such as torch.randn.")
    own = copy.deepcopy(layer).double()
    if not rule.is_for(own):
        raise ArgumentError(
            f"a rule is for a layer without parts, whose parameters it names ({', '.join(rule.parameters)}), got a "
            f"{type(layer).__name__} that is not: name its parameters, or leave it to be run example by example."
        )
    met = inputs.detach().clone()
    met = met.double() if met.is_floating_point() else met
    _check_rows(rule, own, met, "for every example")
    if rule.positions:
        try:
            several = torch.stack([met, met.flip(0)], 1)
            own(several)
        except Exception as error:
            raise GuaranteeError(
                f"{type(layer).__name__} does not take positions between the examples and its own dimensions: leave "
                "positions out of its rule."
            ) from error
        _check_rows(rule, own, several, "over positions")
    if rule.settings is not None:
        _check_settings(rule, own, met)


def _check_rows(rule: LayerRule, layer: nn.Module, inputs: Tensor, how: str) -> None:
    output = layer(inputs)
    if not isinstance(output, Tensor) or output.ndim == 0 or len(output) != len(inputs):
        raise ArgumentError(
            f"{type(layer).__name__} must return one tensor with a row per example to have a rule: leave it to be run "
            "example by example."
        )
    gradients = _drawn(output)
    rows = rule.rows(layer, inputs, gradients, len(inputs))
    parameters = dict(layer.named_parameters())
    missing = sorted(parameters.keys() - rows.keys())
    if missing:
        raise GuaranteeError(f"the formula gives no gradients for parameter {missing[0]!r}: return all by their names.")
    for name, parameter in parameters.items():
        alone = [
            torch.autograd.grad(layer(inputs[at : at + 1]), parameter, gradients[at : at + 1])[0].flatten()
            for at in range(len(inputs))
        ]
        if not _same(rows[name].dense(), torch.stack(alone)):
            raise GuaranteeError(
                f"the formula gives parameter {name!r} other gradients than autograd {how}: return row i of example i "
                "alone, of the shape of the parameter, summed over all else."
            )


def _check_settings(rule: LayerRule, layer: nn.Module, inputs: Tensor) -> None:
    """Layers that agree in their settings are taken as one: the formula may not depend on their parameters."""
    absent = [name for name in rule.settings or () if not hasattr(layer, name)]
    if absent:
        raise ArgumentError(f"settings must be attributes of the layer, got {absent[0]!r}: name what formula reads.")
    other = copy.deepcopy(layer)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.copy_(_drawn(parameter))
    gradients = _drawn(layer(inputs))
    one, two = (rule.rows(each, inputs, gradients, len(inputs)) for each in (layer, other))
    if not all(_same(one[name].dense(), two[name].dense()) for name in one):
        raise GuaranteeError(
            "the formula depends on the values of the layer's parameters, so that layers cannot be taken together: "
            "pass settings=None."
        )


def _drawn(like: Tensor) -> Tensor:
    """Fixed normal numbers: nothing here is secret, and a rule is taken or not, whenever it is tried."""
    draw = torch.Generator().manual_seed(7)
    return torch.randn(like.shape, generator=draw, dtype=torch.float64).to(like.device)


def _same(one: Tensor, two: Tensor) -> bool:
    if one.shape != two.shape:
        return False
    return bool((one - two).abs().max() <= _ALLOWED * two.abs().max())
