"""Where the words of a memory came from, and so whether it may be believed.

A model that writes memories can be talked into anything by the text it reads. So it is not asked where a memory came
from; its words are looked up. Each sentence must rest on the person's own plain words; one that carries foreign text
makes the whole memory foreign, one that rests on the agent's words or on nothing makes it the agent's. What follows
`**Why:**` or `**How to apply:**` may be the agent's.

It decides nothing about keeping (judging), and knows no files. It compares words: it can be deceived by a sentence made
wholly of words the person used close together, and it believes no translation.
"""

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from itertools import pairwise

from memdir.frozen import dataclass, replace
from memdir.language.words import (
    FORWARDED,
    LEAD_IN,
    MAIL_HEAD,
    NEGATION,
    ORDER,
    OWN,
    REPORT,
    ROLE,
    SMALL,
    SMALL_CJK,
    VOICE,
)
from memdir.recall.table import open_words
from memdir.recall.terms import make_term
from memdir.records import Message
from memdir.text import one_line, shorten

__all__ = [
    "MessageSpan",
    "PassageIndex",
    "ProvenanceVerdict",
    "SpeakerSources",
    "Trust",
    "is_carried",
    "judge_words",
    "split_judged",
    "split_message",
    "strip_reminders",
    "trace",
]


# --- claims ---
# What a sentence claims, in a form that can be looked up: its telling words, and what must match to the letter.
#
# Telling words are compared by stems cut short, so that inflection does not matter in any of the Latin languages;
# Chinese
# and Japanese by pairs of characters without grammar. Addresses, paths, commands, identifiers and mails are `exact`: a
# memory that names one has it from somewhere. Names and numbers stand between the two.

KEY_LETTERS = 6  # of a stem: "summaries" and "summarizing" are the same word

_WIDE = r"\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WIDE_RUN = re.compile(rf"[{_WIDE}]+")
_HIRAGANA = re.compile(r"[\u3040-\u309f]+")
_WORD = re.compile(rf"(?:(?![{_WIDE}])[^\W\d_])+")
_TOKEN = re.compile(rf"[{_WIDE}]|(?:(?![{_WIDE}])\w)+")
_REPLY = re.compile(r"^\s*(?:no|nope|nein|nee|non)\s*[,:;.!–—]\s*", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])\d++(?:[.,]\d++)*+(?!\w{0,20}[A-Za-z_]{3})")
_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b|\d{4}年\d{1,2}月\d{1,2}日")
_EXACT = re.compile(
    r"""
      [A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>"'`）」，。、]+
    | (?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{0,100}\w
    | (?<![\w.-])(?:[A-Za-z0-9-]{1,63}\.){1,6}(?:com|org|net|io|dev|ai|app|co|de|fr|es|cn|jp|eu|uk|us|info|
        biz|xyz|sh|me|ru|example|
        invalid|test|local|internal|corp|evil)\b(?:/[^\s<>"'`）」，。、]*)?
    | (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?
    | (?<![\w/.])(?:~|\.{1,2})?/[\w.@~+-]+(?:/[\w.@~+*-]*)*
    | (?<![\w/.@+-])[\w.@+-]{1,100}(?:/[\w.@+*-]+)+
    | (?<![\w-])--?[A-Za-z][\w-]*(?:=[^\s`,;]+)?
    | \b[A-Za-z]+_\w+\b | \b[a-z]+[A-Z]\w*\b | \b(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z0-9]{6,}\b
    | (?<![\w-])[\w-]{1,80}\.(?:md|py|js|ts|tsx|json|ya?ml|toml|sh|go|rs|java|sql|txt|env|cfg|ini|lock|pem|key|
        csv|html?)\b
    """,
    re.VERBOSE | re.ASCII,
)
_CODE = re.compile(r"`([^`\n]+)`")
_CAPITAL = re.compile(r"(?<![\w.])[A-ZÀ-ÖØ-Þ][\w’'-]*")
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’»)*_]*\s+(?=\S)|(?<=[。！？；])|\n+")
_MARKS = re.compile(r"\A[\s>]*+(?:[-*+•・]|#{1,6}|\d{1,3}[.)、．])?\s*+")
_LANGUAGES = {
    "en": "the of and to is that for with are this you from it when before after all never always should",
    "de": "der die das und ist nicht ein eine für mit auf zu von den dem immer wenn werden soll nie wird sich im",
    "fr": "le la les des et est une pour que dans pas sur au ne qui avec du ce toujours jamais doit sont",
    "es": "el los las que una por con para es del en se al siempre nunca debe como y sin lo",
}


