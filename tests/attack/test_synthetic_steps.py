"""The three steps of synthetic rows against brute force in rationals: every neighbour of small tables, every relation.

Each guard has a twin without it, on which the same check fails.
"""

import datetime as dt
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.noise import current_source
from inid.releasing import AddNoise, Release
from inid.tables.engines import Pandas
from inid.tables.questions.synthetic import Blocks, FirstStep, Steps
from inid.testing import audit_epsilon, unsafe_seed
from internals import module_with

kind_module = module_with("inid.tables.questions.synthetic", "ExactPairs")
three_steps = module_with("inid.tables.questions.synthetic", "no_interaction")

PROMISE = inid.ApproxDP(1.0, 1e-6)
RELATIONS = ("add_remove", "replace", "zero_out")


def length(sensitivity, moved):
    """The squared length of a difference in units of the set's radii; infinite where a public number moves."""
    counts = sensitivity.counts if sensitivity.counts is not None else np.ones(sensitivity.limits.size, int)
    radii = np.repeat(sensitivity.limits, counts)
    found = Fraction(0)
    for step, radius in zip(moved, radii.tolist(), strict=True):
        if step and not radius:
            return np.inf
        found += Fraction(float(step)) ** 2 / Fraction(radius) ** 2 if step else 0
    return found


def one_row(blocks, row):
    """What a row adds to every residual."""
    found = {}
    for block in blocks.members:
        table = np.zeros(blocks.shape(block), dtype=np.int64)
        table[tuple(row[at] for at in block)] = 1
        found[block] = table
    return blocks.residuals(found, 2**20)


def differences(blocks, *, vanishing):
    """What one unit of one row can change."""
    rows = [one_row(blocks, row) for row in product(*map(range, blocks.sizes))]
    if blocks.neighbours == "replace":
        found = [one - two for one in rows for two in rows]
        return found + (rows if vanishing else [])
    return rows


SETS = [
    ((2, 2, 3), [(), (0,), (1,), (2,)]),
    ((2, 2), [(0, 1)]),
    ((3, 2, 2), [(0, 1), (0, 2), (1, 2)]),
    ((3, 4, 2), [(0, 2), (1, 2)]),
    ((3, 2, 2), [(1,), (2,), (0, 1), (1, 2)]),  # columns once more, and pairs
    ((2, 2, 3), [(0, 1, 2)]),
    ((3, 2, 2, 2), [(0,), (0, 1), (2, 3), (0, 1, 2), (1, 2, 3)]),  # and triples
]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("vanishing", [False, True])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("sizes", "members"), SETS)
def test_every_difference_lies_in_the_set_which_is_no_larger_than_it_must_be(sizes, members, relation, vanishing, rows):
    blocks = Blocks(sizes, tuple(members), relation, vanishing, rows)
    made = blocks.sensitivity([1.0 + at for at in range(len(members))])
    lengths = [length(made, rows * moved) for moved in differences(blocks, vanishing=vanishing)]
    assert max(lengths) <= 1
    assert max(lengths) > 1 - 1e-9
    if rows > 1:  # any rows of one person, not one row several times
        own, rng = differences(blocks, vanishing=vanishing), np.random.default_rng(0)
        some = [sum(own[at] for at in rng.integers(len(own), size=rows)) for _ in range(20)]
        assert max(length(made, moved) for moved in some) <= 1


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("members", [((0, 1), (0, 2), (1, 2)), ((1,), (2,), (1, 2))])
def test_beyond_sixteen_columns_the_bound_of_each_block_holds(relation, members, monkeypatch):
    monkeypatch.setattr(module_with("inid.tables.questions.synthetic", "Blocks"), "_MOST_COLUMNS", 2)
    blocks = Blocks((3, 2, 2), members, relation, True, 1)
    made = blocks.sensitivity([1.0, 2.0, 3.0])
    assert max(length(made, moved) for moved in differences(blocks, vanishing=True)) <= 1


