"""Draw the pictures of the README and of the guides: `python docs/pictures/draw.py`.

They are made of plans, curves, charges and seeded releases of the library itself. What a benchmark has measured is read
from the table of the page that shows it. A test draws all of them again and compares.
"""

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import numpy as np
import pandas as pd
from page_tables import numbers, row_of
from people import PROMISE, answers, question
from step_state import step_state
from svg import BLUE, GREEN, GREY, INK, ORANGE, RULE, SOFT, Picture

import inid
from inid import learn, tables, testing

_HERE = Path(__file__).resolve().parent


def private_table() -> Picture:
    """The answers of the first example, and what the plan gains over two simpler ways to keep the same promise."""
    picture = Picture(
        760, 250, "Private counts and means with intervals, and the error of three ways to spend one budget"
    )
    picture.text(20, 28, "A private table: estimates and 95 % intervals", size=15)
    ranges = {"count": (1_850, 2_150), "age": (46, 53), "income": (50_000, 59_000)}
    for row, (label, kind, low, value, high) in enumerate(answers()):
        y = 58 + 30 * row
        left, right = ranges[kind]
        picture.text(20, y + 4, label)
        picture.line([(140, y), (350, y)], RULE)
        spot = [140 + 210 * (x - left) / (right - left) for x in (low, value, high)]
        picture.interval(*spot, y, BLUE)
        picture.text(362, y + 4, f"{value:,.0f}" if kind != "age" else f"{value:.1f}", color=SOFT)
    picture.text(450, 28, "Expected error for one promise", size=15)
    rows = question().plan(PROMISE, tolerance={"age": 1, "income": 500}).noise.compare()
    least = rows.row("staircase", "optimal").error
    for row, (mechanism, name, words, color) in enumerate(
        (
            ("staircase", "optimal", "planned by inid", BLUE),
            ("staircase", "spr", "equal split of the budget", ORANGE),
            ("gaussian", "spr", "equal split, Gaussian noise", GREY),
        )
    ):
        y = 62 + 46 * row
        ratio = rows.row(mechanism, name).error / least
        picture.text(450, y, words, color=SOFT)
        picture.bar(450, y + 6, 36 * ratio, 14, color)
        picture.text(456 + 36 * ratio, y + 18, f"x {ratio:.1f}")
    picture.text(
        20, 238, "Made-up people, epsilon = 1, delta = 1e-6, tolerance 1 year and 500 of income.", size=12, color=SOFT
    )
    return picture


def bounds() -> Picture:
    """Clipping error and noise against the upper bound that is stated."""
    picture = Picture(
        760, 300, "Error of a private mean by the stated upper bound: clipping on the left, noise on the right"
    )
    incomes = [20_000 * math.exp(0.7 * _normal_quantile((i + 0.5) / 2_000)) for i in range(2_000)]
    mean = sum(incomes) / len(incomes)
    stated = [10_000 * 2 ** (k / 8) for k in range(57)]
    bias = [mean - sum(min(x, top) for x in incomes) / len(incomes) for top in stated]
    noise = [math.sqrt(2) * top / 2 / len(incomes) / 0.5 for top in stated]
    total = [math.hypot(b, n) for b, n in zip(bias, noise, strict=True)]

    def spot(top: float, error: float) -> tuple[float, float]:
        return 70 + 640 * math.log2(top / stated[0]) / 7, 240 - 190 * (math.log10(max(error, 10)) - 1) / 3.2

    for error, words in ((10, "10"), (100, "100"), (1_000, "1,000"), (10_000, "10,000")):
        picture.line([spot(stated[0], error), spot(stated[-1], error)], RULE)
        picture.text(62, spot(stated[0], error)[1] + 4, words, color=SOFT, at="end", size=12)
    for errors, color, width in ((bias, ORANGE, 2), (noise, GREY, 2), (total, BLUE, 3)):
        picture.line([spot(t, e) for t, e in zip(stated, errors, strict=True)], color, width=width)
    best = min(range(len(stated)), key=total.__getitem__)
    picture.dot(*spot(stated[best], total[best]), BLUE)
    picture.text(150, 40, "clipping", color=ORANGE)
    picture.text(620, 130, "noise", color=GREY)
    picture.text(
        spot(stated[best], 0)[0], spot(stated[best], total[best])[1] - 16, "both together", color=BLUE, at="middle"
    )
    for top in (10_000, 40_000, 160_000, 640_000):
        picture.text(spot(top, 10)[0], 262, f"{top:,}", color=SOFT, at="middle", size=12)
    picture.text(
        390, 286, "stated upper bound of income (mean of 2,000 made-up incomes, epsilon = 0.5)", color=SOFT, at="middle"
    )
    return picture


