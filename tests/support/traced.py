"""A forked child under the tracer: held at a gate until seized, marked around its action, killed by its own clock.

It does not decide anything about calls; syscalls.py is the face of these tools.
"""

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable

import ptrace
from calls import Call
from outcome import Outcome, attempt, fork, parse_outcome, render_outcome
from tracer import Change, Tracer

_traced = False


def mark() -> None:
    """Inside a traced action: switch recording on, the next time off (with `arm=False`). Not traced: nothing."""
    if _traced:
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def run_traced(
    action: Callable[[], object], decide: Callable[[Call], Change], *, arm: bool, deadline: float
) -> tuple[Tracer, int, Outcome]:
    """Run `action` in a child under `decide`. The outcome comes back in a memory file: it never fills like a pipe."""
    report = os.memfd_create("outcome")

    def body() -> None:
        if arm:
            mark()
        value, error = attempt(action)
        if arm:
            mark()
        _write_all(report, render_outcome(value, error))

    try:
        tracer = Tracer(start(body, deadline), decide)
        status = finish(tracer)
        return tracer, status, parse_outcome(read_all(report), status)
    finally:
        os.close(report)


def start(body: Callable[[], object], deadline: float) -> int:
    """Fork, seize the child, then let it run `body`; the process id. It never returns into the caller's code."""
    gate, opener = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            os.close(opener)
            if os.read(gate, 1):
                os.close(gate)
                _prepare(deadline)
                body()
                os._exit(0)
        finally:
            os._exit(127)
    try:
        ptrace.seize(pid)
        os.write(opener, b"!")
    except OSError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    finally:
        os.close(gate)
        os.close(opener)
    return pid


def finish(tracer: Tracer) -> int:
    """Trace to the end; TimeoutError if the child's clock ran out."""
    status = tracer.run()
    if status == -signal.SIGALRM:
        last = tracer.calls[-1] if tracer.calls else None
        raise TimeoutError(f"a traced action did not end in time; its last call was {last}")
    return status


def read_all(fd: int) -> bytes:
    return os.pread(fd, os.fstat(fd).st_size, 0)


def _prepare(deadline: float) -> None:
    global _traced
    _traced = True
    gc.freeze()  # what the parent left to collect is not this child's: its finalizers would be traced, and might delete
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.setitimer(signal.ITIMER_REAL, deadline)


def _write_all(fd: int, raw: bytes) -> None:
    view = memoryview(raw)
    while view:
        view = view[os.write(fd, view) :]
