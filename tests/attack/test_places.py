"""No example decides where others stand in the physical batches, nor, therefore, how kernels round their gradients.

On a CPU a row's last digits depend on its place. Where they decide (the edge of a ReLU) gradients are turned on or off:
in the order of the dataset, one example less moved a clipped sum by as many thresholds as there are such rows.
"""

import copy
from collections import Counter
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from draw_laws import RATE, placed, redrawn, with_surplus_dropped
from inid import dpsgd
from inid.dpsgd.sampling import StepPlaces, random_places
from inid.errors import ArgumentError, GuaranteeError
from inid.testing import unsafe_seed
from internals import module_with
from training import make_private

poisson_draw = module_with("inid.dpsgd.sampling", "StepPlaces")


def drawn_given_others(law, example):
    """For every way in which the others may stand, the probability that the example is drawn too."""
    both, drawn = Counter(), Counter()
    for standing, p in law.items():
        others = frozenset(pair for pair in standing if pair[0] != example)
        both[others] += p
        drawn[others] += p if others != standing else 0
    return {others: drawn[others] / p for others, p in both.items()}


@pytest.mark.parametrize("places", [1, 2, 3, 4])
def test_wherever_the_others_stand_an_example_is_drawn_at_the_rate_or_not_at_all(places):
    """The claim of `poisson_draw`, points 1 and 2, in rationals; the surplus dropped instead breaks it."""
    found = drawn_given_others(placed(redrawn(4, places), places), example=2)
    for others, probability in found.items():
        assert probability == (RATE if len(others) < places else 0)
    twin = drawn_given_others(placed(with_surplus_dropped(4, places), places), example=2)
    assert (max(twin.values()) > RATE) == (places < 4)


@pytest.mark.parametrize("places", [2, 3])
def test_twin_that_draws_from_as_many_positions_as_there_are_people(places):
    """Where the fourth of four positions is empty, the others stand as beside a fourth person; of three, otherwise."""
    beside = Counter()
    for standing, p in placed(redrawn(4, places), places).items():
        beside[frozenset(pair for pair in standing if pair[0] != 3)] += p
    alone = placed(redrawn(3, places), places)
    assert sum(abs(beside[each] - alone[each]) for each in beside | alone) > Fraction(1, 100)


@pytest.mark.parametrize("taken", [0, 2, 4])
def test_one_example_less_leaves_the_others_where_they_are(taken):
    """Uniform places of five, without one of them, are uniform places of four: the coupling of the attacks below."""
    ways = list(permutations(range(6), 5))
    found = Counter(way[:taken] + way[taken + 1 :] for way in ways)
    assert set(found) == set(permutations(range(6), 4))
    assert len(set(found.values())) == 1


def test_with_the_same_random_words_one_example_more_moves_nobody():
    for count in range(20):
        with unsafe_seed(count):
            fewer = random_places(count, 20)
        with unsafe_seed(count):
            more = random_places(count + 1, 20)
        assert more[:count].tolist() == fewer.tolist()
        assert len(set(more.tolist())) == count + 1


def test_places_are_uniform():
    """Of 3 examples at 5 places, every one of 60 ways; and every example of a draw at every place of 3 batches of 7."""
    with unsafe_seed(5):
        ways = Counter(tuple(random_places(3, 5).tolist()) for _ in range(12_000))
        held = np.stack([StepPlaces(40, 0.3, 7, 3).draw().ravel() for _ in range(4000)])
    assert len(ways) == 60
    assert stats.chisquare(list(ways.values())).pvalue > 1e-6
    for example in (0, 1, 20, 39):
        where = np.nonzero(held == example)[1]
        assert stats.chisquare(np.bincount(where, minlength=21)).pvalue > 1e-6


def test_equal_words_are_drawn_again(monkeypatch):
    words = iter([np.array([4, 1, 4], np.uint64), np.array([9, 1, 4], np.uint64)])
    monkeypatch.setattr(poisson_draw, "current_source", type("", (), {"words": lambda *_: next(words)}))
    assert random_places(2, 3).tolist() == [1, 2]


def test_draws_that_do_not_fit_are_made_again_and_not_for_ever(monkeypatch):
    sizes = iter([9, 5, 3])
    monkeypatch.setattr(poisson_draw, "bernoulli", lambda size, _: np.arange(size) < next(sizes))
    held = StepPlaces(10, 0.2, 4, 1).draw()
    assert sorted(held.ravel().tolist()) == [-1, 0, 1, 2]
    monkeypatch.setattr(poisson_draw, "bernoulli", lambda size, _: np.ones(size, dtype=bool))
    with pytest.raises(GuaranteeError, match="source of random"):
        StepPlaces(10, 0.2, 4, 1).draw()


@pytest.mark.parametrize(("positions", "rate"), [(60, 0.25), (1000, 0.1), (50_000, 0.02), (7, 0.9), (1000, 0.001)])
def test_most_draws_fit(positions, rate):
    for most in (None, 1, 3, 50, 100):
        fitted = StepPlaces.fitted(positions, rate, most)
        assert stats.binom.sf(fitted.places, positions, rate) < 0.2
        assert most is None or fitted.size <= most


# A batch made up for it: rows whose gradient is on at their place, and off one place before it.

SIZE, WIDTH, OUTPUTS = 64, 9, 8


class ByPlace(nn.Module):
    """Stands for a kernel that rounds by place, on machines whose own kernels do not: odd places come out higher."""

    def forward(self, x):
        odd = torch.arange(len(x)) % 2
        return x * (1 + odd[:, None] * 2.0**-16)


