"""Arguments that belong together are one value: it means what its fields mean one by one, and nothing is said twice."""

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


CLIPPINGS = [
    {},
    {"max_grad_norm": 0.5},
    {"kind": "per_layer", "max_grad_norm": [0.3, 0.4]},
    {"kind": "per_layer", "thresholds": "sqrt_size", "total": 0.7},
    {"kind": "per_layer", "thresholds": dpsgd.Adaptive(quantile=0.4), "groups": [["2"], ["0"]]},
    {"kind": "elementwise", "groups": [["0", "2"]]},
]


@pytest.mark.parametrize("fields", CLIPPINGS, ids=str)
def test_a_clipping_is_its_fields_one_by_one(fields):
    flat = {("clipping" if name == "kind" else name): value for name, value in fields.items()}
    one, two = made(clipping=dpsgd.Clipping(**fields)).optimizer, made(**flat).optimizer
    assert one.groups == two.groups
    assert one.thresholds == two.thresholds
    assert one.plan.scales.tolist() == two.plan.scales.tolist()
    assert vars(one.step_state.rule) == vars(two.step_state.rule)


@pytest.mark.parametrize(
    "fields",
    [
        {"max_physical_batch_size": 4},
        {"augmentations": 3},
        {"sample_rate": 0.1, "neighbours": "add_remove"},
        {"pad_batches": False},
    ],
    ids=str,
)
def test_a_sampling_is_its_fields_one_by_one(fields):
    more = {"steps": 5, "loss_reduction": "sum"}
    one, two = (each.data_loader for each in (made(sampling=dpsgd.Sampling(**fields), **more), made(**fields, **more)))
    assert (one.sample_rate, one.steps, one.drawn.views, one.drawn.padded) == (
        two.sample_rate,
        two.steps,
        two.drawn.views,
        two.drawn.padded,
    )
    assert str(one) == str(two)


ALONE = {"stability", "unit", "examples_per_unit"}  # fields that no argument of the function stands for


@pytest.mark.parametrize("kind", [dpsgd.Clipping, dpsgd.Sampling])
def test_fields_and_defaults_are_those_of_the_function(kind):
    """Otherwise leaving one out would not mean the same in both ways."""
    own = {name: each.default for name, each in inspect.signature(dpsgd.make_private).parameters.items()}
    for field in dataclasses.fields(kind):
        if field.name not in ALONE:
            assert own["clipping" if field.name == "kind" else field.name] == field.default, field.name


def test_both_ways_at_once_are_refused():
    with pytest.raises(ArgumentError, match="max_grad_norm is a field of clipping"):
        made(clipping=dpsgd.Clipping(max_grad_norm=1.0), max_grad_norm=2.0)
    with pytest.raises(ArgumentError, match="total is a field of clipping"):
        made(clipping=dpsgd.Clipping(kind="per_layer"), total=1.0)
    with pytest.raises(ArgumentError, match="augmentations is a field of sampling"):
        made(sampling=dpsgd.Sampling(), augmentations=2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sampling": "poisson"}, "dpsgd.Sampling"),
        ({"sampling": {"augmentations": 2}}, "got dict"),
        ({"clipping": "flat"}, "clipping"),
        ({"clipping": None}, "clipping"),
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
