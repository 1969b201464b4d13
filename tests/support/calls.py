"""System calls as records: the numbers of the ones a file store can make, and what their arguments mean.

It decodes a call at its entry into a `Call` with whole paths. It does not see memory that is written through a mapping
(SQLite's -shm file, for one), nor io_uring: memdir uses neither for its own files.
"""

import os
import struct
from collections.abc import Collection
from dataclasses import dataclass

import ptrace

_OPENS = frozenset({"open", "openat", "openat2", "creat"})
WRITES = frozenset({"write", "pwrite64", "writev", "pwritev", "pwritev2"})
READS = frozenset({"read", "pread64", "readv", "preadv", "preadv2"})
SYNCS = frozenset({"fsync", "fdatasync", "sync_file_range", "syncfs", "sync"})
# What leaves a trace on disk. An open counts only when its flags create or truncate; syncs change nothing a kill shows.
MUTATING = (
    _OPENS
    | WRITES
    | {
        *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat"),
        *("mkdir", "mkdirat", "rmdir", "mknod", "mknodat"),
        *("ftruncate", "truncate", "fallocate", "copy_file_range", "sendfile"),
        *("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat"),
        *("utime", "utimes", "futimesat", "utimensat"),
        *("setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr"),
    }
)

# name, number on x86_64, number on aarch64, one letter an argument:
#   d directory descriptor of the next path    p path       t text that is no path of ours (a symlink's target)
#   f descriptor    o flags    n size    v, c vector of buffers and its length    h openat2's "how"    . anything else
_TABLE = """
open 2 - po             openat 257 56 dpo          openat2 437 437 dph       creat 85 - p
read 0 63 f.n           pread64 17 67 f.n          readv 19 65 fvc           preadv 295 69 fvc
preadv2 327 286 fvc     write 1 64 f.n             pwrite64 18 68 f.n        writev 20 66 fvc
pwritev 296 70 fvc      pwritev2 328 287 fvc       fsync 74 82 f             fdatasync 75 83 f
sync_file_range 277 84 f  syncfs 306 267 f         sync 162 81 .             rename 82 - pp
renameat 264 38 dpdp    renameat2 316 276 dpdpo    unlink 87 - p             unlinkat 263 35 dpo
rmdir 84 - p            mkdir 83 - p               mkdirat 258 34 dp         mknod 133 - p
mknodat 259 33 dp       ftruncate 77 46 fn         truncate 76 45 pn         fallocate 285 47 fo.n
link 86 - pp            linkat 265 37 dpdpo        symlink 88 - tp           symlinkat 266 36 tdp
chmod 90 - p            fchmod 91 52 f             fchmodat 268 53 dp        fchmodat2 452 452 dp.o
chown 92 - p            lchown 94 - p              fchown 93 55 f            fchownat 260 54 dp..o
utime 132 - p           utimes 235 - p             futimesat 261 - dp        utimensat 280 88 dp.o
setxattr 188 5 p        lsetxattr 189 6 p          fsetxattr 190 7 f         removexattr 197 14 p
lremovexattr 198 15 p   fremovexattr 199 16 f      copy_file_range 326 285 ..f.n  sendfile 40 71 f..n
flock 73 32 fo          stat 4 - p                 lstat 6 - p               fstat 5 80 f
newfstatat 262 79 dp.o  statx 332 291 dpo          access 21 - p             faccessat 269 48 dp
faccessat2 439 439 dp.o readlink 89 - p            readlinkat 267 78 dp      getdents 78 - f.n
getdents64 217 61 f.n
"""
_AT_FDCWD = -100
_PATH_MAX = 4096
_IOV_MAX = 1024


@dataclass(frozen=True, slots=True)
class Call:
    """One system call in the order of entry. `result` is None if it never returned, a negative errno if it failed.

    `path` (and `path2`, the second name of a rename or link, the target of a symlink) is absolute but not normalised.
    `fd_path` is what the descriptor stood for at entry: the file, or for the *at calls the directory.
    """

    name: str
    path: str = ""
    path2: str = ""
    fd_path: str = ""
    flags: int = 0
    size: int = 0
    result: int | None = None
    tid: int = 0

    @property
    def target(self) -> str:
        return self.path or self.fd_path


