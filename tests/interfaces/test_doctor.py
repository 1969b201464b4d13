import os
import shutil
from pathlib import Path

from loads import bench
from memdir.interfaces.doctor import LEVELS, count_kinds, examine, repair
from memdir.limits import INDEX_LINE_CHARS, RULES
from memdir.records import Draft, Kind, When
from memdir.store.files import FileStore
from memdir.testing import sample_memory


def put(memory: Path, name: str, text: str) -> None:
    path = memory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def head(kind: str = "user", name: str = "T") -> str:
    return f"---\nname: {name}\ndescription: some words here\ntype: {kind}\n---\n\n"


def test_a_healthy_directory_has_no_findings(memory: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory())
    store.write(
        Draft(Kind.USER, "Role", "A data scientist who reads logs", "See [[Terse replies]] and [[terse_replies]].")
    )
    assert examine(store) == () and sum(count_kinds(()).values()) == 0


def test_each_kind_of_trouble_is_found_where_it_is(memory: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory())
    put(memory, "broken.md", "---\nname: [\n---\nx")
    put(memory, "bare.md", "just text")
    put(memory, "moody.md", head("mood") + "one")
    put(memory, "odd name.md", head() + "two")
    put(memory, "twin.md", head() + "same words")
    put(memory, "twin2.md", head() + "same  words")
    put(memory, "TWIN.md", head() + "other words")
    put(memory, "linker.md", head() + "a [[nowhere]] b `[[code]]`\n")
    os.mkfifo(memory / "pipe.md")
    with (memory / "huge.md").open("wb") as file:
        file.truncate(2_000_000)
    os.mkfifo(memory / ".memdir" / "queue")
    index = (memory / "MEMORY.md").read_text(encoding="utf-8")
    put(memory, "MEMORY.md", index + index + "- [Gone](gone.md)\n" + "x" * 151 + "\n")
    found = {(at.kind, at.where, at.line) for at in examine(store)}
    assert {
        ("broken_frontmatter", "broken.md", None),
        ("broken_frontmatter", "bare.md", None),
        ("unknown_type", "moody.md", None),
        ("bad_name", "odd name.md", None),
        ("duplicate", "twin.md", None),
        ("duplicate", "twin2.md", None),
        ("duplicate", "MEMORY.md", 2),
        ("unresolved_link", "linker.md", 7),
        ("special_file", "pipe.md", None),
        ("oversize_file", "huge.md", None),
        ("dead_pointer", "MEMORY.md", 3),
        ("long_line", "MEMORY.md", 4),
        ("orphan", "twin.md", None),
        ("state_file", ".memdir/queue", None),
    } <= found
    elsewhere = {"oversize_index", "slug_collision", "setting", "history", "dream_lock"}  # further down and next door
    elsewhere |= {"unreadable_settings", "about_person"}
    elsewhere |= {
        "out_of_step",
        "secret",
        "stale",
        "partly_stale",
        "never_recalled",
        "dead_setting",
        "wide_trigger",
        "many_rules",
    }
    elsewhere |= {"queue", "team_sync", "own_sync", "hooks_silent", "hook_problem"}
    assert {kind for kind, _, _ in found} == set(LEVELS) - elsewhere
    assert all(at.fix and at.message and at.level in ("error", "warning", "advice") for at in examine(store))


def test_a_memory_about_a_person_where_others_read_is_told(memory: Path) -> None:
    put(memory, "team/me.md", head() + "He likes tea.\n")
    put(memory, "team/rule.md", head("feedback") + "Tests first.\n")
    put(memory, "mine.md", head() + "He likes coffee.\n")
    found = [(at.where, at.level) for at in examine(FileStore(memory)) if at.kind == "about_person"]
    assert found == [("team/me.md", "warning")]


def test_repair_mends_derived_state_only_and_can_be_undone(memory: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory())
    put(memory, "orphan.md", head() + "lonely")
    put(memory, "MEMORY.md", "# Mine\n\n- [Gone](gone.md) — x\n\nprose stays\n")
    before = {path.name: path.read_bytes() for path in memory.glob("*.md")}
    assert repair(store, examine(store)) == 3
    assert examine(store) == ()
    text = store.index()
    assert text.startswith("# Mine\n") and "prose stays" in text and "gone.md" not in text and "(orphan.md)" in text
    store.undo()
    store.undo()
    assert {path.name: path.read_bytes() for path in memory.glob("*.md")} == before


def test_an_index_over_the_limit_is_told(memory: Path) -> None:
    put(memory, "MEMORY.md", "prose\n" * 201)
    (finding,) = examine(FileStore(memory))
    assert finding.kind == "oversize_index" and "201 lines" in finding.message


def test_a_damaged_history_is_told_and_memories_can_still_be_read(memory: Path) -> None:
    with FileStore(memory) as store:
        store.write(sample_memory())
    for path in (memory / ".memdir").glob("history.db*"):
        path.write_bytes(b"not a database" * 99)
    again = FileStore(memory)
    assert [at.kind for at in examine(again)] == ["history"]
    assert again.read("terse-replies")


def test_the_real_directory_has_long_lines_and_one_open_link_and_nothing_else(tmp_path: Path) -> None:
    memory = tmp_path / "project" / "memory"
    shutil.copytree(bench("realworld_memory", "memory"), memory)
    findings = examine(FileStore(memory))
    lines = (memory / "MEMORY.md").read_text(encoding="utf-8").splitlines()
    long = [number for number, line in enumerate(lines, 1) if len(line) > INDEX_LINE_CHARS]
    assert [at.line for at in findings if at.kind == "long_line"] == long and long
    assert [at.where for at in findings if at.kind == "unresolved_link"] == ["project_settings_surface.md"]
    assert {at.kind for at in findings} == {"long_line", "unresolved_link"}
    assert {at.level for at in findings} == {"advice"}


def test_more_standing_rules_than_conversations_have_are_reported(tmp_path: Path) -> None:
    with FileStore(tmp_path / "memory") as store:
        for number in range(RULES + 2):
            text = f"Rule {number} about answers and what they leave out"
            store.write(Draft(Kind.USER, f"Rule {number}", text, text, f"rule-{number}", when=When(always=True)))
        (finding,) = [one for one in examine(store) if one.kind == "many_rules"]
    assert finding.message.startswith(f"{RULES + 2} standing rules; conversations have {RULES}, without rule-")
