"""Every interface writes into one directory at once, all of them are killed at random, and an editor edits files.

Each acknowledged text stands in a file afterwards, to the letter; no read is torn; every change can be accounted for by the
history. All texts are about different things, so nothing has a reason to be merged or replaced. Ten minutes at full load.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from hook_calls import Hooks
from loads import IS_FULL, ROOT
from memdir.format.frontmatter import parse_fields
from memdir.records import Change
from memdir.store.files import FileStore
from memdir.store.sessions import read_ended, read_queue
from nouns import SHAPES
from ui_server import PageClient

SECONDS = 600.0 if IS_FULL else 20.0
AT_ONCE = 4
KILLED = 0.2  # of all calls
SERVED = 10.0  # seconds after which the page's server is killed
LIBRARY = """
import sys
from pathlib import Path
from memdir import Draft, FileStore
with FileStore(Path(sys.argv[1])) as store:
    store.write(Draft("reference", sys.argv[2], sys.argv[3], "There.", sys.argv[2]))
    print("saved", flush=True)
"""
PAGE = """
import sys
sys.path.append(sys.argv[1])
from ui_server import PageClient
page = PageClient(sys.argv[2])
page.cookie = sys.argv[3]
fields = {"title": sys.argv[4], "description": sys.argv[5], "type": "reference", "home": "private", "body": "There."}
answer = page.post("/do/remember", list(fields.items()), accept="application/json")
print("saved" if answer.status == 200 else answer)
"""
MCP = """
import json, random, subprocess, sys, threading
frames = [
    {"id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "memory_save", "arguments": {
        "type": "reference", "name": sys.argv[2], "description": sys.argv[3], "body": "There."}}},
]
server = subprocess.Popen([sys.executable, "-m", "memdir", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
if float(sys.argv[1]):
    threading.Timer(float(sys.argv[1]), server.kill).start()
for frame in frames:
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\\n")
server.stdin.flush()
for line in server.stdout:
    answer = json.loads(line)
    if answer.get("id") == 2:
        print("refused" if answer["result"]["isError"] else "saved", flush=True)
        break
server.stdin.close()
"""
FIELDS = ("library", "cli", "mcp", "page")  # are given a description; the others are told a sentence
KINDS = (*FIELDS, "hook", "chat", "pin", "dream")


def make_words(chance: random.Random) -> Iterator[str]:
    """Words that nobody has heard, each once."""
    parts = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    known: set[str] = set()
    while True:
        word = "".join(chance.choices(parts, k=3))
        if word not in known:
            known.add(word)
            yield word


class Load:
    """Calls under way, each a process of its own, and what was acknowledged: kind and text."""

    def __init__(self, hooks: Hooks, chance: random.Random, *, kills: float = KILLED) -> None:
        self.hooks, self.chance, self.kills, self.number = hooks, chance, kills, 0
        self.words = make_words(chance)
        self.acknowledged: list[tuple[str, str]] = []
        self.refused: list[tuple[str, str, bytes]] = []
        self.killed = 0
        self.running: list[tuple[subprocess.Popen[bytes], str, str, float]] = []
        self.server: subprocess.Popen[bytes] | None = None
        self.page: PageClient | None = None
        self.served = 0.0

    def serve(self) -> PageClient:
        """The page, by a server that is killed from time to time."""
        if self.kills and self.server is not None and time.monotonic() > self.served:
            self.end_server()
        if self.server is None or self.page is None:
            cli = self.hooks.cli
            command = [sys.executable, "-m", "memdir", "ui"]
            self.server = subprocess.Popen(command, cwd=cli.project, env=cli.environ(), stdout=subprocess.PIPE)
            assert self.server.stdout is not None
            self.page = PageClient(self.server.stdout.readline().decode().strip()).sign_in()
            self.served = time.monotonic() + SERVED
        return self.page

    def end_server(self) -> None:
        if self.server is not None:
            with self.server:
                self.server.kill()
            self.killed += 1
            self.server = None

    def start(self) -> None:
        """One call of one interface, by a process of its own."""
        self.number += 1
        cli, name = self.hooks.cli, f"thing-{self.number}"
        kind = self.chance.choice(KINDS)
        text = f"Where the {next(self.words)} of the {next(self.words)} is kept"
        words, given = ["-m", "memdir"], b""
        if kind in ("hook", "chat"):
            text = self.chance.choice(SHAPES).format(a=next(self.words), b=next(self.words))
        if kind == "library":
            words = ["-c", LIBRARY, str(cli.memory), name, text]
        elif kind == "cli":
            words += ["save", "--type", "reference", "--name", name, "--description", text, "--body", "There."]
        elif kind == "mcp":
            dies = self.chance.uniform(0.5, 3) if self.chance.random() < self.kills else 0
            words = ["-c", MCP, str(dies), name, text]
        elif kind == "page":
            page = self.serve()
            words = ["-c", PAGE, str(ROOT / "tests" / "support"), page.address, page.cookie, name, text]
        elif kind == "hook":
            path = self.hooks.transcript(f"remember that {text}", "Done.", session=f"s-{self.number}")
            words += ["hook", "session-end"]
            table = {"session_id": path.stem, "cwd": str(cli.project), "transcript_path": str(path)}
            given = json.dumps(table).encode()
        elif kind == "chat":
            words, given = [*words, "chat"], f"remember that {text}\n".encode()
        else:
            words += ["pin", "first"] if kind == "pin" else ["dream", "--model", "none"]
        process = subprocess.Popen(
            [sys.executable, *words], cwd=cli.project, env=cli.environ(), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(given)
        process.stdin.close()
        process.stdin = None
        end = time.monotonic() + (self.chance.uniform(0.05, 1.5) if self.chance.random() < self.kills else 120)
        self.running.append((process, kind, text, end))

    def finish(self, *, all_of_them: bool = False) -> None:
        for row in [at for at in self.running if all_of_them or at[0].poll() is not None or at[3] < time.monotonic()]:
            process, kind, text, end = row
            if not all_of_them and process.poll() is None and end < time.monotonic():
                process.kill()
                self.killed += 1
            out = process.communicate(timeout=240)[0]
            self.running.remove(row)
            if kind in ("pin", "dream"):
                continue
            # A hook says nothing: that it ended well is its word. The others say so before they end, and may then be killed.
            said = {"hook": process.returncode == 0, "chat": b"Noted" in out or b"aved" in out}
            if said.get(kind, b"aved" in out):
                self.acknowledged.append((kind, text))
            elif process.returncode >= 0:
                self.refused.append((kind, text, out[-300:]))


def find_removal(store: FileStore, text: str) -> Change | None:
    """The last change that took this text out of a file."""
    for change in store.changes():
        for file in change.files:
            sides = [file.before, file.after] if file.splice is None else [None, None]
            before, after = (b"" if at is None else store.read_content(at) for at in sides)
            if text.lower().encode() in before.lower() and text.lower().encode() not in after.lower():
                return change
    return None


def edit_outside(memory: Path, number: int) -> None:
    """As an editor saves: another file, renamed over the first."""
    target = memory / "first.md"
    text = target.read_text("utf-8").rpartition("Edited")[0] or target.read_text("utf-8")
    (memory / ".first.swp").write_text(f"{text}Edited {number}.\n", encoding="utf-8")
    os.replace(memory / ".first.swp", target)


def test_all_interfaces_at_once_with_kills_and_an_editor_lose_nothing(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    hooks = Hooks(tmp_path)
    hooks.cli.save("first")
    load, memory = Load(hooks, random.Random(9)), hooks.cli.memory
    end, reads, torn = time.monotonic() + SECONDS, 0, []
    with ExitStack() as ends:
        ends.callback(load.end_server)
        while time.monotonic() < end:
            while len(load.running) < AT_ONCE:
                load.start()
            edit_outside(memory, load.number)
            for path in memory.glob("*.md"):
                text = path.read_text("utf-8")
                reads += 1
                if path.name != "MEMORY.md" and parse_fields(text).problem:
                    torn.append(path.name)
            load.finish()
        load.finish(all_of_them=True)
    home = hooks.cli.home / ".local" / "state" / "memdir"
    while read_ended(home) or read_queue(hooks.state):
        assert hooks.cli.real("extract").code == 0
    assert torn == [] and load.killed > 0
    with FileStore(memory) as store:
        store.note_outside()
        texts = "\n".join(store.read(header.name).text.lower() for header in store.scan())
        gone = [(kind, text) for kind, text in load.acknowledged if text.lower() not in texts]
        assert [(*at, find_removal(store, at[1])) for at in gone] == [], "acknowledged, and in no file"
        store.check_history()
    assert not list(memory.glob(".memdir-*.tmp"))
    found = [at for at in hooks.cli("doctor", "--json").json["findings"] if at["level"] == "error"]
    assert found == []
    counts = Counter(kind for kind, _ in load.acknowledged)
    assert set(counts) >= set(FIELDS) | {"hook", "chat"} or not IS_FULL, (counts, load.refused)
    by_kind = ", ".join(f"{kind} {count}" for kind, count in sorted(counts.items()))
    record_property(
        "result",
        f"{len(load.acknowledged)} acknowledged ({by_kind}), 0 lost, {load.killed} killed, 0 torn in {reads:,} reads",
    )
