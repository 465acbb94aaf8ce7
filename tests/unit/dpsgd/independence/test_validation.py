"""What stands in the way of private training is listed with its cure, and replaced where there is a substitute."""

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from inid import dpsgd
from inid.errors import ArgumentError, GuaranteeError
from training import assert_close, groups_of, private, slow_sums, sums, train_once


def old_fashioned():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 6, 3),
        nn.BatchNorm2d(6),
        nn.Sequential(nn.InstanceNorm2d(6, affine=True, track_running_stats=True), nn.Softmax(dim=0)),
        nn.Flatten(),
        nn.Linear(6 * 36, 2),
    )


def test_all_problems_are_listed_with_their_cures():
    found = dpsgd.validate(old_fashioned())
    assert [text.split(" ", 3)[1] for text in found] == ["'1'", "'2.0'", "'2.1'"]
    assert "GroupNorm(1, 6)" in found[0]
    assert "dpsgd.fix(model)" in found[0]
    with pytest.raises(ArgumentError, match=r"2 more: dpsgd\.validate"):
        private(old_fashioned(), torch.ones(4, 3, 8, 8))


@pytest.mark.parametrize(
    ("make", "cure"),
    [
        (nn.utils.weight_norm, "parametrizations.weight_norm"),
        (nn.utils.spectral_norm, "parametrizations.spectral_norm"),
        (lambda layer: prune.l1_unstructured(layer, "weight", 0.5), "parametrize with the mask"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*weight_norm")
def test_weights_made_by_hooks_are_named_with_what_takes_their_place(make, cure):
    assert [text.endswith(f"use torch.nn.utils.{cure}.") for text in dpsgd.validate(make(nn.Linear(3, 3)))] == [True]


@pytest.mark.parametrize("trained", [True, False])
def test_batch_normalisation_with_public_statistics_may_stay_while_it_keeps_them(trained):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.Flatten(), nn.Linear(6 * 36, 2)).double()
    x = torch.randn(5, 3, 8, 8, dtype=torch.float64)
    model(3 * x + 1)  # statistics
    model[1].eval().requires_grad_(trained)
    groups = groups_of(model)
    wanted = slow_sums(model, x, [0.1] * len(groups), groups=groups)
    assert_close(sums(model, x, max_grad_norm=[0.1] * len(groups)), wanted, torch.float32)
    training = private(model, x)
    train_once(training)
    kept = training.module[1].running_mean.clone()
    training.module.train()
    with pytest.raises(ArgumentError, match=r"by its eval\(\), also after train\(\)"):
        train_once(training)
    assert torch.equal(training.module[1].running_mean, kept)


def test_what_can_be_fixed_is_fixed_in_a_copy():
    model = old_fashioned()
    fixed = dpsgd.fix(model)
    assert isinstance(model[1], nn.BatchNorm2d)
    assert isinstance(fixed[1], nn.GroupNorm)
    assert torch.equal(fixed[1].weight, model[1].weight)
    assert [text.split(" ", 3)[1] for text in dpsgd.validate(fixed)] == ["'2.1'"]
    fixed[2][1] = nn.Softmax(dim=1)
    train_once(private(fixed, torch.randn(4, 3, 8, 8)))
    assert isinstance(dpsgd.fix(nn.BatchNorm1d(4)), nn.GroupNorm)


GROUPS = {
    nn.BatchNorm2d(8): 2,
    nn.BatchNorm2d(16): 4,
    nn.BatchNorm2d(64): 8,
    nn.BatchNorm3d(20): 4,
    nn.BatchNorm2d(7): 1,
    nn.BatchNorm1d(8): 1,
    nn.BatchNorm1d(64): 1,
}


@pytest.mark.parametrize(("norm", "groups"), GROUPS.items(), ids=str)
def test_groups_keep_enough_channels_and_the_advice_is_the_same(norm, groups):
    assert dpsgd.fix(norm).num_groups == groups
    assert f"nn.GroupNorm({groups}, {norm.num_features})" in dpsgd.validate(norm)[0]


@torch.no_grad()
def test_a_mean_over_pixels_is_not_dead_after_a_fix():
    """With one channel in a group it is 0 for every example."""
    torch.manual_seed(0)
    model = dpsgd.fix(nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    assert float(model(torch.randn(16, 1, 6, 6)).std(0).min()) > 0.01
    model[1] = nn.GroupNorm(8, 8)
    assert float(model(torch.randn(16, 1, 6, 6)).std(0).max()) < 1e-6


def test_eight_features_without_pixels_are_trained():
    train_once(
        private(dpsgd.fix(nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))), torch.randn(4, 3))
    )


class Positive(nn.Module):
    def forward(self, x):
        if bool((x >= 0).all()):
            raise ValueError("made-up rows are refused here")
        return x


def test_the_error_of_a_model_that_fails_on_made_up_examples_is_shown():
    model = nn.Sequential(Positive(), nn.Linear(3, 2))
    with pytest.raises(GuaranteeError, match="It raised ValueError: made-up rows are refused here"):
        train_once(private(model, -torch.ones(4, 3)))


@pytest.mark.parametrize("shift", [False, True])
def test_the_loss_of_an_example_depends_on_its_own_labels_alone(shift):
    draw = torch.Generator().manual_seed(1)
    logits, labels = torch.randn(4, 5, 3, generator=draw), torch.randint(0, 3, (4, 5), generator=draw)
    labels[0, 2:] = labels[3] = -100
    found = dpsgd.per_example_loss(logits, labels, shift=shift)
    for at in range(3):
        own = (logits[at, :-1], labels[at, 1:]) if shift else (logits[at], labels[at])
        assert torch.allclose(found[at], nn.functional.cross_entropy(*own))
    assert found[3] == 0
    flat = dpsgd.per_example_loss(logits[:, 0], labels[:, 0])
    assert torch.allclose(flat[:3], nn.functional.cross_entropy(logits[:3, 0], labels[:3, 0], reduction="none"))
    with pytest.raises(ArgumentError, match="do not fit"):
        dpsgd.per_example_loss(logits, labels[:, 0])
