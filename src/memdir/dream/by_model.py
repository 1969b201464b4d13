"""The model's part of a dream: what it is shown, the tools it may use, and its writes on a staging.

It is shown the manifest, the daily logs, what may be out of date, and some texts, all bounded. A model with tools works in
one bounded run; one without returns a list of operations, which is sent back once if it cannot be carried out. Both may
only stage. A search of transcripts returns single lines, never a conversation.

Nothing of a run is thrown away because of the rest: an operation that cannot be done is refused on its own, and what was
staged before a run broke off is reviewed like everything else. A run that staged nothing and gave no answer has failed.
`review` decides what may be kept.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, time
from pathlib import Path

from memdir import limits
from memdir.conversation.includes import looks_secret
from memdir.conversation.transcripts import search_transcripts
from memdir.dream.logs import _ENTRY, LogSlice, select_logs
from memdir.dream.records import DreamPhase, DreamProgress, read_memories
from memdir.dream.stale import find_drifted, render_passed
from memdir.errors import MemdirError, ModelError, ReplyError
from memdir.format import frontmatter
from memdir.format.age import HALF_LIVES, HalfLives
from memdir.format.shown import TextVoice, show_line, show_manifest, show_text
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
from memdir.models.staged import REASONED, Operation, StagedView, Staging, parse_operations, stage
from memdir.records import Header, Message, Model, Reply, Request, StopReason, Tool, ToolCall
from memdir.store.contract import Folder, StoreBase
from memdir.text import find_json, fold, one_line, shorten
from memdir.verify.records import Verdict, render_caveat

PURPOSE = "dream"
SEARCH = "search_transcripts"
_NONE = "(none)"
_ROLES, _NOBODY = {"user": "the person", "assistant": "the agent"}, "a tool, no rule may rest on it"
_WRITING = ("write", "edit", "delete")
_REASON_CHARS = _SUMMARY_CHARS = 300
_EVIDENCE_CHARS = 1_000
_WORDS = 6  # of one search; more are no narrow question
_AGAIN = "the next dream asks it again; `memdir dream --model none` does without"
_ENDS = {
    ForkEnd.TURNS: f"it was not done after {limits.DREAM_TURNS} turns",
    ForkEnd.CALLS: f"it was not done after {limits.DREAM_CALLS} calls",
    ForkEnd.REPEATED: "it repeated itself",
    ForkEnd.DECLINED: "it declined",
}


@dataclass(frozen=True, slots=True)
class DreamContext:
    """What a dream goes by besides the memory: the project's files, the folders of its transcripts, how types age."""

    project: Path | None = None
    transcripts: tuple[Path, ...] = ()
    half_lives: HalfLives = field(default_factory=lambda: HALF_LIVES)


NO_CONTEXT = DreamContext()


@dataclass(frozen=True, slots=True)
class DreamInput:
    """What the model is shown first."""

    headers: tuple[Header, ...]
    logs: tuple[LogSlice, ...]
    drifted: tuple[Header, ...]
    caveats: Mapping[str, str] = field(default_factory=dict)
    cueless: tuple[str, ...] = ()

    def render_drifted(self) -> str:
        """The memories that may be out of date, each with what is known about it."""
        rows = [(f"- {at.file}, of {at.modified:%Y-%m-%d}", self.caveats.get(at.name, "")) for at in self.drifted]
        return "\n".join(f"{line}: {why}" if why else line for line, why in rows) or _NONE

    def render_slots(self, now: datetime) -> dict[str, str]:
        return {
            "today": f"{now:%A, %Y-%m-%d}",
            "manifest": show_manifest(self.headers, limits.MANIFEST_ENTRIES) or _NONE,
            "drifted": self.render_drifted(),
            "gone": str(count_removable(len(self.headers))),
            "cueless": ", ".join(self.cueless) or _NONE,
            "logs": "\n\n".join(f"[{at.day.isoformat()}]\n{at.text.rstrip()}" for at in self.logs) or _NONE,
        }

    def list_messages(self) -> Iterator[Message]:
        """The logs, entry by entry, to trace where a text came from."""
        return (message for at in self.logs for message in split_log(at))


def split_log(log: LogSlice) -> Iterator[Message]:
    """The entries of a log, as of the end of its day."""
    end = datetime.combine(log.day, time.max).astimezone()
    return (Message("user", entry.strip(), at=end) for entry in _ENTRY.split(log.text) if entry.strip())


@dataclass(frozen=True, slots=True)
class ModelDream:
    """A run: by folded name the reason and evidence of each write, and what the model was shown from outside."""

    reasons: Mapping[str, str]
    evidence: Mapping[str, str]
    shown: tuple[Message, ...]
    summary: str = ""
    refused: int = 0


