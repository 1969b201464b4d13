"""Our entries in the hosts' settings files: put in, shown, taken out again.

    json_text.py toml_text.py   single values put into a text and cut out of it
    command.py                  how a host shall call us        entries.py   what each host's files should hold
    planning.py                 from what is to what should be  plugin.py    the plugin folder of Claude Code

`plan_install` and `plan_uninstall` only look; `apply_changes` writes. A file goes from old to new in one step, with its
mode, and only if it is still what was looked at. After an install and an uninstall every file has the bytes it had
before; where somebody has edited it in between, only our entries go. A link in the person's home is followed, as the
host does; one in a project is refused, because it came with a clone.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from memdir.errors import ConflictError, FormatError, PathError
from memdir.frozen import dataclass
from memdir.hosts.record import Entry, read_record, write_record
from memdir.hosts.rows import Host
from memdir.installing.command import Program
from memdir.installing.entries import FilePart, JsonPart, Part, list_parts
from memdir.installing.json_text import Splice, parse
from memdir.installing.planning import add, is_there, take_out
from memdir.limits import FILE_BYTES, LOCK_SECONDS
from memdir.lock import hold
from memdir.settings import Environment
from memdir.small_files import disk_error, make_private_dirs, read_small

__all__ = ["Change", "apply_changes", "plan_install", "plan_uninstall"]
_LOCK = "install.lock"


@dataclass(frozen=True, slots=True)
class Change:
    """One file before and after, None for no file; `entry` is what the record keeps of it, None for nothing."""

    host: str
    path: Path
    before: bytes | None
    after: bytes | None
    entry: Entry | None = None
    notes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        if self.before == self.after:
            return "unchanged"
        return "created" if self.before is None else "removed" if self.after is None else "changed"


def plan_install(
    hosts: Iterable[Host],
    environment: Environment,
    program: Program,
    *,
    now: datetime,
    root: Path | None = None,
    has_mcp: bool = True,
) -> tuple[Change, ...]:
    """What has to be changed so that these hosts call us; raises FormatError for a file that cannot be edited."""
    record = read_record(environment.state_home)
    changes = []
    for host in hosts:
        for part in list_parts(host, environment, program, root=root, has_mcp=has_mcp):
            before = _read(part.path, root)
            try:
                changes.append(_plan_add(host, part, before, record.get(str(part.path)), now))
            except FormatError as error:
                raise _name_file(error, part.path) from None
    return tuple(changes)


def plan_uninstall(
    hosts: Iterable[Host], environment: Environment, program: Program, *, root: Path | None = None
) -> tuple[Change, ...]:
    """What has to be changed so that nothing of ours is left there."""
    record = read_record(environment.state_home)
    changes = []
    for host in hosts:
        for part in list_parts(host, environment, program, root=root):
            before = _read(part.path, root)
            if before is None:
                continue
            try:
                changes.append(_plan_take(host, part, before, record.get(str(part.path))))
            except FormatError as error:
                raise _name_file(error, part.path) from None
    return tuple(changes)


def apply_changes(changes: Iterable[Change], environment: Environment) -> None:
    """Write them, one file after the other, and keep the record in step; one process at a time."""
    chosen = tuple(changes)
    if all(change.what == "unchanged" and change.entry is None for change in chosen):
        return  # nothing is made where there is nothing to keep
    with _holding(environment.state_home):
        for change in chosen:
            # What goes in is on record first: where no record can be kept, the host's file stays as it is.
            if change.entry is not None:
                _keep(change, environment)
            if change.what != "unchanged":
                _write(change)
            if change.entry is None:
                _keep(change, environment)


def _keep(change: Change, environment: Environment) -> None:
    record = read_record(environment.state_home)
    kept = {path: entry for path, entry in record.items() if path != str(change.path)}
    if change.entry is not None:
        kept[str(change.path)] = change.entry
    if kept != record:
        write_record(environment.state_home, kept)


@contextmanager
def _holding(state_home: Path) -> Iterator[None]:
    try:
        make_private_dirs(state_home)
        folder = os.open(state_home, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise disk_error(error, state_home) from error
    try:
        with hold(folder, _LOCK, seconds=LOCK_SECONDS):
            yield
    finally:
        os.close(folder)


# --- planning -------------------------------------------------------------------------------------------------------


def _plan_add(host: Host, part: Part, before: bytes | None, entry: Entry | None, now: datetime) -> Change:
    text = None if before is None else _decode(before)
    if text is not None and text.strip() and is_there(part, text):
        return Change(host.key, part.path, before, before, entry)
    bare = None if text is None else _take(part, text, entry)
    added = add(part, bare)
    after = added.text.encode("utf-8")
    if not added.splices or after == before:
        return Change(host.key, part.path, before, before, entry, added.notes)
    created = bare is None
    folders = _list_missing(part.path.parent) or (entry.folders if entry and created else ())
    kept = Entry(host.key, _digest(after), now, added.splices, added.made, created, folders)
    return Change(host.key, part.path, before, after, kept, added.notes)


def _plan_take(host: Host, part: Part, before: bytes, entry: Entry | None) -> Change:
    text = _decode(before)
    folders = entry.folders if entry else ()
    if isinstance(part, FilePart) and text != part.text and not (entry and entry.digest == _digest(before)):
        note = f"{part.path} was changed since and is left as it is; delete it if you do not want it"
        return Change(host.key, part.path, before, before, notes=(note,) if entry else ())
    after = _take(part, text, entry)
    return Change(host.key, part.path, before, None if after is None else after.encode("utf-8"), folders=folders)


def _take(part: Part, text: str, entry: Entry | None) -> str | None:
    """The text as it was before us; None if there was no file."""
    if entry is not None and entry.digest == _digest(text.encode("utf-8")):
        if entry.created:
            return None
        for at, inserted in reversed(entry.splices):
            text = Splice(at, inserted).undo(text)
        return text
    bare = take_out(part, text, made=entry.made if entry else None)
    if entry and entry.created and bare is not None and _is_empty(part, bare):
        return None
    return bare


def _is_empty(part: Part, text: str) -> bool:
    return not text.strip() or (isinstance(part, JsonPart) and not parse(text).children)


# --- files ----------------------------------------------------------------------------------------------------------


def _read(path: Path, root: Path | None) -> bytes | None:
    if root is not None:
        for at in (path, *path.parents):
            if at == root:
                break
            if at.is_symlink():
                raise PathError(str(path), f"{at} is a symbolic link, and it came with the project")
    reading = read_small(path, FILE_BYTES)
    if reading.problem:
        raise FormatError(f"{path} cannot be read: {reading.problem}", hint="nothing was changed")
    return reading.data


def _decode(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise FormatError("it is not UTF-8", field="encoding") from None


def _name_file(error: FormatError, path: Path) -> FormatError:
    hint = "mend it first; `--print` shows what would be put there, and nothing was changed"
    return FormatError(f"{path} cannot be edited: {error}", field=error.field, hint=hint)


def _list_missing(folder: Path) -> tuple[str, ...]:
    missing = []
    while not folder.exists():
        missing.append(str(folder))
        folder = folder.parent
    return tuple(missing)


def _write(change: Change) -> None:
    # A person's settings are often a link into a folder of such files: the file behind it is the one to write.
    path = Path(os.path.realpath(change.path))
    if read_small(path, FILE_BYTES).data != change.before:
        raise ConflictError(f"{change.path} was changed by somebody else meanwhile", hint="try again")
    try:
        if change.after is None:
            path.unlink()
            for folder in change.folders:
                _remove_if_empty(Path(folder))
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
        try:
            with open(temporary, "xb") as file:
                file.write(change.after)
                file.flush()
                os.fsync(file.fileno())
            if change.before is not None:
                os.chmod(temporary, path.stat().st_mode & 0o7777)
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise disk_error(error, path) from error


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        pass  # somebody else keeps something in it


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
