"""Plain search: memories that hold every word asked for, with the place. No ranking by meaning, no floor, no gate.

For somebody who knows what they are looking for. A word is met by itself, anywhere and in any case, or by another form
of it ("deploying" by "deployed"). What might help with a question is `recall`'s to say.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from memdir.errors import MemdirError
from memdir.format.age import HalfLives, count_from
from memdir.format.frontmatter import parse_fields
from memdir.frozen import dataclass
from memdir.project.settings import Settings
from memdir.recall.terms import make_term
from memdir.records import Header, Kind, Memory, Message, Scope
from memdir.store.contract import Store, read_time
from memdir.store.files import FileStore
from memdir.store.history import ChangeDate
from memdir.text import fold

# --- finding ---

SNIPPET_CHARS = 160  # a line on most screens; who wants more opens the file
_BEFORE = 30  # so many of them before the first word that was found
_WORDS = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


@dataclass(frozen=True, slots=True)
class QueryWord:
    """One word asked for: folded, its stem if it has one, and bytes that every text with a form of it holds."""

    text: str
    stem: str
    trace: bytes


@dataclass(frozen=True, slots=True)
class BestLine:
    """The line of a text that holds the most of the words."""

    line: int
    snippet: str
    met: int


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A memory that holds every word, and its best line; 0 where only the name does."""

    header: Header
    path: str
    line: int
    snippet: str


def parse_words(text: str) -> tuple[QueryWord, ...]:
    return tuple(dict.fromkeys(_make_word(word) for word in fold(text).split()))


def search_memories(stores: Sequence[Store], text: str, *, limit: int) -> tuple[SearchHit, ...]:
    """Those with all words in one line before the others, then the newer first; at most `limit`."""
    words = parse_words(text)
    found = sorted(
        (hit for store in stores for hit in _find_in(store, words)),
        key=lambda hit: (hit[0], hit[1].header.modified, hit[1].header.name),
        reverse=True,
    )
    return tuple(hit for _, hit in found[:limit])


def has_all(text: str, words: Iterable[QueryWord]) -> bool:
    folded = fold(text)
    return all(_is_met(word, folded) for word in words)


def find_spot(text: str, words: Sequence[QueryWord]) -> BestLine | None:
    """The first line with the most of the words; None where no line has any."""
    best: BestLine | None = None
    for number, line in enumerate(text.split("\n"), 1):
        folded = fold(line)
        met = [word for word in words if _is_met(word, folded)]
        if met and (best is None or len(met) > best.met):
            best = BestLine(number, make_snippet(line, min(_find_start(word, folded) for word in met)), len(met))
            if len(met) == len(words):
                break
    return best


def make_snippet(line: str, start: int = 0) -> str:
    """The part of a line around a place in it, with an ellipsis at each end that was cut."""
    begin = max(0, start - _BEFORE) if len(line) > SNIPPET_CHARS else 0
    begin = min(begin, max(0, len(line) - SNIPPET_CHARS))
    if begin and (space := line.find(" ", begin, start)) >= 0:
        begin = space + 1
    piece = line[begin : begin + SNIPPET_CHARS]
    return ("…" if begin else "") + piece.strip() + ("…" if begin + SNIPPET_CHARS < len(line) else "")


def _find_in(store: Store, words: Sequence[QueryWord]) -> Iterator[tuple[bool, SearchHit]]:
    for header in store.scan():
        text = _read_text(store, header)
        if text is None or not words or not has_all(f"{header.name}\n{text}", words):
            continue
        path = str(store.root / header.file) if isinstance(store, FileStore) else header.file
        spot = find_spot(text, words) or BestLine(0, make_snippet(header.description or header.title), 0)
        yield spot.met == len(words), SearchHit(header, path, spot.line, spot.snippet)


def _read_text(store: Store, header: Header) -> str | None:
    """A memory's text; None for one that has gone or may not be read."""
    try:
        if isinstance(store, FileStore):
            data = store.read_bytes(header.file)
            return None if data is None else data.decode("utf-8", "replace")
        return store.read(header.name).text
    except MemdirError:
        return None


def _make_word(text: str) -> QueryWord:
    stem = make_term(text) if _WORDS.fullmatch(text) else ""
    # Forms of a word begin alike, but for a last letter that changes: "happy", "happiness".
    alike = next((at for at, pair in enumerate(zip(text, stem, strict=False)) if pair[0] != pair[1]), len(stem))
    common = text[: max(0, alike - 1)] if stem else text
    is_plain = common.isascii() and len(common) > 2 and not re.search(r"[^\w.-]", common)
    return QueryWord(text, stem, common.encode("ascii") if is_plain else b"")


def _is_met(word: QueryWord, folded: str) -> bool:
    return word.text in folded or _find_form(word, folded) >= 0


def _find_start(word: QueryWord, folded: str) -> int:
    place = folded.find(word.text)
    return place if place >= 0 else max(0, _find_form(word, folded))


def _find_form(word: QueryWord, folded: str) -> int:
    """Where another form of the word stands; -1 for nowhere."""
    if not word.stem or (word.trace and word.trace.decode("ascii") not in folded):
        return -1
    initial = word.stem[0]
    forms = (at.start() for at in _WORDS.finditer(folded) if at[0][0] == initial and make_term(at[0]) == word.stem)
    return next(forms, -1)


# --- query ---
# Which message is the query: the last thing the person typed, without what the host wrote into it.
#
# Hosts put much into a user's message: reminders, the text of slash commands and their output, results of tools. None
# of
# it was asked by the person, and recalling by it would let a memory call for itself. What a person typed is not judged
# here (gates), nor searched for (recall).

