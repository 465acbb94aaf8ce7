"""No example changes the norms of others, not by a digit: where all are on the edge, a digit moves all counts.

Adaptive thresholds release how many examples are within them, with noise for one example. Norms of others did change:
an example that is not a number made all rows be copied to another layout, which sums in another order; and the tokens
of an example were among those for which the norms of all were rounded up.
"""

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from inid.dpsgd.grad_sample import DenseGrads, OuterGrads, raised
from internals import module_with
from training import make_private

clipped_sums = module_with("inid.dpsgd.grad_sample", "Rule")
gradient_rows = module_with("inid.dpsgd.grad_sample", "Bounds")
poisson_draw = module_with("inid.dpsgd.sampling", "StepPlaces")

NUMBER, WIDTH = 40, 128  # wider than rows that are added in float64 at once, which hides how they lie
LAST = NUMBER - 1


def expanded(value):
    """One number per example, repeated for all outputs without being written down, as a sum over outputs gives it."""
    return torch.full((NUMBER, 1), value).expand(NUMBER, WIDTH)


def on_an_edge():
    """A number whose rows measure differently as they lie and written down; the smaller of both norms."""
    draw = torch.Generator().manual_seed(0)
    for _ in range(1000):
        value = float(torch.rand((), generator=draw) + 0.5)
        norms = {
            float(DenseGrads(rows).powers(2).sqrt()[0]) for rows in (expanded(value), expanded(value).contiguous())
        }
        if len(norms) == 2:
            return value, min(norms)
    raise AssertionError("no number measures differently")


def counted(model, tensors, loss, limits, drawn, monkeypatch):
    """How many examples are within their threshold, group by group."""
    monkeypatch.setattr(poisson_draw, "bernoulli", lambda *_: drawn)
    training = make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        data_loader=DataLoader(TensorDataset(*tensors), batch_size=NUMBER // 2),
        noise_multiplier=1.0,
        loss_reduction="sum",
        clipping="per_layer",
        groups=[[name] for name, _ in model.named_parameters()],
        max_grad_norm=limits,
        thresholds="adaptive",
        max_physical_batch_size=NUMBER,
    )
    loss(training, *next(iter(training.data_loader)))
    return training.optimizer.step_state.sums.inside.numpy()


def moved(made, tensors, loss, limits, monkeypatch):
    """By how much the last example moves the counts."""
    everyone = np.ones(NUMBER, dtype=bool)
    both = [
        counted(made(), tensors, loss, limits, drawn, monkeypatch)
        for drawn in (everyone, everyone & (np.arange(NUMBER) < LAST))
    ]
    return np.abs(both[0] - both[1]).max()


def not_a_number(monkeypatch):
    value, limit = on_an_edge()
    weights = torch.full((NUMBER,), value)
    weights[LAST] = torch.nan
    tensors = (torch.ones(NUMBER, 3), weights)
    return moved(lambda: nn.Linear(3, WIDTH), tensors, _by_weight, [1.0, limit], monkeypatch)


def _by_weight(training, x, weights):
    training.backward(lambda row, weight: row.sum() * weight, training.module(x), weights)


def tokens_of_its_own(monkeypatch):
    """Others repeat one token, the last example has four: the threshold is the norm of others without it."""
    x = torch.zeros(NUMBER, 4, dtype=torch.int64)
    x[LAST] = torch.arange(4)
    own = gradient_rows.EmbeddingGrads.of_tokens(x.clone().fill_(0), torch.ones(NUMBER, 4, WIDTH), 8, None)
    limit = float(own.powers(2).sqrt()[0])
    return moved(
        lambda: nn.Embedding(8, WIDTH),
        (x,),
        lambda training, x: training.backward(torch.sum, training.module(x)),
        [limit],
        monkeypatch,
    )


ATTACKS = {"not a number": not_a_number, "tokens": tokens_of_its_own}


@pytest.mark.parametrize("name", ATTACKS)
def test_one_example_moves_the_counts_by_one(name, monkeypatch):
    assert ATTACKS[name](monkeypatch) <= 1


def test_twins_move_all_counts(monkeypatch):
    def swept(pieces, norm):
        norms = clipped_sums._norms(pieces, norm)
        if not bool(norms.isfinite().all()):
            norms = clipped_sums._norms([(place, own.finite()) for place, own in pieces], norm)
        return [(place, own.finite()) for place, own in pieces], norms

    def by_all_lines(self, order):
        out = torch.zeros(self.count, dtype=torch.float64)
        return raised(out.index_add_(0, self.examples, gradient_rows._powers(self.values, order)), self.lines.numel())

    monkeypatch.setattr(clipped_sums, "_measured", swept)
    monkeypatch.setattr(gradient_rows.EmbeddingGrads, "powers", by_all_lines)
    for attack in ATTACKS.values():
        assert attack(monkeypatch) >= LAST - 1


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_one_example_that_is_not_finite_leaves_the_norms_of_others_to_the_bit(kind, order):
    draw = torch.Generator().manual_seed(1)
    ones = torch.ones(NUMBER, 3, dtype=kind)
    ways = [lambda t, size=size: t[:, :1].expand(-1, size) for size in (50, 100)]
    for lay in (*ways, lambda t: t[:, ::2], lambda t: t[:, 3:], lambda t: t.T.clone().T):
        values = torch.randn(NUMBER, 200, generator=draw, dtype=torch.float64).to(kind)
        for made in (DenseGrads, lambda rows: OuterGrads(rows, ones), lambda rows: OuterGrads(ones, rows)):
            place, found = torch.zeros(1), []
            for odd in (0.0, torch.nan, torch.inf):
                values[LAST] = odd
                found.append(clipped_sums._measured([(place, made(lay(values)))], order)[1][:LAST])
            assert torch.equal(found[0], found[1])
            assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("width", [1, 48, 64, 65, 200])
@pytest.mark.parametrize("order", [1, 2])
def test_the_tokens_of_one_example_leave_the_norms_of_others_to_the_bit(order, width):
    """However many lines of a table it reads: where few numbers were measured in another way, it moved all norms."""
    draw = torch.Generator().manual_seed(2)
    gradients = torch.randn(NUMBER, 400, width, generator=draw)
    found = []
    for several in (1, 2, 100, 400):
        tokens = torch.zeros(NUMBER, 400, dtype=torch.int64)
        tokens[LAST] = torch.arange(400) % several
        found.append(gradient_rows.EmbeddingGrads.of_tokens(tokens, gradients, 400, None).powers(order)[:LAST])
    assert all(torch.equal(found[0], each) for each in found[1:])


def test_twin_that_goes_by_how_many_numbers_there_are_moves_them(monkeypatch):
    own = gradient_rows._powers

    def by_numbers(rows, order):
        return gradient_rows.vector_norms(rows, order) ** order if rows.numel() <= 2**14 else own(rows, order)

    monkeypatch.setattr(gradient_rows, "_powers", by_numbers)
    with pytest.raises(AssertionError):
        test_the_tokens_of_one_example_leave_the_norms_of_others_to_the_bit(2, 200)
