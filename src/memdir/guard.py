"""May this be read or written: names by a strict grammar, folders and files reached without following a link.

Every path is walked from a directory descriptor, one segment at a time. Checking a path first and opening it afterwards
is not containment (measured elsewhere: hundreds of escapes in 20,000 tries against a process that swaps a folder for a
link). Targets must be regular files with one link. `disk` holds the hands that read and write through these doors.

It does not protect against root, against somebody who already writes as this user inside the memory directory, nor on
Windows, where these calls do not exist. The root itself may be a link; nothing below it may.
"""

import errno
import fcntl
import os
import re
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memdir.errors import NotFoundError, PathError
from memdir.files import disk_error, make_private_dirs
from memdir.frozen import dataclass
from memdir.limits import FILE_BYTES, HEADER_BYTES, HEADER_LINES, INDEX_FILE_BYTES, NAME_BYTES, NAME_CHARS, NAME_DEPTH
from memdir.records import Signature

# --- guard ---

STATE = ".memdir"  # the folder of memdir's own files inside a memory directory
INDEX_FOLDED = "memory"
DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in "123456789¹²³")})
# Letters that show nothing, and so can make two names look alike.
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | {chr(code) for code in range(0xFE00, 0xFE10)}
_MOST = 2**63 - 1
NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | CLOEXEC


def check_root(path: str) -> None:
    """Refuse, from its text alone, what may never be a memory directory; raises PathError."""
    hint = "give the whole path of a directory of its own, two levels down or more"
    drive, rest = (path[:2], path[2:]) if re.match(r"[A-Za-z]:", path) else ("", path)
    if "\0" in path:
        raise PathError(path, "it holds a NUL", hint=hint)
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise PathError(path, "no file name can be spelled like this", hint=hint) from None
    if re.match(r"[/\\]{2}", path):
        raise PathError(path, "it is a network path", hint=hint)
    if drive and not rest.strip("/\\."):
        raise PathError(path, "it is the root of a drive", hint=hint)
    if not os.path.isabs(path):
        raise PathError(path, "it is not an absolute path", hint=hint)
    parts = [part for part in re.split(r"[/\\]" if drive else "/", os.path.normpath(rest)) if part]
    if len(parts) < 2:
        raise PathError(path, "it is the root of the file system, or directly below it", hint=hint)


def check_name(name: str) -> tuple[str, ...]:
    """The segments of a memory's name, or PathError with the reason."""
    segments = tuple(name.split("/"))
    if len(segments) > NAME_DEPTH:
        raise PathError(shown(name), f"more than {NAME_DEPTH} folders deep")
    for segment in segments:
        reason = find_refusal(segment)
        if reason:
            raise PathError(
                shown(name), reason, hint="a name is letters, digits, `-` and `_`, with `/` between folders"
            )
    if segments[0].casefold() == "logs" and len(segments) > 1:
        raise PathError(shown(name), "`logs/` is kept for daily logs", hint="choose another folder")
    return segments


def find_refusal(segment: str) -> str:
    """Why this cannot be one segment of a name; empty when it can."""
    if not segment:
        return "a name or folder is empty"
    if segment in (".", "..") or segment.startswith("."):
        return "it begins with a dot"
    if unicodedata.normalize("NFC", segment) != segment:
        return "it is not in Unicode normal form C"
    for before, char in zip(" " + segment, segment, strict=False):
        if not _is_allowed(char, before):
            return f"{char!r} is not a letter, digit, `-` or `_`"
    if len(segment) > NAME_CHARS or len(segment.encode()) > NAME_BYTES:
        return f"it is longer than {NAME_CHARS} characters or {NAME_BYTES} bytes"
    folded = unicodedata.normalize("NFKC", segment).casefold()
    if folded == INDEX_FOLDED:
        return "that is the name of the index"
    return "that is a device name on Windows" if folded in DEVICES else ""


def open_root(path: Path, *, create: bool = False) -> int:
    """A descriptor of a memory directory; made with its parents, mode 0700, if asked to."""
    check_root(str(path))
    with disk_errors(str(path)):
        if create:
            make_private_dirs(path)
        try:
            return os.open(path, _FOLDER)
        except FileNotFoundError:
            raise NotFoundError(f"no memory directory at {path}", name=str(path)) from None
        except NotADirectoryError:
            raise PathError(str(path), "it is not a directory") from None


