"""The report: the promise in words first, numbers where they belong, nothing unescaped, nothing from elsewhere."""

import itertools
import re
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import inid
from html_outline import outline
from inid import tables
from inid.report import (
    Axis,
    ColumnFacts,
    Dimension,
    Estimate,
    EstimateBlock,
    LedgerState,
    ReportInputs,
    belief_after,
    page,
    summarize_plan,
)


def block(statistic="mean", name="age", *levels):
    """One estimate per combination of levels, numbered in the order of release."""
    dimensions = tuple(
        Dimension(f"{name}{at}", tuple(f"{name}{at}{k}" for k in range(n))) for at, n in enumerate(levels)
    )
    count = 1
    for n in levels:
        count *= n
    estimates = tuple(Estimate(statistic, name, name, 41.25 + k, 40.5 + k, 42.0 + k, 0.3) for k in range(count))
    return EstimateBlock(statistic, name, dimensions, estimates, (0.0, 100.0))


def inputs(name="age", *, ledger=True, private=True, budget=None, tolerance=(1.0, 2.0), blocks=None):
    promise = budget or inid.GaussianDP(0.5)
    s = inid.Sensitivity.box([1.0, 40.0], labels=[f"1{name}", f"2{name}"])
    mechanism = "laplace" if isinstance(promise, inid.PureDP) else "gaussian"  # named: searching takes longer
    made = inid.plan(s, promise, mechanism=mechanism, tolerance=tolerance)
    state = None
    if ledger:
        book = inid.Ledger(total=promise)
        book.charge(made)
        state = LedgerState.of(book)
    nothing = Estimate("std", name, name, None, None, None, None)
    return ReportInputs(
        title=name,
        plan=summarize_plan(made, [f"1{name}", f"2{name}"], tolerance),
        unit=name,
        question=[(name, name)],
        columns=[ColumnFacts(name, name, name, name)],
        blocks=[block("mean", name), EstimateBlock("std", name, (), (nothing,))] if blocks is None else blocks,
        time="2026-01-01 00:00:00 UTC",
        private=private,
        charge=None if state is None else 1,
        ledger=state,
        digest=name,
    )


def test_ranges_of_several_noisy_numbers_hold_at_least_as_often_as_stated():
    assert "with probability at least 95 %" in page(inputs())
    assert "with probability 95 %" in page(inputs(blocks=[block("count", "")]))


def test_the_page_is_well_formed_and_holds_everything():
    given_inputs = inputs()
    found = outline(page(given_inputs))
    words = ("The numbers", "What is promised", "This release and", "What was asked", "Technical part", "Certificate")
    for word in (*words, "41.25", "40.50 to 42.00", "95 %"):
        assert word in found.text
    assert given_inputs.plan.noise.sensitivity.fingerprint in found.text
    assert found.tags >= {"svg", "circle", "table"}


def body(text):
    """The text of a page without its style and its list of contents."""
    return outline(re.sub(r"<style>.*?</style>|<nav.*?</nav>", "", text, flags=re.DOTALL)).text


def test_what_was_published_and_the_promise_come_first_and_the_technical_part_last():
    made = page(inputs())
    assert made.index("<h2>What was published") < made.index("<h2>What is promised")
    text = body(made)
    words = ("What is promised", "The numbers", "Technical part", "What was asked", "Certificate")
    places = [text.rindex(word) for word in words]
    assert places == sorted(places)
    for symbol in ("μ", "differential privacy", "false alarm", "equal split", "currency", "charges"):
        assert symbol not in text[: places[2]]
    for symbol in ("μ", "differential privacy", "false alarm", "equal split"):
        assert symbol in text[places[2] :]


def test_the_picture_of_the_budget_shows_this_release_beside_others_and_what_is_left():
    book = inid.Ledger(total=inid.PureDP(3))
    s = inid.Sensitivity.box([1.0])
    charges = [book.charge(inid.plan(s, inid.PureDP(epsilon))).id for epsilon in (0.6, 0.9, 0.3)]
    state = LedgerState.of(book)
    assert [float(state.shares[charge]) for charge in charges] == pytest.approx([0.2, 0.3, 0.1])
    text = page(replace(inputs(), ledger=state, charge=charges[1]))
    for words in ("other releases: 30 %", "this release: 30 %", "left: 40 %", "40 %of the budget left"):
        assert words in body(text)
    assert 'class="taken" x="30%" width="30%"' in text
    assert "everything that the budget allows: about 95 % sure at most" in text  # the ledger's epsilon: 3
    shown = [float(at) for at in re.findall(r'class="dot (?:plan|spr)" cx="([0-9.]+)%" cy="9" r="6"', text)]
    beliefs = [belief_after(budget).sure for budget in (inid.PureDP(3), inid.GaussianDP(0.5))]
    assert shown == [Axis(0.5, 1.0).at(sure) for sure in beliefs]


