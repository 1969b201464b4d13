"""What things look like in text: paths, symbols, constants, flags. Pure, and each rule looks at one token.

In code a token needs less to be taken for something than in prose, where `and/or`, `Node.js` and `GitHub` must not
become paths and symbols. Nothing here knows a project.
"""

import re
from collections.abc import Iterator, Sequence

from memdir.frozen import dataclass
from memdir.verify.records import ClaimKind

# --- shapes ---

# Endings that files of projects have. `.com` and the like are missing on purpose.
_ENDINGS = """
py pyi pyx ipynb js jsx mjs cjs ts tsx mts cts vue svelte astro go rs c h cc cpp cxx hpp hh java kt kts scala groovy
rb erb rake php cs fs swift m mm dart ex exs erl hs clj cljs lua pl pm r jl zig nim v sv ml mli elm sol asm s f90 sh
bash zsh fish ps1 bat cmd sql prisma graphql gql proto thrift avsc tf tfvars hcl nix bzl cmake mk gradle html htm
xhtml css scss sass less styl svg xml xsl xsd json json5 jsonc jsonl ndjson yaml yml toml ini cfg conf properties env
lock mod sum md mdx mdc rst adoc txt tex csv tsv parquet db sqlite log pdf png jpg jpeg gif webp ico woff woff2 ttf
wasm j2 jinja tmpl tpl ejs hbs mustache pug liquid snap patch diff po pot plist service timer desktop map whl gz zip
tar in am ac
""".split()
ENDINGS = frozenset(_ENDINGS)
_NAMES = """
Makefile makefile GNUmakefile Dockerfile Containerfile Jenkinsfile Procfile Vagrantfile Gemfile Rakefile Pipfile
Brewfile Justfile justfile Taskfile Caddyfile Tiltfile BUILD WORKSPACE LICENSE COPYING NOTICE README CHANGELOG
CONTRIBUTING CODEOWNERS .gitignore .gitattributes .gitmodules .dockerignore .editorconfig .env .envrc .npmrc .nvmrc
.prettierrc .eslintrc .babelrc .python-version .tool-versions .flake8 .pylintrc .clang-format .mailmap .bazelrc
""".split()
NAMES = frozenset(_NAMES)
_FOLDERS = """
src lib libs app apps test tests spec specs docs doc scripts script bin cmd internal pkg packages config configs tools
tool examples example public static assets templates migrations components pages server client api core utils common
include services modules plugins fixtures data .github .claude .vscode .circleci deploy deployments infra charts build
dist vendor crates benches benchmarks frontend backend web
""".split()
FOLDERS = frozenset(_FOLDERS)

# Objects whose members look like file endings: `console.log`, `process.env`.
_OBJECTS = frozenset("console process logger log math np os sys self this window document e.g i.e".split())
_MEMBERS = frozenset({"map", "env", "in", "m", "v", "s", "r", "ac", "am", "snap", "log", "mod", "sum"})
_SINGLE = re.compile(r"(?!go\Z)(?:[a-z]\w*[A-Z]\w*|[a-z]{1,7}|[A-Z]\w*[a-z]\w*)\Z")
_VERSION = re.compile(r"v?\d+(?:\.\d+)*")
_PRODUCTS = frozenset(
    """
    github gitlab javascript typescript postgresql mysql sqlite graphql openai youtube linkedin iphone ipad macos ios
    tvos watchos ebay grpc mtls vllm devops devsecops mongodb dynamodb cockroachdb clickhouse elasticsearch opensearch
    rabbitmq webassembly websocket websockets webrtc oauth openid openapi fastapi numpy scipy pytorch tensorflow
    langchain bitbucket circleci sonarqube datadog newrelic launchdarkly pagerduty hubspot salesforce servicenow
    powershell wordpress cloudflare cloudwatch cloudformation cloudfront digitalocean kubernetes jetbrains webstorm
    intellij pycharm vscode xcode testflight appstore playstore latex bibtex markdown huggingface chatgpt codex
    deepmind whatsapp imessage facetime airtable docusign paypal mastercard stackoverflow wikipedia nodejs reactjs
    vuejs nextjs id ids url urls api apis ecommerce saas paas iaas wifi bluetooth ipv4 ipv6 gitops mlops finops
    bigquery redshift snowflake dbeaver
    """.split()
)
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


