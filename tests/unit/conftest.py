"""Unit tests run as for a user who has told NumPy to raise on every floating-point condition.

Whether such an error comes may then depend on the data, so none may come.
"""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def numpy_raises():
    with np.errstate(all="raise"):
        yield
