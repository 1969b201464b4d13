"""Add our entries to the hosts' settings files, show them, and remove them.

`list_files` returns the entries for each host's files, `plan_install` and `plan_uninstall` compute the changes, and
`apply_changes` writes them. A file is replaced atomically, keeps its mode, and is only written if it has not changed since
it was read. Install and uninstall together restore every byte. If a file was edited in between, only our entries are
removed, recognised by the command they run. A server named like ours that runs another command is not changed. Links in
the user's home are followed, as hosts do; links in a project are refused, because they came with a clone.

`python -m memdir.interfaces.install plugin` writes `plugin/` in the repository.
"""

import hashlib
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from memdir import __version__
from memdir.errors import ConflictError, FormatError, PathError
from memdir.files import hold, make_private_dirs, raise_disk_errors, read_small
from memdir.frozen import dataclass, field
from memdir.interfaces import json_edit
from memdir.interfaces.json_edit import (
    JsonNode,
    TextSplice,
    cut_child,
    cut_own_table,
    insert_child,
    parse_json_text,
    parse_toml_text,
)
from memdir.limits import FILE_BYTES, LOCK_SECONDS
from memdir.models.prompts import render_prompt
from memdir.project import hosts as known
from memdir.project.hosts import COPILOT, GEMINI, Hook, Host, InstallRow, read_install_record
from memdir.project.settings import Environment

NAME = "memdir"
_EMPTY = "{}\n"
# Files in cache folders may be deleted at any time.
_CACHE = re.compile(
    r"[/\\](?:\.cache|Caches|cache)[/\\](?:uv|pipx)[/\\]|[/\\](?:archive|builds|environments)-v\d+[/\\]"
    r"|[/\\]pipx[/\\]\.cache[/\\]"
)


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """The command line with which a host calls memdir, without the subcommand. `note` is shown to the user.

    A shared command, for committed files, uses the bare program name and does nothing if memdir is not installed.
    """

    words: tuple[str, ...]
    note: str = ""
    is_shared: bool = False

    def render(self, *arguments: str) -> str:
        line = shlex.join((*self.words, *arguments))
        return f"command -v {NAME} >/dev/null 2>&1 && {line} || true" if self.is_shared else line


SHARED = OwnCommand((NAME,), is_shared=True)


def find_program(script: str, executable: str, which: Callable[[str], str | None]) -> OwnCommand:
    """Return the command for the user's own settings; `script` is the path this process was started with.

    An installed script gets its full path, because graphical programs have a different PATH. If memdir runs from a
    cache (uvx, pipx run), returns another installation or `uvx`; for `python -m memdir`, the same interpreter, without
    the current directory.
    """
    here = os.path.abspath(script) if script else ""
    if os.path.basename(here) == NAME and os.access(here, os.X_OK) and not _CACHE.search(os.path.realpath(here)):
        return OwnCommand((here,))
    if not (_CACHE.search(os.path.realpath(here)) or _CACHE.search(executable)):
        return OwnCommand((executable, "-P", "-m", NAME))
    installed = which(NAME)
    if installed and not _CACHE.search(os.path.realpath(installed)):
        return OwnCommand((os.path.abspath(installed),))
    note = "memdir runs from a cache; `uv tool install memdir` or `pipx install memdir` makes its hooks start faster"
    return OwnCommand((which("uvx") or "uvx", NAME), note)


@dataclass(frozen=True, slots=True)
class HostFile:
    """Our part of a host's file: all of it (`text`), or entries in a JSON or TOML file shared with others.

    `hooks` maps event names to our groups; `servers` maps keys to our servers.
    """

    path: Path
    hooks: Mapping[str, Any] = field(default_factory=dict)
    servers: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    @property
    def is_toml(self) -> bool:
        return self.path.suffix == ".toml"


def make_group(host: Host, hook: Hook, program: OwnCommand) -> dict[str, Any]:
    """Return a hook in the format of the host's settings."""
    command = program.render("hook", hook.event.value, "--host", host.key)
    handler: dict[str, Any] = {"type": "command", "command": command, "timeout": hook.seconds * host.unit}
    if host is GEMINI:
        handler = {"name": f"{NAME}-{hook.event.value}", **handler}
    if host is COPILOT:
        return handler
    return {"matcher": hook.tools, "hooks": [handler]} if hook.tools else {"hooks": [handler]}


