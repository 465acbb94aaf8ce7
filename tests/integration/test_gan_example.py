"""The example of two models in one loop runs, and its generator meets private points through released numbers alone."""

import copy
import runpy

import pytest
import torch
from torch.nn import functional

from inid.errors import GuaranteeError
from markdown_examples import PROJECT


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(PROJECT / "examples" / "private_gan.py"))


def test_both_models_are_trained_and_the_promise_is_kept(example):
    torch.manual_seed(0)
    first = copy.deepcopy(example["network"](example["SEED_SIZE"], 2))
    torch.manual_seed(0)
    generator, private = example["train"](epsilon=8.0, epochs=4, points=400, batch=100)
    assert private.accountant.steps == 16
    assert private.accountant.get_epsilon(1e-5) <= 8.0
    changed = [not torch.equal(a, b) for a, b in zip(generator.parameters(), first.parameters(), strict=True)]
    assert all(changed)


def test_points_on_the_ring_are_near_it_and_others_are_not(example):
    assert example["near_the_ring"](example["ring"](500, seed=3)) > 0.99
    assert example["near_the_ring"](torch.zeros(5, 2)) == 0


def test_a_generator_that_trains_through_the_private_model_itself_is_refused(example):
    """The released copy is what makes it post-processing: rows that the loader did not hand out are not admitted."""
    generator, private = example["train"](epsilon=8.0, epochs=1, points=40, batch=20)
    next(iter(private.data_loader))
    made = generator(torch.randn(7, example["SEED_SIZE"]))
    scores = private.module(made)
    with pytest.raises(GuaranteeError, match="row by row"):
        functional.softplus(-scores).mean().backward()
    with pytest.raises(GuaranteeError, match="not one of the drawn batch"):
        private.backward(lambda own: functional.softplus(-own).mean(), private.module(made))
    assert not private.optimizer.step_state.sums.begun


def test_the_command_prints_what_was_reached(example, capsys):
    example["main"](["--epochs", "1"])
    assert "epsilon spent" in capsys.readouterr().out
