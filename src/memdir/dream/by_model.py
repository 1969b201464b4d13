"""The model's part of a dream: what there is in, writes on a staging out.

A model with tools works through four steps in one bounded run of its own; one without is shown the memories and logs
at once and answers with a list of operations, which is sent back once if it cannot be carried out. Both may only stage.

A run that comes to no proper end, repeats itself, declines, answers with nothing that can be used, or tries to write
outside the memory has failed as a whole: what it staged is not looked at. What may be kept of a run that ended well is
decided elsewhere (dream.weighing).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from memdir.conversation.includes import looks_secret
from memdir.conversation.transcripts import TranscriptHit, search_transcripts
from memdir.dream.logs import LogSlice, list_undistilled, mark_distilled
from memdir.dream.records import DreamPhase, DreamProgress
from memdir.dream.stale import find_drifted
from memdir.errors import MemdirError, ReplyError
from memdir.format.age import HALF_LIVES, HalfLives
from memdir.format.index import render_manifest
from memdir.frozen import dataclass, field, replace
from memdir.limits import (
    DREAM_CALLS,
    DREAM_DRIFTED,
    DREAM_EXCERPTS,
    DREAM_LOG_CHARS,
    DREAM_OPERATIONS,
    DREAM_TEXT_CHARS,
    DREAM_TURNS,
    DREAM_WRITTEN_BYTES,
    FORK_TOKENS,
    MANIFEST_ENTRIES,
)
from memdir.models import can_use_tools
from memdir.models.agent import (
    PATH_KEYS,
    ForkEnd,
    ForkResult,
    MemoryTools,
    ProjectTree,
    ToolResult,
    pick,
    run_fork,
    translate_names,
)
from memdir.models.prompts import render_prompt
from memdir.models.staged import REASONED, StagedView, Staging, parse_operations, stage
from memdir.recall.terms import parse_terms
from memdir.records import Header, Message, Model, Reply, Request, StopReason, Tool, ToolCall
from memdir.store.contract import StoreBase
from memdir.store.files import FileStore
from memdir.store.plan import digest_of
from memdir.text import find_json, fold, one_line, shorten
from memdir.verify.records import Verdict, render_caveat

# --- material ---
# What a model is shown at the beginning of a dream: the manifest, the logs, what may have drifted, and some texts.
#
# Everything is bounded. Logs are taken whole lines at a time, oldest first, and exactly those that were shown are
# marked
# as distilled when the dream has been applied. Nothing is written here, and no transcript is read.

NONE = "(none)"
_ENTRY = re.compile(r"^- (?:\d{1,2}:\d{2} )?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DreamContext:
    """What a dream goes by besides the memory: the project's files, the folders of its transcripts, how types age."""

    project: Path | None = None
    transcripts: tuple[Path, ...] = ()
    half_lives: HalfLives = field(default_factory=lambda: HALF_LIVES)


NO_CONTEXT = DreamContext()


@dataclass(frozen=True, slots=True)
class DreamInput:
    """What the model begins with."""

    headers: tuple[Header, ...]
    logs: tuple[LogSlice, ...]
    drifted: tuple[Header, ...]
    caveats: Mapping[str, str] = field(default_factory=dict)

    def render_manifest(self) -> str:
        return render_manifest(self.headers, MANIFEST_ENTRIES) or NONE

    def render_logs(self) -> str:
        return "\n\n".join(f"[{at.day.isoformat()}]\n{at.text.rstrip()}" for at in self.logs) or NONE

    def render_drifted(self) -> str:
        """With what is known to be out of date in each."""
        told = [(f"- {at.file}, of {at.modified:%Y-%m-%d}", self.caveats.get(at.name, "")) for at in self.drifted]
        return "\n".join(f"{line}: {why}" if why else line for line, why in told) or NONE

    def list_messages(self) -> Iterator[Message]:
        """The logs, entry by entry, for whoever asks where a text came from: an entry is the agent's own note."""
        for at in self.logs:
            for number, entry in enumerate(_ENTRY.split(at.text)):
                if entry.strip():
                    yield Message("user", entry.strip(), f"{at.day.isoformat()}:{number}")


def gather(
    store: StoreBase,
    ground: StagedView,
    verdicts: Mapping[str, Verdict],
    *,
    lives: HalfLives = HALF_LIVES,
    now: datetime,
) -> DreamInput:
    headers = ground.scan()
    logs = tuple(_take_logs(store)) if isinstance(store, FileStore) else ()
    drifted = tuple(find_drifted(headers, verdicts, lives, now)[:DREAM_DRIFTED])
    caveats = {at.name: render_caveat(verdicts[at.name]) for at in drifted if at.name in verdicts}
    return DreamInput(headers, logs, drifted, caveats)


