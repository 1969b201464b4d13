"""The coding agents that memdir works in: their hooks, where their files are, and what `install` put there.

The rows were read in the hosts' documentation or source. Those of Claude Code, Codex and Gemini CLI were tried with the
real clients, the others only against their documented forms.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from memdir.files import read_small, write_private
from memdir.frozen import asdict, compile_late, dataclass, field
from memdir.limits import FILE_BYTES
from memdir.project.settings import DEFAULT, Environment, Settings

_RECORD_BYTES = 1_048_576
# A hook of memdir's, however the program is spelled: a script, `python -m memdir`, `uvx memdir`, each quoted or not.
OURS = compile_late(r"(?:^|[\s\"'/\\])memdir[\"']?\s+hook\s+([\w-]+)\s+--host[\s=]+([\w-]+)")


class HookEvent(StrEnum):
    """Events in a conversation, under memdir's names; `memdir hook EVENT` takes them."""

    START = "session-start"
    PROMPT = "user-prompt"
    BEFORE_TOOL = "before-tool"
    AFTER_TOOL = "after-tool"
    STOP = "stop"
    COMPACT = "before-compact"
    AGENT = "subagent-start"
    END = "session-end"


class ReplyStyle(StrEnum):
    CLAUDE = "claude"  # hookSpecificOutput, permissionDecision; also Codex and VS Code
    GEMINI = "gemini"  # the same but for refusals: decision and reason


@dataclass(frozen=True, slots=True)
class Hook:
    """One event of one host: its name there, the tools it is for, and how long the host waits. `seconds` is far
    above memdir's own limit, because it includes the start of the interpreter."""

    event: HookEvent
    name: str
    tools: str = ""
    seconds: int = 10


@dataclass(frozen=True, slots=True)
class Host:
    """`loads_index`: it shows the project's MEMORY.md to the model itself. `learns`: its transcripts can be read. `model` is
    its own program as a model.

    `unit` is how many of the host's units of time make a second. `shows_after` are the events after which it shows context to
    the model; if the start of a session is not among them, the index goes with the first prompt.
    """

    key: str
    title: str
    hooks: tuple[Hook, ...] = ()
    style: ReplyStyle = ReplyStyle.CLAUDE
    loads_index: bool = False
    learns: bool = False
    unit: int = 1
    shows_after: frozenset[HookEvent] = frozenset(
        (HookEvent.START, HookEvent.PROMPT, HookEvent.BEFORE_TOOL, HookEvent.AFTER_TOOL, HookEvent.AGENT)
    )
    aliases: Mapping[str, HookEvent] = field(default_factory=dict)
    model: str = ""


_OPENING = (Hook(HookEvent.START, "SessionStart"), Hook(HookEvent.PROMPT, "UserPromptSubmit"))
_CLOSING = (Hook(HookEvent.STOP, "Stop"), Hook(HookEvent.COMPACT, "PreCompact"), Hook(HookEvent.AGENT, "SubagentStart"))
CLAUDE_CODE = Host(
    "claude-code",
    "Claude Code",
    (
        *_OPENING,
        Hook(HookEvent.BEFORE_TOOL, "PreToolUse", tools="Write|Edit|MultiEdit|NotebookEdit|Bash"),
        Hook(HookEvent.AFTER_TOOL, "PostToolUse"),
        *_CLOSING,
        Hook(HookEvent.END, "SessionEnd", seconds=5),
    ),
    loads_index=True,
    learns=True,
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
        Hook(HookEvent.END, "SessionEnd", seconds=3),  # more is cut to this
    ),
    learns=True,
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
    learns=True,
    unit=1000,
    # Not at the start: `gemini -p` puts that before the prompt, then accepts no `/command`, and forgets the prompt when
    # the conversation is resumed.
    shows_after=frozenset((HookEvent.PROMPT, HookEvent.AFTER_TOOL)),
    # Not installed: it comes with every turn, before Gemini knows whether there is anything to compress.
    aliases={"precompress": HookEvent.COMPACT},
    model="gemini-cli",
)
VSCODE = Host(
    "vscode",
    "VS Code",
    (
        *_OPENING,
        Hook(HookEvent.BEFORE_TOOL, "PreToolUse"),  # it has no matchers
        Hook(HookEvent.AFTER_TOOL, "PostToolUse"),
        Hook(HookEvent.AGENT, "SubagentStart"),
    ),
)
# No hook of Cursor's is known to show anything to the model: a rule file and MCP do.
CURSOR = Host("cursor", "Cursor")

