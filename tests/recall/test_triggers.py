"""Which memories an action calls for: the triggers of a memory, the literals that are tested first, and what matches."""

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memdir.errors import FormatError
from memdir.format.when import compile_expression
from memdir.limits import ACTION_CHARS
from memdir.recall.select import LocalSearch
from memdir.recall.triggers import (
    Action,
    LeadingMemory,
    PromptRanking,
    Trigger,
    TriggerMatch,
    find_candidates,
    find_literals,
    find_matches,
    list_triggers,
    match_triggers,
    note_frequent,
    read_frequent,
    render_glob,
)
from memdir.records import Scope, When
from memdir.store.files import FileStore
from memdir.store.state import PurgedMemory, purge_state
from search_stores import write_memory
from tables import table


def derive(text: str) -> set[tuple[str, str]]:
    return {(trigger.kind, trigger.pattern) for trigger in list_triggers(When(), text)}


@table(
    "text triggers",
    [
        ("`sync_all()` in `src/ledger/sync.py` locks first", {("name", "sync_all"), ("file", "src/ledger/sync.py")}),
        ("never `Process.sleep` in tests", {("name", "Process.sleep")}),
        ("`Clock.advance/1` moves the clock", {("name", "Clock.advance")}),
        ("use `npm ci --prefer-offline`", {("program", "npm ci --prefer-offline")}),
        ("`--no-verify` hid a failure", {("program", "--no-verify")}),
        ("the `delay` is in seconds, `true` or `user`", set()),
        ("`<name>.json` and `src/*.py` are patterns", set()),
        ("see `/etc/hosts` and `~/.ssh/config`", set()),
        ("every reserve_lane_metres() call and booking/forms.py", {("name", "reserve_lane_metres"), ("file", "booking/forms.py")}),
        ("GitHub, JavaScript and PostgreSQL are fine, e.g. at 10.30", set()),
        ("keep it short; ask before deploys", set()),
    ],
)  # fmt: skip
def test_derived_triggers_are_few_and_precise(text: str, triggers: set[tuple[str, str]]) -> None:
    assert derive(text) == triggers


def test_written_triggers_replace_derived_ones_and_always_does_not() -> None:
    text = "`sync_all` must lock"
    assert {trigger.kind for trigger in list_triggers(When(paths=("a/*.py",)), text)} == {"paths"}
    assert {trigger.kind for trigger in list_triggers(When(always=True), text)} == {"name"}


@table(
    "pattern literals",
    [
        ("push.*--force", {"--force"}), (r"push\b.*(--force|-f)\b", {"push"}), (r"(?i)SELECT \*", {"select *"}),
        ("a?b*cde+fg", {"cd"}), ("x{0,2}yz", {"yz"}), ("(abc)?def", {"def"}), ("(?:ab|cd)ef|gh", {"ef", "gh"}),
        ("[abc]+", set()), ("foo|", set()), (r"\x41bc", {"abc"}), (r"\Qabc\E", set()), ("(a(b", set()), ("", set()), ("a", set()),
        (r"IO\.ANSI\.(red|green)", {"io.ansi."}), ("(?P<x>drop) table", {" table"}), (r"\p{Lu}abc", set()),
    ],
)  # fmt: skip
def test_literals_are_in_every_match_or_unknown(pattern: str, literals: set[str]) -> None:
    assert set(find_literals(pattern)) == literals


EXPRESSIONS = (
    "push.*(--force|-f)", "a+b?c*d", "(ab|cd)(ef)?g{2,3}", "x(y|z)*w", r"def \w+\(", "[^a]bc|de", "(?:(ab)|c)d", "a|b|cc",
)  # fmt: skip


def test_no_expression_is_missed_for_lack_of_a_literal() -> None:
    texts = [
        "push -f",
        "PUSH x --force",
        "abcd",
        "acd",
        "ad",
        "abefgg",
        "cdggg",
        "xw",
        "xyzw",
        "def f(",
        "xbc",
        "de",
        "abd",
        "cd",
        "b",
        "cc",
    ]
    for pattern in EXPRESSIONS:
        for text in texts:
            if re.search(pattern, text, re.IGNORECASE):
                literals = find_literals(pattern)
                assert not literals or any(literal in text.lower() for literal in literals), (pattern, text)


