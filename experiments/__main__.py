"""Run the experiments, or those named: `python -m experiments figure1 table3`.

A full run writes results/, verdicts.md included; `--fast` writes to out/paper and takes minutes. Both read the records
of earlier runs, and those that lie in results/ are of a full one: what they have is not drawn again. `--fresh` forgets
them and draws everything anew (a full run then takes most of an hour).
"""

import os

# One thread each: contention between BLAS threads has moved timings tenfold.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import argparse
import importlib
import sys
import time
from pathlib import Path

from experiments.datasets import MissingDataError
from experiments.page import NAMES, write_page
from experiments.study import Study

_PROJECT = Path(__file__).resolve().parents[1]


def run_one(name: str, folder: Path, *, fast: bool, synthetic: bool, fresh: bool, quiet: bool = False) -> Study:
    """Run one experiment and leave its files in `folder`/`name`."""
    if fresh:
        (folder / name / "records.jsonl").unlink(missing_ok=True)
    study = Study(name, folder / name, fast=fast, synthetic=synthetic, quiet=quiet)
    start = time.monotonic()
    study.finish(importlib.import_module(f"experiments.{name}").run(study))
    if not quiet:
        runs = f"{study.made} new runs, {study.read} read from records"
        print(f"{name}: done in {time.monotonic() - start:.0f} s, {runs}, {folder / name}", flush=True)
    return study


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="experiment", help=f"any of {', '.join(NAMES)}; all by default")
    parser.add_argument("--fast", action="store_true", help="fewer runs, coarser grids; writes to out/paper")
    parser.add_argument("--synthetic", action="store_true", help="stand-ins instead of the datasets; needs --fast")
    parser.add_argument("--fresh", action="store_true", help="forget earlier records and draw everything anew")
    parser.add_argument("--out", type=Path, help="where the results go")
    parser.add_argument("--page", type=Path, help="where the page goes")
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in NAMES]
    if unknown:
        parser.error(f"unknown experiment {unknown[0]!r}: choose from {', '.join(NAMES)}")
    if chosen.synthetic and not chosen.fast:
        parser.error("--synthetic needs --fast: results on stand-ins must not take the place of real ones")
    folder = chosen.out or (_PROJECT / "out" / "paper" if chosen.fast else _PROJECT / "results")
    page = chosen.page or folder / "verdicts.md"
    missing = []
    for name in chosen.names or NAMES:
        try:
            run_one(name, folder, fast=chosen.fast, synthetic=chosen.synthetic, fresh=chosen.fresh)
        except MissingDataError as error:
            print(f"{name}: left out. {error}", file=sys.stderr)
            missing.append(name)
    write_page(folder, page)
    print(f"the page: {page}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
