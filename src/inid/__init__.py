"""Differential privacy with noise that is not identical across coordinates.

One idea runs through the library: a sensitivity set and a promise make a plan; a plan makes a release.

>>> import inid
>>> s = inid.Sensitivity.box([1.0, 3.0, 40.0], labels=["age", "visits", "income"])
>>> p = inid.plan(s, inid.ApproxDP(epsilon=1.0, delta=1e-6))
>>> p.mechanism
'staircase'

`inid.tables`, `inid.learn`, `inid.dpsgd` and `inid.testing` are loaded when they are first used.
"""

import importlib
from typing import TYPE_CHECKING

from inid._version import __version__
from inid.accounting import Composition, Ledger, compose, subsample, verify_record
from inid.errors import (
    ArgumentError,
    BudgetError,
    GuaranteeError,
    InidError,
    MissingExtraError,
    RangeError,
    RecordError,
)
from inid.planning import AccuracyPlan, Certificate, Comparison, NoisePlan, plan, plan_for_accuracy
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP, RenyiDP
from inid.releasing import Release, release
from inid.sets import Sensitivity, disparity, gini, majorizes, mse_reduction

if TYPE_CHECKING:
    from types import ModuleType

    from inid import dpsgd, learn, tables, testing

__all__ = [
    "ZCDP",
    "AccuracyPlan",
    "ApproxDP",
    "ArgumentError",
    "Budget",
    "BudgetError",
    "Certificate",
    "Comparison",
    "Composition",
    "GaussianDP",
    "GuaranteeError",
    "InidError",
    "Ledger",
    "MissingExtraError",
    "NoisePlan",
    "PureDP",
    "RangeError",
    "RecordError",
    "Release",
    "RenyiDP",
    "Sensitivity",
    "__version__",
    "compose",
    "disparity",
    "dpsgd",
    "gini",
    "learn",
    "majorizes",
    "mse_reduction",
    "plan",
    "plan_for_accuracy",
    "release",
    "subsample",
    "tables",
    "testing",
    "verify_record",
]

_PACKAGES = ("dpsgd", "learn", "tables", "testing")  # each needs an extra, or is for tests


def __getattr__(name: str) -> "ModuleType":
    """Load a package of the library when it is first named, so that `import inid` stays light."""
    if name in _PACKAGES:
        return importlib.import_module(f"inid.{name}")
    raise AttributeError(f"module 'inid' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
