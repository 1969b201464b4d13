"""Find, add, replace and remove index lines in MEMORY.md without regenerating the file, and truncate it for a session.

Users keep control of order, headings and prose. A pointer (index line) is a list item that begins with a link to a `.md`
file, `- [Title](file.md) — hook`, or a line of the older form `text [file.md]`; code fences are prose. Names here are
relative to the folder of the index.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, dropwhile, pairwise, takewhile
from urllib.parse import unquote

from memdir import limits
from memdir.format.frontmatter import split_lines
from memdir.format.rules import find_rules
from memdir.frozen import compile_late, dataclass, replace
from memdir.limits import INDEX_BYTES, INDEX_LINE_CHARS, INDEX_LINES, INDEX_WARN_SHARE
from memdir.records import Clip, Header, Kind
from memdir.text import find_fences, fold, list_lines, merge_units, one_line, shorten

INDEX_FILE = "MEMORY.md"

_LINK = compile_late(
    r"(?P<lead>\s*(?:[-*+]|\d+[.)])\s+)(?:\*\*|__)?"
    r"\[(?P<title>(?:[^\[\]\\\n]|\\.|\[[^\[\]\n]*\])*)\]"
    r"\(\s*<?(?P<target>[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)>?(?:\s+\"[^\"\n]*\")?\s*\)"
    r"(?:\*\*|__)?\s*(?:[—–:-]+\s*)?(?P<hook>.*)"
)
_OLD = compile_late(r"(?P<lead>\s*(?:[-*+]\s+)?)(?P<title>.*?\S)\s*\[(?P<target>[^\[\]\s()]+\.md)\]\s*\Z")
_HEADING = compile_late(r"(#{1,6})[ \t]+(.*)")
_WORD = compile_late(r"\w+")
_COMMON_WORDS = frozenset(("and", "are", "does", "for", "from", "how", "not", "our", "that", "the", "use", "with"))
_LINES_KEPT = 16_384  # a cache smaller than the index would be useless
_TITLE_FILLER = ("memory", "memories", "notes", "the")


@dataclass(frozen=True, slots=True)
class IndexLine:
    """A parsed line of an index. `name` is its memory, relative to the index; `key` is the normalised name."""

    number: int
    text: str
    name: str = ""
    title: str = ""
    hook: str = ""
    level: int = 0
    heading: str = ""
    key: str = ""
    fenced: bool = False

    @property
    def is_pointer(self) -> bool:
        return bool(self.name)

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()


@lru_cache(maxsize=2)  # a batch of edits parses the same text many times
def parse_index(text: str) -> tuple[IndexLine, ...]:
    lines = _LazyLines(text)
    return tuple(lines[number] for number in range(len(lines)))


def render_line(title: str, name: str, hook: str) -> str:
    """Return the index line of a memory, cut to the maximum length."""
    label = one_line(title).replace("[", "(").replace("]", ")") or name
    start = f"- [{shorten(label, 80)}]({name}.md)"
    left = INDEX_LINE_CHARS - len(start) - 3
    words = shorten(one_line(hook), left) if left > 12 else ""
    return f"{start} — {words}" if words else start


def find_lines(text: str, name: str) -> tuple[IndexLine, ...]:
    """Return the lines that point to a memory. For speed, only lines that contain its name are parsed."""
    key = fold(name)
    leaf = key.rpartition("/")[2]
    if not key:
        return ()
    likely = [number for number, line in enumerate(_fold_lines(text)) if leaf in line or "%" in line]
    lines = _LazyLines(text) if likely else ()
    return tuple(line for number in likely if (line := lines[number]).key == key)


@lru_cache(maxsize=2)  # a batch of edits asks for the same text many times
def _list_lines(text: str) -> list[str]:
    return split_lines(text)


@lru_cache(maxsize=2)
def _fold_lines(text: str) -> list[str]:
    """Split text into lines and normalise each as `fold` does, except for the dash that nearly every line contains."""
    return [line if line.isascii() else fold(line) for line in text.replace("—", "-").lower().split("\n")]


def add_line(text: str, line: str, *, kind: Kind, words: str) -> str:
    """Add a line to the index: below the heading of its type, else after similar lines, else at the end.

    `words` are the title, description and name of the memory.
    """
    lines = _LazyLines(text)
    after = _find_typed_list(lines, kind)
    if after is None:
        after = _find_similar(lines, _fold_lines(text), words, kind)
    return _insert(lines, after if after is not None else lines.find_last_pointer(), line)


def append_pointer(text: str, line: str) -> str:
    """Add a line at the end of the list in the index."""
    lines = _LazyLines(text)
    return _insert(lines, lines.find_last_pointer(), line)


class _LazyLines:
    """A sequence of the lines of an index, each parsed on first access."""

    def __init__(self, text: str) -> None:
        self.texts = _list_lines(text)
        has_fences = bool(find_fences(text))
        # Lines inside code fences are prose.
        self._fenced = {number for number, (_, fence) in enumerate(list_lines(text)) if fence} if has_fences else ()

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, number: int) -> IndexLine:
        line = self.texts[number]
        is_fenced = number in self._fenced
        return IndexLine(number, line, fenced=True) if is_fenced else IndexLine(number, line, *_read_line(line))

    def find_last_pointer(self) -> int | None:
        return next((number for number in range(len(self) - 1, -1, -1) if self[number].is_pointer), None)


def replace_line(text: str, name: str, old: str, new: str) -> str:
    """Replace the line of a memory, unless the user has edited it, and return the index."""
    own = [line for line in find_lines(text, name) if line.text.strip() == old.strip() and old != new]
    if not own:
        return text
    parts = list(_list_lines(text))
    for line in own:
        lead = line.text[: len(line.text) - len(line.text.lstrip())]
        ending = line.text[len(line.text.rstrip("\r\n")) :]
        parts[line.number] = lead + new + ending
    return "".join(parts)


def drop_lines(text: str, name: str) -> str:
    dropped = {line.number for line in find_lines(text, name)}
    return "".join(line for number, line in enumerate(_list_lines(text)) if number not in dropped) if dropped else text


def find_splice(before: bytes, after: bytes) -> tuple[int, bytes, bytes]:
    """Return the offset, old bytes and new bytes of the run of complete lines in which two versions differ."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    head = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    rest = zip(reversed(old[head:]), reversed(new[head:]), strict=False)
    tail = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], rest))
    start = sum(map(len, old[:head]))
    return start, b"".join(old[head : len(old) - tail]), b"".join(new[head : len(new) - tail])


