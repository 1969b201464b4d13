"""Many dreamers started together on one memory directory: one comes in, whether it finishes, fails, is killed or stopped.

    python dreamers.py MEMORY ROUNDS     prints the faults as a JSON list

A driver forks the dreamers; all wait behind one gate. Each says whether it came in; the one that did waits for the driver's word.
"""

import json
import os
import random
import signal
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memdir.dream.lock import hold_dream, read_last
from memdir.errors import LockedError
from outcome import fork

DREAMERS = 64
HOUR = timedelta(hours=1)
CHANCE = random.Random(6)


def to_ns(when: datetime) -> int:
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def start(memory: Path, count: int = DREAMERS, later: timedelta = HOUR * 0) -> tuple[list[int], list[int], int, int]:
    """Start dreamers together, each with a clock of its own. Returns all of them, those inside, and the two pipes."""
    (gate_out, gate_in), (word_out, word_in), (told_out, told_in) = os.pipe(), os.pipe(), os.pipe()
    pids = []
    for _ in range(count):
        now = datetime.fromtimestamp(int(time.time()), UTC) + CHANCE.uniform(-72, 72) * HOUR + later
        pids.append(fork())
        if pids[-1] == 0:
            os.close(gate_in)
            os.close(word_in)
            dream(memory, now, gate_out, word_out, told_in)
    for handle in (gate_out, word_out, told_in, gate_in):
        os.close(handle)
    said = [_read_line(told_out).split(" ", 1) for _ in pids]
    assert {what for _, what in said} <= {"in", "out"}, said
    return pids, [int(pid) for pid, what in said if what == "in"], word_in, told_out


def dream(memory: Path, now: datetime, gate: int, word: int, told: int) -> None:
    """One dreamer's life, in a process of its own; it does not return."""

    def tell(what: str) -> None:
        os.write(told, f"{os.getpid()} {what}\n".encode())

    try:
        os.read(gate, 1)
        with hold_dream(memory, memory / ".memdir", now=now) as held:
            tell("in")
            if os.read(word, 1) == b"f":
                raise RuntimeError("the driver said so")
            held.check()
        tell("applied")
    except LockedError:
        tell("out")
    except RuntimeError:
        tell("failed")
    except BaseException as error:
        tell(f"odd {type(error).__name__} {error}")
    finally:
        os._exit(0)


def _read_line(handle: int) -> str:
    line = b""
    while not line.endswith(b"\n"):
        char = os.read(handle, 1)
        if not char:
            raise EOFError(f"a dreamer ended without a word: {line!r}")
        line += char
    return line.decode().rstrip("\n")


def play(memory: Path, what: str) -> list[str]:
    before, faults = read_last(memory), list[str]()
    pids, inside, word, told = start(memory)
    if len(inside) != 1:
        faults.append(f"{what}: {len(inside)} inside instead of 1")
    for pid in inside if what in ("killed", "stopped") else ():
        os.kill(pid, signal.SIGKILL if what == "killed" else signal.SIGSTOP)
    if what == "stopped":
        others, late, late_word, late_told = start(memory, 8, 100 * HOUR)
        if late:
            faults.append("a living holder was displaced")
        end(others, late_word, late_told)
        for pid in inside:
            os.kill(pid, signal.SIGCONT)
    answers = []
    if what != "killed":
        os.write(word, (b"f" if what == "failed" else b"g") * len(inside))
        answers = [_read_line(told).split(" ", 1)[1] for _ in inside]
    end(pids, word, told)
    is_counted = read_last(memory) != before
    wanted = {"done": ["applied"], "stopped": ["applied"], "failed": ["failed"], "killed": []}
    if is_counted != (what in ("done", "stopped")) or answers != wanted[what]:
        faults.append(f"{what}: {answers}, counted {is_counted}")
    return faults


def end(pids: list[int], *handles: int) -> None:
    for handle in handles:
        os.close(handle)
    for pid in pids:
        os.waitpid(pid, 0)


def main(memory: Path, rounds: int) -> list[str]:
    memory.mkdir(parents=True, exist_ok=True)
    kinds = ("done", "failed", "killed", "stopped")
    return [fault for number in range(rounds) for fault in play(memory, kinds[number % len(kinds)])]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
