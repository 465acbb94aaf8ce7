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
    is a courtesy, the account is the ledger's.
    """

    def __sklearn_clone__(self) -> Self:
        clone: Self = super().__sklearn_clone__()
        if not hasattr(self, "_fits"):
            self._fits = [0]
        clone._fits = self._fits
        return clone

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True  # mapped to a public value, record by record
        return tags

    def _note_fit(self, ledger: object) -> None:
        """Warn, without a ledger, from the second fit among clones on."""
        fits = getattr(self, "_fits", None)
        if fits is None:
            return
        fits[0] += 1
        if fits[0] > 1 and ledger is None:
            warnings.warn(
                f"{type(self).__name__} and its clones have now been fitted {fits[0]} times; each fit spends its whole "
                "budget again, so a search or a cross-validation spends it once per fit. Pass ledger=... to fit to "
                "keep count, or tune on public data. Scores computed from private data carry no noise: no promise "
                "covers them, nor the choice that they make.",
                RepeatedSpendingWarning,
                stacklevel=3,
            )
