"""A loss is a function of one row: whatever mixes rows has no way in, and each honest loss has one.

Where such losses are let through they move clipped sums by up to 132 thresholds; the noise covers one.
"""

import copy
import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import GuaranteeError
from row_losses import CLASSES, CLIP, LABELS, LENGTH, NET, ROWS, TOKENS, WEIGHTS, WIDTH, X, first, made, trained
from training import make_private

STEPS = 3
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")  # of torch, on what it runs row by row


def one_row(a, b):
    return F.cross_entropy(a[0], b)


def unknown(loss, a, b):
    """A loss that is not known to go row by row."""
    return loss(a, b)


def focal(a, b):
    loss = one_row(a, b)
    return (1 - (-loss).exp()) ** 2 * loss


def own_entropy(a):
    if float(a.detach().sum()) > 0:  # which vmap cannot follow
        return a.square().mean()
    return a.square().sum() * 0.1


# Of one row, and of all.
ORDINARY = {
    "cross-entropy": (one_row, lambda o, y, t: F.cross_entropy(first(o), y)),
    "summed and divided": (
        lambda a, b: F.cross_entropy(a[0], b, reduction="sum") / 7,
        lambda o, y, t: F.cross_entropy(first(o), y) / 7,
    ),
    "shifted": (
        lambda a, b, c: F.cross_entropy(a[:-1], c[1:]),
        lambda o, y, t: F.cross_entropy(o[:, :-1].reshape(-1, CLASSES), t[:, 1:].reshape(-1)),
    ),
    "smoothed": (
        lambda a, b: F.cross_entropy(a[0], b, label_smoothing=0.1),
        lambda o, y, t: F.cross_entropy(first(o), y, label_smoothing=0.1),
    ),
    "soft targets": (
        lambda a, b: F.cross_entropy(a[0], F.one_hot(b, CLASSES).float()),
        lambda o, y, t: F.cross_entropy(first(o), y),
    ),
    "weighted": (
        lambda a, b: F.cross_entropy(a[0], b, weight=WEIGHTS, reduction="sum"),
        lambda o, y, t: F.cross_entropy(first(o), y, weight=WEIGHTS, reduction="none").mean(),
    ),
    "focal": (
        focal,
        lambda o, y, t: torch.stack([focal(a, b) for a, b in zip(o, y, strict=True)]).mean(),
    ),
    "distilled from itself": (
        lambda a: F.kl_div((a / 2).log_softmax(-1), (a.detach() / 3).softmax(-1), reduction="sum"),
        lambda o, y, t: F.kl_div((o / 2).log_softmax(-1), (o.detach() / 3).softmax(-1), reduction="batchmean"),
    ),
    "gathered": (
        lambda a, b: -a[0].log_softmax(0).gather(0, b[None])[0],
        lambda o, y, t: F.cross_entropy(first(o), y),
    ),
    "triplets": (
        lambda a: F.triplet_margin_loss(a[0], a[1], a[2]),
        lambda o, y, t: F.triplet_margin_loss(o[:, 0], o[:, 1], o[:, 2]),
    ),
    "made inside": (
        lambda a, b: (torch.arange(CLASSES) * a[0]).sum() + (F.one_hot(b, CLASSES) * a[0]).sum(),
        lambda o, y, t: ((torch.arange(CLASSES) * first(o)).sum(1) + first(o).gather(1, y[:, None])[:, 0]).mean(),
    ),
    "advantages of a row": (
        lambda a, b, c: ((c - c.float().mean()) / (c.float().std() + 1e-3) * a.logsumexp(-1)).mean(),
        lambda o, y, t: (
            (t - t.float().mean(1, keepdim=True)) / (t.float().std(1, keepdim=True) + 1e-3) * o.logsumexp(-1)
        ).mean(),
    ),
}


def arguments(function, o, y, t):
    """As many targets as the function takes."""
    return (o, y, t)[: function.__code__.co_argcount]


