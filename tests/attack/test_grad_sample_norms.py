"""Rows as they are written down: lengths that additions cut short, and factors of an outer product that overflow.

Contributions are measured exactly. Each case has a twin: the length that was taken for true before.
"""

import math
from fractions import Fraction

import pytest
import torch
from torch import nn

from attack.test_clipped_sums import added, assert_within, limits_of
from inid.dpsgd.grad_sample import MARGIN, DenseGrads, EmbeddingGrads, OuterGrads, Rule, Sums
from training import private

DOUBLE = torch.float64


def contribution(rows, size, dtype, *, order=2, threshold=1.0, scale=1.0):
    """What one example adds to the sum."""
    sums = Sums([[size]], dtype, torch.device("cpu"))
    sums.add_group(0, [rows], scale, Rule(order, [threshold], MARGIN[dtype]))
    return sums.flat


def length(values, order):
    """The sum of |entry|**order, exactly."""
    return sum((Fraction(abs(entry)) ** order for entry in values.double().tolist()), Fraction(0))


@pytest.mark.parametrize(
    ("gradient", "met", "threshold", "scale"),
    [
        (2.0**112, 0.0, 0.01, 1000.0),
        (2.0**100, 0.0, 2.0**-39, 1.0),
        (2.0**120, 2.0**-140, 1.0, 512.0),
        (2.0**127, 2.0**-149, 2.0**-20, 1.0),
        (2.0**61, 2.0**-126, 2.0**-39, 65536.0),
        (2.0**59, 2.0**-126, 2.0**-39, 65536.0),
    ],
)
def test_a_huge_gradient_beside_an_input_of_next_to_nothing_does_not_overflow(gradient, met, threshold, scale):
    """Scaled up first, the gradient was infinite, and the sum of all examples infinite or not a number."""
    rows = OuterGrads(torch.tensor([[gradient]]), torch.tensor([[met, -met]]))
    for total in (None, threshold):
        sums = Sums([[2]], torch.float32, torch.device("cpu"))
        rule = Rule(2, [threshold], MARGIN[torch.float32], total=total)
        if total is None:
            sums.add_group(0, [rows], scale, rule)
        else:
            sums.add_all({0: [rows]}, scale, rule)
        assert bool(sums.flat.isfinite().all())
        assert length(sums.flat, 2) <= Fraction(threshold) ** 2


@pytest.mark.parametrize("options", [{}, {"clipping": "global"}, {"total": 1e-3}, {"mechanism": "laplace"}])
def test_a_model_whose_input_is_zero_and_whose_loss_is_huge_stays_within_the_plan(options):
    training = private(nn.Linear(4, 2, bias=False), torch.zeros(1, 4), max_grad_norm=1e-3, **options)
    assert_within(added(training, lambda output: output.sum(1) * 1e37), limits_of(training))


@pytest.mark.parametrize(
    ("chunks", "large", "threshold"),
    [
        (3, float.fromhex("0x1.00249ep+0"), float.fromhex("0x1.04df183a8291ap+1")),
        (5, float.fromhex("0x1.0021aap+0"), float.fromhex("0x1.45420a50b220cp+1")),
        (7, float.fromhex("0x1.00273cp+0"), float.fromhex("0x1.07fa5f0fa0d81p+1")),
    ],
)
def test_small_entries_behind_a_large_one_count_in_the_l1_norm(chunks, large, threshold):
    """In every 64 entries one that hides the others when they are added in turn; then all roundings upwards."""
    row = torch.full((1, 64 * chunks), 2.0**-24 * 0.9999)
    row[0, ::64] = large
    found = contribution(DenseGrads(row), row.shape[1], torch.float32, order=1, threshold=threshold, scale=400.0)
    assert length(found, 1) <= Fraction(threshold)


FORMS = {
    "outer": (3000, lambda flat: OuterGrads(flat, torch.ones(1, 1, dtype=DOUBLE))),
    "outer, the input": (3000, lambda flat: OuterGrads(torch.ones(1, 1, dtype=DOUBLE), flat)),
    "table": (
        3000,
        lambda flat: EmbeddingGrads.of_tokens(torch.arange(flat.shape[1])[None], flat.mT[None], 3000, None),
    ),
    "rows": (64 * 600, DenseGrads),
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("form", FORMS)
def test_float64_counts_entries_too_small_to_be_added(form, order):
    """One, and thousands that each vanish beside it: together they are far more than float64's margin."""
    size, make = FORMS[form]
    share = 64 if form == "rows" else 1  # so many are added at a time, without loss
    small = 0.99 * 2.0**-53 / share if order == 1 else math.sqrt(0.99 * 2.0**-53 / share)
    flat = torch.full((1, size), small, dtype=DOUBLE)
    flat[0, 0] = 1.0
    assert length(contribution(make(flat), size, DOUBLE, order=order, scale=4.0), order) <= 1


@pytest.mark.parametrize("order", [1, 2])
def test_float64_counts_parts_too_small_to_be_added(order):
    """The same over the parameters of a group, and over the groups of a total."""
    small = 0.99 * 2.0**-53 if order == 1 else math.sqrt(0.99 * 2.0**-53)
    parts = [DenseGrads(torch.tensor([[1.0 if at == 0 else small]], dtype=DOUBLE)) for at in range(800)]
    sums = Sums([[1] * 800], DOUBLE, torch.device("cpu"))
    sums.add_group(0, parts, 4.0, Rule(order, [1.0], MARGIN[DOUBLE]))
    assert length(sums.flat, order) <= 1
    sums = Sums([[1]] * 800, DOUBLE, torch.device("cpu"))
    sums.add_all({at: [own] for at, own in enumerate(parts)}, 4.0, Rule(order, [9.0] * 800, MARGIN[DOUBLE], total=1.0))
    assert length(sums.flat, order) <= 1


def test_twin_that_takes_the_added_numbers_for_the_length_is_too_short():
    """What the bounds above are for: torch's own sum of absolute values has lost them all."""
    row = torch.full((1, 3000), 0.99 * 2.0**-53, dtype=DOUBLE)
    row[0, 0] = 1.0
    true = length(row[0], 1)
    found = Fraction(float(torch.linalg.vector_norm(row, ord=1, dim=1)))
    assert found * (1 + Fraction(MARGIN[DOUBLE])) < true
    assert Fraction(float(OuterGrads(row, torch.ones(1, 1, dtype=DOUBLE)).powers(1))) >= true
