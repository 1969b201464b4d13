"""A person's own rules and exceptions: `secrets.toml` beside the config file. Never from a project's committed files.

    [[rule]]
    id = "acme-token"
    what = "a token of our gateway"
    pattern = 'acme_[0-9a-f]{40}'

    [[allow]]
    pattern = '^demo-'
    why = "passwords of the public demo"
    rule = "told-password"        # optional: for that rule only
    on_line = false               # optional: look at the whole line, not at the value

Whatever cannot be read raises: a rule that is silently missing would be worse than none.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from memdir.errors import SettingsError
from memdir.frozen import dataclass
from memdir.secrets import find_secrets
from memdir.secrets.records import Allow, Finding, Rule
from memdir.settings import Environment, read_config

FILE = "secrets.toml"
_RULE = {"id": str, "pattern": str, "what": str, "hints": list, "bits": float}
_ALLOW = {"pattern": str, "why": str, "rule": str, "on_line": bool}


@dataclass(frozen=True, slots=True)
class Own:
    """What a person adds to the built-in rules, and what they let pass."""

    rules: tuple[Rule, ...] = ()
    allow: tuple[Allow, ...] = ()


def find_for(environment: Environment, text: str) -> tuple[Finding, ...]:
    """The secrets of a text by the built-in rules and the person's own."""
    own = read_own(environment.config_file.with_name(FILE))
    return find_secrets(text, allow=own.allow, extra=own.rules)


def read_own(path: Path) -> Own:
    """The rules and exceptions of a file, none if there is no such file; raises SettingsError for what is wrong."""
    table = read_config(path)
    for key in table:
        if key not in ("rule", "allow"):
            raise SettingsError(f"{path}: there is no [[{key}]]", key=key, hint="it holds [[rule]] and [[allow]]")
    rules = [_make_rule(row, path) for row in _read_rows(table, "rule", path)]
    return Own(tuple(rules), tuple(_make_allow(row, path) for row in _read_rows(table, "allow", path)))


def _make_rule(row: Mapping[str, object], path: Path) -> Rule:
    _check(row, _RULE, ("id", "pattern"), path)
    hints = row.get("hints", ())
    words = tuple(str(at).lower() for at in hints) if isinstance(hints, list) else ()
    bits = row.get("bits", 0.0)
    what = str(row.get("what") or f"what the rule {row['id']} describes")
    pattern = _check_pattern(row["pattern"], path)
    return Rule(str(row["id"]), what, pattern, words, float(bits) if isinstance(bits, int | float) else 0.0)


def _make_allow(row: Mapping[str, object], path: Path) -> Allow:
    _check(row, _ALLOW, ("pattern", "why"), path)
    pattern = _check_pattern(row["pattern"], path)
    return Allow(pattern, str(row["why"]), str(row.get("rule", "")), row.get("on_line") is True)


def _read_rows(table: Mapping[str, object], key: str, path: Path) -> list[Mapping[str, object]]:
    rows = table.get(key, [])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise SettingsError(f"{path}: {key} is no list of tables", key=key, hint=f"write [[{key}]], with two brackets")
    return rows


def _check(row: Mapping[str, object], fields: Mapping[str, type], needed: tuple[str, ...], path: Path) -> None:
    for key, value in row.items():
        if key not in fields:
            raise SettingsError(f"{path}: {key} is not known there", key=key, hint=f"known: {', '.join(fields)}")
        if not isinstance(value, int | float if fields[key] is float else fields[key]):
            raise SettingsError(f"{path}: {key} is of the wrong type", key=key, hint="see docs/secrets.md")
    for key in needed:
        if not row.get(key):
            raise SettingsError(f"{path}: a row has no {key}", key=key, hint="see docs/secrets.md")


def _check_pattern(pattern: object, path: Path) -> str:
    try:
        found = re.compile(str(pattern)).search("")
    except (re.error, OverflowError, RecursionError) as error:
        message = f"{path}: a pattern is no regular expression: {error}"
        raise SettingsError(message, key="pattern", hint="quote it with '…', so that \\ stays \\") from None
    if found:
        message = f"{path}: a pattern fits nothing at all, so it would fit everywhere"
        raise SettingsError(message, key="pattern", hint="make it more particular")
    return str(pattern)
