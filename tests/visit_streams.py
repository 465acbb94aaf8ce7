"""A small stream: a year of visits, of people or of events."""

import pandas as pd

import inid
from inid import tables

MONTHS = [f"2027-{month:02}" for month in range(1, 13)]


def visits(people, costs=None, sex="F"):
    """Rows of a period: who came, and what it cost."""
    costs = [10.0] * len(people) if costs is None else costs
    return pd.DataFrame({"id": list(people), "sex": [sex] * len(people), "cost": costs}).astype({"cost": "float64"})


EMPTY = visits(["x"])


def open_people(path, ledger, **changes):
    """A stream of people, each in one period unless stated otherwise."""
    unit = changes.pop("unit", tables.Person("id", max_rows=2))
    table = tables.Table(EMPTY, bounds={"cost": (0, 100)}, unit=unit)
    facts = {"query": {"count": True, "sum": ["cost"]}, "periods": MONTHS, "promise": inid.GaussianDP(mu=1.0)}
    facts |= {} if unit == "row" else {"contributes": 1}
    return tables.Stream.open(path, table, **(facts | {"ledger": ledger} | changes))


def open_events(path, ledger, **changes):
    """A stream of events, each in one period."""
    return open_people(path, ledger, unit="row", **changes)
