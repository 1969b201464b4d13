"""The query: what the person typed in a message, without what the host wrote into it.

Hosts add reminders, the text and output of slash commands, and results of tools to a user's message. The person asked
none of it, and recalling by it would let a memory match itself.
"""

import re
from functools import cache

# Blocks that hosts write: reminders (memdir writes these too), commands, shells, editors and tasks.
_BLOCKS = (
    "system-reminder|command-name|command-message|command-args|local-command-stdout|local-command-stderr|"
    "local-command-caveat|bash-input|bash-stdout|bash-stderr|user-prompt-submit-hook|task-notification|"
    "ide_opened_file|ide_selection|ide_diagnostics|hook_context|session_context"
)
_TAG = re.compile(rf"<(/?)({_BLOCKS})(?:\s[^<>]{{0,200}})?>", re.IGNORECASE)
_HOST_LINE = re.compile(r"/[A-Za-z][\w:-]*(?=\s|$)|\[Request (?:interrupted|cancelled)\b[^\n\]]*\]\Z")
_INDENT = 100  # more white space than this before a tag is not indentation

# Chinese, Japanese and Korean write words without spaces, or in few characters.
_CJK = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff"
    "\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# So do Thai, Lao, Burmese and Khmer, with an alphabet: what looks like one word may be a sentence.
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_PLAIN = re.compile(r"\w+(?:[^\s\w]+\w+)*")
_CJK_CHARS, _UNSPACED_CHARS = 4, 8  # a run of this length counts as more than one word
_READ_CHARS = 2000

# A query is searched for secrets only if it has one of these, or a long word of letters and digits.
_SECRET_WORDS = ("passw", "passphrase", "pwd", "kennwort", "contraseñ", "密码", "口令", "パスワード")
_KEY_CHARS = 16


def strip_host_text(text: str) -> str:
    """Return a message without the host's blocks, slash commands and notices."""
    lines = strip_blocks(text).splitlines()
    return "\n".join(line for line in lines if not _HOST_LINE.match(line.strip())).strip()


def strip_blocks(text: str) -> str:
    """Remove `<system-reminder>…</system-reminder>` and the like; a block that is not closed extends to the end.

    A single opening tag in the middle of a line is text about tags, and stays.
    """
    kept, start, inside = [], 0, ""
    unclosed: set[str] = set()  # names whose end tag does not follow, so that the text is searched once for each
    for tag in _TAG.finditer(text):
        is_end, name = bool(tag[1]), tag[2].lower()
        if inside:
            if is_end and name == inside:
                start, inside = tag.end(), ""
            continue
        before = text[max(start, tag.start() - _INDENT) : tag.start()].rstrip(" \t")
        if is_end or (before and not before.endswith("\n") and not _is_closed(text, tag, unclosed)):
            continue
        kept.append(text[start : tag.start()])
        inside = name
    return "".join(kept if inside else [*kept, text[start:]])


def is_one_word(text: str) -> bool:
    """Whether a query is one word or less. Four CJK characters in a row count as more than one word."""
    if text.isascii():
        words = _PLAIN.finditer(text[:_READ_CHARS])
        return next(words, None) is None or next(words, None) is None
    count = 0
    for cjk, unspaced, _ in _compile_runs().findall(text[:_READ_CHARS]):
        count += 2 if len(cjk) >= _CJK_CHARS or len(unspaced) >= _UNSPACED_CHARS else 1
        if count > 1:
            return False
    return True


def mask_secrets(query: str) -> str:
    """Return a query as the ledger may store it: people paste keys into their prompts."""
    lowered = query.lower()
    words = (word for word in lowered.split() if len(word) >= _KEY_CHARS)
    has_key = any(any(at.isdigit() for at in word) and any("a" <= at <= "z" for at in word) for word in words)
    if not has_key and not any(word in lowered for word in _SECRET_WORDS):
        return query
    # Imported here: few queries contain anything like a key, and the rules take longer to load than a recall.
    from memdir.store.secrets import find_secrets, mask

    return mask(query, find_secrets(query))


def _is_closed(text: str, tag: re.Match[str], unclosed: set[str]) -> bool:
    if tag[2] not in unclosed and text.find(f"</{tag[2]}", tag.end()) < 0:
        unclosed.add(tag[2])
    return tag[2] not in unclosed


@cache
def _compile_runs() -> re.Pattern[str]:
    """Runs of each kind of script, compiled when a text needs them: that takes longer than a search."""
    word, gap = rf"[^\W{_CJK}{_UNSPACED}]+", rf"[^\s\w{_CJK}{_UNSPACED}]+"
    return re.compile(rf"([{_CJK}]+)|([{_UNSPACED}]+)|({word}(?:{gap}{word})*)")
