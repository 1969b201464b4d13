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
frozen lazy once errors limits records text tokens loose_json
yaml_subset frontmatter dialects links age
tongues.grammar tongues.english tongues.german tongues.french tongues.spanish tongues.chinese tongues.japanese tongues
shield phrases dates index clip manifest filler drafts prompts
lock small_files events processes detach options settings config_file gitroot claude_settings traces slugs paths guard
agent_places hosts.rows hosts.record hosts.places hosts
installing.json_text installing.toml_text installing.command installing.entries installing.planning
installing installing.plugin
disk
dream_lock secrets.records secrets.folding secrets.likeness secrets.clouds secrets.services secrets.formats
secrets.contexts secrets.prose secrets.scanning secrets secrets.own session kept_dreams kept_chats kept_team authors
store store.plan store.shared store.rewind store.batch store.ledger store.inbox store.acts store.dating
store.database store.history
store.apply store.headers store.contract store.held store.kept store.files store.ram store.lookup store.preview
store.payloads aging
search search.terms search.words search.vectors search.bodies search.postings search.entries search.catalog
search.rank search.floor search.local
identity edits moving opening promoting agents deciding derivable
verify verify.records verify.cached caveats verify.spans verify.shapes verify.commands verify.deadlines verify.claims
verify.project verify.words verify.manifests verify.gitlog verify.successors verify.past verify.ground
verify.path_lookup verify.word_lookup verify.tool_lookup verify.looking verify.verifying
query transcripts.lines transcripts.blocks transcripts.formats transcripts.chain transcripts.claude transcripts.codex
transcripts.gemini transcripts.plain transcripts.listing transcripts shell_words own_writes tool_writes
models.wire models.faults models.watch models.line models.prices models.budget models.usage models.meter models.retry
models.adapting models.anthropic_events models.anthropic models.openai models.claude_cli models
staging tree fork tools operations
project_files.blocks project_files.comments project_files.includes project_files.globs project_files.rules
project_files.secrecy project_files.kinds project_files.loaded project_files.reading project_files.ground
project_files.loading project_files.asking project_files
ignoring.tongue ignoring.english ignoring.german ignoring.french ignoring.spanish ignoring.chinese
ignoring.japanese ignoring.reach ignoring.hearing ignoring
gates reminder recall retelling model_select prefetch guidance instructions prompt_cache
taint.reminders taint.leads taint.frames taint.split taint.claims taint.sources taint
rules.systems rules.tongue rules.english_words rules.english_facts rules.english_asking rules.english_work
rules.english_slots rules.english_manner rules.english_kinds rules.english
rules.german rules.french rules.spanish rules.chinese rules.japanese rules.records rules.sentences rules.passing
rules.plain
rules.naming rules.hearing rules.joining rules.wishing rules.sense rules.merging rules.composing rules
judging cursor scribe extract_gates extracted answered extract runs learning background queue harvest worker
refreshing
tidy.words tidy.quantities tidy.tokens tidy.pieces tidy.shape tidy.facts tidy.records tidy.uniting tidy.duplicates
tidy.contradictions tidy.dates
tidy.expiry tidy.pointers tidy
importing.records importing.piles importing.made importing.markdown importing.claude_code importing.facts
importing.instruction_files importing.codex importing.mcp_memory importing.mem0 importing.chatgpt importing.own
importing.sources importing.matching importing.planning importing.applying importing exporting
daily_log dream_gates
notes.template notes.cutting notes.due notes.place notes.calls notes.lines notes.by_rules notes.by_model
notes.keeping notes
team.units team.merging team.instructing team.arriving team.git team.objects team.remote team.membership team.point
team.ground team.sending team.receiving team.looking team.news team.synced team.telling team.syncing team.reverting
team.entering team.background team
doctor.findings doctor.files doctor.indexes doctor.past doctor.seen_clean doctor.texts doctor.background
doctor.shared doctor.configured doctor
asking answering finding transcript_search
dream.progress dream.sets dream.drifting dream.material dream.overlay dream.hands dream.by_model dream.losses
dream.believing
dream.weighing
dream.planning dream.applying dream chores
conversing.telling conversing.plain conversing.ground conversing.listing conversing.recalling
conversing.asked conversing.shown
conversing.working conversing bench
toolset.table toolset.addresses toolset.arguments toolset.looking toolset.writing toolset
doors
testing
__init__ __main__
""".split()
# Libraries that may be imported inside a function, because most runs never need them.
LAZY = {
    "frozen": {"dataclasses"},
    "yaml_subset": {"yaml"},
    "settings": {"tomllib", "pwd"},
    "config_file": {"tomlkit"},
    "gitroot": {"subprocess"},
    "paths": {"hashlib"},
    "drafts": {"hashlib"},
    "session": {"hashlib"},
    "secrets.likeness": {"hashlib"},
    "store.plan": {"hashlib"},
    "store.shared": {"memdir.secrets"},
    "store.contract": {"memdir.store.batch"},
    "aging": {"memdir.authors"},
    "caveats": {"memdir.verify.cached"},
    "store.files": {"memdir.kept_chats", "memdir.kept_dreams", "memdir.kept_team", "memdir.authors"},
    "authors": {"pwd"},
    "opening": {"memdir.secrets.own", "memdir.authors"},
    "agents": {"memdir.secrets.own"},
    "ignoring": {"memdir.ignoring.hearing"},
    "recall": {"memdir.authors", "memdir.secrets"},
    "search.local": {"tempfile"},
    "reminder": {"html"},
    "models.faults": {"email.utils"},
    "doors.chat.reading": {"readline"},
    "doors.adapters.anthropic": {"anthropic", "anyio"},
    "doors.adapters.claude_agent": {"claude_agent_sdk"},
    "doors.adapters.langgraph": {"langgraph"},
    "doors.adapters.openai_agents": {"agents"},
    "doors.adapters.pydantic_ai": {"pydantic_ai"},
    "__main__": {"memdir.doors.chat", "memdir.doors.cli", "memdir.doors.hooks", "memdir.doors.mcp"},
}
# Adapters that are nothing without an SDK of others: what its import prints is not ours, and it takes seconds.
BORROWED = {f"doors.adapters.{name}" for name in ("anthropic", "langgraph", "openai_agents", "pydantic_ai")}
# The only places where `except Exception` may stand.
BROAD = {"conversing.telling", "doors.hooks", "worker"}


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
    """The room behind an import such as memdir.store.plan.Planned."""
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
        if imported.startswith("memdir.doors.") and imported.split(".")[2] != module.split(".")[1]
    ]


RULES: list[tuple[Callable[[Sources], list[str]], str, str]] = [
    (imports_going_up, "index", "from memdir.store.plan import Planned\n"),
    (imports_going_up, "errors", "import memdir.limits\n"),
    (imports_hidden, "index", "def f() -> None:\n    from memdir import text\n"),
    (environment_read, "index", "import os\nx = os.environ['HOME']\n"),
    (environment_read, "guard", "import os\nx = os.getenv('HOME')\n"),
    (broad_excepts, "index", "try:\n    x = 1\nexcept Exception:\n    pass\n"),
    (broad_excepts, "index", "try:\n    x = 1\nexcept:\n    pass\n"),
    (doors_meeting, "doors.cli.x", "from memdir.doors.mcp import serve\n"),
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
