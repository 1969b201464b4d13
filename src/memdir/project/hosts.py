"""The coding agents that memdir works in: their hooks, their files, and the record of what `install` changed.

The rows come from the hosts' documentation or source. Those of Claude Code, Codex and Gemini CLI were tested with the real
clients, the others only against their documented formats.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from memdir.files import read_small, write_private
from memdir.frozen import asdict, compile_late, dataclass, field
from memdir.limits import FILE_BYTES
from memdir.project.settings import DEFAULT, Environment, Settings
from memdir.text import as_table, parse_json

_RECORD_BYTES = 1_048_576
# A memdir hook command, whether a script, `python -m memdir` or `uvx memdir`, quoted or not.
OURS = compile_late(r"(?:^|[\s\"'/\\])memdir[\"']?\s+hook\s+([\w-]+)\s+--host[\s=]+([\w-]+)")

# --- tools, in lower case without `_` and `-` -------------------------------------------------------------------------

# Tools that write the file they name.
WRITERS = frozenset(
    "write edit multiedit notebookedit "  # Claude Code
    "writefile replace savefile "  # Gemini
    "editfile searchreplace strreplace deletefile delete reapply "  # Cursor
    "createfile replacestringinfile multireplacestringinfile inserteditintofile "  # VS Code
    "applypatch updatefile patchfile patch".split()
)
PATH_KEYS = ("file_path", "notebook_path", "path", "filePath", "target_file", "target_notebook", "absolute_path")
EDITORS = frozenset(("strreplacebasededittool", "strreplaceeditor", "texteditor"))
EDITOR_VERBS = frozenset(("create", "str_replace", "insert", "delete", "rename"))
SHELLS = frozenset(
    "bash shell localshell execcommand shellcommand containerexec runshellcommand runterminalcmd runterminalcommand "
    "runinterminal runcommand terminal powershell".split()
)
PATCHED = compile_late(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)
READERS = frozenset("read readfile viewfile view readmanyfiles grep grepsearch searchfilecontent search".split())


def plain_name(tool: str) -> str:
    """Return a tool's name in lower case without the server prefix."""
    return re.sub(r"[^a-z]", "", tool.rsplit("__", 1)[-1].rsplit(".", 1)[-1].lower())


class HookEvent(StrEnum):
    """Events in a conversation, by memdir's names; `memdir hook EVENT` accepts them."""

    START = "session-start"
    PROMPT = "user-prompt"
    BEFORE_TOOL = "before-tool"
    AFTER_TOOL = "after-tool"
    TOOL_FAILURE = "tool-failure"
    STOP = "stop"
    COMPACT = "before-compact"
    AGENT = "subagent-start"
    END = "session-end"


