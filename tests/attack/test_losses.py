"""A loss may not carry one row into the gradients of others: mixing losses are refused, ordinary ones are not.

The losses that are refused move clipped sums by up to 41 thresholds where they are let through (one label decides how
everybody's gradient is divided); the noise covers one.
"""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import GuaranteeError
from inid.testing import unsafe_no_noise

torch.set_num_threads(1)
ROWS, WIDTH, CLASSES, LENGTH = 12, 5, 4, 3
CLIP = 0.5
DRAW = torch.Generator().manual_seed(3)
X = torch.randn(ROWS, LENGTH, WIDTH, generator=DRAW)
TOKENS = torch.randint(0, CLASSES, (ROWS, LENGTH), generator=DRAW)
LABELS = torch.randint(0, 2, (ROWS,), generator=DRAW)
WEIGHTS = torch.tensor([1.0, 1.0, 1.0, 1000.0])
PICK = torch.zeros(LENGTH, dtype=torch.long)


class Net(nn.Module):
    """Logits by token, (rows, tokens, classes), and a number by row that is kept as an attribute."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.into, self.out = nn.Linear(WIDTH, 7), nn.Linear(7, CLASSES)

    def forward(self, x):
        hidden = self.into(x).tanh()
        self.kept = (hidden @ hidden.mT).diagonal(dim1=1, dim2=2).sum(1)
        return self.out(hidden)


NET = Net()


def made(labels=LABELS, tokens=TOKENS, **options):
    model = copy.deepcopy(NET)
    data = TensorDataset(X, labels, tokens)
    return dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(data, batch_size=ROWS),
        noise_multiplier=1.0,
        max_grad_norm=CLIP,
        **options,
    )


def trained(training, loss, steps=1):
    """The clipped sums after some steps with a loss of logits, labels, tokens and the training."""
    with unsafe_no_noise():
        for _ in range(steps):
            for x, y, tokens in training.data_loader:
                training.optimizer.zero_grad()
                loss(training.module(x), y, tokens, training)
                if training.data_loader.drawn.complete:
                    found = training.optimizer._sums.flat.clone()
                training.optimizer.step()
    return found


def first(logits):
    return logits[:, 0]


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        ctx.save_for_backward(values)
        return values.exp()

    @staticmethod
    def backward(_ctx, gradient):
        return gradient / gradient.norm()


class Relu(Own):
    """A function of the user's with the name of one of torch's."""


def of_all(y):
    return (y == 3).sum() * 30 + 1


MIXING = {
    "class weights": lambda o, y, t: F.cross_entropy(first(o), y, weight=WEIGHTS),
    "class weights, nll": lambda o, y, t: F.nll_loss(first(o).log_softmax(1), y, weight=WEIGHTS),
    "class weights, module": lambda o, y, t: nn.CrossEntropyLoss(weight=WEIGHTS)(first(o), y),
    "class weights, smoothing": lambda o, y, t: F.cross_entropy(first(o), y, weight=WEIGHTS, label_smoothing=0.1),
    "class weights by token": lambda o, y, t: F.cross_entropy(o.mT, t, weight=WEIGHTS),
    "weighted by hand": lambda o, y, t: (
        F.cross_entropy(first(o), y, weight=WEIGHTS, reduction="none").sum() / WEIGHTS[y].sum()
    ),
    "by a count": lambda o, y, t: F.cross_entropy(first(o), y, reduction="sum") / of_all(y),
    "by a reciprocal": lambda o, y, t: F.cross_entropy(first(o), y, reduction="sum") * (1 / of_all(y)),
    "by a tensor in place": lambda o, y, t: F.cross_entropy(first(o), y, reduction="sum").div_(of_all(y)),
    "masked mean": lambda o, y, t: (F.cross_entropy(o.mT, t, reduction="none") * (t != 0)).sum() / (t != 0).sum(),
    "weighted squares": lambda o, y, t: F.mse_loss(o[:, 0, 0], y.float(), weight=1 + 100 * (y == 3)),
    "a root": lambda o, y, t: F.mse_loss(o[:, 0, 0], y.float()).sqrt(),
    "an exponential": lambda o, y, t: F.cross_entropy(first(o), y).exp(),
    "focal over the mean": lambda o, y, t: (1 - (-F.cross_entropy(first(o), y)).exp()) ** 2 * o.mean(),
    "clamped": lambda o, y, t: F.cross_entropy(first(o), y).clamp(max=1.0),
    "flooded": lambda o, y, t: (F.cross_entropy(first(o), y) - 0.5).abs() + 0.5,
    "dice": lambda o, y, t: 1 - 2 * (o.sigmoid() * 0.3).sum() / (o.sigmoid().sum() + of_all(y)),
    "contrastive": lambda o, y, t: F.cross_entropy(first(o) @ first(o).T, torch.arange(len(o))),
    "pairwise": lambda o, y, t: (o[:, 0, 0] - o[:, 0, 0][:, None]).square().mean(),
    "set against all targets": lambda o, y, t: (o[:, 0, :1] - y).square().mean(),
    "expanded": lambda o, y, t: (o[:, 0, :1].expand(len(o), len(o)) - y).square().mean(),
    "softmax over rows": lambda o, y, t: (first(o).softmax(0) * WEIGHTS).sum(),
    "the largest losses": lambda o, y, t: F.cross_entropy(first(o), y, reduction="none").topk(3)[0].mean(),
    "sorted": lambda o, y, t: F.cross_entropy(first(o), y, reduction="none").sort()[0][:3].mean(),
    "chosen rows": lambda o, y, t: F.cross_entropy(first(o), y, reduction="none")[y > -1].mean(),
    "permuted rows": lambda o, y, t: F.cross_entropy(first(o)[torch.arange(len(o)).flip(0)], y),
    "neighbouring rows": lambda o, y, t: (first(o)[1:] - first(o)[:-1]).square().mean(),
    "normalised logits": lambda o, y, t: F.cross_entropy((first(o) - first(o).mean(0)) / first(o).std(0), y),
    "variance": lambda o, y, t: o.var(),
    "the largest of all": lambda o, y, t: o.max(),
    "tokens before rows": lambda o, y, t: F.cross_entropy(o.transpose(0, 1).reshape(-1, CLASSES), t.T.reshape(-1)),
    "mixed rows by a view": lambda o, y, t: o.reshape(LENGTH, -1).softmax(1).square().mean(),
    "joined rows": lambda o, y, t: torch.cat([first(o), first(o)]).softmax(0).square().mean(),
    "rows and their mean": lambda o, y, t: (first(o) * first(o).mean()).mean(),
    "added up by kind": lambda o, y, t: torch.zeros(4).index_add(0, y, o[:, 0, 0]).square().sum(),
    "a function of the user's": lambda o, y, t: Own.apply(first(o)).mean(),
    "one with a name of torch's": lambda o, y, t: Relu.apply(first(o)).mean(),
    "written into": lambda o, y, t: torch.zeros(ROWS, CLASSES).index_copy(0, torch.arange(len(o)), first(o)).mean(),
    "parameters of its own": lambda o, y, t: (first(o) * nn.Parameter(torch.ones(CLASSES))).mean(),
    "ctc": lambda o, y, t: F.ctc_loss(
        o.log_softmax(-1).transpose(0, 1), t.clamp(1), torch.full((ROWS,), LENGTH), torch.ones(ROWS, dtype=torch.long)
    ),
}


@pytest.mark.parametrize("name", MIXING)
def test_a_loss_that_mixes_rows_is_refused_before_its_backward(name):
    training = made()
    with pytest.raises(GuaranteeError, match=r"mixes the rows|parameters of its own"):
        trained(training, lambda o, y, t, _: MIXING[name](o, y, t).backward())
    assert not training.optimizer._sums.begun
    assert training.accountant.steps == 0


@pytest.mark.parametrize("options", [{"max_physical_batch_size": 4}, {"augmentations": 2}])
@pytest.mark.parametrize("name", ["class weights", "by a count", "contrastive"])
def test_neither_physical_batches_nor_views_hide_it(name, options):
    with pytest.raises(GuaranteeError, match="mixes the rows"):
        trained(made(**options), lambda o, y, t, _: MIXING[name](o, y, t).backward())


@pytest.mark.filterwarnings("ignore")  # of torch.compile, about its own future
def test_a_compiled_loss_is_refused_since_nobody_can_look_into_it():
    compiled = torch.compile(lambda a, b: F.cross_entropy(a, b, weight=WEIGHTS), backend="aot_eager")
    with pytest.raises(GuaranteeError, match="cannot look into"):
        trained(made(), lambda o, y, t, _: compiled(first(o), y).backward())


def test_a_backward_around_the_look_is_refused():
    with pytest.raises(GuaranteeError, match="could not be looked at"):
        trained(
            made(),
            lambda o, y, t, _: torch.autograd.Variable._execution_engine.run_backward(
                (F.cross_entropy(first(o), y),), (torch.ones(()),), False, False, (), accumulate_grad=True
            ),
        )


def focal(o, y, t):
    losses = F.cross_entropy(first(o), y, reduction="none")
    return ((1 - (-losses).exp()) ** 2 * losses).mean()


ORDINARY = {
    "cross-entropy": lambda o, y, t: F.cross_entropy(first(o), y),
    "summed and divided": lambda o, y, t: F.cross_entropy(first(o), y, reduction="sum") / len(y),
    "by token": lambda o, y, t: F.cross_entropy(o.mT, t),
    "by token, flattened": lambda o, y, t: F.cross_entropy(o.flatten(0, 1), t.flatten()),
    "shifted": lambda o, y, t: F.cross_entropy(o[:, :-1].reshape(-1, CLASSES), t[:, 1:].reshape(-1)),
    "smoothed": lambda o, y, t: F.cross_entropy(first(o), y, label_smoothing=0.1),
    "soft targets": lambda o, y, t: F.cross_entropy(first(o), F.one_hot(y, CLASSES).float(), weight=WEIGHTS),
    "nll": lambda o, y, t: F.nll_loss(first(o).log_softmax(-1), y),
    "weighted sum": lambda o, y, t: F.cross_entropy(first(o), y, weight=WEIGHTS, reduction="sum"),
    "mean by row": lambda o, y, t: (
        (F.cross_entropy(o.mT, t, reduction="none") * (t != 0)).sum(1) / (t != 0).sum(1).clamp(min=1)
    ).mean(),
    "ours": lambda o, y, t: dpsgd.per_example_loss(o, t, shift=True).mean(),
    "focal": focal,
    "distilled": lambda o, y, t: (
        4 * F.kl_div((o / 2).log_softmax(-1), (o.detach() / 3).softmax(-1), reduction="batchmean")
    ),
    "binary with pos_weight": lambda o, y, t: F.binary_cross_entropy_with_logits(
        o[:, 0, 0], (y > 0).float(), pos_weight=torch.tensor(3.0)
    ),
    "binary": lambda o, y, t: F.binary_cross_entropy(first(o).sigmoid(), torch.zeros(len(o), CLASSES)),
    "squares": lambda o, y, t: F.mse_loss(o[:, 0, 0], y.float()),
    "squares by hand": lambda o, y, t: ((o[:, 0, 0] - y) ** 2).mean(),
    "absolute": lambda o, y, t: F.l1_loss(o[:, 0, 0], y.float()),
    "huber": lambda o, y, t: F.huber_loss(o[:, 0, 0], y.float()),
    "smooth l1": lambda o, y, t: F.smooth_l1_loss(o[:, 0, 0], y.float(), reduction="sum") / 7,
    "poisson": lambda o, y, t: F.poisson_nll_loss(o[:, 0, 0], y.float()),
    "gaussian": lambda o, y, t: F.gaussian_nll_loss(o[:, 0, 0], y.float(), o[:, 1, 0].exp()),
    "soft margin": lambda o, y, t: F.soft_margin_loss(o[:, 0, 0], 2.0 * (y > 0) - 1),
    "multi margin": lambda o, y, t: F.multi_margin_loss(first(o), y),
    "multilabel soft margin": lambda o, y, t: F.multilabel_soft_margin_loss(first(o), F.one_hot(y, CLASSES)),
    "cosine": lambda o, y, t: F.cosine_embedding_loss(first(o), o[:, 1], 2 * (y > 0).long() - 1),
    "triplet": lambda o, y, t: F.triplet_margin_loss(first(o), o[:, 1], o[:, 2]),
    "margin ranking": lambda o, y, t: F.margin_ranking_loss(o[:, 0, 0], o[:, 1, 0], 2.0 * (y > 0) - 1),
    "gathered": lambda o, y, t: -first(o).log_softmax(1).gather(1, y[:, None]).mean(),
    "two terms": lambda o, y, t: 0.3 * F.cross_entropy(first(o), y) + 0.7 * F.mse_loss(o[:, 1, 0], y.float()),
    "stacked terms": lambda o, y, t: torch.stack([F.cross_entropy(first(o), y), o.square().mean()]).sum(),
    "added up in a loop": lambda o, y, t: sum(F.cross_entropy(o[:, at], t[:, at]) for at in range(LENGTH)) / LENGTH,
    "an attribute of the model": lambda o, y, t: F.cross_entropy(first(o), y) + 0.01 * NET_OF[0].kept.mean(),
    "largest logit": lambda o, y, t: o.amax(-1).mean() + o.logsumexp(2).mean(),
    "norms": lambda o, y, t: first(o).norm(dim=1).mean() + o.std(-1).mean(),
    "cast": lambda o, y, t: F.cross_entropy(first(o).double(), y).float() * 2,
    "where": lambda o, y, t: torch.where(y[:, None] > 0, first(o), first(o) ** 2).mean(),
    "two dimensions at once": lambda o, y, t: o.permute(2, 0, 1).square().mean((0, 2)).mean(),
    "a vector of gradients": lambda o, y, t: F.cross_entropy(first(o), y, reduction="none"),
}
NET_OF = [NET]


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_loss_is_not_refused(name):
    training = made()
    NET_OF[0] = training.module

    def backward(o, y, t, _):
        loss = ORDINARY[name](o, y, t)
        loss.backward(torch.ones_like(loss))

    assert float(trained(training, backward).norm()) > 0


def test_more_than_rows_may_be_divided_by_an_outside_graph():
    """A teacher without no_grad, an earlier model: what does not come from the outputs is not looked at."""
    teacher = nn.Linear(WIDTH, CLASSES)
    with pytest.raises(GuaranteeError, match="parameters of its own"):
        trained(made(), lambda o, y, t, _: F.mse_loss(first(o), teacher(X)[:, 0]).backward())
    teacher.requires_grad_(False)
    trained(made(), lambda o, y, t, _: F.mse_loss(first(o), teacher(X)[:, 0]).backward())
    other = nn.Linear(2, 2)
    other(torch.ones(3, 2)).softmax(0).max().backward()  # an ordinary model, beside a private one
    assert other.weight.grad is not None


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
@pytest.mark.parametrize("rows", ["some", "none"])
def test_labels_that_do_not_count_leave_everybody_else_a_public_share(smoothing, rows):
    """However many labels count, the gradient is that of the sum divided by all positions, to the last bit."""
    tokens = TOKENS.clone()
    tokens[: ROWS if rows == "none" else 5, 1:] = -100
    tokens[: ROWS if rows == "none" else 3] = -100
    settings = {"label_smoothing": smoothing}
    found = trained(made(tokens=tokens), lambda o, y, t, _: (F.cross_entropy(o.mT, t, **settings)).backward())
    wanted = trained(
        made(tokens=tokens),
        lambda o, y, t, _: (F.cross_entropy(o.mT, t, reduction="sum", **settings) / t.numel()).backward(),
    )
    assert torch.allclose(found, wanted, rtol=1e-5, atol=1e-9)
    assert bool(found.any()) == (rows == "some")


def test_an_auxiliary_term_keeps_its_share_whatever_labels_count():
    def loss(o, y, t, _):
        (F.cross_entropy(o.mT, t) + 0.1 * o.square().mean()).backward()

    tokens = torch.full_like(TOKENS, -100)
    alone = trained(made(), lambda o, y, t, _: (0.1 * o.square().mean()).backward())
    assert torch.allclose(trained(made(tokens=tokens), loss), alone, rtol=1e-5, atol=1e-9)


def moved(loss, one, other):
    """By how many thresholds one example's labels move the sum."""
    return float((trained(made(labels=one), loss) - trained(made(labels=other), loss)).norm()) / CLIP


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_one_more_label_that_counts_moves_the_sum_by_its_own_gradient(smoothing):
    """Today it is one of two that count, and the other's share falls by half."""
    one = torch.full_like(LABELS, -100)
    one[7] = 1
    other = one.clone()
    other[2] = 1

    def loss(o, y, t, _):
        (20 * F.cross_entropy(first(o), y, label_smoothing=smoothing)).backward()

    alone = torch.full_like(LABELS, -100)
    alone[2] = 1
    joint, single, own = (trained(made(labels=each), loss) for each in (other, one, alone))
    assert torch.allclose(joint - single, own, rtol=1e-4, atol=1e-6)


