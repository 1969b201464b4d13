"""Hook events of tool calls: check writes to memory, and show the memories whose triggers match an action.

Before a tool runs, only settings and derived indexes are read; stores are opened if a memory matches, or if the tool may
write to memory. Hosts that show no context before a tool get the memories after it. After a command has failed,
memories about the command and its error are shown. After any tool, memories selected in the background are shown.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memdir.errors import MemdirError
from memdir.frozen import compile_late, dataclass, replace
from memdir.interfaces.hooks import (
    HookInput,
    HookOutput,
    HookReply,
    open_hook_project,
    render_line,
    render_recalled,
    take_saved_titles,
)
from memdir.project.hosts import EDITORS, PATH_KEYS, READERS, SHELLS, WRITERS, HookEvent, plain_name
from memdir.project.paths import ProjectPaths, find_root, find_state_dir, read_paths
from memdir.project.settings import Settings
from memdir.recall.triggers import (
    COMMAND_KEYS,
    ENFORCING,
    Action,
    TriggerMatch,
    find_action,
    find_candidates,
    find_defined,
    find_matches,
    list_texts,
    read_frequent,
    read_ranking,
)
from memdir.records import Enforce, Moment, Origin, Scope, ToolCall
from memdir.store.sessions import ACTED, SELECTION, SessionFile
from memdir.store.state import INDEX, digest_text, note_event
from memdir.text import cut_middle, one_line, shorten

if TYPE_CHECKING:
    from memdir.conversation.tool_calls import FileWrite, MemoryRoot, WriteVerdict
    from memdir.recall.action import ActionRecall
    from memdir.recall.pipeline import RecallResult
    from memdir.store.open import Project
    from memdir.store.secrets import SecretFinding

_EXIT = compile_late(
    r"^(?:Exit Code|Process exited with code|<shellId: \d+ completed with exit code):? -?[1-9]", re.MULTILINE
)
# Codex passes only the output of a command, so recognise a failure by its lines.
_ERROR = compile_late(
    r"^(?:(?:\S+: )?(?:error|fatal|panic|\*\*\*)|Traceback \(|.*: command not found$)", re.IGNORECASE | re.MULTILINE
)
_ERROR_CHARS = 2_000  # kept from the beginning and the end of an error
_CALL_CHARS = 200  # the most of a tool call in the recall log


@dataclass(frozen=True, slots=True)
class _CallPaths:
    """The settings and paths of a call, and the state folder of the project's memory."""

    settings: Settings
    paths: ProjectPaths
    state: Path

    @property
    def folders(self) -> dict[Scope, Path]:
        places = (self.paths.private, self.paths.project, self.paths.user)
        return {place.scope: place.path for place in places if place is not None}


def handle_before(call: HookInput, output: HookOutput) -> None:
    """Refuse forbidden writes to memory, enforce rules, and show the memories whose triggers match the action."""
    name = plain_name(call.text("tool_name"))
    with _open_paths(call, output) as places:
        if places is None:
            return
        if name in WRITERS | EDITORS | SHELLS and _may_write_memory(call, places):
            _check_write(call, output)
        if output.reply == HookReply():
            _recall_action(call, output, places, name)
        _show_rules_to_subagent(call, output, places)


def handle_after(call: HookInput, output: HookOutput) -> None:
    """Show memories selected in the background, about a failed command, or about what is defined in a text that was read.

    Also record the memories that the tool read.
    """
    name = plain_name(call.text("tool_name"))
    if not call.session:
        return
    if not call.is_subagent and call.event is HookEvent.AFTER_TOOL:
        with open_hook_project(call, output) as project:
            if project is not None:
                _record_read_memories(call, project)
                _record_carried_out(call, project)
                _show_selected(call, project, output)
    error = _find_error(call) if name in SHELLS else ""
    is_late = HookEvent.BEFORE_TOOL not in call.host.shows_after
    seen = None if error else _find_seen(call, name)
    if output.reply == HookReply() and (error or is_late or seen):
        with _open_paths(call, output) as places:
            if places is not None and error:
                _recall_failure(call, output, places, error)
            if places is not None and is_late and output.reply == HookReply():
                _recall_action(call, output, places, name)
            if places is not None and seen and output.reply == HookReply():
                _recall_action(call, output, places, name, seen)
            if places is not None:
                _show_rules_to_subagent(call, output, places)


