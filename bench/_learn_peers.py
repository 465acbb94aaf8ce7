"""What diffprivlib's models and interpret's DP-EBM score on one dataset; run by the interpreter that can import them.

Called by `learn_defaults` with a file of arrays; prints one line of JSON, the scores of each by epsilon and seed.
"""

import json
import sys
import warnings

import numpy as np

warnings.simplefilter("ignore")


def quality(d, truth, model, X):
    from sklearn.metrics import r2_score, roc_auc_score

    if "ends" in d:
        return float(r2_score(truth, np.clip(np.ravel(model.predict(X)), *d["ends"])))
    if len(np.unique(d["y"])) == 2:
        return float(roc_auc_score(truth, model.predict_proba(X)[:, 1]))
    return float((model.predict(X) == truth).mean())


def diffprivlib(d, epsilon, X, y):
    from diffprivlib import models

    low, high = d["low"], d["high"]
    if "ends" in d:
        return models.LinearRegression(epsilon=epsilon, bounds_X=(low, high), bounds_y=tuple(d["ends"])).fit(
            X, np.clip(y, *d["ends"])
        )
    scaled = models.LogisticRegression(epsilon=epsilon, data_norm=len(low) ** 0.5, max_iter=1000)
    return scaled.fit(X, y)


def interpret(d, epsilon, X, y):
    from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor

    names = [f"x{at}" for at in range(X.shape[1])]
    bounds = {name: (float(a), float(b)) for name, a, b in zip(names, d["low"], d["high"], strict=True)}
    common = {"epsilon": epsilon, "delta": 1e-6, "feature_names": names, "n_jobs": 1}
    if "ends" in d:
        low, high = map(float, d["ends"])
        return DPExplainableBoostingRegressor(
            privacy_bounds=bounds, privacy_target_min=low, privacy_target_max=high, **common
        ).fit(X, y)
    return DPExplainableBoostingClassifier(privacy_bounds=bounds, **common).fit(X, y)


def main():
    d = np.load(sys.argv[1])
    X, low, high = np.clip(d["X"], d["low"], d["high"]), d["low"], d["high"]
    found = {}
    for name, fit in (("diffprivlib", diffprivlib), ("DP-EBM", interpret)):
        data = (X - low) / (high - low) if name == "diffprivlib" and "ends" not in d else X
        if name == "DP-EBM" and "ends" not in d and len(np.unique(d["y"])) > 2:
            continue  # it has two classes only
        try:
            found[name] = {
                f"{epsilon:g}": [
                    quality(d, d["y"][b], fit(d, float(epsilon), data[a], d["y"][a]), data[b])
                    for a, b in zip(d["train"], d["test"], strict=True)
                ]
                for epsilon in d["epsilons"]
            }
        except ImportError:
            continue
    print(json.dumps(found))


main()
