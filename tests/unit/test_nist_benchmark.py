"""The parts of NIST's benchmark that need neither the excerpt nor sdnist: public facts, rules, and what is missing."""

import numpy as np
import pandas as pd
import pytest
from bench import nist
from bench._nist_facts import CODES, NUMBERS, NUMBERS_OR_N, TEN, bin_names, coded, rules, written

from inid import tables
from rough_rows import rough_fit


def made_up(rows=800):
    """Rows of every column at random, most of which break the rules, as the excerpt is written."""
    rng = np.random.default_rng(0)
    frame = {name: rng.choice(keys, rows) for name, keys in CODES.items()}
    frame |= {name: np.floor(rng.uniform(edges[0], edges[-1], rows)) for name, edges in NUMBERS.items()}
    for name, edges in NUMBERS_OR_N.items():
        numbers = np.floor(rng.uniform(edges[0], edges[-1], rows)).astype(int).astype(str)
        frame[name] = np.where(rng.random(rows) < 0.2, "N", numbers)
    return pd.DataFrame(frame)


def test_rows_of_ten_columns_have_none_of_the_inconsistencies(monkeypatch):
    rough_fit(monkeypatch)
    frame = made_up()[list(TEN)]
    rows, _ = nist.rows_of(frame, 1, triples=False)

    def wrong(own):
        """Those of sdnist's list whose columns are there."""
        child, toddler, house = own["AGEP"] < 15, own["AGEP"] < 5, own["HOUSING_TYPE"] == 1
        school = pd.to_numeric(own["EDU"], errors="coerce")
        return {
            "child": (child & ((own[["MSP", "PINCP_DECILE", "DVET"]] != "N").any(axis=1) | (school > 11))).sum(),
            "adult": (~child & ((own["MSP"] == "N") | (own["PINCP_DECILE"] == "N") | (own["EDU"] == "N"))).sum(),
            "school": ((toddler & (school > 4)) | ((own["AGEP"] < 3) & (own["EDU"] != "N"))).sum(),
            "owner": (house == (own["OWN_RENT"] == 0)).sum(),
        }

    assert all(number > 10 for number in wrong(frame).values())
    assert sum(wrong(rows).values()) == 0
    assert set(rows) == set(TEN)


def test_rules_are_of_the_columns_that_are_there_and_leave_rows():
    assert rules(["AGEP", "MSP"]) == ["AGEP < 15 and MSP == 'N' or AGEP >= 15 and MSP != 'N'"]
    own = coded(made_up(50))
    keys = {name: CODES[name] if name in CODES else bin_names(name) for name in own if name not in NUMBERS}
    table = tables.Table(own, domains=keys, bins=NUMBERS, other="drop")
    assert len(table.synthesize(rules=rules(list(own))).question.rules.conditions) == 13


def test_texts_of_bins_become_numbers_of_them_again():
    frame = made_up(300)
    again = written(coded(frame), np.random.default_rng(1))
    assert ((frame["PINCP"] == "N") == (again["PINCP"] == "N")).all()
    pd.testing.assert_frame_equal(coded(again), coded(frame))


@pytest.mark.parametrize("files", [(), ("national/national2019.csv",)])
def test_where_the_excerpt_is_missing_nothing_is_scored(files, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("INID_DATA", str(tmp_path))
    (tmp_path / "national").mkdir()
    for name in files:
        (tmp_path / name).write_text("PUMA\n")
    monkeypatch.setattr("sys.argv", ["nist.py"])
    nist.main()
    assert "was not found" in capsys.readouterr().out
