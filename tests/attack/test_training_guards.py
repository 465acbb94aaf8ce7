"""What would let an example count twice, unseen or unclipped is refused, and no message holds data."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

import inid
from inid.errors import ArgumentError, GuaranteeError
from inid.testing import unsafe_no_noise
from internals import module_with
from training import make_private, private, row_squares, squares, sums, train_once

wrapped_forward = module_with("inid.dpsgd.grad_sample", "WrappedForward")

X = torch.randn(8, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def first(training):
    (x,) = next(iter(training.data_loader))
    return x


def backward(training, x):
    training.backward(row_squares, training.module(x))


def one_step(training, x):
    training.optimizer.zero_grad()
    backward(training, x)
    training.optimizer.step()


# One batch, one backward, one step.


def test_a_second_backward_over_one_forward():
    training = private(net(), X)
    loss = training.loss(row_squares, training.module(first(training)))
    loss.backward()
    with pytest.raises(GuaranteeError, match="backward ran twice"):
        loss.backward()


def test_two_forwards_under_one_backward():
    training = private(net(), X)
    x = first(training)
    loss = training.loss(row_squares, training.module(x)) + training.loss(row_squares, training.module(x))
    with pytest.raises(GuaranteeError, match="earlier forward"):
        loss.backward()


def test_a_batch_repeated():
    training = private(net(), X)
    x = first(training)
    backward(training, x)
    with pytest.raises(GuaranteeError, match="twice over what the loader handed out once"):
        backward(training, x)
    training.optimizer.zero_grad()  # thrown away: the batch may be used after all
    one_step(training, x)
    with pytest.raises(GuaranteeError, match="handed out 0"):
        backward(training, x)


@pytest.mark.parametrize("change", [lambda x: torch.cat([x, x]), lambda x: x[:1]], ids=["repeated", "cut"])
def test_another_number_of_rows_than_was_handed_out(change):
    training = private(net(), X)
    with pytest.raises(GuaranteeError, match="not one of the drawn batch"):
        backward(training, change(first(training)))


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


def test_parts_of_two_batches_do_not_mix():
    training = private(net(), X, max_physical_batch_size=4)
    one, two = iter(training.data_loader), iter(training.data_loader)
    backward(training, next(one)[0])
    next(two)
    with pytest.raises(GuaranteeError, match="another iterator"):
        next(one)


def test_skipped_batches_are_noticed():
    training = private(net(), X, batch_size=2)
    batches = iter(training.data_loader)
    one_step(training, next(batches)[0])
    next(batches)
    with pytest.warns(UserWarning, match="must not depend on the data"):
        next(batches)


def test_examples_are_those_of_the_dataset_and_named_once():
    class Users(TensorDataset):
        def __len__(self):
            return 2

        def __getitem__(self, at):
            return (self.tensors[0][4 * at : 4 * at + 4].mean(0),)

    rows = sorted(first(over(Users(X))).tolist())  # at whichever places
    assert rows == sorted([X[:4].mean(0).tolist(), X[4:].mean(0).tolist()])


def over(data, batch_size=2, **options):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    loader = DataLoader(data, batch_size=batch_size)
    return make_private(module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, **options)


DATA = TensorDataset(X)
TWICE = [
    Subset(DATA, [0, 1, 1]),
    Subset(DATA, torch.tensor([0, 1, 1])),
    Subset(DATA, [0, 7, -1]),
    Subset(Subset(DATA, [3, 4, 3]), [0, 2]),
    Subset(Subset(DATA, [3, 4, 5]), [0, -3]),
    ConcatDataset([DATA, DATA]),
    ConcatDataset([Subset(DATA, [1, 2]), Subset(DATA, [2, 3])]),
]


@pytest.mark.parametrize("data", TWICE)
def test_no_example_may_be_named_twice(data):
    with pytest.raises(ArgumentError, match="names an example twice"):
        over(data)


def test_examples_named_once_in_any_way_are_fine():
    class Plain(Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, at):
            return (X[at],)

    for data in (Subset(Subset(DATA, [3, -1, 5]), [0, -2]), ConcatDataset([Subset(DATA, [0, 1]), Plain()])):
        one_step(training := over(data), first(training))
    with pytest.raises(ArgumentError, match="outside its dataset"):
        over(Subset(DATA, [0, 8]))


# Gradients go through the clipping.


def test_a_layer_called_outside_the_module():
    training = private(net(), X)
    for _ in range(2):
        with pytest.raises(GuaranteeError, match="'0' was called outside"):
            training.module[0](X)
    with torch.no_grad():
        training.module[0](X)
    assert all(p.requires_grad for p in training.module.parameters())


class Through(nn.Module):
    """A layer, and a function of the batch and the layer."""

    def __init__(self, function, layer):
        super().__init__()
        self.function, self.layer = function, layer

    def forward(self, x):
        return self.function(x, self.layer)


AROUND = [lambda x, layer: layer(x) @ layer.weight, lambda x, layer: layer(x) + layer.weight.square().sum()]


@pytest.mark.parametrize("function", AROUND)
def test_a_weight_used_around_its_layer(function):
    training = private(Through(function, nn.Linear(6, 6).double()), X)
    with pytest.raises(GuaranteeError, match=r"'layer.weight' is used outside the forward of its own module"):
        training.module(first(training))


def test_a_gradient_from_before_training():
    training = private(net(), X)
    training.module[0].weight.grad = torch.ones_like(training.module[0].weight)
    backward(training, first(training))
    with pytest.raises(GuaranteeError, match="not clipped"):
        training.optimizer.step()


@pytest.mark.parametrize("told", [True, False])
def test_an_input_changed_after_its_layer_used_it(told, monkeypatch):
    if not told:  # torch below 2.8 does not say whether checkpointing is at work
        monkeypatch.setattr(wrapped_forward, "_TOP_HOOKS", None)

    def change(x, layer):
        y = layer(x)
        x.mul_(2)
        return y

    training = private(Through(change, nn.Linear(6, 2).double()), X)
    with pytest.raises(RuntimeError, match=r"in ?place"):
        backward(training, first(training).clone())


def test_a_backward_inside_the_forward():
    def impatient(x, layer):
        loss = squares(layer(x))
        loss.sum().backward()
        return loss.detach()

    training = private(Through(impatient, nn.Linear(6, 2).double()), X)
    with pytest.raises(GuaranteeError, match="not taken row by row"):
        training.module(first(training))
    reentrant = Through(lambda x, layer: squares(checkpoint(layer, x.requires_grad_(), use_reentrant=True)), net())
    training = private(reentrant, X)
    with pytest.raises(GuaranteeError, match="use_reentrant=False"):
        training.backward(lambda row: row, training.module(first(training).clone()))


def test_freezing_later_is_refused_every_time():
    training = private(net(), X)
    training.module[0].requires_grad_(False)
    for _ in range(2):
        with torch.no_grad():
            training.module(X)
        with pytest.raises(GuaranteeError, match="frozen after make_private"):
            training.module(X)
    assert not training.module[0].weight.requires_grad


@pytest.mark.parametrize(("cast", "x"), [(nn.Module.float, X.float()), (lambda model: model[2].float(), X)])
def test_a_cast_after_make_private_is_refused(cast, x):
    """The margin for rounding was chosen for float64, 2^28 times smaller than float32 needs."""
    training = private(net(), x)
    cast(training.module)
    with pytest.raises(GuaranteeError, match=r"is torch\.float32 and was torch\.float64 in make_private"):
        training.module(x)
    training.module.double()  # as it was: all is well again
    training.module(X)


class Interrupted(nn.Module):
    """A network that Ctrl-C hits, at a place of the test."""

    def __init__(self, where):
        super().__init__()
        torch.manual_seed(4)
        self.where, self.first, self.last = where, Hit(6, 5), nn.Linear(5, 2).double()

    def forward(self, x):
        self.first.hit = self.where == "in a layer" and len(x) == 8
        x = self.first(x)
        if self.where == "between layers" and len(x) == 8:
            raise KeyboardInterrupt
        return self.last(x)


class Hit(nn.Linear):
    hit = False

    def __init__(self, *sizes):
        super().__init__(*sizes, dtype=torch.float64)

    def forward(self, x):
        if self.hit:
            raise KeyboardInterrupt
        return super().forward(x)


@pytest.mark.parametrize("where", ["in a layer", "between layers"])
def test_training_goes_on_after_an_interrupt_and_layers_stay_guarded(where):
    training = private(Interrupted(where), X)
    x = first(training)
    with pytest.raises(KeyboardInterrupt):
        training.module(x)
    assert all(p.requires_grad for p in training.module.parameters())
    training.module.where = training.module.first.hit = None
    with pytest.raises(GuaranteeError, match="called outside"):
        training.module.last(torch.ones(8, 5).double())
    with unsafe_no_noise():
        one_step(training, x)
    wanted = sums(Interrupted(None), X)
    named = training.module.named_parameters()
    assert all(torch.allclose(p.grad, wanted[name], rtol=1e-12, atol=1e-14) for name, p in named)


@pytest.mark.parametrize("clipping", ["global", "per_layer"])
def test_a_backward_that_broke_off_is_not_begun_again(clipping):
    """Else its sums would not be forgotten with the batch, and the next one's would be added to them."""
    training = private(nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)).double(), X, clipping=clipping)
    whole = [True]
    training.module[1].register_full_backward_hook(lambda *_: None if whole[0] else pytest.fail("broken off"))
    loss = training.loss(row_squares, training.module(first(training)))
    whole[0] = False
    with pytest.raises(pytest.fail.Exception, match="broken off"):
        loss.backward()
    whole[0] = True
    training.optimizer.zero_grad()
    with pytest.raises(GuaranteeError, match="ran twice over one forward"):
        loss.backward()
    training.optimizer.zero_grad()
    assert not training.optimizer.step_state.sums.flat.any()