@pytest.mark.parametrize("options", [{}, {"max_physical_batch_size": 4}, {"augmentations": 2}], ids=str)
@pytest.mark.parametrize("name", ORDINARY)
def test_a_loss_by_rows_is_the_mean_of_the_losses_of_rows(name, options):
    by_row, whole = ORDINARY[name]
    values = []

    def private(o, y, t, training):
        loss = training.loss(by_row, *arguments(by_row, o, y, t))
        values.append((float(loss.detach()), float(whole(o.detach(), y, t))))
        loss.backward()

    found = trained(made(**options), private, steps=STEPS)
    assert all(math.isclose(one, other, rel_tol=1e-4) for one, other in values)
    if not options:  # the sums by hand: one row after another
        model = copy.deepcopy(NET)
        total = torch.zeros_like(found)
        for x, y, t in zip(X, LABELS, TOKENS, strict=True):
            loss = by_row(*arguments(by_row, model(x[None])[0], y, t))
            gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(model.parameters()))])
            total += gradient * min(1.0, CLIP / max(float(gradient.norm()), 1e-9))
        assert torch.allclose(found, total, rtol=1e-3, atol=1e-5)


KNOWN = {
    "cross_entropy": (F.cross_entropy, F.cross_entropy),
    "its module": (nn.CrossEntropyLoss(label_smoothing=0.2), partial(F.cross_entropy, label_smoothing=0.2)),
    "weights": (nn.CrossEntropyLoss(weight=WEIGHTS), partial(F.cross_entropy, weight=WEIGHTS)),
    "sum": (partial(F.cross_entropy, reduction="sum", ignore_index=1), None),
    "ignored": (partial(F.cross_entropy, ignore_index=0), None),
    "weights and ignored": (partial(F.cross_entropy, ignore_index=0, weight=WEIGHTS, label_smoothing=0.1), None),
}


