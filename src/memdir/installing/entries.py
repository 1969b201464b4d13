"""What each host's files should hold of ours, from its row and the program to be called.

JsonPart   members of a JSON file that others write in, too: hooks by event, and servers by name
TomlPart   a block of a TOML file
FilePart   a whole file that is ours alone
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memdir.frozen import dataclass, field
from memdir.hosts.places import find_folder, find_hooks_file
from memdir.hosts.rows import CODEX, CURSOR, GEMINI, VSCODE, Hook, Host
from memdir.installing.command import NAME, Program, split_words
from memdir.prompts import render_prompt
from memdir.settings import Environment


@dataclass(frozen=True, slots=True)
class JsonPart:
    """`hooks`: the host's event name -> the group of ours; `servers`: the key they stand under -> our server."""

    path: Path
    hooks: Mapping[str, Any] = field(default_factory=dict)
    servers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TomlPart:
    path: Path
    lines: str


@dataclass(frozen=True, slots=True)
class FilePart:
    path: Path
    text: str


Part = JsonPart | TomlPart | FilePart


def list_parts(
    host: Host, environment: Environment, program: Program, *, root: Path | None = None, has_mcp: bool = True
) -> tuple[Part, ...]:
    """Everything for one host, in the person's own settings or with a `root` in the project's."""
    return tuple(_list_parts(host, environment, program, root, has_mcp))


def make_group(host: Host, hook: Hook, program: Program) -> dict[str, Any]:
    """One hook as the host's settings spell it."""
    handler: dict[str, Any] = {
        "type": "command",
        "command": program.render("hook", hook.event.value, "--host", host.key),
        "timeout": hook.seconds * host.unit,
    }
    if hook.is_async:
        handler["async"] = True
    if host is GEMINI:
        handler = {"name": f"{NAME}-{hook.event.value}", **handler}
    if host is VSCODE:
        return handler
    return {"matcher": hook.tools, "hooks": [handler]} if hook.tools else {"hooks": [handler]}


def _list_parts(
    host: Host, environment: Environment, program: Program, root: Path | None, has_mcp: bool
) -> Iterator[Part]:
    path = find_hooks_file(host, environment, root)
    hooks = {hook.name: make_group(host, hook, program) for hook in host.hooks}
    command, arguments = split_words((*program.words, "mcp"))
    server = {"command": command, "args": arguments}
    if host is VSCODE and path:
        yield JsonPart(path, hooks)
        if root is not None and has_mcp:
            yield JsonPart(root / ".vscode" / "mcp.json", servers={"servers": {"type": "stdio", **server}})
    elif host is CURSOR:
        folder = find_folder(host, environment) if root is None else root / ".cursor"
        yield JsonPart(folder / "mcp.json", servers={"mcpServers": server})
        if root is not None:
            yield FilePart(folder / "rules" / "memdir.mdc", render_prompt("hooks/cursor") + "\n")
    elif path:
        servers = {"mcpServers": server} if host is GEMINI and has_mcp else {}
        yield JsonPart(path, hooks, servers)
        if host is CODEX and root is None and has_mcp:
            yield TomlPart(path.with_name("config.toml"), _render_server(command, arguments))


def _render_server(command: str, arguments: list[str]) -> str:
    # A basic string of TOML is one of JSON, as far as a path can go.
    words = ", ".join(map(json.dumps, arguments))
    return f"[mcp_servers.{NAME}]\ncommand = {json.dumps(command)}\nargs = [{words}]"
