"""The ledger: a budget that several releases share, which cannot be spent twice and whose record cannot be lost.

A charge is committed before `charge` returns. What it costs: `costs`; whether it fits: `rules` and `admission`.
"""

import getpass
import socket
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from inid.accounting.admission import (
    Kind,
    NoRoomError,
    Room,
    admitted,
    check_history,
    kind_of_charge,
    kind_of_record,
    largest,
    largest_promises,
    priced,
    room_for,
    what_fits,
)
from inid.accounting.composition import Composition, CompositionProof, JointProof, PlanOfTable
from inid.accounting.costs import Amounts, Currency, Spending
from inid.accounting.history import (
    History,
    lease_text,
    leased_steps,
    ledger_lines,
    left_of,
    spending,
    summary,
)
from inid.accounting.journal import Journal
from inid.accounting.parts import PartsTable, part_of, parts_table, plans_of_one_number, read_part
from inid.accounting.records import Receipt, Record, verify_record
from inid.accounting.rules import Rule, Settings, Terms
from inid.accounting.stores import MemoryStore, Store, read_address
from inid.arguments import escaped, integer, read_word, real
from inid.errors import BudgetError, GuaranteeError, Words
from inid.numbers.decimals import decimal_fraction
from inid.planning import Certificate, NoisePlan
from inid.promises import Budget
from inid.sets import Neighbours

if TYPE_CHECKING:
    from inid.accounting.databases import DatabaseStore

# What a ledger can be asked: its settings, what is spent and left, parts, its history. Nothing here changes it.


