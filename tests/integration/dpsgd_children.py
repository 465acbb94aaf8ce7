"""What one of several training processes does; run by `test_dpsgd_distributed`."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset

from inid import ApproxDP, InidError, Ledger, dpsgd
from inid.testing import unsafe_no_noise, unsafe_seed
from training import make_private

SIZE, WIDTH = 12, 300
RELATIONS = ("zero_out", "add_remove")


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 200), nn.Tanh(), nn.Linear(200, 3)).double()


def data() -> TensorDataset:
    return TensorDataset(torch.randn(SIZE, WIDTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64))


def train(
    model: nn.Module, batch_size: int, factor: float, until: int, dataset: Any = None, **options: object
) -> dpsgd.PrivateTraining:
    """Take steps with gradients times a factor."""
    training = make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data() if dataset is None else dataset, batch_size=batch_size),
        **{"noise_multiplier": 1.0, "max_grad_norm": [0.7, 0.2], "loss_reduction": "sum", "clipping": "per_layer"}
        | options,
    )
    while training.accountant.steps < until:
        for (x,) in training.data_loader:
            training.optimizer.zero_grad()
            training.backward(lambda row: (factor * row.square()).sum(), model(x))
            training.optimizer.step()
    return training


class Augmented(TensorDataset):
    """Examples with noise, which a seed fixes, and noise that none does."""

    def __init__(self) -> None:
        super().__init__(*data().tensors)
        self._own = torch.Generator()
        self._own.seed()

    def __getitem__(self, at: int) -> tuple[torch.Tensor, ...]:
        (x,) = super().__getitem__(at)
        return (x + torch.rand(()) + torch.rand((), generator=self._own) * (at % 2),)


class Unreadable(TensorDataset):
    """Examples that one of the processes cannot read before it trains."""

    def __init__(self, rank: int) -> None:
        super().__init__(*data().tensors)
        self._waits = rank

    def __getitem__(self, at: int) -> tuple[torch.Tensor, ...]:
        if self._waits and sys._getframe(2).f_code.co_name == "_digest":
            raise OSError("opened by workers alone")
        return super().__getitem__(at)


class RowsTogether(nn.Module):
    """Adds up the same row of all processes."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(WIDTH, 3).double(), nn.Linear(3, 3).double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.into(x)
        total = hidden.detach().clone()
        distributed.all_reduce(total)
        return self.out(hidden + total)


def refusal(batch_size: int = 2, model: nn.Module | None = None, **options: object) -> str:
    """What is said when the processes do not agree on an option."""
    try:
        train(network() if model is None else model, batch_size, 1.0, 1, **options)
    except InidError as error:
        return str(error)
    return ""


def snapshot(training: dpsgd.PrivateTraining) -> dict[str, object]:
    parameters = list(training.module.parameters())
    return {
        "gradients": [p.grad for p in parameters],
        "parameters": [p.detach() for p in parameters],
        "thresholds": training.optimizer.thresholds,
        "scales": training.optimizer.plan.runs,
        "steps": training.accountant.steps,
        "rate": training.data_loader.sample_rate,
    }


def main(folder: Path, rank: int, world: int) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=world, timeout=timedelta(seconds=60)
    )
    found = {}
    torch.manual_seed(rank)  # weights that differ: make_private gives everybody those of the first process
    with unsafe_no_noise():
        found["silent"] = snapshot(train(network(), SIZE // world, 1.0, 1))
        found["parts"] = snapshot(train(network(), SIZE // world, 1.0, 1, max_physical_batch_size=2 + rank))
        secret = {"neighbours": "add_remove", "sample_rate": 1.0, "steps": 1}  # examples are dealt out at random
        found["dealt"] = snapshot(train(network(), SIZE // world, 1.0, 1, **secret))
    found["noise"] = snapshot(train(network(), SIZE // world, 0.0, 1))
    found["secret"] = snapshot(train(network(), 2, 1.0, 6, thresholds="adaptive"))
    found["exact"] = snapshot(train(network(), 2, 1.0, 3, noise="exact"))
    with unsafe_seed(5 + rank):
        found["seeded"] = snapshot(train(network(), 2, 1.0, 3))
    if rank == 0:
        Ledger.open(folder / "budget.db", total=ApproxDP(50.0, 1e-5), neighbours="zero_out").close()
    distributed.barrier()
    with Ledger.open(folder / "budget.db") as ledger:
        found["paid"] = snapshot(train(network(), 2, 1.0, 6, epochs=2, ledger=ledger))
    found["refused"] = [refusal(max_grad_norm=[0.7, 0.2 + rank]), refusal(noise_multiplier=1.0 + rank)]
    # Where thresholds change places, an example may add more than the noise is for.
    found["refused"] += [refusal(groups=[["0"], ["2"]][:: 1 - 2 * rank])]
    # Dealt out among other numbers of positions, or in order by one of them, an example could be held by both.
    found["refused"] += [
        refusal(SIZE * (1 + rank), **secret),
        refusal(SIZE, **secret | {"neighbours": RELATIONS[rank]}),
    ]
    # In another order, an example could be dealt to both.
    (x,) = data().tensors
    found["other orders"] = [
        refusal(dataset=dataset)
        for dataset in (
            TensorDataset(x.roll(rank, 0)),
            TensorDataset(x.flip(0) if rank else x),
            TensorDataset(x[torch.randperm(SIZE, generator=torch.Generator().manual_seed(rank))]),
            TensorDataset(x + rank),
            [tuple(x)[at].numpy() for at in range(SIZE)][:: 1 - 2 * rank],
        )
    ]
    found["rows together"] = refusal(model=RowsTogether())
    found["same order"] = [refusal(dataset=Augmented()), refusal(dataset=Unreadable(rank))]
    torch.save(found, folder / f"rank{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
