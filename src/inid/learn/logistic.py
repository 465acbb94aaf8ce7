"""PrivateLogisticRegression: l2-regularised logistic regression by private coordinate descent."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from inid.accounting import Ledger
from inid.arguments import Floats, real
from inid.errors import ArgumentError
from inid.learn.base import PrivateClassifier
from inid.learn.curvature import PaidInference, Slopes
from inid.learn.descent.coordinate_descent import Descent
from inid.learn.descent.objective import LogisticLoss, Objective, exponentials
from inid.learn.inputs import Labels, Matrix, product_of, read_class_weights, read_classes, read_sample_weight
from inid.learn.parameters import estimator
from inid.learn.public_units import row_products, row_sums
from inid.learn.significance import without_rows
from inid.sets import Neighbours

_PENALTY = 1.0  # of coefficients in public units, where C is left out


@estimator
class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression under differential privacy, as scikit-learn's: C times the sum of losses, plus |w|^2 / 2.

    More than two classes are fitted one against the rest, in one plan: as many descents as classes, each a round of the
    same sums.

    Args:
        C: The weight of the losses, as scikit-learn's; a smaller one means a larger penalty. None, the default, is a
            penalty in public units: |w|^2 / 2 beside the sum of the losses, w being coefficients of columns in units
            in which their bounds are -1 and 1. (scikit-learn's default is 1, in the columns' own units.)
        classes: The labels, for two of them (negative, positive). Another label counts as none of them: as negative
            where there are two. Left out, the set of labels that occur in y is treated as public.
        clip: C, the bound on the norm that per-record gradients are clipped to, column by column; with units="bounds"
            never above the largest gradient that the bounds allow, which is the default.
        step: tau, the step size in units of 1/M_i.
        weights: "curvature", or None for the paper's improved DP-CD as printed.
        smoothness: M_i, a quarter of the mean square of each column: the fraction of the budget to spend on estimating
            them (columns are then centred at their estimated means, too), "bounds" (their largest), or an array from
            public knowledge.
        class_weight: {label: weight} for every class, public: each row's loss counts as often. ("balanced" would read
            the numbers of the classes from the data.)
        inference: The part of the promise that pays for `inference_`, such as 0.3; None pays for none. Of two classes.
        units: "bounds": columns are scaled by their bounds, and `clip` and `smoothness` are in those units. "data":
            everything is in the user's units, as in the paper.

    Attributes:
        coef_: One row of coefficients for two classes, else one for each class, as scikit-learn's.
        intercept_: As many intercepts.
        smoothness_: The constants used.
        noise_chance_: The chance, about, that noise alone moves the coefficients as far as they are.
        inference_: With `inference`: standard errors, intervals, tests and contrasts, of noise and sampling.

    >>> import inid
    >>> X = np.linspace(-1, 1, 10_000).reshape(10_000, 1)
    >>> model = PrivateLogisticRegression(budget=inid.ApproxDP(5.0, 1e-6), bounds=(-1, 1), classes=(0, 1))
    >>> bool(model.fit(X, (X.ravel() > 0).astype(int)).score(X, X.ravel() > 0) > 0.9)
    True
    """

    C: float | None = None
    _: KW_ONLY
    fit_intercept: bool = True
    passes: int | None = None
    clip: float | None = None
    step: float = 1.0
    weights: Literal["curvature"] | None = "curvature"
    smoothness: Literal["bounds"] | ArrayLike = 0.1
    units: Literal["bounds", "data"] = "bounds"
    class_weight: Mapping[Any, float] | None = None
    max_weight: float | None = None
    inference: float | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, ledger: Ledger | None = None) -> Self:
        """Fit the model.

        Args:
            y: One label per person, in one dimension; with `classes` each is read by itself.
        """
        return self._fit(X, y, ledger, sample_weight=sample_weight)

    def _learn(
        self, data: Matrix, labels: Labels, relation: Neighbours, ledger: Ledger | None, sample_weight: Any = None
    ) -> None:
        weight = 1 / _PENALTY if self.C is None else real("C", self.C, above=0, cure="pass the weight of the losses")
        descent = Descent.of(self, *self._clip_bounds, relation)
        classes = read_classes(self.classes, labels)
        positives = classes if len(classes) > 2 else classes[1:]
        most, weights = read_class_weights(self.class_weight, classes.tolist(), labels, data.shape[0])
        each, given = read_sample_weight(self, data, sample_weight, self.max_weight)
        objective = Objective(
            lambda _: [LogisticLoss(labels.matches(one)) for one in positives],
            lambda _: LogisticLoss.curvature,
            outputs=len(positives),
            l2=lambda _: 1 / (weight * most * each),
            public=self.C is None and self.units == "bounds",
            weights=product_of(weights, given),
            halves=True,
        )
        weighted = weights is not None or given is not None
        paid = PaidInference.of(self, data, relation, ledger, weighted=weighted)
        if paid is not None:
            if len(positives) > 1:
                raise ArgumentError("inference is of two classes: fit one model for each class against the rest.")
            descent = replace(descent, budget=paid.rest)
        result = descent.run(data, objective, ledger).keep(self)
        if len(classes) == 2 and result.far:
            lost = [result.far[0] == 1, result.far[0] == -1]
        else:
            lost = [one == -1 for one in result.far] or [False] * len(classes)
        self._remark = without_rows(classes.tolist(), lost)
        self._remark_bounds(result.preliminary.columns)
        self.classes_, self.coef_, self.intercept_ = classes, result.coefficients, result.intercepts
        if paid is not None:
            solved = np.append(self.coef_[0], self.intercept_[0])

            def slopes(rows: Floats) -> Slopes:
                odds = exponentials(-(row_products(rows, self.coef_[0]) + self.intercept_[0]))
                p = 1 / (1 + odds)
                about = (
                    "Estimated are the coefficients of most likelihood, of columns within their bounds. The model is "
                )
                return Slopes(4 * p * (1 - p), p - labels.matches(classes[1]), 4.0, 0.25, about + "assumed to hold.")

            self.inference_ = paid.release(slopes, solved, solved)

    def decision_function(self, X: Any) -> Floats:
        """The log-odds of the positive class, or of each class against the rest."""
        scores = row_products(self._clipped_rows(X), self.coef_) + self.intercept_
        return np.asarray(scores[:, 0] if len(self.classes_) == 2 else scores)

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class; with more than two, those of one against the rest, scaled to sum to 1."""
        positive = expit(self.decision_function(X))
        if positive.ndim == 1:
            return np.column_stack([1 - positive, positive])
        total = row_sums(positive)[:, None]
        return np.asarray(np.where(total > 0, positive / np.where(total > 0, total, 1.0), 1 / positive.shape[1]))

    def predict_log_proba(self, X: Any) -> Floats:
        """The logarithm of the probability of each class; of one that is 0 to a float, minus infinity."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> Any:
        """The most probable label."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]