def test_twins_of_the_certificate_do_not_hold():
    # By rho alone under "replace", the sum of pairs of two binary columns is 4 times too small; and 4 times again for
    # two rows of a person.
    pair = Blocks((2, 2), ((0, 1),), "replace", False, 1)
    by_rho = inid.Sensitivity.ellipsoid(
        replace(pair, neighbours="add_remove").sensitivity([1.0]).limits, neighbours="replace"
    )
    assert max(length(by_rho, moved) for moved in differences(pair, vanishing=False)) == pytest.approx(4, rel=1e-9)
    assert not pair.is_covered_by(by_rho)
    one = pair.sensitivity([1.0])
    two = replace(pair, rows=2)
    assert max(length(one, 2 * moved) for moved in differences(two, vanishing=False)) == pytest.approx(4, rel=1e-9)
    assert not two.is_covered_by(one)
    # A total that is public though rows can vanish.
    columns = Blocks((2, 3), ((), (0,), (1,)), "replace", False, 1)
    public, vanishing = columns.sensitivity([1.0, 1.0, 1.0]), replace(columns, vanishing=True)
    assert length(public, one_row(columns, (0, 0))) == np.inf
    assert not vanishing.is_covered_by(public)
    assert vanishing.is_covered_by(vanishing.sensitivity([1.0, 1.0, 1.0]))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("sizes", "members"), SETS)
def test_a_set_with_smaller_radii_or_of_other_blocks_is_refused(sizes, members, relation):
    blocks = Blocks(sizes, tuple(members), relation, True, 2)
    made = blocks.sensitivity([1.0] * len(members))
    assert blocks.is_covered_by(made)
    for at in range(made.limits.size):
        radii = made.limits.copy()
        radii[at] *= 0.7
        smaller = inid.Sensitivity.ellipsoid(radii, counts=made.counts, neighbours=relation)
        other = max(length(smaller, 2 * moved) for moved in differences(blocks, vanishing=True)) <= 1
        assert other or not blocks.is_covered_by(smaller)
    shrunk = inid.Sensitivity.ellipsoid(made.limits * (1 - 1e-9), counts=made.counts, neighbours=relation)
    assert not blocks.is_covered_by(shrunk)
    assert not blocks.is_covered_by(
        inid.Sensitivity.ellipsoid(
            made.limits, counts=made.counts, neighbours="replace" if relation != "replace" else "zero_out"
        )
    )
    assert not blocks.is_covered_by(inid.Sensitivity.box(np.full(made.dimension, 1e9), neighbours=relation))


@pytest.mark.parametrize("relation", RELATIONS)
def test_pairs_alone_have_noise_on_every_coordinate(relation):
    steps = Steps((3, 4, 2), relation, False, 1, {})
    made = steps.third_set(steps.chosen(np.array([50.0, 3.0, 80.0]), 0.3))
    assert (made.limits > 0).all()


@pytest.mark.parametrize(("relation", "most"), [("add_remove", 1), ("replace", 2), ("zero_out", 1)])
def test_scores_are_exact_and_move_as_their_box_says_whatever_the_reference(relation, most):
    rng, rows = np.random.default_rng(1), 3
    steps = Steps((3, 4), relation, True, rows, {})
    assert steps.second_set().limits.tolist() == [most * rows]
    for limit in (50, 2**40):
        for _ in range(30):
            total = float(rng.uniform(1, limit))
            shares = [rng.dirichlet(np.full(size, 0.3)) for size in steps.sizes]
            reference = steps.reference((0, 1), total, shares)
            table = rng.multinomial(limit, np.full(12, 1 / 12)).reshape(3, 4)
            moved = table.copy()
            for _ in range(rows):
                moved[rng.integers(3), rng.integers(4)] += 1
                if relation == "replace":
                    moved[np.unravel_index(moved.argmax(), moved.shape)] -= 1
            scores = [steps.score(own, reference, limit) for own in (table, moved)]
            exact = sum(
                abs(Fraction(int(n)) - Fraction(int(r), 256)) for n, r in zip(table.flat, reference.flat, strict=True)
            )
            assert Fraction(scores[0]) == exact
            assert abs(Fraction(scores[1]) - Fraction(scores[0])) <= most * rows
    # The twin: cells of the reference as they are, added up in floats, exceed the box.
    worst = 0
    for _ in range(2000):
        reference = rng.uniform(0, 2000, (3, 4))
        table = rng.integers(0, 2000, (3, 4)).astype(float)
        one = table.copy()
        one[rng.integers(3), rng.integers(4)] += 1
        worst = max(worst, abs(Fraction(np.abs(one - reference).sum()) - Fraction(np.abs(table - reference).sum())))
    assert worst > 1


