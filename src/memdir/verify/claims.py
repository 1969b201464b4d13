"""Find the files, names and dates that a memory mentions, with their positions, without disk access.

In code spans and shell fences, most tokens with a distinctive form are claims; in prose, only those that cannot be
ordinary words. Ambiguous tokens are weak claims, which count only if the project has or had something of that name, so
no list of exceptions is needed. Things that the memory itself calls removed ("`x` was removed", "instead of `y`"),
placeholders, example paths and paths outside the project are not checkable.

A date is a claim if something ends on it ("freeze until 2026-03-05", "due March 5, 2026"). Dates of observations or past
events are not. Relative dates were made absolute when the memory was written.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from memdir.format.age import find_links
from memdir.format.frontmatter import split_frontmatter, split_lines
from memdir.frozen import dataclass, replace
from memdir.limits import CLAIMS
from memdir.records import Kind
from memdir.text import find_code_spans, list_lines
from memdir.verify.records import Claim, ClaimKind

# --- the forms of paths, symbols, constants, flags and command lines ---------------------------------------------------
# A command line is split into words, quotes and `&&` like in a shell; nothing is expanded or run. Flags of well-known
# tools such as git are not claims, because they do not belong to the project.

# Endings that are also members of objects: `console.log`, `process.env`.
_MEMBERS = frozenset({"map", "env", "in", "m", "v", "s", "r", "ac", "am", "snap", "log", "mod", "sum"})
_PATH = re.compile(r"(?:~/|\.{0,2}/)?(?:[\w@.+~$%\[\]-]+/)*[\w@.+~$%\[\]-]*/?\Z")
_PLACE = re.compile(r"(?::(\d+)(?::\d+)?(?:-\d+)?|#L(\d+)(?:-L?\d+)?|\((\d+)\))\Z")
_PLACEHOLDER = re.compile(r"[*{}<>?|…]|\.\.\.|\$\(|\bXXX\b|\bYYYY\b|N\.N|NNN")
_EXAMPLE = re.compile(
    r"(?:^|/)(?:path/to|foo|bar|baz|foobar|example|my-?(?:file|module|app|dir|project)|your-?\w+)(?:[/.]|\Z)", re.I
)
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")

WORD = r"[A-Za-z_$][A-Za-z0-9_$]*"
SYMBOL = re.compile(rf"@?({WORD}(?:(?:\.|::|->|#|\?\.|\.#){WORD}[!?]?)*)(\(.*\))?[;:]?\Z")
PARTS = re.compile(r"\?\.|\.#|\.|::|->|#")
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\Z")
FLAG = re.compile(r"(--[A-Za-z][A-Za-z0-9]*(?:[-_.][A-Za-z0-9]+)*)(?:[= ].*)?\Z")
VARIABLE = re.compile(r"(?:\$\{?([A-Z][A-Z0-9_]+)\}?|([A-Z][A-Z0-9_]{2,})=\S*)\Z")
_CAMEL = re.compile(r"_*[a-z][a-z0-9]*[A-Z]|_*[A-Z][A-Za-z0-9]*[a-z0-9][A-Z]|_*[A-Z]{2,}[a-z]")
_SERIAL = re.compile(r"\d{5}")
_SNAKE = re.compile(r"_*[A-Za-z0-9]+_[A-Za-z0-9_]*[A-Za-z0-9]")

_TOKEN = re.compile(r"\"[^\"]*\"|'[^']*'|&&|\|\||[;|&]|[^\s\"';|&]+")
_BREAKS = frozenset({"&&", "||", ";", "|", "&"})
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_SCRIPT = re.compile(r"[A-Za-z][\w:./-]*\Z")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z")
_NODE = frozenset({"npm", "pnpm", "yarn", "bun"})
_PYTHONS = frozenset({"python", "python3", "py", "pypy", "pypy3"})
_INTERPRETERS = _PYTHONS | {"node", "bash", "sh", "ruby", "php", "deno"}
_PREFIXES = frozenset({"sudo", "time", "nohup", "exec", "env", "command", "xargs", "then", "do", "npx", "bunx"})
_TARGETS = {"make": "make", "gmake": "make", "just": "just"}
_Token = tuple[str, int, int]  # a word of a command, its start and end


def _claim(kind: ClaimKind, text: str, start: int, end: int, extra: str = "", *, is_weak: bool = False) -> Claim:
    """Return a claim with a position relative to the given text."""
    return Claim(kind, text, 0, 0, start, end, extra, is_weak=is_weak)


def _move(claim: Claim, offset: int) -> Claim:
    return replace(claim, start=claim.start + offset, end=claim.end + offset)


@cache
def read_tables() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


@cache
def find_words(table: str) -> frozenset[str]:
    return frozenset(read_tables()[table].split())


@cache
def find_pattern(key: str) -> re.Pattern[str]:
    return re.compile(read_tables()["patterns"][key])


def find_place(token: str) -> tuple[str, str]:
    """Split `a/b.py:12` into the path and the line number."""
    match = _PLACE.search(token)
    if match is None or match.start() == 0 or (match[3] and "." not in token[: match.start()]):
        return token, ""
    return token[: match.start()], match[1] or match[2] or match[3]


def is_path(token: str, *, is_code: bool) -> bool:
    """Return whether a token is the path of a file or folder. The token must not include a line number."""
    # MEMORY.md is the index of this memory.
    if token == "MEMORY.md" or not _PATH.match(token) or "//" in token or not any(map(str.isalpha, token)):
        return False
    parts = token.rstrip("/").split("/")
    if (is_code or len(parts) > 1) and _is_file_name(parts[-1]):
        return True
    if token.startswith(("./", "../", "~/")):
        return len(token) > 3
    is_top = parts[0] in find_words("folders")
    if token.endswith("/"):
        return is_code or len(parts) > 1 or is_top
    if token.startswith("/"):
        return is_code and len(parts) > 2
    return is_top and len(parts) > (1 if is_code else 2)


def may_be_path(token: str, *, is_code: bool) -> bool:
    """Return whether a token may be a path, such as `owner/name` in code or `bin/tool` in prose."""
    if not _PATH.match(token) or "//" in token or token.startswith(("/", "@")):
        return False
    if not is_code:
        return token.partition("/")[0] in find_words("folders") if "/" in token else _is_file_name(token)
    return "/" in token or bool(_BARE_FILE.match(token))


def _is_file_name(leaf: str) -> bool:
    stem, _, ending = leaf.rpartition(".")
    return leaf in find_words("names") or (
        bool(stem) and ending.lower() in find_words("endings") and ending not in _MEMBERS
    )


def find_path_problem(token: str) -> str:
    if _PLACEHOLDER.search(token):
        return "a placeholder"
    if token.startswith(("~", "%")) or _DRIVE.match(token):
        return "outside the project"
    if _EXAMPLE.search(token):
        return "an example"
    return "outside the project" if ".." in token.split("/") else ""


def is_pattern(token: str) -> bool:
    """Return whether a path contains a wildcard or placeholder, as in `src/*.py` or `<name>/x.json`."""
    return bool(_PLACEHOLDER.search(token)) and is_path(_PLACEHOLDER.sub("x", token), is_code=True)


def is_identifier(word: str) -> bool:
    """Return whether a word has inner capitals or underscores like an identifier."""
    return len(word) > 2 and (bool(_CAMEL.match(word)) or is_snake(word))


def is_snake(word: str) -> bool:
    """Return whether a word has inner underscores and does not contain a number like a database ID."""
    return bool(_SNAKE.match(word)) and not _SERIAL.search(word)


def is_command(text: str) -> bool:
    words = text.removeprefix("$ ").split(None, 8)
    while words and (_ASSIGNED.match(words[0]) or words[0] in _PREFIXES):
        words = words[1:]
    if not words or (len(words) == 1 and not text.startswith("$ ")):
        return False
    first, tools = words[0].rpartition("/")[2], find_words("tools")
    if words[0].startswith("./") or first in tools:
        return True
    return bool(re.fullmatch(r"[a-z][\w.-]*", first)) and any(FLAG.match(word) for word in words[1:])


def read_command(text: str) -> Iterator[Claim]:
    group: list[_Token] = []
    for match in _TOKEN.finditer(text):
        if match[0] in _BREAKS:
            yield from _read_simple(group)
            group = []
        elif match[0].startswith("#") and (match.start() == 0 or text[match.start() - 1].isspace()):
            break
        elif match[0] not in ("$", ">", "%") or group:
            quoted = match[0][0] in "\"'"
            group.append((match[0].strip("\"'"), match.start() + quoted, match.end() - quoted))
    yield from _read_simple(group)


def _read_simple(tokens: Sequence[_Token]) -> Iterator[Claim]:
    while tokens:
        assigned = _ASSIGNED.match(tokens[0][0])
        if assigned and assigned[1].isupper() and len(assigned[1]) > 2:
            start = tokens[0][1]
            yield _claim(ClaimKind.VARIABLE, assigned[1], start, start + len(assigned[1]))
        elif not assigned and tokens[0][0] not in _PREFIXES:
            break
        tokens = tokens[1:]
    if not tokens:
        return
    tool = tokens[0][0].rpartition("/")[2]
    own = list(_read_tool(tool, tokens))
    yield from own
    # In `python tools/x.py --flag` the flag belongs to the file.
    runs_file = tool in _INTERPRETERS and any(is_path(token, is_code=True) for token, _, _ in tokens[1:3])
    runs_own = any(thing.extra.startswith(("module:", "npm:")) for thing in own)
    is_foreign = tool in find_words("tools") and not runs_own and not runs_file
    for token, start, end in tokens:
        if not any(start <= thing.start < end for thing in own):
            yield from _read_argument(token, start, is_foreign=is_foreign)


def _read_argument(token: str, start: int, *, is_foreign: bool) -> Iterator[Claim]:
    flag = FLAG.match(token)
    if flag:
        if not is_foreign:
            yield _claim(ClaimKind.FLAG, flag[1], start, start + len(flag[1]))
        token, start = token.partition("=")[2], start + token.find("=") + 1
    file, _, node = token.partition("::")
    path, line = find_place(file)
    if path and is_path(path, is_code=True):
        yield _claim(ClaimKind.PATH, path, start, start + len(path), line)
        if node and re.fullmatch(r"\w+(?:::\w+)*", node):
            yield _claim(ClaimKind.SYMBOL, node.replace("::", "."), start + len(file) + 2, start + len(token))
    elif path and "/" in path and may_be_path(path, is_code=True):
        yield _claim(ClaimKind.PATH, path, start, start + len(path), line, is_weak=True)
    elif token.startswith("$") and CONSTANT.match(token.strip("${}")):
        yield _claim(ClaimKind.VARIABLE, token.strip("${}"), start, start + len(token))


def _read_tool(tool: str, tokens: Sequence[_Token]) -> Iterator[Claim]:
    words, begin = [token for token, _, _ in tokens], tokens[0][1]
    plain = [token for token in tokens[1:] if not token[0].startswith("-")]
    if len(words) < 2:
        return
    if tool in _PYTHONS and "-m" in words[1:-1]:
        module, _, end = tokens[words.index("-m") + 1]
        if module != "pip" and _MODULE.match(module):
            yield _claim(ClaimKind.COMMAND, f"{tool} -m {module}", begin, end, f"module:{module}")
    elif tool in _NODE:
        yield from _read_node(tool, begin, plain)
    elif tool in _TARGETS:
        target, _, end = next((token for token in plain if _SCRIPT.match(token[0])), ("", 0, 0))
        if target:
            yield _claim(ClaimKind.COMMAND, f"{tool} {target}", begin, end, f"{_TARGETS[tool]}:{target}")


def _read_node(tool: str, begin: int, plain: Sequence[_Token]) -> Iterator[Claim]:
    """Yield the script of package.json that a command runs: `npm run x`, or `yarn x` if the tool allows it."""
    verb = plain[0][0] if plain else ""
    is_run = verb in ("run", "run-script")
    is_known = verb in ("test", "start", "stop")
    if not verb or (is_run and len(plain) < 2):
        return
    if not is_run and not is_known and (tool == "npm" or verb in find_words("node_verbs")):
        return
    script, _, end = plain[1] if is_run else plain[0]
    if _SCRIPT.match(script) and not is_path(script, is_code=True):
        command = f"{tool} {'run ' if is_run else ''}{script}"
        yield _claim(ClaimKind.COMMAND, command, begin, end, f"npm:{script}", is_weak=not is_run)


# --- claims ----------------------------------------------------------------------------------------------------------

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

_CODE_CHARS = 400  # a longer code span is a quotation
_NEAR = 48  # characters on either side searched for statements about a thing
_CLAIMS_TOKEN = re.compile(r"[!-~]+")
_STRIPPED = "\"'()[]{}<>,;!?*“”|"
_STRINGS = re.compile(r"\"[^\"]*\"|'[^']*'")
_WORD = re.compile(rf"(?<![\w$.-]){WORD}(?:(?:\.|::|->){WORD})*(?:\(\))?(?![\w$-])")
_DEFINING = re.compile(r"\b(?:def|class|function|func|fn|interface|struct|enum|trait|type)\s+([A-Za-z_$][\w$]*)")
_BARE_FILE = re.compile(r"[A-Z]{3,}\Z|\.[a-z][a-z0-9]*(?:[-_.][a-z0-9]+)*\Z")
_PLAIN = re.compile(r"_?[A-Za-z][A-Za-z0-9]{2,}\Z")
_DOTTED = re.compile(r"[A-Za-z$][\w$]*(?:\.[A-Za-z$][\w$]*)*(?<!_)")
_LINK_TARGET = re.compile(r"\]\(([^()\s]{1,300})\)")
_NO_MORE = "the memory itself says it no longer exists"
# The line that an approved repair adds (see `dream.stale`), and the claims in it (see `records.render_claim`).
_CHECKED = re.compile(r"^\*\*Checked \d{4}-\d{2}-\d{2}:\*\*.*$", re.MULTILINE)
_KNOWN = re.compile(r"`([^`]+)`(?: is gone| is now |: )|the date (\d{4}-\d{2}-\d{2}) has passed")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line with its offset and number, its text without code (`prose`), and its code spans."""

    text: str
    start: int
    number: int
    prose: str
    codes: tuple[tuple[int, int], ...] = ()
    is_shell: bool = False


