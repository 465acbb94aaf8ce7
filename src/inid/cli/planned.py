"""A plan as the command shows it: one line per number, beside what i.i.d. noise and an equal split would give."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from inid.arguments import Floats
from inid.cli.speaking import Voice, plain_number, plain_ratio
from inid.planning import Comparison, NoisePlan, plan

__all__ = ["BASELINES", "Line", "Planned", "planned"]

BASELINES = ("iid", "spr")
_SHOWN = 60
_OWN_GUESS = "; state your own guess with --rows"
_NOTHING = 1.001  # a gain below 0.1 % is called none, as in the remark


@dataclass(frozen=True)
class Line:
    """One statistic, or one number of stated sensitivity, and its noise.

    Attributes:
        label: Its name.
        share: The part of the promise that it takes.
        deviation: The standard deviation of its noise.
        tolerance: The error in which the promise was spent, where there is one.
        baselines: The standard deviation under "iid" and "spr".
        sensitivity: How far one person moves it, for a stated number.
        scale: The scale of its noise, for a stated number.
    """

    label: str
    share: float
    deviation: float
    tolerance: float | None
    baselines: dict[str, float]
    sensitivity: float | None = None
    scale: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary."""
        return asdict(self)


@dataclass(frozen=True)
class Planned:
    """A plan, line by line, beside its baselines.

    Attributes:
        noise: The plan of all noisy numbers.
        lines: One per statistic, or per stated number.
        comparison: Every way to keep the promise.
        gains: The expected error under "iid" and "spr", as a ratio to the plan's.
        remark: A sentence when a baseline is already optimal.
        rows: The rows assumed, for a table.
        guessed: Whether these rows are nominal, since nobody stated a guess.
    """

    noise: NoisePlan
    lines: tuple[Line, ...]
    comparison: Comparison
    gains: dict[str, float]
    remark: str | None
    rows: int | None = None
    guessed: bool = False

    @property
    def error_name(self) -> str:
        """What the plan makes small."""
        return "squared error" if self.noise.order == 2 else f"error of order {self.noise.order:g}"

    @property
    def gain(self) -> str:
        """A sentence about the baselines."""
        unit = " in units of the tolerances" if any(line.tolerance is not None for line in self.lines) else ""
        iid, spr = (plain_ratio(self.gains[name]) for name in BASELINES)
        return f"I.i.d. noise would have {iid} times the expected {self.error_name}{unit}, an equal split {spr} times."

    def to_dict(self) -> dict[str, Any]:
        """The keys that `plan`, `compare` and `release` share under --json."""
        rows = [
            {
                "mechanism": row.mechanism,
                "allocation": row.allocation,
                "error": row.error,
                "decibel": row.decibel,
                "ratio": row.ratio,
            }
            for row in self.comparison
        ]
        return {
            "plan": self.noise.to_dict(),
            "certificate": self.noise.certificate.to_dict(),
            "lines": [line.to_dict() for line in self.lines],
            "comparison": rows,
            "gains": self.gains,
            "remark": self.remark,
            "rows": self.rows,
        }

    def show(self, voice: Voice) -> None:
        """The plan as a table."""
        noise = self.noise
        voice.say(
            f"{noise.mechanism.capitalize()} noise, {noise.allocation} allocation, {noise.dimension} noisy numbers"
        )
        voice.say(f"promise: {noise.budget}, neighbours: {noise.sensitivity.neighbours}")
        if self.rows is not None:
            voice.say(f"errors for {self.rows:,} rows in all{_OWN_GUESS if self.guessed else ''}")
        voice.say()
        named: list[tuple[str, Callable[[Line], float | None]]] = [
            ("sensitivity", lambda line: line.sensitivity),
            ("scale", lambda line: line.scale),
            ("tolerance", lambda line: line.tolerance),
            ("std of noise", lambda line: line.deviation),
            ("i.i.d.", lambda line: line.baselines["iid"]),
            ("equal split", lambda line: line.baselines["spr"]),
        ]
        told = [(name, read) for name, read in named if any(read(line) is not None for line in self.lines)]
        rows = [["number" if self.rows is None else "statistic", *(name for name, _ in told), "share"]]
        for line in self.lines[:_SHOWN]:
            cells = [_cell(read(line)) for _, read in told]
            rows.append([line.label, *cells, f"{line.share:.2%}"])
        voice.table(rows, left=1)
        if len(self.lines) > _SHOWN:
            voice.say(f"... and {len(self.lines) - _SHOWN} more")

    def show_gain(self, voice: Voice) -> None:
        """What was gained against the baselines, in a sentence or two; that nothing was, if so."""
        if self.remark:
            voice.say(self.remark)
        if max(self.gains.values()) > _NOTHING:
            voice.say(self.gain)

    def show_comparison(self, voice: Voice) -> None:
        """Every way to keep the promise, and a sentence when there is nothing to gain."""
        rows = [["mechanism", "allocation", "error", "dB", "ratio", ""]]
        chosen: list[int] = []
        for at, row in enumerate(self.comparison, start=1):
            mine = (row.mechanism, row.allocation) == self.comparison.chosen
            chosen += [at] if mine else []
            numbers = f"{row.error:.4g}", f"{row.decibel:.2f}", plain_ratio(row.ratio)
            rows.append([row.mechanism, row.allocation, *numbers, "*" if mine else ""])
        voice.table(rows, left=2, strong=chosen)
        if self.remark:
            voice.say(self.remark)


def planned(noise: NoisePlan, labels: Sequence[str], tolerance: Sequence[float] | None, mechanism: str) -> Planned:
    """A plan for stated sensitivities beside the best i.i.d. noise and the best equal split of the same promise."""
    others = {
        name: plan(
            noise.sensitivity,
            noise.budget,
            mechanism=mechanism,
            allocation=name,
            weights=noise.weights,
            order=noise.order,
        )
        for name in BASELINES
    }
    baselines = {name: _deviations(other) for name, other in others.items()}
    columns = zip(labels, noise.shares, _deviations(noise), noise.sensitivity.profile, noise.scales, strict=True)
    lines = tuple(
        Line(
            label,
            float(share),
            float(deviation),
            None if tolerance is None else tolerance[at],
            {name: float(values[at]) for name, values in baselines.items()},
            float(moved),
            float(scale),
        )
        for at, (label, share, deviation, moved, scale) in enumerate(columns)
    )
    gains = {name: _ratio(other, noise) for name, other in others.items()}
    comparison = noise.compare()
    return Planned(noise, lines, comparison, gains, comparison.remark)


def _deviations(noise: NoisePlan) -> Floats:
    factor = np.sqrt(2.0) if noise.mechanism == "laplace" else 1.0
    return np.asarray(factor * noise.scales)


def _ratio(other: NoisePlan, noise: NoisePlan) -> float:
    # Equal logarithms also where both errors are 0: nothing depends on anybody.
    return (
        1.0 if other.log2_error == noise.log2_error else float(2.0 ** min(other.log2_error - noise.log2_error, 1023.0))
    )


def _cell(value: float | None) -> str:
    return "" if value is None else plain_number(value)
