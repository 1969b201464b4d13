"""Hosts' transcripts as messages: the conversation as it stands, whatever else the file holds."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from homes import git, make_environment, make_repository
from loads import ROOT, scaled
from memdir.conversation.lines import BLOCK_BYTES, LINE_BYTES
from memdir.conversation.transcripts import (
    READERS,
    MessageRun,
    describe_transcript,
    list_transcripts,
    read_messages,
    read_pieces,
    read_tail,
)
from memdir.errors import DiskError, FormatError, NotFoundError
from memdir.limits import EXTRACT_WINDOW
from memdir.project.hosts import HOSTS
from memdir.store.sessions import Cursor
from slices import read_slice
from syscalls import trace
from tables import read_rows
from transcript_writer import Claude, said

ROWS = read_rows("transcripts")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s-1.jsonl"


def test_a_split_message_is_one_with_the_id_of_its_last_record(path: Path) -> None:
    talk = Claude()
    talk.user("hi")
    talk.assistant([{"type": "thinking", "thinking": "hm"}], "m1")
    talk.assistant("I look.", "m1")
    last = talk.call("c1", "m1")
    talk.result("c1", [{"type": "text", "text": "a"}, {"type": "image", "source": {}}])
    talk.assistant("Done.")
    assert said(talk.write(path)) == ["u:hi", "a:I look.+c1", "t:c1=a\n\n[image]", "a:Done."]
    messages = list(read_messages(path))
    assert messages[1].id == last and messages[0].at == datetime(2026, 3, 5, 10, 0, 0, tzinfo=UTC)
    assert messages[1].calls[0].input == {"command": "ls"}


def test_results_of_calls_made_at_once_are_taken_with_their_calls(path: Path) -> None:
    talk = Claude()
    talk.user("go")
    one = talk.call("c1", "m1")
    two = talk.call("c2", "m1")
    three = talk.call("c3", "m1")
    talk.result("c2", parent=two)
    talk.result("c1", parent=one, failed=True)
    talk.result("c3", parent=three)
    talk.assistant("Done.")
    assert said(talk.write(path)) == ["u:go", "a:+c1+c2+c3", "t:c2=ok", "t:!c1=ok", "t:c3=ok", "a:Done."]


def test_a_call_whose_result_came_before_the_next_call_is_kept_with_its_message(path: Path) -> None:
    talk = Claude()
    talk.user("go")
    one = talk.call("c1", "m1")
    talk.result("c1", parent=one)
    talk.attach(type="hook_additional_context", content=["a fact"])
    two = talk.call("c2", "m1", parent=one)
    talk.result("c2", parent=two)
    talk.assistant("Done.")
    assert said(talk.write(path)) == ["u:go", "a:+c1+c2", "t:c1=ok", "t:c2=ok", "a:Done."]
    talk = Claude()
    talk.user("go")
    one = talk.call("c1", "m1")
    first = talk.result("c1", parent=one)
    two = talk.call("c2", "m1", parent=one)
    talk.result("c2", parent=two)
    talk.assistant("Done.", parent=first)
    assert said(talk.write(path)) == ["u:go", "a:+c1+c2", "t:c1=ok", "t:c2=ok", "a:Done."]


def test_a_branch_left_behind_and_subagents_are_left_out(path: Path) -> None:
    talk = Claude()
    talk.user("first")
    fork = talk.assistant("one")
    talk.user("wrong way")
    lost = talk.call("c1", "m9")
    talk.result("c1")
    talk.assistant("two")
    talk.user("sub task", parent=None, isSidechain=True, agentId="a1")
    talk.assistant("sub answer", isSidechain=True, agentId="a1")
    talk.user("right way", parent=fork)
    talk.assistant("three")
    assert said(talk.write(path)) == ["u:first", "a:one", "u:right way", "a:three"]
    assert read_slice(path, after=lost, window=2).found is False
    assert [at.text for at in read_slice(path, after=lost, window=2).messages] == ["right way", "three"]


def test_what_the_host_wrote_is_meta(path: Path) -> None:
    talk = Claude()
    talk.attach(type="hook_success", stdout="noise")
    talk.attach(type="hook_additional_context", content=["fact one", "fact two"])
    talk.attach(type="skill_listing", content="noise")
    talk.user("typed")
    talk.attach(type="file", filename="/work/app/notes.txt", content={"file": {"content": "x"}})
    talk.user("<command-name>/clear</command-name>\n<command-args></command-args>")
    talk.user("<local-command-stdout>done</local-command-stdout>")
    talk.user("caveat", isMeta=True)
    talk.add("system", subtype="local_command", content="<command-name>/cost</command-name>")
    talk.add("system", subtype="api_error", content="noise")
    talk.add("progress", data={})
    talk.user("[Request interrupted by user]")
    talk.user("from a channel", origin={"kind": "channel"})
    talk.user("from a person", origin={"kind": "human"})
    talk.user("from a mate", teamName="t")
    talk.attach(type="queued_command", prompt="typed meanwhile", commandMode="prompt")
    talk.attach(
        type="queued_command", prompt="<task-notification>x</task-notification>", commandMode="task-notification"
    )
    talk.assistant("API Error", isApiErrorMessage=True)
    talk.user("typed <system-reminder>a</system-reminder> more")
    assert said(talk.write(path)) == ROWS["what_the_host_wrote_is_meta"]


@pytest.mark.parametrize("logical", ["whole", "missing", "elsewhere"])
def test_a_compaction_is_passed_and_its_summary_is_meta(path: Path, logical: str) -> None:
    talk = Claude()
    talk.user("before")
    last = talk.assistant("one")
    more = {"whole": {"logicalParentUuid": last}, "missing": {}, "elsewhere": {"logicalParentUuid": "gone"}}[logical]
    talk.add("system", parent=None, subtype="compact_boundary", content="Conversation compacted", **more)
    talk.user("a summary", isCompactSummary=True)
    talk.user("after")
    talk.assistant("two")
    assert said(talk.write(path)) == ["u:before", "a:one", "(u:a summary)", "u:after", "a:two"]
    assert said(path, after=last) == ["(u:a summary)", "u:after", "a:two"]


def test_a_record_written_twice_counts_once(path: Path) -> None:
    talk = Claude()
    talk.user("hi")
    talk.call("c1", "m1")
    talk.result("c1")
    talk.assistant("done")
    for record in list(talk.records):
        talk.records.append(record)
    assert said(talk.write(path)) == ["u:hi", "a:+c1", "t:c1=ok", "a:done"]


def test_records_outside_the_tree_and_of_unknown_kinds_are_passed_over(path: Path) -> None:
    talk = Claude()
    talk.plain(type="summary", summary="x", leafUuid="y")
    talk.plain(type="file-history-snapshot", snapshot={})
    talk.user("hi")
    talk.plain(type="of-the-future", uuid="f", parentUuid="u0")
    talk.plain(type=["odd"], uuid={}, message=3)
    talk.assistant("done")
    talk.plain(type="last-prompt", lastPrompt="hi")
    assert said(talk.write(path)) == ["u:hi", "a:done"]


def test_each_message_can_be_the_cursor_and_only_what_follows_comes(path: Path) -> None:
    talk = Claude()
    for turn in range(4):
        talk.user(f"question {turn}")
        one = talk.call(f"c{turn}a", f"m{turn}")
        two = talk.call(f"c{turn}b", f"m{turn}")
        talk.result(f"c{turn}a", parent=one)
        talk.result(f"c{turn}b", parent=two)
        talk.attach(type="hook_additional_context", content=["fact"])
        talk.assistant(f"answer {turn}")
    messages = list(read_messages(talk.write(path)))
    assert len(messages) == 4 * 6
    for number, message in enumerate(messages):
        since = read_slice(path, after=message.id, window=3)
        assert since.found and list(since.messages) == messages[number + 1 :]
        assert read_tail(path, number) == tuple(messages[len(messages) - number :])
    assert read_slice(path, after="gone", window=3).messages == tuple(messages[-3:])
    for number, message in enumerate(messages[:-1]):
        (piece,) = read_pieces(path, Cursor(message.id, position=number))
        assert piece == MessageRun(tuple(messages[number + 1 :]), number + 1, tuple(messages[: number + 1]))
    assert [at.messages for at in read_pieces(path, Cursor("gone"), window=2)] == [tuple(messages[-2:])]
    assert [at.messages for at in read_pieces(path, Cursor("gone"))] == [tuple(messages)]
    assert read_slice(path, after="", window=3).messages == tuple(messages[-3:])
    assert list(read_messages(path, after="gone")) == messages


@pytest.mark.parametrize("shape", ["claude", "codex"])
def test_what_comes_after_a_cursor_is_read_from_the_end_however_much_lies_before_it(path: Path, shape: str) -> None:
    talk, rows = Claude(), [META]
    for turn in range(4_000):
        talk.user(f"question {turn} {'x' * 1_000}")
        talk.assistant("answer")
        rows += [message("user", f"question {turn} {'x' * 1_000}"), message("assistant", "answer")]
    if shape == "claude":
        talk.write(path)
    else:
        path.write_text("\n".join([*map(str, rows), ""]), encoding="utf-8")
    known = list(read_messages(path))
    cursor = Cursor(known[-3].id, position=len(known) - 3)
    read: list[MessageRun] = list(read_pieces(path, cursor))
    assert [at.messages for at in read] == [tuple(known[-2:])] and read[0].start == len(known) - 2
    assert read[0].context == tuple(known[-2 - EXTRACT_WINDOW : -2])
    seen = trace(lambda: list(read_pieces(path, cursor)))
    assert path.stat().st_size > 4_000_000
    assert sum(call.result or 0 for call in seen.named("read", "pread64") if call.target == str(path)) < 1_500_000


def test_a_cursor_in_the_middle_of_a_turn_misses_nothing_that_is_written_later(path: Path) -> None:
    talk = Claude()
    talk.user("go")
    one = talk.call("c1", "m1")
    talk.result("c1", parent=one)
    before = list(read_messages(talk.write(path)))
    two = talk.call("c2", "m1", parent=one)
    talk.result("c2", parent=two)
    talk.assistant("done")
    after = read_slice(talk.write(path), after=before[-1].id, window=9)
    assert after.found and [(at.role, at.text) for at in after.messages] == [
        ("assistant", ""),
        ("tool", "ok"),
        ("assistant", "done"),
    ]


def test_a_parent_that_is_gone_is_bridged(path: Path) -> None:
    talk = Claude()
    for turn in range(6):
        talk.user(f"q{turn}")
        talk.assistant(f"a{turn}")
    lines = talk.lines()
    for broken in (3, 6, 7):
        lines[broken] = lines[broken][: len(lines[broken]) // 2]
    path.write_text("\n".join(lines), encoding="utf-8")
    kept = [f"{'ua'[n % 2]}:{'qa'[n % 2]}{n // 2}" for n in range(12) if n not in (3, 6, 7)]
    assert said(path) == kept


def test_a_line_that_is_too_long_costs_itself_alone(path: Path) -> None:
    talk = Claude()
    talk.user("first")
    talk.call("c1", "m1")
    talk.result("c1", "x" * (LINE_BYTES + BLOCK_BYTES))
    talk.assistant("done")
    talk.user("second")
    assert said(talk.write(path)) == ["u:first", "a:+c1", "a:done", "u:second"]
    assert said(path, after="u3") == ["u:second"]


def test_lines_of_every_length_around_a_block_are_read_backwards_as_forwards(path: Path) -> None:
    for extra in (-1, 0, 1):
        talk = Claude()
        talk.user("a")
        talk.user("b" * (BLOCK_BYTES + extra - len(talk.lines()[0]) - 300))
        talk.user("c" * (2 * BLOCK_BYTES + extra))
        talk.user("d")
        assert [text[2] for text in said(talk.write(path))] == ["a", "b", "c", "d"]


def test_a_subagents_own_file_is_its_conversation(tmp_path: Path) -> None:
    talk = Claude()
    talk.user("task", isSidechain=True, agentId="a1")
    talk.assistant("answer", isSidechain=True, agentId="a1")
    path = talk.write(tmp_path / "s-1" / "subagents" / "agent-a1.jsonl")
    assert said(path) == ["u:task", "a:answer"]
    assert describe_transcript(path).is_subagent and describe_transcript(path).session == "s-1"


def line(kind: str, **payload: Any) -> str:
    return json.dumps({"timestamp": "2026-03-05T10:00:00.000Z", "type": kind, "payload": payload})


def item(kind: str, **more: Any) -> str:
    return line("response_item", type=kind, **more)


def message(role: str, *texts: str) -> str:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text} for text in texts])


META = line("session_meta", id="t-1", cwd="/work/app", timestamp="2026-03-05T10:00:00Z", source="cli")


def write(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{at}\n" for at in lines), encoding="utf-8")
    return path


def test_a_rollout_is_read_without_wrappers_events_and_thoughts(path: Path) -> None:
    write(
        path,
        META,
        message("developer", "<permissions instructions>x</permissions instructions>"),
        message("user", "# AGENTS.md instructions for /work/app\n\n<INSTRUCTIONS>\nx\n</INSTRUCTIONS>"),
        message("user", "<environment_context>\n  <cwd>/work/app</cwd>\n</environment_context>", "typed with it"),
        line("turn_context", cwd="/work/app", model="m"),
        line("event_msg", type="user_message", message="typed with it"),
        item("reasoning", summary=[]),
        message("assistant", "I look."),
        item("function_call", name="shell", arguments='{"command": ["bash", "-lc", "ls"]}', call_id="c1"),
        item("custom_tool_call", name="apply_patch", input="*** Begin Patch", call_id="c2"),
        item("function_call_output", call_id="c1", output='{"output": "a.txt", "metadata": {"exit_code": 2}}'),
        item("custom_tool_call_output", call_id="c2", output="Exit code: 0\nOutput:\nok"),
        item("local_shell_call", call_id="c3", action={"type": "exec", "command": ["ls"]}),
        item("function_call_output", call_id="c3", output=[{"type": "input_text", "text": "b"}]),
        message("assistant", "Done."),
        line("compacted", message="a summary"),
        message("user", "# Context from my IDE setup:\n\n## Open tabs\n- a\n\n## My request for Codex:\nfix it"),
    )
    assert said(path) == ROWS["a_rollout_is_read_without_wrappers_events_and_thoughts"]
    messages = list(read_messages(path))
    for number, at in enumerate(messages):
        found = read_slice(path, after=at.id, window=1)
        others = [later for later in messages[number + 1 :] if later.id != at.id]  # of one record both have its id
        assert found.found and list(found.messages) == others
    later = message("user", "and then?")
    path.write_bytes(path.read_bytes() + f"{later}\n".encode())
    assert [at.text for at in read_slice(path, after=messages[-1].id, window=1).messages] == ["and then?"]
    path.write_bytes(path.read_bytes().replace(b"fix it", b"do it."))
    assert not read_slice(path, after=messages[-1].id, window=1).found, "another line stands there now"
    path.write_bytes(path.read_bytes().replace(b"do it.", b"fix it").removesuffix(f"{later}\n".encode()))
    assert messages[4].calls[0].input == {"command": ["bash", "-lc", "ls"]}
    assert messages[4].calls[1].input == {"input": "*** Begin Patch"}
    for count in range(len(messages) + 2):
        assert read_tail(path, count) == tuple(messages[max(len(messages) - count, 0) :])
    info = describe_transcript(path)
    assert (info.format, info.session, info.cwd, info.is_subagent) == ("codex", "t-1", "/work/app", False)


def test_turns_that_were_rolled_back_are_gone(path: Path) -> None:
    turns = [text for n in range(4) for text in (message("user", f"q{n}"), message("assistant", f"a{n}"))]
    back = line("event_msg", type="thread_rolled_back", num_turns=2)
    write(path, META, *turns, back, message("user", "q4"), message("assistant", "a4"))
    assert said(path) == ["u:q0", "a:a0", "u:q1", "a:a1", "u:q4", "a:a4"]


def test_rollouts_of_subagents_are_known(tmp_path: Path) -> None:
    sub = line("session_meta", id="t-2", cwd="/work/app", source={"subagent": {"thread_spawn": {}}})
    assert describe_transcript(write(tmp_path / "b.jsonl", sub, message("user", "hi"))).is_subagent


PLAIN: list[Any] = ROWS["PLAIN"]
SPOKEN = ["(u:be kind)", "u:hi", "a:a+c1", "t:c1=r", "a:+c2", "t:c2=s", "u:[image]\n\n日本"]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(PLAIN),
        json.dumps(PLAIN, indent=2, ensure_ascii=False),
        "\ufeff" + json.dumps({"model": "m", "system": ["x"], "messages": PLAIN}),
        json.dumps({"n": 12, "messages": PLAIN, "more": 1}, indent=1),
        "".join(json.dumps(at) + "\n" for at in PLAIN),
        "[\n" + ",\n".join(json.dumps(at) for at in PLAIN) + "\n]\n",
    ],
)
def test_plain_json_is_read_in_each_of_its_shapes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "talk.json"
    path.write_text(text, encoding="utf-8")
    assert describe_transcript(path).format == "plain"
    assert said(path) == SPOKEN
    messages = list(read_messages(path))
    assert {at.id for at in messages} == {""} and messages[1].at == datetime(2026, 3, 5, 10, tzinfo=UTC)
    assert read_tail(path, 2) == tuple(messages[-2:])
    assert describe_transcript(path).session == "talk"


@pytest.mark.parametrize("text", ["hello\n", "{}\n", "[1, 2]", '{"type": "user"}\n', "[" * 50_000, '"x"\n', "\xff\xfe"])
def test_what_is_no_transcript_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(text.encode("latin-1"))
    for read in (lambda: list(read_messages(path)), lambda: describe_transcript(path), lambda: read_tail(path, 3)):
        with pytest.raises(FormatError) as caught:
            read()
        assert caught.value.hint and "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_closed_is_one_clear_error(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path / "none" / "below", Path("a\0b")):
        with pytest.raises(NotFoundError) as caught:
            list(read_messages(path))
        assert caught.value.hint
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(FormatError):
            list(read_messages(path))
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(DiskError):
        list(read_messages(loop))


def test_an_empty_transcript_has_no_messages(path: Path) -> None:
    path.write_bytes(b"\n\0\0\n")
    assert said(path) == [] and read_tail(path, 3) == ()
    assert read_slice(path, after="x", window=3).messages == ()


def test_transcripts_of_a_project_are_those_begun_in_it_its_subfolders_and_worktrees(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    root = make_repository(tmp_path / "app")
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    (root / "docs").mkdir()
    other = make_repository(tmp_path / "other")
    projects = environment.claude_home / "projects"
    for number, cwd in enumerate(
        [root, root / "docs", tmp_path / "tree", other, root / ".claude" / "worktrees" / "gone"]
    ):
        talk = Claude()
        talk.user("hi", cwd=str(cwd), sessionId=f"s{number}", timestamp=f"2026-03-0{number + 1}T00:00:00Z")
        talk.write(projects / f"slug-{number}" / f"s{number}.jsonl")
    talk.write(projects / "slug-0" / "s0" / "subagents" / "agent-x.jsonl")
    talk.write(projects / "slug-0" / "agent-y.jsonl")
    (projects / "slug-0" / "broken.jsonl").write_text("nothing\n", encoding="utf-8")
    start = line("session_meta", id="t-1", cwd=str(root), timestamp="2026-02-01T00:00:00Z")
    write(environment.codex_home / "sessions" / "2026" / "03" / "05" / "rollout-1.jsonl", start, message("user", "hi"))
    write(environment.codex_home / "sessions" / "2026" / "03" / "05" / "other.jsonl", start)
    found = list_transcripts(environment, root)
    assert [info.session for info in found] == ["s0", "s1", "s2", "s4", "t-1"]
    assert [info.format for info in found] == ["claude-code"] * 4 + ["codex"]
    os.utime(found[0].path, (1_000_000_000, 1_000_000_000))
    recent = list_transcripts(environment, root, since=datetime(2026, 1, 1, tzinfo=UTC))
    assert [info.session for info in recent] == ["s1", "s2", "s4", "t-1"]
    assert list_transcripts(make_environment(tmp_path / "else"), root) == ()


MEASURE = """
import resource, sys, time
from memdir.conversation.transcripts import read_messages
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
count = last = 0
for message in read_messages(sys.argv[1]):
    count, last = count + 1, message