def apply_splice(data: bytes, splice: tuple[int, bytes, bytes]) -> bytes:
    start, removed, inserted = splice
    return data[:start] + inserted + data[start + len(removed) :]


@lru_cache(maxsize=_LINES_KEPT)
def _find_words(text: str) -> frozenset[str]:
    words = _WORD.findall(fold(text).replace("_", " "))
    return frozenset(word for word in words if len(word) > 2 and word not in _COMMON_WORDS)


@lru_cache(maxsize=_LINES_KEPT)  # most lines of an index do not change
def _read_line(text: str) -> tuple[str, str, str, int, str, str]:
    """Parse a line and return its name, title, hook, level, heading and normalised name."""
    bare = text.rstrip("\r\n")
    heading = _HEADING.match(bare)
    if heading:
        return "", "", "", len(heading.group(1)), heading.group(2).strip().rstrip("#").strip(), ""
    match = _LINK.match(bare) or _OLD.match(bare)
    name = _read_target(match.group("target")) if match else ""
    if not match or not name:
        return "", "", "", 0, "", ""
    groups = match.groupdict()
    return name, groups["title"].strip(), (groups.get("hook") or "").strip(), 0, "", fold(name)


def _read_target(target: str) -> str:
    """Return the memory name for a link target, or "" if it is not a file in the folder of the index."""
    plain = unquote(target.split("#", 1)[0]).removeprefix("./")
    if not plain.lower().endswith(".md") or ":" in plain or "\\" in plain or plain.startswith(("/", "~")):
        return ""
    segments = plain.split("/")
    if "" in segments or ".." in segments or segments[-1].lower() == INDEX_FILE.lower():
        return ""
    return plain[:-3]


