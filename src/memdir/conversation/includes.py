"""Parse instruction files without disk access: `@path` includes, comments, frontmatter of rules, and secrets.

A mention counts at the start of a line or after white space, but not in code (fences, indented blocks, `spans`) or in a
comment. A space in a path needs a backslash before it; a `#` begins a location inside the file. HTML comments that form a
block are notes between people and are removed.

Patterns may come with a clone, so matching is bounded: it backtracks only to the latest star and takes at most the product
of both lengths. The number of brace expansions is limited.

A file that looks like a secret, by its path or its text, is never included, not even with approval, because included text is
sent to a model's provider. Data files are refused by their path if in doubt; prose and code such as `docs/tokens.md` are
only checked by their text.
"""

import os
import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import groupby

from memdir.format import frontmatter
from memdir.frozen import dataclass
from memdir.limits import GLOB_CHARS, GLOB_PATTERNS, HEADER_BYTES, RULE_HEAD_LINES
from memdir.store.secrets import holds_token
from memdir.text import find_code_spans, match_fence

_MENTION = re.compile(r"(?<!\S)@((?:[^\s\\]|\\ )+)")
_START = re.compile(r"~/|\.{0,2}/|[\w.-]")
_OWN_LINE = re.compile(r"[ \t>]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]|#{1,6}[ \t])")
_AFTER = ".,;:!?)]}\"'*_"  # these characters usually end a sentence or emphasis, not a file name
_COMMENT = re.compile(r" {0,3}<!--")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)[ \t]*\S")
_BLANK = re.compile(r"[^\S\n]*(?:\n|\Z)")
_LIST_ITEM = re.compile(r"[ \t>]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
TEXT, CODE, COMMENT = "text", "code", "comment"
_HEAD_FENCE = re.compile(r"---[ \t]*\r?\n?\Z")
# `paths:` with the rest of its line, and the items and comments below it.
_PATHS = re.compile(r"^paths[ \t]*:(.*(?:\n[ \t]*(?:-[ \t].*|#.*|$))*)", re.MULTILINE)
_CHOICE = re.compile(r"\{([^{}]*,[^{}]*)\}")
_EVERY_FILE = ("**", "**/*", "/**", "*/**")
# Folders for secrets. No file below them is read.
_FOLDERS = frozenset(
    ".ssh .gnupg .gpg .aws .azure .kube .password-store .vault .sops .age .pki keyrings keychains .minikube .oci .putty "
    ".mozilla .thunderbird .bitcoin .ethereum".split()
)
# Names that projects also use, so they are secret only below a user's configuration folder.
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
# In the name of a data file such a word describes the content; in prose and code it is only the subject.
_DATA = frozenset(
    "txt text log json jsonc json5 yaml yml toml ini cfg conf config csv tsv xml properties plist sql env local bak old "
    "backup enc data".split()
) | {""}
_KEY_HEAD = re.compile(r"\s*(?:-----BEGIN [A-Z0-9 ]*(?:PRIVATE KEY|PGP MESSAGE)[A-Z ]*-----|PuTTY-User-Key-File-\d)")


def find_mentions(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the possible paths of each `@path` outside code and comments, the most likely path first."""
    mentions: dict[str, tuple[str, ...]] = {}
    for match in _MENTION.finditer(_mask(text)) if "@" in text else ():
        written = match[1].replace("\\ ", " ").partition("#")[0]
        if _START.match(written):
            mentions.setdefault(written, tuple(dict.fromkeys((written, written.rstrip(_AFTER) or written))))
    return tuple(mentions.values())


def _mask(text: str) -> str:
    """Return the text without code and comments."""
    parts: list[str] = []
    for is_text, pieces in groupby(split_blocks(text), lambda piece: piece[1] == TEXT):
        paragraphs = _join_paragraphs([line for line, _ in pieces]) if is_text else []
        parts += [_mask_comments(_mask_spans(paragraph)) for paragraph in paragraphs] or ["\n"]
    return "".join(parts)


def _join_paragraphs(lines: list[str]) -> list[str]:
    """Join the lines of each paragraph, because inline code can span lines."""
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
    parts, offset = [], 0
    for start, end in find_code_spans(text.replace("\\`", "\\ ")):
        parts.append(text[offset:start])
        offset = end  # keep the backticks, so that the text after them does not start a word
    return "".join(parts) + text[offset:]


def _mask_comments(text: str) -> str:
    parts, offset = [], 0
    while (start := text.find("<!--", offset)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts.append(text[offset:start])
        offset = end + 3
    return "".join(parts) + text[offset:]


def strip_comments(text: str) -> str:
    return "".join(piece for piece, block in split_blocks(text) if block != COMMENT) if "<!--" in text else text


def split_blocks(text: str) -> Iterator[tuple[str, str]]:
    """Split a text into code, block comments and other text, and yield each part with its type."""
    in_list = False
    after_gap = True  # a blank line, the start, or indented code: indented code may follow
    offset, has_ends = 0, True
    while offset < len(text):
        if has_ends and _COMMENT.match(text, offset):
            end = text.find("-->", text.index("<!--", offset) + 4)
            if end >= 0:
                blank = _BLANK.match(text, end + 3)  # the rest of the line, if it is blank
                stop = blank.end() if blank else end + 3
                yield text[offset:stop], COMMENT
                offset = stop
                continue
            has_ends = False  # an unclosed comment hides no text, and later comments are unclosed too
        stop = text.find("\n", offset) + 1 or len(text)
        bare, block = text[offset:stop].rstrip("\r\n"), TEXT
        if not bare.strip():
            after_gap = True
        elif after_gap and not in_list and _INDENTED.match(bare):
            block = CODE
        elif fence := match_fence(text, offset):
            block, stop, after_gap = CODE, fence.end, True
        else:
            in_list = bool(_LIST_ITEM.match(bare)) or (in_list and bare[0] in " \t")
            after_gap = False
        yield text[offset:stop], block
        offset = stop


@dataclass(frozen=True, slots=True)
class PathRule:
    """A rule file with its path patterns, as written and with braces expanded. Without any, it applies to all files."""

    body: str
    paths: tuple[str, ...] = ()
    globs: tuple[str, ...] = ()


def parse_rule(text: str) -> PathRule:
    """Parse a rule file. Invalid frontmatter is treated as having no `paths:`."""
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
    """Return the patterns in `paths:`, which may be a list or comma-separated. Accepts unquoted `**/*.ts`."""
    paths = _PATHS.search(head[:HEADER_BYTES])
    if paths is None:
        return []
    try:
        value = frontmatter.parse_yaml(head).get("paths", "")
    except frontmatter.YamlError:
        first, *rows = (re.sub(r"\s#.*", "", line).strip() for line in paths[1].split("\n"))
        items = _split_commas(first.strip("[]")) if first else [row[1:] for row in rows if row.startswith("-")]
        return [re.sub(r"""^(["'])(.*)\1$""", r"\2", item.strip()) for item in items]
    if isinstance(value, list):
        return [item for item in value if isinstance(item, str)]
    return _split_commas(value) if isinstance(value, str) else []


def _split_commas(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for offset, char in enumerate(text):
        depth += (char == "{") - (char == "}" and depth > 0)
        if char == "," and not depth:
            parts.append(text[start:offset])
            start = offset + 1
    return [*parts, text[start:]]


def match_any(patterns: Iterable[str], path: str) -> str | None:
    """Return the first pattern that matches the path, or None. Braces must already be expanded."""
    parts = _split(path)
    return next((pattern for pattern in patterns if _match_path(_split(pattern), parts)), None)


def expand_braces(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns with braces expanded. Patterns that would exceed the limit are omitted."""
    expanded: list[str] = []
    for pattern in patterns:
        expanded += _expand(pattern, GLOB_PATTERNS - len(expanded)) if len(pattern) <= GLOB_CHARS else ()
    return tuple(expanded)


def _expand(pattern: str, room: int) -> Iterable[str]:
    """Expand the innermost braces of a pattern first. Braces without a comma are literal."""
    expanded, waiting = dict[str, None](), [pattern]
    while waiting:
        if len(expanded) + len(waiting) > room:
            return ()
        text = waiting.pop()
        if group := _CHOICE.search(text):
            start, end = text[: group.start()], text[group.end() :]
            waiting += [start + choice + end for choice in reversed(group[1].split(","))]
        else:
            expanded[text] = None
    return expanded


def _split(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return [*parts, "**"] if path.endswith("/") else parts


def _match_path(pattern: list[str], parts: list[str]) -> bool:
    # A final `**` matches paths below the folder, not the folder itself.
    pattern = [*pattern, "*"] if pattern[-1:] == ["**"] else pattern
    pattern_offset = part_offset = retry_offset = 0
    star = -1
    while part_offset < len(parts):
        if pattern_offset < len(pattern) and pattern[pattern_offset] == "**":
            star, retry_offset = pattern_offset, part_offset
            pattern_offset += 1
        elif pattern_offset < len(pattern) and fnmatchcase(
            parts[part_offset], pattern[pattern_offset].replace("[^", "[!")
        ):
            pattern_offset, part_offset = pattern_offset + 1, part_offset + 1
        elif star >= 0:
            retry_offset += 1
            pattern_offset, part_offset = star + 1, retry_offset
        else:
            return False
    return all(item == "**" for item in pattern[pattern_offset:])


def looks_secret(path: str) -> bool:
    """Return whether the name of a path suggests that the file contains secrets. The file need not exist."""
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
    """Return whether a text starts with a private key header."""
    return bool(_KEY_HEAD.match(text))


def holds_secret(text: str) -> bool:
    """Return whether a text contains a private key or an unmistakable token."""
    return holds_key(text) or holds_token(text)
