"""Ledgers in memory, of people and of events."""

import pytest

import inid


@pytest.fixture
def ledger():
    return inid.Ledger(total=inid.GaussianDP(mu=1.0), unit="id")


@pytest.fixture
def events():
    """A ledger of events."""
    return inid.Ledger(total=inid.GaussianDP(mu=1.0))
