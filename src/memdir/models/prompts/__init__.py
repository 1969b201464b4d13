"""Load the prompts: Markdown files in this folder with `{{slots}}` for values.

A missing value and a value without a slot are errors. Values are inserted as they are, even if they contain `{{`.
"""

import re
from functools import cache
from pathlib import Path

from memdir.errors import FormatError

_SLOT = re.compile(r"\{\{(\w+)\}\}")


def render_prompt(name: str, **values: str) -> str:
    """Return a prompt with its slots filled in. `name` is its path in this folder without `.md`."""
    return fill(_read(name), values, where=name)


def fill(text: str, values: dict[str, str], *, where: str = "the prompt") -> str:
    """Return a text with its slots filled in."""
    slots = set(_SLOT.findall(text))
    for slot in sorted(slots ^ set(values)):
        problem = "is not filled" if slot in slots else "does not exist"
        raise FormatError(f"the slot {{{{{slot}}}}} of {where} {problem}", field=slot)
    return _SLOT.sub(lambda match: values[match[1]], text)


@cache
def _read(name: str) -> str:
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")
