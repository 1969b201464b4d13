"""Small files of memdir and its hosts, locks, and information about processes.

The first part is for settings, pointers and records, whose location the user or memdir has chosen: they are read up to
a size limit and replaced atomically. The second part is for files below a memory directory, whose names are untrusted:
it checks the names and follows no links.
"""

import errno
import fcntl
import os
import re
import stat
import sys
import time
import unicodedata
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from memdir.errors import DiskError, LockedError, MemdirError, NotFoundError, PathError
from memdir.frozen import dataclass
from memdir.limits import FILE_BYTES, HEADER_BYTES, HEADER_LINES, INDEX_FILE_BYTES, NAME_BYTES, NAME_CHARS, NAME_DEPTH
from memdir.records import Signature
from memdir.text import shorten

NOFOLLOW, CLOEXEC, _NONBLOCK = os.O_NOFOLLOW, os.O_CLOEXEC, os.O_NONBLOCK
# A message and a hint for the errors of a file system.
_WORDS = {
    errno.ENOSPC: ("the disk is full", "free some space; nothing was changed"),
    errno.EDQUOT: ("the disk quota is used up", "free some space; nothing was changed"),
    errno.EROFS: ("the file system is read-only", "remount it writable or set autoMemoryDirectory to another place"),
    errno.EACCES: ("no permission", "check who owns it: `ls -ld` shows it"),
    errno.EPERM: ("no permission", "check who owns it: `ls -ld` shows it"),
    errno.EMFILE: ("too many open files", "raise `ulimit -n` or close other programs"),
    errno.ENFILE: ("too many open files on this machine", "close other programs"),
    errno.EFBIG: ("the file would be larger than allowed", "raise `ulimit -f`"),
    errno.EIO: ("the disk reports an error", "check the disk; nothing was acknowledged"),
}


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The content of a file, or None with the problem. None without a problem means that the file does not exist."""

    data: bytes | None
    problem: str = ""


def read_small(path: str | Path, limit: int, *, follow: bool = True) -> ReadResult:
    """Read a regular file of at most `limit` bytes. Never raises, and never blocks on a FIFO."""
    result = read_head(path, limit + 1, follow=follow)
    if result.data is not None and len(result.data) > limit:
        return ReadResult(None, f"it is larger than {limit:,} bytes")
    return result


def read_head(path: str | Path, count: int, *, follow: bool = True) -> ReadResult:
    """Read up to `count` bytes from the start of a regular file. Never raises, and never blocks on a FIFO."""
    try:
        handle = os.open(path, os.O_RDONLY | _NONBLOCK | (0 if follow else NOFOLLOW))
    except (FileNotFoundError, NotADirectoryError):
        return ReadResult(None)
    except ValueError:  # what Python raises for a NUL inside a path
        return ReadResult(None, "its path holds a NUL")
    except OSError as error:
        return ReadResult(None, "it is a link" if error.errno == errno.ELOOP else _describe_error(error))
    data = b""
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ReadResult(None, "it is not a regular file")
        while len(data) < count and (chunk := os.read(handle, count - len(data))):
            data += chunk
        return ReadResult(data)
    except OSError as error:
        return ReadResult(None, _describe_error(error))
    finally:
        os.close(handle)


def is_plain_file(path: str | Path) -> bool:
    """Return whether this is a regular file, not a link, FIFO or folder. Never raises, unlike `Path.is_file`."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def make_private_dirs(path: Path) -> None:
    """Create a directory and its missing parents with mode 0700; existing ones keep their mode."""
    if path.is_dir():
        return
    make_private_dirs(path.parent)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        if not path.is_dir():
            raise
    else:
        sync_dir(path.parent)


