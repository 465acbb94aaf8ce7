"""What a private training loop works with: the module, the optimizer, the loader, the accountant, and the loss."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from inid.dpsgd.accountant import Accountant
from inid.dpsgd.loss.frozen_module import FrozenModule
from inid.dpsgd.optimizer import PrivateOptimizer
from inid.dpsgd.sampling.poisson_loader import PoissonLoader


class PrivateTraining(NamedTuple):
    """What `make_private` returns."""

    module: nn.Module
    optimizer: PrivateOptimizer
    data_loader: PoissonLoader
    accountant: Accountant

    @property
    def noise_multiplier(self) -> float:
        """1/mu (Gaussian) or 1/epsilon (Laplace) of one step before sampling."""
        return self.optimizer.noise_multiplier

    def loss(self, loss_fn: Callable[..., Tensor], outputs: Any, *targets: Any) -> Tensor:
        """The loss of a batch, taken row by row, so that no row can change the loss of another.

        `loss_fn` gets one row of the outputs and of every target, and returns one number; its mean over the rows is
        returned (or sum, see `loss_reduction`). Call `backward()` of that, once and as it is: for a framework that
        does so itself. For a loop of your own there is `private.backward`.

        Args:
            loss_fn: A function of one row. Constants (class weights) it may read from outside; make them once.
            outputs: What the module returned for the batch, as it came.
            *targets: Tensors of the batch, as they came, or what `private.frozen(teacher)` made of them.

        Raises:
            GuaranteeError: Rows may have met in outputs, targets or constants, or `loss_fn` does not fit one row.

        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from inid.dpsgd import make_private
        >>> import torch
        >>> model, data = nn.Linear(5, 2), TensorDataset(torch.randn(64, 5), torch.randint(0, 2, (64,)))
        >>> private = make_private(module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     data_loader=DataLoader(data, batch_size=16), noise_multiplier=1.0)
        >>> weight = torch.tensor([1.0, 10.0])
        >>> for x, y in private.data_loader:
        ...     private.optimizer.zero_grad()
        ...     loss = private.loss(nn.CrossEntropyLoss(weight=weight, reduction="sum"), private.module(x), y)
        ...     loss.backward()
        ...     private.optimizer.step()
        >>> private.accountant.steps
        4
        """
        return self.optimizer.losses.loss(loss_fn, outputs, targets)

    def backward(self, loss_fn: Callable[..., Tensor], outputs: Any = None, *targets: Any) -> Tensor:
        """Take the loss row by row, as `loss` does, and its backward; gives the loss, detached.

        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from inid.dpsgd import make_private
        >>> import torch
        >>> model, data = nn.Linear(5, 2), TensorDataset(torch.randn(64, 5), torch.randint(0, 2, (64,)))
        >>> private = make_private(module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     data_loader=DataLoader(data, batch_size=16), noise_multiplier=1.0)
        >>> for x, y in private.data_loader:
        ...     private.optimizer.zero_grad()
        ...     loss = private.backward(nn.functional.cross_entropy, private.module(x), y)
        ...     private.optimizer.step()
        >>> private.accountant.steps
        4
        """
        return self.optimizer.losses.backward(loss_fn, outputs, targets)

    def frozen(self, module: nn.Module) -> FrozenModule:
        """A model that is not trained, such as a teacher, called on tensors of the batch: its outputs may be targets.

        It is checked as the trained model is: what it makes of one row must not depend on others.

        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from inid.dpsgd import make_private
        >>> import torch
        >>> model, teacher, data = nn.Linear(5, 2), nn.Linear(5, 2), TensorDataset(torch.randn(64, 5))
        >>> private = make_private(module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     data_loader=DataLoader(data, batch_size=16), noise_multiplier=1.0)
        >>> teacher = private.frozen(teacher)
        >>> for (x,) in private.data_loader:
        ...     private.optimizer.zero_grad()
        ...     loss = private.backward(nn.functional.mse_loss, private.module(x), teacher(x))
        ...     private.optimizer.step()
        """
        return FrozenModule(module, self.data_loader.drawn)
