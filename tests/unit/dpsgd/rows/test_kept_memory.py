"""Memory that comes and goes stays with the process: glibc does not map and unmap it anew."""

import os
import platform
import subprocess
import sys

import pytest

MAPPED = """
import ctypes, sys
import torch
from inid.dpsgd.rows.kept_memory import keep_memory
class Facts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd a b c d e".split()]
asked = ctypes.CDLL(None).mallinfo2
asked.restype = Facts
if sys.argv[1] == "kept":
    keep_memory()
before = asked().hblks
held = torch.empty(20 * 2**20, dtype=torch.uint8)
print(asked().hblks - before)
"""


def mapped(how: str) -> int:
    """How many blocks are mapped for 20 MB, in a process of its own without settings of glibc."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run([sys.executable, "-c", MAPPED, how], env=settings, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or tuple(map(int, platform.libc_ver()[1].split("."))) < (2, 33),
    reason="only glibc learns what to keep, and from 2.33 on says how much is mapped",
)
def test_memory_that_comes_and_goes_is_taken_from_what_is_kept() -> None:
    """Accepts: blocks of this size come from the heap. Rejects: a process that was not told maps each of them."""
    assert mapped("kept") == 0
    assert mapped("not") == 1
