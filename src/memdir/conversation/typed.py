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
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from datetime import datetime
from enum import StrEnum

from memdir.frozen import compile_late, dataclass
from memdir.language import compile_any
from memdir.limits import FOREIGN_RUNS
from memdir.records import Message
from memdir.text import CJK, decode_percent, fold_words

OMITTED = "[…]"
_UNKNOWN = "[a passage of unknown origin, typed or pasted by the person; by itself it is no evidence]"
_RUN, _RUN_CJK = 5, 8  # words, or Chinese and Japanese characters, that do not repeat by chance
_LETTERS = 24  # in a row, as many as five words have
_SPREAD = 24  # lines over which a sentence may be spread
_REPLY_CHARS = 1_000  # of the agent's message that the user replied to
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


def find_typed(message: Message) -> str:
    return "".join(span.text if span.plain else "\n" for span in split_typed(message)).strip()


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
_INDENT = 100  # more white space than this before a tag is not indentation
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
    unclosed: set[str] = set()  # names whose end tag does not follow, so that the text is searched once for each
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
_LINES_ABOVE = 2  # the sentence on its age, and a caveat


def strip_reminders(text: str) -> str:
    """Remove inserted memories from a message, even if they are nested or truncated."""
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
# Only the form of a text and a request to work on it make it foreign; its length and its pronouns decide nothing. Text inside a
# paste may be written to look like its end, so a marked region extends from its first opening mark to the last closing one. A
# paste without marks is followed by text of which nobody can say who wrote it: that is of unknown origin, and needs review.

_QUOTE_CHARS = 40  # between quotation marks; a longer text is somebody else's
_WIDE_LETTERS = 2.5  # letters that a Chinese or Japanese character counts as
_LAST_CHARS = 300  # of a last paragraph that speaks about the text before it
_HEAD_CHARS = 160  # of a line at the end that asks for work on the text before it
_REQUEST_CHARS = 500  # of a paragraph that hands a text over
_ROWS = 3  # lines with the same separators that make a table

_QUOTED = "quoted"

Region = tuple[int, int, str, SpanOrigin]
Paragraph = tuple[int, int, str]  # start, end, text

_FOREIGN_TAGS = f"{_HOST_TAGS}|function_results|tool_result|document|file|context|attachment"
_PATH = compile_late(r"[`@]|\w/\w|\w\.\w{1,4}\b")
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
_DATA = compile_late(r"\s*+[{\[][\s\S]{60,}[}\]]\s*\Z")
_PARAGRAPH = compile_late(r"(?:(?!\n[ \t]*\n)[\s\S])+")
_ITEM = compile_late(r"^[ \t]*+(?:[-*+•・]|\d{1,2}[.)、．])[ \t]*+", re.MULTILINE)
_PAYLOAD = compile_late(r"[:：][ \t]*\S[^\n]{20,}")  # text of the user's own after a colon, on the line of a request


def split_message(text: str) -> tuple[MessageSpan, ...]:
    marked = _merge([*_find_client_blocks(text), *_find_marked(text)])
    # A quotation inside a line stays: a line of output may hold one.
    rest = _blank(text, (mark for mark in marked if mark[2] != _QUOTED or _is_on_own_lines(text, mark)))
    return tuple(_make_spans(text, _merge([*marked, *_find_separate_lines(rest, text)])))


def _blank(text: str, regions: Iterable[Region]) -> str:
    for start, end, *_ in regions:
        text = text[:start] + "\n" * (end - start) + text[end:]
    return text


def _is_on_own_lines(text: str, mark: Region) -> bool:
    start, end = _find_line(text, mark[0])[0], _find_line(text, mark[1])[1]
    return not text[start : mark[0]].strip() and not text[mark[1] : end].strip(" \t.,;")


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


def _find_client_blocks(text: str) -> Iterator[Region]:
    """Yield the text that an editor or client inserts around the user's request."""
    if (end := _find_codex_request(text)) > 0:
        yield 0, end, "an editor's context", SpanOrigin.FOREIGN
    for files in _ATTACHED.finditer(text):
        yield files.start(), files.end(), "referenced files", SpanOrigin.FOREIGN


def _find_marked(text: str) -> Iterator[Region]:
    for start, end, why in _find_marks(text):
        yield start, end, why, SpanOrigin.FOREIGN


def _find_marks(text: str) -> Iterator[tuple[int, int, str]]:
    yield from _find_tagged(text)
    yield from _find_between(text, list(_FENCE.finditer(text)), "fenced")
    yield from _find_between(text, list(_RULE.finditer(text)), "behind a rule")
    if begin := _BEGIN.search(text):
        ends = list(_END.finditer(text, begin.end()))
        yield begin.start(), ends[-1].end() if ends else len(text), "begin and end"
    for quote in _QUOTES.finditer(text):
        is_said = len(quote[0].split()) > 2 and compile_any("said").search(
            text, max(0, quote.start() - 40), quote.start()
        )
        if _measure(quote[0]) - 2 > _QUOTE_CHARS or is_said:
            yield quote.start(), quote.end(), _QUOTED
    for hidden in _HIDDEN.finditer(text):
        yield *_find_line(text, hidden.start()), "hidden characters"


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


