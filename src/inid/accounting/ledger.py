"""The ledger: a budget that several releases share, which cannot be spent twice and whose record cannot be lost.

Charge first, then look: a charge has been committed before `charge` returns, so a crash loses budget, never privacy.
What a plan costs is in `costs`, what a history may cost in `rules`, where it is kept in `stores` and `databases`.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from inid.accounting.amounts import Amounts, Currency, Spending, added, amounts_from_text
from inid.accounting.charges import Charge, covered
from inid.accounting.composition import Composition
from inid.accounting.history import History, is_lease, lease_text
from inid.accounting.parts import PartsTable, part_of, parts_table, read_part
from inid.accounting.records import Receipt, Record, Row, make_row
from inid.accounting.refusals import relation_cure, what_fits
from inid.accounting.rules import Terms, accepts
from inid.accounting.settings import Settings, read_word
from inid.accounting.stores import MemoryStore, Store, Transaction
from inid.arguments import integer, real, shown
from inid.errors import ArgumentError, BudgetError, GuaranteeError, RecordError
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.sets import Neighbours

if TYPE_CHECKING:
    from inid.accounting.databases import DatabaseStore

__all__ = ["Ledger"]

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_POSTGRES = ("postgresql://", "postgresql+psycopg://")


class Ledger:
    """A privacy budget shared by many releases, in memory; `Ledger.open` keeps one in a database.

    The total, the composition rule, the neighbouring relation and the privacy unit are fixed when it is made. Each rule
    remains valid when later queries are chosen after seeing earlier answers (docs/ledger.md).

    Args:
        total: The promise that all charges together keep.
        rule: "auto", or "gaussian" for an ApproxDP total that is spent in Gaussian DP alone, with undivided delta.
        neighbours: "add_remove", "replace" or "zero_out": the relation that every plan charged must be for. A ledger of
            zero_out neighbours takes plans for add_remove too, at equal cost.
        unit: What one neighbour differs in, in words: "row", "user", "household".
        currency: In what `part` counts: "epsilon", "mu^2" or "renyi" for an ApproxDP total. Totals that count in one
            currency need not state it.
        order: The whole Renyi order of an ApproxDP total; left out, about the best one for Gaussian noise. For private
            training a smaller one may serve better.

    Raises:
        ArgumentError: An argument is malformed.

    >>> import inid
    >>> ledger = Ledger(total=inid.PureDP(epsilon=1.0))
    >>> p = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.4))
    >>> ledger.charge(p, label="means").id, ledger.charge(p, label="again").id
    (1, 2)
    >>> ledger.can_afford(p)
    False
    >>> print(ledger)
    Ledger in memory: PureDP(epsilon=1.0), 2 charges, neighbours add_remove, unit row
      currency  spent  left  limit
      epsilon   0.8    0.2   1
    """

    def __init__(
        self,
        total: Budget,
        rule: str = "auto",
        neighbours: str = "add_remove",
        unit: str = "row",
        *,
        currency: str | None = None,
        order: int | None = None,
    ) -> None:
        settings = Settings.make(total, rule, neighbours, unit, currency, order)
        self._attach(MemoryStore(settings), settings.to_text(), "")

    @classmethod
    def open(
        cls,
        url_or_path: str | Path,
        total: Budget | None = None,
        name: str = "default",
        rule: str | None = None,
        neighbours: str | None = None,
        unit: str | None = None,
        *,
        currency: str | None = None,
        order: int | None = None,
        timeout: float = 30.0,
    ) -> Self:
        """Open the ledger of this name in a database, or make it.

        Args:
            url_or_path: A file for SQLite, or a `postgresql://user:password@host/database` address.
            total: The promise; needed to make a ledger, optional (but checked) when it exists.
            name: One database holds any number of ledgers, each with a total of its own.
            rule: As for `Ledger` when it is made ("auto" by default); checked, when given, if it exists.
            neighbours: Likewise ("add_remove" by default).
            unit: Likewise ("row" by default).
            currency: Likewise (none by default).
            order: Likewise (chosen by default).
            timeout: How many seconds to wait for another process that is charging.

        Raises:
            ArgumentError: An argument is malformed.
            BudgetError: The ledger was made with other settings, does not exist, or cannot be reached.
            RecordError: What is stored there is not a whole ledger of a known version.
            MissingExtraError: PostgreSQL is asked for without the extra `inid[postgres]`.

        >>> import inid, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> path = pathlib.Path(folder.name, "budget.db")
        >>> p = inid.plan(inid.Sensitivity.box([1.0, 3.0]), inid.PureDP(epsilon=0.4))
        >>> with Ledger.open(path, total=inid.PureDP(epsilon=1.0)) as ledger:
        ...     receipt = ledger.charge(p, label="means")
        >>> with Ledger.open(path) as ledger:
        ...     ledger.total, ledger.spent().epsilon
        (PureDP(epsilon=1.0), Decimal('0.4'))
        >>> folder.cleanup()
        """
        name = read_word("name", name)
        wait = real("timeout", timeout, above=0, cure="pass the seconds to wait, for example timeout=30")
        wanted = None
        if total is not None:
            wanted = Settings.make(
                total,
                "auto" if rule is None else rule,
                "add_remove" if neighbours is None else neighbours,
                "row" if unit is None else unit,
                currency,
                order,
            )
        store = _database(url_or_path, name, wait)
        stored = store.load()
        if stored is None:
            if wanted is None:
                raise BudgetError(f'there is no ledger "{name}" in {store.where}: pass total=... to make it.')
            stored = store.create(wanted)
        self = cls.__new__(cls)
        self._attach(store, stored, name)
        self._settings.require(
            store.where, total=total, rule=rule, neighbours=neighbours, unit=unit, currency=currency, order=order
        )
        return self

    def _attach(self, store: Store, settings: str, name: str) -> None:
        self._store = store
        self._settings_text = settings
        self._settings = Settings.from_text(settings)
        self._name = name
        self._lock = Lock()
        self._closed = False
        self._seen = self._nothing_seen()
        self._read()  # the whole stored history is checked before the ledger is handed out

    @property
    def total(self) -> Budget:
        """The promise that all charges together keep."""
        return self._settings.total

    @property
    def rule(self) -> str:
        """The composition rule."""
        return self._settings.rule

    @property
    def neighbours(self) -> Neighbours:
        """The neighbouring relation that every plan must be for."""
        return self._settings.neighbours

    @property
    def unit(self) -> str:
        """What one neighbour differs in."""
        return self._settings.unit

    @property
    def currency(self) -> Currency | None:
        """The currency in which parts are counted: the stated one, or the only one there is; None when neither is."""
        return self._settings.counted

    @property
    def persistent(self) -> bool:
        """Whether the ledger outlives this process."""
        return self._store.persistent

    def charge(self, plan: NoisePlan | Composition, label: str = "", private: bool = True) -> Receipt:
        """Pay for one release of a plan, or for a composition; when this returns, the charge is committed.

        Args:
            plan: What will be released once. Its guarantee is proved before anything is charged. A composition, such as
                `inid.subsample(plan, rate=0.01, steps=1000)`, is paid for as a whole; its steps are taken with
                `lease_steps`. Stopping early is covered.
            label: A note for the history.
            private: False for what is drawn under `inid.testing`'s unsafe contexts, which a lasting ledger refuses.

        Raises:
            ArgumentError: Not a plan or a composition, or a label that cannot be stored.
            GuaranteeError: The plan does not keep its own promise.
            BudgetError: The charge does not fit, the plan is of a kind or a neighbouring relation that this ledger does
                not take, or the database failed. Nothing may be released.
            RecordError: The stored history is damaged. Nothing may be released.
        """
        text = read_word("label", label, empty=True)
        charge = self._priced(plan)
        if private is not True and self.persistent:
            raise BudgetError(
                "a lasting ledger takes no charges for releases without real noise (private=False): "
                "test with a ledger in memory, Ledger(total=...)."
            )
        row, cost = self._append(lambda seen: (text, charge.texts(), self._fitting(seen, charge)))
        return Receipt(row.number, row.time, row.label, self._spending(cost), charge.neighbours, row.digest)

    def lease_steps(self, receipt: Receipt | Record | int, count: int) -> range:
        """Take the next steps of a composition that was charged; no step number is ever handed out twice.

        A training run pays for all its steps first and leases their numbers before it takes them. Whoever goes back to
        an earlier checkpoint and on from there takes new steps, and leases new numbers for them: what the charge paid
        for cannot be exceeded, whatever crashes or is repeated. A step that was leased and not taken is lost.

        Args:
            receipt: What `charge` returned, a line of `history()`, or the number of the charge.
            count: How many steps.

        Returns:
            The numbers of the steps; those of a charge count from 0.

        Raises:
            ArgumentError: Not a receipt, or not a count.
            BudgetError: The charge has fewer steps left, or is not one of this ledger's that has steps.
            RecordError: The stored history is damaged.

        >>> import inid
        >>> ledger = Ledger(total=inid.ApproxDP(epsilon=3.0, delta=1e-6))
        >>> p = inid.plan(inid.Sensitivity.ball(10, l2=1.0), inid.GaussianDP(mu=1.0), mechanism="gaussian")
        >>> receipt = ledger.charge(inid.subsample(p, rate=0.01, steps=100), label="training")
        >>> ledger.lease_steps(receipt, 60), ledger.lease_steps(receipt, 40)
        (range(0, 60), range(60, 100))
        """
        wanted = integer("count", count, least=1, cure="pass how many steps to take")
        taken: list[range] = []

        def lease(seen: History) -> tuple[str, tuple[str, str], Amounts]:
            number, left = self._charge_with_steps(seen, receipt)
            if wanted > left:
                raise BudgetError(
                    f"charge {number} has {left} of its {seen.steps[number].charged} steps left, not {wanted}: steps "
                    "that were leased are spent. Lease fewer, or charge the ledger for more steps."
                )
            first = seen.steps[number].leased
            taken.append(range(first, first + wanted))
            return "", (lease_text(number, first, wanted), "{}"), self._terms.nothing

        self._append(lease)
        return taken[-1]

    def steps_left(self, receipt: Receipt | Record | int) -> int:
        """How many steps of a charged composition can still be leased.

        Raises:
            ArgumentError: Not a receipt.
            BudgetError: The charge is not one of this ledger's that has steps.
        """
        return self._charge_with_steps(self._read(), receipt)[1]

    def part(self, part: str | Fraction | Decimal | float) -> Budget:
        """A promise that costs at most a part of this ledger: parts that add up to 1 always fit.

        Counted in the currency that was stated when the ledger was made: a part of epsilon is a `PureDP`, of mu^2 a
        `GaussianDP`, of rho a `ZCDP`, of Renyi divergences a `RenyiDP`. Other charges to the same ledger take room from
        the parts that were not charged yet.

        Args:
            part: "1/3", "0.25" or 0.25, for example.

        Raises:
            ArgumentError: Not above 0 and at most 1.
            BudgetError: The ledger was made without a currency; the message shows what a part buys in each.

        >>> import inid
        >>> ledger = Ledger(total=inid.ApproxDP(epsilon=3.0, delta=1e-6), currency="epsilon")
        >>> ledger.part("1/3")
        PureDP(epsilon=1.0)
        >>> s = inid.Sensitivity.box([1.0, 3.0])
        >>> [ledger.charge(inid.plan(s, ledger.part("1/3"))).id for _ in range(3)]
        [1, 2, 3]
        """
        share = read_part(part)
        if self._settings.counted is None:
            raise BudgetError(
                "this ledger was made without a currency in which parts are counted, and that never changes: make "
                f"another by name=..., with currency=... (--currency), as suits.\n{self.parts_table(part)}"
            )
        return part_of(self._terms, self._settings.counted, share)

    def parts_table(self, part: str | Fraction | Decimal | float = "1/3") -> PartsTable:
        """What a part of this ledger buys in each of its currencies, counted or not; prints as a table.

        >>> import inid
        >>> print(Ledger(total=inid.ApproxDP(epsilon=3.0, delta=1e-6)).parts_table("1/3"))
        What 1/3 of ApproxDP(epsilon=3.0, delta=1e-06) buys, by the currency it is counted in:
          currency  promise                                Laplace epsilon  Gaussian mu  std of 1 count  each of 100
          epsilon   PureDP(epsilon=1)                                    1            -           1.414        141.4
          mu^2      GaussianDP(mu=0.363643)                         0.3116       0.3636            2.75         27.5
          renyi     RenyiDP(order=9, divergence=0.526285)           0.6058        0.342           2.335        29.24
        """
        return parts_table(self.total, self._terms, read_part(part))

    def can_afford(self, plan: NoisePlan | Composition) -> bool:
        """Whether `charge` would accept this now. Changes nothing; another process may still be faster.

        Raises:
            ArgumentError: Not a plan.
            BudgetError: The database cannot be read.
            RecordError: The stored history is damaged.
        """
        try:
            charge = self._priced(plan)
        except (BudgetError, GuaranteeError):
            return False
        seen = self._read()
        try:
            self._fitting(seen, charge)
        except BudgetError:
            return False
        return True

    def spent(self) -> Spending:
        """The exact sum of all charges in each currency that the ledger counts.

        With an ApproxDP total this is deliberately not an (epsilon, delta): only the total is a guarantee, and a
        half-way conversion, chosen after seeing answers, is not.
        """
        return self._spending(self._read().sums)

    def remaining(self) -> Spending:
        """What is left of each limit; a charge must fit one of them together with the whole history."""
        return self._left(self._read())

    def history(self) -> tuple[Record, ...]:
        """Every charge, oldest first, read anew from the store and checked row by row."""
        with self._lock, self._transaction(writes=False) as transaction:
            self._caught_up(transaction, self._nothing_seen())
            rows = transaction.rows(0)
        return tuple(self._record(row) for row in rows if not is_lease(row))

    def close(self) -> None:
        """Let go of the store; every later call on this object is an error. What is stored stays."""
        self._closed = True
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __copy__(self) -> Self:
        return self  # a copy of a budget would be a second budget

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise BudgetError(
            "a ledger cannot be pickled: open it in the other process with Ledger.open(...), or stay in this one, "
            'with threads: joblib.parallel_config(backend="threading").'
        )

    def __repr__(self) -> str:
        name = f" name={self._name!r}" if self._name else ""
        return f"<Ledger in {self._store.where}:{name} total={self.total}>"

    def __str__(self) -> str:
        seen = self._read()
        spent, left = self._spending(seen.sums), self._left(seen)
        limit = Spending(self._terms.limits, self._terms.order, left=True)
        table = [("currency", "spent", "left", "limit")]
        table += [
            (name, used, rest, most)
            for (name, used), (_, rest), (_, most) in zip(spent.lines(), left.lines(), limit.lines(), strict=True)
        ]
        widths = [max(len(line[i]) for line in table) for i in range(4)]
        body = [
            "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in table
        ]
        named = f' "{self._name}"' if self._name else ""
        title = (
            f"Ledger{named} in {self._store.where}: {self.total}, {_times(seen)}, "
            f"neighbours {self.neighbours}, unit {self.unit}"
        )
        return "\n  ".join([title, *body])

    @property
    def _terms(self) -> Terms:
        return self._settings.terms

    def _nothing_seen(self) -> History:
        return History.empty(self._settings_text, self._terms)

    def _append(self, make: Callable[[History], tuple[str, tuple[str, str], Amounts]]) -> tuple[Row, Amounts]:
        """Add the row whose label, texts and cost follow from the whole history, or raise and leave it as it was."""
        with self._lock:
            with self._transaction(writes=True) as transaction:
                seen = self._caught_up(transaction, self._seen)
                label, texts, cost = make(seen)
                row = make_row(seen.rows + 1, label, texts, cost, seen.digest)
                after = seen.after(row, self._terms)
                transaction.append(row, after.head(self._settings_text))
            self._seen = after  # only now: the transaction has committed
        return row, cost

    def _charge_with_steps(self, seen: History, receipt: Receipt | Record | int) -> tuple[int, int]:
        """The number of a charge that has steps, and how many of them are left."""
        given = receipt.id if isinstance(receipt, (Receipt, Record)) else receipt
        number = integer("receipt", given, least=1, cure="pass what charge() returned, or the number of the charge")
        state = seen.steps.get(number)
        if state is None:
            raise BudgetError(
                f"charge {number} of this ledger is not a composition with steps: charge one first, for example "
                "ledger.charge(inid.subsample(plan, rate=0.01, steps=1000))."
            )
        if isinstance(receipt, (Receipt, Record)) and receipt.digest != state.digest:
            raise BudgetError(f"the receipt is not of charge {number} of this ledger: pass the one it returned.")
        return number, state.charged - state.leased

    def _read(self) -> History:
        with self._lock:
            with self._transaction(writes=False) as transaction:
                self._seen = self._caught_up(transaction, self._seen)
            return self._seen

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Transaction]:
        if self._closed:
            raise BudgetError("the ledger is closed: open it again with Ledger.open(...), or make a new one.")
        with self._store.transaction(writes=writes) as transaction:
            yield transaction

    def _caught_up(self, transaction: Transaction, seen: History) -> History:
        """The history up to now: rows not seen before are chained, parsed and summed, then compared with the head.

        Raises:
            RecordError: A row is missing, changed or half written, or the stored sums are not the sums of the rows.
        """
        head = transaction.head()
        if head.settings != self._settings_text:
            raise self._damaged("its settings have changed")
        try:
            seen = seen.continued(transaction.rows(seen.rows), self._terms)
        except RecordError as error:
            raise self._damaged(str(error)) from None
        if head != seen.head(self._settings_text):
            raise self._damaged("its stored sums are not the sums of its charges")
        return seen

    def _damaged(self, what: str) -> RecordError:
        return RecordError(
            f"the ledger in {self._store.where} is damaged: {what}. Nothing may be released: "
            "restore it from a backup that is not older than the last release."
        )

    def _priced(self, what: NoisePlan | Composition) -> Charge:
        """What would be charged, proved, with its price in the ledger's currencies."""
        charge = Charge.of(what, self._terms.currencies, self._terms.order)
        if not covered(self.neighbours, charge.neighbours):
            raise BudgetError(
                f'the plan is for neighbours="{charge.neighbours}", the ledger counts "{self.neighbours}", '
                f"and the two do not add up: {relation_cure(self.neighbours, charge.neighbours)}."
            )
        return charge

    def _fitting(self, seen: History, charge: Charge) -> Amounts:
        """The cost to record, if some rule accepts the whole history with this charge.

        Raises:
            BudgetError: No rule does.
        """
        price = charge.price
        if accepts(self._terms, added(seen.sums, price)):
            return price
        if self._terms.whole and seen.charges == 0 and charge.promise == self.total:
            return self._terms.everything
        if all(amount is None for amount in price.values()):
            raise BudgetError(
                f"{charge.name} has no cost that a total of {self.total} can count: "
                'plan with PureDP or mechanism="laplace", or keep a ledger with an ApproxDP, GaussianDP or ZCDP total.'
            )
        if seen.charges and all(amount is None for amount in seen.sums.values()):
            raise BudgetError(
                f"the ledger takes no more charges: its whole promise, {self.total}, was spent on charge 1. "
                "Open another ledger by name=... for other people's data."
            )
        cost, left = self._spending(price), self._left(seen)
        fits = what_fits(self._terms, dict(left.amounts), self._settings.counted, charge)
        raise BudgetError(
            f"the budget has no room for this charge: it costs {cost}; left is {left} of {self.total} "
            f"after {_times(seen)}. {fits} A total cannot grow."
        )

    def _spending(self, amounts: Amounts) -> Spending:
        return Spending(tuple((c, amounts[c]) for c in self._terms.currencies), self._terms.order)

    def _left(self, seen: History) -> Spending:
        pairs = ((currency, limit, seen.sums[currency]) for currency, limit in self._terms.limits)
        rest = tuple((c, None if spent is None else max(limit - spent, Fraction(0))) for c, limit, spent in pairs)
        return Spending(rest, self._terms.order, left=True)

    def _record(self, row: Row) -> Record:
        try:
            plan, certificate = json.loads(row.plan), json.loads(row.certificate)
        except ValueError:
            raise self._damaged(f"charge {row.number} does not parse") from None
        cost = self._spending(amounts_from_text(row.cost, self._terms.currencies))
        return Record(row.number, row.time, row.label, plan, certificate, cost, digest=row.digest)


def _times(seen: History) -> str:
    return "1 charge" if seen.charges == 1 else f"{seen.charges} charges"


def _database(address: object, name: str, timeout: float) -> "DatabaseStore":
    """The store that an address names; imports SQLAlchemy."""
    from inid.accounting.databases import PostgresStore, SqliteStore

    if isinstance(address, str) and address.startswith(_POSTGRES):
        return PostgresStore(address, name, timeout)
    if isinstance(address, str) and address.startswith("sqlite:///"):
        address = address.removeprefix("sqlite:///")
    cure = "pass a file's path, or postgresql://user:password@host/database"
    if not isinstance(address, (str, Path)) or (isinstance(address, str) and _SCHEME.match(address)):
        scheme = str(address).split("://", maxsplit=1)[0] if isinstance(address, str) else shown(address)
        raise ArgumentError(f"a ledger cannot be opened on {scheme}: {cure}.")
    text = str(address)
    if text in ("", ".", ":memory:") or "\x00" in text:
        raise ArgumentError(
            f"a ledger needs a file of its own, got {shown(text)}: {cure}; in memory, Ledger(total=...)."
        )
    return SqliteStore(Path(address), name, timeout)
