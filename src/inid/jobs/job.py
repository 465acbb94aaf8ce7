"""A release as configuration: one frozen value that flags, a TOML file and a form all become.

`Job.from_dict` is the only way in, `export` the way out: the same job as a TOML file, a shell command, a Python script.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

from inid.accounting.addresses import read_address
from inid.accounting.short_texts import read_word
from inid.arguments import shown
from inid.errors import ArgumentError
from inid.jobs import values as check
from inid.jobs.combinations import read_combination
from inid.jobs.questions import Naming, StatedQuestion, TableQuestion, read_question
from inid.mechanisms import MechanismChoice
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP

__all__ = ["KEYS", "Job", "LedgerChoice", "NoiseChoice", "Outputs", "read_budget", "read_toml"]

_ALLOCATIONS = ("optimal", "iid", "spr")
PROMISE_KEYS = ("epsilon", "delta", "mu", "rho")


@dataclass(frozen=True, kw_only=True)
class NoiseChoice:
    """How the promise is spent; None leaves the choice to the library.

    Attributes:
        mechanism: "auto", "gaussian" or "laplace".
        allocation: "optimal", "iid" or "spr".
        tolerance: The acceptable error by name, or one number after the other.
        weights: What a unit of error costs, likewise.
        order: The order of the error that is minimized.
        objective: Of marginals: "max" or "sum".
    """

    mechanism: str | None = None
    allocation: str | None = None
    tolerance: Mapping[str, float] | tuple[float, ...] | None = None
    weights: Mapping[str, float] | tuple[float, ...] | None = None
    order: check.Number | None = None
    objective: str | None = None

    @classmethod
    def read(cls, values: Mapping[str, Any], named: Naming) -> "NoiseChoice":
        """Check every value."""
        return cls(
            mechanism=check.choice_or_none(named("mechanism"), values.get("mechanism"), get_args(MechanismChoice)),
            allocation=check.choice_or_none(named("allocation"), values.get("allocation"), _ALLOCATIONS),
            tolerance=check.numbers_by_name(named("tolerance"), values.get("tolerance")),
            weights=check.numbers_by_name(named("weights"), values.get("weights")),
            order=check.number(
                named("order"),
                values.get("order"),
                "a number from 1 to 1,000,000, such as 2",
                lambda x: 1 <= x <= 1_000_000,
            ),
            objective=check.choice_or_none(named("objective"), values.get("objective"), ("max", "sum")),
        )

    def arguments(self) -> dict[str, Any]:
        """What is stated, as `plan` takes it; tolerance and weights stay aside."""
        given = {
            "mechanism": self.mechanism,
            "allocation": self.allocation,
            "order": self.order,
            "objective": self.objective,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class LedgerChoice:
    """Which ledger is charged, and how the charge is named.

    Attributes:
        ledger: A file or a postgresql:// address; None charges no ledger.
        name: Which ledger of the database.
        unit: What the ledger calls a person; None for the column's own name.
        label: A note for the history.
        part: The part of the ledger that this release takes, such as "1/3", instead of a promise in numbers.
    """

    ledger: str | None = None
    name: str | None = None
    unit: str | None = None
    label: str | None = None
    part: str | None = None

    @classmethod
    def read(cls, values: Mapping[str, Any], named: Naming) -> "LedgerChoice":
        """Check every value."""
        words = {key: check.word(named(key), values.get(key)) for key in ("ledger", "name", "unit", "label")}
        for key in ("name", "unit", "label"):  # what the ledger would refuse, before one is made for it
            if (text := words[key]) is not None:
                read_word(named(key), text)
        if words["ledger"] is not None:
            try:
                read_address(words["ledger"])
            except ArgumentError as error:
                raise ArgumentError(f"{named('ledger')} does not fit: {error}") from None
        return cls(**words, part=check.fraction(named("part"), values.get("part")))


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where the results go.

    Attributes:
        out: The CSV file of the estimates.
        rows_out: The CSV file of synthetic rows.
        report: The HTML report.
        record: The JSON record.
        level: The probability of the intervals.
        tidy: Of statistics by tables: counts that are not negative and agree with each other, without intervals.
        integers: Counts as whole numbers of at least 0; of statistics by tables, with `tidy`.
        too_noisy: Numbers whose interval is wider than this share of the estimate are marked.
        combine: Linear combinations of cells that are published as well, as a text by name.
    """

    out: Path | None = None
    rows_out: Path | None = None
    report: Path | None = None
    record: Path | None = None
    level: check.Number | None = None
    tidy: bool = False
    integers: bool = False
    too_noisy: check.Number | None = None
    combine: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, values: Mapping[str, Any], named: Naming) -> "Outputs":
        """Check every value."""
        files = {key: check.path(named(key), values.get(key)) for key in ("out", "rows_out", "report", "record")}
        cure = "give each combination a name, for example gap=count(sex='F') - count(sex='M')"
        made = cls(
            **files,
            level=check.probability(named("level"), values.get("level"), "0.95"),
            tidy=check.switch(named("tidy"), values.get("tidy")),
            integers=check.switch(named("integers"), values.get("integers")),
            too_noisy=check.positive(named("too_noisy"), values.get("too_noisy"), "0.3"),
            combine=check.texts_by_name(named("combine"), values.get("combine"), cure),
        )
        for name, text in made.combine.items():
            read_combination(f"{named('combine')} of {name}", text)
        return made

    def check_form(self, question: TableQuestion | StatedQuestion, named: Naming) -> None:
        """Refuse forms that the answers to a question do not have.

        Raises:
            ArgumentError: It has no such form.
        """
        tables = isinstance(question, TableQuestion) and question.by_tables
        several = f"{named('marginals')} or several {named('by')}"
        for key in ("tidy", "combine"):
            if getattr(self, key) and not tables:
                raise ArgumentError(f"{named(key)} goes with {several}: leave it out here.")
        if self.rows_out is not None and not (isinstance(question, TableQuestion) and question.synthetic):
            raise ArgumentError(f"{named('rows_out')} goes with {named('synthetic')}: leave it out here.")
        if self.integers and tables and not self.tidy:
            raise ArgumentError(f"with {several}, {named('integers')} goes with {named('tidy')}: state both.")

    @property
    def form(self) -> dict[str, Any]:
        """How the answers are shown."""
        share = None if self.too_noisy is None else float(self.too_noisy)
        return {"tidy": self.tidy, "integers": self.integers, "too_noisy": share}


