"""The coding agents memdir lives in.

    rows.py     what each of them is like        places.py   where their files are here, and which have our hooks
    record.py   what `install` put where

The names below are imported when somebody asks for them: the hook door needs the rows alone, and at every prompt.
"""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from importlib import import_module
from pathlib import Path

from memdir.files import read_small, write_private
from memdir.frozen import dataclass, field
from memdir.limits import FILE_BYTES
from memdir.project.settings import Environment

__all__ = [
    "HOSTS",
    "HookEvent",
    "Host",
    "InstalledHost",
    "find_host",
    "find_installed",
]


# --- hosts ---

_IN_PLACES = ("Installed", "find_installed")


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'places' if name in _IN_PLACES else 'rows'}"), name)


# --- rows ---
# One row a coding agent: what its hooks are called, which of them we want, and how it likes to be answered.
#
#     Event    what can happen in a conversation, as memdir names it; `memdir hook EVENT` takes these names
#     Hook     one event of one host: its own name there, which tools it is wanted for, how long the host shall wait
#     Host     the row
#
# All of it was read in the hosts' documentation or source. The rows of Claude Code, Codex and Gemini CLI were tried
# with
# the real clients, the others only against their documented forms.
#
# What it does not do: know where anything lies on this machine (places), or speak to a host (the hook door).


class HookEvent(StrEnum):
    START = "session-start"
    PROMPT = "user-prompt"
    BEFORE_TOOL = "before-tool"
    AFTER_TOOL = "after-tool"
    STOP = "stop"
    COMPACT = "before-compact"
    AGENT = "subagent-start"
    END = "session-end"


class ReplyStyle(StrEnum):
    """How an answer is spelled."""

    CLAUDE = "claude"  # hookSpecificOutput, permissionDecision; Codex and VS Code took it over
    GEMINI = "gemini"  # the same but for refusals: decision and reason


@dataclass(frozen=True, slots=True)
class Hook:
    """`seconds` is the host's patience, far above ours: it counts the start of the interpreter, too."""

    event: HookEvent
    name: str
    tools: str = ""
    seconds: int = 10
    is_async: bool = False


@dataclass(frozen=True, slots=True)
class Host:
    """`loads_index`: it puts the project's MEMORY.md before the model by itself. `learns`: we can read its transcripts.

    `unit` is how many of the host's units of time make a second. `told` are the events after which it puts context
    before the model; where the start of a session is not among them, the index goes with the first prompt.
    """

    key: str
    title: str
    hooks: tuple[Hook, ...] = ()
    style: ReplyStyle = ReplyStyle.CLAUDE
    loads_index: bool = False
    learns: bool = False
    unit: int = 1
    told: frozenset[HookEvent] = frozenset((HookEvent.START, HookEvent.PROMPT, HookEvent.BEFORE_TOOL, HookEvent.AGENT))
    aliases: Mapping[str, HookEvent] = field(default_factory=dict)


CLAUDE_CODE = Host(
    "claude-code",
    "Claude Code",
    (
        Hook(HookEvent.START, "SessionStart"),
        Hook(HookEvent.PROMPT, "UserPromptSubmit"),
        Hook(HookEvent.BEFORE_TOOL, "PreToolUse", tools="Write|Edit|MultiEdit|NotebookEdit|Bash"),
        # Nothing is answered there, so nobody need wait for it.
        Hook(HookEvent.AFTER_TOOL, "PostToolUse", tools="Read|Write|Edit|MultiEdit", is_async=True),
        Hook(HookEvent.STOP, "Stop"),
        Hook(HookEvent.COMPACT, "PreCompact"),
        Hook(HookEvent.AGENT, "SubagentStart"),
        Hook(HookEvent.END, "SessionEnd", seconds=5),
    ),
    loads_index=True,
    learns=True,
)
CODEX = Host(
    "codex",
    "Codex CLI",
    (
        Hook(HookEvent.START, "SessionStart"),
        Hook(HookEvent.PROMPT, "UserPromptSubmit"),
        Hook(HookEvent.BEFORE_TOOL, "PreToolUse", tools="Bash|apply_patch|Edit|Write"),
        Hook(HookEvent.STOP, "Stop"),
        Hook(HookEvent.COMPACT, "PreCompact"),
        Hook(HookEvent.AGENT, "SubagentStart"),
        Hook(HookEvent.END, "SessionEnd", seconds=3),  # more is cut to this
    ),
    learns=True,
)
GEMINI = Host(
    "gemini-cli",
    "Gemini CLI",
    (
        Hook(HookEvent.START, "SessionStart"),
        Hook(HookEvent.PROMPT, "BeforeAgent"),
        Hook(HookEvent.BEFORE_TOOL, "BeforeTool", tools="write_file|replace|run_shell_command"),
        Hook(HookEvent.AFTER_TOOL, "AfterTool", tools="read_file|write_file|replace"),
        Hook(HookEvent.STOP, "AfterAgent"),
        Hook(HookEvent.END, "SessionEnd", seconds=5),
    ),
    style=ReplyStyle.GEMINI,
    learns=True,
    unit=1000,
    # Not at the start: `gemini -p` puts that before the prompt itself, takes no `/command` there any more, and forgets
    # the prompt when the conversation is taken up again.
    told=frozenset((HookEvent.PROMPT,)),
    # Not asked for: it comes with every turn, before Gemini has looked whether there is anything to compress.
    aliases={"precompress": HookEvent.COMPACT},
)
VSCODE = Host(
    "vscode",
    "VS Code",
    (
        Hook(HookEvent.START, "SessionStart"),
        Hook(HookEvent.PROMPT, "UserPromptSubmit"),
        Hook(HookEvent.BEFORE_TOOL, "PreToolUse"),  # it has no matchers
        Hook(HookEvent.AFTER_TOOL, "PostToolUse"),
        Hook(HookEvent.AGENT, "SubagentStart"),
    ),
)
# No hook of Cursor's is known to put anything before the model: a rule file and MCP do.
CURSOR = Host("cursor", "Cursor")

