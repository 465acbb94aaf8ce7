"""What a loop does to gradients on their way from the loss to the outputs is refused: hooks, and gradients of its own.

Let through, a hook that divides by the norm over the batch lets one row decide about everybody's gradient.
"""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody calls it

from inid.errors import GuaranteeError
from row_losses import LABELS, ROWS, WEIGHTS, X, first, made, trained


def losses_of(o, y):
    return F.cross_entropy(first(o), y, reduction="none")


HANDED = {
    "a count": lambda o, y, p: losses_of(o, y).sum().backward(1.0 / (y == 1).sum()),
    "a number of dimension one": lambda o, y, p: losses_of(o, y).sum()[None].backward(1.0 / (y == 1).sum()[None]),
    "by name": lambda o, y, p: losses_of(o, y).mean().backward(gradient=o.detach().norm()),
    "weights by row": lambda o, y, p: losses_of(o, y).backward(WEIGHTS[y] / WEIGHTS[y].sum()),
    "ones by row": lambda o, y, p: losses_of(o, y).backward(torch.ones(len(y))),
    "autograd.backward": lambda o, y, p: torch.autograd.backward(losses_of(o, y), WEIGHTS[y] / WEIGHTS[y].sum()),
    "one of several": lambda o, y, p: torch.autograd.backward(
        [losses_of(o, y).mean(), o.square().mean()], [None, o.detach().norm()]
    ),
    "on outputs": lambda o, y, p: o.backward(o.detach() / o.detach().norm()),
    "after a loss by rows": lambda o, y, p: p.loss(lambda a, b: F.cross_entropy(a[0], b), o, y).backward(y.sum() + 1.0),
}


@pytest.mark.parametrize("name", HANDED)
def test_a_gradient_that_is_handed_to_backward_is_refused(name):
    training = made()
    with pytest.raises(GuaranteeError, match=r"handed to backward.*Python number.*private\.backward|mixes the rows"):
        trained(training, lambda o, y, t, p: HANDED[name](o, y, p))
    assert not training.optimizer.step_state.sums.begun


def test_backward_without_a_gradient_is_not_refused():
    wanted = trained(made(), lambda o, y, t, _: (3 * losses_of(o, y).mean()).backward())

    def beside(o, y, t, _):  # an ordinary model's own gradients are nobody's business
        nn.Linear(2, 2)(torch.ones(3, 2)).backward(torch.ones(3, 2))
        torch.autograd.backward([losses_of(o, y).mean(), 2 * losses_of(o, y).mean()])

    for loss in (lambda o, y, t, _: (3 * losses_of(o, y).mean()).backward(gradient=None), beside):
        assert torch.allclose(trained(made(), loss), wanted, rtol=1e-5, atol=1e-7)


def shared(gradient):
    return gradient / gradient.norm()


def on_losses(register):
    def loss(o, y, model):
        losses = losses_of(o, y)
        register(losses)
        return losses.mean()

    return loss


def on_outputs(register):
    def loss(o, y, model):
        register(o)
        return losses_of(o, y).mean()

    return loss


def on_a_lost_tensor(register):
    def loss(o, y, model):
        logits = first(o)
        register(logits)
        return F.cross_entropy(logits * 2, y)

    return loss


def on_what_the_model_keeps(register):
    def loss(o, y, model):
        register(model.kept)
        return losses_of(o, y).mean() + 0.1 * model.kept.mean()

    return loss


def on_the_loss(register):
    def loss(o, y, model):
        found = losses_of(o, y).mean()
        register(found)
        return found

    return loss


