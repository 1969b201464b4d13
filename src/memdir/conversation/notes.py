"""Session notes: a running summary of one conversation, for the moment at which its host shortens it.

    template.py   sections, what in them is fixed, and the proof that an update left it alone
    cutting.py    limits, and what a reader gets within them
    due.py        when an update is worth it
    place.py      the file, its lock, who waits for whom
    calls.py      what an agent's tool calls did           lines.py     lists with keys and a bound
    by_rules.py   an update without a model                by_model.py  with one, in two forms
    keeping.py    all of it in order: `update_notes`

Notes are not memories: nothing here reads or writes the memory directory, and `forget --purge` does not reach them.
"""

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from memdir import guard
from memdir.conversation.notes_by_model import NotesTask, ask_for_notes, fork_for_notes
from memdir.conversation.notes_by_rules import update_by_rules
from memdir.conversation.notes_file import (
    Notes,
    check_update,
    cut_notes,
    make_template,
    measure_notes,
    open_notes,
    render_notes,
)
from memdir.conversation.transcripts import read_messages, read_slice
from memdir.errors import BudgetError, ConflictError, LockedError, ModelError, NotFoundError, PathError
from memdir.files import hold, read_small
from memdir.frozen import dataclass, replace
from memdir.limits import (
    EXTRACT_TRIES,
    EXTRACT_WINDOW,
    NOTES_BYTES,
    NOTES_CALLS,
    NOTES_START_TOKENS,
    NOTES_STEP_TOKENS,
    NOTES_WAIT_SECONDS,
)
from memdir.models import can_use_tools
from memdir.models.agent import ForkResult, has_writing_tools, note_run, render_ran
from memdir.project.paths import ClaudeSettings, find_project_home
from memdir.records import Message, Model
from memdir.store.open import Project
from memdir.store.sessions import (
    Cursor,
    SessionFile,
    SessionRecord,
    make_cursor,
    parse_cursor,
    render_cursor,
    slice_after,
)
from memdir.store.state import digest_text, make_leaf
from memdir.text import estimate_tokens, replace_surrogates

__all__ = [
    "NotesCounts",
    "NotesFile",
    "NotesInput",
    "NotesOptions",
    "NotesResult",
    "NotesSkip",
    "SavedNotes",
    "count",
    "does_compact",
    "find_home",
    "find_notes",
    "find_notes_file",
    "is_update_due",
    "list_notes",
    "read_notes_file",
    "read_notes_input",
    "read_notes_options",
    "update_notes",
    "wait_for_update",
]


# --- due ---
# When notes are worth the trouble: sizes of the conversation, counted, and the decision that follows from them. Pure.
#
# Notes are for the moment at which a host shortens a conversation, so they are only kept where a host does that.


@dataclass(frozen=True, slots=True)
class NotesCounts:
    """Tokens of the conversation so far, and at the last update (None before the first); what came since then.

    `is_pause`: since the person last said something, no tool was called.
    """

    tokens: int
    noted: int | None
    calls: int = 0
    is_pause: bool = False


def count(since: Sequence[Message], noted: int | None) -> NotesCounts:
    """Counts of a conversation, from the messages since the last update and the tokens there were then."""
    last = next((at for at in range(len(since) - 1, -1, -1) if _is_said(since[at])), 0)
    calls = sum(len(message.calls) for message in since)
    pause = bool(since) and not any(message.calls for message in since[last:])
    return NotesCounts((noted or 0) + count_tokens(since), noted, calls, pause)


def is_update_due(counts: NotesCounts) -> bool:
    """Whether the notes should be begun or brought up to date."""
    if counts.noted is None:
        return counts.tokens >= NOTES_START_TOKENS
    grown = counts.tokens - counts.noted
    return grown >= NOTES_STEP_TOKENS and (counts.calls >= NOTES_CALLS or counts.is_pause)


def count_tokens(messages: Iterable[Message]) -> int:
    """What these messages take in a conversation, calls of tools included."""
    return sum(estimate_tokens(at.text) + sum(map(_weigh_call, at.calls)) for at in messages)


def _weigh_call(call: object) -> int:
    name, given = getattr(call, "name", ""), getattr(call, "input", {})
    return estimate_tokens(f"{name} {json.dumps(dict(given), ensure_ascii=False, default=str)}")


def _is_said(message: Message) -> bool:
    return message.role == "user" and not message.is_meta


# --- place ---
# Where a session's notes lie, how they are read and written, and who is writing them just now.
#
#     <project>/<session>/session-memory/summary.md     0600 in a folder 0700
#     <project>/<session>/session-memory/.update.lock   held while an update runs; it ends with its process
#
# `<project>` is the host's own directory of the project, beside its transcripts. A session's id comes from outside: it
# becomes one plain folder name, and no link below the project's directory is followed. A write is refused if the file
# changed since it was read.
#
# Notes are text of one session and no memories: `forget --purge` does not look into them, and says so. They go when
# the
# host or the person deletes the session's folder.

