"""Gradients that are never written down stay within their threshold, whatever rounding does; weaker constants do not.

One example at a time, the contribution is worked out twice: exactly, from the very numbers that are multiplied, and as
the sum has it. `TWINS` are the bounds with one constant wrong; each exceeds the threshold where the true ones hold it.
"""

import pytest
import torch

from inid.dpsgd.grad_sample import DenseGrads, LookupGrads, PositionGrads, Rule, Sums, TiedGrads, sum_of_uses
from inid.dpsgd.kernels import folded
from internals import module_with

fused_norms = module_with("inid.dpsgd.kernels", "lengths")
fused_rounding = module_with("inid.dpsgd.kernels", "accumulated")
fused_sums = module_with("inid.dpsgd.kernels", "weighted_product")
fused_positions = module_with("inid.dpsgd.grad_sample", "Measured")

torch.set_num_threads(1)  # small products: threads would only wait for each other

KINDS = {"bfloat16": torch.bfloat16, "float32": torch.float32, "tf32": torch.float32, "float64": torch.float64}
THRESHOLD = 1.0


def cut(values):
    """float32 without the last 13 bits: what hardware may make of an argument in TF32."""
    return (values.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)


@pytest.fixture(params=KINDS)
def kind(request, monkeypatch):
    """The type of inputs and gradients; "tf32" also has products that cut their arguments."""
    if request.param == "tf32":
        emulate_tf32(monkeypatch)
    return KINDS[request.param]


def read(values):
    """What a product reads of an argument; replaced where TF32 is emulated."""
    return values


def emulate_tf32(monkeypatch, declared=2.0**-10):
    monkeypatch.setitem(globals(), "read", cut)
    exact = fused_norms.products

    def coarse(left, right):
        return exact(cut(left), cut(right)) if left.dtype == torch.float32 else exact(left, right)

    for module in (fused_norms, fused_sums, fused_positions):
        monkeypatch.setattr(module, "products", coarse)
    for module in (fused_norms, fused_positions):
        monkeypatch.setattr(module, "argument_rounding", lambda kind: declared if kind == torch.float32 else 0.0)


def shares(rows):
    """What `Sums` multiplies the examples by, and a limit just below the threshold."""
    norms = rows.powers(2).sqrt() + rows.allowances()
    return 1 / norms.clamp(min=THRESHOLD)


def exact_contributions(rows, factors):
    """The norms of the contributions, one by one, from the rounded numbers, in float64 throughout."""
    pairs = ((rows.gradients, True), (rows.inputs, False))
    left, right = (read(folded(each, factors, scaled=scaled)).view(each.shape).double() for each, scaled in pairs)
    return torch.linalg.vector_norm(left.mT @ right, dim=(1, 2))


def excess(rows):
    """The longest contribution of all examples, in thresholds."""
    kind = torch.float64 if rows.gradients.dtype == torch.float64 else torch.float32
    factors = shares(rows).to(kind)
    return float(exact_contributions(rows, factors).max()) / THRESHOLD


def summed(rows, dtype, size, margin=2.0**-18):
    """The norm of one example's clipped sum as it is computed."""
    sums = Sums([[size]], dtype, torch.device("cpu"))
    sums.add_group(0, [rows], 1.0, Rule(2, [THRESHOLD], margin))
    assert bool(sums.flat.isfinite().all())
    return float(torch.linalg.vector_norm(sums.flat.double()))


def cancelling(kind, made=40, met=48, near=1e-3, examples=400):
    """Two positions that all but cancel, of every nearness, and large."""
    draw = torch.Generator().manual_seed(1)
    g = torch.randn(examples, 1, made, generator=draw, dtype=torch.float64)
    a = torch.randn(examples, 1, met, generator=draw, dtype=torch.float64)
    scale = torch.logspace(0, 6, examples, dtype=torch.float64)[:, None, None]
    off = near * torch.randn(a.shape, generator=draw, dtype=torch.float64)
    return (torch.cat([g, -g], 1) * scale).to(kind), torch.cat([a, a + off * a.abs()], 1).to(kind)


def repeated(kind, positions=24):
    """One input at all positions, with gradients that add up, or cancel, or both."""
    draw = torch.Generator().manual_seed(2)
    g = torch.randn(60, positions, 20, generator=draw, dtype=torch.float64)
    g[30:] -= g[30:].mean(1, keepdim=True)
    a = torch.randn(60, 1, 700, generator=draw, dtype=torch.float64).expand(-1, positions, -1)
    return (g * 1e4).to(kind), a.to(kind)


