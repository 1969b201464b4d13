"""MCP over HTTP for the stores of an organisation: the tools of `interfaces.tools` on the functions of the API.

Each tool takes a `store`, which is optional for a caller with only one. Requests share no state. Refusals are tool results, so
that the model can read them.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

import anyio.to_thread
from mcp import types
from mcp.server import Server, ServerRequestContext
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette

from memdir import __version__
from memdir.errors import MemdirError, NotFoundError
from memdir.format.age import render_age
from memdir.format.shown import TextVoice, find_voice, list_notes, show_line, show_text
from memdir.frozen import replace
from memdir.interfaces import tools
from memdir.interfaces.server import api
from memdir.interfaces.server.access import Caller, DeniedError
from memdir.interfaces.server.api import Call, ServerContext
from memdir.interfaces.server.schemas import Json
from memdir.interfaces.tools import render_refusal
from memdir.models.prompts import render_prompt
from memdir.operations.write import forget, save, update
from memdir.recall.pipeline import make_full_excerpt
from memdir.records import Excerpt
from memdir.store.plan import AGENT
from memdir.text import one_line, shorten

NAMES = ("memory_search", "memory_read", "memory_save", "memory_update", "memory_forget", "memory_list")
_STORE = {"type": "string", "description": "name of the store; memory_stores lists them"}
_BODY_BYTES = 2_097_152
Arguments = Mapping[str, object]


def make_mcp(context: ServerContext) -> Starlette:
    """Return the MCP server as an application for `/mcp`; the request's state holds the caller."""

    async def list_tools(
        _: ServerRequestContext[Any], __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=_TOOLS)

    async def call(request: ServerRequestContext[Any], asked: types.CallToolRequestParams) -> types.CallToolResult:
        if asked.name not in _NAMED:
            raise MCPError(code=types.INVALID_PARAMS, message=f"Unknown tool: {shorten(one_line(asked.name), 60)}")
        caller = request.request.scope["state"]["caller"] if request.request is not None else None
        assert isinstance(caller, Caller)
        try:
            row = await anyio.to_thread.run_sync(call_tool, context, caller, asked.name, asked.arguments or {})
        except MemdirError as error:
            refusal = types.TextContent(type="text", text=render_refusal(error))
            return types.CallToolResult(content=[refusal], is_error=True)
        text = types.TextContent(type="text", text=json.dumps(row, ensure_ascii=False))
        return types.CallToolResult(content=[text])

    server: Server[Any] = Server(
        "memdir",
        version=__version__,
        title="memdir",
        instructions=render_prompt("mcp/instructions"),
        on_list_tools=list_tools,
        on_call_tool=call,
    )
    # Host names need no check: each request has a token, which other sites cannot make a browser send.
    return server.streamable_http_app(
        streamable_http_path="/mcp",
        stateless_http=True,
        json_response=True,
        max_request_body_size=_BODY_BYTES,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )


def _make_tool(name: str) -> types.Tool:
    offer = tools.BY_NAME[name]
    own_properties = offer.input["properties"]
    assert isinstance(own_properties, Mapping)
    properties = {key: schema for key, schema in own_properties.items() if key != "scope"} | {"store": _STORE}
    return types.Tool(input_schema={**offer.input, "properties": properties}, **tools.describe_tool(offer))


_TOOLS = [
    types.Tool(
        name="memory_stores",
        title="List stores",
        description="List the stores of memory that you may use.",
        input_schema={"type": "object", "properties": {}},
        annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
    ),
    *map(_make_tool, NAMES),
]
_NAMED = {tool.name: tool for tool in _TOOLS}


def call_tool(context: ServerContext, caller: Caller, name: str, arguments: Arguments) -> Json:
    asked = tools.check_arguments(name, _NAMED[name].input_schema, arguments)
    call = Call(context, caller, {}, {}, {}, who=AGENT)
    if name == "memory_stores":
        return api.list_stores(call)[1]
    store_name = str(asked.pop("store", "")) or _find_only(call)
    call = replace(call, params={"store": store_name})
    if name == "memory_search":
        question = replace(call, query={"q": asked["query"], "limit": asked.get("limit", 5)})
        return api.search_store(question, partial(_show_row, context.clock()))[1]
    if name == "memory_list":
        limit, rows = asked.get("limit", 50), call.find_store().store.scan()
        headers = [header for header in rows if asked.get("type") in (None, header.kind)][asked.get("offset", 0) :]
        return {
            "memories": [
                {"name": header.name, "description": show_line(header.description)} for header in headers[:limit]
            ]
        }
    path = str(asked["name"]).removesuffix(".md")
    call = replace(call, params={"store": store_name, "path": path})
    if name == "memory_read":
        store = call.find_store().store
        memory = store.read(path)
        return _show_row(context.clock(), api.render_memory(store, memory), make_full_excerpt(store, memory))
    if not caller.may_write:
        raise DeniedError("this credential is read-only", hint="ask the user for write access")
    return _write(call, name, path, asked)


def _show_row(now: datetime, row: Json, excerpt: Excerpt) -> Json:
    """Return a memory as a model may read it, with its age and a note on its author. Only `content` can be written back."""
    voices = {"text": find_voice(excerpt.header.scope), "content": TextVoice.FILE}
    texts = {key: show_text(row[key], voice) for key, voice in voices.items() if key in row}
    notes = {"age": render_age(excerpt.dated, now), "note": " ".join(list_notes(excerpt, now=now))}
    return tools.show_fields(row) | texts | notes


def _write(call: Call, name: str, path: str, asked: dict[str, Any]) -> Json:
    opened = call.find_store(write=True)
    store, context = opened.store, opened.make_context("by MCP")
    if name == "memory_forget":
        step = partial(forget, store, path, context)
    elif name == "memory_save":
        step = partial(save, store, tools.make_draft(asked), context)
    else:
        step = partial(update, store, path, tools.make_changes(asked), context, expect=asked.get("expect"))
    status, answer = opened.write(step)
    return answer if status == 200 else {"needs_review": answer["review"]["id"], "why": answer["review"]["why"]}


def _find_only(call: Call) -> str:
    stores = api.list_stores(call)[1]["stores"]
    if len(stores) != 1:
        names = ", ".join(store["name"] for store in stores[:20])
        raise NotFoundError("no store was given", hint=f"use one of: {names or 'none'}")
    return str(stores[0]["id"])
