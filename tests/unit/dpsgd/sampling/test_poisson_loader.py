"""The Poisson loader yields what a DataLoader would, from any dataset, in physical batches of one size."""

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from inid.dpsgd import PoissonLoader
from inid.dpsgd.sampling import StepPlaces
from inid.errors import ArgumentError
from inid.testing import unsafe_seed
from internals import module_with

poisson_draw = module_with("inid.dpsgd.sampling", "StepPlaces")

SIZE = 60


class Pair(NamedTuple):
    x: Any
    y: Any


class Rows(Dataset):
    """Example k is some form of the number k."""

    def __init__(self, form):
        self.form = form

    def __len__(self):
        return SIZE

    def __getitem__(self, at):
        return self.form(at)


def as_dict(at):
    return {"x": torch.full((2,), float(at)), "name": f"row {at}", "label": at}


def as_pair(at):
    return Pair(torch.full((2,), float(at)), at)


def tensors(at):
    return torch.full((2,), float(at)), at


def join(samples):
    return {"x": torch.stack([x for x, _ in samples]), "count": len(samples)}


def seen(batch):
    if isinstance(batch, dict):
        batch = batch["x"]
    elif isinstance(batch, (list, tuple)):
        batch = batch[0]
    return batch[:, 0].long().tolist()


LOADERS = {
    "tensors": lambda: DataLoader(TensorDataset(torch.arange(float(SIZE))[:, None].expand(SIZE, 2)), batch_size=15),
    "pairs": lambda: DataLoader(Rows(tensors), batch_size=15, shuffle=True),
    "named": lambda: DataLoader(Rows(as_pair), batch_size=15, drop_last=True),
    "dictionaries": lambda: DataLoader(Rows(as_dict), batch_size=15),
    "own collate": lambda: DataLoader(Rows(tensors), batch_size=15, collate_fn=join),
    "workers": lambda: DataLoader(Rows(tensors), batch_size=15, num_workers=2, prefetch_factor=3),
    "subset": lambda: DataLoader(Subset(Rows(tensors), range(SIZE)), batch_size=15),
}


@pytest.mark.parametrize("part", [None, 4])
@pytest.mark.parametrize("name", LOADERS)
def test_every_kind_of_dataset(name, part):
    """Every physical batch has one size and says what of it is padding: copies of its first example."""
    with unsafe_seed(3):
        loader = PoissonLoader(LOADERS[name](), max_physical_batch_size=part)
        assert loader.steps == 4
        assert len(loader) == (20 if part else 4)
        assert loader.sample_rate == 0.25
        assert loader.expected_batch_size == 15
        assert loader.physical_batch_size == (part or 24)  # 15 + sqrt(11.25), rounded up to a multiple of eight
        assert loader.physical_batches == (5 if part else 1)
        batches, parts = [], 0
        for batch in loader:
            rows, mask = seen(batch), loader.drawn.mask.tolist()
            assert len(rows) == len(mask) == loader.drawn.rows == loader.physical_batch_size
            examples = [row for row, drawn in zip(rows, mask, strict=True) if drawn]
            first = examples[0] if examples else 0
            assert rows == [row if drawn else first for row, drawn in zip(rows, mask, strict=True)]
            assert loader.drawn.examples == len(examples)
            batches = [*batches[:-1], batches[-1] + examples] if parts else [*batches, examples]
            parts = 0 if loader.drawn.complete else parts + 1
            assert loader.drawn.batch == len(batches)
            assert loader.drawn.complete == (not part or parts == 0)
            if isinstance(batch, dict) and "name" in batch:
                assert batch["name"] == [f"row {row}" for row in rows]
                assert batch["label"].tolist() == rows
    assert parts == 0
    with unsafe_seed(3):  # the draws do not depend on the kind of dataset
        places = StepPlaces.fitted(SIZE, 0.25, part)
        wanted = [draw[draw >= 0].tolist() for draw in (places.draw() for _ in range(4))]
    assert batches == wanted


def test_a_step_always_takes_the_same_number_of_physical_batches(monkeypatch):
    for count in (0, 1, 9, 19, 20):
        monkeypatch.setattr(poisson_draw, "bernoulli", lambda size, _, count=count: np.arange(size) < count)
        loader = PoissonLoader(LOADERS["tensors"](), max_physical_batch_size=10, steps=3)
        sizes = [(len(x), loader.drawn.complete) for (x,) in loader]
        assert sizes == [(10, False), (10, True)] * 3


def test_the_size_of_batches_cannot_be_set():
    loader = PoissonLoader(DataLoader(TensorDataset(torch.zeros(SIZE, 1)), batch_size=15))
    assert loader.batch_size == loader.expected_batch_size == 15
    with pytest.raises(ArgumentError, match="batch_size of a private loader is fixed, got 4: call make_private again"):
        loader.batch_size = 4
    with pytest.raises(ArgumentError, match="sample_rate of a private loader is fixed"):
        loader.sample_rate = 0.9