def mark_shown_logs(store: FileStore, logs: Sequence[LogSlice]) -> None:
    """These logs have become memories. What was marked further meanwhile is not set back."""
    if logs:
        begun = {(at.day, at.start) for at in list_undistilled(store)}
        mark_distilled(store, [at for at in logs if (at.day, at.start) in begun])


def render_texts(material: DreamInput, ground: StagedView) -> str:
    """Whole memories within the room there is: those closest to the logs first, then what drifted, then the newest."""
    ordered = [*_find_closest(material), *material.drifted, *material.headers]
    texts, room = [], DREAM_TEXT_CHARS
    for header in dict.fromkeys(ordered):
        text = _read(ground, header)
        if text and len(text) <= room:
            pinned = " (pinned)" if header.pinned else ""
            texts.append(f"{header.file}{pinned}:\n{text.rstrip()}")
            room -= len(text)
    return "\n\n".join(texts) or NONE


def _take_logs(store: FileStore) -> Iterator[LogSlice]:
    room = DREAM_LOG_CHARS
    for log in list_undistilled(store):
        if len(log.text) > room:
            if part := _cut(store, log, room):
                yield part
            return
        room -= len(log.text)
        yield log


def _cut(store: FileStore, log: LogSlice, room: int) -> LogSlice | None:
    """The first whole entries that fit; None if not even one does."""
    starts = [at.start() for at in _ENTRY.finditer(log.text) if at.start() <= room]
    end = max(starts, default=0)
    data = _read_bytes(store, log.path)
    if not end or data is None:
        return None
    size = log.start + len(log.text[:end].encode("utf-8"))
    if data[log.start : size].decode("utf-8", "replace") != log.text[:end]:
        return None  # it is no valid text, so characters cannot be counted as bytes: it waits until it fits whole
    return replace(log, end=size, text=log.text[:end], digest=digest_of(data[:size]))


def _read_bytes(store: FileStore, path: str) -> bytes | None:
    try:
        return store.read_bytes(path)
    except MemdirError:
        return None


def _find_closest(material: DreamInput) -> list[Header]:
    """Memories that share words with the logs, those with the rarer ones first."""
    said = {term for log in material.logs for term in parse_terms(log.text)}
    terms = {at: said & set(parse_terms(f"{at.title} {at.description} {at.name}")) for at in material.headers}
    counts = Counter(term for own in terms.values() for term in own)
    scores = {header: sum(1 / counts[term] for term in own) for header, own in terms.items() if own}
    return sorted(scores, key=lambda at: -scores[at])


def _read(ground: StagedView, header: Header) -> str:
    try:
        return ground.read(header.name).text
    except MemdirError:
        return ""


# --- hands ---
# The tools of a dreaming model: those of a fork with a reason for every change, and a narrow search of transcripts.
#
# Everything is staged. A search brings single lines and never a conversation. What the model was shown from outside
# the
# memory is kept, so that it can be told later where its words came from. A pinned memory is not changed, and a write
# to
# any other place than the memory is refused and remembered: a model that tries is not believed in anything.

SEARCH = "search_transcripts"
_WRITING = ("write", "edit", "delete")
_REASON_CHARS = 300
_EVIDENCE_CHARS = 1_000
_WORDS = 6  # of one search; more are no narrow question
_WHY = {
    "reason": "why, in one short sentence",
    "evidence": "the words it rests on, copied exactly, or the memories it comes from",
}


def _make_tool(name: str, description: str, parameters: Mapping[str, str], optional: tuple[str, ...] = ()) -> Tool:
    properties = {key: {"type": "string", "description": text} for key, text in parameters.items()}
    required = [key for key in parameters if key not in optional]
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return Tool(name, description, schema)


_FILE = {"path": "`memory/NAME.md`"}
TOOLS = (
    _make_tool("list", "List memories, or files of the project.", {"path": "`memory`, or a glob of project files"}),
    _make_tool("read", "Read a memory or a project file.", {"path": "`memory/NAME.md`, or a project file's path"}),
    _make_tool(
        "search",
        "Find lines that hold one of the words.",
        {"query": "words with | between them", "path": "`memory` or a glob"},
    ),
    _make_tool(
        SEARCH,
        "Find single lines of past conversations that hold all of the words.",
        {"words": "two or three telling words"},
    ),
    _make_tool("write", "Write a whole memory file.", {**_FILE, "content": "frontmatter and body", **_WHY}),
    _make_tool(
        "edit",
        "Replace one passage of a memory.",
        {**_FILE, "old": "the passage, once", "new": "its replacement", **_WHY},
    ),
    _make_tool("delete", "Delete a memory that was merged away or overtaken.", {**_FILE, **_WHY}),
)


