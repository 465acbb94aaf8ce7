"""What the library answered before: plans, curves and exact sums, to compare when its inside is rearranged.

`python tests/recording.py` writes `tests/records/answers.json` anew, and the record of tables (`recording_tables`). Do
that only for a change that is meant, and add the reason to `tests/records/CHANGES.md`: the record is there to catch
changes that are not.
"""

import json
import sys
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

import inid
import recording_tables
from command_line import run
from inid import learn, tables, testing

RECORD = Path(__file__).parent / "records" / "answers.json"

PROMISES = {
    "pure": inid.PureDP(0.7),
    "approx": inid.ApproxDP(1.0, 1e-6),
    "approx loose": inid.ApproxDP(3.0, 1e-3),
    "gaussian": inid.GaussianDP(0.3),
    "zcdp": inid.ZCDP(0.1),
}


def _sets():
    box, ball, groups = inid.Sensitivity.box, inid.Sensitivity.ball, inid.Sensitivity.groups
    return {
        "one number": box([2.5]),
        "box": box([1.0, 3.0, 40.0]),
        "box with zero": box([0.0, 0.1, 7.0, 7.0]),
        "equal box": box([1.0] * 12),
        "wide box": box(np.geomspace(1e-4, 1e4, 30)),
        "run-length box": box([1.0, 20.0], counts=[500, 3]),
        "replace box": box([1.0, 3.0, 40.0], neighbours="replace"),
        "l1 cap": box([1.0, 3.0, 4.0], l1=5.0),
        "l2 cap": box([1.0, 3.0, 4.0], l2=4.5),
        "both caps": box([1.0, 3.0, 4.0, 0.5], l1=5.0, l2=4.2),
        "loose caps": box([1.0, 2.0], l1=10.0, l2=10.0),
        "l1 ball": ball(dimension=20, l1=1.5),
        "l2 ball": ball(dimension=1000, l2=0.3),
        "l2 groups": groups(sizes=[432, 32, 650], l2=[0.2, 0.5, 0.1]),
        "l1 groups": groups(sizes=[4, 1, 9], l1=[1.0, 2.0, 0.5]),
        "l2 total": groups(sizes=[4, 1, 9], l2=[1.0, 2.0, 0.5], total=2.1),
        "l1 total": groups(sizes=[4, 1, 9], l1=[1.0, 2.0, 0.5], total=2.1),
        "ellipsoid": inid.Sensitivity.ellipsoid([1.0, 0.5, 8.0]),
        "run-length ellipsoid": inid.Sensitivity.ellipsoid([1.0, 0.7], counts=[10, 45]),
    }


def _floats(values):
    return [float(value) for value in np.atleast_1d(values)]


def _attempt(make):
    """What `make` returns, or the kind of error it ends in: refusals are part of the record."""
    try:
        return make()
    except inid.InidError as error:
        return type(error).__name__


def _described(plan):
    return {"mechanism": plan.mechanism, "scales": _floats([s for s, _ in plan.runs]), "error": float(plan.error)}


def plans():
    """Every set under every promise, mechanism and allocation, with and without weights, for two orders."""
    answers = {}
    for (name, s), (promise, budget) in product(_sets().items(), PROMISES.items()):
        weights = None if s.dimension > 100 else (1 + np.arange(s.dimension) % 3).astype(float)
        settings = [{"mechanism": m} for m in ("auto", "gaussian", "laplace")]
        settings += [{"allocation": a} for a in ("iid", "spr")]
        settings += [
            {"order": 1},
            *([] if weights is None else [{"weights": weights}, {"tolerance": weights, "order": 3}]),
        ]
        for setting in settings:
            words = ", ".join(f"{k}={v if isinstance(v, (str, int)) else '1 2 3 ...'}" for k, v in setting.items())
            answers[f"{name} | {promise} | {words}"] = _attempt(
                lambda s=s, budget=budget, setting=setting: _described(inid.plan(s, budget, **setting))
            )
    return answers


def curves():
    """Epsilon and delta of plans, of compositions and of subsampled steps."""
    answers = {}
    for (name, s), mechanism in product(_sets().items(), ("gaussian", "laplace")):
        plan = _attempt(lambda s=s, m=mechanism: inid.plan(s, inid.ApproxDP(1.0, 1e-6), mechanism=m))
        if isinstance(plan, str):
            answers[f"{name} | {mechanism}"] = plan
            continue
        points = [plan.epsilon(delta=1e-9), plan.delta(epsilon=0.5), plan.delta(epsilon=2.0)]
        answers[f"{name} | {mechanism}"] = _floats(points)
    box = _sets()["box"]
    weekly = inid.plan(box, inid.GaussianDP(0.1), mechanism="gaussian")
    laplace = inid.plan(box, inid.PureDP(0.05))
    year = inid.compose(*[weekly] * 26, *[laplace] * 26)
    answers["composition"] = _floats([year.epsilon(delta=1e-6), year.delta(epsilon=1.0)])
    step = inid.plan(inid.Sensitivity.ball(dimension=1000, l2=1.0), inid.GaussianDP(1.0), mechanism="gaussian")
    for rate, steps in ((0.01, 100), (0.1, 10)):
        run = inid.subsample(step, rate=rate, steps=steps)
        answers[f"subsampled {rate} {steps}"] = _floats([run.epsilon(delta=1e-5), run.delta(epsilon=1.0)])
    return answers


def sums():
    """Exact answers of tables and estimators, with the noise left out."""
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    frame = X.assign(target=y)
    frame["sex"] = frame["sex"].map({1.0: "F", 2.0: "M"})
    bounds = {"age": (18, 80), "bmi": (15, 45), "bp": (60, 140), "target": (0, 350)}
    columns = list(bounds)
    answers = {}
    with testing.unsafe_no_noise():
        for neighbours in ("add_remove", "replace"):
            t = tables.Table(frame, bounds=bounds, rows=len(frame), neighbours=neighbours)
            q = t.statistics(count=True, mean=columns, variance=["bmi"], by={"sex": ["F", "M"]})
            rows = q.release(q.plan(inid.ApproxDP(1.0, 1e-6))).answers
            answers[f"table | {neighbours}"] = _floats(
                [v for row in rows for v in (row.estimate, row.lower, row.upper)]
            )
        values = frame[columns].to_numpy()
        low, high = np.array(list(bounds.values())).T
        moments = learn.PrivateMoments(inid.ApproxDP(1.0, 1e-6), bounds=(low, high)).fit(values)
        answers["moments"] = _floats([*moments.mean_, *moments.release_.values])
    return answers


def answers():
    """The whole record."""
    return {"plans": plans(), "curves": curves(), "sums": sums()}


if __name__ == "__main__":
    RECORD.parent.mkdir(exist_ok=True)
    RECORD.write_text(json.dumps(answers(), indent=0, sort_keys=True) + "\n")
    recording_tables.write(run)
    sys.stdout.write("wrote tests/records anew\n")