FOLDER, FILE, LOCK = "session-memory", "summary.md", ".update.lock"
_LISTED = 2_000  # session folders looked at
# Folders of a project's directory that are no session's: one of that name would put notes among the memories.
_TAKEN = frozenset(("memory", "subagents", FOLDER))
_DIGESTED = re.compile(r"[a-z0-9_-]{1,40}\.[0-9a-f]{20}")


@dataclass(frozen=True, slots=True)
class NotesFile:
    """The notes of one session; `leaf` is its folder's name."""

    project: Path
    leaf: str

    @property
    def path(self) -> Path:
        return self.project / self.leaf / FOLDER / FILE

    @property
    def inner(self) -> str:
        """The file below the project's directory."""
        return f"{self.leaf}/{FOLDER}/{FILE}"


@dataclass(frozen=True, slots=True)
class SavedNotes:
    """Notes that are on disk."""

    place: NotesFile
    modified: datetime
    size: int


def find_notes_file(project: Path, session: str) -> NotesFile:
    """The place of a session's notes, whether there are any or not; any id is taken, and none leads elsewhere."""
    leaf = session if _DIGESTED.fullmatch(session) else make_leaf(session)
    return NotesFile(project, f"{leaf}.{digest_text(session)}" if leaf in _TAKEN else leaf)


def read_notes_file(place: NotesFile) -> str | None:
    """The text of the file; None if there is none. Raises PathError for a link or what is no notes file."""
    try:
        root = guard.open_root(place.project)
    except NotFoundError:
        return None
    try:
        with guard.disk_errors(place.inner):
            found = guard.read_file(root, place.inner, limit=NOTES_BYTES)
    finally:
        os.close(root)
    return None if found is None else found[0].decode("utf-8", "replace")


def write_notes_file(place: NotesFile, text: str, *, expect: str | None) -> None:
    """Put the text there in one step, under `updating`; raises ConflictError if the file is not what `expect` says."""
    found = read_notes_file(place)
    if found != expect:
        raise ConflictError("the notes were changed by somebody else meanwhile", hint="the next update takes that in")
    root = guard.open_root(place.project, create=True)
    try:
        temp = guard.stage_file(root, place.inner, replace_surrogates(text).encode("utf-8"))
        guard.move_staged(root, temp, place.inner)
        guard.flush_folder(root, f"{place.leaf}/{FOLDER}")
    finally:
        os.close(root)


@contextmanager
def updating(place: NotesFile, *, seconds: float = 0.0) -> Iterator[None]:
    """Be the one who updates these notes, or LockedError."""
    with _open_folder(place, create=True) as folder, hold(folder, LOCK, seconds=seconds):
        guard.remove_temps(folder, "")  # what a killed writer left staged
        yield


def wait_for_update(place: NotesFile, seconds: float = NOTES_WAIT_SECONDS) -> bool:
    """Wait until no update is running, at most so long; says whether none is. One that died is not waited for."""
    try:
        with _open_folder(place) as folder, hold(folder, LOCK, seconds=seconds):
            return True
    except NotFoundError:
        return True
    except LockedError:
        return False


def find_notes(place: NotesFile) -> SavedNotes | None:
    """The notes of one session, if there are any that can be read."""
    try:
        root = guard.open_root(place.project)
    except NotFoundError:
        return None
    try:
        return _look(root, place)
    finally:
        os.close(root)


def list_notes(project: Path) -> tuple[SavedNotes, ...]:
    """The notes of all sessions of a project, newest first; what may not be read is passed over."""
    try:
        with os.scandir(project) as entries:
            leaves = [at.name for at in entries if at.name not in _TAKEN and at.is_dir(follow_symlinks=False)]
        root = guard.open_root(project)
    except (OSError, NotFoundError):
        return ()
    try:
        found = [kept for leaf in leaves[:_LISTED] if (kept := _look(root, NotesFile(project, leaf)))]
    finally:
        os.close(root)
    return tuple(sorted(found, key=lambda at: (at.modified, at.place.leaf), reverse=True))


def _look(root: int, place: NotesFile) -> SavedNotes | None:
    try:
        with guard.open_folder(root, (place.leaf, FOLDER)) as folder:
            facts = os.stat(FILE, dir_fd=folder, follow_symlinks=False)
    except (OSError, PathError):
        return None
    if not stat.S_ISREG(facts.st_mode):
        return None
    return SavedNotes(place, datetime.fromtimestamp(facts.st_mtime, UTC), facts.st_size)