def test_a_third_of_the_budget_is_called_a_third():
    book = inid.Ledger(total=inid.PureDP(3))
    charges = [book.charge(inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(1.0))).id for _ in range(2)]
    text = body(page(replace(inputs(), ledger=LedgerState.of(book), charge=charges[1])))
    for words in ("other releases: 1/3", "this release: 1/3", "left: 1/3", "1/3of the budget left"):
        assert words in text


def test_groups_that_are_all_near_0_make_somebody_look_at_the_keys():
    def counts(*ends):
        rows = tuple(Estimate("count", "", "", (a + b) / 2, a, b, 1.0) for a, b in ends)
        return EstimateBlock("count", "", (Dimension("sex", tuple("FM"[: len(ends)])),), rows)

    asked = "Do the public keys match the data"
    assert asked in page(inputs(blocks=[counts((-2.0, 2.0), (-1.0, 3.0))]))
    assert asked not in page(inputs(blocks=[counts((-2.0, 2.0), (1.0, 3.0))]))
    assert asked not in page(inputs(blocks=[block("count", "")]))


def test_many_counts_are_shaded_and_what_is_too_noisy_is_dimmed():
    many = page(inputs(blocks=[block("histogram", "k", 4, 4)]))
    assert {f"heat{k}" for k in re.findall(r'"n heat(\d)"', many)} == {"heat4", "heat5"}  # 41.25 to 56.25
    means = page(inputs(blocks=[block("mean", "k", 4, 4)]))  # from the least of them to the largest
    assert {f"heat{k}" for k in re.findall(r'"n heat(\d)"', means)} == {f"heat{k}" for k in range(6)}
    assert '"n heat' not in page(inputs(blocks=[block("mean", "k", 3, 3)]))
    wide = EstimateBlock("mean", "age", (), (Estimate("mean", "age", "", 1.0, -9.0, 9.0, 4.0, too_noisy=True),))
    assert '<tr class="dim">' in page(replace(inputs(blocks=[wide]), too_noisy=0.5))
    assert '<tr class="dim">' not in page(inputs())


def test_an_axis_stands_under_the_intervals_of_groups():
    assert '<tfoot><tr><td colspan="3">' in page(inputs(blocks=[block("mean", "k", 3)]))


def test_two_keys_make_a_cross_table_with_the_shorter_one_across():
    text = page(inputs(blocks=[block("mean", "k", 2, 5)]))
    table = re.search(r'<table class="cross">.*?</table>', text, re.DOTALL).group(0)
    rows = re.findall(r"<tr>(.*?)</tr>", table)
    assert re.findall(r'<th class="n" scope="col">(.*?)</th>', rows[1]) == ["k00", "k01"]
    # Released in the order (0, 0), (0, 1), ...: the third row of the table holds numbers 2 and 7.
    assert re.findall(r'scope="row">(.*?)</th>', rows[4]) == ["k12"]
    assert [float(cell) for cell in re.findall(r'">([\d.]+)<span', rows[4])] == [43.25, 48.25]
    outline(text)


def test_one_key_and_three_keys_make_rows_and_histograms_bars():
    one = page(inputs(blocks=[block("histogram", "k", 3)]))
    assert one.count('class="bar count"') == 3
    assert "Number of rows by k0" in one
    three = page(inputs(blocks=[block("mean", "k", 2, 2, 2)]))
    assert 'class="cross"' not in three
    assert three.count('<th class="name" scope="row">k00</th>') == 4
    assert 'class="cross"' not in page(inputs(blocks=[block("mean", "k", 20, 20)]))


def test_the_page_needs_nothing_from_elsewhere():
    text = page(inputs())
    assert "://" not in text
    assert "@import" not in text
    assert re.findall(r"url\(", text) == []
    assert "script" not in outline(text).tags


@settings(max_examples=30)
@given(st.text(alphabet="<>&\"'/=ab \u00e9", min_size=1, max_size=30))
def test_no_name_becomes_markup(name):
    # Under pure epsilon: comparing Laplace noise along its curve, sixty times, takes long and adds no names.
    usual, odd = (
        outline(
            page(
                inputs(
                    n,
                    budget=inid.PureDP(1),
                    blocks=[block("mean", n), block("mean", n, 2, 2), block("histogram", n, 2)],
                )
            )
        )
        for n in ("age", name)
    )
    assert odd.tags == usual.tags
    assert odd.attributes == usual.attributes
    assert name in odd.text


def test_without_a_ledger_or_without_privacy_the_page_warns():
    text = page(inputs(ledger=False, private=False))
    assert "nobody keeps count" in text
    assert "Not private" in text
    assert "Not private" not in page(inputs())


