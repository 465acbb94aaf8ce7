"""What the estimators share: scikit-learn's conventions, the neighbouring relation, a warning of repeated fits."""

import warnings
from typing import Any, Self

from sklearn.base import BaseEstimator

from inid.accounting import Ledger
from inid.arguments import choice
from inid.sets import Neighbours

__all__ = ["PrivateEstimator", "RepeatedSpendingWarning", "read_relation"]

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


class _Family:
    """Clones of one estimator, and how many fits they have made or will make in other processes."""

    def __init__(self) -> None:
        self.fits = 0

    def count(self, name: str) -> None:
        self.fits += 1
        if self.fits == 2:
            warnings.warn(
                f"{name} and its clones are fitted repeatedly without a ledger: each fit spends its whole budget "
                "again, and the scores of a search are not private. Pass ledger=... to fit to keep count.",
                RepeatedSpendingWarning,
                stacklevel=4,
            )


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the private estimators.

    There is no `random_state`: noise comes from the operating system and must not repeat. Clones of one estimator (as
    made by `GridSearchCV` and `cross_val_score`) count their fits together, to warn once of what a search costs; the
    account is the ledger's. An unfitted clone that is pickled counts as fitted: a search sends it to another process.
    """

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        family: _Family = getattr(self, "_family", None) or _Family()
        self._family = family
        clone._family = family
        return clone

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True  # mapped to a public value, record by record
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if not self._results() and not getattr(self, "_counted", False):
            self._count_fit(None)
            self._counted = True  # a cache pickles what it then fits here
        return {name: value for name, value in state.items() if name not in ("_family", "_counted")}

    def _start_fit(self) -> None:
        """Drop what an earlier fit found, so that nothing of it passes for a result of the next."""
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
        family: _Family | None = getattr(self, "_family", None)
        if family is not None and ledger is None:
            family.count(type(self).__name__)
