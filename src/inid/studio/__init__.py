"""The local page: plan a release by looking at it, in the browser. Thin, over `inid.jobs`.

`server` runs it (`serve`) and lists its addresses; `security` decides which requests are answered at all; `form` turns
what the page sends into the keys of a job; `live` plans it; `releases` charges once and keeps what was paid for;
`views` writes the parts of the page.
"""

from inid.studio.folder import Folder
from inid.studio.server import Studio, make_app, serve

__all__ = ["Folder", "Studio", "make_app", "serve"]