@dataclass(frozen=True, slots=True)
class JudgedSentence:
    """One sentence: what it says, ready to be looked up."""

    text: str
    keys: frozenset[str]
    exact: frozenset[str]
    names: frozenset[str]
    numbers: frozenset[str]
    days: frozenset[str]
    language: str
    negated: bool
    orders: bool


def parse_claim(text: str) -> JudgedSentence:
    exact = find_exact(text)
    language = guess_language(text)
    names = frozenset() if language == "de" else find_sentence_names(text)
    numbers = frozenset(_NUMBER.findall(_DAY.sub(" ", _EXACT.sub(" ", text))))
    days = frozenset(_DAY.findall(text))
    return JudgedSentence(
        text, find_keys(text), exact, names, numbers, days, language, is_negated(text), _matches(ORDER, text)
    )


def split_judged(text: str) -> tuple[str, ...]:
    """The sentences of a text, list marks and headings' marks left out."""
    found = (_MARKS.sub("", part).strip() for part in _SENTENCE.split(text))
    return tuple(part for part in found if re.search(r"\w", part))


def find_keys(text: str) -> frozenset[str]:
    """The telling words of a text, each as the key by which its forms are the same."""
    return frozenset(key for word in _WORD.findall(_fold(text)) if (key := make_word_key(word))) | _find_pairs(text)


def find_order(text: str) -> frozenset[tuple[str, str]]:
    """Which word follows which: two texts of the same words can say opposite things."""
    words = _TOKEN.findall(_fold(text))
    return frozenset(pairwise(words))


@cache
def _find_pairs_of(run: str) -> frozenset[str]:
    kept: set[str] = set()
    for part in re.split(SMALL_CJK, run):
        for word in _HIRAGANA.split(part):  # hiragana is grammar for the most part
            kept |= {word[at : at + 2] for at in range(len(word) - 1)} if len(word) > 1 else {word}
    return frozenset(kept - {""})


def _find_pairs(text: str) -> frozenset[str]:
    if text.isascii():
        return frozenset()
    return frozenset().union(*(_find_pairs_of(run) for run in _WIDE_RUN.findall(unicodedata.normalize("NFKC", text))))


def make_word_key(word: str) -> str:
    """Empty for a word that claims nothing."""
    if word in SMALL or (len(word) < 2 and word.isascii()):
        return ""
    plain = word if word.isascii() else _strip_accents(word)
    return make_term(plain)[:KEY_LETTERS] if plain not in SMALL else ""


def find_exact(text: str) -> frozenset[str]:
    """Addresses, mails, paths, flags, identifiers, files and code, each in the form in which it is compared."""
    found = {_trim(match) for match in _EXACT.findall(text)}
    for code in _CODE.findall(text):
        found.add(_trim(code))
    return frozenset(at for at in found if len(at) > 1)


def find_sentence_names(text: str) -> frozenset[str]:
    """Words written like names: with a capital in the middle of a sentence, unless most words have one."""
    bare = _EXACT.sub(" ", _CODE.sub(" ", text))
    words = _WORD.findall(bare)
    capitals = [at[0] for at in _CAPITAL.finditer(bare) if at.start() > len(bare) - len(bare.lstrip(" *_\"'“(["))]
    shouted = {word for word in capitals if word.isupper() and len(word) > 1}
    named = capitals if len(capitals) * 2 < len(words) else shouted
    return frozenset(fold for word in named if (fold := _fold(word).strip("'’-")) not in SMALL and len(fold) > 1)


def guess_language(text: str) -> str:
    """zh, ja, or one of four told by their small words; empty if nothing tells."""
    wide = sum(map(len, _WIDE_RUN.findall(text)))
    words = _WORD.findall(_fold(text))
    if wide * 3 > len("".join(words)):
        return "ja" if _HIRAGANA.search(text) else "zh"
    counts = {name: sum(map(small.__contains__, words)) for name, small in _small_words().items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] > 0 and sum(count == counts[best] for count in counts.values()) == 1 else ""


@cache
def _small_words() -> dict[str, frozenset[str]]:
    return {name: frozenset(words.split()) for name, words in _LANGUAGES.items()}


def is_negated(text: str) -> bool:
    """Whether it denies something; a "No," at its beginning denies what was said before it, not what follows."""
    return _matches(NEGATION, _REPLY.sub("", text))


