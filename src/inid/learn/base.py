"""What the estimators share: scikit-learn's manners, and a warning when a search spends the budget again and again."""

import warnings
from typing import Any, Self

from sklearn.base import BaseEstimator

__all__ = ["PrivateEstimator", "RepeatedSpendingWarning"]


class RepeatedSpendingWarning(UserWarning):
    """Several clones of one estimator were fitted without a ledger: each fit has spent the whole budget again."""


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the private estimators.

    There is no `random_state`: noise comes from the operating system and must not repeat. Clones of one estimator (as
    made by `GridSearchCV` and `cross_val_score`) count their fits together, to warn of what a search costs; the count
    is a courtesy, the account is the ledger's. A clone that is sent to another process counts as fitted: it will be,
    where nobody here sees it.
    """

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        if not hasattr(self, "_fits"):
            self._fits = [0]
        clone._fits = self._fits
        self._cloned = True
        return clone

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True  # mapped to a public value, record by record
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        # A search sends what it has cloned from along with each clone, and a cache looks at a clone more than once.
        if not (self._found() or getattr(self, "_cloned", False) or getattr(self, "_sent", False)):
            self._sent = self._count(ledger=None, stacklevel=3)
        return {name: value for name, value in state.items() if name not in ("_fits", "_cloned", "_sent")}

    def _forget(self) -> None:
        """Drop what an earlier fit found, so that nothing of it passes for a result of the next."""
        for name in self._found():
            delattr(self, name)

    def _found(self) -> list[str]:
        """The names of the results of a fit, by scikit-learn's convention."""
        return [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]

    def _note_fit(self, ledger: object) -> None:
        """Count a fit, unless it was counted when a copy was sent elsewhere: a cache may send one and fit here."""
        if not getattr(self, "_sent", False):
            self._count(ledger, stacklevel=4)
        self._sent = False

    def _count(self, ledger: object, *, stacklevel: int) -> bool:
        """Warn, without a ledger, from the second fit among clones on; False if there are no clones to count with."""
        fits = getattr(self, "_fits", None)
        if fits is None:
            return False
        fits[0] += 1
        if fits[0] > 1 and ledger is None:
            warnings.warn(
                f"{type(self).__name__} and its clones have now been fitted, or sent to other processes to be fitted, "
                f"{fits[0]} times; each fit spends its whole budget again, so a search or a cross-validation spends it "
                "once per fit. Pass ledger=... to fit to keep count, or tune on public data. (A ledger stays in its "
                'process: leave n_jobs at 1, or use threads, with joblib.parallel_config(backend="threading").) Scores '
                "computed from private data carry no noise: no promise covers them, nor the choice that they make.",
                RepeatedSpendingWarning,
                stacklevel=stacklevel,
            )
        return True
