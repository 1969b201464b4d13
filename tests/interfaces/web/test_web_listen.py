"""HTTP under attack: connections that say nothing, dribble, do not read, or are too many."""

import asyncio
import http.client
import resource
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from clihelp import Cli
from mcp_client import SECONDS, Loopback, listening
from memdir.interfaces.web.listen import (
    App,
    AsgiScope,
    HttpLimits,
    HttpServer,
    Receive,
    Send,
    find_foreign,
    group_headers,
    listen,
)
from tables import read_rows

ROWS = read_rows("web_listen")

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
HEAD = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
SOON = HttpLimits(head=0.2, body=0.2, write=0.2, connections=16, body_bytes=1000)


async def echo(scope: AsgiScope, receive: Receive, send: Send) -> None:
    """The length of the body it was given."""
    if scope["type"] != "http":
        return
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


@contextmanager
def serving(app: App = echo, limits: HttpLimits = SOON) -> Iterator[int]:
    """The server in a thread; its port."""
    server, listener = HttpServer(app, limits), listen(0)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(SECONDS)
        listener.close()  # a server that is stopped while it starts leaves it open
    assert not thread.is_alive()


def connect(port: int, sent: bytes = b"") -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
    line.sendall(sent)
    return line


def ask(port: int, body: bytes = b"", path: str = "/echo") -> tuple[int, bytes]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        line.request("POST", path, body)
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()


def is_closed(line: socket.socket) -> bool:
    """Whether the other side closes, after whatever it sends, before the time of a test is over."""
    try:
        while line.recv(65536):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST", b"POST /echo HTTP/1.1\r\nHost: x\r\n", HEAD, HEAD + b"12345", HEAD + b"1234567890"],
    ids=["nothing", "method", "head", "no body", "half a body", "idle after a response"],
)
def test_a_connection_that_keeps_the_server_waiting_is_closed(sent: bytes) -> None:
    with serving() as port, connect(port, sent) as line:
        assert is_closed(line)


@pytest.mark.parametrize("sent", [b"", HEAD + b"1234567890"], ids=["first request", "second request"])
def test_a_request_that_dribbles_in_is_closed_although_it_is_never_idle(sent: bytes) -> None:
    # Each byte restarts an idle time-out, none restarts the time of the whole head.
    with serving() as port, connect(port, sent) as line:
        if sent:
            assert line.recv(4096).startswith(b"HTTP/1.1 200 ")
        line.sendall(b"POST /echo HTTP/1.1\r\nX: ")
        until = time.monotonic() + SECONDS
        while not select.select([line], [], [], 0.01)[0]:
            assert time.monotonic() < until, "still open"
            line.sendall(b"a")
        assert is_closed(line)


def test_a_client_that_does_not_read_its_response_is_closed() -> None:
    ended = threading.Event()

    async def large(scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(30):
                await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
            ended.set()

    with serving(large) as port, connect(port, HEAD + b"1234567890"):
        assert ended.wait(SECONDS)


def test_a_request_is_served_while_more_connections_than_allowed_say_nothing() -> None:
    forever = HttpLimits(head=600, body=600, connections=16)
    with serving(limits=forever) as port, ExitStack() as lines:
        held = [lines.enter_context(connect(port, b"POST /echo HTTP/1.1\r\n")) for _ in range(100)]
        assert ask(port, b"123") == (200, b"3")
        closed = [line for line in held if is_gone(line)]
        assert len(closed) >= 100 - 16


def is_gone(line: socket.socket) -> bool:
    line.setblocking(False)
    try:
        return not line.recv(1)
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_when_every_connection_is_in_use_a_new_one_is_told_to_come_again() -> None:
    release, begun = threading.Event(), threading.Semaphore(0)

    async def held(scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            begun.release()
            await asyncio.to_thread(release.wait, SECONDS)
            await echo(scope, receive, send)

    few = HttpLimits(connections=4)
    with serving(held, few) as port, ExitStack() as lines:
        inside = [lines.enter_context(connect(port, HEAD + b"1234567890")) for _ in range(4)]
        assert all(begun.acquire(timeout=SECONDS) for _ in inside)
        with connect(port) as late:
            assert late.recv(4096).startswith(b"HTTP/1.1 503 ")
        release.set()
        assert all(line.recv(4096).startswith(b"HTTP/1.1 200 ") for line in inside)


def test_a_body_that_is_too_large_is_refused_announced_or_not() -> None:
    with serving() as port:
        assert ask(port, b"x" * 1000) == (200, b"1000")
        assert ask(port, b"x" * 1001)[0] == 413
        chunks = (
            b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"258\r\n" + b"x" * 600 + b"\r\n"
        )
        with connect(port, chunks + b"258\r\n" + b"x" * 600 + b"\r\n") as line:
            assert line.recv(4096).startswith(b"HTTP/1.1 413 ")


def test_mcp_serves_on_when_connections_use_up_its_descriptors(cli: Cli) -> None:
    with listening(cli) as server:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (256, 256))
        with ExitStack() as lines:
            for _ in range(300):
                lines.enter_context(connect(server.port, b"POST /mcp HTTP/1.1\r\nHost: "))
            assert server.request(PING)[0] == 200
        assert server.request(PING)[0] == 200
        server.process.terminate()
        assert finish(server) == b""


def test_mcp_at_few_descriptors_is_quiet_and_recovers(cli: Cli) -> None:
    """Fewer than the limit of connections was made for: accepting fails, and nothing is printed."""
    with listening(cli) as server:
        assert server.request(PING)[0] == 200  # it is up, and has opened what it needs
        used = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (used + 3, 256))
        with ExitStack() as lines:
            for _ in range(12):
                lines.enter_context(connect(server.port))
        assert server.request({})[0] == 400  # its turn comes after those that could not be accepted
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (256, 256))
        assert server.request(PING)[0] == 200
        server.process.terminate()
        assert finish(server) == b""


def finish(server: Loopback) -> bytes:
    """What the server said on standard error."""
    assert server.process.stderr
    said = server.process.stderr.read()
    server.process.wait(SECONDS)
    return said


def test_requests_of_other_sites_are_told_by_their_headers() -> None:
    rows = ROWS["requests_of_other_sites_are_told_by_their_headers"]
    wrong = [
        row
        for row, fits in rows
        if (not find_foreign(group_headers({"headers": [(k.encode(), v.encode()) for k, v in row.items()]}), 80))
        is not fits
    ]
    assert wrong == []
    twice = group_headers({"headers": [(b"Host", b"localhost:80"), (b"host", b"evil:80")]})
    assert find_foreign(twice, 80)
