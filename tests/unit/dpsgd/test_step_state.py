"""A step goes through the phases that the documentation draws, in their order; nothing else moves it."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from inid.dpsgd import PHASES
from inid.errors import GuaranteeError
from training import private, row_squares

PROJECT = Path(__file__).resolve().parents[3]


def training(**options):
    torch.manual_seed(0)
    return private(nn.Linear(3, 2), torch.randn(8, 3), batch_size=8, **options)


def test_a_step_in_one_batch():
    made = training()
    state = made.optimizer.step_state
    met = [state.phase]
    (x,) = next(iter(made.data_loader))
    met.append(state.phase)
    made.optimizer.zero_grad()
    met.append(state.phase)
    output = made.module(x)
    met.append(state.phase)
    made.backward(row_squares, output)
    met.append(state.phase)
    made.optimizer.step()
    met.append(state.phase)
    assert met == ["no batch", "batch", "batch", "outputs", "sums", "no batch"]
    assert not state.sums.begun
    assert not state.sums.flat.any()
    assert set(state.given) == set(made.module.parameters())


def test_gradients_flow_in_the_phase_of_the_backward(monkeypatch):
    made = training()
    state, seen = made.optimizer.step_state, []
    taken = made.optimizer.gradients._accumulator.take
    monkeypatch.setattr(
        made.optimizer.gradients._accumulator, "take", lambda *args: seen.append(state.phase) or taken(*args)
    )
    (x,) = next(iter(made.data_loader))
    made.backward(row_squares, made.module(x))
    assert seen == ["backward"]


def test_a_batch_in_parts():
    made = training(max_physical_batch_size=4)
    state, met = made.optimizer.step_state, []
    for (x,) in made.data_loader:
        made.optimizer.zero_grad()
        met.append(state.phase)
        made.backward(row_squares, made.module(x))
        met.append(state.phase)
        made.optimizer.step()
        met.append(state.phase)
    parts = made.data_loader.physical_batches
    assert parts > 1
    assert met == ["batch", "part", "part"] * (parts - 1) + ["batch", "sums", "no batch"]


def test_what_is_thrown_away_may_be_used_again():
    made = training()
    state = made.optimizer.step_state
    (x,) = next(iter(made.data_loader))
    made.backward(row_squares, made.module(x))
    assert state.phase == "sums"
    made.optimizer.zero_grad()
    assert (state.phase, bool(state.sums.flat.any())) == ("batch", False)
    made.backward(row_squares, made.module(x))
    assert state.phase == "sums"


def test_a_call_that_does_not_fit_a_phase_is_refused_and_leaves_it():
    made = training()
    state = made.optimizer.step_state
    (x,) = next(iter(made.data_loader))
    made.backward(row_squares, made.module(x))
    before = state.sums.flat.clone()
    with pytest.raises(GuaranteeError, match="twice"):
        made.backward(row_squares, made.module(x))
    assert torch.equal(state.sums.flat, before)
    made.optimizer.step()
    with pytest.raises(GuaranteeError, match="without a new batch"):
        made.optimizer.step()
    assert state.phase == "no batch"


def test_the_picture_and_the_page_name_every_phase():
    page = (PROJECT / "docs/dpsgd/step.md").read_text(encoding="utf-8")
    picture = (PROJECT / "docs/pictures/step-state.svg").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z ]+)` \|", page, re.MULTILINE) == list(PHASES)
    assert all(f">{phase}<" in picture for phase in PHASES)
