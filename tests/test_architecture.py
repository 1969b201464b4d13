"""The rules of the architecture (ARCHITECTURE.md), each seen to fail on a planted breach."""

import ast
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import memdir
from loads import ROOT
from memdir.project.hosts import HOSTS
from tables import read_rows, table

ROWS = read_rows("architecture")

Sources = Mapping[str, str]

# Packages and loose modules in order: each imports only those before it.
ORDER = (
    "frozen errors limits records text files language format project store models verify recall postgres "
    "conversation extraction dream sync operations session interfaces testing __init__ __main__"
).split()
# Own modules that may be imported inside a function: the reason is start-up cost, most runs never need them.
LAZY = {
    "__main__": {"interfaces"},
    "format.frontmatter": {"language"},
    "format.rules": {"language"},
    "conversation.start": {"recall"},
    "conversation.typed": {"language"},
    "store": {"format", "language", "store"},
    "recall": {"recall", "store", "verify"},
    "operations": {"store", "models", "language", "verify", "recall", "extraction", "dream", "sync", "session"},
    "interfaces": set(ORDER),
}
# Libraries that may be imported inside a function, for the same reason.
LAZY_LIBRARIES = set(
    "dataclasses importlib.metadata yaml tomllib tomlkit pwd subprocess hashlib tempfile html email.utils readline rich click shutil "
    "anthropic anyio httpx2 psycopg psycopg_pool starlette jwt asyncio claude_agent_sdk langgraph agents pydantic_ai json sqlite3 mcp uvicorn difflib pyrage re2".split()
)
# Adapters that need an SDK of others: what its import prints is not ours, and it takes seconds.
BORROWED = {f"interfaces.sdk.{name}" for name in ("memory_tool", "langgraph", "openai_agents", "pydantic_ai")} | {
    "recall.encode"
}
# Methods of a store that change memories; interfaces call `operations` instead.
STORE_WRITES = set("write edit delete pin restore undo undo_files change carry_out remember".split())
# The only modules where `except Exception` may stand.
BROAD = {"session", "interfaces.hooks", "interfaces.worker"}
# Modules of a package that only the package itself imports.
INTERNAL = {
    "models": "anthropic openai host_cli",
    "verify": "lookup past project",
    "conversation": " ".join(host.reader for host in HOSTS.values()),
    "extraction": "by_model",
    "dream": "plan review stale",
}
# Modules outside `language` that may hold text in other scripts.
OTHER_SCRIPTS = ROWS["OTHER_SCRIPTS"]
# The size of the whole. Raising a number needs a page in docs/decisions/.
PACKAGES, LOOSE, FILES, LINES, FILE_LINES, SMALL_LINES, LOADED, LOADED_AT_ACTION = ROWS["rows"]


@cache
def read_sources() -> dict[str, str]:
    src = ROOT / "src" / "memdir"
    found = {}
    for path in sorted(src.rglob("*.py")):
        parts = path.relative_to(src).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = path.read_text(encoding="utf-8")
    return found


@cache
def parse(source: str) -> ast.Module:
    return ast.parse(source)


@cache
def walk(source: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parse(source)))


def package_of(module: str) -> str:
    return module.partition(".")[0]


@cache
def find_imports(source: str, *, inside: bool = False) -> tuple[tuple[str, int], ...]:
    """Modules imported at the top, or inside functions; a type-checking block counts as neither."""
    return tuple(list_imports(source, inside=inside))


def list_imports(source: str, *, inside: bool) -> Iterator[tuple[str, int]]:
    tree = parse(source)
    tops = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    everywhere = [node for node in walk(source) if isinstance(node, ast.Import | ast.ImportFrom)]
    guarded = [
        node
        for block in tree.body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING"
        for node in ast.walk(block)
    ]
    for node in [at for at in everywhere if at not in tops and at not in guarded] if inside else tops:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif node.module == "memdir" or (node.module or "").startswith("memdir."):
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)
        else:
            yield node.module or "", node.lineno


def find_own(module: str, known: Sources) -> str | None:
    """The module behind an import such as memdir.store.plan.FileChange."""
    name = module.removeprefix("memdir.") if module.startswith("memdir.") else ""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def find_graph(sources: Sources) -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {module: set() for module in sources}
    for module, source in sources.items():
        for imported, _ in find_imports(source):
            own = find_own(imported, sources)
            if own and own != module:
                graph[module].add(own)
    return graph


