"""What a table of the page shows, in words: its title, and what stands above its numbers."""

from inid.report.inputs import EstimateBlock
from inid.report.number_text import Digits, digits_for

__all__ = ["COUNTED", "OTHER", "block_title", "digits_of", "headings", "value_word"]

COUNTED = ("count", "count_distinct", "histogram")
OTHER = "(other)"  # what stands for keys in no public list
_WORDS = {
    "count": "Number of {things}",
    "count_distinct": "Number of people",
    "histogram": "Number of {things}",
    "cumulative": "Number of {things} up to a value",
    "cdf": "Share of {things} up to a value",
    "sum": "Sum",
    "mean": "Mean",
    "variance": "Variance",
    "std": "Standard deviation",
    "covariance": "Covariance",
    "quantile": "Quantiles",
}


def block_title(block: EstimateBlock, things: str = "rows") -> str:
    """What a block shows, in words.

    Args:
        block: A statistic in all its groups.
        things: What the rows of the table are.

    >>> block_title(EstimateBlock("mean", "age", (), ()))
    'Mean of age'
    >>> from inid.report import Dimension
    >>> block_title(EstimateBlock("quantile", "age", (Dimension("share", ("50 % (median)",)),), ()))
    'Median of age'
    """
    dimensions = block.dimensions[1:] if block.span else block.dimensions
    if block.statistic in ("cdf", "cumulative", "quantile"):
        dimensions = dimensions[:-1]  # the values themselves
    by = " and ".join(dimension.heading for dimension in dimensions)
    subject = _subject(block, things) + (f" {block.span}" if block.span else "")
    return f"{subject}{',' if ',' in subject else ''} by {by}" if by else subject  # "Mean of income, euros, by sex"


def _subject(block: EstimateBlock, things: str) -> str:
    if block.statistic == "combination":
        return block.column
    name = _WORDS.get(block.statistic, block.statistic).format(things=things)
    if block.statistic == "quantile" and _is_median(block):
        name = "Median"
    columns = block.called or " and ".join(dict.fromkeys(block.column.split(",")))
    return name if block.statistic in COUNTED or not block.column else f"{name} of {columns}"


def _is_median(block: EstimateBlock) -> bool:
    return bool(block.dimensions) and all(level.endswith("(median)") for level in block.dimensions[-1].levels)


def value_word(block: EstimateBlock, things: str) -> str:
    """What stands above the numbers of a block.

    >>> value_word(EstimateBlock("count", "", (), ()), "people"), value_word(EstimateBlock("mean", "age", (), ()), "")
    ('people', 'mean')
    """
    if block.statistic == "count_distinct":
        return "people"
    if block.statistic in (*COUNTED, "cumulative"):
        return things
    return {"cdf": "share", "quantile": "value"}.get(block.statistic, block.statistic)


def headings(block: EstimateBlock, things: str) -> list[str]:
    """What stands above the keys of a block.

    >>> from inid.report import Dimension
    >>> headings(EstimateBlock("quantile", "age", (Dimension("share", ("50 %",)),), ()), "people")
    ['share of people up to the value']
    """
    found = [dimension.heading for dimension in block.dimensions]
    return [*found[:-1], f"share of {things} up to the value"] if block.statistic == "quantile" else found


def digits_of(block: EstimateBlock) -> Digits:
    """How the numbers of a block are printed."""
    rows = [(row.estimate, row.lower, row.upper) for row in block.estimates]
    kind = block.statistic
    return digits_for(rows, whole=kind in (*COUNTED, "cumulative"), percent=kind == "cdf", levels=kind == "quantile")