# Blocks that hosts write. The first is ours and theirs; the others come with commands, shells, editors and tasks.
_BLOCKS = (
    "system-reminder|command-name|command-message|command-args|local-command-stdout|local-command-stderr|"
    "local-command-caveat|bash-input|bash-stdout|bash-stderr|user-prompt-submit-hook|task-notification|"
    "ide_opened_file|ide_selection|ide_diagnostics|hook_context|session_context"
)
_TAG = re.compile(rf"<(/?)({_BLOCKS})(?:\s[^<>]{{0,200}})?>", re.IGNORECASE)
_COMMAND = re.compile(r"/[A-Za-z][\w:-]*(?=\s|$)")
_INDENT = 100  # more white space than this before a tag is no indentation
_HOST_LINE = re.compile(r"\[Request (?:interrupted|cancelled)\b[^\n\]]*\]")


def find_query(messages: Iterable[Message]) -> str:
    """The text of the last message the person typed; empty if there is none."""
    for message in reversed(list(messages)):
        if message.role != "user" or message.is_meta or message.answers:
            continue
        if typed := strip_host_text(message.text):
            return typed
    return ""


def strip_host_text(text: str) -> str:
    """What is left of a message without the host's blocks, slash commands and notices."""
    kept = strip_blocks(text)
    lines = [line for line in kept.splitlines() if not _is_host_line(line.strip())]
    return "\n".join(lines).strip()


def strip_blocks(text: str) -> str:
    """Without `<system-reminder>…</system-reminder>` and the like; a block that is not closed goes to the end.

    A lone opening tag in the middle of a line is somebody writing about tags, and stays.
    """
    kept, at, inside = [], 0, ""
    open_ended: set[str] = set()
    for tag in _TAG.finditer(text):
        closing, name = bool(tag[1]), tag[2].lower()
        if inside:
            if closing and name == inside:
                at, inside = tag.end(), ""
        elif not closing and (_starts_line(text, tag.start(), at) or _is_closed(text, tag, open_ended)):
            kept.append(text[at : tag.start()])
            inside = name
    if not inside:
        kept.append(text[at:])
    return "".join(kept)


def _starts_line(text: str, at: int, start: int) -> bool:
    before = text[max(start, at - _INDENT) : at].rstrip(" \t")
    return not before or before.endswith("\n")


def _is_closed(text: str, tag: re.Match[str], open_ended: set[str]) -> bool:
    """Whether its end tag follows; `open_ended` remembers those that have none, so that a text is searched once."""
    if tag[2] not in open_ended and text.find(f"</{tag[2]}", tag.end()) < 0:
        open_ended.add(tag[2])
    return tag[2] not in open_ended


def _is_host_line(line: str) -> bool:
    return bool(_COMMAND.match(line) or _HOST_LINE.fullmatch(line))


# --- aging ---
# From which moment a memory's age counts: the latest of a change of its words, its last verification, and a touch.
#
# A change is dated by what knows best: history; else the file's own `modified`; else, for what a team shares, the
# commit;
# else the file's time of change. Bytes that a sync or an import brought are as old as the file or the commit says, not
#  as
# the day they came. A moment to come counts as now. `store.dating` says how a touch is told from a checkout.
#
# For the few memories that are shown, not for a whole directory: each takes a look into `history.db`. Ranking goes by
# what the derived index knows of a file, which is nearly the same and needs no history.


def find_since(store: Store, memory: Memory, *, now: datetime) -> datetime:
    """The moment from which this memory's age counts."""
    return find_ages(store, (memory,), now=now)[memory.header.name]


def find_ages(store: Store, memories: Sequence[Memory], *, now: datetime) -> dict[str, datetime]:
    """By name, the moment from which each memory's age counts; one look into history for all."""
    dates = _find_dates(store, memories)
    return {at.header.name: _find_latest(store, at, dated, now) for at, dated in zip(memories, dates, strict=True)}


def read_half_lives(settings: Settings) -> HalfLives:
    """How fast each type ages, in days, by the person's settings."""
    return {kind: settings.number(f"half_life.{kind}") for kind in Kind}


def _find_dates(store: Store, memories: Sequence[Memory]) -> Sequence[ChangeDate]:
    if isinstance(store, FileStore):
        try:
            return store.find_dates(memories)
        except MemdirError:  # a damaged history costs no memory
            pass
    return [ChangeDate() for _ in memories]


def _find_latest(store: Store, memory: Memory, dated: ChangeDate, now: datetime) -> datetime:
    fields = parse_fields(memory.text)
    changed = _find_changed(store, memory, dated, read_time(fields.modified))
    return count_from((changed, read_time(fields.verified), dated.touched), now) or memory.header.modified


def _find_changed(store: Store, memory: Memory, dated: ChangeDate, said: datetime | None) -> datetime | None:
    if dated.changed is not None and not dated.brought:
        return dated.changed
    if dated.is_known and dated.changed is None:
        # Somebody has changed it since history last looked; what the file says of itself may be older than that.
        return memory.header.modified if said is None else max(said, _read_mtime(memory))
    return said or _find_commit(store, memory) or dated.changed or dated.since or memory.header.modified


def _find_commit(store: Store, memory: Memory) -> datetime | None:
    """When the last author of a shared memory committed it."""
    if memory.header.scope is not Scope.TEAM or not isinstance(store, FileStore):
        return None
    # Imported here: few recalls bring what a team shares.
    from memdir.store.state import read_authors

    author = read_authors(store.state).get(memory.header.name)
    return author.when if author is not None else None


def _read_mtime(memory: Memory) -> datetime:
    return datetime.fromtimestamp(memory.header.signature.mtime_ns / 1e9, memory.header.modified.tzinfo)