def test_an_error_in_a_forward_is_the_models_own_and_leaves_the_parameters_trainable():
    training = private(nn.Sequential(nn.Linear(4, 2).double()), X)
    with pytest.raises(RuntimeError, match="shapes"):
        training.module(first(training))
    assert all(p.requires_grad for p in training.module.parameters())


def test_copies_and_pickles_of_the_module_are_ordinary_modules():
    training = private(net(), X)
    train_once(training)
    for copied in (copy.deepcopy(training.module), pickle.loads(pickle.dumps(training.module))):  # noqa: S301 - our own
        assert torch.equal(copied(X), training.module(X))
        squares(copied(X)).sum().backward()
        assert copied[0].weight.grad is not None
        copied[0](X)
        assert not set(copied.parameters()) & set(training.module.parameters())
    assert sums(copied, X).keys() == sums(net(), X).keys()  # and can be made private in their turn


def test_after_detach_the_module_is_an_ordinary_one():
    training = private(net(), X)
    training.optimizer.detach()
    squares(training.module(X)).sum().backward()
    assert training.module[0].weight.grad is not None
    training.module[0](X)


def test_evaluation_needs_no_batch():
    training = private(net(), X)
    with torch.no_grad():
        training.module(X)
    training.module(X)  # with gradients, but no backward
    train_once(training)
    assert training.accountant.steps == 1


def test_the_module_must_be_given_a_batch():
    training = private(net(), X)
    for nothing in (3, torch.tensor(1.0), X[:0]):
        with pytest.raises(GuaranteeError, match="first dimension counts the examples"):
            training.module(nothing)


def test_messages_hold_no_data():
    x = torch.full((8, 6), 123456.789, dtype=torch.float64)
    training = private(net(), x)
    found = []
    for attempt in (lambda: training.module[0](x), lambda: backward(training, x), training.optimizer.step):
        with pytest.raises(inid.InidError) as caught:
            attempt()
        found.append(str(caught.value))
    assert all("12345" not in message for message in found)
