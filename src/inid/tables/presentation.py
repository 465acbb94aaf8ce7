"""Answers as people read them: one column per key, labels instead of codes, whole counts, what is too noisy, and plots.

All of it is post-processing of released numbers: it costs nothing and reveals nothing more.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from inid import figures
from inid.arguments import Floats, listed, real, shown
from inid.errors import ArgumentError
from inid.noise.grid_noise import grid
from inid.planning import half_width
from inid.planning.noise_plan import aligned
from inid.report import ColumnFacts, Dimension, Estimate, EstimateBlock, PlanSummary, ReportInputs
from inid.report.wording import plain_number
from inid.tables.expressions import leaves
from inid.tables.facts import Key, Person
from inid.tables.intervals import quantile
from inid.tables.view import PublicFacts, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from inid.releasing import Release
    from inid.tables.question import Question
    from inid.tables.result import Answer, PageFacts, Result


KeyLabels = Mapping[str, Mapping[Key, str]]
Labels = Mapping[str, str | Mapping[Key, str] | tuple[str, Mapping[Key, str]]]
COUNTED = ("count", "count_distinct", "histogram")
NUMBERS = ("estimate", "lower", "upper", "std")
FIXED = ("statistic", "column", *NUMBERS, "too_noisy")  # no key has such a column
_SHOWN = 20


@dataclass(frozen=True)
class Words:
    """What columns and their keys are called."""

    columns: Mapping[str, str] = field(default_factory=dict)
    keys: KeyLabels = field(default_factory=dict)

    def of(self, keyed: Iterable[str]) -> "Words":
        """The same for an answer of which these columns have keys."""
        used = set(keyed)
        return Words(self.columns, {column: words for column, words in self.keys.items() if column in used})


def read_labels(labels: object, keyed: Iterable[str], named: Iterable[str] = ()) -> Words:
    """What the user calls columns and keys: a text for a column, a dictionary for its keys, a pair for both."""
    if labels is None:
        return Words()
    cure = "for example labels={'sex': {1: 'male', 2: 'female'}}"
    if not isinstance(labels, Mapping):
        raise ArgumentError(f"labels must be a dictionary by column, got {shown(labels)}: {cure}.")
    names: dict[str, str] = {}
    keys: dict[str, dict[Key, str]] = {}
    for column, stated in labels.items():
        name, words = stated if isinstance(stated, tuple) and len(stated) == 2 else (None, stated)
        if isinstance(stated, str):
            name, words = stated, {}
        texts = isinstance(words, Mapping) and all(isinstance(word, str) for word in words.values())
        if not texts or not (name is None or isinstance(name, str)):
            raise ArgumentError(
                f"labels of {shown(column)} must be a text, a dictionary from keys to texts, or a pair of both: {cure}."
            )
        names |= {} if name is None else {column: name}
        keys |= {column: dict(words)} if words else {}
    columns = sorted(set(keyed))
    for column in keys:
        if columns and column not in columns:
            raise ArgumentError(f"labels name {shown(column)}, which has no keys here: use {', '.join(columns)}.")
    known = sorted({*columns, *named})
    for column in names:
        if columns and column not in known:
            raise ArgumentError(f"labels name {shown(column)}, which is no column here: use {', '.join(known)}.")
    return Words(names, keys)


def read_rows_are(rows_are: object) -> str | None:
    """What the user calls the rows of a table."""
    if rows_are is None or (isinstance(rows_are, str) and rows_are.strip()):
        return rows_are
    raise ArgumentError(f"rows_are must be a word in the plural, got {shown(rows_are)}: for example 'people'.")


def label_columns(answers: Iterable["Answer"]) -> set[str]:
    """The columns whose keys can have labels."""
    return {_column(name, row) for row in answers for name in row.keys}


def named_columns(answers: Iterable["Answer"]) -> set[str]:
    """The columns that answers are about, which can have a name."""
    return {name for row in answers for name in row.column.split(",") if name}


def labelled(key: Any, column: str, labels: KeyLabels) -> Any:
    """What a key is called; itself without a label. Keys that became texts have the label of what they were."""
    words = labels.get(column, {})
    if key in words and not isinstance(key, bool):
        return words[key]
    return {str(known): word for known, word in words.items()}.get(str(key), key)


def whole_count(estimate: float, lower: float, upper: float) -> tuple[float, float, float]:
    """A count as a whole number of at least 0, with its interval: the exact count is one, so the ends round inwards.

    An interval without such a number says nothing of the count, which may be anything from 0 on.

    >>> whole_count(-1.3, -4.2, 1.6), whole_count(7.6, 5.2, 10.0), whole_count(-7.6, -9.0, -6.2)
    ((0.0, 0.0, 1.0), (8.0, 6.0, 10.0), (0.0, 0.0, inf))
    """
    low, high = max(math.ceil(lower), 0), math.floor(upper)
    if high < low:
        return float(max(round(estimate), 0)), 0.0, math.inf
    return float(min(max(round(estimate), low), high)), float(low), float(high)


def whole_counts(answers: Iterable["Answer"]) -> tuple["Answer", ...]:
    """The same answers with counts as whole numbers of at least 0."""
    counts = []
    for row in answers:
        three = row.estimate, row.lower, row.upper
        if row.statistic in COUNTED and all(map(math.isfinite, three)):
            estimate, lower, upper = whole_count(*three)
            counts.append(row._replace(estimate=estimate, lower=lower, upper=upper))
        else:
            counts.append(row)
    return tuple(counts)


def read_too_noisy(share: object) -> float:
    """The share of an estimate beyond which its interval is too wide."""
    return real("too_noisy", share, above=0, cure="pass a share of the estimate, such as 0.3")


def noisy_answers(answers: Iterable["Answer"], too_noisy: object) -> list[bool]:
    """Which answers are too noisy to publish: their interval is wider than a share of the estimate."""
    share = read_too_noisy(too_noisy)
    return [not row.upper - row.lower <= share * abs(row.estimate) for row in answers]


def answer_columns(
    answers: Sequence["Answer"],
    labels: object = None,
    keys: Iterable[str] = (),
    first: Mapping[str, list[Any]] = MappingProxyType({}),
) -> dict[str, list[Any]]:
    """The answers column by column: statistic, column, one column per key, estimate, lower, upper, std.

    A key that an answer has not is None. Keys of different kinds in one column are texts: engines take one type there.
    """
    words = read_labels(labels, label_columns(answers) if labels else (), named_columns(answers)).keys
    columns: dict[str, list[Any]] = {**first, **{name: [getattr(row, name) for row in answers] for name in FIXED[:2]}}
    for name in dict.fromkeys([*keys, *(name for row in answers for name in row.keys)]):
        cells = [labelled(row.keys[name], _column(name, row), words) if name in row.keys else None for row in answers]
        columns[f"{name}_key" if name in (*FIXED, *first) else name] = _of_one_type(cells)
    numbers = [row.to_dict() for row in answers]
    return columns | {name: [parts[name] for parts in numbers] for name in NUMBERS}


def _of_one_type(keys: list[Any]) -> list[Any]:
    """Keys of one column: as they are, as floats where some are fractions, else as texts."""
    types = {type(key) for key in keys if key is not None}
    if len(types) < 2:
        return keys
    way = float if types == {int, float} else str
    return [None if key is None else way(key) for key in keys]


def _column(name: str, row: "Answer") -> str:
    """The column whose labels a key has: the cell of a histogram is one of its own column."""
    return row.column if name == "cell" and row.statistic == "histogram" else name


def short_table(answers: Sequence["Answer"], head: str, level: float) -> str:
    """The first answers as a text."""
    columns = answer_columns(answers[:_SHOWN])
    words = [
        name for name in columns if name not in NUMBERS and any(value not in ("", None) for value in columns[name])
    ]
    table = [[*words, "estimate", f"{100 * level:.4g}% interval"]]
    for at in range(len(columns["estimate"])):
        estimate, lower, upper = (columns[name][at] for name in NUMBERS[:3])
        ends = f"[{lower:.6g}, {upper:.6g}]"
        keys = (columns[name][at] for name in words)
        table.append([*("" if key is None else str(key) for key in keys), f"{estimate:.6g}", ends])
    more = len(answers) - _SHOWN
    lines = aligned(table, left=len(words))
    return "\n".join([head, *lines, *([f"... and {more} more"] if more > 0 else [])])


_MOST_PANELS = 12


def plot_summary(summary: PlanSummary, ax: "Axes | None" = None) -> "Axes":
    """The expected error of each statistic beside an equal split and its tolerance; of many, the worst forty.

    What is left out is said above the picture.
    """
    lines = sorted(summary.lines, key=lambda line: -line.deviation / (line.tolerance or line.deviation))
    labels = {line.label for line in lines[: figures.MOST_LABELS]}
    shown = [line for line in summary.lines if line.label in labels][: figures.MOST_LABELS]
    axes = figures.new_axes(ax, height=1.4 + 0.24 * len(shown))
    equal = {"equal split": [line.baselines["spr"] for line in shown]}
    deviations, tolerances = [line.deviation for line in shown], [line.tolerance for line in shown]
    figures.compare_errors(axes, [line.label for line in shown], deviations, equal, tolerances)
    if len(shown) < len(lines):
        axes.set_title(f"the {len(shown)} with the largest errors of {len(lines):,}", loc="left")
    return axes


def plot_answers(answers: Iterable["Answer"]) -> "Figure":
    """Estimates with their intervals, one panel per statistic and column, up to twelve panels of forty lines.

    What is left out is said in the title of its panel, and below the figure where whole panels are.
    """
    every = [list(part) for _, part in groupby(answers, key=lambda row: (row.statistic, row.column))]
    parts = every[:_MOST_PANELS]
    longest = max(min(len(part), figures.MOST_LABELS) for part in parts)
    figure = figures.panels(len(parts), height=0.9 + 0.2 * longest)
    for axes, part in zip(figure.axes, parts, strict=True):
        shown = part[: figures.MOST_LABELS]
        title = f"{shown[0].statistic} of {shown[0].column}" if shown[0].column else shown[0].statistic
        title += f", the first {len(shown)} of {len(part):,} numbers" if len(shown) < len(part) else ""
        labels = [row.groups or "all" for row in shown]
        figures.intervals(axes, labels, [(row.estimate, row.lower, row.upper) for row in shown], title)
    if len(parts) < len(every):
        figure.supxlabel(f"the first {len(parts)} of {len(every):,} statistics", fontsize="medium")
    return figure


# Totals of published tables: counts and sums are linear, so that adding up what was released costs nothing.
#
# A total has an interval where its law is known exactly: of independent noises one by one, and of tables that agree by
# their own linear combinations. Else it has none, rather than a wrong one.

_MOST_DIMENSIONS = 2  # of which every row and column has a total; of more, the whole alone


class Total(NamedTuple):
    """A sum over cells; NaN for what is not known of it."""

    estimate: float
    lower: float = float("nan")
    upper: float = float("nan")
    std: float = float("nan")


def with_totals(
    question: "Question", release: "Release", level: float, block: EstimateBlock, *, as_shown: bool = False
) -> EstimateBlock:
    """The same block with totals over its dimensions, where they add up."""
    number = len(block.dimensions)
    if number == 0:
        return block
    sizes = [size for size in range(number) if size == 0 or number <= _MOST_DIMENSIONS]
    totals = {}
    for axes in (axes for size in sizes for axes in combinations(range(number), size)):
        sums = question.totals(release, level, block, axes)
        if sums is None:
            return block
        if as_shown:
            sums = plain_totals(block, axes)
        totals[axes] = tuple(_estimate(block, total) for total in sums)
    return replace(block, totals=totals)


def _estimate(block: EstimateBlock, total: Total) -> Estimate:
    middle, low, high, std = (value if np.isfinite(value) else None for value in total)
    return Estimate(block.statistic, block.column, "", middle, low, high, std)


def plain_totals(block: EstimateBlock, axes: tuple[int, ...]) -> list[Total]:
    """Sums over all dimensions but some, without intervals.

    >>> from inid.report import Dimension
    >>> rows = tuple(Estimate("sum", "age", "", x, None, None, None) for x in (1.0, 2.0, 3.0, 4.0))
    >>> made = EstimateBlock("sum", "age", (Dimension("a", ("0", "1")), Dimension("b", ("0", "1"))), rows)
    >>> [total.estimate for total in plain_totals(made, (0,))], plain_totals(made, ())[0].estimate
    ([3.0, 7.0], 10.0)
    """
    numbers = [np.nan if row.estimate is None else row.estimate for row in block.estimates]
    return [Total(float(value)) for value in _arranged(block, numbers, axes).sum(axis=1)]


def independent_totals(
    block: EstimateBlock, axes: tuple[int, ...], release: "Release", level: float, start: int
) -> list[Total]:
    """The same of numbers that were released one by one, from `start` on, with exact intervals: each has its own noise.

    Gaussian noises add up to a Gaussian one, and of Laplace noises the law of the sum is known (`intervals`). What
    each number was rounded by to the grid of its noise is added.
    """
    if release.plan.blocks:
        return _joint_totals(block, axes, release, level, start)
    unit = 1.0 if release.plan.mechanism == "gaussian" else np.sqrt(2.0)
    scales = _arranged(block, [(row.std or 0.0) / unit for row in block.estimates], axes)
    totals = []
    for total, noise_scales in zip(plain_totals(block, axes), scales, strict=True):
        std = float(np.sqrt(np.sum((unit * noise_scales) ** 2)))
        reach = -float(ndtri((1 - level) / 2)) * std if unit == 1.0 else quantile(noise_scales, level)
        reach += float(np.sum(grid(noise_scales[noise_scales > 0]))) / 2
        totals.append(Total(total.estimate, total.estimate - reach, total.estimate + reach, std))
    return totals


def _joint_totals(
    block: EstimateBlock, axes: tuple[int, ...], release: "Release", level: float, start: int
) -> list[Total]:
    """The same of numbers with staircase noise, by the law of how it was drawn."""
    numbers = _arranged(block, range(start, start + len(block.estimates)), axes).astype(int)
    totals = []
    for total, places in zip(plain_totals(block, axes), numbers, strict=True):
        weights = np.zeros(release.plan.dimension)
        weights[places] = 1.0
        std, reach = float(np.linalg.norm(release.plan.std[places])), half_width(release.plan, weights, level)
        totals.append(Total(total.estimate, total.estimate - reach, total.estimate + reach, std))
    return totals


def _arranged(block: EstimateBlock, numbers: Sequence[float], axes: tuple[int, ...]) -> Floats:
    """Numbers of a block as rows, one for each cell of what is kept."""
    shape = [len(dimension.levels) for dimension in block.dimensions]
    others = [at for at in range(len(shape)) if at not in axes]
    arranged = np.transpose(np.reshape(np.asarray(numbers, dtype=float), shape), [*axes, *others])
    return arranged.reshape(int(np.prod([shape[at] for at in axes], dtype=int)), -1)


# From a question, its plan and its answers to what the report shows.

_FEW, _MANY = 6, 40  # keys that are listed one by one, and those that are listed at all
_RELATIONS = {
    "add_remove": "with or without any one of them",
    "replace": "with any one of them replaced by another",
    "zero_out": "with any one of them adding nothing: 0 to every sum and every count",
}


def as_estimates(answers: Iterable["Answer"]) -> tuple[Estimate, ...]:
    """Answers as plain values; a number that is not finite becomes None."""
    estimates = []
    for row in answers:
        parts = row.to_dict()
        estimates.append(Estimate(**parts | {name: _finite(parts[name]) for name in NUMBERS}))
    return tuple(estimates)


def published_estimates(
    result: "Result", *, tidy: bool = False, integers: bool = False, too_noisy: float | None = None
) -> tuple[Estimate, ...]:
    """The answers as they are published, those that are too noisy marked; see `Result.report`."""
    estimates = as_estimates(result.shown(tidy=tidy, integers=integers))
    if integers:
        estimates = tuple(_whole(one) for one in estimates)
    if too_noisy is None:
        return estimates
    flags = noisy_answers(result.shown(), too_noisy)
    return tuple(replace(one, too_noisy=flag) for one, flag in zip(estimates, flags, strict=True))


def _whole(one: Estimate) -> Estimate:
    """A count that is whole as an integer of Python, so that files say 194 and not 194.0."""
    if one.statistic not in COUNTED:
        return one
    estimate, lower, upper = (None if x is None else int(x) for x in (one.estimate, one.lower, one.upper))
    return replace(one, estimate=estimate, lower=lower, upper=upper)


def report_inputs(result: "Result", page: "PageFacts") -> ReportInputs:
    """Everything that the report of a result shows."""
    question = result.question
    estimates = published_estimates(result, tidy=page.tidy, integers=page.integers, too_noisy=page.too_noisy)
    answers = result.facts
    facts = [("table", page.source), *question.facts(result.plan, result.answers, result.level)]
    return ReportInputs(
        title=page.title,
        plan=page.summary or result.plan.summary(),
        unit=protected_unit(question, page.rows_are),
        question=[(term, text) for term, text in facts if text and (term, text) not in answers],
        columns=question.column_facts(),
        blocks=published_blocks(
            question,
            result.release,
            result.level,
            estimates,
            page.words,
            page.too_noisy,
            as_shown=page.tidy or page.integers or result.drawn is not None,
        ),
        level=result.level,
        time=result.release.time.strftime("%Y-%m-%d %H:%M:%S UTC"),
        private=result.private,
        charge=result.release.charge,
        ledger=page.ledger,
        digest=page.digest,
        too_noisy=page.too_noisy,
        things=things_of(question.person, page.rows_are),
        only="" if question.view.where is None else str(question.view.where),
        answers=answers,
        lead=question.lead,
        sampled=sampling_in_words(result),
        row_limit=question.row_limit,
    )


def published_blocks(
    question: "Question",
    release: "Release",
    level: float,
    estimates: Sequence[Estimate],
    words: Words,
    too_noisy: float | None,
    *,
    as_shown: bool = False,
) -> list[EstimateBlock]:
    """The answers as pages show them, statistic by statistic, with totals and under the names that people use."""
    blocks = []
    for block in question.blocks(estimates, words.keys):
        totalled = with_totals(question, release, level, block, as_shown=as_shown)
        totals = {axes: tuple(marked(row, too_noisy) for row in rows) for axes, rows in totalled.totals.items()}
        called = " and ".join(dict.fromkeys(words.columns.get(name, name) for name in totalled.column.split(",")))
        dimensions = tuple(
            replace(dimension, name=words.columns.get(dimension.name, dimension.name))
            for dimension in totalled.dimensions
        )
        blocks.append(replace(totalled, totals=totals, called=called, dimensions=dimensions))
    return blocks


def marked(row: Estimate, too_noisy: float | None) -> Estimate:
    """The same number, marked where its interval is wider than this share of the estimate."""
    if too_noisy is None or row.estimate is None or row.lower is None or row.upper is None:
        return row
    return replace(row, too_noisy=not row.upper - row.lower <= too_noisy * abs(row.estimate))


def things_of(person: Person | None, rows_are: str | None) -> str:
    """What the rows of a table are: what the user says, or people where each has one row."""
    return rows_are or ("people" if person is not None and person.max_rows == 1 else "rows")


def named_levels(name: str, keys: Iterable[object], labels: KeyLabels, *, drops: bool = False) -> Dimension:
    """A column that groups, with what its keys are called, and whether rows with other ones are left out."""
    return Dimension(name, tuple(key_word(labelled(key, name, labels)) for key in keys), drops=drops)


def view_facts(view: View, used: Iterable[str]) -> list[tuple[str, str]]:
    """Which rows count, and how the columns that are used are computed from others."""
    facts: list[tuple[str, str]] = []
    people = view.people
    if people is not None:
        values = [feature.value for feature in people.features.values() if feature.value is not None]
        facts += view_facts(people.rows, [name for value in values for name, _ in leaves(value)])
        facts += [(f"{name} of each {people.person}", str(one)) for name, one in people.features.items()]
    counted = "rows that count" if people is None else "people that count"
    facts += [] if view.where is None else [(counted, str(view.where))]
    names, waiting = set[str](), list(used)
    waiting += [] if view.where is None else [name for name, _ in leaves(view.where)]
    while waiting:
        name = waiting.pop()
        if name in view.derived and name not in names:
            names.add(name)
            waiting += [inner for inner, _ in leaves(view.derived[name])]
    features = () if people is None else people.features
    derived = [name for name in view.derived if name in names and name not in features]
    return facts + [(f"{name} is computed", str(view.derived[name])) for name in derived]


def other_keys_in_words(other: str) -> str:
    """What becomes of rows with keys that are in no public list."""
    return f"rows with other keys, or none, {'count in a cell of their own' if other == 'cell' else 'are left out'}"


def sampling_in_words(result: "Result") -> str:
    """What intervals hold that cover the sampling error too, and on which condition; empty for those of noise alone."""
    kinds = result.question.sampled_kinds
    if result.drawn is None:
        return ""
    if not kinds:
        return "Each range covers the noise alone: of these numbers no sampling error is known, or there is none."
    counted = any(kind in COUNTED for kind in kinds)
    sums = [word for word, is_asked in (("count", counted), ("sum", "sum" in kinds)) if is_asked]
    means = ["mean"] if "mean" in kinds else []
    aims = [f"the {' or '.join(sums)} that a sample of this size is expected to have"] if sums else []
    aims += ["the mean of the population"] if means else []
    share = f" of {100 * result.drawn:.4g} % of the population" if result.drawn else " of the population"
    others = any(answer.statistic not in kinds for answer in result.answers)
    return (
        f"Each range of a {' or '.join([*sums, *means])} covers the noise and the sampling error: with probability "
        f"about {100 * result.level:.4g} %, it holds {', or '.join(aims)}, if the table is a simple random "
        f"sample{share}.{' Other ranges cover the noise alone.' if others else ''}"
    )


def weights_in_words(weight: tuple[str, float] | None) -> str:
    """What weights do, and the condition on which the promise holds with them; empty without weights."""
    if weight is None:
        return ""
    column, most = weight
    return (
        f"Every row counts with its weight in {column}, held to 0 to {plain_number(most)}. The promise holds for "
        "design weights only: each is a function of the person's own record or of public facts. Calibrated or raked "
        "weights depend on everybody, and void the promise; fit the released numbers to public totals instead, by rake."
    )


def column_facts(
    name: str, kinds: Sequence[str], bounds: Mapping[str, tuple[float, float]], missing: Mapping[str, object]
) -> ColumnFacts:
    """A column that is asked about: its statistics, its bounds, and what a missing value becomes."""
    low, high = bounds.get(name, (None, None))
    limits = "" if low is None or high is None else f"{plain_number(low)} to {plain_number(high)}"
    filled = f"count as {listed_keys([missing[name]])}" if name in missing else "left out"
    return ColumnFacts(name, ", ".join(kinds), limits, filled)


def protection(facts: PublicFacts, when: str = "") -> str:
    """Who is protected, and from what."""
    return f"{protected_unit(facts, when=when)}: results are about equally likely {_RELATIONS[facts.neighbours]}"


def protected_unit(facts: PublicFacts, rows_are: str | None = None, *, when: str = "") -> str:
    """Who is protected, in words; of several periods, in which of them."""
    person = facts.person
    if person is None:
        return (
            "a given person" if rows_are == "people" else f"any one of the {rows_are}" if rows_are else f"one row{when}"
        )
    rows = "one row" if person.max_rows == 1 else f"up to {person.max_rows:,} rows"
    rows = rows if person.contribution is None and facts.view.people is None else "all rows"
    return f"one person ({rows} with the same {person.column}{when})"


def key_word(key: object) -> str:
    """A public key in words."""
    return ("yes" if key else "no") if isinstance(key, bool) else str(key)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def listed_keys(values: Sequence[object]) -> str:
    """Public values in words; of many whole numbers that follow each other the first and the last.

    >>> listed_keys(["F", "M"]), listed_keys(range(116)), listed_keys([True, False])
    ('F, M', '0 to 115', 'yes, no')
    """
    words = [plain_number(value) if isinstance(value, float) else key_word(value) for value in values]
    integers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    if (
        len(words) > _FEW
        and len(integers) == len(words)
        and integers == list(range(integers[0], integers[0] + len(integers)))
    ):
        return f"{words[0]} to {words[-1]}"
    return listed(words, _MANY)
