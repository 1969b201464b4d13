"""An update of a session's notes from beginning to end: whether it may be, is due, by whom, and what is noted of it.

What was noted last is kept in the conversation's record under `notes`: the last message, the tokens there were, and how
often a model failed on what came since. A failure leaves the file as it was; after some of them rules do what the model
could not. Every run leaves a line in the record of runs, unless it was not due.

It does not decide when to look: doors do, after a turn.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from memdir.claude_settings import ClaudeSettings
from memdir.cursor import Cursor, make_cursor, parse_cursor, render_cursor, slice_after
from memdir.errors import BudgetError, ConflictError, LockedError, ModelError
from memdir.fork import Ran
from memdir.frozen import dataclass, replace
from memdir.limits import EXTRACT_TRIES, EXTRACT_WINDOW, NOTES_BYTES
from memdir.models import can_use_tools
from memdir.notes.by_model import Task, ask, fork
from memdir.notes.by_rules import update_by_rules
from memdir.notes.cutting import cut_notes, measure_notes
from memdir.notes.due import count, is_due
from memdir.notes.place import Place, read_notes_file, updating, write_notes_file
from memdir.notes.template import Notes, check_update, make_template, open_notes, render_notes
from memdir.opening import Opened
from memdir.paths import find_project_home
from memdir.records import Message, Model
from memdir.runs import note_run, render_ran
from memdir.session import Record, SessionFile
from memdir.small_files import read_small
from memdir.tools import has_writing_tools
from memdir.transcripts import read_messages, read_slice

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
class Manner:
    """How a place wants its notes: switches, and the person's own template and prompt, empty for ours."""

    on: bool = True
    paused: bool = False
    compacts: bool = True
    template: str = ""
    prompt: str = ""


PLAINLY = Manner()


@dataclass(frozen=True, slots=True)
class News:
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
class Noted:
    """What came of an update. `by` is `model` or `rules`; `cut` are sections that had to be cut to their limit."""

    by: str = ""
    skipped: NotesSkip | None = None
    changed: bool = False
    messages: int = 0
    tokens: int = 0
    cut: tuple[str, ...] = ()
    ran: Ran | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class _Last:
    """The last message that was noted, the tokens there were then, and failures since."""

    cursor: Cursor | None = None
    tokens: int | None = None
    failures: int = 0


def find_home(opened: Opened) -> Path:
    """The directory below which the notes of a project's sessions lie."""
    return find_project_home(opened.environment, opened.places.root)


def read_manner(opened: Opened, *, compacts: bool = True) -> Manner:
    """The manner of a place, with the person's own files if there are any."""
    folder = opened.environment.claude_home / CONFIG
    template, prompt = (
        (read_small(folder / f"{name}.md", NOTES_BYTES).data or b"").decode("utf-8", "replace").removeprefix("\ufeff")
        for name in ("template", "prompt")
    )
    on = opened.places.switch.on and opened.settings.flag("notes")
    return Manner(on, opened.settings.flag("paused"), compacts, template, prompt)


def does_compact(claude: ClaudeSettings) -> bool:
    """Whether Claude Code shortens conversations by itself; it does unless a settings file says no."""
    tables = (claude.policy, claude.local, claude.project, claude.user)
    return not any(table.get(_COMPACT_KEY) is False for table in tables)


def read_news(opened: Opened, path: Path, session: SessionFile, place: Place) -> News:
    """What a transcript says since the last notes; all of it if there are none."""
    root, apart = str(opened.places.root.path), tuple(str(store.root) for store in opened.stores)
    last = _read_last(session.read())
    if last.cursor is None or not last.cursor.id or read_notes_file(place) is None:
        return News(tuple(read_messages(path)), root=root, apart=apart)
    new = read_slice(path, after=last.cursor.id, window=EXTRACT_WINDOW)
    return News(new.messages, last.cursor.position + 1, root=root, apart=apart)


def update_notes(
    place: Place,
    session: SessionFile,
    news: News,
    *,
    now: datetime,
    manner: Manner = PLAINLY,
    model: Model | None = None,
    force: bool = False,
) -> Noted:
    """Bring a session's notes up to date if that is due; with `force` also before. Raises PathError and DiskError."""
    if skip := _find_skip(manner, session.read()):
        return _note(session, Noted(skipped=skip), now)
    try:
        with updating(place):
            done = _update(place, session, news, manner, model, force)
    except LockedError:
        done = Noted(skipped=NotesSkip.BUSY)
    return done if done.skipped is NotesSkip.NOT_DUE else _note(session, done, now)


def _update(place: Place, session: SessionFile, news: News, manner: Manner, model: Model | None, force: bool) -> Noted:
    text, last = read_notes_file(place), _read_last(session.read())
    if text is None:  # never begun, or taken away: all that is known counts again
        last = _Last(failures=last.failures)
    since = tuple(news.messages) if news.start is not None else slice_after(news.messages, last.cursor).messages
    counts = count(since, last.tokens)
    if not since or (not force and not is_due(counts)):
        return Noted(skipped=NotesSkip.NOT_DUE if since else NotesSkip.NOTHING_NEW, messages=len(since))
    template = make_template(manner.template)
    before = open_notes(text, template)
    task = Task(text or render_notes(before), before, template, place.path, manner.prompt)
    asked = None if last.failures >= EXTRACT_TRIES else model
    try:
        after, ran = _write(task, replace(news, messages=since), asked)
        cut = cut_notes(after)
        new = render_notes(check_update(before, render_notes(cut.notes)))
        if new != text:
            write_notes_file(place, new, expect=text)
    except ConflictError as error:
        return Noted(skipped=NotesSkip.FAILED, messages=len(since), error=str(error))
    except (ModelError, BudgetError) as error:
        _keep(session, replace(last, failures=last.failures + 1))
        return Noted(skipped=NotesSkip.FAILED, messages=len(since), error=str(error))
    _keep(session, _Last(make_cursor(news.messages, before=news.start or 0), counts.tokens))
    by = "rules" if asked is None else "model"
    return Noted(by, None, new != text, len(since), measure_notes(cut.notes), tuple(cut.lost), ran)


def _write(task: Task, news: News, model: Model | None) -> tuple[Notes, Ran | None]:
    if model is None:
        return update_by_rules(task.notes, news.messages, root=news.root, apart=news.apart), None
    if news.parent is not None and can_use_tools(model) and has_writing_tools(news.parent):
        done = fork(model, news.parent, task)
    else:
        done = ask(model, news.messages, task)
    return done.notes, done.ran


def _find_skip(manner: Manner, record: Record) -> NotesSkip | None:
    gates = (
        (NotesSkip.OFF, not manner.on),
        (NotesSkip.PAUSED, manner.paused),
        (NotesSkip.PRIVATE, record.private),
        (NotesSkip.NO_COMPACTION, not manner.compacts),
    )
    return next((skip for skip, shut in gates if shut), None)


def _read_last(record: Record) -> _Last:
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


def _note(session: SessionFile, done: Noted, now: datetime) -> Noted:
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
