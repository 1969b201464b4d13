"""Who may use a page on loopback, and the headers of every answer.

Any program and any web page on this machine can connect to a port of it. A request is let in if it was sent to our own
address by its own name (else a foreign domain could be pointed here), if no other site sent it, and if it shows the
cookie. The cookie is given once, for a token that stands in the fragment of the address the person opens: fragments are
sent to nobody. Browsers send a cookie to every port of a host, so it has the port in its name, and a path that only this
run knows: another server on this machine is never sent it.
"""

import hmac
import secrets
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie

from memdir.interfaces.web.listen import HOST, App, AsgiScope, Receive, Send, find_foreign, group_headers, refuse

CSRF = "memdir.csrf"  # in a request's scope: what its forms have to show
ACTIONS = "memdir.actions"  # in a request's scope: what may be done there; without it, everything
MEMORY = "memory/"  # before what may be done with one memory
OPEN = "/open"  # where a token is exchanged for the cookie
_NAMES = (HOST, "localhost", "[::1]")
_TOKEN_BYTES = 200  # of a body that can be a token
HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "referrer-policy": "same-origin",  # with no-referrer a browser sends our own forms with the origin "null"
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class OneTimeToken:
    """256 random bits that open the page once."""

    def __init__(self) -> None:
        self.value = secrets.token_urlsafe(32)

    def take(self, given: bytes) -> bool:
        """Whether this is the token; from then on it is not."""
        is_right = bool(self.value) and hmac.compare_digest(self.value.encode(), given)
        self.value = "" if is_right else self.value
        return is_right


class LoopbackGate:
    """ASGI middleware that checks a request before the page sees it.

    The page lies below `/LABEL`, the path of the cookie; the label is random. `on_request` is called for every request
    that is let in.
    """

    def __init__(
        self,
        app: App,
        *,
        port: int,
        token: OneTimeToken,
        label: str = "",
        on_request: Callable[[], None] = lambda: None,
    ) -> None:
        self._app, self._port, self._token, self._on_request = app, port, token, on_request
        self.root = f"/{label or secrets.token_hex(5)}"
        self.cookie = f"memdir_{port}"
        self._sessions: dict[str, str] = {}  # cookie -> what its forms have to show

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        path = str(scope["path"])
        inner = path.removeprefix(self.root) if path.startswith(f"{self.root}/") else ""
        status, why, session = self._judge(scope, inner)
        if status:
            await refuse(send, status, why, *_HEADERS)
        elif inner == OPEN and scope["method"] == "POST":
            await self._exchange(receive, send)
        else:
            self._on_request()
            known = {**scope, "root_path": self.root, CSRF: self._sessions.get(session, "")}
            await self._app(known, receive, add_headers(send))

    def _judge(self, scope: AsgiScope, inner: str) -> tuple[int, str, str]:
        """The status and words of a refusal, or 0 and the session of a request."""
        headers, is_read = group_headers(scope), scope["method"] in ("GET", "HEAD")
        if inner == OPEN and is_read:
            # It says nothing of anybody, and a private file may lead here: that counts as another site.
            headers[b"sec-fetch-site"] = []
        if why := find_foreign(headers, self._port, _NAMES):
            return 403, why, ""
        if not is_read and scope["method"] != "POST":
            return 405, "only GET and POST are answered", ""
        if not is_read and len(headers[b"origin"]) != 1:
            return 403, "a request that changes something has to say which page sent it", ""
        session = self._find_session(b"; ".join(headers[b"cookie"]).decode("latin-1"))
        if not session and inner != OPEN and not inner.startswith("/static/"):
            return 401, "this page opens with the whole address that `memdir ui` prints, once", ""
        return (0, "", session) if inner else (404, "there is nothing here", "")

    def _find_session(self, header: str) -> str:
        """The session whose cookie a request shows; empty for none."""
        try:
            found = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return ""
        shown = found.value.encode("utf-8", "replace") if found else b""
        return next((at for at in self._sessions if hmac.compare_digest(at.encode(), shown)), "")

    async def _exchange(self, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more and len(body) <= _TOKEN_BYTES:
            message = await receive()
            body += message.get("body", b"")
            more = bool(message.get("more_body")) and message["type"] == "http.request"
        if more or not self._token.take(body.strip()):
            why = "this address was used already, or is not whole: run `memdir ui` again"
            await refuse(send, 403, why, *_HEADERS)
            return
        session = secrets.token_urlsafe(32)
        self._sessions[session] = secrets.token_urlsafe(24)
        cookie = f"{self.cookie}={session}; HttpOnly; SameSite=Strict; Path={self.root}/"
        headers = [*_HEADERS, (b"set-cookie", cookie.encode())]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def add_headers(send: Send) -> Send:
    """Our headers on every answer, unless it has one of the same name."""

    async def give(message: "AsgiScope") -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message.get("headers", [])}
            message = {
                **message,
                "headers": [*message.get("headers", []), *(at for at in _HEADERS if at[0] not in given)],
            }
        await send(message)

    return give
