"""Separate the text that the user typed from other text in a message, such as pastes and host blocks.

    message --strip_host_text--> the query that a host was given
    message --split_typed------> spans: the user's own text, and untrusted text (pastes, files, blocks of hosts)

The transcript readers mark messages that the host wrote as meta (`is_meta`). If a host writes into the user's message, they
call `split_codex_parts` or `split_gemini_parts`; the rest is split here in the same way. Other text that neither the user nor
the agent wrote is untrusted too: tool results, files, attachments. The agent may repeat it, so runs of five words of
untrusted text are recognised by their hashes, which are kept with the session, and `cut_echoes` removes sentences with such a
run.
"""

import re
import zlib
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from memdir.frozen import compile_late, dataclass
from memdir.language import compile_any
from memdir.limits import FOREIGN_RUNS
from memdir.records import Message
from memdir.text import CJK, decode_percent, fold_words

if TYPE_CHECKING:
    from memdir.language.statements import LinearModel

OMITTED = "[…]"
_UNKNOWN = "[a passage of unknown origin, typed or pasted by the person; by itself it is no evidence]"
_RUN, _RUN_CJK = 5, 8  # number of words, or CJK characters, in a row that two texts do not share by chance
_LETTERS = 24  # letters in a row, about as many as five words have
_SPREAD = 24  # max lines over which a repeated sentence may be spread
_REPLY_CHARS = 1_000  # max characters shown of the agent's message that the user replied to
_WIDE = compile_late(rf"[{CJK}]")
_ENCODED = compile_late(r"[A-Za-z0-9+/]{24,}={0,2}")
_ESCAPED = compile_late(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")


class SpanOrigin(StrEnum):
    TYPED = "typed"
    UNKNOWN = "unknown"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class MessageSpan:
    """A part of a message with its origin. `why` explains why it may not be typed by the user."""

    text: str
    start: int
    end: int
    origin: SpanOrigin
    why: str = ""

    @property
    def plain(self) -> bool:
        return self.origin is SpanOrigin.TYPED


@dataclass(frozen=True, slots=True)
class TypedMessage:
    """The text that the user typed in a message, with the agent's text before it.

    `shown` also contains passages of unknown origin, each fenced below a label.
    """

    text: str
    reply_to: str = ""
    id: str = ""
    at: datetime | None = None
    shown: str = ""


def is_by_person(message: Message) -> bool:
    """Return whether the user sent this message, as opposed to the host or a tool."""
    return message.role == "user" and not message.is_meta and not message.answers


def split_typed(message: Message) -> tuple[MessageSpan, ...]:
    """Split a user's message into typed and other text, without memdir's reminders. Returns () for other messages."""
    return split_message(strip_reminders(message.text)) if is_by_person(message) else ()


def find_typed(message: Message, *, uncertain: bool = False) -> str:
    """Return the text that the user typed in a message. With `uncertain`, include text of unknown origin."""
    origins = (SpanOrigin.TYPED, SpanOrigin.UNKNOWN) if uncertain else (SpanOrigin.TYPED,)
    return "".join(span.text if span.origin in origins else "\n" for span in split_typed(message)).strip()


def show_typed(message: Message, foreign: str = "\n") -> str:
    """Render a user's message for a model. Passages of unknown origin get a label, and `foreign` replaces others."""
    parts = []
    for span in split_typed(message):
        text = span.text.strip()
        if span.plain or not text:
            parts.append(span.text)
        elif span.origin is SpanOrigin.FOREIGN:
            parts.append(foreign.format(lines=len(text.splitlines())))
        else:
            ticks = max(map(len, re.findall(r"`+", text)), default=0)
            fence = "`" * max(3, ticks + 1)
            parts.append(f"\n{_UNKNOWN}\n{fence}\n{text}\n{fence}\n")
    return "".join(parts).strip()


def list_typed(messages: Sequence[Message], foreign: Set[int]) -> tuple[TypedMessage, ...]:
    """Return the text that the user typed in each message, with the agent's text before it."""
    typed: list[TypedMessage] = []
    reply = ""
    for message in messages:
        if message.role == "assistant" and message.text.strip():
            reply = message.text
        elif shown := show_typed(message):
            reply_to = cut_echoes(_cut_middle(reply), foreign)
            typed.append(TypedMessage(find_typed(message), reply_to, message.id, message.at, shown))
            reply = ""
    return tuple(typed)


def find_runs(text: str) -> set[int]:
    """Return the hashes of all sequences of five words, or of eight Chinese or Japanese characters.

    Also includes half of all sequences of 24 letters, chosen by their hash, regardless of word boundaries.
    """
    folded = fold_words(text)
    words, letters = folded.split(), folded.replace(" ", "")
    runs = {_hash(letters[start : start + _LETTERS]) for start in range(len(letters) - _LETTERS + 1)}
    runs = {run for run in runs if run % 2 == 0}
    for start in range(len(words) - _RUN + 1):
        width = _RUN_CJK if any(map(_WIDE.match, words[start : start + 3])) else _RUN
        if start + width <= len(words):
            runs.add(_hash(" ".join(words[start : start + width])))
    return runs


def _hash(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _decode(text: str) -> Iterator[str]:
    """Yield the decoded text of base64, percent-encoded and escaped parts."""
    for match in _ENCODED.finditer(text):
        with suppress(ValueError):
            yield b64decode(match[0] + "=" * (-len(match[0]) % 4)).decode("utf-8")
    if (decoded := decode_percent(text)) is not None:
        yield decoded.text
    if "\\" in text:
        yield _ESCAPED.sub(lambda code: chr(int(code[1] or code[2], 16)), text)


def collect_foreign(messages: Iterable[Message], earlier: Iterable[int] = ()) -> tuple[int, ...]:
    """Return the hashes of all text that neither the user nor the agent wrote, up to the limit, newest last."""
    runs = dict.fromkeys(earlier)
    for message in messages:
        if message.role == "assistant" and not (message.is_meta or message.answers):
            continue
        pieces = [span.text for span in split_typed(message) if not span.plain]
        for piece in pieces if is_by_person(message) else [message.text]:
            for reading in (piece, *_decode(piece)):
                runs.update(dict.fromkeys(find_runs(reading)))
    return tuple(runs)[-FOREIGN_RUNS:]


def cut_echoes(text: str, foreign: Set[int]) -> str:
    """Remove the sentences from an agent's text that repeat untrusted text."""
    if not foreign or foreign.isdisjoint(find_runs(text)):
        return text
    # Imported here: a prompt needs only `strip_host_text`, and these patterns take longer to compile than a search.
    from memdir.language.sentences import find_sentences

    sentences = [text[start:end] for start, end in find_sentences(text)]
    parts = [sentence if foreign.isdisjoint(find_runs(sentence)) else OMITTED for sentence in sentences]
    for start in range(len(parts)) if not foreign.isdisjoint(find_runs("\n".join(parts))) else ():
        end = start + 1  # a sentence may be spread over lines
        while end < len(parts) and OMITTED not in parts[start : end + 1] and end - start < _SPREAD:
            end += 1
            if not foreign.isdisjoint(find_runs("\n".join(parts[start:end]))):
                parts[start:end] = [OMITTED] * (end - start)
    return re.sub(rf"(?:{re.escape(OMITTED)}\s*)+", f"{OMITTED} ", " ".join(parts)).strip()


def _cut_middle(text: str) -> str:
    half = _REPLY_CHARS // 2
    return text if len(text) <= _REPLY_CHARS else f"{text[:half]} {OMITTED} {text[-half:]}"


# --- text that a host wrote into a message ---------------------------------------------------------------------------
# Hosts add reminders, the text and output of slash commands, and tool results to a user's message. The user did not write
# them, and using them for recall would let a memory match itself.

# Blocks that hosts write: reminders (memdir writes these too), commands, shells, editors and tasks.
_HOST_TAGS = (
    "system-reminder|command-name|command-message|command-args|local-command-stdout|local-command-stderr|"
    "local-command-caveat|bash-input|bash-stdout|bash-stderr|user-prompt-submit-hook|task-notification|"
    "ide_opened_file|ide_selection|ide_diagnostics|hook_context|session_context"
)
_HOST_TAG = compile_late(rf"<(/?)({_HOST_TAGS})(?:\s[^<>]{{0,200}})?>", re.IGNORECASE)
_HOST_LINE = compile_late(r"/[A-Za-z][\w:-]*(?=\s|$)|\[Request (?:interrupted|cancelled)\b[^\n\]]*\]\Z")
_INDENT = 100  # max characters before a tag that are checked for indentation
# Files that Gemini CLI puts below a prompt that names them.
_FILES, _FILES_END = "--- Content from referenced files ---", "--- End of content ---"
# A file may contain the end mark itself, so the last one counts.
_ATTACHED = compile_late(rf"^{_FILES}$.*(?:^{_FILES_END}$|\Z)", re.MULTILINE | re.DOTALL)
# Complete parts of a message that a client sends in the user's name.
_GEMINI_START = ("<session_context>", "This is the Gemini CLI. We are setting up the context")
_GEMINI_SNAPSHOT = "<state_snapshot>"  # the model's thinking may come before it
_CODEX_WRAPPED = compile_late(
    r"<([a-z]+(?:_[a-z]+)+|skill|tools|INSTRUCTIONS)(?:\s[^<>]*)?>.*</\1>|# AGENTS\.md instructions.*</INSTRUCTIONS>",
    re.DOTALL,
)
_CODEX_REQUEST = "## My request for Codex:"  # the editor's context comes before it


def strip_host_text(text: str) -> str:
    """Remove the host's blocks, attached files, slash commands and notices from a message."""
    lines = strip_blocks(_ATTACHED.sub("", text)).splitlines()
    return "\n".join(line for line in lines if not _HOST_LINE.match(line.strip())).strip()


def strip_blocks(text: str) -> str:
    """Remove blocks such as `<system-reminder>…`. An unclosed block extends to the end of the text."""
    parts, start, inside = [], 0, ""
    unclosed: set[str] = set()  # names without a later end tag, so that the text is searched only once for each name
    for tag in _HOST_TAG.finditer(text) if "<" in text else ():
        is_end, name = bool(tag[1]), tag[2].lower()
        if inside:
            if is_end and name == inside:
                start, inside = tag.end(), ""
            continue
        before = text[max(start, tag.start() - _INDENT) : tag.start()].rstrip(" \t")
        if is_end or (before and not before.endswith("\n") and not _is_closed(text, tag, unclosed)):
            continue
        parts.append(text[start : tag.start()])
        inside = name
    return "".join(parts if inside else [*parts, text[start:]])


def split_codex_parts(parts: Iterable[str]) -> tuple[str, str]:
    """Return the typed text of a message and the text that Codex inserted. The context of an editor is dropped."""
    typed, inserted = [], []
    for part in parts:
        if _CODEX_WRAPPED.fullmatch(part.strip()):
            inserted.append(part)
            continue
        typed.append(part[_find_codex_request(part) :].strip())
    return "\n\n".join(filter(None, typed)), "\n\n".join(inserted)


def _find_codex_request(text: str) -> int:
    """Return the offset of the user's request after an editor's context, or 0."""
    mark = text.rfind(f"\n{_CODEX_REQUEST}") if text.lstrip().startswith("# ") else -1
    return 0 if mark < 0 else mark + 1 + len(_CODEX_REQUEST)


def split_gemini_parts(parts: Iterable[str], hook_tags: Sequence[str] = ("hook_context",)) -> tuple[str, str]:
    """Return the typed text of a message and the text that Gemini CLI or hooks inserted. Hooks use `hook_tags`."""
    typed, inserted, is_file = [], [], False
    for part in parts:
        is_file = is_file or part.strip().startswith(_FILES)
        if is_file or part.lstrip().startswith(_GEMINI_START) or _GEMINI_SNAPSHOT in part:
            inserted.append(part)
            is_file = is_file and part.strip() != _FILES_END
            continue
        for mark, end_mark in ((f"<{tag}>", f"</{tag}>") for tag in hook_tags):  # the client escapes `<` between them
            own, offset = [], 0  # a pattern would take quadratic time on unclosed marks
            while (start := part.find(mark, offset)) >= 0 and (end := part.find(end_mark, start)) >= 0:
                own.append(part[offset:start])
                inserted.append(part[start + len(mark) : end])
                offset = end + len(end_mark)
            part = "".join((*own, part[offset:]))
        typed.append(part)
    first, second = (list(filter(None, map(str.strip, texts))) for texts in (typed, inserted))
    return "\n\n".join(first), "\n\n".join(second)


def _is_closed(text: str, tag: re.Match[str], unclosed: set[str]) -> bool:
    if tag[2] not in unclosed and text.find(f"</{tag[2]}", tag.end()) < 0:
        unclosed.add(tag[2])
    return tag[2] not in unclosed


# --- memdir's own reminders ------------------------------------------------------------------------------------------
# A memory must not be learned from its own reminder.

_TAG = compile_late(r"<\s*(/?)\s*system-reminder\b[^<>]{0,200}>", re.IGNORECASE)
# The line before a memory's text or the standing rules, perhaps after words of the host ("… additional context: ").
_HEADER = compile_late(
    r"^(?:[^\n]{0,120}?:[ \t]+)?(?:Memory(?: \(saved (?:today|yesterday|\d+ days ago)\))?: [^\n]{1,4096}\.md:|"
    r"(?:The s|S)tanding rules from memory, [^\n]{1,40}:)[ \t]*\r?$",
    re.MULTILINE,
)
_NOTED = compile_late(r"This was noted \d+ days? ago and describes that moment")
_LINES_ABOVE = 2  # lines that may come before a header: the memory's age, and a caveat


def strip_reminders(text: str) -> str:
    """Remove memories that memdir inserted into a message, even if the reminders are nested or truncated."""
    if not _HEADER.search(text) and not _TAG.search(text):
        return text
    rest = "".join(part for part, ours in _split_blocks(text) if not ours)
    if rest == text and not _HEADER.search(rest):
        return text
    while header := _HEADER.search(rest):
        tag = _TAG.search(rest, header.end())
        rest = rest[: _find_start(rest, header.start())] + (rest[tag.start() :] if tag else "")
    return rest.strip()


def _split_blocks(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the outermost blocks and the text between them, and whether each contains a memory."""
    offset = start = depth = 0
    for tag in _TAG.finditer(text):
        if not tag[1]:
            if depth == 0:
                yield text[offset : tag.start()], False
                start = tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                offset = tag.end()
                yield text[start:offset], _HEADER.search(text, start, offset) is not None
        elif _is_alone(text, tag):
            # The beginning was cut off, so the text before belongs to the block.
            offset = tag.end()
            yield "", True
    if depth:
        yield text[start:], _HEADER.search(text, start) is not None
    else:
        yield text[offset:], False


def _is_alone(text: str, tag: re.Match[str]) -> bool:
    line = text[text.rfind("\n", 0, tag.start()) + 1 : (text.find("\n", tag.end()) + 1 or len(text) + 1) - 1]
    return line.strip() == tag[0].strip()


def _find_start(text: str, header: int) -> int:
    """Return the offset where a reminder begins, including the sentence about its age."""
    start = header
    for _ in range(_LINES_ABOVE):
        above = text.rfind("\n", 0, max(start - 1, 0)) + 1
        if above >= start:
            break
        if _NOTED.search(text, above, start):
            return above
        start = above
    return header


# --- the user's own text and untrusted text ---------------------------------------------------------------------------
# First find marked regions: client blocks, tags, fences and quotations are untrusted. A paste may contain a false
# end mark, so a marked region extends from its first opening mark to the last closing one.

_QUOTE_CHARS = 40  # max characters between quotation marks; a longer quotation is not the user's own text
_WIDE_LETTERS = 2.5  # how many letters a Chinese or Japanese character counts as

_QUOTED = "quoted"

Region = tuple[int, int, str, SpanOrigin]

_FOREIGN_TAGS = f"{_HOST_TAGS}|function_results|tool_result|document|file|context|attachment"
_WIDE_CHAR = compile_late(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_MARKUP_TAG = compile_late(r"<(/?)([A-Za-z][\w:.-]{0,60})(?:\s[^<>]{0,400})?/?>")
_FENCE = compile_late(
    r"^[ \t>]*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]++)?(?:`{3,}[^`\n]*|~{3,}[ \t]*[\w+-]*[ \t]*|\"{3}[ \t]*)$", re.MULTILINE
)
_QUOTED_LINE = compile_late(r"^[ \t]*(?:[>＞▎│]|&gt;)", re.MULTILINE)
_RULE = compile_late(
    r"^[ \t]*+(?:-{3,}+|={3,}+|\*{3,}+|_{3,}+|—{2,}+|#{4,}+|~{2,}+|\+{3,}+|─{3,}+)[ \t]*+$", re.MULTILINE
)
_BEGIN = compile_late(r"^[^\n\w]{0,12}(?:BEGIN|START)\b[^\n]{0,60}$", re.MULTILINE)
_END = compile_late(r"^[^\n\w]{0,12}(?:END|STOP)\b[^\n]{0,60}$", re.MULTILINE)
_HIDDEN = compile_late("[\u200b\u2060-\u2064\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_QUOTES = compile_late(
    r"“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|‹[^‹›]*›|「[^「」]*」|『[^『』]*』|《[^《》]*》|"
    r"(?<![\w\"])\"[^\"\n]+(?:\n[^\"\n]+){0,20}\"(?![\w\"])|‘[^‘’\n]{40,}’(?!\w)|(?<![\w'])'[^'\n]{40,}'(?!\w)|``[^`]+``"
)
_STAMP = (
    r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d(?::\d\d)?[.,\]]|\d\d:\d\d:\d\d |\w{3} +\d+ \d\d:\d\d:\d\d |"
    r"\[ *\d+(?:\.\d+|%)\] "
)
_MACHINE = compile_late(
    rf"[ \t]*+(?:{_STAMP}|(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|TRACE)\b[\s:\]|]|\[(?:error|warn|info|debug)|"
    r"Traceback \(|File \"[^\n]+\", line \d+|at \S+ ?\(|Caused by:|[\w.:]*(?:Error|Exception)\b[\w ]{0,40}: |panic: |"
    r"goroutine \d|exit status \d|fatal: |(?:FAIL|PASS|ok|TASK|PLAY|Tests:|E)(?:[ \t]{2,}|[ \t]+\[)|[A-Z]{4}[^\n]*\*{5}|[●✕✗✓×] |"
    r"(?:/|[A-Z]:\\)?[\w./\\+-]+\.\w{1,5}:\d+(?::\d+)?(?::| )|\S*make(?:\[\d+\])?: \*\*\*|\S*/ld: |"
    r"[$%] \w|>>> |PS [A-Z]:|[\w.-]{1,40}@[\w.-]{1,60}[:~]\S{0,80} ?[$#] |npm (?:ERR|WARN)|"
    r"diff --git|(?:index|commit) [0-9a-f]{6}|@@ |\+\+\+ |--- \S|[-+]\t|[-+] {2,}\S|"
    r"[{}\[\]()]+[,;]?[ \t]*$|\"[\w-]+\"[ \t]*:|HTTP/\d|(?:GET|POST|PUT|DELETE) /|[|+][-=|+ ]{3,}|\d+[ \t]*[|│][ \t])"
)
# A line of code by its end or its beginning; prose seldom ends in any of these.
_CODE_LINE = compile_late(
    r"[ \t]*+(?:[^\n]*[;{}]|[^\n]*\)[,:]?|[^\n]*\w\([^\n]*\)[^\w\n]*|(?:return|import|from \S+ import|def|class|func|fn|const|let|var|"
    r"if|for|while|public|private|#include|package|using|else|end|SELECT|FROM|WHERE|JOIN|ORDER BY|"
    r"GROUP BY|@\w+)\b[^\n]*[(){}=;:<>][^\n]*|[\w.]+(?:\[[^\]\n]*\])? [:+-]?= [^\n]+|</?\w[^\n]*>)[ \t]*$"
)
_KEY_LINE = compile_late(r"[ \t]*+(?:- )?[\w./-]{1,40}:(?:[ \t]+\S{1,60})?[ \t]*$")
_PROMPT = compile_late(r"[ \t]*+(?:[\w.-]{1,40}@[\w.-]{1,60}[:~]\S{0,80} ?[$#] |Traceback \(|panic: )")
_CHAT_LINE = compile_late(
    r"[ \t]*+(?:\[\d{1,2}[:：]\d\d|\d{1,4}[-./]\d{1,2}[-./]\d{1,4},? {1,3}\d{1,2}:\d\d|"
    r"\d{1,2}:\d\d(?::\d\d)?(?: ?[AP]M)?[ \t]+\S|"
    r"@?[\w.-]{2,30}(?: \w{2,20})?(?: [\[(]|[ \t]+)\d{1,2}:\d\d(?::\d\d)?(?: ?[AP]M)?[\])]?[ \t]*(?:$|:))"
)
_SPEAKER = compile_late(r"[ \t]*+(?:\*\*)?[A-Z][\w.-]{1,20}(?: [A-Z][\w.-]{1,20})?(?:\*\*)?: \S")
_SYMBOL = compile_late(r"[{}<>=\\_]|//|::")
_REQUEST_TAG = "<userRequest>"  # after the blocks of VS Code
_ITEM = compile_late(r"^[ \t]*+(?:[-*+•・]|\d{1,2}[.)、．])[ \t]*+", re.MULTILINE)


@lru_cache(maxsize=8)  # each run splits the same messages several times
def split_message(text: str) -> tuple[MessageSpan, ...]:
    marked = find_marks(text)
    return tuple(_make_spans(text, _join(text, _merge([*marked, *_find_separate_lines(text, marked)]))))


def _make_spans(text: str, regions: list[Region]) -> Iterator[MessageSpan]:
    offset = 0
    for start, end, why, origin in [*regions, (len(text), len(text), "", SpanOrigin.TYPED)]:
        if start > offset:
            yield MessageSpan(text[offset:start], offset, start, SpanOrigin.TYPED)
        if end > start:
            yield MessageSpan(text[start:end], start, end, origin, why)
        offset = end


def _merge(regions: Iterable[Region]) -> list[Region]:
    """Merge overlapping regions and sort them. Untrusted regions take precedence over those of unknown origin."""
    merged: list[Region] = []
    for start, end, why, origin in sorted(regions, key=lambda region: (region[0], -region[1])):
        if merged and start < merged[-1][1]:
            first, last, reason, before = merged[-1]
            if origin is before:
                merged[-1] = first, max(end, last), reason, before
                continue
            if before is SpanOrigin.FOREIGN:
                start = last
            else:
                merged[-1] = first, start, reason, before
                merged += [(start, end, why, origin)]
                start, end, why, origin = end, last, reason, before
        if end > start:
            merged.append((start, end, why, origin))
    return [region for region in merged if region[1] > region[0]]


def _measure(text: str) -> float:
    """Return the length in letters. Chinese and Japanese characters count as several letters."""
    wide = 0 if text.isascii() else len(_WIDE_CHAR.findall(text))
    return len(text.strip()) + (_WIDE_LETTERS - 1) * wide


def _join(text: str, regions: Sequence[Region]) -> list[Region]:
    """Join regions of the same origin with nothing but white space between them."""
    joined: list[Region] = []
    for start, end, why, origin in regions:
        if joined and joined[-1][2:] == (why, origin) and not text[joined[-1][1] : start].strip():
            joined[-1] = joined[-1][0], end, why, origin
        else:
            joined.append((start, end, why, origin))
    return joined


def _find_client_blocks(text: str) -> Iterator[Region]:
    """Yield the text that an editor or client inserts around the user's request."""
    if (end := _find_codex_request(text)) > 0:
        yield 0, end, "an editor's context", SpanOrigin.FOREIGN
    for files in _ATTACHED.finditer(text):
        yield files.start(), files.end(), "referenced files", SpanOrigin.FOREIGN
    if (start := text.rfind(_REQUEST_TAG)) >= 0 and text.lstrip().startswith("<"):
        stop = text.find(f"</{_REQUEST_TAG[1:]}", start)
        yield 0, start + len(_REQUEST_TAG), "an editor's context", SpanOrigin.FOREIGN
        yield (stop if stop >= 0 else len(text)), len(text), "an editor's context", SpanOrigin.FOREIGN


def find_marks(text: str) -> list[Region]:
    """Return the regions that are untrusted because of their form, such as tags, fences and quotations."""
    marks = ((*mark, SpanOrigin.FOREIGN) for mark in _find_marks(text))
    return _merge([*_find_client_blocks(text), *marks])


def _find_marks(text: str) -> Iterator[tuple[int, int, str]]:
    yield from _find_tagged(text)
    yield from _find_between(text, list(_FENCE.finditer(text)), "fenced")
    if begin := _BEGIN.search(text):
        ends = list(_END.finditer(text, begin.end()))
        yield begin.start(), ends[-1].end() if ends else len(text), "begin and end"
    for quote in _QUOTES.finditer(text):
        is_said = len(quote[0].split()) > 2 and compile_any("said").search(
            text, max(0, quote.start() - 40), quote.start()
        )
        if _measure(quote[0]) - 2 > _QUOTE_CHARS or is_said:
            yield quote.start(), quote.end(), _QUOTED
    for pattern, why in (
        (_HIDDEN, "hidden characters"),
        (_QUOTED_LINE, "quoted line"),
        (compile_any("role"), "speaker"),
    ):
        for match in pattern.finditer(text):
            yield *_find_line(text, match.end() - 1), why


def _find_between(text: str, marks: list[re.Match[str]], why: str) -> Iterator[tuple[int, int, str]]:
    """Yield the region from the first mark to the last, or to the end of the text if a mark is unpaired."""
    if marks:
        yield marks[0].start(), marks[-1].end() if len(marks) % 2 == 0 else len(text), why


def _find_tagged(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the regions between matching tags. Tags around a few words are treated as formatting."""
    opened: dict[str, re.Match[str]] = {}
    closed: dict[str, int] = {}
    for tag in _MARKUP_TAG.finditer(text):
        name = tag[2].lower()
        if name == _REQUEST_TAG[1:-1].lower():
            continue
        if tag[1]:
            closed[name] = tag.end()
        else:
            opened.setdefault(name, tag)
    for name, tag in opened.items():
        is_host = re.fullmatch(_FOREIGN_TAGS, name) is not None
        end = closed.get(name, 0)
        if end > tag.end() and (is_host or end - tag.end() > _QUOTE_CHARS + len(name) + 3):
            yield tag.start(), end, f"<{name}>"
        elif end <= tag.end() and is_host and not text[_find_line(text, tag.start())[0] : tag.start()].strip():
            yield tag.start(), len(text), f"<{name}>"
    for name in closed.keys() - opened.keys():
        if re.fullmatch(_FOREIGN_TAGS, name):
            yield 0, closed[name], f"</{name}>"


def _find_line(text: str, offset: int) -> tuple[int, int]:
    end = text.find("\n", offset)
    return text.rfind("\n", 0, offset) + 1, len(text) if end < 0 else end


# --- lines outside marked regions ------------------------------------------------------------------------------------
# A linear model classifies each line by its form, its neighbours and what the message asks for; `benchmarks/typed.py`
# fits the model. If the score is between both limits, the origin is unknown.

_LINES = 400  # max lines of a message that are classified, half at each end; nobody types more
_TYPED_BELOW, _PASTED_ABOVE = -2.2, 3.0  # limits for the score of a line
_SIGNS = {
    "machine": _MACHINE,
    "code": _CODE_LINE,
    "key": _KEY_LINE,
    "prompt": _PROMPT,
    "chat": _CHAT_LINE,
    "speaker": _SPEAKER,
    "quoted": _QUOTED_LINE,
    "item": _ITEM,
    "rule": _RULE,
}
_PHRASES = (
    "mail_head", "voice", "greeting", "greeting_line", "close", "text_work", "this_text", "lead_in", "work_text",
    "points_back", "said", "role", "forwarded",
)  # fmt: skip
_ASKS = ("text_work", "this_text", "lead_in", "work_text", "voice", "points_back", "?")
# If a message has none of these signs, nothing in it suggests a paste.
_DOUBTS = frozenset((*_SIGNS, *_PHRASES)) - {"item", "voice", "work_text", "said"}
PLAIN_DOUBT = "no sign of a paste"  # the reason for an unknown origin in such a message
_SURE = frozenset(("machine", "prompt", "quoted", "mail_head", "forwarded", "role"))  # each decides a single line


@dataclass(frozen=True, slots=True)
class MessageLine:
    """A line of a message with its signs. If it `is_marked`, it is already known to be untrusted."""

    start: int
    text: str
    signs: frozenset[str]
    is_marked: bool = False


def read_lines(text: str, marked: Sequence[Region]) -> list[MessageLine | None]:
    """Return the lines of a message, and None for each that is blank or in the middle of a very long message."""
    lines: list[MessageLine | None] = []
    start, spans, texts = 0, [(first, last) for first, last, *_ in marked], text.split("\n")
    for number, line in enumerate(texts):
        end = start + len(line)
        is_judged = line.strip() and not _LINES // 2 <= number < len(texts) - _LINES // 2
        is_marked = is_judged and any(first <= start and end <= last for first, last in spans)
        lines.append(MessageLine(start, line, _list_signs(line), bool(is_marked)) if is_judged else None)
        start = end + 1
    return lines


def _list_signs(line: str) -> frozenset[str]:
    """Return the signs of a line, without regard to other lines."""
    text = line.strip()
    letters, digits = (sum(map(test, text)) for test in (str.isalpha, str.isdigit))
    signs = {name for name, pattern in _SIGNS.items() if pattern.match(line)}
    signs |= {name for name in _PHRASES if compile_any(name).search(line)}
    signs |= {f"length {min(7, len(text).bit_length())}", f"letters {5 * letters // len(text)}"}
    signs |= {f"digits {min(4, 10 * digits // len(text))}", f"end {text[-1] if not text[-1].isalnum() else 'a'}"}
    signs |= {f"columns {min(3, max(text.count(mark) for mark in (';', ',', chr(9), '|')))}"}
    signs |= {"indented"} if line[0] in " \t" else set()
    signs |= {"upper"} if text[0].isupper() else {"lower"} if text[0].islower() else set()
    return frozenset(signs | ({"?"} if "?" in text else set()) | ({"symbol"} if _SYMBOL.search(text) else set()))


def describe_line(lines: Sequence[MessageLine | None], number: int, words: Set[str]) -> set[str]:
    """Return the features of a line for the model: from the line, its neighbours, its paragraph and the message."""
    from memdir.language.statements import list_features

    line = lines[number]
    assert line is not None
    full = [index for index, other in enumerate(lines) if other is not None]
    all_lines = [other for other in lines if other is not None]
    place, count = full.index(number), len(full)
    features = {*line.signs, *(f"w {feature}" for feature in list_features(line.text, words))}
    features |= {
        f"place {min(4, place)}",
        f"from end {min(4, count - 1 - place)}",
        f"lines {min(9, count.bit_length())}",
    }
    for name, index in (("above", place - 1), ("below", place + 1)):
        if 0 <= index < count:
            other = all_lines[index]
            features |= {f"{name} {sign}" for sign in other.signs} | {
                f"{name} {'marked' if other.is_marked else 'open'}"
            }
            features |= {f"{name} apart"} if abs(full[index] - number) > 1 else set()
        else:
            features.add(f"{name} none")
    start = max((index + 1 for index in range(number) if lines[index] is None), default=0)
    stop = next((index for index in range(number, len(lines)) if lines[index] is None), len(lines))
    features |= _count_signs("paragraph", all_lines[full.index(start) : full.index(start) + stop - start], 3)
    features |= {f"first {sign}" for sign in _ASKS if sign in all_lines[0].signs}
    features |= {f"last {sign}" for sign in _ASKS if sign in all_lines[-1].signs}
    return features | _count_signs("message", all_lines, 4)


def _count_signs(name: str, lines: Sequence[MessageLine], parts: int) -> set[str]:
    """Return the share of lines with each sign, and the number of lines."""
    shown = {*_SIGNS, *_PHRASES, "symbol", "indented", "lower", "?"}
    counts = Counter(sign for line in lines for sign in line.signs if sign in shown)
    shares = {f"{name} {sign} {parts * count // len(lines)}" for sign, count in counts.items()}
    marked = sum(line.is_marked for line in lines)
    return shares | {f"{name} marked {parts * marked // len(lines)}", f"{name} of {min(4, len(lines).bit_length())}"}


@cache
def load_typed_model() -> "LinearModel":
    from memdir.language.statements import load_model

    return load_model("typed", "origin")


def _find_separate_lines(text: str, marked: Sequence[Region]) -> Iterator[Region]:
    """Yield the lines that the user did not type or may not have typed."""
    lines, model = read_lines(text, marked), load_typed_model()
    is_alone = sum(line is not None for line in lines) == 1
    is_plain = not any(line is not None and (line.is_marked or line.signs & _DOUBTS) for line in lines)
    for number, line in enumerate(lines):
        if line is None or line.is_marked:
            continue
        if is_alone:
            score = _PASTED_ABOVE + 1 if line.signs & _SURE else _TYPED_BELOW - 1
        else:
            score = model.score(describe_line(lines, number, model.words))
        if score >= _TYPED_BELOW:
            origin = SpanOrigin.FOREIGN if score > _PASTED_ABOVE else SpanOrigin.UNKNOWN
            why = PLAIN_DOUBT if is_plain and score < 0 else "looks pasted"
            yield line.start, line.start + len(line.text), why, origin
    if len(lines) > _LINES:
        texts, half = text.split("\n"), _LINES // 2
        start, end = len("\n".join(texts[:half])), len(text) - len("\n".join(texts[-half:]))
        yield start, end, "too long to judge", SpanOrigin.UNKNOWN
