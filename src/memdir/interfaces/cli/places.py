"""The commands for directories and settings: `where`, `relink`, `config`, `pause` and `resume`."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from memdir.errors import FormatError, ModelError, NotFoundError, PathError
from memdir.files import check_root
from memdir.interfaces.cli import CliContext, Row, Styled, TableColumn, fill, render_error
from memdir.interfaces.cli.app import VerbGroup, confirm, verb
from memdir.project.paths import MemoryDirectory, PathStep, ProjectPaths, find_state_dir, read_paths
from memdir.project.settings import (
    SETTINGS,
    Environment,
    Setting,
    Settings,
    Value,
    find_setting,
    remove_setting,
    write_setting,
)
from memdir.records import Scope
from memdir.store.open import RelinkCandidate, check_identity, find_identity, find_moved_directories, move_memory
from memdir.text import one_line, shorten

_SETTINGS = (
    TableColumn("KEY", "cyan", "key"),
    TableColumn("VALUE", "bold", lambda row: show_value(row["value"])),
    TableColumn("DEFAULT", "dim", lambda row: show_value(row["default"])),
    TableColumn("SOURCE", "dim", "source", is_cut=True),
)
# Candidates of this rank or worse belong to a project that still exists.
_ALIVE = 4


@verb("where", "Show the directories in use.", "memdir where", "memdir where --json")
def where_verb(call: CliContext, as_json: bool) -> None:
    """Print each directory in use, the rule that chose it, and the result of each earlier rule."""
    environment, out = call.environment, call.out
    _, paths = read_paths(environment, call.cwd.absolute())
    if call.directory is not None:
        steps = (PathStep("--dir", str(call.directory), "taken"),)
        directory = MemoryDirectory(Scope.PRIVATE, call.directory, "--dir", steps)
        paths = ProjectPaths(paths.root, paths.switch, directory, None, paths.notes)
    collision = find_collision(environment, paths)
    used = (paths.private, paths.user, paths.project)
    private, user, own = (None if place is None else _make_directory(place, environment) for place in used)
    row = fill(
        "on rule",
        paths.switch,
        project={"root": str(paths.root.path), "kind": paths.root.kind},
        private=private,
        user=user,
        own=own,
        config={"path": str(environment.config_file), "exists": environment.config_file.is_file()},
        notes=[*paths.notes, *([f"{collision}; {collision.hint}"] if collision else [])],
    )
    if as_json:
        out.json(row)
        return

    def show(label: str, value: str, rule: str, *, exists: bool = True) -> None:
        note = "; ".join(part for part in (rule, "" if exists else "does not exist yet") if part)
        out.line(Styled(f"{label:<11}", "bold"), value, Styled(f" ({note})" if note else "", "dim"))

    show("project", row["project"]["root"], row["project"]["kind"])
    show("memory is", "on" if row["on"] else "off", row["rule"])
    for label, used_directory in (("private", private), ("user", user), ("project", own)):
        if used_directory is not None:
            show(label, used_directory["path"], used_directory["rule"], exists=used_directory["exists"])
            for step in used_directory["steps"] if label == "private" else ():
                value = f" = {step['value']}" if step["value"] and step["verdict"] != "taken" else ""
                out.line(Styled(f"{'':<11}{step['rule']}{value}: {step['verdict']}", "dim"))
            show("  state", used_directory["state"], "", exists=used_directory["state_exists"])
        elif label == "user":
            show("user", "none", "--dir" if call.directory is not None else "user_memory, see the notes")
    show("config", row["config"]["path"], "", exists=row["config"]["exists"])
    for note in row["notes"]:
        out.line(Styled("note: ", "yellow"), note)


def find_collision(environment: Environment, paths: ProjectPaths) -> PathError | None:
    """Return an error if another existing project uses the same directory, else None."""
    try:
        if paths.private.is_keyed:
            check_identity(find_state_dir(paths.private.path, environment), paths.root.path)
    except PathError as error:
        return error
    return None


def _make_directory(directory: MemoryDirectory, environment: Environment) -> Row:
    state, exists = find_state_dir(directory.path, environment), directory.path.is_dir()
    steps = [fill("rule value verdict", step) for step in directory.steps]
    return fill("path rule", directory, exists=exists, steps=steps, state=state, state_exists=state.is_dir())


@verb(
    "relink", "Find the memory of a moved project.",
    "memdir relink", "memdir relink --from ~/.claude/projects/-old-place/memory --yes",
)  # fmt: skip
@click.option("--from", "source", metavar="DIR", help="The memory directory to move.")
@click.option("--yes", is_flag=True, help="Do not ask; without --from, use the only clear candidate.")
def relink_verb(call: CliContext, source: str | None, yes: bool, as_json: bool) -> None:
    """Find the memory of a project that was moved, renamed or cloned again, and move it here.

    Without options it lists the candidates and the reasons. It never mixes two memories: a directory that is not empty
    is refused.
    """
    environment = call.environment
    settings, paths = read_paths(environment, call.cwd.absolute())
    own, seconds = paths.private, settings.number("lock_seconds")
    if call.directory is not None or not own.is_keyed:
        rule = own.rule if call.directory is None else "--dir"
        raise PathError(str(own.path), f"{rule} selects this directory", hint="change that setting")
    identity, out = find_identity(paths.root.path), call.out
    candidates = find_moved_directories(environment, identity)
    chosen = _choose(call, source, candidates, yes=yes)
    action = "found" if chosen is None else "moved"
    if chosen is not None:
        confirm(f"Move {str(chosen)!r} to {str(own.path)!r}?", "this moves a directory", yes=yes)
        move_memory(chosen, own.path, identity, environment=environment, seconds=seconds)
    if as_json:
        candidate_rows = [fill("path root reason", candidate) for candidate in candidates]
        facts = {"target": own.path, "root": identity.root, "candidates": candidate_rows}
        out.json({"action": action, "dry_run": False, "source": chosen, **facts})
    elif chosen is not None:
        out.line(f"moved {chosen}")
        out.line(f"to {own.path}")
    else:
        for candidate in candidates:
            out.line(Styled(str(candidate.path), "cyan"), f" ({candidate.reason})")
        out.line("`memdir relink --from DIR` moves one of them; `--yes` moves the first if it is clear")


def _choose(call: CliContext, source: str | None, candidates: Sequence[RelinkCandidate], *, yes: bool) -> Path | None:
    if source is not None:
        path = (call.cwd / source).absolute()
        check_root(str(path))
        inner = path / "memory"  # The user may pass the parent folder.
        return inner if inner.is_dir() and path.parent.name == "projects" else path
    if not candidates:
        hint = "pass a known directory: `memdir relink --from DIR`"
        raise NotFoundError("no memory of a moved project found", hint=hint)
    best = [candidate for candidate in candidates if candidate.rank == candidates[0].rank]
    if yes and (len(best) > 1 or best[0].rank >= _ALIVE):
        hint = "choose with --from; `memdir relink` lists them"
        raise NotFoundError("several memory directories may belong to this project", hint=hint)
    return best[0].path if yes else None


# `config`, `pause` and `resume`.


def _key_arguments(decorated: Any) -> Any:
    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(item.key, help=item.help) for item in SETTINGS if item.key.startswith(incomplete)]

    return click.argument("key", shell_complete=complete)(decorated)


@click.group("config", short_help="Show and change settings.", cls=VerbGroup)
def config_verb() -> None:
    """Show settings and change your own (docs/settings.md lists all)."""


@config_verb.command("list", examples=("memdir config list", "memdir config list --json"))
def _list(call: CliContext, as_json: bool) -> None:
    """List every setting: key, value, default, and source of the value."""
    settings, _ = read_paths(call.environment, call.cwd.absolute())
    call.show_rows(_SETTINGS, [make_setting(settings, item) for item in SETTINGS], as_json=as_json)


@config_verb.command("get", examples=("memdir config get index_order",))
@_key_arguments
def _get(call: CliContext, key: str, as_json: bool) -> None:
    """Print the value of one setting."""
    row = make_setting(read_paths(call.environment, call.cwd.absolute())[0], find_setting(key))
    call.answer(row, show_value(row["value"]), as_json=as_json)


@config_verb.command("set", examples=("memdir config set index_order file",))
@_key_arguments
@click.argument("value")
def _set(call: CliContext, key: str, value: str, as_json: bool) -> None:
    """Write a setting to your config file; comments and other lines are kept."""
    item, problem = find_setting(key), ""
    if key == "model":
        try:
            # Imported here, because only this setting needs the package.
            import_module("memdir.models.open").open_model(value, environment=call.environment)
        except ModelError as error:  # The model is known, but something is missing, such as a key.
            problem = render_error(error)
    written = write_setting(call.environment, key, value)
    _report_setting(call, item, f"{key} = {show_value(written)}", as_json=as_json)
    if problem:
        call.out.warn(problem)


@config_verb.command("unset", examples=("memdir config unset index_order",))
@_key_arguments
def _unset(call: CliContext, key: str, as_json: bool) -> None:
    """Remove a setting from your config file, which restores the default."""
    was_there = remove_setting(call.environment, key)
    known = {item.key: item for item in SETTINGS}.get(key) if was_there else find_setting(key)
    message = f"{key} is unset" if was_there else f"{key} was not set in your config file"
    if known is not None:
        _report_setting(call, known, message, as_json=as_json)
    else:
        call.answer({"key": key, "value": None, "default": None, "source": "none"}, message, as_json=as_json)


_UNITS = {"m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"(\d{1,4})\s*(min|m|h|d|w)(?:inutes?|ours?|ays?|eeks?)?\s*", re.IGNORECASE)


@verb(
    "pause", "Pause learning and recall.",
    "memdir pause 2h", "memdir pause 30m", "memdir pause",
)  # fmt: skip
@click.argument("duration", nargs=-1, metavar="[DURATION]")
def pause_verb(call: CliContext, duration: tuple[str, ...], as_json: bool) -> None:
    """Stop background learning and recall until `memdir resume`; explicit saves still work.

    With a duration (30m, 2h, 1h30m, 1d) the pause ends automatically.
    """
    text = " ".join(duration)
    if not text:
        remove_setting(call.environment, "paused_until")
        write_setting(call.environment, "paused", True)
        _report_setting(call, find_setting("paused"), "paused until `memdir resume`", as_json=as_json)
        return
    end = (call.environment.now or datetime.now(UTC)) + parse_duration(text)
    remove_setting(call.environment, "paused")
    write_setting(call.environment, "paused_until", end.astimezone().isoformat(timespec="seconds"))
    message = f"paused until {end.astimezone():%Y-%m-%d %H:%M}; `memdir resume` ends it earlier"
    _report_setting(call, find_setting("paused_until"), message, as_json=as_json)


def parse_duration(text: str) -> timedelta:
    """Parse a duration such as 2h or 1h30m; raises FormatError."""
    parts = _DURATION.findall(text)
    if not any(int(count) for count, _ in parts) or _DURATION.sub("", text).strip():
        excerpt = shorten(one_line(text), 40)
        raise FormatError(f"invalid duration {excerpt!r}", field="duration", hint="use 30m, 2h, 1h30m or 1d")
    return sum((timedelta(**{_UNITS[unit.lower()]: int(count)}) for count, unit in parts), timedelta())


@verb("resume", "End a pause.", "memdir resume")
def resume_verb(call: CliContext, as_json: bool) -> None:
    """End a pause."""
    for key in ("paused", "paused_until"):
        remove_setting(call.environment, key)
    _report_setting(call, find_setting("paused"), "resumed", as_json=as_json)


def make_setting(settings: Settings, item: Setting) -> Row:
    return fill("key default", item, value=settings[item.key], source=settings.sources[item.key])


def show_value(value: Value | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _report_setting(call: CliContext, item: Setting, done: str, *, as_json: bool) -> None:
    """Print the change and the resulting value, which an environment variable may override."""
    row = make_setting(read_paths(call.environment, call.cwd.absolute())[0], item)
    if as_json:
        call.out.json(row)
        return
    call.out.line(done)
    if row["source"] == item.variable:
        call.out.warn(f"{item.variable} in the environment overrides it: {show_value(row['value'])}")
