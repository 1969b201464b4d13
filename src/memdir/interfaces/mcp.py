"""The MCP server: offers the memory to Model Context Protocol clients, using the official SDK.

It translates between the protocol and `interfaces.tools`, and makes no decisions about memory. Each request opens the
project and keeps no state, so any number of clients may call at the same time. A tool reports a refusal in its result,
where the model reads it; an unknown tool, prompt or resource is a protocol error.

Over HTTP the server listens on loopback only and requires a token, because any local program can connect to a port. It
serves a request only if the Host header names loopback, no browser header names another site as the sender, and the
bearer token is right; otherwise it refuses the request without reading its body.
"""

import gc
import hmac
import json
import logging
import os
import secrets
import signal
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from memdir import __version__
from memdir.conversation.instructions import build_instructions
from memdir.errors import FormatError, MemdirError, NotFoundError, PathError, SettingsError, hint_extra
from memdir.files import disk_error, read_small, write_private
from memdir.format.shown import TextVoice, show_line, show_memory, show_text
from memdir.frozen import dataclass, field
from memdir.interfaces import tools
from memdir.interfaces.tools import INDEX_SCOPE, Row, render_refusal
from memdir.models.prompts import render_prompt
from memdir.operations.find import list_memories, make_address, parse_address
from memdir.project.settings import read_environment
from memdir.recall.pipeline import recall_in_project
from memdir.recall.prefetch import open_selector
from memdir.records import Header, Origin
from memdir.store.open import Project, open_project
from memdir.text import one_line, printable, shorten

try:
    import anyio
    import anyio.to_thread
    from mcp import types
    from mcp.server import Server, ServerRequestContext
    from mcp.server.caching import CacheHint
    from mcp.server.stdio import stdio_server
    from mcp.shared.exceptions import MCPError
except ModuleNotFoundError:
    _PROBLEM = "the MCP server needs the MCP SDK, which is not installed"
    raise SettingsError(_PROBLEM, hint=hint_extra("mcp")) from None
from memdir.interfaces.web.listen import (
    HOST,
    App,
    AsgiScope,
    HttpLimits,
    HttpServer,
    Receive,
    Send,
    find_foreign,
    group_headers,
    listen,
    refuse,
)

PAGE = 200  # resources per page
PATH = "/mcp"
SESSION_KEY = "memdir/session"  # in a request's `_meta`: the conversation that it belongs to
_TOKEN_BYTES = 4_096  # the most that is read of the token file
_TOKEN_CHARS = 32  # a shorter token could be guessed
_MARKDOWN = "text/markdown"
_STATIC = CacheHint(ttl_ms=3_600_000)  # for lists that do not change while the server runs
# Maps a prompt to its title and, if it has an argument, the argument's name and description.
PROMPTS: Mapping[str, tuple[str, tuple[str, str] | None]] = {
    "remember": ("Save something to memory", ("text", "What is to be remembered")),
    "recall": ("What memory says about something", ("question", "What you want to know")),
    "dream": ("Tidy the memory: merge, correct, forget", None),
}
TOOLS = [
    types.Tool(
        input_schema=dict(offer.input),
        output_schema=dict(offer.output),
        **tools.describe_tool(offer),
        # Claude Code shows the core tools without a search for them.
        _meta={"anthropic/alwaysLoad": True} if offer.core else None,
    )
    for offer in tools.TOOLS
]
TEMPLATE = types.ResourceTemplate(
    name="memory",
    title="A memory",
    uri_template="memdir://{scope}/{+name}",
    description="One memory; its scope is private, user or team.",
    mime_type=_MARKDOWN,
)
Answer = TypeVar("Answer")
Context = ServerRequestContext[Any]
Page = types.PaginatedRequestParams
# Extra headers of a refusal, by status.
_MORE = {401: ((b"www-authenticate", b"Bearer"),), 405: ((b"allow", b"POST"),)}