@pytest.mark.parametrize("name", ["tensors", "pairs", "named", "dictionaries", "own collate", "workers"])
def test_an_empty_draw_is_all_padding(name, monkeypatch):
    monkeypatch.setattr(poisson_draw, "bernoulli", lambda size, rate: np.zeros(size, dtype=bool))
    loader = PoissonLoader(LOADERS[name](), max_physical_batch_size=4)
    batches = list(loader)
    assert len(batches) == 4 * 5
    for batch in batches:
        assert seen(batch) == [0] * 4
        if name == "named":
            assert type(batch) is Pair
    assert loader.drawn.examples == 0
    assert not loader.drawn.mask.any()
    assert loader.drawn.complete


@pytest.mark.parametrize(
    ("size", "batch_size", "wanted"),
    [(64, 64, 64), (10, 4, 6), (50_000, 1000, 1056), (50_000, 100, 112), (1000, 1, 2), (100, 99, 100)],
)
def test_the_default_size_is_about_one_deviation_above_the_mean(size, batch_size, wanted):
    loader = PoissonLoader(DataLoader(TensorDataset(torch.zeros(size, 1)), batch_size=batch_size))
    assert loader.physical_batch_size == wanted


@pytest.mark.parametrize(("batch_size", "most", "wanted"), [(32, 40, 31.1), (256, 280, 251.5)])
def test_little_is_lost_to_draws_that_do_not_fit_and_it_is_said(batch_size, most, wanted):
    loader = PoissonLoader(DataLoader(TensorDataset(torch.zeros(60_000, 1)), batch_size=batch_size))
    size = loader.physical_batch_size
    drawn = np.random.default_rng(1).binomial(60_000, batch_size / 60_000, 200_000)
    mean = drawn[drawn <= size].mean()
    assert size <= most
    assert abs(mean - wanted) < 0.1
    assert abs(loader.mean_draw - mean) < 0.1
    assert f"{loader.mean_draw:.4g} examples on average" in repr(loader)


@pytest.mark.parametrize("size", [50, 100, 110, 120, 200])
def test_the_cost_of_padding_is_what_is_drawn(size):
    loader = PoissonLoader(
        DataLoader(TensorDataset(torch.zeros(1000, 1)), batch_size=100), max_physical_batch_size=size
    )
    drawn = np.random.default_rng(0).binomial(1000, 0.1, 20_000)
    rows = loader.physical_batch_size * loader.physical_batches
    assert 110 <= rows <= 200  # 100 + sqrt(90), and what parts of equal size hold
    assert loader.physical_batch_size <= size
    assert abs(loader.padding - (1 - drawn[drawn <= rows].mean() / rows)) < 0.001
    assert f"{100 * loader.padding:.0f} % of them padding" in repr(loader)


def test_processes_share_the_examples_without_overlap(monkeypatch):
    monkeypatch.setattr(poisson_draw, "bernoulli", lambda size, rate: np.ones(size, dtype=bool))
    parts = []
    for rank in range(3):
        loader = PoissonLoader(DataLoader(Rows(tensors), batch_size=5), max_physical_batch_size=20, rank=rank, world=3)
        assert loader.sample_rate == 0.25
        assert loader.expected_batch_size == 15
        parts += [row for batch in loader for row in np.array(seen(batch))[loader.drawn.mask]][: SIZE // 3]
    assert sorted(parts) == list(range(SIZE))


@pytest.mark.parametrize("rate", [1e-3, 0.1, 1 / 3, 0.7, 1 - 2.0**-53])
def test_the_probability_is_never_above_the_rate(rate, monkeypatch):
    """A word is taken when it is below floor(rate 2^64): that many words of 2^64, and not one more."""
    limit = int(Fraction(rate) * 2**64)
    words = np.array([0, limit - 1, limit, 2**64 - 1], dtype=np.uint64)

    class Fixed:
        def words(self, count):
            return words[:count]

    monkeypatch.setattr(poisson_draw, "current_source", Fixed)
    assert poisson_draw.bernoulli(4, rate).tolist() == [True, True, False, False]
    assert Fraction(limit, 2**64) <= Fraction(rate)


def test_a_rate_of_one_takes_everybody():
    assert poisson_draw.bernoulli(1000, 1.0).all()


def test_an_abandoned_batch_does_not_count():
    loader = PoissonLoader(LOADERS["tensors"](), max_physical_batch_size=2)
    with unsafe_seed(1):
        next(iter(loader))
        assert not loader.drawn.complete
        for _ in loader:
            pass
    assert loader.drawn.complete
    assert loader.drawn.batch == 5