def modules_outside_the_order(sources: Sources) -> list[str]:
    return [f"{module} is in no package of the order" for module in sources if package_of(module) not in ORDER]


def imports_going_up(sources: Sources) -> list[str]:
    return [
        f"{module} imports {own}"
        for module, others in find_graph(sources).items()
        for own in others
        if ORDER.index(package_of(own)) > ORDER.index(package_of(module))
    ]


def cycles(sources: Sources) -> list[str]:
    """Modules that import each other, found by taking away modules that import nothing of what is left."""
    graph = find_graph(sources)
    while free := [module for module, others in graph.items() if not others & graph.keys()]:
        for module in free:
            del graph[module]
    return [f"{module} is part of an import cycle" for module in graph if any(module in at for at in graph.values())]


def imports_hidden(sources: Sources) -> list[str]:
    found = []
    for module, source in sources.items():
        allowed = LAZY.get(module, LAZY.get(package_of(module), set()))
        for imported, line in find_imports(source, inside=True):
            own = find_own(imported, sources)
            if own or imported.startswith("memdir"):
                fits = own is None or package_of(own) in allowed
            else:
                fits = any(imported == name or imported.startswith(f"{name}.") for name in LAZY_LIBRARIES)
            if not fits:
                found.append(f"{module}:{line} imports {imported} inside a function")
    return found


def environment_read(sources: Sources) -> list[str]:
    return [
        f"{module}:{node.lineno} reads the environment"
        for module, source in sources.items()
        if module not in ("project.settings", "__main__")  # the end of a turn is kept before anything is imported
        for node in walk(source)
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb")
    ]


def stores_written_to(sources: Sources) -> list[str]:
    """Find interfaces that write to a store themselves, by the name of the object that they call."""
    return [
        f"{module}:{node.lineno} writes to a store outside operations"
        for module, source in sources.items()
        if package_of(module) in ("interfaces", "session")
        for node in walk(source)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in STORE_WRITES
        if re.search(r"(?:store|private|user|project|source|target)\Z", ast.unparse(node.func.value))
    ]


def broad_excepts(sources: Sources) -> list[str]:
    return [
        f"{module}:{node.lineno} catches everything"
        for module, source in sources.items()
        if module not in BROAD
        for node in walk(source)
        if isinstance(node, ast.ExceptHandler)
        if node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))
    ]


def class_names_used_twice(sources: Sources) -> list[str]:
    homes = defaultdict(list)
    for module, source in sources.items():
        for node in parse(source).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module)
    return [f"class {name} is defined in {', '.join(modules)}" for name, modules in homes.items() if len(modules) > 1]


def gerunds(sources: Sources) -> list[str]:
    stems = (module.rpartition(".")[2] for module in sources)
    return [f"module {stem} ends in -ing" for stem in stems if stem.endswith("ing") and stem != "testing"]


def internals_imported(sources: Sources) -> list[str]:
    return [
        f"{module} imports {own}, which is internal to its package"
        for module, source in sources.items()
        for inside in (False, True)
        for imported, _ in find_imports(source, inside=inside)
        if (own := find_own(imported, sources)) and package_of(own) != package_of(module)
        if own.partition(".")[2] in INTERNAL.get(package_of(own), "").split()
    ]


def too_many(sources: Sources) -> list[str]:
    """Packages, loose modules, files in all, lines in all, each with its budget."""
    loose = [module for module in sources if "." not in module and is_leaf(module, sources)]
    packages = {package_of(module) for module in sources if "." in module}
    counts = [
        ("packages", len(packages), PACKAGES),
        ("loose modules", len(loose), LOOSE),
        ("files", len(sources), FILES),
        ("lines", sum(source.count("\n") for source in sources.values()), LINES),
    ]
    return [f"{what}: {count}, at most {most}" for what, count, most in counts if count > most]


def is_leaf(module: str, sources: Sources) -> bool:
    return not any(other.startswith(f"{module}.") for other in sources)


def files_too_long(sources: Sources) -> list[str]:
    lengths = ((module, source.count("\n")) for module, source in sources.items())
    return [f"{module} has {length} lines" for module, length in lengths if length > FILE_LINES]


