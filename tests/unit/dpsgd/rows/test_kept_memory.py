"""Memory that comes and goes stays with the process: pages are not asked for again and again."""

import json
import os
import platform
import subprocess
import sys

import pytest

ROUNDS = """
import ctypes, json, resource, sys
ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # no huge pages: they come with few faults, wherever they come from
import torch
from inid.dpsgd.rows.kept_memory import keep_memory
if sys.argv[1] == "kept":
    keep_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    held = [torch.ones(size, 2**18) for size in (2, 6, 3, 8, 4)]  # 1 MB for each
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(json.dumps([faults() for _ in range(12)][2:]))
"""


def faults(how: str) -> list[int]:
    """Page faults of rounds that take and give back 23 MB, in a process of their own, without settings of glibc."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run([sys.executable, "-c", ROUNDS, how], env=settings, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc gives memory back as it learns")
def test_memory_that_comes_and_goes_stays() -> None:
    """Accepts: no pages come again. Rejects: a process that was not told to keep them takes most of them each time."""
    pages = 23 * 2**20 // 4096
    assert max(faults("kept")) < pages / 50
    assert min(faults("not")) > pages / 4
