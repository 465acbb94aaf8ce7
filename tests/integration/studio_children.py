"""`inid`, but a process that has charged a ledger is killed before it answers."""

import os
import signal

from inid.accounting import Ledger
from inid.cli import main

_charge = Ledger.charge


def _charge_and_die(*charged, **details):
    _charge(*charged, **details)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    Ledger.charge = _charge_and_die
    main()
