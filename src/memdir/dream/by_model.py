"""The model's part of a dream: what it is shown, the tools it may use, and its writes on a staging.

It is shown the manifest, the daily logs, what may be out of date, and some texts, all bounded. A model with tools works in
one bounded run; one without returns a list of operations, which is sent back once if it cannot be carried out. Both may
only stage. A search of transcripts returns single lines, never a conversation.

A run that comes to no proper end, repeats itself, declines, returns nothing usable, or tries to write outside the memory
has failed as a whole. `review` decides what may be kept of a run that ended well.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from memdir import limits
from memdir.conversation.includes import looks_secret
from memdir.conversation.transcripts import search_transcripts
from memdir.dream.logs import LogSlice, list_undistilled, mark_distilled
from memdir.dream.records import DreamPhase, DreamProgress
from memdir.dream.stale import find_drifted
from memdir.errors import MemdirError, ReplyError
from memdir.format.age import HALF_LIVES, HalfLives
from memdir.format.index import render_manifest
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
from memdir.models.staged import REASONED, StagedView, Staging, parse_operations, stage
from memdir.recall.terms import parse_terms
from memdir.records import Header, Message, Model, Reply, Request, StopReason, Tool, ToolCall
from memdir.store.contract import StoreBase
from memdir.store.files import FileStore
from memdir.store.plan import digest_of
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
_ENTRY = re.compile(r"^- (?:\d{1,2}:\d{2} )?", re.MULTILINE)
_AGAIN = "nothing was changed; the next dream tries again, `memdir dream --model none` works by rules alone"
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

    def render_drifted(self) -> str:
        """The memories that may be out of date, each with what is known about it."""
        rows = [(f"- {at.file}, of {at.modified:%Y-%m-%d}", self.caveats.get(at.name, "")) for at in self.drifted]
        return "\n".join(f"{line}: {why}" if why else line for line, why in rows) or _NONE

    def render_slots(self, now: datetime) -> dict[str, str]:
        return {
            "today": f"{now:%A, %Y-%m-%d}",
            "manifest": render_manifest(self.headers, limits.MANIFEST_ENTRIES) or _NONE,
            "drifted": self.render_drifted(),
            "logs": "\n\n".join(f"[{at.day.isoformat()}]\n{at.text.rstrip()}" for at in self.logs) or _NONE,
        }

    def list_messages(self) -> Iterator[Message]:
        """The logs, entry by entry, to trace where a text came from: an entry is the agent's own note."""
        for at in self.logs:
            for number, entry in enumerate(_ENTRY.split(at.text)):
                if entry.strip():
                    yield Message("user", entry.strip(), f"{at.day.isoformat()}:{number}")


@dataclass(frozen=True, slots=True)
class ModelDream:
    """A run that ended well: by folded name the reason and evidence of each write, and what came from outside."""

    reasons: Mapping[str, str]
    evidence: Mapping[str, str]
    shown: tuple[Message, ...]
    summary: str = ""
    refused: int = 0


def gather(
    store: StoreBase, view: StagedView, verdicts: Mapping[str, Verdict], *, lives: HalfLives = HALF_LIVES, now: datetime
) -> DreamInput:
    headers = view.scan()
    logs = tuple(_select_logs(store)) if isinstance(store, FileStore) else ()
    drifted = tuple(find_drifted(headers, verdicts, lives, now)[: limits.DREAM_DRIFTED])
    caveats = {at.name: render_caveat(verdicts[at.name]) for at in drifted if at.name in verdicts}
    return DreamInput(headers, logs, drifted, caveats)


def mark_shown_logs(store: FileStore, logs: Sequence[LogSlice]) -> None:
    """Record that these logs have become memories, but for those that were marked further meanwhile."""
    if logs:
        begun = {(at.day, at.start) for at in list_undistilled(store)}
        mark_distilled(store, [at for at in logs if (at.day, at.start) in begun])


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
    slots, counted = given.render_slots(now), progress.wrap(model)
    if can_use_tools(model):
        tools = DreamTools(staging, memory, context, progress)
        return _run_with_tools(counted, staging, tools, slots)
    progress.enter(DreamPhase.CONSOLIDATE)
    return _ask_for_operations(counted, staging, {**slots, "texts": _render_texts(given, view)})


def _run_with_tools(model: Model, staging: Staging, tools: "DreamTools", slots: Mapping[str, str]) -> ModelDream:
    task = render_prompt("dream/task", **slots, turns=str(limits.DREAM_TURNS), calls=str(limits.DREAM_CALLS))
    system = render_prompt("dream/system", rules=render_prompt("dream/rules"))
    request = Request(system, (Message("user", task),), limits.FORK_TOKENS, tools=TOOLS, purpose=PURPOSE)
    ran = run_fork(model, request, tools, turns=limits.DREAM_TURNS, calls=limits.DREAM_CALLS)
    if tools.trespassed:
        raise ReplyError(f"the model tried to write outside the memory: {tools.trespassed}", hint=_AGAIN)
    if ran.end is not ForkEnd.DONE:
        raise ReplyError(f"the model's run came to no good end, {_ENDS[ran.end]}", hint=_AGAIN)
    found = (value.get("summary") for value in find_json(ran.text) if isinstance(value, dict))
    summary = next((text for text in found if isinstance(text, str)), None)
    if summary is None and not staging.staged:  # a model that did nothing must say so in the form it was asked for
        said = shorten(one_line(ran.text), 60) or "nothing"
        raise ReplyError(f"the model changed nothing and gave no summary: {said!r}", hint=_AGAIN)
    told = shorten(one_line(ran.text if summary is None else summary), _SUMMARY_CHARS)
    return ModelDream(tools.reasons, tools.evidence, tuple(tools.shown), told, ran.refused)


