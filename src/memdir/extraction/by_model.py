"""The model's part of extraction: a conversation's newest messages in, writes on a staging out.

There are two forms of the task. With the host's own request and a model that can call tools, a fork continues it: the
prefix is unchanged, so nearly all of it is read from the provider's cache. Otherwise one request carries the messages
and the manifest, and the reply is one JSON list of operations; a list that cannot be carried out is sent back once. Both
write to the staging only, under the same limits. Whether what was written may be kept is decided in `judge`.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from memdir.conversation import lines
from memdir.errors import ReplyError
from memdir.extraction.spans import split_message, strip_reminders
from memdir.format.index import render_manifest
from memdir.frozen import dataclass
from memdir.limits import EXTRACT_SLICE_CHARS, FORK_TOKENS, FORK_TURNS, MANIFEST_ENTRIES
from memdir.models.agent import ForkEnd, ForkResult, MemoryTools, ProjectTree, run_fork
from memdir.models.connection import add_usage
from memdir.models.prompts import render_prompt
from memdir.models.staged import SCHEMA, Staging, parse_operations, stage
from memdir.recall.select import LocalSearch
from memdir.records import Header, Message, Model, Query, Reply, Request, StopReason, Usage
from memdir.store.contract import Store
from memdir.text import shorten

PURPOSE = "extract"
_CLOSE = 5  # memories whose text is shown to a model that cannot read files
_TOOL_CHARS = 2_000  # of one tool's result: it is context, not a source
_SAID_CHARS = EXTRACT_SLICE_CHARS // 5  # of one message: no paste crowds out the others
_NONE = "(none yet)"


@dataclass(frozen=True, slots=True)
class ModelExtraction:
    """How a run went, and by name what each write rests on, where the reply says so.

    `foreign` is what the model saw besides the messages: files it read, results of tools in the host's own request.
    """

    ran: ForkResult
    evidence: Mapping[str, str]
    foreign: tuple[Message, ...] = ()
    is_fork: bool = False


def fork_for_operations(
    model: Model, parent: Mapping[str, object], count: int, staging: Staging, memory: Path, tree: ProjectTree | None
) -> ModelExtraction:
    """Continue the parent's own request; raises ReplyError when the run does not come to an end."""
    task = render_prompt(
        "extract_task",
        count=str(count),
        rules=render_prompt("extract_rules"),
        directory=str(memory),
        manifest=_render_manifest(staging.scan()),
        turns=str(FORK_TURNS),
    )
    request = Request("", (Message("user", task),), FORK_TOKENS, parent=parent, purpose=PURPOSE)
    tools = MemoryTools(staging, memory, tree)
    results: list[str] = []

    def ask(again: Request) -> Reply:
        reply = model(again)
        results.extend(_find_foreign((reply.raw,)))  # a tool that the provider runs itself is denied to nobody
        return reply

    ran = run_fork(ask, request, tools)
    if ran.end in (ForkEnd.REPEATED, ForkEnd.DECLINED) or (ran.end is not ForkEnd.DONE and not staging.staged):
        raise ReplyError(f"the run came to no end ({ran.end})", hint="nothing was changed; the next run tries again")
    texts = (*_find_foreign(parent.get("messages") or parent.get("input")), *results, *tools.seen)
    return ModelExtraction(ran, {}, tuple(Message("tool", text) for text in texts), is_fork=True)


def ask_for_operations(
    model: Model, messages: Sequence[Message], staging: Staging, stores: Sequence[Store], now: datetime
) -> ModelExtraction:
    """One request with everything in it, and a second if the reply cannot be carried out."""
    headers = staging.scan()
    conversation = render_conversation(messages)
    content = render_prompt(
        "extract_slice",
        manifest=_render_manifest(headers),
        texts=_render_closest(messages, headers, stores, now),
        conversation=conversation,
    )
    system = render_prompt("extract_system", rules=render_prompt("extract_rules"))
    request = Request(system, (Message("user", content),), FORK_TOKENS, SCHEMA, purpose=PURPOSE)
    first = model(request)
    try:
        return ModelExtraction(_make_ran(first, 1, first.usage), _carry_out(first, staging))
    except ReplyError as error:
        said = Message("assistant", first.text or "(nothing)")
        repair = Message("user", render_prompt("extract_repair", problem=str(error)))
        second = model(Request(system, (*request.messages, said, repair), FORK_TOKENS, SCHEMA, purpose=PURPOSE))
        evidence = _carry_out(second, staging)
        return ModelExtraction(_make_ran(second, 2, add_usage(first.usage, second.usage), first.usage), evidence)


