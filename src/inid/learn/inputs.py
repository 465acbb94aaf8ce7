"""Reading arrays: their type and shape before the charge, their values after it.

`read_matrix`, `read_target` and `read_labels` refuse what is no table of numbers by its type and shape; what they
return gives its values when asked, after the charge. No message holds a value of the data, and no error depends on one
(but for labels whose set is public, because no `classes` were given). Entries of a list, or of an array of objects, are
examined for their type alone, and neither a number too large for a float nor a gap is an error.
"""

import math
import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError
from inid.tables import Table

Array = np.ndarray[Any, Any]
_FLOAT = int(np.finfo(np.float64).max)
_MISSING = ("NAType", "NaTType")  # how data frames write a missing entry
_LISTS = ("to_pylist", "tolist", "to_list")  # of PyArrow, pandas and Polars: Python's own objects, never converted
_NAN_FOR_GAPS: dict[str, Any] = {"dtype": np.float64, "na_value": np.nan}


@dataclass(frozen=True)
class Matrix:
    """Numbers of a known type and shape, whose values have not been looked at."""

    shape: tuple[int, int]
    floats: Callable[[], Floats]
    flat: bool = False


@dataclass(frozen=True)
class Labels:
    """One label per row, of which only the type and the number are known.

    Each label is compared by itself, so one person's label says nothing of how another's is read: only a type that the
    container declares is used for all entries at once (NumPy would turn numbers beside text into text), and what cannot
    be compared is another label.
    """

    length: int
    read: Callable[[], Array]

    def matches(self, label: object) -> Floats:
        """1 where a label is the one given, 0 elsewhere, also where the two cannot be compared."""
        labels = self.read()
        with np.errstate(all="ignore"):  # whatever the caller has set, no error may depend on a label
            if labels.dtype.kind != "O":
                return np.asarray(labels == label, dtype=np.float64)
            # Python's own numbers compare exactly; NumPy's would round large integers to floats, and take more time.
            plain = label.item() if isinstance(label, (np.number, np.bool_, np.character)) else label
            return np.fromiter((_same(entry, plain) for entry in labels), dtype=np.float64, count=len(labels))

    def classes(self) -> Array:
        """The labels that occur, for estimators that treat the set of them as public."""
        with np.errstate(all="ignore"):
            labels = self.read()
            if labels.dtype.kind == "O":
                if any(_is_missing(entry) for entry in labels):
                    raise _missing_labels()
                if len({isinstance(entry, (str, bytes)) for entry in labels}) > 1:
                    raise ArgumentError(
                        "y must hold labels of one kind, got text beside something else: convert them, or pass "
                        "classes=, with which labels are compared one by one."
                    )
                labels = np.asarray(labels.tolist())
            elif labels.dtype.kind in "fmM" and (labels != labels).any():  # noqa: PLR0124 - NaN and NaT
                raise _missing_labels()
            check_classification_targets(labels)
            try:
                return np.unique(labels)
            except TypeError:  # labels that cannot be put in order
                raise ArgumentError(
                    "y must hold labels that can be put in order, such as text or whole numbers: pass classes=, with "
                    "which labels of any kind are compared one by one."
                ) from None


def read_matrix(estimator: object, X: Any, *, reset: bool, empty: bool = False) -> Matrix:
    """X by its type and shape; its names and number of columns are remembered (`reset`) or compared."""
    with np.errstate(all="ignore"):
        matrix, names = _matrix("X", X)
    _check_size(matrix.shape, estimator, empty=empty)
    remember_columns(estimator, names, reset=reset)
    return matrix


def read_rows(X: Any, *, empty: bool = False) -> Matrix:
    """X by its type and shape, for functions that remember nothing."""
    with np.errstate(all="ignore"):
        matrix, _ = _matrix("X", X)
    _check_size(matrix.shape, None, empty=empty)
    return matrix


def read_target(estimator: object, X: Matrix, y: Any, *, several: bool = True, name: str = "y") -> Matrix:
    """Y by its type and shape: one entry per row, or `several` in columns."""
    _check_given(estimator, y)
    if hasattr(y, "tocsr"):
        raise ArgumentError(f"{name} is sparse, which is not supported: pass a dense array.")
    with np.errstate(all="ignore"):
        source, read = _numbers(name, y)
    shape = np.shape(source)
    if several and len(shape) == 2 and shape[1] > 0:
        _check_length(X, shape[0], name)
        return Matrix((shape[0], shape[1]), read)
    _check_column(X, shape, name)
    return Matrix((X.shape[0], 1), lambda: read().reshape(-1, 1), flat=True)


