"""Noise that is drawn jointly makes no plan worse: against independent noise, and against its own baselines."""

import numpy as np
import pytest

import inid
from inid.planning import plan_independent

BOXES = [pytest.param(30, id="few"), pytest.param(1_000, id="thousand", marks=pytest.mark.slow)]


def random_box(rng):
    """A box of up to 40 numbers over some magnitudes, perhaps with one that nobody moves, and weights, a promise."""
    size = int(rng.integers(1, 40))
    limits = np.exp(rng.normal(0, rng.choice([0.0, 0.5, 2.0, 5.0]), size))
    limits[rng.random(size) < 0.05] = 0.0
    weights = None if rng.random() < 0.5 else np.exp(rng.normal(0, 1.0, size))
    epsilon = float(np.round(10 ** rng.uniform(-1.5, 1.2), 3))
    promises = [
        inid.PureDP(epsilon),
        inid.ApproxDP(epsilon, 1e-6),
        inid.GaussianDP(min(epsilon, 3.0)),
        inid.ZCDP(epsilon),
    ]
    return (
        inid.Sensitivity.box(limits),
        promises[rng.integers(4)],
        {"weights": weights, "order": float(rng.choice([1, 2]))},
    )


@pytest.mark.parametrize("number", BOXES)
def test_no_plan_is_worse_than_without_joint_noise(number):
    rng = np.random.default_rng(47)
    joint = 0
    for _ in range(number):
        box, promise, options = random_box(rng)
        chosen, independent = inid.plan(box, promise, **options), plan_independent(box, promise, **options)
        assert chosen.log2_error <= independent.log2_error
        chosen.verify()
        if chosen.mechanism != "staircase":
            assert chosen == independent
            continue
        joint += 1
        for allocation in ("iid", "spr"):
            rival = inid.plan(box, promise, mechanism="staircase", allocation=allocation, **options)
            assert chosen.log2_error <= rival.log2_error + 1e-2  # whole offsets are chosen among few
    assert joint > number / 5


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
