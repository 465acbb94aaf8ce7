"""Sums of outer products as products of whole numbers: exact in rational arithmetic, in any order, and no longer."""

from fractions import Fraction

import pytest
import torch
from torch import nn

from inid import dpsgd
from inid.dpsgd.grad_sample import MARGIN, OuterGrads, Rule, Sums
from inid.testing import unsafe_no_noise
from internals import module_with
from training import private, row_squares

clipped_sums = module_with("inid.dpsgd.grad_sample", "Rule")

MADE, MET, COUNT = 5, 7, 40


def rows(kind, *, seed=0, spread=12.0):
    """Examples whose gradients and inputs are of very different lengths."""
    draw = torch.Generator().manual_seed(seed)
    sizes = torch.exp(spread * torch.randn(2, COUNT, 1, generator=draw, dtype=torch.float64))
    gradients = torch.randn(COUNT, MADE, generator=draw, dtype=torch.float64) * sizes[0]
    inputs = torch.randn(COUNT, MET, generator=draw, dtype=torch.float64) * sizes[1]
    inputs[3] = 0.0
    return OuterGrads(gradients.to(kind), inputs.to(kind))


def one_of(own, at):
    return OuterGrads(own.gradients[at : at + 1], own.inputs[at : at + 1])


def rule(norm=2, most=COUNT, limit=0.7, **options):
    return Rule(norm, [limit], MARGIN[torch.float32], quanta=[2.0**-16], most=most, **options)


def added(own, how):
    sums = Sums([[MADE * MET]], torch.float64, torch.device("cpu"))
    sums.add_group(0, [own], 1.0, how)
    return sums.flat


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_no_row_is_longer_than_its_threshold_in_rational_numbers(kind, norm):
    own, how = rows(kind), rule(norm)
    for at in range(COUNT):
        length = sum(Fraction(abs(v)) ** norm for v in added(one_of(own, at), how).tolist())
        assert length <= Fraction(0.7) ** norm


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_the_sum_is_that_of_the_rows_alone_in_rational_numbers_whatever_the_order(kind, monkeypatch):
    own, how = rows(kind), rule()
    alone = [added(one_of(own, at), how).tolist() for at in range(COUNT)]
    exact = [sum(map(Fraction, entry)) for entry in zip(*alone, strict=True)]
    assert [Fraction(v) for v in added(own, how).tolist()] == exact
    back = torch.arange(COUNT - 1, -1, -1)
    assert torch.equal(added(OuterGrads(own.gradients[back], own.inputs[back]), how), added(own, how))
    # The twin that does not cut: the sum is rounded, so that it is not that of the rows.
    monkeypatch.setattr(torch.Tensor, "trunc_", lambda self: self)
    twins = [added(one_of(own, at), how).tolist() for at in range(COUNT)]
    exact = [sum(map(Fraction, entry)) for entry in zip(*twins, strict=True)]
    assert [Fraction(v) for v in added(own, how).tolist()] != exact


def test_as_many_examples_as_stated_are_counted_exactly_at_the_worst():
    """All at their threshold and alike, along one entry: the sum is all of 2^53 steps, less what margins take."""
    many = 2**12
    one = OuterGrads(torch.ones(1, 1), torch.ones(1, 1))
    how = rule(most=many, limit=1.0)
    sums = Sums([[1]], torch.float64, torch.device("cpu"))
    sums.add_group(0, [one], 1.0, how)
    alone = float(sums.flat)
    sums.clear()
    sums.add_group(0, [OuterGrads(torch.ones(many, 1), torch.ones(many, 1))], 1.0, how)
    assert Fraction(float(sums.flat)) == many * Fraction(alone)
    assert 0.9999 < alone <= 1.0


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_little_is_lost(kind):
    """Against sums in float64 that are not cut, to a 2^-19th of the threshold, and of it all with fewer examples."""
    own = rows(kind, spread=1.0)
    wanted = added(own, Rule(2, [0.7], MARGIN[torch.float32]))
    assert (added(own, rule()) - wanted).abs().max() < COUNT * 0.7 * 2.0**-19
    assert (added(own, rule(most=2**20)) - wanted).abs().max() < COUNT * 0.7 * 2.0**-14


@pytest.mark.parametrize("most", [0, 2**45])
def test_rows_are_cut_one_by_one_where_there_is_no_room(most, monkeypatch):
    own = rows(torch.float32)
    monkeypatch.setattr(OuterGrads, "exact_sum", None)
    quanta = added(own, rule(most=most)) * 2.0**16
    assert torch.equal(quanta, quanta.round())


# The largest number of all is infinite in steps, and so are products with it: 0 times it is not a number.
@pytest.mark.parametrize("far", [1e300, torch.finfo(torch.float64).max])
@pytest.mark.parametrize("most", [COUNT, 0])
def test_numbers_that_are_too_large_add_nothing(most, far, monkeypatch):
    own, how = rows(torch.float64), rule(most=most)
    huge = OuterGrads(own.gradients.clone(), own.inputs.clone())
    huge.gradients[5], huge.inputs[9], huge.gradients[11, 0], huge.inputs[12, 2] = far, far, torch.inf, torch.nan
    huge.gradients[6], huge.inputs[6] = far, far
    left = [at for at in range(COUNT) if at not in {5, 6, 9}]
    found = added(huge, how)
    assert bool(found.isfinite().all())
    kept = added(OuterGrads(huge.gradients[left], huge.inputs[left]), how)
    assert torch.equal(found, kept)
    # The twin that multiplies what it leaves out by 0: one example wipes out what all others add.
    monkeypatch.setattr(OuterGrads, "of_those", lambda self, _: self)
    assert bool(added(huge, how).isnan().any()) == (most == 0 or far > 1e300)


@pytest.mark.parametrize("correlated", [False, True])
def test_training_takes_whole_sums_unless_noise_is_correlated(correlated, monkeypatch):
    seen = []
    whole = OuterGrads.exact_sum
    monkeypatch.setattr(OuterGrads, "exact_sum", lambda self, *args: (seen.append(args[-1]), whole(self, *args))[1])
    model, x = nn.Linear(6, 3), torch.randn(24, 6)
    options = {"correlation": dpsgd.Banded(2), "steps": 4} if correlated else {}
    with unsafe_no_noise():
        training = private(model, x, batch_size=6, noise="exact", **options)
        (batch,) = next(iter(training.data_loader))
        training.backward(row_squares, training.module(batch))
        training.optimizer.step()
    most = training.data_loader.most_examples
    assert seen == ([] if correlated else [53 - (most - 1).bit_length()])
    assert clipped_sums._bits(most, 0.7, 2.0**-16) == 53 - (most - 1).bit_length()
