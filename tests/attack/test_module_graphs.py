"""Whatever graph its layers are called in, an example adds its gradient clipped once, or the model is refused.

Every graph is compared with a loop over examples, with gradients written down and, where there are positions, without.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.checkpoint import checkpoint

from inid.errors import GuaranteeError
from internals import module_with
from training import groups_of, private, slow_sums, sums, train_once

fused_layers = module_with("inid.dpsgd.grad_sample", "ghost_grads")

N, T, E = 5, 3, 4
X = torch.randn(N, T, E, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
X[2] *= 50  # one example far longer than the others


class Graph(nn.Module):
    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)
        self.double()

    def forward(self, x):
        return self.function(self, x)


class Own(nn.Module):
    """A layer with parameters of its own, one of which may be another layer's."""

    def __init__(self, weight=None):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(E, E)) if weight is None else weight
        self.bias = nn.Parameter(torch.randn(E))

    def forward(self, x):
        return torch.tanh(x @ self.weight.T + self.bias)


class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.ParameterList([nn.Parameter(torch.randn(E)) for _ in range(2)])
        self.named = nn.ParameterDict({"shift": nn.Parameter(torch.randn(E))})

    def forward(self, x):
        return x * self.rows[0] + self.rows[1] * self.named["shift"]


def lin():
    return nn.Linear(E, E)


def tied():
    layer = lin()
    return {"a": layer, "b": nn.Sequential(Own(layer.weight)), "c": lin()}


def frozen_weight():
    layer = lin()
    layer.weight.requires_grad_(False)
    return {"a": layer, "b": lin()}


def through_views(m, x):
    y = m.a(x)
    y[:, 0] = 0
    y.view(-1, E)[:, 1].mul_(2)
    y.view(len(x), -1)[:, :2] *= 3
    return m.b(y)


def loop(m, x):
    for layer in m.layers:
        x = layer(x).tanh()
    return x


def without_gradient(m, x):
    with torch.no_grad():
        seen = m.a(x)
    return m.b(x + seen)


def tokens(x):
    return (x[..., 0].abs() * 9).long() % 5


def again(layer, x):
    return checkpoint(layer, x, use_reentrant=False)


def merged(x):
    return x.reshape(-1, 1, E)


class Using(nn.Module):
    """A module that takes its layer's weight for something of its own, besides calling the layer."""

    def __init__(self):
        super().__init__()
        self.layer = lin()

    def forward(self, x):
        return self.layer(x) * self.layer.weight.sum() + x @ self.layer.weight


