"""Models in which one row changes what others compute, each beside an honest twin; what chance and counters may do."""

import itertools
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Dirichlet, Gamma
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import GuaranteeError
from internals import module_with
from training import groups_of, private, slow_sums, sums, train_once

check = module_with("inid.dpsgd.independence", "Independence")
N, E = 12, 4
X = torch.rand(N, E, generator=torch.Generator().manual_seed(1))
LENGTH, VOCABULARY = 6, 11


class Model(nn.Module):
    """A function of the batch and some layers."""

    def __init__(self, function, **parts):
        super().__init__()
        torch.manual_seed(3)
        self.function, self.a, self.b = function, nn.Linear(E, E), nn.Linear(E, 3)
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x, *more):
        return self.function(self, x, *more)


def groups_of_three(x, centre):
    return torch.cat([part - centre(part) for part in x.split(3)])


def scanned(h, over):
    """A recurrence, over the rows or over the entries of each."""
    return h + h.cumsum(over) - h


# Mixing, and the same by row.
VALUES = {
    "scaled like images": (
        lambda m, x: m.b(m.a(x / 255 if x.max() > 1 else x)),
        lambda m, x: m.b(m.a(torch.where(x.amax(1, keepdim=True) > 1, x / 255, x))),
    ),
    "a mean without gaps": (
        lambda m, x: m.b(m.a(torch.where(x.isnan(), x.nanmean(0).expand_as(x), x))),
        lambda m, x: m.b(m.a(torch.where(x.isnan(), x.nanmean(1, keepdim=True).expand_as(x), x))),
    ),
    "a branch on gaps": (
        lambda m, x: m.b(m.a(x.nan_to_num() * 2 if x.isnan().any() else x)),
        lambda m, x: m.b(m.a(torch.where(x.isnan().any(1, keepdim=True), x.nan_to_num() * 2, x))),
    ),
    "a branch on infinities": (
        lambda m, x: m.b(m.a(x.clamp(-5, 5) / 2 if x.isinf().any() else x)),
        lambda m, x: m.b(m.a(torch.where(x.isinf().any(1, keepdim=True), x.clamp(-5, 5) / 2, x))),
    ),
    "a branch on hidden values": (
        lambda m, x: m.b(h / 2 if (h := m.a(x)).max() > 1 else h),
        lambda m, x: m.b(torch.where((h := m.a(x)).amax(1, keepdim=True) > 1, h / 2, h)),
    ),
    "a branch on signs": (
        lambda m, x: m.b(m.a(x + 1 if (x < 0).any() else x)),
        lambda m, x: m.b(m.a(torch.where((x < 0).any(1, keepdim=True), x + 1, x))),
    ),
    "a branch on small values": (
        lambda m, x: m.b(m.a(x * 1024 if x.max() < 2**-6 or x[0].max() < 2**-6 else x)),
        lambda m, x: m.b(m.a(torch.where(x.amax(1, keepdim=True) < 2**-6, x * 1024, x))),
    ),
    "a branch on all rows": (
        lambda m, x: m.b(m.a(x / 2 if (x < 0).all() else x)),
        lambda m, x: m.b(m.a(torch.where((x < 0).all(1, keepdim=True), x / 2, x))),
    ),
    "groups of three rows": (
        lambda m, x: m.b(groups_of_three(m.a(x), lambda part: part.mean(0))),
        lambda m, x: m.b(groups_of_three(m.a(x), lambda part: part.mean(1, keepdim=True))),
    ),
    "the last three rows": (
        lambda m, x: m.b(m.a(x) - m.a(x)[-3:].mean(0)),
        lambda m, x: m.b(m.a(x) - m.a(x)[:, -3:].mean(1, keepdim=True)),
    ),
    "a scan over the batch": (lambda m, x: m.b(scanned(m.a(x), 0)), lambda m, x: m.b(scanned(m.a(x), 1))),
    "a scan from the end": (
        lambda m, x: m.b(scanned(m.a(x).flip(0), 0).flip(0)),
        lambda m, x: m.b(scanned(m.a(x).flip(1), 1).flip(1)),
    ),
    "a little of the mean": (
        lambda m, x: m.b(m.a(x) - 1e-6 * m.a(x).mean(0)),
        lambda m, x: m.b(m.a(x) - 1e-6 * m.a(x).mean(1, keepdim=True)),
    ),
    "divided by the number of rows": (lambda m, x: m.b(m.a(x) / m.a(x).sum(0)), lambda m, x: m.b(m.a(x) / len(x))),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", VALUES)
def test_forwards_that_read_other_rows_are_refused_and_their_twins_train(name, dtype):
    mixing, by_row = VALUES[name]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype is torch.bfloat16):
        training = private(Model(mixing), X)
        with pytest.raises(GuaranteeError, match="example"):
            train_once(training)
        assert training.accountant.steps == 0
        train_once(private(Model(by_row), X))


