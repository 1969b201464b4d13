"""Damaged transcripts: what is intact is read, what is not is passed over, and nothing is raised."""

import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loads import ROOT, scaled
from memdir.conversation.claude import find_records
from memdir.conversation.lines import LINE_BYTES, RecordQuery, read_lines_back, read_transcript_lines
from memdir.conversation.transcripts import describe_transcript, read_messages, read_tail
from memdir.errors import FormatError
from slices import read_slice
from transcript_writer import Claude, said

HI = {"type": "input_text", "text": "hi"}
CODEX = [
    {"type": "session_meta", "payload": {"id": "t", "cwd": "/work/app"}},
    {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [HI]}},
    {"type": "response_item", "payload": {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}},
    {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 0}},
]
ANSWER = [{"type": "text", "text": "ü"}]
PLAIN = {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ANSWER}]}


class Counting(io.BufferedReader):
    """Counts the bytes that are asked for."""

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__(raw)
        self.count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        self.count += len(data)
        return data


def make_claude() -> bytes:
    talk = Claude()
    talk.user("hi ü")
    one, two = talk.call("c1", "m1"), talk.call("c2", "m1")
    talk.result("c1", parent=one)
    talk.result("c2", parent=two)
    talk.assistant("done")
    return "".join(f"{line}\n" for line in talk.lines()).encode()


@pytest.mark.parametrize(
    "data",
    [make_claude(), "".join(json.dumps(at) + "\n" for at in CODEX).encode(), json.dumps(PLAIN, indent=1).encode()],
    ids=["claude", "codex", "plain"],
)
def test_a_file_cut_anywhere_gives_a_start_of_what_was_said(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(data)
    texts = [(at.role, at.text) for at in read_messages(path)]
    counts = []
    for end in range(len(data)):
        path.write_bytes(data[:end])
        try:
            found = [(at.role, at.text) for at in read_messages(path)]
            read_tail(path, 2), read_slice(path, after="u1", window=2), describe_transcript(path)
        except FormatError:
            found = []
        assert all(at in texts for at in found)
        counts.append(len(found))
    assert counts == sorted(counts) and counts[-1] >= len(texts) - 1


DAMAGE: list[Callable[[bytes, random.Random], bytes]] = [
    lambda line, dice: line[: dice.randrange(len(line) // 2)],
    lambda line, dice: line[dice.randrange(1, len(line)) :],
    lambda line, dice: b"\0" * dice.randrange(1, 9000),
    lambda line, dice: bytes(dice.randrange(256) for _ in range(50)).replace(b"\n", b"x"),
    lambda line, dice: line.replace(b'"', b"'"),
    lambda line, dice: b"[" * 20_000,
    lambda line, dice: b'{"a":' * 20_000,
    lambda line, dice: b"null",
    lambda line, dice: b"[]",
    lambda line, dice: line.replace(b"u", b"\xff"),
    lambda line, dice: line[:10] + b"\r" + line[10:-3],
    lambda line, dice: b'{"type": "user", "uuid": ["x"], "parentUuid": {}, "message": {"content": [{"type": []}, 3]}}',
]


def test_damage_at_random_costs_the_damaged_lines_alone(tmp_path: Path) -> None:
    dice = random.Random(7)
    path = tmp_path / "s.jsonl"
    for _ in range(scaled(3000)):
        talk = Claude()
        count = dice.randrange(4, 40)
        for number in range(count):
            (talk.user if number % 2 == 0 else talk.assistant)(f"said {number}.")
        lines = [line.encode() for line in talk.lines()]
        broken = set(dice.sample(range(count), dice.randrange(1, count // 2)))
        for number in broken:
            lines[number] = dice.choice(DAMAGE)(lines[number], dice)
        path.write_bytes(dice.choice([b"\n", b"\r\n", b"\n\n"]).join(lines) + dice.choice([b"", b"\n"]))
        whole = [f"{'ua'[number % 2]}:said {number}." for number in range(count) if number not in broken]
        assert said(path) == whole
        middle = dice.choice([number for number in range(count) if number not in broken])
        after = [text for text in whole if int(text.split()[1][:-1]) > middle]
        assert said(path, after=f"u{middle}") == after


def test_two_records_on_one_line_and_runs_of_nul_are_read(tmp_path: Path) -> None:
    talk = Claude()
    for number in range(6):
        talk.user(f"{number}")
    lines = talk.lines()
    path = tmp_path / "s.jsonl"
    text = f"{lines[0]}{lines[1]}\n\0\0\0{lines[2]}\n{lines[3]} {lines[4]}{lines[5][:30]}\n{lines[5]}"
    path.write_text(text, encoding="utf-8")
    assert said(path) == [f"u:{number}" for number in range(6)]
    assert said(path, after="u3") == ["u:4", "u:5"]


def test_parents_in_a_circle_or_after_their_children_end_the_walk(tmp_path: Path) -> None:
    talk = Claude()
    talk.user("a", uuid="a", parent="c")
    talk.user("b", uuid="b", parent="b")
    talk.user("c", uuid="c", parent="a")
    path = talk.write(tmp_path / "s.jsonl")
    assert set(said(path)) <= {"u:a", "u:b", "u:c"} and "u:c" in said(path)


def test_lines_are_the_same_from_either_end(tmp_path: Path) -> None:
    dice = random.Random(3)
    path = tmp_path / "x"
    for _ in range(scaled(300)):
        path.write_bytes(b"\n".join(b"x" * dice.choice([0, 1, 70_000, 300_000]) for _ in range(dice.randrange(1, 9))))
        with path.open("rb") as file:
            there = [line.rstrip(b"\n") for _, line in read_transcript_lines(file) if line.strip()]
            back = list(read_lines_back(file))
            assert [line for _, line in back] == there[::-1]
            data = path.read_bytes()
            assert all(data.startswith(line, offset) for offset, line in back)


def test_one_endless_line_is_never_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    talk = Claude()
    talk.user("before")
    talk.user("x")
    talk.user("after")
    lines = talk.lines()
    with path.open("w", encoding="utf-8") as file:
        head, _, tail = lines[1].partition('"x"')
        file.write(f'{lines[0]}\n{head}"')
        for _ in range(12):
            file.write("x" * LINE_BYTES)
        file.write(f'"{tail}\n{lines[2]}\n')
    code = (
        "import resource, sys; from memdir.conversation.transcripts import read_messages\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "texts = [message.text for message in read_messages(sys.argv[1])]\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, *texts)"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code, str(path)], env=env, capture_output=True, encoding="utf-8")
    grown, *texts = done.stdout.split()
    assert texts == ["before", "after"] and int(grown) * (1 if sys.platform == "darwin" else 1024) < 60_000_000


def test_many_damaged_lines_do_not_cost_their_square(tmp_path: Path) -> None:
    talk = Claude()
    for number in range(3000):
        talk.user(f"{number}")
    lines = [line if number % 3 else line[:40] for number, line in enumerate(talk.lines())]
    path = tmp_path / "s.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    with path.open("rb", buffering=0) as raw:
        file = Counting(raw)
        assert len(find_records(file, RecordQuery(path)).positions) == 2000
    assert file.count <= 3 * path.stat().st_size


def test_a_file_that_shrinks_meanwhile_ends_quietly(tmp_path: Path) -> None:
    talk = Claude()
    for number in range(2000):
        talk.user(f"{number} " + "x" * 500)
    path = talk.write(tmp_path / "s.jsonl")
    messages = read_messages(path)
    assert next(messages).text.startswith("0 ")
    os.truncate(path, 1000)
    assert len(list(messages)) < 2000
