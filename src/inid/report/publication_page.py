"""The page of a publication: the promise of all of it, contents, the numbers of each query, then the proofs."""

from collections.abc import Mapping, Sequence

from inid.promises import Budget
from inid.report.estimate_tables import estimates_section
from inid.report.inputs import ReportInputs
from inid.report.page import asked_section, document, heading, promise_section, released_cards
from inid.report.promise_text import promise_symbols
from inid.report.rendering import rendered
from inid.report.technical_part import certificate_terms, definition_list, noise_of_each_number, promise_terms

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
        digest: The digest of the record of the publication.
    """
    first = next(iter(parts.values()))
    cards = released_cards([block for inputs in parts.values() for block in inputs.blocks])
    cards.append((f"{len(parts)}", "queries under one promise"))
    shown = [
        {
            "name": name,
            "estimates": estimates_section(inputs.blocks, inputs.level, inputs.too_noisy) if inputs.blocks else "",
            "asked": asked_section(inputs, "h3"),
            "symbols": promise_symbols(inputs.plan.budget),
            "mechanism": inputs.plan.noise.mechanism,
            "noise": noise_of_each_number(inputs.plan),
            "certificate": definition_list(certificate_terms(inputs)),
        }
        for name, inputs in parts.items()
    ]
    body = rendered(
        "publication.html",
        heading=heading(title, first.time, cards, private=all(inputs.private for inputs in parts.values())),
        promise=promise_section(first, budget),
        parts=shown,
        promised=definition_list(promise_terms(budget)),
        worse=worse,
        digest=definition_list([("digest of the record", digest)]),
    )
    return document(title, [body])
