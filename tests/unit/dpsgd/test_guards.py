"""What would count somebody twice, or let a gradient around the clipping, is refused, and no message holds data."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import inid
from inid import dpsgd
from inid.errors import GuaranteeError, RecordError
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