def _ask_for_operations(model: Model, staging: Staging, slots: Mapping[str, str]) -> ModelDream:
    system = render_prompt("dream/ask_system", rules=render_prompt("dream/rules"))
    question = Message("user", render_prompt("dream/ask", **slots))
    messages: tuple[Message, ...] = (question,)
    while True:
        reply = model(Request(system, messages, limits.FORK_TOKENS, REASONED, purpose=PURPOSE))
        try:
            return _carry_out(reply, staging)
        except ReplyError as error:
            if len(messages) > 1:
                raise ReplyError(f"the model's answer cannot be used: {error}", hint=_AGAIN) from None
            repair = render_prompt("dream/repair", problem=str(error))
            messages = (question, Message("assistant", reply.text or "(nothing)"), Message("user", repair))


def _carry_out(reply: Reply, staging: Staging) -> ModelDream:
    """Stage the operations of a reply; if they cannot be done, the staging is as it was before."""
    if reply.stop in (StopReason.REFUSED, StopReason.LENGTH):
        raise ReplyError("it declined" if reply.stop is StopReason.REFUSED else "the token limit cut it short")
    operations = parse_operations(reply.text, limit=limits.DREAM_OPERATIONS)
    pinned = {fold(header.name) for header in staging.scan() if header.pinned}
    wanted = [at for at in operations if fold(at.name) not in pinned]
    before = staging.copy()
    try:
        evidence = stage(wanted, staging, limit=limits.DREAM_WRITTEN_BYTES)
    except ReplyError:
        staging.take_back(before)
        raise
    reasons = {fold(at.name): at.reason for at in wanted if at.reason}
    quotes = {fold(name): quote for name, quote in evidence.items() if quote}
    return ModelDream(reasons, quotes, (), refused=len(operations) - len(wanted))


def _render_texts(given: DreamInput, view: StagedView) -> str:
    """Whole memories within the limit: those closest to the logs first, then what drifted, then the newest."""
    texts, room = [], limits.DREAM_TEXT_CHARS
    for header in dict.fromkeys((*_find_closest(given), *given.drifted, *given.headers)):
        try:
            text = view.read(header.name).text
        except MemdirError:
            continue
        if text and len(text) <= room:
            pinned = " (pinned)" if header.pinned else ""
            texts.append(f"{header.file}{pinned}:\n{text.rstrip()}")
            room -= len(text)
    return "\n\n".join(texts) or _NONE


def _find_closest(given: DreamInput) -> list[Header]:
    """Memories that share words with the logs, those with the rarer ones first."""
    said = {term for log in given.logs for term in parse_terms(log.text)}
    terms = {at: said & set(parse_terms(f"{at.title} {at.description} {at.name}")) for at in given.headers}
    counts = Counter(term for own in terms.values() for term in own)
    scores = {header: sum(1 / counts[term] for term in own) for header, own in terms.items() if own}
    return sorted(scores, key=lambda at: -scores[at])


def _select_logs(store: FileStore) -> Iterator[LogSlice]:
    """The oldest logs that fit, the last of them cut at an entry."""
    room = limits.DREAM_LOG_CHARS
    for log in list_undistilled(store):
        if len(log.text) > room:
            if part := _cut_log(store, log, room):
                yield part
            return
        room -= len(log.text)
        yield log


def _cut_log(store: FileStore, log: LogSlice, room: int) -> LogSlice | None:
    """The first whole entries that fit; None if not even one does."""
    end = max((at.start() for at in _ENTRY.finditer(log.text) if at.start() <= room), default=0)
    try:
        data = store.read_bytes(log.path)
    except MemdirError:
        return None
    if not end or data is None:
        return None
    size = log.start + len(log.text[:end].encode("utf-8"))
    if data[log.start : size].decode("utf-8", "replace") != log.text[:end]:
        return None  # no valid text, so characters cannot be counted as bytes: it is left until it fits whole
    return replace(log, end=size, text=log.text[:end], digest=digest_of(data[:size]))


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

    `shown` is what the model was shown from outside the memory, `trespassed` a write to anything but the memory.
    """

    def __init__(self, staging: Staging, memory: Path, context: DreamContext, progress: DreamProgress) -> None:
        tree = None if context.project is None else ProjectTree(context.project, looks_secret)
        self._tools = MemoryTools(staging, memory, tree, limit=limits.DREAM_WRITTEN_BYTES)
        self._staging, self._folders, self._progress = staging, context.transcripts, progress
        self._pinned = {fold(header.name) for header in staging.scan() if header.pinned}
        self.reasons: dict[str, str] = {}
        self.evidence: dict[str, str] = {}
        self.shown: list[Message] = []
        self.trespassed = ""

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
        if verb in _WRITING:
            if path and not is_memory:
                self.trespassed = self.trespassed or shorten(one_line(path), 80)
            if fold(name) in self._pinned:
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
