"""A memory's text -> what it claims to be there, each with its place. Pure, and precision first.

In code spans and shell lines most things with a shape of their own count; in prose only what cannot be prose. What the
memory itself says is no more ("`x` was removed", "instead of `y`") is kept as not checkable, as are placeholders,
example paths and places outside the project. A weak claim counts only if the project has or had it.
"""

import re
from collections.abc import Iterator
from itertools import islice

from memdir.frozen import replace
from memdir.limits import CLAIMS
from memdir.links import find_links
from memdir.records import Kind
from memdir.verify import shapes
from memdir.verify.commands import Named, is_command, read_command
from memdir.verify.deadlines import find_deadlines
from memdir.verify.records import Claim, ClaimKind
from memdir.verify.spans import Line, read_lines

_CODE_CHARS = 400  # a longer span is a quotation
_NEAR = 48  # characters either side that are looked at for what is said of a thing
_TOKEN = re.compile(r"[!-~]+")
_STRIPPED = "\"'()[]{}<>,;!?*“”|"
_STRINGS = re.compile(r"\"[^\"]*\"|'[^']*'")
_WORD = re.compile(rf"(?<![\w$.-]){shapes.WORD}(?:(?:\.|::|->){shapes.WORD})*(?:\(\))?(?![\w$-])")
_DEFINING = re.compile(r"\b(?:def|class|function|func|fn|interface|struct|enum|trait|type)\s+([A-Za-z_$][\w$]*)")
_BARE_FILE = re.compile(r"[A-Z]{3,}\Z|\.[a-z][a-z0-9]*(?:[-_.][a-z0-9]+)*\Z")
_PLAIN = re.compile(r"_?[A-Za-z][A-Za-z0-9]{2,}\Z")
_KEYWORDS = frozenset(
    """
    null none true false undefined string number boolean object array list dict tuple bool int float void any async
    await class function return import export const static public private type interface enum self this error
    exception test yes main master head origin todo json yaml html css http https url api name value key data file
    path text user default
    """.split()
)
_LINK_TARGET = re.compile(r"\]\(([^()\s]{1,300})\)")
_ENV = re.compile(r"\benv(?:ironment)?\b|\.env\b|\bUmgebungsvariable|环境变量|環境変数", re.IGNORECASE)
_THING = (
    r"(?:class|function|method|component|hook|struct|interface|trait|enum|helper|constructor|decorator|macro|module|type|"
    r"property|field|attribute|variable|constant|Klasse|Funktion|Methode|classe|fonction|méthode|clase|función|método)"
)
_THING_BEFORE = re.compile(rf"\b{_THING}\s+(?:named\s+|called\s+)?[`*\s]*\Z")
_THING_AFTER = re.compile(rf"[`*]*\s+{_THING}s?\b")
_PASCAL = re.compile(r"(?<![\w$.`-])([A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+)(?![\w$-])")
_PACKAGE_AFTER = re.compile(
    r"[`*]*\s+(?:npm\s+|Python\s+|pip\s+)?(?:package|library|dependency|crate|gem)\b", re.IGNORECASE
)
_PACKAGE_BEFORE = re.compile(
    r"\b(?:package|library|crate|gem|dependency(?:\s+on)?|depends\s+on|depend\s+on)\s+[`*\s]*\Z", re.IGNORECASE
)
_PACKAGE = re.compile(r"(?:@[\w.-]+/)?[A-Za-z][\w.-]*\Z")
_BRANCH_AFTER = re.compile(r"[`*]*\s+(?:git\s+)?branch\b", re.IGNORECASE)
_BRANCH_BEFORE = re.compile(r"\bbranch(?:\s+is|\s+named|\s+called|:)?\s+[`*\s]*\Z", re.IGNORECASE)
_BRANCH = re.compile(r"[A-Za-z][\w./-]*\Z")
_FOLDER_AFTER = re.compile(r"[`*]*\s+(?:folder|directory|dir)\b", re.IGNORECASE)
_PROSE_RUN = re.compile(
    r"(?<![\w-])(?:(?:npm|pnpm|yarn|bun) run [A-Za-z][\w:.-]*\w|python3? -m [A-Za-z_]\w*(?:\.\w+)*)"
)
_NO_MORE = "the memory itself says it is no more"
# The line that an approved repair adds, and the things it tells about (`dream.drifting`, `records.render_claim`).
_CHECKED = re.compile(r"^\*\*Checked \d{4}-\d{2}-\d{2}:\*\*.*$", re.MULTILINE)
_KNOWN = re.compile(r"`([^`]+)`(?: is gone| is now |: )|the date (\d{4}-\d{2}-\d{2}) has passed")
# What is said of a thing that is no more.
_DENIED_BEFORE = re.compile(
    r"(?:\b(?:removed|deleted|dropped|deprecated|legacy|former|formerly|previously|old|obsolete|dead|instead of|"
    r"rather than|renamed(?: from)?|replac(?:es|ed|ing)|superseded|used to (?:be|use|call|live in)|was called|"
    r"there is no|there are no|no longer (?:uses?|has|have|in|at)|"
    r"früher|ehemals|statt|entfernt|gelöscht|ancien|supprimé|antiguo|eliminado)\b|不再|已删除|以前|旧|廃止)"
    r"[^`.;!?]{0,24}\Z",
    re.IGNORECASE,
)
_DENIED_AFTER = re.compile(
    r"[`*)\s]*(?:\([^()]{0,40}\)\s*)?(?:\w+\s+){0,2}?"
    r"(?:was|were|is|are|has been|have been|had been|got|wurde|ist|a été|fue)?\s*(?:since\s+|now\s+|been\s+|all\s+)?"
    r"(?:removed|deleted|gone|dropped|renamed|deprecated|replaced|superseded|no longer|does not exist|doesn't exist|"
    r"do not exist|don't exist|entfernt|gelöscht|ersetzt|umbenannt|supprimé|eliminad)",
    re.IGNORECASE,
)


