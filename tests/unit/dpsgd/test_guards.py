"""What would count somebody twice, or let a gradient around the clipping, is refused, and no message holds data."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, SubsetRandomSampler, TensorDataset, WeightedRandomSampler

import inid
from inid import dpsgd
from inid.errors import ArgumentError, BudgetError, GuaranteeError, RecordError
from inid.testing import unsafe_no_noise, unsafe_seed
from training import Picked, Tokens, private, squares, train_once

X = torch.arange(24.0).reshape(8, 3) / 10


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def backward(training, x):
    squares(training.module(x)).sum().backward()


def first(training):
    (x,) = next(iter(training.data_loader))
    return x


def test_a_second_backward_over_one_forward():
    training = private(net(), X)
    loss = squares(training.module(first(training))).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(GuaranteeError, match="backward ran twice"):
        loss.backward()


def test_two_forwards_under_one_backward():
    training = private(net(), X)
    x = first(training)
    loss = squares(training.module(x[:4])).sum() + squares(training.module(x[4:])).sum()
    with pytest.raises(GuaranteeError, match="earlier forward"):
        loss.backward()


def test_a_batch_repeated():
    training = private(net(), X)
    x = first(training)
    backward(training, x)
    with pytest.raises(GuaranteeError, match=r"8 examples where the private loader has 0"):
        backward(training, x)
    training.optimizer.step()
    with pytest.raises(GuaranteeError, match=r"has 0 to use"):
        backward(training, x)


def test_an_example_repeated_within_the_batch():
    training = private(net(), X)
    x = first(training)
    with pytest.raises(GuaranteeError, match=r"16 examples where the private loader has 8"):
        backward(training, torch.cat([x, x]))


def test_two_batches_in_one_step():
    training = private(net(), X)
    backward(training, first(training))
    with pytest.raises(GuaranteeError, match="two batches since the last step"):
        backward(training, first(training))


def test_a_step_without_a_new_batch():
    training = private(net(), X)
    train_once(training)
    with pytest.raises(GuaranteeError, match="without a new batch"):
        training.optimizer.step()
    assert training.accountant.steps == 1


def test_data_from_elsewhere():
    training = private(net(), X)
    with pytest.raises(GuaranteeError, match="data_loader"):
        backward(training, X)
    with pytest.raises(GuaranteeError, match="without a new batch"):
        training.optimizer.step()
    assert training.accountant.steps == 0


def test_a_layer_called_outside_the_module():
    training = private(net(), X)
    with pytest.raises(GuaranteeError, match="'0' was called outside"):
        training.module[0](X)
    with torch.no_grad():
        training.module[0](X)
    assert all(p.requires_grad for p in training.module.parameters())


class Through(nn.Module):
    """Applies a function before its layer."""

    def __init__(self, function, layer):
        super().__init__()
        self.function, self.layer = function, layer

    def forward(self, x):
        return self.layer(self.function(x)).reshape(len(x), -1)


@pytest.mark.parametrize(
    ("function", "layer", "shape"),
    [
        (lambda x: x.reshape(-1, 2), nn.Linear(2, 2), (4, 3, 2)),
        (lambda x: x.transpose(0, 1), nn.Linear(2, 2), (4, 3, 2)),
        (lambda x: x.reshape(-1, 2), nn.PReLU(2), (4, 3, 2)),
        (lambda x: x, nn.Conv2d(4, 4, 1), (4, 4, 4)),  # a batch that looks like one image
        (lambda x: x, nn.Conv1d(4, 4, 1), (4, 3)),
        (lambda x: x, nn.LayerNorm((4, 3)), (4, 3)),
        (lambda x: x, nn.InstanceNorm1d(4, affine=True), (4, 3)),
        (lambda x: x[:, 0], nn.Linear(4, 4), (4, 2)),
    ],
)
def test_rows_that_are_not_the_examples(function, layer, shape):
    training = private(Through(function, layer), torch.ones(shape))
    with pytest.raises(GuaranteeError, match="keep the examples in the first dimension"):
        training.module(first(training))


class Counting(nn.Module):
    def __init__(self, change):
        super().__init__()
        self.layer, self.change = nn.Linear(3, 2), change
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.change(self, x)
        return self.layer(x)


def add_in_place(model, x):
    model.seen += x.detach().sum(0)


def put_another(model, x):
    model.seen = x.detach().sum(0)


@pytest.mark.parametrize("change", [add_in_place, put_another])
def test_buffers_that_change_in_a_forward(change):
    training = private(Counting(change), X)
    with pytest.raises(GuaranteeError, match="changed one of its buffers"):
        training.module(first(training))


def test_buffers_that_stay_are_fine():
    train_once(private(Counting(lambda model, x: None), X))


class Functional(nn.Module):
    """Uses a layer's weight without calling the layer."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        return nn.functional.linear(self.layer(x), self.layer.weight)


