"""Normalisations of Hugging Face's models have a rule where they scale last of all, and no others have it."""

import importlib

import pytest
import torch
from torch import nn

from inid import dpsgd
from inid.dpsgd import grad_sampler_of
from inid.dpsgd.grad_sample import scaling_norm_sampler
from inid.errors import ArgumentError
from training import assert_close, groups_of, slow_sums, sums

pytestmark = pytest.mark.filterwarnings("ignore")  # about their own future
torch.set_num_threads(1)

KNOWN = {"llama": "LlamaRMSNorm", "mistral": "MistralRMSNorm", "qwen2": "Qwen2RMSNorm", "t5": "T5LayerNorm"}


def of_hugging_face(model, name):
    return getattr(importlib.import_module(f"transformers.models.{model}.modeling_{model}"), name)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(6,), (3, 6), (2, 3, 6)])
@pytest.mark.parametrize("model", KNOWN)
def test_rows_are_the_gradients_of_single_examples(model, shape, dtype):
    """Oracle: autograd, one example at a time."""
    torch.manual_seed(0)
    layer = of_hugging_face(model, KNOWN[model])(6).to(dtype)
    nn.init.normal_(layer.weight)
    x, flowing = torch.randn(2, 4, *shape, dtype=dtype)
    rows = grad_sampler_of(layer).grad_samples(layer, x, flowing, 4)["weight"].dense()
    for at in range(4):
        (alone,) = torch.autograd.grad(layer(x[at : at + 1]), layer.weight, flowing[at : at + 1])
        assert torch.allclose(rows[at], alone, rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("clipping", ["global", "per_layer", "elementwise"])
@pytest.mark.parametrize("model", KNOWN)
def test_clipped_sums_are_those_of_the_slow_loop(model, clipping):
    torch.manual_seed(1)
    norm = of_hugging_face(model, KNOWN[model])
    whole = nn.Sequential(nn.Linear(5, 6), norm(6), nn.Linear(6, 4), norm(4)).double()
    x, groups = torch.randn(7, 3, 5, dtype=torch.float64), groups_of(whole, clipping)
    thresholds = [0.4 + 0.1 * at for at in range(len(groups))]
    wanted = slow_sums(whole, x, thresholds, groups=groups, clipping=clipping)
    # Theirs work in float32, whatever they are given: single examples are rounded otherwise than all together.
    assert_close(sums(whole, x, clipping=clipping, max_grad_norm=thresholds), wanted, torch.float32)


def test_a_class_that_does_not_scale_last_has_none():
    """Gemma's weight is added to one in float32; others take two tensors, or have no weight."""
    assert grad_sampler_of(of_hugging_face("gemma", "GemmaRMSNorm")(6)) is None
    assert grad_sampler_of(of_hugging_face("falcon_mamba", "FalconMambaWeightlessRMSNorm")(6)) is None


def made_up(forward, name="MadeRMSNorm", module="transformers.models.made.modeling_made", **more):
    """A class as Hugging Face might have it."""

    def init(self, size):
        nn.Module.__init__(self)
        self.weight, self.eps = nn.Parameter(torch.ones(size)), 1e-6
        for key, value in more.items():
            setattr(self, key, value)

    return type(name, (nn.Module,), {"__init__": init, "forward": forward, "__module__": module})


def scaled(self, x):
    return self.weight * x / (x.square().mean(-1, keepdim=True) + self.eps).sqrt()


def with_gate(self, x, gate=None):
    return scaled(self, x if gate is None else x * gate)


TWINS = {
    "over examples": lambda self, x: self.weight * x / (x.square().mean(0, keepdim=True) + self.eps).sqrt(),
    "curved": lambda self, x: self.weight.exp() * x,
    "twice": lambda self, x: self.weight * (x * self.weight).tanh(),
    "summed": lambda self, x: self.weight.sum() * x,
    "shifted": lambda self, x: (2 + self.weight) * x,
    "over positions": lambda self, x: self.weight * x.cumsum(1) if x.ndim > 2 else (1 + self.weight.square()) * x,
    "broken": lambda self, x: x.no_such_thing,
    "two inputs": with_gate,
}


def test_the_one_that_twins_are_twins_of_has_a_rule():
    assert scaling_norm_sampler(made_up(scaled)).settings == ("eps",)


@pytest.mark.parametrize("twin", TWINS)
def test_twins_have_none(twin):
    assert scaling_norm_sampler(made_up(TWINS[twin])) is None


@pytest.mark.parametrize("other", [{"name": "MadeScale"}, {"module": "elsewhere.modeling_made"}])
def test_the_rule_is_for_their_classes_alone(other):
    assert scaling_norm_sampler(made_up(scaled, **other)) is None


def test_layers_of_another_setting_are_not_taken_together():
    kind, x = made_up(scaled, turned=True), torch.randn(2, 3, 6)
    rule, one, two = scaling_norm_sampler(kind), kind(6), kind(6)
    assert rule.alike(one, x) == rule.alike(two, x)
    two.turned = False
    assert rule.alike(one, x) != rule.alike(two, x)
    assert scaling_norm_sampler(made_up(scaled, turned=[1])).settings is None  # what cannot be compared


def test_register_layer_says_that_the_class_has_a_rule():
    kind = of_hugging_face("llama", "LlamaRMSNorm")
    rule = dpsgd.GradSampler(formula=lambda layer, inputs, gradients: {"weight": inputs * gradients})
    with pytest.raises(ArgumentError, match="has a formula already"):
        dpsgd.register_layer(kind, rule, examples=[(kind(3), torch.randn(4, 3))])
