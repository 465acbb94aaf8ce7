"""What a private training loop works with: the module, the optimizer, the loader, the accountant, and the loss."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from inid._version import __version__
from inid.accounting.training_runs import Segment, TrainingRecord
from inid.dpsgd.accountant import Accountant
from inid.dpsgd.loss import FrozenModule
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

    def loss(self, loss_fn: Callable[..., Tensor], outputs: Any, *targets: Any) -> Tensor:
        """The loss of a batch, computed row by row, so that no row can change the loss of another.

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
        """Compute the loss row by row, as `loss` does, and its backward; return the loss, detached.

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

    def summary(self, delta: float | None = None) -> str:
        """What the run promises to whom, and how it is trained, in a few lines: print it before the first step.

        Args:
            delta: The delta at which epsilon is stated; by default `target_delta`, or a tenth of one in the number of
                examples where that is public.

        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from inid.dpsgd import make_private
        >>> model, data = nn.Linear(5, 2), TensorDataset(torch.randn(64, 5), torch.randint(0, 2, (64,)))
        >>> private = make_private(module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     data_loader=DataLoader(data, batch_size=16), noise_multiplier=1.0, epochs=2)
        >>> print(private.summary(delta=1e-3))  # doctest: +ELLIPSIS
        promise   epsilon ... at delta 0.001 for each example after 8 steps: an example must hold all of a person
        noise     gaussian, multiplier 1
        clipping  global, norm 1
        batch     16 examples expected, 15.9 drawn on average; 1 x 24 rows, 34 % of them padding
        rate      0.25 (one example becomes nothing; how many there are is public)
        """
        loader, recipe = self.data_loader, self.optimizer.recipe
        planned = self._recorded(self.optimizer.planned_runs, delta, private=True)
        unit, after = loader.unit, f"{planned.runs[-1].steps} {self.optimizer.paid_by}"
        person = (
            "an example must hold all of a person" if unit == "example" else f"all examples of a {unit} count as one"
        )
        rows = f"{loader.physical_batches} x {loader.physical_batch_size} rows"
        drawn = f"{loader.expected_batch_size:g} {loader.plural} expected, {loader.mean_draw:.3g} drawn on average"
        promise = f"epsilon {planned.epsilon:g} at delta {planned.delta:g} for each {unit}"
        return "\n".join(
            [
                f"promise   {promise} after {after}: {person}",
                f"noise     {recipe.mechanism}, multiplier {self.noise_multiplier:.6g}",
                f"clipping  {recipe.clipping}, norm {self.optimizer.norm:.6g}",
                f"batch     {drawn}; {rows}, {100 * loader.padding:.0f} % of them padding",
                f"rate      {loader.sample_rate:.6g} ({planned.relation})",
            ]
        )

    def record(self, delta: float | None = None) -> TrainingRecord:
        """What the steps so far have cost, as a record: `json.dump(record.to_dict(), file)`, then `inid verify`.

        `record.card()` is a model card of it.

        Args:
            delta: The delta at which epsilon is stated; by default as for `summary`.

        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> from inid.dpsgd import make_private
        >>> model, data = nn.Linear(5, 2), TensorDataset(torch.randn(64, 5), torch.randint(0, 2, (64,)))
        >>> private = make_private(module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     data_loader=DataLoader(data, batch_size=16), noise_multiplier=1.0)
        >>> for x, y in private.data_loader:
        ...     private.optimizer.zero_grad()
        ...     loss = private.backward(nn.functional.cross_entropy, private.module(x), y)
        ...     private.optimizer.step()
        >>> private.record(delta=1e-3).steps
        4
        """
        return self._recorded(self.accountant.history, delta, private=self.accountant.private)

    def _recorded(self, runs: Sequence[Segment], delta: float | None, *, private: bool) -> TrainingRecord:
        loader, optimizer = self.data_loader, self.optimizer
        if delta is None:
            delta = optimizer.target_delta
        if delta is None and loader.units is None:
            raise ArgumentError(
                "the number of examples is secret, so that no usual delta follows from it: pass delta=, such as 1e-6."
            )
        facts: dict[str, str | int | float] = {
            "model": type(self.module).__name__,
            "trained": sum(optimizer.recipe.sizes),
            "optimizer": type(optimizer.original).__name__,
            "unit": loader.unit,
            "expected_batch": loader.expected_batch_size,
            "physical_batch": loader.physical_batch_size,
            "clipping": optimizer.recipe.clipping,
            "max_grad_norm": optimizer.norm,
            "inid": __version__,
            "torch": torch.__version__,
        }
        if loader.units is not None:
            facts["units"] = loader.units
            delta = 0.1 / loader.units if delta is None else delta
        if optimizer.charge is not None:
            facts["charge"] = optimizer.charge
        return TrainingRecord.of(runs, delta=cast("float", delta), private=private, facts=facts)
