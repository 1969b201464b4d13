"""The tools of a dreaming model: those of a fork with a reason for every change, and a narrow search of transcripts.

Everything is staged. A search brings single lines and never a conversation. What the model was shown from outside the
memory is kept, so that it can be told later where its words came from. A pinned memory is not changed, and a write to
any other place than the memory is refused and remembered: a model that tries is not believed in anything.
"""

from collections.abc import Mapping
from pathlib import Path

from memdir.dream.material import Surroundings
from memdir.dream.progress import Phase, Watch
from memdir.errors import MemdirError
from memdir.fork import Answer
from memdir.limits import DREAM_EXCERPTS, DREAM_TURNS, DREAM_WRITTEN_BYTES
from memdir.project_files.secrecy import looks_secret
from memdir.records import Message, Tool, ToolCall
from memdir.staging import Staging
from memdir.text import fold, one_line, shorten
from memdir.tools import PATH_KEYS, Hands, pick, translate
from memdir.transcript_search import Said, search_transcripts
from memdir.tree import Tree

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


class DreamHands:
    """`act` for one dream."""

    def __init__(self, staging: Staging, memory: Path, surroundings: Surroundings, watch: Watch) -> None:
        project = surroundings.project
        tree = None if project is None else Tree(project, looks_secret)
        self._hands = Hands(staging, memory, tree, limit=DREAM_WRITTEN_BYTES)
        self._staging = staging
        self._folders = surroundings.transcripts
        self._watch = watch
        self._pinned = {fold(header.name) for header in staging.scan() if header.pinned}
        self.reasons: dict[str, str] = {}
        self.evidence: dict[str, str] = {}
        self.shown: list[Message] = []
        self.trespassed = ""

    def __call__(self, call: ToolCall) -> Answer:
        self._watch.check()
        self._watch.count_call()
        answer = self._search(call) if call.name == SEARCH else self._act(call)
        left = DREAM_TURNS - self._watch.now.turns
        return answer if left > 2 else Answer(f"{answer.text}\n(Turns left: {left}. Come to an end.)", answer.refused)

    def _act(self, call: ToolCall) -> Answer:
        verb, values = translate(call)
        path = pick(values, PATH_KEYS)
        name = ""
        if verb in _WRITING:
            name = self._find_memory(path)
            if fold(name) in self._pinned:
                return Answer(f"Refused: {name} is pinned and stays as it is.", refused=True)
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

    def _note(self, verb: str, name: str, path: str, values: Mapping[str, object], answer: Answer) -> None:
        if verb in _WRITING:
            key = fold(name)
            if reason := one_line(pick(values, ("reason",))):
                self.reasons[key] = shorten(reason, _REASON_CHARS)
            if evidence := pick(values, ("evidence",)):
                self.evidence[key] = shorten(evidence, _EVIDENCE_CHARS)
            self._watch.enter(Phase.PRUNE if verb == "delete" else Phase.CONSOLIDATE)
            self._watch.touch(len(self._staging.staged))
        elif self._is_outside(path):
            self.shown.append(Message("tool", answer.text, f"{verb} {path}"))
            self._watch.enter(Phase.GATHER)

    def _is_outside(self, path: str) -> bool:
        try:
            return bool(path) and self._hands.find(path).where != "memory"
        except MemdirError:
            return True

    def _search(self, call: ToolCall) -> Answer:
        words = " ".join(one_line(pick(call.input, ("words", "query", "pattern"))).replace("|", " ").split()[:_WORDS])
        if len(words) < 3:
            return Answer("Refused: say which words the line should hold.", refused=True)
        if not self._folders:
            return Answer("There are no transcripts here.")
        self._watch.enter(Phase.GATHER)
        found = search_transcripts(self._folders, words, limit=DREAM_EXCERPTS)
        self.shown += [_make_message(said) for said in found]
        return Answer("\n".join(_render(said) for said in found) or "No line holds all of these words.")


def _make_message(said: Said) -> Message:
    """All of the message that the line stood in: only that shows whether it was the person's own."""
    role = said.role if said.role in ("user", "assistant") else "tool"
    return Message(role, said.text or said.snippet, f"{Path(said.file).stem}:{said.line}", said.at)


def _render(said: Said) -> str:
    who = {"user": "the person", "assistant": "the agent"}.get(said.role, "a tool, no rule may rest on it")
    day = f", {said.at:%Y-%m-%d}" if said.at else ""
    return f"[{who}{day}] {said.snippet}"
