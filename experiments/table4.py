"""Table IV: ResNet-20 on CIFAR-10 with per-layer clipping, from records of runs on a GPU.

Training takes a GPU, so it is not part of `make paper`: this file reads the records in results/table4/*.jsonl (see
`training_records`) and makes the table. What noise each rule adds to such a network needs no training, and is computed
here in any case.
"""

import math
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.stats import t as student

import inid
from experiments.claims import DIFFERENTLY, HOLDS, NOT, NOT_RUN, UNATTAINABLE, Claim, Estimate, Outcome, Table
from experiments.plotting import COLOURS, drawing
from experiments.study import Study
from experiments.training_records import TOLD, Run, read_runs

__all__ = ["LAYERS", "run"]

# Weights and biases of each layer of a ResNet-20 for 32 x 32 images, normalisation layers with a scale and a shift.
LAYERS = (
    [432, 32]
    + [2304, 32] * 6
    + [4608, 64]
    + [9216, 64] * 5
    + [18_432, 128]
    + [36_864, 128] * 5
    + [650]
)  # fmt: skip
_PRINTED = {
    ("gaussian", 5.0, 1e-5): (63.26, 42.90, 57.86),
    ("gaussian", 8.0, 1e-5): (68.55, 47.16, 61.58),
    ("gaussian", 5.0, 4e-10): (59.03, 42.27, 50.33),
    ("gaussian", 8.0, 4e-10): (60.47, 44.02, 57.65),
    ("laplace", 5.0, 0.0): (62.17, 42.05, 59.02),
    ("laplace", 8.0, 0.0): (67.46, 46.08, 63.46),
}
_COLUMNS = ("global", "spr", "elementwise")
_WORDS = {
    "global": "global clipping",
    "spr": "SPR per layer",
    "elementwise": "the paper's per layer",
    "layers": "E3 per layer",
    "elementwise, spr": "element-wise clipping, SPR",
}
# Which of our columns can be meant by the printed one for SPR.
_READINGS = {
    "spr": "SPR on layers clipped in l2 norm (He et al.)",
    "elementwise, spr": "SPR on entries clipped one by one, as its own are",
}
_TITLE = (
    "Test accuracy in %: ours (printed), read from the records that `examples/cifar10.py --record` left in "
    "`results/table4`; `make paper` does not train"
)
_RATE, _STEPS, _BATCH = 0.02, 5000, 1000  # of 50,000 images; 100 epochs
_ENTRIES = "elementwise, spr"
_EASIER = ("laplace", 8.0, 1e-5)  # trained in place of pure DP, which asks for far more noise
_CHANCE = 10.0  # what guessing one of ten classes gives, in percent
_FAILED = (
    "training failed in one run or more (chance is 10 %): its learning rate was chosen over 10 epochs, so this says "
    "nothing of the noise"
)
_COMMITTED = Path(__file__).resolve().parents[1] / "results" / "table4"


