"""Synthetic rows beside AIM and MST of dpmm at their defaults, paired by seed, at delta 1e-9.

For each table (adult, nhanes, electricity, California Housing, Titanic), method, epsilon and seed one process prints:
mean total variation from the training rows over two-way and three-way tables, the AUC of boosting that is trained on
the rows and tested on others, CPU seconds and peak memory. "ours+target" asks with `target=`, "ours+triples" with
`triples=True`. Then come the ratios to each peer.

    python bench/synthetic.py                                          # ours at epsilon 1, seed 1, MST, one AIM
    python bench/synthetic.py california aim 0.3 seed=2                # one case of one peer, and what is stored
    python bench/synthetic.py all ours ours+target mst 0.3 1 3 seed=1 seed=2 seed=3

AIM takes two to fifteen minutes per case, and far longer at epsilon 3: without arguments it runs on California alone.
With the word `lean` peers run with the fit of `_aim_lean.py`, which finds the same in a fraction of the time: such runs
count for distances and AUC, not for CPU seconds. `results/synthetic.jsonl` holds one line per run, with its date; a run
is stored there with the word `store`, and the ratios use stored runs of a peer where it did not run now. Data:
INID_DATA, or shared/data beside the project. With the word `page` the runs of this call, and those that are stored of
peers on the same cases, are written as results/bench/tables-synthetic-rivals.md. dpmm lives in an environment of its
own, whose Python INID_BENCH_DPMM names.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench._result_table import ResultTable
from bench._synthetic_cases import CASES

STORED = Path(__file__).parent / "results" / "synthetic.jsonl"
DELTA = 1e-9
OURS, PEERS = ("ours", "ours+target", "ours+triples"), ("mst", "aim")
Run = dict[str, Any]

PEER = """
import json, resource, sys, time
import pandas as pd
from numpy.random import RandomState
from dpmm.models import AIMGM, MSTGM
path, method, epsilon, delta, seed, bench = sys.argv[1:]
if bench:
    sys.path.append(bench)
    import _aim_lean
    _aim_lean.install()
