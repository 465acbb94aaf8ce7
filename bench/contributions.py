"""Counts and sums of people without a stated limit, beside the best limit that anybody could have stated.

A customer has any number of orders: a table made like TPC-H's, with orders by Zipf's law of rank, and tables of 1,500
to 150,000 people whose numbers of rows have the tails of Zipf's law. The root mean square error of 300 releases, noise
and cut together, divided by that of

* the best limit on a person's total with hindsight, which takes the whole promise for its noise;
* the best `Person(max_rows=...)` with hindsight, which keeps so many rows of a person (a sum pays the largest value of
  a row for each);
* the race to the top (Dong and others, SIGMOD 2022): the sums under all limits 2, 4, ..., each at an equal part of
  epsilon and lowered by its noise with failure 0.1, and the largest of them; in floats, 300 runs.
"""

import numpy as np
import pandas as pd

import inid
from bench._result_table import ResultTable
from inid import tables
from inid.arguments import Floats
from inid.releasing import charge_together
from inid.tables import drawn_steps

__all__ = ["main"]

RUNS = 300
AT_MOST = 2**20
PEOPLE = (1_500, 15_000, 150_000)
TAILS = (2.0, 2.5, 3.0)
FAILURE = 0.1


def orders(customers: int, rng: np.random.Generator) -> pd.DataFrame:
    """Ten orders for each customer on average, most of them of few; prices as in TPC-H, up to 500,000."""
    shares = 1 / np.arange(1, customers + 1) ** 0.8
    numbers = rng.multinomial(10 * customers, shares / shares.sum())
    prices = rng.lognormal(11.7, 0.6, int(numbers.sum())).clip(900, 500_000)
    return pd.DataFrame({"person": np.repeat(np.arange(customers), numbers), "value": prices})


def zipf(people: int, tail: float, rng: np.random.Generator) -> pd.DataFrame:
    """So many people with numbers of rows by Zipf's law, at most 100,000 each."""
    numbers = np.minimum(rng.zipf(tail, people), 100_000)
    return pd.DataFrame({"person": np.repeat(np.arange(people), numbers), "value": 1.0})


def _errors(query: tables.Query, budget: inid.PureDP, true: float) -> Floats:  # type: ignore[type-arg]
    """Errors of releases; the table is read once."""
    plan = query.plan(budget)
    exact, found = query.exact(plan), []
    for _ in range(RUNS):
        paid = iter(charge_together(plan.noises, plan.charge, None, ""))
        (first, last), _ = drawn_steps(query.question, plan, query.question.draws(plan), exact, paid)
        (answer,) = query.question.answers(last, 0.95, (), (first,))
        found.append(answer.estimate - true)
    return np.array(found)


def _fixed(kept: Floats, noise: Floats, true: float, epsilon: float) -> float:
    """The least root mean square error over limits: what they cut, and Laplace noise of their size."""
    return float(np.sqrt((true - kept) ** 2 + 2 * (noise / epsilon) ** 2).min())


def _race(totals: Floats, largest: float, epsilon: float, rng: np.random.Generator) -> float:
    """The root mean square error of the race to the top."""
    limits = largest * 2.0 ** np.arange(AT_MOST.bit_length())
    sums = np.minimum.outer(limits, totals).sum(axis=1)
    scales = len(limits) * limits / epsilon
    noisy = sums + rng.laplace(0, scales, (RUNS, len(limits))) - scales * np.log(len(limits) / FAILURE)
    return float(np.sqrt(np.mean((np.maximum(noisy.max(axis=1), 0) - totals.sum()) ** 2)))


def main() -> None:
    """Print one line per case."""
    columns = ("", "epsilon", "relative error", "of the best limit", "of the best max_rows", "of the race to the top")
    title = "People without a stated limit: error, and its ratio to that of other ways"
    with ResultTable(
        "tables-contributions", title, columns, peers="the best limits with hindsight; race to the top, in floats",
        command="python -m bench.contributions",
    ) as lines:  # fmt: skip
        compare(lines)


def compare(lines: ResultTable) -> None:
    """Add a line per case, and the ratios of all of them."""
    rng, ratios = np.random.default_rng(0), []
    made = orders(15_000, rng)
    cases = [("orders, count", made, None), ("orders, sum(price)", made, 500_000.0)]
    cases += [
        (f"Zipf {tail:g}, {people:,} people, count", zipf(people, tail, rng), None)
        for people in PEOPLE
        for tail in TAILS
    ]
    for name, frame, largest in cases:
        bounds = {} if largest is None else {"value": (0.0, largest)}
        unit = tables.Person("person", contribution=tables.Private(AT_MOST))
        table = tables.Table(frame, unit=unit, bounds=bounds)
        query = table.statistics(count=True) if largest is None else table.statistics(sum=["value"])
        one = largest or 1.0
        rows = frame if largest else frame.assign(value=1.0)
        totals, numbers = rows.groupby("person")["value"].sum().to_numpy(), rows["person"].value_counts().to_numpy()
        true = float(totals.sum())
        limits = np.unique(np.geomspace(one / 16, totals.max(), 400))
        cut = np.array([np.minimum(totals, limit).sum() for limit in limits])
        place = np.bincount(rows.groupby("person").cumcount(), weights=rows["value"]).cumsum()
        kept = np.arange(1.0, numbers.max() + 1)
        for epsilon in (0.3, 1.0):
            error = float(np.sqrt(np.mean(_errors(query, inid.PureDP(epsilon), true) ** 2)))
            best = error / _fixed(cut, limits, true, epsilon), error / _fixed(place, kept * one, true, epsilon)
            ratios.append(best)
            race = error / _race(totals, one, epsilon, rng)
            lines.add(name, epsilon, f"{error / true:.2%}", *(f"{ratio:.2f}" for ratio in best), f"{race:.2g}")
    for at, name in enumerate(("limit on a total", "max_rows")):
        own = np.array([pair[at] for pair in ratios])
        middle = np.exp(np.log(own).mean())
        lines.note(
            f"Of the best {name} with hindsight: geometric mean {middle:.2f}, largest {own.max():.2f}, at most 2 in "
            f"{(own <= 2).sum()} of {len(own)} cases."
        )


if __name__ == "__main__":
    main()
