"""Guards hold where torch itself would not help: behind `.data`, after Ctrl-C, after a cast, with a test's noise."""

import copy
import warnings

import pytest
import torch
from torch import nn

from inid import dpsgd
from inid.dpsgd import model_state
from inid.dpsgd.model_state import Watch
from inid.errors import GuaranteeError
from inid.testing import unsafe_no_noise, unsafe_seed
from training import private, squares, sums, train_once

X = torch.randn(8, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
CHANGED = "changed one of its buffers or parameters"


def net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def forward_only(training, times=1):
    for _ in range(times):
        training.module(X)


class Keeping(nn.Module):
    """Writes something down in its forward, by a function of the test."""

    def __init__(self, write, *, since=1):
        super().__init__()
        self.write, self.since, self.forwards = write, since, 0
        self.layer = nn.Linear(6, 3).double()
        self.frozen = nn.Linear(6, 1).double().requires_grad_(False)
        self.register_buffer("seen", torch.zeros(6, dtype=torch.float64))
        self.register_buffer("short", torch.zeros(6, dtype=torch.bfloat16))
        self.register_buffer("flags", torch.zeros(8, 2, dtype=torch.bool))
        self.register_buffer("label", torch.eye(6, dtype=torch.int64)[0])
        self.register_buffer("wave", torch.zeros(6, dtype=torch.complex128).conj())
        self.register_buffer("whole", torch.zeros(()))
        self.register_buffer("sparse", torch.eye(3).to_sparse())
        self.register_buffer("nothing", torch.full((2,), float("nan")))

    def forward(self, x):
        self.forwards += 1
        if self.forwards >= self.since:
            self.write(self, x.detach())
        return self.layer(x)


def add_in_place(model, x):
    model.seen.data.add_(x.mean())


def copy_over(model, x):
    model.seen.data.copy_(x[0])


def through_numpy(model, x):
    model.seen.numpy()[:] = x[0].numpy()


def one_bit(model, x):
    model.seen.data[3] = -model.seen.data[3]  # from 0 to -0, which are equal numbers


def move_a_label(model, x):
    model.label.data.copy_(torch.eye(6, dtype=torch.int64)[1 + int(x[0].argmax()) % 5])  # the same numbers, elsewhere


def in_half_precision(model, x):
    model.short.data.copy_(x[0])


def one_flag(model, x):
    model.flags.data[0, 1] = True


def complex_numbers(model, x):
    model.wave.data.add_(1j)


def a_single_number(model, x):
    model.whole.data.add_(1)


def into_a_frozen_parameter(model, x):
    model.frozen.weight.data.add_(x[:1])


def into_a_trained_parameter(model, x):
    model.layer.bias.data.copy_(x[0, :3])


WRITES = [
    add_in_place,
    copy_over,
    through_numpy,
    one_bit,
    move_a_label,
    in_half_precision,
    one_flag,
    complex_numbers,
    a_single_number,
    into_a_frozen_parameter,
    into_a_trained_parameter,
]


@pytest.mark.parametrize("write", WRITES)
def test_writing_behind_the_version_counter_is_seen_at_once(write):
    training = private(Keeping(write), X)
    with pytest.raises(GuaranteeError, match=CHANGED):
        training.module(next(iter(training.data_loader))[0])


@pytest.mark.parametrize("write", [add_in_place, into_a_frozen_parameter])
def test_writing_that_begins_later_is_seen_within_31_forwards(write):
    training = private(Keeping(write, since=40), X)
    forward_only(training, 39)
    with pytest.raises(GuaranteeError, match=CHANGED):
        forward_only(training, 31)


@pytest.mark.parametrize("period", [2, 10, 16, 100])
def test_writing_now_and_then_is_seen_sooner_or_later(period):
    model = Keeping(lambda model, x: model.forwards % period == 1 and add_in_place(model, x), since=32)
    training = private(model, X)
    with pytest.raises(GuaranteeError, match=CHANGED):
        forward_only(training, 31 * period + 62)


def put_elsewhere(model, x):
    model.seen.data = x[0].clone()


def cut_short(model, x):
    model.seen.data = model.seen.data[: 1 + int(x[0].argmax()) % 5]


@pytest.mark.parametrize("write", [put_elsewhere, cut_short])
@pytest.mark.parametrize("since", [1, 10, 20])
def test_rebinding_is_seen_in_every_forward(write, since):
    training = private(Keeping(write, since=since), X)
    forward_only(training, since - 1)
    with pytest.raises(GuaranteeError, match=CHANGED):
        forward_only(training)


def test_memory_that_is_freed_and_given_out_again_is_not_taken_for_the_old(monkeypatch):
    """Linux gives so large a stretch back at once, and the next tensor of that size lies at the same address."""
    monkeypatch.setattr(model_state, "_FIRST", 0)
    model = nn.Module()
    model.register_buffer("seen", torch.zeros(2**23, dtype=torch.float64))
    watch = Watch(model)
    for _ in range(3):
        watch.begin()
        model.seen.data = torch.zeros(1)
        model.seen.data = torch.ones(2**23, dtype=torch.float64)
        assert not watch.unchanged()
        model.seen.data = torch.zeros(2**23, dtype=torch.float64)


def test_state_that_stays_may_be_anything_and_lie_anywhere():
    """Not a number, sparse, or moved without a change, as `flatten_parameters` does."""

    def move(model, x):
        model.seen.data = model.seen.data.clone()
        model.nothing.data = model.nothing.data.clone()

    for write in (move, lambda model, x: None):
        training = private(Keeping(write), X)
        for _ in range(40):
            train_once(training)
        assert training.accountant.steps == 40


def test_values_between_forwards_are_the_users():
    training = private(Keeping(lambda model, x: None), X)
    for _ in range(10):
        train_once(training)
        training.module.seen.data.add_(1)


def test_a_fingerprint_sees_each_entry_and_each_order(monkeypatch):
    """Also where a tensor comes in several parts."""
    monkeypatch.setattr(model_state, "_CHUNK", 4)
    watch, draw = Watch(nn.Linear(1, 1)), torch.Generator().manual_seed(3)
    for dtype in (torch.float64, torch.float32, torch.float16, torch.int64, torch.uint8):
        values = torch.randint(0, 200, (3, 6), generator=draw).to(dtype)
        contents = [values, values.flip(0), values.flip(1), values.roll(4, 1), values.T.reshape(3, 6)]
        for at in range(18):
            other = values.clone()
            other.view(-1)[at] += 1
            contents.append(other)
        found = [int(watch._fingerprint(each)) for each in contents]
        assert len(set(found)) == len(found)
        assert int(watch._fingerprint(values.T.contiguous().T)) == found[0]
    values = torch.randn(5, generator=draw, dtype=torch.complex128)
    lazy = [values.conj(), values.conj().imag]  # torch keeps the old memory, and notes what to do with it
    assert all(int(watch._fingerprint(each)) == int(watch._fingerprint(each.clone().contiguous())) for each in lazy)
    assert int(watch._fingerprint(values)) != int(watch._fingerprint(lazy[0]))


class Interrupted(nn.Module):
    """A network that Ctrl-C hits, at a place of the test."""

    def __init__(self, where):
        super().__init__()
        torch.manual_seed(4)
        self.where, self.first, self.last = where, Hit(6, 5), nn.Linear(5, 2).double()

    def forward(self, x):
        self.first.hit = self.where == "in a layer"
        x = self.first(x)
        if self.where == "between layers":
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


def interrupted(where):
    training = private(Interrupted(where), X)
    (x,) = next(iter(training.data_loader))
    with pytest.raises(KeyboardInterrupt):
        training.module(x)
    training.module.where = training.module.first.hit = None
    return training, x


PLACES = ["in a layer", "between layers"]


@pytest.mark.parametrize("where", PLACES)
def test_a_layer_is_refused_outside_after_an_interrupt(where):
    training, x = interrupted(where)
    for layer, inputs in ((training.module.last, torch.ones(8, 5).double()), (training.module.first, x)):
        for _ in range(2):
            with pytest.raises(GuaranteeError, match="called outside"):
                layer(inputs)


@pytest.mark.parametrize("where", PLACES)
def test_training_goes_on_after_an_interrupt(where):
    training, x = interrupted(where)
    with unsafe_no_noise():
        squares(training.module(x)).sum().backward()
        training.optimizer.step()
    wanted = sums(Interrupted(None), X)
    assert all(torch.equal(p.grad, wanted[name]) for name, p in training.module.named_parameters())


@pytest.mark.parametrize(
    "heal",
    [
        lambda training, x: training.module(x),
        lambda training, x: training.optimizer.step(),
        lambda training, x: training.optimizer.detach(),
        lambda training, x: evaluated(training.module, x),
    ],
    ids=["forward", "step", "detach", "evaluation"],
)
def test_parameters_frozen_by_an_interrupted_forward_are_freed(heal):
    training, x = interrupted("in a layer")
    assert not all(p.requires_grad for p in training.module.parameters())
    heal(training, x)
    assert all(p.requires_grad for p in training.module.parameters())


def evaluated(model, x):
    with torch.no_grad():
        return model(x)


def test_an_interrupt_that_a_forward_survives_leaves_the_parameters_free():
    class Stubborn(Interrupted):
        def forward(self, x):
            try:
                return super().forward(x)
            except KeyboardInterrupt:
                return self.last(x[:, :5])

    training = private(Stubborn("in a layer"), X)
    forward_only(training)
    training.module.where = None
    train_once(training)
    assert all(p.requires_grad for p in training.module.parameters())


def test_state_changed_after_an_interrupt_is_not_the_forwards():
    training, x = interrupted("between layers")
    training.module.first.bias.data = torch.ones(5, dtype=torch.float64)
    evaluated(training.module, x)
    train_once(training)


@pytest.mark.parametrize("where", PLACES)
def test_a_model_can_be_copied_after_an_interrupt_and_the_copy_stays_guarded(where):
    training, x = interrupted(where)
    copied = copy.deepcopy(training.module)
    assert torch.equal(evaluated(copied, x), evaluated(training.module, x))
    with pytest.raises(GuaranteeError, match="called outside"):
        copied.last(torch.ones(8, 5).double())


def test_what_was_frozen_later_is_refused_every_time():
    training = private(net(), X)
    training.module[0].requires_grad_(False)
    for _ in range(2):
        evaluated(training.module, X)
        with pytest.raises(GuaranteeError, match="frozen after make_private"):
            training.module(X)
    assert not training.module[0].weight.requires_grad


@pytest.mark.parametrize(("cast", "x"), [(nn.Module.float, X.float()), (lambda model: model[2].float(), X)])
@pytest.mark.parametrize("noise", ["torch", "exact"])
def test_a_cast_after_make_private_is_refused(cast, x, noise):
    """The margin for rounding was chosen for float64, 2^28 times smaller than float32 needs."""
    training = private(net(), x, noise=noise)
    cast(training.module)
    with pytest.raises(GuaranteeError, match=r"is torch\.float32 and was torch\.float64 in make_private"):
        training.module(x)
    training.module.double()  # as it was: all is well again
    training.module(X)


def not_private(make=unsafe_no_noise):
    with make():
        training = private(net(), X)
        train_once(training)
    return training.accountant


READINGS = [
    lambda accountant: accountant.get_epsilon(1e-5),
    lambda accountant: accountant.get_delta(1.0),
    lambda accountant: accountant.composition().epsilon(1e-5),
]


@pytest.mark.parametrize("make", [unsafe_no_noise, lambda: unsafe_seed(3)], ids=["no noise", "seeded"])
@pytest.mark.parametrize("read", READINGS, ids=["epsilon", "delta", "composition"])
def test_the_cost_of_a_run_with_a_tests_noise_is_not_given_silently(read, make):
    accountant = not_private(make)
    with pytest.warns(UserWarning, match="NOT private") as told:
        read(accountant)
    assert told[0].filename == __file__  # whoever asked
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for again in READINGS:  # once is enough
            again(accountant)


def test_a_record_of_a_run_with_a_tests_noise_warns_too():
    accountant = dpsgd.Accountant()
    accountant.load_state_dict(not_private().state_dict())
    with pytest.warns(UserWarning, match="NOT private"):
        accountant.get_epsilon(1e-5)


def test_a_private_run_and_an_empty_one_do_not_warn():
    training = private(net(), X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        training.accountant.get_epsilon(1e-5)
        train_once(training)
        training.accountant.get_epsilon(1e-5)