def plan_shares() -> Picture:
    """Scales of three coordinates under the three allocations."""
    picture = Picture(760, 210, "Noise of three numbers under three allocations of one budget")
    s = inid.Sensitivity.box([1.0, 3.0, 40.0], labels=["age", "visits", "income"])
    made = {
        name: inid.plan(s, inid.ApproxDP(epsilon=1.0, delta=1e-6), mechanism="laplace", allocation=name)
        for name in ("optimal", "spr", "iid")
    }
    picture.text(20, 28, "Noise scale of each number, by allocation", size=15)
    for row, label in enumerate(("age", "visits", "income")):
        y = 66 + 40 * row
        picture.text(20, y + 4, f"{label} (moves by {(1, 3, 40)[row]})")
        picture.line([(190, y), (740, y)], RULE)
        for name, color in (("iid", GREY), ("spr", ORANGE), ("optimal", BLUE)):
            scale = float(made[name].scales[row])
            x = 190 + 550 * math.log10(scale) / 2.3
            picture.dot(x, y, color, radius=6)
            picture.text(x, y + (19 if name == "iid" else -11), f"{scale:.3g}", size=11, color=color, at="middle")
    for x, words, color in (
        (190, "optimal", BLUE),
        (300, "spr: equal split", ORANGE),
        (460, "iid: the same everywhere", GREY),
    ):
        picture.dot(x, 192, color)
        picture.text(x + 10, 196, words, color=SOFT)
    return picture


def scores(picture: Picture, rows: tuple[tuple[str, str, str], ...], first: float) -> float:
    """Bars for three budgets, from rows (of the table, words, color) of learn-scores; the plain model's score.

    Bars begin at the score `first`, and have their full length at 1.
    """
    page = "learn-scores"
    found = [(words, color, numbers(row_of(page, row)[2:5])) for row, words, color in rows]
    plain = numbers(row_of(page, rows[0][0])[1:2])[0]
    below = 74 + 34 * len(rows)
    for column, epsilon in enumerate((0.5, 1, 3)):
        left = 40 + 235 * column
        picture.text(left, 62, f"epsilon = {epsilon:g}", color=SOFT)
        for place, (_, color, each) in enumerate(found):
            picture.bar(left, 74 + 34 * place, 220 * (each[column] - first) / (1 - first), 24, color)
            picture.text(left + 8, 91 + 34 * place, f"{each[column]:.3f}", color="#ffffff")
        right = left + 220 * (plain - first) / (1 - first)
        picture.line([(right, 68), (right, below)], INK, dash="4 3")
    at = 40
    for words, color, _ in found:
        picture.dot(at + 5, below + 34, color)
        picture.text(at + 16, below + 38, words, color=SOFT)
        at += 36 + 7 * len(words)
    picture.text(at, below + 38, f"dashed: not private ({plain:g})", color=SOFT)
    return below + 68


def regression() -> Picture:
    """Scores on California housing, from results/bench."""
    picture = Picture(760, 230, "R squared of private regressions on California housing for three budgets")
    picture.text(20, 28, "California housing, R² on held-out rows, mean of six seeds", size=15)
    rows = ("california, PrivateRidge", "PrivateRidge", BLUE), ("california, PrivateLasso", "PrivateLasso", GREEN)
    words = "Clipping removes a few absurd rows, so a private fit can score higher than the plain one."
    picture.text(40, scores(picture, rows, first=0.0), words, size=12, color=SOFT)
    return picture