def read_column(name: str, values: Any) -> Matrix:
    """One number for each person by type and shape, where there are no other columns."""
    with np.errstate(all="ignore"):
        source, read = _numbers(name, values)
    shape = np.shape(source)
    if len(shape) != 1:
        raise ArgumentError(f"{name} must have one dimension, got shape {shape}: pass one number for each person.")
    return Matrix((shape[0], 1), lambda: read().reshape(-1, 1), flat=True)


def read_labels(estimator: object, X: Matrix, y: Any) -> Labels:
    """Y by its type and length, as labels."""
    _check_given(estimator, y)
    if _is_declared(y):
        shape, read_all = _declared_labels(y)
        _check_column(X, shape)
        return Labels(X.shape[0], read_all)
    names: Any = getattr(y, "column_names", getattr(y, "columns", ()))
    if len(names) == 1:  # a data frame of one column
        return read_labels(estimator, X, y[names[0]])
    read = entries(y)
    _check_column(X, (len(y),))
    return Labels(X.shape[0], lambda: np.fromiter(read(), dtype=object, count=len(y)))


def read_classes(classes: Sequence[Any] | None, labels: Labels | None = None) -> Array:
    """The classes: as given, or those that occur, which are then public."""
    if classes is not None:
        given = np.asarray(classes)
        if given.ndim != 1 or len(given) < 2 or len({*given.tolist()}) < len(given):
            raise ArgumentError(
                f"classes must be two or more different labels, got {shown(classes)}: pass (negative, positive), or "
                "all of them."
            )
        return given
    values = np.empty(0) if labels is None else labels.classes()
    if len(values) < 2:
        raise ArgumentError(
            "y must hold two classes or more, not one class: pass classes=(negative, positive) for the labels to be "
            "public."
        )
    return values


def _declared_labels(y: Any) -> tuple[tuple[int, ...], Callable[[], Array]]:
    """The shape of labels of a declared type, and how to read them."""
    if hasattr(y, "tocsr"):
        raise ArgumentError("y is sparse, which is not supported: pass one label for each row.")
    if isinstance(getattr(y, "dtype", None), np.dtype) and not isinstance(y, np.ma.MaskedArray) and y.dtype.kind != "c":
        return tuple(y.shape), lambda: np.asarray(y).ravel()
    raw = _array("y", y)
    return raw.shape, raw.ravel


def _is_missing(entry: Any) -> bool:
    """Whether a label is missing: None, NaN, or what data frames write for a gap."""
    if entry is None or type(entry).__name__ in _MISSING:
        return True
    return isinstance(entry, (float, np.floating, Decimal)) and math.isnan(entry)


def _missing_labels() -> ArgumentError:
    return ArgumentError(
        "y has labels that are missing (None or NaN), which are no class: drop these rows, or pass classes=(negative, "
        "positive), so that the labels are public and a row of any other label belongs to none of them."
    )


def _matrix(name: str, values: Any) -> tuple[Matrix, Any]:
    """Numbers with rows and columns, and the object that has the names of the columns."""
    source, read = _numbers(name, values)
    shape = np.shape(source)
    if len(shape) != 2:  # scikit-learn's own message would show a single row or column
        raise ArgumentError(
            f"{name} must have two dimensions, got shape {shape}. Reshape your data: one row per person, one column "
            "per feature."
        )
    return Matrix((int(shape[0]), int(shape[1])), read), values if hasattr(values, "columns") else source


def _numbers(name: str, values: Any) -> tuple[Any, Callable[[], Floats]]:
    """(what has the shape, how to read the values), if the type says that they are real numbers."""
    if isinstance(values, np.ma.MaskedArray):
        raise ArgumentError(f"{name} must not be a masked array: fill the masked entries first, with NaN, say.")
    if hasattr(values, "tocsr") and hasattr(values, "toarray"):
        if values.dtype.kind not in "biuf":
            raise ArgumentError(f"Complex data not supported: {name} must hold real numbers.")
        return values, lambda: _floats(values.toarray())  # what is not stored is 0, within the bounds or clipped
    declared = getattr(values, "dtype", None)
    if isinstance(declared, np.dtype) and declared.kind in "biuf" and isinstance(getattr(values, "shape", None), tuple):
        return values, lambda: _floats(np.asarray(values))
    if _is_numeric_frame(values):
        return values, lambda: _floats(values.to_numpy(**_NAN_FOR_GAPS if hasattr(values, "iloc") else {}))
    raw = _array(name, values)
    if raw.dtype.kind == "O":
        flat = [_number(entry) for entry in raw.reshape(-1)]
        if None in flat:
            raise _not_numbers(name, values, raw, flat.index(None))
        raw = np.array(flat, dtype=np.float64).reshape(raw.shape)
    if raw.dtype.kind not in "biuf":
        raise _not_numbers(name, values, raw, 0)
    return raw, lambda: _floats(raw)


