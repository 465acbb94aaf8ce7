"""What `dpsgd_gpu` trains: models, batches and losses, in plain torch but for the size of physical batches."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench._transformer import Transformer, losses

__all__ = ["Job", "ResNetJob"]


@dataclass
class Job:
    """A transformer, a batch and where it lies."""

    name: str
    device: str
    small: bool
    rounds: int
    precision: str = "highest"
    bound: float = 0.1

    narrow: ClassVar[bool] = True  # bfloat16 by autocast
    looks_at_norms: ClassVar[bool] = True  # whether the signal lost to allowances is measured

    @property
    def shape(self) -> tuple[int, int]:
        count, length = self.name.split("x")
        return int(count), int(length)

    def model(self) -> nn.Module:
        torch.manual_seed(0)
        sizes = {"tokens": 500, "width": 64, "layers": 2, "heads": 2} if self.small else {}
        return Transformer(length=self.shape[1], **sizes).to(self.device)

    def data(self) -> tuple[Tensor, Tensor]:
        count, length = self.shape
        drawn = torch.Generator().manual_seed(1)
        whole = torch.randint(0, 500 if self.small else 50257, (count, length + 1), generator=drawn)
        return whole[:, :-1].contiguous(), whole[:, 1:].contiguous()

    def batch(self) -> list[Tensor]:
        return [each[: self.rows()].to(self.device) for each in self.data()]

    def rows(self) -> int:
        return self.shape[0]

    def mean(self) -> int:
        return self.shape[0]

    def loss(self, module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return self.losses(module, x, y).mean()

    def losses(self, module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast(self.device, dtype=torch.bfloat16):
            return losses(module(x), y)

    def private_loss(self, private: Any, x: Tensor, y: Tensor) -> Tensor:
        with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.narrow):
            return private.loss(self.row_loss, self.outputs(private.module, x), y)

    def outputs(self, module: nn.Module, x: Tensor) -> Tensor:
        return module(x)

    @property
    def row_loss(self) -> Any:
        return functional.cross_entropy

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=1e-3)

    def layouts(self) -> list[torch.memory_format]:
        return [torch.contiguous_format]


class ResNetJob(Job):
    """ResNet-20 on images of CIFAR-10's form, float32 with TF32 products; a mean batch of 1000, padded."""

    narrow: ClassVar[bool] = False

    def model(self) -> nn.Module:
        sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
        from cifar10 import ResNet20

        torch.manual_seed(0)
        return ResNet20().to(self.device)

    def data(self) -> tuple[Tensor, Tensor]:
        count = 400 if self.small else 50_000
        drawn = torch.Generator().manual_seed(1)
        images = torch.randn(count, 3, 32, 32, generator=drawn)
        return images.to(self.device), torch.randint(0, 10, (count,), generator=drawn).to(self.device)

    def mean(self) -> int:
        return 8 if self.small else 1000

    def rows(self) -> int:
        from torch.utils.data import DataLoader, TensorDataset

        from inid.dpsgd import PoissonLoader

        count = 400 if self.small else 50_000
        loader = DataLoader(TensorDataset(torch.zeros(count)), batch_size=self.mean())
        return PoissonLoader(loader).physical_batch_size

    def losses(self, module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(module(x), y, reduction="none")

    def loss(self, module: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(module(x), y)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def layouts(self) -> list[torch.memory_format]:
        return [torch.contiguous_format, torch.channels_last]