def _show_rules_to_subagent(call: HookInput, output: HookOutput, places: _CallPaths) -> None:
    """Give a subagent the standing rules at its first action, in hosts without an event for its start."""
    has_event = any(hook.event is HookEvent.AGENT for hook in call.host.hooks)
    if has_event or not (call.session and call.is_subagent and call.event in call.host.shows_after):
        return
    session = SessionFile(places.state, f"{call.session}/{call.text('agent_id')}")
    if session.find_index():
        return
    from memdir.interfaces.hook_events import load_rules

    with open_hook_project(call, output) as project:
        if project is not None:
            rules = load_rules(project)
            output.reply = replace(output.reply, context="\n\n".join(filter(None, (rules, output.reply.context))))
            session.note_index(rules)


@contextmanager
def _open_paths(call: HookInput, output: HookOutput) -> Iterator[_CallPaths | None]:
    """Read settings and paths without opening a store, or return None if memory is off. Records the event."""
    environment = call.environment
    settings, paths = read_paths(environment, call.cwd.absolute())
    state = find_state_dir(paths.private.path, environment)
    output.state, output.patience = state, settings.number("hook_patience")
    is_on = paths.switch.on
    yield _CallPaths(settings, paths, state) if is_on else None
    if is_on:
        note_event(state, call.host.key, call.event.value, environment.now or datetime.now(UTC))


# --- actions -----------------------------------------------------------------------------------------------------------


def _find_seen(call: HookInput, name: str) -> Action | None:
    """Return what is defined in the text that a tool has read, or None if nothing is."""
    response = call.table.get("tool_response") or call.table.get("tool_result")
    if name not in READERS | SHELLS or call.event is not HookEvent.AFTER_TOOL or not response:
        return None
    seen = find_defined("\n".join(_list_all_strings(response)))
    return seen if seen.defined else None


def _recall_action(
    call: HookInput, output: HookOutput, places: _CallPaths, name: str, seen: Action | None = None
) -> None:
    """Show the memories whose triggers match a tool call. Before the call, also ask or refuse if a rule says so.

    `seen` is what the call has read; it only shows memories.
    """
    if not places.settings.flag("recall") or places.settings.flag("paused") or not call.session:
        return
    ranking = read_ranking(SessionFile(places.state, call.session))
    cwd = call.text("cwd") or str(call.cwd)
    tops = [find_root(Path(cwd), worktree="own").path, places.paths.root.path]
    action = seen or find_action(name, call.find_tool_input(), cwd, tops)
    if action is None or ranking.off:
        return
    matches = _find_all_matches(call, places, action)
    shows = call.event in call.host.shows_after
    candidates = find_candidates(matches, ranking, action, read_frequent(places.state)) if shows else []
    is_before = call.event is HookEvent.BEFORE_TOOL
    may_enforce = (is_before or shows) and not seen
    rules = [(scope, match.name) for scope, match in matches if may_enforce and match.kinds & ENFORCING]
    if not candidates and not rules:
        return
    # Imported here and below, because few actions match a trigger.
    from memdir.recall.action import recall_at_action
    from memdir.store.open import open_project

    project = open_project(call.cwd)
    try:
        recalled = recall_at_action(
            project,
            call.session,
            action,
            candidates,
            rules,
            turn=ranking.turn,
            text=shorten(one_line(f"{call.text('tool_name')} {action.command or ' '.join(action.paths)}"), _CALL_CHARS),
            agent=call.text("agent_id"),
            shows=shows,
            decides=is_before,
            moment=Moment.READ if seen else Moment.ACTION,
            on_found=partial(_show_recalled, call, project, output),
        )
        if (names := recalled.names) and not seen:
            table = {"call": _digest_call(call), "names": [[scope.value, name] for scope, name in names]}
            with suppress(MemdirError):
                SessionFile(project.private.state, call.session).write_prompt(ACTED, table, durable=False)
    finally:
        project.close()


def _find_all_matches(call: HookInput, places: _CallPaths, action: Action) -> list[tuple[Scope, TriggerMatch]]:
    matches = []
    for scope, folder in places.folders.items():
        state = find_state_dir(folder, call.environment)
        matches += [(scope, match) for match in find_matches(state / INDEX, action)]
    return matches