def _is_numeric_frame(values: Any) -> bool:
    """Whether every column of a pandas or Polars frame is stated to hold numbers."""
    if not (hasattr(values, "columns") and hasattr(values, "to_numpy")):
        return False
    if hasattr(values, "iloc"):
        return all(kind.kind in "iuf" or (kind.kind == "b" and isinstance(kind, np.dtype)) for kind in values.dtypes)
    kinds = getattr(values, "schema", {})
    return bool(kinds) and all(hasattr(k, "is_float") and (k.is_float() or k.is_integer()) for k in kinds.values())


def _floats(values: Array) -> Floats:
    with np.errstate(all="ignore"):  # a long double beyond float64 is an infinity, and no warning
        return np.asarray(values, dtype=np.float64)


def _array(name: str, values: Any) -> Array:
    if isinstance(values, np.ma.MaskedArray):
        raise ArgumentError(f"{name} must not be a masked array: fill the masked entries first, with NaN, say.")
    try:
        raw = np.asarray(values)
    except Exception:  # noqa: BLE001 - any converter may raise anything, and its message may hold data
        raise ArgumentError(f"{name} must hold real numbers: convert or drop what is something else.") from None
    if raw.dtype.kind == "c":
        raise ArgumentError(f"Complex data not supported: {name} must hold real numbers.")
    return raw


def _number(entry: object) -> float | None:
    """One entry by its type: a number within the range of the floats, NaN for a missing one, None if no number."""
    if isinstance(entry, float):
        return float.__float__(entry)  # not a subclass's own, which could say anything
    if isinstance(entry, (np.floating, np.bool_)):
        return float(np.float64(entry))
    if isinstance(entry, (numbers.Rational, np.integer)):
        return float(max(-_FLOAT, min(_FLOAT, entry)))
    if isinstance(entry, Decimal):
        return math.nan if entry.is_nan() else float(max(Decimal(-_FLOAT), min(Decimal(_FLOAT), entry)))
    if entry is None or type(entry).__name__ in _MISSING:
        return math.nan
    return None


def _not_numbers(name: str, values: Any, raw: Array, at: int) -> ArgumentError:
    """What to do with the column of the entry `at`, which is no number by its type."""
    if raw.ndim != 2 or name != "X":
        return ArgumentError(f"{name} must hold real numbers: convert or drop what is something else.")
    place = at % raw.shape[1]
    names: Any = getattr(values, "column_names", getattr(values, "columns", range(raw.shape[1])))
    column = shown([*names][place])
    return ArgumentError(
        f"X must hold real numbers, and column {column} holds something else: encode a column of categories by "
        f"learn.PublicCategories({{{column}: [...]}}), convert dates and numbers that are written as text, or drop it."
    )


def _check_size(shape: tuple[int, int], estimator: object, *, empty: bool) -> None:
    who = "" if estimator is None else f" by {type(estimator).__name__}"
    if shape[1] < 1:
        raise ArgumentError(f"Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required{who}.")
    if shape[0] < 1 and not empty:
        raise ArgumentError(f"Found array with 0 sample(s) (shape={shape}) while a minimum of 1 is required{who}.")


def _check_given(estimator: object, y: Any) -> None:
    if y is None:
        raise ArgumentError(
            f"{type(estimator).__name__} requires y to be passed, but the target y is None: pass one entry per row."
        )


def _check_column(X: Matrix, shape: tuple[int, ...], name: str = "y") -> None:
    """That y has one column, as long as X; in scikit-learn's words, which show sizes only."""
    if len(shape) == 2 and shape[1] == 1:
        text = "A column-vector y was passed when a 1d array was expected. Please change the shape of y to (n_samples,)"
        warnings.warn(f"{text}, for example using ravel().", DataConversionWarning, stacklevel=5)
    elif len(shape) != 1:
        raise ArgumentError(
            f"{name} should be a 1d array, got an array of shape {shape} instead: pass one entry per row."
        )
    _check_length(X, shape[0], name)


def _check_length(X: Matrix, length: int, name: str = "y") -> None:
    if length != X.shape[0]:
        raise ArgumentError(
            f"Found input variables with inconsistent numbers of samples: {[X.shape[0], length]}: pass one entry of "
            f"{name} for each row."
        )


