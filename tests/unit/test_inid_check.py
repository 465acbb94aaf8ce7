"""The small checker agrees with the library's own `verify`, and never accepts what is false."""

import contextlib
import copy
import itertools
import json
import math
import random
import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pandas as pd
import pytest

import inid
import inid_check
from inid import tables
from inid.accounting import JointCharge
from inid.promises import RenyiDP

PROMISES = [
    inid.PureDP(epsilon=1.0),
    inid.PureDP(epsilon=0.1),
    inid.ApproxDP(epsilon=1.0, delta=1e-6),
    inid.ApproxDP(epsilon=8.0, delta=1e-9),
    inid.ApproxDP(epsilon=0.01, delta=1e-3),
    inid.GaussianDP(mu=0.7),
    inid.ZCDP(rho=0.2),
    RenyiDP(order=8, divergence=0.3),
]
S = inid.Sensitivity
COVERED = [
    S.box([1.0, 3.0, 40.0]),
    S.box([2.0]),
    S.box([1.0, 0.0, 3.0], labels=["a", "b", "c"]),
    S.box([1.0, 2.0], counts=[5, 3], neighbours="replace"),
    S.groups(sizes=[3, 2], l1=[1.0, 2.0]),
    S.groups(sizes=[3, 2], l2=[1.0, 2.0]),
    S.ball(dimension=4, l2=1.0),
    S.ball(dimension=4, l1=2.0),
    S.partitions([[1.0, 3.0], [2.0]], cells=[3, 2], moves=[2, 1], neighbours="replace"),
]
OTHERS = [S.groups(sizes=[3, 2], l2=[1.0, 2.0], total=2.0), S.ellipsoid([1.0, 2.0]), S.box([1.0, 2.0], l1=2.5)]
FACTORS = [1 - 2**-52, 1 + 2**-52, 1 - 1e-9, 1 + 1e-9, 0.999, 1.001, 0.5, 2, 0, -1, math.nan, 1e300]
WORDS = {"statement", "arithmetic", "sensitivity"}  # of a certificate, which the checker does not read


def stored(record):
    """As it comes back from a file."""
    return json.loads(json.dumps(record))


def plans(sets):
    for promise in PROMISES:
        for area in sets:
            for mechanism in ("gaussian", "laplace", *(["staircase"] if area.kind in ("box", "partitions") else [])):
                if mechanism == "gaussian" and isinstance(promise, inid.PureDP):
                    continue
                size = area.limits.size if area.kind == "partitions" else area.dimension
                for arguments in ({}, {"allocation": "spr"}, {"weights": np.linspace(0.2, 3.0, size)}):
                    yield inid.plan(area, promise, mechanism=mechanism, **arguments)


def answers(record):
    return {verdict.answer for verdict in inid_check.check(record)}


def test_every_plan_of_a_covered_set_is_accepted_unless_a_curve_carries_it():
    seen = []
    for plan in plans(COVERED):
        (verdict,) = inid_check.check(stored(plan.to_dict()))
        by_curve = plan.mechanism == "laplace" and not isinstance(plan.budget, inid.PureDP)
        assert verdict.answer == "accepted" or (by_curve and verdict.answer == "not covered"), (verdict, plan)
        seen.append(verdict.answer)
    assert seen.count("accepted") > 200


def test_other_sets_are_not_covered():
    assert {answer for plan in plans(OTHERS) for answer in answers(stored(plan.to_dict()))} == {"not covered"}


def test_less_noise_is_rejected():
    for plan in itertools.islice((one for one in plans(COVERED) if one.mechanism != "staircase"), 0, None, 3):
        record = stored(plan.to_dict())
        record["scales"] = [scale * (1 - 1e-9) for scale in record["scales"]]
        assert "accepted" not in answers(record) or plan.allocation != "optimal"
        record["scales"] = [scale / 2 for scale in record["scales"]]
        assert "accepted" not in answers(record), plan


def wider(record):
    record["sensitivity"]["limits"][0] *= 1.001


def less_likely(record):
    """A ratio 2^-60 below the one that is just enough."""
    rho = Fraction(record["blocks"][0]["rho"])
    record["blocks"][0]["rho"] = str(rho * (1 - Fraction(1, 2**60)))


