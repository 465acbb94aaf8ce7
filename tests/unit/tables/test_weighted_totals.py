"""Released counts are fitted to public totals after the release."""

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.errors import ArgumentError

SEX, AREA = ["F", "M"], ["n", "s", "w"]
TOTALS = {"sex": {"F": 60_000, "M": 40_000}, "area": {"n": 50_000, "s": 30_000, "w": 20_000}}


@pytest.fixture(scope="module")
def released():
    rng = np.random.default_rng(5)
    data = pd.DataFrame({"sex": rng.choice(SEX, 3_000), "area": rng.choice(AREA, 3_000), "w": rng.uniform(1, 9, 3_000)})
    t = tables.Table(data, weight="w", max_weight=9.0)
    q = t.statistics(count=True, by={"sex": SEX, "area": AREA})
    return q.release(q.plan(inid.GaussianDP(1.0)))


def test_fitted_counts_have_the_public_totals_and_keep_the_odds(released):
    fitted = tables.rake(released, TOTALS)
    for column, totals in TOTALS.items():
        assert fitted.groupby(column)["raked"].sum().to_dict() == pytest.approx(totals, rel=1e-6)
    cells = fitted["raked"].to_numpy().reshape(2, 3)
    before = fitted["count"].to_numpy().reshape(2, 3)
    assert cells[0, 0] * cells[1, 1] / (cells[0, 1] * cells[1, 0]) == pytest.approx(
        before[0, 0] * before[1, 1] / (before[0, 1] * before[1, 0])
    )
    assert fitted["factor"].to_numpy() == pytest.approx(fitted["raked"] / fitted["count"])


@pytest.mark.parametrize(
    ("totals", "words"),
    [
        ({}, "dictionary"),
        ({"age": {1: 2}}, "nothing was counted"),
        ({"sex": {"F": 1}}, "one number for each key"),
        ({"sex": {"F": -1, "M": 2}}, "totals"),
        ({"sex": {"F": 0, "M": 0}}, "above 0"),
        ({**TOTALS, "sex": {"F": 1, "M": 2}}, "one sum"),
    ],
)
def test_malformed_totals_are_refused(released, totals, words):
    with pytest.raises(ArgumentError, match=words):
        tables.rake(released, totals)


def test_counts_without_groups_are_refused():
    q = tables.Table(pd.DataFrame({"a": [1.0]})).statistics(count=True)
    with pytest.raises(ArgumentError, match="by groups"):
        tables.rake(q.release(q.plan(inid.PureDP(1.0))), {"sex": {"F": 1}})
