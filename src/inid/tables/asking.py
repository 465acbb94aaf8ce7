"""What can be asked of a table: `query`, and several under one promise.

The overloads tell editors and type checkers which plan and which result each kind of question has; nothing else here
knows the kinds.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from inid.tables.domains import Marginal
from inid.tables.facts import Categories, Key

if TYPE_CHECKING:
    from inid.tables.publication import Publication
    from inid.tables.query import Query
    from inid.tables.questions.choice import ChoicePlan, ChoiceResult
    from inid.tables.questions.discovery.kind import Discovered, DiscoveryQuery
    from inid.tables.questions.marginals.plan import MarginalsPlan
    from inid.tables.questions.marginals.result import MarginalsResult
    from inid.tables.questions.ordered.plan import OrderedPlan
    from inid.tables.questions.statistics.kind import StatisticsQuery
    from inid.tables.questions.synthetic.plan import SyntheticPlan
    from inid.tables.questions.synthetic.result import SyntheticResult
    from inid.tables.result import Result
    from inid.tables.table import Table

__all__ = ["Asking"]

ByTables = Mapping[str, int | Sequence[Marginal]]  # for each column the tables by which it is asked
Groupings = Mapping[str, Sequence[Marginal]]
Keys = Mapping[str, Sequence[Key]]


class Asking:
    """The two methods of a table that make queries."""

    @overload
    def query(
        self,
        *,
        marginals: int | Sequence[Marginal],
        count: bool | Sequence[Marginal] = ...,
        sum: ByTables = ...,
        mean: ByTables = ...,
    ) -> "Query[MarginalsPlan, MarginalsResult]": ...
    @overload
    def query(
        self, *, count: Sequence[Marginal], sum: ByTables = ..., mean: ByTables = ...
    ) -> "Query[MarginalsPlan, MarginalsResult]": ...
    @overload
    def query(
        self,
        *,
        quantile: Mapping[str, Sequence[float]],
        cdf: Groupings = ...,
        cumulative: Groupings = ...,
        by: Keys = ...,
    ) -> "Query[OrderedPlan, Result]": ...
    @overload
    def query(self, *, cdf: Groupings, cumulative: Groupings = ..., by: Keys = ...) -> "Query[OrderedPlan, Result]": ...
    @overload
    def query(self, *, cumulative: Groupings, by: Keys = ...) -> "Query[OrderedPlan, Result]": ...
    @overload
    def query(
        self, *, choose: Keys, count: bool = ..., count_distinct: bool = ...
    ) -> "Query[ChoicePlan, ChoiceResult]": ...
    @overload
    def query(
        self, *, by: "Mapping[str, Discovered]", count: bool = ..., count_distinct: bool = ...
    ) -> "DiscoveryQuery": ...
    @overload
    def query(
        self,
        *,
        synthetic: Literal[True] | Sequence[str],
        target: str | None = ...,
        weights: Mapping[tuple[str, ...], float] | None = ...,
    ) -> "Query[SyntheticPlan, SyntheticResult]": ...
    @overload
    def query(
        self,
        *,
        count: bool = ...,
        count_distinct: bool = ...,
        sum: Sequence[str] = ...,
        mean: Sequence[str] = ...,
        variance: Sequence[str] = ...,
        std: Sequence[str] = ...,
        covariance: Sequence[str] = ...,
        histogram: Mapping[str, Sequence[float | str] | Categories] = ...,
        by: Keys | None = ...,
    ) -> "StatisticsQuery": ...
    @overload
    def query(
        self,
        *,
        count: bool | Sequence[Marginal] = ...,
        count_distinct: bool = ...,
        sum: Sequence[str] | ByTables | None = ...,
        mean: Sequence[str] | ByTables | None = ...,
        variance: Sequence[str] = ...,
        std: Sequence[str] = ...,
        covariance: Sequence[str] = ...,
        histogram: Mapping[str, Sequence[float | str] | Categories] | None = ...,
        by: Mapping[str, Any] | None = ...,
        marginals: int | Sequence[Marginal] | None = ...,
        cdf: Mapping[str, Sequence[Marginal]] | None = ...,
        quantile: Mapping[str, Sequence[float]] | None = ...,
        cumulative: Mapping[str, Sequence[Marginal]] | None = ...,
        choose: Mapping[str, Sequence[Key]] | None = ...,
        synthetic: bool | Sequence[str] = ...,
        target: str | None = ...,
        weights: Mapping[tuple[str, ...], float] | None = ...,
        **others: Any,
    ) -> "Query[Any, Any]": ...
    def query(
        self,
        *,
        count: bool | Sequence[Marginal] = False,
        count_distinct: bool = False,
        sum: Sequence[str] | ByTables | None = (),  # noqa: A002 - what users look for
        mean: Sequence[str] | ByTables | None = (),
        variance: Sequence[str] = (),
        std: Sequence[str] = (),
        covariance: Sequence[str] = (),
        histogram: Mapping[str, Sequence[float | str] | Categories] | None = None,
        by: Mapping[str, Any] | None = None,
        marginals: int | Sequence[Marginal] | None = None,
        cdf: Mapping[str, Sequence[Marginal]] | None = None,
        quantile: Mapping[str, Sequence[float]] | None = None,
        cumulative: Mapping[str, Sequence[Marginal]] | None = None,
        choose: Mapping[str, Sequence[Key]] | None = None,
        synthetic: bool | Sequence[str] = False,
        target: str | None = None,
        weights: Mapping[tuple[str, ...], float] | None = None,
        **others: Any,
    ) -> "Query[Any, Any]":
        """Ask for statistics, any number together; they share sums and one promise. Nothing is computed yet.

        Args:
            count: The number of rows; or several groupings, [("sex",), ("sex", "education")], the same as `marginals`.
            count_distinct: The number of people, with a `Person`: each counts once, and by groups once in each group
                where they have a row.
            sum: Columns to add up; or several groupings by column, {"income": [("sex",), ("region", "sex")]}.
            mean: Columns to average; or several groupings by column.
            variance: Columns whose variance (mean square distance from the mean) is asked for.
            std: Columns whose standard deviation is asked for.
            covariance: Columns whose covariance matrix is asked for, from rows that have all of them.
            histogram: Per column the edges of public bins, or a list of public categories (numbers: `Categories`).
                Values outside all bins are not counted.
            by: Per column its public keys: every statistic is given for each combination of them, also those without
                rows. Rows with other keys are left out. `tables.discover(...)` instead of keys finds those of a column.
            marginals: Tables of counts over columns with a domain, [("sex", "age"), ("race",)], or a number k for all
                tables over k of them. They share one promise with the least noise, together with means and sums by
                several groupings, and agree with each other. Not together with other statistics.
            cdf: Per column with bounds, or with `Ordered` values, the groupings by which its distribution function is
                asked for: {"age": [(), ("sex",)]}. Columns that group have a domain, or keys in `by`.
            quantile: Per such column the probabilities of its quantiles, {"age": [0.1, 0.5, 0.9]}, in each grouping of
                its `cdf`, else in the groups of `by`.
            cumulative: Like `cdf`, for running totals in rows: {"date": [("shop",)]}. These three are a query of their
                own: one set of noisy prefixes serves them.
            choose: Per column its public keys: which group has the most rows, or with `count_distinct` the most people.
                The group alone is released; see `tables.choose`.
            synthetic: True for rows like those of the table, of all columns with public keys or bins; or a list of
                them. A query of its own.
            target: The column that models of synthetic rows will predict: tables with it are wanted four times as well.
            weights: The same for single pairs of columns, {("age", "income"): 4}, or for a column's own table,
                {("income",): 8}, which is measured again where few pairs are worth their noise.
            others: What a kind of question is asked by that was registered elsewhere.

        Returns:
            The query, to be planned and released.

        Raises:
            ArgumentError: A column is unknown or has no bounds, keys or edges are malformed, or nothing is asked for.

        >>> import pandas
        >>> from inid.tables import Table
        >>> t = Table(pandas.DataFrame({"age": [31, 44], "sex": ["F", "M"]}), bounds={"age": (0, 100)})
        >>> t.query(histogram={"age": [0, 50, 100]}, by={"sex": ["F", "M"]}).labels[:2]
        ('histogram(age)[sex=F, age=[0, 50)]', 'histogram(age)[sex=F, age=[50, 100]]')
        """
        from inid.tables.query import ask

        asked: dict[str, object] = {"count": count, "count_distinct": count_distinct, "sum": sum, "mean": mean}
        asked |= {"variance": variance, "std": std, "covariance": covariance, "marginals": marginals}
        grouped = {"histogram": histogram, "by": by, "cdf": cdf, "quantile": quantile, "cumulative": cumulative}
        asked |= {name: value or None for name, value in (grouped | {"choose": choose}).items()}
        asked |= {"synthetic": synthetic, "target": target, "weights": weights or None}
        return ask(cast("Table", self), asked | others)

    def publication(self, **asked: "Mapping[str, object] | Query[Any, Any]") -> "Publication":
        """Several queries of this table under one promise: each a query, or a dictionary of what `query` takes.

        >>> import pandas
        >>> from inid.tables import Table
        >>> t = Table(pandas.DataFrame({"age": [31, 44], "sex": ["F", "M"]}), bounds={"age": (0, 100)})
        >>> list(t.publication(people={"count": True}, ages=t.where("sex == 'F'").query(mean=["age"])).queries)
        ['people', 'ages']
        """
        from inid.tables.publication import Publication
        from inid.tables.publication.publication import queries_of

        return Publication(**queries_of(cast("Table", self), asked))
