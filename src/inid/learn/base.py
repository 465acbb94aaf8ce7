"""What the estimators share: scikit-learn's conventions, the neighbouring relation, a warning of repeated fits."""

import sys
import warnings
from dataclasses import KW_ONLY, is_dataclass
from typing import Any, Literal, Self

from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import choice
from inid.learn.fit_report import fit_report
from inid.learn.not_private_steps import warn_of_readers
from inid.learn.parameters import estimator, read_keywords
from inid.promises import Budget, PureDP
from inid.sets import Neighbours

__all__ = [
    "NoisyEstimator",
    "PrivateEstimator",
    "RepeatedSpendingWarning",
    "read_mechanism",
    "read_relation",
]

_HOSTS = ("inid", "sklearn", "joblib", "contextlib")
_RELATIONS: tuple[Neighbours, ...] = ("zero_out", "add_remove", "replace")


class RepeatedSpendingWarning(UserWarning):
    """Several clones of one estimator were fitted without a ledger: each fit has spent the whole budget again."""


def read_relation(neighbours: object, ledger: Ledger | None) -> Neighbours:
    """The relation of a fit: the one given, else the ledger's, else "zero_out".

    >>> read_relation(None, None), read_relation("replace", None)
    ('zero_out', 'replace')
    """
    if neighbours is None:
        neighbours = getattr(ledger, "neighbours", "zero_out")
        neighbours = neighbours if isinstance(neighbours, str) else "zero_out"  # what is no ledger is refused later
    word = choice("neighbours", neighbours, _RELATIONS)
    return next(one for one in _RELATIONS if one == word)


def read_mechanism(mechanism: object, budget: Budget) -> Literal["gaussian", "laplace"]:
    """The noise of a release of one fixed shape: by default Gaussian, unless the promise is pure.

    >>> read_mechanism("auto", PureDP(1.0)), read_mechanism("gaussian", PureDP(1.0))
    ('laplace', 'gaussian')
    """
    word = choice("mechanism", mechanism, ("auto", "gaussian", "laplace"))
    pure = isinstance(budget, PureDP) if word == "auto" else word == "laplace"
    return "laplace" if pure else "gaussian"


class _Clones:
    """The clones of one object, and how many fits they have made or will make in other processes.

    A search clones its estimator once, and this clone for each fit, so that each search counts its own fits; so does
    each voter of an ensemble, and each estimator that is cross-validated.
    """

    def __init__(self) -> None:
        self.fits = 0

    def count(self, name: str) -> None:
        self.fits += 1
        if self.fits == 2:
            warnings.warn(
                f"{name} and its clones are fitted repeatedly without a ledger: each fit spends its whole budget "
                "again, and the scores of a search are not private. Pass ledger=... to fit to keep count.",
                RepeatedSpendingWarning,
                stacklevel=_user_level(),
            )


def _user_level() -> int:
    """How many callers up the first one stands that is neither of this library nor of scikit-learn and joblib."""
    frame, level = sys._getframe(2), 2  # noqa: SLF001 - as `warnings` itself does it
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in _HOSTS:
        frame, level = frame.f_back, level + 1
    return level


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the private estimators.

    There is no `random_state`: noise comes from the operating system and must not repeat. Clones of one estimator (as
    made by `GridSearchCV` and `cross_val_score`) count their fits together, so each search warns of what it costs; the
    account is the ledger's. An unfitted clone that is pickled counts as fitted: a search sends it to another process.
    """

    _is_private = True  # no step that reads the data without noise

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, as scikit-learn does; an old name warns, one of other libraries gets a cure."""
        own = {name: value for name, value in params.items() if "__" not in name}
        nested = {name: value for name, value in params.items() if "__" in name}
        found: Self = super().set_params(**(read_keywords(type(self), own) if is_dataclass(self) else own), **nested)
        return found

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        clones: _Clones = getattr(self, "_clones", None) or _Clones()
        self._clones = clone._family = clones
        return clone

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True  # mapped to a public value, record by record
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if not self._results() and not getattr(self, "_counted", False):
            self._count_fit(None)
            self._counted = True  # a cache pickles what it then fits here
        return {name: value for name, value in state.items() if name not in ("_clones", "_family", "_counted")}

    def _start_fit(self) -> None:
        """Drop what an earlier fit found, so that nothing of it passes for a result of the next."""
        warn_of_readers()
        for name in self._results():
            delattr(self, name)

    def _end_fit(self, ledger: Ledger | None) -> None:
        """Count a fit, unless it was counted when a copy was pickled."""
        if not getattr(self, "_counted", False):
            self._count_fit(ledger)
        self._counted = False

    def _results(self) -> list[str]:
        """The names of the results of a fit, by scikit-learn's convention."""
        return [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]

    def _count_fit(self, ledger: Ledger | None) -> None:
        family: _Clones | None = getattr(self, "_family", None)
        if family is not None and ledger is None:
            family.count(type(self).__name__)


@estimator
class NoisyEstimator(PrivateEstimator):
    """An estimator that pays for its fit. Its parameters, and those of its subclasses, are dataclass fields.

    Args:
        budget: The promise; there is no default for it.
        neighbours: "zero_out" (one person's row becomes nothing, and the number of rows is public), "add_remove" (the
            number is secret) or "replace"; None takes the ledger's or the table's relation, else "zero_out".
        mechanism: "auto", "gaussian" or "laplace".
        allocation: "optimal", "spr" or "iid".

    Attributes:
        plan_: The noise plan.
        private_: False when a test's source drew the noise.
    """

    _: KW_ONLY
    budget: Budget | None = None
    neighbours: Neighbours | None = None
    mechanism: Literal["auto", "gaussian", "laplace"] = "auto"
    allocation: Literal["optimal", "spr", "iid"] = "optimal"

    def report(self, X: Any = None, y: Any = None) -> str:
        """The promise, what was spent on what, and the expected error of each moment; `print(model)` shows it too.

        Args:
            X: Rows that are public or already paid for, to show the score beside that of scikit-learn's estimator,
                which is fitted to every other row. This looks at them without noise, and nothing is charged.
            y: Their targets or labels.

        Raises:
            ArgumentError: There is nothing to compare with.
        """
        check_is_fitted(self)
        return fit_report(self, X, y)

    def __str__(self) -> str:
        return fit_report(self) if hasattr(self, "plan_") and hasattr(self, "private_") else repr(self)
