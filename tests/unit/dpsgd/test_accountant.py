"""What a run costs: counted step by step, read without a change, as a peer reckons it, and aimed at without waste."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from dp_accounting.pld import privacy_loss_distribution
from torch import nn

from inid import dpsgd
from inid.errors import ArgumentError, RecordError
from internals import module_with
from training import private, train_once

CASES = [(1.0, 0.01, 1000, 1e-5), (0.8, 0.02, 500, 1e-6), (2.0, 0.1, 300, 1e-5), (1.5, 1.0, 20, 1e-5)]


def counted(multiplier, rate, steps, mechanism="gaussian"):
    accountant = dpsgd.Accountant()
    for _ in range(steps):
        accountant.step(mechanism=mechanism, noise_multiplier=multiplier, sample_rate=rate)
    return accountant


@np.errstate(under="ignore")  # the peer is not made for a NumPy that raises
def peer_epsilon(multiplier, rate, steps, delta, *, mechanism="gaussian", pessimistic):
    make = {
        "gaussian": privacy_loss_distribution.from_gaussian_mechanism,
        "laplace": privacy_loss_distribution.from_laplace_mechanism,
    }[mechanism]
    one = make(
        multiplier,
        sampling_prob=rate,
        value_discretization_interval=1e-4,
        pessimistic_estimate=pessimistic,
        use_connect_dots=pessimistic,
    )
    return one.self_compose(steps).get_epsilon_for_delta(delta)


@pytest.mark.parametrize(("multiplier", "rate", "steps", "delta"), CASES)
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_epsilon_agrees_with_dp_accounting(multiplier, rate, steps, delta, mechanism):
    """Never below what the peer holds for possible, and close to what it certifies."""
    multiplier = multiplier if mechanism == "gaussian" else 4 * multiplier
    ours = counted(multiplier, rate, steps, mechanism).get_epsilon(delta)
    common = (multiplier, rate, steps, delta)
    assert ours >= peer_epsilon(*common, mechanism=mechanism, pessimistic=False)
    assert ours == pytest.approx(peer_epsilon(*common, mechanism=mechanism, pessimistic=True), rel=0.01)


def test_reading_changes_nothing():
    accountant = counted(1.0, 0.1, 7)
    before, history = accountant.state_dict(), accountant.history
    for _ in range(3):
        accountant.get_epsilon(1e-5)
        accountant.get_delta(1.0)
        accountant.composition()
        repr(accountant)
    assert accountant.state_dict() == before
    assert accountant.history == history
    assert accountant.steps == 7


def test_one_more_step_costs_more():
    costs = [counted(1.0, 0.1, steps).get_epsilon(1e-5) for steps in (1, 2, 5, 20)]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]


def test_epsilon_and_delta_are_two_views_of_one_curve():
    accountant = counted(1.0, 0.05, 100)
    assert accountant.get_delta(accountant.get_epsilon(1e-5)) <= 1e-5 * (1 + 1e-6)
    assert accountant.get_delta(0.9 * accountant.get_epsilon(1e-5)) > 1e-5


def test_segments_keep_their_order_and_add_up():
    accountant = counted(1.0, 0.1, 3)
    accountant.step(mechanism="gaussian", noise_multiplier=2.0, sample_rate=0.1)
    accountant.step(mechanism="gaussian", noise_multiplier=1.0, sample_rate=0.1)
    assert [segment.steps for segment in accountant.history] == [3, 1, 1]
    assert accountant.steps == 5
    same = counted(1.0, 0.1, 4).get_epsilon(1e-5)
    assert accountant.get_epsilon(1e-5) > same


def test_a_record_survives_json():
    accountant = counted(1.25, 0.3, 4)
    accountant.step(mechanism="laplace", noise_multiplier=3.0, sample_rate=0.2, private=False)
    other = dpsgd.Accountant()
    other.load_state_dict(json.loads(json.dumps(accountant.state_dict())))
    assert other.history == accountant.history
    assert other.private is False
    assert "NOT PRIVATE" in repr(other)
    with pytest.warns(UserWarning, match="NOT private"):
        assert other.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)


@pytest.mark.parametrize(
    "entry",
    [
        ["uniform", 1.0, 0.1, 3],
        ["gaussian", 0.0, 0.1, 3],
        ["gaussian", float("nan"), 0.1, 3],
        ["gaussian", 1.0, 1.1, 3],
        ["gaussian", 1.0, 0.1, 0],
        ["gaussian", 1.0, 0.1],
        5,
    ],
)
def test_a_damaged_record_is_refused_and_changes_nothing(entry):
    accountant = counted(1.0, 0.1, 2)
    before = accountant.state_dict()
    with pytest.raises(RecordError):
        accountant.load_state_dict({**before, "history": [entry]})
    with pytest.raises(RecordError):
        accountant.load_state_dict({})
    assert accountant.state_dict() == before


def test_nothing_spent_costs_nothing_and_questions_are_checked_even_then():
    accountant = dpsgd.Accountant()
    assert accountant.get_epsilon(1e-5) == 0
    assert accountant.get_delta(1.0) == 0
    with pytest.raises(ArgumentError):
        accountant.get_epsilon(float("nan"))
    with pytest.raises(ArgumentError):
        accountant.get_delta(-1)
    with pytest.raises(ArgumentError, match="no step"):
        accountant.composition()


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize(("epsilon", "rate", "steps"), [(0.5, 0.02, 200), (8.0, 0.05, 500), (2.0, 1.0, 1)])
def test_a_target_is_met_and_not_wasted(epsilon, rate, steps, mechanism):
    multiplier = dpsgd.noise_multiplier_for(
        target_epsilon=epsilon, target_delta=1e-5, sample_rate=rate, steps=steps, mechanism=mechanism
    )
    spent = counted(multiplier, rate, steps, mechanism).get_epsilon(1e-5)
    assert 0.99 * epsilon <= spent <= epsilon


@pytest.mark.parametrize("options", [{}, {"thresholds": "adaptive"}, {"mechanism": "laplace"}])
def test_a_whole_run_meets_its_target(options):
    model, x = nn.Linear(3, 2), torch.randn(40, 3)
    targets = {"noise_multiplier": None, "target_epsilon": 2.0, "target_delta": 1e-3, "epochs": 3}
    training = private(model, x, batch_size=10, **targets, **options)
    for _ in range(3):
        train_once(training)
    assert training.accountant.steps == 3 * training.data_loader.steps == 12
    assert 0.99 * 2.0 <= training.accountant.get_epsilon(1e-3) <= 2.0
    assert training.accountant.private


def test_a_resumed_run_counts_from_where_it_stopped():
    model, x = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)), torch.randn(40, 3)
    options = {"batch_size": 10, "noise_multiplier": 1.5, "thresholds": "adaptive"}
    once = private(model, x, **options)
    train_once(once)
    state = {"model": once.module.state_dict(), "optimizer": once.optimizer.state_dict()}
    again = private(model, x, **options)
    again.module.load_state_dict(state["model"])
    again.optimizer.load_state_dict(state["optimizer"])
    assert again.optimizer.thresholds == once.optimizer.thresholds
    assert again.optimizer.plan.runs == once.optimizer.plan.runs
    assert again.accountant.steps == 4
    train_once(again)
    assert again.accountant.get_epsilon(1e-5) == counted(1.5, 0.25, 8).get_epsilon(1e-5)


def test_the_states_of_the_inner_optimizer_and_of_schedulers_are_carried():
    model, x = nn.Linear(3, 2), torch.randn(8, 3)
    training = private(model, x)
    inner = training.optimizer.original
    inner.param_groups[0]["momentum"] = 0.9
    schedule = torch.optim.lr_scheduler.StepLR(training.optimizer, 1, gamma=0.5)
    inner.param_groups[0]["lr"] = 0.5
    train_once(training)
    schedule.step()
    assert training.optimizer.param_groups[0]["lr"] == 0.25
    kept = training.optimizer.state_dict()
    other = private(model, x)
    other.optimizer.load_state_dict(kept)
    assert other.optimizer.param_groups[0]["lr"] == 0.25
    buffers = [value["momentum_buffer"] for value in other.optimizer.state.values()]
    assert all(torch.equal(a, b["momentum_buffer"]) for a, b in zip(buffers, inner.state.values(), strict=True))


def test_the_charge_comes_before_the_noise(monkeypatch):
    """A crash while noise is drawn loses budget, never privacy."""
    optimizer = module_with("inid.dpsgd", "PrivateOptimizer")

    def fails(*_):
        raise RuntimeError("out of power")

    training = private(nn.Linear(3, 2), torch.randn(8, 3))
    monkeypatch.setattr(optimizer, "add_planned_noise", fails)
    with pytest.raises(RuntimeError, match="out of power"):
        train_once(training)
    assert training.accountant.steps == 1


EVERY_WAY = [
    {"clipping": clipping, "allocation": allocation, "mechanism": mechanism, **more}
    for clipping in ("global", "per_layer", "elementwise")
    for allocation in ("optimal", "spr", "iid")
    for mechanism in ("gaussian", "laplace")
    for more in ({}, {"thresholds": "sqrt_size"}, {"total": 0.5}, {"thresholds": "adaptive"})
    if not (clipping != "per_layer" and "total" in more)
    and not (clipping == "elementwise" and len(more) and "adaptive" in more.values())
]


@pytest.mark.parametrize("options", EVERY_WAY, ids=lambda options: " ".join(map(str, options.values())))
def test_equal_multipliers_are_equal_privacy(options):
    """Every plan is for the very same mu or epsilon, proves it, and is for the sets that clipping keeps to."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    training = private(model, torch.randn(4, 3), noise_multiplier=0.8, **options)
    plan = training.optimizer.plan
    assert plan.verify()
    level = Fraction(1 / 0.8)
    spent = Fraction(plan.budget.mu if options["mechanism"] == "gaussian" else plan.budget.epsilon)
    if options.get("thresholds") == "adaptive":
        counts = Fraction(dpsgd.Adaptive().split(1 / 0.8, options["mechanism"])[1])
        power = 2 if options["mechanism"] == "gaussian" else 1
        whole = spent**power + counts**power
        assert counts > 0
        assert Fraction(999_999, 1_000_000) * level**power <= whole <= level**power
    else:
        assert spent == level
    if options["clipping"] != "elementwise" and "total" not in options:
        assert plan.sensitivity.limits.tolist() == training.optimizer.thresholds
        norm = 2 if options["mechanism"] == "gaussian" else 1
        whole = sum(c**norm for c in training.optimizer.thresholds) ** (1 / norm)
        assert math.isclose(whole, 1.0, rel_tol=1e-12)


def test_the_optimal_allocation_is_never_worse():
    model = nn.Sequential(nn.Linear(30, 4), nn.Linear(4, 2))
    for clipping in ("global", "per_layer", "elementwise"):
        errors = {
            allocation: private(model, torch.randn(4, 30), clipping=clipping, allocation=allocation).optimizer.plan.mse
            for allocation in ("optimal", "spr", "iid")
        }
        assert errors["optimal"] <= min(errors.values()) * (1 + 1e-12)
    assert errors["optimal"] < 0.99 * errors["iid"]
