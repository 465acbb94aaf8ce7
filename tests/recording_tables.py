"""What tables answered before: plans, exact numbers, rows, records, files and refusals of every kind of question.

`python tests/recording.py` writes them anew, beside the other answers. Every engine is held to the same record.
"""

import json
import re
import tempfile
from hashlib import sha256
from pathlib import Path

import polars as pl

import inid
import recorded_tables as asked
from inid import testing
from inid.jobs import as_csv
from inid.noise import source_in_use
from inid.tables import published_estimates

__all__ = ["RECORDS", "answers_of_case", "command_record", "exact_numbers", "files_of", "job_files", "refused", "trace"]

RECORDS = Path(__file__).parent / "records"
_SEED = 7
_MOST = 40
_TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:\+00:00| UTC)?)?|\d\d? [A-Z][a-z]+ \d{4}, \d\d:\d\d UTC"
)
_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


def exact_numbers(query, plan):
    """The numbers before noise; of found keys, each with its count."""
    question = query.question
    if question.kind == "partition_selection":
        return dict(sorted(query.exact_counts().items()))
    if question.kind == "largest_group":
        counts = query.table.statistics(count=not question.people, count_distinct=question.people, by=question.by)
        return counts.exact_sums().tolist()
    values = query.exact_sums() if question.kind == "statistics" else query.exact(plan)
    return _shortened(values.tolist())


def _shortened(numbers):
    """Whole numbers (times powers of two), which every machine has bit for bit; of many, a digest."""
    if len(numbers) <= _MOST:
        return numbers
    return {"numbers": len(numbers), "digest": sha256(json.dumps(numbers).encode()).hexdigest()}


def answers_of_case(case, data):
    """Plan, exact numbers and rows of one case."""
    kind, relation, people, variant, promise, options = case
    try:
        query = asked.question_of(kind, data, relation, people=people, variant=variant)
        plan = query.plan(asked.PROMISES[promise], **options)
    except inid.InidError as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    with testing.unsafe_seed(_SEED):
        result = query.release(plan)
    return {
        "text": str(plan),
        "plan": plan.to_dict(),
        "exact": exact_numbers(query, plan),
        "answers": [row.to_dict() for row in result.answers],
        "columns": list(result.frame.columns),
    }


def without_time(text):
    """A text without what changes with the clock: times, and digests of what holds one; pages without their style."""
    return _DIGEST.sub("DIGEST", _TIME.sub("TIME", _STYLE.sub("<style></style>", text)))


def files_of(kind, data, folder):
    """The texts of one release by Python: answers as CSV, record, report."""
    query = asked.question_of(kind, data, "add_remove", people=False)
    plan = query.plan(asked.PROMISES["approx"])
    with testing.unsafe_seed(_SEED):
        result = query.release(plan)
    result.report(folder / "page.html", title="A release")
    texts = {
        "csv": as_csv(published_estimates(result)),
        "json": _as_json(result.to_dict()),
        "html": (folder / "page.html").read_text(encoding="utf-8"),
        "txt": f"{plan}\n\n{result}\n",
    }
    return {ending: without_time(text) for ending, text in texts.items()}


_FACTS = "--bounds age=0:100,income=-50:3000 --domains place=1:4 --domains flag=false,true --rows 300"
_COMMANDS = {
    "statistics": "--count --mean age,income --histogram age=0,30,60,100 --by sex=F,M --tolerance age=2",
    "marginals": (
        "--domains sex=F,M --marginals sex,place --mean 'income by flag' --combine 'gap=count(place=1)-count(place=2)'"
    ),
    "prefix_sums": "--quantile age=0.25,0.5 --cdf place",
    "partition_selection": "--discover shop --discover-delta 1e-8",
    "largest_group": "--choose place=1,2,3,4",
}


def job_files(kind, folder, run):
    """The texts of one release by the command: answers, record, report, and what `--json` prints beside the record."""
    with testing.unsafe_seed(_SEED):
        texts, printed = _released(kind, folder, run)
    held = _as_printed(json.loads(texts["json"]))
    if {key: value for key, value in printed.items() if key in held} != held:
        raise AssertionError("--json prints another record than --record writes")
    texts["txt"] = _as_json({key: value for key, value in printed.items() if key not in held})
    return {ending: without_time(text).replace(str(folder), "FOLDER") for ending, text in texts.items()}


