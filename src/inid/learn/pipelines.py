"""A pipeline of private steps that divide one promise among them."""

from typing import Any, Self

from sklearn.pipeline import Pipeline, make_pipeline

from inid.accounting import Ledger
from inid.arguments import real
from inid.errors import ArgumentError
from inid.learn.base import NoisyEstimator
from inid.learn.bounds import read_budget
from inid.learn.budget_splitting import divisible, split_budget
from inid.promises import Budget


class PrivatePipeline(Pipeline):  # type: ignore[misc]
    """A scikit-learn pipeline whose `fit` gives one ledger to every step that pays; see `make_private_pipeline`."""

    def fit(self, X: Any, y: Any = None, *, ledger: Ledger | None = None, **params: Any) -> Self:
        """Fit the steps, one after the other."""
        paid = {} if ledger is None else {
            f"{name}__ledger": ledger for name, step in self.steps if isinstance(step, NoisyEstimator)
        }  # fmt: skip
        super().fit(X, y, **paid, **params)
        return self


def make_private_pipeline(*steps: Any, budget: Budget, share: float = 0.1) -> PrivatePipeline:
    """A pipeline whose steps divide one promise: a share for each step that prepares, the rest for the last that pays.

    Steps that cost nothing (`PublicCategories`, `BoundsScaler`, scikit-learn's that learn nothing) take no part. Parts
    are of mu^2, of epsilon or of rho, whose sums hold for steps that depend on earlier ones (E7): an (epsilon, delta)
    promise becomes mu first.

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
    whole, paying = read_budget(budget), [step for step in steps if isinstance(step, NoisyEstimator)]
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
    rest: Budget = divisible(whole) if len(paying) > 1 else whole
    for at, step in enumerate(paying[:-1]):
        first, rest = split_budget(rest, part / (1 - at * part))
        step.set_params(budget=first)
    paying[-1].set_params(budget=rest)
    return PrivatePipeline(make_pipeline(*steps).steps)
