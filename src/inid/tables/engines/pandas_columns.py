"""The columns of a pandas frame, each typed for its role: what a value becomes depends on that value alone.

pandas has three families of types, and objects of any kind. They differ in what they do with large whole numbers, with
-0.0 and with what is missing, and some of them stop at a single value: so what they could stumble over is read here.
Whole numbers, floats, booleans and objects turn into one another by the values of a column, so they are read alike: a
number equals whole-number keys only, a boolean only boolean ones, and anything else only string keys, by its text.
Strings go to pandas as keys only: pandas compares strings only up to a NUL, unless some value is missing, so people and
orders that are texts go as numbers.
"""

import datetime as dt
import math
from collections.abc import Callable, Hashable, Iterable
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Number, Rational, Real
from typing import Any

import numpy as np

from inid.arguments import Floats
from inid.tables.engines.arrow import is_texts
from inid.tables.engines.guarded import optional
from inid.tables.engines.roles import FIRST_DAY, LAST_DAY, IdKind, Role, is_text
from inid.tables.facts import is_plain

_END = 2**63  # of the whole numbers that 64 bits hold
_BOOLS = (bool, np.bool_)
_FAR = 400  # powers of ten: the floats end before
_EPOCH = dt.date(1970, 1, 1).toordinal()
# What pandas would make a column of its own type of, were it not for some other value.
_TYPED = (Number, np.generic, dt.datetime, dt.timedelta)


def typed(values: Any, role: Role, kind: Any) -> Any:
    """An array of the values of a series, for its role; what does not fit the role is missing."""
    pandas = optional("pandas")
    if role == "raw":  # nobody looks at it
        return np.zeros(len(values), dtype=np.int8)
    if role in ("day", "year"):
        return _dates(values, role)
    if values.dtype == object:
        return _objects(values, role)
    if is_inferred(values.dtype) and values.dtype.kind in "mM":
        return _moments(values, role)
    if isinstance(values.dtype, pandas.CategoricalDtype):
        return _categories(values, role)
    if not (kind.is_numeric() or kind == optional("narwhals").Boolean):
        return _times_or_texts(values, role, kind)
    if role == "number":
        return _numbers(values)
    if kind == optional("narwhals").Boolean:
        return _truths(values, role)
    return _exact_numbers(values, role, kind)


def as_arrow(values: Any, role: Role) -> Any:
    """An array of `typed` as one of Arrow's: texts as their bytes, since Python's may hold half a character."""
    arrow, pandas = optional("pyarrow"), optional("pandas")
    if isinstance(values.dtype, pandas.StringDtype):
        words = values.to_numpy(dtype=object, na_value=None)
        try:
            return arrow.array(words, type=arrow.string()).cast(arrow.binary())
        except UnicodeEncodeError:
            letters = [None if word is None else word.encode(errors="surrogatepass") for word in words]
            return arrow.array(letters, type=arrow.binary())
    if isinstance(values, pandas.arrays.NumpyExtensionArray):
        values = values.to_numpy()
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "iufb":
        return arrow.array(np.asarray(values), from_pandas=role in ("person", "order"))
    if isinstance(values, (pandas.arrays.IntegerArray, pandas.arrays.BooleanArray)):
        return arrow.array(values)
    places, _ = pandas.factorize(values, sort=role == "order")  # of types that Arrow would round
    return arrow.array(places, mask=places < 0)


def _exact_numbers(values: Any, role: Role, kind: Any) -> Any:
    """Numbers as people, orders and keys."""
    if role in ("str", "bool"):
        return _nothing(len(values), role)
    if kind.is_float() and role in ("person", "order"):
        return _certain(values, kind) if role == "person" else _numbers(values)
    if kind.is_float() and role == "int":
        return whole(_numbers(values))
    if kind.is_integer() and role == "int":
        return _integers(values, unsigned=kind.is_unsigned_integer())
    if role == "int":  # a decimal: pandas would cut its fraction off, or stop at a large one
        return optional("pandas").array(_each(_whole_number, values), dtype="Int64")
    return values.array


def _moments(values: Any, role: Role) -> Any:
    """Times and lengths of time, which are no numbers, keys or texts."""
    if role in ("person", "order"):
        return values.array
    return np.full(len(values), np.nan) if role == "number" else _nothing(len(values), role)


def is_inferred(dtype: Any) -> bool:
    """Whether pandas itself chooses a type like this by the values of a column."""
    return isinstance(dtype, (np.dtype, optional("pandas").DatetimeTZDtype))


