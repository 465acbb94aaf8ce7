"""Several queries under one promise: planned together, charged once, released together, one page and one record."""

from inid.tables.publication.plan import PublicationPlan
from inid.tables.publication.publication import Publication
from inid.tables.publication.result import PublicationResult

__all__ = ["Publication", "PublicationPlan", "PublicationResult"]