def _show_recalled(call: HookInput, project: "Project", output: HookOutput, recalled: "ActionRecall") -> None:
    from memdir.recall.action import show_reminder

    texts = [show_reminder(excerpt) for excerpt in recalled.memories]
    titles = [excerpt.header.title for excerpt in recalled.memories] if project.settings.flag("visible") else []
    message = render_line((), (), reminded=titles)
    reason = asks = ""
    if recalled.rule is not None:
        reason = f"memdir: a rule of the user applies. {show_reminder(recalled.rule, short=True)}"
        asks = "asks" if recalled.decision is Enforce.ASK and call.host.can_ask else "refuses"
        name = recalled.rule.header.name
        line = f"memdir: “{one_line(recalled.rule.header.title)}” {asks}; `memdir rule override {name}` allows it once"
        message = "\n".join(filter(None, (line, message)))
    is_asked = asks == "asks"
    output.reply = HookReply("\n\n".join(texts), message, "" if is_asked else reason, reason if is_asked else "")


def _recall_failure(call: HookInput, output: HookOutput, places: _CallPaths, error: str) -> None:
    """Show the memories about a failed command or its error."""
    if not places.settings.flag("recall") or places.settings.flag("paused"):
        return
    from memdir.recall.action import recall_at_failure
    from memdir.store.open import open_project

    command = " ".join(list_texts(call.find_tool_input(), COMMAND_KEYS))
    project = open_project(call.cwd)
    try:
        show = partial(_show_recalled, call, project, output)
        recall_at_failure(project, call.session, command, error, agent=call.text("agent_id"), on_found=show)
    finally:
        project.close()


def _find_error(call: HookInput) -> str:
    """Return the error text of a failed tool call, shortened, or "" if the call succeeded or was interrupted."""
    response = call.table.get("tool_response") or call.table.get("tool_result")
    if error := call.text("error"):
        return "" if call.table.get("is_interrupt") is True else cut_middle(error, _ERROR_CHARS, "…")
    table: Mapping[str, object] = response if isinstance(response, dict) else {"output": response}
    metadata = table.get("metadata")
    codes = [
        row.get(key)
        for row in (table, metadata if isinstance(metadata, dict) else {})
        for key in ("exit_code", "exitCode", "returncode")
    ]
    text = "\n".join(list_texts(table, ("error", "stderr", "output", "stdout", "llmContent", "text_result_for_llm")))
    has_failed = table.get("success") is False or table.get("is_error") is True or bool(table.get("error"))
    has_failed |= any(type(code) is int and code for code in codes) or bool(_EXIT.search(text[:_ERROR_CHARS]))
    if has_failed or (isinstance(response, str) and _ERROR.search(text)):
        return cut_middle(text, _ERROR_CHARS, "…")
    return ""


def _digest_call(call: HookInput) -> str:
    values = sorted((key, str(value)) for key, value in call.find_tool_input().items() if key != "description")
    return digest_text(f"{call.text('tool_name')}\0{values}")


def _record_carried_out(call: HookInput, project: "Project") -> None:
    """Record that an action was carried out after a memory had been shown for it."""
    session = SessionFile(project.private.state, call.session)
    if not session.find_prompt_file(ACTED).is_file():
        return
    table = session.read_prompt(ACTED)
    if table.get("call") == _digest_call(call) and session.drop_prompt(ACTED):
        from memdir.recall.action import note_moment

        note_moment(project, call.session, table.get("names"), Moment.CARRIED_OUT)


# --- writes to memory --------------------------------------------------------------------------------------------------


def _may_write_memory(call: HookInput, places: _CallPaths) -> bool:
    """Return whether a tool call contains the name of a memory directory; the others need no further checks."""
    folders = [*places.folders.values(), Path("memory"), Path("agent-memory")]
    names = {os.path.basename(path).casefold() for folder in folders for path in (folder, os.path.realpath(folder))}
    texts = [call.text("cwd"), *_list_all_strings(call.find_tool_input())]
    plain = (text.translate(_UNQUOTED) if len(text) < _QUOTED_CHARS else text for text in texts)
    return any(name in text for text in map(str.casefold, plain) for name in names)


_QUOTED_CHARS = 100_000  # a longer text is no command
_UNQUOTED = str.maketrans(dict.fromkeys("\"'\\"))


def _list_all_strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _list_all_strings(item)


def _check_write(call: HookInput, output: HookOutput) -> None:
    from memdir.conversation.tool_calls import find_writes, judge_write

    tool_call = ToolCall("", call.text("tool_name"), call.find_tool_input())
    with open_hook_project(call, output) as project:
        if project is None:
            return
        cwd, home = call.text("cwd") or str(call.cwd), str(project.environment.home)
        writes = list(find_writes(tool_call, list(_list_memory_roots(project, Path(cwd))), cwd=cwd, home=home))
        today = project.now().astimezone().date()
        verdicts = [judge_write(write, lambda text: _find_secrets(project, text), today=today) for write in writes]
        if not any(verdict.refused for verdict in verdicts):
            verdicts += [_check_new_text(project, write, call.session) for write in writes]
        refused = next((verdict.refused for verdict in verdicts if verdict.refused), "")
        remarks = "; ".join(text for verdict in verdicts for text in verdict.warnings)
        if refused:
            output.reply = HookReply(refused=f"memdir keeps this out of memory: {refused}.")
        elif remarks:
            text = f"memdir noticed in what is written to memory: {remarks}."
            output.reply = HookReply(context=text, message=text)


