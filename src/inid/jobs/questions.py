"""Groups of options that a job states; and its question: statistics of a table, or stated sensitivities."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from inid.errors import ArgumentError, InidError
from inid.schema import Key, Naming, find_key, group_sizes, keys, keys_of_a_question
from inid.sets import Sensitivity
from inid.tables import Ordered, Person, Publication, Table, database_table
from inid.tables.engines import Engine
from inid.tables.engines.sql.addresses import is_database, require_no_password
from inid.tables.query import Query, ask
from inid.tables.question import Question, kind_of_options


@dataclass(frozen=True)
class OptionGroup:
    """Values of the keys of some groups; each is an attribute, and one that is not stated is what its type says."""

    values: Mapping[str, Any] = field(default_factory=dict)
    groups: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def own_keys(cls) -> tuple[Key, ...]:
        """Its keys, in order."""
        return keys(*cls.groups)

    @classmethod
    def read(cls, values: Mapping[str, Any], name_of: Naming = str) -> Self:
        """Check every value."""
        read = {key.name: key.of(values, name_of) for key in cls.own_keys()}
        return cls({key.name: read[key.name] for key in cls.own_keys() if read[key.name] != key.type.nothing})

    def __getattr__(self, name: str) -> Any:
        option = find_key(name)
        if option is not None and (name in self.values or option in self.own_keys()):
            return self.values.get(name, option.type.nothing)
        raise AttributeError(f"{type(self).__name__} has no {name}")

    def stating(self, **values: Any) -> Self:
        """The same with other checked values."""
        return replace(self, values={**self.values, **values})

    def of(self, group: str) -> dict[str, Any]:
        """What is stated of one group, in order."""
        return {key.name: self.values[key.name] for key in keys(group) if key.name in self.values}

    def to_dict(self) -> dict[str, Any]:
        """What is stated, as plain values."""
        return {name: _plain(value) for name, value in self.values.items()}


def _plain(value: Any) -> Any:
    """A checked value as TOML and JSON hold it."""
    if isinstance(value, OptionGroup):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Path):
        return value.as_posix()
    return float(value) if isinstance(value, Decimal) else value


# Options that are no arguments of a table as it is.
_QUERY_OPTIONS = (
    "table",
    "sql_table",
    "where",
    "derive",
    "bounds",
    "missing",
    "domains",
    "bins",
)


FILE_KEYS = ("separator", "decimal", "thousands", "encoding", "types")  # how a CSV file is written
_VIEW = ("where", "derive")  # several questions may share these, and each may state its own


class QuestionOptions(OptionGroup):
    """What one of several questions states for itself."""

    @classmethod
    def own_keys(cls) -> tuple[Key, ...]:
        """Its keys, in order."""
        return keys_of_a_question()


class TableQuestion(OptionGroup):
    """Statistics of a table: its public facts, who is protected, and what is asked, by one question or by several."""

    groups = ("table", "unit", "question", "neighbours", "questions")

    @classmethod
    def read(cls, values: Mapping[str, Any], name_of: Naming = str) -> "TableQuestion":
        """Check every value of the question."""
        question = super().read(values, name_of)
        limits, order, person = name_of("max_rows"), name_of("order_by"), name_of("person")
        if question.person is None and (question.max_rows is not None or question.order_by):
            raise ArgumentError(f"{limits} and {order} go with {person}: name the column that identifies people.")
        features = name_of("per_person")
        if question.per_person and (question.person is None or question.max_rows is not None or question.order_by):
            raise ArgumentError(
                f"{features} goes with {person}, and all rows of a person count: state {person} and leave {limits} out."
            )
        if question.person is not None and question.max_rows is None and not question.per_person:
            raise ArgumentError(
                f"{person} needs {limits}: state how many rows of one person count, for example {limits} 5."
            )
        if question.question:
            for one in keys_of_a_question():
                if values.get(one.name) not in (None, False) and one.name not in _VIEW:
                    raise ArgumentError(
                        f"{name_of(one.name)} is stated by one question, and {name_of('question')} names several: move "
                        "it into one of them."
                    )
            options = {}
            for name, options_of in question.question.items():
                with in_question(name):
                    options[name] = QuestionOptions.read(options_of, name_of)
            question = question.stating(question=options)
        for name, part in question.parts.items():
            with in_question(name):
                part.query_arguments()  # refuses what does not go together
        if question.bins and not any(part.kind.makes_rows for part in question.parts.values()):
            raise ArgumentError(f"{name_of('bins')} goes with {name_of('synthetic')}: leave it out here.")
        return question

    @cached_property
    def parts(self) -> Mapping[str, "TableQuestion"]:
        """Each of several questions by its name, with the facts that all share; one question alone has no name."""
        if not self.question:
            return {"": self}
        # The rows are viewed, and their features made, before the questions are asked.
        shared = {name: value for name, value in self.values.items() if name not in ("question", "per_person", *_VIEW)}
        mine = {one.name for one in self.own_keys()}
        return {
            name: TableQuestion(shared | {key: value for key, value in options.values.items() if key in mine})
            for name, options in self.question.items()
        }

    @property
    def kind(self) -> type[Question]:
        """The kind of question that is asked."""
        return kind_of_options(self.of("question"))

    @property
    def source(self) -> str:
        """The name of the table's file, or of the table in a database."""
        return self.sql_table or Path(self.table).name

    @property
    def unit(self) -> str:
        """The privacy unit in a ledger's words: "row", or the name of the person column."""
        return self.person or "row"

    def table_arguments(self) -> dict[str, Any]:
        """The public facts as `Table` takes them."""
        person = None
        if self.person is not None and self.max_rows is not None:
            person = Person(self.person, max_rows=self.max_rows, order_by=self.order_by or None)
        more = {name: fact for name, fact in self.of("table").items() if name not in _QUERY_OPTIONS}
        renamed = {"max_rows" if name == "table_max_rows" else name: fact for name, fact in more.items()}
        facts = renamed | self.of("neighbours") | self._facts(computed=False) | {"unit": person}
        facts |= {} if self.max_weight is None else {"max_weight": float(self.max_weight)}
        facts |= {"group_rows": group_sizes(self.group_rows)} if self.group_rows else {}
        # A table needs bounds even where no column is added up.
        return {name: fact for name, fact in facts.items() if name == "bounds" or fact not in (None, {})}

    @property
    def file_facts(self) -> dict[str, Any]:
        """What is stated of how a CSV file is written."""
        return {name: fact for name, fact in self.of("table").items() if name in FILE_KEYS}

    def computed_arguments(self) -> dict[str, Any]:
        """The public facts of computed columns as `Table.with_columns` takes them."""
        return {name: fact for name, fact in self._facts(computed=True).items() if fact}

    def _facts(self, *, computed: bool) -> dict[str, dict[str, Any]]:
        """The facts by column: about computed ones, or about those of the table itself."""
        parts = self.parts.values()
        ordered = {column for part in parts for column in part.kind.ordered_columns(part.of("question"))}
        domains: Any = {name: Ordered(keys) if name in ordered else keys for name, keys in self.domains.items()}
        bins = {name: int(given[0]) if len(given) == 1 else list(given) for name, given in self.bins.items()}
        facts = {"bounds": self.bounds, "missing": self.missing, "domains": domains, "bins": bins}
        derived = set(self.derive)
        if not computed:  # nor is one of the table's own what a single question computes
            derived |= {name for part in parts for name in part.derive}
        return {
            what: {name: fact for name, fact in by_column.items() if (name in derived) is computed}
            for what, by_column in facts.items()
        }

    def query_arguments(self) -> dict[str, Any]:
        """What is asked as the method of a table takes it."""
        return self.kind.from_options(self.of("question"))

    def tolerances(self, tolerance: Any, name_of: Naming = str) -> dict[str, Any]:
        """Tolerances of the question as `plan` takes them: a named argument, or none where none is stated."""
        if tolerance is None:
            return {}
        return {"tolerance": self.kind.option_tolerances(self.of("question"), by_name(name_of("tolerance"), tolerance))}

    def open(self, name_of: Naming = str, source: Engine | None = None) -> Query[Any, Any] | Publication:
        """The query, or the publication of several queries; reads names and types of columns, no value."""
        facts = self.table_arguments()
        if source is not None:  # it was opened as the file is written
            facts = {name: fact for name, fact in facts.items() if name not in FILE_KEYS}
        table = Table(self._data(name_of) if source is None else source, **facts)
        if not self.question:
            return self._asked_of(table)
        table, queries = self._viewed(table), {}
        for name, part in self.parts.items():
            with in_question(name):
                queries[name] = part._asked_of(table)  # noqa: SLF001 - of the same class
        return Publication(**queries)

    def _viewed(self, table: Table) -> Table:
        if self.derive:
            table = table.with_columns(**self.computed_arguments(), **self.derive)
        table = table if self.where is None else table.where(self.where)
        return table.per_person(self.person, **self.per_person) if self.per_person else table

    def _asked_of(self, table: Table) -> Query[Any, Any]:
        return ask(self._viewed(table), self.kind.kind, **self.query_arguments())

    def _data(self, name_of: Naming) -> Any:
        """The path of a file, or the table of a database."""
        if (self.sql_table is None) == is_database(self.table):
            raise ArgumentError(
                "a database (postgresql://user@host/db, or a .duckdb file) goes with the name of its table, and a file "
                f"of one table without: {name_of('sql_table')} people."
            )
        if self.sql_table is None:
            return self.table
        require_no_password(self.table)
        return database_table(self.table, self.sql_table)