@contextmanager
def open_folder(root: int, segments: tuple[str, ...], *, create: bool = False) -> Iterator[int]:
    """A descriptor of a folder below the root, reached without following any link."""
    current = os.dup(root)
    try:
        for depth, segment in enumerate(segments, 1):
            current = _step(current, segment, "/".join(segments[:depth]), create=create)
        yield current
    finally:
        os.close(current)


@contextmanager
def open_state(root: int, path: Path, state: Path) -> Iterator[int]:
    """A descriptor of the folder for memdir's own files: below the open root at `path` without a link, or elsewhere."""
    if state == path / STATE:
        with open_folder(root, (STATE,), create=True) as folder:
            yield folder
        return
    folder = open_root(state, create=True)
    try:
        yield folder
    finally:
        os.close(folder)


def check_plain(folder: int, leaf: str) -> None:
    """Refuse a link or special file where one of our own files should be; none yet is fine."""
    check_target(folder, leaf, leaf)


def check_path(path: str) -> None:
    """A path below the root for reading: nothing that climbs, nothing hidden, no NUL. Odd names may be read."""
    for segment in path.split("/"):
        if segment in ("", ".", "..") or segment.startswith(".") or "\0" in segment or "\\" in segment:
            raise PathError(shown(path), "it is not the name of a memory")


def make_signature(facts: os.stat_result) -> Signature:
    """What tells one state of a file from another. Some disks know numbers and times that no database can hold."""
    times = (max(-_MOST, min(at, _MOST)) for at in (facts.st_mtime_ns, facts.st_ctime_ns))
    return Signature(facts.st_ino & _MOST, facts.st_size, *times)


def flush(handle: int) -> None:
    """Bytes to the disk itself; macOS needs its own call for that."""
    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        fcntl.fcntl(handle, full)
    else:
        os.fsync(handle)


@contextmanager
def disk_errors(path: str) -> Iterator[None]:
    """Turn what the operating system says into one clear error."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise PathError(path, "it lies behind a symbolic link or is not a folder") from None
        raise disk_error(error, path) from None


def _is_allowed(char: str, before: str) -> bool:
    if char.isascii():
        return char.isalnum() or char in "-_"
    category = unicodedata.category(char)
    if char in _INVISIBLE or 0xE0000 <= ord(char) <= 0xE0FFF:
        return False
    return (
        category[0] == "L" or category == "Nd" or (category in ("Mn", "Mc") and unicodedata.category(before)[0] in "LM")
    )


def _step(current: int, segment: str, path: str, *, create: bool) -> int:
    """From one folder's descriptor to the next; closes the one it came from."""
    try:
        if create:
            try:
                os.mkdir(segment, 0o700, dir_fd=current)
                flush(current)
            except FileExistsError:
                pass
        following = os.open(segment, _FOLDER | NOFOLLOW, dir_fd=current)
    except OSError as error:
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _is_link(current, segment)):
            raise PathError(path, "it is a symbolic link") from None
        raise
    os.close(current)
    return following


