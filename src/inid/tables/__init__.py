"""Private tables: counts, sums, means, variances, covariances and histograms of any engine's frame, many at once.

Start reading in `table` (the public facts) and `query` (the one way to plan and release whatever is asked). What
can be asked stands in `questions`, one file or folder for each kind; what an engine does in its own way stands in its
file of `engines`.

>>> import inid, pandas
>>> from inid import tables
>>> frame = pandas.DataFrame({"age": [31.0, 44.0, 58.0], "sex": ["F", "M", "F"]})
>>> t = tables.Table(frame, bounds={"age": (0, 100)})
>>> q = t.statistics(count=True, mean=["age"], by={"sex": ["F", "M"]})
>>> plan = q.plan(inid.ApproxDP(epsilon=1.0, delta=1e-6))
>>> q.release(plan).frame.columns.tolist()
['statistic', 'column', 'sex', 'estimate', 'lower', 'upper', 'std']
"""

from inid.tables.aggregation import (
    Aggregation,
    FoundKeys,
    GridKeys,
    Grouping,
    Inside,
    Pair,
    People,
    PublicKeys,
    Rows,
    Value,
)
from inid.tables.bounds_estimation import estimate_bounds, log_edges
from inid.tables.engines import EngineError
from inid.tables.engines.sql.addresses import database_table
from inid.tables.error_targets import ErrorTargets, equal_errors, targets_of, worse_numbers
from inid.tables.expressions import (
    Condition,
    Expression,
    col,
    expression,
    functional_dependency,
    maximum,
    minimum,
    when,
)
from inid.tables.facts import Bins, Categories, Ordered, Person, Private, read_bounds, read_keys
from inid.tables.intervals import clipped_ends, gaussian_ends, quantile, quantile_of_two, searched_ends, tail_of_two
from inid.tables.person_features import Feature, any, count, max, mean, min, same, sum  # noqa: A004 - what users look for
from inid.tables.plan import Plan, PlanOfSteps
from inid.tables.presentation import Words, as_estimates, published_blocks, published_estimates, report_inputs
from inid.tables.publication import Publication, PublicationPlan, PublicationResult
from inid.tables.query import Query, ask, drawn_steps
from inid.tables.question import Question
from inid.tables.raking import rake
from inid.tables.result import SLACK, Answer, PageFacts, Result, record_digest
from inid.tables.streams.plan import StreamPlan, plan_stream
from inid.tables.streams.stream import Stream
from inid.tables.table import Asking, Table
from inid.tables.verification import proved, synthetic_rows, verify_publication, verify_result
from inid.tables.view import View, parsing, read_condition, read_formula

__all__ = [
    "Answer",
    "Categories",
    "Condition",
    "EngineError",
    "Expression",
    "Feature",
    "Ordered",
    "Person",
    "Plan",
    "Private",
    "Publication",
    "PublicationPlan",
    "PublicationResult",
    "Query",
    "Result",
    "Stream",
    "StreamPlan",
    "Table",
    "any",
    "ask",
    "col",
    "count",
    "database_table",
    "estimate_bounds",
    "expression",
    "functional_dependency",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "plan_stream",
    "rake",
    "same",
    "sum",
    "synthetic_rows",
    "verify_result",
    "when",
]
