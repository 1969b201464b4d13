"""Separate the text that the user typed in a message from untrusted text, for all hosts.

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

from memdir.frozen import compile_late, dataclass
from memdir.language import compile_any
from memdir.limits import FOREIGN_RUNS
from memdir.records import Message
from memdir.text import CJK, decode_percent, fold_words

OMITTED = "[…]"
_RUN, _RUN_CJK = 5, 8  # words, or Chinese and Japanese characters, that do not repeat by chance
_LETTERS = 24  # in a row, as many as five words have
_SPREAD = 24  # lines over which a sentence may be spread
_REPLY_CHARS = 1_000  # of the agent's message that the user replied to
_WIDE = compile_late(rf"[{CJK}]")
_ENCODED = compile_late(r"[A-Za-z0-9+/]{24,}={0,2}")
_ESCAPED = compile_late(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")


@dataclass(frozen=True, slots=True)
class MessageSpan:
    """A piece of a message; `plain` if the user wrote it, else `why` is the reason for doubt."""

    text: str
    start: int
    end: int
    plain: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class TypedMessage:
    """The text the user typed in one message, and the agent's text before it, both without untrusted text."""

    text: str
    reply_to: str = ""
    id: str = ""
    at: datetime | None = None


def is_by_person(message: Message) -> bool:
    """Return whether the user sent this message, not the host or a tool."""
    return message.role == "user" and not message.is_meta and not message.answers


def split_typed(message: Message) -> tuple[MessageSpan, ...]:
    """Split a user's message into typed text and the rest, without memdir's reminders; empty for other messages."""
    return split_message(strip_reminders(message.text)) if is_by_person(message) else ()


def find_typed(message: Message) -> str:
    """Return the user's own text in a message, or "" if it is not theirs."""
    return "".join(span.text if span.plain else "\n" for span in split_typed(message)).strip()


def list_typed(messages: Sequence[Message], foreign: Set[int]) -> tuple[TypedMessage, ...]:
    """Return the text the user typed, message by message, each with the agent's text before it."""
    typed: list[TypedMessage] = []
    reply = ""
    for message in messages:
        if message.role == "assistant" and message.text.strip():
            reply = message.text
        elif text := find_typed(message):
            typed.append(TypedMessage(text, cut_echoes(_cut_middle(reply), foreign), message.id, message.at))
            reply = ""
    return tuple(typed)


def find_runs(text: str) -> set[int]:
    """Return the hashes of all runs of five words in a text, of eight characters in Chinese and Japanese.

    A second kind of run counts letters only, whatever the words are: half of all runs of 24, chosen by their hash.
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
    """Yield what an encoded part of a text says: base64, percent signs, escapes of characters."""
    for match in _ENCODED.finditer(text):
        with suppress(ValueError):
            yield b64decode(match[0] + "=" * (-len(match[0]) % 4)).decode("utf-8")
    if (decoded := decode_percent(text)) is not None:
        yield decoded.text
    if "\\" in text:
        yield _ESCAPED.sub(lambda code: chr(int(code[1] or code[2], 16)), text)


def collect_foreign(messages: Iterable[Message], earlier: Iterable[int] = ()) -> tuple[int, ...]:
    """Return the runs of all text that neither the user nor the agent wrote, the newest last and up to the limit."""
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
    """Return an agent's text without the sentences that repeat untrusted text."""
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
_ATTACHED = compile_late(rf"^{_FILES}$.*?(?:^{_FILES_END}$|\Z)", re.MULTILINE | re.DOTALL)
# Complete parts of a message that a client sends in the user's name.
_GEMINI_START = ("<session_context>", "This is the Gemini CLI. We are setting up the context")
_GEMINI_SNAPSHOT = "<state_snapshot>"  # the model's thinking may come before it
_GEMINI_HOOK, _GEMINI_HOOK_END = "<hook_context>", "</hook_context>"  # the client escapes every `<` between them
_CODEX_WRAPPED = compile_late(
    r"<([a-z]+(?:_[a-z]+)+|skill|tools|INSTRUCTIONS)(?:\s[^<>]*)?>.*</\1>|# AGENTS\.md instructions.*</INSTRUCTIONS>",
    re.DOTALL,
)
_CODEX_REQUEST = "## My request for Codex:"  # the editor's context comes before it