def _is_link(folder: int, leaf: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(leaf, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


@contextmanager
def open_plain(folder: int, leaf: str, path: str) -> Iterator[int]:
    """Open a regular file for reading; a FIFO must not block us, a device must not be touched."""
    facts = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(facts.st_mode):
        raise PathError(path, f"it is {name_type(facts.st_mode)}")
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
    try:
        facts = os.stat(leaf, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISREG(facts.st_mode):
        raise PathError(path, f"it is {name_type(facts.st_mode)}")
    if facts.st_nlink > 1:
        raise PathError(path, "it has several links", hint="a hard link could change a file elsewhere; copy it instead")


def name_type(mode: int) -> str:
    names = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return names.get(stat.S_IFMT(mode), "not a regular file")


def shown(path: str) -> str:
    return path if len(path) <= 120 else path[:117] + "..."


# --- disk ---
# The hands that read and write below a memory directory, all of them through the guard's descriptors.
#
# A write is staged beside its target and flushed, then renamed; the folder is flushed afterwards, once for all
# renames.
# Reads are bounded and skip what is not a plain file. Nothing here decides what is written.

_HEAD_CHUNK = 4096
Stat = tuple[int, int, int, int]  # a Signature as it is read ten thousand times: inode, size, mtime_ns, ctime_ns
_TEMP_PREFIX, _TEMP_SUFFIX = ".memdir-", ".tmp"
_INDEX_CHARS = len(f"{INDEX_FOLDED}.md")


@dataclass(frozen=True, slots=True)
class DiskEntry:
    """One entry below a memory directory; `refusal` says why it is not read, empty for a plain file."""

    path: str
    signature: Signature
    refusal: str = ""


def read_file(root: int, path: str, *, limit: int | None = None) -> tuple[bytes, Signature] | None:
    """A file's bytes and signature; None if there is none. Links, special and oversize files are refused."""
    *folders, leaf = path.split("/")
    if limit is None:
        limit = INDEX_FILE_BYTES if leaf.casefold() == f"{INDEX_FOLDED}.md" else FILE_BYTES
    try:
        with open_folder(root, tuple(folders)) as folder, open_plain(folder, leaf, path) as handle:
            facts = os.fstat(handle)
            if facts.st_size > limit:
                raise PathError(path, f"it is larger than {limit:,} bytes")
            return _read_all(handle, limit), make_signature(facts)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_signature(root: int, path: str) -> Signature | None:
    *folders, leaf = path.split("/")
    try:
        with open_folder(root, tuple(folders)) as folder:
            return make_signature(os.stat(leaf, dir_fd=folder, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_file_head(root: int, path: str) -> bytes | None:
    """The first 30 lines of a file or a little more, never the rest; None if it may not be read."""
    *folders, leaf = path.split("/")
    data = b""
    try:
        with open_folder(root, tuple(folders)) as folder, open_plain(folder, leaf, path) as handle:
            while len(data) < HEADER_BYTES and data.count(b"\n") < HEADER_LINES:
                chunk = os.read(handle, _HEAD_CHUNK)
                if not chunk:
                    break
                data += chunk
    except (OSError, PathError):
        return None
    return data


def list_files(root: int, folder_path: str) -> list[str]:
    """The names in a folder that are not folders; none if it is not there."""
    segments = tuple(folder_path.split("/")) if folder_path else ()
    try:
        with open_folder(root, segments) as folder, os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def stage_file(root: int, path: str, data: bytes) -> str:
    """Write data beside its target and guard.flush it; the answer is the temporary name for `move_staged`."""
    *folders, leaf = path.split("/")
    with disk_errors(path), open_folder(root, tuple(folders), create=True) as folder:
        check_target(folder, leaf, path)
        temp = f"{_TEMP_PREFIX}{os.urandom(6).hex()}{_TEMP_SUFFIX}"
        handle = os.open(temp, os.O_CREAT | os.O_EXCL | os.O_WRONLY | NOFOLLOW | CLOEXEC, 0o600, dir_fd=folder)
        try:
            _write_all(handle, data)
            flush(handle)
        except OSError:
            os.unlink(temp, dir_fd=folder)
            raise
        finally:
            os.close(handle)
        return temp


def move_staged(root: int, temp: str, path: str) -> Signature:
    """Put a staged file in its place. The directory is flushed by `flush_folder`, once for all moves."""
    *folders, leaf = path.split("/")
    with disk_errors(path), open_folder(root, tuple(folders)) as folder:
        check_target(folder, leaf, path)
        os.rename(temp, leaf, src_dir_fd=folder, dst_dir_fd=folder)
        return make_signature(os.stat(leaf, dir_fd=folder, follow_symlinks=False))


def set_time(root: int, path: str, mtime_ns: int) -> None:
    """Give a file the time its words had elsewhere; a link is not followed."""
    *folders, leaf = path.split("/")
    with disk_errors(path), open_folder(root, tuple(folders)) as folder:
        check_target(folder, leaf, path)
        os.utime(leaf, ns=(mtime_ns, mtime_ns), dir_fd=folder, follow_symlinks=False)


def remove_file(root: int, path: str) -> None:
    *folders, leaf = path.split("/")
    with disk_errors(path), open_folder(root, tuple(folders)) as folder:
        check_target(folder, leaf, path)
        os.unlink(leaf, dir_fd=folder)


def flush_folder(root: int, folder_path: str) -> None:
    segments = tuple(folder_path.split("/")) if folder_path else ()
    with disk_errors(folder_path or "."), open_folder(root, segments) as folder:
        flush(folder)


def remove_temps(root: int, folder_path: str) -> int:
    """Take away what a killed writer left staged; only to be called under the directory's lock."""
    segments = tuple(folder_path.split("/")) if folder_path else ()
    count = 0
    try:
        with open_folder(root, segments) as folder:
            for name in os.listdir(folder):
                if is_temp(name):
                    os.unlink(name, dir_fd=folder)
                    count += 1
    except (FileNotFoundError, NotADirectoryError):
        pass
    return count


def is_temp(name: str) -> bool:
    return name.startswith(_TEMP_PREFIX) and name.endswith(_TEMP_SUFFIX)


def walk(root: int, *, folder: str = "") -> Iterator[DiskEntry]:
    """Every memory file below the root: not the indexes, not `logs/`, nothing hidden. One bad entry never raises."""
    segments = tuple(folder.split("/")) if folder else ()
    try:
        with open_folder(root, segments) as handle, os.scandir(handle) as entries:
            folders = []
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if (folder or entry.name.casefold() != "logs") and len(segments) + 1 < NAME_DEPTH:
                        folders.append(path)
                elif entry.name.endswith(".md") and entry.name[:-3].casefold() != INDEX_FOLDED:
                    found = _look(entry, path)
                    if found:
                        yield found
    except (OSError, PathError):
        return
    for path in sorted(folders):
        yield from walk(root, folder=path)


def read_signatures(root: int, folder: str = "", marks: dict[str, int] | None = None) -> dict[str, Stat]:
    """Path to signature of every readable memory file below the root, as `walk` would find them, with less ado.

    `marks` is given the time of each folder's last change, as it was before the look into it.
    """
    found: dict[str, Stat] = {}
    segments = tuple(folder.split("/")) if folder else ()
    prefix = f"{folder}/" if folder else ""
    folders = []
    try:
        with open_folder(root, segments) as handle, os.scandir(handle) as entries:
            if marks is not None:
                marks[folder] = os.fstat(handle).st_mtime_ns
            for entry in entries:
                name = entry.name
                if name[0] == "." or not (name.isascii() or _is_utf8(name)):
                    continue
                # The length first: ten thousand names are not folded to find the one index.
                if name[-3:] == ".md" and (len(name) != _INDEX_CHARS or name[:-3].casefold() != INDEX_FOLDED):
                    try:
                        facts = entry.stat(follow_symlinks=False)
                    except OSError:  # gone since; the others are still there
                        continue
                    size = facts.st_size
                    if size <= FILE_BYTES and stat.S_ISREG(facts.st_mode):
                        found[prefix + name] = facts.st_ino, size, facts.st_mtime_ns, facts.st_ctime_ns
                        continue
                if entry.is_dir(follow_symlinks=False) and (folder or name.casefold() != "logs"):
                    folders.append(prefix + name)
    except (OSError, PathError):
        return found
    if len(segments) + 1 < NAME_DEPTH:
        for path in folders:
            found |= read_signatures(root, path, marks)
    return found


def _look(entry: os.DirEntry[str], path: str) -> DiskEntry | None:
    try:
        facts = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    refusal = ""
    if not stat.S_ISREG(facts.st_mode):
        refusal = f"it is {name_type(facts.st_mode)}"
    elif facts.st_size > FILE_BYTES:
        refusal = f"it is larger than {FILE_BYTES:,} bytes"
    elif not _is_utf8(path):
        refusal = "its name is not UTF-8"
    return DiskEntry(path, make_signature(facts), refusal)


def _is_utf8(path: str) -> bool:
    return path.isascii() or not any("\ud800" <= char <= "\udfff" for char in path)


def _read_all(handle: int, limit: int) -> bytes:
    chunks = []
    room = limit
    while room > 0 and (chunk := os.read(handle, min(room, 1 << 20))):
        chunks.append(chunk)
        room -= len(chunk)
    return b"".join(chunks)


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
