"""The exit code against the ledger's books: for every kind of question, every way to fail, with and without a ledger.

Whoever runs `inid release` from a script learns from the exit code alone whether the release was paid for.
"""

import re

import pytest

import inid
from command_line import HIDDEN, folder, run  # noqa: F401 - a fixture
from inid.jobs import ReleasedJob
from inid.noise import RandomSource
from inid.tables import EngineError
from internals import module_with

release_command = module_with("inid.cli.commands", "release")

PEOPLE = "people.csv --bounds age=0:100,income=0:500000 --domains sex=F,M --domains age=0:100"
QUESTIONS = {
    "count": "--count",
    "statistics": "--count --sum income --mean age --variance age --std income",
    "by": "--mean age,income --by sex=F,M",
    "people": "--count-distinct --person user_id --max-rows 2 --unit person",
    "histogram": "--histogram age=0,50,100 --histogram sex=F,M",
    "covariance": "--covariance age,income",
    "marginals": "--marginals sex",
    "tidy marginals": "--marginals sex --tidy --integers --combine \"gap=count(sex='F') - count(sex='M')\"",
    "means by tables": "--mean 'income by sex'",
    "sums by tables": "--sum 'income by sex'",
    "several groupings": "--mean income --by sex --by age",
    "counts and means": "--count --mean income --by sex --by age",
    "quantile": "--quantile age=0.25,0.5",
    "cdf": "--cdf income",
    "cumulative": "--cumulative age",
    "discovery": "--discover sex --discover-delta 1e-8",
    "choice": "--choose sex=F,M",
}
LEDGERS = {"without a ledger": "", "with a ledger": "--ledger budget.db"}


def charges():
    if not inid.Ledger.names("budget.db"):
        return []
    with inid.Ledger.open("budget.db") as ledger:
        return ledger.history()


@pytest.fixture
def books(folder, request):  # noqa: F811
    """A ledger with one charge in it, that has room for more."""
    parameters = request.node.callspec.params if hasattr(request.node, "callspec") else {}
    unit = "person" if "--person" in parameters.get("asked", "") else "row"
    total = inid.ApproxDP(epsilon=9.0, delta=1e-6)
    with inid.Ledger.open("budget.db", total=total, unit=unit, reserve=1e-7) as ledger:
        ledger.charge(inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(1.0)), label="an earlier one")
    return folder


def check(result, code, number, *, says=()):
    """The code, and that the message and the books agree on the charge; `number` is None where none was made."""
    assert result.exit_code == code, result.output
    assert HIDDEN not in result.output
    assert [record.id for record in charges()] == list(range(1, (number or 1) + 1))
    named = re.findall(r"[Cc]harge (\d+) of the ledger stands", result.stderr)
    assert named == ([] if code == 0 or number is None else [str(number)]), result.stderr
    assert all(word in result.stderr for word in says), result.stderr


asked = pytest.mark.parametrize("asked", QUESTIONS.values(), ids=QUESTIONS)
booked = pytest.mark.parametrize("ledger", LEDGERS.values(), ids=LEDGERS)


@asked
@booked
def test_what_is_answered_is_charged_and_fine(books, asked, ledger):
    result = run(f"release {PEOPLE} {asked} --epsilon 1 {ledger} --out r.csv --record r.json --report r.html")
    check(result, 0, 2 if ledger else None)
    assert {"r.csv", "r.json", "r.html"} <= {path.name for path in books.iterdir()}
    page = (books / "r.html").read_text(encoding="utf-8")
    assert ("This was charge 2 of a ledger" in page) == bool(ledger)


@asked
def test_what_is_refused_is_not_charged(books, asked):
    line = f"release {PEOPLE} {asked} --ledger budget.db"
    check(run(f"{line} --epsilon 20"), 3, None)
    check(run(f"{line} --epsilon 1 --neighbours replace"), 2, None)
    if asked != QUESTIONS["statistics"]:
        return
    check(run(f"{line} --epsilon 1 --out missing/r.csv"), 5, None)
    for wrong in ("--out budget.db", "--level 2", "--delta 0", "--bounds nobody=0:1 --mean nobody", "--no-such-option"):
        check(run(f"{line} --epsilon 1 {wrong}"), 2, None)


FAILURES = {
    "engine": EngineError("DuckDB could not run the query."),
    "argument": inid.ArgumentError("wrong."),
    "budget": inid.BudgetError("the connection was lost."),
    "guarantee": inid.GuaranteeError("broken."),
    "file": OSError(28, "No space left on device", "spill"),
    "unexpected": ValueError(f"could not convert {HIDDEN}"),
    "memory": MemoryError(),
}


def failing(error):
    def fails(*_args, **_named):
        raise error

    return fails


@asked
@booked
def test_what_fails_while_noise_is_drawn_is_charged_and_unanswered(books, asked, ledger, monkeypatch):
    monkeypatch.setattr(RandomSource, "fill", failing(EngineError("it broke.")))
    monkeypatch.setattr(RandomSource, "bits", failing(EngineError("it broke.")))
    result = run(f"release {PEOPLE} {asked} --epsilon 1 {ledger} --out r.csv")
    check(result, 6, 2 if ledger else None, says=["it broke."] if ledger else ["No ledger was charged"])
    assert not (books / "r.csv").exists()


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        *((question, FAILURES["engine"]) for question in QUESTIONS.values()),
        *((QUESTIONS["means by tables"], error) for error in FAILURES.values()),
    ],
)
def test_a_charge_whose_receipt_is_lost_is_found_in_the_books(books, asked, error, monkeypatch):
    """The worst moment: the ledger has committed, and the failure comes before the release learns of it."""
    charge = inid.Ledger.charge

    def lost(*args, **named):
        charge(*args, **named)
        raise error

    monkeypatch.setattr(inid.Ledger, "charge", lost)
    check(run(f"release {PEOPLE} {asked} --epsilon 1 --ledger budget.db"), 6, 2)


