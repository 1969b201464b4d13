"""Our entries in the hosts' settings files: put in, shown, and taken out again.

`list_files` says what each host's files should hold, `plan_install` and `plan_uninstall` compute the changes, and
`apply_changes` writes them. A file is replaced in one step, with its mode, and only if it is still what was read. After an
install and an uninstall every file has the bytes it had before; where somebody has edited it in between, only our entries
are removed, recognized by what they call. A server of our name that runs something else is left alone. A link in the
person's home is followed, as the host does; one in a project is refused, because it came with a clone.

`plugin/` in the repository is `make_plugin` with the program's bare name: `python -m memdir.interfaces.install plugin`.
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
from memdir.files import disk_error, hold, make_private_dirs, read_small
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
from memdir.project.hosts import CODEX, GEMINI, VSCODE, Hook, Host, InstallRow, read_install_record
from memdir.project.settings import Environment

NAME = "memdir"
_EMPTY = "{}\n"
# Folders of caches, whose contents come and go.
_CACHE = re.compile(
    r"[/\\](?:\.cache|Caches|cache)[/\\](?:uv|pipx)[/\\]|[/\\](?:archive|builds|environments)-v\d+[/\\]"
    r"|[/\\]pipx[/\\]\.cache[/\\]"
)


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """How a host calls memdir: the words before the verb. `note` is for the person.

    A shared command, in a committed file, names the program only and stays silent where it is not installed.
    """

    words: tuple[str, ...]
    note: str = ""
    is_shared: bool = False

    def render(self, *arguments: str) -> str:
        line = shlex.join((*self.words, *arguments))
        return f"command -v {NAME} >/dev/null 2>&1 && {line} || true" if self.is_shared else line


SHARED = OwnCommand((NAME,), is_shared=True)


def find_program(script: str, executable: str, which: Callable[[str], str | None]) -> OwnCommand:
    """The program for the person's own settings; `script` is what this process was started as.

    An installed script is named by its whole path, since graphical programs have another PATH. From a cache (uvx, pipx
    run) it is another installation or `uvx`. For `python -m memdir` it is the same interpreter, outside the project.
    """
    here = os.path.abspath(script) if script else ""
    if os.path.basename(here) == NAME and os.access(here, os.X_OK) and not _CACHE.search(os.path.realpath(here)):
        return OwnCommand((here,))
    if not (_CACHE.search(os.path.realpath(here)) or _CACHE.search(executable)):
        return OwnCommand((executable, "-P", "-m", NAME))
    found = which(NAME)
    if found and not _CACHE.search(os.path.realpath(found)):
        return OwnCommand((os.path.abspath(found),))
    note = "memdir runs from a cache; `uv tool install memdir` or `pipx install memdir` makes its hooks start faster"
    return OwnCommand((which("uvx") or "uvx", NAME), note)


@dataclass(frozen=True, slots=True)
class HostFile:
    """What is ours in one file of a host: all of it (`text`), or entries of a JSON or TOML file that others write, too.

    `hooks`: event name -> our group; `servers`: key -> our server.
    """

    path: Path
    hooks: Mapping[str, Any] = field(default_factory=dict)
    servers: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""

    @property
    def is_toml(self) -> bool:
        return self.path.suffix == ".toml"


def make_group(host: Host, hook: Hook, program: OwnCommand) -> dict[str, Any]:
    """One hook in the form of the host's settings."""
    command = program.render("hook", hook.event.value, "--host", host.key)
    handler: dict[str, Any] = {"type": "command", "command": command, "timeout": hook.seconds * host.unit}
    if host is GEMINI:
        handler = {"name": f"{NAME}-{hook.event.value}", **handler}
    if host is VSCODE:
        return handler
    return {"matcher": hook.tools, "hooks": [handler]} if hook.tools else {"hooks": [handler]}


def list_files(
    host: Host, environment: Environment, program: OwnCommand, *, root: Path | None = None, has_mcp: bool = True
) -> Iterator[HostFile]:
    """Everything for one host, in the person's own settings or with a `root` in the project's."""
    path = known.find_hooks_file(host, environment, root)
    hooks = {hook.name: make_group(host, hook, program) for hook in host.hooks}
    server = _make_server(program)
    if host is VSCODE and path:
        yield HostFile(path, hooks)
        if root is not None and has_mcp:
            yield HostFile(root / ".vscode" / "mcp.json", servers={"servers": {"type": "stdio", **server}})
    elif host is known.CURSOR:
        folder = known.find_folder(host, environment) if root is None else root / ".cursor"
        yield HostFile(folder / "mcp.json", servers={"mcpServers": server})
        if root is not None:
            yield HostFile(folder / "rules" / "memdir.mdc", text=render_prompt("hooks/cursor") + "\n")
    elif path:
        yield HostFile(path, hooks, {"mcpServers": server} if host is GEMINI and has_mcp else {})
        if host is CODEX and root is None and has_mcp:
            yield HostFile(path.with_name("config.toml"), servers={"mcp_servers": server})


