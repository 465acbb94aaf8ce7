"""What is refused before training begins: layers that mix examples, and arguments that do not fit."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, SubsetRandomSampler, TensorDataset, WeightedRandomSampler

from inid import dpsgd
from inid.errors import ArgumentError, BudgetError
from training import make_private, private

X = torch.arange(24.0).reshape(8, 3) / 10


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


REFUSED = [
    (nn.BatchNorm1d(8), r"BatchNorm1d\) normalises over the batch.*GroupNorm\(1, 8\)"),
    (nn.BatchNorm2d(6), r"GroupNorm\(1, 6\)"),
    (nn.SyncBatchNorm(5), r"GroupNorm\(1, 5\)"),
    (nn.LazyBatchNorm2d(), "normalises over the batch|no shape yet"),
    (nn.InstanceNorm2d(4, track_running_stats=True), "track_running_stats=False"),
    (nn.Embedding(4, 3, max_norm=1.0), "leave max_norm out"),
    (nn.EmbeddingBag(4, 3, max_norm=1.0), "leave max_norm out"),
    (nn.LazyLinear(3), "no shape yet"),
    (nn.LSTM(3, 3), "batch_first=True"),
    (nn.MultiheadAttention(4, 2), "batch_first=True"),
    (nn.TransformerEncoderLayer(4, 2, 8), "batch_first=True"),
]


@pytest.mark.parametrize(("part", "message"), REFUSED, ids=[type(part).__name__ for part, _ in REFUSED])
def test_layers_that_mix_examples_are_refused_by_name(part, message):
    model = nn.Sequential(nn.Linear(3, 3), part)
    with pytest.raises(ArgumentError, match=message) as caught:
        dpsgd.make_private(
            module=model,
            optimizer=torch.optim.SGD(model[0].parameters(), lr=0.1),
            data_loader=DataLoader(TensorDataset(X), batch_size=8),
            noise_multiplier=1.0,
        )
    assert "'1" in str(caught.value)


def test_wrapped_models_are_refused():
    with pytest.raises(ArgumentError, match=r"model\.module"):
        private(nn.DataParallel(net()), X)


BAD = [
    ({"module": 3}, "torch.nn.Module"),
    ({"optimizer": 3}, "torch optimizer"),
    ({"optimizer": torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)}, "not the module's"),
    ({"data_loader": [X]}, "DataLoader"),
    ({"data_loader": DataLoader(TensorDataset(X), batch_size=9)}, "smaller batch_size"),
    ({"data_loader": DataLoader(TensorDataset(X), batch_size=None)}, "batch_size"),
    ({"data_loader": DataLoader(TensorDataset(X), 4, sampler=SubsetRandomSampler([1, 2]))}, "Subset"),
    ({"data_loader": DataLoader(TensorDataset(X), 4, sampler=WeightedRandomSampler([1.0] * 8, 8))}, "sampler"),
    ({"noise_multiplier": None}, "target_epsilon"),
    ({"noise_multiplier": 0.0}, "noise_multiplier"),
    ({"noise_multiplier": float("nan")}, "noise_multiplier"),
    ({"target_epsilon": 1.0}, "not both"),
    ({"noise_multiplier": None, "target_epsilon": 1.0, "target_delta": 1e-5}, "all of"),
    ({"noise_multiplier": None, "target_epsilon": -1.0, "target_delta": 1e-5, "epochs": 1}, "target_epsilon"),
    ({"noise_multiplier": None, "target_epsilon": 1.0, "target_delta": 2.0, "epochs": 1}, "delta"),
    ({"noise_multiplier": None, "target_epsilon": 1.0, "target_delta": 1e-5, "epochs": 0}, "epochs"),
    ({"max_grad_norm": 0.0}, "max_grad_norm"),
    ({"max_grad_norm": float("nan")}, "max_grad_norm"),
    ({"max_grad_norm": 1e-30}, "scale the loss"),
    ({"max_grad_norm": 1e30}, "scale the loss"),
    ({"max_grad_norm": [1.0]}, "2 entries"),
    ({"max_grad_norm": [1.0, -1.0]}, r"max_grad_norm\[1\]"),
    ({"clipping": "flat"}, "clipping"),
    ({"allocation": "best"}, "allocation"),
    ({"mechanism": "uniform"}, "mechanism"),
    ({"noise": "none"}, "noise"),
    ({"loss_reduction": "none"}, "loss_reduction"),
    ({"thresholds": "moving"}, "thresholds"),
    ({"thresholds": "adaptive", "clipping": "elementwise"}, "no norms to follow"),
    ({"total": 1.0, "clipping": "global"}, "total goes with per_layer"),
    ({"total": -1.0}, "total"),
    ({"total": 1e30}, "total"),
    ({"max_physical_batch_size": 0}, "max_physical_batch_size"),
    ({"pad_batches": False}, "secret number"),
    ({"epochs": 1, "steps": 2}, "not both"),
    ({"steps": 0}, "steps"),
    ({"neighbours": "replace"}, "neighbours"),
    ({"neighbours": "add_remove"}, r"sample_rate=\.\.\.\) and steps="),
    ({"sample_rate": 1.5}, "sample_rate"),
    ({"sample_rate": float("nan")}, "sample_rate"),
    ({"groups": "0"}, "groups"),
    ({"groups": []}, "groups"),
    ({"groups": [["0"]]}, "leave out"),
    ({"groups": [["0"], ["0", "2"]]}, "already"),
    ({"groups": [["0"], ["nothing"]]}, "names nothing"),
    ({"groups": [["0", "2"], ["1"]]}, "no trainable parameter"),
    ({"groups": [["0", "2"], []]}, r"groups\[1\]"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[f"{at}-{next(iter(c))}" for at, (c, _) in enumerate(BAD)])
def test_bad_arguments_are_named_and_change_nothing(change, message):
    model = net()
    before = copy.deepcopy(model.state_dict())
    options = {
        "module": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "data_loader": DataLoader(TensorDataset(X), batch_size=4),
        "noise_multiplier": 1.0,
        "clipping": "per_layer",
    }
    with pytest.raises(ArgumentError, match=message):
        make_private(**(options | change))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    model[0](X)  # no wrapper was left behind
    assert "forward" not in vars(model)


def test_optimizers_that_do_not_fit():
    model = net()
    loader = DataLoader(TensorDataset(X), batch_size=4)
    common = {"module": model, "data_loader": loader, "noise_multiplier": 1.0}
    with pytest.raises(ArgumentError, match="does not hold all trainable"):
        make_private(optimizer=torch.optim.SGD(model[0].parameters(), lr=0.1), **common)
    with pytest.raises(ArgumentError, match="LBFGS"):
        make_private(optimizer=torch.optim.LBFGS(model.parameters()), **common)
    training = make_private(optimizer=torch.optim.SGD(model.parameters(), lr=0.1), **common)
    with pytest.raises(ArgumentError, match="private already"):
        make_private(optimizer=torch.optim.SGD(model.parameters(), lr=0.1), **common)
    training.optimizer.detach()
    with pytest.raises(ArgumentError, match="not yet private"):
        make_private(optimizer=training.optimizer, **common)


def test_parameters_of_several_kinds_are_refused():
    model = net()
    model[2].double()
    with pytest.raises(ArgumentError, match="all of one type"):
        private(model, X)
    with pytest.raises(ArgumentError, match="float32 or float64"):
        private(net().bfloat16(), X.bfloat16())
    with pytest.raises(ArgumentError, match="no trainable parameter"):
        private(net().requires_grad_(False), X, optimizer=torch.optim.SGD([torch.zeros(1)], lr=0.1))


def test_streams_are_refused():
    class Stream(IterableDataset):
        def __iter__(self):
            yield from X

    model = net()
    with pytest.raises(ArgumentError, match="with a length"):
        dpsgd.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(Stream(), batch_size=4),
            noise_multiplier=1.0,
        )


def test_groups_and_global_clipping_do_not_go_together():
    with pytest.raises(ArgumentError, match="groups go with per_layer"):
        private(net(), X, clipping="global", groups=[["0"], ["2"]])


def test_a_target_out_of_reach():
    with pytest.raises(BudgetError, match="fewer steps or promise more"):
        dpsgd.noise_multiplier_for(target_epsilon=1e-9, target_delta=1e-300, sample_rate=1.0, steps=10**6)


def test_the_multiplier_checks_its_arguments():
    fine = {"target_epsilon": 1.0, "target_delta": 1e-5, "sample_rate": 0.1, "steps": 10}
    for wrong in (
        {"mechanism": "uniform"},
        {"sample_rate": 1.5},
        {"sample_rate": float("nan")},
        {"steps": 0},
        {"target_delta": -1},
    ):
        with pytest.raises(ArgumentError):
            dpsgd.noise_multiplier_for(**(fine | wrong))


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, float("nan"), "half"])
def test_adaptive_checks_its_fractions(value):
    for name in ("quantile", "share"):
        with pytest.raises(ArgumentError, match=name):
            dpsgd.Adaptive(**{name: value})
    with pytest.raises(ArgumentError, match="rate"):
        dpsgd.Adaptive(rate=float("nan"))


def test_a_delta_above_one_in_the_number_of_examples_is_warned_of():
    goal = {"noise_multiplier": None, "target_epsilon": 3.0, "epochs": 1}
    with pytest.warns(UserWarning, match="above one in 8, the number of examples"):
        private(net(), X, target_delta=0.2, **goal)
    private(net(), X, target_delta=0.01, **goal)  # warnings are errors here
