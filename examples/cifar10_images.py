"""The images of CIFAR-10 for `cifar10.py`: where they come from, made-up ones, and views of them."""

import io
import sys
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from torch.utils.data import TensorDataset

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def load(folder: Path | None) -> tuple[TensorDataset, TensorDataset]:
    """Training and test images as tensors."""
    packed = None if folder is None else folder / "cifar10_jpeg94.npz"
    if packed is not None and packed.exists():
        arrays = _unpacked(packed)
    else:
        try:
            from torchvision.datasets import CIFAR10
        except ImportError:
            sys.exit("CIFAR-10 is not here: pip install torchvision, which downloads it, or set INID_DATA.")
        sets = [CIFAR10("cifar10", train=train, download=True) for train in (True, False)]
        arrays = [(each.data, np.array(each.targets)) for each in sets]
    return tuple(
        TensorDataset(_standardised(images), torch.from_numpy(labels.astype(np.int64))) for images, labels in arrays
    )


def _unpacked(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    from PIL import Image

    stored = np.load(path)

    def sheet(name: str) -> np.ndarray:
        tiles = np.asarray(Image.open(io.BytesIO(stored[name].tobytes()))).reshape(100, 32, 100, 32, 3)
        return tiles.transpose(0, 2, 1, 3, 4).reshape(10_000, 32, 32, 3)

    train = np.concatenate([sheet(f"train_{at}") for at in range(5)])
    return [(train, stored["y_train"]), (sheet("test_0"), stored["y_test"])]


def _standardised(images: np.ndarray) -> torch.Tensor:
    values = torch.from_numpy(images.copy()).permute(0, 3, 1, 2).float() / 255
    return (values - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(DEVIATION).view(3, 1, 1)


def synthetic(train: int, test: int) -> tuple[TensorDataset, TensorDataset]:
    """Coloured noise with a class-dependent tint, for trying the script without the data."""
    made = []
    for count, seed in ((train, 1), (test, 2)):
        draw = torch.Generator().manual_seed(seed)
        labels = torch.randint(0, 10, (count,), generator=draw)
        tint = torch.stack([torch.cos(labels * k) for k in (1.0, 2.0, 3.0)], 1)[:, :, None, None]
        made.append(TensorDataset(torch.randn(count, 3, 32, 32, generator=draw) + tint, labels))
    return made[0], made[1]


def augmented(images: torch.Tensor, pixels: int) -> torch.Tensor:
    """Every image moved by up to so many pixels, every second one (view of an image) mirrored; their order stays.

    What moves in at an edge is the image's own mirror image.
    """
    count, device = len(images), images.device
    padded = functional.pad(images, (pixels,) * 4, mode="reflect") if pixels else images
    rows, columns = (
        torch.randint(0, 2 * pixels + 1, (count, 1), device=device) + torch.arange(32, device=device) for _ in range(2)
    )
    mirrored = torch.arange(count, device=device)[:, None] % 2 == 1
    columns = torch.where(mirrored, columns.flip(1), columns)
    at = torch.arange(count, device=device)[:, None, None, None]
    channels = torch.arange(3, device=device)[None, :, None, None]
    return padded[at, channels, rows[:, None, :, None], columns[:, None, None, :]]