def shorter(record):
    record["blocks"][0]["reaches"][0] //= 2
    record["blocks"][0]["offsets"][0] = 0


def without_a_block(record):
    record["blocks"].pop()


def twice(record):
    record["blocks"].append(record["blocks"][0])


def offset_of_a_step(record):
    record["blocks"][0]["offsets"][0] = record["blocks"][0]["reaches"][0]


def grid_of_thirds(record):
    record["grid"][0] *= 1.5


def all_of_delta(record):
    record["budget"] = {"kind": "ApproxDP", "epsilon": 1.0, "delta": 1e-6}


@pytest.mark.parametrize(
    "change",
    [wider, less_likely, shorter, without_a_block, twice, offset_of_a_step, grid_of_thirds, all_of_delta],
    ids=lambda change: change.__name__,
)
@pytest.mark.parametrize("sensitivity", [[1.0, 1.0, 40.0], [2.0]])
def test_staircase_noise_that_covers_less_is_rejected(sensitivity, change):
    record = stored(inid.plan(S.box(sensitivity), inid.PureDP(epsilon=1.0), mechanism="staircase").to_dict())
    assert answers(record) == {"accepted"}
    change(record)
    assert answers(record) == {"rejected"}
    assert not is_verified(record, "plan")


def more_moves(record):
    record["sensitivity"]["moves"][0] += 1


def all_moves_in_one_step(record):
    """Steps twice as long for two moves, instead of twice the cost: two rows in two cells cross a step in each."""
    record["sensitivity"]["moves"] = [1, 1]
    record["sensitivity"]["limits"][0] *= 2


def block_across_partitions(record):
    first, second = record["blocks"][:1], record["blocks"][1:]
    for block in second:
        for name in ("numbers", "reaches", "offsets"):
            first[0][name] += block[name]
    record["blocks"] = first


def uneven_cells(record):
    record["sensitivity"]["counts"][0] += 1


def endless_moves(record):
    record["sensitivity"]["moves"][0] = 2**40


@pytest.mark.parametrize(
    "change",
    [wider, less_likely, shorter, without_a_block, twice, more_moves, all_moves_in_one_step, uneven_cells,
     block_across_partitions, endless_moves],
    ids=lambda change: change.__name__,
)  # fmt: skip
def test_staircase_noise_that_covers_less_than_its_cells_is_not_accepted(change):
    area = S.partitions([[1.0, 3.0], [2.0]], cells=[4, 3], moves=[2, 1])
    record = stored(inid.plan(area, inid.PureDP(epsilon=1.0), mechanism="staircase").to_dict())
    assert answers(record) == {"accepted"}
    change(record)
    assert "accepted" not in answers(record)
    if change is not endless_moves:  # the library's own proof takes that power exactly
        assert not is_verified(record, "plan")


def paths(record, before=()):
    entries = record.items() if isinstance(record, dict) else enumerate(record) if isinstance(record, list) else ()
    for key, value in entries:
        if not (before == ("certificate",) and key in WORDS):
            yield (*before, key)
            yield from paths(value, (*before, key))


def mutated(record, draw):
    """A copy with one or two entries changed, and whether a change is of the size of roundings."""
    record, tiny = copy.deepcopy(record), False
    for _ in range(draw.choice([1, 1, 1, 2])):
        path = draw.choice(list(paths(record)) or [()])
        if not path:
            break
        holder = record
        for key in path[:-1]:
            holder = holder[key]
        value, how = holder[path[-1]], draw.random()
        if isinstance(value, int | float) and not isinstance(value, bool) and how < 0.8:
            factor = draw.choice(FACTORS)
            tiny |= abs(factor - 1) < 1e-12
            whole = isinstance(value, int) and draw.random() < 0.5
            holder[path[-1]] = value + draw.choice([-1, 1, 2]) if whole else value * factor
        elif how < 0.85 and isinstance(holder, dict):
            del holder[path[-1]]
        elif how < 0.9 and isinstance(holder, list):
            holder.append(value)
        else:
            holder[path[-1]] = draw.choice([None, "x", True, [], {}, 0, 1, 2, 3.5, "replace", "laplace", "box", "ball"])
    return record, tiny