def find_place(token: str) -> tuple[str, str]:
    """A path without the line behind it, and that line: `a/b.py:12` is `a/b.py` and `12`."""
    match = _PLACE.search(token)
    if match is None or match.start() == 0 or (match[3] and "." not in token[: match.start()]):
        return token, ""
    return token[: match.start()], match[1] or match[2] or match[3]


def is_path(token: str, *, is_code: bool) -> bool:
    """Whether a token is a file's or a folder's name, `:12` taken off."""
    if token == "MEMORY.md":  # the index of this very memory
        return False
    if not token or "://" in token or not _PATH.match(token) or token.strip("./~") == "" or "//" in token:
        return False
    parts = token.rstrip("/").split("/")
    leaf = parts[-1]
    if _MIME.match(token) or (len(parts) > 1 and _DOMAIN.match(parts[0])) or not any(at.isalpha() for at in token):
        return False
    if has_ending(leaf, is_code=is_code and len(parts) == 1) or (
        leaf in NAMES and (is_code or "." in leaf or len(parts) > 1)
    ):
        return is_code or len(parts) > 1 or not _DOT_JS.match(leaf)
    if token.startswith(("./", "../", "~/")):
        return len(token) > 3
    if token.endswith("/"):
        return is_code or len(parts) > 1 or parts[0] in FOLDERS
    if token.startswith("/"):
        return is_code and len(parts) > 2
    return len(parts) > 1 and parts[0] in FOLDERS and (is_code or len(parts) > 2)


def is_weak_path(token: str) -> bool:
    """`owner/name`, `feature/x`, `module/part` in code: a path only if the project says so."""
    return (
        "/" in token
        and not token.startswith(("/", "@"))
        and bool(_PATH.match(token))
        and not _MIME.match(token)
        and "//" not in token
    )


def is_short_path(word: str) -> bool:
    """`bin/tool` in prose: a path only if the project says so, since `client/server` looks the same."""
    first, _, rest = word.partition("/")
    return first in FOLDERS and "/" not in rest and bool(re.fullmatch(r"[\w.-]+", rest))


def has_ending(leaf: str, *, is_code: bool) -> bool:
    """Whether a name ends as files do, and is no member of an object, no version and no abbreviation."""
    stem, _, ending = leaf.rpartition(".")
    if not stem or ending.lower() not in ENDINGS or stem.lower() in _OBJECTS or _VERSION.fullmatch(stem):
        return False
    if ending in _MEMBERS and _SINGLE.fullmatch(stem):
        return False
    return is_code or len(ending) > 1 or len(stem) > 2


def find_path_problem(token: str) -> str:
    """Why a path cannot be looked up in the project, whatever the project."""
    if _PLACEHOLDER.search(token):
        return "a placeholder"
    if token.startswith("~") or _DRIVE.match(token) or token.startswith("%"):
        return "outside the project"
    if _EXAMPLE.search(token):
        return "an example"
    return "outside the project" if ".." in token.split("/") else ""


def looks_like_pattern(token: str) -> bool:
    """`src/*.py`, `<name>/x.json`, `logs/YYYY/`: a path with a hole in it."""
    if not _PLACEHOLDER.search(token) or " " in token or "(" in token or "=" in token:
        return False
    filled = re.sub(r"\*+|\{[^{}]*\}|<[^<>]*>|…|\.\.\.", "x", token)
    return is_path(filled, is_code=True) and not _PLACEHOLDER.search(filled.replace("YYYY", "x"))


def is_identifier(word: str) -> bool:
    """Whether a single word shows by its shape that it is no prose: humps or underscores inside."""
    if word.strip("_$").lower() in _PRODUCTS or len(word) < 3:
        return False
    return bool(_CAMEL.match(word)) or is_snake(word)


def is_plain_camel(word: str) -> bool:
    """`handleAuth`: a small letter first, a hump inside. The only humps that count in prose."""
    return (
        bool(re.match(r"_*[a-z][a-z0-9]*[A-Z]", word))
        and word.lower() not in _PRODUCTS
        and len(word) > 4
        and not re.fullmatch(r"[a-z][A-Z]+s?", word)
    )


