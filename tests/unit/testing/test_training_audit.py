"""The one-run audit: its bounds hold, come close to the truth, and expose training that does not clip."""

import warnings

import numpy as np
import pytest
import torch
from scipy import stats

import inid
from inid.errors import ArgumentError
from inid.testing import audit_training, unsafe_seed
from inid.testing.training_audit import chance_of_guesses, least_epsilon, least_mu
from internals import module_with
from training import make_private

DELTA = 1e-5


def audited(*, epsilon=8.0, **arguments):
    def make(**parts):
        return make_private(
            **parts, target_epsilon=epsilon, target_delta=DELTA, steps=2, clipping="global", max_grad_norm=1.0
        )

    torch.manual_seed(3)
    data = torch.randn(300, 4), torch.randn(300, 1)
    given = {"epochs": 1, "batch_size": 5300, "delta": DELTA, "seed": 3} | arguments
    with unsafe_seed(3), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="this run is NOT private")  # its noise is repeatable on purpose
        return audit_training(make, torch.nn.Linear(4, 1), data, torch.nn.functional.mse_loss, **given)


def test_a_run_at_epsilon_8_proves_at_least_3():
    found = audited()
    assert found.claimed == pytest.approx(8.0, rel=1e-3)
    assert 3 <= found.epsilon <= found.epsilon_if_gaussian <= 8
    assert not found.exposed
    assert f"{found.right} of 400 guesses" in str(found)


def test_a_run_without_clipping_is_exposed(monkeypatch):
    clipping = module_with("inid.dpsgd.grad_sample", "_shares")
    monkeypatch.setattr(clipping, "_shares", lambda norms, least: torch.full_like(norms, 1 / least))
    found = audited(epsilon=2.0)
    assert found.right == found.guesses
    assert found.exposed
    assert "broken" in str(found)
    monkeypatch.undo()
    assert not audited(epsilon=2.0).exposed


def test_examples_as_canaries_stay_below_the_claim():
    found = audited(kind="example", canaries=100, batch_size=300)
    assert found.kind == "example"
    assert found.epsilon <= found.claimed


@pytest.mark.parametrize(("canaries", "mu", "guesses"), [(2000, 1.0, 100), (300, 0.5, 60), (1000, 2.0, 300)])
def test_bounds_are_above_the_truth_no_more_often_than_stated(canaries, mu, guesses):
    """Two hundred idealised runs; a bound that is wrong in one of twenty exceeds 40 with a chance below 1e-12."""
    draw = np.random.default_rng(5)
    truth = inid.GaussianDP(mu=mu).to_approx(delta=DELTA).epsilon
    above = [0, 0]
    for _ in range(200):
        inside = draw.integers(0, 2, canaries).astype(bool)
        order = np.argsort(draw.normal(size=canaries) + mu * inside)
        half = guesses // 2
        right = int(inside[order[-half:]].sum() + (~inside[order[:half]]).sum())
        above[0] += least_epsilon(right, guesses, canaries, DELTA, 0.95) > truth
        above[1] += least_mu(right, guesses, canaries, 0.95) > mu
    assert max(above) <= 40


def test_all_right_guesses_about_randomised_responses_are_as_probable_as_stated():
    """With delta = 0 the first statement is exact for randomised response."""
    for epsilon in (0.0, 1.0, 3.0):
        chance = 1 / (1 + np.exp(-epsilon))
        assert chance_of_guesses(20, 20, 500, epsilon, 0.0) == pytest.approx(chance**20)
        assert chance_of_guesses(15, 20, 500, epsilon, 0.0) == pytest.approx(stats.binom.sf(14, 20, chance))
    assert chance_of_guesses(15, 20, 500, 1.0, 1e-3) > chance_of_guesses(15, 20, 500, 1.0, 0.0)


def test_nothing_follows_from_guesses_by_chance():
    assert least_epsilon(10, 20, 100, DELTA, 0.95) == 0.0
    assert least_mu(10, 20, 100, 0.95) == 0.0
    assert least_mu(20, 20, 100, 0.95) > 0.3


def test_a_wrong_bound_would_be_noticed():
    """Without the term of delta the bound exceeds the truth of a mechanism that gives everything away at times."""
    canaries, guesses, delta = 200, 100, 0.2
    draw = np.random.default_rng(1)
    above = [0, 0]
    for _ in range(200):  # (0, delta)-DP for each canary: with probability delta all coins are published
        leaked = draw.random() < delta
        right = guesses if leaked else int(draw.binomial(guesses, 0.5))
        above[0] += least_epsilon(right, guesses, canaries, delta, 0.95) > 0
        above[1] += least_epsilon(right, guesses, canaries, 0.0, 0.95) > 0
    assert above[0] <= 20 < above[1]


@pytest.mark.parametrize(
    "arguments", [{"guesses": 6000}, {"kind": "label"}, {"confidence": 1.0}, {"kind": "example"}, {"canaries": 1}]
)
def test_bad_arguments_are_refused(arguments):
    with pytest.raises(ArgumentError):
        audited(**arguments)
