"""Render recalled memories for a conversation within the limits of hosts.

`fit_memories` puts several memories into one reply of limited size, counted as hosts do: in UTF-16 units and in tokens,
which are estimated.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

from memdir.errors import SettingsError
from memdir.format.shown import quote_memory, show_line, show_memory
from memdir.frozen import compile_late, replace
from memdir.limits import HOOK_CHARS, HOOK_LEAST_CHARS, HOOK_TOKENS
from memdir.records import Excerpt
from memdir.text import estimate_tokens, one_line, shorten, shorten_home

if TYPE_CHECKING:
    from memdir.store.plan import Finder
    from memdir.store.secrets import SecretFinding

_LINE_CHARS = 260  # of the line for a memory that is only named
_GAP = "\n\n"


def shorten_paths(excerpts: Iterable[Excerpt], home: object) -> list[Excerpt]:
    return [replace(excerpt, path=shorten_home(excerpt.path, home)) for excerpt in excerpts]


def fit_memories(
    excerpts: Sequence[Excerpt], *, now: datetime, chars: int = HOOK_CHARS, tokens: int = HOOK_TOKENS
) -> str:
    """Render memories within the limits, best first. The last ones may be shortened to one line or omitted."""
    whole = _GAP.join(show_memory(excerpt, now=now) for excerpt in excerpts)
    if measure_reply(whole) <= chars and has_tokens_at_most(whole, tokens):
        return whole
    fitted = ""
    for number, excerpt in enumerate(excerpts):
        gap = _GAP if fitted else ""
        left, rest = chars - measure_reply(fitted) - len(gap), tokens - estimate_tokens(fitted)
        reserved = min((len(excerpts) - number - 1) * _LINE_CHARS, left // 3)
        text = _render_within(excerpt, now, left - reserved, rest - reserved // 4)
        if not text:
            header = excerpt.header
            about = shorten(one_line(header.description or header.title), 120)
            text = show_line(f"There is also the memory {header.name} ({about}): {excerpt.path}")
        if measure_reply(text) <= left and estimate_tokens(text) <= rest:
            fitted += gap + text
    return fitted


def fit_lines(text: str, chars: int, *, tokens: int = HOOK_TOKENS, where: str = "") -> str:
    """Return as many lines as fit, and a line with the number of omitted lines."""
    if measure_reply(text) <= chars and has_tokens_at_most(text, tokens):
        return text
    lines = text.split("\n")
    fitting = []
    room, rest = chars - 40 - len(where), tokens - 20 - len(where) // 2
    for line in lines:
        room -= measure_reply(line) + 1
        rest -= estimate_tokens(line) + 1
        if room < 0 or rest < 0:
            break
        fitting.append(line)
    more = len(lines) - len(fitting)
    return "\n".join([*fitting, f"({more} more lines{f' in {where}' if where else ''})"]) if fitting else ""


def measure_reply(text: str) -> int:
    """Return the length of a text in UTF-16 code units, as JavaScript counts it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def has_tokens_at_most(text: str, limit: int) -> bool:
    """Return whether a text has at most `limit` tokens. Short texts need not be counted."""
    return len(text) * (0.5 if text.isascii() else 1.25) <= limit or estimate_tokens(text) <= limit


def _render_within(excerpt: Excerpt, now: datetime, chars: int, tokens: int) -> str:
    """Render a memory, shortened to these limits, or return "" if too little of its text would remain."""
    quoted = quote_memory(excerpt)
    whole = show_memory(excerpt, now=now, quoted=quoted)
    size, weight = measure_reply(whole), estimate_tokens(whole)
    if size <= chars and weight <= tokens:
        return whole
    frame = measure_reply(show_memory(replace(excerpt, truncated=True), now=now, quoted="")) + 20
    share = min(1.0, tokens / weight * 0.95) if weight else 1.0
    room = min(chars, int(size * share)) - frame
    if room < HOOK_LEAST_CHARS:
        return ""
    text = _cut_text(quoted, room)
    heads = quoted.count("\n") - excerpt.text.count("\n")
    lines = max(1, text.count("\n") + 1 - heads)
    return show_memory(replace(excerpt, text=text, truncated=True, lines=lines), now=now, quoted=text)


def _cut_text(text: str, room: int) -> str:
    while (over := measure_reply(text) - room) > 0:
        text = text[: len(text) - max(1, over // 2)] if not text.isascii() else text[:room]
    for sign in ("\n", " "):
        end = text.rfind(sign)
        if end > len(text) // 2:
            return text[:end].rstrip()
    return text.rstrip()


# Chinese, Japanese and Korean write words without spaces, or in few characters.
_CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# Thai, Lao, Burmese and Khmer have letters but no spaces, so what looks like one word may be a sentence.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_WORDS = re.compile(r"\w+(?:[^\s\w]+\w+)*")
_CJK_CHARS, _UNSPACED_CHARS = 4, 8  # a run of this length counts as more than one word
_READ_CHARS = 2000

# A text without any of these contains no known secret, so the scanner, which is slow to load, is not needed.
_SUSPECT = compile_late(
    r"pass|pw|phrase|frase|login|cred|kenn|zugang|senha|wacht|parol|sifre|mnemon|seed|shared|identifiant|secr|contra|clave|token|key|auth|\bpin|geheim|"
    r"bearer|curl|account|user|konto|compte|cuenta|usuario|[^\x00-\x7f—–’“”…→äöüßéèêáíóúñ]|\S{12}|://\S*@|[a-z]\d|\d[a-z]",
    re.IGNORECASE,
)


def is_one_word(text: str) -> bool:
    """Return whether a query has at most one word. Several CJK characters count as more than one."""
    if text.isascii():
        words = _WORDS.finditer(text[:_READ_CHARS])
        return next(words, None) is None or next(words, None) is None
    count = 0
    for cjk, unspaced, _ in _compile_runs().findall(text[:_READ_CHARS]):
        count += 2 if len(cjk) >= _CJK_CHARS or len(unspaced) >= _UNSPACED_CHARS else 1
        if count > 1:
            return False
    return True


def mask_secrets(text: str, find: "Finder | None" = None) -> str:
    """Mask the secrets in a text."""
    secrets = find_known_secrets(text, find)
    if not secrets:
        return text
    # Imported here, as below.
    from memdir.store.secrets import mask

    return mask(text, secrets)


def find_known_secrets(text: str, find: "Finder | None" = None) -> "Sequence[SecretFinding]":
    """Return the secrets in a text. `find` is the finder of a store; without it, the default rules apply."""
    if not _SUSPECT.search(text):
        return ()
    # Imported here: few texts have anything like a key, and the rules take longer to load than a recall.
    from memdir.store.secrets import find_secrets

    try:
        return (find or find_secrets)(text)
    except SettingsError:  # the user's own rules cannot be read, which `doctor` reports
        return find_secrets(text)


@cache
def _compile_runs() -> re.Pattern[str]:
    """Compile the pattern for words by script. This is slow, so it is only done when needed."""
    word, gap = rf"[^\W{_CJK}{_UNSPACED}]+", rf"[^\s\w{_CJK}{_UNSPACED}]+"
    return re.compile(rf"([{_CJK}]+)|([{_UNSPACED}]+)|({word}(?:{gap}{word})*)")
