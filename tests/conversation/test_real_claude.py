"""Transcripts written by the real Claude Code client say exactly what was said to it and by it."""

import json
from pathlib import Path
from typing import Any

from claude_client import Client, make_client
from homes import make_environment
from memdir.conversation.tool_calls import find_written_memory
from memdir.conversation.transcripts import describe_transcript, list_transcripts, read_messages, read_tail
from memdir.records import Message
from servers import Answer, AnthropicServer, Call, Say, Think
from slices import read_slice

PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def said(path: Path, **more: Any) -> list[tuple[str, str]]:
    return [(at.role, at.text) for at in read_messages(path, **more) if not at.is_meta]


def hook(event: str) -> list[dict[str, Any]]:
    told = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": f"A fact from {event}."}}
    return [{"hooks": [{"type": "command", "command": f"echo '{json.dumps(told)}'"}]}]


def set_up_hooks(client: Client, *events: str) -> None:
    folder = client.home / ".claude"
    folder.mkdir()
    text = json.dumps({"hooks": {event: hook(event) for event in events}})
    (folder / "settings.json").write_text(text, encoding="utf-8")


def test_a_turn_and_a_resumed_one_are_read_as_they_were_said(tmp_path: Path) -> None:
    with AnthropicServer(["Noted.", "Tea, you said."]) as server:
        client = make_client(tmp_path, server.url)
        assert client("Remember that I like tea").out == "Noted."
        first = list(read_messages(client.transcript))
        assert client("What do I like?", "-c").out == "Tea, you said."
    assert server.problems == []
    assert [(at.role, at.text) for at in first] == [("user", "Remember that I like tea"), ("assistant", "Noted.")]
    assert all(at.id and at.at and not at.calls for at in first)
    both = list(read_messages(client.transcript))
    assert both[:2] == first
    assert read_slice(client.transcript, after=first[-1].id, window=1).messages == tuple(both[2:])
    assert [(at.role, at.text) for at in both[2:]] == [("user", "What do I like?"), ("assistant", "Tea, you said.")]
    info = describe_transcript(client.transcript)
    assert (info.format, info.cwd, info.session) == ("claude-code", str(client.cwd), client.transcript.stem)
    assert info.started and info.ended and info.started <= both[0].at <= both[-1].at <= info.ended  # type: ignore[operator]


def test_calls_at_once_and_their_results_are_all_there_and_own_writes_are_seen(tmp_path: Path) -> None:
    memory = tmp_path / "project" / "memory"
    calls = [
        Call("Read", {"file_path": str(tmp_path / "project" / "readme.txt")}, "toolu_1"),
        Call("Write", {"file_path": str(memory / "tea.md"), "content": "tea\n"}, "toolu_2"),
        Call("Read", {"file_path": str(tmp_path / "project" / "nowhere.txt")}, "toolu_3"),
    ]
    with AnthropicServer([[Think("I look first."), Say("I look."), *calls], "Done."]) as server:
        client = make_client(tmp_path, server.url)
        turn = client("Look and write", "--allowedTools", "Read,Write", "--permission-mode", "acceptEdits")
    assert (turn.code, turn.out, server.problems) == (0, "Done.", [])
    messages = [at for at in read_messages(client.transcript) if not at.is_meta]
    assert [(at.role, at.answers, at.failed) for at in messages] == [
        ("user", "", False),
        ("assistant", "", False),
        ("tool", "toolu_1", False),
        ("tool", "toolu_2", False),
        ("tool", "toolu_3", True),
        ("assistant", "", False),
    ]
    asked = messages[1]
    assert asked.text == "I look." and [(at.id, at.name, dict(at.input)) for at in asked.calls] == [
        (call.id, call.name, dict(call.input)) for call in calls
    ]
    assert "hello" in messages[2].text and (memory / "tea.md").read_text(encoding="utf-8") == "tea\n"
    assert find_written_memory(messages, [memory]) == (str(memory / "tea.md"),)
    for number, message in enumerate(messages):
        since = read_slice(client.transcript, after=message.id, window=9)
        assert since.found and list(since.messages) == messages[number + 1 :]


