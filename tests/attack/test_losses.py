"""A loss may not carry one row into the gradients of others: mixing losses are refused, ordinary ones are not.

The losses that are refused move clipped sums by up to 41 thresholds where they are let through (one label decides how
everybody's gradient is divided); the noise covers one.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

from inid import dpsgd
from inid.errors import GuaranteeError
from row_losses import CLASSES, LABELS, LENGTH, NET, ROWS, TOKENS, WEIGHTS, WIDTH, X, first, made, trained


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
    "by a count, with a mode": lambda o, y, t: torch.div(
        F.cross_entropy(first(o), y, reduction="sum"), of_all(y), rounding_mode=None
    ),
    **{
        f"by a count, {kind}": lambda o, y, t, kind=kind: (
            F.cross_entropy(first(o), y, reduction="sum") * (y == 3).sum().to(kind)
        )
        for kind in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.half, torch.bfloat16, torch.double)
    },
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
    "set against all targets, by class": lambda o, y, t: F.mse_loss(
        o.flatten(1),
        y.float(),  # as many numbers in a row as there are rows
    ),
    "scored at all targets": lambda o, y, t: first(o).index_select(1, y).logsumexp(1).mean(),
    "gathered at all targets": lambda o, y, t: first(o).gather(1, y.expand(len(y), -1)).logsumexp(1).mean(),
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


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", MIXING)
def test_a_loss_that_mixes_rows_is_refused_before_its_backward(name):
    training = made()
    with pytest.raises(GuaranteeError, match=r"mixes the rows|parameters of its own"):
        trained(training, lambda o, y, t, _: MIXING[name](o, y, t).backward())
    assert not training.optimizer.step_state.sums.begun
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
    "by numbers": lambda o, y, t: F.cross_entropy(first(o), y) * 3 / 2.5 * 2**40 * 1e-3,
    "towards a constant": lambda o, y, t: F.mse_loss(o.flatten(1), torch.zeros(())),
    "some columns": lambda o, y, t: first(o).index_select(1, torch.tensor([0, 2])).square().mean(),
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
}
NET_OF = [NET]


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_loss_is_not_refused(name):
    training = made()
    NET_OF[0] = training.module

    assert float(trained(training, lambda o, y, t, _: ORDINARY[name](o, y, t).backward()).norm()) > 0


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