def find_claims(text: str, kind: Kind | None = None) -> tuple[Claim, ...]:
    """Every claim of a memory file, in the order of its text, each thing once a line."""
    found: dict[tuple[str, str, int], Claim] = {}
    known = {match[1] or match[2] for line in _CHECKED.findall(text) for match in _KNOWN.finditer(line)}
    for claim in islice(_read(text, kind), CLAIMS):
        claim = replace(claim, reason=_NO_MORE) if claim.text in known and not claim.reason else claim
        found.setdefault((claim.kind, claim.text, claim.line), claim)
    return tuple(sorted(found.values(), key=lambda at: at.start))


def _read(text: str, kind: Kind | None) -> Iterator[Claim]:
    for line in read_lines(text):
        if line.is_shell:
            for named in read_command(line.text.strip()) if line.text.strip()[:1] != "#" else ():
                yield _place(line, named, len(line.text) - len(line.text.lstrip()))
            continue
        for begin, end in line.codes:
            for named in _read_code(line, begin, end):
                yield _place(line, named, begin)
        for named in _read_prose(line.prose, line.text):
            yield _place(line, named, 0)
        for target in _LINK_TARGET.finditer(line.prose):
            yield from (_place(line, named, 0) for named in _read_target(target))
        if kind is Kind.PROJECT:
            for day, begin, end in find_deadlines(line.text):
                yield _make(line, ClaimKind.DATE, day.isoformat(), begin, end)
    yield from _read_links(text)


def _place(line: Line, named: Named, offset: int) -> Claim:
    begin, end = named.start + offset, named.end + offset
    kind, reason = named.kind, ""
    if kind is ClaimKind.CONSTANT and _ENV.search(line.text[max(0, begin - _NEAR) : end + _NEAR]):
        kind = ClaimKind.VARIABLE
    if kind is ClaimKind.PATH:
        reason = shapes.find_path_problem(named.text)
    if not reason and _is_denied(line.text, begin, end):
        reason = _NO_MORE
    return _make(line, kind, named.text, begin, end, named.extra, reason, named.is_weak)