def write_private(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace a file atomically, mode 0600: readers see the old bytes or the new ones; if `durable`, even after a crash."""
    temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
    with raise_disk_errors(path):
        make_private_dirs(path.parent)
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                if durable:
                    os.fsync(handle)
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        if durable:
            sync_dir(path.parent)


def append_private(path: Path, line: bytes) -> int:
    """Append a line, mode 0600, without flushing, safely from several processes. Return the file's new length."""
    make_private_dirs(path.parent)
    # Without waiting: the file may have been replaced by a FIFO without a reader.
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | NOFOLLOW | _NONBLOCK, 0o600)
    try:
        os.write(handle, line + b"\n")
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def sync_dir(path: Path) -> None:
    """Flush the entries of a directory to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def describe_errno(code: int, words: str = "") -> tuple[str, str]:
    """Return the message and the hint for a file system error; `words` is the message for an unknown error."""
    return _WORDS.get(code, (words, "nothing was changed; try again when it is fixed"))


def disk_error(error: OSError, path: str | Path) -> DiskError:
    words, hint = describe_errno(error.errno or 0, _describe_error(error))
    message = f"cannot write {shorten(str(path), 120)}: {words}"
    return DiskError(message, path=str(path), errno=error.errno or 0, hint=hint)


@contextmanager
def raise_disk_errors(path: str | Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise disk_error(error, path) from error


def _describe_error(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


@contextmanager
def hold(folder: int, name: str, *, seconds: float) -> Iterator[int]:
    """Hold the lock file `name` in an open folder and yield its descriptor. Waits at most `seconds`.

    The lock is an operating system lock (`flock`), which is released when its process ends; the PID in the file is
    only informative. The file is never removed, so there is no race about which inode is locked. Network file systems
    without lock support do not exclude other machines. No model is called while a lock is held.
    """
    handle = os.open(name, os.O_RDWR | os.O_CREAT | NOFOLLOW | CLOEXEC, 0o600, dir_fd=folder)
    try:
        _wait_for_lock(handle, seconds)
        os.pwrite(handle, f"{os.getpid():<20}\n".encode(), 0)
        yield handle
        # An empty file means that the last holder ended normally; a PID without a holder, that it was killed.
        os.ftruncate(handle, 0)
    finally:
        os.close(handle)


@contextmanager
def hold_folder(folder: Path, name: str, *, seconds: float, create: bool = False) -> Iterator[int]:
    """Hold a lock like `hold` in the folder at this path, which must exist or is created."""
    with raise_disk_errors(folder):
        if create:
            make_private_dirs(folder)
        handle = os.open(folder, _FOLDER)
    try:
        with hold(handle, name, seconds=seconds) as lock:
            yield lock
    finally:
        os.close(handle)


def _wait_for_lock(handle: int, seconds: float) -> None:
    deadline, pause = time.monotonic() + seconds, 0.0005
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                raise
        if time.monotonic() >= deadline:
            break
        # Random, because processes that wake together would only collide again.
        time.sleep(pause * (0.5 + os.urandom(1)[0] / 255))
        pause = min(pause * 2, 0.02)
    text = os.pread(handle, 20, 0).decode("ascii", "replace").strip()
    pid = int(text) if text.isdigit() else None
    raise LockedError(
        f"the memory directory has been locked by {f'process {pid}' if pid else 'another process'} for more than {seconds:g} s",
        pid=pid,
        since=os.fstat(handle).st_mtime,
        hint="wait for it or end it; the lock ends with its process",
    )


def find_lock_holder(*paths: Path) -> int | None:
    """Return the PID of another process that holds a lock on one of these files, where `/proc` tells, or None."""
    inodes = {str(path.stat().st_ino) for path in paths if path.exists()}
    for row in map(str.split, _read_text("/proc/locks").splitlines()):
        if len(row) == 8 and row[5].rpartition(":")[2] in inodes and row[4].isdigit() and int(row[4]) != os.getpid():
            return int(row[4])
    return None


def is_alive(pid: int) -> bool:
    """Return whether a process with this PID exists, whoever owns it. Zombies do not count."""
    if not 0 < pid < 2**31:
        return False
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    facts = _read_process(pid)
    return facts is None or facts[0] not in ("Z", "X", "x")


def read_start(pid: int) -> str:
    """Return a value unique to this process even if its PID is reused; "" if `/proc` does not provide one."""
    facts = _read_process(pid)
    boot = _read_text("/proc/sys/kernel/random/boot_id").strip()
    return f"{boot[:8]}-{facts[1]}" if facts and boot else ""


def find_began(pid: int) -> float | None:
    """Return when a process started, in seconds since 1970, accurate to about a second, or None without `/proc`."""
    facts = _read_process(pid)
    boot = next((line.split()[1] for line in _read_text("/proc/stat").splitlines() if line.startswith("btime ")), "")
    return int(boot) + facts[1] / os.sysconf("SC_CLK_TCK") if facts and boot.isdigit() else None


def _read_process(pid: int) -> tuple[str, int] | None:
    # The program's name is in brackets and may contain anything; the fields follow the last bracket.
    fields = _read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (fields[0], int(fields[19])) if len(fields) > 19 and fields[19].isdigit() else None


def _read_text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def start_detached(cwd: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> int:
    """Start `memdir ARGUMENTS` in a directory as a process that outlives this one; returns its PID.

    `environ` holds its environment variables, by default those of this process. Python gets `-P`, because the directory
    may be any project, and a `json.py` in it must not be imported.
    """
    # Imported here: most calls start no process, and every prompt hook would pay for it.
    import subprocess

    null = subprocess.DEVNULL
    command = [sys.executable, "-P", "-m", "memdir", *arguments]
    process = subprocess.Popen(
        command, cwd=cwd, env=environ, stdin=null, stdout=null, stderr=null, start_new_session=True, close_fds=True
    )
    process.returncode = 0  # without it, the interpreter would warn that nobody waits for this child
    return process.pid


# --- files below a memory directory ----------------------------------------------------------------------------------
# All access to files below a memory directory: names by a strict grammar, files reached without following a link.
#
# Every path is walked from a directory descriptor, one segment at a time: checking a path first and opening it
# afterwards does not protect against a process that swaps a folder for a link. Targets must be regular files with one
# link. Reads are bounded. A write is staged next to its target, flushed and renamed; the folder is flushed once for all
# renames.
#
# The guard does not protect against root, nor against a process that already writes as this user inside the memory
# directory. The root itself may be a link; nothing below it may.

STATE = ".memdir"  # the folder of memdir's own files inside a memory directory
INDEX_FOLDED = "memory"
INDEX_COPY = "it is a copy of the index, as sync tools make them"
Stat = tuple[int, ...]  # a Signature as a tuple, which is faster to make: inode, size, mtime_ns, ctime_ns
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in "123456789¹²³")})
# Invisible letters, which can make two names look alike.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | {chr(code) for code in range(0xFE00, 0xFE10)}
_MOST = 2**63 - 1
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | CLOEXEC
_TEMP_PREFIX, _TEMP_SUFFIX = ".memdir-", ".tmp"
_TYPES = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


@dataclass(frozen=True, slots=True)
class DiskEntry:
    """An entry below a memory directory. `refusal` is the reason why it is not read, or "" for a plain file."""

    path: str
    signature: Signature
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class ChangedListing:
    """The new, replaced and deleted files in a directory since a listing, and the stats of all its folders."""

    changed: Mapping[str, Stat]
    gone: Sequence[str]
    marks: Mapping[str, Stat]


def check_root(path: str) -> None:
    """Raise PathError if this path can never be a memory directory. Does not access the disk."""
    drive, rest = (path[:2], path[2:]) if re.match(r"[A-Za-z]:", path) else ("", path)
    reason = ""
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        reason = "no file name can have this form"
    if "\0" in path:
        reason = "it contains a NUL character"
    elif re.match(r"[/\\]{2}", path):
        reason = "it is a network path"
    elif drive and not rest.strip("/\\."):
        reason = "it is the root of a drive"
    elif not os.path.isabs(path):
        reason = "it is not an absolute path"
    elif len([part for part in re.split(r"[/\\]" if drive else "/", os.path.normpath(rest)) if part]) < 2:
        reason = "it is the root of the file system, or directly below it"
    if reason:
        raise PathError(path, reason, hint="pass the full path of a separate directory, at least two levels deep")


def resolve_root(path: Path | str) -> Path:
    """Return the absolute path of a memory directory. Raises PathError if it starts with `~` or is a Windows path."""
    if re.match(r"~|[A-Za-z]:|\\", str(path)):
        check_root(str(path))
    return Path(path).absolute()


def check_name(name: str) -> tuple[str, ...]:
    """Return the segments of a memory's name. Raises PathError with the reason if the name is invalid."""
    segments = tuple(name.split("/"))
    if len(segments) > NAME_DEPTH:
        raise PathError(shorten(name, 120), f"more than {NAME_DEPTH} folders deep")
    for segment in segments:
        if reason := find_refusal(segment):
            hint = "use letters, digits, `-` and `_`, with `/` between folders"
            raise PathError(shorten(name, 120), reason, hint=hint)
    if segments[0].casefold() == "logs" and len(segments) > 1:
        raise PathError(shorten(name, 120), "`logs/` is reserved for daily logs", hint="choose another folder")
    return segments


