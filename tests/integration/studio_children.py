"""`inid`, but a process that has charged a ledger is killed before it answers."""

import os
import signal

from inid.cli import main
from inid.jobs import released_job


def _charge_and_die(planned, ledger):
    ledger.charge(planned.summary.noise, label=planned.job.ledger.label)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    released_job._publish = _charge_and_die
    main()