class DreamTools:
    """`change` for one dream."""

    def __init__(self, staging: Staging, memory: Path, context: DreamContext, progress: DreamProgress) -> None:
        project = context.project
        tree = None if project is None else ProjectTree(project, looks_secret)
        self._hands = MemoryTools(staging, memory, tree, limit=DREAM_WRITTEN_BYTES)
        self._staging = staging
        self._folders = context.transcripts
        self._watch = progress
        self._pinned = {fold(header.name) for header in staging.scan() if header.pinned}
        self.reasons: dict[str, str] = {}
        self.evidence: dict[str, str] = {}
        self.shown: list[Message] = []
        self.trespassed = ""

    def __call__(self, call: ToolCall) -> ToolResult:
        self._watch.check()
        self._watch.count_call()
        answer = self._search(call) if call.name == SEARCH else self._run_call(call)
        left = DREAM_TURNS - self._watch.now.turns
        return (
            answer if left > 2 else ToolResult(f"{answer.text}\n(Turns left: {left}. Come to an end.)", answer.refused)
        )

    def _run_call(self, call: ToolCall) -> ToolResult:
        verb, values = translate_names(call)
        path = pick(values, PATH_KEYS)
        name = ""
        if verb in _WRITING:
            name = self._find_memory(path)
            if fold(name) in self._pinned:
                return ToolResult(f"Refused: {name} is pinned and stays as it is.", refused=True)
        answer = self._hands(call)
        if not answer.refused:
            self._note(verb, name, path, values, answer)
        return answer

    def _find_memory(self, path: str) -> str:
        """The memory that a write is meant for; anything else is remembered as trespass."""
        try:
            target = self._hands.find(path)
        except MemdirError:
            target = None
        if path and (target is None or target.where != "memory"):
            self.trespassed = self.trespassed or shorten(one_line(path), 80)
        return "" if target is None else target.path.removesuffix(".md")

    def _note(self, verb: str, name: str, path: str, values: Mapping[str, object], answer: ToolResult) -> None:
        if verb in _WRITING:
            key = fold(name)
            if reason := one_line(pick(values, ("reason",))):
                self.reasons[key] = shorten(reason, _REASON_CHARS)
            if evidence := pick(values, ("evidence",)):
                self.evidence[key] = shorten(evidence, _EVIDENCE_CHARS)
            self._watch.enter(DreamPhase.PRUNE if verb == "delete" else DreamPhase.CONSOLIDATE)
            self._watch.touch(len(self._staging.staged))
        elif self._is_outside(path):
            self.shown.append(Message("tool", answer.text, f"{verb} {path}"))
            self._watch.enter(DreamPhase.GATHER)

    def _is_outside(self, path: str) -> bool:
        try:
            return bool(path) and self._hands.find(path).where != "memory"
        except MemdirError:
            return True

    def _search(self, call: ToolCall) -> ToolResult:
        words = " ".join(one_line(pick(call.input, ("words", "query", "pattern"))).replace("|", " ").split()[:_WORDS])
        if len(words) < 3:
            return ToolResult("Refused: say which words the line should hold.", refused=True)
        if not self._folders:
            return ToolResult("There are no transcripts here.")
        self._watch.enter(DreamPhase.GATHER)
        found = search_transcripts(self._folders, words, limit=DREAM_EXCERPTS)
        self.shown += [_make_message(said) for said in found]
        return ToolResult("\n".join(_render(said) for said in found) or "No line holds all of these words.")


def _make_message(said: TranscriptHit) -> Message:
    """All of the message that the line stood in: only that shows whether it was the person's own."""
    role = said.role if said.role in ("user", "assistant") else "tool"
    return Message(role, said.text or said.snippet, f"{Path(said.file).stem}:{said.line}", said.at)


def _render(said: TranscriptHit) -> str:
    who = {"user": "the person", "assistant": "the agent"}.get(said.role, "a tool, no rule may rest on it")
    day = f", {said.at:%Y-%m-%d}" if said.at else ""
    return f"[{who}{day}] {said.snippet}"


# --- by_model ---

PURPOSE = "dream"
_SUMMARY_CHARS = 300
_AGAIN = "nothing was changed; the next dream tries again, `memdir dream --model none` works by rules alone"
_ENDS = {
    ForkEnd.TURNS: f"it was not done after {DREAM_TURNS} turns",
    ForkEnd.CALLS: f"it was not done after {DREAM_CALLS} calls",
    ForkEnd.REPEATED: "it repeated itself",
    ForkEnd.DECLINED: "it declined",
}


@dataclass(frozen=True, slots=True)
class ModelDream:
    """A run that ended well: by folded name the reason and evidence of each write, and what came from outside."""

    reasons: Mapping[str, str]
    evidence: Mapping[str, str]
    shown: tuple[Message, ...]
    summary: str = ""
    refused: int = 0


