"""Synthetic rows from a fit that is rough and fast, for tests of everything around it."""

from internals import module_with

mixture = module_with("inid.tables.questions.synthetic", "TargetTables")
model = module_with("inid.tables.questions.synthetic", "Effort")
particles = module_with("inid.tables.questions.synthetic", "entropic_rows")

__all__ = ["rough_fit"]


def rough_fit(monkeypatch):
    """Few products, rounds, turns and rows."""
    monkeypatch.setattr(mixture, "_ROUNDS", 150)
    monkeypatch.setattr(mixture, "_PRODUCTS", 60)
    monkeypatch.setattr(particles, "_ROUNDS_OF_MOVES", ((12, 1),))
    monkeypatch.setattr(model, "_LEAST", 2000)