def _find_typed_list(lines: _LazyLines, kind: Kind) -> int | None:
    """Return the line number at the end of the first list below the heading of a type, or of the heading itself."""
    for heading in (number for number, text in enumerate(lines.texts) if text[:2] == "##"):
        line = lines[heading]
        words = [word.rstrip("s") for word in _WORD.findall(line.heading.lower()) if word not in _TITLE_FILLER]
        if line.level >= 2 and words and words[0] == kind.value and len(words) <= 2:
            below = (lines[number] for number in range(heading + 1, len(lines)))
            pointers = takewhile(lambda after: after.is_pointer or after.is_blank, below)
            return max((after.number for after in pointers if after.is_pointer), default=heading)
    return None


def _find_similar(lines: _LazyLines, folded: Sequence[str], words: str, kind: Kind) -> int | None:
    """Return the line number after the list with the most similar memory, which shares at least two words, or None."""
    query = _find_words(words) - {kind.value}
    best, last = 1, None
    for number, text in enumerate(folded):
        # Count in the text first, which is quicker: it contains all words of the parsed line.
        if sum([word in text for word in query]) > best:
            line = lines[number]
            shared = len(query & _find_words(f"{line.title} {line.hook} {line.name}")) if line.is_pointer else 0
            if shared > best:
                best, last = shared, number
    while last is not None and last + 1 < len(lines) and lines[last + 1].is_pointer:
        last += 1
    return last


def _insert(lines: _LazyLines, after: int | None, line: str) -> str:
    parts = list(lines.texts)
    newline = "\r\n" if any(part.endswith("\r\n") for part in parts) else "\n"
    if after is None:
        return _insert_first(parts, lines, line, newline)
    if not parts[after].endswith("\n"):
        parts[after] += newline
    fresh = [line + newline]
    if lines[after].level:
        fresh = [newline, *fresh]
        if after + 1 < len(lines) and not lines[after + 1].is_blank:
            fresh.append(newline)
    return "".join([*parts[: after + 1], *fresh, *parts[after + 1 :]])


def _insert_first(parts: list[str], lines: _LazyLines, line: str, newline: str) -> str:
    """Insert the first line that points to a memory: below the title of the index, above any other text."""
    title = next((number for number in range(len(lines)) if not lines[number].is_blank), None)
    if title is None:
        return line + newline
    if not lines[title].level:
        return "".join([*parts[:title], line + newline, newline, *parts[title:]])
    if not parts[title].endswith("\n"):
        parts[title] += newline
    rest = list(dropwhile(lambda part: not part.strip(), parts[title + 1 :]))
    return "".join([*parts[: title + 1], newline, line + newline, *([newline] if rest else []), *rest])


# --- the part a session loads: at most 200 lines and 25,000 bytes, cut between lines, with a warning ------------------
# Pointers to missing files are omitted and counted. Above the limit, lines are selected by rank: pinned, standing rules, the
# newest, then by type and use; headings stay if a line below them stays; prose is dropped first. File order is kept. Recall still finds the
# memories of omitted lines.

# The most important type comes first.
_KIND_RANK = {Kind.FEEDBACK: 0, Kind.USER: 1, Kind.PROJECT: 2, Kind.REFERENCE: 3, None: 4}


@dataclass(frozen=True, slots=True)
class IndexFill:
    lines: int
    bytes: int
    share: float
    proposals: tuple[str, ...] = ()

    @property
    def is_high(self) -> bool:
        return self.share >= INDEX_WARN_SHARE