def test_what_the_host_puts_in_is_meta_and_subagents_have_their_own_file(tmp_path: Path) -> None:
    task = {"description": "look", "prompt": "Look at it", "subagent_type": "general-purpose"}
    script: list[Answer] = ["One.", [Call("Agent", task, "toolu_a")], "Seen by the agent.", "Two.", "Hello, tea."]
    with AnthropicServer(script) as server:
        client = make_client(tmp_path, server.url)
        set_up_hooks(client, "SessionStart", "UserPromptSubmit")
        commands = client.cwd / ".claude" / "commands"
        commands.mkdir(parents=True)
        (commands / "greet.md").write_text("Greet $ARGUMENTS.\n", encoding="utf-8")
        assert client("First").out == "One."
        assert client("Send an agent", "-c", "--allowedTools", "Agent").out == "Two."
        assert client("/greet tea", "-c").out == "Hello, tea."
    assert server.problems == []
    path = client.transcript
    spoken = said(path)
    assert [text for role, text in spoken if role == "user"] == ["First", "Send an agent"]
    assert [text for role, text in spoken if role == "assistant"] == ["One.", "", "Two.", "Hello, tea."]
    metas = [at.text for at in read_messages(path) if at.is_meta]
    assert {"A fact from SessionStart.", "A fact from UserPromptSubmit.", "Greet tea.\n"} <= set(metas)
    (agent,) = path.with_suffix("").glob("subagents/**/agent-*.jsonl")
    assert said(agent) == [("user", "Look at it"), ("assistant", "Seen by the agent.")]
    assert describe_transcript(agent).is_subagent
    environment = make_environment(tmp_path, CLAUDE_CONFIG_DIR=str(client.home / ".claude"))
    assert [info.path for info in list_transcripts(environment, client.cwd)] == [path]
    assert list_transcripts(environment, tmp_path) == ()


def test_what_was_said_before_a_compaction_still_counts_and_the_summary_is_meta(tmp_path: Path) -> None:
    script = ["One.", "More.", "<summary>They said one thing.</summary>", "Two."]
    with AnthropicServer(script) as server:
        client = make_client(tmp_path, server.url)
        client("First")
        client("Go on", "-c")
        assert client("/compact", "-c").code == 0
        assert client("Second", "-c").out == "Two."
    path = client.transcript
    before = [("user", "First"), ("assistant", "One."), ("user", "Go on"), ("assistant", "More.")]
    assert said(path) == [*before, ("user", "Second"), ("assistant", "Two.")]
    assert any("They said one thing." in at.text for at in read_messages(path) if at.is_meta)


def test_a_rewind_leaves_its_branch_behind(tmp_path: Path) -> None:
    with AnthropicServer(["One.", "Two.", "Three."]) as server:
        client = make_client(tmp_path, server.url)
        client("First")
        kept = list(read_messages(client.transcript))
        client("Second", "-c")
        left = list(read_messages(client.transcript))[-1]
        session = client.transcript.stem
        turn = client("Third", "--resume", session, "--resume-session-at", kept[-1].id)
        assert turn.out == "Three.", turn.err
    assert said(client.transcript) == [
        ("user", "First"),
        ("assistant", "One."),
        ("user", "Third"),
        ("assistant", "Three."),
    ]
    gone = read_slice(client.transcript, after=left.id, window=2)
    assert not gone.found and [at.text for at in gone.messages] == ["Third", "Three."]


def test_what_a_person_types_while_the_agent_works_is_theirs(tmp_path: Path) -> None:
    # The tool waits until the host has noted the second message; the brackets keep it from finding itself.
    wait = "until grep -qs 'by the wa[y]' ~/.claude/projects/*/*.jsonl; do sleep 0.02; done; echo on"
    script: list[Answer] = [[Call("Bash", {"command": wait}, "toolu_w")], "A picture."]
    with AnthropicServer(script) as server:
        client = make_client(tmp_path, server.url)
        with client.talk("--allowedTools", "Bash") as talk:
            source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
            talk.say([{"type": "text", "text": "What is this?"}, {"type": "image", "source": source}])
            talk.wait_for("assistant")
            talk.say("Oh, by the way: I like tea")
            talk.wait_for("result")
    assert server.problems == []
    spoken = [at for at in read_messages(client.transcript) if not at.is_meta]
    assert [(at.role, at.text) for at in spoken] == [
        ("user", "What is this?\n\n[image]"),
        ("assistant", ""),
        ("tool", "on"),
        ("user", "Oh, by the way: I like tea"),
        ("assistant", "A picture."),
    ]
    assert all(isinstance(at, Message) for at in read_tail(client.transcript, 2))
    assert [at.text for at in read_tail(client.transcript, 2)] == ["Oh, by the way: I like tea", "A picture."]
