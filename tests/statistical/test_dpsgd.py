"""Training adds the noise that its plan says, samples as it says, adapts its thresholds, and withstands an audit.

Sums of squares of Gaussian noise follow a chi-square law, sums of absolute values of Laplace noise a gamma law: with
200,000 draws a scale that is wrong by 3 % lies 13 standard deviations away or more.
"""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.testing import audit_epsilon, unsafe_seed
from internals import module_with
from statistical.false_alarms import AUDIT_CONFIDENCE, CORRELATION_SIGMAS, REJECT_BELOW
from training import private, sums, train_once

stepping = module_with("inid.dpsgd", "PrivateOptimizer")

WRONG = 1.03


def p_value(noise, scale, mechanism):
    """Two-sided, of the scale alone; the law of the sum is exact."""
    if mechanism == "gaussian":
        low = stats.chi2.cdf(np.sum((noise / scale) ** 2), noise.size)
    else:
        low = stats.gamma.cdf(np.sum(np.abs(noise / scale)), noise.size)
    return 2 * min(low, 1 - low)


def shape_p_value(noise, scale, mechanism):
    return stats.kstest(noise / scale, "norm" if mechanism == "gaussian" else "laplace").pvalue


def drawn(noise, mechanism, dtype=torch.float32, **options):
    """The noise of one step, group by group, with the planned scales: all gradients are zero."""
    model = nn.Sequential(nn.Linear(500, 400, bias=False), nn.Linear(400, 500, bias=False)).to(dtype)
    training = private(model, torch.zeros(2, 500, dtype=dtype), noise=noise, mechanism=mechanism, **options)
    plan = training.optimizer.plan
    train_once(training)
    flat = np.concatenate([p.grad.double().numpy().ravel() for p in training.module.parameters()])
    ends = np.cumsum([0, *[count for _, count in plan.runs]])
    return [(flat[a:b], scale) for a, b, (scale, _) in zip(ends, ends[1:], plan.runs, strict=False)]


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("noise", ["torch", "exact"])
def test_the_planned_scales_are_what_is_added(noise, mechanism):
    with unsafe_seed(71):
        groups = drawn(noise, mechanism, max_grad_norm=[1.0, 0.2], noise_multiplier=1.7)
    other = "laplace" if mechanism == "gaussian" else "gaussian"
    assert len(groups) == 2
    assert groups[0][1] > 1.5 * groups[1][1]
    for values, scale in groups:
        assert p_value(values, scale, mechanism) > REJECT_BELOW
        assert p_value(values, scale * WRONG, mechanism) < REJECT_BELOW
        assert p_value(values, scale / WRONG, mechanism) < REJECT_BELOW
        assert shape_p_value(values, scale, mechanism) > REJECT_BELOW
        assert shape_p_value(values, scale * (0.7 if other == "laplace" else 1.4), other) < REJECT_BELOW


@pytest.mark.parametrize(
    "options", [{"clipping": "global"}, {"clipping": "elementwise"}, {"total": 0.6}, {"allocation": "iid"}]
)
def test_the_noise_of_other_ways_of_clipping(options):
    with unsafe_seed(72):
        groups = drawn("torch", "gaussian", dtype=torch.float64, **options)
    for values, scale in groups:
        assert p_value(values, scale, "gaussian") > REJECT_BELOW
        assert p_value(values, scale * WRONG, "gaussian") < REJECT_BELOW


def test_noise_is_fresh_in_every_step_and_for_every_parameter():
    with unsafe_seed(73):
        training = private(nn.Linear(500, 400, bias=False), torch.zeros(2, 500))
        steps = []
        for _ in range(2):
            train_once(training)
            steps.append(training.module.weight.grad.flatten().double().numpy())
    one, two = steps
    assert abs(np.corrcoef(one, two)[0, 1]) < CORRELATION_SIGMAS / np.sqrt(one.size)
    half = one.size // 2
    assert abs(np.corrcoef(one[:half], one[half:])[0, 1]) < CORRELATION_SIGMAS / np.sqrt(half)
    assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < CORRELATION_SIGMAS / np.sqrt(one.size)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
@pytest.mark.parametrize("source", ["torch", "exact"])
def test_the_counts_of_adaptive_thresholds_get_their_own_noise(source, mechanism):
    """Thresholds move by exp(-rate * noisy fraction): their logarithms show the noise of the counts."""
    groups, level, examples = 200_000, 0.05, 1e12
    adaptive = dpsgd.Adaptive(rate=1.0)
    with unsafe_seed(74):
        moved = adaptive.moved(
            [1.0] * groups,
            torch.zeros(groups, dtype=torch.float64),
            examples=examples,
            level=level,
            mechanism=mechanism,
            source=source,
        )
    noise = -np.log(moved) * examples
    scale = 0.5 * np.sqrt(groups) / level if mechanism == "gaussian" else 0.5 * groups / level
    assert p_value(noise, scale, mechanism) > REJECT_BELOW
    assert p_value(noise, scale * WRONG, mechanism) < REJECT_BELOW


