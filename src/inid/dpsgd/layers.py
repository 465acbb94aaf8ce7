"""Which layers have a rule: a formula for the gradients of single examples, and what may be done with it.

A layer without a rule is run by its gates where it is recurrent, and else example by example (see
`layers_without_rule`). The rules of torch's layers stand here; `register_layer` adds one for a layer of your own.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from inid.dpsgd.parallel.sharded_parameters import own_class
from inid.dpsgd.rows import layer_formulas as formulas
from inid.dpsgd.rows.fused_layers import fused_convolution, fused_linear, fused_table, fused_transposed
from inid.dpsgd.rows.layer_rule import LayerRule
from inid.dpsgd.rows.scaling_norms import scaling_rule
from inid.dpsgd.trial.rule_check import check_rule
from inid.errors import ArgumentError

__all__ = ["LayerRule", "register_layer", "rule_of"]


def _padded_with_zeros(layer: nn.Module) -> bool:
    return layer.padding_mode == "zeros"


def _of_single_lookups(layer: nn.Module) -> bool:
    return not (layer.scale_grad_by_freq or layer.sparse)


_CONVOLUTION = LayerRule(
    formula=formulas.convolution,
    narrowed=True,
    settings=("kernel_size", "stride", "padding", "dilation", "groups"),
    accepts=_padded_with_zeros,
    fused=fused_convolution,
)
_INSTANCE_NORM = LayerRule(formula=formulas.instance_norm)

# A subclass may compute something else, so that a rule is for a class alone.
_RULES: dict[type[nn.Module], LayerRule] = {
    nn.Linear: LayerRule(formula=formulas.linear, positions=True, narrowed=True, settings=(), fused=fused_linear),
    nn.Conv1d: _CONVOLUTION,
    nn.Conv2d: _CONVOLUTION,
    nn.GroupNorm: LayerRule(formula=formulas.group_norm, settings=("num_groups", "eps")),
    nn.InstanceNorm1d: _INSTANCE_NORM,
    nn.InstanceNorm2d: _INSTANCE_NORM,
    nn.LayerNorm: LayerRule(formula=formulas.layer_norm, positions=True, settings=("normalized_shape", "eps")),
    nn.RMSNorm: LayerRule(formula=formulas.rms_norm, positions=True, settings=("normalized_shape", "eps")),
    nn.Embedding: LayerRule(formula=formulas.embedding, positions=True, accepts=_of_single_lookups, fused=fused_table),
}

# Known by name, since its library need not be there: GPT-2's linear layer, whose weight is stored transposed.
_NAMED = {
    ("transformers.pytorch_utils", "Conv1D"): LayerRule(
        formula=formulas.transposed_linear, positions=True, narrowed=True, settings=(), fused=fused_transposed
    ),
}


def rule_of(layer: nn.Module) -> LayerRule | None:
    """The rule of a layer, or None (see `layers_without_rule`).

    >>> rule_of(nn.Linear(2, 3)).positions, rule_of(nn.LSTM(2, 3)) is None
    (True, True)
    """
    kind = own_class(layer)
    rule = _RULES.get(kind) or _NAMED.get((kind.__module__, kind.__name__)) or scaling_rule(kind)
    return rule if rule is not None and rule.is_for(layer) else None


def register_layer(kind: type[nn.Module], rule: LayerRule, *, examples: Sequence[tuple[nn.Module, Tensor]]) -> None:
    """Give layers of a class a rule, so that their gradients by example come from a formula; before `make_private`.

    The rule is checked first, on what you pass: its rows must be the gradients that autograd gives for each example
    alone. It is for the class itself, not for subclasses, and for layers without parts that take one tensor and return
    one.

    Args:
        kind: The class of the layers.
        rule: The rule.
        examples: Layers of the class, one for each way to set one up, each with an input of two or more made-up
            examples.

    Raises:
        ArgumentError: What is passed is not as above, or the class has a rule.
        GuaranteeError: The formula gives other rows than autograd, or depends on more than the rule says.

    >>> import torch
    >>> class Scale(nn.Module):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.weight = nn.Parameter(torch.ones(size))
    ...     def forward(self, x):
    ...         return self.weight * x
    >>> rule = LayerRule(formula=lambda layer, inputs, gradients: {"weight": inputs * gradients})
    >>> register_layer(Scale, rule, examples=[(Scale(3), torch.randn(4, 3))])
    >>> rule_of(Scale(3)) is rule
    True
    """
    if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
        raise ArgumentError(f"kind must be a class of layers, got {type(kind).__name__}: pass the class itself.")
    if not isinstance(rule, LayerRule):
        raise ArgumentError(f"rule must be a LayerRule, got {type(rule).__name__}: make one of your formula.")
    if kind in _RULES or (kind.__module__, kind.__name__) in _NAMED or scaling_rule(kind) is not None:
        raise ArgumentError(f"kind {kind.__name__} has a rule already: register a class of your own.")
    if not isinstance(examples, Sequence) or not examples:
        raise ArgumentError("examples must be pairs of a layer and its input, got none: pass at least one.")
    for layer, inputs in examples:
        if type(layer) is not kind:
            raise ArgumentError(
                f"examples must be layers of class {kind.__name__}, got {type(layer).__name__}: pass one."
            )
        check_rule(rule, layer, inputs)
    _RULES[kind] = rule