def is_verified(record, kind):
    """What the library says of the part of a record that the checker reads."""
    try:
        if kind == "plan":
            inid.NoisePlan.from_dict(record).verify()
        elif kind == "parts":
            JointCharge.from_dict(record)
        else:
            inid.verify_record(proved_anew(record) if kind == "charge" else record)
    except (inid.InidError, ValueError, TypeError, KeyError, AttributeError):  # the last four: of `proved_anew`
        return False
    return True


def proved_anew(record):
    """A charge with the certificate that its parts prove: the checker reads that of a single plan only."""
    if "inid_parts" not in record["plan"]:
        return record
    order = None if record.get("order") is None else Fraction(record["order"])
    proof = JointCharge.from_dict(record["plan"]).proof(tuple(record["cost"]), order)
    return record | {"certificate": stored(proof.to_dict())}


def histories():
    """Ledgers of every total with charges that fit, plain and of several parts: (ledger, what it charged)."""
    box, other = S.box([1.0, 3.0, 40.0]), S.groups(sizes=[3, 2], l1=[1.0, 2.0])
    for total in (*PROMISES[2:], inid.PureDP(epsilon=3.0)):
        ledger = inid.Ledger(total=total)
        for _ in range(3):
            for mechanism in ("gaussian", "laplace", "staircase"):
                if mechanism == "gaussian" and isinstance(total, inid.PureDP):
                    continue
                promise = inid.GaussianDP(mu=0.001) if mechanism == "gaussian" else inid.PureDP(epsilon=0.001)
                one = inid.plan(box, promise, mechanism=mechanism)
                another = inid.plan(other, promise, mechanism="laplace" if mechanism == "staircase" else mechanism)
                ledger.charge(one)
                ledger.charge(inid.compose(one, another))
        yield ledger


def is_rounding(record):
    """Whether the plan of a release holds, and its certificate differs from the plan's by roundings alone."""
    try:
        proof = inid.NoisePlan.from_dict(record["plan"]).verify()
    except inid.InidError:
        return False
    return 0 <= record["certificate"]["spent"] / proof.spent - 1 <= 2**-43


def joint_charges():
    """Several plans under one promise."""
    box, ball = S.box([1.0, 3.0, 40.0]), S.ball(dimension=4, l2=1.0)
    for promise in PROMISES:
        if isinstance(promise, inid.PureDP):
            yield JointCharge(promise, (inid.plan(box, inid.PureDP(epsilon=promise.epsilon / 2)),) * 2, "add_remove")
            continue
        part = inid.GaussianDP(mu=0.005)
        yield JointCharge(promise, (inid.plan(box, part), inid.plan(ball, part)), "add_remove")
        laplace = inid.plan(box, inid.PureDP(epsilon=0.004))
        yield JointCharge(promise, (laplace, inid.plan(ball, part)), "add_remove")
        yield JointCharge(promise, (laplace, laplace), "add_remove")


def check_mutants(seed, number):
    draw = random.Random(seed)  # noqa: S311 - which entries change
    whole = list(plans(COVERED + OTHERS))
    base = [(stored(plan.to_dict()), "plan") for plan in whole]
    base += [(stored(inid.release([0.0] * plan.dimension, plan).to_dict()), "release") for plan in whole[::7]]
    base += 8 * [(stored(charge.to_dict()), "charge") for ledger in histories() for charge in ledger.history()[:6]]
    base += 20 * [(stored(charge.to_dict()), "parts") for charge in joint_charges()]
    seen = {}
    for _ in range(number):
        original, kind = draw.choice(base)
        record, tiny = mutated(original, draw)
        if (
            not {"release": {"plan", "certificate", "inid_release"}, "charge": {"cost"}}.get(kind, set())
            <= record.keys()
        ):
            continue
        (verdict,) = inid_check.check(record)
        verified = is_verified(record, kind)
        seen[verdict.answer, verified] = seen.get((verdict.answer, verified), 0) + 1
        if not tiny:
            if verdict.answer == "accepted" and not verified:
                assert kind == "release", (verdict, record)
                assert is_rounding(record), (verdict, record)
            assert not (verdict.answer == "rejected" and verified), (verdict, record)
    assert min(seen["accepted", True], seen["rejected", False], seen["not covered", True]) >= number // 100
    return seen