def small_modules_with_one_importer(sources: Sources) -> list[str]:
    importers = Counter(own for others in find_graph(sources).values() for own in others)
    return [
        f"{module} is small and has one importer: it belongs there"
        for module, source in sources.items()
        if is_leaf(module, sources) and source.count("\n") < SMALL_LINES and importers[module] == 1
    ]


def scripts_of_languages(sources: Sources) -> list[str]:
    """Ranges of scripts and words in them belong to `language`; typographic signs and symbols may stand anywhere."""
    return [
        f"{module}:{node.lineno} has text of a language: {found[0]!r}"
        for module, source in sources.items()
        if package_of(module) != "language" and module not in OTHER_SCRIPTS
        for node in walk(source)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if (found := re.findall(r"[\u0400-\u04ff\u3041-\u30ff\u4e00-\u9fff\uac00-\ud7af]", node.value))
    ]


def stores_told_by_type(sources: Sources) -> list[str]:
    """What a store can do is a method of StoreReader or a protocol of `store.contract`, never its class or an attribute."""
    calls = [
        (module, node)
        for module, source in sources.items()
        if package_of(module) != "store"
        for node in walk(source)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1
    ]
    return [
        f"{module}:{node.lineno} asks what kind of store it has"
        for module, node in calls
        for name, first, second in [(ast.unparse(node.func), ast.unparse(node.args[0]), ast.unparse(node.args[1]))]
        if (name == "isinstance" and re.search(r"\b(File|Memory|Postgres)Store\b", second))
        or (name in ("getattr", "hasattr") and re.search(r"(^|[._])(store|stores\[\d\]|owner)$", first))
    ]


def names_beyond_the_contract(sources: Sources) -> list[str]:
    """Find public methods and attributes of stores that no class of the contract has."""

    def list_names(node: ast.ClassDef) -> Iterator[str]:
        for inner in ast.walk(node):
            if isinstance(inner, ast.FunctionDef) and inner in node.body:
                yield inner.name
            if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name) and inner in node.body:
                yield inner.target.id
            if (
                isinstance(inner, ast.Attribute)
                and isinstance(inner.ctx, ast.Store)
                and ast.unparse(inner.value) == "self"
            ):
                yield inner.attr

    def list_classes(*modules: str) -> list[ast.ClassDef]:
        return [node for module in modules for node in parse(sources[module]).body if isinstance(node, ast.ClassDef)]

    known = {name for node in list_classes("store.contract", "store.inbox") for name in list_names(node)}
    return [
        f"{node.name}.{name} is not in the contract of a store"
        for node in list_classes("store.files", "store.memory", "postgres.store")
        if any(ast.unparse(base) == "StoreBase" for base in node.bases)
        for name in list_names(node)
        if not name.startswith("_") and name not in known
    ]


RULES: list[tuple[Callable[[Sources], list[str]], str, str]] = [
    (modules_outside_the_order, "rooms.index", ""),
    (imports_going_up, "format.index", "from memdir.store.plan import FileChange\n"),
    (imports_going_up, "errors", "import memdir.limits\n"),
    (cycles, "frozen", "from memdir import records\n"),
    (imports_hidden, "format.index", "def f() -> None:\n    from memdir import text\n"),
    (imports_hidden, "format.index", "def f() -> None:\n    import numpy\n"),
    (environment_read, "format.index", "import os\nx = os.environ['HOME']\n"),
    (environment_read, "files", "import os\nx = os.getenv('HOME')\n"),
    (stores_written_to, "interfaces.tools", "def f(x: object) -> None:\n    x.store.write(x)\n"),
    (stores_written_to, "session", "def f(x: object) -> None:\n    x.project.private.undo()\n"),
    (broad_excepts, "format.index", "try:\n    x = 1\nexcept Exception:\n    pass\n"),
    (broad_excepts, "format.index", "try:\n    x = 1\nexcept:\n    pass\n"),
    (class_names_used_twice, "format.index", "class Draft:\n    pass\n"),
    (gerunds, "format.indexing", ""),
    (internals_imported, "conversation.notes", "from memdir.verify.lookup import look_up\n"),
    (too_many, "format.index", "x = 1\n" * LINES),
    (too_many, "another", ""),
    (files_too_long, "format.index", "x = 1\n" * (FILE_LINES + 1)),
    (stores_told_by_type, "recall.find", "x = isinstance(store, FileStore)\n"),
    (stores_told_by_type, "recall.find", "x = isinstance(self.store, Project | PostgresStore)\n"),
    (stores_told_by_type, "recall.find", "x = getattr(self.store, 'root', None)\n"),
    (
        names_beyond_the_contract,
        "store.memory",
        "class M(StoreBase):\n    def look(self) -> None:\n        self.x = 1\n",
    ),
    (scripts_of_languages, "format.index", "x = '\u4e00'\n"),
]


