"""A column of objects holds anything: no value of it decides whether an answer comes, or who somebody else is."""

import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest

from inid import tables
from inid.tables.engines import typed

# A decimal may be written in twelve letters and have 10^18 digits.
FAR = [
    "1e999999999",
    "-1e999999999",
    "1e-999999999",
    "0e999999999",
    "1e400",
    "9e18446744073709",
    "NaN",
    "sNaN",
    "Infinity",
]
USES = {
    "key": "t.statistics(count=True, by={'v': [1, 2]})",
    "category": "t.statistics(histogram={'v': tables.Categories([1, 2])})",
    "domain": "tables.Table(f, domains={'v': [1, 2]}).marginals(1)",
    "filter": "t.where('v in [1]').statistics(count=True)",
    "comparison": "t.where('v > 1').statistics(count=True)",
    "number": "tables.Table(f, bounds={'v': (0, 10)}).statistics(sum=['v'])",
    "order": "tables.Table(f, bounds={'x': (0, 9)}, unit=tables.Person('u', 1, order_by='v')).statistics(sum=['x'])",
    "order by size": "1 / (typed(sizes, 'order', None).tolist() == [3, 2, 1, 0]) and t.statistics(count=True)",
    "person": "tables.Table(f, bounds={'x': (0, 9)}, unit=tables.Person('v', 1)).statistics(sum=['x'])",
    "found key": "t.select_partitions('v', delta=1e-6, kind='int')",
    "text": "t.statistics(count=True, by={'v': ['a']})",
}
# In processes of their own: what does not come cannot be waited for here.
ASKED = """
import inid, multiprocessing, pandas
from decimal import Decimal
from inid import tables
from inid.tables.engines.pandas_columns import typed

sizes = pandas.Series([Decimal("1e999999999"), 5.0, 2, Decimal("-1e999999999")], dtype=object)

def ask(use):
    for far in {far}:
        f = pandas.DataFrame({{"u": [1, 1, 2, 2], "v": [1, 2, Decimal(far), 3], "x": [1.0, 2.0, 3.0, 4.0]}})
        t = tables.Table(f)
        q = eval(use)
        q.exact(q.plan(inid.PureDP(1.0)))

for name, use in {uses}.items():
    one = multiprocessing.get_context("fork").Process(target=ask, args=(use,))
    one.start()
    one.join(15)
    print(name, one.exitcode, sep="=", flush=True)
    one.kill()
"""


@pytest.fixture(scope="module")
def answered() -> set[str]:
    text = ASKED.format(far=FAR, uses=USES)
    done = subprocess.run([sys.executable, "-c", text], timeout=300, capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines())


@pytest.mark.parametrize("use", USES)
def test_no_decimal_keeps_an_answer_from_coming(use: str, answered: set[str]) -> None:
    assert f"{use}=0" in answered


# Two different people, and a third value that Python calls equal to both.
BETWEEN = [
    (2**115, 2**115 + 2**61 - 1, np.float64(2.0**115)),
    (2**120, 2**120 + 3 * (2**61 - 1), np.float64(2.0**120)),
    (2**115, 2**115 + 2**61 - 1, np.complex128(2.0**115)),
    (Fraction(2**115 + 2**61 - 1), 2**115, np.float64(2.0**115)),
]


@pytest.mark.parametrize("case", range(len(BETWEEN)))
@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_one_person_never_makes_one_of_two_others(case: int, order: tuple[int, ...]) -> None:
    one, two, between = BETWEEN[case]
    both = _people([one, two])
    assert both == 2
    # Whoever the third is: the two stay two.
    places = _places([[one, two, between][at] for at in order])
    assert places[order.index(0)] != places[order.index(1)]


@pytest.mark.parametrize(
    "same",
    [
        [1, 1.0, np.int8(1), np.float32(1), np.uint64(1), Decimal(1), Fraction(1), np.longdouble(1), 1 + 0j],
        [0.5, np.float16(0.5), np.float64(0.5), Decimal("0.5"), Fraction(1, 2), np.complex64(0.5)],
        [-0.0, 0, np.float32(-0.0), Decimal("-0")],
        [float("inf"), np.float32("inf"), Decimal("Infinity")],
        ["a", np.str_("a")],
    ],
)
def test_equal_numbers_of_any_type_are_one_person(same: list[Any]) -> None:
    for values in (same, same[::-1]):
        assert _people(values) == 1


def _places(values: list[Any]) -> list[int]:
    """Whose row each is, as the engine numbers people."""
    return typed(pd.Series(values, dtype=object), "person", None).tolist()  # the type of objects is not asked


def _people(values: list[Any]) -> int:
    frame = pd.DataFrame({"u": pd.Series(values, dtype=object)})
    t = tables.Table(frame, unit=tables.Person("u", 1))
    return int(t.statistics(count_distinct=True).exact_sums()[0])