def find_claims(text: str, kind: Kind | None = None) -> tuple[Claim, ...]:
    """Return the claims in a memory file in order. A claim repeated in a line is listed once."""
    claims: dict[tuple[str, str, int], Claim] = {}
    known = {match[1] or match[2] for line in _CHECKED.findall(text) for match in _KNOWN.finditer(line)}
    for claim in islice(_read_claims(text, kind), CLAIMS):
        claim = replace(claim, reason=_NO_MORE) if claim.text in known and not claim.reason else claim
        claims.setdefault((claim.kind, claim.text, claim.line), claim)
    return tuple(sorted(claims.values(), key=lambda claim: claim.start))


def _read_claims(text: str, kind: Kind | None) -> Iterator[Claim]:
    for line in _read_lines(text):
        yield from (_locate(line, claim) for claim in _read_line(line))
        if kind is Kind.PROJECT and not line.is_shell:
            for day, begin, end in _find_deadlines(line.text):
                start = line.start
                yield Claim(ClaimKind.DATE, day.isoformat(), line.number, begin + 1, start + begin, start + end)
    number, begin, offset = 1, 0, 0
    for link, row in find_links(text):
        while number < row:
            begin = offset = text.find("\n", begin) + 1
            number += 1
        start = text.find(link, offset)
        offset = start + len(link)
        yield Claim(ClaimKind.LINK, link, row, start - begin + 1, start, offset)


