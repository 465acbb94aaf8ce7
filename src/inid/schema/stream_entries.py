"""The keys of streams and of new ledgers, in the order of help."""

from inid.schema.key import Key, register
from inid.schema.number_types import probability, whole
from inid.schema.periods import Periods
from inid.schema.values import Choice, Word

__all__: list[str] = []

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
