"""`inid plan`, `compare` and `accuracy`: promises, units, orders, files of options."""

import json

import pytest

import inid
from command_line import QUESTION, folder, run

__all__ = ["folder"]


def test_the_file_says_the_same_as_flags(folder):
    flags = f"{QUESTION} --epsilon 1 --delta 1e-6"
    by_flags, by_file = run(f"plan {flags} --json"), run("plan --config release.toml --json")
    assert by_flags.exit_code == by_file.exit_code == 0
    assert json.loads(by_flags.stdout) == json.loads(by_file.stdout)
    flag_wins = json.loads(run("plan --config release.toml --epsilon 2 --json").stdout)
    assert flag_wins["plan"]["budget"] == {"kind": "PureDP", "epsilon": 2.0}  # Laplace noise makes no use of the delta
    assert run("compare --config release.toml").exit_code == 0
    answer = run("accuracy --config release.toml")
    assert answer.exit_code == 2  # the sizes of groups decide what it costs
    assert "--group-rows" in answer.stderr
    # Where the results of a release go is not where a plan goes.
    assert not (folder / "result.csv").exists()


def test_a_plan_can_be_drawn_before_anything_is_spent(folder):
    assert run("plan --config release.toml --report plan.html --out plan.json").exit_code == 0
    text = (folder / "plan.html").read_text(encoding="utf-8")
    assert "nothing was released" in text
    assert "mean(income)" in text
    assert not (folder / "survey.db").exists()
    assert not (folder / "report.html").exists()
    assert run("plan --config release.toml --report plan.json --out plan.json").exit_code == 2


@pytest.mark.parametrize(
    ("text", "word"),
    [("colour = 1", "colour"), ("= broken", "TOML"), ("epsilon = [1, 2]\nsensitivity = [1]", "--epsilon")],
)
def test_a_wrong_file_is_usage(folder, text, word):
    (folder / "wrong.toml").write_text(text, encoding="utf-8")
    result = run("plan --config wrong.toml")
    assert result.exit_code == 2
    assert word in result.stderr
    assert run("plan --config absent.toml").exit_code == 2


def test_accuracy_of_a_table_reaches_its_tolerance(folder):
    """The cost found must reach the tolerance: released at that cost, the count misses it in at most 5 % of cases."""
    line = "people.csv --bounds age=0:100 --count --sum age --tolerance count=10,age=2 --rows 400"
    document = json.loads(run(f"accuracy {line} --json").stdout)
    assert document["plan"]["budget"]["kind"] == "PureDP"
    labels = document["plan"]["sensitivity"]["labels"]
    scale = document["plan"]["scales"][labels.index("count")]
    # P(|Laplace| > 10) = exp(-10 / scale), and every sum was given its part of the failure.
    assert 2.718281828 ** (-10 / scale) <= 0.05


def test_all_promises_and_units(folder):
    for promise in ("--epsilon 1", "--epsilon 1 --delta 1e-6", "--mu 0.3", "--rho 0.1"):
        assert run(f"plan --sensitivity 1,3 {promise}").exit_code == 0
    person = "release people.csv --bounds age=0:100 --sum age --person user_id --max-rows 2 --epsilon 0.5"
    assert run(f"{person} --ledger people.db --order-by income --json").exit_code == 0
    with inid.Ledger.open("people.db", unit="user_id") as ledger:
        assert ledger.unit == "user_id"
    rows = "release people.csv --bounds age=0:100 --sum age --epsilon 0.5 --ledger people.db"
    result = run(rows)
    assert result.exit_code == 2
    assert "--person" in result.stderr
    other = run(f"{person} --neighbours replace --ledger people.db")
    assert other.exit_code == 2
    assert "neighbours" in other.stderr


def test_a_table_is_planned_for_an_error_of_any_order_and_for_stated_rows(folder):
    line = "people.csv --bounds age=0:100,income=0:500000 --sum age,income --missing age=0,income=0 --epsilon 1"
    line += " --mechanism laplace"
    plans = {order: json.loads(run(f"plan {line} --order {order} --json").stdout)["plan"] for order in (1, 2)}
    assert [plan["order"] for plan in plans.values()] == [1, 2]
    assert plans[1]["scales"] != plans[2]["scales"]
    assert "error of order 1" in run(f"plan {line} --order 1 --tolerance age=1,income=9").stdout
    (folder / "rows.toml").write_text("table_max_rows = 500\norder = 1\n", encoding="utf-8")
    stated = json.loads(run(f"plan {line} --config rows.toml --json").stdout)["plan"]
    assert stated["order"] == 1
    # So few rows have sums that floats hold exactly: no part of the sensitivity is for rounding.
    assert stated["sensitivity"]["limits"][1] == 50 < plans[1]["sensitivity"]["limits"][1]
    assert (
        run(f"plan {line} --table-max-rows 500 --json").stdout == run(f"plan {line} --table-max-rows 5e2 --json").stdout
    )
    assert run(f"release {line} --table-max-rows 500 --report rows.html").exit_code == 0
    assert "rows at most" in (folder / "rows.html").read_text(encoding="utf-8")


def test_a_guess_at_the_rows_is_asked_for_only_where_none_was_stated(folder):
    line = "plan people.csv --bounds age=0:100 --mean age --epsilon 1"
    assert "errors for 1,000 rows in all; state your own guess with --rows" in run(line).stdout
    assert "errors for 2,000 rows in all\n" in run(f"{line} --rows 2000").stdout