def is_snake(word: str) -> bool:
    """Underscores inside, and no number that some database has given out."""
    return bool(_SNAKE.match(word)) and not _SERIAL.search(word)


# --- commands ---
# A command line -> what it names in the project: scripts, targets, modules, files, variables, packages, branches.
#
# A flag counts only where the tool is not a well-known one: git's flags are not the project's. It is read like a shell
# would as far as words, quotes and `&&` go; nothing is expanded, nothing is run.

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
class NamedThing:
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


def read_command(text: str) -> Iterator[NamedThing]:
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


def _read_simple(tokens: Sequence[Token]) -> Iterator[NamedThing]:
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
    taken = {(at.start, at.end) for at in own}
    is_foreign = tool in TOOLS and not any(at.extra.startswith(("module:", "npm:", "script:")) for at in own)
    for token, start, end in tokens:
        if (start, end) in taken or any(start <= at.start < end for at in own):
            continue
        yield from _read_argument(token, start, is_foreign=is_foreign and not _runs_file(tool, tokens))


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
    elif CONSTANT.match(token.strip("${}")) and token.startswith("$"):
        name = token.strip("${}")
        yield NamedThing(ClaimKind.VARIABLE, name, start, start + len(token))


def _runs_file(tool: str, tokens: Sequence[Token]) -> bool:
    """`python tools/x.py --flag`: the flag is the file's."""
    return tool in (*_PYTHONS, "node", "bash", "sh", "ruby", "php", "deno") and any(
        is_path(token, is_code=True) for token, _, _ in tokens[1:3]
    )


def _read_tool(tool: str, tokens: Sequence[Token]) -> Iterator[NamedThing]:
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
            yield NamedThing(ClaimKind.COMMAND, f"{tool} {token}", tokens[0][1], end, f"{_TARGETS[tool]}:{token}")
    elif tool in _RUNNERS:
        yield from _read_runner(tool, tokens[0][1], plain)
    elif tool == "git" and words[1] in _BRANCHED and not {"-b", "-c", "-B", "-C", "--"} & set(words):
        yield from _read_branch(words[1], plain[1:])


def _read_module(tool: str, tokens: Sequence[Token], place: int) -> Iterator[NamedThing]:
    token, _, end = tokens[place]
    if [at for at, _, _ in tokens[place : place + 2]] == ["pip", "install"]:
        yield from _read_packages(tokens[place + 2 :])
    elif _MODULE.match(token):
        yield NamedThing(ClaimKind.COMMAND, f"{tool} -m {token}", tokens[0][1], end, f"module:{token}")


def _read_runner(tool: str, begin: int, plain: Sequence[Token]) -> Iterator[NamedThing]:
    """`uv run x` may be anything that is installed; `poe x` is a task of the project."""
    prefix = "" if tool == "poe" else "run "
    scripts = plain if tool == "poe" else plain[1:] if plain and plain[0][0] == "run" else ()
    for script, _, end in scripts[:1]:
        if _SCRIPT.match(script) and script not in TOOLS and not is_path(script, is_code=True):
            yield NamedThing(
                ClaimKind.COMMAND, f"{tool} {prefix}{script}", begin, end, f"script:{script}", bool(prefix)
            )


def _read_node(tool: str, begin: int, plain: Sequence[Token]) -> Iterator[NamedThing]:
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
        yield NamedThing(ClaimKind.COMMAND, said, begin, script[2], f"npm:{script[0]}", is_weak)


def _read_packages(tokens: Sequence[Token]) -> Iterator[NamedThing]:
    for token, start, _ in tokens:
        match = _PACKAGE.match(token)
        if match and not is_path(token, is_code=True) and "/" not in match[1].removeprefix("@").partition("/")[2]:
            yield NamedThing(ClaimKind.PACKAGE, match[1], start, start + len(match[1]))


def _read_branch(verb: str, plain: Sequence[Token]) -> Iterator[NamedThing]:
    wanted = plain[1:2] if verb in ("push", "pull", "fetch") else plain[:1]
    for token, start, end in wanted:
        if _BRANCH.match(token) and token != "HEAD" and ".." not in token and not is_path(token, is_code=True):
            yield NamedThing(ClaimKind.BRANCH, token.removeprefix("origin/"), start, end)
