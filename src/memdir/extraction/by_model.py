"""The model's part of extraction: a conversation's newest messages in, writes on a staging out.

There are two forms of the task. With the host's own request and a model that can call tools, a fork continues it: the
prefix is unchanged, so nearly all of it is read from the provider's cache. Otherwise one request carries the messages
and the manifest, and the reply is one JSON list of operations; those that cannot be carried out are sent back once. Both
write to the staging only, under the same limits. Whether what was written may be kept is decided in `provenance`.

The one-request form is a clean room: the person's typed words, the agent's prose, and the calls of tools on one line
each; no results of tools, no pastes, no sentence of the agent's that repeats foreign text.
"""

import json
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from pathlib import Path

from memdir.conversation.typed import OMITTED, cut_echoes, split_typed
from memdir.errors import ReplyError
from memdir.extraction.provenance import render_today
from memdir.format.shown import TextVoice, show_header, show_line, show_text
from memdir.frozen import dataclass
from memdir.limits import EXTRACT_SLICE_CHARS, FORK_TOKENS, FORK_TURNS, MANIFEST_ENTRIES
from memdir.models.agent import ForkEnd, ForkResult, MemoryTools, ProjectTree, run_fork
from memdir.models.connection import sum_usage
from memdir.models.prompts import render_prompt
from memdir.models.staged import SCHEMA, Operation, Staging, parse_operations, stage
from memdir.recall.select import LocalSearch
from memdir.records import Header, Message, Model, Query, Reply, Request, Scope, StopReason, Usage
from memdir.store.contract import StoreBase
from memdir.text import cut_middle, one_line, shorten

PURPOSE = "extract"
CONTEXT_MESSAGES = 6  # before the new ones: a "no, not like that" needs what it answers
_CLOSE = 8  # memories whose text is shown to a model that cannot read files
_NEWEST = 20  # of the manifest
_CALL_CHARS = 160  # of one call's arguments
_SAID_CHARS = EXTRACT_SLICE_CHARS // 5  # of one message: none crowds out the others
_CONTEXT_CHARS = 4_000  # of one message that was learned from already
_NONE = "(none)"
_SCOPES = {
    Scope.PRIVATE: "This project",
    Scope.TEAM: "The team (needs a person's approval)",
    Scope.USER: "All projects (read only here)",
}


@dataclass(frozen=True, slots=True)
class ModelExtraction:
    """How a run went, and by name what each write rests on; a fork gives no evidence."""

    ran: ForkResult
    evidence: Mapping[str, str]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtractTask:
    """What a model is asked to learn from.

    `stores` are those whose memories it should know of, the one it writes to first; `foreign` are runs of foreign text.
    """

    messages: Sequence[Message]
    context: Sequence[Message]
    stores: Sequence[StoreBase]
    now: datetime
    foreign: Set[int] = frozenset()


def fork_for_operations(
    model: Model,
    parent: Mapping[str, object],
    task: ExtractTask,
    staging: Staging,
    memory: Path,
    tree: ProjectTree | None,
) -> ModelExtraction:
    """Continue the parent's own request; raises ReplyError when the run does not come to an end."""
    content = render_prompt(
        "extract_task",
        count=str(len(task.messages)),
        rules=render_prompt("extract_rules"),
        directory=str(memory),
        manifest=_render_manifest(task),
        turns=str(FORK_TURNS),
        today=render_today(task.now),
    )
    request = Request("", (Message("user", content),), FORK_TOKENS, parent=parent, purpose=PURPOSE)
    ran = run_fork(model, request, MemoryTools(staging, memory, tree))
    if ran.end in (ForkEnd.REPEATED, ForkEnd.DECLINED) or (ran.end is not ForkEnd.DONE and not staging.staged):
        raise ReplyError(f"the run came to no end ({ran.end})", hint="nothing was changed; the next run tries again")
    return ModelExtraction(ran, {})


def ask_for_operations(model: Model, task: ExtractTask, staging: Staging) -> ModelExtraction:
    """One request with everything in it, and a second for the operations that cannot be carried out."""
    content = render_prompt(
        "extract_slice",
        today=render_today(task.now),
        manifest=_render_manifest(task),
        texts=_render_closest(task),
        context=render_conversation(task.context, task.foreign, chars=_CONTEXT_CHARS) or _NONE,
        conversation=render_conversation(task.messages, task.foreign),
    )
    system = render_prompt("extract_system", rules=render_prompt("extract_rules"))
    messages: tuple[Message, ...] = (Message("user", content),)
    evidence: dict[str, str] = {}
    usages: list[Usage] = []
    for turn in (1, 2):
        reply = model(Request(system, messages, FORK_TOKENS, SCHEMA, purpose=PURPOSE))
        usages.append(reply.usage)
        try:
            result = stage(_parse(reply), staging)
            evidence |= {name: at.evidence for name, at in result.done.items()}
            problems = result.problems
        except ReplyError as error:
            if turn == 2 and not evidence:
                raise
            problems = (str(error),)
        if not problems:
            break
        repair = render_prompt("extract_repair", problems="\n".join(f"- {at}" for at in problems))
        messages = (*messages, Message("assistant", reply.text or "(nothing)"), Message("user", repair))
    ran = ForkResult(ForkEnd.DONE, reply.text, turn, usage=sum_usage(*usages), first=usages[0])
    return ModelExtraction(ran, evidence, problems)


