"""The report: one self-contained HTML page about a release. `page` writes it, `charts` draws, `style` is its CSS."""

from inid.report.page import Facts, page

__all__ = ["Facts", "page"]
