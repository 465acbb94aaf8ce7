"""That a training loop keeps examples apart, from a model's outputs to its loss. Start reading in `graph`.

graph             which losses keep rows apart, seen in the graph of autograd
nodes             what nodes of autograd are called and keep
per_sample_loss   a loss taken row by row, which cannot mix rows
per_example_loss  losses that keep examples apart
output_tracking   what a loop does with outputs, seen at some forwards
loop_checks       what a loop does to the first batches
outside_hooks     hooks that a loop puts on what lies between
backward_calls    backwards are announced before they begin
"""

import importlib

_HOMES = {"PreexistingTensors": "inid.dpsgd.sampling.batch_state"}


def __getattr__(name: str) -> object:
    """Load a module when one of its names is first asked for."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
