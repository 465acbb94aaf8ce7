"""Sampling error on request: what it is known for, where it shows, and that records keep the noise alone."""

import json
import re

import pandas as pd
import pytest

import inid
from inid import tables
from inid.tables.presentation import sampling_in_words

FRAME = pd.DataFrame({"k": ["a", "b"] * 300, "pay": [10.0, 30.0, 50.0] * 200, "id": [at // 2 for at in range(600)]})
FRAME["w"] = 2.0


def released(ask, **facts):
    query = ask(tables.Table(FRAME, bounds={"pay": (0, 100)}, **facts))
    return query.release(query.plan(inid.ApproxDP(2.0, 1e-6)))


def test_wider_intervals_of_what_is_known_and_the_same_of_the_rest():
    noisy = released(lambda t: t.statistics(count=True, mean=["pay"], std=["pay"], by={"k": ["a", "b"]}))
    made = noisy.with_sampling_error()
    for one, two in zip(noisy.answers, made.answers, strict=True):
        assert (two.estimate, two.std, two.keys) == (one.estimate, one.std, one.keys)
        if one.statistic == "std":
            assert (two.lower, two.upper) == (one.lower, one.upper)
        else:
            assert two.lower < one.lower
            assert two.upper > one.upper
    assert made.frame["upper"].tolist() == [row.upper for row in made.answers]
    whole = released(lambda t: t.statistics(count=True))
    assert whole.with_sampling_error().answers == whole.answers  # the size of the sample is planned


def test_intervals_stay_within_the_bounds_where_few_rows_are_known():
    made = released(lambda t: t.statistics(mean=["pay"], by={"k": ["zz", "yy"]})).with_sampling_error()
    assert all((row.lower, row.upper) == (0, 100) for row in made.answers)


def test_the_record_is_of_the_noise_alone():
    noisy = released(lambda t: t.statistics(mean=["pay"]))
    record = noisy.with_sampling_error(0.1).to_dict()
    assert record == noisy.to_dict()
    tables.verify_result(json.loads(json.dumps(record)))


def test_the_report_says_what_its_ranges_hold(tmp_path):
    noisy = released(lambda t: t.statistics(count=True, mean=["pay"], by={"k": ["a", "b"]}))
    texts = []
    for made in (noisy, noisy.with_sampling_error(drawn=0.02)):
        made.report(tmp_path / "page.html")
        texts.append(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", (tmp_path / "page.html").read_text())))
    assert "nor who happened to be in the table" in texts[0]
    assert "simple random sample of 2 % of the population" in texts[1]
    assert "nor who happened" not in texts[1]
    assert (
        "it holds the count that a sample of this size is expected to have, or the mean of the population, if"
        in texts[1]
    )


@pytest.mark.parametrize(
    ("asked", "says", "leaves_out"),
    [
        ({"mean": ["pay"]}, "it holds the mean of the population", "Other ranges"),
        ({"count": True, "mean": ["pay"]}, "Other ranges cover the noise alone", "count"),
        ({"sum": ["pay"], "std": ["pay"]}, "it holds the sum that a sample", "mean"),
        ({"count": True}, "covers the noise alone", "holds"),
    ],
)
def test_the_sentence_names_the_numbers_that_are_there(asked, says, leaves_out):
    text = sampling_in_words(released(lambda t: t.statistics(**asked)).with_sampling_error())
    assert says in text
    assert leaves_out not in text


def published(**queries):
    asked = tables.Publication(**queries)
    return asked.release(asked.plan(inid.ApproxDP(2.0, 1e-6)))


def test_each_part_of_a_publication_whose_sampling_error_is_known_has_it(tmp_path):
    t = tables.Table(FRAME, bounds={"pay": (0, 100)}, domains={"k": ["a", "b"]})
    noisy = published(pay=t.statistics(mean=["pay"]), table=t.marginals(1))
    made = noisy.with_sampling_error(drawn=0.02)
    assert made["pay"].answers == noisy["pay"].with_sampling_error(0.02).answers != noisy["pay"].answers
    assert made["table"].answers == noisy["table"].answers
    assert made.to_dict() == noisy.to_dict()
    assert made.to_frame()["upper"].tolist() == [row.upper for part in made.values() for row in part.answers]
    made.report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert text.count("covers the noise and the sampling error") == text.count("covers the noise alone.") == 1
    assert "nor who happened" not in text
    noisy.report(tmp_path / "page.html")
    assert "nor who happened" in (tmp_path / "page.html").read_text()
    with pytest.raises(inid.ArgumentError, match="first: the sampling error of marginals is not known"):
        published(first=t.marginals(1), second=t.quantiles({"pay": [0.5]})).with_sampling_error()
    with pytest.raises(inid.ArgumentError, match="drawn"):
        noisy.with_sampling_error(1)


REFUSED = {
    "weights": (lambda t: t.statistics(count=True), {"weight": "w", "max_weight": 5}, "weights"),
    "several rows": (lambda t: t.statistics(count=True), {"unit": tables.Person("id", 2)}, "drawn together"),
    "marginals": (lambda t: t.marginals(1), {"domains": {"k": ["a", "b"]}}, "not known"),
    "quantiles": (lambda t: t.quantiles({"pay": [0.5]}), {}, "not known"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_known_sampling_error_is_refused(name):
    ask, facts, words = REFUSED[name]
    with pytest.raises(inid.ArgumentError, match=words):
        released(ask, **facts).with_sampling_error()


@pytest.mark.parametrize("drawn", [-0.1, 1, 2, float("nan"), "half", None])
def test_a_share_is_at_least_0_and_below_1(drawn):
    with pytest.raises(inid.ArgumentError, match="drawn"):
        released(lambda t: t.statistics(count=True)).with_sampling_error(drawn)
