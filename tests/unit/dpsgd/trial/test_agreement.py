"""When tensors of runs on made-up examples are taken for equal, and how those of examples lie beside each other."""

import pytest
import torch

from inid.dpsgd.trial import agreement as trial_agreement
from inid.dpsgd.trial.agreement import Agreement, Beside, Flow

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
    monkeypatch.setattr(trial_agreement, "_PIECE", piece)
    assert Agreement(1e-4).met(torch.tensor(one), torch.tensor(other)).holds is same
    assert Agreement(1e-4).met(torch.tensor(other), torch.tensor(one)).holds is same
    parts = Agreement(1e-4)
    for at in range(0, len(one), 2):
        parts.met(torch.tensor(one[at : at + 2]), torch.tensor(other[at : at + 2]))
    assert parts.holds is same


def test_what_differs_in_form_never_agrees():
    assert not Agreement(1e-4).met(torch.ones(2), torch.ones(3)).holds
    assert not Agreement(1e-4).met(torch.ones(2), None).holds
    assert not Agreement(1e-4).met(torch.ones(2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)).holds


@pytest.mark.parametrize(
    ("whole", "ones", "same", "dimension"),
    [
        (torch.arange(6.0).view(3, 2), torch.arange(6.0).view(3, 1, 2), False, 0),
        (torch.arange(6.0).view(3, 2).T, torch.arange(6.0).view(3, 2, 1), False, 1),
        (torch.arange(6.0).view(3, 2).flip(0), torch.arange(6.0).view(3, 1, 2), False, None),
        (torch.ones(1, 2), torch.ones(3, 1, 2), True, None),
        (torch.arange(6).view(3, 2), torch.arange(6).view(3, 1, 2), False, 0),
        (torch.arange(6.0).view(3, 2), torch.arange(9.0).view(3, 3), False, None),
    ],
)
def test_how_examples_lie(whole, ones, same, dimension):
    beside, flow = Beside(whole, 1e-4), Flow(whole.float())
    for at, one in enumerate(ones):
        beside.meet(at, one)
        flow.meet(at, one.float())
    assert (beside.same, beside.dimension) == (same, dimension)
    assert flow.agrees(1e-4, 1e-9) is (same or dimension is not None)


def test_gradients_must_be_there_for_all_or_for_none():
    for whole, ones, agrees in [
        (None, [None] * 3, True),
        (None, [None, torch.ones(1), None], False),
        (torch.ones(3), [torch.ones(1), None, torch.ones(1)], False),
        (torch.ones(3), [torch.ones(1)] * 3, True),
        (torch.ones(3), [torch.ones(1), torch.ones(2), torch.ones(1)], False),
    ]:
        flow = Flow(whole)
        for at, one in enumerate(ones):
            flow.meet(at, one)
        assert flow.agrees(1e-4, 1e-9) is agrees, (whole, ones)


def test_what_is_compared_is_left_as_it_is():
    whole = torch.tensor([1.0, 2.0, float("nan")], dtype=torch.float64)
    flow, kept = Flow(whole), whole.clone()
    for at in range(3):
        flow.meet(at, kept[at : at + 1])
    assert flow.agrees(1e-4, 1e-9)
    assert torch.equal(whole[:2], kept[:2])
    assert bool(whole[2].isnan())
