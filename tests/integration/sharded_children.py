"""What one of several processes does that train a sharded model; run by `test_dpsgd_sharded`."""

import sys
from datetime import timedelta
from pathlib import Path
from unittest import mock

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.utils.data import DataLoader, TensorDataset

from inid import ApproxDP, Ledger, dpsgd
from inid.dpsgd.independence import Independence
from inid.errors import InidError
from inid.testing import unsafe_no_noise, unsafe_seed
from training import make_private

SIZE, WIDTH = 12, 300
THRESHOLDS = [0.7, 0.2, 0.3, 0.4]
WAYS = ("in parts", "as a whole")
ONE = {"clipping": "global", "max_grad_norm": 0.5}


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
    training = make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(data(next(model.parameters()).dtype), batch_size=batch_size),
        loss_reduction="sum",
        **options,
    )
    while training.accountant.steps < steps:
        for (x,) in training.data_loader:
            training.optimizer.zero_grad()
            training.backward(lambda row: (factor * row.square()).sum(), model(x))
            training.optimizer.step()
    return training


def whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


class Steep(nn.Module):
    """Doubles 16 times over what is rounded differently for more examples than a few; may mix as many, a little."""

    def __init__(self, mixing: float, few: int) -> None:
        super().__init__()
        self.first, self.last, self.mixing, self.few = nn.Linear(WIDTH, 3), nn.Linear(3, 1), mixing, few

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, many = self.first(x), len(x) > self.few
        h = h * (1 + many * torch.finfo(h.dtype).eps)
        h = (h + self.mixing * h.mean(0) if many and self.mixing else h).sigmoid()
        for _ in range(16):
            h = 4 * h * (1 - h)
        return self.last(h)


class Experts(nn.Module):
    """Two layers, each with room for some of the examples that go to it; who comes later is left out."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.route, self.first, self.last = nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 2), nn.Linear(WIDTH, 2)
        self.room = room

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = nn.functional.one_hot(self.route(x).argmax(1), 2)
        taken = chosen * (chosen.cumsum(0) <= self.room)
        return torch.stack([self.first(x), self.last(x)], 2) @ taken.to(x)[:, :, None]


class Halved(nn.Module):
    """A frozen part in bfloat16, whose rounding hides what is mixed, below a head in float32."""

    def __init__(self, mixing: float) -> None:
        super().__init__()
        self.head, self.base, self.mixing = nn.Linear(4, 2), nn.Linear(WIDTH, 4), mixing
        self.base.to(torch.bfloat16).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.base(x.to(self.base.weight.dtype)).to(self.head.weight.dtype)
        return self.head(h + self.mixing * h.mean(0) if self.mixing else h)


class Late(nn.Module):
    """Begins to mix examples after some forwards: runs on made-up examples do not count, their state is put back."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.layer, self.runs, self.first = nn.Linear(WIDTH, 2), 0, first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        return self.layer(x - (x.mean(0) if self.runs > self.first else 0))


def looks(rank: int) -> dict[str, str]:
    """What is said of models that mix examples, and of others, in whatever way they are sharded."""
    models = {
        "room for few": lambda: Experts(3),
        "room for all": lambda: Experts(SIZE),
        "steep": lambda: Steep(0.0, few=1),
        "steep, put together once": lambda: Steep(0.0, few=1),
        "steep, mixing": lambda: Steep(1e-6, few=1),
        "steep for many": lambda: Steep(0.0, few=4),
        "steep for many, mixing": lambda: Steep(1e-6, few=4),
        "halved": lambda: Halved(0.0),
        "halved, mixing": lambda: Halved(0.5),
        "late": lambda: Late(1),
        "too late": lambda: Late(100),
        "mixing elsewhere": lambda: Steep(0.5 * rank, few=1),
        "mixing many elsewhere": lambda: Steep(0.5 * rank, few=4),
    }
    return {
        f"{name}, {way}": refusal(
            sharded_by(model(), way, once="once" in name), SIZE // 2, steps=2 if "late" in name else 1, **ONE
        )
        for name, model in models.items()
        for way in WAYS
    }


def sharded_by(model: nn.Module, way: str, *, once: bool = False) -> nn.Module:
    mesh = init_device_mesh("cpu", (2,))
    for part in model.children() if way != "as a whole" else ():
        fully_shard(part, mesh=mesh, reshard_after_forward=not once)
    return fully_shard(model, mesh=mesh)


def snapshot(training: dpsgd.PrivateTraining) -> dict[str, object]:
    parameters = list(training.module.parameters())
    return {
        "whole": [whole(p.grad) for p in parameters],
        "pieces": [p.grad.to_local() if hasattr(p.grad, "to_local") else p.grad for p in parameters],
        "parameters": [whole(p.detach()) for p in parameters],
        "scales": training.optimizer.plan.runs,
        "thresholds": training.optimizer.thresholds,
        "held": training.optimizer.step_state.sums.flat.numel(),
        "steps": training.accountant.steps,
    }


def refusal(model: nn.Module, batch_size: int = 2, **options: object) -> str:
    try:
        train(model, batch_size, **options)
    except InidError as error:
        return str(error)
    return ""


def main(folder: Path, rank: int, world: int) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=world, timeout=timedelta(seconds=60)
    )
    each = SIZE // world
    found = {}
    with unsafe_no_noise():
        found["per layer"] = snapshot(train(sharded(), each))
        found["global"] = snapshot(train(sharded(), each, **ONE))
        found["parts"] = snapshot(train(sharded(), each, max_physical_batch_size=4))
        found["left out"] = snapshot(train(left_out(), each))
        found["replicas"] = snapshot(train(sharded(shape=(2, 1)), each))
        found["not resharded"] = snapshot(train(sharded(reshard_after_forward=False), each, **ONE))
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
    found["looks"] = looks(rank)
    with mock.patch.object(sys.modules[Independence.__module__], "_difference", return_value=None):
        found["not looked at among many"] = refusal(sharded_by(Experts(3), WAYS[0]), SIZE // 2, **ONE)
    torch.save(found, folder / f"rank{rank}.pt")
    distributed.destroy_process_group()


def left_out() -> nn.Module:
    """The last layer stays whole in every process."""
    model = network()
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)), ignored_params=set(model[4].parameters()))
    return model


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
