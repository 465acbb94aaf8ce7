"""Synthetic rows from a fit that is rough and fast, for tests of everything around it."""

from inid.tables.questions.synthetic import mixture, model, particles

__all__ = ["rough_fit"]


def rough_fit(monkeypatch):
    """Few products, rounds, turns and rows."""
    monkeypatch.setattr(mixture, "_ROUNDS", 150)
    monkeypatch.setattr(mixture, "_PRODUCTS", 60)
    monkeypatch.setattr(particles, "_TURNS", ((12, 1),))
    monkeypatch.setattr(model, "_LEAST", 2000)