class LedgerView:
    """A ledger as it is looked at; `Ledger` adds what changes it."""

    _journal: Journal
    _name: str

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
        return self._journal.store.persistent

    def part(self, part: str | Fraction | Decimal | float) -> Budget:
        """A promise that costs at most a part of this ledger's total: parts that add up to 1 always fit.

        Counted in the currency that was stated when the ledger was made: a part of epsilon is a `PureDP`, of mu^2 a
        `GaussianDP`, of rho a `ZCDP`, of Renyi divergences a `RenyiDP`. Other charges to the same ledger take room from
        the parts that were not charged yet.

        Args:
            part: "1/3", "0.25" or 0.25, for example; "rest" for all that is left.

        Raises:
            ArgumentError: Not above 0 and at most 1.
            BudgetError: The ledger was made without a currency (the message shows what a part buys in each), or less
                than this part is left.
        """
        share = None if part == "rest" else read_part(part)
        currency = self._settings.counted
        if currency is None:
            raise BudgetError(
                "this ledger was made without a currency in which parts are counted, and that never changes: "
                f"promise an epsilon, a mu or a rho instead. Parts would be:\n{self.parts_table(share or 1)}",
                code="parts_uncounted",
                parts=Words(self.parts_table(share or 1)),
            )
        room = dict(left_of(self._terms, self._journal.read().sums).amounts)
        amount = room[currency] if share is None else share * dict(self._terms.limits)[currency]
        if amount is None or not amount <= (rest := room[currency] or Fraction(0)) or not rest:
            raise NoRoomError(
                f"less than the part {part} of this ledger is left. "
                f"{what_fits(self._terms, room, currency)} A total cannot grow.",
                code="part_gone",
                asked=Words(part),
                **largest(self._terms, room, currency),
            )
        return part_of(self._terms, currency, amount)

    def parts_table(self, part: str | Fraction | Decimal | float = "1/3") -> PartsTable:
        """What a part of this ledger buys in each of its currencies, counted or not; prints as a table."""
        return parts_table(self.total, self._terms, read_part(part))

    def can_afford(self, plan: NoisePlan | Composition | PlanOfTable | Budget) -> bool:
        """Whether `charge` would accept this now. Changes nothing; another process may still be faster.

        Args:
            plan: A plan or a composition, or a promise: then it is asked for one number under this promise, with each
                kind of noise that the promise allows, and all must fit. Laplace noise on many numbers can cost more
                under `ApproxDP`: ask with the plan.

        Raises:
            ArgumentError: Neither a plan nor a promise.
            BudgetError: The database cannot be read.
            RecordError: The stored history is damaged.
        """
        plans = plans_of_one_number(plan, self.neighbours) if isinstance(plan, Budget) else [plan]
        try:
            charges = [priced(self._settings, one) for one in plans]
        except (BudgetError, GuaranteeError):
            return False
        history = self._journal.read()
        if self._journal.obstacle is not None:
            return False
        try:
            for charge in charges:
                admitted(self._settings, history, charge)
        except BudgetError:
            return False
        return True

    def spent(self) -> Spending:
        """The exact sum of all charges in each currency that the ledger counts.

        With an ApproxDP total this is deliberately not an (epsilon, delta): only the total is a guarantee, and a
        half-way conversion, chosen after seeing answers, is not.
        """
        return spending(self._terms, self._journal.read().sums)

    def remaining(self) -> Spending:
        """What is left of each limit; a charge must fit one of them together with the whole history.

        It prints as one line, which also names the largest promise of each kind that still fits, to four digits.
        """
        room = left_of(self._terms, self._journal.read().sums)
        return replace(room, fits=largest_promises(self.total, self._terms, dict(room.amounts)))

    def room(self, like: PlanOfTable | NoisePlan | Composition | Record | None = None) -> Room:
        """What is left: the largest release of one kind that still fits, and its share of the ledger.

        The rules of an ApproxDP total are alternatives, so what is left depends on what is released next: with which
        noise, and in which currency it is promised.

        Args:
            like: A plan, or a line of `history()`, of that kind; the last charge by default.

        Raises:
            ArgumentError: Neither a plan nor a record.
            BudgetError: The plan is of another relation, or the database cannot be read.
            RecordError: The stored history is damaged.

        >>> import inid
        >>> ledger = Ledger(total=inid.PureDP(epsilon=1.0))
        >>> receipt = ledger.charge(inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=0.4)))
        >>> room = ledger.room()
        >>> room.promise, room.share
        (PureDP(epsilon=0.6), Fraction(3, 5))
        >>> print(room.in_words())
        Left for another release of this kind: PureDP(epsilon=0.6), 60 % of the ledger.
        """
        record = like if isinstance(like, Record) else None
        if like is None:
            record = next(reversed(self._journal.records()), None)
        kind: Kind | None = None
        if record is not None:
            kind = kind_of_record(record)
        elif like is not None:
            kind = kind_of_charge(priced(self._settings, like))
        return room_for(self._settings, self._journal.read(), kind)

    def lines(self) -> list[tuple[str, str, str, str]]:
        """Each currency in words: what is spent, what is left, its limit; dashes where its rule is out for good."""
        return ledger_lines(self._terms, self._journal.read())

    def history(self) -> tuple[Record, ...]:
        """Every charge, oldest first, read anew and checked entry by entry."""
        return self._journal.records()

    def verify(self) -> tuple[Certificate | CompositionProof | JointProof, ...]:
        """Prove every charge again, and that all of them together keep the total.

        Returns:
            The proof of each charge, oldest first.

        Raises:
            RecordError: The stored history is damaged, or a charge is not the one of its proof.
            GuaranteeError: A charge breaks its promise or is for other neighbours, or all together exceed the total.

        >>> import inid
        >>> ledger = Ledger(total=inid.PureDP(epsilon=1.0))
        >>> receipt = ledger.charge(inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=0.4)))
        >>> [proof.promise for proof in ledger.verify()]
        ['PureDP(epsilon=0.4)']
        """
        records = self._journal.records()
        proofs = tuple(verify_record(record) for record in records)
        check_history(self._settings, records)
        return proofs

    def __repr__(self) -> str:
        name = f" name={self._name!r}" if self._name else ""
        return f"<Ledger in {self._store.where}:{name} total={self.total}>"

    def __str__(self) -> str:
        records, history = self._journal.records(), self._journal.read()
        others = tuple(name for name in self._store.names() if name != self._name)
        place = f'"{self._name}" in {self._store.where}' if self._name else f"in {self._store.where}"
        last = records[-1] if records and self.persistent else None
        room, obstacle = self.room().in_words(), self._journal.obstacle
        return summary(self._settings, history, place, room, last=last, others=others, obstacle=obstacle)

    @property
    def _store(self) -> Store:
        return self._journal.store

    @property
    def _settings(self) -> Settings:
        return self._journal.settings

    @property
    def _terms(self) -> Terms:
        return self._settings.terms