def test_mutated_records_are_judged_as_the_library_judges_them():
    check_mutants(seed=1, number=700)


@pytest.mark.slow
def test_ten_thousand_mutated_records_are_judged_as_the_library_judges_them():
    check_mutants(seed=2, number=10_000)


@pytest.fixture(scope="module")
def people():
    return tables.Table(
        pd.DataFrame({"sex": ["f", "m"] * 50, "pay": np.arange(100.0)}), bounds={"pay": (0, 100)}, rows=100
    )


@pytest.fixture(scope="module")
def published(people, tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger") / "budget.db"
    promise = inid.PureDP(epsilon=0.3)
    publication = tables.Publication(
        people=people.statistics(count=True, by={"sex": ["f", "m"]}), pay=people.statistics(mean=["pay"])
    )
    with inid.Ledger.open(path, total=inid.ApproxDP(epsilon=3.0, delta=1e-5)) as ledger:  # a mix: by the Renyi rule
        inid.release([1.0, 2.0], inid.plan(S.box([1.0, 3.0]), inid.GaussianDP(mu=0.2)), ledger=ledger)
        inid.release([1.0, 2.0], inid.plan(S.box([1.0, 3.0]), inid.PureDP(epsilon=0.2)), ledger=ledger)
        result = publication.release(publication.plan(promise), ledger)
    return stored(result.to_dict()), path


def test_a_publication_and_its_ledger_are_accepted(published):
    record, path = published
    assert answers(record) == {"accepted"}
    (verdict,) = inid_check.check_file(str(path))
    assert verdict.answer == "accepted", verdict


def test_a_publication_that_spends_more_than_its_promise_is_rejected(published):
    record = copy.deepcopy(published[0])
    record["charge"]["promise"]["epsilon"] = 0.25
    assert answers(record) == {"rejected"}


def test_a_publication_whose_question_was_not_charged_is_not_accepted(published):
    record = copy.deepcopy(published[0])
    record["results"]["pay"]["release"]["plan"]["order"] = 3.0
    assert "accepted" not in answers(record)


@pytest.mark.parametrize("keys", [["f"], ["f", "m", "x"]])
def test_keys_that_were_found_verify_and_are_not_covered_by_the_checker(keys):
    """One plan is of all their counts, however many were found; it does not hold the delta by which keys appear."""
    rows = tables.Table(pd.DataFrame({"sex": keys * 400}))
    query = rows.select_partitions("sex", delta=1e-6)
    record = stored(query.release(query.plan(inid.PureDP(epsilon=5.0))).to_dict())
    assert len(record["release"]["values"]) == len(keys)
    tables.verify_result(record)
    assert answers(record) == {"not covered"}
    record["release"]["values"].append(400.0)
    with pytest.raises(inid.errors.RecordError):
        tables.verify_result(record | {"digest": tables.record_digest(record)})


def rewritten(path, settings, rows):
    """Write over a ledger, with new digests and sums, as somebody would who knows how they are made."""
    digest = inid_check._chained("", json.dumps(settings, sort_keys=True))
    sums = {}
    with contextlib.closing(sqlite3.connect(path)) as database:
        for number, time, label, plan, certificate, cost in rows:
            texts = (plan, certificate, json.dumps(cost))
            digest = inid_check._chained(digest, number, time, label, *texts)
            database.execute(
                "UPDATE inid_charges SET plan = ?, certificate = ?, cost = ?, digest = ? WHERE number = ?",
                (*texts, digest, number),
            )
            for name, amount in cost.items():
                absorbed = amount is None or sums.get(name, 0) is None
                sums[name] = None if absorbed else Fraction(sums.get(name, 0)) + Fraction(amount)
        spent = json.dumps({name: None if sum_ is None else str(sum_) for name, sum_ in sums.items()}, sort_keys=True)
        database.execute(
            "UPDATE inid_ledgers SET settings = ?, digest = ?, spent = ?",
            (json.dumps(settings, sort_keys=True), digest, spent),
        )
        database.commit()


def opens_and_verifies(path):
    """What the library says of a ledger."""
    try:
        with inid.Ledger.open(path) as ledger:
            ledger.verify()
    except (inid.InidError, ValueError, TypeError, KeyError, AttributeError):
        return False
    return True


def certified(plan, cost, order, certificate):
    """The certificate of a charge, made anew where its plan proves one: the checker does not read it."""
    try:
        proof = (
            JointCharge.from_dict(plan).proof(tuple(cost), order)
            if "inid_parts" in plan
            else inid.NoisePlan.from_dict(plan).verify()
        )
    except (inid.InidError, ValueError, TypeError, KeyError, AttributeError):
        return certificate
    return json.dumps(json.loads(certificate) | proof.to_dict())


LEDGERS = {
    "approx": (inid.ApproxDP(epsilon=0.2, delta=1e-5), {"reserve": 4e-6}),
    "zero_out": (inid.ApproxDP(epsilon=1.0, delta=1e-5), {"neighbours": "zero_out"}),
    "gaussian": (inid.ApproxDP(epsilon=1.0, delta=1e-5), {"rule": "gaussian"}),
    "pure": (inid.PureDP(epsilon=0.2), {}),
    "mu": (inid.GaussianDP(mu=0.2), {}),
    "zcdp": (inid.ZCDP(rho=0.1), {}),
    "renyi": (RenyiDP(order=8, divergence=0.1), {}),
}


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory):
    """Ledgers of every kind: (path, settings, rows)."""
    folder, found = tmp_path_factory.mktemp("ledgers"), {}
    for name, (total, arguments) in LEDGERS.items():
        path = folder / f"{name}.db"
        with inid.Ledger.open(path, total=total, **arguments) as ledger:
            kinds = {"laplace": inid.PureDP(epsilon=0.005), "gaussian": inid.GaussianDP(mu=0.005)}
            kinds["staircase"] = inid.PureDP(epsilon=0.004)
            for mechanism, promise in kinds.items():
                if isinstance(promise, inid.PureDP) or name != "pure":
                    one = inid.plan(S.box([1.0, 3.0, 40.0]), promise, mechanism=mechanism)
                    ledger.charge(one)
                    ledger.charge(inid.compose(one, one))
                    if "reserve" in arguments:
                        ledger.charge(JointCharge(None, (one,), "add_remove", delta=1e-6))
        with contextlib.closing(sqlite3.connect(path)) as database:
            (settings,) = database.execute("SELECT settings FROM inid_ledgers").fetchone()
            query = "SELECT number, time, label, plan, certificate, cost FROM inid_charges ORDER BY number"
            rows = [(*row[:5], json.loads(row[5])) for row in database.execute(query)]
        found[name] = (path, json.loads(settings), rows)
    return found


