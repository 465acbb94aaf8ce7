"""What the third step of synthetic rows measures: pairs by their scores, and a column again where its table counts."""

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.planning import whole_of
from inid.tables.questions.synthetic import SHARES, Steps, model_weights
from inid.testing import unsafe_seed

SIZES = (3, 8, 2, 5)
PROMISE = inid.ApproxDP(0.3, 1e-6)
TWICE = {"target": "pay", "weights": {("pay",): 8}}
ONCE = {"weights": {(name,): 0.001 for name in ("job", "age", "pay")}}  # no column is worth a second measurement
RELATIONS = ("add_remove", "replace", "zero_out")


def by_hand(steps, scores, mu):
    """The rule for pairs alone, one number of pairs after the other."""
    found = {}
    moved = steps.rows * (2 if steps.neighbours == "replace" else 1)
    noise = moved**2 * len(scores) / (mu**2 * float(SHARES[1] / SHARES[2]))  # variance of one score's noise
    mean, part = max(np.mean(scores), 0), max(1 - noise / np.var(scores), 0)
    for pair, score in zip(steps.pairs, mean + part * (scores - mean), strict=True):
        n = steps.blocks([pair]).shape(pair)
        rho, weight = float(steps.blocks([pair]).most_part(pair)), steps.weights.get(pair, 1.0)
        error = 0.8 * np.sqrt(n[0] * n[1] * (n[0] + n[1])) * weight
        found[pair] = score * weight, error ** (2 / 3) * rho ** (1 / 3), (rho / error) ** (2 / 3)
    order = sorted(found, key=lambda pair: -found[pair][0] / found[pair][1])
    rests = []
    for number in range(1, len(order) + 1):
        left = sum(max(found[pair][0], 0) for pair in order[number:])
        rests.append(left + sum(found[pair][1] for pair in order[:number]) ** 1.5 * steps.rows / mu)
    kept = order[: int(np.argmin(rests)) + 1]
    return {pair: found[pair][2] for pair in sorted(kept)}


@pytest.mark.parametrize("relation", RELATIONS)
def test_pairs_alone_are_chosen_by_the_rule_where_no_own_table_counts(relation):
    rng, light = np.random.default_rng(0), {(at,): 1e-9 for at in range(4)}
    for _ in range(20):
        steps = Steps(SIZES, relation, True, int(rng.integers(1, 4)), light | {(0, 1): float(rng.uniform(0.1, 9))})
        scores, mu = rng.normal(100, 300, 6), float(rng.uniform(0.02, 2))
        made, wanted = steps.chosen(scores, mu), by_hand(steps, scores, mu)
        assert list(made) == list(wanted)
        ratios = np.array(list(made.values())) / np.array(list(wanted.values()))
        assert ratios == pytest.approx(np.full(len(ratios), ratios[0]))


def test_scores_of_noise_are_shrunk_to_one_number_and_large_ones_are_left():
    """Their error falls: scores that are all alike, with the noise of step 2 as it is planned, and 100 times as far."""
    steps, mu, rng = Steps((4,) * 9, "add_remove", True, 1, {}), 0.1, np.random.default_rng(0)
    plan = inid.plan(
        steps.second_set(), inid.GaussianDP(mu * float(SHARES[1] / SHARES[2]) ** 0.5), mechanism="gaussian"
    )
    noisy = 50.0 + plan.scales * rng.standard_normal((200, 36))
    made = np.array([steps.shrunk(own, mu) for own in noisy])
    assert np.square(made - 50).mean() < 0.2 * np.square(noisy - 50).mean()
    far = 100 * plan.scales[0] * rng.standard_normal(36)
    far -= far.min()
    assert steps.shrunk(far, mu) == pytest.approx(far, rel=1e-3, abs=0.1 * plan.scales[0])


def own_weight(steps, at):
    """How much the own table of a column counts: as stated, else 0.4 of the weights of its pairs."""
    return steps.weights.get((at,), 0.4 * sum(steps.weights.get(pair, 1.0) for pair in steps.pairs if at in pair))


