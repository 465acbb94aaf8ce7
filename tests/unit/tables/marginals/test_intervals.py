"""Intervals of means by tables under Laplace noise are the set they state, however narrow it is beside the bounds."""

import numpy as np
import pytest
from scipy.optimize import brentq

import inid
from inid import tables
from inid.tables import quantile
from inid.tables.questions.marginals import Noisy, fieller, one_cell, ratio_width
from internals import module_with

_laplace_width = module_with("inid.tables.questions.marginals", "Noisy")._laplace_width


@pytest.fixture(scope="module")
def query():
    import pandas as pd

    number = 20_000
    frame = pd.DataFrame({"sex": ["F", "M"] * (number // 2), "income": [20_000.0, 30_000.0] * (number // 2)})
    table = tables.Table(
        frame,
        bounds={"income": (0, 1_000_000)},
        missing={"income": 0},
        domains={"sex": ["F", "M"]},
        other="drop",
        rows=number,
    )
    return table.marginals(mean={"income": [("sex",), ()]})


def test_the_ends_are_the_roots_also_of_a_narrow_interval(query):
    plan = query.plan(inid.PureDP(5.0))
    question = plan.question
    column = question.summed["income"]
    attributes = question.numbers(("sex",))
    one = one_cell(question, attributes)
    parts = {(column.number, *attributes): one}, {(0, *attributes): one}
    bounds = (-500_000.0, 500_000.0)
    for total, number in ((-4.75e9, 10_000.0), (-1e6, 10_000.0), (3e3, 400.0), (-4e9, 8_500.0)):
        low, high = fieller(
            question,
            plan.noise,
            0.95,
            Noisy(np.array([total]), 1.0),
            Noisy(np.array([number]), 1.0),
            bounds,
            parts,
        )

        def beyond(ratio, total=total, number=number):
            reach = ratio_width(question, plan.noise, 0.95, *parts, np.array([abs(ratio)]))
            return abs(total - ratio * number) - float(reach[0])

        ratio = total / number
        exact = [bounds[0] if beyond(bounds[0]) < 0 else brentq(beyond, bounds[0], ratio)]
        exact.append(bounds[1] if beyond(bounds[1]) < 0 else brentq(beyond, ratio, bounds[1]))
        # Straight lines between a few ratios stand above the quantile: wider, by little.
        assert low[0] <= exact[0] + 1e-6 * abs(exact[0])
        assert high[0] >= exact[1] - 1e-6 * abs(exact[1])
        assert high[0] - low[0] <= 1.05 * (exact[1] - exact[0])


def test_an_interval_reaches_to_both_sides_of_its_estimate(query):
    with inid.testing.unsafe_no_noise():
        result = query.release(query.plan(inid.PureDP(5.0)))
    frame = result.marginal("sex", mean="income")
    below, above = (
        (frame["estimate"] - frame["lower"]) / frame["std"],
        (frame["upper"] - frame["estimate"]) / frame["std"],
    )
    assert all((side > 1.5).all() and (side < 3).all() for side in (below, above))


def test_rounding_errors_decide_no_width():
    """Coefficients that cancel are 0 on one processor and a last bit on another: records must verify on both."""
    for scales in ([2.0], [2.0, 1.5], [2.0, 1.5, 0.7]):
        clean = _laplace_width(np.array([*scales, 0.0]), 0.95)
        for dust in (1e-17, -3e-16, 1e-13):
            assert _laplace_width(np.array([*scales, dust, dust]), 0.95) == pytest.approx(clean, rel=1e-12)
    counted = quantile(np.array([2.0, 1e-13, 1e-13]), 0.95) / quantile(np.array([2.0]), 0.95)
    assert abs(counted - 1) > 1e-9  # where they counted as noises, and others had none, a record was refused
    assert _laplace_width(np.array([2.0, 1.5, 1e-6]), 0.95) > _laplace_width(np.array([2.0, 1.5]), 0.95)
