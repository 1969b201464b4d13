"""Plain search: every word, any form, with the place; in memories and in damaged transcripts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clihelp import SOURCE, Cli, memory_text
from memdir.conversation.lines import LINE_BYTES
from memdir.conversation.transcripts import search_transcripts
from memdir.recall.find import SNIPPET_CHARS, find_spot, has_all, make_snippet, parse_words, search_memories
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from memdir.testing import sample_memory
from tables import read_rows, table

ROWS = read_rows("recall_find")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = Cli(tmp_path)
    cli.file(
        "merge-freeze",
        memory_text("Freeze", "Release branch is frozen for the mobile team", "No merges.\n\nUntil May.\n"),
    )
    cli.file(
        "sub/deploys",
        memory_text("Deploys", "How billing gets deployed", "First build.\nThen we deploy billing at night.\n"),
    )
    cli.file("other", memory_text("Other", "Nothing to see", "Straße und Café, 日本語のメモ.\n"))
    return cli  # fmt: skip


@pytest.mark.parametrize(("text", "name", "line"), ROWS["every_word_is_found_in_any_case_and_form_with_its_line"])
def test_every_word_is_found_in_any_case_and_form_with_its_line(cli: Cli, text: str, name: str, line: int) -> None:
    rows = cli("search", *text.split(), "--json").json["memories"]
    assert [(row["name"], row["line"]) for row in rows] == [(name, line)]
    told = cli("search", text).lines
    assert told[0].split("\t")[:2] == [str(cli.memory / f"{name}.md"), str(line)]


def test_words_that_only_the_name_holds_have_no_line(tmp_path: Path) -> None:
    store = MemoryStore()
    store.write(sample_memory(name="quartz-and-opal"))
    (hit,) = search_memories([store], "quartz", limit=5)
    assert (hit.line, hit.snippet) == (0, hit.header.description)


def test_a_memory_must_hold_every_word(cli: Cli) -> None:
    told = cli("search", "billing", "freeze")
    assert (told.code, told.out) == (0, "")
    assert cli("search", "billing", "freeze", "--json").json == {
        "query": "billing freeze",
        "memories": [],
        "transcripts": None,
    }


def test_words_together_come_before_words_apart_and_newer_before_older(cli: Cli) -> None:
    for number, body in enumerate(("alpha here\nbeta there\n", "alpha and beta\n", "beta and alpha\n")):
        path = cli.file(f"n{number}", memory_text("N", "Some numbers", body))
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
    found = search_memories([FileStore(cli.memory)], "alpha beta", limit=9)
    assert [hit.header.name for hit in found] == ["n2", "n1", "n0"]
    assert len(search_memories([FileStore(cli.memory)], "alpha beta", limit=2)) == 2
    assert search_memories([FileStore(cli.memory)], " ", limit=2) == ()


def test_a_snippet_is_short_and_shows_the_word() -> None:
    line = "x " * 500 + "needle" + " y" * 500
    spot = find_spot(f"\n{line}\n", parse_words("needle"))
    assert spot is not None and spot.line == 2
    assert spot.snippet.startswith("…") and spot.snippet.endswith("…") and "needle" in spot.snippet[:60]
    assert len(spot.snippet) <= SNIPPET_CHARS + 2
    assert make_snippet("short line") == "short line"
    assert make_snippet("a" * 1000, 990).endswith("a")


@table("asked text is_met", ROWS["a_form_of_a_word_is_that_word"])
def test_a_form_of_a_word_is_that_word(asked: str, text: str, is_met: bool) -> None:
    assert has_all(text, parse_words(asked)) is is_met


def record(text: Any, at: str = "2026-01-02T03:04:05.000Z", kind: str = "user", **more: Any) -> str:
    return json.dumps({"type": kind, "timestamp": at, "message": {"role": kind, "content": text}, **more})


def write(path: Path, *lines: str | bytes, newer: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join((at.encode() if isinstance(at, str) else at) + b"\n" for at in lines))
    os.utime(path, (1_800_000_000 + newer, 1_800_000_000 + newer))
    return path


def test_what_was_said_is_found_with_file_line_time_and_role(cli: Cli) -> None:
    folder = cli.memory.parent
    first = write(
        folder / "one.jsonl",
        record("hello"),
        record("the flaky test again?", "2026-01-01T00:00:00Z"),
        record([{"type": "text", "text": "It is a flaky\nTEST of time."}], "2026-01-03T00:00:00Z", "assistant"),
    )
    result = [{"type": "tool_result", "content": [{"type": "text", "text": "test flaky: FAILED"}]}]
    second = write(folder / "two.jsonl", record(result, "2026-01-02T00:00:00Z"), newer=5)
    rows = cli("search", "--transcripts", "flaky", "test", "--json").json["transcripts"]
    assert [(row["path"], row["line"], row["role"], row["time"][:10]) for row in rows] == [
        (str(first), 3, "assistant", "2026-01-03"),
        (str(second), 1, "tool", "2026-01-02"),
        (str(first), 2, "user", "2026-01-01"),
    ]
    assert rows[0]["snippet"] == "It is a flaky" and rows[1]["snippet"] == "test flaky: FAILED"
    told = cli("search", "--transcripts", "flaky test", "--limit", "1").lines
    assert [line.split("\t")[:2] for line in told] == [[str(first), "3"]]


def test_transcripts_are_those_of_the_working_directory_and_of_the_root(cli: Cli) -> None:
    below = cli.project / "docs"
    below.mkdir()
    slug = cli.memory.parent.name
    for name, text in ((slug, "root"), (f"{slug}-docs", "below"), ("-another-project", "elsewhere")):
        write(cli.memory.parent.parent / name / "s.jsonl", record(f"a walrus at {text}"))
    for cwd, places in ((cli.project, ["root"]), (below, ["below", "root"])):
        rows = cli("search", "--transcripts", "walrus", "--json", cwd=cwd).json["transcripts"]
        assert sorted(row["snippet"].split()[-1] for row in rows) == places
    named = {"CLAUDE_CODE_PROJECT_DIR_NAME": "-another-project"}
    rows = Cli(cli.home.parent, **named)("search", "--transcripts", "walrus", "--json").json["transcripts"]
    assert [row["snippet"] for row in rows] == ["a walrus at elsewhere"]


def test_damage_costs_the_damaged_lines_alone(tmp_path: Path) -> None:
    good = [record(f"walrus number {number}", f"2026-01-{number + 1:02}T00:00:00Z") for number in range(9)]
    write(
        tmp_path / "a.jsonl",
        good[0],
        b'{"type": "user", "message": {"content": "walrus cut',
        b"\0" * 5000 + good[1].encode(),
        good[2] + good[3],
        b"\xff\xfe walrus",
        good[4].encode().replace(b"number", b"\xc3\x28 number"),
        "[" * 100_000 + "walrus",
        json.dumps({"type": "user", "message": "walrus", "timestamp": {}}),
        json.dumps({"type": "user", "message": {"content": [None, 1, {"type": "text"}, "walrus"]}}),
        json.dumps(["walrus"]),
        record("walrus", isMeta=True),
        record("<system-reminder>walrus</system-reminder> nothing"),
        record("walrus " + "x" * LINE_BYTES),
        good[5],
        json.dumps({"type": "summary", "summary": "All about the walrus"}),
        good[6].encode()[:-3],
    )
    found = search_transcripts([tmp_path, tmp_path / "nowhere"], "walrus", limit=50)
    lines = sorted((said.line, said.role) for said in found)
    assert lines == [(1, "user"), (3, "user"), (4, "user"), (4, "user"), (6, "user"), (14, "user"), (15, "summary")]


def test_a_conversation_that_was_taken_up_again_is_told_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / f"{name}.jsonl", record("walrus"))
    assert len(search_transcripts([tmp_path], "walrus", limit=9)) == 1


def test_only_files_of_the_host_are_opened(tmp_path: Path) -> None:
    write(tmp_path / "folder" / "s.jsonl", record("walrus"))
    os.mkfifo(tmp_path / "folder" / "pipe.jsonl")
    (tmp_path / "folder" / "link.jsonl").symlink_to(write(tmp_path / "outside.jsonl", record("a walrus outside")))
    (tmp_path / "folder" / "dir.jsonl").mkdir()
    assert [said.snippet for said in search_transcripts([tmp_path / "folder"], "walrus", limit=9)] == ["walrus"]


@pytest.mark.slow
def test_a_large_transcript_costs_time_and_no_memory(tmp_path: Path) -> None:
    big = write(tmp_path / "big.jsonl", *(record("x" * 90_000 + " walrus") for _ in range(1000)))
    assert big.stat().st_size > 90_000_000
    code = (
        "import resource, sys; from pathlib import Path; from memdir.conversation.transcripts import search_transcripts\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "found = search_transcripts([Path(sys.argv[1])], 'walrus', limit=3)\n"
        "print(len(found), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    env = {**os.environ, "PYTHONPATH": str(SOURCE)}
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=env, capture_output=True, check=True)
    count, grown = map(int, ended.stdout.split())
    assert count == 1 and grown * (1 if sys.platform == "darwin" else 1024) < 30_000_000
