"""Which tests one worker runs together, where several share the work (`pytest -n`)."""

from functools import cache

from xdist.scheduler import LoadFileScheduling

__all__ = ["WorkUnits", "unit_of"]

_ALONE = ("tests/oracle/", "tests/property/")


class WorkUnits(LoadFileScheduling):
    """Tests are handed out by `unit_of`, large units first.

    Single tests are left for the end, where a worker with a long file would keep the others waiting.
    """

    def _split_scope(self, nodeid):
        return unit_of(nodeid, self.config.rootpath)


def unit_of(nodeid, root):
    """The unit of a test: all with Spark are one, so that one worker starts it; those that set nothing up stand alone.

    Tests of any other file stay together, so that a server, or what a fixture computes, is made once.
    """
    file = nodeid.split("::", 1)[0]
    if file.startswith(_ALONE):
        return "spark" if "[spark" in nodeid else nodeid
    return "spark" if _uses_spark(root / file) else file


@cache
def _uses_spark(path):
    return "from spark_session import" in path.read_text(encoding="utf-8")