def run(study: Study) -> Outcome:
    """Read the records, judge them, and add what can be said without training."""
    out = Outcome("Table IV: ResNet-20 on CIFAR-10, per-layer clipping")
    _planned(study, out)
    _laplace(out)
    records = read_runs(study.folder) or read_runs(_COMMITTED)
    found = _final(records)
    images = ", JPEG images" if any("JPEG" in run.data for run in records) else ""
    _judge(out, found, _eased(records), images)
    promises = list(dict.fromkeys((*_PRINTED, *(key[:3] for key in found))))
    methods = list(dict.fromkeys((*_WORDS, *(key[3] for key in found))))
    rows = [
        [*p, m, found[*p, m].mean, found[*p, m].error, found[*p, m].runs]
        for p in promises
        for m in methods
        if (*p, m) in found
    ]
    study.table("table4", ["mechanism", "epsilon", "delta", "method", "accuracy", "standard_error", "seeds"], rows)
    lines = []
    for promise in promises:
        kind, epsilon, delta = promise
        printed = dict(zip(_COLUMNS, _PRINTED.get(promise, ()), strict=False))
        cells = [_cell(found.get((*promise, m)), printed.get(m)) for m in methods]
        lines.append([f"{kind.capitalize()}, ({epsilon:g}, {delta:g})", *cells])
    head = ["noise, (epsilon, delta)", *(_WORDS.get(m, m) for m in methods)]
    out.tables.append(Table(_TITLE + (", on images stored as JPEG" if images else ""), head, lines))
    out.choices.append(_never_trained(found))
    if records:
        study.source = ", ".join(sorted({run.data for run in records}))
        study.seeds = "of the initial weights, in every record; noise and batches come from the operating system"
        out.tables += [_told(records), _tuned(records)]
        _plot(study, out, found)
    out.choices += [
        (
            "Layers are convolutions, normalisations (by groups of channels, since batch normalisation mixes examples) "
            "and the last linear layer, 39 groups of 269,722 parameters, all with the same threshold."
        ),
        (
            "Stochastic gradient descent with momentum 0.9 and a constant learning rate, Poisson batches, images "
            "neither flipped nor cropped. Learning rates were tried on 5000 images held out, with batches of 900 of "
            "the others."
        ),
        (
            'The SPR column ("the SPR equivalent of the per-layer flat clipping" of He et al.) is read in two ways: '
            "layers clipped in l2 norm, where equal thresholds make SPR's noise the same everywhere, and entries "
            "clipped one by one as in the paper's own column."
        ),
        (
            "Laplace noise was trained at (8, 1e-5), where the accounting of subsampled Laplace steps is valid and the "
            "noise far smaller than under pure DP."
        ),
        (
            "Accuracies are those after the last epoch, means over seeds. Learning rates were chosen per column by "
            "runs of 10 epochs, for the paper's column also by two runs of 100 epochs, of which the smaller rate "
            "was the better; still smaller ones were not tried at (8, 1e-5), nor 100 epochs for SPR on entries. At "
            "(5, 1e-5) each column has one run: the paper's with rate 0.01, the others with the rates of (8, 1e-5). "
            "For adaptive thresholds with a total one rate and three quantiles were tried; its row is one run. "
            "Three of the tuning runs were made with a version of the library between two commits, as their records "
            "say. The runs at delta = 4e-10 have the learning rates that were chosen at (8, 1e-5)."
        ),
    ]
    return out


def _planned(study: Study, out: Outcome) -> None:
    """The total noise of each rule for one step of mu = 1 and an overall threshold of 1."""
    sizes, bound = np.array(LAYERS), 1 / math.sqrt(len(LAYERS))
    budget = inid.GaussianDP(mu=1.0)
    groups = inid.Sensitivity.groups(sizes=LAYERS, l2=[bound] * len(LAYERS))
    box = inid.Sensitivity.box(bound / np.sqrt(sizes), counts=LAYERS)
    plans = {
        "global clipping": inid.plan(
            inid.Sensitivity.ball(dimension=int(sizes.sum()), l2=1.0), budget, mechanism="gaussian"
        ),
        "SPR per layer": inid.plan(groups, budget, mechanism="gaussian", allocation="spr"),
        "the paper's, element-wise clipping": inid.plan(box, budget, mechanism="gaussian"),
        "element-wise clipping, SPR": inid.plan(box, budget, mechanism="gaussian", allocation="spr"),
        "E3 per layer": inid.plan(groups, budget, mechanism="gaussian"),
    }
    errors = {name: plan.mse for name, plan in plans.items()}
    out.values |= {f"total variance, {name}": value for name, value in errors.items()}
    rows = [[name, f"{value:.6g}", f"{value / errors['E3 per layer']:.3f}"] for name, value in errors.items()]
    study.table("table4_noise", ["rule", "total_variance", "ratio_to_E3"], rows)
    out.tables.append(
        Table(
            "Total variance of the noise of one step, mu = 1, overall threshold 1",
            ["rule", "variance", "beside E3"],
            rows,
        )
    )
    same = abs(errors["the paper's, element-wise clipping"] / errors["E3 per layer"] - 1) < 1e-9
    out.beyond.append(
        "E3 adds the very noise of the paper's per-layer scheme "
        f"({'the same' if same else 'another'} total variance) but clips the l2 norm of each layer instead of "
        "every entry, so that it keeps the "
        "direction of each layer's gradient. Noise scaled by thresholds alone has "
        f"{errors['SPR per layer'] / errors['E3 per layer']:.2f} times its variance."
    )


def _pure_step(epsilon: float) -> float:
    """What is left to a step under pure DP: on a sample of rate q it costs log(1 + q (e^e - 1)), and costs add up."""
    return math.log1p(math.expm1(epsilon / _STEPS) / _RATE)


