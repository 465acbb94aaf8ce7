"""Real runs of make_private, many examples at once: the delta that their releases show is the accountant's.

Every example has a parameter of its own (a row of an embedding), to which nobody else adds: one run is an independent
draw of "coins and noise of one example" for each. Which group an example is in is taken as known. The log likelihood
ratio of its releases over all outcomes of its coins is exact, so that the mean of (1 - exp(epsilon - ratio))+ estimates
delta without bias; runs without examples in their positions are those of the neighbour. Seeds are fixed; deltas are
compared with three standard errors.
"""

import math
from itertools import product
from unittest import mock

import numpy as np
import pytest
import torch
from scipy.linalg import toeplitz
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.dpsgd.noise import whole_coefficients
from inid.dpsgd.sampling import CyclicSchedule
from inid.testing import unsafe_seed
from training import make_private

STEPS, BANDS, RATE = 9, 3, 0.3
SIZES = {"torch": 60_000, "exact": 4_500}  # rows are written down for the latter


class Own(nn.Module):
    """One number for each example."""

    def __init__(self, size):
        super().__init__()
        self.table = nn.Embedding(size, 1)

    def forward(self, at):
        return self.table(at)


def released(factor, noise="torch", rate=RATE):
    """What a run releases for each example, over the noise of scale 1, and the run."""
    torch.manual_seed(0)
    size = SIZES[noise]
    model = Own(size)
    with unsafe_seed(31):
        training = make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
            data_loader=DataLoader(TensorDataset(torch.arange(size)), batch_size=round(size * rate / BANDS)),
            loss_reduction="sum",
            noise_multiplier=1.0,
            steps=STEPS,
            correlation=dpsgd.Banded(BANDS),
            noise=noise,
        )
        found = np.empty((size, STEPS))
        for step, (at,) in enumerate(training.data_loader):
            training.optimizer.zero_grad()
            training.backward(lambda row: (factor * row).sum(), training.module(at))
            training.optimizer.step()
            found[:, step] = model.table.weight.grad.flatten().double().numpy()
    return found, training


def groups(training):
    return [training.data_loader._partition.examples_of(group) for group in range(BANDS)]


def ratios(found, matrix, steps, rate):
    """The log likelihood ratio of releases with an example in these steps to those without."""
    coins = np.array(list(product((0, 1), repeat=len(steps))))
    chances = np.where(coins == 1, rate, 1 - rate).prod(1)
    means = coins @ matrix[:, steps].T
    parts = []
    for some in np.array_split(found, 20):
        made = some @ matrix.T @ means.T - (means**2).sum(1) / 2 + np.log(chances)
        highest = made.max(1)
        parts.append(highest + np.log(np.exp(made - highest[:, None]).sum(1)))
    return np.concatenate(parts)


def estimate(epsilon, ratio):
    """Delta and its standard error."""
    values = 1 - np.exp(np.minimum(0, epsilon - ratio))
    return float(values.mean()), float(values.std()) / math.sqrt(values.size)


def strategy(exact):
    c = dpsgd.Banded(BANDS).coefficients(STEPS)
    if exact:
        whole = np.array(whole_coefficients(c), dtype=float)
        c = whole / np.linalg.norm(whole)
    return toeplitz(np.concatenate([c, np.zeros(STEPS - BANDS)]), np.zeros(STEPS))


@pytest.mark.parametrize("noise", ["torch", "exact"])
def test_the_releases_of_a_run_show_the_delta_that_is_charged(noise):
    matrix = strategy(noise == "exact")
    (there, training), (away, other) = (released(factor, noise) for factor in (1.0, 0.0))
    assert [(each.sample_rate, each.steps) for each in training.accountant.history] == [(RATE, STEPS // BANDS)]
    run = training.accountant.history[0].composition()
    for own, (group, without) in enumerate(zip(groups(training), groups(other), strict=True)):
        took = list(range(own, STEPS, BANDS))
        present, absent = ratios(there[group], matrix, took, RATE), ratios(away[without], matrix, took, RATE)
        for epsilon in (1.0, 2.0):
            claim = run.delta(epsilon)
            (removed, error), (added, other_error) = estimate(epsilon, present), estimate(epsilon, -absent)
            assert max(removed - 3 * error, added - 3 * other_error) <= claim
            if own == 0:  # whose columns are all of norm 1: what is charged is what it costs
                assert claim <= removed + 3 * error


def test_with_plain_poisson_sampling_the_releases_show_more():
    """The twin: in every step everybody is drawn from, at a third of the rate; noise and charge are as before."""

    def everybody(self, turns, key):
        self._schedule = turns  # no groups: the rate stays that of plain sampling

    with (
        mock.patch.object(dpsgd.PoissonLoader, "follow_schedule", everybody),
        mock.patch.object(CyclicSchedule, "group", return_value=0),
    ):
        found, training = released(1.0, rate=0.6)
    rate = training.data_loader.sample_rate
    assert rate == 0.2
    claim = dpsgd.Segment("gaussian", 1.0, 0.6, STEPS // BANDS).composition().delta(3.0)
    delta, error = estimate(3.0, ratios(found[:20_000], strategy(exact=False), list(range(STEPS)), rate))
    assert delta - 3 * error > claim
