"""Plan a release from stated sensitivities, print what it costs against the baselines, and draw it (needs matplotlib).

Fifteen means from a health survey of 7,924 people: each column has public bounds and an error that a reader of the
results could live with. One promise covers them all; how should it be spent?
"""

import argparse
from pathlib import Path

import numpy as np

import inid

PEOPLE = 7_924
# column: (lower bound, upper bound, tolerance of the mean), all public knowledge of clinicians
COLUMNS = {
    "age": (25, 75, 0.5),
    "diastolic_bp": (30, 180, 1.0),
    "systolic_bp": (70, 270, 1.0),
    "pulse_pressure": (0, 150, 1.0),
    "bmi": (10, 70, 0.2),
    "serum_albumin": (2, 6, 0.05),
    "serum_cholesterol": (50, 800, 4.0),
    "serum_iron": (0, 350, 4.0),
    "serum_magnesium": (0.5, 3, 0.02),
    "serum_protein": (4, 12, 0.05),
    "sedimentation_rate": (0, 75, 1.0),
    "tibc": (150, 750, 6.0),
    "transferrin_saturation": (0, 100, 1.0),
    "white_blood_cells": (2, 60, 0.2),
    "poverty_index": (0, 1000, 10.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the chart (default: out)")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    options = parser.parse_args()

    bounds = np.array([(low, high) for low, high, _ in COLUMNS.values()])
    tolerance = np.array([tol for *_, tol in COLUMNS.values()])
    sensitivity = inid.Sensitivity.box(
        (bounds[:, 1] - bounds[:, 0]) / PEOPLE, labels=list(COLUMNS), neighbours="replace"
    )
    budget = inid.ApproxDP(epsilon=options.epsilon, delta=options.delta)
    plan = inid.plan(sensitivity, budget, tolerance=tolerance)
    comparison = plan.compare()

    print(plan, end="\n\n")
    print(comparison, end="\n\n")
    print(plan.verify(), end="\n\n")
    print("The price of that accuracy, asked the other way round:")
    print(inid.plan_for_accuracy(sensitivity, tolerance, failure=0.05, delta=options.delta), end="\n\n")

    options.out.mkdir(parents=True, exist_ok=True)
    chart = options.out / "demo.png"
    draw(plan, comparison, tolerance, chart)
    print(f"A chart of the plan is in {chart}.")


def draw(plan: inid.NoisePlan, comparison: inid.Comparison, tolerance: np.ndarray, path: Path) -> None:
    """Two panels: the error of every way to spend the budget, and each column's noise relative to its tolerance."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.2), layout="constrained", width_ratios=[2, 3])
    figure.suptitle(f"Fifteen means of a health survey under {plan.budget}", fontsize=12)

    names = [f"{row.mechanism}\n{row.allocation}" for row in comparison]
    chosen = [(row.mechanism, row.allocation) == comparison.chosen for row in comparison]
    left.bar(names, [row.ratio for row in comparison], color=["tab:blue" if best else "0.75" for best in chosen])
    left.set_yscale("log")
    left.set_ylabel("expected error, relative to the plan (log scale)")
    for at, row in enumerate(comparison):
        text = f"{row.ratio:.3g}x" if row.ratio < 1000 else f"{row.ratio:.0f}x"
        left.text(at, row.ratio * 1.08, text, ha="center", fontsize=9)
    left.margins(y=0.15)
    left.tick_params(axis="x", labelsize=8)
    left.spines[["top", "right"]].set_visible(False)

    deviation = np.sqrt(2) if plan.mechanism == "laplace" else 1.0
    places = np.arange(len(tolerance))
    for allocation, colour in (("optimal", "tab:blue"), ("spr", "tab:orange"), ("iid", "0.6")):
        other = inid.plan(
            plan.sensitivity, plan.budget, mechanism=plan.mechanism, allocation=allocation, tolerance=tolerance
        )
        relative = deviation * other.scales / tolerance
        right.scatter(relative, places, color=colour, label=allocation, zorder=3, s=28)
    right.axvline(1.0, color="0.3", linewidth=0.8, linestyle="--")
    right.text(1.02, -0.9, "tolerance", fontsize=8, color="0.3")
    right.set_xscale("log")
    right.set_yticks(places, plan.sensitivity.labels)
    right.invert_yaxis()
    right.grid(axis="x", color="0.9")
    right.set_xlabel("standard deviation of the noise, relative to the column's tolerance (log scale)")
    right.legend(title="allocation", frameon=False)
    right.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