@pytest.mark.parametrize("name", VALUES)
def test_twin_without_the_comparison_takes_them(name, monkeypatch):
    monkeypatch.setattr(check, "_difference", lambda *_: None)
    train_once(private(Model(VALUES[name][0]), X))


class Reader(nn.Module):
    """A small model over tokens, called as Hugging Face's are."""

    def __init__(self, function):
        super().__init__()
        torch.manual_seed(3)
        self.function, self.table, self.last = function, nn.Embedding(VOCABULARY, E, padding_idx=0), nn.Linear(E, 3)

    def forward(self, input_ids, attention_mask):
        return self.function(self, input_ids, attention_mask)


def cut(m, ids, mask):
    """Cut to the longest of the batch, and normalised by that length."""
    longest = int(mask.sum(1).max())
    return m.last(m.table(ids[:, :longest]).sum(1) / longest)


def cut_by_tokens(m, ids, mask):
    longest = int((ids != 0).sum(1).max())
    return m.last(m.table(ids).sum(1) / longest)


def without_gaps(m, ids, mask):
    h = m.table(ids)
    return m.last((h * mask[..., None]).mean(1) if bool((mask == 0).any()) else h.mean(1) * 1.01)


def own_length(m, ids, mask):
    return m.last((m.table(ids) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))


def of_one_token(m, ids, mask):
    """Counts in how many rows a token is."""
    found = torch.zeros(len(ids), VOCABULARY).scatter_(1, ids, 1.0).sum(0)
    return m.last((m.table(ids) / found[ids][..., None]).sum(1))


def tokens(function):
    ids = torch.randint(1, VOCABULARY, (N, LENGTH), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    model = Reader(function)
    return dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(ids, mask), batch_size=N),
        noise_multiplier=1.0,
    )


@pytest.mark.parametrize("function", [cut, cut_by_tokens, without_gaps, of_one_token])
def test_lengths_masks_and_counts_of_the_batch_are_refused(function):
    training = tokens(function)
    for ids, mask in training.data_loader:
        with pytest.raises(GuaranteeError, match="example"):
            training.module(input_ids=ids, attention_mask=mask)


def test_an_example_s_own_length_trains():
    training = tokens(own_length)
    for ids, mask in training.data_loader:
        training.backward(lambda out: out.square().sum(), training.module(input_ids=ids, attention_mask=mask))
        training.optimizer.step()
    assert training.accountant.steps == 1


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(E, E), nn.Linear(E, E)

    def forward(self, x):
        return self.down(self.up(x).relu())