@dataclass(frozen=True, kw_only=True)
class Job:
    """A release as configuration.

    Attributes:
        question: What is asked.
        budget: The promise; None where a part of a ledger is promised, or where only its cost is asked for.
        noise: How the promise is spent.
        ledger: Which ledger is charged.
        outputs: Where the results go.

    >>> job = Job.from_dict({"sensitivity": [1, 3, 40], "epsilon": 1})
    >>> job.budget, job.question.sensitivity
    (PureDP(epsilon=1.0), (1.0, 3.0, 40.0))
    >>> print(job.to_command())
    inid plan --sensitivity 1,3,40 --epsilon 1
    >>> Job.from_dict({"sensitivity": [1, 3], "epsilon": "all"})
    Traceback (most recent call last):
        ...
    inid.errors.ArgumentError: epsilon does not fit, got 'all': pass a number above 0, such as 1.
    """

    question: TableQuestion | StatedQuestion
    budget: Budget | None
    noise: NoiseChoice
    ledger: LedgerChoice
    outputs: Outputs

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], named: Naming = str) -> "Job":
        """Check a dictionary of plain values, as a TOML file or a form holds them.

        Args:
            values: The keys of a job file; None is the same as leaving a key out.
            named: How errors name a key.

        Raises:
            ArgumentError: A key is unknown, a value is malformed, or values do not go together.
        """
        unknown = [key for key in values if key not in KEYS]
        if unknown:
            raise ArgumentError(f"a job has no key {shown(unknown[0])}: known are {', '.join(sorted(KEYS))}.")
        budget = read_budget(values, named)
        ledger = LedgerChoice.read(values, named)
        if ledger.part is not None and (budget is not None or ledger.ledger is None):
            raise ArgumentError(
                f"{named('part')} is the promise itself and needs {named('ledger')}: leave out "
                f"{', '.join(named(key) for key in PROMISE_KEYS)}, and name the ledger."
            )
        question, outputs = read_question(values, named), Outputs.read(values, named)
        outputs.check_form(question, named)
        return cls(
            question=question, budget=budget, noise=NoiseChoice.read(values, named), ledger=ledger, outputs=outputs
        )

    def to_dict(self) -> dict[str, Any]:
        """The keys that are stated, as plain values; `from_dict` makes the same job of it."""
        found: dict[str, Any] = {}
        for group in (self.question, self.noise, self.ledger, self.outputs):
            for one in fields(group):
                value = getattr(group, one.name)
                if value is not None and value not in ((), {}, False):
                    found[one.name] = _plain(value)
        promise = {} if self.budget is None else self.budget.to_dict()
        found |= {key: value for key, value in promise.items() if key in PROMISE_KEYS}
        return {key: found[key] for key in KEYS if key in found}

    def to_toml(self) -> str:
        """The job as a file for `inid release --config`."""
        from inid.jobs.export import job_as_toml

        return job_as_toml(self)

    def to_command(self) -> str:
        """The job as one line for a shell."""
        from inid.jobs.export import job_as_command

        return job_as_command(self)

    def to_python(self) -> str:
        """The job as a Python script."""
        from inid.jobs.export import job_as_python

        return job_as_python(self)


