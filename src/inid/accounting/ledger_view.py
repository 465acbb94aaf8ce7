"""What a ledger can be asked: its settings, what is spent and left, parts, its history. Nothing here changes it."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from inid.accounting.admission import admitted, priced
from inid.accounting.amounts import Currency, Spending
from inid.accounting.composition import Composition, PlanOfTable
from inid.accounting.journal import Journal
from inid.accounting.parts import PartsTable, part_of, parts_table, plans_of_one_number, read_part
from inid.accounting.records import Record
from inid.accounting.refusals import NoRoomError, largest, largest_promises, what_fits
from inid.accounting.rules import Terms
from inid.accounting.settings import Settings
from inid.accounting.stores import Store
from inid.accounting.summary import left_of, percent, percent_currency, spending, summary
from inid.errors import BudgetError, GuaranteeError, Words
from inid.planning import NoisePlan
from inid.promises import Budget
from inid.sets import Neighbours

__all__ = ["LedgerView"]


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

        >>> import inid
        >>> from inid.accounting import Ledger
        >>> ledger = Ledger(total=inid.ApproxDP(epsilon=3.0, delta=1e-6), currency="epsilon")
        >>> ledger.part("1/3")
        PureDP(epsilon=1.0)
        >>> s = inid.Sensitivity.box([1.0, 3.0])
        >>> [ledger.charge(inid.plan(s, ledger.part("1/3"))).id for _ in range(3)]
        [1, 2, 3]
        """
        share = None if part == "rest" else read_part(part)
        counted = self._settings.counted
        if counted is None:
            raise BudgetError(
                "this ledger was made without a currency in which parts are counted, and that never changes: make "
                f"another by name=..., with currency=... (--currency), as suits.\n{self.parts_table(share or 1)}",
                code="parts_uncounted",
                parts=Words(self.parts_table(share or 1)),
            )
        left = dict(left_of(self._terms, self._journal.read().sums).amounts)
        amount = left[counted] if share is None else share * dict(self._terms.limits)[counted]
        if amount is None or not amount <= (rest := left[counted] or Fraction(0)) or not rest:
            raise NoRoomError(
                f"less than the part {part} of this ledger is left. "
                f"{what_fits(self._terms, left, counted)} A total cannot grow.",
                code="part_gone",
                asked=Words(part),
                **largest(self._terms, left, counted),
            )
        return part_of(self._terms, counted, amount)

    def parts_table(self, part: str | Fraction | Decimal | float = "1/3") -> PartsTable:
        """What a part of this ledger buys in each of its currencies, counted or not; prints as a table.

        >>> import inid
        >>> from inid.accounting import Ledger
        >>> print(Ledger(total=inid.ApproxDP(epsilon=3.0, delta=1e-6)).parts_table("1/3"))
        What 1/3 of ApproxDP(epsilon=3.0, delta=1e-06) buys, by the currency it is counted in:
          currency  promise                                Laplace epsilon  Gaussian mu  std of 1 count  each of 100
          epsilon   PureDP(epsilon=1)                                    1            -           1.414        141.4
          mu^2      GaussianDP(mu=0.363643)                         0.3116       0.3636            2.75         27.5
          renyi     RenyiDP(order=9, divergence=0.526285)           0.6058        0.342           2.335        29.24
        """
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

        >>> import inid
        >>> from inid.accounting import Ledger
        >>> ledger = Ledger(total=inid.PureDP(epsilon=1.0))
        >>> ledger.can_afford(inid.PureDP(epsilon=1.0)), ledger.can_afford(inid.PureDP(epsilon=1.1))
        (True, False)
        """
        asked = plans_of_one_number(plan, self.neighbours) if isinstance(plan, Budget) else [plan]
        try:
            charges = [priced(self._settings, one) for one in asked]
        except (BudgetError, GuaranteeError):
            return False
        seen = self._journal.read()
        if self._journal.obstacle is not None:
            return False
        try:
            for charge in charges:
                admitted(self._settings, seen, charge)
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

        >>> import inid
        >>> from inid.accounting import Ledger
        >>> print(Ledger(total=inid.GaussianDP(mu=0.5)).remaining())
        mu^2 0.25: PureDP(epsilon=0.4398), or GaussianDP(mu=0.5)
        """
        left = left_of(self._terms, self._journal.read().sums)
        return replace(left, fits=largest_promises(self.total, self._terms, dict(left.amounts)))

    def percent_spent(self) -> int:
        """How much is spent, in whole percent rounded up: in the currency of parts, else by the rule with most room."""
        return percent(self._settings, self._journal.read())

    def percent_currency(self) -> str:
        """In what `percent_spent` counts, in words; empty where charge 1 took the whole promise.

        >>> import inid
        >>> from inid.accounting import Ledger
        >>> Ledger(total=inid.ApproxDP(epsilon=3.0, delta=1e-6), currency="mu^2").percent_currency()
        'mu^2'
        """
        return percent_currency(self._settings, self._journal.read())

    def history(self) -> tuple[Record, ...]:
        """Every charge, oldest first, read anew and checked row by row."""
        return self._journal.records()

    def __repr__(self) -> str:
        name = f" name={self._name!r}" if self._name else ""
        return f"<Ledger in {self._store.where}:{name} total={self.total}>"

    def __str__(self) -> str:
        records, seen = self._journal.records(), self._journal.read()
        others = tuple(name for name in self._store.names() if name != self._name)
        place = f'"{self._name}" in {self._store.where}' if self._name else f"in {self._store.where}"
        last = records[-1] if records and self.persistent else None
        return summary(self._settings, seen, place, last=last, others=others, obstacle=self._journal.obstacle)

    @property
    def _store(self) -> Store:
        return self._journal.store

    @property
    def _settings(self) -> Settings:
        return self._journal.settings

    @property
    def _terms(self) -> Terms:
        return self._settings.terms