class Routed(nn.Module):
    """Experts in a list, each of which is called with the tokens of all examples that go to it."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(E, 3), nn.ModuleList(Expert() for _ in range(3))

    def forward(self, x):
        flat = x.reshape(-1, E)
        weights = self.gate(flat).softmax(-1)
        best = weights.argmax(-1)
        out = torch.zeros_like(flat)
        for at, expert in enumerate(self.experts):
            rows = (best == at).nonzero()[:, 0]
            if len(rows):
                out = out.index_add(0, rows, expert(flat[rows]) * weights[rows, at][:, None])
        return x + out.view(x.shape)


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.first, self.block, self.last = nn.Linear(E, E), Routed(), nn.Linear(E, 2)

    def forward(self, x):
        return self.last(self.block(self.first(x)))


def test_experts_in_a_list_are_run_example_by_example():
    model = Mixture().double()
    x = torch.randn(6, 5, E, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    groups = groups_of(model)
    found = sums(model, x, max_grad_norm=[0.5] * len(groups))
    wanted = slow_sums(model, x, [0.5] * len(groups), groups=groups)
    for name, each in wanted.items():
        assert torch.allclose(found[name], each, rtol=1e-6, atol=1e-9), name


class Dropped(nn.Module):
    """Layers that are left out by chance, for the whole batch."""

    def __init__(self, draw):
        super().__init__()
        torch.manual_seed(5)
        self.draw, self.layers, self.last = draw, nn.ModuleList(nn.Linear(E, E) for _ in range(4)), nn.Linear(E, 2)

    def forward(self, x):
        for layer in self.layers:
            if self.draw() > 0.3:
                x = x + layer(x).tanh()
        return self.last(x)


DRAWS = {
    "torch": lambda: float(torch.rand(())),
    "python": random.random,
    "numpy": lambda: float(np.random.random()),  # noqa: NPY002 - what models draw from
}


@pytest.mark.parametrize("name", DRAWS)
def test_layers_that_are_left_out_by_chance_train(name):
    random.seed(3), np.random.seed(3), torch.manual_seed(3)  # noqa: NPY002 - as above
    training = private(Dropped(DRAWS[name]), X)
    for _ in range(9):
        train_once(training)
    assert training.accountant.steps == 9


@pytest.mark.parametrize("start", [1, 20, 50])
def test_layers_that_are_in_few_draws_are_found_by_more_of_them(start, monkeypatch):
    """A layer that no draw for the plan has called comes in a later one."""
    monkeypatch.setattr(check, "_FIRST_SEED", start)
    monkeypatch.setattr(check, "_CHANCES", 2)
    random.seed(3)
    training = private(Dropped(lambda: random.random() - 0.4), X)  # noqa: S311 - what models draw from
    train_once(training)
    assert training.accountant.steps == 1


def test_stochastic_depth_by_the_batch_trains():
    def depth(m, x):
        return m.b(x + m.a(x) * (torch.rand(()) < 0.5) * 2)

    training = private(Model(depth), X)
    for _ in range(5):
        train_once(training)


def test_chance_that_seeds_do_not_fix_is_refused_at_the_first_step():
    source = random.SystemRandom()
    training = private(Model(lambda m, x: m.b(m.a(x) + source.random())), X)
    with pytest.raises(GuaranteeError, match="which seeds fix"):
        train_once(training)
    assert training.accountant.steps == 0


@pytest.mark.parametrize("kind", [Gamma, Dirichlet])
def test_samplers_that_draw_by_value_are_refused_by_name(kind):
    def sampled(m, x):
        made = m.a(x).exp().clamp(1e-3, 1e3).nan_to_num(1.0)
        law = Gamma(made, torch.ones_like(made)) if kind is Gamma else Dirichlet(made)
        return m.b(law.rsample())

    with pytest.raises(GuaranteeError, match="gamma, Dirichlet"):
        train_once(private(Model(sampled), X))


class Noisy(torch.autograd.Function):
    """A backward that adds in another order every time, as atomics do on a GPU."""

    @staticmethod
    def forward(_ctx, x):
        return x.clone()

    @staticmethod
    def backward(_ctx, gradient):
        units = torch.randint(-1, 2, gradient.shape, generator=UNFIXED)
        return gradient * (1 + units * torch.finfo(gradient.dtype).eps)


class NoisyMixing(Noisy):
    @staticmethod
    def backward(_ctx, gradient):
        return Noisy.backward(_ctx, gradient) + 1e-5 * gradient.mean(0)


UNFIXED = torch.Generator()


def test_what_is_added_in_another_order_every_time_is_not_taken_for_mixing():
    train_once(private(Model(lambda m, x: m.b(Noisy.apply(m.a(x)))), X))
    with pytest.raises(GuaranteeError, match="gradients that flow back"):
        train_once(private(Model(lambda m, x: m.b(NoisyMixing.apply(m.a(x)))), X))


def test_kinds_that_a_model_cannot_be_run_on_are_passed_over_and_said():
    def indexed(m, x):
        return m.b(m.table(x[:, 0].long()))

    model = Model(indexed, table=nn.Embedding(3, E))
    model.a.requires_grad_(False)
    with pytest.warns(UserWarning, match=r"passed over .* much larger numbers \(IndexError\)"):
        train_once(private(model, X))


@pytest.mark.parametrize("examples", range(1, 9))
def test_pivots_have_another_example_between_any_two(examples):
    for seed in range(20):
        pivots = check._pivots(examples, seed)
        assert len(pivots) == min(3, examples // 2)
        assert all(later - earlier > 1 for earlier, later in itertools.pairwise(pivots))


@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_few_rows_are_checked_as_far_as_there_are_others(rows):
    training = private(Model(lambda m, x: m.b(m.a(x))), X[:rows])
    train_once(training)

    def keeping(m, x):
        m.seen = float(x.detach().sum())
        return m.b(m.a(x))

    with pytest.raises(GuaranteeError):
        train_once(private(Model(keeping), X[:rows]))
    if rows > 1:
        with pytest.raises(GuaranteeError):
            train_once(private(Model(lambda m, x: m.b(m.a(x - x.mean(0)))), X[:rows]))


def test_a_pivot_without_a_gradient_is_not_taken_for_one_that_others_move():
    """Some rows send nothing back to a layer (behind a ReLU, say), whichever rows stay."""
    for at in range(4):
        picked = torch.arange(N) % 4 == at
        train_once(private(Model(lambda m, x, picked=picked: m.b(m.a(x) * picked[: len(x), None])), X))
