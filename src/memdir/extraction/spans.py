"""A message of the conversation, cut into the person's own plain words and everything else.

memdir's own reminders are removed: a memory must not feed itself. What is left is split with suspicion, since text inside
a paste may be written to look like its end: a region goes from its first opening mark to the last closing one, and what
has no end goes to the end of the message. That text is not lost; it counts as text of unknown origin, which needs
review. Only form is looked at, no content; Markdown is not parsed.
"""

import re
from collections.abc import Iterator

from memdir.frozen import dataclass
from memdir.language.words import compile_any

_TAG = re.compile(r"<\s*(/?)\s*system-reminder\b[^<>]{0,200}>", re.IGNORECASE)
# The line before a memory's text, perhaps behind words of the host ("… additional context: ").
_HEADER = re.compile(
    r"^(?:[^\n]{0,120}?:[ \t]+)?Memory(?: \(saved (?:today|yesterday)\))?: [^\n]{1,4096}\.md:[ \t]*\r?$", re.MULTILINE
)
_NOTED = re.compile(r"This was noted \d+ days? ago and describes that moment")
_LINES_ABOVE = 2  # the sentence on its age, and a caveat

_MESSAGE_CHARS = 2000  # plain words of one message; what is longer is a document
_RUN_CHARS = 900  # one paragraph; a person breaks up what is longer, or pasted it
_SILENT_CHARS = 400  # one paragraph in which nobody says I, we, you or please
_QUOTE_CHARS = 40  # between quotation marks: a longer text is somebody's
_WIDE = 2.5  # a Chinese or Japanese character says as much as so many letters

Region = tuple[int, int, str]

_HEAD_CHARS = 160  # of a message, in which a request to work on what follows stands
_APART_CHARS = 120  # before a request on the last line, to count as a text of its own
_STOP = re.compile(r"[:：?？]|\n[ \t\n]*|\s[—–-]\s")
_PATH = re.compile(r"[`@]|\w/\w|\w\.\w{1,4}\b")

