"""What a private training loop works with: module, optimizer, loader, accountant, loss, and averaged parameters."""

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from inid import arguments
from inid._version import __version__
from inid.accounting.training_runs import Segment, TrainingRecord
from inid.dpsgd.accountant import Accountant
from inid.dpsgd.loss import FrozenModule
from inid.dpsgd.optimizer import PrivateOptimizer
from inid.dpsgd.sampling.poisson_loader import PoissonLoader
from inid.errors import ArgumentError, RecordError


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
