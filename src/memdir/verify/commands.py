"""A command line -> what it names in the project: scripts, targets, modules, files, variables, packages, branches.

A flag counts only where the tool is not a well-known one: git's flags are not the project's. It is read like a shell
would as far as words, quotes and `&&` go; nothing is expanded, nothing is run.
"""

import re
from collections.abc import Iterator, Sequence

from memdir.frozen import dataclass
from memdir.verify.records import ClaimKind
from memdir.verify.shapes import CONSTANT, FLAG, find_place, is_path, is_weak_path

_TOKEN = re.compile(r"\"[^\"]*\"|'[^']*'|&&|\|\||[;|&]|[^\s\"';|&]+")
_BREAKS = frozenset({"&&", "||", ";", "|", "&"})
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=")
_SCRIPT = re.compile(r"[A-Za-z][\w:./-]*\Z")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z")
_PACKAGE = re.compile(r"(@[\w.-]+/[\w.-]+|[A-Za-z][\w.-]*[A-Za-z0-9])(?:\[[\w,.-]+\])?(?:[=<>~!@^].*)?\Z")
_BRANCH = re.compile(r"[A-Za-z][\w./-]*[\w]\Z")

_NODE = frozenset({"npm", "pnpm", "yarn", "bun"})
_NODE_OWN = frozenset(
    """
    install i ci add remove uninstall update upgrade init publish pack link unlink audit outdated exec dlx create why
    list ls login logout version view info config cache help dedupe prune rebuild set workspace workspaces x import
    patch store
    """.split()
)
_PYTHONS = frozenset({"python", "python3", "py", "pypy", "pypy3"})
_PREFIXES = frozenset({"sudo", "time", "nohup", "exec", "env", "command", "xargs", "then", "do", "npx", "bunx"})
_TARGETS = {"make": "make", "gmake": "make", "just": "just"}
# The verbs by which each tool is given packages.
_INSTALLS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("pip", "pip3", "pipx", "conda", "gem"), frozenset({"install", "uninstall"})),
    **dict.fromkeys(("uv", "poetry", "pdm", "yarn", "bun", "cargo"), frozenset({"add", "remove"})),
    **dict.fromkeys(("npm", "pnpm"), frozenset({"install", "i", "add", "uninstall"})),
    "go": frozenset({"get"}),
}
_RUNNERS = frozenset({"poetry", "uv", "pdm", "hatch", "poe", "rye"})
_BRANCHED = frozenset({"checkout", "switch", "merge", "rebase", "push", "pull", "fetch", "log", "diff"})
# Tools whose flags are not the project's.
TOOLS = frozenset(
    """
    git gh glab npm npx pnpm yarn bun node deno python python3 py pip pip3 pipx uv poetry pdm hatch pytest tox nox
    mypy ruff black flake8 isort make gmake cmake ninja just task cargo rustc go gofmt docker podman docker-compose
    kubectl helm terraform aws gcloud az ansible ssh scp rsync curl wget ls cd cat cp mv rm mkdir rmdir touch find
    grep rg sed awk head tail less more chmod chown ln tar zip unzip ps kill export source echo printf which sudo apt
    apt-get brew dnf yum apk systemctl journalctl psql mysql redis-cli sqlite3 mongo java javac mvn gradle gradlew
    ruby gem bundle rake rails php composer dotnet swift xcodebuild bash sh zsh env time watch tsc eslint prettier
    vite vitest jest mocha webpack rollup esbuild turbo nx lerna next nuxt playwright cypress chrome code claude codex
    jq yq diff patch xargs tee cut sort uniq wc conda mamba pre-commit twine supabase firebase vercel netlify wrangler
    fly heroku
    """.split()
)


@dataclass(frozen=True, slots=True)
class Named:
    """A thing a command names, at a place in the command's text."""

    kind: ClaimKind
    text: str
    start: int
    end: int
    extra: str = ""
    is_weak: bool = False


Token = tuple[str, int, int]


def is_command(text: str) -> bool:
    """Whether a piece of code is a command line and not an expression."""
    words = text.removeprefix("$ ").split(None, 8)
    while words and (_ASSIGNED.match(words[0]) or words[0] in _PREFIXES):
        words = words[1:]
    if not words or (len(words) == 1 and not text.startswith("$ ")):
        return False
    first = words[0].rpartition("/")[2]
    if words[0].startswith("./") or (first in TOOLS and words[1] not in ("=", "==", "===", "=>", ":=", "!=")):
        return True
    return bool(re.fullmatch(r"[a-z][\w.-]*", first)) and any(FLAG.match(word) for word in words[1:])


def read_command(text: str) -> Iterator[Named]:
    """Everything one line of commands names."""
    group: list[Token] = []
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


def _read_simple(tokens: Sequence[Token]) -> Iterator[Named]:
    while tokens:
        assigned = _ASSIGNED.match(tokens[0][0])
        if assigned and assigned[1].isupper() and len(assigned[1]) > 2:
            start = tokens[0][1]
            yield Named(ClaimKind.VARIABLE, assigned[1], start, start + len(assigned[1]))
        elif not assigned and tokens[0][0] not in _PREFIXES:
            break
        tokens = tokens[1:]
    if not tokens:
        return
    tool = tokens[0][0].rpartition("/")[2]
    own = list(_read_tool(tool, tokens))
    yield from own
    taken = {(at.start, at.end) for at in own}
    is_foreign = tool in TOOLS and not any(at.extra.startswith(("module:", "npm:", "script:")) for at in own)
    for token, start, end in tokens:
        if (start, end) in taken or any(start <= at.start < end for at in own):
            continue
        yield from _read_argument(token, start, is_foreign=is_foreign and not _runs_file(tool, tokens))


