"""Ask a model to learn from the newest messages of a conversation. Its writes are staged.

There are two forms. With the host's own request and a model that can call tools, a fork continues that request: its
prefix is unchanged, so nearly all of it comes from the provider's cache. Otherwise one request contains the messages and
the manifest, and the reply is a JSON list of operations; invalid ones are sent back once. Both write to the staging only,
under the same limits. `provenance` decides which writes are saved.

The one-request form leaves out untrusted text: it contains the user's typed text, the agent's prose and one line per
tool call, but no tool results, no pastes and no agent's sentence that repeats untrusted text.
"""

import json
from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from pathlib import Path

from memdir.conversation.typed import OMITTED, cut_echoes, show_typed
from memdir.errors import ReplyError
from memdir.extraction.provenance import render_today
from memdir.format.shown import TextVoice, find_voice, show_byline, show_fenced, show_header, show_line, show_text
from memdir.frozen import dataclass
from memdir.limits import EXTRACT_SLICE_CHARS, FORK_TOKENS, FORK_TURNS, MANIFEST_ENTRIES
from memdir.models.agent import ForkEnd, ForkResult, MemoryTools, ProjectTree, run_fork
from memdir.models.connection import sum_usage
from memdir.models.prompts import render_prompt
from memdir.models.staged import SCHEMA, Staging, ask_repairing, check_reply, parse_operations, stage
from memdir.recall.select import LocalSearch
from memdir.records import TEAM_FOLDER, Header, Message, Model, Query, Reply, Request, Scope
from memdir.store.contract import StoreBase
from memdir.store.facts import find_authors
from memdir.store.secrets import mask_model
from memdir.text import cut_middle, one_line, shorten

PURPOSE = "extract"
CONTEXT_MESSAGES = 6  # messages before the new ones, because "no, not like that" needs the message it answers
_CLOSE = 8  # memories whose text is shown to a model that cannot read files
_NEWEST = 20  # number of newest memories that are always in a shortened manifest
_FOREIGN = "\n[text from elsewhere, {lines} lines]\n"
_CALL_CHARS = 160  # max characters shown of a call's arguments
_MESSAGE_CHARS = EXTRACT_SLICE_CHARS // 5  # limit per message, so that one message cannot use up the prompt
_CONTEXT_CHARS = 4_000  # max characters of each message before the new ones
_LAST = "done"  # the word that the model must write next to its last calls
_NONE = "(none)"
_SCOPES = {
    Scope.PRIVATE: "This project",
    Scope.TEAM: "The team, written by its members (needs a person's approval)",
    Scope.USER: "All projects (read only here)",
    Scope.PROJECT: "The repository, written by whoever changes it (read only here)",
}


@dataclass(frozen=True, slots=True)
class ModelExtraction:
    """The result of a run, with the quote on which each write is based. A fork does not provide quotes."""

    ran: ForkResult
    evidence: Mapping[str, str]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExtractTask:
    """The input of a run. The first of the `stores` is written to; `foreign` are hashes of untrusted text."""

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
    """Continue the parent's own request with tools. Raises ReplyError if the model does not finish."""
    content = render_prompt(
        "extract_task",
        count=str(len(task.messages)),
        rules=render_prompt("extract_rules"),
        scopes=render_prompt("extract_scopes_team" if (memory / TEAM_FOLDER).is_dir() else "extract_scopes"),
        directory=str(memory),
        manifest=_render_manifest(task),
        turns=str(FORK_TURNS),
        today=render_today(task.now),
    )
    request = Request("", (Message("user", content),), FORK_TOKENS, parent=parent, purpose=PURPOSE)
    result = run_fork(mask_model(model), request, MemoryTools(staging, memory, tree), last=_LAST)
    if result.end in (ForkEnd.REPEATED, ForkEnd.DECLINED) or (result.end is not ForkEnd.DONE and not staging.staged):
        raise ReplyError(f"the model did not finish ({result.end})", hint="no changes were made; the next run retries")
    return ModelExtraction(result, {})


