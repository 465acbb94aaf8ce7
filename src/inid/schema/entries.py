"""Every option but those of tables: sensitivities, promise, noise, ledger, outputs, streams, in the order of help."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from inid.arguments import read_word, shown
from inid.errors import ArgumentError
from inid.schema.by_column import Formulas, NumbersByName, malformed
from inid.schema.key import Key, flag_words, from_fields, keys_of_a_question, register, to_fields
from inid.schema.values import (
    OFF,
    Choice,
    File,
    Names,
    Number,
    Numbers,
    Part,
    Periods,
    Switch,
    ValueType,
    Word,
    positive,
    probability,
    whole,
    wrong_value,
)

_CURE = "name each question and state what it asks, for example [question.people] with count = true"
_SYNTAX = "write a name and its options, for example --question 'pay --mean income --where \"age > 30\"'"
_BETWEEN = "\0"  # no argument of a command can hold it


class Questions(ValueType):
    """Named questions. A flag states one: its name, and its options as on a command line."""

    nothing: Any = {}  # noqa: RUF012 - never changed
    repeats = True
    field = "questions"
    words = "table of questions by name, each with keys of its own"

    def read(self, name: str, value: Any) -> dict[str, Mapping[str, Any]]:
        """Check the names of questions and of what each states; values are checked where a question is read."""
        if value is None:
            return {}
        if not isinstance(value, Mapping) or not all(isinstance(options, Mapping) for options in value.values()):
            raise wrong_value(name, value, _CURE)
        known = {one.name for one in keys_of_a_question()}
        for question, options in value.items():
            read_word(f"the name of a {name}", question)
            if question.startswith("-") or question != question.strip() or question == "self":
                raise ArgumentError(f"{name} cannot be named {shown(question)}: begin with a letter or a digit.")
            unknown = [key for key in options if key not in known]
            if unknown:
                raise ArgumentError(
                    f"{question} states {shown(unknown[0])}, which no {name} has for itself: known are "
                    f"{', '.join(sorted(known))}."
                )
        return {str(question): dict(options) for question, options in value.items()}

    def separator(self, texts: Sequence[str]) -> str:
        return _BETWEEN

    def from_text(self, name: str, text: str) -> Any:
        questions: dict[str, dict[str, Any]] = {}
        for line in text.split(_BETWEEN):
            try:
                question, *words = shlex.split(line)
            except ValueError:
                raise malformed(name, line, _SYNTAX) from None
            if question in questions:
                raise ArgumentError(f"{name} names {shown(question)} twice: give each name once.")
            questions[question] = _stated(name, line, words)
        return questions

    def to_texts(self, name: str, value: Any) -> list[str]:
        return [shlex.join([question, *flag_words(options)]) for question, options in value.items()]

    def from_field(self, name: str, field: Any) -> Any:
        if not isinstance(field, Mapping) or not all(isinstance(options, Mapping) for options in field.values()):
            return field
        return {question: from_fields(options) for question, options in field.items()}

    def to_field(self, value: Any) -> Any:
        return {question: to_fields(options) for question, options in value.items()}


def _stated(name: str, line: str, words: Sequence[str]) -> dict[str, Any]:
    """What the flags of one question state."""
    options = {one.flag: one for one in keys_of_a_question()}
    given: dict[str, list[str]] = {}
    switches: dict[str, bool] = {}
    rest = list(words)
    while rest:
        flag, equals, text = rest.pop(0).partition("=")
        plain = f"--{flag.removeprefix('--no-')}" if flag.startswith("--no-") else flag
        option = options.get(plain)
        if option is None or (option.is_switch and equals) or not (option.is_switch or equals or rest):
            raise malformed(name, line, _SYNTAX)
        if option.is_switch:
            switches[option.name] = plain == flag
        else:
            given.setdefault(option.flag, []).append(text if equals else rest.pop(0))
    for flag, texts in given.items():
        if len(texts) > 1 and not options[flag].type.repeats:
            raise ArgumentError(f"{name} states {flag} twice, got {shown(line)}: give it once.")
    return switches | {options[flag].name: options[flag].from_texts(texts) for flag, texts in given.items()}


register(
    Key(
        "sensitivity",
        Numbers(),
        "X,...",
        "Without a table: how much one person can change each number.",
        "stated",
        "Sensitivity",
        "numbers",
    ),
    Key(
        "labels",
        Names(words="list of names"),
        "NAME,...",
        "With --sensitivity: a name for each number.",
        "stated",
        place="numbers",
    ),
    Key(
        "l1",
        Number(),
        "X",
        "With --sensitivity: a cap on the sum of all changes.",
        "stated",
        "Sum of changes at most",
        "caps",
    ),
    Key(
        "l2",
        Number(),
        "X",
        "With --sensitivity: a cap on the root of the sum of squared changes.",
        "stated",
        "Root of squares at most",
        "caps",
    ),
)

register(
    Key(
        "question",
        Questions(),
        "'NAME OPTIONS'",
        "One of several questions that share one promise and one charge; repeat it for each. State its name and its "
        "options: 'pay --mean income --where \"age > 30\"'.",
        "questions",
        "Questions",
        "",
    ),
    Key(
        "importance",
        positive("2"),
        "X",
        "With several questions: the weight of this question's error (default: 1).",
        "own",
        "Importance",
        "own",
        "1",
        "The weight of this question's error beside that of the others.",
    ),
    Key(
        "share",
        Part(rest=False, words='text, such as `"1/10"`'),
        "P",
        "With several questions: a fixed part of the promise for this one, such as 1/10.",
        "own",
        "Share of the promise",
        "own",
        "for example 1/10",
        "A fixed part of the promise for this question; the other questions divide the rest.",
    ),
)

register(
    Key(
        "epsilon",
        positive("1"),
        "X",
        "Pure DP; with --delta, (epsilon, delta)-DP.",
        "promise",
        "Epsilon",
        "promise",
        "1",
        note="How far one person can shift what is published. Smaller is more private and noisier; 1 is common.",
    ),
    Key(
        "delta",
        probability("1e-6"),
        "X",
        "The delta that goes with --epsilon.",
        "promise",
        "Delta",
        "promise",
        "1e-6",
        note="A small probability beside epsilon, far below one in the number of people: with it noise can be "
        "smaller for many numbers at once.",
    ),
    Key(
        "mu",
        positive("0.3"),
        "X",
        "Gaussian DP.",
        "promise",
        "Mu",
        "promise",
        "0.3",
        note="How far one person can shift what is published, in standard deviations of the noise. Smaller is more "
        "private.",
    ),
    Key(
        "rho",
        positive("0.1"),
        "X",
        "Zero-concentrated DP.",
        "promise",
        "Rho",
        "promise",
        "0.1",
        note="Half of the square of mu, where the noise is Gaussian. Smaller is more private.",
    ),
    Key(
        "mechanism",
        Choice(
            {
                "auto": "the least error",
                "gaussian": "Gaussian",
                "laplace": "Laplace",
                "staircase": "staircase, drawn jointly",
            },
            "the least error",
        ),
        "NAME",
        "auto (the least error, the default), gaussian, laplace or staircase (drawn jointly).",
        "noise",
        "Noise",
        note="The kind of noise. Without a choice it is the one with the least error.",
    ),
    Key(
        "allocation",
        Choice({"optimal": "optimal", "iid": "alike for all", "spr": "an equal split"}, "optimal"),
        "NAME",
        "optimal (the default); iid and spr are the baselines.",
        "noise",
        place="",
    ),
    Key(
        "tolerance",
        NumbersByName(),
        "NAME=X,...",
        "The largest error that is acceptable, by column or label.",
        "noise",
        "Tolerance",
        "columns",
        note="The largest error that you accept, in the unit of the column. Numbers with a tight tolerance get less "
        "noise, the others more.",
        inside=True,
    ),
    Key(
        "weights",
        NumbersByName(),
        "NAME=X,...",
        "The cost of one unit of error, instead of --tolerance.",
        "noise",
        place="",
    ),
    Key(
        "objective",
        Choice(
            {"max": "the largest error, in tolerances", "sum": "the sum of squared errors"},
            "the largest error, in tolerances",
        ),
        "NAME",
        "With --marginals: max (the largest error, the default) or sum.",
        "noise",
        "Make small",
        "tables",
        note="What the plan minimizes: the largest error of all tables, in units of their tolerances, or the sum of "
        "squared errors.",
    ),
    Key(
        "order",
        Number("a number from 1 to 1,000,000, such as 2", lambda x: 1 <= x <= 1_000_000),
        "P",
        "The order of the error that is minimized: 2 (the default), 1, ...",
        "noise",
        "Order of the error",
        example="2",
        note="How errors are added up: 2 adds squares, a larger order gives more weight to the largest error.",
    ),
)

register(
    Key(
        "ledger",
        Word("path or `postgresql://` address"),
        "FILE",
        "Charge this ledger (a file or a postgresql:// address).",
        "ledger",
        "Ledger",
        "data",
        note="The file that keeps count of the privacy budget. A release is charged to it before the table is read.",
    ),
    Key(
        "name",
        Word(),
        "NAME",
        "The name of the ledger; a file or database holds any number of them (default: default).",
        "ledger",
        "Name in the ledger file",
        example="default",
        note="One file may hold several ledgers, each with a name of its own.",
    ),
    Key(
        "unit",
        Word(),
        "WORD",
        "With --person: what the ledger calls a person (default: the column).",
        "ledger",
        "Unit of the ledger",
        note="What the ledger calls the person who is protected. Use the word with which the ledger was made.",
    ),
    Key("label", Word(), "TEXT", "A note for the ledger's history.", "ledger", "Note for the ledger"),
    Key(
        "part",
        Part(),
        "P",
        "A part of the ledger, such as 1/3, or rest, instead of a promise in numbers.",
        "ledger",
        "Part of the ledger",
        "promise",
        "1/3",
        note="How much of the ledger this release takes: 1/3, 0.25, or rest for all that is left.",
    ),
    Key(
        "level",
        probability("0.95"),
        "P",
        "The probability of the intervals (default: 0.95).",
        "output",
        "Probability of the intervals",
        example="0.95",
        note="How often the printed intervals hold the exact value: 0.95 is 19 times out of 20.",
    ),
    Key(
        "drawn",
        Number("a share of the population between 0 and 1, such as 0.02", lambda x: 0 < float(x) < 1),
        "SHARE",
        "The share of the population in the table, if it is a simple random sample of it: intervals of counts, sums "
        "and means then cover the sampling error too.",
        "output",
        "Drawn share of the population",
        example="0.02",
        note="If the table is a simple random sample, the share of the population that is in it. Ranges of counts, "
        "sums and means then cover the sampling error too. It costs nothing.",
    ),
    Key(
        "combine",
        Formulas("give each combination a name, for example gap=count(sex='F') - count(sex='M')"),
        "NAME=FORMULA;...",
        "With several tables: linear combinations of cells, gap=count(sex='F') - count(sex='M').",
        "output",
        "Combined cells",
        "cells",
        "gap = count(sex='F') - count(sex='M')",
        "One per line, name = sum or difference of cells: published with its own interval, without any privacy cost.",
        inside=True,
    ),
    Key(
        "tidy",
        Switch(),
        "",
        "With several tables: counts that are not negative and agree with each other, without intervals.",
        "output",
        "Tidy counts",
        "tidy",
        note="Tidy counts are not negative and agree between tables, without any privacy cost. They have no "
        "intervals. Whole numbers need tidy counts.",
        negative=True,
        inside=True,
    ),
    Key(
        "integers",
        Switch(),
        "",
        "Print counts as whole numbers of at least 0; with several tables this needs --tidy.",
        "output",
        "Whole numbers",
        "tidy",
        negative=True,
        inside=True,
    ),
    Key(
        "too_noisy",
        positive("0.3", OFF),
        "SHARE",
        "Mark numbers whose interval is wider than this share of the estimate; off marks none, not even in the report.",
        "output",
        place="",
    ),
    Key(
        "called",
        Formulas(
            "give each name its words, for example age = Age in years, or sex:1 = men",
            "write each entry as name=words, for example age=Age in years, or sex:1=men",
            words="table of texts by column, by `column:key` or by question",
        ),
        "NAME=WORDS;...",
        "What the report calls columns, keys after a colon, and questions: 'income=Income, euros;sex:1=men'.",
        "output",
        "Words for readers",
        "words",
        "income = Income, euros",
        "One per line: what the report calls a column, with its unit; a key, after a colon, sex:1 = men; or one of "
        "several questions. It costs nothing.",
    ),
    Key(
        "rows_are",
        Word(),
        "WORD",
        "What the report calls the rows of the table, in the plural: people.",
        "output",
        place="",
    ),
    Key("out", File(), "FILE", "Write the estimates to this CSV file.", "output", place=""),
    Key(
        "rows_out",
        File(),
        "FILE",
        "With --synthetic: write the rows to this CSV file.",
        "output",
        place="",
        inside=True,
    ),
    Key("report", File(), "FILE", "Write a page about the release to this HTML file.", "output", place=""),
    Key("record", File(), "FILE", "Write everything to this JSON file, for inid verify.", "output", place=""),
)


register(
    Key(
        "periods",
        Periods(),
        "A:B",
        "The first and last year, month or day (2027-01:2027-12), or names with commas.",
        "stream",
        "Periods",
        "stream",
        "2027-01:2027-12",
        "The first and the last year, month or day, with a colon between them; or names with commas. They are public, "
        "and never change.",
    ),
    Key(
        "contributes",
        whole("every"),
        "K",
        "In how many periods one person counts at most, or every; it must be stated with --person.",
        "stream",
        "Periods per person",
        "contributes",
        "a number, or every",
        "In how many periods one person counts at most. After a number of periods a person counts no more, so later "
        "periods miss people; every leaves nobody out, with more noise. Without people each row is in one period: "
        "leave it empty, or state every.",
    ),
    Key(
        "want",
        Choice({"totals": "totals", "windows": "windows", "periods": "single periods"}, "totals"),
        "WORD",
        "What should be most accurate: totals (the default), windows or periods.",
        "stream",
        "What is to be accurate",
        "stream",
    ),
    Key(
        "window",
        whole(),
        "N",
        "With --want windows: how many periods a window has.",
        "stream",
        "Periods in a window",
        "stream",
        "for example 3",
    ),
)


register(
    Key(
        "rule",
        Word(),
        "RULE",
        "auto (the default), or gaussian: nearly all releases are Gaussian.",
        "new ledger",
        place="",
    ),
    Key(
        "currency",
        Choice(
            {
                "mu^2": "Gaussian noise: most releases",
                "epsilon": "Laplace noise: few numbers",
                "renyi": "both, and training of models",
            },
            "not at all: no parts are taken",
        ),
        "WORD",
        "The unit in which --part is counted: epsilon, mu^2 or renyi. It cannot be added later.",
        "new ledger",
        "Parts are counted in",
        "ledger",
        note="Whether a release may take a part of the budget, such as a third, and the kind of noise for which "
        "parts add up. It cannot be added later. Most publications have Gaussian noise.",
    ),
    Key(
        "reserve",
        probability("1e-7"),
        "X",
        "The part of --delta that is reserved for --discover, which needs some beside its noise.",
        "new ledger",
        "Delta reserved for finding keys",
        "ledger",
        "none, if left empty",
    ),
)
