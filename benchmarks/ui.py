"""The page with 10,000 memories: its first page against a bare page of the same bytes, its search against the command line's warm
recall, memory, and 100 tabs of events. Ratios of medians of interleaved runs; run it on an idle machine.

    python benchmarks/ui.py [--memories 10000] [--json]
"""

import argparse
import asyncio
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "support"))

from memdir.recall.pipeline import recall_in_project  # noqa: E402
from memdir.store.open import Project, open_project  # noqa: E402
from ui_server import PageClient, serving  # noqa: E402

QUERIES = (
    "when do we deploy the payment service?",
    "who owns the ledger of region 7?",
    "is staging reset on sunday",
    "retry budget",
)
SUBJECTS = (
    "payment ledger staging deploy retry canary region invoice search login cache queue report export import".split()
)


def plant(folder: Path, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        one, other = SUBJECTS[number % len(SUBJECTS)], SUBJECTS[number * 7 % len(SUBJECTS)]
        text = (
            f"---\nname: The {one} of {other} {number}\ndescription: How the {one} service treats {other} number {number} in region {number % 50}\n"
            f"type: {'project' if number % 3 else 'reference'}\n---\n\nThe {one} service handles {other} {number} by rule {number % 97}; see [[m{number - 1:05}]].\n"
        )
        (folder / f"m{number:05}.md").write_text(text, encoding="utf-8")


BARE = """
import sys
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route
from memdir.interfaces.web.listen import HttpServer, listen
body = open(sys.argv[1], "rb").read()
def show(request): return HTMLResponse(body)
listener = listen(0)
print(listener.getsockname()[1], flush=True)
HttpServer(Starlette(routes=[Route("/", show)])).run([listener])
"""


class Connection:
    """One connection kept alive, as a browser has it."""

    def __init__(self, port: int, cookie: str = "") -> None:
        self._port, self._cookie = port, cookie
        self._link = socket.create_connection(("127.0.0.1", port))

    def get(self, path: str) -> tuple[float, bytes]:
        head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\ncookie: {self._cookie}\r\n\r\n"
        begin = time.perf_counter()
        self._link.sendall(head.encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += self._link.recv(65_536)
        header, _, body = data.partition(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", header.lower())
        size = int(found[1]) if found else 0
        while len(body) < size:
            body += self._link.recv(1_048_576)
        return (time.perf_counter() - begin) * 1000, body


def measure_pages(client: PageClient, folder: Path, runs: int) -> dict[str, float]:
    page = Connection(client.port, client.cookie)
    cold, body = page.get(f"{client.root}/memories")
    (folder / "body.html").write_bytes(body)
    bare_process = subprocess.Popen(
        [sys.executable, "-c", BARE, str(folder / "body.html")], stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert bare_process.stdout is not None
    bare = Connection(int(bare_process.stdout.readline()))
    ours, theirs, fresh = [], [], []
    for number in range(runs):
        ours.append(page.get(f"{client.root}/memories")[0])
        theirs.append(bare.get("/")[0])
        fresh.append(page.get(f"{client.root}/memories?after={50 * number}")[0])  # nobody has asked for this page yet
    bare_process.terminate()
    bare_process.wait()
    first, plain = statistics.median(ours), statistics.median(theirs)
    return {
        "cold_ms": cold, "page_bytes": len(body), "first_ms": first, "bare_ms": plain, "ratio": first / plain,
        "uncached_ms": statistics.median(fresh), "uncached_ratio": statistics.median(fresh) / plain,
    }  # fmt: skip


def measure_search(client: PageClient, project: Project, runs: int) -> dict[str, float]:
    """Each question typed into the page, against the same question on the warm command line and in a warm process."""
    page = Connection(client.port, client.cookie)
    searched, called, inside = [], [], []
    environ = {**os.environ, **dict(project.environment.inherited)}
    for number in range(runs):
        query = QUERIES[number % len(QUERIES)]
        searched.append(page.get(f"{client.root}/memories?q={query.replace(' ', '+').replace('?', '%3F')}+{number}")[0])
        begin = time.perf_counter()
        command = [sys.executable, "-m", "memdir", "recall", "--explain", "--json", f"{query} {number}"]
        subprocess.run(command, cwd=project.places.root.path, env=environ, check=True, capture_output=True)
        called.append((time.perf_counter() - begin) * 1000)
        begin = time.perf_counter()
        recall_in_project(project, f"{query} {number}", peek=True)
        inside.append((time.perf_counter() - begin) * 1000)
    page_ms, cli_ms, warm_ms = map(statistics.median, (searched, called, inside))
    return {
        "search_ms": page_ms,
        "cli_ms": cli_ms,
        "search_ratio": page_ms / cli_ms,
        "in_process_ms": warm_ms,
        "in_process_ratio": page_ms / warm_ms,
    }


async def measure_tabs(client: PageClient, project: Project, tabs: int) -> dict[str, float]:
    """So many tabs wait for events; a file is changed by hand; how long until the first and the last know it."""
    head = f"GET {client.root}/events HTTP/1.1\r\nhost: {client.own}\r\ncookie: {client.cookie}\r\n\r\n".encode()
    links = [await asyncio.open_connection("127.0.0.1", client.port) for _ in range(tabs)]
    for reader, writer in links:
        writer.write(head)
        await writer.drain()
        await reader.readuntil(b"hello")
    begin = time.perf_counter()
    path = project.private.root / "m00000.md"
    path.write_text(path.read_text(encoding="utf-8") + "\nChanged by hand.\n", encoding="utf-8")

    async def wait(reader: asyncio.StreamReader) -> float:
        await asyncio.wait_for(reader.readuntil(b"event: change"), 60)
        return time.perf_counter() - begin

    times = await asyncio.gather(*(wait(reader) for reader, _ in links))
    for _, writer in links:
        writer.close()
    return {"tabs": tabs, "first_event_s": min(times), "last_event_s": max(times)}


def read_memory(pid: int) -> float:
    """Resident memory of a process, in MB."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    return int(found[1]) / 1024 if found else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memdir-ui-bench-") as folder:
        home = Path(folder).resolve()
        root = home / "work"
        (root / ".git").mkdir(parents=True)
        project = open_project(root, environ={"HOME": str(home), "PATH": os.environ["PATH"]})
        plant(project.private.root, options.memories)
        recall_in_project(project, "warm", peek=True)
        with serving(project) as client:
            client.sign_in()
            figures: dict[str, float] = {"memories": options.memories}
            figures |= measure_pages(client, home, options.runs)
            figures |= measure_search(client, project, max(8, options.runs // 4))
            figures |= asyncio.run(measure_tabs(client, project, 100))
            figures["memory_mb"] = read_memory(client.pid)
        project.close()
    rounded = {key: round(value, 2) for key, value in figures.items()}
    sys.stdout.write(
        json.dumps(rounded) + "\n"
        if options.json
        else "".join(f"{key:18} {value:g}\n" for key, value in rounded.items())
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
