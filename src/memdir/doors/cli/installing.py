"""`install` and `uninstall`: memdir's entries in the settings of coding agents."""

import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.diffs import render_diff
from memdir.doors.cli.output import Styled
from memdir.doors.cli.verb import Verb, json_option
from memdir.errors import MemdirError, NotFoundError
from memdir.gitroot import find_root
from memdir.hosts.places import list_present
from memdir.hosts.rows import CLAUDE_CODE, CODEX, CURSOR, HOSTS, VSCODE, Host, find_host
from memdir.installing import Change, apply_changes, plan_install, plan_uninstall
from memdir.installing.command import SHARED, Program, find_program
from memdir.installing.plugin import PLUGIN_FOLDER, remove_plugin, write_plugin
from memdir.limits import DAY_TOKENS
from memdir.transcripts import list_transcripts

_KEYS = tuple(HOSTS)


def _host_arguments(decorated: Any) -> Any:
    names = click.argument("names", nargs=-1, metavar="[HOST]...", type=click.STRING, shell_complete=_offer_hosts)
    every = click.option("--all", "is_all", is_flag=True, help="Every agent that has been used on this machine.")
    project = click.option("--project", "is_project", is_flag=True, help="In this project's files instead of your own.")
    shown = click.option("--print", "is_shown", is_flag=True, help="Show what would be changed; change nothing.")
    return names(every(project(shown(json_option(decorated)))))


