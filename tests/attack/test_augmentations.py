"""Several views of an example are one example: averaged, clipped once, never more than its threshold."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from inid.errors import ArgumentError, GuaranteeError
from inid.testing import unsafe_no_noise
from internals import module_with
from training import assert_close, by_row, groups_of, make_private

poisson_draw = module_with("inid.dpsgd.sampling", "StepPlaces")
poisson_loader = module_with("inid.dpsgd.sampling", "PoissonLoader")

VIEWS, COUNT = 3, 5


class Views(Dataset):
    """Every look at an example is another of three views of it; `looks` says how many were given."""

    def __init__(self, size=6, count=COUNT, factor=1.0):
        draw = torch.Generator().manual_seed(1)
        self.stored = factor * torch.randn(count, 50, size, generator=draw, dtype=torch.float64)
        self.looks = dict.fromkeys(range(count), 0)

    def __len__(self):
        return len(self.stored)

    def __getitem__(self, at):
        self.looks[at] += 1
        return self.stored[at, (self.looks[at] - 1) % VIEWS]


class PositionGrads(nn.Module):
    """Linear layers over positions, a table of positions and a normalisation."""

    def __init__(self):
        super().__init__()
        self.first, self.table, self.norm = nn.Linear(2, 4), nn.Embedding(3, 4), nn.LayerNorm(4)
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.norm(self.first(x.view(len(x), 3, 2)) + self.table(torch.arange(3)))).tanh()


class Own(nn.Module):
    """A parameter of its own and an output that is the same for all rows: run example by example.

    With a shape of (1, 6) the parameter has a row for each, and its layers are run by themselves.
    """

    def __init__(self, *shape):
        super().__init__()
        self.start, self.layer = nn.Parameter(torch.randn(shape)), nn.GRU(2, 3, batch_first=True)
        self.last = Offset()

    def forward(self, x):
        return self.layer((x + self.start).view(len(x), 3, 2))[0] + self.last(x)


class Offset(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.randn(1, 3, 3))

    def forward(self, _x):
        return self.value.tanh().expand(1, 3, 3)


class TiedGrads(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)

    def forward(self, x):
        return functional.linear(self.table((x.abs() * 3).long() % 5).tanh(), self.table.weight)


MODELS = {
    "linear": lambda: nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2)),
    "positions": PositionGrads,
    "convolution": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 3)), nn.Conv1d(2, 4, 2), nn.GroupNorm(2, 4), nn.Tanh(), nn.Flatten(), nn.Linear(8, 2)
    ),
    "own": lambda: nn.Sequential(Own(6), nn.Flatten(), nn.Linear(9, 2)),
    "beside layers": lambda: nn.Sequential(Own(1, 6), nn.Flatten(), nn.Linear(9, 2)),
    "tied": TiedGrads,
}


def losses(output):
    return output.flatten(1).square().sum(1) / 2


def private(model, data, **options):
    options = {"noise_multiplier": 1.0, "augmentations": VIEWS, "max_grad_norm": 0.5} | options
    return make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(data, batch_size=len(data)),
        **options,
    )


def sums(model, data, *, mean=True, **options):
    """The clipped sums of one step over all examples."""
    own = copy.deepcopy(model)
    with unsafe_no_noise():
        training = private(own, data, loss_reduction="mean" if mean else "sum", **options)
        for batch in training.data_loader:
            training.backward(by_row(losses), own(batch[0] if isinstance(batch, list) else batch))
            training.optimizer.step()
    factor = len(data) if mean else 1  # means are divided by the expected number of examples
    return {name: factor * p.grad for name, p in own.named_parameters()}


def slow_sums(model, stored, *, threshold, clipping):
    """By the definition: the mean of the views' gradients, clipped by groups, one example after another."""
    names = [name for name, _ in model.named_parameters()]
    groups = groups_of(model, clipping)
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for views in stored:
        found = torch.autograd.grad(losses(model(views)).mean(), list(model.parameters()))
        one = dict(zip(names, found, strict=True))
        for group in groups:
            length = torch.cat([one[name].flatten() for name in group]).norm()
            for name in group:
                total[name] += one[name] * min(1.0, threshold / len(groups) ** 0.5 / float(length))
    return total


@pytest.mark.parametrize("clipping", ["global", "per_layer"])
@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_the_sums_are_those_of_averaged_views(name, mean, clipping):
    torch.manual_seed(2)
    model, data = MODELS[name]().double(), Views()
    found = sums(model, data, mean=mean, clipping=clipping)
    assert list(data.looks.values()) == [VIEWS + 1] + [VIEWS] * (COUNT - 1)  # the first once more, for its form
    wanted = slow_sums(model, data.stored[:, :VIEWS], threshold=0.5, clipping=clipping)
    assert_close(found, wanted, torch.float32)