@table("rule module breach", RULES)
def test_the_rule_holds_and_sees_a_planted_breach(
    rule: Callable[[Sources], list[str]], module: str, breach: str
) -> None:
    assert find_breaches(rule) == []
    assert rule({**read_sources(), module: breach}) != []


@cache
def find_breaches(rule: Callable[[Sources], list[str]]) -> list[str]:
    return rule(read_sources())


def test_a_small_module_with_one_importer_is_seen() -> None:
    sources = read_sources()
    assert small_modules_with_one_importer(sources) == []
    planted = {**sources, "format.tiny": "x = 1\n", "format.index": "from memdir.format.tiny import x\n"}
    assert "format.tiny" in " ".join(small_modules_with_one_importer(planted))


def test_a_save_and_each_hook_load_few_modules(tmp_path: Path) -> None:
    (tmp_path / ".claude" / "memory").mkdir(parents=True)
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")}
    words = ["--type", "project", "--name", "n", "--description", "Deploys happen on Tuesdays only", "--body", "Yes."]
    event = {"session_id": "s", "cwd": str(tmp_path), "prompt": "when do we deploy?", "transcript_path": "t.jsonl"}
    tool: dict[str, object] = {"tool_name": "Bash", "tool_input": {"command": "git push --force"}}
    given = json.dumps({**event, **tool})
    for verb, module in (
        (["save", *words], "language.dates"),
        (["hook", "user-prompt"], "recall.pipeline"),
        (["hook", "session-start"], "conversation.instructions"),
        (["hook", "session-end"], "store.sessions"),
        (["hook", "before-tool"], "recall.triggers"),
    ):
        command = [sys.executable, "-X", "importtime", "-m", "memdir", *verb]
        done = subprocess.run(command, cwd=tmp_path, env=env, input=given, capture_output=True, encoding="utf-8")
        assert done.returncode == 0, done.stderr[-500:]
        times = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
        loaded = {line.rpartition("|")[2].strip() for line in times}
        ours = sorted(name for name in loaded if name == "memdir" or name.startswith("memdir."))
        most = LOADED_AT_ACTION if "before-tool" in verb else LOADED
        assert f"memdir.{module}" in ours and len(ours) <= most, f"{verb[:2]} {len(ours)}: {' '.join(ours)}"


def run_python(code: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "HOME": str(cwd), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, encoding="utf-8", check=True)


def test_importing_is_quiet(tmp_path: Path) -> None:
    names = [name for name in read_sources() if name not in ("__init__", "__main__") and name not in BORROWED]
    loud = "print('x'); open('made', 'w', encoding='utf-8').close()"
    for code, quiet in ((f"import memdir, {', '.join(f'memdir.{name}' for name in names)}", True), (loud, False)):
        done = run_python(code, tmp_path)
        assert (done.stdout + done.stderr == "" and list(tmp_path.iterdir()) == []) is quiet


def test_import_memdir_loads_no_other_module(tmp_path: Path) -> None:
    code = "import sys, memdir; print([name for name in sys.modules if name.startswith('memdir.')])"
    assert run_python(code, tmp_path).stdout == "[]\n"


def test_public_names_are_sorted_few_and_importable() -> None:
    assert memdir.__all__ == sorted(memdir.__all__) and len(memdir.__all__) <= 31
    assert set(memdir.__all__) == set(memdir._HOMES)
    for name in memdir.__all__:
        assert getattr(memdir, name) is not None
    with pytest.raises(AttributeError):
        _ = memdir.nothing_like_this
    assert set(memdir.__all__) <= set(dir(memdir))
