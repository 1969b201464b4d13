"""`doctor`: what is wrong, one line each with its fix; and the fix for what can be rebuilt."""

from collections.abc import Sequence
from typing import Any

import click

from memdir.doctor import LEVELS, Finding, count_kinds, examine, repair
from memdir.doors.cli.call import Call, choose_store
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.placing import find_collision
from memdir.doors.cli.verb import Verb, json_option, scope_option
from memdir.doors.cli.words import REFUSED
from memdir.frozen import dataclass
from memdir.opening import Opened
from memdir.paths import Places, read_places
from memdir.settings import PROJECT_FILE, Settings

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
    "--fix", "is_fixing", is_flag=True, help="Rebuild what can be rebuilt: index lines. Memories are not touched."
)
@scope_option
@json_option
@click.pass_context
def doctor_verb(ctx: click.Context, is_fixing: bool, scope: str | None, as_json: bool) -> None:
    """Look for what is wrong. Exits with 1 if there is anything above advice.

    In a pipe: level, kind, scope, place, what is wrong, what to do, with tabs between.
    """
    call = ctx.ensure_object(Call)
    environment = call.environment
    settings, places = read_places(environment, call.cwd.absolute())
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
    _report(call.out, found, fixed, is_fixing=is_fixing, as_json=as_json)
    if any(at.finding.level != "advice" for at in found):
        ctx.exit(REFUSED)


def check_settings(settings: Settings, places: Places) -> list[Finding]:
    """What is wrong with settings and places, as findings."""
    found = [
        Finding("setting", "config file", f"there is no setting {key}", f"`memdir config unset {key}`")
        for key in settings.unknown
    ]
    for key, reason in settings.ignored.items():
        found.append(Finding("setting", PROJECT_FILE, f"{key} is ignored: {reason}", "take it out of the file"))
    for note in places.notes:
        if note != places.root.note:
            found.append(Finding("setting", "places", note, "`memdir where` shows each rule"))
    return found


def _examine(opened: Opened, scope: str | None) -> list[Found]:
    skip = opened.settings.flag("skip_index")
    stores = opened.stores if scope is None else (choose_store(opened, scope),)
    return [Found(store.scope.value, at) for store in stores for at in examine(store, skip_index=skip)]


def _fix(opened: Opened, scope: str | None) -> int:
    fixed = 0
    for store in opened.stores if scope is None else (choose_store(opened, scope),):
        findings = examine(store, skip_index=opened.settings.flag("skip_index"))
        fixed += repair(store, [at for at in findings if at.fixable])
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
