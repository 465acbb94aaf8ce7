"""Odd files of options: a clear error of usage or files, nothing charged, and nothing left beside the table."""

import pytest

import inid
from command_line import folder, run

__all__ = ["folder"]

BASE = {
    "table": '"people.csv"',
    "bounds": "{age = [0, 100]}",
    "mean": '["age"]',
    "epsilon": "1",
    "ledger": '"budget.db"',
}
ZERO, LOOP, LONG = '"a\\u0000b"', '"loop"', f'"{"x" * 300}"'
ODD = {
    "a number of 5,000 digits": {"epsilon": "1" + "0" * 5000},
    "no number": {"epsilon": "nan"},
    "an endless promise": {"epsilon": "inf"},
    "a date": {"epsilon": "1979-05-27"},
    "nothing": {"epsilon": "-0.0"},
    "a wide range": {"bounds": "{age = [-1e308, 1e308]}"},
    "nested names": {"mean": '[["age"]]'},
    "a deep condition": {"where": '"' + "(" * 3000 + "age > 1" + ")" * 3000 + '"'},
    "a deep list": {"mean": "[" * 3000 + "]" * 3000},
    "a terminal's own key": {'"\\u001b[2J"': "1"},
    "a terminal's own label": {"label": '"\\u001b[2J"'},
    **{
        f"{key} {what}": {key: value}
        for key in ("table", "ledger", "out", "report", "record")
        for what, value in {"a zero byte": ZERO, "too long": LONG, "a folder": '"."', "a number": "7"}.items()
    },
    **{f"{key} a loop of links": {key: LOOP} for key in ("table", "ledger")},
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_file_of_options_is_refused(folder, odd):
    (folder / "loop").symlink_to(folder / "loop")
    lines = (BASE | ODD[odd]).items()
    (folder / "options.toml").write_text("".join(f"{key} = {value}\n" for key, value in lines), encoding="utf-8")
    before = set(folder.iterdir())
    result = run("release --config options.toml")
    assert result.exit_code in (2, 5), result.stderr
    assert result.stdout == ""
    assert "\x1b" not in result.stderr
    assert "unexpected" not in result.stderr
    assert set(folder.iterdir()) == before


def test_a_file_in_place_of_a_loop_of_links(folder):
    """A loop leads nowhere: the result takes its place, as it takes that of an older file."""
    (folder / "loop").symlink_to(folder / "loop")
    result = run("release people.csv --bounds age=0:100 --mean age --epsilon 1 --ledger budget.db --out loop")
    assert result.exit_code == 0, result.stderr
    assert (folder / "loop").read_text(encoding="utf-8").startswith("statistic,")
    assert len(inid.Ledger.open("budget.db").history()) == 1
