"""How a layer with a rule is run: as it is, with frozen parameters, and what it met is kept for the backward."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from torch import Tensor

from inid.dpsgd.rows.fused_layers import narrowed, stored
from inid.dpsgd.rows.graph_hooks import on_gradient
from inid.dpsgd.rows.layer_rule import LayerRule
from inid.dpsgd.rows.units import Unit
from inid.dpsgd.rows.wrapped_forward import Kept, first_tensor, frozen

__all__ = ["run_with_rule"]


def run_with_rule(
    unit: Unit, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], flowed: Callable[..., None]
) -> Tensor:
    """What the layer gives.

    Args:
        unit: The layer.
        forward: Its forward.
        args: What it is called with.
        kwargs: The same by name.
        flowed: Called in the backward with what the layer met, and with what flows back to it.
    """
    args = narrowed(cast("LayerRule", unit.rule), args)
    output: Tensor = frozen(unit, forward, args, kwargs)
    kept = Kept(stored(cast("Tensor", first_tensor(args, kwargs)), output))
    on_gradient(output, partial(flowed, kept))
    return output
