"""Verify the records that come in, and print records of one's own: run with a processor's features switched off."""

import json
import os
import subprocess
import sys

import recorded_tables as asked
from inid import tables

__all__ = ["elsewhere", "made_records"]


def made_records():
    """One record of each kind, with Gaussian and with Laplace noise."""
    data = asked.in_engine("pandas", None)
    queries = [asked.question_of(kind, data, "add_remove", people=False) for kind in asked.KINDS]
    promises = [asked.PROMISES[name] for name in ("gaussian", "pure")]
    return [query.release(query.plan(promise)).to_dict() for query in queries for promise in promises]


def elsewhere(records):
    """What a process with the plainest kernels of NumPy and BLAS makes of records, and records of its own."""
    from numpy._core import _multiarray_umath as umath

    plain = {"NPY_DISABLE_CPU_FEATURES": " ".join(umath.__cpu_dispatch__), "OPENBLAS_CORETYPE": "Prescott"}
    done = subprocess.run(
        [sys.executable, __file__],
        input=json.dumps(records),
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | plain,
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


if __name__ == "__main__":
    promises = [tables.verify_result(record).promise for record in json.load(sys.stdin)]
    json.dump({"verified": promises, "records": made_records()}, sys.stdout)
