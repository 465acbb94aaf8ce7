"""What enters a loss that is taken row by row is not made of the batch; one loss per row is looked at."""

import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

from inid.dpsgd import ForwardPass
from inid.errors import GuaranteeError
from row_losses import CLASSES, CLIP, LABELS, LENGTH, NET, ROWS, WEIGHTS, X, first, made, trained


def moved(loss, one, other):
    """By how many thresholds one example's labels move the sum."""
    return float((trained(made(labels=one), loss) - trained(made(labels=other), loss)).norm()) / CLIP


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


def narrow(o, *, change=lambda cast: None):
    """As accelerate casts outputs, and what somebody does with them then."""
    made = o.to(torch.float64)
    with torch.no_grad():
        change(made)
    return made


def test_outputs_may_be_cast_after_the_forward():
    wanted = trained(made(), lambda o, y, t, training: training.backward(one_row, o, y), steps=3)
    found = trained(made(), lambda o, y, t, training: training.backward(one_row, narrow(o), y), steps=3)
    assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-6)


CAST = {
    "written over": lambda o: narrow(o, change=lambda cast: cast.mul_(cast.mean())),
    "written over behind autograd's back": lambda o: narrow(o, change=lambda cast: cast.data.mul_(cast.mean())),
    "of what was changed": lambda o: (o - o.mean(0)).double(),
    "and changed": lambda o: o.double() - o.double().mean(0),
    "in another order": lambda o: o.flip(0).double(),
}


@pytest.mark.parametrize("name", CAST)
def test_a_cast_output_is_the_output(name):
    with pytest.raises(GuaranteeError, match=r"changed between|written over|rows"):
        trained(made(), lambda o, y, t, training: training.backward(one_row, CAST[name](o), y))


@pytest.mark.parametrize("name", ["written over", "written over behind autograd's back"])
def test_a_cast_that_was_written_over_passes_where_its_values_are_not_looked_at(name, monkeypatch):
    """The twin that takes every cast of an output for the output."""

    def unseen(turn, tensor, *, look):
        del look
        edge = tensor.grad_fn, tensor.output_nr
        return edge if edge in turn.returned else tuple(tensor.grad_fn.next_functions[0])

    monkeypatch.setattr(ForwardPass, "returned_as", unseen)
    trained(made(), lambda o, y, t, training: training.backward(one_row, CAST[name](o), y))


def one_row(a, b):
    return F.cross_entropy(a[0], b)


KEEP = {"mean": torch.zeros(CLASSES)}
TRAINED = nn.Parameter(torch.ones(CLASSES))


def closing_over_a_count(o, y, t, p):
    count = (y == 1).sum()
    return p.backward(lambda a, b: one_row(a, b) / (count + 1), o, y)


class Counted(nn.Module):
    """A loss with a state that somebody makes anew for every batch."""

    def __init__(self, count):
        super().__init__()
        self.count = count

    def forward(self, a, b):
        return one_row(a, b) / (self.count + 1)


def over_a_count(a, b, count):
    return one_row(a, b) / (count + 1)


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
    "a count that is bound": lambda o, y, t, p: p.backward(partial(over_a_count, count=(y == 1).sum()), o, y),
    "a count in a module": lambda o, y, t, p: p.backward(Counted((y == 1).sum()), o, y),
    "a count in a compiled function": lambda o, y, t, p: p.backward(
        torch.compile(partial(over_a_count, count=(y == 1).sum()), backend="eager"), o, y
    ),
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
    assert training.accountant.steps == (name == "a running average")  # what it reads first was there before


def test_several_heads_may_have_constants_of_their_own():
    heads = [Counted(torch.tensor(float(at))) for at in range(3)]

    def loss(o, y, t, p):
        sum(p.loss(head, o, y) for head in heads).backward()

    wanted = trained(
        made(), lambda o, y, t, _: (F.cross_entropy(first(o), y) * (1 + 1 / 2 + 1 / 3)).backward(), steps=4
    )
    assert torch.allclose(trained(made(), loss, steps=4), wanted, rtol=1e-4, atol=1e-6)


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


@pytest.mark.filterwarnings("default:There is a performance drop")
def test_ctc_runs_by_rows_with_torchs_warning_and_as_one_loss_per_row():
    def apart(o, y, t, p):
        lengths = torch.full((ROWS,), LENGTH), torch.ones(ROWS, dtype=torch.long)
        p.backward(F.ctc_loss(o.log_softmax(-1).transpose(0, 1), t.clamp(1), *lengths, reduction="none"))

    def by_rows(a, b):
        return F.ctc_loss(a.log_softmax(-1)[:, None], b.clamp(1)[None], (LENGTH,), (1,), reduction="sum")

    wanted = trained(made(), apart)
    assert float(wanted.norm()) > 0
    with pytest.warns(UserWarning, match="performance drop"):
        found = trained(made(), lambda o, y, t, p: p.backward(by_rows, o, t))
    assert torch.allclose(found, wanted, rtol=1e-4, atol=1e-6)


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
        wanted = F.cross_entropy(first(NET(X)), LABELS)
    assert math.isclose(float(found), float(wanted), rel_tol=1e-5)