frame = pd.read_csv(path + "/codes.csv")
facts = dict(epsilon=float(epsilon), delta=float(delta), domain=json.load(open(path + "/sizes.json")), n_jobs=1)
facts["random_state"] = RandomState(int(seed))
model = AIMGM(max_model_size=80, compress=False, **facts) if method == "aim" else MSTGM(**facts)
start = time.process_time()
model.fit(frame)
made = model.generate(len(frame))[list(frame.columns)]
spent = time.process_time() - start
made.to_csv(path + "/made.csv", index=False)
print(json.dumps({"cpu_s": spent, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def ours(data: str, method: str, epsilon: float, seed: int) -> Run:
    """One run of ours, in this process."""
    import inid
    from inid import tables
    from inid.testing import unsafe_seed

    case = CASES[data]
    train, test = case.frames()
    asked: dict[str, Any] = {"target": case.target} if method == "ours+target" else {}
    asked |= {"triples": True} if method == "ours+triples" else {}
    start = time.process_time()
    table = tables.Table(train, domains=case.keys, bins=case.bins, other="drop")
    query = table.synthesize(list(case.sizes), **asked)
    with unsafe_seed(seed):
        result = query.release(query.plan(inid.ApproxDP(epsilon, DELTA)))
        rows = result.rows()
    spent = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = case.scores(case.coded(rows), case.coded(train), case.coded(test))
    return found | {"cpu_s": spent, "peak_mb": peak, "kept": len(result.kept), "effective": result.effective_rows}


def peer(data: str, method: str, epsilon: float, seed: int, *, lean: bool) -> Run:
    """One run of a peer, in its environment, on the levels of the same rows."""
    case = CASES[data]
    train, test = (case.coded(frame) for frame in case.frames())
    with tempfile.TemporaryDirectory() as folder:
        train.to_csv(Path(folder, "codes.csv"), index=False)
        Path(folder, "sizes.json").write_text(json.dumps(case.sizes))
        named = [folder, method, str(epsilon), str(DELTA), str(seed), str(Path(__file__).parent) if lean else ""]
        command = [os.environ["INID_BENCH_DPMM"], "-c", PEER, *named]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
        found = json.loads(done.stdout.splitlines()[-1]) | ({"lean": True} if lean else {})
        return case.scores(pd.read_csv(Path(folder, "made.csv")), train, test) | found


def measured(data: str, method: str, epsilon: float, seed: int, *, lean: bool) -> Run | None:
    """One run in a process of its own."""
    fit = "lean" if lean and method in PEERS else "own"
    command = [sys.executable, "-m", "bench.synthetic", "one", data, method, str(epsilon), str(seed), fit]
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    root = Path(__file__).parents[1]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root, env=os.environ | one_thread)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"{data} {method}: skipped, it failed: {last}")
        return None
    facts = {"date": datetime.now(UTC).date().isoformat(), "data": data, "method": method}
    found: Run = {**facts, "epsilon": epsilon, "delta": DELTA, "seed": seed, **json.loads(done.stdout.splitlines()[-1])}
    print(shown(found), flush=True)
    return found


def shown(run: Run) -> str:
    kept = f", {run['kept']} pairs kept, rows worth {run['effective']:.0%}" if "kept" in run else ""
    kept += " (lean fit: seconds do not count)" if "lean" in run else ""
    return (
        f"{run['data']:<12} {run['method']:<12} epsilon {run['epsilon']:g} seed {run['seed']}: two-way "
        f"{run['two_way']:.4f}, three-way {run['three_way']:.4f}, AUC {run['auc']:.3f}, {run['cpu_s']:.0f} CPU s, "
        f"{run['peak_mb']:.0f} MB{kept}"
    )


def page(runs: Sequence[Run], command: str) -> None:
    """The runs of one call, and stored ones of peers on the same cases, as a table of results/bench."""
    cases = {(run["data"], run["epsilon"], run["seed"]) for run in runs}
    now = {(run["method"], run["data"], run["epsilon"], run["seed"]) for run in runs}
    earlier = {(run["method"], run["data"], run["epsilon"], run["seed"]): run for run in stored()}
    peers = [run for key, run in earlier.items() if key[0] in PEERS and key[1:] in cases and key not in now]
    runs = sorted([*runs, *peers], key=lambda run: (list(CASES).index(run["data"]), run["epsilon"], run["seed"]))
    with ResultTable(
        "tables-synthetic-rivals",
        f"Synthetic rows beside rivals, delta {DELTA:g}: distances, AUC, seconds and memory",
        ("table", "method", "epsilon, seed", "two-way", "three-way", "AUC", "CPU s", "MB", "date"),
        peers="AIM and MST of dpmm 0.1.9 at their defaults",
        command=command,
    ) as table:
        for run in runs:
            spent = "lean fit" if "lean" in run else f"{run['cpu_s']:.1f}"
            distances = (f"{run['two_way']:.4f}", f"{run['three_way']:.4f}", f"{run['auc']:.3f}")
            which = f"{run['epsilon']:g}, {run['seed']}"
            table.add(run["data"], run["method"], which, *distances, spent, f"{run['peak_mb']:.0f}", run["date"])
        table.note(
            "A lean fit finds the same as the rival's own (`bench/_aim_lean.py`), sooner: its seconds do not count. "
            "google/dpsynth is on no package index, and mbi 2.0 has the inference of AIM and MST "
            "without the mechanisms: neither runs here."
        )


def stored() -> list[Run]:
    return [json.loads(line) for line in STORED.read_text().splitlines()] if STORED.exists() else []


def ratios(runs: Sequence[Run]) -> None:
    """Ours to each peer, over the cases, epsilons and seeds that both have; the last run of each counts."""
    by_case: dict[tuple[Any, ...], dict[str, Run]] = {}
    for run in runs:
        by_case.setdefault((run["data"], run["epsilon"], run["seed"]), {})[run["method"]] = run
    for mine in OURS:
        for other in PEERS:
            both = {case: own for case, own in by_case.items() if mine in own and other in own}
            if not both:
                continue
            found = {
                key: {case: own[mine][key] / own[other][key] for case, own in both.items()}
                for key in ("two_way", "three_way")
            }
            cpu = [own[other]["cpu_s"] / own[mine]["cpu_s"] for own in both.values() if "lean" not in own[other]]
            auc = {case: own[mine]["auc"] - own[other]["auc"] for case, own in both.items()}
            means = {key: float(np.exp(np.mean(np.log(list(own.values()))))) for key, own in found.items()}
            worst = max(found["two_way"], key=lambda case: found["two_way"][case])
            least = min(auc, key=lambda case: auc[case])
            print(
                f"{mine} to {other} of dpmm, {len(both)} pairs of runs: two-way {means['two_way']:.2f} (most "
                f"{found['two_way'][worst]:.2f}, {_case(worst)}), three-way {means['three_way']:.2f} (most "
                f"{max(found['three_way'].values()):.2f}), AUC {np.mean(list(auc.values())):+.3f} on average (least "
                f"{auc[least]:+.3f}, {_case(least)})"
                + (f", CPU 1/{np.exp(np.mean(np.log(cpu))):.0f} over {len(cpu)} of them" if cpu else "")
            )


def _case(case: tuple[Any, ...]) -> str:
    return f"{case[0]} at {case[1]:g}, seed {case[2]}"


def main() -> None:
    """What is named on the command line."""
    named = sys.argv[1:]
    if named[:1] == ["one"]:
        _, data, method, epsilon, seed, fit = named
        run = ours if method in OURS else partial(peer, lean=fit == "lean")
        print(json.dumps(run(data, method, float(epsilon), int(seed))))
        return
    tables = [name for name in named if name in CASES] or list(CASES)
    methods = [name for name in named if name in (*OURS, *PEERS)] or [*OURS, "mst"]
    epsilons = [float(word) for word in named if word.replace(".", "", 1).isdigit()] or [1.0]
    seeds = [int(word.removeprefix("seed=")) for word in named if word.startswith("seed=")] or [1]
    if not os.environ.get("INID_BENCH_DPMM") and set(methods) & set(PEERS):
        print("no peers run: INID_BENCH_DPMM names no Python that has dpmm")
        methods = [name for name in methods if name in OURS]
    cases = list(product(methods, epsilons, tables, seeds))
    if not named and "mst" in methods:
        cases.append(("aim", 1.0, "california", 1))
    runs = []
    for method, epsilon, data, seed in cases:
        run = measured(data, method, epsilon, seed, lean="lean" in named)
        runs += [run] if run else []
        if run and "store" in named:
            with STORED.open("a") as file:
                file.write(json.dumps(run) + "\n")
    if "page" in named:
        page(runs, " ".join(["python -m bench.synthetic", *named]))
    earlier = [run for run in stored() if run["method"] in PEERS or not runs]
    ratios([*earlier, *runs])


if __name__ == "__main__":
    main()
