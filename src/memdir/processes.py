"""Is a process alive, and is it still the one that was meant: a PID alone is given to another sooner or later.

What this room does not do: end a process, or wait for one. Where there is no `/proc`, nobody knows when one began, and
a PID that is alive passes for the one that was meant.
"""

import errno
import os

_GONE = ("Z", "X", "x")  # ended, and only not yet asked about


def is_alive(pid: int) -> bool:
    """Whether there is such a process, anybody's; one that has ended and was not waited for does not count."""
    if not 0 < pid < 2**31:
        return False
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    facts = _read_facts(pid)
    return facts is None or facts[0] not in _GONE


def read_start(pid: int) -> str:
    """A mark that no other process with this PID has, also after a restart of the machine; empty if nobody knows."""
    facts = _read_facts(pid)
    boot = _read("/proc/sys/kernel/random/boot_id").strip()
    return f"{boot[:8]}-{facts[1]}" if facts and boot else ""


def find_began(pid: int) -> float | None:
    """When a process began, in seconds since 1970 to about one second; None if nobody knows."""
    facts = _read_facts(pid)
    boot = next((line.split()[1] for line in _read("/proc/stat").splitlines() if line.startswith("btime ")), "")
    return int(boot) + facts[1] / os.sysconf("SC_CLK_TCK") if facts and boot.isdigit() else None


def _read_facts(pid: int) -> tuple[str, int] | None:
    """The state of a process, and its start in ticks since the machine's."""
    # The program's name stands in brackets and may hold anything; what is wanted comes after the last one.
    fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (fields[0], int(fields[19])) if len(fields) > 19 and fields[19].isdigit() else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
