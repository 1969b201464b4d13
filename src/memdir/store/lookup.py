"""What a person typed, as one memory: its name, its path, or a title that only one memory has."""

from collections.abc import Sequence
from difflib import get_close_matches

from memdir.errors import NotFoundError
from memdir.records import Header
from memdir.text import fold, fold_link, one_line, shorten


def find_header(headers: Sequence[Header], text: str) -> Header:
    """The memory meant; NotFoundError names what is near, or the several it could be."""
    wanted = text.strip().removeprefix("./").removesuffix(".md")
    for same in (lambda at: at.name == wanted, lambda at: fold(at.name) == fold(wanted)):
        if exact := next((header for header in headers if same(header)), None):
            return exact
    matches = [header for header in headers if fold_link(header.title) == fold_link(wanted)]
    matches = matches or [
        header for header in headers if fold_link(header.name.rpartition("/")[2]) == fold_link(wanted)
    ]
    if len(matches) == 1:
        return matches[0]
    shown = shorten(one_line(text), 60)
    if matches:
        names = ", ".join(header.name for header in matches[:5])
        raise NotFoundError(f"{shown!r} could be any of {names}", name=text, hint="say the name")
    near = get_close_matches(fold(wanted), [fold(header.name) for header in headers], n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "`memdir list` shows what there is"
    raise NotFoundError(f"no memory named {shown!r}", name=text, hint=hint)
