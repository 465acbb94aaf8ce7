"""Steps of a pipeline that read the data without noise: found and named.

A promise covers what is released. A step that learns from the rows (means, categories, components) and gives what it
learned to a private estimator releases it without noise. So each step of the pipeline is looked at, also inside column
transformers and unions: it must be private, or learn nothing from values *and* treat rows one by one.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.utils import get_tags

__all__ = ["NotPrivateStepWarning", "readers_of", "row_wise", "warn_of_readers"]

_CONTAINERS = (Pipeline, ColumnTransformer, FeatureUnion)


class NotPrivateStepWarning(UserWarning):
    """A step of a pipeline reads the data without noise before a private estimator does."""


class row_wise:  # noqa: N801 - used as a decorator
    """Declares that a function treats rows one by one, so that a `FunctionTransformer` of it may precede a fit.

    The declaration is the user's word: what a row becomes must depend on this row alone. `np.log1p` and
    `lambda X: X[:, :2]` do so; `sklearn.preprocessing.scale`, which subtracts the mean of all rows, does not.

    >>> from sklearn.preprocessing import FunctionTransformer
    >>> ratio = row_wise(lambda X: X[:, :1] / X[:, 1:])
    >>> FunctionTransformer(ratio).transform(np.array([[1.0, 4.0]])).tolist()
    [[0.25]]
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function gives."""
        return self.function(*args, **kwargs)


def readers_of(step: Any) -> Iterator[str]:
    """The names of what learns from rows, or mixes them, in a step; those of containers' own steps."""
    if step is None or isinstance(step, str) or getattr(step, "_is_private", False):
        return
    if isinstance(step, _CONTAINERS):
        for part in _parts(step):
            yield from readers_of(part)
    elif hasattr(step, "fit") and not _learns_nothing(step):
        yield type(step).__name__


def _parts(container: Any) -> list[Any]:
    if isinstance(container, Pipeline):
        return [step for _, step in container.steps]
    if isinstance(container, FeatureUnion):
        return [step for _, step in container.transformer_list]
    return [*(step for _, step, _ in container.transformers), container.remainder]


def _learns_nothing(step: Any) -> bool:
    """Whether a step of scikit-learn's learns nothing from values, and treats each row by itself.

    Nor does it raise or warn by finite values. By NaN and infinities many do, before the charge: where there may be
    any, a step of inid's that holds values to bounds belongs before it.
    """
    if isinstance(step, FunctionTransformer):  # a ufunc works entry by entry; of any other function its user knows
        return all(one is None or isinstance(one, (np.ufunc, row_wise)) for one in (step.func, step.inverse_func))
    if isinstance(step, PolynomialFeatures):
        return True
    if isinstance(step, Normalizer):  # the last bit of a row's norm depends on the rows beside it
        return False
    if isinstance(step, (OneHotEncoder, OrdinalEncoder)):
        kept = step.min_frequency is None and step.max_categories is None
        return not isinstance(step.categories, str) and step.handle_unknown not in {"error", "warn"} and kept
    if isinstance(step, SimpleImputer):
        return step.strategy == "constant" and step.fill_value is not None and not step.add_indicator
    return not get_tags(step).requires_fit


def warn_of_readers() -> None:
    """Warn if the fit is part of a pipeline whose other steps learn from the data.

    scikit-learn does not tell a step which pipeline it is in, so the outermost one is looked for among the callers.
    """
    frame, outermost = sys._getframe(2), None  # noqa: SLF001 - no other way is offered
    while frame.f_back is not None:
        frame = frame.f_back
        caller = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames else None
        if isinstance(caller, _CONTAINERS):
            outermost = caller
    readers = [*dict.fromkeys(readers_of(outermost))]
    if readers:
        learn = "learns" if len(readers) == 1 else "learn"
        warnings.warn(
            f"{', '.join(readers)} in this pipeline {learn} from the data without noise, so no promise covers the "
            "pipeline: use steps of inid.learn (BoundsScaler, PublicCategories, PrivateStandardScaler), fit it on "
            "public data beforehand, or declare a function that treats rows one by one by learn.row_wise.",
            NotPrivateStepWarning,
            stacklevel=4,
        )
