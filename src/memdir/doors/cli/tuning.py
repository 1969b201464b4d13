"""`config`, `pause` and `resume`: the person's own settings."""

from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from memdir.config_file import remove_setting, write_setting
from memdir.doors.cli.call import Call
from memdir.doors.cli.columns import Column
from memdir.doors.cli.verb import Verb, VerbGroup, json_option
from memdir.doors.cli.words import render_error
from memdir.errors import ModelError
from memdir.options import SETTINGS, Setting, Value, find_setting
from memdir.paths import read_places
from memdir.settings import Settings

_COLUMNS = (
    Column("KEY", "cyan"),
    Column("VALUE", "bold"),
    Column("DEFAULT", "dim"),
    Column("SOURCE", "dim", is_cut=True),
)


def _offer_keys(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(item.key, help=item.help) for item in SETTINGS if item.key.startswith(incomplete)]


_KEY = click.argument("key", shell_complete=_offer_keys)


@click.group("config", short_help="Look at settings and change them.", cls=VerbGroup)
def config_verb() -> None:
    """Look at settings and change your own (docs/settings.md has them all)."""


@config_verb.command("list", examples=("memdir config list", "memdir config list --json"))
@json_option
@click.pass_obj
def _list(call: Call, as_json: bool) -> None:
    """List every setting: key, value, default, and where the value comes from."""
    settings = _read(call)
    rows = [make_setting_row(settings, item) for item in SETTINGS]
    if as_json:
        call.out.json(rows)
        return
    cells = [[at["key"], show_value(at["value"]), show_value(at["default"]), at["source"]] for at in rows]
    call.out.table(_COLUMNS, cells)


@config_verb.command("get", examples=("memdir config get index_order",))
@_KEY
@json_option
@click.pass_obj
def _get(call: Call, key: str, as_json: bool) -> None:
    """Print the value of one setting."""
    item = find_setting(key)
    row = make_setting_row(_read(call), item)
    if as_json:
        call.out.json(row)
    else:
        call.out.line(show_value(row["value"]))


@config_verb.command("set", examples=("memdir config set index_order file",))
@_KEY
@click.argument("value")
@json_option
@click.pass_obj
def _set(call: Call, key: str, value: str, as_json: bool) -> None:
    """Write one setting into your config file; comments and other lines stay."""
    item = find_setting(key)
    problem = _check_model(call, value) if key == "model" else ""
    written = write_setting(call.environment, key, value)
    _report(call, item, f"{key} = {show_value(written)}", as_json=as_json)
    if problem:
        call.out.warn(problem)


@config_verb.command("unset", examples=("memdir config unset index_order",))
@click.argument("key", shell_complete=_offer_keys)
@json_option
@click.pass_obj
def _unset(call: Call, key: str, as_json: bool) -> None:
    """Take one setting out of your config file, so that the default counts again."""
    was_there = remove_setting(call.environment, key)
    known = {item.key: item for item in SETTINGS}.get(key) if was_there else find_setting(key)
    done = f"{key} is unset" if was_there else f"{key} was not set in your config file"
    if known is not None:
        _report(call, known, done, as_json=as_json)
    elif as_json:
        call.out.json({"key": key, "value": None, "default": None, "source": "none"})
    else:
        call.out.line(done)


@click.command("pause", short_help="Remember and recall nothing for a while.", cls=Verb, examples=("memdir pause",))
@json_option
@click.pass_obj
def pause_verb(call: Call, as_json: bool) -> None:
    """Remember nothing in the background and recall nothing until `memdir resume`; what you save is still saved."""
    write_setting(call.environment, "paused", True)
    _report(call, find_setting("paused"), "paused", as_json=as_json)


@click.command("resume", short_help="End a pause.", cls=Verb, examples=("memdir resume",))
@json_option
@click.pass_obj
def resume_verb(call: Call, as_json: bool) -> None:
    """End a pause."""
    remove_setting(call.environment, "paused")
    _report(call, find_setting("paused"), "resumed", as_json=as_json)


def make_setting_row(settings: Settings, item: Setting) -> dict[str, Any]:
    key = item.key
    return {"key": key, "value": settings[key], "default": item.default, "source": settings.sources[key]}


def show_value(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(call: Call) -> Settings:
    return read_places(call.environment, call.cwd.absolute())[0]


def _check_model(call: Call, value: str) -> str:
    """Refuses what names no model; answers what one that does still lacks, such as a key."""
    try:
        # Imported by name: only this one setting needs the room.
        import_module("memdir.models").open_model(value, environment=call.environment)
    except ModelError as error:
        return render_error(error)
    return ""


def _report(call: Call, item: Setting, done: str, *, as_json: bool) -> None:
    """What was done, and what holds now: something stronger may still say otherwise."""
    row = make_setting_row(_read(call), item)
    if as_json:
        call.out.json(row)
        return
    call.out.line(done)
    if row["source"] == item.variable:
        call.out.warn(f"{item.variable} in the environment still says {show_value(row['value'])}")