def strip_host_text(text: str) -> str:
    """Return a message without the host's blocks, attached files, slash commands and notices."""
    lines = strip_blocks(_ATTACHED.sub("", text)).splitlines()
    return "\n".join(line for line in lines if not _HOST_LINE.match(line.strip())).strip()


def strip_blocks(text: str) -> str:
    """Remove blocks such as `<system-reminder>…`; an unclosed one extends to the end, a tag inside a line stays."""
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
    """Return the typed text of a message's parts, and the text Codex inserted; an editor's context is dropped."""
    typed, inserted = [], []
    for part in parts:
        if _CODEX_WRAPPED.fullmatch(part.strip()):
            inserted.append(part)
            continue
        context, mark, request = part.partition(_CODEX_REQUEST)
        typed.append(request.strip() if mark and context.lstrip().startswith("# ") else part)
    return "\n\n".join(filter(None, typed)), "\n\n".join(inserted)


def split_gemini_parts(parts: Iterable[str]) -> tuple[str, str]:
    """Return the typed text of a message's parts, and the text hooks and Gemini CLI inserted."""
    typed, inserted, is_file = [], [], False
    for part in parts:
        is_file = is_file or part.strip().startswith(_FILES)
        if is_file or part.lstrip().startswith(_GEMINI_START) or _GEMINI_SNAPSHOT in part:
            inserted.append(part)
            is_file = is_file and part.strip() != _FILES_END
            continue
        own, offset = [], 0  # a pattern would take quadratic time on unclosed marks
        while (start := part.find(_GEMINI_HOOK, offset)) >= 0 and (end := part.find(_GEMINI_HOOK_END, start)) >= 0:
            own.append(part[offset:start])
            inserted.append(part[start + len(_GEMINI_HOOK) : end])
            offset = end + len(_GEMINI_HOOK_END)
        typed.append("".join((*own, part[offset:])))
    first, second = (list(filter(None, map(str.strip, texts))) for texts in (typed, inserted))
    return "\n\n".join(first), "\n\n".join(second)


def _is_closed(text: str, tag: re.Match[str], unclosed: set[str]) -> bool:
    if tag[2] not in unclosed and text.find(f"</{tag[2]}", tag.end()) < 0:
        unclosed.add(tag[2])
    return tag[2] not in unclosed


# --- memdir's own reminders ------------------------------------------------------------------------------------------
# A memory must not be learned from its own reminder.

_TAG = compile_late(r"<\s*(/?)\s*system-reminder\b[^<>]{0,200}>", re.IGNORECASE)
# The line before a memory's text, perhaps after words of the host ("… additional context: ").
_HEADER = compile_late(
    r"^(?:[^\n]{0,120}?:[ \t]+)?Memory(?: \(saved (?:today|yesterday)\))?: [^\n]{1,4096}\.md:[ \t]*\r?$", re.MULTILINE
)
_NOTED = compile_late(r"This was noted \d+ days? ago and describes that moment")
_LINES_ABOVE = 2  # the sentence on its age, and a caveat


def strip_reminders(text: str) -> str:
    """Return the message without inserted memories, whether wrapped, bare, nested or truncated."""
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
    """Yield the outermost blocks and the text between them, each with whether it contains a memory."""
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
    """Return the start of a bare reminder: the sentence on its age, if it has one."""
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
# Text inside a paste may be written to look like its end, so a region extends from its first opening mark to the last closing
# one, and without an end to the end of the message. That text is not lost; it counts as text of unknown origin, which needs
# review. Only the form is examined, not the content; Markdown is not parsed.

_MESSAGE_CHARS = 2000  # of the user's text in one message; a longer one is a document
_RUN_CHARS = 900  # of one paragraph; a longer one was pasted
_SILENT_CHARS = 400  # of one paragraph without I, we, you or please
_QUOTE_CHARS = 40  # between quotation marks; a longer text is somebody else's
_WIDE_LETTERS = 2.5  # letters that a Chinese or Japanese character counts as

