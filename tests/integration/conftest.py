"""The server of the tests, and places for ledgers."""

from pathlib import Path

import pytest

from postgres_server import Server, postgres_server


@pytest.fixture(scope="session")
def server() -> Server:
    return postgres_server()


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a ledger, on each kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "budget.db")
    return str(request.getfixturevalue("server").url)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A ledger's name that no other test uses: all tests share one server."""
    return str(request.node.nodeid)
