"""Pictures show the numbers of what they picture, on new axes or on the user's own."""

import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")

from matplotlib import pyplot as plt

import inid
from inid import figures
from inid.accounting import trade_off

PLAN = inid.plan(
    inid.Sensitivity.box([1.0, 3.0, 40.0], labels=["age", "visits", "income"]), inid.ApproxDP(epsilon=1.0, delta=1e-6)
)


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def shown(ax):
    return {line.get_label(): np.asarray(line.get_xdata()) for line in ax.get_lines()}


def test_the_style_ends_with_the_figure_and_what_the_backend_sets_stays():
    """The first figure of a notebook loads its backend, which sets "interactive"; without it later ones stay unseen."""
    before = mpl.rcParams["font.size"]
    try:
        with figures._style() as style:
            style.ion()
            assert mpl.rcParams["font.size"] != before
        assert mpl.is_interactive()
        assert mpl.rcParams["font.size"] == before
    finally:
        plt.ioff()


def test_a_plan_shows_its_own_errors_and_those_of_the_baselines():
    ax = PLAN.plot()
    series = shown(ax)
    np.testing.assert_array_equal(series["this plan"], PLAN.std)
    equal = inid.plan(PLAN.sensitivity, PLAN.budget, mechanism=PLAN.mechanism, allocation="spr")
    np.testing.assert_array_equal(series["equal split"], equal.std)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["age", "visits", "income"]


def test_many_coordinates_are_lines_and_the_users_axes_are_used():
    _, own = plt.subplots()
    ax = inid.plan(inid.Sensitivity.box(np.geomspace(1, 100, 200)), inid.PureDP(1.0)).plot(own)
    assert ax is own
    assert len(ax.get_lines()[0].get_xdata()) == 200


def test_a_comparison_shows_every_row():
    made = PLAN.compare()
    widths = [bar.get_width() for bar in made.plot().patches]
    np.testing.assert_allclose(widths, [row.ratio for row in made])


def test_the_curve_is_the_certified_one_and_the_trade_off_is_that_of_a_gaussian():
    made = inid.compose(inid.plan(inid.Sensitivity.box([1.0]), inid.GaussianDP(mu=1.0), mechanism="gaussian"))
    line = made.plot().get_lines()[0]
    np.testing.assert_allclose(line.get_ydata()[10], made.delta(float(line.get_xdata()[10])))
    from scipy.stats import norm

    line = made.plot("trade_off").get_lines()[0]
    exact = norm.cdf(norm.ppf(1 - np.asarray(line.get_xdata())) - 1.0)
    assert (line.get_ydata() <= exact + 1e-9).all()
    assert np.abs(line.get_ydata() - exact).max() < 0.02


def test_a_trade_off_from_a_smaller_delta_would_be_too_good():
    level = np.linspace(0, 1, 50)
    right = trade_off(level, np.array([0.0, 1.0]), np.array([0.4, 0.2]))
    wrong = trade_off(level, np.array([0.0, 1.0]), np.array([0.4, 0.1]))
    assert (wrong >= right).all()
    assert (wrong > right).any()


def test_results_and_plans_of_tables():
    frame = pd.DataFrame({"sex": ["F", "M"] * 20, "age": np.arange(40.0)})
    t = inid.tables.Table(frame, bounds={"age": (0, 100)}, domains={"sex": ["F", "M"]}, rows=40)
    q = t.statistics(count=True, mean=["age"], by={"sex": ["F", "M"]})
    made = q.plan(inid.PureDP(1.0), tolerance={"mean(age)": 2.0})
    ax = made.plot()
    np.testing.assert_allclose(shown(ax)["this plan"], [entry.error for entry in made.statistics])
    result = q.release(made)
    figure = result.plot()
    assert len(figure.axes) == 2
    np.testing.assert_allclose(shown_estimates(figure.axes[1]), [row.estimate for row in result.answers[2:]])
    many = t.marginals(1)
    planned = many.plan(inid.GaussianDP(1.0))
    np.testing.assert_allclose(shown(planned.plot())["this plan"], [entry.std for entry in planned.tables])
    assert many.release(planned).plot().axes


def shown_estimates(ax):
    return np.asarray(ax.get_lines()[0].get_xdata())


def test_what_is_missing_or_wrong_is_said(monkeypatch):
    with pytest.raises(inid.ArgumentError, match="axes of matplotlib"):
        PLAN.plot(3)
    with pytest.raises(inid.ArgumentError, match="kind"):
        inid.compose(PLAN).plot("pie")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(inid.MissingExtraError, match=r"\[plot\]"):
        PLAN.plot()
