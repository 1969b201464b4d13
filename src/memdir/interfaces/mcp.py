"""The MCP door: memory for every program that speaks the Model Context Protocol, on the official SDK.

    place.py      from a call to open stores        token.py      the secret a client on loopback has to show
    server.py     what the SDK asks, answered       loopback.py   HTTP: who may come in, and the server itself
    showing.py    tools, memories and prompts in the protocol's shapes

It translates and holds no rule of memory: tools are `toolset`'s, words for models are in prompts/mcp. Nothing is kept
between two requests, so any number of clients may call at once; what they write is ordered by the store's own lock.

What it does not do: ask the client for anything (sampling, roots and elicitation are not used), tell of changes, or
listen anywhere but on loopback.
"""

import gc
import hmac
import json
import logging
import os
import secrets
import signal
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.caching import CacheHint
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from memdir import __version__
from memdir.conversation.instructions import build_instructions
from memdir.errors import FormatError, MemdirError, NotFoundError, PathError, SettingsError
from memdir.files import disk_error, read_small, write_private
from memdir.frozen import dataclass, field
from memdir.interfaces.tools import (
    BY_NAME,
    OFFERS,
    Row,
    ToolSpec,
    call_tool,
    clean_result,
    find_one,
    list_told,
    make_address,
    make_index_address,
    make_tool_time,
    parse_address,
    parse_index_address,
    render_refusal,
)
from memdir.models.prompts import render_prompt
from memdir.project.settings import read_environment
from memdir.recall.pipeline import recall_in_project
from memdir.recall.reminder import defuse, render_reminder
from memdir.records import Header, Origin
from memdir.store.files import FileStore
from memdir.store.open import Project, open_project
from memdir.text import one_line, printable, shorten

# --- showing ---
# Tools, memories and prompts in the protocol's shapes.
#
# Everything here is called in a thread with open stores; nothing in it waits for the network.

PAGE = 200  # resources of one answer; a client asks for the next
_MARKDOWN = "text/markdown"
_ALWAYS = {"anthropic/alwaysLoad": True}  # so that Claude Code shows the tool without a search for it

# Prompt -> its words for people, and its argument if it takes one: name and what it is.
PROMPTS: Mapping[str, tuple[str, tuple[str, str] | None]] = {
    "remember": ("Save something to memory", ("text", "What is to be remembered")),
    "recall": ("What memory says about something", ("question", "What you want to know")),
    "dream": ("Tidy the memory: merge, correct, forget", None),
}


def make_tool(offer: ToolSpec) -> types.Tool:
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


def list_resources(opened: Project, cursor: str | None) -> types.ListResourcesResult:
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


def read_resource(opened: Project, uri: str) -> types.ReadResourceResult:
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
        contents=[types.TextResourceContents(uri=uri, mime_type=_MARKDOWN, text=clean_result(text))]
    )


def list_prompts() -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=[_make_prompt(name) for name in PROMPTS])


def render_asked_prompt(opened: Project, name: str, given: Mapping[str, str]) -> types.GetPromptResult:
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


def _render_found(opened: Project, question: str) -> str:
    found = recall_in_project(opened, question)
    if found.skipped is not None:
        return f"({found.skipped.words})"
    now = opened.now().astimezone()
    return "\n\n".join(render_reminder(excerpt, now=now) for excerpt in found.memories)


def _make_resource(store: FileStore, header: Header) -> types.Resource:
    return types.Resource(
        name=header.name,
        title=shorten(clean_result(header.title), 120),
        uri=make_address(header.scope.value, header.name),
        description=shorten(clean_result(header.description), 300),
        mime_type=_MARKDOWN,
        size=header.signature.size,
        annotations=types.Annotations(
            audience=["user", "assistant"],
            priority=1.0 if header.pinned else 0.5,
            last_modified=make_tool_time(header.modified),
        ),
    )


def _list_indexes(opened: Project) -> list[types.Resource]:
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


def _read_index(opened: Project, scope: str) -> str:
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