def is_hearsay(text: str) -> bool:
    """A question, or what a page or a file says: the person does not say it themselves."""
    return text.rstrip().endswith(("?", "？", "か。", "か", "吗。", "吗")) or _matches(REPORT, text)


def _matches(pattern: str, text: str) -> bool:
    return _compile(pattern).search(text) is not None


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def fold_sentence(text: str) -> str:
    """A text as exact things are looked up in it."""
    return " ".join(_fold(text).split())


def _fold(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold().replace("’", "'")


def _strip_accents(word: str) -> str:
    parts = unicodedata.normalize("NFKD", word)
    return "".join(char for char in parts if not unicodedata.combining(char))


def _trim(thing: str) -> str:
    plain = " ".join(_fold(thing).split()).rstrip(".,;:!?)]}'\"/")
    return re.sub(r"\A(?:[a-z]+://)?(?:www\.)?", "", plain)


# --- reminders ---
# memdir's own reminders, taken out of a message: a memory must not feed itself.
#
# They come in two forms (`reminder.render_reminder`): inside `<system-reminder>`, or bare, for hosts that wrap them
# themselves. A bare one has no end of its own: it goes up to the next tag of the block or the end of the message.
# Blocks
# that hold no memory belong to the host and stay; who wrote them is for `split_message` to say.

_TAG = re.compile(r"<\s*(/?)\s*system-reminder\b[^<>]{0,200}>", re.IGNORECASE)
# The line before a memory's text, perhaps behind words of the host ("… additional context: ").
_HEADER = re.compile(
    r"^(?:[^\n]{0,120}?:[ \t]+)?Memory(?: \(saved (?:today|yesterday)\))?: [^\n]{1,4096}\.md:[ \t]*\r?$", re.MULTILINE
)
_NOTED = re.compile(r"This was noted \d+ days? ago and describes that moment")
_LINES_ABOVE = 2  # the sentence on its age, and a caveat


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


# --- split ---
# A person's message, cut into their own plain words and what they quoted or pasted.
#
# Read with suspicion: what stands inside a paste may have been written to look like its end. So a region goes from its
# first opening mark to the last closing one, and what has no end goes to the end of the message. What is lost that way
# is not lost: it only counts as text of unknown origin, which waits for a person instead of being believed.
#
# It looks at form alone and judges no content; Markdown is not parsed.

MESSAGE_CHARS = 2000  # plain words of one message; what is longer is not a wish but a document
RUN_CHARS = 900  # one paragraph; a person breaks up what is longer, or pasted it
SILENT_CHARS = 400  # one paragraph in which nobody says I, we, you or please
QUOTE_CHARS = 40  # between quotation marks: a longer text is somebody's
WIDE = 2.5  # a Chinese or Japanese character says as much as so many letters

Region = tuple[int, int, str]

_HOST = (
    "system-reminder|command-name|command-message|command-args|local-command-stdout|local-command-stderr|"
    "local-command-caveat|bash-input|bash-stdout|bash-stderr|user-prompt-submit-hook|task-notification|"
    "ide_opened_file|ide_selection|ide_diagnostics|function_results|tool_result|document|file|context|attachment"
)
_WIDE_CHAR = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_MARKUP_TAG = re.compile(r"<(/?)([A-Za-z][\w:.-]{0,60})(?:\s[^<>]{0,400})?/?>")
_FENCE = re.compile(r"^[ \t>]*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]++)?(?:`{3,}[^`\n]*|~{3,}[^\n]*)$", re.MULTILINE)
_QUOTED_LINE = re.compile(r"[ \t]*(?:[>＞▎│]|&gt;)")
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
    regions = _merge([*_find_marked(text), *_find_announced(text), *_find_blocks(text)])
    plain = list(_find_plain(text, regions))
    if sum(_measure(text[start:end]) for start, end in plain) > MESSAGE_CHARS:
        regions = _merge([*regions, *((start, end, "long") for start, end in plain)])
    return tuple(_make_spans(text, regions))


def _make_spans(text: str, regions: list[Region]) -> Iterator[MessageSpan]:
    place = 0
    for start, end, why in [*regions, (len(text), len(text), "")]:
        if start > place:
            yield MessageSpan(text[place:start], place, start, True)
        if end > start:
            yield MessageSpan(text[start:end], start, end, False, why)
        place = end


def _find_plain(text: str, regions: list[Region]) -> Iterator[tuple[int, int]]:
    place = 0
    for start, end, _ in [*regions, (len(text), len(text), "")]:
        if text[place:start].strip():
            yield place, start
        place = max(place, end)


def _merge(regions: list[Region]) -> list[Region]:
    merged: list[Region] = []
    for start, end, why in sorted(regions, key=lambda at: (at[0], -at[1])):
        if merged and start < merged[-1][1]:
            before = merged[-1]
            merged[-1] = (before[0], max(end, before[1]), before[2])
        elif end > start:
            merged.append((start, end, why))
    return merged


def _measure(text: str) -> float:
    """Its length in letters, a Chinese or Japanese character counted for several."""
    wide = 0 if text.isascii() else len(_WIDE_CHAR.findall(text))
    return len(text.strip()) + (WIDE - 1) * wide


# --- regions with marks of their own --------------------------------------------------------------------------------


def _find_marked(text: str) -> Iterator[Region]:
    yield from _find_tagged(text)
    yield from _find_between(text, list(_FENCE.finditer(text)), "fenced")
    yield from _find_between(text, list(_RULE.finditer(text)), "behind a rule")
    if begin := _BEGIN.search(text):
        ends = list(_END.finditer(text, begin.end()))
        yield begin.start(), ends[-1].end() if ends else len(text), "begin and end"
    for quote in _QUOTES.finditer(text):
        if _measure(quote[0]) - 2 > QUOTE_CHARS:
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
        if end > tag.end() and (is_host or end - tag.end() > QUOTE_CHARS + len(name) + 3):
            yield tag.start(), end, f"<{name}>"
        elif end <= tag.end() and is_host and _starts_line(text, tag.start()):
            yield tag.start(), len(text), f"<{name}>"
    for name in closed.keys() - opened.keys():
        if re.fullmatch(_HOST, name):
            yield 0, closed[name], f"</{name}>"


def _starts_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()


def _find_line(text: str, at: int) -> tuple[int, int]:
    end = text.find("\n", at)
    return text.rfind("\n", 0, at) + 1, len(text) if end < 0 else end


# --- text that is announced -----------------------------------------------------------------------------------------


@cache
def _split_compile(pattern: str) -> re.Pattern[str]:
    """Compiled when a message is first read: the tables are long."""
    return re.compile(pattern, re.IGNORECASE | re.MULTILINE)


def _find_announced(text: str) -> Iterator[Region]:
    for lead in _split_compile(LEAD_IN).finditer(text):
        end = _find_announced_end(text, lead.end())
        if end > lead.end() and not _split_compile(OWN).search(lead[0]):
            yield lead.end(), end, "announced"
    for pattern, why in ((rf"^[ \t]*(?:{FORWARDED})", "forwarded"), (rf"^[ \t]*{ROLE}", "another speaker")):
        if found := _split_compile(pattern).search(text):
            yield found.start(), len(text), why
    heads = list(_split_compile(rf"^[ \t]*{MAIL_HEAD}").finditer(text))
    if len(heads) > 1:
        yield heads[0].start(), len(text), "mail"


def _find_announced_end(text: str, start: int) -> int:
    """Up to the end of the message; a bare address after the colon, or a region with marks of its own, ends itself."""
    line_end = _find_line(text, start)[1]
    if _ADDRESS.match(text[start:line_end]) and text[start:line_end].strip():
        return start
    begin = start + len(text[start:]) - len(text[start:].lstrip())
    marked = [end for first, end, _ in _merge(list(_find_marked(text))) if first <= begin < end]
    quoted = _QUOTES.match(text, begin)
    return max([*marked, *([quoted.end()] if quoted else [])], default=len(text))


# --- text that looks like no person's -------------------------------------------------------------------------------


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
        elif (place := _find_quoted_line(block)) is not None:
            # Markdown lets a quotation run on to the end of its paragraph.
            yield start + place, paragraph.end(), "quoted line"


def _find_output(block: str) -> str:
    lines = [line for line in block.split("\n") if line.strip()]
    machine = sum(_MACHINE.match(line) is not None for line in lines)
    if (machine and (machine >= 0.4 * len(lines) or machine > 2)) or _DATA.match(block):
        return "output or data"
    if sum(_CHAT_LINE.match(line) is not None for line in lines) > 1 or _has_speakers(lines):
        return "chat"
    return "indented" if _is_indented(lines) else ""


def _find_document(block: str) -> str:
    if any(_measure(run) > RUN_CHARS for run in _ITEM.split(block)):
        return "long"
    return "nobody's voice" if _measure(block) > SILENT_CHARS and not _split_compile(VOICE).search(block) else ""


def _has_speakers(lines: list[str]) -> bool:
    names = [line.split(":", 1)[0].strip(" \t*") for line in lines if _SPEAKER.match(line)]
    return len(names) > 2 and len(set(names)) < len(names)


def _is_indented(lines: list[str]) -> bool:
    return all(line.startswith(("    ", "\t")) and not _ITEM.match(line) for line in lines)


def _find_quoted_line(block: str) -> int | None:
    place = 0
    for line in block.split("\n"):
        if _QUOTED_LINE.match(line):
            return place
        place += len(line) + 1
    return None


# --- sources ---
# The text of a slice of conversation, sorted by whose words it is, ready to be searched by telling words.
#
# The person's are what they typed themselves, in plain words. The agent's are what it wrote. All else is foreign:
# results
# of tools, what the host put in, and whatever the person quoted or pasted.

WINDOW = 4  # sentences of the person in which a claim may find its words: a wish and its reason, not a whole letter
FOREIGN_WINDOW = 2
PROSE_WORDS = 5  # a foreign sentence of so many words has a language


class Trust(StrEnum):
    """Whose words a memory rests on."""

    PERSON = "person"
    AGENT = "agent"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Passage:
    """A few sentences of one message."""

    message: str
    text: str
    keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class PassageIndex:
    """All passages of one kind, where each key stands, and the whole text for what must match to the letter."""

    passages: tuple[Passage, ...]
    places: Mapping[str, tuple[int, ...]]
    text: str
    languages: frozenset[str]

    def find_best(self, keys: Collection[str]) -> tuple[Passage | None, int]:
        """The passage that holds most of the keys, and how many."""
        counts: Counter[int] = Counter()
        for key in keys:
            counts.update(self.places.get(key, ()))
        if not counts:
            return None, 0
        # The shorter of equals: it says nothing else.
        place = max(counts, key=lambda at: (counts[at], -len(self.passages[at].keys), -at))
        return self.passages[place], counts[place]

    def find_all(self, key: str) -> Iterator[Passage]:
        return (self.passages[place] for place in self.places.get(key, ()))


@dataclass(frozen=True, slots=True)
class SpeakerSources:
    """Who said what in a slice."""

    person: PassageIndex
    agent: PassageIndex
    foreign: PassageIndex


def trace(messages: Sequence[Message], believed: Iterable[tuple[str, str]] = ()) -> SpeakerSources:
    """Sort the words of a slice by whose they are; `believed` are texts, each with its name, that count as a person's.

    Those are not looked through for quotes: what is remembered already is nobody's paste.
    """
    texts: Mapping[Trust, list[tuple[str, str]]] = {trust: [] for trust in Trust}
    texts[Trust.PERSON].extend(believed)
    for place, message in enumerate(messages):
        name = message.id or str(place)
        for trust, text in _sort_message(message):
            texts[trust].append((name, text))
    return SpeakerSources(
        _make_shelf(texts[Trust.PERSON], WINDOW),
        _make_shelf(texts[Trust.AGENT], FOREIGN_WINDOW),
        _make_shelf(texts[Trust.FOREIGN], FOREIGN_WINDOW),
    )


def _sort_message(message: Message) -> Iterator[tuple[Trust, str]]:
    if message.role == "assistant":
        yield Trust.AGENT, message.text
    elif message.role != "user" or message.is_meta or message.answers:
        yield Trust.FOREIGN, message.text
    else:
        for span in split_message(strip_reminders(message.text)):
            yield Trust.PERSON if span.plain else Trust.FOREIGN, span.text


def _make_shelf(texts: Iterable[tuple[str, str]], width: int) -> PassageIndex:
    passages: list[Passage] = []
    languages: set[str] = set()
    whole: list[str] = []
    for name, text in texts:
        sentences = split_judged(text)
        passages += _make_passages(name, sentences, width)
        languages |= {guess_language(at) for at in sentences if len(at.split()) >= PROSE_WORDS or not at.isascii()}
        whole.append(fold_sentence(text))
    places: dict[str, list[int]] = defaultdict(list)
    for number, passage in enumerate(passages):
        for key in passage.keys:
            places[key].append(number)
    frozen = {key: tuple(numbers) for key, numbers in places.items()}
    return PassageIndex(tuple(passages), frozen, "\n".join(whole), frozenset(languages - {""}))


def _make_passages(name: str, sentences: Sequence[str], width: int) -> Iterator[Passage]:
    """Every sentence alone, and every run of neighbours up to the width."""
    keys = [find_keys(sentence) for sentence in sentences]
    for start in range(len(sentences)):
        for end in range(start + 1, min(start + width, len(sentences)) + 1):
            both = frozenset[str]().union(*keys[start:end])
            if both:
                yield Passage(name, "\n".join(sentences[start:end]), both)


# --- taint ---

PERSON_SHARE = 0.7  # of a sentence's telling words that the person must have said, where foreign text is about
ALONE_SHARE = 0.3  # where there is none: a paraphrase can only be the agent's own
NOVEL_MAX = 2  # words of the agent's own in a sentence, where foreign text is about
CARRIED_SHARE = 0.5  # of a sentence's telling words found in one foreign passage: that is where it came from
AGENT_SHARE = 0.5
LABEL_SHARE = 0.5  # of a title's words that the sentences below it must hold
TITLE_WORDS = 2  # a title this short may be the agent's own: "Background", "Three rules"
WIDE_EASE = 0.6  # pairs of characters overlap at their edges: fewer of them survive a paraphrase
NEAR = 0.5  # how near another word must be to count as the same in foreign text
NUMBER_FREE = 12  # smaller numbers are counted by anybody

_PART = re.compile(r"\A[*_]*(?:why|how to apply|how)\b[^:：]{0,20}[:：][*_]*", re.IGNORECASE)
_CLAUSE = re.compile(r"[,;:—–()\n，；：、。]")
_FRONT = re.compile(r"\A(?:name|title|description|type)\s*:\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ProvenanceVerdict:
    """Whose words a memory rests on, why in a few words, and the messages they stand in."""

    trust: Trust
    why: str = ""
    message_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Finding:
    claim: JudgedSentence
    trust: Trust
    why: str = ""
    messages: tuple[str, ...] = ()  # where it was found, if it was
    things: frozenset[str] = frozenset()  # what it names and the person does not
    is_part: bool = False


def judge_words(text: str, evidence: str, sources: SpeakerSources) -> ProvenanceVerdict:
    """Whose words a memory (title, description and body) rests on; `evidence` is what the model says it rests on."""
    findings = [_judge_claim(claim, sources, is_part) for claim, is_part in _parse_claims(text)]
    findings = list(_believe_labels(findings))
    if doubt := _judge_evidence(evidence, sources):
        return doubt
    for trust in (Trust.FOREIGN, Trust.AGENT):
        for at in findings:
            if at.trust is trust and not (at.is_part and trust is Trust.AGENT):
                return ProvenanceVerdict(trust, f"{at.why}: “{shorten(one_line(at.claim.text), 80)}”", at.messages)
    rests = [at for at in findings if at.trust is Trust.PERSON]
    if not rests:
        return ProvenanceVerdict(Trust.AGENT, "nothing in it is the person's")
    ids = dict.fromkeys(message for at in rests for message in at.messages)
    return ProvenanceVerdict(Trust.PERSON, "the person's own words", tuple(ids))


def is_carried(text: str, sources: SpeakerSources) -> bool:
    """Whether foreign text says a sentence of this, or names what it names, and the person less of it."""
    for claim, _ in _parse_claims(text):
        _, own = sources.person.find_best(claim.keys)
        _, shared = sources.foreign.find_best(claim.keys)
        if max(own, 1) < shared and shared >= _ease(claim, CARRIED_SHARE) * len(claim.keys):
            return True
        if _find_carrier_of_things(claim, _find_novel_things(claim, sources.person), sources):
            return True
    return False


def _parse_claims(text: str) -> Iterator[tuple[JudgedSentence, bool]]:
    is_part = False
    for sentence in split_judged(text):
        is_part = is_part or _PART.match(sentence) is not None
        claim = parse_claim(_FRONT.sub("", _PART.sub("", sentence)))
        if claim.keys or claim.exact or claim.numbers:
            yield claim, is_part


def _judge_evidence(quote: str, sources: SpeakerSources) -> ProvenanceVerdict | None:
    """A quotation that stands in foreign text and not in the person's tells where the memory came from."""
    words = find_keys(quote)
    if not words:
        return None
    _, own = sources.person.find_best(words)
    passage, foreign = sources.foreign.find_best(words)
    if passage is not None and foreign > own and foreign >= 0.8 * len(words):
        return ProvenanceVerdict(Trust.FOREIGN, "its evidence is no plain word of the person", (passage.message,))
    return None


# --- one sentence ---------------------------------------------------------------------------------------------------


def _judge_claim(claim: JudgedSentence, sources: SpeakerSources, is_part: bool) -> _Finding:
    novel = _find_novel_things(claim, sources.person)
    if carrier := _find_carrier_of_things(claim, novel, sources):
        return _Finding(claim, Trust.FOREIGN, "foreign text names it", (carrier,), novel, is_part)
    best, own = sources.person.find_best(claim.keys)
    if sources.foreign.passages:
        finding = _judge_among_foreign(claim, sources, best, own)
    else:
        grounded = own >= _ease(claim, ALONE_SHARE) * len(claim.keys)
        finding = (Trust.PERSON, "", best) if grounded else (Trust.AGENT, "nobody but the agent says it", None)
    trust, why, passage = finding
    if novel and trust is Trust.PERSON:
        trust, why, passage = Trust.AGENT, "the person never named it", None
    return _soften(_Finding(claim, trust, why, (passage.message,) if passage else (), novel, is_part), sources)


def _judge_among_foreign(
    claim: JudgedSentence, sources: SpeakerSources, best: Passage | None, own: int
) -> tuple[Trust, str, Passage | None]:
    said = best.keys if best else frozenset()
    novel = claim.keys - said
    carrier, shared = sources.foreign.find_best(claim.keys)
    total = len(claim.keys)
    carried = carrier is not None and shared > 1 and shared >= _ease(claim, CARRIED_SHARE) * total
    if carrier is not None and _is_smuggled(claim, novel, sources.foreign):
        return Trust.FOREIGN, "foreign text says it", carrier
    if own >= _ease(claim, PERSON_SHARE) * total and len(novel) <= max(NOVEL_MAX, (1 - _ease(claim, 1.0)) * total):
        if carried and best and carrier and (_is_hearsay(best) or _is_turned(claim, best, carrier)):
            return Trust.FOREIGN, "the person did not say it so, foreign text does", carrier
        if carried and best and carrier and shared >= own and _is_closer(claim, carrier, best):
            return Trust.FOREIGN, "foreign text says it in these words", carrier
        if carrier is not None and shared > own and novel & carrier.keys:
            return Trust.FOREIGN, "foreign text says more of it than the person", carrier
        return Trust.PERSON, "", best
    if carried and shared > own:
        return Trust.FOREIGN, "foreign text says it", carrier
    _, echoed = sources.agent.find_best(claim.keys)
    if claim.language and sources.foreign.languages - {claim.language}:
        return Trust.FOREIGN, "it may be a translation of foreign text", None
    if echoed >= _ease(claim, AGENT_SHARE) * total and not claim.orders:
        return Trust.AGENT, "nobody but the agent says it", None
    return Trust.FOREIGN, "the person did not say it, and foreign text is about", None


def _soften(finding: _Finding, sources: SpeakerSources) -> _Finding:
    """A reason or an advice may be the agent's own, as long as nothing shows that it is foreign."""
    if not finding.is_part or finding.messages or finding.trust is not Trust.FOREIGN:
        return finding
    own = sources.person.find_best(finding.claim.keys)[1] * 2 >= len(finding.claim.keys)
    if not own and finding.claim.language and sources.foreign.languages - {finding.claim.language}:
        return finding
    return replace(finding, trust=Trust.AGENT)


def _is_smuggled(claim: JudgedSentence, novel: Collection[str], foreign: PassageIndex) -> bool:
    """Whether words the person did not say stand together in foreign text, themselves or their neighbours."""
    if not novel:
        return False
    least = 3 if any(not key.isascii() for key in novel) else 2
    same = foreign.find_best(novel)[1]
    if same >= least and same * 2 >= len(novel):
        return True
    meant = {near: key for word in re.findall(r"[A-Za-z]+", claim.text) for near, key in _find_near(word, novel)}
    passage, _ = foreign.find_best(meant)
    found = {meant[key] for key in passage.keys & meant.keys()} if passage else set()
    return len(found) > least and len(found) * 3 >= 2 * len(novel)


def _find_near(word: str, novel: Collection[str]) -> Iterator[tuple[str, str]]:
    """Keys of words that mean about the same as a word the person did not say."""
    table, term = open_words(), make_term(word)
    key = term[:6]
    if key not in novel:
        return
    yield key, key
    for near, cosine in table.near(term) if table else ():
        if cosine >= NEAR:
            yield near[:6], key


def _is_hearsay(passage: Passage) -> bool:
    return all(is_hearsay(sentence) for sentence in split_judged(passage.text))


def _is_turned(claim: JudgedSentence, best: Passage, carrier: Passage) -> bool:
    """Whether the person said the opposite, and foreign text says it like this."""
    return _is_negated(claim, best) is not claim.negated and _is_negated(claim, carrier) is claim.negated


def _is_closer(claim: JudgedSentence, carrier: Passage, best: Passage) -> bool:
    """Whether the words follow each other as in foreign text rather than as the person put them."""
    order = find_order(claim.text)
    return len(order & find_order(carrier.text)) > len(order & find_order(best.text))


def _is_negated(claim: JudgedSentence, passage: Passage) -> bool:
    """As it concerns the claim: by the clause that holds all its words, if there is one, else by all of it."""
    shared = claim.keys & passage.keys
    for clause in _CLAUSE.split(passage.text):
        if shared <= find_keys(clause):
            return is_negated(clause)
    return is_negated(passage.text)


def _ease(claim: JudgedSentence, share: float) -> float:
    wide = sum(not key.isascii() for key in claim.keys)
    return share * WIDE_EASE if wide * 2 > len(claim.keys) else share


# --- things with a name ---------------------------------------------------------------------------------------------


def _find_novel_things(claim: JudgedSentence, person: PassageIndex) -> frozenset[str]:
    """Addresses, code, names and numbers that the person never typed in plain words."""
    exact = {at for at in claim.exact if not _stands_in(at, person.text)}
    names = {at for at in claim.names if not _stands_in(at, person.text) and not find_keys(at) & person.places.keys()}
    numbers = {at for at in claim.numbers if not _stands_in(at, person.text) and not _is_free(at)}
    return frozenset(exact | names | numbers)


def _find_carrier_of_things(claim: JudgedSentence, novel: frozenset[str], sources: SpeakerSources) -> str:
    """The foreign message that has one of them, names, numbers and days only beside other words of the sentence.

    A day is no novelty by itself: "by Thursday" is written out.
    """
    foreign = sources.foreign
    days = {day for day in claim.days if not _stands_in(day, sources.person.text)}
    for thing in sorted(thing for thing in novel | days if _stands_in(thing, foreign.text)):
        least = 0 if thing in claim.exact else 2 if thing in claim.days else 1
        others = claim.keys - find_keys(thing)
        for passage in foreign.passages:
            if len(others & passage.keys) >= min(least, len(others)) and _stands_in(thing, fold_sentence(passage.text)):
                return passage.message
        if thing in claim.exact:
            return "?"
    return ""


def _is_free(number: str) -> bool:
    return number.isdigit() and (int(number) <= NUMBER_FREE or not int(number))


def _stands_in(thing: str, text: str) -> bool:
    place = text.find(thing)
    while place >= 0:
        before, after = text[place - 1 : place], text[place + len(thing) : place + len(thing) + 1]
        if not (_is_word(before) and _is_word(thing[0])) and not (_is_word(after) and _is_word(thing[-1])):
            return True
        place = text.find(thing, place + 1)
    return False


def _is_word(char: str) -> bool:
    """Letters of scripts whose words stand apart; a Chinese character may touch anything."""
    return bool(char) and (char.isalnum() or char == "_") and char < "\u2e80"


# --- titles ---------------------------------------------------------------------------------------------------------


def _believe_labels(findings: Sequence[_Finding]) -> Iterator[_Finding]:
    """A title or description says again what the sentences below it say: these vouch for it."""
    rests = [at for at in findings if at.trust is Trust.PERSON]
    known = frozenset().union(*(at.claim.keys for at in rests))
    for number, at in enumerate(findings):
        keys, novel = at.claim.keys, len(at.claim.keys - known)
        covered = len(keys) - novel >= _ease(at.claim, LABEL_SHARE) * len(keys) and novel <= NOVEL_MAX
        short = not number and len(keys) <= TITLE_WORDS and not at.claim.orders
        vouched = bool(rests) and not at.messages and not at.things and (covered or short)
        yield replace(at, trust=Trust.PERSON) if vouched else at