@pytest.mark.parametrize("error", FAILURES.values(), ids=FAILURES)
@booked
def test_a_failure_before_the_charge_charges_nothing(books, ledger, error, monkeypatch):
    codes = {"EngineError": 5, "OSError": 5, "ValueError": 1, "MemoryError": 1, "GuaranteeError": 4}
    expected = codes.get(type(error).__name__, 2)
    with monkeypatch.context() as patched:
        patched.setattr(release_command, "plan_job", failing(error))
        check(run(f"release {PEOPLE} --count --epsilon 1 {ledger}"), expected, None)
    refused = 3 if isinstance(error, inid.BudgetError) else expected
    with monkeypatch.context() as patched:
        patched.setattr(inid.tables.Query, "check", failing(error))
        check(run(f"release {PEOPLE} --count --epsilon 1 {ledger}"), refused, None)


def test_a_refusal_is_not_taken_for_the_charge_of_another_process(books, monkeypatch):
    """Two that release the same at the same time: the one that is refused was not charged, though the books grew."""
    charge = inid.Ledger.charge

    def raced(self, *args, **named):
        with inid.Ledger.open("budget.db") as other:
            charge(other, *args, **named)
        raise inid.BudgetError("the budget has no room.")

    monkeypatch.setattr(inid.Ledger, "charge", raced)
    result = run(f"release {PEOPLE} --count --epsilon 1 --ledger budget.db")
    assert (result.exit_code, len(charges())) == (3, 2)
    assert "stands" not in result.stderr


def test_where_the_books_cannot_be_read_it_is_taken_as_charged(books, monkeypatch):
    def gone(*_args, **_named):
        (books / "budget.db").rename(books / "away.db")
        raise inid.BudgetError("the connection was lost.")

    monkeypatch.setattr(inid.Ledger, "charge", gone)
    result = run(f"release {PEOPLE} --count --epsilon 1 --ledger budget.db")
    assert result.exit_code == 6
    assert "take it as charged" in result.stderr


INTERRUPTS = {
    "planning": (lambda m: m.setattr(release_command, "plan_job", failing(KeyboardInterrupt())), False),
    "checks": (lambda m: m.setattr(inid.tables.Query, "check", failing(KeyboardInterrupt())), False),
    "the charge": (lambda m: m.setattr(inid.Ledger, "charge", failing(KeyboardInterrupt())), False),
    "noise": (lambda m: m.setattr(RandomSource, "fill", failing(KeyboardInterrupt())), True),
    "writing": (lambda m: m.setattr(release_command, "write_atomically", failing(KeyboardInterrupt())), True),
    "printing": (lambda m: m.setattr(release_command, "print_estimates", failing(KeyboardInterrupt())), True),
}


@pytest.mark.parametrize("moment", INTERRUPTS)
@booked
def test_an_interruption_says_whether_it_was_charged(books, ledger, moment, monkeypatch):
    stop, charged = INTERRUPTS[moment]
    stop(monkeypatch)
    if moment == "the charge" and not ledger:
        return
    result = run(f"release {PEOPLE} --count --epsilon 1 {ledger} --out r.csv")
    check(result, 130, 2 if ledger and charged else None)
    assert ("o ledger was charged" in result.stderr) == (not ledger or not charged)


@asked
def test_an_interruption_between_commit_and_receipt_says_so(books, asked, monkeypatch):
    charge = inid.Ledger.charge

    def lost(*args, **named):
        charge(*args, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(inid.Ledger, "charge", lost)
    check(run(f"release {PEOPLE} {asked} --epsilon 1 --ledger budget.db"), 130, 2)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), ZeroDivisionError()], ids=["disk", "bug"])
@pytest.mark.parametrize("broken", ["write_atomically", "page", "print_estimates"])
@booked
def test_an_answer_that_is_not_where_it_was_wanted_is_charged(books, ledger, broken, error, monkeypatch):
    monkeypatch.setattr(ReleasedJob if broken == "page" else release_command, broken, failing(error))
    line = f"release {PEOPLE} --count --mean age --epsilon 1 {ledger} --out r.csv --report r.html"
    result = run(line)
    check(result, 6, 2 if ledger else None)
    if broken != "print_estimates":
        assert result.stdout.splitlines()[0].startswith("statistic,column,")


@pytest.mark.parametrize("command", ["plan", "compare"])
def test_other_commands_are_interrupted_with_130_too(folder, command, monkeypatch):  # noqa: F811
    plan_command = module_with("inid.cli.commands", "plan")

    monkeypatch.setattr(plan_command, "plan_job", failing(KeyboardInterrupt()))
    result = run(f"{command} people.csv --count --epsilon 1")
    assert (result.exit_code, result.stderr) == (130, "inid: stopped: no ledger was charged.\n")
