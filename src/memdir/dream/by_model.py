"""Let a model consolidate memories. Its changes are staged for review.

The input is the manifest, the daily logs, possibly outdated memories and some texts, all limited in size. A model with
tools works in one limited run. A model without tools returns a list of operations; invalid ones are sent back once. In
both cases, changes are only staged. A transcript search returns single lines, never a conversation.

An invalid operation does not affect the others, and writes staged before a run broke off are reviewed like all others. A
run that staged nothing and gave no answer has failed. `review` decides which writes are saved.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, time
from pathlib import Path

from memdir import limits
from memdir.conversation.includes import looks_secret
from memdir.conversation.transcripts import search_transcripts
from memdir.dream.logs import _ENTRY, LogSlice, select_logs
from memdir.dream.records import DreamPhase, DreamProgress, read_memories
from memdir.dream.stale import find_drifted, render_passed
from memdir.errors import MemdirError, ReplyError
from memdir.format import frontmatter
from memdir.format.age import HALF_LIVES, HalfLives
from memdir.format.shown import TextVoice, find_voice, show_byline, show_line, show_manifest, show_text
from memdir.frozen import dataclass, field, replace
from memdir.models.agent import (
    PATH_KEYS,
    ForkEnd,
    MemoryTools,
    ProjectTree,
    ToolResult,
    pick,
    run_fork,
    translate_names,
)
from memdir.models.connection import can_use_tools
from memdir.models.prompts import render_prompt
from memdir.models.staged import (
    REASONED,
    Operation,
    StagedView,
    Staging,
    ask_repairing,
    check_reply,
    make_object,
    parse_operations,
    stage,
)
from memdir.records import Header, Message, Model, Reply, Request, Tool, ToolCall, When
from memdir.store.contract import Folder, StoreBase
from memdir.store.facts import find_authors
from memdir.text import find_json, fold, one_line, shorten
from memdir.verify.records import Verdict, render_caveat

PURPOSE = "dream"
SEARCH = "search_transcripts"
_NONE = "(none)"
_ROLES, _NOBODY = {"user": "the person", "assistant": "the agent"}, "a tool, no rule may rest on it"
_REASON_CHARS = _SUMMARY_CHARS = 300
_EVIDENCE_CHARS = 1_000
_WORDS = 6  # max words of one transcript search
_AGAIN = "the next dream asks it again; `memdir dream --model none` uses no model"
_ENDS = {
    ForkEnd.TURNS: f"it was not finished after {limits.DREAM_TURNS} turns",
    ForkEnd.CALLS: f"it was not finished after {limits.DREAM_CALLS} calls",
    ForkEnd.REPEATED: "it repeated itself",
    ForkEnd.DECLINED: "it declined",
}


@dataclass(frozen=True, slots=True)
class DreamContext:
    """The project files, transcript folders and half-lives that a dream uses."""

    project: Path | None = None
    transcripts: tuple[Path, ...] = ()
    half_lives: HalfLives = field(default_factory=lambda: HALF_LIVES)


NO_CONTEXT = DreamContext()


@dataclass(frozen=True, slots=True)
class DreamInput:
    """The input of the first request. `drifted` may be outdated, `cueless` lack cues, and `whenless` lack `when`."""

    headers: tuple[Header, ...]
    logs: tuple[LogSlice, ...]
    drifted: tuple[Header, ...]
    caveats: Mapping[str, str] = field(default_factory=dict)
    cueless: tuple[str, ...] = ()
    whenless: tuple[str, ...] = ()
    authors: Mapping[str, str] = field(default_factory=dict)

    def show_source(self, header: Header) -> str:
        """Return a note on whether a memory is pinned, and on its author unless that is the user."""
        byline = show_byline(header.scope, self.authors.get(header.name, ""))
        return " ".join(filter(None, ("Pinned: only the person changes it." if header.pinned else "", byline)))

    def render_drifted(self) -> str:
        """List the memories that may be outdated, each with a warning."""
        lines = []
        for header in self.drifted:
            why = self.caveats.get(header.name, "")
            lines.append(f"- {header.file}, of {header.modified:%Y-%m-%d}" + (f": {why}" if why else ""))
        return "\n".join(lines) or _NONE

    def render_slots(self, now: datetime) -> dict[str, str]:
        notes = {header.name: self.show_source(header) for header in self.headers}
        return {
            "today": f"{now:%A, %Y-%m-%d}",
            "manifest": show_manifest(self.headers, notes=notes) or _NONE,
            "drifted": self.render_drifted(),
            "gone": str(count_removable(len(self.headers))),
            "cueless": ", ".join(self.cueless) or _NONE,
            "whenless": ", ".join(self.whenless) or _NONE,
            "logs": "\n\n".join(f"[{log.day.isoformat()}]\n{log.text.rstrip()}" for log in self.logs) or _NONE,
        }


def split_log(log: LogSlice) -> Iterator[Message]:
    """Yield the entries of a log as messages, dated at the end of its day."""
    end = datetime.combine(log.day, time.max).astimezone()
    return (Message("user", entry.strip(), at=end) for entry in _ENTRY.split(log.text) if entry.strip())


@dataclass(frozen=True, slots=True)
class ModelDream:
    reasons: Mapping[str, str]
    evidence: Mapping[str, str]
    shown: tuple[Message, ...]
    summary: str = ""
    refused: int = 0


def gather(
    store: StoreBase, view: StagedView, verdicts: Mapping[str, Verdict], *, lives: HalfLives = HALF_LIVES, now: datetime
) -> DreamInput:
    memories = [memory for memory in read_memories(view).values() if not memory.header.pinned]
    logs = tuple(select_logs(store)) if isinstance(store, Folder) else ()
    passed = {memory.header.name: text for memory in memories if (text := render_passed(memory, now))}
    drifted = find_drifted(view.scan(), verdicts, lives, now)
    expired = [memory.header for memory in memories if memory.header.name in passed and memory.header not in drifted]
    listed = (*expired, *drifted)[: limits.DREAM_DRIFTED]
    names = [header.name for header in listed]
    known = {name: render_caveat(verdicts[name]) for name in names if name in verdicts}
    caveats = {name: "; ".join(filter(None, (known.get(name), passed.get(name)))) for name in names}
    fields = {memory.header.name: frontmatter.parse_fields(memory.text) for memory in memories}
    cueless, whenless = (
        tuple(name for name, own in fields.items() if is_bare(own))[: limits.DREAM_CUED]
        for is_bare in (lambda own: not own.cues, lambda own: own.when == When())
    )
    headers = view.scan()
    authors = find_authors(store, [header.name for header in headers if find_voice(header.scope) is TextVoice.SHARED])
    return DreamInput(headers, logs, listed, caveats, cueless, whenless, authors)


def count_removable(memories: int) -> int:
    """Return how many of these memories a dream may remove. Exact duplicates may be removed in addition."""
    return max(limits.DREAM_GONE_LEAST, int(limits.DREAM_GONE_SHARE * memories))


def dream_with_model(
    model: Model,
    staging: Staging,
    view: StagedView,
    dream_input: DreamInput,
    *,
    memory: Path,
    context: DreamContext,
    progress: DreamProgress,
    now: datetime,
) -> ModelDream:
    """Let the model stage changes. Raises ReplyError if the run fails, and any error of the model."""
    progress.enter(DreamPhase.ORIENT)
    slots = dream_input.render_slots(now)
    if can_use_tools(model):
        notes = {fold(header.name): dream_input.show_source(header) for header in dream_input.headers}
        tools = DreamTools(staging, memory, context, progress, notes)
        return _run_with_tools(progress.wrap(model), staging, tools, slots)
    progress.enter(DreamPhase.CONSOLIDATE)
    return _ask_for_operations(progress.wrap(model), staging, {**slots, "texts": _render_texts(dream_input, view)})


def _run_with_tools(model: Model, staging: Staging, tools: "DreamTools", slots: Mapping[str, str]) -> ModelDream:
    task = render_prompt("dream/task", **slots, turns=str(limits.DREAM_TURNS), calls=str(limits.DREAM_CALLS))
    system = render_prompt("dream/system", rules=render_prompt("dream/rules"))
    request = Request(system, (Message("user", task),), limits.FORK_TOKENS, tools=TOOLS, purpose=PURPOSE)
    result = run_fork(model, request, tools, turns=limits.DREAM_TURNS, calls=limits.DREAM_CALLS)
    summaries = (value.get("summary") for value in find_json(result.text) if isinstance(value, dict))
    summary = next((text for text in summaries if isinstance(text, str)), None)
    if not staging.staged and result.end is not ForkEnd.DONE:
        raise ReplyError(f"the model changed nothing: {_ENDS[result.end]}", hint=_AGAIN)
    if not staging.staged and summary is None:  # a model that changes nothing must still return a summary
        reply = shorten(one_line(result.text), 60) or "nothing"
        raise ReplyError(f"the model changed nothing and gave no summary: {reply!r}", hint=_AGAIN)
    text = shorten(one_line(_ENDS.get(result.end) or (result.text if summary is None else summary)), _SUMMARY_CHARS)
    return ModelDream(tools.reasons, tools.evidence, tuple(tools.shown), text, result.refused)


def _ask_for_operations(model: Model, staging: Staging, slots: Mapping[str, str]) -> ModelDream:
    """Ask the model for operations and stage them. Invalid operations are sent back once."""
    system = render_prompt("dream/ask_system", rules=render_prompt("dream/rules"))
    messages = (Message("user", render_prompt("dream/ask", **slots)),)
    operations: dict[str, Operation] = {}
    pinned_count = 0

    def read(reply: Reply) -> Sequence[str]:
        nonlocal pinned_count
        staged, problems, pinned_count = _stage_operations(reply, staging)
        operations.update(staged)
        return problems

    request = Request(system, messages, limits.FORK_TOKENS, REASONED, purpose=PURPOSE)
    _, problems = ask_repairing(model, request, read, "dream/repair")
    if problems and not operations:
        raise ReplyError(f"the model's answer cannot be used: {problems[0]}", hint=_AGAIN)
    reasons = {fold(name): operation.reason for name, operation in operations.items() if operation.reason}
    quotes = {fold(name): operation.evidence for name, operation in operations.items() if operation.evidence}
    return ModelDream(reasons, quotes, (), refused=len(problems) + pinned_count)


def _stage_operations(reply: Reply, staging: Staging) -> tuple[dict[str, Operation], list[str], int]:
    """Stage the operations in a reply. Return the valid ones, the problems, and how many concern pinned memories."""
    operations = parse_operations(check_reply(reply), limit=limits.DREAM_OPERATIONS)
    pinned = {fold(header.name) for header in staging.scan() if header.pinned}
    of_pinned = [operation for operation in operations if fold(operation.name) in pinned]
    # A contradiction of a pinned memory is staged, so that `review` can ask the user. A dream never changes its cues.
    asking = [replace(operation, cues=()) for operation in of_pinned if operation.action == "delete" or operation.body]
    free = [operation for operation in operations if fold(operation.name) not in pinned]
    completed = [_complete(operation, staging) for operation in (*free, *asking)]
    return *stage(completed, staging, limit=limits.DREAM_WRITTEN_BYTES), len(of_pinned)


def _complete(operation: Operation, staging: Staging) -> Operation:
    """Fill in the missing fields of an update from the existing memory."""
    try:
        text = staging.read(operation.name) if operation.action == "update" else ""
    except MemdirError:
        return operation
    fields, body = frontmatter.parse_fields(text), frontmatter.split_frontmatter(text).body.strip("\n")
    return replace(
        operation,
        kind=operation.kind or fields.kind,
        title=operation.title or fields.title,
        description=operation.description or fields.description,
        body=operation.body or body,
        when=operation.when if fields.when == When() else None,
    )


def _render_texts(dream_input: DreamInput, view: StagedView) -> str:
    """Render complete memories within the limit. Those that may be outdated come first, then the newest."""
    texts, room = [], limits.DREAM_TEXT_CHARS
    for header in dict.fromkeys((*dream_input.drifted, *dream_input.headers)):
        try:
            text = view.read(header.name).text
        except MemdirError:
            continue
        if text and len(text) <= room:
            note = dream_input.show_source(header)
            voice = TextVoice.FILE if find_voice(header.scope) is TextVoice.OWN else TextVoice.SHARED
            head = f"{show_line(header.file)}{f' ({note})' if note else ''}"
            texts.append(f"{head}:\n{show_text(text.rstrip(), voice)}")
            room -= len(text)
    return "\n\n".join(texts) or _NONE


def _make_tool(name: str, description: str, **parameters: str) -> Tool:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    return Tool(name, description, make_object(properties))


_FILE = "`memory/NAME.md`"
_WHY = {
    "reason": "why, in one short sentence",
    "evidence": "the words it rests on, copied exactly, or the memories it comes from",
}
TOOLS = (
    _make_tool("list", "List memories, or files of the project.", path="`memory`, or a glob of project files"),
    _make_tool("read", "Read a memory or a project file.", path="`memory/NAME.md`, or a project file's path"),
    _make_tool(
        "search", "Find lines that hold one of the words.", query="words with | between them", path="`memory` or a glob"
    ),
    _make_tool(
        SEARCH,
        "Find single lines of past conversations that hold all of the words.",
        words="two or three telling words",
    ),
    _make_tool("write", "Write a whole memory file.", path=_FILE, content="frontmatter and body", **_WHY),
    _make_tool(
        "edit", "Replace one passage of a memory.", path=_FILE, old="the passage, once", new="its replacement", **_WHY
    ),
    _make_tool("delete", "Delete a memory that was merged away or overtaken.", path=_FILE, **_WHY),
)


class DreamTools:
    """The tools of a run, which require a reason for every change. `shown` collects texts from outside the memory."""

    def __init__(
        self, staging: Staging, memory: Path, context: DreamContext, progress: DreamProgress, notes: Mapping[str, str]
    ) -> None:
        tree = None if context.project is None else ProjectTree(context.project, looks_secret)
        self._tools = MemoryTools(staging, memory, tree, limit=limits.DREAM_WRITTEN_BYTES)
        self._staging, self._folders, self._progress = staging, context.transcripts, progress
        self._pinned = {fold(header.name) for header in staging.scan() if header.pinned}
        self._notes = notes
        self.reasons: dict[str, str] = {}
        self.evidence: dict[str, str] = {}
        self.shown: list[Message] = []

    def __call__(self, call: ToolCall) -> ToolResult:
        self._progress.check()
        self._progress.now = replace(self._progress.now, calls=self._progress.now.calls + 1)
        result = self._search(call) if call.name == SEARCH else self._run_call(call)
        left = limits.DREAM_TURNS - self._progress.now.turns
        warning = f"{result.text}\n(Turns left: {left}. Come to an end.)"
        return result if left > 2 else ToolResult(warning, result.refused)

    def _run_call(self, call: ToolCall) -> ToolResult:
        tool, values = translate_names(call)
        path = pick(values, PATH_KEYS)
        where = inner = ""
        with suppress(MemdirError):
            where, inner = self._tools.find(path)
        is_memory, name, result = where == "memory", inner.removesuffix(".md"), self._tools(call)
        if tool in ("write", "edit", "delete") and not result.refused:
            if reason := one_line(pick(values, ("reason",))):
                self.reasons[fold(name)] = shorten(reason, _REASON_CHARS)
            if evidence := pick(values, ("evidence",)):
                self.evidence[fold(name)] = shorten(evidence, _EVIDENCE_CHARS)
            self._progress.enter(DreamPhase.PRUNE if tool == "delete" else DreamPhase.CONSOLIDATE)
            self._progress.touch(len(self._staging.staged))
            if fold(name) in self._pinned:
                asked = "if something newer contradicts it, the person is asked"
                return ToolResult(f"Refused: {name} is pinned and stays as it is; {asked}.", refused=True)
        elif not result.refused and path and not is_memory:
            self.shown.append(Message("tool", result.text, f"{tool} {path}"))
            self._progress.enter(DreamPhase.GATHER)
        elif tool == "read" and is_memory and not result.refused and (note := self._notes.get(fold(name), "")):
            return replace(result, text=f"({note})\n{result.text}")
        return result

    def _search(self, call: ToolCall) -> ToolResult:
        words = " ".join(one_line(pick(call.input, ("words", "query", "pattern"))).replace("|", " ").split()[:_WORDS])
        if len(words) < 3:
            return ToolResult("Refused: say which words the line should hold.", refused=True)
        if not self._folders:
            return ToolResult("There are no transcripts here.")
        self._progress.enter(DreamPhase.GATHER)
        lines = []
        for line in search_transcripts(self._folders, words, limit=limits.DREAM_EXCERPTS, open_only=True):
            role, source = line.role if line.role in _ROLES else "tool", f"{Path(line.file).stem}:{line.line}"
            # Only the full message shows whether the user typed the line.
            self.shown.append(Message(role, line.text or line.snippet, source, line.at))
            day = f", {line.at:%Y-%m-%d}" if line.at else ""
            lines.append(f"[{_ROLES.get(line.role, _NOBODY)}{day}] {line.snippet}")
        return ToolResult("\n".join(lines) or "No line holds all of these words.")
