"""What a private training loop works with: the module, the optimizer, the loader, the accountant, and the loss."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn

from inid.dpsgd.accountant import Accountant
from inid.dpsgd.optimizer import PrivateOptimizer
from inid.dpsgd.sampling.poisson_loader import PoissonLoader
from inid.errors import ArgumentError


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

    def loss(
        self, loss_fn: Callable[..., Tensor], outputs: Any, *targets: Any, per_row: Tensor | tuple[Any, ...] = ()
    ) -> Tensor:
        """The loss of a batch, taken row by row, so that no row can change the loss of another.

        `loss_fn` gets one row of the outputs and of every target, and returns one number; its mean over the rows is
        returned (or sum, see `loss_reduction`), and `backward()` of that is private. For a loop of your own,
        `private.backward` takes the same arguments and calls it.

        Args:
            loss_fn: A function of one row. Constants (class weights) it may read from outside; make them once.
            outputs: What the module returned for the batch, as it came.
            *targets: Tensors of the batch, as they came.
            per_row: More tensors by row, each of whose rows you state comes from that row of the batch alone, such as
                a teacher's outputs. They follow the targets.

        Raises:
            GuaranteeError: Rows may have met in outputs, targets or constants, or `loss_fn` cannot be run row by row.

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
        stated = (per_row,) if isinstance(per_row, Tensor) else tuple(per_row)
        return self.optimizer.losses.of_function(loss_fn, outputs, targets, stated)

    def backward(
        self,
        loss_fn: Callable[..., Tensor] | Tensor,
        outputs: Any = None,
        *targets: Any,
        per_row: Tensor | tuple[Any, ...] = (),
    ) -> Tensor:
        """Take the loss row by row, as `loss` does, and its backward; gives the loss, detached.

        Instead of a function a tensor of one loss per row may be passed, for losses that cannot be run row by row.
        Rows that meet in it are then seen in its graph or, at some steps, in its gradients; what was mixed without
        gradients (a weight by row that was divided by the batch's) is not.

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
        if isinstance(loss_fn, Tensor):
            if outputs is not None or targets or per_row != ():
                raise ArgumentError("losses by row need nothing else: pass private.backward(losses).")
            loss = self.optimizer.losses.of_losses(loss_fn)
        else:
            loss = self.loss(loss_fn, outputs, *targets, per_row=per_row)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()
