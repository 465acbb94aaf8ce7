"""The one Spark session of a process of tests: to start it and to warm it up takes half a minute of computing."""

import atexit
from functools import cache

from needs import needs

__all__ = ["spark_session"]

_OPTIONS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    # A process of a minute is over before code that was compiled with care, or gathered with many threads, pays.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@cache
def spark_session():
    """The session, which ends with the process; the running test is skipped where Java is missing."""
    needs("java")
    from pyspark import sql

    builder = sql.SparkSession.builder.master("local[2,4]").appName("inid-tests")  # a task may fail three times
    for name, value in _OPTIONS.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    atexit.register(session.stop)
    return session