class Packed(nn.Module):
    """Sequences of several lengths, packed: positions before examples."""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(E, E, batch_first=True)

    def forward(self, x):
        lengths = 1 + tokens(x)[:, 0] % T
        return self.gru(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[1][0]


class Bag(nn.Module):
    """Bags in one line, told apart by where they begin."""

    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(5, E)

    def forward(self, x):
        return self.table(tokens(x).flatten(), torch.arange(0, len(x) * T, T))


PLACES = torch.tensor([0, 0, 1])
SAME = {
    "siamese": (lambda m, x: m.a(x).tanh() * m.a(x.flip(1)), lambda: {"a": lin()}),
    "tied across kinds": (lambda m, x: m.c(m.b(m.a(x).tanh())), tied),
    "in place through views": (through_views, lambda: {"a": lin(), "b": lin()}),
    "lists of parameters": (lambda m, x: m.a(m.p(x)), lambda: {"a": lin(), "p": Listed()}),
    "recurrent, run again": (
        lambda m, x: m.a(again(lambda y: m.g(y)[0], x)),
        lambda: {"a": lin(), "g": nn.GRU(E, E, batch_first=True)},
    ),
    "own, run again": (lambda m, x: m.a(again(m.p, x)), lambda: {"a": lin(), "p": Own()}),
    "one layer twice, run again": (lambda m, x: again(m.a, again(m.a, x).tanh()), lambda: {"a": lin()}),
    "a frozen weight": (lambda m, x: m.b(m.a(x)), frozen_weight),
    "an unused branch": (lambda m, x: (m.a(x), m.b(x))[1], lambda: {"a": lin(), "b": lin()}),
    "a detached branch": (lambda m, x: m.b(x) + m.a(x).detach(), lambda: {"a": lin(), "b": lin()}),
    "a branch without gradients": (without_gradient, lambda: {"a": lin(), "b": lin()}),
    "weight normalisation": (lambda m, x: m.b(m.a(x)), lambda: {"a": parametrizations.weight_norm(lin()), "b": lin()}),
    "orthogonal weights": (lambda m, x: m.b(m.a(x)), lambda: {"a": parametrizations.orthogonal(lin()), "b": lin()}),
    "a list with one layer twice": (loop, lambda: {"layers": nn.ModuleList([lin()] * 2 + [lin()])}),
    "bilinear": (lambda m, x: m.b(x, x.flip(1)), lambda: {"b": nn.Bilinear(E, E, 2)}),
    "a shared slope": (lambda m, x: m.p(m.a(m.p(x))), lambda: {"a": lin(), "p": nn.PReLU()}),
    "merged convolution": (
        lambda m, x: m.c(merged(x)).reshape(len(x), -1),
        lambda: {"c": nn.Conv1d(1, 2, 2)},
    ),
    "normalised over positions": (lambda m, x: m.n(x), lambda: {"n": nn.LayerNorm((T, E))}),
    "a bag": (lambda m, x: m.e(tokens(x)), lambda: {"e": nn.EmbeddingBag(5, E)}),
    "a tied table with padding": (
        lambda m, x: functional.linear(m.e(tokens(x)).tanh(), m.e.weight),
        lambda: {"e": nn.Embedding(5, E, padding_idx=0)},
    ),
    "expanded": (lambda m, x: m.a(x[:, :1].expand(-1, T, -1)), lambda: {"a": lin()}),
    "strides": (lambda m, x: m.a(x.mT.contiguous().mT[:, ::2]), lambda: {"a": lin()}),
    "scattered": (
        lambda m, x: m.b(torch.zeros_like(x).index_add(1, PLACES, m.a(x))),
        lambda: {"a": lin(), "b": lin()},
    ),
    "position by position": (lambda m, x: torch.cat([m.a(part) for part in x.chunk(T, 1)], 1), lambda: {"a": lin()}),
    "a decoder": (
        lambda m, x: m.d(x, x.flip(1)),
        lambda: {"d": nn.TransformerDecoderLayer(E, 2, 8, 0.0, batch_first=True)},
    ),
    "both directions": (
        lambda m, x: m.r(x)[0],
        lambda: {"r": nn.LSTM(E, E, 2, batch_first=True, bidirectional=True)},
    ),
    "states beside a sequence": (
        lambda m, x: m.r(x, (m.a(x[:, 0]).expand(2, -1, -1), x.new_zeros(2, len(x), E)))[0],
        lambda: {"r": nn.LSTM(E, E, 2, batch_first=True), "a": lin()},
    ),
    "packed in a module": (lambda m, x: m.a(m.p(x)), lambda: {"p": Packed(), "a": lin()}),
    "a bag with beginnings in a module": (lambda m, x: m.a(m.e(x)), lambda: {"e": Bag(), "a": lin()}),
    "a weight that its parent uses too": (lambda m, x: m.a(m.u(x)), lambda: {"u": Using(), "a": lin()}),
    "transposed convolution": (lambda m, x: m.c(x), lambda: {"c": nn.ConvTranspose1d(T, 2, 2)}),
}


@pytest.mark.parametrize("written", [True, False], ids=["rows", "no rows"])
@pytest.mark.parametrize("clipping", ["global", "per_layer"])
@pytest.mark.parametrize("name", SAME)
def test_the_sums_are_those_of_the_slow_loop(name, clipping, written, monkeypatch):
    if not written:
        monkeypatch.setattr(fused_layers, "_pays", lambda *_, **__: True)
    function, parts = SAME[name]
    torch.manual_seed(1)
    model = Graph(function, **parts())
    groups = groups_of(model, clipping)
    thresholds = [0.5 + 0.1 * at for at in range(len(groups))]
    found = sums(model, X, clipping=clipping, max_grad_norm=thresholds)
    wanted = slow_sums(model, X, thresholds, groups=groups, clipping=clipping)
    for key, each in wanted.items():
        assert float((found[key] - each).norm()) <= 1e-5 * float(each.norm()) + 1e-12, key


def remember(m, x):
    y = m.a(x)
    before, m.__dict__["mean"] = m.__dict__.get("mean", 0.0), float(y.detach().mean())
    return y + before


REFUSED = {
    "the class' forward": lambda m, x: nn.Linear.forward(m.a, m.a(x).tanh()),
    "parameters put in its place": lambda m, x: torch.func.functional_call(m.a, {"weight": 2 * m.a.weight}, (x,)),
    "another layer's parameters": lambda m, x: torch.func.functional_call(m.a, {"weight": +m.b.weight}, (m.b(x),)),
    "examples one by one": lambda m, x: torch.cat([m.a(x[:1]), m.a(x[1:])]),
    "a memory of the batch before": remember,
    "a penalty on gradients": lambda m, x: m.b(
        torch.autograd.grad(m.a(y := x.clone().requires_grad_()).square().sum(), y, create_graph=True)[0]
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_graphs_that_cannot_be_clipped_are_refused(name):
    with pytest.raises(GuaranteeError):
        sums(Graph(REFUSED[name], a=lin(), b=lin()), X)


def test_layers_added_to_the_optimizer_later_are_refused():
    training = private(nn.Sequential(lin()).double(), X)
    training.module.append(late := lin().double())
    training.optimizer.add_param_group({"params": late.parameters()})
    with pytest.raises(GuaranteeError, match="would not be clipped"):
        train_once(training)
    assert training.accountant.steps == 0
