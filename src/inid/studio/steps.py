"""The steps of the page, in their order: each with the sentence below its heading, and what the tour says of it."""

from dataclasses import dataclass

__all__ = ["STEPS", "STREAM_STEPS", "Step"]


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes:
        id: The name of its section.
        title: Its heading.
        sentence: What is done in it.
        tour: What somebody who sees the page for the first time should know of it.
    """

    id: str
    title: str
    sentence: str
    tour: str


STEPS = (
    Step(
        "who",
        "Who is protected",
        "Choose the table, and say whose privacy is promised.",
        "Everything begins with a table about people. If each person has one row, protect rows. If a person may have "
        "several, name the column that says whose row it is. Only names and types of columns are read here: no value "
        "is looked at before a release is paid for.",
    ),
    Step(
        "public",
        "What is public",
        "State what everybody may know without looking at the table.",
        "Limits of numbers, such as 0 to 110 for an age, and lists of codes, such as F and M. They come from common "
        "knowledge or from a published classification, never from the table itself: whatever is read off the data "
        "would tell something about people.",
    ),
    Step(
        "publish",
        "What to publish",
        "Tick what you want to print.",
        "Counts, means, tables over several columns, medians. Every number costs some of the promise, so ask for what "
        "you will print. Several questions can share one promise: add another one below the first.",
    ),
    Step(
        "exact",
        "How exact",
        "See the error to expect in every number, and say which error you could live with.",
        "Noise is added to every number, and here is how much. A tolerance says which error you could live with: "
        "noise moves away from numbers whose tolerance is tight. Nothing of this has a cost.",
    ),
    Step(
        "private",
        "How private",
        "Choose how much the publication may tell about one person.",
        "The slider trades privacy for exactness. To the left the publication tells less about each person and is "
        "noisier. An epsilon around 1 is common. Or take a part of the year, such as a third.",
    ),
    Step(
        "year",
        "What is left of the year",
        "A ledger adds up what all releases together tell, and stops where the promise ends.",
        "Each release takes a piece of a budget. A ledger keeps count, in a file: make one for the year, and divide "
        "it, by thirds for example. A release that would exceed it is refused before anything is spent.",
    ),
    Step(
        "release",
        "Release and take home",
        "Nothing is spent until you confirm. Then the ledger is charged, the table is read, and noise is added.",
        "The page says what will be spent and asks once. Then you get the numbers, and files: for a spreadsheet, for "
        "a report, for an auditor, and as a notebook or a command that does the same again.",
    ),
)
STREAM_STEPS = tuple(
    {
        "who": Step(
            "who",
            "Stream, and who is protected",
            "Name the stream and its table, and say whose privacy is promised.",
            "A stream publishes the same statistics period after period, under one promise that is paid once.",
        ),
        "release": Step(
            "release",
            "Open",
            "Nothing is spent until you confirm. Then the stream's file is made, and the ledger is charged once, for "
            "all periods.",
            "The page says what will be spent and asks once. Then choose the stream and release period after period.",
        ),
    }.get(step.id, step)
    for step in STEPS
)