@pytest.mark.filterwarnings("ignore:loss_fn is run row by row")
@pytest.mark.parametrize("name", KNOWN)
def test_losses_of_torch_that_run_for_all_rows_at_once_are_those_of_each_row(name):
    loss, row = KNOWN[name]
    row = row or loss
    tokens = TOKENS.clone()
    tokens[:, 0] = 2  # some label counts
    at_once = trained(made(tokens=tokens), lambda o, y, t, p: p.backward(loss, o, t), steps=2)
    alone = trained(made(tokens=tokens), lambda o, y, t, p: p.backward(partial(unknown, row), o, t), steps=2)
    assert torch.allclose(at_once, alone, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(
    "kind", [nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCEWithLogitsLoss], ids=lambda kind: kind.__name__
)
def test_elementwise_losses_of_torch_are_those_of_each_row(kind, reduction):
    soft = torch.rand(ROWS, LENGTH, CLASSES, generator=torch.Generator().manual_seed(1))
    loss = kind(reduction=reduction)
    at_once = trained(made(tokens=soft), lambda o, y, t, p: p.backward(loss, o, t))
    alone = trained(made(tokens=soft), lambda o, y, t, p: p.backward(partial(unknown, loss), o, t))
    assert torch.allclose(at_once, alone, rtol=1e-4, atol=1e-6)


def test_a_target_of_another_shape_is_broadcast_row_by_row_and_never_against_other_rows():
    """Torch sets (rows, 1) against (rows,) as everybody against everybody."""
    labels = torch.arange(ROWS).float()
    with pytest.warns(UserWarning, match="target size"):
        found = trained(made(labels=labels), lambda o, y, t, p: p.backward(F.mse_loss, o, y))
    wanted = trained(made(labels=labels), lambda o, y, t, p: p.backward(lambda a, b: (a - b).square().mean(), o, y))
    assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_what_vmap_cannot_run_runs_in_a_loop_and_says_so():
    with pytest.warns(UserWarning, match="in a loop, which is slow"):
        found = trained(made(), lambda o, y, t, p: p.backward(own_entropy, o), steps=2)
    model, total = copy.deepcopy(NET), torch.zeros_like(found)
    for x in X:
        gradient = torch.autograd.grad(own_entropy(model(x[None])[0]), list(model.parameters()))
        gradient = torch.cat([g.flatten() for g in gradient])
        total += gradient * min(1.0, CLIP / float(gradient.norm()))
    assert torch.allclose(found, total, rtol=1e-3, atol=1e-5)


@pytest.mark.filterwarnings("ignore:loss_fn is run row by row")
def test_ctc_runs_by_rows():
    def by_row(a, b):
        return F.ctc_loss(a.log_softmax(-1)[:, None], b.clamp(1)[None], (LENGTH,), (1,), reduction="sum")

    found = trained(made(), lambda o, y, t, p: p.backward(by_row, o, t))
    model, total = copy.deepcopy(NET), torch.zeros_like(found)
    for x, t in zip(X, TOKENS, strict=True):
        gradient = torch.autograd.grad(by_row(model(x[None])[0], t), list(model.parameters()))
        gradient = torch.cat([g.flatten() for g in gradient])
        total += gradient * min(1.0, CLIP / float(gradient.norm()))
    assert torch.allclose(found, total, rtol=1e-3, atol=1e-5)


# Losses of the whole batch, as loops write them.

BARE = {
    "cross-entropy": lambda o, y, t: F.cross_entropy(first(o), y),
    "class weights": lambda o, y, t: F.cross_entropy(first(o), y, weight=WEIGHTS),
    "by a count": lambda o, y, t: F.cross_entropy(first(o), y, reduction="sum") / ((y == 3).sum() * 30 + 1),
    "contrastive": lambda o, y, t: F.cross_entropy(first(o) @ first(o).T, torch.arange(len(o))),
    "dice": lambda o, y, t: 1 - 2 * o.sigmoid().mean() / (o.sigmoid().sum() + (y == 3).sum() + 1),
    "the largest losses": lambda o, y, t: F.cross_entropy(first(o), y, reduction="none").topk(3)[0].mean(),
    "batch norm of targets": lambda o, y, t: F.mse_loss(
        first(o), F.batch_norm(first(o).detach(), None, None, training=True)
    ),
    "variances": lambda o, y, t: (first(o) / torch.var_mean(first(o).detach(), 0)[0].sqrt()).square().mean(),
    "ours": lambda o, y, t: dpsgd.per_example_loss(o, t).mean(),
}


@pytest.mark.parametrize("options", [{}, {"max_physical_batch_size": 4}, {"augmentations": 2}], ids=str)
@pytest.mark.parametrize("name", BARE)
def test_a_loss_that_was_not_taken_row_by_row_is_refused_with_the_cure(name, options):
    training = made(**options)
    with pytest.raises(GuaranteeError, match=r"row by row.*private\.backward\(loss_fn, outputs, \*targets\)"):
        trained(training, lambda o, y, t, _: BARE[name](o, y, t).backward())
    assert not training.optimizer.step_state.sums.begun
    assert training.accountant.steps == 0


def test_losses_by_row_that_were_computed_outside_are_refused_with_the_cure():
    with pytest.raises(GuaranteeError, match=r"private\.backward\(loss_fn, outputs, \*targets\)"):
        trained(made(), lambda o, y, t, p: p.backward(F.cross_entropy(first(o), y, reduction="none")))


AFTER = {
    "scaled": lambda loss, o: 2 * loss,
    "by a count": lambda loss, o: loss / (o > 0).sum(),
    "transformed": lambda loss, o: loss.exp(),
    "and a term of its own": lambda loss, o: loss + o.var(),
    "and another": lambda loss, o: o.mean() + loss,
}


@pytest.mark.parametrize("name", AFTER)
def test_what_private_loss_returned_is_not_changed(name):
    with pytest.raises(GuaranteeError, match=r"multiplied or transformed after|row by row"):
        trained(made(), lambda o, y, t, p: AFTER[name](p.loss(one_row, o, y), o).backward())


def test_a_gradient_of_ones_own_is_refused():
    with pytest.raises(GuaranteeError, match="multiplied or transformed after"):
        trained(made(), lambda o, y, t, p: p.loss(one_row, o, y).backward(torch.tensor(0.5)))


# What enters a loss.

KEEP = {"mean": torch.zeros(CLASSES), "queue": torch.zeros(5, CLASSES)}
TRAINED = nn.Parameter(torch.ones(CLASSES))
TOWER = nn.Linear(WIDTH, CLASSES).requires_grad_(False)


def running_average(a, b):
    KEEP["mean"] = 0.9 * KEEP["mean"] + 0.1 * a[0].detach()
    return (a[0] - KEEP["mean"]).square().sum()


def running_average_in_place(a, b):
    loss = (a[0] - KEEP["mean"]).square().sum()
    KEEP["mean"].mul_(0.9).add_(0.1 * a[0].detach())
    return loss


def queued(a, b):
    loss = (a[0] @ KEEP["queue"].T).logsumexp(0)
    KEEP["queue"] = torch.cat([a[:1].detach(), KEEP["queue"][:-1]])
    return loss


def sinkhorn(scores):
    shares = (scores / 0.5).exp()
    for _ in range(3):
        shares = shares / shares.sum(0)
        shares = shares / shares.sum(1, keepdim=True)
    return shares


def advantages(rewards):
    rewards = rewards.float()
    return rewards.sub_(rewards.mean()).div_(rewards.std() + 1e-8)


def weights(y):
    made_of = 1.0 + 30 * (y == 3)
    made_of /= made_of.mean()
    return made_of


def centres(o, y):
    return torch.stack(
        [first(o).detach()[y == at].mean(0) if bool((y == at).any()) else torch.zeros(CLASSES) for at in range(4)]
    )


def soft(a, b):
    return F.cross_entropy(a[0], b)


THROUGH = {
    "targets by batch norm": lambda o, y, t, p: p.backward(
        lambda a, b: (a[0] - b).square().sum(), o, F.batch_norm(first(o).detach(), None, None, training=True)
    ),
    "targets by Sinkhorn": lambda o, y, t, p: p.backward(soft, o, sinkhorn(first(o).detach())),
    "variances": lambda o, y, t, p: p.backward(
        lambda a, b: (a[0] / b).square().sum(), o, torch.var_mean(first(o).detach(), 0)[0].expand(len(o), -1)
    ),
    "weights of the batch": lambda o, y, t, p: p.backward(lambda a, b, c: c * one_row(a, b), o, y, weights(y)),
    "class centres": lambda o, y, t, p: p.backward(lambda a, c: (a[0] - c).square().sum(), o, centres(o, y)[y]),
    "advantages": lambda o, y, t, p: p.backward(lambda a, b, c: c * one_row(a, b), o, y, advantages(y)),
    "advantages in place": lambda o, y, t, p: p.backward(lambda a, c: c * a.sum(), o, y.sub_(y.min())),
    "a centre kept": lambda o, y, t, p: p.backward(running_average, o, y),
    "a centre kept in place": lambda o, y, t, p: p.backward(running_average_in_place, o, y),
    "a queue": lambda o, y, t, p: p.backward(queued, o, y),
    "a locked tower": lambda o, y, t, p: p.backward(
        lambda a, c: (a[0] @ c).sum(), o, TOWER(X.mean((0, 1))).expand(len(o), -1)
    ),
    "scores against a locked tower": lambda o, y, t, p: p.backward(
        F.cross_entropy, first(o) @ TOWER(X[:, 0]).T, torch.arange(len(o))
    ),
    "outputs changed": lambda o, y, t, p: p.backward(one_row, o / o.detach().std(), y),
    "outputs centred": lambda o, y, t, p: p.backward(one_row, o - o.mean(0), y),
    "outputs changed in place": lambda o, y, t, p: p.backward(one_row, o.div_(o.detach().std()), y),
    "outputs in another order": lambda o, y, t, p: p.backward(one_row, o.flip(0), y),
    "outputs cast and changed": lambda o, y, t, p: p.backward(one_row, o.double() - o.double().mean(0), y),
    "outputs detached and scaled": lambda o, y, t, p: p.backward(
        lambda a, b, c: one_row(a, b) * c.sum(), o, y, o.detach() / o.detach().std()
    ),
    "permuted labels": lambda o, y, t, p: p.backward(one_row, o, y.flip(0)),
    "labels of another batch": lambda o, y, t, p: p.backward(one_row, o, 1 - LABELS),
    "mixed labels": lambda o, y, t, p: p.backward(soft, o, (F.one_hot(y, CLASSES) + F.one_hot(y.flip(0), CLASSES)) / 2),
    "a number for all": lambda o, y, t, p: p.backward(lambda a, b, c: one_row(a, b) / c, o, y, (y == 1).sum()),
    "closing over outputs": lambda o, y, t, p: p.backward(lambda a, b: one_row(a, b) / o.norm(), o, y),
    "closing over detached outputs": lambda o, y, t, p: p.backward(
        lambda a, b: one_row(a, b) / o.detach().norm(), o, y
    ),
    "closing over labels": lambda o, y, t, p: p.backward(lambda a, b: one_row(a, b) / (y == b).sum(), o, y),
    "parameters of its own": lambda o, y, t, p: p.backward(lambda a, b: F.cross_entropy(a[0] * TRAINED, b), o, y),
    "no number": lambda o, y, t, p: p.backward(lambda a, b: a[0], o, y),
    "no tensor": lambda o, y, t, p: p.backward(lambda a, b: 3.0, o, y),
    "a constant": lambda o, y, t, p: p.backward(lambda a, b: torch.tensor(3.0), o, y),
    "cancelling weights": lambda o, y, t, p: p.backward(lambda a, b: F.cross_entropy(a[0], b, weight=WEIGHTS), o, y),
    "a hook": lambda o, y, t, p: (o.register_hook(lambda g: g / g.norm()), p.backward(one_row, o, y)),
}


@pytest.mark.filterwarnings("ignore:loss_fn is run row by row", "ignore:The .grad attribute")
@pytest.mark.parametrize("name", THROUGH)
def test_what_enters_a_loss_is_not_made_of_the_batch(name):
    KEEP.update(mean=torch.zeros(CLASSES), queue=torch.zeros(5, CLASSES))
    training = made()
    cures = (
        r"as they came|as it came|as outputs|constant|one number|reduction='sum'|fit one row|first dim|depend on the"
        r"|hook was put|over in place"
    )
    with pytest.raises(GuaranteeError, match=cures):
        trained(training, THROUGH[name], steps=STEPS)
    assert training.accountant.steps == (name in {"a centre kept", "a queue"})  # what they read first is a constant


def test_a_constant_that_changes_from_step_to_step_is_refused_at_the_second():
    """That it was made of the batch cannot be seen at the first: what a function closes over is its author's."""
    training = made()

    def over_a_count(o, y, t, p):
        count = (y == 1).sum()
        p.backward(lambda a, b: one_row(a, b) / (count + 1), o, y)

    with pytest.raises(GuaranteeError, match="changes from step to step"):
        trained(training, over_a_count, steps=STEPS)
    assert training.accountant.steps == 1


@pytest.mark.parametrize(
    "change", [lambda x: x - x.mean(0), lambda x: x.flip(0), lambda x: x[:5], lambda x: x.clone().mul_(2)]
)
def test_inputs_of_the_model_are_the_loaders_tensors(change):
    training = made()
    x, y, _ = next(iter(training.data_loader))
    outputs = training.module(change(x))
    with pytest.raises(GuaranteeError, match=r"not one of the drawn batch.*private\.data_loader"):
        training.backward(one_row, outputs, y)
    assert training.accountant.steps == 0


def test_a_batch_of_another_loader_is_told_where_it_should_come_from():
    training = made()
    x, y, _ = next(iter(DataLoader(training.data_loader.dataset, batch_size=ROWS)))
    next(iter(training.data_loader))
    with pytest.raises(GuaranteeError, match=r"is this batch from private\.data_loader\?"):
        training.backward(one_row, training.module(x), y)


@pytest.mark.parametrize(
    "change", [lambda x: x.clone(), lambda x: x.double().float(), lambda x: x.view(ROWS, -1).view(x.shape)]
)
def test_inputs_and_targets_may_be_moved_cast_and_reshaped(change):
    wanted = trained(made(), lambda o, y, t, p: p.backward(one_row, o, y))
    training = made()
    for x, y, _ in training.data_loader:
        training.backward(one_row, training.module(change(x)), y.int().long())
    assert torch.allclose(training.optimizer.step_state.sums.flat, wanted)


def test_outputs_may_be_cast_after_the_forward():
    wanted = trained(made(), lambda o, y, t, p: p.backward(one_row, o, y), steps=STEPS)
    found = trained(made(), lambda o, y, t, p: p.backward(one_row, o.to(torch.float64), y), steps=STEPS)
    assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-6)