class Edge(nn.Module):
    """Subtracts a constant."""

    def __init__(self):
        super().__init__()
        self.register_buffer("at", torch.zeros(OUTPUTS))

    def forward(self, x):
        return x - self.at


def made_up(kernel, size):
    """A model and rows for it: `on` of them are, in order, at a place where one output is above the edge by a digit."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, OUTPUTS, bias=False), kernel, Edge(), nn.ReLU())
    row = torch.randn(WIDTH)
    with torch.no_grad():
        values = model[:2](row.repeat(size, 1))
        edges = torch.lerp(values.min(0).values, values.max(0).values, 0.25)
        above = values > edges
        output = int((above & ~above.roll(1, 0)).sum(0).argmax())
        model[2].at.fill_(1e6)
        model[2].at[output] = edges[output]
    x = torch.zeros(SIZE, WIDTH)
    places = [at for at in range(1, SIZE) if above[at % size, output] and not above[(at - 1) % size, output]]
    x[places] = row
    return model, x, len(places)


def clipped_sum(model, x, drawn, places, size, monkeypatch):
    """The clipped sum over some examples, each at its place."""
    monkeypatch.setattr(poisson_draw, "bernoulli", lambda *_: drawn)
    monkeypatch.setattr(poisson_draw, "random_places", lambda *_: places)
    own = copy.deepcopy(model)
    training = make_private(
        module=own,
        optimizer=torch.optim.SGD(own.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(x), batch_size=SIZE - 1),
        noise_multiplier=1.0,
        noise="exact",
        loss_reduction="sum",
        max_physical_batch_size=size,
    )
    for (rows,) in training.data_loader:
        training.backward(lambda row: 1e6 * row.sum(), own(rows))
        if training.data_loader.drawn.complete:
            break
        training.optimizer.step()
    return training.optimizer.step_state.sums.flat.clone()


@pytest.mark.parametrize("size", [SIZE, SIZE // 2])
@pytest.mark.parametrize("kernel", [ByPlace(), nn.Identity()], ids=["made up", "this machine's"])
def test_a_batch_on_the_edge_moves_by_one_threshold(kernel, size, monkeypatch):
    """In the order of the dataset it moves by one threshold for every row on the edge (31 of a made-up kernel)."""
    model, x, on = made_up(kernel, size)
    assert on >= 31 or isinstance(kernel, nn.Identity)
    all_of_them = np.arange(SIZE)
    first = all_of_them == 0
    in_order = clipped_sum(model, x, first | ~first, all_of_them, size, monkeypatch)
    shifted = clipped_sum(model, x, ~first, all_of_them[:-1], size, monkeypatch)
    assert float((in_order - shifted).norm()) >= on - 1  # the broken twin
    draw = np.random.default_rng(1)
    for taken in (0, 1, 2, 31, 32, 63):
        places, one = draw.permutation(SIZE), all_of_them == taken
        whole = clipped_sum(model, x, one | ~one, places, size, monkeypatch)
        others = clipped_sum(model, x, ~one, places[~one], size, monkeypatch)
        alone = clipped_sum(model, x, one, places[one], size, monkeypatch)
        assert float((whole - others).norm()) <= 1.0
        assert torch.equal(whole, others + alone)  # nobody else's gradient moves by a bit


def longest_first(samples):
    return torch.stack(sorted(samples, key=lambda sample: -float(sample[0])))


@pytest.mark.parametrize("left_out", [0, 3, 9])
def test_a_collate_function_that_sorts_moves_nobody(left_out, monkeypatch):
    """Rows take random places in whatever order they come: leave out the entry of the row that is not there."""
    lengths = torch.tensor([3.0, 9.0, 1.0, 7.0, 4.0, 8.0, 2.0, 6.0, 0.0, 5.0])
    places = np.random.default_rng(2).permutation(12)[:10]
    rank = int((lengths > lengths[left_out]).sum())
    found = []
    for out, given in ((None, places), (left_out, np.delete(places, rank))):
        drawn = np.arange(10) != out
        monkeypatch.setattr(poisson_draw, "bernoulli", lambda *_, drawn=drawn: drawn)
        monkeypatch.setattr(poisson_draw, "random_places", lambda *_, given=given: given)
        data = DataLoader(list(lengths[:, None]), batch_size=9, collate_fn=longest_first)
        loader = dpsgd.PoissonLoader(data, max_physical_batch_size=12, steps=1)
        (x,) = list(loader)
        found.append([float(row) if held else -1.0 for row, held in zip(x, loader.drawn.mask, strict=True)])
    assert found[1] == [-1.0 if row == lengths[left_out] else row for row in found[0]]


# A number of examples that is secret.


def stated(count, **options):
    model = nn.Linear(2, 1)
    return make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(torch.arange(float(count))[:, None].repeat(1, 2)), batch_size=20),
        noise_multiplier=1.0,
        neighbours="add_remove",
        sample_rate=0.4,
        steps=200,
        **options,
    )


def test_a_secret_number_of_examples_is_drawn_from_a_public_number_of_positions():
    """Empty positions are drawn and are padding: of 30 examples, as of 55, each is drawn at the rate."""
    for count in (30, 55):
        with unsafe_seed(4):
            loader = stated(count).data_loader
            found = Counter(int(row) for (x,) in loader for row in x[loader.drawn.mask][:, 0])
        assert set(found) == set(range(count))
        assert stats.binomtest(sum(found.values()), 200 * count, 0.4).pvalue > 1e-6
    assert loader.physical_batch_size == StepPlaces.fitted(55, 0.4).size


def test_more_examples_than_stated_are_refused():
    with pytest.raises(ArgumentError, match="up to 55 may be drawn from") as refused:
        stated(56)
    assert "56" not in str(refused.value)