@contextmanager
def _open_folder(place: NotesFile, *, create: bool = False) -> Iterator[int]:
    root = guard.open_root(place.project, create=create)
    try:
        with guard.disk_errors(place.inner):
            folder = _step_in(root, place, create)
    finally:
        os.close(root)
    try:
        yield folder
    finally:
        os.close(folder)


def _step_in(root: int, place: NotesFile, create: bool) -> int:
    try:
        with guard.open_folder(root, (place.leaf, FOLDER), create=create) as folder:
            # Somebody else may have made it for all to read; the session's own folder above is the host's affair.
            if create and stat.S_IMODE(os.fstat(folder).st_mode) & 0o077:
                os.fchmod(folder, 0o700)
            return os.dup(folder)
    except FileNotFoundError:
        raise NotFoundError("there are no notes of this session", name=place.leaf) from None


# --- keeping ---
# An update of a session's notes from beginning to end: whether it may be, is due, by whom, and what is noted of it.
#
# What was noted last is kept in the conversation's record under `notes`: the last message, the tokens there were, and
# how
# often a model failed on what came since. A failure leaves the file as it was; after some of them rules do what the
# model
# could not. Every run leaves a line in the record of runs, unless it was not due.
#
# It does not decide when to look: doors do, after a turn.

CONFIG = "session-memory/config"
_KEY = "notes"
_COMPACT_KEY = "autoCompactEnabled"


class NotesSkip(StrEnum):
    """Why there was no update."""

    OFF = "off"
    PAUSED = "paused"
    PRIVATE = "private"
    NO_COMPACTION = "no_compaction"
    NOT_DUE = "not_due"
    NOTHING_NEW = "nothing_new"
    BUSY = "busy"
    FAILED = "failed"

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    NotesSkip.OFF: "notes are switched off here",
    NotesSkip.PAUSED: "memdir is paused",
    NotesSkip.PRIVATE: "nothing is kept of this conversation",
    NotesSkip.NO_COMPACTION: "this host does not shorten conversations",
    NotesSkip.NOT_DUE: "too little has happened since the last notes",
    NotesSkip.NOTHING_NEW: "nothing was said since the last notes",
    NotesSkip.BUSY: "another update of these notes is running",
    NotesSkip.FAILED: "the update failed; the notes are as they were",
}


@dataclass(frozen=True, slots=True)
class NotesOptions:
    """How a place wants its notes: switches, and the person's own template and prompt, empty for ours."""

    on: bool = True
    paused: bool = False
    compacts: bool = True
    template: str = ""
    prompt: str = ""


PLAINLY = NotesOptions()


@dataclass(frozen=True, slots=True)
class NotesInput:
    """Messages of a conversation: all of them, or with `start` those after the last notes and how many came before.

    `parent` is the host's last request, for a fork. Paths are told from `root`; what names a place in `apart`, the
    memory directories, is not noted by rules.
    """

    messages: Sequence[Message]
    start: int | None = None
    parent: Mapping[str, object] | None = None
    root: str = ""
    apart: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class NotesResult:
    """What came of an update. `by` is `model` or `rules`; `cut` are sections that had to be cut to their limit."""

    by: str = ""
    skipped: NotesSkip | None = None
    changed: bool = False
    messages: int = 0
    tokens: int = 0
    cut: tuple[str, ...] = ()
    ran: ForkResult | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Last:
    """The last message that was noted, the tokens there were then, and failures since."""

    cursor: Cursor | None = None
    tokens: int | None = None
    failures: int = 0


def find_home(opened: Project) -> Path:
    """The directory below which the notes of a project's sessions lie."""
    return find_project_home(opened.environment, opened.places.root)


def read_notes_options(opened: Project, *, compacts: bool = True) -> NotesOptions:
    """The manner of a place, with the person's own files if there are any."""
    folder = opened.environment.claude_home / CONFIG
    template, prompt = (
        (read_small(folder / f"{name}.md", NOTES_BYTES).data or b"").decode("utf-8", "replace").removeprefix("\ufeff")
        for name in ("template", "prompt")
    )
    on = opened.places.switch.on and opened.settings.flag("notes")
    return NotesOptions(on, opened.settings.flag("paused"), compacts, template, prompt)


def does_compact(claude: ClaudeSettings) -> bool:
    """Whether Claude Code shortens conversations by itself; it does unless a settings file says no."""
    tables = (claude.policy, claude.local, claude.project, claude.user)
    return not any(table.get(_COMPACT_KEY) is False for table in tables)


