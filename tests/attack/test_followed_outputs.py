"""What outputs meet on the way to the loss, and the graph does not show: everybody's labels, detached statistics.

Physical batches have as many rows as there are classes, so that labels can be broadcast along the wrong dimension: that
moved clipped sums by up to 9.9 thresholds, and detached statistics by 14, where one replaced row may move them by two.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it
from torch.utils.data import DataLoader, TensorDataset

from inid import dpsgd
from inid.errors import GuaranteeError
from row_losses import CLASSES, LABELS, ROWS, WEIGHTS, WIDTH, X, first, made, trained

PRIOR = torch.tensor([0.1, 0.2, 0.3, 0.4])  # made before training
AS_MANY = {"max_physical_batch_size": CLASSES}  # rows as classes
SQUARE = torch.eye(CLASSES)


def everybody(y):
    return y.float()


EVERYBODYS = {
    "a difference": lambda o, y, t: ((first(o) - everybody(y)) ** 2).mean(),
    "turned round": lambda o, y, t: ((everybody(y) - first(o)) ** 2).mean(),
    "a sum": lambda o, y, t: (first(o) + everybody(y)).square().mean(),
    "whole numbers": lambda o, y, t: ((first(o) - y) ** 2).mean(),
    "absolute": lambda o, y, t: F.l1_loss(first(o), everybody(y)),
    "poisson": lambda o, y, t: F.poisson_nll_loss(first(o), everybody(y)),
    "gaussian": lambda o, y, t: F.gaussian_nll_loss(first(o), everybody(y), torch.ones(CLASSES)),
    "divergence": lambda o, y, t: F.kl_div(first(o).log_softmax(1), everybody(y) / 9, reduction="batchmean"),
    "a product": lambda o, y, t: (first(o).log_softmax(1) * everybody(y)).sum(1).mean(),
    "a quotient": lambda o, y, t: (first(o) / (1 + everybody(y))).square().mean(),
    "a power": lambda o, y, t: first(o).abs().pow(1 + everybody(y)).mean(),
    "hinge": lambda o, y, t: (1 - first(o) * everybody(y)).clamp(min=0).mean(),
    "where": lambda o, y, t: torch.where(y > 0, first(o), -first(o)).mean(),
    "masked": lambda o, y, t: first(o).masked_fill(y > 0, 0.0).square().mean(),
    "lerp": lambda o, y, t: torch.lerp(first(o), everybody(y), 0.5).square().mean(),
    "addcmul": lambda o, y, t: torch.addcmul(first(o), everybody(y), everybody(y)).square().mean(),
    "maximum": lambda o, y, t: torch.maximum(first(o), everybody(y)).mean(),
    "expanded": lambda o, y, t: ((first(o) - everybody(y).expand(CLASSES, CLASSES)) ** 2).mean(),
    "repeated": lambda o, y, t: ((first(o) - everybody(y).repeat(CLASSES, 1)) ** 2).mean(),
    "in place": lambda o, y, t: (first(o) * 1).sub_(everybody(y)).square().mean(),
    "by token": lambda o, y, t: (
        o[:, :1].expand(-1, CLASSES, -1).reshape(CLASSES, CLASSES, CLASSES).logsumexp(2) * everybody(y)
    ).mean(),
    "made of labels, repeated": lambda o, y, t: ((first(o) - (2 * y + 1).repeat(CLASSES, 1)) ** 2).mean(),
    "one label after another": lambda o, y, t: sum((first(o)[:, at] - y[at]).square().mean() for at in range(CLASSES)),
    "a law": lambda o, y, t: -torch.distributions.Normal(first(o), 1.0).log_prob(everybody(y)).mean(),
    "gathered, repeated": lambda o, y, t: -first(o).log_softmax(1).gather(1, y.repeat(CLASSES, 1)).mean(),
    "taken": lambda o, y, t: -first(o).log_softmax(1).take_along_dim(y[None], 1).mean(),
    "a constant of the loop": lambda o, y, t: (first(o) * torch.ones(CLASSES)).square().mean(),
    "what was detached": lambda o, y, t: (first(o) * (first(o).detach() - everybody(y)).square()).mean(),
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", EVERYBODYS)
def test_labels_along_another_dimension_are_refused(name):
    training = made(**AS_MANY)
    with pytest.raises(GuaranteeError, match="as many numbers as there are rows"):
        trained(training, lambda o, y, t, _: EVERYBODYS[name](o, y, t).backward())
    assert training.accountant.steps == 0


def test_labels_along_another_dimension_are_refused_in_losses_by_row_and_among_views():
    for options in (AS_MANY, {**AS_MANY, "augmentations": 2}):
        with pytest.raises(GuaranteeError, match="as many numbers as there are rows"):
            trained(made(**options), lambda o, y, t, p: p.backward((first(o) - everybody(y)).square().mean(1)))


ORDINARY = {
    "in the shape of outputs": lambda o, y, t: (first(o) - F.one_hot(y, CLASSES)).square().mean(),
    "absolute, in that shape": lambda o, y, t: F.l1_loss(first(o), F.one_hot(y, CLASSES).float()),
    "as a column": lambda o, y, t: (first(o) - everybody(y)[:, None]).square().mean(),
    "expanded from a column": lambda o, y, t: F.mse_loss(first(o), everybody(y)[:, None].expand(-1, CLASSES)),
    "weighted by row": lambda o, y, t: (F.cross_entropy(o.mT, t, reduction="none") * y[:, None]).mean(),
    "class weights": lambda o, y, t: (first(o).softmax(1) * WEIGHTS).sum(1).mean(),
    "a prior": lambda o, y, t: F.cross_entropy(first(o) + PRIOR, y),
    "above a number": lambda o, y, t: by_row(o, y, lambda losses: losses.detach() > 1.0),
    "detached, times a constant": lambda o, y, t: (first(o) * (first(o).detach() @ SQUARE)).sum(1).mean(),
    "normed by row": lambda o, y, t: (first(o) * F.layer_norm(first(o).detach(), (CLASSES,))).sum(1).mean(),
    "a view of it": lambda o, y, t: F.cross_entropy(first(o) + PRIOR[None], y),
    "a square constant": lambda o, y, t: (first(o) * SQUARE).sum(1).mean(),
    "an expectation": lambda o, y, t: ((first(o).softmax(1) * torch.arange(CLASSES)).sum(1) - y).square().mean(),
    "numbers": lambda o, y, t: (first(o).softmax(1) + 1e-8).log().mean() - 2 * (first(o) - 1).square().mean(),
    "cross-entropy": lambda o, y, t: F.cross_entropy(first(o), y),
    "gathered": lambda o, y, t: -first(o).log_softmax(1).gather(1, y[:, None]).mean(),
    "taken": lambda o, y, t: -first(o).log_softmax(1).take_along_dim(y[:, None], 1).mean(),
    "detached by row": lambda o, y, t: (
        (first(o).log_softmax(1) * (first(o).detach() / 2).softmax(1)).sum(1).mean()
        + ((1 - first(o).detach().softmax(1).amax(1)) ** 2 * F.cross_entropy(first(o), y, reduction="none")).mean()
    ),
    "pseudo labels": lambda o, y, t: (
        F.cross_entropy(first(o), o[:, 1].detach().argmax(1), reduction="none")
        * (o[:, 1].detach().softmax(1).max(1)[0] > 0.3)
    ).mean(),
    "stabilised by row": lambda o, y, t: (first(o) - first(o).detach().amax(1, keepdim=True)).exp().sum(1).log().mean(),
    "without gradients": lambda o, y, t: (first(o) * quietly(lambda: first(o).softmax(1))).sum(1).mean(),
    "chosen by an index": lambda o, y, t: (o[:, 0, 0] * o.detach()[torch.arange(len(o)), 0, y]).mean(),
}


def quietly(work):
    with torch.no_grad():
        return work()


@pytest.mark.parametrize("name", ORDINARY)
def test_what_lies_by_rows_or_was_there_before_is_not_refused(name):
    training = made(**AS_MANY)
    assert float(trained(training, lambda o, y, t, _: ORDINARY[name](o, y, t).backward(), steps=2).norm()) > 0


def inferred(work):
    with torch.inference_mode():
        return work()


def by_row(o, y, weigh):
    losses = F.cross_entropy(first(o), y, reduction="none")
    return (losses * weigh(losses)).mean()


STATISTICS = {
    "a mean": lambda o, y: F.cross_entropy(first(o) - 5 * first(o).detach().mean(0), y),
    "a deviation": lambda o, y: F.cross_entropy(first(o) / o.detach().std(), y),
    "the largest": lambda o, y: F.cross_entropy(first(o) / first(o).detach().abs().max(), y),
    "normalised": lambda o, y: (first(o) * (first(o) - first(o).mean(0)).detach()).sum(1).mean(),
    "over rows": lambda o, y: (first(o) * first(o).detach().softmax(0)).sum(1).mean(),
    "without gradients": lambda o, y: F.cross_entropy(first(o) * quietly(o.norm), y),
    "by data": lambda o, y: F.cross_entropy(first(o) - o.data.mean((0, 1)), y),
    "a target": lambda o, y: F.cross_entropy(first(o), (first(o).detach() / first(o).detach().sum(0)).softmax(1)),
    "sorted": lambda o, y: (first(o) * first(o).detach().sort(0)[0]).sum(1).mean(),
    "above the mean": lambda o, y: by_row(o, y, lambda losses: losses >= losses.mean()),
    "the largest losses": lambda o, y: by_row(o, y, lambda losses: losses > losses.kthvalue(2)[0]),
    "weights over rows": lambda o, y: by_row(o, y, lambda losses: losses.detach().softmax(0)),
    "a layer norm over rows": lambda o, y: (first(o) * F.layer_norm(first(o).detach().T, (len(o),)).T).mean(),
    "products of rows": lambda o, y: (first(o) * (first(o).detach().T @ first(o).detach()).sum(0)).mean(),
    "in inference mode": lambda o, y: (first(o) * inferred(lambda: first(o).mean(0)).clone()).mean(),
    "rolled": lambda o, y: (first(o) * first(o).detach().roll(1, 0)).sum(1).mean(),
}


@pytest.mark.parametrize("options", [{}, AS_MANY, {"augmentations": 2}])
@pytest.mark.parametrize("name", STATISTICS)
def test_detached_statistics_of_outputs_are_refused(name, options):
    training = made(**options)
    with pytest.raises(GuaranteeError, match="mixes the rows"):
        trained(training, lambda o, y, t, _: STATISTICS[name](o, y).backward())
    assert training.accountant.steps == 0


def test_detached_statistics_are_refused_in_losses_by_row_and_kept_as_metrics():
    def mixing(o, y, t, p):
        p.backward(F.cross_entropy(first(o) - first(o).detach().mean(0), y, reduction="none"))

    with pytest.raises(GuaranteeError, match="mixes the rows"):
        trained(made(), mixing)

    def metrics(o, y, t, p):
        loss = F.cross_entropy(first(o), y)
        seen = [
            o.detach().std(),
            (o.argmax(-1) == t).float().mean(),
            loss.item(),
            f"{loss:.3f}",
            repr(loss),
            o.numpy(force=True),
        ]
        assert len(seen) == 6
        assert "Followed" not in repr(loss)
        loss.backward()
        assert type(loss) is torch.Tensor
        assert type(o) is torch.Tensor

    trained(made(), metrics, steps=2)


def centred(tensor):
    with torch.no_grad():
        tensor -= 5 * tensor.mean(0)
    return tensor


def centred_data(tensor):
    tensor.data.sub_(5 * tensor.data.mean(0))
    return tensor


def centred_numpy(tensor):
    values = tensor.detach().numpy()
    values -= 5 * values.mean(0)
    return tensor


def centred_detached(tensor):
    tensor.detach().sub_(5 * tensor.detach().mean(0))
    return tensor


WRITING = [centred, centred_data, centred_numpy, centred_detached]
# An output that is a view, as that of a linear layer over tokens, gets another graph when it is written to.
WRITTEN = r"written over in place without gradients|changed between the forward and the loss|mixes the rows"
LOSSES = {
    "by rows": lambda o, y, p: p.backward(lambda a, b: F.cross_entropy(a[0], b), o, y),
    "one loss per row": lambda o, y, p: p.backward(F.cross_entropy(first(o), y, reduction="none")),
    "a number": lambda o, y, p: F.cross_entropy(first(o), y).backward(),
}


@pytest.mark.parametrize("options", [{}, AS_MANY, {"augmentations": 2}])
@pytest.mark.parametrize("write", WRITING)
@pytest.mark.parametrize("name", LOSSES)
def test_outputs_that_are_written_over_without_gradients_are_refused(name, write, options):
    training = made(**options)
    with pytest.raises(GuaranteeError, match=WRITTEN):
        trained(training, lambda o, y, t, p: LOSSES[name](write(o), y, p))
    assert training.accountant.steps == 0


@pytest.mark.parametrize("write", [centred, centred_data, centred_detached])
def test_what_is_made_of_outputs_is_not_written_over_either(write):
    with pytest.raises(GuaranteeError, match="written over in place without gradients"):
        trained(made(), lambda o, y, t, p: F.cross_entropy(write(first(o) * 2), y).backward())


def test_what_is_made_of_outputs_may_be_changed_in_place_with_gradients():
    found = trained(made(), lambda o, y, t, p: F.cross_entropy((first(o) + 0).mul_(2), y).backward(), steps=2)
    wanted = trained(made(), lambda o, y, t, p: F.cross_entropy(2 * first(o), y).backward(), steps=2)
    assert torch.allclose(found, wanted)


@pytest.mark.parametrize("options", [{}, AS_MANY, {"augmentations": 2}])
@pytest.mark.parametrize("write", [centred_data, centred_numpy, centred_detached])
def test_targets_that_are_written_over_are_refused_by_rows(write, options):
    training = made(labels=torch.arange(ROWS).float(), **options)
    with pytest.raises(GuaranteeError, match="not a tensor of the drawn batch as it came"):
        trained(training, lambda o, y, t, p: p.backward(lambda a, b: (a.sum() - b).square(), o, write(y)))
    assert training.accountant.steps == 0


class Pair:
    def __init__(self, logits):
        self.logits = logits


class Inside(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        return Pair(self.layer(x))


def test_outputs_in_objects_of_any_kind_are_followed_and_come_back_as_they_were():
    model = Inside()
    training = dpsgd.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(X, LABELS), batch_size=ROWS),
        noise_multiplier=1.0,
    )
    x, y = next(iter(training.data_loader))
    kept = training.module(x).logits
    with pytest.raises(GuaranteeError, match="mixes the rows"):
        F.cross_entropy(first(kept) - kept.detach().mean(), y).backward()
    training.module(x)
    assert type(kept) is torch.Tensor
