"""Seeded runs see what is drawn on the host, by whichever generator, and spend nothing of the user's."""

import random

import numpy as np
import pytest
import torch

from inid.dpsgd.seeding import seeded

DRAWS = {
    "python": random.random,
    "numpy": lambda: float(np.random.random()),  # noqa: NPY002 - what models draw from
    "numpy, a whole block": lambda: float(np.random.random(312)[0]),  # noqa: NPY002 - the place in the block is the same
    "numpy, half a pair": lambda: float(np.random.normal()),  # noqa: NPY002 - the other half is kept
    "torch": lambda: float(torch.rand(())),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_is_seen_and_spends_none_of_the_users(name):
    DRAWS[name]()  # the numbers go on from a place within a block
    with seeded(3) as quiet:
        pass
    with seeded(3) as drawn:
        first = DRAWS[name]()
    with seeded(3):
        assert DRAWS[name]() == first
    assert (quiet, drawn) == ([False], [True])
    random.seed(5), np.random.seed(5), torch.manual_seed(5)  # noqa: NPY002 - as above
    wanted = DRAWS[name]()
    random.seed(5), np.random.seed(5), torch.manual_seed(5)  # noqa: NPY002 - as above
    with seeded(3):
        DRAWS[name]()
    assert DRAWS[name]() == wanted