Region = tuple[int, int, str]

_HEAD_CHARS = 160  # of the start of a message, where a request to work on the rest may be
_APART_CHARS = 120  # before a request on the last line, to count as a separate text
_STOP = compile_late(r"[:：?？]|\n[ \t\n]*|\s[—–-]\s")
_PATH = compile_late(r"[`@]|\w/\w|\w\.\w{1,4}\b")

_FOREIGN_TAGS = f"{_HOST_TAGS}|function_results|tool_result|document|file|context|attachment"
_WIDE_CHAR = compile_late(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_MARKUP_TAG = compile_late(r"<(/?)([A-Za-z][\w:.-]{0,60})(?:\s[^<>]{0,400})?/?>")
_FENCE = compile_late(r"^[ \t>]*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]++)?(?:`{3,}[^`\n]*|~{3,}[^\n]*)$", re.MULTILINE)
_QUOTED_LINE = compile_late(r"^[ \t]*(?:[>＞▎│]|&gt;)", re.MULTILINE)
_RULE = compile_late(
    r"^[ \t]*+(?:-{3,}+|={3,}+|\*{3,}+|_{3,}+|—{2,}+|#{4,}+|~{2,}+|\+{3,}+|─{3,}+)[ \t]*+$", re.MULTILINE
)
_BEGIN = compile_late(r"^[^\n\w]{0,12}(?:BEGIN|START)\b[^\n]{0,60}$", re.MULTILINE)
_END = compile_late(r"^[^\n\w]{0,12}(?:END|STOP)\b[^\n]{0,60}$", re.MULTILINE)
_HIDDEN = compile_late("[\u200b\u2060-\u2064\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_QUOTES = compile_late(
    r"“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|‹[^‹›]*›|「[^「」]*」|『[^『』]*』|《[^《》]*》|"
    r"(?<![\w\"])\"[^\"\n]+(?:\n[^\"\n]+){0,20}\"(?![\w\"])|‘[^‘’\n]{40,}’(?!\w)|``[^`]+``"
)
_STAMP = r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d(?::\d\d)?[.,\]]|\w{3} +\d+ \d\d:\d\d:\d\d "
_MACHINE = compile_late(
    rf"[ \t]*+(?:{_STAMP}|(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|TRACE)\b[\s:\]|]|\[(?:error|warn|info|debug)|"
    r"Traceback \(|File \"[^\n]+\", line \d+|at \S+ ?\(|Caused by:|\S*(?:Error|Exception): |panic: |goroutine \d|"
    r"[$%] \w|>>> |PS [A-Z]:|[\w.-]{1,40}@[\w.-]{1,60}[:~]\S{0,80}[$#] |npm (?:ERR|WARN)|"
    r"diff --git|(?:index|commit) [0-9a-f]{6}|@@ |\+\+\+ |--- \S|"
    r"[{}\[\]]+,?[ \t]*$|\"[\w-]+\"[ \t]*:|HTTP/\d|(?:GET|POST|PUT|DELETE) /|[|+][-=|+ ]{3,}|\d+[ \t]*[|│][ \t])"
)
_CHAT_LINE = compile_late(
    r"[ \t]*+(?:\[\d{1,2}[:：]\d\d|\d{1,4}[-./]\d{1,2}[-./]\d{1,4},? {1,3}\d{1,2}:\d\d|"
    r"\d{1,2}:\d\d(?::\d\d)?(?: ?[AP]M)?[ \t]+\S|"
    r"@?[\w.-]{2,30}(?: \w{2,20})? [\[(]\d{1,2}:\d\d)"
)
_SPEAKER = compile_late(r"[ \t]*+(?:\*\*)?[A-Z][\w.-]{1,20}(?: [A-Z][\w.-]{1,20})?(?:\*\*)?: \S")
_DATA = compile_late(r"\s*+[{\[][\s\S]{60,}[}\]]\s*\Z")
_ADDRESS = compile_late(r"\s*(?:\S+://\S+|[~/.]?[\w.-]*/\S+|[\w.-]+\.\w{2,6}|`[^`\n]{1,80}`|#?[\w-]{1,30})[.\s]*\Z")
_PARAGRAPH = compile_late(r"(?:(?!\n[ \t]*\n)[\s\S])+")
_ITEM = compile_late(r"^[ \t]*+(?:[-*+•・]|\d{1,2}[.)、．])[ \t]*+", re.MULTILINE)


