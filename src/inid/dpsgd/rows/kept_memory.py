"""Memory that every step takes and gives back stays with the process.

The rows of a step are tens of megabytes. glibc hands what is free at the end of its heap back to the system once it is
more than twice the largest block that was mapped and freed so far, and the next step takes the same pages again, one
fault each: of a small network's step on a CPU that was up to a fifth. So a block of nearly the largest size that glibc
learns from is freed once. It is never written, and takes no memory; up to 64 MB that are free stay. Whoever has set
glibc's thresholds keeps them, and where memory comes from elsewhere nothing happens.
"""

import torch

__all__ = ["keep_memory"]

_MOST_LEARNT = 2**25  # bytes: glibc's DEFAULT_MMAP_THRESHOLD_MAX where addresses have 64 bits


def keep_memory() -> None:
    """Let the process keep what a step gives back.

    >>> keep_memory()
    """
    torch.empty(_MOST_LEARNT - 2**16, dtype=torch.uint8, device="cpu")