def by_name(name: str, values: Any) -> dict[str, float]:
    """Tolerances, or weights, of the statistics of a table, which are stated by name."""
    if isinstance(values, Mapping):
        return dict(values)
    raise ArgumentError(f"{name} of a table is given by name, for example {name} age=1,income=500.")


@contextmanager
def in_question(name: str) -> Iterator[None]:
    """Errors of one of several questions say which it is."""
    try:
        yield
    except InidError as error:
        raise (error.within(name) if name else error) from None


class StatedQuestion(OptionGroup):
    """Numbers whose sensitivities are stated, without a table."""

    groups = ("stated", "neighbours")

    @property
    def names(self) -> list[str]:
        """The label of each number, else its position."""
        return list(self.labels) or [str(at) for at in range(len(self.sensitivity))]

    def box(self) -> Sensitivity:
        """The sensitivity set."""
        caps_and_names = {name: value for name, value in self.values.items() if name != "sensitivity"}
        return Sensitivity.box(self.sensitivity, **caps_and_names)


def read_question(values: Mapping[str, Any], name_of: Naming) -> TableQuestion | StatedQuestion:
    """The question of a job; values of the other kind of question are refused."""
    table, sensitivity = name_of("table"), name_of("sensitivity")
    if (values.get("table") is None) == (values.get("sensitivity") is None):
        raise ArgumentError(f"a question is missing: name a {table}, or pass {sensitivity} 1,3,40, and not both.")
    kind, other_kind, missing = (
        (TableQuestion, StatedQuestion, sensitivity)
        if values.get("sensitivity") is None
        else (StatedQuestion, TableQuestion, f"a {table}")
    )
    for key in other_kind.own_keys():
        if values.get(key.name) is not None and key not in kind.own_keys():
            raise ArgumentError(f"{name_of(key.name)} goes with {missing} only: leave it out here.")
    return kind.read(values, name_of)
