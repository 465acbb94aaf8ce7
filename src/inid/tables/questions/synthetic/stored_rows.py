"""Synthetic rows from a record: they follow from released numbers, so that neither the table nor budget is needed."""

from collections.abc import Mapping
from typing import Any

from inid.errors import ArgumentError, Words
from inid.tables.engines.made_columns import arrow_rows
from inid.tables.publication.record import is_publication, verify_publication
from inid.tables.questions.synthetic.kind import SyntheticRows
from inid.tables.questions.synthetic.row_maker import Progress, RowMaker
from inid.tables.verification import proved

__all__ = ["synthetic_rows"]


def synthetic_rows(record: Mapping[str, Any], n: int | None = None, *, progress: Progress = None) -> Any:
    """Rows of a release of synthetic rows, made again of its record, which is proved first.

    Args:
        record: `result.to_dict()`, or what `inid release --record` wrote; that of a publication with one such query,
            too.
        n: How many rows; the noisy number of rows of the table by default.
        progress: Called with the part that is done; True for a line on stderr, which a terminal gets by default.

    Returns:
        A PyArrow table.

    Raises:
        ArgumentError: The record is of another question, or n is no number of rows.
        RecordError: See `verify_result`.
        GuaranteeError: See `verify_result`.

    >>> import inid, pandas
    >>> frame = pandas.DataFrame({"sex": ["F", "M"] * 50, "smokes": [True, False, False, True] * 25})
    >>> t = inid.tables.Table(frame, domains={"sex": ["F", "M"], "smokes": [False, True]}, other="drop")
    >>> q = t.query(synthetic=True)
    >>> record = q.release(q.plan(inid.ApproxDP(1.0, 1e-6))).to_dict()
    >>> synthetic_rows(record, 3).shape
    (3, 2)
    """
    if is_publication(record):
        verify_publication(record)
        own = [part for part in record["results"].values() if part.get("kind") == SyntheticRows.kind]
        if len(own) != 1:
            raise ArgumentError(
                f"the publication has {len(own)} queries of synthetic rows: pass record['results'][...] of one of "
                "them.",
                code="rows_of_several",
                number=Words(str(len(own))),
            )
        (record,) = own
    if record.get("kind") != SyntheticRows.kind:
        raise ArgumentError(
            "the record is not of synthetic rows: name one that query(synthetic=True) released.", code="rows_of_none"
        )
    found = proved(record)
    assert isinstance(found.question, SyntheticRows)  # noqa: S101 - as the record says
    *earlier, last = found.releases
    maker = RowMaker(found.question.columns, found.question.measured(last, earlier))
    return arrow_rows(maker.rows(n, progress))