BY_ROWS = {
    "cross-entropy": (lambda a, b, c: F.cross_entropy(a[0], b), lambda o, y, t: F.cross_entropy(first(o), y)),
    "tokens": (lambda a, b, c: F.cross_entropy(a, c), lambda o, y, t: F.cross_entropy(o.mT, t)),
    "weighted": (
        lambda a, b, c: F.cross_entropy(a[0], b, weight=WEIGHTS, reduction="sum"),
        lambda o, y, t: F.cross_entropy(first(o), y, weight=WEIGHTS, reduction="none").mean(),
    ),
    "made inside": (
        lambda a, b, c: (torch.arange(CLASSES) * a[0]).sum() + (F.one_hot(b, CLASSES) * a[0]).sum(),
        lambda o, y, t: ((torch.arange(CLASSES) * first(o)).sum(1) + first(o).gather(1, y[:, None])[:, 0]).mean(),
    ),
}


@pytest.mark.parametrize("options", [{}, {"max_physical_batch_size": 4}, {"augmentations": 2}])
@pytest.mark.parametrize("name", BY_ROWS)
def test_a_loss_by_rows_is_the_mean_of_the_losses_of_rows(name, options):
    by_row, whole = BY_ROWS[name]
    found = trained(made(**options), lambda o, y, t, training: training.backward(by_row, o, y, t), steps=3)
    wanted = trained(made(**options), lambda o, y, t, _: whole(o, y, t).backward(), steps=3)
    assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_a_loss_by_rows_may_be_scaled_and_added_to_another():
    def both(o, y, t, training):
        one = training.loss(lambda a, b: F.cross_entropy(a[0], b), o, y)
        other = training.loss(F.cross_entropy, o, t)
        ((one + 0.5 * other) / 2).backward()

    wanted = trained(
        made(), lambda o, y, t, _: (0.5 * F.cross_entropy(first(o), y) + 0.25 * F.cross_entropy(o.mT, t)).backward()
    )
    assert torch.allclose(trained(made(), both), wanted, rtol=1e-4, atol=1e-6)
    with pytest.raises(GuaranteeError, match="not linear"):
        trained(made(), lambda o, y, t, p: p.loss(F.cross_entropy, o, t).exp().backward())


