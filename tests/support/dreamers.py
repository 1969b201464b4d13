"""Many dreamers started together on one memory directory, with what happens to processes and clocks meanwhile.

    python dreamers.py MEMORY ROUNDS memdir|seeds     prints {"rounds", "faults", "several"} as JSON

A driver forks the dreamers; all wait behind one gate. Each says whether it came in; one that did waits for the driver's
word, and is told to go on or to fail, is killed, or is stopped and goes on later. `seeds` is the scheme of the seeds
(write the PID, read it back) behind the same calls: what it lets happen is what this test is for.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from memdir.dream.lock import FILE, hold_dream, read_last
from memdir.errors import LockedError
from memdir.files import is_alive
from outcome import fork

DREAMERS = 64
HOUR = timedelta(hours=1)


class Checked(Protocol):
    def check(self) -> None: ...


Scheme = Callable[..., AbstractContextManager[Checked]]


class Nothing:
    def check(self) -> None:
        """The seeds look no second time."""


@contextmanager
def hold_as_seeds(root: Path, state: Path, *, now: datetime) -> Iterator[Nothing]:
    """PID and age decide: a living holder is left alone for an hour; else write our PID, and whoever reads his own
    back has it. Between the steps others run, as they do at each `await` of the original."""
    path = root / FILE
    prior = path.stat().st_mtime_ns if path.exists() else None
    body = path.read_text(encoding="ascii") if prior is not None else ""
    age = now.timestamp() - (prior or 0) / 1e9
    if body.isdigit() and is_alive(int(body)) and age < 3600:
        raise LockedError("held", pid=int(body))
    os.sched_yield()
    path.write_text(str(os.getpid()), encoding="ascii")
    os.utime(path, ns=(to_ns(now), to_ns(now)))
    os.sched_yield()
    if path.read_text(encoding="ascii") != str(os.getpid()):
        raise LockedError("lost the race")
    try:
        yield Nothing()
    except RuntimeError:
        if prior is None:
            path.unlink()
        else:
            os.utime(path, ns=(prior, prior))
        raise


@dataclass
class Wave:
    """Dreamers that were started together. `inside` came in, with their clocks; `pids` are all of them."""

    pids: list[int]
    inside: dict[int, datetime]
    out: int
    odd: list[str]
    word: int
    told: int

    def say(self, word: bytes) -> list[str]:
        """The driver's word to each that is inside; answers what became of them."""
        for _ in self.inside:
            os.write(self.word, word)
        answers = [_read_line(self.told).split(" ", 1)[1] for _ in self.inside]
        self.end()
        return answers

    def end(self) -> None:
        for pid in self.pids:
            os.waitpid(pid, 0)
        os.close(self.word)
        os.close(self.told)


