"""What the command and the page say when something is wrong: `MESSAGES`, by the code of the error.

A missing limit, for example, is "bounds_missing". Python's own text stands where the error is raised; a code that is
not listed has a text that fits everywhere. `{column}` is a fact of the error, `{column:bare}` the same without
quotation marks, and `{the[bounds]}` an option: its flag in a command, its field on a page.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from inid.errors import Argument, Column, Fact, InidError, without_passwords
from inid.schema.key import find_key

Surface = Literal["command", "page"]


class Message(NamedTuple):
    """What a command and a page say."""

    command: str
    page: str


def _both(text: str) -> Message:
    return Message(text, text)


_LIMITS = "from what is known without looking at the table"
_ROOM = (
    "the budget has no room for this charge: it costs {cost}, and {left} of {total} is left after {times}. "
    "{mixed}{fits} A total cannot grow."
)

MESSAGES: Mapping[str, Message] = {
    "separator_unclear": Message(
        "the first line of {path} may be separated by {counts}: state {the[separator]} {word}.",
        "The first line of {path} may be separated by {counts}: choose the separator.",
    ),
    "separator_absent": Message(
        "the first line of {path} has no {stated}, but a {other} between {number} names: state {the[separator]} "
        "{other}, or leave it out.",
        "The first line of {path} has no {stated}, but a {other} between {number} names: choose that separator.",
    ),
    "bounds_missing": Message(
        f"{{statistic}} needs public limits for {{column}}: add {{the[bounds]}} {{column:bare}}=LOWER:UPPER, "
        f"{_LIMITS}.",
        f"{{statistic}} needs public limits for {{column}}: fill in its lower and its upper limit, {_LIMITS}.",
    ),
    "group_rows_missing": Message(
        "what an accuracy of {statistic} costs depends on the sizes of the groups: state those of {columns} by "
        "{the[group_rows]}, or plan with a promise.",
        "What an accuracy of {statistic} costs depends on the sizes of the groups: state those of {columns} under "
        "Rows of groups, or plan with a promise.",
    ),
    "group_rows_lack": Message(
        "{the[group_rows]} lacks {number} of the groups of {columns} that are asked for: state all of them.",
        "Rows of groups lacks {number} of the groups of {columns} that are asked for: state all of them.",
    ),
    "texts": _both(
        "{statistic} needs numbers, and the public values of {column} are texts, such as {text}: count them instead, "
        "in groups or in a table."
    ),
    "order_missing": Message(
        "the order of {column} needs public facts: add {the[bounds]} {column:bare}=LOWER:UPPER, or all its values in "
        "their order, {the[domains]} {column:bare}=0:115.",
        "the order of {column} needs public facts: fill in its lower and its upper limit, or list all its values in "
        "their order under Public values of columns.",
    ),
    "keys_missing": Message(
        "{column} is a grouping column without public keys: state them as {the[domains]}.",
        "{column} is a grouping column without public keys: list them under Public values of columns.",
    ),
    "domain_missing": Message(
        "{column} is a grouping column without public keys: state them as {the[domains]} {column:bare}=KEY,KEY.",
        "{column} is a grouping column without public keys: list its values under Public values of columns.",
    ),
    "domain_alike": _both("{column} has no public keys: did you mean {alike}?"),
    "domains_missing": Message(
        "{argument} asks for tables over {wanted} columns, but only {stated} have public keys: state more "
        "{the[domains]}.",
        "{argument} asks for tables over {wanted} columns, but only {stated} have public keys: list those of more "
        "columns under Public values of columns.",
    ),
    "column_unknown": _both("{argument} names the column {column}, which the table lacks: {cure}"),
    "people_missing": _both(
        "{the[count_distinct]} counts people: name the column that identifies them as {the[person]}, or ask for "
        "{the[count]}."
    ),
    "nothing_asked": _both("nothing is asked: ask for {the[count]}, {the[mean]} or another statistic."),
    "total_alone": _both(
        "a table over no column is the total alone: ask for {the[count]} or {the[mean]} without tables, or name "
        "columns."
    ),
    "sampling_unknown": _both(
        "the sampling error is known for {the[count]}, {the[sum]}, {the[mean]} and {the[histogram]} in a single "
        "grouping alone: leave {the[drawn]} out."
    ),
    "sampling_of_rows": _both(
        "rows of one person are drawn together, so that they are no simple random sample: leave {the[drawn]} out, or "
        "state 1 for {the[max_rows]}."
    ),
    "parts_unproved": _both(
        "the parts of these questions are not proved to keep the promise together, since some have Laplace noise "
        "alone: state {the[epsilon]}, with {the[delta]} or without, or {the[mu]} in the place of {the[rho]}."
    ),
    "alone": _both("{own} cannot be combined with other statistics; use a separate release."),
    "goes_with": _both("{argument} goes with {own}: leave it out here."),
    "rows_or_people": _both("{own} counts rows or people: state {the[count]} or {the[count_distinct]}."),
    "delta_missing": _both(
        "{the[discover]} needs {the[discover_delta]}, the probability with which a key that only one person has may "
        "appear, for example 1e-8."
    ),
    "not_by_tables": _both(
        "{argument} does not go with {the[marginals]}, several {the[by]}, and {the[mean]} or {the[sum]} by tables: ask "
        "for it in another release."
    ),
    "by_with_keys": _both(
        "{the[by]} with keys is a single grouping and does not go with {the[marginals]}, several {the[by]}, and "
        "{the[mean]} or {the[sum]} by tables: state the keys as {the[domains]}, and the groupings as {the[by]} with "
        "columns alone."
    ),
    "by_alone": _both(
        "{the[by]} groups {the[count]}, {the[mean]} and {the[sum]}: ask for one of them, without tables of its own."
    ),
    "by_without_keys": Message(
        "{the[by]} with {the[quantile]}, {the[cdf]} or {the[cumulative]} needs keys: state {the[by]} sex=F,M, say.",
        "{the[by]} of ordered columns need keys: list them, such as F, M for sex.",
    ),
    "rows_missing": _both(
        "the tolerance of quantile({column:bare}) is in the unit of the column, which needs a guess of how many rows "
        "lie in one unit: state {the[rows]}, or the tolerance of {column:bare} in running counts."
    ),
    "tables_alike": _both(
        "DuckDB has several tables {name}: name the schema, too, such as main.{name}, in {the[sql_table]}."
    ),
    "rows_beyond": Message(
        "{what} would leave the range in which sums are exact: state {the[table_max_rows]} {rows} or fewer, or ask "
        "for fewer columns.",
        "{what} would leave the range in which sums are exact: state under {the[table_max_rows]} that there are "
        "{rows} or fewer, or ask for fewer columns.",
    ),
    "synthetic_column": _both(
        "column {number} of {the[synthetic_columns]} has no public keys or bins, or is named twice: state its "
        "{the[domains]} or {the[bins]}, and name it once."
    ),
    "synthetic_columns": _both(
        "synthetic rows need two columns or more with public keys or bins: state {the[domains]} or {the[bins]}."
    ),
    "noise_is_gaussian": _both(
        "synthetic rows are made with Gaussian noise, which cannot keep pure DP: promise {the[epsilon]} with "
        "{the[delta]}, {the[mu]} or {the[rho]}."
    ),
    "gaussian_pure": Message(
        "Gaussian noise cannot keep {the[epsilon]} alone: its privacy loss is unbounded. State {the[mechanism]} "
        "laplace, or promise {the[epsilon]} with {the[delta]}, {the[mu]} or {the[rho]}.",
        "Gaussian noise cannot keep {the[epsilon]} alone: its privacy loss is unbounded. Choose Laplace under "
        "{the[mechanism]}, or promise {the[epsilon]} with {the[delta]}, {the[mu]} or {the[rho]}.",
    ),
    "noise_of_question": _both(
        '"{question}" is released with {noise} noise alone: promise {the[epsilon]} with {the[delta]}, and leave out '
        "{the[mechanism]}."
    ),
    "expression_bare": _both("the expression {text} names no column: write for example age >= 18, or income / 12."),
    "number_expected": _both("expected a number, got {got}: name a column of numbers, such as age, or write a number."),
    "condition_expected": _both("expected a condition, got {got}: for example age >= 18."),
    "formula_expected": _both("{column} needs a formula, got {got}: for example weight / 2."),
    "texts_compared": _both(
        "texts and truths are compared by == and != only, got {got}: list them, for example sex in ['F', 'M']."
    ),
    "domain_single": Message(
        "{column} has one public value and no cell for others, so it divides nothing: leave it out, or state "
        "{the[other]} cell.",
        "{column} has one public value and no cell for others, so it divides nothing: leave it out, or let rows "
        "with other values count in a cell of their own.",
    ),
    "domain_other": Message(
        "the public values of {column} hold {cell}, the name of the cell of all others: leave it out, or state "
        "{the[other]} drop.",
        "the public values of {column} hold {cell}, the name of the cell of all others: leave it out, or let rows with "
        "other values be left out.",
    ),
    "columns_alike": _both("{argument} names a column twice in one table: name each once."),
    "tolerance_unknown": _both("{the[tolerance]} names {key}, which is not asked for: known are {known}."),
    "error_unstated": _both(
        '"{question}" has no expected error from which its part of the promise could follow: state its '
        "{the[share]}, such as 1/2."
    ),
    "rows_of_none": _both("the record is not of synthetic rows: name one that a release of them wrote."),
    "rows_of_several": _both(
        "the record holds {number} questions of synthetic rows, and rows are made of one: release it by itself."
    ),
    "record_printed": Message(
        "the digest is that of another content: this is what --json printed, which holds more than a record, or the "
        "record was changed. Keep what --record writes.",
        "the digest is that of another content: the record was changed.",
    ),
    "ledger_counts_people": _both(
        'the ledger counts people ("{unit}"), and rows are protected here: name the column that identifies people as '
        "{the[person]}, or charge a ledger of rows."
    ),
    "ledger_counts_rows": _both(
        "the ledger counts rows, and whoever shares a value of {column} is protected here: charge a ledger of people."
    ),
    "ledger_counts_other": Message(
        'the ledger counts {word} "{own}", this release is for {word} "{asked}", and the two do not add up: use '
        "the ledger that counts it, by its file or {the[name]}.",
        'the ledger counts {word} "{own}", this release is for {word} "{asked}", and the two do not add up: choose '
        "the ledger that counts it.",
    ),
    "ledger_place": _both(
        "a ledger needs a file of its own: state a file's path, or postgresql://user:password@host/database."
    ),
    "ledger_absent": Message(
        'there is no ledger "{name}" in {place}: make it with inid ledger create.',
        'there is no ledger "{name}" in {place}: make it first.',
    ),
    "ledger_exists": _both(
        'there is a ledger "{name}" already, and a total never changes: choose another {the[name]} or place.'
    ),
    "other_neighbours": _both(
        'the plan is for {the[neighbours]} "{asked}", the ledger counts "{own}", and the two do not add up: leave out '
        "{the[neighbours]}, or name the ledger that counts it."
    ),
    "charge_unknown": Message(
        "the ledger in {where} could not be used: {reason}. Nothing may be released for this charge: make sure that "
        "the database can be reached, written to and is not held by another process, then look with inid ledger show "
        "before charging again, since the charge may have been recorded.",
        "the ledger in {where} could not be used: {reason}. Nothing may be released for this charge: make sure that "
        "the database can be reached, written to and is not held by another process, then look at the ledger before "
        "charging again, since the charge may have been recorded.",
    ),
    "total_without_delta": _both("{argument} is for a total of {the[epsilon]} with {the[delta]}: leave it out."),
    "reserve_missing": Message(
        "the charge takes delta = {delta} on top of its noise, and this ledger was made without a reserve (inid ledger "
        "create --reserve): list the keys as {the[by]} instead, or make this the ledger's only charge.",
        "the charge takes delta = {delta} on top of its noise, and this ledger was made without a reserve: list the "
        "keys under {the[by]} instead, or make this the ledger's only charge.",
    ),
    "reserve_spent": _both(
        "the charge takes delta = {delta} on top of its noise, and {left} of the ledger's reserve is left: state "
        "{the[discover_delta]} of no more than that. A reserve cannot grow."
    ),
    "cost_uncounted": Message(
        "this noise has no cost that a total of {total} can count: promise {the[epsilon]} alone, state "
        "{the[mechanism]} laplace, or both.",
        "this noise has no cost that a total of {total} can count: promise {the[epsilon]} alone, choose Laplace under "
        "{the[mechanism]}, or both.",
    ),
    "ledger_closed": _both(
        "the ledger takes no more charges: charge 1 took its whole promise, {total}. A total cannot grow."
    ),
    "no_room": _both(_ROOM),
    "part_gone": _both("less than the part {asked} of this ledger is left. {fits} A total cannot grow."),
    "parts_uncounted": Message(
        "this ledger was made without a currency in which parts are counted (inid ledger create --currency), and that "
        "never changes: promise {the[epsilon]}, {the[mu]} or {the[rho]} instead. This is what parts would be.\n{parts}",
        "this ledger was made without a currency in which parts are counted, and that never changes: promise "
        "{the[epsilon]}, {the[mu]} or {the[rho]} instead. This is what parts would be.\n{parts}",
    ),
    "part_nothing": _both("such a part of this ledger is too small to count: take a larger part."),
    "delta_of_keys": _both(
        "found keys take delta = {delta} of the promise beside their noise: promise {the[epsilon]} with a larger "
        "{the[delta]}."
    ),
    "share_missing": _both(
        'an accuracy target cannot be planned for "{question}": state the {the[share]} that it takes, such as 1/10.'
    ),
    "window_missing": _both(
        "windows need a length: state {the[window]}, the number of periods in one, or {the[want]} of another kind."
    ),
    "window_alone": _both("{the[window]} goes with {the[want]} windows: state both, or leave it out."),
    "periods_of_rows": _both(
        "{the[contributes]} counts the periods of people, and the unit is a row: name the {the[person]}, or leave it "
        "at 1 for events, each in one period, or say every."
    ),
    "weight_half": _both(
        "{the[weight]} and {the[max_weight]} go together: name the column and state the largest weight."
    ),
    "weight_asked": _both("the column of weights cannot be asked about: its sum is the weighted count."),
    "weights_elsewhere": _both("{the[weight]} goes with counts, sums and means alone: leave it out here."),
    "unweighted_statistic": _both(
        "{statistic} has no weighted form: ask for counts, sums and means alone, or leave out {the[weight]}."
    ),
    "contributes_missing": _both(
        "state {the[contributes]}: in how many periods one person counts at most, or every. After a number of periods "
        "a person counts no more, so later periods miss people; every leaves nobody out, with more noise."
    ),
    "stream_replaced": Message(
        "a stream is not planned for {the[neighbours]} replace, under which a person may also change the period: state "
        "{the[neighbours]} add_remove.",
        "a stream is not planned where one person's data change, under which a person may also change the period: "
        'choose "one more or less" under {the[neighbours]}.',
    ),
    "stream_unpaid": Message(
        "the stream in {file} was not paid for, and this ledger holds no charge of it: its opening was interrupted, or "
        "is still running. Open it again with inid stream open.",
        "the stream in {file} was not paid for, and this ledger holds no charge of it: its opening was interrupted, or "
        "is still running. Open it again.",
    ),
    "stream_absent": Message(
        "there is no stream in {file}: make it with inid stream open.", "there is no stream in {file}: open it first."
    ),
    "period_before": Message(
        "{first} comes before {asked}: release it first, with --empty if it has no rows.",
        "{first} comes before {asked}: release it first, without rows if it has none.",
    ),
}


def name_on(surface: Surface, name: str) -> str:
    """What a command or a page calls an option."""
    option = find_key(name)
    if option is None:
        return f"--{name.replace('_', '-')}" if surface == "command" else name
    return option.flag if surface == "command" else option.title


def error_message(error: InidError, surface: Surface) -> str:
    """What an error says in a command or on a page."""
    message = MESSAGES.get(error.code)
    if message is None:
        return str(error)
    facts: dict[str, Any] = {name: _Shown(fact, surface) for name, fact in error.facts.items()}
    if "epsilon" in facts:
        facts["fits"] = _fits(error.facts, surface)
    if "mixed" in facts:
        facts["mixed"] = _mixed(error.facts["mixed"], surface)
    text = getattr(message, surface).format(the=_Options(surface), **facts)
    return f"{error.place}: {text}" if error.place else text


def sentence_of(error: Exception, surface: Surface) -> str:
    """What went wrong, in a sentence in the terms of a command or of a page.

    Errors of this library hold public facts only, and so do paths. The text of any other error may quote a value of
    the table (engines do), so only its type is shown.
    """
    because = getattr(error, "because", None)  # of a release that was charged
    if because is not None:
        return f"{sentence_of(because, surface)} {error.then}"  # type: ignore[attr-defined]
    if isinstance(error, InidError):
        return error_message(error, surface)
    if isinstance(error, OSError):
        where = f"{without_passwords(str(error.filename))}: " if error.filename else ""
        return f"{where}{error.strerror or type(error).__name__}."
    kind = type(error).__name__
    return f"unexpected {kind}; its text may quote data, so it is shown only when INID_TRACEBACK=1 is set."


def _fits(facts: Mapping[str, Fact], surface: Surface) -> str:
    """What a ledger still has room for."""
    ways: dict[str, Callable[[str], str]] = {
        "epsilon": lambda x: (
            f"--epsilon {x}, without --delta" if surface == "command" else f"epsilon alone (pure), {x}"
        ),
        "mu": lambda x: f"--mu {x}" if surface == "command" else f"mu (Gaussian DP), {x}",
        "part": lambda x: f"--part {x}" if surface == "command" else f"a part of the ledger, {x}",
    }
    promises = [way(facts[name]) for name, way in ways.items() if facts[name]]
    return f"What still fits: {', or '.join(promises)}." if promises else "Nothing fits any more."


def _mixed(order: str, surface: Surface) -> str:
    parts = "Parts of a ledger (--part)" if surface == "command" else "Parts of a ledger"
    return f"This is a mix, {order}, which no sum of epsilons bounds. {parts} fit in any mix. " if order else ""


class _Options(dict[str, str]):
    """What options are called, looked up by name."""

    def __init__(self, surface: Surface) -> None:
        super().__init__()
        self._surface = surface

    def __missing__(self, name: str) -> str:
        return name_on(self._surface, name)


class _Shown:
    """A fact in a sentence: names of columns in quotation marks, those of arguments as the surface calls them."""

    def __init__(self, fact: Fact, surface: Surface) -> None:
        self._fact, self._surface = fact, surface

    def __format__(self, spec: str) -> str:
        if isinstance(self._fact, Argument):
            return name_on(self._surface, str(self._fact))
        return repr(str(self._fact)) if isinstance(self._fact, Column) and spec != "bare" else str(self._fact)