def follows_values(dtype: Any) -> bool:
    """Whether values may have decided a type: also those of pandas' readers (`dtype_backend`) and `convert_dtypes`.

    Categories, and columns of several values each, are as whoever made the frame wants them.
    """
    pandas = optional("pandas")
    if isinstance(dtype, pandas.ArrowDtype):
        kind = dtype.pyarrow_dtype
        types = optional("pyarrow").types
        return not (types.is_nested(kind) or types.is_dictionary(kind))
    chosen = (pandas.CategoricalDtype, pandas.PeriodDtype, pandas.IntervalDtype, pandas.SparseDtype)
    return not isinstance(dtype, chosen)


def ids(values: Any, kind: IdKind, own: Any) -> Any:
    """An array of the ids of one kind among the values of a series; anything else is missing.

    Texts are those that Python has, and not the text of something else. A float that is too large to tell each whole
    number from the next is none: it may be that of several people.
    """
    if kind == "str":
        words: Any = _words(values) if _is_arrow(values) else values.to_numpy(dtype=object)
        return _strings([str(one) if type(one) in (str, np.str_) and is_plain(one) else None for one in words])
    if values.dtype != object and own.is_float():
        return whole(_certain(values, own))
    return (
        optional("pandas").array(_each(_id_number, values), dtype="Int64") if values.dtype == object else values.array
    )


def _certain(values: Any, kind: Any) -> Floats:
    """The floats that are one whole number at most; a larger one may be that of several people, and is nobody's."""
    numbers = _numbers(values)
    bits = 24 if kind == optional("narwhals").Float32 else 53
    return np.where(np.abs(numbers) < 2.0**bits, numbers, np.nan)


def _is_certain(value: Any) -> bool:
    if not isinstance(value, (float, np.floating)):
        return True
    end: float = 2.0 ** (np.finfo(type(value)).nmant + 1)
    return -end < float(value) < end


def _id_number(value: Any) -> int | None:
    return _whole_number(value) if _is_certain(value) else None


def _times_or_texts(values: Any, role: Role, kind: Any) -> Any:
    """What has a type of its own and is no number."""
    if role == "number":
        return np.full(len(values), np.nan)
    if role in ("int", "bool"):
        return _nothing(len(values), role)
    types, arrow = optional("pyarrow").types, isinstance(values.dtype, optional("pandas").ArrowDtype)
    if arrow and not is_text(kind) and role == "str":
        binary = kind == optional("narwhals").Binary
        return _strings(_words(values)) if binary else _nothing(len(values), role)
    if arrow and types.is_temporal(values.dtype.pyarrow_dtype):
        return _ticks(values)
    if arrow and types.is_null(values.dtype.pyarrow_dtype):
        return np.full(len(values), np.nan)  # pandas cannot sort by a column that has no type
    if is_text(kind) and (arrow or getattr(values.dtype, "storage", None) is not None):
        return _strings(_words(values)) if role == "str" else _ranks(_words(values))
    return values.array


def _nothing(rows: int, role: Role) -> Any:
    """A column of the role's type in which every value is missing."""
    pandas = optional("pandas")
    kind = {"str": pandas.StringDtype("python"), "bool": "boolean"}.get(role, "Int64")
    return pandas.array([None] * rows, dtype=kind)


def _truths(values: Any, role: Role) -> Any:
    """Booleans of any family; as people and orders they are 0 and 1."""
    if role in ("str", "int"):
        return _nothing(len(values), role)
    missing = values.isna().to_numpy(dtype=bool)
    truths = values.to_numpy(dtype=bool, na_value=False)
    arrays = optional("pandas").arrays
    return (
        arrays.BooleanArray(truths, missing)
        if role == "bool"
        else arrays.IntegerArray(truths.astype(np.int64), missing)
    )


def _numbers(values: Any) -> Floats:
    """Doubles, with NaN for what is missing."""
    if values.dtype == np.float64 and isinstance(values.dtype, np.dtype):
        return np.asarray(values.array)  # told what is missing, pandas would copy and look
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def whole(values: Floats) -> Any:
    """The doubles that are whole numbers of 64 bits."""
    fits = (values >= -_END) & (values < _END) & (np.floor(values) == values)
    return optional("pandas").arrays.IntegerArray(np.where(fits, values, 0.0).astype(np.int64), ~fits)


def _integers(values: Any, *, unsigned: bool) -> Any:
    """Whole numbers of 64 bits exactly: pandas may compare those without a sign with keys as doubles, or refuse."""
    missing = values.isna().to_numpy(dtype=bool)
    numbers = values.to_numpy(dtype=np.uint64 if unsigned else np.int64, na_value=0)
    if unsigned:
        missing |= numbers >= np.uint64(_END)
        numbers = np.where(missing, np.uint64(0), numbers).astype(np.int64)
    return optional("pandas").arrays.IntegerArray(numbers, missing)