def _as_printed(record):
    """What a record holds, as `--json` has printed it since 0.2: its rows are the results, its release at the top."""
    apart = {"results": record["answers"]} if "answers" in record else {}
    kept = {key: value for key, value in record.items() if key not in ("answers", "release")}
    return kept | apart | record["release"]


def command_record(kind, folder, run):
    """The record of one release by the command, with real noise."""
    return json.loads(_released(kind, folder, run)[0]["json"])


def _released(kind, folder, run):
    """The files of one release by the command, and what it prints."""
    table = asked.in_engine("csv", folder)
    paths = {ending: folder / f"job.{ending}" for ending in ("csv", "json", "html")}
    files = f"--out {paths['csv']} --record {paths['json']} --report {paths['html']}"
    facts = "" if kind in ("partition_selection", "largest_group") else _FACTS
    line = f"release {table} {facts} {_COMMANDS[kind]} --epsilon 1 --delta 1e-6 {files} --json"
    made = run(line)
    if made.exit_code:
        raise AssertionError(made.output)
    return {ending: path.read_text(encoding="utf-8") for ending, path in paths.items()}, json.loads(made.stdout)


class _Watched(testing.SeededSource):
    """A seeded source that notes when it is first used."""

    def __init__(self, events):
        super().__init__(_SEED)
        self._events = events

    def words(self, count):
        self._events.append("draw")
        return super().words(count)


class WatchedLedger(inid.Ledger):
    """A ledger in memory that notes when its unit is looked at, and when it is charged with what."""

    def __init__(self, events):
        object.__setattr__(self, "events", events)
        super().__init__(total=inid.ApproxDP(8.0, 1e-3), reserve=1e-4)

    @property
    def unit(self):
        self.events.append("unit")
        return super().unit

    def charge(self, plan, **arguments):
        receipt = super().charge(plan, **arguments)
        self.events.append("charge")
        return receipt


def trace(kind):
    """What a release does, in order: the ledger's unit is checked, it is charged, rows are read, noise is drawn."""
    events = []

    def read(frame):
        events.append("read")
        return frame

    data = pl.DataFrame(asked.COLUMNS).lazy().map_batches(read, schema=None, streamable=False)
    query = asked.question_of(kind, data, "add_remove", people=False)
    plan = query.plan(asked.PROMISES["approx"])
    ledger = WatchedLedger(events)
    events.clear()
    with source_in_use(_Watched(events)):
        query.release(plan, ledger, label="traced")
    (charged,) = ledger.history()
    kept = [event for at, event in enumerate(events) if at == 0 or events[at - 1] != event]
    cost = {currency: None if amount is None else float(amount) for currency, amount in charged.cost.amounts}
    return {"order": kept, "label": charged.label, "cost": cost, "delta": str(charged.delta_taken)}


def refused(data):
    """The kind and the text of every refusal; none may come after a charge."""
    events = []
    ledger = WatchedLedger(events)
    found = {}
    for name, call in asked.refusals(ledger).items():
        try:
            call(data)
        except inid.InidError as error:
            found[name] = f"{type(error).__name__}: {error}"
        else:
            raise AssertionError(f"{name} is not refused")
    if "charge" in events:
        raise AssertionError("a refusal came after a charge")
    return found


def _as_json(record):
    return json.dumps(record, indent=1, allow_nan=False) + "\n"


def write(run):
    """Write the record of tables anew."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = asked.in_engine("pandas", folder)
        record = {
            "cases": {title: answers_of_case(case, data) for title, case in asked.cases().items()},
            "refusals": refused(data),
            "traces": {kind: trace(kind) for kind in asked.KINDS},
        }
        (RECORDS / "tables.json").write_text(json.dumps(record, indent=0, sort_keys=True) + "\n")
        for kind in asked.KINDS:
            for source, texts in (("python", files_of(kind, data, folder)), ("command", job_files(kind, folder, run))):
                for ending, text in texts.items():
                    path = RECORDS / "releases" / f"{kind}_{source}.{ending}"
                    path.parent.mkdir(exist_ok=True)
                    path.write_text(text, encoding="utf-8")
