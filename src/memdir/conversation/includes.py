"""`@path` in an instruction file: where it stands, and which path it means. Pure; nothing here looks at a disk.

A mention counts at the start of a line or after white space, and not in code (fences, indented blocks, `spans`) nor in
a comment. A space in a path is written with a backslash before it; what follows a `#` is a place inside the file.
Nothing is decoded: `%2e%2e` is a folder of that name.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from fnmatch import fnmatchcase
from itertools import groupby, pairwise
from typing import TypeVar

from memdir.format import frontmatter
from memdir.frozen import dataclass
from memdir.limits import GLOB_CHARS, GLOB_PATTERNS, HEADER_BYTES, RULE_HEAD_LINES
from memdir.store.secrets import holds_token

# --- globs ---
# Does a path match a pattern: `*`, `?`, `[…]`, `**` for any folders, `{a,b}` for either. Pure, and never slow.
#
# Patterns come with a clone, so nothing here is turned into a regular expression: both levels, folders and characters,
#  go
# back to the latest star only, and the time is bounded by the two lengths multiplied. Braces have a budget.

Item = TypeVar("Item")
_ANY = ("**", "**/*", "/**", "*/**")


def match_any(patterns: Iterable[str], path: str) -> str | None:
    """The first of these patterns, braces expanded already, that matches; path and patterns start from one place."""
    parts = _split(path)
    return next((pattern for pattern in patterns if _match_path(_split(pattern), parts)), None)


def matches_all(patterns: Sequence[str]) -> bool:
    """Whether one of the patterns lets everything through."""
    return any(pattern in _ANY for pattern in patterns)


def expand_braces(patterns: Iterable[str]) -> tuple[str, ...]:
    """All patterns without braces, at most so many; patterns that would go beyond that are left out whole."""
    done: list[str] = []
    for pattern in patterns:
        made = _expand(pattern, GLOB_PATTERNS - len(done)) if len(pattern) <= GLOB_CHARS else None
        done += made or ()
    return tuple(done)


def _expand(pattern: str, room: int) -> list[str] | None:
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        if len(done) + len(waiting) > room:
            return None
        text = waiting.pop()
        group = _find_group(text)
        if group is None:
            done.append(text)
        else:
            start, end, choices = group
            waiting += [text[:start] + choice + text[end:] for choice in reversed(choices)]
    return done


def _find_group(text: str) -> tuple[int, int, list[str]] | None:
    """The first outermost `{a,b}`: where it starts and ends, and its choices. Braces without a comma are letters."""
    depth, start, commas = 0, 0, list[int]()
    for at, char in enumerate(text):
        if char == "{":
            depth += 1
            if depth == 1:
                start, commas = at, []
        elif char == "," and depth == 1:
            commas.append(at)
        elif char == "}" and depth:
            depth -= 1
            if depth == 0 and commas:
                cuts = [start, *commas, at]
                return start, at + 1, [text[a + 1 : b] for a, b in pairwise(cuts)]
    return None


def _split(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return [*parts, "**"] if path.endswith("/") else parts


def _match_path(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    # A `**` at the end stands for something below, not for the folder itself.
    if pattern and pattern[-1] == "**":
        pattern = [*pattern, "*"]
    return _match(pattern, parts, lambda item: item == "**", _match_name)


def _match_name(pattern: str, name: str) -> bool:
    if "*" not in pattern and "?" not in pattern and "[" not in pattern:
        return pattern == name
    return _match(_tokenise(pattern), name, lambda token: token == "*", _match_char)


def _match(
    pattern: Sequence[Item],
    items: Sequence[str],
    is_star: Callable[[Item], bool],
    fits: Callable[[Item, str], bool],
) -> bool:
    at = read = resumed = 0
    star = -1
    while read < len(items):
        if at < len(pattern) and is_star(pattern[at]):
            star, resumed = at, read
            at += 1
        elif at < len(pattern) and fits(pattern[at], items[read]):
            at, read = at + 1, read + 1
        elif star >= 0:
            resumed += 1
            at, read = star + 1, resumed
        else:
            return False
    return all(is_star(item) for item in pattern[at:])


def _tokenise(pattern: str) -> list[str]:
    """One letter, `*`, `?`, or a whole `[set]`; a bracket that does not close is a letter."""
    tokens: list[str] = []
    at = 0
    while at < len(pattern):
        end = pattern.find("]", at + 2) if pattern[at] == "[" else -1
        stop = end + 1 if end > 0 else at + 1
        tokens.append(pattern[at:stop])
        at = stop
    return tokens


def _match_char(token: str, char: str) -> bool:
    if token == "?":
        return True
    if len(token) < 3:
        return token == char
    body = token[1:-1]
    negated = body[0] in "!^" and len(body) > 1
    body = body[1:] if negated else body
    found = char in body or any(
        body[at - 1] <= char <= body[at + 1] for at in range(1, len(body) - 1) if body[at] == "-"
    )
    return found is not negated


# --- rules ---
# The head of a rule file: the `paths:` it is for, and the text below it. Pure.
#
# `paths:` may be a list or one line with commas. Most people write patterns without quotes, and `**/*.ts` is no YAML
# then
# (a star begins an alias); so what YAML refuses is read line by line.

_FENCE = re.compile(r"---[ \t]*\r?\n?\Z")
_KEY = re.compile(r"paths[ \t]*:(.*)")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")


@dataclass(frozen=True, slots=True)
class PathRule:
    """`paths` as written, `globs` ready to be matched; without any the rule is for every file."""

    body: str
    paths: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()


def parse_rule(text: str) -> PathRule:
    """A rule file's text in its parts. Never raises: a head that cannot be read is a head without `paths:`."""
    head, body = _split_head(text)
    paths = tuple(path for path in (path.strip() for path in _find_paths(head)) if path)
    if not paths or matches_all(paths):
        return PathRule(body)
    return PathRule(body, paths, expand_braces(paths))


