"""Every interface writes into one directory at once, all of them are killed at random, and an editor edits files.

Nothing acknowledged is lost, no read is torn, every change can be accounted for by the history. Ten minutes at full load.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hooking import Hooks
from hostile.test_ended_turns import make_facts
from loads import IS_FULL
from memdir.format.frontmatter import parse_fields
from memdir.store.files import FileStore
from memdir.store.sessions import read_ended, read_queue

SECONDS = 600.0 if IS_FULL else 30.0
AT_ONCE = 4
KILLED = 0.2  # of all calls
LIBRARY = """
import sys
from pathlib import Path
from memdir import Draft, FileStore
with FileStore(Path(sys.argv[1])) as store:
    store.write(Draft("reference", sys.argv[2], f"Where the {sys.argv[2]} of the harbour is kept", "There.", sys.argv[2]))
    print("saved", flush=True)
"""


class Load:
    def __init__(self, hooks: Hooks, chance: random.Random) -> None:
        self.hooks, self.chance, self.number = hooks, chance, 0
        self.acknowledged: list[str] = []
        self.killed = 0
        self.facts = make_facts(1_000)  # each about something else, so that none is taken for another's correction
        self.running: list[tuple[subprocess.Popen[bytes], str, float]] = []

    def start(self) -> None:
        """One call of one interface, by a process of its own; `name` is what it saves."""
        self.number += 1
        name, cli = f"thing-{self.number}", self.hooks.cli
        kind = self.chance.choice(("library", "cli", "hook", "chat", "pin", "dream"))
        words, given = ["-m", "memdir"], b""
        if kind == "library":
            words = ["-c", LIBRARY, str(cli.memory), name]
        elif kind == "cli":
            text = f"Where the {name} of the harbour is kept"
            words += ["save", "--type", "reference", "--name", name, "--description", text, "--body", "There."]
        elif kind == "hook":
            name = self.facts.pop()
            path = self.hooks.transcript(f"remember that {name}", "Done.", session=f"s-{self.number}")
            words += ["hook", "session-end"]
            given = json.dumps(
                {"session_id": path.stem, "cwd": str(cli.project), "transcript_path": str(path)}
            ).encode()
        elif kind == "chat":
            name = self.facts.pop()
            words, given = [*words, "chat"], f"remember that {name}\n".encode()
        else:
            words += ["pin", "first"] if kind == "pin" else ["dream", "--model", "none"]
            name = ""
        process = subprocess.Popen(
            [sys.executable, *words], cwd=cli.project, env=cli.environ(), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(given)
        process.stdin.close()
        process.stdin = None
        end = time.monotonic() + (self.chance.uniform(0.05, 1.5) if self.chance.random() < KILLED else 60)
        self.running.append((process, name, end))

    def finish(self, *, all_of_them: bool = False) -> None:
        for row in [at for at in self.running if all_of_them or at[0].poll() is not None or at[2] < time.monotonic()]:
            process, name, end = row
            if not all_of_them and process.poll() is None and end < time.monotonic():
                process.kill()
                self.killed += 1
            out = process.communicate(timeout=120)[0]
            if process.returncode == 0 and name and (b"aved" in out or b"Noted" in out or (not out and " " in name)):
                self.acknowledged.append(name)
            self.running.remove(row)


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
        store.notice()
        texts = "\n".join(store.read(header.name).text.lower() for header in store.scan())
        past = {file.path for change in store.changes() for file in change.files}
        # A dream may have merged two of them; then the history has the one that went.
        lost = [name for name in load.acknowledged if name.lower() not in texts and f"{name}.md" not in past]
        assert lost == [] and store.find_damage() == ()
    assert not list(memory.glob(".memdir-*.tmp"))
    found = [at for at in hooks.cli("doctor", "--deep", "--json").json["findings"] if at["level"] == "error"]
    assert found == []
    record_property(
        "result", f"{len(load.acknowledged)} acknowledged, 0 lost, {load.killed} killed, 0 torn in {reads:,} reads"
    )
