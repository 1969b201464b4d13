"""The rules of the house, each seen to fail on a planted breach."""

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import memdir
from loads import ROOT

Sources = Mapping[str, str]

# The reading order: each room imports only rooms before it.
ORDER = """
frozen errors limits records text format format.frontmatter format.age format.index format.clip format.drafts
models.prompts files project project.options project.settings project.git project.paths project.hosts interfaces
interfaces.json_edit interfaces.install guard dream.lock store.secret_text store.secret_rules store.secrets store
store.plan store.rewind store.inbox store.history store.apply store.contract store.memory recall.terms recall.table
project.identity verify.project verify.past conversation conversation.lines conversation.codex conversation.gemini
conversation.tool_calls models.connection models.usage models.openai models.anthropic models.claude_cli models
models.staging conversation.includes conversation.project_files rules.systems language.grammar tongues.english
tongues.german tongues.french tongues.spanish tongues.chinese tongues.japanese ignoring.english ignoring.german
ignoring.french ignoring.spanish ignoring.chinese ignoring.japanese language language.dates language.ignore
rules.english_words rules.english_facts rules.english_asking rules.english_work rules.english_slots
rules.english_manner rules.english_kinds rules.english rules.german rules.french rules.spanish rules.chinese
rules.japanese language.words extraction.provenance extraction.find extraction.word store.sessions store.state
store.files recall.index recall.rank recall.select store.open store.move verify.records verify.shapes verify.claims
verify.lookup recall.reminder conversation.instructions models.agent extraction.by_model extraction verify
dream.grammar dream.logs conversation.notes_file conversation.notes_by_model team.merge team.admit team.git team.state
team.plan recall.find conversation.claude conversation.notes_by_rules recall conversation.transcripts extraction.turns
conversation.notes dream.records dream.duplicates interfaces.chat_commands dream.stale dream.pointers store.batch
team.news team.sync interfaces.doctor interfaces.imports interfaces.import_formats team dream.by_model dream.review
dream.plan dream interfaces.worker session interfaces.tools interfaces.cli interfaces.cli.recall testing __init__
__main__
""".split()
# Libraries that may be imported inside a function, because most runs never need them.
LAZY = {
    "frozen": {"dataclasses"},
    "format.frontmatter": {"yaml"},
    "project.settings": {"pwd", "tomlkit", "tomllib"},
    "project.git": {"subprocess"},
    "project.paths": {"hashlib"},
    "format.drafts": {"hashlib"},
    "store.sessions": {"hashlib"},
    "store.secret_text": {"hashlib"},
    "store.plan": {"hashlib", "memdir.store.secrets"},
    "store.contract": {"memdir.store.batch"},
    "recall.find": {"memdir.store.state"},
    "recall.reminder": {"html", "memdir.verify.records"},
    "store.files": {"memdir.store.state"},
    "store.state": {"pwd"},
    "store.open": {"memdir.store.secrets", "memdir.store.state"},
    "language.ignore": {"memdir.language.ignore"},
    "recall": {"memdir.store.secrets", "memdir.store.state"},
    "recall.select": {"tempfile"},
    "models.connection": {"email.utils"},
    "interfaces.chat_terminal": {"readline"},
    "interfaces.sdk.memory_tool": {"anthropic", "anyio"},
    "interfaces.sdk.claude_agent": {"claude_agent_sdk"},
    "interfaces.sdk.langgraph": {"langgraph"},
    "interfaces.sdk.openai_agents": {"agents"},
    "interfaces.sdk.pydantic_ai": {"pydantic_ai"},
    "__main__": {"memdir.interfaces.chat", "memdir.interfaces.cli", "memdir.interfaces.hooks", "memdir.interfaces.mcp"},
}
# Adapters that are nothing without an SDK of others: what its import prints is not ours, and it takes seconds.
BORROWED = {f"doors.adapters.{name}" for name in ("anthropic", "langgraph", "openai_agents", "pydantic_ai")}
# The only places where `except Exception` may stand.
BROAD = {"interfaces.hooks", "interfaces.worker", "session"}


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
    """Each room once: every rule looks at all of them."""
    return ast.parse(source)


def place_of(module: str) -> int:
    """A room's place in the order; everything below `doors` shares one."""
    return ORDER.index("doors" if module.startswith("doors") else module)


