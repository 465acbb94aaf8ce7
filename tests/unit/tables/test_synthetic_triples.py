"""Tables of three columns in synthetic rows: which are scored and measured, what that costs, and what rows show."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.tables.questions.synthetic import FirstStep, Steps
from inid.testing import unsafe_seed
from internals import module_with
from rough_rows import rough_fit

three_steps = module_with("inid.tables.questions.synthetic", "no_interaction")
PROMISE = inid.ApproxDP(1.0, 1e-9)


def bits(rows=10_000):
    """Ten columns at random, but one is the exclusive or of two others: no pair shows it."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{at}": rng.integers(0, 2, rows) for at in range(10)})
    frame["c7"] = frame["c1"] ^ frame["c4"]
    return frame


def query_of(frame, **asked):
    return tables.Table(frame, domains={name: [0, 1] for name in frame}, other="drop").synthesize(**asked)


def agree(rows):
    return float(((rows["c1"] ^ rows["c4"]) == rows["c7"]).mean())


def test_what_no_pair_shows_is_in_the_rows_and_without_triples_it_is_not(monkeypatch):
    rough_fit(monkeypatch)
    query = query_of(bits(), triples=True)
    with unsafe_seed(1):
        result = query.release(query.plan(PROMISE))
        rows = result.rows(5000)
        plain = query_of(bits(), triples=False)
        without = plain.release(plain.plan(PROMISE)).rows(5000)
    assert agree(rows) > 0.95
    assert 0.4 < agree(without) < 0.6  # the twin
    assert (1, 4, 7) in result.measured.triples
    assert "c1*c4*c7" in str(result.plan)
    assert result.effective_rows > 0.8
    assert rows.mean().between(0.45, 0.55).all()


def test_a_record_proves_five_steps_and_makes_the_rows(monkeypatch):
    rough_fit(monkeypatch)
    query = query_of(bits(), triples=True)
    result = query.release(query.plan(PROMISE))
    record = json.loads(json.dumps(result.to_dict()))
    assert tables.verify_result(record).count == 5
    assert agree(tables.synthetic_rows(record, 2000, progress=False).to_pandas()) > 0.9
    other = json.loads(json.dumps(record))
    other["question"].pop("triples")
    with pytest.raises((inid.RecordError, inid.GuaranteeError)):
        tables.verify_result(other)
    monkeypatch.setattr(Steps, "chosen_last", lambda self, *given: {self.triples[0]: 1.0})
    with pytest.raises((inid.RecordError, inid.GuaranteeError)):
        tables.verify_result(record)


def test_a_ledger_is_charged_once_with_the_whole_promise():
    query = query_of(bits(300), triples=True)
    with inid.Ledger(PROMISE) as ledger:
        query.release(query.plan(PROMISE), ledger)
        assert len(ledger.history()) == 1
        with pytest.raises(inid.BudgetError):
            query.release(query.plan(PROMISE), ledger)


def test_the_triples_that_are_scored_follow_from_sizes_alone():
    assert Steps((2,) * 10, "add_remove", True, 1, {}, True).triples == list(combinations(range(10), 3))
    assert Steps((2,) * 10, "add_remove", True, 1, {}).triples == []
    assert Steps((8, 8, 8, 9), "add_remove", True, 1, {}, True).triples == [(0, 1, 2)]
    assert Steps((20, 20, 20), "add_remove", True, 1, {}, True).shares == three_steps.SHARES  # no fiftieth is lost
    many = Steps((2,) * 12 + (3,) * 20, "add_remove", True, 1, {}, True)
    cells = [np.prod([many.sizes[at] for at in one]) for one in many.triples]
    assert len(cells) <= 2000
    assert max(cells) == 12
    assert sum(three_steps.TRIPLE_SHARES) == sum(three_steps.SHARES) == 1


@pytest.mark.parametrize(
    ("sizes", "scored"),
    [((2,) * 10, True), ((3, 2, 2, 2), True), ((2, 2), False), ((20,) * 10, False), ((2,) * 40, False)],
)
def test_where_nobody_says_triples_are_scored_if_most_are_small(sizes, scored):
    frame = pd.DataFrame({f"c{at}": [0, 1] for at in range(len(sizes))})
    domains = {name: range(size) for name, size in zip(frame, sizes, strict=True)}
    asked = [
        tables.Table(frame, domains=domains, other="drop").synthesize(**facts).question.three_steps
        for facts in ({}, {"triples": None}, {"triples": scored})
    ]
    assert [steps.with_triples for steps in asked] == [scored] * 3
    assert len(asked[0].shares) == (5 if scored else 3)