def ask_for_operations(model: Model, task: ExtractTask, staging: Staging) -> ModelExtraction:
    """Ask for operations in one request. Invalid operations are sent back once."""
    content = render_prompt(
        "extract_slice",
        today=render_today(task.now),
        manifest=_render_manifest(task),
        texts=show_fenced(_render_closest(task)),
        context=show_fenced(render_conversation(task.context, task.foreign, chars=_CONTEXT_CHARS)) or _NONE,
        conversation=show_fenced(render_conversation(task.messages, task.foreign)),
    )
    system = render_prompt("extract_system", rules=render_prompt("extract_rules"))
    evidence: dict[str, str] = {}

    def read(reply: Reply) -> Sequence[str]:
        done, problems = stage(parse_operations(check_reply(reply)), staging)
        evidence.update((name, operation.evidence) for name, operation in done.items())
        return problems

    request = Request(system, (Message("user", content),), FORK_TOKENS, SCHEMA, purpose=PURPOSE)
    replies, problems = ask_repairing(mask_model(model), request, read, "extract_repair")
    usage, first = sum_usage(*(reply.usage for reply in replies)), replies[0].usage
    fork_result = ForkResult(ForkEnd.DONE, replies[-1].text, len(replies), usage=usage, first=first)
    return ModelExtraction(fork_result, evidence, tuple(problems))


def render_conversation(messages: Sequence[Message], foreign: Set[int], *, chars: int = _MESSAGE_CHARS) -> str:
    """Render the conversation without untrusted text. If it is too long, the user's and the newest messages remain."""
    parts = [_render_message(message, foreign, chars) for message in messages]
    room = EXTRACT_SLICE_CHARS
    chosen: list[int] = []
    for index in sorted(range(len(parts)), key=lambda index: (messages[index].role != "user", -index)):
        room -= len(parts[index])
        if room < 0:
            break
        chosen.append(index)
    return "\n\n".join(parts[index] for index in sorted(chosen) if parts[index])


def _render_message(message: Message, foreign: Set[int], chars: int) -> str:
    if message.role == "tool" or message.answers or message.is_meta:
        return ""
    day = f", {message.at:%A %Y-%m-%d %H:%M}" if message.at else ""
    if message.role == "user":
        return f"[the person{day}]\n{cut_middle(show_typed(message, _FOREIGN), chars)}"
    prose = cut_echoes(cut_middle(message.text, chars), foreign)
    calls = (cut_echoes(_render_call(call.name, call.input), foreign) for call in message.calls)
    lines = [prose, *(f"({call})" for call in calls if call != OMITTED)]
    said = "\n".join(line for line in lines if line.strip())
    return f"[the agent{day}]\n{said}" if said else ""


def _render_call(name: str, arguments: Mapping[str, object]) -> str:
    values = (arg if isinstance(arg, str) else json.dumps(arg, ensure_ascii=False) for arg in arguments.values())
    return f"calls {name}: {shorten(one_line(' '.join(values)), _CALL_CHARS)}"


def _find_closest(task: ExtractTask, limit: int) -> list[Header]:
    """Return the memories most similar to the user's messages, without a minimum score."""
    text = "\n".join(message.text for message in task.messages if message.role == "user")
    if not text.strip():
        return []
    with LocalSearch(task.stores) as search:
        search.refresh()
        selection = search.search(Query(text[-4000:], now=task.now), limit)
    return [pick.header for pick in (*selection.picks, *selection.passed_over)][:limit]


def _render_manifest(task: ExtractTask) -> str:
    """List all memories by scope. If there are too many, list only the most similar and the newest."""
    headers = [header for store in task.stores for header in store.scan()]
    if len(headers) > MANIFEST_ENTRIES:
        newest = sorted(headers, key=lambda header: header.modified, reverse=True)
        near = _find_closest(task, MANIFEST_ENTRIES - _NEWEST)
        chosen = {(header.scope, header.name): header for header in (*newest[:_NEWEST], *near, *newest)}
        headers = list(chosen.values())[:MANIFEST_ENTRIES]
    parts = []
    for scope, label in _SCOPES.items():
        group = sorted((header for header in headers if header.scope is scope), key=lambda header: header.file)
        lines = "\n".join(map(show_header, group))
        parts += [f"{label}:\n{lines}"] if group else []
    others = [show_header(header) for header in headers if header.scope not in _SCOPES]
    return "\n\n".join([*parts, *others]) or _NONE


def _render_closest(task: ExtractTask) -> str:
    """Render the texts of the most similar memories, because this model has no tools to read them."""
    texts = []
    for header in _find_closest(task, _CLOSE):
        homes = (home for home in task.stores if home.scope is header.scope)
        store = next(homes, task.stores[0])
        voice = find_voice(header.scope)
        byline = show_byline(header.scope, find_authors(store, [header.name]).get(header.name, ""))
        text = show_text(store.read(header.name).text.rstrip(), TextVoice.FILE if voice is TextVoice.OWN else voice)
        texts.append("\n".join(filter(None, (f"{show_line(header.file)}:", byline, text))))
    return "\n\n".join(texts) or _NONE
