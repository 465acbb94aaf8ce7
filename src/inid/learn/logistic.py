"""PrivateLogisticRegression: l2-regularised logistic regression by private coordinate descent."""

from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from inid.accounting import Ledger
from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.learn.base import PrivateEstimator
from inid.learn.descent import Descent
from inid.learn.gradients import LogisticLoss
from inid.learn.labels import matches, read_labels, read_matches
from inid.learn.reading import read_matrix

__all__ = ["PrivateLogisticRegression"]


class PrivateLogisticRegression(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Binary logistic regression under differential privacy: mean logistic loss, plus (alpha/2) ||w||_2^2.

    Args:
        alpha: The weight of the penalty; scikit-learn's C is 1 / (alpha * number of rows).
        budget: The promise.
        bounds_X: (lower, upper) of the columns, public; values outside are clipped, NaN counts as the middle.
        classes: (negative, positive), the two labels; any other label counts as negative. Left out, the set of labels
            that occur in y is treated as public, like the number of rows.
        fit_intercept: Whether there is an intercept (not penalised).
        passes: How often every column is visited.
        clip: C, the bound on the norm that per-record gradients are clipped to, column by column.
        step: tau, the step size in units of 1/M_i.
        weights: "curvature", or None for the paper's improved DP-CD as printed.
        smoothness: M_i, a quarter of the mean square of each column: "bounds" (their largest), an array from public
            knowledge, or the fraction of the budget to spend on estimating them.
        neighbours: "add_remove" (a row replaced by zeros; the number of rows is public) or "replace".
        mechanism: "auto" (Gaussian unless the promise is pure), "gaussian" or "laplace".
        allocation: "optimal", "spr" or "iid".

    Attributes:
        coef_: One row of coefficients, as scikit-learn's.
        intercept_: An array of one number.
        classes_: The two labels.
        plan_: The noise plan of the whole descent.
        smoothness_: The constants used.
        private_: False when a test's source drew the noise.

    >>> import inid
    >>> X = np.linspace(-1, 1, 10_000).reshape(10_000, 1)
    >>> model = PrivateLogisticRegression(budget=inid.ApproxDP(5.0, 1e-6), bounds_X=(-1, 1), classes=(0, 1), clip=1.0)
    >>> bool(model.fit(X, (X.ravel() > 0).astype(int)).score(X, X.ravel() > 0) > 0.9)
    True
    """

    def __init__(
        self,
        alpha: float = 1e-4,
        *,
        budget: object = None,
        bounds_X: object = None,
        classes: object = None,
        fit_intercept: bool = False,
        passes: int = 50,
        clip: float = 10.0,
        step: float = 1.0,
        weights: object = "curvature",
        smoothness: object = "bounds",
        neighbours: str = "add_remove",
        mechanism: str = "auto",
        allocation: str = "optimal",
    ) -> None:
        self.alpha = alpha
        self.budget = budget
        self.bounds_X = bounds_X
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.passes = passes
        self.clip = clip
        self.step = step
        self.weights = weights
        self.smoothness = smoothness
        self.neighbours = neighbours
        self.mechanism = mechanism
        self.allocation = allocation

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # on the few hundred rows of scikit-learn's checks
        return tags

    def fit(self, X: Any, y: Any, *, ledger: Ledger | None = None) -> Self:
        """Fit the model.

        Args:
            X: One row per person.
            y: One of two labels per person, in one dimension; with `classes` each is read by itself.
            ledger: Where the cost is charged, before the data are looked at.

        Raises:
            ArgumentError: A parameter, or the shape of X or y, is malformed.
            BudgetError: The ledger refuses.
        """
        self._forget()
        alpha = real("alpha", self.alpha, least=0, cure="pass the weight of the penalty")
        data = read_matrix(self, X, reset=True)
        classes, positive = self._positive(data, y)
        found = Descent.of(self, data.shape[1]).run(data, LogisticLoss(positive), l1=0.0, l2=alpha, ledger=ledger)
        self._note_fit(ledger)
        self.classes_ = classes
        self.coef_, self.intercept_ = found.coefficients[None, :], np.array([found.intercept])
        self.plan_, self.smoothness_, self.private_ = found.plan, found.smoothness, found.private
        return self

    def decision_function(self, X: Any) -> Floats:
        """The log-odds of the positive class."""
        check_is_fitted(self)
        return np.asarray(read_matrix(self, X, reset=False) @ self.coef_[0] + self.intercept_[0])

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each of the two classes."""
        positive = expit(self.decision_function(X))
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> Any:
        """The more probable label."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int)]

    def _positive(self, data: Floats, y: Any) -> tuple[Any, Floats]:
        """(the two classes, 1 for each row of the positive class and 0 for any other)."""
        if self.classes is not None:
            given = np.asarray(self.classes)
            if given.shape != (2,) or given[0] == given[1]:
                raise ArgumentError(
                    f"classes must be two different labels, got {shown(self.classes)}: pass (negative, positive)."
                )
            return given, read_matches(self, data, y, given[1])
        labels = read_labels(self, data, y)
        found = np.unique(labels)
        if len(found) != 2:
            raise ArgumentError(
                "Only binary classification is supported: y must hold two classes, not one class or many; "
                "pass classes=(negative, positive) for the labels to be public."
            )
        return found, matches(labels, found[1])