class ReplyStyle(StrEnum):
    CLAUDE = "claude"  # hookSpecificOutput, permissionDecision; also Codex
    GEMINI = "gemini"  # the same except refusals: decision and reason
    COPILOT = "copilot"  # like CLAUDE, with the context also at the top level


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook event of a host: the host's name for it, the tools it applies to, and the timeout.

    `seconds` is far above memdir's own limit, because it includes starting the interpreter.
    """

    event: HookEvent
    name: str
    tools: str = ""
    seconds: int = 10


@dataclass(frozen=True, slots=True)
class Host:
    """A coding agent. `loads_index`: it shows the project's MEMORY.md to the model itself. `model`: the setting that uses its
    own program as the model.

    `folder` is its folder in the user's home. `hooks_files` and `servers_files` are its settings files for hooks and for MCP
    servers: the user's, below that folder, and a project's, below its root; "" if there is none. `servers_key` is the key of
    the servers, `rules_file` a project's file of rules. `instructions` is the file of a project that the host shows to the
    model, `reader` the module of `conversation/` that reads its transcripts, `transcripts` their folder in the user's home if
    it is not `folder`. If the file for hooks is a program, it is memdir's plugin (`interfaces/plugins/`), not settings.

    `unit` is the number of the host's time units per second. `shows_after` are the events after which it shows context
    to the model; if the session start is not among them, the index is added to the first prompt. If `can_ask`, a hook
    that runs before a tool can make the host ask the user.
    """

    key: str
    title: str
    hooks: tuple[Hook, ...] = ()
    style: ReplyStyle = ReplyStyle.CLAUDE
    folder: str = ""
    hooks_files: tuple[str, str] = ("", "")
    servers_files: tuple[str, str] = ("", "")
    servers_key: str = "mcpServers"
    rules_file: str = ""
    instructions: str = ""
    reader: str = ""
    transcripts: str = ""
    loads_index: bool = False
    unit: int = 1
    shows_after: frozenset[HookEvent] = frozenset(HookEvent) - {HookEvent.STOP, HookEvent.COMPACT, HookEvent.END}
    can_ask: bool = False
    aliases: Mapping[str, HookEvent] = field(default_factory=dict)
    model: str = ""


_OPENING = (Hook(HookEvent.START, "SessionStart"), Hook(HookEvent.PROMPT, "UserPromptSubmit"))
_CLOSING = (Hook(HookEvent.STOP, "Stop"), Hook(HookEvent.COMPACT, "PreCompact"), Hook(HookEvent.AGENT, "SubagentStart"))
CLAUDE_CODE = Host(
    "claude-code",
    "Claude Code",
    (
        *_OPENING,
        Hook(HookEvent.BEFORE_TOOL, "PreToolUse", tools="Write|Edit|MultiEdit|NotebookEdit|Bash|Read|Grep"),
        Hook(HookEvent.AFTER_TOOL, "PostToolUse"),
        Hook(HookEvent.TOOL_FAILURE, "PostToolUseFailure", tools="Bash"),
        *_CLOSING,
        Hook(HookEvent.END, "SessionEnd", seconds=5),
    ),
    folder=".claude",
    hooks_files=("settings.json", ".claude/settings.json"),
    instructions="CLAUDE.md",
    reader="claude",
    loads_index=True,
    can_ask=True,
    model="claude-cli",
)
CODEX = Host(
    "codex",
    "Codex CLI",
    (
        *_OPENING,
        Hook(HookEvent.BEFORE_TOOL, "PreToolUse", tools="Bash|apply_patch|Edit|Write"),
        Hook(HookEvent.AFTER_TOOL, "PostToolUse"),
        *_CLOSING,
        Hook(HookEvent.END, "SessionEnd", seconds=3),  # the host's maximum
    ),
    folder=".codex",
    hooks_files=("hooks.json", ".codex/hooks.json"),
    servers_files=("config.toml", ""),
    servers_key="mcp_servers",
    instructions="AGENTS.md",
    reader="codex",
    model="codex-cli",
)
GEMINI = Host(
    "gemini-cli",
    "Gemini CLI",
    (
        Hook(HookEvent.START, "SessionStart"),
        Hook(HookEvent.PROMPT, "BeforeAgent"),
        Hook(HookEvent.BEFORE_TOOL, "BeforeTool", tools="write_file|replace|run_shell_command"),
        Hook(HookEvent.AFTER_TOOL, "AfterTool"),
        Hook(HookEvent.STOP, "AfterAgent"),
        Hook(HookEvent.END, "SessionEnd", seconds=5),
    ),
    style=ReplyStyle.GEMINI,
    folder=".gemini",
    hooks_files=("settings.json", ".gemini/settings.json"),
    servers_files=("settings.json", ".gemini/settings.json"),
    instructions="GEMINI.md",
    reader="gemini",
    unit=1000,
    # Not at the start: `gemini -p` puts that context before the prompt, so it accepts no `/command` and loses the prompt
    # when the conversation is resumed.
    shows_after=frozenset((HookEvent.PROMPT, HookEvent.AFTER_TOOL)),
    # Not installed: Gemini sends it every turn, before it knows whether there is anything to compress.
    aliases={"precompress": HookEvent.COMPACT},
    model="gemini-cli",
)
# Copilot CLI and VS Code both run the hooks of this file, in Claude Code's form. Copilot CLI reads context after most events
# only at the top level of a reply.
COPILOT = Host(
    "copilot",
    "Copilot CLI and VS Code",
    (
        *_OPENING,
        Hook(HookEvent.BEFORE_TOOL, "PreToolUse"),  # it has no matchers
        Hook(HookEvent.AFTER_TOOL, "PostToolUse"),
        *_CLOSING,
        Hook(HookEvent.END, "SessionEnd", seconds=5),
    ),
    style=ReplyStyle.COPILOT,
    folder=".copilot",
    hooks_files=("hooks/memdir.json", ".github/hooks/memdir.json"),
    can_ask=True,
    servers_files=("", ".vscode/mcp.json"),
    servers_key="servers",
    instructions=".github/copilot-instructions.md",
    reader="copilot",
)
QWEN = Host(
    "qwen-code",
    "Qwen Code",
    (
        *_OPENING,
        Hook(
            HookEvent.BEFORE_TOOL,
            "PreToolUse",
            tools="write_file|edit|replace|notebook_edit|run_shell_command|read_file|grep_search",
        ),
        Hook(HookEvent.AFTER_TOOL, "PostToolUse"),
        Hook(HookEvent.TOOL_FAILURE, "PostToolUseFailure", tools="run_shell_command"),
        *_CLOSING,
    ),
    folder=".qwen",
    hooks_files=("settings.json", ".qwen/settings.json"),
    servers_files=("settings.json", ".qwen/settings.json"),
    instructions="QWEN.md",
    reader="qwen",
    unit=1000,
    # It drops context before a tool.
    shows_after=frozenset(
        (HookEvent.START, HookEvent.PROMPT, HookEvent.AFTER_TOOL, HookEvent.TOOL_FAILURE, HookEvent.AGENT)
    ),
)
_PLUGIN_EVENTS = (HookEvent.PROMPT, HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL, HookEvent.TOOL_FAILURE)
OPENCODE = Host(
    "opencode",
    "opencode",
    tuple(Hook(event, event.value) for event in (*_PLUGIN_EVENTS, HookEvent.STOP)),
    folder=".config/opencode",
    hooks_files=("plugins/memdir.js", ".opencode/plugins/memdir.js"),
    instructions="AGENTS.md",
    reader="opencode",
    transcripts=".local/share/opencode/memdir",
    shows_after=frozenset(_PLUGIN_EVENTS),
)
PI = Host(
    "pi",
    "pi",
    tuple(Hook(event, event.value) for event in (*_PLUGIN_EVENTS, HookEvent.COMPACT, HookEvent.STOP)),
    folder=".pi/agent",
    hooks_files=("extensions/memdir.ts", ".pi/extensions/memdir.ts"),
    instructions="AGENTS.md",
    reader="pi",
    shows_after=frozenset(_PLUGIN_EVENTS),
)
# No Cursor hook is known to show text to the model; a rule file and MCP do.
CURSOR = Host(
    "cursor",
    "Cursor",
    folder=".cursor",
    servers_files=("mcp.json", ".cursor/mcp.json"),
    rules_file=".cursor/rules/memdir.mdc",
    instructions=".cursorrules",
)

HOSTS: Mapping[str, Host] = {
    host.key: host for host in (CLAUDE_CODE, CODEX, GEMINI, QWEN, COPILOT, OPENCODE, PI, CURSOR)
}
_SPELLINGS = {host.key.partition("-")[0]: host for host in HOSTS.values()} | {"vscode": COPILOT, "code": COPILOT}
# Every conversation sends these; other events depend on what happens in it.
_REGULAR = (HookEvent.START, HookEvent.PROMPT, HookEvent.STOP)


def find_host(text: str) -> Host | None:
    """Return the host with that name, in any usual spelling."""
    return ({_plain(key): host for key, host in HOSTS.items()} | _SPELLINGS).get(_plain(text))


def find_event(text: str, host: Host) -> HookEvent | None:
    """Return the event with a name used by memdir, the host or Claude Code."""
    names = {_plain(event): event for event in HookEvent}
    for row in (CLAUDE_CODE, host):
        names |= {_plain(hook.name): hook.event for hook in row.hooks}
    return (names | dict(host.aliases)).get(_plain(text))


def find_name(event: HookEvent, host: Host) -> str:
    """Return the host's name for an event, or Claude Code's name if the host has none."""
    hooks = (*host.hooks, *CLAUDE_CODE.hooks)
    return next((hook.name for hook in hooks if hook.event is event), event.value)


def render_undecided(settings: Settings, hosts: Iterable[Host]) -> str:
    """Return a hint if the user has not set `model` and a host's program could be it, or ""."""
    host = next((host_option for host_option in hosts if host_option.model), None)
    if host is None or settings.sources["model"] != DEFAULT:
        return ""
    agreed, declined = f"`memdir config set model {host.model}`", "`memdir config set model none`"
    cost = f"{agreed} lets {host.title} do it, with one or two small requests per turn; {declined} hides this line"
    return f"memdir learns with built-in patterns only: {cost}"


