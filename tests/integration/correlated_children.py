"""What one of several processes does that train with correlated noise; run by `test_correlated_distributed`."""

import sys
from datetime import timedelta
from itertools import islice
from pathlib import Path
from unittest import mock

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from correlated_runs import fed
from inid import ApproxDP, InidError, Ledger, dpsgd
from inid.dpsgd.noise import CorrelatedRun
from inid.testing import unsafe_no_noise
from training import make_private

SIZE, BATCH, BANDS, STEPS, WIDTH = 24, 4, 3, 9, 8  # two processes of two examples each: groups of eight, drawn whole


def network(*, split: bool = False) -> nn.Module:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(WIDTH, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    if split:
        for part in (made[0], made):
            fully_shard(part, mesh=init_device_mesh("cpu", (distributed.get_world_size(),)))
    return made


def data() -> TensorDataset:
    draw = torch.Generator().manual_seed(3)
    return TensorDataset(torch.randn(SIZE, WIDTH, generator=draw, dtype=torch.float64), torch.arange(SIZE))


def made(*, split: bool = False, **options: object) -> dpsgd.PrivateTraining:
    world = distributed.get_world_size() if distributed.is_initialized() else 1
    model = network(split=split)
    given = {"noise_multiplier": 1.0, "clipping": "per_layer", "max_grad_norm": [0.7, 0.2], "steps": STEPS}
    return make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data(), batch_size=2 * BATCH // world),
        loss_reduction="sum",
        **given | {"correlation": dpsgd.Banded(BANDS)} | options,
    )


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def train(training: dpsgd.PrivateTraining, factor: float = 1.0) -> dict[str, object]:
    """Who took part here in each step, what was released, and where it ended."""
    came, released = [], []
    for x, names in training.data_loader:
        training.optimizer.zero_grad()
        training.backward(lambda row: (factor * row.square()).sum(), training.module(x))
        training.optimizer.step()
        came.append(names[training.data_loader.drawn.mask].tolist())
        released.append(torch.cat([whole(p.grad).flatten().clone() for p in training.module.parameters()]))
    parameters = [whole(p.detach()).clone() for p in training.module.parameters()]
    return {"came": came, "released": released, "parameters": parameters, "steps": training.accountant.steps}


def refusal(**options: object) -> str:
    try:
        made(**options)
    except InidError as error:
        return str(error)
    return ""


def apart(rank: int, steps: int) -> tuple[list[list[int]], str]:
    """Who takes part here in each step where the second process alone loads a checkpoint, and how it ends."""
    training, came = made(), []
    try:
        for x, names in islice(training.data_loader, steps):
            training.backward(lambda row: row.square().sum(), training.module(x))
            training.optimizer.step()
            came.append(names[training.data_loader.drawn.mask].tolist())
            if len(came) == steps - 1 and rank:
                training.optimizer.load_state_dict(training.optimizer.state_dict())
    except InidError as error:
        return came, str(error)
    return came, ""


def main(folder: Path, rank: int, world: int) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=world, timeout=timedelta(seconds=60)
    )
    found: dict[str, object] = {}
    for name, split in (("whole", False), ("sharded", True)):
        found[name] = train(made(split=split))
        with unsafe_no_noise():
            found[f"{name}, silent"] = train(made(split=split))
        with fed([1.0]):  # in the first step alone: what follows is what is taken back
            found[f"{name}, fed"] = train(made(split=split), factor=0.0)
    found["exact"] = train(made(noise="exact"))
    if rank == 0:
        Ledger.open(folder / "budget.db", total=ApproxDP(99.0, 1e-5), neighbours="zero_out").close()
    distributed.barrier()
    with Ledger.open(folder / "budget.db") as ledger:
        first = made(ledger=ledger)
        batches = iter(first.data_loader)
        for _ in range(4):
            x, _ = next(batches)
            first.backward(lambda row: row.square().sum(), first.module(x))
            first.optimizer.step()
        state = first.optimizer.state_dict()
        second = made(ledger=ledger)
        second.optimizer.load_state_dict(state)
        found["resumed"] = train(second)
    found["refused"] = [
        refusal(correlation=dpsgd.Banded(2 + rank)),
        refusal(correlation=dpsgd.Banded(2) if rank else None),
        refusal(steps=9 + rank),
    ]
    found["apart"] = apart(rank, steps=5)
    with mock.patch.object(CorrelatedRun, "_agree", return_value=None):
        found["apart, twin"] = apart(rank, steps=5)
    torch.save(found, folder / f"rank{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