# --- place ---
# Where a server works: the project it was started in, opened anew for every call.
#
# Opening takes a millisecond or two, and so a memory that is switched off, paused or moved meanwhile is seen at once.

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class McpContext:
    """`directory` puts another memory directory in the project's place, as `--dir` does.

    `variables` are the environment's own unless somebody gives others.
    """

    cwd: Path
    directory: Path | None = None
    variables: Mapping[str, str] | None = None

    def check(self) -> None:
        """Raise now for what would fail at every call; memory that is off is no failure, tools say so."""
        if not self.cwd.is_dir():
            raise PathError(str(self.cwd), "there is no such folder", hint="give the project's folder with --project")
        with self._open():
            pass

    def do(self, work: Callable[[Project], Answer]) -> Answer:
        """One piece of work on open stores; whatever is wrong is a MemdirError."""
        try:
            with self._open() as opened:
                return work(opened)
        except OSError as error:
            raise disk_error(error, error.filename or self.cwd) from error

    @contextmanager
    def _open(self) -> Iterator[Project]:
        opened = open_project(self.cwd, environ=self.variables, directory=self.directory)
        try:
            yield opened
        finally:
            opened.close()


# --- server ---
# What the SDK asks, answered: each request in a thread, refusals in words, nothing unforeseen on the wire.
#
# A tool that refuses says so in its result, where the model reads it; only a request that names nothing we have is an
# error of the protocol. The SDK speaks every revision from 2024-11-05 to 2026-07-28 and tells clients apart by itself.

Context = ServerRequestContext[Any]
Page = types.PaginatedRequestParams

SESSION_KEY = "memdir/session"  # in a request's `_meta`: the conversation that it belongs to
_STATIC = CacheHint(ttl_ms=3_600_000)  # what does not change while the server lives


def make_server(place: McpContext) -> Server[Any]:
    """A server for one place; it holds no state, so one serves all connections."""
    return Server(
        "memdir",
        version=__version__,
        title="memdir",
        instructions=render_prompt("mcp/instructions"),
        cache_hints={"tools/list": _STATIC, "prompts/list": _STATIC, "resources/templates/list": _STATIC},
        on_list_tools=_list_tools,
        on_call_tool=partial(_call_tool, place),
        on_list_resources=partial(_list_resources, place),
        on_list_resource_templates=_list_templates,
        on_read_resource=partial(_read_resource, place),
        on_list_prompts=_list_prompts,
        on_get_prompt=partial(_render_prompt, place),
    )


def serve_stdio(place: McpContext) -> int:
    """One client on standard input and output, until it closes them."""
    silence()
    server = make_server(place)
    # A thread waits for the next line, and nothing can wake it: an interrupt has to end the process as it stands. What
    # was acknowledged is on the disk, and the next call finishes or takes back what was not.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    async def main() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(main)
    return 0


def silence() -> None:
    """The SDK's own log goes nowhere: it tells of every odd frame, with what was in it."""
    for name in ("mcp", "uvicorn"):
        log = logging.getLogger(name)
        log.addHandler(logging.NullHandler())
        log.propagate = False


async def _list_tools(_: Context, __: Page | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=TOOLS)


async def _call_tool(place: McpContext, context: Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
    if asked.name not in BY_NAME:
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {shorten(one_line(asked.name), 60)}")
    work = partial(call_tool, name=asked.name, given=asked.arguments or {})
    origin = _find_origin(context)
    try:
        row = await _run(place, lambda opened: work(opened, origin=_complete(origin, opened)))
    except MemdirError as error:
        return _make_refusal(error)
    return _make_result(row)


async def _list_resources(place: McpContext, _: Context, asked: Page | None) -> types.ListResourcesResult:
    cursor = asked.cursor if asked is not None else None
    return await _ask(place, lambda opened: list_resources(opened, cursor))


async def _list_templates(_: Context, __: Page | None) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=[TEMPLATE])


async def _read_resource(
    place: McpContext, _: Context, asked: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    return await _ask(place, lambda opened: read_resource(opened, str(asked.uri)))


async def _list_prompts(_: Context, __: Page | None) -> types.ListPromptsResult:
    return list_prompts()


async def _render_prompt(place: McpContext, _: Context, asked: types.GetPromptRequestParams) -> types.GetPromptResult:
    return await _ask(place, lambda opened: render_asked_prompt(opened, asked.name, asked.arguments or {}))


async def _run(place: McpContext, work: Callable[[Project], Answer]) -> Answer:
    return await anyio.to_thread.run_sync(place.do, work)


async def _ask(place: McpContext, work: Callable[[Project], Answer]) -> Answer:
    """As `_run`, for what has no result of its own to refuse in."""
    try:
        return await _run(place, work)
    except MemdirError as error:
        is_asked_wrongly = isinstance(error, NotFoundError | FormatError)
        code = types.INVALID_PARAMS if is_asked_wrongly else types.INTERNAL_ERROR
        raise MCPError(code=code, message=render_refusal(error)) from None


def _make_result(row: Row) -> types.CallToolResult:
    """The row as data, and the same as text for clients that know no other."""
    text = json.dumps(row, ensure_ascii=False)
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=row)


