"""Parameters of the estimators: a decorator makes dataclasses, completes docstrings and refuses unknown names."""

import difflib
import functools
import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar, cast, dataclass_transform

from inid.arguments import shown
from inid.errors import ArgumentError
from inid.promises import Budget

_PROMISE = "pass budget=inid.ApproxDP(epsilon=1.0, delta=1e-6), a promise"
_NO_BUDGET = "leave it out: a search spends the budget of its estimator, and what learns nothing spends none"
_NOISE = "leave it out: noise must not repeat (inid.testing.unsafe_seed is for tests)"
_EXACT = "leave it out: the model is solved exactly from what was released, or in a number of passes fixed beforehand"
_SERIAL = "leave it out: a fit is one pass of exact sums"
_SEARCH = "leave it out: candidates are compared by released moments, or on held-out rows (holdout=)"
# What scikit-learn and diffprivlib call by a name that does not exist here, and the cure.
_ELSEWHERE = {
    "epsilon": _PROMISE,
    "delta": _PROMISE,
    "accountant": "pass ledger= to fit",
    "random_state": _NOISE,
    "data_norm": "pass bounds=(lower, upper) of the columns, or row_norm= to PrivatePCA",
    "centered": "pass center=False for moments about 0",
    "range_X": "pass bounds=(lower, upper)",
    "bounds_X": "pass bounds=(lower, upper)",
    "max_iter": "leave it out, or pass passes= to a descent (rounds= to k-means): every pass is paid for, so their "
    "number is fixed beforehand",
    "n_iter": "pass passes= to a descent, rounds= to k-means",
    "tol": "leave it out: a fit does not stop by looking at the data; passes= and rounds= fix how long it takes",
    "n_init": "leave it out: the first centres are found from one release, whatever the number of starts",
    "init": "leave it out: the first centres are found from a first round of noisy sums",
    "solver": _EXACT,
    "penalty": "leave it out: the penalty is l2 (PrivateLasso and PrivateElasticNet have l1)",
    "dual": _EXACT,
    "multi_class": "leave it out: more than two classes are fitted one against the rest",
    "intercept_scaling": "leave it out: the intercept is not penalised",
    "l1_ratio": "use PrivateElasticNet",
    "warm_start": "leave it out: every fit is a release of its own",
    "copy_X": "leave it out: the data are never changed",
    "copy": "leave it out: the data are never changed",
    "positive": "leave it out: coefficients have no constraints",
    "precompute": _EXACT,
    "selection": _EXACT,
    "normalize": "leave it out: columns are scaled by their public bounds",
    "with_mean": "leave it out: columns are centred and scaled",
    "with_std": "leave it out: columns are centred and scaled",
    "n_jobs": _SERIAL,
    "verbose": "leave it out, and print(model) after the fit",
    "class_weight": "use PrivateLogisticRegression, which takes it",
    "sample_weight": "pass sample_weight= to fit, and its largest value as max_weight=",
    "priors": "leave it out: the numbers of the classes are released",
    "var_smoothing": "leave it out: variances are held above their noise",
    "algorithm": "leave it out: there is one",
    "svd_solver": "leave it out: there is one",
    "whiten": "divide by the roots of explained_variance_ afterwards",
    "iterated_power": "leave it out: there is one solver",
    "cv": _SEARCH,
    "scoring": "leave it out: candidates are compared by accuracy, or by the squared error within bounds_y",
    "refit": "leave it out: the winner is the model as it was fitted",
    "return_train_score": "leave it out: no score is released",
    "error_score": "leave it out: malformed candidates are refused before anything is spent",
    "param_distributions": "pass param_grid=, lists of values by name",
    "n_quantiles": "pass quantiles=, how many are released",
    "output_distribution": "leave it out: values are mapped to [0, 1]",
    "subsample": "leave it out: every row counts",
    "strategy": "leave it out: missing values become the released median",
    "handle_unknown": 'pass other="ignore" (a row of zeros) or other="category" (one more column)',
    "sparse_output": "leave it out: the columns are dense",
    "drop": "leave it out: models are penalised, and a column for every category costs no more",
    "min_frequency": "leave it out: it would be read from the data",
    "max_categories": "leave it out: it would be read from the data",
    "memory": "leave it out, or build the pipeline with sklearn.pipeline.Pipeline",
}
_Kind = TypeVar("_Kind", bound=type)
_SECTION = re.compile(r"^(Args|Attributes):\n((?:    .*\n|\n)+)", re.MULTILINE)
_ENTRY = re.compile(r"^    (\w+): .*\n(?:        .*\n)*", re.MULTILINE)


@dataclass_transform(eq_default=False)
def estimator(kind: _Kind) -> _Kind:
    """Make an estimator of a class with annotated parameters."""
    made_class: Any = dataclass(eq=False, repr=False)(kind)
    plain = made_class.__init__

    @functools.wraps(plain)
    def read(self: Any, *args: Any, **keywords: Any) -> None:
        for name, value in zip(inspect.signature(plain).parameters, (self, *args), strict=False):
            if isinstance(value, Budget) and name != "budget":
                raise ArgumentError(f"{type(self).__name__} got a promise as {name}: name it, {_PROMISE[5:]}.")
        plain(self, *args, **read_keywords(type(self), keywords))

    # Types are for checkers and documentation; help() is for readers, who are shown names and defaults.
    signature = inspect.signature(plain)
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    read.__signature__ = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)  # type: ignore[attr-defined]
    made_class.__init__ = read
    made_class._stated_doc = kind.__doc__  # noqa: SLF001 - also of parameters that only subclasses have
    made_class.__doc__ = _completed(made_class)
    if "fit" in vars(made_class):
        made_class.fit = _with_cures(made_class.fit)
    return cast("_Kind", made_class)


