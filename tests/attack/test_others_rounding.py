"""One example whose positions cancel does not decide how the terms of others are rounded, however products split them.

A product may hold several accumulators over parts of its terms. An example that lies in two of them leaves a large
number in each, and what is added after it is rounded in units of that number. The sums here have two accumulators, the
cancelling example in both.
"""

import numpy as np
import pytest
import torch

from inid.dpsgd.grad_sample import MARGIN, LookupGrads, PositionGrads, Rule, Sums, sum_of_uses
from internals import module_with

fused_sums = module_with("inid.dpsgd.kernels", "weighted_product")
fused_positions = module_with("inid.dpsgd.grad_sample", "Measured")

EXAMPLES = 2001
MIDDLE = EXAMPLES // 2
KINDS = {"bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}


def two_accumulators(left, right):
    """A product that adds its terms in turn, the first half of them apart from the second."""
    kind = torch.float64 if left.dtype == torch.float64 else torch.float32
    terms = (left.to(kind).mT[:, :, None] * right.to(kind)[:, None, :]).numpy()
    middle = len(terms) // 2
    halves = [np.cumsum(half, axis=0, dtype=terms.dtype)[-1] for half in (terms[:middle], terms[middle:])]
    return torch.from_numpy(halves[0] + halves[1])


def moved(kind, monkeypatch):
    """By how many thresholds the sum moves when the example in the middle, whose gradient is nothing, is taken out."""
    exact = fused_sums.products
    monkeypatch.setattr(fused_sums, "products", lambda l, r: two_accumulators(l, r) if l.ndim == 2 else exact(l, r))
    dtype = torch.float64 if kind == torch.float64 else torch.float32
    draw = torch.Generator().manual_seed(0)
    g = torch.randn(2, generator=draw).expand(EXAMPLES, 2, 2).clone()
    a = torch.ones(EXAMPLES, 2, 1)
    found = []
    for height in (0.0, 2.0**55 if kind == torch.float64 else 2.0**25):
        g[MIDDLE, 0], g[MIDDLE, 1] = height, -height
        sums = Sums([[2]], dtype, torch.device("cpu"))
        sums.add_group(0, [PositionGrads(g.to(kind), a.to(kind))], 1.0, Rule(2, [1.0], MARGIN[dtype]))
        found.append(sums.flat.double())
    return float(torch.linalg.vector_norm(found[1] - found[0]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelling_example_hardly_moves_how_others_are_rounded(kind, monkeypatch):
    assert moved(KINDS[kind], monkeypatch) <= (1e-9 if kind == "float64" else 0.02)


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_twin_without_a_bound_on_what_cancels_moves_the_sum_by_thresholds(kind, monkeypatch):
    monkeypatch.setattr(fused_positions, "_LONGEST", float("inf"))
    assert moved(KINDS[kind], monkeypatch) > 1.5


@pytest.mark.parametrize("kind", KINDS)
def test_terms_are_at_most_256_thresholds_long_in_every_form(kind):
    """Layers, tables, and the two tied together; what does not cancel keeps its norm."""
    kind = KINDS[kind]
    g = torch.tensor([[[1.0, 0.5], [-1.0, -0.5]], [[1.0, 0.5], [1.0, 0.5]]], dtype=torch.float64).to(kind)
    a, tokens = torch.ones(2, 2, 2, dtype=torch.float64).to(kind), torch.zeros(2, 2, dtype=torch.int64)
    layer, table = PositionGrads(g, a), LookupGrads(tokens, g, 2)
    tied = sum_of_uses(LookupGrads(tokens, g, 2), PositionGrads(g, a))
    wholes = (layer.measured.absolute, table.measured.absolute, layer.measured.absolute + table.measured.absolute)
    for rows, whole in zip((layer, table, tied), wholes, strict=True):
        for squares in (rows.powers(2), rows.bounds().squares[:, 0]):
            norms = squares.sqrt() + rows.allowances()
            assert bool((whole <= 256 * norms * (1 + 1e-12)).all())
            assert float(norms[1]) <= float(whole[1]) * 1.05


def tied_under_autocast():
    """A table in float32 whose one line cancels, tied to a layer in bfloat16 that hardly matters."""
    height = torch.tensor([[[2.0**30, 0.0], [-(2.0**30), 0.0]]])
    table = LookupGrads(torch.zeros(1, 2, dtype=torch.int64), height, 2)
    small = torch.ones(1, 1, 2, dtype=torch.bfloat16)
    return sum_of_uses(table, PositionGrads(small, small)), table.measured.absolute


def test_a_table_tied_to_a_layer_of_another_type_is_as_short():
    """What its terms leave in the sums of others while they are there: at most 256 thresholds, not a million."""
    rows, whole = tied_under_autocast()
    assert float(whole) <= 256 * float(rows.powers(2).sqrt() + rows.allowances())


def test_twin_that_goes_by_the_coarser_type(monkeypatch):
    monkeypatch.setattr(fused_positions, "_with_least_norm", lambda square, *_: square)
    rows, whole = tied_under_autocast()
    assert float(whole) > 1e5 * float(rows.powers(2).sqrt() + rows.allowances())
