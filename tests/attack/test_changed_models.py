"""A model that changes after make_private, or is private in parts, is refused: its gradients would not be clipped."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid.errors import ArgumentError, GuaranteeError
from training import make_private, private, squares, train_once

E = 6
X = torch.randn(8, E, generator=torch.Generator().manual_seed(1))


def net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Sequential(nn.Linear(E, E), nn.Tanh()), nn.Linear(E, 2))


def made(model, **options):
    return make_private(
        module=model,
        optimizer=torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1),
        data_loader=DataLoader(TensorDataset(X), batch_size=len(X)),
        noise_multiplier=1.0,
        loss_reduction="sum",
        **options,
    )


def unfrozen(training):
    training.module[0].requires_grad_(True)


def added(training):
    training.module.append(nn.Linear(2, 2))


def replaced(training):
    training.module[1] = nn.Linear(E, 2)


def put_in_place(training):
    training.module[1].weight = nn.Parameter(torch.zeros(2, E))


@pytest.mark.parametrize("change", [unfrozen, added, replaced, put_in_place])
def test_parameters_that_come_later_are_refused_in_the_forward(change):
    """Another optimizer could step on their gradients, which nobody clips, before the private one looks."""
    model = net()
    model[0].requires_grad_(False)
    training = made(model)
    train_once(training)
    change(training)
    with pytest.raises(GuaranteeError, match="added, unfrozen, or put in another's place"):
        train_once(training)
    assert training.accountant.steps == 1


def test_parameters_of_the_users_own_are_refused():
    training = made(net())
    own = {name: p.detach().clone().requires_grad_() for name, p in training.module.named_parameters()}
    (x,) = next(iter(training.data_loader))
    with pytest.raises(GuaranteeError, match="functional_call"):
        torch.func.functional_call(training.module, own, (x,))
    plain = {name: each.detach() for name, each in own.items()}
    torch.func.functional_call(training.module, plain, (x,))  # to look at the output is fine


def test_no_part_is_private_twice():
    model = net()
    made(model[0])
    with pytest.raises(ArgumentError, match="or a part of it, is private already"):
        made(model)
    model = net()
    training = made(model)
    with pytest.raises(ArgumentError, match="private already"):
        made(model[0])
    with pytest.raises(ArgumentError, match="private already"):
        made(nn.Sequential(model[0], nn.Linear(E, 3)))  # another head on the same layers
    training.optimizer.detach()
    train_once(made(model))


@pytest.mark.parametrize("compiled", [torch.jit.script, lambda layer: torch.jit.trace(layer, X)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_compiled_code_that_hides_its_layers_is_refused(compiled):
    with pytest.raises(ArgumentError, match=r"before torch\.jit"):
        made(nn.Sequential(compiled(nn.Linear(E, E)), nn.Linear(E, 2)))


def test_a_private_optimizer_is_not_copied():
    """A copy would spend without the other knowing; a failed one used to break the steps of all."""
    training = made(net())
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ArgumentError, match="save state_dict"):
            copied(training.optimizer)
    with pytest.raises(ArgumentError, match="save state_dict"):
        copy.deepcopy(training)
    train_once(training)
    assert training.accountant.steps == 1


class Placed(nn.Module):
    """Adds positions that are the same for all examples, in a way that cannot be repeated for each."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def forward(self, x):
        return x + self.table(torch.arange(E)).unsqueeze(0).sum(2)


def test_a_table_under_several_parents_ends_in_an_answer():
    """Its first parent was taken as one layer again and again, while the second was the one in use."""
    table = nn.Embedding(E, 2)
    model = nn.ModuleDict({"one": Placed(table), "two": Placed(table), "last": nn.Linear(E, 2)})

    class Second(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = model

        def forward(self, x):
            return self.parts["last"](self.parts["two"](x))

    train_once(private(Second(), X), squares)
