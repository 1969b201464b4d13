"""Tools, memories and prompts in the protocol's shapes.

Everything here is called in a thread with open stores; nothing in it waits for the network.
"""

from collections.abc import Mapping

from mcp import types

from memdir.asking import recall_here
from memdir.errors import FormatError, NotFoundError
from memdir.instructions import build_instructions
from memdir.opening import Opened
from memdir.prompts import render_prompt
from memdir.records import Header
from memdir.reminder import defuse, render_reminder
from memdir.store.files import FileStore
from memdir.text import one_line, printable, shorten
from memdir.toolset import OFFERS, Offer
from memdir.toolset.addresses import make_address, make_index_address, parse_address, parse_index_address
from memdir.toolset.looking import clean, find_one, list_told, make_time

PAGE = 200  # resources of one answer; a client asks for the next
_MARKDOWN = "text/markdown"
_ALWAYS = {"anthropic/alwaysLoad": True}  # so that Claude Code shows the tool without a search for it

# Prompt -> its words for people, and its argument if it takes one: name and what it is.
PROMPTS: Mapping[str, tuple[str, tuple[str, str] | None]] = {
    "remember": ("Save something to memory", ("text", "What is to be remembered")),
    "recall": ("What memory says about something", ("question", "What you want to know")),
    "dream": ("Tidy the memory: merge, correct, forget", None),
}


def make_tool(offer: Offer) -> types.Tool:
    return types.Tool(
        name=offer.name,
        title=offer.title,
        description=offer.description,
        input_schema=dict(offer.input),
        output_schema=dict(offer.output),
        annotations=types.ToolAnnotations(
            read_only_hint=offer.reads,
            destructive_hint=offer.destroys,
            idempotent_hint=offer.repeats,
            open_world_hint=False,
        ),
        _meta=_ALWAYS if offer.core else None,
    )


TOOLS = [make_tool(offer) for offer in OFFERS]
TEMPLATE = types.ResourceTemplate(
    name="memory",
    title="A memory",
    uri_template="memdir://{scope}/{+name}",
    description="One memory; its scope is private, user or team.",
    mime_type=_MARKDOWN,
)


def list_resources(opened: Opened, cursor: str | None) -> types.ListResourcesResult:
    """The indexes, then every memory, newest first; memory that is off has none."""
    start = _parse_cursor(cursor)
    if not opened.places.switch.on:
        return types.ListResourcesResult(resources=[])
    found = [(store, header) for store in opened.stores for header in list_told(store)]
    found.sort(key=lambda at: (at[1].modified, at[1].name), reverse=True)
    shown = [_make_resource(store, header) for store, header in found[start : start + PAGE]]
    following = str(start + PAGE) if start + PAGE < len(found) else None
    return types.ListResourcesResult(
        resources=[*(_list_indexes(opened) if start == 0 else ()), *shown], next_cursor=following
    )


def read_resource(opened: Opened, uri: str) -> types.ReadResourceResult:
    opened.check_on()
    scope = parse_index_address(uri)
    if scope is not None:
        text = _read_index(opened, scope)
    elif parse_address(uri) is not None:
        store, header = find_one(opened, uri)
        text = store.read(header.name).text
    else:
        shown = shorten(one_line(uri), 80)
        raise NotFoundError(f"there is no resource {shown!r}", name=uri, hint="addresses begin with memdir://")
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=_MARKDOWN, text=clean(text))]
    )


def list_prompts() -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[_make_prompt(name) for name in PROMPTS])


def render_asked_prompt(opened: Opened, name: str, given: Mapping[str, str]) -> types.GetPromptResult:
    """A prompt as its message; `recall` brings what memory has, the others say how to go about it."""
    if name not in PROMPTS:
        hint = f"there are {', '.join(PROMPTS)}"
        raise NotFoundError(f"there is no prompt {shorten(one_line(name), 60)!r}", name=name, hint=hint)
    opened.check_on()
    title, argument = PROMPTS[name]
    values = {}
    if argument is not None:
        key, what = argument
        if not given.get(key, "").strip():
            raise FormatError(f"the prompt {name} needs {key}", field=key, hint=what)
        values[key] = printable(given[key])
    if name == "recall":
        values["found"] = _render_found(opened, values["question"])
    text = types.TextContent(type="text", text=render_prompt(f"mcp/{name}", **values))
    return types.GetPromptResult(description=title, messages=[types.PromptMessage(role="user", content=text)])


def _make_prompt(name: str) -> types.Prompt:
    title, argument = PROMPTS[name]
    arguments = [types.PromptArgument(name=argument[0], description=argument[1], required=True)] if argument else []
    return types.Prompt(name=name, title=title, description=title, arguments=arguments)


def _render_found(opened: Opened, question: str) -> str:
    found = recall_here(opened, question)
    if found.skipped is not None:
        return f"({found.skipped.words})"
    now = opened.now().astimezone()
    return "\n\n".join(render_reminder(excerpt, now=now) for excerpt in found.memories)


def _make_resource(store: FileStore, header: Header) -> types.Resource:
    return types.Resource(
        name=header.name,
        title=shorten(clean(header.title), 120),
        uri=make_address(header.scope.value, header.name),
        description=shorten(clean(header.description), 300),
        mime_type=_MARKDOWN,
        size=header.signature.size,
        annotations=types.Annotations(
            audience=["user", "assistant"],
            priority=1.0 if header.pinned else 0.5,
            last_modified=make_time(header.modified),
        ),
    )


def _list_indexes(opened: Opened) -> list[types.Resource]:
    return [
        types.Resource(
            name=f"{loaded.scope.value}/MEMORY",
            title=f"Index of the {loaded.scope.value} memory",
            uri=make_index_address(loaded.scope.value),
            description="What a session loads of it.",
            mime_type=_MARKDOWN,
            annotations=types.Annotations(audience=["user", "assistant"], priority=1.0),
        )
        for loaded in build_instructions(opened, make=False).clips
    ]


def _read_index(opened: Opened, scope: str) -> str:
    for loaded in build_instructions(opened, make=False).clips:
        if loaded.scope.value == scope:
            return defuse("\n".join(part for part in (loaded.clip.text, loaded.clip.warning) if part))
    raise NotFoundError(f"there is no index of {shorten(one_line(scope), 40)!r}", name=scope)


def _parse_cursor(cursor: str | None) -> int:
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 9):
        raise FormatError("this cursor is none of ours", field="cursor", hint="begin without one")
    return int(cursor)