def dream_with_model(
    model: Model,
    staging: Staging,
    ground: StagedView,
    material: DreamInput,
    *,
    memory: Path,
    context: DreamContext,
    progress: DreamProgress,
    now: datetime,
) -> ModelDream:
    """Let the model dream on a staging; raises ReplyError for a run that failed, and whatever the model raises."""
    progress.enter(DreamPhase.ORIENT)
    counted = progress.wrap(model)
    if can_use_tools(model):
        return _fork(counted, staging, material, memory, context, progress, now)
    return _ask(counted, staging, ground, material, progress, now)


def _fork(
    model: Model,
    staging: Staging,
    material: DreamInput,
    memory: Path,
    context: DreamContext,
    progress: DreamProgress,
    now: datetime,
) -> ModelDream:
    task = render_prompt(
        "dream/task",
        today=f"{now:%A, %Y-%m-%d}",
        turns=str(DREAM_TURNS),
        calls=str(DREAM_CALLS),
        manifest=material.render_manifest(),
        drifted=material.render_drifted(),
        logs=material.render_logs(),
    )
    system = render_prompt("dream/system", rules=render_prompt("dream/rules"))
    hands = DreamTools(staging, memory, context, progress)
    request = Request(system, (Message("user", task),), FORK_TOKENS, tools=TOOLS, purpose=PURPOSE)
    ran = run_fork(model, request, hands, turns=DREAM_TURNS, calls=DREAM_CALLS)
    if hands.trespassed:
        raise ReplyError(f"the model tried to write outside the memory: {hands.trespassed}", hint=_AGAIN)
    if ran.end is not ForkEnd.DONE:
        raise ReplyError(f"the model's run came to no good end, {_ENDS[ran.end]}", hint=_AGAIN)
    summary = _find_summary(ran, has_work=bool(staging.staged))
    return ModelDream(hands.reasons, hands.evidence, tuple(hands.shown), summary, ran.refused)


def _find_summary(ran: ForkResult, *, has_work: bool) -> str:
    """What the model says it did. One that did nothing must at least say so in the form it was asked for."""
    for value in find_json(ran.text):
        if isinstance(value, dict) and isinstance(value.get("summary"), str):
            return shorten(one_line(value["summary"]), _SUMMARY_CHARS)
    if not has_work:
        said = shorten(one_line(ran.text), 60) or "nothing"
        raise ReplyError(f"the model changed nothing and gave no summary: {said!r}", hint=_AGAIN)
    return shorten(one_line(ran.text), _SUMMARY_CHARS)


def _ask(
    model: Model, staging: Staging, ground: StagedView, material: DreamInput, progress: DreamProgress, now: datetime
) -> ModelDream:
    content = render_prompt(
        "dream/ask",
        today=f"{now:%A, %Y-%m-%d}",
        manifest=material.render_manifest(),
        drifted=material.render_drifted(),
        texts=render_texts(material, ground),
        logs=material.render_logs(),
    )
    system = render_prompt("dream/ask_system", rules=render_prompt("dream/rules"))
    request = Request(system, (Message("user", content),), FORK_TOKENS, REASONED, purpose=PURPOSE)
    progress.enter(DreamPhase.CONSOLIDATE)
    first = model(request)
    try:
        return _carry_out(first, staging)
    except ReplyError as error:
        said = Message("assistant", first.text or "(nothing)")
        repair = Message("user", render_prompt("dream/repair", problem=str(error)))
        messages = (*request.messages, said, repair)
    second = model(Request(system, messages, FORK_TOKENS, REASONED, purpose=PURPOSE))
    try:
        return _carry_out(second, staging)
    except ReplyError as error:
        raise ReplyError(f"the model's answer cannot be used: {error}", hint=_AGAIN) from None


def _carry_out(reply: Reply, staging: Staging) -> ModelDream:
    """The operations of an answer on the staging, which is as it was before if they cannot be done."""
    if reply.stop in (StopReason.REFUSED, StopReason.LENGTH):
        raise ReplyError("it declined" if reply.stop is StopReason.REFUSED else "the token limit cut it short")
    operations = parse_operations(reply.text, limit=DREAM_OPERATIONS)
    pinned = {fold(header.name) for header in staging.scan() if header.pinned}
    wanted = [at for at in operations if fold(at.name) not in pinned]
    before = staging.copy()
    try:
        evidence = stage(wanted, staging, limit=DREAM_WRITTEN_BYTES)
    except ReplyError:
        staging.take_back(before)
        raise
    reasons = {fold(at.name): at.reason for at in wanted if at.reason}
    quotes = {fold(name): quote for name, quote in evidence.items() if quote}
    return ModelDream(reasons, quotes, (), refused=len(operations) - len(wanted))
