"""The server of the page: its addresses, and running it on the loopback address of this machine."""

import json
import os
import socket
import tempfile
import webbrowser
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from inid.arguments import Floats, integer
from inid.errors import ArgumentError, InidError
from inid.report.rendering import rendered
from inid.schema.error_messages import sentence_of
from inid.studio import views
from inid.studio.folder import Folder
from inid.studio.form import file_facts, form_of
from inid.studio.form_helpers import FormHelpers
from inid.studio.live import Column, Planner
from inid.studio.live_streams import STREAM_FILES, LiveStreams, ShownStream
from inid.studio.releases import DOWNLOADS, Outcome, Releases, SyntheticRowMaker
from inid.studio.security import Guard, Secrets

_PAGES = {"/": "table", "/stream": "stream", "/explore": "explore"}
_STATIC = {
    "form.js": "text/javascript",
    "asking.js": "text/javascript",
    "questions.js": "text/javascript",
    "rows.js": "text/javascript",
    "lists.js": "text/javascript",
    "guide.js": "text/javascript",
    "picking.js": "text/javascript",
    "stream.js": "text/javascript",
    "studio.js": "text/javascript",
    "open.js": "text/javascript",
    "studio.css": "text/css",
    "icon.svg": "image/svg+xml",
}
_STOPPED = (
    "the studio was stopped. If the release was charged, the charge stands: start the studio again and look under "
    "Earlier releases."
)


