"""Answers that may be published, with their record and report.

A stored answer is compared with one made anew within rounding, which differs between processors.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self

import numpy as np

from inid._version import RECORD_FORMAT
from inid.arguments import Floats, miss_probability, real
from inid.errors import ArgumentError, RecordError
from inid.planning import Certificate
from inid.planning.noise_plan import counted
from inid.releasing import Release
from inid.tables.engines import Engine
from inid.tables.facts import Key
from inid.tables.presentation import (
    Labels,
    Words,
    answer_columns,
    as_estimates,
    label_columns,
    named_columns,
    noisy_answers,
    plot_answers,
    read_labels,
    read_rows_are,
    report_inputs,
    short_table,
    whole_counts,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from inid.accounting import Ledger
    from inid.report import LedgerState, PlanSummary, ReportInputs


RULES = RECORD_FORMAT  # the format of records of results
_NUMBERS = frozenset({"estimate", "std", "lower", "upper"})
SLACK = 1e-9  # of the wider of an answer and its interval: processors and versions of SciPy round differently


def check_digest(record: Mapping[str, Any]) -> None:
    """Refuse a record whose digest is not that of its content."""
    if record["digest"] == record_digest(record):
        return
    if "command" in record:
        raise RecordError(
            "the digest is that of another content: this is what --json printed, which holds more than a record, or "
            "the record was changed. Keep what --record writes.",
            code="record_printed",
        )
    raise RecordError("the record was changed after it was made: its digest is that of another content.")


def check_names(record: Mapping[str, Any], known: set[str]) -> None:
    """Refuse a record that holds more, or less, than its format has."""
    added, lost = sorted(record.keys() - known), sorted(known - record.keys())
    if added:
        raise RecordError(f'the record holds "{added[0]}", which is no part of one: it was added.')
    if lost:
        raise RecordError(f'the record lacks "{lost[0]}": it is not whole, or was changed.')


def compare_answers(record: Mapping[str, Any], computed: Sequence["Answer"]) -> None:
    """Refuse a record whose answers are not these."""
    stored = record["answers"]
    if not (isinstance(stored, list) and len(stored) == len(computed)):
        raise RecordError("the record does not hold the answers to its question.")
    for at, (row, answer) in enumerate(zip(stored, computed, strict=True), start=1):
        if not (isinstance(row, Mapping) and _is_same(row, answer, ("estimate", "std"))):
            raise RecordError(f"answer {at} of the record is not the one that its noisy sums give: it was changed.")
        if not _is_same(row, answer, ("lower", "upper")):
            raise RecordError(
                f"the interval of answer {at} of the record is not the one that its noisy sums give: it was changed."
            )


def _is_same(row: Mapping[str, Any], answer: "Answer", numbers: tuple[str, ...]) -> bool:
    slack, fields = SLACK * max(abs(answer.upper - answer.lower), abs(answer.std)), answer.to_dict()
    if row.keys() != fields.keys() or any(
        not is_same(row[name], fields[name], 0.0) for name in fields.keys() - _NUMBERS
    ):
        return False
    return all(is_near(row[name], float(fields[name]), slack) for name in numbers)


def is_same(stored: object, computed: object, slack: float) -> bool:
    """Whether a stored value is one that was made anew: with its names and no others, but for the rounding of numbers.

    >>> is_same({"a": [1.0]}, {"a": [1.0]}, 0.0), is_same({"a": [1.0], "b": 7}, {"a": [1.0]}, 0.0)
    (True, False)
    """
    if isinstance(computed, Mapping):
        if not (isinstance(stored, Mapping) and stored.keys() == computed.keys()):
            return False
        return all(is_same(stored[name], value, slack) for name, value in computed.items())
    if isinstance(computed, (list, tuple)):
        if not (isinstance(stored, (list, tuple)) and len(stored) == len(computed)):
            return False
        return all(is_same(one, two, slack) for one, two in zip(stored, computed, strict=True))
    if isinstance(computed, float):
        return is_near(stored, computed, slack)
    return type(stored) is type(computed) and stored == computed


def is_near(stored: object, expected: float, slack: float) -> bool:
    """Whether a stored number is one that was made anew, but for rounding."""
    if stored is None:  # a number that is not finite is stored as none
        return not math.isfinite(expected)
    if isinstance(stored, bool) or not isinstance(stored, (int, float)):
        return False
    return math.isclose(stored, expected, rel_tol=SLACK, abs_tol=slack)


def record_digest(record: Mapping[str, Any]) -> str:
    """The SHA-256 digest of a record, whatever the order of its keys; its own key "digest" does not count."""
    content = {key: value for key, value in record.items() if key != "digest"}
    return sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()


TOO_NOISY = 0.5  # of the estimate: an interval that is wider makes a number too noisy to rely on
SURE = 1 - 1e-9  # that a count is not at its limit
COMBINED = "cells are combined of tables that were asked together: table.marginals([...])."
NOT_PRIVATE = " - NOT PRIVATE: made by a test source"


class Answer(NamedTuple):
    """One number of a result.

    Attributes:
        statistic: "count", "count_distinct", "sum", "mean", "variance", "std", "covariance" or "histogram".
        column: The column, or two separated by a comma; empty for a count.
        groups: The cell, for example "sex=F, age=[0, 20)"; empty when there is only one.
        estimate: The private answer.
        lower: The lower end of the interval.
        upper: The upper end.
        std: The standard deviation of the noise in the estimate; to first order for ratios.
        keys: The key of each column that groups; under "cell" the cell of a histogram, under "p" the probability of a
            quantile, under "up_to" the end of a running count.
    """

    statistic: str
    column: str
    groups: str
    estimate: float
    lower: float
    upper: float
    std: float
    keys: Mapping[str, Key | float] = MappingProxyType({})

    def to_dict(self) -> dict[str, Any]:
        """Every field by its name, as frames and records have it.

        >>> Answer("count", "", "", 3.0, 1.0, 5.0, 1.0).to_dict()["std"]
        1.0
        """
        return self._asdict() | {"keys": dict(self.keys)}


@dataclass(frozen=True)
class PageFacts:
    """What a report shows beside the answers."""

    title: str
    source: str = ""
    ledger: "LedgerState | None" = None
    summary: "PlanSummary | None" = None
    digest: str | None = None
    words: Words = field(default_factory=Words)
    rows_are: str | None = None
    tidy: bool = False
    integers: bool = False
    too_noisy: float | None = None


@dataclass(frozen=True, eq=False)
class Result:
    """Answers that may be published.

    Attributes:
        release: The noisy numbers themselves; every answer is made of them.
        level: The probability, at least, with which each interval holds the exact answer.
        question: What was asked, with the public facts.
        plan: The plan by which the noise was drawn.
        found: The keys that the numbers are counts of, where nobody listed them.
        earlier: What the steps before `release` released, of a question that takes several.
        drawn: The share of the population that a simple random sample has, where intervals cover its error too.
    """

    release: Release
    level: float
    question: Any
    source: Engine = field(repr=False)
    plan: Any
    found: tuple[Key, ...] = ()
    earlier: tuple[Release, ...] = ()
    drawn: float | None = None

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """Every number with its interval."""
        if self.drawn is not None:
            return tuple(self.question.sample_answers(self.release, self.level, self.drawn))
        return tuple(self.question.answers(self.release, self.level, self.found, self.earlier))

    def with_sampling_error(self, drawn: float = 0.0) -> Self:
        """The same answers with intervals for the population of which the table is a simple random sample.

        Intervals of counts, sums and means then cover the noise and the sampling error, by released variances where
        there are some, else by the bounds; those of other statistics cover the noise alone. Frames, plots and reports
        show them; records keep the noise alone. It costs nothing. `std` stays that of the noise.

        Args:
            drawn: The public share of the population that was drawn, such as 0.02; 0 errs on the wide side.

        Raises:
            ArgumentError: The rows have weights, a person has several, or the answers are no statistics of a table.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"age": [31.0, 44.0] * 500}), bounds={"age": (0, 100)})
        >>> q = t.statistics(mean=["age"])
        >>> noisy = q.release(q.plan(inid.PureDP(epsilon=1.0)))
        >>> sampled = noisy.with_sampling_error(drawn=0.02)
        >>> sampled.answers[0].upper > noisy.answers[0].upper
        True
        """
        self.question.check_sample()
        share = real("drawn", drawn, least=0, cure="pass the share of the population that was drawn, such as 0.02")
        if share >= 1:
            raise ArgumentError("drawn must be below 1: a table of everybody has no sampling error.")
        return replace(self, drawn=share)

    def interval(self, level: float = 0.95, *, simultaneous: bool = False) -> tuple[Floats, Floats]:
        """Bounds around each estimate that hold the exact answer with the given probability over the noise.

        Args:
            level: The probability, above 0 and below 1.
            simultaneous: Whether they hold for all answers at once. Each then fails with an equal part of the
                probability that any may, which is valid for answers that share noise.

        Raises:
            ArgumentError: The level is no such probability.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
        >>> q = t.statistics(count=True, sum=["age"])
        >>> r = q.release(q.plan(inid.PureDP(epsilon=1.0)))
        >>> one, every = r.interval(0.95), r.interval(0.95, simultaneous=True)
        >>> bool((every[0] <= one[0]).all() and (one[1] <= every[1]).all())
        True
        """
        failure = miss_probability(level)
        each = failure / max(len(self.answers), 1) if simultaneous else failure
        answers = self.question.answers(self.release, 1 - each, self.found, self.earlier)
        return np.array([one.lower for one in answers]), np.array([one.upper for one in answers])

    @property
    def certificate(self) -> Certificate:
        """The proof that the noise keeps the promise."""
        return self.release.certificate

    @property
    def private(self) -> bool:
        """False when a test's seeded or silent source drew the noise: such answers promise nothing."""
        return self.release.private

    @cached_property
    def frame(self) -> Any:
        """The answers as a pandas, Polars or Spark frame, as the table was; a PyArrow table for PyArrow, DuckDB, files.

        Made when it is first asked for: an engine that fails here loses no answer, since `answers` hold the same.
        """
        return self.to_frame()

    def to_frame(
        self,
        *,
        tidy: bool = False,
        integers: bool = False,
        too_noisy: float | None = None,
        labels: Labels | None = None,
    ) -> Any:
        """The answers as a frame, as people publish them.

        The columns are those of every kind of question: statistic, column, one per key, estimate, lower, upper, std.
        Keys keep their types; one that an answer has not is missing.

        Args:
            tidy: Of many tables: counts that are not negative and agree with each other, without intervals and stds.
            integers: Counts as whole numbers of at least 0, which is a bias, with intervals rounded inwards; of many
                tables, with `tidy`.
            too_noisy: Adds a column that says whether an interval is wider than this share of its estimate.
            labels: What keys are called, by column: {"sex": {1: "male", 2: "female"}}.

        Raises:
            ArgumentError: An argument is malformed.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"sex": [1, 2, 2]}))
        >>> q = t.statistics(count=True, by={"sex": [1, 2]})
        >>> r = q.release(q.plan(inid.PureDP(1.0)))
        >>> r.to_frame(integers=True, too_noisy=0.3, labels={"sex": {1: "male", 2: "female"}})["sex"].tolist()
        ['male', 'female']
        """
        columns = answer_columns(self.shown(tidy=tidy, integers=integers), labels)
        if too_noisy is not None:
            columns |= {"too_noisy": noisy_answers(self.answers, too_noisy)}
        return self.source.answer(columns)

    def __reduce__(self) -> NoReturn:
        # Its engine holds the table itself, which a file of published answers must not.
        raise ArgumentError(
            "a result cannot be pickled, since it holds its table: keep result.frame, or result.to_dict(), which "
            "tables.verify_result checks."
        )

    def __deepcopy__(self, _memo: dict[int, Any] | None = None) -> Self:
        return self  # nothing in it changes

    __copy__ = __deepcopy__

    def __str__(self) -> str:
        head = f"{counted(len(self.answers), 'answer')} under {self.plan.budget}"
        return short_table(self.answers, head + ("" if self.private else NOT_PRIVATE), self.level)

    def to_dict(self, *, combine: Mapping[str, tuple[Any, str | None]] | None = None) -> dict[str, Any]:
        """A JSON-safe record that `verify_result` checks: question, answers, the numbers they are made of, a digest.

        Args:
            combine: Combinations of cells to be recorded beside them: by name the cells, and the column whose sums are
                combined, None for counts; see `combine`.
        """
        if self.drawn is not None:
            return replace(self, drawn=None).to_dict(combine=combine)
        record = {"rules": RULES, "kind": self.question.kind, "level": self.level, "question": self.question.to_dict()}
        record |= self._answers_record() | {"release": self.release.to_dict()}
        if combine or self.question.combines:
            record["combinations"] = [
                self.question.combination_record(name, cells, column, self.combine(cells, sum=column))
                for name, (cells, column) in (combine or {}).items()
            ]
        if self.earlier:
            record |= {"promise": self.plan.budget.to_dict(), "earlier": [step.to_dict() for step in self.earlier]}
        return record | {"digest": record_digest(record)}

    def report(
        self,
        path: str | Path,
        *,
        title: str | None = None,
        ledger: "Ledger | None" = None,
        labels: Labels | None = None,
        rows_are: str | None = None,
        tidy: bool = False,
        integers: bool = False,
        too_noisy: float | None = TOO_NOISY,
    ) -> None:
        """Write one self-contained HTML page: what was published, the promise in plain words, the numbers, the proof.

        Args:
            path: Where the page goes; a file that is there is replaced.
            title: Its heading.
            ledger: The ledger that was charged, to show what is left of it.
            labels: What columns and keys are called: {"pay": "Monthly pay", "sex": {1: "male", 2: "female"}}, or both
                of one column: {"sex": ("Sex", {1: "male", 2: "female"})}.
            rows_are: What the rows of the table are, in the plural, such as "people"; it is known where each person has
                one row.
            tidy: Of many tables: counts that are not negative and agree with each other, without intervals.
            integers: Counts as whole numbers of at least 0 (with `tidy`, of many tables).
            too_noisy: Numbers whose interval is wider than this share of the estimate are grey and marked "too noisy";
                None marks none.

        >>> import inid, pandas, pathlib, tempfile
        >>> t = inid.tables.Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
        >>> q = t.statistics(mean=["age"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     q.release(q.plan(inid.PureDP(epsilon=1.0))).report(pathlib.Path(folder, "report.html"))
        """
        from inid.report import LedgerState, page

        state = None if ledger is None else LedgerState.of(ledger, self.release.charge)
        words = read_labels(labels, label_columns(self.answers) if labels else (), named_columns(self.answers))
        facts = PageFacts(title or self.question.heading, ledger=state, words=words, rows_are=read_rows_are(rows_are))
        facts = replace(facts, tidy=tidy, integers=integers, too_noisy=too_noisy)
        Path(path).write_text(page(self.report_inputs(facts)), encoding="utf-8")

    def plot(self) -> "Figure":
        """Draw the estimates with their intervals, one panel per statistic (at most twelve, of forty lines each).

        Where there are more, the picture says what it leaves out.

        Raises:
            MissingExtraError: matplotlib is not installed.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
        >>> q = t.statistics(count=True, mean=["age"])
        >>> [ax.get_title(loc="left") for ax in q.release(q.plan(inid.PureDP(epsilon=1.0))).plot().axes]
        ['count', 'mean of age']
        """
        return plot_answers(self.answers)

    def combine(self, cells: Any, *, sum: str | None = None) -> Any:  # noqa: A002, ARG002 - the word that queries use
        """A linear combination of cells, of many tables.

        Raises:
            ArgumentError: The answers are no such tables.
        """
        raise ArgumentError(COMBINED)

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Answers that are no numbers, as term and text."""
        terms: list[tuple[str, str]] = self.question.answered_facts(self.answers, self.level)
        return terms

    def shown(self, *, tidy: bool = False, integers: bool = False) -> tuple[Answer, ...]:
        """Every answer as it is published.

        Args:
            tidy: Of many tables: counts that are not negative and agree with each other. They have no intervals.
            integers: Counts as whole numbers of at least 0; of many tables, with `tidy`.

        Raises:
            ArgumentError: The answers have no such form.
        """
        if tidy:
            raise ArgumentError("tidy is for tables of counts that were asked together: table.marginals([...]).")
        if integers and getattr(self.question, "weight", None) is not None:
            raise ArgumentError("integers is for counts of rows or people: weighted counts need not be whole.")
        return whole_counts(self.answers) if integers else self.answers

    @property
    def may_be_full(self) -> bool:
        """Whether a released count may be at the limit on the table's rows, within the reach of its noise."""
        return bool(self.question.may_be_full(self.release))

    def _answers_record(self) -> dict[str, Any]:
        """The answers as JSON-safe values."""
        return {"answers": [one.to_dict() for one in as_estimates(self.answers)]}

    def report_inputs(self, page: PageFacts) -> "ReportInputs":
        """What the report shows of the answers."""
        return report_inputs(self, page)
