"""Turns that end by hooks while the machine is busy: each is learned, whatever deadline its hook missed (F1)."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from hook_calls import SECONDS, Hooks
from loads import IS_FULL, scaled
from memdir.store.sessions import read_ended, read_queue
from nouns import NOUNS, SHAPES

BUSY = "while True: pass"
AT_ONCE = 8
SESSIONS = 20
MORE = "raven cactus velour ballad trumpet beacon mortar lagoon".split()


def make_facts(count: int) -> list[str]:
    pick, nouns = random.Random(3), [*NOUNS, *MORE]
    pairs = [(a, b) for a in nouns for b in nouns if a < b]
    return [pick.choice(SHAPES).format(a=a, b=b) for a, b in pick.sample(pairs, count)]


def add_turn(hooks: Hooks, session: str, number: int, text: str) -> Path:
    path = hooks.cli.home / ".claude" / "projects" / "-app" / f"{session}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    for role, said in (("user", text), ("assistant", "Done.")):
        id, parent = f"{session}-{number}-{role}", f"{session}-{number}-user" if role == "assistant" else None
        row = {
            "type": role,
            "uuid": id,
            "parentUuid": parent or (f"{session}-{number - 1}-assistant" if number else None),
        }
        row |= {"sessionId": session, "timestamp": "2026-03-05T11:00:00.000Z", "cwd": str(hooks.cli.project)}
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({**row, "message": {"role": role, "content": said}}) + "\n")
    return path


def test_every_turn_that_a_hook_ended_on_a_busy_machine_is_learned(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    hooks = Hooks(tmp_path, MEMDIR_HOOK_PATIENCE="1")
    facts = make_facts(scaled(1_000))
    cores = os.cpu_count() or 1
    running: list[subprocess.Popen[bytes]] = []
    with ExitStack() as busy:
        for _ in range(20 if IS_FULL else 2 * cores):
            process = busy.enter_context(subprocess.Popen([sys.executable, "-c", BUSY]))
            busy.callback(process.kill)
        for number, fact in enumerate(facts):
            session = f"s-{number % SESSIONS}"
            path = add_turn(hooks, session, number // SESSIONS, f"remember that {fact}")
            # The end of a session starts no worker; a worker for each turn would be most of the load.
            event = "stop" if number % 25 == 0 else "session-end"
            table = {"session_id": session, "cwd": str(hooks.cli.project), "transcript_path": str(path)}
            if len(running) == AT_ONCE:
                assert running.pop(0).wait(SECONDS) == 0
            command = [sys.executable, "-P", "-m", "memdir", "hook", event]
            process = subprocess.Popen(command, cwd=hooks.cli.project, env=hooks.cli.environ(), stdin=subprocess.PIPE)
            assert process.stdin is not None
            process.stdin.write(json.dumps(table).encode())
            process.stdin.close()
            running.append(process)
        assert {process.wait(SECONDS) for process in running} == {0}
    home = hooks.cli.home / ".local" / "state" / "memdir"
    record_property(
        "result", f"{len(facts)} turns, {len(read_ended(home))} of them kept by a hook without time for more"
    )
    while read_ended(home) or read_queue(hooks.state):
        done = hooks.cli.real("extract")
        assert done.code == 0, done.err
    texts = "\n".join(path.read_text("utf-8").lower() for path in hooks.cli.memory.glob("*.md"))
    assert [fact for fact in facts if fact.lower() not in texts] == []