def survival() -> Picture:
    """Two curves of made-up patients with their intervals, from one seeded release, and the true curves."""
    picture = Picture(760, 300, "Private survival curves of two groups with intervals, beside the true curves")
    picture.text(20, 28, "Patients without the event, two groups of 3,000, epsilon 1", size=15)
    rng, edges = np.random.default_rng(0), np.arange(0, 18.1, 0.25)
    group = np.repeat([0, 1], 3000)
    event, censored = rng.exponential(np.where(group == 1, 14, 9)), rng.uniform(4, 20, 6000)
    with inid.testing.unsafe_seed(1):
        model = learn.PrivateKaplanMeier(PROMISE, edges=edges, groups=(0, 1))
        model.fit(np.minimum(event, censored), event <= censored, group)
    low, high = model.interval()
    for at, (mean, color, name) in enumerate([(9, ORANGE, "control"), (14, BLUE, "treated")]):
        reached = np.isfinite(model.survival_[at])
        x = [60 + 35 * time for time in edges[1:][reached]]
        curve, under, over = ([260 - 200 * y for y in one[at][reached]] for one in (model.survival_, low, high))
        picture.area([*zip(x, over, strict=True), *zip(x[::-1], under[::-1], strict=True)], color, opacity=0.25)
        picture.line([*zip(x, curve, strict=True)], color, width=2)
        truth = [(60 + 35 * time, 260 - 200 * math.exp(-time / mean)) for time in edges]
        picture.line(truth, INK, width=1, dash="3 3")
        picture.text(x[-1] + 8, curve[-1] + 4, name, color=color)
    for share in (0, 0.5, 1):
        picture.text(50, 264 - 200 * share, f"{share:g}", color=SOFT, at="end")
    for year in (0, 5, 10, 15):
        picture.text(60 + 35 * year, 280, f"{year} years" if year else "0", size=12, color=SOFT, at="middle")
    picture.text(300, 52, "Bands are 95 % intervals of noise and sampling; dashed is the truth.", size=12, color=SOFT)
    return picture


def shapes() -> Picture:
    """Two shapes of a made-up regression with their intervals, from one seeded fit, and the true ones."""
    picture = Picture(760, 290, "Two shapes of a private additive model with intervals, beside the true ones")
    picture.text(20, 28, "Shapes of years of work and rooms, 6,000 rows, epsilon 1", size=15)
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 40, 6_000), rng.uniform(1, 10, 6_000)])
    y = 20 + 30 * np.sqrt(X[:, 0] / 40) + 4 * X[:, 1] + rng.normal(0, 5, 6_000)
    with inid.testing.unsafe_seed(1):
        model = learn.PrivateAdditiveRegressor(
            PROMISE, bounds=([0, 0], [50, 12]), bounds_y=(0, 150), monotone={0: "increasing"}, pairs=0
        ).fit(X, y)
    truths = (lambda x: 30 * np.sqrt(x / 40) - 20, lambda x: 4 * (x - 5.5))
    for at, (name, truth) in enumerate(zip(("years of work", "rooms"), truths, strict=True)):
        shape, left = model.shapes_[str(at)], 60 + 370 * at
        (edges,), (low, high) = shape.edges, shape.interval()
        kept = shape.shares > 0.01

        def spot(x: float, effect: float, left: float = left, last: float = edges[-1]) -> tuple[float, float]:
            return left + 300 * x / last, 150 - 3.6 * effect

        for begin, end, value, under, over in zip(
            edges[:-1][kept], edges[1:][kept], shape.values[kept], low[kept], high[kept], strict=True
        ):
            picture.area([spot(begin, under), spot(end, under), spot(end, over), spot(begin, over)], BLUE, opacity=0.25)
            picture.line([spot(begin, value), spot(end, value)], BLUE, width=2)
        ends = np.linspace(X[:, at].min(), X[:, at].max(), 60)
        picture.line([spot(x, truth(x)) for x in ends], INK, width=1, dash="3 3")
        picture.text(left + 150, 272, name, size=12, color=SOFT, at="middle")
        for effect in (-20, 0, 20):
            picture.text(left - 8, 154 - 3.6 * effect, f"{effect}", size=12, color=SOFT, at="end")
    picture.text(40, 50, "Bands are 95 % intervals of noise and sampling; dashed is the truth.", size=12, color=SOFT)
    return picture


def categories() -> Picture:
    """Scores on Adult from its strings, beside two peers, from the same table."""
    picture = Picture(760, 264, "AUC of private classifiers on Adult, read from its strings, for three budgets")
    picture.text(20, 28, "Adult from its strings, AUC on held-out rows, mean of six seeds", size=15)
    rows = (
        ("adult, PrivateLogisticRegression", "PrivateLogisticRegression", BLUE),
        ("adult, DP-EBM", "DP-EBM", GREEN),
        ("adult, diffprivlib", "diffprivlib", ORANGE),
    )
    words = "Bars begin at 0.5, the AUC of a coin. diffprivlib promises pure DP, the others delta = 1e-6."
    picture.text(40, scores(picture, rows, first=0.5), words, size=12, color=SOFT)
    return picture


