"""Normalisations of Hugging Face's models: each model has a class of its own, and most compute the same.

Such a class makes w f(x) of its weight w and its input x, entry by entry. What flows to w is then what flows to the
output times f(x), and the layer itself says what f(x) is, rounded as it rounds: it is run with ones for a weight.
Whether a class is one of these is tried out once, as the rules of `register_layer` are.
"""

import inspect
import re

import torch
from torch import Tensor, nn

from inid.dpsgd.rows.layer_rule import LayerRule
from inid.dpsgd.rows.parameters_in_place import in_place
from inid.dpsgd.trial.rule_check import check_rule

__all__ = ["scaling_rule"]

_WHERE = re.compile(r"transformers\.models\.\w+\.modeling_\w+")
_NAMES = ("RMSNorm", "LayerNorm")
_PLAIN = (bool, int, float, str, type(None))
_TRIED: dict[type[nn.Module], LayerRule | None] = {}


def _scaled(layer: nn.Module, inputs: Tensor, gradients: Tensor) -> dict[str, Tensor]:
    width = gradients.shape[-1]
    with in_place(layer, {"weight": gradients.new_ones(width)}):
        made = type(layer).forward(layer, inputs)
    return {"weight": (gradients * made).reshape(len(made), -1, width).sum(1)}


def scaling_rule(kind: type[nn.Module]) -> LayerRule | None:
    """The rule of a class of such layers; None for any other class.

    >>> scaling_rule(nn.LayerNorm) is None
    True
    """
    if kind not in _TRIED:
        _TRIED[kind] = _tried(kind)
    return _TRIED[kind]


def _tried(kind: type[nn.Module]) -> LayerRule | None:
    named = _WHERE.fullmatch(kind.__module__) is not None and kind.__name__.endswith(_NAMES)
    if not named or len(inspect.signature(kind.forward).parameters) != 2:  # itself and one input
        return None
    draw = torch.Generator(device="cpu").manual_seed(7)
    try:
        with torch.device("cpu"), torch.enable_grad():
            layer = kind(6)
            own = {name: value for name, value in vars(layer).items() if name != "training" and name[0] != "_"}
            settings = tuple(own) if all(isinstance(value, _PLAIN) for value in own.values()) else None
            rule = LayerRule(formula=_scaled, parameters=("weight",), positions=True, settings=settings)
            nn.init.normal_(layer.get_parameter("weight"), generator=draw)
            check_rule(rule, layer, torch.randn(3, 6, generator=draw))
    except Exception:  # noqa: BLE001 - a class that cannot be made, or run, or is not such a layer
        return None
    return rule