def _check_new_text(project: "Project", write: "FileWrite", session: str) -> "WriteVerdict":
    """Refuse to pin memories or enforce rules; send team writes to the inbox if the user reviews them."""
    from memdir.conversation.tool_calls import WriteVerdict
    from memdir.format.frontmatter import decode, parse_fields
    from memdir.store.plan import FileChange, is_index_path, is_team

    store = project.private
    is_held = store.rules.review and is_team(write.path) and write.directory.root == store.root
    try:
        before = store.read_bytes(write.path) if write.directory.root == store.root else None
    except MemdirError:
        before = None
    if not is_held:
        new, old = parse_fields(write.text if write.is_whole else ""), parse_fields(decode(before or b""))
        if new.when.enforce not in (None, old.when.enforce):
            return WriteVerdict("only users can make rules that ask or refuse: leave `enforce` out")
        is_new_pin = new.pinned and not old.pinned
        return WriteVerdict("only users can pin memories, with `memdir pin`: leave `pinned` out" if is_new_pin else "")
    if is_index_path(write.path):
        return WriteVerdict(
            "the line is added to the team's index when the user approves the memory; no action is needed"
        )
    if not write.is_whole:
        return WriteVerdict(
            "changes to team memories need the user's review: write the complete file, so that it can be reviewed"
        )
    change = FileChange(write.path, before, write.text.encode("utf-8", "replace"))
    return WriteVerdict(str(store.hold_for_review([change], Origin("agent", "by its file tools", session))))


def _list_memory_roots(project: "Project", cwd: Path) -> "Iterator[MemoryRoot]":
    """Return every memory directory in use, including a worktree's own; the last of equal paths wins."""
    from memdir.conversation.tool_calls import MemoryRoot

    root, home = project.places.root.path, project.environment.claude_home
    for top in (root, find_root(cwd, worktree="own").path):
        yield MemoryRoot(top / ".claude" / "memory", is_shared=True)
    yield MemoryRoot(root / ".claude" / "agent-memory", is_shared=True)
    yield MemoryRoot(root / ".claude" / "agent-memory-local")
    yield MemoryRoot(home / "agent-memory")
    for store in project.stores:
        yield MemoryRoot(store.root, is_shared=store.scope is Scope.PROJECT, has_logs=True)


def _find_secrets(project: "Project", text: str) -> "Sequence[SecretFinding]":
    from memdir.store.secrets import open_finder

    return open_finder(project.environment, forgive=True)(text)


def _show_selected(call: HookInput, project: "Project", output: HookOutput) -> None:
    session = SessionFile(project.private.state, call.session)
    if not session.find_prompt_file(SELECTION).is_file():
        return
    from memdir.recall.pipeline import take_selection

    def show(recalled: "RecallResult") -> None:
        output.reply = render_recalled(project, recalled.memories, saved=take_saved_titles(project))

    take_selection(project, call.session, show)


def _record_read_memories(call: HookInput, project: "Project") -> None:
    values = call.find_tool_input()
    if not any(isinstance(value, str) and value.endswith(".md") for value in values.values()):
        return  # most tool calls do not name a memory, and the modules below are slow to load
    from memdir.recall.pipeline import find_key
    from memdir.recall.select import LocalSearch

    if plain_name(call.text("tool_name")) not in WRITERS | EDITORS | READERS:
        return
    paths = [value for key in PATH_KEYS if isinstance(value := values.get(key), str)]
    paths = [path for path in paths if path.endswith(".md") and "\0" not in path]
    session, cwd = SessionFile(project.private.state, call.session), call.text("cwd") or str(call.cwd)
    files = [Path(os.path.join(cwd, path)) for path in paths]
    keys = [key for file in files if (key := find_key(session, project.stores, file)) is not None]
    session.note_read(keys)
    if keys and plain_name(call.text("tool_name")) not in READERS:
        with LocalSearch(project.stores) as search:
            search.refresh_files(files)  # otherwise recall would not see the new text until the next worker runs