def render_conversation(messages: Sequence[Message], foreign: Set[int], *, chars: int = _SAID_CHARS) -> str:
    """Who said what, without foreign text; where not all fits, the person's words come first, then the newest."""
    parts = [_render_message(message, foreign, chars) for message in messages]
    left = EXTRACT_SLICE_CHARS
    kept: list[int] = []
    for at in sorted(range(len(parts)), key=lambda at: (messages[at].role != "user", -at)):
        left -= len(parts[at])
        if left < 0:
            break
        kept.append(at)
    return "\n\n".join(parts[at] for at in sorted(kept) if parts[at])


def _render_message(message: Message, foreign: Set[int], chars: int) -> str:
    if message.role == "tool" or message.answers or message.is_meta:
        return ""
    day = f", {message.at:%A %Y-%m-%d %H:%M}" if message.at else ""
    if message.role == "user":
        return f"[the person{day}]\n{cut_middle(_mark_foreign(message), chars)}"
    prose = cut_echoes(cut_middle(message.text, chars), foreign)
    calls = (cut_echoes(_render_call(call.name, call.input), foreign) for call in message.calls)
    lines = [prose, *(f"({call})" for call in calls if call != OMITTED)]
    return f"[the agent{day}]\n" + "\n".join(line for line in lines if line.strip())


def _mark_foreign(message: Message) -> str:
    """A message with a mark for each paste, which says how long it was."""
    parts = []
    for span in split_typed(message):
        count = len(span.text.strip().splitlines())
        parts.append(span.text if span.plain or not span.text.strip() else f"\n[text from elsewhere, {count} lines]\n")
    return "".join(parts).strip()


def _render_call(name: str, given: Mapping[str, object]) -> str:
    values = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in given.values())
    return f"calls {name}: {shorten(one_line(' '.join(values)), _CALL_CHARS)}"


def _parse(reply: Reply) -> Sequence[Operation]:
    if reply.stop is StopReason.REFUSED:
        raise ReplyError("the model declined")
    if reply.stop is StopReason.LENGTH:
        raise ReplyError("the token limit cut the answer short")
    return parse_operations(reply.text)


def _find_closest(task: ExtractTask, limit: int) -> list[Header]:
    """The memories nearest to what the person said, near or not."""
    said = "\n".join(message.text for message in task.messages if message.role == "user")
    if not said.strip():
        return []
    with LocalSearch(task.stores) as search:
        search.refresh()
        found = search.search(Query(said[-4000:], now=task.now), limit)
    return [pick.header for pick in (*found.picks, *found.passed_over)][:limit]


def _render_manifest(task: ExtractTask) -> str:
    """Every memory a model should know of, by scope; beyond the limit the nearest and the newest."""
    headers = [header for store in task.stores for header in store.scan()]
    if len(headers) > MANIFEST_ENTRIES:
        newest = sorted(headers, key=lambda at: at.modified, reverse=True)
        near = _find_closest(task, MANIFEST_ENTRIES - _NEWEST)
        chosen = {(at.scope, at.name): at for at in (*newest[:_NEWEST], *near, *newest)}
        headers = list(chosen.values())[:MANIFEST_ENTRIES]
    parts = []
    for scope, label in _SCOPES.items():
        found = sorted((at for at in headers if at.scope is scope), key=lambda at: at.file)
        lines = "\n".join(map(show_header, found))
        parts += [f"{label}:\n{lines}"] if found else []
    others = [at for at in headers if at.scope not in _SCOPES]
    return "\n\n".join([*parts, *(show_header(at) for at in others)]) or _NONE


def _render_closest(task: ExtractTask) -> str:
    """Return the text of the nearest memories: an update needs the old text, and this model cannot read files."""
    texts = []
    for header in _find_closest(task, _CLOSE):
        homes = (home for home in task.stores if home.scope is header.scope)
        store = next(homes, task.stores[0])
        text = show_text(store.read(header.name).text.rstrip(), TextVoice.FILE)
        texts.append(f"{show_line(header.file)}:\n{text}")
    return "\n\n".join(texts) or _NONE
