"""What the real Codex CLI 0.166.0 and the real Gemini CLI 0.61.0 wrote and sent, and what memdir makes of it.

The files in tests/data/clients were made by these clients with memdir installed, against an API on loopback; paths are
changed, and long texts of theirs are cut. tests/interfaces/test_real_clients.py runs the clients themselves.
"""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from hook_calls import Hooks, Told, call_hook, wait_for_worker
from memdir.conversation.tool_calls import find_written_memory
from memdir.conversation.transcripts import describe_transcript, list_transcripts, read_messages, read_tail
from memdir.project.settings import read_environment
from memdir.store.sessions import read_queue
from memdir.store.state import read_problems
from transcript_writer import said

DATA = Path(__file__).parents[1] / "data" / "clients"
ROLLOUT, CHAT = DATA / "codex-rollout.jsonl", DATA / "gemini-chat.jsonl"
COMPRESSED = DATA / "gemini-compressed.jsonl"  # three times, and resumed
ASKED = "Remember that invoices are sent on the third of each month."
FERRY = "When does the ferry to Lindholm leave?"


def test_what_a_script_of_codex_has_called_is_seen_and_what_failed_is_not() -> None:
    messages = list(read_messages(ROLLOUT))
    assert [at.text for at in messages if at.role == "user" and not at.is_meta] == [ASKED, FERRY]
    assert [at.text for at in messages if at.role == "assistant" and at.text] == ["Noted.", "At six."]
    calls = [tuple(call.name for call in at.calls) for at in messages if at.calls]
    assert calls == [
        ("exec",),
        ("exec", "apply_patch"),
        ("exec", "exec_command"),
        ("exec",),
        ("exec", "mcp__memdir__memory_save"),
    ]
    results = [at.failed for at in messages if at.role == "tool"]
    assert results == [True, False, False, False, False]
    assert find_written_memory(messages, ["/home/dev/app"]) == ("/home/dev/app/notes.md", "mcp__memdir__memory_save")
    meta = [at.text for at in messages if at.is_meta]
    assert sum(text.startswith("Memory (saved") for text in meta) == 1  # our own reminder is nothing the person said
    for count in range(len(messages) + 2):
        assert read_tail(ROLLOUT, count) == tuple(messages[max(len(messages) - count, 0) :])
    info = describe_transcript(ROLLOUT)
    assert (info.format, info.cwd, info.is_headless) == ("codex", "/home/dev/app", True)


def test_the_folder_of_a_command_in_a_script_of_codex_is_an_address_with_escapes(tmp_path: Path) -> None:
    item = {"type": "CommandExecution", "id": "exec-1", "command": ["touch", "a.md"], "status": "completed"}
    event = {"type": "item_completed", "item": {**item, "cwd": "file:///home/dev/my%20app"}}
    path = tmp_path / "rollout-1.jsonl"
    path.write_text(json.dumps({"type": "event_msg", "payload": event}) + "\n", encoding="utf-8")
    assert find_written_memory(read_messages(path), ["/home/dev/my app"]) == ("/home/dev/my app/a.md",)


@pytest.mark.parametrize(("code", "failed"), [(0, False), (1, True)])
def test_a_command_that_failed_in_codex_has_saved_nothing(tmp_path: Path, code: int, failed: bool) -> None:
    """As Codex words it: its sandbox does not let `memdir remember` write."""
    call = {
        "type": "function_call",
        "name": "exec_command",
        "arguments": '{"cmd": "memdir remember x"}',
        "call_id": "c",
    }
    head = (
        f"Chunk ID: 9be86c\nWall time: 0.2 seconds\nProcess exited with code {code}\nOriginal token count: 7\nOutput:\n"
    )
    answer = {"type": "function_call_output", "call_id": "c", "output": f"{head}Exit code: 3\n"}
    rows = [{"type": "response_item", "payload": item} for item in (call, answer)]
    path = tmp_path / "rollout-1.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    messages = list(read_messages(path))
    assert messages[-1].failed is failed
    assert bool(find_written_memory(messages, [])) is not failed