def _make(
    line: Line,
    kind: ClaimKind,
    text: str,
    begin: int,
    end: int,
    extra: str = "",
    reason: str = "",
    is_weak: bool = False,
) -> Claim:
    return Claim(kind, text, line.number, begin + 1, line.start + begin, line.start + end, extra, reason, is_weak)


def _is_denied(text: str, begin: int, end: int) -> bool:
    before, after = text[max(0, begin - _NEAR) : begin], text[end : end + _NEAR]
    return bool(_DENIED_BEFORE.search(before.rstrip("`*([ ")) or _DENIED_AFTER.match(after))


# --- code -----------------------------------------------------------------------------------------------------------


def _read_code(line: Line, begin: int, end: int) -> Iterator[Named]:
    """What a code span names; places are within the span."""
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
    for at in named:
        yield Named(at.kind, at.text, at.start + lead, at.end + lead, at.extra, at.is_weak)


def _read_whole(code: str, before: str, after: str) -> Iterator[Named]:
    """A span that is one thing."""
    if " " in code and not code.endswith(")"):
        return
    whole = (0, len(code))
    if "://" in code or code.startswith("www."):
        return
    if (_BRANCH_AFTER.match(after) or _BRANCH_BEFORE.search(before)) and _BRANCH.match(code):
        yield Named(ClaimKind.BRANCH, code.removeprefix("origin/"), *whole)
    elif (_PACKAGE_AFTER.match(after) or _PACKAGE_BEFORE.search(before)) and _PACKAGE.match(code):
        yield Named(ClaimKind.PACKAGE, code, *whole)
    elif flag := shapes.FLAG.match(code):
        yield Named(ClaimKind.FLAG, flag[1], 0, len(flag[1]))
    elif variable := shapes.VARIABLE.match(code):
        name = variable[1] or variable[2]
        yield Named(ClaimKind.VARIABLE, name, code.index(name), code.index(name) + len(name))
    elif shapes.looks_like_pattern(code):
        yield Named(ClaimKind.PATH, code, *whole)
    else:
        yield from _read_name(code, before, after)


def _read_name(code: str, before: str, after: str) -> Iterator[Named]:
    path, place = shapes.find_place(code)
    symbol = shapes.SYMBOL.match(code)
    if shapes.is_path(path, is_code=True) or (
        path.strip("/") and _FOLDER_AFTER.match(after) and re.fullmatch(r"[\w./@+-]+", path)
    ):
        yield Named(ClaimKind.PATH, path, 0, len(path), place)
    elif shapes.CONSTANT.match(code):
        yield Named(ClaimKind.CONSTANT, code, 0, len(code))
    elif symbol and _is_symbol(symbol, before, after):
        kind = ClaimKind.CONSTANT if shapes.CONSTANT.match(symbol[1]) else ClaimKind.SYMBOL
        yield Named(kind, symbol[1], symbol.start(1), symbol.end(1))
    elif shapes.is_weak_path(path) or _BARE_FILE.match(code):
        yield Named(ClaimKind.PATH, path, 0, len(path), place, is_weak=True)
    elif symbol and _PLAIN.match(code) and code.lower() not in _KEYWORDS:
        yield Named(ClaimKind.SYMBOL, code, 0, len(code), is_weak=True)


def _is_symbol(symbol: re.Match[str], before: str, after: str) -> bool:
    name, called = symbol[1], symbol[2]
    parts = [part for part in shapes.PARTS.split(name) if part]
    if len(parts) == 1 and len(name) < 3:
        return False
    if called is not None or any(shapes.is_identifier(part) for part in parts):
        return not (called and " " in called and not re.match(r"\([^()]*\)\Z", called))
    if len(parts) > 1:
        return len(name) > 4 and not all(part.isdigit() for part in parts)
    return bool(_THING_AFTER.match(after) or _THING_BEFORE.search(before)) and name[0].isalpha()


