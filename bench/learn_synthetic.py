"""`OnSyntheticRows(HistGradientBoosting)` beside our logistic regression and beside boosting without privacy.

AUC on held-out rows at (1, 1e-9), of seeded fits: Adult and electricity with 16 bins for each column of numbers and
with stated edges; then scores on small tables of scikit-learn beside the constant, which knows the exact mean, or the
largest class, of the rows.
`python bench/learn_synthetic.py small` runs one part.
"""

import sys
import time
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

import inid
from bench._public_facts import CANCER, DIABETES, WINE
from bench._synthetic_cases import CASES
from inid import learn
from inid.testing import unsafe_seed

BUDGET = inid.ApproxDP(1.0, 1e-9)
SEEDS = (1, 2, 3)


def auc(model: Any, train: pd.DataFrame, test: pd.DataFrame, target: str, positive: str) -> tuple[float, float]:
    start = time.process_time()
    fitted = model.fit(train.drop(columns=target), train[target])
    found = fitted.predict_proba(test.drop(columns=target))[:, [*fitted.classes_].index(positive)]
    return float(roc_auc_score(test[target] == positive, found)), time.process_time() - start


def large() -> None:
    for data, positive in (("adult", ">50K"), ("electricity", "UP")):
        case = CASES[data]
        train, test = case.frames()
        bounds = {name: (edges[0], edges[-1]) for name, edges in case.bins.items()}
        keys = {name: own for name, own in case.keys.items() if name != case.target}
        facts: dict[str, Any] = {"budget": BUDGET, "bounds": bounds, "categories": keys}
        facts["classes"] = case.keys[case.target]
        for words, more in (("16 bins", {}), ("stated edges", {"bins": case.bins})):
            found = []
            for seed in SEEDS:
                with unsafe_seed(seed):
                    model = learn.OnSyntheticRows(HistGradientBoostingClassifier(), **facts, **more)
                    found.append(auc(model, train, test, case.target, positive))
            shown = ", ".join(f"{score:.3f}" for score, _ in found)
            print(f"{data}: boosting on synthetic rows, {words}: AUC {shown} in {found[0][1]:.0f} CPU s", flush=True)
        encoder = learn.PublicCategories(keys, bounds=bounds)
        logistic = learn.PrivateLogisticRegression(
            budget=BUDGET, bounds=encoder.get_bounds_out(), classes=case.keys[case.target]
        )
        with unsafe_seed(1):
            ours, _ = auc(make_pipeline(encoder, logistic), train, test, case.target, positive)
        codes = learn.PublicCategories(keys, bounds=bounds, encoding="ordinal")
        plain, _ = auc(
            make_pipeline(codes, HistGradientBoostingClassifier(random_state=0)), train, test, case.target, positive
        )
        print(f"  PrivateLogisticRegression {ours:.3f}; boosting without privacy {plain:.3f}", flush=True)


def small() -> None:
    iris = ([4, 1.5, 0.5, 0], [8, 5, 7.5, 3])
    for name, load, bounds in (
        ("iris", load_iris, iris),
        ("wine", load_wine, WINE),
        ("breast cancer", load_breast_cancer, CANCER),
        ("diabetes", load_diabetes, DIABETES),
    ):
        X, y = load(return_X_y=True, **({"scaled": False} if load is load_diabetes else {}))
        regression = load is load_diabetes
        model: Any = HistGradientBoostingRegressor() if regression else HistGradientBoostingClassifier()
        more: dict[str, Any] = {"bounds_y": (0, 400)} if regression else {"classes": range(len(np.unique(y)))}
        scores, constants = [], []
        for seed in range(10):
            test = np.random.default_rng(seed).random(len(y)) < 0.3
            with unsafe_seed(seed):
                fitted = learn.OnSyntheticRows(model, budget=BUDGET, bounds=bounds, bins=4, **more).fit(
                    X[~test], y[~test]
                )
            scores.append(fitted.score(X[test], y[test]))
            constant: Any = DummyRegressor() if regression else DummyClassifier()  # the mean, or the largest class
            constants.append(constant.fit(X[~test], y[~test]).score(X[test], y[test]))
        unit = "R^2" if regression else "accuracy"
        ends = f"{np.mean(scores):.3f} (the constant {np.mean(constants):.3f})"
        print(f"{name}: {unit} {ends}, least {min(np.subtract(scores, constants)):+.3f} beside it", flush=True)


def main() -> None:
    for part in (large, small):
        if not sys.argv[1:] or part.__name__ in sys.argv[1:]:
            part()


if __name__ == "__main__":
    main()