def test_a_chat_of_gemini_is_read_with_ids_without_wrappers_and_once_after_a_resume() -> None:
    messages = list(read_messages(CHAT))
    typed = [at.text for at in messages if at.role == "user" and not at.is_meta]
    assert typed == [f"{ASKED} Look at @a.txt", FERRY]
    assert [at.text for at in messages if at.role == "assistant" and at.text] == ["Noted.", "At six."]
    names = [call.name for at in messages for call in at.calls]
    assert names == ["write_file", "read_file", "run_shell_command", "mcp_memdir_memory_save", "mcp_memdir_memory_save"]
    results = [at.failed for at in messages if at.role == "tool"]
    assert results == [True, False, True, True, False]
    assert find_written_memory(messages, ["/home/dev/app"], cwd="/home/dev/app") == ("mcp_memdir_memory_save",)
    assert all(at.id for at in messages if not at.is_meta)
    for count in range(len(messages) + 2):
        assert read_tail(CHAT, count) == tuple(messages[max(len(messages) - count, 0) :])


HEAD = {"sessionId": "g-1", "projectHash": "0", "startTime": "2026-03-05T10:00:00.000Z", "kind": "main"}


def chat(path: Path, *records: object) -> Path:
    rows = [at if isinstance(at, str) else json.dumps(at, separators=(",", ":")) for at in (HEAD, *records)]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def turn(id: str, kind: str, content: object, **more: object) -> dict[str, object]:
    return {"id": id, "timestamp": "2026-03-05T10:00:00.000Z", "type": kind, "content": content, **more}


def test_a_rewind_takes_away_and_a_compression_does_not(tmp_path: Path) -> None:
    snapshot = turn("s", "user", [{"text": "<state_snapshot>all of it</state_snapshot>"}])
    path = chat(
        tmp_path / "a.jsonl",
        turn("1", "user", [{"text": "one"}]),
        turn("2", "gemini", "first"),
        turn("3", "user", "two"),
        turn("4", "gemini", "second"),
        {"$rewindTo": "3"},
        turn("5", "info", "a notice"),
        turn("6", "user", [{"text": "three"}, {"inlineData": {"mimeType": "image/png", "data": "x"}}]),
        turn("7", "gemini", [{"text": "a thought", "thought": True}, {"text": "third"}]),
        {"$set": {"messages": [snapshot, turn("6", "user", "masked"), "x"]}},
        turn("7", "gemini", "third, and more"),
    )
    assert said(path) == [
        "u:one",
        "a:first",
        "u:three\n\n[image]",
        "a:third, and more",
        "(u:<state_snapshot>all of it</state_snapshot>)",
    ]


def test_what_a_compression_keeps_under_new_ids_was_said_once_and_its_summary_by_nobody() -> None:
    messages = list(read_messages(COMPRESSED))
    invoices, ferry = "Remember that invoices are sent on the third.", "Remember that the ferry leaves at six."
    typed = [at.text for at in messages if at.role == "user" and not at.is_meta]
    assert typed == ["My name is Sample.", invoices, ferry, "And what else?"]
    assert [at.text for at in messages if at.role == "assistant" and at.text] == ["Zero.", "One.", "Two.", "Three."]
    assert sum(at.role == "tool" for at in messages) == sum(len(at.calls) for at in messages) == 3
    for count in range(len(messages) + 2):
        assert read_tail(COMPRESSED, count) == tuple(messages[max(len(messages) - count, 0) :])


