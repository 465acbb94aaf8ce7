"""Pages from Jinja templates: every text that enters one is escaped, and a name that is not there is an error.

The one place that makes an environment. The page in the browser has templates of its own beside those of the report,
which are named "report/...".
"""

from functools import cache
from typing import TYPE_CHECKING, Any

from inid.errors import MissingExtraError

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


@cache
def environment(package: str | None = None) -> "Environment":
    """Templates of the report, and those of one more package under their own names."""
    try:
        from jinja2 import ChoiceLoader, Environment, PackageLoader, PrefixLoader, StrictUndefined
    except ImportError:
        raise MissingExtraError("reports need jinja2: run pip install '.[tables]' in inid's checkout.") from None
    shared = PrefixLoader({"report": PackageLoader("inid.report")})
    return Environment(
        loader=ChoiceLoader([shared, *([PackageLoader(package)] if package else [])]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def rendered(template: str, /, **context: Any) -> "Markup":
    """A template of the report, with every text in it escaped; itself it enters another as it is."""
    templates = environment()  # says what is missing
    from markupsafe import Markup

    return Markup(templates.get_template(f"report/{template}").render(context))  # noqa: S704 - the template escapes
