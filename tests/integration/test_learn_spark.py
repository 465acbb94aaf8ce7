"""The moments of a table on Spark are those of the array, to the last bit."""

import numpy as np

from inid.learn import TableRows, Units, exact_moments, table_moments
from inid.tables import Table
from spark_session import spark_session

BOUNDS = {"a": (0.0, 10.0), "b": (-1.0, 1.0), "c": (5.0, 6.5)}
LOWER, UPPER = np.array(list(BOUNDS.values())).T
X = np.random.default_rng(0).normal(size=(500, 3)) * [4.0, 1.0, 1.0] + [5.0, 0.0, 5.7]
X[3] = [np.nan, np.inf, -np.inf]
X[4] = [1e308, -1e308, np.nan]


def test_spark_sums_what_the_array_sums():
    rows = [tuple(float(value) for value in row) for row in X]
    frame = spark_session().createDataFrame(rows, schema="a double, b double, c double")
    units = Units.of(LOWER, UPPER, len(X), centre=True, scale=True)
    found = table_moments(
        TableRows.of(Table(frame, bounds=BOUNDS), list(BOUNDS), None, None), units, mean=True, count=False
    )
    np.testing.assert_array_equal(found, exact_moments(X, units, mean=True))
