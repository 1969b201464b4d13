"""The text of a memory -> what it claims to be there, each with its position. Pure; precision comes first.

In code spans and lines of shell fences most things with a shape of their own count; in prose only what cannot be prose.
What the memory itself says is gone ("`x` was removed", "instead of `y`") is kept as not checkable, as are placeholders,
example paths and paths outside the project. A weak claim counts only if the project has or had it.

A date is a claim if something ends with it ("freeze until 2026-03-05", "due March 5, 2026"). The date of an observation
cannot pass, nor can a sentence about the past. Relative dates became absolute when the memory was written.
"""

import re
from collections.abc import Iterator
from datetime import date
from functools import cache
from itertools import islice

from memdir.format.age import find_links
from memdir.format.frontmatter import split_frontmatter, split_lines
from memdir.frozen import dataclass, replace
from memdir.limits import CLAIMS
from memdir.records import Kind
from memdir.verify import shapes
from memdir.verify.records import Claim, ClaimKind
from memdir.verify.shapes import NamedThing, find_pattern, is_command, read_command

_FENCE = re.compile(r"[ \t>]*(?:[-*+][ \t]+)?(`{3,}|~{3,})[ \t]*([\w+-]*)")
_TICKS = re.compile(r"`+")
_BLANKED = re.compile(
    r"""
      (?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>)\]]*   # an address
    | (?<![\w.])www\.[^\s<>)\]]+
    | (?<![\w.+-])[\w.+-]{1,80}@[\w-]{1,80}\.[\w.-]{1,80}           # mail
    | \[\[[^\[\]\n]{0,200}\]\]                                     # a link to a memory
    | </?[A-Za-z][^<>\n]{0,200}>                                    # a tag, or a placeholder
    """,
    re.VERBOSE,
)
_SHELLS = frozenset({"", "sh", "bash", "zsh", "shell", "console", "shell-session", "shellsession", "terminal"})
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)

_LEAD_CHARS = 50
_STOPS = re.compile(r"[.;!?。！？]\s|[。！？]")

_CODE_CHARS = 400  # a longer span is a quotation
_NEAR = 48  # characters either side that are searched for what is said of a thing
_TOKEN = re.compile(r"[!-~]+")
_STRIPPED = "\"'()[]{}<>,;!?*“”|"
_STRINGS = re.compile(r"\"[^\"]*\"|'[^']*'")
_WORD = re.compile(rf"(?<![\w$.-]){shapes.WORD}(?:(?:\.|::|->){shapes.WORD})*(?:\(\))?(?![\w$-])")
_DEFINING = re.compile(r"\b(?:def|class|function|func|fn|interface|struct|enum|trait|type)\s+([A-Za-z_$][\w$]*)")
_BARE_FILE = re.compile(r"[A-Z]{3,}\Z|\.[a-z][a-z0-9]*(?:[-_.][a-z0-9]+)*\Z")
_PLAIN = re.compile(r"_?[A-Za-z][A-Za-z0-9]{2,}\Z")
_LINK_TARGET = re.compile(r"\]\(([^()\s]{1,300})\)")
_PASCAL = re.compile(r"(?<![\w$.`-])([A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+)(?![\w$-])")
_PROSE_RUN = re.compile(
    r"(?<![\w-])(?:(?:npm|pnpm|yarn|bun) run [A-Za-z][\w:.-]*\w|python3? -m [A-Za-z_]\w*(?:\.\w+)*)"
)
_NO_MORE = "the memory itself says it is no more"
# The line that an approved repair adds, and the things it is about (`dream.stale`, `records.render_claim`).
_CHECKED = re.compile(r"^\*\*Checked \d{4}-\d{2}-\d{2}:\*\*.*$", re.MULTILINE)
_KNOWN = re.compile(r"`([^`]+)`(?: is gone| is now |: )|the date (\d{4}-\d{2}-\d{2}) has passed")


@dataclass(frozen=True, slots=True)
class _Line:
    """One line: where it starts in the text, its number from 1, and the same line with its code blanked.

    `codes` are the insides of its code spans, as positions in the line. `is_shell` marks a line of a shell fence, which
    is code as a whole; nothing is blanked then.
    """

    text: str
    start: int
    number: int
    prose: str
    codes: tuple[tuple[int, int], ...] = ()
    is_shell: bool = False