def _make_server(program: OwnCommand) -> dict[str, Any]:
    command, *arguments = (*program.words, "mcp")
    return {"command": command, "args": arguments}


_HOOKS = "hooks"
_THEIRS = object()
Keys = tuple[str | int, ...]
Containers = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class AddedEntries:
    """A text with our entries; what was inserted, in this order, and the containers that were made for it."""

    text: str
    splices: tuple[TextSplice, ...] = ()
    made: Containers = ()
    notes: tuple[str, ...] = ()


def _add_entries(part: HostFile, text: str | None) -> AddedEntries:
    """The text with our entries; None is a file that does not exist. Raises FormatError for what cannot be edited."""
    if part.text:
        if text not in (None, part.text) and NAME not in str(text):
            raise FormatError("there is a file of somebody else's", field="file")
        return AddedEntries(part.text, (TextSplice(0, part.text),))
    table = _parse(part, text or "").value
    if not isinstance(table, dict):
        raise FormatError("it is no table", field="json")
    theirs = [key for key in part.servers if _find_server(table, key) is _THEIRS]
    notes = tuple(f"{part.path} has a server {NAME!r} of its own, which is left as it is" for _ in theirs)
    servers = {key: server for key, server in part.servers.items() if key not in theirs}
    splices: list[TextSplice] = []
    made: list[tuple[str, ...]] = []

    def put(splice: TextSplice) -> str:
        splices.append(splice)
        return splice.apply(text or "")

    if part.is_toml:
        for key, server in servers.items():
            # A basic string of TOML is one of JSON, as far as a path can go.
            lines = "".join(f"\n{name} = {json.dumps(value)}" for name, value in server.items())
            text = put(json_edit.append_table(text or "", f"[{key}.{NAME}]{lines}"))
            try:
                parse_toml_text(text)
            except FormatError:
                raise FormatError(f"its {key} is written so that nothing can be added", field=key) from None
        return AddedEntries(text or "", tuple(splices), notes=notes)
    if text is None:
        text = _EMPTY
    elif not text.strip():
        text = put(TextSplice(len(text), _EMPTY))
    containers: list[tuple[str, ...]] = [(_HOOKS,)] if part.hooks else []
    for keys in [*containers, *((_HOOKS, name) for name in part.hooks), *((key,) for key in part.servers)]:
        kind = "table" if len(keys) == 1 else "list"
        parent = _walk(parse_json_text(text), keys[:-1])
        if (found := parent.find(keys[-1])) is None:
            made.append(keys)
            text = put(insert_child(text, parent, keys[-1], {} if kind == "table" else []))
        elif found.kind != kind:
            raise FormatError(f"its {'.'.join(keys)} is no {kind}", field=".".join(keys))
    for name, group in part.hooks.items():
        text = put(insert_child(text, _walk(parse_json_text(text), (_HOOKS, name)), None, group))
    for key, server in servers.items():
        text = put(insert_child(text, _walk(parse_json_text(text), (key,)), NAME, server))
    return AddedEntries(text, tuple(splices), tuple(made), notes)


def _is_there(part: HostFile, text: str) -> bool:
    """Whether all of our entries are there, exactly as they should be."""
    if part.text:
        return text == part.text
    table = _parse(part, text).value
    hooks = table.get(_HOOKS) if isinstance(table, dict) else None
    groups = {name: rows for name, rows in hooks.items() if isinstance(rows, list)} if isinstance(hooks, dict) else {}
    found = [at for rows in groups.values() for at in rows if _is_ours(at)]
    if len(found) != len(part.hooks) or any(group not in groups.get(at, ()) for at, group in part.hooks.items()):
        return False
    return all(_find_server(table, key) == server for key, server in part.servers.items())


def _take_out(part: HostFile, text: str, made: Containers | None) -> str | None:
    """The text without our entries; None if nothing is left of a file that was ours alone.

    `made` are the containers that we made; without it every empty one around our entries counts as ours.
    """
    if part.text:
        return None
    if part.is_toml:
        table = parse_toml_text(text)
        return text if any(_find_server(table, key) is _THEIRS for key in part.servers) else cut_own_table(text)
    if not text.strip():
        return text
    around: set[tuple[str, ...]] = set()
    while (found := next(_list_ours(part, parse_json_text(text)), None)) is not None:
        keys, number = found
        text = cut_child(text, _walk(parse_json_text(text), keys), number)
        around |= {tuple(map(str, at)) for at in (keys, keys[:1]) if len(keys) <= 2}
    for names in sorted(around, key=len, reverse=True):
        if made is None or names in made:
            parent = _walk(parse_json_text(text), names[:-1])
            if (empty := parent.find(names[-1])) is not None and not empty.children:
                text = cut_child(text, parent, parent.find_number(names[-1]))
    return text


