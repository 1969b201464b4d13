"""`doctor`: what is wrong, one line each with its fix; and the fix for what can be rebuilt."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from memdir.doctor import (
    LEVELS,
    Finding,
    Ran,
    check_settings,
    count_kinds,
    examine,
    examine_background,
    repair,
    repair_background,
)
from memdir.doors.cli.call import Call, choose_store
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.placing import find_collision
from memdir.doors.cli.verb import Verb, json_option, scope_option
from memdir.doors.cli.words import REFUSED
from memdir.errors import SettingsError
from memdir.frozen import dataclass
from memdir.hosts.places import find_installed
from memdir.opening import Opened
from memdir.paths import read_places
from memdir.secrets.own import FILE as SECRETS_FILE
from memdir.secrets.own import Own, read_own
from memdir.transcripts import list_transcripts

_STYLES = {"error": "bold red", "warning": "yellow", "advice": "blue"}


@dataclass(frozen=True, slots=True)
class Found:
    scope: str
    finding: Finding


@click.command(
    "doctor",
    short_help="What is wrong, and how to mend it.",
    cls=Verb,
    examples=("memdir doctor", "memdir doctor --fix", "memdir doctor --json"),
)
@click.option(
    "--fix",
    "is_fixing",
    is_flag=True,
    help="Rebuild what can be rebuilt, such as index lines. Memories are not touched.",
)
@scope_option
@json_option
@click.pass_context
def doctor_verb(ctx: click.Context, is_fixing: bool, scope: str | None, as_json: bool) -> None:
    """Look for what is wrong. Exits with 1 if there is anything above advice.

    In a pipe: level, kind, scope, place, what is wrong, what to do, with tabs between.
    """
    call = ctx.ensure_object(Call)
    found, fixed = _look(call, scope, is_fixing=is_fixing)
    _report(call.out, found, fixed, is_fixing=is_fixing, as_json=as_json)
    if any(at.finding.level != "advice" for at in found):
        ctx.exit(REFUSED)


def _look(call: Call, scope: str | None, *, is_fixing: bool) -> tuple[list[Found], int]:
    """Everything that is wrong, and how much of what was wrong has been fixed."""
    environment = call.environment
    try:
        settings, places = read_places(environment, call.cwd.absolute())
    except SettingsError as error:
        # Settings say where memory is: without them nothing else can be looked at.
        what = f"{error}; nothing else was looked at"
        return [Found("settings", Finding("unreadable_settings", "settings", what, error.hint or "mend it"))], 0
    found = [Found("settings", at) for at in check_settings(settings, places)]
    collision = None if call.directory is not None else find_collision(environment, places)
    fixed = 0
    if collision is not None:
        # The files there are another project's; nothing can be said of this one's until it has a place.
        where = str(places.private.path)
        found.append(Found("private", Finding("slug_collision", where, collision.reason, collision.hint)))
    else:
        opened = call.open()
        if is_fixing:
            opened.check_on()
            fixed = _fix(opened, scope)
        found += _examine(opened, scope)
    return found, fixed


def _examine(opened: Opened, scope: str | None) -> list[Found]:
    skip = opened.settings.flag("skip_index")
    own, problem = _read_rules(opened)
    found = [Found("settings", problem)] if problem else []
    stores = opened.stores if scope is None else (choose_store(opened, scope),)
    found += [Found(at.scope.value, found) for at in stores for found in examine(at, skip_index=skip, own=own)]
    return found if scope else [*found, *(Found("background", at) for at in _examine_background(opened))]


def _read_rules(opened: Opened) -> tuple[Own, Finding | None]:
    """A person's own rules for secrets, or what is wrong with them."""
    try:
        return read_own(opened.environment.config_file.with_name(SECRETS_FILE)), None
    except SettingsError as error:
        return Own(), Finding("setting", SECRETS_FILE, str(error), error.hint or "mend it")


def _examine_background(opened: Opened) -> Sequence[Finding]:
    # Where memory is off hooks leave no trace, and where worktrees have their own, sessions cannot be told apart.
    is_known = opened.places.switch.on and opened.settings.text("worktree") == "shared"
    installed = find_installed(opened.environment, opened.places.root.path) if is_known else ()
    ran = _list_ran(opened, min(at.since for at in installed)) if installed else ()
    found = examine_background(opened.private.state, now=opened.now(), installed=installed, ran=ran)
    # What went wrong before a hook knew its project is kept with the person.
    return [*found, *examine_background(opened.environment.state_home, now=opened.now())]


def _list_ran(opened: Opened, since: datetime) -> Sequence[Ran]:
    """The conversations of this project since then, as far as transcripts tell when they began."""
    found = list_transcripts(opened.environment, opened.places.root.path, since=since)
    return [Ran(at.host.value, at.started, at.ended or at.modified) for at in found if at.started is not None]


def _fix(opened: Opened, scope: str | None) -> int:
    fixed, own = 0, _read_rules(opened)[0]
    for store in opened.stores if scope is None else (choose_store(opened, scope),):
        findings = examine(store, skip_index=opened.settings.flag("skip_index"), own=own)
        fixed += repair(store, [at for at in findings if at.fixable])
    if scope is None:
        for state in (opened.private.state, opened.environment.state_home):
            fixed += repair_background(state, examine_background(state, now=opened.now()), now=opened.now())
    return fixed


def _report(out: Output, found: Sequence[Found], fixed: int, *, is_fixing: bool, as_json: bool) -> None:
    if as_json:
        counts = count_kinds([at.finding for at in found])
        out.json({"findings": [_make_row(at) for at in found], "counts": counts, "fixed": fixed})
        return
    if not out.is_table:
        out.table((), [_make_cells(at) for at in found])
    else:
        for level in dict.fromkeys(LEVELS.values()):
            _show_level(out, level, [at for at in found if at.finding.level == level])
    if fixed:
        out.line(f"fixed {fixed}; `memdir history` shows how, `memdir undo` takes it back")
    elif is_fixing:
        out.line("nothing to fix by itself")
    if not found and out.is_table:
        out.line(Styled("nothing wrong", "green"))


def _show_level(out: Output, level: str, found: Sequence[Found]) -> None:
    if not found:
        return
    plural = {"error": "errors", "warning": "warnings"}.get(level, level)
    out.line(Styled(f"{len(found)} {level if len(found) == 1 else plural}", _STYLES[level]))
    for at in found:
        out.line(
            "  ",
            Styled(f"{at.scope}: {_name_place(at.finding)}", "cyan"),
            f": {at.finding.message}",
            Styled(f" — {at.finding.fix}", "dim"),
        )


def _name_place(finding: Finding) -> str:
    return finding.where if finding.line is None else f"{finding.where}:{finding.line}"


def _make_cells(at: Found) -> list[str]:
    finding = at.finding
    return [finding.level, finding.kind, at.scope, _name_place(finding), finding.message, finding.fix]


def _make_row(at: Found) -> dict[str, Any]:
    finding = at.finding
    return {
        "kind": finding.kind,
        "level": finding.level,
        "scope": at.scope,
        "where": finding.where,
        "line": finding.line,
        "message": finding.message,
        "fix": finding.fix,
        "fixable": finding.fixable,
    }
