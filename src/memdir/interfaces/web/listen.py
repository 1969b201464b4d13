"""HTTP servers that stay up when somebody opens connections and says nothing: for MCP, the page and the team server.

uvicorn waits for ever for the head and the body of a request, accepts every connection, and logs a traceback for each
one it has no descriptor for. `HttpServer` is uvicorn with an end to each wait, a limit on connections that follows the
descriptors of the process, and silence where descriptors run out. A connection that waits for its request makes room for a
new one, oldest first: a request that arrives whole is served also while others only hold connections open.
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
_OWN_DESCRIPTORS = 64  # of a process that serves: standard streams, the event loop, databases, files being read
_LEAST = 8  # connections, however few descriptors there are
_BACKLOG = 64  # asyncio accepts as many in one go, before any of them is looked at
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Seconds until a connection is closed that keeps the server waiting, and what it may bring."""

    head: float = 10.0  # from the connection, or from the last response, to the end of a request's head
    body: float = 30.0  # from the head to the end of the body
    write: float = 30.0  # in which the client takes nothing of a response
    connections: int = 128
    body_bytes: int = 2_097_152  # a memory of the largest size, with its escapes
    shutdown: int = 5  # for responses in progress when the server is stopped


class HttpServer(uvicorn.Server):
    """One ASGI application; `run([listener])` serves until a signal comes or `should_exit` is set."""

    def __init__(self, app: App, limits: HttpLimits | None = None) -> None:
        super().__init__(HttpConfig(app, limits or HttpLimits()))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(_handle_exception)
        await super().startup(sockets)


class HttpConfig(uvicorn.Config):
    """Settings of uvicorn for one server: nothing is logged, no websockets, no name of the software."""

    def __init__(self, app: App, limits: HttpLimits) -> None:
        room = (os.sysconf("SC_OPEN_MAX") if hasattr(os, "sysconf") else 512) - _OWN_DESCRIPTORS
        self.limits, self.room = limits, min(limits.connections, max(_LEAST, room // 2))
        super().__init__(
            _cap_body(app, limits.body_bytes), loop="asyncio", http=BoundedProtocol, ws="none", lifespan="auto", log_config=None,
            access_log=False, server_header=False, backlog=min(_BACKLOG, self.room), timeout_graceful_shutdown=limits.shutdown,
        )  # fmt: skip

    def configure_logging(self) -> None:
        # The log has a line for every odd request, with what was in it: it goes nowhere.
        log = logging.getLogger("uvicorn")
        log.addHandler(logging.NullHandler())
        log.propagate = False


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 of one connection, aborted when the client keeps it waiting."""

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
        others = [at for at in self.connections if isinstance(at, BoundedProtocol) and not at.transport.is_closing()]
        if len(others) > self.room:
            waiting = [other for other in others if other.waits_for_request and other is not self]
            if waiting:
                min(waiting, key=lambda other: other.since).transport.abort()
            else:
                transport.write(_BUSY)
                transport.close()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        if self._timer:
            self._timer.cancel()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.since = self.loop.time()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_stuck = True
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_stuck = False
        self._watch()

    def _watch(self) -> None:
        """Start the time of what the connection waits for now, once for each wait."""
        wait = self._find_wait()
        if wait == self._wait:
            return
        if self._timer:
            self._timer.cancel()
        self._wait = wait
        self._timer = self.loop.call_later(getattr(self.limits, wait), self.transport.abort) if wait else None

    def _find_wait(self) -> str:
        if self._is_stuck or self.transport.is_closing():
            return "write"  # a transport that closes waits until the client has taken what is left
        if self.waits_for_request:
            return "head"
        return "body" if self.cycle.more_body else ""


def _handle_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # The loop itself pauses accepting when descriptors run out; a traceback for each attempt helps nobody.
    error = context.get("exception")
    if not (isinstance(error, OSError) and error.errno in _SCARCE):
        loop.default_exception_handler(context)


def listen(port: int, host: str = HOST) -> socket.socket:
    """A socket that listens; port 0 takes a free one. Raises SettingsError if the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP: only then does asyncio send at once (TCP_NODELAY), else each response may wait 40 ms for the client.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # before the address is printed: whoever reads it may call at once
    except (OSError, OverflowError) as error:
        listener.close()
        what = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"cannot listen on {host}:{port}: {what.lower()}"
        raise SettingsError(message, key="port", hint="give another with --port; 0 takes a free one") from None
    return listener


def group_headers(scope: AsgiScope) -> defaultdict[bytes, list[bytes]]:
    """The values of each header of a request, under its name in lower case."""
    found: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for name, value in scope["headers"]:
        found[name.lower()].append(value)
    return found


def find_foreign(
    headers: defaultdict[bytes, list[bytes]], port: int, names: Iterable[str] = (HOST, "localhost")
) -> str:
    """Why a request did not come from this server's own pages or from no page at all; "" if it did.

    The Host header is the only defence against a site whose name was made to point here; Origin and Sec-Fetch-Site
    name the site that a browser sends a request for.
    """
    own = frozenset(f"{name}:{port}".encode() for name in names)
    hosts = headers[b"host"]
    if len(hosts) != 1 or hosts[0].lower() not in own:
        return "this server answers to its own address only"
    is_foreign = any(origin.lower().removeprefix(b"http://") not in own for origin in headers[b"origin"])
    if is_foreign or set(headers[b"sec-fetch-site"]) - {b"same-origin", b"none"}:
        return "requests from other sites are refused"
    return ""


async def refuse(send: Send, status: int, why: str, *more: tuple[bytes, bytes]) -> None:
    """Answer in one line and close: the rest of the request is not read."""
    body = why.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode()), *more]
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _cap_body(app: App, most: int) -> App:
    """The application; a body of more than `most` bytes is refused with 413 when it is asked for, after all other checks."""

    async def capped(scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        announced = b"".join(group_headers(scope)[b"content-length"][:1])
        size, is_refused = 0, False

        async def take() -> MutableMapping[str, Any]:
            nonlocal size, is_refused
            is_large = not size and announced.isdigit() and int(announced) > most
            message: MutableMapping[str, Any] = {} if is_large else await receive()
            size += len(message.get("body", b""))
            if not is_refused and (is_large or size > most):
                is_refused = True
                await refuse(send, 413, f"a request may have at most {most} bytes")
            return {"type": "http.disconnect"} if is_refused else message

        async def give(message: MutableMapping[str, Any]) -> None:
            if not is_refused:
                await send(message)

        await app(scope, take, give)

    return capped