def _make_refusal(error: MemdirError) -> types.CallToolResult:
    said = types.TextContent(type="text", text=render_refusal(error))
    return types.CallToolResult(content=[said], is_error=True)


def _find_origin(context: Context) -> Origin:
    """Who calls, as far as the client tells: its name, and the conversation if it says so."""
    client = context.session.client_params
    name = shorten(one_line(client.client_info.name), 60) if client is not None else ""
    session = (context.meta or {}).get(SESSION_KEY)
    why = f"by MCP from {name}" if name else "by MCP"
    return Origin("agent", why, session[:200] if isinstance(session, str) else "")


def _complete(origin: Origin, opened: Project) -> Origin:
    return origin if origin.session else Origin(origin.who, origin.why, opened.environment.session)


# --- token ---
# The bearer token of the server on loopback: any program of any user may knock at a port, so a port alone is no door.
#
# It is made once, 256 random bits in a file that only its owner can read. It never stands in an address, on a command
# line or in anything memdir prints.

_BYTES = 4_096
_CHARS = 32  # fewer can be guessed by somebody patient


@dataclass(frozen=True, slots=True)
class McpToken:
    """The file it stands in, and the value, which no representation shows."""

    file: Path
    value: bytes = field(repr=False)

    def is_shown_by(self, header: bytes) -> bool:
        """Whether an Authorization header shows it; takes as long for a near miss as for any other."""
        scheme, _, given = header.strip().partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self.value)


def open_token(path: Path) -> McpToken:
    """The token of a file, made if there is none; raises SettingsError for one that is no secret."""
    if not os.path.lexists(path):
        _make(path)
    reading = read_small(path, _BYTES, follow=False)
    if reading.data is None:
        raise SettingsError(
            f"the token file {path} cannot be read: {reading.problem or 'it is gone'}", key="token_file"
        )
    _check_mode(path)
    value = reading.data.strip()
    if len(value) < _CHARS or not value.isascii() or not value.decode("ascii").isprintable() or b" " in value:
        message = f"the token file {path} holds no token: one line of at least {_CHARS} plain characters"
        raise SettingsError(message, key="token_file", hint="delete it, and a good one is made")
    return McpToken(path, value)


def _make(path: Path) -> None:
    """Whoever makes it first wins: two servers that start at once must agree."""
    draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    write_private(draft, secrets.token_urlsafe(32).encode("ascii") + b"\n")
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    except OSError as error:
        raise disk_error(error, path) from error
    finally:
        draft.unlink(missing_ok=True)


def _check_mode(path: Path) -> None:
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if os.name == "posix" and mode & 0o077:
        message = f"others can read the token file {path} (mode {mode:04o})"
        raise SettingsError(message, key="token_file", hint=f"`chmod 600 {path}`, or delete it and a new one is made")


# --- mcp ---


def serve(*, cwd: Path, directory: Path | None, http: bool, port: int, token_file: Path | None) -> int:
    """Serve until the client goes, or on loopback until somebody stops it; answers the exit code."""
    place = McpContext(cwd, directory)
    place.check()
    try:
        # Imported here: the SDK takes a second to load, and is an extra.
        pass
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "memdir":
            raise
        hint = "pip install 'memdir[mcp]'"
        raise SettingsError("the MCP server needs the MCP SDK, which is not installed", hint=hint) from None
    # A call of the command line does without the collector; this one may live for days.
    gc.freeze()
    gc.enable()
    if not http:
        return serve_stdio(place)
    from memdir.interfaces.mcp_http import serve_loopback

    state = read_environment().state_home
    return serve_loopback(place, port, open_token(token_file or state / "mcp-token"))