@pytest.mark.parametrize(("relation", "most"), [("add_remove", 1), ("replace", 2), ("zero_out", 1)])
def test_scores_of_triples_move_as_their_box_says_whatever_the_reference(relation, most):
    rng, people_rows, reached = np.random.default_rng(2), 3, 0
    steps = Steps((3, 2, 2), relation, True, people_rows, {}, True)
    assert steps.triples == [(0, 1, 2)]
    assert steps.fourth_set().limits.tolist() == [most * people_rows]
    for _ in range(300):
        # Pairs that were measured with noise do not agree with each other.
        pairs = {(0, 1): (3, 2), (0, 2): (3, 2), (1, 2): (2, 2)}
        shares = {pair: rng.dirichlet(np.full(np.prod(shape), 0.5)).reshape(shape) for pair, shape in pairs.items()}
        reference = three_steps.whole_reference(three_steps.no_interaction(shares), float(rng.uniform(1, 500)))
        table = rng.multinomial(500, rng.dirichlet(np.full(12, 0.5))).reshape(3, 2, 2)
        moved = table.copy()
        for _ in range(people_rows):
            moved.flat[rng.integers(12)] += 1
            if relation == "replace":
                moved.flat[rng.choice(np.flatnonzero(moved))] -= 1
        one, two = (Fraction(steps.score(own, reference, 500)) for own in (table, moved))
        assert one == sum(abs(int(n) - Fraction(int(r), 256)) for n, r in zip(table.flat, reference.flat, strict=True))
        reached = max(reached, abs(two - one))
    assert most * people_rows - 1 < reached <= most * people_rows  # a box for one row, or for one of two cells, is left


# The whole path: from a table, through the engine, to the numbers of each step.

DOMAINS = {"a": ["x", "y"], "b": [1, 2]}
CELLS = [(a, b, c) for a in ("x", "y", "?") for b in (1, 2) for c in (0.5, 2.5)]
BASE = [("x", 1, 0.5), ("y", 2, 2.5), ("x", 2, 0.5)]


def query_of(rows, people, *, relation, person, where, other):
    frame = pd.DataFrame(rows, columns=["a", "b", "c"]).astype({"a": object, "b": "int64", "c": "float64"})
    frame["who"] = people
    unit = tables.Person("who", 2) if person else "row"
    t = tables.Table(
        frame, domains=DOMAINS, bounds={"c": (0, 4)}, bins={"c": 2}, other=other, unit=unit, neighbours=relation
    )
    return (t.where("c < 2 or b == 1") if where else t).synthesize()


def neighbours(*, relation, person):
    """Pairs of tables of which one person's rows differ: from nothing, to something else, or to fewer rows."""
    many = [[cell] for cell in CELLS]
    if person:
        many += [[one, two, CELLS[0]] for one in CELLS[:3] for two in CELLS[3:7:3]]  # two of three count
    changed = [[]] if relation != "replace" or person else []
    changed += [many[2], many[-1], many[7]] if relation == "replace" else []
    for own in many:
        for other in changed:
            yield own, other


CASES = [
    (False, False, "cell"),
    (False, True, "cell"),
    (False, False, "drop"),
    (True, False, "cell"),
    (True, True, "drop"),
]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("person", "where", "other"), CASES)
def test_neighbouring_tables_differ_by_no_more_than_the_plan_covers(relation, person, where, other):
    facts = {"relation": relation, "person": person, "where": where, "other": other}
    assert worst(facts) <= 1