def test_physical_batches_hold_whole_examples():
    model, data = MODELS["linear"]().double(), Views()
    whole = sums(model, data, clipping="global")
    data = Views()
    parts = sums(model, data, clipping="global", max_physical_batch_size=2 * VIEWS)  # three, with padding
    assert list(data.looks.values())[1:-1] == [VIEWS] * (COUNT - 2)
    assert_close(parts, whole, torch.float64)
    with pytest.raises(ArgumentError, match="must be a multiple of augmentations=3, got 7"):
        sums(model, Views(), max_physical_batch_size=7)


def test_an_example_more_moves_the_sum_by_at_most_its_threshold(monkeypatch):
    """Everybody, and everybody but one, in physical batches of the same size."""
    torch.manual_seed(3)
    model = MODELS["positions"]().double()
    options = {"mean": False, "clipping": "global", "max_physical_batch_size": 2 * VIEWS}
    whole = sums(model, Views(factor=30.0), **options)
    for left_out in range(COUNT):
        drawn = np.arange(COUNT) != left_out
        monkeypatch.setattr(poisson_draw, "bernoulli", lambda size, rate, drawn=drawn: drawn)
        rest = sums(model, Views(factor=30.0), **options)
        assert 0.3 < float(torch.cat([(whole[name] - rest[name]).flatten() for name in whole]).norm()) <= 0.5


@pytest.mark.parametrize("noise", ["torch", "exact"])
@pytest.mark.parametrize("clipping", ["global", "per_layer", "elementwise"])
def test_no_example_counts_more_than_once_whatever_its_views(clipping, noise, monkeypatch):
    """One example alone, with views as long as you like, adds at most its threshold; views clipped apart add three."""

    def alone():
        return Views(count=1, factor=1e3)

    torch.manual_seed(3)
    model = MODELS["linear"]().double()

    def length():
        found = sums(model, alone(), mean=False, clipping=clipping, noise=noise)
        return float(torch.cat([each.flatten() for each in found.values()]).norm()) / 0.5

    # Exact noise that is left out still ends on its grid: half a step, 2^-14 here, in every entry.
    entries = sum(parameter.numel() for parameter in model.parameters())
    assert 0.2 < length() <= 1 + (noise == "exact") * 2.0**-14 * entries**0.5 / 0.5
    # The broken twin: every view is taken for an example of its own.
    monkeypatch.setattr(poisson_loader.BatchState, "views_of", lambda self, rows: 1)
    admit = poisson_loader.BatchState.admit
    monkeypatch.setattr(
        poisson_loader.BatchState,
        "admit",
        lambda self, rows, begun: admit(self, rows, begun=begun).repeat_interleave(VIEWS),
    )
    assert length() > 1.2


class Shifted(nn.Module):
    """Makes views of the repeated rows of a TensorDataset."""

    def __init__(self, model, shift):
        super().__init__()
        self.model, self.shift = model, shift

    def forward(self, rows):
        return self.model(rows + self.shift.repeat(len(rows) // VIEWS, 1))


def test_rows_changed_in_the_module_are_views_too():
    torch.manual_seed(4)
    model, x = MODELS["linear"]().double(), torch.randn(COUNT, 6, dtype=torch.float64)
    shift = torch.randn(VIEWS, 6, dtype=torch.float64)
    found = sums(Shifted(model, shift), TensorDataset(x), clipping="global")
    found = {name.removeprefix("model."): each for name, each in found.items()}
    stored = x[:, None] + shift
    assert_close(found, slow_sums(model, stored, threshold=0.5, clipping="global"), torch.float32)


def test_padding_and_masks_count_views():
    training = private(MODELS["linear"]().double(), Views(), max_physical_batch_size=8 * VIEWS)
    (batch,) = [batch for batch, _ in zip(training.data_loader, [0], strict=False)]
    drawn = training.data_loader.drawn
    assert len(batch) == drawn.rows == 8 * VIEWS
    assert drawn.examples == COUNT
    assert drawn.mask.tolist() == np.repeat(drawn.placed.tolist(), VIEWS).tolist()
    stored = training.data_loader.dataset.stored
    for row, held in zip(batch.view(8, VIEWS, 6), drawn.placed.tolist(), strict=True):
        found = (stored[:, :VIEWS] == row).flatten(1).all(1)
        assert bool(found.any()) == held
        assert held or bool((row == batch[drawn.mask][0]).all())
    with pytest.raises(GuaranteeError, match="not one of the drawn batch"):
        training.backward(by_row(losses), training.module(batch[:6]))


def test_views_cannot_be_brought_into_another_order():
    def by_length(samples):
        return torch.stack(sorted(samples, key=lambda x: float(x.norm())))

    model = MODELS["linear"]().double()
    loader = DataLoader(Views(), batch_size=COUNT, collate_fn=by_length)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with pytest.raises(ArgumentError, match="leave collate_fn out"):
        make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, augmentations=2)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "3"])
def test_the_number_of_views_is_checked(wrong):
    with pytest.raises(ArgumentError, match="augmentations"):
        private(MODELS["linear"]().double(), Views(), augmentations=wrong)