def _split_head(text: str) -> tuple[str, str]:
    lines = text.split("\n", RULE_HEAD_LINES + 1)
    if not _FENCE.match(lines[0]):
        return "", text
    for number, line in enumerate(lines[1 : RULE_HEAD_LINES + 1], 1):
        if _FENCE.match(line):
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    return "", text


def _find_paths(head: str) -> list[str]:
    if not re.search(r"^paths[ \t]*:", head, re.MULTILINE):
        return []
    try:
        value = frontmatter.parse_yaml(head).get("paths", "")
    except frontmatter.YamlError:
        return _read_lines(head[:HEADER_BYTES])
    if isinstance(value, list):
        return [item for item in value if isinstance(item, str)]
    return _split_commas(value) if isinstance(value, str) else []


def _read_lines(head: str) -> list[str]:
    """`paths:` from lines that are no YAML: what follows it on its line, or the `- item` lines below it."""
    found: list[str] = []
    inside = False
    for line in head.split("\n"):
        key, item = _KEY.match(line), _ITEM.match(line)
        if key:
            inside = not key.group(1).strip()
            found += [_unquote(part) for part in _split_commas(key.group(1).strip().strip("[]"))]
        elif inside and item:
            found.append(_unquote(item.group(1)))
        elif line.strip() and not line.lstrip().startswith("#"):
            inside = False
    return found