def _dates(values: Any, role: Role) -> Floats:
    """Days since 1970, or years, of dates and of times, by the clock of their own zone; NaN for anything else.

    Whether there is a zone one value decides: times of a winter have a type, with one of a summer they are objects.
    """
    if isinstance(values.dtype, optional("pandas").ArrowDtype):
        return _numbered(_arrow_days(values), role)
    if isinstance(values.dtype, optional("pandas").DatetimeTZDtype):
        values = values.dt.tz_localize(None)
    if values.dtype.kind == "M" and isinstance(values.dtype, np.dtype):
        days = values.to_numpy().astype("datetime64[D]")
        return _numbered(np.where(np.isnat(days), np.nan, days.astype(np.int64).astype(np.float64)), role)

    def read(value: Any) -> float:
        if not isinstance(value, dt.date):
            return math.nan
        return float(value.toordinal() - _EPOCH if role == "day" else value.year)

    return np.array([math.nan if date is None else date for date in _each(read, values)], dtype=np.float64)


def _numbered(days: Floats, role: Role) -> Floats:
    """Days since 1970, or their years; NaN outside the years 1 to 9999."""
    inside = (days >= FIRST_DAY) & (days <= LAST_DAY)
    if role == "year":
        years = np.where(inside, days, 0.0).astype("datetime64[D]").astype("datetime64[Y]")
        return np.where(inside, years.astype(np.int64) + 1970.0, np.nan)
    return np.where(inside, days, np.nan)


def _ticks(values: Any) -> Any:
    """Arrow's dates, times and durations as whole numbers: Python's have no 24:00:00, and years 1 to 9999 alone."""
    arrow = optional("pyarrow")
    kind = arrow.int32() if values.dtype.pyarrow_dtype.bit_width == 32 else arrow.int64()
    ticks = values.array.__arrow_array__().combine_chunks().view(kind).fill_null(0)
    numbers = ticks.to_numpy(zero_copy_only=False).astype(np.int64)
    return optional("pandas").arrays.IntegerArray(numbers, values.isna().to_numpy(dtype=bool))


