"""Which system calls does an action make, and what is left when it dies at one of them or one of them fails?

    trace(action)                    its calls, in order
    trace_command(argv)              the calls of a program and everything it starts
    inject_errors(action, ...)       the same with a chosen call failing
    kill_sweep(action, ...)          killed before and after each call that changes the disk

Plain Python on ptrace: no strace, no compiler. Actions run in forked children of a warm parent, so import what they
need before: an import inside the action is traced with it. A kill shows what a dead process leaves behind, not what a
power cut does: the page cache survives (powercut.py takes that away).
"""

import functools
import os
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Generic, Literal, TypeVar

import calls
import ptrace
from calls import MUTATING, READS, SYNCS, WRITES, Call, is_below, is_mutating
from outcome import Outcome
from traced import finish, mark, read_all, run_traced, start
from tracer import PASS, Change, Tracer

__all__ = [
    "MUTATING",
    "READS",
    "SYNCS",
    "WRITES",
    "Ack",
    "Call",
    "Progress",
    "Sweep",
    "Trace",
    "inject_errors",
    "is_below",
    "is_mutating",
    "is_supported",
    "kill_sweep",
    "mark",
    "trace",
    "trace_command",
]

DEADLINE = 30.0
_ACK = "ack"
_NAMING = ("rename", "unlink", "link", "mkdir", "rmdir")

T = TypeVar("T")
Ack = Callable[[bytes], None]
When = Literal["before", "after", "half"]


@dataclass(frozen=True, slots=True)
class Trace:
    """What an action did. `status` is its exit code (negative: a signal), `struck` how many calls were made to fail."""

    calls: tuple[Call, ...]
    status: int
    outcome: Outcome = field(default_factory=Outcome)
    output: bytes = b""
    struck: int = 0

    def named(self, *names: str) -> tuple[Call, ...]:
        return tuple(call for call in self.calls if call.name in names)

    def below(self, folder: str | os.PathLike[str]) -> tuple[Call, ...]:
        """The calls that name, or hold open, something in this folder."""
        return tuple(call for call in self.calls if is_below(call, os.fspath(folder)))


@dataclass(frozen=True, slots=True)
class Progress(Generic[T]):
    """One run of a sweep: where it was killed, or that it ran to its end, and what it had acknowledged by then."""

    place: T
    acked: bytes
    number: int
    when: When
    killed: bool
    calls: tuple[Call, ...]  # the mutating ones, the last of them struck if `killed`
    outcome: Outcome

    def __str__(self) -> str:
        return f"killed {self.when} mutating call {self.number}, {self.calls[-1]}" if self.killed else "not killed"


@dataclass(frozen=True, slots=True)
class Sweep:
    """`points` runs were killed, `acked` of them after an acknowledgement, `unreached` ended before their call came."""

    points: int
    acked: int
    unreached: int
    calls: tuple[Call, ...]


class _Noting:
    """Adds a note to whatever error passes, so a failed check says at which point it failed."""

    def __init__(self, note: str) -> None:
        self._note = note

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is not None:
            error.add_note(self._note)


@functools.cache
def is_supported() -> str:
    """Empty if tracing works here, else the reason it does not."""
    if not sys.platform.startswith("linux"):
        return "ptrace tools are for Linux"
    if not ptrace.can_change_calls() or not calls.SHAPES:
        return f"no table of system calls for {ptrace.MACHINE}"
    try:
        seen = trace(lambda: os.stat("/"), deadline=10.0)
    except OSError as error:
        return f"ptrace does not work here: {error}"
    return "" if seen.calls else "ptrace works here but shows no system calls"


def trace(action: Callable[[], object], *, arm: bool = True, deadline: float = DEADLINE) -> Trace:
    """The calls of `action`, run in a child. With `arm=False` the action says by `mark()` which part is recorded."""
    return _run(action, lambda call: PASS, arm=arm, deadline=deadline)


def trace_command(
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    *,
    deadline: float = DEADLINE,
) -> Trace:
    """The calls of a program from its exec to its end, with those of its children; `output` is stdout and stderr."""
    with tempfile.TemporaryFile() as output:

        def become_program() -> None:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            if cwd is not None:
                os.chdir(cwd)
            os.execvpe(argv[0], list(argv), dict(os.environ if env is None else env))

        tracer = Tracer(start(become_program, deadline), lambda call: PASS, arm_at_exec=True)
        status = finish(tracer)
        output.seek(0)
        return Trace(tuple(tracer.calls), status, output=output.read())