def find_imports(source: str, *, inside: bool = False) -> Iterator[tuple[str, int]]:
    """Modules imported at the top, or inside functions; a type-checking block counts as neither."""
    tree = parse(source)
    tops = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    everywhere = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
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
    """The room behind an import such as memdir.store.plan.FileChange."""
    name = module.removeprefix("memdir.") if module.startswith("memdir.") else ""
    while name and name not in known:
        name = name.rpartition(".")[0]
    return name or None


def imports_going_up(sources: Sources) -> list[str]:
    return [
        f"{module}:{line} imports {own}"
        for module, source in sources.items()
        for imported, line in find_imports(source)
        if (own := find_own(imported, sources)) and own != module
        if place_of(own) > place_of(module) or (place_of(own) == place_of(module) and not module.startswith("doors"))
    ]


def imports_hidden(sources: Sources) -> list[str]:
    return [
        f"{module}:{line} imports {imported} inside"
        for module, source in sources.items()
        for imported, line in find_imports(source, inside=True)
        if not any(imported == name or imported.startswith(f"{name}.") for name in allowed_lazily(module))
    ]


def allowed_lazily(module: str) -> set[str]:
    # A door may load the terminal library, the editor's process and rarely needed rooms when a command needs them.
    return LAZY.get(
        module, {"rich", "subprocess", "memdir", "tempfile", "click", "shutil"} if module.startswith("doors") else set()
    )


def environment_read(sources: Sources) -> list[str]:
    found = []
    for module, source in sources.items():
        for node in ast.walk(parse(source)):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            if name in ("environ", "getenv", "environb") and module != "settings" and isinstance(node, ast.Attribute):
                found.append(f"{module}:{node.lineno} reads the environment")
    return found


def broad_excepts(sources: Sources) -> list[str]:
    return [
        f"{module}:{node.lineno} catches everything"
        for module, source in sources.items()
        if module not in BROAD
        for node in ast.walk(parse(source))
        if isinstance(node, ast.ExceptHandler)
        if node.type is None or (isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException"))
    ]


def doors_meeting(sources: Sources) -> list[str]:
    """Doors do not import doors: `doors.cli.x` may not know `doors.mcp`."""
    return [
        f"{module}:{line} imports {imported}"
        for module, source in sources.items()
        if module.startswith("doors.")
        for inside in (False, True)
        for imported, line in find_imports(source, inside=inside)
        if imported.startswith("memdir.interfaces.cli.") and imported.split(".")[2] != module.split(".")[1]
    ]


RULES: list[tuple[Callable[[Sources], list[str]], str, str]] = [
    (imports_going_up, "index", "from memdir.store.plan import FileChange as Planned\n"),
    (imports_going_up, "errors", "import memdir.limits\n"),
    (imports_hidden, "index", "def f() -> None:\n    from memdir import text\n"),
    (environment_read, "index", "import os\nx = os.environ['HOME']\n"),
    (environment_read, "guard", "import os\nx = os.getenv('HOME')\n"),
    (broad_excepts, "index", "try:\n    x = 1\nexcept Exception:\n    pass\n"),
    (broad_excepts, "index", "try:\n    x = 1\nexcept:\n    pass\n"),
    (doors_meeting, "doors.cli.x", "from memdir.interfaces.mcp import serve\n"),
]


@pytest.mark.parametrize(("rule", "module", "breach"), RULES)
def test_the_rule_holds_and_sees_a_planted_breach(
    rule: Callable[[Sources], list[str]], module: str, breach: str
) -> None:
    sources = read_sources()
    assert rule(sources) == []
    planted = {**sources, module: breach}
    assert len(rule(planted)) >= 1


def test_every_room_has_its_place_in_the_order() -> None:
    assert [name for name in read_sources() if name not in ORDER and not name.startswith("doors")] == []


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


def test_import_memdir_loads_none_of_the_rooms(tmp_path: Path) -> None:
    code = "import sys, memdir; print([name for name in sys.modules if name.startswith('memdir.')])"
    assert run_python(code, tmp_path).stdout == "[]\n"


def test_public_names_are_sorted_few_and_importable() -> None:
    assert memdir.__all__ == sorted(memdir.__all__) and len(memdir.__all__) <= 30
    assert set(memdir.__all__) == set(memdir._HOMES)
    for name in memdir.__all__:
        assert getattr(memdir, name) is not None
    with pytest.raises(AttributeError):
        _ = memdir.nothing_like_this
    assert set(memdir.__all__) <= set(dir(memdir))
