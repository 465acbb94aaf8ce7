"""Two processes that train with correlated noise: groups take turns in both together, and one noise is taken back."""

from collections import Counter

import numpy as np
import pytest
import torch

from inid import Ledger, dpsgd
from integration import correlated_children as children
from processes import trained_together

NAMES = ("whole", "sharded")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def ranks(folder):
    return trained_together(children, folder, timeout=180)


@pytest.mark.parametrize("name", [*NAMES, *(f"{name}, silent" for name in NAMES), "exact", "resumed"])
def test_the_processes_end_with_equal_parameters(ranks, name):
    one, two = (rank[name] for rank in ranks)
    assert all(torch.equal(a, b) for a, b in zip(one["parameters"], two["parameters"], strict=True))
    assert all(torch.equal(a, b) for a, b in zip(one["released"], two["released"], strict=True))
    assert one["steps"] == two["steps"] == children.STEPS // children.BANDS


@pytest.mark.parametrize("name", [*NAMES, "exact"])
def test_every_example_takes_part_once_a_round_in_one_process(ranks, name):
    """Groups are drawn whole: in each round of three steps all examples come, and in the same order of groups."""
    together = [{*one, *two} for one, two in zip(ranks[0][name]["came"], ranks[1][name]["came"], strict=True)]
    for first in range(0, children.STEPS, children.BANDS):
        a_round = together[first : first + children.BANDS]
        assert Counter(each for step in a_round for each in step) == Counter(range(children.SIZE))
        assert a_round == together[: children.BANDS]
    assert not any({*one} & {*two} for one, two in zip(ranks[0][name]["came"], ranks[1][name]["came"], strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_noise_of_one_step_is_taken_back_in_all_pieces(ranks, name):
    """Fresh noise of 1 in the first step: the first column of the inverse of the strategy, in every parameter."""
    c = dpsgd.Banded(children.BANDS).coefficients(children.STEPS)
    column = [1 / c[0]]
    for t in range(1, children.STEPS):
        column.append(-sum(c[r] * column[t - r] for r in range(1, min(t, 2) + 1)) / c[0])
    released = torch.stack(ranks[0][f"{name}, fed"]["released"]).numpy()
    assert np.abs(released / released[0] * column[0] - np.array(column)[:, None]).max() < 1e-9


def test_a_run_that_goes_on_takes_further_rounds_of_one_charge(folder, ranks):
    assert [len(rank["resumed"]["came"]) for rank in ranks] == [3, 3]  # two of three rounds were begun before
    with Ledger.open(folder / "budget.db") as ledger:
        assert len(ledger.history()) == 1
        assert ledger.steps_left(ledger.history()[0].id) == 0


def test_settings_that_differ_between_processes_are_refused(ranks):
    for rank in ranks:
        assert all("in another process" in said for said in rank["refused"])


def test_a_checkpoint_that_one_process_loads_alone_is_noticed(ranks):
    """The others' noise goes on where it was, and this one's groups would begin again, too early."""
    for rank in ranks:
        came, said = rank["apart"]
        assert len(came) == 4
        assert "in all of them" in said
    # The twin: in the process that begins again, the group of rows 0 and 3 comes in row 4 too, of three bands.
    came, said = ranks[1]["apart, twin"]
    assert not said
    assert sorted(came[3]) == sorted(came[4])