def find_claims(text: str, kind: Kind | None = None) -> tuple[Claim, ...]:
    """Return every claim of a memory file, in the order of its text, each thing once a line."""
    found: dict[tuple[str, str, int], Claim] = {}
    known = {match[1] or match[2] for line in _CHECKED.findall(text) for match in _KNOWN.finditer(line)}
    for claim in islice(_read(text, kind), CLAIMS):
        claim = replace(claim, reason=_NO_MORE) if claim.text in known and not claim.reason else claim
        found.setdefault((claim.kind, claim.text, claim.line), claim)
    return tuple(sorted(found.values(), key=lambda at: at.start))


def _read(text: str, kind: Kind | None) -> Iterator[Claim]:
    for line in _read_lines(text):
        yield from (_make_claim(line, named) for named in _read_line(line))
        if kind is Kind.PROJECT and not line.is_shell:
            for day, begin, end in _find_deadlines(line.text):
                start = line.start
                yield Claim(ClaimKind.DATE, day.isoformat(), line.number, begin + 1, start + begin, start + end)
    number, begin, place = 1, 0, 0
    for link, row in find_links(text):
        while number < row:
            begin = place = text.find("\n", begin) + 1
            number += 1
        start = text.find(link, place)
        place = start + len(link)
        yield Claim(ClaimKind.LINK, link, row, start - begin + 1, start, place)


def _read_line(line: _Line) -> Iterator[NamedThing]:
    if line.is_shell:
        command = line.text.strip()
        indent = len(line.text) - len(line.text.lstrip())
        yield from (named.shift(indent) for named in (read_command(command) if command[:1] != "#" else ()))
        return
    for begin, end in line.codes:
        yield from (named.shift(begin) for named in _read_code(line, begin, end))
    yield from _read_prose(line.prose)
    for target in _LINK_TARGET.finditer(line.prose):
        # Where a Markdown link goes, if that is a file of the project; a memory's own neighbours are not.
        path, start = target[1].partition("#")[0], target.start(1)
        if "/" in path and shapes.is_path(path, is_code=True) and not path.endswith(".md"):
            yield NamedThing(ClaimKind.PATH, path, start, start + len(path))


def _make_claim(line: _Line, named: NamedThing) -> Claim:
    begin, end, kind, reason = named.start, named.end, named.kind, ""
    before, after = line.text[max(0, begin - _NEAR) : begin], line.text[end : end + _NEAR]
    if kind is ClaimKind.CONSTANT and find_pattern("env").search(line.text[max(0, begin - _NEAR) : end + _NEAR]):
        kind = ClaimKind.VARIABLE
    if kind is ClaimKind.PATH:
        reason = shapes.find_path_problem(named.text)
    if not reason and (
        find_pattern("denied_before").search(before.rstrip("`*([ ")) or find_pattern("denied_after").match(after)
    ):
        reason = _NO_MORE
    at = line.start
    return Claim(kind, named.text, line.number, begin + 1, at + begin, at + end, named.extra, reason, named.is_weak)


def _read_lines(text: str) -> Iterator[_Line]:
    """The lines of a memory file that count, its description first. Fences of other languages are examples.

    Code spans, addresses, tags and comments are blanked at the same length, so that every position in the prose is one
    in the file. Every rule is linear in the length of the text.
    """
    body = len(text) - len(split_frontmatter(text).body)
    text = text[:body] + _COMMENT.sub(_blank, text[body:])
    start, fence, is_shell = 0, "", False
    for number, raw in enumerate(split_lines(text), 1):
        line = raw.rstrip("\r\n")
        if start < body:
            if line.startswith("description:"):
                yield _make_line(" " * 12 + line[12:], start, number)
        elif match := _FENCE.match(line):
            if not fence:
                fence, is_shell = match[1], match[2].lower() in _SHELLS
            elif match[1].startswith(fence) and not match[2]:
                fence = ""
            # A longer or another fence inside a fence is its text.
        elif not fence and line.strip():
            yield _make_line(line, start, number)
        elif is_shell and line.strip():
            yield _Line(line, start, number, "", is_shell=True)
        start += len(raw)


def _make_line(line: str, start: int, number: int) -> _Line:
    codes = tuple(_find_codes(line))
    pieces, place = list[str](), 0
    for begin, end in codes:
        pieces += (line[place:begin], " " * (end - begin))
        place = end
    prose = "".join((*pieces, line[place:]))
    return _Line(line, start, number, _BLANKED.sub(_blank, prose.replace("`", " ")) if prose.strip() else "", codes)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _find_codes(line: str) -> Iterator[tuple[int, int]]:
    """The insides of code spans: from a run of backticks to the next run of the same length."""
    runs = list(_TICKS.finditer(line))
    following: dict[int, list[int]] = {}
    for place in range(len(runs) - 1, -1, -1):
        following.setdefault(len(runs[place][0]), []).append(place)
    place = 0
    while place < len(runs):
        later = following[len(runs[place][0])]
        while later and later[-1] <= place:
            later.pop()
        if later:
            yield runs[place].end(), runs[later[-1]].start()
            place = later[-1]
        place += 1


