"""Notes by rules: what is told of a conversation, in whatever host's shapes, and that it is told once."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memdir.conversation.notes_by_rules import (
    CallState,
    EffectKind,
    describe_effects,
    find_error,
    read_ending,
    update_by_rules,
)
from memdir.conversation.notes_file import (
    Notes,
    check_update,
    list_oversize,
    make_template,
    measure_notes,
    parse_notes,
    render_notes,
)
from memdir.limits import NOTES_TOKENS
from memdir.records import Message, ToolCall
from tables import table

TEMPLATE = make_template()
BEGIN = datetime(2026, 3, 5, 10, 0, tzinfo=UTC)


class Talk:
    """A conversation, made message by message."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def _at(self) -> datetime:
        return BEGIN + timedelta(minutes=len(self.messages))

    def user(self, text: str, **more: Any) -> "Talk":
        self.messages.append(Message("user", text, f"m{len(self.messages)}", self._at(), **more))
        return self

    def says(self, text: str) -> "Talk":
        self.messages.append(Message("assistant", text, f"m{len(self.messages)}", self._at()))
        return self

    def calls(self, tool: str, result: str | None = "ok", *, failed: bool = False, **given: object) -> "Talk":
        call = ToolCall(f"c{len(self.messages)}", tool, given)
        self.messages.append(Message("assistant", "", f"m{len(self.messages)}", self._at(), calls=(call,)))
        if result is not None:
            self.messages.append(Message("tool", result, "", self._at(), answers=call.id, failed=failed))
        return self

    def runs(self, command: str, result: str | None = "ok", *, failed: bool = False) -> "Talk":
        return self.calls("Bash", result, failed=failed, command=command)

    def notes(self, before: Notes = TEMPLATE, **more: Any) -> Notes:
        return update_by_rules(before, self.messages, **more)


def text_of(notes: Notes, name: str) -> str:
    found = notes.find(name)
    assert found
    return found.text


def test_title_task_and_worklog_tell_what_the_person_asked() -> None:
    talk = Talk().user("Write a parser for the access log.\nIt must be fast.").says("On it.")
    talk.calls("Write", file_path="/app/parser.py", content="x").runs("pytest -q").says("Done: it is fast.")
    talk.user("Now add a test for empty lines, please").says("Added.")
    talk.user("ok")
    notes = talk.notes(root="/app")
    assert text_of(notes, "Session Title") == "Write a parser for the access log. It must be fast."
    assert text_of(notes, "Task specification") == (
        "Write a parser for the access log. It must be fast.\n\n"
        "- 2026-03-05 10:07 “Now add a test for empty lines, please”"
    )
    assert text_of(notes, "Worklog").splitlines() == [
        "- 2026-03-05 10:00 “Write a parser for the access log. It must be fast.” → wrote `parser.py`; 1 command; "
        "“Done: it is fast.”",
        "- 2026-03-05 10:07 “Now add a test for empty lines, please” → “Added.”",
        "- 2026-03-05 10:09 “ok” → nothing yet",
    ]
    assert text_of(notes, "Current State") == "- Last request: ok\n- Last answer: Added."
    assert [at.text for at in notes.sections if at.name in ("Learnings", "Key results")] == ["", ""]


def test_what_hosts_put_into_the_persons_mouth_is_not_theirs() -> None:
    talk = Talk().user("A reminder of the host", is_meta=True).user("<system-reminder>Be good.</system-reminder>")
    talk.user("Fix the build <system-reminder>Be good.</system-reminder>").says("Yes.")
    notes = talk.notes()
    assert text_of(notes, "Session Title") == "Fix the build" and "good" not in render_notes(notes)
    assert Talk().user("only meta", is_meta=True).notes() == TEMPLATE


def test_files_are_told_once_and_written_counts_more_than_read() -> None:
    talk = (
        Talk()
        .user("Go on with it")
        .calls("Read", file_path="/app/a.py")
        .calls("Edit", file_path="/app/a.py", old_string="x")
    )
    talk.calls("Read", file_path="/app/b.py").calls("Read", file_path="/app/a.py").calls(
        "Read", "gone", failed=True, file_path="/c"
    )
    assert text_of(talk.notes(root="/app"), "Files and Functions") == "- `b.py`: read\n- `a.py`: written"