whole = time.process_time() - start
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
start = time.process_time()
found = list(read_messages(sys.argv[1], after=sys.argv[2]))
print(count, grown, whole, time.process_time() - start, len(found), bool(found))
"""


@pytest.mark.load
@pytest.mark.parametrize("shape", ["claude", "codex", "plain"])
def test_a_large_transcript_needs_little_memory_and_its_end_is_read_quickly(tmp_path: Path, shape: str) -> None:
    path, size, number, cursor = tmp_path / "big.jsonl", scaled(500_000_000), 0, ""
    with path.open("w", encoding="utf-8") as file:
        file.write(f"{META}\n" if shape == "codex" else "")
        while file.tell() < size:
            talk = Claude()
            talk.last = cursor or None
            texts = {"u": f"question {number}", "a": "answer " * 50, "t": "x" * 6000}
            if shape == "claude":
                talk.user(texts["u"], uuid=f"{number}-0")
                talk.call("c1", f"m{number}", uuid=f"{number}-1")
                talk.result("c1", texts["t"], uuid=f"{number}-2")
                cursor = talk.assistant(texts["a"], f"n{number}", uuid=f"{number}-3")
                file.writelines(f"{at}\n" for at in talk.lines())
            elif shape == "codex":
                file.writelines(f"{message(role, texts[role[0]] + texts['t'])}\n" for role in ("user", "assistant"))
            else:
                file.write(json.dumps({"role": "user", "content": texts["u"] + texts["t"]}) + "\n")
            number += 1
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", MEASURE, str(path), f"{number - 3}-3"]
    done = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", check=True)
    count, grown, whole, end, since, found = done.stdout.split()
    assert int(count) == number * {"claude": 4, "codex": 2, "plain": 1}[shape]
    assert int(grown) * (1 if sys.platform == "darwin" else 1024) < 60_000_000
    if shape == "claude":
        assert (since, found) == ("8", "True") and float(end) < float(whole) / 10


def test_the_time_of_a_message_is_in_the_zone_of_the_person(path: Path) -> None:
    line = ROWS["the_time_of_a_message_is_in_the_zone_of_the_person"]
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    code = "import sys\nfrom memdir.conversation.transcripts import read_messages\nprint(next(iter(read_messages(sys.argv[1]))).at)"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        env={**os.environ, "TZ": "Asia/Tokyo"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert ran.stdout.strip() == "2026-11-19 08:30:00+09:00"


def test_each_host_whose_transcripts_are_read_has_a_reader_under_its_key() -> None:
    assert set(READERS) == {"plain", *(host.key for host in HOSTS.values() if host.reader)}
    # Plain messages have the fewest marks; no other format takes them for its own.
    plain: dict[str, object] = {"role": "user", "content": "hi"}
    assert [key for key, reader in READERS.items() if reader.detect(plain)] == ["plain"]
