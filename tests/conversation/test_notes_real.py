"""Notes of a long session that the real Claude Code client made: calls, errors, a compaction, and work after it."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from claude_client import make_client
from loads import scaled
from memdir.conversation.notes import NotesInput, find_notes_file, update_notes
from memdir.conversation.notes_file import (
    check_update,
    hook_digest,
    list_oversize,
    make_template,
    measure_notes,
    parse_notes,
    render_for_compaction,
)
from memdir.conversation.transcripts import read_messages
from memdir.errors import FormatError
from memdir.limits import NOTES_DIGEST_CHARS, NOTES_TOKENS
from memdir.store.sessions import open_session
from servers import Answer, AnthropicServer, Call, Say

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)

RECORDS = scaled(2_000)
SUMMARY = "<summary>They went through the rounds.</summary>"


class Rounds:
    """What the model says: rounds of calls, some of which fail, until the turn has had its share."""

    def __init__(self, rounds: int) -> None:
        self.left = self.rounds = rounds
        self.done = 0

    def __call__(self, body: dict[str, Any]) -> Answer:
        last = body["messages"][-1]["content"]
        texts = [last] if isinstance(last, str) else [at.get("text", "") for at in last]
        if any("detailed summary" in text for text in texts):
            return SUMMARY
        if not self.left:
            self.left = self.rounds
            return f"{self.done} rounds are done. Shall I go on?"
        self.left -= 1
        self.done += 1
        return [Say(f"Round {self.done}."), *self.make_calls(self.done)]

    def make_calls(self, number: int) -> list[Call]:
        return [
            Call("Bash", {"command": f"echo round {number}"}),
            Call("Write", {"file_path": f"notes-{number % 7}.txt", "content": f"{number}\n" * 40}),
            Call("Read", {"file_path": "readme.txt"}),
            Call("Read", {"file_path": f"missing-{number % 5}.txt"}),
            Call("Bash", {"command": f"cat notes-{number % 7}.txt"}),
            Call("Bash", {"command": "false" if number % 3 else "test -f readme.txt"}),
        ]


def test_notes_of_a_long_real_session_stay_within_their_limits_and_survive_its_compaction(tmp_path: Path) -> None:
    # A round is some fifteen records; they come in three turns, the last after a compaction.
    rounds = max(RECORDS // 15 // 3, 3)
    allowed = ("--allowedTools", "Read,Bash,Write", "--permission-mode", "acceptEdits")
    place, session = find_notes_file(tmp_path / "notes" / "project", "s"), open_session(tmp_path / "state", "s")
    template = make_template()
    sizes: list[int] = []

    def update() -> None:
        done = update_notes(place, session, NotesInput(tuple(read_messages(client.transcript))), now=NOW, force=True)
        assert done.by == "rules" and done.changed
        sizes.append(done.tokens)

    with AnthropicServer(Rounds(rounds)) as server:
        client = make_client(tmp_path, server.url)
        for prompt in ("Go through all the rounds", "Go through the rounds again"):
            assert client(prompt, *allowed, *(("-c",) if sizes else ())).code == 0
            update()
        assert client("/compact", "-c").code == 0
        while len(client.transcript.read_text(encoding="utf-8").splitlines()) < RECORDS:
            assert client("And once more after the break", "-c", *allowed).code == 0
            update()
    assert server.problems == []
    records = [json.loads(line) for line in client.transcript.read_text(encoding="utf-8").splitlines()]
    assert len(records) >= RECORDS and any(at.get("subtype") == "compact_boundary" for at in records)

    text = place.path.read_text(encoding="utf-8")
    notes = parse_notes(text)
    assert max(sizes) <= NOTES_TOKENS and measure_notes(notes) == sizes[-1] and list_oversize(notes) == ()
    found = {at.name: at.text for at in notes.sections}
    assert found["Session Title"] == "Go through all the rounds"
    assert "(the conversation was compacted)" in found["Worklog"] and "again” →" in found["Worklog"]
    assert "- `false`: exit 1" in found["Workflow"] and "notes-1.txt`: written" in found["Files and Functions"]
    assert (
        "missing-1.txt` (open" in found["Errors & Corrections"]
        and "Open question: Shall I go on?" in found["Current State"]
    )

    told = render_for_compaction(notes, path=str(place.path), template=template)
    again = parse_notes(told)
    assert again.sections == notes.sections and str(place.path) in again.preamble, "whole, and valid"
    assert 0 < len(hook_digest(notes, path=str(place.path))) <= NOTES_DIGEST_CHARS
    with pytest.raises(FormatError):
        check_update(notes, text.replace("# Worklog", "# Log"))