def read_notes_input(opened: Project, path: Path, session: SessionFile, place: NotesFile) -> NotesInput:
    """What a transcript says since the last notes; all of it if there are none."""
    root, apart = str(opened.places.root.path), tuple(str(store.root) for store in opened.stores)
    last = _read_last(session.read())
    if last.cursor is None or not last.cursor.id or read_notes_file(place) is None:
        return NotesInput(tuple(read_messages(path)), root=root, apart=apart)
    new = read_slice(path, after=last.cursor.id, window=EXTRACT_WINDOW)
    return NotesInput(new.messages, last.cursor.position + 1, root=root, apart=apart)


def update_notes(
    place: NotesFile,
    session: SessionFile,
    news: NotesInput,
    *,
    now: datetime,
    manner: NotesOptions = PLAINLY,
    model: Model | None = None,
    force: bool = False,
) -> NotesResult:
    """Bring a session's notes up to date if that is due; with `force` also before. Raises PathError and DiskError."""
    if skip := _find_skip(manner, session.read()):
        return _note(session, NotesResult(skipped=skip), now)
    try:
        with updating(place):
            done = _update(place, session, news, manner, model, force)
    except LockedError:
        done = NotesResult(skipped=NotesSkip.BUSY)
    return done if done.skipped is NotesSkip.NOT_DUE else _note(session, done, now)


def _update(
    place: NotesFile, session: SessionFile, news: NotesInput, manner: NotesOptions, model: Model | None, force: bool
) -> NotesResult:
    text, last = read_notes_file(place), _read_last(session.read())
    if text is None:  # never begun, or taken away: all that is known counts again
        last = _Last(failures=last.failures)
    since = tuple(news.messages) if news.start is not None else slice_after(news.messages, last.cursor).messages
    counts = count(since, last.tokens)
    if not since or (not force and not is_update_due(counts)):
        return NotesResult(skipped=NotesSkip.NOT_DUE if since else NotesSkip.NOTHING_NEW, messages=len(since))
    template = make_template(manner.template)
    before = open_notes(text, template)
    task = NotesTask(text or render_notes(before), before, template, place.path, manner.prompt)
    asked = None if last.failures >= EXTRACT_TRIES else model
    try:
        after, ran = _write(task, replace(news, messages=since), asked)
        cut = cut_notes(after)
        new = render_notes(check_update(before, render_notes(cut.notes)))
        if new != text:
            write_notes_file(place, new, expect=text)
    except ConflictError as error:
        return NotesResult(skipped=NotesSkip.FAILED, messages=len(since), error=str(error))
    except (ModelError, BudgetError) as error:
        _keep(session, replace(last, failures=last.failures + 1))
        return NotesResult(skipped=NotesSkip.FAILED, messages=len(since), error=str(error))
    _keep(session, _Last(make_cursor(news.messages, before=news.start or 0), counts.tokens))
    by = "rules" if asked is None else "model"
    return NotesResult(by, None, new != text, len(since), measure_notes(cut.notes), tuple(cut.lost), ran)


def _write(task: NotesTask, news: NotesInput, model: Model | None) -> tuple[Notes, ForkResult | None]:
    if model is None:
        return update_by_rules(task.notes, news.messages, root=news.root, apart=news.apart), None
    if news.parent is not None and can_use_tools(model) and has_writing_tools(news.parent):
        done = fork_for_notes(model, news.parent, task)
    else:
        done = ask_for_notes(model, news.messages, task)
    return done.notes, done.ran


def _find_skip(manner: NotesOptions, record: SessionRecord) -> NotesSkip | None:
    gates = (
        (NotesSkip.OFF, not manner.on),
        (NotesSkip.PAUSED, manner.paused),
        (NotesSkip.PRIVATE, record.private),
        (NotesSkip.NO_COMPACTION, not manner.compacts),
    )
    return next((skip for skip, shut in gates if shut), None)


def _read_last(record: SessionRecord) -> _Last:
    table = record.extra.get(_KEY)
    table = table if isinstance(table, dict) else {}
    tokens, failures = table.get("tokens"), table.get("failures")
    return _Last(
        parse_cursor(table.get("cursor")),
        tokens if type(tokens) is int and tokens >= 0 else None,
        failures if type(failures) is int and failures >= 0 else 0,
    )


def _keep(session: SessionFile, last: _Last) -> None:
    cursor = None if last.cursor is None else render_cursor(last.cursor)
    table = {"cursor": cursor, "tokens": last.tokens, "failures": last.failures}
    session.change(lambda at: replace(at, extra={**at.extra, _KEY: table}))


def _note(session: SessionFile, done: NotesResult, now: datetime) -> NotesResult:
    note_run(
        session.state,
        {
            "at": now.isoformat(timespec="seconds"),
            "task": "notes",
            "session": session.id,
            "by": done.by,
            "skipped": done.skipped,
            "messages": done.messages,
            **render_ran(done.ran),
            "error": done.error,
        },
    )
    return done