def find_refusal(segment: str) -> str:
    if not segment:
        return "a name or folder is empty"
    if segment.startswith("."):
        return "it begins with a dot"
    if unicodedata.normalize("NFC", segment) != segment:
        return "it is not in Unicode normal form C"
    for before, char in zip(" " + segment, segment, strict=False):
        if not is_name_char(char, before):
            return f"{char!r} is not a letter, digit, `-` or `_`"
    if len(segment) > NAME_CHARS or len(segment.encode()) > NAME_BYTES:
        return f"it is longer than {NAME_CHARS} characters or {NAME_BYTES} bytes"
    folded = unicodedata.normalize("NFKC", segment).casefold()
    if folded == INDEX_FOLDED:
        return "that is the name of the index"
    return "that is a device name on Windows" if folded in _DEVICES else ""


def check_path(path: str) -> None:
    """Raise PathError if a path contains `..`, a hidden segment or a NUL; other unusual names can be read."""
    for segment in path.split("/"):
        if not segment or segment.startswith(".") or "\0" in segment or "\\" in segment or not _is_utf8(segment):
            raise PathError(shorten(path, 120), "not a valid memory name")


def is_name_char(char: str, before: str) -> bool:
    """Return whether a name may contain this character: a letter, decimal digit, `-`, `_`, or a mark on a letter."""
    if char.isascii():
        return char.isalnum() or char in "-_"
    if char in _INVISIBLE or 0xE0000 <= ord(char) <= 0xE0FFF:
        return False
    category = unicodedata.category(char)
    is_mark = category in ("Mn", "Mc") and unicodedata.category(before)[0] in "LM"
    return category[0] == "L" or category == "Nd" or is_mark