@pytest.mark.parametrize("quantile", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_thresholds_settle_at_the_quantile(quantile, mechanism):
    """Two layers whose gradients have fixed, very different lengths; the start is far off on both sides.

    600 examples per step: the noise of the fraction is below 0.01, so that after 80 steps the fraction of examples
    within a threshold is within 0.06 of the quantile (six standard deviations).
    """
    torch.manual_seed(9)
    x = torch.randn(1200, 4) * torch.exp(torch.randn(1200, 1))

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(4, 1, bias=False), nn.Linear(4, 1, bias=False)

        def forward(self, x):
            return self.one(x) + 20 * self.two(x)

    adaptive = dpsgd.Adaptive(quantile=quantile, rate=0.4, share=0.2)
    with unsafe_seed(75):
        training = private(
            Two(), x, batch_size=600, max_grad_norm=[30.0, 0.1], thresholds=adaptive, mechanism=mechanism
        )
        for _ in range(40):
            train_once(training, lambda output: output.flatten())
    lengths = torch.linalg.vector_norm(x, ord=2 if mechanism == "gaussian" else 1, dim=1)
    for threshold, factor in zip(training.optimizer.thresholds, (1, 20), strict=True):
        within = float((lengths * factor <= threshold).float().mean())
        assert abs(within - quantile) < 0.06


def test_normalised_thresholds_keep_their_norm():
    torch.manual_seed(9)
    x = torch.randn(200, 4)
    with unsafe_seed(76):
        training = private(
            nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), x, thresholds=dpsgd.Adaptive(normalise=True, rate=0.5)
        )
        for _ in range(5):
            train_once(training)
    moved = training.optimizer.thresholds
    assert np.hypot(*moved) == pytest.approx(1.0, rel=1e-9)
    assert moved[0] != pytest.approx(moved[1], rel=1e-3)


def test_examples_are_drawn_independently_with_the_rate():
    """1200 examples, 400 steps, rate 0.15: totals, examples, pairs of steps and pairs of examples."""
    size, steps, rate = 1200, 400, 0.15
    loader = dpsgd.PoissonLoader(DataLoader(TensorDataset(torch.arange(size)), batch_size=int(size * rate)))
    assert loader.sample_rate == rate
    taken = []
    with unsafe_seed(77):
        while len(taken) < steps:
            row = np.zeros(size)
            for (chosen,) in loader:
                row[chosen[loader.drawn.mask].numpy()] = 1
                if loader.drawn.complete:
                    taken.append(row)
                    row = np.zeros(size)
    table = np.array(taken[:steps])
    total = int(table.sum())
    assert stats.binomtest(total, size * steps, rate).pvalue > REJECT_BELOW
    assert stats.binomtest(total, size * steps, rate * WRONG).pvalue < REJECT_BELOW
    for axis, count in ((0, steps), (1, size)):  # per example, and per step: binomial spread, no more and no less
        along = table.sum(axis)
        spread = np.sum((along - count * rate) ** 2) / (count * rate * (1 - rate))
        low = stats.chi2.cdf(spread, along.size)
        assert 2 * min(low, 1 - low) > REJECT_BELOW
    for one, two in ((table[:-1], table[1:]), (table[:, :-1], table[:, 1:])):
        found = np.corrcoef(one.ravel(), two.ravel())[0, 1]
        assert abs(found) < CORRELATION_SIGMAS / np.sqrt(one.size)


RUNS, RATE, DELTA, MULTIPLIER = 3000, 0.5, 0.05, 0.7
sound = stepping.add_planned_noise


def halved(sums, *more):
    return sums + (sound(sums, *more) - sums) / 2


class Plain(nn.Module):
    """Two layers whose gradients are their inputs."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 1, bias=False), nn.Linear(3, 1, bias=False)

    def forward(self, x):
        return self.one(x) + self.two(x)


def canary_scores(canary, seed, **options):
    """The log-likelihood ratio of the canary's clipped gradient in one step each; all other examples are zero."""
    x = torch.zeros(4, 3)
    x[0] = 1e6  # it is clipped to the thresholds of both groups
    moved = torch.cat([sum_.flatten() for sum_ in sums(Plain(), x, loss=torch.flatten, **options).values()])
    if not canary:
        x[0] = 0
    scores = []
    with unsafe_seed(seed):
        training = private(Plain(), x, batch_size=2, noise_multiplier=MULTIPLIER, **options)
        weights = moved.double() / torch.from_numpy(training.optimizer.plan.scales) ** 2
        while len(scores) < RUNS:
            for (batch,) in training.data_loader:
                training.optimizer.zero_grad()
                training.backward(torch.sum, training.module(batch))
                training.optimizer.step()
                seen = torch.cat([p.grad.flatten() for p in training.module.parameters()])
                scores.append(float(weights @ seen.double()))
    assert training.data_loader.sample_rate == RATE
    return scores


def audited(seed, **options):
    one, two = canary_scores(True, seed, **options), canary_scores(False, seed + 1, **options)
    return audit_epsilon(one, two, delta=DELTA, confidence=AUDIT_CONFIDENCE).epsilon


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"max_grad_norm": [1.0, 0.3]}, {"clipping": "elementwise"}])
def test_an_audit_stays_below_the_reported_epsilon_and_catches_half_the_noise(options, monkeypatch):
    """What an attacker proves about a canary in one step at rate 1/2, beside what the accountant reports for it."""
    accountant = dpsgd.Accountant()
    accountant.step(mechanism="gaussian", noise_multiplier=MULTIPLIER, sample_rate=RATE)
    reported = accountant.get_epsilon(DELTA)
    assert 0 < audited(81, **options) <= reported
    monkeypatch.setattr(stepping, "add_planned_noise", halved)
    assert audited(83, **options) > reported
