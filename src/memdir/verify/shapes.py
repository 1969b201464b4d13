"""What things look like in text: paths, symbols, constants, flags. Pure, and each rule looks at one token.

In code a token needs less to be taken for something than in prose, where `and/or`, `Node.js` and `GitHub` must not
become paths and symbols. Nothing here knows a project.
"""

import re

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