@contextmanager
def open_root(path: Path, *, create: bool = False) -> Iterator[int]:
    """Yield a descriptor of a memory directory; `create` makes it and its parents with mode 0700."""
    check_root(str(path))
    with disk_errors(str(path)):
        if create:
            make_private_dirs(path)
        try:
            root = os.open(path, _FOLDER)
        except FileNotFoundError:
            raise NotFoundError(f"no memory directory at {path}", name=str(path)) from None
        except NotADirectoryError:
            raise PathError(str(path), "it is not a directory") from None
    try:
        yield root
    finally:
        os.close(root)


def read_inode(root: int) -> tuple[int, int]:
    """Return the device and inode of an open directory."""
    facts = os.fstat(root)
    return facts.st_dev, facts.st_ino


@contextmanager
def open_existing(path: Path) -> Iterator[int | None]:
    """Yield a descriptor as `open_root` does, or None if the directory does not exist."""
    with ExitStack() as stack:
        root = None
        with suppress(NotFoundError):
            root = stack.enter_context(open_root(path))
        yield root


@contextmanager
def open_folder(root: int, segments: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
    """Yield a descriptor of a folder below the root, opened without following links."""
    current = os.dup(root)
    try:
        for depth, segment in enumerate(segments, 1):
            try:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(segment, 0o700, dir_fd=current)
                        flush(current)
                following = os.open(segment, _FOLDER | NOFOLLOW, dir_fd=current)
            except OSError as error:
                if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _is_link(current, segment)):
                    raise PathError("/".join(segments[:depth]), "it is a symbolic link") from None
                raise
            os.close(current)
            current = following
        yield current
    finally:
        os.close(current)


