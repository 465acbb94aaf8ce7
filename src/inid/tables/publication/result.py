"""What several queries published together: their answers, one page, one record."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from inid.arguments import listed, shown
from inid.errors import ArgumentError
from inid.tables.presentation import (
    Labels,
    answer_columns,
    label_columns,
    named_columns,
    noisy_rows,
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
        """All answers in one frame of the table's own kind; the column "query" names the query.

        A key of that name stands in the column "query_key".
        """
        return self.to_frame()

    def to_frame(
        self, *, tidy: Collection[str] = (), integers: Collection[str] = (), too_noisy: float | None = None
    ) -> Any:
        """The same as people publish them.

        Args:
            tidy: The queries whose counts are tidy, as for `Result.to_frame`.
            integers: The queries whose counts are whole numbers of at least 0.
            too_noisy: Adds a column that says whether an interval is wider than this share of its estimate.

        Raises:
            ArgumentError: A name is that of no query, or its answers have no such form.

        >>> import inid, pandas
        >>> t = inid.tables.Table(pandas.DataFrame({"age": [31.0, 44.0]}), bounds={"age": (0, 100)})
        >>> asked = inid.tables.Publication(people=t.query(count=True), ages=t.query(mean=["age"]))
        >>> made = asked.release(asked.plan(inid.PureDP(epsilon=1.0)))
        >>> made.to_frame(integers=["people"])["query"].tolist()
        ['people', 'ages']
        """
        self._check_names(tidy=tidy, integers=integers)
        made = {name: own.shown(tidy=name in tidy, integers=name in integers) for name, own in self.items()}
        rows = [row for own in made.values() for row in own]
        columns = answer_columns(rows, first={"query": [name for name, own in made.items() for _ in own]})
        if too_noisy is not None:
            columns |= {"too_noisy": noisy_rows([row for own in self.values() for row in own.lines], too_noisy)}
        return next(iter(self.values())).source.answer(columns)

    def _check_names(self, **stated: Collection[str]) -> None:
        for argument, names in stated.items():
            for name in [names] if isinstance(names, str) else names:
                if isinstance(names, str) or name not in self:
                    raise ArgumentError(
                        f"{argument} must list names of queries, got {shown(name)}: there are {listed(self)}."
                    )

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
        tidy: Collection[str] = (),
        integers: Collection[str] = (),
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
            tidy: As for `to_frame`.
            integers: As for `to_frame`.
            too_noisy: As for `Result.report`.

        Raises:
            ArgumentError: An argument is malformed, or a label names a column that no query has.
        """
        from inid.report import LedgerState, publication_page

        self._check_names(tidy=tidy, integers=integers)
        keyed = {name: label_columns(made.lines) for name, made in self.items()} if labels else {}
        every = {column for own in keyed.values() for column in own}
        named = {column for made in self.values() for column in named_columns(made.lines)}
        words = read_labels(labels, every, {*named, *self})
        state = None if ledger is None else LedgerState.of(ledger)
        facts = PageFacts(title, ledger=state, rows_are=read_rows_are(rows_are), too_noisy=too_noisy)
        parts = {}
        for name, made in self.items():
            own = words.of(keyed.get(name, ()))
            shown_as = replace(facts, tidy=name in tidy, integers=name in integers)
            parts[name] = made.report_inputs(replace(shown_as, title=words.columns.get(name, name), words=own))
        told = [f"{label}: {std:.4g} instead of {own:.4g}" for label, std, own in self.plan.worse]
        text = publication_page(title, parts, self.plan.budget, told, self.to_dict()["digest"])
        Path(path).write_text(text, encoding="utf-8")

    def __str__(self) -> str:
        return "\n\n".join(f"{name}\n{made}" for name, made in self.items())
