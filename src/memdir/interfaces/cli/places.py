"""`where`: every directory in use, and the rule that chose it."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from memdir.errors import NotFoundError, PathError
from memdir.frozen import dataclass
from memdir.guard import check_root
from memdir.interfaces.cli import CliContext, CliVerb, json_option
from memdir.interfaces.cli.output import Output, Styled, is_terminal
from memdir.project.identity import Identity, RelinkCandidate, check_identity, find_identity, find_moved_directories
from memdir.project.paths import MemoryDirectory, PathStep, ProjectPaths, find_state_dir, read_paths
from memdir.project.settings import Environment
from memdir.records import Scope
from memdir.store.move import claim, move_memory

# --- placing ---


@click.command(
    "where",
    short_help="Which directories, and which rule chose them.",
    cls=CliVerb,
    examples=("memdir where", "memdir where --json"),
)
@json_option
@click.pass_obj
def where_verb(call: CliContext, as_json: bool) -> None:
    """Print each directory in use, which rule chose it, and what every rule before it said."""
    environment = call.environment
    _, places = read_paths(environment, call.cwd.absolute())
    if call.directory is not None:
        step = PathStep("--dir", str(call.directory), "taken")
        place = MemoryDirectory(Scope.PRIVATE, call.directory, "--dir", (step,))
        places = ProjectPaths(places.root, places.switch, place, None, places.notes)
    collision = find_collision(environment, places)
    notes = [*places.notes, *([f"{collision}; {collision.hint}"] if collision else [])]
    facts = _make_facts(environment, places, notes)
    if as_json:
        call.out.json(facts)
    else:
        _show(call.out, facts, places)


def find_collision(environment: Environment, places: ProjectPaths) -> PathError | None:
    """The refusal if another living project has the same directory."""
    if not places.private.is_keyed:
        return None
    try:
        check_identity(find_state_dir(places.private.path, environment), places.root.path)
    except PathError as error:
        return error
    return None


def _make_facts(environment: Environment, places: ProjectPaths, notes: Sequence[str]) -> dict[str, Any]:
    user = places.user
    return {
        "project": {"root": str(places.root.path), "kind": places.root.kind},
        "on": places.switch.on,
        "rule": places.switch.rule,
        "private": _make_place(places.private, environment),
        "user": None if user is None else _make_place(user, environment),
        "own": None if places.project is None else _make_place(places.project, environment),
        "config": {"path": str(environment.config_file), "exists": environment.config_file.is_file()},
        "notes": list(notes),
    }


def _make_place(place: MemoryDirectory, environment: Environment) -> dict[str, Any]:
    state = find_state_dir(place.path, environment)
    return {
        "path": str(place.path),
        "exists": place.path.is_dir(),
        "rule": place.rule,
        "steps": [{"rule": at.rule, "value": at.value, "verdict": at.verdict} for at in place.steps],
        "state": str(state),
        "state_exists": state.is_dir(),
    }


def _show(out: Output, facts: dict[str, Any], places: ProjectPaths) -> None:
    _row(out, "project", facts["project"]["root"], facts["project"]["kind"])
    _row(out, "memory is", "on" if facts["on"] else "off", facts["rule"])
    for label in ("private", "user"):
        place = facts[label]
        if place is None:
            _row(out, label, "none", "--dir" if places.private.rule == "--dir" else "user_memory, see the notes")
            continue
        _row(out, label, place["path"], place["rule"], exists=place["exists"])
        if label == "private":
            for step in place["steps"]:
                value = f" = {step['value']}" if step["value"] and step["verdict"] != "taken" else ""
                out.line(Styled(f"{'':<11}{step['rule']}{value}: {step['verdict']}", "dim"))
        _row(out, "  state", place["state"], "", exists=place["state_exists"])
    if own := facts["own"]:
        _row(out, "project", own["path"], own["rule"])
        _row(out, "  state", own["state"], "", exists=own["state_exists"])
    _row(out, "config", facts["config"]["path"], "", exists=facts["config"]["exists"])
    for note in facts["notes"]:
        out.line(Styled("note: ", "yellow"), note)


def _row(out: Output, label: str, value: str, rule: str, *, exists: bool = True) -> None:
    missing = "" if exists else "; not made yet"
    told = f" ({rule}{missing})" if rule else f" ({missing[2:]})" if missing else ""
    out.line(Styled(f"{label:<11}", "bold"), value, Styled(told, "dim"))


# --- relinking ---
# `relink`: the memory of a project that was moved, renamed or cloned anew, found and put in its place.

# Candidates of this rank or worse belong to a project that is still there.
_ALIVE = 4


@dataclass(frozen=True, slots=True)
class RelinkRequest:
    """Where the memory shall be, whose it shall be, and how long to wait for others."""

    target: Path
    identity: Identity
    environment: Environment
    seconds: float


@click.command(
    "relink",
    short_help="The memory of a project that has moved.",
    cls=CliVerb,
    examples=("memdir relink", "memdir relink --from ~/.claude/projects/-old-place/memory --yes"),
)
@click.option("--from", "source", metavar="DIR", help="The memory directory to take.")
@click.option(
    "--claim", "is_claim", is_flag=True, help="Record this project as the owner of the directory it already uses."
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--yes", is_flag=True, help="Do not ask; without --from take the one candidate that is clear.")
@json_option
@click.pass_obj
def relink_verb(call: CliContext, source: str | None, is_claim: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Find the memory of a project that was moved, renamed or cloned anew, and move it here.

    Without options it lists what it found and why. It never mixes two memories: a directory that already holds
    something is refused.
    """
    if source is not None and is_claim:
        raise click.UsageError("--from and --claim exclude one another")
    wish = _make_wish(call)
    if is_claim:
        if not dry_run:
            claim(wish.target, wish.identity, environment=wish.environment, seconds=wish.seconds)
        _report(call, "claimed", (), wish.target, wish, dry_run=dry_run, as_json=as_json)
        return
    candidates = find_moved_directories(wish.environment, wish.identity)
    chosen = _choose(call, source, candidates, yes=yes)
    if chosen is None or dry_run:
        _report(
            call, "found" if chosen is None else "moved", candidates, chosen, wish, dry_run=dry_run, as_json=as_json
        )
        return
    _confirm(chosen, wish.target, yes=yes)
    move_memory(chosen, wish.target, wish.identity, environment=wish.environment, seconds=wish.seconds)
    _report(call, "moved", candidates, chosen, wish, dry_run=False, as_json=as_json)


