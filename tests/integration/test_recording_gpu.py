"""On a GPU: steps replayed from a recording are the ordinary ones, with fresh noise and the same checks."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import ArgumentError, GuaranteeError
from inid.testing import unsafe_no_noise, unsafe_seed
from needs import needs
from training import make_private


@pytest.fixture(autouse=True)
def gpu():
    needs("gpu")


def trained(*, recorded, steps=40, rate=1.0, clipping="per_layer", **options):
    """The parameters after so many steps, the training, and what the backward was called through."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 36, 10),
        nn.LayerNorm(10),
    ).cuda()
    images, labels = torch.randn(60, 3, 6, 6), torch.randint(0, 10, (60,))
    made = make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(images.cuda(), labels.cuda()), batch_size=int(60 * rate)),
        noise_multiplier=1.0,
        clipping=clipping,
        **options,
    )
    backward = dpsgd.captured_backward(made, lambda x, y: made.loss(nn.functional.cross_entropy, made.module(x), y))
    done = 0
    while done < steps:
        for x, y in made.data_loader:
            made.optimizer.zero_grad()
            if recorded:
                backward(x, y)
            else:
                made.backward(nn.functional.cross_entropy, made.module(x), y)
            made.optimizer.step()
            done += 1
    return [p.detach().clone() for p in net.parameters()], made, backward


@pytest.mark.parametrize("clipping", ["per_layer", "global", "elementwise"])
def test_replays_are_the_ordinary_steps(clipping):
    found = []
    for recorded in (False, True):
        with unsafe_seed(1), unsafe_no_noise():
            found.append(trained(recorded=recorded, rate=0.2, steps=60, clipping=clipping))
    (wanted, _, _), (replayed, _, backward) = found
    assert backward._recording is not None
    for one, other in zip(wanted, replayed, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-6)


def test_two_replays_on_the_same_batch_differ_by_their_noise():
    _, made, backward = trained(recorded=True, steps=6)
    assert backward._recording is not None
    seen = []
    for _ in range(2):
        for x, y in made.data_loader:
            made.optimizer.zero_grad()
            backward(x, y)
            clipped = made.optimizer.step_state.sums.flat.clone()
            before = [p.detach().clone() for p in made.module.parameters()]
            made.optimizer.step()
            for parameter, was in zip(made.module.parameters(), before, strict=True):
                parameter.data.copy_(was)
            seen.append((clipped, torch.cat([p.grad.flatten() for p in made.module.parameters()])))
    (sums, first), (again, second) = seen
    assert torch.allclose(sums, again, rtol=1e-5, atol=1e-6)
    assert float((first - second).abs().min()) >= 0
    assert float((first == second).double().mean()) < 0.01


def test_a_batch_is_replayed_once():
    _, made, backward = trained(recorded=True, steps=6)
    x, y = next(iter(made.data_loader))
    made.optimizer.zero_grad()
    backward(x, y)
    with pytest.raises(GuaranteeError, match="backward ran twice"):
        backward(x, y)


def test_new_thresholds_are_recorded_anew():
    _, made, backward = trained(recorded=True, steps=6)
    before = backward._recording
    state = made.optimizer.state_dict()
    state["inid"]["thresholds"] = [2 * each for each in state["inid"]["thresholds"]]
    made.optimizer.load_state_dict(state)
    for _ in range(5):
        for x, y in made.data_loader:
            made.optimizer.zero_grad()
            backward(x, y)
            made.optimizer.step()
    assert backward._recording is not None
    assert backward._recording is not before


def test_what_waits_for_the_gpu_cannot_be_recorded():
    _, made, _ = trained(recorded=False, steps=1)

    def loss(x, y):
        outputs = made.module(x)
        assert float(outputs.detach().square().sum()) >= 0  # reading it waits
        return made.loss(nn.functional.cross_entropy, outputs, y)

    backward = dpsgd.captured_backward(made, loss)

    def step():
        for x, y in made.data_loader:
            made.optimizer.zero_grad()
            backward(x, y)
            made.optimizer.step()

    for _ in range(3):
        step()
    _, other, replayed = trained(recorded=True, steps=6)
    assert replayed._recording is not None
    stream = torch.cuda.current_stream()
    for x, y in made.data_loader:
        made.optimizer.zero_grad()
        with pytest.raises(ArgumentError, match="cannot be recorded"):
            backward(x, y)
        # The process goes on as if nothing had been tried: random numbers, ordinary steps, recordings old and new.
        assert torch.cuda.current_stream() == stream
        assert len(set(torch.randn(100, device="cuda").tolist())) > 90
        torch.cuda.empty_cache()
        loss(x, y).backward()
        made.optimizer.step()
    assert made.accountant.steps == 5
    for x, y in other.data_loader:
        other.optimizer.zero_grad()
        replayed(x, y)
        other.optimizer.step()
    assert trained(recorded=True, steps=6)[2]._recording is not None