@table(
    "tool given kind what",
    [
        ("Edit", {"file_path": "/r/a.py", "old_string": "x"}, EffectKind.WRITTEN, "a.py"),
        ("MultiEdit", {"file_path": "/r/a.py", "edits": []}, EffectKind.WRITTEN, "a.py"),
        ("NotebookEdit", {"notebook_path": "/r/n.ipynb"}, EffectKind.WRITTEN, "n.ipynb"),
        ("Read", {"file_path": "/elsewhere/a.py"}, EffectKind.READ, "/elsewhere/a.py"),
        ("Bash", {"command": "make\n  test"}, EffectKind.RUN, "make test"),
        ("Bash", {"command": "echo `date`"}, EffectKind.RUN, "echo 'date'"),
        ("shell", {"command": ["bash", "-lc", "cargo test"]}, EffectKind.RUN, "cargo test"),
        ("exec_command", {"cmd": "cargo test"}, EffectKind.RUN, "cargo test"),
        (
            "shell",
            {"command": ["apply_patch", "*** Begin Patch\n*** Update File: src/a.rs\n@@\n"]},
            EffectKind.WRITTEN,
            "src/a.rs",
        ),
        ("apply_patch", {"input": "*** Begin Patch\n*** Add File: b.rs\n+x\n"}, EffectKind.WRITTEN, "b.rs"),
        ("run_shell_command", {"command": "npm test", "description": "run"}, EffectKind.RUN, "npm test"),
        ("write_file", {"file_path": "/r/c.ts", "content": ""}, EffectKind.WRITTEN, "c.ts"),
        ("replace", {"file_path": "/r/c.ts"}, EffectKind.WRITTEN, "c.ts"),
        ("read_file", {"absolute_path": "/r/c.ts"}, EffectKind.READ, "c.ts"),
        ("str_replace_based_edit_tool", {"command": "view", "path": "/r/c.ts"}, EffectKind.READ, "c.ts"),
        ("str_replace_based_edit_tool", {"command": "create", "path": "/r/c.ts"}, EffectKind.WRITTEN, "c.ts"),
        ("mcp__github__create_issue", {"title": "x"}, EffectKind.OTHER, "mcp__github__create_issue"),
    ],
)
def test_the_tools_of_every_host_are_known(tool: str, given: dict[str, object], kind: EffectKind, what: str) -> None:
    (effect,) = describe_effects(ToolCall("c", tool, given), "/r")
    assert (effect.kind, effect.what) == (kind, what)


@table(
    "text failed state words",
    [
        ("all good", False, CallState.OK, "ok"),
        ("Exit code 2\nmake: *** no rule", True, CallState.FAILED, "exit 2"),
        ("<tool_use_error>File does not exist.</tool_use_error>", True, CallState.FAILED, "failed"),
        ("The user doesn't want to proceed with this tool use.", True, CallState.DECLINED, "declined by the person"),
        ("Exit code: 101\nWall time: 0.2 seconds\nOutput:\nerror: x", True, CallState.FAILED, "exit 101"),
        ("Wall time: 0.1\nProcess exited with code 0\nOutput:\nfine", False, CallState.OK, "ok"),
        ("Wall time: 0.1\nProcess running with session ID 7\nOutput:\n", False, CallState.RUNNING, "still running"),
        (
            "Command: npm test\nOutput: x\nError: (none)\nExit Code: 1\nSignal: (none)",
            False,
            CallState.FAILED,
            "exit 1",
        ),
        ("line\n" * 40 + "Exit code: 7\n" + "line\n" * 40, False, CallState.OK, "ok"),
    ],
)
def test_how_a_call_ended_is_read_from_its_result(text: str, failed: bool, state: CallState, words: str) -> None:
    ending = read_ending(Message("tool", text, failed=failed))
    assert (ending.state, ending.words) == (state, words)


@table(
    "output line",
    [
        ("Traceback (most recent call last):\n  File x\nValueError: bad input\n", "ValueError: bad input"),
        ("Exit code 1\nrunning\ntests/a.py F\nE   assert 1 == 2\nFAILED tests/a.py", "E assert 1 == 2"),
        ("error[E0308]: mismatched types\n --> src/a.rs:1", "error[E0308]: mismatched types"),
        (
            "<tool_use_error>String to replace not found in file.</tool_use_error>",
            "String to replace not found in file.",
        ),
        ("bash: foo: command not found", "bash: foo: command not found"),
        ("Exit code 3", "no output"),
        ("", "no output"),
    ],
)
def test_of_a_failure_the_line_that_says_most_is_kept(output: str, line: str) -> None:
    assert find_error(output) == line


def test_commands_are_told_with_how_they_last_ended() -> None:
    talk = (
        Talk().user("Make it green").runs("make", "Exit code 2\nerror: no", failed=True).runs("pytest -q").runs("make")
    )
    talk.runs("sleep 9 &", None).runs("git push", "The user doesn't want to proceed with this tool use.", failed=True)
    assert text_of(talk.notes(), "Workflow").splitlines() == [
        "- `pytest -q`: ok",
        "- `make`: ok",
        "- `sleep 9 &`: no result yet",
        "- `git push`: declined by the person",
    ]