def shared_budget() -> Picture:
    """A ledger's total as a bar that several people's charges fill."""
    picture = Picture(760, 170, "A total budget of epsilon 3, charged by three people, with a refused fourth charge")
    ledger = inid.Ledger(total=inid.PureDP(epsilon=3))
    s = inid.Sensitivity.box([1.0])
    picture.text(20, 28, "One ledger, several people: epsilon 3 in all", size=15)
    picture.bar(20, 50, 200 * 3, 34, RULE)
    left = 20.0
    for name, epsilon, color in (("ann: spring", 1, BLUE), ("ben:", 0.5, GREEN), ("cem: autumn", 1, BLUE)):
        ledger.charge(inid.plan(s, inid.PureDP(epsilon=epsilon)), label=name)
        cost = float(ledger.history()[-1].cost.epsilon)
        picture.bar(left + 1, 50, 200 * cost - 2, 34, color)
        picture.text(left + 8, 72, f"{name} {cost:g}", color="#ffffff")
        left += 200 * cost
    picture.text(left + 10, 72, f"{float(ledger.remaining().epsilon):g} left", color=SOFT)
    if ledger.can_afford(inid.plan(s, inid.PureDP(epsilon=1))):
        raise AssertionError("the picture shows a charge that is refused")
    picture.bar(left + 1, 98, 198, 28, ORANGE, opacity=0.35)
    picture.text(left + 8, 117, "dee: 1, too much", color=INK)
    picture.text(20, 152, "The refused charge draws no noise and looks at no data.", size=12, color=SOFT)
    return picture


def two_worlds() -> Picture:
    """The answers that may come out with and without one person."""
    picture = Picture(760, 260, "Possible answers with and without one person overlap almost everywhere")
    picture.text(20, 28, "What may be published, with you in the table and without you", size=15)
    picture.line([(60, 190), (700, 190)], INK, width=1)
    one = 45  # how far one person moves the answer, in points of the picture
    plan = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=0.5), mechanism="laplace")
    scale = one * float(plan.scales[0])
    for middle, color in ((350, BLUE), (350 + one, ORANGE)):
        points = [(x, 190 - 140 * math.exp(-abs(x - middle) / scale)) for x in range(60, 701, 5)]
        picture.area([(60, 190), *points, (700, 190)], color, opacity=0.18)
        picture.line(points, color, width=2.5)
    picture.text(342, 44, "without you", color=BLUE, at="end")
    picture.text(404, 44, "with you", color=ORANGE)
    picture.text(380, 214, "published number", color=SOFT, at="middle")
    picture.text(
        60, 244, "At no point is one curve more than e^epsilon times as high as the other.", size=12, color=SOFT
    )
    return picture


def audit() -> Picture:
    """The certified curve of a plan and the lower bound that an audit of samples can show."""
    picture = Picture(
        760, 280, "Certified delta over epsilon of a plan, and the exact curve of noise that is too small"
    )
    plan = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=1.0), mechanism="laplace")
    grid = [0.02 * k for k in range(101)]

    def spot(epsilon: float, delta: float) -> tuple[float, float]:
        return 70 + 320 * epsilon, 230 - 320 * delta

    for delta in (0, 0.2, 0.4, 0.6):
        picture.line([spot(0, delta), spot(2, delta)], RULE)
        picture.text(60, spot(0, delta)[1] + 4, f"{delta:g}", at="end", size=12, color=SOFT)
    good = [(e, float(plan.delta(epsilon=e))) for e in grid]
    halved = inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=2.0), mechanism="laplace")  # half the noise
    bad = [(e, float(halved.delta(epsilon=e))) for e in grid]
    picture.line([spot(*p) for p in good], BLUE, width=3)
    picture.line([spot(*p) for p in bad], ORANGE, width=2, dash="6 4")
    for epsilon in (0, 0.5, 1, 1.5, 2):
        picture.text(spot(epsilon, 0)[0], 248, f"{epsilon:g}", at="middle", size=12, color=SOFT)
    picture.text(*spot(0.08, 0.07), "certified curve of the plan", color=BLUE)
    picture.text(*spot(0.85, 0.5), "the same with half the noise: the audit finds it", color=ORANGE)
    picture.text(390, 270, "epsilon (up the page: delta)", at="middle", color=SOFT)
    return picture