def _find_separate_lines(rest: str, text: str) -> Iterator[Region]:
    """Yield separate lines that look pasted, or that the user asks the agent to work on."""
    paragraphs = [(match.start(), match.end(), match[0]) for match in _PARAGRAPH.finditer(rest) if match[0].strip()]
    pastes = list(_merge([(*paste, SpanOrigin.FOREIGN) for at in paragraphs for paste in _find_pasted_lines(at)]))
    for name, why in (("forwarded", "forwarded"), ("role", "another speaker")):
        if match := compile_any(name).search(rest):
            pastes.append((match.start(), _find_line(rest, match.start())[1], why, SpanOrigin.FOREIGN))
    if letter := _find_letter(rest, paragraphs):
        pastes.append(letter)
    pastes = _merge(pastes)
    yield from pastes
    given = _find_work_text(rest, text, paragraphs, pastes)
    yield from given
    if not pastes:
        return
    begin, end = pastes[0][0], pastes[-1][1]
    yield begin, end, "between pasted lines", SpanOrigin.UNKNOWN
    # The user asks for something: where nothing is typed before a paste, the last paragraph is what they ask.
    tail = [start + len(part) - len(part.lstrip()) for start, _, part in paragraphs if start >= end]
    is_marked = pastes[-1][2] == "quoted line" and not compile_any("forwarded").search(rest)
    if rest[end:].strip() and not is_marked:
        first = rest[:begin].strip()
        stop = len(rest) if first else (tail[-1] if tail else end)
        yield end, stop, "after a paste", SpanOrigin.UNKNOWN


def _find_pasted_lines(paragraph: Paragraph) -> Iterator[tuple[int, int, str]]:
    """Yield the lines of a paragraph that look pasted."""
    start, _, block = paragraph
    lines = block.split("\n")
    offsets = [0]
    for line in lines:
        offsets.append(offsets[-1] + len(line) + 1)
    for first, last in ((0, len(lines)), (1, len(lines)), (0, len(lines) - 1)):
        if why := _find_output("\n".join(lines[first:last])):
            yield start + offsets[first], start + offsets[last] - 1, why
            return
    quoted = [number for number, line in enumerate(lines) if _QUOTED_LINE.match(line)]
    if quoted:  # in Markdown a quotation extends to the end of its paragraph
        yield start + offsets[quoted[0]], start + len(block), "quoted line"
        return
    heads = [head.start() for head in compile_any("mail_head").finditer(block)]
    if len(heads) > 1 or heads[:1] == [len(block) - len(block.lstrip("\n"))]:
        yield start + heads[0], start + len(block), "mail"


def _find_output(block: str) -> str:
    lines = [line for line in block.split("\n") if line.strip()]
    if not lines:
        return ""
    machine = sum(_MACHINE.match(line) is not None for line in lines)
    if (machine and (_PROMPT.match(lines[0]) or machine >= 0.4 * len(lines) or machine > 2)) or _DATA.match(block):
        return "output or data"
    speakers = [line.split(":", 1)[0].strip(" \t*") for line in lines if _SPEAKER.match(line)]
    dialogue = len(speakers) > 2 and len(set(speakers)) < len(speakers)
    if dialogue or sum(_CHAT_LINE.match(line) is not None for line in lines) > 1:
        return "chat"
    if all(line.startswith(("    ", "\t")) and not _ITEM.match(line) for line in lines):
        return "indented"
    code = sum(_CODE_LINE.match(line) is not None for line in lines)
    keys = sum(_KEY_LINE.match(line) is not None for line in lines)
    is_nested = any(line.startswith("  ") for line in lines)
    if len(lines) > 2 and (code >= 0.6 * len(lines) or (is_nested and keys + code >= 0.8 * len(lines))):
        return "code"
    return "table" if len(lines) >= _ROWS and any(_is_table(lines, mark) for mark in ";,\t|") else ""


def _is_table(lines: Sequence[str], mark: str) -> bool:
    """Return whether most lines have the same number of separators, at least two, and none looks like a sentence."""
    counts = [line.count(mark) for line in lines]
    usual = max(set(counts), key=counts.count)
    return usual > 1 and counts.count(usual) >= 0.8 * len(lines) and not any(f"{mark} " in line for line in lines[:3])


