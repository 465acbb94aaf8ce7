"""How a layer without a rule is run: a recurrent layer of torch by its gates, any other example by example."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from inid.dpsgd.rows.recurrent_layers import Collect, run_cell, run_recurrent, serves, serves_cell
from inid.dpsgd.rows.vmap_gradients import run_with_own_parameters
from inid.dpsgd.trial.call_plan import Call

__all__ = ["run_without_rule"]


def run_without_rule(
    call: Call,
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    examples: int,
    views: int,
    positions: Collect,
    leaf: Callable[[str, Tensor], None],
) -> Any:
    """What the layer gives, computed so that in the backward the gradients of single examples can be had.

    Args:
        call: The call that was planned.
        forward: The layer's forward.
        args: What it is called with.
        kwargs: The same by name.
        examples: How many examples there are.
        views: How many views there are of each example, one after another.
        positions: Called in the backward of a recurrent layer (see `recurrent_layers`).
        leaf: Called in the backward of any other (see `vmap_gradients`).
    """
    unit = call.unit
    if serves(unit.layer, forward, args, kwargs, call.split):
        return run_recurrent(unit.layer, args, kwargs, positions)
    if serves_cell(unit.layer, forward, args, kwargs, call.split):
        return run_cell(unit.layer, args, kwargs, positions)
    return run_with_own_parameters(
        unit.layer,
        forward,
        unit.present(),
        args,
        kwargs,
        examples=examples,
        views=views,
        split=call.split,
        joined=call.joined,
        collect=leaf,
    )
