"""Record and replay: right pipelines pass, and each of the five ways to be wrong is found and named."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import inid
from inid.noise import add_noise
from inid.testing import neighbours_of, record, replay

PLAN = inid.plan(inid.Sensitivity.box([1.0, 10.0]), inid.PureDP(epsilon=1.0))
AGES = np.array([3.0, 8.0, 10.0, 2.0])


def sums(ages):
    kept = np.nan_to_num(ages, nan=0.0)
    return [float(kept.size), float(np.clip(kept, 0, 10).sum())]


def right(ages):
    return inid.release(sums(ages), PLAN)


def without_clipping(ages):
    return inid.release([float(ages.size), float(ages.sum())], PLAN)


def bounds_from_the_data(ages):
    noise = inid.plan(inid.Sensitivity.box([1.0, float(np.max(ages))]), inid.PureDP(epsilon=1.0))
    return inid.release(sums(ages), noise)


def groups_from_the_data(ages):
    cells = np.unique(ages)
    noise = inid.plan(inid.Sensitivity.ball(dimension=cells.size, l1=1.0), inid.PureDP(epsilon=1.0))
    return inid.release([(ages == cell).sum() for cell in cells], noise)


def drawn_twice(ages):
    first = inid.release(sums(ages), PLAN)
    return [first.values, add_noise(sums(ages), PLAN.scales, "laplace")]


def never_charged(ages):
    return add_noise(sums(ages), PLAN.scales, "laplace")


def without_noise(ages):
    return [right(ages).values, ages.size]


def by_an_error(ages):
    if ages.size > 4:
        raise ValueError
    return right(ages)


MORE = np.append(AGES, 1e6)


def kinds(function, neighbour, table=AGES):
    return {violation.kind for violation in replay(record(function, table), neighbour).violations}


def test_a_right_release_has_no_violation_and_spends_all_of_its_claim():
    found = replay(record(right, AGES), np.append(AGES, 10.0))
    assert found.violations == ()
    assert found.spent == (1.0,) or found.spent[0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (without_clipping, "sensitivity"),
        (bounds_from_the_data, "domain"),
        (groups_from_the_data, "domain"),
        (drawn_twice, "double spending"),
        (never_charged, "double spending"),
        (without_noise, "noise"),
        (by_an_error, "domain"),
    ],
)
def test_each_mistake_is_found_and_named(function, kind):
    assert kind in kinds(function, MORE)


def test_numbers_that_are_nan_before_noise_are_named():
    assert "NaN" in kinds(lambda ages: add_noise([np.nan * ages[0]], [1.0], "laplace"), MORE)


def test_a_change_is_compared_without_a_tolerance():
    def nearly(ages):
        return inid.release([ages.size * (1 + 2**-40), 0.0], PLAN)

    assert kinds(nearly, np.append(np.ones(4), 0.0), np.ones(4)) == set()  # the other number leaves room
    full = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=1.0))
    assert kinds(lambda ages: inid.release([ages.size * (1 + 2**-40)], full), MORE) == {"sensitivity"}
    assert kinds(lambda ages: inid.release([ages.size], full), MORE) == set()


def test_gaussian_noise_counts_squares():
    noise = inid.plan(inid.Sensitivity.ball(dimension=2, l2=5.0), inid.GaussianDP(mu=1.0))
    assert kinds(lambda ages: inid.release([3.0 * ages.size, 4.0 * ages.size], noise), MORE) == set()
    assert kinds(lambda ages: inid.release([4.0 * ages.size, 4.0 * ages.size], noise), MORE) == {"sensitivity"}


def test_what_follows_from_noisy_numbers_goes_the_same_way():
    def two_steps(ages):
        first = inid.release(sums(ages), PLAN).values
        middle = float(np.clip(first[1] / max(first[0], 1.0), 0, 10))  # differs by noise alone
        noise = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=1.0))
        return inid.release([float((ages > middle).sum())], noise)

    found = replay(record(two_steps, AGES), MORE)
    assert found.violations == ()
    assert len(found.spent) == 2


def test_a_changed_record_needs_as_many_changes_as_were_made():
    tape = record(right, AGES)
    two = np.append(AGES, [10.0, 10.0])
    assert {violation.kind for violation in replay(tape, two).violations} == {"sensitivity"}
    assert replay(tape, two, changes=2).violations == ()


def test_what_is_released_in_a_recording_is_not_private():
    released = []
    record(lambda ages: released.append(right(ages)), AGES)
    assert not released[0].private
    assert right(AGES).private


FRAME = pd.DataFrame({"id": [1, 1, 2, 3], "pay": [1.0, 2.0, 3.0, np.nan], "sex": ["f", "f", "m", "m"]})


def test_neighbours_differ_in_one_person():
    for what, other in neighbours_of(FRAME, number=30, person="id", most_rows=3):
        changed = set(FRAME["id"]) ^ set(other["id"])
        assert len(changed) == 1, what
        assert list(other.dtypes) == list(FRAME.dtypes)
        rest = [frame[~frame["id"].isin(changed)].reset_index(drop=True) for frame in (FRAME, other)]
        pd.testing.assert_frame_equal(*rest)
    for _, other in neighbours_of(FRAME, "replace", number=20, person="id"):
        assert other["id"].tolist() == FRAME["id"].tolist()
        rows = (other.astype(str) != FRAME.astype(str)).any(axis=1)
        assert other.loc[rows, "id"].nunique() <= 1


def test_neighbours_hold_what_code_forgets():
    others = [other for _, other in neighbours_of(FRAME, "replace", number=200)]
    pay = np.concatenate([other["pay"].to_numpy() for other in others])
    for seen in (np.isinf(pay), pay > 1e8, pay < 0):
        assert seen.any()
    assert any("an unseen word" in other["sex"].tolist() for other in others)
    X, y = np.ones((4, 2)), np.arange(4.0)
    sizes = {len(other[1]) for _, other in neighbours_of((X, y), number=4)}
    assert sizes == {3, 5}


PIPELINE = """
import numpy as np, inid
PLAN = inid.plan(inid.Sensitivity.box([10.0]), inid.PureDP(epsilon=1.0))
AGES = np.array([[3.0], [8.0], [10.0]])

def test_right(inid_audit):
    inid_audit(lambda ages: inid.release([np.clip(np.nan_to_num(ages), 0, 10).sum()], PLAN), AGES)

def test_wrong(inid_audit):
    inid_audit(lambda ages: inid.release([np.clip(np.nan_to_num(ages), 0, 30).sum()], PLAN), AGES)

def test_nothing(inid_audit):
    inid_audit(lambda ages: None, AGES)
"""


def test_the_plug_in_audits_a_pipeline(tmp_path):
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["inid.testing.pytest_plugin"]\n')
    (tmp_path / "test_pipeline.py").write_text(PIPELINE)
    for flags, neighbours in (((), None), (("--inid-audit",), "300 neighbours")):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *flags, str(tmp_path)],
            capture_output=True, text=True, cwd=tmp_path, check=False,
        )  # fmt: skip
        assert "2 failed, 1 passed" in done.stdout, done.stdout
        assert "sensitivity: the change spends" in done.stdout
        assert "no number got noise" in done.stdout
        assert neighbours is None or neighbours in done.stdout
