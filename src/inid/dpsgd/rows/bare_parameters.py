"""Parameters that a module uses by itself, beside its layers: a class token, positions that are added.

A parameter of shape (1, ...) is one for all examples, broadcast or expanded along them. While its module runs, a tensor
with a row for each example stands in its place: what flows back to that are the gradients by example, and the module's
layers keep their formulas. Whether a module takes such a tensor for its parameter is found out on made-up examples, as
all else is (see `call_plan`). There the rows differ, by what the model was given of each example, so that a mean over
them shows; and what flows back to them for three examples must be what flows back for each alone. A module that does
something else with its parameter is run example by example as a whole.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from inid.dpsgd.rows.parameters_in_place import in_place
from inid.dpsgd.rows.units import Unit

__all__ = ["marks_of", "run_with_rows", "with_marks"]


def run_with_rows(
    unit: Unit,
    forward: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    rows: int,
    collect: Callable[[str, Tensor], None],
) -> Any:
    """The module's output, computed so that the gradients of its own parameters arrive row by row.

    Args:
        unit: The module and these parameters.
        forward: Its forward.
        args: What it is called with.
        kwargs: The same by name.
        rows: How many rows the model sees.
        collect: Called in the backward with a name and a leaf whose `grad` has a gradient per row.
    """
    leaves = {name: p.detach().expand(rows, *p.shape[1:]).requires_grad_() for name, p in unit.parameters.items()}
    for name, leaf in leaves.items():
        leaf.register_post_accumulate_grad_hook(partial(collect, name))  # type: ignore[no-untyped-call]
    with in_place(unit.layer, leaves):
        return forward(*args, **kwargs)


def marks_of(first: Tensor) -> Tensor:
    """A number for every row of a batch, made of the row alone: equal wherever the row stands.

    >>> one, two = marks_of(torch.tensor([[1, 2], [3, 4]])).tolist()
    >>> one == float(marks_of(torch.tensor([[1, 2]])))
    True
    """
    flat = (first.abs() if first.is_complex() else first).detach().reshape(len(first), -1).double()
    return flat.nan_to_num(0.0, 0.0, 0.0).mul(torch.arange(1, flat.shape[1] + 1, device=flat.device)).sum(1).sin()


def with_marks(unit: Unit, marks: Tensor) -> dict[str, Tensor]:
    """The parameters with a row per example that is moved by its mark, as something to differentiate."""
    made = {}
    for name, parameter in unit.parameters.items():
        own = parameter.detach()
        far = own.abs().amax()
        by = torch.where(far > 0, far, torch.ones_like(far)) * marks.to(own).view(-1, *[1] * (own.ndim - 1))
        made[name] = (own + by).requires_grad_()
    return made
