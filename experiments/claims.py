"""What the paper says, what was found, and a verdict."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

__all__ = [
    "DIFFERENTLY",
    "HOLDS",
    "NOT",
    "NOT_RUN",
    "UNATTAINABLE",
    "UNPRINTED",
    "Claim",
    "Estimate",
    "Figure",
    "Outcome",
    "Table",
    "largest_of",
]

HOLDS, DIFFERENTLY, NOT = "holds", "holds differently", "does not hold"
UNATTAINABLE, NOT_RUN = "not attainable", "not run"
UNPRINTED = "(not in the paper)"  # printed for claims of our own
_VERDICTS = (HOLDS, DIFFERENTLY, NOT, UNATTAINABLE, NOT_RUN)


def largest_of(count: int, errors: float = 3.0) -> float:
    """The standard errors that the largest of so many distances may have, by Bonferroni.

    It exceeds them as seldom as one distance exceeds `errors`.

    >>> round(largest_of(1), 2), round(largest_of(24), 2)
    (3.0, 3.86)
    """
    return float(-ndtri(ndtr(-errors) / count))


@dataclass(frozen=True)
class Estimate:
    """A mean over runs, with its standard error."""

    mean: float
    error: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float] | np.ndarray) -> "Estimate":
        """From one number per run; at least two runs."""
        numbers = np.asarray(values, dtype=float)
        return cls(float(numbers.mean()), float(numbers.std(ddof=1) / len(numbers) ** 0.5), len(numbers))

    def below(self, other: "Estimate", errors: float = 3.0) -> bool:
        """Whether this mean is below the other by more than so many standard errors of the difference."""
        return other.mean - self.mean > errors * float(np.hypot(self.error, other.error))

    def agrees(self, printed: float, digits: int, errors: float = 3.0) -> bool:
        """Whether a printed number, rounded to so many digits, is within so many standard errors."""
        return abs(self.mean - printed) <= errors * self.error + 0.5 * 10.0**-digits

    def __str__(self) -> str:
        digits = 2 - int(np.floor(np.log10(self.error))) - 1 if self.error > 0 else 4
        if digits < 0:
            return f"{self.mean:.0f} ± {self.error:.0f}"
        return f"{self.mean:.{digits}f} ± {self.error:.{digits}f}"


@dataclass(frozen=True)
class Claim:
    """One statement of the paper beside ours.

    Attributes:
        says: The claim, in words.
        printed: What the paper prints.
        ours: What was found, with its uncertainty where it has one.
        verdict: One of the constants of this module.
        why: What the verdict rests on.
    """

    says: str
    printed: str
    ours: str
    verdict: str
    why: str

    def __post_init__(self) -> None:
        if self.verdict not in _VERDICTS:
            raise ValueError(f"verdict must be one of {', '.join(_VERDICTS)}, got {self.verdict!r}.")


@dataclass(frozen=True)
class Figure:
    """A saved plot: its file name without the ending, and its caption."""

    name: str
    caption: str


@dataclass(frozen=True)
class Table:
    """A table for the page."""

    title: str
    head: list[str]
    rows: list[list[str]]


@dataclass
class Outcome:
    """All that one experiment found.

    Attributes:
        title: What of the paper it is about.
        claims: The verdicts.
        values: Numbers that involve no chance; tests compare them with experiments/expected.
        choices: What the text left open, and what was chosen.
        beyond: What the extensions give on the same task.
    """

    title: str
    claims: list[Claim] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    choices: list[str] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> "Outcome":
        """From JSON."""
        kinds = {"claims": Claim, "figures": Figure, "tables": Table}
        return cls(**{name: [kinds[name](**x) for x in v] if name in kinds else v for name, v in record.items()})
