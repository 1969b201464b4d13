"""What things look like in text: paths, symbols, constants, flags, command lines. Pure; nothing here knows a project.

In code a token needs less to count as something than in prose, where `and/or`, `Node.js` and `GitHub` must not become
paths and symbols. A command line is split like a shell does as far as words, quotes and `&&` go; nothing is expanded or
run. A flag counts only if the tool is not a well-known one: git's flags are not the project's.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from memdir.frozen import dataclass, replace
from memdir.verify.records import ClaimKind

# Objects whose members look like file endings: `console.log`, `process.env`.
_OBJECTS = frozenset("console process logger log math np os sys self this window document e.g i.e".split())
_MEMBERS = frozenset({"map", "env", "in", "m", "v", "s", "r", "ac", "am", "snap", "log", "mod", "sum"})
_SINGLE = re.compile(r"(?!go\Z)(?:[a-z]\w*[A-Z]\w*|[a-z]{1,7}|[A-Z]\w*[a-z]\w*)\Z")
_VERSION = re.compile(r"v?\d+(?:\.\d+)*")
_DOMAIN = re.compile(
    r"(?:[\w-]+\.)+(?:com|org|net|io|dev|ai|app|co|gov|edu|de|fr|uk|eu|jp|cn|ch|at|me|xyz|cloud|sh)\Z", re.I
)
_MIME = re.compile(r"(?:application|text|image|audio|video|font|multipart|message)/[\w.+*-]+\Z")
_DOT_JS = re.compile(r"(?:[A-Z][A-Za-z]*|[A-Za-z]\d?|node|next|vue|react|express|nuxt|three|ember|alpine)\.(?:js|ts)\Z")
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
_RUNNERS = frozenset({"poetry", "uv", "pdm", "hatch", "poe", "rye"})
_Token = tuple[str, int, int]  # a word of a command, where it starts and ends


@dataclass(frozen=True, slots=True)
class NamedThing:
    kind: ClaimKind
    text: str
    start: int
    end: int
    extra: str = ""
    is_weak: bool = False

    def shift(self, offset: int) -> "NamedThing":
        return replace(self, start=self.start + offset, end=self.end + offset)


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
    """Return a path without the line behind it, and that line: `a/b.py:12` is `a/b.py` and `12`."""
    match = _PLACE.search(token)
    if match is None or match.start() == 0 or (match[3] and "." not in token[: match.start()]):
        return token, ""
    return token[: match.start()], match[1] or match[2] or match[3]


def is_path(token: str, *, is_code: bool) -> bool:
    """Whether a token, without `:12`, is the name of a file or a folder."""
    if token == "MEMORY.md":  # the index of this very memory
        return False
    if not token or "://" in token or not _PATH.match(token) or token.strip("./~") == "" or "//" in token:
        return False
    parts = token.rstrip("/").split("/")
    leaf, is_single = parts[-1], len(parts) == 1
    if _MIME.match(token) or (not is_single and _DOMAIN.match(parts[0])) or not any(at.isalpha() for at in token):
        return False
    is_name = leaf in find_words("names") and (is_code or "." in leaf or not is_single)
    if _has_ending(leaf, is_code=is_code and is_single) or is_name:
        return is_code or not is_single or not _DOT_JS.match(leaf)
    if token.startswith(("./", "../", "~/")):
        return len(token) > 3
    is_top = parts[0] in find_words("folders")
    if token.endswith("/"):
        return is_code or not is_single or is_top
    if token.startswith("/"):
        return is_code and len(parts) > 2
    return is_top and len(parts) > (1 if is_code else 2)


def is_weak_path(token: str) -> bool:
    """`owner/name`, `feature/x`, `module/part` in code: a path only if the project has it."""
    is_shaped = "/" in token and "//" not in token and not token.startswith(("/", "@"))
    return is_shaped and bool(_PATH.match(token)) and not _MIME.match(token)


def is_short_path(word: str) -> bool:
    """`bin/tool` in prose: a path only if the project has it, since `client/server` looks the same."""
    first, _, rest = word.partition("/")
    return first in find_words("folders") and "/" not in rest and bool(re.fullmatch(r"[\w.-]+", rest))


def find_path_problem(token: str) -> str:
    """Return why a path cannot be looked up in any project; empty if it can."""
    if _PLACEHOLDER.search(token):
        return "a placeholder"
    if token.startswith(("~", "%")) or _DRIVE.match(token):
        return "outside the project"
    if _EXAMPLE.search(token):
        return "an example"
    return "outside the project" if ".." in token.split("/") else ""


def looks_like_pattern(token: str) -> bool:
    """Whether a path has a hole in it: `src/*.py`, `<name>/x.json`, `logs/YYYY/`."""
    if not _PLACEHOLDER.search(token) or " " in token or "(" in token or "=" in token:
        return False
    filled = re.sub(r"\*+|\{[^{}]*\}|<[^<>]*>|…|\.\.\.", "x", token)
    return is_path(filled, is_code=True) and not _PLACEHOLDER.search(filled.replace("YYYY", "x"))


def is_identifier(word: str) -> bool:
    """Whether a single word shows by its shape that it is no prose: humps or underscores inside."""
    if word.strip("_$").lower() in find_words("products") or len(word) < 3:
        return False
    return bool(_CAMEL.match(word)) or is_snake(word)


def is_plain_camel(word: str) -> bool:
    """`handleAuth`: a small letter first, a hump inside. The only humps that count in prose."""
    is_humped = re.match(r"_*[a-z][a-z0-9]*[A-Z]", word) and not re.fullmatch(r"[a-z][A-Z]+s?", word)
    return bool(is_humped) and len(word) > 4 and word.lower() not in find_words("products")


def is_snake(word: str) -> bool:
    """Whether a word has underscores inside, and no number that some database has assigned."""
    return bool(_SNAKE.match(word)) and not _SERIAL.search(word)


def is_command(text: str) -> bool:
    words = text.removeprefix("$ ").split(None, 8)
    while words and (_ASSIGNED.match(words[0]) or words[0] in _PREFIXES):
        words = words[1:]
    if not words or (len(words) == 1 and not text.startswith("$ ")):
        return False
    first, tools = words[0].rpartition("/")[2], find_words("tools")
    if words[0].startswith("./") or (first in tools and words[1] not in ("=", "==", "===", "=>", ":=", "!=")):
        return True
    return bool(re.fullmatch(r"[a-z][\w.-]*", first)) and any(FLAG.match(word) for word in words[1:])


def read_command(text: str) -> Iterator[NamedThing]:
    """Yield everything that one line of commands names."""
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


def _has_ending(leaf: str, *, is_code: bool) -> bool:
    """Whether a name ends as files do, and is no member of an object, no version and no abbreviation."""
    stem, _, ending = leaf.rpartition(".")
    if not stem or ending.lower() not in find_words("endings"):
        return False
    if stem.lower() in _OBJECTS or _VERSION.fullmatch(stem) or (ending in _MEMBERS and _SINGLE.fullmatch(stem)):
        return False
    return is_code or len(ending) > 1 or len(stem) > 2


def _read_simple(tokens: Sequence[_Token]) -> Iterator[NamedThing]:
    while tokens:
        assigned = _ASSIGNED.match(tokens[0][0])
        if assigned and assigned[1].isupper() and len(assigned[1]) > 2:
            start = tokens[0][1]
            yield NamedThing(ClaimKind.VARIABLE, assigned[1], start, start + len(assigned[1]))
        elif not assigned and tokens[0][0] not in _PREFIXES:
            break
        tokens = tokens[1:]
    if not tokens:
        return
    tool = tokens[0][0].rpartition("/")[2]
    own = list(_read_tool(tool, tokens))
    yield from own
    # `python tools/x.py --flag`: the flag is the file's.
    runs_file = tool in _INTERPRETERS and any(is_path(token, is_code=True) for token, _, _ in tokens[1:3])
    runs_own = any(at.extra.startswith(("module:", "npm:", "script:")) for at in own)
    is_foreign = tool in find_words("tools") and not runs_own and not runs_file
    for token, start, end in tokens:
        if not any(start <= at.start < end for at in own):
            yield from _read_argument(token, start, is_foreign=is_foreign)


def _read_argument(token: str, start: int, *, is_foreign: bool) -> Iterator[NamedThing]:
    flag = FLAG.match(token)
    if flag:
        if not is_foreign:
            yield NamedThing(ClaimKind.FLAG, flag[1], start, start + len(flag[1]))
        token, start = token.partition("=")[2], start + token.find("=") + 1
    file, _, node = token.partition("::")
    path, line = find_place(file)
    if path and is_path(path, is_code=True):
        yield NamedThing(ClaimKind.PATH, path, start, start + len(path), line)
        if node and re.fullmatch(r"\w+(?:::\w+)*", node):
            yield NamedThing(ClaimKind.SYMBOL, node.replace("::", "."), start + len(file) + 2, start + len(token))
    elif path and is_weak_path(path):
        yield NamedThing(ClaimKind.PATH, path, start, start + len(path), line, is_weak=True)
    elif token.startswith("$") and CONSTANT.match(token.strip("${}")):
        yield NamedThing(ClaimKind.VARIABLE, token.strip("${}"), start, start + len(token))


def _read_tool(tool: str, tokens: Sequence[_Token]) -> Iterator[NamedThing]:
    words, begin = [token for token, _, _ in tokens], tokens[0][1]
    plain = [at for at in tokens[1:] if not at[0].startswith("-")]
    if len(words) < 2:
        return
    if tool in _PYTHONS and "-m" in words[1:-1]:
        module, _, end = tokens[words.index("-m") + 1]
        if module != "pip" and _MODULE.match(module):
            yield NamedThing(ClaimKind.COMMAND, f"{tool} -m {module}", begin, end, f"module:{module}")
    elif tool in _NODE:
        yield from _read_node(tool, begin, plain)
    elif tool in _TARGETS:
        target, _, end = next((at for at in plain if _SCRIPT.match(at[0])), ("", 0, 0))
        if target:
            yield NamedThing(ClaimKind.COMMAND, f"{tool} {target}", begin, end, f"{_TARGETS[tool]}:{target}")
    elif tool in _RUNNERS:
        # `uv run x` may be anything that is installed; `poe x` is a task of the project.
        prefix = "" if tool == "poe" else "run "
        scripts = plain if tool == "poe" else plain[1:] if plain and plain[0][0] == "run" else ()
        for script, _, end in scripts[:1]:
            if _SCRIPT.match(script) and script not in find_words("tools") and not is_path(script, is_code=True):
                said = f"{tool} {prefix}{script}"
                yield NamedThing(ClaimKind.COMMAND, said, begin, end, f"script:{script}", bool(prefix))


def _read_node(tool: str, begin: int, plain: Sequence[_Token]) -> Iterator[NamedThing]:
    """A script of package.json: `npm run x`, or without `run` where the tool allows it."""
    verb = plain[0][0] if plain else ""
    is_run = verb in ("run", "run-script")
    is_known = verb in ("test", "start", "stop")
    if not verb or (is_run and len(plain) < 2):
        return
    if not is_run and not is_known and (tool == "npm" or verb in find_words("node_verbs")):
        return
    script, _, end = plain[1] if is_run else plain[0]
    if _SCRIPT.match(script) and not is_path(script, is_code=True):
        said = f"{tool} {'run ' if is_run else ''}{script}"
        yield NamedThing(ClaimKind.COMMAND, said, begin, end, f"npm:{script}", not is_run)
