"""Several processes of one script that train together over gloo on this machine."""

import os
import subprocess
import sys
from pathlib import Path

import torch

__all__ = ["WORLD", "trained_together"]

WORLD = 2


def trained_together(module, folder, timeout):
    """Run the module's script once per rank; what each rank saved in the folder."""
    script = Path(module.__file__)
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])  # what tests share
    children = [
        subprocess.Popen(
            [sys.executable, str(script), str(folder), str(rank), str(WORLD)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": path},
        )
        for rank in range(WORLD)
    ]
    said = [child.communicate(timeout=timeout)[0] for child in children]
    assert [child.returncode for child in children] == [0] * WORLD, "\n".join(said)
    return [torch.load(folder / f"rank{rank}.pt") for rank in range(WORLD)]