def error_of(steps, pairs, columns, mu, *, before):
    """The sum of the errors of pairs and of columns' own tables, for variances up to a factor; after step 1 alone."""
    made = steps.blocks([*columns, *pairs])
    spent = sum(float(made.most_part(block)) / own for block, own in (columns | pairs).items())
    factor = spent * steps.rows**2 / mu**2
    found = 0.0
    for pair, own in pairs.items():
        n = made.shape(pair)
        found += 0.8 * np.sqrt(n[0] * n[1] * (n[0] + n[1]) * own * factor) * steps.weights.get(pair, 1.0)
    for at, first in before.items():
        again = columns.get((at,))
        precision = 1 / first + (0 if again is None else 1 / (again * factor))
        found += 0.8 * steps.sizes[at] * own_weight(steps, at) / np.sqrt(precision)
    return found


@pytest.mark.parametrize("relation", RELATIONS)
def test_no_other_division_between_columns_and_pairs_has_less_error(relation):
    rng = np.random.default_rng(1)
    again = 0
    for _ in range(30):
        weights = {(1,): float(rng.uniform(1, 60)), (3,): float(rng.uniform(1, 60)), (0, 2): 3.0}
        steps = Steps(SIZES, relation, True, int(rng.integers(1, 4)), weights)
        mu = float(rng.uniform(0.02, 2))
        first = inid.plan(
            steps.first_set(), inid.GaussianDP(mu * float(SHARES[0] / SHARES[2]) ** 0.5), mechanism="gaussian"
        )
        known = steps.columns.variances(first.scales)
        before = {at: known[1 + at] for at in range(4)}
        made = steps.chosen(rng.normal(100, 300, 6), mu)
        pairs = {block: own for block, own in made.items() if len(block) == 2}
        columns = {block: own for block, own in made.items() if len(block) == 1}
        again += len(columns)
        least = error_of(steps, pairs, columns, mu, before=before)
        assert least <= error_of(steps, pairs, {}, mu, before=before) * (1 + 1e-9)
        for block in made:
            for times in (0.7, 0.97, 1.03, 1.4):
                other = {own: value * (times if own == block else 1) for own, value in made.items()}
                moved = [{own: value for own, value in other.items() if len(own) == n} for n in (2, 1)]
                slack = 1.02 if len(columns) < 2 else 1  # a column that is hardly worth it is left out
                assert least <= error_of(steps, *moved, mu, before=before) * slack * (1 + 1e-9)
    assert again > 20


def test_columns_are_measured_again_where_few_pairs_are_worth_it_and_not_where_many_are():
    places = [(at,) for at in range(9)]
    steps = Steps((20,) * 9, "add_remove", True, 1, {})
    assert [*steps.chosen(np.full(36, 1.0), 0.2)][:9] == places
    assert all(len(block) == 2 for block in steps.chosen(np.full(36, 1e6), 0.2))
    target = replace(steps, weights=model_weights(9, 4, 4.0, number=True))
    assert [block for block in target.chosen(np.full(36, 1e6), 0.2) if len(block) == 1] == [(4,)]
    light = replace(steps, weights=dict.fromkeys(places, 0.01))
    assert all(len(block) == 2 for block in light.chosen(np.full(36, 1.0), 0.2))
    assert model_weights(300, 7, 900.0, number=True)[7,] == 1000.0


def test_the_choice_takes_a_few_numbers_for_each_pair_however_many_columns_there_are():
    """It comes after the charge, so that memory which it lacks costs the budget."""
    steps = Steps((2,) * 160, "add_remove", True, 1, {})
    scores = np.zeros(len(steps.pairs))
    steps.chosen(scores, 0.3)  # what is found once
    tracemalloc.start()
    steps.chosen(scores, 0.3)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 40 * scores.nbytes  # a number for each pair and column would be 160 times as much


def people(rows=300):
    rng = np.random.default_rng(0)
    job, age = rng.integers(0, 3, rows), rng.uniform(0, 100, rows)
    return pd.DataFrame({"job": np.array(["x", "y", "z"])[job], "age": age, "pay": rng.beta(2, 5, rows) * 100})


def query_of(relation="add_remove", **asked):
    bins = {"age": 4, "pay": 20}
    facts = {"domains": {"job": ["x", "y", "z"]}, "bounds": {"age": (0, 100), "pay": (0, 100)}, "bins": bins}
    return tables.Table(people(), **facts, other="drop", neighbours=relation).synthesize(triples=False, **asked)