def test_a_weight_used_around_its_layer():
    training = private(Functional(), X)
    with pytest.raises(GuaranteeError, match="gradient that was not clipped"):
        train_once(training)
    assert training.accountant.steps == 0


def test_a_gradient_from_before_training():
    model = net()
    training = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(X), batch_size=8),
        noise_multiplier=1.0,
    )
    model[0].weight.grad = torch.ones_like(model[0].weight)
    backward(training, first(training))
    with pytest.raises(GuaranteeError, match="not clipped"):
        training.optimizer.step()


def test_an_input_changed_after_its_layer_used_it():
    class Change(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x):
            y = self.layer(x)
            x.mul_(2)
            return y

    training = private(Change(), X)
    x = first(training).clone()
    with pytest.raises((GuaranteeError, RuntimeError), match=r"in ?place"):
        backward(training, x)


def test_recomputed_layers_are_refused():
    from torch.utils.checkpoint import checkpoint

    class Again(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x):
            return checkpoint(self.layer, x, use_reentrant=False)

    training = private(Again(), X.clone().requires_grad_())
    x = first(training)
    loss = squares(training.module(x)).sum()
    with pytest.raises(GuaranteeError, match="called outside"):
        loss.backward()


def test_the_module_must_be_given_a_batch():
    training = private(Through(lambda x: torch.ones(1, 3), nn.Linear(3, 2)), X)
    for nothing in (3, torch.tensor(1.0)):
        with pytest.raises(GuaranteeError, match="first dimension counts the examples"):
            training.module(nothing)


def test_evaluation_needs_no_batch():
    training = private(net(), X)
    with torch.no_grad():
        training.module(X)
    training.module(X)  # with gradients, but no backward
    train_once(training)
    assert training.accountant.steps == 1


