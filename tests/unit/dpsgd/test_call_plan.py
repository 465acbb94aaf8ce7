"""When two tensors of a run on made-up examples are taken for equal."""

import pytest
import torch

from inid.dpsgd import call_plan

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("piece", [2, 2**24])
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0 + 1e-6], True),
        ([1.0, 2.0, 3.0, 4.0, 5.0], [1.1, 2.0, 3.0, 4.0, 5.0], False),
        ([1e-6, 1.0, 2.0, 3.0, 1e3], [0.0, 1.00001, 2.00001, 3.00001, 1e3], True),  # relative to what is usual
        ([0.1, 1.0, 1.1, 0.9, -1e4], [0.2, 0.8, 1.3, 1.0, -1e4], False),  # one large entry hides nothing
        ([0.1, 1.0, 1.1, 0.9, -9999.9], [0.2, 0.8, 1.3, 1.0, -9999.8], False),
        ([1e-5, 1.0, 2.0, 3.0, 1e3], [-1e-5, 1.0, 2.0, 3.0, 1e3 + 0.001], True),  # what is left where numbers cancel
        ([1.0, INF, 0.0, 0.0, 0.0], [1.0, INF, 0.0, 0.0, 0.0], True),
        ([1.0, INF, 0.0, 0.0, 0.0], [1.0, -INF, 0.0, 0.0, 0.0], False),
        ([1.0, 0.0, 0.0, 0.0, 0.0], [1.0, INF, 0.0, 0.0, 0.0], False),
        ([1.0, 0.0, 0.0, 0.0, 0.0], [1.0, NAN, 0.0, 0.0, 0.0], False),
        ([NAN, 0.0, 0.0, 0.0, 0.0], [NAN, 0.0, 0.0, 0.0, 0.0], False),
        ([], [], True),
    ],
)
def test_equal_within_rounding(one, other, same, piece, monkeypatch):
    monkeypatch.setattr(call_plan, "_PIECE", piece)
    assert call_plan._equal(torch.tensor(one), torch.tensor(other), 1e-4) is same
    assert call_plan._equal(torch.tensor(other), torch.tensor(one), 1e-4) is same
