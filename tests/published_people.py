"""A small table of people, and a publication of it with four kinds of queries."""

import pandas as pd

from inid import tables

__all__ = ["publication", "table"]

ROWS = 400
FRAME = pd.DataFrame(
    {
        "age": [20 + k * 7 % 60 for k in range(ROWS)],
        "pay": [1000.0 + k * 37 % 4000 for k in range(ROWS)],
        "sex": ["FM"[k % 3 == 0] for k in range(ROWS)],
        "band": [k * k % 5 for k in range(ROWS)],
        "shop": [f"s{k % 4}" for k in range(ROWS)],
        "id": [k // 2 for k in range(ROWS)],
    }
)


def table(**facts):
    stated = {"bounds": {"age": (0, 100), "pay": (0, 5000)}, "domains": {"sex": ["F", "M"], "band": range(5)}}
    return tables.Table(FRAME, **{"rows": ROWS} | stated | facts)


def publication(t=None):
    t = t or table()
    return tables.Publication(
        people=t.marginals([("sex", "band"), ("band",)]),
        pay=t.where("age > 30").statistics(mean=["pay", "age"], count=True, by={"sex": ["F", "M"]}),
        ages=t.quantiles({"age": [0.5, 0.9]}, by={"sex": ["F", "M"]}),
        largest=t.largest_group({"band": [0, 1, 2, 3, 4]}),
    )
