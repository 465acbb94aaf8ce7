"""A pipeline of private steps that divide one promise among them."""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import _safe_indexing

from inid.accounting import Ledger
from inid.arguments import real
from inid.errors import ArgumentError, InidError
from inid.learn.base import NoisyEstimator, PrivateEstimator
from inid.learn.bounds import read_budget
from inid.learn.budget_splitting import divisible, split_budget
from inid.learn.not_private_steps import parts_of
from inid.promises import Budget


class PrivatePipeline(Pipeline):  # type: ignore[misc]
    """A scikit-learn pipeline whose `fit` gives one ledger to every step that pays; see `make_private_pipeline`."""

    def fit(self, X: Any, y: Any = None, *, ledger: Ledger | None = None, **params: Any) -> Self:
        """Fit the steps, one after the other, once all of them have been planned on no rows at all."""
        self._keep_names(X)
        self._rehearse(X)
        paying = [leaf for _, step in self.steps for leaf in _paying(step)]
        try:
            for leaf in paying:
                leaf._pays_into = ledger  # noqa: SLF001 - containers clone their parts, and hand no arguments on
            super().fit(X, y, **params)
        finally:
            for leaf in paying:
                leaf._pays_into = None  # noqa: SLF001
        return self

    def _keep_names(self, X: Any) -> None:
        """Let steps hand on the names of columns, where later ones state bounds by name."""
        library = type(X).__module__.partition(".")[0]
        by_name = any(isinstance(getattr(step, "bounds", None), Mapping) for _, step in self.steps[1:])
        if by_name and library in {"pandas", "polars"}:
            for _, step in self.steps[:-1]:
                if hasattr(step, "set_output") and not getattr(step, "sparse_output", False):
                    step.set_output(transform=library)

    def _rehearse(self, X: Any) -> None:
        """Refuse what a later step would refuse before an earlier one pays: parameters, names and numbers of columns.

        A made-up row goes through the steps; those that pay are fitted to no rows. A step of scikit-learn that does not
        take that row ends the rehearsal.
        """
        row = _row_like(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for at, (_, step) in enumerate(self.steps):
                try:
                    row = _rehearsed(step, row, last=at == len(self.steps) - 1)
                except InidError:
                    raise
                except Exception:  # noqa: BLE001 - a step of somebody else's, which the fit will ask again
                    return


def _rehearsed(step: Any, row: Any, *, last: bool) -> Any:
    """What a step makes of a made-up row, fitted to no rows where it pays."""
    if step in (None, "passthrough"):
        return row
    if not isinstance(step, PrivateEstimator):
        if [*_paying(step)]:
            raise TypeError("a container clones its parts, which then count as fitted")
        return Pipeline([("step", step)]).__sklearn_clone__().fit_transform(row)
    copy = type(step)(**step.get_params(deep=False))
    if hasattr(step, "_sklearn_output_config"):
        copy._sklearn_output_config = step._sklearn_output_config  # noqa: SLF001 - what set_output leaves
    if isinstance(copy, NoisyEstimator):
        copy.set_params(neighbours="add_remove")
        if is_classifier(copy) and copy.classes is None:
            copy.set_params(classes=(0, 1))
        copy.fit(_safe_indexing(row, np.arange(0)), np.zeros(0))
    else:
        copy.fit(row, np.ones(1))
    return row if last else copy.transform(row)


def _row_like(X: Any) -> Any:
    """One made-up row with the columns of X: nobody's."""
    if hasattr(X, "columns"):
        return type(X)({name: [1.0] for name in X.columns})
    return np.ones((1, np.shape(X)[1])) if len(np.shape(X)) == 2 else X


def _paying(step: Any) -> Iterator[NoisyEstimator]:
    """The estimators that pay, in a step or in the parts of a container."""
    if isinstance(step, NoisyEstimator):
        yield step
    for part in parts_of(step) or []:
        yield from _paying(part)


def make_private_pipeline(*steps: Any, budget: Budget, share: float = 0.1) -> PrivatePipeline:
    """A pipeline whose steps divide one promise: a share for each step that prepares, the rest for the last that pays.

    Steps that cost nothing (`PublicCategories`, `BoundsScaler`, scikit-learn's that learn nothing) take no part; those
    inside a `ColumnTransformer` or a `FeatureUnion` take theirs. Parts are of mu^2, of epsilon or of rho, whose sums
    hold for steps that depend on earlier ones (E7): an (epsilon, delta) promise becomes mu first. Columns keep their
    names from step to step, so each step may state bounds by name.

    Args:
        steps: Estimators; those that pay are left without a budget.
        budget: The promise of the whole.
        share: The part of the promise of each step that pays but for the last one.

    Raises:
        ArgumentError: No step pays, one has a budget of its own, or the shares leave nothing for the last.

    >>> import inid
    >>> from inid import learn
    >>> model = make_private_pipeline(
    ...     learn.PrivateImputer(bounds=(0, 1)),
    ...     learn.PrivateRidge(bounds=(0, 1), bounds_y=(0, 2)),
    ...     budget=inid.GaussianDP(1.0),
    ... )
    >>> [round(step.budget.mu**2, 6) for _, step in model.steps]
    [0.1, 0.9]
    """
    promise, paying = read_budget(budget), [leaf for step in steps for leaf in _paying(step)]
    if not paying:
        raise ArgumentError("no step of the pipeline pays for anything: make one with a private estimator.")
    for step in paying:
        if step.budget is not None:
            raise ArgumentError(
                f"{type(step).__name__} has a budget of its own: leave it out, the pipeline divides one among all."
            )
    part = real("share", share, above=0, cure="pass the part of each step that prepares, such as 0.1")
    if not part * (len(paying) - 1) < 1:
        raise ArgumentError(f"share must leave something for the last step, got {part:g}: pass 0.1, say.")
    rest: Budget = divisible(promise) if len(paying) > 1 else promise
    for at, step in enumerate(paying[:-1]):
        first, rest = split_budget(rest, part / (1 - at * part))
        step.set_params(budget=first)
    paying[-1].set_params(budget=rest)
    return PrivatePipeline(make_pipeline(*steps).steps)
