from pathlib import Path

import pytest

from work_units import unit_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("nodeid", "unit"),
    [
        ("tests/attack/test_tables_charges.py::test_spark", "spark"),
        ("tests/integration/test_tables_engines.py::test_sums[a::b]", "spark"),
        ("tests/property/test_table_types.py::test_stops_none[spark-DATE-year]", "spark"),
        ("tests/property/test_table_types.py::test_stops_none[csv-DATE]",) * 2,
        ("tests/property/test_range.py::test_caps[gaussian]", "tests/property/test_range.py::test_caps[gaussian]"),
        ("tests/integration/test_command.py::test_help[release]", "tests/integration/test_command.py"),
        ("src/inid/figures.py::inid.figures.number", "src/inid/figures.py"),
    ],
)
def test_tests_that_share_a_setting_share_a_worker(nodeid, unit):
    assert unit_of(nodeid, ROOT) == unit


def test_only_the_shared_session_starts_spark():
    """A second place would start a second machine, in whichever worker it runs."""
    found = [path.name for path in (ROOT / "tests").rglob("*.py") if "SparkSession.builder" in path.read_text()]
    assert sorted(found) == ["spark_session.py", "test_work_units.py"]
