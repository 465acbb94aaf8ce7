"""How noisy the tables are that nobody asked for, but that are inside asked ones and come with them (M3)."""

import numpy as np

from inid.tables.questions.marginals.basis import Floats
from inid.tables.questions.marginals.question import MarginalsQuestion
from inid.tables.questions.marginals.table_statistics import StatisticKind, TableStatistic
from inid.tables.questions.marginals.workload import Workload, workload_of

__all__ = ["largest_inside"]


def largest_inside(question: MarginalsQuestion, s: Floats) -> dict[str, dict[int, float]]:
    """Of each statistic, by the number of columns, the largest std by a table that is only inside an asked one.

    The tables inside asked ones are those over the attributes of a block.

    Args:
        question: What is asked.
        s: s_B of every block.
    """
    work = question.workload
    variances = work.of_blocks.table_variances(s)
    found = {}
    for kind, column, tables in question.asked_tables:
        own = workload_of(work.sizes, [*map(question.numbers, tables)]) if question.summed else work
        widths = own.widths(own.blocks)
        only_inside = np.ones(widths.size, dtype=bool)
        only_inside[own.block_of[widths[own.block_of] == own.widths(own.tables)[own.table_of]]] = False
        stds = np.sqrt(_variances(question, kind, column, own, variances))
        largest = {
            width: float(stds[only_inside & (widths == width)].max())
            for width in dict.fromkeys(widths[only_inside].tolist())
        }
        if largest:
            found[TableStatistic(kind, column, ()).name] = largest
    return found


def _variances(
    question: MarginalsQuestion, kind: StatisticKind, column: str, own: Workload, variances: Floats
) -> Floats:
    """Of a statistic by the tables over the blocks of `own`; `variances` are of those over the blocks of a question."""
    # What a statistic is made of depends on its table through the number of cells alone.
    _, first, which = np.unique(own.of_blocks.cells, return_index=True, return_inverse=True)
    tables = [tuple(question.columns[i] for i in own.attributes(block)) for block in first.tolist()]
    parts = [dict(question.parts(TableStatistic(kind, column, table))) for table in tables]
    found = np.zeros(len(own.blocks))
    for channel in parts[0]:
        slopes = np.array([part[channel] for part in parts])
        found += np.square(slopes)[which] * variances[question.workload.numbers_of(channel, own.blocks)]
    return found
