"""Where noise ends, a neighbour releases what nobody else can: that probability is a delta of its own.

Generators on a GPU make a normal draw in float32 by Box and Muller of 32 bits: u >= 2^-33, so sqrt(-2 log u) <= 6.76.
"""

import math

import pytest
import torch
from scipy import stats

from internals import module_with

step_noise = module_with("inid.dpsgd.noise", "Recipe")

END = math.sqrt(2 * 33 * math.log(2))


def beyond(end, level, rate=0.01, steps=1000):
    """The chance that a run releases what its neighbour cannot: noise of scale 1, moved by the level."""
    return steps * rate * float(stats.norm.sf(end - level))


def ends_at(monkeypatch):
    """Where the noise ends if each draw ends at END."""
    monkeypatch.setattr(torch.Tensor, "normal_", lambda self, **_: self.fill_(END))
    return float(step_noise._two_normals(torch.zeros(1), torch.Generator()))


@pytest.mark.parametrize("multiplier", [1.0, 0.5, 1 / 3])
def test_noise_ends_too_late_to_matter(multiplier, monkeypatch):
    assert beyond(ends_at(monkeypatch), 1 / multiplier) < 1e-9


def test_twin_of_one_draw_costs_a_delta_of_its_own():
    assert beyond(END, 2.0) > 9e-6


def test_the_sum_of_two_draws_is_standard_normal():
    noise = step_noise._two_normals(torch.zeros(200_000), torch.Generator().manual_seed(3)).numpy()
    assert stats.kstest(noise, "norm").pvalue > 1e-6
    assert stats.kstest(noise, "norm", args=(0, 1.05)).pvalue < 1e-6