def _read_line(line: _Line) -> Iterator[Claim]:
    if line.is_shell:
        command = line.text.strip()
        indent = len(line.text) - len(line.text.lstrip())
        yield from (_move(claim, indent) for claim in (read_command(command) if command[:1] != "#" else ()))
        return
    for begin, end in line.codes:
        yield from (_move(claim, begin) for claim in _read_code(line, begin, end))
    yield from _read_prose(line.prose)
    for target in _LINK_TARGET.finditer(line.prose):
        # The target of a Markdown link, if it is a project file and not another memory.
        path, start = target[1].partition("#")[0], target.start(1)
        if "/" in path and is_path(path, is_code=True) and not path.endswith(".md"):
            yield _claim(ClaimKind.PATH, path, start, start + len(path))


def _locate(line: _Line, claim: Claim) -> Claim:
    """Return a claim with its position in the file and, if it cannot be checked, the reason."""
    begin, end, kind, reason = claim.start, claim.end, claim.kind, ""
    before, after = line.text[max(0, begin - _NEAR) : begin], line.text[end : end + _NEAR]
    if kind is ClaimKind.CONSTANT and find_pattern("env").search(line.text[max(0, begin - _NEAR) : end + _NEAR]):
        kind = ClaimKind.VARIABLE
    if kind is ClaimKind.PATH:
        reason = find_path_problem(claim.text)
    if not reason and (
        find_pattern("denied_before").search(before.rstrip("`*([ ")) or find_pattern("denied_after").match(after)
    ):
        reason = _NO_MORE
    placed = replace(claim, kind=kind, line=line.number, column=begin + 1, reason=reason)
    return _move(placed, line.start)