def clip_index(
    text: str,
    headers: Sequence[Header] | None = None,
    *,
    order: str = "rank",
    uses: Mapping[str, int] | None = None,
    file: str = "MEMORY.md",
) -> Clip:
    """Return the part of an index that a session loads. Names in `headers` are relative to the index."""
    lines = parse_index(text)
    known = {fold(header.name): header for header in headers} if headers is not None else None
    living = [line for line in lines if not line.is_pointer or known is None or line.key in known]
    size = sum(_size(line) for line in living)
    over_lines, over_bytes = len(living) > INDEX_LINES, size > INDEX_BYTES
    selected = living
    if over_lines or over_bytes:
        selected = (
            _cut_by_rank(living, known, uses or {}) if known is not None and order == "rank" else _cut_at_end(living)
        )
    loaded = "".join(line.text for line in selected)
    sizes = len(loaded.encode("utf-8", "surrogateescape")), sum(_size(line) for line in lines)
    clip = Clip(loaded, len(selected), len(lines), *sizes, len(lines) - len(living), over_lines, over_bytes)
    return clip if not clip.is_cut else _with_warning(clip, len(living), size, file)


def measure_index(text: str, headers: Sequence[Header] = ()) -> IndexFill:
    """Return how full an index is, with suggestions for shortening it if it is more than 80% full."""
    count, size = len(_list_lines(text)), len(text.encode("utf-8", "surrogateescape"))
    share = max(count / INDEX_LINES, size / INDEX_BYTES)
    return IndexFill(count, size, share, _propose(text, headers) if share >= INDEX_WARN_SHARE else ())


def find_long_lines(text: str) -> tuple[IndexLine, ...]:
    return tuple(line for line in parse_index(text) if len(line.text.rstrip("\r\n")) > INDEX_LINE_CHARS)


def _size(line: IndexLine) -> int:
    return len(line.text.encode("utf-8", "surrogateescape"))


def _cut_at_end(lines: Sequence[IndexLine]) -> list[IndexLine]:
    sizes = accumulate(map(_size, lines[:INDEX_LINES]))
    return [line for line, size in zip(lines, sizes, strict=False) if size <= INDEX_BYTES]


def _cut_by_rank(lines: Sequence[IndexLine], known: Mapping[str, Header], uses: Mapping[str, int]) -> list[IndexLine]:
    above = _find_headings(lines)
    chosen: set[int] = set()
    lines_left, bytes_left = INDEX_LINES, INDEX_BYTES
    for unit in [*_rank_pointers(lines, known, uses), *_group_prose(lines)]:
        added = [line for line in [*above[unit[0].number], *unit] if line.number not in chosen]
        cost = sum(_size(line) for line in added)
        if len(added) <= lines_left and cost <= bytes_left:
            chosen.update(line.number for line in added)
            lines_left, bytes_left = lines_left - len(added), bytes_left - cost
    for before, line in pairwise(lines):
        if before.is_blank and line.level and line.number in chosen and lines_left > 0 and bytes_left >= _size(before):
            chosen.add(before.number)
            lines_left, bytes_left = lines_left - 1, bytes_left - _size(before)
    return [line for line in lines if line.number in chosen]


def _rank_pointers(
    lines: Sequence[IndexLine], known: Mapping[str, Header], uses: Mapping[str, int]
) -> list[list[IndexLine]]:
    pairs = [(line, known[line.key]) for line in lines if line.is_pointer]
    pairs.sort(key=lambda pair: pair[1].modified, reverse=True)
    newest = {line.number for line, _ in pairs[: limits.INDEX_NEWEST_KEPT]}
    rules = {fold(header.name): number for number, header in enumerate(find_rules(known.values()))}

    def rank(pair: tuple[IndexLine, Header]) -> tuple[int, int, int]:
        line, header = pair
        if header.pinned:
            return 0, 0, 0
        if line.key in rules:
            return 1, rules[line.key], 0
        if line.number in newest:
            return 2, 0, 0
        return 3, _KIND_RANK[header.kind], -uses.get(header.name, 0)

    return [[line] for line, _ in sorted(pairs, key=rank)]


def _group_prose(lines: Sequence[IndexLine]) -> list[list[IndexLine]]:
    """Group lines of prose into units that are kept or dropped together: single lines and complete code blocks."""
    units: list[list[IndexLine]] = []
    for line in lines:
        if line.is_pointer or line.level or (line.is_blank and not line.fenced):
            continue
        if line.fenced and units and units[-1][-1].fenced and units[-1][-1].number == line.number - 1:
            units[-1].append(line)
        else:
            units.append([line])
    return units


