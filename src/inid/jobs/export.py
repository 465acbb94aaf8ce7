"""A job as a TOML file, a shell command, a Python script and a notebook."""

import ast
import json
import shlex
from collections.abc import Mapping, Sequence
from decimal import Decimal
from keyword import iskeyword
from textwrap import dedent
from typing import Any

from inid.accounting.stores import is_file
from inid.jobs.job import Job
from inid.jobs.outputs import display_names, read_combination
from inid.jobs.questions import StatedQuestion, TableQuestion
from inid.promises import Budget
from inid.schema import flag_words
from inid.schema.values import short
from inid.tables import Ordered, Person
from inid.tables.plan import whole_promise


def job_as_toml(job: Job) -> str:
    """The job as a file for `inid release --config`."""
    return "\n".join(_toml_lines(job.to_dict())) + "\n"


def _toml_lines(content: Mapping[str, Any], place: tuple[str, ...] = ()) -> list[str]:
    """The lines of a table: its own values, then the tables in it; those of single questions are nested."""
    tables = {name: value for name, value in content.items() if isinstance(value, Mapping)}
    toml = [f"{_toml_key(name)} = {_toml(value)}" for name, value in content.items() if name not in tables]
    for name, value in tables.items():
        path = (*place, _toml_key(name))
        lines = _toml_lines(value, path)
        toml += lines if path == ("question",) else ["", f"[{'.'.join(path)}]", *lines]
    return toml


def job_as_command(job: Job) -> str:
    """The job as one line for a shell: `inid release`, or `inid plan` where no table is named."""
    command = "plan" if isinstance(job.question, StatedQuestion) else "release"
    return command_line([command], job.to_dict())


def command_line(words: Sequence[str], content: Mapping[str, Any]) -> str:
    """A line for a shell: `inid`, these words, the table and all other keys as flags."""
    words = ["inid", *words]
    table = content.get("table")
    if table is not None:
        words.append(f"./{table}" if table.startswith("-") else table)  # a dash would make it an option
    return shlex.join([*words, *flag_words({name: value for name, value in content.items() if name != "table"})])


def job_as_python(job: Job) -> str:
    """The job as a Python script."""
    return _stated_script(job, job.question) if isinstance(job.question, StatedQuestion) else _table_script(job)


def _stated_script(job: Job, question: StatedQuestion) -> str:
    arguments = {name: value for name, value in question.values.items() if name != "sensitivity"}
    lines = ["import inid", ""]
    lines += [f"sensitivity = {_call('inid.Sensitivity.box', [_value(question.sensitivity)], arguments)}"]
    noise = {**job.noise.values, "tolerance": job.noise.tolerance, "weights": job.noise.weights}
    for name in ("tolerance", "weights"):
        if isinstance(noise[name], Mapping):
            noise[name] = [noise[name][label] for label in question.names]
    lines += [f"plan = {_call('inid.plan', ['sensitivity', _promise(job.budget)], noise)}"]
    return "\n".join([*lines, "print(plan)", ""])


def _table_script(job: Job) -> str:
    question = job.question
    if not isinstance(question, TableQuestion):
        raise TypeError("a question without a table has a script of its own")
    facts = question.table_arguments()
    facts["bounds"] = _Code(_value(facts["bounds"]))  # said even where there are none: a table needs them
    data = repr(question.table)
    if question.sql_table is not None:
        data = _call("tables.database_table", [data, repr(question.sql_table)], {})
    lines = [f"table = {_call('tables.Table', [data], facts)}"]
    lines += [f"table = table{step}" for step in _view(question)]
    if question.question:
        queries = {name: _Code(_asked(part, f"table{''.join(_view(part))}")) for name, part in question.parts.items()}
        lines += [f"publication = tables.Publication({_named(queries)})"]
        target = "publication"
    else:
        lines += [f"query = {_asked(question, 'table')}"]
        target = "query"
    options = job.plan_options()
    passed = {"level": job.outputs.level, "label": job.ledger.label}
    if job.ledger.ledger is None:
        planned = f"plan = {_call(f'{target}.plan', ['promise'], options)}"
        lines += [f"promise = {_promise(job.budget)}", planned, "print(plan)", ""]
        lines += [f"result = {_call(f'{target}.release', ['plan'], passed)}"]
    else:
        charged = {"ledger": _Code("ledger")}
        planned = f"plan = {_call(f'{target}.plan', ['promise'], options | charged)}"
        released = _call(f"{target}.release", ["plan"], charged | passed)
        lines += [
            *_opened(job, question),
            *(f"    {line}" for line in (planned, "print(plan)", f"result = {released}")),
        ]
    return "\n".join([*_imports(job), "", *lines, "", *_written_results(job), ""])


