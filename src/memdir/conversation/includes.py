"""What an instruction file contains, without disk access: `@path` mentions, comments, the head of a rule, secrets.

A mention counts at the start of a line or after white space, and not in code (fences, indented blocks, `spans`) or in a
comment. A space in a path is written with a backslash before it; what follows a `#` is a location inside the file.
Nothing is decoded: `%2e%2e` is a folder of that name.

HTML comments that are blocks of their own are notes between people and are removed. A comment inside a line or inside
code stays, and so does one that is never closed.

Patterns come with a clone, so they are never compiled to regular expressions: matching backtracks to the latest star
only, for folders and for characters, and takes at most the product of both lengths. Braces have a budget.

A file that looks like a secret, by its path or its text, is never included, not even with approval, because included
text goes to a model's provider. The lists lean towards refusing data; prose and code about secrets (`docs/tokens.md`)
are judged by their text.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from fnmatch import fnmatchcase
from itertools import groupby, pairwise

from memdir.format import frontmatter
from memdir.frozen import dataclass
from memdir.limits import GLOB_CHARS, GLOB_PATTERNS, HEADER_BYTES, RULE_HEAD_LINES
from memdir.store.secrets import holds_token

_MENTION = re.compile(r"(?<!\S)@((?:[^\s\\]|\\ )+)")
_START = re.compile(r"~/|\.{0,2}/|[\w.-]")
_TICKS = re.compile(r"(?<!\\)`+")
_OWN_LINE = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]|#{1,6}[ \t])")
_AFTER = ".,;:!?)]}\"'*_"  # ends a sentence or an emphasis more often than a file name
_COMMENT = re.compile(r" {0,3}<!--")
_CODE_FENCE = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*(`{3,}(?=[^`]*$)|~{3,})")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)[ \t]*\S")
_BLANK = re.compile(r"[^\S\n]*(?:\n|\Z)")
_LIST_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_HEAD_FENCE = re.compile(r"---[ \t]*\r?\n?\Z")
_KEY = re.compile(r"paths[ \t]*:(.*)")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)")
_EVERY_FILE = ("**", "**/*", "/**", "*/**")
# Folders that exist to hold secrets: nothing below them is read.
_FOLDERS = frozenset(
    ".ssh .gnupg .gpg .aws .azure .kube .password-store .vault .sops .age .pki keyrings keychains .minikube .oci .putty "
    ".mozilla .thunderbird .bitcoin .ethereum".split()
)
# Names that projects use too: a secret only below a person's configuration folder.
_ONLY_CONFIGURED = frozenset("gcloud gh op rclone google-chrome chromium bravesoftware 1password bitwarden".split())
_CONFIGURED = frozenset({".config", ".local", "application support", "appdata"})
_TREES = ("/run/secrets", "/var/run/secrets", "/run/credentials", "/etc/ssl/private", "/etc/sudoers.d")
_NAMES = frozenset(
    ".netrc _netrc .authinfo .pgpass pgpass.conf .my.cnf .mylogin.cnf .git-credentials .npmrc .yarnrc .yarnrc.yml .pypirc "
    ".gemrc .htpasswd .htdigest .dockercfg .boto .s3cfg .vault-token .vault_pass .terraformrc terraform.rc .envrc .env "
    ".claude.json shadow shadow- gshadow gshadow- sudoers master.key wallet.dat authorized_keys kubeconfig auth.json "
    "application_default_credentials.json login.keychain-db credentials.tfrc.json key4.db logins.json "
    "cookies.sqlite".split()
) | {"login data"}
_PATTERNS = tuple(
    "id_rsa* id_dsa* id_ecdsa* id_ed25519* ssh_host_* identity *_rsa *_dsa *_ed25519 *.pem *.key *.p8 *.p12 *.pfx "
    "*.pkcs12 *.jks *.keystore *.kdb *.kdbx *.ppk *.gpg *.pgp *.asc *.age *.ovpn *.keytab *.tfstate* *.tfvars* *.env "
    ".env.* *_history .*history *.psql_history *.kubeconfig *.mobileprovision secring.* *.agekey".split()
)
_SAMPLES = ("example", "sample", "template", "dist", "defaults", "schema")
_PAIRS = frozenset({(".docker", "config.json"), (".m2", "settings.xml"), (".gem", "credentials")})
_WORDS = re.compile(
    r"(?:^|[._\- ])(?:credentials?|creds?|secrets?|passwords?|passwd|passphrases?|tokens?|api[_-]?keys?|apitokens?|"
    r"access[_-]?keys?|private[_-]?keys?|service[_-]?accounts?|client[_-]secrets?|mnemonics?|oauth2?)(?:[._\- ]|$)"
)
# In a data file such a word in the name says what is inside; in prose and code it is only the subject.
_DATA = frozenset(
    "txt text log json jsonc json5 yaml yml toml ini cfg conf config csv tsv xml properties plist sql env local bak old "
    "backup enc data".split()
) | {""}
_KEY_HEAD = re.compile(r"\s*(?:-----BEGIN [A-Z0-9 ]*(?:PRIVATE KEY|PGP MESSAGE)[A-Z ]*-----|PuTTY-User-Key-File-\d)")


@dataclass(frozen=True, slots=True)
class IncludeMention:
    """One `@path`: the paths it may mean, the likeliest first."""

    spellings: tuple[str, ...]

    @property
    def is_path(self) -> bool:
        """Whether it can only be a path; `@someone` need not be."""
        return any(mark in self.spellings[-1] for mark in "/.")


def find_mentions(text: str) -> tuple[IncludeMention, ...]:
    """Every `@path` outside code and comments, in order, each once."""
    if "@" not in text:
        return ()
    found: dict[str, IncludeMention] = {}
    for match in _MENTION.finditer(_mask(text)):
        written = match[1].replace("\\ ", " ").partition("#")[0]
        if _START.match(written) and written not in found:
            found[written] = IncludeMention(tuple(dict.fromkeys((written, written.rstrip(_AFTER) or written))))
    return tuple(found.values())


def resolve_include(spelling: str, folder: str, home: str) -> str:
    """The absolute path that a mention in a file of that folder means; links and `..` are left to the system."""
    if spelling.startswith("~/"):
        return os.path.join(home, spelling[2:].lstrip("/"))
    return os.path.join(folder, spelling)


def _mask(text: str) -> str:
    """The text without code and comments."""
    parts: list[str] = []
    for is_text, pieces in groupby(split_blocks(text), lambda piece: piece.block is MarkdownBlock.TEXT):
        lines = [piece.text for piece in pieces]
        if is_text:
            parts.extend(_mask_comments(_mask_spans(paragraph)) for paragraph in _join_paragraphs(lines))
        else:
            parts.append("\n")
    return "".join(parts)


def _join_paragraphs(lines: list[str]) -> list[str]:
    """Lines joined as far as a code span may reach."""
    paragraphs: list[list[str]] = []
    is_open = False
    for line in lines:
        if is_open and line.strip() and not _OWN_LINE.match(line):
            paragraphs[-1].append(line)
        else:
            paragraphs.append([line])
        is_open = bool(line.strip())
    return ["".join(paragraph) for paragraph in paragraphs]


def _mask_spans(text: str) -> str:
    runs = [match.span() for match in _TICKS.finditer(text)]
    closing: list[int | None] = [None] * len(runs)
    latest: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        closing[number] = latest.get(length)
        latest[length] = number
    parts, at, number = [], 0, 0
    while number < len(runs):
        if (end := closing[number]) is not None:
            parts.append(text[at : runs[number][0]] + "`")  # not a blank: what follows does not start a word
            at, number = runs[end][1], end
        number += 1
    return "".join(parts) + text[at:]


def _mask_comments(text: str) -> str:
    parts, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts.append(text[at:start])
        at = end + 3
    return "".join(parts) + text[at:]


def strip_comments(text: str) -> str:
    """The text without its block comments."""
    if "<!--" not in text:
        return text
    return "".join(piece.text for piece in split_blocks(text) if piece.block is not MarkdownBlock.COMMENT)


class MarkdownBlock(Enum):
    TEXT = "text"
    CODE = "code"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class LinePiece:
    """A line with its end, or the part of one that a comment leaves over."""

    text: str
    block: MarkdownBlock


class _BlockState:
    """The lines so far, as they decide about the next one. Inside nested lists, where Markdown's rules need the whole
    tree, a line counts as code: nothing is included from there, and nothing is removed."""

    def __init__(self) -> None:
        self.fence = ""
        self._after_gap = True  # a blank line, the start, or indented code: indented code may follow
        self._in_list = False

    def read(self, line: str) -> MarkdownBlock:
        bare = line.rstrip("\r\n")
        if self.fence:
            run = bare.strip(" \t>")
            if len(run) >= len(self.fence) and set(run) == {self.fence[0]}:
                self.fence, self._after_gap = "", True
            return MarkdownBlock.CODE
        if not bare.strip():
            self._after_gap = True
            return MarkdownBlock.TEXT
        if self._after_gap and not self._in_list and _INDENTED.match(bare):
            return MarkdownBlock.CODE
        if opened := _CODE_FENCE.match(bare):
            self.fence = opened[1]
            return MarkdownBlock.CODE
        self._in_list = bool(_LIST_ITEM.match(bare)) or (self._in_list and bare[0] in " \t")
        self._after_gap = False
        return MarkdownBlock.TEXT


def split_blocks(text: str) -> Iterator[LinePiece]:
    """The text in pieces that joined are the text again: code, block comments, and other text. One pass over the lines,
    because each hides the others: a fence inside a comment is not a fence."""
    lines = _BlockState()
    at, has_ends = 0, True
    while at < len(text):
        if has_ends and not lines.fence and _COMMENT.match(text, at):
            end = text.find("-->", text.index("<!--", at) + 4)
            if end >= 0:
                blank = _BLANK.match(text, end + 3)  # the rest of the line, if it is blank
                stop = blank.end() if blank else end + 3
                yield LinePiece(text[at:stop], MarkdownBlock.COMMENT)
                at = stop
                continue
            has_ends = False  # an unclosed comment hides nothing, and no later one can be closed either
        stop = text.find("\n", at) + 1 or len(text)
        line = text[at:stop]
        yield LinePiece(line, lines.read(line))
        at = stop


@dataclass(frozen=True, slots=True)
class PathRule:
    """`paths` as written, `globs` with braces expanded; without any, the rule is for every file."""

    body: str
    paths: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()


def parse_rule(text: str) -> PathRule:
    """A rule file in its parts. Never raises: a head that cannot be read is one without `paths:`."""
    head, body = _split_head(text)
    paths = tuple(filter(None, map(str.strip, _find_paths(head))))
    return PathRule(body) if set(paths) & set(_EVERY_FILE) else PathRule(body, paths, expand_braces(paths))


def _split_head(text: str) -> tuple[str, str]:
    lines = text.split("\n", RULE_HEAD_LINES + 1)
    if not _HEAD_FENCE.match(lines[0]):
        return "", text
    for number, line in enumerate(lines[1 : RULE_HEAD_LINES + 1], 1):
        if _HEAD_FENCE.match(line):
            return "\n".join(lines[1:number]), "\n".join(lines[number + 1 :])
    return "", text


def _find_paths(head: str) -> list[str]:
    """`paths:` as a list or one line with commas. Most people write `**/*.ts` without quotes, which is not YAML (a star
    begins an alias), so a head that is not YAML is read line by line."""
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
    found: list[str] = []
    inside = False
    for line in head.split("\n"):
        key, item = _KEY.match(line), _ITEM.match(line)
        if key:
            inside = not key[1].strip()
            found += [_unquote(part) for part in _split_commas(key[1].strip().strip("[]"))]
        elif inside and item:
            found.append(_unquote(item[1]))
        elif line.strip() and not line.lstrip().startswith("#"):
            inside = False
    return found


def _split_commas(text: str) -> list[str]:
    """Split at commas that are not inside braces."""
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


def match_any(patterns: Iterable[str], path: str) -> str | None:
    """The first of these patterns that matches; braces are expanded, path and patterns relative to one folder."""
    parts = _split(path)
    return next((pattern for pattern in patterns if _match_path(_split(pattern), parts)), None)


def expand_braces(patterns: Iterable[str]) -> tuple[str, ...]:
    """The patterns without braces, up to a limit; a pattern that would exceed it is left out."""
    done: list[str] = []
    for pattern in patterns:
        done += _expand(pattern, GLOB_PATTERNS - len(done)) if len(pattern) <= GLOB_CHARS else ()
    return tuple(done)


def _expand(pattern: str, room: int) -> list[str]:
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        if len(done) + len(waiting) > room:
            return []
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
                return start, at + 1, [text[a + 1 : b] for a, b in pairwise([start, *commas, at])]
    return None


def _split(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return [*parts, "**"] if path.endswith("/") else parts


def _match_path(pattern: list[str], parts: list[str]) -> bool:
    # A `**` at the end matches something below, not the folder itself.
    end = ["*"] if pattern[-1:] == ["**"] else []
    return _match([*pattern, *end], parts, "**", _match_name)


def _match_name(pattern: str, name: str) -> bool:
    if "*" not in pattern and "?" not in pattern and "[" not in pattern:
        return pattern == name
    return _match(_tokenise(pattern), name, "*", _match_char)


def _match(pattern: Sequence[str], items: Sequence[str], any_run: str, fits: Callable[[str, str], bool]) -> bool:
    at = read = resumed = 0
    star = -1
    while read < len(items):
        if at < len(pattern) and pattern[at] == any_run:
            star, resumed = at, read
            at += 1
        elif at < len(pattern) and fits(pattern[at], items[read]):
            at, read = at + 1, read + 1
        elif star >= 0:
            resumed += 1
            at, read = star + 1, resumed
        else:
            return False
    return all(item == any_run for item in pattern[at:])


def _tokenise(pattern: str) -> list[str]:
    """Characters, `*`, `?`, and whole `[set]`s; a bracket that does not close is a character."""
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
    negated = token[1] in "!^" and len(token) > 3
    body = token[2:-1] if negated else token[1:-1]
    found = char in body or any(
        body[at - 1] <= char <= body[at + 1] for at in range(1, len(body) - 1) if body[at] == "-"
    )
    return found is not negated


def looks_secret(path: str) -> bool:
    """Whether a path looks like that of a secret, whatever is there."""
    folded = os.path.normpath(path).casefold()
    *folders, name = [part for part in folded.split("/") if part] or [""]
    if any(folded == tree or folded.startswith(f"{tree}/") for tree in _TREES) or _FOLDERS.intersection(folders):
        return True
    if _ONLY_CONFIGURED.intersection(folders) and _CONFIGURED.intersection(folders):
        return True
    if name.rpartition(".")[2] in _SAMPLES:
        return False
    is_known = name in _NAMES or (folders[-1] if folders else "", name) in _PAIRS
    if is_known or any(fnmatchcase(name, pattern) for pattern in _PATTERNS):
        return True
    extension = name.rpartition(".")[2] if "." in name[1:] else ""
    return extension in _DATA and bool(_WORDS.search(name))


def holds_key(text: str) -> bool:
    """Whether a text begins like a private key."""
    return bool(_KEY_HEAD.match(text))


def holds_secret(text: str) -> bool:
    """Whether a text contains a private key or an unmistakable token; prose about passwords may be included."""
    return holds_key(text) or holds_token(text)
