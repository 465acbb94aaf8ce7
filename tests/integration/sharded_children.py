"""What one of several processes does that train a sharded model; run by `test_dpsgd_sharded`."""

import sys
from datetime import timedelta
from pathlib import Path

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.utils.data import DataLoader, TensorDataset

from inid import ApproxDP, Ledger, dpsgd
from inid.errors import ArgumentError
from inid.testing import unsafe_no_noise, unsafe_seed

SIZE, WIDTH = 12, 300
THRESHOLDS = [0.7, 0.2, 0.3, 0.4]


class Own(nn.Module):
    """A layer with parameters of its own, run example by example."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.full((201,), 0.9)), nn.Parameter(torch.zeros(1, 201))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.scale + self.shift).tanh()


def network(kind: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(WIDTH, 201), nn.Tanh(), nn.LayerNorm(201), Own(), nn.Linear(201, 3))
    nn.init.zeros_(made[4].bias)
    return made.to(kind)


def sharded(kind: torch.dtype = torch.float64, shape: tuple[int, ...] = (2,), **options: object) -> nn.Module:
    model = network(kind)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicas", "shards")[-len(shape) :])
    for part in (model[0], model[3], model):
        fully_shard(part, mesh=mesh, **options)
    return model


def data(kind: torch.dtype) -> TensorDataset:
    draw = torch.Generator().manual_seed(3)
    return TensorDataset(torch.randn(SIZE, WIDTH, generator=draw, dtype=torch.float64).to(kind))


def train(
    model: nn.Module, batch_size: int, factor: float = 1.0, steps: int = 1, **options: object
) -> dpsgd.PrivateTraining:
    """Take steps with gradients times a factor."""
    options = {"max_grad_norm": THRESHOLDS, "clipping": "per_layer", "noise_multiplier": 1.0} | options
    training = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data(next(model.parameters()).dtype), batch_size=batch_size),
        loss_reduction="sum",
        **options,
    )
    while training.accountant.steps < steps:
        for (x,) in training.data_loader:
            training.optimizer.zero_grad()
            (factor * model(x).square()).sum().backward()
            training.optimizer.step()
    return training


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def snapshot(training: dpsgd.PrivateTraining) -> dict[str, object]:
    parameters = list(training.module.parameters())
    return {
        "whole": [whole(p.grad) for p in parameters],
        "pieces": [p.grad.to_local() if hasattr(p.grad, "to_local") else p.grad for p in parameters],
        "parameters": [whole(p.detach()) for p in parameters],
        "scales": training.optimizer.plan.runs,
        "thresholds": training.optimizer.thresholds,
        "held": training.optimizer._sums.flat.numel(),
        "steps": training.accountant.steps,
    }


def refusal(model: nn.Module, **options: object) -> str:
    try:
        train(model, 2, **options)
    except ArgumentError as error:
        return str(error)
    return ""


def main(folder: Path, rank: int, world: int) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=world, timeout=timedelta(seconds=60)
    )
    each = SIZE // world
    found = {}
    whole_norm = {"clipping": "global", "max_grad_norm": 0.5}
    with unsafe_no_noise():
        found["per layer"] = snapshot(train(sharded(), each))
        found["global"] = snapshot(train(sharded(), each, **whole_norm))
        found["parts"] = snapshot(train(sharded(), each, max_physical_batch_size=4))
        found["left out"] = snapshot(train(left_out(), each))
        found["replicas"] = snapshot(train(sharded(shape=(2, 1)), each))
        found["not resharded"] = snapshot(train(sharded(reshard_after_forward=False), each, **whole_norm))
        half = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
        found["bfloat16"] = snapshot(train(sharded(torch.float32, mp_policy=half), each))
    found["noise"] = snapshot(train(sharded(), each, 0.0))
    found["noise of replicas"] = snapshot(train(sharded(shape=(2, 1)), each, 0.0))
    found["noise of what is left out"] = snapshot(train(left_out(), each, 0.0))
    with unsafe_seed(5):
        found["one key for all"] = snapshot(train(sharded(), each, 0.0))
    found["adaptive"] = snapshot(train(sharded(), 2, steps=6, thresholds="adaptive", max_physical_batch_size=1))
    found["exact"] = snapshot(train(sharded(), 2, steps=3, noise="exact"))
    if rank == 0:
        Ledger.open(folder / "budget.db", total=ApproxDP(50.0, 1e-5), neighbours="zero_out").close()
    distributed.barrier()
    with Ledger.open(folder / "budget.db") as ledger:
        found["paid"] = snapshot(train(sharded(), 2, steps=9, epochs=3, ledger=ledger))
    tensor_parallel = parallelize_module(network(), init_device_mesh("cpu", (2,)), {"0": ColwiseParallel()})
    found["refused"] = [refusal(tensor_parallel), refusal(sharded(), pad_batches=False)]
    torch.save(found, folder / f"rank{rank}.pt")
    distributed.destroy_process_group()


def left_out() -> nn.Module:
    """The last layer stays whole in every process."""
    model = network()
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)), ignored_params=set(model[4].parameters()))
    return model


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