def _read_lines(text: str) -> Iterator[_Line]:
    """Yield the lines of a memory's description and body. Code and URLs are replaced by blanks."""
    body = len(text) - len(split_frontmatter(text).body)
    text = text[:body] + _COMMENT.sub(_blank, text[body:])
    start = 0
    for number, raw in enumerate(split_lines(text[:body]), 1):
        if raw.startswith("description:"):
            yield _make_line(" " * 12 + raw[12:].rstrip("\r\n"), start, number)
        start += len(raw)
    for number, (raw, fence) in enumerate(list_lines(text[body:]), text[:body].count("\n") + 1):
        line = raw.rstrip("\r")
        if not fence and line.strip():
            yield _make_line(line, start, number)
        is_command = fence is not None and fence.language.lower() in _SHELLS
        if fence and is_command and line.strip() and fence.inner <= start - body < fence.inner_end:
            yield _Line(line, start, number, "", is_shell=True)
        start += len(raw) + 1


def _make_line(line: str, start: int, number: int) -> _Line:
    codes = find_code_spans(line)
    pieces, offset = list[str](), 0
    for begin, end in codes:
        pieces += (line[offset:begin], " " * (end - begin))
        offset = end
    prose = "".join((*pieces, line[offset:]))
    return _Line(line, start, number, _BLANKED.sub(_blank, prose.replace("`", " ")) if prose.strip() else "", codes)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


