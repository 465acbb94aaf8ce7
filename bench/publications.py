"""A yearly release of Adult under one promise of (1, 1e-6): against a split into thirds by hand, and against peers.

Ten tables of pairs, two means by sex and education, four quantiles of age. The first part plans only: the objective of
the publication (the sum of squared errors in units of what is wanted) beside thirds of mu^2 and thirds of epsilon, and
the variance of each question beside an equal split. The second part releases, and prints the mean absolute error of
each kind of number. OpenDP's context splits the same (1, 1e-6) evenly over its sixteen queries, or the rho that implies
it (Gaussian noise), and releases once, since each of its queries takes seconds; diffprivlib has no delta, and splits
epsilon = 1 evenly. Groups of one table are disjoint and need no split.

Peers live in an environment of their own: set INID_BENCH_PYTHON to an interpreter that can import them. Data:
adult.csv.gz in INID_DATA, or in shared/data beside the project. `python bench/publications.py plan` runs one part.
"""

import json
import math
import os
import subprocess
import sys
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

import inid
from bench._public_facts import ADULT_CATEGORIES
from bench._result_table import ResultTable
from inid import tables
from inid.numbers import decimal_down, decimal_root_down
from inid.planning import whole_of
from inid.tables import targets_of

DATA = Path(os.environ.get("INID_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
PROMISE = inid.ApproxDP(epsilon=1.0, delta=1e-6)
COLUMNS = ("sex", "race", "education", "marital_status", "workclass")
PAIRS = list(combinations(COLUMNS, 2))
BOUNDS = {"hours_per_week": (0, 100), "capital_gain": (0, 100_000), "age": (0, 100)}
QUANTILES = [0.25, 0.5, 0.75, 0.9]
RUNS = 5
PEER_RUNS = {"OpenDP's context": 1, "OpenDP's context in rho": 1, "diffprivlib": RUNS}
SECONDS = 900  # for each peer

PEERS = """
import itertools, json, sys
import numpy as np, polars as pl
job = json.load(sys.stdin)
frame = pl.DataFrame(job["frame"])
keys, pairs, groups, bounds = job["keys"], job["pairs"], ["sex", "education"], job["bounds"]
epsilon, quantiles = job["epsilon"], job["quantiles"]


def cells(columns):
    return pl.DataFrame(list(itertools.product(*(keys[c] for c in columns))), schema=columns, orient="row")


def in_order(columns, made, value):
    return cells(columns).join(made, on=columns, how="left", maintain_order="left")[value].fill_null(0).to_list()


def opendp(loss):
    import opendp.prelude as dp
    dp.enable_features("contrib")
    margins = [dp.polars.Margin(by=[], max_length=100_000)]
    context = dp.Context.compositor(
        data=frame.lazy(), privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(**loss),
        split_evenly_over=len(pairs) + 2 + len(quantiles), margins=margins,
    )
    tables = []
    for pair in pairs:
        made = context.query().group_by(pair).agg(dp.len()).with_keys(cells(pair)).release().collect()
        tables.append(in_order(pair, made, "len"))
    means = []
    for column in job["means"]:
        low, high = bounds[column]
        added = pl.col(column).cast(float).fill_null(low).fill_nan(low).dp.sum(bounds=(float(low), float(high)))
        query = context.query().group_by(groups).agg(dp.len(), added.alias("total"))
        made = query.with_keys(cells(groups)).release().collect()
        count, total = (np.array(in_order(groups, made, name), dtype=float) for name in ("len", "total"))
        means.append(np.clip(total / np.maximum(count, 1), low, high).tolist())
    candidates = np.linspace(*bounds["age"], 401).tolist()
    ages = pl.col("age").cast(float).fill_null(0.0).fill_nan(0.0)
    answers = [
        context.query().select(ages.dp.quantile(p, candidates)).release().collect().item() for p in quantiles
    ]
    return tables, means, answers


def diffprivlib():
    from diffprivlib import tools
    each = epsilon / (len(pairs) + 2 + len(quantiles))
    places = {c: frame[c].replace_strict({k: i for i, k in enumerate(keys[c])}).to_numpy() for c in keys}
    tables = []
    for a, b in pairs:
        sizes = len(keys[a]), len(keys[b])
        made, *_ = tools.histogram2d(
            places[a], places[b], epsilon=each, bins=sizes, range=[(-0.5, n - 0.5) for n in sizes]
        )
        tables.append(np.asarray(made, dtype=float).reshape(-1).tolist())
    means = []
    inside = [(places["sex"] == i) & (places["education"] == j)
              for i in range(len(keys["sex"])) for j in range(len(keys["education"]))]
    for column in job["means"]:
        values = frame[column].to_numpy().astype(float)
        means.append([float(tools.mean(values[rows], epsilon=each, bounds=tuple(bounds[column]))) for rows in inside])
    values = frame["age"].to_numpy().astype(float)
    limits = tuple(bounds["age"])
    return tables, means, [float(tools.quantile(values, p, epsilon=each, bounds=limits)) for p in quantiles]


import functools, math
# Sixteen times a sixteenth is the whole only where floats are exact: the largest power of two below delta.
approx = {"epsilon": epsilon, "delta": 2.0 ** math.floor(math.log2(job["delta"]))}
tail = math.log(1 / job["delta"])
rho = {"rho": (math.sqrt(tail + epsilon) - math.sqrt(tail)) ** 2}
contest = {
    "OpenDP's context": functools.partial(opendp, approx), "OpenDP's context in rho": functools.partial(opendp, rho),
    "diffprivlib": diffprivlib,
}
try:
    found = [contest[job["peer"]]() for _ in range(job["runs"])]
except Exception as error:
    found = repr(error)
print(json.dumps(found))
"""


def publication(frame: pd.DataFrame) -> tables.Publication:
    domains = {name: ADULT_CATEGORIES[name] for name in COLUMNS}
    fill = dict.fromkeys(BOUNDS, 0.0)
    facts = {"other": "drop", "rows": len(frame), "max_rows": 10**5}
    t = tables.Table(frame, bounds=BOUNDS, domains=domains, missing=fill, **facts)
    by = {name: domains[name] for name in ("sex", "education")}
    return tables.Publication(
        people=t.marginals(PAIRS),
        means=t.statistics(mean=["hours_per_week", "capital_gain"], by=by),
        ages=t.quantiles({"age": QUANTILES}),
    )


def plan(pub: tables.Publication) -> None:
    """The objective beside thirds by hand, and each question's variance beside an equal split."""
    made = pub.plan(PROMISE)
    equal = {name: query.question.equal(PROMISE, questions=3) for name, query in pub.queries.items()}
    wanted = {name: targets_of([None] * len(own), own).limits for name, own in equal.items()}
    ours = _objective(made.plans, wanted)
    print(f"{made.mechanism} noise; parts: {', '.join(f'{name} {own.budget}' for name, own in made.plans.items())}")
    for family in ("gaussian", "laplace"):
        third = whole_of(PROMISE, family) / Fraction(3)
        part = inid.GaussianDP(decimal_root_down(third)) if family == "gaussian" else inid.PureDP(decimal_down(third))
        thirds = {name: query.question.plan_within(part, family, wanted[name]) for name, query in pub.queries.items()}
        other = _objective(thirds, wanted)
        print(f"objective of thirds by hand in {family} noise: {other / ours:.3f} times the publication's (at least 1)")
        if family == made.mechanism:
            for name, own in made.plans.items():
                pairs = zip(own.planned_numbers(), thirds[name].planned_numbers(), strict=True)
                most = max((a.std / b.std) ** 2 for a, b in pairs)
                print(f"  {name}: at most {most:.2f} times its variance under an equal split (limit 2)")


def _objective(plans: dict, wanted: dict) -> float:
    return math.fsum(
        number.cells * (min(number.std, number.range) / limit) ** 2
        for name, own in plans.items()
        for number, limit in zip(own.planned_numbers(), wanted[name], strict=True)
    )


def release(pub: tables.Publication, frame: pd.DataFrame) -> None:
    """The mean absolute error of each kind of number, ours and the peers', over some releases."""
    made = pub.plan(PROMISE)
    exact = _exact(frame)
    errors = {"inid": np.mean([_errors(_ours(pub.release(made)), exact) for _ in range(RUNS)], axis=0)}
    keys = {name: ADULT_CATEGORIES[name] for name in COLUMNS}
    job = {
        "frame": {name: frame[name].tolist() for name in (*COLUMNS, *BOUNDS)},
        "keys": keys, "pairs": PAIRS, "bounds": BOUNDS, "means": ["hours_per_week", "capital_gain"],
        "quantiles": QUANTILES, "epsilon": PROMISE.epsilon, "delta": PROMISE.delta,
    }  # fmt: skip
    for who, runs in PEER_RUNS.items():
        answers = _peer(job | {"peer": who, "runs": runs})
        if isinstance(answers, str):
            print(f"{who}: not compared ({answers[:300]})")
        else:
            errors[who] = np.mean([_errors(one, exact) for one in answers], axis=0)
    kinds = ("a cell of the ten tables", "mean of hours", "mean of capital gain", "quantile of age")
    lines = ResultTable(
        "tables-publications",
        "Sixteen questions on Adult under (1, 1e-6): mean absolute errors",
        ("", *errors),
        peers=", ".join(PEER_RUNS),
        command="python -m bench.publications",
    )
    for at, kind in enumerate(kinds):
        ours = float(errors["inid"][at])  # 0 where every answer was exact
        ratios = {who: f" ({own[at] / ours:.2f} x)" if ours else "" for who, own in errors.items()}
        lines.add(kind, *(f"{own[at]:.4g}{ratios[who]}" for who, own in errors.items()))
    lines.write()


def _peer(job: dict) -> list | str:
    """What a peer released, or why it did not."""
    python = os.environ.get("INID_BENCH_PYTHON", sys.executable)
    call = [python, "-W", "ignore", "-c", PEERS]
    try:
        made = subprocess.run(call, input=json.dumps(job), capture_output=True, text=True, check=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS} seconds"
    return json.loads(made.stdout)


def _exact(frame: pd.DataFrame) -> tuple[list, list, list]:
    found = [_places(frame, pair) for pair in PAIRS]
    counts = [np.bincount(at, minlength=size).tolist() for at, size in found]
    at, size = _places(frame, ("sex", "education"))
    rows = np.maximum(np.bincount(at, minlength=size), 1)
    means = [
        (np.bincount(at, frame[name].clip(*BOUNDS[name]), minlength=size) / rows).tolist()
        for name in ("hours_per_week", "capital_gain")
    ]
    return counts, means, np.quantile(frame["age"], QUANTILES, method="inverted_cdf").tolist()


def _places(frame: pd.DataFrame, columns: tuple[str, ...]) -> tuple[np.ndarray, int]:
    codes = [pd.Index(ADULT_CATEGORIES[name]).get_indexer(frame[name]) for name in columns]
    sizes = [len(ADULT_CATEGORIES[name]) for name in columns]
    return np.ravel_multi_index(codes, sizes), math.prod(sizes)


def _ours(result: tables.PublicationResult) -> tuple[list, list, list]:
    counts = [result["people"].marginal(*pair)["estimate"].tolist() for pair in PAIRS]
    rows = result["means"].answers
    means = [[row.estimate for row in rows if row.column == name] for name in ("hours_per_week", "capital_gain")]
    return counts, means, [row.estimate for row in result["ages"].answers]


def _errors(answers: tuple[list, list, list], exact: tuple[list, list, list]) -> list[float]:
    counts = np.concatenate([np.subtract(a, b) for a, b in zip(answers[0], exact[0], strict=True)])
    means = [np.subtract(a, b) for a, b in zip(answers[1], exact[1], strict=True)]
    parts = [counts, *means, np.subtract(answers[2], exact[2])]
    return [float(np.abs(part).mean()) for part in parts]


def main() -> None:
    """Both parts, or the one that is named."""
    frame = pd.read_csv(DATA / "adult.csv.gz")
    pub = publication(frame)
    chosen = sys.argv[1:] or ["plan", "release"]
    if "plan" in chosen:
        plan(pub)
    if "release" in chosen:
        release(pub, frame)


if __name__ == "__main__":
    main()