class Ledger(LedgerView):
    """A privacy budget shared by many releases, in memory; `Ledger.open` keeps one in a database.

    The total, the composition rule, the neighbouring relation and the privacy unit are fixed when it is made. Each rule
    remains valid when later queries are chosen after seeing earlier answers (docs/explanations/ledger-proofs.md).

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
        reserve: A part of an ApproxDP total's delta that charges may take beside their noise (`charge(..., delta=)`).

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
    ledger in memory
      PureDP(epsilon=1.0), 2 charges, neighbours add_remove, unit row
      Left for another release of this kind: PureDP(epsilon=0.2), 20 % of the ledger.
      currency  spent  left  limit
      epsilon   0.8    0.2   1
    """

    def __init__(
        self,
        total: Budget,
        rule: Rule = "auto",
        neighbours: Neighbours = "add_remove",
        unit: str = "row",
        *,
        currency: Currency | None = None,
        order: int | None = None,
        reserve: float | None = None,
    ) -> None:
        settings = Settings.make(total, rule, neighbours, unit, currency, order, reserve)
        self._attach(MemoryStore(settings), settings.to_text(), name="", by="")

    @classmethod
    def open(
        cls,
        url_or_path: str | Path,
        total: Budget | None = None,
        name: str = "default",
        rule: Rule | None = None,
        neighbours: Neighbours | None = None,
        unit: str | None = None,
        *,
        currency: Currency | None = None,
        order: int | None = None,
        reserve: float | None = None,
        by: str | None = None,
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
            reserve: Likewise (none by default).
            by: Who charges, for the history: "user@host" of this process by default, "" to keep no record of it.
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
        charged_by = who() if by is None else read_word("by", by, empty=True)
        arguments_given: dict[str, Any] = {"rule": rule, "neighbours": neighbours, "unit": unit, "currency": currency}
        arguments_given |= {"order": order, "reserve": reserve}
        settings = (
            None
            if total is None
            else Settings.make(total, **{k: v for k, v in arguments_given.items() if v is not None})
        )
        store = open_store(url_or_path, name, timeout)
        stored = store.load()
        if stored is None:
            if settings is None:
                raise BudgetError(f'there is no ledger "{name}" in {store.where}: pass total=... to make it.')
            stored = store.create(settings)
        self = cls.__new__(cls)
        self._attach(store, stored, name, charged_by)
        self._settings.require(store.where, total=total, **arguments_given)
        return self

    @classmethod
    def names(cls, url_or_path: str | Path, *, timeout: float = 30.0) -> tuple[str, ...]:
        """The names of the ledgers in a file or a database, in order; none where there is no such file.

        Raises:
            ArgumentError: The address is malformed.
            BudgetError, RecordError: The database cannot be reached, or is not one of ledgers.
        """
        store = open_store(url_or_path, "", timeout)
        try:
            return store.names()
        finally:
            store.close()

    def _attach(self, store: Store, settings: str, name: str, by: str) -> None:
        self._journal = Journal(store, settings)
        self._name = name
        self._by = by

    def charge(
        self, plan: NoisePlan | Composition | PlanOfTable, label: str = "", private: bool = True, *, delta: float = 0.0
    ) -> Receipt:
        """Pay for one release of a plan, or for a composition; when this returns, the charge is committed.

        Args:
            plan: What will be released once. Its guarantee is proved before anything is charged. A composition, such as
                `inid.subsample(plan, rate=0.01, steps=1000)`, is paid for as a whole (see `lease_steps`).
            label: A note for the history.
            private: False for what is drawn under `inid.testing`'s unsafe contexts, which a lasting ledger refuses.
            delta: A probability with which the release may be anything, beside its noise: taken from the reserve.

        Raises:
            ArgumentError: Not a plan or a composition, or a label that cannot be stored.
            GuaranteeError: The plan does not keep its own promise.
            BudgetError: The charge does not fit, the plan is of a kind or a neighbouring relation that this ledger does
                not take, or the database failed. Nothing may be released.
            RecordError: The stored history is damaged. Nothing may be released.
        """
        text = read_word("label", label, empty=True)
        reserve = real("delta", delta, least=0, cure="pass the probability to take from the ledger's reserve")
        charge = priced(self._settings, plan, decimal_fraction(reserve))
        if private is not True and self.persistent:
            raise BudgetError(
                "a lasting ledger takes no charges for releases without real noise (private=False): "
                "test with a ledger in memory, Ledger(total=...)."
            )
        entry, cost = self._journal.append(
            lambda history: (text, charge.texts(self._by), admitted(self._settings, history, charge))
        )
        return Receipt(
            entry.number, entry.time, entry.label, spending(self._terms, cost), charge.neighbours, entry.digest
        )

    def lease_steps(self, receipt: Receipt | Record | int, count: int, label: str = "") -> range:
        """Take the next steps of a composition that was charged; no step number is ever handed out twice.

        A training run pays for all its steps first and leases their numbers before it takes them; whoever goes back to
        a checkpoint and on from there leases new ones. A step that was leased and not taken is lost.

        Args:
            receipt: What `charge` returned, a line of `history()`, or the number of the charge.
            count: How many steps.
            label: A note by which `leases` tells whose lease it is.

        Returns:
            The numbers of the steps; those of a charge count from 0.

        Raises:
            ArgumentError: Not a receipt, not a count, or a label that cannot be stored.
            BudgetError: The charge has fewer steps left, or is not one of this ledger's that has steps.
            RecordError: The stored history is damaged.

        >>> import inid
        >>> ledger = Ledger(total=inid.ApproxDP(epsilon=3.0, delta=1e-6))
        >>> p = inid.plan(inid.Sensitivity.ball(10, l2=1.0), inid.GaussianDP(mu=1.0), mechanism="gaussian")
        >>> receipt = ledger.charge(inid.subsample(p, rate=0.01, steps=100), label="training")
        >>> ledger.lease_steps(receipt, 60), ledger.lease_steps(receipt, 40)
        (range(0, 60), range(60, 100))
        """
        number_of_steps = integer("count", count, least=1, cure="pass how many steps to take")
        text = read_word("label", label, empty=True)
        steps = range(0)

        def lease(history: History) -> tuple[str, tuple[str, str], Amounts]:
            nonlocal steps
            number, steps = history.next_steps(receipt, number_of_steps)
            return text, (lease_text(number, steps), "{}"), self._terms.nothing

        self._journal.append(lease)
        return steps

    def steps_left(self, receipt: Receipt | Record | int) -> int:
        """How many steps of a charged composition can still be leased.

        Raises:
            ArgumentError: Not a receipt.
            BudgetError: The charge is not one of this ledger's that has steps.
        """
        _, state = self._journal.read().steps_of(receipt)
        return state.charged - state.leased

    def leases(self, receipt: Receipt | Record | int) -> tuple[tuple[range, str], ...]:
        """The steps of a charge that were leased, oldest first: their numbers, and the label of each lease.

        Raises:
            ArgumentError: Not a receipt.
            BudgetError: The charge is not one of this ledger's that has steps.
            RecordError: The stored history is damaged.

        >>> import inid
        >>> ledger = Ledger(total=inid.ApproxDP(epsilon=3.0, delta=1e-6))
        >>> p = inid.plan(inid.Sensitivity.ball(10, l2=1.0), inid.GaussianDP(mu=1.0), mechanism="gaussian")
        >>> receipt = ledger.charge(inid.subsample(p, rate=0.01, steps=100))
        >>> taken = ledger.lease_steps(receipt, 60, label="first night")
        >>> ledger.leases(receipt)
        ((range(0, 60), 'first night'),)
        """
        number, _ = self._journal.read().steps_of(receipt)
        pairs = ((leased_steps(entry), entry.label) for entry in self._journal.leases())
        return tuple((steps, label) for (charge, steps), label in pairs if charge == number)

    def backup(self, path: str | Path) -> None:
        """Copy the ledger's file, as of one moment, to a new file that is marked as a backup.

        All ledgers in the file are copied. The copy takes no charges until somebody adopts it: two copies that both
        take charges are two budgets. A database server has backups of its own (`pg_dump`).

        Args:
            path: The file to make; there must be none of this name.

        Raises:
            ArgumentError: There is a file already, or no such folder.
            BudgetError: The ledger is not in a file, or the copy could not be made.

        >>> import inid, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> with Ledger.open(pathlib.Path(folder.name, "budget.db"), total=inid.PureDP(epsilon=1.0)) as ledger:
        ...     ledger.backup(pathlib.Path(folder.name, "copy.db"))
        >>> with Ledger.open(pathlib.Path(folder.name, "copy.db")) as copy:
        ...     copy.can_afford(inid.plan(inid.Sensitivity.box([1.0]), inid.PureDP(epsilon=0.1)))
        False
        >>> folder.cleanup()
        """
        target = read_address(path).path
        make = getattr(self._store, "backup", None)
        if make is None or target is None:
            raise BudgetError(
                "only a ledger in a file is copied to a file: on a server, take backups of the database, by pg_dump."
            )
        make(target)

    def adopt(self) -> None:
        """Take this copy of the ledger for the one that counts, and let it take charges again.

        A backup, and a copy that is older than what this user saw of the ledger before or went another way, refuses
        charges. Whoever adopts it acknowledges that charges which are missing here were made: they are spent, and the
        promise counts them no more. Every other copy must take no more charges.

        Raises:
            BudgetError: The store failed.
            RecordError: The stored history is damaged.
        """
        self._journal.adopt()

    def last_charge(self) -> Record | None:
        """The last charge that was begun through this object, if it was made: after a failure or an interruption.

        Raises:
            BudgetError: The database cannot be read.
            RecordError: The stored history is damaged.

        >>> import inid
        >>> ledger = Ledger(total=inid.PureDP(epsilon=1.0))
        >>> ledger.last_charge() is None
        True
        """
        begun = self._journal.begun
        return next((record for record in self.history() if record.digest == begun), None)

    def close(self) -> None:
        """Let go of the store; every later call on this object is an error. What is stored stays."""
        self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __deepcopy__(self, _memo: dict[int, Any] | None = None) -> Self:
        return self  # a copy of a budget would be a second budget

    __copy__ = __deepcopy__

    def __reduce__(self) -> NoReturn:
        raise BudgetError(
            "a ledger cannot be pickled: open it in the other process with Ledger.open(...), or stay in this one, "
            'with threads: joblib.parallel_config(backend="threading").'
        )


def who() -> str:
    """The user and the host of this process, "user@host", as far as the system knows them."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # an account without a name, as in some containers
        user = "unknown"
    return escaped(f"{user}@{socket.gethostname()}").encode(errors="replace").decode()


def open_store(address: str | Path, name: str, timeout: float) -> "DatabaseStore":
    """The store of a ledger in the database that an address names; imports SQLAlchemy."""
    wait = real("timeout", timeout, above=0, cure="pass the seconds to wait, for example timeout=30")
    read = read_address(address)
    if read.path is not None:
        from inid.accounting.databases import SqliteStore

        return SqliteStore(read, name, wait)
    from inid.accounting.databases import PostgresStore

    return PostgresStore(read, name, wait)
