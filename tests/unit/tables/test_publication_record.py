"""One file holds a publication: written, verified, and refused when anything in it was changed; its page."""

import copy
import json

import pytest

import inid
from command_line import run
from html_outline import outline
from inid import tables
from inid.numbers import decimal_fraction
from inid.tables import record_digest
from inid.testing import unsafe_seed
from published_people import publication, table

PROMISE = inid.ApproxDP(1.0, 1e-6)


@pytest.fixture(scope="module")
def result():
    t = table()
    pub = tables.Publication(
        people=t.marginals([("sex", "band"), ("band",)]),
        pay=t.where("age > 30").statistics(mean=["pay", "age"], count=True, by={"sex": ["F", "M"]}),
        ages=t.quantiles({"age": [0.5, 0.9]}, by={"sex": ["F", "M"]}),
        largest=t.largest_group({"band": [0, 1, 2, 3, 4]}),
        shops=t.select_partitions("shop", delta=1e-8),
    )
    plan = pub.plan(PROMISE, mechanism="laplace", tolerance={"pay": {"pay": 1.0}})
    return pub.release(plan, inid.Ledger(total=PROMISE), label="2027")


def stored(result):
    return json.loads(json.dumps(result.to_dict()))


def test_one_file_is_written_and_verified_by_python_and_by_the_command(result, tmp_path):
    record = stored(result)
    proof = tables.verify_result(record)
    assert proof.count == 5
    assert dict(proof.costs)["epsilon"] <= 1
    assert dict(proof.costs)["delta"] == decimal_fraction(1e-8)
    assert str(PROMISE) in proof.promise
    path = tmp_path / "2027.json"
    path.write_text(json.dumps(record))
    shown = run(f"verify {path}")
    assert shown.exit_code == 0
    assert "The publication in" in shown.output
    assert record["digest"] in shown.output


def _forged(record, change):
    """The record with a change, and every digest made anew, as whoever changes a record can do."""
    made = copy.deepcopy(record)
    change(made)
    for own in made["results"].values():
        own["digest"] = record_digest(own)
    made["digest"] = record_digest(made)
    return made


def _swap(made):
    made["names"] = made["names"][::-1]


def _leave_out(made):
    del made["results"]["pay"]


def _other_part(made):
    made["results"]["ages"] = made["results"]["pay"]


def _promise(made):
    made["charge"]["promise"]["epsilon"] = 0.5


def _no_promise(made):
    made["charge"]["promise"] = None


def _delta(made):
    made["charge"]["delta"] = "0"


def _answer(made):
    made["results"]["pay"]["answers"][0]["estimate"] += 1


def _question(made):
    made["results"]["pay"]["question"]["bounds"]["pay"] = [0, 50_000]


def _rules(made):
    made["rules"] = True


def _added(made):
    made["remark"] = "checked"


def _nothing(made):
    made["results"] = {}


def _version(made):
    made["inid_publication"] = 1


CHANGES = [
    _swap,
    _leave_out,
    _other_part,
    _promise,
    _no_promise,
    _delta,
    _answer,
    _question,
    _rules,
    _added,
    _nothing,
    _version,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_changed_record_is_refused_even_where_its_digests_are_made_anew(result, change):
    with pytest.raises((inid.RecordError, inid.GuaranteeError)):
        tables.verify_result(_forged(stored(result), change))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_record_that_was_changed_after_its_digest_is_refused(result, change):
    made = stored(result)
    change(made)
    with pytest.raises(inid.RecordError):
        tables.verify_result(made)


def test_the_order_of_names_in_a_file_does_not_matter(result):
    """Parts are charged in the order of a list: the same parts in another order are the same publication."""
    record = stored(result)
    record["results"] = dict(reversed(record["results"].items()))
    assert tables.verify_result(record).count == 5


def test_a_record_without_real_noise_is_refused():
    pub = publication()
    with unsafe_seed(3):
        made = pub.release(pub.plan(inid.PureDP(0.3)))
    with pytest.raises((inid.RecordError, inid.GuaranteeError)):
        tables.verify_result(stored(made))


def test_the_page_has_contents_every_number_and_no_script(result, tmp_path):
    path = tmp_path / "2027.html"
    result.report(path, title="Population <2027>", labels={"sex": {"F": "women", "M": "men"}}, too_noisy=0.5)
    text = path.read_text(encoding="utf-8")
    found = outline(text)
    assert "script" not in found.tags
    assert "Population &lt;2027&gt;" in text
    for at, name in enumerate(result, start=1):
        assert f'<a href="#part-{at}">{name}</a>' in text
        assert f'<section id="part-{at}">' in text
    assert "women" in text
    assert result.to_dict()["digest"] in text
    assert "ε = 1" in text
    assert all(label.split(": ")[1] in found.text for label, *_ in result.plan.worse)
    assert result.plan.worse


def test_labels_that_no_query_has_are_refused(result, tmp_path):
    with pytest.raises(inid.ArgumentError):
        result.report(tmp_path / "a.html", labels={"planet": {"F": "women"}})
