"""Memory that comes and goes stays with the process: glibc does not map and unmap it anew."""

import os
import subprocess
import sys

from needs import needs

MAPPED = """
import ctypes, sys
import torch
from inid.dpsgd import retain_malloc
class Facts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd a b c d e".split()]
asked = ctypes.CDLL(None).mallinfo2
asked.restype = Facts
if sys.argv[1] == "kept":
    retain_malloc()
before = asked().hblks
held = torch.empty(2**25 - 2**17, dtype=torch.uint8)  # just below: glibc learns from whatever was freed before
print(asked().hblks - before)
"""


def mapped(how: str) -> int:
    """How many blocks are mapped for one of 32 MB, in a process of its own with glibc as it comes."""
    ways = ("MALLOC_", "GLIBC_", "LD_PRELOAD")
    settings = {name: value for name, value in os.environ.items() if not name.startswith(ways)}
    done = subprocess.run([sys.executable, "-c", MAPPED, how], env=settings, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_memory_that_comes_and_goes_is_taken_from_what_is_kept() -> None:
    """Accepts: blocks of this size come from the heap. Rejects: a process that was not told maps each of them."""
    needs("glibc")
    assert mapped("kept") == 0
    assert mapped("not") == 1
