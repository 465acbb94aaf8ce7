"""Private tables: counts, sums, means, variances, covariances and histograms of any engine's frame, many at once.

Start reading in `table` (the public facts) and `releasable` (the one way to plan and release whatever is asked). What
can be asked stands in `questions`, one file or folder for each kind; what an engine does in its own way stands in its
file of `engines`.

>>> import inid, pandas
>>> from inid import tables
>>> frame = pandas.DataFrame({"age": [31.0, 44.0, 58.0], "sex": ["F", "M", "F"]})
>>> t = tables.Table(frame, bounds={"age": (0, 100)})
>>> q = t.query(count=True, mean=["age"], by={"sex": ["F", "M"]})
>>> plan = q.plan(inid.ApproxDP(epsilon=1.0, delta=1e-6))
>>> q.release(plan).frame.columns.tolist()
['statistic', 'column', 'sex', 'estimate', 'lower', 'upper', 'scale']
"""

from inid.tables.bounds_estimation import EstimatedBounds, estimate_bounds
from inid.tables.domains import Ordered
from inid.tables.engines import EngineError
from inid.tables.expression_text import expression
from inid.tables.expressions import Condition, Expression, col, maximum, minimum, when
from inid.tables.facts import Categories, Person
from inid.tables.publication import Publication, PublicationPlan, PublicationResult
from inid.tables.published import Row
from inid.tables.questions.choice import ChoicePlan, ChoiceQuery, ChoiceQuestion, ChoiceResult, choice_query
from inid.tables.questions.choosing import Choice, choose
from inid.tables.questions.discovery.plan import DiscoveryPlan
from inid.tables.questions.discovery.query import DiscoveryQuery
from inid.tables.questions.discovery.question import DiscoveryQuestion
from inid.tables.questions.discovery.request import Discovered, discover
from inid.tables.questions.discovery.result import DiscoveryResult
from inid.tables.questions.marginals.accuracy_first import MarginalsAccuracy
from inid.tables.questions.marginals.plan import MarginalPlan, MarginalsPlan
from inid.tables.questions.marginals.query import MarginalsQuery
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.result import Combination, MarginalsResult
from inid.tables.questions.ordered.plan import OrderedPlan, OrderedTablePlan
from inid.tables.questions.ordered.query import OrderedQuery
from inid.tables.questions.ordered.question import OrderedQuestion, OrderedTable
from inid.tables.questions.ordered.result import OrderedResult
from inid.tables.questions.statistics.plan import StatisticPlan, TableAccuracy, TablePlan
from inid.tables.questions.statistics.query import Query
from inid.tables.questions.statistics.question import Question
from inid.tables.questions.statistics.result import Result
from inid.tables.streams.plan import StreamPlan, plan_stream
from inid.tables.streams.stream import Stream
from inid.tables.table import Table
from inid.tables.verification import verify_result

__all__ = [
    "Categories",
    "Choice",
    "ChoicePlan",
    "ChoiceQuery",
    "ChoiceQuestion",
    "ChoiceResult",
    "Combination",
    "Condition",
    "Discovered",
    "DiscoveryPlan",
    "DiscoveryQuery",
    "DiscoveryQuestion",
    "DiscoveryResult",
    "EngineError",
    "EstimatedBounds",
    "Expression",
    "MarginalPlan",
    "MarginalsAccuracy",
    "MarginalsPlan",
    "MarginalsQuery",
    "MarginalsQuestion",
    "MarginalsResult",
    "Ordered",
    "OrderedPlan",
    "OrderedQuery",
    "OrderedQuestion",
    "OrderedResult",
    "OrderedTable",
    "OrderedTablePlan",
    "Person",
    "Publication",
    "PublicationPlan",
    "PublicationResult",
    "Query",
    "Question",
    "Result",
    "Row",
    "StatisticPlan",
    "Stream",
    "StreamPlan",
    "Table",
    "TableAccuracy",
    "TablePlan",
    "choice_query",
    "choose",
    "col",
    "discover",
    "estimate_bounds",
    "expression",
    "maximum",
    "minimum",
    "plan_stream",
    "verify_result",
    "when",
]
