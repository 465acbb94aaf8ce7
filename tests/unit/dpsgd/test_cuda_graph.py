"""Recorded backwards: what is checked before a replay, what is recorded anew, and that the sums are the ordinary ones.

The recording of these tests runs its work again instead of a CUDA graph; a graph's own are in integration.
"""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import ArgumentError, GuaranteeError
from inid.testing import unsafe_no_noise, unsafe_seed
from internals import module_with
from training import make_private

module = module_with("inid.dpsgd", "captured_backward")


class Again:
    """Stands for a CUDA graph: recording leaves no trace in the sums, a replay does the work under the recording."""

    sums = None
    made = 0

    def __init__(self):
        type(self).made += 1

    @staticmethod
    def possible(_device):
        return True

    def record(self, work):
        before = self.sums.flat.clone()
        work()
        self.sums.flat.copy_(before)
        self._work = work

    def replay(self):
        found = []
        self.gradients.record(lambda: found.append(self._work()))
        return found[0]


@pytest.fixture
def again(monkeypatch):
    monkeypatch.setattr(module, "Recording", Again)
    monkeypatch.setattr(Again, "made", 0)
    return Again


def made(rate=1.0, **options):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    data = TensorDataset(torch.randn(60, 5), torch.randint(0, 3, (60,)))
    training = make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(data, batch_size=int(60 * rate)),
        noise_multiplier=1.0,
        clipping="per_layer",
        **options,
    )
    Again.sums, Again.gradients = training.optimizer.step_state.sums, training.optimizer.gradients
    return training, dpsgd.captured_backward(
        training, lambda x, y: training.loss(nn.functional.cross_entropy, training.module(x), y)
    )


def trained(training, backward, epochs):
    for _ in range(epochs):
        for x, y in training.data_loader:
            training.optimizer.zero_grad()
            backward(x, y)
            training.optimizer.step()
    return [p.detach().clone() for p in training.module.parameters()]


@pytest.mark.parametrize("size", [None, 7])
def test_replays_are_the_ordinary_steps(again, size):
    """Over padded batches too, and over batches that come in several parts."""
    found = []
    for recorded in (False, True):
        with unsafe_seed(2), unsafe_no_noise():
            training, backward = made(rate=0.2, max_physical_batch_size=size)
            ordinary = lambda x, y, t=training: t.backward(nn.functional.cross_entropy, t.module(x), y)  # noqa: E731
            found.append(trained(training, backward if recorded else ordinary, 10))
    assert again.made == 1
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_a_loss_of_the_whole_batch_is_refused_before_anything_is_recorded(again):
    training, _ = made(rate=0.2)
    backward = dpsgd.captured_backward(training, lambda x, y: nn.functional.cross_entropy(training.module(x), y))
    with pytest.raises(GuaranteeError, match="row by row"):
        trained(training, backward, 3)
    assert again.made == 0


def test_a_replay_is_checked_like_a_backward(again):
    training, backward = made()
    trained(training, backward, 5)
    assert again.made == 1
    x, y = next(iter(training.data_loader))
    backward(x, y)
    with pytest.raises(GuaranteeError, match="twice over what the loader handed out once"):
        backward(x, y)
    training.optimizer.step()
    with pytest.raises(GuaranteeError, match="handed out 0"):
        backward(x, y)


def test_a_replay_refuses_frozen_parameters(again):
    training, backward = made()
    trained(training, backward, 5)
    x, y = next(iter(training.data_loader))
    training.module[0].weight.requires_grad_(False)
    with pytest.raises(GuaranteeError, match="was frozen after make_private"):
        backward(x, y)


def test_an_earlier_forward_is_refused_after_a_replay(again):
    training, backward = made()
    trained(training, backward, 5)
    x, y = next(iter(training.data_loader))
    early = training.loss(nn.functional.cross_entropy, training.module(x), y)
    backward(x, y)
    with pytest.raises(GuaranteeError):
        early.backward()


def test_other_thresholds_and_moved_parameters_are_recorded_anew(again):
    training, backward = made()
    trained(training, backward, 5)
    training.optimizer.load_state_dict(training.optimizer.state_dict())
    trained(training, backward, 4)
    assert again.made == 2
    training.module[0].weight.data = training.module[0].weight.data.clone()
    trained(training, backward, 4)
    assert again.made == 3


def test_modes_of_parts_are_recorded_anew(again):
    training, backward = made()
    trained(training, backward, 5)
    training.module[1].eval()
    trained(training, backward, 3)
    assert again.made == 1
    trained(training, backward, 1)
    assert again.made == 2


def test_runs_that_fail_do_not_prepare_a_recording(again):
    """The mask of padding is made in ordinary runs: within a recording, every replay would write over it."""
    training, backward = made(rate=0.2)
    batches = list(training.data_loader)  # read ahead
    for x, y in batches[:4]:
        with pytest.raises(GuaranteeError, match=r"read ahead|another order"):
            backward(x, y)
    assert again.made == 0


def test_a_replay_refuses_parameters_that_were_added(again):
    training, backward = made()
    trained(training, backward, 5)
    training.module.append(nn.Linear(3, 3))
    with pytest.raises(GuaranteeError, match="was added"):
        trained(training, backward, 1)


def test_noise_is_drawn_anew_after_every_replay(again):
    training, backward = made()
    trained(training, backward, 5)
    found = []
    for _ in range(2):
        state = [p.detach().clone() for p in training.module.parameters()]
        trained(training, backward, 1)
        found.append(torch.cat([p.grad.flatten() for p in training.module.parameters()]))
        for parameter, was in zip(training.module.parameters(), state, strict=True):
            parameter.data.copy_(was)
    assert again.made == 1
    assert not bool((found[0] == found[1]).any())


def test_thresholds_that_adapt_are_refused():
    with pytest.raises(ArgumentError, match="adapt"):
        made(thresholds="adaptive")


def test_a_loss_that_does_not_call_the_module_is_refused(again):
    training, _ = made()
    weight = torch.ones(5, requires_grad=True)
    backward = dpsgd.captured_backward(training, lambda x, y: (x @ weight).mean())
    for _ in range(3):
        (x, y) = next(iter(training.data_loader))
        training.optimizer.zero_grad()
        backward(x, y)
    with pytest.raises(GuaranteeError, match="no backward over the private module"):
        backward(x, y)


def test_what_fails_in_recording_says_what_to_do(again, monkeypatch):
    training, backward = made()

    def broken(_self, _work):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(again, "record", broken)
    with pytest.raises(ArgumentError, match="cannot be recorded"):
        trained(training, backward, 5)


def test_without_a_gpu_every_run_is_ordinary():
    training, backward = made()
    trained(training, backward, 6)
    assert training.accountant.steps == 6
