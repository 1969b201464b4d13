"""Chats of Qwen Code, made by hand in the known format: what was said, by whom, and what follows a message."""

import json
from pathlib import Path

import pytest

from hook_calls import Hooks, wait_for_worker
from memdir.conversation.tool_calls import find_written_memory
from memdir.conversation.transcripts import describe_transcript, read_messages
from memdir.store.state import read_problems
from transcript_writer import said

HOOKED = "<qwen:user-prompt-submit-context>a reminder</qwen:user-prompt-submit-context>"
ASKED = "Remember that invoices are sent on the third of each month."


def record(id: str, kind: str, *parts: object, **more: object) -> dict[str, object]:
    role = "model" if kind == "assistant" else "user"
    head = {"uuid": id, "sessionId": "q-1", "timestamp": "2026-03-05T10:00:00.000Z", "type": kind}
    return {**head, "message": {"role": role, "parts": list(parts)}, **more}


def chat(path: Path, *records: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in records), encoding="utf-8")
    return path


def call(id: str, name: str = "write_file", **args: object) -> dict[str, object]:
    return {"functionCall": {"id": id, "name": name, "args": args}}


def result(id: str, **response: object) -> dict[str, object]:
    return {"functionResponse": {"id": id, "name": "write_file", "response": response}}


TALK = (
    record("0", "system", {"text": "You are in /work/app."}),
    record("1", "user", {"text": ASKED}),
    record("2", "assistant", {"text": "a thought", "thought": True}, {"text": "I write it."}, call("c1"), call("c2")),
    record("3", "tool_result", result("c1", output="ok"), result("c2", error="denied")),
    record("4", "assistant", {"text": "Noted."}),
    record("5", "user", {"text": HOOKED}, {"text": "And now?"}),
    record("6", "assistant", call("c3", "read_file")),
    record("7", "tool_result", result("c3", content=[{"text": "line one"}])),
    record("8", "assistant", {"text": "Nothing."}),
)


def test_each_kind_of_record_is_a_message_of_its_author(tmp_path: Path) -> None:
    path = chat(tmp_path / "a.jsonl", *TALK)
    assert said(path) == [
        "(u:You are in /work/app.)",
        f"u:{ASKED}",
        "a:I write it.+c1+c2",
        "t:c1=ok",
        "t:!c2=denied",
        "a:Noted.",
        "(u:a reminder)",
        "u:And now?",
        "a:+c3",
        "t:c3=line one",
        "a:Nothing.",
    ]
    info = describe_transcript(path)
    assert (info.format, info.session, info.cwd) == ("qwen-code", "q-1", "")


@pytest.mark.parametrize(
    "first", [{"type": "system", "uuid": "0", "sessionId": "q-1", "systemPayload": {}}, TALK[0], TALK[3]]
)
def test_the_format_is_known_whatever_record_comes_first(tmp_path: Path, first: object) -> None:
    path = chat(tmp_path / "a.jsonl", first, TALK[1])
    assert describe_transcript(path).format == "qwen-code" and said(path)[-1] == f"u:{ASKED}"


def test_damage_in_a_chat_costs_what_is_damaged(tmp_path: Path) -> None:
    odd = (record("2", "assistant", None, 3, {"text": 3}, {"functionCall": 3}), {**record("3", "user"), "message": 3})
    path = chat(tmp_path / "a.jsonl", TALK[1], *odd, record("4", "tool_result", {"functionResponse": {}}), TALK[4])
    path.write_text(path.read_text(encoding="utf-8") + json.dumps(TALK[5])[:-9], encoding="utf-8")
    assert said(path) == [f"u:{ASKED}", "t:=", "a:Noted."]


def test_a_failed_call_wrote_nothing(tmp_path: Path) -> None:
    wrote = record("2", "assistant", call("c1", file_path="/m/a.md"), call("c2", file_path="/m/b.md"))
    assert find_written_memory(read_messages(chat(tmp_path / "a.jsonl", wrote, TALK[3])), ["/m"]) == ("/m/a.md",)


def test_a_turn_is_learned_from_a_write_is_checked_and_a_prompt_recalls(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path)
    hooks.cli.save("ferry", "The ferry to Lindholm leaves at six, from pier nine.", "--type", "project")
    assert "[ferry](ferry.md)" in hooks("SessionStart", host="qwen-code", source="startup").context
    assert (
        "pier nine" in hooks("user-prompt", host="qwen-code", prompt="When does the ferry to Lindholm leave?").context
    )
    name, text = str(hooks.cli.memory / ".memdir" / "x.md"), "x"
    before = hooks(
        "before-tool", host="qwen-code", tool_name="write_file", tool_input={"file_path": name, "content": text}
    )
    assert before.refusal
    path = chat(hooks.cli.home / ".qwen" / "projects" / "-app" / "chats" / "q-1.jsonl", TALK[1], TALK[4])
    stop = hooks("stop", host="qwen-code", transcript_path=str(path), last_assistant_message="Noted.")
    assert stop.out == b""
    wait_for_worker(hooks.state)
    assert any("third of each month" in file.read_text(encoding="utf-8") for file in hooks.cli.memory.glob("*.md"))
    assert read_problems(hooks.state) == ()


def test_status_names_the_host_and_doctor_sees_that_its_hooks_are_silent(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path, MEMDIR_NOW="2026-03-01T10:00:00Z")
    assert hooks.cli("install", "qwen-code", "--yes").code == 0
    assert "Qwen Code" in hooks.cli("status").out and hooks.cli("doctor").out == ""
    for name in ("a", "b"):
        rows = ({**row, "cwd": str(hooks.cli.project)} for row in (TALK[1], TALK[4]))
        chat(hooks.cli.home / ".qwen" / "projects" / "-app" / "chats" / f"{name}.jsonl", *rows)
    hooks.cli.variables["MEMDIR_NOW"] = "2026-03-09T10:00:00Z"
    assert "from qwen-code" in hooks.cli("doctor").out
    assert hooks.cli("uninstall", "qwen-code").code == 0
    assert not (hooks.cli.home / ".qwen" / "settings.json").exists()
