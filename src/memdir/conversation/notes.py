"""Session notes: a running summary of one conversation, used when its host compacts it.

    <project>/<session>/session-memory/summary.md     mode 0600 in a folder of mode 0700
    <project>/<session>/session-memory/.update.lock   locked during an update

`<project>` is the host's directory for the project, next to its transcripts. A failed update does not change the file, and
after repeated failures the next attempt waits until the conversation has grown. Every run is logged, unless no update was
due or there is no model.

Session IDs are untrusted: an ID is converted to one folder name, and links below the project's directory are not followed.
Notes are not memories, and `forget --purge` does not remove them.
"""

import json
import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from memdir import files, limits
from memdir.conversation.confidential import leave_out
from memdir.conversation.notes_by_model import NotesTask, ask_for_notes
from memdir.conversation.notes_file import (
    cut_notes,
    make_template,
    measure_notes,
    open_notes,
    render_notes,
)
from memdir.conversation.transcripts import describe_transcript, read_pieces
from memdir.errors import BudgetError, ConflictError, LockedError, ModelError, NotFoundError, PathError
from memdir.files import hold, read_small
from memdir.frozen import dataclass, fill, replace
from memdir.models.agent import ForkResult, render_ran
from memdir.project.hosts import CLAUDE_CODE
from memdir.project.paths import find_project_home, read_claude_settings
from memdir.records import Message, Model, SkipReason
from memdir.store.open import Project
from memdir.store.sessions import (
    Cursor,
    SessionFile,
    SessionRecord,
    is_confidential,
    make_cursor,
    parse_cursor,
    render_cursor,
    slice_after,
)
from memdir.store.state import digest_text, make_leaf, note_run
from memdir.text import estimate_tokens, replace_surrogates

FOLDER, FILE, LOCK = "session-memory", "summary.md", ".update.lock"
_PIECE_CHARS = 2_000_000  # max characters of a transcript that are summarised at once
CONFIG = "session-memory/config"  # the user's own template and prompt, in Claude Code's folder
_KEY = "notes"
_COMPACT_KEY = "autoCompactEnabled"  # in Claude Code's settings
_LISTED = 2_000  # max session folders that are listed
# Names of folders in a project's directory that are not sessions and must not contain notes.
_RESERVED = frozenset(("memory", "subagents", FOLDER))
_DIGESTED = re.compile(r"[a-z0-9_-]{1,40}\.[0-9a-f]{20}")


class NotesSkip(SkipReason):
    OFF = "off", "notes are switched off here"
    PAUSED = "paused", "memdir is paused"
    PRIVATE = "private", "this conversation is private"
    NO_COMPACTION = "no_compaction", "this host does not compact conversations"
    NOT_DUE = "not_due", "too few messages since the last notes"
    NOTHING_NEW = "nothing_new", "no messages since the last notes"
    BUSY = "busy", "another update of these notes is running"
    NO_MODEL = "no_model", "session notes need a model"
    FAILED = "failed", "the update failed; the notes are unchanged"


@dataclass(frozen=True, slots=True)
class NotesFile:
    """The notes file of one session. `leaf` is the name of the session's folder."""

    project: Path
    leaf: str

    @property
    def path(self) -> Path:
        return self.project / self.leaf / FOLDER / FILE

    @property
    def inner(self) -> str:
        return f"{self.leaf}/{FOLDER}/{FILE}"


@dataclass(frozen=True, slots=True)
class NotesOptions:
    """The settings for notes, with the user's own template and prompt if there are any."""

    on: bool = True
    paused: bool = False
    compacts: bool = True
    template: str = ""
    prompt: str = ""


_DEFAULTS = NotesOptions()


@dataclass(frozen=True, slots=True)
class NotesResult:
    by: str = ""
    skipped: NotesSkip | None = None
    changed: bool = False
    messages: int = 0
    tokens: int = 0
    cut: tuple[str, ...] = ()
    ran: ForkResult | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class _LastUpdate:
    """The state of the notes in the session's record: the last message included, and counts of tokens and failures."""

    cursor: Cursor | None = None
    tokens: int = -1  # of the conversation; -1: there are no notes yet
    failures: int = 0
    failed_tokens: int = 0


def update_notes(
    file: NotesFile,
    session: SessionFile,
    messages: Sequence[Message],
    *,
    start: int | None = None,
    now: datetime,
    options: NotesOptions = _DEFAULTS,
    model: Model | None = None,
    force: bool = False,
) -> NotesResult:
    """Update a session's notes if an update is due or `force` is set. Raises PathError or DiskError.

    `start` is the number of earlier messages, which the notes cover. With None, `messages` is the full conversation.
    """
    skip = find_skip(options, session)
    result = NotesResult(skipped=skip or NotesSkip.BUSY)
    if skip is None:
        is_short = not force and messages and not is_update_due(messages, count_tokens(messages))
        if is_short and read_notes_file(file) is None:
            return NotesResult(skipped=NotesSkip.NOT_DUE, messages=len(messages))  # returns before a folder is created
        if model is None:
            return NotesResult(skipped=NotesSkip.NO_MODEL, messages=len(messages))
        with suppress(LockedError), updating(file):
            result = _update(file, session, messages, start, options, model, force)
    if result.skipped is not NotesSkip.NOT_DUE:
        about = {"at": now.isoformat(timespec="seconds"), "task": "notes", "session": session.id, "by": result.by}
        counts = {"skipped": result.skipped, "messages": result.messages, **render_ran(result.ran)}
        note_run(session.state, {**about, **counts, "error": result.error})
    return result