@dataclass
class Driver:
    memory: Path
    scheme: Scheme
    base: datetime
    drift: float = 3.0
    chance: random.Random = field(default_factory=lambda: random.Random(6))
    faults: list[str] = field(default_factory=list)
    several: int = 0

    @property
    def file(self) -> Path:
        return self.memory / FILE

    def start(self, count: int = DREAMERS, clock: Callable[[], datetime] | None = None) -> Wave:
        """Start dreamers together; each has a clock of its own, wrong by up to `drift` days."""
        gate_out, gate_in = os.pipe()
        word_out, word_in = os.pipe()
        told_out, told_in = os.pipe()
        clocks: dict[int, datetime] = {}
        for _ in range(count):
            now = clock() if clock else self.base + self.chance.uniform(-24, 24) * self.drift * HOUR
            pid = fork()
            if pid == 0:
                os.close(gate_in)
                os.close(word_in)
                dream(self.memory, self.scheme, now, gate_out, word_out, told_in)
            clocks[pid] = now
        for handle in (gate_out, word_out, told_in):
            os.close(handle)
        os.close(gate_in)
        said = [_read_line(told_out).split(" ", 1) for _ in clocks]
        inside = {int(pid): clocks[int(pid)] for pid, what in said if what == "in"}
        odd = [what for _, what in said if what not in ("in", "out")]
        self.several += len(inside) > 1
        return Wave(list(clocks), inside, sum(what == "out" for _, what in said), odd, word_in, told_out)

    def expect(self, wave: Wave, inside: int, what: str) -> datetime | None:
        """So many came in and all others were refused; answers the clock of the one inside."""
        refused = len(wave.pids) - inside
        if (len(wave.inside), wave.out, wave.odd) != (inside, refused, []):
            self.faults.append(f"{what}: {len(wave.inside)} inside instead of {inside}, {wave.out} refused, {wave.odd}")
        return next(iter(wave.inside.values()), None)

    def expect_time(self, when: datetime | int | None, what: str) -> None:
        """The file's mtime and the time of the last dream are both this; None: there is no file."""
        wanted = when if isinstance(when, int) or when is None else to_ns(when)
        found = self.find_time()
        last = read_last(self.memory)
        if (found, None if last is None else to_ns(last)) != (wanted, wanted):
            self.faults.append(f"{what}: the time is {found}, last {last}, instead of {wanted}")

    def expect_said(self, answers: list[str], wanted: str, what: str) -> None:
        if answers != [wanted]:
            self.faults.append(f"{what}: {answers} instead of {wanted}")

    def find_time(self) -> int | None:
        return self.file.stat().st_mtime_ns if self.file.exists() else None

    def put(self, body: str, when: datetime) -> None:
        """Write as another program does: in place."""
        self.file.write_text(body, encoding="ascii")
        os.utime(self.file, ns=(to_ns(when), to_ns(when)))

    # --- the rounds -------------------------------------------------------------------------------------------------

    def done(self) -> None:
        wave = self.start()
        now = self.expect(wave, 1, "done")
        self.expect_said(wave.say(b"g"), "applied", "done")
        self.expect_time(now, "done")

    def failed(self) -> None:
        prior = self.find_time()
        wave = self.start()
        self.expect(wave, 1, "failed")
        self.expect_said(wave.say(b"f"), "failed", "failed")
        self.expect_time(prior, "failed")

    def killed(self) -> None:
        prior = self.find_time()
        wave = self.start()
        self.expect(wave, 1, "killed")
        for pid in wave.inside:
            os.kill(pid, signal.SIGKILL)
        wave.end()
        last = read_last(self.memory)
        if (None if last is None else to_ns(last)) != prior:
            self.faults.append(f"killed: a dream that was killed counts as one at {last}")
        following = self.start()
        now = self.expect(following, 1, "after a kill")
        self.expect_said(following.say(b"g"), "applied", "after a kill")
        self.expect_time(now, "after a kill")

    def stopped(self) -> None:
        wave = self.start()
        now = self.expect(wave, 1, "stopped")
        for pid in wave.inside:
            os.kill(pid, signal.SIGSTOP)
        late = max(wave.inside.values(), default=self.base) + 2 * HOUR
        others = self.start(8, lambda: late)
        self.expect(others, 0, "while one is stopped")
        others.say(b"g")
        for pid in wave.inside:
            os.kill(pid, signal.SIGCONT)
        self.expect_said(wave.say(b"g"), "applied", "stopped and not displaced")
        self.expect_time(now, "stopped")

    def displaced(self) -> None:
        """Another program puts its PID there while the holder is stopped; the revived one applies nothing."""
        wave = self.start()
        self.expect(wave, 1, "displaced")
        for pid in wave.inside:
            os.kill(pid, signal.SIGSTOP)
        self.put(str(os.getpid()), self.base - 2 * HOUR)
        for pid in wave.inside:
            os.kill(pid, signal.SIGCONT)
        self.expect_said(wave.say(b"g"), "nothing", "displaced")
        self.expect_time(self.base - 2 * HOUR, "displaced")

    def removed(self) -> None:
        wave = self.start()
        self.expect(wave, 1, "removed")
        for pid in wave.inside:
            os.kill(pid, signal.SIGSTOP)
        self.file.unlink()
        for pid in wave.inside:
            os.kill(pid, signal.SIGCONT)
        self.expect_said(wave.say(b"g"), "nothing", "removed")
        self.expect_time(None, "removed")

    def reused(self) -> None:
        """The PID of a killed holder lives again in another process, here this one."""
        before = to_ns(self.base - 30 * HOUR)
        self.put(f"{os.getpid()}\nmemdir\nstart 00000000-1\ntoken x\nlock 1\nbefore {before}\n", self.base)
        wave = self.start()
        self.expect(wave, 1, "reused")
        self.expect_said(wave.say(b"f"), "failed", "reused")
        self.expect_time(before, "reused")

    def foreign(self) -> None:
        """Claude Code dreams, and an hour later nobody believes its PID any more."""
        self.put(str(os.getpid()), self.base)
        soon = self.start(DREAMERS, lambda: self.base + self.chance.uniform(-0.9, 0.9) * HOUR)
        self.expect(soon, 0, "foreign")
        soon.say(b"g")
        late = self.start(DREAMERS, lambda: self.base + self.chance.uniform(1.1, 50) * HOUR)
        now = self.expect(late, 1, "foreign and late")
        self.expect_said(late.say(b"g"), "applied", "foreign and late")
        self.expect_time(now, "foreign and late")


def dream(memory: Path, scheme: Scheme, now: datetime, gate: int, word: int, told: int) -> None:
    """One dreamer's life, in a process of its own; it does not return."""

    def tell(what: str) -> None:
        os.write(told, f"{os.getpid()} {what}\n".encode())

    try:
        os.read(gate, 1)
        with scheme(memory, memory / ".memdir", now=now) as held:
            tell("in")
            if os.read(word, 1) == b"f":
                raise RuntimeError("the driver said so")
            try:
                held.check()
                what = "applied"
            except LockedError:
                what = "nothing"
        tell(what)
    except LockedError:
        tell("out")
    except RuntimeError:
        tell("failed")
    except BaseException as error:
        tell(f"odd {type(error).__name__} {error}")
    finally:
        os._exit(0)


def to_ns(when: datetime) -> int:
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def _read_line(handle: int) -> str:
    line = b""
    while not line.endswith(b"\n"):
        char = os.read(handle, 1)
        if not char:
            raise EOFError(f"a dreamer ended without a word: {line!r}")
        line += char
    return line.decode().rstrip("\n")


def main(memory: Path, rounds: int, name: str) -> dict[str, object]:
    memory.mkdir(parents=True, exist_ok=True)
    is_ours = name == "memdir"
    base = datetime.fromtimestamp(int(time.time()), UTC)
    # The seeds' scheme is given clocks that agree within three minutes, and fails all the same.
    driver = Driver(memory, hold_dream if is_ours else hold_as_seeds, base, 3.0 if is_ours else 0.001)
    kinds = [driver.done, driver.failed, driver.killed, driver.stopped]
    kinds += [driver.displaced, driver.removed, driver.reused, driver.foreign] if is_ours else []
    for number in range(rounds):
        kinds[number % len(kinds)]()
    return {"rounds": rounds, "faults": driver.faults, "several": driver.several}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])))