def forged(ledgers, name, folder, change):
    """A changed copy of a ledger; `change` gets its settings, its plans and its costs, and changes them."""
    path, settings, rows = copy.deepcopy(ledgers[name])
    plans, costs = [json.loads(row[3]) for row in rows], [row[5] for row in rows]
    change(settings, plans, costs)
    other = folder / "forged.db"
    other.write_bytes(path.read_bytes())
    order = settings.get("terms", {}).get("order")
    order = Fraction(order) if isinstance(order, str) and order.isdigit() else None
    made = zip(rows, plans, costs, strict=True)
    texts = [(*row[:3], json.dumps(plan), certified(plan, cost, order, row[4]), cost) for row, plan, cost in made]
    rewritten(other, settings, texts)
    return other


def untouched(settings, plans, costs):
    """A change that is none."""


def in_a_plan(name, value):
    return lambda settings, plans, costs: plans[0]["sensitivity"].update({name: value})


def lease(settings, plans, costs):
    plans[0]["inid_lease"] = 1


def overspent(settings, plans, costs):
    settings["total"]["epsilon"] = 0.01
    settings["terms"]["limits"]["epsilon"] = "1/100"


FORGERIES = {
    "a total that is too small": ("pure", lambda s, p, c: s["total"].update(epsilon=0.001)),
    "a limit above the total": ("mu", lambda s, p, c: s["terms"]["limits"].update(mu_squared="1")),
    "a rule with all of delta": ("approx", lambda s, p, c: s.update(rule="gaussian")),
    "a reserve that is too small": ("approx", lambda s, p, c: s.update(reserve=1e-9)),
    "a reserve without delta": ("pure", lambda s, p, c: s.update(reserve=1e-6)),
    "a ledger for other neighbours": ("mu", lambda s, p, c: s.update(neighbours="replace")),
    "a charge for other neighbours": ("zero_out", in_a_plan("neighbours", "replace")),
    "a wider set": ("zcdp", in_a_plan("limits", [1.0, 3.0, 80.0])),
    "a charge that calls itself a lease": ("mu", lease),
    "a cost that is too small": ("renyi", lambda s, p, c: c[0].update(renyi="0")),
    "a cost of no currency": ("pure", lambda s, p, c: c[0].clear()),
    "delta that was not counted": ("approx", lambda s, p, c: c[2].update(delta="0")),
    "delta that was not stated": ("approx", lambda s, p, c: p[2].update(delta="1/100")),
    "a part that holds two things": ("mu", lambda s, p, c: p[1]["parts"][0].update(promise={"kind": "PureDP"})),
    "a total that was spent twice": ("pure", overspent),
    "another order": ("renyi", lambda s, p, c: s["terms"].update(order="2")),
}


