"""The hands that read and write below a memory directory, all of them through the guard's descriptors.

A write is staged beside its target and flushed, then renamed; the folder is flushed afterwards, once for all renames.
Reads are bounded and skip what is not a plain file. Nothing here decides what is written.
"""

import os
import stat
from collections.abc import Iterator

from memdir import guard
from memdir.errors import PathError
from memdir.frozen import dataclass
from memdir.limits import FILE_BYTES, HEADER_BYTES, HEADER_LINES, INDEX_FILE_BYTES, NAME_DEPTH
from memdir.records import Signature

_HEAD_CHUNK = 4096
Stat = tuple[int, int, int, int]  # a Signature as it is read ten thousand times: inode, size, mtime_ns, ctime_ns
_TEMP_PREFIX, _TEMP_SUFFIX = ".memdir-", ".tmp"
_INDEX_CHARS = len(f"{guard.INDEX_FOLDED}.md")


@dataclass(frozen=True, slots=True)
class Found:
    """One entry below a memory directory; `refusal` says why it is not read, empty for a plain file."""

    path: str
    signature: Signature
    refusal: str = ""


def read_file(root: int, path: str, *, limit: int | None = None) -> tuple[bytes, Signature] | None:
    """A file's bytes and signature; None if there is none. Links, special and oversize files are refused."""
    *folders, leaf = path.split("/")
    if limit is None:
        limit = INDEX_FILE_BYTES if leaf.casefold() == f"{guard.INDEX_FOLDED}.md" else FILE_BYTES
    try:
        with guard.open_folder(root, tuple(folders)) as folder, guard.open_plain(folder, leaf, path) as handle:
            facts = os.fstat(handle)
            if facts.st_size > limit:
                raise PathError(path, f"it is larger than {limit:,} bytes")
            return _read_all(handle, limit), guard.make_signature(facts)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_signature(root: int, path: str) -> Signature | None:
    *folders, leaf = path.split("/")
    try:
        with guard.open_folder(root, tuple(folders)) as folder:
            return guard.make_signature(os.stat(leaf, dir_fd=folder, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_head(root: int, path: str) -> bytes | None:
    """The first 30 lines of a file or a little more, never the rest; None if it may not be read."""
    *folders, leaf = path.split("/")
    data = b""
    try:
        with guard.open_folder(root, tuple(folders)) as folder, guard.open_plain(folder, leaf, path) as handle:
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
        with guard.open_folder(root, segments) as folder, os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.is_dir(follow_symlinks=False)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def stage_file(root: int, path: str, data: bytes) -> str:
    """Write data beside its target and guard.flush it; the answer is the temporary name for `move_staged`."""
    *folders, leaf = path.split("/")
    with guard.disk_errors(path), guard.open_folder(root, tuple(folders), create=True) as folder:
        guard.check_target(folder, leaf, path)
        temp = f"{_TEMP_PREFIX}{os.urandom(6).hex()}{_TEMP_SUFFIX}"
        handle = os.open(
            temp, os.O_CREAT | os.O_EXCL | os.O_WRONLY | guard.NOFOLLOW | guard.CLOEXEC, 0o600, dir_fd=folder
        )
        try:
            _write_all(handle, data)
            guard.flush(handle)
        except OSError:
            os.unlink(temp, dir_fd=folder)
            raise
        finally:
            os.close(handle)
        return temp


def move_staged(root: int, temp: str, path: str) -> Signature:
    """Put a staged file in its place. The directory is flushed by `flush_folder`, once for all moves."""
    *folders, leaf = path.split("/")
    with guard.disk_errors(path), guard.open_folder(root, tuple(folders)) as folder:
        guard.check_target(folder, leaf, path)
        os.rename(temp, leaf, src_dir_fd=folder, dst_dir_fd=folder)
        return guard.make_signature(os.stat(leaf, dir_fd=folder, follow_symlinks=False))


def set_time(root: int, path: str, mtime_ns: int) -> None:
    """Give a file the time its words had elsewhere; a link is not followed."""
    *folders, leaf = path.split("/")
    with guard.disk_errors(path), guard.open_folder(root, tuple(folders)) as folder:
        guard.check_target(folder, leaf, path)
        os.utime(leaf, ns=(mtime_ns, mtime_ns), dir_fd=folder, follow_symlinks=False)


def remove_file(root: int, path: str) -> None:
    *folders, leaf = path.split("/")
    with guard.disk_errors(path), guard.open_folder(root, tuple(folders)) as folder:
        guard.check_target(folder, leaf, path)
        os.unlink(leaf, dir_fd=folder)


def flush_folder(root: int, folder_path: str) -> None:
    segments = tuple(folder_path.split("/")) if folder_path else ()
    with guard.disk_errors(folder_path or "."), guard.open_folder(root, segments) as folder:
        guard.flush(folder)


def remove_temps(root: int, folder_path: str) -> int:
    """Take away what a killed writer left staged; only to be called under the directory's lock."""
    segments = tuple(folder_path.split("/")) if folder_path else ()
    count = 0
    try:
        with guard.open_folder(root, segments) as folder:
            for name in os.listdir(folder):
                if is_temp(name):
                    os.unlink(name, dir_fd=folder)
                    count += 1
    except (FileNotFoundError, NotADirectoryError):
        pass
    return count


def is_temp(name: str) -> bool:
    return name.startswith(_TEMP_PREFIX) and name.endswith(_TEMP_SUFFIX)


def walk(root: int, *, folder: str = "") -> Iterator[Found]:
    """Every memory file below the root: not the indexes, not `logs/`, nothing hidden. One bad entry never raises."""
    segments = tuple(folder.split("/")) if folder else ()
    try:
        with guard.open_folder(root, segments) as handle, os.scandir(handle) as entries:
            folders = []
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                path = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    if (folder or entry.name.casefold() != "logs") and len(segments) + 1 < NAME_DEPTH:
                        folders.append(path)
                elif entry.name.endswith(".md") and entry.name[:-3].casefold() != guard.INDEX_FOLDED:
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
        with guard.open_folder(root, segments) as handle, os.scandir(handle) as entries:
            if marks is not None:
                marks[folder] = os.fstat(handle).st_mtime_ns
            for entry in entries:
                name = entry.name
                if name[0] == "." or not (name.isascii() or _is_utf8(name)):
                    continue
                # The length first: ten thousand names are not folded to find the one index.
                if name[-3:] == ".md" and (len(name) != _INDEX_CHARS or name[:-3].casefold() != guard.INDEX_FOLDED):
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


def _look(entry: os.DirEntry[str], path: str) -> Found | None:
    try:
        facts = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    refusal = ""
    if not stat.S_ISREG(facts.st_mode):
        refusal = f"it is {guard.name_type(facts.st_mode)}"
    elif facts.st_size > FILE_BYTES:
        refusal = f"it is larger than {FILE_BYTES:,} bytes"
    elif not _is_utf8(path):
        refusal = "its name is not UTF-8"
    return Found(path, guard.make_signature(facts), refusal)


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
