"""pandas adds up groups with NumPy: the same whole numbers as Python, whatever keys and values a frame holds."""

import math

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from internals import module_with

pandas_sums = module_with("inid.tables.engines", "product_sums")

ROWS = 5_000
RNG = np.random.default_rng(11)
VALUES = RNG.normal(50, 40, ROWS)
VALUES[::17], VALUES[5], VALUES[6] = math.nan, math.inf, -math.inf
OTHERS = RNG.integers(0, 2**40, ROWS).astype(float)
TEXTS = RNG.choice(np.array(["a", "b", "c", "other", "a\0b"], dtype=object), ROWS)
TEXTS[::31], TEXTS[7], TEXTS[8], TEXTS[9] = None, 3, math.nan, b"a"
WHOLES = RNG.integers(-3, 4, ROWS).astype(float)
WHOLES[::13] = math.nan
KEYS = {
    "text": (pd.Series(TEXTS), ["c", "a", "nobody"]),
    "string": (pd.Series(TEXTS).astype("string"), ["c", "a", "nobody"]),
    "whole": (pd.Series(WHOLES), [3, -2, 0, 99]),
    "nullable": (pd.Series(WHOLES).astype("Int64"), [3, -2, 0, 99]),
    "truth": (pd.Series(WHOLES > 0).where(~np.isnan(WHOLES)).astype("boolean"), [False, True]),
    "category": (pd.Series(TEXTS).astype(str).astype("category"), ["b", "a"]),
}


def _key(kind, value):
    if kind in ("text", "string", "category"):
        if isinstance(value, bytes):
            return "a"
        return value if isinstance(value, str) else None
    return None if pd.isna(value) else bool(value) if kind == "truth" else int(value)


@pytest.mark.parametrize("missing", ["omit", {"v": 30.0, "w": 0.0}])
@pytest.mark.parametrize("kind", KEYS)
def test_sums_are_those_of_a_loop(kind, missing):
    series, keys = KEYS[kind]
    frame = pd.DataFrame({"v": VALUES, "w": OTHERS, "k": series})
    table = tables.Table(frame, bounds={"v": (0, 100), "w": (0, 2**40)}, missing=missing, max_rows=10_000)
    query = table.statistics(count=True, mean=["v", "w"], by={"k": keys})
    found = query.exact_sums()
    expected = dict.fromkeys(query.labels, 0)
    grids = query.layout.values
    for v, w, k in zip(VALUES.tolist(), OTHERS.tolist(), series.tolist(), strict=True):
        key = _key(kind, k)
        if key not in keys or (isinstance(key, bool) and kind != "truth"):
            continue
        expected[f"count[k={key}]"] += 1
        for name, given in (("v", v), ("w", w)):
            if math.isnan(given) and missing == "omit":
                continue
            value = missing[name] if math.isnan(given) else given
            if f"count({name})[k={key}]" in expected:
                expected[f"count({name})[k={key}]"] += 1
            expected[f"sum({name})[k={key}]"] += grids[name].integer(value)
    assert dict(zip(query.labels, found.tolist(), strict=True)) == expected


def test_blocks_are_short_enough_for_exact_sums(monkeypatch):
    """A value of 52 bits fits in a float64, two of them no longer do."""
    frame = pd.DataFrame({"v": [2.0**52 - 1, 2.0**52 - 3, 1.0] * 40, "k": ["a", "a", "b"] * 40})
    query = tables.Table(frame, bounds={"v": (0, 2**52)}, max_rows=128, missing={"v": 0}).statistics(
        sum=["v"], by={"k": ["a"]}
    )
    seen = []
    bincount = np.bincount
    monkeypatch.setattr(
        pandas_sums.np, "bincount", lambda *args, **rest: seen.append(len(args[0])) or bincount(*args, **rest)
    )
    grid = query.layout.values["v"]
    found = dict(zip(query.labels, query.exact_sums().tolist(), strict=True))
    assert found["sum(v)[k=a]"] == 40 * (grid.integer(2.0**52 - 1) + grid.integer(2.0**52 - 3))
    assert max(seen[1:]) <= 2**53 // (grid.most - grid.least)


def test_groups_beside_a_product_are_the_same():
    frame = pd.DataFrame({"v": VALUES, "w": OTHERS % 100, "k": TEXTS})
    table = tables.Table(frame, bounds={"v": (0, 100), "w": (0, 100)})
    grouped = table.statistics(covariance=["v", "w"], by={"k": ["a", "b"]}).exact_sums().reshape(-1, 2)
    for at, key in enumerate(("a", "b")):
        part = frame[[isinstance(one, (str, bytes)) and one in (key, key.encode()) for one in TEXTS]]
        alone = tables.Table(part, bounds={"v": (0, 100), "w": (0, 100)}).statistics(covariance=["v", "w"])
        assert grouped[:, at].tolist() == alone.exact_sums().tolist()


def test_a_plan_still_releases_by_two_keys():
    frame = pd.DataFrame({"v": VALUES, "k": TEXTS, "n": WHOLES})
    table = tables.Table(frame, bounds={"v": (0, 100)})
    query = table.statistics(mean=["v"], by={"k": ["a", "b"], "n": [1, 2]})
    assert len(query.release(query.plan(inid.PureDP(1.0))).answers) == 4
