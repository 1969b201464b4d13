"""Relative dates, requests, "ignore memory" and sentences in six natural languages.

The words and patterns are data, one file a language in `data/`, read when a text first needs them: a prompt that does
not speak of memory reads none. `dates`, `ignore` and `requests` each read their own section of a file.
"""

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

CODES = ("en", "de", "fr", "es", "zh", "ja")
_FOLDER = os.path.join(os.path.dirname(__file__), "data")
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def read_section(code: str, name: str, **known: str) -> dict[str, Any]:
    """A section of a language file with its parts filled in; arrays become tuples.

    In a string `{{name}}` stands for that entry of the section's `parts`, or of `known`, and line ends are dropped. A
    part may use those before it.
    """
    section = dict(_read_file(code)[name])
    parts = dict(known)
    for part, text in section.pop("parts", {}).items():
        parts[part] = _fill(text, parts)
    return {key: _fill(value, parts) for key, value in section.items()}


@cache
def _read_file(code: str) -> dict[str, Any]:
    import tomllib

    with open(os.path.join(_FOLDER, f"{code}.toml"), "rb") as file:
        return tomllib.load(file)


def _fill(value: Any, parts: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _SLOT.sub(lambda slot: parts[slot[1]], value.replace("\n", ""))
    if isinstance(value, list):
        return tuple(_fill(at, parts) for at in value)
    return {key: _fill(at, parts) for key, at in value.items()} if isinstance(value, dict) else value
