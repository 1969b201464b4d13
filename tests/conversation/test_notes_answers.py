"""Notes with the answers of a capable model that saw only the requests.

`tests/data/notes_answers.json` holds, by conversation (`tests/data/conversations`), the answers to two updates, after half of
what the person said and at the end.
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from memdir.conversation.notes import NotesResult, find_notes_file, read_notes_file, update_notes
from memdir.conversation.notes_file import hook_digest, list_oversize, make_template, measure_notes, parse_notes
from memdir.limits import NOTES_TOKENS
from memdir.store.files import FileStore
from memdir.store.sessions import SessionFile
from recorded import DATA, ROWS, make_message
from scripted_models import open_at
from servers import AnthropicServer, read_blocks

RECORDED: dict[str, list[Any]] = json.loads((DATA / "notes_answers.json").read_text(encoding="utf-8"))
# Of what ought to be remembered for good, these are said by the person and not in the notes.
LEFT: dict[str, list[str]] = {}


class Noted:
    """The notes of one conversation after its two updates."""

    def __init__(self, key: str, folder: Path) -> None:
        id = key.removeprefix("notes ")
        self.row = next(row for row in ROWS if row["id"] == id)
        messages, now = self.row["messages"], datetime.fromisoformat(self.row["now"])
        (folder / "memory").mkdir(parents=True)
        (folder / "project").mkdir()
        file = find_notes_file(folder / "project", id)
        answers = iter(list(map(read_blocks, RECORDED[key])))
        starts = [at for at, message in enumerate(messages) if message["role"] == "user"]
        self.done: list[NotesResult] = []
        with AnthropicServer(lambda body: next(answers)) as server, FileStore(folder / "memory") as store:
            model, session = open_at(server.url, "anthropic:claude-any", folder), SessionFile(store.state, id)
            for end in (starts[len(starts) // 2], len(messages)):
                news = [make_message(at) for at in messages[:end]]
                self.done.append(update_notes(file, session, news, now=now, model=model, force=True))
            self.problems = server.problems
        self.is_over = next(answers, None) is None
        self.text = read_notes_file(file) or ""

    def find_missing(self) -> list[str]:
        text = self.text.casefold()
        gold = (at for at in self.row["gold"] if at["action"] != "delete")
        return [
            at["statement"]
            for at in gold
            if not all(any(alt.casefold() in text for alt in must.split("|")) for must in at["must"])
        ]


@pytest.mark.parametrize("key", RECORDED)
def test_notes_with_a_capable_models_answers(key: str, tmp_path: Path) -> None:
    noted = Noted(key, tmp_path)
    assert (noted.problems, noted.is_over) == ([], True), "each answer is taken over as it is"
    assert all((at.by, at.skipped, at.changed, at.error, at.cut) == ("model", None, True, "", ()) for at in noted.done)
    notes = parse_notes(noted.text)
    assert [at.heading for at in notes.sections] == [at.heading for at in make_template().sections]
    assert not list_oversize(notes) and measure_notes(notes) < NOTES_TOKENS
    state = notes.find("Current State")
    assert state is not None and state.text.splitlines()[0] in hook_digest(notes)
    assert noted.find_missing() == LEFT.get(key, [])
    assert [word for word in noted.row["planted"] if word.casefold() in noted.text.casefold()] == []
