"""People with several examples are drawn, averaged and clipped as one: the sums of a slow loop over people."""

from collections import Counter

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from inid import dpsgd
from inid.errors import ArgumentError
from inid.testing import unsafe_no_noise
from training import make_private, row_squares, squares

PEOPLE = ["ann", "bob", "ann", "cleo", "dan", "cleo", "ann", "ann", "eve", "eve", "fay", "fay"]
DRAW = torch.Generator().manual_seed(5)
X = torch.randn(12, 3, generator=DRAW) * torch.logspace(-1, 1, 12)[:, None]
CLIP = 0.5


class Rows(Dataset):
    """The same examples from a dataset that is no table of tensors."""

    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, at):
        return (self.x[at],)


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def step_sum(x, people, *, rows=4, own=TensorDataset, batch_size=None, **options):
    """The sum of a step that draws everybody."""
    model = net()
    sampling = dpsgd.Sampling(unit=people, examples_per_unit=rows, **options)
    with unsafe_no_noise():
        training = make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
            data_loader=DataLoader(own(x), batch_size=batch_size or len(set(people))),
            noise_multiplier=1.0,
            max_grad_norm=CLIP,
            loss_reduction="sum",
            sampling=sampling,
        )
        for (drawn,) in training.data_loader:
            training.optimizer.zero_grad()
            training.backward(row_squares, training.module(drawn))
            training.optimizer.step()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def slow_sum(x, people):
    model, total = net(), 0.0
    for person in sorted(set(people)):
        mine = x[[at for at, owner in enumerate(people) if owner == person]]
        made = torch.autograd.grad(squares(model(mine)).mean(), list(model.parameters()))
        whole = torch.cat([each.flatten() for each in made])
        total = total + whole * min(1.0, CLIP / float(whole.norm()))
    return total


@pytest.mark.parametrize("options", [{}, {"own": Rows}, {"max_physical_batch_size": 8}, {"own": Rows, "rows": 8}])
def test_the_gradients_of_a_person_are_averaged_and_clipped_once(options):
    wanted = slow_sum(X, PEOPLE)  # 1, 2 or 4 examples each: as often among 4 or 8 rows
    assert torch.allclose(step_sum(X, PEOPLE, **options), wanted, rtol=1e-4, atol=1e-5)
    alone = slow_sum(X, list(range(len(X))))
    assert float((alone - wanted).norm()) > 0.1 * float(wanted.norm())


def test_a_person_moves_the_sum_by_a_threshold_at_most_however_many_examples_they_have():
    for gone in sorted(set(PEOPLE)):
        left = [at for at, owner in enumerate(PEOPLE) if owner != gone]
        moved = step_sum(X, PEOPLE) - step_sum(X[left], [PEOPLE[at] for at in left])
        assert float(moved.norm()) <= CLIP * (1 + 1e-4)
    left = [at for at, owner in enumerate(PEOPLE) if owner != "ann"]
    every = list(range(len(X)))
    apart = step_sum(X, every, rows=1) - step_sum(X[left], every[: len(left)], rows=1)
    assert float(apart.norm()) > CLIP * 1.2  # examples of their own are another promise


def test_of_more_examples_than_rows_a_random_choice_is_taken_each_time():
    numbers = torch.arange(12.0)[:, None]
    model = nn.Linear(1, 1)
    training = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(numbers), batch_size=6),
        noise_multiplier=1.0,
        steps=150,
        sampling=dpsgd.Sampling(unit=PEOPLE, examples_per_unit=2),
    )
    assert (training.data_loader.sample_rate, training.data_loader.units) == (1.0, 6)
    seen = Counter()
    for (drawn,) in training.data_loader:
        training.optimizer.zero_grad()
        pairs = drawn.view(-1, 2).long().tolist()
        owners = [[PEOPLE[at] for at in pair] for pair in pairs]
        assert sorted(owner for owner, _ in owners) == sorted(set(PEOPLE))
        assert all(one == other for one, other in owners)
        assert all(len({*pair}) == 2 or PEOPLE.count(PEOPLE[pair[0]]) == 1 for pair in pairs)
        seen.update(at for pair in pairs for at in pair)
        training.backward(row_squares, training.module(drawn))
        training.optimizer.step()
    for at, owner in enumerate(PEOPLE):
        if owner == "ann":  # two of four, 150 times: 75 on average, and 7 standard deviations
            assert 32 <= seen[at] <= 118
        else:
            assert seen[at] == (300 if PEOPLE.count(owner) == 1 else 150)


def test_rate_summary_and_record_are_about_people():
    model = net()
    training = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(X), batch_size=3),
        noise_multiplier=1.0,
        sampling=dpsgd.Sampling(unit=PEOPLE, examples_per_unit=4),
    )
    assert training.data_loader.sample_rate == 0.5
    assert "for each person" in training.summary()
    assert "3 people expected" in training.summary()
    assert "all examples of a person count as one" in training.summary()


@pytest.mark.parametrize(
    ("unit", "rows", "message"),
    [
        (PEOPLE[:-1], 2, r"shape \(11,\) for 12 examples"),
        ([float(at) for at in range(12)], 2, "whole numbers or texts, got float64"),
        ([*PEOPLE[:-1], None], 2, "whole numbers or texts, got object"),
        ([[1]] * 12, 2, "unit must name whose"),
        (PEOPLE, None, "go together"),
        (None, 2, "go together"),
        (PEOPLE, 0, "examples_per_unit must be"),
    ],
)
def test_what_names_nobody_is_refused(unit, rows, message):
    model = net()
    with pytest.raises(ArgumentError, match=message):
        dpsgd.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(TensorDataset(X), batch_size=3),
            noise_multiplier=1.0,
            sampling=dpsgd.Sampling(unit=unit, examples_per_unit=rows),
        )


def test_options_that_do_not_go_with_people_are_refused():
    with pytest.raises(ArgumentError, match="augmentations do not go with unit"):
        dpsgd.Sampling(unit=PEOPLE, examples_per_unit=2, augmentations=2)
    with pytest.raises(ArgumentError, match="multiple of examples_per_unit=4"):
        step_sum(X, PEOPLE, max_physical_batch_size=6)
    with pytest.raises(ArgumentError, match="at least one batch, got 6 people"):
        step_sum(X, PEOPLE, batch_size=7)
