"""correlation=: what a run takes, what it says about it, and that its parts work together."""

import math
import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import ArgumentError
from inid.testing import unsafe_no_noise
from internals import module_with
from training import make_private

clipped_sums = module_with("inid.dpsgd.grad_sample", "Rule")

X = torch.randn(400, 6, generator=torch.Generator().manual_seed(1))


def made(**options):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 2))
    given = {"target_epsilon": 8.0, "target_delta": 1e-5, "epochs": 2, "loss_reduction": "sum", "correlation": "auto"}
    given = {key: value for key, value in (given | options).items() if value is not ...}
    return make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(X), batch_size=10),
        **given,
    )


def train(training, epochs=1):
    for _ in range(epochs):
        for (x,) in training.data_loader:
            training.optimizer.zero_grad()
            training.backward(lambda row: row.square().sum(), training.module(x))
            training.optimizer.step()


def test_auto_takes_what_the_plan_chooses_and_keeps_the_promise():
    training = made()
    planned = dpsgd.plan_training(400, 10, 2, 8.0, 1e-5).chosen
    own = training.optimizer.correlation
    assert (own.bands, own.noise_multiplier, own.ratio) == (
        planned.correlation.bands,
        planned.noise_multiplier,
        planned.ratio,
    )
    assert own.ratio < 0.95
    assert training.noise_multiplier == own.noise_multiplier
    train(training, 2)
    assert 7.9 < training.accountant.get_epsilon(1e-5) <= 8.0
    assert training.accountant.steps == own.sampling.blocks


@pytest.mark.parametrize("epsilon", [0.5, 8.0])
@pytest.mark.parametrize("epochs", [1, 30])
def test_auto_is_never_worse_than_independent_noise(epsilon, epochs):
    own = made(target_epsilon=epsilon, epochs=epochs).optimizer.correlation
    assert own.ratio <= 1
    assert own.bands == 1 or own.ratio <= 0.95


def test_where_it_does_not_pay_noise_stays_independent():
    training = made(target_epsilon=0.1, epochs=30)
    plain = made(target_epsilon=0.1, epochs=30, correlation=None)
    assert training.optimizer.correlation.bands == 1
    assert "would not have 5 % less" in str(training.optimizer.correlation)
    assert training.noise_multiplier == plain.noise_multiplier
    assert training.data_loader.sample_rate == plain.data_loader.sample_rate
    assert plain.optimizer.correlation is None


def test_it_prints_bands_multiplier_ratio_single_steps_memory_and_adam():
    own = made(correlation=dpsgd.Banded(8)).optimizer.correlation
    said = str(own)
    for each in (
        "over 8 steps",
        f"multiplier {own.noise_multiplier:.3g}",
        f"{own.ratio:.3f} times that of independent noise",
        f"single step: up to {own.single_step:.2f} times",
        "Adam",
        f"{7 * 38 * 4 / 1e6:.3g} MB",
    ):
        assert each in said
    stated = made(correlation=dpsgd.Banded(8), noise_multiplier=1.0, target_epsilon=..., target_delta=...)
    assert stated.optimizer.correlation.ratio is None
    assert "times fresh noise" in str(stated.optimizer.correlation)


def test_a_strategy_takes_less_than_a_tenth_of_a_second():
    dpsgd.Banded(3).coefficients(10)  # loads what it needs
    start = time.process_time()
    dpsgd.Banded(64).coefficients(1999)
    assert time.process_time() - start < 0.1


@pytest.mark.parametrize(
    "options",
    [
        {"clipping": "per_layer", "total": 1.0},
        {"clipping": "per_layer", "thresholds": "adaptive"},
        {"clipping": "elementwise"},
        {"noise": "exact"},
        {"max_physical_batch_size": 4},
        {"augmentations": 2},
        {"pad_batches": False},
        {"neighbours": "add_remove", "sample_rate": 0.025, "steps": 40, "epochs": ...},
        {"sample_rate": 0.025},
        {"sample_rate": np.float64(0.025)},
    ],
    ids=str,
)
def test_it_goes_with_the_other_options(options):
    training = made(correlation=dpsgd.Banded(4), **options)
    train(training)
    assert training.accountant.steps == training.optimizer.correlation.sampling.blocks
    assert training.data_loader.sample_rate == pytest.approx(0.1)
    assert all(bool(p.isfinite().all()) for p in training.module.parameters())


def test_the_sums_are_those_without_correlation_where_there_is_no_noise():
    """Every group is drawn whole, so that a round gives the sums of all examples."""
    found = []
    with unsafe_no_noise():
        for options in ({"correlation": dpsgd.Banded(40), "steps": 40}, {"sample_rate": 1.0, "steps": 1}):
            training = made(
                noise_multiplier=1.0,
                target_epsilon=...,
                target_delta=...,
                epochs=...,
                **{"correlation": None} | options,
            )
            training.optimizer.original.param_groups[0]["lr"] = 0.0
            total = 0.0
            for (x,) in training.data_loader:
                training.optimizer.zero_grad()
                training.backward(lambda row: row.square().sum(), training.module(x))
                training.optimizer.step()
                total = total + torch.cat([p.grad.flatten() for p in training.module.parameters()]).double()
            found.append(total)
    assert float((found[0] - found[1]).norm() / found[1].norm()) < 1e-5


@pytest.mark.parametrize("cut", [True, False])
def test_gradients_between_quanta_are_cut_before_they_are_held(cut, monkeypatch):
    """What is held is whole quanta; the twin leaves gradients as they are."""
    if not cut:
        monkeypatch.setattr(clipped_sums, "_truncated", lambda rows, factors, _: (rows * factors[:, None]).sum(0))
    training = made(correlation=dpsgd.Banded(4), noise="exact")
    train(training)
    noise = training.optimizer._correlated._noise
    quantum = 2.0 ** math.floor(math.log2(training.optimizer.plan.runs[0][0])) * 2.0**-16
    steps = noise._history._vectors / quantum
    assert torch.equal(steps, steps.round()) == cut


def test_a_recorded_backward_goes_with_it():
    training = made(correlation=dpsgd.Banded(4))
    backward = dpsgd.captured_backward(
        training, lambda x: training.loss(lambda row: row.square().sum(), training.module(x))
    )
    for (x,) in training.data_loader:
        training.optimizer.zero_grad()
        backward(x)
        training.optimizer.step()
    assert training.optimizer._correlated.schedule.next == 40


def test_laplace_noise_would_cost_more_than_it_is_charged():
    """Why it is refused: what one participation adds to all releases has an l1 norm above 1, up to the root of b."""
    for bands in (2, 16, 64):
        c = dpsgd.Banded(bands).coefficients(500)
        assert 1.2 < np.abs(c).sum() <= math.sqrt(bands)
        assert np.linalg.norm(c) <= 1


def test_groups_at_a_stated_rate_may_be_all_batches():
    """Ten groups at a rate of 0.1 hold all examples, though ten times the float is a little more than 1."""
    training = made(
        correlation=dpsgd.Banded(10), sample_rate=0.1, noise_multiplier=1.0, target_epsilon=..., target_delta=...
    )
    assert training.data_loader.sample_rate == 1.0
    with pytest.raises(ArgumentError, match="at most 10 groups"):
        made(correlation=dpsgd.Banded(11), sample_rate=0.1, noise_multiplier=1.0, target_epsilon=..., target_delta=...)


def test_a_malformed_correlation_is_named():
    with pytest.raises(ArgumentError, match="correlation"):
        made(correlation=0.5)