def gather(
    store: StoreBase, view: StagedView, verdicts: Mapping[str, Verdict], *, lives: HalfLives = HALF_LIVES, now: datetime
) -> DreamInput:
    memories = [at for at in read_memories(view).values() if not at.header.pinned]
    logs = tuple(select_logs(store)) if isinstance(store, Folder) else ()
    passed = {at.header.name: text for at in memories if (text := render_passed(at, now))}
    drifted = find_drifted(view.scan(), verdicts, lives, now)
    over = [at.header for at in memories if at.header.name in passed and at.header not in drifted]
    shown = (*over, *drifted)[: limits.DREAM_DRIFTED]
    known = {at.name: render_caveat(verdicts[at.name]) for at in shown if at.name in verdicts}
    caveats = {at.name: "; ".join(filter(None, (known.get(at.name), passed.get(at.name)))) for at in shown}
    cueless = [at.header.name for at in memories if not frontmatter.parse_fields(at.text).cues]
    return DreamInput(view.scan(), logs, shown, caveats, tuple(cueless[: limits.DREAM_CUED]))


def count_removable(memories: int) -> int:
    """How many memories a dream may remove, besides those that it merges word for word."""
    return max(limits.DREAM_GONE_LEAST, int(limits.DREAM_GONE_SHARE * memories))


def dream_with_model(
    model: Model,
    staging: Staging,
    view: StagedView,
    given: DreamInput,
    *,
    memory: Path,
    context: DreamContext,
    progress: DreamProgress,
    now: datetime,
) -> ModelDream:
    """Let the model write on a staging; raises ReplyError for a run that failed, and whatever the model raises."""
    progress.enter(DreamPhase.ORIENT)
    slots = given.render_slots(now)
    if can_use_tools(model):
        tools = DreamTools(staging, memory, context, progress)
        return _run_with_tools(progress.wrap(model), staging, tools, slots)
    progress.enter(DreamPhase.CONSOLIDATE)
    return _ask_for_operations(progress.wrap(model), staging, {**slots, "texts": _render_texts(given, view)})


def _run_with_tools(model: Model, staging: Staging, tools: "DreamTools", slots: Mapping[str, str]) -> ModelDream:
    task = render_prompt("dream/task", **slots, turns=str(limits.DREAM_TURNS), calls=str(limits.DREAM_CALLS))
    system = render_prompt("dream/system", rules=render_prompt("dream/rules"))
    request = Request(system, (Message("user", task),), limits.FORK_TOKENS, tools=TOOLS, purpose=PURPOSE)
    ran = run_fork(model, request, tools, turns=limits.DREAM_TURNS, calls=limits.DREAM_CALLS)
    found = (value.get("summary") for value in find_json(ran.text) if isinstance(value, dict))
    summary = next((text for text in found if isinstance(text, str)), None)
    if not staging.staged and ran.end is not ForkEnd.DONE:
        raise ReplyError(f"the model changed nothing: {_ENDS[ran.end]}", hint=_AGAIN)
    if not staging.staged and summary is None:  # a model that did nothing must say so in the form it was asked for
        said = shorten(one_line(ran.text), 60) or "nothing"
        raise ReplyError(f"the model changed nothing and gave no summary: {said!r}", hint=_AGAIN)
    told = _ENDS.get(ran.end) or (ran.text if summary is None else summary)
    return ModelDream(
        tools.reasons, tools.evidence, tuple(tools.shown), shorten(one_line(told), _SUMMARY_CHARS), ran.refused
    )


def _ask_for_operations(model: Model, staging: Staging, slots: Mapping[str, str]) -> ModelDream:
    """What cannot be carried out is told at once and asked for once more; the rest is done."""
    system = render_prompt("dream/ask_system", rules=render_prompt("dream/rules"))
    messages: tuple[Message, ...] = (Message("user", render_prompt("dream/ask", **slots)),)
    done: dict[str, Operation] = {}
    while True:
        try:
            reply = model(Request(system, messages, limits.FORK_TOKENS, REASONED, purpose=PURPOSE))
        except ModelError:
            if not done:
                raise
            break
        found, problems, kept = _carry_out(reply, staging)
        done |= found
        if not problems or len(messages) > 1:
            break
        repair = render_prompt("dream/repair", problems="\n".join(f"- {at}" for at in problems))
        messages = (*messages, Message("assistant", reply.text or "(nothing)"), Message("user", repair))
    if problems and not done:
        raise ReplyError(f"the model's answer cannot be used: {problems[0]}", hint=_AGAIN)
    reasons = {fold(name): at.reason for name, at in done.items() if at.reason}
    quotes = {fold(name): at.evidence for name, at in done.items() if at.evidence}
    return ModelDream(reasons, quotes, (), refused=len(problems) + kept)


