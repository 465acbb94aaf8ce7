"""What a descent minimises: losses of x.w, weights of records, penalties. All but the records is public.

**Weights.** A record of weight w, 0 <= w <= W, counts w / W times: its slope is multiplied by u = w / W in [0, 1]
before it is clipped, so no threshold and no sensitivity grows. The sum of u takes the place of the number of rows; it
moves by at most 1 with one record, under any relation, and is released as one more number. So are the sums of u z and
u z^2 of the first look, which move no further than those of z and z^2. W is stated by the user, and larger weights are
held to it: a weight may be somebody's secret, and no error depends on it.
"""

import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.learn.clipped_gradients import Loss
from inid.learn.inputs import Labels, Matrix, read_target
from inid.planning import NoisePlan
from inid.tables import Table

__all__ = [
    "Descended",
    "Looked",
    "Objective",
    "product_of",
    "read_class_weights",
    "read_sample_weight",
    "refuse_weights_of_tables",
]


@dataclass(frozen=True)
class Looked:
    """What was released before the descent: with a target t in [0, 1], how far up it reaches, and its mean.

    Attributes:
        rows: The number of rows, or the sum of weights, as known.
        mean: The mean of min(t / limit, 1).
        limit: Where t is held to.
    """

    rows: float
    mean: float = 1.0
    limit: float = 1.0


@dataclass(frozen=True)
class Descended:
    """What a descent found, in the user's units: a row of coefficients and an intercept for each output.

    `chance` is that of noise alone to move the coefficients as far, `believed` what they were multiplied by, `looked`
    what was released of the target before.
    """

    coefficients: Floats
    intercepts: Floats
    smoothness: Floats
    plan: NoisePlan
    private: bool
    chance: float
    believed: float
    looked: Looked


@dataclass(frozen=True)
class Objective:
    """The sum of losses and the penalties.

    Attributes:
        losses: Makes one loss for each output, each of which holds its targets, after the charge and the look.
        curvature: The second derivative of the loss that steps are made for, by what was looked at.
        outputs: How many there are.
        l1: The weight of the penalty |w|_1 beside the mean loss.
        l2: The weight of the penalty |w|_2^2 / 2 beside the *sum* of the losses, by what was looked at.
        public: Whether penalties are those of coefficients in public units, and not in the user's.
        target: Reads t in [0, 1], which is looked at first (`target_look`); None for no such look.
        weights: Reads u in [0, 1]; None where all records count alike.
        slope: The largest slope of the loss, by the rows over the noise of one pass; larger ones are clipped.
        halves: Whether slopes are at most a half at the start, as those of a logistic loss are.
    """

    losses: Callable[[Looked], Sequence[Loss]]
    curvature: Callable[[Looked], float]
    outputs: int = 1
    l1: float = 0.0
    l2: Callable[[Looked], float] = lambda _: 0.0
    public: bool = False
    target: Callable[[], Floats] | None = None
    weights: Callable[[], Floats] | None = None
    slope: Callable[[float], float] = lambda _: 1.0
    halves: bool = False

    def made(self, looked: Looked, weights: Floats | None) -> list[Loss]:
        """The losses, weighted."""
        found = self.losses(looked)
        return [*found] if weights is None else [_WeightedLoss(one, weights) for one in found]


class _WeightedLoss:
    """A loss whose records count u times."""

    def __init__(self, loss: Loss, weights: Floats) -> None:
        self.curvature, self._loss, self._weights = loss.curvature, loss, weights

    def start(self) -> Floats:
        """The state at w = 0."""
        return self._loss.start()

    def slopes(self, state: Floats, rows: slice) -> Floats:
        """The derivative of the weighted loss."""
        return np.asarray(self._loss.slopes(state, rows) * self._weights[rows])


def read_sample_weight(
    estimator: Any, data: Matrix, sample_weight: Any, most: object
) -> tuple[float, Callable[[], Floats] | None]:
    """(W, how to read w / W): weights by their type and shape, before the charge.

    Raises:
        ArgumentError: Weights are given and their bound is not, or they are no column of numbers.
    """
    if sample_weight is None:
        return 1.0, None
    if most is None:
        raise ArgumentError(
            "sample_weight needs max_weight, the largest weight that a row may have, which is never read from the "
            "data: pass max_weight= to the estimator; larger weights are held to it."
        )
    bound = real("max_weight", most, above=0, cure="pass the largest weight that a row may have")
    column = np.full(data.shape[0], sample_weight) if isinstance(sample_weight, numbers.Real) else sample_weight
    read = read_target(estimator, data, column, several=False, name="sample_weight").floats

    def weights() -> Floats:
        with np.errstate(all="ignore"):
            return np.asarray(np.nan_to_num(np.clip(read().ravel() / bound, 0.0, 1.0), nan=0.0))

    return bound, weights


def refuse_weights_of_tables(X: Any, sample_weight: Any) -> None:
    """Raise where weights are passed beside a table.

    Raises:
        ArgumentError: They are.
    """
    if isinstance(X, Table) and sample_weight is not None:
        raise ArgumentError("sample_weight is not taken beside a Table, whose engine does the sums: pass arrays.")


def read_class_weights(
    class_weight: object, classes: Sequence[Any], labels: Labels, rows: int
) -> tuple[float, Callable[[], Floats] | None]:
    """(the largest weight, how to read each row's beside it); a row of another label has weight 1 before that.

    Raises:
        ArgumentError: class_weight is no mapping from each class to a positive number.
    """
    if class_weight is None:
        return 1.0, None
    cure = "pass {label: weight} from public knowledge, for every class"
    if not isinstance(class_weight, Mapping) or {*class_weight} != {*classes}:
        raise ArgumentError(
            f"class_weight must map each of the classes to a weight, got {shown(class_weight)}: {cure} "
            '("balanced" would read the numbers of the classes from the data).'
        )
    each = {one: real("class_weight", class_weight[one], above=0, cure=cure) for one in classes}
    most = max(*each.values(), 1.0)

    def weights() -> Floats:
        found = np.ones(rows)
        for one in classes:
            found = np.where(labels.matches(one) > 0, each[one], found)
        return np.asarray(np.clip(found / most, 0.0, 1.0))

    return most, weights


def product_of(one: Callable[[], Floats] | None, two: Callable[[], Floats] | None) -> Callable[[], Floats] | None:
    """How to read the product of two weights, of which either may be left out."""
    if one is None or two is None:
        return one or two
    return lambda: np.asarray(one() * two())
