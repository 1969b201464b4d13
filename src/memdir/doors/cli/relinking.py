"""`relink`: the memory of a project that was moved, renamed or cloned anew, found and put in its place."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.output import Styled, is_terminal
from memdir.doors.cli.verb import Verb, json_option
from memdir.errors import NotFoundError, PathError
from memdir.frozen import dataclass
from memdir.identity import Candidate, Identity, find_identity, find_moved
from memdir.moving import claim, move_memory
from memdir.paths import check_root, read_places
from memdir.settings import Environment

# Candidates of this rank or worse belong to a project that is still there.
_ALIVE = 4


@dataclass(frozen=True, slots=True)
class Wish:
    """Where the memory shall be, whose it shall be, and how long to wait for others."""

    target: Path
    identity: Identity
    environment: Environment
    seconds: float


@click.command(
    "relink",
    short_help="The memory of a project that has moved.",
    cls=Verb,
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
def relink_verb(call: Call, source: str | None, is_claim: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
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
    candidates = find_moved(wish.environment, wish.identity)
    chosen = _choose(call, source, candidates, yes=yes)
    if chosen is None or dry_run:
        _report(
            call, "found" if chosen is None else "moved", candidates, chosen, wish, dry_run=dry_run, as_json=as_json
        )
        return
    _confirm(chosen, wish.target, yes=yes)
    move_memory(chosen, wish.target, wish.identity, environment=wish.environment, seconds=wish.seconds)
    _report(call, "moved", candidates, chosen, wish, dry_run=False, as_json=as_json)


def _make_wish(call: Call) -> Wish:
    environment = call.environment
    settings, places = read_places(environment, call.cwd.absolute())
    place = places.private
    if call.directory is not None or not place.is_keyed:
        rule = "--dir" if call.directory is not None else place.rule
        raise PathError(
            str(place.path), f"{rule} chose this directory, not the project's path", hint="change that rule"
        )
    return Wish(place.path, find_identity(places.root.path), environment, settings.number("lock_seconds"))


def _choose(call: Call, source: str | None, candidates: Sequence[Candidate], *, yes: bool) -> Path | None:
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
    call: Call,
    action: str,
    candidates: Sequence[Candidate],
    chosen: Path | None,
    wish: Wish,
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
    action: str, candidates: Sequence[Candidate], chosen: Path | None, wish: Wish, *, dry_run: bool
) -> dict[str, Any]:
    return {
        "action": action,
        "dry_run": dry_run,
        "source": None if chosen is None or action == "claimed" else str(chosen),
        "target": str(wish.target),
        "root": wish.identity.root,
        "candidates": [{"path": str(at.path), "root": at.root, "reason": at.reason} for at in candidates],
    }