def _view(question: TableQuestion) -> list[str]:
    """The columns that a question computes, and the rows that it counts."""
    formulas = [f"**{dict(question.derive)!r}"]
    derived = [_call(".with_columns", formulas, question.computed_arguments())] if question.derive else []
    derived += [] if question.where is None else [f".where({question.where!r})"]
    features = f"**{dict(question.per_person)!r}"
    return [*derived, _call(".per_person", [repr(question.person), features], {})] if question.per_person else derived


def _asked(question: TableQuestion, table: str) -> str:
    return _call(f"{table}.{question.kind.method}", [], question.query_arguments())


def _named(parts: Mapping[str, Any]) -> str:
    """Named arguments; names that Python has no word for in a dictionary."""
    if all(name.isidentifier() and not iskeyword(name) for name in parts):
        return ", ".join(f"{name}={_value(value)}" for name, value in parts.items())
    return f"**{_value(parts)}"


def _imports(job: Job) -> list[str]:
    outputs, address = job.outputs, job.ledger.ledger
    lines = ["import json"] if outputs.record else []
    if outputs.record or (address is not None and is_file(address) and job.ledger.part is None):
        lines.append("from pathlib import Path")
    lines += [""] if lines else []
    writes_rows = any(part.outputs.rows_out for part in job.parts.values())
    lines += ["import pyarrow.csv", ""] if outputs.out or writes_rows else []
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
    """The total of a new ledger: the promise, and where keys are found alone the delta beside its noise."""
    taken = 0.0 if question.question else question.query_arguments().get("delta", 0.0)
    total = whole_promise(job.budget, taken) if taken and job.budget is not None else None
    return "promise" if total is None else _promise(total)


def _written_results(job: Job) -> list[str]:
    outputs, several = job.outputs, "" not in job.parts
    form = _form(job)
    sampled = outputs.drawn is not None
    lines = [f"result = result.with_sampling_error(drawn={short(float(outputs.drawn))!r})"] if sampled else []
    lines += [f"frame = {_call('result.to_frame', [], form) if form else 'result.frame'}"]
    lines += ["print(result)" if several else "print(frame)"]
    recorded: dict[str, dict[str, Any]] = {}
    for name, part in job.parts.items():
        result = f"result[{name!r}]" if several else "result"
        recorded[name] = {}
        for title, text in part.outputs.combine.items():
            combination = read_combination(title, text)
            cells = {
                table: {keys: short(weight) for keys, weight in weights.items()}
                for table, weights in combination.cells.items()
            }
            lines.append(f"print({title!r}, {_call(f'{result}.combine', [repr(cells)], {'sum': combination.column})})")
            recorded[name][title] = (cells, combination.column)
        if part.outputs.rows_out:
            lines.append(f"pyarrow.csv.write_csv({result}.rows(), {part.outputs.rows_out.as_posix()!r})")
    if outputs.out:
        lines.append(f"pyarrow.csv.write_csv(frame, {outputs.out.as_posix()!r})")
    if outputs.report:
        labels = display_names(outputs.called, list(job.parts))
        called: dict[str, Any] = {"labels": _Code(repr(labels)) if labels else None, "rows_are": outputs.rows_are}
        called |= {"too_noisy": _Code("None")} if outputs.form.get("too_noisy", 0) is None else {}
        lines.append(_call("result.report", [repr(outputs.report.as_posix())], form | called))
    if outputs.record:
        combined = {name: weights for name, weights in recorded.items() if weights}
        combine = {"combine": _Code(repr(combined if several else combined.get("")))} if combined else {}
        record = _call("result.to_dict", [], combine)
        lines.append(f"Path({outputs.record.as_posix()!r}).write_text(json.dumps({record}, indent=2))")
    return lines


