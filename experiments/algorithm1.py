"""Appendix B: Algorithm 1, bisection for mu_0, as printed and in float64, beside the certified mu_0 of the library."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

import inid
from experiments.claims import DIFFERENTLY, HOLDS, NOT, Claim, Outcome
from experiments.plotting import BLACK, drawing, line_styles
from experiments.study import Study

__all__ = ["bisection", "run"]

_TOLERANCE = 1e-10  # mu_tol; 0 bisects until the floats run out
_EPSILONS = (0.0, 1e-6, 1e-3, 0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 8.0, 30.0, 100.0, 300.0, 700.0, 800.0, 1000.0)
_DELTAS = (1e-300, 1e-100, 1e-50, 1e-20, 1e-10, 1e-6, 1e-5, 1e-3, 0.1, 0.3, 0.5, 0.7, 0.9)


@dataclass(frozen=True)
class Bisection:
    """The first bracket, the mu that is returned, and the number of steps; NaN where there is no bracket."""

    low: float
    high: float
    mu: float
    steps: int


def _root(epsilon: float, delta: float) -> float:
    """R(delta) = sqrt(z^2 + 2 epsilon) - z, z = Q^-1(delta)."""
    z = float(norm.isf(delta))
    return math.sqrt(z * z + 2 * epsilon) - z


@np.errstate(all="ignore")
def bisection(epsilon: float, delta: float, tolerance: float = _TOLERANCE) -> Bisection:
    """Algorithm 1 as printed, in float64.

    >>> found = bisection(0.5, 1e-6)
    >>> found.low < found.mu < found.high, round(found.mu, 9)
    (True, 0.124106149)
    """
    wider = delta + float(np.exp(epsilon) * norm.sf(math.sqrt(2 * epsilon)))
    low, high = _root(epsilon, delta), _root(epsilon, wider) if wider < 1 else math.nan
    if not high < math.inf:
        return Bisection(low, math.nan, math.nan, 0)
    left, right, steps = low, high, 0
    while right - left > tolerance and left < (middle := (left + right) / 2) < right:
        ratio = epsilon / middle
        excess = norm.sf(ratio - middle / 2) - np.exp(epsilon) * norm.sf(ratio + middle / 2) - delta
        left, right = (left, middle) if excess > 0 else (middle, right)
        steps += 1
    return Bisection(low, high, left, steps)


def run(study: Study) -> Outcome:
    """Run it for a grid of promises, and judge bracket, result and number of steps."""
    out = Outcome("Appendix B: Algorithm 1, bisection for mu_0")
    rows, inside, steps_right = [], 0, 0
    for epsilon in study.pick(_EPSILONS, _EPSILONS[::3]):
        for delta in _DELTAS:
            one, exact = bisection(epsilon, delta), inid.ApproxDP(epsilon=epsilon, delta=delta).mu
            finest = bisection(epsilon, delta, 0.0).mu
            rows.append([epsilon, delta, one.low, one.high, exact, one.mu / exact - 1, finest / exact - 1, one.steps])
            if math.isfinite(one.high):
                inside += one.low * (1 - 1e-6) <= exact <= one.high * (1 + 1e-6) + 1e-15  # delta' is rounded
                width = (one.high - one.low) / _TOLERANCE
                steps_right += one.steps == max(math.ceil(math.log2(width)) if width > 0 else 0, 0)
    head = ["epsilon", "delta", "low", "high", "mu_0", "relative_error", "relative_error_finest", "steps"]
    study.table("algorithm1", head, rows)
    _judge(out, rows, inside, steps_right)
    out.values = {"mu_0(1, 1e-5)": bisection(1.0, 1e-5).mu, "R(1e-5), epsilon = 1": bisection(1.0, 1e-5).low}
    _plot(study, out)
    out.choices.append(f"mu_tol = {_TOLERANCE:g}; Q and its inverse are those of SciPy.")
    return out


def _judge(out: Outcome, rows: list[list[float]], inside: int, steps_right: int) -> None:
    ran = [row for row in rows if math.isfinite(row[3])]
    large = [row[1] for row in rows if not math.isfinite(row[3]) and row[0] < 700]
    out.claims.append(
        Claim(
            "mu_0 lies between R(delta) and R(delta'), for epsilon >= 0 and delta in [0, 1]",
            "proved",
            f"{inside} of the {len(ran)} promises with an upper end; {len(rows) - len(ran)} of {len(rows)} have none",
            HOLDS if inside == len(rows) else DIFFERENTLY if inside == len(ran) else NOT,
            "delta' = delta + e^epsilon Q(sqrt(2 epsilon)) can be 1 or more, where Q^-1 does not exist (from delta = "
            f"{min(large, default=math.nan):g} on), and e^epsilon overflows from epsilon = 710 on. The library doubles "
            "a finite bracket instead",
        )
    )
    above = [row[6] for row in ran if row[6] > 0]
    coarse = sum(row[5] > 0 for row in ran), sum(row[5] < -1e-3 for row in ran)
    out.claims += [
        Claim(
            "The lower end that Algorithm 1 returns keeps the promise",
            "phi(mu) <= delta",
            f"in float64, bisected until the floats run out, {len(above)} of {len(ran)} results are above mu_0, by "
            f"up to {max(above, default=0.0):.1g} of it; with mu_tol = {_TOLERANCE:g} {coarse[0]} are, and {coarse[1]} "
            "are more than a thousandth below",
            HOLDS if not above else DIFFERENTLY,
            "true in exact arithmetic. In floats the two terms of phi cancel where delta is far below them. The "
            "library decides the last digits by integer enclosures",
        ),
        Claim(
            "It ends after log2((high - low) / mu_tol) steps",
            "linear convergence",
            f"{steps_right} of {len(ran)}, rounded up",
            HOLDS if steps_right == len(ran) else NOT,
            "each step halves the interval",
        ),
    ]


def _plot(study: Study, out: Outcome) -> None:
    epsilons = np.geomspace(0.01, 30, 40)
    caption = "The bracket of Algorithm 1 over mu_0, delta = 1e-6 and 1e-3."
    with drawing(study, "algorithm1", caption) as (ax, figure):
        for number, delta in enumerate((1e-6, 1e-3)):
            exact = [inid.ApproxDP(epsilon=float(e), delta=delta).mu for e in epsilons]
            ends = [bisection(float(e), delta) for e in epsilons]
            style = {"color": line_styles(number)["color"]}
            ax.loglog(
                epsilons, [b.high / m for b, m in zip(ends, exact, strict=True)], label=f"R(delta'), {delta:g}", **style
            )
            ax.loglog(
                epsilons,
                [b.low / m for b, m in zip(ends, exact, strict=True)],
                "--",
                label=f"R(delta), {delta:g}",
                **style,
            )
        ax.axhline(1, color=BLACK, linewidth=1)
        ax.set(xlabel="epsilon", ylabel="end of the bracket / mu_0")
        ax.legend()
    out.figures.append(figure)
