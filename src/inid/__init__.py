"""Differential privacy with independent, non-identical noise."""

from inid._version import __version__
from inid.errors import InidError

__all__ = ["InidError", "__version__"]
