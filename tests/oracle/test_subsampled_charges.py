"""Steps on a sample, charged by a ledger: no charge is below what a sampled step gives away."""

from fractions import Fraction
from math import exp, sqrt

import pytest
from scipy.special import ndtr

from inid.curves import Loss, Subsampled
from internals import module_with

loss_costs = module_with("inid.accounting", "loss_costs").loss_costs


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("rate", [0.99, 0.9999])
def test_sampled_laplace_steps_cost_a_mu_whose_gaussian_is_as_far_apart(epsilon, rate):
    """Two laws of one step differ by q (1 - exp(-e/2)) in total variation, mu-Gaussian ones by 2 Phi(mu/2) - 1.

    So mu^2 = e^2 a step is too little: five steps of e = 1/2 would cost 1.25 instead of 1.58.
    """
    steps = 5
    cost = float(loss_costs(Subsampled(Loss([epsilon]), rate, steps), ["mu_squared"])["mu_squared"])
    mu = sqrt(cost / steps)
    assert 2 * ndtr(mu / 2) - 1 >= rate * (1 - exp(-epsilon / 2))
    assert mu <= 1.26 * epsilon  # sqrt(pi / 2), which small steps come near to: no more than is needed


def test_five_sampled_laplace_steps_cost_what_the_table_says():
    found = loss_costs(Subsampled(Loss([0.5]), 0.5, 5), ["mu_squared", "epsilon", "rho"])
    assert float(found["mu_squared"]) == pytest.approx(1.578, abs=1e-3)
    assert found["rho"] == Fraction(5, 8)
    assert float(found["epsilon"]) == pytest.approx(5 * 0.2810, abs=1e-3)  # log(1 + (exp(1/2) - 1) / 2)
