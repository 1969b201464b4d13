"""Writing the person's config file: one key at a time, every comment and every other line kept.

It does not read settings for use (settings does), and it never writes a project's committed file. Two writers at the
same moment leave a whole file, but the later one wins: people set one thing at a time.
"""

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

from memdir.errors import SettingsError
from memdir.options import Value, find_setting, parse_value
from memdir.settings import CONFIG_BYTES, Environment, read_config
from memdir.small_files import read_small, write_private

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def write_setting(environment: Environment, key: str, value: object) -> Value:
    """Set one key in the person's config file and return the value as it will be read; raises SettingsError."""
    # Imported here: only `config set` and `pause` write, and tomlkit would cost every hook its import.
    import tomlkit

    checked = parse_value(find_setting(key), value, "the value given")
    document = _read_document(environment.config_file)
    *tables, last = key.split(".")
    table: MutableMapping[str, object] = document
    for name in tables:
        table = _step_into(table.setdefault(name, tomlkit.table()), key)
    table[last] = checked
    _write_document(environment.config_file, document)
    return checked


def remove_setting(environment: Environment, key: str) -> bool:
    """Take one key out of the person's config file, known or not; False when it was not there."""
    document = _read_document(environment.config_file)
    *tables, last = key.split(".")
    table: MutableMapping[str, object] = document
    for name in tables:
        if name not in table:
            return False
        table = _step_into(table[name], key)
    if last not in table:
        return False
    del table[last]
    _write_document(environment.config_file, document)
    return True


def _read_document(path: Path) -> "TOMLDocument":
    import tomlkit  # here, for the reason given above
    from tomlkit.exceptions import TOMLKitError

    read_config(path)  # says in one voice what is wrong with it
    data = read_small(path, CONFIG_BYTES).data or b""
    try:
        return tomlkit.parse(data.decode("utf-8-sig"))
    except (TOMLKitError, ValueError) as error:
        raise SettingsError(f"config file {path} cannot be edited: {error}", hint="change it by hand") from error


def _write_document(path: Path, document: "TOMLDocument") -> None:
    # People keep their config files as links into a folder of their own; the link stays, its target is replaced.
    write_private(Path(os.path.realpath(path)), document.as_string().encode("utf-8"))


def _step_into(table: object, key: str) -> MutableMapping[str, object]:
    if not isinstance(table, MutableMapping):
        raise SettingsError(f"{key} has no table in the config file", key=key, hint="change the file by hand")
    return table