def test_a_history_that_is_written_anew_record_by_record_adds_nothing(tmp_path: Path) -> None:
    """As where Gemini masks long results: then each message gets a new id and a record of its own."""
    old = [
        turn("1", "user", [{"text": "one"}]),
        turn("2", "gemini", "first", model="m"),
        turn("3", "user", [{"text": "go on"}]),
        turn("4", "gemini", "second", model="m"),
    ]
    texts = ("one", "first", "go on", "second")
    new = [turn(f"n{at['id']}", str(at["type"]), [{"text": text}]) for at, text in zip(old, texts, strict=True)]
    rows = (
        *old,
        *new,
        {"$set": {"messages": new}},
        turn("5", "user", "go on"),
        turn("6", "gemini", "third", model="m"),
    )
    told = ["u:one", "a:first", "u:go on", "a:second", "u:go on", "a:third"]
    assert said(chat(tmp_path / "a.jsonl", *rows)) == told
    listed = [*new, turn("5", "user", "go on"), turn("6", "gemini", "third")]  # as after a resume
    assert said(chat(tmp_path / "b.jsonl", *rows, {"$set": {"messages": listed}})) == told
    assert said(chat(tmp_path / "c.jsonl", *rows, {"$rewindTo": "n3"})) == told[:4]  # no more than is sure
    call = turn("7", "gemini", "", model="m", toolCalls=[{"id": "c", "name": "write_file", "args": {}}])
    mixed = {"$set": {"messages": [*listed, turn("7", "gemini", [{"functionCall": {}}]), turn("8", "gemini", "cut")]}}
    messages = list(read_messages(chat(tmp_path / "d.jsonl", *rows, call, mixed)))
    assert [at.name for message in messages for at in message.calls] == ["write_file"] and messages[-1].id == "7"


def test_two_records_in_a_line_count_and_a_broken_one_takes_no_sound_ones_place(tmp_path: Path) -> None:
    one, two = (json.dumps(turn(*at), separators=(",", ":")) for at in (("1", "user", "one"), ("2", "gemini", "two")))
    broken = two.replace('"content":', '"content:')
    assert said(chat(tmp_path / "a.jsonl", one + two, broken, two[:-5] + one)) == ["u:one", "a:two"]


def test_damage_in_a_chat_costs_what_is_damaged(tmp_path: Path) -> None:
    whole = [turn("1", "user", "one"), turn("2", "gemini", "first", toolCalls=[None, {"name": 3}, {"id": "c"}])]
    cut = json.dumps(turn("2", "gemini", "first, and more"), separators=(",", ":"))[:-20]
    path = chat(
        tmp_path / "a.jsonl", *whole, cut, '{"$set": 3}', '{"$set": {"messages": 3}}', "\0\0", turn("3", "user", 3)
    )
    assert said(path) == ["u:one", "a:first"]
    bare = tmp_path / "b.jsonl"
    bare.write_text(json.dumps(turn("1", "gemini", "no head")) + "\n", encoding="utf-8")
    assert said(bare) == ["a:no head"] and describe_transcript(bare).session == "b"


def test_chats_of_a_project_are_found_by_the_path_that_their_folder_names(tmp_path: Path) -> None:
    home, root = tmp_path / "home", tmp_path / "app"
    folder = home / ".gemini" / "tmp" / "app"
    (folder / "chats").mkdir(parents=True)
    root.mkdir()
    (folder / ".project_root").write_text(str(root), encoding="utf-8")
    digest = sha256(str(root).encode()).hexdigest()
    path = chat(folder / "chats" / "session-1.jsonl", {**HEAD, "projectHash": digest}, turn("1", "user", "hi"))
    path.write_text(path.read_text(encoding="utf-8").partition("\n")[2], encoding="utf-8")
    environment = read_environment({"HOME": str(home)})
    (info,) = list_transcripts(environment, root)
    assert (info.format, info.session, info.cwd, info.is_subagent) == ("gemini-cli", "g-1", str(root), False)
    (folder / ".project_root").write_text(str(tmp_path), encoding="utf-8")  # somebody else's word for it
    assert list_transcripts(environment, root) == ()
    moved = read_environment({"HOME": str(tmp_path), "GEMINI_CLI_HOME": str(home)})
    (folder / ".project_root").write_text(str(root), encoding="utf-8")
    assert [at.path for at in list_transcripts(moved, root)] == [path]


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    hooks = Hooks(tmp_path)
    hooks.cli.save("ferry", "The ferry to Lindholm leaves at six, from pier nine.", "--type", "project")
    return hooks


