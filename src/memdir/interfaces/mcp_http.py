"""MCP over HTTP for programs on this machine: one address, one method, no session, and a gate before everything.

The gate lets a request in only if all of this holds: it was sent to this very address by a name that only this machine
has (a page in a browser that had its own name point here says another), no browser says that another site sent it, and
it shows the token. What does not hold is refused before a byte of the body is read.
"""

import asyncio
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

from memdir.errors import SettingsError
from memdir.interfaces.mcp import McpContext, McpToken, make_server, silence

HOST = "127.0.0.1"
PATH = "/mcp"
BODY_BYTES = 2_097_152  # a memory of the largest size, and its escapes
_SHUTDOWN_SECONDS = 5

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class TokenGate:
    """An ASGI application before the SDK's own."""

    def __init__(self, app: App, port: int, token: McpToken) -> None:
        self._app, self._token = app, token
        self._hosts = frozenset(f"{name}:{port}".encode() for name in (HOST, "localhost"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            if refusal := self._find_refusal(scope):
                await _refuse(send, *refusal)
            else:
                await self._app(scope, receive, send)

    def _find_refusal(self, scope: Scope) -> tuple[int, bytes] | None:
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        hosts, origins = headers.get(b"host", []), headers.get(b"origin", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 403, b"this server answers to its own address only"
        if any(origin.lower().removeprefix(b"http://") not in self._hosts for origin in origins):
            return 403, b"requests from other sites are refused"
        if any(site not in (b"same-origin", b"none") for site in headers.get(b"sec-fetch-site", [])):
            return 403, b"requests from other sites are refused"
        shown = headers.get(b"authorization", [])
        if len(shown) != 1 or not self._token.is_shown_by(shown[0]):
            return 401, b"the bearer token is missing or wrong"
        if scope["path"] != PATH:
            return 404, b"there is nothing here"
        return None if scope["method"] == "POST" else (405, b"only POST is answered")


def make_app(place: McpContext, port: int, token: McpToken) -> TokenGate:
    app = make_server(place).streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, json_response=True, max_request_body_size=BODY_BYTES, host=HOST
    )
    return TokenGate(app, port, token)


def serve_loopback(place: McpContext, port: int, token: McpToken) -> int:
    """Serve on loopback until the process is told to stop; port 0 takes a free one."""
    silence()
    listener = _listen(port)
    own = listener.getsockname()[1]
    config = uvicorn.Config(
        make_app(place, own, token),
        log_config=None,
        access_log=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
    )
    sys.stdout.write(f"http://{HOST}:{own}{PATH} (bearer token in {token.file})\n")
    sys.stdout.flush()
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
    return 0


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()  # before the address is told: whoever reads it may call at once
    except (OSError, OverflowError) as error:
        listener.close()
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"cannot listen on {HOST}:{port}: {what.lower()}"
        raise SettingsError(message, key="port", hint="give another with --port; 0 takes a free one") from None
    return listener


async def _refuse(send: Send, status: int, why: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(why)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 405:
        headers.append((b"allow", b"POST"))
    # Whatever else was sent with it is not read: the connection ends here.
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": why})