def split_message(text: str) -> tuple[MessageSpan, ...]:
    regions = _merge([*_find_marked(text), *_find_announced(text), *_find_handed_over(text), *_find_letter(text)])
    rest = text
    for start, end, _ in regions:
        rest = rest[:start] + "\n" * (end - start) + rest[end:]
    regions = _merge([*regions, *_find_blocks(rest)])
    spans = tuple(_make_spans(text, regions))
    plain = [span for span in spans if span.plain and span.text.strip()]
    if sum(_measure(span.text) for span in plain) > _MESSAGE_CHARS:
        regions = _merge([*regions, *((span.start, span.end, "long") for span in plain)])
        spans = tuple(_make_spans(text, regions))
    return spans


def _make_spans(text: str, regions: list[Region]) -> Iterator[MessageSpan]:
    offset = 0
    for start, end, why in [*regions, (len(text), len(text), "")]:
        if start > offset:
            yield MessageSpan(text[offset:start], offset, start, True)
        if end > start:
            yield MessageSpan(text[start:end], start, end, False, why)
        offset = end


def _merge(regions: list[Region]) -> list[Region]:
    merged: list[Region] = []
    for start, end, why in sorted(regions, key=lambda region: (region[0], -region[1])):
        if merged and start < merged[-1][1]:
            before = merged[-1]
            merged[-1] = (before[0], max(end, before[1]), before[2])
        elif end > start:
            merged.append((start, end, why))
    return merged


def _measure(text: str) -> float:
    """Return the length in letters; a Chinese or Japanese character counts as several."""
    wide = 0 if text.isascii() else len(_WIDE_CHAR.findall(text))
    return len(text.strip()) + (_WIDE_LETTERS - 1) * wide


def _find_marked(text: str) -> Iterator[Region]:
    yield from _find_tagged(text)
    yield from _find_between(text, list(_FENCE.finditer(text)), "fenced")
    yield from _find_between(text, list(_RULE.finditer(text)), "behind a rule")
    if begin := _BEGIN.search(text):
        ends = list(_END.finditer(text, begin.end()))
        yield begin.start(), ends[-1].end() if ends else len(text), "begin and end"
    for quote in _QUOTES.finditer(text):
        if _measure(quote[0]) - 2 > _QUOTE_CHARS:
            yield quote.start(), quote.end(), "quoted"
    for hidden in _HIDDEN.finditer(text):
        yield *_find_line(text, hidden.start()), "hidden characters"


def _find_between(text: str, marks: list[re.Match[str]], why: str) -> Iterator[Region]:
    """Yield the region from the first mark to the last, or to the end of the text if the number is odd."""
    if marks:
        yield marks[0].start(), marks[-1].end() if len(marks) % 2 == 0 else len(text), why


def _find_tagged(text: str) -> Iterator[Region]:
    """Yield regions from the first tag of a name to the last closing one. Tags around a few words are formatting."""
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


def _find_announced(text: str) -> Iterator[Region]:
    for lead in compile_any("lead_in").finditer(text):
        end = _find_announced_end(text, lead.end())
        if end > lead.end() and not compile_any("own").search(lead[0]):
            yield lead.end(), end, "announced"
    for name, why in (("forwarded", "forwarded"), ("role", "another speaker")):
        if match := compile_any(name).search(text):
            yield match.start(), len(text), why
    heads = list(compile_any("mail_head").finditer(text))
    if len(heads) > 1:
        yield heads[0].start(), len(text), "mail"


