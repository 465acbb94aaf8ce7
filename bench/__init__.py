"""Benchmarks: each module prints ratios against a named peer, measured in the same run. Run them by `make bench`."""

import sys
from pathlib import Path

# `internals`, by which tests and benchmarks find what they replace, lies beside the tests.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