def evidence() -> Picture:
    """What one person's change costs in a replay, of what was charged: sums of clipped ages and of ages as they are."""
    picture = Picture(
        760, 300, "Cost of one person's change in eight replays: clipped ages stay below what was charged"
    )
    picture.text(20, 28, "Record and replay: what one person's change costs, of what was charged", size=15)
    people = pd.DataFrame({"age": [30.0, 41.0, 57.0, 64.0] * 10})
    made = inid.plan(inid.Sensitivity.box([1.0, 100.0]), inid.PureDP(epsilon=1.0), mechanism="laplace")

    def release(frame: pd.DataFrame, *, clips: bool) -> inid.Release:
        ages = frame["age"].where(np.isfinite(frame["age"]), 0.0)
        return inid.release([len(ages), float((ages.clip(0, 100) if clips else ages).sum())], made)

    for place, (clips, color) in enumerate(((True, BLUE), (False, ORANGE))):
        tape = testing.record(lambda frame, clips=clips: release(frame, clips=clips), people)
        for row, (what, other) in enumerate(testing.neighbours_of(people, number=8, seed=4)):
            y, spent = 44 + 27 * row, max(testing.replay(tape, other).spent)
            picture.text(150, y + 15, what, at="end", size=12, color=SOFT)
            picture.bar(160, y + 10 * place, max(2, 300 * min(spent, 1.9)), 9, color)
    picture.line([(460, 40), (460, 262)], INK, width=1)
    picture.text(466, 274, "charged", size=12, color=SOFT)
    for x, words, color in ((160, "ages are clipped", BLUE), (300, "ages are not clipped", ORANGE)):
        picture.dot(x, 286, color)
        picture.text(x + 10, 290, words, color=SOFT)
    return picture


def migration() -> Picture:
    """Standard deviations of five means: one budget for each against one plan for all."""
    picture = Picture(760, 230, "Error of five private means: an equal split of the budget against one plan")
    picture.text(20, 28, "Five means under one promise: squared error / tolerance²", size=15)
    names, sizes, tolerances = (
        ("age", "visits", "weight", "steps", "income"),
        (100, 50, 200, 30_000, 500_000),
        (1, 1, 5, 500, 2_000),
    )
    s = inid.Sensitivity.box([x / 10_000 for x in sizes], labels=names)
    made = {
        name: inid.plan(s, inid.PureDP(epsilon=1.0), tolerance=tolerances, mechanism="laplace", allocation=name)
        for name in ("optimal", "spr")
    }
    worst = max(float(x) / t for x, t in zip(made["spr"].scales, tolerances, strict=True))
    for row, name in enumerate(names):
        y = 50 + 30 * row
        picture.text(20, y + 14, name)
        for place, (kind, color) in enumerate((("optimal", BLUE), ("spr", ORANGE))):
            part = (float(made[kind].scales[row]) / tolerances[row] / worst) ** 2
            picture.bar(100, y + 12 * place, 600 * part, 10, color)
    for x, words, color in ((100, "one plan for all five", BLUE), (290, "one fifth of the budget for each", ORANGE)):
        picture.dot(x, 214, color)
        picture.text(x + 10, 218, words, color=SOFT)
    return picture


def training_step() -> Picture:
    """What a private step costs, from results/bench."""
    picture = Picture(760, 190, "Time of a private training step over a plain one, here and in Opacus")
    picture.text(20, 28, "A private step over a plain one: ResNet-20 on a CPU, batch 64", size=15)
    for place, (first, words, color) in enumerate(
        (
            ("inid, per_layer", "inid, per layer", BLUE),
            ("inid, global", "inid, global", BLUE),
            ("Opacus 1.6, flat", "Opacus 1.6, flat", ORANGE),
            ("Opacus 1.6, per_layer", "Opacus 1.6, per layer", ORANGE),
        )
    ):
        ratio = numbers(row_of("training-resnet", first))[1]
        y = 48 + 30 * place
        picture.text(20, y + 15, words)
        picture.bar(180, y, 170 * ratio, 20, color)
        picture.text(188 + 170 * ratio, y + 15, f"x {ratio:.2f}")
    picture.line([(350, 42), (350, 168)], INK, dash="4 3")
    picture.text(350, 184, "plain step", size=12, color=SOFT, at="middle")
    return picture