def list_files(
    host: Host, environment: Environment, program: OwnCommand, *, root: Path | None = None, has_mcp: bool = True
) -> Iterator[HostFile]:
    """Yield the files for one host, in the user's own settings or, given a `root`, in the project's."""
    path = known.find_file(host, host.hooks_files, environment, root)
    hooks = {hook.name: make_group(host, hook, program) for hook in host.hooks}
    # A host without hooks calls memdir only over MCP.
    servers_path = known.find_file(host, host.servers_files, environment, root) if has_mcp or not hooks else None
    servers = {host.servers_key: ({"type": "stdio"} if host is COPILOT else {}) | _make_server(program)}
    if path and path.suffix in (".js", ".ts"):
        yield HostFile(path, text=_render_plugin(path.suffix, host, program))
    elif path:
        yield HostFile(path, hooks, servers if servers_path == path else {})
    if servers_path and servers_path != path:
        yield HostFile(servers_path, servers=servers)
    if root is not None and host.rules_file:
        yield HostFile(root / host.rules_file, text=render_prompt(f"hooks/{host.key}") + "\n")


def _make_server(program: OwnCommand) -> dict[str, Any]:
    command, *arguments = (*program.words, "mcp")
    return {"command": command, "args": arguments}


def _render_plugin(suffix: str, host: Host, program: OwnCommand) -> str:
    text = (Path(__file__).parent / "plugins" / f"{host.key}{suffix}").read_text(encoding="utf-8")
    return text.replace("{{command}}", json.dumps(program.words))


_HOOKS = "hooks"
_THEIRS = object()
Keys = tuple[str | int, ...]
Containers = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class AddedEntries:
    """A settings text with our entries added, the insertions in order, and the tables and lists created for them."""

    text: str
    splices: tuple[TextSplice, ...] = ()
    made: Containers = ()
    notes: tuple[str, ...] = ()


def _add_entries(part: HostFile, text: str | None) -> AddedEntries:
    """Add our entries to a text (None if there is no file); raises FormatError if it cannot be edited."""
    if part.text:
        if text not in (None, part.text) and NAME not in str(text):
            raise FormatError("this file was not created by memdir", field="file")
        return AddedEntries(part.text, (TextSplice(0, part.text),))
    table = _parse(part, text or "").value
    if not isinstance(table, dict):
        raise FormatError("its top level is not a table", field="json")
    theirs = [key for key in part.servers if _find_server(table, key) is _THEIRS]
    notes = tuple(f"{part.path} has another server named {NAME!r}, which is not changed" for _ in theirs)
    servers = {key: server for key, server in part.servers.items() if key not in theirs}
    splices: list[TextSplice] = []
    made: list[tuple[str, ...]] = []

    def put(splice: TextSplice) -> str:
        splices.append(splice)
        return splice.apply(text or "")

    if part.is_toml:
        for key, server in servers.items():
            # For paths, a JSON string is also a valid TOML string.
            lines = "".join(f"\n{name} = {json.dumps(value)}" for name, value in server.items())
            text = put(json_edit.append_table(text or "", f"[{key}.{NAME}]{lines}"))
            try:
                parse_toml_text(text)
            except FormatError:
                raise FormatError(f"its table {key} cannot be extended", field=key) from None
        return AddedEntries(text or "", tuple(splices), notes=notes)
    if text is None:
        text = _EMPTY
    elif not text.strip():
        text = put(TextSplice(len(text), _EMPTY))
    containers: list[tuple[str, ...]] = [(_HOOKS,)] if part.hooks else []
    for keys in [*containers, *((_HOOKS, name) for name in part.hooks), *((key,) for key in part.servers)]:
        kind = "table" if len(keys) == 1 else "list"
        parent = _find_node(parse_json_text(text), keys[:-1])
        if (container := parent.find(keys[-1])) is None:
            made.append(keys)
            text = put(insert_child(text, parent, keys[-1], {} if kind == "table" else []))
        elif container.kind != kind:
            raise FormatError(f"its {'.'.join(keys)} is not a {kind}", field=".".join(keys))
    for name, group in part.hooks.items():
        text = put(insert_child(text, _find_node(parse_json_text(text), (_HOOKS, name)), None, group))
    for key, server in servers.items():
        text = put(insert_child(text, _find_node(parse_json_text(text), (key,)), NAME, server))
    return AddedEntries(text, tuple(splices), tuple(made), notes)


