"""What a fitted estimator promises, what it spent on what, and how exact that made it."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn import linear_model
from sklearn.base import clone, is_classifier
from sklearn.naive_bayes import GaussianNB

from inid.arguments import Floats
from inid.errors import ArgumentError
from inid.learn.lost_in_noise import doubt_of
from inid.planning import NoisePlan

__all__ = ["fit_report"]

_SHOWN = 12


def fit_report(model: Any, X: Any = None, y: Any = None) -> str:
    """The report of a fitted estimator as text; with rows that may be looked at, its score beside a plain fit's."""
    plan: NoisePlan = model.plan_
    lines = [
        f"{type(model).__name__}, fitted under {plan.budget}"
        + ("" if model.private_ else " - NOT PRIVATE: made by a test source"),
        f"  neighbours: {plan.sensitivity.neighbours}; noise: {plan.mechanism}; {plan.dimension} numbers released",
        "  spent on:",
    ]
    lines += [f"    {name:<28} {share:6.1%}" for name, share in _spent(model, plan)]
    lines += [*_errors(model, plan)]
    doubt = doubt_of(model)
    lines += [f"  NOISY: {doubt}"] * (doubt is not None)
    if X is not None:
        lines += [*_scores(model, X, y)]
    return "\n".join(lines)


def _blocks(model: Any, plan: NoisePlan) -> list[tuple[str, slice]]:
    """The parts of the release by name."""
    columns = model.n_features_in_
    if hasattr(model, "equations_"):
        outputs = model.equations_.outputs
        width = columns + outputs
        products = width * (width + 1) // 2
        first = model.equations_.moments.first is not None
        named = [("products of columns", products)] + [
            ("means of columns", columns),
            ("means of targets", outputs),
        ] * first
        if plan.dimension >= products + 3 * width:  # after the number of rows, where it is released
            secret = model.equations_.moments.rows_spread > 0
            named += [("the number of rows", 1)] * secret + [("a first look at columns", 2 * width)]
    elif hasattr(model, "second_moment_") or hasattr(model, "components_"):
        products = columns * (columns + 1) // 2
        named = [("products of columns", products), ("means of columns", columns)]
    elif hasattr(model, "scale_"):
        named = [("means of columns", columns), ("squares of columns", columns)]
    else:
        return []
    found, at = [], 0
    for name, count in named:
        if at + count <= plan.dimension:
            found.append((name, slice(at, at + count)))
            at += count
    return found + ([("the number of rows", slice(at, at + 1))] if plan.dimension > at else [])


def _spent(model: Any, plan: NoisePlan) -> list[tuple[str, float]]:
    blocks = _blocks(model, plan)
    if not blocks:
        what = {
            "theta_": "sums, squares and counts of classes",
            "cluster_centers_": "sums and counts, all rounds",
            "statistics_": "medians of columns",
            "quantiles_": "quantiles of columns",
        }
        return [(next((word for name, word in what.items() if hasattr(model, name)), "all steps of the descent"), 1.0)]
    shares = plan.shares
    return [(name, float(shares[part].sum() / shares.sum())) for name, part in blocks]


def _errors(model: Any, plan: NoisePlan) -> Iterator[str]:
    """The expected size of the noise in each moment, as means over the rows, beside the public size of its column."""
    blocks = _blocks(model, plan)
    if not blocks or model.release_ is None:
        return
    rows = _rows(model)
    spread = plan.scales * (math.sqrt(2 / math.pi) if plan.mechanism == "gaussian" else 1.0) / rows
    own = hasattr(model, "second_moment_") or hasattr(model, "components_")  # noise is planned in the columns' units
    units = "the columns' own units" if own else "units in which bounds are -1 and 1"
    yield f"  expected error of each, as a mean over {rows:,.0f} rows, in {units}:"
    for name, part in blocks:
        values = spread[part]
        if name == "the number of rows":
            yield f"    {name:<28} {values[0] * rows:.3g} rows"
        elif name == "means of columns" and len(values) <= _SHOWN:
            names = getattr(model, "feature_names_in_", [f"x{at}" for at in range(len(values))])
            yield from (f"    mean of {one!s:<20} {value:.3g}" for one, value in zip(names, values, strict=True))
        else:
            yield f"    {name:<28} {_range(values)}"


def _range(values: Floats) -> str:
    low, high = float(values.min()), float(values.max())
    return f"{low:.3g}" if math.isclose(low, high, rel_tol=0.01) else f"{low:.3g} to {high:.3g}"


def _rows(model: Any) -> float:
    moments = getattr(model, "equations_", None)
    return float(moments.moments.rows if moments is not None else model.n_rows_)


def _scores(model: Any, X: Any, y: Any) -> Iterator[str]:
    """The model's score on every other row, beside that of its namesake, fitted to the rest."""
    if y is None or not hasattr(model, "score"):
        raise ArgumentError("a report compares regressors and classifiers: pass X and y, of public or paid-for rows.")
    data, target = np.asarray(X, dtype=np.float64), np.asarray(y)
    plain = _namesake(model)
    if plain is None:
        raise ArgumentError(f"{type(model).__name__} has no namesake in scikit-learn to compare with.")
    plain.fit(data[::2], target[::2])
    logarithmic = isinstance(plain, linear_model.PoissonRegressor | linear_model.GammaRegressor)
    word = "accuracy" if is_classifier(model) else "D^2" if logarithmic else "R^2"
    half = X.iloc[1::2] if hasattr(X, "iloc") else data[1::2]
    yield f"  {word} on {len(target[1::2]):,} of the rows passed (which were not paid for here):"
    yield f"    this model                   {model.score(half, target[1::2]):.3f}"
    yield f"    scikit-learn, on the others  {plain.score(data[1::2], target[1::2]):.3f}"


def _namesake(model: Any) -> Any:
    """scikit-learn's estimator with the same penalties, or weak ones where they are left to the public units."""
    kinds: dict[str, tuple[Any, Sequence[str]]] = {
        "PrivateLinearRegression": (linear_model.LinearRegression(), ()),
        "PrivateRidge": (linear_model.Ridge(), ("alpha",)),
        "PrivateLasso": (linear_model.Lasso(), ("alpha",)),
        "PrivateElasticNet": (linear_model.ElasticNet(), ("alpha", "l1_ratio")),
        "PrivateLogisticRegression": (linear_model.LogisticRegression(max_iter=10_000), ("C",)),
        "PrivatePoissonRegressor": (linear_model.PoissonRegressor(max_iter=10_000), ("alpha",)),
        "PrivateGammaRegressor": (linear_model.GammaRegressor(max_iter=10_000), ("alpha",)),
        "PrivateGaussianNB": (GaussianNB(), ()),
    }
    if type(model).__name__ not in kinds:
        return None
    plain, same = kinds[type(model).__name__]
    weak = {"alpha": 1e-3, "C": 10.0}  # in the columns' own units, beside penalties in public ones
    stated = {name: getattr(model, name) for name in same}
    return clone(plain).set_params(**{name: weak[name] if value is None else value for name, value in stated.items()})
