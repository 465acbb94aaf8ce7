"""NIST's Collaborative Research Cycle: rows of its National 2019 excerpt, scored by its own tool, sdnist 2.4.

The K-marginal score (0 to 1000, on pairs of columns), the propensity mean square error, the largest and the mean
difference of pair correlations, and the number of rows with an inconsistency, at epsilon 1 and delta 2.2e-7, for ten
demographic columns and for all but INDP. Rows keep the rules of `_nist_facts`, which are public. NIST's published
reports have 976 for AIM and 958 for MST on the ten columns; those runs spent 0.3 of epsilon on preprocessing, where
bins and codes are public here.

    INID_BENCH_SDNIST=sdnist/bin/python python bench/nist.py          # both sets of columns, seed 1
    ... python bench/nist.py ten triples seed=1 seed=2

It was never run on the excerpt, which is in no package: no score of ours is known, only that the steps work on made-up
rows (tests/unit/test_nist_benchmark.py).

The excerpt is not part of the project. It is looked for in INID_DATA: `national/national2019.csv` with its JSON beside
it, and `config.json`, `mappings.json` and `data_dictionary.json` in the folder above, as in sdnist's download
`diverse_communities_data_excerpts`. sdnist pins old versions and lives in an environment of its own, whose Python
INID_BENCH_SDNIST names. What is missing is named, and nothing is scored.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench._nist_facts import CODES, NAME, NUMBERS, NUMBERS_OR_N, TEN, bin_names, coded, rules, written

EPSILON, DELTA = 1.0, 2.2e-7

SCORE = """
import json, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import numpy as np
from sdnist.report.dataset import Dataset  # first: its modules import each other
from sdnist.load import TestDatasetName
from sdnist.metrics.inconsistency import Inconsistencies
from sdnist.metrics.kmarginal import KMarginal
from sdnist.metrics.pearson_correlation import PearsonCorrelationDifference
from sdnist.metrics.propensity import PropensityMSE
from sdnist.utils import SimpleLogger
rows, root, out = map(Path, sys.argv[1:])
data = Dataset(rows, SimpleLogger(), TestDatasetName.national2019, root, False)
marginal = KMarginal(data.d_target_data, data.d_synthetic_data)
propensity = PropensityMSE(data.t_target_data, data.t_synthetic_data, out)
pairs = PearsonCorrelationDifference(data.t_target_data, data.t_synthetic_data, data.config["correlation_features"])
pairs.compute()
apart = np.abs(np.nan_to_num(pairs.pp_corr_diff.to_numpy()))
apart = apart[np.triu_indices(len(apart), 1)]
wrong = Inconsistencies(data.c_synthetic_data, out)
wrong.compute()
found = {one["inconsistency_name"]: one["inconsistency_violations"]
         for part in ("age", "work", "housing") for one in wrong.report_data[part]["inconsistencies"]}
print(json.dumps({"k_marginal": float(marginal.compute_score()), "propensity": float(propensity.compute_score()),
                  "correlation": float(apart.mean()), "largest_correlation": float(apart.max()),
                  "inconsistencies": found}))
"""


def root() -> Path | None:
    """The folder of the excerpts, where the National one and what sdnist reads beside it are there."""
    stated = os.environ.get("INID_DATA")
    for folder in [] if stated is None else [Path(stated), Path(stated) / "diverse_communities_data_excerpts"]:
        wanted = [f"national/{NAME}.csv", f"national/{NAME}.json", "config.json", "mappings.json"]
        if all((folder / name).exists() for name in [*wanted, "data_dictionary.json"]):
            return folder
    return None


def rows_of(frame: pd.DataFrame, seed: int, *, triples: bool | None = None) -> tuple[pd.DataFrame, float]:
    """Made-up rows of the excerpt as it writes them, and CPU seconds."""
    import inid
    from inid import tables
    from inid.testing import unsafe_seed

    start = time.process_time()
    own = coded(frame)
    keys = {name: CODES[name] for name in own if name in CODES}
    keys |= {name: bin_names(name) for name in own if name in NUMBERS_OR_N}
    bins = {name: NUMBERS[name] for name in own if name in NUMBERS}
    table = tables.Table(own, domains=keys, bins=bins, other="drop")
    query = table.synthesize(rules=rules(list(own)), triples=triples)
    with unsafe_seed(seed):
        made = query.release(query.plan(inid.ApproxDP(EPSILON, DELTA))).rows()
    return written(made, np.random.default_rng(seed)), time.process_time() - start


def scores(rows: pd.DataFrame, folder: Path) -> dict[str, Any]:
    """What sdnist says of rows."""
    with tempfile.TemporaryDirectory() as out:
        path = Path(out, "rows.csv")
        rows.to_csv(path, index=False)
        command = [os.environ["INID_BENCH_SDNIST"], "-c", SCORE, str(path), str(folder), out]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


def main() -> None:
    """What is named on the command line."""
    named, folder = sys.argv[1:], root()
    if folder is None:
        print(f"NIST's excerpt was not found: INID_DATA holds no national/{NAME}.csv with the files beside it.")
        return
    if not os.environ.get("INID_BENCH_SDNIST"):
        print("INID_BENCH_SDNIST names no Python that has sdnist 2.4.")
        return
    frame = pd.read_csv(folder / "national" / f"{NAME}.csv", dtype={"PUMA": str, "INDP": str})
    frame = frame.drop(columns=[name for name in frame if name == "INDP" or name.startswith("Unnamed")])
    sets = {"ten": [*TEN], "all": [*frame.columns]}
    for which in [name for name in sets if name in named] or list(sets):
        for seed in [int(word.removeprefix("seed=")) for word in named if word.startswith("seed=")] or [1]:
            rows, seconds = rows_of(frame[sets[which]], seed, triples="triples" in named or None)
            found = scores(rows, folder)
            print(
                f"{which} ({rows.shape[1]} columns), seed {seed}: K-marginal {found['k_marginal']:.0f}, propensity "
                f"{found['propensity']:.4f}, pair correlations off by {found['correlation']:.4f} on average and "
                f"{found['largest_correlation']:.4f} at most, {sum(found['inconsistencies'].values())} rows "
                f"inconsistent, {seconds:.0f} CPU s",
                flush=True,
            )


if __name__ == "__main__":
    main()