def _plain(text: str) -> str:
    return "".join(char for char in text.lower() if "a" <= char <= "z")


# --- the record of what `install` changed -----------------------------------------------------------------------------
# A small JSON file in the user's state folder, so that `uninstall` can undo it exactly. Without it, `uninstall` still
# removes the entries, and only white space may differ.

FILE = "installed.json"


@dataclass(frozen=True, slots=True)
class InstallRow:
    """A row of the install record about a file. `splices` are the inserted texts, in order, each with its offset.

    `install` also created the JSON containers `made`, the `folders`, and with `created` the file itself.
    """

    host: str
    digest: str
    since: datetime
    splices: tuple[tuple[int, str], ...] = ()
    made: tuple[tuple[str, ...], ...] = ()
    created: bool = False
    folders: tuple[str, ...] = ()


def read_install_record(state_home: Path) -> dict[str, InstallRow]:
    """Return every file that `install` has changed, by path; an unreadable record counts as empty."""
    files = as_table(parse_json(read_small(state_home / FILE, _RECORD_BYTES).data or b"{}")).get("files")
    parsed = {path: _parse_row(row) for path, row in as_table(files).items()}
    return {path: entry for path, entry in parsed.items() if entry is not None}


def write_install_record(state_home: Path, entries: Mapping[str, InstallRow]) -> None:
    path = state_home / FILE
    if not entries:
        path.unlink(missing_ok=True)
        return
    files = {where: asdict(entry) | {"since": entry.since.isoformat()} for where, entry in sorted(entries.items())}
    write_private(path, json.dumps({"files": files}, indent=1).encode("ascii") + b"\n")


