"""All other keys: numbers without a table, promise, noise, ledger, outputs and streams, in the order of help and files.

What a key means stands in its entry and nowhere else. What goes together is checked where a job is read.
"""

from inid.schema.by_column import Formulas, NumbersByName
from inid.schema.key import Key, register
from inid.schema.periods import Periods
from inid.schema.questions import Questions
from inid.schema.values import Choice, File, Names, Number, Numbers, Part, Switch, Word, positive, probability, whole

__all__: list[str] = []

register(
    Key(
        "sensitivity",
        Numbers(),
        "X,...",
        "Without a table: how far one person moves each number.",
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
        "Several questions under one promise and one charge: give it once for each, with its name and its own options, "
        "'pay --mean income --where \"age > 30\"'.",
        "questions",
        "Questions",
        "",
    ),
    Key(
        "importance",
        positive("2"),
        "X",
        "Of one of several questions: what its error counts (default: 1).",
        "own",
        "Importance",
        "own",
        "1",
        "How much the error of this question counts beside that of the others.",
    ),
    Key(
        "share",
        Part(rest=False, words='text, such as `"1/10"`'),
        "P",
        "Of one of several questions: the part of the promise that it takes whatever its error is, such as 1/10.",
        "own",
        "Share of the promise",
        "own",
        "for example 1/10",
        "A part that it takes whatever its error is; the other questions divide the rest.",
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
        Choice({"auto": "the smaller error", "gaussian": "Gaussian", "laplace": "Laplace"}, "the smaller error"),
        "NAME",
        "auto (the smaller error, the default), gaussian or laplace.",
        "noise",
        "Noise",
        note="The kind of noise. Without a choice it is the one with the smaller error.",
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
        "The error you could live with, by column or label.",
        "noise",
        "Tolerance",
        "columns",
        note="The error that you could live with, in the unit of the column. Noise moves away from numbers whose "
        "tolerance is tight, to those where it is loose.",
        inside=True,
    ),
    Key(
        "weights",
        NumbersByName(),
        "NAME=X,...",
        "What a unit of error costs, instead of --tolerance.",
        "noise",
        place="",
    ),
    Key(
        "objective",
        Choice(
            {"max": "the largest error, in tolerances", "sum": "all squared errors together"},
            "the largest error, in tolerances",
        ),
        "NAME",
        "With --marginals: max (the largest error, the default) or sum.",
        "noise",
        "Make small",
        "tables",
        note="What the plan makes small: the largest error of all tables in units of their tolerances, or all "
        "squared errors together.",
    ),
    Key(
        "order",
        Number("a number from 1 to 1,000,000, such as 2", lambda x: 1 <= x <= 1_000_000),
        "P",
        "The order of the error that is minimized: 2 (the default), 1, ...",
        "noise",
        "Order of the error",
        example="2",
        note="How errors are added up: 2 adds squares, a larger order looks at the largest error.",
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
        note="The file that adds up what all releases together tell. A release is charged to it before the table "
        "is read.",
    ),
    Key(
        "name",
        Word(),
        "NAME",
        "A database holds any number of ledgers; this one (default: default).",
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
        note="What the ledger calls the person who is protected: it must be the word with which the ledger wasmade.",
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
        note="How often the printed intervals hold the exact value: 0.95 is 19 times of 20.",
    ),
    Key(
        "combine",
        Formulas("give each combination a name, for example gap=count(sex='F') - count(sex='M')"),
        "NAME=FORMULA;...",
        "Of several tables: linear combinations of cells, gap=count(sex='F') - count(sex='M').",
        "output",
        "Combined cells",
        "cells",
        "gap = count(sex='F') - count(sex='M')",
        "One per line, name = sum or difference of cells: published with an interval of its own, at no cost of "
        "privacy.",
        inside=True,
    ),
    Key(
        "tidy",
        Switch(),
        "",
        "Of several tables: counts that are not negative and agree with each other; no intervals.",
        "output",
        "Tidy counts",
        "tidy",
        note="Tidy counts are not negative and agree between tables, at no cost of privacy; they have no "
        "intervals."
        "Whole numbers go with them.",
        negative=True,
        inside=True,
    ),
    Key(
        "integers",
        Switch(),
        "",
        "Counts as whole numbers of at least 0; of several tables, with --tidy.",
        "output",
        "Whole numbers",
        "tidy",
        negative=True,
        inside=True,
    ),
    Key(
        "too_noisy",
        positive("0.3"),
        "SHARE",
        "Mark numbers whose interval is wider than this share of the estimate.",
        "output",
        place="",
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
        "In how many periods one person counts at most (default: 1), or every.",
        "stream",
        "Periods per person",
        "contributes",
        "1; a number, or every",
        "In how many periods one person counts at most. Where rows belong to people, a secret list in the stream's "
        "file keeps count; a row by itself is in one period, or state every.",
    ),
    Key(
        "want",
        Choice({"totals": "totals", "windows": "windows", "periods": "single periods"}, "totals"),
        "WORD",
        "What is to be accurate: totals (the default), windows or periods.",
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
                "mu^2": "Gaussian noise: tables, means, many numbers at a time",
                "epsilon": "Laplace noise: few numbers, or promises without a delta",
                "renyi": "both kinds of noise, and training of models",
            },
            "not at all: every release states its promise in numbers",
        ),
        "WORD",
        "What --part counts: epsilon, mu^2 or renyi; it is stated now or never.",
        "new ledger",
        "Parts are counted in",
        "ledger",
        note="Whether a release may take a part of the year, a third say, and by which noise parts add up. It is "
        "stated now or never. Most publications have Gaussian noise.",
    ),
    Key(
        "reserve",
        probability("1e-7"),
        "X",
        "A part of --delta for releases that need one beside their noise: --discover.",
        "new ledger",
        "Of delta, kept for finding keys",
        "ledger",
        "none, if left empty",
    ),
)
