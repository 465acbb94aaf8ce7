"""The made-up people of the first example: the README makes the same table and asks the same question."""

import pandas as pd

import inid
from inid import tables, testing

PROMISE = inid.ApproxDP(epsilon=1.0, delta=1e-6)


def question() -> tables.Query:
    """Counts and means by sex."""
    people = pd.DataFrame(
        {
            "sex": ["F", "M"] * 2_000,
            "age": [20 + i % 60 for i in range(4_000)],
            "income": [15_000 + 37 * (i % 2_500) for i in range(4_000)],
        }
    )
    table = tables.Table(people, bounds={"age": (0, 100), "income": (0, 500_000)}, rows=4_000)
    return table.statistics(count=True, mean=["age", "income"], by={"sex": ["F", "M"]})


def answers() -> list[tuple[str, str, float, float, float]]:
    """Label, kind, lower end, estimate and upper end of each answer; seeded, so that the picture stays the same."""
    asked = question()
    with testing.unsafe_seed(7):
        rows = asked.release(asked.plan(PROMISE, tolerance={"age": 1, "income": 500})).answers
    kinds = [(row.column or "count", row) for row in rows]
    label = {"count": "people", "age": "mean age", "income": "mean income"}
    return [(f"{label[kind]}, {row.groups[-1]}", kind, row.lower, row.estimate, row.upper) for kind, row in kinds]
