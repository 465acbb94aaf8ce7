"""The page of a publication: what was published, the promise of all of it, the numbers of each query, the proofs."""

from collections.abc import Mapping, Sequence

from inid.promises import Budget
from inid.report.block_words import block_title
from inid.report.estimate_notes import estimate_notes
from inid.report.estimate_tables import estimate_tables
from inid.report.inputs import ReportInputs
from inid.report.page import answers_part, contents, document, heading, promise_section
from inid.report.promise_text import promise_symbols
from inid.report.rendering import rendered
from inid.report.technical_part import (
    certificate_terms,
    definition_list,
    ledger_part,
    noise_of_each_number,
    promise_terms,
)

__all__ = ["publication_page"]


def publication_page(
    title: str, parts: Mapping[str, ReportInputs], budget: Budget, worse: Sequence[str], digest: str
) -> str:
    """The whole page as text; nothing in it comes from elsewhere, and no script runs.

    Args:
        title: The heading.
        parts: What the page of each query would show, by its name.
        budget: The promise of all of them.
        worse: What ends worse than under an equal split over queries, in sentences.
        digest: The digest of the record of the publication; empty for a plan that was not released.
    """
    every = list(parts.values())
    first = every[0]
    blocks = [block for inputs in every for block in inputs.blocks]
    entries = [
        (
            f"part-{at}",
            inputs.title,
            list(dict.fromkeys(block_title(block, inputs.things) for block in inputs.blocks)),
        )
        for at, inputs in enumerate(every, start=1)
    ]
    shown = [
        {
            "name": name,
            "title": inputs.title,
            "only": inputs.only,
            "things": inputs.things,
            "answers": answers_part(inputs),
            "tables": estimate_tables(inputs.blocks, inputs.things, f"part-{at}-table"),
            "asked": definition_list(inputs.question) if inputs.question else "",
            "symbols": promise_symbols(inputs.plan.budget),
            "mechanism": inputs.plan.noise.mechanism,
            "noise": noise_of_each_number(inputs.plan),
            "certificate": definition_list(certificate_terms(inputs)),
        }
        for at, (name, inputs) in enumerate(parts.items(), start=1)
    ]
    body = rendered(
        "publication.html",
        heading=heading(title, every),
        contents=contents(every, entries),
        promise=promise_section(first, budget),
        notes=estimate_notes(blocks, first.level, first.too_noisy, first.things) if blocks else "",
        parts=shown,
        promised=definition_list(promise_terms(budget)),
        worse=worse,
        ledger=ledger_part(first.ledger),
        digest=definition_list([("digest of the record", digest)]) if digest else "",
    )
    return document(title, [body])