def _is_installed(part: HostFile, text: str) -> bool:
    """Return whether all our entries are present and up to date."""
    if part.text:
        return text == part.text
    table = _parse(part, text).value
    hooks = table.get(_HOOKS) if isinstance(table, dict) else None
    groups = {name: rows for name, rows in hooks.items() if isinstance(rows, list)} if isinstance(hooks, dict) else {}
    ours = [group for rows in groups.values() for group in rows if _is_ours(group)]
    if len(ours) != len(part.hooks) or any(group not in groups.get(name, ()) for name, group in part.hooks.items()):
        return False
    return all(_find_server(table, key) == server for key, server in part.servers.items())


def _remove_entries(part: HostFile, text: str, made: Containers | None) -> str | None:
    """Return the text without our entries, or None if the entire file is ours.

    `made` lists the containers that we created; if it is None, every empty container around our entries counts as ours.
    """
    if part.text:
        return None
    if part.is_toml:
        table = parse_toml_text(text)
        return text if any(_find_server(table, key) is _THEIRS for key in part.servers) else cut_own_table(text)
    if not text.strip():
        return text
    around: set[tuple[str, ...]] = set()
    while (entry := next(_list_ours(part, parse_json_text(text)), None)) is not None:
        keys, number = entry
        text = cut_child(text, _find_node(parse_json_text(text), keys), number)
        around |= {tuple(map(str, path)) for path in (keys, keys[:1]) if len(keys) <= 2}
    for names in sorted(around, key=len, reverse=True):
        if made is None or names in made:
            parent = _find_node(parse_json_text(text), names[:-1])
            if (empty := parent.find(names[-1])) is not None and not empty.children:
                text = cut_child(text, parent, parent.find_number(names[-1]))
    return text


def _parse(part: HostFile, text: str) -> JsonNode:
    if part.is_toml:
        return JsonNode("table", 0, len(text), parse_toml_text(text))
    return parse_json_text(text if text.strip() else _EMPTY)


def _find_node(node: JsonNode, keys: Keys) -> JsonNode:
    for key in keys:
        child = node.children[key] if isinstance(key, int) else node.find(key)
        if child is None:
            raise FormatError(f"it has no {key}", field=str(key))
        node = child
    return node


def _list_ours(part: HostFile, root: JsonNode) -> Iterator[tuple[Keys, int]]:
    """Yield each of our entries as the keys of its table or list and its position inside."""
    hooks = root.find(_HOOKS)
    for name in dict.fromkeys(hooks.keys) if hooks else ():
        groups = hooks.find(name) if hooks else None
        for number, group in enumerate(groups.children if groups and groups.kind == "list" else ()):
            if _is_ours(group.value):
                yield (_HOOKS, name), number
            # The user may have added a hook to our group.
            handlers = group.find(_HOOKS)
            for position, handler in enumerate(handlers.children if handlers else ()):
                if _is_ours(handler.value):
                    yield (_HOOKS, name, number, _HOOKS), position
    for key in part.servers:
        servers = root.find(key)
        if servers and _find_server(root.value, key) not in (None, _THEIRS):
            yield (key,), servers.find_number(NAME)


def _is_ours(group: object) -> bool:
    if not isinstance(group, dict):
        return False
    handlers = group.get(_HOOKS)
    rows = handlers if isinstance(handlers, list) else [group]
    commands = [row.get("command") for row in rows if isinstance(row, dict)]
    return bool(commands) and all(isinstance(command, str) and known.OURS.search(command) for command in commands)


def _find_server(table: object, key: str) -> object:
    """Return our MCP server in a settings table, None if our name is unused, or _THEIRS if another program uses it."""
    servers = table.get(key) if isinstance(table, dict) else None
    if not isinstance(servers, dict) or NAME not in servers:
        return None
    row = servers[NAME] if isinstance(servers[NAME], dict) else {}
    words = [row.get("command"), *(row["args"] if isinstance(row.get("args"), list) else ())]
    return row if words[-1:] == ["mcp"] and any(str(word).endswith(NAME) for word in words) else _THEIRS


