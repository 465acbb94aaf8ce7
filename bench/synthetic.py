"""Synthetic rows beside MST and AIM of dpmm: mean total variation over two-way and three-way tables, and CPU seconds.

Adult and electricity, in public bins, at (1, 1e-9); `python bench/synthetic.py electricity aim` runs one table beside
one peer at its defaults (AIM takes ten minutes or more, MST minutes). Data: INID_DATA, or shared/data beside the
project. dpmm lives in an environment of its own, whose Python INID_BENCH_PYTHON names; without it ours runs alone. The
noise and the rows of ours are seeded, and so is the peer.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import inid
from inid import tables
from inid.testing import unsafe_seed

DATA = Path(os.environ.get("INID_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
BUDGET, SEED = inid.ApproxDP(1.0, 1e-9), 1
BINS: dict[str, dict[str, Any]] = {
    "adult": {
        "age": np.linspace(15, 95, 17).tolist(),
        "education_num": [at + 0.5 for at in range(17)],
        "capital_gain": [0, 1, 2000, 4000, 6000, 8000, 12_000, 20_000, 50_000, 99_999, 100_000],
        "capital_loss": [0, 1, 500, 1000, 1500, 1750, 2000, 2250, 2500, 3000, 5000],
        "hours_per_week": np.linspace(0, 100, 21).tolist(),
    },
    "electricity": {
        "date": np.linspace(0, 1, 17).tolist(),
        "period": np.linspace(0, 1.0001, 25).tolist(),
        "nswprice": np.linspace(0, 0.2, 21).tolist(),
        "vicprice": np.linspace(0, 0.02, 21).tolist(),
        **{name: np.linspace(0, 1, 21).tolist() for name in ("nswdemand", "vicdemand", "transfer")},
    },
}

PEER = """
import sys, json, time
import numpy as np, pandas as pd
from numpy.random import RandomState
from dpmm.models import AIMGM, MSTGM
path, method, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
frame = pd.read_csv(path + "/codes.csv")
facts = dict(epsilon=1.0, delta=1e-9, domain=json.load(open(path + "/sizes.json")), random_state=RandomState(seed))
model = AIMGM(max_model_size=80, n_jobs=1, compress=False, **facts) if method == "aim" else MSTGM(n_jobs=1, **facts)
start = time.process_time()
model.fit(frame)
made = model.generate(len(frame))[list(frame.columns)]
print(time.process_time() - start)
made.to_csv(path + "/made.csv", index=False)
"""


def coded(frame: pd.DataFrame, bins: dict[str, Any], keys: dict[str, list[Any]]) -> pd.DataFrame:
    """The level of each value, column by column."""
    found = {}
    for name in frame.columns:
        if name in bins:
            inner = np.array(bins[name])[1:-1]
            found[name] = np.digitize(frame[name].to_numpy(dtype=float), inner)
        else:
            found[name] = frame[name].map({key: at for at, key in enumerate(keys[name])}).to_numpy()
    return pd.DataFrame(found)


def distance(one: pd.DataFrame, two: pd.DataFrame, sizes: dict[str, int], width: int) -> float:
    """The mean total variation over all tables of so many columns."""
    found = []
    for names in combinations(sizes, width):
        shape = [sizes[name] for name in names]
        shares = [
            np.bincount(np.ravel_multi_index([own[name] for name in names], shape), minlength=int(np.prod(shape)))
            / len(own)
            for own in (one, two)
        ]
        found.append(0.5 * float(np.abs(shares[0] - shares[1]).sum()))
    return float(np.mean(found))


def compared(data: str, peers: list[str]) -> None:
    """One table: ours, then each peer on the same levels."""
    frame = pd.read_csv(DATA / f"{data}.csv.gz")
    if "split" in frame:
        frame = frame[frame["split"] == "train"].drop(columns="split")
    frame = frame[[name for name in frame.columns if name != "fnlwgt"]]
    bins = BINS[data]
    # Keys of public columns; a curator states them from the documentation of the table.
    keys = {name: sorted(frame[name].unique().tolist()) for name in frame.columns if name not in bins}
    sizes = {name: len(bins[name]) - 1 if name in bins else len(keys[name]) for name in frame.columns}
    truth = coded(frame, bins, keys)
    query = tables.Table(frame, domains=keys, bins=bins, other="drop").query(synthetic=list(frame.columns))
    with unsafe_seed(SEED):
        start = time.process_time()
        result = query.release(query.plan(BUDGET))
        rows = result.rows()
    spent = time.process_time() - start
    mine = [distance(truth, coded(rows, bins, keys), sizes, width) for width in (2, 3)]
    print(
        f"{data}: two-way {mine[0]:.4f}, three-way {mine[1]:.4f}, {spent:.0f} CPU s, {len(result.kept)} pairs kept, "
        f"rows worth {result.effective_rows:.0%}"
    )
    python = os.environ.get("INID_BENCH_PYTHON")
    for method in peers if python else []:
        with tempfile.TemporaryDirectory() as folder:
            truth.to_csv(Path(folder, "codes.csv"), index=False)
            Path(folder, "sizes.json").write_text(json.dumps(sizes))
            command = [str(python), "-c", PEER, folder, method, str(SEED)]
            run = subprocess.run(command, capture_output=True, text=True, check=False)
            if run.returncode:
                last = (run.stderr.strip().splitlines() or ["no message"])[-1]
                print(f"  {method}: skipped, it failed: {last}")
                continue
            made, cpu = pd.read_csv(Path(folder, "made.csv")), float(run.stdout.split()[-1])
        theirs = [distance(truth, made, sizes, width) for width in (2, 3)]
        ratios = [one / two for one, two in zip(mine, theirs, strict=True)]
        print(
            f"  {method} of dpmm: {theirs[0]:.4f}, {theirs[1]:.4f}, {cpu:.0f} CPU s; ours has {ratios[0]:.2f} and "
            f"{ratios[1]:.2f} of that, in 1/{cpu / spent:.0f} of its CPU"
        )


def main() -> None:
    """All tables beside MST, or those and the peers that are named."""
    named = sys.argv[1:]
    peers = [name for name in named if name in ("mst", "aim")] or ["mst"]
    for data in [name for name in named if name in BINS] or list(BINS):
        compared(data, peers)


if __name__ == "__main__":
    main()
