"""Follows one process, its threads and its children from system call to system call, and strikes where told to.

`Tracer.run` lives in the thread that seized the process. It records calls between two marks (a SIGSTOP the process
sends itself and never gets) or from an exec on. When the process ends, whatever it left behind is killed: nothing
outlives a trace. It reaps only processes it traces, so other children of the test run are safe.
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import ptrace
from calls import Call, find_call

# How long to sleep at most before asking again: another thread of the test run may have taken our SIGCHLD.
_ASK_AGAIN = 0.002


@dataclass(frozen=True, slots=True)
class Change:
    """What to do with a call: kill everything before or after it runs, halve its size first, or let it fail."""

    kill: Literal["", "before", "after"] = ""
    halve: bool = False
    error: int = 0


PASS = Change()


class Tracer:
    """`calls` are those recorded so far; `struck` counts how often `decide` asked for more than PASS."""

    def __init__(self, root: int, decide: Callable[[Call], Change], *, arm_at_exec: bool = False) -> None:
        self.calls: list[Call] = []
        self.struck = 0
        self._root = root
        self._decide = decide
        self._arm_at_exec = arm_at_exec
        self._armed = False
        self._killed = False
        self._status: int | None = None
        self._threads: dict[int, None] = {root: None}  # a dict for its order: whoever was served goes to the end
        self._inside: dict[int, tuple[int, Change]] = {}

    def run(self) -> int:
        """Trace to the end of the root process; its exit code, negative for a signal."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            while self._status is None:
                self._step(*self._wait())
            return os.waitstatus_to_exitcode(self._status)
        finally:
            self._end_all()
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _wait(self) -> tuple[int, int]:
        """The next stop or end of a traced thread. One thread, the common case, blocks; several are asked in turn."""
        while self._threads:
            alone = len(self._threads) == 1
            for tid in tuple(self._threads):
                try:
                    found, status = os.waitpid(tid, ptrace.WALL | (0 if alone else os.WNOHANG))
                except ChildProcessError:  # swallowed by an exec in another thread
                    del self._threads[tid]
                    continue
                if found:
                    self._threads[tid] = self._threads.pop(tid)
                    return tid, status
            if not alone:
                signal.sigtimedwait({signal.SIGCHLD}, _ASK_AGAIN)
        raise ChildProcessError(f"process {self._root} vanished without a status")

    def _step(self, tid: int, status: int) -> None:
        if not os.WIFSTOPPED(status):
            self._forget(tid, status)
            return
        try:
            deliver = self._look(tid, status >> 16, os.WSTOPSIG(status))
            if not self._killed:
                ptrace.resume(tid, deliver)
        except ProcessLookupError:  # killed between its stop and our question; its end is reported next
            return

    def _look(self, tid: int, event: int, number: int) -> int:
        """Handle one stop; the signal to deliver with the next step."""
        if event in ptrace.EVENT_BIRTHS:
            self._threads.setdefault(ptrace.read_event(tid))
        elif event == ptrace.EVENT_EXEC:
            self._armed = self._armed or self._arm_at_exec
            former = ptrace.read_event(tid)
            if former != tid:
                self._threads.pop(former, None)
        elif event:  # the first stop of a newborn, or a group stop: neither is kept waiting
            pass
        elif number == ptrace.SYSCALL_STOP:
            self._look_at_syscall(tid)
        elif number == signal.SIGSTOP:
            self._armed = not self._armed
        else:
            return number
        return 0

    def _look_at_syscall(self, tid: int) -> None:
        inside = self._inside.pop(tid, None)
        if inside is None and not self._armed:
            return
        stop = ptrace.read_syscall(tid)
        if stop is None:
            return
        if not stop.entering:
            if inside is not None:
                self._leave(tid, *inside, stop.result)
            return
        call = find_call(tid, stop)
        if call is not None:
            self._enter(tid, call)

    def _enter(self, tid: int, call: Call) -> None:
        change = self._decide(call)
        self.struck += change != PASS
        if change.halve:
            call = replace(call, size=call.size // 2)
            ptrace.write_argument(tid, 2, call.size)
        if change.error:
            ptrace.skip_call(tid)
        self._inside[tid] = (len(self.calls), change)
        self.calls.append(call)
        if change.kill == "before":
            self._kill()

    def _leave(self, tid: int, slot: int, change: Change, result: int) -> None:
        if change.error:
            result = -change.error
            ptrace.write_result(tid, result)
        self.calls[slot] = replace(self.calls[slot], result=result)
        if change.kill == "after":
            self._kill()

    def _kill(self) -> None:
        self._killed = True
        for tid in self._threads:
            try:
                os.kill(tid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def _forget(self, tid: int, status: int) -> None:
        self._threads.pop(tid, None)
        self._inside.pop(tid, None)
        if tid == self._root:
            self._status = status

    def _end_all(self) -> None:
        self._kill()
        while self._threads:
            try:
                tid, status = self._wait()
            except ChildProcessError:
                return
            if not os.WIFSTOPPED(status):
                self._forget(tid, status)
