"""What a forward leaves behind in plain attributes must not depend on the examples; made-up ones leave nothing."""

from collections import Counter, deque
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from inid.errors import GuaranteeError
from internals import module_with
from training import private, sums, train_once

made_up = module_with("inid.dpsgd.independence", "MadeUp")

X = torch.randn(8, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
OUTSIDE = [0.0]


class Keeping(nn.Module):
    def __init__(self, keep):
        super().__init__()
        self.keep, self.layer, self.part = keep, nn.Linear(6, 3).double(), nn.Identity()
        self.calls, self.most, self.mean = 0, 1.0, None
        self.log, self.latest, self.kinds = [], deque(maxlen=4), set()
        self.nested = {"deep": [{"counts": Counter()}]}
        self.held = SimpleNamespace(total=0.0, calls=0)
        self.average, self.array = torch.zeros(6, dtype=torch.float64), np.zeros(6)

    def forward(self, x):
        self.calls += 1
        return self.layer(self.keep(self, x))


def raised(model, x):
    model.most = max(model.most, x.abs().max().item())
    return x


def appended(model, x):
    model.log.append(x.mean().item())
    return x


def appended_by_row(model, x):
    model.log += [x[0, 0] > 0] * len(x)
    return x


def centred_late(model, x):
    if model.mean is None:
        model.mean = x.mean(0).tolist()
    return x


def tensor_in_place(model, x):
    model.average.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
    return x


def tensor_through_data(model, x):
    model.average.data = model.average.data + x.detach().sum(0)
    return x


def tensor_put_in_place(model, x):
    model.last = x.detach().sum(0)
    return x


def single_number(model, x):
    model.part.last = x.detach().max()
    return x


def whole_numbers(model, x):
    model.last = torch.bincount((x.flatten() > 0).long(), minlength=6)
    return x


def array(model, x):
    model.array += x.detach().sum(0).numpy()
    return x


def nested(model, x):
    model.nested["deep"][0]["counts"][bool(x[0, 0] > x[-1, 1])] += 1
    return x


def in_an_object(model, x):
    model.held.total += float(x.sum())
    return x


def queued(model, x):
    model.latest.append(float(x.sum()))
    return x


def kinds_seen(model, x):
    model.kinds.add(round(float(x.sum()), 3))
    return x


def new_attribute(model, x):
    setattr(model, "seen_positive" if x.sum() > 0 else "seen_negative", True)
    return x


def of_the_batch_before(model, x):
    """By example, and so not mixing: what the batch before left behind is added, row by row."""
    before = getattr(model, "before", None)
    model.before = x.detach()
    return x if before is None or before.shape != x.shape else x + before


KEEPERS = [
    raised,
    appended,
    appended_by_row,
    centred_late,
    tensor_in_place,
    tensor_through_data,
    tensor_put_in_place,
    single_number,
    whole_numbers,
    array,
    nested,
    in_an_object,
    queued,
    kinds_seen,
    new_attribute,
    of_the_batch_before,
]


@pytest.mark.parametrize("keep", KEEPERS, ids=lambda keep: keep.__name__)
def test_state_that_depends_on_the_examples_is_refused(keep):
    with pytest.raises(GuaranteeError, match=r"depends on its examples|keeps as an attribute") as refused:
        sums(Keeping(keep), X)
    assert not any(character.isdigit() for character in str(refused.value))  # no value is shown


def test_state_outside_the_model_is_seen_in_what_the_next_forward_returns():
    def outside(model, x):
        late, OUTSIDE[0] = OUTSIDE[0], max(OUTSIDE[0], x.detach().abs().max().item())
        return x * (1 + late)

    OUTSIDE[0] = 100.0  # above all rows but the large ones
    with pytest.raises(GuaranteeError, match="example"):
        sums(Keeping(outside), X)


def test_the_attribute_is_named():
    with pytest.raises(GuaranteeError, match=r"attribute 'last' of module 'part' \(Identity\)"):
        sums(Keeping(single_number), X)


def test_a_maximum_above_made_up_examples_is_seen_on_larger_ones(monkeypatch):
    model = Keeping(raised)
    model.most = 1000.0
    with pytest.raises(GuaranteeError, match="attribute 'most'"):
        sums(model, X)
    monkeypatch.setattr(made_up, "_REAL", ("times 2^-10", "negative values"))  # the check without them is blind
    sums(model, X)


def test_state_that_begins_later_is_seen_when_the_model_is_looked_at_again():
    def late(model, x):
        return raised(model, x) if model.calls > 3 else x

    model = Keeping(late)
    model.most = 1000.0
    training = private(model, X)
    for _ in range(3):
        train_once(training)
    with pytest.raises(GuaranteeError, match="attribute 'most'"):
        train_once(training)


def counted(model, x):
    model.held.calls += 1
    model.nested["deep"].append(len(x))
    return x


def kept_by_example(model, x):
    model.last = {"rows": [x.detach().relu()], "kinds": (x > 0).long()}
    return x


def filled_once(model, x):
    if model.mean is None:
        model.mean = torch.arange(6.0, dtype=torch.float64)
    return x + model.mean


@pytest.mark.parametrize("keep", [counted, kept_by_example, filled_once])
def test_counters_tables_and_outputs_are_fine(keep):
    training = private(Keeping(keep), X)
    for _ in range(9):
        train_once(training)


def test_made_up_examples_leave_nothing_behind():
    def noted(model, x):
        model.held.calls += 1
        model.log.append(len(x))
        model.latest.append(model.calls)
        model.nested["deep"][0]["counts"]["forwards"] += 1
        model.kinds.add(len(x))
        model.average += 1
        model.array += 1
        model.last = x.detach()
        return x

    training = private(Keeping(noted), X)
    model = training.module
    for step in range(1, 6):
        train_once(training)
        assert model.calls == model.held.calls == step
        assert model.log == [len(X)] * step
        assert model.kinds == {len(X)}
        assert list(model.latest) == list(range(1, step + 1))[-4:]
        assert model.nested == {"deep": [{"counts": Counter(forwards=step)}]}
        assert model.average.tolist() == model.array.tolist() == [step] * 6
        assert len(model.last) == len(X)


def test_a_refused_model_is_as_it_was():
    training = private(Keeping(appended), X)
    with pytest.raises(GuaranteeError):
        train_once(training)
    assert training.module.log == []
    assert training.module.calls == 0
