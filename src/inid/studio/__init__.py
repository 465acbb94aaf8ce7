"""The local page: plan a release by looking at it, in the browser. Thin, over `inid.jobs`.

`server` lists the addresses of the page and runs it; start reading there.
"""

from inid.studio.charts import error_curve
from inid.studio.folder import Folder
from inid.studio.form import field_name, form_of, job_values
from inid.studio.form_helpers import compare_lists, make_bands, read_code_list
from inid.studio.releases import FILES, is_running, running
from inid.studio.security import HEADERS
from inid.studio.server import Studio, make_app, serve
from inid.studio.views import studio_page

__all__ = ["Folder", "Studio", "make_app", "serve"]