def _parse(part: HostFile, text: str) -> JsonNode:
    if part.is_toml:
        return JsonNode("table", 0, len(text), parse_toml_text(text))
    return parse_json_text(text if text.strip() else _EMPTY)


def _walk(node: JsonNode, keys: Keys) -> JsonNode:
    for key in keys:
        found = node.children[key] if isinstance(key, int) else node.find(key)
        if found is None:
            raise FormatError(f"it has no {key}", field=str(key))
        node = found
    return node


def _list_ours(part: HostFile, root: JsonNode) -> Iterator[tuple[Keys, int]]:
    """The entries of ours: the keys of the container, and the number there."""
    hooks = root.find(_HOOKS)
    for name in dict.fromkeys(hooks.keys) if hooks else ():
        groups = hooks.find(name) if hooks else None
        for number, group in enumerate(groups.children if groups and groups.kind == "list" else ()):
            if _is_ours(group.value):
                yield (_HOOKS, name), number
            # Somebody has added a hook of their own beside ours.
            handlers = group.find(_HOOKS)
            for at, handler in enumerate(handlers.children if handlers else ()):
                if _is_ours(handler.value):
                    yield (_HOOKS, name, number, _HOOKS), at
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
    return bool(commands) and all(isinstance(at, str) and known.OURS.search(at) for at in commands)


def _find_server(table: object, key: str) -> object:
    """Our server, None if there is none of the name, _THEIRS if it is somebody else's."""
    servers = table.get(key) if isinstance(table, dict) else None
    if not isinstance(servers, dict) or NAME not in servers:
        return None
    row = servers[NAME] if isinstance(servers[NAME], dict) else {}
    words = [row.get("command"), *(row["args"] if isinstance(row.get("args"), list) else ())]
    return row if words[-1:] == ["mcp"] and any(str(at).endswith(NAME) for at in words) else _THEIRS


@dataclass(frozen=True, slots=True)
class InstallChange:
    """One file before and after, None for no file; `entry` is its row of the record, None for none."""

    host: str
    path: Path
    before: bytes | None
    after: bytes | None
    entry: InstallRow | None = None
    notes: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        if self.before == self.after:
            return "unchanged"
        return "created" if self.before is None else "removed" if self.after is None else "changed"


def plan_install(
    hosts: Iterable[Host], environment: Environment, program: OwnCommand, *, now: datetime, root: Path | None = None,
    has_mcp: bool = True,
) -> tuple[InstallChange, ...]:  # fmt: skip
    """The changes after which these hosts call us; raises FormatError for a file that cannot be edited."""
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
    """The changes after which nothing of ours is left there."""
    record = read_install_record(environment.state_home)
    changes = []
    for host in hosts:
        for part in list_files(host, environment, program, root=root):
            with _read(part.path, root) as text:
                if text is not None:
                    changes.append(_plan_take(host, part, text, record.get(str(part.path))))
    return tuple(changes)