def cancelling_gradients(kind):
    """The other way round: the gradients of two positions differ by little."""
    a, g = cancelling(kind, made=3, met=3)
    return g, a


def beside_ones(kind):
    """2^24 beside ones: float32 cannot hold their sum."""
    g, a = torch.ones(4, 64, 33, dtype=torch.float64), torch.ones(4, 64, 400, dtype=torch.float64)
    g[0, 0], a[1, :, 0], g[2, ::2] = 2.0**24, 2.0**24, -1.0
    g[3, 0], g[3, 1] = 2.0**24, -(2.0**24)
    return g.to(kind), a.to(kind)


def underflowing(kind):
    """Inputs whose squares are no float32, under gradients that make up for it, and the other way round."""
    g, a = torch.ones(6, 3, 8, dtype=torch.float64), torch.ones(6, 3, 16, dtype=torch.float64)
    for at, power in enumerate([70, 75, 90, 120, 126, 140]):
        a[at] *= 2.0**-power
        g[at] *= 2.0 ** min(58, power)
    return torch.cat([g, a[:, :, :8]]).to(kind), torch.cat([a, g.repeat(1, 1, 2)]).to(kind)


def rounding_up(kind):
    """k equal entries, for every k: scaled, each is about 1 / sqrt(k), which rounding makes longer for many a k."""
    g = torch.ones(600, 600, dtype=torch.float64).tril()[:, None] * 3
    return g.to(kind), torch.ones(600, 1, 1, dtype=torch.float64).to(kind)


def adjacent(kind):
    """Two positions whose gradients are neighbours in their type: scaled, their difference may double."""
    wide = torch.linspace(1.5, 2.0, 300, dtype=torch.float64)[:, None, None].expand(-1, 1, 2).to(kind)
    next_ = torch.nextafter(wide, torch.full_like(wide, 4.0))
    scale = 2.0 ** {torch.bfloat16: 12, torch.float32: 30, torch.float64: 58}[kind]
    return torch.cat([next_, -wide], 1) * scale, torch.ones(300, 2, 3, dtype=torch.float64).to(kind)


def anything(kind):
    """Random exponents over most of the range."""
    draw = torch.Generator().manual_seed(3)

    def floats(*shape):
        exponents = torch.randint(-140, 100, (shape[0], shape[1], 1), generator=draw)
        return torch.ldexp(torch.randn(*shape, generator=draw, dtype=torch.float64), exponents).to(kind)

    return floats(500, 3, 10), floats(500, 3, 12)


CASES = [cancelling, cancelling_gradients, repeated, beside_ones, underflowing, rounding_up, adjacent, anything]


@pytest.mark.parametrize("case", CASES)
def test_contributions_stay_within_the_threshold(case, kind):
    g, a = case(kind)
    rows = PositionGrads(g, a)
    assert excess(rows) <= 1 + (2.0**-46 if kind == torch.float64 else 2.0**-20)


@pytest.mark.parametrize("case", CASES)
def test_both_ways_to_a_norm_are_bounds(case, kind):
    """Whichever is cheaper: the Gram product and the direct one are both at or above the true norm."""
    g, a = case(kind)
    true = torch.linalg.vector_norm(g.double().mT @ a.double(), dim=(1, 2))
    square, _ = fused_norms.gram_bound(a, g)
    assert bool((square.sqrt() * (1 + 1e-12) >= true).all())
    square, whole, gamma = fused_norms.direct_bound(a, g)
    assert bool(((square.sqrt() + gamma * whole) * (1 + 1e-12) >= true).all())


