"""A web server on 127.0.0.1 that plays a script: takes requests, keeps them, answers or breaks the connection.

What it does not know: either provider's protocol. The servers built on it say what is wrong with a request and how an
answer looks; this room has the sockets, the threads, and the ways in which a connection fails. It never sleeps: a stall
waits for the client to leave or for `release()`.
"""

import json
import select
import socket
import struct
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from memdir.frozen import dataclass
from servers.scripts import Body


@dataclass(frozen=True, slots=True)
class Received:
    """A request as it came in: `headers` with names in lower case, `body` as parsed."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Ending:
    """How an answer ends early: "end" in good order, "reset", or not yet ("open"); `last` is a last event."""

    kind: str
    last: bytes = b""


class Loopback:
    """A context manager: the server runs inside it, and when it is left every connection is closed.

    `requests` are those that asked for an answer, in order; `others` all the rest, as "GET /path". `problems` is what
    was wrong with any of them, each with its number; an honest client leaves it empty. `dropped` counts the answers
    whose client left before the end. `stalled` is set while some answer stalls.
    """

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.others: list[str] = []
        self.problems: list[str] = []
        self.dropped = 0
        self.stalled = threading.Event()
        self.lock = threading.RLock()
        self._wakers: set[socket.socket] = set()
        self._closing = False
        self._numbers = 0
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def release(self) -> None:
        """Every answer that stalls now goes on."""
        with self.lock:
            for waker in self._wakers:
                waker.send(b"x")

    def close(self) -> None:
        """Ends the server, its connections and its threads; asking it again is refused by the system."""
        if self._closing:
            return
        self._closing = True
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join()
        self.release()
        self._server.hang_up()

    # --- for the servers built on this ------------------------------------------------------------------------------

    def post(self, exchange: "Exchange") -> None:
        raise NotImplementedError

    def look(self, exchange: "Exchange") -> None:
        raise NotImplementedError

    def number(self) -> int:
        """Another number, for the ids of messages and calls."""
        with self.lock:
            self._numbers += 1
            return self._numbers

    def lose(self) -> None:
        with self.lock:
            self.dropped += 1

    def stall(self, exchange: "Exchange") -> bool:
        """Waits; whether there is still somebody to answer."""
        waker, woken = socket.socketpair()
        with self.lock:
            self._wakers.add(waker)
        self.stalled.set()
        ready, _, _ = select.select([exchange.connection, woken], [], [])
        with self.lock:
            self._wakers.discard(waker)
            if not self._wakers:
                self.stalled.clear()
        waker.close()
        woken.close()
        if exchange.connection in ready:
            self.lose()
        return exchange.connection not in ready and not self._closing


class Exchange(BaseHTTPRequestHandler):
    """One connection, with the ways to answer on it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: "_Server"

    def do_GET(self) -> None:
        self.server.owner.look(self)

    def do_HEAD(self) -> None:
        self.server.owner.look(self)

    def do_POST(self) -> None:
        try:
            self.server.owner.post(self)
        except OSError:
            # The client has left before the end.
            self.server.owner.lose()
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """A test's output is the test's."""

    def receive(self) -> Received:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(data)
        except ValueError:
            body = None
        return Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body)

    def send(self, status: int, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        self._begin(status, {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_json(self, status: int, body: Body, headers: Mapping[str, str] | None = None) -> None:
        self.send(status, json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"), headers)

    def send_half(self, body: Body, ending: Ending) -> None:
        """A plain answer of which only the beginning comes."""
        data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        self._begin(200, {"content-type": "application/json", "content-length": str(len(data))})
        self.wfile.write(data[: len(data) // 2])
        self._break(ending)

    def send_stream(self, events: Iterable[bytes], ending: Ending | None = None) -> None:
        """All events in one stream; `ending` is how it ends when it does not end well."""
        self._begin(200, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"})
        for event in events:
            self._send_chunk(event)
        if ending is None:
            self.go_on(())
            return
        if ending.last:
            self._send_chunk(ending.last)
        if ending.kind == "reset":
            self._break(ending)
        elif ending.kind == "end":
            self.go_on(())

    def go_on(self, events: Iterable[bytes]) -> None:
        """The rest of a stream, and its end."""
        for event in events:
            self._send_chunk(event)
        self.wfile.write(b"0\r\n\r\n")

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _break(self, ending: Ending) -> None:
        self.close_connection = True
        if ending.kind == "reset":
            self.server.resetting.add(self.connection)

    def _begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


class _Server(ThreadingHTTPServer):
    """Keeps its threads and connections, so that all of them can be ended and waited for."""

    request_queue_size = 128  # the five of the standard library are too few for clients that come together

    def __init__(self, owner: Loopback) -> None:
        super().__init__(("127.0.0.1", 0), Exchange)
        self.owner = owner
        self.resetting: set[socket.socket] = set()
        self._open: set[socket.socket] = set()
        self._running: list[threading.Thread] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        self._running.append(thread)
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        if request in self.resetting:
            # With no time to linger, closing sends a reset instead of an end.
            self.resetting.discard(request)
            request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            request.close()
        else:
            super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is not an error; what a script raises is one, and its test must see it."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            with self.owner.lock:
                self.owner.problems.append(f"the script raised {type(error).__name__}: {error}")

    def hang_up(self) -> None:
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                # It has gone by itself.
                continue
        for thread in self._running:
            thread.join()
        self.server_close()


@contextmanager
def refusing_url() -> Iterator[str]:
    """An address at which connections are refused: the port is held, and nobody listens there."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"
