"""Tables for those who decide: totals, headers that say what they head, sensible digits, marks, and afterthoughts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from html_outline import outline
from inid.report import (
    ColumnFacts,
    Digits,
    Dimension,
    Estimate,
    EstimateBlock,
    afterthoughts,
    block_title,
    digits_for,
    estimate_tables,
    estimates_section,
    value_word,
    without_idle_others,
)

SEX, JOB = Dimension("sex", ("F", "M")), Dimension("job", ("a", "b", "(other)"))


def row(estimate, reach=1.0, **more):
    return Estimate("count", "", "", estimate, estimate - reach, estimate + reach, 0.5, **more)


def count(*numbers, dimensions=(SEX, JOB), totals=None, statistic="count", column="", bounds=None):
    return EstimateBlock(statistic, column, dimensions, tuple(map(row, numbers)), bounds, totals or {})


def cells(html):
    """The texts of a table, row by row."""
    rows = re.findall(r"<tr.*?</tr>", html)
    return [
        [re.sub(r"<[^>]+>", "|", cell).strip("|") for cell in re.findall(r"<t[hd].*?</t[hd]>", one)] for one in rows
    ]


def test_a_cross_table_has_its_totals_at_the_ends():
    totals = {(0,): (row(6.0), row(15.0)), (1,): (row(5.0), row(7.0), row(9.0)), (): (row(21.0, 4.0),)}
    (html,) = estimate_tables([count(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, totals=totals)], "people")
    table = cells(html)
    assert table[0] == ["job", "sex"]  # the longer key goes down, and each header says what it heads
    assert table[1] == ["F", "M", "total"]
    assert [[cell.split("|")[0] for cell in line] for line in table[2:]] == [
        ["a", "1", "4", "5"],
        ["b", "2", "5", "7"],
        ["(other)", "3", "6", "9"],
        ["total", "6", "15", "21"],
    ]
    assert table[-1][-1] == "21|17 to 25"
    assert '<th scope="col" rowspan="2">job</th>' in html
    assert 'scope="colgroup" colspan="3">sex</th>' in html


def test_a_list_has_its_total_below_and_says_what_it_counts():
    (html,) = estimate_tables([count(1.0, 2.0, dimensions=(SEX,), totals={(): (row(3.0),)})], "people")
    assert cells(html)[0][:3] == ["sex", "people", "range"]
    assert cells(html)[3][:3] == ["total", "3", "2 to 4"]
    (bare,) = estimate_tables([count(1.0, 2.0, dimensions=(SEX,))], "people")
    assert "total" not in bare


def test_of_many_cells_there_is_a_map_of_shades():
    wide = [Dimension(name, tuple(f"{name}{k}" for k in range(10))) for name in "ab"]
    (html,) = estimate_tables([count(*map(float, range(100)), dimensions=tuple(wide))], "rows")
    assert html.count('<td class="heat') == 100
    assert 'class="map"' in html
    outline(html)


def test_others_that_are_too_noisy_throughout_are_left_out_of_tables_of_several_keys():
    """Two keys with an "(other)" each: that of `job` is too noisy in both groups, that of `sex` only in one."""
    sex = Dimension("sex", ("F", "(other)"))
    marks = [False, False, True, True, False, True]
    rows = tuple(row(float(at), too_noisy=mark) for at, mark in enumerate(marks))
    totals = {(0,): (row(10.0), row(20.0)), (1,): (row(1.0), row(2.0), row(3.0)), (): (row(30.0),)}
    made, idle = without_idle_others(EstimateBlock("count", "", (sex, JOB), rows, None, totals))
    assert idle == ["job"]
    assert [dimension.levels for dimension in made.dimensions] == [("F", "(other)"), ("a", "b")]
    assert [one.estimate for one in made.estimates] == [0.0, 1.0, 3.0, 4.0]
    assert [one.estimate for one in made.totals[(1,)]] == [1.0, 2.0]
    assert made.totals[()][0].estimate == 30.0  # they still count in the total
    text = outline(estimate_tables([EstimateBlock("count", "", (sex, JOB), rows, None, totals)], "rows")[0]).text
    assert "(other) of job is left out: every number there is too noisy" in text
    alone = EstimateBlock("count", "", (JOB,), tuple(row(1.0, too_noisy=True) for _ in range(3)))
    assert without_idle_others(alone) == (alone, [])


@pytest.mark.parametrize(
    ("statistic", "title", "word"),
    [
        ("count", "Number of people by sex and job", "people"),
        ("mean", "Mean of pay by sex and job", "mean"),
        ("cdf", "Share of people up to a value of pay by sex", "share"),
        ("quantile", "Quantiles of pay by sex", "value"),
    ],
)
def test_titles_say_what_a_table_shows(statistic, title, word):
    block = count(statistic=statistic, column="" if statistic == "count" else "pay")
    assert block_title(block, "people") == title
    assert value_word(block, "people") == word


def test_numbers_have_sensible_digits():
    """Counts and whole values are whole, a table has one number of decimals, shares are percent."""
    assert digits_for([(35.0, 34.94, 35.06), (28.0, 27.9, 28.1)], levels=True).three((35.0, 34.94, 35.06)) == (
        "35",
        "34.9",
        "35.1",
    )
    assert digits_for([(23.4, 15.1, 31.7)], integral=True).three((23.4, 15.1, 31.7)) == ("23", "15", "32")
    assert digits_for([(38.6421, 38.6391, 38.6450)]).three((38.6421, 38.6391, 38.6450)) == ("38.64", "38.63", "38.65")
    assert digits_for([(0.3816, 0.3808, 0.3828)], percent=True).three((0.3816, 0.3808, 0.3828)) == (
        "38.16 %",
        "38.08 %",
        "38.28 %",
    )


@given(
    st.floats(-1e9, 1e9),
    st.floats(0, 1e6),
    st.floats(0, 1e6),
    st.integers(0, 6) | st.none(),
)
def test_what_is_printed_holds_what_the_interval_holds(estimate, below, above, places):
    """The ends are rounded outwards, so that the printed range misses no more often than the released one."""
    three = (estimate, estimate - below, estimate + above)
    _, low, high = (float(text.replace(",", "")) for text in Digits(places if places is not None else 0).three(three))
    slack = 1e-8 * max(1.0, abs(three[1]), abs(three[2]))
    assert low <= three[1] + slack
    assert high >= three[2] - slack


def test_what_is_too_noisy_is_grey_marked_and_explained():
    block = EstimateBlock("count", "", (SEX,), (row(5.0, 9.0, too_noisy=True), row(50.0)))
    html = estimates_section([block], 0.95, 0.5)
    text = outline(html).text
    assert '<tr class="dim">' in html
    assert (
        "1 of 2 numbers is too noisy (in grey): its range is wider than 50 % of the number, so do not rely on it"
        in text
    )
    plain = outline(
        estimates_section([EstimateBlock("count", "", (SEX,), (row(5.0, 9.0), row(50.0)))], 0.95, None)
    ).text
    assert "too noisy" not in plain


def test_a_total_that_is_not_the_sum_of_what_is_shown_is_explained():
    """Noise around rows with other keys is in the total: the reader who adds up learns why."""
    listed = Dimension("job", ("a", "(other)"))
    for total in ({}, {(): (row(28.0),)}):
        block = EstimateBlock("count", "", (listed,), (row(30.0), row(-2.0)), None, total)
        text = outline(estimates_section([block], 0.95, 0.5)).text
        assert "(other) stands for" in text
        assert ("Totals and overall means include it, with its noise" in text) == bool(total)


def test_afterthoughts_come_from_published_numbers_alone():
    near = count(0.5, -0.5, dimensions=(SEX,))
    assert "Do the public keys match the data" in afterthoughts([near])[0]
    listed = Dimension("job", ("a", "(other)"))
    assert afterthoughts([count(50.0, 30.0, dimensions=(listed,))], "people") == [
        "About 30 people have a job that is missing or not in the public list. Is the list whole?"
    ]
    assert afterthoughts([count(50.0, 0.5, dimensions=(listed,))]) == []
    at_bound = EstimateBlock("mean", "pay", (), (Estimate("mean", "pay", "", 9.0, 8.0, 9.0, 1.0),), (0.0, 9.0))
    assert "Mean of pay: an answer lies at or near the public bound 9." in afterthoughts([at_bound])[0]
    inside = EstimateBlock("mean", "pay", (), (Estimate("mean", "pay", "", 5.0, 4.0, 6.0, 1.0),), (0.0, 9.0))
    assert afterthoughts([inside]) == []


def mean(middle, reach=0.1, bounds=(0.0, 30.0)):
    number = Estimate("mean", "pay", "", middle, middle - reach, middle + reach, reach)
    return EstimateBlock("mean", "pay", (), (number,), bounds)


def summed(total, reach=1.0, bounds=(0.0, 30.0)):
    number = Estimate("sum", "pay", "", total, total - reach, total + reach, reach)
    return EstimateBlock("sum", "pay", (), (number,), bounds)


def test_means_and_sums_near_a_bound_are_asked_about():
    """A mean of 29.9 with bounds (0, 30) is a sign of values beyond 30, as is a sum of 29.9 a row."""
    assert "near the public bound 30" in afterthoughts([mean(29.9)])[0]
    assert "near the public bound 0" in afterthoughts([mean(0.1)])[0]
    assert afterthoughts([mean(19.6)]) == []
    people = count(100.0, dimensions=())
    assert (
        "the sum for each of its rows is at or near the public bound 30" in afterthoughts([people, summed(2990.0)])[0]
    )
    assert afterthoughts([people, summed(1500.0)]) == []
    assert afterthoughts([summed(2990.0)]) == []  # of how many rows is not published


def test_moved_values_are_said_in_the_plain_part():
    """A mean of 19.61 with a range of 0.03 looked precise where bounds of (0, 30) had cut a true mean of 26.96."""
    columns = [ColumnFacts("pay", "mean", "0 to 30", "left out"), ColumnFacts("sex", "histogram over F, M", "", "")]
    text = outline(estimates_section([mean(19.61)], 0.95, 0.5, columns=columns)).text
    assert (
        "Values outside the public bounds were moved to the nearer bound before anything was added up: pay (0 to 30)"
        in text
    )
    assert "sex" not in text
    assert "moved to the nearer bound" not in outline(estimates_section([mean(19.61)], 0.95, 0.5)).text
