"""What one of several training processes does; run by `test_dpsgd_distributed`."""

import sys
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, TensorDataset

from inid import ApproxDP, InidError, Ledger, dpsgd
from inid.testing import unsafe_no_noise, unsafe_seed

SIZE, WIDTH = 12, 300
RELATIONS = ("zero_out", "add_remove")


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, 200), nn.Tanh(), nn.Linear(200, 3)).double()


def data() -> TensorDataset:
    return TensorDataset(torch.randn(SIZE, WIDTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64))


def train(model: nn.Module, batch_size: int, factor: float, until: int, **options: object) -> dpsgd.PrivateTraining:
    """Take steps with gradients times a factor."""
    training = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data(), batch_size=batch_size),
        **{"noise_multiplier": 1.0, "max_grad_norm": [0.7, 0.2], "loss_reduction": "sum", "clipping": "per_layer"}
        | options,
    )
    while training.accountant.steps < until:
        for (x,) in training.data_loader:
            training.optimizer.zero_grad()
            (factor * model(x).square()).sum().backward()
            training.optimizer.step()
    return training


def refusal(batch_size: int = 2, **options: object) -> str:
    """What is said when the processes do not agree on an option."""
    try:
        train(network(), batch_size, 1.0, 1, **options)
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
    torch.save(found, folder / f"rank{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