def inject_errors(
    action: Callable[[], object],
    *,
    names: str | Collection[str],
    error: int,
    nth: int = 1,
    later: bool = False,
    within: str | os.PathLike[str] = "",
    arm: bool = True,
    deadline: float = DEADLINE,
) -> Trace:
    """Let the nth call (from 1) of these names fail with errno `error`, with `later` all after it too.

    `within` leaves alone calls outside a folder. `struck` is 0 when the action made fewer than `nth` such calls, which
    is how a loop over `nth` knows that it is done.
    """
    wanted = {names} if isinstance(names, str) else set(names)
    folder = os.fspath(within)
    seen = 0

    def decide(call: Call) -> Change:
        nonlocal seen
        if call.name not in wanted or (folder and not is_below(call, folder)):
            return PASS
        seen += 1
        return Change(error=error) if seen == nth or (later and seen > nth) else PASS

    return _run(action, decide, arm=arm, deadline=deadline)


def kill_sweep(
    action: Callable[[T, Ack], object],
    *,
    setup: Callable[[], T],
    check: Callable[[Progress[T]], object],
    mutating: Collection[str] = MUTATING,
    half_write: bool = False,
    every: int = 1,
    deadline: float = DEADLINE,
) -> Sweep:
    """Kill `action(place, ack)` with SIGKILL around each of its mutating calls; `check` looks at what is left.

    `setup()` gives a fresh place for every run. The action calls `ack(bytes)` when it would answer its caller; that
    write is a point of its own, so there are runs killed right before and right after the answer. With `half_write`
    each write is also cut to half its size and the process killed behind it. A first run to the end finds the calls;
    `check` sees that one too. An error from `check` carries a note that names the point.

    With `every` above 1 it is a sample: before each call that names or removes a file, before every n-th of the
    others, and around the last one. The disk before a call is that after the one in front of it, so that side is left
    out.
    """

    def strike(number: int, when: When) -> Progress[T]:
        progress = _strike(action, setup(), mutating, number, when, deadline)
        with _Noting(str(progress)):
            check(progress)
        return progress

    dry = strike(0, "before")
    if dry.outcome.kind:
        raise AssertionError(f"the action fails even when nobody kills it:\n{dry.outcome.detail or dry.outcome.error}")
    plan = list(_plan_strikes(dry.calls, half_write=half_write, every=every))
    killed = [progress for progress in (strike(*point) for point in plan) if progress.killed]
    return Sweep(len(killed), sum(bool(progress.acked) for progress in killed), len(plan) - len(killed), dry.calls)


def _plan_strikes(calls: Sequence[Call], *, half_write: bool, every: int) -> Iterator[tuple[int, When]]:
    for number, call in enumerate(calls, start=1):
        if every > 1 and number < len(calls):
            if number % every == 0 or call.name.startswith(_NAMING):
                yield number, "before"
            continue
        yield number, "before"
        yield number, "after"
        if half_write and _can_halve(call):
            yield number, "half"


def _can_halve(call: Call) -> bool:
    """Half an acknowledgement is none, so that write is left whole; vectors have no single size to change."""
    return call.name in {"write", "pwrite64"} and call.size > 1 and not call.fd_path.startswith(f"/memfd:{_ACK}")


def _run(action: Callable[[], object], decide: Callable[[Call], Change], *, arm: bool, deadline: float) -> Trace:
    tracer, status, result = run_traced(action, decide, arm=arm, deadline=deadline)
    return Trace(tuple(tracer.calls), status, result, struck=tracer.struck)


def _strike(
    action: Callable[[T, Ack], object], place: T, names: Collection[str], number: int, when: When, deadline: float
) -> Progress[T]:
    """One run, killed at its `number`-th mutating call (0: not at all)."""
    change = Change(kill="before") if when == "before" else Change(kill="after", halve=when == "half")
    seen: list[Call] = []

    def decide(call: Call) -> Change:
        if not is_mutating(call, names):
            return PASS
        seen.append(call)
        return change if len(seen) == number else PASS

    acks = os.memfd_create(_ACK)

    def acknowledge(words: bytes) -> None:
        os.write(acks, words)

    try:
        done = _run(lambda: action(place, acknowledge), decide, arm=True, deadline=deadline)
        return Progress(place, read_all(acks), number, when, bool(done.struck), tuple(seen), done.outcome)
    finally:
        os.close(acks)
