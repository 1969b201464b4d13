"""Small questions about text that several rooms ask: when two names are the same, what is safe to print, what is CJK.

Pure functions; nothing here knows about files.
"""

import re
import unicodedata
from functools import cache

# Invisible or direction-changing characters that print as nothing or reorder what follows; shown escaped on a terminal.
_HIDDEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e0fff]"
)
# Those of them that Python calls printable, below the last line of the class.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")
# Characters that no memory needs and that only serve to deceive a terminal, an editor or a model.
_FORBIDDEN = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f](?<!\r)"
_FORBIDDEN_INLINE = f"[\n\t\r\u2028\u2029]|{_FORBIDDEN}"


def fold(name: str) -> str:
    """The form in which two names are compared: NFKC, then case folded."""
    return name.lower() if name.isascii() else unicodedata.normalize("NFKC", name).casefold()


def fold_link(name: str) -> str:
    """As `fold`, with `_`, `-` and space the same: how `[[links]]` are compared."""
    return re.sub(r"[\s_-]+", "-", fold(name)).strip("-")


def printable(text: str) -> str:
    """Text with every control, hidden or direction-changing character shown as an escape; newline and tab stay."""
    return text if _is_plain(text) else _compile(_HIDDEN).sub(_escape, text)


def one_line(text: str) -> str:
    """Printable text with all white space runs as one space."""
    return printable(" ".join(text.split()))


def shorten(text: str, width: int) -> str:
    """Text of at most `width` characters, cut at a word where there is one, with an ellipsis if anything was cut."""
    if len(text) <= width:
        return text
    cut = text[: max(width - 1, 0)]
    space = cut.rfind(" ")
    return (cut[:space] if space > width // 2 else cut).rstrip(" ,;:.-–—") + "…"


def replace_surrogates(text: str) -> str:
    """Text that encodes as UTF-8, whatever bytes it was decoded from."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def find_forbidden(text: str, *, lines: bool) -> str:
    """What in this text may not be stored, in words: controls, surrogates, tags, direction overrides; or nothing."""
    found = _compile(_FORBIDDEN if lines else _FORBIDDEN_INLINE).search(text)
    return f"the character U+{ord(found.group()):04X}" if found else ""


def _is_plain(text: str) -> bool:
    """Whether a quick look already tells that nothing in it is hidden, as it mostly does."""
    bare = text.replace("\n", "").replace("\t", "")
    if not bare.isprintable():
        return False
    return bare.isascii() or (max(bare) < "\U000e0000" and _UNSEEN.isdisjoint(bare))


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    """Made when a text needs it: sets of such characters take a cold process longer than all it prints."""
    return re.compile(pattern)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
