"""When staircase noise, drawn jointly in blocks, has less expected error than the best independent noise, and when not.

Nothing is measured: all figures are planned errors. `tests/unit/planning/test_joint_tables.py` plans them again.
"""

import numpy as np

import inid
from bench._result_table import ResultTable

EPSILONS = (0.1, 1.0, 3.0, 8.0)
DELTAS = (1e-6, 1e-9)
MOST = 200
PROFILES = {
    "1 number": np.ones(1),
    "2 equal": np.ones(2),
    "10 equal": np.ones(10),
    "30 equal": np.ones(30),
    "100 equal": np.ones(100),
    "10, each 1.5 times the last": 1.5 ** np.arange(10),
    "30, lognormal": np.random.default_rng(0).lognormal(size=30),
    "1, 3, 40": np.array([1.0, 3.0, 40.0]),
}
PROMISES: tuple[inid.Budget, ...] = (
    inid.PureDP(1.0),
    inid.PureDP(3.0),
    inid.ApproxDP(1.0, 1e-6),
    inid.ApproxDP(1.0, 1e-9),
    inid.GaussianDP(1.0),
    inid.ZCDP(0.5),
)


def ratio(limits: np.ndarray, promise: inid.Budget) -> float:
    """The error of staircase noise over that of the better of Gaussian and Laplace noise."""
    box = inid.Sensitivity.box(limits)
    kinds = ("laplace",) if isinstance(promise, inid.PureDP) else ("gaussian", "laplace")
    independent = min(inid.plan(box, promise, mechanism=kind).error for kind in kinds)
    return inid.plan(box, promise, mechanism="staircase").error / independent


def most_equal_numbers(epsilon: float, delta: float) -> int:
    """How many equal numbers staircase noise serves with less error than Gaussian noise under (epsilon, delta)."""

    def gains(size: int) -> bool:
        box, promise = inid.Sensitivity.box(np.ones(size)), inid.ApproxDP(epsilon, delta)
        gaussian = inid.plan(box, promise, mechanism="gaussian").error
        return inid.plan(box, promise, mechanism="staircase").error < gaussian

    low, high = 1, MOST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gains(middle) else (low, middle)
    return low


def main() -> None:
    """Print both tables."""
    with ResultTable(
        "planning-joint-sizes",
        "Up to how many equal numbers staircase noise has less error than Gaussian noise",
        ("epsilon", *(f"delta {delta:g}" for delta in DELTAS)),
        peers="inid's Gaussian noise",
        command="python -m bench.joint",
    ) as sizes:
        for epsilon in EPSILONS:
            sizes.add(f"{epsilon:g}", *(most_equal_numbers(epsilon, delta) for delta in DELTAS))
    with ResultTable(
        "planning-joint-ratios",
        "Expected squared error of staircase noise over that of the better of Gaussian and Laplace noise",
        ("sensitivities", *(str(promise) for promise in PROMISES)),
        peers="inid's Gaussian and Laplace noise",
        command="python -m bench.joint",
    ) as ratios:
        for name, limits in PROFILES.items():
            ratios.add(name, *(f"{ratio(limits, promise):.2f}" for promise in PROMISES))


if __name__ == "__main__":
    main()
