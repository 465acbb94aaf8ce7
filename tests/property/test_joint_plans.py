"""Noise that is drawn jointly makes no plan worse: against independent noise, and against its own baselines."""

import itertools

import numpy as np
import pytest

import inid
from inid.planning import plan_independent

BOXES = [pytest.param(30, id="few"), pytest.param(1_000, id="thousand", marks=pytest.mark.slow)]


def random_box(rng):
    """A set of up to 60 numbers over some magnitudes, perhaps with one that nobody moves, and weights, an epsilon."""
    size = int(rng.integers(1, rng.choice([6, 20, 60])))
    limits = np.exp(rng.normal(0, rng.choice([0.0, 0.3, 1.0, 2.0, 5.0]), size))
    limits[rng.random(size) < 0.05] = 0.0
    kind = rng.choice(["box", "counts", "cap", "partitions"], p=[0.4, 0.2, 0.2, 0.2])
    if kind == "counts":
        chosen = inid.Sensitivity.box(limits, counts=rng.integers(1, 5, size).tolist())
    elif kind == "cap" and limits.any():
        chosen = inid.Sensitivity.box(limits, l1=float(limits.max() + rng.random() * (limits.sum() - limits.max())))
    elif kind == "partitions":
        parts = [part.tolist() for part in np.split(limits, [int(rng.integers(0, size))]) if part.size]
        cells, moves = rng.integers(1, 20, len(parts)).tolist(), rng.integers(1, 4, len(parts)).tolist()
        chosen = inid.Sensitivity.partitions(parts, cells=cells, moves=moves)
    else:
        chosen = inid.Sensitivity.box(limits)
    weights = None if rng.random() < 0.5 else np.exp(rng.normal(0, 1.0, size))
    epsilon = float(np.round(10 ** rng.uniform(-1.5, 1.2), 3))
    return chosen, epsilon, {"weights": weights, "order": float(rng.choice([1, 2]))}


@pytest.mark.parametrize("number", BOXES)
def test_no_plan_is_worse_than_without_joint_noise(number):
    """Against Gaussian and Laplace noise of every allocation, under pure and other promises of each set."""
    rng = np.random.default_rng(47)
    joint = 0
    for _ in range(number):
        box, epsilon, options = random_box(rng)
        other = inid.GaussianDP(min(epsilon, 3.0)) if rng.random() < 0.5 else inid.ZCDP(epsilon)
        for promise in (inid.PureDP(epsilon), inid.ApproxDP(epsilon, float(rng.choice([1e-6, 1e-9]))), other):
            chosen, independent = inid.plan(box, promise, **options), plan_independent(box, promise, **options)
            assert chosen.log2_error <= independent.log2_error
            chosen.verify()
            for kind, allocation in itertools.product(["laplace", "gaussian"], ["optimal", "iid", "spr"]):
                if kind == "laplace" or not isinstance(promise, inid.PureDP):
                    rival = inid.plan(box, promise, mechanism=kind, allocation=allocation, **options)
                    assert chosen.log2_error <= rival.log2_error + 1e-9
            if chosen.mechanism != "staircase":
                assert chosen == independent
                continue
            joint += 1
            for allocation in ("iid", "spr"):
                rival = inid.plan(box, promise, mechanism="staircase", allocation=allocation, **options)
                assert chosen.log2_error <= rival.log2_error + 1e-2  # whole offsets are chosen among few
    assert joint > number


@pytest.mark.parametrize("number", BOXES)
def test_optimal_plans_are_never_worse_than_their_baselines(number):
    """Also Laplace plans of capped boxes under Gaussian promises, whose proofs raise scales."""
    rng = np.random.default_rng(8)
    for _ in range(number // 3):
        limits = np.exp(rng.normal(0, 1, int(rng.integers(2, 6))))
        cap = float(limits.max() + rng.random() * (limits.sum() - limits.max()))
        box = inid.Sensitivity.box(limits, l1=cap)
        for mechanism in ("laplace", "auto"):
            best, *rivals = (
                inid.plan(box, inid.GaussianDP(0.5), mechanism=mechanism, allocation=allocation).log2_error
                for allocation in ("optimal", "iid", "spr")
            )
            assert best <= min(rivals) + 1e-9
