"""Arguments that belong together are one value, each in one place, and nothing is said twice."""

import dataclasses
import inspect
import pickle

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import ArgumentError


def made(**options):
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    return dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(torch.randn(40, 4)), batch_size=8),
        noise_multiplier=1.0,
        **options,
    )


@pytest.mark.parametrize("value", [dpsgd.Clipping, dpsgd.Sampling, dpsgd.Noise])
def test_a_field_that_is_passed_beside_its_value_is_refused_with_the_place_it_belongs_to(value):
    own = {field.name for field in dataclasses.fields(value)}
    moved = own - set(inspect.signature(dpsgd.make_private).parameters) - {"kind", "source"}
    assert len(moved) >= 4
    for name in moved:
        with pytest.raises(ArgumentError, match=rf"^{name} is a field of dpsgd.{value.__name__}: pass "):
            made(**{name: 1})


def test_a_few_arguments_do():
    assert len(inspect.signature(dpsgd.make_private).parameters) <= 14


def test_the_short_ways_to_say_it_mean_the_same():
    short = made(clipping="per_layer", max_grad_norm=[0.3, 0.4], noise="exact").optimizer
    long = made(
        clipping=dpsgd.Clipping(kind="per_layer", max_grad_norm=[0.3, 0.4]), noise=dpsgd.Noise(source="exact")
    ).optimizer
    assert short.thresholds == long.thresholds == [0.3, 0.4]
    assert vars(short.step_state.rule) == vars(long.step_state.rule)
    assert short.step_state.rule.quanta is not None


def test_a_norm_that_is_passed_twice_is_refused():
    with pytest.raises(ArgumentError, match="max_grad_norm is a field of clipping"):
        made(clipping=dpsgd.Clipping(max_grad_norm=1.0), max_grad_norm=2.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sampling": "poisson"}, "dpsgd.Sampling"),
        ({"sampling": {"augmentations": 2}}, "got dict"),
        ({"clipping": "flat"}, "clipping"),
        ({"clipping": None}, "clipping"),
        ({"noise": "laplace"}, "noise"),
        ({"noise": {"source": "exact"}}, "noise"),
    ],
)
def test_other_types_are_refused(options, said):
    with pytest.raises(ArgumentError, match=said):
        made(**options)


@pytest.mark.parametrize(
    "make",
    [
        lambda: dpsgd.Clipping(kind="layers"),
        lambda: dpsgd.Clipping(thresholds="wide"),
        lambda: dpsgd.Clipping(kind="elementwise", thresholds="adaptive"),
        lambda: dpsgd.Clipping(total=1.0),
        lambda: dpsgd.Clipping(kind="per_layer", total=float("nan")),
        lambda: dpsgd.Clipping(groups=[["0"]]),
        lambda: dpsgd.Sampling(sample_rate=1.5),
        lambda: dpsgd.Sampling(sample_rate=float("nan")),
        lambda: dpsgd.Sampling(max_physical_batch_size=0),
        lambda: dpsgd.Sampling(augmentations=1.5),
        lambda: dpsgd.Clipping(loss_reduction="none"),
        lambda: dpsgd.Noise(source="numpy"),
        lambda: dpsgd.Noise(mechanism="cauchy"),
        lambda: dpsgd.Noise(allocation="equal"),
        lambda: dpsgd.Noise(accountant="rdp"),
    ],
)
def test_a_value_that_cannot_be_meant_is_not_made(make):
    with pytest.raises(ArgumentError):
        make()


def test_values_are_equal_copied_and_fixed():
    value = dpsgd.Clipping(kind="per_layer", max_grad_norm=2.0)
    assert pickle.loads(pickle.dumps(value)) == value  # noqa: S301 - our own bytes
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.kind = "global"