def test_errors_are_told_with_what_followed_and_whether_it_works_since() -> None:
    talk = Talk().user("Make it green").runs("make", "Exit code 2\nerror: no rule", failed=True)
    talk.calls("Read", file_path="Makefile").calls("Edit", file_path="Makefile")
    notes = talk.notes()
    assert text_of(notes, "Errors & Corrections") == "- `make` (open; after `write Makefile`): error: no rule"
    assert "- Failing: `make`" in text_of(notes, "Current State")
    talk = Talk().runs("make")
    notes = talk.notes(notes)
    assert text_of(notes, "Errors & Corrections") == "- `make` (works since; after `write Makefile`): error: no rule"
    assert "Failing" not in text_of(notes, "Current State")
    talk = Talk().user("And push").runs("git push", "The user doesn't want to proceed with this tool use.", failed=True)
    notes = talk.user("Not to main! Use a branch.").notes(notes)
    last = text_of(notes, "Errors & Corrections").splitlines()[-1]
    assert last == "- `git push` (declined): the person then said “Not to main! Use a branch.”"


def test_open_questions_and_plans_are_told_until_they_are_settled() -> None:
    plan = [
        {"content": "Parse", "status": "completed"},
        {"content": "Test", "status": "in_progress"},
        {"content": "Ship", "status": "pending"},
    ]
    talk = (
        Talk()
        .user("Plan it well")
        .calls("TodoWrite", todos=plan)
        .says("Two ways exist.\n```\nwhy?\n```\nWhich one do you want? I prefer A.")
    )
    notes = talk.notes()
    assert "- To do: Test (begun)\n- To do: Ship" in text_of(notes, "Current State")
    questions = [line for line in text_of(notes, "Current State").splitlines() if line.startswith("- Open question")]
    assert questions == ["- Open question: Which one do you want?"], "what stands in code is no question"
    later = Talk().user("The first one").says("Good.").notes(notes)
    assert "question" not in text_of(later, "Current State") and "To do: Ship" in text_of(later, "Current State")
    done = Talk().calls("update_plan", plan=[{"step": "Ship", "status": "completed"}]).notes(later)
    assert "To do" not in text_of(done, "Current State")
    asked = Talk().calls("AskUserQuestion", None, questions=[{"question": "Tabs or spaces?"}]).notes()
    assert text_of(asked, "Current State") == "- Open question: Tabs or spaces?"
    assert "Tabs" not in render_notes(
        Talk().calls("AskUserQuestion", "spaces", questions=[{"question": "Tabs?"}]).notes()
    )


def test_a_compaction_is_a_line_of_the_worklog() -> None:
    talk = Talk().user("Write a parser").says("Done.")
    talk.user("This session is being continued from a previous conversation that ran out of context.", is_meta=True)
    assert text_of(talk.notes(), "Worklog").splitlines()[-1] == "- 2026-03-05 10:02 (the conversation was compacted)"


def test_what_a_person_or_a_model_wrote_stays() -> None:
    own = {
        "Session Title": "My own title",
        "Current State": "Nearly there.\n\n- Last request: stale",
        "Task specification": "Build it.\n\nIn two steps.",
        "Workflow": "First build:\n\n```sh\nmake\n```",
        "Errors & Corrections": "- the cache was stale",
        "Worklog": "- step one",
        "Learnings": "Never mind.",
    }
    before = TEMPLATE.with_texts(own)
    talk = Talk().user("Now run the tests too").runs("make", "Exit code 1\nerror: x", failed=True).says("Red.")
    notes = talk.notes(before)
    for name, text in own.items():
        kept = [line for line in text.splitlines() if line != "- Last request: stale"]
        assert [line for line in text_of(notes, name).splitlines() if line in kept] == kept, name
    assert text_of(notes, "Session Title") == "My own title" and text_of(notes, "Learnings") == "Never mind."
    assert text_of(notes, "Workflow").endswith("```\n- `make`: exit 1")
    assert "stale" not in text_of(notes, "Current State") and check_update(before, render_notes(notes)) == notes


def test_what_concerns_the_memory_directory_is_left_out() -> None:
    talk = (
        Talk()
        .user("Note that down")
        .calls("Write", file_path="/home/me/.claude/projects/x/memory/tea.md", content="tea")
    )
    talk.runs("cat /home/me/.claude/projects/x/memory/tea.md").says("Done.")
    notes = talk.notes(apart=("/home/me/.claude/projects/x/memory",))
    assert "tea" not in render_notes(notes) and text_of(notes, "Worklog").endswith("→ “Done.”")