def _split_commas(text: str) -> list[str]:
    """Cut at commas that are not inside braces."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "{") - (char == "}" and depth > 0)
        if char == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _unquote(text: str) -> str:
    bare = re.sub(r"\s#.*", "", text).strip()
    return bare[1:-1] if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in "\"'" else bare


# --- blocks ---
# Which lines of a Markdown text are code, which are block comments, and which are plain text.
#
# One pass over the lines, because each hides the others: a fence inside a comment is no fence, a comment inside a
# fence
# is no comment. Where Markdown's own rules need the whole tree (code inside nested lists), the answer leans towards
# code:
# nothing is included from there, and nothing is dropped from it.
#
# It knows blocks only. Code inside a line is `includes`' to find.

_COMMENT = re.compile(r" {0,3}<!--")
_BLOCKS_FENCE = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}(?=[^`]*$)|~{3,})")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)[ \t]*\S")
_BLANK = re.compile(r"[^\S\n]*(?:\n|\Z)")
_LIST_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")


class MarkdownBlock(Enum):
    TEXT = "text"
    CODE = "code"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class LinePiece:
    """A line with its end, or the part of one that a comment leaves over."""

    text: str
    block: MarkdownBlock


class _Lines:
    """What the lines so far mean for the next one."""

    def __init__(self) -> None:
        self.fence = ""
        self._after_gap = True  # a blank line, the start, or indented code: where indented code may stand
        self._in_list = False

    def read(self, line: str) -> MarkdownBlock:
        bare = line.rstrip("\r\n")
        if self.fence:
            if self._closes(bare):
                self.fence, self._after_gap = "", True
            return MarkdownBlock.CODE
        if not bare.strip():
            self._after_gap = True
            return MarkdownBlock.TEXT
        if self._after_gap and not self._in_list and _INDENTED.match(bare):
            return MarkdownBlock.CODE
        opened = _BLOCKS_FENCE.match(bare)
        if opened:
            self.fence = opened.group(1)
            return MarkdownBlock.CODE
        self._in_list = bool(_LIST_ITEM.match(bare)) or (self._in_list and bare[0] in " \t")
        self._after_gap = False
        return MarkdownBlock.TEXT

    def _closes(self, bare: str) -> bool:
        run = bare.strip(" \t>")
        return len(run) >= len(self.fence) and set(run) == {self.fence[0]}


def split_blocks(text: str) -> Iterator[LinePiece]:
    """The text in pieces that put together are the text again."""
    lines = _Lines()
    at, has_ends = 0, True
    while at < len(text):
        if has_ends and not lines.fence and _COMMENT.match(text, at):
            end = text.find("-->", text.index("<!--", at) + 4)
            if end >= 0:
                stop = _skip_line_end(text, end + 3)
                yield LinePiece(text[at:stop], MarkdownBlock.COMMENT)
                at = stop
                continue
            has_ends = False  # an unclosed comment hides nothing, and no other can be closed either
        stop = text.find("\n", at) + 1 or len(text)
        line = text[at:stop]
        yield LinePiece(line, lines.read(line))
        at = stop


def _skip_line_end(text: str, at: int) -> int:
    """Past the rest of the line if that is blank."""
    blank = _BLANK.match(text, at)
    return blank.end() if blank else at


# --- includes ---

_MENTION = re.compile(r"(?<!\S)@((?:[^\s\\]|\\ )+)")
_START = re.compile(r"~/|\.{0,2}/|[\w.-]")
_TICKS = re.compile(r"(?<!\\)`+")
_OWN_LINE = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]|#{1,6}[ \t])")
_AFTER = ".,;:!?)]}\"'*_"  # ends a sentence or an emphasis more often than a file name


@dataclass(frozen=True, slots=True)
class IncludeMention:
    """One `@path` as written: the spellings it may mean, the likeliest first."""

    spellings: tuple[str, ...]

    @property
    def is_path(self) -> bool:
        """Whether it can only be meant as a path; `@someone` need not be."""
        return any(mark in self.spellings[-1] for mark in "/.")


def find_mentions(text: str) -> tuple[IncludeMention, ...]:
    """Every `@path` outside code and comments, in order, each once."""
    if "@" not in text:
        return ()
    found: dict[str, IncludeMention] = {}
    for match in _MENTION.finditer(_mask(text)):
        written = match.group(1).replace("\\ ", " ").partition("#")[0]
        if _START.match(written) and written not in found:
            found[written] = IncludeMention(tuple(dict.fromkeys((written, written.rstrip(_AFTER) or written))))
    return tuple(found.values())


def resolve_include(spelling: str, folder: str, home: str) -> str:
    """The absolute path that a spelling means in a file of that folder; links and `..` are left for the system."""
    if spelling.startswith("~/"):
        return os.path.join(home, spelling[2:].lstrip("/"))
    return os.path.join(folder, spelling)


def _mask(text: str) -> str:
    """The text with all code and comments as blanks."""
    parts: list[str] = []
    for is_text, pieces in groupby(split_blocks(text), lambda piece: piece.block is MarkdownBlock.TEXT):
        lines = [piece.text for piece in pieces]
        if is_text:
            parts.extend(_mask_paragraph(paragraph) for paragraph in _join_paragraphs(lines))
        else:
            parts.append("\n")
    return "".join(parts)


def _join_paragraphs(lines: list[str]) -> list[str]:
    """Lines put together as far as a code span may reach."""
    paragraphs: list[list[str]] = []
    is_open = False
    for line in lines:
        if is_open and line.strip() and not _OWN_LINE.match(line):
            paragraphs[-1].append(line)
        else:
            paragraphs.append([line])
        is_open = bool(line.strip())
    return ["".join(paragraph) for paragraph in paragraphs]


def _mask_paragraph(text: str) -> str:
    return _mask_comments(_mask_spans(text)) if "`" in text or "<!--" in text else text


def _mask_spans(text: str) -> str:
    runs = [(match.start(), match.end()) for match in _TICKS.finditer(text)]
    closing: list[int | None] = [None] * len(runs)
    latest: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        closing[number] = latest.get(length)
        latest[length] = number
    parts, at, number = [], 0, 0
    while number < len(runs):
        end = closing[number]
        if end is not None:
            parts.append(text[at : runs[number][0]] + "`")  # no blank: what follows is not at the start of a word
            at, number = runs[end][1], end
        number += 1
    return "".join(parts) + text[at:]


def _mask_comments(text: str) -> str:
    parts, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts.append(text[at:start])
        at = end + 3
    return "".join(parts) + text[at:]


# --- comments ---
# HTML comments that stand as blocks of their own are notes between people: they are dropped before anything is loaded.
#
# A comment inside a line, or inside code, stays. So does one that is never closed: a slip of the pen must not hide the
# rest of a file.


def strip_comments(text: str) -> str:
    """The text without its block comments; every other character stays."""
    if "<!--" not in text:
        return text
    return "".join(piece.text for piece in split_blocks(text) if piece.block is not MarkdownBlock.COMMENT)


# --- secrecy ---
# Does a file look like a secret: by its path, before it is opened, and by its text, before it is shown. Pure.
#
# Such a file is never included, with no approval either: whatever an instruction file names goes to a model's
# provider.
# The lists err on the side of refusing data; prose and code about secrets (`docs/tokens.md`, `token.py`) pass by name,
# and are then judged by what they hold. A secret in a place and a shape that nobody knows is not found.

# Folders that exist to hold secrets: nothing below them is read.
_FOLDERS = frozenset(
    {
        *(".ssh", ".gnupg", ".gpg", ".aws", ".azure", ".kube", ".password-store", ".vault", ".sops", ".age", ".pki"),
        *("keyrings", "keychains", ".minikube", ".oci", ".putty", ".mozilla", ".thunderbird", ".bitcoin", ".ethereum"),
        *("gcloud", "gh", "op", "rclone", "google-chrome", "chromium", "bravesoftware", "1password", "bitwarden"),
    }
)
# Of those, names that projects use too: a secret only below a person's configuration folder.
_ONLY_CONFIGURED = frozenset(
    {"gcloud", "gh", "op", "rclone", "google-chrome", "chromium", "bravesoftware", "1password", "bitwarden"}
)
_CONFIGURED = frozenset({".config", ".local", "application support", "appdata"})
_TREES = ("/run/secrets", "/var/run/secrets", "/run/credentials", "/etc/ssl/private", "/etc/sudoers.d")
_NAMES = frozenset(
    {
        *(".netrc", "_netrc", ".authinfo", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".git-credentials"),
        *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".gemrc", ".htpasswd", ".htdigest", ".dockercfg", ".boto"),
        *(".s3cfg", ".vault-token", ".vault_pass", ".terraformrc", "terraform.rc", ".envrc", ".env", ".claude.json"),
        *("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "master.key", "wallet.dat", "authorized_keys"),
        *("kubeconfig", "auth.json", "application_default_credentials.json", "login.keychain-db"),
        *("credentials.tfrc.json", "key4.db", "logins.json", "cookies.sqlite", "login data"),
    }
)
_PATTERNS = (
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "ssh_host_*", "identity", "*_rsa", "*_dsa", "*_ed25519"),
    *("*.pem", "*.key", "*.p8", "*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.keystore", "*.kdb", "*.kdbx", "*.ppk"),
    *("*.gpg", "*.pgp", "*.asc", "*.age", "*.ovpn", "*.keytab", "*.tfstate*", "*.tfvars*", "*.env", ".env.*"),
    *("*_history", ".*history", "*.psql_history", "*.kubeconfig", "*.mobileprovision", "secring.*", "*.agekey"),
)
_SAMPLES = ("example", "sample", "template", "dist", "defaults", "schema")
_PAIRS = frozenset({(".docker", "config.json"), (".m2", "settings.xml"), (".gem", "credentials")})
_WORDS = re.compile(
    r"(?:^|[._\- ])(?:credentials?|creds?|secrets?|passwords?|passwd|passphrases?|tokens?|api[_-]?keys?|apitokens?|"
    r"access[_-]?keys?|private[_-]?keys?|service[_-]?accounts?|client[_-]secrets?|mnemonics?|oauth2?)(?:[._\- ]|$)"
)
# Data, where such a word in the name says what is inside. In prose and code it says what it is about.
_DATA = frozenset(
    {"", "txt", "text", "log", "json", "jsonc", "json5", "yaml", "yml", "toml", "ini", "cfg", "conf", "config", "csv"}
    | {"tsv", "xml", "properties", "plist", "sql", "env", "local", "bak", "old", "backup", "enc", "data"}
)
_KEY_HEAD = re.compile(r"\s*(?:-----BEGIN [A-Z0-9 ]*(?:PRIVATE KEY|PGP MESSAGE)[A-Z ]*-----|PuTTY-User-Key-File-\d)")


def looks_secret(path: str) -> bool:
    """Whether a path names something that holds secrets, whatever is really there."""
    folded = os.path.normpath(path).casefold()
    *folders, name = [part for part in folded.split("/") if part] or [""]
    if any(folded == tree or folded.startswith(f"{tree}/") for tree in _TREES):
        return True
    kept = set(folders) & _FOLDERS
    if kept - _ONLY_CONFIGURED or (kept and set(folders) & _CONFIGURED):
        return True
    return _is_secret_name(name, folders[-1] if folders else "")


def holds_key(text: str) -> bool:
    """Whether a text begins as private keys do."""
    return bool(_KEY_HEAD.match(text))


def holds_secret(text: str) -> bool:
    """Whether there is a private key or an unmistakable access token anywhere in it.

    A password that only the words around it tell is no reason to refuse a file: prose about them is what is included.
    """
    return holds_key(text) or holds_token(text)


def _is_secret_name(name: str, folder: str) -> bool:
    if name.rpartition(".")[2] in _SAMPLES:
        return False
    if name in _NAMES or (folder, name) in _PAIRS or any(fnmatchcase(name, pattern) for pattern in _PATTERNS):
        return True
    extension = name.rpartition(".")[2] if "." in name[1:] else ""
    return extension in _DATA and bool(_WORDS.search(name))
