"""The site: Sphinx with Markdown pages, notebooks that are executed at the build, and mathematics without a network."""

import re
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE / "_ext"), str(_HERE.parent / "src")]

from docutils.nodes import Text  # noqa: E402
from numpy.typing import ArrayLike  # noqa: E402
from sphinx.addnodes import desc_parameter, desc_sig_name  # noqa: E402
from sphinx.util.typing import stringify_annotation  # noqa: E402

from inid._version import __version__  # noqa: E402

project = "inid"
author = "The inid maintainers"
copyright = "The inid maintainers, Apache-2.0"  # noqa: A001 - Sphinx's name
release = version = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_design",
    "sphinx_copybutton",
    "mathml",
    "markdown_docstrings",
    "command_help",
    "configuration_keys",
]
exclude_patterns = ["_build", "_ext", "pictures"]

html_theme = "furo"
html_title = "inid"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
copybutton_exclude = ".linenos, .gp, .go"

nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

autodoc_member_order = "alphabetical"
autodoc_typehints = "signature"
# What a class takes from a class of the library belongs to it; what it takes from its host does not.
_HOSTS = (
    "BaseException, Exception, Warning, object, tuple, str, Enum, Optimizer, DataLoader, Module, BaseEstimator, "
    "ClassifierMixin, RegressorMixin, ClusterMixin, TransformerMixin, ClassNamePrefixFeaturesOutMixin, "
    "OneToOneFeatureMixin, _MetadataRequester, _SetOutputMixin, Trainer, Callback, LightningModule, "
    "HyperparametersMixin, ModelHooks, DataHooks, CheckpointHooks, _DeviceDtypeModuleMixin"
)
autodoc_default_options = {"members": True, "inherited-members": _HOSTS}
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
default_role = "code"


def _skip(app, what, name, thing, skip, options):  # noqa: ARG001 - the signature is Sphinx's
    """Leave out what scikit-learn adds to every estimator for its own routing of metadata."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def _name_array_like(app, doctree):  # noqa: ARG001 - the signature is Sphinx's
    """Say ArrayLike, as the code does, instead of the long union that it stands for."""
    written = stringify_annotation(ArrayLike, "smart").replace("~", "")
    short = re.sub(r"[\w.]+\.", "", written)  # unqualified, as signatures show types
    for node in doctree.findall(desc_parameter):
        text = node.astext()
        if short in text or written in text:
            name, rest = text.replace(written, "ArrayLike").replace(short, "ArrayLike").split(":", maxsplit=1)
            node.children = [desc_sig_name("", name), Text(":" + rest)]


def setup(app):
    """Connect what has no extension of its own."""
    app.connect("autodoc-skip-member", _skip)
    app.connect("doctree-read", _name_array_like)
