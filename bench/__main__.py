"""Run every benchmark, or those named on the command line: `python -m bench planning noise`."""

import importlib
import os
import sys
from pathlib import Path

# One thread each: contention between BLAS threads has moved timings tenfold.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

# Files with a leading underscore are shared parts of benchmarks, not benchmarks.
known = sorted(p.stem for p in Path(__file__).parent.glob("*.py") if not p.stem.startswith("_"))
chosen = sys.argv[1:] or known
unknown = [name for name in chosen if name not in known]
if unknown:
    sys.exit(f"unknown benchmark {unknown[0]!r}: choose from {', '.join(known)}")
for name in chosen:
    print(f"== {name}", flush=True)
    sys.argv = [name]  # options are for a benchmark that is run by itself
    importlib.import_module(f"bench.{name}").main()