@dataclass
class Studio:
    """What one run of the page works on."""

    folder: Folder
    start: Mapping[str, Any] = field(default_factory=dict)
    truth: Floats | None = None
    secrets: Secrets = field(default_factory=Secrets)

    def __post_init__(self) -> None:
        self.planner = Planner(self.folder)
        self.helpers = FormHelpers(self.folder, self.planner)
        self.releases = Releases(self.folder)
        self.rows = SyntheticRowMaker(self.releases)
        self.streams = LiveStreams(self.folder)
        self._latest_requests: dict[str, int] = {}

    def begin(self, _: Any) -> dict[str, Any]:
        """What the form begins with, and the files to choose from."""
        form = dict(self.start)
        form |= {"table": self.folder.stated_table} if self.folder.stated_table else {}
        form |= {"ledger": self.folder.stated_ledger} if self.folder.stated_ledger else {}
        return {
            "form": form_of(form),
            "tables": self.folder.tables(),
            "streams": self.folder.streams(),
            "ledgers": [{"name": name, "shown": self.folder.place_of(name)} for name in self.folder.ledgers()],
            "folder": str(self.folder.root),
            "demo": self.truth is not None,
        }

    def columns(self, body: Any) -> dict[str, Any]:
        """The columns of a table."""
        names = body.get("computed", [])
        computed = (
            [Column(name, "computed") for name in names if isinstance(name, str)] if isinstance(names, list) else []
        )
        table, file = body.get("table"), file_facts(body.get("file"))
        try:
            available = [*self.planner.columns(table, file), *computed]
        except ArgumentError as error:
            if error.code not in ("separator_unclear", "separator_absent"):
                raise
            return {"separators": views.separator_choices(self.planner.separators(table))}
        written = [f"{term}: {text}" for term, text in self.planner.written(table, file)]
        kinds = {column.name: column.kind for column in available}
        return views.columns_parts(available) | {"names": list(kinds), "kinds": kinds, "written": written}

    def plan(self, body: Any) -> dict[str, Any]:
        """The plan of a form: the figures of `inid plan --json`, except those that take longer, and how they look."""
        self._latest_requests.pop(_tab(body), None)  # its details are no longer wanted, and would compete with this
        live = self.planner.plan(body.get("form"))
        refusal = None if live.ledger is None else live.ledger.refusal
        released = body.get("again") is True
        shown: dict[str, Any] = {"figures": live.planned.summary.figures(), "html": views.plan_parts(live, released)}
        return shown | {"affordable": refusal is None, "refusal": "" if released else refusal or ""}

    def details(self, body: Any) -> dict[str, Any]:
        """What takes a moment longer; given up when the same tab asks again."""
        tab, request_number = (
            _tab(body),
            integer("turn", body.get("turn", 0), least=0, cure="count the requests of a tab"),
        )
        self._latest_requests[tab] = request_number
        form = body.get("form")
        live = self.planner.plan(form)
        curve = self.planner.curve(form, lambda: self._latest_requests.get(tab) == request_number)
        return {"figures": live.planned.summary.to_dict(), "html": views.details_part(live, curve)}

    def prepare(self, body: Any) -> dict[str, Any]:
        """A token for one release, and what it would spend."""
        live = self.planner.plan(body.get("form"), fresh=True)
        if live.ledger is not None and live.ledger.refusal is not None:
            raise ArgumentError(live.ledger.refusal)
        return {"token": self.releases.prepare(live), "html": views.spending_part(live, self.releases.earlier(live))}

    def release(self, body: Any) -> dict[str, Any]:
        """Charge and publish; a second time, say what became of the first."""
        return self._shown(self.releases.run(body.get("token")))

    def released(self, body: Any) -> dict[str, Any]:
        """What became of a release; nothing is charged."""
        return self._shown(self.releases.outcome(body.get("token")))

    def _shown(self, outcome: Outcome) -> dict[str, Any]:
        before = None
        if outcome.state == "done" and outcome.released is None:
            try:
                before = self.releases.published(outcome.token)
            except InidError as error:
                outcome = replace(outcome, text=f"Its numbers are not shown: {sentence_of(error, 'page')}")
        try:
            shown = views.release_part(outcome, before, self.truth)
        except Exception as error:  # noqa: BLE001 - it is paid for: that is said, and its files are there
            text = f"Its numbers cannot be shown: {sentence_of(error, 'page')} The charge stands; look into its files."
            shown = views.release_part(replace(outcome, text=text, released=None))
        return {"state": outcome.state, "token": outcome.token, "html": shown}

    def all_releases(self, _: Any) -> dict[str, Any]:
        """Earlier releases of the folder."""
        return {"html": views.releases_part(self.releases.all())}

    def plan_stream(self, body: Any) -> dict[str, Any]:
        """The plan of a stream that is asked for; nothing is made."""
        live = self.streams.plan(body.get("form"))
        return {"html": views.stream_plan_parts(live), "affordable": not live.refusal, "refusal": live.refusal}

    def stream_details(self, body: Any) -> dict[str, Any]:
        """The same as a command."""
        return {"html": views.stream_details(self.streams.plan(body.get("form")))}

    def prepare_stream(self, body: Any) -> dict[str, Any]:
        """What opening a stream would spend."""
        live = self.streams.plan(body.get("form"))
        if live.refusal:
            raise ArgumentError(live.refusal)
        return {"token": live.name, "html": views.opening_part(live)}

    def open_stream(self, body: Any) -> dict[str, Any]:
        """Make a stream and charge its ledger, once."""
        return {"state": "done", "token": self.streams.open(body.get("form"))}

    def show_stream(self, body: Any) -> dict[str, Any]:
        """A stream that is there."""
        return _stream_shown(self.streams.show(body))

    def release_period(self, body: Any) -> dict[str, Any]:
        """Release a period of a stream, once."""
        return _stream_shown(self.streams.release(body))


