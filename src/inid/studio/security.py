"""Which requests are answered: those of the page itself, in the browser that opened the link, and no others.

The page charges budgets, so other sites in the same browser, other programs' pages on the same machine and other users
of the machine must not be able to act for it. What each rule is against:

    loopback address only                other machines
    Host must be this server's own       a site whose name is made to point here (DNS rebinding)
    Origin and Sec-Fetch-Site            posts, and reads, by other sites and by pages on other ports
    the link's token, then a secret      other users and programs of this machine; no cookie is set, since a browser
      at the head of every path          would send it to every port of this address
    a key in a header                    whoever sees an address of the page (a screenshot, a shared screen): the key is
                                         in storage that belongs to this port alone
    a content-security policy            scripts that a name of a column, say, might bring into the page
"""

import hmac
import secrets
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

KEY_HEADER = "x-inid-key"
_LARGEST_BODY = 4 * 2**20
_CLOSED = "This page is not open to you. Open the link that inid studio printed in the terminal.\n"

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass(frozen=True, repr=False)
class Secrets:
    """Three random words of one run: the link's, that of the page's paths, and the key that its requests carry."""

    link: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    path: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32))


class Guard:
    """Lets the page's own requests through, refuses all others, and sets the headers of every answer."""

    def __init__(self, app: ASGIApp, *, secrets: Secrets, port: int) -> None:
        self._app = app
        self._own = secrets
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"} | ({"127.0.0.1", "localhost"} if port == 80 else set())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets here
            raise RuntimeError(f"a {scope['type']} connection is not taken")

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                for name, value in HEADERS.items():
                    headers[name] = value
                message["headers"] = headers.raw
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, sent)
            return
        await self._app(self._inside(scope), _limited(receive), sent)

    def _refusal(self, scope: MutableMapping[str, Any]) -> PlainTextResponse | None:
        headers, path, method = Headers(scope=scope), scope["path"], scope["method"]
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return PlainTextResponse("This address does not belong to inid studio.\n", 421)
        if method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("Only GET and POST are answered.\n", 405)
        origins = headers.getlist("origin")
        foreign = any(origin != f"http://{hosts[0].lower()}" for origin in origins)  # each of them, if there are two
        if foreign or (method == "POST" and not origins):
            return PlainTextResponse("Requests of other sites are refused.\n", 403)
        if path == "/open":
            # Followed from a terminal, a mail or a file: from anywhere, since whoever has the link may.
            given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
            return None if _same(given[0], self._own.link) else PlainTextResponse(_CLOSED, 403)
        if not {"same-origin", "none"}.issuperset(headers.getlist("sec-fetch-site")):
            return PlainTextResponse("Requests of other sites are refused.\n", 403)
        if path.startswith("/static/"):
            return None
        if not _same(path[1:].partition("/")[0], self._own.path):
            return PlainTextResponse(_CLOSED, 403)
        if self._inside(scope)["path"].startswith("/api/") and not _same(headers.get(KEY_HEADER, ""), self._own.key):
            return PlainTextResponse(_CLOSED, 403)
        return None

    def _inside(self, scope: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """The request without the secret at the head of its path."""
        head = f"/{self._own.path}"
        if not scope["path"].startswith(f"{head}/"):
            return scope
        return {**scope, "path": scope["path"].removeprefix(head)}


def _same(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def _limited(receive: Receive) -> Receive:
    """The body of a request, cut off where no form of the page is as long."""
    size = 0

    async def received() -> Message:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > _LARGEST_BODY:
                return {"type": "http.disconnect"}
        return message

    return received
