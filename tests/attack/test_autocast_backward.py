"""A backward that is called under autocast clips as any other: what rounds the model must not round norms and sums.

Autocast holds for the thread that calls `backward`, and so for all that hooks do there: products of float32 would come
out in bfloat16, for which no bound allows. Two positions that all but cancel show it.
"""

import pytest
import torch
from torch import nn

from attack.test_clipped_sums import added, assert_within, limits_of
from inid.dpsgd.grad_sample import PositionGrads, Rule, Sums
from internals import module_with
from training import private

fused_layers = module_with("inid.dpsgd.grad_sample", "ghost_grads")
gathered_rows = module_with("inid.dpsgd", "GradAccumulator")

WIDTH = 64
WAYS = {
    "the whole, then the groups": (lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False)), {"total": 0.4}),
    # Its parameter has no formula, and its gradient is the last to come.
    "a last layer run by example": (
        lambda: nn.Sequential(nn.PReLU(init=1.0), nn.Linear(WIDTH, WIDTH, bias=False)),
        {"clipping": "global"},
    ),
}


def cancelling(seed):
    """An example of two positions that differ by a tenth; the loss takes one from the other."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(1, 1, WIDTH, generator=draw)
    x = torch.cat([x, x + 0.1 * torch.randn(1, 1, WIDTH, generator=draw)], 1)
    w = torch.randn(WIDTH, generator=draw) * 100
    return x, lambda output: ((output[:, 0] - output[:, 1]) * w).float().sum(1)


@pytest.mark.parametrize("way", WAYS)
def test_sums_under_autocast_stay_within_the_plan(way, monkeypatch):
    monkeypatch.setattr(fused_layers, "_FEW", 0)
    make, options = WAYS[way]
    for seed in range(20):
        x, loss = cancelling(seed)
        training = private(make(), x, max_grad_norm=0.5, **options)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = added(training, loss)
        assert_within(found, limits_of(training))


def test_twin_whose_sums_are_under_autocast_exceeds():
    worst = 0.0
    for seed in range(20):
        x, _ = cancelling(seed)
        g = torch.randn(1, 1, WIDTH, generator=torch.Generator().manual_seed(seed)) * 100
        sums = Sums([[WIDTH * WIDTH]], torch.float32, torch.device("cpu"))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rows = PositionGrads(torch.cat([g, -g], 1).bfloat16(), x.bfloat16())
            sums.add_group(0, [rows], 1.0, Rule(2, [1.0], 2.0**-18))
        worst = max(worst, float(torch.linalg.vector_norm(sums.flat.double())))
    assert worst > 2


def test_the_layers_are_fused(monkeypatch):
    """What the first test is about would not be seen in rows that are written down."""
    monkeypatch.setattr(fused_layers, "_FEW", 0)
    fused, forms = gathered_rows.ghost_grads, []

    def watched(*args, **kwargs):
        rows = fused(*args, **kwargs)
        forms.extend(type(each) for each in (rows or {}).values())
        return rows

    monkeypatch.setattr(gathered_rows, "ghost_grads", watched)
    x, loss = cancelling(0)
    for make, options in WAYS.values():
        forms.clear()
        added(private(make(), x, max_grad_norm=0.5, **options), loss)
        assert forms == [PositionGrads]