def test_one_label_moves_the_sum_by_one_threshold_and_a_batch_mean_by_many():
    """The attack of the mean with class weights, and what closes it; the sum of the old way is worked out by hand."""
    labels = torch.zeros_like(LABELS)
    other = labels.clone()
    other[5] = 3

    def moved(loss):
        sums = [trained(made(labels=each), loss) for each in (labels, other)]
        return float((sums[0] - sums[1]).norm()) / CLIP

    def by_rows(o, y, t, p):
        p.backward(lambda a, b: F.cross_entropy(a[0], b, weight=WEIGHTS, reduction="sum"), o, y)

    def old(o, y, t, p):
        total = float(WEIGHTS[y].sum()) / len(y)  # a Python number, which nobody can see
        p.backward(lambda a, b: F.cross_entropy(a[0], b, weight=WEIGHTS, reduction="sum") / total, o, y)

    assert moved(by_rows) <= 2 * (1 + 1e-5)  # one row goes, another comes
    assert moved(old) > 4


def test_a_metric_by_rows_needs_no_gradient_and_no_batch():
    training = made()
    with torch.no_grad():
        found = training.loss(one_row, training.module(X), LABELS)
        wanted = F.cross_entropy(first(NET(X)), LABELS)
    assert math.isclose(float(found), float(wanted), rel_tol=1e-5)