def _make_wish(call: CliContext) -> RelinkRequest:
    environment = call.environment
    settings, places = read_paths(environment, call.cwd.absolute())
    place = places.private
    if call.directory is not None or not place.is_keyed:
        rule = "--dir" if call.directory is not None else place.rule
        raise PathError(
            str(place.path), f"{rule} chose this directory, not the project's path", hint="change that rule"
        )
    return RelinkRequest(place.path, find_identity(places.root.path), environment, settings.number("lock_seconds"))


def _choose(call: CliContext, source: str | None, candidates: Sequence[RelinkCandidate], *, yes: bool) -> Path | None:
    """The directory to move; None when there are only candidates to show."""
    if source is not None:
        return _find_source((call.cwd / source).absolute())
    if not candidates:
        hint = "`memdir relink --from DIR` takes a directory you know"
        raise NotFoundError("no memory of a moved project was found", hint=hint)
    if not yes:
        return None
    best = [at for at in candidates if at.rank == candidates[0].rank]
    if len(best) > 1 or best[0].rank >= _ALIVE:
        raise NotFoundError(
            "it is not clear which memory is meant", hint="choose with --from; `memdir relink` lists them"
        )
    return best[0].path


def _find_source(path: Path) -> Path:
    """A memory directory, also when it was called by the project's folder it lies in."""
    check_root(str(path))
    inner = path / "memory"
    return inner if inner.is_dir() and path.parent.name == "projects" else path


def _confirm(source: Path, target: Path, *, yes: bool) -> None:
    if yes:
        return
    if not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise click.UsageError("this moves a directory and nobody can be asked here; say --yes")
    click.confirm(f"Move {str(source)!r} to {str(target)!r}?", abort=True, err=True)


def _report(
    call: CliContext,
    action: str,
    candidates: Sequence[RelinkCandidate],
    chosen: Path | None,
    wish: RelinkRequest,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    if as_json:
        call.out.json(_make_row(action, candidates, chosen, wish, dry_run=dry_run))
        return
    would = "would be " if dry_run else ""
    if action == "claimed":
        call.out.line(f"{wish.target} {would}recorded as the memory of {wish.identity.root}")
    elif action == "moved":
        call.out.line(f"{would}moved {chosen}")
        call.out.line(f"to {wish.target}")
    else:
        for at in candidates:
            call.out.line(Styled(str(at.path), "cyan"), f" ({at.reason})")
        call.out.line("`memdir relink --from DIR` takes one of them; `--yes` takes the first if it is clear")


def _make_row(
    action: str, candidates: Sequence[RelinkCandidate], chosen: Path | None, wish: RelinkRequest, *, dry_run: bool
) -> dict[str, Any]:
    return {
        "action": action,
        "dry_run": dry_run,
        "source": None if chosen is None or action == "claimed" else str(chosen),
        "target": str(wish.target),
        "root": wish.identity.root,
        "candidates": [{"path": str(at.path), "root": at.root, "reason": at.reason} for at in candidates],
    }