def _find_letter(rest: str, paragraphs: Sequence[Paragraph]) -> Region | None:
    """Return the region of a pasted letter, from its greeting to its signature, or None."""
    for number, (start, end, part) in enumerate(paragraphs):
        greeting = compile_any("greeting").match(part) or compile_any("greeting_line").search(part)
        if not greeting:
            continue
        begin = start + greeting.start()
        closes = [at for at in paragraphs[number:] if compile_any("close").search(at[2])]
        if closes:
            last = closes[-1]
            signed = [at for at in paragraphs if at[0] >= last[1]]
            close = compile_any("close").search(last[2])
            # A name may stand on lines of its own below the close.
            is_bare = close is not None and not last[2][close.end() :].strip(" ,.\n")
            stop = (
                signed[0][1] if is_bare and signed and len(signed[0][2].strip()) < 60 and len(signed) > 1 else last[1]
            )
            return begin, stop, "letter", SpanOrigin.FOREIGN
        if end == paragraphs[-1][1] and number == 0 and "\n" not in part.strip():
            return None  # "hi team, can you …" is one paragraph of the user's
        tail = paragraphs[-1]
        is_request = tail[0] > start and compile_any("text_work").search(tail[2])
        return begin, tail[0] if is_request else len(rest), "letter", SpanOrigin.FOREIGN
    return None


def _find_work_text(
    rest: str, text: str, paragraphs: Sequence[Paragraph], pastes: Sequence[Region]
) -> Iterator[Region]:
    """Yield prose next to a request to work on it, such as a text below "translate this"."""
    for start, _, part in paragraphs:
        lead = _find_request(part)
        below = start + lead
        if lead and not text[below : below + len(rest[below:]) - len(rest[below:].lstrip())].strip():
            follows = [at for at in paragraphs if at[1] > below]
            is_pasted = (
                any(first < follows[0][1] and last > max(below, follows[0][0]) for first, last, *_ in pastes)
                if follows
                else True
            )
            if not is_pasted:
                yield from _find_text_below(rest, below, follows)
                return
    last = paragraphs[-1] if paragraphs else (0, 0, "")
    line = last[2].rstrip().rpartition("\n")[2]
    above = last[0] + len(last[2].rstrip()) - len(line)
    own = last[0] + len(last[2]) - len(last[2].lstrip())
    if rest[:own].strip() and len(last[2]) < _LAST_CHARS and compile_any("points_back").match(last[2].strip()):
        yield 0, own, "handed over", SpanOrigin.FOREIGN
    elif rest[:above].strip() and len(line) < _HEAD_CHARS and _asks_for_work(line):
        is_apart = own == above or _measure(rest[:above]) > _LAST_CHARS // 2
        if is_apart:
            yield 0, above, "handed over", SpanOrigin.FOREIGN


def _find_text_below(rest: str, start: int, follows: Sequence[Paragraph]) -> Iterator[Region]:
    """Yield the text below a request, without a last paragraph that the user may have written."""
    last = follows[-1]
    is_open = len(follows) > 1 and len(last[2]) < _LAST_CHARS and compile_any("voice").search(last[2])
    yield start, last[0] if is_open else len(rest), "handed over", SpanOrigin.FOREIGN
    if is_open:
        yield last[0], last[1], "after a paste", SpanOrigin.UNKNOWN


def _find_request(part: str) -> int:
    """Return the offset of the text that a paragraph asks to work on, or 0."""
    lead = part.rstrip()
    body = lead.lstrip("\n")
    if len(body) < _REQUEST_CHARS and "\n" not in body and _introduces_text(body):
        return len(part)
    first, newline, more = body.partition("\n")
    if newline and more.strip() and len(first) < _REQUEST_CHARS and _introduces_text(first, on_line=True):
        return len(lead) - len(body) + len(first)
    lines = body.split("\n")
    if 1 < len(lines) < 5 and len(body) < _REQUEST_CHARS and _introduces_text(lines[-1]):
        return len(part)
    return 0


def _introduces_text(line: str, *, on_line: bool = False) -> bool:
    """Return whether a line asks for work on the text below it or introduces it."""
    is_announced = line.rstrip().endswith((":", "：", ":-", "↓", "👇"))
    is_clear = bool(compile_any("this_text").search(line) and compile_any("text_work").search(line))
    if _PAYLOAD.search(line) and not is_announced and (on_line or not is_clear):
        return False
    if compile_any("lead_in").search(line) and is_announced:
        return not compile_any("own").search(line)
    if compile_any("this_text").search(line) and (is_announced or not on_line or len(line) < _HEAD_CHARS):
        return not (is_announced and compile_any("own").search(line))
    is_short = len(line) < _HEAD_CHARS
    return (is_short or is_announced) and _asks_for_work(line, is_announced=is_announced or not on_line)


def _asks_for_work(line: str, *, is_announced: bool = False) -> bool:
    """Return whether a line asks to work on a text, such as "translate to German please"."""
    if _PATH.search(line):  # the text is in a file
        return False
    named = compile_any("work_text").search(line)
    work = compile_any("text_work").search(line)
    if work is None:  # the same verbs can mean code: "fix it", "check this again"
        return bool(named and is_announced and compile_any("any_work").search(line))
    rest = compile_any("work_filler").sub("", line.replace(work[0], ""))
    return bool(named) or is_announced or not re.search(r"\w", rest)