def test_one_strong_interaction_does_not_make_noise_believed(monkeypatch):
    """Without it, what chance shows of 119 others would be measured beside it."""
    steps = Steps((2,) * 10, "add_remove", True, 1, {}, True)
    mus = [part.mu for part in three_steps.parts_of(PROMISE, steps.shares)]
    first = FirstStep(10_000.0, [np.full(2, 0.5)] * 10)
    noise = inid.plan(steps.fourth_set(), inid.GaussianDP(mus[3]), mechanism="gaussian").scales[0]

    def measured():
        rng, counts = np.random.default_rng(0), []
        for _ in range(10):
            scores = steps.chance(first) + noise * rng.standard_normal(120)
            scores[7] += 9000.0
            last = steps.chosen_last(np.zeros(45), mus[2], scores, mus[4], first)
            assert steps.triples[7] in last
            counts.append(sum(len(block) == 3 for block in last))
        return np.mean(counts)

    assert measured() < 8
    plain = Steps.shrunk
    monkeypatch.setattr(Steps, "shrunk", lambda self, scores, mu, step=1: plain(self, scores, mu * (4 / 3) ** 0.5, 1))
    assert measured() > 20  # the twin: as scores of pairs are shrunk


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_where_no_triple_is_worth_it_pairs_have_all_but_a_fiftieth(relation):
    """Scores of triples that are all nothing: what step 3 measured is measured once more, in the same proportion."""
    sizes, scores = (3, 4, 2, 5), np.array([900.0, 3.0, 800.0, 700.0, 0.0, 600.0])
    steps = Steps(sizes, relation, False, 1, {}, True)
    mus = [part.mu for part in three_steps.parts_of(PROMISE, steps.shares)]
    pairs = steps.chosen(scores, mus[2])
    first = FirstStep(100.0, [np.full(n, 1 / n) for n in sizes])
    last = steps.chosen_last(scores, mus[2], np.zeros(len(steps.triples)), mus[4], first)
    assert list(last) == list(pairs)
    ratios = np.array([last[block] / own for block, own in pairs.items() if len(block) == 2])
    assert ratios == pytest.approx(np.full(len(ratios), ratios[0]))
    large = steps.chosen_last(scores, mus[2], np.full(len(steps.triples), 1e6), mus[4], first)
    assert set(steps.triples) <= set(large)


def test_chance_is_what_tables_of_independent_columns_score():
    """0.8 standard deviations of each count, added up: rows drawn at random are as far, and no farther."""
    rng, shares = np.random.default_rng(0), [np.array(p) for p in ([0.3, 0.7], [0.2, 0.3, 0.5], [0.6, 0.4])]
    steps = Steps((2, 3, 2), "add_remove", True, 1, {}, True)
    expected = np.einsum("i,j,k", *shares)
    scores = [np.abs(rng.poisson(9000 * expected) - 9000 * expected).sum() for _ in range(400)]
    (chance,) = steps.chance(FirstStep(9000.0, shares))
    assert 0.95 < np.mean(scores) / chance < 1.05


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_no_other_number_of_triples_has_less_expected_error(relation):
    """The rule by hand: levels by bisection, and the errors of what is measured and what is left."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        steps = Steps((3, 4, 2, 5, 2), relation, True, int(rng.integers(1, 3)), {}, True)
        mu = float(rng.uniform(0.05, 1))
        last_mu = mu * (18 / 60) ** 0.5
        scores, triple_scores = rng.gamma(1, 400, 10), rng.gamma(0.3, 400, 10)
        first = FirstStep(50.0, [np.full(n, 1 / n) for n in steps.sizes])
        made = steps.chosen_last(scores, mu, triple_scores, last_mu, first)
        choice = steps._choice(scores, mu)
        blocks = steps.blocks(steps.triples)
        cost = np.array([float(blocks.most_part(one)) for one in steps.triples])
        error = np.array(
            [0.8 * np.prod(blocks.shape(one)) * float(blocks.own_part(one)) ** 0.5 for one in steps.triples]
        )
        ideal = (error / cost) ** (2 / 3)
        gains = steps.shrunk(triple_scores - steps.chance(first), last_mu, step=3)

        def rest(kept, steps=steps, last_mu=last_mu, choice=choice, cost=cost, error=error, ideal=ideal, gains=gains):
            low, high = 1e-12, 1e12
            for _ in range(200):
                x = (low * high) ** 0.5
                spent = (cost * ideal)[kept].sum() * x + choice.taken * max(x - choice.level, 0)
                low, high = (x, high) if spent < last_mu**2 else (low, x)
            measured = (error / np.sqrt(ideal))[kept].sum() / np.sqrt(x)
            before = choice.taken / np.sqrt(max(x, choice.level))
            return gains[~kept].clip(0).sum() + (measured + before) * steps.rows

        own = np.array([one in made for one in steps.triples])
        order = np.argsort(-gains / (cost * ideal), kind="stable")
        prefixes = [np.isin(np.arange(10), order[:number]) for number in range(11)]
        assert rest(own) <= min(map(rest, prefixes)) * (1 + 1e-9)


def test_tables_without_interaction_have_their_pairs_and_keep_what_they_began_with():
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(24)).reshape(2, 3, 4)
    pairs = {(0, 1): table.sum(axis=2), (0, 2): table.sum(axis=1), (1, 2): table.sum(axis=0)}
    plain = three_steps.no_interaction(pairs)
    for pair, axis in {(0, 1): 2, (0, 2): 1, (1, 2): 0}.items():
        assert plain.sum(axis=axis) == pytest.approx(pairs[pair], abs=2e-3)
    ratios = np.log(plain)
    for axis in range(3):
        ratios = ratios - ratios.mean(axis=axis, keepdims=True)
    assert ratios == pytest.approx(np.zeros((2, 3, 4)), abs=1e-9)  # of the largest entropy
    assert three_steps.no_interaction(pairs, table) == pytest.approx(table)
    independent = np.einsum("i,j,k", *(rng.dirichlet(np.ones(n)) for n in (2, 3, 4)))
    own = {(0, 1): independent.sum(axis=2), (0, 2): independent.sum(axis=1), (1, 2): independent.sum(axis=0)}
    assert three_steps.no_interaction(own) == pytest.approx(independent)


def test_errors_before_the_charge():
    frame = bits(50)
    with pytest.raises(inid.ArgumentError, match="triples must be True or False"):
        query_of(frame, triples=512)
    wide = tables.Table(frame, domains={name: range(8) for name in frame}, max_rows=2**40, other="drop")
    wide.synthesize(columns=["c0", "c1", "c2"], triples=True)
    record = query_of(frame, triples=True).question.to_dict()
    assert type(query_of(frame).question).from_dict(record).triples
    with pytest.raises(inid.RecordError):
        type(query_of(frame).question).from_dict(record | {"triples": 1})
