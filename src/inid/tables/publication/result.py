"""What several queries published together: their answers, one page, one record."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inid.tables.presentation import (
    Labels,
    answer_columns,
    label_columns,
    named_columns,
    read_labels,
    read_rows_are,
)
from inid.tables.publication.plan import PublicationPlan
from inid.tables.publication.record import publication_record
from inid.tables.result import TOO_NOISY, PageFacts, Result

if TYPE_CHECKING:
    from inid.accounting import Ledger

__all__ = ["PublicationResult"]


@dataclass(frozen=True, eq=False)
class PublicationResult(Mapping[str, Result]):
    """What several queries published together: a mapping from their names to their results.

    Attributes:
        plan: The plan by which the noise was drawn.
        results: The result of each query.
    """

    plan: PublicationPlan
    results: Mapping[str, Result]

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def private(self) -> bool:
        """False when a test's seeded or silent source drew the noise: such answers promise nothing."""
        return all(made.private for made in self.values())

    @property
    def charge(self) -> int | None:
        """The number of the charge in the ledger's history; None when no ledger was charged."""
        return next(iter(self.values())).release.charge

    @property
    def may_be_full(self) -> bool:
        """Whether a released count may be at the limit on the table's rows, within the reach of its noise."""
        return any(made.may_be_full for made in self.values())

    @cached_property
    def frame(self) -> Any:
        """All answers in one frame of the table's own kind; the column "query" names the query."""
        rows = [row for made in self.values() for row in made.lines]
        names = [name for name, made in self.items() for _ in made.lines]
        first = next(iter(self.values()))
        return first.source.answer({"query": names} | answer_columns(rows))

    def to_dict(self, *, combine: Mapping[str, Mapping[str, tuple[Any, str | None]]] | None = None) -> dict[str, Any]:
        """A JSON-safe record of all of it, which `verify_result` checks: the charge, and the record of each part.

        Args:
            combine: By query, combinations of cells to be recorded beside its answers, as `Result.to_dict` takes them.
        """
        return publication_record(self, combine)

    def report(
        self,
        path: str | Path,
        *,
        title: str = "Private statistics of a table",
        ledger: "Ledger | None" = None,
        labels: Labels | None = None,
        rows_are: str | None = None,
        too_noisy: float | None = TOO_NOISY,
    ) -> None:
        """Write one self-contained HTML page with contents: the numbers of each query, the promise, the proofs.

        Args:
            path: Where the page goes; a file that is there is replaced.
            title: Its heading.
            ledger: The ledger that was charged, to show what is left of it.
            labels: What columns and keys are called, in all queries, as for `Result.report`; the name of a query takes
                a text, which stands above its numbers: {"pay": "Pay of those who work"}.
            rows_are: As for `Result.report`.
            too_noisy: As for `Result.report`.

        Raises:
            ArgumentError: An argument is malformed, or a label names a column that no query has.
        """
        from inid.report import LedgerState, publication_page

        keyed = {name: label_columns(made.lines) for name, made in self.items()} if labels else {}
        every = {column for own in keyed.values() for column in own}
        named = {column for made in self.values() for column in named_columns(made.lines)}
        words = read_labels(labels, every, {*named, *self})
        state = None if ledger is None else LedgerState.of(ledger)
        facts = PageFacts(title, ledger=state, rows_are=read_rows_are(rows_are), too_noisy=too_noisy)
        parts = {}
        for name, made in self.items():
            own = words.of(keyed.get(name, ()))
            parts[name] = made.report_inputs(replace(facts, title=words.columns.get(name, name), words=own))
        told = [f"{label}: {std:.4g} instead of {own:.4g}" for label, std, own in self.plan.worse]
        text = publication_page(title, parts, self.plan.budget, told, self.to_dict()["digest"])
        Path(path).write_text(text, encoding="utf-8")

    def __str__(self) -> str:
        return "\n\n".join(f"{name}\n{made}" for name, made in self.items())
