"""The name Claude Code gives a project's directory, and finding the directory of that name.

The name is lossy: different paths can have the same one. Who owns a directory is a question for identity.
"""

import os
import unicodedata
from collections.abc import Callable
from pathlib import Path

from memdir.limits import SLUG_UNITS


def slug(path: str) -> str:
    """The name of a project's directory, unit for unit as Claude Code computes it (JavaScript counts in UTF-16)."""
    units = _utf16(unicodedata.normalize("NFC", _decode_as_hosts_do(path)))
    name = "".join(chr(unit) if unit < 128 and chr(unit).isalnum() else "-" for unit in units)
    return name if len(name) <= SLUG_UNITS else f"{name[:SLUG_UNITS]}-{_hash(units)}"


def find_project_dir(
    projects: Path, name: str, *, windows: bool = False, is_taken: Callable[[Path], bool] = lambda _: False
) -> Path:
    """The directory of a slug: the one of that name, or for a long one its like from an older hash.

    `is_taken` keeps out the directory of another project whose path begins the same.
    """
    exact = projects / name
    if len(name) <= SLUG_UNITS and not windows:
        return exact
    likes = [path for path in _list_likes(projects, name, windows) if path != exact]
    order = [exact, *(path for path in likes if not is_taken(path))]
    return next((path for path in order if (path / "memory").is_dir()), None) or next(
        (path for path in order if path.is_dir()), exact
    )


def _list_likes(projects: Path, name: str, windows: bool) -> list[Path]:
    """Existing directories whose names may stand for the same path, newest first."""
    prefix, is_long = name[: SLUG_UNITS + 1], len(name) > SLUG_UNITS
    found: list[tuple[int, Path]] = []
    try:
        with os.scandir(projects) as entries:
            for entry in entries:
                other = (
                    name[:1] + entry.name[1:] if windows and entry.name[:1].lower() == name[:1].lower() else entry.name
                )
                if (other.startswith(prefix) if is_long else other == name) and entry.is_dir(follow_symlinks=False):
                    found.append((entry.stat(follow_symlinks=False).st_mtime_ns, Path(entry.path)))
    except OSError:
        return []
    return [path for _, path in sorted(found, reverse=True)]


def _decode_as_hosts_do(path: str) -> str:
    """Bytes of a path that are no UTF-8 are one U+FFFD for each broken run, as JavaScript hosts read them."""
    try:
        return path if path.isascii() else os.fsencode(path).decode("utf-8", "replace")
    except UnicodeEncodeError:  # half a surrogate pair that no file name can hold
        return path


def _utf16(text: str) -> list[int]:
    data = text.encode("utf-16-le", "surrogatepass")
    return [data[i] | data[i + 1] << 8 for i in range(0, len(data), 2)]


def _hash(units: list[int]) -> str:
    """|h·31 + c| in 32 bits, in base 36."""
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    value = 2**32 - value if value >= 2**31 else value
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return digits or "0"