@dataclass(frozen=True, slots=True)
class InstallChange:
    """A file's content before and after (None: no file). `entry` is its row in the install record, if any."""

    host: str
    path: Path
    before: bytes | None
    after: bytes | None
    entry: InstallRow | None = None
    notes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    parts: str = ""

    @property
    def summary(self) -> str:
        """Say what this change does in a few words, such as "adds 9 hooks"."""
        return (
            {"changed": "adds ", "created": "created with "}.get(self.what, "") + self.parts
            if self.parts
            else self.what
        )

    @property
    def what(self) -> str:
        if self.before == self.after:
            return "unchanged"
        return "created" if self.before is None else "removed" if self.after is None else "changed"


def plan_install(
    hosts: Iterable[Host], environment: Environment, program: OwnCommand, *, now: datetime, root: Path | None = None,
    has_mcp: bool = True,
) -> tuple[InstallChange, ...]:  # fmt: skip
    """Return the changes that connect these hosts; raises FormatError if a file cannot be edited."""
    record = read_install_record(environment.state_home)
    changes = []
    for host in hosts:
        for part in list_files(host, environment, program, root=root, has_mcp=has_mcp):
            with _read(part.path, root) as text:
                changes.append(_plan_add(host, part, text, record.get(str(part.path)), now))
    return tuple(changes)


def plan_uninstall(
    hosts: Iterable[Host], environment: Environment, program: OwnCommand, *, root: Path | None = None
) -> tuple[InstallChange, ...]:
    record = read_install_record(environment.state_home)
    changes = []
    for host in hosts:
        for part in list_files(host, environment, program, root=root):
            with _read(part.path, root) as text:
                if text is not None:
                    changes.append(_plan_removal(host, part, text, record.get(str(part.path))))
    return tuple(changes)