def training_epsilon() -> Picture:
    """What the run of the guide on training has spent after each step, for three sizes of batches."""
    picture = Picture(760, 270, "Epsilon spent over the epochs of a private training run, for three sizes of batches")
    picture.text(20, 28, "Certified epsilon at delta = 1e-5 after each epoch, noise multiplier 1", size=15)
    top, epochs = 6.0, 5
    step = inid.plan(inid.Sensitivity.ball(1, l2=1.0), inid.GaussianDP(mu=1.0), mechanism="gaussian")

    def spot(epoch: float, epsilon: float) -> tuple[float, float]:
        return 70 + 108 * epoch, 222 - 170 * epsilon / top

    for epsilon in range(int(top) + 1):
        picture.line([spot(0, epsilon), spot(epochs, epsilon)], RULE)
        picture.text(60, spot(0, epsilon)[1] + 4, f"{epsilon}", at="end", size=12, color=SOFT)
    for size, color in ((400, BLUE), (200, GREEN), (50, ORANGE)):
        batches = 4_000 // size
        spent = [
            float(inid.subsample(step, rate=size / 4_000, steps=batches * e).epsilon(delta=1e-5))
            for e in range(1, epochs + 1)
        ]
        picture.line([spot(e, x) for e, x in enumerate(spent, start=1)], color, width=2.5)
        for e, x in enumerate(spent, start=1):
            picture.dot(*spot(e, x), color)
        picture.text(spot(epochs, 0)[0] + 14, spot(0, spent[-1])[1] + 4, f"batches of {size}", color=color)
    for epoch in range(1, epochs + 1):
        picture.text(spot(epoch, 0)[0], 240, f"{epoch}", at="middle", size=12, color=SOFT)
    picture.text(340, 262, "epochs over 4,000 examples", at="middle", color=SOFT)
    return picture


def monthly_totals() -> Picture:
    """The totals of a year with the bands of a stream, and those of independent months."""
    picture = Picture(
        760, 270, "Totals of twelve months with bands of a stream, inside wider ones of independent noise"
    )
    picture.text(20, 28, "Visits so far, 95 % intervals: one promise for the year, mu = 0.1", size=15)
    months, top = [f"2027-{month:02}" for month in range(1, 13)], 12_500.0
    table = tables.Table(pd.DataFrame({"sex": ["F"]}))
    plan = tables.plan_stream(table, query={"count": True}, periods=months, promise=inid.GaussianDP(mu=0.1))
    totals = [1_000.0 * at for at in range(1, 13)]

    def spot(month: int, total: float) -> tuple[float, float]:
        return 70 + 44 * month, 232 - 190 * total / top

    for total in range(0, 12_001, 3_000):
        picture.line([spot(0, total), spot(12, total)], RULE)
        picture.text(60, spot(0, total)[1] + 4, f"{total:,}", at="end", size=12, color=SOFT)
    for alone, color, words in ((True, GREY, "independent months"), (False, BLUE, "a stream")):
        halves = _normal_quantile(0.975) * plan.statistics[0][1] * plan.errors("totals", independent=alone)
        high = [spot(at, t + h) for at, (t, h) in enumerate(zip(totals, halves, strict=True), 1)]
        low = [spot(at, t - h) for at, (t, h) in enumerate(zip(totals, halves, strict=True), 1)]
        picture.area([*high, *reversed(low)], color, opacity=0.45)
        picture.text(614, 60 + 22 * (not alone), f"{words}: +- {halves[-1]:.0f}", size=12, color=color)
    for at, total in enumerate(totals, 1):
        picture.dot(*spot(at, total), BLUE, radius=2.5)
        picture.text(spot(at, 0)[0], 252, f"{at}", at="middle", size=12, color=SOFT)
    return picture


def _normal_quantile(p: float) -> float:
    from statistics import NormalDist

    return NormalDist().inv_cdf(p)


PICTURES = {
    "private-table": private_table,
    "bounds": bounds,
    "plan-shares": plan_shares,
    "regression": regression,
    "survival": survival,
    "shapes": shapes,
    "categories": categories,
    "shared-budget": shared_budget,
    "two-worlds": two_worlds,
    "audit": audit,
    "evidence": evidence,
    "migration": migration,
    "training-step": training_step,
    "training-epsilon": training_epsilon,
    "monthly-totals": monthly_totals,
    "step-state": step_state,
}


def draw_all(folder: Path) -> None:
    """Write every picture into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PICTURES.items():
        make().save(folder / f"{name}.svg")


if __name__ == "__main__":
    draw_all(_HERE)
