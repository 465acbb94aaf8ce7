"""Private tables: counts, sums, means, variances, covariances and histograms of any engine's frame, many at once.

Start reading in `table` (the public facts) and `query` (the one way to plan and release whatever is asked). What
can be asked stands in `questions`, one file or folder for each kind; what an engine does in its own way stands in its
file of `engines`.

>>> import inid, pandas
>>> from inid import tables
>>> frame = pandas.DataFrame({"age": [31.0, 44.0, 58.0], "sex": ["F", "M", "F"]})
>>> t = tables.Table(frame, bounds={"age": (0, 100)})
>>> q = t.query(count=True, mean=["age"], by={"sex": ["F", "M"]})
>>> plan = q.plan(inid.ApproxDP(epsilon=1.0, delta=1e-6))
>>> q.release(plan).frame.columns.tolist()
['statistic', 'column', 'sex', 'estimate', 'lower', 'upper', 'std', 'scale']
"""

import warnings
from importlib import import_module
from typing import Any

from inid.tables.bounds_estimation import estimate_bounds
from inid.tables.domains import Ordered
from inid.tables.engines import EngineError
from inid.tables.engines.sql.addresses import database_table
from inid.tables.expression_text import expression
from inid.tables.expressions import Condition, Expression, col, maximum, minimum, when
from inid.tables.facts import Categories, Person
from inid.tables.plan import Plan
from inid.tables.publication import Publication, PublicationPlan, PublicationResult
from inid.tables.query import Query
from inid.tables.questions.choice import choose
from inid.tables.questions.discovery.kind import discover
from inid.tables.questions.synthetic.stored_rows import synthetic_rows
from inid.tables.result import Result, Row
from inid.tables.streams.plan import StreamPlan, plan_stream
from inid.tables.streams.stream import Stream
from inid.tables.table import Table
from inid.tables.verification import verify_result

__all__ = [
    "Categories",
    "Condition",
    "EngineError",
    "Expression",
    "Ordered",
    "Person",
    "Plan",
    "Publication",
    "PublicationPlan",
    "PublicationResult",
    "Query",
    "Result",
    "Row",
    "Stream",
    "StreamPlan",
    "Table",
    "choose",
    "col",
    "database_table",
    "discover",
    "estimate_bounds",
    "expression",
    "maximum",
    "minimum",
    "plan_stream",
    "synthetic_rows",
    "verify_result",
    "when",
]

# Names of 0.2 that users need not write: where each stands now, and what it is called there.
_EARLIER = {
    "Choice": "questions.choice",
    "ChoicePlan": "questions.choice",
    "ChoiceQuery": "query.Query",
    "ChoiceQuestion": "questions.choice",
    "ChoiceResult": "questions.choice",
    "Combination": "questions.marginals.combinations",
    "Discovered": "questions.discovery.kind",
    "DiscoveryPlan": "questions.discovery.plan",
    "DiscoveryQuery": "questions.discovery.kind",
    "DiscoveryQuestion": "questions.discovery.kind.Discovery",
    "DiscoveryResult": "questions.discovery.result",
    "EstimatedBounds": "bounds_estimation",
    "MarginalPlan": "questions.marginals.plan",
    "MarginalsAccuracy": "questions.marginals.accuracy_first",
    "MarginalsPlan": "questions.marginals.plan",
    "MarginalsQuery": "query.Query",
    "MarginalsQuestion": "questions.marginals.kind.Marginals",
    "MarginalsResult": "questions.marginals.result",
    "OrderedPlan": "questions.ordered.plan",
    "OrderedQuery": "query.Query",
    "OrderedQuestion": "questions.ordered.kind.OrderedColumns",
    "OrderedResult": "result.Result",
    "OrderedTable": "questions.ordered.question",
    "OrderedTablePlan": "questions.ordered.plan",
    "Question": "questions.statistics.kind.Statistics",
    "StatisticPlan": "questions.statistics.plan",
    "TableAccuracy": "questions.statistics.plan",
    "TablePlan": "questions.statistics.plan",
    "choice_query": "questions.choice",
}


def __getattr__(name: str) -> Any:
    if name not in _EARLIER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    *module, last = _EARLIER[name].split(".")
    now = last if last[0].isupper() else name
    path = ".".join([__name__, *module, *([] if now == last else [last])])
    instead = "table.query(choose=...)" if name == "choice_query" else f"{now} of {path}, or what returns it"
    warnings.warn(f"tables.{name} is deprecated: use {instead}.", DeprecationWarning, stacklevel=2)
    return getattr(import_module(path), now)
