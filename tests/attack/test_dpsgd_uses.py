"""Ways of using private training that would let one example count more than once, or unseen: each is refused."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Subset, TensorDataset

from inid import dpsgd
from inid.errors import ArgumentError, GuaranteeError, RecordError
from training import private, squares, sums

X = torch.randn(8, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def net():
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def one_step(training, x, loss=squares):
    training.optimizer.zero_grad()
    loss(training.module(x)).sum().backward()
    training.optimizer.step()


class Biased(nn.Module):
    """A layer of its own that takes a tensor for all examples besides the batch."""

    def __init__(self, bias, *, held):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(6, dtype=torch.float64))
        self.register_buffer("bias", bias) if held else setattr(self, "bias", bias)

    def forward(self, x, bias):
        return x * self.weight + (bias.sum(0) if bias.ndim == 2 else bias)


class Outside(nn.Module):
    def __init__(self, *, held, rows):
        super().__init__()
        self.layer = Biased(torch.arange(6.0 * rows, dtype=torch.float64).reshape(rows, 6), held=held)

    def forward(self, x):
        return self.layer(x, self.layer.bias)


@pytest.mark.parametrize("rows", [5, 6, 7, 8])
def test_a_tensor_for_all_examples_is_not_taken_for_examples(rows):
    """Whether it has as many rows as the batch or not: a buffer stays whole, anything else must count the examples."""
    found = sums(Outside(held=True, rows=rows), X, max_grad_norm=[1e6])["layer.weight"]
    bias = torch.arange(6.0 * rows, dtype=torch.float64).reshape(rows, 6).sum(0)
    assert torch.allclose(found, ((X + bias) * X).sum(0), rtol=1e-9)
    with pytest.raises(GuaranteeError, match="not seen to count the examples"):
        sums(Outside(held=False, rows=rows), X)


@pytest.mark.parametrize("length", [4, 6, 9])
def test_a_causal_mask_works_at_every_batch_size(length):
    torch.manual_seed(3)
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).double()

    class Causal(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=torch.float64)
            return self.layer(x, src_mask=mask, is_causal=True)

    x = torch.randn(6, length, 4, dtype=torch.float64)
    whole = sums(Causal(), x, clipping="global", max_grad_norm=1e9)
    model = copy.deepcopy(Causal())
    squares(model(x)).sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(whole[name], parameter.grad, rtol=1e-8, atol=1e-10)


def test_a_state_loaded_between_backward_and_step_drops_the_gradients():
    wide, narrow = (private(net(), X, max_grad_norm=[c, c], noise_multiplier=1e-9) for c in (100.0, 0.01))
    state = narrow.optimizer.state_dict()
    for (x,) in wide.data_loader:
        wide.optimizer.zero_grad()
        squares(100 * wide.module(x)).sum().backward()
        wide.optimizer.load_state_dict(state)
        wide.optimizer.step()
    assert max(float(p.grad.norm()) for p in wide.module.parameters()) < 1e-6


@pytest.mark.parametrize("options", [{"clipping": "global"}, {"groups": [["a", "b"]]}])
def test_a_group_is_clipped_once(options):
    """A backward inside the forward, over a layer that it runs again: the group would be complete twice."""

    class Impatient(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 6).double(), nn.Linear(6, 2).double()

        def forward(self, x):
            loss = squares(self.b(checkpoint(self.a, x.requires_grad_(), use_reentrant=True))).sum()
            loss.backward()
            return loss.detach()

    training = private(Impatient(), X, **options)
    (x,) = next(iter(training.data_loader))
    with pytest.raises(GuaranteeError, match="heard after its group had been clipped"):
        training.module(x.clone())


def test_parts_of_two_batches_do_not_mix():
    training = private(net(), X, max_physical_batch_size=4)
    one, two = iter(training.data_loader), iter(training.data_loader)
    next(one)
    (x,) = next(two)
    training.optimizer.zero_grad()
    squares(training.module(x)).sum().backward()
    with pytest.raises(GuaranteeError, match="another iterator"):
        next(one)


class Changing(nn.Module):
    def __init__(self, how):
        super().__init__()
        self.how, self.layer, self.held = how, nn.Linear(6, 3).double(), nn.Linear(1, 1).double().requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            if self.how == "new buffer":
                self.layer.register_buffer("seen", x.mean(0))
            elif self.how == "frozen parameter":
                self.held.weight.add_(x.mean())
            else:
                self.layer.bias.copy_(x.mean().expand(3))
        return self.layer(x)


@pytest.mark.parametrize("how", ["new buffer", "frozen parameter", "trained parameter"])
def test_a_forward_that_changes_state_is_refused(how):
    with pytest.raises(GuaranteeError, match="changed one of its buffers or parameters"):
        sums(Changing(how), X)


def test_skipped_batches_are_noticed():
    training = private(net(), X, batch_size=2)
    batches = iter(training.data_loader)
    one_step(training, next(batches)[0])
    next(batches)
    with pytest.warns(UserWarning, match="must not depend on the data"):
        next(batches)


def test_a_batch_is_used_in_one_backward():
    training = private(net(), X)
    (x,) = next(iter(training.data_loader))
    training.optimizer.zero_grad()
    squares(training.module(x[:1])).sum().backward()
    with pytest.raises(GuaranteeError, match="twice over what the loader handed out once"):
        squares(training.module(x[:1])).sum().backward()
    training.optimizer.zero_grad()  # thrown away: the batch may be used after all
    one_step(training, x)


def test_what_was_spent_stays_spent():
    training = private(net(), X, batch_size=2)
    early = training.optimizer.state_dict()
    for (x,) in training.data_loader:
        one_step(training, x)
        early = early if training.accountant.steps > 1 else training.optimizer.state_dict()
    spent = training.accountant.steps
    for load in (
        training.optimizer.load_state_dict,
        lambda s: training.accountant.load_state_dict(s["inid"]["accountant"]),
    ):
        with pytest.raises(RecordError, match="stays spent"):
            load(early)
    assert training.accountant.steps == spent


def test_stages_share_an_accountant():
    first = private(net(), X)
    one_step(first, next(iter(first.data_loader))[0])
    second = private(net(), X, accountant=first.accountant)
    one_step(second, next(iter(second.data_loader))[0])
    assert second.accountant is first.accountant
    assert first.accountant.steps == 2


def test_examples_are_those_of_the_dataset():
    class Users(TensorDataset):
        def __len__(self):
            return 2

        def __getitem__(self, at):
            return (self.tensors[0][4 * at : 4 * at + 4].mean(0),)

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    common = {"module": model, "optimizer": optimizer, "noise_multiplier": 1.0}
    training = dpsgd.make_private(data_loader=DataLoader(Users(X), batch_size=2), **common)
    (x,) = next(iter(training.data_loader))
    assert torch.equal(x, torch.stack([X[:4].mean(0), X[4:].mean(0)]))
    training.optimizer.detach()
    twice = Subset(TensorDataset(X), [0, 1, 1])
    with pytest.raises(ArgumentError, match="names an example twice"):
        dpsgd.make_private(data_loader=DataLoader(twice, batch_size=2), **common)


@pytest.mark.parametrize("part", [nn.Softmax(), nn.Softmax(dim=0), nn.LogSoftmax(dim=0)])
def test_modules_that_normalise_over_examples_are_refused(part):
    with pytest.raises(ArgumentError, match="normalises over the examples"):
        private(nn.Sequential(nn.Linear(6, 3).double(), part), X)


def test_a_table_of_positions_is_not_taken_for_examples():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(6, 6).double()

        def forward(self, x):
            return x * self.table(torch.arange(6))

    with pytest.raises(GuaranteeError, match="examples"):
        sums(Positions(), X[:6])


def test_freezing_later_is_refused():
    training = private(net(), X)
    training.module[0].requires_grad_(False)
    with pytest.raises(GuaranteeError, match="frozen after make_private"):
        training.module(X)


def test_a_hook_of_the_users_is_part_of_the_layer():
    model = net()
    model[0].register_forward_hook(lambda layer, args, out: 3 * out)
    found = sums(model, X, max_grad_norm=[1e6, 1e6])
    squares(model(X)).sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.allclose(found[name], parameter.grad, rtol=1e-9)


def test_a_run_that_outlasts_its_plan_says_so():
    model = net()
    training = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(X), batch_size=4),
        target_epsilon=5.0,
        target_delta=1e-3,
        epochs=1,
    )
    for (x,) in training.data_loader:
        one_step(training, x)
    assert training.accountant.get_epsilon(1e-3) <= 5.0
    with pytest.warns(UserWarning, match="planned for 2 steps"):
        one_step(training, next(iter(training.data_loader))[0])


def test_groups_and_global_clipping_do_not_go_together():
    with pytest.raises(ArgumentError, match="groups go with per_layer"):
        private(net(), X, clipping="global", groups=[["0"], ["2"]])
