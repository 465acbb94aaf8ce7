"""What the classifiers share: labels, bounds, and the order in which a fit reads them."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY
from typing import Any, Self

from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.learn.base import NoisyEstimator, read_relation
from inid.learn.bounds import Bounds, hold, read_bounds
from inid.learn.encoded_bounds import one_hot_groups
from inid.learn.inputs import Labels, Matrix, read_labels, read_matrix
from inid.learn.lost_in_noise import warn_of_noise
from inid.learn.parameters import estimator
from inid.sets import Neighbours
from inid.tables import Table

__all__ = ["PrivateClassifier"]


@estimator
class PrivateClassifier(ClassifierMixin, NoisyEstimator):  # type: ignore[misc]
    """A classifier of rows within public bounds.

    Args:
        bounds: (lower, upper) of the columns, public: numbers, or lists of one per column; or a pair for each column,
            by name or in a list; or those of `PublicCategories.bounds`. Values outside are clipped, in `fit` and in
            `predict`, and NaN counts as the middle.
        classes: The labels; left out, the set of labels that occur in y is treated as public.
    """

    _: KW_ONLY
    bounds: Bounds | None = None
    classes: Sequence[Any] | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # on the few hundred rows of scikit-learn's checks
        return tags

    def fit(self, X: Any, y: Any, *, ledger: Ledger | None = None) -> Self:
        """Fit the model.

        Args:
            X: One row per person: an array, a data frame or, for models that are sums, an `inid.tables.Table`.
            y: One label per person, in one dimension; with `classes` each is read by itself. Of a table, the name of
                the column of labels.
            ledger: Where the cost is charged, before the data are looked at.

        Raises:
            ArgumentError: A parameter, or the shape of X or y, is malformed.
            BudgetError: The ledger refuses.
        """
        return self._fit(X, y, ledger)

    def _fit(self, X: Any, y: Any, ledger: Ledger | None, **more: Any) -> Self:
        """Read, learn, warn; `more` is what a classifier's own `fit` takes beside."""
        self._start_fit()
        if isinstance(X, Table):
            self._learn_table(X, y, ledger)
        else:
            relation = read_relation(self.neighbours, ledger)
            data = read_matrix(self, X, reset=True, empty=relation == "add_remove")
            labels = read_labels(self, data, y)
            self._held = read_bounds("bounds", self.bounds, data.shape[1], getattr(self, "feature_names_in_", None))
            self._learn(data, labels, relation, ledger, **more)
        self._end_fit(ledger)
        warn_of_noise(self)
        return self

    def _learn_table(self, table: Table, label: Any, ledger: Ledger | None) -> None:  # noqa: ARG002 - for subclasses
        raise ArgumentError(
            f"{type(self).__name__} looks at every row many times, so it takes no Table: pass arrays, or use "
            "PrivateGaussianNB, which needs one query."
        )

    @abstractmethod
    def _learn(self, data: Matrix, labels: Labels, relation: Neighbours, ledger: Ledger | None) -> None:
        """Plan, charge, look, learn."""

    def _rows(self, X: Any) -> Floats:
        """Rows to predict, held to the bounds as those of the fit were."""
        check_is_fitted(self)
        return hold(read_matrix(self, X, reset=False).floats(), *self._held, one_hot_groups(self.bounds))