HOSTS: Mapping[str, Host] = {host.key: host for host in (CLAUDE_CODE, CODEX, GEMINI, VSCODE, CURSOR)}
_SPELLINGS = {"claude": CLAUDE_CODE, "gemini": GEMINI, "code": VSCODE, "copilot": VSCODE}
# What every conversation of a host sends; others come only when something happens in it.
_REGULAR = (HookEvent.START, HookEvent.PROMPT, HookEvent.STOP)
# The settings file that holds hooks: in the host's folder in the person's home, and in a project.
_FILES = {
    CLAUDE_CODE.key: ("settings.json", ".claude/settings.json"),
    CODEX.key: ("hooks.json", ".codex/hooks.json"),
    GEMINI.key: ("settings.json", ".gemini/settings.json"),
    VSCODE.key: ("hooks/memdir.json", ".github/hooks/memdir.json"),
}


def find_host(text: str) -> Host | None:
    """Returns the host of that name, in any usual spelling."""
    return ({_plain(key): host for key, host in HOSTS.items()} | _SPELLINGS).get(_plain(text))


def find_event(text: str, host: Host) -> HookEvent | None:
    """Returns the event of that name, memdir's or the host's own; Claude Code's names are accepted everywhere."""
    names = {_plain(event): event for event in HookEvent}
    for row in (CLAUDE_CODE, host):
        names |= {_plain(hook.name): hook.event for hook in row.hooks}
    return (names | dict(host.aliases)).get(_plain(text))


def find_name(event: HookEvent, host: Host) -> str:
    """Returns what the host calls an event; Claude Code's name where it has none of its own."""
    hooks = (*host.hooks, *CLAUDE_CODE.hooks)
    return next((hook.name for hook in hooks if hook.event is event), event.value)


def render_undecided(settings: Settings, hosts: Iterable[Host]) -> str:
    """Return one line for a user who has not decided about a model; empty if decided, or no host's program is one."""
    host = next((host_option for host_option in hosts if host_option.model), None)
    if host is None or settings.sources["model"] != DEFAULT:
        return ""
    agreed, declined = f"`memdir config set model {host.model}`", "`memdir config set model none`"
    cost = f"{agreed} lets {host.title} do it, for a small request or two a turn; {declined} ends this line"
    return f"memdir learns by built-in patterns alone: {cost}"


def _plain(text: str) -> str:
    return "".join(char for char in text.lower() if "a" <= char <= "z")


# --- what `install` put where ---------------------------------------------------------------------------------------
# One small JSON file in the person's state folder, so that `uninstall` can undo it exactly; without it `uninstall` still
# removes the entries, and only white space may differ.

FILE = "installed.json"


@dataclass(frozen=True, slots=True)
class InstallRow:
    """One file of a host as `install` left it: `splices` are the texts put in, in order, each with its offset.
    `made` are containers that were not there before, `folders` likewise; `created`: so was the file itself."""

    host: str
    digest: str
    since: datetime
    splices: tuple[tuple[int, str], ...] = ()
    made: tuple[tuple[str, ...], ...] = ()
    created: bool = False
    folders: tuple[str, ...] = ()


def read_install_record(state_home: Path) -> dict[str, InstallRow]:
    """Return every file that `install` has changed, by its path; a record that cannot be read counts as none."""
    try:
        table = json.loads(read_small(state_home / FILE, _RECORD_BYTES).data or b"{}")
    except (ValueError, RecursionError):
        return {}
    files = table.get("files") if isinstance(table, dict) else None
    rows = files.items() if isinstance(files, dict) else ()
    parsed = {path: _parse_row(row) for path, row in rows if isinstance(row, dict)}
    return {path: entry for path, entry in parsed.items() if entry is not None}