def parse_table(machine: str) -> dict[int, tuple[str, str]]:
    """Number to (name, letters) on that machine; empty where the numbers are not known."""
    words = _TABLE.split()
    column = {"x86_64": 1, "aarch64": 2}.get(machine)
    rows = [words[at : at + 4] for at in range(0, len(words), 4)]
    return {int(row[column]): (row[0], row[3]) for row in rows if row[column] != "-"} if column else {}


SHAPES = parse_table(ptrace.MACHINE)


def find_call(tid: int, stop: ptrace.SyscallStop) -> Call | None:
    """The call at whose entry this thread stopped; None for one that is not in the table."""
    shape = SHAPES.get(stop.number)
    if shape is None:
        return None
    name, letters = shape
    paths: list[str] = []
    text = fd_path = ""
    folder = _AT_FDCWD
    flags, size, vector = os.O_CREAT | os.O_WRONLY | os.O_TRUNC if name == "creat" else 0, 0, 0
    for letter, argument in zip(letters, stop.arguments, strict=False):
        if letter == "d":
            folder = _as_int(argument)
            fd_path = fd_path or _read_link(tid, folder)
        elif letter == "p":
            paths.append(_join(tid, folder, _read_text(tid, argument)))
            folder = _AT_FDCWD
        elif letter == "t":
            text = _read_text(tid, argument)
        elif letter == "f":
            fd_path = _read_link(tid, _as_int(argument))
        elif letter == "o":
            flags = argument & 0xFFFFFFFF
        elif letter == "n":
            size = argument
        elif letter == "v":
            vector = argument
        elif letter == "c":
            size = _sum_vector(tid, vector, argument)
        elif letter == "h":
            flags = int.from_bytes(ptrace.read_memory(tid, argument, 8), "little")
    path, path2 = [*paths, "", ""][:2]
    return Call(name, path, path2 or text, fd_path, flags, size, tid=tid)


def is_mutating(call: Call, names: Collection[str] = MUTATING) -> bool:
    if call.name not in names:
        return False
    if call.name not in _OPENS:
        return True
    return bool(call.flags & (os.O_CREAT | os.O_TRUNC)) or call.flags & os.O_TMPFILE == os.O_TMPFILE


def is_below(call: Call, folder: str) -> bool:
    """Does the call name, or hold open, the folder or anything in it? Both the given and the real path count."""
    roots = {folder.rstrip("/"), os.path.realpath(folder)}
    return any(
        place == root or place.startswith(root + "/")
        for root in roots
        for place in (call.path, call.path2, call.fd_path)
    )


def _as_int(argument: int) -> int:
    """A C int as the kernel reads it: the low half of the register, signed."""
    low = argument & 0xFFFFFFFF
    return low - (1 << 32) if low & 0x80000000 else low


def _read_text(tid: int, address: int) -> str:
    if not address:
        return ""
    raw = ptrace.read_memory(tid, address, _PATH_MAX)
    return os.fsdecode(raw.split(b"\0", 1)[0])


def _read_link(tid: int, fd: int) -> str:
    """The path behind a descriptor, "" for the working directory's pseudo descriptor and for a closed one."""
    if fd < 0:
        return ""
    try:
        return os.readlink(f"/proc/{tid}/fd/{fd}")
    except OSError:
        return ""


def _join(tid: int, folder: int, text: str) -> str:
    """Absolute path of `text` seen from a directory descriptor; an empty text means the descriptor itself."""
    if text.startswith("/"):
        return text
    try:
        start = os.readlink(f"/proc/{tid}/cwd") if folder == _AT_FDCWD else _read_link(tid, folder)
    except OSError:
        return text
    return os.path.join(start, text) if text else start


def _sum_vector(tid: int, address: int, count: int) -> int:
    raw = ptrace.read_memory(tid, address, 16 * min(count, _IOV_MAX))
    return sum(length for _, length in struct.iter_unpack("=QQ", raw[: len(raw) // 16 * 16]))