_HOST = (
    "system-reminder|command-name|command-message|command-args|local-command-stdout|local-command-stderr|"
    "local-command-caveat|bash-input|bash-stdout|bash-stderr|user-prompt-submit-hook|task-notification|"
    "ide_opened_file|ide_selection|ide_diagnostics|function_results|tool_result|document|file|context|attachment"
)
_WIDE_CHAR = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_MARKUP_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]{0,60})(?:\s[^<>]{0,400})?/?>")
_FENCE = re.compile(r"^[ \t>]*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]++)?(?:`{3,}[^`\n]*|~{3,}[^\n]*)$", re.MULTILINE)
_QUOTED_LINE = re.compile(r"^[ \t]*(?:[>＞▎│]|&gt;)", re.MULTILINE)
_RULE = re.compile(
    r"^[ \t]*+(?:-{3,}+|={3,}+|\*{3,}+|_{3,}+|—{2,}+|#{4,}+|~{2,}+|\+{3,}+|─{3,}+)[ \t]*+$", re.MULTILINE
)
_BEGIN = re.compile(r"^[^\n\w]{0,12}(?:BEGIN|START)\b[^\n]{0,60}$", re.MULTILINE)
_END = re.compile(r"^[^\n\w]{0,12}(?:END|STOP)\b[^\n]{0,60}$", re.MULTILINE)
_HIDDEN = re.compile("[\u200b\u2060-\u2064\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_QUOTES = re.compile(
    r"“[^“”]*”|„[^„“”]*[“”]|«[^«»]*»|‹[^‹›]*›|「[^「」]*」|『[^『』]*』|《[^《》]*》|"
    r"(?<![\w\"])\"[^\"\n]+(?:\n[^\"\n]+){0,20}\"(?![\w\"])|‘[^‘’\n]{40,}’(?!\w)|``[^`]+``"
)
_STAMP = r"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d(?::\d\d)?[.,\]]|\w{3} +\d+ \d\d:\d\d:\d\d "
_MACHINE = re.compile(
    rf"[ \t]*+(?:{_STAMP}|(?:ERROR|WARN(?:ING)?|INFO|DEBUG|FATAL|TRACE)\b[\s:\]|]|\[(?:error|warn|info|debug)|"
    r"Traceback \(|File \"[^\n]+\", line \d+|at \S+ ?\(|Caused by:|\S*(?:Error|Exception): |panic: |goroutine \d|"
    r"[$%] \w|>>> |PS [A-Z]:|[\w.-]{1,40}@[\w.-]{1,60}[:~]\S{0,80}[$#] |npm (?:ERR|WARN)|"
    r"diff --git|(?:index|commit) [0-9a-f]{6}|@@ |\+\+\+ |--- \S|"
    r"[{}\[\]]+,?[ \t]*$|\"[\w-]+\"[ \t]*:|HTTP/\d|(?:GET|POST|PUT|DELETE) /|[|+][-=|+ ]{3,}|\d+[ \t]*[|│][ \t])"
)
_CHAT_LINE = re.compile(
    r"[ \t]*+(?:\[\d{1,2}[:：]\d\d|\d{1,4}[-./]\d{1,2}[-./]\d{1,4},? {1,3}\d{1,2}:\d\d|"
    r"\d{1,2}:\d\d(?::\d\d)?(?: ?[AP]M)?[ \t]+\S|"
    r"@?[\w.-]{2,30}(?: \w{2,20})? [\[(]\d{1,2}:\d\d)"
)
_SPEAKER = re.compile(r"[ \t]*+(?:\*\*)?[A-Z][\w.-]{1,20}(?: [A-Z][\w.-]{1,20})?(?:\*\*)?: \S")
_DATA = re.compile(r"\s*+[{\[][\s\S]{60,}[}\]]\s*\Z")
_ADDRESS = re.compile(r"\s*(?:\S+://\S+|[~/.]?[\w.-]*/\S+|[\w.-]+\.\w{2,6}|`[^`\n]{1,80}`|#?[\w-]{1,30})[.\s]*\Z")
_PARAGRAPH = re.compile(r"(?:(?!\n[ \t]*\n)[\s\S])+")
_ITEM = re.compile(r"^[ \t]*+(?:[-*+•・]|\d{1,2}[.)、．])[ \t]*+", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class MessageSpan:
    """A piece of a message; `plain` if it is the person's own words, else `why` says what made it look otherwise."""

    text: str
    start: int
    end: int
    plain: bool
    why: str = ""


def split_message(text: str) -> tuple[MessageSpan, ...]:
    """The whole message as spans in order, nothing left out."""
    regions = _merge([*_find_marked(text), *_find_announced(text), *_find_handed_over(text), *_find_letter(text)])
    regions = _merge([*regions, *_find_blocks(_blank(text, regions))])
    spans = tuple(_make_spans(text, regions))
    plain = [span for span in spans if span.plain and span.text.strip()]
    if sum(_measure(span.text) for span in plain) > _MESSAGE_CHARS:
        regions = _merge([*regions, *((span.start, span.end, "long") for span in plain)])
        spans = tuple(_make_spans(text, regions))
    return spans


def strip_reminders(text: str) -> str:
    """The message without memories that were put into it, wrapped or bare, several, nested or cut off."""
    if not _HEADER.search(text) and not _TAG.search(text):
        return text
    kept = "".join(part for part, ours in _split_blocks(text) if not ours)
    return _strip_bare(kept).strip() if kept != text or _HEADER.search(kept) else text


def _split_blocks(text: str) -> Iterator[tuple[str, bool]]:
    """Outermost blocks and what stands between them, each with whether a memory is in it."""
    place = start = depth = 0
    for tag in _TAG.finditer(text):
        if not tag[1]:
            if depth == 0:
                yield text[place : tag.start()], False
                start = tag.start()
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                place = tag.end()
                yield text[start:place], _HEADER.search(text, start, place) is not None
        elif _is_alone(text, tag):
            # The beginning was cut off: what stands before belongs to the block.
            place = tag.end()
            yield "", True
    if depth:
        yield text[start:], _HEADER.search(text, start) is not None
    else:
        yield text[place:], False


def _is_alone(text: str, tag: re.Match[str]) -> bool:
    line = text[text.rfind("\n", 0, tag.start()) + 1 : (text.find("\n", tag.end()) + 1 or len(text) + 1) - 1]
    return line.strip() == tag[0].strip()


def _strip_bare(text: str) -> str:
    while header := _HEADER.search(text):
        tag = _TAG.search(text, header.end())
        text = text[: _find_start(text, header.start())] + (text[tag.start() :] if tag else "")
    return text


def _find_start(text: str, header: int) -> int:
    """Where a bare reminder begins: at the sentence on its age, if it has one."""
    start = header
    for _ in range(_LINES_ABOVE):
        above = text.rfind("\n", 0, max(start - 1, 0)) + 1
        if above >= start:
            break
        if _NOTED.search(text, above, start):
            return above
        start = above
    return header


def _make_spans(text: str, regions: list[Region]) -> Iterator[MessageSpan]:
    place = 0
    for start, end, why in [*regions, (len(text), len(text), "")]:
        if start > place:
            yield MessageSpan(text[place:start], place, start, True)
        if end > start:
            yield MessageSpan(text[start:end], start, end, False, why)
        place = end


def _merge(regions: list[Region]) -> list[Region]:
    merged: list[Region] = []
    for start, end, why in sorted(regions, key=lambda at: (at[0], -at[1])):
        if merged and start < merged[-1][1]:
            before = merged[-1]
            merged[-1] = (before[0], max(end, before[1]), before[2])
        elif end > start:
            merged.append((start, end, why))
    return merged


def _blank(text: str, regions: list[Region]) -> str:
    """The text with line ends in place of these regions."""
    for start, end, _ in regions:
        text = text[:start] + "\n" * (end - start) + text[end:]
    return text


def _measure(text: str) -> float:
    """Its length in letters, a Chinese or Japanese character counted for several."""
    wide = 0 if text.isascii() else len(_WIDE_CHAR.findall(text))
    return len(text.strip()) + (_WIDE - 1) * wide


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
    """From the first mark to the last: one inside may pretend to close. An odd one out has no end."""
    if marks:
        yield marks[0].start(), marks[-1].end() if len(marks) % 2 == 0 else len(text), why


def _find_tagged(text: str) -> Iterator[Region]:
    """From the first tag of a name to the last closing one. Tags around a few words are somebody's typography."""
    opened: dict[str, re.Match[str]] = {}
    closed: dict[str, int] = {}
    for tag in _MARKUP_TAG.finditer(text):
        name = tag[2].lower()
        if tag[1]:
            closed[name] = tag.end()
        else:
            opened.setdefault(name, tag)
    for name, tag in opened.items():
        is_host = re.fullmatch(_HOST, name) is not None
        end = closed.get(name, 0)
        if end > tag.end() and (is_host or end - tag.end() > _QUOTE_CHARS + len(name) + 3):
            yield tag.start(), end, f"<{name}>"
        elif end <= tag.end() and is_host and not text[_find_line(text, tag.start())[0] : tag.start()].strip():
            yield tag.start(), len(text), f"<{name}>"
    for name in closed.keys() - opened.keys():
        if re.fullmatch(_HOST, name):
            yield 0, closed[name], f"</{name}>"


def _find_line(text: str, at: int) -> tuple[int, int]:
    end = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, len(text) if end < 0 else end


def _find_announced(text: str) -> Iterator[Region]:
    for lead in compile_any("lead_in").finditer(text):
        end = _find_announced_end(text, lead.end())
        if end > lead.end() and not compile_any("own").search(lead[0]):
            yield lead.end(), end, "announced"
    for name, why in (("forwarded", "forwarded"), ("role", "another speaker")):
        if found := compile_any(name).search(text):
            yield found.start(), len(text), why
    heads = list(compile_any("mail_head").finditer(text))
    if len(heads) > 1:
        yield heads[0].start(), len(text), "mail"


def _find_handed_over(text: str) -> Iterator[Region]:
    """A text that the person asks to work on: what follows such a request, or what precedes it on the last line."""
    for stop in _STOP.finditer(text, 0, _HEAD_CHARS):
        if text[stop.end() :].strip() and _asks_for_work(text[: stop.start()], stop[0]):
            yield stop.end(), len(text), "handed over"
            return
    lead, _, last = text.rstrip().rpartition("\n")
    is_apart = lead.endswith("\n") or _measure(lead) > _APART_CHARS
    if lead.strip() and is_apart and len(last) < _HEAD_CHARS and _asks_for_work(last, "last"):
        yield 0, len(lead), "handed over"


def _find_letter(text: str) -> Iterator[Region]:
    """From the greeting of a letter to the end, but for a last paragraph that asks for work on it."""
    for paragraph in _PARAGRAPH.finditer(text):
        if compile_any("greeting").match(paragraph[0]):
            last = text.rstrip().rfind("\n\n") + 2
            is_request = last > paragraph.start() + 2 and compile_any("text_work").search(text, last)
            yield paragraph.start(), last if is_request else len(text), "letter"
            return


def _asks_for_work(line: str, stop: str) -> bool:
    """Whether a line asks to work on a text that it names, or names nothing at all: "translate to German please"."""
    if _PATH.search(line):  # that text is in a file
        return False
    named = compile_any("work_text").search(line)
    work = compile_any("text_work").search(line)
    if work is None:  # the same verbs ask for work on code: "fix it", "check this again"
        is_announced = stop in (":", "：") or stop.count("\n") > 1
        return bool(named and is_announced and compile_any("any_work").search(line))
    rest = compile_any("work_filler").sub("", line.replace(work[0], ""))
    return bool(named) or (stop not in ("?", "？") and not re.search(r"\w", rest))


def _find_announced_end(text: str, start: int) -> int:
    """Up to the end of the message; a bare address after the colon, or a region with marks of its own, ends itself."""
    line_end = _find_line(text, start)[1]
    if _ADDRESS.match(text[start:line_end]) and text[start:line_end].strip():
        return start
    begin = start + len(text[start:]) - len(text[start:].lstrip())
    marked = [end for first, end, _ in _merge(list(_find_marked(text))) if first <= begin < end]
    quoted = _QUOTES.match(text, begin)
    return max([*marked, *([quoted.end()] if quoted else [])], default=len(text))


def _find_blocks(text: str) -> Iterator[Region]:
    """Paragraphs that show what they are. Nobody can tell where a paste without marks ends, or a document begins."""
    for paragraph in _PARAGRAPH.finditer(text):
        block, start = paragraph[0], paragraph.start()
        if not block.strip():
            continue
        if why := _find_output(block):
            yield start, len(text), why
        elif why := _find_document(block):
            yield 0, len(text), why
        elif quoted := _QUOTED_LINE.search(block):
            # Markdown lets a quotation run on to the end of its paragraph.
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