KEYS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [
            *(one.name for group in (TableQuestion, StatedQuestion) for one in fields(group)),
            *PROMISE_KEYS,
            *(one.name for group in (NoiseChoice, LedgerChoice, Outputs) for one in fields(group)),
        ]
    )
)


def read_budget(values: Mapping[str, Any], named: Naming = str) -> Budget | None:
    """The promise that epsilon, delta, mu and rho state, or None when none is stated.

    Raises:
        ArgumentError: They do not make one promise, or a number is one that no promise can have.

    >>> read_budget({"epsilon": "1", "delta": "1e-6"})
    ApproxDP(epsilon=1.0, delta=1e-06)
    """
    given = {
        "epsilon": check.positive(named("epsilon"), values.get("epsilon"), "1"),
        "delta": check.probability(named("delta"), values.get("delta"), "1e-6"),
        "mu": check.positive(named("mu"), values.get("mu"), "0.3"),
        "rho": check.positive(named("rho"), values.get("rho"), "0.1"),
    }
    stated: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    kinds: dict[tuple[str, ...], type[Budget]] = {
        ("epsilon",): PureDP,
        ("epsilon", "delta"): ApproxDP,
        ("mu",): GaussianDP,
        ("rho",): ZCDP,
    }
    if not stated:
        return None
    kind = kinds.get(tuple(stated))
    if kind is None:
        epsilon, delta, mu, rho = (named(key) for key in PROMISE_KEYS)
        listed = ", ".join(named(name) for name in stated)
        raise ArgumentError(f"{listed} do not make one promise: pass {epsilon}, {epsilon} and {delta}, {mu} or {rho}.")
    return kind(**stated)


def read_toml(path: Path) -> dict[str, Any]:
    """The plain values of a TOML file; dashes in its keys are read as underscores.

    Raises:
        ArgumentError: There is no such file, or it does not parse.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ArgumentError(f"there is no file {str(path)!r}.") from None
    except UnicodeDecodeError:
        raise ArgumentError(f"{path} is not text in UTF-8.") from None
    try:
        # Decimals, because a promise is the decimal that was written.
        content = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise ArgumentError(f"{path} does not parse as TOML: {error}.") from None
    except (RecursionError, ValueError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        raise ArgumentError(f"{path} does not parse as TOML: {reason}.") from None
    return {key.replace("-", "_"): value for key, value in content.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Path):
        return value.as_posix()
    return float(value) if isinstance(value, Decimal) else value