def released(relation="add_remove", seed=1, **asked):
    query = query_of(relation, **asked)
    with unsafe_seed(seed):
        return query.release(query.plan(PROMISE))


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_plan_says_what_each_part_of_the_first_steps_spends(relation):
    """One row moves the number of rows by 1, which alone costs 1 / std^2 of mu^2; under "replace" it comes for free."""
    plan = query_of(relation).plan(PROMISE)
    lines = plan.summary().lines
    assert sum(line.share for line in lines[:-2]) == pytest.approx(float(SHARES[0]))
    assert lines[-2].share == float(SHARES[1])
    assert lines[-1].share == 0.02  # values in bins
    alone = lines[0].deviation ** -2 / float(whole_of(PROMISE, "gaussian"))
    assert lines[0].share == pytest.approx(0 if relation == "replace" else alone, rel=1e-3)


def recorded(relation):
    """The record of a release with real noise. The target is measured again whatever the scores are."""
    query = query_of(relation, **TWICE)
    steps, mu = query.question.three_steps, query.question.parts(PROMISE)[2].mu
    assert all((2,) in steps.chosen(np.array(scores), mu) for scores in ([0.0] * 3, [1e9] * 3))
    return json.loads(json.dumps(query.release(query.plan(PROMISE)).to_dict()))


@pytest.mark.parametrize("relation", RELATIONS)
def test_what_was_measured_twice_is_one_number_with_less_noise_and_is_proved(relation):
    plain, made = released(relation, **ONCE), released(relation, **TWICE)
    assert (2,) in made.measured.chosen
    assert (2,) not in plain.measured.chosen
    assert made.measured.table((2,), 0.95).std < 0.7 * plain.measured.table((2,), 0.95).std
    assert made.marginal("pay")["std"].iloc[0] == pytest.approx(made.measured.table((2,), 0.95).std)
    assert tables.verify_result(recorded(relation)).count == 4
    # A table is linear in the released numbers: its deviation, number by number.
    measured, variance = made.measured, 0.0
    still = measured.table((2,), 0.95)
    for name in ("first", "third"):
        release = getattr(measured, name)
        for at, scale in enumerate(release.plan.scales.tolist()):
            moved = release.values.copy()
            moved[at] += 1.0
            other = replace(measured, **{name: replace(release, values=moved)})
            variance = variance + (other.table((2,), 0.95).estimate - still.estimate) ** 2 * scale**2
    assert np.sqrt(variance) == pytest.approx(np.full(20, still.std), rel=1e-6)


def test_errors_of_tables_that_were_measured_twice_are_those_that_are_stated():
    exact = np.histogram(people()["pay"], np.linspace(0, 100, 21))[0]
    found = []
    for seed in range(60):
        own = released(seed=seed, **TWICE).measured.table((2,), 0.95)
        found.append((own.estimate - exact) / own.std)
    spread = float(np.mean(np.square(found)))
    assert 0.7 < spread < 1.3  # 1,200 numbers that are 1 on average; their mean has a deviation below 0.05


@pytest.mark.parametrize("weight", [1e-3, 1e3])
def test_weights_of_columns_are_stated_like_those_of_pairs(weight):
    made = released(weights={("pay",): weight, ("job", "age"): 2})
    assert made.question.weights == {(2,): weight, (0, 1): 2.0}
    assert ((2,) in made.measured.chosen) is (weight > 1)
    for wrong in ({("pay",): 0}, {("pay",): 2000}, {("nobody",): 2}, {(): 2}, {"pay": 2}):
        with pytest.raises(inid.ArgumentError, match="weights"):
            released(weights=wrong)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_record_whose_noise_was_chosen_by_another_rule_is_refused(relation, monkeypatch):
    record, chosen = recorded(relation), Steps.chosen
    tables.verify_result(record)
    monkeypatch.setattr(
        Steps, "chosen", lambda self, *args: {b: own for b, own in chosen(self, *args).items() if len(b) == 2}
    )
    with pytest.raises((inid.GuaranteeError, inid.RecordError)):
        tables.verify_result(record)
