"""Two processes that train together over gloo: the same clipped sums as one process, noise once, equal parameters."""

import numpy as np
import pytest
import torch

from inid import Ledger
from inid.testing import unsafe_no_noise
from integration import dpsgd_children
from processes import WORLD, trained_together
from statistical.false_alarms import REJECT_BELOW
from statistical.test_dpsgd import WRONG, p_value


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def ranks(folder):
    return trained_together(dpsgd_children, folder, timeout=120)


@pytest.mark.parametrize("case", ["silent", "parts", "dealt", "noise", "secret", "exact", "seeded", "paid"])
def test_the_processes_end_with_equal_parameters(ranks, case):
    one, two = (rank[case] for rank in ranks)
    for key in ("gradients", "parameters"):
        assert all(torch.equal(a, b) for a, b in zip(one[key], two[key], strict=True))
    assert one["thresholds"] == two["thresholds"]
    assert one["steps"] == two["steps"]


@pytest.mark.parametrize("case", ["silent", "parts", "dealt"])
def test_the_clipped_sums_are_those_of_one_process(ranks, case):
    torch.manual_seed(0)
    with unsafe_no_noise():
        models = {
            name: dpsgd_children.network() for name in ("silent", "parts", "dealt")
        }  # in the order of the first process
        model = models[case]
        alone = dpsgd_children.snapshot(dpsgd_children.train(model, dpsgd_children.SIZE, 1.0, 1))
    assert ranks[0][case]["rate"] == alone["rate"] == 1.0
    for found, wanted in zip(ranks[0][case]["gradients"], alone["gradients"], strict=True):
        assert float((found - wanted).abs().max()) <= 1e-12
        assert float(wanted.abs().max()) > 1e-3


def test_noise_is_added_once(ranks):
    """60,200 draws in the first group: noise of two processes would be 1.41 times as large; 3 % are told apart."""
    kept = ranks[0]["noise"]
    values = np.concatenate([gradient.numpy().ravel() for gradient in kept["gradients"][:2]])
    scale = kept["scales"][0][0]
    assert values.size == kept["scales"][0][1] > 60_000
    assert p_value(values, scale, "gaussian") > REJECT_BELOW
    for wrong in (WRONG, 1 / WRONG, 2**0.5):
        assert p_value(values, scale * wrong, "gaussian") < REJECT_BELOW


def test_the_rate_is_that_of_all_processes_together(ranks):
    assert ranks[0]["secret"]["rate"] == 2 * WORLD / dpsgd_children.SIZE


def test_settings_that_differ_between_processes_are_refused(ranks):
    for rank in ranks:
        assert all("in another process" in said for said in rank["refused"])


def test_a_dataset_in_another_order_in_another_process_is_refused(ranks):
    for rank in ranks:
        assert all("in another process" in said for said in rank["other orders"])
        assert rank["same order"] == ["", ""]


def test_a_model_that_adds_up_rows_of_several_processes_is_refused(ranks):
    for rank in ranks:
        assert "every example" in rank["rows together"]


def test_a_ledger_is_charged_once_by_all_processes_together(folder, ranks):
    assert [rank["paid"]["steps"] for rank in ranks] == [6, 6]
    with Ledger.open(folder / "budget.db") as ledger:
        assert len(ledger.history()) == 1
        assert ledger.steps_left(ledger.history()[0].id) == 0  # six steps of one run, not twelve
