"""Recurrent layers: clipped sums are those of autograd, example by example, without a loop over examples.

The oracle is autograd on torch's own layers: every example's gradient by itself, clipped by the definition, added up.
"""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from inid.dpsgd.independence import Independence
from inid.testing import unsafe_no_noise
from internals import module_with
from training import (
    Picked,
    assert_close,
    assert_close_under_autocast,
    groups_of,
    private,
    row_squares,
    slow_sums,
    squares,
    sums,
    train_once,
)

fused_layers = module_with("inid.dpsgd.grad_sample", "ghost_grads")
layers_without_rule = module_with("inid.dpsgd.grad_sample", "run_without_sampler")
recurrent_layers = module_with("inid.dpsgd.grad_sample", "serves")

EXAMPLES, POSITIONS, WIDTH = 5, 6, 3


class Started(nn.Module):
    """States before the first position that follow from the example, and all that the layer gives back."""

    def __init__(self, layer):
        super().__init__()
        self.start, self.layer = nn.Linear(WIDTH, layer.proj_size or layer.hidden_size), layer

    def forward(self, x):
        count = self.layer.num_layers * (1 + self.layer.bidirectional)
        h = self.start(x[:, 0]).tanh().expand(count, -1, -1)
        states = (h, torch.cat([h, h], -1)[..., : self.layer.hidden_size]) if self.layer.mode == "LSTM" else h
        output, left = self.layer(x, states)
        left = left if isinstance(left, tuple) else (left,)
        return torch.cat([output.flatten(1), *(each.transpose(0, 1).flatten(1) for each in left)], 1)


class Ends(nn.Module):
    """Only what a layer remembers in the end; no state is handed over, in so many words."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x, None)[1][1].transpose(0, 1)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, x):
        return self.layer(self.layer(x)[0].sin())[0]


class Parts(nn.Module):
    """Every example is two sequences."""

    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(WIDTH, 4, batch_first=True)

    def forward(self, x):
        return self.layer(x.reshape(2 * len(x), POSITIONS // 2, WIDTH))[0].reshape(len(x), -1)


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.layer = nn.Linear(WIDTH, WIDTH), nn.LSTM(WIDTH, 4, batch_first=True, bidirectional=True)

    def forward(self, x):
        return checkpoint(lambda y: self.layer(self.first(y))[0], x, use_reentrant=False)


def partly_frozen():
    model = Picked(nn.LSTM(WIDTH, 4, 2, batch_first=True))
    model.layer.weight_hh_l0.requires_grad_(False)
    model.layer.bias_ih_l1.requires_grad_(False)
    return model


def kind(name, **options):
    return getattr(nn, name)(WIDTH, 4, batch_first=True, **options)


MODELS = {
    "lstm": lambda: Picked(kind("LSTM")),
    "lstm without bias": lambda: Picked(kind("LSTM", bias=False)),
    "deep lstm, both ways": lambda: Started(kind("LSTM", num_layers=3, bidirectional=True)),
    "lstm with projections": lambda: Started(kind("LSTM", proj_size=2, num_layers=2, bidirectional=True)),
    "lstm, its cells alone": lambda: Ends(kind("LSTM", num_layers=2)),
    "gru": lambda: Picked(kind("GRU", bias=False)),
    "deep gru, both ways": lambda: Started(kind("GRU", num_layers=2, bidirectional=True)),
    "rnn": lambda: Started(kind("RNN", num_layers=2, bidirectional=True)),
    "rnn with relu": lambda: Started(kind("RNN", num_layers=2, nonlinearity="relu")),
    "twice": Twice,
    "two sequences": Parts,
    "partly frozen": partly_frozen,
    "checkpointed": Checkpointed,
}


def built(name):
    torch.manual_seed(3)
    model = MODELS[name]().double()
    lengths = torch.logspace(-1, 1, EXAMPLES, dtype=torch.float64).view(-1, 1, 1)
    return model, torch.randn(EXAMPLES, POSITIONS, WIDTH, dtype=torch.float64) * lengths


@pytest.fixture(autouse=True)
def no_loop(monkeypatch):
    """A layer that is run example by example would pass every test here, slowly."""

    def refused(*_, **__):
        raise AssertionError("a recurrent layer was run example by example")

    monkeypatch.setattr(layers_without_rule, "run_with_parameters_per_example", refused)


@pytest.mark.parametrize("written", [True, False], ids=["rows", "no rows"])
@pytest.mark.parametrize("name", MODELS)
def test_sums_are_those_of_single_examples(name, written, monkeypatch):
    model, x = built(name)
    if not written:  # as for layers whose rows are long
        monkeypatch.setattr(fused_layers, "_pays", lambda *_, **__: True)
    groups = groups_of(model)
    thresholds = [0.5] * len(groups)
    wanted = slow_sums(model, x, thresholds, groups=groups)
    found = sums(model, x, max_grad_norm=thresholds)
    if written:
        assert_close(found, wanted, torch.float64)
    for key, sum_ in wanted.items():  # allowances for what cancels are far below a hundredth of a percent here
        assert float((found[key] - sum_).norm()) <= (1e-10 if written else 1e-4) * float(sum_.norm())


@pytest.mark.parametrize(
    "names",
    [("weight_ih_l1", "weight_ih_l0"), ("weight_ih_l0", "weight_hh_l0"), ("bias_hh_l1", "bias_ih_l0")],
    ids=str,
)
def test_a_weight_with_two_names_in_a_layer_gets_the_gradients_of_both(names, monkeypatch):
    """Such a layer is run example by example: by name, one of the two would be lost."""
    monkeypatch.undo()
    layer = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True).double()
    setattr(layer, names[0], getattr(layer, names[1]))
    model, x = Picked(layer), built("lstm")[1]
    groups = groups_of(model)
    thresholds = [0.5] * len(groups)
    wanted = slow_sums(model, x, thresholds, groups=groups)
    assert_close(sums(model, x, max_grad_norm=thresholds), wanted, torch.float64)


@pytest.mark.parametrize(
    "options",
    [
        {"clipping": "global"},
        {"clipping": "elementwise"},
        {"clipping": "per_layer", "total": 0.7},
        {"clipping": "global", "mechanism": "laplace"},
    ],
    ids=str,
)
@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_every_way_of_clipping(layer, options):
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Picked(kind(layer, num_layers=2)), nn.Linear(4, 2)).double()
    x = torch.randn(EXAMPLES, POSITIONS, WIDTH, dtype=torch.float64)
    groups = groups_of(model, options["clipping"])
    thresholds, norm = [0.5] * len(groups), 1 if "mechanism" in options else 2
    slow = {"norm": norm, "clipping": options["clipping"], "total": options.get("total")}
    wanted = slow_sums(model, x, thresholds, groups=groups, **slow)
    assert_close(sums(model, x, max_grad_norm=thresholds, **options), wanted, torch.float64)


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_dropout_between_layers_is_that_of_torch(layer):
    """The same seed drops the same numbers: the rows are those of autograd on torch's own layer, in one graph."""
    torch.manual_seed(5)
    model = Picked(kind(layer, num_layers=3, dropout=0.5, bidirectional=True)).double()
    with unsafe_no_noise():
        x = torch.randn(EXAMPLES, POSITIONS, WIDTH, dtype=torch.float64)
        training = private(model, x, clipping="global", max_grad_norm=0.5)
        (x,) = next(iter(training.data_loader))  # what is dropped goes by the place in the batch
        torch.manual_seed(6)
        training.backward(row_squares, training.module(x))
        training.optimizer.step()
    torch.manual_seed(6)
    parameters = dict(model.named_parameters())
    alone = [torch.autograd.grad(own, parameters.values(), retain_graph=True) for own in squares(model(x))]
    factors = [min(1, 0.5 / float(torch.cat([part.flatten() for part in one]).norm())) for one in alone]
    sums_ = [sum(map(torch.mul, own, torch.tensor(factors, dtype=own[0].dtype))) for own in zip(*alone, strict=True)]
    found = {name: p.grad for name, p in training.module.named_parameters()}
    assert_close(found, dict(zip(parameters, sums_, strict=True)), torch.float64)


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_an_example_moves_no_other(layer):
    """Whatever one example is, also not a number, the rows of the others are the same to the last bit."""
    torch.manual_seed(7)
    model = Started(kind(layer, num_layers=2, bidirectional=True))
    x = torch.randn(EXAMPLES, POSITIONS, WIDTH)
    found = []
    for odd in (0.0, 1e30, float("inf"), float("nan")):
        x[2, 3, 1] = odd
        seen = {}

        def collect(name, met, flowed, seen=seen):
            seen[name] = flowed if met is None else torch.cat([met, flowed], -1)

        start = model.start(x[:, 0]).tanh().expand(4, -1, -1)
        states = (start, start) if layer == "LSTM" else start
        output, _ = recurrent_layers.run_recurrent(model.layer, (x, states), {}, collect)
        output.square().sum().backward()
        found.append({name: torch.cat([own[:2], own[3:]]) for name, own in seen.items()})
    assert len(found[0]) == 16
    for other in found[1:]:
        assert all(torch.equal(found[0][name], own) for name, own in other.items())