def _read_fragment(code: str) -> Iterator[Named]:
    """An expression: only names whose shape leaves no doubt, and what is being defined."""
    bare = _STRINGS.sub(lambda match: " " * len(match[0]), code)
    for match in _DEFINING.finditer(bare):
        yield Named(ClaimKind.SYMBOL, match[1], match.start(1), match.end(1))
    for match in _WORD.finditer(bare):
        name = match[0].removesuffix("()")
        if shapes.CONSTANT.match(name):
            yield Named(ClaimKind.CONSTANT, name, match.start(), match.start() + len(name))
        elif any(shapes.is_identifier(part) for part in shapes.PARTS.split(name)):
            yield Named(ClaimKind.SYMBOL, name, match.start(), match.start() + len(name))


# --- prose ----------------------------------------------------------------------------------------------------------


def _read_prose(prose: str, line: str) -> Iterator[Named]:
    taken: list[tuple[int, int]] = []
    for run in _PROSE_RUN.finditer(prose):
        taken.append(run.span())
        for at in read_command(run[0]):
            yield Named(at.kind, at.text, at.start + run.start(), at.end + run.start(), at.extra, at.is_weak)
    for match in _TOKEN.finditer(prose):
        if any(begin <= match.start() < end for begin, end in taken):
            continue
        token = match[0].lstrip(_STRIPPED)
        start = match.end() - len(token)
        if "](" in token:
            continue
        yield from _read_word(token.rstrip(_STRIPPED + ".:") if not token.endswith("()") else token, token, start)
    for match in _PASCAL.finditer(prose):
        near = _THING_BEFORE.search(prose[max(0, match.start() - _NEAR) : match.start()]) or _THING_AFTER.match(
            prose, match.end()
        )
        if near and shapes.is_identifier(match[1]):
            yield Named(ClaimKind.SYMBOL, match[1], *match.span(1))


def _read_word(word: str, token: str, start: int) -> Iterator[Named]:
    """One token of prose, stripped of punctuation; `token` still has what followed it."""
    path, place = shapes.find_place(word)
    span = (start, start + len(word))
    if re.match(r"[A-Za-z_$][\w$.]*\(\)", token):
        name = token[: token.index("(")]
        if len(name) > 2:
            yield Named(ClaimKind.SYMBOL, name, start, start + len(name))
    elif shapes.is_path(path, is_code=False):
        yield Named(ClaimKind.PATH, path, start, start + len(path), place)
    elif shapes.is_short_path(word):
        yield Named(ClaimKind.PATH, word, *span, is_weak=True)
    elif shapes.CONSTANT.match(word):
        yield Named(ClaimKind.CONSTANT, word, *span)
    elif flag := re.match(r"--[a-z][a-z0-9]+(?:-[a-z0-9]+)*(?=\Z|=)", word):
        yield Named(ClaimKind.FLAG, flag[0], start, start + len(flag[0]))
    elif variable := re.fullmatch(r"\$\{?([A-Z][A-Z0-9_]{2,})\}?", word):
        yield Named(ClaimKind.VARIABLE, variable[1], start + variable.start(1), start + variable.end(1))
    elif re.fullmatch(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*", word):
        parts = word.split(".")
        if any(shapes.is_plain_camel(part) or shapes.is_snake(part) for part in parts) and not word.startswith(
            "_"
        ) | word.endswith("_"):
            yield Named(ClaimKind.SYMBOL, word, *span)


def _read_target(target: re.Match[str]) -> Iterator[Named]:
    """Where a Markdown link goes, if that is a file of the project; a memory's own neighbours are not."""
    path = target[1].partition("#")[0]
    if "/" in path and shapes.is_path(path, is_code=True) and not path.endswith(".md"):
        yield Named(ClaimKind.PATH, path, target.start(1), target.start(1) + len(path))


def _read_links(text: str) -> Iterator[Claim]:
    line, begin, place = 1, 0, 0
    for link, number in find_links(text):
        while line < number:
            begin = place = text.find("\n", begin) + 1
            line += 1
        start = text.find(link, place)
        place = start + len(link)
        yield Claim(ClaimKind.LINK, link, number, start - begin + 1, start, place)