def serve(*, cwd: Path, directory: Path | None, http: bool, port: int, token_file: Path | None) -> int:
    """Serve until the client disconnects or, on loopback, until the process is stopped; return the exit code."""
    context = McpContext(cwd, directory)
    context.check()
    # Other commands run without the garbage collector, but this process may run for days.
    gc.freeze()
    gc.enable()
    # The SDK would log malformed messages with their content, so discard its log.
    log = logging.getLogger("mcp")
    log.addHandler(logging.NullHandler())
    log.propagate = False
    if not http:
        return _serve_stdio(context)
    return _serve_loopback(context, port, open_token(token_file or read_environment().state_home / "mcp-token"))


@dataclass(frozen=True, slots=True)
class McpContext:
    """The project of a server. `directory` replaces its memory directory; `variables` replace the environment."""

    cwd: Path
    directory: Path | None = None
    variables: Mapping[str, str] | None = None

    def check(self) -> None:
        """Raise errors now that would otherwise occur at every call. If memory is off, the tools report it."""
        if not self.cwd.is_dir():
            raise PathError(str(self.cwd), "folder not found", hint="pass the project's folder with --project")
        open_project(self.cwd, environ=self.variables, directory=self.directory).close()

    def run(self, work: Callable[[Project], Answer]) -> Answer:
        try:
            project = open_project(self.cwd, environ=self.variables, directory=self.directory)
            try:
                return work(project)
            finally:
                project.close()
        except OSError as error:
            raise disk_error(error, error.filename or self.cwd) from error


