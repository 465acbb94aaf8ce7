"""The page of a publication: the promise of all of it, contents, the numbers of each query, then the proofs."""

from collections.abc import Mapping, Sequence
from html import escape

from inid.promises import Budget
from inid.report.estimate_tables import estimates_section
from inid.report.inputs import ReportInputs
from inid.report.page import document, heading, promise_section, released_cards
from inid.report.promise_text import promise_symbols
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
    body = [
        heading(title, first.time, cards, private=all(inputs.private for inputs in parts.values())),
        f'<section id="promise">\n{promise_section(first, budget)}\n</section>',
        _contents(parts),
        *(_part(at, name, inputs) for at, (name, inputs) in enumerate(parts.items(), start=1)),
        f'<section id="technical">\n{_technical(parts, budget, worse, digest)}\n</section>',
    ]
    return document(title, "\n".join(body))


def _contents(parts: Mapping[str, ReportInputs]) -> str:
    names = [(f"part-{at}", name) for at, name in enumerate(parts, start=1)]
    names.append(("technical", "Technical part"))
    links = "".join(f'<li><a href="#{place}">{escape(name)}</a></li>' for place, name in names)
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _part(at: int, name: str, inputs: ReportInputs) -> str:
    """The numbers of one query, and what was asked."""
    shown = estimates_section(inputs.blocks, inputs.level, inputs.too_noisy) if inputs.blocks else ""
    asked = f"<h3>What was asked</h3>\n{definition_list(inputs.question)}" if inputs.question else ""
    return f'<section id="part-{at}">\n<h2 class="part">{escape(name)}</h2>\n{shown}\n{asked}\n</section>'


def _technical(parts: Mapping[str, ReportInputs], budget: Budget, worse: Sequence[str], digest: str) -> str:
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(promise_symbols(inputs.plan.budget))}</td>"
        f"<td>{escape(inputs.plan.noise.mechanism)}</td></tr>"
        for name, inputs in parts.items()
    )
    listed = "".join(f"<li>{escape(sentence)}</li>" for sentence in worse)
    said = f"<h3>Worse than under an equal split over queries</h3>\n<ul>{listed}</ul>\n" if worse else ""
    proofs = "".join(
        f"<h3>{escape(name)}</h3>\n{noise_of_each_number(inputs.plan)}\n{definition_list(certificate_terms(inputs))}\n"
        for name, inputs in parts.items()
    )
    return (
        f'<h2 class="part">Technical part</h2>\n{definition_list(promise_terms(budget))}\n'
        "<h2>How the promise is divided</h2>\n"
        '<div class="wide"><table><thead><tr><th>query</th><th>its part</th><th>noise</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>\n{said}"
        "<h2>Noise and certificates</h2>\n<p>Each part is proved from its own numbers, and the exact sum of the parts "
        "is at most the promise. <code>inid verify</code> repeats it on the ledger or the record.</p>\n"
        f"{proofs}{definition_list([('digest of the record', digest)])}"
    )