@contextmanager
def open_state(root: int, path: Path, state: Path) -> Iterator[int]:
    """Yield a descriptor of the folder for memdir's own files, at `path` below the open root or elsewhere."""
    inside = state == path / STATE
    with open_folder(root, (STATE,), create=True) if inside else open_root(state, create=True) as folder:
        yield folder


@contextmanager
def open_plain(folder: int, leaf: str, path: str) -> Iterator[int]:
    """Open a regular file for reading, without blocking on a FIFO or touching a device."""
    facts = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(facts.st_mode):
        raise PathError(path, f"it is {_describe_type(facts.st_mode)}")
    try:
        handle = os.open(leaf, os.O_RDONLY | os.O_NONBLOCK | NOFOLLOW | CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PathError(path, "it is a symbolic link") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise PathError(path, "it is not a regular file")
        yield handle
    finally:
        os.close(handle)


def check_target(folder: int, leaf: str, path: str) -> None:
    """Raise PathError unless the target is a regular file with one link, or does not exist."""
    try:
        facts = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(facts.st_mode):
        raise PathError(path, f"it is {_describe_type(facts.st_mode)}")
    if facts.st_nlink > 1:
        raise PathError(path, "it has several hard links", hint="replace the file with a copy")


@contextmanager
def disk_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise PathError(path, "it is below a symbolic link, or not in a folder") from None
        raise disk_error(error, path) from None


def flush(handle: int) -> None:
    """Flush a file to disk, which needs a special call on macOS."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        fcntl.fcntl(handle, full)
    else:
        os.fsync(handle)


@contextmanager
def _open_parent(root: int, path: str, *, create: bool = False) -> Iterator[tuple[int, str]]:
    *folders, leaf = path.split("/")
    with open_folder(root, tuple(folders), create=create) as folder:
        yield folder, leaf


def _split_path(folder: str) -> tuple[str, ...]:
    return tuple(folder.split("/")) if folder else ()


def _is_link(folder: int, leaf: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(leaf, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _describe_type(mode: int) -> str:
    return _TYPES.get(stat.S_IFMT(mode), "not a regular file")


def read_file(root: int, path: str, *, limit: int | None = None) -> tuple[bytes, Signature] | None:
    """Return a file's bytes and signature, or None if it is missing. Raises PathError for links and large files."""
    try:
        with _open_parent(root, path) as (folder, leaf), open_plain(folder, leaf, path) as handle:
            if limit is None:
                limit = INDEX_FILE_BYTES if leaf.casefold() == f"{INDEX_FOLDED}.md" else FILE_BYTES
            facts = os.fstat(handle)
            if facts.st_size > limit:
                raise PathError(path, f"it is larger than {limit:,} bytes")
            chunks, left = [], limit
            while left > 0 and (chunk := os.read(handle, min(left, 1 << 20))):
                chunks.append(chunk)
                left -= len(chunk)
            return b"".join(chunks), _make_signature(facts)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_below(directory: Path, path: str) -> tuple[bytes, Signature] | None:
    """Read a file like `read_file`, opening the memory directory for this call; None if it does not exist."""
    with open_existing(directory) as root:
        check_path(path)
        with disk_errors(path):
            return None if root is None else read_file(root, path)


def read_several(directory: Path, paths: Iterable[str]) -> dict[str, tuple[bytes, Signature]]:
    """Read several files below a memory directory like `read_file`, skipping missing and unreadable ones."""
    contents = {}
    with suppress(OSError, MemdirError), open_root(directory) as root:
        for path in paths:
            with suppress(OSError, PathError):
                check_path(path)
                if (content := read_file(root, path)) is not None:
                    contents[path] = content
    return contents


def read_signature(root: int, path: str) -> Signature | None:
    try:
        with _open_parent(root, path) as (folder, leaf):
            return _make_signature(os.stat(leaf, dir_fd=folder, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_file_head(root: int, path: str) -> bytes | None:
    """Return roughly the first 30 lines of a file, or None if it may not be read."""
    data = b""
    try:
        with _open_parent(root, path) as (folder, leaf), open_plain(folder, leaf, path) as handle:
            while len(data) < HEADER_BYTES and data.count(b"\n") < HEADER_LINES and (chunk := os.read(handle, 4096)):
                data += chunk
    except (OSError, PathError):
        return None
    return data


def list_files(root: int, folder_path: str) -> list[str]:
    """Return the names of the files in a folder; empty if the folder does not exist."""
    try:
        with open_folder(root, _split_path(folder_path)) as folder, os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def walk(root: int, *, folder: str = "") -> Iterator[DiskEntry]:
    """Yield every memory file below the root, without indexes, `logs/` and hidden files. Bad entries never raise."""
    segments = _split_path(folder)
    folders = []
    try:
        with open_folder(root, segments) as handle, os.scandir(handle) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if (folder or entry.name.casefold() != "logs") and len(segments) + 1 < NAME_DEPTH:
                        folders.append(path)
                    if not entry.name.endswith(".md"):
                        continue
                if entry.name.endswith(".md") and entry.name[:-3].casefold() != INDEX_FOLDED:
                    yield from _make_entry(entry, path)
    except (OSError, PathError):
        return
    for path in sorted(folders):
        yield from walk(root, folder=path)


def read_signatures(
    root: int,
    folder: str = "",
    marks: dict[str, Stat] | None = None,
    *,
    known: Mapping[str, int] | None = None,
    passed: Container[str] = (),
) -> dict[str, Stat]:
    """Return the path and signature of every readable memory file below the root, faster than `walk`. The stats of
    each folder, taken before it was listed, are added to `marks`.

    Files in `known` with the same inode get an empty signature and are not examined. Folders in `passed` are not
    listed.
    """
    signatures: dict[str, Stat] = {}
    segments, prefix = _split_path(folder), f"{folder}/" if folder else ""
    folders = []
    try:
        with open_folder(root, segments) as handle, os.scandir(handle) as entries:
            if marks is not None:
                marks[folder] = _make_stat(os.fstat(handle))
            for entry in entries:
                name = entry.name
                if name[0] == "." or not (name.isascii() or _is_utf8(name)):
                    continue
                # Check the first letter first, so that ten thousand names need not be folded to find the index.
                if name[-3:] == ".md" and (name[0] not in "mM" or not _is_index(name[:-3])):
                    if known is not None and known.get(prefix + name) == entry.inode() & _MOST:
                        signatures[prefix + name] = ()
                        continue
                    try:
                        facts = entry.stat(follow_symlinks=False)
                    except OSError:  # deleted since the folder was listed
                        continue
                    if facts.st_size <= FILE_BYTES and stat.S_ISREG(facts.st_mode):
                        signatures[prefix + name] = _make_stat(facts)
                        continue
                if entry.is_dir(follow_symlinks=False) and (folder or name.casefold() != "logs"):
                    folders.append(prefix + name)
    except (OSError, PathError):
        return signatures
    if len(segments) + 1 < NAME_DEPTH:
        for path in folders:
            if path not in passed:
                signatures |= read_signatures(root, path, marks, known=known, passed=passed)
    return signatures


def read_stat(root: int, path: str) -> Stat:
    """Return the stat values of a file or folder below the root, or an empty tuple if they cannot be read."""
    try:
        with _open_parent(root, path) as (folder, leaf):
            return _make_stat(os.stat(leaf or ".", dir_fd=folder, follow_symlinks=False))
    except (OSError, PathError):
        return ()


def _make_stat(facts: os.stat_result) -> Stat:
    return facts.st_ino & _MOST, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _is_index(stem: str) -> bool:
    """Return whether a file is an index or a sync tool's copy of one, such as `MEMORY (1)`."""
    folded = stem.casefold()
    return folded == INDEX_FOLDED or (folded.startswith(INDEX_FOLDED) and folded[len(INDEX_FOLDED)] in " .(~")


def _make_entry(entry: os.DirEntry[str], path: str) -> Iterator[DiskEntry]:
    try:
        facts = entry.stat(follow_symlinks=False)
    except OSError:
        return
    refusal = ""
    if not stat.S_ISREG(facts.st_mode):
        refusal = f"it is {_describe_type(facts.st_mode)}"
    elif facts.st_size > FILE_BYTES:
        refusal = f"it is larger than {FILE_BYTES:,} bytes"
    elif not _is_utf8(path):
        refusal = "its name is not UTF-8"
    elif _is_index(entry.name[:-3]):
        refusal = INDEX_COPY
    yield DiskEntry(path, _make_signature(facts), refusal)


def _make_signature(facts: os.stat_result) -> Signature:
    # Some file systems have inodes and times that no database column can hold.
    times = (max(-_MOST, min(stamp, _MOST)) for stamp in (facts.st_mtime_ns, facts.st_ctime_ns))
    return Signature(facts.st_ino & _MOST, facts.st_size, *times)


def _is_utf8(path: str) -> bool:
    return path.isascii() or not any("\ud800" <= char <= "\udfff" for char in path)


def stage_file(root: int, path: str, data: bytes) -> str:
    """Write data next to its target and flush it; returns the temporary name for `move_staged`."""
    with disk_errors(path), _open_parent(root, path, create=True) as (folder, leaf):
        check_target(folder, leaf, path)
        temp = f"{_TEMP_PREFIX}{os.urandom(6).hex()}{_TEMP_SUFFIX}"
        handle = os.open(temp, os.O_CREAT | os.O_EXCL | os.O_WRONLY | NOFOLLOW | CLOEXEC, 0o600, dir_fd=folder)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(handle, view) :]
            flush(handle)
        except OSError:
            os.unlink(temp, dir_fd=folder)
            raise
        finally:
            os.close(handle)
        return temp


def move_staged(root: int, temp: str, path: str) -> Signature:
    """Rename a staged file to its target. The folder is flushed by `flush_folder`, once for all moves."""
    with disk_errors(path), _open_parent(root, path) as (folder, leaf):
        check_target(folder, leaf, path)
        os.rename(temp, leaf, src_dir_fd=folder, dst_dir_fd=folder)
        return _make_signature(os.stat(leaf, dir_fd=folder, follow_symlinks=False))


def set_time(root: int, path: str, mtime_ns: int) -> None:
    """Set a file's modification time, without following links."""
    with disk_errors(path), _open_parent(root, path) as (folder, leaf):
        check_target(folder, leaf, path)
        os.utime(leaf, ns=(mtime_ns, mtime_ns), dir_fd=folder, follow_symlinks=False)


def remove_file(root: int, path: str) -> None:
    with disk_errors(path), _open_parent(root, path) as (folder, leaf):
        check_target(folder, leaf, path)
        os.unlink(leaf, dir_fd=folder)


def flush_folder(root: int, folder_path: str) -> None:
    with disk_errors(folder_path or "."), open_folder(root, _split_path(folder_path)) as folder:
        flush(folder)


def remove_temps(root: int, folder_path: str) -> None:
    """Remove staged files left by an interrupted writer; call this only while holding the directory's lock."""
    with suppress(FileNotFoundError, NotADirectoryError), open_folder(root, _split_path(folder_path)) as folder:
        for name in os.listdir(folder):
            if name.startswith(_TEMP_PREFIX) and name.endswith(_TEMP_SUFFIX):
                os.unlink(name, dir_fd=folder)