HOSTS: Mapping[str, Host] = {host.key: host for host in (CLAUDE_CODE, CODEX, GEMINI, VSCODE, CURSOR)}
_SPELLINGS = {
    "claude": CLAUDE_CODE,
    "gemini": GEMINI,
    "code": VSCODE,
    "copilot": VSCODE,
}


def find_host(text: str) -> Host | None:
    """The host of that name, in any usual spelling."""
    plain = _plain(text)
    known = {_plain(key): host for key, host in HOSTS.items()} | _SPELLINGS
    return known.get(plain)


def find_event(text: str, host: Host) -> HookEvent | None:
    """The event of that name, ours or the host's own; Claude Code's names are understood everywhere."""
    plain = _plain(text)
    names = {_plain(event): event for event in HookEvent}
    for row in (CLAUDE_CODE, host):
        names |= {_plain(hook.name): hook.event for hook in row.hooks}
    return (names | dict(host.aliases)).get(plain)


def find_name(event: HookEvent, host: Host) -> str:
    """What the host calls an event; Claude Code's name where it has none of its own."""
    for row in (host, CLAUDE_CODE):
        for hook in row.hooks:
            if hook.event is event:
                return hook.name
    return event.value


def _plain(text: str) -> str:
    return "".join(char for char in text.lower() if "a" <= char <= "z")


# --- record ---
# What `install` put where: one small JSON file in the person's state folder, so that `uninstall` can undo it exactly.
#
# It holds our own insertions and a digest of each file as we left it, and nothing that anybody else wrote there.
# Without
# it `uninstall` still takes our entries out; only white space may differ then.

FILE = "installed.json"
_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class InstallRow:
    """One file of a host as we left it: `splices` are the texts put in, one after the other, each with its place.

    `made` are containers that were not there before, `folders` likewise; `created`: the file itself is ours.
    """

    host: str
    digest: str
    since: datetime
    splices: tuple[tuple[int, str], ...] = ()
    made: tuple[tuple[str, ...], ...] = ()
    created: bool = False
    folders: tuple[str, ...] = ()


def read_install_record(state_home: Path) -> dict[str, InstallRow]:
    """Every file we have changed, by its path; what cannot be read counts as not there."""
    try:
        table = json.loads(read_small(state_home / FILE, _BYTES).data or b"{}")
    except (ValueError, RecursionError):
        return {}
    files = table.get("files") if isinstance(table, dict) else None
    rows = files.items() if isinstance(files, dict) else ()
    found = {path: _parse_entry(row) for path, row in rows if isinstance(row, dict)}
    return {path: entry for path, entry in found.items() if entry is not None}


def write_install_record(state_home: Path, entries: Mapping[str, InstallRow]) -> None:
    """Keep the record; an empty one is removed."""
    path = state_home / FILE
    if not entries:
        path.unlink(missing_ok=True)
        return
    files = {
        where: {
            "host": at.host,
            "digest": at.digest,
            "since": at.since.isoformat(),
            "splices": [list(splice) for splice in at.splices],
            "made": [list(keys) for keys in at.made],
            "created": at.created,
            "folders": list(at.folders),
        }
        for where, at in sorted(entries.items())
    }
    write_private(path, json.dumps({"files": files}, indent=1).encode("ascii") + b"\n")


