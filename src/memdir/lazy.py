"""Regular expressions that are compiled when they are first used, not when their room is imported.

A process of memdir lives for a tenth of a second and imports rooms of which it uses a part. Compiling a pattern takes
as long as importing a small room, and most patterns are never asked.
"""

import re
from typing import Any, cast


class _Late:
    """Stands for a pattern until somebody asks for one of its methods, and keeps that method then."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._given = pattern, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(*self._given), name)
        setattr(self, name, found)
        return found


def compile_late(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """As `re.compile`, later."""
    return cast("re.Pattern[str]", _Late(pattern, flags))
