"""A block of ours in a TOML file, between two comments that say so; every other byte stays.

    add_block(text, lines)   a Splice at the end of the file
    cut_block(text)          the text without it

Only our own table goes, with what was put below it: Codex writes new tables before a comment at the end of its file, so
that what stands between our comments is not all ours.
"""

import re
import tomllib

from memdir.errors import FormatError
from memdir.installing.json_text import Splice

BEGIN, END = "# memdir: begin (`memdir uninstall` takes this out)", "# memdir: end"
_BEGINS, _ENDS = BEGIN.partition(" (")[0], END
_OWN = re.compile(r"\[\s*mcp_servers\s*\.\s*memdir\s*[.\]]")


def check_toml(text: str) -> dict[str, object]:
    """The table; raises FormatError."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"it is no valid TOML: {error}", field="toml") from None


def add_block(text: str, lines: str) -> Splice:
    """Put the block behind everything else."""
    newline = "\r\n" if "\r\n" in text else "\n"
    start = "" if not text else newline if text.endswith("\n") else newline * 2
    block = f"{BEGIN}\n{lines.strip()}\n{END}\n".replace("\n", newline)
    return Splice(len(text), start + block)


def has_block(text: str) -> bool:
    return bool(_find_ours(text.splitlines(keepends=True)))


def find_block(text: str) -> str:
    """What stands between our comments and is ours."""
    lines = text.splitlines(keepends=True)
    own = "".join(lines[at] for at in _find_ours(lines) if not lines[at].startswith((_BEGINS, _ENDS)))
    return own.replace("\r\n", "\n").strip()


def cut_block(text: str) -> str:
    """Without our block, and without the empty line that was put before it."""
    lines = text.splitlines(keepends=True)
    ours = _find_ours(lines)
    if ours and ours[0] and not lines[ours[0] - 1].strip():
        ours = [ours[0] - 1, *ours]
    return "".join(line for at, line in enumerate(lines) if at not in ours)


def _find_ours(lines: list[str]) -> list[int]:
    """The numbers of our lines: the comments, and our table up to the next one of somebody else's."""
    begin = next((at for at, line in enumerate(lines) if line.startswith(_BEGINS)), None)
    end = next((at for at, line in enumerate(lines) if line.startswith(_ENDS) and at > (begin or 0)), None)
    if begin is None or end is None:
        return []
    found, is_own = [begin], True
    for at in range(begin + 1, end):
        if lines[at].lstrip().startswith("["):
            is_own = bool(_OWN.match(lines[at].lstrip()))
        if is_own:
            found.append(at)
    return [*found, end]