def _same(entry: Any, label: Any) -> bool:
    try:
        equal = entry == label
    except Exception:  # noqa: BLE001 - a label of any type may refuse in any way, and is then another label
        return False
    return isinstance(equal, (bool, np.bool_)) and bool(equal)  # not an array, nor pandas' NA


def _is_declared(y: Any) -> bool:
    """Whether y states one NumPy type for all of its entries, or is read by NumPy, to be refused."""
    if isinstance(getattr(y, "dtype", None), np.dtype) or hasattr(y, "tocsr"):
        return True
    return hasattr(y, "__array__") and not any(hasattr(y, name) for name in (*_LISTS, "columns"))


def entries(y: Any, name: str = "y") -> Callable[[], Sequence[Any]]:
    """How to read the entries of a container without a NumPy type; what Python cannot hold is None."""
    if isinstance(y, Sequence) and not isinstance(y, (str, bytes, bytearray)):
        return lambda: y
    method = next((getattr(y, name) for name in _LISTS if hasattr(y, name)), None)
    if method is None or hasattr(y, "columns"):
        raise ArgumentError(
            f"{name} must be a column of labels, got an object of type {type(y).__name__}: pass a list, an array or a "
            "series with one label for each row."
        )
    convert: Callable[[], Sequence[Any]] = method

    def read() -> Sequence[Any]:
        try:
            return convert()
        except Exception:  # noqa: BLE001 - an entry that Python cannot hold, a date beyond its years, say
            column = getattr(y, "array", y)  # pandas: by place, not by name
            return [_alone(column, at) for at in range(len(column))]

    return read


def _alone(column: Any, at: int) -> Any:
    """One entry by itself, None if Python cannot hold it."""
    try:
        entry = column[at]
        return entry.as_py() if hasattr(entry, "as_py") else entry
    except Exception:  # noqa: BLE001 - whatever it is, it is another label
        return None


def remember_columns(estimator: object, X: Any, *, reset: bool) -> None:
    """Remember the columns of X (`reset`), or compare them, by scikit-learn's rules; no value is read."""
    names: Any = getattr(X, "column_names", getattr(X, "columns", ()))
    names_seen: set[Any] = set()
    for name in names:
        if name in names_seen:
            raise ArgumentError(f"X has two columns named {shown(name)}: give each column a name of its own.")
        names_seen.add(name)
    validate_data(estimator, X, reset=reset, skip_check_array=True)


def read_sample_weight(
    estimator: Any, data: Matrix, sample_weight: Any, most: object
) -> tuple[float, Callable[[], Floats] | None]:
    """(W, how to read w / W): weights by their type and shape, before the charge."""
    if sample_weight is None:
        return 1.0, None
    if most is None:
        raise ArgumentError(
            "sample_weight needs max_weight, the largest weight that a row may have, which is never read from the "
            "data: pass max_weight= to the estimator; larger weights are clipped to it. (An ensemble that bags passes "
            "how often it drew each row: max_weight=5, say.)"
        )
    bound = real("max_weight", most, above=0, cure="pass the largest weight that a row may have")
    column = np.full(data.shape[0], sample_weight) if isinstance(sample_weight, numbers.Real) else sample_weight
    read = read_target(estimator, data, column, several=False, name="sample_weight").floats

    def weights() -> Floats:
        with np.errstate(all="ignore"):
            return np.asarray(np.nan_to_num(np.clip(read().ravel() / bound, 0.0, 1.0), nan=0.0))

    return bound, weights


def refuse_weights_of_tables(X: Any, sample_weight: Any) -> None:
    """Raise where weights are passed beside a table."""
    if isinstance(X, Table) and sample_weight is not None:
        raise ArgumentError("sample_weight is not taken beside a Table, whose engine does the sums: pass arrays.")


def read_class_weights(
    class_weight: object, classes: Sequence[Any], labels: Labels, rows: int
) -> tuple[float, Callable[[], Floats] | None]:
    """(the largest weight, how to read each row's beside it); a row of another label has weight 1 before that."""
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
        weights_of_rows = np.ones(rows)
        for one in classes:
            weights_of_rows = np.where(labels.matches(one) > 0, each[one], weights_of_rows)
        return np.asarray(np.clip(weights_of_rows / most, 0.0, 1.0))

    return most, weights


def product_of(one: Callable[[], Floats] | None, two: Callable[[], Floats] | None) -> Callable[[], Floats] | None:
    """How to read the product of two weights, of which either may be left out."""
    if one is None or two is None:
        return one or two
    return lambda: np.asarray(one() * two())