# What every `fit` says of its arguments, unless its own docstring says something else.
_FIT_ARGS = {
    "X": "    X: One row per person: an array or a data frame.\n",
    "y": "    y: One target or label per person.\n",
    "sample_weight": "    sample_weight: One weight per person; it is clipped to 0 and `max_weight`.\n",
    "ledger": "    ledger: Where the cost is charged, before the data are read.\n",
}
_FIT_RAISES = """Raises:
    ArgumentError: A parameter, or the shape of X or y, is malformed.
    BudgetError: The ledger refuses.
"""


def _with_cures(fit: Any) -> Any:
    """A `fit` that rejects unknown arguments and suggests the fix."""
    signature = inspect.signature(fit)
    known = [*signature.parameters]

    @functools.wraps(fit)
    def read(self: Any, *args: Any, **keywords: Any) -> Any:
        for name in keywords:
            if name not in known:
                raise ArgumentError(_no_such_argument(type(self).__name__, name, known[1:]))
        try:
            signature.bind(self, *args, **keywords)
        except TypeError as error:  # its message has names of arguments, and no values
            raise ArgumentError(f"{type(self).__name__}.fit: {error}; it takes {', '.join(known[1:])}.") from None
        if "ledger" in known and self._pays_into is not None:
            given = keywords.get("ledger")
            keywords["ledger"], self._pays_into = self._pays_into if given is None else given, None
        return fit(self, *args, **keywords)

    if "ledger" in known:
        text = inspect.cleandoc(fit.__doc__ or "") + "\n"
        described = _entries(text, "Args")
        if "y" in known and signature.parameters["y"].default is None:
            described["y"] = "    y: Ignored.\n"
        read.__doc__ = f"{_with_section(text, 'Args', _FIT_ARGS | described, known)}\n{_FIT_RAISES}"
    return read


def _no_such_argument(kind: str, name: str, known: list[str]) -> str:
    cures = {
        "sample_weight": "leave it out: every row counts once here (classifiers and regressors take weights)",
        "sample_weights": "pass sample_weight=, where the estimator takes it",
        "budget": "pass it to the estimator",
        "entry": "leave it out: everybody enters at the first edge, so measure times from each person's own entry",
    }
    cure = cures.get(name, f"it takes {', '.join(known)}")
    return f"{kind}.fit has no argument {shown(name)}: {cure}."


def read_keywords(kind: type, keywords: dict[str, Any]) -> dict[str, Any]:
    """Keywords of an estimator, each of a known name."""
    known = [*inspect.signature(kind).parameters]
    for name in keywords:
        if name not in known:
            raise ArgumentError(_no_such_parameter(kind.__name__, name, known))
    return keywords


def _no_such_parameter(kind: str, name: str, known: list[str]) -> str:
    """One sentence, with the cure."""
    if name in {"budget", "epsilon", "delta"} and "budget" not in known:
        return f"{kind} has no parameter {name}: {_NO_BUDGET}."
    if name in _ELSEWHERE:
        return f"{kind} has no parameter {name}: {_ELSEWHERE[name]}."
    near = difflib.get_close_matches(name, known, 1)
    return f"{kind} has no parameter {shown(name)}" + (
        f": did you mean {near[0]}?" if near else f": it takes {', '.join(known)}."
    )


def _entries(text: str, section: str) -> dict[str, str]:
    """What a docstring says of parameters, or of attributes, by name."""
    bodies = {match[1]: match[2] for match in _SECTION.finditer(text)}
    return {match[1]: match[0] for match in _ENTRY.finditer(bodies.get(section, ""))}


def _completed(kind: type) -> str:
    """The docstring with an entry for each parameter, and for each attribute, that a base documents."""
    text = inspect.cleandoc(kind.__doc__ or "") + "\n"
    for section in ("Args", "Attributes"):
        entries: dict[str, str] = {}
        for base in reversed(kind.__mro__):
            entries |= _entries(inspect.cleandoc(vars(base).get("_stated_doc") or "") + "\n", section)
        text = _with_section(
            text, section, entries, inspect.signature(kind).parameters if section == "Args" else entries
        )
    return text.rstrip() + "\n"


def _with_section(text: str, section: str, entries: dict[str, str], order: Iterable[str]) -> str:
    """A docstring with a section of these entries, in place of its own or before its examples."""
    body = "".join(entries[name] for name in order if name in entries)
    if not body:
        return text
    begun = re.search(rf"^{section}:\n((?:    .*\n|\n)+)", text, re.MULTILINE)
    where = begun or re.search(r"^>>> ", text, re.MULTILINE)
    start, end = (where.start(), begun.end() if begun else where.start()) if where else (len(text), len(text))
    blank = "\n" * (start == len(text) and not text.endswith("\n\n"))
    return f"{text[:start]}{blank}{section}:\n{body}\n{text[end:]}"
