"""HTTP servers that withstand idle connections, for MCP, the web interface and the team server.

uvicorn waits indefinitely for a request's header and body, accepts every connection, and logs a traceback for each one it has
no file descriptor for. `HttpServer` is uvicorn with timeouts, a connection limit that depends on the process's descriptors, and
no tracebacks when they run out. The oldest connection still waiting for its request is closed for a new one, so that complete
requests are served even while others only hold connections open.
"""

import asyncio
import errno
import logging
import os
import socket
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from memdir.errors import SettingsError, hint_extra
from memdir.frozen import dataclass

try:
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol
    from uvicorn.server import ServerState
except ModuleNotFoundError:
    _PROBLEM = "serving HTTP needs uvicorn, which is not installed"
    raise SettingsError(_PROBLEM, hint=hint_extra("mcp")) from None

HOST = "127.0.0.1"
AsgiScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[AsgiScope, Receive, Send], Awaitable[None]]
_SCARCE = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_OWN_DESCRIPTORS = 64  # reserved for standard streams, the event loop, databases and files
_MIN_CONNECTIONS = 8  # even if there are few descriptors
_BACKLOG = 64  # asyncio accepts this many before handling any of them
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Timeouts in seconds and size limits of a connection."""

    head: float = 10.0  # from the connection or last response to the end of the request header
    body: float = 30.0  # from the header to the end of the body
    write: float = 30.0  # without the client reading from a response
    connections: int = 128
    body_bytes: int = 2_097_152  # the largest memory, escaped
    shutdown: int = 5  # for responses in progress when the server is stopped


class HttpServer(uvicorn.Server):
    """Serves one ASGI application; `run([listener])` returns after a signal or when `should_exit` is set."""

    def __init__(self, app: App, limits: HttpLimits | None = None) -> None:
        super().__init__(HttpConfig(app, limits or HttpLimits()))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(_handle_exception)
        await super().startup(sockets)


class HttpConfig(uvicorn.Config):
    def __init__(self, app: App, limits: HttpLimits) -> None:
        room = (os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else 512) - _OWN_DESCRIPTORS
        self.limits, self.room = limits, min(limits.connections, max(_MIN_CONNECTIONS, room // 2))
        super().__init__(
            _limit_body(app, limits.body_bytes), loop="asyncio", http=BoundedProtocol, ws="none", lifespan="auto", log_config=None,
            access_log=False, server_header=False, proxy_headers=False, backlog=min(_BACKLOG, self.room), timeout_graceful_shutdown=limits.shutdown,
        )  # fmt: skip

    def configure_logging(self) -> None:
        # The log would contain the content of every malformed request, so it is discarded.
        log = logging.getLogger("uvicorn")
        log.addHandler(logging.NullHandler())
        log.propagate = False


class BoundedProtocol(H11Protocol):
    """One HTTP/1.1 connection, aborted if the client exceeds a timeout."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        assert isinstance(config, HttpConfig)
        self.limits, self.room = config.limits, config.room
        self.since = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._wait, self._is_stuck = "", False

    @property
    def waits_for_request(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        others = [
            other
            for other in self.connections
            if isinstance(other, BoundedProtocol) and not other.transport.is_closing()
        ]
        if len(others) > self.room:
            waiting = [other for other in others if other.waits_for_request and other is not self]
            if waiting:
                min(waiting, key=lambda other: other.since).transport.abort()
            else:
                transport.write(_BUSY)
                transport.close()
        self._restart_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        if self._timer:
            self._timer.cancel()

    def handle_events(self) -> None:
        super().handle_events()
        self._restart_timeout()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.since = self.loop.time()
        self._restart_timeout()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_stuck = True
        self._restart_timeout()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_stuck = False
        self._restart_timeout()

    def _restart_timeout(self) -> None:
        """Start the timeout for what the connection waits for now; if that has not changed, keep the running timeout."""
        wait = self._find_wait()
        if wait == self._wait:
            return
        if self._timer:
            self._timer.cancel()
        self._wait = wait
        self._timer = self.loop.call_later(getattr(self.limits, wait), self.transport.abort) if wait else None

    def _find_wait(self) -> str:
        if self._is_stuck or self.transport.is_closing():
            return "write"  # a closing transport waits until the client has read the rest
        if self.waits_for_request:
            return "head"
        return "body" if self.cycle.more_body else ""


def _handle_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # The loop pauses accepting when descriptors run out, so a traceback for each attempt is useless.
    error = context.get("exception")
    if not (isinstance(error, OSError) and error.errno in _SCARCE):
        loop.default_exception_handler(context)


def listen(port: int, host: str = HOST) -> socket.socket:
    """Return a listening socket; port 0 chooses a free one. Raises SettingsError if the address is not available."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is given; otherwise a response may be delayed by 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # before the address is printed and can be used
    except (OSError, OverflowError) as error:
        listener.close()
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"cannot listen on {host}:{port}: {reason.lower()}"
        raise SettingsError(message, key="port", hint="choose another with --port; 0 selects a free port") from None
    return listener


def group_headers(scope: AsgiScope) -> defaultdict[bytes, list[bytes]]:
    """Return the values of each request header by its lower-case name."""
    values: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for name, value in scope["headers"]:
        values[name.lower()].append(value)
    return values


def find_foreign(
    headers: defaultdict[bytes, list[bytes]], port: int, names: Iterable[str] = (HOST, "localhost")
) -> str:
    """Return why a request is cross-site, or "" if it came from our own pages or not from a page.

    Only the Host header reveals a foreign domain that points here; Origin and Sec-Fetch-Site name the site that
    sent the request.
    """
    own = frozenset(f"{name}:{port}".encode() for name in names)
    hosts = headers[b"host"]
    if len(hosts) != 1 or hosts[0].lower() not in own:
        return "this server only accepts requests to its own address"
    is_foreign = any(origin.lower().removeprefix(b"http://") not in own for origin in headers[b"origin"])
    if is_foreign or set(headers[b"sec-fetch-site"]) - {b"same-origin", b"none"}:
        return "requests from other sites are refused"
    return ""


async def refuse(send: Send, status: int, reason: str, *extra: tuple[bytes, bytes]) -> None:
    """Answer in one line and close without reading the rest of the request."""
    body = reason.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *extra]
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _limit_body(app: App, limit: int) -> App:
    """Limit request bodies: an application that reads more than `limit` bytes sees a disconnect, the client gets 413."""

    async def limited_app(scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        announced = b"".join(group_headers(scope)[b"content-length"][:1])
        size, is_refused = 0, False

        async def receive_limited() -> MutableMapping[str, Any]:
            nonlocal size, is_refused
            is_large = not size and announced.isdigit() and int(announced) > limit
            message: MutableMapping[str, Any] = {} if is_large else await receive()
            size += len(message.get("body", b""))
            if not is_refused and (is_large or size > limit):
                is_refused = True
                await refuse(send, 413, f"the request exceeds {limit} bytes")
            return {"type": "http.disconnect"} if is_refused else message

        async def send_unless_refused(message: MutableMapping[str, Any]) -> None:
            if not is_refused:
                await send(message)

        await app(scope, receive_limited, send_unless_refused)

    return limited_app
