"""Stream: the same statistics, period after period, under one promise.

*A period* goes through these steps, in this order (`Stream.release`): what names and types can refuse is refused; the
file is held alone; the exact numbers are computed; the file commits that the release begins, and who counts in it; the
ledger leases the release, which it does once; noise is drawn; the file commits the exact and the noisy numbers; they
are read back and shown. A crash anywhere loses one release at most. A release that was leased and not stored is spent:
its period has no number, and the stream goes on as if it began anew there (`strategies`), which costs accuracy, never
privacy.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from inid.arguments import Floats, real, shown
from inid.errors import ArgumentError, BudgetError, Words
from inid.noise import current_source
from inid.noise.grid_noise import noisy_steps
from inid.promises import Budget
from inid.tables.engines import Engine
from inid.tables.facts import Key
from inid.tables.query import Query, check_level
from inid.tables.result import TOO_NOISY
from inid.tables.streams.plan import (
    Contributes,
    StreamPlan,
    of_people,
    people_in,
    period_query,
    plan_stream,
    read_periods,
    read_stream_query,
)
from inid.tables.streams.results import (
    PeriodResult,
    PublishedPeriods,
    SumResult,
    answers_frame,
    release_values,
    stream_record,
)
from inid.tables.streams.strategies import Want
from inid.tables.streams.stream_file import ReleaseLeases, StoredRelease, StreamFile, Writing
from inid.tables.table import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from inid.accounting import Ledger


class Stream:
    """The same statistics of every period, under one promise, with noise that is correlated over time.

    `Stream.open` makes it; see there.

    Attributes:
        path: The stream's own file: a secret, readable by its owner alone. It holds exact sums.
        plan: What was planned and charged.
        level: The probability, at least, with which each interval holds the exact answer.
    """

    def __init__(self, file: StreamFile, ledger: "Ledger | None", level: float, source: Engine | None) -> None:
        self._file, self._ledger, self._source = file, ledger, source
        self.path, self.level = file.path, level
        self.plan = StreamPlan.from_dict(file.facts)
        self._leases = ReleaseLeases(ledger, self.plan, file)

    @classmethod
    def open(
        cls,
        path: str | Path,
        table: Table | None = None,
        *,
        query: Mapping[str, Any] | Query[Any, Any] | None = None,
        periods: Iterable[object] | None = None,
        contributes: Contributes | None = None,
        want: Want | None = None,
        window: int | None = None,
        promise: Budget | None = None,
        tolerance: Mapping[str, float] | None = None,
        ledger: "Ledger | None" = None,
        level: float = 0.95,
        timeout: float = 30.0,
    ) -> "Stream":
        """Open the stream in a file, or make it: plan all its periods and charge the ledger once, for all of them.

        `plan_stream` takes the same arguments and shows the errors before anything is spent. A stream that is there
        needs its path and its ledger only; what else is stated is compared with it.

        Args:
            path: The stream's own file. Keep it secret, and keep one copy that counts.
            table: The public facts; rows come with each release.
            query: See `plan_stream`.
            periods: See `plan_stream`.
            contributes: See `plan_stream`.
            want: See `plan_stream`; "totals" by default.
            window: See `plan_stream`.
            promise: See `plan_stream`.
            tolerance: See `plan_stream`.
            ledger: Who pays, and leases each release once. Without one an older copy of the file cannot be
                noticed, and would void the promise.
            level: The probability, at least, with which each interval holds the exact answer.
            timeout: How many seconds to wait for another process that is releasing a period.

        Raises:
            ArgumentError: An argument is malformed, or the stream was opened with other facts.
            BudgetError: The ledger refuses; nothing was made.
            RecordError: The file is not a stream's.

        >>> import inid, pandas, pathlib, tempfile
        >>> from inid import tables
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = inid.Ledger(total=inid.GaussianDP(mu=1.0))
        >>> months = pandas.period_range("2027-01", periods=12, freq="M")
        >>> frame = pandas.DataFrame({"sex": ["F", "M", "F"] * 50})
        >>> s = tables.Stream.open(
        ...     pathlib.Path(folder.name, "visits.db"), tables.Table(frame), query={"count": True}, periods=months,
        ...     promise=inid.GaussianDP(mu=1.0), ledger=ledger)
        >>> made = s.release("2027-01", frame)
        >>> made.period.answers[0].statistic, made.total.last
        ('count', '2027-01')
        >>> folder.cleanup()
        """
        place = Path(path)
        source = None if not isinstance(table, Table) else table.source
        check_level(level)
        real("timeout", timeout, least=0, cure="pass how many seconds to wait")
        asked = {"contributes": contributes, "want": want, "window": window, "promise": promise, "tolerance": tolerance}
        if place.exists():
            stream = cls(StreamFile(place, timeout), ledger, level, source)
            stream._require(table, query, periods, asked)
            if None in (query, periods, promise) or not stream._leases.discard_unpaid():
                stream._leases.settle()
                return stream
        if table is None or query is None or periods is None or promise is None:
            raise ArgumentError(
                f"there is no stream in {str(path)!r}: to make it pass a table, query=..., periods=... and promise=...",
                code="stream_absent",
                file=Words(path),
            )
        arguments = {name: value for name, value in asked.items() if value is not None}
        plan = plan_stream(table, query=query, periods=periods, ledger=ledger, **arguments)  # type: ignore[arg-type]
        read_stream_query(table, query).check(ledger)
        stream = cls(StreamFile.make(place, plan.to_dict(), timeout), ledger, level, source)
        stream._leases.settle(new=True)
        if (recorder := current_source().recorder) is not None:
            recorder.charged([plan.budget])
        return stream

    @property
    def periods(self) -> tuple[str, ...]:
        """The name of each period."""
        return self.plan.periods

    @property
    def is_open(self) -> bool:
        """Whether it was paid for: False if a crash interrupted its opening. Without a ledger it is always True."""
        return not self.plan.leased or self._file.is_paid()

    @property
    def released(self) -> tuple[str, ...]:
        """The periods that were released."""
        return tuple(self.periods[at] for at in self._file.releases())

    @property
    def lost(self) -> tuple[str, ...]:
        """The periods whose release was spent without a number, by a crash or an older copy of the file.

        Those after the last released one are known where the stream was opened with its ledger.
        """
        releases = self._file.releases()
        return tuple(self.periods[at] for at in range(self._next(releases)) if at not in releases)

    @property
    def next(self) -> str | None:
        """The period that comes next; None after the last one."""
        period = self._next(self._file.releases())
        return self.periods[period] if period < len(self.periods) else None

    @property
    def time(self) -> str:
        """When the last period was released."""
        releases = self._file.releases()
        return releases[max(releases)].time if releases else ""

    @property
    def charge(self) -> int | None:
        """The number of its charge in the ledger's history; None where it was opened without its ledger."""
        return None if self._ledger is None else self._leases.charge.id

    def release(self, period: object, data: object = None) -> PeriodResult:
        """Release a period: the numbers of its rows, and of all periods up to it.

        A period is released once; asked for again, the same numbers are shown, whatever the rows are now. Rows belong
        to the period in which they arrive: late ones to the next release, corrections too, as rows of their own.

        Args:
            period: Its name. Periods are released in order.
            data: Its rows: a frame, or the path of a file, with the columns of the stream's table; None for none.

        Raises:
            ArgumentError: Another period comes first, or the rows have other columns or types; nothing was spent.
            BudgetError: The release of the period was spent before; or the ledger or another process refuses.
            EngineError: The engine failed before the release was leased; nothing was spent.
        """
        at = self._place(period)
        if at in self._file.releases():
            return self._result(at)
        query = None if data is None else period_query(self.plan.question, data, self.plan.listed, self.plan.file)
        if query is not None:
            query.table.check_ledger_unit(self._ledger)
            self._source = query.table.source
        with self._file.writing() as file:
            releases = file.releases()
            if at not in releases:
                self._release_period(file, releases, at, query)
        return self._result(at)

    def window(self, first: object, last: object) -> SumResult:
        """The answers over the periods from `first` to `last`, both included.

        Raises:
            ArgumentError: A period is unknown or not released yet, `last` comes before `first`, or all were lost.
        """
        begin, end = self._place(first), self._place(last)
        published = self._published()
        if begin > end:
            raise ArgumentError(
                f"{self.periods[end]} comes before {self.periods[begin]}: state the first period first."
            )
        if end > max(published.released, default=-1):
            raise ArgumentError(f"{self.periods[end]} has not been released: release it first.")
        if not any(begin <= at <= end for at in published.released):  # nothing is known: not that they are empty
            raise ArgumentError(f"no period from {self.periods[begin]} to {self.periods[end]} has a released number.")
        return published.over("window", begin, end)

    def __getitem__(self, period: object) -> PeriodResult:
        """What was released for a period."""
        at = self._place(period)
        if at not in self._file.releases():
            raise ArgumentError(f"{self.periods[at]} has no released number: release it first, unless it was lost.")
        return self._result(at)

    @property
    def results(self) -> list[SumResult]:
        """The answers of every released period, then of every total so far."""
        return self._published().results

    @property
    def frame(self) -> Any:
        """All answers in one frame: of every released period, and of every total so far.

        Columns: what ("period" or "total"), first and last period, how many between them are missing, of whom or what
        the estimates are ("rows", "people", "people in their first 3 periods"), then those of a table's result. The
        frame is of the kind of the table, or a PyArrow table where none was opened.
        """
        return answers_frame(self.results, self._source)

    def to_dict(self) -> dict[str, Any]:
        """A JSON-safe record of all that was released, which `verify_result` proves again; no exact number is in it.

        It holds the plan, the noisy numbers of every release, the answers that follow from them, and a digest.
        """
        return stream_record(self._published())

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the totals so far of the first statistic with their intervals, beside those of independent noise.

        Raises:
            ArgumentError: Nothing was released yet.
            MissingExtraError: matplotlib is not installed.
        """
        from inid.tables.streams.page import plot_totals

        return plot_totals(self, ax)

    def report(self, path: str | Path, *, title: str | None = None, too_noisy: float | None = TOO_NOISY) -> None:
        """Write one self-contained HTML page: every period, the totals, the promise and the proof; see `Result.report`.

        Raises:
            ArgumentError: Nothing was released yet.
        """
        from inid.tables.streams.page import stream_page

        Path(path).write_text(stream_page(self, self._ledger, title, too_noisy), encoding="utf-8")

    def __str__(self) -> str:
        releases = self._file.releases()
        lost = self.lost
        return "\n".join(
            [
                f"stream in {self.path}: {len(releases)} of {len(self.periods)} periods released",
                *([f"lost: {', '.join(lost)}; totals are without them"] if lost else []),
                *([str(self._result(max(releases)).total)] if releases else []),
            ]
        )

    def __repr__(self) -> str:
        return f"<Stream: {len(self._file.releases())} of {len(self.periods)} periods, {self.plan.budget}>"

    def __reduce__(self) -> NoReturn:
        raise BudgetError("a stream cannot be pickled: open it in the other process with Stream.open(...).")

    # Releasing a period.

    def _release_period(
        self, file: Writing, releases: dict[int, StoredRelease], at: int, query: Query[Any, Any] | None
    ) -> None:
        self._require_next(at, self._next(releases))
        source = current_source()
        self._leases.require_source(private=source.private)
        people: list[Key] = []
        if query is not None and self.plan.listed:
            unknown = self._unknown(file, at)
            if unknown >= self.plan.most:
                raise BudgetError(
                    f"{unknown} periods of this stream were released from another copy of its file, and who counted in "
                    "them is not known here: nobody may count any more. Put the newest copy of the file back."
                )
            people = file.allowed(people_in(query, self.plan.listed), at, self.plan.most - unknown)
        exact = self._exact(query, people)
        self._leases.take(at, file.begin(at, people))
        noise = self.plan.noise
        steps = noisy_steps(
            release_values(self.plan.choice.strategy, releases, at, exact), noise.scales, noise.mechanism, source
        )
        file.store(at, exact.tolist(), steps, private=source.private)

    def _unknown(self, file: Writing, at: int) -> int:
        """How many earlier releases have no list here: another copy of the file leased them, or it broke."""
        here, leased = file.marks(), self._leases.marks()
        return sum(
            not here.get(number) or here[number] != leased.get(number, here[number])
            for number in {*here, *leased}
            if number < at
        )

    def _exact(self, query: Query[Any, Any] | None, people: list[Key]) -> Floats:
        """The exact numbers of a period. NOT PRIVATE."""
        nobody = np.zeros(self.plan.noise.dimension)
        if query is None or (self.plan.listed and not people):
            return nobody
        counted = of_people(query, people) if self.plan.listed else query
        exact: Floats = counted.exact(None)  # every plan has the same numbers
        return exact + 0.0  # no -0.0

    def _require_next(self, at: int, due: int) -> None:
        """Refuse a period whose release is spent, or which is not the next one."""
        if at < due:
            raise BudgetError(self._spent(at, due))
        if at > due:
            raise ArgumentError(
                f"{self.periods[due]} comes before {self.periods[at]}: release it first, without rows if it has none "
                "(in Python None in their place, on the command line --empty).",
                code="period_before",
                first=Words(self.periods[due]),
                asked=Words(self.periods[at]),
            )

    def _spent(self, at: int, due: int) -> str:
        return (
            f"the release of {self.periods[at]} was leased and its number is not in {self.path}: a release of it was "
            "interrupted, or the file is an older copy. The release is spent, and totals are without the period. "
            + (f"Go on with {self.periods[due]}." if due < len(self.periods) else "It was the last one.")
        )

    def _next(self, releases: Mapping[int, StoredRelease]) -> int:
        return self._leases.next_release(max(releases, default=-1) + 1)

    def _require(
        self,
        table: Table | None,
        query: Mapping[str, Any] | Query[Any, Any] | None,
        periods: Iterable[object] | None,
        asked: Mapping[str, Any],
    ) -> None:
        """Refuse other facts than those that the stream was opened with."""
        stated: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
        if periods is not None:
            stated["periods"] = list(read_periods(periods))
        if isinstance(promise := stated.get("promise"), Budget):
            stated["promise"] = promise.to_dict()
        if query is not None or table is not None:
            if query is None or table is None:
                raise ArgumentError("a stream's table and query go together: pass both, or neither.")
            stated["question"] = read_stream_query(table, query).under(self._ledger).question.to_dict()
        self.plan.require(stated)

    # Answers.

    def _place(self, period: object) -> int:
        try:
            return self.periods.index(str(period))
        except ValueError:
            raise ArgumentError(
                f"{shown(period)} is no period of this stream, which goes from {self.periods[0]} to {self.periods[-1]}."
            ) from None

    def _published(self) -> PublishedPeriods:
        return PublishedPeriods(self.plan, self._file.releases(), self.level, self._source)

    def _result(self, at: int) -> PeriodResult:
        published = self._published()
        return PeriodResult(published.over("period", at, at), published.over("total", 0, at))
