"""Hook events other than the prompt: session start, tool calls, the end of a turn or session, subagents.

`HANDLERS` maps each event to its function. The functions import what they need, because a process handles one event.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from memdir.errors import MemdirError, PathError
from memdir.files import start_detached
from memdir.format.index import INDEX_FILE
from memdir.frozen import replace
from memdir.interfaces.hooks import (
    HookInput,
    HookOutput,
    HookReply,
    open_hook_project,
    render_line,
    take_saved_titles,
)
from memdir.limits import HOOK_CHARS, HOOK_INDEX_CHARS, HOOK_TOKENS, SYNC_DUE_MINUTES
from memdir.project.hosts import HookEvent, render_undecided
from memdir.project.paths import MEMBERSHIP
from memdir.store.open import (
    AgentDirectory,
    AgentScope,
    Project,
    does_load_index,
    find_agent_place,
    list_definitions,
)
from memdir.store.sessions import (
    DAY,
    STARTED,
    QueuedTurn,
    SessionFile,
    SessionRecord,
    digest_message,
    enqueue,
    has_waiting,
    parse_cursor,
    read_day,
)
from memdir.store.state import LATE, OWN_POINT, OWN_SETUP, digest_text, find_own_sync, read_events, read_problems
from memdir.text import estimate_tokens, fold, shorten

_GAP = "\n\n"
_COMPACTED, _CLEARED, _RESUMED = "compact", "clear", "resume"
_NOTES_SECONDS = 1.2  # to wait for a running update of the notes; the deadline of the hook is two
_CHANGES = 50  # the most changes to search for dreams since the last start
_PROBLEMS = 3
_OFTEN = 2  # times that a missed deadline is not worth a line
_STORES = ("memories of this project", "of all projects")
_RECENT = timedelta(days=7)  # how far back problems are shown if no session has started before
_UNLEARNED = timedelta(days=1)  # conversations that changed up to this long before the last start are considered
_LIVE = timedelta(minutes=2)
_DREAM = "dream"
_TIDIED_CHARS = 400


def handle_start(call: HookInput, output: HookOutput) -> None:
    """Handle the start of a session, or its continuation after a compaction.

    The model gets the index unless the host loads it or, in a resumed conversation, it has not changed; after a
    compaction it also gets the session's notes and the memories shown before. The user sees saved memories and team
    changes since the last start, problems, and a hint if no model is set. A worker resumes unfinished work.
    """
    with open_hook_project(call, output) as project:
        if project is None:
            return
        events = read_events(project.private.state)
        key = call.host.key, call.event.value
        since = next((row.at for row in events if (row.host, row.event) == key), None)
        with suppress(MemdirError, OSError):  # the end of the turn queues it, too
            _record_start(call, project)
            _queue_unlearned(call, project, since)
        _start_due_work(call, project)
        source = call.text("source")
        for part in _render_context(call, project, source):
            output.reply = HookReply(_GAP.join(filter(None, (output.reply.context, part))))
        for text in _render_messages(call, project, since) if source != _COMPACTED else ():
            message = "\n".join(filter(None, (output.reply.message, text)))
            output.reply = replace(output.reply, message=message)


def _render_context(call: HookInput, project: Project, source: str) -> Iterator[str]:
    session = SessionFile(project.private.state, call.session) if call.session else None
    before = session.reset(cleared=source == _CLEARED) if session and source in (_COMPACTED, _CLEARED) else None
    used = ""
    if source == _COMPACTED and call.session:
        used = _read_notes(call, project)
        yield used
    index = load_index(call, project, used) if HookEvent.START in call.host.shows_after else ""
    if source == _COMPACTED and does_load_index(project, call.host):
        from memdir.conversation.start import repeat_rules

        index = _GAP.join(filter(None, (index, repeat_rules(project))))
    if source == _RESUMED and session is not None and session.find_index() == digest_text(index):
        index = ""  # the conversation already contains it
    used += index
    yield index
    if index and session is not None:
        with suppress(MemdirError):  # if this fails, the index may be shown twice
            session.note_index(index)
    if before is not None and session is not None and source == _COMPACTED:
        from memdir.recall.pipeline import mark_surfaced, read_surfaced
        from memdir.recall.reminder import fit_memories, measure_reply, shorten_paths

        excerpts = read_surfaced(project.stores, session, before)
        shown = shorten_paths(excerpts, project.environment.home)
        chars, tokens = HOOK_CHARS - measure_reply(used) - 2 * len(_GAP), HOOK_TOKENS - estimate_tokens(used)
        text = fit_memories(shown, now=project.now().astimezone(), chars=chars, tokens=tokens)
        fitting = [excerpt for excerpt, short in zip(excerpts, shown, strict=True) if short.path in text]
        mark_surfaced(project.stores, session, fitting)
        yield text


def _read_notes(call: HookInput, project: Project) -> str:
    from memdir.conversation import notes
    from memdir.conversation.notes_file import hook_digest, make_template, open_notes
    from memdir.recall.reminder import fit_lines

    options = notes.read_notes_options(project)
    if not options.on:
        return ""
    file = notes.find_notes_file(notes.find_home(project), call.session)
    notes.wait_for_update(file, _NOTES_SECONDS)
    if (text := notes.read_notes_file(file)) is None:
        return ""
    short = hook_digest(open_notes(text, make_template(options.template)), path=str(file.path))
    return fit_lines(short, HOOK_CHARS, where=str(file.path))


def load_index(call: HookInput, project: Project, used: str = "") -> str:
    from memdir.conversation.start import render_start

    date = give_date(call, project, is_start=True) if project.settings.flag("daily_log") else ""
    return render_start(project, call.host, date=date, used=used)


def give_date(call: HookInput, project: Project, *, is_start: bool = False) -> str:
    """Return the date and today's log, at the start or if the conversation does not contain today's date yet."""
    session, now = SessionFile(project.private.state, call.session), project.now()
    last, today = read_day(session.read()), now.astimezone().date()
    if last == today and not is_start:
        return ""
    from memdir.conversation.instructions import render_date

    if call.session:
        with suppress(MemdirError):  # if this fails, the date may be given twice
            session.change(lambda at: replace(at, extra={**at.extra, DAY: today.isoformat()}))
    return render_date(None if is_start else last, now, logs=project.private.root)


def _render_messages(call: HookInput, project: Project, since: datetime | None) -> Iterator[str]:
    state, home = project.private.state, project.environment.state_home
    if saved := take_saved_titles(project):
        yield render_line((), saved)
    if since is not None:
        changes = project.private.changes(limit=_CHANGES)
        newer = [change for change in changes if change.at > since]
        dreams = [change for change in newer if change.origin.who == _DREAM and change.undone_by is None]
        if dreams:
            from memdir.dream.records import describe_change

            yield from (f"[Memory tidied: {shorten(describe_change(state, one), _TIDIED_CHARS)}]" for one in dreams)
    if _is_team_member(project):
        from memdir.sync.state import mark_seen, read_team_news, render_news

        if news := read_team_news(state):
            yield render_news(news).strip()
            mark_seen(state)
    if since is None:
        counts = " and ".join(
            f"{len(store.scan())} {words}" for store, words in zip(project.stores, _STORES, strict=False)
        )
        yield f"memdir is on, with {counts}; `memdir status` shows what it does"
    after = since or project.now() - _RECENT
    problems = [*read_problems(state, since=after), *read_problems(home, since=after)]
    # One late hook loses nothing: its turn is queued already.
    for problem in [problem for problem in problems if problem.times > _OFTEN or LATE not in problem.text][:_PROBLEMS]:
        times = f" ({problem.times} times)" if problem.times > 1 else ""
        yield f"memdir had a problem: {problem.text}{times}; `memdir doctor` tells more"
    if since is None and project.settings.flag("extract") and not call.is_headless:  # only at the first start
        yield render_undecided(project.settings, [call.host])


def _record_start(call: HookInput, project: Project) -> None:
    session = SessionFile(project.private.state, call.session)
    if call.session and STARTED not in session.read().extra:
        talks = "program" if call.is_headless else "person"
        session.change(lambda at: replace(at, extra={**at.extra, STARTED: talks}))


def _queue_unlearned(call: HookInput, project: Project, since: datetime | None) -> None:
    """Queue conversations of this project that no hook has queued, for example because the host crashed.

    Skips conversations that began while memory was off or before the hooks were installed, and those changed moments
    ago, which are still open.
    """
    if since is None:
        return
    from memdir.conversation.transcripts import list_transcripts

    state, now = project.private.state, project.now()
    for info in list_transcripts(project.environment, project.places.root.path, since=since - _UNLEARNED):
        record = SessionFile(state, info.session).read() if info.session else None
        if record is None or info.session == call.session or STARTED not in record.extra or now - info.modified < _LIVE:
            continue
        if not _is_extracted(record, str(info.path)):
            is_headless = info.is_headless or record.extra[STARTED] == "program"
            enqueue(state, QueuedTurn(info.session, str(info.path), is_headless))


def _start_due_work(call: HookInput, project: Project) -> None:
    """Start a worker if turns are queued or the index is missing or outdated, and a sync if one is due."""
    from memdir.recall.index import is_large

    store = project.private
    with suppress(MemdirError, OSError):  # the next start tries again
        index = store.find_index_file()
        is_due = index is None or not index.exists() or is_large(index)
        if has_waiting(store.state, project.environment.state_home) or (is_due and store.has_any()):
            start_detached(call.cwd, "worker")
        if _is_team_member(project):
            from memdir.sync.state import is_sync_due, read_membership

            if read_membership(store.state) is not None and is_sync_due(store.state, project.now()):
                start_detached(call.cwd, "team", "sync")
        own = find_own_sync(project.environment)
        if os.path.isfile(own / OWN_SETUP):
            from memdir.sync.state import OWN_RECORD, is_sync_due

            # Other machines may have memories of a project that was never synced here, so sync it sooner.
            minutes = SYNC_DUE_MINUTES if os.path.isfile(store.state / OWN_POINT) else 1
            if is_sync_due(own, project.now(), minutes=minutes, file=OWN_RECORD):
                start_detached(call.cwd, "sync")


def _is_team_member(project: Project) -> bool:
    return project.settings.flag("team") and os.path.isfile(project.private.state / MEMBERSHIP)


def handle_end(call: HookInput, output: HookOutput) -> None:
    """Queue the turn and start a worker, because a turn or session ends or the host is about to compact."""
    # Nothing is extracted here: hosts wait for this process, and kill it at the end of a session.
    if call.is_subagent:
        return
    with open_hook_project(call, output) as project:
        session, transcript = call.session, call.text("transcript_path")
        if project is None:
            _forget_start(output, session)
        if project is None or not (call.host.reader and session and transcript):
            return
        record = SessionFile(project.private.state, session).read()
        if call.event is HookEvent.END and _is_extracted(record, transcript):
            return
        enqueue(project.private.state, QueuedTurn(session, transcript, call.is_headless))
        has_notes = project.settings.flag("notes") and project.settings.text("model") != "none"
        if call.event is HookEvent.COMPACT and has_notes:
            start_detached(call.cwd, "notes", "update", "--session", session, "--transcript", transcript)
        if call.event is not HookEvent.END:
            start_detached(call.cwd, "worker")


def _forget_start(output: HookOutput, session: str) -> None:
    """Exclude messages sent while memory is off from later learning."""
    if output.state and session and STARTED in (file := SessionFile(output.state, session)).read().extra:
        file.change(lambda at: replace(at, extra={key: value for key, value in at.extra.items() if key != STARTED}))


def _is_extracted(record: SessionRecord, transcript: str) -> bool:
    from memdir.conversation.transcripts import read_tail

    cursor = parse_cursor(record.extra.get("cursor"))
    if cursor is None:
        return False
    try:
        last = read_tail(transcript, 1)
    except MemdirError:
        return False
    if not last:
        return False
    return last[-1].id == cursor.id if cursor.id else digest_message(last[-1]) == cursor.digest


def handle_agent(call: HookInput, output: HookOutput) -> None:
    """Show a new subagent the standing rules, and the indexes of its memories, except the one its host loads."""
    from memdir.conversation.instructions import InstructionMode, find_frame, load_indexes
    from memdir.recall.reminder import fit_lines

    name = call.text("agent_type")
    with open_hook_project(call, output) as project:
        if project is None:
            return
        rules = load_rules(project)
        output.reply = HookReply(rules)
        if not name:
            return
        root = project.places.root.path
        definitions = list_definitions(project.environment, root) if call.host.loads_index else ()
        loaded = next((definition.memory for definition in definitions if fold(definition.name) == fold(name)), None)
        places: list[AgentDirectory] = []
        for scope in AgentScope:
            with suppress(PathError):
                places.append(find_agent_place(name, scope, environment=project.environment, root=root))
        own = [place for place in places if place.path.is_dir() and place.scope is not loaded]
        frames = [find_frame(project, mode=InstructionMode.AGENT, agent=directory) for directory in own]
        indexes = [index for frame in frames for index in load_indexes(frame)]
        texts = [rules, *(index.text for index in indexes if index.clip.lines_total or index.clip.warning)]
        output.reply = HookReply(fit_lines(_GAP.join(filter(None, texts)), HOOK_INDEX_CHARS, where=INDEX_FILE))


def load_rules(project: Project) -> str:
    from memdir.conversation.instructions import render_rules
    from memdir.conversation.start import find_project_rules

    return render_rules(find_project_rules(project))


HANDLERS: Mapping[HookEvent, Callable[[HookInput, HookOutput], None]] = {
    HookEvent.START: handle_start,
    HookEvent.AGENT: handle_agent,
    **dict.fromkeys((HookEvent.STOP, HookEvent.COMPACT, HookEvent.END), handle_end),
}
