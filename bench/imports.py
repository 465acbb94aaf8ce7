"""`import inid` against `import numpy, scipy.special`, without which it cannot do: processor time of new processes."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence


def least_times(lines: Sequence[str], rounds: int = 15) -> list[float]:
    """The least processor time, in seconds, of processes that run one line each; they take turns, as the load varies.

    Raises:
        ChildProcessError: A line fails.
    """
    found: list[list[float]] = [[] for _ in lines]
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:  # what is compiled stays there: the first round is not the least
        for _ in range(rounds):
            for times, line in zip(found, lines, strict=True):
                child = subprocess.Popen([sys.executable, "-c", line], env=own | {"PYTHONPYCACHEPREFIX": folder})
                _, status, used = os.wait4(child.pid, 0)
                child.returncode = os.waitstatus_to_exitcode(status)
                if child.returncode:
                    raise ChildProcessError(f"{line!r} failed.")
                times.append(used.ru_utime + used.ru_stime)
    return [min(times) for times in found]


def main() -> None:
    peer, core, tables = least_times(["import numpy, scipy.special", "import inid", "import inid.tables"])
    print(f"import inid: {core / peer:.2f} times import numpy, scipy.special (at most 1.3)")
    print(f"import inid.tables: {tables / peer:.2f} times")


if __name__ == "__main__":
    main()
