"""The experiments run, resume, repeat, and agree with what was computed by other means.

All run in the fast configuration on stand-ins of the same shape, once for this whole file. Noise is seeded, so what
passes once passes always; were it not, assertions about means would fail by chance with probability below 1e-6 each.
"""

import json
import math
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from experiments import table4
from experiments.__main__ import main, run_one
from experiments.claims import (
    DIFFERENTLY,
    HOLDS,
    NOT,
    NOT_RUN,
    UNATTAINABLE,
    UNPRINTED,
    Claim,
    Estimate,
    Outcome,
    largest_of,
)
from experiments.datasets import MissingDataError, load
from experiments.descents import planned_loss, problem
from experiments.page import NAMES, render
from experiments.study import Study
from experiments.table2 import staircase_noise

import inid
from inid import testing
from inid.testing import staircase_error
from needs import needs

PROJECT = Path(__file__).resolve().parents[2]
EXPECTED = {path.stem: json.loads(path.read_text()) for path in (PROJECT / "experiments" / "expected").glob("*.json")}
WITH_DATA = {"figure5": "california", "figure6": "electricity"}


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The results of every experiment, fast and on stand-ins."""
    made = tmp_path_factory.mktemp("paper")
    arguments = ["--fast", "--synthetic", "--out", str(made), "--page", str(made / "verdicts.md")]
    assert main(arguments) == 0
    return made


def outcome(folder, name):
    return Outcome.from_dict(json.loads((folder / name / "outcome.json").read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_leaves_claims_plots_and_tables(folder, name):
    found = outcome(folder, name)
    assert found.claims
    assert list((folder / name).glob("*.csv"))
    for figure in found.figures:
        assert "<svg" in (folder / name / f"{figure.name}.svg").read_text()
        assert (folder / name / f"{figure.name}.png").stat().st_size < 200_000
    assert found.figures
    run = json.loads((folder / name / "run.json").read_text())
    assert run["configuration"] == "fast"
    stand_ins = dict.fromkeys(("figure5", "figure6", "table5"), "synthetic stand-in")
    recorded = {"table4": "CIFAR-10 as JPEG, quality 94"}  # training is not run again, but read from committed records
    assert run["data"] == (stand_ins | recorded).get(name, "no data")


@pytest.mark.parametrize("name", sorted(set(EXPECTED) - set(WITH_DATA)))
def test_numbers_without_chance_are_those_computed_by_other_means(folder, name):
    found, expected = outcome(folder, name), EXPECTED[name]
    assert found.values.keys() == expected["values"].keys()
    for what, value in expected["values"].items():
        assert found.values[what] == pytest.approx(value, rel=expected["tolerance"], abs=1e-12), what
    verdicts = {claim.says: claim.verdict for claim in found.claims}
    assert expected["verdicts"].items() <= verdicts.items()


@pytest.mark.parametrize("name", sorted(WITH_DATA))
def test_the_real_problems_start_where_the_authors_of_dp_cd_start(tmp_path, name):
    needs("data")
    study = Study(name, tmp_path, fast=True)
    task = problem(study, WITH_DATA[name])
    assert study.source.endswith(".csv.gz")
    expected = EXPECTED[name]["values"]
    assert task.start / 100 == pytest.approx(expected["relative error at the start"], rel=1e-6)
    for what, value in planned_loss(task).items():
        assert value == pytest.approx(expected[f"planned loss, {what}"], rel=1e-9)


def test_a_stand_in_has_the_shape_of_the_real_data():
    needs("data")
    for name in WITH_DATA.values():
        real, other = load(name), load(name, synthetic=True)
        assert other.X.shape[1] == real.X.shape[1]
        assert set(np.unique(other.y)) == {-1.0, 1.0} if name == "electricity" else other.y.max() <= real.y.max()
        sizes = np.abs(other.X).mean(axis=0) / np.abs(real.X).mean(axis=0)
        assert sizes.min() > 0.1
        assert sizes.max() < 10


def test_simulated_errors_are_those_of_theory_and_not_of_another_row(folder):
    rows = [line.split(",") for line in (folder / "table2" / "table2.csv").read_text().splitlines()[1:]]
    theory = {(" ".join(row[:-5]), row[-5]): float(row[-3]) for row in rows}
    simulated = {(" ".join(row[:-5]), row[-5]): (float(row[-2]), float(row[-1])) for row in rows}
    for key, (mean, error) in simulated.items():
        assert abs(mean - theory[key]) < 6 * error
    # 40,000 draws tell the optimum from i.i.d. noise and from the staircase.
    mean, error = simulated["i.n.i.d. Laplace", "1"]
    assert min(abs(theory[other, "1"] - mean) for other in ("i.i.d. Laplace", "staircase")) > 6 * error


def test_staircase_noise_has_the_staircase_s_error():
    for epsilon in (0.5, 3.0):
        errors = np.abs(staircase_noise(epsilon, 200_000, np.random.default_rng(0))).sum(axis=1)
        found = Estimate.of(errors)
        assert abs(found.mean - staircase_error(epsilon, 1.0, 2)) < 6 * found.error
        assert abs(found.mean - 1.02 * staircase_error(epsilon, 1.0, 2)) > 6 * found.error


def test_the_ellipsoid_beats_identical_noise_and_clipped_entries(folder):
    rows = (folder / "table3" / "table3.csv").read_text().splitlines()[1:]
    found = {}
    for row in rows:
        name, epsilon, mean, error, trials = row.rsplit(",", 4)
        found[name.strip('"'), float(epsilon)] = Estimate(float(mean), float(error), int(trials))
    for epsilon in (1.0, 2.0, 5.0):
        ours = found["Gaussian i.n.i.d., E8", epsilon]
        assert ours.below(found["Gaussian i.i.d.", epsilon])
        assert ours.below(found["Gaussian i.n.i.d., entries clipped, as described", epsilon], 10)


def test_curvature_weights_plan_the_noise_of_dp_cd_and_equal_weights_plan_more(tmp_path):
    for name in ("california", "electricity"):
        loss = planned_loss(problem(Study(name, tmp_path / name, fast=True, synthetic=True), name))
        assert loss["curvature weights (ours)"] == pytest.approx(1, rel=1e-9)
        assert loss["noise on parameters (as printed)"] == pytest.approx(loss["noise on gradients"], rel=1e-9)
        assert loss["noise on parameters (as printed)"] > 2


@pytest.mark.parametrize("name", ["california", "electricity"])
def test_without_noise_all_readings_are_one_descent(tmp_path, name):
    task = problem(Study(name, tmp_path, fast=True, synthetic=True), name)
    settings = {"passes": 3, "clip": 3000.0 if name == "california" else 3.0, "step": 0.7}
    with testing.unsafe_no_noise():
        library, ours = (task.descend(on_gradients=on, **settings) for on in (False, True))
        other = task.descend(on_gradients=True, **(settings | {"clip": settings["clip"] / 10}))
    assert ours == pytest.approx(library, rel=1e-4)
    assert other != pytest.approx(library, rel=1e-2)  # clipping matters at this threshold


def test_the_two_readings_of_the_horizontal_axis_meet_at_the_last_pass(tmp_path):
    # A descent of l of L passes with mu^2 l/L draws the noise of the first l of L passes.
    task = problem(Study("figure5", tmp_path, fast=True, synthetic=True), "california")
    settings = {"passes": 4, "clip": 3000.0, "step": 0.5, "allocation": "spr"}
    errors = []
    for budget in (task.promise, inid.GaussianDP(mu=task.promise.mu)):
        with testing.unsafe_seed(5):
            errors.append(task.descend(budget, **settings))
    with testing.unsafe_seed(6):
        errors.append(task.descend(task.promise, **settings))
    assert errors[0] == pytest.approx(errors[1], rel=1e-6)
    assert errors[0] != pytest.approx(errors[2], rel=1e-6)


def test_a_second_run_reads_its_records_and_finds_the_same(folder, tmp_path):
    copy = tmp_path / "table2"
    shutil.copytree(folder / "table2", copy)
    before = outcome(tmp_path, "table2")
    run = json.loads((copy / "run.json").read_text()) | {"date": "2001-01-01"}
    (copy / "run.json").write_text(json.dumps(run))
    assert run_one("table2", tmp_path, fast=True, synthetic=True, fresh=False, quiet=True).made == 0
    assert json.loads((copy / "run.json").read_text()) == run  # nothing new was made on another day
    assert outcome(tmp_path, "table2") == before
    assert (copy / "records.jsonl").read_text() == (folder / "table2" / "records.jsonl").read_text()
    assert (copy / "table2.svg").read_text() == (folder / "table2" / "table2.svg").read_text()


def test_a_run_that_was_stopped_goes_on_and_ends_with_the_same_records(folder, tmp_path):
    whole = (folder / "table2" / "records.jsonl").read_text()
    (tmp_path / "table2").mkdir()
    stopped = tmp_path / "table2" / "records.jsonl"
    stopped.write_text(whole[: len(whole) // 2])  # in the middle of a line
    study = run_one("table2", tmp_path, fast=True, synthetic=True, fresh=False, quiet=True)
    assert 0 < study.made < 48
    assert sorted(stopped.read_text().splitlines()) == sorted(whole.splitlines())


def test_more_runs_are_added_to_those_that_exist(tmp_path):
    def trial(seed):
        return float(np.random.default_rng(seed).normal())

    study = Study("x", tmp_path, quiet=True)
    few = study.sample(3, trial, a=1.0)
    again = Study("x", tmp_path, quiet=True)
    more = again.sample(5, trial, a=1.0)
    assert again.made == 2
    assert more[:3].tolist() == few.tolist()
    assert len(set(more.tolist())) == 5
    assert Study("x", tmp_path / "other", quiet=True).sample(5, trial, a=1.0).tolist() == more.tolist()
    assert Study("x", tmp_path, quiet=True).sample(5, trial, a=2.0).tolist() != more.tolist()


def test_noise_in_a_trial_is_seeded_and_differs_between_trials(tmp_path):
    plan = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=1.0))

    def trial(seed):
        del seed
        release = inid.release([0.0], plan)
        assert not release.private
        return float(release.values[0])

    one, two = (Study("x", tmp_path / folder, quiet=True).sample(4, trial) for folder in "ab")
    assert one.tolist() == two.tolist()
    assert len(set(one.tolist())) == 4


def test_missing_data_say_how_to_get_them_and_leave_the_rest_to_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("INID_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    monkeypatch.delenv("INID_FETCH", raising=False)
    for name in ("california", "electricity"):
        with pytest.raises(MissingDataError, match=r"(?s)INID_DATA.*INID_FETCH=1.*fetch_.*--synthetic"):
            load(name)
    page = tmp_path / "page.md"
    assert main(["figure5", "figure2", "--out", str(tmp_path / "out"), "--page", str(page)]) == 1
    assert "figure5: left out" in capsys.readouterr().err
    assert "Figure 2: Gini coefficients" in page.read_text()
    study = Study("figure5", tmp_path / "fast", fast=True)
    assert study.dataset("california").source == study.source == "synthetic stand-in"
    assert "INID_DATA" in capsys.readouterr().err


def test_stand_ins_cannot_take_the_place_of_results(tmp_path):
    for arguments in (["--synthetic"], ["figure9"]):
        with pytest.raises(SystemExit):
            main([*arguments, "--out", str(tmp_path)])
    assert not list(tmp_path.iterdir())


def test_the_page_of_verdicts_is_made_from_the_committed_results():
    results, page = PROJECT / "results", PROJECT / "results" / "verdicts.md"
    assert page.read_text() == render(results, page)
    for name in NAMES:
        assert json.loads((results / name / "run.json").read_text())["configuration"] == "full"
        for figure in outcome(results, name).figures:
            assert (results / name / f"{figure.name}.svg").exists()
            assert (results / name / f"{figure.name}.png").exists()


def test_the_committed_results_have_the_expected_numbers():
    for name, expected in EXPECTED.items():
        values = outcome(PROJECT / "results", name).values
        for what, value in expected["values"].items():
            assert values[what] == pytest.approx(value, rel=expected["tolerance"], abs=1e-12), (name, what)


def test_the_page_counts_the_claims_of_the_paper_and_lists_ours_apart():
    page = (PROJECT / "results" / "verdicts.md").read_text()
    claims = [claim for name in NAMES for claim in outcome(PROJECT / "results", name).claims]
    printed = [claim for claim in claims if claim.printed != UNPRINTED]
    assert len(claims) > len(printed)
    counts = Counter(claim.verdict for claim in printed).most_common()
    line = f"{len(printed)} claims of the paper: {', '.join(f'{verdict} {count}' for verdict, count in counts)}."
    assert line in page
    sections, beyond = page.split("## Beyond the paper")
    for claim in claims:
        assert (claim.says in beyond) == (claim.printed == UNPRINTED) != (claim.says in sections)


def test_the_page_says_which_cells_of_table_4_were_never_trained_and_on_what_images():
    page = (PROJECT / "results" / "verdicts.md").read_text()
    trained = {tuple(line.split(",")[:4]) for line in (PROJECT / "results/table4/table4.csv").read_text().splitlines()}
    cells = [(kind, f"{e:g}", f"{d:g}", m) for kind, e, d in table4._PRINTED for m in table4._COLUMNS]
    assert sum(cell not in trained for cell in cells) == 6
    assert "Six of the 18 printed cells were never trained at their promise" in page
    for claim in outcome(PROJECT / "results", "table4").claims:
        if "seeds" in claim.ours or "one run" in claim.ours:
            assert "JPEG images" in claim.ours, claim.says


def test_two_seeds_far_apart_make_no_printed_accuracy_hold():
    printed = 59.03
    for ours, verdict in (
        (Estimate(56.2, 1.2, 2), DIFFERENTLY),  # within three errors, of two seeds
        (Estimate(56.2, 1.2, 3), HOLDS),
        (Estimate(57.5, 0.1, 2), HOLDS),
        (Estimate(50.0, 1.2, 3), NOT),
    ):
        assert table4._level("says", "printed", printed, ours, "gaussian", "").verdict == verdict


def test_a_fast_page_says_that_it_is_one(folder):
    assert "A fast run" in (folder / "verdicts.md").read_text()
    assert "A fast run" not in (PROJECT / "results" / "verdicts.md").read_text()


def gpu_record(clipping, allocation, accuracy, **more):
    """As examples/cifar10.py writes it: accuracies are fractions, epsilon is what was spent."""
    known = {"mechanism": "gaussian", "epsilon": 7.998, "delta": 1e-5, "lr": 1.0, "epochs": 100, "seed": 0}
    return {"clipping": clipping, "allocation": allocation, "accuracy": accuracy} | known | more


def test_table_4_takes_its_accuracies_from_records(tmp_path):
    records = [gpu_record("global", "optimal", 0.68 + seed / 100, seed=seed) for seed in range(3)]
    records += [
        gpu_record("global", "optimal", 0.1, tuning=True),
        gpu_record("global", "optimal", 0.2, validation=5000),
    ]
    records += [gpu_record("per_layer", "spr", 0.47), gpu_record("elementwise", "optimal", 0.4)]
    # With equal thresholds SPR's noise is the same everywhere, so this is a second run of the same method.
    records += [gpu_record("per_layer", "iid", 0.48, thresholds=[0.5**0.5, 0.5**0.5], seed=1)]
    records += [gpu_record("elementwise", "spr", 0.11)]
    records += [gpu_record("global", "optimal", 0.15, mechanism="laplace", noise_multiplier=0.8)]
    records += [gpu_record("elementwise", "optimal", 0.9, mechanism="laplace", noise_multiplier=0.8)]
    records += [gpu_record("per_layer", "optimal", 0.55, thresholds=[0.5**0.5, 0.5**0.5])]
    records += [gpu_record("per_layer", "optimal", 0.6, thresholds=[0.2, 0.3], hardware="a GPU")]
    (tmp_path / "table4").mkdir()
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "table4" / "epsilon8.jsonl").write_text(lines)
    run_one("table4", tmp_path, fast=False, synthetic=False, fresh=False, quiet=True)
    found = outcome(tmp_path, "table4")
    verdicts = {claim.says: claim.verdict for claim in found.claims}
    assert verdicts["Gaussian, (8, 1e-05)-DP, global clipping: accuracy"] == HOLDS
    assert verdicts["Gaussian, (8, 1e-05)-DP, SPR per layer: accuracy"] == HOLDS
    assert verdicts["Gaussian, (8, 1e-05)-DP, the paper's per layer: accuracy"] == NOT
    beats = "Gaussian, (8, 1e-05)-DP: the paper's per-layer noise beats SPR on "
    assert verdicts[f"{beats}layers clipped in l2 norm (He et al.)"] == NOT
    # Eleven percent is as good as guessing: it says nothing of the noise.
    assert verdicts[f"{beats}entries clipped one by one, as its own are"] == NOT_RUN
    assert verdicts["Gaussian, (8, 1e-05)-DP, SPR on entries clipped one by one, as its own are: accuracy"] == NOT_RUN
    assert verdicts["Gaussian, (8, 1e-05)-DP: clipping per layer costs accuracy beside global clipping"] == DIFFERENTLY
    cost = next(claim for claim in found.claims if "costs accuracy" in claim.says)
    assert cost.printed == "by 7.0 points"
    assert cost.ours.startswith("by 14.0")  # seen, but twice as much as is printed
    # Training with less noise than pure DP asks for says enough about the two printed promises of pure DP.
    pure = [verdicts[f"Laplace, ({epsilon}, 0)-DP, global clipping: accuracy"] for epsilon in (5, 8)]
    assert pure == [UNATTAINABLE] * 2
    # Eighteen cells are printed, three have records, two are judged by another; one that would reach them says nothing.
    missing = {claim.says: claim.why for claim in found.claims if claim.why == "not trained yet"}
    assert len(missing) == 13
    assert "Laplace, (8, 0)-DP, the paper's per layer: accuracy" in missing
    assert missing["Laplace, (5, 0)-DP, SPR per layer: accuracy"] == "not trained yet"
    table = (tmp_path / "table4" / "table4.csv").read_text()
    assert f"gaussian,8,1e-05,global,69,{1 / math.sqrt(3):.10g},3" in table
    assert '"layers, thresholds not flat",60,' in table
    assert (tmp_path / "table4" / "table4.png").exists()
    assert "gaussian,8,1e-05,spr,47.5,0.5,2" in table
    assert any("E3 per layer reaches 55.0" in more for more in found.beyond)
    runs = next(table for table in found.tables if table.title == "The runs")
    assert [runs.rows[0][-1], runs.rows[-1][-3]] == ["0, 1, 2", "a GPU"]


def test_an_estimate_knows_its_error():
    found = Estimate.of([1.0, 2.0, 3.0])
    assert (found.mean, found.error, found.runs) == (2.0, pytest.approx(1 / math.sqrt(3)), 3)
    assert str(found) == "2.00 ± 0.58"
    assert str(Estimate(1234.0, 56.0, 9)) == "1234 ± 56"
    assert found.agrees(3.7, 1)
    assert not found.agrees(3.9, 1)
    assert found.below(Estimate(5.0, 0.1, 3))
    assert not found.below(Estimate(3.0, 0.1, 3))


def test_the_largest_of_many_may_lie_as_far_as_one_rarely_does():
    assert largest_of(1) == pytest.approx(3)
    alarms = 0.5 * math.erfc(largest_of(24) / math.sqrt(2))
    assert 24 * alarms == pytest.approx(0.5 * math.erfc(3 / math.sqrt(2)))


def test_a_verdict_is_one_of_five():
    with pytest.raises(ValueError, match="verdict"):
        Claim("a", "b", "c", "perhaps", "d")
