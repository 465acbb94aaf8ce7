"""Plan and release by themselves, for every kind of set: what a row adds lies in its set, or the audit sees it."""

import numpy as np
import pytest

import inid
from inid.testing import neighbours_of, record, replay
from mutated_noise import four_times

ROWS = np.random.default_rng(5).uniform(-1.5, 1.5, size=(30, 4))
RADII = np.array([1.0, 2.0, 3.0, 0.5])
PROMISES = {"pure": inid.PureDP(1.0), "gaussian": inid.GaussianDP(1.0), "approx": inid.ApproxDP(1.0, 1e-6)}


def held(rows, norm, most):
    """Rows of a norm of at most `most`; one that is not finite counts as nothing."""
    with np.errstate(all="ignore"):
        rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), np.clip(rows, -1e9, 1e9), 0.0)
        lengths = np.linalg.norm(rows, ord=norm, axis=1, keepdims=True)
    return exact(rows * np.minimum(1.0, most * (1 - 1e-12) / np.maximum(lengths, 1e-300)))


def exact(rows):
    """Numbers whose sums floats hold exactly, none larger than before."""
    return np.trunc(rows * 2.0**20) / 2.0**20


def boxed(rows):
    return exact(np.clip(np.nan_to_num(rows, nan=0.0), -RADII, RADII))


def grouped(rows):
    return np.hstack([held(rows[:, :2], 2, 1.0), held(rows[:, 2:], 2, 0.5)])


def in_one_cell(rows):
    """Two numbers of each row, in the first cell or the second as another number says."""
    first = (rows[:, [0]] > 0).astype(float)  # false where it is NaN
    numbers = boxed(rows)[:, 1:3]
    return np.hstack([numbers[:, [0]] * first, numbers[:, [0]] * (1 - first),
                      numbers[:, [1]] * first, numbers[:, [1]] * (1 - first)])  # fmt: skip


SETS = {
    "partitions": (inid.Sensitivity.partitions([RADII[1:3]], cells=2), in_one_cell),
    "box": (inid.Sensitivity.box(RADII), boxed),
    "box, l1": (inid.Sensitivity.box(RADII, l1=2.0), lambda rows: held(boxed(rows), 1, 2.0)),
    "box, l2": (inid.Sensitivity.box(RADII, l2=1.5), lambda rows: held(boxed(rows), 2, 1.5)),
    "ball, l2": (inid.Sensitivity.ball(dimension=4, l2=1.0), lambda rows: held(rows, 2, 1.0)),
    "ball, l1": (inid.Sensitivity.ball(dimension=4, l1=1.0), lambda rows: held(rows, 1, 1.0)),
    "groups": (inid.Sensitivity.groups(sizes=[2, 2], l2=[1.0, 0.5]), grouped),
    "groups, total": (
        inid.Sensitivity.groups(sizes=[2, 2], l2=[1.0, 0.5], total=1.0),
        lambda x: held(grouped(x), 2, 1),
    ),
    "ellipsoid": (inid.Sensitivity.ellipsoid(RADII), lambda rows: RADII * held(rows / RADII, 2, 1.0)),
}
CASES = [(name, promise) for name in SETS for promise in PROMISES if (name, promise) != ("ellipsoid", "pure")]


def released(name, promise):
    """A function of the rows that sums and releases."""
    held_in, row = SETS[name]
    plan = inid.plan(held_in, PROMISES[promise])
    return lambda rows: inid.release(lambda: row(rows).sum(axis=0), plan)


@pytest.mark.parametrize(("name", "promise"), CASES)
def test_one_row_moves_the_sums_within_their_set(name, promise):
    tape = record(released(name, promise), ROWS)
    for what, other in neighbours_of(ROWS, number=30, seed=3):
        found = replay(tape, other)
        assert not found.violations, f"{what}: {found}"


@pytest.mark.parametrize(("name", "promise"), CASES)
def test_sums_beyond_their_set_are_found(name, promise, monkeypatch):
    four_times(monkeypatch)
    tape = record(released(name, promise), ROWS)
    found = (one.kind for _, other in neighbours_of(ROWS, number=30, seed=3) for one in replay(tape, other).violations)
    assert "sensitivity" in found
