"""No test, and no example of a docstring, writes into the state folder of whoever runs it."""

import atexit
import os
import shutil
import tempfile

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers, and whatever tests start, inherit the folder
    os.environ["INID_STATE"] = tempfile.mkdtemp(prefix="inid-state-")
    atexit.register(shutil.rmtree, os.environ["INID_STATE"], ignore_errors=True)