def _find_headings(lines: Sequence[IndexLine]) -> dict[int, list[IndexLine]]:
    above: dict[int, list[IndexLine]] = {}
    open_headings: list[IndexLine] = []
    for line in lines:
        if line.level:
            open_headings = [heading for heading in open_headings if heading.level < line.level]
            open_headings.append(line)
        above[line.number] = list(open_headings)
    return above


def _with_warning(clip: Clip, living: int, size: int, file: str) -> Clip:
    hit = [f"{living} lines (limit {INDEX_LINES})"] if clip.over_lines else []
    hit += [f"{size:,} bytes (limit {INDEX_BYTES:,})"] if clip.over_bytes else []
    warning = (
        f"{file} is too long: {' and '.join(hit)}. Only {clip.lines} of its {living} lines are loaded here; "
        f"the rest is still found by recall. To load all of it, keep each entry on one line below "
        f"{INDEX_LINE_CHARS} characters, move detail into the memory's own file, "
        "and take out entries that no longer matter."
    )
    return replace(clip, warning=warning)


def _propose(text: str, headers: Sequence[Header]) -> tuple[str, ...]:
    proposals = []
    lines = _list_lines(text)
    long = sorted(
        (number for number, line in enumerate(lines) if len(line) > INDEX_LINE_CHARS),
        key=lambda number: -len(lines[number]),
    )
    if long:
        numbers = ", ".join(str(number + 1) for number in long[:5])
        proposals.append(f"shorten the longest lines ({numbers}): move their detail into topic files")
    # Lines with a link are taken for pointers without parsing: an index may have a hundred thousand.
    rest = (line for line in lines if line.strip() and ".md)" not in line and ".md]" not in line)
    prose = sum(1 for line in rest if not _HEADING.match(line))
    if prose > len(lines) // 4:
        proposals.append(f"{prose} lines are prose: move them into topic files and point to those")
    projects = (header for header in headers if header.kind is Kind.PROJECT and not header.pinned)
    if old := sorted(projects, key=lambda header: header.modified):
        names = ", ".join(header.name for header in old[:3])
        proposals.append(f"merge or forget the oldest project memories ({names})")
    return tuple(proposals)


def merge_index(base: str, one: str, other: str) -> str:
    """Merge two versions of an index without duplicating lines that both contain."""
    return "".join(merge_units(*map(_split_index, (base, one, other))).pieces)


def tidy_index(
    text: str, names: Collection[str], preferred: str, *, revived: Collection[str] = (), known: Iterable[str] = ()
) -> str:
    """Clean up a merged index: remove lines of deleted memories and duplicates, and add lines of restored memories.

    Of two lines for one memory, the one in `preferred` is kept. `revived` are memories that only one side deleted;
    their lines are looked up in the indexes `known`.
    """
    alive, restored = ({fold(name) for name in group} for group in (names, revived))
    liked = set(_split_index(preferred))
    lines = parse_index(text)
    best: dict[str, int] = {}
    for line in lines:
        is_better = line.key not in best or (line.text in liked and lines[best[line.key]].text not in liked)
        if line.is_pointer and is_better:
            best[line.key] = line.number
    remaining = (line for line in lines if not line.is_pointer or (line.key in alive and best[line.key] == line.number))
    tidied = "".join(line.text for line in remaining)
    missing: dict[str, str] = {}
    for line in (line for other in known for line in parse_index(other)):
        if line.is_pointer and line.key in alive & restored and line.key not in best:
            missing[line.key] = min(missing.get(line.key, line.text.strip()), line.text.strip())
    for line_text in missing.values():
        tidied = append_pointer(tidied, line_text)
    return tidied


def _split_index(text: str) -> list[str]:
    """Split text into lines that all end with `\\n`, adding it to the last line if it is missing."""
    return [line.rstrip("\r") + "\n" for line in text.removesuffix("\n").split("\n")] if text else []
