"""What stands around a private estimator and reads the data without noise: found and named.

A promise covers what is released. A step that learns from the rows (means, categories, components) and passes what it
learned to a private estimator releases it without noise; so does a wrapper that chooses, calibrates or stacks by exact
scores, and one that repeats rows puts a person into one fit several times. So everything of scikit-learn that a fit is
called by is examined: it must be private, or learn nothing from values *and* treat rows one by one.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import VotingClassifier, VotingRegressor
from sklearn.feature_selection import RFE, RFECV, SelectFromModel
from sklearn.impute import SimpleImputer
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, OneHotEncoder, OrdinalEncoder, PolynomialFeatures
from sklearn.utils import get_tags

from inid.accounting import Ledger
from inid.errors import ArgumentError

# Containers that learn nothing themselves, and their parts. Each fits a part to all rows once, and uses nothing of the
# data but what the parts release. RFE chooses columns by released coefficients; RFECV, a subclass, by exact scores.
_PARTS: dict[type, Callable[[Any], list[Any]]] = {
    Pipeline: lambda container: [step for _, step in container.steps],
    FeatureUnion: lambda container: [step for _, step in container.transformer_list],
    ColumnTransformer: lambda container: [*(step for _, step, _ in container.transformers), container.remainder],
    TransformedTargetRegressor: lambda container: [
        FunctionTransformer(container.func, container.inverse_func)
        if container.transformer is None
        else container.transformer,
        container.regressor,
    ],
    **dict.fromkeys((VotingRegressor, VotingClassifier), lambda container: [step for _, step in container.estimators]),
    **dict.fromkeys(
        (MultiOutputRegressor, MultiOutputClassifier, OneVsRestClassifier, SelectFromModel, RFE,
         FixedThresholdClassifier), lambda container: [container.estimator],
    ),
}  # fmt: skip
# These read the set of labels from y: no more than an estimator without `classes`, whose labels are public, does.
_LABEL_READERS = (VotingClassifier, MultiOutputClassifier, OneVsRestClassifier)
_FITS = ("fit", "fit_transform", "fit_predict", "partial_fit")


class NotPrivateStepWarning(UserWarning):
    """Something around a private estimator, a step of its pipeline or a wrapper, reads the data without noise."""


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
    """The names of what learns from rows, or mixes them, in a step; of containers' parts, too."""
    if step is None or isinstance(step, str) or getattr(step, "_is_private", False):
        return
    parts = parts_of(step)
    if parts is None:
        if hasattr(step, "fit") and not _learns_nothing(step):
            yield type(step).__name__
        return
    if isinstance(step, _LABEL_READERS) and any(getattr(part, "classes", None) is not None for part in parts):
        yield type(step).__name__
    for part in parts:
        yield from readers_of(part)


def parts_of(container: Any) -> list[Any] | None:
    """The parts of a container that learns nothing itself, None of anything else."""
    if isinstance(container, RFECV):
        return None
    return next((parts(container) for kind, parts in _PARTS.items() if isinstance(container, kind)), None)


def _learns_nothing(step: Any) -> bool:
    """Whether a step of scikit-learn's learns nothing from values, and treats each row by itself.

    NaN and infinities make many raise before the charge: where there may be any, a step that clips belongs before it.
    """
    if isinstance(step, FunctionTransformer):  # a ufunc works entry by entry; of any other function its user knows
        return all(one is None or isinstance(one, (np.ufunc, row_wise)) for one in (step.func, step.inverse_func))
    if isinstance(step, PolynomialFeatures):
        return True
    if isinstance(step, Normalizer):  # the last bit of a row's norm depends on the rows beside it
        return False
    if isinstance(step, (OneHotEncoder, OrdinalEncoder)):
        keeps_all = step.min_frequency is None and step.max_categories is None
        return not isinstance(step.categories, str) and step.handle_unknown not in {"error", "warn"} and keeps_all
    if isinstance(step, SimpleImputer):
        return step.strategy == "constant" and step.fill_value is not None and not step.add_indicator
    return not get_tags(step).requires_fit


def readers_around(estimator: Any, *, fitting: bool = False) -> list[str]:
    """The names of what reads the data without noise around the fit, or the cloning, of a private estimator.

    scikit-learn does not tell an estimator what it is part of, so every estimator among the callers is examined, up to
    another private one, which has examined those beyond it. With `fitting` only those in whose own `fit` the call is:
    a wrapper of a fitted model (`cv="prefit"`, `FrozenEstimator`) learns from its predictions.
    """
    frame, readers = sys._getframe(1), dict[str, None]()  # noqa: SLF001 - no other way is offered
    while frame.f_back is not None:
        frame = frame.f_back
        if fitting and frame.f_code.co_name not in _FITS:
            continue
        caller = frame.f_locals.get("self") if "self" in frame.f_code.co_varnames else None
        if caller is estimator or not isinstance(caller, BaseEstimator):
            continue
        if getattr(caller, "_is_private", False):
            break
        readers |= dict.fromkeys(readers_of(caller))
    return [*readers]


def refuse_to_send_ledgers() -> None:
    """Refuse a search or an ensemble among the callers that is about to send a ledger to other processes.

    It clones what it fits in this process, or asks for its tags, before anything is fitted: nothing was charged yet. A
    ledger that is sent ends in an error of joblib's own, which does not say what to do.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - no other way is offered
    while frame.f_back is not None:
        frame = frame.f_back
        # A generator of tasks also runs in threads of joblib, later, where the caller's choice of backend is not seen.
        if frame.f_globals.get("__name__", "").partition(".")[0] != "sklearn" or frame.f_code.co_name == "<genexpr>":
            continue
        local = frame.f_locals
        jobs = local.get("n_jobs", getattr(local.get("self"), "n_jobs", None))
        if isinstance(jobs, int) and effective_n_jobs(jobs) > 1 and any(map(_has_ledger, local.values())):
            if getattr(get_active_backend()[0], "supports_sharedmem", False):
                return
            raise ArgumentError(
                f"n_jobs={jobs} would send the ledger to other processes, and it stays in this one; nothing was "
                'charged: leave out n_jobs, or fit inside `with joblib.parallel_config(backend="threading"):`.'
            )


def _has_ledger(value: object) -> bool:
    """Whether a keyword argument of a fit is a ledger; they come in mappings, by steps and methods."""
    if isinstance(value, Mapping):
        return any(map(_has_ledger, value.values()))
    return isinstance(value, Ledger)


def warn_of_readers(readers: list[str], stacklevel: int) -> None:
    """Warn of what reads the data without noise around a private estimator; levels are counted from the caller."""
    if readers:
        verb = "reads" if len(readers) == 1 else "read"
        warnings.warn(
            f"{', '.join(readers)} around this private estimator {verb} the data without noise, so no promise covers "
            "the result: use what inid.learn has (BoundsScaler, PublicCategories, PrivateStandardScaler, "
            "PrivateSearchCV), fit it on public data beforehand, or declare a function that treats rows one by one by "
            "learn.row_wise.",
            NotPrivateStepWarning,
            stacklevel=stacklevel + 1,
        )