def _parse_row(row: Any) -> InstallRow | None:
    """Return a row as `write_install_record` wrote it, or None if it is damaged."""
    try:
        since = datetime.fromisoformat(row["since"])
        return InstallRow(
            str(row["host"]),
            str(row["digest"]),
            since if since.tzinfo else since.replace(tzinfo=UTC),
            tuple((int(offset), str(text)) for offset, text in row["splices"]),
            tuple(tuple(map(str, keys)) for keys in row["made"]),
            row["created"] is True,
            tuple(map(str, row["folders"])),
        )
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class InstalledHost:
    """A host with memdir's hooks in its settings, with the events, the time of installation and the file."""

    host: str
    events: tuple[str, ...]
    since: datetime
    path: Path


def find_folder(host: Host, environment: Environment) -> Path:
    # Variables of these hosts move their folders.
    moved = {".claude": environment.claude_home, ".codex": environment.codex_home, ".gemini": environment.gemini_home}
    return moved.get(host.folder, environment.home / host.folder)


def find_file(host: Host, names: tuple[str, str], environment: Environment, root: Path | None) -> Path | None:
    """Return a settings file of the user or, with `root`, of the project, or None if the host has no such file."""
    folder, name = (find_folder(host, environment), names[0]) if root is None else (root, names[1])
    return folder / name if name else None


def list_present(environment: Environment) -> tuple[Host, ...]:
    """Return the hosts that have a folder in the user's home directory."""
    folders = {host.key: [find_folder(host, environment)] for host in HOSTS.values()}
    folders[COPILOT.key].append(environment.home / ".vscode")
    return tuple(host for host in HOSTS.values() if any(folder.is_dir() for folder in folders[host.key]))


def find_installed(environment: Environment, root: Path | None = None) -> tuple[InstalledHost, ...]:
    """Return the hosts with memdir's hooks in the user's or the project's settings."""
    record = read_install_record(environment.state_home)
    installed = []
    for host in HOSTS.values():
        for place in dict.fromkeys((None, root)):
            path = find_file(host, host.hooks_files, environment, place)
            if not path or not (events := set(_list_hooks(path, host))):
                continue
            entry = record.get(str(path))
            since = entry.since if entry else datetime.fromtimestamp(path.stat().st_mtime, UTC)
            regular = tuple(event.value for event in _REGULAR if event in events)
            installed.append(InstalledHost(host.key, regular, since, path))
    return tuple(installed)


def _list_hooks(path: Path, host: Host) -> Iterator[HookEvent]:
    """Yield the events for which a settings file calls memdir."""
    text = (read_small(path, FILE_BYTES).data or b"").decode("utf-8", "replace").removeprefix("\ufeff")
    table = parse_json(text)
    # Some hosts allow comments, so any line that calls memdir counts.
    hooks = {"command": text} if table is None else as_table(table).get("hooks")
    for command in _list_commands(hooks):
        for match in OURS.finditer(command):
            if find_host(match[2]) is host and (event := find_event(match[1], host)):
                yield event


def _list_commands(value: object) -> Iterator[str]:
    """Yield every `command` at any depth, because hosts nest them differently."""
    if isinstance(value, dict) and isinstance(command := value.get("command"), str):
        yield command
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _list_commands(item)