def _arrow_days(values: Any) -> Floats:
    """Days since 1970 of Arrow's dates and times: whole numbers, since Python's dates are too few for them."""
    arrow, kind = optional("pyarrow"), values.dtype.pyarrow_dtype
    if arrow.types.is_date32(kind):
        per_day = 1
    elif arrow.types.is_date64(kind) or (arrow.types.is_timestamp(kind) and kind.tz is None):
        unit = "ms" if arrow.types.is_date64(kind) else kind.unit
        per_day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    else:
        return np.full(len(values), np.nan)
    ticks = _ticks(values)
    return np.asarray((ticks // per_day).to_numpy(dtype=np.float64, na_value=np.nan))


def _objects(values: Any, role: Role) -> Any:
    """Objects have no type of their own: each is taken for what it is."""
    pandas = optional("pandas")
    if role == "number":
        return np.array(_each(_double, values), dtype=np.float64)
    if role == "str":  # a text is its own text, and most values are texts
        if set(map(type, values.to_numpy())) == {str}:
            return pandas.arrays.StringArray(values.to_numpy())
        return _strings([one if type(one) is str else _attempt(_key_text, one) for one in values.to_numpy()])
    if role == "order":
        return _ranks(_each(_place_in_order, values))
    if role == "person":
        return _places(values)
    if role == "bool":
        return pandas.array([bool(v) if isinstance(v, _BOOLS) else None for v in values], dtype="boolean")
    if role == "int":
        return pandas.array(_each(_whole_number, values), dtype="Int64")
    return values.array


def _each(read: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    """What each value is read as; None for what cannot be read, whatever it raises."""
    return [_attempt(read, value) for value in values]


def _attempt(read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except Exception:  # noqa: BLE001 - an object may raise anything, and one value must not stop the query
        return None


def _is_missing(value: Any) -> bool:
    if value is None or value is optional("pandas").NA:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    # Whole numbers are never missing, and those beyond every float could not be asked.
    return isinstance(value, Real) and not isinstance(value, Rational) and math.isnan(value)


def _double(value: Any) -> float:
    """A number or a boolean; anything else is missing."""
    if _is_missing(value) or not _is_number(value):
        return math.nan
    try:
        return float(value)
    except OverflowError:  # a whole number or a fraction beyond every float
        return math.inf if value > 0 else -math.inf


def _is_number(value: Any) -> bool:
    return isinstance(value, (Real, Decimal, *_BOOLS))


def _whole_number(value: Any) -> int | None:
    """A whole number of 64 bits, also one that is written as a float, as pandas does beside a missing value."""
    if isinstance(value, _BOOLS) or not _is_number(value):
        return None
    if isinstance(value, Decimal) and not value.copy_abs() <= _END:  # its digits may be too many to write out
        return None
    integer: int = math.trunc(value)
    return integer if integer == value and -_END <= integer < _END else None


def _key_text(value: Any) -> str | None:
    """The text of what is neither a number nor a boolean nor a time."""
    if isinstance(value, (str, bytes)):
        return _text(value)
    return None if value is None or value is optional("pandas").NA or isinstance(value, _TYPED) else _text(value)


def _exact(value: Any) -> int | float | Fraction:
    """A number of a type that compares with the others exactly.

    A decimal far beyond the floats is infinite, and one far below them is 0: as a fraction it would have up to 10^18
    digits.
    """
    if isinstance(value, (Integral, *_BOOLS)):
        return int(value)
    written_out = isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) <= _FAR
    return Fraction(value) if written_out else float(value)


def _place_in_order(value: Any) -> tuple[int, Any] | None:
    """Numbers by size, then everything else by its text."""
    if _is_missing(value) or value is optional("pandas").NaT:
        return None
    if _is_number(value):
        return (0, _exact(value))
    if isinstance(value, dt.datetime) and value.tzinfo is not None:  # as in a column that has a zone
        value = value.astimezone(dt.UTC).replace(tzinfo=None)
    word = _text(value)
    return None if word is None else (1, word)


def _categories(values: Any, role: Role) -> Any:
    """Categories by their texts; as people by their positions, which tell apart what has the same text."""
    codes = values.cat.codes.to_numpy(dtype=np.int64)
    if role == "person":
        return optional("pandas").arrays.IntegerArray(codes, codes < 0)
    # The last one stands for what is missing, whose position is -1.
    texts = _words(values.cat.categories) if _is_arrow(values.cat.categories) else map(_text, values.cat.categories)
    words = np.array([*texts, None], dtype=object)[codes].tolist()
    return _ranks(words) if role == "order" else _strings(words)


def _is_arrow(values: Any) -> bool:
    """Whether a series or an index holds texts of Arrow's, of which some may be no UTF-8."""
    storage = str(getattr(values.dtype, "storage", ""))
    return isinstance(values.dtype, optional("pandas").ArrowDtype) or storage.startswith("pyarrow")


def _words(values: Any) -> list[str | None]:
    """The text of each value; None for what has none."""
    arrow = optional("pyarrow")
    if _is_arrow(values):
        letters = values.array.__arrow_array__()
        kind = letters.type.value_type if arrow.types.is_dictionary(letters.type) else letters.type
        if is_texts(kind):
            # As bytes: Arrow does not look whether they are UTF-8, and stops where they are read as texts.
            texts = letters.cast(kind).cast(arrow.large_binary()).to_pylist()
            return [None if one is None else _text(one) for one in texts]
    here = ~values.isna().to_numpy(dtype=bool)
    return [_text(value) if known else None for value, known in zip(values, here, strict=True)]


def _strings(words: list[str | None]) -> Any:
    """Python's own strings: those of Arrow cannot hold every one."""
    pandas = optional("pandas")
    return pandas.array(words, dtype=pandas.StringDtype("python"))


def _ranks(words: list[Any]) -> Any:
    """The place of each text, or of each entry of an order, among all of them: equal for equal ones."""
    places = {word: at for at, word in enumerate(sorted({word for word in words if word is not None}))}
    return optional("pandas").array([None if word is None else places[word] for word in words], dtype="Int64")


def _text(value: Any) -> str | None:
    word: str | None = _attempt(lambda one: one.decode() if isinstance(one, bytes) else str(one), value)
    return word


def _who(value: Any) -> tuple[str, Hashable]:
    """What two values share when they are one person: equality that one value more or less cannot change.

    Equality of a value with two others must make those equal, or a row would decide whether two other people are one.
    Python takes True for 1. NumPy's 2.0**115 equals every whole number near it, its float32 a double and a fraction
    that are different: its numbers are compared by what they are exactly.
    """
    if isinstance(value, _BOOLS):
        return "truth", bool(value)
    if isinstance(value, np.complexfloating) and value.imag == 0:
        value = value.real
    if isinstance(value, np.floating):
        return "number", Fraction(*value.as_integer_ratio()) if np.isfinite(value) else float(value)
    if isinstance(value, np.timedelta64):  # to NumPy a whole number
        return "other", value
    if isinstance(value, np.integer):
        return "number", int(value)
    return "number" if isinstance(value, (int, float, complex, Fraction, Decimal)) else "other", value


def _places(values: Any) -> Any:
    """People by equality: for each value the place of the first one that equals it; without a hash it is nobody.

    Nobody is also what does not equal itself (NaN, NaT), what cannot be asked (NA, a signalling NaN, at which pandas'
    own `isna` stops), and a float that may be the id of several people.
    """
    known: dict[Hashable, int] = {}

    def place(value: Any) -> int | None:
        if value is None or value != value or not _is_certain(value):  # noqa: PLR0124 - see above
            return None
        return known.setdefault(_who(value), len(known))

    return optional("pandas").array(_each(place, values), dtype="Int64")
