"""Lightning, private: a module whose loss is taken row by row, and a callback that logs epsilon."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import lightning
from torch import Tensor
from torch.nn import functional

from inid.dpsgd.private_training import PrivateTraining


class PrivateLightningModule(lightning.LightningModule):
    """A `LightningModule` around what `make_private` returned: batches are inputs and, at the end, a target.

    Override `training_loss` for batches of another form, and add a `validation_step` where you evaluate.

    Args:
        private: What `make_private` returned.
        loss_fn: A loss of one row: its outputs and its target.
        delta: The delta at which epsilon is logged at the end of every epoch, if any.

    Examples:
        >>> import torch
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from inid.dpsgd import make_private
        >>> data = TensorDataset(torch.randn(64, 5), torch.randint(0, 2, (64,)))
        >>> model = torch.nn.Linear(5, 2)
        >>> private = make_private(module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     data_loader=DataLoader(data, batch_size=16), noise_multiplier=1.0)
        >>> module = PrivateLightningModule(private, delta=1e-5)
        >>> module.configure_optimizers() is private.optimizer
        True
    """

    def __init__(
        self,
        private: PrivateTraining,
        loss_fn: Callable[..., Tensor] = functional.cross_entropy,
        *,
        delta: float | None = None,
    ) -> None:
        super().__init__()
        self.model, self.private, self._loss_fn, self._delta = private.module, private, loss_fn, delta

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the model returns."""
        return self.model(*args, **kwargs)

    def training_loss(self, batch: Sequence[Any]) -> Tensor:
        """The loss of a batch."""
        *inputs, target = batch
        return self.private.loss(self._loss_fn, self.model(*inputs), target)

    def training_step(self, batch: Sequence[Any], _at: int) -> Tensor:
        """The loss, which Lightning differentiates."""
        return self.training_loss(batch)

    def configure_optimizers(self) -> Any:
        """The private optimizer."""
        return self.private.optimizer

    def train_dataloader(self) -> Any:
        """The private loader."""
        return self.private.data_loader

    def on_fit_start(self) -> None:
        """Warn of what stops by exact losses of training examples."""
        _warn_of_early_stopping(self.trainer)

    def on_train_epoch_end(self) -> None:
        """Log epsilon, to every logger there is."""
        if self._delta is not None:
            self.log("epsilon", self.private.accountant.get_epsilon(self._delta))


class LogEpsilon(lightning.Callback):
    """Logs epsilon at the end of every epoch, of a module of your own.

    Args:
        private: What `make_private` returned.
        delta: The delta.

    Examples:
        >>> LogEpsilon.on_train_epoch_end.__name__
        'on_train_epoch_end'
    """

    def __init__(self, private: PrivateTraining, delta: float) -> None:
        self._private, self._delta = private, delta

    def on_fit_start(self, trainer: Any, _module: lightning.LightningModule) -> None:
        """Warn of what stops by exact losses of training examples."""
        _warn_of_early_stopping(trainer)

    def on_train_epoch_end(self, _trainer: Any, pl_module: lightning.LightningModule) -> None:
        """Log it."""
        pl_module.log("epsilon", self._private.accountant.get_epsilon(self._delta))


def _warn_of_early_stopping(trainer: Any) -> None:
    for callback in trainer.callbacks:
        if isinstance(callback, lightning.pytorch.callbacks.EarlyStopping) and not callback.monitor.startswith("val"):
            warnings.warn(
                f"EarlyStopping(monitor={callback.monitor!r}) decides when to stop: exact losses of training examples "
                "are facts about them that no noise covers. Monitor a loss on public data, or train for a fixed number "
                "of steps.",
                stacklevel=2,
            )