@pytest.mark.parametrize("case", CASES)
def test_sums_as_computed_stay_within_the_threshold(case, kind):
    g, a = case(kind)
    dtype = torch.float64 if kind == torch.float64 else torch.float32
    for at in range(0, len(g), max(1, len(g) // 12)):
        bias = DenseGrads(g[at : at + 1].sum(1, dtype=dtype))
        assert summed(PositionGrads(g[at : at + 1], a[at : at + 1]), dtype, g.shape[2] * a.shape[2]) <= THRESHOLD
        sums = Sums([[g.shape[2] * a.shape[2], g.shape[2]]], dtype, torch.device("cpu"))
        sums.add_group(0, [PositionGrads(g[at : at + 1], a[at : at + 1]), bias], 37.0, Rule(2, [THRESHOLD], 2.0**-18))
        assert float(torch.linalg.vector_norm(sums.flat.double())) <= THRESHOLD


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan"), 2.0**61])
@pytest.mark.parametrize("where", ["input", "gradient"])
def test_a_broken_example_adds_nothing_and_leaves_the_others_alone(bad, where, kind):
    draw = torch.Generator().manual_seed(4)
    g, a = (torch.randn(5, 6, size, generator=draw, dtype=torch.float64).to(kind) for size in (7, 9))
    (a if where == "input" else g)[2, 3, 1] = bad
    dtype = torch.float64 if kind == torch.float64 else torch.float32
    found, wanted = (Sums([[63]], dtype, torch.device("cpu")) for _ in range(2))
    others = [0, 1, 3, 4]
    found.add_group(0, [PositionGrads(g, a)], 1.0, Rule(2, [THRESHOLD], 2.0**-18))
    wanted.add_group(0, [PositionGrads(g[others], a[others])], 1.0, Rule(2, [THRESHOLD], 2.0**-18))
    assert torch.allclose(found.flat, wanted.flat, rtol=0, atol=1e-6)
    tokens = torch.zeros(5, 6, dtype=torch.int64)
    table = LookupGrads(tokens, g, 3)
    assert bool(torch.isinf(table.powers(2)[2])) == (where == "gradient")
    assert bool(table.combined(shares(table).to(dtype)).isfinite().all())


def tables(kind):
    """Tokens that repeat: gradients that add up or cancel on one line, and some that do neither."""
    draw = torch.Generator().manual_seed(5)
    e = torch.randn(60, 30, 16, generator=draw, dtype=torch.float64) * 100
    e[20:40] -= e[20:40].mean(1, keepdim=True)
    e[40:, 1::2] = -e[40:, ::2] * (1 + 1e-3)
    tokens = torch.randint(0, 40, (60, 30), generator=draw)
    tokens[:, :10], tokens[:40], tokens[:, 25:] = 3, tokens[:40] % 2, -1
    return tokens, e.to(kind)


def test_a_table_with_repeated_lines_stays_within_the_threshold(kind):
    tokens, e = tables(kind)
    dtype = torch.float64 if kind == torch.float64 else torch.float32
    for at in range(60):
        rows = LookupGrads(tokens[at : at + 1], e[at : at + 1], 40)
        assert summed(rows, dtype, 640) <= THRESHOLD
        true = float(torch.linalg.vector_norm(LookupGrads(tokens[at : at + 1], e[at : at + 1].double(), 40).dense()))
        assert float(rows.powers(2).sqrt()) >= true * (1 - 1e-12)


def tied(kind, seed=6):
    tokens, e = tables(kind)
    draw = torch.Generator().manual_seed(seed)
    a = torch.randn(60, 12, 16, generator=draw, dtype=torch.float64)
    g = torch.randn(60, 12, 40, generator=draw, dtype=torch.float64) * 30
    a[::3], g[::3] = 1.0, 0.0
    g[::3, :, 3] = e[::3].double().mean((1, 2))[:, None] * 3  # the same line, the same direction
    return tokens, e, a.to(kind), g.to(kind)


def test_a_tied_weight_is_one_gradient(kind):
    tokens, e, a, g = tied(kind)
    dtype = torch.float64 if kind == torch.float64 else torch.float32
    for at in range(0, 60, 2):
        own = slice(at, at + 1)
        rows = sum_of_uses(LookupGrads(tokens[own], e[own], 40), PositionGrads(g[own], a[own]))
        assert isinstance(rows, TiedGrads)
        assert summed(rows, dtype, 640) <= THRESHOLD
        whole = TiedGrads(
            LookupGrads(tokens[own], e[own].double(), 40), PositionGrads(g[own].double(), a[own].double())
        ).dense()
        assert float(rows.powers(2).sqrt()) >= float(torch.linalg.vector_norm(whole)) * (1 - 1e-12)


def test_cross_terms_are_those_of_the_written_gradient():
    tokens, e, a, g = tied(torch.float64)
    rows = sum_of_uses(PositionGrads(g, a), LookupGrads(tokens, e, 40))
    true = torch.linalg.vector_norm(rows.dense(), dim=1)
    assert torch.allclose(rows.powers(2).sqrt(), true, rtol=1e-9, atol=1e-6)


def test_two_uses_of_a_layer_are_more_positions():
    g, a = cancelling(torch.float64)
    rows = sum_of_uses(PositionGrads(g, a), PositionGrads(-g, a))
    assert bool((rows.measured.square.sqrt() <= 1e-4 * rows.measured.absolute).all())
    assert bool((torch.linalg.vector_norm(rows.dense(), dim=1) <= 1e-12 * rows.measured.absolute).all())


# Broken twins: what the first version of these constants had wrong.


def test_twin_half_the_unit_of_bfloat16_exceeds(monkeypatch):
    monkeypatch.setitem(fused_rounding.UNIT, torch.bfloat16, 2.0**-9)
    g, a = rounding_up(torch.bfloat16)
    assert excess(PositionGrads(g, a)) > 1.0005


def test_twin_without_the_rounding_of_the_factor_times_the_gradient_exceeds(monkeypatch):
    monkeypatch.setattr(fused_positions, "rounded_product", lambda *_: 0.0)
    g, a = adjacent(torch.bfloat16)
    assert excess(PositionGrads(g, a)) > 1.2


def test_twin_gram_without_kappa_exceeds(monkeypatch):
    monkeypatch.setattr(fused_norms, "chunked", lambda *_, **__: 0.0)
    monkeypatch.setattr(fused_positions, "_LONGEST", float("inf"))  # would hide most of it
    g, a = cancelling(torch.float32, near=1e-5)
    assert excess(PositionGrads(g, a)) > 1.2


def test_twin_direct_without_gamma_exceeds():
    """Many small terms between two large ones that cancel: the computed product has lost them."""
    g, a = torch.ones(1, 4096, 8), torch.ones(1, 4096, 8)
    g[0, 0], g[0, -1] = 2.0**26, -(2.0**26)
    square, whole, gamma = fused_norms.direct_bound(a, g)
    true = float(torch.linalg.vector_norm(g.double().mT @ a.double()))
    assert float(square.sqrt()) < 0.9 * true  # what a bound without gamma would take for the norm
    assert float(square.sqrt() + gamma * whole) >= true


def test_twin_that_forgets_tf32_exceeds(monkeypatch):
    emulate_tf32(monkeypatch, declared=0.0)
    monkeypatch.setattr(fused_positions, "_LONGEST", float("inf"))  # would hide most of it
    g, a = cancelling_gradients(torch.float32)
    assert excess(PositionGrads(g, a)) > 1.2


def test_twin_without_floors_exceeds(monkeypatch):
    monkeypatch.setattr(fused_norms, "floor_of", lambda _: 0.0)
    g, a = underflowing(torch.float32)
    true = torch.linalg.vector_norm(g.double().mT @ a.double(), dim=(1, 2))
    square, _ = fused_norms.gram_bound(a, g)
    assert bool((square.sqrt() < true).any())


def test_twin_that_clips_each_use_by_itself_exceeds():
    tokens, e, a, g = tied(torch.float32)
    worst = 0.0
    for at in range(0, 60, 3):
        own = slice(at, at + 1)
        table, layer = LookupGrads(tokens[own], e[own], 40), PositionGrads(g[own], a[own])
        both = table.combined(shares(table).float()) + layer.combined(shares(layer).float())
        worst = max(worst, float(torch.linalg.vector_norm(both.double())))
    assert worst > 1.2


def test_settings_of_torch_are_read(monkeypatch):
    assert fused_rounding.argument_rounding(torch.float32) == 0.0
    for level, wanted in (("high", 2.0**-10), ("medium", 2.0**-7)):
        monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda level=level: level)
        assert fused_rounding.argument_rounding(torch.float32) == wanted

    def mixed():
        raise RuntimeError

    monkeypatch.setattr(torch, "get_float32_matmul_precision", mixed)
    assert fused_rounding.argument_rounding(torch.float32) == 2.0**-7


@pytest.mark.parametrize("name", ["ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE"])
def test_settings_of_the_library_below_torch_are_read(name, monkeypatch):
    for mode, wanted in (("BF16", 2.0**-7), ("any", 2.0**-7), ("STRICT", 0.0)):
        monkeypatch.setenv(name, mode)
        assert fused_rounding.argument_rounding(torch.float32) == wanted
    assert fused_rounding.argument_rounding(torch.float64) == 0.0
