"""Where the hosts' own files are on this machine, which hosts are here, and which of them have our hooks.

It computes and reads. A file that cannot be read has no hooks of ours; `install` says what is wrong with it.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from memdir.frozen import dataclass
from memdir.hosts.record import read_record
from memdir.hosts.rows import CLAUDE_CODE, CODEX, CURSOR, GEMINI, HOSTS, VSCODE, Event, Host, find_event, find_host
from memdir.limits import FILE_BYTES
from memdir.settings import Environment
from memdir.small_files import read_small

# A hook of ours, however the program is spelled: a script, `python -m memdir`, `uvx memdir`, each quoted or not.
OURS = re.compile(r"(?:^|[\s\"'/\\])memdir[\"']?\s+hook\s+([\w-]+)\s+--host[\s=]+([\w-]+)")
# What every conversation of a host sends; others come only when something happens in it.
REGULAR = (Event.START, Event.PROMPT, Event.STOP)


@dataclass(frozen=True, slots=True)
class Installed:
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


def find_installed(environment: Environment, root: Path | None = None) -> tuple[Installed, ...]:
    """The hosts that have our hooks, in the person's own settings or in the project's."""
    record = read_record(environment.state_home)
    found = []
    for host in HOSTS.values():
        for path in (find_hooks_file(host, environment, None), root and find_hooks_file(host, environment, root)):
            events = set(list_hooks(path, host)) if path else set()
            if not path or not events:
                continue
            entry = record.get(str(path))
            since = entry.since if entry else datetime.fromtimestamp(path.stat().st_mtime, UTC)
            regular = tuple(at.value for at in REGULAR if at in events)
            found.append(Installed(host.key, regular, since, path))
    return tuple(found)


def list_hooks(path: Path, host: Host) -> Iterator[Event]:
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