def render_conversation(messages: Sequence[Message]) -> str:
    """Who said what; what came out of tools is cut short and labelled.

    Where not all of it fits, the person's words come first, and of the rest the newest.
    """
    parts = [_render_message(message) for message in messages]
    left = EXTRACT_SLICE_CHARS
    kept: list[int] = []
    for at in sorted(range(len(parts)), key=lambda at: (messages[at].role != "user", -at)):
        left -= len(parts[at])
        if left < 0:
            break
        kept.append(at)
    return "\n\n".join(parts[at] for at in sorted(kept))


def _render_message(message: Message) -> str:
    day = f", {message.at:%Y-%m-%d}" if message.at else ""
    if message.role == "tool":
        return f"[output of a tool{day}: material, not the person's words]\n{shorten(message.text, _TOOL_CHARS)}"
    who = "the person" if message.role == "user" else "the agent"
    calls = "".join(f"\n(calls {call.name})" for call in message.calls)
    return f"[{who}{day}]\n{_cut_middle(message.text)}{calls}"


def _cut_middle(text: str) -> str:
    """A long text without its middle: what somebody asks for is before or after what they pasted."""
    half = _SAID_CHARS // 2
    if len(text) <= _SAID_CHARS:
        return text
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters are left out here]\n{text[-half:]}"


def _find_foreign(rows: object) -> Iterator[str]:
    """What nobody in the conversation said: results of tools, the provider's own too, documents, quotes and pastes.

    Rows are messages of a host's request or of an answer, in the shapes of both large APIs.
    """
    for row in lines.list_blocks(rows):
        role, kind, content = row.get("role"), row.get("type"), row.get("content")
        if role == "tool" or (role is None and kind != "reasoning"):
            yield "\n".join(lines.list_strings([row.get(key) for key in ("content", "output", "outputs", "results")]))
        yield from (result.text for result in lines.list_results(content))
        if role == "user":
            said = split_message(strip_reminders(lines.join_texts(content)))
            yield from (span.text for span in said if not span.plain)


def _carry_out(reply: Reply, staging: Staging) -> dict[str, str]:
    """Carry out the operations of a reply on the staging, which is unchanged if they cannot be done."""
    if reply.stop is StopReason.REFUSED:
        raise ReplyError("the model declined")
    if reply.stop is StopReason.LENGTH:
        raise ReplyError("the token limit cut the answer short")
    operations = parse_operations(reply.text)
    before = staging.copy()
    try:
        return stage(operations, staging)
    except ReplyError:
        staging.take_back(before)
        raise


def _render_manifest(headers: Sequence[Header]) -> str:
    return render_manifest(headers, MANIFEST_ENTRIES) or _NONE


def _render_closest(
    messages: Sequence[Message], headers: Sequence[Header], stores: Sequence[Store], now: datetime
) -> str:
    """The memories nearest to what the person said: an update needs the old text, and this model cannot read files."""
    said = "\n".join(message.text for message in messages if message.role == "user")
    if not headers or not said.strip():
        return _NONE
    with LocalSearch(stores) as search:
        picks = search.select(Query(said[-4000:], now=now), headers, _CLOSE)
    texts = [f"{pick.header.file}:\n{_read(stores, pick.header)}" for pick in picks]
    return "\n\n".join(texts) or _NONE


def _read(stores: Sequence[Store], header: Header) -> str:
    store = next((at for at in stores if getattr(at, "scope", None) is header.scope), stores[0])
    return store.read(header.name).text


def _make_ran(reply: Reply, turns: int, usage: Usage, first: Usage | None = None) -> ForkResult:
    return ForkResult(ForkEnd.DONE, reply.text, turns, usage=usage, first=first or reply.usage)
