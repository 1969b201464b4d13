"""The MCP server for tests: as a process on pipes or on loopback, spoken to in raw frames."""

import http.client
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from clihelp import Cli

SECONDS = 90.0  # for one request
HUNG_SECONDS = 900.0  # ends a hung server; a start takes two seconds, minutes under heavy load
MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
}


def command(*argv: str) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "memdir", *argv]


@contextmanager
def starting(cli: Cli, *argv: str, stdin: int = subprocess.PIPE) -> Iterator[subprocess.Popen[bytes]]:
    """A process of memdir on pipes; killed if it outlives its time."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command(*argv), cwd=cli.project, env=cli.environ(), stdin=stdin, stdout=pipe, stderr=pipe
    ) as process:
        watch = threading.Timer(HUNG_SECONDS, process.kill)
        watch.start()
        try:
            yield process
        finally:
            watch.cancel()
            process.kill()


@contextmanager
def running(cli: Cli, *argv: str, before: tuple[str, ...] = ()) -> Iterator["Wire"]:
    """`memdir mcp` on pipes."""
    with starting(cli, *before, "mcp", *argv) as process:
        yield Wire(process)


class Wire:
    """One client's end of the pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin and process.stdout and process.stderr
        self.process = process
        self.into: IO[bytes] = process.stdin
        self.out: IO[bytes] = process.stdout
        self.err: IO[bytes] = process.stderr
        self.heard: list[dict[str, Any]] = []
        self._number = 0

    def send(self, data: bytes) -> None:
        self.into.write(data + b"\n")
        self.into.flush()

    def hear(self) -> dict[str, Any]:
        """The next line, which has to be a frame."""
        line = self.out.readline()
        assert line.endswith(b"\n"), (line, self.process.poll())
        frame: dict[str, Any] = json.loads(line)
        assert frame["jsonrpc"] == "2.0"
        self.heard.append(frame)
        return frame

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """A request and its answer; what else comes meanwhile is kept in `heard`."""
        self._number += 1
        id = f"t{self._number}"
        self.send(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode())
        while (frame := self.hear()).get("id") != id:
            pass
        return frame

    def shake_hands(self, version: str = "2025-11-25") -> dict[str, Any]:
        client = {"name": "tests", "version": "1"}
        answer = self.ask("initialize", protocolVersion=version, capabilities={}, clientInfo=client)
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        result: dict[str, Any] = answer["result"]
        return result

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """A tool's result, as the older revisions have it."""
        result: dict[str, Any] = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        return result

    def end(self) -> tuple[int, bytes, bytes]:
        """Close the pipe and wait: the exit code, what was still printed, and what was complained of."""
        self.into.close()
        rest, complaints = self.out.read(), self.err.read()
        return self.process.wait(SECONDS), rest, complaints


@contextmanager
def listening(cli: Cli, *argv: str) -> Iterator["Loopback"]:
    """`memdir mcp --http` on a free port; its token is in the home's state."""
    with starting(cli, "mcp", "--http", "--port", "0", *argv, stdin=subprocess.DEVNULL) as process:
        assert process.stdout and process.stderr
        line = process.stdout.readline().decode()
        # Only the end of the process cuts the line: then its own message tells why.
        assert line.endswith("\n"), (line, process.stderr.read(), process.wait(SECONDS))
        url, _, rest = line.partition(" ")
        yield Loopback(url, Path(rest.partition(" in ")[2].rstrip(")\n")), process)


class Loopback:
    def __init__(self, url: str, token_file: Path, process: subprocess.Popen[bytes]) -> None:
        self.url, self.token_file, self.process = url, token_file, process
        self.port = urlsplit(url).port or 0
        self.token = token_file.read_text(encoding="ascii").strip()

    def request(
        self,
        body: bytes | Mapping[str, object],
        headers: Mapping[str, str | None] | None = None,
        *,
        method: str = "POST",
        path: str = "/mcp",
    ) -> tuple[int, dict[str, str], bytes]:
        """One request; `headers` replace the right ones, None leaves one out."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given: dict[str, str | None] = {
            "Host": f"127.0.0.1:{self.port}",
            "Authorization": f"Bearer {self.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Content-Length": str(len(data)),
            **(headers or {}),
        }
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            line.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value is not None:
                    line.putheader(name, value)
            line.endheaders(data)
            answer = line.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, found, answer.read()
        finally:
            line.close()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """A tool's result by the newest revision: one request, no handshake."""
        params = {"name": tool, "arguments": arguments, "_meta": MODERN}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        modern = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
        status, _, data = self.request(body, modern)
        assert status == 200, (status, data)
        result: dict[str, Any] = json.loads(data)["result"]
        return result