@table(
    "glob path matches",
    [
        ("src/**/*.sql", "src/a/b/x.sql", True), ("src/**/*.sql", "src/x.sql", True), ("src/*.sql", "src/a/x.sql", False),
        ("**/migrations/**", "a/migrations/0001.py", True), ("*.md", "docs/a.md", False), ("docs/", "docs/a/b.md", True),
        ("docs/{a,b}.md", "docs/b.md", True), ("x[0-9].py", "x1.py", True), ("x[!0-9].py", "x1.py", False),
        ("a?c.py", "abc.py", True), ("./src/a.py", "src/a.py", True), ("../secret/*", "secret/x", False), ("src/a+b.py", "src/a+b.py", True),
        ("**/../../etc/*", "etc/passwd", False), ("{a", "{a", True), ("[a", "[a", True),
        ("**/Ingest/**/*.cs", "src/Scada.Ingest/Hot/Key.cs", True), ("**/Ingest/*.cs", "src/Ingestion/Key.cs", False),
        ("guider/**", "crates/guider/src/lib.rs", True), ("**/Alarm*/**", "config/alarms/hilltop.json", True),
    ],
)  # fmt: skip
def test_globs(glob: str, path: str, matches: bool) -> None:
    assert bool(compile_expression(render_glob(glob), ignores_case=True).fullmatch(path)) is matches
    trigger = Trigger("paths", "\n".join(find_literals(glob, is_glob=True)), glob)
    assert bool(match_triggers([trigger], Action((path,)))) is matches


@table(
    "trigger action matches",
    [
        (Trigger("commands", "push", "push.*--force"), Action(command="git PUSH origin --Force"), True),
        (Trigger("content", "select *", r"SELECT \*"), Action(text="select * from x"), False),
        (Trigger("content", "select *", r"SELECT \*"), Action(text="q = 'SELECT * from x'"), True),
        (Trigger("content", "todo", "TODO"), Action(command="cat > x <<EOF\nTODO\nEOF"), True),
        (Trigger("content", "todo", "TODO"), Action(replaced="TODO"), False),
        (Trigger("name", "sync_all", "sync_all"), Action(replaced="sync_all()"), True),
        (Trigger("name", "delete_all", "Repo.delete_all"), Action(text="Repo.delete_all(x)"), True),
        (Trigger("name", "delete_all", "Repo.delete_all"), Action(text="Other.delete_all(x)"), False),
        (Trigger("file", "sync.py", "ledger/sync.py"), Action(("src/ledger/sync.py",)), True),
        (Trigger("file", "sync.py", "ledger/sync.py"), Action(command="pytest ./ledger/sync.py -x"), True),
        (Trigger("file", "sync.py", "ledger/sync.py"), Action(("src/other/sync.py",)), False),
        (Trigger("program", "--prefer-offline", "npm ci --prefer-offline"), Action(command="cd a && npm ci --prefer-offline"), True),
        (Trigger("program", "--prefer-offline", "npm ci --prefer-offline"), Action(command="npm ci"), False),
        (Trigger("content", "", "("), Action(text="("), False),
        (Trigger("commands", "", ".*"), Action(command="ls"), False),
        (Trigger("paths", "", "**"), Action(("a.py",)), False),
    ],
)  # fmt: skip
def test_what_matches(trigger: Trigger, action: Action, matches: bool) -> None:
    assert bool(match_triggers([trigger], action)) is matches


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "memory")


def refresh(store: FileStore) -> Path:
    with LocalSearch([store]) as search:
        search.refresh()
    index = store.find_index_file()
    assert index is not None
    return index


def test_the_table_follows_the_files(store: FileStore) -> None:
    write_memory(store.root, "one", "uses `sync_all` here")
    write_memory(store.root, "two", "about something else")
    action = Action(text="sync_all()")
    assert [match.name for match in find_matches(refresh(store), action)] == ["one"]
    write_memory(store.root, "one", "uses `sync_some` here")
    assert find_matches(refresh(store), action) == []
    assert [match.name for match in find_matches(refresh(store), Action(text="sync_some()"))] == ["one"]
    (store.root / "one.md").unlink()
    assert find_matches(refresh(store), Action(text="sync_some()")) == []


def test_a_name_that_many_memories_use_is_no_trigger(store: FileStore) -> None:
    for number in range(4):
        write_memory(store.root, f"m{number}", "about `user_id`")
    assert find_matches(refresh(store), Action(text="user_id = 1")) == []


