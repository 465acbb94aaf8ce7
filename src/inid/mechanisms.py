"""The two kinds of noise."""

from typing import Literal

__all__ = ["Mechanism"]

Mechanism = Literal["gaussian", "laplace"]