def _parse_entry(row: Mapping[str, object]) -> InstallRow | None:
    host, digest, since = row.get("host"), row.get("digest"), row.get("since")
    try:
        began = datetime.fromisoformat(str(since))
    except ValueError:
        return None
    if not isinstance(host, str) or not isinstance(digest, str):
        return None
    splices = [at for at in _list(row.get("splices")) if isinstance(at, list) and len(at) == 2]
    return InstallRow(
        host,
        digest,
        began if began.tzinfo else began.replace(tzinfo=UTC),
        tuple((int(at), str(text)) for at, text in splices if isinstance(at, int)),
        tuple(tuple(map(str, keys)) for keys in _list(row.get("made")) if isinstance(keys, list)),
        row.get("created") is True,
        tuple(at for at in _list(row.get("folders")) if isinstance(at, str)),
    )


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


# --- places ---
# Where the hosts' own files are on this machine, which hosts are here, and which of them have our hooks.
#
# It computes and reads. A file that cannot be read has no hooks of ours; `install` says what is wrong with it.

# A hook of ours, however the program is spelled: a script, `python -m memdir`, `uvx memdir`, each quoted or not.
OURS = re.compile(r"(?:^|[\s\"'/\\])memdir[\"']?\s+hook\s+([\w-]+)\s+--host[\s=]+([\w-]+)")
# What every conversation of a host sends; others come only when something happens in it.
REGULAR = (HookEvent.START, HookEvent.PROMPT, HookEvent.STOP)


@dataclass(frozen=True, slots=True)
class InstalledHost:
    """A host whose settings hold our hooks: which regular events they are for, since when, and in which file."""

    host: str
    events: tuple[str, ...]
    since: datetime
    path: Path


def find_folder(host: Host, environment: Environment) -> Path:
    """The host's folder in the person's home."""
    home = environment.home
    folders = {
        CLAUDE_CODE.key: environment.claude_home,
        CODEX.key: environment.codex_home,
        GEMINI.key: environment.gemini_home,
        VSCODE.key: home / ".copilot",
        CURSOR.key: home / ".cursor",
    }
    return folders[host.key]


def find_hooks_file(host: Host, environment: Environment, root: Path | None) -> Path | None:
    """The settings file that holds hooks: the person's, or with a `root` the project's; None for a host without any."""
    folder = find_folder(host, environment)
    files = {
        CLAUDE_CODE.key: (folder / "settings.json", ".claude/settings.json"),
        CODEX.key: (folder / "hooks.json", ".codex/hooks.json"),
        GEMINI.key: (folder / "settings.json", ".gemini/settings.json"),
        VSCODE.key: (folder / "hooks" / "memdir.json", ".github/hooks/memdir.json"),
    }
    if host.key not in files:
        return None
    own, shared = files[host.key]
    return own if root is None else root / shared


def list_present(environment: Environment) -> tuple[Host, ...]:
    """The hosts that have been used on this machine: they have left a folder."""
    extra = {VSCODE.key: environment.home / ".vscode"}
    return tuple(
        host
        for host in HOSTS.values()
        if find_folder(host, environment).is_dir() or (host.key in extra and extra[host.key].is_dir())
    )


def find_installed(environment: Environment, root: Path | None = None) -> tuple[InstalledHost, ...]:
    """The hosts that have our hooks, in the person's own settings or in the project's."""
    record = read_install_record(environment.state_home)
    found = []
    for host in HOSTS.values():
        for path in (find_hooks_file(host, environment, None), root and find_hooks_file(host, environment, root)):
            events = set(list_hooks(path, host)) if path else set()
            if not path or not events:
                continue
            entry = record.get(str(path))
            since = entry.since if entry else datetime.fromtimestamp(path.stat().st_mtime, UTC)
            regular = tuple(at.value for at in REGULAR if at in events)
            found.append(InstalledHost(host.key, regular, since, path))
    return tuple(found)


def list_hooks(path: Path, host: Host) -> Iterator[HookEvent]:
    """The events of a host for which a settings file calls us."""
    text = (read_small(path, FILE_BYTES).data or b"").decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        table = json.loads(text or "{}")
        hooks = table.get("hooks") if isinstance(table, dict) else None
    except (ValueError, RecursionError):
        hooks = {"command": text}  # some hosts allow comments: then any line that calls us counts
    for command in _list_commands(hooks):
        for match in OURS.finditer(command):
            if find_host(match[2]) is host and (event := find_event(match[1], host)):
                yield event


def _list_commands(value: object) -> Iterator[str]:
    """Every `command` at any depth: hosts nest them differently."""
    if isinstance(value, dict):
        if isinstance(command := value.get("command"), str):
            yield command
        for at in value.values():
            yield from _list_commands(at)
    elif isinstance(value, list):
        for at in value:
            yield from _list_commands(at)
