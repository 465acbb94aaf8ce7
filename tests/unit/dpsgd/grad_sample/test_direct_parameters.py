"""Parameters that a module uses beside its layers: the oracle is a slow loop, the guards have twins that fail."""

import pytest
import torch
from torch import nn

from inid.dpsgd.grad_sample import units_of
from internals import module_with
from training import assert_close, groups_of, private, slow_sums, sums, train_once

direct_parameters = module_with("inid.dpsgd.grad_sample", "run_with_direct_parameters")
layers_without_rule = module_with("inid.dpsgd.grad_sample", "run_without_sampler")
per_example_gradients = module_with("inid.dpsgd", "PerExampleGradients")
check = module_with("inid.dpsgd.independence", "Independence")

KIND = torch.float64


class Tokens(nn.Module):
    """What a vision transformer begins with; `use` says what becomes of its own parameters."""

    def __init__(self, use="added"):
        super().__init__()
        self.use = use
        self.first, self.places = nn.Parameter(torch.randn(1, 1, 6)), nn.Parameter(torch.randn(1, 5, 6))
        self.unused = nn.Parameter(torch.zeros(1, 6))
        self.project = nn.Linear(3, 6)

    def forward(self, x):
        x = self.project(x.unflatten(1, (4, 3)))
        first, places = self.first, self.places
        if self.use == "repeated":
            first = first.repeat(len(x), 1, 1)
        if self.use == "sliced":
            places = places[0]
        if self.use == "a little of a mean":
            places = places + 1e-5 * places.mean(0)
        if self.use == "a mean":
            places = places - places.mean(0) / 2
        return torch.cat([first.expand(len(x), -1, -1), x], 1) + places


class Below(nn.Module):
    """The same one module further down, whose output meets layers."""

    def __init__(self, use="added"):
        super().__init__()
        self.embed, self.norm, self.head = Tokens(use), nn.LayerNorm(6), nn.Linear(6, 2)

    def forward(self, x):
        return self.head(self.norm(self.embed(x)).relu()[:, 0:2]).flatten(1)


class Above(Tokens):
    """The parameters are those of the whole model."""

    def __init__(self, use="added"):
        super().__init__(use)
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, 2)

    def forward(self, x):
        return self.head(self.norm(super().forward(x)).relu()[:, 0:2]).flatten(1)


def made(kind, use="added"):
    torch.manual_seed(0)
    model = kind(use).to(KIND)
    return model, torch.randn(7, 12, dtype=KIND) * torch.arange(1, 8)[:, None]


def held_to_the_loop(model, x, clipping="per_layer"):
    groups = groups_of(model, clipping)
    thresholds = [0.5] * len(groups) if clipping != "global" else [1.0]
    given = thresholds if clipping != "global" else 1.0
    found = sums(model, x, clipping=clipping, max_grad_norm=given)
    assert_close(found, slow_sums(model, x, thresholds, groups=groups, clipping=clipping), KIND)


@pytest.fixture
def whole(monkeypatch):
    """How often a module was run example by example."""
    seen, run = [], layers_without_rule.run_with_parameters_per_example
    counted = lambda layer, *args, **kwargs: (seen.append(type(layer).__name__), run(layer, *args, **kwargs))[1]  # noqa: E731
    monkeypatch.setattr(layers_without_rule, "run_with_parameters_per_example", counted)
    return seen


def test_layers_beside_such_parameters_are_layers_of_their_own():
    units = units_of(made(Below)[0])
    assert [(unit.name, unit.direct_parameters, list(unit.parameters)) for unit in units[:2]] == [
        ("embed", True, ["first", "places", "unused"]),
        ("embed.project", False, ["weight", "bias"]),
    ]


@pytest.mark.parametrize("kind", [Below, Above])
@pytest.mark.parametrize("clipping", ["per_layer", "global", "elementwise"])
def test_sums_are_those_of_a_slow_loop_and_no_module_is_run_example_by_example(kind, clipping, whole):
    held_to_the_loop(*made(kind), clipping)
    assert not whole


@pytest.mark.parametrize("kind", [Below, Above])
@pytest.mark.parametrize("use", ["repeated", "sliced", "a little of a mean", "a mean"])
def test_other_uses_are_run_example_by_example(kind, use, whole):
    """Expanded to all rows, these would be a shape that does not fit, one example's, or a mean over all of them."""
    held_to_the_loop(*made(kind, use))
    assert set(whole) == {kind.__name__ if kind is Above else "Tokens"}


@pytest.mark.parametrize("use", ["a little of a mean", "sliced"])
def test_they_pass_where_gradients_are_not_compared(use, monkeypatch, whole):
    """The twin without the comparison: values agree, and the sums are wrong."""
    monkeypatch.setattr(check, "_difference", lambda *_: None)
    with pytest.raises(AssertionError):
        held_to_the_loop(*made(Below, use))
    assert not whole


def test_the_parameters_are_themselves_after_a_forward_that_fails():
    model, x = made(Below)
    training = private(model, x)
    train_once(training)
    held = dict(training.module.named_parameters())
    with pytest.raises(RuntimeError):
        training.module(x[:, :5])
    assert all(held[name] is p for name, p in training.module.named_parameters())


class Faint(nn.Module):
    """A row that all examples read, of which the output hardly shows."""

    def __init__(self):
        super().__init__()
        self.token, self.layer = nn.Parameter(torch.randn(1, 4)), nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x) + 1e-6 * self.token[0]


def test_a_row_that_all_examples_read_shows_however_faint_it_is():
    """As rows, the first example would get the gradients of all, and all together would be clipped as one."""
    torch.manual_seed(7)
    model, x = Faint(), torch.randn(6, 4)
    groups = groups_of(model)
    thresholds = [0.5] * len(groups)
    options = {"loss": lambda output: 1e6 * output.sum(1)}
    wanted = slow_sums(model, x, thresholds, groups=groups, **options)
    assert float(wanted["token"].norm()) > 2.9  # six examples of 0.5, all in one direction
    assert_close(sums(model, x, max_grad_norm=thresholds, **options), wanted, torch.float32)