def worst(facts, **changed):
    """The largest length of a difference over all steps and neighbours, the earlier answers being given."""
    query = query_of(BASE, [1, 1, 2], **facts)
    plan = query.plan(PROMISE)
    with unsafe_seed(3):
        result = query.release(plan)
    released = (*result.earlier, result.release)
    question = query.question
    sets = [noise.sensitivity for noise in result.plan.steps]
    if changed:
        steps, mu = replace(question.three_steps, **changed), question.parts(PROMISE)[2].mu
        kept = question.three_steps.chosen(released[1].values, mu)
        sets = [steps.first_set(), steps.second_set(), steps.third_set(kept)]
    seen, found = {}, 0

    def numbers(rows):
        if str(rows) not in seen:
            exact = query_of(BASE + rows, [1, 1, 2] + [9] * len(rows), **facts).exact(plan)
            seen[str(rows)] = [question.step_numbers(exact, released[:at]) for at in range(3)]
        return seen[str(rows)]

    for pair in neighbours(relation=facts["relation"], person=facts["person"]):
        for at, (one, two) in enumerate(zip(*map(numbers, pair), strict=True)):
            if at == 1:  # a box
                limits = sets[at].limits.tolist()
                found = max(
                    found, *(Fraction(abs(d)) / Fraction(r) for d, r in zip((one - two).tolist(), limits, strict=True))
                )
            else:
                found = max(found, length(sets[at], one - two))
    return found


def test_twins_without_a_guard_are_caught():
    facts = {"relation": "add_remove", "person": True, "where": False, "other": "cell"}
    assert worst(facts, rows=1) > 1  # several rows of a person taken for one
    replaced = {"relation": "replace", "person": False, "where": True, "other": "cell"}
    assert worst(replaced, vanishing=False) > 1  # the total taken for public though a filter drops rows
    assert worst(replaced | {"where": False}, neighbours="add_remove") > 1


def test_null_is_not_nothing():
    # A row that becomes all null moves to the cells of what is missing: zero_out does not cover that, replace does.
    frame = pd.DataFrame({"a": ["x", "y", "x"], "b": ["u", "u", "v"]}, dtype=object)
    nulls = frame.copy()
    nulls.loc[0] = None
    for relation, holds in (("zero_out", False), ("replace", True)):
        found = []
        for own in (frame, nulls):
            t = tables.Table(own, domains={"a": ["x", "y"], "b": ["u", "v"]}, neighbours=relation)
            query = t.synthesize()
            plan = query.plan(PROMISE)
            found.append(query.question.step_numbers(query.exact(plan), ()))
        assert (length(plan.steps[0].sensitivity, found[0] - found[1]) <= 1) is holds


def test_later_steps_follow_from_what_was_released_alone():
    facts = {"relation": "add_remove", "person": False, "where": False, "other": "cell"}
    query, another = query_of(BASE, [1, 1, 2], **facts), query_of(CELLS * 20, [1] * 240, **facts)
    plan = query.plan(PROMISE)
    with unsafe_seed(5):
        released = query.release(plan).plan.released
    noises = [own.question.later_noise(plan, released[:2]) for own in (query, another)]
    assert noises[0].sensitivity == noises[1].sensitivity
    assert (noises[0].scales == noises[1].scales).all()
    first = [FirstStep.of(own.question.three_steps, released[0], own.question.max_rows) for own in (query, another)]
    assert first[0].total == first[1].total


def test_what_failed_after_the_charge_is_not_drawn_again_without_another(monkeypatch):
    facts = {"relation": "add_remove", "person": False, "where": False, "other": "cell"}
    query = query_of(BASE, [1, 1, 2], **facts)
    plan, ledger = query.plan(PROMISE), inid.Ledger(total=PROMISE)
    seen = []

    def broken(self, plan, released):
        seen.append((len(ledger.history()), len(released)))
        raise RuntimeError("a crash after two steps")

    with monkeypatch.context() as patch:
        patch.setattr(kind_module.SyntheticRows, "later_noise", broken)
        with pytest.raises(RuntimeError):
            query.release(plan, ledger)
    assert seen == [(1, 2)]
    with pytest.raises(inid.BudgetError):
        query.release(plan, ledger)


def test_the_charge_comes_before_the_first_look_and_is_all_of_an_empty_ledger(monkeypatch):
    facts = {"relation": "add_remove", "person": False, "where": False, "other": "cell"}
    query = query_of(BASE, [1, 1, 2], **facts)
    ledger, seen = inid.Ledger(total=PROMISE), []
    run = Pandas.run
    monkeypatch.setattr(Pandas, "run", lambda *args: (seen.append(len(ledger.history())), run(*args))[1])
    query.release(query.plan(PROMISE), ledger)
    assert seen == [1]
    assert not ledger.can_afford(inid.GaussianDP(1e-3))
    used = inid.Ledger(total=PROMISE)
    used.charge(inid.plan(inid.Sensitivity.box([1.0]), inid.GaussianDP(1e-3)))
    with pytest.raises(inid.BudgetError):
        query.release(query.plan(PROMISE), used)
    assert seen == [1]