def test_a_table_that_is_missing_broken_or_older_matches_nothing(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"x" * 5_000)
    (tmp_path / "empty.db").touch()
    for name in ("none.db", "broken.db", "empty.db"):
        assert find_matches(tmp_path / name, Action(command="git push", text="x")) == []


def make_hostile() -> list[str]:
    parts = [
        "(a*)*b",
        "(a+)+$",
        "(.*a){20}b",
        "(a|b|ab)*c",
        ".*.*.*=.*",
        "(x+x+)+y",
        "(a?){40}a{40}",
        "(.|\\n)*x",
        "(?:a|aa)+b",
        ".{60}x",
    ]
    return [f"{part}{number % 7 * 'z?'}" for number in range(20) for part in parts]


def test_no_hostile_expression_slows_an_action(store: FileStore) -> None:
    hostile = make_hostile()
    assert len(hostile) == 200
    for number in range(0, 200, 8):
        path = write_memory(store.root, f"h{number}", "text")
        when = f"when: {json.dumps({'content': hostile[number : number + 8]})}\n"
        path.write_text(path.read_text(encoding="utf-8").replace("metadata:", f"{when}metadata:"), encoding="utf-8")
    index, action = refresh(store), Action(("a.py",), text="a" * 10 * ACTION_CHARS, is_write=True)
    start = time.process_time()
    assert find_matches(index, action)  # they were tried
    assert time.process_time() - start < 2.0  # a backtracking engine would need years


def test_an_expression_that_needs_much_memory_is_refused_when_it_is_written() -> None:
    with pytest.raises(FormatError, match="too large"):
        compile_expression("(\\pL|\\pN){200}" * 10)


def test_triggers_that_fire_in_more_than_one_of_twenty_turns_need_words_that_agree(store: FileStore) -> None:
    write_memory(store.root, "wide", "about `run_all`")
    write_memory(store.root, "narrow", "about `run_once`")
    turns = (
        [[Action(text="run_all()"), Action(text="run_all()")]] * 3
        + [[Action(text="run_once()")]] * 2
        + [[Action(text="x")]] * 35
    )
    note_frequent(store.state, refresh(store), turns, datetime(2026, 5, 1, tzinfo=UTC))
    frequent = read_frequent(store.state)
    assert frequent == {("wide", "run_all")}
    action = Action(text="run_all(run_once)", is_write=True)
    matches = [(Scope.PRIVATE, match) for match in find_matches(refresh(store), action)]
    assert [candidate.name for candidate in find_candidates(matches, PromptRanking(), action, frequent)] == ["narrow"]
    purge_state(store.state, (), PurgedMemory("wide"))
    assert read_frequent(store.state) == frozenset()


def evidence(
    rank: int, kind: str = "", pattern: str = "x.py", words: str = "", doubt: float = 0.0, **values: object
) -> bool:
    leaders = [LeadingMemory(Scope.PRIVATE, f"other-{number}", {}) for number in range(rank - 1)]
    leaders.append(LeadingMemory(Scope.PRIVATE, "it", dict.fromkeys(words.split(), 0.9)))
    matches = [(Scope.PRIVATE, TriggerMatch("it", (Trigger(kind, "", pattern),)))] if kind else []
    action = Action(**{"is_write": True, **values})  # type: ignore[arg-type]
    return bool(find_candidates(matches, PromptRanking("t", tuple(leaders), doubt), action))


def test_evidence_must_be_the_stronger_the_worse_the_rank() -> None:
    assert evidence(1, "paths", "src/cart.py") and not evidence(3, "paths", "src/cart.py")
    assert not evidence(1, "paths", "src/**/*.py") and not evidence(1, "paths", "src/**/*.py", is_write=False)
    assert evidence(6, "commands") and not evidence(7, "commands")
    assert evidence(16, "name") and evidence(8, "name", doubt=2.0) and not evidence(9, "name", doubt=2.0)
    assert evidence(1, words="lock ledger", text="ledger.lock()")
    assert not evidence(1, words="lock ledger", text="ledger")
    assert not evidence(9, words="lock ledger", text="ledger.lock()")
    assert evidence(4, "paths", "src/cart.py", words="lock ledger", text="ledger.lock()")
    assert not evidence(1, words="lock ledger", text="ledger.lock()", is_write=False)
