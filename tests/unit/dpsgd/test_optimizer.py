"""A private optimizer behaves as torch's do: closures, hooks, zero_grad, schedulers, empty draws."""

from collections import OrderedDict

import numpy as np
import pytest
import torch
from torch import nn

from inid.errors import ArgumentError, GuaranteeError
from inid.testing import unsafe_no_noise
from internals import module_with
from training import Picked, Tokens, private, row_squares, train_once

fused_layers = module_with("inid.dpsgd.grad_sample", "ghost_grads")
poisson_draw = module_with("inid.dpsgd.sampling", "StepPlaces")

X = torch.arange(24.0).reshape(8, 3) / 10


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def test_closures_work():
    training = private(net(), X)
    with unsafe_no_noise():
        (x,) = next(iter(training.data_loader))

        def closure():
            training.optimizer.zero_grad()
            loss = training.loss(row_squares, training.module(x))
            loss.backward()
            return loss

        assert float(training.optimizer.step(closure).detach()) > 0
    assert training.accountant.steps == 1
    assert repr(training.optimizer).startswith("<PrivateOptimizer: SGD, 2 groups")


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad_of_either_kind(set_to_none):
    training = private(net(), X)
    for _ in range(3):
        for (x,) in training.data_loader:
            training.optimizer.zero_grad(set_to_none=set_to_none)
            training.backward(row_squares, training.module(x))
            training.optimizer.step()
    assert training.accountant.steps == 3


def test_hooks_are_the_originals_and_see_noisy_gradients():
    training, seen = private(net(), X), []
    optimizer = training.optimizer
    optimizer.register_step_pre_hook(lambda inner, *_: seen.append(inner.param_groups[0]["params"][0].grad is not None))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    optimizer.register_state_dict_pre_hook(lambda _: seen.append("before saving"))
    optimizer.register_state_dict_post_hook(lambda _, state: seen.append("saved"))
    optimizer.register_load_state_dict_pre_hook(lambda _, state: seen.append("before loading"))
    optimizer.register_load_state_dict_post_hook(lambda _: seen.append("loaded"))
    train_once(training)
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == [True, "after", "before saving", "saved", "before loading", "loaded"]


def test_gradient_scaling_is_refused_with_the_cure():
    training = private(net(), X)
    scaler = torch.amp.GradScaler("cpu")
    (x,) = next(iter(training.data_loader))
    loss = training.loss(row_squares, training.module(x))
    with pytest.raises(GuaranteeError, match="GradScaler is not needed"):
        scaler.scale(loss).backward()
    loss.backward()
    with pytest.raises(ArgumentError, match="bfloat16"):
        scaler.step(training.optimizer)


def test_schedulers_step_when_a_batch_is_complete():
    training = private(net(), X, max_physical_batch_size=3, optimizer=None)
    scheduler = torch.optim.lr_scheduler.StepLR(training.optimizer, step_size=1, gamma=0.5)
    parts = 0
    for (x,) in training.data_loader:
        training.optimizer.zero_grad()
        training.backward(row_squares, training.module(x))
        training.optimizer.step()
        parts += 1
        if training.data_loader.drawn.complete:
            scheduler.step()
    assert (parts, training.accountant.steps, scheduler.last_epoch) == (3, 1, 1)
    assert training.noise_multiplier == 1.0


EMPTY = {
    "linear": (nn.Linear(3, 2), (3,)),
    "linear on sequences": (nn.Linear(3, 2), (4, 3)),
    "conv1d": (nn.Conv1d(3, 2, 2), (3, 4)),
    "conv2d": (nn.Conv2d(3, 2, 2), (3, 4, 4)),
    "group norm": (nn.GroupNorm(1, 4), (4, 3)),
    "layer norm": (nn.LayerNorm(3), (3,)),
    "rms norm": (nn.RMSNorm(3), (3,)),
    "embedding": (Tokens(nn.Embedding(4, 3), 4), (3,)),
    "own parameter": (nn.Sequential(nn.PReLU(3), nn.Linear(3, 2)), (3,)),
    "attention": (Picked(nn.MultiheadAttention(4, 2, batch_first=True), three_times=True), (3, 4)),
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("options", [{}, {"thresholds": "adaptive"}, {"clipping": "global"}, {"noise": "exact"}])
def test_empty_draws_take_a_step_of_noise(name, options, monkeypatch):
    layer, shape = EMPTY[name]
    monkeypatch.setattr(poisson_draw, "bernoulli", lambda size, rate: np.zeros(size, dtype=bool))
    training = private(layer, torch.randn(10, *shape), batch_size=5, steps=1, **options)
    train_once(training)
    assert training.accountant.steps == 1
    assert all(bool(p.grad.isfinite().all() and (p.grad != 0).any()) for p in training.module.parameters())


@pytest.mark.parametrize("clipping", ["global", "per_layer", "elementwise"])
def test_plans_and_summaries_name_the_layers(clipping):
    model = nn.Sequential(OrderedDict(first=nn.Linear(3, 6), last=nn.Linear(6, 2)))
    training = private(model, X, clipping=clipping)
    names = ["all"] if clipping == "global" else ["first", "last"]
    lines = training.optimizer.summary().splitlines()
    assert [line.split()[0] for line in lines] == ["group", *names]
    if clipping != "global":
        assert all(f"\n{name} " in str(training.optimizer.plan) for name in names)
    for at, line in enumerate(lines[1:]):
        _, size, threshold, scale, lost = line.split()
        assert int(size) == training.optimizer.plan.runs[at][1]
        assert float(threshold) == pytest.approx(training.optimizer.thresholds[at], rel=1e-5)
        assert float(scale) == pytest.approx(training.optimizer.plan.runs[at][0], rel=1e-5)
        assert lost == "none"


def test_the_signal_lost_to_allowances_is_shown_for_long_layers(monkeypatch):
    monkeypatch.setattr(fused_layers, "_pays", lambda *_, **__: True)
    model, x = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2)), torch.randn(3, 50, 4)
    training = private(model, x)
    train_once(training)
    shown = [float(line.split()[4]) for line in training.optimizer.summary().splitlines()[1:]]
    wanted = [100 * fused_layers.typical_loss(50, *sizes) for sizes in ((4, 6), (6, 2))]
    assert shown == pytest.approx(wanted, rel=0.05)
    assert min(shown) > 0
