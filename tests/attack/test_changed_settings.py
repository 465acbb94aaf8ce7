"""A model that somebody changes between two forwards is checked again; long gradients are checked, too."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations

from inid.errors import GuaranteeError
from training import private, sums, train_once

X = torch.randn(8, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def mixed(x):
    return x - x.mean(0)


class Switched(nn.Module):
    """Mixes examples once one of its settings says so."""

    def __init__(self):
        super().__init__()
        self.layer, self.last, self.part = nn.Linear(6, 4).double(), nn.Linear(4, 2).double(), nn.Identity()
        self.number, self.real, self.nothing, self.calls = 0, 0.0, None, 0

    def mixes(self):
        return any((self.number, self.real, self.nothing, hasattr(self, "late")))

    def forward(self, x):
        self.calls += 1
        self.kept = self.part(self.layer(mixed(x) if self.mixes() else x))
        return self.last(self.kept)


def another_part(model):
    model.part = Mixing()


class Mixing(nn.Module):
    def forward(self, x):
        return mixed(x)


CHANGES = {
    "int": lambda m: setattr(m, "number", 1),
    "float": lambda m: setattr(m, "real", 0.5),
    "None": lambda m: setattr(m, "nothing", "mix"),
    "new attribute": lambda m: setattr(m, "late", 1),
    "another part": another_part,
    "mode of a part": lambda m: (m.part.eval(), setattr(m, "number", 2)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_that_switches_mixing_on_is_seen_at_the_next_forward(name):
    model = Switched()
    training = private(model, X)
    for _ in range(5):  # the next look without a change would be at the eighth forward
        train_once(training)
    CHANGES[name](training.module)
    with pytest.raises(GuaranteeError, match="example"):
        train_once(training)
    assert training.accountant.steps == 5


def looks(training, steps, change=lambda model, step: None):
    seen = []
    checks = training.optimizer.gradients._check
    inside = checks.plan
    checks.plan = lambda *args, **kwargs: seen.append(args) or inside(*args, **kwargs)
    for step in range(steps):
        change(training.module, step)
        before = len(seen)
        train_once(training)
        yield len(seen) > before


def test_what_a_forward_changes_itself_costs_no_look():
    """A counter and tensors that are kept change in every forward: looks are at forwards 1, 2, 4, 8, as ever."""
    assert list(looks(private(Switched(), X), 9)) == [True, True, False, True, False, False, False, True, False]


def test_buffers_of_spectral_normalisation_cost_no_look():
    """They follow the weight in every forward; a look at each is a few steps' time, and 16 are a warning."""
    for seed in range(12):  # far from their end, where every run of a look would move them
        torch.manual_seed(seed)
        norm = parametrizations.spectral_norm(nn.Linear(6, 4).double())
        training = private(nn.Sequential(norm, nn.Linear(4, 2).double()), X)
        assert list(looks(training, 9)) == [True, True, False, True, False, False, False, True, False]


class _SpectralNorm(nn.Module):
    """Has the name of torch's, and keeps what it saw."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(6, 2).double()
        self.register_buffer("seen", torch.zeros(6, dtype=torch.float64))

    def forward(self, x):
        self.seen.copy_(x.detach().sum(0))
        return self.last(x)


def test_only_torchs_own_spectral_normalisation_may_change_its_buffers():
    with pytest.raises(GuaranteeError, match="leaves something behind"):
        train_once(private(_SpectralNorm(), X))
    kept = nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 4).double()), nn.Linear(4, 2).double())

    def keep(model, args, _made):
        model[0].parametrizations.weight[0]._u.copy_(args[0].detach().sum(0)[:4])

    kept.register_forward_hook(keep)
    with pytest.raises(GuaranteeError, match="leaves something behind"):
        train_once(private(kept, X))
    mixing = nn.Sequential(parametrizations.spectral_norm(nn.Linear(6, 4).double()), Centred())
    with pytest.raises(GuaranteeError, match="example"):
        train_once(private(mixing, X))


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2).double()

    def forward(self, x):
        return self.last(x - x.mean(0))


def test_an_attribute_that_changes_all_the_time_is_looked_at_and_warned_of():
    def annealed(model, step):
        model.temperature = 1 / (1 + step)

    with pytest.warns(UserWarning, match="pass what changes as a tensor"):
        assert all(looks(private(Switched(), X), 17, annealed))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(looks(private(Switched(), X), 3, annealed))


class Hooked(nn.Module):
    """A hook that holds the gradient's norm over the batch to a limit."""

    def __init__(self, limit):
        super().__init__()
        self.first, self.last, self.limit = nn.Linear(6, 4).double(), nn.Linear(4, 2).double(), limit

    def forward(self, x):
        made = self.first(x) * 1
        made.register_hook(lambda g: g * min(1.0, self.limit / float(g.norm() + 1e-12)))
        return self.last(made)