@pytest.mark.parametrize("layer", ["LSTM", "GRU", "RNN"])
def test_half_precision_under_autocast(layer):
    torch.manual_seed(8)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), Picked(kind(layer, num_layers=2)))
    assert_close_under_autocast(model, torch.randn(EXAMPLES, POSITIONS, WIDTH))


class Louder(nn.GRU):
    def forward(self, x, hx=None):
        return super().forward(2 * x, hx)


class Replaced(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(WIDTH, 4, batch_first=True)
        plain = self.layer.forward
        self.layer.forward = lambda x: plain(2 * x)

    def forward(self, x):
        return self.layer(x)[0]


@pytest.mark.parametrize(
    "make", [lambda: Picked(Louder(WIDTH, 4, batch_first=True)), Replaced], ids=["subclass", "forward"]
)
def test_what_computes_something_else_is_left_to_the_loop(make, monkeypatch):
    monkeypatch.undo()
    torch.manual_seed(9)
    model = make().double()
    x = torch.randn(EXAMPLES, POSITIONS, WIDTH, dtype=torch.float64)
    wanted = slow_sums(model, x, [0.5], groups=groups_of(model))
    assert_close(sums(model, x, max_grad_norm=[0.5]), wanted, torch.float64)
    monkeypatch.setattr(layers_without_rule, "serves", lambda *_: True)  # the twin without the guard
    with pytest.raises(AssertionError):
        assert_close(sums(model, x, max_grad_norm=[0.5]), wanted, torch.float64)


def test_steps_do_not_count_as_changes_of_the_layer(monkeypatch):
    """Recurrent layers list their weights in an attribute: to check at every step would take several steps' time."""
    checks = []
    plan = Independence.plan
    monkeypatch.setattr(Independence, "plan", lambda *args, **kwargs: checks.append(1) or plan(*args, **kwargs))
    model = Picked(kind("LSTM"))
    training = private(model, torch.randn(8, POSITIONS, WIDTH), optimizer=None)
    training.optimizer.param_groups[0]["lr"] = 0.1
    for _ in range(9):
        train_once(training)
    assert len(checks) == 4  # forwards 1, 2, 4, 8