@cache
def _read_months() -> dict[str, int]:
    rows = read_tables()["months"].split("|")
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
    """Yield each date in a line that is the end or deadline of something, with its position."""
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


def _read_code(line: _Line, begin: int, end: int) -> Iterator[Claim]:
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
    yield from (_move(claim, lead) for claim in named)


def _read_whole(code: str, before: str, after: str) -> Iterator[Claim]:
    span = (0, len(code))
    if (" " in code and not code.endswith(")")) or "://" in code or code.startswith("www."):
        return
    if flag := FLAG.match(code):
        yield _claim(ClaimKind.FLAG, flag[1], 0, len(flag[1]))
    elif variable := VARIABLE.match(code):
        name = variable[1] or variable[2]
        yield _claim(ClaimKind.VARIABLE, name, code.index(name), code.index(name) + len(name))
    elif is_pattern(code):
        yield _claim(ClaimKind.PATH, code, *span)
    else:
        yield from _read_name(code, before, after)


def _read_name(code: str, before: str, after: str) -> Iterator[Claim]:
    path, line = find_place(code)
    symbol = SYMBOL.match(code)
    if is_path(path, is_code=True) or (
        path.strip("/") and find_pattern("folder_after").match(after) and re.fullmatch(r"[\w./@+-]+", path)
    ):
        yield _claim(ClaimKind.PATH, path, 0, len(path), line)
    elif CONSTANT.match(code):
        yield _claim(ClaimKind.CONSTANT, code, 0, len(code))
    elif symbol and _is_symbol(symbol, before, after):
        kind = ClaimKind.CONSTANT if CONSTANT.match(symbol[1]) else ClaimKind.SYMBOL
        yield _claim(kind, symbol[1], symbol.start(1), symbol.end(1))
    elif may_be_path(path, is_code=True):
        yield _claim(ClaimKind.PATH, path, 0, len(path), line, is_weak=True)
    elif symbol and _PLAIN.match(code) and code.lower() not in find_words("keywords"):
        yield _claim(ClaimKind.SYMBOL, code, 0, len(code), is_weak=True)