def test_a_plan_has_a_page_too():
    text = outline(page(ReportInputs("Two numbers", inputs().plan))).text
    assert "nothing was released" in text
    assert "The numbers" not in text
    assert "What was published" not in text


def test_the_charge_is_the_number_of_its_receipt_whoever_charged_meanwhile(tmp_path):
    """Reports are written late, from the release: others may have charged the ledger by then, or it is not at hand."""
    table = inid.tables.Table(pd.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
    ledger, path = inid.Ledger(total=inid.PureDP(5)), tmp_path / "report.html"
    keys = inid.Ledger(total=inid.ApproxDP(9.0, 1e-6), reserve=1e-7)
    found = table.select_partitions("age", delta=1e-8, kind="int")
    queries = [(table.statistics(mean=["age"]), ledger), (table.quantiles({"age": [0.5]}), ledger)]
    queries += [(found, keys), (table.largest_group({"age": [31, 44]}), keys)]
    results = []
    for _ in range(2):
        results += [(q.release(q.plan(inid.PureDP(1)), book), book) for q, book in queries]
    assert [result.release.charge for result, _ in results] == [1, 2, 1, 2, 3, 4, 3, 4]
    for result, book in results:
        assert result.to_dict()["release"]["charge"] == result.release.charge
        for shown in (book, None):
            result.report(path, ledger=shown)
            text = path.read_text(encoding="utf-8")
            assert f"This was charge {result.release.charge} of" in text
            assert "nobody keeps count" not in text
    query = table.statistics(mean=["age"])
    query.release(query.plan(inid.PureDP(1))).report(path, ledger=ledger)
    text = path.read_text(encoding="utf-8")
    assert "This was charge" not in text
    assert "nobody keeps count" in text


def test_a_ledger_that_still_has_room_is_shown_in_its_currencies():
    assert "<td>epsilon</td>" in page(inputs(budget=inid.PureDP(1)))
    assert "the whole promise" in page(inputs(budget=inid.ApproxDP(1, 1e-6)))


@pytest.mark.parametrize(
    "budget", [inid.PureDP(1), inid.ApproxDP(1, 1e-6), inid.GaussianDP(0.3), inid.ZCDP(0.1), inid.RenyiDP(9, 0.5)]
)
def test_no_python_is_shown(budget):
    text = outline(page(inputs(budget=budget, ledger=budget.kind != "RenyiDP"))).text
    for code in (f"{budget.kind}(", "epsilon=", "4,294,967,296", "True", "None"):
        assert code not in text


def written(query, budget, path):
    query.release(query.plan(budget)).report(path)
    text = re.sub(r"<(style|svg).*?</\1>|<[^>]+>", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.sub(r"\s+", " ", text)


def test_the_page_names_the_rows_for_which_its_errors_are(tmp_path):
    """A hundred times as many rows as assumed: the range says so, and the plan's figure names its rows."""
    frame = pd.DataFrame({"age": [31.0, 44.0] * 50_000})
    for rows, words in ((None, "1,000 rows in total, a default"), (90_000, "90,000 rows in total, the stated guess")):
        query = tables.Table(frame, bounds={"age": (0, 100)}, rows=rows).statistics(count=True, mean=["age"])
        text = written(query, inid.PureDP(1.0), tmp_path / "report.html")
        assert words in text[text.index("Standard deviation of the noise of each number") :]
    assert "rows in total" not in page(inputs())


def test_two_comparisons_on_one_page_do_not_read_as_one(tmp_path):
    """Tables are answered by other numbers than their cells: an equal split over those is not that of the headline."""
    frame = pd.DataFrame({name: [0, 1] for name in ("sex", "race", "job", "age")})
    table = tables.Table(frame, domains={name: [0, 1] for name in frame}, bounds={"age": (0, 20)})
    asked = [groups for number in (0, 1, 2) for groups in itertools.combinations(frame, number)]
    many = written(table.marginals(asked), inid.GaussianDP(1.0), tmp_path / "a.html")
    assert re.search(r"[2-9]\.\d\d× error of the answers with an equal split of the budget", many)
    assert "equal split over these numbers 1." in many
    assert "Expected squared error of other noise on the numbers that this plan releases" in many
    ordered = written(table.quantiles({"age": [0.5]}), inid.PureDP(1.0), tmp_path / "b.html")
    assert "error of the answers with noise on the count of each value, this plan = 1" in ordered
    plain = written(table.statistics(count=True, mean=["age"]), inid.PureDP(1.0), tmp_path / "c.html")
    assert "× error of an equal split of the budget, this plan = 1" in plain
    assert "Expected squared error of every way to keep the promise" in plain