def one_row(a, b):
    return F.cross_entropy(a[0], b)


KEEP = {"mean": torch.zeros(CLASSES)}
TRAINED = nn.Parameter(torch.ones(CLASSES))


def closing_over_a_count(o, y, t, p):
    count = (y == 1).sum()
    return p.backward(lambda a, b: one_row(a, b) / (count + 1), o, y)


def running_average(a, b):
    KEEP["mean"] = 0.9 * KEEP["mean"] + 0.1 * a[0].detach()
    return (a[0] - KEEP["mean"]).square().sum()


THROUGH = {
    "outputs changed": lambda o, y, t, p: p.backward(one_row, o / o.detach().std(), y),
    "outputs centred": lambda o, y, t, p: p.backward(one_row, o - o.mean(0), y),
    "outputs changed in place": lambda o, y, t, p: p.backward(one_row, o.div_(o.detach().std()), y),
    "outputs detached and scaled": lambda o, y, t, p: p.backward(
        lambda a, b, c: one_row(a, b) * c.sum(), o, y, o.detach() / o.detach().std()
    ),
    "weights of the batch": lambda o, y, t, p: p.backward(
        lambda a, b, c: c * one_row(a, b), o, y, WEIGHTS[y] / WEIGHTS[y].sum()
    ),
    "advantages": lambda o, y, t, p: p.backward(
        lambda a, b, c: c * one_row(a, b), o, y, (y - y.float().mean()) / (y.float().std() + 1e-8)
    ),
    "permuted labels": lambda o, y, t, p: p.backward(one_row, o, y.flip(0)),
    "labels changed in place": lambda o, y, t, p: p.backward(one_row, o, y.sub_(y.min())),
    "mixed labels": lambda o, y, t, p: p.backward(
        lambda a, b: F.cross_entropy(a[0], b), o, (F.one_hot(y, CLASSES) + F.one_hot(y.flip(0), CLASSES)) / 2
    ),
    "a number for all": lambda o, y, t, p: p.backward(lambda a, b, c: one_row(a, b) / c, o, y, (y == 1).sum()),
    "closing over outputs": lambda o, y, t, p: p.backward(lambda a, b: one_row(a, b) / o.norm(), o, y),
    "closing over detached outputs": lambda o, y, t, p: p.backward(
        lambda a, b: one_row(a, b) / o.detach().norm(), o, y
    ),
    "closing over labels": lambda o, y, t, p: p.backward(lambda a, b: one_row(a, b) / (y == b).sum(), o, y),
    "closing over a count": closing_over_a_count,
    "a running average": lambda o, y, t, p: p.backward(running_average, o, y),
    "parameters of its own": lambda o, y, t, p: p.backward(lambda a, b: F.cross_entropy(a[0] * TRAINED, b), o, y),
    "no number": lambda o, y, t, p: p.backward(lambda a, b: a[0], o, y),
    "cancelling weights": lambda o, y, t, p: p.backward(lambda a, b: F.cross_entropy(a[0], b, weight=WEIGHTS), o, y),
    "a selecting mask": lambda o, y, t, p: p.backward(lambda a, b: a[b > 0].sum(), o, t),
    "if": lambda o, y, t, p: p.backward(lambda a, b: a.sum() if b > 0 else a.mean(), o, y),
}


