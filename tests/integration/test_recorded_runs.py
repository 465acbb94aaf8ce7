"""The committed results follow from the committed records, and the printed values are the paper's."""

import json
import shutil
from pathlib import Path

import pytest
from experiments import table3, table4, table5
from experiments.__main__ import run_one
from experiments.claims import Outcome
from experiments.study import Study

from needs import needs

RESULTS = Path(__file__).resolve().parents[2] / "results"
BY_CHANCE = ["table2", "figure5", "figure6", "table5", "table3", "table4"]

# As they stand in the paper: Table III, Table V (known M_i, then 5 to 25 % of epsilon for them), Table IV.
ERRORS = {
    "Gaussian i.i.d.": (0.4762, 0.2484, 0.1067),
    "Gaussian i.n.i.d.": (0.3269, 0.1728, 0.0752),
    "Laplace i.i.d.": (0.6185, 0.3272, 0.1389),
    "Laplace i.n.i.d.": (0.5034, 0.2523, 0.1093),
}
SMOOTHNESS = {
    ("california", "DP-CD"): (1.8836, 2.9061, 1.9013, 2.4087, 2.7861, 3.7214),
    ("california", "improved DP-CD"): (0.4469, 1.2029, 0.5250, 0.4768, 1.1441, 1.2747),
    ("electricity", "DP-CD"): (0.2157, 0.2934, 0.2528, 0.2491, 0.2614, 0.2838),
    ("electricity", "improved DP-CD"): (0.1263, 0.1443, 0.1429, 0.1651, 0.1979, 0.2186),
}
ACCURACIES = {
    ("gaussian", 5.0, 1e-5): (63.26, 42.90, 57.86),
    ("gaussian", 8.0, 1e-5): (68.55, 47.16, 61.58),
    ("gaussian", 5.0, 4e-10): (59.03, 42.27, 50.33),
    ("gaussian", 8.0, 4e-10): (60.47, 44.02, 57.65),
    ("laplace", 5.0, 0.0): (62.17, 42.05, 59.02),
    ("laplace", 8.0, 0.0): (67.46, 46.08, 63.46),
}
DESCENTS = {"figure5": ("1.88 %", "0.45 %"), "figure6": ("0.22 %", "0.13 %")}


def stored(folder, name):
    return Outcome.from_dict(json.loads((folder / name / "outcome.json").read_text()))


def test_printed_values_are_the_papers():
    assert table3._PRINTED == ERRORS
    assert table4._PRINTED == ACCURACIES
    assert table5._PRINTED == SMOOTHNESS
    for name, printed in DESCENTS.items():
        assert tuple(claim.printed for claim in stored(RESULTS, name).claims[:2]) == printed


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The results, with nothing left but the records; experiments may read those of others."""
    needs("data")
    folder = tmp_path_factory.mktemp("again") / "results"
    shutil.copytree(RESULTS, folder, ignore=shutil.ignore_patterns("*.json", "*.csv", "*.svg", "*.png"))
    return folder


@pytest.mark.parametrize("name", BY_CHANCE)
def test_committed_verdicts_follow_from_the_records(copied, name):
    study = run_one(name, copied, fast=False, synthetic=False, fresh=False, quiet=True)
    assert study.made == 0
    made, kept = stored(copied, name).to_dict(), stored(RESULTS, name).to_dict()
    assert made.pop("values") == pytest.approx(kept.pop("values"), rel=1e-9)  # sums may be added in another order
    assert made == kept


def test_records_of_a_stand_in_do_not_pass_for_those_of_the_dataset(tmp_path):
    def drawn(number):
        return lambda seed: number

    made = Study("figure5", tmp_path, fast=True, synthetic=True, quiet=True)
    made.dataset("california")
    assert made.sample(2, drawn(1.0), passes=5).tolist() == [1.0, 1.0]
    again = Study("figure5", tmp_path, fast=True, synthetic=True, quiet=True)
    again.dataset("california")
    assert again.sample(2, drawn(2.0), passes=5).tolist() == [1.0, 1.0]
    assert (again.made, again.read) == (0, 2)
    real = Study("figure5", tmp_path, fast=True, quiet=True)  # before it has loaded any data, as on the dataset
    assert real.sample(2, drawn(3.0), passes=5).tolist() == [3.0, 3.0]
    assert (real.made, real.read) == (2, 0)
