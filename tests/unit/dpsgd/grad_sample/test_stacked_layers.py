"""Like layers that are clipped together give the sums that they give one by one."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from attack.test_clipped_sums import added, assert_within, limits_of
from inid.dpsgd.grad_sample import DenseGrads, Rule, SeparateStack, Sums
from internals import module_with
from training import groups_of, private, slow_sums, sums

stacked_layers = module_with("inid.dpsgd.grad_sample", "room")
fused_layers = module_with("inid.dpsgd.grad_sample", "ghost_grads")
gathered_rows = module_with("inid.dpsgd", "GradAccumulator")


class Blocks(nn.Module):
    """Three blocks alike, one layer that is used twice, and one whose settings differ."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(6, eps=1e-5 if at < 3 else 1e-2) for at in range(4))
        self.ups = nn.ModuleList(nn.Linear(6, 9) for _ in range(3))
        self.downs = nn.ModuleList(nn.Linear(9, 6, bias=False) for _ in range(3))
        self.twice = nn.Linear(6, 6)

    def forward(self, x):
        for norm, up, down in zip(self.norms, self.ups, self.downs, strict=False):
            x = x + down(functional.gelu(up(norm(x))))
        return self.norms[-1](self.twice(self.twice(x).tanh()))


def pictures():
    layers = [nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Tanh()]
    for dilation in (1, 1, 2):
        layers += [nn.Conv2d(4, 4, 3, padding=dilation, dilation=dilation), nn.GroupNorm(2, 4), nn.Tanh()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 64), nn.Linear(64, 64))


MODELS = {"blocks": (Blocks, (5, 6)), "pictures": (pictures, (3, 4, 4))}


@pytest.fixture
def stacks(monkeypatch):
    """Layers wait on a CPU too; how many were taken together each time."""
    taken = []
    work = gathered_rows.GradAccumulator._work_out

    def watched(self, turn, units, inputs, gradients):
        taken.append(len(units))
        work(self, turn, units, inputs, gradients)

    monkeypatch.setattr(gathered_rows, "room", lambda _device: 2**30)
    monkeypatch.setattr(gathered_rows.GradAccumulator, "_work_out", watched)
    return taken


def built(name, dtype=torch.float64):
    make, shape = MODELS[name]
    torch.manual_seed(0)
    model = make().to(dtype)
    lengths = torch.logspace(-1, 1, 5, dtype=dtype).view(-1, *[1] * len(shape))
    return model, torch.randn(5, *shape, dtype=dtype) * lengths


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("clipping", ["global", "per_layer"])
@pytest.mark.parametrize("name", MODELS)
def test_sums_are_those_of_a_slow_loop(name, clipping, fused, stacks, monkeypatch):
    if fused:
        monkeypatch.setattr(fused_layers, "_FEW", 0)
    model, x = built(name)
    groups = groups_of(model, clipping)
    thresholds = [0.3] * len(groups)
    wanted = slow_sums(model, x, thresholds, groups=groups, clipping=clipping)
    found = sums(model, x, max_grad_norm=thresholds, clipping=clipping)
    assert sorted(stacks)[-3:] == ([3, 3, 3] if name == "blocks" else [1, 2, 4])
    for key, sum_ in wanted.items():
        assert torch.allclose(found[key], sum_, rtol=1e-7, atol=1e-9), key


def test_groups_with_other_thresholds_are_clipped_by_their_own(stacks):
    model, x = built("blocks")
    groups = groups_of(model, "per_layer")
    thresholds = [0.1 * (1 + at % 5) for at in range(len(groups))]
    wanted = slow_sums(model, x, thresholds, groups=groups, clipping="per_layer")
    found = sums(model, x, max_grad_norm=thresholds, clipping="per_layer")
    assert max(stacks) < 3
    for key, sum_ in wanted.items():
        assert torch.allclose(found[key], sum_, rtol=1e-7, atol=1e-9), key


@pytest.mark.parametrize(
    "way", [{"noise": "exact"}, {"mechanism": "laplace"}, {"clipping": "elementwise"}, {"total": 1}]
)
def test_what_other_rules_clip_does_not_wait(way, stacks):
    model, x = built("blocks")
    sums(model, x, max_grad_norm=0.3, **way)
    assert set(stacks) == {1}


def test_little_room_takes_layers_sooner(stacks, monkeypatch):
    model, x = built("blocks")
    wanted = sums(model, x, max_grad_norm=0.3)
    stacks.clear()
    monkeypatch.setattr(gathered_rows, "room", lambda _device: 12_000)
    found = sums(model, x, max_grad_norm=0.3)
    assert stacks.count(2)
    assert 3 not in stacks
    for key, sum_ in wanted.items():
        assert torch.allclose(found[key], sum_, rtol=1e-12), key


@pytest.mark.parametrize("factor", [1e30, 1e-30, float("inf"), float("nan"), 1.0])
@pytest.mark.parametrize("clipping", ["global", "per_layer"])
@pytest.mark.parametrize("name", MODELS)
def test_one_example_stays_within_the_plan(name, clipping, factor, stacks):
    model, x = built(name, torch.float32)
    training = private(model, x[:1], max_grad_norm=0.5, clipping=clipping)
    found = added(training, lambda output: output.flatten(1).square().sum(1) * factor)
    assert_within(found, limits_of(training))
    assert max(stacks) > 1


def test_counts_of_examples_are_those_of_each_group(stacks, monkeypatch):
    model, x = built("blocks")

    def inside():
        training = private(model, x, max_grad_norm=0.3, thresholds="adaptive")
        added(training)
        return training.optimizer.step_state.sums.inside.tolist()

    found = inside()
    assert max(stacks) == 3
    monkeypatch.setattr(gathered_rows, "room", stacked_layers.room)
    assert found == inside()


def test_padding_adds_nothing_in_any_layer():
    """The mask of one batch is that of every layer; rows of padding taken as examples would be seen."""
    rows = torch.arange(1.0, 13.0).view(6, 2)
    made = Sums([[2], [2]], torch.float32, torch.device("cpu"))
    made.begin(torch.tensor([True, False, True]))
    places = [made.place(at, 0) for at in range(2)]
    made.add_groups([0, 1], [SeparateStack(DenseGrads(rows), places)], 1.0, Rule(2, [100.0, 100.0], 0.0))
    assert torch.allclose(made.flat, torch.tensor([6.0, 8.0, 18.0, 20.0]))


def test_each_backward_has_padding_of_its_own():
    """The mask that layers share is made once in a backward; that of the backward before would count padding."""
    rows = torch.arange(1.0, 13.0).view(6, 2)
    made = Sums([[2], [2]], torch.float32, torch.device("cpu"))
    places, rule = [made.place(at, 0) for at in range(2)], Rule(2, [100.0, 100.0], 0.0)
    found = []
    for placed in ([True, False, True], [False, True, False]):
        made.begin(torch.tensor(placed))
        for _ in range(2):
            made.add_groups([0, 1], [SeparateStack(DenseGrads(rows), places)], 1.0, rule)
        found.append(made.flat.clone())
        made.clear()
    assert torch.allclose(found[0], 2 * torch.tensor([6.0, 8.0, 18.0, 20.0]))
    assert torch.allclose(found[1], 2 * torch.tensor([3.0, 4.0, 9.0, 10.0]))


def test_a_layer_that_met_more_than_the_kernels_take_is_taken_alone():
    waiting = stacked_layers.Waiting()
    many = torch.zeros(40_000, 1)
    kind = stacked_layers.Kind(many, many, 2**30)
    assert waiting.add(kind, None, many, many)
    assert not waiting.add(kind, None, many, many)