def _laplace(out: Outcome) -> None:
    """How far noise drowns the signal in one step: Laplace noise under pure DP, and Gaussian noise for comparison.

    The signal is taken as large as it can be: a batch of 1000 gradients, all alike. A gradient of normal entries that
    is clipped to l1 norm 1 has l2 norm sqrt(pi / 2K).
    """
    size = sum(LAYERS)
    each = _pure_step(8.0)
    laplace = math.sqrt(2 * size) / each / (_BATCH * math.sqrt(math.pi / (2 * size)))

    def excess(mu: float) -> float:
        step = inid.plan(inid.Sensitivity.ball(dimension=size, l2=1.0), inid.GaussianDP(mu=mu), mechanism="gaussian")
        return inid.subsample(step, rate=_RATE, steps=_STEPS).epsilon(delta=1e-5) - 8.0

    gaussian = math.sqrt(size) / brentq(excess, 0.6, 1.2, xtol=1e-3) / _BATCH
    out.values |= {"Laplace epsilon of one step": each, "Laplace noise over signal": laplace}
    out.claims.append(
        Claim(
            "Laplace noise with (8, 0)-DP reaches the accuracy of Gaussian noise",
            "67.46 % (global), 63.46 % (the paper's)",
            f"noise over signal in one step: {laplace:.0f}, beside {gaussian:.2f} for Gaussian noise at delta = 1e-5",
            UNATTAINABLE if laplace > 1000 * gaussian else NOT_RUN,
            f"5000 steps at sampling rate 0.02 under pure DP leave epsilon = {each:.3f} to a step, for there is "
            "no delta to trade, and "
            "clipping 269,722 parameters in l1 norm leaves a gradient some 400 times smaller than clipping in l2 "
            "norm, if their entries are normal; both norms are of "
            "whole vectors, the signal that of 1000 gradients that all agree",
        )
    )


def _final(records: list[Run]) -> dict[tuple[str, float, float, str], Estimate]:
    groups: dict[tuple[str, float, float, str], list[float]] = {}
    for run in records:
        if not run.tuning:
            groups.setdefault((*run.promise, run.method), []).append(run.accuracy)
    return {
        key: Estimate.of(values) if len(values) > 1 else Estimate(values[0], math.nan, 1)
        for key, values in groups.items()
    }


def _shown(found: Estimate, unit: str = "", images: str = "") -> str:
    if found.runs == 1:
        return f"{found.mean:.1f}{unit} (one run{images})"
    return f"{found.mean:.1f} ± {found.error:.1f}{unit} ({found.runs} seeds{images})"


def _never_trained(found: dict[tuple[str, float, float, str], Estimate]) -> str:
    """Which printed cells have no run at their own promise."""
    missing = {p: sum((*p, m) not in found for m in _COLUMNS) for p in _PRINTED}
    total = sum(missing.values())
    words = {0: "None", 6: "Six", 9: "Nine"}.get(total, str(total))
    where = ", ".join(f"{k.capitalize()} ({e:g}, {d:g}): {n}" for (k, e, d), n in missing.items() if n)
    weaker = any(n for (kind, _, _), n in missing.items() if kind == "laplace")
    more = ". Those of Laplace noise are judged by runs under a weaker promise" if weaker else ""
    cells = len(_PRINTED) * len(_COLUMNS)
    return f"{words} of the {cells} printed cells were never trained at their promise ({where}){more}."


def _cell(found: Estimate | None, printed: float | None) -> str:
    ours = "not run" if found is None else _shown(found)
    return ours if printed is None else f"{ours} ({printed:.2f})"


def _band(found: Estimate) -> float:
    """How far a mean may lie from the truth, in points: exceeded by chance in one case of ten, and at least two points.

    That is three standard errors of three seeds, and six of two.
    """
    return max(2.0, float(student.ppf(0.95, found.runs - 1)) * found.error) if found.runs > 1 else 2.0


def _agreement(found: Estimate) -> float:
    """How far a printed number may lie for a *holds*: the error of two seeds says too little to widen it."""
    return max(2.0, _band(found)) if found.runs > 2 else 2.0


def _failed(found: Estimate) -> bool:
    """Whether training came to nothing, in one of two runs at least: their mean less its error is the lower of them."""
    return found.mean - (found.error if found.runs > 1 else 0.0) <= _CHANCE + 2.0