# A way for each.


def over(model, *tensors, **options):
    return make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(*tensors), batch_size=ROWS),
        noise_multiplier=1.0,
        **options,
    )


class Twice(nn.Module):
    """R-Drop: the same rows twice, with dropout."""

    def __init__(self):
        super().__init__()
        self.model, self.drop = copy.deepcopy(NET), nn.Dropout(0.3)

    def forward(self, x):
        return self.model(self.drop(x)), self.model(self.drop(x))


def r_drop(outputs, label):
    one, two = (own[0].log_softmax(0) for own in outputs)
    return F.nll_loss(one, label) + F.nll_loss(two, label) + F.kl_div(one, two, reduction="sum", log_target=True)


class Preference(nn.Module):
    """DPO: what the model makes of a chosen and of a rejected answer."""

    def __init__(self):
        super().__init__()
        self.model = copy.deepcopy(NET)

    def forward(self, chosen, rejected):
        return self.model(chosen), self.model(rejected)


class RealAndFake(nn.Module):
    """A GAN's discriminator, which draws what it is to tell from real rows."""

    def __init__(self, generator):
        super().__init__()
        self.judge, self.generator = nn.Linear(WIDTH, 1), [generator]  # no part: it is trained outside

    def forward(self, real):
        with torch.no_grad():
            fake = self.generator[0](torch.randn(len(real), LENGTH, 2))
        return self.judge(real).mean((1, 2)), self.judge(fake).mean((1, 2))