@cache
def _read_months() -> dict[str, int]:
    rows = shapes.read_tables()["months"].split("|")
    return {name: number for number, names in enumerate(rows, 1) for name in names.split()}


@cache
def _compile_date() -> re.Pattern[str]:
    month = "|".join(sorted(_read_months(), key=len, reverse=True))
    return re.compile(
        rf"""
          (?<![\d/-])(?P<y1>\d{{4}})-(?P<m1>\d{{2}})-(?P<d1>\d{{2}})(?![\d])
        | (?<!\w)(?P<m2>{month})\.?\ (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,?\ (?P<y2>\d{{4}})(?!\w)
        | (?<!\w)(?P<d3>\d{{1,2}})(?:\.|st|nd|rd|th)?\ (?:de\ )?(?P<m3>{month})\.?(?:,|\ de)?\ (?P<y3>\d{{4}})(?!\w)
        | (?P<y4>\d{{4}})年(?P<m4>\d{{1,2}})月(?P<d4>\d{{1,2}})日
        """,
        re.VERBOSE | re.IGNORECASE,
    )


def _find_deadlines(line: str) -> Iterator[tuple[date, int, int]]:
    """Each date in a line that something ends with, and its position."""
    for match in _compile_date().finditer(line):
        lead = _STOPS.split(line[max(0, match.start() - _LEAD_CHARS) : match.start()])[-1]
        trail = line[match.end() : match.end() + _LEAD_CHARS]
        ends = (
            find_pattern("leads").search(lead)
            or find_pattern("close_leads").search(lead)
            or find_pattern("trails").match(trail)
        )
        if (
            not ends
            or find_pattern("starts").search(lead)
            or find_pattern("past").search(lead + " " + _STOPS.split(trail)[0])
        ):
            continue
        parts = {key[0]: value for key, value in match.groupdict().items() if value is not None}
        month = _read_months().get(parts["m"].lower()) or (int(parts["m"]) if parts["m"].isdecimal() else 0)
        try:
            yield date(int(parts["y"]), month, int(parts["d"])), match.start(), match.end()
        except ValueError:
            continue


def _read_code(line: _Line, begin: int, end: int) -> Iterator[NamedThing]:
    code = line.text[begin:end]
    lead = len(code) - len(code.lstrip())
    code = code.strip()
    if not code or len(code) > _CODE_CHARS or code.startswith(("[[", "/*")):
        return
    before, after = line.text[max(0, begin - _NEAR) : begin], line.text[end : end + _NEAR]
    named = list(_read_whole(code, before.rstrip("`"), after.lstrip("`")))
    if not named and is_command(code):
        named = list(read_command(code))
    elif not named and len(code.split()) > 1:
        named = list(_read_fragment(code))
    yield from (at.shift(lead) for at in named)


def _read_whole(code: str, before: str, after: str) -> Iterator[NamedThing]:
    whole = (0, len(code))
    if (" " in code and not code.endswith(")")) or "://" in code or code.startswith("www."):
        return
    if flag := shapes.FLAG.match(code):
        yield NamedThing(ClaimKind.FLAG, flag[1], 0, len(flag[1]))
    elif variable := shapes.VARIABLE.match(code):
        name = variable[1] or variable[2]
        yield NamedThing(ClaimKind.VARIABLE, name, code.index(name), code.index(name) + len(name))
    elif shapes.looks_like_pattern(code):
        yield NamedThing(ClaimKind.PATH, code, *whole)
    else:
        yield from _read_name(code, before, after)


def _read_name(code: str, before: str, after: str) -> Iterator[NamedThing]:
    path, place = shapes.find_place(code)
    symbol = shapes.SYMBOL.match(code)
    if shapes.is_path(path, is_code=True) or (
        path.strip("/") and find_pattern("folder_after").match(after) and re.fullmatch(r"[\w./@+-]+", path)
    ):
        yield NamedThing(ClaimKind.PATH, path, 0, len(path), place)
    elif shapes.CONSTANT.match(code):
        yield NamedThing(ClaimKind.CONSTANT, code, 0, len(code))
    elif symbol and _is_symbol(symbol, before, after):
        kind = ClaimKind.CONSTANT if shapes.CONSTANT.match(symbol[1]) else ClaimKind.SYMBOL
        yield NamedThing(kind, symbol[1], symbol.start(1), symbol.end(1))
    elif shapes.is_weak_path(path) or _BARE_FILE.match(code):
        yield NamedThing(ClaimKind.PATH, path, 0, len(path), place, is_weak=True)
    elif symbol and _PLAIN.match(code) and code.lower() not in shapes.find_words("keywords"):
        yield NamedThing(ClaimKind.SYMBOL, code, 0, len(code), is_weak=True)


