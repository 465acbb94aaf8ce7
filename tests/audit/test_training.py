"""A private training loop, by record and replay: in every step one example moves the sums as far as the step covers."""

import inspect
import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.testing import record, replay
from internals import module_with
from mutated_noise import four_times
from training import make_private

X = np.random.default_rng(1).normal(size=(24, 4)).astype(np.float32)
Y = (X[:, 0] > 0).astype(np.int64)
LOOPS = {
    "global": {"clipping": "global"},
    "per layer": {"clipping": "per_layer"},
    "element-wise": {"clipping": "elementwise"},
    "exact noise": {"clipping": "global", "noise": "exact"},
    "Laplace": {"clipping": "global", "mechanism": "laplace"},
    "automatic": {"clipping": "automatic"},
    "adaptive": {"clipping": "per_layer", "thresholds": "adaptive"},
    "in parts": {"clipping": "global", "max_physical_batch_size": 4},
    "correlated": {"clipping": "global", "correlation": dpsgd.Banded(bands=2), "steps": 4},
}


def trained(**arguments):
    def train(data):
        torch.manual_seed(0)
        rows, labels = (torch.from_numpy(part) for part in data)
        model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
        private = make_private(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(TensorDataset(rows, labels), batch_size=8),
            **{"noise_multiplier": 1.0, "max_grad_norm": 0.5, "steps": 3, **arguments},
        )  # fmt: skip
        for x, y in private.data_loader:
            private.optimizer.zero_grad()
            private.backward(nn.functional.cross_entropy, private.module(x), y)
            private.optimizer.step()
        return model.state_dict()

    return train


def others():
    """One example with other data, far out; under "zero_out" that is two changes."""
    for at in (0, 11, 23):
        rows, labels = X.copy(), Y.copy()
        rows[at] *= -1e4
        labels[at] = 1 - labels[at]
        yield rows, labels


@pytest.mark.parametrize("name", LOOPS)
def test_one_example_moves_a_step_as_far_as_it_covers(name):
    tape = record(trained(**LOOPS[name]), (X, Y))
    assert len(tape.draws) >= 3
    for other in others():
        found = replay(tape, other, changes=2)
        assert not found.violations, str(found)


@pytest.mark.parametrize("name", LOOPS)
def test_sums_that_a_step_does_not_cover_are_found(name, monkeypatch):
    four_times(monkeypatch)
    tape = record(trained(**LOOPS[name]), (X, Y))
    assert "sensitivity" in (v.kind for other in others() for v in replay(tape, other, changes=2).violations)


CHOICES = {
    "clipping": (dpsgd.Clipping, "kind"),
    "thresholds": (dpsgd.Clipping, "thresholds"),
    "noise": (dpsgd.Noise, "source"),
    "mechanism": (dpsgd.Noise, "mechanism"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_every_way_to_clip_and_to_add_noise_is_audited(name):
    value, field = CHOICES[name]
    option = inspect.signature(value).parameters[field]
    words = set(re.findall(r"'(\w+)'", str(option.annotation))) - {"sqrt_size"}  # public thresholds, as flat ones are
    assert words == {loop.get(name, option.default) for loop in LOOPS.values()} | {option.default}


@pytest.mark.parametrize("name", ["global", "per layer"])
def test_training_that_does_not_clip_is_found(name, monkeypatch):
    clipping = module_with("inid.dpsgd.grad_sample", "_shares")
    monkeypatch.setattr(clipping, "_shares", lambda norms, least: torch.full_like(norms, 1 / least))
    tape = record(trained(**LOOPS[name], sample_rate=1.0), (X, Y))
    assert {v.kind for other in others() for v in replay(tape, other, changes=2).violations} == {"sensitivity"}
