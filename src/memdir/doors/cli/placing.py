"""`where`: every directory in use, and the rule that chose it."""

from collections.abc import Sequence
from typing import Any

import click

from memdir.doors.cli.call import Call
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.verb import Verb, json_option
from memdir.errors import PathError
from memdir.identity import check_identity
from memdir.paths import Place, Places, Step, find_state_dir, read_places
from memdir.records import Scope
from memdir.settings import Environment


@click.command(
    "where",
    short_help="Which directories, and which rule chose them.",
    cls=Verb,
    examples=("memdir where", "memdir where --json"),
)
@json_option
@click.pass_obj
def where_verb(call: Call, as_json: bool) -> None:
    """Print each directory in use, which rule chose it, and what every rule before it said."""
    environment = call.environment
    _, places = read_places(environment, call.cwd.absolute())
    if call.directory is not None:
        step = Step("--dir", str(call.directory), "taken")
        place = Place(Scope.PRIVATE, call.directory, "--dir", (step,))
        places = Places(places.root, places.switch, place, None, places.notes)
    collision = find_collision(environment, places)
    notes = [*places.notes, *([f"{collision}; {collision.hint}"] if collision else [])]
    facts = _make_facts(environment, places, notes)
    if as_json:
        call.out.json(facts)
    else:
        _show(call.out, facts, places)


def find_collision(environment: Environment, places: Places) -> PathError | None:
    """The refusal if another living project has the same directory."""
    if not places.private.is_keyed:
        return None
    try:
        check_identity(find_state_dir(places.private.path, environment), places.root.path)
    except PathError as error:
        return error
    return None


def _make_facts(environment: Environment, places: Places, notes: Sequence[str]) -> dict[str, Any]:
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


def _make_place(place: Place, environment: Environment) -> dict[str, Any]:
    state = find_state_dir(place.path, environment)
    return {
        "path": str(place.path),
        "exists": place.path.is_dir(),
        "rule": place.rule,
        "steps": [{"rule": at.rule, "value": at.value, "verdict": at.verdict} for at in place.steps],
        "state": str(state),
        "state_exists": state.is_dir(),
    }


def _show(out: Output, facts: dict[str, Any], places: Places) -> None:
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
