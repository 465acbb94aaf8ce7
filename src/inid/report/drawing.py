"""Drawings as trees of SVG elements, made into text by Python's XML writer, which escapes every attribute and text."""

from typing import TYPE_CHECKING
from xml.etree.ElementTree import Element, tostring

from inid.report.rendering import environment

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["Element", "element", "picture"]


def element(tag: str, *content: Element | str, **attributes: str | float) -> Element:
    """An element around a text or others; an underscore in the name of an attribute is a hyphen, and none at its end.

    >>> tostring(element("text", "a < b", class_="dim", text_anchor="end"), encoding="unicode")
    '<text class="dim" text-anchor="end">a &lt; b</text>'
    """
    made = Element(tag, {name.rstrip("_").replace("_", "-"): str(value) for name, value in attributes.items()})
    made.text = "".join(part for part in content if isinstance(part, str))
    made.extend(part for part in content if not isinstance(part, str))
    return made


def picture(*shapes: Element, description: str, height: int, **attributes: str | float) -> "Markup":
    """A drawing as wide as its place, with what it shows in words.

    >>> picture(description="<nothing>", height=9)
    Markup('<svg width="100%" height="9" role="img" aria-label="&lt;nothing&gt;"><title>&lt;nothing&gt;</title></svg>')
    """
    named = {"role": "img", "aria-label": description} if description else {"aria-hidden": "true"}
    titles = [element("title", description)] if description else []
    return _text(element("svg", *titles, *shapes, **attributes, width="100%", height=height, **named))


def _text(drawn: Element) -> "Markup":
    environment()  # says what is missing
    from markupsafe import Markup

    return Markup(tostring(drawn, encoding="unicode"))  # noqa: S704 - the writer escapes