def test_two_forwards_under_one_loss_are_a_wrapper_module():
    def steps(training, loss, *more):
        for batch in training.data_loader:
            training.optimizer.zero_grad()
            loss(training, *batch)
            training.optimizer.step()
        assert training.accountant.steps == 1

    steps(over(Twice(), X, LABELS), lambda p, x, y: p.backward(r_drop, p.module(x), y))
    reference = Preference().requires_grad_(False)
    training = over(Preference(), X, X.flip(1) + 1)
    frozen = training.frozen(reference)

    def preference(outputs, before):
        margins = [
            (own.logsumexp(-1).sum() - base.logsumexp(-1).sum()) for own, base in zip(outputs, before, strict=True)
        ]
        return -F.logsigmoid(0.1 * (margins[0] - margins[1]))

    steps(training, lambda p, c, r: p.backward(preference, p.module(c, r), frozen(c, r)))
    adversary = over(RealAndFake(nn.Linear(2, WIDTH)), X)
    steps(adversary, lambda p, x: p.backward(lambda own: F.softplus(-own[0]) + F.softplus(own[1]), p.module(x)))


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return self.layer(x - 1e-3 * x.mean(0))


def test_a_teacher_is_a_frozen_module_that_keeps_rows_apart():
    teacher = nn.Sequential(nn.Linear(WIDTH, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    training = made()
    own = training.frozen(teacher)

    def distilled(a, c):
        return F.kl_div(a.log_softmax(-1), c.softmax(-1), reduction="sum")

    for _ in range(STEPS):
        for x, _, _ in training.data_loader:
            training.optimizer.zero_grad()
            with torch.no_grad():  # or without: there are no gradients either way
                targets = own(x)
            training.backward(distilled, training.module(x), targets)
            training.optimizer.step()
    assert training.accountant.steps == STEPS
    training = made()
    x, _, _ = next(iter(training.data_loader))
    with pytest.raises(GuaranteeError, match="depends on other examples"):
        training.frozen(Mixing())(x)
    with pytest.raises(GuaranteeError, match=r"private\.frozen"):
        training.backward(distilled, training.module(x), teacher(x).detach())
    with pytest.raises(GuaranteeError, match=r"private\.frozen"):  # of rows that are not the batch's
        training.backward(distilled, training.module(x), training.frozen(teacher)(x - x.mean(0)))


def test_several_terms_are_one_loss():
    def both(a, b, c):
        return one_row(a, b) + 0.5 * F.cross_entropy(a, c)

    assert float(trained(made(), lambda o, y, t, p: p.backward(both, o, y, t)).norm()) > 0

    def apart(o, y, t, p):
        (p.loss(one_row, o, y) + p.loss(F.cross_entropy, o, t)).backward()

    with pytest.raises(GuaranteeError, match=r"ran twice .*one loss of all"):
        trained(made(), apart)


@pytest.mark.parametrize("shift", [False, True])
def test_per_example_loss_is_the_mean_over_a_rows_own_labels(shift):
    tokens = TOKENS.clone()
    tokens[3:6, 1:] = -100
    tokens[0] = -100
    logits = torch.randn(ROWS, LENGTH, CLASSES, generator=torch.Generator().manual_seed(2))
    found = dpsgd.per_example_loss(logits, tokens, shift=shift)
    pairs = zip(logits[:, :-1], tokens[:, 1:], found, strict=True) if shift else zip(logits, tokens, found, strict=True)
    for own, label, one in pairs:
        counts = label[label != -100]
        wanted = F.cross_entropy(own[label != -100], counts) if len(counts) else torch.zeros(())
        assert torch.allclose(one, wanted, rtol=1e-5, atol=1e-6)
    training = made(tokens=tokens)
    assert (
        float(
            trained(training, lambda o, y, t, p: p.backward(partial(dpsgd.per_example_loss, shift=shift), o, t)).norm()
        )
        > 0
    )