def _read_argument(token: str, start: int, *, is_foreign: bool) -> Iterator[Named]:
    flag = FLAG.match(token)
    if flag:
        if not is_foreign:
            yield Named(ClaimKind.FLAG, flag[1], start, start + len(flag[1]))
        token, start = token.partition("=")[2], start + token.find("=") + 1
    file, _, node = token.partition("::")
    path, line = find_place(file)
    if path and is_path(path, is_code=True):
        yield Named(ClaimKind.PATH, path, start, start + len(path), line)
        if node and re.fullmatch(r"\w+(?:::\w+)*", node):
            yield Named(ClaimKind.SYMBOL, node.replace("::", "."), start + len(file) + 2, start + len(token))
    elif path and is_weak_path(path):
        yield Named(ClaimKind.PATH, path, start, start + len(path), line, is_weak=True)
    elif CONSTANT.match(token.strip("${}")) and token.startswith("$"):
        name = token.strip("${}")
        yield Named(ClaimKind.VARIABLE, name, start, start + len(token))


def _runs_file(tool: str, tokens: Sequence[Token]) -> bool:
    """`python tools/x.py --flag`: the flag is the file's."""
    return tool in (*_PYTHONS, "node", "bash", "sh", "ruby", "php", "deno") and any(
        is_path(token, is_code=True) for token, _, _ in tokens[1:3]
    )


def _read_tool(tool: str, tokens: Sequence[Token]) -> Iterator[Named]:
    """What the tool's own grammar makes of its words."""
    words = [token for token, _, _ in tokens]
    plain = [at for at in tokens[1:] if not at[0].startswith("-")]
    if len(words) < 2:
        return
    if words[1] in _INSTALLS.get(tool, ()):
        yield from _read_packages(plain[1:])
    elif tool in _PYTHONS and "-m" in words[1:-1]:
        yield from _read_module(tool, tokens, words.index("-m") + 1)
    elif tool in _NODE:
        yield from _read_node(tool, tokens[0][1], plain)
    elif tool in _TARGETS:
        token, _, end = next((at for at in plain if _SCRIPT.match(at[0])), ("", 0, 0))
        if token:
            yield Named(ClaimKind.COMMAND, f"{tool} {token}", tokens[0][1], end, f"{_TARGETS[tool]}:{token}")
    elif tool in _RUNNERS:
        yield from _read_runner(tool, tokens[0][1], plain)
    elif tool == "git" and words[1] in _BRANCHED and not {"-b", "-c", "-B", "-C", "--"} & set(words):
        yield from _read_branch(words[1], plain[1:])


def _read_module(tool: str, tokens: Sequence[Token], place: int) -> Iterator[Named]:
    token, _, end = tokens[place]
    if [at for at, _, _ in tokens[place : place + 2]] == ["pip", "install"]:
        yield from _read_packages(tokens[place + 2 :])
    elif _MODULE.match(token):
        yield Named(ClaimKind.COMMAND, f"{tool} -m {token}", tokens[0][1], end, f"module:{token}")


def _read_runner(tool: str, begin: int, plain: Sequence[Token]) -> Iterator[Named]:
    """`uv run x` may be anything that is installed; `poe x` is a task of the project."""
    prefix = "" if tool == "poe" else "run "
    scripts = plain if tool == "poe" else plain[1:] if plain and plain[0][0] == "run" else ()
    for script, _, end in scripts[:1]:
        if _SCRIPT.match(script) and script not in TOOLS and not is_path(script, is_code=True):
            yield Named(ClaimKind.COMMAND, f"{tool} {prefix}{script}", begin, end, f"script:{script}", bool(prefix))


def _read_node(tool: str, begin: int, plain: Sequence[Token]) -> Iterator[Named]:
    if not plain:
        return
    script, is_weak = plain[0], False
    if plain[0][0] in ("run", "run-script"):
        if len(plain) < 2:
            return
        script = plain[1]
    elif plain[0][0] in ("test", "start", "stop"):
        is_weak = True
    elif tool == "npm" or plain[0][0] in _NODE_OWN:
        return
    else:
        is_weak = True
    if _SCRIPT.match(script[0]) and not is_path(script[0], is_code=True):
        said = f"{tool} {'run ' if plain[0] is not script else ''}{script[0]}"
        yield Named(ClaimKind.COMMAND, said, begin, script[2], f"npm:{script[0]}", is_weak)


def _read_packages(tokens: Sequence[Token]) -> Iterator[Named]:
    for token, start, _ in tokens:
        match = _PACKAGE.match(token)
        if match and not is_path(token, is_code=True) and "/" not in match[1].removeprefix("@").partition("/")[2]:
            yield Named(ClaimKind.PACKAGE, match[1], start, start + len(match[1]))


def _read_branch(verb: str, plain: Sequence[Token]) -> Iterator[Named]:
    wanted = plain[1:2] if verb in ("push", "pull", "fetch") else plain[:1]
    for token, start, end in wanted:
        if _BRANCH.match(token) and token != "HEAD" and ".." not in token and not is_path(token, is_code=True):
            yield Named(ClaimKind.BRANCH, token.removeprefix("origin/"), start, end)