def write_install_record(state_home: Path, entries: Mapping[str, InstallRow]) -> None:
    """Write the record; an empty one is removed."""
    path = state_home / FILE
    if not entries:
        path.unlink(missing_ok=True)
        return
    files = {where: asdict(entry) | {"since": entry.since.isoformat()} for where, entry in sorted(entries.items())}
    write_private(path, json.dumps({"files": files}, indent=1).encode("ascii") + b"\n")


def _parse_row(row: Mapping[str, object]) -> InstallRow | None:
    host, digest = row.get("host"), row.get("digest")
    try:
        began = datetime.fromisoformat(str(row.get("since")))
    except ValueError:
        return None
    if not isinstance(host, str) or not isinstance(digest, str):
        return None
    splices = [pair for pair in _list(row.get("splices")) if isinstance(pair, list) and len(pair) == 2]
    return InstallRow(
        host,
        digest,
        began if began.tzinfo else began.replace(tzinfo=UTC),
        tuple((int(offset), str(text)) for offset, text in splices if isinstance(offset, int)),
        tuple(tuple(map(str, keys)) for keys in _list(row.get("made")) if isinstance(keys, list)),
        row.get("created") is True,
        tuple(folder for folder in _list(row.get("folders")) if isinstance(folder, str)),
    )


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class InstalledHost:
    """A host whose settings hold memdir's hooks: for which regular events, since when, and in which file."""

    host: str
    events: tuple[str, ...]
    since: datetime
    path: Path


def find_folder(host: Host, environment: Environment) -> Path:
    folders = {
        CLAUDE_CODE.key: environment.claude_home,
        CODEX.key: environment.codex_home,
        GEMINI.key: environment.gemini_home,
        VSCODE.key: environment.home / ".copilot",
        CURSOR.key: environment.home / ".cursor",
    }
    return folders[host.key]


def find_hooks_file(host: Host, environment: Environment, root: Path | None) -> Path | None:
    """Returns the settings file that holds hooks, the person's or with a `root` the project's; None if it has none."""
    if host.key not in _FILES:
        return None
    own, shared = _FILES[host.key]
    return find_folder(host, environment) / own if root is None else root / shared


def list_present(environment: Environment) -> tuple[Host, ...]:
    """Returns the hosts that have been used on this machine: those with a folder in the home."""
    folders = {host.key: [find_folder(host, environment)] for host in HOSTS.values()}
    folders[VSCODE.key].append(environment.home / ".vscode")
    return tuple(host for host in HOSTS.values() if any(folder.is_dir() for folder in folders[host.key]))


def find_installed(environment: Environment, root: Path | None = None) -> tuple[InstalledHost, ...]:
    """Return the hosts that have memdir's hooks, in the user's own settings or in the project's."""
    record = read_install_record(environment.state_home)
    installed = []
    for host in HOSTS.values():
        for path in (find_hooks_file(host, environment, None), root and find_hooks_file(host, environment, root)):
            events = set(_list_hooks(path, host)) if path else set()
            if not path or not events:
                continue
            entry = record.get(str(path))
            since = entry.since if entry else datetime.fromtimestamp(path.stat().st_mtime, UTC)
            regular = tuple(event.value for event in _REGULAR if event in events)
            installed.append(InstalledHost(host.key, regular, since, path))
    return tuple(installed)


def _list_hooks(path: Path, host: Host) -> Iterator[HookEvent]:
    """The events of a host for which a settings file calls memdir; none if it cannot be read."""
    text = (read_small(path, FILE_BYTES).data or b"").decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        table = json.loads(text or "{}")
        hooks = table.get("hooks") if isinstance(table, dict) else None
    except (ValueError, RecursionError):
        hooks = {"command": text}  # some hosts allow comments: then any line that calls memdir counts
    for command in _list_commands(hooks):
        for match in OURS.finditer(command):
            if find_host(match[2]) is host and (event := find_event(match[1], host)):
                yield event


def _list_commands(value: object) -> Iterator[str]:
    """Every `command` at any depth: hosts nest them differently."""
    if isinstance(value, dict) and isinstance(command := value.get("command"), str):
        yield command
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _list_commands(item)