PLACES = [on_losses, on_outputs, on_a_lost_tensor, on_what_the_model_keeps, on_the_loss]
REGISTERED = {
    "a tensor": lambda tensor: tensor.register_hook(shared),
    "a tensor, in place": lambda tensor: tensor.register_hook(lambda g: g.div_(g.norm()) and None),
    "a node, after it": lambda tensor: tensor.grad_fn.register_hook(lambda inner, _: tuple(map(shared, inner))),
    "a node, before it": lambda tensor: tensor.grad_fn.register_prehook(lambda outer: (shared(outer[0]),)),
    "several": lambda tensor: torch.autograd.graph.register_multi_grad_hook((tensor,), lambda gs: gs[0].mul_(2)),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", REGISTERED)
def test_a_hook_outside_the_module_is_refused(name, place):
    training = made()
    loss = place(REGISTERED[name])
    with pytest.raises(GuaranteeError, match=r"a hook was put on a tensor of the graph.*remove it"):
        trained(training, lambda o, y, t, p: loss(o, y, p.module).backward())
    assert not training.optimizer.step_state.sums.begun


@pytest.mark.parametrize("name", ["a tensor", "a node, before it"])
def test_losses_by_rows_and_one_per_row_are_no_way_around(name):
    def apart(o, y, t, p):
        losses = losses_of(o, y)
        REGISTERED[name](losses)
        p.backward(losses)

    def by_rows(o, y, t, p):
        REGISTERED[name](o)
        p.backward(lambda a, b: F.cross_entropy(a[0], b), o, y)

    for loss in (apart, by_rows):
        with pytest.raises(GuaranteeError, match="a hook was put"):
            trained(made(max_physical_batch_size=4), loss)


@pytest.mark.parametrize("name", REGISTERED)
@pytest.mark.parametrize("place", PLACES)
def test_hooks_that_were_removed_and_kept_gradients_are_not_refused(name, place):
    wanted = trained(made(), lambda o, y, t, p: place(lambda _: None)(o, y, p.module).backward())

    def loss(o, y, t, p):
        o.retain_grad()
        place(lambda tensor: REGISTERED[name](tensor).remove())(o, y, p.module).backward()

    assert torch.allclose(trained(made(), loss), wanted, rtol=1e-5, atol=1e-7)


def test_hooks_on_other_graphs_are_not_refused():
    other = nn.Linear(2, 2)(torch.ones(3, 2))
    other.register_hook(shared)
    other.grad_fn.register_hook(lambda inner, _: inner)

    def loss(o, y, t, _):
        losses_of(o, y).mean().backward()

    trained(made(), loss, steps=2)
    other.sum().backward()


class Cloned:
    """Keeps what autograd saves in a way that hands out a new copy every time."""

    def __enter__(self):
        self.hooks = torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone)
        return self.hooks.__enter__()

    def __exit__(self, *args):
        return self.hooks.__exit__(*args)


@pytest.mark.parametrize("within", [torch.autograd.graph.save_on_cpu, Cloned])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_a_mean_over_labels_that_count_is_right_or_refused_where_saved_tensors_go_elsewhere(within, smoothing):
    labels = LABELS.clone()
    labels[:5] = -100

    def loss(o, y, t, _):
        with within():
            found = F.cross_entropy(first(o), y, label_smoothing=smoothing)
        found.backward()

    if within is Cloned:
        with pytest.raises(GuaranteeError, match=r"put saved tensors elsewhere|mixes the rows"):
            trained(made(labels=labels), loss)
        return
    wanted = trained(
        made(labels=labels),
        lambda o, y, t, _: (F.cross_entropy(first(o), y, reduction="sum", label_smoothing=smoothing) / ROWS).backward(),
    )
    assert torch.allclose(trained(made(labels=labels), loss), wanted, rtol=1e-5, atol=1e-8)


def test_hooks_and_gradients_of_plain_models_work_as_before():
    model = nn.Sequential(nn.Linear(X.shape[-1], 2))
    made()  # hooks are watched from here on
    seen = []
    out = model(X)
    handle = out.register_hook(lambda g: seen.append(g) or 2 * g)
    out.backward(torch.ones_like(out))
    assert len(seen) == 1
    assert torch.equal(model[0].bias.grad, torch.full((2,), 2.0 * X.shape[0] * X.shape[1]))
    handle.remove()
