"""The exponential moving average of a private run's parameters."""

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from inid import arguments
from inid.dpsgd.private_training import PrivateTraining
from inid.errors import ArgumentError, RecordError

_WARM = 10  # steps over which the average begins to look back: De et al. 2022


class ParameterAverage:
    """Follows the parameters of a private run: after step t they count 1 - d, with d = min(decay, (1 + t) / (10 + t)).

    It is made of released parameters alone, so it costs no privacy. It moves in the steps of the optimizer and nowhere
    else: an average that moved with every physical batch would show how many of them a step took, which is secret.

    Args:
        private: What `make_private` returned.
        decay: How much of the old average stays in a step, between 0 and 1.

    Attributes:
        steps: How many steps it has followed.

    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> from inid.dpsgd import make_private
    >>> model = nn.Linear(3, 1)
    >>> private = make_private(
    ...     module=model,
    ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    ...     data_loader=DataLoader(TensorDataset(torch.ones(8, 3)), batch_size=4),
    ...     noise_multiplier=1.0,
    ... )
    >>> average = ParameterAverage(private, decay=0.9)
    >>> for (x,) in private.data_loader:
    ...     private.optimizer.zero_grad()
    ...     loss = private.backward(lambda row: row.square().mean(), private.module(x))
    ...     private.optimizer.step()
    >>> average.steps, average.module()(torch.ones(1, 3)).shape
    (2, torch.Size([1, 1]))
    """

    def __init__(self, private: PrivateTraining, decay: float = 0.999) -> None:
        if not isinstance(private, PrivateTraining):
            raise ArgumentError(
                f"private must be what make_private returned, got {type(private).__name__}: pass it whole."
            )
        self._decay = arguments.real("decay", decay, above=0, cure="pass a number such as decay=0.999")
        if not self._decay < 1:
            raise ArgumentError(f"decay must be below 1, got {self._decay!r}: pass a number such as 0.999.")
        self._source = private.module
        self._trained = [p for p in self._source.parameters() if p.requires_grad]
        self._means = [p.detach().clone() for p in self._trained]
        self.steps = 0
        # The original steps once for every private step, whatever the number of physical batches.
        private.optimizer.original.register_step_post_hook(self._follow)

    @torch.no_grad()
    def _follow(self, *_: Any) -> None:
        self.steps += 1
        decay = min(self._decay, (1 + self.steps) / (_WARM + self.steps))
        for mean, parameter in zip(self._means, self._trained, strict=True):
            mean.lerp_(parameter.detach(), 1 - decay)

    def module(self) -> nn.Module:
        """A copy of the model, an ordinary one, with the averaged parameters."""
        average = copy.deepcopy(self._source)
        trained = [p for p in average.parameters() if p.requires_grad]
        with torch.no_grad():
            for parameter, mean in zip(trained, self._means, strict=True):
                parameter.copy_(mean)
                parameter.grad = None
        return average

    def state_dict(self) -> dict[str, Any]:
        """The average and how many steps it has followed, for a checkpoint."""
        return {"steps": self.steps, "means": [mean.clone() for mean in self._means]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a checkpoint.

        Raises:
            RecordError: It is not of an average over the same parameters; nothing was changed.
        """
        means = state.get("means") if isinstance(state, Mapping) else None
        fits = isinstance(means, list) and [getattr(each, "shape", None) for each in means] == [
            mean.shape for mean in self._means
        ]
        if not fits or not isinstance(state.get("steps"), int):
            raise RecordError("the state is not of an average over these parameters: pass what state_dict() returned.")
        with torch.no_grad():
            for mean, stored in zip(self._means, state["means"], strict=True):
                mean.copy_(stored)
        self.steps = state["steps"]