@pytest.mark.parametrize("name", LEDGERS)
def test_ledgers_of_every_kind_are_accepted(ledgers, name, tmp_path):
    path = forged(ledgers, name, tmp_path, untouched)
    assert [verdict.answer for verdict in inid_check.check_file(str(path))] == ["accepted"]
    assert opens_and_verifies(path)


@pytest.mark.parametrize("what", FORGERIES)
def test_forged_ledgers_are_rejected(ledgers, what, tmp_path):
    path = forged(ledgers, FORGERIES[what][0], tmp_path, FORGERIES[what][1])
    assert [verdict.answer for verdict in inid_check.check_file(str(path))] == ["rejected"]
    assert not opens_and_verifies(path)


def test_mutated_ledgers_are_judged_as_the_library_judges_them(ledgers, tmp_path):
    draw = random.Random(4)  # noqa: S311 - which entries change
    for _ in range(50):
        tiny = []

        def change(settings, plans, costs, tiny=tiny):
            many = draw.choice([[settings], plans, costs])
            at = draw.randrange(len(many))
            changed, small = mutated(many[at], draw)
            tiny.append(small)
            many[at].clear()
            many[at].update(changed)

        try:
            path = forged(ledgers, draw.choice(list(ledgers)), tmp_path, change)
        except (ValueError, TypeError, OverflowError):  # a cost of which nobody can make a sum
            continue
        (verdict,) = inid_check.check_file(str(path))
        verified = opens_and_verifies(path)
        if not any(tiny):
            assert not (verdict.answer == "accepted" and not verified), verdict
            assert not (verdict.answer == "rejected" and verified), verdict


def test_a_ledger_that_was_changed_by_hand_is_rejected(published, tmp_path):
    content = published[1].read_bytes()
    for change in (
        "UPDATE inid_ledgers SET settings = replace(settings, '\"epsilon\": 3.0', '\"epsilon\": 4.0')",
        "DELETE FROM inid_charges WHERE number = 2",
        "DELETE FROM inid_charges WHERE number = 3",
        "UPDATE inid_charges SET label = 'another' WHERE number = 1",
        "UPDATE inid_charges SET plan = replace(plan, '\"scales\": [', '\"scales\": [0.5, ')",
    ):
        path = tmp_path / "budget.db"
        path.write_bytes(content)
        with contextlib.closing(sqlite3.connect(path)) as database:
            assert database.execute(change).rowcount >= 1
            database.commit()
        (verdict,) = inid_check.check_file(str(path))
        assert verdict.answer == "rejected", (change, verdict)


def test_a_release_without_real_noise_is_rejected():
    plan = inid.plan(S.box([1.0]), inid.PureDP(epsilon=1.0))
    with inid.testing.unsafe_seed(7):
        record = stored(inid.release([1.0], plan).to_dict())
    assert answers(record) == {"rejected"}


@pytest.mark.parametrize("x", [Fraction(-3), Fraction(0), Fraction(1, 7), Fraction(9, 2), Fraction(38)])
def test_tails_and_exponentials_are_enclosed(x):
    with mpmath.workdps(700):
        number = mpmath.mpf(x.numerator) / x.denominator
        for enclosure, value in (
            (inid_check.tail_bounds(x, 1400), mpmath.erfc(number / mpmath.sqrt(2)) / 2),
            (inid_check.exp_bounds(x, 1400), mpmath.exp(number)),
            (inid_check.pi_bounds(1400), mpmath.pi),
        ):
            low, high = (mpmath.mpf(end.numerator) / end.denominator for end in enclosure)
            assert low <= value <= high
            assert high - low < mpmath.mpf(2) ** -1300 * max(1, value)


