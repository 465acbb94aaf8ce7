"""Positions, batch means, flips and softmax over the batch are told from examples, whatever the sizes are."""

import copy
import random
from contextlib import nullcontext
from dataclasses import dataclass

import pytest
import torch
from torch import nn
from torch.distributions import Dirichlet, Gamma
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from inid.errors import ArgumentError, GuaranteeError
from training import groups_of, private, slow_sums, squares, sums, train_once

N, T, E = 6, 6, 4  # as many positions as examples: sizes cannot tell them apart
X = torch.randn(N, T, E, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


class Model(nn.Module):
    """A function of the batch and two layers."""

    def __init__(self, function, **layers):
        super().__init__()
        torch.manual_seed(3)
        self.function = function
        self.first, self.last = nn.Linear(E, E), nn.Linear(E, 2)
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.double()

    def forward(self, x):
        return self.function(self, x)


MIXING = {
    "transposed": lambda m, x: m.last(m.first(x.transpose(0, 1)).transpose(0, 1)),
    "positions before examples": lambda m, x: m.last(m.first(x.transpose(0, 1).reshape(-1, E)).reshape(T, -1, E)),
    "a mean over the batch": lambda m, x: m.last(m.first(x - x.mean(0))),
    "a mean after the last layer": lambda m, x: m.last(m.first(x)) - m.last(m.first(x)).mean(0),
    "flipped": lambda m, x: m.last(m.first(x.flip(0))),
    "rolled": lambda m, x: m.last(m.first(x).roll(1, 0)),
    "softmax over the batch": lambda m, x: m.last(m.first(x).softmax(0)),
    "softmax at the end": lambda m, x: m.last(m.first(x)).softmax(0),
    "attention over the batch": lambda m, x: m.last(
        functional.scaled_dot_product_attention(*[m.first(x).transpose(0, 1)] * 3).transpose(0, 1)
    ),
    "mixed at random": lambda m, x: m.last(m.first(0.5 * x + 0.5 * x[torch.randperm(len(x))])),
    "scaled by the batch": lambda m, x: m.last(m.first(x / x.abs().max())),
    "the first of the batch": lambda m, x: m.last(m.first(x - x[:1])),
    "repeated": lambda m, x: m.last(m.first(torch.cat([x, x])))[: len(x)],
    "a batch like one image": lambda m, x: m.last(m.first(nn.Conv2d(N, N, 1, dtype=x.dtype)(x))),
    "only in training": lambda m, x: m.last(m.first(x - x.mean(0) if m.training else x)),
}


@pytest.mark.parametrize("name", MIXING)
def test_models_that_mix_examples_are_refused(name):
    training = private(Model(MIXING[name]), X)
    with pytest.raises(GuaranteeError, match=r"examples? (alone|in the first|for each|side)|(first dimension)"):
        train_once(training)
    assert training.accountant.steps == 0


APART = {
    "positions merged behind examples": lambda m, x: m.last(m.first(x.reshape(-1, E))).reshape(len(x), -1),
    "heads": lambda m, x: m.last(m.first(x.reshape(len(x) * 3, -1, E))).reshape(len(x), -1),
    "convolution of merged images": lambda m, x: m.last(m.conv(x.reshape(-1, 2, E)).reshape(len(x), T, E)),
    "normalised": lambda m, x: m.last(m.norm(x.reshape(-1, E))).reshape(len(x), -1),
    "fallback of merged rows": lambda m, x: m.last(m.prelu(x.reshape(-1, E))).reshape(len(x), -1),
    "recurrent over merged rows": lambda m, x: m.last(m.gru(x.reshape(-1, 2, E))[0]).reshape(len(x), -1),
    "positions in the last dimension": lambda m, x: m.last(m.first(x).transpose(1, 2)[:, :, :E]),
    "output transposed": lambda m, x: m.last(m.first(x)).transpose(0, 1).transpose(0, 1),
    "a table of positions": lambda m, x: m.last(x + m.table(torch.arange(T))),
    "positions in one row": lambda m, x: m.last(x + m.table(torch.arange(T)[None])),
    "positions through a layer": lambda m, x: m.last(x + m.first(m.table(torch.arange(T)))),
    "a weight used twice": lambda m, x: (
        functional.linear(
            m.last(functional.linear(x, m.last.weight.T.detach() @ m.last.weight.detach())), m.other.weight
        )
        + 0 * m.other(x[..., :2])
    ),
    "a tied head": lambda m, x: functional.linear(m.first(m.tokens((x[..., 0].abs() * 4).long() % 5)), m.tokens.weight),
    "a mask of its own": lambda m, x: m.attention(m.first(x), x, x, attn_mask=torch.ones(T, T, dtype=bool).triu(1))[0],
    "dropout": lambda m, x: m.last(functional.dropout(m.first(x), 0.0, m.training)),
    "checkpointed": lambda m, x: m.last(checkpoint(m.first, x, use_reentrant=False).tanh()),
    "a checkpointed block": lambda m, x: checkpoint(lambda y: m.last(m.first(y).tanh()), x, use_reentrant=False),
    "written in place": lambda m, x: m.last(functional.relu_(m.first(x))),
}


def layers():
    return {
        "conv": nn.Conv1d(2, 2, 3, padding=1),
        "norm": nn.LayerNorm(E),
        "prelu": nn.PReLU(E),
        "gru": nn.GRU(E, E, batch_first=True),
        "table": nn.Embedding(T, E),
        "tokens": nn.Embedding(5, E),
        "other": nn.Linear(2, 3, bias=False),
        "attention": nn.MultiheadAttention(E, 2, batch_first=True),
    }


@pytest.mark.parametrize("clipping", ["global", "per_layer"])
@pytest.mark.parametrize("name", APART)
def test_models_that_keep_examples_apart_have_the_sums_of_the_slow_loop(name, clipping):
    function = APART[name]
    model = Model(function, **layers())
    used = {part for part in (*layers(), "first", "last") if f"m.{part}" in _source(name)}
    for part, layer in model.named_children():
        layer.requires_grad_(part in used)
    groups = groups_of(model, clipping)
    thresholds = [0.5 + 0.1 * at for at in range(len(groups))]
    found = sums(model, X, clipping=clipping, max_grad_norm=thresholds)
    wanted = slow_sums(model, X, thresholds, groups=groups, clipping=clipping)
    for key, each in wanted.items():
        assert torch.allclose(found[key], each, rtol=1e-5, atol=1e-7), key
        assert float(each.abs().max()) > 0 or key.endswith("in_proj_bias")


def _source(name):
    import inspect
    import re

    text = inspect.getsource(inspect.getmodule(_source))
    return re.search(rf'"{name}": (.*?)\n    "', text.split("APART = {")[1] + '\n    "', re.DOTALL).group(1)


def test_the_positions_must_not_be_meant_for_something_else():
    """What repeats the positions for each example would compute something else here."""
    model = Model(lambda m, x: m.last(x + m.table(torch.arange(T)).unsqueeze(0)), **layers())
    for layer in model.children():
        layer.requires_grad_(layer in (model.last, model.table))
    with pytest.raises(GuaranteeError, match=r"'table' is called with an input that is the same for all"):
        sums(model, X)


def many_steps(training):
    for _ in range(50):
        train_once(training)


def test_calls_that_change_are_looked_at_again():
    """A model that transposes from its third forward on."""
    model = Model(lambda m, x: m.last(m.first(x)) if m.good else m.last(m.first(x.transpose(0, 1))).transpose(0, 1))
    model.good = True
    training = private(model, X)
    train_once(training)
    training.module.function = lambda m, x: m.last(m.first(m.first(x)))
    train_once(training)  # more calls: found out anew, and fine
    training.module.function = lambda m, x: m.last(m.first(m.first(m.first(x.transpose(0, 1))))).transpose(0, 1)
    with pytest.raises(GuaranteeError, match="does not see every example"):
        train_once(training)
    training = private(model, X)
    draw = random.Random(1)  # noqa: S311 - nothing secret
    training.module.function = lambda m, x: m.last(m.first(m.first(x))) if draw.random() < 0.5 else m.last(m.first(x))
    with pytest.raises(GuaranteeError, match=r"order that changes|other layers for"):
        many_steps(training)


def test_a_layer_with_other_rows_than_found_out_is_refused():
    model = Model(lambda m, x: m.last(m.first(x if len(x) <= 3 else torch.cat([x, x])))[: len(x)])
    with pytest.raises(GuaranteeError, match="does not see every example"):
        train_once(private(model, X))


def test_what_is_random_by_example_is_no_mixing():
    for function in (
        lambda m, x: m.last(functional.dropout(m.first(x), 0.5, training=True)),
        lambda m, x: m.last(m.first(x) + torch.randn_like(x)),
        lambda m, x: m.last(m.first(x) * torch.rand(len(x), 1, 1, dtype=x.dtype)),
        lambda m, x: m.last(m.first(x) * torch.empty_like(x).random_(0, 2)),
        lambda m, x: m.last(torch.native_dropout(m.first(x), 0.5, True)[0]),
        lambda m, x: m.last(m.first(x) * torch.binomial(torch.ones_like(x), torch.full_like(x, 0.5))),
        lambda m, x: m.last(m.attention(m.first(x), x, x)[0]),
        lambda m, x: m.last(m.gru(x)[0]),
    ):
        model = Model(
            function,
            attention=nn.MultiheadAttention(E, 2, dropout=0.5, batch_first=True),
            gru=nn.GRU(E, E, 2, dropout=0.5, batch_first=True),
        )
        train_once(private(model, X))


BY_VALUE = {
    "gamma": lambda h: Gamma(h.exp(), 1.0).rsample(),
    "Dirichlet": lambda h: Dirichlet(h.exp()).rsample(),
    "Poisson": lambda h: h * torch.poisson(h.detach().abs() * 5),
}


@pytest.mark.filterwarnings("ignore:the check that examples keep apart passed over")
@pytest.mark.parametrize("name", BY_VALUE)
def test_samplers_that_draw_by_the_values_are_refused_by_name_and_transformed_draws_are_fine(name):
    with pytest.raises(GuaranteeError, match=rf"drawn by the values of the examples.*{name}.*transform those"):
        train_once(private(Model(lambda m, x: m.last(BY_VALUE[name](m.first(x)))), X))
    train_once(private(Model(lambda m, x: m.last(m.first(x).exp() * -torch.rand_like(x).log1p())), X))


@pytest.mark.parametrize("hard", [False, True])
def test_gumbel_noise_by_example_is_no_mixing_and_hides_none(hard):
    for dim, wanted in (
        (-1, nullcontext()),
        (0, pytest.raises(GuaranteeError, match=r"depend on other|does not see every")),
    ):
        model = Model(lambda m, x, d=dim: m.last(functional.gumbel_softmax(m.first(x), 0.7, hard, dim=d)))
        with wanted:
            train_once(private(model, X))


def test_places_of_fractional_pooling_are_no_mixing_and_hide_none():
    images = torch.randn(6, 2, 9, 9, dtype=torch.float64)
    for mixed, wanted in (
        (0.0, nullcontext()),
        (1.0, pytest.raises(GuaranteeError, match=r"depend on other|does not see every")),
    ):
        model = Model(
            lambda m, x, part=mixed: m.out(m.pool(m.into(x + part * x.mean(0) if part else x)).flatten(1)),
            into=nn.Conv2d(2, 3, 3),
            pool=nn.FractionalMaxPool2d(2, output_ratio=0.51),
            out=nn.Linear(27, 2),
        )
        with wanted:
            train_once(private(model, images))


def test_looking_spends_no_randomness_and_changes_nothing():
    model = Model(lambda m, x: m.last(m.first(functional.dropout(x, 0.3, training=True))))
    nn.init.zeros_(model.last.weight)
    training = private(model, X)
    (x,) = next(iter(training.data_loader))
    torch.manual_seed(5)
    found = training.module(x)
    torch.manual_seed(5)
    assert torch.equal(found, training.module(x))  # the first looked, the second did not
    assert not training.module.last.weight.any()


def test_layers_of_zeros_hide_nothing():
    """A last layer of zeros has the same input gradients for everybody; what comes before is seen all the same."""
    model = Model(lambda m, x: m.last(m.first(x).flip(0)))
    for layer in (model.first, model.last):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    with pytest.raises(GuaranteeError, match="does not see every example"):
        train_once(private(model, X))


def test_a_single_number_for_the_batch_is_refused():
    with pytest.raises(GuaranteeError, match="per_example_loss"):
        train_once(private(Model(lambda m, x: squares(m.last(m.first(x))).mean()), X))


def test_examples_of_the_users_own():
    def above(least):
        def function(m, x):
            if not bool((x > least).all()):
                raise ValueError("only larger numbers")
            return m.last(m.first(x.log()))

        return Model(function)

    with pytest.warns(UserWarning, match=r"negative numbers .*Pass Sampling\(example="):
        train_once(private(above(0.0), X.abs() + 1))  # made-up numbers are positive, but for what is planted
    model = above(0.6)
    with pytest.raises(GuaranteeError, match=r"pass Sampling\(example="):
        train_once(private(model, X.abs() + 1))
    with pytest.warns(UserWarning, match="passed over what the private module cannot be run on: much smaller"):
        train_once(private(model, X.abs() + 1, example=torch.rand(3, T, E, dtype=torch.float64) + 1))
    for wrong in (torch.ones(2, T, E), (torch.ones(3, T, E), torch.ones(3, 1))):
        with pytest.raises(GuaranteeError, match="example must hold 1 tensors of at least 3 rows"):
            train_once(private(model, X.abs() + 1, example=wrong))


@pytest.mark.parametrize("length", [4, 6, 9])
def test_a_causal_mask_works_at_every_size(length):
    torch.manual_seed(3)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).double()

    class Causal(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=torch.float64)
            return self.layer(x, src_mask=mask, is_causal=True)

    x = torch.randn(6, length, 4, dtype=torch.float64)
    whole = sums(Causal(), x, clipping="global", max_grad_norm=1e9)
    model = copy.deepcopy(Causal())
    squares(model(x)).sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(whole[name], parameter.grad, rtol=1e-8, atol=1e-10)