def apply_changes(changes: Iterable[InstallChange], environment: Environment) -> None:
    """Write the changes and the install record under a lock."""
    chosen = tuple(changes)
    if all(change.what == "unchanged" and change.entry is None for change in chosen):
        return
    with raise_disk_errors(environment.state_home):
        make_private_dirs(environment.state_home)
        folder = os.open(environment.state_home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with hold(folder, "install.lock", seconds=LOCK_SECONDS):
            for change in chosen:
                # Write the record first: if that fails, the host's file is not changed.
                if change.entry is not None:
                    _update_record(change, environment)
                if change.what != "unchanged":
                    _write(change)
                if change.entry is None:
                    _update_record(change, environment)
    finally:
        os.close(folder)


def _update_record(change: InstallChange, environment: Environment) -> None:
    record = read_install_record(environment.state_home)
    rows = {path: entry for path, entry in record.items() if path != str(change.path)}
    if change.entry is not None:
        rows[str(change.path)] = change.entry
    if rows != record:
        known.write_install_record(environment.state_home, rows)


def _plan_add(host: Host, part: HostFile, text: str | None, entry: InstallRow | None, now: datetime) -> InstallChange:
    before = _encode(text)
    if text is not None and text.strip() and _is_installed(part, text):
        return InstallChange(host.key, part.path, before, before, entry)
    bare = None if text is None else _restore_text(part, text, entry)
    added = _add_entries(part, bare)
    after = added.text.encode("utf-8")
    if not added.splices or after == before:
        return InstallChange(host.key, part.path, before, before, entry, added.notes)
    created = bare is None
    missing = tuple(str(parent) for parent in part.path.parents if not parent.exists())
    folders = missing or (entry.folders if entry and created else ())
    row = InstallRow(host.key, _digest(added.text), now, added.splices, added.made, created, folders)
    named = (
        part.hooks and f"{len(part.hooks)} hooks",
        part.servers and "the MCP server",
        part.text and "a file of memdir's",
    )
    parts = " and ".join(name for name in named if name)
    return InstallChange(host.key, part.path, before, after, row, added.notes, parts=parts)


def _plan_removal(host: Host, part: HostFile, text: str, entry: InstallRow | None) -> InstallChange:
    before = _encode(text)
    if part.text and text != part.text and not (entry and entry.digest == _digest(text)):
        note = f"{part.path} changed since the installation and is kept; delete it if you do not need it"
        return InstallChange(host.key, part.path, before, before, notes=(note,) if entry else ())
    after, folders = _encode(_restore_text(part, text, entry)), entry.folders if entry else ()
    return InstallChange(host.key, part.path, before, after, folders=folders)


def _restore_text(part: HostFile, text: str, entry: InstallRow | None) -> str | None:
    """Return the text before the installation, or None if there was no file."""
    if entry is not None and entry.digest == _digest(text):
        if entry.created:
            return None
        for offset, inserted in reversed(entry.splices):
            text = TextSplice(offset, inserted).undo(text)
        return text
    bare = _remove_entries(part, text, entry.made if entry else None)
    is_empty = bare is not None and not (bare.strip() and _parse(part, bare).value)
    return None if is_empty and entry and entry.created else bare


@contextmanager
def _read(path: Path, root: Path | None) -> Iterator[str | None]:
    """Yield a file's text for planning changes; adds the file name to any FormatError raised in the block."""
    for part in takewhile(lambda part: part != root, (path, *path.parents)) if root is not None else ():
        if part.is_symlink():
            raise PathError(str(path), f"{part} is a symbolic link in the project")
    reading = read_small(path, FILE_BYTES)
    if reading.problem:
        raise FormatError(f"{path} cannot be read: {reading.problem}", hint="fix it and try again; nothing was changed")
    try:
        yield None if reading.data is None else reading.data.decode("utf-8")
    except (FormatError, UnicodeDecodeError) as error:
        why = str(error) if isinstance(error, FormatError) else "not UTF-8"
        field = error.field if isinstance(error, FormatError) else "encoding"
        hint = "nothing was changed; fix the file first, or add the entries that `--print` shows"
        raise FormatError(f"{path} cannot be edited: {why}", field=field, hint=hint) from None


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8")


def _write(change: InstallChange) -> None:
    # Settings are often links into a dotfiles folder, so write to the target.
    path = Path(os.path.realpath(change.path))
    if read_small(path, FILE_BYTES).data != change.before:
        raise ConflictError(f"{change.path} was changed by another process", hint="try again")
    with raise_disk_errors(path):
        if change.after is None:
            path.unlink()
            for folder in change.folders:
                with suppress(OSError):  # The folder may contain other files.
                    os.rmdir(folder)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.urandom(6).hex()}.tmp")
        try:
            with open(temporary, "xb") as file:
                file.write(change.after)
                file.flush()
                os.fsync(file.fileno())
            if change.before is not None:
                os.chmod(temporary, path.stat().st_mode & 0o7777)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


_COMMANDS = ("remember", "recall", "dream", "doctor")


def make_plugin() -> Mapping[str, str]:
    """Return the files of the Claude Code plugin by path: manifest, hooks, MCP server, commands and a skill."""
    claude = known.CLAUDE_CODE
    manifest = {
        "name": NAME,
        "version": __version__,
        "description": "A memory that survives the conversation: plain Markdown files, recalled when they matter.",
        "author": {"name": "the memdir authors"},
        "license": "Apache-2.0",
        "keywords": ["memory", "markdown", "recall"],
    }
    hooks = {hook.name: [make_group(claude, hook, SHARED)] for hook in claude.hooks}
    return {
        ".claude-plugin/plugin.json": _render(manifest),
        "hooks/hooks.json": _render({"description": "memdir: recall, learning and guard", "hooks": hooks}),
        ".mcp.json": _render({"mcpServers": {NAME: _make_server(SHARED)}}),
        **{f"commands/{name}.md": render_prompt(f"plugin/{name}", memdir=NAME) + "\n" for name in _COMMANDS},
        "skills/memory/SKILL.md": render_prompt("plugin/skill", memdir=NAME) + "\n",
    }


def _render(table: Mapping[str, object]) -> str:
    return json.dumps(table, indent=2) + "\n"


if __name__ == "__main__":
    for name, content in make_plugin().items():
        Path(sys.argv[1], name).parent.mkdir(parents=True, exist_ok=True)
        Path(sys.argv[1], name).write_text(content, encoding="utf-8")
