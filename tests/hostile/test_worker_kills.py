"""Turns that end while host or worker is killed: whatever was queued is learned, once."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from loads import ROOT, scaled
from memdir.store import sessions
from memdir.store.files import FileStore
from nouns import NOUNS, SHAPES

HOST = Path(__file__).parents[1] / "support" / "host.py"


def make_facts(count: int, seed: int) -> list[str]:
    pick = random.Random(seed)
    pairs = [(a, b) for a in NOUNS for b in NOUNS if a < b]
    return [pick.choice(SHAPES).format(a=a, b=b) for a, b in pick.sample(pairs, count)]


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def end_turn(memory: Path, transcript: Path, number: int, text: str, pick: random.Random) -> bool:
    """One turn of the host, which may be killed, and so may the worker it started; whether it was queued."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MEMDIR_NOW": "2026-03-05T12:00:00Z"}
    command = [sys.executable, str(HOST), str(memory), str(transcript), str(number), text]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    ) as host:
        try:
            told = host.communicate(timeout=pick.uniform(0.05, 0.5) if pick.random() < 0.3 else 60)[0]
        except subprocess.TimeoutExpired:
            host.kill()
            told = host.communicate()[0]
    lines = told.split()
    if len(lines) > 1 and pick.random() < 0.5:
        # The worker gets some time, and then none: a process that waits for nothing is the clock.
        with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as clock:
            try:
                clock.wait(timeout=pick.uniform(0.05, 0.6))
            except subprocess.TimeoutExpired:
                pass
            clock.kill()
        kill(int(lines[1]))
    return "queued" in lines


def test_every_queued_turn_is_learned_exactly_once_whoever_is_killed(tmp_path: Path) -> None:
    memory, transcript = tmp_path / "place" / "memory", tmp_path / "place" / "s1.jsonl"
    memory.mkdir(parents=True)
    turns = scaled(500)
    pick = random.Random(5)
    facts = make_facts(turns, seed=7)
    queued = [
        fact for number, fact in enumerate(facts) if end_turn(memory, transcript, number, f"remember that {fact}", pick)
    ]
    assert len(queued) > turns // 2
    with FileStore(memory) as store:
        assert store.scan(), "the workers did something before they were killed"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MEMDIR_NOW": "2026-03-05T12:00:00Z"}
    finish = [sys.executable, "-m", "memdir", "--dir", str(memory), "extract"]
    while sessions.read_queue(memory / ".memdir"):
        subprocess.run(finish, env=env, cwd=memory.parent, check=True, capture_output=True)
    with FileStore(memory) as store:
        texts = [store.read(header.name).body for header in store.scan()]
        made = [file.path for change in store.changes() for file in change.files if file.before is None]
    for fact in queued:
        assert sum(fact.lower() in text.lower() for text in texts) == 1, fact
    topics = [path for path in made if not path.endswith("MEMORY.md")]
    assert len(topics) == len(set(topics)), "no memory was made twice"
    assert len(texts) <= len(facts)