def _judge(
    out: Outcome, found: dict[tuple[str, float, float, str], Estimate], eased: dict[str, float], images: str
) -> None:
    for promise, printed in _PRINTED.items():
        kind, epsilon, delta = promise
        where = f"{kind.capitalize()}, ({epsilon:g}, {delta:g})-DP"
        ours = {m: found[*promise, m] for m in (*_COLUMNS, _ENTRIES) if (*promise, m) in found}
        for method, value in zip(_COLUMNS, printed, strict=True):
            says, told = f"{where}, {_WORDS[method]}: accuracy", f"{value:.2f} %"
            near = found.get((*_EASIER, method)) if kind == "laplace" else None
            if method in ours:
                out.claims.append(_level(says, told, value, ours[method], kind, images))
            elif near is not None and near.mean + _band(near) < value:
                less = f"at (8, 1e-05), with {eased[method]:.3f} of the noise of (8, 0): {_shown(near, ' %', images)}"
                why = "a weaker promise, with far less noise, does not reach it either"
                out.claims.append(Claim(says, told, less, UNATTAINABLE, why))
            else:
                out.claims.append(Claim(says, told, "no record", NOT_RUN, "not trained yet"))
        if _ENTRIES in ours:
            says = f"{where}, {_READINGS[_ENTRIES]}: accuracy"
            out.claims.append(_level(says, f"{printed[1]:.2f} %", printed[1], ours[_ENTRIES], kind, images))
        for method, words in _READINGS.items():
            if {method, "elementwise"} <= ours.keys():
                out.claims.append(
                    _order(f"{where}: the paper's per-layer noise beats {words}", printed, ours, method, images)
                )
        layers = found.get((*promise, "layers"))
        each = [e for e in (ours.get("spr"), ours.get("elementwise"), layers) if e is not None]
        if "global" in ours and each:
            least = max(each, key=lambda e: e.mean)
            gap, margin = ours["global"].mean - least.mean, math.hypot(_band(ours["global"]), _band(least))
            told = printed[0] - max(printed[1:])
            out.claims.append(
                Claim(
                    f"{where}: clipping per layer costs accuracy beside global clipping",
                    f"by {told:.1f} points",
                    f"by {gap:.1f}{_apart(ours['global'], least)} points with the best equal thresholds "
                    f"({_seeds(ours['global'], least)}{images})",
                    NOT if gap <= margin else HOLDS if abs(gap - told) <= margin else DIFFERENTLY,
                    f"difference of the mean accuracies; {margin:.1f} points would be seen. With adaptive thresholds "
                    "and a total it costs less",
                )
            )
        if layers is not None:
            others = {_WORDS[m]: (layers.mean - e.mean, _apart(layers, e)) for m, e in ours.items()}
            told = ", ".join(f"{gap:+.1f}{apart} points beside {name}" for name, (gap, apart) in others.items())
            out.beyond.append(f"{where}: E3 per layer reaches {_shown(layers, ' %', images)}, {told}.")


def _apart(one: Estimate, other: Estimate) -> str:
    """The standard error of a difference, where there is one."""
    return f" ± {math.hypot(one.error, other.error):.1f}" if one.runs > 1 and other.runs > 1 else ""


def _seeds(*found: Estimate) -> str:
    """Of how many runs each is."""
    words = [f"{e.runs} seeds" if e.runs > 1 else "one run" for e in found]
    return f"{words[0]} each" if len(set(words)) == 1 else " and ".join(words)


def _level(says: str, told: str, value: float, ours: Estimate, kind: str, images: str) -> Claim:
    """A printed accuracy beside ours."""
    shown = _shown(ours, " %", images)
    if _failed(ours):
        return Claim(says, told, shown, NOT_RUN, _FAILED)
    away = abs(ours.mean - value)
    far = UNATTAINABLE if kind == "laplace" and ours.mean < value else NOT
    verdict = HOLDS if away <= _agreement(ours) else DIFFERENTLY if away <= 5.0 else far
    why = {HOLDS: f"within {_agreement(ours):.1f} points", DIFFERENTLY: "within five points"}
    return Claim(says, told, shown, verdict, why.get(verdict, "more than five points away"))


