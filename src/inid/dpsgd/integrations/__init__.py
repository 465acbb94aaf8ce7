"""Private training in the loops of others: Hugging Face's Trainer and Lightning. Accelerate needs no class of its own.

PrivateTrainer          a Trainer whose loss is taken row by row and whose logs hold epsilon
PrivateLightningModule  a LightningModule likewise
LogEpsilon              a callback of Lightning that logs epsilon, for modules of your own
"""

import importlib

_HOMES = {
    "PrivateTrainer": "inid.dpsgd.integrations.trainer",
    "PrivateLightningModule": "inid.dpsgd.integrations.lightning_module",
    "LogEpsilon": "inid.dpsgd.integrations.lightning_module",
}
__all__ = ["LogEpsilon", "PrivateLightningModule", "PrivateTrainer"]


def __getattr__(name: str) -> object:
    """Load a framework when something of it is first asked for."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
