"""A wide residual network (Zagoruyko and Komodakis 2016) with group normalisation, as De et al. (2022) trained it."""

import torch
from torch import nn
from torch.nn import functional

GROUPS = 16


class WideBlock(nn.Module):
    """Two convolutions, each after a normalisation; where the width changes, the input passes a third one."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first_norm = nn.GroupNorm(GROUPS, inputs)
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.second_norm = nn.GroupNorm(GROUPS, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.across = None if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.first_norm(x))
        passed = x if self.across is None else self.across(y)
        y = functional.relu(self.second_norm(self.first(y)))
        return passed + self.second(y)


class WideResNet(nn.Module):
    """WRN-16-4 by default: 2,748,890 parameters."""

    def __init__(self, depth: int = 16, width: int = 4, classes: int = 10) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        blocks, inputs = [], 16
        for outputs, stride in ((16 * width, 1), (32 * width, 2), (64 * width, 2)):
            for at in range((depth - 4) // 6):
                blocks.append(WideBlock(inputs, outputs, 1 if at else stride))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.GroupNorm(GROUPS, inputs)
        self.last = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.norm(self.blocks(self.first(x))))
        return self.last(x.mean((2, 3)))
