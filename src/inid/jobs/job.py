"""A release as configuration: one frozen value that flags, a TOML file and a form all become.

`Job.from_dict` is the only way in, `export` the way out: the same job as a TOML file, a shell command, a Python script.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

from inid.accounting.stores import read_address
from inid.arguments import read_word, shown
from inid.errors import ArgumentError
from inid.jobs.outputs import Outputs
from inid.jobs.questions import OptionGroup, StatedQuestion, TableQuestion, by_name, in_question, read_question
from inid.promises import ZCDP, ApproxDP, Budget, GaussianDP, PureDP
from inid.schema import Naming, keys

PROMISE_KEYS = tuple(key.name for key in keys("promise"))


class NoiseChoice(OptionGroup):
    """How the promise is spent; what is not stated is left to the library."""

    groups = ("noise",)

    def arguments(self) -> dict[str, Any]:
        """What is stated, as `plan` takes it; tolerance and weights stay aside."""
        return {name: value for name, value in self.values.items() if name not in ("tolerance", "weights")}


class LedgerChoice(OptionGroup):
    """Which ledger is charged, and how the charge is named."""

    groups = ("ledger",)

    @classmethod
    def read(cls, values: Mapping[str, Any], name_of: Naming = str) -> "LedgerChoice":
        """Check every value, as the ledger would, before one is made."""
        choice = super().read(values, name_of)
        for key in ("name", "unit", "label"):
            if (text := getattr(choice, key)) is not None:
                read_word(name_of(key), text)
        if choice.ledger is not None:
            try:
                read_address(choice.ledger)
            except ArgumentError as error:
                raise error.within(f"{name_of('ledger')} does not fit") from None
        return choice


@dataclass(frozen=True)
class Part:
    """One question of a job, and what is stated for it alone."""

    question: TableQuestion | StatedQuestion
    outputs: Outputs
    options: OptionGroup


@dataclass(frozen=True, kw_only=True)
class Job:
    """A release as configuration."""

    question: TableQuestion | StatedQuestion
    budget: Budget | None
    noise: NoiseChoice
    ledger: LedgerChoice
    outputs: Outputs

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], name_of: Naming = str) -> "Job":
        """Check a dictionary of plain values, as a TOML file or a form holds them."""
        known = job_keys()
        unknown = [key for key in values if key not in known]
        if unknown:
            raise ArgumentError(f"a job has no key {shown(unknown[0])}: known are {', '.join(sorted(known))}.")
        budget = read_budget(values, name_of)
        ledger = LedgerChoice.read(values, name_of)
        if ledger.part is not None and (budget is not None or ledger.ledger is None):
            raise ArgumentError(
                f"{name_of('part')} is the promise itself and needs {name_of('ledger')}: leave out "
                f"{', '.join(name_of(key) for key in PROMISE_KEYS)}, and name the ledger."
            )
        question, noise = read_question(values, name_of), NoiseChoice.read(values, name_of)
        job = cls(question=question, budget=budget, noise=noise, ledger=ledger, outputs=Outputs.read(values, name_of))
        for name, part in job.parts.items():
            with in_question(name):
                part.outputs.check_form(part.question, name_of)
        return job

    @cached_property
    def parts(self) -> Mapping[str, Part]:
        """Each question with what is stated for it alone; one question alone has no name."""
        question = self.question
        if not isinstance(question, TableQuestion) or not question.question:
            return {"": Part(question, self.outputs, self.noise)}
        forms = {key.name for key in Outputs.own_keys()}
        parts = {}
        for name, options in question.question.items():
            outputs = self.outputs.stating(**{key: value for key, value in options.values.items() if key in forms})
            parts[name] = Part(question.parts[name], outputs, options)
        return parts

    def plan_options(self, name_of: Naming = str) -> dict[str, Any]:
        """How the noise for a table is planned: what `plan` of its query, or of its publication, takes."""
        options: dict[str, Any] = self.noise.arguments()
        if self.noise.weights is not None:
            options["weights"] = by_name(name_of("weights"), self.noise.weights)
        for name, part in self.parts.items():
            if not isinstance(part.question, TableQuestion):
                raise TypeError("a question without a table is planned by its sensitivities")
            with in_question(name):
                tolerances = part.question.tolerances(part.options.tolerance, name_of)
            if not name:
                return options | tolerances
            if part.options.importance is not None:
                tolerances["importance"] = float(part.options.importance)
            if part.options.share is not None:
                tolerances["share"] = part.options.share
            for option, value in tolerances.items():
                options.setdefault(option, {})[name] = value
        return options

    def to_dict(self) -> dict[str, Any]:
        """The keys that are stated, as plain values; `from_dict` makes the same job of it."""
        promise = {} if self.budget is None else self.budget.to_dict()
        values = {key: value for key, value in promise.items() if key in PROMISE_KEYS}
        for group in (self.question, self.noise, self.ledger, self.outputs):
            values |= group.to_dict()
        return {key: values[key] for key in job_keys() if key in values}

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

    def to_notebook(self) -> str:
        """The job as a notebook: the cells of its Python script, with a sentence each."""
        from inid.jobs.export import script_as_notebook

        return script_as_notebook(self.to_python())


def job_keys() -> tuple[str, ...]:
    """The names of all keys of a job, in order."""
    groups = (TableQuestion, StatedQuestion, NoiseChoice, LedgerChoice, Outputs)
    return tuple(key.name for key in keys("promise", *(group for one in groups for group in one.groups)))


def read_budget(values: Mapping[str, Any], name_of: Naming = str) -> Budget | None:
    """The promise that epsilon, delta, mu and rho state, or None when none is stated."""
    given = {key.name: key.of(values, name_of) for key in keys("promise")}
    values_given: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    kinds: dict[tuple[str, ...], type[Budget]] = {
        ("epsilon",): PureDP,
        ("epsilon", "delta"): ApproxDP,
        ("mu",): GaussianDP,
        ("rho",): ZCDP,
    }
    if not values_given:
        return None
    kind = kinds.get(tuple(values_given))
    if kind is None:
        epsilon, delta, mu, rho = (name_of(key) for key in PROMISE_KEYS)
        listed = ", ".join(name_of(name) for name in values_given)
        raise ArgumentError(f"{listed} do not make one promise: pass {epsilon}, {epsilon} and {delta}, {mu} or {rho}.")
    return kind(**values_given)


def read_toml(path: Path) -> dict[str, Any]:
    """The plain values of a TOML file; dashes in its keys are read as underscores."""
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
    for name, options in content.get("question", {}).items() if isinstance(content.get("question"), dict) else ():
        content["question"][name] = _underscored(options) if isinstance(options, dict) else options
    return _underscored(content)


def _underscored(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("-", "_"): value for key, value in content.items()}
