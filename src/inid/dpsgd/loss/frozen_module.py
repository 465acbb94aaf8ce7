"""A model that is not trained, such as a teacher, whose outputs may be targets of a private loss."""

from collections import Counter
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from inid.dpsgd.grad_sample.call_plan import CallPlan, Probe
from inid.dpsgd.grad_sample.wrapped_forward import first_tensor, output_leaves, rows_in, signature_of
from inid.dpsgd.independence.check import Independence
from inid.dpsgd.per_example_gradients import PerExampleGradients
from inid.dpsgd.sampling.batch_state import BatchState
from inid.errors import ArgumentError


class FrozenModule:
    """Runs a model without gradients. On tensors of the drawn batch it is checked that it keeps their rows apart.

    It is checked when it is first called, and again at calls 2, 4, 8 and so on. On other tensors, as in an evaluation,
    it is an ordinary model, whose outputs are no targets.
    """

    sharded = False

    def __init__(self, module: nn.Module, drawn: BatchState) -> None:
        if not isinstance(module, nn.Module):
            raise ArgumentError(f"frozen takes a torch.nn.Module, got {type(module).__name__}: pass the teacher.")
        self.module, self._drawn = module, drawn
        self._looks: dict[torch.device, Independence] = {}
        self._plans: dict[object, CallPlan] = {}
        self._calls: Counter[object] = Counter()

    @torch.no_grad()
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the model returns."""
        leaves = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        if not leaves or not all(self._drawn.holds(leaf, look=True) for leaf in leaves):
            return self.module(*args, **kwargs)
        rows = rows_in(args, kwargs)
        device = cast("Tensor", first_tensor(args, kwargs)).device
        check = self._looks.setdefault(device, Independence(self.module, device, self._drawn))
        key = signature_of(args, kwargs, rows, training=self.module.training)
        self._calls[key] += 1
        if self._calls[key].bit_count() == 1:
            self._plans[key] = check.plan(
                cast("PerExampleGradients", self), args, kwargs, rows, full=key not in self._plans
            )
        output = self.module(*args, **kwargs)
        outputs = zip(output_leaves(output), self._plans[key].output, strict=False)
        self._drawn.add(leaf for leaf, along in outputs if along == 0)
        return output

    def shapes(self, args: tuple[Any, ...], kwargs: dict[str, Any], _trace: object) -> list[Any]:
        """What the model returns on made-up examples; so too `probe`, of which a check is told."""
        return output_leaves(self.module(*args, **kwargs))

    def probe(self, args: tuple[Any, ...], kwargs: dict[str, Any], _plan: CallPlan, _views: int, probe: Probe) -> None:
        """See `shapes`."""
        probe.ends(output_leaves(self.module(*args, **kwargs)))

    def widen(self, error: Exception) -> None:
        """It has no layers that could be run example by example."""
        raise error

    def take_whole(self) -> bool:
        """See `widen`."""
        return False
