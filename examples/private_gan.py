"""Train a generative adversarial network on private points: the discriminator is private, the generator is public.

    python examples/private_gan.py
    python examples/private_gan.py --epsilon 2 --epochs 40

Only the discriminator sees private points, and it is trained by a private optimizer. The generator learns from what is
released of it: a copy of its parameters after each step. That is post-processing, so it costs nothing, and the
generator may be handed out with the promise of the discriminator. Both are trained in one loop, each by an optimizer of
its own. The points are made up here: they lie on a ring, and the share of generated points near it is printed.
"""

import argparse
import copy
import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd

RADIUS, SEED_SIZE = 1.0, 4


def ring(count: int, seed: int) -> Tensor:
    """Private points, near a circle."""
    draw = torch.Generator().manual_seed(seed)
    angle = 2 * math.pi * torch.rand(count, generator=draw)
    points = RADIUS * torch.stack([angle.cos(), angle.sin()], dim=1)
    return points + 0.05 * torch.randn(count, 2, generator=draw)


def network(inputs: int, outputs: int) -> nn.Sequential:
    """A small network of two hidden layers."""
    return nn.Sequential(
        nn.Linear(inputs, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, outputs)
    )


class Pairs(nn.Module):
    """A discriminator that judges a private point and a generated one, side by side: one row for one person.

    What the generator makes is made inside: a private module is called with the rows of its loader alone.
    """

    def __init__(self, generator: nn.Module) -> None:
        super().__init__()
        self.judge = network(2, 1)
        self.generator = [generator]  # no part of this module, since another optimizer trains it

    def forward(self, real: Tensor) -> Tensor:
        """Two numbers for each row."""
        with torch.no_grad():
            made = self.generator[0](torch.randn(len(real), SEED_SIZE))
        return self.judge(torch.stack([real, made], dim=1)).squeeze(2)


def judged(scores: Tensor) -> Tensor:
    """The loss of one row: its private point should be taken for real, its generated one should not."""
    return functional.softplus(-scores[0]) + functional.softplus(scores[1])


def train(
    epsilon: float, epochs: int, points: int = 4_000, batch: int = 400
) -> tuple[nn.Module, dpsgd.PrivateTraining]:
    """The generator, and the private training of the discriminator."""
    generator = network(SEED_SIZE, 2)
    discriminator = Pairs(generator)
    private = dpsgd.make_private(
        module=discriminator,
        optimizer=torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.9)),
        data_loader=DataLoader(TensorDataset(ring(points, seed=0)), batch_size=batch),
        target_epsilon=epsilon,
        target_delta=1e-5,
        epochs=epochs,
    )
    learning = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.9))
    released = copy.deepcopy(discriminator).requires_grad_(False)  # a copy of a private model is an ordinary one
    for _ in range(epochs):
        for (real,) in private.data_loader:
            private.optimizer.zero_grad()
            private.backward(judged, private.module(real))
            private.optimizer.step()

            released.load_state_dict(discriminator.state_dict())
            learning.zero_grad()
            fooled = released.judge(generator(torch.randn(batch, SEED_SIZE)))
            functional.softplus(-fooled).mean().backward()
            learning.step()
    return generator, private


def near_the_ring(points: Tensor) -> float:
    """The share of points within a fifth of the radius."""
    return float(((points.norm(dim=1) - RADIUS).abs() < 0.2 * RADIUS).float().mean())


def main(arguments: list[str] | None = None) -> None:
    """Train and print what was reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--epochs", type=int, default=60)
    chosen = parser.parse_args(arguments)
    torch.manual_seed(0)
    before = near_the_ring(network(SEED_SIZE, 2)(torch.randn(2_000, SEED_SIZE)))
    generator, private = train(chosen.epsilon, chosen.epochs)
    with torch.no_grad():
        after = near_the_ring(generator(torch.randn(2_000, SEED_SIZE)))
    print(f"near the ring: {before:.0%} before, {after:.0%} after {private.accountant.steps} steps")
    print(f"epsilon spent: {private.accountant.get_epsilon(1e-5):.2f} at delta 1e-5, of {chosen.epsilon:g}")


if __name__ == "__main__":
    main()
