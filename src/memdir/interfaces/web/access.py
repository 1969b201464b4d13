"""Access control for the web interface on loopback, and the headers of every response.

Any program and any web page on this machine can connect to a local port. A request is allowed if its Host is our own address
(otherwise another domain could be made to resolve to it), if no other site sent it, and if it has the cookie. The cookie is issued
once, for a token in the fragment of the URL the user opens; browsers never send fragments. Browsers send cookies to every port
of a host, so its name contains the port and its path is random: other servers on this machine never receive it.
"""

import hmac
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie

from memdir.interfaces.web.listen import HOST, App, AsgiScope, Receive, Send, find_foreign, group_headers, refuse

CSRF = "memdir.csrf"  # scope key: the token that forms must contain
ACTIONS = "memdir.actions"  # scope key: the allowed actions; all if missing
MEMORY = "memory/"  # prefix of actions on one memory
OPEN = "/open"  # where a token is exchanged for the cookie
_NAMES = (HOST, "localhost", "[::1]")
_TOKEN_BYTES = 200  # limit for a body that can be a token
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
    """A token of 256 random bits that opens the web interface once."""

    def __init__(self) -> None:
        self.value = secrets.token_urlsafe(32)

    def take(self, text: bytes) -> bool:
        """Return whether the token matches, and invalidate it if so."""
        is_right = bool(self.value) and hmac.compare_digest(self.value.encode(), text)
        self.value = "" if is_right else self.value
        return is_right


class LoopbackGate:
    """ASGI middleware that checks each request before the web interface gets it.

    All URLs start with `/LABEL`, which is random and the cookie's path.
    """

    def __init__(self, app: App, *, port: int, token: OneTimeToken, label: str = "") -> None:
        self._app, self._port, self._token = app, port, token
        self.root = f"/{label or secrets.token_hex(5)}"
        self.cookie = f"memdir_{port}"
        self._sessions: dict[str, str] = {}  # cookie to the token that its forms must contain

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        if scope["type"] != "http":
            return
        path = str(scope["path"])
        inner = path.removeprefix(self.root) if path.startswith(f"{self.root}/") else ""
        status, why, session = self._authorise(scope, inner)
        if status:
            await refuse(send, status, why, *_HEADERS)
        elif inner == OPEN and scope["method"] == "POST":
            await self._issue_cookie(receive, send)
        else:
            known = {**scope, "root_path": self.root, CSRF: self._sessions.get(session, "")}
            await self._app(known, receive, add_headers(send))

    def _authorise(self, scope: AsgiScope, inner: str) -> tuple[int, str, str]:
        """Return (status, reason, session); status 0 allows the request."""
        headers, is_read = group_headers(scope), scope["method"] in ("GET", "HEAD")
        if inner == OPEN and is_read:
            # This page contains no data, and browsers treat the private file that opens it as cross-site.
            headers[b"sec-fetch-site"] = []
        if why := find_foreign(headers, self._port, _NAMES):
            return 403, why, ""
        if not is_read and scope["method"] != "POST":
            return 405, "only GET and POST are allowed", ""
        if not is_read and len(headers[b"origin"]) != 1:
            return 403, "the Origin header is missing", ""
        session = self._find_session(b"; ".join(headers[b"cookie"]).decode("latin-1"))
        if not session and inner != OPEN and not inner.startswith("/static/"):
            return 401, "open the full address that `memdir ui` printed; it works once", ""
        return (0, "", session) if inner else (404, "page not found", "")

    def _find_session(self, header: str) -> str:
        """Return the session of a request's cookie, or ""."""
        try:
            morsel = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return ""
        cookie = morsel.value.encode("utf-8", "replace") if morsel else b""
        return next((session for session in self._sessions if hmac.compare_digest(session.encode(), cookie)), "")

    async def _issue_cookie(self, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more and len(body) <= _TOKEN_BYTES:
            message = await receive()
            body += message.get("body", b"")
            more = bool(message.get("more_body")) and message["type"] == "http.request"
        if more or not self._token.take(body.strip()):
            problem = "this address was already used or is incomplete: run `memdir ui` again"
            return await refuse(send, 403, problem, *_HEADERS)
        session = secrets.token_urlsafe(32)
        self._sessions[session] = secrets.token_urlsafe(24)
        cookie = f"{self.cookie}={session}; HttpOnly; SameSite=Strict; Path={self.root}/"
        headers = [*_HEADERS, (b"set-cookie", cookie.encode())]
        await send({"type": "http.response.start", "status": 204, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def add_headers(send: Send) -> Send:
    """Add our headers to every response that does not set them."""

    async def send_with_headers(message: "AsgiScope") -> None:
        if message["type"] == "http.response.start":
            names = {name.lower() for name, _ in message.get("headers", [])}
            added = [header for header in _HEADERS if header[0] not in names]
            message = {**message, "headers": [*message.get("headers", []), *added]}
        await send(message)

    return send_with_headers
