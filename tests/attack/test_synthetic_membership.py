"""An attack by membership on synthetic rows: whoever knows all others asks whether one person is among them.

The test sees rows alone: their number, and how many stand in each cell of the person, alone, in pairs and in threes,
which is what tests on synthetic rows of measured tables look at (Golob et al. 2024); Fisher's discriminant weighs these
numbers, learned from runs that are not judged. A lower bound on epsilon follows from the others, at confidence 0.999.
"""

from itertools import combinations

import numpy as np
import pytest

import inid
from inid.tables.questions.synthetic import release_levels
from inid.testing import audit_epsilon, unsafe_no_noise, unsafe_seed
from internals import module_with

mixture = module_with("inid.tables.questions.synthetic", "TargetTables")
model = module_with("inid.tables.questions.synthetic", "Effort")
particles = module_with("inid.tables.questions.synthetic", "entropic_rows")

PROMISE = inid.ApproxDP(1.0, 1e-6)
PERSON = (2, 2, 1)  # whose cells nobody else is in
OTHERS = np.array([(at % 2, at % 3 % 2, 0) for at in range(24)])
LEVELS = {"a": ["0", "1", "2"], "b": ["0", "1", "2"], "c": ["0", "1"]}
RUNS = 240


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(mixture, "_ROUNDS", 40)
    monkeypatch.setattr(mixture, "_PRODUCTS", 12)
    monkeypatch.setattr(particles, "_ROUNDS_OF_MOVES", ((6, 1),))
    monkeypatch.setattr(model, "_LEAST", 400)


def seen(people, number):
    """What one release and its rows show of the person."""
    facts = {"budget": PROMISE, "neighbours": "add_remove", "ledger": None, "label": ""}
    made = release_levels(LEVELS, lambda: people, **facts)
    codes = made.maker.codes(number, progress=False)
    same = codes == np.array(PERSON)
    cells = [
        same[:, list(columns)].all(axis=1).sum() for width in (1, 2, 3) for columns in combinations(range(3), width)
    ]
    return [len(codes), *cells]


def runs(*, true_number=False):
    """What runs without the person show, and runs with it."""
    found = []
    for people in (OTHERS, np.vstack([OTHERS, PERSON])):
        number = len(people) if true_number else None
        found.append(np.array([seen(people, number) for _ in range(RUNS)], dtype=np.float64))
    return found


def audited(without, there):
    """A lower bound on epsilon: a third of the runs finds the test, the others judge it."""
    learned, judged = slice(0, RUNS // 3), slice(RUNS // 3, RUNS)
    spread = sum(np.cov(own[learned], rowvar=False) for own in (without, there)) + 1e-6 * np.eye(without.shape[1])
    direction = np.linalg.solve(spread, there[learned].mean(axis=0) - without[learned].mean(axis=0))
    return audit_epsilon(there[judged] @ direction, without[judged] @ direction, delta=PROMISE.delta).epsilon


def test_rows_tell_no_more_of_a_person_than_the_promise():
    with unsafe_seed(21):
        assert audited(*runs()) <= PROMISE.epsilon


def test_the_twin_with_the_true_number_of_rows_tells_more():
    with unsafe_seed(22):
        assert audited(*runs(true_number=True)) > PROMISE.epsilon


def test_the_twin_without_noise_tells_more_whatever_the_number_of_rows():
    with unsafe_seed(23), unsafe_no_noise():
        without, there = runs()
    assert audited(without, there) > PROMISE.epsilon
    without[:, 0] = there[:, 0] = 0  # the cells alone
    assert audited(without, there) > PROMISE.epsilon
