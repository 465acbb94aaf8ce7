"""Automatic clipping divides each gradient by its norm: the sums of a slow loop, and the noise of global clipping."""

import pytest
import torch
from torch import nn

from inid import dpsgd
from inid.errors import ArgumentError
from training import private, squares, sums


def normalised_sums(model, x, norm, length, stability):
    """Each example's gradient by the definition: times `length` over its norm, or the stability if that is more."""
    total = None
    for row in x:
        own = torch.autograd.grad(squares(model(row[None])).sum(), list(model.parameters()))
        whole = torch.cat([each.flatten() for each in own]).double()
        made = whole * length / max(float(torch.linalg.vector_norm(whole, ord=norm)), stability)
        assert float(torch.linalg.vector_norm(made, ord=norm)) <= length * (1 + 1e-12)
        total = made if total is None else total + made
    return total


@pytest.mark.parametrize(
    ("mechanism", "options"),
    [("gaussian", {}), ("laplace", {}), ("gaussian", {"noise": "exact"}), ("gaussian", {"max_physical_batch_size": 4})],
)
@pytest.mark.parametrize("stability", [0.01, 2.0])
def test_automatic_clipping_gives_every_example_the_same_length_but_those_that_are_nearly_zero(
    mechanism, options, stability
):
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
    x = torch.randn(9, 4) * torch.logspace(-3, 2, 9)[:, None]
    clipping = dpsgd.Clipping(kind="automatic", max_grad_norm=0.7, stability=stability)
    found = sums(model, x, clipping=clipping, mechanism=mechanism, **options)
    found = torch.cat([found[name].flatten() for name, _ in model.named_parameters()]).double()
    norm = 1 if mechanism == "laplace" else 2
    wanted = normalised_sums(model, x, norm, 0.7, stability)
    assert float((found - wanted).norm()) <= 1e-3 * float(wanted.norm())
    clipped = sums(model, x, clipping="global", max_grad_norm=0.7, mechanism=mechanism, **options)
    clipped = torch.cat([clipped[name].flatten() for name, _ in model.named_parameters()]).double()
    assert float((clipped - wanted).norm()) > 0.02 * float(wanted.norm())  # another rule is told apart


def test_automatic_clipping_costs_the_noise_of_global_clipping():
    model, x = nn.Linear(3, 2), torch.randn(8, 3)
    plans = [private(model, x, clipping=kind, max_grad_norm=0.7).optimizer.plan for kind in ("global", "automatic")]
    assert plans[0].runs == plans[1].runs


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "automatic", "thresholds": "adaptive"}, "do not adapt under automatic"),
        ({"kind": "automatic", "groups": [["0"]]}, "got automatic"),
        ({"kind": "global", "stability": 0.1}, "stability goes with automatic"),
        ({"kind": "automatic", "stability": 0.0}, "stability must be"),
        ({"kind": "automatic", "stability": float("nan")}, "stability must be"),
        ({"kind": "automatic", "stability": 2.0**-50}, "thresholds between"),
    ],
)
def test_options_that_do_not_go_with_automatic_clipping_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        dpsgd.Clipping(**options)