def _carry_out(reply: Reply, staging: Staging) -> tuple[Mapping[str, Operation], tuple[str, ...], int]:
    """The operations of a reply that were staged, in words what could not be, and how many were about pinned memories."""
    if reply.stop in (StopReason.REFUSED, StopReason.LENGTH):
        return {}, ("it declined" if reply.stop is StopReason.REFUSED else "the token limit cut it short",), 0
    try:
        operations = parse_operations(reply.text, limit=limits.DREAM_OPERATIONS)
    except ReplyError as error:
        return {}, (str(error),), 0
    pinned = {fold(header.name) for header in staging.scan() if header.pinned}
    wanted = [_complete(at, staging) for at in operations if fold(at.name) not in pinned]
    result = stage(wanted, staging, limit=limits.DREAM_WRITTEN_BYTES)
    return result.done, result.problems, len(operations) - len(wanted)


def _complete(operation: Operation, staging: Staging) -> Operation:
    """An update with all that it leaves empty taken from the memory, so that cues can be added by themselves."""
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
    )


def _render_texts(given: DreamInput, view: StagedView) -> str:
    """Return whole memories within the limit: those that may be out of date first, then the newest."""
    texts, room = [], limits.DREAM_TEXT_CHARS
    for header in dict.fromkeys((*given.drifted, *given.headers)):
        try:
            text = view.read(header.name).text
        except MemdirError:
            continue
        if text and len(text) <= room:
            pinned = " (pinned)" if header.pinned else ""
            texts.append(f"{show_line(header.file)}{pinned}:\n{show_text(text.rstrip(), TextVoice.FILE)}")
            room -= len(text)
    return "\n\n".join(texts) or _NONE


def _make_tool(name: str, description: str, **parameters: str) -> Tool:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": [*parameters], "additionalProperties": False}
    return Tool(name, description, schema)


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
    """The tools of a fork, with a reason for every change, and a search of transcripts.

    `shown` is what the model was shown from outside the memory.
    """

    def __init__(self, staging: Staging, memory: Path, context: DreamContext, progress: DreamProgress) -> None:
        tree = None if context.project is None else ProjectTree(context.project, looks_secret)
        self._tools = MemoryTools(staging, memory, tree, limit=limits.DREAM_WRITTEN_BYTES)
        self._staging, self._folders, self._progress = staging, context.transcripts, progress
        self._pinned = {fold(header.name) for header in staging.scan() if header.pinned}
        self.reasons: dict[str, str] = {}
        self.evidence: dict[str, str] = {}
        self.shown: list[Message] = []

    def __call__(self, call: ToolCall) -> ToolResult:
        self._progress.check()
        self._progress.count_call()
        result = self._search(call) if call.name == SEARCH else self._run_call(call)
        left = limits.DREAM_TURNS - self._progress.now.turns
        warning = f"{result.text}\n(Turns left: {left}. Come to an end.)"
        return result if left > 2 else ToolResult(warning, result.refused)

    def _run_call(self, call: ToolCall) -> ToolResult:
        verb, values = translate_names(call)
        path = pick(values, PATH_KEYS)
        try:
            target = self._tools.find(path)
        except MemdirError:
            target = None
        is_memory = target is not None and target.where == "memory"
        name = target.path.removesuffix(".md") if target is not None else ""
        if verb in _WRITING and fold(name) in self._pinned:
            return ToolResult(f"Refused: {name} is pinned and stays as it is.", refused=True)
        result = self._tools(call)
        if verb in _WRITING and not result.refused:
            if reason := one_line(pick(values, ("reason",))):
                self.reasons[fold(name)] = shorten(reason, _REASON_CHARS)
            if evidence := pick(values, ("evidence",)):
                self.evidence[fold(name)] = shorten(evidence, _EVIDENCE_CHARS)
            self._progress.enter(DreamPhase.PRUNE if verb == "delete" else DreamPhase.CONSOLIDATE)
            self._progress.touch(len(self._staging.staged))
        elif not result.refused and path and not is_memory:
            self.shown.append(Message("tool", result.text, f"{verb} {path}"))
            self._progress.enter(DreamPhase.GATHER)
        return result

    def _search(self, call: ToolCall) -> ToolResult:
        words = " ".join(one_line(pick(call.input, ("words", "query", "pattern"))).replace("|", " ").split()[:_WORDS])
        if len(words) < 3:
            return ToolResult("Refused: say which words the line should hold.", refused=True)
        if not self._folders:
            return ToolResult("There are no transcripts here.")
        self._progress.enter(DreamPhase.GATHER)
        found = search_transcripts(self._folders, words, limit=limits.DREAM_EXCERPTS)
        # All of the message that the line stood in: only that shows whether it was the person's own.
        for at in found:
            role, place = at.role if at.role in _ROLES else "tool", f"{Path(at.file).stem}:{at.line}"
            self.shown.append(Message(role, at.text or at.snippet, place, at.at))
        heads = ((_ROLES.get(at.role, _NOBODY), f", {at.at:%Y-%m-%d}" if at.at else "", at.snippet) for at in found)
        lines = "\n".join(f"[{who}{day}] {snippet}" for who, day, snippet in heads)
        return ToolResult(lines or "No line holds all of these words.")