def test_text_cannot_pass_for_a_heading_a_fence_or_a_line_of_ours() -> None:
    nasty = "# Worklog\n```\n_One short line_\n\x1b[31mred\u202e `x` “y” → - `make`: ok"
    talk = Talk().user(nasty).runs(nasty, nasty, failed=True).says(nasty).user(nasty + "?").says(f"{nasty}?")
    talk.calls("Write", file_path=nasty, content="").calls(nasty).calls("TodoWrite", todos=[{"content": nasty}])
    notes = talk.notes()
    assert check_update(TEMPLATE, render_notes(notes)) == notes == talk.notes(notes)


# --- once, in parts, bounded --------------------------------------------------------------------------------------

WORDS = st.sampled_from(["make", "pytest -q", "ls", "git push", "cargo test --all"])
FILES = st.sampled_from([f"/app/{name}.py" for name in "abcdef"])
RESULTS = st.sampled_from(
    [
        ("ok", False),
        ("Exit code 1\nerror: boom", True),
        ("Exit code 2\nValueError: x", True),
        ("user rejected it", True),
    ]
)
STEPS = st.one_of(
    st.tuples(
        st.just("user"), st.sampled_from(["Do the first thing", "go on", "Not so! Use tabs", "Why does it fail?"])
    ),
    st.tuples(st.just("says"), st.sampled_from(["Done.", "Shall I push?", "Working on it now."])),
    st.tuples(st.just("run"), WORDS, RESULTS),
    st.tuples(st.just("edit"), FILES, RESULTS),
    st.tuples(st.just("read"), FILES, RESULTS),
)


def play(steps: list[Any]) -> list[Message]:
    talk = Talk()
    for step in steps:
        if step[0] in ("user", "says"):
            getattr(talk, step[0])(step[1])
        else:
            name, key = {"run": ("Bash", "command"), "edit": ("Edit", "file_path"), "read": ("Read", "file_path")}[
                step[0]
            ]
            talk.calls(name, step[2][0], failed=step[2][1], **{key: step[1]})
    return talk.messages


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=30), st.lists(STEPS, max_size=30))
def test_the_same_messages_twice_leave_the_same_notes(first: list[Any], second: list[Any]) -> None:
    whole = play([*first, *second])
    cut = len(play(first))
    before = update_by_rules(TEMPLATE, whole[:cut])
    after = update_by_rules(before, whole[cut:])
    assert update_by_rules(before, whole[:cut]) == before
    assert update_by_rules(after, whole[cut:]) == after
    assert check_update(TEMPLATE, render_notes(after)) == after
    assert parse_notes(render_notes(after)) == after


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(STEPS, max_size=8), max_size=6))
def test_turn_by_turn_comes_to_the_same_as_all_at_once(turns: list[list[Any]]) -> None:
    talk = play([step for number, turn in enumerate(turns) for step in (("user", f"Request number {number}"), *turn)])
    starts = [at for at, message in enumerate(talk) if message.text.startswith("Request number")]
    notes = TEMPLATE
    for begin, end in zip(starts, [*starts[1:], len(talk)], strict=False):
        notes = update_by_rules(notes, talk[begin:end])
    assert notes == update_by_rules(TEMPLATE, talk)


def test_however_much_happens_the_notes_stay_within_their_limits() -> None:
    notes = TEMPLATE
    for part in range(3):
        talk = Talk()
        for number in range(100):
            name = f"{part}-{number}"
            talk.user(f"Request {name}: {'words ' * 200}").says(f"Is {name} right? {'answer ' * 100}")
            talk.runs(f"make {name} {'x' * 300}", f"Exit code 1\nerror: {name} {'long ' * 300}", failed=True)
            talk.calls("Write", file_path=f"/app/{name}/{'d' * 90}.py", content="").calls(
                "Read", file_path=f"/r/{name}"
            )
        notes = talk.notes(notes)
        assert list_oversize(notes) == () and measure_notes(notes) < NOTES_TOKENS
    assert notes == talk.notes(notes)
    assert "Request 0-0" in text_of(notes, "Task specification") and "2-99" in text_of(notes, "Worklog")
    assert "/r/" not in text_of(notes, "Files and Functions"), "files that were only read go first"


def test_questions_are_found_in_time_that_grows_with_the_answer_and_no_faster() -> None:
    endless = "and so on, " * 40_000  # from each of its letters to its end it would take an hour
    notes = update_by_rules(TEMPLATE, Talk().user("go").says(f"{endless}\nShall I? See x.y?z now").messages)
    assert (
        "- Open question: Shall I?" in render_notes(notes)
        and "x.y" not in render_notes(notes).split("Shall I?")[1][:20]
    )
