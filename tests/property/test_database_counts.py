"""PostgreSQL's counts come from a sum and an average: the bound of the proof beside the code, by brute force.

The claim (`PostgresDialect.sum_and_count`): a quotient of numerics is off by at most 1/2 in 10^16 of it, so the sum by
the average is nearer to the count than 1/2, up to 4 10^15 rows. Python's fractions are the oracle.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import psycopg
import pyarrow as pa
import pytest

from database_tables import connection, execute, stored
from inid import tables
from inid.fixed_point import Grid, largest_unit
from inid.tables.engines.sql import PostgresDialect
from postgres_server import postgres_server

DIGITS = Fraction(1, 2 * 10**16)
MOST_ROWS = 2**40  # that a table may promise


def pairs(most):
    """Counts up to `most`, and sums of that many whole numbers from 1 to 2^30."""
    random = np.random.default_rng(35)
    counts = {*range(1, 400), *(10**k for k in range(1, 19)), *(2**k for k in range(1, 62))}
    counts |= {own + by for own in counts for by in (-1, 1)}
    counts |= {int(random.integers(1, 2 ** int(random.integers(1, 62)), endpoint=True)) for _ in range(400)}
    counts |= {most - int(random.integers(1000)) for _ in range(200)}
    for count in sorted(own for own in counts if 0 < own <= most):
        for mean in (1, 2, 3, 7, 9999, 10_000, 10_001, 2**30, int(random.integers(1, 2**30))):
            for more in {0, 1, count // 2, count - 1} if mean < 2**30 else {0}:
                yield mean * count + more, count


def quotients(some):
    """What PostgreSQL makes of each pair: the average, and the sum by it, to the nearest whole number."""
    sums, counts = zip(*some, strict=True)
    with psycopg.connect(postgres_server().url) as con:
        return con.execute(
            "SELECT CAST(s / n AS text), CAST(round(s / (s / n)) AS text) "
            "FROM unnest(CAST(%s AS numeric[]), CAST(%s AS numeric[])) AS t(s, n)",
            ([*map(str, sums)], [*map(str, counts)]),
        ).fetchall()


def wrong(most):
    some = list(pairs(most))
    assert len(some) > 5000
    return [pair for pair, (_, found) in zip(some, quotients(some), strict=True) if int(found) != pair[1]]


def test_a_quotient_has_sixteen_digits():
    """The lemma of the proof, for averages and for what is divided by them."""
    some = list(pairs(4 * 10**15))
    for (total, count), (average, _) in zip(some, quotients(some), strict=True):
        exact, found = Fraction(total, count), Fraction(average)
        assert abs(found - exact) <= DIGITS * exact
        assert found >= 1


def test_the_count_is_exact_up_to_the_bound():
    assert wrong(4 * 10**15) == []
    assert MOST_ROWS < 4 * 10**15


def test_far_beyond_the_bound_it_is_not():
    """So the brute force can fail."""
    assert wrong(2**61)


def test_an_average_is_the_quotient_of_the_sum_and_the_count():
    """The aggregate divides as the operator does: also of large numbers, and of those that were not added in order."""
    made = "SELECT k % 50 AS g, CAST((k * 2654435761 % 2147483648) * (k % 3 * 1073741824 + 1) AS bigint) AS v "
    with psycopg.connect(postgres_server().url) as con:
        lines = con.execute(
            "SELECT CAST(avg(v) AS text), CAST(sum(v) / CAST(count(v) AS numeric) AS text), sum(v), count(v) "  # noqa: S608
            f"FROM ({made} FROM generate_series(CAST(1 AS bigint), 7919) AS k) AS t GROUP BY g"
        ).fetchall()
    assert len(lines) == 50
    for average, quotient, total, count in lines:
        assert average == quotient
        assert abs(Fraction(average) - Fraction(int(total), count)) <= DIGITS * Fraction(int(total), count)


@pytest.mark.parametrize("bounds", [(0, 1), (-5, 7), (1e9, 1e9 + 1), (0, 1e-9), (-1e250, 1e250), (1e18, 1e18 + 4096)])
def test_missing_values_and_both_ends_are_counted_as_pandas_counts(bounds):
    low, high = map(float, bounds)
    values = [None, float("nan"), low, high, float("inf"), -float("inf"), (low + high) / 2, 5e-324, -0.0]
    frame = pa.table({"x": pa.array([*values, *[low] * 500], pa.float64()), "g": [0] * 5 + [1] * 504})
    found = []
    for data in (frame.to_pandas(), stored("in-postgres", frame)):
        query = tables.Table(data, bounds={"x": bounds}).statistics(mean=["x"], count=True, by={"g": [0, 1, 2]})
        found.append(query.exact_sums())
    assert np.array_equal(*found)


def from_zero():
    """A grid whose least number is 0: the average of such numbers may be 0."""
    grid = Grid.of("x", (0.0, 1.0), largest_unit(2**32))
    made = replace(grid, below=-grid.least)
    assert made.least + made.below == 0
    return made


def summed(dialect, grid):
    con, name = connection("in-postgres"), "from_zero"
    made = "SELECT CAST(0 AS float8) AS x FROM generate_series(1, 3)"
    execute(con, f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} AS {made}")
    parts = dialect.sum_and_count("x", grid, "")
    with psycopg.connect(postgres_server().url) as own:
        return own.execute(f"SELECT {', '.join(parts)} FROM {name}").fetchall()  # noqa: S608


def test_where_an_average_may_be_zero_the_values_are_counted():
    assert summed(PostgresDialect(), from_zero()) == [(0, 3)]
    ordinary = Grid.of("x", (0.0, 1.0), largest_unit(2**32))  # where they come from the average, as is proved
    assert ["avg(" in PostgresDialect().sum_and_count("x", grid, "")[1] for grid in (from_zero(), ordinary)] == [
        False,
        True,
    ]


def test_without_that_the_database_would_stop():
    """The twin: the same grid, called one that has no 0."""

    class Sure(PostgresDialect):
        def sum_and_count(self, column, grid, here):
            made = self.where(self.on_grid(column, grid, wide=True), here)
            return f"sum({made})", f"round(sum({made}) / avg({made}))"

    with pytest.raises(psycopg.errors.DivisionByZero):
        summed(Sure(), from_zero())