@pytest.mark.parametrize("limit", [1e-3, 1.0, 10.0, 1e3, 1e5])
def test_a_hook_on_the_norm_over_the_batch_is_seen_whatever_its_limit(limit):
    with pytest.raises(GuaranteeError, match="gradients that flow back"):
        sums(Hooked(limit), X)


class Selecting(nn.Module):
    """A head over the positions that a mask selects, put back afterwards."""

    def __init__(self, select):
        super().__init__()
        self.layer, self.head, self.select = nn.Linear(3, 4).double(), nn.Linear(4, 2).double(), select

    def forward(self, x):
        return self.select(self, self.layer(x), x[..., 0] > 0)


def put(m, h, mask):
    return torch.zeros(*h.shape[:2], 2, dtype=h.dtype).masked_scatter(mask[..., None], m.head(h[mask]))


def by_nonzero(m, h, mask):
    rows, places = mask.nonzero(as_tuple=True)
    made = torch.zeros(*h.shape[:2], 2, dtype=h.dtype)
    made[rows, places] = m.head(h[rows, places])
    return made


def by_lengths(m, h, mask):
    lengths = mask.sum(1).tolist()
    made = m.head(torch.cat([one[:length] for one, length in zip(h, lengths, strict=True)]))
    return torch.stack([part.sum(0) for part in made.split(lengths)])


SELECTING = {
    "a mask": put,
    "nonzero": by_nonzero,
    "masked_select": lambda m, h, mask: m.head(h.masked_select(mask[..., None]).view(len(h), -1, 4)),
    "where": lambda m, h, mask: m.head(h[torch.where(mask)]).view(len(h), -1, 2),
    "a mask of flat positions": lambda m, h, mask: m.head(h.flatten(0, 1)[mask.flatten()]).view(len(h), -1, 2),
    "lengths as numbers": by_lengths,
}


def masked(counts):
    """Examples with so many positions above 0."""
    x = torch.rand(len(counts), 4, 3, dtype=torch.float64) + 0.1
    for row, count in zip(x, counts, strict=True):
        row[count:, 0] = -1
    return x


@pytest.mark.parametrize("name", SELECTING)
def test_rows_that_are_selected_by_values_are_refused_even_if_the_given_examples_have_equally_many(name):
    """Two positions in each given example, and one and three in rows: the sums hold another's gradient."""
    with pytest.raises(GuaranteeError, match="entries that a mask selects"):
        sums(Selecting(SELECTING[name]), masked([1, 3, 2, 2]), example=masked([2, 2, 2]))


@pytest.mark.parametrize(
    "select",
    [
        lambda m, h, mask: m.head(h * mask[..., None]),
        lambda m, h, mask: m.head(h[:, torch.tensor([True, False, True, True])]),  # public, the same for all
        lambda m, h, mask: m.head(h[:, torch.ones(4, 4).tril().nonzero()[:, 1]]),
        lambda m, h, mask: m.head(h[torch.arange(len(h)), mask.long().argmax(1)]),
        lambda m, h, mask: m.head(torch.where(mask[..., None], h, h * 0)),
    ],
)
def test_masks_that_multiply_and_public_indices_are_fine(select):
    sums(Selecting(select), masked([1, 3, 2, 2]), example=masked([2, 2, 2]))


class Wrapped(nn.Module):
    """The same inside a module of its own, which is run example by example."""

    def __init__(self, select):
        super().__init__()
        self.inner, self.last = Selecting(select), nn.Linear(2, 2).double()

    def forward(self, x):
        return self.last(self.inner(x))


def test_a_module_of_its_own_is_run_example_by_example():
    model, x = Wrapped(put), masked([1, 3, 2, 2])
    found = sums(model, x, example=masked([2, 2, 2]), clipping="global", max_grad_norm=1e6)
    (model(x).flatten(1).square().sum() / 2).backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(found[name], parameter.grad, rtol=1e-8, atol=1e-10), name