def test_an_error_in_a_forward_leaves_the_parameters_trainable():
    class Fails(nn.Linear):
        broken = True

        def forward(self, x):
            if self.broken:
                raise RuntimeError("from the layer")
            return super().forward(x)

    class Raising(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Fails(3, 2)

        def forward(self, x):
            return self.layer(x)

    for model in (Raising(), nn.Sequential(nn.Linear(4, 2))):
        training = private(model, X)
        with pytest.raises(RuntimeError):
            training.module(first(training))
        assert all(p.requires_grad for p in training.module.parameters())
    training = private(Raising(), X)
    Fails.broken = False
    train_once(training)
    assert training.accountant.steps == 1


def test_after_detach_the_module_is_an_ordinary_one():
    training = private(net(), X)
    training.optimizer.detach()
    squares(training.module(X)).sum().backward()
    assert training.module[0].weight.grad is not None
    training.module[0](X)


REFUSED = [
    (nn.BatchNorm1d(8), r"BatchNorm1d\) normalises over the batch.*GroupNorm\(8, 8\)"),
    (nn.BatchNorm2d(6), r"GroupNorm\(2, 6\)"),
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
        dpsgd.make_private(**(options | change))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    model[0](X)  # no hook was left behind
    assert not model._forward_hooks


def test_optimizers_that_do_not_fit():
    model = net()
    loader = DataLoader(TensorDataset(X), batch_size=4)
    common = {"module": model, "data_loader": loader, "noise_multiplier": 1.0}
    with pytest.raises(ArgumentError, match="does not hold all trainable"):
        dpsgd.make_private(optimizer=torch.optim.SGD(model[0].parameters(), lr=0.1), **common)
    with pytest.raises(ArgumentError, match="LBFGS"):
        dpsgd.make_private(optimizer=torch.optim.LBFGS(model.parameters()), **common)
    training = dpsgd.make_private(optimizer=torch.optim.SGD(model.parameters(), lr=0.1), **common)
    with pytest.raises(ArgumentError, match="private already"):
        dpsgd.make_private(optimizer=torch.optim.SGD(model.parameters(), lr=0.1), **common)
    training.optimizer.detach()
    with pytest.raises(ArgumentError, match="not yet private"):
        dpsgd.make_private(optimizer=training.optimizer, **common)


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


EMPTY = {
    "linear": (nn.Linear(3, 2), (3,)),
    "linear on sequences": (nn.Linear(3, 2), (4, 3)),
    "conv1d": (nn.Conv1d(3, 2, 2), (3, 4)),
    "conv2d": (nn.Conv2d(3, 2, 2), (3, 4, 4)),
    "group norm": (nn.GroupNorm(1, 4), (4, 3)),
    "layer norm": (nn.LayerNorm(3), (3,)),
    "rms norm": (nn.RMSNorm(3), (3,)),
    "embedding": (Tokens(nn.Embedding(4, 3), 4), (3,)),
    "own parameter": (nn.Sequential(nn.PReLU(3), nn.Linear(3, 2)), (3,)),
    "attention": (Picked(nn.MultiheadAttention(4, 2, batch_first=True), three_times=True), (3, 4)),
}


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("options", [{}, {"thresholds": "adaptive"}, {"clipping": "global"}, {"noise": "exact"}])
def test_empty_batches_take_a_step_of_noise(name, options):
    layer, shape = EMPTY[name]
    x = torch.randn(1000, *shape)
    # One in a thousand per step and example: seeds 0, 1, ... until the first batch is empty.
    for seed in range(20):
        with unsafe_seed(seed):
            training = private(layer, x, batch_size=1, **options)
            batch = first(training)
            if len(batch):
                continue
            training.optimizer.zero_grad()
            squares(training.module(batch)).sum().backward()
            training.optimizer.step()
            break
    else:
        pytest.fail("no empty batch came up")
    assert training.accountant.steps == 1
    assert all(bool(p.grad.isfinite().all() and (p.grad != 0).any()) for p in training.module.parameters())


def test_messages_hold_no_data():
    x = torch.full((8, 3), 123456.789)
    training = private(net(), x)
    found = []
    for attempt in (lambda: training.module[0](x), lambda: backward(training, x), training.optimizer.step):
        with pytest.raises(inid.InidError) as caught:
            attempt()
        found.append(str(caught.value))
    assert all("12345" not in message for message in found)


def test_a_damaged_state_is_refused_and_changes_nothing():
    training = private(net(), X)
    train_once(training)
    state = training.optimizer.state_dict()
    damaged = [
        3,
        {},
        {**state, "inid": 5},
        {**state, "inid": {**state["inid"], "thresholds": [1.0]}},
        {**state, "inid": {**state["inid"], "thresholds": [1.0, float("nan")]}},
        {**state, "inid": {**state["inid"], "thresholds": [1.0, "a"]}},
        {**state, "inid": {"thresholds": [1.0, 1.0]}},
        {**state, "inid": {**state["inid"], "accountant": {"inid_accountant": 1, "history": [["gaussian"]]}}},
    ]
    for wrong in damaged:
        with pytest.raises(RecordError):
            training.optimizer.load_state_dict(wrong)
    with pytest.raises((ValueError, KeyError)):
        training.optimizer.load_state_dict({**state, "param_groups": []})
    assert training.optimizer.state_dict()["inid"] == state["inid"]


def test_closures_work():
    training = private(net(), X)
    with unsafe_no_noise():
        (x,) = next(iter(training.data_loader))

        def closure():
            training.optimizer.zero_grad()
            loss = squares(training.module(x)).sum()
            loss.backward()
            return loss

        assert float(training.optimizer.step(closure).detach()) > 0
    assert training.accountant.steps == 1
    assert repr(training.optimizer).startswith("<PrivateOptimizer: SGD, 2 groups")