def test_pure_dp_and_other_noise_than_was_paid_are_refused():
    facts = {"relation": "add_remove", "person": False, "where": False, "other": "cell"}
    query = query_of(BASE, [1, 1, 2], **facts)
    with pytest.raises(inid.BudgetError, match="Gaussian"):
        query.plan(inid.PureDP(1.0))
    plan = query.plan(PROMISE)
    larger = replace(plan, steps=(*plan.steps[:2], inid.GaussianDP(1.0)))
    with pytest.raises(inid.GuaranteeError):
        larger.verify()
    with pytest.raises(inid.InidError):
        query.release(larger)
    for share in (0.01, 0.5, 0.999):  # parts that keep the promise, but are not those of the steps
        ledger = inid.Ledger(total=PROMISE)
        other = replace(plan, steps=(*plan.steps[:2], inid.GaussianDP(plan.steps[2].mu * share)))
        with pytest.raises(inid.ArgumentError):
            query.release(other, ledger)
        assert not ledger.history()
    released = query.release(plan).plan
    with pytest.raises(inid.ArgumentError):  # whose pairs were chosen by another run
        query.release(released)


def test_noise_of_the_last_step_that_does_not_follow_from_the_scores_is_refused():
    facts = {"relation": "add_remove", "person": False, "where": False, "other": "cell"}
    query = query_of(BASE, [1, 1, 2], **facts)
    released = query.release(query.plan(PROMISE)).plan
    released.verify()
    third, steps = released.steps[2], query.question.three_steps
    for times in (1.001, 2.0):  # more noise than was planned covers everybody, but something else chose it
        wider = inid.Sensitivity.ellipsoid(third.sensitivity.limits * times, counts=third.sensitivity.counts)
        kept = steps.chosen(released.released[1].values, third.budget.mu)
        assert steps.blocks(list(kept)).is_covered_by(wider)
        noise = inid.plan(wider, third.budget, mechanism="gaussian")
        with pytest.raises(inid.GuaranteeError):
            replace(released, steps=(*released.steps[:2], noise)).verify()
    plain, scores = Steps((3, 4, 2), "add_remove", False, 1, {}), np.array([5000.0, 4000.0, 8000.0])
    made = plain.third_set(plain.chosen(scores, 0.3))
    assert plain.is_of_chosen(made, scores, 0.3)
    assert not plain.is_of_chosen(made, -scores, 0.3)
    weighted = replace(plain, weights={(0, 1): 1.01})
    assert weighted.chosen(scores, 0.3).keys() == plain.chosen(scores, 0.3).keys()
    assert not weighted.is_of_chosen(made, scores, 0.3)


def numbers_of_rows(frame, draws):
    """How many rows `rows()` makes, of releases of one table."""
    t = tables.Table(frame, domains={"a": ["x", "y"], "b": ["u", "v"]})
    query = t.synthesize()
    question, plan = query.question, query.plan(PROMISE)
    first, exact = plan.steps[0], question.step_numbers(query.exact(plan), ())
    found = []
    for _ in range(draws):
        values = AddNoise().draw(exact, first, current_source()).values
        released = Release(values, first, first.certificate, True, "", dt.datetime.now(dt.UTC))
        found.append(round(FirstStep.of(question.three_steps, released, question.max_rows).total))
    return found


def test_the_number_of_rows_tells_no_more_than_the_promise():
    frame = pd.DataFrame({"a": ["x", "y"] * 50, "b": ["u", "u", "v", "v"] * 25})
    more = pd.concat([frame, frame[:1]])
    with unsafe_seed(11):
        found = [numbers_of_rows(own, 1000) for own in (frame, more)]
    assert audit_epsilon(*found, delta=PROMISE.delta).epsilon <= PROMISE.epsilon
    true = [[len(own)] * 1000 for own in (frame, more)]  # the twin makes as many rows as there are
    assert audit_epsilon(*true, delta=PROMISE.delta).epsilon > PROMISE.epsilon