def make_app(studio: Studio, port: int) -> Guard:
    """The page as an ASGI application, for a server on this port of the loopback address."""
    works = {
        "start": studio.begin,
        "columns": studio.columns,
        "plan": studio.plan,
        "details": studio.details,
        "codes": studio.helpers.codes,
        "compare": studio.helpers.compare,
        "bands": studio.helpers.bands,
        "ledger": studio.helpers.new_ledger,
        "ledger-names": studio.helpers.ledger_names,
        "prepare": studio.prepare,
        "release": studio.release,
        "released": studio.released,
        "releases": studio.all_releases,
        "rows": studio.rows.make,
        "rows-state": studio.rows.state,
        "rows-stop": studio.rows.stop,
        "stream-plan": studio.plan_stream,
        "stream-details": studio.stream_details,
        "stream-prepare": studio.prepare_stream,
        "stream-release": studio.open_stream,
        "stream-show": studio.show_stream,
        "stream-period": studio.release_period,
    }

    async def opened(_: Request) -> Response:
        return HTMLResponse(views.open_page(studio.secrets.key, f"/{studio.secrets.path}/"))

    async def shown(request: Request) -> Response:
        return HTMLResponse(views.studio_page(_PAGES[request.url.path]))

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name == "report.css":
            return Response(rendered("style.css"), media_type="text/css")
        if name not in _STATIC:
            return Response("There is no such file.\n", 404)
        return Response(_static(name), media_type=_STATIC[name])

    def download(request: Request) -> Response:
        token, name = request.path_params["token"], request.path_params["name"]
        try:
            content = studio.releases.file(token, name).read_bytes()
        except (InidError, OSError) as error:
            return Response(sentence_of(error, "page") + "\n", 404)
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type=DOWNLOADS[name], headers=headers)

    def download_stream(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            if name not in STREAM_FILES:
                raise ArgumentError("there is no such file of a stream.")
            content = studio.streams.file(name, request.query_params)
        except (InidError, OSError) as error:
            return Response(sentence_of(error, "page") + "\n", 404)
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(content, media_type=STREAM_FILES[name], headers=headers)

    routes = [Route("/open", opened), *(Route(path, shown) for path in _PAGES), Route("/static/{name}", static)]
    routes += [Route("/download/{token}/{name}", download), Route("/stream-file/{name}", download_stream)]
    routes += [Route(f"/api/{name}", _answering(work), methods=["POST"]) for name, work in works.items()]
    return Guard(Starlette(routes=routes), secrets=studio.secrets, port=port)


def _answering(work: Callable[[Any], dict[str, Any]]) -> Callable[[Request], Any]:
    """An address that takes JSON and answers JSON; a failure is a sentence."""

    async def answered(request: Request) -> Response:
        try:
            try:
                body = json.loads(await request.body() or b"{}")
            except (ValueError, RecursionError):
                raise ArgumentError("a request is JSON, and not a deep one.") from None
            if not isinstance(body, dict):
                raise ArgumentError("a request is a set of named values.")
            return JSONResponse(await run_in_threadpool(work, body))
        except ClientDisconnect:  # cut off by the guard, or nobody is there to read this
            return JSONResponse({"error": "the request is too long for a form of the page."}, 413)
        except CancelledError:  # stopped at once, by a second Ctrl+C; what runs in a thread goes on to its end
            return JSONResponse({"error": _STOPPED}, 503)
        except (InidError, OSError) as error:
            return JSONResponse({"error": sentence_of(error, "page")}, 422)
        except Exception as error:  # its text may quote data
            if os.environ.get("INID_TRACEBACK") == "1":
                raise
            return JSONResponse({"error": sentence_of(error, "page")}, 500)

    return answered


def _stream_shown(shown: ShownStream) -> dict[str, Any]:
    state = {"periods": shown.periods, "released": shown.released, "next": shown.next}
    return state | {"html": views.stream_parts(shown)}


def _tab(body: Any) -> str:
    return str(body.get("tab"))[:40]


@cache
def _static(name: str) -> bytes:
    return (files("inid.studio") / "static" / name).read_bytes()


def serve(studio: Studio, *, port: int = 0, browser: bool = True, note: Callable[[str], None] = lambda _: None) -> None:
    """Run the page until it is interrupted."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen()  # from now on nobody who follows the link is turned away
        except (OSError, OverflowError) as error:
            raise ArgumentError(f"port {port} of 127.0.0.1 cannot be used: {_reason(error)}; choose another.") from None
        bound = listener.getsockname()[1]
        link = f"http://127.0.0.1:{bound}/open?token={studio.secrets.link}"
        app = make_app(studio, bound)
        config = uvicorn.Config(app, log_level="error", access_log=False, server_header=False, lifespan="off")
        note(f"inid studio works in {studio.folder.root} and is at\n\n    {link}\n")
        note("The link is for you alone: whoever has it can spend your budget. Press Ctrl+C to stop.")
        with _leading_to(link) if browser else _nothing() as file:
            if file is not None:
                webbrowser.open(file.as_uri())
            with suppress(KeyboardInterrupt):  # the way to stop it
                uvicorn.Server(config).run(sockets=[listener])


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or "it is not a port"


@contextmanager
def _leading_to(link: str) -> Iterator[Path]:
    """A file that leads to the link and only this user can read: the list of processes shows a browser's arguments."""
    with tempfile.TemporaryDirectory(prefix="inid-studio-") as folder:
        path = Path(folder, "open.html")
        path.write_text(views.rendered("leading.html", link=link), encoding="utf-8")
        yield path


@contextmanager
def _nothing() -> Iterator[None]:
    yield None
