"""What the SDK asks, answered: each request in a thread, refusals in words, nothing unforeseen on the wire.

A tool that refuses says so in its result, where the model reads it; only a request that names nothing we have is an
error of the protocol. The SDK speaks every revision from 2024-11-05 to 2026-07-28 and tells clients apart by itself.
"""

import json
import logging
import signal
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.caching import CacheHint
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from memdir import __version__
from memdir.doors.mcp.place import Place
from memdir.doors.mcp.showing import (
    TEMPLATE,
    TOOLS,
    list_prompts,
    list_resources,
    read_resource,
    render_asked_prompt,
)
from memdir.errors import FormatError, MemdirError, NotFoundError
from memdir.opening import Opened
from memdir.prompts import render_prompt
from memdir.records import Origin
from memdir.text import one_line, shorten
from memdir.toolset import BY_NAME, Row, call_tool
from memdir.toolset.arguments import render_refusal

Context = ServerRequestContext[Any]
Page = types.PaginatedRequestParams
Answer = TypeVar("Answer")

SESSION_KEY = "memdir/session"  # in a request's `_meta`: the conversation that it belongs to
_STATIC = CacheHint(ttl_ms=3_600_000)  # what does not change while the server lives


def make_server(place: Place) -> Server[Any]:
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


def serve_stdio(place: Place) -> int:
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


async def _call_tool(place: Place, context: Context, asked: types.CallToolRequestParams) -> types.CallToolResult:
    if asked.name not in BY_NAME:
        raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {shorten(one_line(asked.name), 60)}")
    work = partial(call_tool, name=asked.name, given=asked.arguments or {})
    origin = _find_origin(context)
    try:
        row = await _run(place, lambda opened: work(opened, origin=_complete(origin, opened)))
    except MemdirError as error:
        return _make_refusal(error)
    return _make_result(row)


async def _list_resources(place: Place, _: Context, asked: Page | None) -> types.ListResourcesResult:
    cursor = asked.cursor if asked is not None else None
    return await _ask(place, lambda opened: list_resources(opened, cursor))


async def _list_templates(_: Context, __: Page | None) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=[TEMPLATE])


async def _read_resource(place: Place, _: Context, asked: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    return await _ask(place, lambda opened: read_resource(opened, str(asked.uri)))


async def _list_prompts(_: Context, __: Page | None) -> types.ListPromptsResult:
    return list_prompts()


async def _render_prompt(place: Place, _: Context, asked: types.GetPromptRequestParams) -> types.GetPromptResult:
    return await _ask(place, lambda opened: render_asked_prompt(opened, asked.name, asked.arguments or {}))


async def _run(place: Place, work: Callable[[Opened], Answer]) -> Answer:
    return await anyio.to_thread.run_sync(place.do, work)


async def _ask(place: Place, work: Callable[[Opened], Answer]) -> Answer:
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


def _complete(origin: Origin, opened: Opened) -> Origin:
    return origin if origin.session else Origin(origin.who, origin.why, opened.environment.session)