def replay(hooks: Hooks, host: str, *wanted: int) -> Iterator[Told]:
    """The calls of a real client, in this project."""
    name = f"{host.partition('-')[0]}-hooks.jsonl"
    lines = (DATA / name).read_text(encoding="utf-8").splitlines()
    for number in wanted:
        line = lines[number].replace("/home/dev/app", str(hooks.cli.project)).replace("/home/dev", str(hooks.cli.home))
        row = json.loads(line)
        env = hooks.cli.environ()
        yield call_hook(row["event"], row["given"], cwd=hooks.cli.project, env=env, host=host)


def lay(hooks: Hooks, source: Path, host: str) -> Path:
    """The transcript where the client's calls say that it is."""
    line = (DATA / f"{host.partition('-')[0]}-hooks.jsonl").read_text(encoding="utf-8").splitlines()[0]
    path = Path(json.loads(line)["given"]["transcript_path"].replace("/home/dev", str(hooks.cli.home)))
    path.parent.mkdir(parents=True)
    rows = source.read_text(encoding="utf-8").splitlines()
    # Without the agent's own save: then it is left to the worker.
    kept = [row for row in rows if "memory_save" not in row]
    path.write_text("\n".join(kept) + "\n", encoding="utf-8")
    return path


def test_calls_of_the_real_codex_are_answered_and_its_rollout_is_learned_from(hooks: Hooks) -> None:
    lay(hooks, ROLLOUT, "codex")
    start, prompt, denied, patch, ferry, stop = replay(hooks, "codex", 0, 1, 2, 3, 8, 9)
    assert "[ferry](ferry.md)" in start.context and prompt.out == b""
    assert "password" in denied.refusal and patch.out == b""
    assert "pier nine" in ferry.context and stop.out == b""
    wait_for_worker(hooks.state)
    assert any("third of each month" in at.read_text(encoding="utf-8") for at in hooks.cli.memory.glob("*.md"))
    assert read_problems(hooks.state) == ()


def test_a_resumed_codex_is_sent_the_index_only_if_it_has_changed(hooks: Hooks) -> None:
    def start(source: str) -> str:
        return hooks("session-start", host="codex", source=source).context

    assert "[ferry](ferry.md)" in start("startup") and start("resume") == ""
    hooks.cli.save("invoices", "Invoices are sent on the third of each month.", "--type", "project")
    assert "(invoices.md)" in start("resume") and start("resume") == ""
    assert "(invoices.md)" in start("compact") and "(invoices.md)" in start("clear")
    assert "(invoices.md)" in hooks("session-start", host="codex", session="s-2", source="resume").context


def test_calls_of_the_real_gemini_are_answered_and_its_chat_is_learned_from(hooks: Hooks) -> None:
    lay(hooks, CHAT, "gemini-cli")
    start, prompt, denied, read, ferry, stop = replay(hooks, "gemini-cli", 0, 1, 2, 3, 8, 9)
    assert start.context == ""  # told there, it would stand before the prompt
    assert "[ferry](ferry.md)" in prompt.context and "pier nine" not in prompt.context
    assert denied.table["decision"] == "deny" and "password" in denied.table["reason"] and read.out == b""
    assert "pier nine" in ferry.context and "[ferry](ferry.md)" not in ferry.context and stop.out == b""
    wait_for_worker(hooks.state)
    assert any("third of each month" in at.read_text(encoding="utf-8") for at in hooks.cli.memory.glob("*.md"))
    assert read_problems(hooks.state) == () and read_queue(hooks.state) == ()


def test_a_prompt_with_our_own_reminder_before_it_is_asked_without_it(hooks: Hooks) -> None:
    """Another hook's words at the start of a session are put before the prompt, by `gemini -p`."""
    before = "<hook_context>The ferry to Lindholm leaves at six, from pier nine.</hook_context>\n\n"
    told = hooks("user-prompt", host="gemini-cli", prompt=f"{before}Format this haiku.")
    assert "Memory (saved" not in told.context
    assert "pier nine" in hooks("user-prompt", host="gemini-cli", prompt=before + FERRY).context
