"""The kernel's tracing interface through ctypes: seize, resume, look at a system call, change it.

It knows one stopped thread at a time. It does not wait, follow children or know what a call means: tracer.py does.
Registers are changed on x86_64 and aarch64; everywhere else `is_supported` of syscalls.py gives the reason.
"""

import ctypes
import os
import platform
import signal
import struct
from dataclasses import dataclass

MACHINE = platform.machine()
WALL = 0x40000000  # __WALL: wait for threads as well as processes
SYSCALL_STOP = signal.SIGTRAP | 0x80

EVENT_BIRTHS = (1, 2, 3)  # fork, vfork, clone
EVENT_EXEC = 4

_SYSCALL, _POKEUSER = 24, 6
_SEIZE, _GETEVENTMSG, _GET_SYSCALL_INFO = 0x4206, 0x4201, 0x420E
_GETREGSET, _SETREGSET = 0x4204, 0x4205
# TRACESYSGOOD, TRACEFORK, TRACEVFORK, TRACECLONE, TRACEEXEC, EXITKILL
_OPTIONS = 0x01 | 0x02 | 0x04 | 0x08 | 0x10 | 0x100000

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Offsets into struct user of x86_64: the six arguments, the number the kernel will run, the result.
_X86_ARGUMENTS, _X86_NUMBER, _X86_RESULT = (112, 104, 96, 56, 72, 64), 120, 80
_NT_PRSTATUS, _NT_ARM_SYSTEM_CALL = 1, 0x404
_ARM_REGISTERS = 34

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class SyscallStop:
    """One stop at a system call: at its entry (number, arguments) or at its exit (result, negative for an errno)."""

    entering: bool
    number: int = -1
    arguments: tuple[int, ...] = ()
    result: int = 0


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def can_change_calls() -> bool:
    return MACHINE in _AUDIT_ARCH


def seize(pid: int) -> None:
    """Start tracing a running child. Should this process die, the kernel kills the child."""
    _ptrace(_SEIZE, pid, 0, _OPTIONS)


def resume(tid: int, signal_number: int = 0) -> None:
    """Run on to the next entry or exit of a system call, delivering `signal_number` if it is not 0."""
    _ptrace(_SYSCALL, tid, 0, signal_number)


def read_event(tid: int) -> int:
    """The number that comes with an event stop: the new thread at a birth, the former thread id at an exec."""
    message = ctypes.c_ulong()
    _ptrace(_GETEVENTMSG, tid, 0, ctypes.addressof(message))
    return message.value


def read_syscall(tid: int) -> SyscallStop | None:
    """What stopped here; None when it is not a system call of this machine's own kind (a 32-bit program)."""
    buffer = ctypes.create_string_buffer(88)
    _ptrace(_GET_SYSCALL_INFO, tid, len(buffer), ctypes.addressof(buffer))
    kind, arch = struct.unpack_from("=B3xI", buffer)
    if arch != _AUDIT_ARCH.get(MACHINE):
        return None
    if kind == 1:
        number, *arguments = struct.unpack_from("=7Q", buffer, 24)
        return SyscallStop(entering=True, number=number, arguments=tuple(arguments))
    if kind == 2:
        return SyscallStop(entering=False, result=struct.unpack_from("=q", buffer, 24)[0])
    return None


def write_argument(tid: int, index: int, value: int) -> None:
    """At an entry: change one argument of the call about to run."""
    if MACHINE == "x86_64":
        _ptrace(_POKEUSER, tid, _X86_ARGUMENTS[index], value)
    else:
        _write_arm_register(tid, index, value)


def skip_call(tid: int) -> None:
    """At an entry: let the kernel run nothing. The result must then be written at the exit."""
    if MACHINE == "x86_64":
        _ptrace(_POKEUSER, tid, _X86_NUMBER, -1)
    else:
        _regset(_SETREGSET, tid, _NT_ARM_SYSTEM_CALL, ctypes.c_int(-1))


def write_result(tid: int, value: int) -> None:
    """At an exit: what the program will see as the result (negative: an errno)."""
    if MACHINE == "x86_64":
        _ptrace(_POKEUSER, tid, _X86_RESULT, value)
    else:
        _write_arm_register(tid, 0, value)


def read_memory(tid: int, address: int, size: int) -> bytes:
    """Up to `size` bytes of the traced program; fewer at the end of what it has mapped, none at a bad address."""
    fd = os.open(f"/proc/{tid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(fd, size, address)
    except (OSError, OverflowError):
        return b""
    finally:
        os.close(fd)


def _write_arm_register(tid: int, index: int, value: int) -> None:
    registers = (ctypes.c_uint64 * _ARM_REGISTERS)()
    _regset(_GETREGSET, tid, _NT_PRSTATUS, registers)
    registers[index] = value & 0xFFFFFFFFFFFFFFFF
    _regset(_SETREGSET, tid, _NT_PRSTATUS, registers)


def _regset(request: int, tid: int, kind: int, data: "ctypes.Array[ctypes.c_uint64] | ctypes.c_int") -> None:
    vector = _Vector(ctypes.addressof(data), ctypes.sizeof(data))
    _ptrace(request, tid, kind, ctypes.addressof(vector))


def _ptrace(request: int, tid: int, address: int, data: int) -> None:
    done = _libc.ptrace(ctypes.c_long(request), ctypes.c_long(tid), ctypes.c_void_p(address), ctypes.c_void_p(data))
    if done == -1:
        code = ctypes.get_errno()
        raise OSError(code, f"ptrace request {request:#x} on {tid}: {os.strerror(code)}")
