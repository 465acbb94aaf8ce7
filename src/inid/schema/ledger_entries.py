"""The keys of new ledgers, in the order of help."""

from inid.schema.key import Key, register
from inid.schema.number_types import probability
from inid.schema.values import Choice, Word

__all__: list[str] = []

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