def _find_handed_over(text: str) -> Iterator[Region]:
    """Yield a text that the user asks for work on: after such a request, or before one on the last line."""
    for stop in _STOP.finditer(text, 0, _HEAD_CHARS):
        if text[stop.end() :].strip() and _asks_for_work(text[: stop.start()], stop[0]):
            yield stop.end(), len(text), "handed over"
            return
    lead, _, last = text.rstrip().rpartition("\n")
    is_apart = lead.endswith("\n") or _measure(lead) > _APART_CHARS
    if lead.strip() and is_apart and len(last) < _HEAD_CHARS and _asks_for_work(last, "last"):
        yield 0, len(lead), "handed over"


def _find_letter(text: str) -> Iterator[Region]:
    """Yield a letter from its greeting to the end, except a last paragraph that asks for work on it."""
    for paragraph in _PARAGRAPH.finditer(text):
        if compile_any("greeting").match(paragraph[0]):
            last = text.rstrip().rfind("\n\n") + 2
            is_request = last > paragraph.start() + 2 and compile_any("text_work").search(text, last)
            yield paragraph.start(), last if is_request else len(text), "letter"
            return


def _asks_for_work(line: str, stop: str) -> bool:
    """Return whether a line asks to work on a text, named or not, such as "translate to German please"."""
    if _PATH.search(line):  # the text is in a file
        return False
    named = compile_any("work_text").search(line)
    work = compile_any("text_work").search(line)
    if work is None:  # the same verbs can mean code: "fix it", "check this again"
        is_announced = stop in (":", "：") or stop.count("\n") > 1
        return bool(named and is_announced and compile_any("any_work").search(line))
    rest = compile_any("work_filler").sub("", line.replace(work[0], ""))
    return bool(named) or (stop not in ("?", "？") and not re.search(r"\w", rest))


def _find_announced_end(text: str, start: int) -> int:
    """Return the end of an announced text: the end of the message, of a bare URL or of a marked region."""
    line_end = _find_line(text, start)[1]
    if _ADDRESS.match(text[start:line_end]) and text[start:line_end].strip():
        return start
    begin = start + len(text[start:]) - len(text[start:].lstrip())
    marked = [end for first, end, _ in _merge(list(_find_marked(text))) if first <= begin < end]
    quoted = _QUOTES.match(text, begin)
    return max([*marked, *([quoted.end()] if quoted else [])], default=len(text))


def _find_blocks(text: str) -> Iterator[Region]:
    """Yield paragraphs that look pasted. A paste extends to the end and a document is the full text, since no mark ends them."""
    for paragraph in _PARAGRAPH.finditer(text):
        block, start = paragraph[0], paragraph.start()
        if not block.strip():
            continue
        if why := _find_output(block):
            yield start, len(text), why
        elif why := _find_document(block):
            yield 0, len(text), why
        elif quoted := _QUOTED_LINE.search(block):
            # In Markdown a quotation extends to the end of its paragraph.
            yield start + quoted.start(), paragraph.end(), "quoted line"


def _find_output(block: str) -> str:
    lines = [line for line in block.split("\n") if line.strip()]
    machine = sum(_MACHINE.match(line) is not None for line in lines)
    if (machine and (machine >= 0.4 * len(lines) or machine > 2)) or _DATA.match(block):
        return "output or data"
    speakers = [line.split(":", 1)[0].strip(" \t*") for line in lines if _SPEAKER.match(line)]
    dialogue = len(speakers) > 2 and len(set(speakers)) < len(speakers)
    if dialogue or sum(_CHAT_LINE.match(line) is not None for line in lines) > 1:
        return "chat"
    indented = all(line.startswith(("    ", "\t")) and not _ITEM.match(line) for line in lines)
    return "indented" if indented else ""


def _find_document(block: str) -> str:
    if any(_measure(run) > _RUN_CHARS for run in _ITEM.split(block)):
        return "long"
    return "nobody's voice" if _measure(block) > _SILENT_CHARS and not compile_any("voice").search(block) else ""
