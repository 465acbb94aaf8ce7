"""A layer that is run example by example, in a loop, carries nothing from one example to the next."""

import threading

import pytest
import torch
from torch import nn

from inid.errors import GuaranteeError
from internals import module_with
from training import groups_of, private, row_squares, slow_sums, sums, train_once

vmap_gradients = module_with("inid.dpsgd.grad_sample", "run_with_parameters_per_example")
N, E = 6, 4
X = torch.randn(N, E, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


class Memory:
    """What Hugging Face calls a cache: an object that layers write to and read from."""

    def __init__(self, state=None):
        self.state = state


class Locked(Memory):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


class Remembering(nn.Module):
    """A layer that `vmap` cannot run (it reads a number), and that adds what it finds in the memory."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(E))

    def forward(self, x, memory):
        float(x.detach().sum())  # a loop over examples it is
        made = x * self.scale
        if memory.state is not None:
            made = made + 3 * memory.state
        memory.state = made.detach()
        return made


class InPlace(Remembering):
    """The same with a tensor that is written in place."""

    def forward(self, x, memory):
        float(x.detach().sum())
        made = x * self.scale + 3 * memory.state
        with torch.no_grad():
            memory.state.copy_(made.detach()[0])
        return made


class Returning(Remembering):
    """The same, which also gives the memory back."""

    def forward(self, x, memory):
        return super().forward(x, memory), memory


class Model(nn.Module):
    def __init__(self, layer, memory):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.layer, self.memory = nn.Linear(E, E), layer, memory
        self.double()

    def forward(self, x):
        made = self.layer(self.first(x), self.memory())
        return made[0] if isinstance(made, tuple) else made


MEMORIES = {
    "an attribute": (Remembering, Memory),
    "in place": (InPlace, lambda: Memory(torch.zeros(E, dtype=torch.float64))),
    "returned": (Returning, Memory),
}


@pytest.mark.parametrize("name", MEMORIES)
def test_an_object_that_a_looped_layer_writes_to_is_each_examples_own(name):
    layer, memory = MEMORIES[name]
    model = Model(layer(), memory)
    groups = groups_of(model)
    found = sums(model, X, max_grad_norm=[0.5] * len(groups))
    wanted = slow_sums(model, X, [0.5] * len(groups), groups=groups)
    for key, each in wanted.items():
        assert torch.allclose(found[key], each, rtol=1e-9, atol=1e-12), key


def test_no_example_moves_another_through_an_object():
    """Without copies the clipped sum moved by several thresholds of one example."""
    model = Model(Remembering(), Memory)
    changed = X.clone()
    changed[0] *= 100
    clip = 0.5
    one, other = (sums(model, x, clipping="global", max_grad_norm=clip) for x in (X, changed))
    apart = torch.cat([(one[key] - other[key]).flatten() for key in one])
    assert float(apart.norm()) <= 2 * clip * (1 + 1e-9)


def test_the_object_itself_stays_as_it_was():
    kept = []

    def memory():
        kept.append(Memory())
        return kept[-1]

    train_once(private(Model(Remembering(), memory), X))
    assert kept[-1].state is None


def test_an_object_that_lives_on_between_forwards_is_refused():
    kept = Memory()
    training = private(Model(Remembering(), lambda: kept), X)
    with pytest.raises((GuaranteeError, RuntimeError)):  # what it holds of other batches does not fit
        train_once(training)
    assert training.accountant.steps == 0


def test_an_object_that_cannot_be_copied_is_refused():
    training = private(Model(Remembering(), Locked), X)
    with pytest.raises(GuaranteeError, match="Locked that cannot be copied"):
        train_once(training)
    assert training.accountant.steps == 0


class Writing(nn.Module):
    """A layer that writes to a tensor that all examples share."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(E))

    def forward(self, x, shared):
        float(x.detach().sum())
        made = x * self.scale + 0 * shared
        with torch.no_grad():
            shared.zero_()
        return made


def test_a_tensor_of_all_examples_that_a_looped_layer_writes_to_is_refused():
    model = Model(Writing(), lambda: torch.zeros(E, dtype=torch.float64))
    with pytest.raises(GuaranteeError, match="in place"):
        train_once(private(model, X))


class Numbered(Remembering):
    def forward(self, x, memory):
        return super().forward(x, memory), float(x.detach().abs().max()) > 100  # no made-up example is so large


class ByNumber(Model):
    def forward(self, x):
        made, large = self.layer(self.first(x), self.memory())
        return made * 2 if large else made


def test_a_number_that_a_looped_layer_reads_of_one_example_is_not_that_of_all():
    mixed = X.clone()
    mixed[-1] *= 1e4
    with pytest.raises(GuaranteeError, match="returns a bool of its own"):
        train_once(private(ByNumber(Numbered(), Memory), mixed))


class Shifted(nn.Module):
    """A layer without a formula that takes a mask where there is one."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(E))

    def forward(self, x, mask=None):
        made = x * self.scale
        return made if mask is None else made + mask.mean()


class Optional(nn.Module):
    """Hands its layer a mask where some value is larger than any of a made-up example."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.layer = nn.Linear(E, E), Shifted()
        self.double()

    def forward(self, x):
        return self.layer(self.first(x), x.abs() if x.nan_to_num(0, 0, 0).abs().max() > 1e9 else None)


def test_a_tensor_where_a_looped_layer_got_none_before_is_not_shared_by_all_examples():
    mixed = X.clone()
    mixed[-1] *= 1e12
    training = private(Optional(), mixed)
    with pytest.raises(GuaranteeError):
        train_once(training)
    assert training.accountant.steps == 0
    train_once(private(Optional(), X))


class ByKeyword(nn.Module):
    """A model that runs in float32 alone, called as Trainer calls models."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last = nn.Linear(E, E), nn.Linear(E, 2)

    def forward(self, *, x):
        return self.last(self.first(x.float()).tanh())


def test_calls_by_keyword_alone_are_looked_at_as_others_are():
    training = private(ByKeyword(), X.float())
    for (batch,) in training.data_loader:
        training.backward(row_squares, training.module(x=batch))
        training.optimizer.step()
    assert training.accountant.steps == 1


LONG = torch.randn(N, 3, E, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


class Places(nn.Module):
    """A table of positions, which returns the same for all examples."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(LONG.shape[1], E, generator=torch.Generator().manual_seed(2)))
        self.scale = nn.Linear(E, E)

    def forward(self, x):
        return self.scale(self.table[: x.shape[1]])


class Crosswise(nn.Module):
    """A module that calls its layer with examples in the second dimension."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(E, E)

    def forward(self, x):
        return self.scale(x.transpose(0, 1)).transpose(0, 1)


class Placed(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.places = part

    def forward(self, x):
        return x + self.places(x)


class Sequence(nn.Module):
    def __init__(self, part):
        super().__init__()
        torch.manual_seed(4)
        self.placed, self.last = Placed(part()), nn.Linear(E, 2)
        self.double()

    def forward(self, x):
        return self.last(self.placed(x))


class Branching(nn.Module):
    """What vmap cannot run."""

    def __init__(self):
        super().__init__()
        self.weight, self.drop = (
            nn.Parameter(torch.randn(E, E, generator=torch.Generator().manual_seed(2))),
            nn.Dropout(0.5),
        )

    def forward(self, x):
        return self.drop(x @ self.weight) if float(x.detach().sum()) > 0 else self.drop(x) @ self.weight.T


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (Crosswise, r"'placed\.places' \(Crosswise\) .* its part 'placed\.places\.scale"),
        (Branching, r"'placed.places' .*vmap cannot run it"),
    ],
)
def test_a_slow_layer_is_named_with_the_reason_once_and_has_the_right_sums(part, why):
    model = Sequence(part)
    for each in model.modules():
        if isinstance(each, nn.Dropout):
            each.p = 0.0
    x = LONG
    groups = groups_of(model)
    with pytest.warns(UserWarning, match=f"{why}.*freeze the layer") as warned:
        found = sums(model, x, max_grad_norm=[0.5] * len(groups))
    assert len(warned) == 1
    wanted = slow_sums(model, x, [0.5] * len(groups), groups=groups)
    for key, each in wanted.items():
        assert torch.allclose(found[key], each, rtol=1e-9, atol=1e-12), key


def test_what_vmap_cannot_run_is_tried_once_and_draws_as_if_it_had_not_been(monkeypatch):
    tried = []
    monkeypatch.setattr(vmap_gradients, "vmap", lambda *args, **more: tried.append(1) or torch.func.vmap(*args, **more))
    training = private(Sequence(Branching), LONG)  # with dropout: the check sees whether a run draws more
    for _ in range(3):
        train_once(training)
    assert len(tried) == 1


class Lengths(Places):
    """The same, told how many positions there are."""

    def forward(self, length):
        return self.scale(self.table[:length])


class Latents(Places):
    """The same, told how many examples there are, with a row for each."""

    def forward(self, examples):
        return self.scale(self.table).expand(examples, -1, -1)


class Gathering(Places):
    """The mean over the batch, which has the shape of what is the same for all."""

    def forward(self, x):
        return (self.scale(x) + self.table).mean(0)


class Around(nn.Module):
    def __init__(self, part, given):
        super().__init__()
        torch.manual_seed(4)
        self.part, self.last, self.given = part(), nn.Linear(E, 2), given
        self.double()

    def forward(self, x):
        return self.last(x * self.part(self.given(x)))


ALIKE = {
    "of the input": (Places, lambda x: x),
    "of the length": (Lengths, lambda x: x.shape[1]),
    "a row for each": (Latents, len),
}


@pytest.mark.parametrize("options", [{}, {"augmentations": 2}, {"max_physical_batch_size": 3}], ids=str)
@pytest.mark.parametrize("name", ALIKE)
def test_what_a_layer_makes_for_all_examples_alike_is_each_examples_own(name, options, recwarn):
    model = Around(*ALIKE[name])
    groups = groups_of(model)
    found = sums(model, LONG, max_grad_norm=[0.5] * len(groups), **options)
    wanted = slow_sums(model, LONG, [0.5] * len(groups), groups=groups)
    for key, each in wanted.items():
        assert torch.allclose(found[key], each, rtol=1e-9, atol=1e-12), key
    assert not [each for each in recwarn if "is slow" in str(each.message)]


class Ranked(Latents):
    """The same with rows that differ by their place: another's would be another function, and is refused."""

    def forward(self, examples):
        return super().forward(examples) * (1 + torch.arange(examples)[:, None, None])


def test_an_example_has_its_own_row_of_what_a_layer_makes_for_as_many_as_there_are():
    training = private(Around(Ranked, len), LONG)
    train_once(training)
    assert training.accountant.steps == 1


@pytest.mark.parametrize(("part", "given"), [(Gathering, lambda x: x), (Lengths, lambda x: int(x.sum() > 9) + 1)])
def test_what_a_layer_makes_of_all_examples_is_refused(part, given):
    training = private(Around(part, given), LONG)
    with pytest.raises(GuaranteeError):
        train_once(training)
    assert training.accountant.steps == 0


def test_a_mean_over_the_batch_is_nothing_that_all_examples_share():
    training = private(Around(Places, lambda x: x.mean(0, keepdim=True).expand(2, -1, -1)), LONG)
    training.module.part.forward = lambda x: x[0] * 2 + Places.forward(training.module.part, x)
    with pytest.raises(GuaranteeError):
        train_once(training)
