"""A plan line by line, beside what i.i.d. noise and an equal split of the same promise would give."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from inid.arguments import Floats
from inid.mechanisms import NoiseChoice
from inid.planning import Comparison, NoisePlan, plan, plan_independent
from inid.planning.comparison import compare
from inid.promises import Budget
from inid.report.wording import plain_ratio

BASELINES = ("iid", "spr")
_NO_GAIN = 1.005  # a gain that would be printed as 1.00 times is called none, as in the remark
_SAME = 0.01  # of a ratio: two gains that differ by more count different things


@dataclass(frozen=True)
class PlanLine:
    """One statistic, or one number of stated sensitivity, and its noise."""

    label: str
    share: float
    deviation: float
    tolerance: float | None
    baselines: dict[str, float]
    sensitivity: float | None = None
    scale: float | None = None
    cells: int | None = None
    by_group: tuple[float, ...] = ()

    @property
    def largest(self) -> float:
        """The error in the worst group, where sizes of groups were stated."""
        return max(self.by_group, default=self.deviation)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary."""
        fields = vars(self) | {"baselines": dict(self.baselines), "by_group": list(self.by_group)}
        return {name: value for name, value in fields.items() if name != "by_group" or value}


@dataclass(frozen=True)
class PlanSummary:
    """A plan, line by line, beside its baselines."""

    noise: NoisePlan
    lines: tuple[PlanLine, ...]
    gains: dict[str, float]
    remark: str | None
    rows: int | None = None
    guessed: bool = False
    advice: tuple[str, ...] = ()
    opponent: str | None = "an equal split"
    inside: tuple[str, ...] = ()
    units: bool = True
    worst: bool = False
    worse: tuple[str, ...] = ()
    promise: Budget | None = None
    steps: tuple[NoisePlan, ...] = ()
    spread: str = ""
    joint: bool = False  # whether noise that is drawn jointly would serve too
    one_kind: bool = False  # whether other kinds of noise would need another plan, so that none is compared

    @property
    def budget(self) -> Budget:
        """The promise of all of it."""
        return self.noise.budget if self.promise is None else self.promise

    @property
    def dimension(self) -> int:
        """How many noisy numbers there are, as far as that is known."""
        return sum(noise.dimension for noise in self.steps or (self.noise,))

    @cached_property
    def comparison(self) -> Comparison:
        """The error of every mechanism and allocation under the same promise; planned when it is first asked for."""
        every = compare(self.noise, joint=self.joint)
        if not self.one_kind:
            return every
        return Comparison(tuple(way for way in every if way.mechanism == self.noise.mechanism), every.chosen)

    @cached_property
    def answers_differ(self) -> bool:
        """Whether the gains count answers that are made of the released numbers, which `comparison` counts."""
        gain = self.gains["spr"]
        return all(abs(way.ratio - gain) > _SAME * gain for way in self.comparison if way.allocation == "spr")

    @property
    def error_name(self) -> str:
        """The error that the plan minimizes."""
        return "squared error" if self.noise.order == 2 else f"error of order {self.noise.order:g}"

    @property
    def gain(self) -> str | None:
        """A sentence about the baselines; None when neither is worse."""
        if self.opponent is None or not max(self.gains.values()) > _NO_GAIN:
            return None
        unit = " in units of the tolerances" if any(line.tolerance is not None for line in self.lines) else ""
        iid, spr = (plain_ratio(self.gains[name]) for name in BASELINES)
        # A footnote: i.i.d. noise ignores that columns have different units, so that any method beats it by far.
        remark = "" if iid == spr else f" (i.i.d. noise: {iid} times)"
        if not self.gains["spr"] > _NO_GAIN:
            return f"I.i.d. noise would have {iid} times the expected {self.error_name}{unit}."
        opponent = self.opponent[0].upper() + self.opponent[1:]
        return f"{opponent} would have {spr} times the expected {self.error_name}{unit}{remark}."

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe dictionary; `inid plan`, `compare` and `release` print these keys under --json.

        Several steps of fixed cost have nothing to be compared with.
        """
        ways = (
            []
            if self.promise
            else [
                {
                    "mechanism": way.mechanism,
                    "allocation": way.allocation,
                    "error": way.error,
                    "decibel": way.decibel,
                    "ratio": way.ratio,
                }
                for way in self.comparison
            ]
        )
        return self.figures() | {"comparison": ways}

    def figures(self) -> dict[str, Any]:
        """The same without the comparison, which takes as long as six plans."""
        return {
            "plan": self.noise.to_dict(),
            "certificate": self.noise.certificate.to_dict(),
            "lines": [line.to_dict() for line in self.lines],
            "gains": self.gains,
            "remark": self.remark,
            "rows": self.rows,
            "inside": list(self.inside),
            **self._of_steps(),
        }

    def _of_steps(self) -> dict[str, Any]:
        """Of several steps: what they keep together, and the noise of those for which it is known."""
        if self.promise is None:
            return {}
        return {"promise": self.promise.to_dict(), "steps": [noise.to_dict() for noise in self.steps]}


def summarize_plan(
    noise: NoisePlan,
    labels: Sequence[str] | None = None,
    tolerance: Sequence[float] | None = None,
    mechanism: NoiseChoice = "auto",
) -> PlanSummary:
    """A plan for stated sensitivities beside the best i.i.d. noise and the best equal split of the same promise."""
    set_labels = noise.sensitivity.labels
    names = labels or (
        set_labels if set_labels and len(set_labels) == noise.dimension else [str(at) for at in range(noise.dimension)]
    )
    others = {
        name: (plan if mechanism == "staircase" else plan_independent)(
            noise.sensitivity,
            noise.stated,
            mechanism=mechanism,  # type: ignore[arg-type, unused-ignore]
            allocation=name,  # type: ignore[arg-type, unused-ignore]
            weights=noise.weights,
            order=noise.order,
        )
        for name in BASELINES
    }
    baselines = {name: _deviations(other) for name, other in others.items()}
    columns = zip(names, noise.shares_paid, _deviations(noise), noise.sensitivity.profile, noise.scales, strict=True)
    lines = tuple(
        PlanLine(
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
    return PlanSummary(noise, lines, gains, nothing_to_gain(gains), joint=True)


def nothing_to_gain(gains: Mapping[str, float]) -> str | None:
    """A sentence when a baseline is already optimal, else None.

    >>> nothing_to_gain({"iid": 7.0, "spr": 1.0})
    'Nothing to gain: an equal split is already optimal here.'
    """
    names = {"iid": "i.i.d. noise", "spr": "an equal split"}
    equal = [name for key, name in names.items() if gains.get(key, math.inf) <= _NO_GAIN]
    if not equal:
        return None
    return f"Nothing to gain: {' and '.join(equal)} {'are' if len(equal) > 1 else 'is'} already optimal here."


def _deviations(noise: NoisePlan) -> Floats:
    return noise.std


def _ratio(other: NoisePlan, noise: NoisePlan) -> float:
    # The logarithms are equal also where both errors are 0, for numbers of zero sensitivity.
    return (
        1.0 if other.log2_error == noise.log2_error else float(2.0 ** min(other.log2_error - noise.log2_error, 1023.0))
    )