def apply_changes(changes: Iterable[InstallChange], environment: Environment) -> None:
    """Write the changes and the record, one process at a time."""
    chosen = tuple(changes)
    if all(change.what == "unchanged" and change.entry is None for change in chosen):
        return
    try:
        make_private_dirs(environment.state_home)
        folder = os.open(environment.state_home, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise disk_error(error, environment.state_home) from error
    try:
        with hold(folder, "install.lock", seconds=LOCK_SECONDS):
            for change in chosen:
                # The record comes first: where it cannot be written, the host's file stays as it is.
                if change.entry is not None:
                    _keep(change, environment)
                if change.what != "unchanged":
                    _write(change)
                if change.entry is None:
                    _keep(change, environment)
    finally:
        os.close(folder)


def _keep(change: InstallChange, environment: Environment) -> None:
    record = read_install_record(environment.state_home)
    kept = {path: entry for path, entry in record.items() if path != str(change.path)}
    if change.entry is not None:
        kept[str(change.path)] = change.entry
    if kept != record:
        known.write_install_record(environment.state_home, kept)


def _plan_add(host: Host, part: HostFile, text: str | None, entry: InstallRow | None, now: datetime) -> InstallChange:
    before = _encode(text)
    if text is not None and text.strip() and _is_there(part, text):
        return InstallChange(host.key, part.path, before, before, entry)
    bare = None if text is None else _take(part, text, entry)
    added = _add_entries(part, bare)
    after = added.text.encode("utf-8")
    if not added.splices or after == before:
        return InstallChange(host.key, part.path, before, before, entry, added.notes)
    created = bare is None
    missing = tuple(str(at) for at in part.path.parents if not at.exists())
    folders = missing or (entry.folders if entry and created else ())
    kept = InstallRow(host.key, _digest(added.text), now, added.splices, added.made, created, folders)
    return InstallChange(host.key, part.path, before, after, kept, added.notes)


def _plan_take(host: Host, part: HostFile, text: str, entry: InstallRow | None) -> InstallChange:
    before = _encode(text)
    if part.text and text != part.text and not (entry and entry.digest == _digest(text)):
        note = f"{part.path} was changed since and is left as it is; delete it if you do not want it"
        return InstallChange(host.key, part.path, before, before, notes=(note,) if entry else ())
    after, folders = _encode(_take(part, text, entry)), entry.folders if entry else ()
    return InstallChange(host.key, part.path, before, after, folders=folders)


def _take(part: HostFile, text: str, entry: InstallRow | None) -> str | None:
    """The text as it was before us; None if there was no file."""
    if entry is not None and entry.digest == _digest(text):
        if entry.created:
            return None
        for at, inserted in reversed(entry.splices):
            text = TextSplice(at, inserted).undo(text)
        return text
    bare = _take_out(part, text, entry.made if entry else None)
    is_empty = bare is not None and not (bare.strip() and _parse(part, bare).value)
    return None if is_empty and entry and entry.created else bare


@contextmanager
def _read(path: Path, root: Path | None) -> Iterator[str | None]:
    """The context in which a file's changes are planned; a FormatError raised there gets the file's name."""
    for at in takewhile(lambda at: at != root, (path, *path.parents)) if root is not None else ():
        if at.is_symlink():
            raise PathError(str(path), f"{at} is a symbolic link, and it came with the project")
    reading = read_small(path, FILE_BYTES)
    if reading.problem:
        raise FormatError(f"{path} cannot be read: {reading.problem}", hint="nothing was changed")
    try:
        yield None if reading.data is None else reading.data.decode("utf-8")
    except (FormatError, UnicodeDecodeError) as error:
        why = str(error) if isinstance(error, FormatError) else "it is not UTF-8"
        field = error.field if isinstance(error, FormatError) else "encoding"
        hint = "fix it first; `--print` shows what would be put there, and nothing was changed"
        raise FormatError(f"{path} cannot be edited: {why}", field=field, hint=hint) from None


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8")


def _write(change: InstallChange) -> None:
    # A person's settings are often a link into a folder of such files: its target is written.
    path = Path(os.path.realpath(change.path))
    if read_small(path, FILE_BYTES).data != change.before:
        raise ConflictError(f"{change.path} was changed by somebody else meanwhile", hint="try again")
    try:
        if change.after is None:
            path.unlink()
            for folder in change.folders:
                with suppress(OSError):  # somebody else keeps something in it
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
    except OSError as error:
        raise disk_error(error, path) from error


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


PLUGIN_FOLDER = "claude-plugin"
_COMMANDS = ("remember", "recall", "dream", "doctor")


def make_plugin(program: OwnCommand) -> Mapping[str, str]:
    """The files of Claude Code's plugin folder, by path: manifest, hooks, MCP server, commands and a skill."""
    claude = known.CLAUDE_CODE
    manifest = {
        "name": NAME,
        "version": __version__,
        "description": "A memory that survives the conversation: plain Markdown files, recalled when they matter.",
        "author": {"name": "the memdir authors"},
        "license": "Apache-2.0",
        "keywords": ["memory", "markdown", "recall"],
    }
    hooks = {hook.name: [make_group(claude, hook, program)] for hook in claude.hooks}
    words = " ".join(program.words)
    return {
        ".claude-plugin/plugin.json": _render(manifest),
        "hooks/hooks.json": _render({"description": "memdir: recall, learning and guard", "hooks": hooks}),
        ".mcp.json": _render({"mcpServers": {NAME: _make_server(program)}}),
        **{f"commands/{name}.md": render_prompt(f"plugin/{name}", memdir=words) + "\n" for name in _COMMANDS},
        "skills/memory/SKILL.md": render_prompt("plugin/skill", memdir=words) + "\n",
    }


def write_plugin(folder: Path, program: OwnCommand) -> list[Path]:
    """Write the plugin folder; returns the files."""
    files = {folder / path: text for path, text in make_plugin(program).items()}
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(files)


def remove_plugin(folder: Path) -> bool:
    """Remove the files of the plugin and the folders that are then empty; returns whether there were any."""
    found = [folder / path for path in make_plugin(SHARED) if (folder / path).is_file()]
    for path in found:
        path.unlink()
    above = {parent for path in found for parent in path.parents if parent.is_relative_to(folder)}
    for inner in sorted(above, reverse=True):
        if not any(inner.iterdir()):
            inner.rmdir()
    return bool(found)


def _render(table: Mapping[str, object]) -> str:
    return json.dumps(table, indent=2) + "\n"


if __name__ == "__main__":
    write_plugin(Path(sys.argv[1]), SHARED)