def make_server(context: McpContext) -> Server[Any]:
    """Return the MCP server of a project. It keeps no state, so one server handles all connections."""

    async def run(work: Callable[[Project], Answer]) -> Answer:
        try:
            return await anyio.to_thread.run_sync(context.run, work)
        except MemdirError as error:
            is_wrong = isinstance(error, NotFoundError | FormatError)
            code = types.INVALID_PARAMS if is_wrong else types.INTERNAL_ERROR
            raise MCPError(code=code, message=render_refusal(error)) from None

    async def list_tools(_: Context, __: Page | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=TOOLS)

    async def list_templates(_: Context, __: Page | None) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[TEMPLATE])

    async def list_prompts(_: Context, __: Page | None) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[_make_prompt(name) for name in PROMPTS])

    async def list_resources(_: Context, params: Page | None) -> types.ListResourcesResult:
        return await run(partial(_list_resources, cursor=params.cursor if params is not None else None))

    async def read_resource(_: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        return await run(partial(_read_resource, uri=str(params.uri)))

    async def get_prompt(_: Context, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        return await run(partial(_render_prompt, name=params.name, arguments=params.arguments or {}))

    async def call_tool(request: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in tools.BY_NAME:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {shorten(one_line(params.name), 60)}")

        def work(project: Project) -> Row:
            # The client's name, and the conversation if the client or the environment names one.
            client, session_key = request.session.client_params, (request.meta or {}).get(SESSION_KEY)
            name = shorten(one_line(client.client_info.name), 60) if client is not None else ""
            session = session_key[:200] if isinstance(session_key, str) and session_key else project.environment.session
            origin = Origin("agent", f"by MCP from {name}" if name else "by MCP", session)
            return tools.call_tool(project, params.name, params.arguments or {}, origin=origin)

        try:
            row = await anyio.to_thread.run_sync(context.run, work)
        except MemdirError as error:
            refusal = types.TextContent(type="text", text=render_refusal(error))
            return types.CallToolResult(content=[refusal], is_error=True)
        # The same result as text, for clients without structured content.
        text = types.TextContent(type="text", text=json.dumps(row, ensure_ascii=False))
        return types.CallToolResult(content=[text], structured_content=row)

    return Server(
        "memdir",
        version=__version__,
        title="memdir",
        instructions=render_prompt("mcp/instructions"),
        cache_hints={"tools/list": _STATIC, "prompts/list": _STATIC, "resources/templates/list": _STATIC},
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )


def _serve_stdio(context: McpContext) -> int:
    server = make_server(context)
    # A thread waits for the next line and cannot be woken, so an interrupt has to end the process at once. Completed
    # writes are on the disk, and the next call finishes or rolls back an incomplete one.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

    async def main() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    anyio.run(main)
    return 0


def _list_resources(project: Project, cursor: str | None) -> types.ListResourcesResult:
    """Return the indexes, then every memory, newest first; nothing if memory is off."""
    if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 9):
        raise FormatError("invalid cursor", field="cursor", hint="omit it to start from the beginning")
    start = int(cursor or 0)
    if not project.places.switch.on:
        return types.ListResourcesResult(resources=[])
    listed = list_memories(project.stores, visible=True)
    resources = _list_indexes(project) if start == 0 else []
    resources += [_make_resource(memory.header) for memory in listed[start : start + PAGE]]
    following = str(start + PAGE) if start + PAGE < len(listed) else None
    return types.ListResourcesResult(resources=resources, next_cursor=following)


def _read_resource(project: Project, uri: str) -> types.ReadResourceResult:
    project.check_on()
    scope, name = parse_address(uri) or ("", "")
    if scope == INDEX_SCOPE:
        clips = (index.clip for index in build_instructions(project, make=False).clips if index.scope.value == name)
        if (clip := next(clips, None)) is None:
            raise NotFoundError(f"no index for scope {shorten(one_line(name), 40)!r}", name=name)
        text = "\n".join(filter(None, (clip.text, clip.warning)))
    elif scope:
        store, header = tools.find_visible(project, uri)
        text = store.read(header.name).text
    else:
        address = shorten(one_line(uri), 80)
        raise NotFoundError(f"resource not found: {address!r}", name=uri, hint="use a memdir:// address")
    contents = types.TextResourceContents(uri=uri, mime_type=_MARKDOWN, text=show_text(text, TextVoice.FILE))
    return types.ReadResourceResult(contents=[contents])


def _render_prompt(project: Project, name: str, arguments: Mapping[str, str]) -> types.GetPromptResult:
    """Return a prompt as a message; `recall` contains memories, the other prompts are instructions."""
    if name not in PROMPTS:
        hint = f"use one of {', '.join(PROMPTS)}"
        raise NotFoundError(f"unknown prompt {shorten(one_line(name), 60)!r}", name=name, hint=hint)
    project.check_on()
    title, argument = PROMPTS[name]
    values = {}
    if argument is not None:
        key, what = argument
        if not arguments.get(key, "").strip():
            raise FormatError(f"the prompt {name} needs {key}", field=key, hint=what)
        values[key] = printable(arguments[key])
    if name == "recall":
        recalled = recall_in_project(project, values["question"], make_selector=partial(open_selector, project))
        now = project.now().astimezone()
        texts = [show_memory(excerpt, now=now) for excerpt in recalled.memories]
        values["found"] = "\n\n".join(texts) if recalled.skipped is None else f"({recalled.skipped.words})"
    text = types.TextContent(type="text", text=render_prompt(f"mcp/{name}", **values))
    return types.GetPromptResult(description=title, messages=[types.PromptMessage(role="user", content=text)])


def _make_prompt(name: str) -> types.Prompt:
    title, argument = PROMPTS[name]
    arguments = [types.PromptArgument(name=argument[0], description=argument[1], required=True)] if argument else []
    return types.Prompt(name=name, title=title, description=title, arguments=arguments)


def _make_resource(header: Header) -> types.Resource:
    priority, when = 1.0 if header.pinned else 0.5, tools.make_tool_time(header.modified)
    return types.Resource(
        name=header.name,
        title=show_line(header.title, 120),
        uri=make_address(header.scope.value, header.name),
        description=show_line(header.description, 300),
        mime_type=_MARKDOWN,
        size=header.signature.size,
        annotations=types.Annotations(audience=["user", "assistant"], priority=priority, last_modified=when),
    )


def _list_indexes(project: Project) -> list[types.Resource]:
    return [
        types.Resource(
            name=f"{loaded.scope.value}/MEMORY",
            title=f"Index of the {loaded.scope.value} memory",
            uri=make_address(INDEX_SCOPE, loaded.scope.value),
            description="What a session loads of it.",
            mime_type=_MARKDOWN,
            annotations=types.Annotations(audience=["user", "assistant"], priority=1.0),
        )
        for loaded in build_instructions(project, make=False).clips
    ]


@dataclass(frozen=True, slots=True)
class McpToken:
    """The bearer token of the loopback server, and its file. memdir never prints the value."""

    file: Path
    value: bytes = field(repr=False)

    def is_shown_by(self, header: bytes) -> bool:
        """Return whether an Authorization header contains the token, compared in constant time."""
        scheme, _, token = header.strip().partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), self.value)