def _order(says: str, printed: tuple[float, ...], ours: dict[str, Estimate], method: str, images: str) -> Claim:
    """Whether the paper's noise beats SPR's, read in one of two ways."""
    paper, other = ours["elementwise"], ours[method]
    gain, margin = paper.mean - other.mean, math.hypot(_band(paper), _band(other))
    pair = f"{paper.mean:.1f} and {other.mean:.1f} %, {_seeds(paper, other)}{images}"
    told = f"{gain:+.1f}{_apart(paper, other)} points ({pair})"
    if _failed(paper) or _failed(other):
        return Claim(says, f"by {printed[2] - printed[1]:.1f} points", told, NOT_RUN, _FAILED)
    verdict = HOLDS if gain > margin else NOT
    why = f"difference of the mean accuracies; {margin:.1f} points would be seen"
    return Claim(says, f"by {printed[2] - printed[1]:.1f} points", told, verdict, why)


def _eased(records: list[Run]) -> dict[str, float]:
    """The noise of runs at (8, 1e-5), as a part of what pure DP asks for at (8, 0)."""
    least = 1 / _pure_step(8.0)
    return {run.method: run.multiplier / least for run in records if run.promise == _EASIER and not run.tuning}


def _told(records: list[Run]) -> Table:
    """Learning rate, command, hardware and date of the runs that count."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for run in records:
        if not run.tuning:
            kind, epsilon, delta = run.promise
            rows.setdefault((kind, f"{epsilon:g}", f"{delta:g}", run.method, *run.told), []).append(run.seed)
    head = ["noise", "epsilon", "delta", "method", *TOLD, "seeds"]
    return Table("The runs", head, [[*key, ", ".join(seeds)] for key, seeds in rows.items()])


def _tuned(records: list[Run]) -> Table:
    """The learning rates that were tried, by the mean accuracy on images held out from training."""
    groups: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for run in records:
        if run.tuning:
            key = (run.promise[0], _WORDS.get(run.method, run.method), run.quantile, run.told[1])
            groups.setdefault(key, {}).setdefault(run.told[0], []).append(run.accuracy)
    rows = []
    for key, rates in groups.items():
        means = sorted(((float(np.mean(found)), rate) for rate, found in rates.items()), reverse=True)
        rows.append(
            (means[0][0], [*key, ", ".join(f"{rate}: {mean:.1f} ({len(rates[rate])})" for mean, rate in means)])
        )
    return Table(
        "Choosing learning rates, with the noise of 100 epochs",
        ["noise", "method", "quantile", "epochs", "learning rate: accuracy on images held out, % (runs)"],
        [row for _, row in sorted(rows, key=lambda entry: -entry[0])],
    )


def _plot(study: Study, out: Outcome, found: dict[tuple[str, float, float, str], Estimate]) -> None:
    caption = (
        "Test accuracy of ResNet-20 on CIFAR-10, 100 epochs at sampling rate 0.02 unless the records say "
        "otherwise. Bars: ours, with standard errors over seeds; crosses: printed."
    )
    promises = list(dict.fromkeys(key[:3] for key in found))
    methods = list(dict.fromkeys((*(m for m in _WORDS if any(k[3] == m for k in found)), *(k[3] for k in found))))
    with drawing(study, "table4", caption, width=max(4.3, 1.6 * len(promises) + 2)) as (ax, figure):
        for number, method in enumerate(methods):
            at = np.arange(len(promises)) + (number - (len(methods) - 1) / 2) * 0.8 / len(methods)
            seen = [found.get((*p, method)) for p in promises]
            heights = [e.mean if e else math.nan for e in seen]
            bars = [e.error if e and e.runs > 1 else math.nan for e in seen]
            ax.bar(
                at,
                heights,
                0.8 / len(methods),
                yerr=bars,
                color=COLOURS[number % len(COLOURS)],
                label=_WORDS.get(method, method),
                capsize=2,
            )
            if method in _COLUMNS:
                printed = [_PRINTED.get(p, (math.nan,) * 3)[_COLUMNS.index(method)] for p in promises]
                ax.plot(at, printed, "x", color="#000000")
        ax.axhline(_CHANCE, color="#000000", linewidth=0.8, linestyle=":", label="guessing")
        ax.set_xticks(range(len(promises)), [f"{kind.capitalize()}\n({e:g}, {d:g})" for kind, e, d in promises])
        ax.set(ylabel="test accuracy, %", ylim=(0, 95), xlim=(-0.5, len(promises) - 0.5))  # room for the legend
        ax.legend(ncols=2, fontsize=7)
    out.figures.append(figure)