def _form(job: Job) -> dict[str, Any]:
    """How answers are shown; where there are several questions, tidy and whole counts are stated by their names."""
    form = dict(job.outputs.form)
    if "" not in job.parts:
        for name in ("tidy", "integers"):
            form[name] = [question for question, part in job.parts.items() if part.outputs.form[name]]
    return {name: value for name, value in form.items() if value not in (None, False, [])}


class _Code(str):
    """Text that is code already, and not a string to be quoted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _call(function: str, positional: Sequence[Any], arguments: Mapping[str, Any]) -> str:
    """A call; named arguments that state nothing are left out."""
    passed = {name: value for name, value in arguments.items() if value is not None and value not in ([], {}, ())}
    parts = [str(value) for value in positional] + [f"{name}={_value(value)}" for name, value in passed.items()]
    return f"{function}({', '.join(parts)})"


def _value(value: Any) -> str:
    """A checked value as code."""
    if isinstance(value, Person):
        return _call("tables.Person", [repr(value.column)], {"max_rows": value.max_rows, "order_by": value.order_by})
    if isinstance(value, Ordered):
        return f"tables.Ordered({list(value.values)!r})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name!r}: {_value(entry)}" for name, entry in value.items()) + "}"
    if isinstance(value, Decimal):
        return repr(short(float(value)))
    return repr([short(entry) for entry in value] if isinstance(value, tuple) else short(value))


def _promise(budget: Budget | None) -> str:
    if budget is None:
        return "...  # state a promise here, such as inid.PureDP(epsilon=1)"
    numbers = ", ".join(f"{name}={short(value)!r}" for name, value in budget.to_dict().items() if name != "kind")
    return f"inid.{budget.kind}({numbers})"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's, except that TOML escapes DEL as well.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(_toml(entry) for entry in value)}]"
    return repr(short(value))


def _toml_key(name: str) -> str:
    bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if bare else _toml(name)


_PARTS = {
    "asked": "## Public facts and the question\n\nNo value of the table is read here.",
    "planned": "## The plan\n\nThe expected error of every number, before anything is spent. Run it as often as you "
    "like.",
    "released": "## The release\n\n**Every run of this cell is a new release and is charged again.** The ledger is "
    "charged first; then the table is read and noise is added.",
    "results": "## The results\n\nYou may compute with published numbers as you like: it costs nothing.",
}


def script_as_notebook(script: str) -> str:
    r"""A script of `Job.to_python` as the text of a notebook (nbformat 4).

    >>> text = script_as_notebook("import inid\n\nwith f() as ledger:\n    plan = g(ledger)\n    result = h(plan)\n")
    >>> for cell in json.loads(text)["cells"]:
    ...     if cell["cell_type"] == "code":
    ...         print("".join(cell["source"]), end="\n--\n")
    import inid
    --
    ledger = f()
    plan = g(ledger)
    --
    result = h(plan)
    --
    ledger.close()
    --
    """
    cells = [_cell("markdown", "# A private release\n\nMade by inid. Run the cells from top to bottom.")]
    for name, lines in _parts(script).items():
        if lines:
            cells += [_cell("markdown", _PARTS[name]), _cell("code", "\n".join(lines))]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    for at, cell in enumerate(cells):
        cell["id"] = f"cell-{at}"
    book = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _parts(script: str) -> dict[str, list[str]]:
    """The lines of each part; what is opened for a block is opened before the plan and closed at the end."""
    lines: dict[str, list[str]] = {name: [] for name in _PARTS}
    closing: list[str] = []
    part = "asked"

    def add(node: ast.stmt, text: str) -> None:
        nonlocal part
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        if part == "released":
            part = "results"
        if "promise" in names or "plan" in names:
            part = "planned"
        if "result" in names:
            part = "released"
        lines[part].append(text)

    for node in ast.parse(script).body:
        if isinstance(node, ast.With):
            part = "planned"
            for item in node.items:
                opened = f"{_source(script, item.optional_vars)} = {_source(script, item.context_expr)}"
                lines[part].append(opened)
                closing.append(f"{_source(script, item.optional_vars)}.close()")
            for inner in node.body:
                add(inner, _source(script, inner))
        else:
            add(node, _source(script, node))
    lines["results"] += closing
    return lines


def _source(script: str, node: ast.AST | None) -> str:
    text = None if node is None else ast.get_source_segment(script, node, padded=True)
    if text is None:
        raise AssertionError("every part of a script has a text")
    return dedent(text)


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