def open_token(path: Path) -> McpToken:
    """Return the token in a file, creating it if missing. Raises SettingsError if it is too short or others can read
    it."""
    if not os.path.lexists(path):
        _make_token(path)
    reading = read_small(path, _TOKEN_BYTES, follow=False)
    if reading.data is None:
        why = reading.problem or "file not found"
        raise SettingsError(f"cannot read the token file {path}: {why}", key="token_file")
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    if os.name == "posix" and mode & 0o077:
        message = f"others can read the token file {path} (mode {mode:04o})"
        raise SettingsError(message, key="token_file", hint=f"`chmod 600 {path}`, or delete it to create a new one")
    value = reading.data.strip()
    if len(value) < _TOKEN_CHARS or not value.isascii() or not value.decode("ascii").isprintable() or b" " in value:
        message = f"invalid token file {path}: it must contain one line of at least {_TOKEN_CHARS} plain characters"
        raise SettingsError(message, key="token_file", hint="delete it to create a new one")
    return McpToken(path, value)


def _make_token(path: Path) -> None:
    # Link a complete file into place, so that two servers that start at once use the same token.
    draft = path.with_name(f".{path.name}.{os.urandom(6).hex()}.new")
    write_private(draft, secrets.token_urlsafe(32).encode("ascii") + b"\n")
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    except OSError as error:
        raise disk_error(error, path) from error
    finally:
        draft.unlink(missing_ok=True)


class TokenGate:
    """ASGI middleware that checks each request before the SDK's application receives it."""

    def __init__(self, app: App, port: int, token: McpToken) -> None:
        self._app, self._port, self._token = app, port, token

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._find_refusal(scope)):
            status, why = refusal
            await refuse(send, status, why, *_MORE.get(status, ()))
        elif scope["type"] in ("http", "lifespan"):
            await self._app(scope, receive, send)

    def _find_refusal(self, scope: AsgiScope) -> tuple[int, str] | None:
        headers = group_headers(scope)
        if why := find_foreign(headers, self._port):
            return 403, why
        credentials = headers[b"authorization"]
        if len(credentials) != 1 or not self._token.is_shown_by(credentials[0]):
            return 401, "the bearer token is missing or wrong"
        if scope["path"] != PATH:
            return 404, "there is nothing here"
        return None if scope["method"] == "POST" else (405, "only POST is answered")


def _serve_loopback(context: McpContext, port: int, token: McpToken) -> int:
    """Serve on loopback until the process is stopped; port 0 chooses a free port."""
    listener = listen(port)
    own = listener.getsockname()[1]
    most = HttpLimits().body_bytes
    app = make_server(context).streamable_http_app(
        streamable_http_path=PATH, stateless_http=True, json_response=True, max_request_body_size=most, host=HOST
    )
    sys.stdout.write(f"http://{HOST}:{own}{PATH} (bearer token in {token.file})\n")
    sys.stdout.flush()
    HttpServer(TokenGate(app, own, token)).run([listener])
    return 0
