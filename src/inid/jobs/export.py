"""The same job as a TOML file, a shell command and a Python script."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from inid.jobs.combinations import read_combination
from inid.jobs.flag_syntax import syntax_of, written
from inid.jobs.groupings import asked_tables
from inid.jobs.job import Job
from inid.jobs.ledgers import is_file
from inid.jobs.questions import COLUMN_STATISTICS, ORDERED_STATISTICS, StatedQuestion, TableQuestion
from inid.jobs.synthetic_questions import stated_bins
from inid.promises import Budget
from inid.tables.domains import tolerances_by_name
from inid.tables.plan import whole_promise

__all__ = ["command_line", "job_as_command", "job_as_python", "job_as_toml"]


def job_as_toml(job: Job) -> str:
    """The job as a file for `inid release --config`.

    >>> print(job_as_toml(Job.from_dict({"table": "a.csv", "bounds": {"age": [0, 100]}, "mean": ["age"], "mu": 0.3})))
    table = "a.csv"
    mean = ["age"]
    mu = 0.3
    <BLANKLINE>
    [bounds]
    age = [0, 100]
    <BLANKLINE>
    """
    content = job.to_dict()
    flat = [f"{key} = {_toml(value)}" for key, value in content.items() if not isinstance(value, Mapping)]
    for key, value in content.items():
        if isinstance(value, Mapping):
            flat += ["", f"[{key}]", *(f"{_toml_key(name)} = {_toml(entry)}" for name, entry in value.items())]
    return "\n".join(flat) + "\n"


def job_as_command(job: Job) -> str:
    """The job as one line for a shell: `inid release`, or `inid plan` where no table is named.

    Raises:
        ArgumentError: A name cannot be written in a flag.
    """
    command = "plan" if isinstance(job.question, StatedQuestion) else "release"
    return command_line([command], job.to_dict())


def command_line(words: Sequence[str], content: Mapping[str, Any]) -> str:
    """A line for a shell: `inid`, these words, the table and all other keys as flags.

    Raises:
        ArgumentError: A name cannot be written in a flag.
    """
    words = ["inid", *words]
    table = content.get("table")
    if table is not None:
        words.append(f"./{table}" if table.startswith("-") else table)  # a dash would make it an option
    for key, value in content.items():
        if key == "table":
            continue
        flag = f"--{key.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif isinstance(value, (Mapping, list)):
            words += [flag, written(flag, _shorter(value), syntax_of(key))]
        else:
            words += [flag, str(_short(value))]
    return shlex.join(words)


def job_as_python(job: Job) -> str:
    """The job as a Python script."""
    return _stated_script(job, job.question) if isinstance(job.question, StatedQuestion) else _table_script(job)


def _stated_script(job: Job, question: StatedQuestion) -> str:
    arguments = {
        "l1": _number(question.l1),
        "l2": _number(question.l2),
        "labels": list(question.labels),
        "neighbours": question.neighbours,
    }
    lines = ["import inid", ""]
    lines += [f"sensitivity = {_call('inid.Sensitivity.box', [_short_list(question.sensitivity)], arguments)}"]
    tolerance = job.noise.tolerance
    order = question.names
    weights = job.noise.weights
    per_number = {"tolerance": _in_order(tolerance, order), "weights": _in_order(weights, order)}
    lines += [f"plan = {_call('inid.plan', ['sensitivity', _promise(job.budget)], _noise(job) | per_number)}"]
    return "\n".join([*lines, "print(plan)", ""])


def _table_script(job: Job) -> str:
    question = job.question
    if not isinstance(question, TableQuestion):
        raise TypeError("a question without a table has a script of its own")
    person = {"max_rows": question.max_rows, "order_by": list(question.order_by)}
    by_column: dict[str, dict[str, Any]] = {
        "bounds": {name: tuple(map(_short, ends)) for name, ends in question.bounds.items()},
        "missing": {name: _short(value) for name, value in question.missing.items()},
        "domains": {
            name: _Code(f"tables.Ordered({list(keys)!r})") if name in question.ordered else list(keys)
            for name, keys in question.domains.items()
        },
    }
    by_column["bins"] = stated_bins(question)
    own, computed = (
        {what: {k: v for k, v in facts.items() if (k in question.derive) is new} for what, facts in by_column.items()}
        for new in (False, True)
    )
    facts = {
        # Needed by a table even where no column is added up.
        "bounds": _Code(own["bounds"]),
        "unit": _Code(_call("tables.Person", [repr(question.person)], person)) if question.person else None,
        "neighbours": question.neighbours,
        "missing": own["missing"],
        "rows": question.rows,
        "max_rows": question.table_max_rows,
        "domains": own["domains"],
        "other": question.other,
        "bins": own["bins"],
    }
    asked = asked_tables(question) if question.by_tables else _asked(question)
    tolerance: Any = job.noise.tolerance
    if question.by_tables and isinstance(tolerance, Mapping):
        names = [f"{kind}({column})" for kind in ("mean", "sum") for column in getattr(question, kind)]
        tolerance = tolerances_by_name(names, tolerance)
    noise = _noise(job) | {"tolerance": tolerance, "weights": job.noise.weights}
    level = None if job.outputs.level is None else float(job.outputs.level)
    label = job.ledger.label
    lines = [f"table = {_call('tables.Table', [repr(question.table)], facts)}"]
    if question.derive:
        formulas = [f"**{dict(question.derive)!r}"]
        lines.append(f"table = {_call('table.with_columns', formulas, computed)}")
    if question.where is not None:
        lines.append(f"table = table.where({question.where!r})")
    lines += [
        f"query = {_call('table.query', [], asked)}",
    ]
    if job.ledger.ledger is None:
        planned = f"plan = {_call('query.plan', ['promise'], noise)}"
        lines += [f"promise = {_promise(job.budget)}", planned, "print(plan)", ""]
        lines += [f"result = {_call('query.release', ['plan'], {'level': level, 'label': label})}"]
    else:
        planned = f"plan = {_call('query.plan', ['promise'], noise | {'ledger': _Code('ledger')})}"
        released = _call("query.release", ["plan"], {"ledger": _Code("ledger"), "level": level, "label": label})
        lines += [
            *_opened(job, question),
            *(f"    {line}" for line in (planned, "print(plan)", f"result = {released}")),
        ]
    return "\n".join([*_imports(job), "", *lines, "", *_written_results(job), ""])


def _asked(question: TableQuestion) -> dict[str, Any]:
    """The statistics of a query by one grouping, or by none."""
    if question.discover is not None:
        details = {"delta": _number(question.discover_delta), "kind": question.discover_kind}
        found = _call("tables.discover", [question.max_keys or 1], details)
        counted = "count_distinct" if question.count_distinct else "count"
        return {counted: True, "by": {question.discover: _Code(found)}}
    if question.synthetic:
        return {"synthetic": list(question.synthetic_columns) or True, "target": question.synthetic_target}
    asked: dict[str, Any] = {"count": question.count or None, "count_distinct": question.count_distinct or None}
    asked |= {kind: list(getattr(question, kind)) for kind in COLUMN_STATISTICS}
    return asked | {
        name: {column: _short_list(values) for column, values in getattr(question, name).items()}
        for name in ("histogram", "by", "choose", *ORDERED_STATISTICS)
    }


def _imports(job: Job) -> list[str]:
    outputs, address = job.outputs, job.ledger.ledger
    lines = ["import json"] if outputs.record else []
    if outputs.record or (address is not None and is_file(address) and job.ledger.part is None):
        lines.append("from pathlib import Path")
    lines += [""] if lines else []
    lines += ["import pyarrow.csv", ""] if outputs.out or outputs.rows_out else []
    return [*lines, "import inid", "from inid import tables"]


def _opened(job: Job, question: TableQuestion) -> list[str]:
    """Opening the ledger; one in a file is made with the promise as its total when the file does not exist."""
    choice, address = job.ledger, job.ledger.ledger or ""
    settings: dict[str, Any] = {"name": choice.name, "neighbours": question.neighbours}
    settings |= {"unit": choice.unit or question.person}
    if choice.part is not None:
        opened = _call("inid.Ledger.open", [repr(address)], settings)
        return [f"with {opened} as ledger:", f"    promise = ledger.part({choice.part!r})"]
    lines = [f"promise = {_promise(job.budget)}"]
    if is_file(address):
        lines.append(f"new = not Path({address!r}).exists()  # a new ledger gets this promise as its total")
        settings = {"total": _Code(f"{_total(job, question)} if new else None")} | settings
    return [*lines, f"with {_call('inid.Ledger.open', [repr(address)], settings)} as ledger:"]


def _total(job: Job, question: TableQuestion) -> str:
    """The total of a new ledger: the promise, and where keys are found the delta beside its noise."""
    if question.discover is None or job.budget is None:
        return "promise"
    whole = whole_promise(job.budget, float(question.discover_delta or 0))
    return "promise" if whole is None else _promise(whole)


def _written_results(job: Job) -> list[str]:
    outputs = job.outputs
    form = {name: value for name, value in outputs.form.items() if value not in (None, False)}
    frame = _call("result.to_frame", [], form) if form else "result.frame"
    lines = [f"frame = {frame}", "print(frame)"]
    for name, text in outputs.combine.items():
        made = read_combination(name, text)
        combined = _call("result.combine", [_code(made.cells)], {"sum": made.column})
        lines.append(f"print({name!r}, {combined})")
    if outputs.out:
        lines.append(f"pyarrow.csv.write_csv(frame, {outputs.out.as_posix()!r})")
    if outputs.rows_out:
        lines.append(f"pyarrow.csv.write_csv(result.rows(), {outputs.rows_out.as_posix()!r})")
    if outputs.report:
        lines.append(_call("result.report", [repr(outputs.report.as_posix())], form))
    if outputs.record:
        lines.append(f"Path({outputs.record.as_posix()!r}).write_text(json.dumps(result.to_dict(), indent=2))")
    return lines


def _code(cells: Mapping[Any, Mapping[Any, float]]) -> str:
    """The cells of a combination as code."""
    return repr({table: {keys: _short(weight) for keys, weight in own.items()} for table, own in cells.items()})


class _Code(str):
    """Text that is code already, and not a string to be quoted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _call(function: str, positional: list[Any], named: Mapping[str, Any]) -> str:
    """A call; named arguments that state nothing are left out."""
    stated = {name: value for name, value in named.items() if value is not None and value not in ([], {}, ())}
    parts = [str(value) for value in positional] + [f"{name}={value!r}" for name, value in stated.items()]
    return f"{function}({', '.join(parts)})"


def _promise(budget: Budget | None) -> str:
    if budget is None:
        return "...  # state a promise here, such as inid.PureDP(epsilon=1)"
    numbers = ", ".join(f"{name}={_short(value)!r}" for name, value in budget.to_dict().items() if name != "kind")
    return f"inid.{budget.kind}({numbers})"


def _noise(job: Job) -> dict[str, Any]:
    return {name: value if isinstance(value, str) else _number(value) for name, value in job.noise.arguments().items()}


def _in_order(values: Any, labels: list[str]) -> list[Any] | None:
    if values is None:
        return None
    return [_short(values[name]) for name in labels] if isinstance(values, Mapping) else _short_list(values)


def _short(value: Any) -> Any:
    """A float that is a whole number as an integer: 100, not 100.0."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _number(value: Any) -> Any:
    return None if value is None else _short(float(value))


def _short_list(values: Any) -> list[Any]:
    return [_short(value) for value in values]


def _shorter(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _shorter(entry) for name, entry in value.items()}
    return _short_list(value) if isinstance(value, list) else _short(value)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's, except that TOML escapes DEL as well.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(_toml(entry) for entry in value)}]"
    return repr(_short(value))


def _toml_key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _toml(name)