def find_skip(options: NotesOptions, session: SessionFile) -> NotesSkip | None:
    """Return why notes are switched off for this session, or None if they are not."""
    conditions = (
        (NotesSkip.OFF, not options.on),
        (NotesSkip.PAUSED, options.paused),
        (NotesSkip.PRIVATE, (record := session.read()).private or is_confidential(record)),
        (NotesSkip.NO_COMPACTION, not options.compacts),
    )
    return next((skip for skip, is_met in conditions if is_met), None)


def update_from_transcript(
    project: Project, path: Path, session: SessionFile, file: NotesFile, *, model: Model | None, force: bool = False
) -> NotesResult:
    options, now = read_notes_options(project, compacts=does_compact(project, path)), project.now()
    messages, start = tuple[Message, ...](), 0
    if model is not None and find_skip(options, session) is None:
        cursor = _read_last(session.read()).cursor if read_notes_file(file) is not None else None
        limit = {"chars": _PIECE_CHARS, "count": _PIECE_CHARS // 100, "window": limits.EXTRACT_WINDOW}
        for piece in read_pieces(path, cursor, **limit):
            messages, start = piece.messages, piece.start
    return update_notes(file, session, messages, start=start, now=now, options=options, model=model, force=force)


def find_home(project: Project) -> Path:
    return find_project_home(project.environment, project.places.root)


def read_notes_options(project: Project, *, compacts: bool = True) -> NotesOptions:
    folder = project.environment.claude_home / CONFIG
    template, prompt = (
        (read_small(folder / f"{name}.md", limits.NOTES_BYTES).data or b"")
        .decode("utf-8", "replace")
        .removeprefix("\ufeff")
        for name in ("template", "prompt")
    )
    on = project.places.switch.on and project.settings.flag("notes")
    return NotesOptions(on, project.settings.flag("paused"), compacts, template, prompt)


def does_compact(project: Project, transcript: Path) -> bool:
    """Return whether the host of a transcript compacts conversations. Only Claude Code can turn this off."""
    if describe_transcript(transcript).format != CLAUDE_CODE.key:
        return True
    claude = read_claude_settings(project.environment, project.places.root.path)
    values = [table.get(_COMPACT_KEY) for table in (claude.policy, claude.local, claude.project, claude.user)]
    return next((value for value in values if isinstance(value, bool)), True)


def is_update_due(since: Sequence[Message], tokens: int, *, is_first: bool = True) -> bool:
    """Return whether the messages `since` the last update, with this number of tokens, justify new or updated notes."""
    if is_first:
        return tokens >= limits.NOTES_START_TOKENS
    typed = [number for number, message in enumerate(since) if message.role == "user" and not message.is_meta]
    is_pause = bool(since) and not any(message.calls for message in since[typed[-1] if typed else 0 :])
    calls = sum(len(message.calls) for message in since)
    return tokens >= limits.NOTES_STEP_TOKENS and (calls >= limits.NOTES_CALLS or is_pause)


def count_tokens(messages: Sequence[Message]) -> int:
    inputs = (
        f"{call.name} {json.dumps(dict(call.input), ensure_ascii=False, default=str)}"
        for message in messages
        for call in message.calls
    )
    return sum(map(estimate_tokens, (*(message.text for message in messages), *inputs)))


def find_notes_file(project: Path, session: str) -> NotesFile:
    """Return the location of a session's notes. The file may not exist; any session ID is safe."""
    leaf = session if _DIGESTED.fullmatch(session) else make_leaf(session)
    return NotesFile(project, f"{leaf}.{digest_text(session)}" if leaf in _RESERVED else leaf)


def read_notes_file(file: NotesFile) -> str | None:
    """Return the notes as text, or None if the file is missing. Raises PathError if it is not a regular file."""
    with suppress(NotFoundError), files.open_root(file.project) as root, files.disk_errors(file.inner):
        file_data = files.read_file(root, file.inner, limit=limits.NOTES_BYTES)
        return None if file_data is None else file_data[0].decode("utf-8", "replace")
    return None


def write_notes_file(file: NotesFile, text: str, *, expect: str | None) -> None:
    """Write the notes atomically while holding the lock. Raises ConflictError if the current text is not `expect`."""
    if read_notes_file(file) != expect:
        raise ConflictError("the notes changed during the update", hint="the next update will include the change")
    with files.open_root(file.project, create=True) as root:
        temp = files.stage_file(root, file.inner, replace_surrogates(text).encode("utf-8"))
        files.move_staged(root, temp, file.inner)
        files.flush_folder(root, f"{file.leaf}/{FOLDER}")


@contextmanager
def updating(file: NotesFile) -> Iterator[None]:
    """Hold the lock for an update of these notes; raises LockedError."""
    with _open_folder(file, create=True) as folder, hold(folder, LOCK, seconds=0.0):
        files.remove_temps(folder, "")  # temporary files of a process that was killed
        yield


def wait_for_update(file: NotesFile, seconds: float = limits.NOTES_WAIT_SECONDS) -> bool:
    """Wait up to `seconds` for a running update. Return whether none is running now."""
    try:
        with _open_folder(file) as folder, hold(folder, LOCK, seconds=seconds):
            return True
    except NotFoundError:
        return True
    except LockedError:
        return False


def list_notes(project: Path) -> list[NotesFile]:
    """Return the notes files of all sessions in a project, newest first."""
    try:
        with os.scandir(project) as entries:
            leaves = [
                item.name for item in entries if item.name not in _RESERVED and item.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []
    saved = []
    with suppress(NotFoundError), files.open_root(project) as root:
        for leaf in leaves[:_LISTED]:
            with suppress(OSError, PathError), files.open_folder(root, (leaf, FOLDER)) as folder:
                facts = os.stat(FILE, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode):
                    saved.append((facts.st_mtime_ns, leaf))
    return [NotesFile(project, leaf) for _, leaf in sorted(saved, reverse=True)]


@contextmanager
def _open_folder(file: NotesFile, *, create: bool = False) -> Iterator[int]:
    with files.open_root(file.project, create=create) as root, files.disk_errors(file.inner):
        try:
            with files.open_folder(root, (file.leaf, FOLDER), create=create) as opened:
                # Another program may have created this folder readable for all. Its parent belongs to the host.
                if create and stat.S_IMODE(os.fstat(opened).st_mode) & 0o077:
                    os.fchmod(opened, 0o700)
                folder = os.dup(opened)
        except FileNotFoundError:
            raise NotFoundError("this session has no notes", name=file.leaf) from None
    try:
        yield folder
    finally:
        os.close(folder)


def _update(
    file: NotesFile, session: SessionFile, messages: Sequence[Message], start: int | None, options: NotesOptions,
    model: Model, force: bool,
) -> NotesResult:  # fmt: skip
    text, last = read_notes_file(file), _read_last(session.read())
    if text is None:  # there are no notes, or they were deleted, so count all messages again
        last = _LastUpdate(failures=last.failures, failed_tokens=last.failed_tokens)
    since = tuple(messages) if start is not None else slice_after(messages, last.cursor).messages
    new_tokens = count_tokens(since)
    tokens = max(last.tokens, 0) + new_tokens
    is_waiting = last.failures >= limits.EXTRACT_TRIES and tokens < last.failed_tokens + limits.NOTES_STEP_TOKENS
    is_due = not is_waiting and is_update_due(since, new_tokens, is_first=last.tokens < 0)
    if not since or not (force or is_due):
        return NotesResult(skipped=NotesSkip.NOT_DUE if since else NotesSkip.NOTHING_NEW, messages=len(since))
    template = make_template(options.template)
    before = open_notes(text, template)
    task = NotesTask(text or render_notes(before), before, template, file.path, options.prompt)
    try:
        after, fork_result = ask_for_notes(model, leave_out(since).messages, task)
        cut, lost = cut_notes(after)
        new = render_notes(cut)
        if new != text:
            write_notes_file(file, new, expect=text)
    except (ConflictError, ModelError, BudgetError) as error:
        if not isinstance(error, ConflictError):
            _save_last(session, replace(last, failures=last.failures + 1, failed_tokens=tokens))
        return NotesResult(skipped=NotesSkip.FAILED, messages=len(since), error=str(error))
    _save_last(session, _LastUpdate(make_cursor(messages, before=start or 0), tokens))
    return NotesResult("model", None, new != text, len(since), measure_notes(cut), tuple(lost), fork_result)


def _read_last(record: SessionRecord) -> _LastUpdate:
    last = record.extra.get(_KEY)
    table = last if isinstance(last, dict) else {}
    return replace(fill(_LastUpdate(), table), cursor=parse_cursor(table.get("cursor")))


def _save_last(session: SessionFile, last: _LastUpdate) -> None:
    cursor = None if last.cursor is None else render_cursor(last.cursor)
    table = {"cursor": cursor, **{key: getattr(last, key) for key in ("tokens", "failures", "failed_tokens")}}
    session.change(lambda record: replace(record, extra={**record.extra, _KEY: table}))
