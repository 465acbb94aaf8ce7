"""A run that a ledger does not take is told which noise fits."""

import re

import pytest
import torch
from torch import nn

from inid import ApproxDP, Ledger
from inid.errors import BudgetError
from training import private, row_squares

X = torch.randn(200, 5, generator=torch.Generator().manual_seed(1))


def begun(total, **options):
    """The first step of a run of a hundred, at rate 0.1."""
    ledger = Ledger(total=ApproxDP(total, 1e-5), neighbours="zero_out")
    options = {"noise_multiplier": None, "batch_size": 20, "steps": 100, "ledger": ledger} | options
    training = private(nn.Linear(5, 2), X, **options)
    (x,) = next(iter(training.data_loader))
    training.backward(row_squares, training.module(x))
    training.optimizer.step()
    return ledger


def multiplier_in(refused):
    return float(re.search(r"With noise_multiplier=([0-9.]+) instead", str(refused.value))[1])


@pytest.mark.parametrize("total", [1.0, 8.0])
def test_the_noise_with_which_a_refused_run_fits_is_named_and_is_the_least(total):
    with pytest.raises(BudgetError, match="all 100 steps fit") as refused:
        begun(total, target_epsilon=total, target_delta=1e-5)
    named = multiplier_in(refused)
    assert begun(total, noise_multiplier=named).room().share < 1
    with pytest.raises(BudgetError, match="all 100 steps fit") as refused:
        begun(total, noise_multiplier=0.995 * named)
    assert multiplier_in(refused) == pytest.approx(named, rel=2e-3)


def test_where_no_noise_fits_none_is_named():
    ledger = begun(1.0, noise_multiplier=50.0)
    with pytest.raises(BudgetError, match="no room") as refused:
        begun(1.0, noise_multiplier=1e-3, ledger=ledger)
    assert "noise_multiplier=" not in str(refused.value)
