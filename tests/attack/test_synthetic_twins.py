"""Guards of synthetic rows between their steps and after them: each has a twin without it, on which the check fails."""

import copy
import json
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

import inid
from inid import tables
from inid.releasing import AddNoise, Drawn, charge_together
from inid.tables import drawn_steps, record_digest
from inid.tables.questions.synthetic import Steps, SyntheticRows, release_levels
from inid.testing import unsafe_seed
from internals import module_with
from rough_rows import rough_fit

kind_module = module_with("inid.tables.questions.synthetic", "ExactPairs")

PROMISE, SMALL = inid.ApproxDP(1.0, 1e-6), inid.ApproxDP(0.1, 1e-6)
DOMAINS = {"a": ["x", "y"], "b": ["u", "v", "w"], "c": [1, 2]}


def query_of(seed=0, rows=200, *, triples=False):
    """A query of a table in which c follows a, or b, as the seed says; of triples, both together or nothing."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 2, rows), rng.integers(0, 3, rows)
    c = (a if seed % 2 else b % 2) + 1
    if triples:
        c = (a ^ b % 2 if seed % 2 else rng.integers(0, 2, rows)) + 1
    frame = pd.DataFrame({"a": np.array(["x", "y"])[a], "b": np.array(["u", "v", "w"])[b], "c": c})
    return tables.Table(frame, domains=DOMAINS, other="drop").synthesize(triples=triples)


@pytest.mark.parametrize("relation", ["add_remove", "replace", "zero_out"])
def test_pairs_alone_have_no_zero_scale(relation):
    steps, part = Steps((3, 4), relation, True, 1, {}), inid.GaussianDP(0.5)
    made = steps.third_set({(0, 1): 1.0})
    assert made.dimension == 2 * 3
    assert (inid.plan(made, part, mechanism="gaussian").scales > 0).all()
    # The twin takes what is asked beside the pairs, and not released, for public.
    whole = steps.blocks([(), (0,), (1,), (0, 1)])
    radii = np.zeros(whole.ends[-1])
    radii[whole.ends[3] :] = np.repeat(made.limits, made.counts)
    twin = inid.Sensitivity.ellipsoid(radii, neighbours=relation)
    assert (inid.plan(twin, part, mechanism="gaussian").scales == 0).sum() == 1 + 2 + 3
    assert not whole.is_covered_by(twin)


def forced(monkeypatch, values):
    """Noise is drawn once for each step, but what is published of the first steps is given."""
    given, real = iter(values), AddNoise.draw

    def draw(self, exact, noise, source):
        value = next(given, None)
        return real(self, exact, noise, source) if value is None else Drawn(np.array(value))

    monkeypatch.setattr(AddNoise, "draw", draw)


def released_with(values, monkeypatch, seed, promise=PROMISE, *, triples=False):
    with monkeypatch.context() as patch:
        forced(patch, values)
        query = query_of(seed, rows=200 + 50 * seed, triples=triples)
        return query.release(query.plan(promise))


def later(result):
    """What is chosen by earlier answers, and said of the errors of later ones."""
    errors = [result.measured.table(pair, 0.95).std for pair in [(0, 1), (0, 2), (1, 2)]]
    noises = [noise.scales.tolist() for noise in result.plan.steps[2:]]
    return result.kept, noises, repr(errors), result.plan.pair_notes(), result.plan.effort_note()


@pytest.mark.parametrize("triples", [False, True])
def test_the_same_answers_give_the_same_choices_variances_and_errors_whatever_the_table(triples, monkeypatch):
    """Answers of two steps choose pairs, those of four triples."""
    promise = inid.ApproxDP(0.4, 1e-6) if triples else SMALL
    with unsafe_seed(4):
        query = query_of(1, triples=triples)
        given = [own.values for own in query.release(query.plan(promise)).earlier]
    found = [later(released_with(given, monkeypatch, seed, promise, triples=triples)) for seed in (1, 2)]
    assert found[0] == found[1]
    # The twins choose pairs, or triples, by the exact scores.
    exact_scores, choose = Steps.score, Steps.chosen_last if triples else Steps.chosen
    place, number = (2, 1) if triples else (0, 3)

    def score(self, *args):
        seen.append(exact_scores(self, *args))
        return seen[-1]

    def chosen(self, *args):
        args = list(args)
        args[place] = np.array(seen[-number:])
        return choose(self, *args)

    monkeypatch.setattr(Steps, "score", score)
    monkeypatch.setattr(Steps, choose.__name__, chosen)
    twins = []
    for seed in (1, 2):
        seen = []
        twins.append(later(released_with(given, monkeypatch, seed, promise, triples=triples)))
    assert twins[0] != twins[1]


def test_the_same_answers_of_all_steps_give_the_same_rows_whatever_the_table(monkeypatch):
    rough_fit(monkeypatch)
    with unsafe_seed(4):
        query = query_of(1)
        made = query.release(query.plan(PROMISE))
    values = [own.values for own in (*made.earlier, made.release)]
    found, twins = [], []
    for seed in (1, 2):
        own = released_with(values, monkeypatch, seed)
        with unsafe_seed(9):
            found.append((own.rows().to_csv(), own.rows(2500).to_csv(), own.effective_rows, str(own), later(own)))
            twins.append(own.rows(200 + 50 * seed).to_csv())  # as many rows as there are
    assert found[0] == found[1]
    assert twins[0] != twins[1]


def draws_and_charges(monkeypatch, release, path):
    """How often noise is drawn, and how often a ledger is charged, where a crash after step 2 is tried again."""
    drawn, real = [], AddNoise.draw
    monkeypatch.setattr(AddNoise, "draw", lambda *args: (drawn.append(1), real(*args))[1])
    later_noise = SyntheticRows.later_noise

    def broken(self, plan, released):
        raise RuntimeError("a crash after two steps")

    query = query_of()
    plan = query.plan(PROMISE)
    with inid.Ledger.open(path, total=PROMISE) as ledger, monkeypatch.context() as patch:
        patch.setattr(SyntheticRows, "later_noise", broken)
        with pytest.raises(RuntimeError):
            release(query, plan, ledger)
    assert len(drawn) == 2
    monkeypatch.setattr(SyntheticRows, "later_noise", later_noise)
    with inid.Ledger.open(path) as ledger:  # after a restart
        with suppress(inid.BudgetError):
            release(query, plan, ledger)
        return len(drawn), len(ledger.history())


def test_a_restart_after_two_steps_draws_nothing_without_another_charge(monkeypatch, tmp_path):
    def usual(query, plan, ledger):
        return query.release(plan, ledger)

    paid = {}

    def resumed(query, plan, ledger):
        """The twin draws all steps again under the charge that there is."""
        if not paid:
            paid["parts"] = charge_together(plan.noises, plan.charge, ledger, "")
        question = query.question
        return drawn_steps(question, plan, question.draws(plan), query.exact(plan), iter(paid["parts"]))

    assert draws_and_charges(monkeypatch, usual, tmp_path / "held.db") == (2, 1)
    assert draws_and_charges(monkeypatch, resumed, tmp_path / "twin.db") == (5, 1)  # two answers of steps 1 and 2


@pytest.mark.parametrize(("total", "rows"), [(-5e4, 1), (0.0, 1), (2.0**60, 2**32)])
def test_a_noisy_number_of_rows_is_held_to_what_is_public(total, rows, monkeypatch):
    rough_fit(monkeypatch)
    query = query_of()
    plan = query.plan(PROMISE)
    exact = query.question.step_numbers(query.exact(plan), ())
    made = released_with([[total, *exact[1:]]], monkeypatch, 0)
    assert made.measured.summary.total == rows
    assert all((shares > 0).all() and shares.sum() == pytest.approx(1) for shares in made.measured.summary.shares)
    if total <= 0:  # the twin, which takes the noise for a number of rows, has none
        assert len(made.rows()) == rows > float(made.measured.tables[()])


def test_steps_that_are_charged_one_by_one_do_not_fit_the_promise_that_they_keep_together():
    query = query_of()
    made = query.release(query.plan(PROMISE), inid.Ledger(total=PROMISE))
    ledger = inid.Ledger(total=PROMISE)
    with pytest.raises(inid.BudgetError):  # noqa: PT012 - the last of them at the latest
        for noise in made.plan.steps:
            ledger.charge(noise)


def test_too_many_levels_are_refused_before_the_charge_whichever_pairs_are_kept(monkeypatch):
    levels = {f"x{at}": np.linspace(0, 1, 1001).tolist() for at in range(13)}

    def fails():
        raise MemoryError

    def charged(error):
        ledger = inid.Ledger(total=PROMISE)
        facts = {"budget": PROMISE, "neighbours": "add_remove", "ledger": ledger, "label": ""}
        with pytest.raises(error):
            release_levels(levels, fails, **facts)
        return len(ledger.history())

    assert charged(inid.ArgumentError) == 0
    monkeypatch.setattr(kind_module, "_MOST_LEVELS", 2**40)  # the twin finds out when it has been paid
    assert charged(MemoryError) == 1


def test_no_limit_on_rows_is_in_the_way_of_any_levels_that_are_served():
    """Whoever passes arrays states no limit on rows, and was told to lower it."""
    levels = {name: [*map(str, range(size))] for name, size in (("a", 4097), ("b", 4095))}
    ledger = inid.Ledger(total=PROMISE)

    def looked():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        release_levels(levels, looked, budget=PROMISE, neighbours="add_remove", ledger=ledger, label="")
    assert len(ledger.history()) == 1


def test_a_record_with_a_column_of_one_level_is_refused_as_one():
    record = json.loads(json.dumps(query_of().question.to_dict()))
    SyntheticRows.from_dict(record).plan(PROMISE)
    record["synthetic"][0]["keys"] = ["x"]
    with pytest.raises(inid.RecordError):  # planned, it divided by 0
        SyntheticRows.from_dict(record).plan(PROMISE)


@pytest.mark.parametrize(
    "promise", [inid.GaussianDP(100.0), inid.ApproxDP(50.0, 1e-3), inid.ZCDP(3.0), inid.ApproxDP(1.01, 1e-6)], ids=str
)
def test_a_record_states_the_promise_that_its_steps_are_parts_of(promise, monkeypatch):
    query = query_of()
    record = json.loads(json.dumps(query.release(query.plan(PROMISE)).to_dict()))
    tables.verify_result(record)
    forged = copy.deepcopy(record) | {"promise": promise.to_dict()}
    forged["digest"] = record_digest(forged)
    with pytest.raises(inid.GuaranteeError, match="parts of"):
        tables.verify_result(forged)
    monkeypatch.setattr(SyntheticRows, "divides", lambda *args: True)  # the twin: the steps keep it, and more
    tables.verify_result(forged)
