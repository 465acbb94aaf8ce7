"""One token, one charge: whoever presses twice, reloads, restarts or crashes pays once, and knows what was paid."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

import inid
from command_line import run, sqlite_charges
from inid.jobs import stored_settings
from inid.report import LedgerState
from inid.studio import FILES
from inid.tables import EngineError
from inid.tables.engines import DuckDB
from internals import module_with
from studio_client import FORM, HIDDEN, open_page, write_people

released_job = module_with("inid.jobs", "ReleasedJob")
releases = module_with("inid.studio", "Outcome")

PAID = FORM | {"ledger": "budget.db"}


@pytest.fixture
def home(tmp_path, monkeypatch):
    write_people(tmp_path)
    monkeypatch.chdir(tmp_path)
    page = open_page(tmp_path)
    page.ask("ledger", ledger="budget", epsilon="3", delta="1e-6", unit="")
    return tmp_path


def folders(home):
    return sorted((home / "inid-releases").iterdir()) if (home / "inid-releases").is_dir() else []


def test_a_release_is_charged_written_and_verified(home):
    page = open_page(home)
    before = page.ask("plan", form=PAID)
    assert "0 % spent by 0 charges" in before["html"]["ledger"]
    asked = page.ask("prepare", form=PAID)
    assert sqlite_charges("budget.db") == 0
    assert "cannot be taken back" in asked["html"]
    answer = page.ask("release", token=asked["token"])
    assert (answer["state"], sqlite_charges("budget.db")) == ("done", 1)
    (place,) = folders(home)
    assert {path.name for path in place.iterdir()} == set(FILES)
    assert run(f"verify {place / 'record.json'}").exit_code == 0
    record = json.loads((place / "record.json").read_text(encoding="utf-8"))
    assert record["release"]["plan"] == before["figures"]["plan"]
    for name, kind in FILES.items():
        sent = page.client.get(f"/download/{answer['token']}/{name}")
        assert sent.status_code == 200
        assert sent.content == (place / name).read_bytes()
        assert sent.headers["content-type"] == kind
        assert sent.headers["content-disposition"].startswith("attachment")
        assert HIDDEN not in sent.text
    assert page.client.get(f"/download/{answer['token']}/../../people.csv").status_code in (403, 404)
    assert page.client.get(f"/download/{answer['token']}/people.csv").status_code == 404
    listed = page.ask("releases")["html"]
    assert "released" in listed
    assert "mean of age and income, by sex: people.csv" in listed
    assert "This was charge 1 of the ledger" in answer["html"]


def test_the_written_job_does_the_same_by_the_command(home):
    page = open_page(home)
    page.ask("release", token=page.ask("prepare", form=PAID)["token"])
    (place,) = folders(home)
    assert run(f"release --config {place / 'job.toml'}").exit_code == 0
    assert sqlite_charges("budget.db") == 2
    mine, other = (json.loads(p.read_text(encoding="utf-8")) for p in (place / "record.json", home / "record.json"))
    assert mine["release"]["plan"] == other["release"]["plan"]
    assert (place / "command.sh").read_text(encoding="utf-8").startswith("inid release people.csv")
    compile((place / "script.py").read_text(encoding="utf-8"), "script.py", "exec")


def test_one_token_is_charged_once_also_at_the_same_time(home):
    page = open_page(home)
    token = page.ask("prepare", form=PAID)["token"]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: page.studio.releases.run(token), range(8)))
    assert sqlite_charges("budget.db") == 1
    assert len({id(one) for one in found}) == 1
    again = page.ask("release", token=token)
    assert again["html"] == page.ask("released", token=token)["html"]
    assert sqlite_charges("budget.db") == 1


def test_releases_of_one_second_are_listed_newest_first(home, monkeypatch):
    """Their tokens, which are random, would turn them round."""
    tokens = ["f" * 20, "0" * 20]
    left = iter(tokens)
    moments = iter([datetime(2027, 1, 31, 12, 0, 0, part, UTC) for part in (100, 200_000)])
    monkeypatch.setattr(releases, "secrets", SimpleNamespace(token_hex=lambda _: next(left)))
    monkeypatch.setattr(releases, "datetime", SimpleNamespace(now=lambda _: next(moments)))
    page = open_page(home)
    for token in tokens:
        assert page.ask("prepare", form=PAID)["token"] == token
        assert page.ask("release", token=token)["state"] == "done"
    before = home / "inid-releases" / f"2027-01-31-120000-{'9' * 20}"  # as names were, without parts of a second
    before.mkdir()
    (before / "job.toml").write_text("count = true\n", encoding="utf-8")
    found = open_page(home).studio.releases.all()
    assert [one.token for one in found] == [*reversed(tokens), "9" * 20]
    assert {one.when for one in found} == {"2027-01-31 12:00:00 UTC"}


def test_a_restart_charges_no_old_token_again(home):
    token = (page := open_page(home)).ask("prepare", form=PAID)["token"]
    unused = page.ask("prepare", form=PAID)["token"]
    page.ask("release", token=token)
    after = open_page(home)
    assert after.ask("release", token=token)["state"] == "done"
    assert "not known here" in after.ask("release", status=422, token=unused)["error"]
    for made_up in ("", "..", "x" * 20, None, 3, [token]):
        after.ask("release", status=422, token=made_up)
    assert sqlite_charges("budget.db") == 1
    warned = after.ask("prepare", form=PAID)["html"]
    assert "released 1 time before" in " ".join(warned.split())


class Killed(BaseException):
    """The process ends."""


def test_killed_after_the_charge_the_charge_stands_and_is_not_made_again(home, monkeypatch):
    page = open_page(home)
    token = page.ask("prepare", form=PAID)["token"]

    def charged_and_gone(planned, ledger):
        ledger.charge(planned.summary.noise, label=planned.job.ledger.label)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(released_job, "_published", charged_and_gone)
        with pytest.raises(Killed):
            page.studio.releases.run(token)
    after = open_page(home)
    listed = after.ask("releases")["html"]
    assert "the charge stands" in listed
    assert "Charge 1 of the ledger stands" in listed
    assert after.ask("release", token=token)["state"] == "charged"
    assert sqlite_charges("budget.db") == 1


def test_killed_before_the_charge_nothing_is_spent(home, monkeypatch):
    page = open_page(home)
    token = page.ask("prepare", form=PAID | {"ledger": "other.db"})["token"]

    def gone(*_args, **_named):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(releases, "release_job", gone)
        with pytest.raises(Killed):
            page.studio.releases.run(token)
    assert open_page(home).ask("release", token=token)["state"] == "uncharged"
    assert not (home / "other.db").exists()


def test_a_ledger_that_cannot_be_read_is_not_called_uncharged(home, monkeypatch):
    page = open_page(home)
    token = page.ask("prepare", form=PAID)["token"]

    def gone(*_args, **_named):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(releases, "release_job", gone)
        with pytest.raises(Killed):
            page.studio.releases.run(token)
    (home / "budget.db").write_bytes(b"nonsense" * 1000)
    assert "take it as charged" in open_page(home).ask("release", token=token)["html"]


def test_a_refusal_leaves_nothing_behind_and_says_why(home):
    page = open_page(home)
    spent = PAID | {"epsilon": "3"}
    token = page.ask("prepare", form=spent)["token"]
    assert page.ask("release", token=page.ask("prepare", form=PAID)["token"])["state"] == "done"
    answer = page.ask("release", token=token)  # another tab was faster
    assert answer["state"] == "refused"
    assert "the budget has no room" in answer["html"]
    assert (len(folders(home)), sqlite_charges("budget.db")) == (1, 1)
    assert "the budget has no room" in page.ask("prepare", status=422, form=spent)["error"]
    assert "the budget has no room" in page.ask("plan", form=spent)["html"]["ledger"]


def test_an_engine_that_fails_before_the_charge_says_so(home):
    page = open_page(home)
    token = page.ask("prepare", form=PAID)["token"]
    (home / "people.csv").unlink()
    answer = page.ask("release", token=token)
    assert (answer["state"], sqlite_charges("budget.db"), folders(home)) == ("refused", 0, [])
    assert "stands" not in answer["html"]


def test_an_engine_that_fails_after_the_charge_says_so(home, monkeypatch):
    page = open_page(home)
    token = page.ask("prepare", form=PAID)["token"]

    def fails(*_args):
        raise EngineError("DuckDB could not run the query.")

    monkeypatch.setattr(DuckDB, "run", fails)
    answer = page.ask("release", token=token)
    assert answer["state"] == "failed"
    assert "Charge 1 of the ledger stands" in answer["html"]
    assert sqlite_charges("budget.db") == 1
    assert open_page(home).ask("release", token=token)["state"] == "failed"


def test_a_ledger_is_made_once(home):
    page = open_page(home)
    assert "already" in page.ask("ledger", status=422, ledger="budget.db", epsilon="9", delta="", unit="")["error"]
    assert (
        "a total is missing" in page.ask("ledger", status=422, ledger="new.db", epsilon="", delta="", unit="")["error"]
    )
    page.ask("ledger", status=422, ledger="../new.db", epsilon="1", delta="", unit="")
    answer = page.ask("ledger", status=422, ledger="new.db", epsilon="1", delta="1e-6", unit="", reserve="some")
    assert "reserved for finding keys does not fit, got 'some'" in answer["error"]
    page.ask("ledger", ledger="found.db", epsilon="1", delta="1e-6", unit="", reserve="1e-7")
    assert float(stored_settings("found.db", "default").terms.reserve) == 1e-7
    with inid.Ledger.open("budget.db") as ledger:
        assert ledger.total == inid.ApproxDP(epsilon=3, delta=1e-6)


def test_without_a_ledger_it_warns_and_sensitivities_alone_are_not_released(home):
    page = open_page(home)
    assert "keep count of this release yourself" in page.ask("prepare", form=FORM)["html"]
    stated = {"sensitivity": ["1", "2"], "epsilon": "1"}
    assert "planned but not released" in page.ask("prepare", status=422, form=stated)["error"]


ORDER = {"table": "people.csv", "bounds": {"age": ["0", "100"]}, "quantile": {"age": "0.25, 0.5"}, "cdf": {"age": []}}
TABLES = {"table": "people.csv", "domains": {"sex": "F, M"}, "marginals": [["sex"]], "tolerance": {"sex": "2"}}


HISTOGRAM = {"table": "people.csv", "histogram": {"age": "0, 20, 40, 100", "sex": "F, M"}, "by": {"sex": "F, M"}}
COMBINED = TABLES | {"combine": {"gap": "count(sex='F') - count(sex='M')"}}
FOUND = {"table": "people.csv", "discover": "sex", "discover_delta": "1e-6", "count": True, "epsilon": "20"}
FOUND |= {"ledger": "found.db", "max_keys": "1"}
FORMS = {"statistics": FORM, "order": ORDER, "tables": TABLES, "histogram": HISTOGRAM, "combined": COMBINED}


@pytest.mark.parametrize("form", [*FORMS.values(), FOUND], ids=[*FORMS, "found"])
def test_after_a_restart_the_numbers_are_shown_from_the_record(home, form):
    page = open_page(home)
    token = page.ask("prepare", form={"epsilon": "1", "ledger": "budget.db"} | form)["token"]
    shown = page.ask("release", token=token)["html"]
    numbers = shown[shown.index('<div class="estimates">') :]
    assert "<table" in numbers
    again = open_page(home)
    before = again.ask("released", token=token)["html"]
    if form is ORDER:  # a long curve is shown in full
        numbers = numbers[
            numbers.index("<td", numbers.rindex(">share of rows up to the value<")) : numbers.rindex("</table>")
        ]
    assert numbers in before
    assert f'data-token="{token}"' in again.ask("releases")["html"]
    (place,) = folders(home)
    record = json.loads((place / "record.json").read_text(encoding="utf-8"))
    record["release"]["values"][0] += 1
    (place / "record.json").write_text(json.dumps(record), encoding="utf-8")
    changed = open_page(home).ask("released", token=token)["html"]
    assert "Its numbers are not shown: the record was changed after it was made" in changed
    assert "<table" not in changed
    assert sqlite_charges(form.get("ledger", "budget.db")) == 1


def test_after_a_restart_a_choice_is_shown_from_the_record(home):
    page = open_page(home)
    form = {"table": "people.csv", "choose": {"sex": "F, M"}, "epsilon": "1", "ledger": "budget.db"}
    shown = page.ask("release", token=(token := page.ask("prepare", form=form)["token"]))["html"]
    answer = shown[shown.index("<dt>The largest group") : shown.index("</dl>")]
    assert re.search("<dd>sex=[FM]</dd>", answer)
    assert "with probability 95 %" in answer
    assert answer in open_page(home).ask("released", token=token)["html"]


def test_after_a_release_the_page_does_not_refuse_the_next_one_as_an_error(home):
    """The same form again: it is paid for. Another form, or another tab, learns why it does not fit."""
    page = open_page(home)
    whole = PAID | {"epsilon": "3", "delta": "1e-6"}
    assert page.ask("release", token=page.ask("prepare", form=whole)["token"])["state"] == "done"
    after = page.ask("plan", form=whole, again=True)
    assert not after["affordable"]
    assert after["refusal"] == ""
    assert 'class="error"' not in after["html"]["ledger"]
    assert "0 % is left" in after["html"]["ledger"]
    assert "no room" in page.ask("prepare", status=422, form=whole)["error"]  # said to whoever tries it
    other = page.ask("plan", form=whole, again=False)
    assert 'class="error"' in other["html"]["ledger"]
    assert other["refusal"] != ""


def test_page_report_and_ledger_say_one_thing_of_what_is_left(home):
    page = open_page(home)
    assert "1/3 after this release" in page.ask("plan", form=PAID)["html"]["ledger"]
    asked = page.ask("prepare", form=PAID)
    assert "1/3 after" in asked["html"]
    shown = page.ask("release", token=asked["token"])["html"]
    with inid.Ledger.open("budget.db") as ledger:
        left = LedgerState.of(ledger).still_fits()
        assert ledger.room().currency == "epsilon"
    assert left == "Left for another release of this kind: ε = 2, 2/3 of the ledger."
    assert left in shown
    assert left in (folders(home)[0] / "report.html").read_text(encoding="utf-8")


def test_a_part_of_the_year_is_named_as_it_was_asked_for(home):
    """Whoever confirms a third reads "1/3"; whoever chose no part is shown where to take one, if the ledger has any."""
    page = open_page(home)
    page.ask("ledger", ledger="thirds", epsilon="3", delta="1e-6", unit="", currency="mu^2")
    for ledger, is_divided in (("budget.db", False), ("thirds.db", True)):
        shown = page.ask("plan", form=FORM | {"ledger": ledger})["html"]["ledger"]
        assert ('id="take-part"' in shown) == is_divided
    for part, words in (("1/3", "1/3"), ("rest", "the rest")):
        form = {key: value for key, value in FORM.items() if key not in ("epsilon", "delta")}
        form |= {"part": part, "ledger": "thirds.db"}
        assert 'id="take-part"' not in page.ask("plan", form=form)["html"]["ledger"]
        asked = page.ask("prepare", form=form)["html"]
        assert f"This spends <b>{words}</b> of the ledger <b>thirds.db</b> (μ = " in asked


def test_the_share_that_was_drawn_is_a_field_and_its_sentence_stands_with_the_numbers(home):
    page = open_page(home)
    answer = page.ask("release", token=page.ask("prepare", form=PAID | {"drawn": "0.02"})["token"])
    assert answer["state"] == "done"
    assert "covers the noise and the sampling error" in answer["html"]
    assert "simple random sample of 2 % of the population" in answer["html"]
    refused = page.ask("prepare", status=422, form=PAID | {"drawn": "1"})["error"]
    assert refused.startswith("Drawn share of the population does not fit")
