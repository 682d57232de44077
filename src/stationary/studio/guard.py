"""Who may speak to the studio: only pages of its own, opened by somebody who knows the token."""

from __future__ import annotations

import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_LOST = "Open the address that 'stationary studio' printed: it holds the token of this session.\n"


class Guard:
    """Lets a request through if host, origin and the token in its path are those of the studio.

    The token stands in the path, so that no cookie is sent on behalf of another page. ``Host`` is
    checked because a foreign name may be made to point to this machine.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""

        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            code = self._refused(scope)
            answer = PlainTextResponse(_LOST, code) if code else self.app
            await answer(scope, receive, sealed)

    def _refused(self, scope: Scope) -> int:
        headers = Headers(scope=scope)
        if headers.get("host", "") not in self.hosts:
            return 400
        given = scope["path"].removeprefix("/").partition("/")[0]
        if not secrets.compare_digest(given.encode(), self.token.encode()):
            return 404
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "same-origin")
        # A link to a page may be followed from anywhere: who has the token may open it.
        opened = (scope["method"], headers.get("sec-fetch-dest")) == ("GET", "document")
        if origin not in (None, f"http://{headers['host']}"):
            return 403
        if site not in ("same-origin", "none") and not opened:
            return 403
        # A browser names the origin of whatever changes something.
        return 403 if scope["method"] not in ("GET", "HEAD") and origin is None else 0