def test_gaussian_noise_is_judged_at_its_exact_limit():
    for epsilon, delta in ((1.0, 1e-6), (0.0, 1e-3), (20.0, 1e-30), (0.1, 0.2)):
        squared = inid.ApproxDP(epsilon=epsilon, delta=delta).mu_squared
        numbers = (Fraction(str(epsilon)), Fraction(str(delta)))
        assert inid_check.gaussian_within(squared, *numbers)
        assert not inid_check.gaussian_within(squared * (1 + Fraction(1, 10**9)), *numbers)


@pytest.mark.parametrize("epsilon", ["1/10", "1", "5", "30"])
def test_laplace_and_pure_noise_are_gaussian_from_their_exact_limits_on(epsilon):
    e = Fraction(epsilon)
    with mpmath.workdps(60):
        number = mpmath.mpf(e.numerator) / e.denominator
        tails = {True: mpmath.exp(-number / 2) / 2, False: 1 / (1 + mpmath.exp(number))}
        for laplace, tail in tails.items():
            squared = Fraction(str(8 * mpmath.erfinv(1 - 2 * tail) ** 2))
            assert inid_check.laplace_is_gaussian(e, squared * (1 + Fraction(1, 10**12)), laplace=laplace)
            assert not inid_check.laplace_is_gaussian(e, squared * (1 - Fraction(1, 10**12)), laplace=laplace)


@pytest.mark.parametrize(("epsilon", "order"), [("1/10", 2), ("1", 8), ("3", 5)])
def test_renyi_divergences_of_laplace_noise_are_never_below_the_truth_and_near(epsilon, order):
    with mpmath.workdps(60):
        e, s = mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator, order - 1
        growth = ((s + 1) * mpmath.exp(s * e) + s * mpmath.exp(-(s + 1) * e)) / (2 * s + 1)
        for count in (1, 3):
            truth = Fraction(str(count * mpmath.log(growth) / s))
            found = inid_check.laplace_renyi([(Fraction(epsilon), count)], order)
            assert truth * (1 - Fraction(1, 10**50)) <= found <= truth * (1 + Fraction(1, 10**15))


@pytest.mark.parametrize(("epsilon", "delta", "order"), [("3", "1/1000000", 9), ("8", "1/1000", 3)])
def test_a_renyi_divergence_keeps_epsilon_and_delta_up_to_its_exact_limit(epsilon, delta, order):
    numbers = Fraction(epsilon), Fraction(delta)
    with mpmath.workdps(60):
        logs = mpmath.log(mpmath.mpf(numbers[1].denominator) / numbers[1].numerator) - mpmath.log(order)
        most = Fraction(str(int(numbers[0]) - mpmath.log(1 - mpmath.mpf(1) / order) - logs / (order - 1)))
    assert most > 0
    assert inid_check._renyi_within(most * (1 - Fraction(1, 10**12)), *numbers, order)
    assert not inid_check._renyi_within(most * (1 + Fraction(1, 10**12)), *numbers, order)


def test_the_file_runs_by_itself_needs_no_library_and_is_short(tmp_path):
    source = Path(inid_check.__file__)
    assert len(source.read_text(encoding="utf-8").splitlines()) <= 800
    for name, content, code in (
        ("kept.json", inid.plan(S.box([1.0]), inid.PureDP(epsilon=1.0)).to_dict(), 0),
        ("wide.json", inid.plan(S.ellipsoid([1.0]), inid.GaussianDP(mu=1.0)).to_dict(), 2),
        ("none.json", {"values": [1.0], "private": False}, 1),
    ):
        path = tmp_path / name
        path.write_text(json.dumps(content))
        # Isolated, without site-packages: neither the library nor NumPy can be imported.
        done = subprocess.run([sys.executable, "-I", "-S", source, path], capture_output=True, text=True, check=False)
        assert done.returncode == code, done