def _is_symbol(symbol: re.Match[str], before: str, after: str) -> bool:
    name, called = symbol[1], symbol[2]
    parts = [part for part in PARTS.split(name) if part]
    if len(parts) == 1 and len(name) < 3:
        return False
    if called is not None or any(is_identifier(part) for part in parts):
        return not (called and " " in called and not re.match(r"\([^()]*\)\Z", called))
    if len(parts) > 1:
        return len(name) > 4 and not all(part.isdigit() for part in parts)
    return (
        bool(find_pattern("thing_after").match(after) or find_pattern("thing_before").search(before))
        and name[0].isalpha()
    )


def _read_fragment(code: str) -> Iterator[Claim]:
    """Yield the identifiers and definitions in a code expression."""
    bare = _STRINGS.sub(lambda match: " " * len(match[0]), code)
    for match in _DEFINING.finditer(bare):
        yield _claim(ClaimKind.SYMBOL, match[1], match.start(1), match.end(1))
    for match in _WORD.finditer(bare):
        name = match[0].removesuffix("()")
        if CONSTANT.match(name):
            yield _claim(ClaimKind.CONSTANT, name, match.start(), match.start() + len(name))
        elif any(is_identifier(part) for part in PARTS.split(name)):
            yield _claim(ClaimKind.SYMBOL, name, match.start(), match.start() + len(name))


def _read_prose(prose: str) -> Iterator[Claim]:
    for match in _CLAIMS_TOKEN.finditer(prose):
        token = match[0].lstrip(_STRIPPED)
        word = token if token.endswith("()") else token.rstrip(_STRIPPED + ".:")
        if "](" not in token:
            start = match.end() - len(token)
            before, after = prose[max(0, start - _NEAR) : start], prose[start + len(word) : start + len(word) + _NEAR]
            near = find_pattern("thing_before").search(before) or find_pattern("thing_after").match(after)
            yield from _read_word(word, token, start, is_thing=bool(near))


def _read_word(word: str, token: str, start: int, *, is_thing: bool) -> Iterator[Claim]:
    """Yield the claims in a word of prose. `token` is the word with the text after it.

    `is_thing` means that the text around it calls it a class, a function or the like.
    """
    path, line = find_place(word)
    span = (start, start + len(word))
    if re.match(r"[A-Za-z_$][\w$.]*\(\)", token):
        name = token[: token.index("(")]
        if len(name) > 2:
            yield _claim(ClaimKind.SYMBOL, name, start, start + len(name))
    elif is_path(path, is_code=False):
        yield _claim(ClaimKind.PATH, path, start, start + len(path), line)
    elif CONSTANT.match(word):
        yield _claim(ClaimKind.CONSTANT, word, *span)
    elif flag := re.match(r"--[a-z][a-z0-9]+(?:-[a-z0-9]+)*(?=\Z|=)", word):
        yield _claim(ClaimKind.FLAG, flag[0], start, start + len(flag[0]))
    elif variable := re.fullmatch(r"\$\{?([A-Z][A-Z0-9_]{2,})\}?", word):
        yield _claim(ClaimKind.VARIABLE, variable[1], start + variable.start(1), start + variable.end(1))
    elif _DOTTED.fullmatch(word) and any(map(is_identifier, word.split("."))):
        is_clear = is_thing or any(map(is_snake, word.split(".")))
        yield _claim(ClaimKind.SYMBOL, word, *span, is_weak=not is_clear)
    elif may_be_path(path, is_code=False):
        yield _claim(ClaimKind.PATH, path, start, start + len(path), line, is_weak=True)