class Biased(nn.Module):
    """A layer of its own that takes a tensor for all examples besides the batch."""

    def __init__(self, bias):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(E, dtype=torch.float64)), bias

    def forward(self, x, bias):
        return x * self.weight + bias.sum(0)


@pytest.mark.parametrize("rows", [3, 5, 6, 7])
def test_a_tensor_for_all_examples_is_not_taken_for_examples(rows):
    bias = torch.arange(float(rows * E), dtype=torch.float64).reshape(rows, E)
    model = Model(lambda m, x: m.own(x, m.own.bias), own=Biased(bias))
    model.first.requires_grad_(False), model.last.requires_grad_(False)
    found = sums(model, X, max_grad_norm=[1e6])["own.weight"]
    assert torch.allclose(found, ((X + bias.sum(0)) * X).sum((0, 1)), rtol=1e-9)


def test_a_hook_of_the_users_is_part_of_the_model():
    model = Model(lambda m, x: m.last(m.first(x)))
    model.first.register_forward_hook(lambda layer, args, out: 3 * out)
    model.last.register_forward_pre_hook(lambda layer, args: (args[0].tanh(),))
    found = sums(model, X, max_grad_norm=[1e6, 1e6])
    squares(model(X)).sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(found[name], parameter.grad, rtol=1e-9)


@pytest.mark.parametrize("part", [nn.Softmax(), nn.Softmax(dim=0), nn.LogSoftmax(dim=0)])
def test_modules_that_normalise_over_examples_are_refused_by_name(part):
    with pytest.raises(ArgumentError, match="normalises over the examples"):
        private(nn.Sequential(nn.Linear(E, 3).double(), part), X)


@dataclass
class Output:
    loss: torch.Tensor


class OwnOutput(nn.Module):
    """A model that returns its loss inside an object of its own, which torch does not look into."""

    def __init__(self, *, single):
        super().__init__()
        self.layer, self.single = nn.Linear(5, 1), single

    def forward(self, x):
        made = self.layer(x)
        return Output((made - made.mean(0)).square().mean() if self.single else made - made.mean(0))


@pytest.mark.parametrize("single", [True, False])
def test_mixing_is_seen_in_objects_of_the_models_own(single):
    training = private(OwnOutput(single=single), torch.randn(8, 5))
    with pytest.raises(GuaranteeError, match=r"single number|depends on other examples"):
        train_once(training, unwrap=lambda output: output.loss)
