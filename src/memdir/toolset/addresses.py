"""Addresses of memories for other programs: `memdir://SCOPE/NAME`, and `memdir://index/SCOPE` for an index.

Pure. Whether there is such a memory, and whether it may be read, is for the store to say.
"""

from urllib.parse import quote, unquote

_SCHEME = "memdir://"
_INDEX = "index"


def make_address(scope: str, name: str) -> str:
    return f"{_SCHEME}{scope}/{quote(name, safe='/')}"


def make_index_address(scope: str) -> str:
    return make_address(_INDEX, scope)


def parse_address(text: str) -> tuple[str, str] | None:
    """Scope and name; None for anything else. The scope `index` means the index of the scope that stands as name."""
    if not text.startswith(_SCHEME):
        return None
    scope, _, name = text.removeprefix(_SCHEME).partition("/")
    return (scope, unquote(name, errors="replace")) if scope and name else None


def parse_index_address(text: str) -> str | None:
    """The scope whose index is meant."""
    scope, name = parse_address(text) or ("", "")
    return name if scope == _INDEX else None
