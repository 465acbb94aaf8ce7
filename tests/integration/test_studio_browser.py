"""The page in a real browser: the whole job by keyboard, live plans, refusals, one charge whatever is pressed."""

import json
import re
from pathlib import Path

import pytest
from sklearn.datasets import load_iris

import inid
from command_line import run, script, sqlite_charges
from inid.jobs import read_toml
from inid.report import plain_number
from studio_browser import Server, Tab, fill_question, planned, tab_to, wait_until, written_job
from studio_client import write_people

CHILD = Path(__file__).with_name("studio_children.py")


@pytest.fixture
def home(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    inid.Ledger.open("budget.db", total=inid.PureDP(epsilon=1.5)).close()
    return tmp_path


@pytest.fixture
def server(home):
    with Server(home, "people.csv", "--ledger", "budget.db", "--rows", "60", "--epsilon", "1") as made:
        yield made


def released(page):
    page.wait_for_selector("#outcome h3")
    return page.inner_text("#outcome h3")


def test_the_whole_job_on_a_public_table_by_keyboard_alone(browser, tmp_path, monkeypatch):
    iris = load_iris()
    monkeypatch.chdir(tmp_path)
    names = [name.removesuffix(" (cm)") for name in iris.feature_names]
    lines = [
        ",".join([*map(str, row), iris.target_names[kind]]) for row, kind in zip(iris.data, iris.target, strict=True)
    ]
    Path("iris.csv").write_text("\n".join([",".join([*names, "species"]), *lines]) + "\n", encoding="utf-8")
    with Server(tmp_path) as server, Tab(browser, server) as tab:
        page = tab.page
        tab_to(page, "#table")
        page.keyboard.type("iris")
        page.wait_for_selector('[aria-label="Pick sepal length"]')
        tab_to(page, "[name=unit]")
        page.keyboard.press("Space")
        for name in ("sepal length", "petal width", "species"):
            tab_to(page, f'[aria-label="Pick {name}"]')
            page.keyboard.press("Space")
        for name in ("sepal length", "petal width"):
            for kind, text in (("Lower limit", "0"), ("Upper limit", "9")):
                tab_to(page, f'[aria-label="{kind} of {name}"]')
                page.keyboard.type(text)
        tab_to(page, '[aria-label="Public values of species"]')
        page.keyboard.type("setosa, versicolor, virginica")
        tab_to(page, '[data-key="rows"]')
        page.keyboard.type("150")
        for name in ("sepal length", "petal width"):
            tab_to(page, f'[aria-label="mean of {name}"]')
            page.keyboard.press("Space")
        tab_to(page, '[aria-label="Group by species"]')
        page.keyboard.press("Space")
        for name in ("sepal length", "petal width"):
            tab_to(page, f'[aria-label="Tolerance of {name}"]')
            page.keyboard.type("0.1")
        for field, text in (("file", "flowers"), ("epsilon", "2"), ("delta", "1e-6")):
            tab_to(page, f"#ledger-{field}")
            page.keyboard.type(text)
        tab_to(page, "#make-ledger")
        page.keyboard.press("Enter")
        wait_until(lambda: page.input_value("#ledger") == "flowers.db")
        before = planned(page)
        tab_to(page, "#size")
        page.keyboard.press("ArrowLeft")
        assert planned(page) != before
        tab_to(page, "#ask-release")
        page.wait_for_selector("#ask-release:enabled")
        page.keyboard.press("Enter")
        page.wait_for_selector("dialog[open]")
        tab_to(page, "#do-release")
        page.keyboard.press("Enter")
        assert released(page).startswith("Released")
        for name in ("result.csv", "record.json", "report.html", "job.toml", "command.sh", "script.py"):
            tab_to(page, f'#outcome [download="{name}"]')
            with page.expect_download() as waiting:
                page.keyboard.press("Enter")
            waiting.value.save_as(tmp_path / "downloads" / name)
        shown = page.inner_text("#outcome")
    proved = run("verify downloads/record.json")
    assert proved.exit_code == 0, proved.stderr
    record = json.loads(Path("downloads/record.json").read_text(encoding="utf-8"))
    assert len(record["answers"]) == 6
    assert all(key in shown for key in ("setosa", "versicolor", "virginica"))
    assert sqlite_charges("flowers.db") == 1
    assert script("release --config downloads/job.toml --quiet").returncode == 0


def test_the_slider_moves_the_chart_and_the_figures_are_those_of_the_command(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        seen = {}
        first = fill_question(page)
        page.focus("#size")
        for key in ("ArrowRight", "PageUp", "ArrowLeft"):
            page.keyboard.press(key)
            seen[page.input_value("#epsilon")] = planned(page)
        assert len({first, *seen.values()}) == 4
        for epsilon, text in seen.items():
            line = f"plan people.csv --mean age --bounds age=0:100 --rows 60 --epsilon {epsilon} --json"
            deviation = json.loads(run(line).stdout)["lines"][0]["deviation"]
            assert plain_number(deviation, 4) in text
        page.wait_for_selector("#curve-part svg", state="attached")
        assert page.get_attribute("#size", "aria-valuetext") == f"epsilon {page.input_value('#epsilon')}"


def test_a_spent_ledger_and_malformed_bounds_and_a_missing_file(browser, server, home):
    with Tab(browser, server) as tab:
        page = tab.page
        fill_question(page, epsilon="1.6")
        page.wait_for_selector("#ledger-part .error")
        assert "What still fits: epsilon alone (pure), 1.5" in page.inner_text("#ledger-part")
        assert page.is_disabled("#ask-release")
        assert "What still fits: epsilon alone (pure), 1.5" in page.inner_text("#release-reason")
        page.fill("#epsilon", "1")
        page.wait_for_selector("#ask-release:enabled")
        page.fill('[aria-label="Upper limit of age"]', "young")
        page.wait_for_selector("#error:visible")
        assert "Limits of age does not fit, got 'young'" in page.inner_text("#error")
        assert page.inner_text("#release-reason") == page.inner_text("#error")
        assert page.is_disabled("#ask-release")
        page.fill('[aria-label="Upper limit of age"]', "100")
        page.wait_for_selector("#error", state="hidden")
        (home / "people.csv").unlink()
        page.fill("#epsilon", "1.1")
        page.wait_for_selector("#error:visible")
        assert "there is no file" in page.inner_text("#error")
    assert sqlite_charges("budget.db") == 0


def test_a_double_click_and_reloads_charge_once(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        fill_question(page, epsilon="0.5")
        page.click("#ask-release")
        page.wait_for_selector("dialog[open]")
        page.evaluate("() => { const b = find('do-release'); b.click(); b.disabled = false; b.click(); release(); }")
        assert released(page).startswith("Released")
        shown = page.inner_text("#outcome")
        for _ in range(2):
            page.reload()
            page.wait_for_selector("body[data-ready]")
            assert released(page).startswith("Released")
            assert page.inner_text("#outcome") == shown
        assert page.input_value('[aria-label="Upper limit of age"]') == "100"  # the form is kept, too
        page.click("#earlier summary")
        assert page.locator("#releases-part .earlier.done").count() == 1
    assert sqlite_charges("budget.db") == 1


def test_of_two_tabs_the_second_is_refused_where_the_budget_ends(browser, server):
    with Tab(browser, server) as tab:
        first, second = tab.page, tab.opened()
        for page in (first, second):
            fill_question(page, epsilon="1")
            page.wait_for_selector("#ask-release:enabled")
            page.click("#ask-release")
            page.wait_for_selector("dialog[open]")
        first.click("#do-release")
        assert released(first).startswith("Released")
        second.click("#do-release")
        assert released(second) == "Not released"
        assert "the budget has no room" in second.inner_text("#outcome")
        second.wait_for_selector("#ask-release:disabled")
    assert sqlite_charges("budget.db") == 1


def test_a_server_that_is_killed_between_charge_and_answer_has_charged_once(browser, home):
    words = ("people.csv", "--ledger", "budget.db", "--rows", "60", "--epsilon", "1")
    with Server(home, *words, child=CHILD) as dying:
        tab = Tab(browser, dying)
        fill_question(tab.page)
        tab.page.wait_for_selector("#ask-release:enabled")
        tab.page.click("#ask-release")
        tab.page.wait_for_selector("dialog[open]")
        tab.page.click("#do-release")
        tab.page.wait_for_selector("#release-error:visible")
        assert "If it was charged, the charge stands" in tab.page.inner_text("#release-error")
        token = tab.page.url.partition("#")[2]
        assert dying.wait() != 0
        assert sqlite_charges("budget.db") == 1
    with Server(home, *words, "--port", str(dying.port)) as again:
        # The page that is still open belongs to the studio that is gone: it can charge nothing here.
        tab.page.evaluate("release()")
        wait_until(lambda: tab.page.is_visible("#closed"))
        tab.context.close()
        with Tab(browser, again, f"/#{token}") as fresh:
            fresh.page.wait_for_selector("#releases-part .earlier.charged")
            listed = fresh.page.inner_text("#releases-part")
            assert "Charge 1 of the ledger stands" in listed
            assert "It is not charged again" in listed
            answer = fresh.page.evaluate("token => ask('release', { token })", token)
            assert answer["state"] == "charged"
    assert sqlite_charges("budget.db") == 1


def test_the_demonstration_compares_with_the_truth_and_stops_clean(browser, tmp_path):
    with Server(tmp_path, "--demo") as server:
        with Tab(browser, server) as tab:
            assert "mean(mean radius)" in planned(tab.page)
            tab.page.click("#ask-release")
            tab.page.click("#do-release")
            assert released(tab.page).startswith("Released")
            found = re.search(r"(\d+) of 30 ranges hold the exact value", tab.page.inner_text("#outcome"))
            assert int(found[1]) >= 20  # 95 % each: fewer than 20 of 30 has probability below 1e-6
            folder = Path(tab.page.inner_text("#where"))
        assert server.stop() == 0
    assert not folder.exists()
    assert list(tmp_path.iterdir()) == []


def test_filters_and_computed_columns_go_the_same_way(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        page.click("#computed summary")
        page.fill("#derive", "older = age + 10")
        page.press("#derive", "Tab")
        page.wait_for_selector('[aria-label="mean of older"]')
        page.fill('[data-key="where"]', "sex == 'F'")
        assert "mean(older)" in fill_question(page, "older", "10", "110")
        page.wait_for_selector("#exports-part pre", state="attached")
        written = page.text_content("#exports-part code")
        page.click("#ask-release")
        page.click("#do-release")
        assert released(page).startswith("Released")
    assert "where = \"sex == 'F'\"" in written
    assert 'older = "age + 10"' in written
    assert sqlite_charges("budget.db") == 1


def test_the_explorer_allocates_and_compares(browser, server):
    with Tab(browser, server, "/explore") as tab:
        page = tab.page
        assert "income" in planned(page)
        made = inid.plan(inid.Sensitivity.box([1, 3, 40]), inid.ApproxDP(epsilon=1, delta=1e-6))
        for scale in made.scales:
            factor = 2**0.5 if made.mechanism == "laplace" else 1.0
            assert plain_number(float(scale) * factor, 4) in page.inner_text("#profile-part")
        gain = page.inner_text("#facts-part .fact b")
        page.select_option("#preset", "equal")
        planned(page)
        equal, promise = inid.Sensitivity.box([1.0] * 8), inid.ApproxDP(epsilon=1, delta=1e-6)
        split = inid.plan(equal, promise, mechanism="laplace", allocation="spr").error
        ratio = split / inid.plan(equal, promise).error  # joint noise gains also where all numbers are equal
        assert page.inner_text("#facts-part .fact b") == f"{ratio:.2f}×" != gain
        page.click("text=Every way to keep the promise")
        page.wait_for_selector("#ways-part table")
        assert "Gaussian, equal split" in page.inner_text("#ways-part")
        assert "Laplace, optimal" in page.inner_text("#ways-part")


def test_quantiles_and_distributions_are_asked_for_planned_and_released(browser, server, home):
    with Tab(browser, server) as tab:
        page = tab.page
        page.check('input[name="ask"][value="order"]')
        page.fill('[aria-label="Lower limit of age"]', "0")
        page.fill('[aria-label="Upper limit of age"]', "100")
        page.fill('[aria-label="Public values of sex"]', "F, M")
        page.fill('[aria-label="Quantiles of age"]', "0.25, 0.5")
        page.check('[aria-label="distribution of age"]')
        page.fill('[aria-label="Tolerance of running total of age, in rows"]', "4")
        page.check('[aria-label="Group by sex"]')
        assert "running count of age by sex" in planned(page)
        (home / "job.toml").write_text(written_job(page), encoding="utf-8")
        shown = page.inner_text("#chart-part")
        page.wait_for_selector("#ask-release:enabled")
        page.click("#ask-release")
        page.click("#do-release")
        assert released(page).startswith("Released")
        assert "probability" in page.inner_text("#outcome")
        page.reload()
        page.wait_for_selector("body[data-ready]")
        assert page.is_checked('[aria-label="distribution of age"]')
    job = read_toml(home / "job.toml")
    assert (job["quantile"], job["cdf"]) == ({"age": [0.25, 0.5]}, {"age": []})
    line = json.loads(run("plan --config job.toml --json").stdout)["lines"][0]
    assert line["tolerance"] == 4
    assert plain_number(line["deviation"], 4) in shown


def test_tables_of_counts_have_tolerances_and_an_aim(browser, server, home):
    with Tab(browser, server) as tab:
        page = tab.page
        page.check('input[name="ask"][value="marginals"]')
        for column, values in (("sex", "F, M"), ("age", "0:79")):
            page.fill(f'[aria-label="Public values of {column}"]', values)
        for at, names in enumerate((("sex", "age"), ("sex",)), 1):
            page.click(".add-table")
            for name in names:
                page.check(f'[aria-label="Table {at} by {name}"]')
        page.fill('[aria-label="Tolerance of counts by sex and age"]', "8")
        page.fill('[aria-label="Tolerance of counts by sex"]', "2")
        page.select_option('[data-key="objective"]', "sum")
        (home / "job.toml").write_text(written_job(page), encoding="utf-8")
        shown = page.inner_text("#chart-part")
        page.reload()
        page.wait_for_selector("body[data-ready]")
        assert page.is_checked('[aria-label="Table 1 by age"]')
        assert not page.is_checked('[aria-label="Table 2 by age"]')
        assert page.input_value('[aria-label="Tolerance of counts by sex and age"]') == "8"
    job = read_toml(home / "job.toml")
    assert (job["tolerance"], job["objective"]) == ({"sex*age": 8, "sex": 2}, "sum")
    for line in json.loads(run("plan --config job.toml --json").stdout)["lines"]:
        assert plain_number(line["deviation"], 4) in shown


def test_what_a_file_states_and_no_field_shows_is_said_and_stays(browser, home):
    text = 'table = "people.csv"\nmean = ["age"]\nallocation = "spr"\nepsilon = 1\n[bounds]\nage = [0, 100]\n'
    (home / "job.toml").write_text(text + '[weights]\n"mean(age)" = 2\n', encoding="utf-8")
    with Server(home, "--config", "job.toml") as server, Tab(browser, server) as tab:
        page = tab.page
        planned(page)
        assert "allocation = spr" in page.inner_text("#kept")
        written = written_job(page)
        assert 'allocation = "spr"' in written
        assert '"mean(age)" = 2' in written
        page.click("#leave-out")
        assert "spr" not in written_job(page)
        assert page.is_hidden("#kept")


def test_a_release_of_an_earlier_studio_is_shown_again(browser, home):
    words = ("people.csv", "--ledger", "budget.db", "--rows", "60", "--epsilon", "0.5")
    with Server(home, *words) as server, Tab(browser, server) as tab:
        fill_question(tab.page)
        tab.page.click("#ask-release")
        tab.page.click("#do-release")
        assert released(tab.page).startswith("Released")
        shown = tab.page.inner_text("#outcome .estimates")
    with Server(home, *words) as server, Tab(browser, server) as tab:
        tab.page.click("#earlier summary")
        tab.page.click("#releases-part .show")
        assert released(tab.page).startswith("Released")
        assert tab.page.inner_text("#outcome .estimates") == shown
    assert sqlite_charges("budget.db") == 1


def test_what_is_begun_and_not_finished_is_not_left_out_without_a_word(browser, server):
    with Tab(browser, server) as tab:
        page = tab.page
        fill_question(page)
        page.check('input[name="unit"][value="person"]')
        page.wait_for_selector("#error:visible")
        assert "The person column is missing" in page.inner_text("#error")
        page.wait_for_selector("#ask-release:disabled")
        page.check('input[name="unit"][value="row"]')
        page.click('[data-key="histogram"] .add')
        page.select_option(".pair select", "sex")
        page.wait_for_selector("#ask-release:enabled")
        page.click("#ask-release")
        page.wait_for_selector("#release-error:visible")
        assert "Histogram: a row is not filled in" in page.inner_text("#release-error")
        page.fill(".pair textarea", "F, M")
        planned(page)
        page.click("#ask-release")
        page.wait_for_selector("dialog[open]")
        page.click("#cancel")
    assert sqlite_charges("budget.db") == 0