@pytest.mark.parametrize("name", THROUGH)
def test_what_enters_a_loss_by_rows_is_not_made_of_the_batch(name):
    training = made()
    cures = r"as they came|inside loss_fn|as outputs|constants once|one number|reduction='sum'|row by row|first dim"
    with pytest.raises(GuaranteeError, match=cures):
        trained(training, THROUGH[name], steps=3)
    assert training.accountant.steps <= 1  # what changes from step to step is seen at the second look


def test_rows_that_are_stated_are_taken():
    teacher = torch.randn(ROWS, CLASSES)
    trained(
        made(),
        lambda o, y, t, p: p.backward(lambda a, b, c: F.mse_loss(a[0], c) + one_row(a, b), o, y, per_row=teacher),
        steps=3,
    )


def test_one_loss_per_row_is_looked_at():
    def apart(o, y, t, p):
        p.backward(F.cross_entropy(first(o), y, reduction="none"))

    wanted = trained(made(), lambda o, y, t, _: F.cross_entropy(first(o), y).backward())
    assert torch.allclose(trained(made(), apart), wanted, rtol=1e-4, atol=1e-7)

    def selected(o, y, t, p):  # by a mask: the graph cannot be followed, the gradients can
        p.backward(torch.stack([o[at][t[at] > 0].sum() + o[at].square().sum() for at in range(len(o))]))

    trained(made(), selected, steps=3)
    for mixing in (
        lambda o: (first(o) @ first(o).T).logsumexp(1),
        lambda o: (first(o) / first(o).norm()).sum(1),
        lambda o: o[:, 0, 0].cumsum(0),
        lambda o: o[:, 0, 0].flip(0),
    ):
        with pytest.raises(GuaranteeError, match="depends on the outputs of others"):
            trained(made(), lambda o, y, t, p, mix=mixing: p.backward(mix(o)))
    for wrong in (lambda o: o.mean(), first, lambda o: first(o).detach().sum(1)):
        with pytest.raises(GuaranteeError, match="one loss per row"):
            trained(made(), lambda o, y, t, p, mix=wrong: p.backward(mix(o)))


def test_class_weights_by_rows_move_the_sum_by_one_threshold_and_a_batch_mean_by_many():
    """The attack of the mean with class weights, and what closes it; the sum of the old way is worked out by hand."""
    labels = torch.zeros_like(LABELS)
    other = labels.clone()
    other[5] = 3

    def by_rows(o, y, t, p):
        p.backward(lambda a, b: F.cross_entropy(a[0], b, weight=WEIGHTS, reduction="sum"), o, y)

    def old(o, y, t, p):
        total = float(WEIGHTS[y].sum()) / len(y)  # a Python number, which nobody can see
        (F.cross_entropy(first(o), y, weight=WEIGHTS, reduction="sum") / len(y) / total).backward()

    assert moved(by_rows, labels, other) <= 2 * (1 + 1e-5)  # one row goes, another comes
    assert moved(old, labels, other) > 4


def test_a_metric_by_rows_needs_no_gradient():
    training = made()
    with torch.no_grad():
        found = training.loss(lambda a, b: F.cross_entropy(a[0], b), training.module(X), LABELS)
    assert math.isclose(float(found), F.cross_entropy(first(NET(X)), LABELS).item(), rel_tol=1e-5)