def _is_symbol(symbol: re.Match[str], before: str, after: str) -> bool:
    name, called = symbol[1], symbol[2]
    parts = [part for part in shapes.PARTS.split(name) if part]
    if len(parts) == 1 and len(name) < 3:
        return False
    if called is not None or any(shapes.is_identifier(part) for part in parts):
        return not (called and " " in called and not re.match(r"\([^()]*\)\Z", called))
    if len(parts) > 1:
        return len(name) > 4 and not all(part.isdigit() for part in parts)
    return (
        bool(find_pattern("thing_after").match(after) or find_pattern("thing_before").search(before))
        and name[0].isalpha()
    )


def _read_fragment(code: str) -> Iterator[NamedThing]:
    """An expression: only names whose shape leaves no doubt, and what is being defined."""
    bare = _STRINGS.sub(lambda match: " " * len(match[0]), code)
    for match in _DEFINING.finditer(bare):
        yield NamedThing(ClaimKind.SYMBOL, match[1], match.start(1), match.end(1))
    for match in _WORD.finditer(bare):
        name = match[0].removesuffix("()")
        if shapes.CONSTANT.match(name):
            yield NamedThing(ClaimKind.CONSTANT, name, match.start(), match.start() + len(name))
        elif any(shapes.is_identifier(part) for part in shapes.PARTS.split(name)):
            yield NamedThing(ClaimKind.SYMBOL, name, match.start(), match.start() + len(name))


def _read_prose(prose: str) -> Iterator[NamedThing]:
    taken: list[tuple[int, int]] = []
    for run in _PROSE_RUN.finditer(prose):
        taken.append(run.span())
        yield from (at.shift(run.start()) for at in read_command(run[0]))
    for match in _TOKEN.finditer(prose):
        if any(begin <= match.start() < end for begin, end in taken):
            continue
        token = match[0].lstrip(_STRIPPED)
        word = token if token.endswith("()") else token.rstrip(_STRIPPED + ".:")
        if "](" not in token:
            yield from _read_word(word, token, match.end() - len(token))
    for match in _PASCAL.finditer(prose):
        before = prose[max(0, match.start() - _NEAR) : match.start()]
        near = find_pattern("thing_before").search(before) or find_pattern("thing_after").match(prose, match.end())
        if near and shapes.is_identifier(match[1]):
            yield NamedThing(ClaimKind.SYMBOL, match[1], *match.span(1))


def _read_word(word: str, token: str, start: int) -> Iterator[NamedThing]:
    """One token of prose, stripped of punctuation; `token` still has what followed it."""
    path, place = shapes.find_place(word)
    span = (start, start + len(word))
    if re.match(r"[A-Za-z_$][\w$.]*\(\)", token):
        name = token[: token.index("(")]
        if len(name) > 2:
            yield NamedThing(ClaimKind.SYMBOL, name, start, start + len(name))
    elif shapes.is_path(path, is_code=False):
        yield NamedThing(ClaimKind.PATH, path, start, start + len(path), place)
    elif shapes.is_short_path(word):
        yield NamedThing(ClaimKind.PATH, word, *span, is_weak=True)
    elif shapes.CONSTANT.match(word):
        yield NamedThing(ClaimKind.CONSTANT, word, *span)
    elif flag := re.match(r"--[a-z][a-z0-9]+(?:-[a-z0-9]+)*(?=\Z|=)", word):
        yield NamedThing(ClaimKind.FLAG, flag[0], start, start + len(flag[0]))
    elif variable := re.fullmatch(r"\$\{?([A-Z][A-Z0-9_]{2,})\}?", word):
        yield NamedThing(ClaimKind.VARIABLE, variable[1], start + variable.start(1), start + variable.end(1))
    elif re.fullmatch(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*", word):
        parts = word.split(".")
        is_shaped = any(shapes.is_plain_camel(part) or shapes.is_snake(part) for part in parts)
        if is_shaped and not word.startswith("_") and not word.endswith("_"):
            yield NamedThing(ClaimKind.SYMBOL, word, *span)