def _offer_hosts(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [key for key in _KEYS if key.startswith(incomplete)]


@click.command(
    "install",
    short_help="Put memory into a coding agent.",
    cls=Verb,
    examples=("memdir install claude-code", "memdir install --all --print", "memdir install cursor --project"),
)
@_host_arguments
@click.option("--plugin", "is_plugin", is_flag=True, help="Claude Code: make a plugin folder; settings stay.")
@click.pass_obj
def install_verb(
    call: Call, names: tuple[str, ...], is_all: bool, is_project: bool, is_shown: bool, as_json: bool, is_plugin: bool
) -> None:
    """Put memdir's hooks into the settings of coding agents: claude-code, codex, gemini-cli, vscode, cursor.

    What others put there stays, doing it twice changes nothing, and `memdir uninstall` takes it out again. Without a
    name and without --all it says which agents are here.
    """
    hosts = _choose(call, names, is_all)
    program = SHARED if is_project else find_program(sys.argv[0], sys.executable, which)
    if is_plugin:
        _install_plugin(call, hosts, program, is_shown=is_shown, as_json=as_json)
        return
    now = call.environment.now or datetime.now(UTC)
    has_mcp = find_spec("mcp") is not None
    root = _find_root(call, is_project)
    changes = plan_install(hosts, call.environment, program, now=now, root=root, has_mcp=has_mcp)
    _finish(call, changes, is_shown=is_shown, as_json=as_json)
    if not as_json:
        for note in _list_notes(hosts, program, has_mcp, is_project):
            call.out.line(note)
        if not is_shown:
            _offer(call)


@click.command(
    "uninstall",
    short_help="Take memory out of a coding agent.",
    cls=Verb,
    examples=("memdir uninstall claude-code", "memdir uninstall --all", "memdir uninstall cursor --project"),
)
@_host_arguments
@click.pass_obj
def uninstall_verb(
    call: Call, names: tuple[str, ...], is_all: bool, is_project: bool, is_shown: bool, as_json: bool
) -> None:
    """Take memdir's entries out of the settings of coding agents, and nothing else. Memories stay where they are."""
    hosts = tuple(HOSTS.values()) if is_all else _choose(call, names, is_all)
    changes = plan_uninstall(hosts, call.environment, SHARED, root=_find_root(call, is_project))
    has_plugin = CLAUDE_CODE in hosts and not is_project and not is_shown
    if has_plugin and remove_plugin(call.environment.state_home / PLUGIN_FOLDER) and not as_json:
        call.out.line("the plugin folder is gone as well")
    _finish(call, changes, is_shown=is_shown, as_json=as_json)


def _choose(call: Call, names: Sequence[str], is_all: bool) -> tuple[Host, ...]:
    present = list_present(call.environment)
    if is_all and not names:
        if not present:
            raise NotFoundError("no agent that memdir knows has been used here", hint=f"name one: {', '.join(_KEYS)}")
        return present
    if not names:
        here = ", ".join(host.key for host in present) or "none that is known"
        raise click.UsageError(f"which one? Here: {here}; known: {', '.join(_KEYS)}; --all takes those that are here")
    found = [(name, find_host(name)) for name in names]
    wrong = next((name for name, host in found if host is None), None)
    if wrong is not None:
        raise NotFoundError(f"no agent is known by the name {wrong!r}", hint=f"known: {', '.join(_KEYS)}")
    return tuple({host.key: host for _, host in found if host is not None}.values())


def _find_root(call: Call, is_project: bool) -> Path | None:
    return find_root(call.cwd, worktree="own").path if is_project else None


def _finish(call: Call, changes: Sequence[Change], *, is_shown: bool, as_json: bool) -> None:
    if not is_shown:
        apply_changes(changes, call.environment)
    if as_json:
        call.out.json([_make_row(change, is_written=not is_shown) for change in changes])
        return
    for change in changes:
        _show(call, change)
    if not changes:
        call.out.line("there is nothing of memdir's")


def _make_row(change: Change, *, is_written: bool) -> dict[str, Any]:
    return {
        "host": change.host,
        "path": str(change.path),
        "change": change.what,
        "written": is_written and change.what != "unchanged",
        "notes": list(change.notes),
        "diff": _render_diff(change),
    }


def _show(call: Call, change: Change) -> None:
    call.out.line(Styled(change.host, "bold"), f"  {change.path}  ", Styled(change.what, "dim"))
    call.out.diff(_render_diff(change)[2:])
    for note in change.notes:
        call.out.warn(note)


def _render_diff(change: Change) -> list[str]:
    before, after = ((data or b"").decode("utf-8", "replace") for data in (change.before, change.after))
    return render_diff(before, after, str(change.path), str(change.path))


def _list_notes(hosts: Sequence[Host], program: Program, has_mcp: bool, is_project: bool) -> list[str]:
    notes = [program.note] if program.note else []
    if not has_mcp and any(host is not CLAUDE_CODE for host in hosts):
        notes.append("the MCP server needs the extra `mcp`: `pip install 'memdir[mcp]'`, then install again")
    if CODEX in hosts:
        notes.append(
            "Codex asks at its next start in a terminal whether these hooks may run; until then none of them does"
        )
    if CLAUDE_CODE in hosts and VSCODE in hosts:
        notes.append("VS Code also runs the hooks of Claude Code: with both, each of its conversations gets two starts")
    if CURSOR in hosts and not is_project:
        notes.append("Cursor reads rules from a project only: `memdir install cursor --project` in each of them")
    return notes


def _offer(call: Call) -> None:
    """What a person may want to do next; nothing of it is done unasked."""
    try:
        opened = call.open()
        past = len(list_transcripts(opened.environment, opened.places.root.path))
        model = opened.settings.text("model")
    except MemdirError:
        return  # `status` and `doctor` say what is wrong here
    if past:
        call.out.line(f"{past} past conversations of this project can be learned from: `memdir extract --all`")
    if model == "none":
        call.out.line(
            "memdir learns by rules; `memdir config set model claude-cli` lets Claude Code help. That costs one "
            f"request of some thousand tokens of your plan for each turn, {DAY_TOKENS:,} tokens a day at most"
        )


def _install_plugin(call: Call, hosts: Sequence[Host], program: Program, *, is_shown: bool, as_json: bool) -> None:
    if list(hosts) != [CLAUDE_CODE]:
        raise click.UsageError("--plugin is for claude-code alone")
    folder = call.environment.state_home / PLUGIN_FOLDER
    changes = [] if is_shown else write_plugin(folder, program)
    if as_json:
        row = {"host": CLAUDE_CODE.key, "path": str(folder), "change": "created", "written": bool(changes)}
        call.out.json([{**row, "notes": [], "diff": []}])
        return
    call.out.line(Styled(CLAUDE_CODE.key, "bold"), f"  {folder}")
    if is_shown:
        call.out.line("nothing was written; without --print the plugin is put there")
        return
    call.out.line(f"start Claude Code with `claude --plugin-dir {shlex.quote(str(folder))}`")
