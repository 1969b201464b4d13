"""The texts memdir says to models: Markdown files beside this one or in a folder here, with `{{slots}}` filled once.

A slot that is not given, and a value that has no slot, are errors: both mean that text and code have parted. What a
value says is never looked at again, so `{{` in it is just text. Order and conditions belong to the callers.
"""

import re
from functools import cache
from pathlib import Path

from memdir.errors import FormatError

_SLOT = re.compile(r"\{\{(\w+)\}\}")


def render_prompt(name: str, **values: str) -> str:
    """The text of `name`.md, `folder/name` for one in a folder, with every slot filled; without the file's line end."""
    return fill(_read(name), values, where=name)


def fill(text: str, values: dict[str, str], *, where: str = "the prompt") -> str:
    """A text with every slot filled, in one pass."""
    slots = set(_SLOT.findall(text))
    for slot in sorted(slots ^ set(values)):
        problem = "is not filled" if slot in slots else "does not exist"
        raise FormatError(f"the slot {{{{{slot}}}}} of {where} {problem}", field=slot)
    return _SLOT.sub(lambda match: values[match[1]], text)


@cache
def _read(name: str) -> str:
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8").rstrip("\n")
