"""What each event of a host is answered, by the real process."""

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from clihelp import memory_text
from homes import git
from hook_calls import Hooks, wait_for_worker, wait_until
from memdir.interfaces.hooks import HookReply, render_line, render_reply
from memdir.limits import HOOK_INDEX_CHARS, HOOK_TOKENS
from memdir.project.hosts import CLAUDE_CODE, CODEX, COPILOT, GEMINI, HOSTS, HookEvent, find_event, find_host
from memdir.project.paths import MEMBERSHIP, slug
from memdir.recall.index import LARGE
from memdir.recall.reminder import measure_reply
from memdir.store.sessions import SessionFile, read_queue
from memdir.store.state import RECORD, read_events, read_problems, write_table
from memdir.sync.state import TeamNews, add_news
from memdir.text import estimate_tokens
from note_taker import serve_note_taker
from search_stores import write_memory

TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"[:36]


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    hooks = Hooks(tmp_path, MEMDIR_MODEL="none")
    hooks.cli.save("deploy-steps", "Deploys go through the staging cluster on Fridays.", "--type", "project")
    return hooks


def test_a_prompt_is_answered_with_the_memory_that_fits_and_an_unrelated_one_with_nothing(hooks: Hooks) -> None:
    told = hooks("user-prompt", prompt="No deploy-steps reply should end with a summary, right?")
    path = hooks.cli.memory / "deploy-steps.md"
    assert "staging cluster" in told.context and f"~/{path.relative_to(hooks.cli.home)}:" in told.context
    assert told.table["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
    assert hooks("user-prompt", session="s-2", prompt="Which paint is best for a wooden boat?").out == b""


def test_the_memory_is_that_of_the_project_the_host_was_started_in(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path)
    hooks.cli.variables["CLAUDE_PROJECT_DIR"] = str(hooks.cli.project)
    hooks.cli.save("deploy-steps", "Deploys go through the staging cluster.", "--type", "project")
    told = hooks("user-prompt", prompt="The deploy-steps summary at the end of a reply?", cwd=str(tmp_path))
    assert "staging cluster" in told.context


def test_where_memory_is_off_or_memdir_started_the_host_nothing_happens(tmp_path: Path) -> None:
    for variables in ({"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}, {"MEMDIR_INSIDE": "1"}):
        hooks = Hooks(tmp_path / next(iter(variables)))
        hooks.cli.save("deploy-steps", "Deploys go through the staging cluster.", "--type", "project")
        hooks.cli.variables.update(variables)
        assert hooks("user-prompt", prompt="The deploy-steps summary at the end of a reply?").out == b""
        assert hooks("stop", transcript_path=str(hooks.transcript("Hello"))).out == b""
        assert read_queue(hooks.state) == () and read_events(hooks.state) == ()


def test_a_host_that_loads_the_index_itself_is_not_sent_it_again(hooks: Hooks) -> None:
    hooks.cli(
        "save",
        "--type",
        "feedback",
        "--name",
        "tea",
        "--description",
        "Where green tea and black coffee are kept",
        "--body",
        "Tea.",
        "--scope",
        "user",
    )
    own, other = hooks("session-start", source="startup"), hooks("session-start", host="codex", source="startup")
    assert "deploy-steps.md" not in own.context and "tea.md" in own.context
    assert "deploy-steps.md" in other.context and "tea.md" in other.context and "memdir recall" in other.context


def test_an_index_in_any_script_stays_within_the_tokens_of_an_answer(hooks: Hooks) -> None:
    for number in range(180):
        (hooks.cli.memory / f"n{number}.md").write_text(memory_text(f"N{number}"), encoding="utf-8")
    lines = [f"- [{number}](n{number}.md) — 部署步骤说明与发布流程的详细记录以及负责人" for number in range(180)]
    (hooks.cli.memory / "MEMORY.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    told = hooks("session-start", host="codex", source="startup").context
    assert "(n0.md)" in told and "more lines in MEMORY.md" in told
    assert measure_reply(told) <= HOOK_INDEX_CHARS and estimate_tokens(told) <= HOOK_TOKENS


def test_the_index_is_sent_where_the_host_uses_another_directory_and_only_there(hooks: Hooks) -> None:
    settings = hooks.cli.project / ".claude" / "settings.json"
    settings.parent.mkdir()
    own = hooks.cli.home / ".claude" / "settings.json"
    own.parent.mkdir(parents=True, exist_ok=True)
    # The host refuses this one as well, and both go on to the same directory.
    own.write_text('{"autoMemoryDirectory": "relative/path"}', encoding="utf-8")
    assert "deploy-steps.md" not in hooks("session-start", source="startup").context
    settings.write_text('{"autoMemoryDirectory": "~/theirs"}', encoding="utf-8")
    assert "deploy-steps.md" in hooks("session-start", source="startup").context


def test_a_worktree_with_a_memory_of_its_own_is_sent_its_index(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path, MEMDIR_WORKTREE="own")
    other = tmp_path / "other"
    git(hooks.cli.project, "init", "-q")
    git(hooks.cli.project, "commit", "-q", "--allow-empty", "-m", "first")
    git(hooks.cli.project, "worktree", "add", str(other))
    memory = hooks.cli.home / ".claude" / "projects" / slug(os.path.realpath(other)) / "memory"
    memory.mkdir(parents=True)
    (memory / "tea.md").write_text(memory_text("Tea"), encoding="utf-8")
    (memory / "MEMORY.md").write_text("- [Tea](tea.md) — with milk\n", encoding="utf-8")
    assert "with milk" in hooks("session-start", source="startup", cwd=str(other)).context
    assert "with milk" not in hooks("session-start", source="startup").context


def test_what_came_from_the_team_is_told_once(hooks: Hooks) -> None:
    hooks.cli.variables["MEMDIR_TEAM"] = "true"
    write_table(hooks.state, MEMBERSHIP, {"remote": "/nowhere", "branch": "memdir/team"})
    now = datetime.fromisoformat(hooks.cli.environ()["MEMDIR_NOW"])
    write_table(hooks.state, RECORD, {"at": now.isoformat()})
    add_news(hooks.state, [TeamNews("ferry", "added", "Ada", "It leaves at six", now)])
    told = hooks("session-start", source="startup")
    assert "ferry" in told.message and "It leaves at six" in told.message and "six" not in told.context
    assert hooks("session-start", source="startup").message == ""


def test_the_first_start_says_that_memory_is_on_and_that_nothing_was_decided_about_a_model(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path)
    for host, model in (("claude-code", "claude-cli"), ("codex", "codex-cli"), ("gemini-cli", "gemini-cli")):
        first, told = hooks("session-start", host=host, source="startup").message.split("\n")
        assert first.startswith("memdir is on, with ") and f"config set model {model}`" in told and len(told) < 300
    quiet = [("claude-code", "resume"), ("claude-code", "compact"), ("codex", "clear")]
    for host, source in quiet:
        assert hooks("session-start", host=host, source=source).message == "", (host, source)
    assert hooks.cli("config", "set", "model", "none").code == 0
    assert hooks("session-start", source="startup").message == ""


def test_a_start_tells_what_went_wrong_since_the_last_and_only_once(hooks: Hooks) -> None:
    hooks("session-start", source="startup")
    hooks.cli.variables["MEMDIR_NOW"] = "2026-03-05T12:00:01+00:00"
    bad = hooks.cli.real("hook", "user-prompt", given=b"{no json")
    assert (bad.code, bad.data) == (0, b"")
    # It happened before any place was known: it is kept with the person, and told in whatever project comes next.
    hooks.cli.variables["MEMDIR_NOW"] = "2026-03-05T12:00:02+00:00"
    told = hooks("session-start", source="startup")
    assert "not a JSON object" in told.message and "memdir doctor" in told.message
    hooks.cli.variables["MEMDIR_NOW"] = "2026-03-05T12:00:03+00:00"
    assert hooks("session-start", source="startup").message == ""


def test_settings_that_cannot_be_read_are_told_at_the_start_and_fail_nothing(hooks: Hooks) -> None:
    config = hooks.cli.home / ".config" / "memdir" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("recall = [", encoding="utf-8")
    assert "is not valid TOML" in hooks("session-start", source="startup").message
    assert hooks("user-prompt", prompt="What about the deploy steps?").out == b""
    assert hooks("stop", transcript_path="/nowhere").out == b""


def test_what_was_left_in_the_queue_is_taken_up_at_the_next_start(hooks: Hooks) -> None:
    path = hooks.transcript("Remember that invoices are sent on the third of each month.", "Noted.")
    hooks("session-end", transcript_path=str(path))
    assert len(read_queue(hooks.state)) == 1
    hooks("session-start", session="s-2", source="startup")
    wait_for_worker(hooks.state)
    assert any("third of each month" in path.read_text(encoding="utf-8") for path in hooks.cli.memory.glob("*.md"))


def test_what_a_dream_merged_and_how_to_undo_it_is_told_at_the_next_start(hooks: Hooks) -> None:
    for name in ("gate", "gate-too"):
        more = ("--type", "project", "--description", "When the gate of the office opens", "--body", "It opens at six.")
        assert hooks.cli("save", "--name", name, *more).code == 0
    hooks("session-start", source="startup")
    hooks.cli.variables["MEMDIR_NOW"] = "2026-03-06T12:00:00+00:00"
    number = hooks.cli("dream", "--json").json["dream"]["change"]
    told = hooks("session-start", session="s-2", source="startup").message
    assert f"[Memory tidied: merged gate-too into gate; `memdir undo {number}` reverts it]" in told


def test_what_the_background_saved_is_told_at_the_next_start(hooks: Hooks) -> None:
    hooks("session-start", source="startup")
    hooks.cli.variables["MEMDIR_NOW"] = "2026-03-05T13:00:00+00:00"
    path = hooks.transcript("Remember that invoices are sent on the third of each month.", "Noted.")
    hooks("stop", transcript_path=str(path))
    wait_for_worker(hooks.state)
    line = "memdir: saved “Invoices sent on third of month”"
    assert hooks("session-start", session="s-2", source="startup").message.splitlines()[0] == line
    assert "saved" not in hooks("session-start", session="s-3", source="startup").message, "it is shown once"


def test_the_person_is_shown_in_one_line_what_was_recalled_and_saved_and_can_switch_it_off(hooks: Hooks) -> None:
    hooks.cli("save", "--type", "project", "--title", "Ferry to Lindholm", "--description", "When the ferry to Lindholm leaves",
              "--body", "The ferry to Lindholm leaves at six.")  # fmt: skip
    asked, note = (
        "when does the ferry to Lindholm leave?",
        "Remember that invoices are sent on the third of each month.",
    )
    hooks("stop", transcript_path=str(hooks.transcript(note, "Noted.")))
    wait_for_worker(hooks.state)
    for host in [host.key for host in HOSTS.values() if host.hooks]:
        saved = ", saved “Invoices sent on third of month”" if host == "claude-code" else ""
        shown = hooks("user-prompt", prompt=asked, session=host, host=host)
        assert shown.message == f"memdir: recalled 1 (Ferry to Lindholm){saved}", host
    assert hooks("user-prompt", prompt="thanks, that works now").out == b""
    hooks.cli.variables["MEMDIR_VISIBLE"] = "off"
    shown = hooks("user-prompt", prompt=asked, session="s-9")
    assert "leaves at six" in shown.context and not shown.message


def test_titles_in_the_line_are_few_short_and_printable() -> None:
    titles = ["a\nb\x1b[31m", "x" * 99, "c", "d", "e", "f"]
    line = render_line(titles, ["g"])
    assert line.startswith("memdir: recalled 6 (a b") and line.endswith(", c, d and 2 more), saved “g”")
    assert len(line) < 150 and line.isprintable()


def list_notes_of(hooks: Hooks) -> Callable[[], list[Path]]:
    return lambda: list((hooks.cli.home / ".claude" / "projects").glob("*/s-1/session-memory/summary.md"))


def test_after_compaction_notes_and_memories_come_again(hooks: Hooks) -> None:
    assert "staging" in hooks("user-prompt", prompt="The deploy-steps summary at the end of a reply?").context
    path = hooks.transcript("Please move the billing tables to the new schema.", "I moved two of five tables.")
    with serve_note_taker() as variables:
        hooks.cli.variables |= variables
        hooks("before-compact", transcript_path=str(path), trigger="auto")
        wait_for_worker(hooks.state)
        notes = list_notes_of(hooks)
        wait_until(lambda: any("billing" in at.read_text(encoding="utf-8") for at in notes()), "the notes are written")
    hooks.cli.variables["MEMDIR_MODEL"] = "none"
    told = hooks("session-start", source="compact")
    assert "billing tables" in told.context and "staging cluster" in told.context
    assert len(told.context) <= 9_500 and told.message == ""
    assert hooks("user-prompt", prompt="The deploy-steps summary at the end of a reply?").out == b""


def write_call(hooks: Hooks, file: str, text: str, tool: str = "Write") -> Any:
    path = str(hooks.cli.memory / file)
    return hooks("before-tool", tool_name=tool, tool_input={"file_path": path, "content": text})


def test_a_secret_on_its_way_to_the_team_is_denied_and_never_repeated(hooks: Hooks) -> None:
    text = memory_text("Ci", body=f"The token of the runner is {TOKEN}\n")
    told = write_call(hooks, "team/ci.md", text)
    assert told.refusal.startswith("memdir keeps this out of memory") and "line 7" in told.refusal
    assert TOKEN not in told.out.decode()
    own = write_call(hooks, "ci.md", text)
    assert own.refusal == "" and "GitHub" in own.context and own.message and TOKEN not in own.out.decode()
    hooks.cli("config", "set", "team_agents", "true")
    assert write_call(hooks, "team/ci.md", memory_text("Ci", body="Runners are tagged.\n")).out == b""


def test_an_agent_s_write_to_the_team_waits_for_the_person(hooks: Hooks) -> None:
    text = memory_text("Ci", body="Runners are tagged.\n")
    told = write_call(hooks, "team/ci.md", text)
    assert "item 1 of the inbox" in told.refusal and not (hooks.cli.memory / "team").exists()
    assert write_call(hooks, "team/ci.md", text).refusal == told.refusal, "the same thing waits once"
    assert "is added to the team's index when" in write_call(hooks, "team/MEMORY.md", "- [Ci](ci.md) — x\n").refusal
    command = f"echo hello >> {hooks.cli.memory}/team/ci.md"
    assert "write the complete file" in hooks("before-tool", tool_name="Bash", tool_input={"command": command}).refusal
    (row,) = hooks.cli("inbox", "--json").json
    assert (row["who"], row["name"], row["session"]) == ("agent", "team/ci", "s-1")
    assert hooks.cli("inbox", "approve", "1").code == 0
    assert (hooks.cli.memory / "team" / "ci.md").read_text(encoding="utf-8") == text
    assert "(ci.md)" in (hooks.cli.memory / "team" / "MEMORY.md").read_text(encoding="utf-8")


def test_an_agent_cannot_pin_a_memory_but_keeps_a_person_s_pin(hooks: Hooks) -> None:
    text = memory_text("Ci").replace("---\n\n", "pinned: true\n---\n\n")
    assert "only users can pin" in write_call(hooks, "ci.md", text).refusal
    hooks.cli.file("ci", memory_text("Ci"))
    assert hooks.cli("pin", "ci").code == 0
    assert write_call(hooks, "ci.md", text + "More.\n").out == b""


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("team/me.md", memory_text("Me").replace("reference", "user"), "is a user memory"),
        ("team/a b.md", memory_text("X"), "not a valid memory name"),
        ("team/notes.txt", "x", "not a Markdown file"),
        (".memdir/history.db", "x", "memdir state file"),
        ("logs/2026/03/2026-03-04.md", "- 09:00 x\n", "logs are append-only"),
        ("Team/me.md", memory_text("Me").replace("reference", "user"), "is a user memory"),
        ("team/big.md", memory_text("Big", body="x" * 1_100_000), "the limit of a memory"),
    ],
)
def test_what_no_store_would_take_is_denied_where_others_read(hooks: Hooks, file: str, text: str, reason: str) -> None:
    assert reason in write_call(hooks, file, text).refusal


def test_a_worktrees_own_memory_is_read_by_others_and_the_one_at_home_is_not(hooks: Hooks) -> None:
    git(hooks.cli.project, "init", "-q")
    git(hooks.cli.project, "commit", "-q", "--allow-empty", "-m", "first")
    tree = hooks.cli.home / "tree"
    git(hooks.cli.project, "worktree", "add", "-q", str(tree))
    text = memory_text("Me").replace("reference", "user")

    def write(top: Path) -> Any:
        given = {"file_path": str(top / ".claude" / "memory" / "me.md"), "content": text}
        return hooks("before-tool", tool_name="Write", tool_input=given, cwd=str(top))

    assert "is a user memory" in write(tree).refusal
    (tree / ".claude" / "memory").mkdir(parents=True)
    assert "is a user memory" in write(tree).refusal
    assert write(hooks.cli.home).refusal == ""


def test_a_link_that_leads_out_is_denied(hooks: Hooks, tmp_path: Path) -> None:
    os.symlink(tmp_path, hooks.cli.memory / "out")
    assert "symbolic link" in write_call(hooks, "out/x.md", memory_text("X")).refusal


def test_an_edit_is_judged_by_what_it_makes_of_the_file(hooks: Hooks) -> None:
    path = hooks.cli.file("team/ci", memory_text("Ci", body="The token is PLACE\n"))
    given = {"file_path": str(path), "old_string": "PLACE", "new_string": TOKEN}
    assert hooks("before-tool", tool_name="Edit", tool_input=given).refusal
    given = {"file_path": str(path), "old_string": "PLACE", "new_string": "kept in the vault"}
    assert "item 1 of the inbox" in hooks("before-tool", tool_name="Edit", tool_input=given).refusal
    assert hooks.cli("inbox", "approve", "1").code == 0 and "kept in the vault" in path.read_text(encoding="utf-8")


def test_shell_commands_and_patches_are_seen_too_and_other_files_are_nobodys_business(hooks: Hooks) -> None:
    team = hooks.cli.memory / "team"
    command = f"echo 'token: {TOKEN}' > {team}/ci.md"
    assert hooks("before-tool", tool_name="Bash", tool_input={"command": command}).refusal
    patch = f"*** Begin Patch\n*** Add File: {team}/ci.md\n+token: {TOKEN}\n*** End Patch\n"
    assert hooks("before-tool", host="codex", tool_name="apply_patch", tool_input={"command": patch}).refusal
    assert hooks("before-tool", tool_name="Bash", tool_input={"command": f"echo {TOKEN} > ci.md"}).out == b""
    assert hooks("before-tool", tool_name="Read", tool_input={"file_path": str(team / "ci.md")}).out == b""


def test_a_memory_the_agent_has_read_is_not_told_again(hooks: Hooks) -> None:
    path = hooks.cli.memory / "deploy-steps.md"
    given: dict[str, Any] = {"tool_name": "Read", "tool_input": {"file_path": str(path)}}
    assert hooks("after-tool", **given, agent_id="a-1").out == b""
    assert SessionFile(hooks.state, "s-1").read().read == frozenset()
    assert hooks("after-tool", **given).out == b""
    assert SessionFile(hooks.state, "s-1").read().read == {"deploy-steps"}
    assert hooks("user-prompt", prompt="The deploy-steps summary at the end of a reply?").out == b""


@pytest.fixture
def large(hooks: Hooks) -> Hooks:
    for number in range(LARGE):
        write_memory(hooks.cli.memory, f"note-{number}", f"What is known of part{number}")
    os.utime(hooks.cli.memory, (1_000_000_000, 1_000_000_000))
    assert hooks.cli("worker").code == 0
    return hooks


def test_what_an_agent_has_just_written_is_told_at_the_next_prompt(large: Hooks) -> None:
    prompt = "Where is the marmalade cellar?"
    path = write_memory(large.cli.memory, "note-7", "The marmalade cellar is below the harbour office")
    assert large("user-prompt", session="s-2", prompt=prompt).out == b""
    large("after-tool", tool_name="Edit", tool_input={"file_path": str(path)})
    assert "harbour office" in large("user-prompt", session="s-3", prompt=prompt).context
    write_memory(large.cli.memory, "new", "The gooseberry orchard lies behind the old mill")
    assert "old mill" in large("user-prompt", session="s-4", prompt="Where is the gooseberry orchard?").context


def test_what_an_editor_overwrote_is_found_after_the_next_start_or_turn(large: Hooks) -> None:
    def knows(word: str) -> Callable[[], bool]:
        return lambda: bool(find_terms(large.state / "index.db", word))

    write_memory(large.cli.memory, "note-7", "The marmalade cellar is below the harbour office")
    large("session-start", source="startup")
    wait_until(knows("marmalad"), "the start's worker has read the file")
    write_memory(large.cli.memory, "note-8", "The gooseberry orchard lies behind the old mill")
    large("stop", transcript_path=str(large.transcript("Hello.", "Hello.")))
    wait_until(knows("gooseberri"), "the worker of the turn has read the file")
    assert "old mill" in large("user-prompt", session="s-4", prompt="Where is the gooseberry orchard?").context


def find_terms(index: Path, word: str) -> object:
    with closing(sqlite3.connect(f"{index.as_uri()}?mode=ro", uri=True, timeout=30)) as db:
        return db.execute("SELECT df FROM terms WHERE word = ?", (word,)).fetchone()


def test_after_a_turn_a_worker_learns_what_was_asked_for_and_the_next_session_recalls_it(hooks: Hooks) -> None:
    path = hooks.transcript("Remember that invoices are sent on the third of each month.", "Noted.")
    assert hooks("stop", transcript_path=str(path)).out == b""
    wait_for_worker(hooks.state)
    told = hooks("user-prompt", host="codex", session="s-2", prompt="On which day of the month are invoices sent?")
    assert "third of each month" in told.context


def test_a_subagent_leaves_nothing_to_learn(hooks: Hooks) -> None:
    path = str(hooks.transcript("Remember that I like tea.", "Noted."))
    hooks("stop", transcript_path=path, agent_id="a-1")
    assert read_queue(hooks.state) == ()


def test_the_end_of_a_session_leaves_a_note_only_if_there_is_something_new(hooks: Hooks) -> None:
    path = str(hooks.transcript("Remember that I like tea.", "Noted."))
    hooks("session-end", transcript_path=path)
    assert len(read_queue(hooks.state)) == 1
    # Here, and not by a hook: a worker that is still at work would take up the last note as well.
    assert hooks.cli("worker").code == 0 and read_queue(hooks.state) == ()
    hooks("session-end", transcript_path=path)
    assert read_queue(hooks.state) == ()
    hooks.transcript("Remember that I like tea.", "Noted.", "And coffee.")
    hooks("session-end", transcript_path=path)
    assert len(read_queue(hooks.state)) == 1


def test_a_subagent_gets_the_index_of_its_own_memory(hooks: Hooks) -> None:
    folder = hooks.cli.home / ".claude" / "agent-memory" / "reviewer"
    folder.mkdir(parents=True)
    (folder / "tabs.md").write_text(memory_text("Tabs"), encoding="utf-8")
    (folder / "MEMORY.md").write_text("- [Tabs](tabs.md) — how this project indents\n", encoding="utf-8")
    told = hooks("subagent-start", host="codex", agent_id="a-1", agent_type="reviewer")
    assert "how this project indents" in told.context
    assert hooks("subagent-start", host="codex", agent_id="a-2", agent_type="planner").out == b""
    assert "how this project indents" in hooks("subagent-start", agent_id="a-1", agent_type="reviewer").context
    agents = hooks.cli.project / ".claude" / "agents"
    agents.mkdir(parents=True)
    head = "---\nname: reviewer\ndescription: Reads code\nmemory: user\n---\n"
    (agents / "reviewer.md").write_text(head, encoding="utf-8")
    # Now Claude Code loads it by itself.
    assert hooks("subagent-start", agent_id="a-1", agent_type="reviewer").out == b""


def test_every_event_is_noted_for_doctor(hooks: Hooks) -> None:
    hooks("session-start", source="startup")
    hooks("user-prompt", host="codex", prompt="x")
    found = {(at.host, at.event) for at in read_events(hooks.state)}
    assert found == {("claude-code", "session-start"), ("codex", "user-prompt")}
    assert read_problems(hooks.state) == ()


def test_vs_code_runs_the_hooks_of_claude_codes_settings_and_is_known_by_its_spelling(hooks: Hooks) -> None:
    given = {"sessionId": "v-1", "cwd": str(hooks.cli.project), "prompt": "The deploy-steps summary of a reply?"}
    done = hooks.cli.real("hook", "UserPromptSubmit", given=json.dumps(given).encode())
    assert "staging cluster" in done.out
    assert {at.host for at in read_events(hooks.state)} == {"copilot"}


def test_each_host_is_answered_in_its_own_words() -> None:
    answer = HookReply("a fact", "a word", "no")
    deny = {"permissionDecision": "deny", "permissionDecisionReason": "no"}
    told = {"additionalContext": "a fact", **deny}
    # Copilot CLI reads some of it only at the top level, VS Code only below.
    for host, top in ((CLAUDE_CODE, {}), (CODEX, {}), (COPILOT, told)):
        table = json.loads(render_reply(answer, HookEvent.BEFORE_TOOL, host))
        specific = {"hookEventName": "PreToolUse", **told}
        assert table == {"systemMessage": "a word", "hookSpecificOutput": specific, **top}
    table = json.loads(render_reply(answer, HookEvent.BEFORE_TOOL, GEMINI))
    assert table == {"systemMessage": "a word", "decision": "deny", "reason": "no"}
    table = json.loads(render_reply(HookReply("a fact"), HookEvent.PROMPT, GEMINI))
    assert table == {"hookSpecificOutput": {"hookEventName": "BeforeAgent", "additionalContext": "a fact"}}
    table = json.loads(render_reply(HookReply("a fact"), HookEvent.AFTER_TOOL, GEMINI))
    assert table == {"hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": "a fact"}}
    for event in (HookEvent.STOP, HookEvent.COMPACT, HookEvent.END):
        assert render_reply(answer, event, CODEX) == ""
    assert render_reply(HookReply(), HookEvent.PROMPT, CLAUDE_CODE) == ""


def test_hosts_and_events_have_many_spellings() -> None:
    assert find_host("Claude Code") is find_host("claude") is CLAUDE_CODE and find_host("gemini") is GEMINI
    assert find_host("emacs") is None
    for name in ("UserPromptSubmit", "user-prompt", "BeforeAgent"):
        assert find_event(name, GEMINI) is HookEvent.PROMPT
    assert find_event("AfterAgent", GEMINI) is HookEvent.STOP and find_event("BeforeAgent", CODEX) is None


def test_in_daily_log_mode_the_start_says_where_logs_are_and_the_date_is_given_when_it_changes(hooks: Hooks) -> None:
    hooks.cli.variables["MEMDIR_DAILY_LOG"] = "1"
    told = hooks("session-start", source="startup").context
    assert str(hooks.cli.memory / "logs" / "YYYY" / "MM" / "YYYY-MM-DD.md") in told
    assert "Today is Thursday, 2026-03-05" in told and str(hooks.cli.memory / "logs/2026/03/2026-03-05.md") in told
    assert "2026" not in hooks("user-prompt", prompt="go on please").context
    hooks.cli.variables["MEMDIR_NOW"] = "2026-03-06T12:00:00+00:00"
    changed = hooks("user-prompt", prompt="go on please").context
    assert "Friday, 2026-03-06" in changed and "logs/2026/03/2026-03-06.md" in changed
    assert "2026" not in hooks("user-prompt", prompt="go on please").context
    assert "2026-03-06" in hooks("user-prompt", prompt="hello", session="s-2").context, "no start was seen"
    path = hooks.cli.memory / "logs" / "2026" / "03" / "2026-03-06.md"
    assert write_call(hooks, "logs/2026/03/2026-03-06.md", "- 09:00 project: x\n").out == b""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("- 09:00 project: x\n", encoding="utf-8")
    assert "append-only" in write_call(hooks, "logs/2026/03/2026-03-06.md", "- 10:00 project: y\n").refusal


def test_outside_of_daily_log_mode_no_start_speaks_of_logs(hooks: Hooks) -> None:
    assert "logs/" not in hooks("session-start", source="startup").context
    assert "Today is" not in hooks("user-prompt", prompt="hello").context


def test_learning_that_a_damaged_history_stops_is_said_at_the_next_start_and_by_doctor(hooks: Hooks) -> None:
    hooks.cli.save()
    for path in hooks.state.glob("history.db*"):
        path.unlink()
    (hooks.state / "history.db").write_bytes(b"SQLite format 3\0" + b"rot" * 4_000)
    hooks("session-end", transcript_path=str(hooks.transcript("remember that the ferry leaves at six", "Done.")))
    assert hooks.cli("worker").code == 0 and len(read_queue(hooks.state)) == 1, "it stays for a better day"
    assert "damaged" in (said := hooks("session-start", session="s-2").message) or "not a database" in said
    found = {at["kind"]: at["fix"] for at in hooks.cli("doctor", "--json").json["findings"]}
    assert "`memdir doctor --fix`" in found["history"] and "hook_problem" in found
    (hooks.state / "history.db").unlink()
    assert hooks.cli("extract").code == 0 and read_queue(hooks.state) == ()
    assert any("ferry" in path.name for path in hooks.cli.memory.glob("*.md"))
